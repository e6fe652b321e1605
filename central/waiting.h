/* The waiting-time queue: which worker gets the next long task (Hawk 3.7, DESIGN 3.5).
 *
 * The wait of a worker is when a long task placed there now would start: its unfinished long tasks
 * list-scheduled over its slots, by their estimates. Short work never counts. A slot whose long task has not
 * yet run for its estimate frees at a known moment, so its wait shrinks as time passes; any other slot
 * (free, or busy with short work, or overrunning its estimate: about half of all tasks do) holds an amount
 * that does not shrink by itself. So a worker is in up to two heaps, by amount and by absolute moment, and
 * the next worker is the better of both heads at `now`. At equal waits an amount that is not due to an overrun
 * goes first, so that a truly idle worker beats an overrunning one; then the lower number.
 *
 * The paper's waiting time is the queued estimates plus the rest of the running one, never less than
 * nothing: what is queued behind an overrunning task still counts in full. A moment that has passed is
 * therefore turned into an amount when its worker comes up for choice. Until then it only makes the worker
 * look too good, never too bad, so nobody is passed over. */
#ifndef HAWK_CENTRAL_WAITING_H
#define HAWK_CENTRAL_WAITING_H

#include "base/list.h"
#include "central/ranking.h"

#include <stdbool.h>
#include <stdint.h>

struct waiting_worker;

/* One long task at a worker; embedded by its owner, who keeps it as long as it is here. */
struct waiting_task {
    struct list link;              /* at a worker: in its queued or running; at none: its owner's */
    struct waiting_worker *worker; /* NULL: at none */
    int64_t estimate_us;           /* at least 0 */
    union {
        int64_t finish_us; /* at a worker, once started: when it ends by its estimate */
        int64_t due_us;    /* at none: its owner's */
    };
    bool running;
};

/* When a slot is free of the long tasks counted on it: a moment, or an amount of time. */
struct waiting_slot {
    int64_t level_us;
    bool overrun; /* an amount behind a task that outlived its estimate */
};

struct waiting_worker {
    __int128 queued_us;          /* sum of the queued tasks' estimates */
    struct list queued, running; /* struct waiting_task, both in order of arrival */
    union {                      /* two heaps: n_amounts amounts, then the moments */
        struct waiting_slot one; /* where a single slot lives */
        struct waiting_slot *many;
    };
    int64_t expires_us; /* the earliest running task's finish by estimate; TIME_NEVER */
    uint32_t number;
    uint32_t n_slots, n_amounts;
    uint32_t n_queued, n_running;
    bool eligible;
    bool in_amounts, in_moments; /* of waiting, while eligible */
    bool unranked;               /* one of waiting.unranked */
};

#define UNRANKED_MAX 1024u /* so many workers at most are ranked anew by one step that has a task to place */

struct waiting {
    struct ranking amounts, moments; /* eligible workers by their least slot of the kind */
    struct waiting_worker **by_number;
    struct waiting_worker *unranked[UNRANKED_MAX]; /* their places are those of earlier slots */
    uint32_t n_unranked;
    uint64_t total; /* tasks at them */
};

void waiting_init(struct waiting *q);
/* All workers must have been removed. */
void waiting_free(struct waiting *q);

/* A worker of slots (at least 1), not eligible yet. number decides ties: unique, and small, since tables go by it. */
void waiting_worker_add(struct waiting *q, struct waiting_worker *w, uint32_t slots, uint32_t number);
/* It must have no tasks. */
void waiting_worker_remove(struct waiting *q, struct waiting_worker *w);
/* Whether waiting_best may choose it. */
void waiting_set_eligible(struct waiting *q, struct waiting_worker *w, bool eligible, int64_t now_us);
/* Another number of slots. */
void waiting_set_slots(struct waiting *q, struct waiting_worker *w, uint32_t slots, int64_t now_us);

/* The eligible worker with the least wait, NULL when there is none. now_us must not go backwards. */
struct waiting_worker *waiting_best(struct waiting *q, int64_t now_us);
/* Puts t, which is at no worker, at the end of w's queue. */
void waiting_place(struct waiting *q, struct waiting_worker *w, struct waiting_task *t, int64_t estimate_us,
                   int64_t now_us);
/* A queued task was reported to have started at started_us (at most now_us). */
void waiting_start(struct waiting *q, struct waiting_task *t, int64_t started_us, int64_t now_us);
/* A task that is queued or running ended, or leaves w for another reason. */
void waiting_end(struct waiting *q, struct waiting_task *t, int64_t now_us);
/* What a long task placed there now would wait. Changes nothing. */
int64_t waiting_at(const struct waiting_worker *w, int64_t now_us);

/* Aborts when an invariant does not hold; O(workers' tasks) for the worker, O(n) for the heaps. */
void waiting_check(const struct waiting *q);
void waiting_worker_check(const struct waiting *q, const struct waiting_worker *w);

#endif
