/* One random run: draws a cluster, jobs and faults from one seed. */
#include "faults/faults.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "faults/draw.h"
#include "faults/internal.h"

#include <stdio.h>
#include <string.h>

#define S US_PER_S
#define MS US_PER_MS
#define LATE_FAULTS 10 /* faults after the last submission */
/* How long orphans may live. The last fault lasts up to 20 s (and a commit of a slow disk 4 s more). Then
 * central misses the dist for 3 s, and gives it up after the lease of 10 s, or the dist comes back as another
 * process. One lease later its orphans are cancelled. The rest is margin. */
#define ORPHANS_US (90 * S)

const char *const fault_names[FAULT_COUNT] = {
#define X(name, text, help) [FAULT_##name] = (text),
    FAULT_KINDS(X)
#undef X
};

int faults_parse_kinds(const char *text, uint32_t *kinds, const char **bad)
{
    *kinds = 0;
    if (strcmp(text, "all") == 0)
        *kinds = FAULTS_ALL;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return 0;
    for (const char *at = text; *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");
        uint32_t k = 0;

        while (k < FAULT_COUNT && (strlen(fault_names[k]) != len || strncmp(fault_names[k], at, len) != 0))
            k++;
        if (k == FAULT_COUNT) {
            *bad = at;
            return HAWK_EINVALID;
        }
        *kinds |= 1u << k;
        at += len;
    }
    *bad = text;
    return *kinds ? 0 : HAWK_EINVALID;
}

/* A run under way. */
struct run {
    const struct faults_options *o;
    struct rng rng;
    struct cluster_config config;
    struct cluster *c;
    struct faults_result *r;
    uint32_t kinds;
};

static bool has(const struct run *run, enum fault_kind kind) { return run->kinds >> kind & 1; }

/* ---- Jobs ---- */

/* The estimate of the job's user: right, wrong by up to ten times, or none. */
static int64_t random_estimate(const struct cluster_job *j, struct rng *r)
{
    int64_t mean_us = 0;

    for (uint32_t i = 0; i < j->desc->tasks; i++)
        mean_us += j->tasks[i].duration_us / j->desc->tasks;
    switch (rng_below(r, 3)) {
    case 0:
        return 0;
    case 1:
        return mean_us > 0 ? mean_us : 1;
    default:
        return 1 + mean_us / 10 + (int64_t)rng_below(r, (uint64_t)mean_us * 10 + 1);
    }
}

/* Multiplies an estimate by 1/1000 to 1000. */
static int64_t wild_estimate(int64_t right_us, struct rng *r)
{
    int64_t factor = 1 + (int64_t)rng_below(r, 1000),
            us = rng_below(r, 2) ? right_us * factor : right_us / factor;

    return us > 0 ? us : 1;
}

/* Half of the seeds have one user, who has no name; the others have two to four. */
static uint64_t users_of(uint64_t seed)
{
    uint64_t users = 1 + hash_mix(seed ^ UINT64_C(0x75736572)) % 8;

    return users <= 4 ? users : 1;
}

static void draw_user(const struct run *run, struct cluster_job *j)
{
    uint64_t users = users_of(run->o->seed);
    char name[8];

    if (users == 1)
        return;
    snprintf(name, sizeof name, "u%u", (unsigned)(hash_pair(run->o->seed, j->desc->shell) % users));
    blob_drop(j->desc->user);
    j->desc->user = blob_str(name);
}

static struct cluster_job *random_job(struct run *run)
{
    struct cluster *c = run->c;
    struct rng *r = &run->rng;
    bool is_long = rng_below(r, 4) == 0;
    uint32_t tasks = 1 + (uint32_t)rng_below(r, rng_below(r, 10) ? 12 : 60);
    enum class_tag tag = rng_below(r, 3) == 0 ? TAG_AUTO : is_long ? TAG_LONG : TAG_SHORT;
    struct cluster_job *j;

