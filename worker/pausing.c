/* Pausing (docs/protocol.md 4.5): a short task that would wait takes the slot of a running long task, which is paused
 * meanwhile.
 *
 * A lane asks ahead for a task under three conditions. No slot is free. Its next entry is a short reservation
 * that has waited for patience_us(): until then an idle worker steals it. And a long task may be paused: the
 * executor can freeze it, it is not being killed, and its budget is not used up. The budget is
 * pause.share_milli of its run time so far, or of its estimate if that is more. When the dist gives a task,
 * the youngest of these long tasks is frozen: it has least to lose. So no task is frozen for a probe whose
 * job has no task left. The given task starts when the long task stands still or a slot is free. If the
 * freeze fails and no other long task may be paused, it goes back to its dist.
 *
 *   lane full ---TASK_REQUEST--> SLOT_AHEAD ---TASK_LAUNCH--> SLOT_GIVEN ---EXEC_PAUSED, or a slot is free--> SLOT_BUSY
 *                                    |  NO_TASK                   |  no pause
 *                                    +--------> SLOT_UNUSED <-----+
 *
 * A pause ends when the lane has a free slot and no short reservation, and at once when no short task runs in
 * its place. When the budget is used up, the next free slot is the paused task's. After pause.longest_us it
 * goes on in any case, and the worker is overcommitted by one: the short task may wait for something that the
 * frozen task holds. */
#include "worker/internal.h"

/* A task whose pause was refused is left alone for this time, which doubles with each refusal in a row. */
#define PAUSE_REFUSED_US US_PER_S
#define PAUSE_REFUSED_DOUBLINGS 6 /* the time doubles at most 6 times */
#define PATIENCE_PARTS 16         /* patience is this fraction of the short task's estimate, within bounds */
#define PATIENCE_MIN_US (5 * US_PER_MS)
#define PATIENCE_BLIND_PARTS 10 /* without an estimate: this fraction of pause.after_us */

/* How long the running task t may still be paused. */
static int64_t budget_us(const struct worker *w, const struct task *t)
{
    int64_t age_us = worker_task_age(w, t), of_us = t->estimate_us > age_us ? t->estimate_us : age_us;

    return of_us / 1000 * w->config.pause.share_milli - t->paused_us;
}

/* From then on the next free slot goes to the paused task t. */
static int64_t due_at(const struct worker *w, const struct task *t)
{
    return time_after(t->paused_at, budget_us(w, t));
}

void worker_pause_end(struct worker *w, struct slot *s)
{
    struct task *t = s->task;
    int64_t stood_us = w->now_us - t->paused_at;

    t->paused_us += stood_us;
    t->started_us += stood_us;
    t->pause_untold = w->pauses_untold = true;
    worker_count(w, COUNTER_paused_ms, (uint64_t)stood_us / US_PER_MS);
    worker_slot_resume(w, s);
    out_add(w->out, MSG_EXEC_RESUME, 0)->exec_resume.run = t->run;
}

bool worker_pause_first(const struct worker *w, const struct lane *l, const struct steal_entry *next)
{
    if (l->n_paused == 0)
        return false;
    return (l->n_ahead == 0 && (!next || next->is_long)) ||
           due_at(w, container_of(l->paused.next, struct slot, link)->task) <= w->now_us;
}

/* Whether a task of `job` submitted j, directly or by tasks of other jobs. Before the first launch it may say so
 * wrongly: then tasks of j wait a little longer. */
static bool is_ancestor(const struct job *j, job_id_t job)
{
    return j->desc ? ancestors_have(&j->desc->ancestors, job) : (j->ancestors & job_set(job)) != 0;
}

/* Whether t may stand still for a task of j. Not for one of its own job, which would not end sooner; and not for
 * one of a job that it submitted, which it may work with. */
static bool may_stand_for(const struct task *t, const struct job *j)
{
    return !job_eq(t->id.job, j->id) && !is_ancestor(j, t->id.job);
}

/* When t's budget is more than us: now, or when t is old enough. */
static int64_t affords_at(const struct worker *w, const struct task *t, int64_t us)
{
    uint32_t share_milli = w->config.pause.share_milli;

    if (budget_us(w, t) > us)
        return w->now_us;
    if (share_milli == 0 || (us + t->paused_us) / share_milli >= LIMIT_TIME_US / 1000)
        return TIME_NEVER;
    return time_after(t->started_us, ((us + t->paused_us) / share_milli + 1) * 1000);
}

