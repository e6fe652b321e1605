/* How a task is frozen with all that it started: by a cgroup of its own, of version 2 or 1, or by SIGSTOP to its process
 * group. The method is chosen once, before the spawner is forked.
 *
 * A group is one task's cgroup, named by the spawner and the run's number. A long task starts in its group where version 2
 * lets it (CLONE_INTO_CGROUP). Any other task is moved into one when it is frozen for the first time: to move a process
 * takes the kernel some 15 ms, and few tasks are ever paused. */
#ifndef HAWK_EXEC_FREEZER_H
#define HAWK_EXEC_FREEZER_H

#include "exec/exec.h"

#include <sys/types.h>

struct freezer {
    enum exec_freezer method;
    pid_t owner;              /* the spawner: its groups carry this number */
    char base[EXEC_PATH_MAX]; /* the spawner's own cgroup, in which the groups are; "": the method has none */
    bool (*is_leader)(void *arg, pid_t pid); /* of another task's process group: nothing to look into */
    void *arg;
    struct ended_group *ended; /* the task has ended, and something is still in there */
    uint32_t ended_n, ended_cap;
};

/* A task, as the freezer knows it. */
struct frozen_task {
    uint64_t number; /* of its run */
    pid_t leader;
    bool grouped; /* it has a group */
};

/* Finds out what works here: makes a cgroup and freezes a child of this process in it. A wish that cannot be granted is
 * EXEC_FREEZER_OFF, and the log says so. */
void freezer_choose(struct freezer *f, enum exec_freezer wish);
/* For a task that is about to start: a descriptor of its new group, to be closed; -1: it has none (yet). */
int freezer_make(const struct freezer *f, uint64_t number);
/* Takes away what freezer_make made, when nothing was started in there. */
void freezer_unmake(const struct freezer *f, uint64_t number);

/* Begins to freeze t. HAWK_EBUSY: it cannot be done now, and freezer_thaw is due. */
HAWK_MUST_USE int freezer_freeze(const struct freezer *f, struct frozen_task *t);
/* Whether all of it stands still. */
bool freezer_holds(const struct freezer *f, const struct frozen_task *t);
/* A signal that t was sent before is handled then. */
void freezer_thaw(const struct freezer *f, const struct frozen_task *t);
/* t has ended. What is left in its group gets SIGTERM, and SIGKILL at kill_at_us; then the group is removed. */
void freezer_end(struct freezer *f, const struct frozen_task *t, int64_t kill_at_us);
/* Goes on with that. Returns when to look again; TIME_NEVER: no group of an ended task is left. */
int64_t freezer_sweep(struct freezer *f, int64_t now_us);
void freezer_free(struct freezer *f);

/* Groups of a spawner that is gone: thaws what is in there, moves it out, and removes them. owner 0: of any that is gone. */
void freezer_leftovers(pid_t owner);

/* Bytes that programs can have without swapping; UINT64_MAX: the kernel does not tell. */
uint64_t memory_available(void);

#endif
