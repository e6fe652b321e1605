/* Tasks that this dist launches: late binding (Sparrow 3.5), starts, completions, and tasks that a worker
 * still holds when it comes back. Central's tasks only pass through dist_task_set_state() (handover.c). */
#include "dist/internal.h"

#include "base/check.h"
#include "base/units.h"

/* Attempts are numbered with 16 bits: after so many tries that cost none, a refused one costs a retry. */
#define REFUSALS_MAX 1000u

struct try_id dist_task_try(const struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    return (struct try_id){.job = job->id,
                           .task = i,
                           .epoch = t->central   ? job->epoch
                                    : t->adopted ? t->epoch
                                                 : job->own_epoch,
                           .attempt = t->attempt};
}

/* ---- State = list membership ---- */

static void link_task(struct dist_job *job, uint32_t *head, uint32_t i)
{
    struct dist_task *t = &job->tasks[i];

    t->prev = TASK_NIL;
    t->next = *head;
    if (*head != TASK_NIL)
        job->tasks[*head].prev = i;
    *head = i;
}

static void unlink_task(struct dist_job *job, uint32_t *head, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    if (t->prev == TASK_NIL) {
        CHECK(*head == i);
        *head = t->next;
    } else {
        job->tasks[t->prev].next = t->next;
    }
    if (t->next != TASK_NIL)
        job->tasks[t->next].prev = t->prev;
}

void dist_task_move(struct dist_job *job, uint32_t *from, uint32_t *to, uint32_t i)
{
    unlink_task(job, from, i);
    link_task(job, to, i);
}

static bool at_worker(uint8_t state) { return state == TASK_LAUNCHED || state == TASK_RUNNING; }

void dist_task_reach(struct dist_job *job, uint32_t i)
{
    uint32_t from = job->cursor;

    if (i < from)
        return;
    job->cursor = i + 1;
    for (uint32_t k = i + 1; k-- > from;) /* the lowest comes first */
        link_task(job, &job->returned, k);
}

/* Removes task i from the list of its state. */
static void leave_list(struct dist *d, struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];

    if (t->state == TASK_WAITING) {
        if (i < job->cursor) {
            unlink_task(job, &job->returned, i);
        } else {
            CHECK(i == job->cursor);
            job->cursor++;
        }
        job->unlaunched--;
    } else if (at_worker(t->state)) {
        struct dist_node *n = dist_node_find(d, t->worker);
        struct dist_place *p;

        CHECK(n);
        p = dist_place_find(d, job, n);
        CHECK(p);
        unlink_task(job, &p->launched, i);
        dist_place_settle(d, p);
    }
}

static void task_event(struct dist *d, const struct dist_job *job, uint32_t i)
{
    const struct dist_task *t = &job->tasks[i];
    struct msg_task_event *e = &out_add(d->out, MSG_TASK_EVENT, 0)->task_event;

    e->id = dist_task_try(job, i);
    e->run_us = task_state_final(t->state) ? t->run_us : 0;
    e->wait_us = t->started ? t->wait_us : 0;
    e->worker = (node_id_t){t->worker};
    e->code = task_state_final(t->state) ? t->code : 0;
    e->state = t->state;
    e->outcome = task_state_final(t->state) ? t->outcome : OUTCOME_NONE;
}

/* Counts a task of this dist as running, or (sign -1) not any more. */
static void count_running(struct dist_job *job, const struct dist_task *t, int sign)
{
    if (t->central)
        return;
    job->ages_n += (uint32_t)sign;
    job->ages_us += sign * t->wait_us;
}

void dist_task_set_state(struct dist *d, struct dist_job *job, uint32_t i, enum task_state to,
                         struct dist_place *place)
{
    struct dist_task *t = &job->tasks[i];
    enum task_state from = t->state;