/* When the task in s may be paused for a task of j, if nothing forbids that but its budget and that its last pause
 * was refused; else TIME_NEVER. */
static int64_t pausable_at(const struct worker *w, const struct slot *s, const struct job *j)
{
    const struct task *t = s->task;
    bool may = s->state == SLOT_BUSY && s->is_long && !s->freezing && t->state == T_RUNNING && !t->no_pause &&
               !(t->job->desc && t->job->desc->flags & JOB_NO_PAUSE) && t->kill_outcome == OUTCOME_NONE &&
               may_stand_for(t, j);
    int64_t at;

    if (!may)
        return TIME_NEVER;
    at = affords_at(w, t, j->estimate_us);
    return at < t->pause_not_before ? t->pause_not_before : at;
}

/* The youngest task that may be paused for a task of j, or NULL; *n: their number; *at: when there is one more.
 * O(slots). */
static struct slot *youngest(const struct worker *w, const struct lane *l, const struct job *j, uint32_t *n,
                             int64_t *at)
{
    struct slot *best = NULL;

    *n = 0;
    *at = TIME_NEVER;
    for (uint32_t i = 0; i < w->n_slots; i++) {
        struct slot *s = slot_at(w, i);

        if (s->lane != l)
            continue;
        int64_t s_at = pausable_at(w, s, j);
        if (s_at > w->now_us) {
            *at = earlier(*at, s_at);
            continue;
        }
        ++*n;
        if (!best || s->task->started_us > best->task->started_us)
            best = s;
    }
    return best;
}

static void look_again(struct worker *w, int64_t at) { w->pause_at = earlier(w->pause_at, at); }

/* How long a short task waits for an idle worker to steal it: a small fraction of its own time. A steal by
 * central's hints takes some 5 to 50 ms. Where idle slots are about, an earlier pause would only cost long
 * tasks (docs/notebook/beyond.md). */
static int64_t patience_us(const struct worker *w, int64_t estimate_us)
{
    int64_t us = estimate_us / PATIENCE_PARTS;

    if (estimate_us == 0)
        us = w->config.pause.after_us / PATIENCE_BLIND_PARTS;
    else if (us < PATIENCE_MIN_US)
        us = PATIENCE_MIN_US;
    return earlier(us, w->config.pause.after_us);
}

/* Requests a task for which a long one might be paused, or refuses the reservation for want of time. Output: at
 * most 1 message. False: there is no reason to do either. */
static bool ask_ahead(struct worker *w, struct lane *l)
{
    struct steal_entry *next = steal_queue_next(&l->queue);
    const struct reservation *r;
    uint32_t pausable;
    int64_t at;

    if (!policy_has(worker_policy(w), POLICY_PAUSE) || !next || next->is_long || next->bound ||
        l->n_long <= l->n_ahead + l->n_freezing || list_empty(&l->unused) || l->n_active > l->n_slots)
        return false;
    r = reservation_of(container_of(next, struct entry, q));
    if (!worker_entry_has_time(w, &r->e)) { /* serve_entry() would give it back later */
        worker_entry_give_back(w, container_of(next, struct entry, q), HAWK_ENO_TIME);
        return true;
    }
    at = time_after(r->arrived_us, patience_us(w, r->e.job->estimate_us));
    if (at > w->now_us) {
        look_again(w, at);
        return false;
    }
    (void)youngest(w, l, r->e.job, &pausable, &at);
    if (pausable <= l->n_ahead) {
        look_again(w, at);
        return false;
    }
    worker_request(w, container_of(l->unused.next, struct slot, link), container_of(next, struct entry, q));
    return true;
}

/* Freezes a long task for the last task that was given; if none may be paused, that task goes back. Output: 1
 * message. */
static void make_room(struct worker *w, const struct lane *l)
{
    struct task *t = container_of(l->given.prev, struct slot, link)->task;
    uint32_t pausable;
    int64_t at;
    struct slot *s = youngest(w, l, t->job, &pausable, &at);

    if (!s) {
        worker_given_return(w, t, HAWK_EBUSY);
        return;
    }
    worker_slot_freeze(w, s, true);
    out_add(w->out, MSG_EXEC_PAUSE, 0)->exec_pause.run = s->task->run;
}

