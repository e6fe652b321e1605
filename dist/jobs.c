/* The life of a job: submission, the moves between its states, its end. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>

#define CONFIRM_US (5 * US_PER_S)

/* ---- The table ---- */

static unsigned hash_of(job_id_t id) { return (unsigned)hash_mix(id.v); }

struct dist_job *dist_job_find(const struct dist *d, job_id_t id)
{
    struct dist_job *job;

    HASH_FIND_BYHASHVALUE(hh, d->by_id, &id, sizeof id, hash_of(id), job);
    return job;
}

void dist_job_take_policy(const struct dist *d, struct dist_job *job)
{
    job->cutoff_us = d->policy.cutoff_us;
    job->policy_flags = d->policy.flags & POLICY_JOB_FLAGS;
    job->ratio_milli = d->policy.probe_ratio_milli;
    job->min_probes = d->policy.min_probes;
}

struct dist_job *dist_job_new(struct dist *d, struct job_desc *desc, job_id_t id, uint64_t key)
{
    /* Zeros are waiting tasks: the pages of a large job stay untouched until they are needed. */
    struct dist_job *job = xcalloc(1, sizeof *job + (size_t)desc->tasks * sizeof *job->tasks);

    job->id = id;
    job->first_epoch = job->own_epoch = EPOCH_FIRST;
    job->desc = job_desc_ref(desc);
    list_init(&job->in_state);
    list_init(&job->in_ended);
    list_init(&job->in_all);
    list_init(&job->in_wait);
    list_init(&job->in_touched);
    list_init(&job->in_central);
    list_init(&job->in_unattended);
    list_init(&job->successors);
    list_init(&job->task_successors);
    list_init(&job->places);
    job->submit_us = job->progress_us = job->sure_us = d->now_us;
    job->first_wait_us = -1;
    dist_job_take_policy(d, job);
    job->life = d->cfg.life;
    job->user = job_desc_user(desc);
    job->returned = job->delayed = job->blocked = TASK_NIL;
    job->unlaunched = desc->tasks;
    job->in[TASK_WAITING] = desc->tasks;
    job->state = JOB_WAITING;
    dist_job_join_app(d, job);
    dist_job_join_user(d, job);
    HASH_ADD_BYHASHVALUE(hh, d->by_id, id, sizeof job->id, hash_of(id), job);
    job->key = key;
    if (key)
        HASH_ADD(hh_key, d->by_key, key, sizeof job->key, job);
    list_push_tail(&d->jobs[JOB_WAITING], &job->in_state);
    d->jobs_unfinished++;
    d->tasks_unfinished += desc->tasks;
    dist_user_add(d, desc);
    d->bytes_unfinished += job_desc_bytes(desc);
    d->tasks_in[TASK_WAITING] += desc->tasks;
    return job;
}

void dist_job_free(struct dist *d, struct dist_job *job)
{
    dist_tasks_undelay(d, job);
    /* NOLINTBEGIN(clang-analyzer-core.NullDereference): inside uthash */
    HASH_DELETE(hh, d->by_id, job);
    if (job->key)
        HASH_DELETE(hh_key, d->by_key, job);
    /* NOLINTEND(clang-analyzer-core.NullDereference) */
    list_remove(&job->in_state);
    list_remove(&job->in_ended);
    list_remove(&job->in_all);
    list_remove(&job->in_wait);
    list_remove(&job->in_touched);
    list_remove(&job->in_central);
    list_remove(&job->in_unattended);
    dist_after_free(job);
    dist_unwanted_drop(job);
    owner_messages_free(&job->messages);
    owner_pauses_free(&job->pauses);
    dist_job_leave_app(d, job);
    dist_job_leave_user(d, job);
    dist_job_free_results(job);
    free(job->starts.v);
    free(job->failures);
    job_desc_drop(job->desc);
    free(job);
}

