/* One call of a client's: its request, its replies, its end.
 *
 * Batches under way (c->ops): one `receive` at a time (the request, or the next message), `over` (the call
 * has ended on the wire, in order or not), and one `send` at a time. The struct is freed when its handler
 * has ended the call and no batch is under way. A plain stream (plain.h) does the same in place of batches. */
#include "net/server_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/log_kind.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define STATUS_TEXT                                                                                          \
    1024 /* clients refuse headers beyond 8 kB, and the text may be escaped to three times its size */

struct rpc_call {
    struct list node;
    struct server_calls *server;
    grpc_call *call; /* NULL once the call is over on the wire; and of a plain stream */
    struct plain *plain;
    unsigned ops;
    bool ended;     /* by its handler */
    bool over;      /* on the wire */
    bool cancelled; /* the client has gone */
    struct cq_tag receive_tag, over_tag, send_tag;
    int over_cancelled;
    grpc_byte_buffer *request;
    struct server_method method; /* all zero: the call is refused */
    struct front_conn *conn;     /* NULL: the connection was gone when the call came */
    bool waiting;                /* only headers have come from the client */

    /* of a stream from the client */
    void (*on_message)(void *arg, struct rpc_call *c, const uint8_t *data, size_t len);
    void *message_arg;
    bool receiving, on_hold, all_received;

    void (*on_cancelled)(void *arg, struct rpc_call *c);
    void (*on_writable)(void *arg, struct rpc_call *c);
    void *watch_arg;

    bool metadata_sent, sending, refused; /* refused: an rpc_send was, since the queue was last empty */
    grpc_byte_buffer **queue;
    uint32_t queue_first, queue_n, queue_cap;
    size_t queue_bytes;
    grpc_byte_buffer *sent;
    size_t sent_bytes;
    bool have_status, status_sent;
    grpc_status_code status;
    grpc_slice details;
    char *audit;                    /* NULL: the call changes nothing */
    struct log_kind *refused_lines; /* NULL: its line has no limit */
};

/* ---- Replies that clients have not read ---- */

static void wait_to_leave(struct rpc_call *c, size_t bytes)
{
    c->server->bytes += bytes;
    if (c->conn)
        front_reply_waits(c->conn, bytes);
}

static void wait_no_more(struct rpc_call *c, size_t bytes)
{
    c->server->bytes -= bytes;
    if (c->conn && bytes > 0)
        front_reply_left(c->conn, bytes);
}

bool server_replies_full(const struct server_calls *s, const struct front_conn *conn, char *text, size_t size)
{
    const size_t theirs = conn ? front_load(conn).unread : s->bytes;

    if (s->bytes <= s->bytes_max || theirs <= s->bytes_max / SERVER_REPLY_SHARE)
        return false;
    snprintf(
        text, size,
        "clients of this daemon have not read %zu MiB of replies, its limit, and %zu MiB of them are your "
        "address's; read them, or try again later",
        s->bytes_max >> 20, theirs >> 20);
    return true;
}

static void drop_queue(struct rpc_call *c)
{
    while (c->queue_first < c->queue_n)
        grpc_byte_buffer_destroy(c->queue[c->queue_first++]);
    c->queue_first = c->queue_n = 0;
    wait_no_more(c, c->queue_bytes);
    c->queue_bytes = 0;
}

static void wire_free(struct rpc_call *c)
{
    if (c->plain)
        plain_free(c->plain);
    c->plain = NULL;
    if (!c->call)
        return;
    grpc_call_unref(c->call);
    c->call = NULL;
    server_let_go(c->server);
}

/* The client has sent something, or never will. */
static void waits_no_more(struct rpc_call *c, bool came)
{
    if (!c->waiting)
        return;
    c->waiting = false;
    c->conn->waiting--;
    if (came)
        front_prove(c->conn);
}

