/* Jobs, or parts of jobs, that central has or is to get: long jobs from the start (docs/protocol.md 4),
 * promoted jobs later (7). The dist keeps them until central has them durably, and mirrors what central says
 * of them. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/units.h"

/* The delay before the dist offers a job again that central refused. */
#define REFUSED_US (1 * US_PER_S)

/* ---- Moves ---- */

/* The table of moves, with the functions that make them. enum hand_over explains the states. */
#define TO(name) (1u << HAND_##name)
static const uint16_t moves[HAND_OVER_COUNT] = {
    /* dist_hand_over, dist_handover_ask, dist_handover_claim, dist_handover_recover */
    [HAND_NONE] = TO(READY) | TO(ASKED) | TO(ACCEPTED) | TO(UNSURE),
    /* answered; take_back */
    [HAND_ASKED] = TO(ACCEPTED) | TO(NONE),
    /* dist_handover_journalled, hold_back; central's word: accepted, unaccepted, take_back */
    [HAND_RECORDING] = TO(READY) | TO(HELD_BACK) | TO(ACCEPTED) | TO(NONE),
    /* record_change; central's word */
    [HAND_HELD_BACK] = TO(RECORDING) | TO(READY) | TO(ACCEPTED) | TO(NONE),
    /* dist_handover_offer, record_change, hold_back; central's word */
    [HAND_READY] = TO(READY) | TO(OFFERED) | TO(RECORDING) | TO(HELD_BACK) | TO(ACCEPTED) | TO(NONE),
    /* dist_handover_offer again, dist_on_long_refused, dist_handover_joined; central's word */
    [HAND_OFFERED] = TO(OFFERED) | TO(READY) | TO(UNSURE) | TO(ACCEPTED),
    /* central's word */
    [HAND_UNSURE] = TO(READY) | TO(ACCEPTED) | TO(NONE),
    /* unaccepted */
    [HAND_ACCEPTED] = TO(READY),
};

bool dist_handover_may_move(enum hand_over from, enum hand_over to) { return moves[from] >> to & 1; }

static void hand_move(struct dist *d, struct dist_job *job, enum hand_over to)
{
    CHECK(dist_handover_may_move(job->hand, to));
    if (job->hand == HAND_NONE)
        list_push_tail(&d->handed, &job->in_central);
    if (to == HAND_NONE)
        list_remove(&job->in_central);
    job->hand = (uint8_t)to;
    if (to != HAND_ACCEPTED) /* else the answer that is on its way counts */
        job->asking = false;
    job->unwanted_back = true; /* perhaps central has nothing of them any more */
    dist_job_touch(d, job);
}

/* ---- Sending ---- */

struct task_set *dist_handover_tasks(const struct dist_job *job)
{
    struct task_set *set;
    uint32_t n = 0;

    if (job->central_n == job->desc->tasks)
        return NULL;
    set = task_set_new(job->central_n);
    for (uint32_t i = 0; i < job->desc->tasks; i++)
        if (job->tasks[i].central && !task_state_final(job->tasks[i].state))
            set->v[n++] = i;
    CHECK(n == job->central_n);
    return set;
}

/* The estimate for central. A task of a promoted job takes as long as the job's tasks show, and at least the
 * cutoff. */
static int64_t estimate(const struct dist *d, const struct dist_job *job)
{
    if (!epoch_is_dists(job->epoch)) {
        int64_t shown_us = dist_job_shown_us(d, job);

        return shown_us > job->cutoff_us ? shown_us : job->cutoff_us;
    }
    /* A user may tag a job as long without an estimate: it takes at least the cutoff. */
    return job->estimate_us > 0 ? job->estimate_us : job->cutoff_us;
}

/* The number of this dist's ownership (docs/protocol.md 9.7): central obeys the dist with the greatest. */
static uint16_t owner(const struct dist_job *job)
{
    return job->stayed_epoch > job->own_epoch ? job->stayed_epoch : job->own_epoch;
}

