/* Memory. These functions abort with a message when memory runs out. A daemon then restarts, and loses
 * nothing that it accepted, since that is in its journal. Named limits bound whatever a peer or user can
 * make large, before it is allocated. */
#ifndef HAWK_BASE_MEM_H
#define HAWK_BASE_MEM_H

#include <stddef.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((returns_nonnull));
/* Zeroed; align: a power of two that divides size. */
void *xaligned(size_t align, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((returns_nonnull));
/* Copies n bytes (data may be NULL if there are none), and puts a NUL behind them. */
void *xmemdup0(const void *data, size_t n) __attribute__((malloc, returns_nonnull));

/* Makes room for one more element in a (pointer, count, capacity) array. */
#define vec_grow(v, n, cap)                                                                                  \
    do {                                                                                                     \
        if ((n) == (cap)) {                                                                                  \
            (cap) = (cap) ? (cap)*2 : 8;                                                                     \
            (v) = xrealloc((v), (size_t)(cap) * sizeof *(v));                                                \
        }                                                                                                    \
    } while (0)

#endif
