/* Jobs that wait for their predecessors, and jobs that are held (docs/protocol.md 14).
 *
 * A job that waits as a whole has wait = KEPT, and costs nothing. Where tasks wait for tasks, each of them is in
 * dist_job.blocked, and `awaits` is the number of predecessors' tasks that it still waits for, or TASK_DOOMED. It is
 * not among the `unlaunched`. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

#define TASK_DOOMED UINT32_MAX /* a predecessor's task ended otherwise: the task is to be cancelled */

/* ---- Predecessors ---- */

static struct dist_job *predecessor(const struct dist *d, const struct job_desc *desc, const struct after *a)
{
    struct dist_job *pred = dist_job_find(d, a->job);

    return pred && pred->submitted && blob_eq(pred->desc->user, desc->user) ? pred : NULL;
}

const struct after *dist_after_missing(const struct dist *d, const struct job_desc *desc)
{
    for (uint32_t i = 0; i < desc->after.n; i++)
        if (!predecessor(d, desc, &desc->after.v[i]))
            return &desc->after.v[i];
    return NULL;
}

static bool task_holds(enum after_when when, enum task_state state)
{
    return when == AFTER_ANY ||
           (when == AFTER_OK ? state == TASK_DONE : state == TASK_FAILED || state == TASK_LOST);
}

static bool job_holds(enum after_when when, enum job_state state)
{
    return when == AFTER_ANY || state == (when == AFTER_OK ? JOB_DONE : JOB_FAILED);
}

static bool by_task(const struct job_desc *desc, const struct job_desc *pred)
{
    return desc->tasks > 1 && desc->tasks == pred->tasks && !(desc->flags & JOB_AFTER_WHOLE);
}

/* ---- Tasks that wait for tasks ---- */

bool dist_task_blocked(const struct dist_task *t) { return t->state == TASK_WAITING && t->awaits > 0; }

void dist_task_unblock(struct dist *d, struct dist_job *job, uint32_t i)
{
    dist_task_move(job, &job->blocked, &job->returned, i);
    job->tasks[i].awaits = 0;
    job->unlaunched++;
    job->blocked_n--;
    dist_job_touch(d, job);
}

void dist_tasks_unblock(struct dist *d, struct dist_job *job)
{
    while (job->blocked != TASK_NIL)
        dist_task_unblock(d, job, job->blocked);
}

/* Every task that waits here now waits for tasks of so many predecessors. */
static void block_all(struct dist_job *job, uint32_t predecessors)
{
    for (uint32_t i = job->desc->tasks; i-- > 0;) {
        struct dist_task *t = &job->tasks[i];

        if (t->state != TASK_WAITING || t->central || dist_task_delayed(t))
            continue;
        dist_task_reach(job, i);
        dist_task_move(job, &job->returned, &job->blocked, i);
        t->awaits = predecessors;
        job->unlaunched--;
        job->blocked_n++;
    }
}

static void say_cause(struct dist_job *job, job_id_t pred)
{
    if (!job_eq(job->cause, JOB_NONE))
        return;
    job->cause = pred;
    job->waits_news = true;
}

/* The task i of a predecessor has ended: task i of the job waits for one less, or never starts. */
static void decide(struct dist *d, const struct dist_after *a, uint32_t i, enum task_state state)
{
    struct dist_job *job = a->job;
    struct dist_task *t = &job->tasks[i];

    if (!dist_task_blocked(t) || t->awaits == TASK_DOOMED)
        return;
    if (!task_holds(a->when, state)) {
        t->awaits = TASK_DOOMED;
        dist_task_move(job, &job->blocked, &job->blocked, i); /* these are first in the list */
        say_cause(job, job->desc->after.v[a->place].job);
        dist_job_touch(d, job);
    } else if (t->awaits == 1) {
        dist_task_unblock(d, job, i);
    } else {
        t->awaits--;
    }
}

void dist_after_task(struct dist *d, struct dist_job *pred, uint32_t i)
{
    list_foreach(&pred->task_successors, node, nxt)
        decide(d, container_of(node, struct dist_after, in_pred), i, pred->tasks[i].state);
}

/* ---- Linking ---- */

static void met(struct dist_job *job, uint32_t place)
{
    job->after_met |= 1u << place;
    job->waits_news = true;
}

static void doom(struct dist *d, struct dist_job *job, job_id_t pred)
{
    job->doomed = true;
    say_cause(job, pred);
    dist_job_touch(d, job);
}