    if (run->config.after && c->jobs_n % 3 == 1)
        tasks = c->jobs[c->jobs_n - 1]->desc->tasks; /* so that tasks wait for tasks */
    j = cluster_job(c, tasks, 0, tag);
    for (uint32_t i = 0; i < tasks; i++) {
        j->tasks[i].duration_us = (int64_t)(is_long ? 5 * S + rng_below(r, 20 * S) : 1 + rng_below(r, 2 * S));
        j->tasks[i].code = rng_below(r, 30) == 0;
        if (j->tasks[i].code && j->tasks[i].duration_us % 2)
            j->tasks[i].duration_us = 1; /* a program that is not there fails at once, also in a long job */
    }
    draw_user(run, j);
    j->desc->estimate_us = random_estimate(j, r);
    if (has(run, FAULT_ESTIMATES) && j->desc->estimate_us > 0)
        j->desc->estimate_us = wild_estimate(j->desc->estimate_us, r);
    if (rng_below(r, 3) == 0)
        j->desc->flags |= JOB_DETACHED;
    if (rng_below(r, 3) == 0)
        cluster_name_job(j, rng_below(r, 2) ? "a" : "b");
    if (rng_below(r, 8) == 0)
        j->desc->max_fails = 1;
    if (rng_below(r, 6) == 0)
        j->desc->max_running = 1 + (uint32_t)rng_below(r, 4);
    if (rng_below(r, 8) == 0)
        j->desc->flags |= JOB_AT_MOST_ONCE;
    if (rng_below(r, 3) == 0) {
        j->desc->failure_retries = (uint16_t)(1 + rng_below(r, 3));
        j->desc->retry_delay_us = rng_below(r, 2) ? (int64_t)rng_below(r, 3 * S) : 0;
    }
    if (has(run, FAULT_EXECUTOR) && rng_below(r, 3) == 0)
        cluster_app_job(j);
    j->nowhere = has(run, FAULT_STARTLESS) && rng_below(r, 8) == 0;
    j->cancelled = j->desc->max_fails > 0; /* the job may be cancelled at any moment */
    /* Enough retries: only a task with more faults than that may be lost. */
    j->desc->lost_retries = run->config.only_startless ? 0 : 20;
    return j;
}

/* ---- Faults ---- */

/* Draws two nodes that have streams to each other. */
static void random_pair(struct run *run, uint32_t *x, uint32_t *y)
{
    struct cluster *c = run->c;
    uint32_t worker = c->workers[rng_below(&run->rng, c->workers_n)]->ep;
    uint32_t other = c->workers[rng_below(&run->rng, c->workers_n)]->ep;
    uint32_t dist = c->dists[rng_below(&run->rng, c->dists_n)]->ep, central = c->central_ep;
    const struct {
        uint32_t x, y;
    } pairs[] = {
        {worker, dist}, {worker, central}, {dist, central}, {worker, other == worker ? central : other}};
    uint64_t i = rng_below(&run->rng, 4);

    *x = pairs[i].x;
    *y = pairs[i].y;
}

/* Draws a time from now until max_s later. */
static int64_t time_within(struct run *run, int64_t max_s)
{
    return bus_now(run->c->bus) + (int64_t)rng_below(&run->rng, (uint64_t)(max_s * S));
}

static uint32_t random_node(struct run *run)
{
    return run->c->central_ep + (uint32_t)rng_below(&run->rng, cluster_nodes(run->c));
}

/* The i-th of all nodes: the workers, the dists, and central at last. */
static uint32_t nth_node(const struct cluster *c, uint32_t i)
{
    if (i < c->workers_n)
        return c->workers[i]->ep;
    return i < cluster_nodes(c) - 1 ? c->dists[i - c->workers_n]->ep : c->central_ep;
}

/* Cuts two nodes off from each other, or one from all others. */
static void partition(struct run *run, bool one_way)
{
    struct cluster *c = run->c;
    int64_t until_us = time_within(run, 20);
    uint32_t x, y;

    random_pair(run, &x, &y);
    if (rng_below(&run->rng, 2)) {
        cluster_partition(c, rng_below(&run->rng, 2) ? x : y, x, one_way, until_us);
        return;
    }
    x = random_node(run);
    one_way = one_way || rng_below(&run->rng, 2);
    for (uint32_t i = 0; i < cluster_nodes(c); i++)
        if (nth_node(c, i) != x)
            cluster_partition(c, x, nth_node(c, i), one_way, until_us);
}

/* The node's machine dies: for a third of the crashes, others notice it only by its silence. */
static void vanish(struct run *run, uint32_t ep)
{
    struct cluster *c = run->c;

    if (rng_below(&run->rng, 3) != 0)
        return;
    for (uint32_t i = 0; i < cluster_nodes(c); i++)
        if (nth_node(c, i) != ep)
            cluster_break_unseen(c, ep, nth_node(c, i));
}

