/* The invariants of a dist. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/ring.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* Walks a job's list of tasks, whose states must be in `states`. Returns its length. */
static uint32_t check_task_list(const struct dist_job *job, uint32_t head, uint32_t states)
{
    uint32_t n = 0, prev = TASK_NIL;

    for (uint32_t i = head; i != TASK_NIL; i = job->tasks[i].next) {
        const struct dist_task *t = &job->tasks[i];

        CHECK(i < job->cursor);
        CHECK(!t->central);
        CHECK(states >> t->state & 1);
        CHECK(t->prev == prev);
        prev = i;
        n++;
        CHECK(n <= job->desc->tasks);
    }
    return n;
}

static void check_delayed(const struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    CHECK(dist_task_delayed(t));
    CHECK(!t->started);
    CHECK(t->delay->job == job && t->delay->task == i);
    CHECK(heap_in(&t->delay->timer));
}

static void check_tasks(const struct dist_job *job)
{
    uint32_t in[TASK_STATE_COUNT] = {0};
    uint32_t ours = 0, central = 0, at_workers = 0, ages = 0, centrals_delayed = 0, returned, delayed,
             blocked;
    int64_t ages_us = 0;

    for (uint32_t i = 0; i < job->desc->tasks; i++) {
        const struct dist_task *t = &job->tasks[i];

        in[t->state]++;
        centrals_delayed += t->central && dist_task_delayed(t);
        CHECK(!t->unsent || (t->state == TASK_LAUNCHED && job->journalled));
        CHECK(!t->asked || t->central);
        if (t->central)
            central += !task_state_final(t->state);
        else if (t->state == TASK_WAITING)
            ours++;
        else if (t->state == TASK_LAUNCHED || t->state == TASK_RUNNING)
            at_workers++;
        if (!t->central && t->state == TASK_RUNNING) {
            ages++;
            ages_us += t->wait_us;
        }
        CHECK(i < job->cursor || (t->state == TASK_WAITING && !t->central && t->attempt == 0));
    }
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        CHECK(in[i] == job->in[i]);
    CHECK(ours + at_workers + central + (job->desc->tasks - dist_job_unfinished_tasks(job)) ==
          job->desc->tasks);
    CHECK(dist_job_waiting(job) == ours);
    CHECK(job->central_n == central);
    CHECK(job->central_delayed == centrals_delayed);
    CHECK(job->ages_n == ages);
    CHECK(job->ages_us == ages_us);
    CHECK(job->cursor <= job->desc->tasks);
    returned = check_task_list(job, job->returned, 1u << TASK_WAITING);
    delayed = check_task_list(job, job->delayed, 1u << TASK_WAITING);
    CHECK(delayed == job->delayed_n);
    blocked = check_task_list(job, job->blocked, 1u << TASK_WAITING);
    CHECK(blocked == job->blocked_n);
    CHECK(delayed + blocked + returned + (job->desc->tasks - job->cursor) == ours);
    for (uint32_t i = job->blocked; i != TASK_NIL; i = job->tasks[i].next)
        CHECK(dist_task_blocked(&job->tasks[i]));
    for (uint32_t i = job->delayed; i != TASK_NIL; i = job->tasks[i].next)
        check_delayed(job, i);
    list_foreach(&job->places, node, nxt) {
        const struct dist_place *p = container_of(node, struct dist_place, in_job);
        uint32_t n = check_task_list(job, p->launched, 1u << TASK_LAUNCHED | 1u << TASK_RUNNING);

        for (uint32_t i = p->launched; i != TASK_NIL; i = job->tasks[i].next) {
            CHECK(job->tasks[i].worker == p->node->m.node.v);
            CHECK(p->node->stream || job->tasks[i].doubtful);
        }
        CHECK(n <= at_workers);
        at_workers -= n;
    }
    CHECK(at_workers == 0);
}

/* Checks a job's places. Returns their number. */
static uint32_t check_places(const struct dist *d, const struct dist_job *job)
{
    uint32_t n = 0;
    uint64_t live = 0;

    list_foreach(&job->places, node, nxt) {
        const struct dist_place *p = container_of(node, struct dist_place, in_job);

        CHECK(p->job == job);
        CHECK(p->live > 0 || p->launched != TASK_NIL);
        CHECK(dist_place_find(d, job, p->node) == p);
        CHECK(dist_node_find(d, p->node->m.node.v) == p->node);
        /* Without a stream the worker's reservations do not count, and its tasks are in doubt. */
        CHECK(p->node->stream || p->live == 0);
        live += p->live;
        n++;
    }
    CHECK(live == job->live);
    return n;
}

