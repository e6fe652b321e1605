/* A server, its handlers and a channel to it: for test_rpc.c and test_rpc_streams.c. */
#ifndef HAWK_TESTS_TEST_RPC_H
#define HAWK_TESTS_TEST_RPC_H

#include "net/core.h"
#include "net/link_accept.h"
#include "net/rpc.h"
#include "net/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <grpc/byte_buffer.h>
#include <grpc/support/time.h>
#include <unistd.h>

#define ECHO "/hawk.test.T/Echo"
#define FAIL "/hawk.test.T/Fail"
#define LATER "/hawk.test.T/Later"
#define WATCH "/hawk.test.T/Watch"
#define STREAM "/hawk.test.T/Stream"
#define FLOOD "/hawk.test.T/Flood"
#define BOTH "/hawk.test.T/Both"

static char echo_arg[] = "echo";

static struct loop *loop;

static struct server *server;

static struct channel *channel;

/* The calls that handlers keep. */
static struct rpc_call *held[8];

static unsigned held_n, cancelled_n, writable_n;

static uint8_t *reply;

static size_t reply_len;

static char *text;

static grpc_status_code status;

static void forget_reply(void)
{
    free(reply);
    free(text);
    reply = NULL;
    text = NULL;
}

/* ---- Handlers ---- */

static void on_echo(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    assert_string_equal(arg, "echo");
    assert_non_null(rpc_peer(c));
    rpc_reply(c, request, len);
}

static void on_fail(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    rpc_fail(c, GRPC_STATUS_NOT_FOUND, "no job %.*s", (int)len, (const char *)request);
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    (void)arg;
    assert_int_equal(rpc_send(c, "x", 1), HAWK_ECANCELLED);
    cancelled_n++;
    rpc_finish(c);
}

static void on_later(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    (void)request;
    held[held_n++] = c;
    if (len) /* "watch": tell when the client goes; otherwise the call is just held */
        rpc_watch(c, on_cancelled, NULL, NULL);
}

/* As many messages as the request has bytes, then the end; with a '!' last, an error. */
static void on_stream(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(rpc_send(c, request + i, 1), 0);
    if (len && request[len - 1] == '!')
        rpc_fail(c, GRPC_STATUS_ABORTED, "as asked");
    else
        rpc_finish(c);
}

#define CHUNK (64u << 10)
#define FLOOD_CHUNKS 400u /* 25 MiB */

static uint8_t chunk[CHUNK];

static unsigned flood_sent, flood_refused;

static void flood(void *arg, struct rpc_call *c)
{
    (void)arg;
    writable_n++;
    while (flood_sent < FLOOD_CHUNKS) {
        memset(chunk, (int)(flood_sent & 0xff), sizeof chunk);
        if (rpc_send(c, chunk, sizeof chunk) == HAWK_ELIMIT) {
            flood_refused++;
            return;
        }
        flood_sent++;
    }
    rpc_finish(c);
}

static void on_flood(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    (void)request;
    (void)len;
    flood_sent = flood_refused = writable_n = 0;
    rpc_watch(c, on_cancelled, flood, NULL);
    flood(NULL, c);
}

/* Sends back what it gets, and ends the call when the client has ended its side. */
static struct rpc_call *both;

static unsigned both_got;

static bool both_ended;

static void on_both_message(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    assert_string_equal(arg, "echo");
    if (!data) {
        both_ended = true;
        rpc_finish(c);
        return;
    }
    both_got++;
    if (len == 4 && memcmp(data, "hold", 4) == 0)
        rpc_hold(c, true);
    if (len == 4 && memcmp(data, "fail", 4) == 0)
        rpc_fail(c, GRPC_STATUS_ABORTED, "as asked");
    else
        assert_int_equal(rpc_send(c, data, len), 0);
}

static void on_both(void *arg, struct rpc_call *c)
{
    (void)arg;
    both = c;
    both_got = 0;
    both_ended = false;
    rpc_watch(c, on_cancelled, NULL, NULL);
    rpc_receive(c, on_both_message, echo_arg);
}

/* ---- A server and a channel to it, for every test ---- */

static void serve(struct server_config c, const char *client_token)
{
    char why[256];

    held_n = cancelled_n = 0;
    server = server_new(loop, &c);
    assert_int_equal(server_listen(server, "127.0.0.1:0", why, sizeof why), 0);
    server_handle(server, ECHO, on_echo, echo_arg);
    server_handle(server, FAIL, on_fail, NULL);
    server_handle(server, LATER, on_later, NULL);
    server_handle(server, WATCH, on_later, NULL);
    server_lasting(server, WATCH);
    server_handle(server, STREAM, on_stream, NULL);
    server_handle(server, FLOOD, on_flood, NULL);
    server_handle_stream(server, BOTH, on_both, NULL);
    server_start(server);
    channel = channel_new(loop, server_addr(server, 0), client_token);
    assert_string_equal(channel_addr(channel), server_addr(server, 0));
}

static int setup(void **state)
{
    (void)state;
    serve((struct server_config){0}, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    channel_free(channel);
    server_free(server);
    channel = NULL;
    server = NULL;
    forget_reply();
    return 0;
}

static int call_with(const char *method, const void *request, size_t len, int64_t timeout_us)
{
    forget_reply();
    return rpc_call_sync(loop, channel, method, request, len, timeout_us, false, &reply, &reply_len, &status,
                         &text);
}

static int call(const char *method, const char *request)
{
    return call_with(method, request, strlen(request), UNTIL_US);
}

/* ---- Unary ---- */

struct called {
    char got[512];
    size_t bytes;
    unsigned replies, ended;
    grpc_status_code status;
    struct rpc *rpc, *cancel; /* cancel: with the first reply */
};

static void on_reply(void *arg, const uint8_t *data, size_t len)
{
    struct called *w = arg;
    size_t n = strlen(w->got);

    if (len == 1 && n < sizeof w->got - 1)
        w->got[n] = (char)data[0];
    w->bytes += len;
    w->replies++;
    if (w->cancel) {
        rpc_cancel(w->cancel);
        w->cancel = NULL;
    }
}

static void on_done(void *arg, grpc_status_code code, const char *why)
{
    struct called *w = arg;

    assert_non_null(why);
    w->status = code;
    w->ended++;
}

static const struct rpc_fns fns = {.reply = on_reply, .done = on_done};

static void start(struct called *w, const char *method, const char *request)
{
    *w = (struct called){.status = GRPC_STATUS_UNKNOWN};
    w->rpc = rpc_start(channel, method, request, strlen(request), TIME_NEVER, false, &fns, w);
}

/* ---- A server that is not there ---- */

static int group_setup(void **state)
{
    (void)state;
    loop = loop_new(LOOP_NET);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    loop_free(loop);
    return 0;
}

#endif