/* Crashes a worker. A worker that is down starts instead; healing starts the rest. */
static void crash_worker(struct run *run, uint32_t worker)
{
    struct cluster_worker *w = run->c->workers[worker];

    if (w->alive)
        vanish(run, w->ep);
    if (w->alive && rng_below(&run->rng, 3) == 0)
        cluster_kill_worker(run->c, worker);
    else
        cluster_restart_worker(run->c, worker);
}

static void crash_dist(struct run *run, uint32_t dist)
{
    struct cluster_dist *d = run->c->dists[dist];

    if (d->alive)
        vanish(run, d->ep);
    if (d->alive && rng_below(&run->rng, 3) == 0)
        cluster_kill_dist(run->c, dist);
    else
        cluster_restart_dist(run->c, dist);
}

static void put_back_journal(struct run *run, uint32_t dist)
{
    bool lost = rng_below(&run->rng, 2);

    /* Never both kinds: a central that lost its state needs some node that knows its id. */
    cluster_put_back_journal(run->c, dist, lost && !has(run, FAULT_EMPTY));
    if (rng_below(&run->rng, 3) != 0)
        cluster_restart_dist(run->c, dist);
}

/* Crashes a dist together with its clients, as a reboot of their machine does. */
static void crash_clients(struct run *run)
{
    uint32_t dist = (uint32_t)rng_below(&run->rng, run->c->dists_n);

    cluster_abandon_clients(run->c, dist);
    crash_dist(run, dist);
    cluster_prolong_orphans(run->c);
}

static void crash_agent(struct run *run, uint32_t worker)
{
    struct cluster *c = run->c;

    if (c->workers[worker]->alive)
        cluster_crash_agent(c, worker);
    else
        cluster_return_agent(c, worker);
    if (!c->workers[worker]->alive &&
        rng_below(&run->rng, 2)) /* else it returns with the next such fault, or when everything heals */
        cluster_return_agent(c, worker);
}

static void move_worker(struct run *run, uint32_t worker)
{
    struct cluster *c = run->c;
    uint32_t other = rng_below(&run->rng, 3) ? worker : (uint32_t)rng_below(&run->rng, c->workers_n);

    cluster_move_worker(c, worker, other);
    if (other != worker)
        crash_worker(run, other);
    if (rng_below(&run->rng, 2))
        crash_worker(run, worker);
    else
        crash_agent(run, worker);
}

static void crash_central(struct run *run)
{
    struct cluster *c = run->c;
    bool runs = bus_runs(c->bus, c->central_ep);

    if (runs)
        vanish(run, c->central_ep);
    if (runs && rng_below(&run->rng, 2))
        cluster_kill_central(c);
    else
        cluster_restart_central(c);
}

static struct cluster_store *random_store(struct run *run)
{
    struct cluster *c = run->c;

    return rng_below(&run->rng, 2) ? &c->store : &c->dists[rng_below(&run->rng, c->dists_n)]->store;
}

static void slow_disk(struct run *run, struct cluster_store *s)
{
    s->slow_us = 1 + (int64_t)rng_below(&run->rng, 4 * S);
    s->slow_until_us = time_within(run, 20);
}

static void delay(struct run *run)
{
    cluster_slow(run->c, random_node(run), (int64_t)rng_below(&run->rng, 300 * MS) + 1, time_within(run, 20));
}

/* An operator drains a node. Some stay drained until everything heals. */
static void drain_node(struct run *run)
{
    struct cluster *c = run->c;

    if (bus_runs(c->bus, c->central_ep))
        cluster_drain(c, 1 + (uint32_t)rng_below(&run->rng, cluster_nodes(c) - 1),
                      (enum drain)rng_below(&run->rng, DRAIN_COUNT));
}

static void fail_network(struct run *run, enum fault_kind kind)
{
    struct cluster *c = run->c;
    uint32_t x, y;

    random_pair(run, &x, &y);
    if (kind == FAULT_BREAK)
        bus_break(c->bus, x, y);
    else if (kind == FAULT_UNSEEN)
        cluster_break_unseen(c, x, y);
    else if (kind == FAULT_STALL)
        cluster_stall(c, rng_below(&run->rng, 2) ? x : y, rng_below(&run->rng, 2) ? y : x,
                      time_within(run, 4));
    else
        bus_cut(c->bus, x, y, time_within(run, 20));
}

/* Draws a flag to switch: any flag if no message can be lost; otherwise none that jobs need to end. */
static uint32_t random_flag(const struct run *run, struct rng *r)
{
    uint32_t bit = (uint32_t)rng_below(r, 20);
    bool lossless = run->kinds == 1u << FAULT_POLICY;

    while (!policy_flag_keys[bit] || (!lossless && 1u << bit & (POLICY_REPROBE | POLICY_CANCEL_PROBES)))
        bit = (bit + 1) % 32;
    return 1u << bit;
}

