/* Converts the public Google cluster trace of 2011 (clusterdata-2011-2, table task_events) into jobs. The Hawk paper
 * replays this trace "after removing invalid or failed jobs and tasks" (4.1).
 *
 * A task's duration is the time from its last SCHEDULE to its FINISH. The conversion leaves out, and counts:
 *   - tasks that never finish: they fail, are killed, evicted or lost for good, or have not ended when the trace ends;
 *   - tasks whose start or end is unknown: the trace marks the record as missing, or its time is before the beginning
 *     of the trace (0) or after its end (2^63 - 1);
 *   - jobs that were submitted before the trace begins, and jobs without any task that is kept.
 * A job is submitted when the first of its tasks is. Times count from the submission of the first job that is kept. */
#ifndef HAWK_WORKLOAD_GOOGLE_H
#define HAWK_WORKLOAD_GOOGLE_H

#include "workload/source.h"

struct google; /* the jobs read so far */

struct google_counts {
    uint64_t lines;
    uint64_t jobs, tasks; /* in the input */
    uint64_t jobs_kept, tasks_kept;
    uint64_t jobs_early, jobs_empty; /* left out: submitted before the trace begins; without a kept task */
    /* Left out: ended without finishing; not ended; start or end unknown. */
    uint64_t tasks_failed, tasks_open, tasks_vague;
};

struct google *google_new(void);
void google_free(struct google *g); /* NULL is fine */
/* Reads one file of the table, uncompressed; "-" is standard input. Call it for the files of a trace in their order:
 * together they are one sequence of events. Returns 0, HAWK_EIO, or HAWK_EINVALID: a line is no event. */
HAWK_MUST_USE int google_read(struct google *g, const char *path);
/* The last error: "FILE:LINE:COLUMN: expected ..., found ...". */
const char *google_error(const struct google *g);
/* The jobs in the order of their submission. Call it once, after the last google_read(). g must outlive it. */
struct sim_source google_source(struct google *g);
struct google_counts google_counts(const struct google *g); /* complete after google_source() */

#endif
