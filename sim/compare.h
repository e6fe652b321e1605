/* Two runs of the same workload, job by job (Hawk's Figure 5c): what share of the jobs fared better, equally, worse. */
#ifndef HAWK_SIM_COMPARE_H
#define HAWK_SIM_COMPARE_H

#include "sim/sim.h"

#include <jansson.h>

/* Of one true class. */
struct sim_pairs {
    uint32_t jobs;                 /* in both runs */
    uint32_t better, equal, worse; /* in this run than in the other one; equal: within a millisecond */
    double mean_ratio;             /* of this run's response to the other's */
    int64_t ratio_p50, ratio_p90, ratio_p99; /* in thousandths */
};

struct sim_comparison {
    struct sim_pairs classes[CLASS_COUNT];
    uint32_t only_here, only_there; /* jobs without a counterpart, or of another size */
};

/* Reads the other run's jobs as sim_report_jobs wrote them. 0; HAWK_EIO or HAWK_EINVALID with a text that says where. */
HAWK_MUST_USE int sim_compare(const struct sim_result *r, const char *path, struct sim_comparison *c,
                              char *why, size_t size);
json_t *sim_comparison_json(const struct sim_comparison *c); /* a new reference */
void sim_comparison_print(FILE *f, const struct sim_comparison *c);

#endif
