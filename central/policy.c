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

/* A change of policy in flight would mix two policies in one job. */
static bool idle(const struct central *c)
{
    if (c->n_jobs[LONG_JOURNALLING] + c->n_jobs[LONG_ACTIVE] + c->n_jobs[LONG_ENDING] > 0)
        return false;
    for (uint32_t id = 1; id < c->nodes_end; id++) {
        const struct node *n = c->nodes[id];

        if (!n || n->role != ROLE_DIST || (n->state != NODE_UP && n->state != NODE_SUSPECT))
            continue;
        if (n->jobs_unfinished > 0 || (c->cfg.heartbeats && !n->beaten))
            return false;
    }
    return true;
}

void central_policy_set(struct central *c, const struct msg_set_policy *m)
{
    const struct policy *p = &m->policy;
    uint32_t version = c->policy.version;
    struct msg *reply = out_add(c->out, MSG_POLICY_SET, 0);

    reply->policy_set.client = m->client;
    if (p->cutoff_us < 1 || p->cutoff_us > LIMIT_TIME_US || p->short_share_ppm > 1000000) {
        reply->policy_set.err = HAWK_EINVALID;
        return;
    }
    if (!c->recovered || !idle(c)) {
        reply->policy_set.err = HAWK_EBUSY;
        return;
    }
    if (p->cutoff_us != c->policy.cutoff_us)
        history_fix_cutoff(&c->history, p->cutoff_us);
    if (p->short_share_ppm != c->policy.short_share_ppm)
        history_fix_share(&c->history, p->short_share_ppm);
    c->policy = *p;
    c->policy.version = version;
    changed(c);
}