/* Whether the client may have moved the job on since, to a dist which central cannot know yet. */
static bool may_be_elsewhere(const struct dist_job *job)
{
    return owner(job) > EPOCH_FIRST && !list_empty(&job->in_unattended);
}

/* A dist that leaves does not wait for an at-most-once job's record, which must come first. */
static bool may_offer(const struct dist *d, const struct dist_job *job)
{
    return d->joined && !(d->leaving && (job->desc->flags & JOB_AT_MOST_ONCE));
}

bool dist_handover_may_hold(const struct dist *d) { return d->central_version >= 3; }

/* Whether central may hear that the job is held, or is not. */
static bool may_tell_hold(const struct dist *d, const struct dist_job *job)
{
    return job->hold_known && dist_handover_may_hold(d);
}

/* Records what central is to get. The record must be durable before central gets it. */
static void record_change(struct dist *d, struct dist_job *job)
{
    hand_move(d, job, job->journalled ? HAND_RECORDING : HAND_READY);
    dist_journal_change(d, job);
}

/* For an at-most-once job: writes to the journal that central has none of its tasks and that the dist offers none for
 * now. Without this record, a restarted dist would have to count as lost every task that central may have had and does
 * not know. Returns false, and does nothing, for every other job and for one that central may have. */
static bool hold_back(struct dist *d, struct dist_job *job)
{
    if (!(job->desc->flags & JOB_AT_MOST_ONCE) || job->hand == HAND_OFFERED || job->hand == HAND_UNSURE ||
        job->promoted || !(job->journalled || job->journalling))
        return false;
    if (job->hand != HAND_HELD_BACK) {
        hand_move(d, job, HAND_HELD_BACK);
        dist_journal_change(d, job);
    }
    return true;
}

void dist_handover_offer(struct dist *d, struct dist_job *job)
{
    struct msg_long_submit *m;

    if (job->central_n == 0) /* central refused its part, which has ended */
        return;
    /* Its record is not durable: after a restart the dist would not know of it, and central would run it for nobody. */
    if (job->hand == HAND_RECORDING || job->hand == HAND_UNSURE || job->journalling)
        return;
    if (job->hand != HAND_OFFERED && (may_be_elsewhere(job) || (job->held && !may_tell_hold(d, job))))
        return;
    if (!may_offer(d, job)) {
        hold_back(d, job);
        return;
    }
    if (job->hand == HAND_HELD_BACK) {
        record_change(d, job);
        return;
    }
    hand_move(d, job, HAND_OFFERED);
    job->offers = job->offers > 0 ? 2 : 1;
    m = &out_add(d->out, MSG_LONG_SUBMIT, NODE_CENTRAL.v)->long_submit;
    m->job = job->id;
    m->desc = job_desc_ref(job->desc);
    m->tasks = dist_handover_tasks(job);
    job->handed_part = m->tasks != NULL;
    m->estimate_us = estimate(d, job);
    m->epoch = job->epoch;
    m->why = epoch_is_dists(job->epoch) ? job->why : WHY_PROMOTED;
    m->owner = owner(job);
    dist_handover_tell_hold(d, job);
}

/* Marks every waiting task as central's. */
static void mark_all(struct dist_job *job)
{
    while (job->returned != TASK_NIL) {
        job->tasks[job->returned].central = 1;
        job->returned = job->tasks[job->returned].next;
    }
    for (; job->cursor < job->desc->tasks; job->cursor++)
        job->tasks[job->cursor].central = 1;
    job->central_n += job->unlaunched;
    job->unlaunched = 0;
}

/* From here on the job's waiting tasks are central's. */
static void hand_waiting(struct dist *d, struct dist_job *job, enum hand_over to, uint16_t epoch)
{
    dist_tasks_undelay(d, job); /* central knows of no delay that began here */
    CHECK(job->hand == HAND_NONE);
    CHECK(job->unlaunched > 0);
    hand_move(d, job, to);
    job->epoch = epoch;
    mark_all(job);
}

