/* The waiting-time queue: which worker gets the next long task (Hawk 3.7, DESIGN 3.5).
 *
 * A worker's wait is the time until a long task placed there now would start: its unfinished long tasks are
 * list-scheduled over its slots, by their estimates. Short work never counts. A slot whose long task has not
 * yet run for its estimate becomes free at a known moment, so its wait shrinks as time passes. Any other slot
 * holds an amount, which does not shrink by itself: a slot that is free, runs short work, or overruns its
 * estimate (as about half of all tasks do). So a worker is in up to two heaps, by amount and by absolute
 * moment, and the next worker is the better of both heads at `now`. At equal waits an amount without an
 * overrun goes first, so that an idle worker beats an overrunning one; then the lower number.
 *
 * The paper's waiting time is the sum of the queued estimates and the rest of the running one, which is at
 * least 0: tasks behind an overrunning one count in full. So a moment that has passed becomes an amount when
 * its worker comes up for choice. Until then the worker only looks better than it is, so no worker is passed
 * over. */
#ifndef HAWK_CENTRAL_WAITING_H
#define HAWK_CENTRAL_WAITING_H

#include "base/heap.h"
#include "base/list.h"
#include "central/ranking.h"

#include <stdbool.h>
#include <stdint.h>

struct waiting_worker;

/* One long task at a worker. The owner embeds it, and keeps it as long as it is here. */
struct waiting_task {
    union {
        struct {
            struct list link; /* at a worker: in its queued or running; else for the owner's use */
            union {
                int64_t estimate_us;   /* at a worker: 0 or more */
                int64_t not_before_us; /* at no worker: for the owner's use */
            };
        };
        struct heap_node timer; /* at no worker: for the owner's use, in place of `link` */
    };
    struct waiting_worker *worker; /* NULL: at no worker */
    union {
        int64_t finish_us; /* at a worker, once started: when it ends by its estimate */
        int64_t left_us; /* while it stands still: what is left of its estimate; negative: it outlived that */
        int64_t due_us;  /* at no worker: for the owner's use */
    };
    bool running;
    bool stands; /* running, and it stands still */
};

/* When a slot is free of its long tasks: a moment, or an amount of time. */
struct waiting_slot {
    int64_t level_us;
    bool overrun; /* an amount behind a task that outlived its estimate */
};

struct waiting_worker {
    __int128 queued_us;          /* sum of the queued tasks' estimates */
    struct list queued, running; /* struct waiting_task, in order of arrival */
    union {                      /* two heaps: n_amounts amounts, then the moments */
        struct waiting_slot one; /* for a worker with a single slot */
        struct waiting_slot *many;
    };
    int64_t expires_us; /* when the first running task ends by its estimate; TIME_NEVER */
    uint32_t number;
    uint32_t n_slots, n_amounts;
    uint32_t n_queued, n_running;
    bool eligible;
    bool in_amounts, in_moments; /* of struct waiting, while eligible */
    bool unranked;               /* in waiting.unranked */
};

#define UNRANKED_MAX 1024u /* most workers that a step with a task to place ranks anew */

struct waiting {
    struct ranking amounts, moments; /* eligible workers, by their least slot of the kind */
    struct waiting_worker **by_number;
    struct waiting_worker *unranked[UNRANKED_MAX]; /* workers whose places in the heaps are out of date */
    uint32_t n_unranked;
    uint64_t total; /* tasks at all workers */
};

void waiting_init(struct waiting *q);
/* All workers must have been removed. */
void waiting_free(struct waiting *q);

/* Adds a worker with at least one slot, not eligible yet. number decides ties: unique, and small, because it
 * indexes tables. */
void waiting_worker_add(struct waiting *q, struct waiting_worker *w, uint32_t slots, uint32_t number);
/* The worker must have no tasks. */
void waiting_worker_remove(struct waiting *q, struct waiting_worker *w);
/* Whether waiting_best() may choose the worker. */
void waiting_set_eligible(struct waiting *q, struct waiting_worker *w, bool eligible, int64_t now_us);
/* Changes the number of slots. */
void waiting_set_slots(struct waiting *q, struct waiting_worker *w, uint32_t slots, int64_t now_us);

/* The eligible worker with the least wait; NULL: none. now_us must not go backwards. */
struct waiting_worker *waiting_best(struct waiting *q, int64_t now_us);
/* Puts t, which is at no worker, at the end of w's queue. */
void waiting_place(struct waiting *q, struct waiting_worker *w, struct waiting_task *t, int64_t estimate_us,
                   int64_t now_us);
/* A queued task started at started_us (at most now_us). */
void waiting_start(struct waiting *q, struct waiting_task *t, int64_t started_us, int64_t now_us);
/* A running task has run for run_us so far. From now on it stands still, or it runs. While it stands still, its
 * slot holds an amount. */
void waiting_ran(struct waiting *q, struct waiting_task *t, int64_t run_us, bool stands, int64_t now_us);
/* How long a running task has run so far. */
int64_t waiting_age(const struct waiting_task *t, int64_t now_us);
/* A queued or running task ended, or leaves its worker for another reason. */
void waiting_end(struct waiting *q, struct waiting_task *t, int64_t now_us);
/* The wait of a long task placed there now. Changes nothing. */
int64_t waiting_at(const struct waiting_worker *w, int64_t now_us);

/* Aborts if an invariant does not hold; O(workers' tasks) for the worker, O(n) for the heaps. */
void waiting_check(const struct waiting *q);
void waiting_worker_check(const struct waiting *q, const struct waiting_worker *w);

#endif
