/* Which bytes are UTF-8 characters, and which characters are safe to show. */
#ifndef HAWK_BASE_UTF8_H
#define HAWK_BASE_UTF8_H

#include "base/blob.h"

#include <stdbool.h>
#include <stddef.h>

/* The length in bytes of the UTF-8 character at s[0 .. n-1]; 0 when there is none. n > 0. */
size_t utf8_length(const unsigned char *s, size_t n);
/* The number of the character at s, of len bytes. */
unsigned utf8_code(const unsigned char *s, size_t len);
/* Puts '?' in place of every byte that belongs to no character. */
void utf8_mend(void *text, size_t len);
/* Whether the character at s (len bytes) acts on the display instead of being shown. Such a character
 * moves the cursor, ends a line, changes the terminal, turns the direction of the text that follows, or
 * takes no room. */
bool utf8_acts(const unsigned char *s, size_t len);
/* Makes text safe to show: '?' replaces every character that acts and every byte that belongs to no
 * character; a blank replaces a tab. Returns the new length, which is at most len. */
size_t utf8_tame(void *text, size_t len);
/* The same with the first max bytes of b, whose reference it takes, as a new blob; NULL: NULL. */
struct blob *utf8_tame_blob(struct blob *b, size_t max);
/* len, or up to 3 less where a text that was cut there ends with a part of a character. */
size_t utf8_whole(const void *text, size_t len);

#endif
