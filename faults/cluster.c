/* A virtual cluster: the roles on the bus, in virtual time. */
#include "faults/cluster.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "faults/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A central that lost its state keeps this much distance between ids. */
#define CLUSTER_NODES_MAX 200u
#define CLUSTER_STEPS_MAX 20000000u /* a run with more steps does not end */
#define SEQ_BLOCK 4                 /* job numbers that a dist reserves at a time */

/* ---- Roles ---- */

static struct policy policy_of(const struct cluster_config *c)
{
    struct policy p;

    CHECK(policy_preset(c->policy, &p) == 0);
    p.flags = (p.flags | c->flags_on) & ~c->flags_off;
    p.probe_ratio_milli = c->probe_ratio_milli ? c->probe_ratio_milli : p.probe_ratio_milli;
    p.steal_cap = c->steal_cap ? (uint16_t)c->steal_cap : p.steal_cap;
    p.steal_max = c->steal_max ? (uint16_t)c->steal_max : p.steal_max;
    p.short_first = (uint16_t)c->short_first;
    return p;
}

void cluster_start_central_of(struct cluster *c, uint32_t epoch)
{
    const struct bus_role r = {.fns = &central_functions};
    struct central_config cc;

    central_config_init(&cc);
    cc.cluster = c->emptied ? 2 : 1;
    /* Longer than any fault: a node that has an id joins first. */
    cc.ids_wait_us = c->emptied ? 600 * US_PER_S : 0;
    cc.nodes_max = CLUSTER_NODES_MAX;
    cc.epoch = epoch;
    cc.policy = policy_of(&c->config);
    cc.history.cutoff_fixed = !c->config.cutoff_computed;
    cc.history.min_jobs = 3;
    cc.history.share_fixed = !c->config.share_computed;
    cc.history.cutoff_us = c->config.cutoff_us;
    cc.history.share_ppm = c->config.share_ppm;
    if (c->config.lease_us)
        cc.long_lease_us = c->config.lease_us;
    if (c->config.long_stretch)
        cc.long_stretch = c->config.long_stretch;
    if (c->config.long_jobs_max)
        cc.long_jobs_max = c->config.long_jobs_max;
    if (c->config.long_tasks_max)
        cc.long_tasks_max = c->config.long_tasks_max;
    if (c->config.finished_kept)
        cc.finished_kept = c->config.finished_kept - 1;
    if (c->config.nodes_max)
        cc.nodes_max = c->config.nodes_max;
    c->central = central_new(&cc);
    (void)rng_next(&c->rng); /* central had a seed once: the seeds of tests/mutations keep their runs */
    bus_start(c->bus, c->central_ep, &r, c->central);
    c->recovered = false;
    cluster_store_replay(c, &c->store);
}

void cluster_start_central(struct cluster *c)
{
    c->central_us = TIME_NEVER;
    cluster_start_central_of(c, ++c->central_epoch);
}

void cluster_start_dist(struct cluster *c, struct cluster_dist *d, uint32_t number)
{
    const struct bus_role r = {.fns = &dist_functions, .id = d->node, .cluster = d->cluster};
    struct dist_config dc;
    char name[16];

    dist_config_init(&dc);
    snprintf(name, sizeof name, "d%u", number + 1);
    dc.name = blob_str(name);
    dc.addr = blob_str("d");
    dc.incarnation = rng_next(&c->rng);
    dc.seq_block = SEQ_BLOCK;
    dc.client_grace_us = c->config.jobs_move ? CLUSTER_CLIENT_GRACE_US : 0;
    dc.nested_grace_us = 2 * dc.client_grace_us;
    dc.journal = true;
    dc.life = ++d->life;
    dc.node = d->node;
    dc.cluster = d->cluster;
    if (c->config.jobs_max)
        dc.jobs_unfinished_max = c->config.jobs_max;
    if (c->config.tasks_max)
        dc.tasks_unfinished_max = c->config.tasks_max;
    if (c->config.finished_kept)
        dc.finished_kept = c->config.finished_kept - 1;
    dist_init(&d->d, &dc, rng_next(&c->rng));
    blob_drop(dc.name);
    blob_drop(dc.addr);
    d->alive = true;
    d->joined = (struct cluster_joined){0};
    d->start_us = TIME_NEVER;
    bus_start(c->bus, d->ep, &r, &d->d);
    cluster_store_replay(c, &d->store);
}

