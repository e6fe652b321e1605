/* The simulator: times that can be told in advance, the same run for the same seed, every policy with every invariant
 * looked at after every step, runs compared with each other. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/units.h"
#include "msg/msg.h"
#include "sim/compare.h"
#include "sim/internal.h"
#include "sim/report.h"
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS US_PER_MS
#define S US_PER_S

/* ---- Workloads made here ---- */

struct jobs {
    struct trace_job *v;
    uint32_t n, cap, next;
};

static void add_job(struct jobs *w, int64_t submit_us, uint32_t tasks, int64_t mean_us,
                    const int64_t *durations_us)
{
    int64_t *copy = xmalloc(tasks * sizeof *copy);

    for (uint32_t i = 0; i < tasks; i++)
        copy[i] = durations_us ? durations_us[i] : mean_us;
    vec_grow(w->v, w->n, w->cap);
    w->v[w->n] = (struct trace_job){
        .line = w->n + 1, .submit_us = submit_us, .mean_us = mean_us, .tasks = tasks, .durations_us = copy};
    w->n++;
}

static int next_job(void *arg, struct trace_job *job)
{
    struct jobs *w = arg;

    if (w->next == w->n)
        return 0;
    *job = w->v[w->next++];
    return 1;
}

static void free_jobs(struct jobs *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        free((void *)(uintptr_t)w->v[i].durations_us);
    free(w->v);
    *w = (struct jobs){0};
}

/* Nine short jobs to each long one, as many task-seconds as keep so many slots four fifths busy. */
static void draw_jobs(struct jobs *w, uint32_t n, uint32_t slots, uint64_t seed)
{
    struct rng rng;
    int64_t at_us = 0;

    assert_true(slots > 0);
    rng_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++) {
        bool is_long = rng_below(&rng, 10) == 0;
        uint32_t tasks = 1 + (uint32_t)rng_below(&rng, is_long ? slots : 2 * slots);
        int64_t mean_us = is_long ? 60 * S : 2 * S, sum_us = 0;
        int64_t *durations_us = xmalloc(tasks * sizeof *durations_us);

        for (uint32_t t = 0; t < tasks; t++)
            sum_us += durations_us[t] = (int64_t)rng_below(&rng, (uint64_t)(2 * mean_us));
        assert_true(tasks > 0);
        add_job(w, at_us, tasks, sum_us / tasks, durations_us); /* NOLINT(clang-analyzer-core.DivideZero) */
        free(durations_us);
        at_us += sum_us * 5 / 4 / slots * (int64_t)rng_below(&rng, 3);
    }
}

static struct sim_config config(const char *policy, uint32_t workers)
{
    struct sim_config c;

    sim_config_init(&c);
    assert_int_equal(policy_preset(policy, &c.policy), 0);
    c.policy.cutoff_us = 20 * S;
    c.policy.short_share_ppm = 200000;
    c.workers = workers;
    c.dists = 2;
    c.scheduler_cost_us = c.worker_cost_us = 0;
    c.check = true;
    return c;
}

static struct sim_result simulate(const struct sim_config *c, struct jobs *w)
{
    const struct sim_source source = {next_job, w};
    struct sim_result r;
    char why[256] = "";