    CHECK(!task_state_final(from));
    CHECK(to != TASK_PLACED || t->central);
    /* A task that starts where it was launched stays in its place's list. */
    if (!t->central && !(from == TASK_LAUNCHED && to == TASK_RUNNING)) {
        CHECK((place != NULL) == at_worker(to));
        dist_job_touch(d, job);
        leave_list(d, job, i);
        if (to == TASK_WAITING) {
            job->unwanted_back |= dist_task_unwanted(job, i);
            link_task(job, &job->returned, i);
            job->unlaunched++;
        } else if (place) {
            t->worker = place->node->m.node.v;
            link_task(job, &place->launched, i);
        }
    }
    if (t->central && task_state_final(to)) {
        job->central_n--;
        t->asked = 0;
        dist_job_touch(d, job);
    }
    if (from == TASK_RUNNING) {
        count_running(job, t, -1);
        owner_pause_end(&job->pauses, i, d->now_us);
    }
    if (to == TASK_RUNNING)
        count_running(job, t, 1);
    t->state = (uint8_t)to & 15;
    t->unsent = t->doubtful = 0;
    if (to == TASK_WAITING)
        dist_task_waits_for_nothing(t);
    if (task_state_final(to))
        t->used = (struct usage){0};
    job->in[from]--;
    job->in[to]++;
    d->tasks_in[from]--;
    d->tasks_in[to]++;
    if (job->watchers > 0)
        task_event(d, job, i);
    if (task_state_final(to) && !list_empty(&job->task_successors))
        dist_after_task(d, job, i);
    /* A start that was never reported is known from the end. */
    if ((to == TASK_RUNNING || to == TASK_DONE || to == TASK_FAILED) &&
        state_in(1u << JOB_WAITING | 1u << JOB_BLOCKED | 1u << JOB_HELD, job->state))
        dist_job_set_state(d, job, JOB_RUNNING);
}

/* Sets a task to the state that the client knows. It counts for the job, and for nothing else, as the cutoff. */
static void restore(struct dist *d, struct dist_job *job, const struct resubmit_task *r)
{
    struct dist_task *t = &job->tasks[r->task];

    if (task_state_final(t->state))
        return; /* named twice */
    t->state = r->state & 15;
    t->outcome = r->outcome & 7;
    t->code = r->code;
    t->attempt = r->attempt;
    t->worker = r->worker;
    t->started = r->wait_us >= 0;
    t->wait_us = r->wait_us;
    t->run_us = r->run_us > 0 ? r->run_us : 0;
    dist_task_note_used(job, t, r->used);
    owner_starts_recovered(&job->starts, r->outcome);
    if (t->started && (job->first_wait_us < 0 || t->wait_us < job->first_wait_us))
        job->first_wait_us = t->wait_us;
    job->unlaunched--;
    job->in[TASK_WAITING]--;
    job->in[t->state]++;
    d->tasks_in[TASK_WAITING]--;
    d->tasks_in[t->state]++;
}

void dist_tasks_restore(struct dist *d, struct dist_job *job, const struct resubmit *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        restore(d, job, &r->v[i]);
    /* The other tasks may be anywhere in between. */
    job->cursor = job->desc->tasks;
    for (uint32_t at = job->desc->tasks; at-- > 0;) {
        uint32_t i = r->order ? r->order[at] : at;

        if (!task_state_final(job->tasks[i].state))
            link_task(job, &job->returned, i);
    }
}

bool dist_task_launches_kept(const struct dist_job *job)
{
    return job->journalled && job->life > 0 && (job->desc->flags & JOB_AT_MOST_ONCE);
}

void dist_tasks_doubt(struct dist *d, struct dist_job *job)
{
    if (!(job->desc->flags & JOB_AT_MOST_ONCE) || job->own_epoch == EPOCH_FIRST)
        return;
    for (uint32_t i = 0; i < job->desc->tasks; i++) {
        const struct dist_task *t = &job->tasks[i];

        if (t->state != TASK_WAITING || t->central || (dist_task_launches_kept(job) && !t->doubtful))
            continue;
        dist_task_reach(job, i);
        dist_task_end_unrun(d, job, i, OUTCOME_LOST, 0);
    }
}

void dist_task_hand(struct dist_job *job, uint32_t i)
{
    CHECK(job->tasks[i].state == TASK_WAITING);
    CHECK(!job->tasks[i].central);
    dist_task_reach(job, i);
    unlink_task(job, &job->returned, i);
    job->tasks[i].central = 1;
    job->unlaunched--;
}