void dist_hand_over(struct dist *d, struct dist_job *job, uint16_t epoch)
{
    hand_waiting(d, job, HAND_READY, epoch);
    /* After a restart the dist must not count central's tasks as its own: they would run twice. */
    if (may_offer(d, job) || !hold_back(d, job))
        record_change(d, job);
    dist_handover_offer(d, job);
}

void dist_handover_journalled(struct dist *d, struct dist_job *job, uint64_t token)
{
    /* An earlier record may say something else. */
    if (job->hand != HAND_RECORDING || token != job->change)
        return;
    hand_move(d, job, HAND_READY);
    if (job->central_n > 0 && !job->cancelling)
        dist_handover_offer(d, job);
}

void dist_handover_recover(struct dist *d, struct dist_job *job, const struct task_set *set)
{
    bool part = !epoch_is_dists(job->epoch);

    hand_move(d, job, HAND_UNSURE);
    job->offers = 1; /* in an earlier life */
    job->handed_part = part || set;
    if (!part || !set)
        mark_all(job);
    for (uint32_t i = 0; part && set && i < set->n; i++) {
        dist_task_hand(job, set->v[i]);
        job->central_n++;
    }
}

void dist_handover_recover_ended(struct dist *d, struct dist_job *job)
{
    if (job->hand == HAND_UNSURE)
        hand_move(d, job, HAND_ACCEPTED);
}

/* What central said of the task is no longer valid: the task waits. */
static void forget_state(struct dist *d, struct dist_job *job, uint32_t i)
{
    struct dist_task *t = &job->tasks[i];

    t->asked = 0;
    dist_task_centrals_delay(job, i, false);
    if (!t->central || t->state == TASK_WAITING || task_state_final(t->state))
        return;
    t->started = 0;
    dist_task_set_state(d, job, i, TASK_WAITING, NULL);
}

static void forget_states(struct dist *d, struct dist_job *job)
{
    for (uint32_t i = 0; i < job->desc->tasks; i++)
        forget_state(d, job, i);
}

/* Takes central's part of a job back, to launch it from here. */
static void take_back(struct dist *d, struct dist_job *job)
{
    forget_states(d, job);
    hand_move(d, job, HAND_NONE);
    job->central_n = 0;
    for (uint32_t i = job->desc->tasks; i-- > 0;)
        if (job->tasks[i].central && !task_state_final(job->tasks[i].state))
            dist_task_give_back(job, i);
    dist_journal_change(d, job);
}

/* Takes back the tasks that central was asked for and has not named, so does not have. It never had them, or
 * it lost its state and another dist gave it less of the job. */
static void take_back_asked(struct dist *d, struct dist_job *job)
{
    for (uint32_t i = job->desc->tasks; i-- > 0;) {
        if (!job->tasks[i].asked)
            continue;
        if (dist_task_unwanted(job, i)) {
            dist_task_end_unrun(d, job, i, OUTCOME_CANCELLED, 0);
            continue;
        }
        forget_state(d, job, i);
        job->central_n--;
        job->handed_part = true;
        dist_task_give_back(job, i);
    }
}

/* Central has none of the job's tasks: those that have not ended end now. */
static void finish_central_tasks(struct dist *d, struct dist_job *job, enum outcome outcome, int32_t code)
{
    for (uint32_t i = 0; i < job->desc->tasks && job->central_n > 0; i++)
        if (job->tasks[i].central && !task_state_final(job->tasks[i].state))
            dist_task_end_unrun(d, job, i, dist_task_unwanted(job, i) ? OUTCOME_CANCELLED : outcome, code);
}

/* The dist does not know whether central has these tasks until central names them. Another dist may have given it
 * less of the job. Or some tasks had ended before central got the rest, and a restarted dist has no record of
 * that. If an answer is on its way already, that one counts. */
static void mark_asked(struct dist_job *job)
{
    if (job->asking)
        return;
    job->asking = true;
    for (uint32_t i = 0; i < job->desc->tasks; i++)
        job->tasks[i].asked = job->tasks[i].central && !task_state_final(job->tasks[i].state);
}

