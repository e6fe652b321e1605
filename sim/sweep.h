/* A what-if: one workload over a grid of cutoffs, short partitions and cluster sizes, one process per run,
 * and the best point of it. The base is the settings without the grid, at the same cluster size. Every run
 * uses the base's classes: a point is not better only because it calls other jobs short. */
#ifndef HAWK_SIM_SWEEP_H
#define HAWK_SIM_SWEEP_H

#include "sim/sim.h"
#include "workload/generate_table.h"

#include <jansson.h>

#define SWEEP_VALUES_MAX 100u /* largest number of values of an axis */
#define SWEEP_POINTS_MAX 10000u

/* An axis without values keeps the base's value. */
struct sim_sweep {
    int64_t cutoffs_us[SWEEP_VALUES_MAX];
    uint32_t shares_ppm[SWEEP_VALUES_MAX], workers[SWEEP_VALUES_MAX];
    uint32_t cutoffs_n, shares_n, workers_n;
};

/* Parses "cutoff=60s,90s,2m,partition=0%,2%,4%,workers=3000,4000": axes in any order, each at most once.
 * HAWK_EINVALID: *why names the wrong word and what it should be. */
HAWK_MUST_USE int sim_sweep_parse(struct sim_sweep *s, const char *text, char *why, size_t size);

struct sim_sweep_point {
    int64_t cutoff_us;
    uint32_t share_ppm, workers;
    bool share_auto; /* the share follows the load; share_ppm is that of the settings, and unused */
    bool base;       /* the base of its cluster size */
    int err;         /* one of HAWK_ERRORS; the figures are valid if 0 */
    char why[160];
    uint64_t jobs_ended; /* as the run goes on */
    struct spread response_us[CLASS_COUNT];
    double utilization; /* the median */
};

struct sim_sweep_result {
    struct sim_sweep_point
        /* By workers, partition and cutoff in the order of the axes; the base of each size comes first. */
        *points;
    uint32_t n;
    uint64_t jobs; /* number of jobs in the workload */
};

/* The source of every run's jobs: a trace's path (a regular file), or a table and the seed of its
 * draws. */
struct sim_sweep_input {
    const char *trace;
    const struct job_table *table;
    uint64_t seed;
};

/* Runs the grid, at_once processes at a time. Draws a progress bar on `bar` if that is not NULL. Returns 0
 * when every run could start: the error of a single run is in its point. Otherwise an error of the workload
 * or of the system, with a text. The caller frees *r in any case. */
HAWK_MUST_USE int sim_sweep_run(const struct sim_config *base, const struct sim_sweep *s,
                                const struct sim_sweep_input *input, uint32_t at_once, FILE *bar,
                                struct sim_sweep_result *r, char *why, size_t size);
void sim_sweep_free(struct sim_sweep_result *r);

/* Of the points of a cluster size that raise the p90 of long jobs by at most 5 %, the one with the lowest p99
 * of short jobs; the base itself if that is no improvement of at least 1 %. NULL if the base failed, or has no job
 * of one of the classes: then the figures to compare are 0. */
const struct sim_sweep_point *sim_sweep_best(const struct sim_sweep_result *r, uint32_t workers);
/* Prints a table, and a line per cluster size: "cutoff 90 s, 3 % reserved: short p99 -38 %, long p90 +1
 * %". */
void sim_sweep_print(FILE *f, const struct sim_sweep_result *r);
json_t *sim_sweep_json(const struct sim_sweep_result *r); /* returns a new reference */

#endif
