/* Attached executors on the network: serves Executors.Attach (protos/executor.proto) for a runner's exec/apps. */
#ifndef HAWK_DAEMON_ATTACH_H
#define HAWK_DAEMON_ATTACH_H

#include "exec/apps.h"
#include "net/loop.h"
#include "net/server.h"

/* Results that were taken from executors and that their tasks' owners have not acknowledged; beyond it executors are not
 * read from until some are. */
#define ATTACH_UNACKED_BYTES (8u << 20)

struct attach;

struct attach_config {
    const char *worker; /* told to executors; copied */
    int64_t kill_grace_us;
    void (*event)(void *arg, const struct msg *m); /* as apps_fns */
    /* Bytes of results that wait to be acknowledged; NULL: never any. */
    uint64_t (*unacked)(void *arg);
    void *arg;
};

/* Before server_start. */
struct attach *attach_new(struct loop *l, struct server *s, const struct attach_config *c);
/* EXEC_START and EXEC_KILL of PAYLOAD_APP jobs go here. */
struct apps *attach_apps(struct attach *a);
/* Ends every stream; executors are told to go on elsewhere. After server_stop. NULL is fine. */
void attach_free(struct attach *a);

#endif
