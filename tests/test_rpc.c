/* net/server and net/rpc: calls of the API, unary and streaming, from both sides. */
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
    assert_true(rpc_is_cancelled(c));
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

static void a_call_gets_its_reply(void **state)
{
    (void)state;
    assert_int_equal(call(ECHO, "hello"), 0);
    assert_int_equal(reply_len, 5);
    assert_memory_equal(reply, "hello", 5);
    assert_int_equal(status, GRPC_STATUS_OK);
    assert_int_equal(call(ECHO, ""), 0);
    assert_non_null(reply);
    assert_int_equal(reply_len, 0);
}

static void a_big_request_and_reply(void **state)
{
    const size_t n = 20u << 20;
    uint8_t *big = malloc(n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        big[i] = (uint8_t)(i * 2654435761u >> 24);
    assert_int_equal(call_with(ECHO, big, n, UNTIL_US), 0);
    assert_int_equal(reply_len, n);
    assert_memory_equal(reply, big, n);
    free(big);
}

static void an_error_carries_its_text(void **state)
{
    (void)state;
    assert_int_equal(call(FAIL, "3.17"), HAWK_ENOT_FOUND);
    assert_int_equal(status, GRPC_STATUS_NOT_FOUND);
    assert_string_equal(text, "no job 3.17");
    assert_null(reply);
}

static void an_unknown_method_is_unimplemented(void **state)
{
    (void)state;
    assert_int_equal(call("/hawk.test.T/Nothing", "x"), HAWK_EUNSUPPORTED);
    assert_int_equal(status, GRPC_STATUS_UNIMPLEMENTED);
    assert_non_null(strstr(text, "/hawk.test.T/Nothing"));
    assert_int_equal(call("/hawk.v1.Peer/Link", "x"), HAWK_EUNSUPPORTED); /* no links are served here */
}

static void a_request_beyond_the_limit_is_refused(void **state)
{
    static uint8_t big[100001];

    (void)state;
    serve((struct server_config){.max_message_bytes = 100000}, NULL);
    assert_int_equal(call_with(ECHO, big, 100000, UNTIL_US), 0);
    assert_int_equal(call_with(ECHO, big, 100001, UNTIL_US), HAWK_ELIMIT);
    assert_int_equal(status, GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(text, "larger than max (100001 vs. 100000)"));
    assert_int_equal(call(ECHO, "x"), 0);
}

#define TOKEN "secret-of-clients"
#define NODE_TOKEN "secret-of-the-nodes"

static int call_as(const char *token, const char *method)
{
    channel_free(channel);
    channel = channel_new(loop, server_addr(server, 0), token);
    return call(method, "x");
}

static void the_token_is_asked_of_every_call(void **state)
{
    static const char *const wrong[] = {NULL,
                                        "another-secret-one",
                                        "secret-of-client",
                                        "secret-of-clientss",
                                        "with space",
                                        "secret-of-clientssecret-of-clients"};

    (void)state;
    serve((struct server_config){.token = TOKEN}, TOKEN);
    assert_int_equal(call(ECHO, "x"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(call_as(wrong[i], ECHO), HAWK_EDENIED);
        assert_int_equal(status, GRPC_STATUS_UNAUTHENTICATED);
        assert_non_null(strstr(text, "token"));
        assert_int_equal(call("/hawk.test.T/Nothing", "x"), HAWK_EDENIED);
    }
}

static void a_clients_token_opens_no_link(void **state)
{
    (void)state;
    serve((struct server_config){.token = TOKEN, .node_token = NODE_TOKEN}, NULL);
    assert_int_equal(call_as(TOKEN, ECHO), 0);
    assert_int_equal(call_as(NODE_TOKEN, ECHO), 0);
    assert_int_equal(call_as("neither-of-the-two", ECHO), HAWK_EDENIED);
    assert_int_equal(call_as(NODE_TOKEN, LINK_METHOD), HAWK_EUNSUPPORTED); /* there are none here */
    assert_int_equal(call_as(TOKEN, LINK_METHOD), HAWK_EDENIED);
    assert_int_equal(status, GRPC_STATUS_UNAUTHENTICATED);
    assert_non_null(strstr(text, "cluster.node_token_file"));
    assert_int_equal(call_as(NULL, LINK_METHOD), HAWK_EDENIED);
}

static void one_token_is_everybodys(void **state)
{
    (void)state;
    serve((struct server_config){.token = TOKEN}, NULL);
    assert_int_equal(call_as(TOKEN, ECHO), 0);
    assert_int_equal(call_as(TOKEN, LINK_METHOD), HAWK_EUNSUPPORTED);
    assert_int_equal(call_as(NODE_TOKEN, LINK_METHOD), HAWK_EDENIED);
}

struct caller {
    char got[512];
    size_t bytes;
    unsigned replies, ended;
    grpc_status_code status;
    struct rpc *rpc, *cancel; /* cancel: with the first reply */
};

static void on_reply(void *arg, const uint8_t *data, size_t len)
{
    struct caller *w = arg;
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
    struct caller *w = arg;

    assert_non_null(why);
    w->status = code;
    w->ended++;
}

static const struct rpc_fns fns = {.reply = on_reply, .done = on_done};

static void start(struct caller *w, const char *method, const char *request)
{
    *w = (struct caller){.status = GRPC_STATUS_UNKNOWN};
    w->rpc = rpc_start(channel, method, request, strlen(request), TIME_NEVER, false, &fns, w);
}

static void a_reply_may_come_later(void **state)
{
    struct caller w;

    (void)state;
    start(&w, LATER, "");
    until(loop, held_n == 1);
    assert_int_equal(call(ECHO, "x"), 0);
    assert_int_equal(w.ended, 0);
    rpc_reply(held[0], "l", 1);
    until(loop, w.ended);
    assert_string_equal(w.got, "l");
}

static void a_call_ends_at_its_deadline(void **state)
{
    (void)state;
    assert_int_equal(call_with(LATER, "", 0, 20000), HAWK_ETIMEOUT);
    assert_int_equal(status, GRPC_STATUS_DEADLINE_EXCEEDED);
    if (held_n) { /* it may have come too late to reach the server */
        until(loop, rpc_is_cancelled(held[0]));
        rpc_reply(held[0], "late", 4); /* harmless */
    }
}

static void calls_beyond_the_limit_are_refused(void **state)
{
    struct caller w[3];

    (void)state;
    serve((struct server_config){.max_calls = 2}, NULL);
    for (int i = 0; i < 3; i++)
        start(&w[i], LATER, "");
    until(loop, w[0].ended + w[1].ended + w[2].ended == 1 && held_n == 2);
    assert_int_equal(call(ECHO, "x"), HAWK_ELIMIT);
    assert_non_null(strstr(text, "2 calls"));
    rpc_reply(held[0], "", 0);
    rpc_reply(held[1], "", 0);
    until(loop, w[0].ended && w[1].ended && w[2].ended);
    assert_int_equal(call(ECHO, "x"), 0);
}

static void many_calls_at_once(void **state)
{
    enum { CALLS = 500 };
    static struct caller w[CALLS];
    unsigned ended = 0;

    (void)state;
    for (int i = 0; i < CALLS; i++)
        start(&w[i], ECHO, "x");
    until(loop, w[CALLS - 1].ended && w[0].ended);
    for (int i = 0; i < CALLS; i++) {
        until(loop, w[i].ended);
        assert_int_equal(w[i].status, GRPC_STATUS_OK);
        assert_string_equal(w[i].got, "x");
        ended++;
    }
    assert_int_equal(ended, CALLS);
}

/* ---- Streaming ---- */

static void a_stream_arrives_in_order_and_ends(void **state)
{
    struct caller w;

    (void)state;
    start(&w, STREAM, "abcdefgh");
    until(loop, w.ended);
    assert_string_equal(w.got, "abcdefgh");
    assert_int_equal(w.status, GRPC_STATUS_OK);
    start(&w, STREAM, "");
    until(loop, w.ended);
    assert_int_equal(w.replies, 0);
    assert_int_equal(w.status, GRPC_STATUS_OK);
    start(&w, STREAM, "abc!");
    until(loop, w.ended);
    assert_string_equal(w.got, "abc!");
    assert_int_equal(w.status, GRPC_STATUS_ABORTED);
    /* A unary caller of a method that sends nothing. */
    assert_int_equal(call(STREAM, ""), HAWK_EIO);
    assert_string_equal(text, "the server sent no reply");
}

static void a_flood_waits_for_its_reader(void **state)
{
    struct caller w;

    (void)state;
    start(&w, FLOOD, "");
    until(loop, w.ended);
    assert_int_equal(w.status, GRPC_STATUS_OK);
    assert_int_equal(w.replies, FLOOD_CHUNKS);
    assert_int_equal(w.bytes, (size_t)FLOOD_CHUNKS * CHUNK);
    assert_true(flood_refused >= 2); /* no more than RPC_QUEUE_BYTES and a chunk were ever queued */
    assert_int_equal(writable_n, flood_refused + 1);
    assert_int_equal(cancelled_n, 0);
}

static void replies_of_all_calls_are_bounded(void **state)
{
    struct caller w;

    (void)state;
    serve((struct server_config){.max_reply_bytes = 4 * CHUNK}, NULL);
    start(&w, FLOOD, "");
    until(loop, w.ended);
    assert_int_equal(w.status, GRPC_STATUS_OK);
    assert_int_equal(w.bytes, (size_t)FLOOD_CHUNKS * CHUNK);
    assert_true(flood_refused >=
                FLOOD_CHUNKS / 5); /* no more than half the limit and a chunk were ever queued */
    /* What has left is counted no more. */
    assert_int_equal(call(ECHO, "x"), 0);
}

static void a_client_that_goes_away_is_noticed(void **state)
{
    struct caller w;

    (void)state;
    start(&w, LATER, "watch");
    until(loop, held_n == 1);
    assert_int_equal(rpc_send(held[0], "1", 1), 0);
    until(loop, w.replies == 1);
    rpc_cancel(w.rpc);
    until(loop, cancelled_n == 1);
    assert_int_equal(w.ended, 0); /* who cancels is not told */

    /* In the middle of a flood, from within a reply. */
    start(&w, FLOOD, "");
    w.cancel = w.rpc;
    until(loop, cancelled_n == 2);
    assert_int_equal(w.replies, 1);
    assert_int_equal(w.ended, 0);

    /* With its channel. */
    start(&w, LATER, "watch");
    until(loop, held_n == 2);
    channel_free(channel);
    channel = NULL;
    until(loop, cancelled_n == 3);
}

static void a_server_that_stops_ends_its_calls(void **state)
{
    struct caller watched, plain;

    (void)state;
    start(&watched, LATER, "watch");
    start(&plain, LATER, ""); /* nobody ever ends that one */
    until(loop, held_n == 2);
    server_free(server);
    server = NULL;
    assert_int_equal(cancelled_n, 1);
    until(loop, watched.ended && plain.ended);
    assert_int_not_equal(watched.status, GRPC_STATUS_OK);
    assert_int_not_equal(plain.status, GRPC_STATUS_OK);
    assert_int_equal(call(ECHO, "x"), HAWK_EUNAVAILABLE);
}

static void a_server_that_stops_gives_its_last_answers(void **state)
{
    struct caller answered;

    (void)state;
    start(&answered, LATER, "");
    until(loop, held_n == 1);
    server_stop(server);
    assert_int_equal(call(ECHO, "x"), HAWK_EUNAVAILABLE); /* no handler is asked any more */
    assert_string_equal(text, SERVER_STOPPING_TEXT);
    rpc_reply(held[0], "l", 1);
    server_free(server); /* at once: nothing has left yet */
    server = NULL;
    until(loop, answered.ended);
    assert_int_equal(answered.status, GRPC_STATUS_OK);
    assert_string_equal(answered.got, "l");
}

/* ---- A server that is not there ---- */

static void start_server_at(void *arg)
{
    char why[256] = "";

    server = server_new(loop, &(struct server_config){0});
    if (server_listen(server, arg, why, sizeof why) != 0)
        fail_msg("%s", why);
    server_handle(server, ECHO, on_echo, echo_arg);
    server_start(server);
}

static void waiting_for_a_server_or_not(void **state)
{
    char addr[64];
    struct caller w = {0};
    struct loop_timer soon;

    (void)state;
    snprintf(addr, sizeof addr, "%s", server_addr(server, 0));
    server_free(server);
    server = NULL;
    channel_free(channel);
    channel = channel_new(loop, addr, NULL);
    assert_int_equal(call(ECHO, "x"), HAWK_EUNAVAILABLE);
    assert_non_null(strstr(text, "Connection refused"));
    /* Waits, but not for ever. */
    assert_int_equal(rpc_call_sync(loop, channel, ECHO, "x", 1, 20000, true, NULL, NULL, NULL, NULL),
                     HAWK_ETIMEOUT);
    w.rpc = rpc_start(channel, ECHO, "x", 1, TIME_NEVER, true, &fns, &w);
    loop_timer_init(&soon, start_server_at, addr);
    loop_timer_set(loop, &soon, 0);
    until(loop, w.ended);
    assert_int_equal(w.status, GRPC_STATUS_OK);
    assert_string_equal(w.got, "x");
}

static void over_a_unix_socket(void **state)
{
    char dir[] = "/tmp/hawk-test-rpc-XXXXXX", addr[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(addr, sizeof addr, "unix:%s/x.sock", dir);
    start_server_at(addr);
    assert_string_equal(server_addr(server, 0), addr);
    channel = channel_new(loop, addr, NULL);
    assert_int_equal(call(ECHO, "hello"), 0);
    teardown(NULL);
    assert_int_equal(rmdir(dir), 0);
}

static void statuses_and_errors_agree(void **state)
{
    (void)state;
    for (int s = GRPC_STATUS_OK; s <= GRPC_STATUS_UNAUTHENTICATED; s++) {
        int err = rpc_status_to_err((grpc_status_code)s);
        assert_true(s == GRPC_STATUS_OK ? err == 0 : err < 0);
    }
#define X(name, code, words)                                                                                 \
    if (HAWK_E##name != HAWK_EIO)                                                                            \
        assert_true(rpc_err_to_status(HAWK_E##name) != GRPC_STATUS_OK);
    HAWK_ERRORS(X)
#undef X
    assert_int_equal(rpc_err_to_status(0), GRPC_STATUS_OK);
    assert_int_equal(rpc_err_to_status(HAWK_ENAME_TAKEN), GRPC_STATUS_ALREADY_EXISTS);
    assert_int_equal(rpc_err_to_status(-1000), GRPC_STATUS_INTERNAL);
}

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

/* ---- Streams in both directions ---- */

struct talk {
    struct rpc *rpc;
    unsigned got, sent;
    char last[16];
    bool over;
    grpc_status_code status;
};

static void talk_reply(void *arg, const uint8_t *data, size_t len)
{
    struct talk *t = arg;

    t->got++;
    snprintf(t->last, sizeof t->last, "%.*s", (int)len, (const char *)data);
}

static void talk_sent(void *arg) { ((struct talk *)arg)->sent++; }

static void talk_done(void *arg, grpc_status_code s, const char *why)
{
    struct talk *t = arg;

    (void)why;
    t->over = true;
    t->status = s;
}

static void talk_open(struct talk *t)
{
    static const struct rpc_fns talk_fns = {.reply = talk_reply, .sent = talk_sent, .done = talk_done};

    *t = (struct talk){0};
    t->rpc = rpc_open(channel, BOTH, &talk_fns, t);
}

static void say(struct talk *t, const char *what)
{
    until(loop, rpc_writable(t->rpc));
    rpc_write(t->rpc, what, strlen(what));
    assert_false(rpc_writable(t->rpc));
}

static void both_sides_send(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    say(&t, "one");
    until(loop, t.got == 1);
    assert_string_equal(t.last, "one");
    for (int i = 0; i < 20; i++)
        say(&t, "more");
    until(loop, t.got == 21);
    until(loop, t.sent == 21); /* the last answer may be here before its message is known to be sent */
    rpc_write_end(t.rpc);
    until(loop, t.over);
    assert_int_equal(t.status, GRPC_STATUS_OK);
}

/* What is sent to a call on hold stays with the client, and comes when it is let go on. */
static void a_call_on_hold_gets_nothing(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    say(&t, "hold");
    until(loop, t.got == 1);
    say(&t, "later");
    until(loop, t.sent == 2);
    say(&t, "last");
    (void)call_with(ECHO, "x", 1, TIME_NEVER); /* others are served meanwhile */
    assert_int_equal(both_got, 1);
    rpc_hold(both, false);
    until(loop, t.got == 3);
    assert_string_equal(t.last, "last");
    rpc_cancel(t.rpc);
    until(loop, both_ended);
}

static void a_stream_may_end_with_an_error(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    say(&t, "fail");
    until(loop, t.over);
    assert_int_equal(t.status, GRPC_STATUS_ABORTED);
    talk_open(&t);
    rpc_write_end(t.rpc);
    until(loop, t.over);
    assert_int_equal(t.status, GRPC_STATUS_OK);
}

#define MESSAGES 2000u
#define CLOSINGS 20

/* A client closes while messages wait in its loop, none of which it asks to follow any more. */
static void a_client_may_close_in_the_midst_of_messages(void **state)
{
    static const struct rpc_fns talk_fns = {.reply = talk_reply, .done = talk_done};
    static char request[MESSAGES];

    (void)state;
    memset(request, 'x', sizeof request);
    for (int i = 0; i < CLOSINGS; i++) {
        struct loop *own = loop_new(LOOP_NET);
        struct channel *ch = channel_new(own, server_addr(server, 0), NULL);
        struct talk t = {0};

        rpc_start(ch, STREAM, request, sizeof request, UNTIL_US, false, &talk_fns, &t);
        int64_t end_us = loop_now(loop) + UNTIL_US;

        while (t.got == 0 && loop_now(loop) < end_us) {
            loop_once(loop, loop_now(loop) + 1000);
            loop_once(own, loop_now(own) + 1000);
        }
        assert_true(t.got > 0);
        unsigned got = t.got;

        channel_free(ch);
        loop_free(own);
        assert_int_equal(t.got, got);
    }
}

/* A client of another make: it says gzip, and sends what is not. */
struct garbler {
    struct cq_tag sent_tag, over_tag;
    bool sent, over;
};

static void garbage_sent(void *arg, bool ok) { ((struct garbler *)arg)->sent = true; }

static void garbler_over(void *arg, bool ok) { ((struct garbler *)arg)->over = true; }

static void send_garbage(struct garbler *g, grpc_call *call)
{
    grpc_metadata gzip = net_metadata_new("grpc-encoding", "gzip");
    grpc_slice bytes = grpc_slice_from_static_string("no gzip");
    grpc_byte_buffer *message = grpc_raw_compressed_byte_buffer_create(&bytes, 1, GRPC_COMPRESS_GZIP);
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA, .data.send_initial_metadata = {.count = 1, .metadata = &gzip}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message}};

    cq_tag_init(&g->sent_tag, garbage_sent, g);
    net_batch(call, ops, 2, &g->sent_tag);
    until(loop, g->sent);
    grpc_byte_buffer_destroy(message);
    net_metadata_drop(&gzip, 1);
}

static void who_handles_a_stream_is_told_of_a_message_nobody_can_read(void **state)
{
    grpc_channel *to = net_channel(server_addr(server, 0), true, NET_KEEPALIVE_MS, NET_KEEPALIVE_TIMEOUT_MS);
    grpc_call *call = grpc_channel_create_call(to, NULL, GRPC_PROPAGATE_DEFAULTS, loop_cq(loop),
                                               grpc_slice_from_static_string(BOTH), NULL,
                                               gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_op over = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
    struct garbler g = {0};

    (void)state;
    both = NULL;
    grpc_metadata_array_init(&trailing);
    over.data.recv_status_on_client.trailing_metadata = &trailing;
    over.data.recv_status_on_client.status = &code;
    over.data.recv_status_on_client.status_details = &details;
    cq_tag_init(&g.over_tag, garbler_over, &g);
    net_batch(call, &over, 1, &g.over_tag);
    send_garbage(&g, call);
    until(loop, both && (both_ended || cancelled_n == 1));
    assert_int_equal(both_got, 0);
    grpc_call_cancel(call, NULL);
    until(loop, g.over);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(details);
    grpc_call_unref(call);
    grpc_channel_destroy(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_gets_its_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(a_big_request_and_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_carries_its_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_may_come_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_ends_at_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_method_is_unimplemented, setup, teardown),
        cmocka_unit_test_teardown(a_request_beyond_the_limit_is_refused, teardown),
        cmocka_unit_test_teardown(the_token_is_asked_of_every_call, teardown),
        cmocka_unit_test_teardown(a_clients_token_opens_no_link, teardown),
        cmocka_unit_test_teardown(one_token_is_everybodys, teardown),
        cmocka_unit_test_teardown(calls_beyond_the_limit_are_refused, teardown),
        cmocka_unit_test_teardown(replies_of_all_calls_are_bounded, teardown),
        cmocka_unit_test_setup_teardown(many_calls_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_arrives_in_order_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_waits_for_its_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_goes_away_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_stops_ends_its_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_stops_gives_its_last_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_for_a_server_or_not, setup, teardown),
        cmocka_unit_test_setup_teardown(both_sides_send, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_on_hold_gets_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_may_end_with_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_may_close_in_the_midst_of_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(who_handles_a_stream_is_told_of_a_message_nobody_can_read, setup,
                                        teardown),
        cmocka_unit_test(over_a_unix_socket),
        cmocka_unit_test(statuses_and_errors_agree),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
