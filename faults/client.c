/* The clients of a virtual cluster: each remembers what dists told it of its job, and moves the job between
 * dists. */
#include "faults/internal.h"

#include "base/mem.h"

#include <stdio.h>

struct cluster_job *cluster_job_of(const struct cluster *c, job_id_t id)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (job_eq(c->jobs[i]->id, id))
            return c->jobs[i];
    return NULL;
}

/* Where tasks are paused, each second job is submitted in a task of the nearest job before it that has an id. It is one
 * of that job's ancestors then, and so on. */
static void draw_ancestors(struct cluster *c, struct cluster_job *j)
{
    struct ancestors *a = &j->desc->ancestors;
    const struct cluster_job *in = NULL;

    for (uint32_t i = 0; i < c->jobs_n && c->jobs[i] != j; i++)
        if (c->jobs[i]->submitted && !c->jobs[i]->err)
            in = c->jobs[i];
    if (!c->config.pause_longest_us || j->desc->shell % 2 || !in || a->n > 0)
        return;
    a->v[a->n++] = in->id;
    for (uint32_t i = 0; i < in->desc->ancestors.n && a->n < LIMIT_ANCESTORS; i++)
        a->v[a->n++] = in->desc->ancestors.v[i];
}

static struct cluster_job *submitted_job(struct cluster *c, job_id_t id)
{
    struct cluster_job *j = cluster_job_of(c, id);

    return j && j->submitted ? j : NULL;
}

/* The `client` of a job's SUBMIT: the epoch under which its client asks, and the job's number. */
static uint32_t client_of(const struct cluster_job *j)
{
    return (uint32_t)j->epoch << 16 | (uint32_t)j->desc->shell;
}

void cluster_submit(struct cluster *c, struct cluster_job *j, uint32_t dist)
{
    draw_ancestors(c, j);
    cluster_after_draw(c, j, dist);
    j->dist = dist;
    j->submit_us = bus_now(c->bus);
    j->abandoned = !c->dists[dist]->alive; /* a dead dist does not answer */
    cluster_post(c, c->dists[dist]->ep,
                 (struct msg){.type = MSG_SUBMIT,
                              .submit = {.desc = job_desc_ref(j->desc),
                                         .client = client_of(j),
                                         .key = c->config.jobs_move ? j->desc->shell : 0}});
}

void cluster_cancel(struct cluster *c, struct cluster_job *j)
{
    j->cancelled = j->wants_cancel = true;
    if (!j->away)
        cluster_post(
            c, c->dists[j->dist]->ep,
            (struct msg){.type = MSG_CANCEL, .cancel = {.job = j->id, .client = (uint32_t)j->desc->shell}});
}

/* An answer names the number of what it answers. */
#define CANCEL_ASK_SHIFT 16

static void cancel_tasks_some(struct cluster *c)
{
    struct rng *r = &c->cancels;
    struct cluster_job *j;
    struct task_set *s;
    uint32_t first;

    if (!c->config.cancel_tasks || c->jobs_n == 0 || rng_below(r, 2))
        return;
    j = c->jobs[rng_below(r, c->jobs_n)];
    first = (uint32_t)rng_below(r, j->desc->tasks);
    s = task_set_new(1 + (uint32_t)rng_below(r, j->desc->tasks - first));
    if (!j->submitted || cluster_ended(j) || j->away || j->cancel_asks == UINT8_MAX) {
        task_set_drop(s);
        return;
    }
    j->cancel_asks++;
    for (uint32_t i = 0; i < s->n; i++) {
        s->v[i] = first + i;
        j->tasks[first + i].cancel_ask = j->cancel_asks;
    }
    cluster_post(c, c->dists[j->dist]->ep,
                 (struct msg){.type = MSG_CANCEL,
                              .cancel = {.job = j->id,
                                         .client = (uint32_t)j->cancel_asks << CANCEL_ASK_SHIFT |
                                                   (uint32_t)j->desc->shell,
                                         .tasks = s}});
}

void cluster_ask_some(struct cluster *c)
{
    cluster_hold_some(c);
    cancel_tasks_some(c);
}

