/* net/front and net/selftest: who gets in, how long a connection may stay, and when a daemon finds itself deaf.
 * A stand-in for gRPC serves the connections, accept4 gives 127.0.0.N the address 10.0.0.N, and the clock can
 * be put forward. */
#include "net/frames.h"
#include "net/front.h"
#include "net/guard.h"
#include "net/listen.h"
#include "net/selftest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define STEP_US (400 * US_PER_MS) /* less than what a self-test takes for a pause of the process */

static int64_t ahead_us; /* of the real clock */

int clock_gettime(clockid_t id, struct timespec *tp)
{
    int rc = (int)syscall(SYS_clock_gettime, id, tp);
    int64_t us = tp->tv_sec * US_PER_S + tp->tv_nsec / 1000 + ahead_us;

    if (rc == 0 && id == CLOCK_BOOTTIME)
        *tp = (struct timespec){.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
    return rc;
}

int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len, int flags)
{
    int got = (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, flags);
    struct sockaddr_in *sin = addr.__sockaddr_in__;
    uint32_t ip = got >= 0 && sin->sin_family == AF_INET ? ntohl(sin->sin_addr.s_addr) : 0;

    if (ip > INADDR_LOOPBACK && ip < 0x7f000100)
        sin->sin_addr.s_addr = htonl(0x0a000000 + (ip & 0xff));
    return got;
}

static bool queue_full; /* the listen queue, for the self-test: as a unix socket's */

int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
    if (queue_full && fcntl(fd, F_GETFL) & O_NONBLOCK) {
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, addr.__sockaddr__, len);
}

/* ---- In gRPC's place ---- */

static enum { ANSWERS, ANSWERS_UNSEEN, MUTE } way;

static struct served {
    int fd; /* -1: closed */
    struct loop_fd *watch;
    bool greeted;
} served[64];
static unsigned served_n, served_closed;
static struct loop *loop;

static void serve_end(struct served *s)
{
    if (s->fd < 0)
        return;
    loop_fd_remove(s->watch);
    close(s->fd);
    s->fd = -1;
    served_closed++;
}

static ssize_t take(int fd, void *buf, size_t size)
{
    struct iovec v = {.iov_base = buf, .iov_len = size};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

    return way == ANSWERS_UNSEEN ? read(fd, buf, size) : recvmsg(fd, &m, 0);
}

static void give(int fd, void *buf, size_t size)
{
    struct iovec v = {.iov_base = buf, .iov_len = size};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

    if ((way == ANSWERS_UNSEEN ? write(fd, buf, size) : sendmsg(fd, &m, MSG_NOSIGNAL)) < 0)
        assert_true(errno == EPIPE || errno == ECONNRESET);
}

static void on_served(void *arg, unsigned events)
{
    static char settings[] = "\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0";
    struct served *s = arg;
    char buf[256];
    ssize_t n = take(s->fd, buf, sizeof buf);

    (void)events;
    if (n <= 0) {
        serve_end(s);
    } else if (!s->greeted) {
        s->greeted = true;
        give(s->fd, settings, 18);
    }
}

void grpc_server_add_channel_from_fd(grpc_server *server, int fd, grpc_server_credentials *creds)
{
    struct served *s = &served[served_n % 64];

    (void)server;
    (void)creds;
    if (served_n++ >= 64)
        assert_int_equal(s->fd, -1);
    *s = (struct served){.fd = fd};
    s->watch = loop_fd_add(loop, fd, way == MUTE ? 0 : LOOP_READ, on_served, s);
}

/* ---- A front, and clients of it ---- */

static struct front *front;
static char addr[ADDR_TEXT];
static unsigned dead_n;

static void on_dead(void *arg)
{
    (void)arg;
    dead_n++;
}

static void begin_with(uint32_t per_address, uint32_t connections_max, uint32_t connect_rate)
{
    struct front_config c = {.per_address = per_address,
                             .connections_max = connections_max,
                             .connect_rate = connect_rate,
                             .dead = on_dead};
    char why[256];

    loop = loop_new(0);
    front = front_new(loop, &c);
    served_n = served_closed = dead_n = 0;
    assert_int_equal(front_listen(front, "127.0.0.1:0", addr, why, sizeof why), 0);
    front_start(front, NULL);
}

static int end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64 && i < served_n; i++)
        serve_end(&served[i]);
    front_free(front);
    loop_free(loop);
    way = ANSWERS;
    queue_full = false;
    return 0;
}

