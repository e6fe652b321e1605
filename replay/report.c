/* Makes figures, a table and JSON of a replay's results. */
#include "replay/report.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- figures --------------------------------------------------------------------------------------- */

static void add_counts(struct replay_class *c, const struct replay_plan_job *p,
                       const struct replay_job_result *j)
{
    c->jobs++;
    c->tasks += p->tasks;
    c->stolen += j->stolen;
    c->mistaken += j->end == REPLAY_ENDED && j->believed != p->class;
    c->probes_sent += j->probes_sent;
    c->probes_cancelled += j->probes_cancelled;
    c->probes_unused += j->probes_unused;
    c->probes_lost += j->probes_lost;
}

/* Scratch space for the values of one class. */
struct values {
    int64_t *response, *slowdown, *wait;
    uint32_t jobs, slowed, tasks;
};

static void add_times(struct values *v, const struct replay_plan_job *p, const struct replay_job_result *j,
                      const int64_t *wait_us)
{
    v->response[v->jobs++] = j->response_us;
    if (p->max_us > 0) /* what takes no time has no meaningful slowdown */
        v->slowdown[v->slowed++] = (int64_t)((double)j->response_us * 1000 / (double)p->max_us + 0.5);
    for (uint32_t i = 0; i < p->tasks; i++)
        if (wait_us[p->first + i] >= 0)
            v->wait[v->tasks++] = wait_us[p->first + i];
}

static void fill_class(struct replay_class *c, int class, const struct replay_plan *p,
                       const struct replay_result *r, struct values *v)
{
    *c = (struct replay_class){0};
    v->jobs = v->slowed = v->tasks = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct replay_plan_job *pj = &p->jobs[i];
        const struct replay_job_result *j = &r->jobs[i];

        if ((class != REPLAY_ALL && pj->class != class) || j->end == REPLAY_NOT_SUBMITTED)
            continue;
        add_counts(c, pj, j);
        if (j->end == REPLAY_ENDED && j->done == pj->tasks)
            add_times(v, pj, j, r->wait_us);
    }
    c->response_us = spread_of(v->response, v->jobs);
    c->slowdown = spread_of(v->slowdown, v->slowed);
    c->wait_us = spread_of(v->wait, v->tasks);
}

void replay_report_fill(struct replay_report *to, const struct replay_plan *p, const struct replay_result *r,
                        uint32_t load_slots, uint32_t slots)
{
    struct values v = {
        .response = xmalloc(p->n * sizeof(int64_t)),
        .slowdown = xmalloc(p->n * sizeof(int64_t)),
        .wait = xmalloc(p->tasks * sizeof(int64_t)),
    };
    double busy_us = 0;

    for (int k = 0; k < REPLAY_CLASSES; k++)
        fill_class(&to->classes[k], k, p, r, &v);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct replay_job_result *j = &r->jobs[i];

        to->tasks_done += j->done;
        to->tasks_failed += j->failed;
        to->tasks_cancelled += j->cancelled;
        to->tasks_lost += j->lost;
        to->tasks_retried += j->retried;
        if (j->end == REPLAY_ENDED || j->end == REPLAY_LOST)
            to->tasks_missing += p->jobs[i].tasks - j->reported;
    }
    for (size_t i = 0; i < p->tasks; i++)
        if (r->run_us[i] > 0)
            busy_us += (double)r->run_us[i];
    to->slots = slots;
    to->load_slots = load_slots;
    to->load = replay_plan_load(p, load_slots);
    to->utilization = r->elapsed_us > 0 && slots ? busy_us / ((double)r->elapsed_us * slots) : 0;
    free(v.response);
    free(v.slowdown);
    free(v.wait);
}

bool replay_report_complete(const struct replay_report *report, const struct replay_plan *p,
                            const struct replay_result *r)
{
    return r->ends[REPLAY_ENDED] == p->n && report->tasks_done == p->tasks && report->tasks_missing == 0;
}

/* --- text ------------------------------------------------------------------------------------------ */

static const char *class_name(int class)
{
    return class == REPLAY_ALL ? "all" : class_text((enum job_class) class);
}

static double part_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

void replay_plan_print(FILE *f, const struct replay_plan *p, uint32_t slots)
{
    fprintf(f, "%u job%s with %zu task%s, the largest with %u; %s of task time\n", p->n, PLURAL(p->n),
            p->tasks, PLURAL(p->tasks), p->largest, DURATION(p->task_us));
    if (p->classified)
        fprintf(f, "%u of the jobs are long, with %.1f %% of the task time\n", p->long_jobs,
                100 * part_of((double)p->long_task_us, (double)p->task_us));
    if (p->misjudged)
        fprintf(f, "%u of the jobs have the other class by their scaled means: --tag class tells their own\n",
                p->misjudged);
    if (p->tasks_capped)
        fprintf(f, "the cap on durations shortens %zu tasks and takes away %.1f %% of the task time\n",
                p->tasks_capped, 100 * (1 - part_of((double)p->task_us, (double)p->uncapped_us)));
    fprintf(f, "arrivals over %s, one in %s on average", DURATION(p->last_arrival_us),
            DURATION(p->mean_gap_us));
    if (slots && replay_plan_load(p, slots) > 0)
        fprintf(f, ": load %.3f on %u slots", replay_plan_load(p, slots), slots);
    fputc('\n', f);
}

