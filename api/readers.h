/* Reads files on threads of its own: a path that users chose may hang (a dead network mount), and the loop thread must
 * not hang with it (DESIGN 5.6). A read that hangs costs one of few threads, and so at worst `hawk cat`. */
#ifndef HAWK_API_READERS_H
#define HAWK_API_READERS_H

#include "base/list.h"
#include "net/api.h"
#include "net/loop.h"

#include <sys/types.h>

#define READ_BYTES API_CHUNK_BYTES /* what is read at once goes out as one chunk */

/* One read. Allocated by who asks for it, freed by the function that it is given back to. */
struct file_read {
    struct list link;
    char *path;      /* opened when fd is negative; owned */
    int fd;          /* -1: to be opened; owned */
    uint64_t offset; /* where to read */
    void (*done)(void *arg, struct file_read *r);
    void *arg; /* the asker's; NULL once it is gone */
    /* The result: n bytes of data, 0 at the end; or -1 with err an errno. fd stays negative when it could not be opened. */
    ssize_t n;
    int err;
    bool cut_short; /* at the end: the file is marked so (EXEC_OUTPUT_CUT) */
    uint8_t data[READ_BYTES];
};

struct readers;
struct readers *readers_new(struct loop *l);
/* r->done is called on the loop thread, after this has returned. */
void readers_submit(struct readers *rs, struct file_read *r);
/* Closes its file and frees it. */
void file_read_free(struct file_read *r);
/* What is still being read is given back to nobody. NULL is fine. */
void readers_free(struct readers *rs);

#endif
