/* Finds and kills processes that left their process group. */
#include "exec/strays.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/launch.h"
#include "exec/procs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>

#define ENVIRONMENT_MAX (256u << 10)
#define POLL_MS 5
#define EXEC_LOOKS 50 /* a millisecond apart: how long execve() may take */
#define ORPHAN_LOOKS 100
#define WATCH_US US_PER_S /* how often to note the descendants of a stray that may live on */

/* Our children's pids as a text with spaces between; NULL: the kernel does not tell. */
static char *list_children(void)
{
    char path[64];
    size_t len;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return procs_read(path, SIZE_MAX, &len);
}

/* The environment of pid; NULL: it cannot be read. Within execve() it reads as empty. */
static char *read_environment(pid_t pid, size_t *len)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    for (int look = 0;; look++) {
        char *env = procs_read(path, ENVIRONMENT_MAX, len);
        struct proc p;

        if (!env || *len || look == EXEC_LOOKS || !procs_look(pid, &p) || p.bare)
            return env;
        free(env);
        poll(NULL, 0, 1);
    }
}

/* name: with "=". NULL: it is not there. */
static const char *value_of(const char *name, const char *env, size_t len)
{
    size_t name_len = strlen(name);

    for (const char *p = env; env && p < env + len; p += strlen(p) + 1)
        if (strncmp(p, name, name_len) == 0)
            return p + name_len;
    return NULL;
}

uint64_t run_number_of(pid_t pid, pid_t spawner, bool *ours)
{
    uint64_t number = 0;
    size_t len;
    char *env = read_environment(pid, &len), *end;
    const char *run = value_of(RUN_VARIABLE "=", env, len);

    if (run) {
        *ours = strtol(run, &end, 10) == spawner;
        number = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
    }
    free(env);
    return number;
}

/* ---- Strays whose environment names no run ---- */

struct stray {
    UT_hash_handle hh;
    pid_t pid;
    int64_t start_us; /* identifies the process together with pid, which is reused */
    /* Its run had started by then: the start of its oldest known ancestor that was a stray. */
    int64_t since_us;
    int64_t kill_at; /* when SIGKILL follows; TIME_NEVER: it has had no SIGTERM yet */
    bool here;       /* seen in this sweep */
};

static struct stray *note(struct strays *s, const struct proc *p, int64_t since_us)
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

/* Signals a descendant that is not our child. It may die, and its number may be reused, at any time. A pidfd
 * prevents that while it is open, and a process with the same start and parent is the one that we saw. */
static void signal_descendant(pid_t pid, const struct proc *seen, bool force)
{
    int fd = pidfd_open(pid, 0);
    struct proc p;

    if (fd < 0)
        return;
    if (procs_look(pid, &p) && p.start_us == seen->start_us && p.parent == seen->parent) {
        pidfd_send_signal(fd, force ? SIGKILL : SIGTERM, NULL, 0);
        if (!force)
            pidfd_send_signal(fd, SIGCONT, NULL, 0); /* a stopped process would not see it */
    }
    close(fd);
}

/* Notes every descendant of x, our child, as one of its line: if it loses its parent before the next sweep,
 * it is known then. tell: the signal for all of them. */
enum tell { TELL_NOTHING, TELL_TERM, TELL_KILL };

static void walk(struct strays *s, const struct stray *x, enum tell tell)
{
    struct pids l = {0};

    if (tell != TELL_NOTHING)
        kill(x->pid, SIGSTOP); /* while it is stopped, its children do not become strays */
    pids_add_children(&l, x->pid);
    for (uint32_t i = 0; i < l.n; i++) {
        struct proc p;

        if (!procs_look(l.v[i], &p) || p.dead)
            continue;
        note(s, &p, x->since_us)->kill_at = x->kill_at;
        pids_add_children(&l, p.pid);
        if (tell != TELL_NOTHING)
            signal_descendant(p.pid, &p, tell == TELL_KILL);
    }
    if (tell != TELL_NOTHING) /* our child: its number is not reused before we reap it */
        kill(x->pid, tell == TELL_KILL ? SIGKILL : SIGTERM);
    if (tell == TELL_TERM)
        kill(x->pid, SIGCONT);
    pids_free(&l);
}

