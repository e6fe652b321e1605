/* Listening, and handing calls to their handlers. */
#include "net/server_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "msg/msg.h"
#include "net/identity.h"
#include "net/link_accept.h"
#include "net/listen.h"
#include "net/loopback.h"
#include "net/tls.h"
#include "net/token.h"

#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls that gRPC may hand over before we ask for more. */
#define ACCEPTS 16
/* A server keeps this part of its calls for connections that have few. */
#define RESERVED_SHARE 10 /* one in this many */
#define LIGHT_CALLS 64u
/* Calls of one connection of which only headers have come: the cheapest way to make a server hold memory. */
#define WAITING_MAX 300u
/* The time that a stopping server gives its answers to reach clients. */
#define LAST_ANSWERS_US (1 * US_PER_S)

struct accept {
    struct server *server;
    struct cq_tag tag;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

/* A call that a client asks for, over HTTP/2 or on a plain stream. Borrowed. */
struct asked {
    struct server_wire wire;
    struct front_conn *conn; /* NULL: the connection is gone */
    struct span path;
    struct span authorization;           /* data NULL: it shows no token */
    const grpc_metadata_array *metadata; /* NULL: a plain stream has none */
};

/* A plain stream whose head has not come. */
struct unheaded {
    struct list node;
    struct server *server;
    struct front_conn *conn;
    struct plain *plain;
};

struct server {
    struct loop *loop;
    grpc_server *server;
    struct front *front;
    char *token, *node_token;
    const struct tls *tls; /* NULL: none */
    enum role role;
    bool insecure, local_users, own_alone, started;
    uint32_t max_calls, max_per_connection;
    char **addrs;
    unsigned addrs_n, addrs_cap;
    struct links *links;
    char *no_links;                /* why it accepts no links; NULL: this daemon never does */
    struct server_method *methods; /* a dozen: a linear search is enough */
    unsigned methods_n, methods_cap;
    struct server_calls calls;
    struct list unheaded;
    uint32_t max_message_bytes;
    struct accept accepts[ACCEPTS];
    struct cq_tag stopped_tag;
};

static void on_plain(void *arg, struct front_conn *conn);

struct server *server_new(struct loop *l, const struct server_config *c)
{
    struct server *s = xcalloc(1, sizeof *s);
    grpc_arg v[NET_ARGS_MAX];
    grpc_channel_args args = {.args = v};

    s->loop = l;
    s->token = c->token ? xstrdup(c->token) : NULL;
    s->node_token = c->node_token ? xstrdup(c->node_token) : NULL;
    s->tls = c->tls;
    s->role = c->role;
    s->insecure = c->insecure;
    s->local_users = c->local_users;
    s->own_alone = !c->tls && !c->token && !c->insecure && loopback_tells();
    s->max_calls = c->max_calls ? c->max_calls : SERVER_MAX_CALLS;
    s->max_per_connection = s->max_calls / 2 > LIGHT_CALLS ? s->max_calls / 2 : LIGHT_CALLS;
    s->calls.loop = l;
    s->calls.bytes_max = c->max_reply_bytes ? c->max_reply_bytes : SERVER_REPLY_BYTES;
    list_init(&s->calls.all);
    list_init(&s->unheaded);
    s->max_message_bytes = c->max_message_bytes ? c->max_message_bytes : NET_MESSAGE_BYTES;
    args.num_args =
        net_args(v, s->max_message_bytes, c->keepalive_ms ? (int)c->keepalive_ms : NET_KEEPALIVE_MS,
                 c->keepalive_ms ? (int)c->keepalive_ms : NET_KEEPALIVE_ACCEPTED_TIMEOUT_MS);
    v[args.num_args++] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                                    .key = (char *)(uintptr_t)GRPC_ARG_MAX_CONCURRENT_STREAMS,
                                    .value.integer = FRAMES_STREAMS};
    s->server = grpc_server_create(&args, NULL);
    CHECK(s->server);
    grpc_server_register_completion_queue(s->server, loop_cq(l), NULL);
    s->front =
        front_new(l, &(struct front_config){
                         .connections_max = c->connections_max,
                         .per_address = c->unproven_per_address,
                         .connect_rate = c->connect_rate,
                         .user_timeout_ms = c->keepalive_ms ? c->keepalive_ms : NET_KEEPALIVE_TIMEOUT_MS,
                         .tls = c->tls,
                         .own_alone = s->own_alone,
                         .plain = on_plain,
                         .plain_arg = s,
                         .dead = c->dead,
                         .arg = c->dead_arg,
                     });
    return s;
}

