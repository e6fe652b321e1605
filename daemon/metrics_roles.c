/* See metrics_roles.h. Names and meanings: docs/reference/metrics.md. */
#include "daemon/metrics_roles.h"

#include "daemon/metrics.h"

static void one_gauge(FILE *page, const char *name, const char *help, double value)
{
    metrics_family(page, name, "gauge", help);
    metrics_gauge(page, name, "", value);
}

/* since_us TIME_NEVER: nothing is there. */
static double age_s(int64_t since_us, int64_t now_us)
{
    return since_us == TIME_NEVER || since_us > now_us ? 0 : (double)(now_us - since_us) / 1e6;
}

void metrics_of_workers(FILE *page, const struct worker *w, uint32_t n, int64_t now_us)
{
    uint64_t n_free = 0, n_short = 0, n_long = 0, paused = 0, failed = 0, reservations = 0, tasks = 0,
             out = 0;
    int64_t oldest_us = TIME_NEVER;

    for (uint32_t i = 0; i < n; i++) {
        struct worker_counts c;
        const struct blob *why;
        worker_counts(&w[i], &c);
        n_free += c.free;
        n_long += c.running_long;
        n_short += c.requested + c.running - c.running_long;
        paused += c.paused;
        reservations += c.reservations;
        tasks += c.queued_tasks;
        failed += worker_starts_failed(&w[i], &why);
        out += worker_out_of_service(&w[i], &why);
        if (worker_oldest_us(&w[i]) < oldest_us)
            oldest_us = worker_oldest_us(&w[i]);
    }
    metrics_family(page, "hawk_worker_slots", "gauge",
                   "Slots by the class of what they run or have asked for.");
    metrics_gauge(page, "hawk_worker_slots", "class=\"short\"", (double)n_short);
    metrics_gauge(page, "hawk_worker_slots", "class=\"long\"", (double)n_long);
    metrics_gauge(page, "hawk_worker_slots", "class=\"free\"", (double)n_free);
    one_gauge(page, "hawk_worker_paused", "Long tasks that stand still for short ones.", (double)paused);
    metrics_family(page, "hawk_worker_queue", "gauge",
                   "What waits in the queue: reservations, and tasks bound to here.");
    metrics_gauge(page, "hawk_worker_queue", "kind=\"reservation\"", (double)reservations);
    metrics_gauge(page, "hawk_worker_queue", "kind=\"task\"", (double)tasks);
    one_gauge(page, "hawk_worker_queue_age_seconds", "Age of the oldest entry of the queue.",
              age_s(oldest_us, now_us));
    metrics_family(page, "hawk_worker_starts_failed", "counter", "Tasks that could not be started here.");
    metrics_counter(page, "hawk_worker_starts_failed", "", (double)failed);
    one_gauge(page, "hawk_worker_out_of_service", "Whether the worker has taken itself out of service.",
              (double)out);
}

void metrics_of_dist(FILE *page, const struct dist *d, int64_t now_us)
{
    const struct dist_times *times = dist_times(d);
    int64_t oldest_us = dist_oldest_us(d, JOB_WAITING), pending_us = dist_oldest_us(d, JOB_PENDING);
    char labels[64];

    one_gauge(page, "hawk_dist_jobs", "Unfinished jobs.", dist_jobs_unfinished(d));
    metrics_family(page, "hawk_dist_tasks", "gauge", "Tasks of unfinished jobs by state.");
    for (int s = 0; s < TASK_STATE_COUNT; s++) {
        snprintf(labels, sizeof labels, "state=\"%s\"", task_state_text((enum task_state)s));
        metrics_gauge(page, "hawk_dist_tasks", labels, dist_tasks_in(d, (enum task_state)s));
    }
    one_gauge(page, "hawk_dist_queue_age_seconds", "Age of the oldest job of which no task has started.",
              age_s(pending_us < oldest_us ? pending_us : oldest_us, now_us));
    one_gauge(page, "hawk_dist_central_up", "Whether central can be reached.", dist_central_up(d));
    metrics_family(page, "hawk_job_response_seconds", "histogram",
                   "Jobs by their time from submission to the end; cancelled ones are left out.");
    for (int class = 0; class < CLASS_COUNT; class ++) {
        snprintf(labels, sizeof labels, "class=\"%s\"", class_text((enum job_class) class));
        metrics_histogram(page, "hawk_job_response_seconds", labels, &times->response[class], HISTOGRAM_TIME);
    }
    metrics_family(page, "hawk_job_slowdown", "histogram",
                   "Jobs that are done by that time over the run time of their longest task.");
    for (int class = 0; class < CLASS_COUNT; class ++) {
        snprintf(labels, sizeof labels, "class=\"%s\"", class_text((enum job_class) class));
        metrics_histogram(page, "hawk_job_slowdown", labels, &times->slowdown[class], HISTOGRAM_RATIO);
    }
}

