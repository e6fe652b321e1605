/* Checks the invariants of a virtual cluster on every delivery and after every step. */
#include "faults/internal.h"

#include "base/mem.h"
#include "exec/exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const invariant_names[INVARIANT_COUNT] = {
#define X(name, text, help) [INVARIANT_##name] = (text),
    INVARIANTS(X)
#undef X
};

void cluster_fail(struct cluster *c, enum invariant invariant, const char *fmt, ...)
{
    char text[CLUSTER_FAILURE_TEXT];
    va_list args;
    int n = snprintf(text, sizeof text, "at %.6f s: ", (double)bus_now(c->bus) / US_PER_S);

    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    if (c->config.failed)
        c->config.failed(c->config.failed_arg, invariant, text);
    fprintf(stderr, "invariant \"%s\" is violated %s\n", invariant_names[invariant], text);
    abort();
}

struct cluster_worker *cluster_worker_of(struct cluster *c, uint32_t ep)
{
    uint32_t i = cluster_worker_index(c, ep);

    return i < c->workers_n ? c->workers[i] : NULL;
}

struct cluster_dist *cluster_dist_of(struct cluster *c, uint32_t ep)
{
    uint32_t i = cluster_dist_index(c, ep);

    return i < c->dists_n ? c->dists[i] : NULL;
}

bool cluster_knows(const struct cluster *c, const struct cluster_dist *d, job_id_t job, struct job_view *v)
{
    const struct dist_job *found = dist_find(&d->d, job);

    if (found)
        dist_job_view(&d->d, found, bus_now(c->bus), v);
    return found != NULL;
}

void cluster_post(struct cluster *c, uint32_t ep, struct msg m) { bus_post(c->bus, ep, bus_now(c->bus), &m); }

/* Checks that a worker that gets TASK_ENQUEUE is not reserved. Streams are FIFO, so central sent a task that
 * arrives behind the worker's reservation after it (DESIGN 3.7). */
static void expect_general(struct cluster *c, uint32_t ep)
{
    struct cluster_worker *w = cluster_worker_of(c, ep);
    struct worker_counts counts;

    if (!w)
        return;
    worker_counts(&w->w, &counts);
    if (!counts.general)
        cluster_fail(c, INVARIANT_RESERVED, "a long task was placed on %u, which is reserved", ep);
}

/* Notes the job of a task that a worker gave back because it could pause nothing for it (protocol 4.5). */
static void note_returned(struct cluster *c, const struct msg_task_finished *m)
{
    for (uint32_t i = 0; i < c->jobs_n && m->outcome == OUTCOME_LOST && m->code == HAWK_EBUSY; i++)
        c->jobs[i]->returned |= job_eq(c->jobs[i]->id, m->id.job);
}

/* Whether a request for a task of the job may come without a reservation that its dist knows of. A PROBE_CANCEL may
 * cross the request of a job that has ended, is being cancelled, or is withdrawn by promotion. For other jobs the dist
 * may probe anew after it had cancelled, so that a PROBE_CANCEL of before crosses the request, or a RES_MOVED. */
static bool may_lack_reservation(const struct cluster_job *j, const struct job_view *v)
{
    bool withdrawn = job_state_final(v->state) || j->cancelled || j->cancel_asks > 0 ||
                     node_eq(v->owner, NODE_CENTRAL) || v->desc->tag == TAG_AUTO || v->overstays ||
                     v->waiting == 0;
    bool probes_anew = j->returned || j->was_held || v->desc->failure_retries > 0 || v->desc->after.n > 0 ||
                       v->desc->max_running > 0;

    return withdrawn || probes_anew;
}

/* Checks that the dist knows of a reservation at the worker that sends TASK_REQUEST: steals and cancellations
 * move counts (DESIGN 3.2). */
static void expect_reservation(struct cluster *c, uint32_t ep, uint32_t from,
                               const struct msg_task_request *m)
{
    struct cluster_dist *d = cluster_dist_of(c, ep);
    struct cluster_worker *w = cluster_worker_of(c, from);
    const struct dist_job *j = d && w ? dist_find(&d->d, m->job) : NULL;
    struct reservation_view r;
    const void *cursor = NULL;
    struct job_view v;

    if (!j)
        return;
    dist_job_view(&d->d, j, bus_now(c->bus), &v);
    if (may_lack_reservation(c->jobs[v.desc->shell - 1], &v))
        return;
    while (dist_next_reservation(&d->d, j, &cursor, &r))
        if (node_eq(r.worker, worker_node(&w->w)) && r.count > 0)
            return;
    cluster_fail(c, INVARIANT_RESERVATIONS,
                 "worker %u asks for a task of %s, and its dist knows of no reservation there", from,
                 job_id_format((char[JOB_ID_TEXT]){0}, m->job));
}

