/* Listening, and who gets which call. */
#include "net/server_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/link_accept.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Calls gRPC may hand over before we ask for more. */
#define ACCEPTS 16
/* How long the answers of a server that stops may take to reach its clients. */
#define LAST_ANSWERS_US (1 * US_PER_S)

struct accept {
    struct server *server;
    struct cq_tag tag;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

struct server {
    struct loop *loop;
    grpc_server *server;
    char *token;
    bool insecure, started;
    uint32_t max_calls;
    char **addrs;
    unsigned addrs_n, addrs_cap;
    struct links *links;
    char *no_links;                /* why there are none; NULL: this daemon never has any */
    struct server_method *methods; /* a dozen: looked through one by one */
    unsigned methods_n, methods_cap;
    struct server_calls calls;
    struct accept accepts[ACCEPTS];
    unsigned accepting; /* accepts gRPC has */
    struct cq_tag stopped_tag;
    bool stopped;
};

struct server *server_new(struct loop *l, const struct server_config *c)
{
    struct server *s = xcalloc(1, sizeof *s);
    grpc_arg v[NET_ARGS_MAX];
    grpc_channel_args args = {.args = v};

    s->loop = l;
    s->token = c->token ? xstrdup(c->token) : NULL;
    s->insecure = c->insecure;
    s->max_calls = c->max_calls ? c->max_calls : SERVER_MAX_CALLS;
    s->calls.loop = l;
    s->calls.bytes_max = c->max_reply_bytes ? c->max_reply_bytes : SERVER_REPLY_BYTES;
    list_init(&s->calls.all);
    args.num_args = net_args(v, c->max_message_bytes ? c->max_message_bytes : NET_MESSAGE_BYTES,
                             c->keepalive_ms ? (int)c->keepalive_ms : NET_KEEPALIVE_MS,
                             c->keepalive_ms ? (int)c->keepalive_ms : NET_KEEPALIVE_TIMEOUT_MS);
    v[args.num_args++] = (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ALLOW_REUSEPORT, .value.integer = 0};
    s->server = grpc_server_create(&args, NULL);
    CHECK(s->server);
    grpc_server_register_completion_queue(s->server, loop_cq(l), NULL);
    return s;
}

/* ---- Listening ---- */

/* gRPC takes the path of a live server's socket without a word, so that is asked first. */
static int check_unix(const char *addr, char *why, size_t size)
{
    const char *path = addr + strlen("unix:");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct stat st;
    int fd, rc, err;

    if (lstat(path, &st) != 0)
        return 0; /* nothing there, or a directory that is missing, which gRPC will find as well */
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(why, size, "%s exists and is no socket; choose another path or remove it", path);
        return HAWK_EEXISTS;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
    rc = connect(fd, (const struct sockaddr *)&sa, sizeof sa);
    err = errno;
    close(fd);
    if (rc == 0 || err == EAGAIN) {
        snprintf(why, size, "%s is in use by another process; stop that or choose another path", addr);
        return HAWK_EEXISTS;
    }
    if (err != ECONNREFUSED) {
        snprintf(why, size, "%s: %s", addr, strerror(err));
        return HAWK_EIO;
    }
    return 0;
}

/* gRPC only says that it failed; an attempt of our own tells why. */
static int explain_failure(const char *addr, char *why, size_t size)
{
    char host[ADDR_TEXT], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *a;
    int fd, err = EINVAL, one = 1;

    if (addr_is_unix(addr)) {
        snprintf(why, size, "cannot listen on %s: is its directory there, and writable?", addr);
        return HAWK_EIO;
    }
    snprintf(port, sizeof port, "%u", addr_port(addr));
    snprintf(host, sizeof host, "%.*s", (int)(strrchr(addr, ':') - addr), addr);
    if (host[0] == '[')
        snprintf(host, sizeof host, "%.*s", (int)(strrchr(addr, ']') - addr - 1), addr + 1);
    if (getaddrinfo(host, port, &hints, &a) == 0) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
                        bind(fd, a->ai_addr, a->ai_addrlen) == 0)) {
            /* Bound: it has become free in between, or only listening fails. */
            err = listen(fd, 1) == 0 ? EAGAIN : errno;
        } else {
            err = errno;
        }
        if (fd >= 0)
            close(fd);
        freeaddrinfo(a);
    }
    if (err == EADDRINUSE) {
        snprintf(why, size, "cannot listen on %s: the port is in use; stop who has it or choose another",
                 addr);
        return HAWK_EEXISTS;
    }
    snprintf(why, size, "cannot listen on %s: %s", addr, strerror(err));
    return HAWK_EIO;
}