static void conn_enter(struct rpc_call *c)
{
    if (!c->conn)
        return;
    c->conn->refs++;
    if (!c->method.request && !c->method.open)
        return;
    c->waiting = true;
    c->conn->waiting++;
    c->conn->calls++;
    c->conn->limited += c->method.per_connection > 0;
    front_call_began(c->conn, c->method.lasting);
}

static void conn_leave(struct rpc_call *c)
{
    if (!c->conn)
        return;
    waits_no_more(c, false);
    if (c->method.request || c->method.open) {
        c->conn->calls--;
        c->conn->limited -= c->method.per_connection > 0;
        front_call_ended(c->conn, c->method.lasting);
    }
    front_unref(c->conn);
}

static void call_free(struct rpc_call *c)
{
    wire_free(c);
    drop_queue(c);
    list_remove(&c->node);
    if (c->method.request || c->method.open)
        c->server->n--;
    c->server->lasting -= c->method.lasting;
    conn_leave(c);
    grpc_slice_unref(c->details);
    free(c->queue);
    free(c->audit);
    free(c);
}

/* Frees the call on the wire as soon as possible, so that a server can stop while handlers hold calls. */
static void maybe_free(struct rpc_call *c)
{
    if (c->ops || !c->over)
        return;
    if (c->ended)
        call_free(c);
    else
        wire_free(c);
}

static void op_done(struct rpc_call *c)
{
    CHECK(c->ops > 0);
    c->ops--;
    maybe_free(c);
}

/* ---- Sending ---- */

/* The first message of the queue becomes the one that is sent. */
static void take_first(struct rpc_call *c)
{
    if (c->queue_first == c->queue_n)
        return;
    c->sent = c->queue[c->queue_first++];
    c->sent_bytes = grpc_byte_buffer_length(c->sent); /* gRPC takes the content away */
    c->queue_bytes -= c->sent_bytes;
    if (c->queue_first == c->queue_n)
        c->queue_first = c->queue_n = 0;
}

static void drop_sent(struct rpc_call *c)
{
    if (c->sent)
        grpc_byte_buffer_destroy(c->sent);
    c->sent = NULL;
    wait_no_more(c, c->sent_bytes);
    c->sent_bytes = 0;
}

static bool send_message_plain(struct rpc_call *c)
{
    struct net_bytes b;
    bool left;

    CHECK(net_bytes_get(&b, c->sent) == 0);
    left = plain_send(c->plain, b.data, b.len);
    net_bytes_free(&b);
    return left;
}

/* As much as the client takes. */
static void send_plain(struct rpc_call *c)
{
    while (!c->sending && !c->over && !c->status_sent) {
        take_first(c);
        if (c->sent) {
            c->sending = !send_message_plain(c);
        } else if (c->have_status) {
            c->status_sent = true;
            (void)plain_end(c->plain, c->status, (const char *)GRPC_SLICE_START_PTR(c->details),
                            GRPC_SLICE_LENGTH(c->details));
        } else {
            return;
        }
        if (!c->sending)
            drop_sent(c);
    }
}

static void send_next(struct rpc_call *c)
{
    grpc_op ops[3] = {0};
    size_t n = 0;

    if (c->plain) {
        send_plain(c);
        return;
    }
    if (c->sending || c->over || c->status_sent)
        return;
    take_first(c);
    if (!c->metadata_sent && (c->sent || c->have_status)) {
        c->metadata_sent = true;
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    }
    if (c->sent) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = c->sent;
    }
    if (c->have_status && c->queue_n == 0) {
        c->status_sent = true;
        ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        ops[n].data.send_status_from_server.status = c->status;
        ops[n++].data.send_status_from_server.status_details = &c->details;
    }
    if (n == 0)
        return;
    c->sending = true;
    c->ops++;
    net_batch(c->call, ops, n, &c->send_tag);
}

