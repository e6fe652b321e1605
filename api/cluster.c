/* The API's calls about the cluster: members, counters, policy. */
#include "api/internal.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/exec.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ListNodes ---- */

static const char *text_or_empty(const struct blob *b) { return b ? b->data : ""; }

static struct api_node node_from_member(const struct member *m)
{
    return (struct api_node){
        .node = m->node.v,
        .name = text_or_empty(m->name),
        .role = role_text(m->role),
        .address = text_or_empty(m->addr),
        .state = m->out_why ? "out-of-service" : member_state_text(m->state),
        .out_why = text_or_empty(m->out_why),
        .serves = text_or_empty(m->serves),
        .slots = m->slots,
        .general = m->general,
        .unsettled = m->unsettled,
        .heartbeat_age_us = -1,
        .long_wait_us = -1,
    };
}

struct served_app {
    const char *name, *user;
};

static int by_name(const void *a, const void *b)
{
    const struct served_app *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    return order ? order : strcmp(one->user, other->user);
}

/* Fills in the applications as central knows them, or a dist from central's messages. */
static void fill_apps(const struct api *a, struct api_node *n)
{
    struct served_app *apps = NULL;
    node_id_t id = {n->node};
    uint32_t len = 0, cap = 0;
    const struct blob *name, *user = NULL;
    while ((name = a->roles.central ? central_node_app(a->roles.central, id, len, &user)
                                    : dist_node_app(a->roles.dist, id, len, &user))) {
        vec_grow(apps, len, cap);
        apps[len++] = (struct served_app){text_or_empty(name), text_or_empty(user)};
    }
    if (len == 0)
        return;
    qsort(apps, len, sizeof *apps, by_name);
    n->apps = xcalloc(len, sizeof *n->apps);
    n->app_users = xcalloc(len, sizeof *n->app_users);
    n->apps_n = n->app_users_n = len;
    for (uint32_t i = 0; i < len; i++) {
        n->apps[i] = apps[i].name;
        n->app_users[i] = apps[i].user;
    }
    free(apps);
}

static void node_free(struct api_node *n)
{
    free(n->apps);
    free(n->app_users);
}

void api_nodes_free(struct api_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        node_free(&nodes[i]);
    free(nodes);
}

static void add_node(struct api_list_nodes_reply *reply, uint32_t *cap, struct api_node node)
{
    vec_grow(reply->nodes, reply->nodes_n, *cap);
    reply->nodes[reply->nodes_n++] = node;
}

static struct api_node central_node(const char *name, const char *addr, bool up)
{
    return (struct api_node){.node = NODE_CENTRAL.v,
                             .name = name,
                             .role = role_text(ROLE_CENTRAL),
                             .address = addr,
                             .state = member_state_text(up ? MEMBER_UP : MEMBER_SUSPECT),
                             .heartbeat_age_us = -1,
                             .long_wait_us = -1};
}

bool api_node_fill(const struct api *a, node_id_t id, struct api_node *out)
{
    struct central_node v;
    if (!central_view_node(a->roles.central, id, loop_now(a->loop), &v))
        return false;
    *out = node_from_member(&v.member);
    out->queued = v.queued;
    out->running_short = v.running_short;
    out->running_long = v.running_long;
    out->paused = v.paused;
    out->jobs_unfinished = v.jobs_unfinished;
    out->heartbeat_age_us = v.silent_us;
    out->long_wait_us = v.member.role == ROLE_WORKER ? v.wait_us : -1;
    if (v.ends_us != TIME_NEVER)
        out->ends_in_us = v.ends_us > loop_now(a->loop) ? v.ends_us - loop_now(a->loop) : 1;
    out->drained = v.empty;
    if (v.empty) /* DRAINED is newer than its last heartbeat */
        out->queued = out->running_short = out->running_long = out->paused = out->jobs_unfinished = 0;
    out->until_restart = v.drain == DRAIN_RESTART;
    out->protocol = v.version;
    if (v.freezer > EXEC_FREEZER_OFF && v.freezer <= EXEC_FREEZER_AUTO) {
        out->freezer = exec_freezer_name((enum exec_freezer)(v.freezer - 1));
        out->freezer_text = exec_freezer_text((enum exec_freezer)(v.freezer - 1));
    }
    fill_apps(a, out);
    return v.member.state != MEMBER_GONE;
}

