/* Tasks: from a queue or a launch, through the executor, to the owner's acknowledgement. */
#include "worker/internal.h"

/* ---- Messages to owners ---- */

static bool owner_hears(const struct task *t) { return t->job->owner->state == OWNER_UP; }

static void send_finished(const struct worker *w, const struct task *t)
{
    struct msg_task_finished *m = &out_add(w->out, MSG_TASK_FINISHED, t->job->owner->node.v)->task_finished;

    m->id = t->id;
    m->result = blob_ref(t->result);
    m->run_us = t->run_us;
    m->code = t->code;
    m->outcome = t->outcome;
    m->stolen = t->stolen;
    m->used = t->used;
    if (t->result)
        beats_bulk(&t->job->owner->beats, w->now_us, t->result->len);
    /* An older owner would send the task here again and again: to it this is the task's failure, as in its
     * version. */
    if (m->code == HAWK_ECANNOT_START && !msg_in_version(MSG_START_BLAMED, t->job->owner->version)) {
        m->outcome = OUTCOME_NOT_STARTED;
        m->code = CODE_CANNOT_START;
    }
}

static void send_overrun(const struct worker *w, struct task *t)
{
    struct msg_task_overrun *m = &out_add(w->out, MSG_TASK_OVERRUN, t->job->owner->node.v)->task_overrun;

    m->id = t->id;
    m->run_us = w->now_us - t->started_us;
    t->overrun_told = true;
}

/* A launch that cannot be taken: its request is unknown (lost in a reconnection), the worker stops, or no
 * pause makes room. The owner hears that the try is lost, with a code that says that it never ran, and runs
 * the task elsewhere. The worker keeps nothing: if this message is lost with its stream, the next
 * resynchronisation shows that the task is not here. Output: 1 message. */
void worker_launch_refused(struct worker *w, const struct owner *o, const struct try_id *id, int err)
{
    struct msg_task_finished *m = &out_add(w->out, MSG_TASK_FINISHED, o->node.v)->task_finished;

    m->id = *id;
    m->outcome = OUTCOME_LOST;
    m->code = err;
}

static void send_held(const struct worker *w, struct task *t)
{
    static const uint8_t states[] = {[T_QUEUED] = TASK_PLACED,
                                     [T_GIVEN] = TASK_LAUNCHED,
                                     [T_STARTING] = TASK_LAUNCHED,
                                     [T_RUNNING] = TASK_RUNNING,
                                     [T_DONE] = TASK_DONE};
    struct msg_task_held *m = &out_add(w->out, MSG_TASK_HELD, t->job->owner->node.v)->task_held;

    m->id = t->id;
    m->state = states[t->state];
    m->run_us = t->state == T_RUNNING ? worker_task_age(w, t) : t->run_us;
    t->pause_untold = t->state == T_RUNNING && t->pauses > 0;
    if (t->state == T_DONE)
        send_finished(w, t);
    else if (t->overrun && !t->overrun_told)
        send_overrun(w, t);
}

/* Output: at most 2 messages per task of that owner, and 1. News of pauses follows with the next heartbeat. */
void worker_report_held(struct worker *w, struct owner *o)
{
    w->pauses_untold = true;
    list_foreach(&o->jobs, l, next) {
        struct job *j = container_of(l, struct job, link);

        list_foreach(&j->tasks, k, knext)
            send_held(w, container_of(k, struct task, link));
    }
    out_add(w->out, MSG_HELD_END, o->node.v);
}

/* ---- Starting ---- */

static uint32_t new_run(struct worker *w, const struct slot *s)
{
    uint32_t generations = UINT32_MAX >> RUN_SLOT_BITS;

    w->run_generation = w->run_generation % generations + 1;
    return w->run_generation << RUN_SLOT_BITS | (uint32_t)(s - w->slots);
}

struct task *worker_task_of_run(const struct worker *w, uint32_t run)
{
    uint32_t i = worker_slot_of(run);
    struct task *t = i < w->n_slots ? slot_at(w, i)->task : NULL;

    return t && t->run == run ? t : NULL;
}

uint32_t worker_slot_of(uint32_t run) { return run & ((1u << RUN_SLOT_BITS) - 1); }