    w->next = 0;
    if (sim_run(c, &source, &r, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(r.jobs_n, w->n);
    return r;
}

/* The response of a workload's only job. */
static int64_t response_of_one(const struct sim_config *c, uint32_t tasks, int64_t duration_us)
{
    struct jobs w = {0};
    struct sim_result r;
    int64_t response_us;

    add_job(&w, 5 * S, tasks, duration_us, NULL);
    r = simulate(c, &w);
    response_us = r.jobs[0].response_us;
    sim_result_free(&r);
    free_jobs(&w);
    return response_us;
}

/* ---- Times ---- */

static void a_short_task_takes_four_messages(void **state)
{
    struct sim_config c = config("hawk", 4);

    /* Probe, request, launch, completion. */
    assert_int_equal(response_of_one(&c, 1, S), S + 4 * 500);
    c.delay_min_us = c.delay_max_us = 0;
    assert_int_equal(response_of_one(&c, 1, S), S);
    /* However slow the network: to wait for it is not to wait for ever. */
    c.delay_min_us = c.delay_max_us = 11 * 86400 * S;
    assert_int_equal(response_of_one(&c, 1, S), S + 4 * 11 * 86400 * S);
}

static void a_long_task_takes_four_messages(void **state)
{
    struct sim_config c = config("hawk", 4);

    /* To central, to the worker, back to central, and on to the dist. */
    assert_int_equal(response_of_one(&c, 3, 100 * S), 100 * S + 4 * 500);
}

static void messages_queue_at_a_scheduler(void **state)
{
    struct sim_config c = config("sparrow", 4);

    c.scheduler_cost_us = 1000;
    /* The probes leave one by one, 1 ms each; two requests come 1 ms apart, and so do the launches: the dist takes each
     * request for 1 ms, and 1 ms for its answer. All four workers are probed; both tasks run side by side. */
    assert_true(response_of_one(&c, 2, S) >= S + 4 * 500 + 5 * 1000);
    c.worker_cost_us = 200 * MS;
    assert_true(response_of_one(&c, 2, S) >= S + 3 * 200 * MS);
}

static void the_published_simulator_knows_two_delays(void **state)
{
    struct sim_config c = config("hawk", 4);

    c.compat = true;
    sim_compat_policy(&c.policy);
    assert_int_equal(response_of_one(&c, 1, 1900 * MS), S + 500 + 1000); /* whole seconds */
    assert_int_equal(response_of_one(&c, 3, 100 * S), 100 * S + 500);
}

static void submissions_at_one_moment_are_shifted_in_compat(void **state)
{
    struct sim_config c = config("sparrow", 4);
    struct jobs w = {0};
    struct sim_result r;

    for (int i = 0; i < 3; i++)
        add_job(&w, 7 * S, 1, S, NULL);
    c.compat = true;
    sim_compat_policy(&c.policy);
    r = simulate(&c, &w);
    assert_int_equal(r.last_submit_us, 20 * MS);
    sim_result_free(&r);
    free_jobs(&w);
}

static void delays_may_differ_by_pair(void **state)
{
    struct sim_config c = config("hawk", 4);
    int64_t response_us;

    c.delay_min_us = 100;
    c.delay_max_us = 900;
    response_us = response_of_one(&c, 1, S);
    assert_in_range(response_us, S + 4 * 100, S + 4 * 900);
}

/* ---- Every policy ---- */

/* What holds for any run: every task ran once, no job was faster than its longest task, nothing is left. */
static void expect_sound(const struct sim_config *c, const struct jobs *w, const struct sim_result *r)
{
    uint64_t tasks = 0;

    for (uint32_t i = 0; i < w->n; i++)
        tasks += w->v[i].tasks;
    assert_int_equal(r->tasks, tasks);
    assert_int_equal(r->counters[COUNTER_tasks_started], tasks);
    assert_int_equal(r->counters[COUNTER_tasks_finished], tasks);
    /* A long task that was sent to an idle slot, and found it taken, goes elsewhere. */
    if (!policy_has(&c->policy, POLICY_LATE_LONG))
        assert_int_equal(r->counters[COUNTER_tasks_retried], 0);
    for (uint32_t i = 0; i < r->jobs_n; i++)
        assert_true(r->jobs[i].response_us >= r->jobs[i].longest_us);
    for (int k = 0; k < CLASS_COUNT; k++) {
        assert_int_equal(r->classes[k].response_us.n, r->classes[k].jobs);
        assert_int_equal(r->classes[k].wait_us.n, r->classes[k].tasks);
    }
}

static void every_policy_runs_every_task(void **state)
{
    for (int p = 0; policy_names[p]; p++)
        for (uint32_t slots = 1; slots <= 4; slots += 3)
            for (int variant = 0; variant < 4; variant++) {
                struct sim_config c = config(policy_names[p], 12 / slots);
                struct jobs w = {0};
                struct sim_result r;

                c.slots = slots;
                c.policy.short_share_ppm = 340000; /* a worker at least */
                c.seed = (uint64_t)variant;
                c.queue_per_slot = variant == 1;
                c.scheduler_cost_us = c.worker_cost_us = variant == 2 ? 50 : 0;
                c.compat = variant == 3;
                if (c.compat)
                    sim_compat_policy(&c.policy);
                draw_jobs(&w, 30, 12, (uint64_t)variant + 1);
                r = simulate(&c, &w);
                expect_sound(&c, &w, &r);
                sim_result_free(&r);
                free_jobs(&w);
            }
}

static void estimates_may_be_wrong_or_missing(void **state)
{
    static const uint8_t kinds[] = {SIM_ESTIMATE_EXACT, SIM_ESTIMATE_NOISE, SIM_ESTIMATE_HISTORY};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct sim_config c = config("hawk", 12);
        struct jobs w = {0};
        struct sim_result r;

        c.estimates = kinds[i];
        c.noise_min_milli = 100;
        c.noise_max_milli = 1900;
        draw_jobs(&w, 40, 12, 5);
        r = simulate(&c, &w);
        expect_sound(&c, &w, &r);
        if (kinds[i] == SIM_ESTIMATE_EXACT)
            assert_int_equal(r.classes[CLASS_SHORT].mistaken + r.classes[CLASS_LONG].mistaken, 0);
        else /* classes are the true ones all the same */
            assert_true(r.classes[CLASS_LONG].mistaken > 0);
        sim_result_free(&r);
        free_jobs(&w);
    }
}

/* Half of the factors from 0.05 to 20 are above 1 when their logarithms are uniform; of uniform ones, 95 in 100. */
static void log_noise_errs_on_both_sides_alike(void **state)
{
    for (int log = 0; log < 2; log++) {
        struct sim_config c = config("hawk", 12);
        struct jobs w = {0};
        struct sim_result r;

        c.estimates = SIM_ESTIMATE_NOISE;
        c.noise_min_milli = 50;
        c.noise_max_milli = 20000;
        c.noise_log = log;
        for (int64_t i = 0; i < 400; i++)
            add_job(&w, i * S, 1, c.policy.cutoff_us - 1, NULL);
        r = simulate(&c, &w);
        assert_in_range(r.classes[CLASS_SHORT].mistaken, log ? 160 : 360, log ? 240 : 399);
        assert_int_equal(r.classes[CLASS_SHORT].taken_us[CLASS_LONG].n, r.classes[CLASS_SHORT].mistaken);
        assert_int_equal(r.classes[CLASS_SHORT].taken_us[CLASS_SHORT].n,
                         400 - r.classes[CLASS_SHORT].mistaken);
        sim_result_free(&r);
        free_jobs(&w);
    }
}

/* Long tasks on three quarters of the workers: short jobs find the others, by the partition or by thieves. */
static void short_jobs_do_not_wait_behind_long_ones(void **state)
{
    struct sim_config hawk = config("hawk", 40), sparrow = config("sparrow", 40);
    struct jobs w = {0};
    struct sim_result a, b;

    add_job(&w, 0, 30, 200 * S, NULL);
    for (int i = 1; i <= 100; i++)
        add_job(&w, i * S, 5, S, NULL);
    a = simulate(&hawk, &w);
    b = simulate(&sparrow, &w);
    expect_sound(&hawk, &w, &a);
    assert_true(a.classes[CLASS_SHORT].response_us.p90 < 3 * S);
    assert_true(b.classes[CLASS_SHORT].response_us.p90 > 20 * S);
    assert_true(a.counters[COUNTER_tasks_stolen] > 0);
    assert_int_equal(b.counters[COUNTER_steal_requests], 0);
    sim_result_free(&a);
    sim_result_free(&b);
    free_jobs(&w);
}

static void a_job_that_takes_no_time_has_no_slowdown(void **state)
{
    struct sim_config c = config("hawk", 1);
    struct jobs w = {0};
    struct sim_result r;

    add_job(&w, 0, 1, 10 * S, NULL);
    add_job(&w, 1 * S, 1, 0, NULL);
    r = simulate(&c, &w);
    assert_int_equal(r.classes[CLASS_SHORT].response_us.n, 2);
    assert_int_equal(r.classes[CLASS_SHORT].slowdown.n, 1);
    assert_in_range(r.classes[CLASS_SHORT].slowdown.max, 1000, 1001);
    sim_result_free(&r);
    free_jobs(&w);
}

/* ---- The same again ---- */

static char *digest(const struct sim_config *c, struct jobs *w)
{
    struct sim_result r = simulate(c, w);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    sim_report_jobs(f, &r);
    for (unsigned t = 0; t < MSG_TYPE_COUNT; t++)
        fprintf(f, "%llu ", (unsigned long long)r.by_type[t]);
    fclose(f);
    sim_result_free(&r);
    return text;
}

/* Two long jobs wait for the only worker. The smaller one came 50 s later; their sizes differ by 20 s. */
static void a_smaller_long_job_goes_first_within_the_stretch(void **state)
{
    static const struct {
        uint32_t stretch;
        bool by_work, first;
    } cases[] = {{2, true, false}, {3, true, true}, {10, true, true}, {10, false, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_config c = config("harrier", 1);
        struct jobs w = {0};
        struct sim_result r;

        c.policy.short_share_ppm = 0;
        c.long_stretch = cases[i].stretch;
        if (!cases[i].by_work)
            c.policy.flags &= ~(uint32_t)POLICY_LONG_BY_WORK;
        add_job(&w, 0, 1, 100 * S, NULL);
        add_job(&w, 1 * S, 2, 20 * S, NULL);
        add_job(&w, 51 * S, 1, 20 * S, NULL);
        r = simulate(&c, &w);
        assert_int_equal(r.jobs[1].number, cases[i].first ? 3 : 2);
        sim_result_free(&r);
        free_jobs(&w);
    }
}

/* ---- The yardstick ---- */

static struct sim_result bound(const struct sim_config *c, struct jobs *w)
{
    const struct sim_source source = {next_job, w};
    struct sim_result r;
    char why[256] = "";

    w->next = 0;
    assert_int_equal(sim_bound(c, &source, &r, why, sizeof why), 0);
    assert_int_equal(r.jobs_n, w->n);
    return r;
}

static void the_bound_is_what_can_be_told_by_hand(void **state)
{
    struct sim_config c = config("hawk", 1);
    struct jobs w = {0};
    struct sim_result r;

    /* One slot, two jobs at once of 2 s and 1 s: alone 2 s and 1 s; least work first 1 s and 3 s, 2 s on average. */
    add_job(&w, 0, 1, 2 * S, NULL);
    add_job(&w, 0, 1, 1 * S, NULL);
    r = bound(&c, &w);
    assert_int_equal(r.jobs[0].response_us, 2 * S);
    assert_int_equal(r.jobs[1].response_us, 1 * S);
    assert_true(r.classes[CLASS_SHORT].response_us.mean == 2.0 * S);
    sim_result_free(&r);
    /* A third that comes when half a second of the long one is left: it waits, 0.5 s and 1.5 s, or is waited for. */
    add_job(&w, 5 * S / 2, 1, 1 * S, NULL);
    r = bound(&c, &w);
    assert_true(r.classes[CLASS_SHORT].response_us.mean == (1.0 + 3.0 + 1.5) * S / 3);
    sim_result_free(&r);
    free_jobs(&w);
    /* Two slots, four equal tasks: their work takes both slots twice as long as one task. */
    c.workers = 2;
    add_job(&w, 0, 4, 3 * S, NULL);
    r = bound(&c, &w);
    assert_int_equal(r.jobs[0].response_us, 6 * S);
    sim_result_free(&r);
    /* The work of all jobs does not fit into 63 bits, and then that of the last. */
    for (int i = 1; i <= 12; i++)
        add_job(&w, 0, 1000, LIMIT_TIME_US, NULL);
    r = bound(&c, &w);
    assert_true(r.classes[CLASS_LONG].response_us.mean == 500.0 * LIMIT_TIME_US);
    sim_result_free(&r);
    add_job(&w, 0, 30000, LIMIT_TIME_US, NULL);
    r = bound(&c, &w);
    assert_true(r.jobs[13].response_us > 10000 * LIMIT_TIME_US && r.end_us >= r.jobs[13].response_us);
    sim_result_free(&r);
    free_jobs(&w);
}

static void no_policy_beats_the_bound(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct jobs w = {0};
        uint32_t workers = 2 + (uint32_t)seed * 3, slots = 1 + (uint32_t)seed % 3;

        draw_jobs(&w, 60, workers * slots, seed);
        for (const char *const *name = policy_names; *name; name++) {
            struct sim_config c = config(*name, workers);
            struct sim_result least, r;

            c.slots = slots;
            c.delay_min_us = c.delay_max_us = 0;
            c.seed = seed;
            least = bound(&c, &w);
            r = simulate(&c, &w);
            for (int k = 0; k < CLASS_COUNT; k++) {
                const struct spread *a = &least.classes[k].response_us, *b = &r.classes[k].response_us;

                assert_int_equal(a->n, b->n);
                assert_true(a->p50 <= b->p50 && a->p90 <= b->p90 && a->p99 <= b->p99 && a->max <= b->max);
                assert_true(a->mean <=
                            b->mean + 1); /* a microsecond: central's work is divided, rounding down */
            }
            sim_result_free(&least);
            sim_result_free(&r);
        }
        free_jobs(&w);
    }
}

static void the_same_seed_gives_the_same_run(void **state)
{
    struct sim_config c = config("hawk", 12);
    struct jobs w = {0};
    char *first, *again, *other;

    draw_jobs(&w, 40, 12, 3);
    first = digest(&c, &w);
    again = digest(&c, &w);
    c.seed++;
    other = digest(&c, &w);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(other);
    free_jobs(&w);
}

/* ---- Reports ---- */

static void a_run_is_compared_job_by_job(void **state)
{
    struct sim_config c = config("sparrow", 12);
    char path[] = "/tmp/test_sim_XXXXXX", why[256];
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct jobs w = {0};
    struct sim_result r;
    struct sim_comparison pairs;
    struct sim_others others;

    assert_non_null(f);
    draw_jobs(&w, 30, 12, 3);
    r = simulate(&c, &w);
    sim_report_jobs(f, &r);
    fflush(f);
    assert_int_equal(sim_others_read(&others, path, why, sizeof why), 0);
    sim_compare(&r, &others, &pairs);
    assert_int_equal(pairs.classes[CLASS_SHORT].equal, r.classes[CLASS_SHORT].jobs);
    assert_int_equal(pairs.only_here + pairs.only_there, 0);
    r.jobs[0].response_us += 2 * S;
    r.jobs[1].response_us -= 2 * MS;
    r.jobs[2].tasks++;
    sim_compare(&r, &others, &pairs);
    sim_others_free(&others);
    assert_int_equal(pairs.classes[CLASS_SHORT].worse + pairs.classes[CLASS_LONG].worse, 1);
    assert_int_equal(pairs.classes[CLASS_SHORT].better + pairs.classes[CLASS_LONG].better, 1);
    assert_int_equal(pairs.only_here, 1);
    assert_int_equal(pairs.only_there, 1);
    fprintf(f, "nonsense\n");
    fflush(f);
    assert_int_equal(sim_others_read(&others, path, why, sizeof why), HAWK_EINVALID);
    sim_others_free(&others);
    assert_non_null(strstr(why, ":32:"));
    fclose(f);
    unlink(path);
    sim_result_free(&r);
    free_jobs(&w);
}

static void one_job_is_followed(void **state)
{
    struct sim_config c = config("hawk", 4);
    char *text = NULL;
    size_t size = 0;

    c.trace_job = 1;
    c.trace_to = open_memstream(&text, &size);
    assert_non_null(c.trace_to);
    response_of_one(&c, 1, S);
    fclose(c.trace_to);
    assert_non_null(strstr(text, "TASK_REQUEST job="));
    assert_non_null(strstr(text, "0.001500 d1 -> w"));
    assert_non_null(strstr(text, "TASK_FINISHED"));
    free(text);
}

/* Central would take a job without an estimate for one as long as the cutoff. */
static void a_mean_of_0_is_an_estimate(void **state)
{
    static const struct {
        uint8_t estimates;
        const char *told;
    } cases[] = {{SIM_ESTIMATE_MEAN, " estimate_us=1 "},
                 {SIM_ESTIMATE_EXACT, " estimate_us=1 "},
                 {SIM_ESTIMATE_NOISE, " estimate_us=1 "},
                 {SIM_ESTIMATE_HISTORY, " estimate_us=20000000 "}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_config c = config("central", 4);
        char *text = NULL;
        size_t size = 0;

        c.estimates = cases[i].estimates;
        c.trace_job = 1;
        c.trace_to = open_memstream(&text, &size);
        assert_non_null(c.trace_to);
        response_of_one(&c, 1, 0);
        fclose(c.trace_to);
        assert_non_null(strstr(text, "LONG_SUBMIT"));
        assert_non_null(strstr(text, cases[i].told));
        free(text);
    }
}

static void expect_error(const struct sim_config *c, const struct sim_source *source, int err,
                         const char *word)
{
    struct sim_result r;
    char why[128];

    assert_int_equal(sim_run(c, source, &r, why, sizeof why), err);
    assert_non_null(strstr(why, word));
    sim_result_free(&r);
}

static void bad_settings_are_named(void **state)
{
    struct sim_config c = config("hawk", 0);
    struct jobs w = {0};

    expect_error(&c, &(struct sim_source){next_job, &w}, HAWK_EINVALID, "workers");
}

static void the_largest_cluster_fits_into_central(void **state)
{
    struct sim_config c = config("hawk", SIM_WORKERS_MAX);
    struct central_config central;

    c.dists = SIM_DISTS_MAX;
    sim_central_config(&c, &central);
    assert_true(central.nodes_max >= SIM_WORKERS_MAX + SIM_DISTS_MAX);
    assert_true(central.nodes_max <= NODE_ID_MAX);
}

static void central_takes_as_many_long_jobs_as_dists_take_short_ones(void **state)
{
    struct sim_config c = config("hawk", 1);
    struct central_config central;

    sim_central_config(&c, &central);
    assert_int_equal(central.long_jobs_max, UINT32_MAX);
    assert_int_equal(central.long_tasks_max, UINT32_MAX);
}

static int broken(void *arg, struct trace_job *job) { return HAWK_EIO; }

static void a_workload_that_breaks_off_or_never_ends_is_an_error(void **state)
{
    struct sim_config c = config("hawk", 4);
    struct jobs w = {0};

    expect_error(&c, &(struct sim_source){broken, NULL}, HAWK_EIO, "workload");
    add_job(&w, 0, 30000, LIMIT_TIME_US, NULL);
    c.check = false;
    expect_error(&c, &(struct sim_source){next_job, &w}, HAWK_ELIMIT, "146,000 years");
    free_jobs(&w);
}

static void a_run_has_so_many_samples_at_most(void **state)
{
    struct sim_config c = config("hawk", 1);
    struct jobs w = {0};
    struct sim_result r;

    c.sample_us = 1;
    add_job(&w, 0, 1, SIM_SAMPLES_MAX - S, NULL); /* it may start a little later */
    r = simulate(&c, &w);
    assert_in_range(r.utilization_n, SIM_SAMPLES_MAX - S, SIM_SAMPLES_MAX);
    sim_result_free(&r);
    free_jobs(&w);
    add_job(&w, 0, 1, SIM_SAMPLES_MAX + S, NULL);
    expect_error(&c, &(struct sim_source){next_job, &w}, HAWK_ELIMIT, "samples");
    free_jobs(&w);
}

static void short_runs_have_samples_and_long_ones_not_too_many(void **state)
{
    struct sim_config c = config("hawk", 1);
    struct jobs w = {0};
    struct sim_result r;

    for (int64_t i = 0; i < 50; i++)
        add_job(&w, i * S, 1, S, NULL);
    r = simulate(&c, &w);
    assert_true(r.utilization_median > 0.9);
    assert_int_equal(r.sample_us, 20 * MS); /* 50 s in less than 4096 samples */
    sim_result_free(&r);
    add_job(&w, 40000 * S, 1, S, NULL);
    r = simulate(&c, &w);
    assert_true(r.utilization_median == 0);
    assert_in_range(r.utilization_n, SIM_SAMPLES_THINNED / 2, SIM_SAMPLES_THINNED - 1);
    assert_in_range(r.utilization_n * r.sample_us, r.end_us, r.end_us + r.sample_us);
    sim_result_free(&r);
    c.sample_us = 100 * S;
    r = simulate(&c, &w);
    assert_int_equal(r.sample_us, 100 * S);
    sim_result_free(&r);
    c.sample_us = 0;
    c.compat = true;
    r = simulate(&c, &w);
    assert_int_equal(r.sample_us, 100 * S);
    sim_result_free(&r);
    free_jobs(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_task_takes_four_messages),
        cmocka_unit_test(a_long_task_takes_four_messages),
        cmocka_unit_test(messages_queue_at_a_scheduler),
        cmocka_unit_test(the_published_simulator_knows_two_delays),
        cmocka_unit_test(submissions_at_one_moment_are_shifted_in_compat),
        cmocka_unit_test(delays_may_differ_by_pair),
        cmocka_unit_test(every_policy_runs_every_task),
        cmocka_unit_test(estimates_may_be_wrong_or_missing),
        cmocka_unit_test(log_noise_errs_on_both_sides_alike),
        cmocka_unit_test(short_jobs_do_not_wait_behind_long_ones),
        cmocka_unit_test(a_job_that_takes_no_time_has_no_slowdown),
        cmocka_unit_test(a_smaller_long_job_goes_first_within_the_stretch),
        cmocka_unit_test(the_bound_is_what_can_be_told_by_hand),
        cmocka_unit_test(no_policy_beats_the_bound),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(a_run_is_compared_job_by_job),
        cmocka_unit_test(one_job_is_followed),
        cmocka_unit_test(a_mean_of_0_is_an_estimate),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(the_largest_cluster_fits_into_central),
        cmocka_unit_test(central_takes_as_many_long_jobs_as_dists_take_short_ones),
        cmocka_unit_test(a_workload_that_breaks_off_or_never_ends_is_an_error),
        cmocka_unit_test(a_run_has_so_many_samples_at_most),
        cmocka_unit_test(short_runs_have_samples_and_long_ones_not_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
