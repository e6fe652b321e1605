/* Which bytes are UTF-8 characters. */
#ifndef HAWK_BASE_UTF8_H
#define HAWK_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 character that starts at s[0 .. n-1], 0 when there is none. n > 0. */
size_t utf8_length(const unsigned char *s, size_t n);
/* Puts '?' in place of every byte that belongs to no character. */
void utf8_mend(void *text, size_t len);

#endif
