/* History, estimates, cutoff and share, and the policy in force (Hawk 3.2, 3.4, DESIGN 3.7). */
#include "central/central.h"
#include "central/journal.h"

#include "base/check.h"
#include "base/hash.h"
#include "central/state.h"

/* Dists hear of an estimate when it has moved by this much, or across the cutoff. */
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
        .unclaimed_us = 7 * 24 * 3600 * US_PER_S,
        .long_stretch = 10,
        .pause_share_milli = 500,
        .heartbeats = true,
    };
    history_config_init(&c->history);
    CHECK(policy_preset("hawk", &c->policy) == 0);
}

/* The share to reserve for short tasks. A policy that pauses long tasks reserves none before it knows what short
 * jobs use: until then a pause gives them their slots. */
static uint32_t share_ppm_of(const struct central *c)
{
    bool unknown = policy_has(&c->policy, POLICY_PAUSE) && !history_share_known(&c->history);

    return unknown ? 0 : history_share_ppm(&c->history);
}

/* The part of a long task's slot that pauses give short ones: with 0.5 it stands still for half as long as it runs,
 * a third of the time. */
static uint32_t pauses_give_ppm(const struct central *c)
{
    uint64_t share_milli = c->cfg.pause_share_milli;

    return policy_has(&c->policy, POLICY_PAUSE) ? (uint32_t)(share_milli * 1000000 / (1000 + share_milli))
                                                : 0;
}

/* What an automatic reserve follows. Where long tasks are bound at submission it is the paper's proportion (Hawk 3.4).
 * Where they are bound late, it is what short jobs used lately, without what pauses give them (docs/results.md). */
static void choose_rule(struct central *c)
{
    history_follow_demand(&c->history, policy_has(&c->policy, POLICY_LATE_LONG) ? c->slots : 0,
                          pauses_give_ppm(c));
}

void central_policy_init(struct central *c)
{
    history_init(&c->history, &c->cfg.history);
    c->policy = c->cfg.policy;
    c->policy.cutoff_us = history_cutoff(&c->history);
    c->policy.short_share_ppm = share_ppm_of(c);
    /* The version grows across restarts of central, too. */
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
        if (c->nodes[id] && c->nodes[id]->state != NODE_JOINING) {
            central_policy_send(c, c->nodes[id]);
            central_node_update_eligible(c, c->nodes[id]);
        }
    central_partition_balance(c);
    kept_resize_all(c);
}

/* Takes over history's cutoff and share. Returns whether one changed. */
static bool follow_history(struct central *c)
{
    int64_t cutoff_us = history_cutoff(&c->history);
    uint32_t share_ppm = share_ppm_of(c);

    if (c->policy.cutoff_us == cutoff_us && c->policy.short_share_ppm == share_ppm)
        return false;
    c->policy.cutoff_us = cutoff_us;
    c->policy.short_share_ppm = share_ppm;
    return true;
}

/* ---- Estimates ---- */

