/* The agent's side: requests to the spawner, and its reports. */
#include "exec/exec.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/freezer.h"
#include "exec/limits.h"
#include "exec/procs.h"
#include "exec/record.h"
#include "exec/sent.h"
#include "exec/spawner.h"
#include "exec/spawner_end.h"
#include "exec/spawner_socket.h"
#include "exec/takeover.h"
#include "exec/timers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>

#define STOP_SLACK_US (5 * US_PER_S)
#define SPAWNER_LATE_US (5 * US_PER_S)     /* a spawner may be so late with an end, on a loaded machine */
#define SPAWNER_AGAIN_US (500 * US_PER_MS) /* until the second look at one that seems to stand still */
#define STOOD_STILL_US US_PER_S /* a look that is so late says nothing of the spawner: we were stopped */

struct command {
    UT_hash_handle hh;
    uint32_t run;
    pid_t pid;              /* 0 until it started */
    struct sent_spec *spec; /* NULL: an earlier agent sent it */
    int64_t due_us;         /* when its end must have been reported; TIME_NEVER: it may run on */
    uint64_t heard_then;    /* exec.heard when the spawner was told so */
    bool silent;            /* the spawner had done nothing since, at due_us */
};

struct exec {
    struct exec_config config; /* with copies of its texts */
    pid_t spawner;
    int fd;                    /* the spawner's socket; -1: the spawner is gone */
    int lock_fd;               /* the lock of state_dir; -1: there is no state_dir */
    uint32_t knows;            /* enum spawner_knows */
    enum exec_freezer freezer; /* the spawner's, unless the configuration switched pausing off */
    bool lost;                 /* writing to fd failed; exec_on_ready() has not reported it yet */
    struct takeover taken;     /* runs of an earlier agent that exec_take_over() has not reported yet */
    struct bytes in, out;
    uint64_t heard; /* how often the spawner has said something */
    int64_t due_us; /* the earliest due_us of the commands, or earlier */
    struct command *commands;
    struct sent sent;
    struct timers timers;
};

void exec_config_init(struct exec_config *c, const char *worker, const char *output_dir)
{
    *c = (struct exec_config){
        .worker = worker,
        .output_dir = output_dir,
        .kill_grace_us = 2 * US_PER_S,
        .orphan_grace_us = 10 * US_PER_S,
        .max_running = 2 * LIMIT_SLOTS,
    };
}

/* ---- Starting ---- */

/* Makes a socket pair above the standard descriptors, which the spawner replaces. */
static int make_socket(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return HAWK_EIO;
    for (int i = 0; i < 2; i++) {
        int moved = fds[i] > STDERR_FILENO ? fds[i] : fcntl(fds[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

        if (moved != fds[i])
            close(fds[i]);
        fds[i] = moved;
    }
    if (fds[0] >= 0 && fds[1] >= 0)
        return 0;
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return HAWK_EIO;
}

/* Forks the spawner, on a new socket of e's. */
static int fork_spawner(struct exec *e)
{
    int fds[2], listen_fd = -1, err = make_socket(fds);
    struct freezer freezer;
    pid_t pid = -1;

    if (err)
        return err;
    if (e->config.state_dir) {
        listen_fd = spawner_socket_listen(e->config.state_dir);
        if (listen_fd < 0)
            log_error("%s/" SPAWNER_SOCKET ": cannot be listened on: %s", e->config.state_dir,
                      strerror(errno));
    }
    freezer_choose(&freezer, e->config.freezer, e->config.as_users);
    if (listen_fd >= 0 || !e->config.state_dir)
        pid = fork();
    if (pid == 0)
        spawner_main(fds[1], listen_fd, &e->config, &freezer);
    close(fds[1]);
    if (listen_fd >= 0)
        close(listen_fd);
    if (pid < 0) {
        close(fds[0]);
        return HAWK_EIO;
    }
    e->spawner = pid;
    e->fd = fds[0];
    e->knows = SPAWNER_KNOWS;
    e->freezer = freezer.method;
    return 0;
}

static struct command *add_command(struct exec *e, uint32_t run)
{
    struct command *c = xcalloc(1, sizeof *c);

    c->run = run;
    c->due_us = TIME_NEVER;
    HASH_ADD(hh, e->commands, run, sizeof c->run, c);
    return c;
}

/* Takes over the spawner that an earlier agent left, if it holds anything. Otherwise a new one, of this
 * version and with this environment, replaces it and keeps its incarnation. */
static int find_spawner(struct exec *e)
{
    struct takeover *t = &e->taken;
    int err = e->lock_fd = spawner_socket_lock(e->config.state_dir);

    if (err >= 0)
        err = takeover_begin(t, &e->config);
    if (err == HAWK_ETIMEOUT && !(err = spawner_kill_noted(e->config.state_dir)))
        err = takeover_begin(t, &e->config);
    if (!err && t->fd < 0)
        spawner_end_noted_runs(e->config.state_dir);
    if (err || t->fd < 0)
        return err;
    e->config.incarnation = t->incarnation;
    if (t->n == 0)
        return takeover_end_idle(t);
    e->fd = t->fd;
    e->knows = t->knows;
    e->freezer = e->config.freezer == EXEC_FREEZER_OFF ? EXEC_FREEZER_OFF : t->freezer;
    e->spawner = t->spawner;
    e->in = t->in;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->v[i].m.exec_held.outcome == OUTCOME_NONE)
            add_command(e, t->v[i].m.exec_held.run)->pid = t->v[i].pid;
    }
    return 0;
}