/* ---- Listening ---- */

int server_listen(struct server *s, const char *addr, char *why, size_t size)
{
    char numeric[ADDR_TEXT], bound[ADDR_TEXT];
    int err;

    CHECK(!s->started);
    if ((err = addr_check(addr, why, size)) != 0)
        return err;
    if (!s->tls && !s->insecure && !addr_is_local(addr)) {
        snprintf(
            why, size,
            "%s can be reached from other machines: set TLS (`hawk ca init`, --ca, --join), or allow it with "
            "--insecure",
            addr);
        return HAWK_EDENIED;
    }
    if (!addr_is_unix(addr) && !s->tls && !s->token && !s->own_alone)
        log_warn("%s: whoever reaches this address can make every call%s", addr,
                 s->insecure ? " (--insecure)"
                             : ", since this system does not say whose a connection on loopback is");
    if ((err = addr_resolve(addr, numeric, sizeof numeric, why, size)) != 0)
        return err;
    if ((err = front_listen(s->front, numeric, bound, why, size)) != 0)
        return err;
    if (s->local_users && addr_is_unix(addr) && (err = listen_for_all(addr, why, size)) != 0)
        return err;
    vec_grow(s->addrs, s->addrs_n, s->addrs_cap);
    s->addrs[s->addrs_n++] = xstrdup(bound);
    return 0;
}

const char *server_addr(const struct server *s, unsigned i) { return i < s->addrs_n ? s->addrs[i] : NULL; }

/* ---- Dispatch ---- */

void server_set_links(struct server *s, struct links *ls) { s->links = ls; }

void server_refuse_links(struct server *s, const char *why)
{
    free(s->no_links);
    s->no_links = xstrdup(why);
}

static struct server_method *add_method(struct server *s, const char *path, void *arg)
{
    CHECK(!s->started);
    vec_grow(s->methods, s->methods_n, s->methods_cap);
    s->methods[s->methods_n] = (struct server_method){.path = xstrdup(path), .arg = arg};
    return &s->methods[s->methods_n++];
}

void server_handle(struct server *s, const char *path,
                   void (*fn)(void *arg, struct rpc_call *c, const uint8_t *request, size_t len), void *arg)
{
    add_method(s, path, arg)->request = fn;
}

void server_handle_stream(struct server *s, const char *path, void (*fn)(void *arg, struct rpc_call *c),
                          void *arg)
{
    struct server_method *m = add_method(s, path, arg);

    m->open = fn;
    m->lasting = true;
}

void server_limit(struct server *s, const char *path, uint32_t per_connection)
{
    for (unsigned i = 0; i < s->methods_n; i++)
        if (strcmp(s->methods[i].path, path) == 0)
            s->methods[i].per_connection = per_connection;
}

void server_lasting(struct server *s, const char *path)
{
    for (unsigned i = 0; i < s->methods_n; i++)
        if (strcmp(s->methods[i].path, path) == 0)
            s->methods[i].lasting = true;
}

static bool path_is(struct span path, const char *text)
{
    return path.len == strlen(text) && memcmp(path.data, text, path.len) == 0;
}

static const struct server_method *find_method(const struct server *s, struct span path)
{
    for (unsigned i = 0; i < s->methods_n; i++)
        if (path_is(path, s->methods[i].path))
            return &s->methods[i];
    return NULL;
}

static void refuse_call(struct server *s, const struct asked *a, grpc_status_code status, const char *text)
{
    rpc_fail(server_call_new(&s->calls, a->wire, NULL, a->conn), status, "%s", text);
}

