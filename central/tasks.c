/* Long tasks: placed by waiting time, started, finished, returned, held, lost (protocol 4, 6; Hawk 3.7). */
#include "central/tasks.h"
#include "central/hold.h"
#include "central/journal.h"

#include "base/check.h"
#include "owner/jobs.h"
#include "owner/retries.h"

/* ---- States and places ---- */

static uint32_t number_of(const struct long_task *t)
{
    uint32_t i = central_task_index(t);

    return t->job->set ? t->job->set->v[i] : i;
}

struct try_id central_task_try(const struct long_task *t)
{
    return (struct try_id){.job = {t->job->key.job},
                           .task = number_of(t),
                           .epoch = (uint16_t)t->job->key.epoch,
                           .attempt = t->attempt};
}

struct usage central_task_used(const struct long_task *t)
{
    return task_state_final(t->state) ? t->used : (struct usage){0};
}

void central_task_set_state(struct central *c, struct long_task *t, enum task_state state)
{
    struct long_job *j = t->job;

    CHECK(!task_state_final(t->state));
    owner_pause_end(&j->pauses, central_task_index(t), c->now_us);
    c->tasks_in[t->state]--;
    t->state = (uint8_t)state;
    if (!task_state_final(state)) {
        c->tasks_in[state]++;
        return;
    }
    j->final++;
    j->ended[state]++;
    if (state == TASK_DONE) {
        j->run_us += (uint64_t)t->run_us;
        kept_resize(c, j);
    }
}

/* n will not get t, so it still has the slot for which it asked. A worker that has joined again since counts
 * anew. */
static void take_back_unsent(struct central *c, const struct long_task *t, struct node *n)
{
    if (!t->unsent || t->seen != n->joins)
        return;
    n->sent--;
    n->room += n->room < n->slots;
    central_node_update_eligible(c, n);
}

/* t is at a worker. */
static void count_running(struct long_task *t, bool in)
{
    uint32_t one = in ? 1u : -1u;

    if (!t->w.running)
        return;
    t->job->running += one;
    t->job->ageing += t->w.stands ? 0 : one;
    t->job->ages_us += in ? waiting_age(&t->w, 0) : -waiting_age(&t->w, 0);
}

/* What a worker says that t has run. A central that has another one's jobs does not know since when they are there. */
static int64_t credible(const struct central *c, const struct long_task *t, int64_t run_us)
{
    return t->job->inherited ? run_us : run_us_credible(run_us, c->now_us - t->job->since_us);
}

void central_task_ran(struct central *c, struct long_task *t, int64_t run_us, bool stands)
{
    count_running(t, false);
    waiting_ran(&c->waiting, &t->w, credible(c, t, run_us), stands, c->now_us);
    count_running(t, true);
}

void central_task_forget(struct central *c, struct long_task *t)
{
    if (t->place == PLACE_WORKER) {
        struct node *n = container_of(t->w.worker, struct node, waiting);

        count_running(t, false);
        waiting_end(&c->waiting, &t->w, c->now_us);
        take_back_unsent(c, t, n);
    } else if (t->place == PLACE_QUEUE) {
        kept_remove(c, t);
    } else if (t->place == PLACE_DELAYED) {
        heap_remove(&c->delayed, &t->w.timer);
        list_init(&t->w.link);
    } else {
        list_remove(&t->w.link);
    }
    t->place = PLACE_NONE;
}

static struct node *node_of(const struct long_task *t)
{
    return t->place == PLACE_WORKER ? container_of(t->w.worker, struct node, waiting) : NULL;
}

void central_task_tell(struct central *c, const struct long_task *t)
{
    for (uint32_t i = 0; i < t->job->n_watchers; i++) {
        const struct node *dist = central_node_by_id(c, t->job->watchers[i].dist);

        if (dist)
            central_task_send(c, t, dist);
    }
}

/* Returns whether that changes its state. */
static bool put_in_queue(struct central *c, struct long_task *t)
{
    central_task_forget(c, t);
    t->place = PLACE_QUEUE;
    kept_add(c, t);
    if (t->state == TASK_WAITING)
        return false;
    central_task_set_state(c, t, TASK_WAITING);
    return true;
}

void central_task_queue(struct central *c, struct long_task *t)
{
    if (put_in_queue(c, t))
        central_task_tell(c, t);
}