void dist_task_give_back(struct dist_job *job, uint32_t i)
{
    CHECK(job->tasks[i].state == TASK_WAITING);
    CHECK(job->tasks[i].central);
    job->tasks[i].central = job->tasks[i].asked = 0;
    job->tasks[i].free = job->tasks[i].attempt; /* central's tries */
    job->unwanted_back = true;
    link_task(job, &job->returned, i);
    job->unlaunched++;
}

/* ---- What happens to a task ---- */

/* A start is reported late, by the time that the message took: of two reports the earlier start is right. */
static void note_start(struct dist *d, struct dist_job *job, struct dist_task *t, int64_t run_us)
{
    int64_t wait_us = d->now_us - run_us - job->submit_us;

    if (wait_us < 0)
        wait_us = 0;
    if (t->started && t->wait_us <= wait_us)
        return;
    if (t->state == TASK_RUNNING)
        count_running(job, t, -1);
    t->started = 1;
    t->wait_us = wait_us;
    if (t->state == TASK_RUNNING)
        count_running(job, t, 1);
    if (job->first_wait_us < 0 || t->wait_us < job->first_wait_us)
        job->first_wait_us = t->wait_us;
}

void dist_task_started(struct dist *d, struct dist_job *job, uint32_t i, int64_t run_us)
{
    struct dist_task *t = &job->tasks[i];

    note_start(d, job, t, run_us);
    dist_starts_began(d, job, i, t->worker);
    if (t->state != TASK_RUNNING)
        dist_task_set_state(d, job, i, TASK_RUNNING, NULL);
}

void dist_task_end(struct dist *d, struct dist_job *job, uint32_t i, enum outcome outcome, int32_t code,
                   int64_t run_us, struct usage used)
{
    struct dist_task *t = &job->tasks[i];
    enum task_state to = owner_final_state(outcome, code);

    if (dist_task_delayed(t))
        dist_task_undelay(d, job, i);
    if (dist_task_blocked(t))
        dist_task_unblock(d, job, i);
    t->outcome = (uint8_t)outcome & 7;
    t->code = code;
    t->run_us = run_us;
    if (to == TASK_DONE || to == TASK_FAILED)
        note_start(d, job, t, run_us);
    if (to == TASK_DONE)
        dist_job_add_run_time(job, run_us);
    dist_task_set_state(d, job, i, to, NULL);
    dist_task_note_used(job, t, used);
    dist_journal_task(d, job, i);
}

void dist_task_refused(struct dist *d, struct dist_job *job, uint32_t i)
{
    struct dist_task *t = &job->tasks[i];

    t->unsent = 0;
    if (dist_task_unwanted(job, i) || t->free >= REFUSALS_MAX) {
        dist_task_return(d, job, i);
        return;
    }
    t->free++;
    t->started = 0;
    dist_task_set_state(d, job, i, TASK_WAITING, NULL);
}

/* Answers that the worker gets no task; under CANCEL_PROBES it drops all that it has of the job. */
static void put_no_task(struct dist *d, struct dist_job *job, struct dist_node *n, job_id_t id,
                        uint32_t request)
{
    struct msg_no_task *m = &out_add(d->out, MSG_NO_TASK, n->m.node.v)->no_task;
    uint32_t unused = dist_probe_drop(d, job, n);

    m->job = id;
    m->request = request;
    if (job)
        job->probes_unused += unused;
}

/* The launch was not sent: its worker, if it is there, gets NO_TASK. */
static void unlaunch(struct dist *d, struct dist_job *job, uint32_t i)
{
    struct dist_node *n = dist_node_find(d, job->tasks[i].worker);
    uint32_t request = job->tasks[i].request;

    dist_task_refused(d, job, i);
    if (n && n->stream)
        put_no_task(d, job, n, job->id, request);
}

void dist_task_return(struct dist *d, struct dist_job *job, uint32_t i)
{
    struct dist_task *t = &job->tasks[i];

    if (t->unsent) {
        unlaunch(d, job, i);
    } else if (dist_task_unwanted(job, i)) {
        dist_task_end_unrun(d, job, i, OUTCOME_CANCELLED, 0);
    } else if (!dist_task_may_retry(job, t)) {
        dist_task_end_unrun(d, job, i, OUTCOME_LOST, 0);
    } else {
        t->started = 0;
        dist_task_set_state(d, job, i, TASK_WAITING, NULL);
    }
}

