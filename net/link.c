/* Links. One struct link is an accepted stream, or a dialled address with its present stream.
 *
 * A stream has these batches: open (metadata in both directions); one receive and one send at a time; and,
 * when nothing more is received, end (the final status; on the accepting side, that the call is over).
 * k->ops counts the batches under way. A stream is over, and its call freed, when `end` has come and no
 * batch is left.
 *
 * A stream starts `end` only after the last receive. Whatever ends a stream, also when it is cancelled or
 * lost, ends its receive, too. Debian's libgrpc goes through all outstanding batches on the queue for
 * every completion, so there should be few. */
#include "net/link_impl.h"

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/identity.h"
#include "net/rpc.h"
#include "net/server.h"
#include "net/tls.h"
#include "net/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_US (1 * US_PER_S) /* time for pending messages when a link is closed */

static void receive_batch(struct link *k);
static void ask_end(struct link *k);
static void stream_over(struct link *k);
static void dial_now(struct link *k);

/* ---- Receiving ---- */

static bool deliver_envelope(void *arg, const struct msg *m)
{
    struct link *k = arg;

    if (!msg_in_version(m->type, k->version)) /* the peer's version does not know this message */
        return true;
    k->ls->fns.msg(k->ls->arg, k, m);
    return k->state == LINK_UP;
}

static void handle_batch(struct link *k)
{
    struct net_bytes b;
    int err = net_bytes_get(&b, k->received);

    k->ls->counters.messages_received++;
    if (!err)
        err = codec_decode(b.data, b.len, deliver_envelope, k, &k->report);
    net_bytes_free(&b);
    if (err && k->state == LINK_UP)
        link_blame(k, HAWK_EMALFORMED, k->report.why, "sent a malformed message: %s", k->report.why);
}

static void on_received(void *arg, bool ok)
{
    struct link *k = arg;
    bool more = ok && k->received;

    if (k->received) {
        if (ok && k->state == LINK_UP)
            handle_batch(k);
        grpc_byte_buffer_destroy(k->received);
        k->received = NULL;
    }
    if (more)
        receive_batch(k);
    else
        ask_end(k);
    if (!more && !link_is_dialled(k) && k->state != LINK_BROKEN) {
        /* The dialling side has closed in order, or has gone. The call is over only when we end it, too. */
        if (k->state == LINK_UP)
            k->state = LINK_BROKEN;
        k->peer_closed = true;
        link_drop_pending(k);
        link_want_flush(k);
        loop_timer_set(k->ls->loop, &k->timer, loop_now(k->ls->loop) + CLOSE_US);
    }
    link_op_done(k);
}

static void receive_batch(struct link *k)
{
    k->ops++;
    net_receive(k->ls->loop, k->call, &k->received, &k->receive_tag);
}

/* ---- The life of a stream ---- */

void link_op_done(struct link *k)
{
    CHECK(k->ops > 0);
    if (--k->ops == 0 && k->ended)
        stream_over(k);
}

/* For batches whose success does not matter: the stream's end says why one failed. */
static void on_done(void *arg, bool ok) { link_op_done(arg); }

static void stream_init(struct link *k, grpc_call *call)
{
    k->call = call;
    k->ops = 0;
    k->renewed = false;
    k->shown = k->ls->tls ? tls_material(k->ls->tls) : 0;
    k->ended = k->sending = k->half_closed = k->peer_closed = false;
    k->cancelled = 0;
    k->status = GRPC_STATUS_OK;
    k->details = grpc_empty_slice();
    k->err = 0;
    k->error[0] = '\0';
    grpc_metadata_array_init(&k->metadata);
    grpc_metadata_array_init(&k->trailing);
}

static void went_up(struct link *k)
{
    struct links *ls = k->ls;

    k->state = LINK_UP;
    k->up_us = loop_now(ls->loop);
    loop_timer_clear(ls->loop, &k->timer);
    if (k->complained && !k->unwelcome) {
        log_info("%s at %s can be reached again", k->what, k->addr);
        k->complained = k->said_denied = false;
    }
    receive_batch(k);
    ls->fns.up(ls->arg, k);
}

