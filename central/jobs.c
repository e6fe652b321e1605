/* Long jobs from submission to the end (protocol 4). Central accepts a job once it is journalled, and forgets
 * it once the journal and all watchers know its end. */
#include "owner/jobs.h"
#include "central/hold.h"
#include "central/journal.h"
#include "central/tasks.h"

/* ---- Watchers: dists that mirror the job ---- */

/* The stream to a dist that is heard on it. */
static uint32_t stream_of(const struct central *c, node_id_t dist)
{
    const struct node *n = central_node_by_id(c, dist);

    return n && n->state == NODE_UP ? n->link : 0;
}

int64_t central_job_unreported_us(const struct central *c, const struct long_job *j)
{
    int64_t until_us = c->now_us;

    for (uint32_t i = 0; i < j->n; i++) {
        const struct long_task *t = &j->tasks[i];

        if (t->place == PLACE_LIMBO && t->state == TASK_WAITING && t->w.due_us > until_us)
            until_us = t->w.due_us;
    }
    return until_us - c->now_us;
}

static void send_accepted(struct central *c, const struct long_job *j, const struct node *dist)
{
    struct msg *m = central_send(c, dist, MSG_LONG_ACCEPTED);

    if (!m)
        return;
    m->long_accepted.job = (job_id_t){j->key.job};
    m->long_accepted.epoch = (uint16_t)j->key.epoch;
    m->long_accepted.unreported_us = central_job_unreported_us(c, j);
}

static void send_refused(struct central *c, const struct node *dist, job_id_t job, uint16_t epoch, int err)
{
    struct msg *m = central_send(c, dist, MSG_LONG_REFUSED);

    if (!m)
        return;
    m->long_refused.job = job;
    m->long_refused.epoch = epoch;
    m->long_refused.err = err;
}

/* The job has an owner of that number. The first one needs no record: the job's own record implies it. */
static void note_owner(struct central *c, struct long_job *j, uint16_t owner)
{
    if (owner <= j->owner)
        return;
    j->owner = owner;
    if (owner > 1 && (j->state == LONG_JOURNALLING || j->state == LONG_ACTIVE))
        central_journal_owner(c, j);
}

/* A central that has restarted does not know which jobs their users have cancelled or held meanwhile. Their dists do,
 * and say that before they name the job. So central places none of a job's tasks before that, or a lease is over. */
static void set_unheard(struct central *c, struct long_job *j, bool unheard)
{
    if (j->unheard == unheard)
        return;
    j->unheard = unheard;
    c->n_unheard += unheard ? 1u : -1u;
    kept_update_turn(c, j);
}

/* When the rest of them is placed. */
static int64_t unheard_due_us(const struct central *c)
{
    return c->n_unheard > 0 ? c->recovered_us + c->cfg.long_lease_us : TIME_NEVER;
}

static void hear_all(struct central *c)
{
    list_foreach(&c->jobs[LONG_ACTIVE], entry, next)
        set_unheard(c, container_of(entry, struct long_job, by_state), false);
}

/* From now on the dist hears of the job. It owns the job if `owner`, the number of its ownership, is the
 * highest so far. */
static void watch_job(struct central *c, struct long_job *j, const struct node *dist, uint16_t owner)
{
    struct watcher *w = central_job_watch(j, dist->id, owner);

    if (!w)
        return;
    w->process = dist->processes;
    central_hold_moved(c, j, owner);
    note_owner(c, j, owner);
    if (owner >= j->owner)
        set_unheard(c, j, false);
    central_orphans_look(c, j);
}

/* Tells the dist of every task of the job. A task that central does not name is not central's. */
static void tell_tasks(struct central *c, struct long_job *j, const struct node *dist)
{
    struct watcher *w = central_job_watcher(j, dist->id);

    for (uint32_t i = 0; i < j->n; i++)
        central_task_send(c, &j->tasks[i], dist);
    central_pauses_send(c, j, dist);
    if (j->state < LONG_ENDED)
        return;
    if (w)
        w->told = dist->link;
    if (j->state != LONG_ENDING)
        central_job_set_state(c, j, LONG_ENDED); /* keeps the job for another while */
}

