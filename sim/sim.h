/* The simulator: the daemons' own central, dists and workers on the bus, in virtual time. A configuration and
 * a workload go in, results come out. It has no global state, so that several simulations can run in threads
 * or child processes at once.
 *
 * The simulator takes no decision of policy: struct policy and its flags do. The engine adds the network's
 * delays, the cost of a message, and the order of events of the same moment. */
#ifndef HAWK_SIM_SIM_H
#define HAWK_SIM_SIM_H

#include "base/spread.h"
#include "base/trace.h"
#include "base/units.h"
#include "msg/types.h"
#include "workload/source.h"

#include <stdio.h>

/* ---- Configuration ---- */

enum sim_estimates {
    SIM_ESTIMATE_MEAN,    /* the mean of the tasks' durations, as the workload states it */
    SIM_ESTIMATE_EXACT,   /* the mean of the actual durations */
    SIM_ESTIMATE_NOISE,   /* the stated mean times a random factor (Hawk 4.7, Figure 14) */
    SIM_ESTIMATE_HISTORY, /* no estimate: earlier runs of the job's name (sim_config.history) decide */
};

struct sim_config {
    struct policy policy; /* with cutoff and share; fixed for the run */
    bool share_auto;      /* the share follows the history, as with central.short_partition: auto */
    uint32_t workers;     /* 1 .. SIM_WORKERS_MAX */
    uint32_t slots;       /* of each worker; 1 .. LIMIT_SLOTS */
    uint32_t dists;       /* 1 .. SIM_DISTS_MAX; each gets jobs in turn */
    bool deal_random;     /* each job goes to a random dist instead */
    uint32_t users;       /* each job is one of so many users', at random; 0 or 1: nobody's */
    bool queue_per_slot;
    /* As in struct worker_config. */
    int64_t pause_after_us, pause_longest_us;
    uint32_t pause_share_milli;
    uint32_t long_stretch; /* as in struct central_config */
    bool tag_class;        /* tag every job with its true class, whatever its estimate */
    uint64_t seed;
    /* The cutoff of the true classes in results, so that runs with different cutoffs compare; 0: the policy's
     * own. A job with a tag in its source (trace_job.tag) has that class. */
    int64_t class_cutoff_us;

    uint8_t estimates;                         /* enum sim_estimates */
    uint32_t noise_min_milli, noise_max_milli; /* NOISE: range of the factor, in thousandths */
    bool noise_log;                            /* NOISE: the factor's logarithm is uniform, not the factor */
    int64_t delay_min_us, delay_max_us; /* of a message, one way; each pair has its own delay in this range */
    int64_t scheduler_cost_us, worker_cost_us; /* of every message that an endpoint receives or sends */

    /* The published simulator's world (docs/notebook/calibration.md): whole seconds; submissions of the same moment 10
     * ms apart; delays only where it has them. sim_compat_policy() gives its policy. */
    bool compat;
    bool check; /* check every role's invariants after every step: slow */
    /* Time between samples of utilization. 0: 100 s with compat, as the published simulator has it; otherwise
     * SIM_SAMPLE_LEAST_US, doubled whenever there are SIM_SAMPLES_THINNED samples, of which every other one stays. */
    int64_t sample_us;

    uint64_t trace_job; /* a job's number in the workload, from 1, whose messages go to trace_to; 0: none */
    FILE *trace_to;
    /* Optional: called now and then, in virtual time. */
    void (*progress)(void *arg, int64_t now_us, uint64_t jobs_ended);
    void *progress_arg;
};
#define SIM_WORKERS_MAX 200000u
#define SIM_SAMPLES_MAX 10000000u /* samples of utilization in one run; more: HAWK_ELIMIT */
#define SIM_SAMPLE_LEAST_US (10 * US_PER_MS)
#define SIM_SAMPLES_THINNED 4096u
#define SIM_DISTS_MAX 1000u
#define SIM_TYPES 128 /* MSG_TYPE_COUNT or more */

/* Policy "hawk"; 1 worker with 1 slot, 10 dists; 0.5 ms of delay; 10 us per message at schedulers and
 * workers; the stated means as estimates. */
void sim_config_init(struct sim_config *c);
/* Sets p's flags as the published simulator assumes them. */
void sim_compat_policy(struct policy *p);
/* Returns 0, or HAWK_EINVALID: why names the setting. */
HAWK_MUST_USE int sim_config_check(const struct sim_config *c, char *why, size_t size);

/* ---- Results ---- */

/* One true class: by the workload's own mean and the cutoff, whatever class the policy gave the job. */
struct sim_class {
    uint32_t jobs;
    uint64_t tasks;
    struct spread response_us;           /* submission to the last task's end, per job */
    struct spread taken_us[CLASS_COUNT]; /* of them, of the jobs that the policy took for this class */
    struct spread wait_us;               /* queueing: submission to start, per task */
    /* In thousandths, of jobs whose longest task takes time: response over that task, which is the response on an
     * empty cluster. */
    struct spread slowdown;
    uint32_t mistaken; /* jobs to which the policy gave the other class */
};

struct sim_job_result {
    uint64_t number; /* number in the workload, from 1 */
    int64_t submit_us, response_us;
    int64_t longest_us; /* of its longest task */
    uint32_t tasks;
    uint8_t class;    /* enum job_class: the true class */
    uint8_t believed; /* the class that the policy gave it */
};

struct sim_result {
    struct sim_class classes[CLASS_COUNT];
    struct sim_job_result *jobs; /* in the order of their ends */
    uint32_t jobs_n, jobs_cap;
    uint64_t tasks;

    uint64_t events;                         /* messages and ends of tasks that roles got, without timers */
    uint64_t start_events;                   /* those of them before the cluster was up */
    uint64_t timers;                         /* TIMER events */
    uint64_t by_type[SIM_TYPES];             /* deliveries by enum msg_type, once the cluster was up */
    uint64_t counters[COUNTER_COUNT];        /* of all roles */
    uint64_t central_received, central_sent; /* messages, once the cluster was up */
    double central_busy; /* share of the time from first to last submission; 0 without cost */

    int64_t first_submit_us, last_submit_us, end_us; /* end_us: of the last job */
    /* Share of busy slots, from the submission of 1 % of the jobs to the last submission. */
    double utilization_median;
    double utilization_median_all; /* the same, from the first submission to the last job's end */
    float *utilization;            /* all samples, sample_us apart */
    int64_t sample_us;
    uint32_t utilization_n, utilization_cap;
    double cpu_s; /* of this thread */
};

/* Runs the whole workload. Returns 0, an error of the source, HAWK_EINVALID (a bad configuration) or
 * HAWK_ETIMEOUT (jobs that never end, which no configuration should cause); why says more. The caller frees
 * *r in any case. */
HAWK_MUST_USE int sim_run(const struct sim_config *c, const struct sim_source *source, struct sim_result *r,
                          char *why, size_t size);
/* Computes bounds for the same jobs on as many slots, which no scheduler can beat, whatever it knows of the
 * future (sim/bound.c says why). Fills classes and jobs as sim_run() does; queueing and counters are 0. */
HAWK_MUST_USE int sim_bound(const struct sim_config *c, const struct sim_source *source, struct sim_result *r,
                            char *why, size_t size);
void sim_result_free(struct sim_result *r);

#endif