/* Checks that the task was not paused for its own job, nor for one that a task of its job submitted. */
static void expect_no_ancestor(struct cluster *c, const struct msg_task_paused *m)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->submitted && job_eq(c->jobs[i]->id, m->for_job) &&
            (job_eq(m->for_job, m->id.job) || ancestors_have(&c->jobs[i]->desc->ancestors, m->id.job)))
            cluster_fail(c, INVARIANT_PAUSES,
                         "a task of %s is paused for its own job, or one that it submitted",
                         job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
}

static void hash_in(uint64_t *h, uint64_t v) { *h = (*h ^ v) * UINT64_C(0x9e3779b97f4a7c15) ^ *h >> 29; }

/* Remembers a LONG_ACCEPTED: from now on central's journal must have the job (protocol 4.2). */
static void note_accepted(struct cluster *c, const struct msg_long_accepted *m)
{
    for (uint32_t i = 0; i < c->accepted_n; i++)
        if (job_eq(c->accepted[i].job, m->job) && c->accepted[i].epoch == m->epoch)
            return;
    vec_grow(c->accepted, c->accepted_n, c->accepted_cap);
    c->accepted[c->accepted_n++] = *m;
}

/* Checks that central reports the end of a task only after the end is durable (protocol 4.4). */
static void expect_durable(struct cluster *c, const struct msg_long_task *m)
{
    for (uint32_t i = c->store.durable; i-- > 0;) {
        const struct msg_journal_task *t = &c->store.v[i].journal_task;

        if (c->store.v[i].type == MSG_JOURNAL_TASK && job_eq(t->id.job, m->id.job) &&
            t->id.task == m->id.task && t->id.epoch == m->id.epoch && task_state_final(t->state))
            return;
    }
    cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                 "central says that task %u of %s is %s, and has no record of it", m->id.task,
                 job_id_format((char[JOB_ID_TEXT]){0}, m->id.job), task_state_text(m->state));
}

/* Central has the part of a job under that epoch, or a later one, and it has ended. */
static bool central_knows_end(const struct cluster *c, job_id_t job, uint16_t epoch)
{
    const struct long_job *j = central_find_job(c->central, job);
    struct job_view v = {0};

    if (j)
        central_job_view(c->central, j, bus_now(c->bus), &v);
    return j && v.epoch >= epoch && job_state_final(v.state);
}

/* A dist asks for what it has not heard the end of. What central has forgotten by then would run again. It may forget
 * where its tables are small, where it lost its state, where the dist heard and could not write it down before it
 * ended (two slow commits take longer than central keeps the job), and where the client moved the job: then another
 * dist may have heard. */
static void expect_known(struct cluster *c, const struct cluster_dist *d, const struct msg_long_watched *m)
{
    const struct cluster_config *cfg = &c->config;
    const struct dist_job *job = dist_find(&d->d, m->job);
    struct job_view v = {0};

    if (job)
        dist_job_view(&d->d, job, bus_now(c->bus), &v);
    if (!job || v.abandoned || job_state_final(v.state) || d->store.full_until_us > 0 ||
        d->store.slow_until_us > 0)
        return;
    if (m->err != HAWK_ENOT_FOUND || c->emptied || cfg->finished_kept || cfg->long_jobs_max ||
        cfg->long_tasks_max)
        return;
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (job_eq(c->jobs[i]->id, m->job) &&
            (c->dists[c->jobs[i]->dist] != d || c->jobs[i]->epoch > EPOCH_FIRST))
            return;
    for (uint32_t i = 0; i < c->accepted_n; i++)
        if (job_eq(c->accepted[i].job, m->job) && c->accepted[i].epoch == m->epoch)
            cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                         "central has forgotten %s (epoch %u), and is asked for it",
                         job_id_format((char[JOB_ID_TEXT]){0}, m->job), m->epoch);
}

