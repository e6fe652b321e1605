/* Views of central's state. */
#include "central/central.h"

#include "central/state.h"

const struct policy *central_policy(const struct central *c) { return &c->policy; }
const struct history *central_history(const struct central *c) { return &c->history; }

node_id_t central_next_node(const struct central *c, node_id_t prev)
{
    for (uint32_t id = prev.v + 1; id < c->nodes_end; id++)
        if (c->nodes[id])
            return (node_id_t){id};
    return NODE_NONE;
}

bool central_view_node(const struct central *c, node_id_t node, int64_t now_us, struct central_node *v)
{
    static const uint64_t none[COUNTER_COUNT];
    const struct node *n = central_node_by_id(c, node);

    if (!n)
        return false;
    *v = (struct central_node){
        .member = central_member_of(n),
        .link = n->link,
        .silent_us = now_us - n->heard_us,
        .ends_us = n->ends_us,
        .queued = n->queued,
        .running_short = n->running_short,
        .running_long = n->running_long,
        .paused = n->paused,
        .jobs_unfinished = n->jobs_unfinished,
        .wait_us = n->waiting.n_slots ? waiting_at(&n->waiting, now_us) : 0,
        .partition_acked = n->acked,
        .drain = n->drain,
        .out = node_out(n),
        .empty = central_drain_is_empty(c, n),
        .version = n->version,
        .freezer = n->freezer,
        .parked = !list_empty(&n->parked),
        .stuck = !list_empty(&n->stuck),
        .counters = n->counters ? n->counters : none,
    };
    return true;
}

const struct blob *central_node_app(const struct central *c, node_id_t node, uint32_t i,
                                    const struct blob **user)
{
    const struct node *n = central_node_by_id(c, node);

    if (!n || i >= n->n_apps)
        return NULL;
    *user = n->apps[i]->user;
    return n->apps[i]->name;
}

void central_view_summary(const struct central *c, struct central_summary *s)
{
    *s = (struct central_summary){.cutoff_us = c->policy.cutoff_us,
                                  .policy_version = c->policy.version,
                                  .workers = c->n_workers,
                                  .workers_reserved = c->n_workers - c->n_general,
                                  .slots = c->slots,
                                  .slots_least = central_partition_least(c),
                                  .young = central_is_young(c)};
}

int64_t central_settles_in_us(const struct central *c, int64_t now_us)
{
    int64_t until_us = c->recovered_us + c->cfg.suspect_us;

    return c->recovered && c->knew_nodes && now_us < until_us ? until_us - now_us : 0;
}

void central_view_totals(const struct central *c, struct central_totals *t)
{
    *t = (struct central_totals){
        .long_jobs = c->n_jobs[LONG_JOURNALLING] + c->n_jobs[LONG_ACTIVE],
        .long_tasks = c->tasks_in[TASK_WAITING] + c->tasks_in[TASK_PLACED] + c->tasks_in[TASK_RUNNING],
    };
    for (int i = 0; i < COUNTER_COUNT; i++)
        t->counters[i] = c->counters[i];
}

void central_view_queue(const struct central *c, struct central_queue *q)
{
    const struct list *jobs = &c->jobs[LONG_ACTIVE];

    *q = (struct central_queue){.oldest_us = TIME_NEVER,
                                .tasks_waiting = c->tasks_in[TASK_WAITING],
                                .tasks_placed = c->tasks_in[TASK_PLACED],
                                .tasks_running = c->tasks_in[TASK_RUNNING],
                                .suspect = list_length(&c->by_state[NODE_SUSPECT]),
                                .out = list_length(&c->out_of_service),
                                .dists = c->dists_up};
    for (const struct list *at = jobs->next; at != jobs && c->tasks_in[TASK_WAITING]; at = at->next) {
        const struct long_job *j = container_of(at, struct long_job, by_state);

        if (list_empty(&j->kept))
            continue;
        q->oldest_us = j->since_us;
        break;
    }
}

bool central_quiet(const struct central *c)
{
    return c->n_jobs[LONG_JOURNALLING] + c->n_jobs[LONG_ACTIVE] == 0 && c->pending.n + c->failed.n == 0;
}
