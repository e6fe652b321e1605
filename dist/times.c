/* How jobs fared, and how long ended ones are kept. */
#include "base/check.h"
#include "base/mem.h"
#include "dist/internal.h"

int64_t dist_jobs_next_forgotten(const struct dist *d)
{
    if (!d->cfg.finished_keep_us || list_empty(&d->finished))
        return TIME_NEVER;
    return container_of(d->finished.next, struct dist_job, in_state)->end_us + d->cfg.finished_keep_us;
}

void dist_jobs_trim(struct dist *d)
{
    struct dist_job *job;

    while ((job = dist_jobs_next_forgotten(d) <= d->now_us
                      ? container_of(d->finished.next, struct dist_job, in_state)
                      : dist_users_excess(d))) {
        dist_journal_job_end(d, job);
        dist_job_finished_out(d, job);
        dist_job_free(d, job);
    }
}

void dist_times_note(struct dist *d, const struct dist_job *job)
{
    int64_t response_us = job->end_us - job->submit_us;

    if (job->state == JOB_CANCELLED)
        return;
    histogram_add(&d->times.response[job->class], HISTOGRAM_TIME, response_us);
    if (job->state == JOB_DONE && job->longest_us > 0)
        histogram_add(&d->times.slowdown[job->class], HISTOGRAM_RATIO,
                      (int64_t)((__int128)response_us * 1000 / job->longest_us));
}

/* ---- Reports to history ---- */

static void report_put(struct dist *d, struct dist_report *r)
{
    struct msg_job_report *m = &out_add(d->out, MSG_JOB_REPORT, NODE_CENTRAL.v)->job_report;

    m->name = r->name;
    m->mean_us = r->mean_us;
    m->task_us = r->task_us;
    m->tasks = r->tasks;
    m->class = r->class;
    m->user = r->user;
}

void dist_reports_send(struct dist *d)
{
    for (uint32_t i = 0; i < d->reports_n; i++)
        report_put(d, &d->reports[i]);
    d->reports_n = 0;
}

void dist_job_report(struct dist *d, const struct dist_job *job)
{
    struct dist_report r;

    if (job->ok_n == 0)
        return;
    if (job->hand != HAND_NONE && !job->handed_part)
        return;
    r = (struct dist_report){.name = blob_ref(job->desc->name),
                             .mean_us = (int64_t)(job->ok_us / job->ok_n),
                             .task_us = job->ok_us > INT64_MAX ? INT64_MAX : (uint64_t)job->ok_us,
                             .tasks = job->ok_n,
                             .class = job->class,
                             .user = job->user};
    if (d->joined) {
        report_put(d, &r);
        return;
    }
    /* History is a sample: reports that do not fit while central is away are dropped. */
    if (d->reports_n == REPORTS_MAX) {
        blob_drop(r.name);
        return;
    }
    vec_grow(d->reports, d->reports_n, d->reports_cap);
    d->reports[d->reports_n++] = r;
}