static void check_accepted(struct cluster *c)
{
    for (uint32_t i = 0; i < c->accepted_n; i++)
        if (!cluster_store_ended(&c->store, c->accepted[i].job, c->accepted[i].epoch) &&
            !central_knows_end(c, c->accepted[i].job, c->accepted[i].epoch))
            cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                         "central accepted %s (epoch %u), and its end is not on record",
                         job_id_format((char[JOB_ID_TEXT]){0}, c->accepted[i].job), c->accepted[i].epoch);
}

static bool central_has(const struct cluster *c, const struct msg_journal_job *m)
{
    const struct long_job *j = central_find_job(c->central, m->job);
    struct job_view v = {0};

    if (j)
        central_job_view(c->central, j, bus_now(c->bus), &v);
    return j && v.epoch >= m->epoch;
}

/* Checks a journal of central (d is NULL) or of a dist: it has no job that its role has not. Such a job, refused and
 * not undone, would come back with the role's next life. */
static void check_journal(struct cluster *c, const struct cluster_store *s, const struct cluster_dist *d)
{
    for (uint32_t i = 0; i < s->durable; i++) {
        const struct msg_journal_job *m = &s->v[i].journal_job;

        if (s->v[i].type == MSG_JOURNAL_JOB && !(d ? dist_find(&d->d, m->job) != NULL : central_has(c, m)) &&
            !cluster_store_ended(s, m->job, m->epoch))
            cluster_fail(c, INVARIANT_QUIET, "the journal of %s has %s (epoch %u), which it does not know",
                         d ? "a dist" : "central", job_id_format((char[JOB_ID_TEXT]){0}, m->job), m->epoch);
    }
}

void cluster_check_journals(struct cluster *c)
{
    check_accepted(c);
    check_journal(c, &c->store, NULL);
    for (uint32_t i = 0; i < c->dists_n; i++)
        if (c->dists[i]->alive) /* what one that is dead has forgotten, its next life forgets again */
            check_journal(c, &c->dists[i]->store, c->dists[i]);
}

void cluster_check_starts(struct cluster *c, const struct cluster_job *j, uint32_t task)
{
    bool failed = j->tasks[task].state == TASK_FAILED;

    if (c->config.only_startless && j->tasks[task].state == TASK_LOST)
        cluster_fail(c, INVARIANT_STARTS, "task %u of %s is lost, after workers could not start it %u times",
                     task, job_id_format((char[JOB_ID_TEXT]){0}, j->id), j->tasks[task].unstarted);
    if (j->nowhere && j->tasks[task].ends > 0)
        cluster_fail(c, INVARIANT_STARTS, "task %u of %s ran, although no worker can start it", task,
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id));
    if (failed && j->tasks[task].ends == 0 && !j->nowhere && c->startless_n == 0)
        cluster_fail(c, INVARIANT_STARTS,
                     "task %u of %s was not started, although every worker could start it", task,
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id));
}

/* Checks that a dist launches no task whose end an earlier life of it has on record, and none of a job whose
 * cancellation an earlier life confirmed to the client. */
static void expect_unfinished(struct cluster *c, struct cluster_dist *d, const struct try_id *id)
{
    const char *why = NULL;

    for (uint32_t i = 0; i < d->store.replayed && !why; i++) {
        const struct msg_journal_task *t = &d->store.v[i].journal_task;

        if (d->store.v[i].type == MSG_JOURNAL_TASK && job_eq(t->id.job, id->job) && t->id.task == id->task &&
            task_state_final(t->state))
            why = "recorded its end";
    }
    for (uint32_t i = 0; i < c->jobs_n && !why; i++)
        if (c->jobs[i]->submitted && job_eq(c->jobs[i]->id, id->job) && c->jobs[i]->cancelled_life &&
            c->jobs[i]->cancelled_life < d->life && c->jobs[i]->epoch == EPOCH_FIRST)
            why = "confirmed its cancellation";
    for (uint32_t i = 0; i < c->jobs_n && !why; i++)
        if (c->jobs[i]->submitted && job_eq(c->jobs[i]->id, id->job) && c->jobs[i]->epoch == EPOCH_FIRST &&
            c->jobs[i]->tasks[id->task].cancelled_life &&
            c->jobs[i]->tasks[id->task].cancelled_life < d->life)
            why = "confirmed the task's cancellation";
    if (why)
        cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                     "a dist launches task %u of %s; in an earlier life it %s", id->task,
                     job_id_format((char[JOB_ID_TEXT]){0}, id->job), why);
}

