/* The shell of the roles of a virtual cluster: tasks that only take time, and effects of all kinds. */
#include "faults/internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- The executor ---- */

/* Whether central may have the task under both: two dists that had the job one after the other may each have promoted
 * it (docs/protocol.md 9.5). A long job has one epoch there, whichever dist has it. */
static bool both_may_run(const struct try_id *a, const struct try_id *b)
{
    return a->epoch != b->epoch && !(epoch_is_dists(a->epoch) && epoch_is_dists(b->epoch));
}

/* Checks that no second copy of a task that central placed starts, whatever was lost (DESIGN 3.9). */
static void expect_only_copy(struct cluster *c, uint32_t job, const struct try_id *id)
{
    bool moved = c->jobs[job]->epoch > EPOCH_FIRST;

    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++) {
            struct cluster_run *r = &c->workers[i]->runs[j];

            if (!node_eq(r->held.owner, NODE_CENTRAL) || !job_eq(r->held.id.job, id->job) ||
                r->held.id.task != id->task || (moved && both_may_run(&r->held.id, id)))
                continue;
            /* Its machine stands still: this copy must end before it goes on. */
            r->doubled = c->workers[i]->frozen_us >= bus_now(c->bus);
            if (!r->doubled)
                cluster_fail(c, INVARIANT_ONE_COPY, "task %u of %s starts while worker %u still runs it",
                             id->task, job_id_format((char[JOB_ID_TEXT]){0}, id->job), i);
        }
}

static bool is_app(const struct cluster *c, const struct cluster_run *r)
{
    return c->jobs[r->job]->desc->kind == PAYLOAD_APP;
}

/* The worker could not start the run, for a reason of its own. Its spawner keeps this end like any other; it
 * keeps none of an executor's runs. */
static void cannot_start(struct cluster *c, struct cluster_worker *w, const struct msg_exec_start *m,
                         struct cluster_job *j)
{
    j->tasks[m->id.task].unstarted++;
    cluster_post(c, w->ep,
                 (struct msg){.type = MSG_EXEC_EXITED,
                              .exec_exited = {.run = m->run,
                                              .outcome = OUTCOME_LOST,
                                              .code = HAWK_ECANNOT_START,
                                              .result = blob_str("no such directory")}});
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
    bool fails = w->startless_us > bus_now(c->bus);

    cluster_post(c, w->ep,
                 (struct msg){.type = MSG_EXEC_CHECKED,
                              .exec_checked.why = fails ? blob_str("no such directory") : NULL});
}

/* Whether a run may start: its slot is free of runs with the same slot number. Paused tasks that go on
 * meanwhile overcommit the worker by at most worker_paused_max(). */
static bool may_start(const struct cluster_worker *w, uint32_t run)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (worker_slot_of(w->runs[i].held.run) == worker_slot_of(run))
            return false;
    return w->runs_n < w->slots + worker_paused_max(w->slots);
}

struct cluster_run *cluster_run_of(const struct cluster_worker *w, uint32_t run)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        if (w->runs[i].held.run == run)
            return &w->runs[i];
    return NULL;
}

/* Pauses a run. One of eight requests fails, as on a machine without memory. A worker pauses a run only for a
 * task that it was given. */
static void exec_pause(struct cluster *c, struct cluster_worker *w, uint32_t run)
{
    struct cluster_run *r = cluster_run_of(w, run);
    struct msg answer = {.type = MSG_EXEC_PAUSED, .exec_paused.run = run};
    struct worker_counts counts;

    worker_counts(&w->w, &counts);
    if (counts.given == 0)
        cluster_fail(c, INVARIANT_PAUSES, "a task is frozen, and no short one was given for that");
    if (r && is_app(c, r)) {
        answer.exec_paused.err = apps_pause(w->apps, bus_now(c->bus), run);
        if (answer.exec_paused.err)
            cluster_post(c, w->ep, answer);
        return;
    }
    if (!r || r->paused_us != TIME_NEVER)
        answer.exec_paused.err = HAWK_ENOT_FOUND;
    else if (rng_below(&c->rng, 8) == 0)
        answer.exec_paused.err = HAWK_EBUSY;
    if (!answer.exec_paused.err) {
        r->paused_us = bus_now(c->bus);
        r->due_us -= r->paused_us;
    }
    bus_post(c->bus, w->ep, bus_now(c->bus) + (int64_t)rng_below(&c->rng, CLUSTER_FREEZE_US), &answer);
}

