/* Converts the public Google cluster trace of 2011 (clusterdata-2011-2, table task_events) into jobs: what
 * the Hawk paper replays "after removing invalid or failed jobs and tasks" (4.1).
 *
 * A task's duration is that of the run it finished with: from its last SCHEDULE to FINISH. Left out, and
 * counted:
 *   - tasks that never finished: failed, killed, evicted or lost for good, or still there when the trace ends;
 *   - tasks of which the trace does not know when they started or finished: records it marks as missing, times
 *     before its beginning (0) or after its end (2^63 - 1);
 *   - jobs that were submitted before the trace begins, and jobs none of whose tasks is left.
 * A job is submitted with the first of its tasks; the first job of the trace at 0. */
#ifndef HAWK_WORKLOAD_GOOGLE_H
#define HAWK_WORKLOAD_GOOGLE_H

#include "workload/source.h"

struct google; /* the jobs read so far */

struct google_counts {
    uint64_t lines;
    uint64_t jobs, tasks; /* in the input */
    uint64_t jobs_kept, tasks_kept;
    uint64_t jobs_early, jobs_empty; /* left out: submitted before the trace begins; without a task */
    uint64_t tasks_failed, tasks_open,
        tasks_vague; /* left out: ended otherwise; not ended; at unknown times */
};

struct google *google_new(void);
void google_free(struct google *g); /* NULL is fine */
/* Reads one file of the table, uncompressed ("-" is standard input); the files of a trace in their order,
 * since it is one long sequence of events. 0, HAWK_EIO, or HAWK_EINVALID: a line that is no event. */
HAWK_MUST_USE int google_read(struct google *g, const char *path);
/* "FILE:LINE:COLUMN: expected ..., found ..." of the last error. */
const char *google_error(const struct google *g);
/* The jobs by submission, once all is read; nothing may be read afterwards. */
struct sim_source google_source(struct google *g);
struct google_counts google_counts(const struct google *g); /* complete after google_source */

#endif
