/* Streams of calls, in one direction and in both, and how they end. */
#include "tests/test_rpc.h"

/* ---- Streaming ---- */

static void a_stream_arrives_in_order_and_ends(void **state)
{
    struct called w;

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
    struct called w;

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
    struct called w;

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
    struct called w;

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
    struct called watched, plain;

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
    struct called answered;

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

static void talk_to(struct talk *t, const char *method)
{
    static const struct rpc_fns talk_fns = {.reply = talk_reply, .sent = talk_sent, .done = talk_done};

    *t = (struct talk){0};
    t->rpc = rpc_open(channel, method, &talk_fns, t);
}

static void talk_open(struct talk *t) { talk_to(t, BOTH); }

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

/* Nobody would read a second one, and the client could have much of it wait there as long as the call lasts. */
static void a_call_that_lasts_takes_one_request(void **state)
{
    struct talk t;

    (void)state;
    talk_to(&t, WATCH);
    say(&t, "watch");
    until(loop, held_n == 1);
    say(&t, "more");
    until(loop, t.over);
    assert_int_equal(t.status, GRPC_STATUS_INVALID_ARGUMENT);
    until(loop, cancelled_n == 1);
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

/* gRPC does not say whose such a call is: where that matters it is refused. */
static int setup_open(void **state)
{
    (void)state;
    serve((struct server_config){.insecure = true}, NULL);
    return 0;
}

static void who_handles_a_stream_is_told_of_a_message_nobody_can_read(void **state)
{
    grpc_channel *to =
        net_channel(server_addr(server, 0), &(struct net_dial){.own_connection = true,
                                                               .keepalive_ms = NET_KEEPALIVE_MS,
                                                               .timeout_ms = NET_KEEPALIVE_TIMEOUT_MS});
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
        cmocka_unit_test_teardown(replies_of_all_calls_are_bounded, teardown),
        cmocka_unit_test_setup_teardown(a_stream_arrives_in_order_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_waits_for_its_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_goes_away_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_stops_ends_its_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_stops_gives_its_last_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(both_sides_send, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_that_lasts_takes_one_request, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_on_hold_gets_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_may_end_with_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_may_close_in_the_midst_of_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(who_handles_a_stream_is_told_of_a_message_nobody_can_read, setup_open,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
