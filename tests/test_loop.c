/* net/loop and net/addr: turns, timers, hooks, descriptors, signals, posts from threads; addresses and tokens.
 * The loop's tests run twice: with and without gRPC's completion queue. */
#include "net/addr.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* What happened, in order: "a", "b", … */
static char said[64];
static struct loop *loop;

static void say(void *what) { strncat(said, what, sizeof said - strlen(said) - 1); }

static int setup_plain(void **state)
{
    (void)state;
    said[0] = '\0';
    loop = loop_new(0);
    return 0;
}

static int setup_net(void **state)
{
    (void)state;
    said[0] = '\0';
    loop = loop_new(LOOP_NET);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(loop);
    loop = NULL;
    return 0;
}

static void timers_fire_in_order_of_time_and_setting(void **state)
{
    struct loop_timer t[4];
    int64_t now = loop_now(loop);
    static char names[4][2] = {"a", "b", "c", "d"};

    (void)state;
    for (int i = 0; i < 4; i++)
        loop_timer_init(&t[i], say, names[i]);
    loop_timer_set(loop, &t[2], now + 3000);
    loop_timer_set(loop, &t[0], now + 1000);
    loop_timer_set(loop, &t[1], now + 1000);
    loop_timer_set(loop, &t[3], now + 2000);
    loop_timer_clear(loop, &t[3]);
    assert_false(loop_timer_is_set(&t[3]));
    until(loop, strlen(said) == 3);
    assert_string_equal(said, "abc");
    assert_true(loop_now(loop) >= now + 3000);
    assert_false(loop_timer_is_set(&t[0]));
}

static struct loop_timer again;
static int again_fired;

static void set_again(void *arg)
{
    (void)arg;
    if (++again_fired < 3)
        loop_timer_set(loop, &again, 0);
}

static void a_timer_set_from_its_own_callback_waits_for_the_next_turn(void **state)
{
    (void)state;
    again_fired = 0;
    loop_timer_init(&again, set_again, NULL);
    loop_timer_set(loop, &again, 0);
    loop_once(loop, TIME_NEVER);
    assert_int_equal(again_fired, 1);
    until(loop, again_fired == 3);
}

static void a_turn_is_bounded(void **state)
{
    int64_t start = loop_now(loop);

    (void)state;
    loop_once(loop, start + 5000);
    assert_true(loop_now(loop) >= start + 4000);
    loop_once(loop, start); /* past: just looks */
}

