/* Asks a listener of this process as a client would: connects, sends HTTP/2's preface, and waits until the
 * server has acknowledged the SETTINGS. It never blocks, and makes one attempt at a time. Private to net/. */
#ifndef HAWK_NET_SELFTEST_H
#define HAWK_NET_SELFTEST_H

#include "net/listen.h"
#include "net/loop.h"

#include <stdbool.h>

#define SELFTEST_EVERY_US (5 * US_PER_S)
#define SELFTEST_ANSWER_US (5 * US_PER_S) /* how long one attempt waits */
#define SELFTEST_ATTEMPTS 3u              /* attempts in a row without an answer: the listener is dead */

struct selftest {
    struct loop *loop;
    const char *addr; /* the listener's */
    int fd;           /* -1: none under way */
    struct loop_fd *watch;
    struct loop_timer timer;
    union sockaddr_any own; /* the peer's address for the listener */
    socklen_t own_len;
    uint8_t answer[256];
    uint32_t answer_n;
    bool taken; /* the listener has accepted the attempt's connection */
    bool sent, starved;
    uint32_t failed;  /* attempts in a row */
    int64_t due_us;   /* when the timer fires */
    int64_t began_us; /* since when it waits for its turn, or once that has come, for the answer */
    char why[128];    /* the last attempt failed */
    /* answered: the listener did, so it reads and writes; the attempt's connection still stands. dead:
     * SELFTEST_ATTEMPTS failed. */
    void (*answered)(void *arg, struct selftest *p);
    void (*dead)(void *arg, struct selftest *p);
    void *arg;
};

/* The caller sets p's addr, callbacks and arg. The first attempt begins at once. */
void selftest_start(struct selftest *p, struct loop *l);
void selftest_stop(struct selftest *p);
/* Whether a connection that was accepted from `peer` is this self-test's. */
bool selftest_is(const struct selftest *p, const union sockaddr_any *peer, socklen_t len);
/* It was accepted: the time for the answer begins. */
void selftest_taken(struct selftest *p);

#endif