bool central_job_is_others(const struct long_job *j, const struct blob *user)
{
    return user && user->len > 0 && !blob_eq(j->desc->user, user);
}

void central_on_long_watch(struct central *c, const struct msg *in)
{
    struct node *dist = c->from;
    const struct msg_long_watch *m = &in->long_watch;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);
    struct msg *reply;

    if (j && central_job_is_others(j, m->user))
        j = NULL;
    if (j) {
        watch_job(c, j, dist, m->owner);
        central_hold_watched(c, j, m->owner);
        tell_tasks(c, j, dist);
    }
    reply = central_send(c, dist, MSG_LONG_WATCHED);
    reply->long_watched.job = m->job;
    reply->long_watched.epoch = m->epoch;
    reply->long_watched.err = j ? 0 : HAWK_ENOT_FOUND;
    reply->long_watched.unreported_us = j ? central_job_unreported_us(c, j) : 0;
}

/* ---- Late binding: tasks that may have been sent (docs/protocol.md 4.3) ---- */

/* A record releases a batch of a job's tasks: a quarter as many as were released before, within these bounds.
 * After a restart central at once places tasks that were not released; released tasks wait for their workers'
 * reports. */
#define RELEASE_MIN 16u
#define RELEASE_MAX 4096u

static uint32_t release_ahead(const struct long_job *j)
{
    uint32_t quarter = j->releasing / 4;

    return quarter < RELEASE_MIN ? RELEASE_MIN : quarter > RELEASE_MAX ? RELEASE_MAX : quarter;
}

static void release_more(struct central *c, struct long_job *j)
{
    uint32_t more = release_ahead(j);

    j->releasing = j->n - j->releasing < more ? j->n : j->releasing + more;
    central_journal_released(c, j);
}

/* Releases a job's first tasks. All of them, if late binding is off. All of an at-most-once job: each of its
 * launches has a record of its own. All, if central continues for one that lost its state: that one may have
 * sent them. */
static void release_first(struct central *c, struct long_job *j)
{
    if (!policy_has(&c->policy, POLICY_LATE_LONG) || central_is_young(c) ||
        j->desc->flags & JOB_AT_MOST_ONCE) {
        j->released = j->releasing = j->n;
        return;
    }
    release_more(c, j);
}

bool central_job_may_send(struct central *c, struct long_job *j, uint32_t task)
{
    if (j->releasing < j->n && task + release_ahead(j) / 2 >= j->releasing)
        release_more(c, j);
    return task < j->released;
}

void central_jobs_released(struct central *c, const struct long_key *key, uint32_t upto)
{
    struct long_job *j = central_jobs_find(c, (job_id_t){key->job}, (uint32_t)key->epoch);

    if (j && upto > j->released)
        j->released = upto < j->n ? upto : j->n;
}

/* ---- Submission ---- */

static struct long_job *first_in(const struct central *c, enum long_state state)
{
    const struct list *l = &c->jobs[state];

    return list_empty(l) ? NULL : container_of(l->next, struct long_job, by_state);
}

/* Removes the ended job that is least likely to be asked for. False: there is none. */
static bool forget_one(struct central *c)
{
    struct long_job *j = first_in(c, LONG_UNCLAIMED);

    if (!j)
        j = first_in(c, LONG_FINISHED);
    if (!j)
        j = first_in(c, LONG_ENDED);
    if (!j)
        return false;
    if (j->state != LONG_FINISHED)
        central_journal_forget(c, j->key);
    central_job_free(c, j);
    return true;
}

/* Removes ended jobs if they take the room of a new one. False: there is no room. */
static bool room_for(struct central *c, uint32_t tasks)
{
    for (;;) {
        uint32_t jobs = 0;

        for (int s = 0; s < LONG_STATE_COUNT; s++)
            jobs += c->n_jobs[s];
        if (jobs < c->cfg.long_jobs_max && c->tasks_held + tasks <= c->cfg.long_tasks_max)
            return true;
        if (!forget_one(c))
            return false;
    }
}