/* ---- Requests (docs/protocol.md 3.6, 3.7) ---- */

static void put_launch(struct dist *d, struct dist_job *job, struct dist_node *n, uint32_t i, bool spec)
{
    struct msg_task_launch *m;
    struct blob *arg = job_desc_arg(job->desc, i);

    job->backoff = 0;
    m = &out_add(d->out, MSG_TASK_LAUNCH, job->tasks[i].worker)->task_launch;
    m->id = dist_task_try(job, i);
    m->desc = spec ? job_desc_ref(job->desc) : NULL;
    m->arg = arg;
    m->proof = job_desc_proof(job->desc, i);
    m->request = job->tasks[i].request;
    m->promotable = dist_job_promotable(job);
    beats_bulk(&n->beats, d->now_us, (arg ? arg->len : 0) + (spec ? job_desc_bytes(job->desc) : 0));
}

static void launch_next(struct dist *d, struct dist_job *job, struct dist_node *n, const struct msg *request)
{
    uint32_t i = job->returned != TASK_NIL ? job->returned : job->cursor;
    struct dist_task *t = &job->tasks[i];

    CHECK(i < job->desc->tasks);
    t->attempt++;
    t->adopted = 0;
    t->outcome = OUTCOME_NONE;
    t->request = request->task_request.request;
    dist_task_set_state(d, job, i, TASK_LAUNCHED, dist_place_get(d, job, n));
    job->refused = false;
    dist_count(d, COUNTER_tasks_launched, 1);
    if (t->attempt > 1 + t->free)
        dist_count(d, COUNTER_tasks_retried, 1);
    t->unsent = dist_task_launches_kept(job);
    if (t->unsent)
        dist_journal_launch(d, job, i);
    else
        put_launch(d, job, n, i, !request->task_request.has_spec);
}

void dist_tasks_unlaunch(struct dist *d, struct dist_job *job)
{
    for (uint32_t i = 0; dist_task_launches_kept(job) && i < job->cursor; i++)
        if (job->tasks[i].unsent)
            unlaunch(d, job, i);
}

void dist_task_launch_journalled(struct dist *d, const struct try_id *id, int err)
{
    struct dist_job *job = dist_job_find(d, id->job);
    struct dist_task *t = job ? &job->tasks[id->task] : NULL;

    if (!t || !t->unsent || t->attempt != id->attempt)
        return;
    if (!err) {
        t->unsent = 0;
        put_launch(d, job, dist_node_find(d, t->worker), id->task, true);
        dist_probe_refill(d, job, dist_node_find(d, t->worker));
        return;
    }
    unlaunch(d, job, id->task);
    if (t->state == TASK_WAITING) /* no worker has seen that try: it counts for nothing, however often */
        t->attempt--, t->free--;
    job->refused = true; /* probe again only after a delay */
}

/* The same request gets the same answer, as long as the worker can use it. A worker forgets a request when
 * its task has ended, so the tasks that are launched there are all the memory that this needs. */
static void answer_again(struct dist *d, struct dist_job *job, struct dist_node *n, const struct msg *m)
{
    const struct dist_place *p = job ? dist_place_find(d, job, n) : NULL;

    for (uint32_t i = p ? p->launched : TASK_NIL; i != TASK_NIL; i = job->tasks[i].next)
        if (!job->tasks[i].adopted && job->tasks[i].request == m->task_request.request) {
            if (!job->tasks[i].unsent) /* otherwise the answer is on its way */
                put_launch(d, job, n, i, true);
            return;
        }
    put_no_task(d, job, n, m->task_request.job, m->task_request.request);
}

