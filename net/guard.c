/* See guard.h. A struct guard is never given back to the allocator, since a thread of gRPC's may have just
 * looked it up. It is used again. A thread that has locked it checks whether it still belongs to that
 * descriptor. */
#include "net/guard.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/units.h"
#include "net/tls_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct guard {
    pthread_mutex_t lock; /* the guard's; taken before the lock of its guards */
    int fd;               /* -1: free, or gRPC has closed it */
    int number;           /* the descriptor's number, which is reserved until guard_free */
    struct guards *guards;
    void *owner;
    struct frames frames;
    uint32_t user;        /* see guard_user */
    struct tls_conn *tls; /* NULL: plain HTTP/2 */
    atomic_bool with_tls; /* there is one */
    struct list node;     /* of the owner's guards, or of the free ones */
    struct list in_news;
    bool broken_told, refused_told, closed;
};

struct guards {
    int event_fd;
    struct list all;
    pthread_mutex_t lock; /* of what follows */
    struct list news;
    struct frames_bucket shared; /* streams of connections that are not proven */
};

static struct guard *_Atomic table[GUARD_FDS_MAX];
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list free_guards = {&free_guards, &free_guards};
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER; /* the last of all locks */
static struct frames_held held;

struct guards *guards_new(int fd)
{
    struct guards *gs = xcalloc(1, sizeof *gs);

    gs->event_fd = fd;
    list_init(&gs->all);
    list_init(&gs->news);
    CHECK(pthread_mutex_init(&gs->lock, NULL) == 0);
    return gs;
}

static struct guard *take_free(void)
{
    struct guard *g = NULL;

    pthread_mutex_lock(&free_lock);
    if (!list_empty(&free_guards)) {
        g = container_of(free_guards.next, struct guard, node);
        list_remove(&g->node);
    }
    pthread_mutex_unlock(&free_lock);
    if (g)
        return g;
    g = xcalloc(1, sizeof *g);
    CHECK(pthread_mutex_init(&g->lock, NULL) == 0);
    return g;
}

struct guard *guard_add(struct guards *gs, int fd, bool strict, SSL_CTX *tls, void *owner)
{
    if (fd >= GUARD_FDS_MAX) {
        SSL_CTX_free(tls);
        return NULL;
    }
    struct guard *g = take_free();
    pthread_mutex_lock(&g->lock);
    g->fd = g->number = fd;
    g->guards = gs;
    g->owner = owner;
    g->frames = (struct frames){0};
    g->user = 0;
    if (strict)
        frames_strict(&g->frames);
    g->tls = tls ? tls_conn_new(tls, fd) : NULL;
    atomic_store(&g->with_tls, tls != NULL);
    g->broken_told = g->refused_told = g->closed = false;
    list_init(&g->in_news);
    pthread_mutex_unlock(&g->lock);
    list_push_tail(&gs->all, &g->node);
    atomic_store(&table[fd], g);
    return g;
}

void guard_no_tls(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    tls_conn_free(g->tls);
    g->tls = NULL;
    atomic_store(&g->with_tls, false);
    pthread_mutex_unlock(&g->lock);
}

/* Call it under the guard's lock. False: the connection holds too much. */
static bool tell_held(struct guard *g)
{
    if (g->frames.held == g->frames.held_told)
        return true;
    pthread_mutex_lock(&held_lock);
    bool good = frames_hold(&g->frames, &held, g->user);
    pthread_mutex_unlock(&held_lock);
    return good;
}

static void release_held(struct guard *g)
{
    frames_free(&g->frames);
    (void)tell_held(g); /* less is never too much */
}

/* Call it under the guard's lock. */
static void forget_socket(struct guard *g)
{
    pthread_mutex_lock(&g->guards->lock);
    list_remove(&g->in_news);
    pthread_mutex_unlock(&g->guards->lock);
    if (g->fd >= 0)
        atomic_store(&table[g->fd], NULL);
    if (g->closed)
        close(g->number);
    g->fd = -1;
    release_held(g);
    tls_conn_free(g->tls);
    g->tls = NULL;
    g->guards = NULL;
}

static void put_back(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    forget_socket(g);
    list_remove(&g->node);
    pthread_mutex_unlock(&g->lock);
    pthread_mutex_lock(&free_lock);
    list_push_tail(&free_guards, &g->node);
    pthread_mutex_unlock(&free_lock);
}

void guard_free(struct guard *g)
{
    CHECK(g->closed);
    put_back(g);
}

void guards_free(struct guards *gs)
{
    while (!list_empty(&gs->all))
        put_back(container_of(gs->all.next, struct guard, node)); /* NOLINT: it leaves the list */
    pthread_mutex_destroy(&gs->lock);
    free(gs);
}

/* ---- News ---- */

