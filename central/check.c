/* Central's invariants. */
#include "central/central.h"
#include "central/pairing.h"

#include "base/ring.h"
#include "central/tasks.h"

static void check_node(const struct central *c, const struct node *n)
{
    CHECK(!n->link || central_link(c, n->link)->node == n);
    CHECK(n->state != NODE_UP || n->link);
    CHECK(n->state != NODE_UP || n->journalled);
    if (n->role != ROLE_WORKER)
        return;
    CHECK(n->state == NODE_UP || list_empty(&n->push));
    CHECK(n->state == NODE_UP || (list_empty(&n->parked) && list_empty(&n->stuck)));
    CHECK(n->counted == node_counts(n));
    CHECK((n->serves != NULL) == !list_empty(&n->own));
    CHECK((n->serves && central_node_takes(c, n)) == !list_empty(&n->own_taker));
    if (n->waiting.n_slots == 0)
        return;
    CHECK(n->waiting.n_slots == n->slots);
    /* Central places no long task on a worker that it told to be reserved (Hawk 3.4). */
    CHECK(n->waiting.eligible == central_node_eligible(c, n));
    waiting_worker_check(&c->waiting, &n->waiting);
}

static void check_nodes(const struct central *c)
{
    uint64_t slots = 0, reserved = 0;
    uint32_t known = 0, workers = 0, general = 0, listed = 0, reporting = 0;

    for (uint32_t id = 1; id < c->nodes_end; id++) {
        const struct node *n = c->nodes[id];

        if (!n)
            continue;
        CHECK(n->id.v == id);
        check_node(c, n);
        known++;
        reporting += n->reporting;
        if (!n->counted)
            continue;
        workers++;
        general += n->general;
        slots += n->slots;
        reserved += n->general ? 0 : n->slots;
        CHECK(n->general || central_partition_settles(c) || central_partition_keeps(c, n));
    }
    for (int s = 0; s < NODE_STATE_COUNT; s++)
        listed += list_length(&c->by_state[s]);
    CHECK(known == c->n_nodes);
    CHECK(reporting == c->n_reporting);
    CHECK(listed == known);
    CHECK(workers == c->n_workers);
    CHECK(central_service_out(c) <= central_service_limit(c));
    CHECK(general == c->n_general);
    CHECK(slots == c->slots);
    CHECK(reserved == c->slots_reserved);
    CHECK(reserved <= slots * c->policy.short_share_ppm / 1000000 || c->settle_us != TIME_NEVER);
    central_pairing_check(c);
}

static void check_task(const struct central *c, const struct long_task *t)
{
    bool final = task_state_final(t->state);

    CHECK(!t->durable || final);
    CHECK((t->w.worker != NULL) == (t->place == PLACE_WORKER));
    CHECK(!final || t->place == PLACE_NONE);
    if (t->job->state == LONG_JOURNALLING) {
        CHECK(t->place == PLACE_NONE);
        CHECK(t->state == TASK_WAITING);
        return;
    }
    /* Before recovery ends, tasks are not placed yet. */
    CHECK(final || t->place != PLACE_NONE || !c->recovered);
    CHECK((t->place != PLACE_QUEUE && t->place != PLACE_DELAYED) || t->state == TASK_WAITING);
    CHECK(t->place != PLACE_DELAYED || (!t->unsure && !t->cancelled && t->outcome != OUTCOME_NONE));
    CHECK(t->place != PLACE_WORKER || t->state == TASK_PLACED || t->state == TASK_RUNNING);
    CHECK(t->place != PLACE_WORKER || t->w.running == (t->state == TASK_RUNNING));
}

static void check_job(const struct central *c, const struct long_job *j, uint64_t *tasks_in, uint32_t *places)
{
    uint32_t final = 0, durable = 0, running = 0, ageing = 0;
    __int128 ages_us = 0;

    for (uint32_t i = 0; i < j->n; i++) {
        const struct long_task *t = &j->tasks[i];

        CHECK(t->job == j);
        check_task(c, t);
        final += task_state_final(t->state);
        durable += t->durable;
        places[t->place]++;
        running += t->w.running;
        ageing += t->w.running && !t->w.stands;
        ages_us += t->w.running ? waiting_age(&t->w, 0) : 0;
        if (!task_state_final(t->state) && j->state != LONG_JOURNALLING)
            tasks_in[t->state]++;
    }
    CHECK(central_jobs_find(c, (job_id_t){j->key.job}, (uint32_t)j->key.epoch) == j);
    CHECK(final == j->final);
    CHECK(running == j->running);
    CHECK(ageing == j->ageing);
    CHECK(ages_us == j->ages_us);
    CHECK(list_empty(&j->orphan) ==
          (j->state != LONG_ACTIVE || j->cancel || !c->recovered || central_job_claimed(c, j)));
    owner_messages_check(&j->messages, j->n);
    owner_pauses_check(&j->pauses, j->n);
    owner_starts_check(&j->starts, j->n);
    CHECK(j->released <= j->releasing && j->releasing <= j->n);
    CHECK(durable == j->durable);
    CHECK(j->durable <= j->final && j->final <= j->n);
    CHECK(j->final ==
          j->ended[TASK_DONE] + j->ended[TASK_FAILED] + j->ended[TASK_CANCELLED] + j->ended[TASK_LOST]);
    CHECK(j->state == LONG_JOURNALLING || (j->state == LONG_ACTIVE) == (j->durable < j->n) || !c->recovered);
}