/* The jobs that a central which lost its state is told of had room. */
static bool may_enter(struct central *c, const struct msg_long_submit *m)
{
    uint32_t tasks = m->tasks ? m->tasks->n : m->desc->tasks;

    return (central_is_young(c) || kept_may_enter(c, job_desc_user(m->desc), tasks)) && room_for(c, tasks);
}

/* The estimate of one of the job's tasks for waiting times. It is never 0: otherwise one worker would get all
 * tasks. */
static int64_t estimate_of(struct central *c, const struct job_desc *desc, int64_t estimate_us)
{
    if (estimate_us <= 0)
        estimate_us = history_estimate(&c->history, job_desc_user(desc), desc->name);
    if (estimate_us <= 0)
        estimate_us = c->policy.cutoff_us;
    return estimate_us < LIMIT_TIME_US ? estimate_us : LIMIT_TIME_US;
}

void central_on_long_submit(struct central *c, const struct msg *in)
{
    struct node *dist = c->from;
    const struct msg_long_submit *m = &in->long_submit;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (c->stopping)
        return; /* the dist asks the next central */
    if (j && central_job_is_others(j, m->desc->user)) {
        send_refused(c, dist, m->job, m->epoch, HAWK_EDENIED);
        return;
    }
    if (j) {
        watch_job(c, j, dist, m->owner);
        if (j->state == LONG_JOURNALLING)
            return;
        send_accepted(c, j, dist);
        tell_tasks(c, j, dist);
        return;
    }
    if (!owner_job_valid(m->desc, m->epoch, m->tasks, 1)) {
        send_refused(c, dist, m->job, m->epoch, HAWK_EINVALID);
        return;
    }
    if (!may_enter(c, m)) {
        send_refused(c, dist, m->job, m->epoch, HAWK_ELIMIT);
        return;
    }
    j = central_job_new(c, m->job, m->epoch, m->desc, m->tasks);
    j->estimate_us = estimate_of(c, m->desc, m->estimate_us);
    j->why = m->why;
    j->inherited = central_is_young(c);
    central_journal_job(c, j);
    release_first(c, j);
    watch_job(c, j, dist, m->owner);
}

static void activate(struct central *c, struct long_job *j)
{
    central_job_set_state(c, j, LONG_ACTIVE);
    c->tasks_in[TASK_WAITING] += j->n;
}

/* Queues a task of a job that was just accepted. If central continues for one that lost its state, some
 * worker may still run the task (protocol 1.8): that worker reports it, or its lease ends in time. A dist
 * submits an at-most-once job to such a central only if the former one never had it. */
static void enlist(struct central *c, struct long_task *t)
{
    if (!central_is_young(c) || t->job->desc->flags & JOB_AT_MOST_ONCE) {
        central_task_queue(c, t);
        return;
    }
    t->attempt = 1;
    t->unsure = true;
    central_task_limbo(c, t, c->young_us);
}

static void cancel_tasks(struct central *c, struct long_job *j)
{
    for (uint32_t i = 0; i < j->n; i++)
        central_task_cancel(c, &j->tasks[i]);
}

void central_jobs_journalled(struct central *c, struct long_job *j, int32_t err)
{
    if (!err) {
        activate(c, j);
        for (uint32_t i = 0; i < j->n; i++)
            enlist(c, &j->tasks[i]);
    }
    for (uint32_t i = 0; i < j->n_watchers; i++) {
        const struct node *dist = central_node_by_id(c, j->watchers[i].dist);

        if (err)
            send_refused(c, dist, (job_id_t){j->key.job}, (uint16_t)j->key.epoch, err);
        else
            send_accepted(c, j, dist);
    }
    if (err) {
        central_job_free(c, j);
        return;
    }
    if (j->cancel)
        cancel_tasks(c, j);
}

/* ---- Cancelling ---- */

