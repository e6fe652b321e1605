/* net/link and what a server does for links: conversations between two daemons' links over loopback and unix sockets,
 * a peer that is killed or stopped, garbage on the port and on a stream, limits. */
#include "tests/test_net.h"

#include "net/core.h"

#include <arpa/inet.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/hawk-test-net-XXXXXX";
static char unix_addr[64];

/* ---- Conversations ---- */

/* How many messages the worker has sent then. */
static uint64_t connect_and_send_one(void)
{
    connect_over("127.0.0.1:0");
    send_upto(worker.link, 1, 1);
    until(loop, central.msgs == 1);
    return links_counters(worker.links)->messages_sent;
}

/* What can wait leaves with what cannot, before it; or when enough has gathered, also after a send. */
static void what_can_wait(void **state)
{
    struct msg m = {.type = MSG_HEARTBEAT};
    uint64_t sent = connect_and_send_one();

    (void)state;
    for (m.heartbeat.seq = 2; m.heartbeat.seq <= 10; m.heartbeat.seq++) {
        assert_int_equal(link_send_later(worker.link, &m), 0);
        loop_once(loop, loop_now(loop));
    }
    assert_int_equal(links_counters(worker.links)->messages_sent, sent);
    send_upto(worker.link, 11, 11);
    until(loop, central.msgs == 11);
    assert_int_equal(links_counters(worker.links)->messages_sent, sent + 1);
    for (m.heartbeat.seq = 12; m.heartbeat.seq <= 10000; m.heartbeat.seq++)
        assert_int_equal(link_send_later(worker.link, &m), 0);
    until(loop, central.msgs >= 9000);
    link_close(worker.link); /* takes the rest along */
    until(loop, central.losts == 1);
    assert_int_equal(central.msgs, 10000);
    assert_true(central.in_order);
    disconnect();
}

/* What is sent soon shares a message with what is sent after it, and leaves without that as well. */
static void what_leaves_soon(void **state)
{
    struct msg m = {.type = MSG_HEARTBEAT};
    uint64_t sent = connect_and_send_one();

    (void)state;
    for (m.heartbeat.seq = 2; m.heartbeat.seq <= 3; m.heartbeat.seq++)
        assert_int_equal(link_send_soon(worker.link, &m), 0);
    send_upto(worker.link, 4, 4);
    until(loop, central.msgs == 4);
    assert_int_equal(links_counters(worker.links)->messages_sent, sent + 1);
    for (m.heartbeat.seq = 5; m.heartbeat.seq <= 6; m.heartbeat.seq++)
        assert_int_equal(link_send_soon(worker.link, &m), 0);
    until(loop, central.msgs == 6);
    for (m.heartbeat.seq = 7; m.heartbeat.seq <= 1000; m.heartbeat.seq++) {
        assert_int_equal(link_send_soon(worker.link, &m), 0);
        loop_once(loop, loop_now(loop));
    }
    until(loop, central.msgs == 1000);
    assert_int_equal(link_send_soon(worker.link, &m), 0);
    link_break(worker.link, HAWK_EMALFORMED, "by the test"); /* with something that was to leave soon */
    until(loop, worker.losts == 1 && central.losts == 1 && worker.ups == 2);
    assert_true(central.in_order);
    disconnect();
}

static void a_conversation(const char *addr)
{
    connect_over(addr);
    assert_true(link_is_dialled(worker.link) && !link_is_dialled(central.link));
    central.echo = true;
    send_upto(worker.link, 1, 3);
    until(loop, worker.msgs == 3);
    link_close(worker.link);
    until(loop, central.losts == 1);
    assert_string_equal(central.said, "up:worker:7:w1 1 2 3 lost:SHUTDOWN");
    assert_string_equal(worker.said, "up:central:0:c 1 2 3");
    disconnect();
    assert_int_equal(worker.losts, 0); /* who closes a link is not told of it */
}

static void over_loopback(void **state)
{
    (void)state;
    a_conversation("127.0.0.1:0");
}
static void over_ipv6(void **state)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sa, sizeof sa);

    (void)state;
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        skip();
    a_conversation("[::1]:0");
}
static void over_localhost(void **state)
{
    (void)state;
    a_conversation("localhost:0");
}
static void over_a_unix_socket(void **state)
{
    (void)state;
    a_conversation(unix_addr);
}

