/* Links that are refused or given up: tokens, limits, versions, garbage. */
#include "tests/test_net_fixture.h"

/* ---- Refusals ---- */

static void a_wrong_token_gets_no_link(void **state)
{
    const char *tokens[] = {NULL, "wrong", "secret-of-client", TOKEN TOKEN, TOKEN " "};
    const char *addr;

    (void)state;
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    addr = listen_with(&central, "127.0.0.1:0", (struct server_config){.token = TOKEN});
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        side_open(&worker, ROLE_WORKER, "w1", tokens[i]);
        link_dial(worker.links, addr, "central");
        loop_once(loop, loop_now(loop) + 20000);
        loop_once(loop, loop_now(loop) + 20000);
        assert_int_equal(worker.ups + central.ups, 0);
        side_close(&worker);
    }
    side_open(&worker, ROLE_WORKER, "w1", TOKEN);
    link_dial(worker.links, addr, "central");
    until(loop, worker.ups == 1 && central.ups == 1);
    disconnect();
}

/* What is not to happen would have happened by then. */
static void turn_for(int64_t us)
{
    int64_t end_us = loop_now(loop) + us;

    while (loop_now(loop) < end_us)
        loop_once(loop, end_us);
}

static void a_link_meant_for_another_node_is_refused(void **state)
{
    const char *addr;
    struct link *stale;

    (void)state;
    side_open(&central, ROLE_WORKER, "w2", NULL);
    side_open(&worker, ROLE_DIST, "d1", NULL);
    addr = listen_on(&central, "127.0.0.1:0");
    stale = link_dial_node(worker.links, addr, "worker 5", (node_id_t){5});
    until(loop, worker.ups == 1); /* before the listener has an id anybody may come */
    links_set_node(central.links, (node_id_t){7});
    link_break(stale, HAWK_ESTALE, "again");
    until(loop, worker.losts == 1 && central.losts == 1);
    link_dial_node(worker.links, addr, "worker 7", (node_id_t){7});
    until(loop, worker.ups == 2);
    turn_for(4 * BACKOFF_MIN_US); /* the stale one has dialled again */
    assert_int_equal(central.ups, 2);
    assert_false(link_is_up(stale));
    disconnect();
}

static void links_beyond_the_limit_are_refused(void **state)
{
    struct link_config c = {.role = ROLE_CENTRAL, .name = "c", .max_accepted = 1};
    struct link *first;

    (void)state;
    central = (struct side){.in_order = true};
    central.links = links_new(loop, &c, &fns, &central);
    side_open(&worker, ROLE_WORKER, "w1", NULL);
    first = link_dial(worker.links, listen_on(&central, "127.0.0.1:0"), "central");
    until(loop, worker.ups == 1);
    link_dial(worker.links, server_addr(central.server, 0), "central");
    turn_for(200 * US_PER_MS);
    assert_int_equal(worker.ups, 1);
    link_close(first);
    until(loop, worker.ups == 2); /* the second one's turn */
    disconnect();
}

#define LITTLE_ROOM 16384u

static void connect_with_little_room(void)
{
    struct link_config c = {.role = ROLE_WORKER, .name = "w1", .pending_bytes = LITTLE_ROOM};

    side_open(&central, ROLE_CENTRAL, "c", NULL);
    worker = (struct side){.in_order = true};
    worker.links = links_new(loop, &c, &fns, &worker);
    link_dial(worker.links, listen_on(&central, "127.0.0.1:0"), "central");
    until(loop, worker.link && central.link);
}

static void a_peer_that_does_not_keep_up_is_lost(void **state)
{
    int err = 0;

    (void)state;
    connect_with_little_room();
    for (uint32_t i = 1; !err && i < 100000; i++)
        err = send_seq(worker.link, i);
    assert_int_equal(err, HAWK_ELIMIT);
    assert_int_equal(send_seq(worker.link, 1), HAWK_EUNAVAILABLE);
    assert_int_equal(worker.losts, 0); /* told from the loop, not from within the call */
    until(loop, worker.losts == 1 && central.losts == 1);
    assert_int_equal(central.msgs, 0);
    assert_string_equal(worker.said, "up:central:0:c lost:LIMIT");
    disconnect();
}