static void dispatch_link(struct server *s, const struct asked *a)
{
    grpc_status_code status;
    const struct identity *who = a->conn ? front_peer(a->conn) : NULL;
    const char *why = links_why_not(s->links, a->metadata, who, &status);

    if (why) {
        refuse_call(s, a, status, why);
    } else {
        if (a->conn) {
            front_prove(a->conn);
            front_tell_user(a->conn, true);
        }
        links_accept(s->links, a->wire.call, a->metadata, who,
                     a->conn ? a->conn->peer : "a connection that is gone");
    }
}

/* Whether the clients of the connection's address have too many calls, or too many lasting calls exist. */
static bool share_full(const struct server *s, const struct front_conn *c, const struct server_method *m,
                       char *text, size_t size)
{
    const uint32_t max = s->max_calls - s->max_calls / 10 * (10 - SERVER_ADDRESS_SHARE);
    const uint32_t reserve = s->max_calls / 10 * SERVER_UNARY_RESERVE;
    const struct address_load load = c ? front_load(c) : (struct address_load){0};

    if (load.calls >= max)
        snprintf(
            text, size,
            "the clients of your address have %u calls under way here, the limit of one address; end some",
            max);
    else if (m->lasting && load.lasting >= max - reserve)
        snprintf(text, size,
                 "the clients of your address have %u watches and other calls that last under way here, the "
                 "limit of "
                 "one address; end some",
                 max - reserve);
    else if (m->lasting && s->calls.lasting >= s->max_calls - reserve)
        snprintf(text, size,
                 "this daemon has %u watches and other calls that last under way, its limit; try again later",
                 s->max_calls - reserve);
    else
        return false;
    return true;
}

/* Whether one more call is too many, and why. */
static bool calls_full(const struct server *s, const struct front_conn *c, const struct server_method *m,
                       char *text, size_t size)
{
    if (s->calls.n >= s->max_calls)
        snprintf(text, size, "this daemon has %u calls under way, its limit; try again later", s->max_calls);
    else if (server_replies_full(&s->calls, c, text, size))
        return true;
    else if (c && c->calls >= s->max_per_connection)
        snprintf(text, size, "this connection has %u calls under way, its limit; try again later",
                 s->max_per_connection);
    else if (c && m->per_connection && c->limited >= m->per_connection)
        snprintf(text, size, "this connection has %u calls of %s under way, its limit; end some",
                 m->per_connection, m->path);
    else if (c && c->waiting >= WAITING_MAX)
        snprintf(text, size, "this connection has %u calls whose requests have not come, its limit",
                 WAITING_MAX);
    else if (c && c->calls >= LIGHT_CALLS && s->calls.n >= s->max_calls - s->max_calls / RESERVED_SHARE)
        snprintf(text, size,
                 "this daemon has %u calls under way and keeps the rest of its %u for connections with fewer "
                 "than %u; try again later",
                 s->calls.n, s->max_calls, LIGHT_CALLS);
    else
        return share_full(s, c, m, text, size);
    return true;
}

/* Why the caller may not make this call; NULL: it may. A client's token opens no link: only nodes have the
 * token that does. Whoever is invited has none, nor, while TLS is optional, whoever shows a certificate. */
static const char *why_not_allowed(const struct server *s, const struct asked *a, bool link, bool for_guests)
{
    const struct span shown = a->authorization;
    const char *nodes = s->node_token ? s->node_token : s->token;

    if (!s->token || for_guests || (tls_is_optional(s->tls) && a->conn && front_peer(a->conn)) ||
        (shown.data && token_matches(shown.data, shown.len, nodes)) ||
        (!link && shown.data && token_matches(shown.data, shown.len, s->token)))
        return NULL;
    return link ? "the nodes' token is missing or wrong: set cluster.node_token_file as on this daemon's "
                  "machine"
                : "the cluster's token is missing or wrong";
}

/* A user hears of the handler which role serves the call. */
static bool may_call(const struct server *s, const struct identity *who, const char *path)
{
    if (who->role == ROLE_NONE)
        return call_may_pass(path, ROLE_NONE, ROLE_CENTRAL) || call_may_pass(path, ROLE_NONE, ROLE_DIST) ||
               call_may_pass(path, ROLE_NONE, ROLE_WORKER);
    return call_may_pass(path, who->role, s->role);
}

