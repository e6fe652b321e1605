/* net/server: how many calls it takes of one connection, of one address and in all, and its end in the midst
 * of calls. */
#include "net/core.h"
#include "net/listen.h"
#include "net/rpc.h"
#include "net/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/until.h"
#include <dlfcn.h>
#include <errno.h>
#include <grpc/grpc.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ECHO "/hawk.test.T/Echo"
#define PARK "/hawk.test.T/Park" /* lasts, as its client likes */
#define FEW "/hawk.test.T/Few"
#define FEW_MAX 10u
#define HOLD "/hawk.test.T/Hold"   /* one request; answered never */
#define WATCH "/hawk.test.T/Watch" /* the same, and lasts */

static struct loop *loop;
static struct server *served;
static struct channel *channel; /* over loopback */
static char socket_dir[] = "/tmp/hawk-test-XXXXXX";

/* ---- Handlers ---- */

static void on_echo(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)arg;
    rpc_reply(c, request, len);
}

/* Calls that wait until their client ends them. */
static unsigned parked_n;

static void park_cancelled(void *arg, struct rpc_call *c)
{
    (void)arg;
    parked_n--;
    rpc_fail(c, GRPC_STATUS_CANCELLED, "gone");
}

static void on_park(void *arg, struct rpc_call *c)
{
    (void)arg;
    parked_n++;
    rpc_watch(c, park_cancelled, NULL, NULL);
}

static void on_hold(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    on_park(arg, c);
}

static void nothing(void *arg) { (void)arg; }

/* ---- A server, on loopback and on a unix socket ---- */

static void serve(uint32_t max_calls)
{
    struct server_config c = {.max_calls = max_calls};
    char why[256], unix_addr[64];

    parked_n = 0;
    loop = loop_new(LOOP_NET);
    served = server_new(loop, &c);
    assert_int_equal(server_listen(served, "127.0.0.1:0", why, sizeof why), 0);
    snprintf(unix_addr, sizeof unix_addr, "unix:%s/socket", socket_dir);
    assert_int_equal(server_listen(served, unix_addr, why, sizeof why), 0);
    server_handle(served, ECHO, on_echo, NULL);
    server_handle_stream(served, PARK, on_park, NULL);
    server_handle_stream(served, FEW, on_park, NULL);
    server_limit(served, FEW, FEW_MAX);
    server_handle(served, HOLD, on_hold, NULL);
    server_handle(served, WATCH, on_hold, NULL);
    server_lasting(served, WATCH);
    server_start(served);
    channel = channel_new(loop, server_addr(served, 0), NULL);
}

static int teardown(void **state)
{
    (void)state;
    channel_free(channel);
    channel = NULL;
    server_free(served);
    served = NULL;
    loop_free(loop);
    loop = NULL;
    return 0;
}

static int echo(struct channel *to)
{
    return rpc_call_sync(loop, to, ECHO, "x", 1, UNTIL_US, false, NULL, NULL, NULL, NULL);
}

/* ---- A client that does not answer ---- */

static bool hung_up(int fd)
{
    char buf[256];
    ssize_t n;

    do
        n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || errno != EAGAIN;
}

/* A ping may go unanswered for a while: the answer waits while the loop is busy. */
static void a_silent_client_is_given_up_late(void **state)
{
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0";
    union sockaddr_any to;
    struct loop_timer look;
    socklen_t len;
    int64_t began_us;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    serve(0);
    assert_int_equal(listen_sockaddr(server_addr(served, 0), &to, &len), 0);
    assert_int_equal(connect(fd, &to.sa, len), 0);
    assert_int_equal(send(fd, begin, sizeof begin - 1, MSG_NOSIGNAL), sizeof begin - 1);
    began_us = loop_now(loop);
    loop_timer_init(&look, nothing, NULL);
    while (!hung_up(fd)) {
        assert_true(loop_now(loop) - began_us < 3 * UNTIL_US);
        loop_timer_set(loop, &look, loop_now(loop) + 100 * US_PER_MS);
        loop_once(loop, loop_now(loop) + UNTIL_US);
    }
    loop_timer_clear(loop, &look);
    assert_true(loop_now(loop) - began_us >=
                (NET_KEEPALIVE_MS + NET_KEEPALIVE_ACCEPTED_TIMEOUT_MS - 500) * US_PER_MS);
    close(fd);
}

/* ---- Limits ---- */

/* Calls of one connection; the first that is refused says why, all others wait. */
struct parked {
    struct channel *from;
    struct rpc *rpc[400];
    unsigned n, refused;
    char why[256];
};

