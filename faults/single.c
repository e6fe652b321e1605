/* One fault at a time, and the bound on its cost: no short task waits more than WAIT_BOUND_US for a single
 * fault that leaves its dist and a worker running (docs/reliability.md, "Waits"). The load is light: without
 * a fault no task would wait. */
#include "base/check.h"
#include "faults/faults.h"
#include "faults/internal.h"

#include <string.h>

#define S US_PER_S
#define MS US_PER_MS

#define WAIT_BOUND_US (3500 * MS)
#define TASK_US_MAX (50 * MS)
#define ROUNDS 2
/* The time between two faults, long enough for all nodes to connect again. */
#define CALM_US (20 * S)

enum single {
    ONE_WAY,   /* messages from x to y are lost */
    BOTH_WAYS, /* and those from y to x */
    DEAF,      /* x hears nobody */
    MUTE,      /* nobody hears x */
    ISOLATED,  /* both */
    KILLED,    /* x's process dies */
    VANISHED,  /* x's machine dies: nobody is told */
    STOPPED,   /* x's process stands still */
    MACHINE,   /* x's machine stands still, with its tasks */
    AGENT,     /* a worker's process dies, its spawner lives on */
    SINGLE_COUNT,
};
static const char *const texts[SINGLE_COUNT] = {"one way", "both ways", "deaf",    "mute",    "isolated",
                                                "killed",  "vanished",  "stopped", "machine", "agent"};
static const enum fault_kind kinds[SINGLE_COUNT] = {
    FAULT_ONE_WAY, FAULT_PARTITION, FAULT_ONE_WAY, FAULT_ONE_WAY, FAULT_PARTITION,
    FAULT_WORKER,  FAULT_WORKER,    FAULT_FREEZE,  FAULT_FREEZE,  FAULT_AGENT,
};

static const char *text_of(enum single s) { return s < SINGLE_COUNT ? texts[s] : "?"; }

struct single_run {
    const struct faults_options *o;
    struct faults_result *r;
    struct rng rng;
    struct cluster_config config;
    struct cluster *c;
    bool long_work; /* every general slot runs an endless task: short tasks need stealing */
    enum single what;
    uint32_t x, y; /* endpoints of the fault; y: the other one of a pair, or 0 */
    int64_t from_us, until_us;
    uint32_t first_job; /* the first job of this round */
};

static uint32_t random_below(struct single_run *run, uint32_t n) { return (uint32_t)rng_below(&run->rng, n); }

static void draw_single(struct single_run *run, const struct faults_options *o)
{
    struct rng *r = &run->rng;

    run->o = o;
    rng_seed(r, o->seed);
    run->config = (struct cluster_config){
        .policy = "hawk",
        .dists = 1 + random_below(run, 3),
        .workers = 3 + random_below(run, 10),
        .slots = 1 + random_below(run, 3),
        .share_ppm = 100000 * random_below(run, 4),
        .delay_us = random_below(run, 3) == 0 ? 0 : (int64_t)rng_below(r, 2 * MS),
        .journal_us = 1 * MS,
        .lease_us = 10 * S,
        .seed = o->seed,
        .finished_kept = 21,
        .queue_per_slot = random_below(run, 2),
        .steal_streams = random_below(run, 2) ? 2 : 0,
        .probe_ratio_milli = random_below(run, 2) ? 0 : 1000 + random_below(run, 2000),
        .failed = o->failed,
        .failed_arg = o->failed_arg,
        .log = o->log,
    };
    run->long_work = random_below(run, 2);
    if (run->long_work) { /* enough workers to lose one */
        run->config.workers += 6;
        run->config.share_ppm = 400000;
    }
}

