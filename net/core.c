/* gRPC core in the few forms that links, the server and calls need. */
#include "net/core.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/server.h"
#include "net/tls.h"
#include "net/token.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 5000
#define WINDOW_BYTES (1 << 20) /* bytes of a stream that a peer may send before we have read the last ones */
#define MIN_PING_INTERVAL_MS 200 /* what a server tolerates */

void net_batch(grpc_call *call, const grpc_op *ops, size_t n, struct cq_tag *tag)
{
    CHECK(grpc_call_start_batch(call, ops, n, tag, NULL) == GRPC_CALL_OK);
}

static grpc_arg int_arg(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

size_t net_args(grpc_arg *args, uint32_t max_message_bytes, int keepalive_ms, int timeout_ms)
{
    size_t n = 0;

    args[n++] = int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)max_message_bytes);
    args[n++] = int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
    args[n++] = int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, timeout_ms);
    args[n++] = int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    args[n++] = int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    args[n++] = int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MIN_PING_INTERVAL_MS);
    args[n++] = int_arg(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    /* No compression: 1 MB on the wire could be 1 GiB in memory before we count it. */
    args[n++] = int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
    args[n++] = int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    args[n++] = int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    /* Nobody reads this bookkeeping. */
    args[n++] = int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0);
    /* To learn how much fits in flight, gRPC would ping every connection on which something arrives. On a
     * quiet connection that costs more than the message. So the window is fixed. */
    args[n++] = int_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[n++] = int_arg(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES);
    return n;
}

static grpc_channel_credentials *dial_credentials(const struct net_dial *d, bool secure)
{
    if (!secure)
        return grpc_insecure_credentials_create();
    tls_refresh(d->tls, d->now_us);
    return tls_dialling(d->tls);
}

grpc_channel *net_channel(const char *addr, const struct net_dial *d)
{
    grpc_arg v[NET_ARGS_MAX];
    grpc_channel_args args = {.args = v};
    bool secure = d->tls && !addr_is_unix(addr);
    grpc_channel_credentials *creds = d->foreign ? d->foreign : dial_credentials(d, secure);
    char target[ADDR_TEXT];

    args.num_args = net_args(v, NET_MESSAGE_BYTES, d->keepalive_ms, d->timeout_ms);
    v[args.num_args++] = int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, NET_MESSAGE_BYTES); /* more is cut off */
    v[args.num_args++] = int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    v[args.num_args++] = int_arg(GRPC_ARG_ENABLE_RETRIES, 0);
    v[args.num_args++] = int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    v[args.num_args++] = int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    v[args.num_args++] = int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    v[args.num_args++] = int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_TIMEOUT_MS);
    v[args.num_args++] = int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, d->own_connection);
    if (secure)
        v[args.num_args++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                        .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                        .value.string = (char *)(uintptr_t)d->expected};
    addr_target(addr, target, sizeof target);
    grpc_channel *ch = grpc_channel_create(target, creds, &args);
    if (!secure && !d->foreign)
        grpc_channel_credentials_release(creds);
    CHECK(ch); /* for a bad target gRPC returns a lame channel, not NULL */
    return ch;
}

/* ---- Bytes ---- */

grpc_byte_buffer *net_message(const void *data, size_t len)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(len ? data : "", len);
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);

    grpc_slice_unref(slice);
    return b;
}

int net_bytes_get(struct net_bytes *b, grpc_byte_buffer *from)
{
    grpc_byte_buffer_reader r;
    grpc_slice *first;

    *b = (struct net_bytes){.data = (const uint8_t *)"", .slice = grpc_empty_slice()};
    if (from->data.raw.compression != GRPC_COMPRESS_NONE || !grpc_byte_buffer_reader_init(&r, from))
        return HAWK_EMALFORMED;
    if (from->data.raw.slice_buffer.count == 1 && grpc_byte_buffer_reader_peek(&r, &first)) {
        b->data = GRPC_SLICE_START_PTR(*first);
        b->len = GRPC_SLICE_LENGTH(*first);
    } else if (grpc_byte_buffer_length(from) > 0) {
        b->slice = grpc_byte_buffer_reader_readall(&r);
        b->data = GRPC_SLICE_START_PTR(b->slice);
        b->len = GRPC_SLICE_LENGTH(b->slice);
    }
    grpc_byte_buffer_reader_destroy(&r);
    return 0;
}

void net_bytes_free(struct net_bytes *b)
{
    grpc_slice_unref(b->slice);
    b->slice = grpc_empty_slice();
}

/* ---- Metadata ---- */

const grpc_slice *net_metadata(const grpc_metadata_array *md, const char *key)
{
    for (size_t i = 0; i < md->count; i++)
        if (grpc_slice_str_cmp(md->metadata[i].key, key) == 0)
            return &md->metadata[i].value;
    return NULL;
}

bool net_metadata_text(const grpc_metadata_array *md, const char *key, char *buf, size_t size)
{
    const grpc_slice *v = net_metadata(md, key);

    snprintf(buf, size, "%.*s", v ? (int)GRPC_SLICE_LENGTH(*v) : 0,
             v ? (const char *)GRPC_SLICE_START_PTR(*v) : "");
    return v != NULL;
}

grpc_metadata net_metadata_new(const char *key, const char *value)
{
    grpc_metadata md = {.key = grpc_slice_from_static_string(key),
                        .value = grpc_slice_from_copied_string(value)};
    uint8_t *p = GRPC_SLICE_START_PTR(md.value);

    for (size_t i = 0; i < GRPC_SLICE_LENGTH(md.value); i++)
        if (p[i] < ' ' || p[i] > '~')
            p[i] = '?';
    return md;
}

void net_metadata_drop(grpc_metadata *md, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grpc_slice_unref(md[i].key);
        grpc_slice_unref(md[i].value);
    }
}

grpc_metadata net_token_new(const char *token)
{
    char value[sizeof TOKEN_PREFIX + TOKEN_BYTES_MAX];

    snprintf(value, sizeof value, TOKEN_PREFIX "%s", token);
    return net_metadata_new("authorization", value);
}

char *net_status_text(grpc_slice details)
{
    static const char *const frames[] = {"last error: ", "UNKNOWN: ", "UNAVAILABLE: "};
    char *all = xmemdup0(GRPC_SLICE_START_PTR(details), GRPC_SLICE_LENGTH(details));
    const char *text = all;
    char *out;

    bool unreached = strncmp(all, "failed to connect to all addresses", 34) == 0;
    if (unreached) {
        for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
            const char *p = strstr(text, frames[i]);
            if (p)
                text = p + strlen(frames[i]);
        }
    }
    if (unreached && !strstr(text, NET_UNREACHED)) {
        size_t size = strlen(text) + sizeof NET_UNREACHED ": ";
        out = xmalloc(size);
        snprintf(out, size, NET_UNREACHED ": %s", text);
    } else {
        out = xstrdup(text);
    }
    free(all);
    return out;
}
