/* See scope.h. */
#include "msg/scope.h"

#include <stdio.h>
#include <string.h>

static const char *const texts[SCOPE_COUNT] = {
#define X(name, text) text,
    SCOPES(X)
#undef X
};

const char *scopes_format(char buf[SCOPES_TEXT], unsigned scopes)
{
    size_t n = 0;

    snprintf(buf, SCOPES_TEXT, "none");
    for (int i = 0; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i)
            n += (size_t)snprintf(buf + n, SCOPES_TEXT - n, "%s%s", n ? "," : "", texts[i]);
    return buf;
}

enum scope scope_parse(const char *text, size_t len)
{
    for (int i = 0; i < SCOPE_COUNT; i++)
        if (strlen(texts[i]) == len && memcmp(texts[i], text, len) == 0)
            return (enum scope)(1u << i);
    return SCOPE_NONE;
}

bool scopes_parse(const char *text, unsigned *scopes)
{
    size_t len;

    for (*scopes = 0;; text += len + 1) {
        enum scope one = scope_parse(text, len = strcspn(text, ","));
        *scopes |= one;
        if (!one || !text[len])
            return one;
    }
}
