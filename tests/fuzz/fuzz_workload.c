/* Files of workloads; the first byte says which: a trace, a replay of one, a table to generate from, the public
 * Google trace. Jobs come out within their limits, or an error with its place. */
#include "base/check.h"
#include "base/trace.h"
#include "replay/plan.h"
#include "tests/fuzz/lib/file.h"
#include "tests/fuzz/lib/input.h"
#include "workload/generate.h"
#include "workload/generate_table.h"
#include "workload/google.h"

#include <stdlib.h>
#include <string.h>

#define JOBS 50 /* taken from a generator */

static void check_job(const struct trace_job *j, int64_t *last_us)
{
    CHECK(j->tasks > 0 && j->tasks <= TRACE_TASKS_MAX);
    CHECK(j->submit_us >= *last_us && j->submit_us <= TRACE_TIME_US_MAX);
    *last_us = j->submit_us;
    for (uint32_t i = 0; i < j->tasks; i++)
        CHECK(j->durations_us[i] >= 0 && j->durations_us[i] <= TRACE_TIME_US_MAX);
}

static void trace(const char *path)
{
    struct trace *t;
    struct trace_job j;
    int64_t last_us = 0;
    int got = trace_open(&t, path);

    CHECK(got == 0);
    while ((got = trace_next(t, &j)) > 0)
        check_job(&j, &last_us);
    CHECK((got < 0) == (trace_error(t)[0] != '\0'));
    trace_close(t);
}

static void replay(const char *path, uint8_t b)
{
    const struct replay_scale scales[] = {{.time = 1},
                                          {.time = 0.001, .tasks = 0.1, .cap_us = 1000000},
                                          {.time = 1e6, .max_tasks = 3},
                                          {.time = 0.5, .jobs = 2, .tasks = 1}};
    struct replay_plan p;
    char why[300] = "";

    if (replay_plan_read(&p, path, &scales[b % 4], why, sizeof why)) {
        CHECK(why[0]);
        return;
    }
    replay_plan_classify(&p, 1000000);
    if (b & 4)
        replay_plan_poisson(&p, 0.9, 100, 1);
    CHECK(replay_plan_load(&p, 10) >= 0);
    replay_plan_free(&p);
}

static void table(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), why[300] = "";
    struct job_table t;
    int64_t last_us = 0;

    CHECK(text);
    if (generate_table_parse(&t, "T", text, why, sizeof why)) {
        CHECK(why[0]);
    } else {
        struct generator *g;
        struct sim_source s;
        struct trace_job j;

        t.jobs = t.jobs < JOBS ? t.jobs : JOBS;
        g = generator_new(&t, 1);
        s = generator_source(g);
        while (s.next(s.arg, &j) > 0)
            check_job(&j, &last_us);
        generator_free(g);
    }
    free(text);
}

static void google(const char *path)
{
    struct google *g = google_new();
    int err = google_read(g, path);

    CHECK((err != 0) == (google_error(g)[0] != '\0'));
    if (!err) {
        struct sim_source s = google_source(g);
        struct trace_job j;
        int64_t last_us = 0;

        while (s.next(s.arg, &j) > 0)
            check_job(&j, &last_us);
    }
    google_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_file f;

    if (size == 0)
        return 0;
    f = file_of(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        trace(f.path);
        break;
    case 1:
        replay(f.path, data[0] >> 2);
        break;
    case 2:
        table(data + 1, size - 1);
        break;
    default:
        google(f.path);
    }
    file_end(&f);
    return 0;
}
