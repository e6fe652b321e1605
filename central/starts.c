/* Long tasks that their workers could not start (protocol 3.13). Nothing ran, so it costs no retry. The job
 * avoids such a worker as long as there are others. The worker hears of it if the failure was its own. */
#include "central/tasks.h"

/* Hides the workers that the job avoids from placement for a moment, or shows them again. O(failures of the
 * job * log of the workers). */
static void hide(struct central *c, const struct long_job *j, bool hidden)
{
    for (uint32_t i = 0; i < j->starts.n; i++) {
        struct node *n = central_node_by_id(c, j->starts.v[i].node);

        if (n && n->waiting.n_slots)
            waiting_set_eligible(&c->waiting, &n->waiting, !hidden && central_node_eligible(c, n), c->now_us);
    }
}

static struct waiting_worker *best_unavoided(struct central *c, const struct long_job *j)
{
    struct waiting_worker *w;

    hide(c, j, true);
    w = end_times_best(c, j);
    hide(c, j, false);
    return w;
}

/* Whether some worker that the job does not avoid could take its tasks, now or once it asks for one. With
 * late binding, or for an application, O(workers). */
static bool another_may_take(struct central *c, const struct long_job *j)
{
    int64_t estimate_us = end_times_estimate(c, j);

    if (!policy_has(&c->policy, POLICY_LATE_LONG) && !j->app)
        return best_unavoided(c, j) != NULL;
    list_foreach(&c->by_state[NODE_UP], entry, next) {
        const struct node *n = container_of(entry, struct node, by_state);

        if (n->role == ROLE_WORKER && central_node_may_take(n) && central_node_serves(n, j->app) &&
            (!n->serves || j->app || n->user == j->user->number) && !owner_starts_avoid(&j->starts, n->id) &&
            end_times_fit(c, n, estimate_us))
            return true;
    }
    return false;
}

static bool avoids_any(const struct long_job *j) { return j->starts.n > 0 && !j->starts.unstartable; }

bool central_starts_avoid(const struct long_job *j, const struct node *n)
{
    return avoids_any(j) && owner_starts_avoid(&j->starts, n->id);
}

bool central_starts_wait(struct central *c, const struct long_job *j)
{
    return avoids_any(j) && policy_has(&c->policy, POLICY_LATE_LONG) && another_may_take(c, j);
}

struct waiting_worker *central_starts_best(struct central *c, const struct long_job *j)
{
    struct waiting_worker *w = avoids_any(j) ? best_unavoided(c, j) : NULL;

    if (!w && central_starts_wait(c, j))
        return NULL;
    return w ? w : end_times_best(c, j);
}

bool central_starts_failed(struct central *c, struct node *n, struct long_task *t)
{
    struct long_job *j = t->job;

    if (owner_starts_failed(&j->starts, n->id, central_task_index(t), &t->unstarted) &&
        another_may_take(c, j))
        return true;
    owner_starts_give_up(&j->starts);
    return false;
}

/* Output: one message per worker that could not start the task. */
HAWK_RARE static void tell_blamed(struct central *c, struct long_task *t, const struct node *n)
{
    struct long_job *j = t->job;
    node_id_t blamed;

    while (owner_starts_blame(&j->starts, n->id, central_task_index(t), &blamed)) {
        const struct node *failed = central_node_by_id(c, blamed);
        struct msg *m = failed ? central_send(c, failed, MSG_START_BLAMED) : NULL;

        if (m)
            m->start_blamed.job.v = j->key.job;
    }
}

void central_starts_began(struct central *c, struct long_task *t, const struct node *n)
{
    if (owner_starts_began(&t->job->starts))
        tell_blamed(c, t, n);
}