/* The connection is gone, and with it who called. */
static bool refuse_gone(struct server *s, const struct asked *a)
{
    refuse_call(s, a, GRPC_STATUS_UNAVAILABLE, "the connection is gone");
    return true;
}

static bool refuse_forbidden(struct server *s, const struct asked *a, const char *why)
{
    front_forbidden(a->conn, why);
    refuse_call(s, a, GRPC_STATUS_PERMISSION_DENIED, why);
    return true;
}

/* A call that the certificate of its connection does not allow. path NULL: nobody serves it. True: it was
 * refused. */
static bool refuse_stranger(struct server *s, const struct asked *a, const char *path)
{
    const struct identity *who = a->conn ? front_peer(a->conn) : NULL;
    char name[IDENTITY_TEXT], text[IDENTITY_TEXT + 200];

    if (!s->tls || !path)
        return false;
    if (!a->conn || (who && !identity_is_set(who)))
        return refuse_gone(s, a);
    if (who && tls_refusal(s->tls, who, text, sizeof text)) {
        front_outlawed(a->conn, text);
        refuse_call(s, a, GRPC_STATUS_PERMISSION_DENIED, text);
        return true;
    }
    if (!who || may_call(s, who, path))
        return false;
    snprintf(text, sizeof text, "the certificate of %s does not allow %s at a %s", identity_text(who, name),
             path, role_text(s->role));
    return refuse_forbidden(s, a, text);
}

/* What its caller needs for a call. A link is for nodes, which show a certificate or their token. Where a unix socket
 * asks for neither, only operators open one: any other user of the machine could act as a node. */
static enum scope scope_needed(const struct server *s, const struct caller *who, const char *path)
{
    if (strcmp(path, LINK_METHOD) != 0)
        return call_scope(path);
    return who->by == CALLER_SOCKET && !s->node_token ? SCOPE_OPERATE : SCOPE_NONE;
}

/* A call of somebody whose name could not be looked up. A link needs none. True: it was refused. */
static bool refuse_nameless(struct server *s, const struct asked *a, const struct caller *who,
                            const char *path)
{
    char name[CALLER_TEXT], text[CALLER_TEXT + 100];

    if (!who->nameless || strcmp(path, LINK_METHOD) == 0)
        return false;
    snprintf(text, sizeof text, "you are %s: try again", caller_text(who, name));
    front_forbidden(a->conn, text);
    refuse_call(s, a, GRPC_STATUS_UNAVAILABLE, text);
    return true;
}

/* A call for which its caller lacks a scope. True: it was refused. */
static bool refuse_caller(struct server *s, const struct asked *a, const char *path)
{
    const struct caller *who = a->conn && path ? front_caller(a->conn) : NULL;
    char name[CALLER_TEXT], needed[SCOPES_TEXT], text[CALLER_TEXT + 200];
    enum scope scope = who ? scope_needed(s, who, path) : SCOPE_NONE;

    if (!a->conn && path && s->local_users)
        return refuse_gone(s, a);
    if (who && refuse_nameless(s, a, who, path))
        return true;
    if (!who || caller_may(who, scope))
        return false;
    const char *remedy = who->by == CALLER_CERTIFICATE ? ": `hawk user add NAME --scopes` gives it" : "";
    if (strcmp(path, LINK_METHOD) == 0)
        remedy = ", or the nodes' token (cluster.node_token_file)";
    snprintf(text, sizeof text, "you are %s: %s needs scope %s%s", caller_text(who, name), path,
             scopes_format(needed, scope), remedy);
    return refuse_forbidden(s, a, text);
}