/* The job is not unfinished any more. */
static void count_out(struct dist *d, const struct dist_job *job)
{
    d->jobs_unfinished--;
    d->tasks_unfinished -= job->desc->tasks;
    dist_user_remove(d, job);
    d->bytes_unfinished -= dist_job_bytes(job);
    for (int i = 0; i < TASK_STATE_COUNT; i++)
        d->tasks_in[i] -= job->in[i];
}

void dist_job_finished_out(struct dist *d, struct dist_job *job)
{
    d->jobs_finished--;
    d->tasks_finished -= job->desc->tasks;
    d->bytes_finished -= dist_job_bytes(job);
    dist_user_forgets(d, job);
}

/* ---- States ---- */

static void job_event(struct dist *d, const struct dist_job *job)
{
    struct msg_job_event *e = &out_add(d->out, MSG_JOB_EVENT, 0)->job_event;

    e->job = job->id;
    e->done = job->in[TASK_DONE];
    e->failed = job->in[TASK_FAILED] + job->in[TASK_LOST];
    e->state = job->state;
}

void dist_job_set_state(struct dist *d, struct dist_job *job, enum job_state to)
{
    static const uint32_t moves[JOB_STATE_COUNT] = {
        [JOB_PENDING] = 1 << JOB_WAITING | 1 << JOB_HELD | JOB_STATES_FINAL,
        [JOB_WAITING] =
            1 << JOB_PENDING | 1 << JOB_RUNNING | 1 << JOB_BLOCKED | 1 << JOB_HELD | JOB_STATES_FINAL,
        [JOB_RUNNING] = JOB_STATES_FINAL,
        [JOB_BLOCKED] =
            1 << JOB_PENDING | 1 << JOB_WAITING | 1 << JOB_RUNNING | 1 << JOB_HELD | JOB_STATES_FINAL,
        [JOB_HELD] =
            1 << JOB_PENDING | 1 << JOB_WAITING | 1 << JOB_RUNNING | 1 << JOB_BLOCKED | JOB_STATES_FINAL,
    };

    CHECK(moves[job->state] >> to & 1);
    job->state = (uint8_t)to;
    list_remove(&job->in_state);
    list_push_tail(job_state_final(to) ? &d->finished : &d->jobs[to], &job->in_state);
    if (job->watchers > 0 || job_state_final(to))
        job_event(d, job);
}

static void put_submitted(struct dist *d, const struct dist_job *job, int err)
{
    struct msg_submitted *m = &out_add(d->out, MSG_SUBMITTED, 0)->submitted;

    m->job = err ? JOB_NONE : job->id;
    m->client = job->client;
    m->err = err;
    m->class = job->class;
    m->why = job->why;
}

void dist_job_timer_stop(struct dist *d, struct dist_job *job)
{
    if (heap_in(&job->timer))
        heap_remove(&d->timers, &job->timer);
}

void dist_job_timer_start(struct dist *d, struct dist_job *job, enum job_timer what, int64_t at_us)
{
    job->timer_for = (uint8_t)what;
    heap_set(&d->timers, &job->timer, at_us, job->id.v);
}

/* Tells the client that the job is accepted; once. */
static void accept_job(struct dist *d, struct dist_job *job)
{
    if (job->submitted)
        return;
    dist_job_timer_stop(d, job);
    job->submitted = true;
    list_push_tail(&d->accepted, &job->in_all);
    dist_count(d, COUNTER_jobs_accepted, 1);
    dist_count(d, job->class == CLASS_SHORT ? COUNTER_jobs_short : COUNTER_jobs_long, 1);
    put_submitted(d, job, 0);
}

void dist_job_reject(struct dist *d, struct dist_job *job, int err)
{
    CHECK(!job->submitted);
    CHECK(list_empty(&job->places));
    if (job->journalled && !job->journalling) {
        dist_journal_job_end(d, job); /* otherwise its record would bring it back */
        dist_journal_refused(d, job, err);
    } else {
        put_submitted(d, job, err);
        dist_journal_job_end(d, job);
    }
    dist_job_timer_stop(d, job);
    count_out(d, job);
    dist_job_free(d, job);
}

/* ---- Clients that watch their jobs, and clients that are gone (docs/protocol.md 9) ---- */

