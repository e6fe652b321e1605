/* Declarations that the simulator's files share.
 *
 *   cluster.c   makes, starts and frees the roles on the bus; delays and costs of messages
 *   memory.c    huge pages
 *   run.c       the clock: submissions, ends of tasks and deliveries in order; effects of roles
 *   runs.c      running and paused tasks
 *   result.c    figures
 *   bound.c     bounds that no scheduler can beat
 *   config.c    settings, and the published simulator's assumptions */
#ifndef HAWK_SIM_INTERNAL_H
#define HAWK_SIM_INTERNAL_H

#include "base/heap.h"
#include "base/rng.h"
#include "bus/bus.h"
#include "central/central.h"
#include "dist/dist.h"
#include "sim/sim.h"
#include "worker/worker.h"

/* The last run in one place of a worker. */
struct run {
    struct heap_node end; /* in sim.ends while the task runs */
    uint32_t run;         /* the worker's number of the run; 0: there was none */
    int64_t run_us;
    int64_t paused_us; /* paused since then; TIME_NEVER: it is not */
};

/* A job from its submission to its end. */
struct running_job {
    uint64_t number;
    int64_t submit_us, longest_us;
    uint32_t tasks, dist;
    job_id_t id; /* JOB_NONE before its dist accepted it */
    uint8_t class, believed;
    int64_t *durations_us;
};

/* Values of one kind and class, for quantiles. */
struct values {
    int64_t *v;
    uint64_t n, cap;
};

/* Maps the sequence numbers of a dist's jobs to places in sim.jobs. */
struct dist_seqs {
    uint32_t *v;
    uint32_t n, cap;
};

struct sim {
    struct sim_config config;
    const struct sim_source *source;
    struct sim_result *r;
    struct bus *bus;
    struct central *central;
    struct dist *dists;
    struct worker *workers;
    uint32_t central_ep, first_worker_ep, first_dist_ep;
    struct rng rng;   /* the engine's: draws seeds, dists and noise */
    bool up;          /* the cluster is up: from now on time and messages count */
    int64_t start_us; /* in the bus's time, when the cluster was up: the moment of the first submission */

    int64_t *busy_until_us; /* by endpoint */
    int64_t central_busy_us;
    struct run *runs; /* by worker and place */
    struct heap ends; /* of running tasks */
    uint64_t started; /* tasks so far */

    struct running_job *jobs; /* durations_us NULL: the place is free */
    uint32_t jobs_n, jobs_cap;
    uint32_t *jobs_free, jobs_free_n, jobs_free_cap;
    struct dist_seqs *seqs; /* by dist */
    uint32_t next_dist;
    uint64_t submitted, ended;

    bool more; /* next_job is a job */
    struct trace_job next_job;
    int64_t offset_us;                /* bus time - workload time */
    int64_t last_second_us, shift_us; /* compat: time of the last submission in the workload, and its shift */
    int64_t next_sample_us;
    int64_t acted_us;                   /* time of the last submission, end of a task, or sample */
    uint32_t running_samples_submitted; /* number of samples until the last submission */
    struct values waits[CLASS_COUNT];
    job_id_t traced; /* the job whose messages are traced */
    int error;
    char *why;
    size_t why_size;
};

/* The largest number of paused tasks of a worker; 0 if the policy does not pause tasks, which saves the
 * places. */
static inline uint32_t sim_paused_max(const struct sim_config *c)
{
    return policy_has(&c->policy, POLICY_PAUSE) ? worker_paused_max(c->slots) : 0;
}
static inline uint32_t sim_worker_of(const struct sim *s, uint32_t ep) { return ep - s->first_worker_ep; }
static inline bool sim_is_worker(const struct sim *s, uint32_t ep)
{
    return ep >= s->first_worker_ep && ep < s->first_worker_ep + s->config.workers;
}

/* runs.c: runs of the worker at an endpoint. */
void sim_run_start(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us, int64_t run_us);
/* Answers EXEC_PAUSED. */
void sim_run_pause(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us);
void sim_run_resume(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us); /* a paused run */
void sim_run_kill(struct sim *s, uint32_t ep, uint32_t run, int64_t now_us);
void sim_run_end_first(struct sim *s); /* ends the run whose end comes first; there must be one */

/* cluster.c */
/* Central's settings, with room for all nodes and jobs. */
void sim_central_config(const struct sim_config *c, struct central_config *to);
void sim_cluster_start(struct sim *s); /* runs until every dist can reach every worker */
void sim_cluster_free(struct sim *s);
/* run.c: what the bus calls. */
void sim_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
void sim_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
/* config.c */
/* compat: rounds to whole seconds, as the published simulator does. */
int64_t sim_truncated(const struct sim_config *c, int64_t us);
uint8_t sim_true_class(const struct sim_config *c, const struct trace_job *t);
/* result.c */
void sim_classes_fill(struct sim_result *r); /* computes responses and slowdowns from r->jobs */
void sim_values_add(struct values *v, int64_t value);
void sim_result_fill(struct sim *s);
int sim_error(struct sim *s, int err, const char *fmt, ...) HAWK_PRINTF(3, 4);

#endif
