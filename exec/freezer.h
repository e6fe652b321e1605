/* Freezes a task with all processes that it started: by a cgroup of its own, of version 2 or 1, or by SIGSTOP
 * to its process group. The method is chosen once, before the spawner is forked.
 *
 * A group is one task's cgroup; its name has the spawner's pid and the run's number. A long task starts in
 * its group if version 2 can do that (CLONE_INTO_CGROUP). Any other task is moved into a group at its first
 * pause: the kernel needs some 15 ms to move a process, and few tasks are ever paused. */
#ifndef HAWK_EXEC_FREEZER_H
#define HAWK_EXEC_FREEZER_H

#include "exec/exec.h"
#include "exec/procs.h"

#include <sys/types.h>

struct freezer {
    enum exec_freezer method;
    pid_t owner; /* the spawner: its groups have this number in their names */
    /* The spawner's own cgroup, which has the groups in it; "": the method has none. */
    char base[EXEC_PATH_MAX];
    /* Pid leads another task's process group: its children are not looked at. */
    bool (*is_leader)(void *arg, pid_t pid);
    void *arg;
    struct ended_group *ended; /* groups of ended tasks that still have processes */
    uint32_t ended_n, ended_cap;
};

/* A task as the freezer knows it. */
struct frozen_task {
    uint64_t number; /* number of its run */
    pid_t leader;
    bool grouped;     /* it has a group */
    const char *base; /* the cgroup that has its group in it, not the freezer's to end; NULL: f->base */
};

/* Chooses a method that works: makes a cgroup, and freezes a child of this process in it. If the wished
 * method does not work, it chooses EXEC_FREEZER_OFF and logs why. as_users: tasks are other users', whom version 1
 * lets only root move. */
void freezer_choose(struct freezer *f, enum exec_freezer wish, bool as_users);
/* Makes a group for a task that is about to start. Returns a descriptor of it, for the caller to close; -1:
 * none is made now. */
int freezer_make(const struct freezer *f, uint64_t number);
/* Removes a group of freezer_make() in which nothing was started. */
void freezer_unmake(const struct freezer *f, uint64_t number);

/* Begins to freeze t. HAWK_EBUSY: it cannot be frozen now, and the caller must call freezer_thaw(). */
HAWK_MUST_USE int freezer_freeze(const struct freezer *f, struct frozen_task *t);
/* Adds the processes of t, for whom it may to freeze them otherwise: also those that have left its group. */
void freezer_processes(const struct freezer *f, const struct frozen_task *t, struct pids *l);
/* Whether all processes of t stand still. */
bool freezer_holds(const struct freezer *f, const struct frozen_task *t);
/* Thaws t. Then t also handles signals that it got while frozen. */
void freezer_thaw(const struct freezer *f, const struct frozen_task *t);
/* t has ended. Processes that are left in its group get SIGTERM, and SIGKILL at kill_at_us; then
 * freezer_sweep() removes the group. */
void freezer_end(struct freezer *f, const struct frozen_task *t, int64_t kill_at_us);
/* Continues to end groups. Returns when to call it again; TIME_NEVER: no group of an ended task is left. */
int64_t freezer_sweep(struct freezer *f, int64_t now_us);
void freezer_free(struct freezer *f);

/* Thaws what is in the groups of a spawner that is gone, moves it out, and removes the groups. owner 0: of
 * all such spawners. */
void freezer_leftovers(pid_t owner);

#endif