static void stop(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

static void hooks_run_after_what_was_ready_in_order(void **state)
{
    struct loop_hook after, after2, flush;

    (void)state;
    loop_hook_add(loop, &flush, LOOP_FLUSH, say, (char[]){"f"});
    loop_hook_add(loop, &after, LOOP_AFTER, say, (char[]){"a"});
    loop_hook_add(loop, &after2, LOOP_AFTER, say, (char[]){"b"});
    loop_post(loop, say, (char[]){"1"});
    loop_post(loop, say, (char[]){"2"});
    loop_post(loop, stop, NULL);
    loop_run(loop);
    assert_string_equal(said, "f12abf");
    loop_hook_remove(&after2);
    loop_hook_remove(&flush);
    loop_post(loop, stop, NULL);
    loop_run(loop);
    assert_string_equal(said, "f12abfa");
    loop_hook_remove(&after);
}

/* ---- Descriptors ---- */

struct pipe_end {
    int fd;
    struct loop_fd *watch, *other;
    int reads, writes;
};

static void on_pipe(void *arg, unsigned events)
{
    struct pipe_end *p = arg;
    char buf[16];

    if (events & LOOP_READ) {
        p->reads++;
        assert_true(read(p->fd, buf, sizeof buf) > 0);
    }
    if (events & LOOP_WRITE) {
        p->writes++;
        loop_fd_events(p->watch, LOOP_READ);
    }
    if (p->other) { /* ready as well, perhaps, and gone before its turn */
        loop_fd_remove(p->other);
        p->other = NULL;
    }
}

static void a_descriptor_wakes_the_loop(void **state)
{
    int fds[2];
    struct pipe_end p = {0};

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    p.fd = fds[0];
    p.watch = loop_fd_add(loop, fds[0], LOOP_READ, on_pipe, &p);
    loop_once(loop, 0);
    assert_int_equal(p.reads, 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(fds[1], "x", 1), 1);
        until(loop, p.reads == i);
    }
    loop_fd_events(p.watch, LOOP_READ | LOOP_WRITE);
    until(loop, p.writes == 1);
    loop_fd_events(p.watch, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_once(loop, loop_now(loop) + 2000);
    assert_int_equal(p.reads, 3);
    loop_fd_events(p.watch, LOOP_READ);
    until(loop, p.reads == 4);
    loop_fd_remove(p.watch);
    close(fds[0]);
    close(fds[1]);
}

static void a_descriptor_removed_before_its_turn_is_not_called(void **state)
{
    int fds[4];
    struct pipe_end p[2] = {{0}, {0}};

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pipe(fds + 2), 0);
    for (int i = 0; i < 2; i++) {
        p[i].fd = fds[2 * i];
        p[i].watch = loop_fd_add(loop, fds[2 * i], LOOP_READ, on_pipe, &p[i]);
        assert_int_equal(write(fds[2 * i + 1], "x", 1), 1);
    }
    /* Whichever comes first removes the other. */
    p[0].other = p[1].watch;
    p[1].other = p[0].watch;
    until(loop, p[0].reads + p[1].reads == 1);
    loop_once(loop, loop_now(loop) + 2000);
    assert_int_equal(p[0].reads + p[1].reads, 1);
    loop_fd_remove(p[0].reads ? p[0].watch : p[1].watch);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

/* ---- Signals and threads ---- */

static int signals_seen[NSIG];

static void on_signal(void *arg, int signo)
{
    (void)arg;
    signals_seen[signo]++;
}

static void signals_arrive_on_the_loop(void **state)
{
    struct loop *other;
    struct sigaction now;

    (void)state;
    memset(signals_seen, 0, sizeof signals_seen);
    assert_int_equal(loop_signal(loop, SIGHUP, on_signal, NULL), 0);
    assert_int_equal(loop_signal(loop, SIGTERM, on_signal, NULL), 0);
    assert_int_equal(loop_signal(loop, SIGTERM, on_signal, NULL), HAWK_EEXISTS);
    other = loop_new(0);
    assert_int_equal(loop_signal(other, SIGHUP, on_signal, NULL), HAWK_EEXISTS);
    kill(getpid(), SIGHUP);
    until(loop, signals_seen[SIGHUP] == 1);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGHUP);
    until(loop, signals_seen[SIGTERM] == 1 && signals_seen[SIGHUP] == 2);
    loop_free(other);
    loop_free(loop);
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    loop = NULL;
}

static void a_signal_wakes_a_loop_that_waits(void **state)
{
    struct itimerval soon = {.it_value.tv_usec = 2000};

    (void)state;
    memset(signals_seen, 0, sizeof signals_seen);
    assert_int_equal(loop_signal(loop, SIGALRM, on_signal, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    until(loop, signals_seen[SIGALRM] == 1);
}

#define POSTS 2000
static int posts_seen[2];

static void count_post(void *arg) { ++*(int *)arg; }

static void *post_many(void *arg)
{
    for (int i = 0; i < POSTS; i++)
        loop_post(loop, count_post, arg);
    return NULL;
}

static void posts_from_threads_all_arrive(void **state)
{
    pthread_t t[2];

    (void)state;
    posts_seen[0] = posts_seen[1] = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, post_many, &posts_seen[i]), 0);
    until(loop, posts_seen[0] == POSTS && posts_seen[1] == POSTS);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

static void the_limit_on_files_is_raised(void **state)
{
    struct rlimit r;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
    assert_true(r.rlim_cur == r.rlim_max);
}

/* ---- Addresses ---- */

static void addresses_are_checked(void **state)
{
    static const char *const good[] = {"127.0.0.1:0",       "[::1]:7100",          "localhost:65535",
                                       "node-1.example:80", "unix:/run/hawk.sock", "unix:relative",
                                       "0.0.0.0:1"};
    static const char *const bad[] = {"",       "127.0.0.1",      ":80",     "127.0.0.1:65536", "127.0.0.1:x",
                                      "::1:80", "[127.0.0.1]:80", "[::1]80", "unix:",           "dns:///x:80",
                                      "a b:80", "127.0.0.1:",     "[::1:80", "http://x:80"};
    char why[200], longest[200] = "unix:/";

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(addr_check(good[i], why, sizeof why), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(addr_check(bad[i], why, sizeof why), HAWK_EINVALID);
        assert_non_null(strstr(why, bad[i]));
    }
    memset(longest + 6, 'x', 120);
    assert_int_equal(addr_check(longest, why, sizeof why), HAWK_EINVALID);
}

static void only_loopback_and_unix_sockets_are_local(void **state)
{
    static const char *const local[] = {"127.0.0.1:80",          "127.9.9.9:80", "[::1]:80",
                                        "[::ffff:127.0.0.1]:80", "unix:/x",      "localhost:80",
                                        "LOCALHOST:80"};
    static const char *const beyond[] = {"0.0.0.0:80",   "[::]:80",     "10.0.0.1:80",
                                         "128.0.0.1:80", "node-1:80",   "localhost.example.org:80",
                                         "nonsense",     "[fe80::1]:80"};

    (void)state;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        assert_true(addr_is_local(local[i]));
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++)
        assert_false(addr_is_local(beyond[i]));
}

