/* Descriptors and signals of the loop: libev.
 *
 * Without a completion queue, the loop's thread waits in ev_run. With one, it waits in the queue, and a
 * helper thread runs libev, as libev's manual describes under "THREAD LOCKING EXAMPLE". The helper
 * releases l->lock while it polls. When something is ready, it calls no callback: it pokes the queue, and
 * waits until the loop's thread has called them (enum loop_round). Meanwhile only the loop's thread uses
 * libev: callbacks run without the lock, and take it for what they change. */
#include "net/loop_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

_Static_assert((int)LOOP_READ == (int)EV_READ && (int)LOOP_WRITE == (int)EV_WRITE, "the same bits");

struct loop_fd {
    ev_io io;
    struct list node;
    struct loop *loop;
    void (*fn)(void *arg, unsigned events);
    void *arg;
};

/* ---- Waiting ---- */

/* These two do nothing but end ev_run. */
static void on_wake(struct ev_loop *ev, ev_async *w, int events) {}
static void on_bound(struct ev_loop *ev, ev_timer *w, int events) {}

void loop_ev_open(struct loop *l)
{
    l->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    CHECK(l->ev);
    ev_set_userdata(l->ev, l);
    ev_async_init(&l->wake, on_wake);
    ev_async_start(l->ev, &l->wake);
    ev_init(&l->bound, on_bound);
    CHECK(pthread_cond_init(&l->go_on, NULL) == 0);
}

void loop_ev_wake(struct loop *l) { ev_async_send(l->ev, &l->wake); }

void loop_ev_wait(struct loop *l, int64_t wait_us)
{
    ev_now_update(l->ev); /* the bound counts from this time */
    l->bound.repeat = wait_us == TIME_NEVER ? 0 : (ev_tstamp)wait_us / US_PER_S;
    ev_timer_again(l->ev, &l->bound);
    ev_run(l->ev, wait_us ? EVRUN_ONCE : EVRUN_NOWAIT);
}

/* ---- The helper thread of a LOOP_NET loop ---- */

static void release_loop(struct ev_loop *ev)
{
    pthread_mutex_unlock(&((struct loop *)ev_userdata(ev))->lock);
}
static void acquire_loop(struct ev_loop *ev) { pthread_mutex_lock(&((struct loop *)ev_userdata(ev))->lock); }

static void hand_over(struct ev_loop *ev)
{
    struct loop *l = ev_userdata(ev);

    if (!ev_pending_count(ev) || l->helper_stop)
        return;
    l->round = ROUND_HANDED_OVER;
    loop_net_poke(l);
    while (l->round != ROUND_POLL && !l->helper_stop)
        pthread_cond_wait(&l->go_on, &l->lock);
}

static void *helper_main(void *arg)
{
    struct loop *l = arg;

    pthread_mutex_lock(&l->lock);
    while (!l->helper_stop)
        ev_run(l->ev, EVRUN_ONCE);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* There is something more to watch. Call it under l->lock. */
static void watch_more(struct loop *l)
{
    if (!l->cq)
        return;
    if (!l->helper_runs) {
        ev_set_loop_release_cb(l->ev, release_loop, acquire_loop);
        ev_set_invoke_pending_cb(l->ev, hand_over);
        CHECK(thread_start(&l->helper, helper_main, l) == 0);
        l->helper_runs = true;
    } else if (l->round == ROUND_POLL) {
        loop_ev_wake(l); /* it polls the old descriptors */
    }
}

void loop_ev_take(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    bool mine = l->round == ROUND_HANDED_OVER; /* not in a turn within a callback */
    if (mine)
        l->round = ROUND_TAKEN;
    pthread_mutex_unlock(&l->lock);
    if (!mine)
        return;
    ev_invoke_pending(l->ev);
    pthread_mutex_lock(&l->lock);
    l->round = ROUND_POLL;
    pthread_cond_signal(&l->go_on);
    pthread_mutex_unlock(&l->lock);
}

static void helper_end(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->helper_stop = true;
    pthread_cond_signal(&l->go_on);
    loop_ev_wake(l);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->helper, NULL);
}