void dist_on_task_request(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    uint32_t request = m->task_request.request;
    struct dist_job *job = dist_job_find(d, m->task_request.job);
    bool unwanted; /* at this worker */

    /* Serial numbers: they may wrap on a long-lived stream. */
    if (n->requested && (int32_t)(request - n->last_request) <= 0) {
        answer_again(d, job, n, m);
        return;
    }
    n->requested = true;
    n->last_request = request;
    if (job && job->unlaunched > 0)
        dist_handover_promote(d, job); /* its tasks may show the cutoff since the last start */
    struct dist_place *p = job ? dist_place_find(d, job, n) : NULL;
    unwanted =
        job && (dist_starts_avoid(d, job, n->m.node.v) || (!n->m.general && dist_probe_general(d, job)));
    if (job && dist_job_launchable(job) > 0 && job->submitted && !dist_job_kept_back(job) && !d->leaving &&
        !unwanted) {
        job->progress_us = d->now_us;
        launch_next(d, job, n, m);
        /* After the launch: the place exists, and stays. */
        if (!p || dist_place_take_live(d, p, 1) == 0)
            job->crossed = true;
        /* A full disk takes no launch, and the worker would ask without end. */
        if (!dist_task_launches_kept(job))
            dist_probe_refill(d, job, n);
    } else {
        dist_count(d, COUNTER_probes_unused, 1);
        if (job && (!p || p->live == 0))
            job->probes_unused++;
        /* Otherwise it would be probed for at once, again and again: a thief that the job avoids steals
         * reservations of others. */
        if (job && (d->leaving || unwanted))
            job->refused = true;
        put_no_task(d, job, n, m->task_request.job, request);
    }
    if (job)
        dist_job_touch(d, job);
}

/* ---- Workers' reports (docs/protocol.md 3.10, 3.11) ---- */

static void put_task_cancel(struct dist *d, uint32_t worker, const struct try_id *id)
{
    out_add(d->out, MSG_TASK_CANCEL, worker)->task_cancel.id = *id;
}

/* Whether it is the epoch of an earlier life: each life has its own. */
static bool is_earlier(const struct dist_job *job, uint16_t epoch)
{
    uint16_t before = (uint16_t)(job->own_epoch - epoch);

    return before > 0 && before <= (uint16_t)(job->own_epoch - job->first_epoch) && before % EPOCH_STEP == 0;
}

struct dist_job *dist_task_own_job(const struct dist *d, const struct try_id *id)
{
    struct dist_job *job = dist_job_find(d, id->job);
    const struct dist_task *t = job && id->task < job->desc->tasks ? &job->tasks[id->task] : NULL;
    bool known;

    if (!t || t->central || id->attempt == 0)
        return NULL;
    if (!is_earlier(job, id->epoch))
        known = id->epoch == job->own_epoch && id->attempt <= t->attempt;
    else /* where launches are on record, so is the worker */
        known =
            !dist_task_launches_kept(job) || ((t->doubtful || t->adopted) && t->worker == d->from->m.node.v);
    return known ? job : NULL;
}

/* A task that was not launched in this life takes over a try of an earlier life. Those before it are not known. */
static void adopt_try(struct dist *d, struct dist_job *job, const struct try_id *id, uint32_t worker)
{
    struct dist_task *t = &job->tasks[id->task];

    if (t->state != TASK_WAITING || t->attempt > 0 || !is_earlier(job, id->epoch))
        return;
    dist_task_reach(job, id->task);
    if (dist_task_blocked(t)) /* it started before what it waited for was on record */
        dist_task_unblock(d, job, id->task);
    t->attempt = id->attempt;
    t->free = id->attempt - 1;
    t->adopted = 1;
    t->epoch = id->epoch;
    t->worker = worker;
}

/* Worker n has this try, launched or running. If it is the task's latest, and the task waits again because n was
 * thought lost or this dist restarted, the dist takes it up again. Returns the job; NULL: n must stop the try. */
static struct dist_job *adopt(struct dist *d, struct dist_node *n, const struct try_id *id)
{
    struct dist_job *job = dist_task_own_job(d, id);
    struct dist_task *t;
    struct try_id latest;

    if (!job)
        return NULL;
    adopt_try(d, job, id, n->m.node.v);
    t = &job->tasks[id->task];
    latest = dist_task_try(job, id->task);
    /* A task with an outcome has ended, or is to run again after this try failed (retries.c). */
    if (!try_eq(&latest, id) || t->worker != n->m.node.v || task_state_final(t->state) ||
        t->outcome != OUTCOME_NONE)
        return NULL;
    if (t->state == TASK_WAITING)
        dist_task_set_state(d, job, id->task, TASK_LAUNCHED, dist_place_get(d, job, n));
    t->doubtful = 0;
    return job;
}

