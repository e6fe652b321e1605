/* Attached executors: programs that run tasks of one application each, without a process per task. This
 * decides which executor gets which run, and which runs wait. It does no I/O: messages to executors go out
 * through apps_fns, and api/attach.c calls the functions below with messages from them.
 *
 * An application is a user and a name: an executor gets the tasks of one user's jobs for a name, or everybody's. A run
 * goes to an executor of its application that has room. If all are full it waits, in order, and holds
 * one of the worker's slots meanwhile. An executor that takes as many tasks at a time as the worker has slots
 * lets no run wait. A run's life is that of any run (exec/exec.h): MSG_EXEC_STARTED, left out if no executor
 * got it, and MSG_EXEC_EXITED exactly once.
 *
 * An executor has kill_grace to answer a run that is cancelled or at its time limit. Then the run has ended;
 * it keeps its place at the executor until the answer comes after all. An executor is stuck when such runs
 * have all its places, and it has answered none of them for another kill_grace (a second at least).
 *
 * A run is paused only if its executor offered that when it attached. The executor is asked, and says whether
 * the run stands still. A run that stands still takes no place, and its time limit does not count. It takes a
 * place again when it goes on, even if there is none: then the executor gets nothing until enough runs have
 * ended. */
#ifndef HAWK_EXEC_APPS_H
#define HAWK_EXEC_APPS_H

#include "base/err.h"
#include "msg/msg.h"

#include <stddef.h>
#include <stdint.h>

#define APPS_EXECUTORS_MAX 1024u /* attached at a time */
#define APPS_USER_SHARE 2 /* a user has at most one in so many of the executors, and of the applications */

struct apps;
struct executor;

/* A run as its executor sees it. Borrowed. */
struct app_task {
    uint64_t id;  /* apps_result() names the task by it */
    uint32_t run; /* the worker's number for it */
    struct try_id try;
    const struct job_desc *desc;
    const struct blob *payload; /* NULL: none */
};

struct apps_fns {
    /* Returns the number of the message in which the task goes. */
    uint64_t (*task)(void *user, const struct app_task *t);
    /* Whether that message has left. No answer about a task counts before. NULL: each leaves at once. */
    bool (*has_left)(void *user, uint64_t message);
    /* This and `pause` come after their task. A task that is to end goes on first. */
    void (*cancel)(void *user, uint64_t id);
    /* on: the task is to stand still, and apps_paused() answers; else it is to go on. */
    void (*pause)(void *user, uint64_t id, bool on);
    /* apps_drain() was called, and the last task has ended: call apps_detach(). */
    void (*drained)(void *user);
    /* The executor is stuck: end its stream, and call apps_detach(). */
    void (*stuck)(void *user, const char *why);
    /* MSG_EXEC_STARTED, MSG_EXEC_PAUSED, MSG_EXEC_EXITED, and MSG_EXEC_APP when the worker begins or ceases to serve an
     * application; borrowed. EXEC_EXITED.result: the result of a task that exited with 0, else a text for
     * people. */
    void (*event)(void *arg, const struct msg *m);
};

/* `user` in the first six functions is the executor's; `arg` goes to `event`. */
struct apps *apps_new(int64_t kill_grace_us, const struct apps_fns *fns, void *arg);
/* Sends events to that function from now on. Call it before the role that gets them goes away. */
void apps_set_event(struct apps *a, void (*event)(void *arg, const struct msg *m));
/* Frees a; all executors must be detached. Ends no runs and sends no events. NULL is fine. */
void apps_free(struct apps *a);

/* What an executor says when it attaches. */
struct executor_offer {
    const char *app, *name;
    const char *serves; /* the user whose tasks alone it gets; NULL or "": everybody's */
    uint32_t slots;     /* tasks at once */
    bool pauses;        /* it can pause tasks */
    bool unbounded;     /* an operator's: a user's share does not limit it */
};

/* Whether such an executor may attach now. HAWK_EINVALID: no application, no slots or more than LIMIT_SLOTS.
 * HAWK_ELIMIT: APPS_EXECUTORS_MAX or LIMIT_WORKER_APPS, or the user's share of them. why says more. */
HAWK_MUST_USE int apps_may_attach(const struct apps *a, const struct executor_offer *offer, char *why,
                                  size_t size);
/* An executor attaches. It may get tasks before this returns. Errors as of apps_may_attach(). */
HAWK_MUST_USE int apps_attach(struct apps *a, int64_t now_us, const struct executor_offer *offer, void *user,
                              struct executor **x, char *why, size_t size);
/* The executor gets no more tasks. `drained` follows: at once, or when its last task has ended. */
void apps_drain(struct apps *a, int64_t now_us, struct executor *x);
/* The executor is gone: its tasks end as OUTCOME_LOST. Frees x. */
void apps_detach(struct apps *a, int64_t now_us, struct executor *x);
/* The executor answers a task. data: the result if code is 0, else the reason of the failure.
 * HAWK_ENOT_FOUND: it has no such task, or not yet. */
HAWK_MUST_USE int apps_result(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, int32_t code,
                              const void *data, size_t len);

/* The executor answers a pause: the task stands still, or (refused) it never will. Does nothing if that task
 * has ended, or was not to be paused or is no more. HAWK_EINVALID: it did not offer to pause tasks. */
HAWK_MUST_USE int apps_paused(struct apps *a, int64_t now_us, struct executor *x, uint64_t id, bool refused);

/* Whether `is` is true for any run that x has to answer. `is` gets the caller's number of the run. */
bool executor_has(const struct executor *x, bool (*is)(void *arg, uint32_t run), void *arg);

/* Starts a run of a PAYLOAD_APP job. Events tell whether it waits, runs or ends. */
void apps_run(struct apps *a, int64_t now_us, const struct msg_exec_start *m);
/* Ends a run with that outcome; force: without grace. False: no such run. */
bool apps_kill(struct apps *a, int64_t now_us, uint32_t run, enum outcome outcome, bool force);
bool apps_has(const struct apps *a, uint32_t run);
/* Pauses a run. The first MSG_EXEC_PAUSED or MSG_EXEC_EXITED of the run is the answer. In it HAWK_EBUSY: its
 * executor did not answer within EXEC_CONFIRM_US, or the run is to end or was resumed; HAWK_EUNSUPPORTED: its
 * executor refused. Returns an error, and no event follows: HAWK_EUNSUPPORTED: there is no such run, or its
 * executor did not offer that; HAWK_EBUSY: it waits for an executor, or is to end. */
HAWK_MUST_USE int apps_pause(struct apps *a, int64_t now_us, uint32_t run);
/* Lets a run go on. Does nothing to one that is not paused. False: no such run. */
bool apps_resume(struct apps *a, int64_t now_us, uint32_t run);
int64_t apps_next_timeout(const struct apps *a);
void apps_on_timeout(struct apps *a, int64_t now_us);

/* Number of runs whose end has not been reported. */
uint32_t apps_running(const struct apps *a);

#endif