void dist_handover_tell_hold(struct dist *d, struct dist_job *job)
{
    struct msg_long_hold *m;

    if (!d->joined || !may_tell_hold(d, job) || !dist_handover_may_have(job))
        return;
    m = &out_add(d->out, MSG_LONG_HOLD, NODE_CENTRAL.v)->long_hold;
    m->job = job->id;
    m->epoch = job->epoch;
    m->owner = owner(job);
    m->on = !job->held ? 0 : job->hold_asked ? HOLD_ASKED : HOLD_FROM_BEFORE;
    m->user = blob_ref(job->desc->user);
}

static void put_watch(struct dist *d, struct dist_job *job)
{
    struct msg_long_watch *m;

    dist_handover_tell_hold(d, job); /* first: a new owner ends the hold of the one before */
    m = &out_add(d->out, MSG_LONG_WATCH, NODE_CENTRAL.v)->long_watch;
    m->job = job->id;
    m->epoch = job->epoch;
    m->owner = job->abandoned ? OWNER_NONE : owner(job);
    m->user = blob_ref(job->desc->user);
    mark_asked(job);
}

void dist_handover_stay(struct dist *d, struct dist_job *job, uint16_t epoch)
{
    if (epoch <= owner(job))
        return;
    job->stayed_epoch = epoch;
    if (dist_handover_may_have(job) && d->joined)
        put_watch(d, job);
}

void dist_handover_claim(struct dist *d, struct dist_job *job, uint16_t epoch)
{
    hand_waiting(d, job, HAND_ACCEPTED, epoch);
    job->offers = 1;
    job->handed_part = job->central_n < job->desc->tasks;
    if (d->joined)
        put_watch(d, job);
}

/* docs/protocol.md 9: the dist that had the job may have promoted it without the client's knowledge. */
void dist_handover_ask(struct dist *d, struct dist_job *job, uint16_t epoch)
{
    hand_waiting(d, job, HAND_ASKED, epoch);
    job->offers = 1;
    job->handed_part = !epoch_is_dists(epoch) || job->central_n < job->desc->tasks;
    mark_asked(job);
    if (d->joined)
        put_watch(d, job);
}

/* Tells central to cancel whatever it knows of the job, and to report it, since the dist may not know all of that. */
static void put_cancel_and_watch(struct dist *d, struct dist_job *job)
{
    struct msg_long_cancel *m = &out_add(d->out, MSG_LONG_CANCEL, NODE_CENTRAL.v)->long_cancel;

    m->job = job->id;
    m->epoch = job->epoch;
    m->owner = owner(job);
    m->abandoned = job->abandoned;
    m->user = blob_ref(job->desc->user);
    put_watch(d, job);
}

void dist_handover_cancel(struct dist *d, struct dist_job *job)
{
    if (job->hand == HAND_NONE || job->central_n == 0)
        return;
    if (!dist_handover_may_have(job))
        finish_central_tasks(d, job, OUTCOME_CANCELLED, 0);
    else if (d->joined)
        put_cancel_and_watch(d, job);
}

void dist_handover_cancel_tasks(struct dist *d, struct dist_job *job, struct task_set *tasks)
{
    struct msg_long_cancel_tasks *m;

    if (job->cancelling || job->hand != HAND_ACCEPTED || !d->joined || d->central_version < 3 ||
        !dist_handover_may_have(job))
        return;
    m = &out_add(d->out, MSG_LONG_CANCEL_TASKS, NODE_CENTRAL.v)->long_cancel_tasks;
    m->job = job->id;
    m->epoch = job->epoch;
    m->owner = owner(job);
    m->tasks = task_set_ref(tasks);
    m->user = blob_ref(job->desc->user);
}

/* Central may not have heard which of its tasks are to end. */
static void tell_unwanted(struct dist *d, struct dist_job *job)
{
    job->unwanted_back = true; /* it hears nothing of those that have ended since */
    dist_unwanted_settle(d, job);
    if (job->unwanted)
        dist_handover_cancel_tasks(d, job, job->unwanted);
}