/* Decides about a child whose environment names no run. Returns when to look at it again. */
static int64_t judge(struct strays *s, const struct stray_runs *runs, const struct proc *p, int64_t now_us)
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

/* Looks at a child of ours that leads no run's group. */
static int64_t look_at_stray(struct strays *s, const struct stray_runs *runs, pid_t pid, int64_t now_us)
{
    struct proc p;
    bool ours = false;

    if (!procs_look(pid, &p) || p.dead || runs->is_leader(runs->arg, p.group))
        return TIME_NEVER;
    uint64_t number = run_number_of(pid, getpid(), &ours);
    if (!number)
        return judge(s, runs, &p, now_us);
    /* A process of another spawner's run has lost that spawner: otherwise it would not be our child. */
    if (!(ours && runs->is_running(runs->arg, number)))
        kill(pid, SIGKILL);
    return TIME_NEVER;
}

/* Forgets strays: all, or those that this sweep did not see. */
static void forget_strays(struct strays *s, bool all)
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

        if (end == p)
            break;
        if (pid <= 0 || runs->is_leader(runs->arg, pid))
            continue;
        int64_t at = look_at_stray(s, runs, pid, now_us);
        if (at < next_us)
            next_us = at;
    }
    free(list);
    forget_strays(s, false);
    return next_us;
}

/* ---- After the spawner's death ---- */

/* The same number means the same process to pid as to us. */
static bool shares_pid_namespace(pid_t pid)
{
    char path[64], theirs[64] = "", ours[64] = "";

    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return readlink(path, theirs, sizeof theirs - 1) > 0 &&
           readlink("/proc/self/ns/pid", ours, sizeof ours - 1) > 0 && strcmp(theirs, ours) == 0;
}

struct left {
    pid_t spawner;      /* 0: one that lives no more */
    const char *worker; /* of any spawner's: NULL */
};

/* Its number may be another process's by now: one that started after pid. */
static bool spawner_lives(pid_t spawner, pid_t pid)
{
    struct proc of, p;

    if (!procs_look(spawner, &of))
        return kill(spawner, 0) == 0 || errno != ESRCH; /* /proc may hide other users' processes */
    return !of.ending && (!procs_look(pid, &p) || of.start_us <= p.start_us);
}

static bool is_left(pid_t pid, const struct left *l)
{
    size_t len;
    char *env = read_environment(pid, &len);
    const char *run = value_of(RUN_VARIABLE "=", env, len), *worker = value_of("HAWK_WORKER=", env, len);
    pid_t spawner = run ? (pid_t)strtol(run, NULL, 10) : 0;
    bool is = spawner > 0 &&
              (l->spawner ? spawner == l->spawner
                          : worker && strcmp(worker, l->worker) == 0 && !spawner_lives(spawner, pid));

    free(env);
    return is && shares_pid_namespace(pid);
}

static bool kill_left(pid_t pid, const struct left *l)
{
    int fd = pidfd_open(pid, 0); /* first: from here on its number names no other process */
    bool killed = fd >= 0 && is_left(pid, l) && pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0;

    if (fd >= 0)
        close(fd);
    return killed;
}

static bool kill_all_left(const struct left *l)
{
    DIR *d = opendir("/proc");
    bool found = false;
    struct dirent *e;

    while (d && (e = readdir(d))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

        if (pid > 0 && kill_left(pid, l))
            found = true;
    }
    if (d)
        closedir(d);
    return found;
}

static void end_all_left(const struct left *l)
{
    /* A process may fork while we look, and dies some time after the signal. */
    for (int look = 0; look < ORPHAN_LOOKS && kill_all_left(l); look++)
        poll(NULL, 0, POLL_MS);
}

void strays_end_of(pid_t spawner) { end_all_left(&(struct left){.spawner = spawner}); }
void strays_end_orphans(const char *worker) { end_all_left(&(struct left){.worker = worker}); }

void strays_free(struct strays *s) { forget_strays(s, true); }

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