/* The dialled stream's metadata has come, or the news that there will be none. */
static void on_opened(void *arg, bool ok)
{
    struct link *k = arg;
    const char *why = NULL;
    bool answered = ok && k->state == LINK_OPENING && k->metadata.count > 0;

    if (answered)
        why = link_why_not(k->ls, &k->metadata, link_certified_peer(k), k, &k->err);
    if (answered && !why) {
        went_up(k);
    } else {
        if (why) {
            snprintf(k->error, sizeof k->error, "%s", why);
            grpc_call_cancel(k->call, NULL);
        }
        ask_end(k);
    }
    link_op_done(k);
}

static void ask_end(struct link *k)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};

    if (link_is_dialled(k)) {
        op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
        op.data.recv_status_on_client.trailing_metadata = &k->trailing;
        op.data.recv_status_on_client.status = &k->status;
        op.data.recv_status_on_client.status_details = &k->details;
    } else {
        op.data.recv_close_on_server.cancelled = &k->cancelled;
    }
    k->ops++;
    net_batch(k->call, &op, 1, &k->end_tag);
}

static void on_ended(void *arg, bool ok)
{
    struct link *k = arg;

    k->ended = true;
    link_op_done(k);
}

static void link_free(struct link *k)
{
    struct links *ls = k->ls;

    loop_timer_clear(ls->loop, &k->timer);
    list_remove(&k->flush);
    list_remove(&k->soon);
    list_remove(&k->node);
    ls->empty = list_empty(&ls->all);
    if (!link_is_dialled(k))
        ls->accepted_now--;
    link_drop_pending(k);
    codec_buf_free(&k->buf);
    free(k->batches);
    free(k->addr);
    free(k->addrs);
    free(k->what);
    free(k);
}

static void stream_free(struct link *k)
{
    grpc_call_unref(k->call);
    k->call = NULL;
    if (k->channel)
        grpc_channel_destroy(k->channel);
    k->channel = NULL;
    grpc_metadata_array_destroy(&k->metadata);
    grpc_metadata_array_destroy(&k->trailing);
    grpc_slice_unref(k->details);
    list_remove(&k->flush);
    list_remove(&k->soon);
    link_drop_pending(k);
}

static bool one_of_several(const struct link *k) { return strchr(k->addrs, ',') != NULL; }

/* Goes on to the next address. True when that is the first one again. */
static bool next_addr(struct link *k)
{
    const char *from = k->addrs + k->next;
    size_t len = strcspn(from, ",");
    bool first = k->next == 0;

    free(k->addr);
    k->addr = xmemdup0(from, len);
    k->next = from[len] ? k->next + len + 1 : 0;
    return first;
}

static void retry_later(struct link *k)
{
    bool round_over = next_addr(k);
    int64_t delay_us =
        backoff_next_addr(&k->delay_us, round_over, one_of_several(k), k->hung_up, &k->ls->rng);

    k->state = LINK_IDLE;
    loop_timer_set(k->ls->loop, &k->timer, loop_now(k->ls->loop) + delay_us);
}

/* Sets why the stream ended: our reason, or the status. */
static void set_reason(struct link *k)
{
    k->hung_up = false;
    if (k->err)
        return;
    if (!link_is_dialled(k) && k->cancelled) {
        k->err = HAWK_EUNAVAILABLE;
        snprintf(k->error, sizeof k->error, "the connection was lost");
        return;
    }
    if (k->status == GRPC_STATUS_OK) {
        k->err = HAWK_ESHUTDOWN;
        snprintf(k->error, sizeof k->error, "closed by the peer");
        return;
    }
    k->err = rpc_status_to_err(k->status);
    char *text = net_status_text(k->details);
    const char *reason = rpc_connect_reason(text);
    k->hung_up = link_is_dialled(k) && reason && rpc_hung_up(reason);
    reason = reason ? reason : text[0] ? text : hawk_strerror(k->err);
    snprintf(k->error, sizeof k->error, "%s%s", reason,
             k->hung_up && !k->ls->tls ? " (does it want TLS?)" : "");
    free(text);
}

/* Whether this is a thief's stream to its victim. Nobody misses it, and nobody dials it again before the
 * next theft. */
static bool to_victim(const struct link *k) { return k->ls->role == ROLE_WORKER && k->expected.v; }

