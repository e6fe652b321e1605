/* When a user's runner must have done what it was told: see user_runner.h. */
#include "exec/user_runner_impl.h"

#include "base/log.h"
#include "exec/strays.h"

static void add_sleep(int64_t *at_us, int64_t by_us)
{
    if (*at_us != TIME_NEVER)
        *at_us += by_us;
}

void user_runner_slept(struct user_runner *u, int64_t slept_us)
{
    add_sleep(&u->answer_us, slept_us);
    for (struct user_command *c = u->commands; c; c = c->hh.next) {
        add_sleep(&c->due_us, slept_us);
        add_sleep(&c->pause_due_us, slept_us);
    }
}

static void put_off(int64_t *at_us, int64_t now_us, int64_t by_us)
{
    if (*at_us <= now_us)
        *at_us = now_us + by_us;
}

static void put_all_off(struct user_runner *u, int64_t now_us)
{
    put_off(&u->answer_us, now_us, RUNNER_LATE_US);
    put_off(&u->lease_due_us, now_us, LEASE_LATE_US);
    for (struct user_command *c = u->commands; c; c = c->hh.next) {
        put_off(&c->due_us, now_us, RUNNER_LATE_US);
        put_off(&c->pause_due_us, now_us, RUNNER_LATE_US);
    }
}

static const char *overdue(struct user_command *c, int64_t lease_due_us, int64_t now_us)
{
    if (c->due_us <= now_us && c->reason == OUTCOME_NONE)
        c->reason = OUTCOME_TIME_LIMIT;
    return c->due_us <= now_us                                    ? "has not ended a task in time"
           : c->pause_due_us <= now_us                            ? "has not paused a task in time"
           : c->held.flags & RUN_LEASED && lease_due_us <= now_us ? "has not ended a task whose lease is over"
                                                                  : NULL;
}

void user_runner_sweep(struct user_runner *u, int64_t now_us)
{
    if (limits_sweep(&u->gates.limits))
        put_due(u, now_us + STRAY_SWEEP_US);
}

bool user_runner_on_timeout(struct user_runner *u, int64_t now_us, bool late)
{
    if (user_runner_is_gone(u))
        return true;
    if (late)
        put_all_off(u, now_us);
    if (now_us >= u->answer_us && u->state >= ALONE) {
        log_error("the runner of user %s cannot be ended: giving it up", u->user);
        return true;
    }
    if (now_us >= u->answer_us)
        user_runner_distrust(u, now_us, u->state == LEAVING ? "does not end" : "does not answer");
    if (now_us < u->due_us || u->state >= CLEARING)
        return false;
    u->due_us = TIME_NEVER;
    user_runner_sweep(u, now_us);
    for (struct user_command *c = u->commands; c; c = c->hh.next) {
        const char *what = overdue(c, u->lease_due_us, now_us);

        if (what) {
            user_runner_distrust(u, now_us, what);
            return false;
        }
        put_due(u, c->due_us);
        put_due(u, c->pause_due_us);
        if (!list_empty(&c->freezing))
            put_due(u, now_us + FREEZE_LOOK_US);
        if (c->held.flags & RUN_LEASED)
            put_due(u, u->lease_due_us);
    }
    return false;
}

int64_t user_runner_next_timeout(const struct user_runner *u)
{
    return u->state >= CLEARING || u->answer_us < u->due_us ? u->answer_us : u->due_us;
}
