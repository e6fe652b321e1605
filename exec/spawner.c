/* The spawner: one thread that waits for the agent's records, its children's ends and its timers.
 *
 * Every signal is blocked: the terminal's are the agent's business, children's ends are read from a
 * signalfd, and tasks start without anything to reset but the mask. When the agent's end of the socket
 * closes, tasks may run on for the grace time, and then everything is killed. */
#include "exec/spawner.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/launch.h"
#include "exec/record.h"
#include "exec/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_PER_TURN 8 /* so that ends are reported while a long array starts */
#define END_ALL_US (2 * US_PER_S)

struct run {
    UT_hash_handle by_run, by_pid;
    struct heap_node timer; /* the time limit, or SIGKILL after SIGTERM */
    uint32_t run;
    pid_t pid; /* its group's leader, not reaped: the number is taken as long as this struct lives */
    uint64_t number;
    int64_t started_us;
    enum outcome reason; /* why it is being killed; OUTCOME_NONE: it is not */
};

struct spawner {
    int fd; /* the agent, or -1 when it is gone */
    int signal_fd;
    struct exec_config config;
    struct launcher launcher;
    struct bytes in, out;
    struct spec *specs;
    struct run *by_run, *by_pid;
    struct heap timers;
    uint64_t timer_seq;
    int64_t sweep_us;  /* when to look for strays; TIME_NEVER: nothing has ended since */
    int64_t orphan_us; /* when to give up on the agent; TIME_NEVER: it is there */
    bool stopping;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* ---- Runs and their ends ---- */

static void set_timer(struct spawner *s, struct run *r, int64_t at_us)
{
    if (heap_in(&r->timer)) {
        heap_update(&s->timers, &r->timer, at_us, ++s->timer_seq);
        return;
    }
    r->timer.key = at_us;
    r->timer.seq = ++s->timer_seq;
    if (heap_push(&s->timers, &r->timer) < 0)
        abort(); /* out of memory, as everywhere (base/mem.h) */
}

static void kill_run(struct spawner *s, struct run *r, enum outcome reason, bool force)
{
    bool told = r->reason != OUTCOME_NONE;

    if (!told)
        r->reason = reason;
    if (force) {
        kill(-r->pid, SIGKILL);
        if (heap_in(&r->timer))
            heap_remove(&s->timers, &r->timer);
    } else if (!told) {
        kill(-r->pid, SIGTERM);
        kill(-r->pid, SIGCONT); /* a stopped one would not notice */
        set_timer(s, r, now_us() + s->config.kill_grace_us);
    }
}

static void report_exit(struct spawner *s, uint32_t run, enum outcome outcome, int code, int64_t run_us,
                        const char *why)
{
    size_t begun;

    if (s->fd < 0)
        return;
    begun = record_begin(&s->out, RECORD_EXITED);
    put_u32(&s->out, run);
    put_u32(&s->out, (uint32_t)outcome);
    put_u32(&s->out, (uint32_t)code);
    put_u64(&s->out, (uint64_t)run_us);
    put_data(&s->out, why, why ? strlen(why) : 0);
    record_end(&s->out, begun);
}

static void end_run(struct spawner *s, struct run *r, int status)
{
    enum outcome outcome = WIFSIGNALED(status) ? OUTCOME_SIGNALED : OUTCOME_EXITED;
    int code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);

    report_exit(s, r->run, r->reason != OUTCOME_NONE ? r->reason : outcome, code, now_us() - r->started_us,
                NULL);
    if (heap_in(&r->timer))
        heap_remove(&s->timers, &r->timer);
    HASH_DELETE(by_run, s->by_run, r);
    HASH_DELETE(by_pid, s->by_pid, r);
    free(r);
}

/* Every child that has ended. The leader is still a zombie when the rest of its group is killed, so that
 * nobody else can have got its number. */
static void reap(struct spawner *s)
{
    for (;;) {
        siginfo_t info = {0};
        struct run *r;
        int status = 0;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        HASH_FIND(by_pid, s->by_pid, &info.si_pid, sizeof info.si_pid, r);
        if (r)
            kill(-r->pid, SIGKILL);
        if (waitpid(info.si_pid, &status, 0) == info.si_pid && r)
            end_run(s, r, status);
        if (s->sweep_us == TIME_NEVER)
            s->sweep_us = now_us() + STRAY_SWEEP_US;
    }
}

static bool is_leader(void *arg, pid_t pid)
{
    struct spawner *s = arg;
    struct run *r;

    HASH_FIND(by_pid, s->by_pid, &pid, sizeof pid, r);
    return r != NULL;
}

