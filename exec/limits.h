/* Limits of a task: cgroups of its own, which limit its memory, or the number of its processes, and from which no
 * process of it gets away. A task that asks for no limit has none. The spawner makes the cgroups, beside those of the
 * freezer and with the same names (cgroup_path): version 1 below the spawner's own cgroups for memory and pids; version
 * 2 below the delegated cgroup that has the agent's cgroup in it (docs/operating.md). A user's runner may make none:
 * its agent does (run_files.h). The agent also makes the cgroup in which it freezes a long task of a user, whom his
 * runner's SIGSTOP alone would not hold: he may send SIGCONT. */
#ifndef HAWK_EXEC_LIMITS_H
#define HAWK_EXEC_LIMITS_H

#include "exec/cgroup.h"
#include "msg/types.h"

/* What a task's cgroups are for. */
enum limit { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_KINDS, LIMIT_PAUSE = LIMIT_KINDS, LIMIT_CGROUPS };

struct limits {
    pid_t owner;               /* the spawner, or the keeper of a user's runner; 0: this process */
    bool chosen;               /* the next members are valid: set at the first task with a limit */
    bool given;                /* this process is a user's runner: its agent makes and removes the cgroups */
    enum exec_freezer freezer; /* of limits_make_freezer(): a cgroup's, or it makes none */
    char base[LIMIT_CGROUPS]
             [CGROUP_PATH_MAX];   /* has the tasks' cgroups in it; "": this limit cannot be enforced */
    bool version2[LIMIT_CGROUPS]; /* those of version 2 are one cgroup */
    uint64_t *left;               /* tasks that have ended, and whose cgroups have processes yet */
    uint32_t left_n, left_cap;
};

/* A task as the limits know it. Zeroed: it has none. */
struct limited {
    uint64_t number; /* of its run, as in its cgroups' names */
    bool has[LIMIT_CGROUPS];
};

#define LIMITS_PLACE                                                                                         \
    "/sys/fs/cgroup" /* the place to blame where a limit cannot be enforced, as in EXEC_EXITED */

/* Whether the job's tasks are to have a limit. */
static inline bool limits_wanted(const struct job_desc *d) { return d->mem_bytes > 0 || d->pids > 0; }
/* Makes the cgroups of a task that is about to start. entries: their cgroup.procs, open for `access`, for the caller to
 * close, or -1. O_WRONLY: a process that writes "0" there is in; O_PATH: they say only where the cgroups are.
 * HAWK_EUNSUPPORTED, and why: this worker cannot enforce a limit. */
HAWK_MUST_USE int limits_make(struct limits *l, uint64_t number, const struct job_desc *d, struct limited *t,
                              int access, int entries[LIMIT_KINDS], char *why, size_t size);
/* Makes the cgroup in which the run of that number can be frozen, if limits_make() has not. False: there is none. */
bool limits_make_freezer(struct limits *l, uint64_t number);
/* Removes it if nothing is in it. */
void limits_unmake_freezer(struct limits *l, uint64_t number);
/* The processes that are in it. */
void limits_in_freezer(struct limits *l, uint64_t number, struct pids *inside);
/* Puts a process into it that runs already, if it is one of that user's. -1: it is not in it. */
HAWK_MUST_USE int limits_move_in(struct limits *l, uint64_t number, pid_t pid, uid_t uid);
/* Puts a process into the cgroups of the run of that number, if it is that user's. -1 with errno: it is not in all that
 * limit it. */
HAWK_MUST_USE int limits_enter(const struct limits *l, uint64_t number, pid_t pid, uid_t uid);
/* In a user's runner, instead of limits_make(): the agent has made the cgroups, and sent the entries.
 * HAWK_EUNSUPPORTED: it sent none for a limit of the job, or something else. */
HAWK_MUST_USE int limits_take(struct limits *l, const struct job_desc *d, struct limited *t,
                              const int entries[LIMIT_KINDS], char *why, size_t size);
/* Kills all processes of t. One that was just made may survive: call it again until limits_gone(). */
void limits_kill(const struct limits *l, const struct limited *t);
/* Whether t has no process any more, or no limit. */
bool limits_gone(const struct limits *l, const struct limited *t);
/* Whether the kernel has killed a process of t because t had used up its memory. */
bool limits_exceeded(const struct limits *l, const struct limited *t);
/* Where t's cgroups say what its processes used, replaces *cpu_us (by no less) and *mem_peak_bytes. */
void limits_usage(const struct limits *l, const struct limited *t, int64_t *cpu_us, int64_t *mem_peak_bytes);
/* t has ended, or did not start: kills what is left of it, and removes its cgroups, at once or in limits_sweep(). */
void limits_end(struct limits *l, struct limited *t);
/* The same for the run of that number, of which nothing else is known. */
void limits_end_run(struct limits *l, uint64_t number);
/* Goes on with that. False: nothing is left to do. */
bool limits_sweep(struct limits *l);
void limits_free(struct limits *l);
/* Freezes all that is in the cgroup of limits_make_freezer() for the run of that number, or thaws it. False: there is
 * no such cgroup, or the kernel refuses. */
bool limits_freeze(struct limits *l, uint64_t number, bool frozen);
/* Kills the limited tasks of a spawner that is gone, and removes their cgroups. owner 0: of all such spawners. */
void limits_leftovers(pid_t owner);
/* Whether all that limits_freeze() has frozen of that run stands still. In version 1 a process that waits in the kernel
 * counts as still. */
bool limits_stands_still(struct limits *l, uint64_t number);
/* Thaws what an agent that is gone has frozen of that keeper's runner. owner 0: of all keepers'. */
void limits_thaw(pid_t owner);

#endif
