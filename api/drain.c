/* The API's calls by which operators take nodes out of service: drain, stop. */
#include "api/internal.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before the process ends, the answer to the client that asked for that leaves. */
#define STOP_AFTER_US (50 * US_PER_MS)

/* Finds a node by its name, else by its id; NODE_NONE. */
static node_id_t find_node(const struct central *central, const char *text)
{
    node_id_t id = NODE_NONE;
    struct central_node v;
    uint64_t number;
    while ((id = central_next_node(central, id)).v)
        if (central_view_node(central, id, 0, &v) && v.member.name->len == strlen(text) &&
            memcmp(v.member.name->data, text, v.member.name->len) == 0)
            return id;
    if (u64_parse(text, 1, NODE_ID_MAX, &number) == 0 &&
        central_view_node(central, (node_id_t){(uint32_t)number}, 0, &v))
        return v.member.node;
    return NODE_NONE;
}

static bool has_node(const node_id_t *nodes, uint32_t n, node_id_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (node_eq(nodes[i], id))
            return true;
    return false;
}

/* Finds every one of *n named nodes, in a new array, once: *n is then how many. NULL: it has failed the call. */
static node_id_t *find_all(const struct api *a, struct rpc_call *c, const char *const *names, uint32_t *n)
{
    node_id_t *nodes = xcalloc(*n ? *n : 1, sizeof *nodes);
    uint32_t found = 0;
    for (uint32_t i = 0; i < *n; i++) {
        node_id_t id = find_node(a->roles.central, names[i]);
        if (id.v) {
            if (!has_node(nodes, found, id))
                nodes[found++] = id;
            continue;
        }
        if (strcmp(names[i], role_text(ROLE_CENTRAL)) == 0)
            api_fail(c, HAWK_EINVALID,
                     "central runs no tasks and takes no jobs of clients: drain dists and workers");
        else
            api_fail(c, HAWK_ENOT_FOUND, "no node %.255s (`hawk nodes` lists them)", names[i]);
        free(nodes);
        return NULL;
    }
    *n = found;
    return nodes;
}

/* For the audit log: what is done to which nodes. */
static void audit_nodes(struct rpc_call *c, const char *what, const char *const *names, uint32_t n)
{
    char text[512];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %s", names[i]);
    rpc_audit(c, "%s%s", what, n ? text : " this process");
}

/* ---- Drain ---- */

static const char *drain_problem(int err)
{
    switch (err) {
    case HAWK_EVERSION:
        return "its hawk is older and knows no draining: stop it, and clients go to another dist";
    case HAWK_ENOT_FOUND:
        return "it is not there, so it has no process that could end: drain it without until_restart";
    case HAWK_EIO:
        return "it is in force, but central's journal cannot be written: look at its disk";
    default:
        return hawk_strerror(err);
    }
}

static void fail_drain(const struct api *a, struct rpc_call *c, node_id_t node, int err)
{
    struct central_node v;
    bool known = central_view_node(a->roles.central, node, loop_now(a->loop), &v);
    api_fail(c, err, "%s: %s", known ? v.member.name->data : "", drain_problem(err));
}

void api_drain(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_drain_request *r = request;
    audit_nodes(c,
                r->undrain         ? "undrain"
                : r->until_restart ? "drain until restart"
                                   : "drain",
                r->nodes, r->nodes_n);
    if (r->nodes_n == 0 || r->nodes_n > API_PAGE_MAX) {
        api_fail(c, HAWK_EINVALID, "name 1 to %u nodes", API_PAGE_MAX);
        return;
    }
    uint32_t n = r->nodes_n;
    node_id_t *nodes = find_all(a, c, r->nodes, &n);
    if (!nodes)
        return;
    enum drain drain = r->undrain ? DRAIN_NOT : r->until_restart ? DRAIN_RESTART : DRAIN_KEPT;
    for (uint32_t i = 0; i < n; i++) {
        int err = central_drain_refusal(a->roles.central, nodes[i], drain);
        if (err) { /* none is drained */
            fail_drain(a, c, nodes[i], err);
            free(nodes);
            return;
        }
    }
    struct api_waiting *w = api_wait_for(a, c);
    uint32_t client = w->client;
    w->nodes = nodes;
    w->nodes_n = n;
    /* The journal is written in order. So the last record's answer stands for all; an earlier error ends
     * the call. */
    for (uint32_t i = 0; i < n; i++) {
        struct msg m = {.type = MSG_SET_DRAIN,
                        .set_drain = {.node = nodes[i], .client = client, .drain = (uint8_t)drain}};
        a->feed(a->arg, ROLE_CENTRAL, &m);
        HASH_FIND(hh, a->waiting, &client, sizeof client, w);
        if (!w)
            return; /* answered, which freed `nodes` */
    }
}

