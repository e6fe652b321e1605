/* Waiting for jobs, with a progress line fed by their events. */
#ifndef HAWK_CLIENT_WAIT_H
#define HAWK_CLIENT_WAIT_H

#include "client/session.h"

/* Waits until every job has ended; on Ctrl-C it stops waiting and says how to go on. progress: a line on stderr
 * (on a terminal anyway). Failures are explained on stderr unless quiet; in JSON mode the jobs as they ended are
 * printed. attended: nobody else waits for them, so that they do not go on without us. HAWK_EXIT_OK when every task
 * was done, HAWK_EXIT_FAILED when one was not.
 * results: also prints what the tasks returned. */
int wait_jobs(struct session *s, const struct selection *jobs, bool progress, bool attended, bool results);

#endif