static void tasks_cancelled(struct cluster_job *j, uint8_t ask, uint16_t life)
{
    for (uint32_t i = 0; i < j->desc->tasks; i++)
        if (j->tasks[i].cancel_ask == ask)
            j->tasks[i].cancelled_life = life;
}

bool cluster_ended(const struct cluster_job *j)
{
    return j->submitted && (j->err || job_state_final(j->state));
}

static void watch_job(struct cluster *c, const struct cluster_job *j, bool on)
{
    if (c->dists[j->dist]->alive)
        cluster_post(
            c, c->dists[j->dist]->ep,
            (struct msg){.type = MSG_WATCH,
                         .watch = {.job = j->id, .on = on, .epoch = j->epoch, .key = j->desc->shell}});
}

/* ---- Moving (docs/protocol.md 9) ---- */

bool cluster_may_move(const struct cluster *c, const struct cluster_job *j)
{
    return c->config.jobs_move && j->submitted && !j->abandoned && !cluster_ended(j) &&
           !(j->desc->flags & JOB_DETACHED) && j->desc->after.n == 0;
}

void cluster_leave_dist(struct cluster *c, struct cluster_job *j)
{
    if (j->away)
        return;
    watch_job(c, j, false);
    j->leaving += c->dists[j->dist]->alive;
    j->away = true;
    if (j->watched)
        j->left_us = bus_now(c->bus);
    j->watched = j->claimed = false;
    j->ask_us = bus_now(c->bus) + (int64_t)rng_below(&c->net.rng, CLUSTER_ANSWER_US);
}

int64_t cluster_next_ask(const struct cluster *c)
{
    int64_t at_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->away)
            at_us = earlier(at_us, c->jobs[i]->ask_us);
    return at_us;
}

/* The client's dist has the job (again): watches it there. */
static void come_home(struct cluster *c, struct cluster_job *j)
{
    j->away = false;
    j->home_forgot = false;
    watch_job(c, j, true);
    cluster_after_home(c, j);
    if (j->wants_cancel)
        cluster_cancel(c, j);
}

static enum outcome outcome_of(enum task_state state)
{
    return state == TASK_CANCELLED ? OUTCOME_CANCELLED : state == TASK_LOST ? OUTCOME_LOST : OUTCOME_EXITED;
}

/* The client's knowledge of its job, for another dist. */
static struct resubmit *known(const struct cluster *c, const struct cluster_job *j)
{
    struct resubmit *r = resubmit_new(j->desc->tasks);

    r->job = j->id;
    r->epoch = j->epoch;
    r->long_epoch = j->long_epoch;
    r->class = j->class;
    r->why = j->why;
    r->held = j->held;
    r->age_us = bus_now(c->bus) - j->submit_us;
    r->n = 0;
    for (uint32_t t = 0; t < j->desc->tasks; t++)
        if (j->tasks[t].finals)
            r->v[r->n++] = (struct resubmit_task){.task = t,
                                                  .state = j->tasks[t].state,
                                                  .outcome = (uint8_t)outcome_of(j->tasks[t].state),
                                                  .code = j->tasks[t].code,
                                                  .wait_us = -1,
                                                  .run_us = -1};
    return r;
}

/* Asks a random dist to take the job. If that is the dist that the client left, the client watches the job
 * there again, unless that dist has forgotten it. */
static void ask_dist(struct cluster *c, struct cluster_job *j)
{
    uint32_t dist = (uint32_t)rng_below(&c->net.rng, c->dists_n);

    j->ask_us = bus_now(c->bus) + CLUSTER_ANSWER_US;
    if (!c->dists[dist]->alive || j->epoch == EPOCH_LAST)
        return;
    j->epoch += 2;
    if (dist == j->dist && !j->home_forgot) {
        come_home(c, j); /* a dist that was asked earlier may still take the job: its answer counts no more */
        return;
    }
    j->asked = dist;
    cluster_post(c, c->dists[dist]->ep,
                 (struct msg){.type = MSG_SUBMIT,
                              .submit = {.desc = job_desc_ref(j->desc),
                                         .resubmit = known(c, j),
                                         .key = j->desc->shell,
                                         .client = client_of(j)}});
}