/* ---- Descriptors ---- */

static void on_io(struct ev_loop *ev, ev_io *w, int events)
{
    struct loop_fd *f = container_of(w, struct loop_fd, io);

    CHECK(!(events & EV_ERROR)); /* what cannot be polled */
    loop_look(f->loop);
    /* libev reports an error or hang-up as all events that were waited for. The reader or writer finds it. */
    f->fn(f->arg, (unsigned)events);
}

struct loop_fd *loop_fd_add(struct loop *l, int fd, unsigned events, void (*fn)(void *arg, unsigned events),
                            void *arg)
{
    struct loop_fd *f = xcalloc(1, sizeof *f);

    f->loop = l;
    f->fn = fn;
    f->arg = arg;
    ev_io_init(&f->io, on_io, fd, 0);
    list_push_tail(&l->fds, &f->node);
    loop_fd_events(f, events);
    return f;
}

void loop_fd_events(struct loop_fd *f, unsigned events)
{
    struct loop *l = f->loop;

    if (ev_is_active(&f->io) ? (unsigned)f->io.events == events : !events)
        return;
    pthread_mutex_lock(&l->lock);
    /* This also forgets events that were ready and not handled yet. */
    ev_io_stop(l->ev, &f->io);
    ev_io_modify(&f->io, (int)events);
    if (events) {
        ev_io_start(l->ev, &f->io);
        watch_more(l);
    }
    pthread_mutex_unlock(&l->lock);
}

void loop_fd_remove(struct loop_fd *f)
{
    if (!f)
        return;
    loop_fd_events(f, 0);
    list_remove(&f->node);
    free(f);
}

/* ---- Signals ---- */

/* Each signal has one owner in the process. libev only asserts that. */
static struct owned_signal {
    struct loop *_Atomic loop; /* who owns it */
    ev_signal watch;
    void (*fn)(void *arg, int signo);
    void *arg;
    struct sigaction before;
} signals[NSIG];

static void on_signal(struct ev_loop *ev, ev_signal *w, int events)
{
    const struct owned_signal *s = container_of(w, struct owned_signal, watch);

    loop_look(s->loop);
    s->fn(s->arg, w->signum);
}

int loop_signal(struct loop *l, int signo, void (*fn)(void *arg, int signo), void *arg)
{
    struct loop *nobody = NULL;

    CHECK(signo > 0 && signo < NSIG);
    struct owned_signal *s = &signals[signo];
    if (!atomic_compare_exchange_strong(&s->loop, &nobody, l))
        return HAWK_EEXISTS;
    s->fn = fn;
    s->arg = arg;
    CHECK(sigaction(signo, NULL, &s->before) == 0);
    ev_signal_init(&s->watch, on_signal, signo);
    pthread_mutex_lock(&l->lock);
    ev_signal_start(l->ev, &s->watch);
    watch_more(l);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

static void signal_free(struct owned_signal *s)
{
    struct loop *l = s->loop;

    /* Takes a signal that came and was not handled from libev, which would keep it for the next owner. */
    ev_feed_signal_event(l->ev, s->watch.signum);
    ev_signal_stop(l->ev, &s->watch);
    CHECK(sigaction(s->watch.signum, &s->before, NULL) == 0); /* libev leaves SIG_DFL behind */
    atomic_store(&s->loop, NULL);
}

void loop_ev_close(struct loop *l)
{
    if (l->helper_runs)
        helper_end(l);
    for (int i = 1; i < NSIG; i++)
        if (atomic_load(&signals[i].loop) == l)
            signal_free(&signals[i]);
    while (!list_empty(&l->fds))
        loop_fd_remove(container_of(l->fds.next, struct loop_fd, node)); /* NOLINT: it leaves the list */
    ev_loop_destroy(l->ev);
    pthread_cond_destroy(&l->go_on);
}