static void on_sent(void *arg, bool ok)
{
    struct rpc_call *c = arg;

    c->sending = false;
    drop_sent(c);
    if (ok)
        send_next(c);
    if (ok && c->refused && c->queue_n == 0 && !c->ended && !c->cancelled) {
        c->refused = false;
        if (c->on_writable)
            c->on_writable(c->watch_arg, c);
    }
    op_done(c);
}

static void push_message(struct rpc_call *c, const void *data, size_t len)
{
    vec_grow(c->queue, c->queue_n, c->queue_cap);
    c->queue[c->queue_n++] = net_message(data, len);
    c->queue_bytes += len;
    wait_to_leave(c, len);
}

void rpc_audit(struct rpc_call *c, const char *fmt, ...)
{
    va_list ap;

    free(c->audit);
    va_start(ap, fmt);
    CHECK(vasprintf(&c->audit, fmt, ap) >= 0);
    va_end(ap);
}

void rpc_audit_among(struct rpc_call *c, struct log_kind *refused) { c->refused_lines = refused; }

void rpc_audit_now(const struct rpc_call *c, const char *what, const char *answer)
{
    char who[CALLER_TEXT];

    log_audit("audit: %s, from %s: %s: %s", caller_text(rpc_caller(c), who), rpc_peer(c), what, answer);
}

static bool may_say_refused(const struct rpc_call *c)
{
    struct log_kind *k = c->refused_lines;

    return !k || log_kind_may(k, k->what, loop_now(c->server->loop));
}

static void end_call(struct rpc_call *c, grpc_status_code status, const char *text)
{
    CHECK(!c->ended);
    c->ended = true;
    if (status != GRPC_STATUS_OK && (unsigned)status < SERVER_CODES)
        c->server->failed[status]++;
    if (c->audit && (status == GRPC_STATUS_OK || may_say_refused(c)))
        rpc_audit_now(c, c->audit, status == GRPC_STATUS_OK ? "done" : text);
    c->have_status = true;
    c->status = status;
    c->details = grpc_slice_from_copied_string(text);
    send_next(c);
    maybe_free(c);
}

void rpc_reply(struct rpc_call *c, const void *data, size_t len)
{
    if (!c->over)
        push_message(c, data, len);
    end_call(c, GRPC_STATUS_OK, "");
}