/* Lists the nodes of central. lost: as ListNodesRequest has it. *reply borrows the addresses of standbys. */
static void nodes_of_central(const struct api *a, struct leader_standbys *standbys, bool lost,
                             struct api_list_nodes_reply *reply)
{
    uint32_t cap = 0;
    reply->settles_in_us = central_settles_in_us(a->roles.central, loop_now(a->loop));
    /* The active central comes first: clients use the first one. */
    add_node(reply, &cap, central_node(a->roles.name, a->roles.addr, true));
    if (a->roles.standbys)
        a->roles.standbys(a->arg, standbys);
    for (uint32_t i = 0; i < standbys->n; i++) {
        struct api_node node = central_node(a->roles.name, standbys->address[i], true);
        node.state = "standby";
        add_node(reply, &cap, node);
    }
    node_id_t id = NODE_NONE;
    while ((id = central_next_node(a->roles.central, id)).v) {
        struct api_node node = {0};
        /* A process that says good-bye ends such a drain. */
        if (api_node_fill(a, id, &node) || (lost && node.until_restart))
            add_node(reply, &cap, node);
        else
            node_free(&node);
    }
}

/* This dist, which central's list may leave out. */
static struct api_node this_dist(const struct api *a)
{
    return (struct api_node){.node = dist_node(a->roles.dist).v,
                             .name = a->roles.name,
                             .role = role_text(ROLE_DIST),
                             .address = a->roles.addr,
                             .state =
                                 member_state_text(dist_drained(a->roles.dist) ? MEMBER_DRAINING : MEMBER_UP),
                             .heartbeat_age_us = -1,
                             .long_wait_us = -1};
}

static void nodes_of_dist(const struct api *a, struct api_list_nodes_reply *reply)
{
    uint32_t cap = 0;
    add_node(reply, &cap,
             central_node("central", a->roles.central_addr(a->arg), dist_central_up(a->roles.dist)));
    node_id_t id = NODE_NONE, self = dist_node(a->roles.dist);
    const struct member *m;
    bool listed = false;
    while ((m = dist_next_member(a->roles.dist, id))) {
        id = m->node;
        listed |= id.v == self.v;
        struct api_node node = node_from_member(m);
        if (m->state == MEMBER_GONE)
            node.state = member_state_text(MEMBER_SUSPECT);
        add_node(reply, &cap, node);
        fill_apps(a, &reply->nodes[reply->nodes_n - 1]);
    }
    if (!listed && self.v)
        add_node(reply, &cap, this_dist(a));
}

void api_list_nodes(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_list_nodes_request *r = request;
    struct leader_standbys standbys = {0};
    struct api_list_nodes_reply reply = {.embedded = a->roles.dist && a->roles.central};
    if (a->roles.dist)
        reply.self = dist_node(a->roles.dist).v;
    if (a->roles.central)
        nodes_of_central(a, &standbys, r->lost, &reply);
    else if (a->roles.dist)
        nodes_of_dist(a, &reply);
    api_reply(c, API_LIST_NODES, &reply);
    api_nodes_free(reply.nodes, reply.nodes_n);
}

/* ---- GetStats ---- */

#define LINK_COUNTERS 3
#define PROCESS_COUNTERS (LINK_COUNTERS + 1)

