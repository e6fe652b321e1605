/* Peers of a benchmark of no-op tasks, gearmand and a Redis list: their servers, and programs of bench/peers
 * as their clients and workers. */
#ifndef HAWK_BENCH_LIB_PEERS_H
#define HAWK_BENCH_LIB_PEERS_H

#include "bench/lib/figures.h"

struct peers;

/* Starts the servers. What is not installed is said to be, and left out. */
struct peers *peers_start(void);
void peers_stop(struct peers *p);
/* One after the other: tasks per second of each in each of its modes, and the times of a task where it is the only one.
 * tasks: as many as take Hawk some seconds. */
void peers_measure(struct peers *p, struct figures *f, uint64_t tasks);
/* How many times as many tasks per second those of the same round were that Hawk did; and the targets. */
void peers_compare(const struct peers *p, struct figures *f, double hawk_rate);

#endif