/* Call it under g's lock. */
static void queue_news(struct guard *g)
{
    struct guards *gs = g->guards;
    const uint64_t one = 1;

    pthread_mutex_lock(&gs->lock);
    bool first = list_empty(&gs->news);
    if (list_empty(&g->in_news))
        list_push_tail(&gs->news, &g->in_news);
    pthread_mutex_unlock(&gs->lock);
    if (first && write(gs->event_fd, &one, sizeof one) < 0)
        CHECK(errno == EAGAIN); /* it is readable already */
}

static struct guard_state state_of(const struct guard *g)
{
    return (struct guard_state){
        .settings = g->frames.settings,
        .frames_in = g->frames.frames_in,
        .frames_out = g->frames.frames_out,
        .streams = g->frames.last,
        .unanswered = g->frames.unanswered,
        .broken = g->frames.broken,
        .limit = g->frames.limit,
        .refused = g->tls ? tls_conn_why(g->tls) : "",
    };
}

enum guard_news guard_next(struct guards *gs, void **owner, struct guard_state *state)
{
    struct guard *g = NULL;
    enum guard_news news;

    pthread_mutex_lock(&gs->lock);
    if (!list_empty(&gs->news)) {
        g = container_of(gs->news.next, struct guard, in_news);
        list_remove(&g->in_news);
    }
    pthread_mutex_unlock(&gs->lock);
    if (!g)
        return GUARD_NOTHING;
    pthread_mutex_lock(&g->lock);
    *owner = g->owner;
    *state = state_of(g);
    if (g->frames.broken != BROKEN_NONE && !g->broken_told) {
        g->broken_told = true;
        news = GUARD_BROKEN;
        if (g->closed)
            queue_news(g);
    } else if (*state->refused && !g->refused_told) {
        g->refused_told = true;
        news = GUARD_REFUSED;
        if (g->closed)
            queue_news(g);
    } else {
        CHECK(g->closed);
        news = GUARD_CLOSED;
    }
    pthread_mutex_unlock(&g->lock);
    return news;
}

struct guard_state guard_look(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    struct guard_state s = state_of(g);
    pthread_mutex_unlock(&g->lock);
    return s;
}

struct identity guard_peer(struct guard *g)
{
    struct identity who = {0};

    pthread_mutex_lock(&g->lock);
    if (g->tls)
        who = *tls_conn_peer(g->tls);
    pthread_mutex_unlock(&g->lock);
    return who;
}

void guard_prove(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    pthread_mutex_lock(&g->guards->lock);
    frames_prove(&g->frames, &g->guards->shared);
    pthread_mutex_unlock(&g->guards->lock);
    pthread_mutex_unlock(&g->lock);
}

void guard_user(struct guard *g, uint64_t user)
{
    pthread_mutex_lock(&g->lock);
    pthread_mutex_lock(&held_lock);
    held.users[g->user] -= g->frames.held_told;
    g->user = (uint32_t)(hash_mix(user) % FRAMES_USERS);
    held.users[g->user] += g->frames.held_told;
    pthread_mutex_unlock(&held_lock);
    pthread_mutex_unlock(&g->lock);
}

void guard_cut(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    if (g->fd >= 0)
        shutdown(g->fd, SHUT_RDWR);
    pthread_mutex_unlock(&g->lock);
}

/* ---- Plain streams ---- */

void guard_plain_began(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    frames_plain_began(&g->frames);
    pthread_mutex_unlock(&g->lock);
}

/* Call it under g's lock. */
static void cut_broken(struct guard *g)
{
    if (g->fd >= 0)
        shutdown(g->fd, SHUT_RDWR);
    queue_news(g);
}

bool guard_plain_in(struct guard *g, size_t len)
{
    pthread_mutex_lock(&g->lock);
    bool was_good = g->frames.broken == BROKEN_NONE;
    bool good = was_good && frames_plain_in(&g->frames, len, monotonic_us());
    if (was_good && !good)
        cut_broken(g);
    pthread_mutex_unlock(&g->lock);
    return good;
}

bool guard_plain_holds(struct guard *g, size_t bytes)
{
    pthread_mutex_lock(&g->lock);
    frames_plain_holds(&g->frames, bytes);
    bool good = tell_held(g);
    if (!good)
        cut_broken(g);
    pthread_mutex_unlock(&g->lock);
    return good;
}

void guard_plain_out(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    frames_plain_out(&g->frames);
    pthread_mutex_unlock(&g->lock);
}

void guard_plain_broke(struct guard *g, enum frames_rule rule, uint32_t limit)
{
    pthread_mutex_lock(&g->lock);
    frames_plain_broke(&g->frames, rule, limit);
    cut_broken(g);
    pthread_mutex_unlock(&g->lock);
}

/* ---- gRPC's calls ---- */

