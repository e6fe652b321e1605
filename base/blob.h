/* Refcounted immutable bytes and strings: the handles that messages carry in place of bulk.
 * Single-threaded. */
#ifndef HAWK_BASE_BLOB_H
#define HAWK_BASE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct blob {
    uint32_t refs;
    uint32_t len;
    char data[]; /* len bytes and a NUL that len does not count */
};

/* A new blob with one reference; data may be NULL (zeroed, for the caller to fill before sharing). */
struct blob *blob_new(const void *data, size_t len);
/* For a text: a new reference on b if it has at most max bytes, else a new blob with its beginning, cut
 * between UTF-8 characters. */
struct blob *blob_cut(struct blob *b, size_t max);
struct blob *blob_str(const char *text);
static inline struct blob *blob_ref(struct blob *b)
{
    if (b)
        b->refs++;
    return b;
}
void blob_drop(struct blob *b); /* NULL is fine */
static inline bool blob_eq(const struct blob *a, const struct blob *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

#endif
