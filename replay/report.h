/* The measurements of a replay: per true class, and whether anything was lost. As a table and as JSON. */
#ifndef HAWK_REPLAY_REPORT_H
#define HAWK_REPLAY_REPORT_H

#include "base/spread.h"
#include "replay/plan.h"
#include "replay/run.h"

#include <jansson.h>

/* One class, or all jobs. Times are of jobs whose every task was done, and of their tasks. */
struct replay_class {
    uint32_t jobs, tasks;      /* submitted */
    struct spread response_us; /* submission to the last task's end, per job */
    struct spread wait_us;     /* queueing: submission to start, per task */
    /* In thousandths, of jobs whose longest task takes time: response time over that task, which is the response time
     * on an empty cluster. */
    struct spread slowdown;
    uint32_t stolen;   /* tasks that ran through a stolen reservation */
    uint32_t mistaken; /* jobs to which the cluster gave the other class */
    uint64_t probes_sent, probes_cancelled, probes_unused, probes_lost;
};
enum { REPLAY_ALL = CLASS_COUNT, REPLAY_CLASSES };

struct replay_report {
    struct replay_class classes[REPLAY_CLASSES]; /* by enum job_class, then all */
    uint32_t load_slots, slots;                  /* for a load of 1; of the cluster */
    double load, utilization; /* load: offered by the plan; utilization: of the slots, over elapsed_us */
    uint64_t tasks_done, tasks_failed, tasks_cancelled, tasks_lost;
    uint64_t tasks_missing; /* of accepted jobs: tasks of which no node says how they ended */
    uint64_t tasks_retried; /* tasks that needed a second try, since their worker was lost */
    /* The whole cluster's counters, after minus before. settled: they account for all our tasks. */
    uint64_t counters[COUNTER_COUNT];
    bool settled;
    struct api_policy policy; /* in force; borrowed */
};

/* Fills in all that follows from plan and result. The caller sets counters and policy. */
void replay_report_fill(struct replay_report *to, const struct replay_plan *p, const struct replay_result *r,
                        uint32_t load_slots, uint32_t slots);
/* Whether every job was submitted and accepted, and every task of it was done. */
bool replay_report_complete(const struct replay_report *report, const struct replay_plan *p,
                            const struct replay_result *r);

/* Prints the plan in a few lines. slots 0: unknown, and it prints no load. */
void replay_plan_print(FILE *f, const struct replay_plan *p, uint32_t slots);
void replay_report_print(const struct replay_report *report, const struct replay_plan *p,
                         const struct replay_result *r);
/* New references. */
json_t *replay_plan_json(const struct replay_plan *p, uint32_t slots);
json_t *replay_report_json(const struct replay_report *report, const struct replay_plan *p,
                           const struct replay_result *r);

#endif