static void exec_free(struct exec *e);

int exec_start(struct exec **out, const struct exec_config *c)
{
    struct exec *e;
    int err = 0;

    if (!c->output_dir || c->output_dir[0] != '/' || !c->worker)
        return HAWK_EINVALID;
    e = xcalloc(1, sizeof *e);
    e->config = *c;
    e->config.worker = xstrdup(c->worker);
    e->config.output_dir = xstrdup(c->output_dir);
    e->config.state_dir = c->state_dir ? xstrdup(c->state_dir) : NULL;
    e->fd = e->lock_fd = e->taken.fd = -1;
    e->taken.lease_us = e->due_us = TIME_NEVER;
    sent_init(&e->sent);
    timers_init(&e->timers);
    if (c->state_dir)
        err = find_spawner(e);
    if (!err && e->fd < 0)
        err = fork_spawner(e);
    if (err) {
        exec_free(e);
        return err;
    }
    if (c->state_dir)
        spawner_note(e->config.state_dir, e->spawner);
    *out = e;
    return 0;
}

uint64_t exec_incarnation(const struct exec *e) { return e->config.incarnation; }
enum exec_freezer exec_freezer_in_force(const struct exec *e) { return e->freezer; }
bool exec_reads_limits(const struct exec *e) { return e->knows >= KNOWS_LIMITS; }

void exec_held(const struct exec *e, exec_held_fn fn, void *arg)
{
    const char *const none[2] = {NULL, NULL};
    struct msg lease = {.type = MSG_EXEC_LEASE, .exec_lease.until_us = e->taken.lease_us};

    if (e->taken.lease_us != TIME_NEVER)
        fn(arg, &lease, none, NULL);
    for (uint32_t i = 0; i < e->taken.n; i++)
        takeover_tell(&e->taken.v[i], fn, arg);
}

void exec_take_over(struct exec *e, exec_held_fn fn, void *arg)
{
    exec_held(e, fn, arg);
    takeover_forget(&e->taken);
    e->taken.lease_us = TIME_NEVER;
}

int exec_fd(const struct exec *e) { return e->fd; }
bool exec_want_write(const struct exec *e) { return e->fd >= 0 && !e->lost && bytes_pending(&e->out) > 0; }
uint32_t exec_running(const struct exec *e) { return HASH_COUNT(e->commands) + timers_running(&e->timers); }

/* ---- Requests ---- */

static int run_command(struct exec *e, const struct msg_exec_start *m, const char *worker)
{
    struct sent_spec *spec;
    int err =
        e->fd < 0 || e->lost ? HAWK_EUNAVAILABLE : sent_run(&e->sent, &e->out, m, worker, 0, NULL, &spec);

    if (err)
        return err;
    add_command(e, m->run)->spec = spec;
    return 0;
}