static void addresses_become_grpc_targets(void **state)
{
    char buf[ADDR_TEXT], why[100];

    (void)state;
    addr_target("127.0.0.1:80", buf, sizeof buf);
    assert_string_equal(buf, "ipv4:127.0.0.1:80");
    addr_target("[::1]:80", buf, sizeof buf);
    assert_string_equal(buf, "ipv6:[::1]:80");
    addr_target("node-1:80", buf, sizeof buf);
    assert_string_equal(buf, "dns:///node-1:80");
    addr_target("unix:/x", buf, sizeof buf);
    assert_string_equal(buf, "unix:/x");
    addr_with_port("[::1]:0", 4711, buf, sizeof buf);
    assert_string_equal(buf, "[::1]:4711");
    assert_int_equal(addr_port("127.0.0.1:4711"), 4711);
    assert_int_equal(addr_port("unix:/x"), 0);
    assert_int_equal(addr_resolve("localhost:80", buf, sizeof buf, why, sizeof why), 0);
    assert_true(addr_is_local(buf) && !strstr(buf, "localhost"));
}

static void tokens_are_checked(void **state)
{
    char why[200], longest[TOKEN_BYTES_MAX + 2];

    (void)state;
    assert_int_equal(token_check("s3cret/+=", why, sizeof why), 0);
    assert_int_equal(token_check("", why, sizeof why), HAWK_EINVALID);
    assert_int_equal(token_check("a b", why, sizeof why), HAWK_EINVALID);
    assert_int_equal(token_check("a\n", why, sizeof why), HAWK_EINVALID);
    assert_int_equal(token_check("\xc3\xa4", why, sizeof why), HAWK_EINVALID);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(token_check(longest, why, sizeof why), HAWK_EINVALID);
    longest[sizeof longest - 2] = '\0';
    assert_int_equal(token_check(longest, why, sizeof why), 0);
}

#define BOTH(test)                                                                                           \
    {#test, test, setup_plain, teardown, NULL}, { #test " (net)", test, setup_net, teardown, NULL }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(timers_fire_in_order_of_time_and_setting),
        BOTH(a_timer_set_from_its_own_callback_waits_for_the_next_turn),
        BOTH(a_turn_is_bounded),
        BOTH(hooks_run_after_what_was_ready_in_order),
        BOTH(a_descriptor_wakes_the_loop),
        BOTH(a_descriptor_removed_before_its_turn_is_not_called),
        BOTH(signals_arrive_on_the_loop),
        BOTH(a_signal_wakes_a_loop_that_waits),
        BOTH(posts_from_threads_all_arrive),
        BOTH(the_limit_on_files_is_raised),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(only_loopback_and_unix_sockets_are_local),
        cmocka_unit_test(addresses_become_grpc_targets),
        cmocka_unit_test(tokens_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
