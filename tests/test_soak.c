/* Thousands of small random clusters, each from one seed: its policy and flags, sizes, delays, jobs, estimates, and
 * what happens to it. Invariants are looked at after every step (tests/lib/cluster.c):
 *
 *   every role's own check; every message passes msg_check
 *   a job's tasks: waiting + running + done + failed + cancelled + lost = all
 *   one final event per task; what is done or failed has run to its end; no two copies of central's tasks at once
 *   no long task reaches a worker behind the word that it is reserved
 *   central's waiting times are not negative
 *   without faults: no reservation stuck for longer than its bound while a thief is parked
 *   in the end every job has ended, and every table is empty
 *
 *   test_soak                          some seeds of either kind
 *   test_soak plain|faults SEED [N]    these; a failure prints the line that repeats it */
#include "lib/cluster.h"

#include "base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define S US_PER_S
#define MS US_PER_MS
#define SEEDS 250 /* of each kind, when nobody says */

static uint64_t first_seed = 1, seeds = SEEDS;
static char scenario[300];

/* A check that aborts says with which seed. */
static void on_abort(int sig)
{
    ssize_t ignored = write(STDERR_FILENO, scenario, strlen(scenario));

    (void)ignored;
    signal(SIGABRT, SIG_DFL);
    abort();
}

static int say_scenario(void **state)
{
    if (scenario[0])
        fputs(scenario, stderr);
    scenario[0] = '\0';
    return 0;
}

/* ---- Jobs ---- */

/* What its user says of its length, if anything: right, wrong by up to ten times, or nothing. */
static int64_t random_estimate(const struct cluster_job *j, struct rng *r)
{
    int64_t mean_us = 0;

    for (uint32_t i = 0; i < j->desc->tasks; i++)
        mean_us += j->duration_us[i] / j->desc->tasks;
    switch (rng_below(r, 3)) {
    case 0:
        return 0;
    case 1:
        return mean_us > 0 ? mean_us : 1;
    default:
        return 1 + mean_us / 10 + (int64_t)rng_below(r, (uint64_t)mean_us * 10 + 1);
    }
}

static struct cluster_job *random_job(struct cluster *c, struct rng *r)
{
    bool is_long = rng_below(r, 4) == 0;
    uint32_t tasks = 1 + (uint32_t)rng_below(r, rng_below(r, 10) ? 12 : 60);
    enum class_tag tag = rng_below(r, 3) == 0 ? TAG_AUTO : is_long ? TAG_LONG : TAG_SHORT;
    struct cluster_job *j = cluster_job(c, tasks, 0, tag);

    for (uint32_t i = 0; i < tasks; i++) {
        j->duration_us[i] = (int64_t)(is_long ? 5 * S + rng_below(r, 20 * S) : 1 + rng_below(r, 2 * S));
        j->code[i] = rng_below(r, 30) == 0;
    }
    j->desc->estimate_us = random_estimate(j, r);
    if (rng_below(r, 3) == 0)
        j->desc->flags |= JOB_DETACHED;
    if (rng_below(r, 3) == 0)
        cluster_name_job(j, rng_below(r, 2) ? "a" : "b");
    if (rng_below(r, 8) == 0)
        j->desc->max_fails = 1;
    j->cancelled = j->desc->max_fails > 0; /* at any moment */
    j->desc->retries = 20;                 /* nothing may be lost but by a fault too many */
    return j;
}

/* ---- Faults ---- */

static void random_fault(struct cluster *c, struct rng *r)
{
    uint32_t worker = (uint32_t)rng_below(r, c->workers_n), other = (uint32_t)rng_below(r, c->workers_n);
    uint32_t dist = (uint32_t)rng_below(r, c->dists_n);

    switch (rng_below(r, 13)) {
    case 0:
        bus_break(c->bus, c->workers[worker]->ep, c->dists[dist]->ep);
        break;
    case 1:
        bus_break(c->bus, c->workers[worker]->ep, c->central_ep);
        break;
    case 2:
        bus_break(c->bus, c->dists[dist]->ep, c->central_ep);
        break;
    case 3:
        if (other != worker)
            bus_break(c->bus, c->workers[worker]->ep, c->workers[other]->ep);
        break;
    case 4:
        cluster_restart_worker(c, worker);
        break;
    case 5:
        cluster_add_worker(c, 1 + (uint32_t)rng_below(r, 3));
        break;
    case 6:
        if (c->workers[worker]->alive && worker > 0) /* one always stays */
            cluster_stop_worker(c, worker, rng_below(r, 2));
        break;
    case 7:
        cluster_restart_central(c);
        break;
    case 8:
        if (bus_runs(c->bus, c->central_ep))
            cluster_kill_central(c);
        else
            cluster_restart_central(c);
        break;
    case 9:
        if (rng_below(r, 3) == 0)
            cluster_restart_dist(c, dist);
        break;
    case 10:
        bus_cut(c->bus, c->workers[worker]->ep, c->central_ep,
                bus_now(c->bus) + (int64_t)rng_below(r, 20 * S));
        break;
    case 11:
        bus_cut(c->bus, c->workers[worker]->ep, c->dists[dist]->ep,
                bus_now(c->bus) + (int64_t)rng_below(r, 20 * S));
        break;
    case 12:
        bus_cut(c->bus, c->dists[dist]->ep, c->central_ep, bus_now(c->bus) + (int64_t)rng_below(r, 20 * S));
        break;
    }
}

/* ---- One run ---- */