static void numbers_are_never_reused(void **state)
{
    uint32_t seen = 0;

    (void)state;
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    side_open(&worker, ROLE_WORKER, "w1", NULL);
    listen_on(&central, "127.0.0.1:0");
    for (unsigned i = 1; i <= 3; i++) {
        struct link *k = link_dial(worker.links, server_addr(central.server, 0), "central");
        until(loop, central.ups == i && worker.ups == i);
        assert_true(link_number(central.link) > seen);
        seen = link_number(central.link);
        link_close(k);
        until(loop, central.losts == i);
    }
    disconnect();
}

static void what_gathers_while_a_send_is_under_way_leaves_as_one_message(void **state)
{
    const uint32_t turns = 200, burst = 50;
    const struct link_counters *c;

    (void)state;
    connect_over("127.0.0.1:0");
    for (uint32_t i = 0; i < turns; i++) {
        send_upto(worker.link, i * burst + 1, (i + 1) * burst);
        loop_once(loop, 0);
    }
    until(loop, central.msgs == turns * burst);
    assert_true(central.in_order);
    c = links_counters(worker.links);
    assert_int_equal(c->envelopes_sent, turns * burst);
    assert_true(c->messages_sent <= turns);
    assert_int_equal(c->messages_sent, links_counters(central.links)->messages_received);
    assert_int_equal(c->bytes_sent, links_counters(central.links)->bytes_received);
    assert_int_equal(links_counters(central.links)->envelopes_received, turns * burst);
    disconnect();
}

static void a_big_burst_leaves_in_several_messages(void **state)
{
    const uint32_t n = 300000;

    (void)state;
    connect_over("127.0.0.1:0");
    send_upto(worker.link, 1, n);
    until(loop, central.msgs == n);
    assert_true(central.in_order);
    assert_true(links_counters(worker.links)->messages_sent >=
                links_counters(worker.links)->bytes_sent / LINK_BATCH_BYTES);
    assert_true(links_counters(worker.links)->messages_sent <=
                links_counters(worker.links)->bytes_sent / LINK_BATCH_BYTES + 2);
    disconnect();
}

/* A payload of 200 kB among small messages: these share a message before it and one behind it, and it has its own. */
static void what_is_large_goes_by_itself(void **state)
{
    const uint32_t large = 20, small = 50;
    struct msg m = {.type = MSG_TASK_LAUNCH};
    const struct link_counters *c;
    uint64_t before;

    (void)state;
    connect_over("127.0.0.1:0");
    m.task_launch.id = (struct try_id){.job = {UINT64_C(1) << 40 | 1}, .epoch = 1, .attempt = 1};
    m.task_launch.arg = blob_new(NULL, 200000);
    c = links_counters(worker.links);
    before = c->messages_sent;
    for (uint32_t i = 0; i < large; i++) {
        send_upto(worker.link, i * small + 1, (i + 1) * small);
        assert_int_equal(link_send(worker.link, &m), 0);
    }
    until(loop, central.msgs == large * small && central.large == large);
    assert_int_equal(c->messages_sent - before,
                     2 * large); /* each its own, and the small ones before it theirs */
    blob_drop(m.task_launch.arg);
    disconnect();
}

static void closing_sends_what_is_pending_first(void **state)
{
    (void)state;
    connect_over(unix_addr);
    send_upto(worker.link, 1, 1000);
    link_close(worker.link);
    until(loop, central.losts == 1);
    assert_int_equal(central.msgs, 1000);
    disconnect();

    /* The same from the accepting side, by links_free. */
    connect_over(unix_addr);
    send_upto(central.link, 1, 1000);
    server_set_links(central.server, NULL);
    links_free(central.links, CLOSE_US);
    central.links = NULL;
    until(loop, worker.losts == 1);
    assert_int_equal(worker.msgs, 1000);
    assert_string_equal(worker.why, "closed by the peer");
    disconnect();
}

static void closing_a_link_within_its_message_ends_the_delivery(void **state)
{
    (void)state;
    connect_over("127.0.0.1:0");
    central.close_at = 3;
    send_upto(worker.link, 1, 10);
    until(loop, worker.losts == 1);
    assert_string_equal(central.said, "up:worker:7:w1 1 2 3");
    central.close_at = 0;
    until(loop, worker.ups == 2); /* a dialled link connects again */
    disconnect();
}

