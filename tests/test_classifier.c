/* The classifier: classes, estimates by name, cutoff and share from history; both shared traces. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/trace.h"
#include "base/units.h"
#include "classifier/classifier.h"

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
#define S US_PER_S
#define PERCENT 10000u /* in ppm */

/* ---- Classes ---- */

static void classes(void **state)
{
    static const struct {
        enum class_tag tag;
        int64_t estimate_us, history_us;
        uint32_t flags;
        enum job_class class;
        enum class_why why;
        int64_t used_us;
    } table[] = {
        /* Hawk 3.2: below the cutoff, 10 s, is short; equal is not. */
        {TAG_AUTO, 10 * S - 1, 0, 0, CLASS_SHORT, WHY_ESTIMATE, 10 * S - 1},
        {TAG_AUTO, 10 * S, 0, 0, CLASS_LONG, WHY_ESTIMATE, 10 * S},
        {TAG_AUTO, 10 * S, 0, POLICY_TIE_SHORT, CLASS_SHORT, WHY_ESTIMATE, 10 * S},
        {TAG_AUTO, 10 * S + 1, 0, POLICY_TIE_SHORT, CLASS_LONG, WHY_ESTIMATE, 10 * S + 1},
        /* The client's estimate before history. */
        {TAG_AUTO, 1 * S, 20 * S, 0, CLASS_SHORT, WHY_ESTIMATE, 1 * S},
        {TAG_AUTO, 0, 20 * S, 0, CLASS_LONG, WHY_HISTORY, 20 * S},
        {TAG_AUTO, 0, 2 * S, 0, CLASS_SHORT, WHY_HISTORY, 2 * S},
        /* Nobody knows it. */
        {TAG_AUTO, 0, 0, 0, CLASS_SHORT, WHY_UNKNOWN, 0},
        {TAG_AUTO, -5, -5, 0, CLASS_SHORT, WHY_UNKNOWN, 0},
        /* A tag is never overridden, and an estimate is used all the same. */
        {TAG_SHORT, 99 * S, 99 * S, 0, CLASS_SHORT, WHY_TAG, 99 * S},
        {TAG_LONG, 0, 1 * S, 0, CLASS_LONG, WHY_TAG, 1 * S},
        {TAG_LONG, 0, 0, 0, CLASS_LONG, WHY_TAG, 0},
        /* One central queue for everything. */
        {TAG_SHORT, 1 * S, 0, POLICY_ALL_LONG, CLASS_LONG, WHY_TAG, 1 * S},
        {TAG_AUTO, 0, 0, POLICY_ALL_LONG, CLASS_LONG, WHY_UNKNOWN, 0},
    };

    for (size_t i = 0; i < COUNT(table); i++) {
        const struct policy p = {.cutoff_us = 10 * S, .flags = table[i].flags};
        enum class_why why;
        int64_t used_us;
        enum job_class class =
            classify(&p, table[i].tag, table[i].estimate_us, table[i].history_us, &why, &used_us);

        if (class != table[i].class || why != table[i].why || used_us != table[i].used_us)
            fail_msg("row %zu: %s, %s, %lld", i, class_text(class), why_text(why), (long long)used_us);
        assert_int_equal(classify(&p, table[i].tag, table[i].estimate_us, table[i].history_us, NULL, NULL),
                         class);
    }
}

/* ---- Estimates ---- */

static void set(struct estimates *e, const char *name, int64_t mean_us)
{
    struct blob *b = blob_str(name);

    estimates_set(e, 0, b, mean_us, 1);
    blob_drop(b);
}

static int64_t get(struct estimates *e, const char *name)
{
    struct blob *b = blob_str(name);
    int64_t mean_us = estimates_get(e, 0, b);

    blob_drop(b);
    return mean_us;
}

