/* Which bytes are UTF-8 characters, and which of these people may be shown. */
#ifndef HAWK_BASE_UTF8_H
#define HAWK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 character that starts at s[0 .. n-1], 0 when there is none. n > 0. */
size_t utf8_length(const unsigned char *s, size_t n);
/* The number of the character at s, of len bytes. */
unsigned utf8_code(const unsigned char *s, size_t len);
/* Puts '?' in place of every byte that belongs to no character. */
void utf8_mend(void *text, size_t len);
/* Whether the character at s, of len bytes, does something where it is shown, or hides: it moves the cursor, ends a line,
 * changes the terminal, turns the direction of what follows, or takes no room at all. */
bool utf8_acts(const unsigned char *s, size_t len);
/* Makes text safe to show: '?' in place of every character that acts and of every byte that belongs to none, a blank in
 * place of a tab. Returns its new length, which is not above len. */
size_t utf8_tame(void *text, size_t len);

#endif
