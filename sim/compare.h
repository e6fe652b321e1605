/* Compares two runs of the same workload, job by job (Hawk, Figure 5c): the shares of jobs that fared better,
 * equally and worse. */
#ifndef HAWK_SIM_COMPARE_H
#define HAWK_SIM_COMPARE_H

#include "sim/sim.h"

#include <jansson.h>

/* The jobs of one true class. */
struct sim_pairs {
    uint32_t jobs;                           /* in both runs */
    uint32_t better, equal, worse;           /* in this run than in the other; equal: within a millisecond */
    double mean_ratio;                       /* this run's response over the other's */
    int64_t ratio_p50, ratio_p90, ratio_p99; /* in thousandths */
};

struct sim_comparison {
    struct sim_pairs classes[CLASS_COUNT];
    /* Jobs that the other run does not have, or has with another number of tasks. */
    uint32_t only_here, only_there;
};

/* The jobs of the other run. */
struct sim_other_job;
struct sim_others {
    struct sim_other_job *v;
    uint64_t n; /* jobs have numbers below it */
};

/* Reads the other run's jobs from a file of sim_report_jobs(). Returns 0, HAWK_EIO or HAWK_EINVALID; why says
 * where the error is. The caller frees *o in any case. */
HAWK_MUST_USE int sim_others_read(struct sim_others *o, const char *path, char *why, size_t size);
void sim_others_free(struct sim_others *o);
void sim_compare(const struct sim_result *r, const struct sim_others *o, struct sim_comparison *c);
json_t *sim_comparison_json(const struct sim_comparison *c); /* returns a new reference */
void sim_comparison_print(FILE *f, const struct sim_comparison *c);

#endif