static void begin(uint32_t per_address) { begin_with(per_address, 0, 0); }

/* Time passes, and what is ready is handled. */
static void pass(int64_t us)
{
    for (int64_t left = us; left > 0; left -= STEP_US) {
        ahead_us += left < STEP_US ? left : STEP_US;
        for (int i = 0; i < 8; i++)
            loop_once(loop, loop_now(loop));
    }
}

static void nothing(void *arg) { (void)arg; }

/* From 10.0.0.host; host 1 is loopback. */
static int client(uint8_t host, bool speaks)
{
    union sockaddr_any to;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + host)};
    socklen_t len;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(listen_sockaddr(addr, &to, &len), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, &to.sa, len), 0);
    if (speaks)
        assert_int_equal(send(fd, PREFACE, sizeof PREFACE - 1, MSG_NOSIGNAL), sizeof PREFACE - 1);
    return fd;
}

/* Whether the other side has ended it; *answered: whether something came before. */
static bool ended(int fd, bool *answered)
{
    char buf[256];
    ssize_t n;

    while ((n = recv(fd, buf, sizeof buf, MSG_DONTWAIT)) > 0)
        *answered = true;
    return n == 0 || errno == ECONNRESET;
}

static bool stands(int fd)
{
    bool answered = false;

    return !ended(fd, &answered);
}

static void wait_end(int fd)
{
    bool answered = false;
    struct loop_timer look; /* turns the loop: nothing of the client's does */

    loop_timer_init(&look, nothing, NULL);
    until(loop, (loop_timer_set(loop, &look, loop_now(loop) + US_PER_MS), ended(fd, &answered)));
    loop_timer_clear(loop, &look);
}

/* Whether it gets in: it then hears from the server. *fd is open in any case. */
static bool enters(uint8_t host, int *fd)
{
    bool answered = false;
    struct loop_timer look;

    loop_timer_init(&look, nothing, NULL);
    *fd = client(host, true);
    until(loop, (loop_timer_set(loop, &look, loop_now(loop) + US_PER_MS), ended(*fd, &answered) || answered));
    loop_timer_clear(loop, &look);
    return answered;
}

/* The front's own of a client's connection: the newest that entered. */
static struct front_conn *newest(void)
{
    char peer[32];

    snprintf(peer, sizeof peer, "fd:%d", served[(served_n - 1) % 64].fd);
    return front_find(front, peer);
}

/* So many calls of the newest connection have wrong tokens. */
static void guess(unsigned n)
{
    struct front_conn *c = newest();

    for (unsigned i = 0; i < n; i++)
        front_failed(c, "its token is missing or wrong");
}

/* ---- Its own listener ---- */

static void a_deaf_listener_is_noticed(void **state)
{
    (void)state;
    way = MUTE;
    begin(0);
    for (int i = 0; i < 1000 && dead_n == 0; i++)
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
    assert_true(served_n >= SELFTEST_ATTEMPTS);
}

static void a_pause_of_the_process_is_none(void **state)
{
    (void)state;
    way = MUTE;
    begin(0);
    for (int i = 0; i < 20; i++) { /* SIGSTOP, SIGCONT */
        ahead_us += 30 * US_PER_S;
        for (int k = 0; k < 8; k++)
            loop_once(loop, loop_now(loop));
        pass(STEP_US);
    }
    assert_int_equal(dead_n, 0);
    for (int i = 0; i < 1000 && dead_n == 0; i++)
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
}

static void a_full_listen_queue_is_not_deafness(void **state)
{
    int fd;

    (void)state;
    begin(0);
    until(loop, served_closed == 1); /* the self-test's */
    queue_full = true;
    for (int64_t over = loop_now(loop) + 20 * SELFTEST_EVERY_US; loop_now(loop) < over; pass(STEP_US)) {
        assert_true(enters(1, &fd)); /* others are accepted */
        close(fd);
    }
    assert_int_equal(dead_n, 0);
    for (int i = 0; i < 1000 && dead_n == 0; i++) /* nobody is */
        pass(STEP_US);
    assert_int_equal(dead_n, 1);
}

static void frames_that_nobody_counts_are_noticed(void **state)
{
    (void)state;
    way = ANSWERS_UNSEEN;
    begin(0);
    until(loop, dead_n == 1);
    assert_int_equal(served_n, 1);
}

static void a_listener_that_answers_is_fine(void **state)
{
    (void)state;
    begin(0);
    until(loop, served_closed == 1);
    pass(60 * US_PER_S);
    assert_true(served_n >= 5);
    assert_int_equal(dead_n, 0);
}

