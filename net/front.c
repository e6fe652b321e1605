/* See front.h. */
#include "net/front_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/guard.h"
#include "net/listen.h"
#include "net/loopback.h"
#include "net/selftest.h"
#include "net/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 256
#define TAKEN_PER_TURN 16
#define TICK_US (100 * US_PER_MS)

struct listener {
    struct front *front;
    int fd;
    char addr[ADDR_TEXT];
    struct loop_fd *watch;
    int64_t accepted_us; /* when it last accepted a connection */
    struct selftest selftest;
};

/* ---- Connections ---- */

/* The front looks at its connections and addresses then; the first of several times counts. */
static void front_tick_at(struct front *f, int64_t at_us)
{
    if (!loop_timer_is_set(&f->tick) || f->tick_us > at_us)
        loop_timer_set(f->loop, &f->tick, f->tick_us = at_us);
}

void front_tick_on(struct front *f) { front_tick_at(f, loop_now(f->loop) + TICK_US); }

static uint32_t *count_of(struct address *a, const struct front_conn *c)
{
    return c->proven ? &a->proven_n : &a->unproven_n;
}

static void enter_address(struct front_conn *c)
{
    struct address *a = c->exempt ? NULL : addresses_get(&c->front->addresses, c->net);

    if (!a)
        return;
    ++*count_of(a, c);
    if (!c->proven)
        list_push_tail(&a->unproven, &c->in_address);
}

static void leave_address(struct front_conn *c)
{
    struct address *a = c->exempt ? NULL : addresses_find(&c->front->addresses, c->net);

    if (!a)
        return;
    CHECK(*count_of(a, c) > 0);
    if (c->proven)
        address_trust(a, loop_now(c->front->loop));
    list_remove(&c->in_address);
    list_init(&c->in_address);
    if (--*count_of(a, c) == 0)
        front_tick_on(c->front); /* which forgets it */
}

/* The connection counts no more. */
static void uncount_conn(struct front_conn *c)
{
    if (c->cut)
        return;
    c->cut = true;
    c->front->conns_n--;
    leave_address(c);
}

void front_cut(struct front_conn *c)
{
    if (c->cut)
        return;
    uncount_conn(c);
    guard_cut(c->guard);
}

/* One connection less is not proven. */
static void unproven_less(struct front_conn *c)
{
    struct front *f = c->front;

    if (c->own)
        return;
    CHECK(f->unproven_n > 0);
    f->unproven_n--;
    if (f->full)
        front_tick_at(f, loop_now(f->loop));
}

static void conn_free(struct front_conn *c)
{
    list_remove(&c->node);
    free(c);
}

void front_unref(struct front_conn *c)
{
    CHECK(c->refs > 0);
    c->refs--;
    if (c->refs == 0 && (c->closed && !c->guard))
        conn_free(c);
}

/* gRPC has closed the connection, and has handed every call of it to the server. Its number may be used
 * again. */
static void release_conn(struct front_conn *c)
{
    c->front->by_fd[c->fd] = NULL;
    guard_free(c->guard);
    c->guard = NULL;
    list_remove(&c->node);
    list_init(&c->node);
    if (c->refs == 0)
        conn_free(c);
}

struct front_conn *front_find(struct front *f, const char *peer)
{
    unsigned long fd;
    char *end;

    if (strncmp(peer, "fd:", 3) != 0)
        return NULL;
    fd = strtoul(peer + 3, &end, 10);
    return end > peer + 3 && !*end && fd < f->by_fd_n ? f->by_fd[fd] : NULL;
}

void front_prove(struct front_conn *c)
{
    struct address *a = c->exempt ? NULL : addresses_get(&c->front->addresses, c->net);

    if (c->proven ||
        c->who.role == ROLE_GUEST) /* a guest has proven nothing, and gets the time of a stranger */
        return;
    if (!c->cut)
        leave_address(c);
    if (!c->closed)
        unproven_less(c);
    c->proven = true;
    if (a) { /* a client there has the right token */
        address_trust(a, loop_now(c->front->loop));
        front_tick_on(c->front);
    }
    if (c->cut)
        return;
    enter_address(c);
    if (c->failed >= FRONT_FAILED_MAX)
        return;
    guard_prove(c->guard);
    list_remove(&c->node);
    list_push_tail(&c->front->proven, &c->node);
}