/* Whether to try at once without TLS: nobody answered with it. */
static bool goes_without_tls(struct link *k)
{
    k->plain = k->state == LINK_OPENING && link_is_dialled(k) && k->certified &&
               k->err == HAWK_EUNAVAILABLE && tls_is_optional(k->ls->tls);
    return k->plain;
}

/* Whether the stream ended because the peer was not heard of in time; gRPC says so of a ping only in words. */
static bool peer_was_silent(const struct link *k)
{
    return k->err == HAWK_ETIMEOUT || strstr(k->error, "keepalive");
}

/* The link dials again, at another address if there is one, unless links have somebody who decides (link_fns.failed);
 * k may be gone then. */
static void dial_again(struct link *k, bool was_up)
{
    struct links *ls = k->ls;
    int64_t up_us = was_up ? loop_now(ls->loop) - k->up_us : 0;

    if (up_us > BACKOFF_MAX_US) {
        k->delay_us = 0;
        if (k->unwelcome) /* it was welcome after all, which nobody was told */
            k->complained = k->said_denied = false;
    }
    if (up_us > LINK_PATIENCE_US)
        k->patience = 0;
    else if (k->patience < LINK_PATIENCE_MAX && k->next == 0 && peer_was_silent(k)) /* once per round */
        k->patience++;
    /* That the peer takes us no more is news also while it cannot be reached. */
    bool denied = k->err == HAWK_EDENIED;
    if ((!k->complained || (denied && !k->said_denied)) && !to_victim(k))
        log_warn("%s at %s %s: %s; trying again", k->what, k->addr, was_up ? "was lost" : "cannot be reached",
                 k->error);
    k->complained = true;
    k->said_denied |= denied;
    k->unwelcome = k->err == HAWK_EINVALID || (denied && was_up && up_us <= BACKOFF_MAX_US);
    k->state = LINK_IDLE;
    if (!ls->fns.failed)
        retry_later(k);
    else
        next_addr(k); /* link_addr shows the address that is tried next */
    if (ls->fns.failed && !was_up)
        ls->fns.failed(ls->arg, k);
}

static void stream_over(struct link *k)
{
    struct links *ls = k->ls;
    bool accepted = !link_is_dialled(k);
    bool was_up = k->state == LINK_UP || k->state == LINK_BROKEN;

    loop_timer_clear(ls->loop, &k->timer);
    set_reason(k);
    stream_free(k);
    if (k->state == LINK_CLOSING) {
        link_free(k);
        return;
    }
    if (goes_without_tls(k)) {
        dial_now(k);
        return;
    }
    if (!accepted)
        dial_again(k, was_up);
    if (was_up) {
        k->state = LINK_IDLE;
        ls->fns.lost(ls->arg, k, k->err, k->error);
        if (accepted)
            link_free(k);
    }
}

/* ---- Dialling ---- */