int exec_run(struct exec *e, int64_t now_us, const struct msg_exec_start *m, const char *worker)
{
    struct command *c;

    HASH_FIND(hh, e->commands, &m->run, sizeof m->run, c);
    if (c || timers_has(&e->timers, m->run))
        return HAWK_EEXISTS;
    if (exec_running(e) >= e->config.max_running)
        return HAWK_ELIMIT;
    switch (m->desc->kind) {
    case PAYLOAD_COMMAND:
        return run_command(e, m, worker);
    case PAYLOAD_TIMER:
        return timers_run(&e->timers, now_us, m->run, m->desc, m->arg);
    default:
        return HAWK_EUNSUPPORTED;
    }
}

static void expect_end(struct exec *e, struct command *c, int64_t due_us)
{
    c->due_us = due_us;
    c->heard_then = e->heard;
    c->silent = false;
    e->due_us = due_us < e->due_us ? due_us : e->due_us;
}

void exec_kill(struct exec *e, int64_t now_us, uint32_t run, enum outcome outcome, bool force)
{
    int64_t due_us = now_us + (force ? 0 : e->config.kill_grace_us) + SPAWNER_LATE_US;
    struct command *c;

    if (timers_kill(&e->timers, run, outcome))
        return;
    HASH_FIND(hh, e->commands, &run, sizeof run, c);
    if (!c || e->fd < 0)
        return;
    put_kill(&e->out, run, outcome, force);
    if (due_us < c->due_us)
        expect_end(e, c, due_us);
}

int exec_pause(struct exec *e, int64_t now_us, uint32_t run)
{
    struct command *c;

    if (timers_pause(&e->timers, now_us, run))
        return 0;
    HASH_FIND(hh, e->commands, &run, sizeof run, c);
    if (!c || e->fd < 0 || e->freezer == EXEC_FREEZER_OFF)
        return HAWK_EUNSUPPORTED;
    put_number(&e->out, RECORD_PAUSE, run);
    return 0;
}

void exec_resume(struct exec *e, int64_t now_us, uint32_t run)
{
    struct command *c;

    if (timers_resume(&e->timers, now_us, run))
        return;
    HASH_FIND(hh, e->commands, &run, sizeof run, c);
    if (c && e->fd >= 0 && e->freezer != EXEC_FREEZER_OFF)
        put_number(&e->out, RECORD_RESUME, run);
}

void exec_forget(struct exec *e, uint32_t run)
{
    if (e->fd >= 0 && e->config.state_dir)
        put_number(&e->out, RECORD_FORGET, run);
}

void exec_lease(struct exec *e, int64_t until_us)
{
    if (e->fd >= 0)
        put_lease(&e->out, until_us);
}

void exec_check(struct exec *e, const struct blob *place)
{
    if (e->fd < 0 || e->knows < KNOWS_CHECK)
        return;
    size_t begun = record_begin(&e->out, RECORD_CHECK);
    put_blob(&e->out, place);
    record_end(&e->out, begun);
}

pid_t exec_reside(struct exec *e, uint32_t run)
{
    struct command *c;

    HASH_FIND(hh, e->commands, &run, sizeof run, c);
    if (!c || e->fd < 0 || e->knows < KNOWS_RESIDE)
        return 0;
    put_number(&e->out, RECORD_RESIDE, run);
    return c->pid;
}

void exec_evict(struct exec *e, pid_t pid)
{
    if (e->fd >= 0)
        put_number(&e->out, RECORD_EVICT, (uint32_t)pid);
}

int exec_flush(struct exec *e)
{
    if (e->fd < 0)
        return HAWK_EUNAVAILABLE;
    if (!e->lost && bytes_send(&e->out, e->fd) < 0)
        e->lost = true; /* exec_on_ready() still reads what the spawner sent before, then the end */
    return e->lost ? HAWK_EUNAVAILABLE : 0;
}

/* ---- Reports ---- */

static void forget_command(struct exec *e, struct command *c)
{
    if (c->spec)
        sent_release(&e->sent, e->fd >= 0 ? &e->out : NULL, c->spec);
    HASH_DEL(e->commands, c);
    free(c);
}

static int on_started(struct exec *e, struct record *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_STARTED};
    uint32_t run = get_u32(r);
    struct command *c;

    HASH_FIND(hh, e->commands, &run, sizeof run, c);
    if (!c)
        return HAWK_EMALFORMED;
    c->pid = (pid_t)get_u32(r);
    m.exec_started.run = run;
    m.exec_started.pid = c->pid;
    fn(arg, &m);
    return 0;
}