static void on_news(void *arg, unsigned events)
{
    struct front *f = arg;
    struct guard_state s;
    enum guard_news news;
    uint64_t n;
    void *owner;

    if (read(f->news_fd, &n, sizeof n) < 0)
        CHECK(errno == EAGAIN);
    while ((news = guard_next(f->guards, &owner, &s)) != GUARD_NOTHING) {
        struct front_conn *c = owner;
        if (news == GUARD_BROKEN) {
            if (s.broken != BROKEN_SHARED) /* the others are to blame as well */
                addresses_get(&f->addresses, c->net)->strict_until_us = loop_now(f->loop) + ADDRESS_STRICT_US;
            say(f, &f->broken[s.broken], frames_rule_text(s.broken), "%s is cut off: it %s %u", c->peer,
                frames_rule_text(s.broken), s.limit);
            continue;
        }
        if (news == GUARD_REFUSED) {
            if (!c->cut) /* else TLS fails since it was cut */
                front_refused(c, s.refused);
            continue;
        }
        if (c->proven && !c->cut)
            log_debug("the connection of %s has ended: its client has gone, or has not answered a ping",
                      c->peer);
        uncount_conn(c);
        if (!c->proven)
            unproven_less(c);
        c->closed = true;
        list_remove(&c->node);
        list_push_tail(&f->closing, &c->node);
        c->since_us = loop_now(f->loop);
        if (s.streams == 0)
            release_conn(c);
        else
            front_tick_on(f);
    }
}

/* ---- Time ---- */

static void tick_unproven(struct front *f, int64_t now)
{
    list_foreach(&f->unproven, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        if (now - c->since_us < FRONT_SETUP_US)
            break; /* those behind it are younger */
        if (c->own || c->cut)
            continue;
        if (now - c->since_us >= FRONT_UNPROVEN_US) {
            say(f, &f->late, "a connection without a call",
                "%s is cut off: no call of it was accepted in %d s", c->peer,
                (int)(FRONT_UNPROVEN_US / US_PER_S));
            front_cut(c);
        } else if (!guard_look(c->guard).settings) {
            say(f, &f->late, "a connection without a call", "%s is cut off: it did not begin HTTP/2 in %d s",
                c->peer, (int)(FRONT_SETUP_US / US_PER_S));
            front_cut(c);
        }
    }
}

/* Whether to watch the listeners. */
static void listen_for(struct front *f, unsigned events)
{
    for (unsigned i = 0; i < f->listeners_n; i++)
        loop_fd_events(f->listeners[i]->watch, events);
}

static void on_tick(void *arg)
{
    struct front *f = arg;
    int64_t now = loop_now(f->loop);
    bool more = false;

    tick_unproven(f, now);
    list_foreach(&f->leaving, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        if (now - c->since_us >= TICK_US)
            front_cut(c);
    }
    while (!list_empty(&f->closing)) {
        struct front_conn *c = container_of(f->closing.next, struct front_conn, node);
        if (now - c->since_us < TICK_US)
            break;
        release_conn(c);
    }
    for (int i = 0; i < BROKEN_RULES; i++)
        more |= log_kind_sweep(&f->broken[i], now);
    more |=
        log_kind_sweep(&f->refused, now) | log_kind_sweep(&f->late, now) | log_kind_sweep(&f->denied, now);
    more |= log_kind_sweep(&f->strangers, now) | log_kind_sweep(&f->forbidden, now) |
            log_kind_sweep(&f->hasty, now);
    front_take_waiting(f);
    front_tick_at(f, addresses_sweep(&f->addresses, now));
    if (f->starved || f->full)
        listen_for(f, LOOP_READ);
    f->full = false;
    if (more || f->starved || !list_empty(&f->waiting) || !list_empty(&f->unproven) ||
        !list_empty(&f->leaving) || !list_empty(&f->closing))
        front_tick_on(f);
}

/* ---- Accepting ---- */