static void link_after(struct dist *d, struct dist_after *a, struct dist_job *pred)
{
    struct dist_job *job = a->job;

    for (uint32_t i = 0; a->each && i < job->desc->tasks; i++)
        if (task_state_final(pred->tasks[i].state))
            decide(d, a, i, pred->tasks[i].state);
    if (!job_state_final(pred->state)) {
        list_push_tail(a->each ? &pred->task_successors : &pred->successors, &a->in_pred);
        job->gates += !a->each;
        job->eaches += a->each;
    } else if (a->each || job_holds(a->when, pred->state)) {
        met(job, a->place);
    } else {
        doom(d, job, pred->id);
    }
}

void dist_after_link(struct dist *d, struct dist_job *job)
{
    const struct after_list *l = &job->desc->after;
    uint32_t eaches = 0;

    if (l->n == 0 || job->after)
        return;
    job->after = xcalloc(l->n, sizeof *job->after);
    for (uint32_t i = 0; i < l->n; i++) {
        struct dist_job *pred = predecessor(d, job->desc, &l->v[i]);

        job->after[i] = (struct dist_after){.job = job, .place = (uint8_t)i, .when = l->v[i].when};
        list_init(&job->after[i].in_pred);
        if (job->after_met >> i & 1 || !pred)
            continue;
        job->after[i].each = by_task(job->desc, pred->desc);
        eaches += job->after[i].each;
    }
    if (eaches > 0)
        block_all(job, eaches);
    for (uint32_t i = 0; i < l->n; i++) {
        struct dist_job *pred = predecessor(d, job->desc, &l->v[i]);

        if (job->after_met >> i & 1)
            continue;
        if (pred)
            link_after(d, &job->after[i], pred);
        else
            doom(d, job, l->v[i].job); /* only after a restart: it was in no journal */
    }
    dist_job_touch(d, job);
}

/* The predecessor decides nothing more. */
static void unlink_after(struct dist *d, struct dist_after *a)
{
    list_remove(&a->in_pred);
    a->job->gates -= !a->each;
    a->job->eaches -= a->each;
    dist_job_touch(d, a->job);
}

void dist_after_ended(struct dist *d, struct dist_job *pred)
{
    list_foreach(&pred->successors, node, nxt) {
        struct dist_after *a = container_of(node, struct dist_after, in_pred);

        unlink_after(d, a);
        if (job_holds(a->when, pred->state))
            met(a->job, a->place);
        else
            doom(d, a->job, pred->id);
    }
    list_foreach(&pred->task_successors, node, nxt) {
        struct dist_after *a = container_of(node, struct dist_after, in_pred);

        unlink_after(d, a);
        met(a->job, a->place);
    }
}

static void all_gone(struct dist *d, struct list *successors, job_id_t pred)
{
    list_foreach(successors, node, nxt) {
        struct dist_after *a = container_of(node, struct dist_after, in_pred);

        unlink_after(d, a);
        doom(d, a->job, pred);
    }
}

void dist_after_gone(struct dist *d, struct dist_job *pred)
{
    all_gone(d, &pred->successors, pred->id);
    all_gone(d, &pred->task_successors, pred->id);
}

void dist_after_free(struct dist_job *job)
{
    for (uint32_t i = 0; job->after && i < job->desc->after.n; i++)
        list_remove(&job->after[i].in_pred);
    list_foreach(&job->successors, node, nxt)
        list_remove(node);
    list_foreach(&job->task_successors, node, nxt)
        list_remove(node);
    free(job->after);
    job->after = NULL;
}

/* The job has ended: it waits for nobody any more. */
void dist_after_close(struct dist_job *job)
{
    for (uint32_t i = 0; job->after && i < job->desc->after.n; i++)
        list_remove(&job->after[i].in_pred);
    job->gates = job->eaches = 0;
}

/* ---- What may start ---- */

bool dist_job_may_start(const struct dist_job *job)
{
    return !job->held && job->gates == 0 && !job->doomed && !job->journalling &&
           (job->unlaunched > 0 || job->blocked_n == 0);
}

void dist_job_keep(struct dist *d, struct dist_job *job)
{
    if (job->wait == WAIT_SETTLING || job->wait == WAIT_KEPT)
        return;
    if (dist_job_awaits(job, TIMER_PROBE))
        dist_job_timer_stop(d, job);
    dist_probe_cancel_all(d, job);
    dist_probe_wait(job, WAIT_KEPT, &d->kept);
}

bool dist_job_give_central(struct dist *d, struct dist_job *job)
{
    if (!dist_job_centrals(job) || job->hand != HAND_NONE || job->state == JOB_RUNNING || job->promoted ||
        job->unlaunched == 0 || job->unlaunched + job->in[TASK_CANCELLED] != job->desc->tasks)
        return false;
    job->probe_long = false;
    dist_job_set_state(d, job, JOB_PENDING);
    dist_hand_over(d, job, EPOCH_FIRST);
    return true;
}

