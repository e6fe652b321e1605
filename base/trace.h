/* Reads workload traces (.tr) as a stream: one job per line, fields separated by blanks,
 *     submit_time_s  tasks  mean_task_duration_s  duration_1_s ... duration_n_s
 * sorted by submit time; a carriage return may stand before the newline. Times are decimal seconds ("12",
 * "0.25", "5.7e-05"), read exactly and rounded to microseconds: a trace reads the same on every machine and
 * in every locale. Nothing is skipped: whatever is not such a line ends the reading with an error that names
 * file, line, column and what was expected. */
#ifndef HAWK_BASE_TRACE_H
#define HAWK_BASE_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LINE "SUBMIT_S TASKS MEAN_S DURATION_S..., sorted by SUBMIT_S, no comments" /* for help texts */

#define TRACE_TASKS_MAX 1000000u                         /* of one job */
#define TRACE_TIME_US_MAX (INT64_C(864000000) * 1000000) /* 10,000 days: any time in a trace */

struct trace; /* one open trace */

/* One job. The durations belong to the trace and hold until the next call on it. */
struct trace_job {
    uint64_t line;     /* from 1 */
    int64_t submit_us; /* never below the one before */
    int64_t mean_us;   /* as the trace states it; it decides the job's class, whatever its tasks then take */
    uint32_t tasks;    /* 1 .. TRACE_TASKS_MAX */
    /* The class that the job is known to have (enum class_tag); 0 from a file, where its mean decides. */
    uint8_t tag;
    const int64_t *durations_us; /* one per task, each 0 .. TRACE_TIME_US_MAX */
};

/* Whether a file that starts with these bytes is a compressed one, which no reader of traces unpacks. If so, writes the
 * error: `name` is compressed, and by which command it is unpacked. */
bool trace_compressed(const char *name, const void *start, size_t n, char *why, size_t size);
/* Opens a file, or standard input for "-". *t is set on an error, too, for trace_error; trace_close it. */
HAWK_MUST_USE int trace_open(struct trace **t, const char *path);
/* The next job: 1; 0 at the end of the trace; HAWK_EINVALID for a line that is no job, HAWK_EIO. After an
 * error every further call gives it again. */
HAWK_MUST_USE int trace_next(struct trace *t, struct trace_job *job);
/* "FILE:LINE:COLUMN: expected ..., found ..." of the last error; "" before one. */
const char *trace_error(const struct trace *t);
void trace_close(struct trace *t); /* NULL is fine */

#endif