/* Puts t into s and tells the executor, which takes over arg and proof. Output: at most 2 messages. */
static void start_task(struct worker *w, struct slot *s, struct task *t, bool is_long)
{
    struct msg_exec_start *m;

    worker_slot_run(w, s, t, is_long);
    worker_task_set_state(w, t, T_STARTING);
    t->run = new_run(w, s);
    if (t->proof)
        out_add(w->out, MSG_EXEC_PROOF, 0)->exec_proof = (struct msg_exec_proof){t->run, t->proof};
    m = &out_add(w->out, MSG_EXEC_START, 0)->exec_start;
    m->id = t->id;
    m->desc = job_desc_ref(t->job->desc);
    m->arg = t->arg;
    t->arg = t->proof = NULL;
    m->run = t->run;
    m->owner = t->job->owner->node;
    m->class = is_long ? CLASS_LONG : CLASS_SHORT;
    m->promotable = t->promotable;
    m->stolen = t->stolen;
}

/* A reservation became a task (Sparrow 3.4, late binding). The task starts, or waits for a pause to make
 * room. Output: at most 1 message. */
void worker_task_launch(struct worker *w, struct slot *s, struct job *j, const struct msg_task_launch *m)
{
    struct task *t = worker_task_new(w, j, &m->id);

    if (!j->desc)
        j->desc = job_desc_ref(m->desc);
    t->promotable = m->promotable;
    t->stolen = s->stolen;
    t->arrived_us = s->arrived_us;
    t->estimate_us = j->estimate_us;
    worker_count(w, COUNTER_tasks_stolen, s->stolen);
    t->arg = blob_ref(m->arg);
    t->proof = blob_ref(m->proof);
    if (s->state == SLOT_REQUESTED) {
        start_task(w, s, t, s->is_long);
        return;
    }
    worker_slot_give(w, s, t);
    worker_task_set_state(w, t, T_GIVEN);
}

void worker_task_begin(struct worker *w, struct task *t) { start_task(w, t->slot, t, false); }

void worker_given_return(struct worker *w, struct task *t, int err)
{
    if (owner_hears(t))
        worker_launch_refused(w, t->job->owner, &t->id, err);
    worker_slot_free(w, t->slot);
    worker_task_free(w, t);
}

void worker_request(struct worker *w, struct slot *s, struct entry *e)
{
    struct job *j = e->job;

    worker_slot_request(w, s, e);
    worker_count_reservations(w, j, -1);
    if (--e->q.count == 0) {
        worker_entry_unqueue(w, e);
        worker_entry_free(w, e);
    } else if (policy_has(&w->config.policy, POLICY_JOB_TURNS)) {
        steal_queue_go_behind(&e->lane->queue, &e->q);
    }
    worker_send_request(w, s, j);
}

static void take_off_queue(struct worker *w, struct task *t)
{
    struct entry *e = t->entry;

    worker_entry_unqueue(w, e);
    worker_entry_free(w, e);
    t->entry = NULL;
}

/* Gives a free slot to the next entry of a lane: a bound task starts, a reservation requests a task. Output:
 * 1 message. */
static void serve_entry(struct worker *w, struct lane *l, struct entry *e)
{
    struct slot *s = container_of(l->free.next, struct slot, link);
    struct task *t = e->task;
    bool is_long = e->q.is_long;

    if (!worker_entry_has_time(w, e)) { /* it waited too long: elsewhere it may still end */
        worker_entry_give_back(w, e, HAWK_ENO_TIME);
        return;
    }
    if (t && worker_lease_is_over(w)) { /* DESIGN 3.9: central may have placed it again by now */
        worker_task_return(w, t);
        return;
    }
    if (t) {
        steal_queue_served(&l->queue, &e->q);
        take_off_queue(w, t);
        start_task(w, s, t, is_long);
        return;
    }
    worker_request(w, s, e);
}

/* The slot ahead whose reservation came first. O(slots). */
static struct slot *first_ahead(const struct worker *w, const struct lane *l)
{
    struct slot *best = NULL;

    for (uint32_t i = 0; i < w->n_slots; i++) {
        struct slot *s = slot_at(w, i);

        if (s->lane == l && s->state == SLOT_AHEAD && (!best || s->arrived_us < best->arrived_us))
            best = s;
    }
    return best;
}

