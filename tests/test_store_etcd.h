/* An etcd, centrals that want to lead, and their journals: for test_store_etcd.c and test_store_election.c. */
#ifndef HAWK_TESTS_TEST_STORE_ETCD_H
#define HAWK_TESTS_TEST_STORE_ETCD_H

#include "base/units.h"
#include "store/etcd.h"
#include "store/leader.h"
#include "tests/lib/etcd_server.h"
#include "tests/lib/store_fixture.h"

#include <ctype.h>

#define LEASE_US (2 * US_PER_S)

static struct etcd_server server; /* one for all tests; each has a prefix of its own */

static int prefixes;

/* One central, as far as the election knows it. */
struct central {
    struct leader *leader;
    struct leader_view view; /* as it was when it was waited for last */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int changes;
};

struct world {
    struct central a, b;
    char prefix[32];
    int64_t lease_us;
};

/* ---- Leaders ---- */

static void on_changed(void *arg)
{
    struct central *c = arg;

    pthread_mutex_lock(&c->lock);
    c->changes++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void central_start(struct central *c, const struct world *w, const char *address)
{
    const struct leader_config lc = {
        .endpoints = server.addr, .prefix = w->prefix, .address = address, .lease_us = w->lease_us};

    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->leader = leader_new(&lc, on_changed, c);
}

static void central_stop(struct central *c) /* resigns */
{
    leader_free(c->leader);
    c->leader = NULL;
}

/* Until what it sees satisfies `is`. */
static void wait_view(struct central *c, bool (*is)(const struct leader_view *v))
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += BOUND_S;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        int seen = c->changes;

        pthread_mutex_unlock(&c->lock);
        leader_view(c->leader, &c->view);
        if (is(&c->view))
            return;
        pthread_mutex_lock(&c->lock);
        while (c->changes == seen)
            assert_int_equal(pthread_cond_timedwait(&c->changed, &c->lock, &at), 0);
    }
}

static bool leads(const struct leader_view *v) { return v->leads; }

/* ---- The fixture ---- */

/* Each opening is a reign of its own, as in a daemon. */
static int open_in_etcd(struct fixture *f)
{
    struct world *w = f->arg;
    struct store_etcd c = {.endpoints = server.addr, .prefix = w->prefix};

    central_stop(&w->a);
    central_start(&w->a, w, "a:1");
    wait_view(&w->a, leads);
    c.revision = w->a.view.revision;
    c.epoch = w->a.view.epoch;
    return store_open_etcd(&f->s, &c, on_done, &f->done, f->why, sizeof f->why);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct world *w = xcalloc(1, sizeof *w);

    pthread_mutex_init(&f->done.lock, NULL);
    pthread_cond_init(&f->done.changed, NULL);
    f->done.pipe = -1;
    f->open = open_in_etcd;
    f->arg = w;
    w->lease_us = LEASE_US;
    snprintf(w->prefix, sizeof w->prefix, "hawk%d", ++prefixes);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct world *w = f->arg;

    kill(server.pid, SIGCONT); /* a test that failed may have left it standing */
    store_abandon(f->s);
    central_stop(&w->a);
    central_stop(&w->b);
    free(w);
    free(f);
    return 0;
}

/* ---- What is in etcd ---- */

/* By hand: puts a value, or (NULL) deletes the key. */
static void change_key(const struct world *w, const char *name, const char *value)
{
    struct etcd *e = etcd_new(server.addr, NULL);
    struct etcd_txn t = {0};
    char key[200];
    int64_t revision;
    bool done;

    snprintf(key, sizeof key, "%s/%s", w->prefix, name);
    if (value)
        etcd_txn_put(&t, key, span_text(value), 0);
    else
        etcd_txn_delete(&t, key, NULL);
    assert_int_equal(etcd_txn_run(e, &t, BOUND_S * US_PER_S, &done, &revision), 0);
    assert_true(done);
    etcd_txn_free(&t);
    etcd_free(e);
}

/* ---- A kill ---- */

static int start_server(void **state)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(server.dir, sizeof server.dir, "%s/etcd.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(server.dir));
    etcd_server_start(&server);
    return 0;
}

static int stop_server(void **state)
{
    char cmd[300];

    etcd_server_kill(&server);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", server.dir);
    return system(cmd); /* NOLINT(cert-env33-c) */
}

#endif