/* Checks that a dist does not launch what it has confirmed, in this life, to be held or cancelled. It may repeat a
 * launch; and one of an at-most-once job that is being put on record when the job is held goes on (protocol 14.2). A
 * client that has asked other dists to take the job may have left this one. */
static void expect_wanted(struct cluster *c, const struct cluster_dist *d, const struct try_id *id)
{
    struct cluster_job *j = cluster_job_of(c, id->job);
    const char *why = NULL;
    struct cluster_task *t;

    if (!j || !j->submitted)
        return;
    t = &j->tasks[id->task];
    if (try_eq(&t->launched, id))
        return;
    t->launched = *id;
    if (j->away || c->dists[j->dist] != d || j->epoch != EPOCH_FIRST)
        return;
    if (j->held_life == d->life && !(j->desc->flags & JOB_AT_MOST_ONCE))
        why = "the job is held";
    else if (j->cancelled_life == d->life)
        why = "the job is cancelled";
    else if (t->cancelled_life == d->life)
        why = "the task is cancelled";
    if (why)
        cluster_fail(c, INVARIANT_WANTED, "task %u of %s is launched, and its client was told that %s",
                     id->task, job_id_format((char[JOB_ID_TEXT]){0}, id->job), why);
}

void cluster_on_sent(struct cluster *c, uint32_t from, const struct msg *m)
{
    if (m && m->type == MSG_TASK_LAUNCH && cluster_dist_of(c, from))
        expect_wanted(c, cluster_dist_of(c, from), &m->task_launch.id);
}

/* Checks that a node joins no central older than the last one it joined (protocol 10). Epochs of another
 * cluster are not comparable. */
static void expect_newer(struct cluster *c, uint32_t ep, const struct msg_joined *m)
{
    struct cluster_worker *w = cluster_worker_of(c, ep);
    struct cluster_joined *last = w ? &w->joined : &cluster_dist_of(c, ep)->joined;

    if (last->cluster == m->cluster && m->central_epoch < last->epoch)
        cluster_fail(c, INVARIANT_EPOCHS, "%u joins a central of epoch %u, and joined one of epoch %u before",
                     ep, m->central_epoch, last->epoch);
    *last = (struct cluster_joined){m->cluster, m->central_epoch};
}

void cluster_on_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m)
{
    struct cluster *c = arg;
    char line[300];

    if (msg_is_wire(m) && msg_check(m) != 0) {
        msg_format(m, line, sizeof line);
        cluster_fail(c, INVARIANT_MESSAGES, "%u sent %u a message that no codec would pass: %s", from, to,
                     line);
    }
    if (msg_is_wire(m) && !msg_may_pass(m->type, bus_role_of(c->bus, from), bus_role_of(c->bus, to))) {
        msg_format(m, line, sizeof line);
        cluster_fail(c, INVARIANT_MESSAGES, "%u sent %u a message that its role may not send: %s", from, to,
                     line);
    }
    if (m->type == MSG_TASK_REQUEST && c->config.nothing_fails)
        expect_reservation(c, to, from, &m->task_request);
    if (m->type == MSG_TASK_PAUSED)
        expect_no_ancestor(c, &m->task_paused);
    if (m->type == MSG_TASK_FINISHED)
        note_returned(c, &m->task_finished);
    if (m->type == MSG_WATCH)
        cluster_on_watch(c, to, &m->watch);
    if (to == c->central_ep && cluster_dist_of(c, from))
        cluster_on_heard(c, cluster_dist_of(c, from));
    if (m->type == MSG_LONG_SUBMIT)
        cluster_on_claim(c, from, m->long_submit.job, m->long_submit.owner);
    if (m->type == MSG_LONG_WATCH)
        cluster_on_claim(c, from, m->long_watch.job, m->long_watch.owner);
    if (m->type == MSG_LONG_CANCEL && m->long_cancel.abandoned)
        cluster_on_abandon(c, m->long_cancel.job);
    if (m->type == MSG_JOINED)
        expect_newer(c, to, &m->joined);
    if (m->type == MSG_SET_POLICY)
        c->operator.asks = m->set_policy.client;
    if (m->type == MSG_RECOVERED && to == c->central_ep)
        c->recovered = true;
    else if (m->type == MSG_RECOVERED)
        cluster_dist_recovered(c, cluster_dist_of(c, to));
    if (m->type == MSG_LONG_TASK && task_state_final(m->long_task.state))
        expect_durable(c, &m->long_task);
    if (m->type == MSG_LONG_ACCEPTED)
        note_accepted(c, &m->long_accepted);
    if (m->type == MSG_LONG_WATCHED)
        expect_known(c, cluster_dist_of(c, to), &m->long_watched);
    if (m->type == MSG_TASK_LAUNCH && cluster_dist_of(c, from))
        expect_unfinished(c, cluster_dist_of(c, from), &m->task_launch.id);
    if (m->type == MSG_TASK_ENQUEUE)
        expect_general(c, to);
    if (m->type == MSG_STEAL_HINT && cluster_worker_of(c, to))
        cluster_worker_of(c, to)->parked_us = TIME_NEVER; /* the hint names a victim */
    if (m->type == MSG_STEAL_LOOT && m->steal_loot.items > 0 && cluster_worker_of(c, from))
        cluster_worker_of(c, from)->stuck_us = TIME_NEVER;
    hash_in(&c->hash, (uint64_t)now_us);
    hash_in(&c->hash, (uint64_t)m->type << 48 ^ (uint64_t)from << 24 ^ to);
    hash_in(&c->hash, msg_job(m).v);
    if (c->trace) {
        msg_format(m, line, sizeof line);
        fprintf(stderr, "%12lld %3u > %3u %s\n", (long long)now_us, from, to, line);
    }
}

