/* Rules for a job that are the same in dist and central: which jobs are valid, in which state a task ends, and what
 * the run times of a job's tasks show. */
#ifndef HAWK_OWNER_JOBS_H
#define HAWK_OWNER_JOBS_H

#include "msg/msg.h"

/* Whether a job has a description with as many tasks as are allowed, and an epoch; and whether `set`, if it
 * is not NULL, names at least `least` of its tasks in ascending order. */
bool owner_job_valid(const struct job_desc *desc, uint16_t epoch, const struct task_set *set, uint32_t least);
/* The state of a job that has ended, by the numbers of its tasks in each state. by_client: a client cancelled it. */
static inline enum job_state owner_job_end_state(const uint32_t in[TASK_STATE_COUNT], bool by_client)
{
    if (by_client && in[TASK_CANCELLED] > 0)
        return JOB_CANCELLED;
    if (in[TASK_FAILED] + in[TASK_LOST] > 0)
        return JOB_FAILED;
    return in[TASK_CANCELLED] > 0 ? JOB_CANCELLED : JOB_DONE;
}

/* Whether so many tasks have failed, or were lost, that the rest is cancelled (JobSpec.max_fails). */
static inline bool owner_failed_too_often(const struct job_desc *desc, const uint32_t in[TASK_STATE_COUNT])
{
    return desc->max_fails > 0 && in[TASK_FAILED] + in[TASK_LOST] >= desc->max_fails;
}

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

/* What TASK_FINISHED says of a try (docs/protocol.md 3.7, 3.11). */
enum owner_finish {
    FINISH_ENDED,        /* the first one that says so ends the task, unless it is to run again */
    FINISH_GIVEN_UP,     /* no end of the task: the worker stops, or was told to end the try */
    FINISH_REFUSED,      /* the same, and the try never started: the worker has no room for it */
    FINISH_CANNOT_START, /* the same: the worker could not start it, and another one may */
};

/* started: the try had started, as far as the owner knows. */
static inline enum owner_finish owner_finish_of(const struct msg_task_finished *m, bool started)
{
    if (m->outcome != OUTCOME_LOST && m->outcome != OUTCOME_CANCELLED)
        return FINISH_ENDED;
    if (started || m->outcome == OUTCOME_CANCELLED || m->code >= 0)
        return FINISH_GIVEN_UP;
    return m->code == HAWK_ECANNOT_START ? FINISH_CANNOT_START : FINISH_REFUSED;
}

/* Whether a task whose try was lost may be tried again. sent: the try may have reached a worker. started: it ran, as
 * far as the owner knows; a try that never started costs no retry. tries: how many tries of the task have started,
 * with this one. */
static inline bool owner_may_retry(const struct job_desc *desc, bool sent, bool started, uint32_t tries)
{
    /* At most once: a task that was sent may have run, even if its worker did not report that. */
    return desc->flags & JOB_AT_MOST_ONCE ? !sent : !started || tries <= desc->lost_retries;
}

/* The run time that a job's tasks show together (docs/protocol.md 7): `n` tasks have run for `us` in all. */
struct owner_shown {
    __int128 us;
    uint64_t n;
};

/* Adds up: `ran` tasks have exited with 0, after ran_us in all; `running` tasks run, and have run for ages_us in all
 * so far. */
static inline struct owner_shown owner_shown(unsigned __int128 ran_us, uint32_t ran, __int128 ages_us,
                                             uint32_t running)
{
    return (struct owner_shown){.us = (__int128)ran_us + ages_us, .n = (uint64_t)ran + running};
}
/* The mean; 0 if no task has run. */
static inline __int128 owner_shown_mean(struct owner_shown s) { return s.n > 0 ? s.us / (__int128)s.n : 0; }
/* Whether the mean is at least us, which must be above 0. False if no task has run. */
static inline bool owner_shown_reaches(struct owner_shown s, int64_t us)
{
    return s.n > 0 && s.us >= (__int128)us * (__int128)s.n;
}

#endif