void central_task_limbo(struct central *c, struct long_task *t, int64_t due_us)
{
    struct list *at = &c->limbo;

    central_task_forget(c, t);
    t->place = PLACE_LIMBO;
    t->w.due_us = due_us;
    t->w.not_before_us = 0;
    while (at->prev != &c->limbo && container_of(at->prev, struct waiting_task, link)->due_us > due_us)
        at = at->prev;
    list_insert_before(at, &t->w.link);
}

void central_task_delay(struct central *c, struct long_task *t, int64_t until_us)
{
    central_task_forget(c, t);
    t->place = PLACE_DELAYED;
    t->w.timer = (struct heap_node){.key = until_us, .seq = ++c->tasks_delayed};
    CHECK(heap_push(&c->delayed, &t->w.timer) == 0);
}

/* ---- Messages ---- */

/* Sent before the task's end, after which the dist listens to nothing about the task. */
static void send_message(struct central *c, const struct long_task *t, const struct node *dist)
{
    struct blob *text = owner_message_find(&t->job->messages, central_task_index(t));
    struct msg *m = text ? central_send(c, dist, MSG_LONG_MESSAGE) : NULL;

    if (!m)
        return;
    m->long_message.id = central_task_try(t);
    m->long_message.text = blob_ref(text);
}

void central_task_send(struct central *c, const struct long_task *t, const struct node *dist)
{
    bool final = task_state_final(t->state), over = final && t->durable;
    struct msg *m;

    if ((t->outcome == OUTCOME_NOT_STARTED || t->job->app) && over)
        send_message(c, t, dist);
    if (t->state == TASK_DONE && over)
        central_result_send(c, t, dist);
    m = central_send(c, dist, MSG_LONG_TASK);
    if (!m)
        return;
    m->long_task.id = central_task_try(t);
    /* The estimates of a queue may come to more. */
    m->long_task.wait_us = t->wait_us < LIMIT_TIME_US ? t->wait_us : LIMIT_TIME_US;
    m->long_task.worker = t->worker;
    /* The task's end is not on record yet, so dists must not hear of it. */
    if (final && !over) {
        m->long_task.state = t->reported ? TASK_RUNNING : TASK_WAITING;
        return;
    }
    m->long_task.run_us = t->run_us;
    m->long_task.code = t->code;
    m->long_task.state = t->state;
    if (final || t->place == PLACE_DELAYED)
        m->long_task.outcome = t->outcome;
    if (final)
        m->long_task.used = t->used;
}

static void send_cancel(struct central *c, const struct node *worker, const struct try_id *id)
{
    struct msg *m = central_send(c, worker, MSG_TASK_CANCEL);

    if (m)
        m->task_cancel.id = *id;
}

static void send_finish_ack(struct central *c, const struct node *worker, const struct try_id *id)
{
    struct msg *m = central_send(c, worker, MSG_FINISH_ACK);

    if (m)
        m->finish_ack.id = *id;
}

/* ---- Ends ---- */

/* Ends a task; outcome, code and times are set. Watchers hear of it when it is durable. */
static void end_task(struct central *c, struct long_task *t, struct usage used)
{
    struct long_job *j = t->job;
    bool before = owner_failed_too_often(j->desc, j->ended);

    central_task_forget(c, t);
    t->used = used;
    central_task_set_state(c, t, owner_final_state(t->outcome, t->code));
    central_journal_task(c, t);
    if (!before && owner_failed_too_often(j->desc, j->ended))
        list_push_tail(&c->touched, &j->touched);
}

void central_task_end_unreported(struct central *c, struct long_task *t, enum outcome outcome, int32_t code)
{
    t->outcome = (uint8_t)outcome;
    t->code = code;
    t->run_us = 0;
    end_task(c, t, (struct usage){0});
}

void central_ack_journalled_completion(struct central *c, struct long_task *t)
{
    const struct node *worker = t->reported ? central_node_by_id(c, t->worker) : NULL;
    struct try_id id = central_task_try(t);

    t->durable = true;
    t->job->durable++;
    if (worker)
        send_finish_ack(c, worker, &id);
    central_task_tell(c, t);
    central_jobs_progress(c, t->job);
}

static bool at_most_once(const struct long_task *t) { return t->job->desc->flags & JOB_AT_MOST_ONCE; }

static void lose_task(struct central *c, struct long_task *t, bool started)
{
    if (t->cancelled) {
        central_task_end_unreported(c, t, OUTCOME_CANCELLED, 0);
    } else if (!owner_may_retry(t->job->desc, !t->unsent, started, t->losses + 1u)) {
        central_task_end_unreported(c, t, OUTCOME_LOST, 0);
    } else {
        t->losses = (uint16_t)(t->losses + started);
        central_task_queue(c, t);
    }
}