/* What one step has to say may be more, and arrives. */
static void a_burst_is_not_the_peers_fault(void **state)
{
    uint32_t sent = 0;

    (void)state;
    connect_with_little_room();
    while (sent < 2000)
        assert_int_equal(send_seq(worker.link, ++sent), 0);
    until(loop, central.msgs == sent);
    assert_int_equal(worker.losts, 0);
    disconnect();
}

/* The messages of a burst share what they carry, so their sum is no limit: a dist that joins offers all its jobs. */
static void a_burst_of_large_messages_arrives(void **state)
{
    struct msg m = {.type = MSG_TASK_LAUNCH};
    uint32_t sent = 0;

    (void)state;
    connect_with_little_room();
    m.task_launch.id = (struct try_id){.job = {UINT64_C(1) << 40 | 1}, .epoch = 1, .attempt = 1};
    m.task_launch.arg = blob_new(NULL, LITTLE_ROOM);
    for (; sent < 200; sent += 2) {
        assert_int_equal(link_send(worker.link, &m), 0);
        assert_int_equal(send_seq(worker.link, sent / 2 + 1), 0);
    }
    blob_drop(m.task_launch.arg);
    until(loop, central.msgs + central.large == sent);
    assert_int_equal(worker.losts, 0);
    disconnect();
}

/* What waits when a link is closed in order still arrives. */
static void a_burst_arrives_before_its_link_is_closed(void **state)
{
    struct msg m = {.type = MSG_TASK_LAUNCH};

    (void)state;
    connect_with_little_room();
    m.task_launch.id = (struct try_id){.job = {UINT64_C(1) << 40 | 1}, .epoch = 1, .attempt = 1};
    m.task_launch.arg = blob_new(NULL, LITTLE_ROOM);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(link_send(worker.link, &m), 0);
    blob_drop(m.task_launch.arg);
    link_close(worker.link);
    until(loop, central.losts == 1);
    assert_int_equal(central.large, 100);
    disconnect();
}

static void a_message_beyond_the_limit_breaks_the_link_only(void **state)
{
    (void)state;
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    side_open(&worker, ROLE_WORKER, "w1", NULL);
    link_dial(worker.links,
              listen_with(&central, "127.0.0.1:0", (struct server_config){.max_message_bytes = 10000}),
              "central");
    until(loop, worker.link && central.link);
    send_upto(worker.link, 1, 5000);
    until(loop, worker.losts == 1 && central.losts == 1);
    assert_int_equal(central.msgs, 0);
    until(loop, worker.link && central.link);
    send_upto(worker.link, 1, 2);
    until(loop, central.msgs == 2);
    disconnect();
}

/* Nothing is left of what a broken link did not send: its next stream sends a message for each that it is given. */
static void a_broken_link_begins_anew(void **state)
{
    struct msg m = {.type = MSG_TASK_LAUNCH};
    uint64_t before;

    (void)state;
    connect_over("127.0.0.1:0");
    m.task_launch.id = (struct try_id){.job = {UINT64_C(1) << 40 | 1}, .epoch = 1, .attempt = 1};
    m.task_launch.arg = blob_new(NULL, 2 * LINK_BATCH_BYTES);
    assert_int_equal(link_send(worker.link, &m), 0);
    blob_drop(m.task_launch.arg);
    link_break(worker.link, HAWK_EINVALID, "enough");
    until(loop, worker.losts == 1 && central.losts == 1);
    until(loop, worker.link && central.link);
    before = links_counters(worker.links)->messages_sent;
    for (uint32_t seq = 1; seq <= 10; seq++) {
        assert_int_equal(send_seq(worker.link, seq), 0);
        until(loop, central.msgs == seq);
    }
    assert_int_equal(links_counters(worker.links)->messages_sent - before, 10);
    assert_int_equal(central.large, 0);
    disconnect();
}