void worker_lane_dispatch(struct worker *w, struct lane *l)
{
    struct steal_entry *next;

    while (l->n_free > 0) {
        next = steal_queue_next(&l->queue);
        if (l->n_given > 0)
            worker_task_begin(w, container_of(l->given.next, struct slot, link)->task);
        else if (worker_pause_first(w, l, next))
            worker_pause_end(w, container_of(l->paused.next, struct slot, link));
        else if (l->n_ahead > 0)
            worker_slot_use(w, first_ahead(w, l));
        else if (next)
            serve_entry(w, l, container_of(next, struct entry, q));
        else
            break;
    }
}

/* ---- Bound tasks ---- */

/* Output: 1 message. */
void worker_task_return(struct worker *w, struct task *t)
{
    if (owner_hears(t))
        out_add(w->out, MSG_TASK_RETURNED, t->job->owner->node.v)->task_returned.id = t->id;
    take_off_queue(w, t);
    worker_task_free(w, t);
}

/* Central wants the task back: it would start sooner elsewhere, or its job is held. It stays if it is not queued any
 * more. Output: at most 1 message. */
void worker_on_task_recall(struct worker *w, const struct msg *in)
{
    struct owner *o = worker_owner_find(w, NODE_CENTRAL);
    struct task *t = o && o->state == OWNER_UP ? worker_task_find(w, o, &in->task_recall.id) : NULL;

    if (t && t->state == T_QUEUED)
        worker_task_return(w, t);
}

/* Central places a long task here (Hawk 3.7). The task goes straight back if the worker stops, is reserved
 * for short tasks or does not know its partition yet, does not serve its application or its user, has no time
 * for it before it ends, or its lease is over.
 * Output: at most 1 message. */
void worker_on_task_enqueue(struct worker *w, const struct msg *in)
{
    const struct msg_task_enqueue *m = &in->task_enqueue;
    struct owner *o = worker_owner_find(w, NODE_CENTRAL);
    struct job *j;
    struct task *t;

    w->long_got++;
    w->long_asked -= w->long_asked > 0;
    if (!o || o->state != OWNER_UP || worker_task_find(w, o, &m->id))
        return;
    if ((policy_has(worker_policy(w), POLICY_LATE_LONG) && w->n_free == 0) || !w->general || !m->desc ||
        worker_lease_is_over(w) ||
        worker_why_not(w, job_desc_app(m->desc), job_desc_user(m->desc), m->desc->estimate_us)) {
        out_add(w->out, MSG_TASK_RETURNED, o->node.v)->task_returned.id = m->id;
        return;
    }
    j = worker_job_get(w, o, m->id.job);
    if (!j->desc)
        j->desc = job_desc_ref(m->desc);
    j->app = job_desc_app(m->desc);
    j->user = job_desc_user(m->desc);
    t = worker_task_new(w, j, &m->id);
    t->arg = blob_ref(m->arg);
    t->proof = blob_ref(m->proof);
    t->estimate_us = m->estimate_us;
    t->arrived_us = w->now_us;
    t->entry = worker_entry_new(t);
    worker_entry_push(w, worker_lane_shortest(w), t->entry);
    worker_task_set_state(w, t, T_QUEUED);
}

/* ---- Running and ending ---- */

/* A task that outlives the cutoff makes its slot count as long (DESIGN 3.6). Output: 1 message per such
 * task. */
void worker_overrun_due(struct worker *w)
{
    while (worker_overrun_next(w) <= w->now_us) {
        struct task *t = container_of(w->promotable.next, struct task, promo_link);

        list_remove(&t->promo_link);
        t->overrun = true;
        worker_slot_mark_long(w, t->slot, true);
        if (owner_hears(t))
            send_overrun(w, t);
    }
}

int64_t worker_overrun_next(const struct worker *w)
{
    int64_t cutoff_us = worker_policy(w)->cutoff_us;

    if (list_empty(&w->promotable) || cutoff_us <= 0)
        return TIME_NEVER;
    return time_after(container_of(w->promotable.next, struct task, promo_link)->started_us, cutoff_us);
}

/* Tells the executor once per task, and once more when force is new. A task that was only given goes back.
 * Output: at most 1 message. */
