/* The runners of all users: see runners.h. An epoll descriptor stands for all of theirs. */
#include "exec/runners.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/record.h"
#include "exec/user_runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAKE_OVER_US (3 * US_PER_S) /* all together have so long to answer another agent */
#define STOP_SLACK_US (2 * US_PER_S)
#define AGENT_LATE_US US_PER_S /* this process must have stood still if a timeout comes so late */
#define SLEEP_MIN_US US_PER_S  /* of the machine; RUNNER_LATE_US has room for a shorter one */
#define EVENTS 32

struct watched {
    struct entry *entry;
    enum { SOCKET, KEEPER, GATES } what;
};

struct entry {
    struct list node;
    struct user_runner *u;
    struct watched socket, keeper, gates; /* of epoll */
    bool in_epoll;                        /* its socket */
    uint32_t events;
    bool gone;
    struct list residents; /* struct resident */
    int64_t idle_us;       /* since when it has nothing to do; TIME_NEVER: it has */
};

struct resident {
    struct list node;
    uint64_t number;
    int32_t pid; /* as its runner says it */
};

struct runners {
    struct exec_config config;
    char *dir, *helper;
    int64_t idle_us, lease_us;
    int64_t asleep_us; /* so long the machine had slept when it was looked at last */
    int epoll;
    struct list all; /* the newest of a user's comes first: others of his are ending */
    uint32_t n;
    uint64_t residents; /* numbers given so far, from RESIDENT_FIRST on */
};

#define RESIDENT_FIRST (UINT64_C(1) << 32) /* no number is a pid: those are of the agent's own spawner */

/* ---- Which there are ---- */

static struct entry *entry_of(struct list *l) { return container_of(l, struct entry, node); }

static struct entry *find_user(const struct runners *rs, const char *user)
{
    list_foreach(&rs->all, l, next)
        if (!user_runner_ending(entry_of(l)->u) && strcmp(user_runner_name(entry_of(l)->u), user) == 0)
            return entry_of(l);
    return NULL;
}

static struct user_runner *find_run(const struct runners *rs, uint32_t run)
{
    list_foreach(&rs->all, l, next)
        if (user_runner_has(entry_of(l)->u, run))
            return entry_of(l)->u;
    return NULL;
}

static int64_t asleep_us(void)
{
    int64_t boot_us = clock_us(CLOCK_BOOTTIME); /* first: a pause before the other cannot look like a sleep */

    return boot_us - monotonic_us();
}

/* Runners count on CLOCK_MONOTONIC, as tasks' run times do. */
static void note_sleep(struct runners *rs)
{
    int64_t slept_us = asleep_us() - rs->asleep_us;

    if (slept_us < SLEEP_MIN_US)
        return;
    rs->asleep_us += slept_us;
    list_foreach(&rs->all, l, next)
        user_runner_slept(entry_of(l)->u, slept_us);
}

static void watch(const struct runners *rs, int fd, uint32_t events, struct watched *w, int how)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (epoll_ctl(rs->epoll, how, fd, &ev) < 0)
        log_error("runners: a descriptor cannot be watched: %s", strerror(errno));
}

