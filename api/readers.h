/* Reads files on threads of its own. A path that a user chose may hang (a dead network mount), and the
 * loop's thread must not hang with it (DESIGN 5.6). A hanging read holds one of few threads, so at worst
 * `hawk cat` stops working. */
#ifndef HAWK_API_READERS_H
#define HAWK_API_READERS_H

#include "base/list.h"
#include "net/api.h"
#include "net/loop.h"

#include <sys/types.h>

#define READ_BYTES API_CHUNK_BYTES /* one read makes one chunk */

/* One read. The caller allocates it; the function that gets it back frees it. */
struct file_read {
    struct list link;
    char *path;      /* opened when fd is negative; owned */
    int fd;          /* -1: to be opened; owned */
    uint64_t offset; /* where to read */
    void (*done)(void *arg, struct file_read *r);
    void *arg; /* the caller's; NULL once the caller is gone */
    /* The result: n bytes of data, 0 at the end; or -1 with err an errno. fd stays negative when it could
     * not be opened; n is 0 then where the file was removed empty (exec_output_was_empty). */
    ssize_t n;
    int err;
    bool cut_short; /* at the end: the file has the mark for that (EXEC_OUTPUT_CUT) */
    uint8_t *data;  /* allocated when it is read; owned */
};

struct readers;
struct readers *readers_new(struct loop *l);
/* r->done is called on the loop thread, after this has returned. */
void readers_submit(struct readers *rs, struct file_read *r);
/* Closes its file and frees it. */
void file_read_free(struct file_read *r);
/* For the end of the process: the loop must not turn again. Reads that are still under way are given back to
 * nobody. NULL is fine. */
void readers_free(struct readers *rs);

#endif
