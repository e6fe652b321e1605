/* The public API (protos/hawk.proto) of the roles in this process. A call becomes an event of a role, or
 * is answered from the role's views. The role's effects answer the calls that wait. */
#ifndef HAWK_API_API_H
#define HAWK_API_API_H

#include "central/central.h"
#include "dist/dist.h"
#include "exec/exec.h"
#include "net/api.h"
#include "net/link.h"
#include "net/loop.h"
#include "net/server.h"
#include "store/leader.h"
#include "worker/worker.h"

struct api;

/* What one user may have, if he is known and has no scope `operate`. */
struct api_limits {
    uint32_t jobs_max, tasks_max; /* unfinished at this dist */
    uint64_t bytes_max;           /* of the descriptions of these jobs */
    uint32_t submit_rate;         /* per second, on average over API_SUBMIT_BURST seconds */
    uint32_t watches_max;
    uint32_t reads_max; /* outputs that are read at once */
};
#define API_SUBMIT_BURST 10u

/* The roles in this process. Others are NULL, and calls that only they serve get UNIMPLEMENTED. */
struct api_roles {
    const struct dist *dist;
    const struct central *central;
    const struct worker *worker;
    struct links *links; /* of a dist or worker, for its link counters; NULL: it has none */
    /* A dist's: returns central's address. Called with the api's arg. */
    const char *(*central_addr)(void *arg);
    /* A worker's: finds the file with a task's output, and whose it is, as runner_output. Called with the api's arg. */
    int (*output)(void *arg, job_id_t job, uint32_t task, uint32_t attempt, bool err_stream, char *path,
                  char *user, enum run_state *run);
    /* That of `hawk up`: the number of the first task of a job that it may not know, as its output tells. */
    uint32_t (*first_index)(void *arg, job_id_t job);
    struct api_limits limits;     /* of a dist or worker */
    bool show_names;              /* lists show the names of others' jobs */
    const struct tls *signatures; /* commands must be signed, with credentials of its roots; NULL: need not */
    const char *name, *addr;      /* this node's, for ListNodes; borrowed */
    /* Lists the centrals that stand by for this one. Called with the api's arg; NULL: there are none. */
    void (*standbys)(void *arg, struct leader_standbys *s);
    /* Stops this process in good order. now: without waiting for running tasks. Called with the api's arg. */
    void (*stop)(void *arg, bool now);
    /* Stops the centrals that stand by for this one, too; called before `stop`. NULL: there are none. */
    void (*stop_standbys)(void *arg);
};

/* Registers every method with s, so call it before server_start. `feed` gives an event to the role in this
 * process. */
struct api *api_new(struct loop *l, struct server *s, const struct api_roles *roles,
                    void (*feed)(void *arg, enum role to, const struct msg *m), void *arg);
/* For SUBMITTED, CANCELLED, TASK_EVENT, JOB_EVENT, POLICY_SET, DRAIN_SET, HOLD_SET, and for EXEC_EXITED once
 * roles.output knows of it: true when m was one of these. */
bool api_effect(struct api *a, const struct msg *m);
/* The policy in force, as the API shows it. `policy` points into this struct, and to texts that last. */
struct api_policy_text {
    struct api_policy policy;
    const char *flags[32];
    struct api_policy_origin origins[64];
};
#define API_NOTE_BYTES 256
/* Writes why no worker is reserved for short tasks although a share of the slots is, and what would help;
 * "": there is nothing to say. Returns a number that changes with the advice, 0 with "". */
uint32_t api_partition_note(const struct central *c, char *buf, size_t size);
void api_policy_view(const struct central *c, int64_t now_us, struct api_policy_text *t);
/* For a central that stands by: sets the role in this process. While `standby` is set, every call fails
 * with UNAVAILABLE and that text (copied). Calls that waited for another central fail. */
void api_set_central(struct api *a, const struct central *c, const char *standby);
/* Fails the calls that are still open with UNAVAILABLE, and frees. NULL is fine. */
void api_free_all(struct api *a);

#endif
