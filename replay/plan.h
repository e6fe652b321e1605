/* The jobs of a replay: a trace's jobs, cut to a cluster's size and to a test's length, and their arrival
 * times. It is pure arithmetic, so that tests can check it without a cluster. */
#ifndef HAWK_REPLAY_PLAN_H
#define HAWK_REPLAY_PLAN_H

#include "base/err.h"
#include "msg/types.h"

/* How the trace is scaled. The rest stays as in the trace. */
struct replay_scale {
    uint32_t jobs;      /* only this many first jobs; 0: all */
    double time;        /* the factor of every time of the trace; above 0 */
    double tasks;       /* the factor of every job's number of tasks (0 < tasks <= 1); 0: none */
    uint32_t max_tasks; /* or the number of tasks of the largest job after scaling; 0: no such factor */
    int64_t cap_us;     /* no task takes longer than this, after all scaling; 0: no bound */
};

struct replay_plan_job {
    uint64_t line;         /* in the trace */
    int64_t at_us;         /* when to submit it, from the start of the replay */
    int64_t trace_mean_us; /* as the trace states it, before any scaling */
    int64_t mean_us;       /* mean of the durations below: the estimate of an exact client */
    int64_t max_us;        /* the longest duration: the job's response time on an empty cluster */
    size_t first;          /* place of its first duration in the plan's */
    uint32_t tasks;
    uint8_t class; /* enum job_class: the true class, whatever class the cluster gives it */
};

struct replay_plan {
    struct replay_plan_job *jobs;
    uint32_t n, jobs_cap;
    int64_t *durations_us; /* of all tasks, job after job */
    size_t tasks, durations_cap;
    uint32_t largest;    /* tasks of the largest job */
    int64_t task_us;     /* task-seconds that will run */
    int64_t uncapped_us; /* ... and those without cap_us */
    size_t tasks_capped; /* tasks that cap_us made shorter */
    bool classified;
    uint32_t long_jobs;   /* when classified */
    int64_t long_task_us; /* their task-seconds */
    uint32_t misjudged;   /* jobs to which their estimates give the other class, once those are looked at */
    int64_t mean_gap_us;  /* time between arrivals: that of the Poisson process, or measured in the trace */
    int64_t last_arrival_us; /* the last job's at_us */
};

/* Reads path and scales it. Arrivals are the trace's own times, scaled, from 0 for the first job. Jobs
 * have no class yet. On an error (HAWK_EINVALID, HAWK_EIO; HAWK_ETOO_LARGE when all task-seconds exceed
 * 2^62 us) why says what and where. */
HAWK_MUST_USE int replay_plan_read(struct replay_plan *p, const char *path, const struct replay_scale *s,
                                   char *why, size_t size);
void replay_plan_free(struct replay_plan *p);

/* Gives each job its true class: compares the trace's mean with a cutoff in the trace's time (Hawk 3.3). */
void replay_plan_classify(struct replay_plan *p, int64_t trace_cutoff_us);
/* Counts the jobs that the cluster will take for the other class by mean_us and its cutoff: fewer tasks take longer,
 * and the cap makes some shorter. */
void replay_plan_judge_estimates(struct replay_plan *p, int64_t cutoff_us);
/* Replaces the arrivals by a Poisson process that offers `load` (1.0: all of `slots`). The Hawk paper sets
 * the load by the mean inter-arrival time (4.1). The same seed draws the same gaps for every load, scaled. */
void replay_plan_poisson(struct replay_plan *p, double load, uint32_t slots, uint64_t seed);
/* The load: task-seconds per second of arrivals and per slot. 0 if all jobs arrive at one time. */
double replay_plan_load(const struct replay_plan *p, uint32_t slots);
/* Writes the jobs as a trace at their arrival times, with the means of the trace scaled by `time`, so that
 * a reader gives them the same classes (with a scaled cutoff). HAWK_EIO with errno set. */
HAWK_MUST_USE int replay_plan_write(const struct replay_plan *p, double time, const char *path);
/* Parses a scale or load: "0.001", "1/1000", "90%"; within (0, max]. HAWK_EINVALID. */
HAWK_MUST_USE int replay_number_parse(const char *text, double max, double *value);

#endif
