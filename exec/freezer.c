/* Freezing tasks: see freezer.h. */
#include "exec/freezer.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "exec/cgroup.h"
#include "exec/note.h"
#include "exec/procs.h"
#include "exec/strays.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100      /* passes over a task in which new processes may still appear */
#define PROBE_LOOKS 200 /* of a millisecond each: how long a frozen child may take to stand still */

struct ended_group {
    uint64_t number;
    int64_t kill_at_us;
};

static const char *const names[] = {"off", "signal", "cgroup1", "cgroup2", "auto"};
static const char *const texts[] = {
    [EXEC_FREEZER_OFF] = "no task is paused",
    [EXEC_FREEZER_SIGNAL] =
        "tasks are paused by SIGSTOP to their process group, which misses what left it (setsid)",
    [EXEC_FREEZER_CGROUP1] = "tasks are paused by the cgroup v1 freezer, with all that they started",
    [EXEC_FREEZER_CGROUP2] = "tasks are paused by the cgroup v2 freezer, with all that they started",
    [EXEC_FREEZER_AUTO] = "",
};

const char *exec_freezer_name(enum exec_freezer m) { return names[m]; }
const char *exec_freezer_text(enum exec_freezer m) { return texts[m]; }

enum exec_freezer exec_freezer_of(const char *name)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return (enum exec_freezer)i;
    return EXEC_FREEZER_OFF;
}

static bool has_cgroups(const struct freezer *f) { return *f->base != '\0'; }

static void group_path(const struct freezer *f, uint64_t number, char path[CGROUP_PATH_MAX])
{
    cgroup_path(f->base, f->owner, number, path);
}

static void task_path(const struct freezer *f, const struct frozen_task *t, char path[CGROUP_PATH_MAX])
{
    cgroup_path(t->base ? t->base : f->base, f->owner, t->number, path);
}

/* ---- A task's processes ---- */

/* Adds the processes of t from which all others descend: its leader, and the spawner's children in t's
 * process group. strays: also children whose environment names t's run. */
static void add_roots(const struct freezer *f, const struct frozen_task *t, bool strays, struct pids *l)
{
    struct pids own = {0};

    vec_grow(l->v, l->n, l->cap);
    l->v[l->n++] = t->leader;
    pids_add_children(&own, getpid());
    for (uint32_t i = 0; i < own.n; i++) {
        pid_t pid = own.v[i];
        struct proc p;
        bool ours = false;

        if (pid == t->leader || (f->is_leader && f->is_leader(f->arg, pid)) || !procs_look(pid, &p) || p.dead)
            continue;
        if (p.group != t->leader && !(strays && run_number_of(pid, f->owner, &ours) == t->number && ours))
            continue;
        vec_grow(l->v, l->n, l->cap);
        l->v[l->n++] = pid;
    }
    pids_free(&own);
}

static void add_tree(const struct freezer *f, const struct frozen_task *t, bool strays, struct pids *l)
{
    add_roots(f, t, strays, l);
    for (uint32_t i = 0; i < l->n; i++)
        pids_add_children(l, l->v[i]);
}

void freezer_processes(const struct freezer *f, const struct frozen_task *t, struct pids *l)
{
    add_tree(f, t, true, l);
}

/* Moves all processes of t into its group. A process that one in the group starts is in the group, too, so
 * the loop ends. */
static int move_in(const struct freezer *f, const struct frozen_task *t)
{
    char group[CGROUP_PATH_MAX];
    bool moved = true, refused = false;

    task_path(f, t, group);
    for (int round = 0; moved && !refused && round < ROUNDS; round++) {
        struct pids inside = {0}, all = {0};

        cgroup_processes(group, &inside);
        add_tree(f, t, true, &all);
        moved = false;
        for (uint32_t i = 0; i < all.n; i++) {
            if (pids_have(&inside, all.v[i]))
                continue;
            if (cgroup_enter(group, all.v[i]) == 0)
                moved = true;
            else if (errno != ESRCH)
                refused = true;
        }
        pids_free(&inside);
        pids_free(&all);
    }
    return moved || refused ? HAWK_EBUSY : 0;
}

/* ---- Freezing ---- */

int freezer_freeze(const struct freezer *f, struct frozen_task *t)
{
    char group[CGROUP_PATH_MAX];

    if (!has_cgroups(f))
        return kill(-t->leader, SIGSTOP) < 0 ? HAWK_EBUSY : 0;
    task_path(f, t, group);
    if (!t->grouped && cgroup_make(group) < 0)
        return HAWK_EBUSY;
    if (!t->grouped) {
        int err = move_in(f, t);

        t->grouped = true;
        if (err)
            return err;
    }
    return cgroup_freeze(group, true) < 0 ? HAWK_EBUSY : 0;
}

/* Whether the process group is stopped. A process that waits in the kernel stops before it goes on: for
 * example a shell whose vforked child was stopped. */
static bool group_stopped(const struct freezer *f, const struct frozen_task *t)
{
    struct pids all = {0};
    bool stopped = true;

    add_tree(f, t, false, &all);
    for (uint32_t i = 0; stopped && i < all.n; i++) {
        struct proc p;

        if (procs_look(all.v[i], &p) && p.group == t->leader)
            stopped = p.dead || p.stopped || p.waits;
    }
    pids_free(&all);
    return stopped;
}

bool freezer_holds(const struct freezer *f, const struct frozen_task *t)
{
    char group[CGROUP_PATH_MAX];

    if (!has_cgroups(f))
        return group_stopped(f, t);
    task_path(f, t, group);
    return cgroup_is_frozen(group) || (f->method == EXEC_FREEZER_CGROUP1 && cgroup_waits(group));
}

