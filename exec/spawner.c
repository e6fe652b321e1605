/* The spawner: one thread that waits for the agent's records, the ends of its children and its timers.
 *
 * It blocks every signal: the agent handles the terminal's, a signalfd reports ends of children, and a task
 * that starts has only the mask to reset. When the agent's end of the socket closes, tasks run on for the
 * grace; then the spawner kills everything. During the grace another agent may take over. The spawner tells
 * it of every run that no agent has forgotten. */
#include "exec/spawner.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/launch.h"
#include "exec/pauses.h"
#include "exec/record.h"
#include "exec/residents.h"
#include "exec/runs.h"
#include "exec/spawner_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_PER_TURN 8 /* a limit, so that ends are reported while a long array starts */
#define END_ALL_US (2 * US_PER_S)
#define SPECS_MAX (2 * LIMIT_SLOTS + 64) /* descriptions that an agent may have here: more than it has runs */
#define HELLO_US (30 * US_PER_S)         /* so long a user's runner waits for its first agent's hello */

/* ---- Requests of the agent ---- */

static void take_spec(struct spawner *s, struct record *rec)
{
    struct spec *spec = NULL, *old;

    if (HASH_COUNT(s->specs) < SPECS_MAX)
        spec = spec_new(rec, s->reader);
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

/* The descriptors that came with a run. HAWK_EMALFORMED: they did not. */
static int take_files(struct spawner *s, uint32_t files, struct task *task)
{
    int err = 0;

    for (int i = 0; i < RUN_FILES; i++) {
        bool comes = files >> i & 1;

        task->files[i] = comes ? bytes_take_fd(&s->in) : -1;
        if (comes && task->files[i] < 0)
            err = HAWK_EMALFORMED;
    }
    return err;
}

static void close_files(const struct task *task)
{
    for (int i = 0; i < RUN_FILES; i++)
        if (task->files[i] >= 0)
            close(task->files[i]);
}

/* A limited task dies with its spawner: the watcher sees to that, or a user's keeper. Version 2 has one cgroup for all
 * purposes, and so the freezer must not move the task out of it. */
static void limit_run(struct spawner *s, struct run *r, const struct launched *launched)
{
    r->limited = launched->limited;
    if ((!r->limited.has[LIMIT_MEMORY] && !r->limited.has[LIMIT_PIDS]) || s->limits.given)
        return;
    if (watcher_start(&s->watcher))
        log_warn("spawner: no process can be made that would end limited tasks if the spawner died");
    if (s->limits.version2[r->limited.has[LIMIT_MEMORY] ? LIMIT_MEMORY : LIMIT_PIDS] &&
        s->freezer.method == EXEC_FREEZER_CGROUP2) {
        r->frozen.grouped = true;
        r->frozen.base = s->limits.base[r->limited.has[LIMIT_MEMORY] ? LIMIT_MEMORY : LIMIT_PIDS];
    }
}

/* code: enum launch_code. */
static void not_started(struct spawner *s, struct run *r, int code, const char *why)
{
    r->outcome = code == LAUNCH_NOT_HERE ? OUTCOME_LOST : OUTCOME_NOT_STARTED;
    r->code = code;
    r->why = xstrdup(why);
    run_report_end(s, r);
}

/* Starts a run. The spawner owns r from here on. */
static void start_run(struct spawner *s, struct run *r, struct spec *spec, const struct task *task)
{
    struct launched launched;

    r->started_us = monotonic_us();
    r->boot_us = clock_us(CLOCK_BOOTTIME);
    launch_task(&s->launcher, spec, task, &launched);
    if (s->listen_fd >= 0) {
        r->paths[0] = *launched.out_path ? xstrdup(launched.out_path) : NULL;
        r->paths[1] = *launched.err_path ? xstrdup(launched.err_path) : NULL;
    }
    if (!launched.pid) {
        r->place = *launched.place ? xstrdup(launched.place) : NULL;
        not_started(s, r, launched.code, launched.why);
        return;
    }
    r->pid = launched.pid;
    r->frozen = (struct frozen_task){launched.number, launched.pid, launched.grouped, NULL};
    limit_run(s, r, &launched);
    HASH_ADD(by_run, s->by_run, run, sizeof r->run, r);
    HASH_ADD(by_pid, s->by_pid, pid, sizeof r->pid, r);
    if (spec->d->time_limit_us > 0)
        run_set_timer(s, r, r->started_us + spec->d->time_limit_us);
    report_start(s, r);
}

static void get_try(struct record *rec, struct try_id *id)
{
    id->job.v = get_u64(rec);
    id->task = get_u32(rec);
    id->epoch = (uint16_t)get_u32(rec);
    id->attempt = (uint16_t)get_u32(rec);
}

static void take_run(struct spawner *s, struct record *rec)
{
    struct run *r = xcalloc(1, sizeof *r), *old;
    uint32_t spec_id, worker_len, files;
    char why[LAUNCH_WHY_MAX];
    struct task task;
    struct spec *spec;
    int err;

    list_init(&r->freezing);
    list_init(&r->resident);
    r->run = get_u32(rec);
    spec_id = get_u32(rec);
    get_try(rec, &r->id);
    r->owner = get_u32(rec);
    r->flags = get_u32(rec);
    task.id = r->id;
    task.arg = get_data(rec, &task.arg_len);
    task.grouped = (r->flags & RUN_LONG) != 0;
    const char *worker = get_data(rec, &worker_len);
    snprintf(task.worker, sizeof task.worker, "%.*s", worker ? (int)worker_len : (int)LIMIT_NAME_BYTES,
             worker ? worker : s->config.worker);
    files = rec->p < rec->end ? get_u32(rec) : 0;
    struct blob *proof = rec->p < rec->end ? get_blob(rec) : NULL;
    if (take_files(s, files, &task))
        rec->bad = true;
    HASH_FIND(hh, s->specs, &spec_id, sizeof spec_id, spec);
    HASH_FIND(by_run, s->by_run, &r->run, sizeof r->run, old);
    if (!spec || old)
        rec->bad = true;
    else
        r->user = blob_ref(spec->d->user);
    if (rec->bad || s->fd < 0) { /* no new tasks for an agent that is gone: nobody would know of them */
        close_files(&task);
        run_free(r);
    } else if (s->stopping) {
        close_files(&task);
        r->outcome = OUTCOME_CANCELLED;
        run_report_end(s, r);
    } else if ((err = spec_check_signed(spec, &task, files, proof, why))) {
        close_files(&task);
        not_started(s, r, err == HAWK_ECANNOT_START ? LAUNCH_NOT_HERE : LAUNCH_CANNOT, why);
    } else {
        start_run(s, r, spec, &task);
    }
    blob_drop(proof);
}

static void stop_spawner(struct spawner *s)
{
    s->stopping = true;
    if (s->listen_fd >= 0) {
        /* First: after the close another spawner may use the name. A user's runner cannot: its agent removes it. */
        if (s->config.state_dir)
            spawner_socket_unlist(s->config.state_dir);
        close(s->listen_fd);
        s->listen_fd = -1;
    }
    for (struct run *r = s->by_run; r; r = r->by_run.next)
        run_kill(s, r, OUTCOME_CANCELLED, false);
    residents_end_all(s);
}

static void take_kill(struct spawner *s, struct record *rec)
{
    uint32_t run = get_u32(rec), outcome = get_u32(rec), force = get_u32(rec);
    struct run *r;

    HASH_FIND(by_run, s->by_run, &run, sizeof run, r);
    if (outcome == OUTCOME_NONE || outcome >= OUTCOME_COUNT)
        rec->bad = true;
    else if (r)
        run_kill(s, r, (enum outcome)outcome, force != 0);
}

static void take_lease(struct spawner *s, struct record *rec)
{
    struct itimerspec at = {0};

    s->lease_us = (int64_t)get_u64(rec);
    if (s->lease_us <= 0) {
        rec->bad = true;
        return;
    }
    at.it_value.tv_sec = (time_t)(s->lease_us / US_PER_S);
    at.it_value.tv_nsec = (long)(s->lease_us % US_PER_S) * 1000;
    if (timerfd_settime(s->lease_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        log_warn("spawner: the lease of long tasks cannot be watched: %s", strerror(errno));
}

static void take_check(struct spawner *s, struct record *rec)
{
    char place[EXEC_PATH_MAX], why[LAUNCH_WHY_MAX];
    uint32_t n;
    const char *data = get_data(rec, &n);

    if (rec->bad || s->fd < 0)
        return;
    snprintf(place, sizeof place, "%.*s", (int)n, data ? data : "");
    launcher_check(&s->launcher, place, why);
    size_t begun = record_begin(&s->out, RECORD_CHECKED);
    put_data(&s->out, *why ? why : NULL, strlen(why));
    record_end(&s->out, begun);
}

static void take_record(struct spawner *s, struct record *rec)
{
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
        stop_spawner(s);
        break;
    case RECORD_KILL:
        take_kill(s, rec);
        break;
    case RECORD_FORGET:
        runs_forget(s, get_u32(rec));
        break;
    case RECORD_LEASE:
        take_lease(s, rec);
        break;
    case RECORD_CHECK:
        take_check(s, rec);
        break;
    case RECORD_PAUSE:
        pauses_take(s, rec);
        break;
    case RECORD_RESUME:
        pauses_take_resume(s, rec);
        break;
    case RECORD_RESIDE:
        residents_take(s, rec);
        break;
    case RECORD_EVICT:
        residents_take_evict(s, rec);
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
    if (s->greeted)
        s->orphan_us = monotonic_us() + s->config.orphan_grace_us;
    s->greeted = false;
    pauses_end_all(s); /* nobody could resume them */
    limits_thaw(0);    /* nor what the agent has frozen of users' runners */
    residents_end_all(s);
}

/* ---- The next agent ---- */

static void put_held(struct bytes *b, const struct run *r)
{
    size_t begun = record_begin(b, RECORD_HELD);

    put_u32(b, r->run);
    put_u32(b, (uint32_t)r->pid);
    put_u64(b, r->id.job.v);
    put_u32(b, r->id.task);
    put_u32(b, r->id.epoch);
    put_u32(b, r->id.attempt);
    put_u32(b, r->owner);
    put_u32(b, r->flags);
    put_u32(b, (uint32_t)r->outcome);
    put_u32(b, (uint32_t)r->code);
    put_u64(b, (uint64_t)(r->outcome == OUTCOME_NONE ? run_time(r) : r->run_us));
    put_data(b, r->why, r->why ? strlen(r->why) : 0);
    for (int i = 0; i < 2; i++)
        put_data(b, r->paths[i], r->paths[i] ? strlen(r->paths[i]) : 0);
    put_u64(b, (uint64_t)r->cpu_us);
    put_u64(b, (uint64_t)r->mem_peak_bytes);
    put_blob(b, r->user);
    record_end(b, begun);
}

/* Descriptions have numbers of the agent that sent them. Started runs do not need them. */
static void forget_specs(struct spawner *s)
{
    struct spec *spec, *next;

    HASH_ITER(hh, s->specs, spec, next) {
        HASH_DEL(s->specs, spec); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        spec_free(spec);
    }
}

/* The agent has raised its own limit, and its children inherit that, unless hawk-run-as has set the user's. */
static void set_soft_files(uint64_t soft)
{
    struct rlimit files;

    if (soft == 0 || getenv("HAWK_RUNNER_FILES") || getrlimit(RLIMIT_NOFILE, &files) < 0 ||
        soft > files.rlim_max)
        return;
    files.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* What a user's runner does not know from its agent by being forked. */
static void take_setup(struct spawner *s, struct record *rec)
{
    uint32_t n, freezer;
    const char *worker = get_data(rec, &n);

    free(s->worker);
    s->worker = xmemdup0(worker ? worker : "", n);
    s->config.worker = s->worker;
    s->config.incarnation = get_u64(rec);
    freezer = get_u32(rec);
    s->freezer.method = freezer == EXEC_FREEZER_SIGNAL ? EXEC_FREEZER_SIGNAL : EXEC_FREEZER_OFF;
    set_soft_files(get_u64(rec));
}

/* An agent takes over: from now on its settings count. */
static void take_hello(struct spawner *s, struct record *rec)
{
    int64_t kill_grace_us = (int64_t)get_u64(rec), orphan_grace_us = (int64_t)get_u64(rec);
    uint32_t n;
    const char *output_dir = get_data(rec, &n);
    bool group_reads = rec->p < rec->end && get_u32(rec);
    uint64_t output_free_min = rec->p < rec->end ? get_u64(rec) : 0;
    uint64_t pause_free_mem = rec->p < rec->end ? get_u64(rec) : 0;
    uint32_t executors_n = 0;
    const char *executors = rec->p < rec->end ? get_data(rec, &executors_n) : NULL;

    if (!s->config.state_dir && rec->p < rec->end)
        take_setup(s, rec);
    if (rec->type != RECORD_HELLO || rec->bad || !output_dir || s->stopping) {
        rec->bad = true;
        return;
    }
    if (!s->greeted && s->config.worker && *s->config.worker)
        strays_end_orphans(s->config.worker);
    s->greeted = true;
    s->orphan_us = TIME_NEVER;
    s->config.kill_grace_us = kill_grace_us;
    s->config.orphan_grace_us = orphan_grace_us;
    s->config.pause_free_mem = pause_free_mem;
    free(s->output_dir);
    s->output_dir = xmemdup0(output_dir, n);
    s->config.output_dir = s->launcher.config.output_dir = s->output_dir;
    free(s->executors);
    s->executors = executors ? xmemdup0(executors, executors_n) : NULL;
    s->launcher.config.executors = s->executors;
    s->launcher.config.group_reads = group_reads;
    s->launcher.config.output_free_min = output_free_min;
    forget_specs(s);
    for (const struct run *r = s->ended; r; r = r->by_run.next)
        put_held(&s->out, r);
    for (const struct run *r = s->by_run; r; r = r->by_run.next)
        put_held(&s->out, r);
    size_t begun = record_begin(&s->out, RECORD_WELCOME);
    put_u32(&s->out, (uint32_t)getpid());
    put_u64(&s->out, s->config.incarnation);
    put_u64(&s->out, (uint64_t)s->lease_us);
    put_u32(&s->out, SPAWNER_KNOWS);
    put_u32(&s->out, s->freezer.method);
    record_end(&s->out, begun);
}

/* Accepts an agent only when the last one is gone: the connecting process holds the lock, which a living
 * agent would still have. */
static void accept_agent(struct spawner *s)
{
    s->fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    bytes_free(&s->in);
}

/* Handles up to RECORDS_PER_TURN records. False: none is left in the buffer. */
static bool take_records(struct spawner *s)
{
    for (int n = 0; n < RECORDS_PER_TURN; n++) {
        struct record rec;
        int got = record_next(&s->in, &rec);
        bool stranger = s->fd >= 0 && !s->greeted;

        if (got == 0)
            return false;
        if (got > 0 && stranger)
            take_hello(s, &rec);
        else if (got > 0)
            take_record(s, &rec);
        if (got > 0 && !rec.bad)
            continue;
        bytes_free(&s->in);
        if (stranger) {
            log_error("spawner: an agent of another version wants to take over: refused");
            lose_agent(s);
            return false;
        }
        log_error("spawner: the agent sent a record of another version or damaged: ending every task");
        if (s->fd >= 0)
            lose_agent(s);
        stop_spawner(s);
        return false;
    }
    return true;
}

/* ---- The loop ---- */

static void run_timers(struct spawner *s)
{
    int64_t now = monotonic_us();
    struct heap_node *n;

    while ((n = heap_min(&s->timers)) && n->key <= now) {
        struct run *r = (struct run *)((char *)n - offsetof(struct run, timer));

        heap_remove(&s->timers, n);
        if (r->leader_gone) {
            run_complete(s, r);
            continue;
        }
        run_kill(s, r, OUTCOME_TIME_LIMIT, r->reason != OUTCOME_NONE);
    }
    if (s->sweep_us <= now)
        runs_sweep(s);
    if (s->orphan_us <= now) {
        s->orphan_us = TIME_NEVER;
        if (s->by_run)
            log_warn("the process that ran tasks here was killed, and none took them over: ending those that "
                     "run (%u)",
                     HASH_CNT(by_run, s->by_run));
        stop_spawner(s);
    }
}

/* Ends leased runs. From the lease's end on central may place them again, and perhaps no agent is there to
 * end them (DESIGN 3.9). */
static void end_lease(struct spawner *s)
{
    uint64_t times;

    if (read(s->lease_fd, &times, sizeof times) < 0)
        return;
    for (struct run *r = s->by_run; r; r = r->by_run.next)
        if (r->flags & RUN_LEASED)
            run_kill(s, r, OUTCOME_LOST, true);
}

static int64_t next_timeout(const struct spawner *s, int64_t freezing_us)
{
    const struct heap_node *n = heap_min(&s->timers);
    int64_t at = n ? n->key : TIME_NEVER;

    if (s->sweep_us < at)
        at = s->sweep_us;
    if (freezing_us < at)
        at = freezing_us;
    return s->orphan_us < at ? s->orphan_us : at;
}

static void wait_for_something(struct spawner *s, bool more, int64_t freezing_us)
{
    struct pollfd fds[4] = {
        {.fd = s->fd, .events = (short)((more ? 0 : POLLIN) | (bytes_pending(&s->out) ? POLLOUT : 0))},
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = s->lease_fd, .events = POLLIN},
        {.fd = s->fd < 0 && !more ? s->listen_fd : -1, .events = POLLIN},
    };
    int64_t at = next_timeout(s, freezing_us);
    int64_t left = more ? 0 : at == TIME_NEVER ? TIME_NEVER : at - monotonic_us();
    struct timespec t;
    struct signalfd_siginfo info[16];

    if (left < 0)
        left = 0;
    t.tv_sec = (time_t)(left / US_PER_S);
    t.tv_nsec = (long)(left % US_PER_S) * 1000;
    if (ppoll(fds, 4, left == TIME_NEVER ? NULL : &t, NULL) <= 0)
        return;
    if (fds[1].revents)
        while (read(s->signal_fd, info, sizeof info) > 0)
            ;
    if (s->fd >= 0 && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) && !more &&
        bytes_receive(&s->in, s->fd) < 0)
        lose_agent(s);
    if (fds[2].revents)
        end_lease(s);
    if (fds[3].revents)
        accept_agent(s);
}

/* No agent can ask for anything any more, and nothing runs. */
static bool finished(const struct spawner *s)
{
    return !s->by_run && list_empty(&s->residents) && (s->stopping || (s->fd < 0 && s->listen_fd < 0));
}

static void loop(struct spawner *s)
{
    bool more = false;

    for (;;) {
        runs_reap(s);
        run_timers(s);
        int64_t freezing_us = pauses_look(s);
        if (s->fd >= 0 && bytes_send(&s->out, s->fd) < 0)
            lose_agent(s);
        if (!more && finished(s))
            return;
        wait_for_something(s, more, freezing_us);
        more = take_records(s);
    }
}

/* ---- Setting up ---- */

static void set_up_descriptors(int fd, int listen_fd)
{
    int null = open("/dev/null", O_RDWR);
    int first = listen_fd >= 0 && listen_fd < fd ? listen_fd : fd;
    int last = listen_fd > fd ? listen_fd : fd;

    if (null < 0)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        dup2(null, STDERR_FILENO);
    if (first > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)first - 1, 0);
    if (last > first + 1)
        close_range((unsigned)first + 1, (unsigned)last - 1, 0);
    close_range((unsigned)last + 1, ~0u, 0);
}

static void set_up_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* Tasks must not ignore the signals that the agent or its parent ignored. */
    for (int sig = 1; sig < _NSIG; sig++)
        signal(sig, SIG_DFL);
}

