/* sim/generate: draws that are the same everywhere, tables and what is wrong with them, and whether the workloads that
 * come with Hawk are what they say. */
#include "base/units.h"
#include "msg/types.h"
#include "workload/generate.h"
#include "workload/generate_draw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct job_table parsed(const char *text)
{
    struct job_table t;
    char why[256] = "";

    if (generate_table_parse(&t, "t.tbl", text, why, sizeof why) != 0)
        fail_msg("%s", why);
    return t;
}

static struct job_table loaded(const char *name)
{
    struct job_table t;
    char why[512] = "";

    if (generate_table_load(&t, name, why, sizeof why) != 0)
        fail_msg("%s", why);
    return t;
}

/* ---- Draws ---- */

static void logarithms_are_exact_to_a_billionth(void **state)
{
    const struct {
        uint64_t x;
        double ln;
    } known[] = {{UINT64_C(1) << 63, 0.69314718056}, /* 1/2 */
                 {UINT64_C(1) << 62, 1.38629436112},
                 {UINT64_C(1), 44.3614195558},
                 {UINT64_MAX, 0.0},
                 {UINT64_C(0xc000000000000000), 0.28768207245},  /* 3/4 */
                 {UINT64_C(0x1999999999999999), 2.30258509299}}; /* 1/10 */

    assert_int_equal(generate_minus_ln(0), 0);
    for (size_t i = 0; i < COUNT(known); i++) {
        double off = (double)generate_minus_ln(known[i].x) / (double)DRAW_ONE - known[i].ln;

        assert_true(off < 1e-9 && off > -1e-9);
    }
}

/* These very numbers on every machine, or its traces are others. */
static void draws_are_the_same_everywhere(void **state)
{
    struct rng r;

    rng_seed(&r, 4711);
    assert_int_equal(generate_exponential(&r), UINT64_C(116675406));
    assert_int_equal(generate_exponential(&r), UINT64_C(5082437757));
    assert_int_equal(generate_normal(&r), INT64_C(-4644879086));
    assert_int_equal(generate_normal(&r), INT64_C(3719771092));
}

/* generate_normal() compares with an exponential that it does not compute. */
static void a_normal_draw_is_that_of_two_exponentials(void **state)
{
    struct rng r, same;

    rng_seed(&r, 4712);
    same = r;
    for (int i = 0; i < 20000; i++) {
        int64_t x, d;

        do {
            x = (int64_t)generate_exponential(&same);
            d = x - (int64_t)DRAW_ONE;
        } while ((__int128)d * d >> 33 > (__int128)generate_exponential(&same));
        assert_int_equal(generate_normal(&r), rng_next(&same) >> 63 ? -x : x);
    }
}

static void draws_have_the_distribution_they_say(void **state)
{
    enum { N = 200000 };
    double sum = 0, normal = 0, squares = 0;
    unsigned above_one = 0, within_one = 0;
    struct rng r;

    rng_seed(&r, 1);
    for (int i = 0; i < N; i++) {
        uint64_t e = generate_exponential(&r);
        double z = (double)generate_normal(&r) / (double)DRAW_ONE;

        sum += (double)e / (double)DRAW_ONE;
        above_one += e > DRAW_ONE;
        normal += z;
        squares += z * z;
        within_one += z > -1 && z < 1;
    }
    assert_true(sum / N > 0.99 && sum / N < 1.01);
    assert_true(above_one > 0.363 * N && above_one < 0.373 * N); /* 1/e */
    assert_true(normal / N > -0.01 && normal / N < 0.01);
    assert_true(squares / N > 0.985 && squares / N < 1.015);
    assert_true(within_one > 0.678 * N && within_one < 0.688 * N);
}

/* ---- Tables ---- */