void freezer_thaw(const struct freezer *f, const struct frozen_task *t)
{
    char group[CGROUP_PATH_MAX];

    if (!has_cgroups(f)) {
        kill(-t->leader, SIGCONT);
    } else if (t->grouped) {
        task_path(f, t, group);
        (void)cgroup_freeze(group, false);
    }
}

/* ---- Making and removing groups ---- */

int freezer_make(const struct freezer *f, uint64_t number)
{
    char group[CGROUP_PATH_MAX];

    if (f->method != EXEC_FREEZER_CGROUP2)
        return -1;
    group_path(f, number, group);
    if (cgroup_make(group) < 0)
        return -1;
    int fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        cgroup_remove(group);
    return fd;
}

void freezer_unmake(const struct freezer *f, uint64_t number)
{
    char group[CGROUP_PATH_MAX];

    group_path(f, number, group);
    cgroup_remove(group);
}

void freezer_end(struct freezer *f, const struct frozen_task *t, int64_t kill_at_us)
{
    char group[CGROUP_PATH_MAX];

    if (!t->grouped || t->base)
        return;
    task_path(f, t, group);
    if (cgroup_remove(group))
        return;
    cgroup_signal(group, SIGTERM);
    vec_grow(f->ended, f->ended_n, f->ended_cap);
    f->ended[f->ended_n++] = (struct ended_group){t->number, kill_at_us};
}

int64_t freezer_sweep(struct freezer *f, int64_t now_us)
{
    char group[CGROUP_PATH_MAX];

    for (uint32_t i = 0; i < f->ended_n;) {
        group_path(f, f->ended[i].number, group);
        if (cgroup_remove(group)) {
            f->ended[i] = f->ended[--f->ended_n];
            continue;
        }
        if (f->ended[i++].kill_at_us <= now_us)
            cgroup_signal(group, SIGKILL);
    }
    return f->ended_n ? now_us + STRAY_SWEEP_US : TIME_NEVER;
}

void freezer_free(struct freezer *f)
{
    free(f->ended);
    f->ended = NULL;
    f->ended_n = f->ended_cap = 0;
}

void freezer_leftovers(pid_t owner)
{
    char base[EXEC_PATH_MAX];

    for (int version = 1; version <= 2; version++)
        if (cgroup_own(version, "freezer", base) == 0)
            cgroup_empty_all(base, owner);
}

/* ---- Finding a method that works ---- */

static bool stands_still(const struct freezer *f, const struct frozen_task *t)
{
    for (int look = 0; look < PROBE_LOOKS; look++) {
        if (freezer_holds(f, t))
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* Waits to be frozen. It executes nothing, and so must let go of this process's files itself: of locks, too, which the
 * next process wants when this one has been killed. A child that version 1 has frozen does not die with it. */
static noreturn void be_probed(pid_t owner)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != owner)
        _exit(0);
    close_range(0, ~0u, 0);
    for (;;)
        pause();
}

/* Makes a child that has let go of all files. -1: it cannot be made. */
static pid_t make_probed(void)
{
    pid_t owner = getpid(), pid;
    int fds[2];
    char none;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        be_probed(owner);
    close(fds[1]);
    while (pid > 0 && read(fds[0], &none, 1) < 0 && errno == EINTR)
        ;
    close(fds[0]);
    return pid;
}

/* Tries the method: freezes a child and thaws it again. */
static bool works(struct freezer *f)
{
    struct frozen_task t = {.number = 0, .leader = make_probed()};

    if (t.leader < 0)
        return false;
    bool ok = freezer_freeze(f, &t) == 0 && stands_still(f, &t);
    kill(t.leader, SIGKILL);
    freezer_thaw(f, &t);
    while (waitpid(t.leader, NULL, 0) < 0 && errno == EINTR)
        ;
    freezer_end(f, &t, 0);
    return freezer_sweep(f, 0) == TIME_NEVER && ok;
}

static bool try_cgroup(struct freezer *f, enum exec_freezer method)
{
    f->method = method;
    if (cgroup_own(method == EXEC_FREEZER_CGROUP2 ? 2 : 1, "freezer", f->base) == 0 && works(f))
        return true;
    f->base[0] = '\0';
    return false;
}

void freezer_choose(struct freezer *f, enum exec_freezer wish, bool as_users)
{
    *f = (struct freezer){.method = wish, .owner = getpid()};
    if (wish == EXEC_FREEZER_OFF)
        return;
    freezer_leftovers(0);
    if (wish == EXEC_FREEZER_SIGNAL)
        return;
    if (wish != EXEC_FREEZER_CGROUP1 && try_cgroup(f, EXEC_FREEZER_CGROUP2))
        return;
    if (wish != EXEC_FREEZER_CGROUP2 && (!as_users || geteuid() == 0) && try_cgroup(f, EXEC_FREEZER_CGROUP1))
        return;
    f->method = wish == EXEC_FREEZER_AUTO ? EXEC_FREEZER_SIGNAL : EXEC_FREEZER_OFF;
    if (wish != EXEC_FREEZER_AUTO)
        log_warn("worker.freezer is %s, and that freezer cannot be used here: no task will be paused",
                 names[wish]);
}

/* ---- What is in force, for other processes ---- */

void exec_freezer_note(const char *state_dir, enum exec_freezer m)
{
    (void)!note_write(state_dir, "freezer", exec_freezer_name(m));
}

enum exec_freezer exec_freezer_noted(const char *state_dir)
{
    char name[NOTE_MAX];

    return note_read(state_dir, "freezer", name) ? exec_freezer_of(name) : EXEC_FREEZER_AUTO;
}
