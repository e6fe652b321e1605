/* A job that this process submitted and waits for: all that is needed to move it to another dist when the
 * one that has it does not answer (docs/protocol.md 9). It knows nothing of connections. */
#ifndef HAWK_LIBHAWK_MOVABLE_JOB_H
#define HAWK_LIBHAWK_MOVABLE_JOB_H

#include "net/api.h"

#include <grpc/status.h>

struct movable_job {
    job_id_t job;          /* JOB_NONE: no dist has answered yet */
    struct job_desc *desc; /* a reference */
    uint64_t key;          /* the key of all its submissions */
    uint64_t receipt;      /* of its id; 0: none */
    int64_t submit_us;     /* time of the first submission, by the caller's clock */
    uint16_t epoch, long_epoch;
    bool asked; /* a dist was asked to take it, and has not answered */
    bool held;  /* its tasks that have not started do not start */
    uint8_t class, why;
    uint32_t ended_n;
    struct resubmit_task *ended; /* by task; state TASK_WAITING: no end is known */
};

struct movable_job *movable_job_new(struct job_desc *desc, int64_t now_us);
/* NULL is fine. */
void movable_job_free(struct movable_job *j);
void movable_job_submitted(struct movable_job *j, const struct api_submit_reply *r);
/* Takes in an event of the job, and removes from it the tasks whose ends were known. So every end is
 * passed on once, whichever dist reports it. */
void movable_job_event(struct movable_job *j, struct api_event *e);
/* Takes in one task's news: returns whether it is new. */
bool movable_job_task(struct movable_job *j, const struct api_task *t);
/* Whether every task's end is known. */
static inline bool movable_job_complete(const struct movable_job *j) { return j->ended_n == j->desc->tasks; }
/* Fills a request that moves the job, under its next epoch. The caller frees its `ended`. HAWK_ELIMIT: it
 * was moved too often. */
HAWK_MUST_USE int movable_job_move(struct movable_job *j, int64_t now_us, struct api_submit_request *r);
/* Fills the part of a request that watches the job where it is although other dists were asked to take it:
 * one of them may have taken it after its time was over. */
void movable_job_stay(struct movable_job *j, struct api_watch_request *r);
/* A dist has refused to take over the job, which another one had accepted. True: so would every other. False: ask
 * elsewhere, or there later. */
bool movable_job_note_refusal(struct movable_job *j, grpc_status_code status);
/* Whether the reason is a limit: it is to wait, however long, and the dist is not silent. */
static inline bool movable_job_has_no_room(grpc_status_code status)
{
    return status == GRPC_STATUS_RESOURCE_EXHAUSTED;
}
/* Whether a dist's answer to such a request says that it has taken the job under its own id. */
bool movable_job_taken(struct movable_job *j, const uint8_t *reply, size_t len);

#endif
