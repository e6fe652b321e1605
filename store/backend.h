/* What the store's thread (store.c) asks of where things are kept: a file of SQLite's (sqlite.c, file.c, rows.c) or etcd
 * (etcd_rows.c). Calls may block; never two at a time. */
#ifndef HAWK_STORE_BACKEND_H
#define HAWK_STORE_BACKEND_H

#include "base/err.h"
#include "msg/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message on its way to be kept, free of handles: what these held is copied, so that another thread
 * may use it. */
struct entry {
    struct entry *next;
    struct msg m; /* every handle NULL */
    size_t bytes; /* what it takes in memory */
    size_t text_len, tasks_len;
    uint8_t *text;  /* a name, an encoded job description, or an encoded choice of policy; NULL: none */
    uint8_t *tasks; /* an encoded task set; NULL: none */
};

/* Whether bytes that were kept as a job's or node's name can be one: messages with others are refused. */
bool name_is_good(const void *name, size_t len);

/* Unix time; and how long ago that was, never negative: the clock may have been put back. */
int64_t wall_us(void);
int64_t wall_ago_us(int64_t at_us);

/* NULL: a message that is not kept. */
struct entry *entry_new(const struct msg *m);
void entry_free(struct entry *e);

struct backend; /* a backend's own */

struct backend_ops {
    /* Makes durable, in order, `first` and as many after it as go together; *last is the last of those, or of those that
     * were tried. HAWK_EIO: to be tried again. HAWK_ESTALE: another central leads; never again. */
    int (*commit)(struct backend *b, const struct entry *first, const struct entry **last);
    /* As store_recover, store_meta_get and store_meta_set. */
    int (*recover)(struct backend *b, void (*fn)(void *arg, const struct msg *m), void *arg);
    int (*meta_get)(struct backend *b, const char *key, uint64_t *value);
    int (*meta_set)(struct backend *b, const char *key, uint64_t value);
    /* As store_own. NULL: it has no owner. */
    int (*own)(struct backend *b, const char *owner);
    /* Makes unreadable what commits have taken away since it was called last. HAWK_EIO: to be tried again. NULL: nothing is
     * left of it. */
    int (*scrub)(struct backend *b);
    int64_t scrub_ms; /* so soon, and at most that often */
    /* Where it is, and what was wrong with the last call that failed. */
    const char *(*name)(const struct backend *b);
    const char *(*why)(const struct backend *b);
    /* From any thread: calls under way fail soon. NULL: they do not last. */
    void (*interrupt)(struct backend *b);
    void (*close)(struct backend *b);
};

#endif