/* Checks that those who wait for the job are in the list for it. */
static void check_successors(const struct dist_job *job)
{
    list_foreach(&job->successors, node, nxt)
        CHECK(!container_of(node, struct dist_after, in_pred)->each);
    list_foreach(&job->task_successors, node, nxt)
        CHECK(container_of(node, struct dist_after, in_pred)->each);
}

/* Checks what keeps the job from starting: it starts as soon as nothing does. */
static void check_waits_for(const struct dist *d, const struct dist_job *job)
{
    uint32_t gates = 0, eaches = 0;

    for (uint32_t i = 0; job->after && i < job->desc->after.n; i++) {
        const struct dist_after *a = &job->after[i];
        bool waits = !list_empty(&a->in_pred);

        CHECK(!waits || !(job->after_met >> i & 1));
        gates += waits && !a->each;
        eaches += waits && a->each;
    }
    CHECK(job->gates == gates && job->eaches == eaches);
    if (job->cancelling || !job->submitted || !d->ever_joined)
        return;
    CHECK(job->blocked_n == 0 || eaches > 0);
    CHECK(dist_job_may_start(job) || dist_job_kept_back(job));
    CHECK(job->wait != WAIT_KEPT || !dist_job_may_start(job));
    CHECK(job->state != JOB_BLOCKED || gates + eaches > 0);
    CHECK(!job->held || job->state == JOB_HELD || job->state == JOB_RUNNING);
}

/* Checks that the tasks which are to end do: somebody else has each of them. */
static void check_unwanted(const struct dist_job *job)
{
    const struct task_set *s = job->unwanted;

    for (uint32_t i = 0; s && i < s->n; i++) {
        const struct dist_task *t = &job->tasks[s->v[i]];

        CHECK(i == 0 || s->v[i] > s->v[i - 1]);
        CHECK(task_state_final(t->state) ||
              (t->central ? !dist_handover_is_here(job) : t->state != TASK_WAITING));
    }
}

/* Checks that the job cannot stand still for ever: something is under way that will move it. */
static void check_alive(const struct dist *d, const struct dist_job *job)
{
    const struct draw *pool = &dist_probe_pool_of((struct dist *)d, job)->draw;

    /* Otherwise the next record is its end. */
    CHECK(dist_job_unfinished_tasks(job) > 0 || (dist_job_settling(job) && !d->ever_joined));
    CHECK((job->hand != HAND_NONE) == !list_empty(&job->in_central));
    CHECK(job->central_n == 0 || job->hand != HAND_NONE);
    CHECK(job->offers > 0 || (job->hand != HAND_OFFERED && job->hand != HAND_UNSURE &&
                              job->hand != HAND_ASKED && job->hand != HAND_ACCEPTED));
    CHECK(job->hand != HAND_RECORDING || job->journalled);
    CHECK(job->hand != HAND_HELD_BACK || ((job->desc->flags & JOB_AT_MOST_ONCE) && job->journalled));
    CHECK(!job->asking || job->hand != HAND_NONE);
    CHECK(!job->handed_part || job->offers > 0);
    CHECK(job->handed_part ||
          (job->hand != HAND_OFFERED && job->hand != HAND_UNSURE && job->hand != HAND_ACCEPTED) ||
          dist_job_unfinished_tasks(job) == job->central_n);
    CHECK(dist_job_waiting(job) == 0 || !job->cancelling);
    check_waits_for(d, job);
    if (d->ever_joined) /* otherwise the journal may still be read */
        check_unwanted(job);
    CHECK(job->sure <= job->live);
    CHECK((job->wait == WAIT_NOT) == list_empty(&job->in_wait));
    CHECK(list_empty(&job->in_unattended) || (job->watchers == 0 && !(job->desc->flags & JOB_DETACHED)));
    CHECK(epoch_is_dists(job->own_epoch));
    CHECK(!dist_job_kept_back(job) || job->live == 0);
    if (dist_job_launchable(job) == 0 || !job->submitted)
        return;
    CHECK(dist_job_starved(job) || dist_job_kept_back(job) || heap_in(&job->timer) ||
          job->live >= dist_job_launchable(job) || (job->live > 0 && !(job->policy_flags & POLICY_REPROBE)));
    CHECK(!dist_job_starved(job) || draw_total(pool) == dist_end_times_short(d, job, pool));
}

