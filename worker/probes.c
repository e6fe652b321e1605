/* The conversation with dists: probes become reservations, reservations become requests, requests become
 * tasks (Sparrow 3.2-3.6). All handlers ignore peers that are not dists with a stream. */
#include "worker/internal.h"

static struct owner *dist_of(const struct worker *w, const struct msg *in)
{
    struct owner *o = worker_owner_find(w, (node_id_t){in->peer});

    return o && o->state == OWNER_UP && !owner_is_central(o) ? o : NULL;
}

void worker_send_request(struct worker *w, const struct slot *s, const struct job *j)
{
    struct msg_task_request *m = &out_add(w->out, MSG_TASK_REQUEST, j->owner->node.v)->task_request;

    m->job = j->id;
    m->request = s->request;
    m->has_spec = j->desc != NULL;
    worker_beats_await(w, j->owner);
}

static void refuse_probes(struct worker *w, const struct job *j, uint32_t n, int err)
{
    struct msg_probe_refused *m = &out_add(w->out, MSG_PROBE_REFUSED, j->owner->node.v)->probe_refused;

    m->job = j->id;
    m->count = n;
    m->err = err;
}

void worker_entry_refuse(struct worker *w, struct entry *e, int err)
{
    struct job *j = e->job;

    refuse_probes(w, j, e->q.count, err);
    worker_entry_free(w, e);
    worker_job_release(w, j);
}

void worker_entry_give_back(struct worker *w, struct entry *e, int err)
{
    if (e->task) {
        worker_task_return(w, e->task);
        return;
    }
    worker_entry_unqueue(w, e);
    worker_entry_refuse(w, e, err);
}

/* The estimate of central's tasks may be the cutoff, for want of one. So there what the user has said counts; central
 * itself goes by the history as well. */
bool worker_entry_has_time(const struct worker *w, const struct entry *e)
{
    return worker_has_time(w, e->task ? e->job->desc->estimate_us : e->job->estimate_us);
}

/* Puts n reservations at the tail of the queue; with a queue per slot, spreads them evenly, from the shortest
 * queue on. */
static void queue_reservations(struct worker *w, struct job *j, const struct msg_probe *m, uint32_t n)
{
    uint32_t first = (uint32_t)(worker_lane_shortest(w) - w->lanes);
    uint32_t share = n / w->n_lanes, extra = n % w->n_lanes;

    j->estimate_us = m->estimate_us;
    j->ancestors = m->ancestors;
    j->user = m->user;
    for (uint32_t i = 0; i < w->n_lanes; i++) {
        uint32_t here = share + (i < extra);
        struct reservation *r;

        if (here == 0)
            break;
        r = worker_reservation_new(j, m->class == CLASS_LONG, here);
        r->arrived_us = w->now_us;
        worker_entry_push(w, &w->lanes[(first + i) % w->n_lanes], &r->e);
    }
}

/* Eagle (SoCC 2016): no short task waits behind long ones. Without a short partition a job could find no worker. */
static bool avoids(struct worker *w, const struct msg_probe *m)
{
    return policy_has(worker_policy(w), POLICY_AVOID_LONG) && m->class == CLASS_SHORT && w->general &&
           worker_policy(w)->short_share_ppm > 0 && lane_blocked(worker_lane_shortest(w));
}

/* Of so many reservations, those that a dist's probe has room for. Half of the queue is for other dists. */
static uint32_t room_for_dist(const struct worker *w, const struct owner *o, uint32_t n)
{
    uint64_t most = ((uint64_t)w->config.queue_limit + 1) / 2;
    uint64_t room = o->n_reservations < most ? most - o->n_reservations : 0;

    return worker_room_for(w, n < room ? n : (uint32_t)room);
}

/* Output: at most 1 message: what has no room is refused. */
void worker_on_probe(struct worker *w, const struct msg *in)
{
    const struct msg_probe *m = &in->probe;
    struct owner *o = dist_of(w, in);
    struct job *j;
    uint32_t fits;
    int err = worker_why_not(w, m->app, m->user, m->estimate_us);

    if (!o || m->count == 0)
        return;
    if (!err && avoids(w, m))
        err = HAWK_EBUSY;
    j = worker_job_get(w, o, m->job);
    if (!err && !worker_job_is_for(j, m->app))
        err = HAWK_EINVALID;
    fits = err ? 0 : room_for_dist(w, o, m->count);
    if (list_empty(&j->reservations))
        j->app = m->app;
    if (fits > 0)
        queue_reservations(w, j, m, fits);
    if (fits < m->count)
        refuse_probes(w, j, m->count - fits, err ? err : HAWK_ELIMIT);
    worker_job_release(w, j);
}

/* Proactive cancellation (Sparrow 3.6). Requests that were sent are still answered by the dist. Output: 1
 * message. */