/* Whether it was submitted in a task. Then its client stands still while that task is paused, and may be long. */
static bool is_nested(const struct dist_job *job) { return job->desc->ancestors.n > 0; }

/* Nobody watches the job: the grace time begins. */
static void unattended(struct dist *d, struct dist_job *job)
{
    if ((job->desc->flags & JOB_DETACHED) || d->cfg.client_grace_us == 0 || job_state_final(job->state))
        return;
    job->unattended_us = d->now_us;
    list_remove(&job->in_unattended);
    list_push_tail(&d->unattended[is_nested(job)], &job->in_unattended);
}

static void watched(struct dist_job *job)
{
    job->watchers++;
    list_remove(&job->in_unattended);
}

/* A new job: it has a watcher from the start, or the grace time begins. */
static void attend(struct dist *d, struct dist_job *job, const struct msg_submit *m)
{
    job->watchers += m->watch;
    if (job->watchers == 0)
        unattended(d, job);
}

static int64_t next_abandoned(const struct dist *d, bool nested)
{
    const struct list *l = &d->unattended[nested];
    int64_t least_us = d->cfg.client_grace_us, us = nested ? d->cfg.nested_grace_us : 0;

    if (list_empty(l))
        return TIME_NEVER;
    return container_of(l->next, struct dist_job, in_unattended)->unattended_us +
           (us > least_us ? us : least_us);
}

int64_t dist_jobs_next_abandoned(const struct dist *d)
{
    return earlier(next_abandoned(d, false), next_abandoned(d, true));
}

/* Whether it is too early to cancel a job without a client. Central has tasks of it, and the client may have
 * moved the job to another dist. If central was away from this dist, it may have been away from the other
 * one, too. So this dist waits client_grace after its JOINED: the other dist tells central first that it owns
 * the job now. */
static bool too_early(const struct dist *d, const struct dist_job *job)
{
    return dist_handover_may_have(job) && (!d->joined || d->now_us - d->joined_us < d->cfg.client_grace_us);
}

/* Cancels jobs whose clients are gone, or have moved them to other dists. */
void dist_jobs_abandon(struct dist *d)
{
    for (int nested = 0; nested <= 1;) {
        struct dist_job *job;

        if (next_abandoned(d, nested) > d->now_us) {
            nested++;
            continue;
        }
        job = container_of(d->unattended[nested].next, struct dist_job, in_unattended);
        if (too_early(d, job)) {
            unattended(d, job);
            continue;
        }
        list_remove(&job->in_unattended);
        job->by_client = job->abandoned = true;
        if (!job->cancelling)
            dist_job_cancel_rest(d, job);
    }
}

/* ---- Submission (docs/protocol.md 3.1-3.3, 4.1) ---- */

static int submit_error(const struct dist *d, const struct job_desc *desc)
{
    char why[128];

    if (d->stopping)
        return HAWK_ESHUTDOWN;
    if (d->drained)
        return HAWK_EDRAINING;
    if (!d->ever_joined)
        return HAWK_ENOT_REGISTERED;
    if (d->jobs_unfinished >= d->cfg.jobs_unfinished_max)
        return HAWK_ELIMIT;
    if (desc->tasks > d->cfg.tasks_unfinished_max ||
        d->tasks_unfinished > d->cfg.tasks_unfinished_max - desc->tasks)
        return HAWK_ELIMIT;
    if (d->bytes_unfinished + job_desc_bytes(desc) > d->cfg.unfinished_bytes_max)
        return HAWK_ELIMIT;
    return job_desc_check(desc, why, sizeof why);
}

void dist_submit_refused(struct dist *d, uint32_t client, int err)
{
    struct msg_submitted *r = &out_add(d->out, MSG_SUBMITTED, 0)->submitted;

    r->client = client;
    r->err = err;
}

/* A client whose answer was lost asks again: it gets the job that it has. */
static void answer_again_for(struct dist *d, struct dist_job *job, const struct msg_submit *m)
{
    if (!job->submitted) /* the client does not listen for the first answer any more */
        put_submitted(d, job, HAWK_ECANCELLED);
    job->client = m->client;
    if (m->watch)
        watched(job);
    if (job->submitted)
        put_submitted(d, job, 0);
}

