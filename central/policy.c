/* From finished jobs to the policy in force: history, estimates, cutoff, share (Hawk 3.2, 3.4, DESIGN 3.7). */
#include "central/state.h"

#include "base/check.h"

/* Dists hear of an estimate when it moved by this much, or to the other side of the cutoff. */
#define ESTIMATE_STEP_PPM 10000

void central_config_init(struct central_config *c)
{
    *c = (struct central_config){
        .epoch = 1,
        .heartbeat_us = 500 * US_PER_MS,
        .suspect_us = 3 * US_PER_S,
        .long_lease_us = 60 * US_PER_S,
        .members_push_us = 200 * US_PER_MS,
        .members_bytes_s = 20000000,
        .long_tasks_max = 10000000,
        .results_bytes_max = UINT64_C(256) << 20,
        .long_jobs_max = 1000000,
        .nodes_max = 200000,
        .finished_kept = 10000,
        .heartbeats = true,
    };
    history_config_init(&c->history);
    CHECK(policy_preset("hawk", &c->policy) == 0);
}

void central_policy_init(struct central *c)
{
    history_init(&c->history, &c->cfg.history);
    c->policy = c->cfg.policy;
    c->policy.cutoff_us = history_cutoff(&c->history);
    c->policy.short_share_ppm = history_share_ppm(&c->history);
    /* Versions grow across restarts of central as well. */
    c->policy.version = (c->cfg.epoch << 16) + 1;
    c->asked = 1;
}

void central_policy_send(struct central *c, const struct node *n)
{
    struct msg *m = central_send(c, n, MSG_POLICY);

    if (m)
        m->policy.policy = c->policy;
}

static void changed(struct central *c)
{
    c->policy.version++;
    for (uint32_t id = 1; id < c->nodes_end; id++)
        if (c->nodes[id] && c->nodes[id]->state != NODE_JOINING)
            central_policy_send(c, c->nodes[id]);
    central_partition_balance(c);
}

/* Takes over what history says now. */
static bool follow_history(struct central *c)
{
    int64_t cutoff_us = history_cutoff(&c->history);
    uint32_t share_ppm = history_share_ppm(&c->history);

    if (c->policy.cutoff_us == cutoff_us && c->policy.short_share_ppm == share_ppm)
        return false;
    c->policy.cutoff_us = cutoff_us;
    c->policy.short_share_ppm = share_ppm;
    return true;
}

void central_policy_recovered(struct central *c)
{
    history_compute(&c->history);
    follow_history(c); /* nobody has joined yet */
}

/* ---- Estimates ---- */

static void send_estimate(struct central *c, const struct node *dist, const struct estimate *e)
{
    struct msg *m = central_send(c, dist, MSG_ESTIMATE);

    m->estimate.name = blob_ref(e->name);
    m->estimate.mean_us = e->mean_us;
    m->estimate.runs = e->runs;
}

void central_policy_send_estimates(struct central *c, const struct node *dist)
{
    for (const struct estimate *e = NULL; (e = estimates_next(&c->history.names, e));)
        send_estimate(c, dist, e);
}

static bool worth_telling(const struct central *c, const struct estimate *e)
{
    int64_t cutoff_us = c->policy.cutoff_us;
    int64_t moved_us = e->mean_us > e->pushed_us ? e->mean_us - e->pushed_us : e->pushed_us - e->mean_us;

    if ((e->mean_us < cutoff_us) != (e->pushed_us < cutoff_us))
        return true;
    return (__int128)moved_us * 1000000 >= (__int128)e->pushed_us * ESTIMATE_STEP_PPM;
}

static void push_estimate(struct central *c, struct estimate *e)
{
    if (e->pushed_us && !worth_telling(c, e))
        return;
    e->pushed_us = e->mean_us;
    list_foreach(&c->dists, entry, next)
        send_estimate(c, container_of(entry, struct node, push), e);
}

void central_policy_job_finished(struct central *c, const struct msg_history *job, bool recovered)
{
    struct estimate *e;
    struct msg *m;

    if (job->tasks == 0 || job->mean_us < 1)
        return;
    e = history_add(&c->history, job->name, job->mean_us, job->task_us);
    if (recovered)
        return;
    c->jobs_reported++;
    m = out_add(c->out, MSG_HISTORY, 0);
    m->history = *job;
    blob_ref(job->name);
    if (follow_history(c))
        changed(c);
    if (e)
        push_estimate(c, e);
}

