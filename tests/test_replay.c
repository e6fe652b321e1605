/* hawk replay: scaling a trace, its arrivals, and the figures made from the results. */
#include "base/units.h"
#include "replay/plan.h"
#include "replay/report.h"

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

/* A trace file with this text; the caller unlinks it. */
static const char *trace_of(const char *text)
{
    static char path[256];
    const char *dir = getenv("TMPDIR");
    int fd;

    snprintf(path, sizeof path, "%s/replay.XXXXXX", dir ? dir : "/tmp");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static void read_text(struct replay_plan *p, const char *text, const struct replay_scale *s)
{
    char why[300] = "";
    const char *path = trace_of(text);
    int err = replay_plan_read(p, path, s, why, sizeof why);

    unlink(path);
    if (err)
        fail_msg("%s", why);
}

static const char three_jobs[] = "100 1 2 2\n"
                                 "110 4 5 2 4 6 8\n"
                                 "130 2 100 50 150\n";

/* --- the plan -------------------------------------------------------------------------------------- */

static void unscaled_a_plan_is_the_trace_from_its_first_arrival(void **state)
{
    const struct replay_scale s = {.time = 1};
    struct replay_plan p;

    read_text(&p, three_jobs, &s);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.tasks, 7);
    assert_int_equal(p.largest, 4);
    assert_int_equal(p.task_us, 222 * US_PER_S);
    assert_int_equal(p.jobs[0].at_us, 0);
    assert_int_equal(p.jobs[1].at_us, 10 * US_PER_S);
    assert_int_equal(p.jobs[1].mean_us, 5 * US_PER_S);
    assert_int_equal(p.jobs[1].max_us, 8 * US_PER_S);
    assert_int_equal(p.jobs[2].line, 3);
    assert_int_equal(p.last_arrival_us, 30 * US_PER_S);
    assert_int_equal(p.mean_gap_us, 15 * US_PER_S);
    /* 222 task-seconds arrive in 3 gaps of 15 s: 4.93 slots' worth. */
    assert_true(replay_plan_load(&p, 10) > 0.4933 && replay_plan_load(&p, 10) < 0.4934);
    replay_plan_free(&p);
}

static void time_scale_and_jobs(void **state)
{
    const struct replay_scale s = {.time = 0.001, .jobs = 2};
    struct replay_plan p;

    read_text(&p, three_jobs, &s);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.jobs[1].at_us, 10 * US_PER_MS);
    assert_int_equal(p.jobs[1].mean_us, 5 * US_PER_MS);
    assert_int_equal(p.jobs[1].trace_mean_us, 5 * US_PER_S);
    assert_int_equal(p.task_us, 22 * US_PER_MS);
    replay_plan_free(&p);
}

static void fewer_tasks_keep_the_task_seconds(void **state)
{
    const struct replay_scale half = {.time = 1, .max_tasks = 2}, tiny = {.time = 1, .tasks = 0.01};
    const struct replay_scale no_more = {.time = 1, .max_tasks = 100};
    struct replay_plan p;

    /* The largest job goes from 4 tasks to 2, so all shrink by half: 1 (never less), 2 and 1 tasks. */
    read_text(&p, three_jobs, &half);
    assert_int_equal(p.tasks, 4);
    assert_int_equal(p.largest, 2);
    assert_int_equal(p.jobs[1].tasks, 2);
    /* The first and the third of 2 4 6 8 stay, and 20 s / 8 s longer. */
    assert_int_equal(p.durations_us[p.jobs[1].first], 5 * US_PER_S);
    assert_int_equal(p.durations_us[p.jobs[1].first + 1], 15 * US_PER_S);
    assert_int_equal(p.jobs[2].tasks, 1);
    assert_int_equal(p.durations_us[p.jobs[2].first], 200 * US_PER_S);
    assert_int_equal(p.task_us, 222 * US_PER_S);
    replay_plan_free(&p);

    read_text(&p, three_jobs, &tiny);
    assert_int_equal(p.tasks, 3);
    assert_int_equal(p.task_us, 222 * US_PER_S);
    replay_plan_free(&p);

    read_text(&p, three_jobs, &no_more);
    assert_int_equal(p.tasks, 7);
    replay_plan_free(&p);

    /* Kept tasks of no time cannot be lengthened: they share what the others took. */
    read_text(&p, "0 4 10 0 10 0 30\n", &half);
    assert_int_equal(p.durations_us[0], 20 * US_PER_S);
    assert_int_equal(p.durations_us[1], 20 * US_PER_S);
    replay_plan_free(&p);
}

