/* What a simulation found out: as a table for people, as one JSON object, as CSV per class and per job. */
#ifndef HAWK_SIM_REPORT_H
#define HAWK_SIM_REPORT_H

#include "sim/sim.h"

#include <jansson.h>

/* A new reference: per class ("short", "long") n, p50_s, p90_s, p99_s, mean_s, max_s of the response, queueing and
 * slowdown; events, cpu_s, peak_rss_bytes (of the process), utilization (the medians, and every sample), messages,
 * counters, central. */
json_t *sim_report_json(const struct sim_config *c, const struct sim_result *r);

/* The same and more for people. */
void sim_report_table(FILE *f, const struct sim_config *c, const struct sim_result *r);
/* One line per class under a head: class, n, then p50_s, p90_s, p99_s, mean_s, max_s of the response. */
void sim_report_csv(FILE *f, const struct sim_result *r);
/* One line per job, in the order they ended, under a head: number,class,believed,submit_s,response_s,longest_s,tasks. */
void sim_report_jobs(FILE *f, const struct sim_result *r);

#endif