static void the_name_unused_for_longest_makes_room(void **state)
{
    struct estimates e;

    estimates_init(&e, 3);
    set(&e, "a", 1);
    set(&e, "b", 2);
    set(&e, "c", 3);
    assert_int_equal(get(&e, "a"), 1); /* so b is the oldest */
    set(&e, "d", 4);
    assert_int_equal(get(&e, "b"), 0);
    set(&e, "c", 33);
    set(&e, "e", 5);
    assert_int_equal(get(&e, "a"), 0);
    assert_int_equal(get(&e, "c"), 33);
    assert_int_equal(get(&e, "d"), 4);
    assert_int_equal(get(&e, "e"), 5);
    assert_int_equal(e.used.n, 3);
    estimates_free(&e);
}

static void what_is_no_estimate_is_ignored(void **state)
{
    struct estimates e;

    estimates_init(&e, 0); /* counts as 1 */
    set(&e, "", 5);
    set(&e, "a", 0);
    set(&e, "a", -1);
    estimates_set(&e, 0, NULL, 5, 1);
    assert_int_equal(e.used.n, 0);
    assert_int_equal(estimates_get(&e, 0, NULL), 0);
    assert_int_equal(get(&e, ""), 0);
    set(&e, "b", 7);
    assert_int_equal(get(&e, "b"), 7);
    estimates_free(&e);
}

static void estimates_are_listed_in_order_of_use(void **state)
{
    struct estimates e;
    const struct estimate *t;

    estimates_init(&e, 10);
    assert_null(estimates_next(&e, NULL));
    set(&e, "a", 1);
    set(&e, "b", 2);
    get(&e, "a");
    t = estimates_next(&e, NULL);
    assert_string_equal(t->name->data, "b");
    t = estimates_next(&e, t);
    assert_string_equal(t->name->data, "a");
    assert_null(estimates_next(&e, t));
    estimates_free(&e);
}

/* ---- History ---- */

static void finished(struct history *h, const char *name, int64_t mean_us, uint64_t tasks)
{
    struct blob *b = name ? blob_str(name) : NULL;

    history_add(h, 0, b, mean_us, (uint64_t)mean_us * tasks, 0);
    blob_drop(b);
}

static int64_t estimate(struct history *h, const char *name) { return get(&h->names, name); }

static void finished_by(struct history *h, uint32_t user, const char *name, int64_t mean_us, uint64_t task_us)
{
    struct blob *b = name ? blob_str(name) : NULL;

    history_add(h, user, b, mean_us, task_us, 0);
    blob_drop(b);
}

static int64_t estimate_for(struct history *h, uint32_t user, const char *name)
{
    struct blob *b = blob_str(name);
    int64_t mean_us = history_estimate(h, user, b);

    blob_drop(b);
    return mean_us;
}

static void a_name_has_a_history_for_each_user(void **state)
{
    struct history_config c;
    struct history h;

    history_config_init(&c);
    c.names_max = 4;
    history_init(&h, &c);
    finished_by(&h, 1, "make", 10, 10);
    finished_by(&h, 2, "make", 3000, 3000);
    finished_by(&h, 2, "make", 5000, 5000);
    assert_int_equal(estimate_for(&h, 1, "make"), 10);
    assert_int_equal(estimate_for(&h, 2, "make"), 4000);
    assert_int_equal(estimate_for(&h, 3, "make"), 0);
    /* Runs of before users were told apart count for who has none. */
    finished_by(&h, 0, "make", 700, 700);
    assert_int_equal(estimate_for(&h, 3, "make"), 700);
    assert_int_equal(estimate_for(&h, 1, "make"), 10);
    assert_int_equal(estimate_for(&h, 0, "make"), 700);
    /* Four names there is room for. Nobody's goes first, then one of who has most. */
    finished_by(&h, 2, "a", 20, 20);
    finished_by(&h, 2, "b", 30, 30);
    finished_by(&h, 2, "c", 40, 40);
    assert_int_equal(estimate_for(&h, 3, "make"), 0);
    assert_int_equal(estimate_for(&h, 2, "make"), 0);
    assert_int_equal(estimate_for(&h, 2, "a"), 20);
    assert_int_equal(estimate_for(&h, 2, "c"), 40);
    assert_int_equal(estimate_for(&h, 1, "make"), 10);
    assert_int_equal(h.names.used.n, 4);
    history_free(&h);
}

