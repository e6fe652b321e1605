/* What the roles of a virtual cluster ask of their shell: tasks that only take time, a journal in memory, and the
 * clients, who know what they were told. */
#include "faults/internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- The executor ---- */

/* DESIGN 3.9: never two copies of a task that central placed, whatever was lost. */
static void expect_only_copy(struct cluster *c, const struct try_id *id)
{
    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++) {
            struct cluster_run *r = &c->workers[i]->runs[j];

            if (!node_eq(r->held.owner, NODE_CENTRAL) || !job_eq(r->held.id.job, id->job) ||
                r->held.id.task != id->task)
                continue;
            r->doubled = c->workers[i]->frozen_us >= bus_now(c->bus); /* it must not go on once it can */
            if (!r->doubled)
                cluster_fail(c, INVARIANT_ONE_COPY, "task %u of %s starts while worker %u still runs it",
                             id->task, job_id_format((char[JOB_ID_TEXT]){0}, id->job), i);
        }
}

static bool is_app(const struct cluster *c, const struct cluster_run *r)
{
    return c->jobs[r->job]->desc->kind == PAYLOAD_APP;
}

void cluster_tell_attached(struct cluster *c, struct cluster_worker *w)
{
    struct msg m = {.type = MSG_EXEC_APP, .exec_app = {.name = blob_str(CLUSTER_APP), .on = w->attached}};

    bus_post(c->bus, w->ep, bus_now(c->bus), &m);
}

static void never_ran(struct cluster *c, const struct cluster_worker *w, uint32_t run)
{
    struct msg m = {.type = MSG_EXEC_EXITED,
                    .exec_exited = {.run = run, .outcome = OUTCOME_LOST, .code = HAWK_ENO_EXECUTOR}};

    bus_post(c->bus, w->ep, bus_now(c->bus), &m);
}

/* Nor did this, for a reason of the worker's; its spawner keeps that as any other end, and has none of an executor's. */
static void cannot_start(struct cluster *c, struct cluster_worker *w, const struct msg_exec_start *m,
                         struct cluster_job *j)
{
    struct msg answer = {.type = MSG_EXEC_EXITED,
                         .exec_exited = {.run = m->run,
                                         .outcome = OUTCOME_LOST,
                                         .code = HAWK_ECANNOT_START,
                                         .result = blob_str("no such directory")}};

    j->unstarted[m->id.task]++;
    bus_post(c->bus, w->ep, bus_now(c->bus), &answer);
    if (m->desc->kind == PAYLOAD_APP)
        return;
    vec_grow(w->ends, w->ends_n, w->ends_cap);
    w->ends[w->ends_n++] = (struct cluster_run){.held = {.id = m->id,
                                                         .run = m->run,
                                                         .owner = m->owner,
                                                         .class = m->class,
                                                         .promotable = m->promotable,
                                                         .stolen = m->stolen,
                                                         .outcome = OUTCOME_LOST,
                                                         .code = HAWK_ECANNOT_START},
                                                .job = (uint32_t)m->desc->shell - 1};
}

static void exec_check(struct cluster *c, struct cluster_worker *w)
{
    struct msg answer = {.type = MSG_EXEC_CHECKED};

    if (w->startless_us > bus_now(c->bus))
        answer.exec_checked.why = blob_str("no such directory");
    bus_post(c->bus, w->ep, bus_now(c->bus), &answer);
}