void rpc_fail(struct rpc_call *c, grpc_status_code status, const char *fmt, ...)
{
    char text[STATUS_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    end_call(c, status, text);
}

int rpc_send(struct rpc_call *c, const void *data, size_t len)
{
    CHECK(!c->ended);
    if (c->cancelled || c->over)
        return HAWK_ECANCELLED;
    /* Streams share one half, so that clients that read nothing do not keep the server from answering
     * others. Beyond it each stream may still have one message under way. */
    if (c->queue_bytes > RPC_QUEUE_BYTES || (c->sent && c->server->bytes > c->server->bytes_max / 2)) {
        c->refused = true;
        return HAWK_ELIMIT;
    }
    push_message(c, data, len);
    send_next(c);
    return 0;
}

void rpc_finish(struct rpc_call *c) { end_call(c, GRPC_STATUS_OK, ""); }

void rpc_watch(struct rpc_call *c, void (*cancelled)(void *arg, struct rpc_call *c),
               void (*writable)(void *arg, struct rpc_call *c), void *arg)
{
    c->on_cancelled = cancelled;
    c->on_writable = writable;
    c->watch_arg = arg;
}

bool rpc_idle(struct rpc_call *c)
{
    if (!c->sending && c->queue_n == 0)
        return true;
    c->refused = true;
    return false;
}

const char *rpc_peer(const struct rpc_call *c) { return c->conn ? c->conn->peer : "a client that has gone"; }

const struct caller *rpc_caller(const struct rpc_call *c)
{
    static const struct caller gone = {.uid = CALLER_NO_UID};

    return c->conn ? front_caller(c->conn) : &gone;
}

const struct identity *rpc_identity(const struct rpc_call *c) { return c->conn ? front_peer(c->conn) : NULL; }

void rpc_distrust(struct rpc_call *c, const char *what)
{
    if (c->conn)
        front_failed(c->conn, what);
}

/* ---- Receiving ---- */

static void receive_message(struct rpc_call *c)
{
    c->receiving = true;
    if (c->plain) {
        plain_want(c->plain);
        return;
    }
    c->ops++;
    net_receive(c->server->loop, c->call, &c->request, &c->receive_tag);
}

/* The client of a call that lasts has sent something after its request, or nothing any more. */
static void on_surplus(void *arg, bool ok)
{
    struct rpc_call *c = arg;

    if (c->request) {
        grpc_byte_buffer_destroy(c->request);
        c->request = NULL;
        if (ok && !c->over)
            grpc_call_cancel_with_status(c->call, GRPC_STATUS_INVALID_ARGUMENT, "the call takes one request",
                                         NULL);
    }
    op_done(c);
}

/* What nobody reads would wait in gRPC as long as the call lasts, a window of it for each stream. */
static void expect_no_more(struct rpc_call *c)
{
    if (!c->method.lasting || c->ended || c->over)
        return;
    cq_tag_init(&c->receive_tag, on_surplus, c);
    receive_message(c);
}

static void on_request(void *arg, bool ok)
{
    struct rpc_call *c = arg;
    grpc_byte_buffer *request = c->request;
    char text[STATUS_TEXT];
    struct net_bytes b;

    c->request = NULL;
    waits_no_more(c, request);
    if (!ok || !request) {
        /* There is no message, or one beyond the limit (gRPC then answers by itself), or the client has
         * gone. */
        rpc_fail(c, GRPC_STATUS_INVALID_ARGUMENT, "the call carries no request");
    } else if (c->cancelled) {
        rpc_finish(c);
    } else if (c->server->stopping) {
        rpc_fail(c, GRPC_STATUS_UNAVAILABLE, SERVER_STOPPING_TEXT);
    } else if (server_replies_full(c->server, c->conn, text, sizeof text)) {
        rpc_fail(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "%s",
                 text); /* many calls may have come before it was so */
    } else if (net_bytes_get(&b, request) != 0) {
        rpc_fail(c, GRPC_STATUS_INVALID_ARGUMENT, "the request cannot be read");
    } else {
        c->method.request(c->method.arg, c, b.data, b.len);
        net_bytes_free(&b);
    }
    if (request)
        grpc_byte_buffer_destroy(request);
    expect_no_more(c);
    op_done(c); /* NOLINT: until here c->ops is not 0, so c outlives whatever its handler does */
}

/* Delivers a message. The handler keeps the call until it hears that it is over. A message that cannot be
 * read ends the call on the wire, as gRPC does with one that it cannot decompress. The handler then hears
 * the same as when the client has gone. */
static void deliver_message(struct rpc_call *c, grpc_byte_buffer *message)
{
    struct net_bytes b;

    if (!message) {
        c->on_message(c->message_arg, c, NULL, 0);
    } else if (net_bytes_get(&b, message) != 0) {
        c->all_received = true;
        grpc_call_cancel_with_status(c->call, GRPC_STATUS_INVALID_ARGUMENT,
                                     "a message of the client's cannot be read", NULL);
    } else {
        c->on_message(c->message_arg, c, b.data, b.len);
        net_bytes_free(&b);
    }
}

static void on_message(void *arg, bool ok)
{
    struct rpc_call *c = arg;
    grpc_byte_buffer *message = ok ? c->request : NULL;

    c->request = NULL;
    waits_no_more(c, message);
    c->receiving = false;
    c->all_received = !message;
    if (!c->ended && !c->cancelled && !c->over)
        deliver_message(c, message);
    if (message)
        grpc_byte_buffer_destroy(message);
    if (!c->all_received && !c->receiving && !c->ended && !c->over && !c->on_hold)
        receive_message(c);
    op_done(c); /* NOLINT: until here c->ops is not 0, so c outlives whatever its handler does */
}

void rpc_receive(struct rpc_call *c,
                 void (*message)(void *arg, struct rpc_call *c, const uint8_t *data, size_t len), void *arg)
{
    CHECK(c->method.open && !c->on_message);
    c->on_message = message;
    c->message_arg = arg;
    receive_message(c);
}

void rpc_hold(struct rpc_call *c, bool hold)
{
    c->on_hold = hold;
    if (!hold && c->on_message && !c->receiving && !c->all_received && !c->ended && !c->over)
        receive_message(c);
}

static void on_over(void *arg, bool ok)
{
    struct rpc_call *c = arg;

    c->over = true;
    waits_no_more(c, false);
    if (c->over_cancelled) {
        c->cancelled = true;
        drop_queue(c);
        /* Before the request has come, no handler knows of the call. */
        if (!c->ended && c->on_cancelled)
            c->on_cancelled(c->watch_arg, c);
    }
    op_done(c);
}

/* ---- A plain stream in gRPC's place. The call has one operation under way until the stream is over. ---- */

static void on_plain_message(void *arg, const uint8_t *data, size_t len)
{
    struct rpc_call *c = arg;

    c->ops++;
    waits_no_more(c, true);
    c->receiving = false;
    if (!c->ended)
        c->on_message(c->message_arg, c, data, len);
    if (!c->receiving && !c->ended && !c->over && !c->on_hold)
        receive_message(c);
    op_done(c); /* NOLINT: until here c->ops is not 0, so c outlives whatever its handler does */
}

static void on_plain_sent(void *arg)
{
    struct rpc_call *c = arg;

    c->ops++;
    on_sent(c, true);
}

static void on_plain_over(void *arg, bool in_order)
{
    struct rpc_call *c = arg;

    c->over_cancelled = !in_order;
    c->sending = false;
    drop_sent(c);
    on_over(c, true);
}

static void bind_plain(struct rpc_call *c)
{
    static const struct plain_fns fns = {
        .message = on_plain_message, .sent = on_plain_sent, .over = on_plain_over};

    c->ops++;
    plain_bind(c->plain, &fns, c);
}

void server_calls_cancel_plain(struct server_calls *s)
{
    list_foreach(&s->all, n, next) {
        struct rpc_call *c = container_of(n, struct rpc_call, node);
        if (c->plain && !c->over)
            on_plain_over(c, false);
    }
}

static void bind_grpc(struct rpc_call *c, bool stream)
{
    grpc_op over = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};

    server_hold(c->server);
    cq_tag_init(&c->over_tag, on_over, c);
    cq_tag_init(&c->receive_tag, stream ? on_message : on_request, c);
    cq_tag_init(&c->send_tag, on_sent, c);
    over.data.recv_close_on_server.cancelled = &c->over_cancelled;
    c->ops++;
    net_batch(c->call, &over, 1, &c->over_tag);
}

struct rpc_call *server_call_new(struct server_calls *s, struct server_wire wire,
                                 const struct server_method *m, struct front_conn *conn)
{
    struct rpc_call *c = xcalloc(1, sizeof *c);

    c->server = s;
    c->call = wire.call;
    c->plain = wire.plain;
    if (m)
        c->method = *m;
    c->conn = conn;
    conn_enter(c);
    c->details = grpc_empty_slice();
    list_push_tail(&s->all, &c->node);
    s->made++;
    if (m)
        s->n++;
    s->lasting += c->method.lasting;
    if (c->plain)
        bind_plain(c);
    else
        bind_grpc(c, m && m->open);
    if (m && m->request)
        receive_message(c);
    else if (m && m->open)
        m->open(m->arg, c);
    return c;
}

void server_calls_free(struct server_calls *s)
{
    list_foreach(&s->all, n, next)
        call_free(container_of(n, struct rpc_call, node));
}
