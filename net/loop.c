/* The turns of the loop, its timers, hooks and posted calls. */
#include "net/loop_impl.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <sys/resource.h>

static void raise_file_limit(void)
{
    struct rlimit r;

    /* Without descriptors gRPC does not fail but hangs: calls wait for a connection that never comes. */
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* if it fails, the old limit has to do */
    }
}

struct loop *loop_new(unsigned flags)
{
    struct loop *l = xcalloc(1, sizeof *l);

    raise_file_limit();
    loop_look(l);
    list_init(&l->fds);
    for (int i = 0; i < LOOP_PHASES; i++)
        list_init(&l->hooks[i]);
    heap_init(&l->timers);
    CHECK(pthread_mutex_init(&l->lock, NULL) == 0);
    loop_ev_open(l);
    if (flags & LOOP_NET)
        loop_net_open(l);
    return l;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    loop_ev_close(l);
    if (l->cq)
        loop_net_close(l);
    while (l->timers.n)
        heap_remove(&l->timers, heap_min(&l->timers));
    heap_free(&l->timers);
    for (int i = 0; i < LOOP_PHASES; i++) {
        list_foreach(&l->hooks[i], n, next)
            list_remove(n);
    }
    free(l->posted);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

int64_t loop_now(const struct loop *l) { return clock_us(CLOCK_BOOTTIME); }

int64_t loop_event_now(const struct loop *l) { return l->now_us; }

/* ---- Timers ---- */

/* DEVIATES (DESIGN 6): this has a heap of its own. libev's timers do not count the time of a suspended
 * machine. They also fire only inside libev, while a LOOP_NET loop waits in its completion queue until the
 * first timer is due. */

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at_us)
{
    CHECK(t->fn);
    if (at_us == TIME_NEVER)
        loop_timer_clear(l, t);
    else if (!heap_in(&t->node) || t->node.key != at_us)
        heap_set(&l->timers, &t->node, at_us, ++l->timer_seq);
}

void loop_timer_clear(struct loop *l, struct loop_timer *t)
{
    if (heap_in(&t->node))
        heap_remove(&l->timers, &t->node);
}

static void run_timers(struct loop *l)
{
    loop_look(l);
    int64_t now = l->now_us;
    uint64_t last = l->timer_seq; /* timers that are set from here on wait for the next turn */
    struct heap_node *n;

    while ((n = heap_min(&l->timers)) && n->key <= now && n->seq <= last) {
        struct loop_timer *t = container_of(n, struct loop_timer, node);
        heap_remove(&l->timers, n);
        t->fn(t->arg);
    }
}

/* ---- Hooks ---- */

void loop_hook_add(struct loop *l, struct loop_hook *h, enum loop_phase phase, void (*fn)(void *arg),
                   void *arg)
{
    h->fn = fn;
    h->arg = arg;
    list_push_tail(&l->hooks[phase], &h->node);
}

void loop_hook_remove(struct loop_hook *h) { list_remove(&h->node); }

static void run_hooks(struct loop *l, enum loop_phase phase)
{
    list_foreach(&l->hooks[phase], n, next) {
        struct loop_hook *h = container_of(n, struct loop_hook, node);
        h->fn(h->arg);
    }
}

/* ---- Posted calls ---- */

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&l->lock);
    vec_grow(l->posted, l->posted_n, l->posted_cap);
    l->posted[l->posted_n++] = (struct loop_posted){fn, arg};
    if (l->cq)
        loop_net_poke(l);
    else
        loop_ev_wake(l);
    pthread_mutex_unlock(&l->lock);
}

static void run_posted(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct loop_posted *v = l->posted;
    uint32_t n = l->posted_n;
    l->posted = NULL;
    l->posted_n = l->posted_cap = 0;
    pthread_mutex_unlock(&l->lock);
    loop_look(l);
    for (uint32_t i = 0; i < n; i++)
        v[i].fn(v[i].arg);
    free(v);
}

/* ---- Turns ---- */

/* Sends what has gathered before it asks streams for their next messages, also between turns. For the room
 * that a received message frees, gRPC sends a window update: alone, unless an answer can carry it along.
 * So answers go first. */
static void send_and_receive(struct loop *l)
{
    run_hooks(l, LOOP_FLUSH);
    loop_net_receive(l);
}

void loop_once(struct loop *l, int64_t until_us)
{
    int64_t wait_us = TIME_NEVER;

    l->turn_us = 0;
    send_and_receive(l);
    const struct heap_node *first = heap_min(&l->timers);
    if (first && first->key < until_us)
        until_us = first->key;
    if (until_us != TIME_NEVER) {
        wait_us = until_us - loop_now(l);
        if (wait_us < 0)
            wait_us = 0;
    }
    if (l->cq) {
        loop_net_wait(l, wait_us);
        loop_ev_take(l);
    } else {
        loop_ev_wait(l, wait_us);
    }
    run_posted(l);
    run_timers(l);
    run_hooks(l, LOOP_AFTER);
    run_hooks(l, LOOP_FLUSH);
    if (l->turns && l->turn_us)
        histogram_add(l->turns, HISTOGRAM_TIME, loop_now(l) - l->turn_us);
}

void loop_measure(struct loop *l, struct histogram *h) { l->turns = h; }

void loop_run(struct loop *l)
{
    l->stopping = false;
    while (!l->stopping)
        loop_once(l, TIME_NEVER);
}

void loop_stop(struct loop *l) { l->stopping = true; }

bool loop_drain(struct loop *l, const bool *done, int64_t until_us)
{
    while (!*done) {
        int64_t now = loop_now(l);

        if (now >= until_us)
            break;
        send_and_receive(l);
        loop_net_wait(l, until_us == TIME_NEVER ? TIME_NEVER : until_us - now);
    }
    /* The next turn must not wait: what woke this one was left to it. */
    pthread_mutex_lock(&l->lock);
    if (l->posted_n || l->round == ROUND_HANDED_OVER)
        loop_net_poke(l);
    pthread_mutex_unlock(&l->lock);
    return *done;
}