/* Jobs of 1 to 100 s of user 1, and n tiny ones of `user`, which have task_us together. */
static int64_t cutoff_with(int n, uint32_t user, uint64_t task_us)
{
    struct history_config c;
    struct history h;
    int64_t cutoff_us;

    history_config_init(&c);
    c.cutoff_hysteresis_ppm = 0;
    history_init(&h, &c);
    for (int i = 1; i <= 100; i++)
        finished_by(&h, 1, NULL, i * S, (uint64_t)i * S);
    for (int i = 0; i < n; i++)
        finished_by(&h, user, NULL, S / 1000, task_us / (uint64_t)n);
    history_compute(&h);
    cutoff_us = history_cutoff(&h);
    history_free(&h);
    return cutoff_us;
}

static void tiny_jobs_move_the_cutoff_by_their_task_seconds(void **state)
{
    const uint64_t all_us = (uint64_t)5050 * S; /* of user 1 */

    assert_int_equal(cutoff_with(0, 1, 0), 90 * S + 1);
    assert_int_equal(cutoff_with(9900, 1, (uint64_t)99 * S / 10), S / 1000 + 1); /* his own: each counts */
    assert_int_equal(cutoff_with(9900, 2, (uint64_t)99 * S / 10), 90 * S + 1);   /* 0.2 % */
    assert_int_equal(cutoff_with(5000, 2, all_us), 80 * S + 1);        /* half, however many jobs: */
    assert_int_equal(cutoff_with(50, 2, all_us), 80 * S + 1);          /* 40 % of the other half */
    assert_int_equal(cutoff_with(9900, 2, all_us * 20), S / 1000 + 1); /* more than 90 % */
}

static void whoever_has_most_jobs_makes_room(void **state)
{
    struct history_config c;
    struct history_shares s;
    struct history h;

    history_config_init(&c);
    c.window = 100;
    history_init(&h, &c);
    for (int i = 0; i < 30; i++)
        finished_by(&h, 1, NULL, 100 * S, (uint64_t)100 * S);
    for (int i = 0; i < 1000; i++)
        finished_by(&h, 2, NULL, S, 1);
    history_shares(&h, 50 * S, &s);
    assert_int_equal(s.jobs, 100);
    assert_int_equal(s.long_jobs, 30);
    for (int i = 0; i < 1000; i++)
        finished_by(&h, 3, NULL, S, 1);
    history_shares(&h, 50 * S, &s);
    assert_int_equal(s.long_jobs, 30);
    for (int i = 0; i < 1000; i++)
        finished_by(&h, 1, NULL, 100 * S, (uint64_t)100 * S);
    history_shares(&h, 50 * S, &s);
    assert_in_range(s.long_jobs, 33, 34);
    assert_int_equal(s.jobs, 100);
    history_free(&h);
}

static void a_names_estimate_is_the_mean_of_its_last_runs(void **state)
{
    struct history_config c;
    struct history h;

    history_config_init(&c);
    c.runs_per_name = 3;
    history_init(&h, &c);
    finished(&h, "a", 10, 1);
    assert_int_equal(estimate(&h, "a"), 10);
    finished(&h, "a", 20, 1000000); /* of many tasks: one run like any other */
    assert_int_equal(estimate(&h, "a"), 15);
    finished(&h, "a", 30, 1);
    assert_int_equal(estimate(&h, "a"), 20);
    finished(&h, "a", 100, 1); /* 20, 30, 100 */
    assert_int_equal(estimate(&h, "a"), 50);
    finished(&h, "b", 7, 1);
    assert_int_equal(estimate(&h, "b"), 7);
    finished(&h, "", 1000, 1); /* counts for the window only */
    finished(&h, NULL, 1000, 1);
    assert_int_equal(history_jobs(&h), 7);
    assert_int_equal(h.names.used.n, 2);
    history_free(&h);
}