/* ---- The operator ---- */

/* Of the intervals at which nodes send heartbeats: how long a request waits for all of them. */
#define REQUEST_HEARTBEATS 2

static bool long_work(const struct central *c)
{
    return c->n_jobs[LONG_JOURNALLING] + c->n_jobs[LONG_ACTIVE] + c->n_jobs[LONG_ENDING] > 0;
}

/* Whether n is a dist whose jobs count: one that is gone has none any more. */
static bool has_jobs(const struct node *n)
{
    return n && n->role == ROLE_DIST && (n->state == NODE_UP || n->state == NODE_SUSPECT);
}

/* Whether its last heartbeat is younger than the request. A suspect has nothing newer to say than what it did. */
static bool has_answered(const struct central *c, const struct node *n)
{
    if (!c->cfg.heartbeats)
        return true;
    return n->state == NODE_UP ? n->answered == c->asked : n->answered > 0;
}

static bool all_answered(const struct central *c)
{
    list_foreach(&c->dists, entry, next) {
        const struct node *n = container_of(entry, struct node, push);

        if (n->state == NODE_UP && !has_answered(c, n))
            return false;
    }
    return true;
}

/* A change of policy in flight would mix two policies in one job. */
static bool idle(const struct central *c)
{
    if (long_work(c))
        return false;
    for (uint32_t id = 1; id < c->nodes_end; id++) {
        const struct node *n = c->nodes[id];

        if (has_jobs(n) && (n->jobs_unfinished > 0 || !has_answered(c, n)))
            return false;
    }
    return true;
}

static void answer(struct central *c, uint32_t client, int err)
{
    struct msg *m = out_add(c->out, MSG_POLICY_SET, 0);

    m->policy_set.client = client;
    m->policy_set.err = err;
}

/* What history computed while the request waited stays, unless the operator chose something else. */
static void apply(struct central *c, const struct policy_request *r)
{
    struct policy p = r->policy;

    if (r->fix_cutoff)
        history_fix_cutoff(&c->history, p.cutoff_us);
    else
        p.cutoff_us = c->policy.cutoff_us;
    if (r->fix_share)
        history_fix_share(&c->history, p.short_share_ppm);
    else
        p.short_share_ppm = c->policy.short_share_ppm;
    p.version = c->policy.version;
    c->policy = p;
    changed(c);
}

static int refusal(const struct central *c, const struct policy *p)
{
    if (p->cutoff_us < 1 || p->cutoff_us > LIMIT_TIME_US || p->short_share_ppm > 1000000)
        return HAWK_EINVALID;
    if (c->stopping)
        return HAWK_ESHUTDOWN;
    return !c->recovered || c->request.waits || long_work(c) ? HAWK_EBUSY : 0;
}

void central_policy_set(struct central *c, const struct msg_set_policy *m)
{
    const struct policy *p = &m->policy;
    int err = refusal(c, p);

    if (err) {
        answer(c, m->client, err);
        return;
    }
    /* What a dist said last may be older than a job that was submitted, or ended, before this request. */
    c->asked++;
    c->request = (struct policy_request){
        .waits = true,
        .fix_cutoff = p->cutoff_us != c->policy.cutoff_us,
        .fix_share = p->short_share_ppm != c->policy.short_share_ppm,
        .client = m->client,
        .until_us = c->now_us + REQUEST_HEARTBEATS * c->cfg.heartbeat_us,
        .policy = *p,
    };
}

int64_t central_policy_due_us(const struct central *c)
{
    return c->request.waits ? c->request.until_us : TIME_NEVER;
}

void central_policy_run(struct central *c)
{
    struct policy_request *r = &c->request;

    if (!r->waits || (c->now_us < r->until_us && !all_answered(c)))
        return;
    r->waits = false;
    if (idle(c)) {
        apply(c, r);
        answer(c, r->client, 0);
    } else {
        answer(c, r->client, HAWK_EBUSY);
    }
}

void central_policy_stop(struct central *c)
{
    if (!c->request.waits)
        return;
    c->request.waits = false;
    answer(c, c->request.client, HAWK_ESHUTDOWN);
}