static void random_numbers(struct policy_choice *c, struct rng *r)
{
    c->numbers = (uint8_t)(rng_next(r) & POLICY_NUMBERS_ALL & ~(uint32_t)POLICY_NUMBER_SHARE);
    c->v.cutoff_us = (int64_t)(S / 2 + rng_below(r, 20 * S));
    c->v.probe_ratio_milli = 1000 + (uint32_t)rng_below(r, 3001);
    c->v.min_probes = (uint32_t)rng_below(r, 10);
    c->v.steal_cap = (uint16_t)(1 + rng_below(r, 10));
    c->v.steal_max = (uint16_t)(1 + rng_below(r, 10));
    c->v.short_first = (uint16_t)rng_below(r, 5);
}

/* Draws a change: a preset, numbers, a few flags, or the configured policy. */
static void change_policy(struct run *run)
{
    struct policy_choice *c = policy_choice_new();
    struct rng *r = &run->rng;

    if (!bus_runs(run->c->bus, run->c->central_ep)) {
        policy_choice_drop(c);
        return;
    }
    if (rng_below(r, 2))
        c->preset = (uint8_t)(1 + rng_below(r, 8));
    for (uint32_t n = (uint32_t)rng_below(r, 4); n > 0; n--) {
        uint32_t flag = random_flag(run, r);

        c->flags |= flag;
        c->v.flags ^= rng_below(r, 2) ? flag : 0;
    }
    if (rng_below(r, 2))
        random_numbers(c, r);
    cluster_set_policy(run->c, rng_below(r, 8) ? c : NULL);
    policy_choice_drop(c);
}

static void older_central(struct run *run)
{
    if (bus_runs(run->c->bus, run->c->central_ep))
        cluster_older_central(run->c, time_within(run, 10));
}

static void empty_central(struct run *run)
{
    if (!run->c->emptied)
        cluster_empty_central(run->c);
}

/* Moves one job of a dist, or all of them. */
static void move_jobs(struct run *run)
{
    struct cluster *c = run->c;
    uint32_t dist = (uint32_t)rng_below(&run->rng, c->dists_n), n = rng_below(&run->rng, 2) ? 1 : c->jobs_n;

    for (uint32_t i = c->jobs_n; n > 0 && i-- > 0;)
        if (c->jobs[i]->dist == dist && cluster_may_move(c, c->jobs[i])) {
            cluster_leave_dist(c, c->jobs[i]);
            n--;
        }
}

static void stop_worker(struct run *run, uint32_t worker)
{
    if (run->c->workers[worker]->alive)
        cluster_stop_worker(run->c, worker, rng_below(&run->rng, 2));
}

static void make_startless(struct run *run, uint32_t worker)
{
    run->c->workers[worker]->startless_us = time_within(run, 20);
    run->c->startless_n++;
}

static void fail_disk(struct run *run, enum fault_kind kind)
{
    struct cluster_store *s = random_store(run);

    if (kind == FAULT_DISK)
        slow_disk(run, s);
    else
        cluster_store_fill(s, time_within(run, 20));
}

