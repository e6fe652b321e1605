/* The election: see leader.h.
 *
 * A standby reads the leader's key several times per lease. A watch would tell it of a change a fraction
 * of a lease sooner. But a watch does not tell that etcd is gone, so the standby would have to read the
 * key all the same. */
#include "store/leader.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct leader {
    char *key, *epoch_key, *standby_keys, *address;
    int64_t ttl_s, lease_us;
    void (*changed)(void *arg);
    void *arg;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members below, except those of the thread */
    pthread_cond_t wake;
    struct leader_view view;
    struct leader_standbys standbys;
    int64_t until_us; /* while view.leads: this process leads until then */
    bool stopping, take_down;

    struct etcd *etcd; /* the thread's own */
    int64_t lease;     /* the thread's: held, or 0 */
    int64_t standby;   /* the thread's: the lease of its registration, or 0 */
    uint32_t seen;     /* the thread's: the epoch of the last reign it stood by */
    int64_t pause_until_us;
};

static int64_t now_us(void) { return clock_us(CLOCK_BOOTTIME); }

/* ---- What others see ---- */

/* Under lock: ends the last reign if its time is over. Both threads call it, so that the one that notices first ends
 * the reign. Returns whether this call ended it. */
static bool expire_lease(struct leader *l)
{
    if (!l->view.leads || now_us() < l->until_us)
        return false;
    l->view.leads = false;
    return true;
}

void leader_view(struct leader *l, struct leader_view *v)
{
    pthread_mutex_lock(&l->lock);
    if (expire_lease(l))
        pthread_cond_signal(&l->wake);
    *v = l->view;
    pthread_mutex_unlock(&l->lock);
}

bool leader_holds(struct leader *l, uint32_t epoch)
{
    pthread_mutex_lock(&l->lock);
    if (expire_lease(l))
        pthread_cond_signal(&l->wake);
    bool holds = l->view.leads && l->view.epoch == epoch;
    pthread_mutex_unlock(&l->lock);
    return holds;
}

void leader_standbys(struct leader *l, struct leader_standbys *s)
{
    pthread_mutex_lock(&l->lock);
    *s = l->standbys;
    pthread_mutex_unlock(&l->lock);
}