static void exec_start(struct cluster *c, struct cluster_worker *w, const struct msg_exec_start *m)
{
    struct msg started = {.type = MSG_EXEC_STARTED, .exec_started = {.run = m->run, .pid = 1}};
    struct cluster_run *run;
    uint32_t job = (uint32_t)m->desc->shell - 1;

    if (job < c->jobs_n && !c->jobs[job]->id.v) /* it starts before its client has the answer */
        c->jobs[job]->id = m->id.job;
    if (job >= c->jobs_n || m->id.task >= m->desc->tasks || !job_eq(m->id.job, c->jobs[job]->id))
        cluster_fail(c, INVARIANT_EFFECTS, "a task is started that nobody submitted: %s, task %u",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job), m->id.task);
    if (w->runs_n >= w->slots)
        cluster_fail(c, INVARIANT_EFFECTS, "%u slots, and another task is started", w->slots);
    if (m->desc->kind == PAYLOAD_APP && !w->attached) {
        never_ran(c, w, m->run);
        return;
    }
    if (c->jobs[job]->nowhere || w->startless_us > bus_now(c->bus)) {
        cannot_start(c, w, m, c->jobs[job]);
        return;
    }
    if (node_eq(m->owner, NODE_CENTRAL))
        expect_only_copy(c, &m->id);
    vec_grow(w->runs, w->runs_n, w->runs_cap);
    run = &w->runs[w->runs_n++];
    *run = (struct cluster_run){.held = {.id = m->id,
                                         .run = m->run,
                                         .owner = m->owner,
                                         .class = m->class,
                                         .promotable = m->promotable,
                                         .stolen = m->stolen},
                                .start_us = bus_now(c->bus),
                                .due_us = bus_now(c->bus) + c->jobs[job]->duration_us[m->id.task],
                                .job = job};
    if (m->desc->flags & JOB_AT_MOST_ONCE && c->jobs[job]->starts[m->id.task] > 0)
        cluster_fail(c, INVARIANT_AT_MOST_ONCE, "task %u of %s starts a second time", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
    c->jobs[job]->starts[m->id.task]++;
    bus_post(c->bus, w->ep, bus_now(c->bus), &started);
}

/* What a task of an application returns: nobody else's. */
static struct blob *result_of(const struct cluster *c, uint32_t job, uint32_t task)
{
    char text[40];

    if (c->jobs[job]->desc->kind != PAYLOAD_APP)
        return NULL;
    snprintf(text, sizeof text, "%u/%u", job, task);
    return blob_str(text);
}

/* Its end is reported to the agent, if there is one, and kept until that forgets it; an executor keeps nothing. */
static void exited(struct cluster *c, struct cluster_worker *w, uint32_t i, enum outcome outcome,
                   int32_t code)
{
    struct msg_exec_held *h = &w->runs[i].held;
    struct msg m = {.type = MSG_EXEC_EXITED};

    h->outcome = (uint8_t)outcome;
    h->code = code;
    h->run_us = bus_now(c->bus) - w->runs[i].start_us;
    m.exec_exited =
        (struct msg_exec_exited){.run_us = h->run_us, .run = h->run, .outcome = h->outcome, .code = h->code};
    if (outcome == OUTCOME_EXITED && code == 0)
        m.exec_exited.result = result_of(c, w->runs[i].job, h->id.task);
    if (!is_app(c, &w->runs[i])) {
        vec_grow(w->ends, w->ends_n, w->ends_cap);
        w->ends[w->ends_n++] = w->runs[i];
    }
    w->runs[i] = w->runs[--w->runs_n];
    if (w->alive)
        bus_post(c->bus, w->ep, bus_now(c->bus), &m);
    else
        msg_drop(&m);
}

void cluster_end_app_runs(struct cluster *c, struct cluster_worker *w)
{
    for (uint32_t i = w->runs_n; i-- > 0;)
        if (is_app(c, &w->runs[i]))
            exited(c, w, i, OUTCOME_LOST, 0);
}

static void exec_kill(struct cluster *c, struct cluster_worker *w, const struct msg_exec_kill *m)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].held.run == m->run) {
            exited(c, w, i, m->outcome, 15);
            return;
        }
}

static void exec_forget(struct cluster_worker *w, uint32_t run)
{
    for (uint32_t i = 0; i < w->ends_n; i++)
        if (w->ends[i].held.run == run) {
            w->ends[i] = w->ends[--w->ends_n];
            return;
        }
}

/* When the spawner ends a run, should it not end before: DESIGN 3, rules 9 and 10. */
static int64_t killed_us(const struct cluster_worker *w, const struct cluster_run *r)
{
    int64_t at_us =
        node_eq(r->held.owner, NODE_CENTRAL) && w->lease_us < w->orphan_us ? w->lease_us : w->orphan_us;

    return at_us < w->frozen_us ? w->frozen_us : at_us; /* as soon as its machine goes on */
}

int64_t cluster_next_end(struct cluster *c, struct cluster_worker **w, uint32_t *run)
{
    int64_t first_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++) {
            const struct cluster_run *r = &c->workers[i]->runs[j];
            int64_t by_us = killed_us(c->workers[i], r), at_us = r->due_us < by_us ? r->due_us : by_us;

            if (at_us >= first_us)
                continue;
            first_us = at_us;
            *w = c->workers[i];
            *run = j;
        }
    return first_us;
}