void worker_task_kill(struct worker *w, struct task *t, enum outcome as, bool force)
{
    struct msg_exec_kill *m;

    if (t->kill_outcome != OUTCOME_NONE && (!force || t->kill_forced))
        return;
    if (t->state == T_GIVEN) {
        worker_given_return(w, t, HAWK_ESHUTDOWN);
        return;
    }
    if (t->kill_outcome == OUTCOME_NONE)
        t->kill_outcome = (uint8_t)as;
    t->kill_forced = force;
    if (t->slot && t->slot->state == SLOT_PAUSED)
        worker_pause_end(w, t->slot);
    m = &out_add(w->out, MSG_EXEC_KILL, 0)->exec_kill;
    m->run = t->run;
    m->force = force;
    m->outcome = t->kill_outcome;
}

static void send_forget(const struct worker *w, uint32_t run)
{
    if (w->config.successors)
        out_add(w->out, MSG_EXEC_FORGET, 0)->exec_forget.run = run;
}

/* Whether the run outlives this process: runs of executors and timers do not. Of a run that an earlier
 * process started nothing is known. */
static bool outlives_us(const struct task *t)
{
    return t->run && !t->job->app && (!t->job->desc || t->job->desc->kind == PAYLOAD_COMMAND);
}

void worker_task_forget(struct worker *w, struct task *t)
{
    if (outlives_us(t))
        send_forget(w, t->run);
    worker_task_free(w, t);
}

/* Ends t and frees its slot. t is kept until it is acknowledged, unless its owner is gone for good. Output:
 * at most 2 messages. */
static void finish_task(struct worker *w, struct task *t)
{
    const struct owner *o = t->job->owner;

    worker_pause_tell(w, t);
    if (t->slot)
        worker_slot_free(w, t->slot);
    worker_task_set_state(w, t, T_DONE);
    worker_count(w, COUNTER_tasks_finished, 1);
    if (t->outcome != OUTCOME_CANCELLED && (t->outcome != OUTCOME_EXITED || t->code != 0))
        worker_count(w, COUNTER_tasks_failed, 1);
    if (o->state == OWNER_UP)
        send_finished(w, t);
    else if (o->state == OWNER_AWAY && !owner_is_central(o))
        worker_task_forget(w, t);
}

/* Output: at most 1 message. A running task is told to die, and ends by EXEC_EXITED; a queued or given one
 * ends now. */
void worker_on_task_cancel(struct worker *w, const struct msg *in)
{
    struct owner *o = worker_owner_find(w, (node_id_t){in->peer});
    struct task *t = o ? worker_task_find(w, o, &in->task_cancel.id) : NULL;

    if (!t || o->state != OWNER_UP || t->state == T_DONE)
        return;
    if (t->state > T_GIVEN) {
        worker_task_kill(w, t, OUTCOME_CANCELLED, false);
        return;
    }
    if (t->entry)
        take_off_queue(w, t);
    t->outcome = OUTCOME_CANCELLED;
    finish_task(w, t);
}

/* Output: at most 1 message. */
void worker_on_finish_ack(struct worker *w, const struct msg *in)
{
    struct owner *o = worker_owner_find(w, (node_id_t){in->peer});
    struct task *t = o ? worker_task_find(w, o, &in->finish_ack.id) : NULL;

    if (t && o->state == OWNER_UP && t->state == T_DONE)
        worker_task_forget(w, t);
}

/* Output: at most 1 message. pid < 0: it could not be started, and EXEC_EXITED follows. */
void worker_on_exec_started(struct worker *w, const struct msg *in)
{
    struct task *t = worker_task_of_run(w, in->exec_started.run);
    struct msg_task_started *m;

    if (!t || t->state != T_STARTING || in->exec_started.pid < 0)
        return;
    t->started_us = w->now_us;
    t->wait_us = w->now_us > t->arrived_us ? w->now_us - t->arrived_us : 0;
    worker_task_set_state(w, t, T_RUNNING);
    worker_count(w, COUNTER_tasks_started, 1);
    if (t->slot->is_long)
        worker_lane_touch(w, t->slot->lane); /* now it may be paused, and a short task may wait for that */
    if (!owner_hears(t))
        return;
    m = &out_add(w->out, MSG_TASK_STARTED, t->job->owner->node.v)->task_started;
    m->id = t->id;
    m->wait_us = t->wait_us;
}

