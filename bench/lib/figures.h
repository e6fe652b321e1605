/* What a benchmark reports: named figures, one value each per round, as medians with their range; on stdout
 * and as JSON. */
#ifndef HAWK_BENCH_LIB_FIGURES_H
#define HAWK_BENCH_LIB_FIGURES_H

#include "base/err.h"

#include <stdint.h>

#define FIGURE_ROUNDS_MAX 1000u

struct figures;

/* bench: what messages and the report call it. Also notes how busy the machine is. */
struct figures *figures_new(const char *bench);
/* A round's value of the figure of this name, in the order in which they are first named. */
void figures_add(struct figures *f, const char *name, const char *unit, double value);
/* A round's "NAME, p50", "NAME, p90" and "NAME, p99" of n values, which are sorted. */
void figures_add_quantiles(struct figures *f, const char *name, const char *unit, double *v, uint32_t n);
/* What its median must reach: at least, or at most. */
void figures_at_least(struct figures *f, const char *name, double target);
void figures_at_most(struct figures *f, const char *name, double target);
/* Of the values so far; 0: there are none. */
double figures_median(const struct figures *f, const char *name);
/* Prints all, writes them to path (NULL: nowhere), and frees. A target that is missed is said, and is no failure. */
void figures_end(struct figures *f, const char *path);

/* Prints "name: message" and exits with 1. */
void bench_die(const char *fmt, ...) HAWK_PRINTF(1, 2) __attribute__((noreturn));
/* What bench_die says first; static. */
void bench_name(const char *name);

double wall_s(void);
double cpu_s(void); /* of this process, all threads */

#endif