static void set_class(struct dist *d, struct dist_job *job)
{
    enum class_why why;

    job->class =
        (uint8_t)classify(&d->policy, job->desc->tag, job->desc->estimate_us,
                          estimates_get(&d->estimates, job->user, job->desc->name), &why, &job->estimate_us);
    job->why = (uint8_t)why;
}

/* ---- A job that its client moves here (docs/protocol.md 9) ---- */

/* The job is here from an owner before the last: forgets it without a word to clients, and stops its tasks.
 * Central's part stays, for the new owner. */
static void supersede(struct dist *d, struct dist_job *job)
{
    if (job_state_final(job->state)) {
        dist_job_finished_out(d, job);
        dist_job_free(d, job);
        return;
    }
    job->watchers = 0;
    dist_after_gone(d, job);
    dist_probe_forget(d, job);
    dist_job_timer_stop(d, job);
    dist_probe_cancel_all(d, job);
    while (!list_empty(&job->places)) { /* a place goes with its last task */
        const struct dist_place *p = container_of(job->places.next, struct dist_place, in_job);

        (void)dist_task_stop(d, job, p->launched);
        dist_task_end_unrun(d, job, p->launched, OUTCOME_CANCELLED, 0);
    }
    count_out(d, job);
    dist_job_free(d, job);
}

/* Launches the tasks that central does not have; those that must not run twice may be in doubt. */
static void place_moved_job(struct dist *d, struct dist_job *job, const struct resubmit *r)
{
    bool whole = job->class == CLASS_LONG && job->why != WHY_PROMOTED; /* central has all of it, or nothing */
    bool central = whole && dist_job_centrals(job);
    /* The job may have begun under another policy: central may have it, or a part. */
    bool ask =
        d->joined && (r->long_epoch || job->why == WHY_PROMOTED || whole || job->desc->tag == TAG_AUTO);

    if (job->unlaunched == 0) {
        ; /* it only has to end */
    } else if (central && (job->desc->flags & JOB_AT_MOST_ONCE)) {
        dist_handover_claim(d, job, EPOCH_FIRST);
    } else if (central && (!job->held || dist_handover_may_hold(d))) {
        dist_job_set_state(d, job, job->held ? JOB_HELD : JOB_PENDING);
        job->offers = 1; /* by another dist, and perhaps with fewer tasks */
        dist_hand_over(d, job, EPOCH_FIRST);
    } else if (ask || central || r->long_epoch) {
        job->probe_long = whole; /* for tasks that come back */
        dist_handover_ask(d, job,
                          r->long_epoch ? r->long_epoch
                          : whole       ? EPOCH_FIRST
                                        : (uint16_t)(job->own_epoch - 1));
    } else {
        job->probe_long = whole;
    }
    accept_job(d, job);
    if (job->hand == HAND_NONE)
        dist_tasks_doubt(d, job);
    if (job->hand == HAND_NONE && !job->held)
        dist_probe_first(d, job);
    dist_job_touch(d, job);
}

