/* The API's calls about the cluster: members, counters, policy. */
#include "base/mem.h"
#include "daemon/api_internal.h"

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
        .state = member_state_text(m->state),
        .slots = m->slots,
        .general = m->general,
        .heartbeat_age_us = -1,
        .long_wait_us = -1,
    };
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_app(struct api_node *n, uint32_t *cap, const struct blob *name)
{
    vec_grow(n->apps, n->apps_n, *cap);
    n->apps[n->apps_n++] = text_or_empty(name);
}

/* As central knows, or a dist by what central told it. */
static void fill_apps(const struct api *a, struct api_node *n)
{
    node_id_t id = {n->node};
    uint32_t cap = 0;
    const struct blob *name;
    while ((name = a->roles.central ? central_node_app(a->roles.central, id, n->apps_n)
                                    : dist_node_app(a->roles.dist, id, n->apps_n)))
        add_app(n, &cap, name);
    if (n->apps_n > 1)
        qsort(n->apps, n->apps_n, sizeof *n->apps, by_name);
}

void api_nodes_free(struct api_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(nodes[i].apps);
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
    out->jobs_unfinished = v.jobs_unfinished;
    out->heartbeat_age_us = v.silent_us;
    out->long_wait_us = v.member.role == ROLE_WORKER ? v.wait_us : -1;
    out->drained = v.empty;
    out->until_restart = v.drain == DRAIN_RESTART;
    out->protocol = v.version;
    fill_apps(a, out);
    return v.member.state != MEMBER_GONE;
}

static void nodes_of_central(const struct api *a, struct api_list_nodes_reply *reply)
{
    uint32_t cap = 0;
    add_node(reply, &cap, central_node(a->roles.name, a->roles.addr, true));
    node_id_t id = NODE_NONE;
    while ((id = central_next_node(a->roles.central, id)).v) {
        struct api_node node = {0};
        if (api_node_fill(a, id, &node))
            add_node(reply, &cap, node);
        else
            free(node.apps);
    }
}

/* What central's list may leave out. */
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
             central_node("central", node_central_addr(a->roles.node), dist_central_up(a->roles.dist)));
    node_id_t id = NODE_NONE, self = dist_node(a->roles.dist);
    const struct member *m;
    bool listed = false;
    while ((m = dist_next_member(a->roles.dist, id))) {
        id = m->node;
        listed |= id.v == self.v;
        if (m->state == MEMBER_GONE)
            continue;
        add_node(reply, &cap, node_from_member(m));
        fill_apps(a, &reply->nodes[reply->nodes_n - 1]);
    }
    if (!listed && self.v)
        add_node(reply, &cap, this_dist(a));
}

void api_list_nodes(struct api *a, struct rpc_call *c, void *request)
{
    struct api_list_nodes_reply reply = {.embedded = a->roles.dist && a->roles.central};
    if (a->roles.dist)
        reply.self = dist_node(a->roles.dist).v;
    if (a->roles.central)
        nodes_of_central(a, &reply);
    else if (a->roles.dist)
        nodes_of_dist(a, &reply);
    api_reply(c, API_LIST_NODES, &reply);
    api_nodes_free(reply.nodes, reply.nodes_n);
}

/* ---- GetStats ---- */

#define LINK_COUNTERS 3

/* What this process knows besides its role's counters. */
static void add_link_stats(struct api_node_stats *s, const struct link_counters *c)
{
    struct api_counter *to = s->counters + s->counters_n;
    to[0] = (struct api_counter){"link_envelopes_out", c->envelopes_sent};
    to[1] = (struct api_counter){"link_messages_out", c->messages_sent};
    to[2] = (struct api_counter){"link_bytes_out", c->bytes_sent};
    s->counters_n += LINK_COUNTERS;
}

static struct api_node_stats *add_stats(struct api_get_stats_reply *r, uint32_t *cap, uint64_t *total,
                                        const uint64_t *counters)
{
    vec_grow(r->nodes, r->nodes_n, *cap);
    struct api_node_stats *s = &r->nodes[r->nodes_n++];
    *s = (struct api_node_stats){.counters = xcalloc(COUNTER_COUNT + LINK_COUNTERS, sizeof *s->counters),
                                 .counters_n = COUNTER_COUNT};
    api_counters_fill(s->counters, counters);
    for (int i = 0; i < COUNTER_COUNT; i++)
        total[i] += counters[i];
    return s;
}

static void stats_of_central(const struct api *a, struct api_get_stats_reply *r, uint32_t *cap,
                             uint64_t *total)
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
    const struct history *h = central_history(central);
    r->long_jobs_unfinished = t.long_jobs;
    r->long_tasks_unfinished = (uint32_t)t.long_tasks;
    r->cutoff_us = history_cutoff(h);
    r->cutoff_computed = history_cutoff_computed(h);
    r->short_share_ppm = history_share_ppm(h);
    r->share_computed = history_share_computed(h);
    r->history_jobs = h->n;
}

void api_get_stats(struct api *a, struct rpc_call *c, void *request)
{
    struct api_get_stats_reply reply = {0};
    uint64_t total[COUNTER_COUNT] = {0};
    uint32_t cap = 0;
    if (a->roles.central) {
        stats_of_central(a, &reply, &cap, total);
    } else {
        uint64_t own[COUNTER_COUNT];
        for (int i = 0; i < COUNTER_COUNT; i++)
            own[i] = a->roles.dist ? dist_counters(a->roles.dist)[i] : worker_counter(a->roles.worker, i);
        struct api_node_stats *s = add_stats(&reply, &cap, total, own);
        s->node = a->roles.dist ? dist_node(a->roles.dist).v : worker_node(a->roles.worker).v;
        s->name = a->roles.name;
        s->role = role_text(a->roles.dist ? ROLE_DIST : ROLE_WORKER);
        if (a->roles.node)
            add_link_stats(s, links_counters(node_links(a->roles.node)));
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

void api_get_policy(struct api *a, struct rpc_call *c, void *request)
{
    struct api_policy reply;
    const char *flags[32];
    const struct policy *p = central_policy(a->roles.central);
    api_policy_from(&reply, p, policy_called(p), flags);
    api_reply(c, API_GET_POLICY, &reply);
}

void api_set_policy(struct api *a, struct rpc_call *c, void *request)
{
    char why[256];
    struct policy p = *central_policy(a->roles.central);
    int err = api_policy_apply(&p, request, why, sizeof why);
    if (err) {
        api_fail(c, err, "%s", why);
        return;
    }
    struct msg m = {.type = MSG_SET_POLICY,
                    .set_policy = {.policy = p, .client = api_wait(a, c, API_SET_POLICY)}};
    a->feed(a->arg, ROLE_CENTRAL, &m);
}
