/* A front and clients of it, for test_front.c and test_front_crowds.c. A stand-in for gRPC serves the connections,
 * accept4 gives 127.0.0.N the address 10.0.0.N, and the clock can be put forward. */
#ifndef HAWK_TESTS_TEST_FRONT_FIXTURE_H
#define HAWK_TESTS_TEST_FRONT_FIXTURE_H

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

#endif