static void a_table_is_read(void **state)
{
    struct job_table t = parsed("# a comment\n\n jobs 7 # seven\r\ngap\t2.5s\ncutoff 3s\npartition 17%\n"
                                "tasks exponential\nmean exponential\ndurations gaussian\n"
                                "short 95.5 1.25 90ms\nlong 4 226 1h");

    assert_int_equal(t.jobs, 7);
    assert_int_equal(t.gap_us, 2500000);
    assert_int_equal(t.cutoff_us, 3000000);
    assert_int_equal(t.share_ppm, 170000);
    assert_int_equal(t.tasks, TABLE_EXPONENTIAL);
    assert_int_equal(t.mean, TABLE_EXPONENTIAL);
    assert_int_equal(t.durations, TABLE_GAUSSIAN);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.clusters[0].tag, TAG_SHORT);
    assert_int_equal(t.clusters[0].share_milli, 95500);
    assert_int_equal(t.clusters[0].tasks_milli, 1250);
    assert_int_equal(t.clusters[0].mean_us, 90000);
    assert_int_equal(t.clusters[1].tag, TAG_LONG);
    assert_int_equal(t.clusters[1].tasks_milli, 226000);
}

static void a_wrong_table_is_told_where_and_what(void **state)
{
    const struct {
        const char *text, *why;
    } bad[] = {
        {"gap 1s\nshrot 1 1 1s\n", "t.tbl:2:1: expected jobs, gap, cutoff, partition, tasks, mean, "
                                   "durations, short or long, found \"shrot\""},
        {"gap 5\n", "t.tbl:1:5: expected the mean time between submissions (\"2.5s\"), found \"5\""},
        {"gap 0s\n", "t.tbl:1:5: expected the mean time between submissions (\"2.5s\"), found \"0s\""},
        {"jobs 0\n", "t.tbl:1:6: expected a number of jobs, from 1 to 100000000, found \"0\""},
        {"jobs\n", "t.tbl:1:5: expected a number of jobs, from 1 to 100000000, found the end of the line"},
        {"gap 1s 2s\n", "t.tbl:1:8: expected the end of the line, found \"2s\""},
        {"short 0 1 1s",
         "t.tbl:1:7: expected the cluster's share of the jobs, a number above 0, found \"0\""},
        {"short 1.2345 1 1s",
         "t.tbl:1:7: expected the cluster's share of the jobs, a number above 0, found \"1.2345\""},
        {"short 1 1e3 1s",
         "t.tbl:1:9: expected a number of tasks, above 0 and at most 1000000, found \"1e3\""},
        {"short 1 1000001 1s",
         "t.tbl:1:9: expected a number of tasks, above 0 and at most 1000000, found \"1000001\""},
        {"short 1 1. 1s", "t.tbl:1:9: expected a number of tasks, above 0 and at most 1000000, found \"1.\""},
        {"long 1 1", "t.tbl:1:9: expected a mean task duration (\"90s\"), found the end of the line"},
        {"short 1 0.5 1s", "t.tbl:1:1: expected at least 1 task where their number is fixed"},
        {"tasks gaussian", "t.tbl:1:7: expected fixed or exponential, found \"gaussian\""},
        {"durations even", "t.tbl:1:11: expected fixed, exponential or gaussian, found \"even\""},
        {"partition 100%", "t.tbl:1:11: expected a share below 100% (\"2%\"), found \"100%\""},
        {"short 1 1 1s\n", "t.tbl:2:1: expected a line \"gap TIME\" somewhere, found none"},
        {"gap 1s", "t.tbl:1:1: expected at least one line of a cluster (\"short ...\"), found none"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct job_table t;
        char why[256] = "";

        assert_int_equal(generate_table_parse(&t, "t.tbl", bad[i].text, why, sizeof why), HAWK_EINVALID);
        assert_string_equal(why, bad[i].why);
    }
}

static void an_unknown_workload_is_told_which_there_are(void **state)
{
    struct job_table t;
    char why[512];

    assert_int_equal(generate_table_load(&t, "googel", why, sizeof why), HAWK_EINVALID);
    assert_non_null(strstr(why, "\"googel\""));
    assert_non_null(strstr(why, " cloudera, facebook, yahoo,"));
    assert_int_equal(generate_table_load(&t, "./no-such.tbl", why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "./no-such.tbl: cannot be opened"));
}

static void the_load_sets_the_gap(void **state)
{
    struct job_table t = parsed("gap 1s\nshort 3 10 100ms\nlong 1 10 10s\n"); /* 25.75 s of work a job */

    assert_int_equal(generate_table_gap_us(&t, 100, 1000), 257500);
    assert_int_equal(generate_table_gap_us(&t, 100, 500), 515000);
    t = parsed("gap 1s\nlong 1000000000 1000000 10000d\nshort 1 1 1us\n"); /* the largest there may be */
    assert_true(generate_table_gap_us(&t, 1, 1) > 0);
}

/* ---- Jobs ---- */

/* A small trace, to the byte. */
static void a_seed_gives_the_same_trace_everywhere(void **state)
{
    struct job_table t = parsed("jobs 4\ngap 2s\ntasks exponential\nmean exponential\ndurations gaussian\n"
                                "short 3 2 1s\nlong 1 3 100s\n");
    struct generator *g = generator_new(&t, 7);
    struct sim_source source = generator_source(g);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_int_equal(generator_write(&source, f), 0);
    fclose(f);
    assert_string_equal(text, "0 3 0.334334 0.222368 0.130444 0.65019\n"
                              "4.024288 1 1.430464 1.430464\n"
                              "10.416704 3 1.398027 0.558356 3.279628 0.356096\n"
                              "10.764705 1 0.296716 0.296716\n");
    free(text);
    generator_free(g);
}

static void a_full_disk_is_an_error(void **state)
{
    struct job_table t = parsed("jobs 100000\ngap 1s\nshort 1 1 1s\n");
    struct generator *g = generator_new(&t, 7);
    struct sim_source source = generator_source(g);
    FILE *f = fopen("/dev/full", "w");

    assert_non_null(f);
    assert_int_equal(generator_write(&source, f), HAWK_EIO);
    (void)fclose(f);
    generator_free(g);
}

static void what_is_written_is_what_is_drawn(void **state)
{
    const char *dir = getenv("TMPDIR");
    struct job_table t = loaded("yahoo");
    struct generator *write, *again;
    struct sim_source source, other;
    struct trace *trace;
    struct trace_job read, drawn;
    char path[256];
    FILE *f;

    t.jobs = 300;
    write = generator_new(&t, 5);
    again = generator_new(&t, 5);
    source = generator_source(write);
    other = generator_source(again);
    snprintf(path, sizeof path, "%s/generated.XXXXXX", dir ? dir : "/tmp");
    f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    assert_int_equal(generator_write(&source, f), 0);
    fclose(f);
    assert_int_equal(trace_open(&trace, path), 0);
    while (other.next(other.arg, &drawn) > 0) {
        assert_int_equal(trace_next(trace, &read), 1);
        assert_int_equal(read.submit_us, drawn.submit_us);
        assert_int_equal(read.mean_us, drawn.mean_us);
        assert_int_equal(read.tasks, drawn.tasks);
        assert_memory_equal(read.durations_us, drawn.durations_us, read.tasks * sizeof *read.durations_us);
        assert_int_equal(read.tag, TAG_AUTO);
    }
    assert_int_equal(trace_next(trace, &read), 0);
    trace_close(trace);
    unlink(path);
    generator_free(write);
    generator_free(again);
}

static void jobs_of_fixed_clusters_are_all_alike(void **state)
{
    struct job_table t = loaded("hawk-figure1");
    struct generator *g = generator_new(&t, 1);
    struct sim_source source = generator_source(g);
    struct trace_job job;
    unsigned n = 0, longs = 0;
    int64_t last_us = 0;

    while (source.next(source.arg, &job) > 0) {
        bool is_long = job.tag == TAG_LONG;

        n++;
        longs += is_long;
        assert_int_equal(job.tasks, is_long ? 1000 : 100);
        assert_int_equal(job.mean_us, (is_long ? 20000 : 100) * US_PER_S);
        assert_int_equal(job.durations_us[job.tasks - 1], job.mean_us);
        assert_true(job.submit_us >= last_us);
        last_us = job.submit_us;
    }
    assert_int_equal(n, 1000);
    assert_in_range(longs, 30, 75);                               /* 5 % */
    assert_in_range(last_us, 44000 * US_PER_S, 56000 * US_PER_S); /* 50 s apart */
    generator_free(g);
}

struct made {
    double jobs, longs, work, long_work, tasks, span_s;
};

static struct made make(const char *name, uint32_t jobs, uint64_t seed)
{
    struct job_table t = loaded(name);
    struct generator *g;
    struct sim_source source;
    struct trace_job job;
    struct made m = {0};

    t.jobs = jobs;
    g = generator_new(&t, seed);
    source = generator_source(g);
    while (source.next(source.arg, &job) > 0) {
        double work = 0;

        for (uint32_t i = 0; i < job.tasks; i++) {
            assert_true(job.durations_us[i] > 0);
            work += (double)job.durations_us[i] / 1e6;
        }
        m.jobs++;
        m.longs += job.tag == TAG_LONG;
        m.work += work;
        m.long_work += job.tag == TAG_LONG ? work : 0;
        m.tasks += job.tasks;
        m.span_s = (double)job.submit_us / 1e6;
    }
    generator_free(g);
    return m;
}

/* The shares the tables are fitted to (Hawk 4.1: partitions of 9, 2 and 2 % follow the task-seconds). The mean over
 * seeds: single clusters are a few large jobs. */
static void the_papers_workloads_have_the_shares_they_are_fitted_to(void **state)
{
    const struct {
        const char *name;
        double longs, long_work, tasks; /* tasks per job */
    } fitted[] = {
        {"cloudera", 0.0502, 0.910, 317}, {"facebook", 0.0201, 0.980, 49.3}, {"yahoo", 0.0940, 0.985, 43.1}};
    enum { SEEDS = 3, JOBS = 10000 };

    for (size_t i = 0; i < COUNT(fitted); i++) {
        double longs = 0, work = 0, long_work = 0, tasks = 0, load = 0;

        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct made m = make(fitted[i].name, JOBS, seed);

            longs += m.longs / m.jobs / SEEDS;
            work += m.work;
            long_work += m.long_work;
            tasks += m.tasks / m.jobs / SEEDS;
            load += m.work / m.span_s / 10000 / SEEDS; /* of the 10,000 slots its gap is made for */
        }
        assert_true(longs > 0.93 * fitted[i].longs && longs < 1.07 * fitted[i].longs);
        assert_true(1 - long_work / work > 0.80 * (1 - fitted[i].long_work));
        assert_true(1 - long_work / work < 1.25 * (1 - fitted[i].long_work));
        assert_true(tasks > 0.9 * fitted[i].tasks && tasks < 1.1 * fitted[i].tasks);
        assert_true(load > 0.85 && load < 1.15);
    }
}

static void every_workload_that_comes_with_hawk_can_be_read(void **state)
{
    for (int i = 0; generate_table_names[i]; i++) {
        struct made m = make(generate_table_names[i], 50, 1);

        assert_true(m.jobs == 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_are_exact_to_a_billionth),
        cmocka_unit_test(draws_are_the_same_everywhere),
        cmocka_unit_test(a_normal_draw_is_that_of_two_exponentials),
        cmocka_unit_test(draws_have_the_distribution_they_say),
        cmocka_unit_test(a_table_is_read),
        cmocka_unit_test(a_wrong_table_is_told_where_and_what),
        cmocka_unit_test(an_unknown_workload_is_told_which_there_are),
        cmocka_unit_test(the_load_sets_the_gap),
        cmocka_unit_test(a_seed_gives_the_same_trace_everywhere),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(what_is_written_is_what_is_drawn),
        cmocka_unit_test(jobs_of_fixed_clusters_are_all_alike),
        cmocka_unit_test(the_papers_workloads_have_the_shares_they_are_fitted_to),
        cmocka_unit_test(every_workload_that_comes_with_hawk_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
