/* Sending on links: messages gather in batches, and a batch leaves when the one before has. */
#include "net/link_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/ring.h"

#include <stdlib.h>
#include <string.h>

static size_t pending_bytes(const struct link *k) { return k->batches_bytes + k->buf.len; }

void link_want_flush(struct link *k)
{
    k->urgent = true;
    if (list_empty(&k->flush))
        list_push_tail(&k->ls->flush, &k->flush);
}

/* Makes a message of the first n bytes of the growing batch. */
static void close_batch(struct link *k, size_t n)
{
    vec_grow(k->batches, k->batches_n, k->batches_cap);
    k->batches[k->batches_n++] = net_message(k->buf.data, n);
    k->batches_bytes += n;
}

/* Makes a message of the growing batch. */
static grpc_byte_buffer *seal_batch(struct link *k)
{
    grpc_byte_buffer *b = net_message(k->buf.data, k->buf.len);
    bool outgrown = k->buf.cap > LINK_LARGE_BYTES && k->buf.len < k->buf.cap / 4;

    k->buf.len = 0;
    if (k->buf.cap > 2 * LINK_BATCH_BYTES || outgrown)
        codec_buf_free(&k->buf);
    return b;
}

static grpc_byte_buffer *next_batch(struct link *k)
{
    if (k->batches_first == k->batches_n)
        return seal_batch(k);
    grpc_byte_buffer *b = k->batches[k->batches_first++];
    k->batches_bytes -= grpc_byte_buffer_length(b);
    if (k->batches_first == k->batches_n)
        k->batches_first = k->batches_n = 0;
    return b;
}

void link_drop_pending(struct link *k)
{
    while (k->batches_first < k->batches_n)
        grpc_byte_buffer_destroy(k->batches[k->batches_first++]);
    k->batches_first = k->batches_n = 0;
    k->batches_bytes = 0;
    k->buf.len = 0;
    while (k->waiting.n > 0) {
        struct msg m;

        ring_pop(&k->waiting, &m);
        msg_drop(&m);
    }
    free(k->waiting.v);
    memset(&k->waiting, 0, sizeof k->waiting);
}

/* Ends our side of a stream that is closed in order. */
static void half_close(struct link *k)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

    if (!link_is_dialled(k)) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
    }
    k->half_closed = true;
    k->ops++;
    net_batch(k->call, &op, 1, &k->finish_tag);
}

static void send_pending(struct link *k)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};

    if (k->sending || k->ended || k->half_closed)
        return;
    if (pending_bytes(k) == 0) {
        if (k->state == LINK_CLOSING || k->peer_closed)
            half_close(k);
        return;
    }
    list_remove(&k->soon);
    k->sent = next_batch(k);
    k->urgent = pending_bytes(k) > 0 || k->waiting.n > 0;
    op.data.send_message.send_message = k->sent;
    k->sending = true;
    k->moved_us = loop_now(k->ls->loop);
    k->ops++;
    k->ls->counters.messages_sent++;
    k->ls->counters.bytes_sent += grpc_byte_buffer_length(k->sent);
    net_batch(k->call, &op, 1, &k->send_tag);
}

void links_flush_all(void *arg)
{
    struct links *ls = arg;

    while (!list_empty(&ls->flush)) {
        struct link *k = container_of(ls->flush.next, struct link, flush);
        list_remove(&k->flush);
        send_pending(k);
    }
}

/* Appends m to what is pending. On an error the link is broken. */
static int encode_message(struct link *k, const struct msg *m)
{
    size_t before = k->buf.len;
    int err = codec_encode(&k->buf, m);

    if (err) {
        link_break(k, err, "a message to the peer is larger than a link carries");
        return err;
    }
    k->ls->counters.envelopes_sent++;
    if (before > 0 && k->buf.len - before >= LINK_LARGE_BYTES) {
        close_batch(k, before);
        k->buf.len -= before;
        memmove(k->buf.data, k->buf.data + before, k->buf.len);
        before = 0;
    }
    if (k->buf.len >= LINK_BATCH_BYTES || k->buf.len - before >= LINK_LARGE_BYTES) {
        vec_grow(k->batches, k->batches_n, k->batches_cap);
        k->batches_bytes += k->buf.len;
        k->batches[k->batches_n++] = seal_batch(k);
    }
    return 0;
}

static bool has_room(const struct link *k) { return pending_bytes(k) <= k->ls->pending_max; }

/* Whether the next message need not wait. */
static bool may_encode(const struct link *k) { return has_room(k) && k->waiting.n == 0; }

/* Encodes messages that wait, as far as there is room. */
static void encode_waiting(struct link *k)
{
    int err = 0;

    while (!err && k->waiting.n > 0 && has_room(k)) {
        struct msg m;

        ring_pop(&k->waiting, &m);
        err = encode_message(k, &m);
        msg_drop(&m);
    }
}

void link_on_sent(void *arg, bool ok)
{
    struct link *k = arg;

    grpc_byte_buffer_destroy(k->sent);
    k->sent = NULL;
    k->sending = false;
    k->moved_us = loop_now(k->ls->loop);
    if (ok)
        encode_waiting(k);
    /* The next send leaves at the end of the turn, with all that is sent until then. After a failure the
     * stream ends by itself. */
    if (ok && (k->urgent || k->state != LINK_UP || k->peer_closed || pending_bytes(k) >= LINK_LATER_BYTES))
        link_want_flush(k);
    link_op_done(k);
}

static bool keeps_up(const struct link *k)
{
    bool stalls = k->sending && loop_now(k->ls->loop) - k->moved_us >= LINK_STALL_US;

    return may_encode(k) || (!stalls && k->waiting.n < k->ls->pending_max / LINK_WAITING_BYTES);
}

static int gather_message(struct link *k, const struct msg *m)
{
    if (k->state != LINK_UP)
        return HAWK_EUNAVAILABLE;
    if (!msg_in_version(m->type, k->version))
        return 0;
    if (!keeps_up(k)) {
        link_break(k, HAWK_ELIMIT, "the peer does not keep up: too much is waiting to be sent to it");
        return HAWK_ELIMIT;
    }
    if (may_encode(k))
        return encode_message(k, m);
    msg_ref(m);
    ring_push(&k->waiting, *m);
    return 0;
}

int link_send(struct link *k, const struct msg *m)
{
    int err = gather_message(k, m);

    if (!err)
        link_want_flush(k);
    return err;
}

int link_send_later(struct link *k, const struct msg *m)
{
    int err = gather_message(k, m);

    if (!err && pending_bytes(k) >= LINK_LATER_BYTES)
        link_want_flush(k);
    return err;
}

int link_send_soon(struct link *k, const struct msg *m)
{
    struct links *ls = k->ls;
    int err = link_send_later(k, m);

    if (err || !list_empty(&k->flush) || !list_empty(&k->soon))
        return err;
    k->soon_us = loop_event_now(ls->loop) + LINK_SOON_US;
    list_push_tail(&ls->soon, &k->soon);
    if (!loop_timer_is_set(&ls->soon_timer))
        loop_timer_set(ls->loop, &ls->soon_timer, k->soon_us);
    return 0;
}

void links_on_soon(void *arg)
{
    struct links *ls = arg;
    int64_t now_us = loop_now(ls->loop);

    while (!list_empty(&ls->soon)) {
        struct link *k = container_of(ls->soon.next, struct link, soon);

        if (k->soon_us > now_us) {
            loop_timer_set(ls->loop, &ls->soon_timer, k->soon_us);
            return;
        }
        list_remove(&k->soon);
        link_want_flush(k);
    }
}
