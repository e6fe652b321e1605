/* What becomes of a short job whose tasks outlive the cutoff (DESIGN 3.6; docs/protocol.md 7): the rest of it goes to
 * central; a job that is tagged short, or has a limit of running tasks, stays, and loses the reserve. */
#include "dist/internal.h"

/* ---- What the tasks of a job show ---- */

/* Total pause time of our running tasks. O(tasks that were paused). */
static int64_t stood_us(const struct dist *d, const struct dist_job *job)
{
    int64_t us = 0;

    for (uint32_t i = 0; i < job->pauses.n; i++) {
        const struct dist_task *t = &job->tasks[job->pauses.v[i].task];

        if (!t->central && t->state == TASK_RUNNING)
            us += owner_pause_us(&job->pauses.v[i], t->attempt, d->now_us);
    }
    return us;
}

/* As if no task of ours had stood still. */
static struct owner_shown shown_at_most(const struct dist *d, const struct dist_job *job)
{
    __int128 ages_us = (__int128)job->ages_n * (d->now_us - job->submit_us) - job->ages_us;

    return owner_shown(job->ok_us, job->ok_n, ages_us, job->ages_n);
}

int64_t dist_job_shown_us(const struct dist *d, const struct dist_job *job)
{
    struct owner_shown s = shown_at_most(d, job);

    s.us -= stood_us(d, job);
    return (int64_t)owner_shown_mean(s);
}

/* Whether that is at least us, which is above 0. Cheaper: most jobs show far less. */
static bool job_shows(const struct dist *d, const struct dist_job *job, int64_t us)
{
    struct owner_shown s = shown_at_most(d, job);

    if (!owner_shown_reaches(s, us))
        return false; /* most requests end here, and need not look at pauses */
    s.us -= stood_us(d, job);
    return owner_shown_reaches(s, us);
}

/* ---- What becomes of it ---- */

void dist_job_mark_promoted(struct dist *d, struct dist_job *job)
{
    dist_count(d, COUNTER_jobs_promoted, 1);
    dist_job_set_promoted(job);
}

/* The epoch under which central gets the promoted part of the job in this ownership. */
static uint16_t promoted_epoch(const struct dist_job *job) { return (uint16_t)(job->own_epoch + 1); }

/* Whether what the tasks show may change where the others go. While the job is held, or while workers are asked
 * what they still run of it, it may not: it would be probed for. What ends that looks again. */
static bool may_move(const struct dist_job *job)
{
    return !job->cancelling && job->hand == HAND_NONE && !dist_job_kept_back(job);
}

/* Whether the job may be promoted. A job that was handed over under the present ownership and came back
 * (central refused it) stays short. */
static bool may_promote(const struct dist_job *job)
{
    return may_move(job) && dist_job_promotable(job) && job->desc->tag == TAG_AUTO && !job->promoted &&
           job->blocked_n == 0 && job->epoch != promoted_epoch(job);
}

/* The user's tag is not overridden, nor does central take a job with a limit: it stays with its dist. But from now on
 * its reservations have class long, and go to the general partition alone. So what follows neither uses the reserve nor
 * pauses others. */
static void overstay(struct dist *d, struct dist_job *job)
{
    if (!may_move(job) || job->unlaunched == 0 || d->policy.cutoff_us <= 0 ||
        !job_shows(d, job, d->policy.cutoff_us))
        return;
    job->probe_long = job->overstays = true;
    dist_probe_forget(d, job);
    dist_probe_cancel_all(d, job);
    dist_job_touch(d, job);
}

void dist_handover_promote(struct dist *d, struct dist_job *job)
{
    if ((job->desc->tag == TAG_SHORT || dist_job_limited(job)) && dist_job_promotable(job)) {
        overstay(d, job);
        return;
    }
    if (!may_promote(job) || d->policy.cutoff_us <= 0 || !job_shows(d, job, d->policy.cutoff_us))
        return;
    if (job->unlaunched == 0) {
        dist_job_mark_promoted(d, job);
        return;
    }
    /* Without central the job goes on as it is. */
    if (!(job->policy_flags & POLICY_CENTRAL_LONG) || !d->joined)
        return;
    dist_probe_forget(d, job);
    dist_probe_cancel_all(d, job);
    dist_hand_over(d, job, promoted_epoch(job));
}

void dist_on_task_overrun(struct dist *d, const struct msg *m)
{
    const struct try_id *id = &m->task_overrun.id;
    struct dist_job *job = dist_task_own_job(d, id);
    struct try_id latest;
    enum task_state state;

    if (!job)
        return;
    latest = dist_task_try(job, id->task);
    state = job->tasks[id->task].state;
    if (!try_eq(&latest, id) || (state != TASK_LAUNCHED && state != TASK_RUNNING) ||
        job->tasks[id->task].worker != d->from->m.node.v)
        return;
    dist_task_started(d, job, id->task, m->task_overrun.run_us);
    dist_handover_promote(d, job);
}
