/* net/loop, net/addr and net/token: turns, timers, hooks, descriptors, signals, posts from threads; addresses
 * and tokens. The loop's tests run twice: with and without gRPC's completion queue. */
#include "net/addr.h"
#include "net/core.h"
#include "net/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <fcntl.h>
#include <grpc/grpc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* What happened, in order: "a", "b", … */
static char said[64];
static struct loop *loop;

static void say(void *what) { strncat(said, what, sizeof said - strlen(said) - 1); }

static int setup(void **state, unsigned flags)
{
    static unsigned used;

    used = flags;
    *state = &used;
    said[0] = '\0';
    loop = loop_new(flags);
    return 0;
}

static int setup_plain(void **state) { return setup(state, 0); }
static int setup_net(void **state) { return setup(state, LOOP_NET); }

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

/* What a task inherits keeps a pipe in the kernel's poll set after we have closed our end of it. */
static void a_closed_descriptor_is_not_taken_for_the_next_of_its_number(void **state)
{
    int old[2], new[2], inherited;
    struct pipe_end p = {0};

    (void)state;
    assert_int_equal(pipe2(old, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(new, O_CLOEXEC | O_NONBLOCK), 0);
    inherited = dup(old[0]);
    p.fd = old[0];
    p.watch = loop_fd_add(loop, p.fd, LOOP_READ, on_pipe, &p);
    assert_int_equal(write(old[1], "x", 1), 1);
    until(loop, p.reads == 1);
    loop_fd_remove(p.watch);
    assert_int_equal(dup2(new[0], p.fd), p.fd); /* closes it, and takes its number */
    p.watch = loop_fd_add(loop, p.fd, LOOP_READ, on_pipe, &p);
    assert_int_equal(write(old[1], "x", 1), 1);
    for (int i = 0; i < 4; i++)
        loop_once(loop, loop_now(loop) + 1000);
    assert_int_equal(p.reads, 1);
    assert_int_equal(write(new[1], "x", 1), 1);
    until(loop, p.reads == 2);
    loop_fd_remove(p.watch);
    for (int i = 0; i < 2; i++) {
        close(old[i]);
        close(new[i]);
    }
    close(inherited);
}

static void count_turn(void *arg) { ++*(int *)arg; }

static void nobody_waiting_for_a_descriptor_turns_no_loop(void **state)
{
    int fds[2], turns = 0;
    struct pipe_end p = {0};
    struct loop_hook after;
    int64_t start;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    p.fd = fds[0];
    p.watch = loop_fd_add(loop, fds[0], LOOP_READ, on_pipe, &p);
    assert_int_equal(write(fds[1], "x", 1), 1);
    until(loop, p.reads == 1);
    loop_fd_events(p.watch, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    close(fds[1]); /* readable, and hung up */
    loop_hook_add(loop, &after, LOOP_AFTER, count_turn, &turns);
    start = loop_now(loop);
    while (loop_now(loop) < start + 20000)
        loop_once(loop, start + 20000);
    assert_true(turns < 8);
    loop_hook_remove(&after);
    assert_int_equal(p.reads, 1);
    loop_fd_events(p.watch, LOOP_READ);
    until(loop, p.reads == 2);
    loop_fd_remove(p.watch);
    close(fds[0]);
}

#define PAIRS 16
#define BYTES 4000
static struct pipe_end pairs[PAIRS];
static int far_ends[PAIRS], pairs_read;

static void on_pair(void *arg, unsigned events)
{
    struct pipe_end *p = arg, *next = &pairs[(p - pairs + 1) % PAIRS];
    char byte;

    assert_int_equal(events, LOOP_READ);
    assert_int_equal(read(p->fd, &byte, 1), 1);
    pairs_read++;
    p->reads++;
    if (p->reads % 3 == 0) { /* another's watch is made anew, ready or not */
        loop_fd_remove(next->watch);
        next->watch = loop_fd_add(loop, next->fd, LOOP_READ, on_pair, next);
    }
    if (p->reads % 4 == 0) { /* and the own one */
        loop_fd_remove(p->watch);
        p->watch = loop_fd_add(loop, p->fd, LOOP_READ, on_pair, p);
    }
}

static void *write_pairs(void *arg)
{
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(write(far_ends[i * 7 % PAIRS], "x", 1), 1);
    return NULL;
}

static void no_byte_is_missed_while_watches_change(void **state)
{
    pthread_t t;

    (void)state;
    pairs_read = 0;
    for (int i = 0; i < PAIRS; i++) {
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        far_ends[i] = fds[1];
        pairs[i] = (struct pipe_end){.fd = fds[0]};
        pairs[i].watch = loop_fd_add(loop, fds[0], LOOP_READ, on_pair, &pairs[i]);
    }
    assert_int_equal(pthread_create(&t, NULL, write_pairs, NULL), 0);
    until(loop, pairs_read == BYTES);
    pthread_join(t, NULL);
    for (int i = 0; i < PAIRS; i++) {
        loop_fd_remove(pairs[i].watch);
        close(pairs[i].fd);
        close(far_ends[i]);
    }
}

static void a_loop_ends_with_something_ready(void **state)
{
    int fds[2];
    struct pipe_end p = {0};

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    p.fd = fds[0];
    p.watch = loop_fd_add(loop, fds[0], LOOP_READ, on_pipe, &p);
    assert_int_equal(write(fds[1], "xxxx", 4), 4);
    until(loop, p.reads == 1);
    assert_int_equal(write(fds[1], "x", 1), 1); /* its watch is forgotten */
    loop_free(loop);
    loop = NULL;
    close(fds[0]);
    close(fds[1]);
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

static void a_signal_nobody_handled_is_not_the_next_owners(void **state)
{
    unsigned flags = *(unsigned *)*state;
    struct sigaction now;

    memset(signals_seen, 0, sizeof signals_seen);
    signal(SIGUSR1, SIG_IGN);
    assert_int_equal(loop_signal(loop, SIGUSR1, on_signal, NULL), 0);
    kill(getpid(), SIGUSR1);
    loop_free(loop);
    loop = NULL;
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);

    loop = loop_new(flags);
    assert_int_equal(loop_signal(loop, SIGUSR1, on_signal, NULL), 0);
    assert_int_equal(loop_signal(loop, SIGUSR2, on_signal, NULL), 0);
    kill(getpid(), SIGUSR2);
    until(loop, signals_seen[SIGUSR2] == 1);
    assert_int_equal(signals_seen[SIGUSR1], 0);
}

static void what_a_drain_leaves_comes_with_the_next_turn(void **state)
{
    int fds[2];
    struct pipe_end p = {0};
    bool never = false;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    p.fd = fds[0];
    p.watch = loop_fd_add(loop, fds[0], LOOP_READ, on_pipe, &p);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_post(loop, say, (char[]){"1"});
    assert_false(loop_drain(loop, &never, loop_now(loop) + 20000));
    assert_string_equal(said, "");
    assert_int_equal(p.reads, 0);
    loop_once(loop, loop_now(loop) + UNTIL_US);
    assert_string_equal(said, "1");
    until(loop, p.reads == 1);
    loop_fd_remove(p.watch);
    close(fds[0]);
    close(fds[1]);
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

/* gRPC's shutdown joins a thread that watches a blocked socket for up to ten seconds. */
static void a_loop_that_ends_does_not_wait_for_grpc(void **state)
{
    (void)state;
    loop_free(loop_new(LOOP_NET));
    assert_true(grpc_is_initialized());
    loop_free(loop_new(LOOP_NET));
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

static int token_error(const char *token, size_t len, const char *words)
{
    char why[200] = "";
    int err = token_check(token, len, why, sizeof why);

    assert_non_null(strstr(why, words));
    return err;
}

static void tokens_are_checked(void **state)
{
    static char longest[TOKEN_BYTES_MAX + 1];

    (void)state;
    memset(longest, 'x', sizeof longest);
    assert_int_equal(token_error("0123456789abc/+=", TOKEN_BYTES_MIN, ""), 0);
    assert_int_equal(token_error(longest, TOKEN_BYTES_MAX, ""), 0);
    assert_int_equal(token_error("", 0, "16 to 1024 characters, this one has 0: make one"), HAWK_EINVALID);
    assert_int_equal(token_error("x", 1, "this one has 1"), HAWK_EINVALID);
    assert_int_equal(token_error("0123456789abc/+=", 15, "this one has 15"), HAWK_EINVALID);
    assert_int_equal(token_error(longest, TOKEN_BYTES_MAX + 1, "this one has 1025"), HAWK_EINVALID);
    assert_int_equal(token_error("0123456789 abcdef", 17, "byte 11"), HAWK_EINVALID);
    assert_int_equal(token_error("0123456789\nabcdef", 17, "byte 11 of this one is an end of line"),
                     HAWK_EINVALID);
    assert_int_equal(token_error("0123456789abcdef\0", 17, "byte 17 of this one is NUL"), HAWK_EINVALID);
    assert_int_equal(token_error("0123456789\xc3\xa4"
                                 "bcdef",
                                 17, "byte 11 of this one is none"),
                     HAWK_EINVALID);
}

/* What token_read makes of a file with these bytes; the token is in got. */
static int token_in(const char *text, size_t len, mode_t mode, bool secret, char got[TOKEN_BYTES_MAX + 1],
                    char *why, size_t size)
{
    char path[] = "/tmp/hawk-token-XXXXXX", *token = NULL;
    int fd = mkstemp(path), err;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    err = token_read(path, secret, &token, why, size);
    unlink(path);
    snprintf(got, TOKEN_BYTES_MAX + 1, "%s", token ? token : "");
    free(token);
    return err;
}

static void a_token_file_is_one_word(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        bool ok;
    } files[] = {
        {"0123456789abcdef", 16, true},
        {"0123456789abcdef\n", 17, true},
        {"0123456789abcdef\r\n", 18, true},
        {"0123456789abcdef\n\n", 18, false},
        {"0123456789abcdef\nx\n", 19, false},
        {" 0123456789abcdef\n", 18, false},
        {"0123456789abcdef \n", 18, false},
        {"0123456789abcdef\0\n", 18, false},
        {"0123456789abcde\n", 16, false},
        {"\n", 1, false},
        {"", 0, false},
    };
    char got[TOKEN_BYTES_MAX + 1], why[400], *token = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int err = token_in(files[i].text, files[i].len, 0600, true, got, why, sizeof why);
        assert_int_equal(err, files[i].ok ? 0 : HAWK_EINVALID);
        assert_string_equal(got, files[i].ok ? "0123456789abcdef" : "");
        assert_true(files[i].ok || strstr(why, "/tmp/hawk-token-"));
    }
    assert_int_equal(token_in("0123456789abcdef", 16, 0640, true, got, why, sizeof why), HAWK_EINVALID);
    assert_non_null(strstr(why, "chmod 600"));
    assert_int_equal(token_in("0123456789abcdef", 16, 0640, false, got, why, sizeof why), 0);
    assert_int_equal(token_read("/nonexistent/token", true, &token, why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "/nonexistent/token: No such file"));
    assert_int_equal(token_read("/tmp", true, &token, why, sizeof why), HAWK_EIO);
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
        BOTH(a_closed_descriptor_is_not_taken_for_the_next_of_its_number),
        BOTH(nobody_waiting_for_a_descriptor_turns_no_loop),
        BOTH(no_byte_is_missed_while_watches_change),
        BOTH(a_loop_ends_with_something_ready),
        BOTH(signals_arrive_on_the_loop),
        BOTH(a_signal_wakes_a_loop_that_waits),
        BOTH(a_signal_nobody_handled_is_not_the_next_owners),
        cmocka_unit_test_setup_teardown(what_a_drain_leaves_comes_with_the_next_turn, setup_net, teardown),
        BOTH(posts_from_threads_all_arrive),
        BOTH(the_limit_on_files_is_raised),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(only_loopback_and_unix_sockets_are_local),
        cmocka_unit_test(a_loop_that_ends_does_not_wait_for_grpc),
        cmocka_unit_test(addresses_become_grpc_targets),
        cmocka_unit_test(tokens_are_checked),
        cmocka_unit_test(a_token_file_is_one_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
