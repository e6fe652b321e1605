/* What a generated workload is drawn from: a table of clusters of jobs, in a file.
 *
 *     # What follows a # is a comment.
 *     jobs       20000          how many, unless told otherwise
 *     gap        2.3s           mean time between two submissions, a Poisson process
 *     cutoff     90s            the cutoff that suits it, unless told otherwise; by default 90s
 *     partition  2%             and the short partition; by default 0
 *     tasks      exponential    a job's number of tasks, around its cluster's; or fixed, the default
 *     mean       exponential    a job's mean task duration, around its cluster's; or fixed, the default
 *     durations  gaussian       of its tasks, with standard deviation 2 x mean, negative ones drawn again, which
 *                               doubles the mean; or exponential; or fixed, the default
 *     short  89.5  23   9.3s    class, share of the jobs (any scale), number of tasks, mean task duration
 *     long   10.5  226  500s
 *
 * A job belongs to its cluster's class, whatever the cutoff. */
#ifndef HAWK_WORKLOAD_GENERATE_TABLE_H
#define HAWK_WORKLOAD_GENERATE_TABLE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define TABLE_CLUSTERS_MAX 64u
#define JOB_TABLE_JOBS_MAX 100000000u

enum job_table_draw { TABLE_FIXED, TABLE_EXPONENTIAL, TABLE_GAUSSIAN };

struct job_cluster {
    uint8_t tag;          /* enum class_tag: TAG_SHORT or TAG_LONG */
    uint64_t share_milli; /* of jobs, x1000, beside the other clusters' */
    uint64_t tasks_milli; /* x1000 */
    int64_t mean_us;
};

struct job_table {
    uint32_t jobs;
    int64_t gap_us, cutoff_us;
    uint32_t share_ppm;
    uint8_t tasks, mean, durations; /* enum job_table_draw */
    struct job_cluster clusters[TABLE_CLUSTERS_MAX];
    uint32_t n;
};

/* Reads a table's text; name is what errors call it. HAWK_EINVALID, *why: "NAME:LINE:COLUMN: expected ..." */
HAWK_MUST_USE int job_table_parse(struct job_table *t, const char *name, const char *text, char *why,
                                  size_t size);
/* A table that comes with Hawk by its name ("cloudera"), or a file of one: what has a '/' or ends in ".tbl". */
HAWK_MUST_USE int job_table_load(struct job_table *t, const char *name, char *why, size_t size);
extern const char *const job_table_names[]; /* of those that come with Hawk; NULL-terminated */
/* The gap at which the jobs keep a share of so many slots busy, x1000: 900 is 90 %. Both at least 1. */
int64_t job_table_gap_us(const struct job_table *t, uint64_t slots, uint32_t load_milli);

#endif
