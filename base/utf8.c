/* UTF-8: see utf8.h. */
#include "base/utf8.h"

#include "base/mem.h"

#include <stdlib.h>

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

unsigned utf8_code(const unsigned char *s, size_t len)
{
    unsigned code = len == 1 ? s[0] : s[0] & (0x7fu >> len);

    for (size_t i = 1; i < len; i++)
        code = code << 6 | (s[i] & 0x3fu);
    return code;
}

bool utf8_acts(const unsigned char *s, size_t len)
{
    static const struct {
        unsigned first, last;
    } acting[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},                       /* controls of ASCII and of Latin-1 */
        {0x61c, 0x61c},   {0x200e, 0x200f},                   /* marks of direction */
        {0x2028, 0x202e}, {0x2060, 0x206f},                   /* line ends; embeddings, overrides, isolates */
        {0xad, 0xad},     {0x180e, 0x180e}, {0x200b, 0x200b}, /* what takes no room */
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}, /* likewise */
        {0xfffe, 0xffff},
    };
    unsigned code = utf8_code(s, len);

    for (size_t i = 0; i < sizeof acting / sizeof *acting; i++)
        if (code >= acting[i].first && code <= acting[i].last)
            return true;
    return false;
}

size_t utf8_tame(void *text, size_t len)
{
    unsigned char *from = text, *to = text, *end = from + len;

    while (from < end) {
        size_t one = utf8_length(from, (size_t)(end - from));

        if (one == 0 || utf8_acts(from, one)) {
            *to++ = *from == '\t' ? ' ' : '?';
            from += one ? one : 1;
            continue;
        }
        while (one-- > 0)
            *to++ = *from++;
    }
    return (size_t)(to - (unsigned char *)text);
}

size_t utf8_whole(const void *text, size_t len)
{
    const unsigned char *s = text;

    for (size_t i = 1; i <= 3 && i <= len; i++) {
        unsigned char c = s[len - i];

        if ((c & 0xc0) == 0xc0)
            return i < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u) ? len - i : len;
        if (c < 0x80)
            return len;
    }
    return len;
}

struct blob *utf8_tame_blob(struct blob *b, size_t max)
{
    if (!b)
        return NULL;
    size_t len = b->len < max ? b->len : max;
    char *text = xmemdup0(b->data, len);
    struct blob *tame = blob_new(text, utf8_tame(text, len));
    blob_drop(b);
    free(text);
    return tame;
}