/* Adds this process's counters to those of its role. */
static void add_link_stats(struct api_node_stats *s, const struct link_counters *c)
{
    struct api_counter *to = s->counters + s->counters_n;
    to[0] = (struct api_counter){"link_envelopes_out", c->envelopes_sent};
    to[1] = (struct api_counter){"link_messages_out", c->messages_sent};
    to[2] = (struct api_counter){"link_bytes_out", c->bytes_sent};
    s->counters_n += LINK_COUNTERS;
}

static void add_signature_stats(struct api_node_stats *s, const struct tls *signatures)
{
    s->counters[s->counters_n++] =
        (struct api_counter){"signatures_verified", tls_signatures_verified(signatures)};
}

static struct api_node_stats *add_stats(struct api_get_stats_reply *r, uint32_t *cap, uint64_t *total,
                                        const uint64_t *counters)
{
    vec_grow(r->nodes, r->nodes_n, *cap);
    struct api_node_stats *s = &r->nodes[r->nodes_n++];
    *s = (struct api_node_stats){.counters = xcalloc(COUNTER_COUNT + PROCESS_COUNTERS, sizeof *s->counters),
                                 .counters_n = COUNTER_COUNT};
    api_counters_fill(s->counters, counters);
    for (int i = 0; i < COUNTER_COUNT; i++)
        total[i] += counters[i];
    return s;
}

/* Whether pauses do what a reserve would, unless history says that short work needs more. */
static bool pauses_instead(const struct central *c)
{
    return policy_has(central_policy(c), POLICY_PAUSE) && !history_share_fixed(central_history(c));
}

uint32_t api_partition_note(const struct central *c, char *buf, size_t size)
{
    const struct policy *p = central_policy(c);
    struct central_summary s;
    char share[16];
    buf[0] = '\0';
    central_view_summary(c, &s);
    if (!s.slots_least || s.workers_reserved || pauses_instead(c))
        return 0;
    if (s.workers == 1) {
        snprintf(buf, size, "short partition: there is one worker, which long jobs keep: none is reserved");
        return 1;
    }
    uint32_t percent = (uint32_t)((100 * s.slots_least + s.slots - 1) / s.slots);
    snprintf(buf, size,
             "short partition: %s of %llu slots is less than one worker's %u: none is reserved; set "
             "central.short_partition to at least %u%%",
             share_format(share, sizeof share, p->short_share_ppm), (unsigned long long)s.slots,
             s.slots_least, percent);
    return percent;
}

/* What an automatic cutoff and share follow from, in words. */
struct auto_notes {
    char cutoff[160], share[160];
};

static void note_autos(const struct central *c, struct auto_notes *n)
{
    const struct history *h = central_history(c);
    const struct history_config *hc = &h->cfg;
    char percentile[16], least[32], greatest[32], value[32];
    bool set = central_policy_number_origin(c, POLICY_NUMBER_CUTOFF) == POLICY_FROM_SET;

    if (!hc->cutoff_fixed && !set && !h->cutoff_computed)
        snprintf(n->cutoff, sizeof n->cutoff, "auto: %s until the history has %u jobs; it has %u",
                 duration_format(value, sizeof value, hc->cutoff_us), hc->min_jobs, history_jobs(h));
    else if (!hc->cutoff_fixed && !set)
        snprintf(n->cutoff, sizeof n->cutoff,
                 "auto: the %s percentile of the mean task run times of %u jobs, within %s and %s",
                 share_format(percentile, sizeof percentile, hc->cutoff_percentile_ppm), history_jobs(h),
                 duration_format(least, sizeof least, hc->cutoff_min_us),
                 duration_format(greatest, sizeof greatest, hc->cutoff_max_us));
    if (hc->share_fixed || !policy_has(central_policy(c), POLICY_PARTITION) ||
        central_policy_number_origin(c, POLICY_NUMBER_SHARE) == POLICY_FROM_SET)
        return;
    if (history_share_known(h))
        snprintf(n->share, sizeof n->share,
                 "auto: what short jobs kept busy lately and a margin, less what pauses give");
    else if (policy_has(central_policy(c), POLICY_LATE_LONG))
        snprintf(n->share, sizeof n->share, "auto: %s until %u short jobs have ended; %llu have",
                 share_format(value, sizeof value, history_share_ppm(h)), hc->min_jobs,
                 (unsigned long long)h->demand.jobs);
    else if (!h->share_computed)
        snprintf(n->share, sizeof n->share, "auto: %s until the history has %u jobs; it has %u",
                 share_format(value, sizeof value, hc->share_ppm), hc->min_jobs, history_jobs(h));
    else
        snprintf(n->share, sizeof n->share,
                 "auto: the short jobs' part of the task-seconds of %u jobs, within %s and %s",
                 history_jobs(h), share_format(least, sizeof least, hc->share_min_ppm),
                 share_format(greatest, sizeof greatest, hc->share_max_ppm));
}

