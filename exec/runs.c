/* Runs of the spawner: timers, kills, ends, and the checks after an end. */
#include "exec/runs.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/output.h"
#include "exec/pauses.h"
#include "exec/residents.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DISK_LOOK_US US_PER_S /* shortest time between two looks at the output directory's disk */
/* A run whose group still exists after this time is reported as ended: a process hangs in the kernel. */
#define GROUP_DIES_US (2 * US_PER_S)

/* ---- Runs and their ends ---- */

void run_set_timer(struct spawner *s, struct run *r, int64_t at_us)
{
    heap_set(&s->timers, &r->timer, at_us, ++s->timer_seq);
}

void run_kill(struct spawner *s, struct run *r, enum outcome reason, bool force)
{
    bool told = r->reason != OUTCOME_NONE;

    if (r->leader_gone)
        return;
    if (!told)
        r->reason = reason;
    if (force) {
        kill(-r->pid, SIGKILL);
        /* After the signal: a task that version 1 has frozen does not die before it is thawed. */
        pause_end(s, r);
        if (heap_in(&r->timer))
            heap_remove(&s->timers, &r->timer);
    } else if (!told) {
        kill(-r->pid, SIGTERM);
        kill(-r->pid, SIGCONT); /* a stopped process would not see the signal */
        pause_end(s, r);
        run_set_timer(s, r, monotonic_us() + s->config.kill_grace_us);
    }
}

int64_t run_time(const struct run *r)
{
    int64_t now = monotonic_us(), stands_us = r->pause == PAUSE_FROZEN ? now - r->pause_us : 0;

    return now - r->started_us - r->stood_us - stands_us;
}

void run_free(struct run *r)
{
    free(r->paths[0]);
    free(r->paths[1]);
    blob_drop(r->user);
    free(r->why);
    free(r->place);
    free(r);
}

static void report_exit(struct spawner *s, const struct run *r)
{
    if (s->fd < 0 || !s->greeted)
        return;
    size_t begun = record_begin(&s->out, RECORD_EXITED);
    put_u32(&s->out, r->run);
    put_u32(&s->out, (uint32_t)r->outcome);
    put_u32(&s->out, (uint32_t)r->code);
    put_u64(&s->out, (uint64_t)r->run_us);
    put_data(&s->out, r->why, r->why ? strlen(r->why) : 0);
    put_data(&s->out, r->place, r->place ? strlen(r->place) : 0);
    put_u64(&s->out, (uint64_t)r->cpu_us);
    put_u64(&s->out, (uint64_t)r->mem_peak_bytes);
    record_end(&s->out, begun);
}

void runs_forget(struct spawner *s, uint32_t run)
{
    struct run *r;

    HASH_FIND(by_run, s->ended, &run, sizeof run, r);
    if (!r)
        return;
    HASH_DELETE(by_run, s->ended, r);
    run_free(r);
}

void run_report_end(struct spawner *s, struct run *r)
{
    report_exit(s, r);
    if (s->listen_fd < 0) {
        run_free(r);
        return;
    }
    runs_forget(s, r->run); /* an earlier run with this number: numbers are reused */
    HASH_ADD(by_run, s->ended, run, sizeof r->run, r);
}

/* Logs a full disk. A failing write is the task's to report, but not every task does. */
static void look_for_full_disk(struct spawner *s)
{
    const char *dir = s->config.output_dir;
    int64_t now = monotonic_us();

    if (!s->config.state_dir || now < s->disk_look_us)
        return; /* the spawners of `hawk run` and `hawk up` have none; `hawk run` looks at the disk itself */
    s->disk_look_us = now + DISK_LOOK_US;
    bool full = exec_disk_full(dir);
    if (full != s->disk_full)
        log_warn(full ? "spawner: the disk of %s is full: what tasks write there may be cut short"
                      : "spawner: there is room on the disk of %s again",
                 dir);
    s->disk_full = full;
}

void runs_sweep_soon(struct spawner *s)
{
    int64_t at = monotonic_us() + STRAY_SWEEP_US;

    if (at < s->sweep_us)
        s->sweep_us = at;
}

void run_complete(struct spawner *s, struct run *r)
{
    enum outcome outcome = WIFSIGNALED(r->status) ? OUTCOME_SIGNALED : OUTCOME_EXITED;

    if (limits_exceeded(&s->limits, &r->limited))
        outcome = OUTCOME_OUT_OF_MEMORY;
    r->outcome = r->reason != OUTCOME_NONE ? r->reason : outcome;
    r->code = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : WEXITSTATUS(r->status);
    if (r->outcome == OUTCOME_OUT_OF_MEMORY)
        r->code = SIGKILL; /* also where it was one of the task's children that the kernel killed */
    s->leaders_gone--;
    if (heap_in(&r->timer))
        heap_remove(&s->timers, &r->timer);
    HASH_DELETE(by_run, s->by_run, r);
    limits_usage(&s->limits, &r->limited, &r->cpu_us, &r->mem_peak_bytes);
    freezer_end(&s->freezer, &r->frozen, monotonic_us() + s->config.kill_grace_us);
    limits_end(&s->limits, &r->limited);
    output_ended(&s->config, &r->id);
    run_report_end(s, r);
    look_for_full_disk(s);
    runs_sweep_soon(s);
}