static void breaking_a_link_tells_both_sides(void **state)
{
    (void)state;
    connect_over("127.0.0.1:0");
    central.break_at = 3;
    send_upto(worker.link, 1, 10);
    until(loop, worker.losts == 1 && central.losts == 1);
    assert_string_equal(central.said, "up:worker:7:w1 1 2 3 lost:INVALID");
    assert_string_equal(central.why, "enough");
    until(loop, worker.ups == 2 && central.ups == 2);
    disconnect();
}

/* ---- Losing and finding each other ---- */

static void a_dialled_link_waits_for_its_peer_and_finds_it_again(void **state)
{
    char addr[64];
    int wave;

    (void)state;
    side_open(&central, ROLE_CENTRAL, "c", NULL);
    snprintf(addr, sizeof addr, "%s", listen_on(&central, "127.0.0.1:0"));
    side_close(&central);
    side_open(&worker, ROLE_DIST, "d1", NULL);
    link_dial(worker.links, addr, "central");
    loop_once(loop, loop_now(loop) + BACKOFF_MIN_US);
    assert_string_equal(worker.said, "");
    for (wave = 1; wave <= 2; wave++) {
        side_open(&central, ROLE_CENTRAL, "c", NULL);
        listen_on(&central, addr);
        until(loop, worker.link && central.link);
        side_close(&central);
        until(loop, worker.losts == (unsigned)wave);
    }
    assert_string_equal(worker.said, "up:central:0:c lost:SHUTDOWN up:central:0:c lost:SHUTDOWN");
    side_close(&worker);
}

/* Of several centrals one is active, and then another; the rest listen and refuse. */
static void a_link_goes_round_its_addresses(void **state)
{
    struct side other;
    char addrs[200];

    (void)state;
    side_open(&central, ROLE_CENTRAL, "a", NULL);
    side_open(&other, ROLE_CENTRAL, "b", NULL);
    snprintf(addrs, sizeof addrs, "127.0.0.1:1,%s,", listen_on(&central, "127.0.0.1:0"));
    snprintf(addrs + strlen(addrs), sizeof addrs - strlen(addrs), "%s", listen_on(&other, "127.0.0.1:0"));
    server_set_links(central.server, NULL);
    server_refuse_links(central.server, "it stands by");
    side_open(&worker, ROLE_WORKER, "w1", NULL);
    link_dial(worker.links, addrs, "central");
    until(loop, worker.link && other.link);
    assert_string_equal(link_addr(worker.link), server_addr(other.server, 0));
    server_set_links(other.server, NULL);
    server_refuse_links(other.server, "it stands by");
    server_set_links(central.server, central.links);
    assert_int_equal(link_send(other.link, &(struct msg){.type = MSG_HEARTBEAT, .heartbeat.seq = 1}), 0);
    links_break(other.links, HAWK_ESHUTDOWN, "not the active one any more"); /* and what it had to say */
    until(loop, worker.link && central.link);
    assert_string_equal(link_addr(worker.link), server_addr(central.server, 0));
    assert_int_equal(worker.msgs, 0);
    assert_string_equal(worker.why, "not the active one any more");
    side_close(&worker);
    side_close(&other);
    side_close(&central);
}

static void a_server_that_stops_at_once_loses_its_links(void **state)
{
    (void)state;
    connect_over("127.0.0.1:0");
    server_free(central.server);
    central.server = NULL;
    until(loop, central.losts == 1 && worker.losts == 1);
    disconnect();
}

/* This program again, as a daemon of its own: it listens and writes its address to *addr (dial NULL), or dials. */
static pid_t peer_start(char *dial, char *addr, size_t size)
{
    char *argv[] = {(char[]){"test_net"}, (char[]){"--peer"}, dial, NULL};
    posix_spawn_file_actions_t fa;
    int fds[2];
    pid_t pid;
    ssize_t n;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, fds[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &fa, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&fa);
    close(fds[1]);
    n = read(fds[0], addr, size - 1);
    assert_true(n > 0);
    addr[n] = '\0';
    close(fds[0]);
    return pid;
}