/* Fills in the cutoff and the share in force and where they come from, as GetPolicy shows them. */
static void stats_of_policy(const struct central *c, struct api_get_stats_reply *r, char *note,
                            size_t note_size)
{
    const struct policy *p = central_policy(c);
    const struct history *h = central_history(c);
    struct central_summary summary;
    r->cutoff_us = p->cutoff_us;
    r->cutoff_computed = history_cutoff_computed(h);
    r->cutoff_from = policy_origin_text(central_policy_number_origin(c, POLICY_NUMBER_CUTOFF));
    r->history_jobs = history_jobs(h);
    r->short_partition_note = note;
    if (policy_has(p, POLICY_PARTITION)) {
        r->short_share_ppm = p->short_share_ppm;
        r->share_computed = p->short_share_ppm > 0 && history_share_computed(h);
        r->share_from = policy_origin_text(central_policy_number_origin(c, POLICY_NUMBER_SHARE));
        central_view_summary(c, &summary);
        if (pauses_instead(c) && !summary.workers_reserved)
            snprintf(note, note_size,
                     "short partition: none is reserved, short tasks pause long ones (flag pause)");
        else
            api_partition_note(c, note, note_size);
        return;
    }
    r->share_from = policy_origin_text(central_policy_flag_origin(c, POLICY_PARTITION));
    snprintf(note, note_size, "short partition: the policy has none (its flag partition is off)");
}

static void stats_of_central(const struct api *a, struct api_get_stats_reply *r, uint32_t *cap,
                             uint64_t *total, char *note, size_t note_size)
{
    const struct central *central = a->roles.central;
    struct central_totals t;
    central_view_totals(central, &t);
    struct api_node_stats *s = add_stats(r, cap, total, t.counters);
    s->node = NODE_CENTRAL.v;
    s->name = a->roles.name;
    s->role = role_text(ROLE_CENTRAL);
    node_id_t id = NODE_NONE;
    while ((id = central_next_node(central, id)).v) {
        struct central_node v;
        if (!central_view_node(central, id, loop_now(a->loop), &v) || v.member.state == MEMBER_GONE)
            continue;
        s = add_stats(r, cap, total, v.counters);
        s->node = id.v;
        s->name = text_or_empty(v.member.name);
        s->role = role_text(v.member.role);
    }
    r->long_jobs_unfinished = t.long_jobs;
    r->long_tasks_unfinished = (uint32_t)t.long_tasks;
    stats_of_policy(central, r, note, note_size);
}

