/* Waits for jobs, with a progress line fed by their events. */
#ifndef HAWK_CLI_WAIT_H
#define HAWK_CLI_WAIT_H

#include "cli/session.h"

struct waiting {
    bool progress; /* show a line on stderr, also if that is no terminal */
    bool attended; /* the client waits for these jobs, whether or not their dist says so (api_job.attended) */
    bool results;  /* also print the tasks' results */
    int64_t for_us; /* give up after this time; 0: never */
};

/* Waits until every job has ended. On Ctrl-C, SIGTERM or SIGHUP, and when the time is over, it stops waiting and says
 * how to go on. It explains failures on stderr unless quiet. In JSON mode it prints the jobs as they ended, or as
 * they were when it stopped. HAWK_EXIT_OK when every task was done, HAWK_EXIT_FAILED when one was not,
 * HAWK_EXIT_GAVE_UP, or 128 and the signal's number. */
int wait_jobs(struct session *s, const struct selection *jobs, const struct waiting *how);

#endif