void worker_pause_settle(struct worker *w, struct lane *l)
{
    while (l->n_paused > 0) {
        struct slot *s = container_of(l->paused.next, struct slot, link);
        int64_t longest_at = time_after(s->task->paused_at, w->config.pause.longest_us);

        if (l->n_paused + l->n_long <= l->n_active && longest_at > w->now_us) {
            look_again(w, longest_at);
            break;
        }
        worker_pause_end(w, s);
    }
    while (l->n_given > l->n_freezing)
        make_room(w, l);
    while (ask_ahead(w, l))
        ;
}

/* One timer serves all lanes, so all are looked at. */
void worker_pause_due(struct worker *w)
{
    if (w->now_us < w->pause_at)
        return;
    w->pause_at = TIME_NEVER;
    for (uint32_t i = 0; i < w->n_lanes; i++)
        worker_lane_touch(w, &w->lanes[i]);
}

static void pause_refused(const struct worker *w, struct task *t, int err)
{
    if (err == HAWK_EUNSUPPORTED) {
        t->no_pause = true;
        return;
    }
    t->pause_not_before = time_after(w->now_us, PAUSE_REFUSED_US << t->pauses_refused);
    t->pauses_refused += t->pauses_refused < PAUSE_REFUSED_DOUBLINGS;
}

/* Output: 1 message. */
static void pause_for(struct worker *w, struct task *t, struct task *given)
{
    t->paused_at = w->now_us;
    t->paused_for = given->id.job;
    t->paused_for_task = given->id.task;
    t->pauses++;
    t->pause_untold = w->pauses_untold = true;
    worker_count(w, COUNTER_tasks_paused, 1);
    worker_slot_pause(w, t->slot);
    worker_task_begin(w, given);
}

/* The first task that was given and for which t may stand still, or NULL. Freezes are not confirmed in their
 * order. */
static struct task *given_for(const struct lane *l, const struct task *t)
{
    list_foreach(&l->given, link, next) {
        struct task *given = container_of(link, struct slot, link)->task;

        if (may_stand_for(t, given->job))
            return given;
    }
    return NULL;
}

/* Output: at most 1 message. A task that is being killed goes on: the executor thaws it for that. The given
 * task may have got a free slot meanwhile: then the frozen one goes on at once. */
void worker_on_exec_paused(struct worker *w, const struct msg *in)
{
    const struct msg_exec_paused *m = &in->exec_paused;
    struct task *t = worker_task_of_run(w, m->run), *given;
    struct slot *s = t ? t->slot : NULL;

    if (!s || !s->freezing)
        return;
    worker_slot_freeze(w, s, false);
    if (t->kill_outcome != OUTCOME_NONE)
        return;
    if (m->err) {
        pause_refused(w, t, m->err);
        return;
    }
    t->pauses_refused = 0;
    given = given_for(s->lane, t);
    if (!given) {
        out_add(w->out, MSG_EXEC_RESUME, 0)->exec_resume.run = m->run;
        return;
    }
    pause_for(w, t, given);
}

/* ---- What owners are told ---- */

void worker_pause_tell(const struct worker *w, struct task *t)
{
    const struct owner *o = t->job->owner;
    struct msg_task_paused *m;
    bool stands;

    if (!t->pause_untold || o->state != OWNER_UP)
        return;
    CHECK(t->slot); /* what was paused runs, or is about to end */
    stands = t->slot->state == SLOT_PAUSED;
    t->pause_untold = false;
    m = &out_add(w->out, MSG_TASK_PAUSED, o->node.v)->task_paused;
    m->id = t->id;
    m->run_us = worker_task_age(w, t);
    m->stood_ms = stands ? stood_ms_of(w->now_us - t->paused_at) : 0;
    m->paused_ms = paused_ms_of(t->paused_us + (stands ? w->now_us - t->paused_at : 0));
    m->for_job = t->paused_for;
    m->for_task = t->paused_for_task;
    m->times = t->pauses;
}

void worker_pauses_tell(struct worker *w)
{
    if (!w->pauses_untold)
        return;
    w->pauses_untold = false;
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (slot_at(w, i)->task)
            worker_pause_tell(w, slot_at(w, i)->task);
}
