/* Descriptors and signals of the loop. epoll itself rather than libev: a thread that waits in gRPC's completion queue has to
 * be told when a descriptor is ready, for which another thread must be able to poll the whole set, and libev 4.33
 * neither gives its descriptor away nor wakes a thread that does not wait inside it. */
#include "net/loop_impl.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct loop_fd {
    struct list node;
    struct loop *loop;
    int fd;
    unsigned events;
    void (*fn)(void *arg, unsigned events);
    void *arg;
};

/* ---- The helper thread of a LOOP_NET loop ---- */

static void *helper_main(void *arg)
{
    struct loop *l = arg;
    struct loop_helper *h = &l->helper;
    uint64_t n;

    for (;;) {
        struct pollfd p[2] = {{.fd = h->control_fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};

        /* Posts once, then waits to be armed again: polling a ready descriptor that the loop has not
         * come to yet would spin. */
        if (atomic_load(&h->armed))
            p[1].fd = l->epoll_fd;
        if (poll(p, 2, -1) < 0)
            continue;
        if (atomic_load(&h->stop))
            return NULL;
        if (p[0].revents)
            (void)!read(h->control_fd, &n, sizeof n);
        if (p[1].revents) {
            atomic_store(&h->armed, false);
            pthread_mutex_lock(&l->lock);
            loop_net_poke(l);
            pthread_mutex_unlock(&l->lock);
        }
    }
}

static void helper_signal(struct loop_helper *h)
{
    static const uint64_t one = 1;

    (void)!write(h->control_fd, &one, sizeof one);
}

static void helper_start(struct loop *l)
{
    struct loop_helper *h = &l->helper;

    h->control_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(h->control_fd >= 0);
    atomic_store(&h->armed, true);
    CHECK(pthread_create(&h->thread, NULL, helper_main, l) == 0);
    h->running = true;
}

static void helper_stop(struct loop_helper *h)
{
    atomic_store(&h->stop, true);
    helper_signal(h);
    pthread_join(h->thread, NULL);
    close(h->control_fd);
    h->running = false;
}

/* ---- Descriptors ---- */

struct loop_fd *loop_fd_add(struct loop *l, int fd, unsigned events, void (*fn)(void *arg, unsigned events),
                            void *arg)
{
    struct loop_fd *f = xcalloc(1, sizeof *f);

    f->loop = l;
    f->fd = fd;
    f->fn = fn;
    f->arg = arg;
    list_push_tail(&l->fds, &f->node);
    loop_fd_events(f, events);
    if (l->cq && !l->helper.running)
        helper_start(l);
    return f;
}

void loop_fd_events(struct loop_fd *f, unsigned events)
{
    struct epoll_event e = {.data.ptr = f};
    int op = !events ? EPOLL_CTL_DEL : f->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (events == f->events)
        return;
    e.events = (events & LOOP_READ ? EPOLLIN : 0u) | (events & LOOP_WRITE ? EPOLLOUT : 0u);
    f->events = events;
    CHECK(epoll_ctl(f->loop->epoll_fd, op, f->fd, &e) == 0);
}

void loop_fd_remove(struct loop_fd *f)
{
    if (!f)
        return;
    loop_fd_events(f, 0);
    /* It may be ready, and its turn not have come yet. */
    for (int i = 0; i < f->loop->ready_n; i++)
        if (f->loop->ready[i].data.ptr == f)
            f->loop->ready[i].data.ptr = NULL;
    list_remove(&f->node);
    free(f);
}

void loop_fds_free(struct loop *l)
{
    if (l->helper.running)
        helper_stop(&l->helper);
    while (!list_empty(&l->fds))
        loop_fd_remove(container_of(l->fds.next, struct loop_fd, node)); /* NOLINT: it leaves the list */
}

/* epoll_wait counts in milliseconds: rounded up, or the last one would be spent spinning. */
static int milliseconds(int64_t us)
{
    return us == TIME_NEVER ? -1 : us > INT64_C(1000000000) ? 1000000 : (int)((us + 999) / 1000);
}

void loop_fds_wait(struct loop *l, int64_t wait_us)
{
    struct loop_helper *h = &l->helper;
    int n = epoll_wait(l->epoll_fd, l->ready, LOOP_READY_MAX, milliseconds(wait_us));

    CHECK(n >= 0 || errno == EINTR);
    l->ready_n = n > 0 ? n : 0;
    for (int i = 0; i < l->ready_n; i++) {
        struct loop_fd *f = l->ready[i].data.ptr;
        uint32_t e = l->ready[i].events;

        if (!f)
            continue;
        /* An error or hang-up is found by whoever reads or writes. */
        if (e & (EPOLLERR | EPOLLHUP))
            e |= EPOLLIN | EPOLLOUT;
        e = ((e & EPOLLIN ? LOOP_READ : 0u) | (e & EPOLLOUT ? LOOP_WRITE : 0u)) & f->events;
        if (e)
            f->fn(f->arg, e);
    }
    l->ready_n = 0;
    if (h->running && !atomic_load(&h->armed)) {
        atomic_store(&h->armed, true);
        helper_signal(h);
    }
}

/* ---- Signals. A handler that writes to an eventfd, since signalfd needs them blocked in every thread, gRPC's and
 * tasks' included. ---- */

static struct {
    struct loop *loop; /* who owns it */
    void (*fn)(void *arg, int signo);
    void *arg;
    struct sigaction before;
} signals[NSIG];
static atomic_int signal_fds[NSIG]; /* the owner's signal_fd, for the handler */
static atomic_bool signal_came[NSIG];
static pthread_mutex_t signals_lock = PTHREAD_MUTEX_INITIALIZER; /* of who owns what */

static void signal_handler(int signo)
{
    static const uint64_t one = 1;
    int saved = errno;

    atomic_store(&signal_came[signo], true);
    (void)!write(atomic_load(&signal_fds[signo]), &one, sizeof one);
    errno = saved;
}

static void on_signals(void *arg, unsigned events)
{
    struct loop *l = arg;
    uint64_t n;

    (void)events;
    (void)!read(l->signal_fd, &n, sizeof n);
    for (int s = 1; s < NSIG; s++) {
        bool mine;

        pthread_mutex_lock(&signals_lock);
        mine = signals[s].loop == l && atomic_exchange(&signal_came[s], false);
        pthread_mutex_unlock(&signals_lock);
        if (mine)
            signals[s].fn(signals[s].arg, s);
    }
}

int loop_signal(struct loop *l, int signo, void (*fn)(void *arg, int signo), void *arg)
{
    struct sigaction sa = {.sa_handler = signal_handler, .sa_flags = SA_RESTART};
    int err = 0;

    CHECK(signo > 0 && signo < NSIG);
    if (l->signal_fd < 0) {
        l->signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        CHECK(l->signal_fd >= 0);
        l->signal_watch = loop_fd_add(l, l->signal_fd, LOOP_READ, on_signals, l);
    }
    pthread_mutex_lock(&signals_lock);
    if (signals[signo].loop) {
        err = HAWK_EEXISTS;
        goto out;
    }
    signals[signo].fn = fn;
    signals[signo].arg = arg;
    signals[signo].loop = l;
    atomic_store(&signal_fds[signo], l->signal_fd);
    atomic_store(&signal_came[signo], false);
    sigemptyset(&sa.sa_mask);
    CHECK(sigaction(signo, &sa, &signals[signo].before) == 0);
out:
    pthread_mutex_unlock(&signals_lock);
    return err;
}

void loop_signals_free(struct loop *l)
{
    if (l->signal_fd < 0)
        return;
    pthread_mutex_lock(&signals_lock);
    for (int s = 1; s < NSIG; s++) {
        if (signals[s].loop == l) {
            CHECK(sigaction(s, &signals[s].before, NULL) == 0);
            signals[s].loop = NULL;
        }
    }
    pthread_mutex_unlock(&signals_lock);
    loop_fd_remove(l->signal_watch);
    close(l->signal_fd);
    l->signal_fd = -1;
}
