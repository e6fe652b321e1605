/* The classifier: decides a job's class, and learns from finished jobs. Pure: no clock, no I/O, no
 * floating point. A dist holds `struct estimates`, which central sends it. Central holds `struct history`.
 *
 * Hawk 3.2: "long" and "short" follow from a job's estimated task run time, the mean over its tasks. */
#ifndef HAWK_CLASSIFIER_CLASSIFIER_H
#define HAWK_CLASSIFIER_CLASSIFIER_H

#include "base/crowd.h"
#include "msg/types.h"

#include <uthash.h>

/* ---- One job's class ---- */

/* The class of a job under *p. What counts is the user's tag, else estimate_us (the client's), else
 * history_us (of earlier runs of its name); each is 0 when there is none. Below the cutoff a job is short.
 * At the cutoff it is long, unless POLICY_TIE_SHORT. An unknown job is short. With POLICY_ALL_LONG every
 * job is long. *why says what decided. *used_us is the figure for waiting times, 0 when there is none: for
 * a tagged job its estimate, else its history. Either pointer may be NULL. */
enum job_class classify(const struct policy *p, enum class_tag tag, int64_t estimate_us, int64_t history_us,
                        enum class_why *why, int64_t *used_us);

/* ---- Estimates by user and job name, bounded: of the user who has most names, the one that he did not use for
 * longest makes room (base/crowd.h). A user is his number, user_number(); 0: nobody. ---- */

struct estimate {
    struct crowd_entry used;
    struct blob *name; /* owned */
    int64_t mean_us;   /* of a task; at least 1 */
    int64_t pushed_us; /* for central: the mean that dists know; 0: none yet */
    uint32_t runs;     /* the number of finished runs in the mean or, at central, seen at all; saturates */
    struct recent *recent; /* central only: the last runs' means */
    UT_hash_handle hh;
    uint32_t key_len; /* of what follows: the user's number, then the name */
    char key[];
};

struct estimates {
    struct estimate *by_key;
    struct crowd used; /* struct estimate.used: of each user, the most recently used last */
};

/* max_names: of all users; at least 1. */
void estimates_init(struct estimates *e, uint32_t max_names);
void estimates_free(struct estimates *e);
/* Sets the mean of the user's runs of name, which it takes a reference on. Ignored: an empty or NULL name,
 * mean_us < 1. */
void estimates_set(struct estimates *e, uint32_t user, struct blob *name, int64_t mean_us, uint32_t runs);
/* The user's entry of name. A new one has the mean 0, and evicts another when the table is full. NULL for no
 * name. */
struct estimate *estimates_open(struct estimates *e, uint32_t user, struct blob *name);
/* The mean of the user's runs of name. If he has none, that of nobody's: runs from before users were told apart.
 * 0: there is none either. Counts as a use of the name. */
int64_t estimates_get(struct estimates *e, uint32_t user, const struct blob *name);
/* The entry after prev (NULL: the first), user by user, least recently used first; NULL at the end. The table must
 * not change in between. */
const struct estimate *estimates_next(const struct estimates *e, const struct estimate *prev);

/* ---- History: finished jobs -> estimates, cutoff, share of the short partition ---- */

struct history_config {
    uint32_t window;        /* window of finished jobs for cutoff and share; 1..10,000,000; 10,000 */
    uint32_t min_jobs;      /* with fewer jobs in the window nothing is computed; 100 */
    uint32_t names_max;     /* names remembered; 100,000 */
    uint32_t runs_per_name; /* a name's estimate is the mean of this many last runs; 20 */

    bool cutoff_fixed;     /* cutoff_us stays; else it is computed once min_jobs are known */
    int64_t cutoff_us;     /* the fixed one, or the one before the first computation; at least 1; 10 s */
    int64_t cutoff_min_us; /* bounds of a computed cutoff; 1 us */
    int64_t cutoff_max_us; /* LIMIT_TIME_US */
    uint32_t cutoff_percentile_ppm; /* 900,000: the 90th percentile of jobs' mean task run times */
    uint32_t cutoff_hysteresis_ppm; /* part of the cutoff: a smaller move changes nothing; 100,000 */

    bool share_fixed;
    uint32_t share_ppm;            /* the fixed one, or the one before the first computation; 100,000 */
    uint32_t share_min_ppm;        /* bounds of a computed share; 0 */
    uint32_t share_max_ppm;        /* 800,000 */
    uint32_t share_hysteresis_ppm; /* absolute: a smaller move changes nothing, but to 0; 10,000 */
};
void history_config_init(struct history_config *c);

struct history_job {
    struct crowd_entry entry;
    int64_t mean_us;
    uint64_t task_us; /* the sum over its tasks */
};

