/* The classifier: what a job counts as, and what is learnt from finished ones. Pure: no clock, no I/O, no
 * floating point. Dists hold `struct estimates` (what central told them), central holds `struct history`.
 *
 * Hawk 3.2: "long" and "short" follow from a job's estimated task run time, the mean over its tasks. */
#ifndef HAWK_CLASSIFIER_CLASSIFIER_H
#define HAWK_CLASSIFIER_CLASSIFIER_H

#include "base/list.h"
#include "msg/types.h"

#include <uthash.h>

/* ---- One job's class ---- */

/* The class of a job under *p: the user's tag, else estimate_us (the client's), else history_us (of earlier
 * runs of its name), each 0 when there is none; below the cutoff is short, equal is long unless
 * POLICY_TIE_SHORT; a job nobody knows is short. POLICY_ALL_LONG: everything is long. *why says what decided. *used_us is the figure to go by for
 * waiting times, 0 when there is none: a tagged job's is its estimate, else its history. Either pointer may
 * be NULL. */
enum job_class classify(const struct policy *p, enum class_tag tag, int64_t estimate_us, int64_t history_us,
                        enum class_why *why, int64_t *used_us);

/* ---- Estimates by job name, bounded: the name not used for longest makes room ---- */

struct estimate {
    struct blob *name;     /* owned */
    int64_t mean_us;       /* of a task; at least 1 */
    int64_t pushed_us;     /* for central: the mean the dists know; 0: none yet */
    uint32_t runs;         /* finished runs it is the mean of or, at central, that were seen; saturates */
    struct recent *recent; /* central only: the last runs' means */
    struct list lru;
    UT_hash_handle hh;
};

struct estimates {
    struct estimate *by_name;
    struct list lru; /* the most recently used last */
    uint32_t n, max;
};

/* max_names: at least 1. */
void estimates_init(struct estimates *e, uint32_t max_names);
void estimates_free(struct estimates *e);
/* Sets the mean of name, which it takes a reference on. Ignored: an empty or NULL name, mean_us < 1. */
void estimates_set(struct estimates *e, struct blob *name, int64_t mean_us, uint32_t runs);
/* The entry of name, added with a mean of 0 when it is new, evicting another when full; NULL for no name. */
struct estimate *estimates_open(struct estimates *e, struct blob *name);
/* The mean of name, or 0. Counts as a use of the name. */
int64_t estimates_get(struct estimates *e, const struct blob *name);
/* The name after prev (NULL: the first), least recently used first; NULL at the end. The table must not
 * change in between. */
const struct estimate *estimates_next(const struct estimates *e, const struct estimate *prev);

/* ---- History: finished jobs -> estimates, cutoff, share of the short partition ---- */

struct history_config {
    uint32_t window;        /* finished jobs that count for cutoff and share; 1..10,000,000; 10,000 */
    uint32_t min_jobs;      /* fewer in the window: nothing is computed; 100 */
    uint32_t names_max;     /* names remembered; 100,000 */
    uint32_t runs_per_name; /* a name's estimate is the mean over its last so many runs; 20 */

    bool cutoff_fixed;              /* cutoff_us for ever; else computed once min_jobs are known */
    int64_t cutoff_us;              /* the fixed one, or the one until then; at least 1; 10 s */
    int64_t cutoff_min_us;          /* bounds of a computed cutoff; 1 us */
    int64_t cutoff_max_us;          /* LIMIT_TIME_US */
    uint32_t cutoff_percentile_ppm; /* 900,000: the 90th percentile of jobs' mean task run times */
    uint32_t cutoff_hysteresis_ppm; /* of the cutoff: it changes only when it moves by more; 100,000 */

    bool share_fixed;
    uint32_t share_ppm;            /* the fixed one, or the one until then; 100,000 */
    uint32_t share_min_ppm;        /* bounds of a computed share; 0 */
    uint32_t share_max_ppm;        /* 500,000 */
    uint32_t share_hysteresis_ppm; /* absolute: it changes only when it moves by more; 10,000 */
};
void history_config_init(struct history_config *c);

struct history_job {
    int64_t mean_us;
    uint64_t task_us; /* the sum over its tasks */
};

struct history {
    struct history_config cfg;
    struct history_job *jobs; /* a ring of the last cfg.window */
    uint32_t n, cap, next;    /* used, allocated, where the next one goes */
    uint32_t since;           /* jobs added since it was computed last */
    struct estimates names;
    int64_t cutoff_us;
    uint32_t share_ppm;
    bool cutoff_computed, share_computed;
};

/* Out-of-range settings are brought into range. */
void history_init(struct history *h, const struct history_config *c);
void history_free(struct history *h);
/* Adds one finished job: mean and sum of the measured run times of its tasks that exited 0. A job without a
 * name (NULL or empty) counts for cutoff and share only. Returns the name's estimate, which holds until the
 * next history call, or NULL. The estimate is the plain mean of the last runs_per_name runs' means: each run
 * is one measurement of what is predicted, a run's mean; a run of many tasks weighs no more than another.
 * Cutoff and share follow, not with every job but after 1/64 of the window at latest. */
struct estimate *history_add(struct history *h, struct blob *name, int64_t mean_us, uint64_t task_us);
/* Brings cutoff and share up to date now (after a recovery). */
void history_compute(struct history *h);
/* The operator's choice replaces what was configured, and is fixed from now on. */
void history_fix_cutoff(struct history *h, int64_t cutoff_us);
void history_fix_share(struct history *h, uint32_t share_ppm);
/* Cutoff and share are fixed, or computed, as c says once more. */
void history_set_back(struct history *h, const struct history_config *c);

/* What is in force. A job is long when its mean is at least the cutoff; a computed cutoff is one microsecond
 * above the percentile, so that equal jobs are all short. */
static inline int64_t history_cutoff(const struct history *h) { return h->cutoff_us; }
static inline bool history_cutoff_computed(const struct history *h) { return h->cutoff_computed; }
/* 1 - (long jobs' share of the window's task-seconds), rounded down (Hawk 3.4, 4.1). */
static inline uint32_t history_share_ppm(const struct history *h) { return h->share_ppm; }
static inline bool history_share_computed(const struct history *h) { return h->share_computed; }
/* What a name's estimate is, 0 when unknown. */
static inline int64_t history_estimate(struct history *h, const struct blob *name)
{
    return estimates_get(&h->names, name);
}

/* The window by a given cutoff, for reports and tests: jobs, long ones, and both in task-seconds. */
struct history_shares {
    uint32_t jobs, long_jobs;
    unsigned __int128 task_us, long_task_us;
};
void history_shares(const struct history *h, int64_t cutoff_us, struct history_shares *s);

#endif