/* A call at a plain address by another user of this machine. True: it was refused. */
static bool refuse_other_user(struct server *s, const struct asked *a)
{
    char name[CALLER_TEXT] = "not known to the kernel", text[CALLER_TEXT + 300];
    struct caller who, own;

    if (!s->own_alone)
        return false;
    if (!a->conn)
        return refuse_gone(s, a);
    if (!a->conn->stranger)
        return false;
    own = caller_of_uid(geteuid());
    if (a->conn->uid != CALLER_NO_UID) {
        who = caller_of_uid(a->conn->uid);
        if (*who.name)
            snprintf(name, sizeof name, "%s (uid %u)", who.name, (unsigned)who.uid);
        else
            caller_text(&who, name);
    }
    snprintf(
        text, sizeof text,
        "you are %s: at this address this daemon serves its own user (%s) and root alone; for others it must "
        "listen on unix:PATH with cluster.local_users, or use TLS (`hawk ca init`)",
        name, own.name);
    return refuse_forbidden(s, a, text);
}

/* The text for a call of `a` that nobody serves, or not in this way. */
static void refuse_unserved(struct server *s, const struct asked *a)
{
    char text[256];

    snprintf(text, sizeof text, "this daemon does not serve %.*s%s",
             a->path.len > 200 ? 200 : (int)a->path.len, (const char *)a->path.data,
             a->wire.plain ? " on a plain stream" : "");
    refuse_call(s, a, GRPC_STATUS_UNIMPLEMENTED, text);
}

static void dispatch_call(struct server *s, const struct asked *a)
{
    const struct server_method *m = find_method(s, a->path);
    bool link = path_is(a->path, LINK_METHOD);
    const char *served = link ? LINK_METHOD : m ? m->path : NULL, *why;
    char text[256];

    if (s->calls.stopping) {
        refuse_call(s, a, GRPC_STATUS_UNAVAILABLE, SERVER_STOPPING_TEXT);
    } else if ((why = why_not_allowed(s, a, link, m && call_may_pass(m->path, ROLE_GUEST, s->role))) !=
               NULL) {
        refuse_call(s, a, GRPC_STATUS_UNAUTHENTICATED, why);
        if (a->conn)
            front_failed(a->conn, "its token is missing or wrong");
    } else if (refuse_other_user(s, a) || refuse_stranger(s, a, served) || refuse_caller(s, a, served)) {
        return;
    } else if (a->wire.plain && (!m || !m->open)) {
        refuse_unserved(s, a);
    } else if (s->links && link) {
        dispatch_link(s, a);
    } else if (s->no_links && link) {
        refuse_call(s, a, GRPC_STATUS_UNAVAILABLE, s->no_links);
    } else if (!m) {
        refuse_unserved(s, a);
    } else if (calls_full(s, a->conn, m, text, sizeof text)) {
        refuse_call(s, a, GRPC_STATUS_RESOURCE_EXHAUSTED, text);
    } else {
        server_call_new(&s->calls, a->wire, m, a->conn);
    }
}

/* ---- Plain streams ---- */

static void unheaded_free(struct unheaded *u)
{
    list_remove(&u->node);
    free(u);
}

static void on_plain_head(void *arg, struct plain *p, const struct plain_head *h)
{
    struct unheaded *u = arg;
    const struct asked a = {
        .wire.plain = p, .conn = u->conn, .path = h->path, .authorization = h->authorization};
    struct server *s = u->server;

    unheaded_free(u);
    dispatch_call(s, &a);
}

static void on_unheaded_over(void *arg, bool in_order)
{
    struct unheaded *u = arg;

    plain_free(u->plain);
    unheaded_free(u);
}

static void on_plain(void *arg, struct front_conn *conn)
{
    static const struct plain_fns fns = {.head = on_plain_head, .over = on_unheaded_over};
    struct server *s = arg;
    struct unheaded *u = xcalloc(1, sizeof *u);

    u->server = s;
    u->conn = conn;
    list_push_tail(&s->unheaded, &u->node);
    u->plain = plain_new(s->loop, conn->fd, conn->guard, s->max_message_bytes, &fns, u);
}

/* ---- Calls from gRPC ---- */

static void on_renewed(void *arg, const char *peer, const struct identity *who)
{
    struct server *s = arg;
    struct front_conn *c = front_find(s->front, peer);

    if (c)
        front_renew_peer(c, who);
}