/* So long a worker has its machine, in seconds: from so many on, and up to so many more. */
#define TAKEN_MIN_S 5
#define TAKEN_MORE_S 60

/* Its next agent finds the machine for as long as the last one had it; another process has it for another time. Draws
 * no random number, so that other clusters are what they were. */
static int64_t taken_at(const struct cluster *c, const struct cluster_worker *w, uint32_t i)
{
    int64_t now_us = bus_now(c->bus);

    if (!c->config.ending_workers || i % 3 != 2)
        return TIME_NEVER;
    if (w->incarnation)
        return w->taken_us;
    return now_us +
           (TAKEN_MIN_S + (int64_t)(hash_pair(c->config.seed + i, (uint64_t)now_us) % TAKEN_MORE_S)) *
               US_PER_S;
}

void cluster_start_worker(struct cluster *c, uint32_t i)
{
    const struct bus_role r = {.fns = &worker_functions};
    struct cluster_worker *w = c->workers[i];
    struct worker_config wc;
    char name[16];

    worker_config_init(&wc);
    snprintf(name, sizeof name, "w%u", i + 1);
    wc.name = blob_str(name);
    wc.addr = blob_str(w->addr);
    wc.slots = w->slots;
    wc.serves = w->serves ? blob_str(w->serves) : NULL;
    wc.ends_us = w->taken_us = taken_at(c, w, i);
    if (!w->incarnation)
        w->incarnation = rng_next(&c->rng) | 1;
    wc.incarnation = w->incarnation;
    wc.successors = true;
    wc.queue_per_slot = c->config.queue_per_slot;
    wc.pause.paused_max = worker_paused_max(w->slots);
    wc.pause.after_us = CLUSTER_PAUSE_AFTER_US;
    if (c->config.pause_longest_us)
        wc.pause.longest_us = c->config.pause_longest_us;
    if (c->config.queue_limit)
        wc.queue_limit = c->config.queue_limit;
    worker_init(&w->w, &wc, rng_next(&c->rng));
    blob_drop(wc.name);
    blob_drop(wc.addr);
    blob_drop(wc.serves);
    w->alive = true;
    w->joined = (struct cluster_joined){0};
    w->stopping = false;
    w->start_us = TIME_NEVER;
    w->frozen_us = -1;
    w->orphan_us = w->well_us = TIME_NEVER;
    cluster_take_over(c, w);
    bus_listen(c->bus, w->ep, w->addr);
    bus_start(c->bus, w->ep, &r, &w->w);
    cluster_executors_start(c, w);
}

static void add_dist(struct cluster *c)
{
    struct cluster_dist *d = xcalloc(1, sizeof *d);

    d->ep = bus_add(c->bus, ROLE_DIST);
    d->store = (struct cluster_store){.ep = d->ep, .commit_us = TIME_NEVER};
    vec_grow(c->dists, c->dists_n, c->dists_cap);
    c->dists[c->dists_n] = d;
    cluster_start_dist(c, d, c->dists_n++);
}

void cluster_new_address(struct cluster *c, struct cluster_worker *w)
{
    snprintf(w->addr, sizeof w->addr, "w:%u", ++c->addrs_n);
}

uint32_t cluster_add_worker(struct cluster *c, uint32_t slots)
{
    struct cluster_worker *w = xcalloc(1, sizeof *w);

    w->ep = bus_add(c->bus, ROLE_WORKER);
    w->slots = slots;
    w->serves = c->config.own_workers && c->workers_n % 3 == 1 ? "u0" : NULL;
    cluster_new_address(c, w);
    vec_grow(c->workers, c->workers_n, c->workers_cap);
    w->parked_us = w->stuck_us = w->lease_us = TIME_NEVER;
    c->workers[c->workers_n] = w;
    cluster_start_worker(c, c->workers_n);
    return c->workers_n++;
}

struct cluster *cluster_new(const struct cluster_config *config)
{
    struct cluster *c = xcalloc(1, sizeof *c);
    struct bus_config bc = {.arg = c,
                            .delay_us = cluster_delay_us,
                            .effect = cluster_on_effect,
                            .trace = cluster_on_delivery,
                            .stepped = cluster_on_stepped,
                            .seed = config->seed,
                            .steal_streams = config->steal_streams};

