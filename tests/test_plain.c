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
#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_BYTES (PLAIN_PREFIX_BYTES + PLAIN_AHEAD_MAX)

static const uint8_t message[MESSAGE_BYTES] = {PLAIN_MESSAGE, 0, 0x10, 0, 0};
static struct loop *loop;
static struct guards *guards;
static struct plain *plain;
static int client;
static unsigned heads, messages, sents, overs;
static bool in_order;

static void on_head(void *arg, struct plain *p, const struct plain_head *h) { heads++; }
static void on_sent(void *arg) { sents++; }

static void on_message(void *arg, const uint8_t *data, size_t len)
{
    assert_int_equal(len, PLAIN_AHEAD_MAX);
    messages++;
}

static void on_over(void *arg, bool order)
{
    in_order = order;
    overs++;
}

/* A client whose head has come. */
static int set_up(void **state)
{
    static const struct plain_fns fns = {on_head, on_message, on_sent, on_over};
    static const uint8_t head[] = "\x80\0\0\0\x0b:path: /A\r\n";
    int fds[2];

    (void)state;
    heads = messages = sents = overs = 0;
    loop = loop_new(0);
    guards = guards_new(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client = fds[1];
    plain =
        plain_new(loop, fds[0], guard_add(guards, fds[0], false, NULL, NULL), PLAIN_AHEAD_MAX, &fns, NULL);
    assert_int_equal(send(client, head, sizeof head - 1, 0), sizeof head - 1);
    until(loop, heads == 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plain_free(plain);
    guards_free(guards);
    loop_free(loop);
    close(client);
    return 0;
}

static void send_start(size_t len)
{
    for (size_t sent = 0; sent < len; loop_once(loop, loop_now(loop))) {
        ssize_t n = send(client, message + sent, len - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
}

static void who_goes_while_nothing_more_is_read_is_heard_of(void **state)
{
    (void)state;
    send_start(MESSAGE_BYTES);
    assert_int_equal(overs, 0);
    assert_int_equal(shutdown(client, SHUT_RDWR), 0);
    until(loop, overs == 1);
    assert_false(in_order);
    assert_int_equal(messages, 0); /* nobody wanted one */
}

static int unread(void)
{
    int n;

    assert_int_equal(ioctl(client, SIOCOUTQ, &n), 0);
    return n;
}

static void a_wanted_message_is_read_to_its_last_byte(void **state)
{
    (void)state;
    plain_want(plain);
    send_start(PLAIN_AHEAD_MAX);
    until(loop, unread() == 0);
    assert_int_equal(send(client, message + PLAIN_AHEAD_MAX, PLAIN_PREFIX_BYTES, 0), PLAIN_PREFIX_BYTES);
    until(loop, messages == 1);
}

/* What other connections of its user hold leaves it too little. */
static void an_unfinished_message_counts_with_those_of_others(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct guard *other = guard_add(guards, fds[0], false, NULL, NULL);
    guard_user(other, 7);
    assert_true(guard_plain_holds(other, FRAMES_HELD_MAX / 2));
    plain_want(plain);
    send_start(PLAIN_AHEAD_MAX / 2); /* another user's */
    until(loop, unread() == 0);
    assert_int_equal(overs, 0);
    guard_user(other, 0);
    send_start(1);
    until(loop, overs == 1);
    assert_false(in_order);
    close(fds[0]);
    close(fds[1]);
}

static void on_timer(void *arg) { *(bool *)arg = true; }

static void nothing_turns_the_loop_once_all_has_been_sent(void **state)
{
    static uint8_t bytes[1 << 16];
    struct loop_timer timer;
    bool fired = false;
    unsigned turns = 0;

    (void)state;
    assert_false(plain_send(plain, message, MESSAGE_BYTES));
    while (sents == 0) {
        (void)!recv(client, bytes, sizeof bytes, 0);
        loop_once(loop, loop_now(loop) + US_PER_MS);
    }
    while (recv(client, bytes, sizeof bytes, 0) > 0)
        ;
    loop_timer_init(&timer, on_timer, &fired);
    loop_timer_set(loop, &timer, loop_now(loop) + 20 * US_PER_MS);
    for (; !fired; turns++)
        loop_once(loop, TIME_NEVER);
    assert_in_range(turns, 1, 3); /* the timer's, and what the last write leaves */
    assert_int_equal(sents, 1);
}

/* Its text may repeat what the client sent. */
static void the_end_of_a_call_is_two_lines(void **state)
{
    static const char text[] = "a\r\ngrpc-status: 0\nb",
                      lines[] = "grpc-status: 3\r\ngrpc-message: a??grpc-status: 0?b\r\n";
    char got[sizeof lines + PLAIN_PREFIX_BYTES];

    (void)state;
    assert_true(plain_end(plain, GRPC_STATUS_INVALID_ARGUMENT, text, strlen(text)));
    until(loop, overs == 1);
    assert_true(in_order);
    assert_int_equal(recv(client, got, sizeof got, 0), PLAIN_PREFIX_BYTES + strlen(lines));
    assert_memory_equal(got + PLAIN_PREFIX_BYTES, lines, strlen(lines));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_goes_while_nothing_more_is_read_is_heard_of),
        TEST(a_wanted_message_is_read_to_its_last_byte),
        TEST(an_unfinished_message_counts_with_those_of_others),
        TEST(nothing_turns_the_loop_once_all_has_been_sent),
        TEST(the_end_of_a_call_is_two_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