static void inject(struct run *run, enum fault_kind kind)
{
    struct cluster *c = run->c;
    uint32_t worker = (uint32_t)rng_below(&run->rng, c->workers_n);

    run->r->faults[kind]++;
    switch (kind) {
    case FAULT_BREAK:
    case FAULT_UNSEEN:
    case FAULT_STALL:
    case FAULT_CUT:
        fail_network(run, kind);
        break;
    case FAULT_PARTITION:
    case FAULT_ONE_WAY:
        partition(run, kind == FAULT_ONE_WAY);
        break;
    case FAULT_DELAY:
        delay(run);
        break;
    case FAULT_FREEZE:
        cluster_freeze(c, random_node(run), rng_below(&run->rng, 2), time_within(run, 20));
        break;
    case FAULT_WORKER:
        crash_worker(run, worker);
        break;
    case FAULT_DIST:
        crash_dist(run, (uint32_t)rng_below(&run->rng, c->dists_n));
        break;
    case FAULT_CENTRAL:
        crash_central(run);
        break;
    case FAULT_STOP:
        stop_worker(run, worker);
        break;
    case FAULT_JOIN:
        cluster_add_worker(c, 1 + (uint32_t)rng_below(&run->rng, 3));
        break;
    case FAULT_AGENT:
        crash_agent(run, worker);
        break;
    case FAULT_DRAIN:
        drain_node(run);
        break;
    case FAULT_DISK:
    case FAULT_FULL:
        fail_disk(run, kind);
        break;
    case FAULT_EXECUTOR:
        cluster_attach(c, worker, !c->workers[worker]->attached);
        break;
    case FAULT_EMPTY:
        empty_central(run);
        break;
    case FAULT_STARTLESS:
        make_startless(run, worker);
        break;
    case FAULT_CLIENT:
        crash_clients(run);
        break;
    case FAULT_POLICY:
        change_policy(run);
        break;
    case FAULT_COPY:
        put_back_journal(run, (uint32_t)rng_below(&run->rng, c->dists_n));
        break;
    case FAULT_ADDRESS:
        move_worker(run, worker);
        break;
    case FAULT_OLDER:
        older_central(run);
        break;
    case FAULT_MOVED:
        move_jobs(run);
        break;
    case FAULT_TABLES:
    case FAULT_ESTIMATES: /* it applies to jobs as they are made */
    case FAULT_COUNT:
        break;
    }
}

static void random_fault(struct run *run)
{
    uint32_t kind = (uint32_t)rng_below(&run->rng, FAULT_COUNT);

    while (!has(run, kind))
        kind = (kind + 1) % FAULT_COUNT;
    /* Runs a random number of steps, so that faults also come between steps of the same moment. */
    cluster_steps(run->c, (uint32_t)rng_below(&run->rng, 20), bus_now(run->c->bus) + 10 * MS);
    inject(run, kind);
}

/* ---- The cluster ---- */

/* The policy may use `split`, which needs a reserved worker for short jobs. */
static bool may_split(const struct run *run)
{
    return has(run, FAULT_POLICY) || strcmp(run->config.policy, "split") == 0;
}

static void enough_reserved(struct cluster_config *c)
{
    c->workers += 4;
    c->share_ppm = 450000;
}

/* ---- One run ---- */

static void draw_run(struct run *run, const struct faults_options *o)
{
    run->o = o;
    run->kinds = o->kinds;
    rng_seed(&run->rng, o->seed);
    if (o->draw_kinds) {
        run->kinds &= (uint32_t)rng_next(&run->rng);
        /* A third of those without other faults has this one: then a failed start may cost no retry at
         * all. */
        if (rng_below(&run->rng, 5) == 0)
            run->kinds = o->seed % 3 ? 0 : o->kinds & 1u << FAULT_STARTLESS;
    }
    run->config = faults_random_config(o->seed, &run->rng, run->kinds != 0);
    run->config.share_computed = run->config.cutoff_computed && !may_split(run);
    run->config.only_startless = run->kinds == 1u << FAULT_STARTLESS;
    run->config.jobs_move = has(run, FAULT_MOVED);
    /* Of the seed alone, too; none of those in tests/mutations. Healing restarts such workers, which is a fault. */
    run->config.ending_workers =
        hash_mix(o->seed ^ UINT64_C(0x3b656e64)) % 8 == 0 && run->kinds && !run->config.only_startless;
    run->config.after = hash_mix(o->seed ^ UINT64_C(0x6166746572)) % 3 == 0; /* of the seed alone */
    if (may_split(run))
        enough_reserved(&run->config);
    /* Where workers are reserved, those that run everybody's jobs may be all in one partition; where some are
     * stopped, all of them may be. */
    run->config.own_workers = users_of(o->seed) > 1 && !has(run, FAULT_STOP) && !may_split(run) &&
                              !run->config.share_computed && run->config.share_ppm == 0;
    if (has(run, FAULT_TABLES))
        faults_random_limits(&run->config, &run->rng);
    if (has(run, FAULT_DELAY))
        run->config.jitter_us = 1 + (int64_t)rng_below(&run->rng, 50 * MS);
    run->config.failed = o->failed;
    run->config.failed_arg = o->failed_arg;
    run->config.log = o->log;
}