static void parked_done(void *arg, grpc_status_code code, const char *why)
{
    struct parked *p = arg;

    if (!served)
        return;
    assert_int_equal(code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    p->refused++;
    snprintf(p->why, sizeof p->why, "%s", why);
}

static const struct rpc_fns parked_fns = {.done = parked_done};

static struct rpc *open_one(struct parked *p, const char *method)
{
    if (strcmp(method, HOLD) == 0 || strcmp(method, WATCH) == 0)
        return rpc_start(p->from, method, "x", 1, TIME_NEVER, false, &parked_fns, p);
    return rpc_open(p->from, method, &parked_fns, p);
}

/* So many more are accepted, and the next is refused for this reason. */
static void park(struct parked *p, const char *method, unsigned n, const char *why)
{
    unsigned before = parked_n, refused = p->refused;

    for (unsigned i = 0; i < n; i++)
        p->rpc[p->n++] = open_one(p, method);
    until(loop, parked_n == before + n || p->refused > refused);
    assert_int_equal(p->refused, refused);
    if (!why)
        return;
    (void)open_one(p, method);
    until(loop, p->refused > refused);
    if (!strstr(p->why, why))
        fail_msg("'%s', not '%s'", p->why, why);
}

static void leave(struct parked *p)
{
    unsigned before = parked_n;

    for (unsigned i = 0; i < p->n; i++)
        rpc_cancel(p->rpc[i]);
    until(loop, parked_n == before - p->n);
    p->n = 0;
}

static void one_connection_has_its_limits(void **state)
{
    struct parked p = {0};

    (void)state;
    serve(200);
    p.from = channel;
    park(&p, FEW, FEW_MAX, "10 calls of " FEW " under way");
    park(&p, PARK, 100 - FEW_MAX, "this connection has 100 calls under way");
    leave(&p);
    park(&p, FEW, FEW_MAX, NULL); /* its places are free again */
    leave(&p);
}

static void requests_that_do_not_come_have_a_limit(void **state)
{
    struct parked p = {0};

    (void)state;
    serve(0);
    p.from = channel;
    park(&p, PARK, 300, "300 calls whose requests have not come");
    leave(&p);
    assert_int_equal(echo(channel), 0);
}

/* Each with a connection of its own; the first half over loopback, the others over the unix socket. */
static void connect_all(struct parked *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        p[i] = (struct parked){
            .from = channel_new_foreign(loop, server_addr(served, i >= (n + 1) / 2), NULL, NULL, 0)};
}

static void leave_all(struct parked *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        leave(&p[i]);
        channel_free(p[i].from);
    }
}

/* Who has many calls under way leaves the last tenth to others. */
static void the_last_places_are_kept_for_light_connections(void **state)
{
    struct parked p[4];

    (void)state;
    serve(200);
    connect_all(p, 4);
    park(&p[0], HOLD, 100, "this connection has 100 calls");
    park(&p[2], HOLD, 80, "keeps the rest of its 200 for connections with fewer than 64");
    park(&p[3], HOLD, 20, "this daemon has 200 calls under way, its limit");
    leave_all(p, 4);
}

/* However many connections a machine has, others find room. */
static void one_address_has_its_share(void **state)
{
    struct parked p[6];

    (void)state;
    serve(200);
    connect_all(p, 6);
    park(&p[0], HOLD, 63, NULL);
    park(&p[1], HOLD, 63, NULL);
    park(&p[2], HOLD, 14,
         "the clients of your address have 140 calls under way here, the limit of one address");
    assert_int_equal(echo(p[3].from), 0);
    park(&p[3], HOLD, 60, "this daemon has 200 calls under way, its limit");
    leave(&p[0]);
    park(&p[1], HOLD, 1, NULL);
    leave_all(p, 6);
}

/* Watches and sessions leave places to calls that are answered, of their own machine and of all. */
static void calls_that_last_leave_places_to_others(void **state)
{
    struct parked p[6];

    (void)state;
    serve(200);
    connect_all(p, 6);
    park(&p[0], WATCH, 63, NULL);
    park(&p[1], PARK, 57, "your address have 120 watches and other calls that last under way here");
    park(&p[1], WATCH, 0, "your address have 120 watches and other calls that last under way here");
    assert_int_equal(echo(p[1].from), 0);
    park(&p[2], HOLD, 20, "the clients of your address have 140 calls");
    leave(&p[2]);
    park(&p[3], PARK, 60, "this daemon has 180 watches and other calls that last under way, its limit");
    assert_int_equal(echo(p[3].from), 0);
    park(&p[4], HOLD, 20, "this daemon has 200 calls under way, its limit");
    leave_all(p, 6);
}