void cluster_thaw_run(const struct cluster *c, struct cluster_run *r)
{
    int64_t now_us = bus_now(c->bus);

    if (r->paused_us == TIME_NEVER)
        return;
    r->due_us += now_us;
    r->start_us += now_us - r->paused_us;
    r->paused_us = TIME_NEVER;
}

void cluster_thaw(const struct cluster *c, struct cluster_worker *w)
{
    for (uint32_t i = 0; i < w->runs_n; i++)
        cluster_thaw_run(c, &w->runs[i]);
}

static void exec_resume(const struct cluster *c, const struct cluster_worker *w, uint32_t run)
{
    struct cluster_run *r = cluster_run_of(w, run);

    if (r && is_app(c, r))
        (void)apps_resume(w->apps, bus_now(c->bus), run);
    else if (r)
        cluster_thaw_run(c, r);
}

void cluster_count_start(struct cluster *c, const struct cluster_run *r)
{
    const struct cluster_job *j = c->jobs[r->job];

    if (j->desc->flags & JOB_AT_MOST_ONCE && j->tasks[r->held.id.task].starts > 0)
        cluster_fail(c, INVARIANT_AT_MOST_ONCE, "task %u of %s starts a second time", r->held.id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id));
    cluster_after_check(c, j, r->held.id.task);
    j->tasks[r->held.id.task].starts++;
}

/* From a worker's request for a task, when it looks at its time, to the start: whoever is slower is given up. */
#define LATE_START_US (30 * US_PER_S)

static void exec_start(struct cluster *c, struct cluster_worker *w, const struct msg_exec_start *m)
{
    uint32_t job = (uint32_t)m->desc->shell - 1;

    if (job < c->jobs_n && !c->jobs[job]->id.v) /* the task starts before its client has the answer */
        c->jobs[job]->id = m->id.job;
    if (job >= c->jobs_n || m->id.task >= m->desc->tasks || !job_eq(m->id.job, c->jobs[job]->id))
        cluster_fail(c, INVARIANT_EFFECTS, "a task that nobody submitted is started: %s, task %u",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job), m->id.task);
    if (w->serves && m->desc->kind != PAYLOAD_APP && strcmp(m->desc->user->data, w->serves) != 0)
        cluster_fail(c, INVARIANT_EFFECTS, "a job of user '%s' runs where those of %s alone do",
                     m->desc->user->data, w->serves);
    if (m->desc->estimate_us > 0 && w->taken_us != TIME_NEVER &&
        bus_now(c->bus) + m->desc->estimate_us > w->taken_us + LATE_START_US)
        cluster_fail(c, INVARIANT_EFFECTS, "a task of %lld us starts, and its worker ends in %lld us",
                     (long long)m->desc->estimate_us, (long long)(w->taken_us - bus_now(c->bus)));
    if (!may_start(w, m->run))
        cluster_fail(c, INVARIANT_EFFECTS, "all %u slots are taken, and another task is started", w->slots);
    if (c->jobs[job]->nowhere || w->startless_us > bus_now(c->bus)) {
        cannot_start(c, w, m, c->jobs[job]);
        return;
    }
    if (node_eq(m->owner, NODE_CENTRAL))
        expect_only_copy(c, job, &m->id);
    vec_grow(w->runs, w->runs_n, w->runs_cap);
    w->runs[w->runs_n++] =
        (struct cluster_run){.held = {.id = m->id,
                                      .run = m->run,
                                      .owner = m->owner,
                                      .class = m->class,
                                      .promotable = m->promotable,
                                      .stolen = m->stolen},
                             .start_us = bus_now(c->bus),
                             .due_us = bus_now(c->bus) + c->jobs[job]->tasks[m->id.task].duration_us,
                             .paused_us = TIME_NEVER,
                             .asked_us = TIME_NEVER,
                             .answer_us = TIME_NEVER,
                             .job = job};
    if (m->desc->kind == PAYLOAD_APP) {
        w->runs[w->runs_n - 1].due_us = TIME_NEVER;
        apps_run(w->apps, bus_now(c->bus), m);
        return;
    }
    cluster_count_start(c, &w->runs[w->runs_n - 1]);
    cluster_post(c, w->ep, (struct msg){.type = MSG_EXEC_STARTED, .exec_started = {.run = m->run, .pid = 1}});
}