void central_jobs_settle(struct central *c)
{
    while (!list_empty(&c->touched)) {
        struct long_job *j = container_of(c->touched.next, struct long_job, touched);

        list_remove(&j->touched);
        cancel_tasks(c, j);
    }
}

/* The client may have moved the job to a dist that cannot claim it now, or that has not claimed it since central
 * restarted or lost its state. */
static bool may_be_claimed(const struct central *c, const struct long_job *j)
{
    return c->dists_suspect > 0 || j->inherited ||
           (j->since_us < c->recovered_us + c->cfg.long_lease_us &&
            central_any_node(c, ROLE_DIST, NODE_AWAY));
}

void central_on_long_cancel(struct central *c, const struct msg *in)
{
    const struct msg_long_cancel *m = &in->long_cancel;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    /* A dist that was only slow, and lost the job to another dist (protocol 9), may not cancel it. */
    if (!j || (j->state != LONG_JOURNALLING && j->state != LONG_ACTIVE) || m->owner < j->owner ||
        central_job_is_others(j, m->user))
        return;
    if (j->cancel)
        return;
    /* The sender gives up an orphan by the LONG_WATCH that follows. */
    if (m->abandoned && may_be_claimed(c, j)) {
        note_owner(c, j, m->owner);
        central_orphans_look(c, j);
        return;
    }
    central_job_cancel(c, j, 0);
}

/* A dist says it again after LONG_ACCEPTED, so a job that is not durable yet needs no memory of it. */
void central_on_long_cancel_tasks(struct central *c, const struct msg *in)
{
    const struct msg_long_cancel_tasks *m = &in->long_cancel_tasks;
    const struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (!j || j->state != LONG_ACTIVE || m->owner < j->owner || central_job_is_others(j, m->user))
        return;
    for (uint32_t i = 0; i < m->tasks->n; i++) {
        struct long_task *t = central_jobs_find_task(
            c, &(struct try_id){.job = m->job, .epoch = m->epoch, .task = m->tasks->v[i]});

        if (t)
            central_task_cancel(c, t);
    }
}

void central_job_cancel(struct central *c, struct long_job *j, uint32_t client)
{
    central_journal_cancel(c, j, client);
    j->cancel = true;
    central_orphans_look(c, j);
    if (j->state == LONG_ACTIVE)
        cancel_tasks(c, j);
}

void central_on_cancel(struct central *c, const struct msg *in)
{
    const struct msg_cancel *m = &in->cancel;
    struct long_job *last = NULL, *j = NULL;

    /* A job that was promoted more than once has parts under several epochs. The client gets the answer for
     * the last part. */
    while ((j = central_jobs_next_part(c, m->job, j))) {
        if (j->state > LONG_ACTIVE)
            continue;
        if (last)
            central_job_cancel(c, last, 0);
        last = j;
    }
    if (last)
        central_job_cancel(c, last, m->client);
    else
        central_jobs_answer_cancel(c, m->job, m->client, HAWK_ENOT_FOUND);
}

void central_jobs_answer_cancel(struct central *c, job_id_t job, uint32_t client, int err)
{
    struct msg_cancelled *m;

    if (!client)
        return;
    m = &out_add(c->out, MSG_CANCELLED, 0)->cancelled;
    m->job = job;
    m->client = client;
    m->err = err;
}

/* ---- The end ---- */

static void count_in_history(struct central *c, const struct long_job *j)
{
    struct msg_history h = {.name = j->desc->name,
                            .task_us = j->run_us > INT64_MAX ? INT64_MAX : (uint64_t)j->run_us,
                            .tasks = j->ended[TASK_DONE],
                            .class = CLASS_LONG,
                            .user = job_desc_user(j->desc)};

    /* The dist of a promoted job has the run times of all its tasks, and reports the whole job. */
    if (h.tasks == 0 || j->set)
        return;
    h.mean_us = (int64_t)(j->run_us / h.tasks);
    central_policy_job_finished(c, &h, false);
}