/* The first task to be placed may wait: the record that it may have been sent is being written, or its job
 * avoids workers. */
static bool head_waits(const struct kept *kept)
{
    const struct long_task *t = kept_first(kept);

    return central_task_index(t) >= t->job->released || t->job->starts.n > 0;
}

/* Checks applications. Returns how many jobs have tasks that wait for workers that serve their application. */
static uint32_t check_apps(const struct central *c)
{
    const struct central_app *a, *next;
    uint32_t waiting = 0;

    HASH_ITER(hh, c->apps, a, next) {
        CHECK(a->nodes_n + a->jobs > 0 || (!a->user && !list_empty(&a->own)));
        CHECK(!a->user == !a->shared);
        CHECK(!kept_first(&a->kept) || !list_empty(&a->waiting));
        CHECK(!kept_first(&a->kept) || central_partition_holds(c) || head_waits(&a->kept) ||
              !central_app_best(c, a));
        waiting += kept_check(c, &a->kept);
        for (uint32_t i = 0; i < a->nodes_n; i++)
            CHECK(central_node_serves(a->nodes[i], a));
    }
    return waiting;
}

static void check_jobs(const struct central *c)
{
    uint64_t tasks_in[TASK_STATE_COUNT] = {0}, held = 0, kept = 0, keeping = 0;
    uint32_t places[PLACE_DELAYED + 1] = {0}, unheard = 0;
    int64_t due_us = INT64_MIN;

    for (int s = 0; s < LONG_STATE_COUNT; s++) {
        CHECK(list_length(&c->jobs[s]) == c->n_jobs[s]);
        list_foreach(&c->jobs[s], entry, next) {
            const struct long_job *j = container_of(entry, struct long_job, by_state);

            CHECK((int)j->state == s);
            check_job(c, j, tasks_in, places);
            held += j->n;
            kept += list_length(&j->kept);
            unheard += j->unheard;
            keeping += !list_empty(&j->kept) && !j->held && !j->unheard && list_empty(&j->apart);
        }
    }
    for (int s = 0; s < TASK_STATE_COUNT; s++)
        CHECK(tasks_in[s] == c->tasks_in[s]);
    CHECK(held == c->tasks_held);
    CHECK(unheard == c->n_unheard);
    kept_check_unfinished(c);
    CHECK(held <= c->cfg.long_tasks_max || held <= c->tasks_recovered || !c->recovered);
    CHECK(kept == places[PLACE_QUEUE]);
    CHECK(kept_check(c, &c->kept) + check_apps(c) == keeping);
    end_times_check(c);
    CHECK(list_length(&c->limbo) == places[PLACE_LIMBO]);
    CHECK(c->delayed.n == places[PLACE_DELAYED] && heap_check(&c->delayed));
    CHECK(c->waiting.total == places[PLACE_WORKER]);
    /* No task waits while a worker could take it. */
    CHECK(!kept_first(&c->kept) || central_partition_holds(c) || head_waits(&c->kept) ||
          (c->waiting.amounts.n == 0 && c->waiting.moments.n == 0));
    list_foreach(&c->limbo, entry, next) {
        const struct waiting_task *t = container_of(entry, struct waiting_task, link);

        CHECK(t->due_us >= due_us);
        due_us = t->due_us;
    }
}

void central_check(const struct central *c)
{
    check_nodes(c);
    check_jobs(c);
    waiting_check(&c->waiting);
    for (uint32_t i = 1; i < c->pending.n; i++) {
        const struct records *p = &c->pending;

        CHECK(ring_at(p, i - 1).token < ring_at(p, i).token);
    }
    CHECK(list_empty(&c->changed));
    CHECK(list_empty(&c->touched));
    CHECK(list_empty(&c->untold) || c->settle_us != TIME_NEVER);
}