void central_task_lost(struct central *c, struct long_task *t) { lose_task(c, t, t->state == TASK_RUNNING); }

bool central_reports_due(const struct central *c)
{
    return central_partition_settles(c) || c->n_reporting > 0;
}

bool central_task_nowhere(const struct long_task *t)
{
    return t->place == PLACE_LIMBO && t->state == TASK_WAITING;
}

void central_task_cancel(struct central *c, struct long_task *t)
{
    struct try_id id = central_task_try(t);

    if (task_state_final(t->state) || t->cancelled)
        return;
    if (t->place == PLACE_QUEUE || t->place == PLACE_DELAYED || t->unsent ||
        (central_task_nowhere(t) && !central_reports_due(c))) {
        central_task_end_unreported(c, t, OUTCOME_CANCELLED, 0);
        return;
    }
    t->cancelled = true;
    c->unwanted = c->unwanted || central_task_nowhere(t);
    if (t->place == PLACE_WORKER)
        send_cancel(c, node_of(t), &id);
}

/* ---- Placement ---- */

static void send_enqueue(struct central *c, const struct long_task *t, const struct node *n)
{
    struct msg *m = central_send(c, n, MSG_TASK_ENQUEUE);

    m->task_enqueue.id = central_task_try(t);
    m->task_enqueue.desc = job_desc_ref(t->job->desc);
    m->task_enqueue.arg = job_desc_arg(t->job->desc, m->task_enqueue.id.task);
    m->task_enqueue.proof = job_desc_proof(t->job->desc, m->task_enqueue.id.task);
    m->task_enqueue.estimate_us = t->job->estimate_us;
}

struct long_task *central_task_unsent(const struct central *c, const struct try_id *id)
{
    struct long_task *t = central_jobs_find_task(c, id);

    return t && t->unsent && t->attempt == id->attempt && t->place == PLACE_WORKER ? t : NULL;
}

void central_task_launch_journalled(struct central *c, const struct try_id *id)
{
    struct long_task *t = central_task_unsent(c, id);

    if (!t)
        return;
    if (!central_node_may_take(node_of(t)) || t->job->held) {
        central_task_queue(c, t); /* meanwhile its worker was reserved, or was lost, or the job is held */
        return;
    }
    t->unsent = false;
    send_enqueue(c, t, node_of(t));
}

static void place_at(struct central *c, struct long_task *t, struct node *n)
{
    t->attempt++;
    t->unsure = t->recalled = false;
    t->outcome = OUTCOME_NONE;
    t->wait_us = waiting_at(&n->waiting, c->now_us);
    t->worker = n->id;
    t->seen = n->joins;
    central_task_forget(c, t);
    waiting_place(&c->waiting, &n->waiting, &t->w, t->job->estimate_us, c->now_us);
    t->place = PLACE_WORKER;
    central_task_set_state(c, t, TASK_PLACED);
    c->counters[COUNTER_tasks_placed]++;
    if (t->attempt > 1)
        c->counters[COUNTER_tasks_retried]++;
    n->sent++;
    n->room -= n->room > 0;
    central_node_update_eligible(c, n);
    /* Other first launches have no record: a central that restarts assumes that everything was launched
     * once. */
    t->unsent = at_most_once(t);
    if (t->unsent)
        central_journal_launch(c, t);
    else if (t->attempt > 1)
        central_journal_note(c, t);
    if (!t->unsent)
        send_enqueue(c, t, n);
    central_task_tell(c, t);
}

void central_task_place(struct central *c, struct long_task *t, struct node *n)
{
    if (t->attempt < UINT16_MAX) {
        place_at(c, t, n);
        return;
    }
    central_task_end_unreported(c, t, OUTCOME_LOST, 0);
    central_jobs_settle(c);
}

/* ---- Reports from workers ---- */

/* Whether another worker than n has, or had, the try: n can know nothing of it. Every launch of a task at most
 * once is on record, so that this is also known after a restart. An older version's record names no worker. */
static bool is_elsewhere(const struct long_task *t, const struct node *n, uint16_t attempt)
{
    bool known = at_most_once(t) ? t->worker.v != 0 : t->place == PLACE_WORKER && attempt == t->attempt;

    return known && !node_eq(t->worker, n->id);
}

/* The task of this try, if n has it. Also if no worker has it now and n reports it: then n has it again.
 * NULL: the report is stale. */
