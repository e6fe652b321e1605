/* Takes the jobs of hawk.h to streams (stream.h), and brings their news back in order. It does so in the
 * program's thread, when that calls carrier_turn(). Or a thread of the carrier does: from carrier_fd() on, it
 * alone uses the client and the streams, and the program's thread never waits for them. */
#ifndef HAWK_LIBHAWK_CARRIER_H
#define HAWK_LIBHAWK_CARRIER_H

#include "libhawk/stream.h"

enum news_what {
    NEWS_ACCEPTED,
    NEWS_TASK, /* a task's end */
    NEWS_OVER,
    NEWS_FORGOTTEN, /* the last: nothing but its owner uses the job any more */
};

struct news {
    enum news_what what;
    struct carried_job *job;
    job_id_t id;              /* accepted; over: JOB_NONE if no dist took it */
    struct resubmit_task end; /* task */
    struct blob *result;      /* task; NULL: none */
    struct blob *text;        /* task: its message; over: why; NULL: none */
    bool result_lost;         /* task */
    bool abandoned;           /* over */
    enum job_state state;     /* over */
    int err;                  /* over: why there is no state; 0: there is */
};
/* Drops what it holds. */
void news_drop(struct news *n);

struct carrier;

/* Embedded in the program's job, which must live until NEWS_FORGOTTEN or carrier_free(). */
struct carried_job {
    struct stream_job stream;
    struct carrier *carrier;
    struct job_desc *desc; /* NULL: the streams have it */
};

struct carrier *carrier_new(struct client *client);
/* Ends the thread and frees the streams. Jobs and the client stay their owners'. NULL is fine. */
void carrier_free(struct carrier *c);
/* Starts the thread, if there is none. A descriptor that is readable while news waits, or a negative error number. */
int carrier_fd(struct carrier *c);
/* Takes over the caller's reference on desc; nobody else may have one on it or on its parts. */
void carrier_submit(struct carrier *c, struct carried_job *j, struct job_desc *desc);
void carrier_cancel(struct carried_job *j);
/* Cancels j if it is not over. Its NEWS_FORGOTTEN comes. */
void carrier_forget(struct carried_job *j);
/* Waits for news, at most until until_us; may return without any. */
void carrier_turn(struct carrier *c, int64_t until_us);
/* Returns how many news there are, and sets *v to them, which the caller drops and frees. */
uint32_t carrier_take(struct carrier *c, struct news **v);

#endif
