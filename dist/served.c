/* Workers that run the commands of one user alone, as central tells. Only his jobs are probed for there. Others have
 * the workers that run everybody's. Jobs of applications do not come here: executors say themselves whom they serve. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

static struct dist_served *served_find(const struct dist *d, uint32_t user)
{
    struct dist_served *s;

    HASH_FIND(hh, d->served, &user, sizeof user, s);
    return s;
}

static void join_job(struct dist_served *s, struct dist_job *job)
{
    job->served = s;
    s->jobs++;
}

/* Jobs that came before the first such worker was known. */
static void adopt_jobs(struct dist *d, struct dist_served *s)
{
    for (int state = 0; state < JOB_STATE_COUNT; state++)
        list_foreach(&d->jobs[state], node, nxt) {
            struct dist_job *job = container_of(node, struct dist_job, in_state);

            if (job->app || job->user != s->user)
                continue;
            join_job(s, job);
            dist_probe_again(d, job);
        }
}

/* O(nodes + unfinished jobs) for a new one. */
static struct dist_served *served_get(struct dist *d, uint32_t user)
{
    struct dist_served *s = served_find(d, user);

    if (s)
        return s;
    s = xcalloc(1, sizeof *s);
    s->user = user;
    dist_pools_init(s->pool);
    HASH_ADD(hh, d->served, user, sizeof s->user, s);
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        struct dist_node *n = dist_node_find(d, i);

        if (n)
            dist_node_update(d, n, s->pool, !n->served);
    }
    adopt_jobs(d, s);
    return s;
}

static void served_settle(struct dist *d, struct dist_served *s)
{
    if (s->nodes + s->jobs > 0)
        return;
    HASH_DEL(d->served, s); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    dist_pools_free(s->pool);
    free(s);
}

void dist_job_join_user(struct dist *d, struct dist_job *job)
{
    struct dist_served *s = job->app ? NULL : served_find(d, job->user);

    if (s)
        join_job(s, job);
}

void dist_job_leave_user(struct dist *d, struct dist_job *job)
{
    struct dist_served *s = job->served;

    job->served = NULL;
    if (!s)
        return;
    s->jobs--;
    served_settle(d, s);
}

void dist_node_set_user(struct dist *d, struct dist_node *n)
{
    bool one = n->m.serves && n->m.role == ROLE_WORKER && n->m.state != MEMBER_GONE;
    struct dist_served *was = n->served;

    if (one ? was && was->user == user_number(n->m.serves) : !was)
        return;
    n->served = NULL;
    if (was) {
        was->nodes--;
        dist_node_update(d, n, was->pool, false);
        served_settle(d, was);
    }
    if (!one)
        return;
    n->served = served_get(d, user_number(n->m.serves));
    n->served->nodes++;
}

bool dist_nobody_serves(struct dist *d, const struct job_desc *desc)
{
    const struct dist_served *s = served_find(d, job_desc_user(desc));
    const struct dist_pool *pool = s ? s->pool : d->pool;
    bool any = false;

    if (!d->served || desc->kind == PAYLOAD_APP || draw_total(&pool[POOL_ALL].draw) > 0)
        return false;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct dist_node *n = dist_node_find(d, i);

        if (!n || n->m.role != ROLE_WORKER || n->m.state == MEMBER_GONE)
            continue;
        if (!n->served || n->served == s) /* it may be back soon */
            return false;
        any = true;
    }
    return any;
}

void dist_served_free(struct dist *d)
{
    struct dist_served *s, *next;

    HASH_ITER(hh, d->served, s, next) {
        HASH_DEL(d->served, s); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        dist_pools_free(s->pool);
        free(s);
    }
}

void dist_served_check(const struct dist *d)
{
    const struct dist_served *s, *next;

    HASH_ITER(hh, d->served, s, next) {
        uint32_t nodes = 0;

        CHECK(s->nodes + s->jobs > 0);
        for (uint32_t i = 0; i < d->nodes_n; i++) {
            const struct dist_node *n = dist_node_find(d, i);

            if (!n)
                continue;
            nodes += n->served == s;
            CHECK(!n->served || n->served == s || draw_weight(&s->pool[POOL_ALL].draw, i) == 0);
        }
        CHECK(nodes == s->nodes);
        for (int p = 0; p < POOL_COUNT; p++)
            draw_check(&s->pool[p].draw);
    }
}