void server_check_peers(struct server *s)
{
    if (!s || !s->tls)
        return;
    if (s->links)
        links_each_renewed(s->links, on_renewed, s);
    front_check_peers(s->front);
}

static void request_call(struct accept *a)
{
    struct server *s = a->server;

    a->call = NULL;
    grpc_call_details_init(&a->details);
    grpc_metadata_array_init(&a->metadata);
    server_hold(&s->calls);
    CHECK(grpc_server_request_call(s->server, &a->call, &a->details, &a->metadata, loop_cq(s->loop),
                                   loop_cq(s->loop), &a->tag) == GRPC_CALL_OK);
}

static void on_accept(void *arg, bool ok)
{
    struct accept *a = arg;
    struct server *s = a->server;

    if (ok) {
        const grpc_slice *path = &a->details.method;
        const grpc_slice *shown = net_metadata(&a->metadata, "authorization");
        char *peer = grpc_call_get_peer(a->call);
        struct asked asked = {.wire.call = a->call,
                              .conn = front_find(s->front, peer),
                              .path = {GRPC_SLICE_START_PTR(*path), GRPC_SLICE_LENGTH(*path)},
                              .metadata = &a->metadata};
        if (shown)
            asked.authorization = (struct span){GRPC_SLICE_START_PTR(*shown), GRPC_SLICE_LENGTH(*shown)};
        gpr_free(peer);
        dispatch_call(s, &asked);
    }
    grpc_call_details_destroy(&a->details);
    grpc_metadata_array_destroy(&a->metadata);
    if (ok) /* not ok: the server has shut down */
        request_call(a);
    server_let_go(&s->calls);
}

static void on_stopped(void *arg, bool ok)
{
    struct server *s = arg;

    server_let_go(&s->calls);
}

void server_start(struct server *s)
{
    CHECK(!s->started);
    s->started = true;
    grpc_server_start(s->server);
    for (int i = 0; i < ACCEPTS; i++) {
        struct accept *a = &s->accepts[i];
        a->server = s;
        cq_tag_init(&a->tag, on_accept, a);
        request_call(a);
    }
    front_start(s->front, s->server);
}

struct server_counts server_counts(const struct server *s)
{
    const struct front_counts front = front_counts(s->front);
    struct server_counts c = {.calls = s->calls.made,
                              .connections_delayed = front.delayed,
                              .connections_refused = front.refused,
                              .connections_untrusted = front.untrusted};

    memcpy(c.failed, s->calls.failed, sizeof c.failed);
    return c;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    s->calls.stopping = true;
    s->links = NULL;
}

void server_free(struct server *s)
{
    if (!s)
        return;
    server_stop(s);
    front_stop(s->front);
    if (!s->started) /* gRPC never completes the shutdown of a server that was not started */
        grpc_server_start(s->server);
    cq_tag_init(&s->stopped_tag, on_stopped, s);
    server_hold(&s->calls);
    grpc_server_shutdown_and_notify(s->server, loop_cq(s->loop), &s->stopped_tag);
    loop_drain(s->loop, &s->calls.released, loop_now(s->loop) + LAST_ANSWERS_US);
    grpc_server_cancel_all_calls(s->server);
    while (!list_empty(&s->unheaded)) {
        struct unheaded *u = container_of(s->unheaded.next, struct unheaded, node);
        on_unheaded_over(u, false);
    }
    server_calls_cancel_plain(&s->calls);
    /* gRPC reports the shutdown when the connections are gone. Calls of theirs may complete after that. */
    loop_drain(s->loop, &s->calls.released, TIME_NEVER);
    grpc_server_destroy(s->server);
    server_calls_free(&s->calls);
    front_free(s->front);
    for (unsigned i = 0; i < s->methods_n; i++)
        free(s->methods[i].path);
    free(s->methods);
    for (unsigned i = 0; i < s->addrs_n; i++)
        free(s->addrs[i]);
    free(s->addrs);
    free(s->token);
    free(s->node_token);
    free(s->no_links);
    free(s);
}