static void the_cap_is_counted(void **state)
{
    const struct replay_scale s = {.time = 0.1, .cap_us = 6 * US_PER_S};
    struct replay_plan p;

    read_text(&p, three_jobs, &s); /* 50 and 150 become 5 and 15 */
    assert_int_equal(p.tasks_capped, 1);
    assert_int_equal(p.uncapped_us, 22200 * US_PER_MS);
    assert_int_equal(p.task_us, 13200 * US_PER_MS);
    assert_int_equal(p.jobs[2].mean_us, 5500 * US_PER_MS);
    replay_plan_free(&p);
}

static void the_true_class_is_by_the_trace_not_by_what_scaling_made_of_it(void **state)
{
    const struct replay_scale s = {.time = 0.001, .max_tasks = 1};
    struct replay_plan p;

    read_text(&p, three_jobs, &s);
    replay_plan_classify(
        &p, 5 * US_PER_S); /* the second job's mean is the cutoff: long (Hawk: below it = short) */
    assert_int_equal(p.jobs[0].class, CLASS_SHORT);
    assert_int_equal(p.jobs[1].class, CLASS_LONG);
    assert_int_equal(p.jobs[2].class, CLASS_LONG);
    assert_int_equal(p.long_jobs, 2);
    assert_int_equal(p.long_task_us, 220 * US_PER_MS);
    replay_plan_classify(&p, 5 * US_PER_S + 1);
    assert_int_equal(p.jobs[1].class, CLASS_SHORT);
    replay_plan_free(&p);
}

static void jobs_that_scaling_puts_into_the_other_class_are_told(void **state)
{
    const struct replay_scale s = {.time = 0.001, .max_tasks = 1};
    struct replay_plan p;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    /* The second job is short by its mean of 5 s; its one task that is left takes the time of four. */
    read_text(&p, three_jobs, &s);
    replay_plan_classify(&p, 10 * US_PER_S);
    replay_plan_judge_estimates(&p, 10 * US_PER_MS);
    assert_int_equal(p.misjudged, 1);
    replay_plan_print(f, &p, 0);
    fclose(f);
    assert_non_null(strstr(text, "\n1 of the jobs have the other class by their scaled means: --tag class"));
    free(text);
    replay_plan_judge_estimates(&p, 21 * US_PER_MS);
    assert_int_equal(p.misjudged, 0);
    replay_plan_free(&p);
}

static void poisson_arrivals_offer_the_load(void **state)
{
    enum { JOBS = 20000 };
    const struct replay_scale s = {.time = 1};
    char *text = malloc(JOBS * 8 + 1), *end = text;
    struct replay_plan p;
    double sum_squares = 0, mean;
    int64_t last_us, some_us;

    for (int i = 0; i < JOBS; i++)
        end = stpcpy(end, "0 1 2 2\n");
    read_text(&p, text, &s);
    free(text);
    assert_true(replay_plan_load(&p, 10) == 0); /* all at once: no load to speak of */

    replay_plan_poisson(&p, 0.8, 10, 7);
    /* 2 s per job, 8 slots' worth: one every 0.25 s. */
    assert_int_equal(p.mean_gap_us, 250 * US_PER_MS);
    assert_int_equal(p.jobs[0].at_us, 0);
    mean = (double)p.last_arrival_us / (JOBS - 1);
    assert_true(mean > 0.97 * 250e3 && mean < 1.03 * 250e3);
    for (int i = 1; i < JOBS; i++) {
        double gap = (double)(p.jobs[i].at_us - p.jobs[i - 1].at_us);

        assert_true(gap >= 0);
        sum_squares += gap * gap;
    }
    /* An exponential distribution's second moment is twice its mean's square. */
    assert_true(sum_squares / (JOBS - 1) > 1.85 * mean * mean &&
                sum_squares / (JOBS - 1) < 2.15 * mean * mean);

    last_us = p.last_arrival_us;
    some_us = p.jobs[500].at_us;
    replay_plan_poisson(&p, 0.8, 10, 7);
    assert_int_equal(p.last_arrival_us, last_us); /* the same seed, the same arrivals */
    replay_plan_poisson(&p, 0.4, 10, 7);
    assert_in_range(p.jobs[500].at_us, 2 * some_us - 2, 2 * some_us + 2);
    replay_plan_poisson(&p, 0.8, 10, 8);
    assert_int_not_equal(p.last_arrival_us, last_us);
    replay_plan_free(&p);
}

static void bad_traces_are_refused_by_name(void **state)
{
    const struct {
        const char *text, *why;
        double time;
    } cases[] = {
        {"", ": holds no job", 1},
        {"1 2 3 4\n", ":1:8: expected duration 2 of 2 in seconds, found the end of the line", 1},
        {"0 1 1 864000000\n", ": scaled by 1e+06, its tasks take more than 146,000 years in all", 1e6},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct replay_scale s = {.time = cases[i].time};
        const char *path = trace_of(cases[i].text);
        struct replay_plan p;
        char why[300] = "";

        assert_true(replay_plan_read(&p, path, &s, why, sizeof why) < 0);
        unlink(path);
        assert_memory_equal(why, path, strlen(path));
        assert_string_equal(why + strlen(path), cases[i].why);
        assert_null(p.jobs);
    }
}