void cluster_ask_due(struct cluster *c)
{
    for (uint32_t i = 0; i < c->jobs_n; i++)
        if (c->jobs[i]->away && c->jobs[i]->ask_us <= bus_now(c->bus))
            ask_dist(c, c->jobs[i]);
}

/* A dist took the job. A refusal does nothing: the client asks the next dist when its time is over. The
 * client ignores answers after CLUSTER_ANSWER_US. */
static void on_asked(struct cluster *c, uint32_t ep, struct cluster_job *j, const struct msg_submitted *m)
{
    if (!j->away || m->err || m->client != client_of(j) || c->dists[j->asked]->ep != ep)
        return;
    if (!job_eq(j->id, m->job))
        cluster_fail(c, INVARIANT_NUMBERS, "%s was moved, and the answer names another job",
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id));
    j->dist = j->asked;
    j->leaving = 0;
    j->class = m->class;
    j->why = m->why;
    come_home(c, j);
}

/* Whether the client listens to the dist: it watches the job there. Also reads the job's class and the epoch
 * of central's part from the dist's state, as a shell does with each message. */
static bool is_heard(struct cluster *c, uint32_t ep, struct cluster_job *j)
{
    struct job_view v;

    if (!c->config.jobs_move)
        return true;
    if (j->away || c->dists[j->dist]->ep != ep)
        return false;
    if (!cluster_knows(c, c->dists[j->dist], j->id, &v))
        return true;
    j->class = v.class;
    j->why = v.why;
    j->held = v.held;
    if (node_eq(v.owner, NODE_CENTRAL) && !epoch_is_dists(v.epoch) && v.epoch < j->epoch + 2u)
        j->long_epoch = v.epoch;
    return true;
}

/* ---- What dists say ---- */

void cluster_on_submitted(struct cluster *c, uint32_t ep, const struct msg_submitted *m)
{
    uint32_t client = m->client & 0xffff;
    struct cluster_job *j = client > 0 && client <= c->jobs_n ? c->jobs[client - 1] : NULL;

    if (j && m->client >> 16 > EPOCH_FIRST) {
        on_asked(c, ep, j, m);
        return;
    }
    if (!j || j->submitted)
        cluster_fail(c, INVARIANT_EFFECTS, "an answer that no client waits for: client %u", client);
    if (j->id.v && !job_eq(j->id, m->job))
        cluster_fail(c, INVARIANT_EFFECTS, "an answer gives a running job another id: %s",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
    for (uint32_t i = 0; m->job.v && i < c->jobs_n; i++)
        if (c->jobs[i] != j && job_eq(c->jobs[i]->id, m->job))
            cluster_fail(c, INVARIANT_NUMBERS, "%s is given to job %u, and was given to job %u",
                         job_id_format((char[JOB_ID_TEXT]){0}, m->job), client, i + 1);
    j->submitted = true;
    j->id = m->job;
    j->err = m->err;
    j->class = m->class;
    j->why = m->why;
    if (!m->err && j->desc->flags & JOB_SUBMIT_HELD && !j->wants_hold)
        cluster_after_home(c, j); /* all jobs were released before it was accepted */
    else if (!m->err && j->desc->flags & JOB_SUBMIT_HELD && j->holds_unanswered == 0)
        j->held_life = cluster_dist_of(c, ep)->life;
    if (!m->err)
        watch_job(c, j, true);
}

/* The dist got the job from its journal, and its client does not know it: the dist died before the answer
 * left, or before it could record that it had refused the job because of a disk error. A job that ended while the
 * dist read its journal may be forgotten already. */
static bool is_nobodys(struct cluster *c, uint32_t ep, job_id_t id)
{
    const struct cluster_dist *d = cluster_dist_of(c, ep);
    const struct dist_job *found = dist_find(&d->d, id);
    const struct job_desc *desc = found ? found->desc : cluster_store_desc(&d->store, id);
    const struct cluster_job *j;

    if (!desc || desc->shell == 0 || desc->shell > c->jobs_n)
        return false;
    j = c->jobs[desc->shell - 1];
    return d->life > 1 && (j->abandoned || j->err == HAWK_EIO);
}

/* Checks that a task that is done used what its try did. */
static void expect_own_usage(struct cluster *c, const struct cluster_job *j, const struct task_view *v)
{
    struct usage own = cluster_usage_of(c, (uint32_t)j->desc->shell - 1, v->task);

    if (v->used.cpu_us.v != own.cpu_us.v || v->used.mem_peak_bytes.v != own.mem_peak_bytes.v)
        cluster_fail(c, INVARIANT_ONE_END, "task %u of %s is said to have used %lld us and %lld bytes",
                     v->task, job_id_format((char[JOB_ID_TEXT]){0}, j->id),
                     (long long)figure_value(v->used.cpu_us),
                     (long long)figure_value(v->used.mem_peak_bytes));
}

/* Checks that a result is that of its task. Results may be lost, with a dist or with central. */
static void expect_own_result(struct cluster *c, uint32_t ep, const struct cluster_job *j, uint32_t task)
{
    const struct dist *d = &cluster_dist_of(c, ep)->d;
    const struct dist_job *found = dist_find(d, j->id);
    struct blob *own = cluster_result_of(c, (uint32_t)j->desc->shell - 1, task);
    struct task_view v = {0};

    if (found)
        dist_task_view(d, found, task, bus_now(c->bus), &v);
    if (v.result && (!own || !blob_eq(own, v.result)))
        cluster_fail(c, INVARIANT_ONE_END, "task %u of %s is said to have returned %s", task,
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id), v.result->data);
    blob_drop(own);
    if (found)
        expect_own_usage(c, j, &v);
}

