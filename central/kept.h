/* Long tasks that wait for a worker, and whose turn it is (docs/protocol.md 4.3). A job's tasks wait in the
 * order in which they came to wait. Jobs take turns by a key, the least one first:
 *
 *   key  = time at which central got the job + central.long_stretch * size
 *   size = number of its tasks * run time of a task / slots of the cluster   (0 without POLICY_LONG_BY_WORK)
 *
 * So only jobs that came less than long_stretch * (its size - their size) after a job overtake it, and no job
 * overtakes it that came later than long_stretch * its size. Within this bound the smallest job goes first.
 *
 * The size is the time for which the whole job would fill the cluster, by its estimate, and not what remains of
 * it. An order by what remains of an estimate has no bounded ratio to the optimum when estimates err; the order
 * by the original estimate has one (Scully, Grosof, Harchol-Balter 2021). A task past its estimate is large,
 * never nearly done: if the job's tasks together show more than the estimate, that counts instead. */
#ifndef HAWK_CENTRAL_KEPT_H
#define HAWK_CENTRAL_KEPT_H

#include "base/heap.h"

struct central;
struct long_job;
struct long_task;

/* The turn of a job. since_us = INT64_MIN: no job's. */
struct kept_turn {
    int64_t key_us, since_us, size_us;
};

/* t begins to wait; it ceases to wait. O(log jobs whose tasks wait). */
void kept_add(struct central *c, struct long_task *t);
void kept_remove(struct central *c, struct long_task *t);
/* The task whose turn it is, or NULL when none waits. */
struct long_task *kept_first(const struct heap *kept);
/* Takes the turn from j, whose tasks wait, until it is readmitted. kept_add() admits j by itself. */
void kept_pass_over(struct central *c, struct long_job *j);
void kept_readmit(struct central *c, struct long_job *j);
/* Computes j's size again, because its tasks have shown more; that of all jobs, because the policy has changed. */
void kept_resize(struct central *c, struct long_job *j);
void kept_resize_all(struct central *c);
/* Computes all sizes again if the cluster has more than twice, or less than half, of the slots that they count. */
void kept_follow(struct central *c);

/* What kept_check compares with: a step begins; in it a task of j, whose turn it is, goes to a worker that
 * may be any. */
void kept_serve_none(struct central *c);
void kept_serve(struct central *c, const struct long_job *j);
/* Aborts unless `kept` is in order and, in this step, no job in it was overtaken beyond the bound. */
void kept_check(const struct central *c, const struct heap *kept);

#endif
