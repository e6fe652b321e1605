/* In the agent: output files below output_dir, of tasks that run as other users. The agent opens them, and the user's
 * runner gets their descriptors. */
#ifndef HAWK_EXEC_OWN_OUTPUT_H
#define HAWK_EXEC_OWN_OUTPUT_H

#include "exec/exec.h"
#include "exec/held_runs.h"

/* Opens those of the run's files that the job does not name. fds: stdout's and stderr's, -1: the job names it. files
 * gets enum run_file. HAWK_ECANNOT_START, HAWK_EINVALID (the output is another user's): why says more, and none is
 * open. */
HAWK_MUST_USE int own_output_open(const struct exec_config *c, const struct msg_exec_start *m, int fds[2],
                                  uint32_t *files, char why[EXEC_WHY_MAX]);
/* Does output_ended(), as a spawner does after a task's end. */
void own_output_ended(const struct exec_config *c, const struct held_run *r);

#endif