size_t faults_describe(const struct faults_options *o, char *buf, size_t size)
{
    struct run run = {0};
    int n;

    if (o->single)
        return faults_describe_single(o, buf, size);
    draw_run(&run, o);
    n = snprintf(buf, size, "%s, %u workers of %u slots, %u dists; faults:", run.config.policy,
                 run.config.workers, run.config.slots, run.config.dists);
    for (uint32_t k = 0; k < FAULT_COUNT && n > 0 && (size_t)n < size; k++)
        if (run.kinds >> k & 1)
            n += snprintf(buf + n, size - (size_t)n, " %s", fault_names[k]);
    if (!run.kinds && n > 0 && (size_t)n < size)
        n += snprintf(buf + n, size - (size_t)n, " none");
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void submit_all(struct run *run)
{
    struct cluster *c = run->c;
    struct rng *r = &run->rng;
    uint32_t jobs = 5 + (uint32_t)rng_below(r, 25), fault_every = 1 + (uint32_t)rng_below(r, 4);

    if (run->o->jobs)
        jobs = run->o->jobs;
    for (uint32_t i = 0; i < jobs; i++) {
        struct cluster_job *j = random_job(run);

        run->r->tasks += j->desc->tasks;
        cluster_submit(c, j, (uint32_t)rng_below(r, c->dists_n));
        cluster_run(c, (int64_t)rng_below(r, 1500 * MS));
        if (rng_below(r, 10) == 0 && j->submitted && !j->err && !j->abandoned)
            cluster_cancel(c, j);
        if (rng_below(r, 12) == 0 && !may_split(run) && bus_runs(c->bus, c->central_ep))
            cluster_set_share(c, (uint32_t)rng_below(r, 6) * 150000);
        cluster_ask_some(c);
        if (run->kinds && rng_below(r, fault_every) == 0)
            random_fault(run);
    }
    run->r->jobs += jobs;
}

static bool has_recovered(struct cluster *c, void *arg) { return c->recovered; }

/* Repairs everything: starts the processes that are down or about to stop. Nothing fails from now on. */
static void heal(struct run *run)
{
    struct cluster *c = run->c;

    c->config.ending_workers = false;
    if (!bus_runs(c->bus, c->central_ep) || c->central_us != TIME_NEVER)
        cluster_restart_central(c);
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (!c->dists[i]->alive)
            cluster_restart_dist(c, i);
    for (uint32_t i = 0; i < c->workers_n; i++)
        if (!c->workers[i]->alive || c->workers[i]->stopping || c->workers[i]->taken_us != TIME_NEVER)
            cluster_restart_worker(c, i);
    for (uint32_t i = 0; has(run, FAULT_EXECUTOR) && i < c->workers_n; i++)
        cluster_attach(c, i, true);
    if (!has(run, FAULT_DRAIN))
        return;
    cluster_run_until(c, has_recovered, NULL, 60 * S, INVARIANT_ENDS, "recovered");
    for (node_id_t n = central_next_node(c->central, NODE_NONE); n.v; n = central_next_node(c->central, n))
        cluster_drain(c, n.v, DRAIN_NOT);
}

/* The time that one slot needs to run everything; most of it counts twice. */
static int64_t work_us(const struct cluster *c)
{
    int64_t sum_us = 0;

    for (uint32_t i = 0; i < c->jobs_n; i++)
        for (uint32_t t = 0; !c->jobs[i]->abandoned && t < c->jobs[i]->desc->tasks; t++)
            sum_us += 2 * c->jobs[i]->tasks[t].duration_us;
    return sum_us;
}

void faults_run(const struct faults_options *o, struct faults_result *r)
{
    struct run run = {.r = r};

    if (o->single) {
        faults_run_single(o, r);
        return;
    }
    draw_run(&run, o);
    run.c = cluster_new(&run.config);
    cluster_come_up(run.c);
    for (uint32_t i = 0; has(&run, FAULT_EXECUTOR) && i < run.c->workers_n; i += 2)
        cluster_attach(run.c, i, true);
    submit_all(&run);
    for (uint32_t i = 0; run.kinds && i < LATE_FAULTS; i++) {
        cluster_run(run.c, (int64_t)rng_below(&run.rng, 4 * S));
        cluster_ask_some(run.c);
        random_fault(&run);
    }
    heal(&run);
    cluster_release_all(run.c, has(&run, FAULT_EMPTY) || has(&run, FAULT_COPY));
    if (has(&run, FAULT_CLIENT))
        cluster_expect_no_orphans(run.c, ORPHANS_US);
    cluster_run_jobs(run.c, (o->heal_us ? o->heal_us : FAULTS_HEAL_US) + work_us(run.c));
    cluster_expect_all_quiet(run.c);
    r->steps += run.c->steps;
    r->virtual_us += bus_now(run.c->bus);
    r->hash = run.c->hash;
    cluster_free(run.c);
}
