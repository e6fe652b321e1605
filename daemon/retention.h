/* How long tasks' output stays in a directory: by age, and by size. */
#ifndef HAWK_DAEMON_RETENTION_H
#define HAWK_DAEMON_RETENTION_H

#include "base/err.h"
#include "base/ids.h"

#include <stdbool.h>
#include <stdint.h>

/* The output of a job that is written to stays, whatever its age: the files of running tasks are locked
 * (exec/launch.c). So does what is younger than this: a task may be about to begin there. */
#define RETENTION_YOUNG_US (10 * INT64_C(1000000))

struct retention {
    const char *dir;    /* absolute: worker.output_dir */
    int64_t keep_us;    /* output whose youngest file is older goes; 0: none does */
    uint64_t max_bytes; /* of all jobs' output: beyond it the oldest goes first; 0: no limit */
    uint64_t
        user_max_bytes; /* the same for the output of each user, as exec_output_user() tells; 0: no limit */
    bool dry_run;       /* nothing is removed */
};

/* The output of one job that goes. */
struct retention_job {
    job_id_t job;
    int64_t age_us; /* of its youngest file */
    uint64_t bytes; /* on the disk */
};
struct retention_result {
    struct retention_job *gone; /* oldest first; the caller frees it */
    uint32_t gone_n, cap;
    uint64_t bytes;      /* of those */
    uint64_t left_bytes; /* of what stays */
};

/* Looks at all of dir, and removes what the rules say. It takes as long as the disk does. 0, or HAWK_EIO: errno says
 * why dir cannot be read. */
HAWK_MUST_USE int retention_apply(const struct retention *r, struct retention_result *result);

/* A thread that applies r every tenth of keep_us, at least once in ten minutes and at most once a second, and logs what
 * it removed. NULL: r has no rule. Copies r; dir outlives it. */
struct retention_thread *retention_start(const struct retention *r);
/* NULL is fine. */
void retention_stop(struct retention_thread *t);

#endif
