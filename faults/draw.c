/* The cluster of a random run, drawn from its seed. */
#include "faults/draw.h"

#include "base/check.h"

#define S US_PER_S
#define MS US_PER_MS

/* Draws policy flags. Where streams break, a dist must replace lost probes, so POLICY_REPROBE stays on. */
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

/* Uses a generator of its own, so that older seeds draw what they drew before this setting existed. Half of
 * the seeds get 0. */
static uint32_t random_short_first(uint64_t seed)
{
    struct rng r;

    rng_seed(&r, ~seed);
    if (rng_below(&r, 2))
        return 0;
    return rng_below(&r, 4) ? 1 + (uint32_t)rng_below(&r, 4) : LIMIT_SHORT_FIRST;
}

/* One of n seeds, from a generator of its own. */
static bool one_of(uint32_t n, uint64_t seed, uint64_t salt)
{
    struct rng r;

    rng_seed(&r, ~seed ^ salt);
    return rng_below(&r, n) == 0;
}

/* Two of three seeds, from a generator of its own; 0: jobs that central keeps take turns as they came. */
static uint32_t random_long_stretch(uint64_t seed)
{
    struct rng r;

    rng_seed(&r, ~seed ^ UINT64_C(0x73747265746368));
    return rng_below(&r, 3) ? 1 + (uint32_t)rng_below(&r, 20) : 0;
}

/* A third of the seeds pauses long tasks, for 1 to 20 s at most; from a generator of its own. */
static int64_t random_pause_us(uint64_t seed)
{
    struct rng r;

    rng_seed(&r, ~seed ^ UINT64_C(0x7061757365));
    if (rng_below(&r, 3))
        return 0;
    return rng_below(&r, 2) ? S : (int64_t)(S + rng_below(&r, 19 * S));
}

struct cluster_config faults_random_config(uint64_t seed, struct rng *r, bool faults)
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
        .short_first = random_short_first(seed),
        .long_stretch = random_long_stretch(seed),
        .pause_longest_us = random_pause_us(seed),
    };
    struct policy p;

    c.nothing_fails = !faults;
    random_flags(&c, r, faults);
    if (one_of(3, seed, UINT64_C(0x6c617465)))
        c.flags_on |= POLICY_LATE_LONG;
    /* The seeds that are all that finds some of tests/mutations are not among these. */
    if (one_of(2, seed, UINT64_C(0x6578747261)))
        c.flags_on |= POLICY_PROBE_EVERYWHERE;
    /* Nor are they among the first ones. */
    if (seed > 20000 && one_of(2, seed, UINT64_C(0x7475726e73)))
        c.flags_on |= POLICY_JOB_TURNS;
    c.cancel_tasks = seed > 20000 && one_of(2, seed, UINT64_C(0x63616e63656c));
    if (c.long_stretch)
        c.flags_on |= POLICY_LONG_BY_WORK;
    if (c.pause_longest_us)
        c.flags_on |= POLICY_PAUSE;
    CHECK(policy_preset(c.policy, &p) == 0);
    p.flags = (p.flags | c.flags_on) & ~c.flags_off;
    /* 50 ms, and the messages: an edge each (10 ms apart), the hint, the steal request and its answer. */
    if (!faults && policy_has(&p, POLICY_STEAL) && policy_has(&p, POLICY_STEAL_HINTS) &&
        !policy_has(&p, POLICY_STEAL_ON_FREE_ONLY))
        c.stuck_us_max = 50 * MS + 6 * c.delay_us;
    return c;
}

void faults_random_limits(struct cluster_config *c, struct rng *r)
{
    c->jobs_max = rng_below(r, 2) ? 1 + (uint32_t)rng_below(r, 6) : 0;
    c->tasks_max = rng_below(r, 2) ? 60 + (uint32_t)rng_below(r, 60) : 0;
    c->long_jobs_max = rng_below(r, 2) ? 1 + (uint32_t)rng_below(r, 4) : 0;
    c->long_tasks_max = rng_below(r, 2) ? 60 + (uint32_t)rng_below(r, 60) : 0;
    c->queue_limit = rng_below(r, 2) ? c->slots + (uint32_t)rng_below(r, 20) : 0;
    c->finished_kept = rng_below(r, 2) ? 1 + (uint32_t)rng_below(r, 3) : 0;
    c->nodes_max = rng_below(r, 2) ? c->workers + c->dists + (uint32_t)rng_below(r, 3) : 0;
    /* A new worker could take the place of the only one that runs some user's commands. */
    if (c->own_workers)
        c->nodes_max = 0;
}
