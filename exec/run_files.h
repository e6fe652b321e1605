/* In the agent: the descriptors that a user's runner gets with a run, of files that are not its user's.
 *
 * Output files: see own_output.h. Limits: the agent makes and removes the cgroups, so that they belong to no user, and
 * puts each task into them when it asks at its gate. That works where cgroups of version 2 are delegated to the agent.
 * Version 1 lets only root move another user's process, so there the agent must be root. */
#ifndef HAWK_EXEC_RUN_FILES_H
#define HAWK_EXEC_RUN_FILES_H

#include "exec/exec.h"
#include "exec/gates.h"
#include "exec/held_runs.h"
#include "exec/record.h"

/* g: of the runner's tasks. fds: -1, not that; files: enum run_file. HAWK_ECANNOT_START, HAWK_EINVALID: as
 * own_output_open(). HAWK_EUNSUPPORTED: a limit of the job cannot be enforced here. Then why says more, and none is
 * open. */
HAWK_MUST_USE int run_files_open(const struct exec_config *c, struct gates *g, const struct msg_exec_start *m,
                                 int fds[RUN_FILES], uint32_t *files, char why[EXEC_WHY_MAX]);
/* Closes them, for a run that the runner does not get. */
void run_files_close(struct gates *g, const int fds[RUN_FILES], const struct held_run *r);
/* The run has ended. */
void run_files_ended(const struct exec_config *c, struct gates *g, const struct held_run *r);

#endif