void cluster_on_task_event(struct cluster *c, uint32_t ep, const struct msg_task_event *m)
{
    struct cluster_job *j = submitted_job(c, m->id.job);

    if (j && !is_heard(c, ep, j))
        return;
    if (!j || m->id.task >= j->desc->tasks || cluster_ended(j))
        cluster_fail(c, INVARIANT_ONE_END, "an event of task %u of %s, which %s", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job), j ? "has ended" : "nobody submitted");
    if (j->epoch > EPOCH_FIRST && j->tasks[m->id.task].finals > 0)
        return; /* a job that moved: the first end of each task counts */
    j->tasks[m->id.task].state = m->state;
    if (m->state == TASK_DONE)
        expect_own_result(c, ep, j, m->id.task);
    if (m->state == TASK_CANCELLED && !j->cancelled && !j->tasks[m->id.task].cancel_ask)
        cluster_fail(c, INVARIANT_ASKED, "task %u of %s was cancelled, but nobody asked for that", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
    if (task_state_final(m->state) && ++j->tasks[m->id.task].finals != 1)
        cluster_fail(c, INVARIANT_ONE_END, "task %u of %s ended twice for its client", m->id.task,
                     job_id_format((char[JOB_ID_TEXT]){0}, m->id.job));
}

/* Reads the ends of tasks that came before the job's client watched it, as `hawk wait` does: the dist's disk
 * may be slower than a long job, or the job may be over at once. */
static void cluster_read_ends(struct cluster *c, uint32_t ep, struct cluster_job *j)
{
    const struct dist *d = &cluster_dist_of(c, ep)->d;
    const struct dist_job *found = dist_find(d, j->id);
    struct task_view v;

    for (uint32_t t = 0; found && t < j->desc->tasks; t++) {
        if (j->tasks[t].finals > 0)
            continue;
        dist_task_view(d, found, t, bus_now(c->bus), &v);
        j->tasks[t].state = v.state;
        j->tasks[t].finals = task_state_final(v.state);
    }
    if (found || !job_state_final(j->state))
        return;
    /* The dist keeps one job that has ended, and more end as it comes back: it forgets the first of them at once. Its
     * journal has the ends. Tasks that were cancelled and never started, or that could never start since their
     * predecessors are gone, have no record. */
    for (uint32_t t = 0; t < j->desc->tasks; t++) {
        if (j->tasks[t].finals > 0)
            continue;
        j->tasks[t].state = cluster_store_task(&cluster_dist_of(c, ep)->store, j->id, t);
        if (!task_state_final(j->tasks[t].state) &&
            (j->desc->after.n > 0 || j->cancelled || j->tasks[t].cancel_ask))
            j->tasks[t].state = TASK_CANCELLED;
        j->tasks[t].finals = task_state_final(j->tasks[t].state);
    }
}