/* False: it goes on. */
static bool end_job(struct central *c, struct long_job *j)
{
    if (j->state != LONG_ACTIVE || j->durable < j->n)
        return false;
    j->ended_us = c->now_us;
    central_job_set_state(c, j, LONG_ENDED);
    job_desc_forget_env(&j->desc);
    for (uint32_t i = 0; i < j->n_watchers; i++)
        j->watchers[i].told = stream_of(c, j->watchers[i].dist);
    return true;
}

void central_jobs_progress(struct central *c, struct long_job *j)
{
    if (end_job(c, j))
        count_in_history(c, j);
}

void central_jobs_end_journalled(struct central *c, struct long_job *j)
{
    central_job_set_state(c, j, LONG_FINISHED);
}

/* Whether the end reached every watcher that has not lost the job: it was told on a stream that is still up.
 * False without any watcher: after a restart the job's owner may not have joined yet. */
static bool everybody_knows(const struct central *c, const struct long_job *j)
{
    bool any = false;

    for (uint32_t i = 0; i < j->n_watchers; i++) {
        const struct watcher *w = &j->watchers[i];

        if (w->owner < j->owner)
            continue;
        if (w->told == 0 || w->told != stream_of(c, w->dist))
            return false;
        any = true;
    }
    return any;
}

/* When the first of the jobs in that state is due. A dist ends a stream on which it hears nothing for suspect_us, and
 * central suspects it another suspect_us later. So a dist that is up by then has heard what it was told. */
static int64_t due_us(const struct central *c, enum long_state state)
{
    const struct long_job *j = first_in(c, state);
    int64_t us = 2 * c->cfg.suspect_us;

    if (!j)
        return TIME_NEVER;
    if (state == LONG_FINISHED && c->cfg.ended_kept_us > us)
        us = c->cfg.ended_kept_us;
    if (state == LONG_UNCLAIMED)
        us = c->cfg.unclaimed_us;
    if (state == LONG_ENDED && c->stopping)
        us = 0;
    return j->kept_since_us + us;
}

static bool is_due(const struct central *c, enum long_state state)
{
    return c->n_jobs[state] > 0 && due_us(c, state) <= c->now_us;
}

int64_t central_jobs_due_us(const struct central *c)
{
    return earlier(earlier(due_us(c, LONG_UNCLAIMED), unheard_due_us(c)),
                   earlier(due_us(c, LONG_ENDED), due_us(c, LONG_FINISHED)));
}

/* A dist that asks for a job which central has forgotten submits it again, and all of it runs twice. So
 * the journal keeps an ended job until the streams on which central told the end have held for a while, and central
 * keeps it for longer. A stream that breaks in that time makes the dist ask again, or the client move the job. */
void central_jobs_run(struct central *c)
{
    if (unheard_due_us(c) <= c->now_us)
        hear_all(c);
    while (is_due(c, LONG_ENDED)) {
        struct long_job *j = first_in(c, LONG_ENDED);

        if (everybody_knows(c, j)) {
            central_job_set_state(c, j, LONG_ENDING);
            central_journal_job_end(c, j);
        } else {
            central_job_set_state(c, j, LONG_UNCLAIMED);
        }
    }
    while (is_due(c, LONG_FINISHED)) {
        struct long_job *j = first_in(c, LONG_FINISHED);

        if (everybody_knows(c, j))
            central_job_free(c, j);
        else
            central_job_set_state(c, j, LONG_UNCLAIMED);
    }
    while (c->n_jobs[LONG_UNCLAIMED] > c->cfg.finished_kept || is_due(c, LONG_UNCLAIMED))
        (void)forget_one(c);
}

/* ---- Recovery: the journal's records, in their order ---- */

void central_on_journal_job(struct central *c, const struct msg *in)
{
    const struct msg_journal_job *m = &in->journal_job;
    struct long_job *j;

    if (!owner_job_valid(m->desc, m->epoch, m->tasks, 1) || central_jobs_find(c, m->job, m->epoch))
        return;
    j = central_job_new(c, m->job, m->epoch, m->desc, m->tasks);
    j->estimate_us = m->estimate_us > 0 ? m->estimate_us : c->policy.cutoff_us;
    j->why = m->why;
    j->inherited = true;
    /* All tasks may have been sent, unless another record says otherwise. */
    j->released = j->releasing = j->n;
    central_job_watch(j, job_id_node(m->job), 0);
    activate(c, j);
    for (uint32_t i = 0; i < j->n && !(j->desc->flags & JOB_AT_MOST_ONCE); i++) {
        /* The journal has no record of first launches, so the next launch counts as the second. */
        j->tasks[i].attempt = 1;
        j->tasks[i].unsure = true;
    }
}

