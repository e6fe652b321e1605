/* When a user's runner must have done what it was told: see user_runner.h. */
#include "exec/user_runner_impl.h"

#include "base/log.h"

static const char *overdue(struct command *c, int64_t lease_us, int64_t now_us)
{
    if (c->due_us <= now_us && c->reason == OUTCOME_NONE)
        c->reason = OUTCOME_TIME_LIMIT;
    return c->due_us <= now_us         ? "has not ended a task in time"
           : c->pause_due_us <= now_us ? "has not paused a task in time"
           : c->held.flags & RUN_LEASED && lease_us != TIME_NEVER && lease_us + LEASE_LATE_US <= now_us
               ? "has not ended a task whose lease is over"
               : NULL;
}

bool user_runner_on_timeout(struct user_runner *u, int64_t now_us)
{
    if (user_runner_is_gone(u))
        return true;
    if (now_us >= u->answer_us && u->state >= ALONE) {
        log_error("the runner of user %s cannot be ended: giving it up", u->user);
        return true;
    }
    if (now_us >= u->answer_us)
        user_runner_distrust(u, now_us, u->state == LEAVING ? "does not end" : "does not answer");
    if (now_us < u->due_us || u->state >= ALONE)
        return false;
    u->due_us = TIME_NEVER;
    for (struct command *c = u->commands; c; c = c->hh.next) {
        const char *what = overdue(c, u->lease_us, now_us);

        if (what) {
            user_runner_distrust(u, now_us, what);
            return false;
        }
        put_due(u, c->due_us);
        put_due(u, c->pause_due_us);
        if (c->held.flags & RUN_LEASED && u->lease_us != TIME_NEVER)
            put_due(u, u->lease_us + LEASE_LATE_US);
    }
    return false;
}

int64_t user_runner_next_timeout(const struct user_runner *u)
{
    return u->state >= ALONE || u->answer_us < u->due_us ? u->answer_us : u->due_us;
}
