/* What if: one workload over a grid of cutoffs, short partitions and cluster sizes, a process per run, and which point
 * of it serves best. Compared with the base, the settings without the grid, at the same cluster size; classes are the
 * base's in every run, so that a point is not better only because it calls other jobs short. */
#ifndef HAWK_SIM_SWEEP_H
#define HAWK_SIM_SWEEP_H

#include "sim/sim.h"
#include "workload/generate_table.h"

#include <jansson.h>

#define SWEEP_VALUES_MAX 100u /* of one axis */
#define SWEEP_POINTS_MAX 10000u

/* An axis without values stays at the base's. */
struct sim_sweep {
    int64_t cutoffs_us[SWEEP_VALUES_MAX];
    uint32_t shares_ppm[SWEEP_VALUES_MAX], workers[SWEEP_VALUES_MAX];
    uint32_t cutoffs_n, shares_n, workers_n;
};

/* "cutoff=60s,90s,2m,partition=0%,2%,4%,workers=3000,4000": axes in any order, each at most once. HAWK_EINVALID, *why
 * says which word is wrong and what was expected. */
HAWK_MUST_USE int sim_sweep_parse(struct sim_sweep *s, const char *text, char *why, size_t size);

struct sim_sweep_point {
    int64_t cutoff_us;
    uint32_t share_ppm, workers;
    bool base; /* of its cluster size */
    int err;   /* HAWK_ERRORS; the figures hold when 0 */
    char why[160];
    uint64_t jobs_ended; /* while it runs */
    struct spread response_us[CLASS_COUNT];
    double utilization; /* the median */
};

struct sim_sweep_result {
    struct sim_sweep_point
        *points; /* by workers, partition, cutoff, as the axes list them, after each size's base */
    uint32_t n;
    uint64_t jobs; /* of the workload */
};

/* Where every run's jobs come from: a trace's path (not standard input), or a table and the seed to draw with. */
struct sim_sweep_input {
    const char *trace;
    const struct job_table *table;
    uint64_t seed;
};

/* Runs the grid, as many at once as given, and draws a progress bar on it when bar is not NULL. 0 when every run could
 * be made: a single run's error is in its point. Otherwise an error of the workload or of the system, with a text.
 * *r is to be freed in any case. */
HAWK_MUST_USE int sim_sweep_run(const struct sim_config *base, const struct sim_sweep *s,
                                const struct sim_sweep_input *input, uint32_t at_once, FILE *bar,
                                struct sim_sweep_result *r, char *why, size_t size);
void sim_sweep_free(struct sim_sweep_result *r);

/* The point with the lowest short p99 among those of a cluster size that cost long jobs at most 5 % at p90, when that is
 * an improvement of 1 % at least; otherwise the base itself. NULL when the base failed. */
const struct sim_sweep_point *sim_sweep_best(const struct sim_sweep_result *r, uint32_t workers);
/* A table, and a line per cluster size: "cutoff 90 s, 3 % reserved: short p99 -38 %, long p90 +1 %". */
void sim_sweep_print(FILE *f, const struct sim_sweep_result *r);
json_t *sim_sweep_json(const struct sim_sweep_result *r); /* a new reference */

#endif
