/* Workers that could not start tasks of a job (docs/protocol.md 3.13). Such a task has not run, so the failed start
 * costs no retry. The job avoids these workers while there are others. When the task has started at another worker,
 * the owner tells the first one that it was to blame (START_BLAMED). */
#ifndef HAWK_OWNER_STARTS_H
#define HAWK_OWNER_STARTS_H

#include "msg/msg.h"

#define OWNER_BLAMED UINT32_MAX

/* A worker that could not start a task of the job. */
struct owner_failure {
    node_id_t node;
    uint32_t task; /* the first such task; OWNER_BLAMED: it has started elsewhere, and the worker was told */
};

/* The failures of one job.
 *
 *   n <= START_FAILURES_MAX, no two are of one node;  v[i].task < number of the job's tasks, or BLAMED
 *   unstartable => n > 0 */
struct owner_starts {
    struct owner_failure *v;
    uint32_t n, cap;
    bool begun;       /* some task has run, as far as the owner knows: the job can be started */
    bool unstartable; /* a task has failed to start wherever it could, and none has started since */
};

/* A task of the job has ended so, by the journal or by what the client knows. */
static inline void owner_starts_recovered(struct owner_starts *starts, enum outcome outcome)
{
    starts->begun |= outcome == OUTCOME_EXITED || outcome == OUTCOME_SIGNALED ||
                     outcome == OUTCOME_TIME_LIMIT || outcome == OUTCOME_OUT_OF_MEMORY;
}

/* Whether the job avoids the worker where there are others. */
bool owner_starts_avoid(const struct owner_starts *starts, node_id_t node);
/* A worker could not start a task. *unstarted is the number of this task's launches that failed so, and grows by one.
 * Returns whether the owner may launch the task at another worker, if there is one. */
bool owner_starts_failed(struct owner_starts *starts, node_id_t node, uint32_t task, uint16_t *unstarted);
/* A task has failed to start wherever it could. If no task of the job has run, the job itself cannot be started: the
 * others fail at their first launch, as long as none starts. */
static inline void owner_starts_give_up(struct owner_starts *starts)
{
    starts->unstartable |= !starts->begun;
}
/* A task has started. Returns whether a worker could not start one of the job: owner_starts_blame says which. */
static inline bool owner_starts_began(struct owner_starts *starts)
{
    starts->begun = true;
    return starts->n > 0;
}
/* The task has started at `node`. If another worker could not start it, returns true and sets *blamed to that worker.
 * Call it again until it returns false. */
bool owner_starts_blame(struct owner_starts *starts, node_id_t node, uint32_t task, node_id_t *blamed);

/* Aborts unless the invariant holds for a job of so many tasks. */
void owner_starts_check(const struct owner_starts *starts, uint32_t tasks);

#endif
