/* Jobs with predecessors, and jobs that their users hold, in a virtual cluster. All draws are from a generator of their
 * own: seeds without such jobs draw what they drew before there were any. */
#include "faults/internal.h"

#include "base/mem.h"

#include <string.h>

#define PREDECESSORS_MAX 3u
#define SUBMITTED_HELD 7u /* one job in so many is held from the start */

/* A predecessor must be known to the dist; its client has had its answer from there. */
static bool may_precede(const struct cluster_job *p, const struct cluster_job *j, uint32_t dist)
{
    return p != j && p->submitted && !p->err && p->dist == dist && !p->away && !p->abandoned &&
           blob_eq(p->desc->user, j->desc->user);
}

void cluster_after_draw(struct cluster *c, struct cluster_job *j, uint32_t dist)
{
    struct rng *r = &c->afters;

    if (c->config.after && j->desc->shell % SUBMITTED_HELD == 0) {
        j->desc->flags |= JOB_SUBMIT_HELD;
        j->wants_hold = j->was_held = true;
    }
    if (!c->config.after || rng_below(r, 2))
        return;
    for (uint32_t n = 1 + (uint32_t)rng_below(r, PREDECESSORS_MAX); n > 0; n--) {
        const struct cluster_job *p = c->jobs[rng_below(r, c->jobs_n)];
        struct after a = {.job = p->id,
                          .when = rng_below(r, 2) ? AFTER_OK : (uint8_t)rng_below(r, AFTER_WHEN_COUNT)};
        char text[AFTER_TEXT];

        if (!may_precede(p, j, dist))
            continue;
        after_format(text, &a);
        after_add(&j->desc->after, text, strlen(text));
    }
    if (j->desc->after.n == 0)
        return;
    j->cancelled = true; /* a predecessor may end in another way */
    if (rng_below(r, 3) == 0)
        j->desc->flags |= JOB_AFTER_WHOLE;
}

/* ---- The invariant ---- */

static bool went_well(const struct cluster_task *t) { return t->ends > 0 && t->code == 0; }

/* It ran well, and its dist may still have counted it as lost: its end never came. */
static bool told_badly(const struct cluster_task *t)
{
    return task_state_final((enum task_state)t->state) && t->state != TASK_DONE;
}

/* Whether the tasks of p that count have ended so, as far as what truly ran and what was told can tell. */
static bool holds(const struct cluster_job *p, enum after_when when, uint32_t first, uint32_t end)
{
    uint32_t well = 0, badly = 0;

    for (uint32_t i = first; i < end; i++) {
        well += went_well(&p->tasks[i]);
        badly += told_badly(&p->tasks[i]);
    }
    if (when == AFTER_OK)
        return well == end - first;
    return when == AFTER_ANY || well < end - first || badly > 0;
}

void cluster_after_check(struct cluster *c, const struct cluster_job *j, uint32_t task)
{
    for (uint32_t i = 0; i < j->desc->after.n; i++) {
        const struct after *a = &j->desc->after.v[i];
        const struct cluster_job *p = cluster_job_of(c, a->job);
        bool each = p && j->desc->tasks > 1 && p->desc->tasks == j->desc->tasks &&
                    !(j->desc->flags & JOB_AFTER_WHOLE);

        if (p && !holds(p, a->when, each ? task : 0, each ? task + 1 : p->desc->tasks))
            cluster_fail(c, INVARIANT_AFTER, "task %u of %s starts, and %s has not ended as it asks (%s)",
                         task, job_id_format((char[JOB_ID_TEXT]){0}, j->id),
                         job_id_format((char[JOB_ID_TEXT]){0}, a->job), after_when_text(a->when));
    }
}

/* ---- Holding ---- */

static void send_hold(struct cluster *c, struct cluster_job *j, bool on)
{
    bool at_central = !c->dists[j->dist]->alive; /* as `hawk hold` does */

    j->held_life = 0;
    j->released = false;
    j->wants_hold = on;
    j->was_held |= on;
    j->holds_unanswered++;
    if (j->away)
        return;
    j->last_at_central = at_central;
    j->holds_at_central += at_central;
    cluster_post(
        c, at_central ? c->central_ep : c->dists[j->dist]->ep,
        (struct msg){.type = MSG_HOLD, .hold = {.job = j->id, .client = (uint32_t)j->desc->shell, .on = on}});
}