    c->config = *config;
    log_level = LOG_ERROR; /* what executors do amiss is no news here */
    c->trace = config->log || getenv("HAWK_TEST_TRACE");
    if (!c->config.policy)
        c->config.policy = "hawk";
    if (!c->config.slots)
        c->config.slots = 1;
    if (!c->config.cutoff_us)
        c->config.cutoff_us = 10 * US_PER_S;
    rng_seed(&c->rng, config->seed);
    rng_seed(&c->net.rng, config->seed ^ UINT64_C(0x6e6574));
    rng_seed(&c->executors, config->seed ^ UINT64_C(0x65786563));
    rng_seed(&c->afters, config->seed ^ UINT64_C(0x6166746572));
    rng_seed(&c->cancels, config->seed ^ UINT64_C(0x63616e63656c));
    c->bus = bus_new(&bc);
    c->central_ep = bus_add(c->bus, ROLE_CENTRAL);
    c->store = (struct cluster_store){.ep = c->central_ep, .commit_us = TIME_NEVER};
    cluster_start_central(c);
    for (uint32_t i = 0; i < (config->dists ? config->dists : 1); i++)
        add_dist(c);
    for (uint32_t i = 0; i < config->workers; i++)
        cluster_add_worker(c, c->config.slots);
    return c;
}

static void job_free(struct cluster_job *j)
{
    job_desc_drop(j->desc);
    free(j->tasks);
    free(j);
}

void cluster_free(struct cluster *c)
{
    for (uint32_t i = 0; i < c->workers_n; i++) {
        c->workers[i]->alive = false;
        cluster_executors_end(c, c->workers[i]); /* it asks the bus for the time */
    }
    bus_free(c->bus);
    for (uint32_t i = 0; i < c->workers_n; i++) {
        worker_free(&c->workers[i]->w);
        free(c->workers[i]->unanswered);
        free(c->workers[i]->runs);
        free(c->workers[i]->ends);
        free(c->workers[i]);
    }
    for (uint32_t i = 0; i < c->dists_n; i++) {
        dist_free(&c->dists[i]->d);
        cluster_store_free(&c->dists[i]->store);
        free(c->dists[i]);
    }
    central_free(c->central);
    for (uint32_t i = 0; i < c->jobs_n; i++)
        job_free(c->jobs[i]);
    cluster_store_free(&c->store);
    cluster_net_free(&c->net);
    free(c->operator.v);
    free(c->workers);
    free(c->dists);
    free(c->jobs);
    free(c->accepted);
    free(c);
}

/* ---- Running ---- */

/* The journal whose commit ends first. */
static struct cluster_store *first_commit(struct cluster *c)
{
    struct cluster_store *s = &c->store;

    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->store.commit_us < s->commit_us)
            s = &c->dists[i]->store;
    return s;
}

/* The next time at which a process starts again; TIME_NEVER: none does. */
static int64_t first_start(const struct cluster *c)
{
    int64_t at_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++)
        at_us = c->workers[i]->start_us < at_us ? c->workers[i]->start_us : at_us;
    for (uint32_t i = 0; i < c->dists_n; i++)
        at_us = c->dists[i]->start_us < at_us ? c->dists[i]->start_us : at_us;
    return c->central_us < at_us ? c->central_us : at_us;
}

static void start_again(struct cluster *c)
{
    if (c->central_us <= bus_now(c->bus))
        cluster_restart_central(c);
    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->start_us <= bus_now(c->bus))
            cluster_restart_worker(c, i);
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->start_us <= bus_now(c->bus))
            cluster_restart_dist(c, i);
}

/* Runs one step of a role, or one event of the shell. False: nothing happens until limit_us. */
static bool run_one(struct cluster *c, int64_t limit_us)
{
    uint32_t run = 0;
    struct cluster_worker *w = NULL;
    struct cluster_store *s = first_commit(c);
    int64_t run_us = cluster_next_end(c, &w, &run), net_us = cluster_net_next(c);
    int64_t start_us = first_start(c), ask_us = cluster_next_ask(c), executors_us = cluster_executors_next(c);
    int64_t due_us = earlier(earlier(run_us, s->commit_us), earlier(net_us, earlier(start_us, ask_us)));

    due_us = earlier(due_us, executors_us);

    if (bus_run_one(c->bus, due_us < limit_us ? due_us : limit_us))
        return true;
    if (due_us == TIME_NEVER || due_us > limit_us)
        return false;
    bus_run_until(c->bus, due_us); /* runs nothing: only the time passes */
    if (net_us == due_us)
        cluster_net_due(c);
    else if (start_us == due_us)
        start_again(c);
    else if (ask_us == due_us)
        cluster_ask_due(c);
    else if (s->commit_us == due_us)
        cluster_store_due(c, s);
    else if (executors_us == due_us)
        cluster_executors_due(c);
    else
        cluster_end_run(c, w, run);
    return true;
}