static void set_options(const struct front *f, int fd, bool local_socket)
{
    int one = 1, timeout = (int)f->config.user_timeout_ms;

    if (local_socket)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

#define could_not_stay(f, c, what, ...)                                                                      \
    say(f, &(f)->refused, "a connection that could not stay",                                                \
        "%s is cut off to make room: no call of it was accepted, and " what, (c)->peer, __VA_ARGS__)

/* The oldest of the connections that could make room. */
static struct front_conn *oldest_unproven(struct front *f)
{
    list_foreach(&f->unproven, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        if (!c->own && !c->cut)
            return c;
    }
    return NULL;
}

/* Whether the connection waits for this process: gRPC has not read all that came, or a request was read
 * and not answered. */
static bool is_owed(const struct front_conn *c)
{
    int unread = 0;

    return guard_look(c->guard).unanswered > 0 || (ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0);
}

/* Whether the connection may be cut: not while it waits for this process, unless that takes long. */
static bool may_go(const struct front_conn *c)
{
    return !c->own && !c->cut && (loop_now(c->front->loop) - c->since_us >= FRONT_OWED_US || !is_owed(c));
}

/* The address' oldest that may be cut. If none may, its oldest: it can make each of its connections wait for this
 * process, and has no more of them for that. To refuse the new one would shut out who shares the address. */
static struct front_conn *oldest_of_address(struct address *a)
{
    struct front_conn *oldest = NULL;

    list_foreach(&a->unproven, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, in_address);
        if (may_go(c))
            return c;
        if (!oldest && !c->own && !c->cut)
            oldest = c;
    }
    return oldest;
}

bool front_is_full(const struct front *f) { return f->unproven_n >= f->unproven_max; }

/* Frees a quarter of the places, so that the front is not full again at once. Those count that were cut already, and
 * that gRPC still has. */
static void make_room(struct front *f)
{
    uint32_t freed = 0;

    list_foreach(&f->unproven, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        if (loop_now(f->loop) - c->since_us < FRONT_YOUNG_US || freed > f->unproven_max / 4)
            break;
        freed += c->cut;
        if (!may_go(c))
            continue;
        could_not_stay(f, c, "there are %u such connections, the limit", f->unproven_max);
        front_cut(c);
        freed++;
    }
}

bool front_has_room(struct front *f)
{
    bool full = front_is_full(f);

    if (full)
        make_room(f);
    return !full;
}

/* Why the connection is refused; NULL: it may come in. */
static const char *why_refused(struct front *f, const struct front_conn *c)
{
    struct address *a = c->exempt ? NULL : addresses_find(&f->addresses, c->net);
    struct front_conn *oldest;

    if (c->own)
        return NULL;
    if (a && address_is_distrusted(a, loop_now(f->loop)))
        return "calls from its address had wrong tokens too often";
    if (a && a->unproven_n >= f->config.per_address && (oldest = oldest_of_address(a))) {
        could_not_stay(f, oldest,
                       "its address has %u such connections, the limit (cluster.unproven_per_address)",
                       f->config.per_address);
        front_cut(oldest);
    }
    while (f->conns_n >= f->config.connections_max) {
        oldest = oldest_unproven(f);
        if (!oldest)
            return "there are as many as cluster.connections_max allows";
        could_not_stay(f, oldest, "there are %u connections, the limit (cluster.connections_max)",
                       f->config.connections_max);
        front_cut(oldest);
    }
    return NULL;
}

static void enter_conn(struct front *f, struct front_conn *c)
{
    while ((uint32_t)c->fd >= f->by_fd_n) {
        uint32_t n = f->by_fd_n ? 2 * f->by_fd_n : 64;
        f->by_fd = xrealloc(f->by_fd, n * sizeof(struct front_conn *));
        memset(f->by_fd + f->by_fd_n, 0, (n - f->by_fd_n) * sizeof(struct front_conn *));
        f->by_fd_n = n;
    }
    f->by_fd[c->fd] = c;
    f->conns_n++;
    f->unproven_n += !c->own;
    list_push_tail(&f->unproven, &c->node);
    enter_address(c);
    front_give(c);
    if (!c->own)
        front_tick_on(f);
}

void front_refuse(struct front_conn *c, const char *why)
{
    struct front *f = c->front;

    say(f, &f->refused, "a connection that was refused", "a connection from %s is refused: %s", c->peer, why);
    f->counts.refused++;
    close(c->fd);
    free(c);
}

