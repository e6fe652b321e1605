/* See selftest.h. The self-test counts attempts and not seconds, since a process that was stopped, or a machine
 * that slept, had no chance to answer. An attempt during which the loop did not turn for LATE_US says
 * nothing, and is made again. */
#include "net/selftest.h"

#include "base/log.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LATE_US (1 * US_PER_S)
#define STEP_US (500 * US_PER_MS) /* the timer's period while an attempt waits, so that a pause shows */
#define FRAME_HEAD 9
#define FRAME_SETTINGS 4
#define FLAG_ACK 1

static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
#define HELLO_BYTES sizeof hello /* the last zero is the ninth byte of an empty SETTINGS frame */

static void set_timer(struct selftest *p, int64_t in_us)
{
    p->due_us = loop_now(p->loop) + in_us;
    loop_timer_set(p->loop, &p->timer, p->due_us);
}

static void attempt_end(struct selftest *p)
{
    loop_fd_remove(p->watch);
    p->watch = NULL;
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->own_len = 0;
    set_timer(p, SELFTEST_EVERY_US);
}

static void attempt_failed(struct selftest *p, const char *what, int err)
{
    snprintf(p->why, sizeof p->why, "%s%s%s", what, err ? ": " : "", err ? strerror(err) : "");
    attempt_end(p);
    if (++p->failed >= SELFTEST_ATTEMPTS)
        p->dead(p->arg, p);
}

static void attempt_answered(struct selftest *p)
{
    if (p->failed > 0)
        log_info("%s answers again", p->addr);
    p->failed = 0;
    p->answered(p->arg, p);
    attempt_end(p);
}

static bool all_acknowledged(const struct selftest *p)
{
    for (uint32_t at = 0; at + FRAME_HEAD <= p->answer_n;) {
        const uint8_t *h = p->answer + at;
        if (h[3] == FRAME_SETTINGS && h[4] & FLAG_ACK)
            return true;
        at += FRAME_HEAD + ((uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2]);
    }
    return false;
}

static void on_ready(void *arg, unsigned events)
{
    struct selftest *p = arg;
    int err = 0;
    socklen_t len = sizeof err;

    if (!p->sent) {
        if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err ||
            send(p->fd, hello, HELLO_BYTES, MSG_NOSIGNAL) != HELLO_BYTES) {
            attempt_failed(p, "cannot connect", err ? err : errno);
            return;
        }
        p->sent = true;
        loop_fd_events(p->watch, LOOP_READ);
        return;
    }
    ssize_t n = recv(p->fd, p->answer + p->answer_n, sizeof p->answer - p->answer_n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        attempt_failed(p, "the connection was closed", n < 0 ? errno : 0);
        return;
    }
    p->answer_n += (uint32_t)n;
    if (all_acknowledged(p))
        attempt_answered(p);
    else if (p->answer_n == sizeof p->answer)
        attempt_failed(p, "the answer is not HTTP/2", 0);
}

/* The address at which a listener for every address is reached. */
static int listener_address(const struct selftest *p, union sockaddr_any *sa, socklen_t *len)
{
    int err = listen_sockaddr(p->addr, sa, len);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)sa;

    if (err)
        return err;
    if (sa->sa.sa_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (sa->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
    return 0;
}

static void no_descriptor(struct selftest *p, int err)
{
    if (!p->starved)
        log_warn("%s cannot be asked whether it answers: %s", p->addr, strerror(err));
    p->starved = true;
    set_timer(p, SELFTEST_EVERY_US);
}

static void attempt_begin(struct selftest *p)
{
    union sockaddr_any to;
    struct sockaddr any_name = {.sa_family = AF_UNIX};
    socklen_t len;

    if (listener_address(p, &to, &len) != 0)
        return;
    p->fd = socket(to.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0) {
        no_descriptor(p, errno);
        return;
    }
    p->starved = p->sent = p->taken = false;
    p->answer_n = 0;
    p->began_us = loop_now(p->loop);
    memset(&p->own, 0, sizeof p->own);
    /* A unix socket gets a name, so that the listener can tell that it is the self-test's. */
    if (to.sa.sa_family == AF_UNIX && bind(p->fd, &any_name, sizeof any_name.sa_family) != 0) {
        attempt_failed(p, "cannot name a socket", errno);
        return;
    }
    if (connect(p->fd, &to.sa, len) != 0 && errno != EINPROGRESS) {
        attempt_failed(p, "cannot connect", errno);
        return;
    }
    p->own_len = sizeof p->own;
    if (getsockname(p->fd, &p->own.sa, &p->own_len) != 0)
        p->own_len = 0;
    p->watch = loop_fd_add(p->loop, p->fd, LOOP_WRITE, on_ready, p);
    set_timer(p, STEP_US);
}

static void on_timer(void *arg)
{
    struct selftest *p = arg;
    int64_t now = loop_now(p->loop);

    if (p->fd < 0) {
        attempt_begin(p);
    } else if (now - p->due_us > LATE_US) {
        attempt_end(p);
        attempt_begin(p);
    } else if (now - p->began_us >= SELFTEST_ANSWER_US) {
        attempt_failed(p, "no answer", 0);
    } else {
        set_timer(p, STEP_US);
    }
}

void selftest_start(struct selftest *p, struct loop *l)
{
    p->loop = l;
    p->fd = -1;
    loop_timer_init(&p->timer, on_timer, p);
    attempt_begin(p);
}

void selftest_stop(struct selftest *p)
{
    if (!p->loop)
        return;
    attempt_end(p);
    loop_timer_clear(p->loop, &p->timer);
}

bool selftest_is(const struct selftest *p, const union sockaddr_any *peer, socklen_t len)
{
    return p->own_len > 0 && len == p->own_len && memcmp(&p->own, peer, len) == 0;
}

void selftest_taken(struct selftest *p)
{
    p->taken = true;
    p->began_us = loop_now(p->loop);
}