static bool is_running(void *arg, uint64_t number)
{
    struct spawner *s = arg;

    for (struct run *r = s->by_run; r; r = r->by_run.next)
        if (r->number == number)
            return true;
    return false;
}

/* ---- What the agent asks for ---- */

static void take_spec(struct spawner *s, struct record *rec)
{
    struct spec *spec = spec_new(rec), *old;

    if (!spec) {
        rec->bad = true;
        return;
    }
    HASH_FIND(hh, s->specs, &spec->id, sizeof spec->id, old);
    if (old) {
        rec->bad = true;
        spec_free(spec);
        return;
    }
    HASH_ADD(hh, s->specs, id, sizeof spec->id, spec);
}

static void take_spec_drop(struct spawner *s, struct record *rec)
{
    uint32_t id = get_u32(rec);
    struct spec *spec;

    HASH_FIND(hh, s->specs, &id, sizeof id, spec);
    if (!spec)
        return;
    HASH_DEL(s->specs, spec);
    spec_free(spec);
}

static void report_start(struct spawner *s, const struct run *r)
{
    size_t begun = record_begin(&s->out, RECORD_STARTED);

    put_u32(&s->out, r->run);
    put_u32(&s->out, (uint32_t)r->pid);
    record_end(&s->out, begun);
}

static void start_run(struct spawner *s, uint32_t run, struct spec *spec, const struct task *task)
{
    struct launched launched;
    int64_t started = now_us();
    struct run *r;

    launch(&s->launcher, spec, task, &launched);
    if (!launched.pid) {
        report_exit(s, run, OUTCOME_NOT_STARTED, launched.code, 0, launched.why);
        return;
    }
    r = xcalloc(1, sizeof *r);
    r->run = run;
    r->pid = launched.pid;
    r->number = launched.number;
    r->started_us = started;
    HASH_ADD(by_run, s->by_run, run, sizeof r->run, r);
    HASH_ADD(by_pid, s->by_pid, pid, sizeof r->pid, r);
    if (spec->d->time_limit_us > 0)
        set_timer(s, r, started + spec->d->time_limit_us);
    report_start(s, r);
}

static void take_run(struct spawner *s, struct record *rec)
{
    uint32_t run = get_u32(rec), spec_id = get_u32(rec);
    uint32_t worker_len;
    const char *worker;
    struct task task;
    struct spec *spec;
    struct run *old;

    task.id.job.v = get_u64(rec);
    task.id.task = get_u32(rec);
    task.id.epoch = (uint16_t)get_u32(rec);
    task.id.attempt = (uint16_t)get_u32(rec);
    task.arg = get_data(rec, &task.arg_len);
    worker = get_data(rec, &worker_len);
    snprintf(task.worker, sizeof task.worker, "%.*s", worker ? (int)worker_len : (int)LIMIT_NAME_BYTES,
             worker ? worker : s->config.worker);
    HASH_FIND(hh, s->specs, &spec_id, sizeof spec_id, spec);
    HASH_FIND(by_run, s->by_run, &run, sizeof run, old);
    if (!spec || old)
        rec->bad = true;
    if (rec->bad)
        return;
    if (s->stopping || s->fd < 0) /* no new work for an agent that is gone */
        report_exit(s, run, OUTCOME_CANCELLED, 0, 0, NULL);
    else
        start_run(s, run, spec, &task);
}

static void stop(struct spawner *s)
{
    s->stopping = true;
    for (struct run *r = s->by_run; r; r = r->by_run.next)
        kill_run(s, r, OUTCOME_CANCELLED, false);
}

static void take(struct spawner *s, struct record *rec)
{
    uint32_t run;
    struct run *r;

    switch (rec->type) {
    case RECORD_SPEC:
        take_spec(s, rec);
        break;
    case RECORD_SPEC_DROP:
        take_spec_drop(s, rec);
        break;
    case RECORD_RUN:
        take_run(s, rec);
        break;
    case RECORD_STOP:
        stop(s);
        break;
    case RECORD_KILL:
        run = get_u32(rec);
        HASH_FIND(by_run, s->by_run, &run, sizeof run, r);
        if (r)
            kill_run(s, r, OUTCOME_CANCELLED, get_u32(rec) != 0);
        break;
    default:
        rec->bad = true;
    }
}

static void lose_agent(struct spawner *s)
{
    close(s->fd);
    s->fd = -1;
    bytes_free(&s->out);
    s->orphan_us = now_us() + s->config.orphan_grace_us;
}

