/* Whose the other end of a TCP connection inside this machine is. */
#include "net/loopback.h"

#include "net/listen.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ANN 61001u

struct ends {
    int listening;
    union sockaddr_any at;
    socklen_t len;
};

/* Listens at an address of IPv4, of IPv6 (::1), or at all of both. */
static struct ends listening_at(int family, bool both)
{
    struct ends e = {.len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)};
    int off = 0;

    e.at.sa.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        ((struct sockaddr_in *)&e.at.storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (!both)
        ((struct sockaddr_in6 *)&e.at.storage)->sin6_addr = in6addr_loopback;
    e.listening = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(e.listening >= 0);
    if (both)
        assert_int_equal(setsockopt(e.listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
    assert_int_equal(bind(e.listening, &e.at.sa, e.len), 0);
    assert_int_equal(listen(e.listening, 100), 0);
    assert_int_equal(getsockname(e.listening, &e.at.sa, &e.len), 0);
    return e;
}

static int dial(const struct ends *e)
{
    int fd = socket(e->at.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, &e->at.sa, e->len), 0);
    return fd;
}

static int taken(const struct ends *e)
{
    int fd = accept(e->listening, NULL, NULL);

    assert_true(fd >= 0);
    return fd;
}

static void our_own(void **state)
{
    struct ends both = listening_at(AF_INET6, true), v4 = listening_at(AF_INET, false);
    const struct ends listeners[] = {v4, listening_at(AF_INET6, false), both};

    (void)state;
    assert_true(loopback_tells());
    /* Through the IPv6 socket it sees an IPv4 address in IPv6's clothes. */
    ((struct sockaddr_in *)&v4.at.storage)->sin_port = ((struct sockaddr_in6 *)&both.at.storage)->sin6_port;
    for (size_t i = 0; i <= sizeof listeners / sizeof listeners[0]; i++) {
        const struct ends *e = i < 3 ? &listeners[i] : &both;
        int dialled = dial(i < 3 ? e : &v4), accepted = taken(e);
        uint32_t uid = ANN;

        assert_true(loopback_uid(accepted, &uid));
        assert_int_equal(uid, geteuid());
        close(dialled);
        assert_false(loopback_uid(accepted, &uid)); /* nobody's, any more */
        close(accepted);
    }
    for (size_t i = 0; i < sizeof listeners / sizeof listeners[0]; i++)
        close(listeners[i].listening);
}

static void what_is_no_connection(void **state)
{
    uint32_t uid;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_false(loopback_uid(pair[0], &uid));
    assert_false(loopback_uid(-1, &uid));
    close(pair[0]);
    close(pair[1]);
}

/* Another user's is his, and at no moment root's, while he closes it. */
static void another_users(void **state)
{
    struct ends e = listening_at(AF_INET, false);
    unsigned known = 0;
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can be another user\n");
        skip();
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgid(ANN) || setuid(ANN))
            _exit(1);
        for (unsigned i = 0; i < 4000; i++) {
            int fd = dial(&e);

            for (volatile unsigned wait = 0; wait < i % 400 * 100; wait++)
                ;
            close(fd);
        }
        _exit(0);
    }
    for (unsigned i = 0; i < 4000; i++) {
        int fd = taken(&e);
        uint32_t uid = 0;

        if (loopback_uid(fd, &uid)) {
            assert_int_equal(uid, ANN);
            known++;
        }
        close(fd);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(known > 0);
    print_message("%u of 4000 were still connected\n", known);
    close(e.listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own),
        cmocka_unit_test(what_is_no_connection),
        cmocka_unit_test(another_users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
