/* Which tasks of a job stood still for short ones (POLICY_PAUSE), for how long, and for whom: as their
 * workers say. The owner keeps this of the first OWNER_PAUSES_MAX tasks of a job. */
#ifndef HAWK_OWNER_PAUSES_H
#define HAWK_OWNER_PAUSES_H

#include "msg/msg.h"
#include "msg/view.h"

#define OWNER_PAUSES_MAX 10000u

struct owner_pause {
    uint32_t task;
    uint32_t times;    /* pauses of the try that was told of last */
    int64_t us;        /* of these, until since_us */
    int64_t since_us;  /* it stands still since then; TIME_NEVER: it does not */
    int64_t us_before; /* of earlier tries, and of what an earlier process of the worker told */
    uint32_t times_before;
    uint32_t for_task; /* whose task the last pause was for */
    job_id_t for_job;
    uint16_t attempt;
};

/* A job's.
 *
 *   n <= OWNER_PAUSES_MAX, by rising task, each of which is one of the job's */
struct owner_pauses {
    struct owner_pause *v;
    uint32_t n, cap;
};

/* Keeps what a worker said of a task, if the job has room for it. O(n) the first time, later O(log n). */
void owner_pause_note(struct owner_pauses *pauses, uint32_t task, const struct msg_task_paused *m,
                      int64_t now_us);
/* A task that stood still runs no more. O(log n). */
void owner_pause_end(struct owner_pauses *pauses, uint32_t task, int64_t now_us);
/* What is known of a task, or NULL: it never stood still. O(log n). */
const struct owner_pause *owner_pause_find(const struct owner_pauses *pauses, uint32_t task);
/* How long a task stood still until now_us, in all. */
int64_t owner_pause_us(const struct owner_pause *pause, int64_t now_us);
/* Fills in what a view shows of the job, or of a task. O(n); O(log n). */
void owner_pauses_view(const struct owner_pauses *pauses, int64_t now_us, struct job_view *v);
void owner_pause_view(const struct owner_pauses *pauses, uint32_t task, int64_t now_us, struct task_view *v);
/* What the worker said last of a task, for somebody who has not heard it, as of now_us; run_us is not known. */
void owner_pause_say(const struct owner_pause *pause, int64_t now_us, struct msg_task_paused *m);
void owner_pauses_free(struct owner_pauses *pauses);
/* Aborts unless the invariant holds for a job of so many tasks. */
void owner_pauses_check(const struct owner_pauses *pauses, uint32_t tasks);

#endif