/* ---- Time ---- */

static void connections_have_little_time(void **state)
{
    int mute, idle, proven;

    (void)state;
    begin(0);
    assert_true(enters(1, &proven));
    front_prove(newest());
    assert_true(enters(1, &idle));
    mute = client(1, false);
    pass(FRONT_SETUP_US - US_PER_S);
    assert_true(stands(mute));
    pass(2 * US_PER_S);
    wait_end(mute);
    pass(FRONT_UNPROVEN_US - FRONT_SETUP_US - 5 * US_PER_S);
    assert_true(stands(idle));
    pass(6 * US_PER_S);
    wait_end(idle);
    pass(FRONT_UNPROVEN_US);
    assert_true(stands(proven));
    close(mute);
    close(idle);
    close(proven);
}

static void count_turn(void *arg) { ++*(unsigned *)arg; }

/* A proven connection of another machine, which does nothing, costs nothing. */
static void an_idle_connection_wakes_nobody(void **state)
{
    struct loop_hook hook;
    unsigned turns = 0;
    int fd;

    (void)state;
    begin(0);
    assert_true(enters(2, &fd));
    guess(1);
    front_prove(newest());
    pass(20 * US_PER_S); /* what the log left out is over, too */
    loop_hook_add(loop, &hook, LOOP_AFTER, count_turn, &turns);
    for (int64_t over = loop_now(loop) + US_PER_S; loop_now(loop) < over;)
        loop_once(loop, over);
    loop_hook_remove(&hook);
    assert_true(turns < 9); /* a self-test's at most */
    close(fd);
}

/* ---- Addresses ---- */

static void an_address_has_few_unproven_connections(void **state)
{
    struct front_conn *late;
    int fd[6];

    (void)state;
    begin(3);
    assert_true(enters(2, &fd[0]));
    front_prove(newest());
    for (int i = 1; i < 4; i++)
        assert_true(enters(2, &fd[i]));
    assert_true(enters(3, &fd[4])); /* another address */
    late = newest();
    assert_true(stands(fd[1]));
    assert_true(enters(2, &fd[5])); /* the oldest makes room */
    wait_end(fd[1]);
    assert_true(stands(fd[0]) && stands(fd[2]) && stands(fd[3]) && stands(fd[4]) && stands(fd[5]));
    close(fd[1]);
    late->refs++; /* a call of it */
    close(fd[4]);
    until(loop, late->closed);
    front_prove(late); /* its place was given back already */
    front_unref(late);
    for (int i = 1; i < 4; i++) {
        assert_true(enters(3, &fd[4]));
        close(fd[4]);
    }
    assert_true(enters(3, &fd[4]));
    assert_true(enters(2, &fd[1])); /* again */
    wait_end(fd[2]);
    front_prove(newest());
    close(fd[2]);
    assert_true(enters(2, &fd[2])); /* proven ones do not count */
    assert_true(stands(fd[0]) && stands(fd[1]) && stands(fd[3]) && stands(fd[5]));
    for (int i = 0; i < 6; i++)
        close(fd[i]);
    for (int i = 0; i < 6; i++) /* loopback: any number */
        assert_true(enters(1, &fd[i]));
    for (int i = 0; i < 6; i++)
        close(fd[i]);
}

/* What a client has sent and nobody has read holds its place against others, and not against its own address. */
static void an_address_has_few_connections_that_wait_for_the_process(void **state)
{
    enum { MOST = 3, ALL = 8 };
    int fd[ALL];

    (void)state;
    begin(MOST);
    until(loop, served_closed == 1); /* the self-test's */
    way = MUTE;                      /* it reads nothing from now on */
    for (int i = 0; i < ALL; i++) {
        fd[i] = client(2, true);
        until(loop, served_n == (unsigned)i + 2);
    }
    for (int i = 0; i < ALL; i++)
        assert_true(stands(fd[i]) == (i >= ALL - MOST));
    for (int i = 0; i < ALL; i++)
        close(fd[i]);
}

/* Whether a connection of the host is answered; it is ended then. False: it waits, as *fd. */
static bool answered_at_once(uint8_t host, int *fd)
{
    const uint64_t delayed = front_counts(front).delayed;
    bool answered = false;
    struct loop_timer look;

    loop_timer_init(&look, nothing, NULL);
    *fd = client(host, true);
    until(loop, (loop_timer_set(loop, &look, loop_now(loop) + US_PER_MS),
                 ended(*fd, &answered) || answered || front_counts(front).delayed > delayed));
    loop_timer_clear(loop, &look);
    if (answered)
        close(*fd);
    return answered;
}