static void dial_now(struct link *k)
{
    grpc_metadata md[LINK_HELLO_MAX];
    grpc_op open[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    char number[16];

    /* Each attempt has a new channel, so that gRPC's own backoff has no effect, and nothing of a broken
     * connection is left. */
    k->channel = net_channel(
        k->addr, &(struct net_dial){.own_connection = true,
                                    .keepalive_ms = to_victim(k) ? NET_KEEPALIVE_VICTIM_MS : NET_KEEPALIVE_MS,
                                    .timeout_ms = NET_KEEPALIVE_TIMEOUT_MS << k->patience,
                                    .tls = k->plain ? NULL : k->ls->tls,
                                    .expected = identity_of_role(k->expected.v ? ROLE_WORKER : ROLE_CENTRAL),
                                    .now_us = loop_now(k->ls->loop)});
    k->certified = k->ls->tls && !k->plain && !addr_is_unix(k->addr);
    stream_init(k, grpc_channel_create_call(k->channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop_cq(k->ls->loop),
                                            grpc_slice_from_static_string(LINK_METHOD), NULL,
                                            gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL));
    open[0].data.send_initial_metadata.metadata = md;
    size_t n = link_hello_metadata(k->ls, md, true);
    if (k->expected.v) {
        snprintf(number, sizeof number, "%u", k->expected.v);
        md[n++] = net_metadata_new("hawk-to", number);
    }
    open[0].data.send_initial_metadata.count = n;
    open[1].data.recv_initial_metadata.recv_initial_metadata = &k->metadata;
    k->state = LINK_OPENING;
    k->ops = 1;
    net_batch(k->call, open, 2, &k->open_tag);
    net_metadata_drop(md, open[0].data.send_initial_metadata.count);
    loop_timer_set(k->ls->loop, &k->timer,
                   loop_now(k->ls->loop) +
                       ((one_of_several(k) ? LINK_OPEN_ONE_US : LINK_OPEN_US) << k->patience));
}

static void on_timer(void *arg)
{
    struct link *k = arg;

    switch (k->state) {
    case LINK_IDLE:
        dial_now(k);
        break;
    case LINK_OPENING:
        k->err = HAWK_ETIMEOUT;
        snprintf(k->error, sizeof k->error, "no answer");
        grpc_call_cancel(k->call, NULL);
        break;
    case LINK_BROKEN:
    case LINK_CLOSING:
        grpc_call_cancel(k->call, NULL);
        break;
    case LINK_UP:
        break;
    }
}

static struct link *link_new(struct links *ls)
{
    struct link *k = xcalloc(1, sizeof *k);

    k->ls = ls;
    k->number = ++ls->number;
    list_init(&k->flush);
    list_init(&k->soon);
    list_push_tail(&ls->all, &k->node);
    ls->empty = false;
    loop_timer_init(&k->timer, on_timer, k);
    cq_tag_init(&k->open_tag, on_opened, k);
    cq_tag_init(&k->end_tag, on_ended, k);
    cq_tag_init(&k->receive_tag, on_received, k);
    cq_tag_init(&k->send_tag, link_on_sent, k);
    cq_tag_init(&k->finish_tag, on_done, k);
    return k;
}

struct link *link_dial(struct links *ls, const char *addr, const char *what)
{
    return link_dial_node(ls, addr, what, NODE_NONE);
}

struct link *link_dial_node(struct links *ls, const char *addr, const char *what, node_id_t node)
{
    struct link *k = link_new(ls);

    k->expected = node;
    k->addrs = xstrdup(addr);
    k->what = xstrdup(what);
    next_addr(k);
    dial_now(k);
    return k;
}

void link_redial(struct link *k, uint32_t place)
{
    CHECK(link_is_dialled(k) && k->state == LINK_IDLE);
    k->next = 0;
    for (uint32_t i = 0; i <= place; i++)
        next_addr(k);
    dial_now(k);
}

/* ---- Accepting ---- */

static grpc_status_code refusal_status(int err)
{
    return err == HAWK_EVERSION  ? GRPC_STATUS_FAILED_PRECONDITION
           : err == HAWK_EDENIED ? GRPC_STATUS_PERMISSION_DENIED
                                 : GRPC_STATUS_INVALID_ARGUMENT;
}

const char *links_why_not(struct links *ls, const grpc_metadata_array *md, const struct identity *who,
                          grpc_status_code *status)
{
    struct link hello = {0};
    int err;
    const char *why = link_why_not(ls, md, who, &hello, &err);

    if (why) {
        *status = refusal_status(err);
        return why;
    }
    if (ls->accepted_now >= ls->accepted_max) {
        *status = GRPC_STATUS_RESOURCE_EXHAUSTED;
        return "this daemon has as many links as its limit allows";
    }
    if (!link_meant_for(ls, md)) {
        log_debug("%s wants another node than this, which has its address", hello.name);
        *status = GRPC_STATUS_FAILED_PRECONDITION;
        return "another node listens here by now";
    }
    return NULL;
}

void links_accept(struct links *ls, grpc_call *call, const grpc_metadata_array *metadata,
                  const struct identity *who, const char *addr)
{
    struct link *k = link_new(ls);
    grpc_metadata md[LINK_HELLO_MAX];
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};

    ls->accepted_now++;
    k->addr = xstrdup(addr);
    CHECK(link_parse_hello(ls, metadata, k));
    k->certified = who != NULL;
    if (who)
        k->who = *who;
    stream_init(k, call);
    cq_tag_init(&k->open_tag, on_done, k);
    open.data.send_initial_metadata.metadata = md;
    open.data.send_initial_metadata.count = link_hello_metadata(ls, md, false);
    k->ops = 1;
    net_batch(call, &open, 1, &k->open_tag);
    net_metadata_drop(md, open.data.send_initial_metadata.count);
    went_up(k);
}