static void nothing_is_computed_from_few_jobs(void **state)
{
    struct history_config c;
    struct history h;

    history_config_init(&c);
    history_init(&h, &c);
    for (int i = 1; i < 100; i++)
        finished(&h, NULL, i * S, 1);
    assert_int_equal(history_cutoff(&h), 10 * S);
    assert_int_equal(history_share_ppm(&h), 10 * PERCENT);
    assert_false(history_cutoff_computed(&h));
    assert_false(history_share_computed(&h));
    finished(&h, NULL, 100 * S, 1);
    /* 1..100 s: ninety are at most 90 s; the other ten are long, with 955 of 5050 task-seconds. */
    assert_int_equal(history_cutoff(&h), 90 * S + 1);
    assert_true(history_cutoff_computed(&h));
    assert_int_equal(history_share_ppm(&h), 80 * PERCENT); /* 81.1 %, but at most 80 % */
    assert_true(history_share_computed(&h));
    history_free(&h);
}

static void equal_jobs_are_all_short(void **state)
{
    struct history_config c;
    struct history_shares s;
    struct history h;

    history_config_init(&c);
    history_init(&h, &c);
    for (int i = 0; i < 200; i++)
        finished(&h, NULL, 3 * S, 10);
    history_shares(&h, history_cutoff(&h), &s);
    assert_int_equal(s.long_jobs, 0);
    assert_int_equal(s.jobs, 200);
    history_free(&h);
}

static void the_cutoff_moves_only_for_a_reason(void **state)
{
    struct history_config c;
    struct history h;
    int64_t first_us;

    history_config_init(&c);
    c.window = 100;
    history_init(&h, &c);
    for (int i = 0; i < 100; i++)
        finished(&h, NULL, 100 * S, 1);
    first_us = history_cutoff(&h);
    assert_int_equal(first_us, 100 * S + 1);
    for (int i = 0; i < 100; i++)
        finished(&h, NULL, 109 * S, 1);
    assert_int_equal(history_cutoff(&h), first_us); /* 9 % */
    for (int i = 0; i < 100; i++)
        finished(&h, NULL, 111 * S, 1);
    assert_int_equal(history_cutoff(&h), 111 * S + 1);
    for (int i = 0; i < 100; i++)
        finished(&h, NULL, 99 * S, 1);
    assert_int_equal(history_cutoff(&h), 99 * S + 1); /* the window has forgotten the rest */
    /* One that was set is not one to stay at. */
    c.cutoff_us = 100 * S;
    history_set_back(&h, &c);
    assert_int_equal(history_cutoff(&h), 99 * S + 1);
    history_free(&h);
}

/* A resized partition moves workers: it is not resized for less than a hundredth of the slots. */
static void the_share_stays_where_it_hardly_moves(void **state)
{
    struct history_config c;
    struct history h;

    history_config_init(&c);
    c.window = 100;
    c.cutoff_fixed = true;
    c.cutoff_us = 10 * S;
    history_init(&h, &c);
    for (int i = 0; i < 50; i++) { /* 400 s of short ones for each 600 s of long ones */
        finished(&h, NULL, 1 * S, 400);
        finished(&h, NULL, 20 * S, 30);
    }
    history_compute(&h);
    assert_int_equal(history_share_ppm(&h), 40 * PERCENT);
    for (int i = 0; i < 2; i++) { /* 400 s more: 40.5 % */
        finished(&h, NULL, 1 * S, 600);
        finished(&h, NULL, 20 * S, 30);
    }
    history_compute(&h);
    assert_int_equal(history_share_ppm(&h), 40 * PERCENT);
    for (int i = 0; i < 10; i++) {
        finished(&h, NULL, 1 * S, 600);
        finished(&h, NULL, 20 * S, 30);
    }
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 42 * PERCENT, 43 * PERCENT);
    history_free(&h);
}