void cluster_end_run(struct cluster *c, struct cluster_worker *w, uint32_t run)
{
    const struct cluster_run *r = &w->runs[run];
    const struct cluster_job *j = c->jobs[r->job];
    uint32_t task = r->held.id.task;

    if (killed_us(w, r) < r->due_us) {
        exited(c, w, run, OUTCOME_LOST, 9);
        return;
    }
    if (r->doubled)
        cluster_fail(c, INVARIANT_ONE_COPY,
                     "task %u of %s runs to its end where it stood still while a copy was started elsewhere",
                     task, job_id_format((char[JOB_ID_TEXT]){0}, j->id));
    j->ends[task]++;
    exited(c, w, run, OUTCOME_EXITED, j->code[task]);
}

void cluster_forget_runs(struct cluster_worker *w)
{
    w->runs_n = w->ends_n = 0;
    w->incarnation = 0;
    w->lease_us = w->orphan_us = TIME_NEVER;
}

void cluster_take_over(struct cluster *c, struct cluster_worker *w)
{
    struct event e = {.now_us = bus_now(c->bus), .m = {.type = MSG_EXEC_LEASE}};
    struct out out = {0};

    if (w->lease_us != TIME_NEVER) {
        e.m.exec_lease.until_us = w->lease_us;
        worker_step(&w->w, &e, &out);
    }
    e.m.type = MSG_EXEC_HELD;
    for (uint32_t i = 0; i < w->ends_n + w->runs_n; i++) {
        struct cluster_run *r = i < w->ends_n ? &w->ends[i] : &w->runs[i - w->ends_n];

        if (i >= w->ends_n)
            r->held.run_us = e.now_us - r->start_us;
        e.m.exec_held = r->held;
        worker_step(&w->w, &e, &out);
    }
    if (out.n > 0)
        cluster_fail(c, INVARIANT_EFFECTS, "an agent cannot take over what the last one left: %s",
                     msg_name(out.v[0].type));
    out_free(&out);
}

/* ---- The client ---- */

static struct cluster_job *job_by_id(struct cluster *c, job_id_t id)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->submitted && job_eq(c->jobs[i]->id, id))
            return c->jobs[i];
    return NULL;
}

static void on_submitted(struct cluster *c, uint32_t ep, const struct msg_submitted *m)
{
    struct cluster_job *j;
    struct msg watch = {.type = MSG_WATCH, .watch = {.job = m->job, .on = 1}};

    if (m->client == 0 || m->client > c->jobs_n || c->jobs[m->client - 1]->submitted)
        cluster_fail(c, INVARIANT_EFFECTS, "an answer to a submission that is not awaited: client %u",
                     m->client);
    j = c->jobs[m->client - 1];
    if (j->id.v && !job_eq(j->id, m->job))
        cluster_fail(c, INVARIANT_EFFECTS, "what runs as another job is said to be %s",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
    for (uint32_t i = 0; m->job.v && i < c->jobs_n; i++)
        if (c->jobs[i] != j && job_eq(c->jobs[i]->id, m->job))
            cluster_fail(c, INVARIANT_NUMBERS, "%s is given to job %u, and was given to job %u",
                         job_id_format((char[JOB_ID_TEXT]){0}, m->job), m->client, i + 1);
    j->submitted = true;
    j->id = m->job;
    j->err = m->err;
    j->class = m->class;
    j->why = m->why;
    if (!m->err)
        bus_post(c->bus, ep, bus_now(c->bus), &watch);
}

/* Its dist had it in the journal, and died before its client had the answer, or before it could write that it had refused
 * it for a disk that failed. */
static bool is_nobodys(struct cluster *c, uint32_t ep, job_id_t id)
{
    const struct dist *d = &cluster_dist_of(c, ep)->d;
    const struct dist_job *found = dist_find(d, id);
    const struct cluster_job *j;
    struct job_view v;

    if (!found)
        return false;
    dist_job_view(d, found, bus_now(c->bus), &v);
    if (v.desc->shell == 0 || v.desc->shell > c->jobs_n)
        return false;
    j = c->jobs[v.desc->shell - 1];
    return d->cfg.life > 1 && (j->abandoned || j->err == HAWK_EIO);
}

/* It may be lost, with its dist or central; what is there is what that task returned. */
static void expect_own_result(struct cluster *c, uint32_t ep, const struct cluster_job *j, uint32_t task)
{
    const struct dist *d = &cluster_dist_of(c, ep)->d;
    const struct dist_job *found = dist_find(d, j->id);
    struct blob *own = result_of(c, (uint32_t)j->desc->shell - 1, task);
    struct task_view v = {0};

    if (found)
        dist_task_view(d, found, task, bus_now(c->bus), &v);
    if (v.result && (!own || own->len != v.result->len || memcmp(own->data, v.result->data, own->len) != 0))
        cluster_fail(c, INVARIANT_ONE_END, "task %u of %s is said to have returned %s", task,
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id), v.result->data);
    blob_drop(own);
}