static int on_exited(struct exec *e, struct record *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_EXITED};
    struct command *c;

    m.exec_exited.run = get_u32(r);
    m.exec_exited.outcome = (uint8_t)get_u32(r);
    m.exec_exited.code = (int32_t)get_u32(r);
    m.exec_exited.run_us = (int64_t)get_u64(r);
    m.exec_exited.result = get_blob(r);
    HASH_FIND(hh, e->commands, &m.exec_exited.run, sizeof m.exec_exited.run, c);
    if (!c || r->bad) {
        msg_drop(&m);
        return HAWK_EMALFORMED;
    }
    /* An older spawner names no place: its text does, if any. */
    m.exec_exited.place = r->p < r->end ? get_blob(r) : blob_ref(m.exec_exited.result);
    m.exec_exited.used = get_usage(r);
    forget_command(e, c);
    fn(arg, &m);
    msg_drop(&m);
    return 0;
}

static int on_paused(struct record *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_PAUSED};

    m.exec_paused.run = get_u32(r);
    m.exec_paused.err = (int32_t)get_u32(r);
    if (r->bad)
        return HAWK_EMALFORMED;
    fn(arg, &m);
    return 0;
}

static int on_checked(struct record *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_CHECKED};

    m.exec_checked.why = get_blob(r); /* NULL, if the record is bad */
    if (r->bad)
        return HAWK_EMALFORMED;
    fn(arg, &m);
    msg_drop(&m);
    return 0;
}

/* Handles every complete record. */
static int take_records(struct exec *e, exec_event_fn fn, void *arg)
{
    struct record r;
    int got;

    while ((got = record_next(&e->in, &r)) > 0) {
        int err = r.type == RECORD_STARTED   ? on_started(e, &r, fn, arg)
                  : r.type == RECORD_EXITED  ? on_exited(e, &r, fn, arg)
                  : r.type == RECORD_CHECKED ? on_checked(&r, fn, arg)
                  : r.type == RECORD_PAUSED  ? on_paused(&r, fn, arg)
                                             : HAWK_EMALFORMED;

        if (err)
            return err;
    }
    return got;
}

/* ---- A spawner that stands still ---- */

/* Whether the spawner, since it was told to end c, has neither said anything nor read what we wrote. Otherwise it is c
 * that hangs, and others need not die of that. */
static bool is_silent(const struct exec *e, const struct command *c)
{
    int unread = 0;

    return c->heard_then == e->heard &&
           (bytes_pending(&e->out) > 0 || (ioctl(e->fd, SIOCOUTQ, &unread) == 0 && unread > 0));
}

static void look_for_ends(struct exec *e, int64_t now_us)
{
    bool late = now_us - e->due_us > STOOD_STILL_US;

    e->due_us = TIME_NEVER;
    for (struct command *c = e->commands; c; c = c->hh.next) {
        if (c->due_us <= now_us && (late || !is_silent(e, c))) {
            put_kill(&e->out, c->run, OUTCOME_LOST, true); /* what it was told first stays its outcome */
            expect_end(e, c, now_us + SPAWNER_LATE_US);
        } else if (c->due_us <= now_us && !c->silent) {
            c->silent = true;
            c->due_us = now_us + SPAWNER_AGAIN_US;
        } else if (c->due_us <= now_us) {
            spawner_kill(e->spawner);
            shutdown(e->fd, SHUT_RDWR); /* for exec_on_ready(): it may hang in the kernel */
            return;
        }
        e->due_us = c->due_us < e->due_us ? c->due_us : e->due_us;
    }
}

int64_t exec_next_timeout(const struct exec *e)
{
    int64_t timers_us = timers_next(&e->timers);

    return e->due_us < timers_us ? e->due_us : timers_us;
}

void exec_on_timeout(struct exec *e, int64_t now_us, exec_event_fn fn, void *arg)
{
    timers_on_timeout(&e->timers, now_us, fn, arg);
    if (e->due_us <= now_us)
        look_for_ends(e, now_us);
}

/* ---- Its end ---- */

/* Kills all that the dead spawner ran. */
static void kill_runs(const struct exec *e)
{
    for (const struct command *c = e->commands; c; c = c->hh.next)
        if (c->pid > 0)
            kill(-c->pid, SIGKILL);
    spawner_end_runs(e->spawner);
}

