/* What an owner takes for a job, and what the end of a task means. */
#ifndef HAWK_OWNER_JOBS_H
#define HAWK_OWNER_JOBS_H

#include "msg/msg.h"

/* Whether a job has a description with as many tasks as are allowed, and an epoch; and whether `set`, if it
 * is not NULL, names at least `least` of its tasks in ascending order. */
bool owner_job_valid(const struct job_desc *desc, uint16_t epoch, const struct task_set *set, uint32_t least);
/* The state of a task that has ended so. */
static inline enum task_state owner_final_state(enum outcome outcome, int32_t code)
{
    switch (outcome) {
    case OUTCOME_EXITED:
        return code == 0 ? TASK_DONE : TASK_FAILED;
    case OUTCOME_CANCELLED:
        return TASK_CANCELLED;
    case OUTCOME_LOST:
        return TASK_LOST;
    default:
        return TASK_FAILED;
    }
}

#endif