void api_drain_set(struct api *a, const struct msg_drain_set *m)
{
    struct api_waiting *w;
    HASH_FIND(hh, a->waiting, &m->client, sizeof m->client, w);
    if (!w || (!m->err && m->node.v != w->nodes[w->nodes_n - 1].v))
        return;
    w = api_take(a, m->client);
    struct api_node *list = xcalloc(w->nodes_n, sizeof *list);
    for (uint32_t i = 0; i < w->nodes_n; i++)
        api_node_fill(a, w->nodes[i], &list[i]);
    if (m->err)
        fail_drain(a, w->call, m->node, m->err);
    else
        api_reply(w->call, API_DRAIN, &(struct api_drain_reply){.nodes = list, .nodes_n = w->nodes_n});
    api_nodes_free(list, w->nodes_n);
    api_waiting_free(w);
}

/* ---- Stop ---- */

void api_stop_due(void *arg)
{
    struct api *a = arg;
    a->roles.stop(a->arg, a->stop_now);
}

static void stop_this_process(struct api *a, bool now)
{
    log_info("%s is told by a client to stop%s", a->roles.name, now ? " now" : "");
    a->stop_now = now;
    loop_timer_set(a->loop, &a->stop_timer, loop_now(a->loop) + STOP_AFTER_US);
}

/* Tells one node to stop. False: it could not, and the text says why. */
static bool stop_one(struct api *a, node_id_t id, bool now, char *why, size_t size)
{
    struct central_node v;
    if (!central_view_node(a->roles.central, id, loop_now(a->loop), &v))
        return false;
    const char *problem = NULL;
    if (a->roles.dist)
        problem = "it is a part of this process: drain it, or stop all of it";
    else if (v.member.state == MEMBER_GONE)
        problem = "it is not there";
    else if (!v.link)
        problem = "it cannot be reached";
    else if (!msg_in_version(MSG_QUIT, v.version))
        problem = "its hawk is older and cannot be told to: stop it where it runs";
    if (problem) {
        snprintf(why, size, "%s: %s", v.member.name->data, problem);
        return false;
    }
    struct msg m = {.type = MSG_STOP_NODE, .stop_node = {.node = id, .now = now}};
    a->feed(a->arg, ROLE_CENTRAL, &m);
    return true;
}

#define STOP_TEXT 400

void api_stop(struct api *a, struct rpc_call *c, void *request)
{
    const struct api_stop_request *r = request;
    struct api_stop_reply reply = {0};
    audit_nodes(c, r->now ? "stop now" : "stop", r->nodes, r->nodes_n);
    bool central = r->nodes_n == 1 && strcmp(r->nodes[0], role_text(ROLE_CENTRAL)) == 0;
    if (r->nodes_n == 0 || (central && a->roles.central)) {
        api_reply(c, API_STOP, &reply);
        if (central && a->roles.stop_standbys) /* the whole cluster stops, not only this central */
            a->roles.stop_standbys(a->arg);
        stop_this_process(a, r->now);
        return;
    }
    if (!a->roles.central || r->nodes_n > API_PAGE_MAX) {
        api_fail(c, a->roles.central ? HAWK_EINVALID : HAWK_EUNSUPPORTED,
                 "%s stops itself when no node is named; central stops others", a->roles.name);
        return;
    }
    uint32_t n = r->nodes_n;
    node_id_t *nodes = find_all(a, c, r->nodes, &n);
    if (!nodes)
        return;
    reply.nodes = xcalloc(n, sizeof *reply.nodes);
    reply.failed = xcalloc(n, sizeof *reply.failed);
    char *texts = xcalloc(n, STOP_TEXT);
    for (uint32_t i = 0; i < n; i++) {
        char *why = texts + (size_t)i * STOP_TEXT;
        if (stop_one(a, nodes[i], r->now, why, STOP_TEXT))
            api_node_fill(a, nodes[i], &reply.nodes[reply.nodes_n++]);
        else
            reply.failed[reply.failed_n++] = why;
    }
    api_reply(c, API_STOP, &reply);
    api_nodes_free(reply.nodes, reply.nodes_n);
    free(reply.failed);
    free(texts);
    free(nodes);
}
