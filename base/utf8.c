/* UTF-8: see utf8.h. */
#include "base/utf8.h"

size_t utf8_length(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and what is above U+10FFFF */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

void utf8_mend(void *text, size_t len)
{
    unsigned char *s = text;

    while (len > 0) {
        size_t one = s[0] < 0x80 ? 1 : utf8_length(s, len);

        if (one == 0) {
            *s = '?';
            one = 1;
        }
        s += one;
        len -= one;
    }
}
