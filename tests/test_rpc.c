/* net/server and net/rpc: calls of the API, unary and streaming, from both sides. */
#include "tests/test_rpc.h"

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

/* The client does not send it: the server would cut the connection. */
static void a_request_beyond_every_limit_is_not_sent(void **state)
{
    uint8_t *big = calloc(1, NET_MESSAGE_BYTES + 1);

    (void)state;
    assert_int_equal(call_with(ECHO, big, NET_MESSAGE_BYTES + 1, UNTIL_US), HAWK_ELIMIT);
    assert_int_equal(status, GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(text, "larger than max (104857601 vs. 104857600)"));
    assert_int_equal(call(ECHO, "x"), 0);
    free(big);
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

static void a_reply_may_come_later(void **state)
{
    struct called w;

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
    if (held_n) {                      /* it may have come too late to reach the server */
        rpc_reply(held[0], "late", 4); /* harmless */
    }
}

static void calls_beyond_the_limit_are_refused(void **state)
{
    struct called w[3];

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
    static struct called w[CALLS];
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
    struct called w = {0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_gets_its_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(a_big_request_and_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_carries_its_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_may_come_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_ends_at_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_method_is_unimplemented, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_beyond_every_limit_is_not_sent, setup, teardown),
        cmocka_unit_test_teardown(a_request_beyond_the_limit_is_refused, teardown),
        cmocka_unit_test_teardown(the_token_is_asked_of_every_call, teardown),
        cmocka_unit_test_teardown(a_clients_token_opens_no_link, teardown),
        cmocka_unit_test_teardown(one_token_is_everybodys, teardown),
        cmocka_unit_test_teardown(calls_beyond_the_limit_are_refused, teardown),
        cmocka_unit_test_setup_teardown(many_calls_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_for_a_server_or_not, setup, teardown),
        cmocka_unit_test(over_a_unix_socket),
        cmocka_unit_test(statuses_and_errors_agree),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
