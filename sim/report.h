/* The results of a simulation: as a table, as one JSON object, as CSV per class and per job. */
#ifndef HAWK_SIM_REPORT_H
#define HAWK_SIM_REPORT_H

#include "sim/sim.h"

#include <jansson.h>

/* Returns a new reference: per class ("short", "long") n, p50_s, p90_s, p99_s, mean_s, max_s of response,
 * queueing and slowdown; where estimates err, of the response of jobs as_short and as_long, by what the
 * policy took them for; events, cpu_s, peak_rss_bytes (of the process), utilization (the medians, and every
 * sample), messages, counters, central. */
json_t *sim_report_json(const struct sim_config *c, const struct sim_result *r);

/* Writes the same and more as a table for people. */
void sim_report_table(FILE *f, const struct sim_config *c, const struct sim_result *r);
/* Writes a header line, then one line per class: class, n, and p50_s, p90_s, p99_s, mean_s, max_s of the
 * response. */
void sim_report_csv(FILE *f, const struct sim_result *r);
/* Writes a header line, then one line per job in the order of their ends:
 * number,class,believed,submit_s,response_s,longest_s,tasks. */
void sim_report_jobs(FILE *f, const struct sim_result *r);

#endif
