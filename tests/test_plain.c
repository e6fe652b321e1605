/* Plain streams (net/plain.h) at the daemon's end. */
#include "net/plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned heads, overs;

static void on_head(void *arg, struct plain *p, const struct plain_head *h) { heads++; }
static void on_message(void *arg, const uint8_t *data, size_t len) { fail_msg("nobody wants one"); }
static void on_sent(void *arg) {}

static void on_over(void *arg, bool in_order)
{
    assert_false(in_order);
    overs++;
}

static void who_goes_while_nothing_more_is_read_is_heard_of(void **state)
{
    static const struct plain_fns fns = {on_head, on_message, on_sent, on_over};
    static const uint8_t head[] = "\x80\0\0\0\x0b:path: /A\r\n",
                         message[5 + PLAIN_AHEAD_MAX] = {0, 0, 0x10, 0, 0};
    struct loop *loop = loop_new(0);
    struct guards *gs = guards_new(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    size_t sent = 0;
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    struct guard *g = guard_add(gs, fds[0], false, NULL, NULL);
    struct plain *p = plain_new(loop, fds[0], g, PLAIN_AHEAD_MAX, &fns, NULL);
    assert_int_equal(send(fds[1], head, sizeof head - 1, 0), sizeof head - 1);
    until(loop, heads == 1);
    while (sent < sizeof message) {
        ssize_t n = send(fds[1], message + sent, sizeof message - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        loop_once(loop, loop_now(loop));
    }
    assert_int_equal(overs, 0);
    close(fds[1]);
    until(loop, overs == 1);
    plain_free(p);
    guards_free(gs);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_goes_while_nothing_more_is_read_is_heard_of)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
