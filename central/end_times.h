/* Workers that have an end (docs/protocol.md 13). No long task is placed at one if its estimate does not fit into the
 * time that is left there. A job that fits at none of the workers that would take its tasks now waits apart: it has no
 * turn until a worker with more time takes tasks, so that it holds up nobody and costs nothing meanwhile. */
#ifndef HAWK_CENTRAL_END_TIMES_H
#define HAWK_CENTRAL_END_TIMES_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct blob;
struct central;
struct long_job;
struct msg;
struct node;
struct waiting_worker;

struct end_times {
    uint32_t workers;  /* that have an end */
    struct list apart; /* long_job.apart */
    int64_t least_us;  /* none of these jobs has a smaller estimate; TIME_NEVER: there are none */
    uint64_t changes;  /* of who takes tasks, and until when */
    int64_t last_us;   /* all workers that take tasks of any user now end by then; TIME_NEVER: not known */
};

void end_times_init(struct end_times *e);
/* The worker has a new process: if that has an end, it will say so. */
void end_times_forget(struct central *c, struct node *n);
/* Tells a dist when n ends, if it has an end: the dist forgot that if n was gone. */
void end_times_tell(struct central *c, const struct node *dist, const struct node *n);
/* Tells a dist that has just joined which workers have an end. */
void end_times_tell_all(struct central *c, const struct node *dist);

/* The estimate of j's tasks that decides: its user's, else that of the history. 0: there is none, or no worker
 * has an end, and its tasks fit anywhere. The cutoff, which stands in for an estimate elsewhere, does not count. */
int64_t end_times_estimate(struct central *c, const struct long_job *j);
/* Whether tasks of that estimate fit into the time that n has left. */
bool end_times_fit(const struct central *c, const struct node *n, int64_t estimate_us);
/* When the last of the workers ends that take tasks now and serve j's application, or its user alone; NO_TAKER: there
 * are none. O(1); after a change O(such workers). */
#define NO_TAKER (-1)
int64_t end_times_last_own(const struct central *c, const struct long_job *j);
/* Of the eligible workers where j's tasks fit, the one with the least waiting time; NULL: none. */
struct waiting_worker *end_times_best(struct central *c, const struct long_job *j);
/* Sets j apart, to wait there from now on, if some worker would take a task of j now but none of those has the time for
 * it. Returns whether it did. */
bool end_times_try_set_apart(struct central *c, struct long_job *j);
/* What n takes has changed: jobs that fit there get a turn again. */
void end_times_look(struct central *c, const struct node *n);
/* The history knows more of the jobs of a name: those that wait apart get a turn again, and may fit now. */
void end_times_learned(struct central *c, const struct blob *name);
void end_times_check(const struct central *c);
void central_on_ends(struct central *c, const struct msg *in);

#endif
