/* Waiting for jobs, with a progress line fed by their events. */
#ifndef HAWK_CLI_WAIT_H
#define HAWK_CLI_WAIT_H

#include "cli/session.h"

struct waiting {
    bool progress; /* a line on stderr, also where that is no terminal */
    bool
        attended; /* they were submitted to be waited for, whether or not their dist says so (api_job.attended) */
    bool results;   /* also print what the tasks returned */
    int64_t for_us; /* give up after so long; 0: never */
};

/* Waits until every job has ended; on Ctrl-C, and when the time is over, it stops waiting and says how to go on.
 * Failures are explained on stderr unless quiet; in JSON mode the jobs are printed as they ended, or were when it stopped.
 * HAWK_EXIT_OK when every task was done, HAWK_EXIT_FAILED when one was not, HAWK_EXIT_GAVE_UP, HAWK_EXIT_INTERRUPTED. */
int wait_jobs(struct session *s, const struct selection *jobs, const struct waiting *how);

#endif
