/* Attached executors: programs that run tasks of one application each, without a process per task. This is who runs what
 * and what waits; it neither reads nor writes: what an executor is to be told goes out through apps_fns, what it says
 * comes in through the calls below (api/attach.c).
 *
 * A run goes to an executor of its application that has room; while all are full it waits, in order. It has then one of
 * the worker's slots, so an executor that takes as many tasks at once as the worker has slots keeps nobody waiting.
 * Its life is that of any run (exec/exec.h): MSG_EXEC_STARTED, left out when no executor got it, and MSG_EXEC_EXITED
 * exactly once. A run that is to end, cancelled or at its time limit, has kill_grace to be answered; then it counts as
 * ended, and takes its place at its executor until that has answered after all. An executor with no other places left is
 * stuck when it has answered none of them for another kill_grace (a second at least). */
#ifndef HAWK_EXEC_APPS_H
#define HAWK_EXEC_APPS_H

#include "base/err.h"
#include "msg/msg.h"

#include <stddef.h>
#include <stdint.h>

#define APPS_EXECUTORS_MAX 1024u /* attached at a time */

struct apps;
struct executor;

/* What a run is to its executor. Borrowed. */
struct app_task {
    uint64_t id; /* what apps_result names it by */
    struct try_id try;
    const struct job_desc *desc;
    const struct blob *payload; /* NULL: none */
};

struct apps_fns {
    void (*task)(void *user, const struct app_task *t);
    void (*cancel)(void *user, uint64_t id); /* after its task */
    void (*drained)(void *user); /* it was to leave, and the last of its tasks has ended: apps_detach */
    void (*stuck)(void *user, const char *why); /* end its stream: apps_detach */
    /* MSG_EXEC_STARTED, MSG_EXEC_EXITED, and MSG_EXEC_APP when an application begins or ceases to be served; borrowed.
     * EXEC_EXITED.result is what the task returned when it exited with 0, else a text for people. */
    void (*event)(void *arg, const struct msg *m);
};

/* `user` in the first four is the executor's, `arg` this one. */
struct apps *apps_new(int64_t kill_grace_us, const struct apps_fns *fns, void *arg);
/* From now on events go there: to a role that will not be there much longer they must not. */
void apps_set_event(struct apps *a, void (*event)(void *arg, const struct msg *m));
/* Every executor must have been detached. Ends nothing and tells nobody. NULL is fine. */
void apps_free(struct apps *a);

/* An executor says hello. HAWK_EINVALID (no application, or no or more than LIMIT_SLOTS slots) and HAWK_ELIMIT
 * (APPS_EXECUTORS_MAX, LIMIT_WORKER_APPS) with a text in why. Tasks may be given to it before this returns. */
HAWK_MUST_USE int apps_attach(struct apps *a, int64_t now_us, const char *app, const char *name,
                              uint32_t slots, void *user, struct executor **x, char *why, size_t size);
/* It gets no more tasks; `drained` follows, at once or when the last has ended. */
void apps_drain(struct apps *a, int64_t now_us, struct executor *x);
/* It is gone: what it held ends as OUTCOME_LOST. Frees x. */
void apps_detach(struct apps *a, int64_t now_us, struct executor *x);
/* It answers. data: what the task returned when code is 0, else why it failed. HAWK_ENOT_FOUND: it has no such task. */
HAWK_MUST_USE int apps_result(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, int32_t code,
                              const void *data, size_t len);

/* Whether of any run that it is to answer `is` says so: by the caller's number. */
bool executor_has(const struct executor *x, bool (*is)(void *arg, uint32_t run), void *arg);

/* A run of a PAYLOAD_APP job. Whether it waits, runs or ends, events say. */
void apps_run(struct apps *a, int64_t now_us, const struct msg_exec_start *m);
/* The run is to end with that outcome; force: without grace. False: no such run. */
bool apps_kill(struct apps *a, int64_t now_us, uint32_t run, enum outcome outcome, bool force);
int64_t apps_next_timeout(const struct apps *a);
void apps_on_timeout(struct apps *a, int64_t now_us);

/* Runs that have not been reported as ended. */
uint32_t apps_running(const struct apps *a);

#endif