static void on_task_event(struct cluster *c, uint32_t ep, const struct msg_task_event *m)
{
    struct cluster_job *j = job_by_id(c, m->id.job);

    if (!j || m->id.task >= j->desc->tasks || cluster_ended(j))
        cluster_fail(c, INVARIANT_ONE_END, "an event of task %u of %s, which %s", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job), j ? "has ended" : "nobody submitted");
    j->task_state[m->id.task] = m->state;
    if (m->state == TASK_DONE)
        expect_own_result(c, ep, j, m->id.task);
    if (m->state == TASK_CANCELLED && !j->cancelled)
        cluster_fail(c, INVARIANT_ASKED, "task %u of %s was cancelled, which nobody asked for", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
    if (task_state_final(m->state) && ++j->finals[m->id.task] != 1)
        cluster_fail(c, INVARIANT_ONE_END, "task %u of %s ended twice for its client", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
}

void cluster_read_ends(struct cluster *c, uint32_t ep, struct cluster_job *j)
{
    const struct dist *d = &cluster_dist_of(c, ep)->d;
    const struct dist_job *found = dist_find(d, j->id);
    struct task_view v;

    for (uint32_t t = 0; found && t < j->desc->tasks; t++) {
        dist_task_view(d, found, t, bus_now(c->bus), &v);
        j->task_state[t] = v.state;
        j->finals[t] += task_state_final(v.state) && j->finals[t] == 0;
    }
}

void cluster_dist_recovered(struct cluster *c, struct cluster_dist *d)
{
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        struct cluster_job *j = c->jobs[i];
        const struct dist_job *found;
        struct job_view v;
        struct msg watch = {.type = MSG_WATCH, .watch = {.job = j->id, .on = 1}};

        if (c->dists[j->dist] != d || !j->submitted || j->err || j->abandoned ||
            !(j->desc->flags & JOB_DETACHED))
            continue;
        found = dist_find(&d->d, j->id);
        if (found)
            dist_job_view(&d->d, found, bus_now(c->bus), &v);
        if (found && job_state_final(v.state)) {
            if (v.state != j->state)
                cluster_fail(c, INVARIANT_ONE_END, "%s is read back as %s, and its client knows it as %s",
                             job_id_format((char[JOB_ID_TEXT]){0}, j->id), job_state_text(v.state),
                             job_state_text(j->state));
        } else if (found) {
            /* Its end, if it had one, was not on record: it is the same job, and ends once more. */
            j->state = JOB_WAITING;
            j->watched = false;
            for (uint32_t t = 0; t < j->desc->tasks; t++)
                j->finals[t] = 0;
            bus_post(c->bus, d->ep, bus_now(c->bus), &watch);
        } else if (!cluster_ended(j)) {
            cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                         "%s was accepted, and its dist does not know it any more",
                         job_id_format((char[JOB_ID_TEXT]){0}, j->id));
        }
    }
}

static void on_cancelled(struct cluster *c, uint32_t ep, const struct msg_cancelled *m)
{
    struct cluster_job *j = job_by_id(c, m->job);

    if (j && !m->err && !j->cancelled_life)
        j->cancelled_life = cluster_dist_of(c, ep)->life;
}

static void on_job_event(struct cluster *c, uint32_t ep, const struct msg_job_event *m)
{
    struct cluster_job *j = job_by_id(c, m->job);

    if (is_nobodys(c, ep, m->job))
        return;
    if (!j || cluster_ended(j))
        cluster_fail(c, INVARIANT_ONE_END, "an event of %s, which %s",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job), j ? "has ended" : "nobody submitted");
    j->state = m->state;
    if (!job_state_final(m->state))
        return;
    j->end_us = bus_now(c->bus);
    if (!j->watched)
        cluster_read_ends(c, ep, j);
    for (uint32_t i = 0; i < j->desc->tasks; i++)
        if (j->finals[i] != 1)
            cluster_fail(c, INVARIANT_ONE_END, "job %u ended, and its task %u had %u final events",
                         (unsigned)j->desc->shell, i, j->finals[i]);
}