void cluster_steps(struct cluster *c, uint32_t n, int64_t limit_us)
{
    while (n-- > 0 && run_one(c, limit_us))
        ;
}

void cluster_run(struct cluster *c, int64_t for_us)
{
    int64_t limit_us = bus_now(c->bus) + for_us;

    while (run_one(c, limit_us))
        ;
    bus_run_until(c->bus, limit_us);
}

void cluster_run_until(struct cluster *c, bool (*done)(struct cluster *, void *), void *arg, int64_t limit_us,
                       enum invariant invariant, const char *what)
{
    int64_t end_us = bus_now(c->bus) + limit_us;
    uint64_t steps = 0;

    while (!done(c, arg)) {
        if (!run_one(c, end_us))
            cluster_fail(c, invariant, "after %lld ms: not yet %s", (long long)(limit_us / 1000), what);
        if (++steps > CLUSTER_STEPS_MAX)
            cluster_fail(c, invariant, "%u steps: not yet %s", CLUSTER_STEPS_MAX, what);
    }
}

static bool is_up(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct worker_counts counts;
        struct central_node n;

        if (!c->workers[i]->alive)
            continue;
        worker_counts(&c->workers[i]->w, &counts);
        if (!counts.joined || !central_view_node(c->central, worker_node(&c->workers[i]->w), 0, &n) ||
            !n.partition_acked)
            return false;
        for (uint32_t j = 0; j < c->dists_n; j++)
            if (c->dists[j]->alive && !dist_has_stream(&c->dists[j]->d, worker_node(&c->workers[i]->w)))
                return false;
    }
    for (uint32_t j = 0; j < c->dists_n; j++)
        if (c->dists[j]->alive && (!dist_central_up(&c->dists[j]->d) || !dist_ready(&c->dists[j]->d)))
            return false;
    return true;
}

void cluster_come_up(struct cluster *c)
{
    cluster_run_until(c, is_up, NULL, 5 * US_PER_S, INVARIANT_ENDS, "up");
}

static bool jobs_ended(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (!cluster_ended(c->jobs[i]) && !c->jobs[i]->abandoned)
            return false;
    return true;
}

/* The job's client died, and nobody waits for it. A detached job does not count: its dist's journal may have
 * it. */
static bool is_orphaned(const struct cluster_job *j)
{
    return j->abandoned && !(j->desc->flags & JOB_DETACHED);
}

static bool is_orphan(const struct cluster *c, const struct cluster_run *r)
{
    return is_orphaned(c->jobs[r->job]) && node_eq(r->held.owner, NODE_CENTRAL);
}

void cluster_prolong_orphans(struct cluster *c)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        for (uint32_t t = 0; is_orphaned(c->jobs[i]) && t < c->jobs[i]->desc->tasks; t++)
            c->jobs[i]->tasks[t].duration_us = CLUSTER_ENDLESS_US;
    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t k = 0; k < c->workers[i]->runs_n; k++)
            if (is_orphan(c, &c->workers[i]->runs[k]) && c->workers[i]->runs[k].due_us != TIME_NEVER &&
                !c->workers[i]->runs[k].cancelled)
                c->workers[i]->runs[k].due_us = bus_now(c->bus) + CLUSTER_ENDLESS_US;
}

static bool no_orphans(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t k = 0; k < c->workers[i]->runs_n; k++)
            if (is_orphan(c, &c->workers[i]->runs[k]))
                return false;
    return true;
}

void cluster_expect_no_orphans(struct cluster *c, int64_t limit_us)
{
    cluster_run_until(c, no_orphans, NULL, limit_us, INVARIANT_ORPHANS,
                      "without tasks that nobody waits for");
}