/* ---- Central comes and goes ---- */

void dist_handover_joined(struct dist *d)
{
    list_foreach(&d->handed, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_central);

        if (job->central_n == 0)
            continue;
        if (dist_job_awaits(job, TIMER_OFFER))
            dist_job_timer_stop(d, job);
        /* Central may have accepted and run it, and forgotten it since. */
        if (job->hand == HAND_OFFERED && job->desc->flags & JOB_AT_MOST_ONCE)
            hand_move(d, job, HAND_UNSURE);
        if (job->cancelling) {
            put_cancel_and_watch(d, job);
        } else if (dist_handover_pending(job) && job->hand != HAND_UNSURE) {
            dist_handover_offer(d, job);
        } else {
            put_watch(d, job);
        }
        dist_job_touch(d, job); /* its tasks that are the dist's may have waited for that timer as well */
    }
}

/* Whether central is known to have something of a job that was moved here: the client said so, or central has
 * begun to say what. */
static bool known_handed(const struct dist_job *job)
{
    if (job->why == WHY_PROMOTED)
        return true;
    for (uint32_t i = 0; i < job->desc->tasks; i++)
        if (job->tasks[i].central && !job->tasks[i].asked)
            return true;
    return false;
}

/* Accepts detached jobs that waited for central's word and are durable here: their clients get the answer
 * now. */
void dist_handover_central_lost(struct dist *d)
{
    list_foreach(&d->handed, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_central);

        job->asking = false;
        if (job->hand == HAND_ASKED && !known_handed(job) && !job->cancelling) {
            take_back(d, job); /* central may have nothing of the job, and its client waits */
            dist_tasks_doubt(d, job);
            continue;
        }
        dist_job_try_accept(d, job);
    }
}

void dist_handover_leave(struct dist *d)
{
    list_foreach(&d->handed, node, nxt) {
        struct dist_job *job = container_of(node, struct dist_job, in_central);

        if (dist_handover_pending(job) && job->central_n > 0 && !job->journalling)
            hold_back(d, job);
    }
}

/* ---- Central's messages ---- */

/* The job that a message of central's means, if it is under the present epoch. NULL: the message is stale or
 * invented. It is invented for a job that waits for its first record: the dist never offered it. */
static struct dist_job *handed_job(const struct dist *d, job_id_t id, uint16_t epoch)
{
    struct dist_job *job = dist_job_find(d, id);
    bool known = job && job->hand != HAND_NONE && !job->journalling && !job_state_final(job->state);

    return known && job->epoch == epoch ? job : NULL;
}

/* Central answered that it has something of the job: a promoted part, or the whole long job. */
static void has_part(struct dist *d, struct dist_job *job)
{
    if (!epoch_is_dists(job->epoch) && !job->promoted)
        dist_job_mark_promoted(d, job);
}

static void accepted(struct dist *d, struct dist_job *job)
{
    bool held_back = job->hand == HAND_HELD_BACK;
    bool offered = job->hand == HAND_OFFERED || job->hand == HAND_UNSURE;

    if (!dist_handover_pending(job))
        return;
    hand_move(d, job, HAND_ACCEPTED);
    /* Another dist, or an earlier life, may have offered it. */
    job->offers = job->offers > 0 ? job->offers : 1;
    if (held_back)
        dist_journal_change(d, job);
    if (job->state == JOB_PENDING)
        dist_job_set_state(d, job, JOB_WAITING);
    has_part(d, job);
    if (!offered && !job->cancelling) /* a cancelled job's tasks were asked for */
        put_watch(d, job); /* central has not heard of this dist, which has not heard of all tasks */
    dist_job_try_accept(d, job);
}