void api_get_stats(struct api *a, struct rpc_call *c, void *request)
{
    struct api_get_stats_reply reply = {.short_partition_note = "", .cutoff_note = "", .share_note = ""};
    struct auto_notes autos = {0};
    uint64_t total[COUNTER_COUNT] = {0};
    uint32_t cap = 0;
    char note[API_NOTE_BYTES];
    if (a->roles.central) {
        stats_of_central(a, &reply, &cap, total, note, sizeof note);
        note_autos(a->roles.central, &autos);
        reply.cutoff_note = autos.cutoff;
        reply.share_note = autos.share;
    } else {
        uint64_t own[COUNTER_COUNT];
        for (int i = 0; i < COUNTER_COUNT; i++)
            own[i] = a->roles.dist ? dist_counters(a->roles.dist)[i] : worker_counter(a->roles.worker, i);
        struct api_node_stats *s = add_stats(&reply, &cap, total, own);
        s->node = a->roles.dist ? dist_node(a->roles.dist).v : worker_node(a->roles.worker).v;
        s->name = a->roles.name;
        s->role = role_text(a->roles.dist ? ROLE_DIST : ROLE_WORKER);
        if (a->roles.links)
            add_link_stats(s, links_counters(a->roles.links));
        if (a->roles.signatures)
            add_signature_stats(s, a->roles.signatures);
    }
    struct api_counter totals[COUNTER_COUNT];
    api_counters_fill(totals, total);
    reply.total = totals;
    reply.total_n = COUNTER_COUNT;
    api_reply(c, API_GET_STATS, &reply);
    for (uint32_t i = 0; i < reply.nodes_n; i++)
        free(reply.nodes[i].counters);
    free(reply.nodes);
}

/* ---- Policy ---- */

/* The preset whose flags the policy in force has, or "custom". */
static const char *policy_called(const struct policy *p)
{
    struct policy preset = *p;
    for (int i = 0; policy_names[i]; i++)
        if (policy_preset(policy_names[i], &preset) == 0 && preset.flags == p->flags)
            return policy_names[i];
    return "custom";
}

void api_policy_view(const struct central *c, int64_t now_us, struct api_policy_text *t)
{
    const struct policy *p = central_policy(c);
    struct central_policy_view v;
    uint32_t n = 0;
    api_policy_from(&t->policy, p, policy_called(p), t->flags);
    central_view_policy(c, now_us, &v);
#define X(name, bit, scope, field, min, max)                                                                 \
    t->origins[n++] = (struct api_policy_origin){                                                            \
        #field, policy_origin_text(central_policy_number_origin(c, POLICY_NUMBER_##name))};
    POLICY_NUMBERS(X)
#undef X
    for (int bit = 0; bit < 32; bit++)
        if (policy_flag_keys[bit])
            t->origins[n++] = (struct api_policy_origin){
                policy_flag_keys[bit], policy_origin_text(central_policy_flag_origin(c, 1u << bit))};
    t->policy.origins = t->origins;
    t->policy.origins_n = n;
    t->policy.base = v.base;
    t->policy.has_set_ago_us = v.chosen;
    t->policy.set_ago_us = v.chosen_ago_us;
    t->policy.configured_anew = v.configured_anew;
}

void api_get_policy(struct api *a, struct rpc_call *c, void *request)
{
    struct api_policy_text t;
    api_policy_view(a->roles.central, loop_now(a->loop), &t);
    api_reply(c, API_GET_POLICY, &t.policy);
}

static void feed_policy(struct api *a, struct policy_choice *choice, uint32_t client)
{
    struct msg m = {.type = MSG_SET_POLICY, .set_policy = {.choice = choice, .client = client}};
    a->feed(a->arg, ROLE_CENTRAL, &m);
}

void api_set_policy(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_set_policy_request *r = request;
    struct policy_choice *choice = NULL;
    char why[512]; /* all names of flags */
    rpc_audit(c, "policy set");
    int err = api_policy_choice(&choice, r, why, sizeof why);
    if (err) {
        api_fail(c, err, "%s", why);
        return;
    }
    bool chosen = choice->preset || choice->numbers || choice->flags;
    if (r->reset && chosen) /* the client hears of the second one */
        feed_policy(a, NULL, 0);
    feed_policy(a, chosen || !r->reset ? choice : NULL, api_wait(a, c));
    policy_choice_drop(choice);
}