/* What a policy may be combined with; where streams break, probes that are lost must be made good. */
static void random_flags(struct cluster_config *c, struct rng *r, bool faults)
{
    static const uint32_t any[] = {POLICY_STEAL,       POLICY_STEAL_ALWAYS,      POLICY_STEAL_RETRY,
                                   POLICY_STEAL_HINTS, POLICY_STEAL_ADAPT,       POLICY_STEAL_REPLACE,
                                   POLICY_PROMOTE,     POLICY_DRAW_REPLACE,      POLICY_SPLIT_COUNTS,
                                   POLICY_TIE_SHORT,   POLICY_STEAL_ON_FREE_ONLY};
    static const uint32_t whole[] = {POLICY_CANCEL_PROBES, POLICY_REPROBE};

    for (uint32_t n = (uint32_t)rng_below(r, 4); n > 0; n--) {
        uint32_t flag = any[rng_below(r, sizeof any / sizeof *any)];

        *(rng_below(r, 2) ? &c->flags_on : &c->flags_off) |= flag;
    }
    if (!faults && rng_below(r, 6) == 0)
        c->flags_off |= whole[rng_below(r, 2)];
    c->probe_ratio_milli = rng_below(r, 3) ? 0 : 1000 + (uint32_t)rng_below(r, 3001);
    c->steal_cap = (uint32_t)rng_below(r, 4);
    c->steal_max = (uint32_t)rng_below(r, 4);
}

static struct cluster_config random_config(uint64_t seed, struct rng *r, bool faults)
{
    struct cluster_config c = {
        .policy = policy_names[rng_below(r, 7)],
        .dists = 1 + (uint32_t)rng_below(r, 4),
        .workers = 1 + (uint32_t)rng_below(r, rng_below(r, 5) ? 10 : 40),
        .slots = 1 + (uint32_t)rng_below(r, rng_below(r, 4) ? 3 : 8),
        .share_ppm = (uint32_t)rng_below(r, 4) * 150000,
        .cutoff_us = rng_below(r, 2) ? 0 : (int64_t)(S / 2 + rng_below(r, 20 * S)),
        .cutoff_computed = rng_below(r, 4) == 0,
        .delay_us = rng_below(r, 3) == 0 ? 0 : (int64_t)rng_below(r, 2000),
        .journal_us = (int64_t)rng_below(r, 3) * 1000,
        .lease_us = 10 * S,
        .seed = seed,
        .queue_per_slot = rng_below(r, 2),
        .steal_streams = rng_below(r, 2) ? 2 : 0,
    };
    struct policy p;

    c.nothing_fails = !faults;
    random_flags(&c, r, faults);
    /* Split needs a reserved worker for its short jobs. */
    if (strcmp(c.policy, "split") == 0) {
        c.workers += 4;
        c.share_ppm = 450000;
    }
    assert_int_equal(policy_preset(c.policy, &p), 0);
    p.flags = (p.flags | c.flags_on) & ~c.flags_off;
    /* 50 ms, and what it takes to say so: an edge each (10 ms apart), the hint, the question and its answer. */
    if (!faults && policy_has(&p, POLICY_STEAL) && policy_has(&p, POLICY_STEAL_HINTS) &&
        !policy_has(&p, POLICY_STEAL_ON_FREE_ONLY))
        c.stuck_us_max = 50 * MS + 6 * c.delay_us;
    return c;
}

static void finish(struct cluster *c)
{
    cluster_run_jobs(c, 3000 * S);
    cluster_expect_all_quiet(c);
    cluster_free(c);
}

static void soak(uint64_t seed, bool faults)
{
    struct rng r;
    struct cluster_config config;
    struct cluster *c;
    uint32_t jobs, fault_every;

    rng_seed(&r, seed);
    config = random_config(seed, &r, faults);
    snprintf(scenario, sizeof scenario,
             "test_soak %s %llu repeats it (%s, %u workers of %u slots, %u dists)\n",
             faults ? "faults" : "plain", (unsigned long long)seed, config.policy, config.workers,
             config.slots, config.dists);
    c = cluster_new(&config);
    cluster_come_up(c);
    jobs = 5 + (uint32_t)rng_below(&r, 25);
    fault_every = faults ? 1 + (uint32_t)rng_below(&r, 4) : 0;
    for (uint32_t i = 0; i < jobs; i++) {
        cluster_submit(c, random_job(c, &r), (uint32_t)rng_below(&r, c->dists_n));
        cluster_run(c, (int64_t)rng_below(&r, 1500 * MS));
        if (rng_below(&r, 10) == 0 && c->jobs[i]->submitted && !c->jobs[i]->abandoned)
            cluster_cancel(c, c->jobs[i]);
        if (rng_below(&r, 12) == 0 && strcmp(config.policy, "split") != 0 && bus_runs(c->bus, c->central_ep))
            cluster_set_share(c, (uint32_t)rng_below(&r, 6) * 150000);
        if (fault_every && rng_below(&r, fault_every) == 0)
            random_fault(c, &r);
    }
    for (uint32_t i = 0; faults && i < 10; i++) {
        cluster_run(c, (int64_t)rng_below(&r, 4 * S));
        random_fault(c, &r);
    }
    if (!bus_runs(c->bus, c->central_ep))
        cluster_restart_central(c);
    finish(c);
}

static void run_seeds(bool faults)
{
    signal(SIGABRT, on_abort);
    for (uint64_t i = 0; i < seeds; i++)
        soak(first_seed + i, faults);
    scenario[0] = '\0';
    signal(SIGABRT, SIG_DFL);
}

static void plain(void **state) { run_seeds(false); }
static void faults(void **state) { run_seeds(true); }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain, say_scenario),
        cmocka_unit_test_teardown(faults, say_scenario),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (argc > 2) {
        first_seed = strtoull(argv[2], NULL, 10);
        seeds = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