static void start_kept(struct dist *d, struct dist_job *job)
{
    dist_probe_wait(job, WAIT_NOT, NULL);
    if (dist_job_give_central(d, job))
        return;
    if (job->hand == HAND_NONE && job->class == CLASS_LONG && !job->promoted)
        job->probe_long = true;
    dist_handover_promote(d, job);
    if (!job->refused) /* otherwise dist_probe_settle() probes, after a delay */
        dist_probe_first(d, job);
}

/* The state of a job of which nothing has started. */
static void restate(struct dist *d, struct dist_job *job)
{
    bool blocked = job->gates > 0 || (job->blocked_n > 0 && job->unlaunched == 0);
    enum job_state to = job->held ? JOB_HELD : blocked ? JOB_BLOCKED : JOB_WAITING;

    if (job->state == JOB_RUNNING)
        return;
    if (to == JOB_WAITING && dist_handover_pending(job) && epoch_is_dists(job->epoch))
        to = JOB_PENDING;
    if (to != job->state)
        dist_job_set_state(d, job, to);
}

void dist_after_settle(struct dist *d, struct dist_job *job)
{
    bool news = job->waits_news;

    if ((!job->after && !job->held && job->wait != WAIT_KEPT && !news) || job->journalling)
        return;
    while (job->blocked != TASK_NIL && job->tasks[job->blocked].awaits == TASK_DOOMED)
        dist_task_end_unrun(d, job, job->blocked, OUTCOME_CANCELLED, 0);
    if (job->doomed && !job->cancelling)
        dist_job_cancel_rest(d, job);
    /* After the ends that follow from it: read back, no task may seem to wait no longer that was to be cancelled. */
    if (news)
        dist_journal_waits(d, job);
    job->waits_news = false;
    if (job->cancelling || dist_job_unfinished_tasks(job) == 0)
        return;
    if (!dist_job_may_start(job))
        dist_job_keep(d, job);
    else if (job->wait == WAIT_KEPT)
        start_kept(d, job);
    restate(d, job);
}

/* ---- Holding ---- */

void dist_hold_answer(struct dist *d, job_id_t job, uint32_t client, int err)
{
    struct msg_hold_set *m = &out_add(d->out, MSG_HOLD_SET, 0)->hold_set;

    m->job = job;
    m->client = client;
    m->err = err;
}

/* Central hears that the job is held only when that is on record: a dist that restarts must know what central does. */
void dist_hold_durable(struct dist *d, struct dist_job *job)
{
    job->hold_known = true;
    dist_handover_tell_hold(d, job);
    dist_handover_offer_waiting(d, job);
}

void dist_on_hold(struct dist *d, const struct msg *m)
{
    struct dist_job *job = dist_job_find(d, m->hold.job);
    int err = !job || !job->submitted || job_state_final(job->state) ? HAWK_ENOT_FOUND : 0;

    if (!err && dist_handover_may_have(job) && d->joined && !dist_handover_may_hold(d))
        err = HAWK_EVERSION;
    if (err) {
        dist_hold_answer(d, m->hold.job, m->hold.client, err);
        return;
    }
    job->hold_asked = m->hold.on;
    if (job->held == job->hold_asked) {
        /* Central may know it otherwise, from a client that did not reach this dist. */
        if (!job->held || job->hold_known)
            dist_hold_durable(d, job);
    } else {
        job->held = m->hold.on;
        job->hold_known |= !job->held;
        job->waits_news = true;
        if (!job->journalled)
            dist_hold_durable(d, job);
        dist_job_touch(d, job);
        dist_jobs_settle(d); /* its record comes before the answer */
    }
    dist_journal_hold_set(d, job, m->hold.client);
}

/* A client released the job at central, after the hold that this dist read back or took over with the job.
 * Central needs no answer: that could end a hold that a client has there since. */
void dist_on_long_hold(struct dist *d, const struct msg *m)
{
    struct dist_job *job = dist_job_find(d, m->long_hold.job);

    if (!job || job->epoch != m->long_hold.epoch || !job->submitted || job_state_final(job->state) ||
        !job->held || job->hold_asked || m->long_hold.on)
        return;
    job->held = job->hold_known = false;
    job->waits_news = true;
    dist_job_touch(d, job);
}

/* Read back, after the job and its tasks. */
void dist_on_journal_waits(struct dist *d, const struct msg *in)
{
    const struct msg_journal_waits *m = &in->journal_waits;
    struct dist_job *job = dist_job_find(d, m->job);

    if (!job || d->ever_joined)
        return;
    job->after_met = m->met;
    if (m->unwanted && m->unwanted->n > 0 && owner_job_valid(job->desc, m->epoch, m->unwanted, 1))
        dist_unwanted_add(job, m->unwanted);
    job->cause = m->cause;
    if (job_state_final(job->state))
        return;
    /* Not that it is not held: a client may have held it at central since. */
    job->held = job->hold_known = m->held;
}