static void check_job(const struct dist *d, const struct dist_job *job)
{
    CHECK(dist_job_find(d, job->id) == job);
    check_tasks(job);
    owner_messages_check(&job->messages, job->desc->tasks);
    owner_pauses_check(&job->pauses, job->desc->tasks);
    owner_starts_check(&job->starts, job->desc->tasks);
    check_successors(job);
    CHECK((job->app != NULL) == (job->desc->kind == PAYLOAD_APP));
    CHECK(job->results || job->results_bytes == 0);
    CHECK(job->left_out <= job->in[TASK_CANCELLED]);
    if (!job_state_final(job->state)) {
        check_alive(d, job);
        return;
    }
    CHECK(dist_job_unfinished_tasks(job) == 0);
    CHECK(list_empty(&job->places));
    CHECK(job->wait == WAIT_NOT);
    CHECK(list_empty(&job->in_wait));
    CHECK(list_empty(&job->in_central));
    CHECK(list_empty(&job->in_unattended));
    CHECK(!heap_in(&job->timer));
    CHECK(job->submitted);
}

/* Node n in the pools of all workers, or of an application that it serves. */
static void check_in_pools(const struct dist_node *n, const struct dist_pool pool[POOL_COUNT])
{
    uint32_t i = n->m.node.v;
    uint32_t all = draw_weight(&pool[POOL_ALL].draw, i);

    CHECK(all == draw_weight(&pool[POOL_GENERAL].draw, i) + draw_weight(&pool[POOL_RESERVED].draw, i));
    CHECK(all == 0 || (n->stream && (n->m.state == MEMBER_UP || n->vouched)));
}

static uint64_t live_at(const struct dist_node *n)
{
    uint64_t live = 0;

    list_foreach(&n->places, node, nxt)
        live += container_of(node, struct dist_place, in_node)->live;
    return live;
}

static void check_nodes(const struct dist *d)
{
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct dist_node *n = dist_node_find(d, i);

        if (!n)
            continue;
        CHECK(n->m.node.v == i);
        CHECK(n->drawn == 0);
        CHECK(n->live == live_at(n));
        CHECK((n->stream && !n->knows_beats) || list_empty(&n->places) || !list_empty(&n->awaited));
        CHECK(!n->vouched || (n->m.state == MEMBER_SUSPECT && n->stream));
        CHECK(!n->unlisted || n->m.state == MEMBER_GONE);
        CHECK(n->stream || n->m.state != MEMBER_GONE || (n->unlisted && n->m.role == ROLE_DIST));
        CHECK((n->ends_us != TIME_NEVER) == !list_empty(&n->ending));
        CHECK(!n->end_doubtful || (n->ends_us != TIME_NEVER && d->ends_due_us != TIME_NEVER));
        CHECK(n->n_apps == 0 || n->m.state != MEMBER_GONE);
        CHECK(!n->served || (n->m.serves && draw_weight(&d->pool[POOL_ALL].draw, i) == 0));
        check_in_pools(n, d->pool);
        for (uint32_t k = 0; k < n->n_apps; k++) {
            check_in_pools(n, n->apps[k]->pool);
        }
    }
    for (int p = 0; p < POOL_COUNT; p++)
        draw_check(&d->pool[p].draw);
}

static void check_apps(const struct dist *d)
{
    const struct dist_app *a, *next;

    HASH_ITER(hh, d->apps, a, next) {
        uint32_t nodes = 0;

        CHECK(a->nodes + a->jobs > 0 || (!a->user && !list_empty(&a->own)));
        CHECK(!a->user == !a->shared);
        for (uint32_t i = 0; i < d->nodes_n; i++) {
            const struct dist_node *n = dist_node_find(d, i);

            for (uint32_t k = 0; n && k < n->n_apps; k++)
                nodes += n->apps[k] == a;
            CHECK(!n || n->served ||
                  draw_weight(&a->pool[POOL_ALL].draw, i) ==
                      (dist_node_serves(n, a) ? draw_weight(&d->pool[POOL_ALL].draw, i) : 0));
        }
        CHECK(nodes == a->nodes);
        for (int p = 0; p < POOL_COUNT; p++)
            draw_check(&a->pool[p].draw);
    }
}

/* Checks that every job of the list waits for that. Returns their number. */
static uint32_t check_waits(const struct list *l, enum probe_wait wait)
{
    uint32_t n = 0;

    list_foreach(l, node, nxt) {
        CHECK(container_of(node, struct dist_job, in_wait)->wait == wait);
        n++;
    }
    return n;
}

