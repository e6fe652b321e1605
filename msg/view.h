/* What a role shows of a job, a task and a reservation. Dist and central fill these structs; the API
 * encodes them. */
#ifndef HAWK_MSG_VIEW_H
#define HAWK_MSG_VIEW_H

#include "msg/types.h"

/* Durations are counted to the `now` that the caller passes. -1 means: not yet. */
struct job_view {
    job_id_t job;
    const struct job_desc *desc; /* borrowed */
    node_id_t owner;             /* the node that schedules it now: its dist, or NODE_CENTRAL */
    uint8_t state;               /* enum job_state */
    uint8_t class;
    uint8_t why;    /* enum class_why */
    bool abandoned; /* cancelled because its client was gone */
    bool by_client; /* its client cancelled it */
    bool held;
    bool
        overstays; /* its tasks show the cutoff, and it was not promoted: it has lost the reserve (protocol 7) */
    job_id_t cause;   /* the predecessor because of which it, or a task of it, was cancelled; JOB_NONE */
    bool no_executor; /* tasks of it wait because no worker serves their application */
    uint16_t epoch;
    int64_t estimate_us; /* the estimate that decided the class; 0: none */
    int64_t cutoff_us;   /* the cutoff then */
    uint32_t waiting, placed, running, done, failed, cancelled,
        lost;            /* tasks; placed includes launched: a worker has the task and has not started it */
    int64_t age_us;      /* since submission */
    int64_t response_us; /* submission to end; -1 while unfinished */
    int64_t first_start_us; /* submission to the first task's start; -1 */
    uint32_t probes_sent, probes_live, probes_cancelled, probes_unused, probes_lost, reservations_stolen;
    uint32_t paused, pauses; /* running tasks that stand still now; pauses of all tasks */
    int64_t paused_us;       /* all these together */
    struct usage_total total;
};

struct task_view {
    uint32_t task;
    uint8_t state;   /* enum task_state */
    uint8_t outcome; /* enum outcome */
    uint8_t stolen;  /* it ran through a stolen reservation */
    uint16_t attempt;
    uint16_t failures; /* tries that failed and were followed by another, as far as its dist knows */
    int32_t code;
    node_id_t worker;  /* where it is or ran; NODE_NONE */
    int64_t wait_us;   /* submission to start (queueing); -1 */
    int64_t run_us;    /* -1 while unfinished */
    struct usage used; /* once it has ended */
    const struct blob
        *message; /* why it was not started, or its executor failed, in words, borrowed; NULL: not known */
    const struct blob *result; /* what its executor returned, borrowed; NULL: nothing */
    bool result_lost;          /* the executor returned a result that is not kept any more */
    uint32_t pauses;           /* times that it stood still for a short task */
    uint32_t paused_for_task;  /* the last time for this one */
    job_id_t paused_for;       /* of this job; JOB_NONE: it never did */
    int64_t paused_us;         /* in all */
    int64_t stood_us;          /* it stands still for so long by now; -1: it does not */
};

struct reservation_view {
    node_id_t worker;
    uint32_t count; /* live reservations there */
};

#endif