void front_take_in(struct front_conn *c)
{
    struct front *f = c->front;
    const char *why = why_refused(f, c);
    const struct address *a = addresses_find(&f->addresses, c->net);
    SSL_CTX *tls = !why && c->tls ? tls_accepting(f->config.tls) : NULL;

    c->since_us = loop_now(f->loop);
    if (!why && !(c->guard = guard_add(f->guards, c->fd, a && c->since_us < a->strict_until_us, tls, c)))
        why = "its descriptor has too high a number";
    if (why) {
        front_refuse(c, why);
        return;
    }
    front_tell_user(c, false);
    set_options(f, c->fd, c->local_socket);
    enter_conn(f, c);
}

/* Whose the connection is, as far as that matters. */
static void find_user(struct front_conn *c)
{
    c->uid = c->local_socket ? listen_peer_uid(c->fd) : CALLER_NO_UID;
    if (c->front->config.own_alone && !c->local_socket && !c->own)
        c->stranger = !loopback_uid(c->fd, &c->uid) || (c->uid != 0 && c->uid != geteuid());
    if (c->stranger || (c->local_socket && c->uid != 0 && c->uid != geteuid())) {
        address_of_uid(c->uid, c->net);
        c->exempt = false;
    }
}

static void new_conn(struct listener *l, int fd, const union sockaddr_any *sa, socklen_t len)
{
    struct front *f = l->front;
    struct front_conn *c = xcalloc(1, sizeof *c);

    c->front = f;
    c->fd = fd;
    list_init(&c->in_address);
    c->own = selftest_is(&l->selftest, sa, len);
    if (c->own)
        selftest_taken(&l->selftest);
    address_net(sa, c->net, &c->exempt);
    listen_peer_text(fd, sa, c->peer, sizeof c->peer);
    c->local_socket = sa->sa.sa_family == AF_UNIX;
    find_user(c);
    /* Our own self-test speaks plain HTTP/2: its address cannot be another's while it is open. */
    c->tls = f->config.tls && !c->own && !c->local_socket;
    if (!front_must_wait(c))
        front_take_in(c);
}

/* Accepts no connection until the next tick. */
static void accept_none(struct front *f)
{
    listen_for(f, 0);
    front_tick_on(f);
}

static void on_accept(void *arg, unsigned events)
{
    struct listener *l = arg;
    struct front *f = l->front;

    if (f->config.tls)
        tls_refresh(f->config.tls, loop_now(f->loop));
    if (!front_has_room(f)) {
        f->full = true;
        accept_none(f);
        return;
    }
    for (int i = 0, taken = 0; i < ACCEPTS_PER_TURN && taken < TAKEN_PER_TURN && !front_is_full(f); i++) {
        union sockaddr_any sa;
        socklen_t len = sizeof sa;
        int fd;
        memset(&sa, 0, sizeof sa);
        fd = accept4(l->fd, &sa.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            f->starved = false;
            l->accepted_us = loop_now(f->loop);
            if (front_has_left(fd)) {
                close(fd);
                continue;
            }
            new_conn(l, fd, &sa, len);
            taken++;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (!f->starved)
                log_error("%s accepts nobody for now: %s", l->addr, strerror(errno));
            f->starved = true;
            accept_none(f);
            return;
        } /* else: that connection is gone already */
    }
}

/* ---- Probing ---- */

static void give_up_probing(struct front *f)
{
    if (f->is_dead)
        return;
    f->is_dead = true;
    if (f->config.dead)
        f->config.dead(f->config.arg);
}

/* Whether the listener accepts connections, and the self-test only has not had its turn among them. */
static bool is_crowded(const struct listener *l)
{
    return !l->selftest.taken && loop_now(l->front->loop) - l->accepted_us < SELFTEST_ANSWER_US;
}

static void on_selftest_dead(void *arg, struct selftest *p)
{
    struct listener *l = arg;

    /* starved: it accepts nobody now, and goes on when it can */
    if (l->front->starved || is_crowded(l)) {
        p->failed = 0;
        return;
    }
    log_error("%s does not answer this process itself, %u times in a row (%s): nobody can reach it any more",
              l->addr, p->failed, p->why);
    give_up_probing(l->front);
}

/* gRPC has answered, so the guard must have seen the frames. */
static void on_selftest_answered(void *arg, struct selftest *p)
{
    struct listener *l = arg;
    struct front *f = l->front;

    if (f->seen)
        return;
    list_foreach(&f->unproven, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        struct guard_state s = c->own ? guard_look(c->guard) : (struct guard_state){0};
        f->seen = f->seen || (s.frames_in > 0 && s.frames_out > 0);
    }
    if (f->seen)
        return;
    log_error("this build of gRPC reads and writes in a way that hawk cannot count, so that anybody could "
              "flood this "
              "process: use the version of gRPC that hawk was made for (docs/architecture.md, Connections)");
    give_up_probing(f);
}