static struct long_task *held_by(struct central *c, struct node *n, const struct try_id *id)
{
    struct long_task *t = central_jobs_find_task(c, id);

    if (!t || task_state_final(t->state) || id->attempt == 0 || is_elsewhere(t, n, id->attempt))
        return NULL;
    if (t->place == PLACE_WORKER)
        return id->attempt == t->attempt ? t : NULL;
    if (t->place == PLACE_NONE || (id->attempt != t->attempt && !(t->unsure && id->attempt > t->attempt)))
        return NULL;
    if (id->attempt == t->attempt && t->outcome != OUTCOME_NONE)
        return NULL; /* that try has failed */
    t->attempt = id->attempt;
    t->outcome = OUTCOME_NONE;
    t->unsure = t->unsure && !central_workers_all_back(c);
    t->worker = n->id;
    central_task_forget(c, t);
    waiting_place(&c->waiting, &n->waiting, &t->w, t->job->estimate_us, c->now_us);
    t->place = PLACE_WORKER;
    central_task_set_state(c, t, TASK_PLACED);
    return t;
}

static void start_task(struct central *c, struct long_task *t, int64_t run_us)
{
    if (t->state == TASK_RUNNING)
        return;
    waiting_start(&c->waiting, &t->w, c->now_us - credible(c, t, run_us), c->now_us);
    count_running(t, true);
    central_task_set_state(c, t, TASK_RUNNING);
    central_starts_began(c, t, node_of(t));
}

void central_on_task_started(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_task_started *m = &in->task_started;
    struct long_task *t = held_by(c, n, &m->id);

    if (!t) {
        const struct long_task *known = central_jobs_find_task(c, &m->id);

        /* A late report of the try whose end is known needs no answer. Any other try must end. */
        if (!known || known->attempt != m->id.attempt || !node_eq(known->worker, n->id))
            send_cancel(c, n, &m->id);
        return;
    }
    t->seen = n->joins;
    if (t->state == TASK_RUNNING)
        return;
    t->wait_us = c->now_us - t->job->since_us;
    start_task(c, t, 0);
    central_task_tell(c, t);
}

/* A try of t has ended, and t is to run again. If a worker that is not back may have a later try, which is not on
 * record, t waits until that worker has reported it, or its lease is over. */
static void wait_for_reports(struct central *c, struct long_task *t)
{
    if (t->place == PLACE_QUEUE && t->unsure && !central_workers_all_back(c))
        central_task_limbo(c, t, c->now_us + c->cfg.long_lease_us);
}

/* The task failed. True: that is not its end (protocol 3.14): it runs again, or another try of it counts. */
static bool retry(struct central *c, struct long_task *t, const struct msg_task_finished *m)
{
    const struct job_desc *desc = t->job->desc;
    int64_t delay_us, due_us;
    bool news;

    if (!owner_retry_on(desc, m->outcome, m->code))
        return false;
    /* An earlier try, or the same report again; or one that this central's journal does not have, while it
     * already runs elsewhere. */
    if (m->id.attempt < t->attempt || (m->id.attempt == t->attempt && t->outcome != OUTCOME_NONE) ||
        (node_of(t) && node_of(t) != c->from))
        return true;
    if (t->cancelled || m->id.attempt == UINT16_MAX || !owner_has_retries(desc, t->failures))
        return false;
    t->attempt = m->id.attempt;
    t->unsure = t->unsure && !central_workers_all_back(c);
    t->failures++;
    c->counters[COUNTER_tasks_failed_again]++;
    delay_us = owner_retry_delay_us(desc, t->failures);
    due_us = c->now_us + delay_us;
    news = put_in_queue(c, t);
    wait_for_reports(c, t);
    if (delay_us > 0 && t->place == PLACE_QUEUE)
        central_task_delay(c, t, due_us);
    else if (delay_us > c->cfg.long_lease_us)
        central_task_limbo(c, t, due_us);
    if (t->place == PLACE_LIMBO)
        t->w.not_before_us = due_us;
    t->outcome = m->outcome;
    if (news || t->place == PLACE_DELAYED)
        central_task_tell(c, t);
    central_journal_note(c, t);
    return true;
}