struct blob *cluster_result_of(const struct cluster *c, uint32_t job, uint32_t task)
{
    char text[40];

    if (c->jobs[job]->desc->kind != PAYLOAD_APP)
        return NULL;
    snprintf(text, sizeof text, "%u/%u", job, task);
    return blob_str(text);
}

struct usage cluster_usage_of(const struct cluster *c, uint32_t job, uint32_t task)
{
    return c->jobs[job]->desc->kind == PAYLOAD_APP ? (struct usage){0} : usage_of(1 + job, 1 + task);
}

/* Ends run i. The spawner reports the end to the agent, if there is one, and keeps it until the agent
 * acknowledges it. */
static void exited(struct cluster *c, struct cluster_worker *w, uint32_t i, enum outcome outcome,
                   int32_t code)
{
    struct msg_exec_held *h = &w->runs[i].held;
    struct msg m = {.type = MSG_EXEC_EXITED};

    h->outcome = (uint8_t)outcome;
    h->code = code;
    h->run_us = bus_now(c->bus) - w->runs[i].start_us;
    m.exec_exited = (struct msg_exec_exited){.run_us = h->run_us,
                                             .run = h->run,
                                             .outcome = h->outcome,
                                             .code = h->code,
                                             .used = cluster_usage_of(c, w->runs[i].job, h->id.task)};
    vec_grow(w->ends, w->ends_n, w->ends_cap);
    w->ends[w->ends_n++] = w->runs[i];
    w->runs[i] = w->runs[--w->runs_n];
    if (w->alive)
        cluster_post(c, w->ep, m);
}

static void exec_kill(struct cluster *c, struct cluster_worker *w, const struct msg_exec_kill *m)
{
    struct cluster_run *r = cluster_run_of(w, m->run);

    if (!r)
        return;
    if (is_app(c, r)) {
        (void)apps_kill(w->apps, bus_now(c->bus), m->run, m->outcome, m->force);
        return;
    }
    cluster_thaw_run(c, r);
    exited(c, w, (uint32_t)(r - w->runs), m->outcome, 15);
}

static void exec_forget(struct cluster_worker *w, uint32_t run)
{
    for (uint32_t i = 0; i < w->ends_n; i++)
        if (w->ends[i].held.run == run) {
            w->ends[i] = w->ends[--w->ends_n];
            return;
        }
}

/* When the spawner kills a run: when its lease or the worker's grace is over (DESIGN 3.9 and 3.10). */
static int64_t killed_us(const struct cluster_worker *w, const struct cluster_run *r)
{
    int64_t at_us =
        node_eq(r->held.owner, NODE_CENTRAL) && w->lease_us < w->orphan_us ? w->lease_us : w->orphan_us;

    return at_us < w->frozen_us ? w->frozen_us : at_us; /* a frozen machine kills it when it goes on */
}