static void the_share_follows_task_seconds(void **state)
{
    struct history_config c;
    struct history h;

    history_config_init(&c);
    c.window = 100;
    c.cutoff_fixed = true;
    c.cutoff_us = 10 * S;
    history_init(&h, &c);
    /* 20 x 1 s short, 80 x 1 s in one job of 80 s, over and over. */
    for (int i = 0; i < 105; i++)
        finished(&h, NULL, i % 21 < 20 ? 1 * S : 80 * S, 1);
    history_compute(&h);
    assert_int_equal(history_cutoff(&h), 10 * S);
    assert_false(history_cutoff_computed(&h));
    assert_in_range(history_share_ppm(&h), 19 * PERCENT, 21 * PERCENT);
    history_free(&h);

    /* Within the operator's bounds, or fixed. */
    c.share_max_ppm = 15 * PERCENT;
    history_init(&h, &c);
    for (int i = 0; i < 105; i++)
        finished(&h, NULL, i % 21 < 20 ? 1 * S : 80 * S, 1);
    assert_int_equal(history_share_ppm(&h), 15 * PERCENT);
    history_fix_share(&h, 33 * PERCENT);
    for (int i = 0; i < 105; i++)
        finished(&h, NULL, 1 * S, 1);
    assert_int_equal(history_share_ppm(&h), 33 * PERCENT);
    assert_false(history_share_computed(&h));
    history_fix_cutoff(&h, 5 * S);
    assert_int_equal(history_cutoff(&h), 5 * S);
    history_free(&h);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void the_percentile_is_that_of_sorting(void **state)
{
    struct history_config c;
    struct history h;
    struct rng rng;
    int64_t v[300];

    rng_seed(&rng, 7);
    history_config_init(&c);
    c.window = COUNT(v);
    c.cutoff_hysteresis_ppm = 0;
    for (int round = 0; round < 50; round++) {
        c.cutoff_percentile_ppm = 1 + (uint32_t)rng_below(&rng, 1000000);
        history_init(&h, &c);
        for (size_t i = 0; i < COUNT(v); i++) {
            v[i] = 1 + (int64_t)rng_below(&rng, round % 2 ? 10 : LIMIT_TIME_US);
            finished(&h, NULL, v[i], 1);
        }
        history_compute(&h);
        qsort(v, COUNT(v), sizeof v[0], by_time);
        uint64_t rank = (COUNT(v) * (uint64_t)c.cutoff_percentile_ppm + 999999) / 1000000;
        int64_t expected_us = v[rank - 1] + 1 < LIMIT_TIME_US ? v[rank - 1] + 1 : LIMIT_TIME_US;
        assert_int_equal(history_cutoff(&h), expected_us);
        history_free(&h);
    }
}

static void absurd_reports_are_survived(void **state)
{
    struct history_config c = {0}; /* every setting out of range */
    struct history h;

    history_init(&h, &c);
    for (int i = 0; i < 300; i++)
        history_add(&h, 0, NULL, i % 2 ? INT64_MAX : INT64_MIN, UINT64_MAX, i);
    history_follow_demand(&h, UINT64_MAX, 0);
    history_compute(&h);
    assert_true(history_cutoff(&h) >= 1);
    assert_true(history_share_ppm(&h) <= 1000000);
    history_free(&h);
}

/* ---- The traces (their README states what must come out) ---- */

static char *trace_path(const char *file)
{
    const char *shared = getenv("HAWK_SHARED");
    char *path = xmalloc(4096);

    snprintf(path, 4096, "%s/traces/%s", shared ? shared : "../shared", file);
    return path;
}

/* The trace's jobs as history, or false when it is not there. */
static bool read_trace(const char *file, struct history *h)
{
    char *path = trace_path(file);
    struct trace *t = NULL;
    struct trace_job job;
    int got;

    if (access(path, R_OK) != 0) {
        print_message("%s is not there: set HAWK_SHARED to the folder that holds traces/\n", path);
        free(path);
        return false;
    }
    assert_int_equal(trace_open(&t, path), 0);
    while ((got = trace_next(t, &job)) == 1) {
        uint64_t task_us = 0;

        for (uint32_t i = 0; i < job.tasks; i++)
            task_us += (uint64_t)job.durations_us[i];
        history_add(h, 0, NULL, job.mean_us, task_us, 0);
    }
    if (got < 0)
        fail_msg("%s", trace_error(t));
    trace_close(t);
    free(path);
    return true;
}

static uint32_t permille(unsigned __int128 part, unsigned __int128 whole)
{
    return (uint32_t)((part * 1000 + whole / 2) / whole);
}

static void check_trace(const char *file, int64_t cutoff_us, uint32_t jobs, uint32_t long_jobs_permille,
                        uint32_t long_seconds_permille)
{
    struct history_config c;
    struct history_shares s;
    struct history h;

    history_config_init(&c);
    c.window = 20000;
    c.share_hysteresis_ppm = 0;
    c.cutoff_fixed = true;
    c.cutoff_us = cutoff_us;
    history_init(&h, &c);
    if (!read_trace(file, &h)) {
        history_free(&h);
        skip();
    }
    history_shares(&h, cutoff_us, &s);
    assert_int_equal(s.jobs, jobs);
    assert_int_equal(permille(s.long_jobs, s.jobs), long_jobs_permille);
    assert_int_equal(permille(s.long_task_us, s.task_us), long_seconds_permille);
    /* The share is what the long jobs leave, rounded down. */
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), (1000 - long_seconds_permille) * 1000 - 500,
                    (1000 - long_seconds_permille) * 1000 + 500);
    print_message("%s: short partition %u.%02u %%\n", file, history_share_ppm(&h) / PERCENT,
                  history_share_ppm(&h) % PERCENT / 100);
    history_free(&h);

    /* Left to itself, the cutoff comes out as the 90th percentile, a little over the stated one. */
    c.cutoff_fixed = false;
    c.cutoff_hysteresis_ppm = 0;
    history_init(&h, &c);
    assert_true(read_trace(file, &h));
    history_compute(&h);
    history_shares(&h, history_cutoff(&h), &s);
    assert_in_range(permille(s.long_jobs, s.jobs), 99, 100);
    print_message("%s: computed cutoff %lld us, short partition %u.%02u %%\n", file,
                  (long long)history_cutoff(&h), history_share_ppm(&h) / PERCENT,
                  history_share_ppm(&h) % PERCENT / 100);
    history_free(&h);
}