static int peer_main(const char *dial)
{
    struct side s;

    loop = loop_new(LOOP_NET);
    side_open(&s, ROLE_WORKER, "victim", NULL);
    s.echo = true;
    printf("%s", dial ? dial : listen_on(&s, "127.0.0.1:0"));
    fflush(stdout);
    if (dial)
        link_dial(s.links, dial, "thief");
    loop_run(loop); /* until it is killed */
    return 0;
}

static void peer_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_killed_peer_is_lost_at_once(void **state)
{
    char addr[64];
    pid_t pid = peer_start(NULL, addr, sizeof addr);

    (void)state;
    side_open(&worker, ROLE_WORKER, "thief", NULL);
    link_dial(worker.links, addr, "victim");
    until(loop, worker.link);
    send_upto(worker.link, 1, 1);
    until(loop, worker.msgs == 1);
    peer_kill(pid);
    until(loop, worker.losts == 1);
    assert_string_equal(worker.said, "up:worker:0:victim 1 lost:UNAVAILABLE");
    side_close(&worker);
}

static void a_killed_dialler_is_lost_at_once(void **state)
{
    char addr[64];
    pid_t pid;

    (void)state;
    side_open(&worker, ROLE_WORKER, "thief", NULL);
    snprintf(addr, sizeof addr, "%s", listen_on(&worker, "127.0.0.1:0"));
    pid = peer_start(addr, addr, sizeof addr);
    until(loop, worker.link);
    send_upto(worker.link, 1, 1);
    until(loop, worker.msgs == 1);
    peer_kill(pid);
    until(loop, worker.losts == 1);
    assert_string_equal(worker.said, "up:worker:0:victim 1 lost:UNAVAILABLE");
    assert_string_equal(worker.why, "the connection was lost");
    side_close(&worker);
}

static void stopped_peers_are_lost_within_seconds(void **state)
{
    char addr[64], other[64];
    pid_t listener = peer_start(NULL, addr, sizeof addr), dialler;
    int64_t start;

    (void)state;
    side_open(&worker, ROLE_WORKER, "thief", NULL);
    link_dial(worker.links, addr, "victim");
    snprintf(addr, sizeof addr, "%s", listen_on(&worker, "127.0.0.1:0"));
    dialler = peer_start(addr, other, sizeof other);
    until(loop, worker.ups == 2);
    start = loop_now(loop);
    kill(listener, SIGSTOP);
    kill(dialler, SIGSTOP);
    until(loop, worker.losts == 2);
    /* 5 s is the aim (NET_KEEPALIVE_MS and NET_KEEPALIVE_TIMEOUT_MS); the rest is for a loaded machine. */
    assert_true(loop_now(loop) - start < 15 * US_PER_S);
    peer_kill(listener);
    peer_kill(dialler);
    side_close(&worker);
}

/* ---- Refusals ---- */

#define TOKEN "secret-of-clients"

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

static void connect_with_little_room(void)
{
    struct link_config c = {.role = ROLE_WORKER, .name = "w1", .pending_bytes = 4096};

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
    r->channel = net_channel(addr, true, NET_KEEPALIVE_MS, NET_KEEPALIVE_TIMEOUT_MS);
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

/* ---- Listening ---- */

static int listen_error(const char *addr, struct server_config c, char *why, size_t size)
{
    struct server *s = server_new(loop, &c);
    int err = server_listen(s, addr, why, size);

    server_free(s);
    return err;
}

static void a_port_in_use_is_an_error(void **state)
{
    struct side s;
    const char *addr;
    char why[256], localhost[64];

    (void)state;
    side_open(&s, ROLE_CENTRAL, "c", NULL);
    addr = listen_on(&s, "127.0.0.1:0");
    assert_true(addr_port(addr) != 0);
    assert_int_equal(listen_error(addr, (struct server_config){0}, why, sizeof why), HAWK_EEXISTS);
    assert_non_null(strstr(why, addr));
    assert_non_null(strstr(why, "in use"));
    /* Not an address of this machine. */
    snprintf(localhost, sizeof localhost, "192.0.2.1:%u", addr_port(addr));
    assert_int_equal(listen_error(localhost, (struct server_config){.insecure = true}, why, sizeof why),
                     HAWK_EIO);
    assert_non_null(strstr(why, "192.0.2.1"));
    side_close(&s);
}

static void addresses_beyond_this_machine_need_a_token_or_consent(void **state)
{
    char why[256] = "";

    (void)state;
    assert_int_equal(listen_error("0.0.0.0:0", (struct server_config){0}, why, sizeof why), HAWK_EDENIED);
    assert_non_null(strstr(why, "0.0.0.0:0"));
    assert_non_null(strstr(why, "token"));
    assert_int_equal(listen_error("0.0.0.0:0", (struct server_config){.token = TOKEN}, why, sizeof why), 0);
    assert_int_equal(listen_error("0.0.0.0:0", (struct server_config){.insecure = true}, why, sizeof why), 0);
    assert_int_equal(listen_error("nonsense", (struct server_config){0}, why, sizeof why), HAWK_EINVALID);
}

static void a_stale_unix_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const char *path = unix_addr + 5;
    char why[256];
    int fd;

    (void)state;
    /* Left by a server that was killed. */
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    close(fd);
    assert_int_equal(access(path, F_OK), 0);
    connect_over(unix_addr);
    assert_int_equal(listen_error(unix_addr, (struct server_config){0}, why, sizeof why), HAWK_EEXISTS);
    assert_non_null(strstr(why, path));
    send_upto(worker.link, 1, 1); /* and the live one has its path still */
    until(loop, central.msgs == 1);
    disconnect();
    assert_int_not_equal(access(path, F_OK), 0);

    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(listen_error(unix_addr, (struct server_config){0}, why, sizeof why), HAWK_EEXISTS);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    snprintf(why, sizeof why, "unix:%s/missing/x.sock", dir);
    assert_int_equal(listen_error(why, (struct server_config){0}, why + 128, sizeof why - 128), HAWK_EIO);
}

