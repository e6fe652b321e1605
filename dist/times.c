/* How jobs fared, and how long ended ones are kept. */
#include "base/check.h"
#include "dist/internal.h"

int64_t dist_jobs_next_forgotten(const struct dist *d)
{
    if (!d->cfg.finished_keep_us || list_empty(&d->finished))
        return TIME_NEVER;
    return container_of(d->finished.next, struct dist_job, in_state)->end_us + d->cfg.finished_keep_us;
}

void dist_jobs_trim(struct dist *d)
{
    /* The job that ended last stays, however large: its client is about to ask for it. */
    while ((d->jobs_finished > 1 &&
            (d->jobs_finished > d->cfg.finished_kept || d->tasks_finished > d->cfg.finished_tasks_kept ||
             d->bytes_finished > d->cfg.finished_bytes_kept)) ||
           dist_jobs_next_forgotten(d) <= d->now_us) {
        struct dist_job *job = container_of(d->finished.next, struct dist_job, in_state);

        CHECK(!list_empty(&d->finished));
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
