/* Attached executors on the network: serves Executors.Attach (protos/executor.proto) for a runner's
 * exec/apps. */
#ifndef HAWK_API_ATTACH_H
#define HAWK_API_ATTACH_H

#include "exec/apps.h"
#include "net/loop.h"
#include "net/server.h"

#include <sys/types.h>

/* Results from executors that the tasks' owner has not acknowledged. Beyond this limit the worker stops
 * reading from executors that have tasks of that owner, until some are acknowledged. */
#define ATTACH_UNACKED_BYTES (8u << 20)

struct attach;

struct attach_config {
    const char *worker; /* sent to executors; copied */
    int64_t kill_grace_us;
    void (*event)(void *arg, const struct msg *m); /* as apps_fns */
    /* Bytes of results that wait for an acknowledgement: from any owner (NULL: never any), and from the
     * owner of that run's task. */
    uint64_t (*unacked)(void *arg);
    uint64_t (*owner_unacked)(void *arg, uint32_t run);
    uint32_t slots; /* of the worker; sent to executors */
    /* Whose a task that runs here is: user (LIMIT_NAME_BYTES + 1; "": nobody's). False: it does not run here. */
    bool (*task_user)(void *arg, job_id_t job, uint32_t task, char *user);
    /* Such a task becomes a resident: a number for it, or 0: it cannot. evict() ends it. */
    uint64_t (*reside)(void *arg, job_id_t job, uint32_t task);
    void (*evict)(void *arg, uint64_t resident);
    /* Users are known: an executor takes the tasks of the user it attached as, unless its application is in this comma
     * separated list. */
    bool users;
    const char *shared;
    void *arg;
};

/* Before server_start. */
struct attach *attach_new(struct loop *l, struct server *s, const struct attach_config *c);
/* Takes EXEC_START and EXEC_KILL of PAYLOAD_APP jobs. */
struct apps *attach_apps(struct attach *a);
/* Ends every stream, and tells executors to attach elsewhere. After server_stop. NULL is fine. */
void attach_free(struct attach *a);

#endif
