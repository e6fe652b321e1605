/* Inside a user's runner: its state, and what user_runner.c, user_runner_pause.c and user_runner_deadlines.c have of
 * each other. */
#ifndef HAWK_EXEC_USER_RUNNER_IMPL_H
#define HAWK_EXEC_USER_RUNNER_IMPL_H

#include "base/list.h"
#include "exec/gates.h"
#include "exec/held_runs.h"
#include "exec/keeper.h"
#include "exec/sent.h"
#include "exec/takeover.h"
#include "exec/user_runner.h"

#include <uthash.h>

#define FREEZE_LOOK_US US_PER_MS
#define LEASE_LATE_US US_PER_S /* after the lease's end */

enum state {
    GREETED, /* it has been told hello, and has not answered */
    UP,
    LEAVING,  /* it has been told to end, or can be told nothing any more */
    CLEARING, /* its runs' ends wait until another runner has ended what they left: that has been told hello */
    ALONE,    /* its keeper has ended: that nothing is left shows at the end of its socket alone */
    ENDING,   /* its keeper has been told to end it */
};

struct user_command {
    UT_hash_handle hh;
    uint32_t run;
    struct held_run held;
    struct sent_spec *spec; /* NULL: an earlier agent sent it */
    uint64_t sent_at;       /* its runner may have got it once so many bytes are sent */
    bool started, pausing, paused;
    bool frozen;          /* by this agent, in its cgroup */
    struct list freezing; /* in the runner's list until it stands still */
    enum outcome reason;  /* why it was to end; OUTCOME_NONE: nobody wants that */
    int64_t due_us;       /* when its end must have been reported */
    int64_t left_us;      /* paused: what was left until then */
    int64_t pause_due_us;
};

struct user_runner {
    char *user, *dir;
    const struct exec_config *config; /* of all runners */
    struct gates gates;               /* of its tasks; their cgroups have the keeper's pid in their names */
    enum state state;
    int fd;     /* -1: closed */
    int why_fd; /* what hawk-run-as says that could not start it; -1: it was started by an earlier agent */
    struct keeper keeper;
    bool cleared; /* it is, or was, CLEARING */
    struct bytes in, out;
    struct user_command *commands;
    struct list freezing; /* of them */
    struct sent sent;
    struct held_runs held;
    struct takeover taken;
    uint32_t knows;       /* enum spawner_knows */
    int64_t lease_due_us; /* when the end of every leased run must have been reported; TIME_NEVER: no lease */
    int64_t answer_us;    /* when it must have answered, or ended, as its state says; TIME_NEVER in UP */
    int64_t due_us;       /* the earliest time at which something of a run is due, or earlier */
};

static inline void put_due(struct user_runner *u, int64_t at_us)
{
    if (at_us < u->due_us)
        u->due_us = at_us;
}

/* NULL: it has no such run. */
struct user_command *user_runner_command(const struct user_runner *u, uint32_t run);
/* Freezes it with all that it started, or thaws it. What its runner has stopped, another process of its user could let
 * go on. */
void user_runner_freeze(struct user_runner *u, struct user_command *c, bool frozen);
/* Nothing that is frozen can be ended. */
void user_runner_thaw_all(struct user_runner *u);
/* Its RECORD_PAUSED has come. HAWK_EMALFORMED. */
HAWK_MUST_USE int user_runner_on_paused(struct user_runner *u, struct record *r, int64_t now_us,
                                        exec_event_fn fn, void *arg);
/* Answers for those that stand still by now, and undoes what took too long. */
void user_runner_look(struct user_runner *u, int64_t now_us, exec_event_fn fn, void *arg);
/* Goes on with removing the cgroups of ended tasks. */
void user_runner_sweep(struct user_runner *u, int64_t now_us);
/* Starts a runner in u's place that ends what earlier ones left, and nothing else. HAWK_EIO: it cannot. */
HAWK_MUST_USE int user_runner_begin_clearing(struct user_runner *u, const char *helper, int64_t now_us);
/* It has done that. */
void user_runner_end_clearing(struct user_runner *u, int64_t now_us);
/* It has done what an honest one does not: ends it from outside. */
void user_runner_distrust(struct user_runner *u, int64_t now_us, const char *what);

#endif