/* Accepts the first completion of a task, whatever its try (protocol 3.11). */
static void record_completion(struct central *c, struct node *n, struct long_task *t,
                              const struct msg_task_finished *m)
{
    struct try_id current = central_task_try(t);
    struct node *other = node_of(t);

    if (other && (other != n || !try_eq(&current, &m->id)))
        send_cancel(c, other, &current);
    t->attempt = m->id.attempt;
    t->worker = n->id;
    t->outcome = m->outcome;
    t->code = m->code;
    t->run_us = credible(c, t, m->run_us);
    t->reported = true;
    if (owner_message_of_end(&t->job->messages, central_task_index(t), t->job->app != NULL, m) &&
        !central_result_keep(c, t, m->result))
        t->code = 1;
    if (m->outcome != OUTCOME_NOT_STARTED)
        central_starts_began(c, t, n);
    end_task(c, t, m->used);
}

/* The task never ran. */
static void not_started(struct central *c, struct node *n, struct long_task *t,
                        const struct msg_task_finished *m)
{
    if (owner_finish_of(m, false) == FINISH_REFUSED || central_starts_failed(c, n, t)) {
        central_task_queue(c, t);
        wait_for_reports(c, t);
        return;
    }
    owner_message_keep(&t->job->messages, central_task_index(t), m->result);
    central_task_end_unreported(c, t, OUTCOME_NOT_STARTED, CODE_CANNOT_START);
}

void central_on_task_finished(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_task_finished *m = &in->task_finished;
    struct long_task *t = central_jobs_find_task(c, &m->id);

    if (!t || t->job->state == LONG_JOURNALLING) {
        send_finish_ack(c, n, &m->id);
        return;
    }
    if (task_state_final(t->state)) {
        /* The accepted completion again: FINISH_ACK follows when it is durable. */
        if (t->durable || !t->reported || t->attempt != m->id.attempt || !node_eq(t->worker, n->id))
            send_finish_ack(c, n, &m->id);
        return;
    }
    if (owner_finish_of(m, false) != FINISH_ENDED && !(m->outcome == OUTCOME_CANCELLED && t->cancelled)) {
        /* A waiting task is known to be lost already. An unsure one may have a later try that is not on
         * record. */
        t = t->place == PLACE_QUEUE || (t->unsure && t->place != PLACE_WORKER) ? NULL : held_by(c, n, &m->id);
        send_finish_ack(c, n, &m->id);
        if (t && !t->cancelled && owner_finish_of(m, t->state != TASK_PLACED) > FINISH_GIVEN_UP) {
            not_started(c, n, t, m);
        } else if (t) {
            lose_task(c, t, true);
            wait_for_reports(c, t);
        }
        return;
    }
    if (m->id.attempt == 0 || is_elsewhere(t, n, m->id.attempt) ||
        (m->id.attempt > t->attempt && !t->unsure) || retry(c, t, m))
        send_finish_ack(c, n, &m->id);
    else
        record_completion(c, n, t, m);
}

void central_on_task_returned(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_task_returned *m = &in->task_returned;
    struct long_task *t = held_by(c, n, &m->id);
    bool asked = t && t->recalled;

    if (!t)
        return;
    if (t->cancelled) {
        central_task_end_unreported(c, t, OUTCOME_CANCELLED, 0);
    } else {
        central_task_queue(c, t);
        wait_for_reports(c, t);
    }
    /* The worker handed the task back unasked, and would hand back the next one, too. Its next heartbeat ends
     * the hold. */
    if (!asked && !policy_has(&c->policy, POLICY_LATE_LONG) && n->general && n->acked &&
        central_node_serves(n, t->job->app))
        central_nodes_hold(c, n, true);
}

void central_on_task_held(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    const struct msg_task_held *m = &in->task_held;
    struct long_task *t;

    if (task_state_final(m->state))
        return; /* TASK_FINISHED follows */
    t = held_by(c, n, &m->id);
    if (!t || t->cancelled)
        send_cancel(c, n, &m->id);
    if (!t)
        return;
    t->seen = n->joins;
    t->recalled = false; /* the recall was lost with the stream */
    if (m->state == TASK_RUNNING)
        start_task(c, t, m->run_us);
    else if (t->job->held)
        central_recall_task(c, t);
    central_task_tell(c, t);
}

static void lose_unseen(struct central *c, struct node *n, struct list *tasks)
{
    list_foreach(tasks, entry, next) {
        struct long_task *t = container_of(entry, struct long_task, w.link);

        if (t->seen != n->joins)
            central_task_lost(c, t);
    }
}

void central_on_held_end(struct central *c, const struct msg *in)
{
    struct node *n = c->from;

    central_node_set_reporting(c, n, false);
    lose_unseen(c, n, &n->waiting.running);
    lose_unseen(c, n, &n->waiting.queued);
    central_tasks_place_unreported(c);
}