/* Describes the first job that has not ended. */
static void say_unfinished(struct cluster *c, char *buf, size_t size)
{
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        const struct cluster_job *j = c->jobs[i];
        const struct dist *d = &c->dists[j->dist]->d;
        const struct dist_job *found = j->submitted ? dist_find(d, j->id) : NULL;
        struct job_view v;
        uint32_t waiting;

        if (cluster_ended(j) || j->abandoned)
            continue;
        if (!found) {
            snprintf(buf, size, "job %u has no answer", i + 1);
            return;
        }
        dist_job_view(d, found, bus_now(c->bus), &v);
        snprintf(buf, size,
                 "%s (%s, %s, epoch %u, %s: %s): %u tasks waiting, %u placed, %u running, %u ended",
                 job_id_format((char[JOB_ID_TEXT]){0}, j->id), job_state_text(v.state), class_text(v.class),
                 v.epoch, node_eq(v.owner, NODE_CENTRAL) ? "central's" : "its dist's",
                 dist_block_text(dist_blocked(d, found, &waiting)), v.waiting, v.placed, v.running,
                 v.done + v.failed + v.cancelled + v.lost);
        return;
    }
}

void cluster_run_jobs(struct cluster *c, int64_t limit_us)
{
    int64_t end_us = bus_now(c->bus) + limit_us;
    uint64_t steps = 0;
    char what[CLUSTER_FAILURE_TEXT / 2] = "";

    while (!jobs_ended(c) && steps++ < CLUSTER_STEPS_MAX && run_one(c, end_us))
        continue;
    if (jobs_ended(c))
        return;
    say_unfinished(c, what, sizeof what);
    cluster_fail(c, INVARIANT_ENDS, "%llu steps and %lld s later not every job has ended: %s",
                 (unsigned long long)steps, (long long)(limit_us / US_PER_S), what);
}

/* Every table is empty and every job has ended. The jobs count, too: a dist that crashes late forgets ends
 * that its journal does not have, and central may refuse its first process, so that jobs may have to end
 * again. */
static bool all_quiet(struct cluster *c, void *arg)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->alive && !worker_quiet(&c->workers[i]->w))
            return false;
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->alive && !dist_quiet(&c->dists[i]->d))
            return false;
    return c->recovered && central_quiet(c->central) && jobs_ended(c);
}

void cluster_expect_all_quiet(struct cluster *c)
{
    cluster_run_until(c, cluster_agrees, NULL, 60 * US_PER_S, INVARIANT_POLICY, "of one policy");
    cluster_run_until(c, all_quiet, NULL, 3600 * US_PER_S, INVARIANT_QUIET, "quiet");
    cluster_expect_in_service(c);
    cluster_check_journals(c);
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        const struct cluster_job *j = c->jobs[i];

        for (uint32_t t = 0; t < j->desc->tasks && !j->err && !j->abandoned; t++) {
            if (j->tasks[t].finals != 1)
                cluster_fail(c, INVARIANT_ONE_END, "task %u of job %u had %u final events", t, i + 1,
                             j->tasks[t].finals);
            cluster_check_starts(c, j, t);
            if ((j->tasks[t].state == TASK_DONE ||
                 (j->tasks[t].state == TASK_FAILED && !j->tasks[t].unstarted)) &&
                j->tasks[t].ends == 0)
                cluster_fail(c, INVARIANT_ONE_END, "task %u of job %u is %s, and never ran to its end", t,
                             i + 1, task_state_text(j->tasks[t].state));
        }
    }
}

/* ---- Jobs ---- */

struct cluster_job *cluster_job(struct cluster *c, uint32_t tasks, int64_t duration_us, enum class_tag tag)
{
    struct cluster_job *j = xcalloc(1, sizeof *j);

    vec_grow(c->jobs, c->jobs_n, c->jobs_cap);
    c->jobs[c->jobs_n++] = j;
    j->desc = job_desc_new();
    j->desc->shell = c->jobs_n;
    j->desc->tasks = tasks;
    j->desc->tag = (uint8_t)tag;
    j->desc->lost_retries = 3;
    j->epoch = EPOCH_FIRST;
    j->desc->kind = PAYLOAD_COMMAND; /* a command outlives its agent; its tasks take duration_us */
    strings_add(&j->desc->argv, "true");
    j->tasks = xcalloc(tasks, sizeof *j->tasks);
    for (uint32_t i = 0; i < tasks; i++)
        j->tasks[i].duration_us = duration_us;
    return j;
}

void cluster_name_job(struct cluster_job *j, const char *name)
{
    blob_drop(j->desc->name);
    j->desc->name = blob_str(name);
}