/* ---- Beginning and end ---- */

struct front *front_new(struct loop *l, const struct front_config *c)
{
    struct front *f = xcalloc(1, sizeof *f);
    struct rlimit limit;

    f->loop = l;
    f->config = *c;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur > GUARD_FDS_MAX)
        limit.rlim_cur = GUARD_FDS_MAX;
    if (!f->config.connections_max || f->config.connections_max > limit.rlim_cur / 2)
        f->config.connections_max = (uint32_t)limit.rlim_cur / 2;
    f->unproven_max =
        f->config.connections_max < FRONT_UNPROVEN_MAX ? f->config.connections_max : FRONT_UNPROVEN_MAX;
    if (!f->config.per_address)
        f->config.per_address = FRONT_PER_ADDRESS;
    if (!f->config.connect_rate)
        f->config.connect_rate = FRONT_CONNECT_RATE;
    list_init(&f->waiting);
    list_init(&f->unproven);
    list_init(&f->proven);
    list_init(&f->leaving);
    list_init(&f->closing);
    f->news_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(f->news_fd >= 0);
    f->guards = guards_new(f->news_fd);
    f->news = loop_fd_add(l, f->news_fd, LOOP_READ, on_news, f);
    loop_timer_init(&f->tick, on_tick, f);
    return f;
}

int front_listen(struct front *f, const char *addr, char *bound, char *why, size_t size)
{
    struct listener *l = xcalloc(1, sizeof *l);
    int err = listen_open(addr, &l->fd, bound, why, size);

    if (err) {
        free(l);
        return err;
    }
    l->front = f;
    snprintf(l->addr, sizeof l->addr, "%s", bound);
    vec_grow(f->listeners, f->listeners_n, f->listeners_cap);
    f->listeners[f->listeners_n++] = l;
    return 0;
}

void front_start(struct front *f, grpc_server *server)
{
    f->server = server;
    for (unsigned i = 0; i < f->listeners_n; i++) {
        struct listener *l = f->listeners[i];
        l->watch = loop_fd_add(f->loop, l->fd, LOOP_READ, on_accept, l);
        l->selftest.addr = l->addr;
        l->selftest.answered = on_selftest_answered;
        l->selftest.dead = on_selftest_dead;
        l->selftest.arg = l;
        selftest_start(&l->selftest, f->loop);
    }
}

/* Nobody has these connections yet. */
static void close_unread(struct list *l)
{
    list_foreach(l, n, next) {
        struct front_conn *c = container_of(n, struct front_conn, node);
        if (!c->first)
            continue;
        loop_fd_remove(c->first);
        c->first = NULL;
        close(c->fd);
    }
}

static void close_waiting(struct front *f)
{
    while (!list_empty(&f->waiting)) {
        struct front_conn *c = container_of(f->waiting.next, struct front_conn, node);
        close(c->fd);
        conn_free(c);
    }
    f->waiting_n = 0;
}

void front_stop(struct front *f)
{
    for (unsigned i = 0; i < f->listeners_n; i++) {
        selftest_stop(&f->listeners[i]->selftest);
        loop_fd_remove(f->listeners[i]->watch);
        listen_close(f->listeners[i]->addr, f->listeners[i]->fd);
        free(f->listeners[i]);
    }
    f->listeners_n = 0;
    close_unread(&f->unproven);
    close_waiting(f);
    f->starved = f->full = false;
}

static void conns_free(struct list *l)
{
    list_foreach(l, n, next)
        conn_free(container_of(n, struct front_conn, node));
}

void front_free(struct front *f)
{
    if (!f)
        return;
    front_stop(f);
    loop_timer_clear(f->loop, &f->tick);
    loop_fd_remove(f->news);
    guards_free(f->guards);
    close(f->news_fd);
    conns_free(&f->unproven);
    conns_free(&f->proven);
    conns_free(&f->leaving);
    conns_free(&f->closing);
    addresses_free(&f->addresses);
    free(f->by_fd);
    free(f->listeners);
    free(f);
}