void dist_on_long_accepted(struct dist *d, const struct msg *m)
{
    struct dist_job *job = handed_job(d, m->long_accepted.job, m->long_accepted.epoch);

    if (!job)
        return;
    accepted(d, job);
    job->unreported_us = d->now_us + m->long_accepted.unreported_us;
    if (job->offers > 1) {
        job->offers = 1;
        put_watch(d, job);
    }
    tell_unwanted(d, job);
}

/* Central has nothing of the job after all: the dist offers it anew. */
static void unaccepted(struct dist *d, struct dist_job *job)
{
    hand_move(d, job, HAND_READY);
    forget_states(d, job);
    /* Central gets less than before. After a restart the dist must know that the rest has ended. */
    if (may_offer(d, job) || !hold_back(d, job))
        record_change(d, job);
}

static bool may_pass(int err)
{
    return err == HAWK_ELIMIT || err == HAWK_EBUSY || err == HAWK_ESHUTDOWN || err == HAWK_EUNAVAILABLE ||
           err == HAWK_EIO;
}

/* If central refuses it, a long job is offered again. The tasks of one that was to be promoted come back. */
static bool waits_for_central(const struct dist_job *job)
{
    return dist_handover_pending(job) && (epoch_is_dists(job->epoch) || job->promoted);
}

static void offer_later(struct dist *d, struct dist_job *job)
{
    dist_job_timer_start(d, job, TIMER_OFFER, d->now_us + REFUSED_US);
}

void dist_handover_offer_again(struct dist *d, struct dist_job *job)
{
    if (!waits_for_central(job) || job->cancelling)
        return;
    if (list_empty(&job->in_unattended))
        dist_handover_offer(d, job);
    else
        offer_later(d, job); /* its client may have moved it, and then another dist offers it */
}

void dist_handover_offer_waiting(struct dist *d, struct dist_job *job)
{
    if ((job->hand == HAND_READY || job->hand == HAND_HELD_BACK) && !dist_job_awaits(job, TIMER_OFFER) &&
        !job->cancelling)
        dist_handover_offer(d, job);
}

void dist_on_long_refused(struct dist *d, const struct msg *m)
{
    struct dist_job *job = handed_job(d, m->long_refused.job, m->long_refused.epoch);

    if (!job)
        return;
    if (job->hand == HAND_OFFERED)
        hand_move(d, job, HAND_READY);
    /* Central may have answered a LONG_WATCH before its journal had the job, and then failed to write it. */
    if (job->hand == HAND_ACCEPTED)
        unaccepted(d, job);
    if (job->hand == HAND_ASKED)
        return;
    if (!job->submitted) {
        dist_job_reject(d, job, m->long_refused.err);
        return;
    }
    if (job->cancelling) {
        finish_central_tasks(d, job, OUTCOME_CANCELLED, 0);
    } else if (!waits_for_central(job)) {
        take_back(d, job); /* it goes on as a short job (7.2) */
    } else if (!may_pass(m->long_refused.err)) {
        finish_central_tasks(d, job, OUTCOME_NOT_STARTED, CODE_CANNOT_START);
    } else if (!dist_job_awaits(job, TIMER_OFFER)) {
        offer_later(d, job);
        hold_back(d, job);
    }
}

/* Mirrors one task (4.5). Central knows best, also about attempts, which a central that restarted counts
 * anew: its stream is in order, and messages of an older stream do not arrive. */
