/* Finding and killing what left its process group. */
#include "exec/strays.h"

#include "base/mem.h"
#include "base/units.h"
#include "exec/launch.h"
#include "exec/procs.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#define ENVIRONMENT_MAX (256u << 10)
#define POLL_MS 5
#define WATCH_US US_PER_S /* how often the descendants of one that may live on are noted */

/* Our children's pids as text, with spaces between; NULL: the kernel does not tell. */
static char *list_children(void)
{
    char path[64];
    size_t len;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return read_file(path, SIZE_MAX, &len);
}

uint64_t run_number_of(pid_t pid, bool *ours)
{
    const size_t name_len = strlen(RUN_VARIABLE "=");
    uint64_t number = 0;
    char path[64];
    size_t len;
    char *env;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    env = read_file(path, ENVIRONMENT_MAX, &len);
    if (!env)
        return 0;
    for (const char *p = env; p < env + len; p += strlen(p) + 1) {
        char *end;

        if (strncmp(p, RUN_VARIABLE "=", name_len) != 0)
            continue;
        *ours = strtol(p + name_len, &end, 10) == getpid();
        number = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
        break;
    }
    free(env);
    return number;
}

/* ---- Those that do not say whose they are ---- */

struct stray {
    UT_hash_handle hh;
    pid_t pid;
    int64_t start_us; /* with pid: which process it is, since pids come round again */
    int64_t since_us; /* its run had started by then: the start of the first of its line that we know */
    int64_t kill_at;  /* told to end: when it is killed; TIME_NEVER: not told */
    bool here;        /* seen in this sweep */
};

static struct stray *note(struct strays *s, const struct process *p, int64_t since_us)
{
    struct stray *x;

    HASH_FIND(hh, s->by_pid, &p->pid, sizeof p->pid, x);
    if (x && x->start_us != p->start_us) {
        HASH_DEL(s->by_pid, x);
        free(x);
        x = NULL;
    }
    if (!x) {
        x = xcalloc(1, sizeof *x);
        x->pid = p->pid;
        x->start_us = p->start_us;
        x->since_us = since_us;
        x->kill_at = TIME_NEVER;
        HASH_ADD(hh, s->by_pid, pid, sizeof x->pid, x);
    }
    x->here = true;
    return x;
}

static void send_signal(int pidfd, int sig) { syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0); }

/* One that is not our child may die, and its number be somebody else's, at any time: but not behind a pidfd, and what has
 * that parent while we hold one is the one we mean. */
static void signal_descendant(pid_t pid, const struct process *seen, bool force)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct process p;

    if (fd < 0)
        return;
    if (look_at(pid, &p) && p.start_us == seen->start_us && p.parent == seen->parent) {
        send_signal(fd, force ? SIGKILL : SIGTERM);
        if (!force)
            send_signal(fd, SIGCONT); /* a stopped one would not notice */
    }
    close(fd);
}

/* Takes every descendant of x, our child, for one of its line: one that loses its parent before the next sweep is known
 * then. tell: what they are told as well: nothing, to end, or to die. */
enum tell { TELL_NOTHING, TELL_TERM, TELL_KILL };

static void walk(struct strays *s, const struct stray *x, enum tell tell)
{
    struct pids l = {0};

    if (tell != TELL_NOTHING)
        kill(x->pid, SIGSTOP); /* its children would be strays of their own as soon as it ended */
    add_children(&l, x->pid);
    for (uint32_t i = 0; i < l.n; i++) {
        struct process p;

        if (!look_at(l.v[i], &p) || p.dead)
            continue;
        note(s, &p, x->since_us)->kill_at = x->kill_at;
        add_children(&l, p.pid);
        if (tell != TELL_NOTHING)
            signal_descendant(p.pid, &p, tell == TELL_KILL);
    }
    if (tell != TELL_NOTHING) /* our child: its number is its own till it is reaped */
        kill(x->pid, tell == TELL_KILL ? SIGKILL : SIGTERM);
    if (tell == TELL_TERM)
        kill(x->pid, SIGCONT);
    pids_free(&l);
}

/* A child that does not say whose it is. Returns when to look at it again. */
static int64_t judge(struct strays *s, const struct stray_runs *runs, const struct process *p, int64_t now_us)
{
    struct stray *x = note(s, p, p->start_us);
    bool told = x->kill_at != TIME_NEVER;

    if (!told && runs->ran_at(runs->arg, x->since_us)) {
        walk(s, x, TELL_NOTHING);
        return now_us + WATCH_US;
    }
    if (!told)
        x->kill_at = now_us + s->kill_grace_us;
    walk(s, x, x->kill_at <= now_us ? TELL_KILL : told ? TELL_NOTHING : TELL_TERM);
    return x->kill_at > now_us ? x->kill_at : now_us + STRAY_SWEEP_US;
}

/* One of our children that leads no run's group. */
static int64_t look_at_stray(struct strays *s, const struct stray_runs *runs, pid_t pid, int64_t now_us)
{
    struct process p;
    uint64_t number;
    bool ours = false;

    if (!look_at(pid, &p) || p.dead || runs->is_leader(runs->arg, p.group))
        return TIME_NEVER;
    number = run_number_of(pid, &ours);
    if (!number)
        return judge(s, runs, &p, now_us);
    /* One that is of another spawner's run has lost that spawner, or it would not have come to us. */
    if (!(ours && runs->is_running(runs->arg, number)))
        kill(pid, SIGKILL);
    return TIME_NEVER;
}

/* All of them: only those that a sweep has not seen. */
static void forget(struct strays *s, bool all)
{
    struct stray *x, *next;

    HASH_ITER(hh, s->by_pid, x, next) {
        if (x->here && !all) {
            x->here = false;
            continue;
        }
        HASH_DEL(s->by_pid, x);
        free(x);
    }
}

int64_t strays_sweep(struct strays *s, const struct stray_runs *runs, int64_t now_us)
{
    char *list = list_children(), *end;
    int64_t next_us = TIME_NEVER;

    for (char *p = list; p && *p; p = end) {
        pid_t pid = (pid_t)strtol(p, &end, 10);
        int64_t at;

        if (end == p)
            break;
        if (pid <= 0 || runs->is_leader(runs->arg, pid))
            continue;
        at = look_at_stray(s, runs, pid, now_us);
        if (at < next_us)
            next_us = at;
    }
    free(list);
    forget(s, false);
    return next_us;
}

void strays_free(struct strays *s) { forget(s, true); }

static int64_t monotonic_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void strays_end_all(int64_t deadline_us)
{
    for (;;) {
        char *list = list_children(), *end;
        pid_t pid;

        for (char *p = list; p && *p; p = end) {
            pid = (pid_t)strtol(p, &end, 10);
            if (end == p)
                break;
            if (pid > 0)
                kill(pid, SIGKILL);
        }
        free(list);
        do {
            pid = waitpid(-1, NULL, WNOHANG);
        } while (pid > 0);
        if ((pid < 0 && errno == ECHILD) || monotonic_us() >= deadline_us)
            return;
        poll(NULL, 0, POLL_MS);
    }
}
