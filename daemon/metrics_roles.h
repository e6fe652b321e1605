/* What each role puts on the page of metrics (daemon/metrics.h). */
#ifndef HAWK_DAEMON_METRICS_ROLES_H
#define HAWK_DAEMON_METRICS_ROLES_H

#include "central/central.h"
#include "daemon/journal.h"
#include "dist/dist.h"
#include "worker/worker.h"

#include <stdio.h>

/* Families of n workers, which one process has. */
void metrics_of_workers(FILE *page, const struct worker *w, uint32_t n, int64_t now_us);
void metrics_of_dist(FILE *page, const struct dist *d, int64_t now_us);
/* NULL: it stands by. */
void metrics_of_central(FILE *page, const struct central *c, int64_t now_us);
/* Of a process that has a journal. */
void metrics_of_journal(FILE *page, const struct journal *j);
/* All counters of the process's roles; COUNTER_COUNT of them. */
void metrics_of_counters(FILE *page, const uint64_t *counters);

#endif
