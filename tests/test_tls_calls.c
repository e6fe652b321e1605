/* Servers, channels and links with TLS, gRPC and all, in one process: who answers is checked, and what a certificate
 * allows. */
#include "tests/test_tls.h"

#include "net/link.h"
#include "net/rpc.h"
#include "net/server.h"
#include "tests/lib/until.h"

#define STATS "/hawk.v1.Hawk/GetStats"

static struct loop *loop;
static struct server *server;
static struct tls *served; /* w1's */

static void on_stats(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    rpc_reply(c, request, len);
}

static struct tls *open_files(const char *name)
{
    struct tls_files f = files_of(dir, name);
    struct tls *t = tls_new(&f, why);

    assert_non_null(t);
    return t;
}

static int begin(void **state)
{
    loop = loop_new(LOOP_NET);
    served = open_files("w1");
    server = server_new(loop, &(struct server_config){.tls = served, .role = ROLE_WORKER});
    assert_int_equal(server_listen(server, "127.0.0.1:0", why, sizeof why), 0);
    server_handle(server, STATS, on_stats, NULL);
    return 0;
}

static int end(void **state)
{
    server_free(server);
    tls_free(served);
    loop_free(loop);
    return 0;
}

static int call(struct channel *ch)
{
    return rpc_call_sync(loop, ch, STATS, "x", 1, UNTIL_US, false, NULL, NULL, NULL, NULL);
}

static void who_answers_is_checked(void **state)
{
    static const struct {
        enum role role;
        int err;
    } cases[] = {{ROLE_WORKER, 0},
                 {ROLE_DIST, HAWK_EUNAVAILABLE},
                 {ROLE_CENTRAL, HAWK_EUNAVAILABLE},
                 {ROLE_NONE, HAWK_EUNAVAILABLE}};
    struct tls *ann = open_files("ann");

    server_start(server);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct channel *ch = channel_new_tls(loop, server_addr(server, 0), NULL, ann, cases[i].role);
        assert_int_equal(call(ch), cases[i].err);
        channel_free(ch);
    }
    struct channel *plain = channel_new(loop, server_addr(server, 0), NULL);
    assert_int_equal(call(plain), HAWK_EUNAVAILABLE);
    channel_free(plain);
    tls_free(ann);
}

/* A program that runs for longer than its certificate is good. */
static void a_channel_takes_a_new_certificate(void **state)
{
    issue_of(dir, "user", "old", 0);
    struct tls *old = open_files("old");
    struct channel *ch = channel_new_tls(loop, server_addr(server, 0), NULL, old, ROLE_WORKER);

    server_start(server);
    assert_int_equal(call(ch), HAWK_EUNAVAILABLE);
    issue("user", "old");
    int64_t until_us = loop_now(loop) + UNTIL_US;
    while (call(ch) != 0) /* the files are looked at once a second */
        assert_true(loop_now(loop) < until_us);
    channel_free(ch);
    tls_free(old);
}

/* ---- Links ---- */

static struct ended {
    bool up, failed, certified;
    char why[256];
} ours, theirs;

static void on_up(void *arg, struct link *k)
{
    struct ended *e = arg;

    e->up = true;
    e->certified = link_is_certified(k);
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct ended *e = arg;

    snprintf(e->why, sizeof e->why, "%s", text);
}

static void on_failed(void *arg, struct link *k) { ((struct ended *)arg)->failed = true; }
static void on_message(void *arg, struct link *k, const struct msg *m) { fail(); }

/* Dials the worker of these tests, which says that it is called `says`. */
static void dial(const char *certificate, enum role role, const char *name, const char *says)
{
    static const struct link_fns fns = {.up = on_up, .lost = on_lost, .failed = on_failed, .msg = on_message};
    struct tls *mine = open_files(certificate);
    struct links *there =
        links_new(loop, &(struct link_config){.role = ROLE_WORKER, .name = says, .seed = 1}, &fns, &theirs);
    struct links *here = links_new(
        loop, &(struct link_config){.role = role, .name = name, .tls = mine, .seed = 2}, &fns, &ours);

    ours = theirs = (struct ended){0};
    links_set_node(there, (node_id_t){5});
    server_set_links(server, there);
    server_start(server);
    link_dial_node(here, server_addr(server, 0), "worker 5", (node_id_t){5});
    until(loop, ours.up || ours.failed);
    server_set_links(server, NULL);
    links_free(here, 0);
    links_free(there, 0);
    tls_free(mine);
}

static void both_ends_of_a_link_are_certified(void **state)
{
    issue("dist", "d1");
    dial("d1", ROLE_DIST, "d1", "w1");
    assert_true(ours.up && theirs.up && ours.certified && theirs.certified);
}

static void who_dials_is_what_it_says(void **state)
{
    dial("d1", ROLE_DIST, "d2", "w1");
    assert_true(ours.failed && !theirs.up);
}

static void who_dials_has_its_role(void **state)
{
    issue("worker", "w2");
    dial("w2", ROLE_DIST, "w2", "w1");
    assert_true(ours.failed && !theirs.up);
}

static void who_answers_is_what_it_says(void **state)
{
    dial("d1", ROLE_DIST, "d1", "w3");
    assert_true(ours.failed && !ours.up);
}

int main(void)
{
#define each(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        each(who_answers_is_checked),
        each(a_channel_takes_a_new_certificate),
        each(both_ends_of_a_link_are_certified),
        each(who_dials_is_what_it_says),
        each(who_dials_has_its_role),
        each(who_answers_is_what_it_says),
    };

    return cmocka_run_group_tests(tests, make_roots, remove_roots);
}