/* What short jobs used lately: sums over the jobs that ended, of which earlier ones count less and less. The last
 * DEMAND_JOBS of them count for most of it, or those of the last DEMAND_US if those are more. */
#define DEMAND_JOBS 300u
#define DEMAND_US (30 * US_PER_S)
struct demand {
    uint64_t jobs; /* all that ended */
    unsigned __int128 task_us;
    unsigned __int128 weighed; /* task_us times its job's number of tasks */
    int64_t time_us;           /* in which they ended, to last_us */
    int64_t last_us;           /* the last one's end; 0: none ended */
};

struct history {
    struct history_config cfg;
    struct crowd jobs; /* struct history_job.entry: the last cfg.window, by user */
    uint32_t since;    /* jobs added since the last computation */
    struct estimates names;
    struct demand demand;
    uint64_t demand_slots; /* history_follow_demand's */
    uint32_t given_ppm;
    int64_t now_us; /* the demand's: the end of the last job whose end is known, or history_look's */
    int64_t cutoff_us;
    uint32_t share_ppm;
    bool cutoff_computed, share_computed;
};

/* Brings settings that are out of range into range. */
void history_init(struct history *h, const struct history_config *c);
void history_free(struct history *h);
/* Adds one finished job of a user: the mean and the sum of the measured run times of its tasks that exited 0. A
 * job without a name (NULL or empty) counts for cutoff and share only. Returns the estimate of his jobs of that name,
 * which holds until the next history call, or NULL.
 *
 * Each user's jobs weigh in the cutoff as much as their part of the window's task-seconds, all of his jobs the same.
 * So many tiny jobs of one user hardly move it. The share goes by task-seconds anyhow.
 *
 * The estimate is the plain mean of the means of the last runs_per_name runs. Each run is one measurement,
 * so a run of many tasks weighs no more than another. Cutoff and share follow later, after 1/64 of the
 * window at most.
 *
 * end_us: when the job ended, never before the last one; 0 for a job of an earlier central's time, which does
 * not count as demand. */
struct estimate *history_add(struct history *h, uint32_t user, struct blob *name, int64_t mean_us,
                             uint64_t task_us, int64_t end_us);
/* How many jobs the window has. */
static inline uint32_t history_jobs(const struct history *h) { return h->jobs.n; }
/* Chooses the rule for the share from the next computation on. slots 0: the proportion of task-seconds in the
 * window (Hawk 3.4). Else the demand, once cfg.min_jobs short jobs have ended: the part of so many slots that they
 * kept busy lately, and more, since jobs do not come evenly: a standard deviation of that, or a quarter of it if that
 * is more; at most a quarter of what is left. given_ppm: the part of the other slots that short jobs get in any case.
 * If that is enough, the share is 0, whatever its lower bound; else it is at most what the jobs kept busy. */
void history_follow_demand(struct history *h, uint64_t slots, uint32_t given_ppm);
/* Whether the share is fixed, or follows the demand. */
bool history_share_known(const struct history *h);
/* Computes the share that follows the demand again: short work may have ended. Returns when to look next; now_us:
 * not before the last job's end. TIME_NEVER: it does not follow the demand. */
int64_t history_look(struct history *h, int64_t now_us);
/* Brings cutoff and share up to date now (after a recovery). */
void history_compute(struct history *h);
/* Fixes the value that an operator chose, in place of the configured one. */
void history_fix_cutoff(struct history *h, int64_t cutoff_us);
void history_fix_share(struct history *h, uint32_t share_ppm);
/* Makes cutoff and share fixed or computed again, as c says. */
void history_set_back(struct history *h, const struct history_config *c);

/* The cutoff in force. A job is long when its mean is at least the cutoff. A computed cutoff is one
 * microsecond above the percentile, so that equal jobs are all short. */
static inline int64_t history_cutoff(const struct history *h) { return h->cutoff_us; }
static inline bool history_cutoff_computed(const struct history *h) { return h->cutoff_computed; }
/* 1 - (long jobs' share of the window's task-seconds), rounded down (Hawk 3.4, 4.1); or by demand. */
static inline uint32_t history_share_ppm(const struct history *h) { return h->share_ppm; }
static inline bool history_share_fixed(const struct history *h) { return h->cfg.share_fixed; }
static inline bool history_share_computed(const struct history *h) { return h->share_computed; }
/* As estimates_get(). */
static inline int64_t history_estimate(struct history *h, uint32_t user, const struct blob *name)
{
    return estimates_get(&h->names, user, name);
}

/* The window divided by a given cutoff, for reports and tests: jobs, long jobs, and the task-seconds of
 * both. */
struct history_shares {
    uint32_t jobs, long_jobs;
    unsigned __int128 task_us, long_task_us;
};
void history_shares(const struct history *h, int64_t cutoff_us, struct history_shares *s);

#endif
