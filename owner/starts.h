/* Workers that could not start tasks of a job (docs/protocol.md 3.13): nothing ran, so it costs no retry. The
 * job avoids such a worker as long as there are others, and the worker hears when it was to blame. */
#ifndef HAWK_OWNER_STARTS_H
#define HAWK_OWNER_STARTS_H

#include "msg/msg.h"

#define OWNER_BLAMED UINT32_MAX

/* A worker that could not start a task of the job. */
struct owner_failure {
    node_id_t node;
    uint32_t task; /* the first one; OWNER_BLAMED: the worker has been told that this one started elsewhere */
};

/* A job's.
 *
 *   n <= START_FAILURES_MAX, no two are of one node
 *   unstartable => n > 0 */
struct owner_starts {
    struct owner_failure *v;
    uint32_t n, cap;
    bool unstartable; /* a task has failed to start wherever it could, and none has started since */
};

/* Whether the job avoids the worker where there are others. */
bool owner_starts_avoid(const struct owner_starts *starts, node_id_t node);
/* A worker could not start a task. `unstarted` counts the workers that could not start this task. Returns
 * whether the task may be tried at another worker, if there is one. */
bool owner_starts_failed(struct owner_starts *starts, node_id_t node, uint32_t task, uint16_t *unstarted);
/* A task has started at a worker. Returns whether another worker is to blame for not having started it, and which. The
 * caller asks until there is none. */
bool owner_starts_blame(struct owner_starts *starts, node_id_t node, uint32_t task, node_id_t *blamed);

/* The same, without a call where every start has succeeded: the usual case. */
static inline bool owner_starts_began(struct owner_starts *starts, node_id_t node, uint32_t task,
                                      node_id_t *blamed)
{
    return starts->n > 0 && owner_starts_blame(starts, node, task, blamed);
}

#endif