static void numbers_people_write(void **state)
{
    const struct {
        const char *text;
        double value; /* 0: refused */
    } cases[] = {
        {"0.001", 0.001}, {"1/1000", 0.001}, {"90%", 0.9}, {"1e-3", 0.001}, {"2", 2},     {"0", 0},
        {"-1", 0},        {"1/0", 0},        {"1/", 0},    {"%", 0},        {"", 0},      {"inf", 0},
        {"0x10", 0},      {" 1", 0},         {"1 ", 0},    {"101", 0},      {"1/2/3", 0}, {"nan", 0},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        double v = 0;
        int err = replay_number_parse(cases[i].text, 100, &v);

        if ((err == 0) != (cases[i].value > 0) || v > cases[i].value * 1.000001 ||
            v < cases[i].value * 0.999999)
            fail_msg("'%s' gives %g, error %d", cases[i].text, v, err);
    }
}

/* --- the report ------------------------------------------------------------------------------------ */

/* Results of three_jobs as if every task had waited for a second. */
static void fill_results(struct replay_result *r, const struct replay_plan *p)
{
    *r = (struct replay_result){.elapsed_us = 100 * US_PER_S};
    r->jobs = calloc(p->n, sizeof *r->jobs);
    r->wait_us = calloc(p->tasks, sizeof *r->wait_us);
    r->run_us = calloc(p->tasks, sizeof *r->run_us);
    for (uint32_t i = 0; i < p->n; i++) {
        r->jobs[i] = (struct replay_job_result){.end = REPLAY_ENDED,
                                                .believed = p->jobs[i].class,
                                                .done = p->jobs[i].tasks,
                                                .reported = p->jobs[i].tasks,
                                                .response_us = p->jobs[i].max_us + US_PER_S,
                                                .probes_sent = 2 * p->jobs[i].tasks};
        r->ends[REPLAY_ENDED]++;
    }
    for (size_t i = 0; i < p->tasks; i++) {
        r->wait_us[i] = US_PER_S;
        r->run_us[i] = p->durations_us[i];
    }
}

static void a_report_is_per_true_class(void **state)
{
    const struct replay_scale s = {.time = 1};
    struct replay_plan p;
    struct replay_result r;
    struct replay_report report = {.slots = 0};

    read_text(&p, three_jobs, &s);
    replay_plan_classify(&p, 50 * US_PER_S);
    fill_results(&r, &p);
    r.jobs[1].believed = CLASS_LONG; /* the cluster's mistake does not move it */
    r.jobs[1].stolen = 3;
    replay_report_fill(&report, &p, &r, 10, 10);

    assert_int_equal(report.classes[CLASS_SHORT].jobs, 2);
    assert_int_equal(report.classes[CLASS_SHORT].tasks, 5);
    assert_int_equal(report.classes[CLASS_SHORT].response_us.p50, 6 * US_PER_S); /* of 3 and 9 */
    assert_int_equal(report.classes[CLASS_SHORT].wait_us.n, 5);
    assert_int_equal(report.classes[CLASS_SHORT].wait_us.p99, US_PER_S);
    assert_int_equal(report.classes[CLASS_SHORT].slowdown.max, 1500); /* 3 s instead of 2 s */
    assert_int_equal(report.classes[CLASS_SHORT].mistaken, 1);
    assert_int_equal(report.classes[CLASS_SHORT].stolen, 3);
    assert_int_equal(report.classes[CLASS_SHORT].probes_sent, 10);
    assert_int_equal(report.classes[CLASS_LONG].jobs, 1);
    assert_int_equal(report.classes[CLASS_LONG].response_us.mean, 151 * US_PER_S);
    assert_int_equal(report.classes[REPLAY_ALL].jobs, 3);
    assert_int_equal(report.classes[REPLAY_ALL].wait_us.n, 7);
    assert_true(report.utilization > 0.2219 && report.utilization < 0.2221); /* 222 s of 10 x 100 s */
    assert_true(replay_report_complete(&report, &p, &r));
    replay_result_free(&r);
    replay_plan_free(&p);
}

static void slots_for_the_load_are_not_those_in_use(void **state)
{
    const struct replay_scale s = {.time = 1};
    struct replay_plan p;
    struct replay_result r;
    struct replay_report report = {.policy = {.name = "hawk"}};
    json_t *j;

    read_text(&p, three_jobs, &s);
    fill_results(&r, &p);
    replay_report_fill(&report, &p, &r, 5, 10);
    assert_true(report.load == replay_plan_load(&p, 5));
    assert_true(report.utilization > 0.2219 && report.utilization < 0.2221); /* 222 s of 10 x 100 s */
    j = replay_report_json(&report, &p, &r);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "plan"), "slots")), 5);
    json_decref(j);
    replay_result_free(&r);
    replay_plan_free(&p);
}

