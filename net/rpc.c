/* Calls that we make. Batches under way (r->ops): `start` (the request leaves), `receive` (one reply at a
 * time), one `write` at a time, and `status`. `done` comes when none is left. */
#include "net/rpc.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/core.h"
#include "net/identity.h"
#include "net/tls.h"
#include "net/token.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct channel {
    struct loop *loop;
    grpc_channel *channel;
    char *addr, *token;
    struct tls *tls;      /* NULL: none */
    const char *expected; /* with TLS */
    uint32_t material;    /* what tls had read when the channel was made */
    bool foreign;         /* to a server that is not ours, dialled once */
    struct list calls;    /* every struct rpc that may still call back */
};

struct rpc {
    struct list node;
    struct loop *loop;
    grpc_call *call;
    unsigned ops;
    bool dropped; /* rpc_cancel: no callback any more */
    struct rpc_fns fns;
    void *arg;
    struct cq_tag start_tag, receive_tag, status_tag, write_tag;
    bool stream;  /* rpc_open */
    bool ended;   /* rpc_write_end */
    bool writing; /* a message is on its way, or none can be sent any more */
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array metadata, trailing;
    grpc_status_code status;
    grpc_slice details;
};

static struct channel *channel_on(struct loop *l, const char *addr, grpc_channel *channel)
{
    struct channel *ch = xcalloc(1, sizeof *ch);

    ch->loop = l;
    ch->channel = channel;
    ch->addr = xstrdup(addr);
    list_init(&ch->calls);
    return ch;
}

/* Makes the gRPC channel with the certificate that there is now. */
static void dial(struct channel *ch)
{
    ch->channel = net_channel(ch->addr, &(struct net_dial){.keepalive_ms = NET_KEEPALIVE_MS,
                                                           .timeout_ms = NET_KEEPALIVE_TIMEOUT_MS,
                                                           .tls = ch->tls,
                                                           .expected = ch->expected,
                                                           .now_us = loop_now(ch->loop)});
    ch->material = ch->tls ? tls_material(ch->tls) : 0;
}

