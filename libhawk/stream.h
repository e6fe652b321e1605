/* Jobs on sessions with dists (net/api.h, API_SESSION). Each is submitted, and moved to another dist
 * when its own is lost (docs/protocol.md 9), until the ends of all its tasks are known. */
#ifndef HAWK_LIBHAWK_STREAM_H
#define HAWK_LIBHAWK_STREAM_H

#include "libhawk/client_impl.h"

struct streams;
struct stream;

/* Embedded in the caller's job. */
struct stream_job {
    uint64_t tag; /* its tag on every stream */
    struct movable_job *movable;
    struct stream *at;   /* NULL: on no stream yet, or over */
    struct list in_list; /* at->unsent or at->sent; or streams.homeless or .refused */
    bool sent, cancel;
    bool asked;        /* it was refused, is asked for again, and has no answer yet */
    bool is_signed;    /* for `at`, if it has to be */
    UT_hash_handle hh; /* by tag, until it is over */
};

struct stream_fns {
    /* A dist has taken the job for the first time: it has an id. */
    void (*accepted)(void *arg, struct stream_job *j);
    /* Gets a task's end, each once. */
    void (*task)(void *arg, struct stream_job *j, const struct api_session_task *t);
    /* The job is over: its end, or (err) why there will be none. */
    void (*over)(void *arg, struct stream_job *j, enum job_state state, bool abandoned, int err,
                 const char *text);
};

struct streams *streams_new(struct client *client, const struct stream_fns *fns, void *arg);
/* Frees all; its jobs belong to no stream any more. What was cancelled is sent first. NULL is fine. */
void streams_free(struct streams *ss);
/* Submits j, which is zeroed; takes a reference on desc. The job leaves with the next turn. */
void streams_submit(struct streams *ss, struct stream_job *j, struct job_desc *desc);
void streams_cancel(struct streams *ss, struct stream_job *j);
/* Cancels j, since nobody wants its news any more. */
void streams_forget(struct streams *ss, struct stream_job *j);
/* Turns the loop once; waits at most until until_us. */
void streams_turn(struct streams *ss, int64_t until_us);

#endif