static void take_moved_job(struct dist *d, const struct msg *m)
{
    const struct resubmit *r = m->submit.resubmit;
    struct dist_job *job = dist_job_find(d, r->job);
    uint32_t watchers = 0;
    int err;

    /* hawk.proto: a detached job stays with its dist. */
    if (job && (job->desc->flags & JOB_DETACHED)) {
        dist_submit_refused(d, m->submit.client, HAWK_EINVALID);
        return;
    }
    /* A job's id is no secret, its key is: a client with another key did not submit this job. Nor did another user. */
    if (job && (job->key != m->submit.key || !blob_eq(job->desc->user, m->submit.desc->user))) {
        dist_submit_refused(d, m->submit.client, HAWK_EDENIED);
        return;
    }
    if (job && job->own_epoch >= r->epoch) {
        answer_again_for(d, job, &m->submit);
        return;
    }
    /* Watchers count on its number of tasks. */
    if (job && job->desc->tasks != m->submit.desc->tasks)
        err = HAWK_EINVALID;
    else
        err = submit_error(d, m->submit.desc);
    if (err) {
        dist_submit_refused(d, m->submit.client, err);
        return;
    }
    if (job) {
        watchers = job->watchers;
        supersede(d, job);
    }
    job = dist_job_new(d, m->submit.desc, r->job, m->submit.key);
    job->client = m->submit.client;
    job->first_epoch = job->own_epoch = r->epoch;
    dist_job_begun_before(job);
    job->watchers = watchers;
    job->submit_us = r->age_us < d->now_us ? d->now_us - r->age_us : 0;
    set_class(d, job);
    job->class = r->class;
    job->why = r->why;
    job->promoted = r->why == WHY_PROMOTED;
    job->held = job->hold_known = r->held;
    dist_tasks_restore(d, job, r);
    attend(d, job, &m->submit);
    dist_count(d, COUNTER_jobs_moved, 1);
    place_moved_job(d, job, r);
    if (job->state == JOB_WAITING && job->first_wait_us >= 0 && dist_job_unfinished_tasks(job) > 0)
        dist_job_set_state(d, job, JOB_RUNNING);
}

/* Why no new job of that description is accepted, or 0. */
static int new_job_error(struct dist *d, const struct job_desc *desc)
{
    int err = submit_error(d, desc);

    if (!err && dist_after_missing(d, desc))
        err = HAWK_ENOT_FOUND;
    if (!err)
        err = dist_numbers_error(d);
    if (!err && dist_nobody_serves(d, desc))
        err = HAWK_EWRONG_USER;
    return err;
}

void dist_on_submit(struct dist *d, const struct msg *m)
{
    struct job_desc *desc = m->submit.desc;
    const struct resubmit *again =
        m->submit.resubmit; /* without a job: a new job, with tasks that have ended */
    bool journal = (desc->flags & JOB_DETACHED) && d->cfg.journal;
    struct dist_job *job;
    bool is_long, kept;
    int err;

    if (again && !job_eq(again->job, JOB_NONE)) {
        take_moved_job(d, m);
        return;
    }
    HASH_FIND(hh_key, d->by_key, &m->submit.key, sizeof m->submit.key, job);
    if (job && !blob_eq(job->desc->user, desc->user)) {
        dist_submit_refused(d, m->submit.client, HAWK_EDENIED);
        return;
    }
    if (job) {
        answer_again_for(d, job, &m->submit);
        return;
    }
    err = new_job_error(d, desc);
    if (err) {
        dist_submit_refused(d, m->submit.client, err);
        return;
    }
    job = dist_job_new(d, desc, dist_numbers_next(d), m->submit.key);
    job->client = m->submit.client;
    set_class(d, job);
    attend(d, job, &m->submit);
    if (again)
        dist_tasks_restore(d, job, again);
    dist_after_link(d, job);
    dist_job_touch(d, job);
    job->held = (desc->flags & JOB_SUBMIT_HELD) != 0;
    kept = job->after || job->held;
    is_long = dist_job_centrals(job) && !kept && job->unlaunched > 0;
    job->journalling = journal;
    job->probe_long = job->class == CLASS_LONG && !is_long;
    if (kept)
        dist_job_keep(d, job);
    if (is_long) {
        dist_job_set_state(d, job, JOB_PENDING);
        dist_hand_over(d, job, EPOCH_FIRST);
    }
    if (journal)
        dist_journal_job(d, job);
    for (uint32_t i = 0; again && i < again->n; i++)
        dist_journal_task(d, job, again->v[i].task);
    if (!(desc->flags & JOB_DETACHED))
        accept_job(d, job);
    else
        dist_job_try_accept(d, job);
    if (!is_long && job->submitted && !kept)
        dist_probe_first(d, job);
}

/* A detached job's client gets its answer only after the journal has the job, and, if central can be asked,
 * after central has a long job: it may still refuse it. A silent central has CONFIRM_US. */
