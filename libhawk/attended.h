/* A job that this process submitted and waits for: enough to move it to another dist when the one that has it does
 * not answer any more (docs/protocol.md 9). Knows nothing of connections. */
#ifndef HAWK_LIBHAWK_ATTENDED_H
#define HAWK_LIBHAWK_ATTENDED_H

#include "net/api.h"

struct attended {
    job_id_t job;          /* JOB_NONE: no dist has answered yet */
    struct job_desc *desc; /* a reference */
    uint64_t key;          /* of every submission of it */
    int64_t submit_us;     /* of the first one, by the caller's clock */
    uint16_t epoch, long_epoch;
    bool asked; /* a dist was asked to take it, and was not heard to */
    uint8_t class, why;
    uint32_t ended_n;
    struct resubmit_task *ended; /* by task; state TASK_WAITING: its end was not heard of */
};

struct attended *attended_new(struct job_desc *desc, int64_t now_us);
/* NULL is fine. */
void attended_free(struct attended *a);
void attended_submitted(struct attended *a, const struct api_submit_reply *r);
/* Takes in what an event of the job says, and takes out of it the tasks whose ends were known: every end is passed on
 * once, whoever tells it. */
void attended_event(struct attended *a, struct api_event *e);
/* The same of one task: whether what it says is news. */
bool attended_task(struct attended *a, const struct api_task *t);
/* Every task's end is known. */
static inline bool attended_complete(const struct attended *a) { return a->ended_n == a->desc->tasks; }
/* Fills a request that moves the job, under its next epoch; `ended` in it is the caller's to free. HAWK_ELIMIT: it was
 * moved too often. */
HAWK_MUST_USE int attended_move(struct attended *a, int64_t now_us, struct api_submit_request *r);
/* Fills the part of a request that watches the job where it is, although other dists were asked to take it: one of them may
 * have, after its time was over. */
void attended_stay(struct attended *a, struct api_watch_request *r);
/* Whether that, what a dist answered to such a request, says that it has taken the job under its own id. */
bool attended_taken(struct attended *a, const uint8_t *reply, size_t len);

#endif