/* Reports all commands as lost: no process watches their groups or learns their results any more. */
static void lose_spawner(struct exec *e, exec_event_fn fn, void *arg)
{
    struct command *c, *next;

    log_error("the spawner (process %d) is gone: what it ran is lost", (int)e->spawner);
    close(e->fd);
    e->fd = -1;
    e->due_us = TIME_NEVER;
    bytes_free(&e->out);
    kill_runs(e);
    waitpid(e->spawner, NULL, WNOHANG);
    sent_free(&e->sent);
    c = e->commands;
    HASH_CLEAR(hh, e->commands);
    for (; c; c = next) {
        struct msg m = {.type = MSG_EXEC_EXITED};

        m.exec_exited.run = c->run;
        m.exec_exited.outcome = OUTCOME_LOST;
        m.exec_exited.result = blob_str("the worker's spawner process died");
        next = c->hh.next;
        free(c);
        fn(arg, &m);
        blob_drop(m.exec_exited.result);
    }
}

int exec_on_ready(struct exec *e, exec_event_fn fn, void *arg)
{
    int got, err;

    if (e->fd < 0)
        return HAWK_EUNAVAILABLE;
    do {
        got = bytes_receive(&e->in, e->fd);
        e->heard += got > 0;
        err = take_records(e, fn, arg);
    } while (got > 0 && err == 0);
    if (got == 0 && err == 0)
        return 0;
    lose_spawner(e, fn, arg);
    return HAWK_EUNAVAILABLE;
}

/* ---- Stopping ---- */

static void ignore_event(void *arg, const struct msg *m) {}

/* Waits until the spawner has closed its end. False: the time is over. */
static bool wait_for_end(struct exec *e, int64_t deadline_us)
{
    int64_t left;

    while ((left = deadline_us - monotonic_us()) > 0) {
        struct pollfd p = {.fd = e->fd, .events = (short)(POLLIN | (exec_want_write(e) ? POLLOUT : 0))};

        if (exec_want_write(e) && exec_flush(e) < 0)
            p.events = POLLIN;
        if (poll(&p, 1, (int)(left / US_PER_MS) + 1) < 0 && errno != EINTR)
            return false;
        if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        for (int got; (got = bytes_receive(&e->in, e->fd)) != 0;)
            if (got < 0)
                return true;
        if (take_records(e, ignore_event, NULL) < 0) /* learns pids, in case the spawner does not end */
            return false;
    }
    return false;
}

static void end_spawner(struct exec *e)
{
    record_end(&e->out, record_begin(&e->out, RECORD_STOP));
    if (!wait_for_end(e, monotonic_us() + e->config.kill_grace_us + STOP_SLACK_US)) {
        log_error("the spawner (process %d) does not end: killing it and its tasks", (int)e->spawner);
        kill(e->spawner, SIGKILL);
        kill_runs(e);
    }
    close(e->fd);
    e->fd = -1;
    /* The socket closes as the process ends. An event loop that reaps children may have been faster. */
    while (waitpid(e->spawner, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void exec_free(struct exec *e)
{
    struct command *c = e->commands, *next;

    HASH_CLEAR(hh, e->commands);
    for (; c; c = next) {
        next = c->hh.next;
        free(c);
    }
    sent_free(&e->sent);
    takeover_forget(&e->taken);
    timers_free(&e->timers);
    bytes_free(&e->in);
    bytes_free(&e->out);
    if (e->fd >= 0)
        close(e->fd);
    if (e->lock_fd >= 0)
        close(e->lock_fd);
    free((char *)e->config.worker);
    free((char *)e->config.output_dir);
    free((char *)e->config.state_dir);
    free(e);
}

void exec_stop(struct exec *e)
{
    if (!e)
        return;
    if (e->fd >= 0)
        end_spawner(e);
    else
        waitpid(e->spawner, NULL, WNOHANG);
    exec_free(e);
}

void exec_leave(struct exec *e)
{
    /* A record that the socket does not take now is lost: that run was never started, and runs elsewhere. */
    if (exec_want_write(e) && exec_flush(e) < 0)
        log_warn("the spawner (process %d) is gone: it leaves nothing to the next agent", (int)e->spawner);
    exec_free(e);
}
