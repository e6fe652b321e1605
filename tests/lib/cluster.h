/* A virtual cluster for tests: every role on the bus in virtual time, an executor that only lets time pass, and a
 * journal that answers at once. Every wire message is put through msg_check, every role through its own check
 * after every step. Failures are cmocka assertions. HAWK_TEST_TRACE=1 prints every message. */
#ifndef HAWK_TESTS_CLUSTER_H
#define HAWK_TESTS_CLUSTER_H

#include "base/rng.h"
#include "base/units.h"
#include "bus/bus.h"
#include "central/central.h"
#include "dist/dist.h"
#include "worker/worker.h"

struct cluster_config {
    const char *policy; /* NULL: "hawk" */
    uint32_t dists;     /* 0: 1 */
    uint32_t workers;
    uint32_t slots;     /* of each worker; 0: 1 */
    uint32_t share_ppm; /* short partition; fixed */
    int64_t cutoff_us;  /* 0: 10 s; fixed */
    int64_t delay_us;   /* of every message */
    int64_t lease_us;   /* 0: central's default */
    int64_t journal_us; /* until a write is durable */
    uint64_t seed;
    bool queue_per_slot;
    uint32_t steal_streams;                           /* as in struct bus_config */
    uint32_t flags_on, flags_off;                     /* of the policy's: POLICY_… */
    uint32_t probe_ratio_milli, steal_cap, steal_max; /* 0: the policy's */
    bool cutoff_computed;                             /* from history, once three jobs are known */
    /* DESIGN 3.4: where nothing fails, no reservation is stuck for longer while one thief is parked; 0: not checked. */
    int64_t stuck_us_max;
    bool nothing_fails; /* then a dist knows where each of its reservations is */
};

/* One job as its client sees it. */
struct cluster_job {
    uint32_t dist; /* index */
    struct job_desc *desc;
    int64_t *duration_us; /* of each task */
    int32_t *code;        /* each task's exit status */
    job_id_t id;          /* once submitted */
    bool submitted;
    bool cancelled; /* the client asked for it, or tasks failed too often */
    bool abandoned; /* its dist died: nobody answers for it any more */
    int err;        /* of SUBMITTED */
    uint8_t class, why;
    uint8_t state; /* enum job_state, as of the last JOB_EVENT */
    int64_t submit_us, end_us;
    uint32_t *starts; /* how often each task was started, and ran to its end, anywhere */
    uint32_t *ends;
    uint32_t *finals;    /* final events the client got of each task */
    uint8_t *task_state; /* enum task_state */
};

struct cluster_run {
    uint32_t run;
    struct try_id id;
    int64_t start_us, due_us;
    uint32_t job;    /* index */
    bool of_central; /* its owner is central */
};

struct cluster_worker {
    struct worker w;
    uint32_t ep, slots;
    bool alive;
    uint64_t incarnation;
    struct cluster_run *runs;
    uint32_t runs_n, runs_cap;
    int64_t parked_us, stuck_us; /* since when, and since it gave loot; TIME_NEVER: it is not */
};

struct cluster_dist {
    struct dist d;
    uint32_t ep;
    bool alive;
    uint64_t first_seq;
};

struct cluster {
    struct cluster_config config;
    struct bus *bus;
    struct rng rng;
    struct central *central;
    uint32_t central_ep;
    uint32_t central_epoch;
    struct cluster_dist **dists;
    uint32_t dists_n, dists_cap;
    struct cluster_worker **workers;
    uint32_t workers_n, workers_cap;
    struct cluster_job **jobs;
    uint32_t jobs_n, jobs_cap;
    struct msg *journal; /* what central wrote, in order */
    uint32_t journal_n, journal_cap;
    uint64_t steps;
    uint64_t hash; /* of every delivery, in order */
    bool trace;
};

struct cluster *cluster_new(const struct cluster_config *c);
void cluster_free(struct cluster *c);
/* Until every dist has a stream to every live worker and every worker knows its partition. */
void cluster_come_up(struct cluster *c);

void cluster_run(struct cluster *c, int64_t for_us);
/* Until done(c, arg); fails, with what, after limit_us. */
void cluster_run_until(struct cluster *c, bool (*done)(struct cluster *c, void *arg), void *arg,
                       int64_t limit_us, const char *what);
/* Until every job submitted has ended. */
void cluster_run_jobs(struct cluster *c, int64_t limit_us);
/* After the last job: every role gets quiet, and every job's books balance: each task has ended once for its client, and
 * a task that is done has run to its end somewhere. */
void cluster_expect_all_quiet(struct cluster *c);

/* A job of `tasks` equal tasks; change it, then submit. Returns its index. */
struct cluster_job *cluster_job(struct cluster *c, uint32_t tasks, int64_t duration_us, enum class_tag tag);
void cluster_name_job(struct cluster_job *j, const char *name);
void cluster_submit(struct cluster *c, struct cluster_job *j, uint32_t dist);
void cluster_cancel(struct cluster *c, struct cluster_job *j);
void cluster_view(struct cluster *c, const struct cluster_job *j, struct job_view *v);
bool cluster_ended(const struct cluster_job *j);
/* Sums one counter over every dist and worker. */
uint64_t cluster_counter(const struct cluster *c, enum counter counter);

uint32_t cluster_add_worker(struct cluster *c, uint32_t slots);
/* Its tasks die with it. */
void cluster_kill_worker(struct cluster *c, uint32_t worker);
/* The same name, a new process. */
void cluster_restart_worker(struct cluster *c, uint32_t worker);
void cluster_stop_worker(struct cluster *c, uint32_t worker, bool now);
/* The same name, a new process; what clients waited for there is lost with it. */
void cluster_restart_dist(struct cluster *c, uint32_t dist);
void cluster_kill_central(struct cluster *c);
/* From its journal. */
void cluster_restart_central(struct cluster *c);
void cluster_set_share(struct cluster *c, uint32_t share_ppm);
/* Tasks running right now. */
uint32_t cluster_running(const struct cluster *c, uint32_t worker);

#endif
