/* sim/sweep: grids as people write them, runs in processes of their own, and what is recommended. */
#include "base/units.h"
#include "sim/sweep.h"
#include "workload/generate.h"
#include "workload/workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void a_grid_is_read(void **state)
{
    struct sim_sweep s;
    char why[256];

    assert_int_equal(sim_sweep_parse(&s, "workers=10,20,cutoff=90s,1.5s,2m,partition=0%", why, sizeof why),
                     0);
    assert_int_equal(s.workers_n, 2);
    assert_int_equal(s.workers[1], 20);
    assert_int_equal(s.cutoffs_n, 3);
    assert_int_equal(s.cutoffs_us[1], 1500000);
    assert_int_equal(s.shares_n, 1);
    assert_int_equal(s.shares_ppm[0], 0);
}

static void a_wrong_grid_is_told_what_was_expected(void **state)
{
    const struct {
        const char *text, *why;
    } bad[] = {
        {"", "expected cutoff=, partition= or workers=, found \"\""},
        {"90s", "expected cutoff=, partition= or workers=, found \"90s\""},
        {"slots=4", "expected cutoff=, partition= or workers=, found \"slots\""},
        {"cutoff=90s,cutoff=80s", "cutoff: expected each axis once"},
        {"cutoff=90", "cutoff: expected a time above 0 (90s), found \"90\""},
        {"cutoff=0s", "cutoff: expected a time above 0 (90s), found \"0s\""},
        {"partition=2%,100%", "partition: expected a share below 100% (2%), found \"100%\""},
        {"workers=", "workers: expected a number of workers, found \"\""},
        {"workers=200001", "workers: expected a number of workers, found \"200001\""},
        {"workers=10,", "workers: expected a number of workers, found \"\""},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct sim_sweep s;
        char why[256] = "";

        assert_int_equal(sim_sweep_parse(&s, bad[i].text, why, sizeof why), HAWK_EINVALID);
        assert_string_equal(why, bad[i].why);
    }
}

static const char mixed[] = "jobs 60\ngap 2s\nmean exponential\nshort 9 4 1s\nlong 1 12 60s\n";

static struct sim_sweep_result run_from(struct sim_config *c, const char *grid, uint32_t at_once,
                                        struct job_table *table)
{
    struct sim_sweep s;
    struct sim_sweep_result r;
    struct sim_sweep_input input = {.table = table, .seed = 3};
    char why[256] = "";

    assert_int_equal(generate_table_parse(table, "mixed", mixed, why, sizeof why), 0);
    assert_int_equal(sim_sweep_parse(&s, grid, why, sizeof why), 0);
    if (sim_sweep_run(c, &s, &input, at_once, NULL, &r, why, sizeof why) != 0)
        fail_msg("%s", why);
    return r;
}

static struct sim_sweep_result run(const char *grid, uint32_t at_once, struct sim_config *c,
                                   struct job_table *table)
{
    sim_config_init(c);
    c->workers = 40;
    c->dists = 2;
    c->policy.cutoff_us = 10 * US_PER_S;
    c->policy.short_share_ppm = 100000;
    return run_from(c, grid, at_once, table);
}

/* The point's figures are those of one simulation with its settings. */
static void expect_alone(const struct sim_sweep_point *p, struct sim_config c, const struct job_table *table)
{
    struct sim_result alone;
    struct sim_workload w;
    struct sim_source source;
    char why[256] = "";

    assert_int_equal(p->err, 0);
    c.workers = p->workers;
    c.policy.short_share_ppm = p->share_ppm;
    c.share_auto = p->share_auto;
    workload_draw(&w, table, 3, &source);
    assert_int_equal(sim_run(&c, &source, &alone, why, sizeof why), 0);
    for (int k = 0; k < CLASS_COUNT; k++) {
        assert_int_equal(p->response_us[k].n, alone.classes[k].jobs);
        assert_int_equal(p->response_us[k].p50, alone.classes[k].response_us.p50);
        assert_int_equal(p->response_us[k].p99, alone.classes[k].response_us.p99);
    }
    sim_result_free(&alone);
    workload_close(&w);
}