/* Checks that the tasks by state add up to all tasks, for every job of the dist, and that only running tasks
 * are shown as paused. */
static void check_books(struct cluster *c, const struct dist *d, int64_t now_us)
{
    for (const struct dist_job *j = dist_newest(d); j; j = dist_older(d, j)) {
        struct job_view v;

        dist_job_view(d, j, now_us, &v);
        if (v.desc->tasks != v.waiting + v.placed + v.running + v.done + v.failed + v.cancelled + v.lost)
            cluster_fail(c, INVARIANT_BOOKS,
                         "%s: of %u tasks %u waiting, %u placed, %u running, %u done, %u failed, %u "
                         "cancelled, %u lost",
                         job_id_format((char[JOB_ID_TEXT]){0}, v.job), v.desc->tasks, v.waiting, v.placed,
                         v.running, v.done, v.failed, v.cancelled, v.lost);
        if (v.paused > v.running)
            cluster_fail(c, INVARIANT_BOOKS, "%s: %u tasks are shown as paused, and %u are running",
                         job_id_format((char[JOB_ID_TEXT]){0}, v.job), v.paused, v.running);
    }
}

/* Checks central's estimates: how long its workers are busy with long work. */
static void check_waiting(struct cluster *c, int64_t now_us)
{
    for (node_id_t n = central_next_node(c->central, NODE_NONE); n.v; n = central_next_node(c->central, n)) {
        struct central_node v;

        if (!central_view_node(c->central, n, now_us, &v) || v.wait_us < 0)
            cluster_fail(c, INVARIANT_WAITING_TIMES, "node %u has a waiting time of %lld us", n.v,
                         (long long)v.wait_us);
    }
}

/* *at_us: since when it has been so; TIME_NEVER: it is not so now. */
static void keep_since(int64_t *at_us, bool is, int64_t now_us)
{
    if (!is)
        *at_us = TIME_NEVER;
    else if (*at_us == TIME_NEVER)
        *at_us = now_us;
}

/* Checks that no parked thief stays beside a stuck reservation for longer than stuck_us_max (DESIGN 3.4). A
 * thief that gets a hint has a victim to ask. A victim that gives loot has another stuck group now. So both
 * begin to count anew. */
static void check_stuck(struct cluster *c, int64_t now_us)
{
    int64_t parked_us = TIME_NEVER, stuck_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct cluster_worker *w = c->workers[i];
        struct worker_counts counts = {0};

        if (w->alive)
            worker_counts(&w->w, &counts);
        /* A thief that has an end may decline what it gets, for want of time, and have had the hint in vain. */
        keep_since(&w->parked_us, counts.parked && !w->serves && !c->config.ending_workers, now_us);
        keep_since(&w->stuck_us, counts.stuck && !counts.parked, now_us);
        parked_us = w->parked_us < parked_us ? w->parked_us : parked_us;
        stuck_us = w->stuck_us < stuck_us ? w->stuck_us : stuck_us;
    }
    if (parked_us != TIME_NEVER && stuck_us != TIME_NEVER &&
        now_us - (parked_us > stuck_us ? parked_us : stuck_us) > c->config.stuck_us_max)
        cluster_fail(c, INVARIANT_STUCK, "a reservation is stuck since %lld us, a thief parked since %lld us",
                     (long long)(now_us - stuck_us), (long long)(now_us - parked_us));
}