void dist_on_task_started(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    struct dist_job *job = adopt(d, n, &m->task_started.id);

    if (!job) {
        put_task_cancel(d, m->peer, &m->task_started.id);
        return;
    }
    dist_task_started(d, job, m->task_started.id.task, 0);
}

void dist_on_task_held(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    const struct try_id *id = &m->task_held.id;
    struct dist_job *job = adopt(d, n, id);

    if (!job) {
        put_task_cancel(d, m->peer, id);
        return;
    }
    if (m->task_held.state == TASK_RUNNING) /* if it has ended, the end tells whether it had started */
        dist_task_started(d, job, id->task, m->task_held.run_us);
}

/* Keeps the result of a task, or the reason why it failed. Returns its exit code: 1 if there is no room for
 * the result. */
static int32_t keep_words(struct dist *d, struct dist_job *job, const struct msg_task_finished *f)
{
    bool ok = owner_message_of_end(&job->messages, f->id.task, job->app != NULL, f);

    return ok && !dist_task_keep_result(d, job, f->id.task, f->result) ? 1 : f->code;
}

/* The try that ended the task, at n, is not the latest one: the task's worker, attempt and output are that one's. */
static void become_try(struct dist *d, struct dist_job *job, struct dist_node *n, const struct try_id *id)
{
    struct dist_task *t = &job->tasks[id->task];

    if (at_worker(t->state)) {
        leave_list(d, job, id->task);
        link_task(job, &dist_place_get(d, job, n)->launched, id->task);
    }
    t->worker = n->m.node.v;
    t->attempt = id->attempt;
    t->adopted = id->epoch != job->own_epoch;
    if (t->adopted)
        t->epoch = id->epoch;
}

/* The first completion of a task counts, whatever its attempt. */
static void accept_finished(struct dist *d, struct dist_job *job, struct dist_node *n, const struct msg *m)
{
    const struct msg_task_finished *f = &m->task_finished;
    struct dist_task *t = &job->tasks[f->id.task];
    struct try_id other = dist_task_try(job, f->id.task);
    bool latest = try_eq(&other, &f->id);
    enum owner_finish finish = owner_finish_of(f, t->state != TASK_LAUNCHED);

    if (task_state_final(t->state))
        return;
    if (latest && at_worker(t->state) && !t->doubtful &&
        t->worker != m->peer) /* which can have no end of that try */
        return;
    if (finish != FINISH_ENDED) {
        if (!latest || !at_worker(t->state))
            return;
        if (finish == FINISH_CANNOT_START)
            dist_starts_failed(d, job, n, f);
        else if (finish == FINISH_REFUSED)
            dist_task_refused(d, job, f->id.task);
        else if (dist_task_unwanted(job, f->id.task))
            dist_task_end(d, job, f->id.task, OUTCOME_CANCELLED, 0,
                          run_us_credible(f->run_us, d->now_us - job->submit_us), f->used);
        else
            dist_task_return(d, job, f->id.task);
    } else {
        adopt_try(d, job, &f->id, m->peer);
        if (dist_task_retry(d, job, f)) {
            dist_starts_began(d, job, f->id.task, m->peer);
            return;
        }
        if (!latest && at_worker(t->state) && !t->doubtful)
            put_task_cancel(d, t->worker, &other);
        if (!latest)
            become_try(d, job, n, &f->id);
        if (f->outcome != OUTCOME_NOT_STARTED)
            dist_starts_began(d, job, f->id.task, m->peer);
        t->stolen = f->stolen != 0;
        dist_task_end(d, job, f->id.task, f->outcome, keep_words(d, job, f),
                      run_us_credible(f->run_us, d->now_us - job->submit_us), f->used);
    }
}

/* Acknowledges each completion, so that the worker can forget it; for a job in the journal, when it is durable. */
void dist_on_task_finished(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    const struct try_id *id = &m->task_finished.id;
    struct dist_job *job = dist_job_find(d, id->job);
    bool now = job && !job->journalled;

    if (m->task_finished.result)
        beats_bulk(&n->beats, d->now_us, m->task_finished.result->len);
    if (now)
        dist_finish_ack(d, m->peer, id);
    job = dist_task_own_job(d, id);
    if (job)
        accept_finished(d, job, n, m);
    if (!now)
        dist_journal_finish_ack(d, m->peer, id);
}
