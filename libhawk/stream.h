/* Jobs on sessions with dists (net/api.client, API_SESSION): each is submitted, and moved to another dist when its own is lost
 * (docs/protocol.md 9), until the ends of all its tasks are known. */
#ifndef HAWK_LIBHAWK_STREAM_H
#define HAWK_LIBHAWK_STREAM_H

#include "libhawk/client_impl.h"

struct streams;
struct stream;

/* Embedded in the caller's job. */
struct stream_job {
    uint64_t tag; /* what it is called on every stream */
    struct movable_job *movable;
    struct stream *at;   /* NULL: nowhere yet, or it is over */
    struct list in_list; /* at->unsent or at->sent; or streams.homeless */
    bool sent, cancel;
    UT_hash_handle hh; /* by tag, until it is over */
};

struct stream_fns {
    /* A task's end, each once. */
    void (*task)(void *arg, struct stream_job *j, const struct api_session_task *t);
    /* It is over: an end, or (err) why there will be none. */
    void (*over)(void *arg, struct stream_job *j, enum job_state state, bool abandoned, int err,
                 const char *text);
};

struct streams *streams_new(struct client *client, const struct stream_fns *fns, void *arg);
/* Its jobs are nobody's any more. NULL is fine. */
void streams_free(struct streams *ss);
/* j is zeroed; desc is referenced. It leaves with the next turn. */
void streams_submit(struct streams *ss, struct stream_job *j, struct job_desc *desc);
void streams_cancel(struct streams *ss, struct stream_job *j);
/* Nobody wants to hear of j any more: it is cancelled. */
void streams_forget(struct streams *ss, struct stream_job *j);
/* Turns the loop once, waiting at most until until_us. */
void streams_turn(struct streams *ss, int64_t until_us);

#endif