size_t faults_describe_single(const struct faults_options *o, char *buf, size_t size)
{
    struct single_run run = {0};
    int n;

    draw_single(&run, o);
    n = snprintf(buf, size, "%u workers of %u slots, %u dists; one fault at a time%s", run.config.workers,
                 run.config.slots, run.config.dists, run.long_work ? ", beside long work" : "");
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* ---- The fault ---- */

static void cut_off(struct single_run *run, bool out, bool in)
{
    for (uint32_t i = 0; i < cluster_nodes(run->c); i++) {
        uint32_t other = run->c->central_ep + i;

        if (other == run->x)
            continue;
        cluster_partition(run->c, out ? run->x : other, out ? other : run->x, !out || !in, run->until_us);
    }
}

static void end_process(struct single_run *run, bool vanishes)
{
    struct cluster *c = run->c;

    for (uint32_t i = 0; vanishes && i < cluster_nodes(c); i++)
        if (c->central_ep + i != run->x)
            cluster_break_unseen(c, run->x, c->central_ep + i);
    if (run->x == c->central_ep)
        cluster_kill_central(c);
    else if (cluster_dist_of(c, run->x))
        cluster_kill_dist(c, cluster_dist_index(c, run->x));
    else
        cluster_kill_worker(c, cluster_worker_index(c, run->x));
}

static void begin(struct single_run *run)
{
    struct cluster *c = run->c;

    /* Central stays up beside long work: there thieves find stuck reservations by its hints. Without hints
     * they ask around, which takes longer. */
    uint32_t first = run->long_work ? 1 : 0;

    run->what = (enum single)random_below(run, SINGLE_COUNT);
    run->x = c->central_ep + first + random_below(run, cluster_nodes(c) - first);
    do
        run->y = c->central_ep + first + random_below(run, cluster_nodes(c) - first);
    while (run->y == run->x);
    if (run->what == AGENT)
        run->x = c->workers[random_below(run, c->workers_n)]->ep;
    run->from_us = bus_now(c->bus);
    run->until_us = run->from_us + 1 * S + (int64_t)rng_below(&run->rng, 15 * S);
    run->r->faults[kinds[run->what]]++;
    switch (run->what) {
    case ONE_WAY:
    case BOTH_WAYS:
        cluster_partition(c, run->x, run->y, run->what == ONE_WAY, run->until_us);
        break;
    case DEAF:
    case MUTE:
    case ISOLATED:
        cut_off(run, run->what != DEAF, run->what != MUTE);
        break;
    case KILLED:
    case VANISHED:
        end_process(run, run->what == VANISHED);
        break;
    case STOPPED:
    case MACHINE:
        cluster_freeze(c, run->x, run->what == MACHINE, run->until_us);
        break;
    case AGENT:
        cluster_crash_agent(c, cluster_worker_index(c, run->x));
        break;
    case SINGLE_COUNT:
        break;
    }
    if (c->trace)
        fprintf(stderr, "%12lld fault: %s, %u and %u, until %lld\n", (long long)run->from_us,
                text_of(run->what), run->x, run->y, (long long)run->until_us);
}

static void repair(struct single_run *run)
{
    struct cluster *c = run->c;
    uint32_t worker = cluster_worker_index(c, run->x);

    if (run->what == AGENT && !c->workers[worker]->alive)
        cluster_return_agent(c, worker);
    if (run->what != KILLED && run->what != VANISHED)
        return;
    if (run->x == c->central_ep)
        cluster_restart_central(c);
    else if (cluster_dist_of(c, run->x))
        cluster_restart_dist(c, cluster_dist_index(c, run->x));
    else
        cluster_restart_worker(c, worker);
}

/* ---- The load, and its bounds ---- */

/* Submits an endless long task for every slot. */
static void fill(struct single_run *run)
{
    struct cluster *c = run->c;
    struct cluster_job *j = cluster_job(c, c->config.workers * c->config.slots, 100000 * S, TAG_LONG);

    j->desc->lost_retries = 100;
    cluster_submit(c, j, 0);
    cluster_run(c, S);
    run->first_job = c->jobs_n;
}

static void submit_job(struct single_run *run)
{
    struct cluster *c = run->c;
    uint32_t slots = c->config.workers * c->config.slots;
    uint32_t tasks = 1 + random_below(run, run->long_work ? slots / 6 : (slots + 1) / 2);
    uint32_t dist = random_below(run, c->dists_n);
    struct cluster_job *j = cluster_job(c, tasks, 0, TAG_SHORT);

    for (uint32_t i = 0; i < tasks; i++)
        j->tasks[i].duration_us = 1 + (int64_t)rng_below(&run->rng, TASK_US_MAX);
    j->desc->lost_retries = 20;
    run->r->tasks += tasks;
    run->r->jobs++;
    cluster_submit(c, j, dist);
}

static void load(struct single_run *run, int64_t until_us)
{
    while (bus_now(run->c->bus) < until_us) {
        submit_job(run);
        cluster_run(run->c, 50 * MS + (int64_t)rng_below(&run->rng, 300 * MS));
    }
}

/* The fault killed the job's dist, or cut it off from every worker. */
static bool is_excused(const struct single_run *run, const struct cluster_job *j)
{
    return j->abandoned || !j->submitted || (run->what > BOTH_WAYS && run->c->dists[j->dist]->ep == run->x);
}

static void expect_no_waits(struct single_run *run)
{
    struct cluster *c = run->c;

    for (uint32_t i = run->first_job; i < c->jobs_n; i++) {
        const struct cluster_job *j = c->jobs[i];
        int64_t took_us = (cluster_ended(j) ? j->end_us : bus_now(c->bus)) - j->submit_us;

        if (is_excused(run, j))
            continue;
        if (j->err)
            cluster_fail(c, INVARIANT_WAITS, "job %u was refused: %s", i, hawk_strerror(j->err));
        /* Its own run time, at most twice, does not count as waiting. */
        if (took_us > WAIT_BOUND_US + 2 * TASK_US_MAX)
            cluster_fail(
                c, INVARIANT_WAITS,
                "%s, submitted at %.3f s to %u, took %.3f s beside a single fault: %s, %u and %u, from %.3f "
                "to %.3f s",
                job_id_format((char[JOB_ID_TEXT]){0}, j->id), (double)j->submit_us / S, c->dists[j->dist]->ep,
                (double)took_us / S, text_of(run->what), run->x, run->y, (double)run->from_us / S,
                (double)run->until_us / S);
        if (took_us > run->r->wait_us_max)
            run->r->wait_us_max = took_us;
    }
    run->first_job = c->jobs_n;
}

void faults_run_single(const struct faults_options *o, struct faults_result *r)
{
    struct single_run run = {.r = r};

    draw_single(&run, o);
    run.c = cluster_new(&run.config);
    cluster_come_up(run.c);
    if (run.long_work)
        fill(&run);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        load(&run, bus_now(run.c->bus) + S);
        begin(&run);
        load(&run, run.until_us);
        repair(&run);
        load(&run, bus_now(run.c->bus) + 3 * S);
        cluster_run(run.c, CALM_US);
        expect_no_waits(&run);
    }
    r->steps += run.c->steps;
    r->virtual_us += bus_now(run.c->bus);
    r->hash = run.c->hash;
    cluster_free(run.c);
}
