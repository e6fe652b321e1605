/* In the agent: how a task of a user's runner gets into its cgroups.
 *
 * Whoever has an entry open (cgroup.procs) can write any process's pid there, so no user may have one. A task asks the
 * agent instead, through a socket of its own, its gate: it sends one byte, and goes on when one comes back. The kernel
 * says which process has sent it, and whose it is.
 *
 * A task that became long after its start came through no gate: its runner names its processes when it has stopped
 * them. */
#ifndef HAWK_EXEC_GATES_H
#define HAWK_EXEC_GATES_H

#include "exec/limits.h"

struct gate;

/* One runner's. */
struct gates {
    struct limits limits; /* of its tasks */
    int epoll;            /* readable when a task asks */
    struct gate *open;
};

/* Where it cannot be made, no gate can be opened. */
void gates_init(struct gates *g);
/* Returns the task's end of a gate to the cgroups of that run, for the caller to close. Reading from it ends after a
 * second without an answer (EAGAIN). -1 with errno: there is none. */
HAWK_MUST_USE int gates_open(struct gates *g, uint32_t run);
/* Closes it, if the task has not gone through. */
void gates_close(struct gates *g, uint32_t run);
/* Lets in who asks, if it is a process of that user. */
void gates_on_ready(struct gates *g, const char *user);
/* Puts the processes of that user's that are named, and all that they have started, into the cgroup that freezes the
 * run: as many as RECORD_PAUSED may name, and as a tenth of a second suffices for. `named` has those then. False: none
 * is in it, and the cgroup is removed, or no such cgroup or user is there. */
bool gates_take_into_freezer(struct gates *g, uint32_t run, const char *user, struct pids *named);
/* Closes all gates, and frees g's limits. */
void gates_free(struct gates *g);

#endif