static void google_trace(void **state) { check_trace("google-10000.tr", 1129532000, 10000, 91, 786); }
static void yahoo_trace(void **state) { check_trace("yahoo-2910.tr", 90581100, 2910, 95, 985); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        cmocka_unit_test(the_name_unused_for_longest_makes_room),
        cmocka_unit_test(what_is_no_estimate_is_ignored),
        cmocka_unit_test(estimates_are_listed_in_order_of_use),
        cmocka_unit_test(a_names_estimate_is_the_mean_of_its_last_runs),
        cmocka_unit_test(a_name_has_a_history_for_each_user),
        cmocka_unit_test(tiny_jobs_move_the_cutoff_by_their_task_seconds),
        cmocka_unit_test(whoever_has_most_jobs_makes_room),
        cmocka_unit_test(nothing_is_computed_from_few_jobs),
        cmocka_unit_test(equal_jobs_are_all_short),
        cmocka_unit_test(the_cutoff_moves_only_for_a_reason),
        cmocka_unit_test(the_share_stays_where_it_hardly_moves),
        cmocka_unit_test(the_share_follows_task_seconds),
        cmocka_unit_test(the_percentile_is_that_of_sorting),
        cmocka_unit_test(absurd_reports_are_survived),
        cmocka_unit_test(google_trace),
        cmocka_unit_test(yahoo_trace),
    };

    return cmocka_run_group_tests_name("classifier", tests, NULL, NULL);
}