void dist_job_try_accept(struct dist *d, struct dist_job *job)
{
    int64_t until_us = job->submit_us + CONFIRM_US;

    if (job->submitted || job->journalling)
        return;
    if (!dist_handover_pending(job) || !d->joined || d->leaving || d->now_us >= until_us) {
        accept_job(d, job);
        return;
    }
    dist_job_timer_start(d, job, TIMER_ACCEPT, until_us);
}

void dist_jobs_accept_durable(struct dist *d)
{
    for (unsigned state = 0; state < JOB_STATE_COUNT; state++)
        list_foreach(&d->jobs[state], node, nxt) {
            struct dist_job *job = container_of(node, struct dist_job, in_state);

            if (job->journalled && !job->journalling)
                accept_job(d, job);
        }
}

void dist_job_journalled(struct dist *d, struct dist_job *job, int err)
{
    if (err) {
        dist_job_reject(d, job, err);
        return;
    }
    job->journalling = false;
    if (dist_handover_pending(job))
        dist_handover_offer(d, job);
    dist_job_try_accept(d, job);
    dist_job_touch(d, job);
    if (job->submitted && job->hand == HAND_NONE && job->probes_sent == 0 && job->unlaunched > 0 &&
        !dist_job_kept_back(job))
        dist_probe_first(d, job);
}

/* ---- Watching (docs/protocol.md 3.12) ---- */

void dist_on_watch(struct dist *d, const struct msg *m)
{
    struct dist_job *job = dist_job_find(d, m->watch.job);

    if (!job)
        return;
    if (m->watch.on) {
        watched(job);
        if (m->watch.epoch && m->watch.key == job->key)
            dist_handover_stay(d, job, m->watch.epoch);
        dist_handover_offer_waiting(d, job);
    } else if (job->watchers > 0 && --job->watchers == 0) {
        unattended(d, job);
    }
}

/* ---- The end (docs/protocol.md 3.11) ---- */

void dist_job_close(struct dist *d, struct dist_job *job, int64_t end_us)
{
    dist_probe_forget(d, job);
    dist_job_timer_stop(d, job);
    dist_places_drop(d, job);
    list_remove(&job->in_central);
    list_remove(&job->in_unattended);
    dist_after_close(job);
    dist_unwanted_drop(job);
    count_out(d, job);
    if (!job_may_run_again(owner_job_end_state(job->in, job->by_client), job->by_client))
        job_desc_forget_env(&job->desc);
    d->jobs_finished++;
    d->tasks_finished += job->desc->tasks;
    d->bytes_finished += dist_job_bytes(job);
    job->end_us = end_us;
    dist_user_ended(d, job);
}

/* Most steps settle jobs that go on. */
HAWK_RARE static void job_end(struct dist *d, struct dist_job *job)
{
    dist_count(d, COUNTER_jobs_finished, 1);
    accept_job(d, job);
    dist_job_report(d, job);
    dist_job_close(d, job, d->now_us);
    dist_job_set_state(d, job, owner_job_end_state(job->in, job->by_client));
    dist_times_note(d, job);
    dist_journal_ended(d, job);
    dist_after_ended(d, job);
}

static void settle_job(struct dist *d, struct dist_job *job)
{
    if (job_state_final(job->state))
        return;
    dist_unwanted_settle(d, job);
    dist_after_settle(d, job);
    if (!job->cancelling && owner_failed_too_often(job->desc, job->in))
        dist_job_cancel_rest(d, job);
    dist_unwanted_settle(d, job); /* what has ended since */
    if (job->submitted)
        dist_probe_settle(d, job);
    if (dist_job_unfinished_tasks(job) == 0)
        job_end(d, job);
}

void dist_jobs_settle(struct dist *d)
{
    struct list *touched = &d->touched;

    while (!list_empty(touched)) {
        struct dist_job *job = container_of(touched->next, struct dist_job, in_touched);

        settle_job(d, job);
        list_remove(&job->in_touched); /* changes made by settling are seen already */
    }
}