static void a_job_that_takes_no_time_has_no_slowdown(void **state)
{
    const struct replay_scale s = {.time = 1};
    struct replay_plan p;
    struct replay_result r;
    struct replay_report report = {.slots = 0};

    read_text(&p, "0 1 10 10\n1 1 0 0\n", &s);
    replay_plan_classify(&p, 50 * US_PER_S);
    fill_results(&r, &p);
    replay_report_fill(&report, &p, &r, 10, 10);
    assert_int_equal(report.classes[CLASS_SHORT].response_us.n, 2);
    assert_int_equal(report.classes[CLASS_SHORT].slowdown.n, 1);
    assert_int_equal(report.classes[CLASS_SHORT].slowdown.max, 1100); /* 11 s instead of 10 s */
    replay_result_free(&r);
    replay_plan_free(&p);
}

static void whatever_is_missing_shows(void **state)
{
    const struct replay_scale s = {.time = 1};

    for (int what = 0; what < 5; what++) {
        struct replay_plan p;
        struct replay_result r;
        struct replay_report report = {.slots = 0};

        read_text(&p, three_jobs, &s);
        replay_plan_classify(&p, 50 * US_PER_S);
        fill_results(&r, &p);
        switch (what) {
        case 0: /* a job that was refused */
            r.jobs[1] = (struct replay_job_result){.end = REPLAY_REFUSED};
            r.ends[REPLAY_ENDED]--;
            break;
        case 1: /* a task nobody reported */
            r.jobs[1].reported--;
            break;
        case 2: /* a task that failed */
            r.jobs[1].done--;
            r.jobs[1].failed++;
            break;
        case 3: /* a job nobody knows any more */
            r.jobs[1] = (struct replay_job_result){.end = REPLAY_LOST};
            r.ends[REPLAY_ENDED]--;
            break;
        default: /* an interruption before its time */
            r.jobs[1] = (struct replay_job_result){.end = REPLAY_NOT_SUBMITTED};
            r.ends[REPLAY_ENDED]--;
        }
        replay_report_fill(&report, &p, &r, 10, 10);
        assert_false(replay_report_complete(&report, &p, &r));
        assert_int_equal(report.tasks_missing, what == 1 ? 1 : what == 3 ? 4 : 0);
        assert_int_equal(report.classes[CLASS_SHORT].jobs, what == 4 ? 1 : 2);
        /* Only what ran to its end has times. */
        assert_int_equal(report.classes[CLASS_SHORT].response_us.n, what == 1 ? 2 : 1);
        replay_result_free(&r);
        replay_plan_free(&p);
    }
}

static void json_holds_every_class(void **state)
{
    const struct replay_scale s = {.time = 1};
    struct replay_plan p;
    struct replay_result r;
    struct replay_report report = {.policy = {.name = "hawk"}};
    json_int_t p90;
    json_t *j;

    read_text(&p, three_jobs, &s);
    replay_plan_classify(&p, 50 * US_PER_S);
    fill_results(&r, &p);
    replay_report_fill(&report, &p, &r, 10, 10);
    j = replay_report_json(&report, &p, &r);
    assert_int_equal(json_unpack(j, "{s:{s:{s:{s:I}}}}", "classes", "long", "response", "p90_us", &p90), 0);
    assert_int_equal(p90, 151 * US_PER_S);
    assert_non_null(json_object_get(json_object_get(j, "counters"), "tasks_stolen"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "tasks"), "done")), 7);
    json_decref(j);
    replay_result_free(&r);
    replay_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unscaled_a_plan_is_the_trace_from_its_first_arrival),
        cmocka_unit_test(time_scale_and_jobs),
        cmocka_unit_test(fewer_tasks_keep_the_task_seconds),
        cmocka_unit_test(the_cap_is_counted),
        cmocka_unit_test(the_true_class_is_by_the_trace_not_by_what_scaling_made_of_it),
        cmocka_unit_test(jobs_that_scaling_puts_into_the_other_class_are_told),
        cmocka_unit_test(poisson_arrivals_offer_the_load),
        cmocka_unit_test(bad_traces_are_refused_by_name),
        cmocka_unit_test(numbers_people_write),
        cmocka_unit_test(a_report_is_per_true_class),
        cmocka_unit_test(slots_for_the_load_are_not_those_in_use),
        cmocka_unit_test(a_job_that_takes_no_time_has_no_slowdown),
        cmocka_unit_test(whatever_is_missing_shows),
        cmocka_unit_test(json_holds_every_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
