/* A table from which a generated workload is drawn. It describes clusters: groups of similar jobs. (Here the word does
 * not mean machines.) The table is a text:
 *
 *     # A comment.
 *     jobs       20000          number of jobs, unless the caller names another
 *     gap        2.3s           mean time between two submissions, which are a Poisson process
 *     cutoff     90s            the cutoff for this workload, unless the caller names another; by default 90s
 *     partition  2%             the share of the short partition, likewise; by default 0
 *     tasks      exponential    how a job's number of tasks is drawn around its cluster's; or fixed, the default
 *     mean       exponential    how a job's mean task duration is drawn around its cluster's; or fixed, the default
 *     durations  gaussian       how the durations of a job's tasks are drawn around its mean. gaussian: with standard
 *                               deviation 2 x mean; negative durations are drawn again, which doubles the mean.
 *                               Or exponential; or fixed, the default
 *     short  89.5  23   9.3s    a cluster: class of its jobs, its share of all jobs (on any scale), number of tasks
 *     long   10.5  226  500s    of a job, mean task duration
 *
 * A job has the class of its cluster, whatever the cutoff is. */
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
    uint64_t share_milli; /* share of the jobs, x1000, in proportion to the other clusters' */
    uint64_t tasks_milli; /* number of tasks of a job, x1000 */
    int64_t mean_us;      /* mean task duration */
};

struct job_table {
    uint32_t jobs;
    int64_t gap_us, cutoff_us;
    uint32_t share_ppm;
    uint8_t tasks, mean, durations; /* enum job_table_draw */
    struct job_cluster clusters[TABLE_CLUSTERS_MAX];
    uint32_t n;
};

/* Parses the text of a table. `name` stands for it in errors. HAWK_EINVALID; why: "NAME:LINE:COLUMN: expected ...". */
HAWK_MUST_USE int generate_table_parse(struct job_table *t, const char *name, const char *text, char *why,
                                       size_t size);
/* Loads a table. A name that has a '/' or ends in ".tbl" is a file's; any other one is that of a table that comes with
 * Hawk ("cloudera"). HAWK_EIO, HAWK_EINVALID; why names the file or table and says more. */
HAWK_MUST_USE int generate_table_load(struct job_table *t, const char *name, char *why, size_t size);
extern const char *const generate_table_names[]; /* of the tables that come with Hawk; NULL-terminated */
/* The gap at which the jobs keep load_milli thousandths of that many slots busy (900: 90 %). Both must be at least
 * 1. */
int64_t generate_table_gap_us(const struct job_table *t, uint64_t slots, uint32_t load_milli);

#endif