void leader_yield(struct leader *l, uint32_t epoch)
{
    pthread_mutex_lock(&l->lock);
    if (l->view.leads && l->view.epoch == epoch) {
        l->view.leads = false;
        pthread_cond_signal(&l->wake);
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- The thread: centrals that stand by ---- */

static int64_t call_us(const struct leader *l) { return l->lease_us / LEADER_RENEW_PER_LEASE; }

/* The key's name ends in the lease's id, which is unique. So two centrals that give the same address do
 * not remove each other's key. */
static void register_anew(struct leader *l)
{
    char key[ETCD_KEY_MAX];
    struct etcd_txn t = {0};
    int64_t granted_s, revision;
    bool done;

    if (etcd_lease_grant(l->etcd, l->ttl_s, call_us(l), &l->standby, &granted_s)) {
        l->standby = 0;
        return;
    }
    snprintf(key, sizeof key, "%s/%016" PRIx64, l->standby_keys, (uint64_t)l->standby);
    etcd_txn_put(&t, key, span_text(l->address), l->standby);
    if (etcd_txn_run(l->etcd, &t, call_us(l), &done, &revision)) {
        log_debug("not registered as one that stands by: %s", etcd_why(l->etcd));
        l->standby = 0; /* it runs out */
    }
    etcd_txn_free(&t);
}

/* The registration is only shown to people. If it fails, the thread tries again at the next look, and the
 * election does not wait. */
static void register_standby(struct leader *l)
{
    int64_t left_s = 0;

    if (l->standby && etcd_lease_keep(l->etcd, l->standby, call_us(l), &left_s))
        return;
    if (left_s == 0)
        register_anew(l);
}

static void unregister_standby(struct leader *l)
{
    if (l->standby && etcd_lease_revoke(l->etcd, l->standby, call_us(l)))
        log_debug("the lease of one that stood by is left to run out: %s", etcd_why(l->etcd));
    l->standby = 0;
}

static int take_standby(void *arg, const struct etcd_kv *kv)
{
    struct leader_standbys *s = arg;
    char why[200], *at = s->address[s->n];

    if (s->n == LEADER_STANDBYS_MAX) /* a server that ignores the limit */
        return 0;
    snprintf(at, ADDR_TEXT, "%.*s", (int)kv->value.len, (const char *)kv->value.data);
    s->n += addr_check(at, why, sizeof why) == 0; /* a foreign key is not shown */
    return 0;
}

static void set_standbys(struct leader *l, const struct leader_standbys *s)
{
    pthread_mutex_lock(&l->lock);
    l->standbys = *s;
    pthread_mutex_unlock(&l->lock);
}

/* If they cannot be read now, the last ones stay. */
static void read_standbys(struct leader *l)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    struct leader_standbys s = {0};
    struct etcd_range r = {
        .from = from, .to = to, .limit = LEADER_STANDBYS_MAX, .fn = take_standby, .arg = &s};

    snprintf(from, sizeof from, "%s/", l->standby_keys);
    snprintf(to, sizeof to, "%s0", l->standby_keys);
    if (etcd_range(l->etcd, &r, call_us(l)) == 0)
        set_standbys(l, &s);
}

/* ---- The thread: the election ---- */

static bool same_view(const struct leader_view *a, const struct leader_view *b)
{
    return a->leads == b->leads && a->epoch == b->epoch && a->revision == b->revision && a->down == b->down &&
           strcmp(a->active, b->active) == 0 && strcmp(a->trouble, b->trouble) == 0;
}

/* Makes *next visible to others. Only this thread begins a reign. */
static void publish_view(struct leader *l, const struct leader_view *next, int64_t until_us)
{
    pthread_mutex_lock(&l->lock);
    bool differs = !same_view(&l->view, next);
    l->view = *next;
    l->until_us = until_us;
    pthread_mutex_unlock(&l->lock);
    if (differs)
        l->changed(l->arg);
}

/* No leader is known. why: why etcd does not say, or "". */
static void publish_none(struct leader *l, const char *trouble)
{
    struct leader_view v = {0};

    snprintf(v.trouble, sizeof v.trouble, "%s", trouble);
    publish_view(l, &v, 0);
}

struct key {
    bool there;
    int64_t created, changed, lease;
    char value[ADDR_TEXT + 16];
};

static int take_key(void *arg, const struct etcd_kv *kv)
{
    struct key *k = arg;

    k->there = true;
    k->created = kv->create_revision;
    k->changed = kv->mod_revision;
    k->lease = kv->lease;
    snprintf(k->value, sizeof k->value, "%.*s", (int)kv->value.len, (const char *)kv->value.data);
    return 0;
}

static int read_key(struct leader *l, const char *name, struct key *k)
{
    struct etcd_range r = {.from = name, .fn = take_key, .arg = k};

    *k = (struct key){0};
    return etcd_range(l->etcd, &r, l->lease_us / LEADER_RENEW_PER_LEASE);
}

#define DOWN "down"

/* The key's value is "EPOCH ADDRESS"; the last one of a cluster that is taken down is "EPOCH down". */
static void view_of(const struct key *k, struct leader_view *v)
{
    char *end;

    *v = (struct leader_view){.epoch = (uint32_t)strtoul(k->value, &end, 10)};
    v->revision = k->created;
    snprintf(v->active, sizeof v->active, "%s", *end == ' ' ? end + 1 : end);
}

/* Revokes our lease, so that another central can begin now instead of when the lease has run out.
 * HAWK_EUNAVAILABLE: try again, since an etcd that comes back renews every lease. */
static int give_up_lease(struct leader *l)
{
    int err = l->lease ? etcd_lease_revoke(l->etcd, l->lease, l->lease_us / LEADER_RENEW_PER_LEASE) : 0;

    if (err != HAWK_EUNAVAILABLE)
        l->lease = 0;
    return l->lease ? err : 0;
}

/* Puts "EPOCH down" under the key, which stays as long as the lease. */
static void put_down(struct leader *l, uint32_t epoch, int64_t revision)
{
    char value[32];
    struct etcd_txn t = {0};
    bool done = false;

    snprintf(value, sizeof value, "%" PRIu32 " " DOWN, epoch);
    etcd_txn_if_created(&t, l->key, revision);
    etcd_txn_put(&t, l->key, span_text(value), l->lease);
    if (etcd_txn_run(l->etcd, &t, l->lease_us / LEADER_RENEW_PER_LEASE, &done, &revision) || !done)
        log_warn("centrals that stand by could not be told to stop: %s", etcd_why(l->etcd));
    etcd_txn_free(&t);
}

/* Creates the key if there still is none. sent_us: a time before the lease was granted. */
static int create_key(struct leader *l)
{
    char value[sizeof((struct key){0}).value], number[16];
    struct etcd_txn t = {0};
    struct key epoch;
    int64_t revision;
    bool done;
    int err = read_key(l, l->epoch_key, &epoch);

    if (err)
        return err;
    snprintf(number, sizeof number, "%lu", strtoul(epoch.value, NULL, 10) + 1);
    snprintf(value, sizeof value, "%s %s", number, l->address);
    etcd_txn_if_created(&t, l->key, 0);
    etcd_txn_if_changed(&t, l->epoch_key, epoch.changed);
    etcd_txn_put(&t, l->key, span_text(value), l->lease);
    etcd_txn_put(&t, l->epoch_key, span_text(number), 0);
    err = etcd_txn_run(l->etcd, &t, l->lease_us / LEADER_RENEW_PER_LEASE, &done, &revision);
    etcd_txn_free(&t);
    return err;
}

static int64_t end_of(const struct leader *l, int64_t sent_us)
{
    return sent_us + l->lease_us - l->lease_us / LEADER_MARGIN;
}

/* *leads: whether the key exists with our lease: it may, even if the answer to its creation was lost. */
static int try_to_lead(struct leader *l, bool *leads)
{
    int64_t sent_us = now_us(), granted_s = 0;
    struct leader_view v;
    struct key k;
    int err =
        etcd_lease_grant(l->etcd, l->ttl_s, l->lease_us / LEADER_RENEW_PER_LEASE, &l->lease, &granted_s);

    if (!err)
        err = create_key(l);
    if (!err)
        err = read_key(l, l->key, &k);
    if (err || !k.there || k.lease != l->lease || granted_s < l->ttl_s)
        return err; /* the next attempt gives the lease back */
    view_of(&k, &v);
    v.leads = *leads = true;
    publish_view(l, &v, end_of(l, sent_us));
    unregister_standby(l);
    return 0;
}

static int64_t campaign(struct leader *l)
{
    struct leader_view v;
    struct key k;
    bool leads = false;
    int err = give_up_lease(l); /* the lease of a reign that has ended, or did not begin */

    if (!err)
        err = read_key(l, l->key, &k);
    if (!err && !k.there && now_us() >= l->pause_until_us)
        err = try_to_lead(l, &leads);
    if (err) {
        publish_none(l, etcd_why(l->etcd));
    } else if (!k.there && !leads) {
        publish_none(l, "");
    } else if (k.there) {
        view_of(&k, &v);
        if (strcmp(v.active, DOWN) == 0) {
            v.down = l->seen == v.epoch; /* a central that starts meanwhile does not end */
            v.active[0] = '\0';
        } else {
            l->seen = v.epoch;
        }
        publish_view(l, &v, 0);
        register_standby(l);
    }
    return l->lease_us / LEADER_POLL_PER_LEASE;
}

/* Prolongs the reign, unless it has ended meanwhile. */
static void prolong_lease(struct leader *l, int64_t until_us)
{
    pthread_mutex_lock(&l->lock);
    if (!expire_lease(l))
        l->until_us = until_us;
    pthread_mutex_unlock(&l->lock);
}

static int64_t rule_epoch(struct leader *l)
{
    int64_t sent_us = now_us(), left_s = 0;
    struct key k;
    int err = etcd_lease_keep(l->etcd, l->lease, l->lease_us / LEADER_RENEW_PER_LEASE, &left_s);

    /* Somebody may have removed the key by hand. Then another central leads by now. */
    if (!err)
        err = read_key(l, l->key, &k);
    if (err)
        return l->lease_us / LEADER_RENEW_PER_LEASE / 4;
    if (left_s == 0 || !k.there || k.lease != l->lease)
        leader_yield(l, l->view.epoch); /* only this thread writes the epoch */
    else
        prolong_lease(l, end_of(l, sent_us));
    read_standbys(l);
    return l->lease_us / LEADER_RENEW_PER_LEASE;
}

/* Under lock. */
static void wait_us(struct leader *l, int64_t us)
{
    if (l->view.leads && l->until_us - now_us() < us)
        us = l->until_us - now_us();
    if (us <= 0)
        return;
    struct timespec at = clock_after(CLOCK_MONOTONIC, us);
    pthread_cond_timedwait(&l->wake, &l->lock, &at);
}

/* The reign is over. The loop is told, and this process does not campaign for the length of a lease, so
 * that others come first. */
static void step_down(struct leader *l)
{
    l->pause_until_us = now_us() + l->lease_us;
    set_standbys(l, &(struct leader_standbys){0});
    publish_none(l, "");
}

static void *thread_main(void *arg)
{
    struct leader *l = arg;
    bool led = false;

    pthread_mutex_lock(&l->lock);
    while (!l->stopping) {
        bool leads;

        expire_lease(l);
        leads = l->view.leads;
        pthread_mutex_unlock(&l->lock);
        if (led && !leads)
            step_down(l);
        led = leads;
        int64_t pause_us = leads ? rule_epoch(l) : campaign(l);
        pthread_mutex_lock(&l->lock);
        if (!l->stopping && l->view.leads == leads)
            wait_us(l, pause_us);
    }
    pthread_mutex_unlock(&l->lock);
    if (l->take_down && l->lease)
        put_down(l, l->view.epoch, l->view.revision);
    else if (give_up_lease(l))
        log_debug("the leader's lease is left to run out: %s", etcd_why(l->etcd));
    unregister_standby(l);
    return NULL;
}

/* ---- Life ---- */

static char *join_key(const char *prefix, const char *name)
{
    char text[ETCD_KEY_MAX];

    snprintf(text, sizeof text, "%s/%s", prefix, name);
    return xstrdup(text);
}

struct leader *leader_new(const struct leader_config *c, void (*changed)(void *arg), void *arg)
{
    struct leader *l = xcalloc(1, sizeof *l);

    l->key = join_key(c->prefix, "leader");
    l->epoch_key = join_key(c->prefix, "epoch");
    l->standby_keys = join_key(c->prefix, "standby");
    l->address = xstrdup(c->address);
    l->ttl_s = (c->lease_us + US_PER_S - 1) / US_PER_S;
    l->lease_us = l->ttl_s * US_PER_S;
    l->changed = changed;
    l->arg = arg;
    l->etcd = etcd_new(c->endpoints, &c->tls);
    pthread_mutex_init(&l->lock, NULL);
    thread_cond_init(&l->wake);
    if (thread_start(&l->thread, thread_main, l))
        abort();
    return l;
}

static void resign(struct leader *l, bool take_down)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->take_down = take_down && l->view.leads;
    l->stopping = true;
    l->view.leads = false;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wake);
    etcd_free(l->etcd);
    free(l->key);
    free(l->epoch_key);
    free(l->standby_keys);
    free(l->address);
    free(l);
}

void leader_free(struct leader *l) { resign(l, false); }
void leader_take_down(struct leader *l) { resign(l, true); }