/* gRPC answers a call at once by how it failed to connect a while ago, until it tries again by itself. */
static bool has_failed(const struct channel *ch)
{
    return grpc_channel_check_connectivity_state(ch->channel, 0) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

static bool has_new_material(const struct channel *ch)
{
    if (!ch->tls)
        return false;
    tls_refresh(ch->tls, loop_now(ch->loop));
    return tls_material(ch->tls) != ch->material;
}

/* A channel without calls uses a new certificate from its next call on: programs may outlive the old one. And it
 * connects anew where it could not: the server may be back. */
static void renew(struct channel *ch)
{
    if (ch->foreign || !list_empty(&ch->calls) || !(has_new_material(ch) || has_failed(ch)))
        return;
    grpc_channel_destroy(ch->channel);
    dial(ch);
}

struct channel *channel_new_tls(struct loop *l, const char *addr, const char *token, struct tls *tls,
                                enum role role)
{
    struct channel *ch = channel_on(l, addr, NULL);
    char why[128];

    ch->tls = tls;
    ch->expected = identity_of_role(role);
    dial(ch);
    if (token && token_check(token, strlen(token), why, sizeof why) == 0)
        ch->token = xstrdup(token);
    return ch;
}

struct channel *channel_new(struct loop *l, const char *addr, const char *token)
{
    return channel_new_tls(l, addr, token, NULL, ROLE_NONE);
}

struct channel *channel_new_foreign(struct loop *l, const char *addr, const struct tls_files *files,
                                    char *why, size_t size)
{
    struct net_dial d = {
        .own_connection = true, .keepalive_ms = INT_MAX, .timeout_ms = NET_KEEPALIVE_TIMEOUT_MS};
    char wrong[TLS_WHY];
    struct channel *ch;

    if (files && !(d.foreign = tls_foreign(files, wrong))) {
        snprintf(why, size, "%s", wrong);
        return NULL;
    }
    ch = channel_on(l, addr, net_channel(addr, &d));
    ch->foreign = true;
    if (d.foreign)
        grpc_channel_credentials_release(d.foreign);
    return ch;
}

void channel_free(struct channel *ch)
{
    if (!ch)
        return;
    list_foreach(&ch->calls, n, next)
        rpc_cancel(container_of(n, struct rpc, node));
    grpc_channel_destroy(ch->channel);
    free(ch->addr);
    free(ch->token);
    free(ch);
}

const char *channel_addr(const struct channel *ch) { return ch->addr; }

static void rpc_over(struct rpc *r)
{
    char *text;

    if (!r->dropped) {
        text = net_status_text(r->details);
        list_remove(&r->node);
        r->dropped = true;
        if (r->fns.done)
            r->fns.done(r->arg, r->status, text);
        free(text);
    }
    grpc_call_unref(r->call);
    grpc_metadata_array_destroy(&r->metadata);
    grpc_metadata_array_destroy(&r->trailing);
    grpc_slice_unref(r->details);
    free(r);
}

static void op_done(struct rpc *r)
{
    CHECK(r->ops > 0);
    if (--r->ops == 0)
        rpc_over(r);
}

/* Does not look at ok: the status says what went wrong. */
static void on_started(void *arg, bool ok)
{
    struct rpc *r = arg;

    if (!r->stream)
        grpc_byte_buffer_destroy(r->request);
    op_done(r);
}

static void on_written(void *arg, bool ok)
{
    struct rpc *r = arg;

    if (r->request)
        grpc_byte_buffer_destroy(r->request);
    r->request = NULL;
    r->writing = !ok || r->ended;
    if (!r->writing && !r->dropped && r->fns.sent)
        r->fns.sent(r->arg);
    op_done(r);
}

static void on_status(void *arg, bool ok) { op_done(arg); }

static void on_reply(void *arg, bool ok)
{
    struct rpc *r = arg;
    grpc_byte_buffer *reply = r->reply;
    struct net_bytes b;

    r->reply = NULL;
    if (reply) {
        if (ok && !r->dropped && r->fns.reply && net_bytes_get(&b, reply) == 0) {
            r->fns.reply(r->arg, b.data, b.len);
            net_bytes_free(&b);
        }
        grpc_byte_buffer_destroy(reply);
        if (ok && !r->dropped) { /* the loop may be closing and take no more */
            r->ops++;
            net_receive(r->loop, r->call, &r->reply, &r->receive_tag);
        }
    }
    op_done(r);
}

static gpr_timespec deadline_in(int64_t us)
{
    if (us == TIME_NEVER)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}

static void start_batches(struct rpc *r, const char *token, bool wait_for_ready)
{
    grpc_op send[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                       {.op = GRPC_OP_SEND_MESSAGE},
                       {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}};
    grpc_op receive[2] = {{.op = GRPC_OP_RECV_INITIAL_METADATA}, {.op = GRPC_OP_RECV_MESSAGE}};
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    grpc_metadata md;

    if (token) {
        md = net_token_new(token);
        send[0].data.send_initial_metadata.metadata = &md;
        send[0].data.send_initial_metadata.count = 1;
    }
    send[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    if (wait_for_ready)
        send[0].flags |= GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    send[1].data.send_message.send_message = r->request;
    receive[0].data.recv_initial_metadata.recv_initial_metadata = &r->metadata;
    receive[1].data.recv_message.recv_message = &r->reply;
    status.data.recv_status_on_client.trailing_metadata = &r->trailing;
    status.data.recv_status_on_client.status = &r->status;
    status.data.recv_status_on_client.status_details = &r->details;
    r->ops = 3;
    net_batch(r->call, &status, 1, &r->status_tag);
    net_batch(r->call, send, r->stream ? 1 : 3, &r->start_tag);
    net_batch(r->call, receive, 2, &r->receive_tag);
    if (token)
        net_metadata_drop(&md, 1);
}

static struct rpc *rpc_new(struct channel *ch, const char *method, int64_t timeout_us,
                           const struct rpc_fns *fns, void *arg)
{
    struct rpc *r = xcalloc(1, sizeof *r);
    grpc_slice path = grpc_slice_from_copied_string(method);

    renew(ch);
    r->loop = ch->loop;
    r->fns = *fns;
    r->arg = arg;
    r->details = grpc_empty_slice();
    grpc_metadata_array_init(&r->metadata);
    grpc_metadata_array_init(&r->trailing);
    list_push_tail(&ch->calls, &r->node);
    cq_tag_init(&r->start_tag, on_started, r);
    cq_tag_init(&r->receive_tag, on_reply, r);
    cq_tag_init(&r->status_tag, on_status, r);
    cq_tag_init(&r->write_tag, on_written, r);
    r->call = grpc_channel_create_call(ch->channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop_cq(ch->loop), path,
                                       NULL, deadline_in(timeout_us), NULL);
    grpc_slice_unref(path);
    return r;
}

struct rpc *rpc_start(struct channel *ch, const char *method, const void *request, size_t len,
                      int64_t timeout_us, bool wait_for_ready, const struct rpc_fns *fns, void *arg)
{
    struct rpc *r = rpc_new(ch, method, timeout_us, fns, arg);

    r->request = net_message(request, len);
    start_batches(r, ch->token, wait_for_ready);
    return r;
}

struct rpc *rpc_open(struct channel *ch, const char *method, const struct rpc_fns *fns, void *arg)
{
    struct rpc *r = rpc_new(ch, method, TIME_NEVER, fns, arg);

    r->stream = true;
    start_batches(r, ch->token, false);
    return r;
}

bool rpc_writable(const struct rpc *r) { return !r->writing && !r->dropped; }

void rpc_write(struct rpc *r, const void *data, size_t len)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};

    CHECK(r->stream && rpc_writable(r));
    r->writing = true;
    r->request = net_message(data, len);
    op.data.send_message.send_message = r->request;
    r->ops++;
    net_batch(r->call, &op, 1, &r->write_tag);
}

void rpc_write_end(struct rpc *r)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

    CHECK(r->stream && rpc_writable(r));
    r->writing = true;
    r->ended = true;
    r->ops++;
    net_batch(r->call, &op, 1, &r->write_tag);
}