/* Checks how many workers are out of service, as central shows it. */
static void check_service(struct cluster *c, int64_t now_us)
{
    uint32_t workers = 0, out = 0;

    for (node_id_t n = central_next_node(c->central, NODE_NONE); n.v; n = central_next_node(c->central, n)) {
        struct central_node v;
        bool there = central_view_node(c->central, n, now_us, &v) && v.member.role == ROLE_WORKER &&
                     v.member.state != MEMBER_GONE && v.drain == DRAIN_NOT;

        workers += there;
        out += there && v.out;
    }
    if (out > 0 && (workers == 1 || (out > 1 && out > workers / 4)))
        cluster_fail(c, INVARIANT_SERVICE, "%u of %u workers are out of service", out, workers);
}

/* The longest time for which a worker that is well again may stay out of service: it looks once per
 * WORKER_CHECK_MAX_US, and not at all while its process stands still. */
#define WELL_US (2 * WORKER_CHECK_MAX_US)

static void check_well(struct cluster *c, struct cluster_worker *w, int64_t now_us)
{
    const struct blob *why;

    keep_since(&w->well_us, worker_out_of_service(&w->w, &why) && w->startless_us <= now_us, now_us);
    if (w->well_us != TIME_NEVER && now_us - w->well_us > WELL_US)
        cluster_fail(c, INVARIANT_SERVICE,
                     "worker %u is out of service, although it can start tasks since %lld us", w->ep,
                     (long long)(now_us - w->well_us));
}

static bool all_in_service(struct cluster *c, void *arg)
{
    const struct blob *why;

    for (uint32_t i = 0; i < c->workers_n; i++)
        if (c->workers[i]->alive && worker_out_of_service(&c->workers[i]->w, &why))
            return false;
    for (node_id_t n = central_next_node(c->central, NODE_NONE); n.v; n = central_next_node(c->central, n)) {
        struct central_node v;

        if (central_view_node(c->central, n, bus_now(c->bus), &v) && v.member.state != MEMBER_GONE && v.out)
            return false;
    }
    return true;
}

void cluster_expect_in_service(struct cluster *c)
{
    cluster_run_until(c, all_in_service, NULL, 2 * WELL_US, INVARIANT_SERVICE, "in service");
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Checks that no run stands still for longer than the longest pause, and that no executor is awaited for longer than it
 * may take to say that a task stands still. While the worker's process stands still, it can do nothing about it. */
static void check_still(struct cluster *c, const struct cluster_worker *w, int64_t now_us)
{
    int64_t longest_us = w->w.config.pause.longest_us + CLUSTER_FREEZE_US;

    for (uint32_t i = 0; i < w->runs_n && now_us > w->asleep_us; i++) {
        const struct cluster_run *r = &w->runs[i];

        if (r->paused_us != TIME_NEVER && now_us - longest_us > later(r->paused_us, w->asleep_us))
            cluster_fail(c, INVARIANT_PAUSES, "task %u stands still since %lld us", r->held.id.task,
                         (long long)(now_us - r->paused_us));
        if (r->asked_us != TIME_NEVER && now_us - EXEC_CONFIRM_US > later(r->asked_us, w->asleep_us))
            cluster_fail(c, INVARIANT_PAUSES, "an executor is to pause task %u since %lld us",
                         r->held.id.task, (long long)(now_us - r->asked_us));
    }
}

void cluster_on_stepped(void *arg, uint32_t ep, int64_t now_us)
{
    struct cluster *c = arg;
    struct cluster_worker *w = cluster_worker_of(c, ep);
    struct cluster_dist *d = cluster_dist_of(c, ep);

    c->steps++;
    bus_check(c->bus, ep);
    if (c->config.stuck_us_max)
        check_stuck(c, now_us);
    if (ep == c->central_ep) {
        central_check(c->central);
        if (c->recovered)
            cluster_check_policy(c);
        check_waiting(c, now_us);
        if (c->startless_n > 0)
            check_service(c, now_us);
    } else if (w) {
        worker_check(&w->w);
        check_still(c, w, now_us);
        check_well(c, w, now_us);
    } else if (d) {
        dist_check(&d->d);
        check_books(c, &d->d, now_us);
    }
}