int server_listen(struct server *s, const char *addr, char *why, size_t size)
{
    char numeric[ADDR_TEXT];
    grpc_server_credentials *creds;
    int err, port;

    CHECK(!s->started);
    if ((err = addr_check(addr, why, size)) != 0)
        return err;
    if (!s->token && !s->insecure && !addr_is_local(addr)) {
        snprintf(
            why, size,
            "%s can be reached from other machines: set a token for the cluster, or allow it with --insecure",
            addr);
        return HAWK_EDENIED;
    }
    if ((err = addr_resolve(addr, numeric, sizeof numeric, why, size)) != 0)
        return err;
    if (addr_is_unix(addr) && (err = check_unix(addr, why, size)) != 0)
        return err;
    creds = grpc_insecure_server_credentials_create();
    port = grpc_server_add_http2_port(s->server, numeric, creds); /* takes no "ipv4:" */
    grpc_server_credentials_release(creds);
    if (port <= 0)
        return explain_failure(numeric, why, size);
    if (!addr_is_unix(addr))
        addr_with_port(numeric, (uint16_t)port, numeric, sizeof numeric);
    vec_grow(s->addrs, s->addrs_n, s->addrs_cap);
    s->addrs[s->addrs_n++] = xstrdup(numeric);
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
    add_method(s, path, arg)->open = fn;
}

static const struct server_method *find_method(const struct server *s, grpc_slice path)
{
    for (unsigned i = 0; i < s->methods_n; i++)
        if (grpc_slice_str_cmp(path, s->methods[i].path) == 0)
            return &s->methods[i];
    return NULL;
}

static void refuse(struct server *s, grpc_call *call, grpc_status_code status, const char *text)
{
    rpc_fail(server_call_new(&s->calls, call, NULL), status, "%s", text);
}

static void dispatch_link(struct server *s, struct accept *a)
{
    grpc_status_code status;
    const char *why = links_refuse(s->links, &a->metadata, &status);

    if (why)
        refuse(s, a->call, status, why);
    else
        links_accept(s->links, a->call, &a->metadata);
}

static void dispatch(struct server *s, struct accept *a)
{
    grpc_slice path = a->details.method;
    const struct server_method *m = find_method(s, path);
    char text[256];

    if (s->calls.stopping) {
        refuse(s, a->call, GRPC_STATUS_UNAVAILABLE, SERVER_STOPPING_TEXT);
    } else if (s->token && !net_token_matches(&a->metadata, s->token)) {
        refuse(s, a->call, GRPC_STATUS_UNAUTHENTICATED, "the cluster's token is missing or wrong");
    } else if (s->links && grpc_slice_str_cmp(path, LINK_METHOD) == 0) {
        dispatch_link(s, a);
    } else if (s->no_links && grpc_slice_str_cmp(path, LINK_METHOD) == 0) {
        refuse(s, a->call, GRPC_STATUS_UNAVAILABLE, s->no_links);
    } else if (!m) {
        snprintf(text, sizeof text, "this daemon does not serve %.*s",
                 GRPC_SLICE_LENGTH(path) > 200 ? 200 : (int)GRPC_SLICE_LENGTH(path),
                 (const char *)GRPC_SLICE_START_PTR(path));
        refuse(s, a->call, GRPC_STATUS_UNIMPLEMENTED, text);
    } else if (s->calls.n >= s->max_calls) {
        snprintf(text, sizeof text, "this daemon has %u calls under way, its limit; try again later",
                 s->max_calls);
        refuse(s, a->call, GRPC_STATUS_RESOURCE_EXHAUSTED, text);
    } else if (server_calls_full(&s->calls)) {
        snprintf(text, sizeof text,
                 "clients of this daemon have not read %zu MiB of replies, its limit; read them, or try "
                 "again later",
                 s->calls.bytes_max >> 20);
        refuse(s, a->call, GRPC_STATUS_RESOURCE_EXHAUSTED, text);
    } else {
        server_call_new(&s->calls, a->call, m);
    }
}

static void request_call(struct accept *a)
{
    struct server *s = a->server;

    a->call = NULL;
    grpc_call_details_init(&a->details);
    grpc_metadata_array_init(&a->metadata);
    s->accepting++;
    CHECK(grpc_server_request_call(s->server, &a->call, &a->details, &a->metadata, loop_cq(s->loop),
                                   loop_cq(s->loop), &a->tag) == GRPC_CALL_OK);
}

static void on_accept(void *arg, bool ok)
{
    struct accept *a = arg;

    a->server->accepting--;
    if (ok)
        dispatch(a->server, a);
    grpc_call_details_destroy(&a->details);
    grpc_metadata_array_destroy(&a->metadata);
    if (ok) /* not ok: the server is shut down */
        request_call(a);
}

static void on_stopped(void *arg, bool ok)
{
    struct server *s = arg;

    (void)ok;
    s->stopped = true;
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
    if (!s->started) /* gRPC never ends the shutdown of a server that listens and was not started */
        grpc_server_start(s->server);
    cq_tag_init(&s->stopped_tag, on_stopped, s);
    grpc_server_shutdown_and_notify(s->server, loop_cq(s->loop), &s->stopped_tag);
    loop_drain(s->loop, &s->stopped, loop_now(s->loop) + LAST_ANSWERS_US);
    grpc_server_cancel_all_calls(s->server);
    loop_drain(s->loop, &s->stopped, TIME_NEVER);
    CHECK(s->accepting == 0);
    grpc_server_destroy(s->server);
    server_calls_free(&s->calls);
    for (unsigned i = 0; i < s->methods_n; i++)
        free(s->methods[i].path);
    free(s->methods);
    for (unsigned i = 0; i < s->addrs_n; i++)
        free(s->addrs[i]);
    free(s->addrs);
    free(s->token);
    free(s->no_links);
    free(s);
}