/* ---- Ending ---- */

void link_break(struct link *k, int err, const char *text)
{
    if (k->state != LINK_UP)
        return;
    k->state = LINK_BROKEN;
    k->err = err;
    snprintf(k->error, sizeof k->error, "%s", text);
    link_drop_pending(k);
    grpc_call_cancel_with_status(k->call, rpc_err_to_status(err), text, NULL);
}

void link_close(struct link *k)
{
    enum link_state before = k->state;

    CHECK(before != LINK_CLOSING);
    k->state = LINK_CLOSING;
    if (!k->call) {
        /* An accepted link has no stream only while `lost` runs, and is gone after that. */
        if (link_is_dialled(k))
            link_free(k);
        return;
    }
    if (before == LINK_UP) {
        link_want_flush(k);
        loop_timer_set(k->ls->loop, &k->timer, loop_now(k->ls->loop) + CLOSE_US);
    } else {
        grpc_call_cancel(k->call, NULL);
    }
}

struct links *links_new(struct loop *l, const struct link_config *c, const struct link_fns *fns, void *arg)
{
    struct links *ls = xcalloc(1, sizeof *ls);
    char why[128];

    ls->loop = l;
    ls->fns = *fns;
    ls->arg = arg;
    ls->role = c->role;
    ls->version = c->version ? c->version : PROTOCOL_VERSION;
    ls->name = xstrdup(c->name ? c->name : "");
    if (c->token && token_check(c->token, strlen(c->token), why, sizeof why) == 0)
        ls->token = xstrdup(c->token);
    ls->tls = c->tls;
    ls->pending_max = c->pending_bytes ? c->pending_bytes : LINK_PENDING_BYTES;
    ls->accepted_max = c->max_accepted ? c->max_accepted : LINK_MAX_ACCEPTED;
    rng_seed(&ls->rng, c->seed);
    list_init(&ls->all);
    list_init(&ls->flush);
    list_init(&ls->soon);
    loop_timer_init(&ls->soon_timer, links_on_soon, ls);
    ls->empty = true;
    loop_hook_add(l, &ls->hook, LOOP_FLUSH, links_flush_all, ls);
    return ls;
}

void links_set_node(struct links *ls, node_id_t node) { ls->node = node; }

void links_break(struct links *ls, int err, const char *text)
{
    list_foreach(&ls->all, n, next)
        link_break(container_of(n, struct link, node), err, text);
}

void links_free(struct links *ls, int64_t timeout_us)
{
    if (!ls)
        return;
    list_foreach(&ls->all, n, next) {
        struct link *k = container_of(n, struct link, node);
        if (k->state != LINK_CLOSING)
            link_close(k);
    }
    links_flush_all(ls);
    if (!loop_drain(ls->loop, &ls->empty, loop_now(ls->loop) + timeout_us)) {
        list_foreach(&ls->all, n, next) /* NOLINT: what link_close freed has left the list */
            grpc_call_cancel(container_of(n, struct link, node)->call, NULL);
        loop_drain(ls->loop, &ls->empty, TIME_NEVER);
    }
    loop_timer_clear(ls->loop, &ls->soon_timer);
    loop_hook_remove(&ls->hook);
    free(ls->name);
    free(ls->token);
    free(ls);
}

/* ---- Questions ---- */

uint32_t link_number(const struct link *k) { return k->number; }
bool link_is_up(const struct link *k) { return k->state == LINK_UP; }
bool link_is_dialled(const struct link *k) { return k->what != NULL; }
const char *link_addr(const struct link *k) { return k->addr; }

bool link_hung_up(const struct link *k) { return k->hung_up; }
enum role link_peer_role(const struct link *k) { return k->role; }
node_id_t link_peer_node(const struct link *k) { return k->node_id; }
const char *link_peer_name(const struct link *k) { return k->name; }
bool link_is_certified(const struct link *k) { return k->certified; }
uint32_t link_slots_max(const struct link *k) { return k->who.slots; }
uint32_t link_version(const struct link *k) { return k->version; }
void link_set_user(struct link *k, void *user) { k->user = user; }
void *link_user(const struct link *k) { return k->user; }
const struct link_counters *links_counters(const struct links *ls) { return &ls->counters; }