/* ---- Names ---- */

#define LATE 61001u /* a user whom the system cannot look up for now */
static bool he_calls;

/* In place of the system's. */
int getsockopt(int fd, int level, int optname, void *optval, socklen_t *optlen)
{
    int r = (int)syscall(SYS_getsockopt, fd, level, optname, optval, optlen);

    if (he_calls && level == SOL_SOCKET && optname == SO_PEERCRED)
        ((struct ucred *)optval)->uid = LATE;
    return r;
}

int getpwuid_r(uid_t uid, struct passwd *resultbuf, char *buffer, size_t buflen, struct passwd **result)
{
    (void)resultbuf;
    (void)buffer;
    (void)buflen;
    *result = NULL;
    return uid == LATE ? EIO : 0;
}

/* By his number he would be another user. */
static void whose_name_cannot_be_looked_up_is_told_so(void **state)
{
    struct channel *local;
    int status;
    char *text;

    (void)state;
    serve(0);
    local = channel_new(loop, server_addr(served, 1), NULL);
    he_calls = true;
    assert_int_equal(rpc_call_sync(loop, local, ECHO, "x", 1, UNTIL_US, false, NULL, NULL, &status, &text),
                     HAWK_EUNAVAILABLE);
    assert_int_equal(status, GRPC_STATUS_UNAVAILABLE);
    assert_non_null(strstr(text, "whose name could not be looked up: try again"));
    he_calls = false;
    free(text);
    channel_free(local);
}

/* ---- The end ---- */

/* gRPC says that a server has been shut down when its connections are gone. Calls of theirs may be completed
 * after that, where other threads are at it: here they always are. */
static struct {
    bool on;
    void *stopped; /* the tag */
    bool given, paused;
    grpc_event late[256];
    unsigned late_n, late_given;
} order;

void grpc_server_shutdown_and_notify(grpc_server *server, grpc_completion_queue *cq, void *tag)
{
    void *real = dlsym(RTLD_NEXT, "grpc_server_shutdown_and_notify");
    void (*call)(grpc_server *, grpc_completion_queue *, void *);

    memcpy(&call, &real, sizeof real);
    order.stopped = order.on ? tag : NULL;
    call(server, cq, tag);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue *cq, gpr_timespec deadline, void *reserved)
{
    static grpc_event (*call)(grpc_completion_queue *, gpr_timespec, void *);
    grpc_event e;

    if (!call) {
        void *real = dlsym(RTLD_NEXT, "grpc_completion_queue_next");
        memcpy(&call, &real, sizeof real);
    }
    if (order.given && !order.paused) {
        order.paused = true;
        return (grpc_event){.type = GRPC_QUEUE_TIMEOUT};
    }
    if (order.given && order.late_given < order.late_n)
        return order.late[order.late_given++];
    e = call(cq, deadline, reserved);
    while (order.stopped && !order.given && e.type == GRPC_OP_COMPLETE && e.tag != order.stopped) {
        assert_true(order.late_n < sizeof order.late / sizeof order.late[0]);
        order.late[order.late_n++] = e;
        e = call(cq, deadline, reserved);
    }
    order.given = order.given || (order.stopped && e.type == GRPC_OP_COMPLETE);
    return e;
}

static void what_completes_after_the_shutdown_is_waited_for(void **state)
{
    struct parked p = {0};

    (void)state;
    serve(0);
    p.from = channel_new_foreign(loop, server_addr(served, 0), NULL, NULL, 0);
    park(&p, HOLD, 40, NULL);
    park(&p, PARK, 40, NULL);
    order.on = true;
    server_free(served);
    served = NULL;
    assert_true(order.given && order.late_n >= 80);
    assert_int_equal(order.late_given, order.late_n);
    order.on = false;
    assert_int_equal(parked_n, 0);
    channel_free(p.from);
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(socket_dir) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return rmdir(socket_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_silent_client_is_given_up_late, teardown),
        cmocka_unit_test_teardown(one_connection_has_its_limits, teardown),
        cmocka_unit_test_teardown(requests_that_do_not_come_have_a_limit, teardown),
        cmocka_unit_test_teardown(the_last_places_are_kept_for_light_connections, teardown),
        cmocka_unit_test_teardown(one_address_has_its_share, teardown),
        cmocka_unit_test_teardown(calls_that_last_leave_places_to_others, teardown),
        cmocka_unit_test_teardown(whose_name_cannot_be_looked_up_is_told_so, teardown),
        cmocka_unit_test_teardown(what_completes_after_the_shutdown_is_waited_for, teardown),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