static bool answered_now(int fd)
{
    bool answered = false;

    (void)ended(fd, &answered);
    return answered;
}

static void an_address_that_connects_too_fast_waits(void **state)
{
    unsigned n = 0;
    int late[4], fd;

    (void)state;
    begin_with(3, 0, 1);
    while (answered_at_once(2, &late[0]))
        assert_true(++n < 1000);
    assert_true(n >= ADDRESS_CONNECT_S);
    assert_false(answered_at_once(2, &late[1])); /* nobody overtakes those that wait */
    assert_false(answered_at_once(2, &late[2]));
    assert_false(enters(2, &late[3])); /* enough of them wait */
    assert_int_equal(front_counts(front).refused, 1);
    close(late[3]);
    for (int i = 0; i < 20; i++) /* loopback has no limit */
        assert_true(answered_at_once(1, &fd));
    assert_true(enters(3, &fd)); /* another address does not wait */
    close(fd);
    close(late[1]); /* who has left takes nobody's turn */
    for (int i = 0; i < 10 && !answered_now(late[0]); i++)
        pass(STEP_US);
    for (int i = 0; i < 10 && !answered_now(late[2]); i++)
        pass(STEP_US);
    assert_int_equal(front_counts(front).delayed, 3);
    assert_int_equal(front_counts(front).refused, 1);
    close(late[0]);
    close(late[2]);
    pass(ADDRESS_CONNECT_S * US_PER_S);
    for (unsigned i = 0; i < ADDRESS_CONNECT_S; i++) /* all is forgotten */
        assert_true(answered_at_once(2, &fd));
}

static void who_comes_back_with_backoff_never_waits(void **state)
{
    int fd;

    (void)state;
    begin_with(0, 0, 1);
    for (int64_t backoff = 100 * US_PER_MS, i = 0; i < 40; i++) {
        assert_true(answered_at_once(2, &fd));
        pass(backoff);
        backoff = 2 * backoff < 2 * US_PER_S ? 2 * backoff : 2 * US_PER_S;
    }
    assert_int_equal(front_counts(front).delayed, 0);
}

/* How many connections of 10.0.0.2 get in, `most` at most, when each makes calls with wrong tokens until it
 * is ended. */
static unsigned guessers(unsigned most)
{
    int fd;

    for (unsigned n = 0; n < most; n++) {
        bool in = enters(2, &fd);
        if (in)
            guess(FRONT_FAILED_MAX);
        close(fd);
        if (!in)
            return n;
    }
    return most;
}

static void wrong_tokens_close_the_door_to_an_address(void **state)
{
    int fd;

    (void)state;
    begin(0);
    assert_true(enters(2, &fd));
    guess(FRONT_FAILED_MAX - 1);
    assert_true(stands(fd));
    guess(1);
    wait_end(fd);
    close(fd);
    assert_in_range(guessers(50), ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1, 49);
    assert_true(enters(3, &fd)); /* another address */
    close(fd);
    pass(2 * US_PER_S);
    assert_true(enters(2, &fd));
    front_prove(newest()); /* the right one is there as well: all is forgiven */
    close(fd);
    until(loop, served_closed >= served_n - 1);
    pass(ADDRESS_TRUST_US);
    assert_int_equal(guessers(ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1),
                     ADDRESS_FAILED_BURST / FRONT_FAILED_MAX - 1);
}

/* Behind one address are machines whose token is right, and one whose token is wrong. */
static void who_shares_an_address_with_proven_ones_gets_in(void **state)
{
    int good;

    (void)state;
    begin(0);
    assert_true(enters(2, &good));
    front_prove(newest());
    assert_int_equal(guessers(40), 40);
    close(good);
    until(loop, served_closed >= served_n - 1);
    pass(ADDRESS_TRUST_US - US_PER_S);
    assert_int_equal(guessers(40), 40); /* who called lately will call again */
    pass(2 * US_PER_S);
    assert_in_range(guessers(40), 0, 39);
}

/* ---- Crowds ---- */