static void send_estimate(struct central *c, const struct node *dist, const struct estimate *e)
{
    struct msg *m = central_send(c, dist, MSG_ESTIMATE);

    m->estimate.name = blob_ref(e->name);
    m->estimate.mean_us = e->mean_us;
    m->estimate.runs = e->runs;
    m->estimate.user = e->used.of->user;
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

/* Short work may have ended. */
void central_policy_run(struct central *c)
{
    if (c->now_us < c->demand_us)
        return;
    choose_rule(c);
    c->demand_us = history_look(&c->history, c->now_us);
    if (follow_history(c))
        changed(c);
}

void central_policy_job_finished(struct central *c, const struct msg_history *job, bool recovered)
{
    struct estimate *e;
    struct msg *m;

    if (job->tasks == 0 || job->mean_us < 1)
        return;
    choose_rule(c);
    e = history_add(&c->history, job->user, job->name, job->mean_us, job->task_us, recovered ? 0 : c->now_us);
    if (recovered)
        return;
    if (c->demand_us == TIME_NEVER)
        c->demand_us = c->now_us;
    m = out_add(c->out, MSG_HISTORY, 0);
    m->history = *job;
    blob_ref(job->name);
    if (follow_history(c))
        changed(c);
    if (!e)
        return;
    push_estimate(c, e);
    end_times_learned(c, job->name);
}

/* ---- The operator's choice (docs/protocol.md 2) ---- */

void central_policy_answer(struct central *c, uint32_t client, int err)
{
    struct msg_policy_set *m = client ? &out_add(c->out, MSG_POLICY_SET, 0)->policy_set : NULL;

    if (!m)
        return;
    m->client = client;
    m->err = err;
}

static void mix_setting(uint64_t *hash, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        *hash = hash_fnv1a(*hash, (uint8_t)(v >> 8 * i));
}

/* A hash of all settings that a choice can replace. */
static uint64_t configured_hash(const struct central *c)
{
    const struct policy *p = &c->cfg.policy;
    const struct history_config *h = &c->cfg.history;
    const uint64_t all[] = {c->cfg.preset,          p->flags,       p->min_probes,  p->probe_ratio_milli,
                            p->steal_cap,           p->steal_max,   p->short_first, h->cutoff_fixed,
                            (uint64_t)h->cutoff_us, h->share_fixed, h->share_ppm};
    uint64_t hash = HASH_FNV1A;

    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        mix_setting(&hash, all[i]);
    return hash;
}

/* Computes the policy in force: the configuration, then history, then the operator's choice. */
static void apply(struct central *c)
{
    const struct policy_choice *choice = c->choice;
    uint32_t version = c->policy.version;

    if (choice && choice->numbers & POLICY_NUMBER_CUTOFF)
        history_fix_cutoff(&c->history, choice->v.cutoff_us);
    if (choice && choice->numbers & POLICY_NUMBER_SHARE)
        history_fix_share(&c->history, choice->v.short_share_ppm);
    c->policy = c->cfg.policy;
    if (choice)
        policy_choose(&c->policy, choice);
    c->policy.version = version;
    follow_history(c);
}

static void take_choice(struct central *c, struct policy_choice *choice)
{
    policy_choice_drop(c->choice);
    c->choice = choice;
}

static int choice_refusal(const struct central *c, const struct policy_choice *choice)
{
    struct policy p = c->policy;
    const char *field;

    if (choice) {
        policy_choose(&p, choice);
        if (policy_check(&p, &field))
            return HAWK_EINVALID;
    }
    if (c->stopping)
        return HAWK_ESHUTDOWN;
    return c->recovered ? 0 : HAWK_EBUSY;
}

/* The new policy is in force at once. It does not change running jobs: dists keep the flags under which a job
 * began (dist_job.policy_flags), and what central keeps of a job does not depend on the policy. */
void central_on_set_policy(struct central *c, const struct msg *in)
{
    const struct msg_set_policy *m = &in->set_policy;
    int err = choice_refusal(c, m->choice);

    if (err) {
        central_policy_answer(c, m->client, err);
        return;
    }
    if (m->choice) {
        take_choice(c, policy_choice_then(c->choice, m->choice));
    } else {
        take_choice(c, NULL);
        history_set_back(&c->history, &c->cfg.history);
    }
    c->chosen_us = c->now_us;
    c->configured = configured_hash(c);
    c->demand_us = c->now_us;
    apply(c);
    changed(c);
    central_journal_policy(c, m->client);
}

void central_policy_write(struct central *c)
{
    struct msg *m = out_add(c->out, MSG_JOURNAL_POLICY, 0);

    m->journal_policy.choice = policy_choice_ref(c->choice);
    m->journal_policy.token = c->token;
    m->journal_policy.configured = c->configured;
}

void central_on_journal_policy(struct central *c, const struct msg *in)
{
    const struct msg_journal_policy *m = &in->journal_policy;
    take_choice(c, policy_choice_ref(m->choice));
    c->chosen_us = c->now_us - m->ago_us;
    c->configured = m->configured;
}

void central_policy_recovered(struct central *c)
{
    history_compute(&c->history);
    apply(c); /* no node has joined yet */
}

/* ---- Views ---- */

/* The origin of a flag or number. chosen: an operator chose it by itself; own: it has its preset's value. */
static enum policy_origin origin(const struct central *c, bool chosen, bool own)
{
    if (chosen)
        return POLICY_FROM_SET;
    return own || (c->choice && c->choice->preset) ? POLICY_FROM_POLICY : POLICY_FROM_CONFIGURATION;
}

enum policy_origin central_policy_flag_origin(const struct central *c, uint32_t flag)
{
    struct policy own;

    CHECK(policy_preset(policy_names[c->cfg.preset], &own) == 0);
    return origin(c, c->choice && c->choice->flags & flag, ((c->cfg.policy.flags ^ own.flags) & flag) == 0);
}

enum policy_origin central_policy_number_origin(const struct central *c, enum policy_number number)
{
    const struct policy *p = &c->cfg.policy;
    bool chosen = c->choice && c->choice->numbers & number;
    struct policy own;

    CHECK(policy_preset(policy_names[c->cfg.preset], &own) == 0);
    if (number == POLICY_NUMBER_SHARE && !history_share_fixed(&c->history) &&
        policy_has(&c->policy, POLICY_PAUSE))
        return POLICY_FROM_POLICY;
    if (number == POLICY_NUMBER_CUTOFF || number == POLICY_NUMBER_SHARE)
        return chosen ? POLICY_FROM_SET
               : (number == POLICY_NUMBER_CUTOFF ? history_cutoff_computed(&c->history)
                                                 : history_share_computed(&c->history))
                   ? POLICY_FROM_HISTORY
                   : POLICY_FROM_CONFIGURATION;
    switch (number) {
#define X(name, bit, scope, field, min, max)                                                                 \
    case POLICY_NUMBER_##name:                                                                               \
        return origin(c, chosen, p->field == own.field);
        POLICY_NUMBERS(X)
#undef X
    }
    return POLICY_FROM_CONFIGURATION;
}

void central_view_policy(const struct central *c, int64_t now_us, struct central_policy_view *v)
{
    *v = (struct central_policy_view){
        .base = policy_names[c->choice && c->choice->preset ? c->choice->preset - 1 : c->cfg.preset],
        .chosen = c->choice != NULL,
        .chosen_ago_us = now_us > c->chosen_us ? now_us - c->chosen_us : 0,
        .configured_anew = c->choice && c->configured != configured_hash(c),
    };
}
