/* /metrics of a daemon, in the format of OpenMetrics (docs/reference/metrics.md).
 *
 * Once a second the loop's thread writes the page, and hands it over. A thread of libmicrohttpd answers whoever asks
 * from what it was handed last. Neither waits for the other. */
#ifndef HAWK_DAEMON_METRICS_H
#define HAWK_DAEMON_METRICS_H

#include "base/histogram.h"
#include "net/loop.h"
#include "net/server.h"

#include <stdio.h>

struct metrics;

struct metrics_config {
    const char *listen;          /* HOST:PORT or unix:PATH */
    const char *token;           /* that readers must show; NULL: none. Copied */
    const char *role, *version;  /* of this process; outlive it. role: central, dist, worker or up */
    const struct server *server; /* whose calls are counted; outlives it */
    /* Writes the families of the role, with the functions below. On the loop's thread, which it must not hold up. */
    void (*fill)(void *arg, FILE *page);
    void *arg;
};

/* NULL after a message in why (size bytes): nothing can listen there. */
struct metrics *metrics_start(struct loop *l, const struct metrics_config *c, char *why, size_t size);
/* The address that it listens on, with its real port. */
const char *metrics_addr(const struct metrics *m);
/* NULL is fine. */
void metrics_stop(struct metrics *m);

/* ---- Families. A counter's name is without "_total". ---- */

/* Begins a family. type: "gauge", "counter", "histogram" or "info". */
void metrics_family(FILE *page, const char *name, const char *type, const char *help);
/* One sample of a gauge. labels: `class="short"`, or "" for none. */
void metrics_gauge(FILE *page, const char *name, const char *labels, double value);
/* One sample of a counter. */
void metrics_counter(FILE *page, const char *name, const char *labels, double value);
/* One histogram of the family. */
void metrics_histogram(FILE *page, const char *name, const char *labels, const struct histogram *h,
                       enum histogram_scale scale);

#endif