void central_on_journal_task(struct central *c, const struct msg *in)
{
    const struct msg_journal_task *m = &in->journal_task;
    struct long_task *t = central_jobs_find_task(c, &m->id);

    if (!t || task_state_final(t->state) || m->state >= TASK_STATE_COUNT)
        return;
    if (m->id.attempt > t->attempt)
        t->attempt = m->id.attempt;
    t->worker = m->worker;
    if (!task_state_final(m->state)) {
        t->failures = m->failures;
        t->losses = m->losses;
        /* While it waits, its latest try is one that failed. */
        t->outcome = m->state == TASK_WAITING ? m->outcome : OUTCOME_NONE;
        return;
    }
    t->failures = m->failures;
    t->run_us = m->run_us;
    t->used = m->used;
    t->code = m->code;
    t->outcome = m->outcome;
    t->durable = true;
    t->unsure = false;
    t->job->durable++;
    owner_starts_recovered(&t->job->starts, m->outcome);
    central_task_set_state(c, t, m->state);
}

void central_on_journal_cancel(struct central *c, const struct msg *in)
{
    const struct msg_journal_cancel *m = &in->journal_cancel;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (j)
        j->cancel = true;
}

void central_on_journal_owner(struct central *c, const struct msg *in)
{
    const struct msg_journal_owner *m = &in->journal_owner;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (j)
        j->owner = m->owner;
}

void central_on_journal_released(struct central *c, const struct msg *in)
{
    const struct msg_journal_released *m = &in->journal_released;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (!j)
        return;
    j->released = j->releasing = m->upto < j->n ? m->upto : j->n;
    for (uint32_t i = j->released; i < j->n; i++)
        if (!task_state_final(j->tasks[i].state)) {
            j->tasks[i].attempt = 0;
            j->tasks[i].unsure = false;
        }
}

void central_on_journal_job_end(struct central *c, const struct msg *in)
{
    const struct msg_journal_job_end *m = &in->journal_job_end;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (!j)
        return;
    c->tasks_in[TASK_WAITING] -= j->n - j->final;
    central_job_free(c, j);
}

static void recovered_task(struct central *c, struct long_task *t)
{
    if (task_state_final(t->state))
        return;
    if (t->attempt == 0) /* an at-most-once task without a recorded launch: it was never sent */
        central_task_queue(c, t);
    else /* a worker may run it: that worker reports it, or its lease ends by then (DESIGN 3.9) */
        central_task_limbo(c, t, c->now_us + c->cfg.long_lease_us);
}

void central_jobs_recovered(struct central *c)
{
    list_foreach(&c->jobs[LONG_ACTIVE], entry, next) {
        struct long_job *j = container_of(entry, struct long_job, by_state);

        j->since_us = c->now_us;
        set_unheard(c, j, true);
        for (uint32_t i = 0; i < j->n; i++)
            recovered_task(c, &j->tasks[i]);
        if (j->cancel || owner_failed_too_often(j->desc, j->ended))
            cancel_tasks(c, j);
        (void)end_job(c, j); /* its history was counted when it ended */
    }
    central_orphans_look_all(c);
}

void central_jobs_free(struct central *c)
{
    for (int s = 0; s < LONG_STATE_COUNT; s++)
        while (!list_empty(&c->jobs[s])) {
            struct long_job *j = container_of(c->jobs[s].next, struct long_job, by_state);

            for (uint32_t i = 0; i < j->n; i++)
                central_task_forget(c, &j->tasks[i]);
            central_job_free(c, j);
        }
}