/* Kills what is left of a limited run, too. The group's number may belong to another group by now; signal 0 does no
 * harm then. */
static bool group_is_gone(const struct spawner *s, const struct run *r)
{
    limits_kill(&s->limits, &r->limited);
    return kill(-r->pid, 0) < 0 && limits_gone(&s->limits, &r->limited);
}

static void leader_ended(struct spawner *s, struct run *r, int status)
{
    r->status = status;
    r->run_us = run_time(r);
    r->leader_gone = true;
    pause_end(s, r);
    s->leaders_gone++;
    HASH_DELETE(by_pid, s->by_pid, r);
    if (group_is_gone(s, r))
        run_complete(s, r);
    else
        run_set_timer(s, r, monotonic_us() + GROUP_DIES_US);
}

/* The run of that process group; NULL: it is none of these. */
static struct run *run_of_group(const struct spawner *s, pid_t group)
{
    struct run *r;

    HASH_FIND(by_pid, s->by_pid, &group, sizeof group, r);
    for (struct run *gone = s->leaders_gone > 0 ? s->by_run : NULL; gone && !r; gone = gone->by_run.next)
        if (gone->leader_gone && gone->pid == group)
            r = gone;
    return r;
}

/* A process of r is reaped: u is of it and of all that it waited for. */
static void add_usage(struct run *r, const struct rusage *u)
{
    int64_t peak_bytes = (int64_t)u->ru_maxrss * 1024;

    r->cpu_us += ((int64_t)u->ru_utime.tv_sec + u->ru_stime.tv_sec) * US_PER_S + u->ru_utime.tv_usec +
                 u->ru_stime.tv_usec;
    if (peak_bytes > r->mem_peak_bytes)
        r->mem_peak_bytes = peak_bytes;
}

/* Reaps one ended child. False: there is none. The leader is still a zombie when the rest of its group is
 * killed, so no other group can have its number. */
static bool reap_one(struct spawner *s)
{
    siginfo_t info = {0};
    struct run *r, *of;
    struct rusage used;
    int status = 0;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
        return false;
    HASH_FIND(by_pid, s->by_pid, &info.si_pid, sizeof info.si_pid, r);
    if (r)
        kill(-r->pid, SIGKILL);
    of = r ? r : run_of_group(s, getpgid(info.si_pid)); /* one that lost its parent is the spawner's child */
    bool reaped = wait4(info.si_pid, &status, 0, &used) == info.si_pid;
    if (reaped && of)
        add_usage(of, &used);
    if (reaped && r && !list_empty(&r->resident))
        resident_ended(s, r);
    else if (reaped && r)
        leader_ended(s, r, status);
    else if (info.si_pid == s->watcher.pid)
        pauses_unwatched(s);
    else
        runs_sweep_soon(s);
    return true;
}

void runs_reap(struct spawner *s)
{
    struct run *r, *next;

    while (reap_one(s))
        ;
    if (s->leaders_gone == 0)
        return;
    HASH_ITER(by_run, s->by_run, r, next) {
        if (r->leader_gone && group_is_gone(s, r))
            run_complete(s, r);
    }
}

bool runs_lead(void *arg, pid_t pid)
{
    struct spawner *s = arg;
    struct run *r;

    HASH_FIND(by_pid, s->by_pid, &pid, sizeof pid, r);
    return r != NULL || pid == s->watcher.pid;
}

static bool is_running(void *arg, uint64_t number)
{
    struct spawner *s = arg;

    for (struct run *r = s->by_run; r; r = r->by_run.next)
        if (r->frozen.number == number)
            return true;
    return resident_has(s, number);
}

static bool ran_at(void *arg, int64_t boot_us)
{
    struct spawner *s = arg;

    for (struct run *r = s->by_run; r; r = r->by_run.next)
        if (r->boot_us <= boot_us)
            return true;
    return false;
}

void runs_sweep(struct spawner *s)
{
    const struct stray_runs runs = {s, runs_lead, is_running, ran_at};

    s->strays.kill_grace_us = s->config.kill_grace_us;
    s->sweep_us = strays_sweep(&s->strays, &runs, monotonic_us());
    int64_t groups_us = freezer_sweep(&s->freezer, monotonic_us());
    if (groups_us < s->sweep_us)
        s->sweep_us = groups_us;
    if (limits_sweep(&s->limits) && monotonic_us() + STRAY_SWEEP_US < s->sweep_us)
        s->sweep_us = monotonic_us() + STRAY_SWEEP_US;
}
