/* Refcounted bytes. */
#include "base/blob.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct blob *blob_new(const void *data, size_t len)
{
    struct blob *b;

    CHECK(len < UINT32_MAX); /* named limits keep every payload far below */
    b = xmalloc(sizeof *b + len + 1);
    b->refs = 1;
    b->len = (uint32_t)len;
    if (data)
        memcpy(b->data, data, len);
    else
        memset(b->data, 0, len);
    b->data[len] = '\0';
    return b;
}

struct blob *blob_str(const char *text) { return blob_new(text, strlen(text)); }

struct blob *blob_cut(struct blob *b, size_t max)
{
    size_t n = max;

    if (b->len <= max)
        return blob_ref(b);
    while (n > 0 && ((unsigned char)b->data[n] & 0xc0) == 0x80)
        n--;
    return blob_new(b->data, n);
}

void blob_drop(struct blob *b)
{
    if (!b)
        return;
    CHECK(b->refs > 0);
    if (--b->refs == 0)
        free(b);
}