/* The descriptor's guard, locked; NULL: it has none. */
static struct guard *lock_guard(int fd)
{
    struct guard *g = fd >= 0 && fd < GUARD_FDS_MAX ? atomic_load(&table[fd]) : NULL;

    if (!g)
        return NULL;
    pthread_mutex_lock(&g->lock);
    if (g->fd == fd)
        return g;
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Call it under g's lock. */
static bool share_frames(struct guard *g, int64_t now)
{
    if (g->frames.to_share == 0)
        return true;
    pthread_mutex_lock(&g->guards->lock);
    bool good = frames_share(&g->frames, &g->guards->shared, now);
    pthread_mutex_unlock(&g->guards->lock);
    return good;
}

/* Whether the descriptor has a guard with TLS. Without the lock, since every read asks. */
static bool has_tls(int fd)
{
    struct guard *g = fd >= 0 && fd < GUARD_FDS_MAX ? atomic_load(&table[fd]) : NULL;

    return g && atomic_load(&g->with_tls);
}

/* Counts the first n bytes of what was read. False: they break a rule. Call it under g's lock. */
static bool count_read(struct guard *g, const struct msghdr *m, size_t n)
{
    const int64_t now = monotonic_us();
    bool good = true;

    for (size_t i = 0; i < m->msg_iovlen && n > 0 && good; i++) {
        size_t len = m->msg_iov[i].iov_len < n ? m->msg_iov[i].iov_len : n;
        good = frames_in(&g->frames, m->msg_iov[i].iov_base, len, now);
        n -= len;
    }
    return good && share_frames(g, now) && tell_held(g);
}

/* In place of the system's calls, and as them. `write` NULL: reads. Call it under g's lock. */
static ssize_t call_tls(struct guard *g, struct msghdr *read, const struct msghdr *write)
{
    bool was_good = !*tls_conn_why(g->tls);
    ssize_t n = write ? tls_conn_write(g->tls, write) : tls_conn_read(g->tls, read);
    int err = errno;

    if (was_good && *tls_conn_why(g->tls))
        queue_news(g);
    errno = err;
    return n;
}

ssize_t guard_recvmsg(int fd, struct msghdr *m, int flags, ssize_t (*real)(int, struct msghdr *, int))
{
    bool data = !(flags & (MSG_PEEK | MSG_ERRQUEUE));
    bool tls = data && has_tls(fd); /* plain bytes are read without the lock */
    ssize_t n = tls ? 0 : real(fd, m, flags);
    struct guard *g;
    bool good = true;

    if (!data || (!tls && n <= 0) || !(g = lock_guard(fd)))
        return n;
    if (tls) /* the front gave the guard its TLS before gRPC had the descriptor */
        n = call_tls(g, m, NULL);
    int err = errno;
    if (n > 0) {
        g->frames.guest = g->tls && tls_conn_peer(g->tls)->role == ROLE_GUEST;
        bool was_good = g->frames.broken == BROKEN_NONE;
        good = was_good && count_read(g, m, (size_t)n);
        if (was_good && !good)
            cut_broken(g);
    }
    pthread_mutex_unlock(&g->lock);
    errno = good ? err : ECONNRESET;
    return good ? n : -1;
}

/* Holds the lock while the bytes leave. A client that opens a stream because it saw another one end must
 * be counted after that. */
ssize_t guard_sendmsg(int fd, const struct msghdr *m, int flags,
                      ssize_t (*real)(int, const struct msghdr *, int))
{
    struct guard *g = lock_guard(fd);

    if (!g)
        return real(fd, m, flags);
    ssize_t n = g->tls ? call_tls(g, NULL, m) : real(fd, m, flags);
    int err = errno;
    for (size_t i = 0, left = n > 0 ? (size_t)n : 0; i < m->msg_iovlen && left > 0; i++) {
        size_t len = m->msg_iov[i].iov_len < left ? m->msg_iov[i].iov_len : left;
        frames_out(&g->frames, m->msg_iov[i].iov_base, len);
        left -= len;
    }
    (void)tell_held(g); /* less, if streams were reset */
    pthread_mutex_unlock(&g->lock);
    errno = err;
    return n;
}

/* Closes the connection, but keeps its number until guard_free, as a copy of the eventfd's descriptor.
 * gRPC knows calls of the connection that the loop has not seen yet by that number only. */
int guard_close(int fd, int (*real)(int))
{
    struct guard *g = lock_guard(fd);

    if (!g)
        return real(fd);
    while (dup3(g->guards->event_fd, fd, O_CLOEXEC) < 0)
        CHECK(errno == EINTR);
    atomic_store(&table[fd], NULL);
    g->fd = -1;
    g->closed = true;
    release_held(g);
    queue_news(g);
    pthread_mutex_unlock(&g->lock);
    return 0;
}
