/* Pauses of a job's tasks (POLICY_PAUSE): how often and how long a task stood still, and for which short task.
 * Workers report them (TASK_PAUSED). The owner keeps them for the first OWNER_PAUSES_MAX paused tasks of a job. */
#ifndef HAWK_OWNER_PAUSES_H
#define HAWK_OWNER_PAUSES_H

#include "msg/msg.h"
#include "msg/view.h"

#define OWNER_PAUSES_MAX 10000u

struct owner_pause {
    uint32_t task;
    uint32_t times;    /* number of pauses in the try `attempt` */
    int64_t us;        /* total length of these pauses, without the present one */
    int64_t since_us;  /* when the present pause began; TIME_NEVER: the task does not stand still */
    int64_t us_before; /* `us` and `times` of this try at an earlier process of its worker */
    uint32_t times_before;
    uint32_t earlier_times; /* of earlier tries */
    int64_t earlier_us;
    uint32_t for_task; /* the last pause was for this task of for_job */
    job_id_t for_job;
    uint16_t attempt; /* of the last report */
};

/* The pauses of one job.
 *
 *   n <= OWNER_PAUSES_MAX;  v[i].task < v[i + 1].task < number of the job's tasks */
struct owner_pauses {
    struct owner_pause *v;
    uint32_t n, cap;
};

/* A worker reports the pauses of a task. Keeps the report if the job has room for the task. O(n) for the task's
 * first report, O(log n) for later ones. */
void owner_pause_note(struct owner_pauses *pauses, uint32_t task, const struct msg_task_paused *m,
                      int64_t now_us);
/* The task runs no more: ends its present pause, if there is one. O(log n). */
void owner_pause_end_any(struct owner_pauses *pauses, uint32_t task, int64_t now_us);
/* The same. Makes no call in the usual case: no task of the job was paused. */
static inline void owner_pause_end(struct owner_pauses *pauses, uint32_t task, int64_t now_us)
{
    if (pauses->n > 0)
        owner_pause_end_any(pauses, task, now_us);
}
/* The pauses of a task, borrowed; NULL if the owner knows of none. O(log n). */
const struct owner_pause *owner_pause_find(const struct owner_pauses *pauses, uint32_t task);
/* The total length of the pauses of a task's try until now_us. */
int64_t owner_pause_us(const struct owner_pause *pause, uint16_t attempt, int64_t now_us);
/* Fill in the pauses in the view of a job, all of them, O(n), or of the task's try v->attempt, O(log n). */
void owner_pauses_view(const struct owner_pauses *pauses, int64_t now_us, struct job_view *v);
void owner_pause_view(const struct owner_pauses *pauses, uint32_t task, int64_t now_us, struct task_view *v);
/* Fills in a TASK_PAUSED about the try pause->attempt, as of now_us, for a dist that has not heard of its pauses.
 * Leaves m->id and m->run_us to the caller. */
void owner_pause_say(const struct owner_pause *pause, int64_t now_us, struct msg_task_paused *m);
void owner_pauses_free(struct owner_pauses *pauses);
/* Aborts unless the invariant holds for a job of so many tasks. */
void owner_pauses_check(const struct owner_pauses *pauses, uint32_t tasks);

#endif