/* ---- Garbage ---- */

static void send_raw(const char *addr, const void *data, size_t len)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(addr_port(addr)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    (void)!send(fd, data, len, MSG_NOSIGNAL);
    for (int i = 0; i < 20; i++)
        loop_once(loop, loop_now(loop) + 500);
    close(fd);
}

static void garbage_on_the_port_harms_nobody(void **state)
{
    static const char http1[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint8_t junk[4096];
    uint64_t x = 4711;

    (void)state;
    connect_over("127.0.0.1:0");
    for (size_t i = 0; i < sizeof junk; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        junk[i] = (uint8_t)(x >> 56);
    }
    send_raw(server_addr(central.server, 0), junk, sizeof junk);
    send_raw(server_addr(central.server, 0), http1, sizeof http1 - 1);
    memcpy(junk, preface, sizeof preface - 1);
    send_raw(server_addr(central.server, 0), junk, sizeof junk);
    send_raw(server_addr(central.server, 0), preface, sizeof preface - 1);
    send_upto(worker.link, 1, 3);
    until(loop, central.msgs == 3);
    assert_int_equal(central.losts + worker.losts, 0);
    disconnect();
}

/* A link's call made by hand: with these metadata, sending these bytes. */
struct raw_link {
    grpc_channel *channel;
    grpc_call *call;
    grpc_byte_buffer *message;
    grpc_metadata_array metadata, trailing;
    grpc_status_code status;
    grpc_slice details;
    struct cq_tag sent, ended;
    bool is_sent, is_ended;
};

static void on_raw_sent(void *arg, bool ok)
{
    (void)ok;
    ((struct raw_link *)arg)->is_sent = true;
}

static void on_raw_ended(void *arg, bool ok)
{
    (void)ok;
    ((struct raw_link *)arg)->is_ended = true;
}

/* data NULL: sends nothing. What the other side sends stays unread. */
static void raw_open(struct raw_link *r, const char *addr, grpc_metadata *md, size_t n, const void *data,
                     size_t len)
{
    grpc_op send[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                       {.op = GRPC_OP_RECV_INITIAL_METADATA},
                       {.op = GRPC_OP_SEND_MESSAGE}};
    grpc_op end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};

    *r = (struct raw_link){.details = grpc_empty_slice()};
    r->channel = net_channel(addr, &(struct net_dial){.own_connection = true,
                                                      .keepalive_ms = NET_KEEPALIVE_MS,
                                                      .timeout_ms = NET_KEEPALIVE_TIMEOUT_MS});
    r->call = grpc_channel_create_call(r->channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop_cq(loop),
                                       grpc_slice_from_static_string("/hawk.v1.Peer/Link"), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    r->message = net_message(data, len);
    grpc_metadata_array_init(&r->metadata);
    grpc_metadata_array_init(&r->trailing);
    cq_tag_init(&r->sent, on_raw_sent, r);
    cq_tag_init(&r->ended, on_raw_ended, r);
    send[0].data.send_initial_metadata.metadata = md;
    send[0].data.send_initial_metadata.count = n;
    send[1].data.recv_initial_metadata.recv_initial_metadata = &r->metadata;
    send[2].data.send_message.send_message = r->message;
    end.data.recv_status_on_client.trailing_metadata = &r->trailing;
    end.data.recv_status_on_client.status = &r->status;
    end.data.recv_status_on_client.status_details = &r->details;
    net_batch(r->call, &end, 1, &r->ended);
    net_batch(r->call, send, data ? 3 : 2, &r->sent);
}

static grpc_status_code raw_end(struct raw_link *r, grpc_metadata *md, size_t n)
{
    until(loop, r->is_sent && r->is_ended);
    grpc_call_unref(r->call);
    grpc_channel_destroy(r->channel);
    grpc_byte_buffer_destroy(r->message);
    grpc_metadata_array_destroy(&r->metadata);
    grpc_metadata_array_destroy(&r->trailing);
    grpc_slice_unref(r->details);
    net_metadata_drop(md, n);
    return r->status;
}

static grpc_status_code raw_link(const char *addr, grpc_metadata *md, size_t n, const void *data, size_t len)
{
    struct raw_link r;

    raw_open(&r, addr, md, n, data, len);
    return raw_end(&r, md, n);
}

/* A burst is taken, but not kept for long for a peer that is alive and reads nothing. */
static void a_peer_that_takes_nothing_for_a_while_is_lost(void **state)
{
    struct link_config c = {.role = ROLE_CENTRAL, .name = "c", .pending_bytes = 1u << 20};
    struct msg m = {.type = MSG_TASK_LAUNCH};
    grpc_metadata md[3] = {net_metadata_new("hawk-version", "1"), net_metadata_new("hawk-role", "worker"),
                           net_metadata_new("hawk-node", "0")};
    struct raw_link r;
    int64_t end_us;
    int err = 0;

    (void)state;
    central = (struct side){.in_order = true};
    central.links = links_new(loop, &c, &fns, &central);
    raw_open(&r, listen_on(&central, "127.0.0.1:0"), md, 3, NULL, 0);
    until(loop, central.link);
    m.task_launch.id = (struct try_id){.job = {UINT64_C(1) << 40 | 1}, .epoch = 1, .attempt = 1};
    m.task_launch.arg = blob_new(NULL, 200000);
    for (int i = 0; i < 60; i++) /* far more than gRPC takes, and less than the most that a burst may be */
        assert_int_equal(link_send(central.link, &m), 0);
    blob_drop(m.task_launch.arg);
    end_us = loop_now(loop) + UNTIL_US;
    while (!err && loop_now(loop) < end_us) {
        loop_once(loop, loop_now(loop) + 50 * US_PER_MS);
        err = send_seq(central.link, 1);
    }
    assert_int_equal(err, HAWK_ELIMIT);
    until(loop, central.losts == 1);
    assert_string_equal(central.said, "up:worker:0: lost:LIMIT");
    grpc_call_cancel(r.call, NULL);
    assert_int_not_equal(raw_end(&r, md, 3), GRPC_STATUS_OK);
    side_close(&central);
}

static void garbage_on_a_link_ends_that_link_only(void **state)
{
    uint8_t junk[200];
    const char *addr;
    grpc_metadata md[4];

    (void)state;
    connect_over("127.0.0.1:0");
    addr = server_addr(central.server, 0);
    for (int round = 0; round < 8; round++) {
        memset(junk, 0xa0 + round * 11, sizeof junk);
        md[0] = net_metadata_new("hawk-version", "1");
        md[1] = net_metadata_new("hawk-role", "worker");
        md[2] = net_metadata_new("hawk-node", "0");
        md[3] = net_metadata_new("hawk-name", "mallory");
        assert_int_not_equal(raw_link(addr, md, 4, junk, sizeof junk), GRPC_STATUS_OK);
        until(loop, central.losts == (unsigned)round + 1);
    }
    assert_non_null(strstr(central.said, "up:worker:0:mallory lost:MALFORMED"));
    send_upto(worker.link, 1, 3);
    until(loop, central.msgs == 3);
    assert_int_equal(worker.losts, 0);
    disconnect();
}

static void a_link_without_a_proper_greeting_is_refused(void **state)
{
    static const char *const greetings[][3] = {
        {"", "worker", "1"},  {"1", "queen", "1"},         {"1", "worker", "-1"},
        {"0", "worker", "1"}, {"1", "worker", "16777216"},
    };
    grpc_metadata md[3];

    (void)state;
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    listen_on(&central, "127.0.0.1:0");
    for (size_t i = 0; i < sizeof greetings / sizeof greetings[0]; i++) {
        md[0] = net_metadata_new("hawk-version", greetings[i][0]);
        md[1] = net_metadata_new("hawk-role", greetings[i][1]);
        md[2] = net_metadata_new("hawk-node", greetings[i][2]);
        assert_int_equal(raw_link(server_addr(central.server, 0), md, 3, "", 0),
                         GRPC_STATUS_INVALID_ARGUMENT);
    }
    assert_int_equal(central.ups, 0);
    side_close(&central);
}

/* ---- Versions ---- */

/* A link between two versions is spoken in the lower one: nothing the older side has not got leaves, in either
 * direction, and everything else is in order. */
static void links_of_two_versions_speak_the_lower(void **state)
{
    const struct msg draining = {.type = MSG_DRAINING};

    (void)state;
    for (int older = 0; older < 2; older++) { /* who: the dialling, the accepting side */
        side_open_version(&central, ROLE_CENTRAL, "c", NULL, older == 1 ? 1 : 0);
        side_open_version(&worker, ROLE_WORKER, "w1", NULL, older == 0 ? 1 : 0);
        link_dial(worker.links, listen_on(&central, "127.0.0.1:0"), "central");
        until(loop, central.ups == 1 && worker.ups == 1);
        assert_int_equal(link_version(central.link), 1);
        assert_int_equal(link_version(worker.link), 1);
        for (uint32_t seq = 1; seq <= 3; seq++) {
            assert_int_equal(link_send(central.link, &draining), 0);
            assert_int_equal(send_seq(central.link, seq), 0);
            assert_int_equal(link_send(worker.link, &draining), 0);
            assert_int_equal(send_seq(worker.link, seq), 0);
        }
        until(loop, central.msgs == 3 && worker.msgs == 3); /* on_msg: heartbeats only */
        assert_true(central.in_order && worker.in_order);
        assert_int_equal(links_counters(worker.links)->envelopes_sent, 3);
        assert_int_equal(links_counters(central.links)->envelopes_sent, 3);
        disconnect();
    }
}

/* What a newer peer says and we don't know is skipped; the link lives, and is spoken in our version. */
static void a_newer_peer_is_understood_as_far_as_it_goes(void **state)
{
    /* Two envelopes: message 3000, and a heartbeat with sequence number 1 and a field 77. */
    static const uint8_t batch[] = {10, 7, 0xc2, 0xbb, 1, 3, 'n', 'e', 'w', 10, 7, 34, 5, 8, 1, 0xe8, 4, 5};
    grpc_metadata md[4];

    (void)state;
    connect_over("127.0.0.1:0");
    central.break_at = 1;
    md[0] = net_metadata_new("hawk-version", "9");
    md[1] = net_metadata_new("hawk-role", "worker");
    md[2] = net_metadata_new("hawk-node", "0");
    md[3] = net_metadata_new("hawk-name", "newer");
    raw_link(server_addr(central.server, 0), md, 4, batch, sizeof batch);
    until(loop, central.losts == 1);
    assert_non_null(strstr(central.said, "up:worker:0:newer 1 lost:INVALID"));
    disconnect();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_token_gets_no_link),
        cmocka_unit_test(a_link_meant_for_another_node_is_refused),
        cmocka_unit_test(links_beyond_the_limit_are_refused),
        cmocka_unit_test(a_peer_that_does_not_keep_up_is_lost),
        cmocka_unit_test(a_burst_is_not_the_peers_fault),
        cmocka_unit_test(a_burst_of_large_messages_arrives),
        cmocka_unit_test(a_burst_arrives_before_its_link_is_closed),
        cmocka_unit_test(a_peer_that_takes_nothing_for_a_while_is_lost),
        cmocka_unit_test(a_message_beyond_the_limit_breaks_the_link_only),
        cmocka_unit_test(a_broken_link_begins_anew),
        cmocka_unit_test(garbage_on_the_port_harms_nobody),
        cmocka_unit_test(garbage_on_a_link_ends_that_link_only),
        cmocka_unit_test(a_link_without_a_proper_greeting_is_refused),
        cmocka_unit_test(links_of_two_versions_speak_the_lower),
        cmocka_unit_test(a_newer_peer_is_understood_as_far_as_it_goes),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