/* Output: at most 1 message. The slot's next request or task leaves in the same step. */
void worker_on_exec_exited(struct worker *w, const struct msg *in)
{
    const struct msg_exec_exited *m = &in->exec_exited;
    struct task *t = worker_task_of_run(w, m->run);

    if (!t) {
        send_forget(w, m->run);
        return;
    }
    t->result = blob_ref(m->result);
    t->run_us = m->run_us > 0 ? m->run_us : 0;
    t->used = m->used;
    t->code = m->code;
    t->outcome = m->outcome;
    if (m->outcome == OUTCOME_LOST && m->code == HAWK_ECANNOT_START)
        worker_service_failed(w, t->id.job, m);
    /* A task that was told to die ends with that outcome, unless it ended well by itself before. */
    if (t->kill_outcome != OUTCOME_NONE && !(m->outcome == OUTCOME_EXITED && m->code == 0))
        t->outcome = t->kill_outcome;
    finish_task(w, t);
}

/* ---- Tasks that an earlier process started ---- */

/* Inserts t in order of starts. */
static void promote_in_order(struct worker *w, struct task *t)
{
    struct list *at = &t->promo_link;

    if (list_empty(at))
        return;
    while (at->prev != &w->promotable &&
           container_of(at->prev, struct task, promo_link)->started_us > t->started_us) {
        struct list *before = at->prev;

        list_remove(at);
        list_insert_before(before, at);
    }
}

/* A running task takes its slot back. Its waiting time is not known any more. */
static void hold_running(struct worker *w, struct task *t, const struct msg_exec_held *m)
{
    t->started_us = m->run_us > 0 && m->run_us < w->now_us ? w->now_us - m->run_us : w->now_us;
    worker_slot_run(w, slot_at(w, worker_slot_of(m->run)), t, m->class == CLASS_LONG);
    worker_task_set_state(w, t, T_STARTING);
    worker_task_set_state(w, t, T_RUNNING);
    promote_in_order(w, t);
}

static void hold_done(struct worker *w, struct task *t, const struct msg_exec_held *m)
{
    t->result = blob_ref(m->result);
    t->run_us = m->run_us > 0 ? m->run_us : 0;
    t->code = m->code;
    t->outcome = m->outcome;
    worker_task_set_state(w, t, T_DONE);
}

/* Ends the run, if it has not ended; EXEC_EXITED will find no task. */
static void end_unknown_run(const struct worker *w, uint32_t run, bool runs)
{
    struct msg_exec_kill *m;

    if (!runs) {
        send_forget(w, run);
        return;
    }
    m = &out_add(w->out, MSG_EXEC_KILL, 0)->exec_kill;
    m->run = run;
    m->force = true;
    m->outcome = OUTCOME_LOST;
}

/* The executor still has a run of the process before this one: its owner hears of it when it has a stream
 * (protocol 6). A run that cannot be this worker's is ended. Comes before START, so that no owner is up.
 * Output: at most 1 message. */
void worker_on_exec_held(struct worker *w, const struct msg *in)
{
    const struct msg_exec_held *m = &in->exec_held;
    bool runs = m->outcome == OUTCOME_NONE;
    uint32_t slot = worker_slot_of(m->run), generation = m->run >> RUN_SLOT_BITS;
    struct owner *o = worker_owner_get(w, m->owner);
    struct task *t;

    if (generation > w->run_generation)
        w->run_generation = generation; /* the executor may still know all of them */
    if (worker_task_find(w, o, &m->id) || (runs && (slot >= w->n_slots || slot_at(w, slot)->task))) {
        end_unknown_run(w, m->run, runs);
        worker_owner_release(w, o);
        return;
    }
    t = worker_task_new(w, worker_job_get(w, o, m->id.job), &m->id);
    t->run = m->run;
    t->promotable = m->promotable;
    t->stolen = m->stolen;
    if (runs)
        hold_running(w, t, m);
    else
        hold_done(w, t, m);
    if (owner_is_central(o) || o->state != OWNER_AWAY)
        return;
    worker_owner_set_state(w, o, OWNER_UP); /* as if it had been up until now */
    worker_dist_away(w, o);
}

/* Output: none. Its end has not been sent yet, since no owner is up. */
void worker_on_exec_used(struct worker *w, const struct msg *in)
{
    const struct msg_exec_used *m = &in->exec_used;
    struct owner *o = worker_owner_find(w, m->owner);
    struct task *t = o ? worker_task_find(w, o, &m->id) : NULL;

    if (t && t->state == T_DONE)
        t->used = m->used;
}