/* What its journal says of tasks that are done. The client of a job that moved handed on no usage. */
static void expect_usage_on_record(struct cluster *c, const struct cluster_dist *d,
                                   const struct cluster_job *j)
{
    const struct dist_job *found = dist_find(&d->d, j->id);
    struct task_view v;

    for (uint32_t t = 0; found && j->epoch == EPOCH_FIRST && t < j->desc->tasks; t++) {
        dist_task_view(&d->d, found, t, bus_now(c->bus), &v);
        if (v.state == TASK_DONE)
            expect_own_usage(c, j, &v);
    }
}

void cluster_dist_recovered(struct cluster *c, struct cluster_dist *d)
{
    for (uint32_t i = 0; i < c->jobs_n; i++) {
        struct cluster_job *j = c->jobs[i];
        struct job_view v;
        bool known;

        if (c->dists[j->dist] != d || !j->submitted || j->err || j->abandoned ||
            !(j->desc->flags & JOB_DETACHED))
            continue;
        known = cluster_knows(c, d, j->id, &v);
        if (known)
            expect_usage_on_record(c, d, j);
        if (known && job_state_final(v.state)) {
            if (v.state != j->state)
                cluster_fail(c, INVARIANT_ONE_END, "%s is read back as %s, and its client knows it as %s",
                             job_id_format((char[JOB_ID_TEXT]){0}, j->id), job_state_text(v.state),
                             job_state_text(j->state));
        } else if (known) {
            cluster_expect_held(c, d, j, &v);
            /* The journal has no end of the job. It is the same job, and ends once more. */
            j->state = JOB_WAITING;
            j->watched = false;
            for (uint32_t t = 0; t < j->desc->tasks; t++)
                j->tasks[t].finals = 0;
            cluster_post(c, d->ep, (struct msg){.type = MSG_WATCH, .watch = {.job = j->id, .on = 1}});
            cluster_hold_again(c, j);
        } else if (!cluster_ended(j)) {
            cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN,
                         "%s was accepted, but its dist does not know it any more",
                         job_id_format((char[JOB_ID_TEXT]){0}, j->id));
        }
    }
    if (c->released)
        cluster_release_nobodys(c, d);
}

void cluster_on_cancelled(struct cluster *c, uint32_t ep, const struct msg_cancelled *m)
{
    struct cluster_job *j = submitted_job(c, m->job);

    if (!j || m->err)
        return;
    if (m->client >> CANCEL_ASK_SHIFT)
        tasks_cancelled(j, (uint8_t)(m->client >> CANCEL_ASK_SHIFT), cluster_dist_of(c, ep)->life);
    else if (!j->cancelled_life)
        j->cancelled_life = cluster_dist_of(c, ep)->life;
}

static void job_ended(struct cluster *c, uint32_t ep, struct cluster_job *j, enum job_state state)
{
    j->state = (uint8_t)state;
    j->end_us = bus_now(c->bus);
    if (!j->watched)
        cluster_read_ends(c, ep, j);
    for (uint32_t i = 0; i < j->desc->tasks; i++)
        if (j->tasks[i].finals != 1)
            cluster_fail(c, INVARIANT_ONE_END, "job %u ended, and its task %u had %u final events",
                         (unsigned)j->desc->shell, i, j->tasks[i].finals);
}

void cluster_on_job_event(struct cluster *c, uint32_t ep, const struct msg_job_event *m)
{
    struct cluster_job *j = submitted_job(c, m->job);

    if (is_nobodys(c, ep, m->job) || (j && !is_heard(c, ep, j)))
        return;
    if (!j || cluster_ended(j))
        cluster_fail(c, INVARIANT_ONE_END, "an event of %s, which %s",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job), j ? "has ended" : "nobody submitted");
    j->state = m->state;
    if (job_state_final(m->state))
        job_ended(c, ep, j, m->state);
}