static void set_up_process(int fd, int listen_fd)
{
    umask(0); /* files get exactly the mode given to open(); tasks have their job's umask */
    /* No terminal: Ctrl-C and hang-ups reach only the agent, and no task can stop by reading from it. */
    setsid();
    prctl(PR_SET_NAME, "hawk-spawner", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    set_up_signals();
    set_up_descriptors(fd, listen_fd);
}

static noreturn void run_spawner(struct spawner *s)
{
    sigset_t child;

    set_up_process(s->fd, s->listen_fd);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    s->signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    s->lease_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    heap_init(&s->timers);
    list_init(&s->freezing);
    list_init(&s->residents);
    s->freezer.owner = getpid();
    s->freezer.is_leader = runs_lead;
    s->freezer.arg = s;
    if (s->signal_fd < 0 || s->lease_fd < 0 || launcher_init(&s->launcher, &s->config) < 0) {
        log_error("spawner: cannot start: %s", strerror(errno));
        _exit(1);
    }
    s->launcher.freezer = &s->freezer;
    s->launcher.limits = &s->limits;
    pauses_begin(s);
    loop(s);
    strays_free(&s->strays);
    watcher_free(&s->watcher);
    strays_end_all(monotonic_us() + END_ALL_US);
    if (s->freezer.ended_n > 0)
        freezer_leftovers(getpid());
    if (s->limits.left_n > 0)
        limits_leftovers(getpid());
    freezer_free(&s->freezer);
    limits_free(&s->limits);
    _exit(0);
}

void spawner_main(int fd, int listen_fd, const struct exec_config *c, const struct freezer *f)
{
    struct spawner s = {.fd = fd,
                        .listen_fd = listen_fd,
                        .config = *c,
                        .freezer = *f,
                        .sweep_us = TIME_NEVER,
                        .orphan_us = TIME_NEVER,
                        .lease_us = TIME_NEVER,
                        .greeted = true};

    run_spawner(&s);
}

void spawner_of_user(const struct signed_reader *reader)
{
    struct spawner s = {.fd = RUNNER_SOCKET_FD,
                        .listen_fd = RUNNER_LISTEN_FD,
                        .in.takes_fds = true,
                        .reader = reader,
                        .sweep_us = TIME_NEVER,
                        .orphan_us = monotonic_us() + HELLO_US,
                        .lease_us = TIME_NEVER};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || fcntl(s.fd, F_GETFD) < 0 || fcntl(s.listen_fd, F_GETFD) < 0) {
        fprintf(stderr, "a worker's agent starts this: it is no command for people\n");
        _exit(1);
    }
    exec_config_init(&s.config, "", "/");
    fcntl(s.fd, F_SETFD, FD_CLOEXEC);
    fcntl(s.listen_fd, F_SETFD, FD_CLOEXEC);
    dup2(null, STDERR_FILENO); /* until here the agent reads it */
    run_spawner(&s);
}