static void every_point_is_what_that_simulation_alone_says(void **state)
{
    struct job_table table;
    struct sim_config c;
    struct sim_sweep_result r = run("partition=10%,20%,workers=30,40", 3, &c, &table);

    assert_int_equal(r.n, 4); /* the bases are in the grid */
    assert_int_equal(r.jobs, 60);
    for (uint32_t i = 0; i < r.n; i++) {
        assert_int_equal(r.points[i].base, r.points[i].share_ppm == 100000);
        assert_int_equal(r.points[i].workers, i < 2 ? 30 : 40);
        expect_alone(&r.points[i], c, &table);
    }
    sim_sweep_free(&r);
}

static void a_share_in_the_grid_is_fixed_where_the_bases_follows_the_load(void **state)
{
    struct job_table table;
    struct sim_config c;
    struct sim_sweep_result r;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    sim_config_init(&c);
    c.workers = 40;
    c.dists = 2;
    c.policy.cutoff_us = 10 * US_PER_S;
    c.policy.short_share_ppm = 0;
    c.share_auto = true;
    r = run_from(&c, "partition=0%,80%", 3, &table);
    assert_int_equal(r.n, 3);
    for (uint32_t i = 0; i < r.n; i++) {
        assert_int_equal(r.points[i].share_auto, i == 0);
        assert_int_equal(r.points[i].share_ppm, i == 2 ? 800000 : 0);
        expect_alone(&r.points[i], c, &table);
    }
    assert_int_not_equal(r.points[0].response_us[CLASS_LONG].p50, r.points[2].response_us[CLASS_LONG].p50);
    sim_sweep_print(f, &r);
    fclose(f);
    assert_non_null(strstr(text, "\n      40        10 s      auto  "));
    assert_non_null(strstr(text, "\n      40        10 s      80 %  "));
    free(text);
    sim_sweep_free(&r);
    r = run_from(&c, "cutoff=5s", 2, &table);
    assert_true(r.points[1].share_auto);
    sim_sweep_free(&r);
}

/* Otherwise a low cutoff would look good for calling slow jobs long. */
static void classes_stay_the_bases_whatever_the_cutoff(void **state)
{
    struct job_table table;
    struct sim_config c;
    struct sim_sweep_result r = run("cutoff=1ms,1s,1h", 2, &c, &table);

    assert_int_equal(r.n, 4);
    for (uint32_t i = 0; i < r.n; i++) {
        assert_int_equal(r.points[i].err, 0);
        assert_int_equal(r.points[i].response_us[CLASS_SHORT].n, r.points[0].response_us[CLASS_SHORT].n);
        assert_int_equal(r.points[i].response_us[CLASS_LONG].n, r.points[0].response_us[CLASS_LONG].n);
    }
    sim_sweep_free(&r);
}

static void a_trace_that_cannot_be_read_is_told_before_any_run(void **state)
{
    struct sim_sweep s = {0};
    struct sim_sweep_input input = {.trace = "/nowhere/at/all.tr"};
    struct sim_sweep_result r;
    struct sim_config c;
    char why[256] = "";

    sim_config_init(&c);
    assert_int_equal(sim_sweep_run(&c, &s, &input, 1, NULL, &r, why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "/nowhere/at/all.tr: cannot be opened"));
    sim_sweep_free(&r);
}

