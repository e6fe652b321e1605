/* net/link and what a server does for links: conversations between two daemons' links over loopback and unix sockets,
 * a peer that is killed or stopped, garbage on the port and on a stream, limits. */
#include "tests/test_net_fixture.h"

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
    /* 7 s is the aim (NET_KEEPALIVE_MS and NET_KEEPALIVE_ACCEPTED_TIMEOUT_MS); the rest is for a loaded machine. */
    assert_true(loop_now(loop) - start < 15 * US_PER_S);
    peer_kill(listener);
    peer_kill(dialler);
    side_close(&worker);
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

static void addresses_beyond_this_machine_need_tls_or_consent(void **state)
{
    char why[256] = "";

    (void)state;
    assert_int_equal(listen_error("0.0.0.0:0", (struct server_config){0}, why, sizeof why), HAWK_EDENIED);
    assert_non_null(strstr(why, "0.0.0.0:0"));
    assert_non_null(strstr(why, "TLS"));
    assert_int_equal(listen_error("0.0.0.0:0", (struct server_config){.token = TOKEN}, why, sizeof why),
                     HAWK_EDENIED);
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
        cmocka_unit_test(a_port_in_use_is_an_error),
        cmocka_unit_test(addresses_beyond_this_machine_need_tls_or_consent),
        cmocka_unit_test(a_stale_unix_socket_is_replaced_and_a_live_one_is_not),
    };

    if (argc >= 2 && strcmp(argv[1], "--peer") == 0)
        return peer_main(argv[2]);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