/* Who waits is taken in when those who were have had their time, or have gone, or have proven themselves. */
static void a_crowd_of_unproven_connections_makes_room(void **state)
{
    enum { MOST = 20 };
    struct front_conn *last;
    int fd[MOST + 2];

    (void)state;
    begin_with(0, MOST, 0);
    until(loop, served_closed == 1); /* the self-test's */
    for (int i = 0; i < MOST; i++)
        assert_true(enters(1, &fd[i]));
    pass(FRONT_YOUNG_US);
    last = newest();
    last->refs++;
    close(fd[MOST - 1]); /* its place is free again */
    until(loop, last->closed);
    front_unref(last);
    assert_true(enters(1, &fd[MOST]));
    assert_true(stands(fd[0]));
    assert_true(enters(1, &fd[MOST + 1]));
    wait_end(fd[0]);
    for (int i = 0; i < MOST + 2; i++) {
        assert_true(i < MOST / 2 || i == MOST - 1 || stands(fd[i]));
        if (i != MOST - 1)
            close(fd[i]);
    }
}

/* Whoever has hung up before it is its turn costs nothing. */
static void who_has_left_is_not_taken_in(void **state)
{
    int fd;

    (void)state;
    begin(0);
    until(loop, served_closed == 1); /* the self-test's */
    for (int i = 0; i < 10; i++)
        close(client(1, true));
    assert_true(enters(1, &fd));
    assert_int_equal(served_n, 2);
    close(fd);
}

static void write_streams(int fd, uint32_t n)
{
    static uint8_t buf[2048 * 9];
    uint8_t *p = buf;

    for (uint32_t i = 0; i < n; i++, p += 9) {
        const uint32_t id = 2 * i + 1;
        memcpy(p, (const uint8_t[]){0, 0, 0, 1, 4, 0, 0, (uint8_t)(id >> 8), (uint8_t)id}, 9);
    }
    assert_int_equal(send(fd, buf, (size_t)(p - buf), MSG_NOSIGNAL), p - buf);
}

/* Connections that each stay below their own limits are cut when all together open too many streams; the
 * others are not. */
static void unproven_connections_share_their_streams(void **state)
{
    enum { EACH = 1000, FEW = FRAMES_SHARED_BURST / EACH };
    struct front_conn *small_conn, *proven_conn;
    int fd[FEW + 1], small, proven;

    (void)state;
    begin(0);
    assert_true(enters(1, &proven));
    front_prove(proven_conn = newest());
    assert_true(enters(1, &small));
    small_conn = newest();
    for (int i = 0; i < FEW; i++) {
        assert_true(enters(1, &fd[i]));
        write_streams(fd[i], EACH);
        until(loop, guard_look(newest()->guard).streams == 2 * EACH - 1);
    }
    assert_true(enters(1, &fd[FEW]));
    write_streams(fd[FEW], EACH);
    wait_end(fd[FEW]);
    write_streams(small, FRAMES_OPENED_FREE);
    until(loop, guard_look(small_conn->guard).streams == 2 * FRAMES_OPENED_FREE - 1);
    write_streams(proven, EACH);
    until(loop, guard_look(proven_conn->guard).streams == 2 * EACH - 1);
    for (int i = 0; i < FEW; i++)
        assert_true(stands(fd[i]));
    assert_true(stands(small) && stands(proven));
    close(small);
    close(proven);
    for (int i = 0; i < FEW + 1; i++)
        close(fd[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_deaf_listener_is_noticed, end),
        cmocka_unit_test_teardown(a_pause_of_the_process_is_none, end),
        cmocka_unit_test_teardown(a_full_listen_queue_is_not_deafness, end),
        cmocka_unit_test_teardown(frames_that_nobody_counts_are_noticed, end),
        cmocka_unit_test_teardown(a_listener_that_answers_is_fine, end),
        cmocka_unit_test_teardown(connections_have_little_time, end),
        cmocka_unit_test_teardown(an_idle_connection_wakes_nobody, end),
        cmocka_unit_test_teardown(an_address_has_few_unproven_connections, end),
        cmocka_unit_test_teardown(an_address_has_few_connections_that_wait_for_the_process, end),
        cmocka_unit_test_teardown(an_address_that_connects_too_fast_waits, end),
        cmocka_unit_test_teardown(who_comes_back_with_backoff_never_waits, end),
        cmocka_unit_test_teardown(wrong_tokens_close_the_door_to_an_address, end),
        cmocka_unit_test_teardown(who_shares_an_address_with_proven_ones_gets_in, end),
        cmocka_unit_test_teardown(a_crowd_of_unproven_connections_makes_room, end),
        cmocka_unit_test_teardown(who_has_left_is_not_taken_in, end),
        cmocka_unit_test_teardown(unproven_connections_share_their_streams, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