void worker_on_probe_cancel(struct worker *w, const struct msg *in)
{
    struct owner *o = dist_of(w, in);
    struct msg_probe_cancelled *m;
    struct job *j;

    if (!o)
        return;
    j = worker_job_find(w, o, in->probe_cancel.job);
    m = &out_add(w->out, MSG_PROBE_CANCELLED, o->node.v)->probe_cancelled;
    m->job = in->probe_cancel.job;
    m->count = j ? worker_job_drop_reservations(w, j) : 0;
}

/* The slot of the request with that number. Answers come in the order of requests: mostly it is the first. */
static struct slot *requested(const struct owner *o, uint32_t request)
{
    list_foreach(&o->requests, l, next) {
        struct slot *s = container_of(l, struct slot, link);

        if (s->request == request)
            return s;
    }
    return NULL;
}

/* The job has no task left: frees the slot, and drops what else of the job is here, if the policy cancels
 * probes. No output of its own. */
void worker_on_no_task(struct worker *w, const struct msg *in)
{
    struct owner *o = dist_of(w, in);
    struct slot *s = o ? requested(o, in->no_task.request) : NULL;
    struct job *j;

    if (!o)
        return;
    if (s && job_eq(s->job->id, in->no_task.job))
        worker_slot_free(w, s);
    j = worker_job_find(w, o, in->no_task.job);
    if (j && policy_has(worker_policy(w), POLICY_CANCEL_PROBES))
        worker_job_drop_reservations(w, j);
}

/* Output: 1 message. An answer to no request of this stream (one from before a reconnection, or an invented
 * one) is answered as lost, and so is a task that cannot run. A repeated answer for a task that is already
 * here is ignored. */
void worker_on_task_launch(struct worker *w, const struct msg *in)
{
    const struct msg_task_launch *m = &in->task_launch;
    struct owner *o = dist_of(w, in);
    struct slot *s = o ? requested(o, m->request) : NULL;
    bool known = o && worker_task_find(w, o, &m->id);

    if (!o)
        return;
    if (m->arg)
        beats_bulk(&o->beats, w->now_us, m->arg->len);
    if (s && !known && job_eq(s->job->id, m->id.job) && (m->desc || s->job->desc) && !w->stop_now) {
        worker_task_launch(w, s, s->job, m);
        return;
    }
    if (s)
        worker_slot_free(w, s);
    if (!known)
        worker_launch_refused(w, o, &m->id, w->stop_now ? HAWK_ESHUTDOWN : HAWK_ESTALE);
}

/* ---- A dist comes and goes (protocol 6) ---- */

/* Output: at most 2 messages per task of that dist, and 1. */
void worker_dist_up(struct worker *w, node_id_t node, uint32_t version)
{
    struct owner *o = worker_owner_find(w, node);

    if (o && o->state == OWNER_UP) /* a new stream implies that the old one is gone */
        worker_dist_lost(w, o);
    o = worker_owner_get(w, node);
    worker_owner_set_state(w, o, OWNER_UP);
    o->last_request = 0;
    o->version = (uint8_t)protocol_version_of(version);
    beats_end(&o->beats);
    worker_beats_await(w, o); /* it may still owe the acknowledgement of ends */
    worker_report_held(w, o);
}

/* The dist's reservations and requests are void. Its tasks run on for a while, in case it comes back. */
void worker_dist_lost(struct worker *w, struct owner *o)
{
    while (!list_empty(&o->requests))
        worker_slot_free(w, container_of(o->requests.next, struct slot, link));
    list_foreach(&o->jobs, l, next)
        worker_job_drop_reservations(w, container_of(l, struct job, link));
    worker_dist_away(w, o);
}

void worker_dist_away(struct worker *w, struct owner *o)
{
    o->orphan_at = time_after(w->now_us, w->config.orphan_us);
    worker_owner_set_state(w, o, list_empty(&o->jobs) ? OWNER_AWAY : OWNER_LOST);
    worker_owner_release(w, o);
}

/* A dist that stays away runs its tasks elsewhere (DESIGN 3.8). Output: at most 1 message per task. */
static void kill_orphans(struct worker *w, struct owner *o)
{
    list_foreach(&o->jobs, l, next) {
        struct job *j = container_of(l, struct job, link);
        struct list *last = j->tasks.prev, *k = j->tasks.next;

        /* The job is freed with its last task, so the loop compares with that task, not with the list's
         * head. */
        for (bool end = list_empty(&j->tasks); !end;) {
            struct task *t = container_of(k, struct task, link);

            end = k == last;
            k = k->next;
            if (t->state == T_DONE)
                worker_task_forget(w, t);
            else
                worker_task_kill(w, t, OUTCOME_LOST, true);
        }
    }
    worker_owner_set_state(w, o, OWNER_AWAY);
    worker_owner_release(w, o);
}

void worker_orphans_due(struct worker *w)
{
    while (!list_empty(&w->lost_owners)) {
        struct owner *o = container_of(w->lost_owners.next, struct owner, link);

        if (o->orphan_at > w->now_us)
            break;
        kill_orphans(w, o);
    }
}