void dist_on_long_task(struct dist *d, const struct msg *m)
{
    const struct msg_long_task *l = &m->long_task;
    struct dist_job *job = handed_job(d, l->id.job, l->id.epoch);
    struct dist_task *t;
    enum task_state state = l->state == TASK_LAUNCHED ? TASK_PLACED : l->state;

    if (!job || l->id.task >= job->desc->tasks || !job->tasks[l->id.task].central)
        return;
    accepted(d, job);
    if (job->hand == HAND_ASKED)
        has_part(d, job); /* central has that task, whatever it says of the others */
    t = &job->tasks[l->id.task];
    t->asked = 0;
    if (task_state_final(t->state))
        return;
    if (state == t->state && l->id.attempt == t->attempt && l->worker.v == t->worker) {
        dist_task_centrals_delay(job, l->id.task, l->outcome != OUTCOME_NONE);
        return;
    }
    dist_task_centrals_delay(job, l->id.task, false);
    if (l->id.attempt != t->attempt || task_state_before(state))
        t->started = 0;
    t->attempt = l->id.attempt;
    if (l->worker.v != 0)
        t->worker = l->worker.v;
    if (task_state_before(state))
        dist_task_set_state(d, job, l->id.task, state, NULL);
    else if (!task_state_final(state))
        dist_task_started(d, job, l->id.task, l->run_us);
    else
        dist_task_end(d, job, l->id.task,
                      state == TASK_CANCELLED ? OUTCOME_CANCELLED
                      : state == TASK_LOST    ? OUTCOME_LOST
                                              : l->outcome,
                      state == TASK_DONE && t->no_room ? 1 : l->code, l->run_us, l->used);
    dist_task_centrals_delay(job, l->id.task, l->outcome != OUTCOME_NONE);
}

/* Why a task of central's could not start, or what an executor said of it; its end follows. */
void dist_on_long_message(struct dist *d, const struct msg *m)
{
    const struct msg_long_message *l = &m->long_message;
    struct dist_job *job = handed_job(d, l->id.job, l->id.epoch);

    if (job && l->id.task < job->desc->tasks && job->tasks[l->id.task].central &&
        !task_state_final(job->tasks[l->id.task].state))
        owner_message_keep(&job->messages, l->id.task, l->text);
}

/* The result of a task of central's; its end follows. */
void dist_on_long_result(struct dist *d, const struct msg *m)
{
    const struct msg_long_result *l = &m->long_result;
    struct dist_job *job = handed_job(d, l->id.job, l->id.epoch);

    if (job && l->id.task < job->desc->tasks && job->tasks[l->id.task].central &&
        !task_state_final(job->tasks[l->id.task].state))
        job->tasks[l->id.task].no_room = !dist_task_keep_result(d, job, l->id.task, l->result);
}

/* Central has named the tasks that it has of a job that was moved here. */
static void answered(struct dist *d, struct dist_job *job, int err)
{
    if (err && !job->cancelling) {
        take_back(d, job);
    } else {
        take_back_asked(d, job);
        hand_move(d, job, HAND_ACCEPTED);
        tell_unwanted(d, job);
        if (!err)
            has_part(d, job);
    }
    dist_tasks_doubt(d, job);
}

/* The answer to LONG_WATCH: central has said all that it knows of the job. */
void dist_on_long_watched(struct dist *d, const struct msg *in)
{
    const struct msg_long_watched *m = &in->long_watched;
    struct dist_job *job = handed_job(d, m->job, m->epoch);

    if (!job)
        return;
    job->unreported_us = d->now_us + m->unreported_us;
    job->asking = false;
    if (job->hand == HAND_ASKED) {
        answered(d, job, m->err);
    } else if (m->err == 0) {
        accepted(d, job);
        take_back_asked(d, job);
        tell_unwanted(d, job);
        if (job->unlaunched > 0)
            job->probe_long = job->class == CLASS_LONG && !job->promoted;
        dist_tasks_doubt(d, job);
        dist_job_touch(d, job);
    } else if (job->cancelling) {
        finish_central_tasks(d, job, OUTCOME_CANCELLED, 0);
    } else if (m->err != HAWK_ENOT_FOUND || job->central_n == 0 || job->hand == HAND_OFFERED) {
        return; /* offered: this answers a watch from before that; the offer's answer is yet to come */
    } else if ((job->hand == HAND_ACCEPTED || job->hand == HAND_UNSURE) &&
               job->desc->flags & JOB_AT_MOST_ONCE) {
        finish_central_tasks(d, job, OUTCOME_LOST, 0); /* central had the tasks, and may have run them */
    } else {
        unaccepted(d, job);
        dist_handover_offer(d, job);
    }
}