void cluster_hold_some(struct cluster *c)
{
    struct rng *r = &c->afters;
    struct cluster_job *j;

    if (!c->config.after || c->jobs_n == 0 || rng_below(r, 2))
        return;
    j = c->jobs[rng_below(r, c->jobs_n)];
    if (j->submitted && !j->err && !cluster_ended(j))
        send_hold(c, j, !j->wants_hold);
}

void cluster_after_home(struct cluster *c, struct cluster_job *j)
{
    j->holds_unanswered = 0;
    if (c->config.after)
        send_hold(c, j, j->wants_hold);
}

void cluster_hold_again(struct cluster *c, struct cluster_job *j)
{
    bool asks = j->holds_unanswered > 0;

    j->holds_unanswered = 0;
    if (asks)
        send_hold(c, j, j->wants_hold);
}

/* Jobs that were submitted held, and whose clients never had an answer: someone finds them. */
void cluster_release_nobodys(struct cluster *c, const struct cluster_dist *d)
{
    for (const struct dist_job *job = dist_newest(&d->d); job; job = dist_older(&d->d, job)) {
        uint32_t client = (uint32_t)job->desc->shell;

        if (client > 0 && client <= c->jobs_n && !job_eq(c->jobs[client - 1]->id, job->id))
            cluster_post(c, d->ep,
                         (struct msg){.type = MSG_HOLD, .hold = {.job = job->id, .client = client}});
    }
}

void cluster_release_all(struct cluster *c, bool again)
{
    c->released = true;
    for (uint32_t i = 0; c->config.after && i < c->jobs_n; i++)
        if (c->jobs[i]->released && !again)
            continue;
        else if (c->jobs[i]->submitted && !c->jobs[i]->err)
            send_hold(c, c->jobs[i], false);
        else
            c->jobs[i]->wants_hold = false;
    for (uint32_t i = 0; c->config.after && i < c->dists_n; i++)
        if (c->dists[i]->alive)
            cluster_release_nobodys(c, c->dists[i]);
    /* A dist that goes on with an old copy of its journal knows nothing of a job that it held at central. */
    for (uint32_t i = 0; c->config.after && i < c->jobs_n; i++)
        if (c->jobs[i]->id.v && (again || !c->jobs[i]->released))
            cluster_post(
                c, c->central_ep,
                (struct msg){.type = MSG_HOLD,
                             .hold = {.job = c->jobs[i]->id, .client = (uint32_t)c->jobs[i]->desc->shell}});
}

static void answer_of_central(struct cluster_job *j)
{
    if (j->holds_at_central == 0 || --j->holds_at_central > 0 || !j->last_at_central || j->wants_hold)
        return;
    j->released = true;
    j->holds_unanswered = 0; /* what its dist has from before does not count */
}

void cluster_on_hold_set(struct cluster *c, uint32_t ep, const struct msg_hold_set *m)
{
    struct cluster_job *j = m->client > 0 && m->client <= c->jobs_n ? c->jobs[m->client - 1] : NULL;

    if (j && (j->err || j->abandoned))
        return;
    if (!j || !job_eq(j->id, m->job))
        cluster_fail(c, INVARIANT_EFFECTS, "an answer to a hold that nobody asked for: client %u", m->client);
    /* Of several requests the last one counts: its answer is the last, unless the dist died. */
    if (!m->err && ep == c->central_ep)
        answer_of_central(j);
    if (m->err || c->dists[j->dist]->ep != ep)
        return;
    if (j->holds_unanswered > 0)
        j->holds_unanswered--;
    if (j->holds_unanswered > 0)
        return;
    j->released = !j->wants_hold;
    if (j->wants_hold)
        j->held_life = cluster_dist_of(c, ep)->life;
}

void cluster_expect_held(struct cluster *c, const struct cluster_dist *d, const struct cluster_job *j,
                         const struct job_view *v)
{
    if (j->held_life && j->held_life < d->life && j->wants_hold && !v->held)
        cluster_fail(c, INVARIANT_NOTHING_FORGOTTEN, "%s was held, and its dist has forgotten that",
                     job_id_format((char[JOB_ID_TEXT]){0}, j->id));
}
