/* The pauses of a user's tasks: see user_runner.h. Their runner stops them; then the agent freezes them. */
#include "exec/user_runner_impl.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

void user_runner_freeze(struct user_runner *u, struct user_command *c, bool frozen)
{
    if (c->frozen == frozen || !(c->held.files & (RUN_GATE | RUN_HAS_FREEZER)))
        return;
    c->frozen = limits_freeze(&u->gates.limits, c->run, frozen) && frozen;
}

void user_runner_thaw_all(struct user_runner *u)
{
    for (struct user_command *c = u->commands; c; c = c->hh.next)
        user_runner_freeze(u, c, false);
}

int user_runner_pause(struct user_runner *u, int64_t now_us, uint32_t run)
{
    struct user_command *c = user_runner_command(u, run);

    if (!c || u->fd < 0 || u->config->freezer == EXEC_FREEZER_OFF || c->pausing)
        return HAWK_EUNSUPPORTED;
    c->pausing = true;
    c->pause_due_us = now_us + EXEC_CONFIRM_US + RUNNER_LATE_US;
    put_due(u, c->pause_due_us);
    put_number(&u->out, RECORD_PAUSE, run);
    return 0;
}

void user_runner_resume(struct user_runner *u, int64_t now_us, uint32_t run)
{
    struct user_command *c = user_runner_command(u, run);

    if (!c || u->fd < 0)
        return;
    if (c->paused && c->left_us != TIME_NEVER && c->reason == OUTCOME_NONE)
        c->due_us = now_us + c->left_us;
    c->paused = false;
    user_runner_freeze(u, c, false);
    put_due(u, c->due_us);
    put_number(&u->out, RECORD_RESUME, run);
}

/* HAWK_EMALFORMED: this is no list of pids. */
static int get_stopped(struct record *r, struct pids *stopped)
{
    uint32_t bytes = 0;
    const char *pids = r->p < r->end ? get_data(r, &bytes) : NULL;

    if (r->bad || bytes % sizeof(pid_t) != 0 || bytes / sizeof(pid_t) > PAUSE_PROCESSES_MAX)
        return HAWK_EMALFORMED;
    for (uint32_t i = 0; i < bytes / sizeof(pid_t); i++) {
        vec_grow(stopped->v, stopped->n, stopped->cap);
        memcpy(&stopped->v[stopped->n++], pids + i * sizeof(pid_t), sizeof(pid_t));
    }
    return 0;
}

/* Moves the processes that the runner has stopped into the cgroup that freezes the task, unless they are in it. Those
 * of a task that became long after its start are not. A note on disk tells a later agent of this cgroup. */
static void move_command_into_freezer(struct user_runner *u, struct user_command *c, struct pids *stopped)
{
    if (!gates_take_into_freezer(&u->gates, c->run, u->user, stopped) || c->held.files & RUN_HAS_FREEZER)
        return;
    c->held.files |= RUN_HAS_FREEZER;
    if (held_runs_add(&u->held, &c->held))
        log_warn("%.300s: %s", u->dir, strerror(errno));
}

/* Tells the worker how the pause went. While the task stands still, so does the time by which its end is due. */
static void answer_pause(struct user_runner *u, struct user_command *c, int err, int64_t now_us,
                         exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_PAUSED};

    list_remove(&c->freezing);
    c->pausing = false;
    c->pause_due_us = TIME_NEVER;
    c->paused = err == 0;
    if (c->paused && c->reason == OUTCOME_NONE) {
        c->left_us = c->due_us == TIME_NEVER ? TIME_NEVER : c->due_us - now_us;
        c->due_us = TIME_NEVER;
    }
    m.exec_paused.run = c->run;
    m.exec_paused.err = err == 0 || err == HAWK_EUNSUPPORTED ? err : HAWK_EBUSY;
    fn(arg, &m);
}

int user_runner_on_paused(struct user_runner *u, struct record *r, int64_t now_us, exec_event_fn fn,
                          void *arg)
{
    struct user_command *c = user_runner_command(u, get_u32(r));
    int32_t err = (int32_t)get_u32(r);
    struct pids stopped = {0};
    bool bad = r->bad || !c || !c->pausing || !list_empty(&c->freezing) || get_stopped(r, &stopped);

    if (!bad && err == 0 && c->reason == OUTCOME_NONE && u->state == UP) {
        move_command_into_freezer(u, c, &stopped);
        user_runner_freeze(u, c, true);
    }
    pids_free(&stopped);
    if (bad)
        return HAWK_EMALFORMED;
    if (!c->frozen) {
        answer_pause(u, c, err, now_us, fn, arg);
        return 0;
    }
    c->pause_due_us = now_us + EXEC_CONFIRM_US;
    list_push_tail(&u->freezing, &c->freezing);
    put_due(u, now_us);
    return 0;
}

void user_runner_look(struct user_runner *u, int64_t now_us, exec_event_fn fn, void *arg)
{
    list_foreach(&u->freezing, l, next) {
        struct user_command *c = container_of(l, struct user_command, freezing);

        if (c->frozen && limits_stands_still(&u->gates.limits, c->run)) {
            answer_pause(u, c, 0, now_us, fn, arg);
        } else if (!c->frozen || now_us >= c->pause_due_us) {
            user_runner_resume(u, now_us, c->run);
            answer_pause(u, c, HAWK_EBUSY, now_us, fn, arg);
        } else {
            put_due(u, now_us + FREEZE_LOOK_US);
        }
    }
}