static uint32_t check_pool_waits(const struct dist *d, const struct dist_pool pool[POOL_COUNT])
{
    uint32_t n = 0;

    for (int p = 0; p < POOL_COUNT; p++) {
        CHECK(list_empty(&pool[p].starved) || draw_total(&pool[p].draw) == 0 || !list_empty(&d->ending));
        n += check_waits(&pool[p].starved, WAIT_STARVED) + check_waits(&pool[p].crowded, WAIT_CROWDED);
    }
    return n;
}

/* The sums over all jobs. */
struct tally {
    uint32_t jobs, tasks, places, waits, delayed;
    uint64_t bytes;
    uint32_t in[TASK_STATE_COUNT];
};

static void check_and_count(const struct dist *d, const struct dist_job *job, struct tally *n)
{
    check_job(d, job);
    n->jobs++;
    n->tasks += job->desc->tasks;
    n->bytes += dist_job_bytes(job);
    n->places += check_places(d, job);
    n->waits += job->wait != WAIT_NOT;
    n->delayed += job->delayed_n;
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        n->in[i] += job->in[i];
}

static void check_unfinished(const struct dist *d)
{
    struct tally n = {0};
    uint32_t waits = check_pool_waits(d, d->pool) + check_waits(&d->settling, WAIT_SETTLING) +
                     check_waits(&d->kept, WAIT_KEPT);

    for (int state = 0; state < JOB_STATE_COUNT; state++) {
        CHECK(!job_state_final(state) || list_empty(&d->jobs[state]));
        list_foreach(&d->jobs[state], node, nxt) {
            const struct dist_job *job = container_of(node, struct dist_job, in_state);

            CHECK(job->state == state);
            check_and_count(d, job, &n);
        }
    }
    for (const struct dist_app *a = d->apps; a; a = a->hh.next)
        waits += check_pool_waits(d, a->pool);
    for (const struct dist_served *s = d->served; s; s = s->hh.next)
        waits += check_pool_waits(d, s->pool);
    CHECK(n.waits == waits);
    CHECK(n.jobs == d->jobs_unfinished);
    CHECK(n.tasks == d->tasks_unfinished);
    CHECK(n.bytes == d->bytes_unfinished);
    CHECK(n.places == d->places.n);
    CHECK(n.delayed == d->delayed.n && heap_check(&d->delayed));
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        CHECK(n.in[i] == d->tasks_in[i]);
}

static void check_finished(const struct dist *d)
{
    struct tally n = {0};
    int64_t ended_us = INT64_MIN;

    list_foreach(&d->finished, node, nxt) {
        const struct dist_job *job = container_of(node, struct dist_job, in_state);

        CHECK(job_state_final(job->state));
        CHECK(job->end_us >= ended_us); /* the list is ordered by end: the first job is forgotten first */
        ended_us = job->end_us;
        check_and_count(d, job, &n);
    }
    CHECK(n.waits == 0 && n.places == 0);
    CHECK(n.jobs == d->jobs_finished);
    CHECK(n.tasks == d->tasks_finished);
    CHECK(n.bytes == d->bytes_finished);
}

static void check_records(const struct dist *d)
{
    uint64_t token = 0;

    for (uint32_t i = 0; i < d->pending.n; i++) {
        CHECK(ring_at(&d->pending, i).token >= token);
        token = ring_at(&d->pending, i).token;
    }
    CHECK(token <= d->token);
    CHECK((d->failed.n > 0) == (d->rewrite_at != TIME_NEVER));
}

void dist_check(const struct dist *d)
{
    check_unfinished(d);
    check_finished(d);
    CHECK(HASH_CNT(hh, d->by_id) == d->jobs_unfinished + d->jobs_finished);
    CHECK(d->stopped || d->seq_durable <= d->seq_end);
    CHECK(d->stopped || d->seq_told <= d->seq_end);
    CHECK(list_empty(&d->touched));
    CHECK(d->places.n <= d->places.buckets);
    CHECK(d->places.mask / 2 < d->places.buckets && d->places.buckets <= d->places.mask + 1);
    dist_users_check(d);
    check_records(d);
    CHECK(heap_check(&d->timers));
    check_nodes(d);
    check_apps(d);
    dist_served_check(d);
}

bool dist_quiet(const struct dist *d)
{
    for (int p = 0; p < POOL_COUNT; p++)
        if (!list_empty(&d->pool[p].starved) || !list_empty(&d->pool[p].crowded))
            return false;
    return d->jobs_unfinished == 0 && d->places.n == 0 && d->timers.n == 0 && d->reports_n == 0 &&
           list_empty(&d->handed) && list_empty(&d->settling) && list_empty(&d->kept) && d->pending.n == 0 &&
           d->failed.n == 0;
}