int64_t cluster_next_end(struct cluster *c, struct cluster_worker **w, uint32_t *run)
{
    int64_t first_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->workers_n; i++)
        for (uint32_t j = 0; j < c->workers[i]->runs_n; j++) {
            const struct cluster_run *r = &c->workers[i]->runs[j];
            int64_t by_us = killed_us(c->workers[i], r),
                    due_us = r->paused_us == TIME_NEVER ? r->due_us : TIME_NEVER;
            int64_t at_us = due_us < by_us ? due_us : by_us;

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
    struct cluster_run *r = &w->runs[run];
    const struct cluster_job *j = c->jobs[r->job];
    uint32_t task = r->held.id.task;

    if (killed_us(w, r) < r->due_us && is_app(c, r)) {
        (void)apps_kill(w->apps, bus_now(c->bus), r->held.run, OUTCOME_LOST, true);
        return;
    }
    cluster_thaw_run(c, r); /* a paused run ends here only if it is killed */
    if (killed_us(w, r) < r->due_us) {
        exited(c, w, run, OUTCOME_LOST, 9);
        return;
    }
    if (r->doubled)
        cluster_fail(c, INVARIANT_ONE_COPY,
                     "task %u of %s runs to its end on a machine that stood still while a copy was started "
                     "elsewhere",
                     task, job_id_format((char[JOB_ID_TEXT]){0}, j->id));
    if (is_app(c, r)) {
        cluster_executor_ends(c, w, r);
        return;
    }
    j->tasks[task].ends++;
    exited(c, w, run, OUTCOME_EXITED, j->tasks[task].code);
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
    for (uint32_t i = 0; i < w->ends_n + w->runs_n; i++) {
        struct cluster_run *r = i < w->ends_n ? &w->ends[i] : &w->runs[i - w->ends_n];

        if (i >= w->ends_n)
            r->held.run_us = e.now_us - r->start_us;
        e.m = (struct msg){.type = MSG_EXEC_HELD, .exec_held = r->held};
        worker_step(&w->w, &e, &out);
        if (i >= w->ends_n)
            continue;
        e.m = (struct msg){.type = MSG_EXEC_USED,
                           .exec_used = {.id = r->held.id,
                                         .owner = r->held.owner,
                                         .used = cluster_usage_of(c, r->job, r->held.id.task)}};
        worker_step(&w->w, &e, &out);
    }
    if (out.n > 0)
        cluster_fail(c, INVARIANT_EFFECTS, "an agent cannot take over what the last one left: %s",
                     msg_name(out.v[0].type));
    out_free(&out);
}

static void on_stopped(struct cluster *c, uint32_t ep)
{
    struct cluster_worker *w = cluster_worker_of(c, ep);
    struct cluster_dist *d = cluster_dist_of(c, ep);

    bus_close(c->bus, ep);
    if (d) { /* central refused the dist; systemd would restart it */
        cluster_dist_died(c, d);
        d->start_us = bus_now(c->bus) + CLUSTER_RESTART_US;
    }
    if (w && !w->stopping)
        w->start_us = bus_now(c->bus) + CLUSTER_RESTART_US;
    if (w) {
        if (w->runs_n > 0)
            cluster_fail(c, INVARIANT_EFFECTS, "a worker that runs %u tasks has stopped", w->runs_n);
        w->alive = false;
        cluster_executors_end(c, w);
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
    case MSG_EXEC_PAUSE:
        exec_pause(c, w, m->exec_pause.run);
        break;
    case MSG_EXEC_RESUME:
        exec_resume(c, w, m->exec_resume.run);
        break;
    case MSG_EXEC_FORGET:
        exec_forget(w, m->exec_forget.run);
        break;
    case MSG_EXEC_LEASE:
        w->lease_us = m->exec_lease.until_us;
        break;
    case MSG_SUBMITTED:
        cluster_on_submitted(c, ep, &m->submitted);
        break;
    case MSG_HOLD_SET:
        cluster_on_hold_set(c, ep, &m->hold_set);
        break;
    case MSG_CANCELLED:
        cluster_on_cancelled(c, ep, &m->cancelled);
        break;
    case MSG_TASK_EVENT:
        cluster_on_task_event(c, ep, &m->task_event);
        break;
    case MSG_JOB_EVENT:
        cluster_on_job_event(c, ep, &m->job_event);
        break;
    case MSG_JOB_ABANDONED:
        cluster_on_job_abandoned(c, &m->job_abandoned);
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
