/* The public API (protos/hawk.proto) of whatever roles live in this process: calls become events of a role or
 * are answered from its views; the role's effects answer the calls that wait. */
#ifndef HAWK_API_API_H
#define HAWK_API_API_H

#include "central/central.h"
#include "dist/dist.h"
#include "net/api.h"
#include "net/link.h"
#include "net/loop.h"
#include "net/server.h"
#include "store/leader.h"
#include "worker/worker.h"

struct api;

/* The roles here; those that are not are NULL, and calls only they serve get UNIMPLEMENTED. */
struct api_roles {
    const struct dist *dist;
    const struct central *central;
    const struct worker *worker;
    struct links *links; /* of a dist or worker, for what they have sent; NULL: it has none */
    /* A dist's: where central is. Called with the api's arg. */
    const char *(*central_addr)(void *arg);
    /* A worker's: where a task's output went, as runner_output. Called with the api's arg. */
    int (*output)(void *arg, job_id_t job, uint32_t task, uint32_t attempt, bool err_stream, char *path,
                  bool *running);
    const char *name, *addr; /* this node's, for ListNodes; borrowed */
    /* The centrals that stand by for this one. Called with the api's arg; NULL: there are none. */
    void (*standbys)(void *arg, struct leader_standbys *s);
    /* Stops this process in good order; now: without waiting for what runs. Called with the api's arg. */
    void (*stop)(void *arg, bool now);
    /* The same is to become of those that stand by for it; before stop. NULL: nobody does. */
    void (*stop_standbys)(void *arg);
};

/* `feed` gives an event to the role in this process. Registers every method with s (before server_start). */
struct api *api_new(struct loop *l, struct server *s, const struct api_roles *roles,
                    void (*feed)(void *arg, enum role to, const struct msg *m), void *arg);
/* For SUBMITTED, CANCELLED, TASK_EVENT, JOB_EVENT, POLICY_SET, DRAIN_SET: true when m was one of these. */
bool api_effect(struct api *a, const struct msg *m);
/* The policy in force, as the API tells it; what `policy` points to is in here, and in texts that last. */
struct api_policy_text {
    struct api_policy policy;
    const char *flags[32];
    struct api_policy_origin origins[64];
};
#define API_NOTE_BYTES 256
/* Why no worker is reserved for short tasks though a share of the slots is, and what would help; "": nothing to say. Returns a
 * number that differs when what would help does, 0 with "". */
uint32_t api_partition_note(const struct central *c, char *buf, size_t size);
void api_policy_view(const struct central *c, int64_t now_us, struct api_policy_text *t);
/* For a central that stands by: until there is one (`standby` NULL), every call fails with UNAVAILABLE and that text (copied).
 * Calls that waited for another fail. */
void api_set_central(struct api *a, const struct central *c, const char *standby);
/* Calls still open are failed with UNAVAILABLE. NULL is fine. */
void api_free_all(struct api *a);

#endif
