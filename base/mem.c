/* See mem.h. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does not use stdio, which may need memory itself. */
static _Noreturn void out_of_memory(void)
{
    static const char text[] = "hawk: out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);

    (void)ignored;
    abort();
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1); /* malloc(0) may return NULL without being out of memory */

    if (!p)
        out_of_memory();
    return p;
}

/* glibc's calloc does not use its per-thread cache, whose pieces are likely in the processor's cache. So
 * small pieces come from malloc and are zeroed here. */
#define SMALL 1024u

void *xcalloc(size_t n, size_t size)
{
    if (n <= SMALL && size <= SMALL && n * size <= SMALL)
        return memset(xmalloc(n * size), 0, n * size);
    void *p = calloc(n, size);
    if (!p)
        out_of_memory();
    return p;
}

void *xaligned(size_t align, size_t size)
{
    size = (size + align - 1) / align * align; /* aligned_alloc takes whole multiples only */
    void *p = aligned_alloc(align, size);
    if (!p)
        out_of_memory();
    return memset(p, 0, size);
}

void *xrealloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);

    if (!q)
        out_of_memory();
    return q;
}

char *xstrdup(const char *s) { return xmemdup0(s, strlen(s)); }

void *xmemdup0(const void *data, size_t n)
{
    char *copy = xmalloc(n + 1);

    if (n > 0)
        memcpy(copy, data, n);
    copy[n] = '\0';
    return copy;
}
