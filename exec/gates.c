/* Gates to the cgroups of users' tasks: see gates.h. */
#include "exec/gates.h"

#include "base/account.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthash.h>

#define EVENTS 16
#define LOOK_UP_FAILED "user %s cannot be looked up on this machine: "
#define MOVE_ROUNDS 10 /* passes over a task in which new processes may still appear */
/* The agent serves nobody else while it moves a task's processes: the rest are left to the next pause. */
#define MOVE_US (US_PER_S / 10)
/* A task waits so long for the answer. Its runner stands still meanwhile, and must end tasks whose lease is over. */
#define ANSWER_S 1

struct gate {
    UT_hash_handle hh;
    uint32_t run;
    int fd;
};

static struct gate *find_gate(const struct gates *g, uint32_t run)
{
    struct gate *gate;

    HASH_FIND(hh, g->open, &run, sizeof run, gate);
    return gate;
}

static void close_gate(struct gates *g, struct gate *gate)
{
    HASH_DEL(g->open, gate); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    close(gate->fd);
    free(gate);
}

void gates_init(struct gates *g) { *g = (struct gates){.epoll = epoll_create1(EPOLL_CLOEXEC)}; }

int gates_open(struct gates *g, uint32_t run)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = run};
    const struct timeval answer = {.tv_sec = ANSWER_S};
    int ends[2], yes = 1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    if (setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) < 0 ||
        setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof answer) < 0 ||
        epoll_ctl(g->epoll, EPOLL_CTL_ADD, ends[0], &ev) < 0) {
        int err = errno;

        close(ends[0]);
        close(ends[1]);
        errno = err;
        return -1;
    }
    struct gate *gate = xcalloc(1, sizeof *gate);

    gate->run = run;
    gate->fd = ends[0];
    HASH_ADD(hh, g->open, run, sizeof gate->run, gate);
    return ends[1];
}

void gates_close(struct gates *g, uint32_t run)
{
    struct gate *gate = find_gate(g, run);

    if (gate)
        close_gate(g, gate);
}

/* The process that asks, in the kernel's words; false: none does. */
static bool who_asks(int fd, struct ucred *asks)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(asks, CMSG_DATA(c), sizeof *asks);
    return asks->pid > 0;
}

/* Lets in the process that asks. What fails is in the log, and the task fails when its gate closes. */
static void let_in(struct gates *g, const struct gate *gate, const struct ucred *asks, const char *user)
{
    struct account a;
    int err = account_of_name(&a, user);

    if (err == HAWK_EUNAVAILABLE)
        log_warn(LOOK_UP_FAILED "a process that asks to be limited as a task of his is refused", user);
    else if (err || asks->uid != a.uid)
        log_warn("a process of uid %u asks to be limited as a task of user %s: refused", (unsigned)asks->uid,
                 user);
    else if (limits_enter(&g->limits, gate->run, asks->pid, asks->uid) < 0)
        log_warn("a task of user %s cannot be limited: %s", user, strerror(errno));
    else
        (void)!send(gate->fd, "1", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    account_free(&a);
}

void gates_on_ready(struct gates *g, const char *user)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(g->epoll, events, EVENTS, 0);

    for (int i = 0; i < n; i++) {
        struct gate *gate = find_gate(g, events[i].data.u32);
        struct ucred asks;

        if (!gate)
            continue;
        if (who_asks(gate->fd, &asks))
            let_in(g, gate, &asks, user);
        close_gate(g, gate);
    }
}

/* Keeps the processes of that user, each once: a runner may name anybody's, and one with many threads many times. */
static void keep_distinct(struct pids *l, uid_t uid)
{
    uint32_t told = l->n;

    l->n = 0;
    for (uint32_t i = 0; i < told; i++)
        if (!pids_have(l, l->v[i]) && procs_is_of(l->v[i], uid))
            l->v[l->n++] = l->v[i];
}

/* Adds the children of the processes in l, their children, and so on. */
static void add_descendants(struct pids *l, int64_t until_us)
{
    for (uint32_t i = 0; i < l->n && l->n < PAUSE_PROCESSES_MAX && monotonic_us() < until_us; i++)
        pids_add_children(l, l->v[i]);
    if (l->n > PAUSE_PROCESSES_MAX)
        l->n = PAUSE_PROCESSES_MAX;
}

/* Returns how many of them it has moved. */
static uint32_t move_in_all(struct gates *g, uint32_t run, uid_t uid, const struct pids *l,
                            struct pids *inside, int64_t until_us)
{
    uint32_t n = 0;

    limits_in_freezer(&g->limits, run, inside);
    for (uint32_t i = 0; i < l->n && monotonic_us() < until_us; i++)
        if (!pids_have(inside, l->v[i]) && limits_move_in(&g->limits, run, l->v[i], uid) == 0)
            n++;
    return n;
}

/* False: he has no account here, or that is not known. */
static bool find_uid(const char *user, uid_t *uid)
{
    struct account a;
    int err = account_of_name(&a, user);

    *uid = a.uid;
    account_free(&a);
    if (err == HAWK_EUNAVAILABLE)
        log_warn(LOOK_UP_FAILED "a paused task of his is not frozen from outside", user);
    return err == 0;
}

/* Looks again as long as a look has moved a process: that may have started another one before. What a process in the
 * cgroup starts is in it from the beginning. */
bool gates_take_into_freezer(struct gates *g, uint32_t run, const char *user, struct pids *named)
{
    uid_t uid;
    uint32_t moved = 1, inside_n = 0;
    int64_t until_us = monotonic_us() + MOVE_US;

    if (!find_uid(user, &uid) || !limits_make_freezer(&g->limits, run))
        return false;
    keep_distinct(named, uid);
    uint32_t told = named->n;
    for (int round = 0; moved > 0 && round < MOVE_ROUNDS; round++) {
        struct pids inside = {0};

        named->n = told;
        add_descendants(named, until_us);
        moved = move_in_all(g, run, uid, named, &inside, until_us);
        inside_n = inside.n + moved;
        pids_free(&inside);
    }
    if (inside_n == 0)
        limits_unmake_freezer(&g->limits, run);
    return inside_n > 0;
}

void gates_free(struct gates *g)
{
    struct gate *gate, *next;

    HASH_ITER(hh, g->open, gate, next)
        close_gate(g, gate);
    if (g->epoll >= 0)
        close(g->epoll);
    limits_free(&g->limits);
    g->epoll = -1;
}