static void central_slots(FILE *page, const struct central_summary *s)
{
    one_gauge(page, "hawk_central_slots", "Slots of workers that take work.", (double)s->slots);
    metrics_family(page, "hawk_central_workers", "gauge", "Workers that take work, by partition.");
    metrics_gauge(page, "hawk_central_workers", "partition=\"general\"", s->workers - s->workers_reserved);
    metrics_gauge(page, "hawk_central_workers", "partition=\"short\"", s->workers_reserved);
    one_gauge(page, "hawk_central_cutoff_seconds", "The cutoff in force.", (double)s->cutoff_us / 1e6);
}

void metrics_of_central(FILE *page, const struct central *c, int64_t now_us)
{
    struct central_summary s;
    struct central_queue q;
    struct central_totals t;

    one_gauge(page, "hawk_central_active", "Whether this central is the active one.", c != NULL);
    if (!c)
        return;
    central_view_summary(c, &s);
    central_view_queue(c, &q);
    central_view_totals(c, &t);
    central_slots(page, &s);
    one_gauge(page, "hawk_central_dists", "Dists that are up.", q.dists);
    one_gauge(page, "hawk_central_suspect", "Nodes that are silent.", q.suspect);
    one_gauge(page, "hawk_central_out_of_service", "Workers that have taken themselves out of service.",
              q.out);
    one_gauge(page, "hawk_central_long_jobs", "Unfinished long jobs.", t.long_jobs);
    metrics_family(page, "hawk_central_long_tasks", "gauge", "Unfinished long tasks by state.");
    metrics_gauge(page, "hawk_central_long_tasks", "state=\"waiting\"", (double)q.tasks_waiting);
    metrics_gauge(page, "hawk_central_long_tasks", "state=\"placed\"", (double)q.tasks_placed);
    metrics_gauge(page, "hawk_central_long_tasks", "state=\"running\"", (double)q.tasks_running);
    one_gauge(page, "hawk_central_queue_age_seconds", "Age of the oldest long job with a task that waits.",
              age_s(q.oldest_us, now_us));
}

void metrics_of_journal(FILE *page, const struct journal *j)
{
    one_gauge(page, "hawk_journal_failing", "Whether the journal cannot be written.", journal_failing(j));
}

void metrics_of_counters(FILE *page, const uint64_t *counters)
{
    static const char *const help[COUNTER_COUNT] = {
#define X(name, text) text,
        COUNTERS(X)
#undef X
    };

    for (int i = 0; i < COUNTER_COUNT; i++) {
        bool time = i == COUNTER_paused_ms; /* OpenMetrics has seconds */
        char name[64];
        snprintf(name, sizeof name, "hawk_%s", time ? "paused_seconds" : counter_names[i]);
        metrics_family(page, name, "counter", time ? "how long long tasks stood still" : help[i]);
        metrics_counter(page, name, "", time ? (double)counters[i] / 1e3 : (double)counters[i]);
    }
}
