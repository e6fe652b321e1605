/* Workers that could not start tasks of a job: see starts.h. */
#include "owner/starts.h"

#include "base/check.h"
#include "base/mem.h"

bool owner_starts_avoid(const struct owner_starts *starts, node_id_t node)
{
    for (uint32_t i = 0; i < starts->n; i++)
        if (node_eq(starts->v[i].node, node))
            return true;
    return false;
}

bool owner_starts_failed(struct owner_starts *starts, node_id_t node, uint32_t task, uint16_t *unstarted)
{
    if (!owner_starts_avoid(starts, node) && starts->n < START_FAILURES_MAX) {
        vec_grow(starts->v, starts->n, starts->cap);
        starts->v[starts->n++] = (struct owner_failure){.node = node, .task = task};
    }
    return ++*unstarted < START_WORKERS_MAX && !starts->unstartable;
}

bool owner_starts_blame(struct owner_starts *starts, node_id_t node, uint32_t task, node_id_t *blamed)
{
    starts->unstartable = false;
    for (uint32_t i = starts->n; i-- > 0;) {
        struct owner_failure *f = &starts->v[i];

        if (node_eq(f->node, node)) { /* it can start tasks now */
            *f = starts->v[--starts->n];
        } else if (f->task == task) {
            f->task = OWNER_BLAMED;
            *blamed = f->node;
            return true;
        }
    }
    return false;
}

void owner_starts_check(const struct owner_starts *starts, uint32_t tasks)
{
    CHECK(starts->n <= START_FAILURES_MAX);
    CHECK(!starts->unstartable || starts->n > 0);
    for (uint32_t i = 0; i < starts->n; i++) {
        CHECK(starts->v[i].task < tasks || starts->v[i].task == OWNER_BLAMED);
        for (uint32_t k = 0; k < i; k++)
            CHECK(!node_eq(starts->v[i].node, starts->v[k].node));
    }
}