static void on_watch(struct cluster *c, uint32_t ep, struct cluster_job *j)
{
    struct job_view v;
    bool known = cluster_knows(c, cluster_dist_of(c, ep), j->id, &v);

    if (!known && cluster_may_move(c, j)) {
        j->home_forgot = true; /* another process has taken the dist's place */
        cluster_leave_dist(c, j);
        return;
    }
    /* The client was away for so long that the last dist may have cancelled the job, and central its part. */
    if (cluster_may_move(c, j) && j->epoch > EPOCH_FIRST && bus_now(c->bus) - j->left_us > CLUSTER_AWAY_US)
        j->cancelled = true;
    cluster_read_ends(c, ep, j);
    j->watched = true;
    j->watched_us = bus_now(c->bus);
    if (known && cluster_may_move(c, j) && job_state_final(v.state)) /* it ended before it moved here */
        job_ended(c, ep, j, v.state);
}

void cluster_on_claim(struct cluster *c, uint32_t ep, job_id_t job, uint16_t owner)
{
    struct cluster_job *j = cluster_job_of(c, job);

    if (j && !j->away && c->dists[j->dist]->ep == ep && owner == j->epoch)
        j->claimed = true;
}

/* Whether central must know that the client's dist has the job: the dist has claimed it, or central has heard
 * the dist without a gap since the client began to watch. */
static bool is_claimed(const struct cluster *c, const struct cluster_job *j)
{
    const struct cluster_dist *d = c->dists[j->dist];
    int64_t now_us = bus_now(c->bus);

    return j->claimed || (!j->away && j->watched && d->gap_us < j->watched_us &&
                          now_us - j->watched_us > 3 * US_PER_S && now_us - d->heard_us < CLUSTER_GAP_US);
}

/* Marks jobs that may be cancelled: central cannot know that another dist has the job, unless it misses that
 * dist (MEMBER_SUSPECT). */
void cluster_on_abandon(struct cluster *c, job_id_t job)
{
    struct cluster_job *j = cluster_job_of(c, job);
    struct central_node n;

    if (j && !is_claimed(c, j) &&
        (j->away || !central_view_node(c->central, dist_node(&c->dists[j->dist]->d), 0, &n) ||
         n.member.state != MEMBER_SUSPECT))
        j->cancelled = true;
}

void cluster_on_heard(struct cluster *c, struct cluster_dist *d)
{
    if (bus_now(c->bus) - d->heard_us > CLUSTER_GAP_US)
        d->gap_us = bus_now(c->bus);
    d->heard_us = bus_now(c->bus);
}

void cluster_on_watch(struct cluster *c, uint32_t ep, const struct msg_watch *m)
{
    struct cluster_job *j = cluster_job_of(c, m->job);

    if (!j || c->dists[j->dist]->ep != ep)
        return;
    if (!m->on)
        j->leaving--;
    else if (!j->watched && !j->away && j->leaving == 0)
        on_watch(c, ep, j);
}

/* Checks that central gives up only jobs that no dist has claimed for long. A dist claims a job if it is
 * connected to central, was heard lately, and joined long enough ago to have said what it has. */
void cluster_on_job_abandoned(struct cluster *c, const struct msg_job_abandoned *m)
{
    struct cluster_job *j = cluster_job_of(c, m->job);
    struct central_node n;
    const struct dist *d;
    struct job_view v;

    if (!j)
        return; /* the job's client never had an answer */
    j->cancelled = true;
    if (j->desc->flags & JOB_DETACHED)
        cluster_fail(c, INVARIANT_ASKED, "central gives up %s, which is detached",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
    d = &c->dists[j->dist]->d;
    if (j->away || (j->epoch > EPOCH_FIRST && !j->claimed))
        return; /* central has not heard of the job's new dist yet */
    if (c->dists[j->dist]->alive && dist_central_up(d) && cluster_knows(c, c->dists[j->dist], m->job, &v) &&
        central_view_node(c->central, dist_node(d), bus_now(c->bus), &n) && !job_state_final(v.state) &&
        node_eq(v.owner, NODE_CENTRAL) && v.epoch == m->epoch && n.member.state == MEMBER_UP &&
        n.silent_us < US_PER_S && bus_now(c->bus) - d->joined_us > 2 * US_PER_S)
        cluster_fail(c, INVARIANT_ASKED, "central gives up %s, although its dist is there and has it",
                     job_id_format((char[JOB_ID_TEXT]){0}, m->job));
}