static int group_setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(unix_addr, sizeof unix_addr, "unix:%s/x.sock", dir);
    loop = loop_new(LOOP_NET);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    loop_free(loop);
    return rmdir(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_wait),
        cmocka_unit_test(what_leaves_soon),
        cmocka_unit_test(over_loopback),
        cmocka_unit_test(over_ipv6),
        cmocka_unit_test(over_localhost),
        cmocka_unit_test(over_a_unix_socket),
        cmocka_unit_test(numbers_are_never_reused),
        cmocka_unit_test(what_gathers_while_a_send_is_under_way_leaves_as_one_message),
        cmocka_unit_test(a_big_burst_leaves_in_several_messages),
        cmocka_unit_test(what_is_large_goes_by_itself),
        cmocka_unit_test(closing_sends_what_is_pending_first),
        cmocka_unit_test(closing_a_link_within_its_message_ends_the_delivery),
        cmocka_unit_test(breaking_a_link_tells_both_sides),
        cmocka_unit_test(a_dialled_link_waits_for_its_peer_and_finds_it_again),
        cmocka_unit_test(a_link_goes_round_its_addresses),
        cmocka_unit_test(a_server_that_stops_at_once_loses_its_links),
        cmocka_unit_test(a_killed_peer_is_lost_at_once),
        cmocka_unit_test(a_killed_dialler_is_lost_at_once),
        cmocka_unit_test(stopped_peers_are_lost_within_seconds),
        cmocka_unit_test(a_wrong_token_gets_no_link),
        cmocka_unit_test(a_link_meant_for_another_node_is_refused),
        cmocka_unit_test(links_beyond_the_limit_are_refused),
        cmocka_unit_test(a_peer_that_does_not_keep_up_is_lost),
        cmocka_unit_test(a_burst_is_not_the_peers_fault),
        cmocka_unit_test(a_peer_that_takes_nothing_for_a_while_is_lost),
        cmocka_unit_test(a_message_beyond_the_limit_breaks_the_link_only),
        cmocka_unit_test(garbage_on_the_port_harms_nobody),
        cmocka_unit_test(garbage_on_a_link_ends_that_link_only),
        cmocka_unit_test(a_link_without_a_proper_greeting_is_refused),
        cmocka_unit_test(links_of_two_versions_speak_the_lower),
        cmocka_unit_test(a_newer_peer_is_understood_as_far_as_it_goes),
        cmocka_unit_test(a_port_in_use_is_an_error),
        cmocka_unit_test(addresses_beyond_this_machine_need_a_token_or_consent),
        cmocka_unit_test(a_stale_unix_socket_is_replaced_and_a_live_one_is_not),
    };

    if (argc >= 2 && strcmp(argv[1], "--peer") == 0)
        return peer_main(argv[2]);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