void rpc_cancel(struct rpc *r)
{
    if (r->dropped)
        return; /* from within `done` */
    r->dropped = true;
    list_remove(&r->node);
    grpc_call_cancel(r->call, NULL);
}

/* ---- One unary call, waiting for it ---- */

struct sync_call {
    bool done, replied;
    uint8_t *reply;
    size_t len;
    grpc_status_code status;
    char *text;
};

static void sync_reply(void *arg, const uint8_t *data, size_t len)
{
    struct sync_call *s = arg;

    free(s->reply);
    s->reply = xmalloc(len ? len : 1);
    memcpy(s->reply, data, len);
    s->len = len;
    s->replied = true;
}

static void sync_done(void *arg, grpc_status_code status, const char *text)
{
    struct sync_call *s = arg;

    s->done = true;
    s->status = status;
    s->text = xstrdup(text);
}

int rpc_call_sync(struct loop *l, struct channel *ch, const char *method, const void *request, size_t len,
                  int64_t timeout_us, bool wait_for_ready, uint8_t **reply, size_t *reply_len,
                  grpc_status_code *status, char **text)
{
    static const struct rpc_fns fns = {.reply = sync_reply, .done = sync_done};
    struct sync_call s = {0};

    rpc_start(ch, method, request, len, timeout_us, wait_for_ready, &fns, &s);
    while (!s.done)
        loop_once(l, TIME_NEVER);
    if (s.status == GRPC_STATUS_OK && !s.replied) {
        s.status = GRPC_STATUS_INTERNAL;
        free(s.text);
        s.text = xstrdup("the server sent no reply");
    }
    if (reply && s.status == GRPC_STATUS_OK) {
        *reply = s.reply;
        *reply_len = s.len;
        s.reply = NULL;
    } else if (reply) {
        *reply = NULL;
        *reply_len = 0;
    }
    free(s.reply);
    if (status)
        *status = s.status;
    if (text)
        *text = s.text;
    else
        free(s.text);
    return rpc_status_to_err(s.status);
}

/* ---- Statuses and error codes ---- */

/* A status or an error becomes what its first line says. */
static const struct {
    grpc_status_code status;
    int err;
} statuses[] = {
    {GRPC_STATUS_OK, 0},
    {GRPC_STATUS_UNAVAILABLE, HAWK_EUNAVAILABLE},
    {GRPC_STATUS_UNAVAILABLE, HAWK_ESHUTDOWN},
    {GRPC_STATUS_UNAVAILABLE, HAWK_EDRAINING},
    {GRPC_STATUS_UNAVAILABLE, HAWK_ENOT_REGISTERED},
    {GRPC_STATUS_INVALID_ARGUMENT, HAWK_EINVALID},
    {GRPC_STATUS_INVALID_ARGUMENT, HAWK_EMALFORMED},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, HAWK_ELIMIT},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, HAWK_ETOO_LARGE},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, HAWK_ENOMEM},
    {GRPC_STATUS_NOT_FOUND, HAWK_ENOT_FOUND},
    {GRPC_STATUS_ALREADY_EXISTS, HAWK_EEXISTS},
    {GRPC_STATUS_ALREADY_EXISTS, HAWK_ENAME_TAKEN},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_EBUSY},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_ENO_WORKERS},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_ENO_GENERAL},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_EVERSION},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_ENOT_OWNER},
    {GRPC_STATUS_FAILED_PRECONDITION, HAWK_ESTALE},
    {GRPC_STATUS_PERMISSION_DENIED, HAWK_EDENIED},
    {GRPC_STATUS_UNAUTHENTICATED, HAWK_EDENIED}, /* net/server.c answers with it */
    {GRPC_STATUS_CANCELLED, HAWK_ECANCELLED},
    {GRPC_STATUS_DEADLINE_EXCEEDED, HAWK_ETIMEOUT},
    {GRPC_STATUS_UNIMPLEMENTED, HAWK_EUNSUPPORTED},
    {GRPC_STATUS_DATA_LOSS, HAWK_ECORRUPT},
    {GRPC_STATUS_INTERNAL, HAWK_EIO},
};
#define STATUSES (sizeof statuses / sizeof statuses[0])

bool rpc_hung_up(const char *reason)
{
    return strstr(reason, "closed") || strstr(reason, "reset") || strstr(reason, "Endpoint read");
}

const char *rpc_connect_reason(const char *text)
{
    const char *reason = NULL;

    if (strncmp(text, "unix:", 5) != 0 && !strstr(text, NET_UNREACHED) &&
        !strstr(text, "DNS resolution failed"))
        return NULL;
    for (const char *p = text; (p = strstr(p, ": ")); p += 2)
        reason = p + 2;
    return reason;
}

int rpc_status_to_err(grpc_status_code status)
{
    for (size_t i = 0; i < STATUSES; i++)
        if (statuses[i].status == status)
            return statuses[i].err;
    return HAWK_EIO;
}

grpc_status_code rpc_err_to_status(int err)
{
    for (size_t i = 0; i < STATUSES; i++)
        if (statuses[i].err == err)
            return statuses[i].status;
    return GRPC_STATUS_INTERNAL;
}