static void spread_row(struct text_table *t, const char *what, const struct spread *s, bool is_time)
{
    const int64_t v[] = {s->p50, s->p90, s->p99, (int64_t)(s->mean + 0.5), s->max};

    table_cell(t, "%s", what);
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        if (s->n == 0)
            table_cell(t, "-");
        else if (is_time)
            table_cell(t, "%s", DURATION(v[i]));
        else
            table_cell(t, "%.2f", (double)v[i] / 1000);
    }
}

static void print_times(const struct replay_report *report)
{
    struct text_table t = {0};

    table_columns(&t, "class", ">jobs", ">tasks", "", ">p50", ">p90", ">p99", ">mean", ">max", NULL);
    for (int k = 0; k < REPLAY_CLASSES; k++) {
        const struct replay_class *c = &report->classes[k];

        if (k != REPLAY_ALL && c->jobs == 0)
            continue;
        table_cell(&t, "%s", class_name(k));
        table_cell(&t, "%u", c->jobs);
        table_cell(&t, "%u", c->tasks);
        spread_row(&t, "response", &c->response_us, true);
        for (int i = 0; i < 3; i++)
            table_cell(&t, "%s", "");
        spread_row(&t, "queueing", &c->wait_us, true);
        for (int i = 0; i < 3; i++)
            table_cell(&t, "%s", "");
        spread_row(&t, "slowdown", &c->slowdown, false);
    }
    table_print(&t, NULL);
}

static void print_probes(const struct replay_report *report)
{
    struct text_table t = {0};

    table_columns(&t, "class", ">tasks stolen", ">probes sent", ">cancelled", ">unused", ">lost",
                  ">taken for the other class", NULL);
    for (int k = 0; k < REPLAY_CLASSES; k++) {
        const struct replay_class *c = &report->classes[k];

        if (k != REPLAY_ALL && c->jobs == 0)
            continue;
        table_cell(&t, "%s", class_name(k));
        table_cell(&t, "%u", c->stolen);
        table_cell(&t, "%" PRIu64, c->probes_sent);
        table_cell(&t, "%" PRIu64, c->probes_cancelled);
        table_cell(&t, "%" PRIu64, c->probes_unused);
        table_cell(&t, "%" PRIu64, c->probes_lost);
        table_cell(&t, "%u", c->mistaken);
    }
    table_print(&t, NULL);
}

static struct spread lateness(const struct replay_plan *p, const struct replay_result *r)
{
    int64_t *v = xmalloc(p->n * sizeof *v);
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (r->jobs[i].end != REPLAY_NOT_SUBMITTED)
            v[n++] = r->jobs[i].late_us;
    struct spread s = spread_of(v, n);
    free(v);
    return s;
}

static void print_losses(const struct replay_report *report, const struct replay_plan *p,
                         const struct replay_result *r)
{
    printf("jobs: %u submitted to %u dist%s, %u ended, %u refused, %u lost",
           p->n - r->ends[REPLAY_NOT_SUBMITTED], r->dists, PLURAL(r->dists), r->ends[REPLAY_ENDED],
           r->ends[REPLAY_REFUSED], r->ends[REPLAY_LOST]);
    if (r->ends[REPLAY_NOT_SUBMITTED])
        printf("; %u not submitted", r->ends[REPLAY_NOT_SUBMITTED]);
    printf("\ntasks: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled, %" PRIu64 " lost, %" PRIu64
           " unaccounted for; %" PRIu64 " tried again\n",
           report->tasks_done, report->tasks_failed, report->tasks_cancelled, report->tasks_lost,
           report->tasks_missing, report->tasks_retried);
    if (r->error[0])
        printf("first trouble: %s\n", r->error);
}

void replay_report_print(const struct replay_report *report, const struct replay_plan *p,
                         const struct replay_result *r)
{
    const uint64_t *c = report->counters;
    struct spread late = lateness(p, r);

    print_times(report);
    putchar('\n');
    print_probes(report);
    printf("\npolicy %s, cutoff %s, %.4g %% of slots reserved for short tasks\n", CLEAN(report->policy.name),
           DURATION(report->policy.cutoff_us), report->policy.short_share_ppm / 1e4);
    if (report->load > 0)
        printf("load offered %.3f; ", report->load);
    printf("%.1f %% of %u slots used over %s; submitted %s late at the 99th percentile\n",
           100 * report->utilization, report->slots, DURATION(r->elapsed_us), DURATION(late.p99));
    print_losses(report, p, r);
    printf("cluster: %" PRIu64 " tasks finished, %" PRIu64 " launched through stolen reservations; %" PRIu64
           " steal requests, %" PRIu64 " successful, %" PRIu64 " reservations stolen\n",
           c[COUNTER_tasks_finished], c[COUNTER_tasks_stolen], c[COUNTER_steal_requests],
           c[COUNTER_steal_successes], c[COUNTER_reservations_stolen]);
    if (!report->settled)
        printf(
            "the cluster's counters do not cover all of it: central did not hear from every node in time\n");
}

