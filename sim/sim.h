/* The simulator: the daemons' own central, dists and workers over the bus in virtual time. Config and workload in,
 * results out; no global state, so that several simulations run in threads or forked processes at once.
 *
 * Nothing here decides where a task goes: policies are struct policy's flags. What belongs to the engine is the
 * network's delays, what a message costs, and in which order things happen that happen at the same moment. */
#ifndef HAWK_SIM_SIM_H
#define HAWK_SIM_SIM_H

#include "base/spread.h"
#include "base/trace.h"
#include "msg/types.h"
#include "workload/source.h"

#include <stdio.h>

/* ---- Configuration ---- */

enum sim_estimates {
    SIM_ESTIMATE_MEAN,    /* the mean task duration that the workload states */
    SIM_ESTIMATE_EXACT,   /* the mean of the very durations */
    SIM_ESTIMATE_NOISE,   /* the stated mean times a random factor (Hawk 4.7, Figure 14) */
    SIM_ESTIMATE_HISTORY, /* none: earlier runs of the job's name (sim_config.history) decide */
};

struct sim_config {
    struct policy policy; /* cutoff and share included; fixed for the run */
    uint32_t workers;     /* 1 .. SIM_WORKERS_MAX */
    uint32_t slots;       /* of each; 1 .. LIMIT_SLOTS */
    uint32_t dists;       /* 1 .. SIM_DISTS_MAX; jobs go to them in turn */
    bool deal_random;     /* jobs go to a random dist instead */
    bool queue_per_slot;
    /* As in struct worker_config. */
    int64_t pause_after_us, pause_longest_us;
    uint32_t pause_share_milli;
    bool tag_class; /* every job is tagged with its true class, whatever is estimated */
    uint64_t seed;
    /* Tells jobs' true classes in results, so that runs with different cutoffs compare; 0: the policy's own. A job whose
     * source tags it (trace_job.tag) has that class. */
    int64_t class_cutoff_us;

    uint8_t estimates;                         /* enum sim_estimates */
    uint32_t noise_min_milli, noise_max_milli; /* NOISE: the factor's range, x1000 */
    int64_t delay_min_us, delay_max_us; /* of a message, one way; each pair has its own within the range */
    int64_t scheduler_cost_us, worker_cost_us; /* of every message an endpoint receives or sends */

    /* The published simulator's world (docs/calibration.md): whole seconds, submissions at the same moment shifted
     * by 10 ms each, delays only where it has them. Its policy is sim_compat_policy's. */
    bool compat;
    bool check;        /* look at every role's invariants after every step: slow */
    int64_t sample_us; /* utilization is looked at so often; 0: never */

    uint64_t
        trace_job; /* this job's every hop goes to trace_to: its number in the workload, from 1; 0: none */
    FILE *trace_to;
    /* Optional: now and then, in virtual time. */
    void (*progress)(void *arg, int64_t now_us, uint64_t jobs_ended);
    void *progress_arg;
};
#define SIM_WORKERS_MAX 200000u
#define SIM_SAMPLES_MAX 10000000u /* of utilization in one run; HAWK_ELIMIT beyond */
#define SIM_DISTS_MAX 1000u
#define SIM_TYPES 128 /* at least MSG_TYPE_COUNT */

/* Policy "hawk"; 1 worker of 1 slot, 10 dists, 0.5 ms of delay, 10 us per message at schedulers and workers, the stated
 * means as estimates, samples every 100 s. */
void sim_config_init(struct sim_config *c);
/* Turns p's flags into what the published simulator assumes, flag by flag. */
void sim_compat_policy(struct policy *p);
/* 0, or HAWK_EINVALID with a text that names the setting. */
HAWK_MUST_USE int sim_config_check(const struct sim_config *c, char *why, size_t size);

/* ---- Results ---- */

/* One true class: by the workload's own mean and the cutoff, whatever the policy believed. */
struct sim_class {
    uint32_t jobs;
    uint64_t tasks;
    struct spread response_us; /* submission to the last task's end, per job */
    struct spread wait_us;     /* queueing: submission to start, per task */
    struct spread slowdown;    /* in thousandths: response over the longest task, as on an empty cluster */
    uint32_t mistaken;         /* jobs the policy took for the other class */
};

struct sim_job_result {
    uint64_t number; /* in the workload, from 1 */
    int64_t submit_us, response_us;
    int64_t longest_us; /* its longest task */
    uint32_t tasks;
    uint8_t class;    /* enum job_class: the true one */
    uint8_t believed; /* what the policy took it for */
};

struct sim_result {
    struct sim_class classes[CLASS_COUNT];
    struct sim_job_result *jobs; /* in the order they ended */
    uint32_t jobs_n, jobs_cap;
    uint64_t tasks;

    uint64_t events;                  /* messages and completions delivered to a role; timers are left out */
    uint64_t start_events;            /* of them until the cluster was up */
    uint64_t timers;                  /* TIMER events beside them */
    uint64_t by_type[SIM_TYPES];      /* deliveries by enum msg_type, once the cluster was up */
    uint64_t counters[COUNTER_COUNT]; /* of all roles */
    uint64_t central_received, central_sent; /* messages, once the cluster was up */
    double central_busy; /* share of the time from first to last submission; 0 without cost */

    int64_t first_submit_us, last_submit_us, end_us; /* end: the last job's */
    double utilization_median; /* share of slots, from the submission of 1 % of the jobs to the last one */
    double utilization_median_all; /* from the first submission to the last job's end */
    float *utilization;            /* every sample, sample_us apart */
    uint32_t utilization_n, utilization_cap;
    double cpu_s; /* this thread's */
};

/* Runs the whole workload. 0, the source's error, or HAWK_EINVALID (why says what: a bad config; HAWK_ETIMEOUT: jobs
 * that never end, which no configuration should bring about). *r is to be freed in any case. */
HAWK_MUST_USE int sim_run(const struct sim_config *c, const struct sim_source *source, struct sim_result *r,
                          char *why, size_t size);
/* The yardstick beside it: for the same jobs on as many slots, bounds that no scheduler can beat, however much it knows
 * of what comes (sim/bound.c says why). Fills classes and jobs as sim_run does, queueing and counters with 0. */
HAWK_MUST_USE int sim_bound(const struct sim_config *c, const struct sim_source *source, struct sim_result *r,
                            char *why, size_t size);
void sim_result_free(struct sim_result *r);

#endif