static void one_point_that_fails_does_not_hide_the_others(void **state)
{
    struct job_table table;
    struct sim_config c;
    struct sim_sweep s;
    struct sim_sweep_result r;
    struct sim_sweep_input input = {.table = &table, .seed = 3};
    char why[256] = "";

    sim_config_init(&c);
    c.workers = 40;
    c.dists = 2;
    c.slots = 0; /* no run can do with that */
    assert_int_equal(generate_table_parse(&table, "mixed", mixed, why, sizeof why), 0);
    assert_int_equal(sim_sweep_parse(&s, "partition=1%", why, sizeof why), 0);
    assert_int_equal(sim_sweep_run(&c, &s, &input, 2, NULL, &r, why, sizeof why), 0);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.points[0].err, HAWK_EINVALID);
    assert_non_null(strstr(r.points[0].why, "slots"));
    assert_null(sim_sweep_best(&r, 40));
    sim_sweep_free(&r);
}

/* short p99 and long p90, in percent of the base's */
static struct sim_sweep_point point(uint32_t workers, bool base, int64_t short_p99, int64_t long_p90)
{
    struct sim_sweep_point p = {
        .workers = workers, .cutoff_us = 90 * US_PER_S, .share_ppm = 30000, .base = base};

    p.response_us[CLASS_SHORT] = (struct spread){.n = 9, .p99 = short_p99 * US_PER_S};
    p.response_us[CLASS_LONG] = (struct spread){.n = 1, .p90 = long_p90 * US_PER_S};
    return p;
}

static void what_is_recommended_helps_short_jobs_at_little_cost_to_long_ones(void **state)
{
    struct sim_sweep_point points[] = {
        point(10, true, 100, 100), point(10, false, 10, 106), /* too dear */
        point(10, false, 62, 101), point(10, false, 70, 80),
        point(20, true, 50, 50),   point(20, false, 50, 50)}; /* no gain to speak of */
    struct sim_sweep_result r = {.points = points, .n = COUNT(points)};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    points[5].response_us[CLASS_SHORT].p99 = 49900000;
    assert_ptr_equal(sim_sweep_best(&r, 10), &points[2]);
    assert_ptr_equal(sim_sweep_best(&r, 20), &points[4]);
    assert_null(sim_sweep_best(&r, 30));
    sim_sweep_print(f, &r);
    fclose(f);
    assert_non_null(
        strstr(text, "\n10 workers: cutoff 90 s, 3 % reserved: short p99 -38 %, long p90 +1 %\n"));
    assert_non_null(strstr(text, "\n20 workers: keep cutoff 90 s, 3 % reserved: nothing in the grid"));
    free(text);
    points[2].err = HAWK_EIO;
    assert_ptr_equal(sim_sweep_best(&r, 10), &points[3]);
}

/* Otherwise whatever delays the other class's jobs, which the cutoff has put into this one, would be recommended. */
static void nothing_is_recommended_where_a_class_has_no_job(void **state)
{
    for (int k = 0; k < CLASS_COUNT; k++) {
        struct sim_sweep_point points[] = {point(10, true, 100, 100), point(10, false, 10, 100)};
        struct sim_sweep_result r = {.points = points, .n = COUNT(points)};
        char *text = NULL, wanted[128];
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        points[0].response_us[k] = points[1].response_us[k] = (struct spread){0};
        assert_null(sim_sweep_best(&r, 10));
        sim_sweep_print(f, &r);
        fclose(f);
        snprintf(wanted, sizeof wanted,
                 "\n\nno job is %s at the base's cutoff of 90 s: give another --cutoff\n",
                 class_text((enum job_class)k));
        assert_non_null(strstr(text, wanted));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_is_read),
        cmocka_unit_test(a_wrong_grid_is_told_what_was_expected),
        cmocka_unit_test(every_point_is_what_that_simulation_alone_says),
        cmocka_unit_test(a_share_in_the_grid_is_fixed_where_the_bases_follows_the_load),
        cmocka_unit_test(classes_stay_the_bases_whatever_the_cutoff),
        cmocka_unit_test(a_trace_that_cannot_be_read_is_told_before_any_run),
        cmocka_unit_test(one_point_that_fails_does_not_hide_the_others),
        cmocka_unit_test(what_is_recommended_helps_short_jobs_at_little_cost_to_long_ones),
        cmocka_unit_test(nothing_is_recommended_where_a_class_has_no_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