/* Central may give up only what nobody has claimed for long: not what a dist has that is with central, and was heard of
 * after it had joined and said what it has. */
static void on_job_abandoned(struct cluster *c, const struct msg_job_abandoned *m)
{
    int64_t now_us = bus_now(c->bus);
    struct cluster_job *j = NULL;
    const struct dist_job *found;
    struct central_node n;
    const struct dist *d;
    struct job_view v;

    for (uint32_t i = 0; i < c->jobs_n && !j; i++)
        if (job_eq(c->jobs[i]->id, m->job))
            j = c->jobs[i];
    if (!j)
        return; /* its client never had an answer */
    j->cancelled = true;
    if (j->desc->flags & JOB_DETACHED)
        cluster_fail(c, INVARIANT_ASKED, "central gives up %s, for which nobody need wait",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
    d = &c->dists[j->dist]->d;
    found = c->dists[j->dist]->alive && dist_central_up(d) ? dist_find(d, m->job) : NULL;
    if (!found || !central_view_node(c->central, dist_node(d), now_us, &n))
        return;
    dist_job_view(d, found, now_us, &v);
    if (!job_state_final(v.state) && node_eq(v.owner, NODE_CENTRAL) && v.epoch == m->epoch &&
        n.member.state == MEMBER_UP && n.silent_us < US_PER_S && now_us - d->joined_us > 2 * US_PER_S)
        cluster_fail(c, INVARIANT_ASKED, "central gives up %s, and its dist is there and has it",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
}

static void on_stopped(struct cluster *c, uint32_t ep)
{
    struct cluster_worker *w = cluster_worker_of(c, ep);
    struct cluster_dist *d = cluster_dist_of(c, ep);

    bus_close(c->bus, ep);
    if (d) { /* central refused it; it is started again, as the units for systemd do */
        cluster_dist_died(c, d);
        d->start_us = bus_now(c->bus) + CLUSTER_RESTART_US;
    }
    if (w && !w->stopping)
        w->start_us = bus_now(c->bus) + CLUSTER_RESTART_US;
    if (w) {
        if (w->runs_n > 0)
            cluster_fail(c, INVARIANT_EFFECTS, "a worker has stopped, and runs %u tasks", w->runs_n);
        w->alive = false;
        cluster_forget_runs(w);
    }
}

void cluster_on_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m)
{
    struct cluster *c = arg;
    struct cluster_worker *w = cluster_worker_of(c, ep);

    if (c->trace) {
        char line[300];

        msg_format(m, line, sizeof line);
        fprintf(stderr, "%12lld %3u ! %s\n", (long long)now_us, ep, line);
    }
    switch (m->type) {
    case MSG_EXEC_START:
        exec_start(c, w, &m->exec_start);
        break;
    case MSG_EXEC_CHECK:
        exec_check(c, w);
        break;
    case MSG_EXEC_KILL:
        exec_kill(c, w, &m->exec_kill);
        break;
    case MSG_EXEC_FORGET:
        exec_forget(w, m->exec_forget.run);
        break;
    case MSG_EXEC_LEASE:
        w->lease_us = m->exec_lease.until_us;
        break;
    case MSG_SUBMITTED:
        on_submitted(c, ep, &m->submitted);
        break;
    case MSG_CANCELLED:
        on_cancelled(c, ep, &m->cancelled);
        break;
    case MSG_TASK_EVENT:
        on_task_event(c, ep, &m->task_event);
        break;
    case MSG_JOB_EVENT:
        on_job_event(c, ep, &m->job_event);
        break;
    case MSG_JOB_ABANDONED:
        on_job_abandoned(c, &m->job_abandoned);
        break;
    case MSG_POLICY_SET:
        cluster_operator_answered(c, &m->policy_set);
        break;
    case MSG_STOPPED:
        on_stopped(c, ep);
        break;
    default:
        if (msg_is_record(m))
            cluster_store_write(c, ep == c->central_ep ? &c->store : &cluster_dist_of(c, ep)->store, m);
    }
}