/* --- JSON ------------------------------------------------------------------------------------------ */

static json_t *times_json(const struct spread *s)
{
    json_t *j = json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "n", (int)s->n, "p50_us", (json_int_t)s->p50,
                          "p90_us", (json_int_t)s->p90, "p99_us", (json_int_t)s->p99, "mean_us",
                          (json_int_t)(s->mean + 0.5), "max_us", (json_int_t)s->max);
    CHECK(j != NULL);
    return j;
}

static json_t *ratios_json(const struct spread *s)
{
    json_t *j = json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "n", (int)s->n, "p50", (double)s->p50 / 1e3,
                          "p90", (double)s->p90 / 1e3, "p99", (double)s->p99 / 1e3, "mean", s->mean / 1e3,
                          "max", (double)s->max / 1e3);
    CHECK(j != NULL);
    return j;
}

static json_t *class_json(const struct replay_class *c)
{
    json_t *j =
        json_pack("{s:i, s:i, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:I}", "jobs", (int)c->jobs, "tasks",
                  (int)c->tasks, "response", times_json(&c->response_us), "queueing", times_json(&c->wait_us),
                  "slowdown", ratios_json(&c->slowdown), "tasks_stolen", (int)c->stolen,
                  "taken_for_other_class", (int)c->mistaken, "probes_sent", (json_int_t)c->probes_sent,
                  "probes_cancelled", (json_int_t)c->probes_cancelled, "probes_unused",
                  (json_int_t)c->probes_unused, "probes_lost", (json_int_t)c->probes_lost);
    CHECK(j != NULL);
    return j;
}

json_t *replay_plan_json(const struct replay_plan *p, uint32_t slots)
{
    json_t *j =
        json_pack("{s:i, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:f}", "jobs", (int)p->n, "tasks",
                  (json_int_t)p->tasks, "largest_job", (int)p->largest, "task_us", (json_int_t)p->task_us,
                  "uncapped_task_us", (json_int_t)p->uncapped_us, "tasks_capped", (json_int_t)p->tasks_capped,
                  "mean_gap_us", (json_int_t)p->mean_gap_us, "last_arrival_us",
                  (json_int_t)p->last_arrival_us, "slots", (int)slots, "load", replay_plan_load(p, slots));
    CHECK(j != NULL);
    if (p->classified) {
        json_object_set_new(j, "long_jobs", json_integer(p->long_jobs));
        json_object_set_new(j, "long_task_us", json_integer(p->long_task_us));
    }
    return j;
}

static json_t *jobs_json(const struct replay_result *r)
{
    json_t *j = json_pack("{s:i, s:i, s:i, s:i}", "ended", (int)r->ends[REPLAY_ENDED], "refused",
                          (int)r->ends[REPLAY_REFUSED], "lost", (int)r->ends[REPLAY_LOST], "not_submitted",
                          (int)r->ends[REPLAY_NOT_SUBMITTED]);
    CHECK(j != NULL);
    return j;
}

static json_t *tasks_json(const struct replay_report *report)
{
    json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "done", (json_int_t)report->tasks_done, "failed",
                          (json_int_t)report->tasks_failed, "cancelled", (json_int_t)report->tasks_cancelled,
                          "lost", (json_int_t)report->tasks_lost, "unaccounted",
                          (json_int_t)report->tasks_missing, "retried", (json_int_t)report->tasks_retried);
    CHECK(j != NULL);
    return j;
}

json_t *replay_report_json(const struct replay_report *report, const struct replay_plan *p,
                           const struct replay_result *r)
{
    json_t *classes = json_object(), *counters = json_object(), *j;
    struct spread late = lateness(p, r);

    for (int k = 0; k < REPLAY_CLASSES; k++)
        json_object_set_new(classes, class_name(k), class_json(&report->classes[k]));
    for (int i = 0; i < COUNTER_COUNT; i++)
        json_object_set_new(counters, counter_names[i], json_integer((json_int_t)report->counters[i]));
    j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:I, s:i, s:b, s:b}", "plan",
                  replay_plan_json(p, report->load_slots), "classes", classes, "jobs", jobs_json(r), "tasks",
                  tasks_json(report), "submitted_late", times_json(&late), "counters", counters,
                  "utilization", report->utilization, "elapsed_us", (json_int_t)r->elapsed_us, "dists",
                  (int)r->dists, "interrupted", r->interrupted != 0, "counters_settled",
                  (int)report->settled);
    CHECK(j != NULL);
    json_object_set_new(j, "policy",
                        json_pack("{s:o, s:I, s:f}", "name", json_text(report->policy.name), "cutoff_us",
                                  (json_int_t)report->policy.cutoff_us, "short_share",
                                  report->policy.short_share_ppm / 1e6));
    if (r->error[0])
        json_object_set_new(j, "first_trouble", json_text(r->error));
    return j;
}