/* Takes up to RECORDS_PER_TURN records; false when none is left in the buffer. */
static bool take_records(struct spawner *s)
{
    for (int n = 0; n < RECORDS_PER_TURN; n++) {
        struct record rec;
        int got = record_next(&s->in, &rec);

        if (got == 0)
            return false;
        if (got > 0)
            take(s, &rec);
        if (got < 0 || rec.bad) {
            log_error("spawner: the agent sent a record of another version or damaged: ending every task");
            lose_agent(s);
            stop(s);
            return false;
        }
    }
    return true;
}

/* ---- The loop ---- */

static void run_timers(struct spawner *s)
{
    int64_t now = now_us();
    struct heap_node *n;

    while ((n = heap_min(&s->timers)) && n->key <= now) {
        struct run *r = (struct run *)((char *)n - offsetof(struct run, timer));

        heap_remove(&s->timers, n);
        kill_run(s, r, OUTCOME_TIME_LIMIT, r->reason != OUTCOME_NONE);
    }
    if (s->sweep_us <= now) {
        s->sweep_us = TIME_NEVER;
        strays_sweep(is_leader, is_running, s);
    }
    if (s->orphan_us <= now) {
        s->orphan_us = TIME_NEVER;
        if (s->by_run)
            log_warn("spawner: the agent did not come back: ending %u tasks", HASH_CNT(by_run, s->by_run));
        stop(s);
    }
}

static int64_t next_timeout(const struct spawner *s)
{
    const struct heap_node *n = heap_min(&s->timers);
    int64_t at = n ? n->key : TIME_NEVER;

    if (s->sweep_us < at)
        at = s->sweep_us;
    return s->orphan_us < at ? s->orphan_us : at;
}

static void wait_for_something(struct spawner *s, bool more)
{
    struct pollfd fds[2] = {
        {.fd = s->fd, .events = (short)((more ? 0 : POLLIN) | (bytes_pending(&s->out) ? POLLOUT : 0))},
        {.fd = s->signal_fd, .events = POLLIN},
    };
    int64_t at = next_timeout(s), left = more ? 0 : at == TIME_NEVER ? TIME_NEVER : at - now_us();
    struct timespec t;
    struct signalfd_siginfo info[16];

    if (left < 0)
        left = 0;
    t.tv_sec = (time_t)(left / US_PER_S);
    t.tv_nsec = (long)(left % US_PER_S) * 1000;
    if (ppoll(fds, 2, left == TIME_NEVER ? NULL : &t, NULL) <= 0)
        return;
    if (fds[1].revents)
        while (read(s->signal_fd, info, sizeof info) > 0)
            ;
    if (s->fd >= 0 && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) && !more &&
        bytes_receive(&s->in, s->fd) < 0)
        lose_agent(s);
}

/* Nothing more will be asked, and nothing runs any more. */
static bool finished(const struct spawner *s) { return !s->by_run && (s->stopping || s->fd < 0); }

static void loop(struct spawner *s)
{
    bool more = false;

    for (;;) {
        reap(s);
        run_timers(s);
        if (s->fd >= 0 && bytes_send(&s->out, s->fd) < 0)
            lose_agent(s);
        if (!more && finished(s))
            return;
        wait_for_something(s, more);
        more = take_records(s);
    }
}

/* ---- Setting up ---- */

static void set_up_descriptors(int fd)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        dup2(null, STDERR_FILENO);
    if (fd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
}

static void set_up_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int sig = 1; sig < _NSIG; sig++) /* what the agent or its parent ignored, tasks must not */
        signal(sig, SIG_DFL);
}

static void set_up_process(int fd)
{
    setsid(); /* no terminal: Ctrl-C and hang-ups are the agent's, and no task can stop to ask one */
    prctl(PR_SET_NAME, "hawk-spawner", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    set_up_signals();
    set_up_descriptors(fd);
}

void spawner_main(int fd, const struct exec_config *c)
{
    struct spawner s = {.fd = fd, .config = *c, .sweep_us = TIME_NEVER, .orphan_us = TIME_NEVER};
    sigset_t child;

    set_up_process(fd);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    s.signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    heap_init(&s.timers);
    if (s.signal_fd < 0 || launcher_init(&s.launcher, c) < 0) {
        log_error("spawner: cannot start: %s", strerror(errno));
        _exit(1);
    }
    loop(&s);
    strays_end_all(now_us() + END_ALL_US);
    _exit(0);
}