/* A socket that was closed has left epoll by itself. */
static void watch_socket(struct runners *rs, struct entry *e)
{
    int fd = user_runner_fd(e->u);
    uint32_t events = EPOLLIN | (user_runner_wants_write(e->u) ? (uint32_t)EPOLLOUT : 0);

    if (fd < 0 || (e->in_epoll && e->events == events))
        return;
    watch(rs, fd, events, &e->socket, e->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
    e->in_epoll = true;
    e->events = events;
}

static struct entry *watch_runner(struct runners *rs, struct user_runner *u)
{
    struct entry *e = xcalloc(1, sizeof *e);

    e->u = u;
    list_init(&e->residents);
    e->socket = (struct watched){e, SOCKET};
    e->keeper = (struct watched){e, KEEPER};
    e->gates = (struct watched){e, GATES};
    e->idle_us = TIME_NEVER;
    list_push_head(&rs->all, &e->node);
    rs->n++;
    watch(rs, user_runner_keeper_fd(u), EPOLLIN, &e->keeper, EPOLL_CTL_ADD);
    watch(rs, user_runner_gates_fd(u), EPOLLIN, &e->gates, EPOLL_CTL_ADD);
    watch_socket(rs, e);
    return e;
}

static void drop_resident(struct resident *r)
{
    list_remove(&r->node);
    free(r);
}

static void drop_runner(struct runners *rs, struct entry *e)
{
    list_foreach(&e->residents, l, next)
        drop_resident(container_of(l, struct resident, node));
    list_remove(&e->node);
    rs->n--;
    user_runner_free(e->u);
    free(e);
}

/* ---- Starting ---- */

/* Says hello to each before it waits for any. */
static int find_all(struct runners *rs, int64_t now_us, bool kept)
{
    int64_t deadline_us = monotonic_us() + TAKE_OVER_US;
    DIR *d = opendir(rs->dir);

    if (!d)
        return HAWK_EIO;
    for (struct dirent *e; (e = readdir(d));) {
        struct user_runner *u =
            *e->d_name == '.' ? NULL : user_runner_find(&rs->config, rs->helper, e->d_name, now_us);

        if (u)
            watch_runner(rs, u);
    }
    closedir(d);
    list_foreach(&rs->all, l, next)
        user_runner_greet(entry_of(l)->u, now_us, deadline_us, kept);
    return 0;
}

int runners_start(struct runners **out, const struct exec_config *c, const char *helper, int64_t idle_us,
                  int64_t now_us, bool kept)
{
    struct runners *rs = xcalloc(1, sizeof *rs);
    char dir[PATH_MAX];
    struct rlimit files;

    snprintf(dir, sizeof dir, "%s/users", c->state_dir);
    *rs = (struct runners){.config = *c,
                           .dir = xstrdup(dir),
                           .helper = xstrdup(helper),
                           .idle_us = idle_us,
                           .lease_us = TIME_NEVER,
                           .asleep_us = asleep_us(),
                           .epoll = epoll_create1(EPOLL_CLOEXEC)};
    rs->config.state_dir = rs->dir;
    rs->config.soft_files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
    list_init(&rs->all);
    if (rs->epoll < 0 || (mkdir(dir, 0700) < 0 && errno != EEXIST) || find_all(rs, now_us, kept)) {
        log_error("%s: %s", dir, strerror(errno));
        runners_leave(rs);
        return HAWK_EIO;
    }
    *out = rs;
    return 0;
}

void runners_held(struct runners *rs, exec_held_fn fn, void *arg)
{
    list_foreach(&rs->all, l, next)
        user_runner_held(entry_of(l)->u, fn, arg, false);
}

void runners_take_over(struct runners *rs, exec_held_fn fn, void *arg)
{
    list_foreach(&rs->all, l, next)
        user_runner_held(entry_of(l)->u, fn, arg, true);
}

/* The name becomes a directory's. */
static bool is_name(const char *user) { return *user && *user != '.' && *user != '-' && !strchr(user, '/'); }

static int start_runner(struct runners *rs, int64_t now_us, const char *user, struct entry **e, char *why)
{
    struct user_runner *u;

    if (!is_name(user))
        return HAWK_EINVALID;
    if (rs->n == RUNNERS_MAX)
        return HAWK_ELIMIT;
    u = user_runner_start(&rs->config, rs->helper, user, now_us, why);
    if (!u)
        return HAWK_ECANNOT_START;
    *e = watch_runner(rs, u);
    if (rs->lease_us != TIME_NEVER)
        user_runner_lease(u, rs->lease_us);
    return 0;
}

int runners_run(struct runners *rs, int64_t now_us, const struct msg_exec_start *m, const struct blob *proof,
                const char *worker, char why[EXEC_WHY_MAX])
{
    struct entry *e = find_user(rs, m->desc->user->data);
    int err = 0;

    note_sleep(rs);
    *why = '\0';
    if (find_run(rs, m->run))
        return HAWK_EEXISTS;
    if (runners_running(rs) >= rs->config.max_running)
        return HAWK_ELIMIT;
    if (!e)
        err = start_runner(rs, now_us, m->desc->user->data, &e, why);
    if (err)
        return err;
    e->idle_us = TIME_NEVER;
    while (runners_forget(rs, m->run)) /* numbers are used again */
        ;
    return user_runner_run(e->u, now_us, m, proof, worker, why);
}

/* ---- What happens ---- */

int runners_fd(const struct runners *rs) { return rs->epoll; }

/* Entries that are gone are freed only when no event refers to them any more. */
static void drop_gone(struct runners *rs)
{
    list_foreach(&rs->all, l, next)
        if (entry_of(l)->gone)
            drop_runner(rs, entry_of(l));
}

static void end_runner(struct runners *rs, struct entry *e, int64_t now_us, exec_event_fn fn, void *arg)
{
    if (user_runner_is_gone(e->u) && user_runner_clear(e->u, rs->helper, now_us)) {
        e->in_epoll = false;
        watch(rs, user_runner_keeper_fd(e->u), EPOLLIN, &e->keeper, EPOLL_CTL_ADD);
        watch_socket(rs, e);
        return;
    }
    user_runner_gone(e->u, fn, arg);
    e->gone = true;
}

static void take_event(struct runners *rs, const struct watched *w, int64_t now_us, exec_event_fn fn,
                       void *arg)
{
    struct entry *e = w->entry;

    if (e->gone)
        return;
    if (w->what == GATES) {
        user_runner_on_gate(e->u);
        return;
    }
    user_runner_on_ready(e->u, now_us, fn, arg);
    if (w->what == KEEPER) {
        watch(rs, user_runner_keeper_fd(e->u), 0, &e->keeper, EPOLL_CTL_DEL); /* it would stay ready */
        user_runner_unkept(e->u, now_us);
    }
    if (user_runner_is_gone(e->u))
        end_runner(rs, e, now_us, fn, arg);
}

void runners_on_ready(struct runners *rs, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(rs->epoll, events, EVENTS, 0);

    note_sleep(rs);
    for (int i = 0; i < n; i++)
        take_event(rs, events[i].data.ptr, now_us, fn, arg);
    drop_gone(rs);
}

void runners_flush(struct runners *rs, int64_t now_us)
{
    list_foreach(&rs->all, l, next) {
        struct entry *e = entry_of(l);

        user_runner_flush(e->u, now_us);
        watch_socket(rs, e);
        if (!user_runner_idle(e->u) || !list_empty(&e->residents) || user_runner_ending(e->u))
            e->idle_us = TIME_NEVER;
        else if (e->idle_us == TIME_NEVER)
            e->idle_us = now_us;
    }
}

static int64_t leaves_us(const struct runners *rs, const struct entry *e)
{
    return e->idle_us == TIME_NEVER ? TIME_NEVER : e->idle_us + rs->idle_us;
}

int64_t runners_next_timeout(const struct runners *rs)
{
    int64_t at_us = TIME_NEVER;

    list_foreach(&rs->all, l, next) {
        const struct entry *e = entry_of(l);
        int64_t due_us = user_runner_next_timeout(e->u), leave_us = leaves_us(rs, e);

        at_us = due_us < at_us ? due_us : at_us;
        at_us = leave_us < at_us ? leave_us : at_us;
    }
    return at_us;
}

void runners_on_timeout(struct runners *rs, int64_t now_us, exec_event_fn fn, void *arg)
{
    bool late = now_us - runners_next_timeout(rs) > AGENT_LATE_US;

    note_sleep(rs);
    list_foreach(&rs->all, l, next) {
        struct entry *e = entry_of(l);

        if (leaves_us(rs, e) <= now_us) {
            e->idle_us = TIME_NEVER;
            log_debug("the runner of user %s leaves: it has nothing to do", user_runner_name(e->u));
            user_runner_stop(e->u, now_us);
        }
        if (user_runner_next_timeout(e->u) <= now_us)
            user_runner_on_ready(e->u, now_us, fn, arg);
        if (user_runner_on_timeout(e->u, now_us, late))
            end_runner(rs, e, now_us, fn, arg);
    }
    drop_gone(rs);
}

/* ---- Requests ---- */

bool runners_kill(struct runners *rs, int64_t now_us, uint32_t run, enum outcome outcome, bool force)
{
    struct user_runner *u = find_run(rs, run);

    note_sleep(rs);
    if (u)
        user_runner_kill(u, now_us, run, outcome, force);
    return u != NULL;
}

bool runners_pause(struct runners *rs, int64_t now_us, uint32_t run, int *err)
{
    struct user_runner *u = find_run(rs, run);

    note_sleep(rs);
    if (u)
        *err = user_runner_pause(u, now_us, run);
    return u != NULL;
}

bool runners_resume(struct runners *rs, int64_t now_us, uint32_t run)
{
    struct user_runner *u = find_run(rs, run);

    note_sleep(rs);
    if (u)
        user_runner_resume(u, now_us, run);
    return u != NULL;
}

bool runners_forget(struct runners *rs, uint32_t run)
{
    list_foreach(&rs->all, l, next)
        if (user_runner_forget(entry_of(l)->u, run))
            return true;
    return false;
}

uint64_t runners_reside(struct runners *rs, uint32_t run, int32_t pid)
{
    list_foreach(&rs->all, l, next) {
        struct entry *e = entry_of(l);

        if (!user_runner_has(e->u, run) || user_runner_ending(e->u))
            continue;
        struct resident *r = xcalloc(1, sizeof *r);
        user_runner_reside(e->u, run);
        r->number = RESIDENT_FIRST + ++rs->residents;
        r->pid = pid;
        list_push_tail(&e->residents, &r->node);
        return r->number;
    }
    return 0;
}

void runners_evict(struct runners *rs, uint64_t resident)
{
    list_foreach(&rs->all, l, next) {
        struct entry *e = entry_of(l);

        list_foreach(&e->residents, k, other) {
            struct resident *r = container_of(k, struct resident, node);

            if (r->number != resident)
                continue;
            user_runner_tell(e->u, RECORD_EVICT, (uint32_t)r->pid);
            drop_resident(r);
            return;
        }
    }
}

void runners_lease(struct runners *rs, int64_t until_us)
{
    rs->lease_us = until_us;
    list_foreach(&rs->all, l, next)
        user_runner_lease(entry_of(l)->u, until_us);
}

uint32_t runners_running(const struct runners *rs)
{
    uint32_t n = 0;

    list_foreach(&rs->all, l, next)
        n += user_runner_running(entry_of(l)->u);
    return n;
}

/* ---- Stopping ---- */

static void ignore(void *arg, const struct msg *m) {}

/* Until all are gone, or the time is over. */
static void wait_for_all(struct runners *rs, int64_t deadline_us)
{
    struct pollfd p = {.fd = rs->epoll, .events = POLLIN};
    int64_t left_us;

    while (rs->n > 0 && (left_us = deadline_us - monotonic_us()) > 0) {
        runners_flush(rs, clock_us(CLOCK_BOOTTIME));
        poll(&p, 1, (int)(left_us / US_PER_MS) + 1);
        runners_on_ready(rs, clock_us(CLOCK_BOOTTIME), ignore, NULL);
    }
}

void runners_stop(struct runners *rs)
{
    int64_t now_us = clock_us(CLOCK_BOOTTIME);

    if (!rs)
        return;
    list_foreach(&rs->all, l, next)
        user_runner_stop(entry_of(l)->u, now_us);
    wait_for_all(rs, monotonic_us() + rs->config.kill_grace_us + STOP_SLACK_US);
    list_foreach(&rs->all, l, next)
        user_runner_end(entry_of(l)->u, now_us);
    wait_for_all(rs, monotonic_us() + STOP_SLACK_US);
    runners_leave(rs);
}

void runners_leave(struct runners *rs)
{
    if (!rs)
        return;
    runners_flush(rs, clock_us(CLOCK_BOOTTIME));
    list_foreach(&rs->all, l, next)
        drop_runner(rs, entry_of(l));
    if (rs->epoll >= 0)
        close(rs->epoll);
    free(rs->dir);
    free(rs->helper);
    free(rs);
}
