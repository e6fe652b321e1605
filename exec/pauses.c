/* Pausing runs: see pauses.h.
 *
 *          RECORD_PAUSE              all processes stand still: answer 0
 *   RUNS ---------------> FREEZING ---------------------------------> FROZEN
 *    ^                       |                                          |
 *    +--- answer HAWK_EBUSY -+                                          |
 *    +------------------------------------------------------------------+
 *   A run goes back to RUNS by RECORD_RESUME, by any kill, by the end of its leader, and by the end of the
 *   agent; from FREEZING also when the freeze takes too long. */
#include "exec/pauses.h"

#include "base/log.h"
#include "base/units.h"

#define LOOK_US INT64_C(200)

/* A user's runner can only stop them: its agent freezes them. */
static void put_processes(struct spawner *s, const struct run *r)
{
    struct pids l = {0};

    freezer_processes(&s->freezer, &r->frozen, &l);
    put_data(&s->out, l.v, (l.n < PAUSE_PROCESSES_MAX ? l.n : PAUSE_PROCESSES_MAX) * sizeof *l.v);
    pids_free(&l);
}

static void answer_pause(struct spawner *s, const struct run *r, int err)
{
    if (s->fd < 0 || !s->greeted)
        return;
    size_t begun = record_begin(&s->out, RECORD_PAUSED);
    put_u32(&s->out, r->run);
    put_u32(&s->out, (uint32_t)err);
    if (err == 0 && s->freezer.method == EXEC_FREEZER_SIGNAL)
        put_processes(s, r);
    record_end(&s->out, begun);
}

static void set_state(struct run *r, enum run_pause state)
{
    r->pause = state;
    r->pause_us = monotonic_us();
}

void pause_end(struct spawner *s, struct run *r)
{
    enum run_pause was = r->pause;

    if (was == PAUSE_RUNS)
        return;
    freezer_thaw(&s->freezer, &r->frozen);
    if (s->freezer.method == EXEC_FREEZER_SIGNAL)
        (void)watcher_note(&s->watcher, r->pid,
                           false); /* if the watcher misses this, it sends one SIGCONT too many */
    list_remove(&r->freezing);
    if (was == PAUSE_FROZEN) {
        r->stood_us += monotonic_us() - r->pause_us;
        if (r->limit_left_us != TIME_NEVER && r->reason == OUTCOME_NONE && !r->leader_gone)
            run_set_timer(s, r, monotonic_us() + r->limit_left_us);
    }
    set_state(r, PAUSE_RUNS);
    if (was == PAUSE_FREEZING)
        answer_pause(s, r, HAWK_EBUSY);
}

void pauses_end_all(struct spawner *s)
{
    for (struct run *r = s->by_run; r; r = r->by_run.next)
        pause_end(s, r);
}

/* The run stands still. Its time limit, the only timer that it can have, stops. */
static void stand_still(struct spawner *s, struct run *r)
{
    list_remove(&r->freezing);
    set_state(r, PAUSE_FROZEN);
    r->limit_left_us = TIME_NEVER;
    if (heap_in(&r->timer)) {
        r->limit_left_us = r->timer.key > r->pause_us ? r->timer.key - r->pause_us : 0;
        heap_remove(&s->timers, &r->timer);
    }
    answer_pause(s, r, 0);
}

int64_t pauses_look(struct spawner *s)
{
    int64_t now = monotonic_us();

    list_foreach(&s->freezing, node, next) {
        struct run *r = container_of(node, struct run, freezing);

        if (freezer_holds(&s->freezer, &r->frozen)) {
            stand_still(s, r);
        } else if (now - r->pause_us > EXEC_CONFIRM_US) {
            log_warn("spawner: process group %d did not stand still within %d ms: it goes on", (int)r->pid,
                     (int)(EXEC_CONFIRM_US / US_PER_MS));
            pause_end(s, r);
        }
    }
    return list_empty(&s->freezing) ? TIME_NEVER : now + LOOK_US;
}

static int freeze(struct spawner *s, struct run *r)
{
    int err = watcher_start(&s->watcher);

    if (!err && s->freezer.method == EXEC_FREEZER_SIGNAL)
        err = watcher_note(&s->watcher, r->pid,
                           true); /* before the freeze: the watcher must know every stopped group */
    if (err)
        return HAWK_EBUSY;
    set_state(r, PAUSE_FREEZING);
    list_push_tail(&s->freezing, &r->freezing);
    return freezer_freeze(&s->freezer, &r->frozen);
}

void pauses_take(struct spawner *s, struct record *rec)
{
    uint32_t run = get_u32(rec);
    struct run *r;

    HASH_FIND(by_run, s->by_run, &run, sizeof run, r);
    if (s->fd < 0)
        return; /* its agent is gone, and nobody would resume it */
    if (rec->bad || !r || r->leader_gone || r->pause == PAUSE_FREEZING)
        return; /* its end is the answer, or an answer is on its way */
    if (r->pause == PAUSE_FROZEN)
        answer_pause(s, r, 0);
    else if (s->freezer.method == EXEC_FREEZER_OFF)
        answer_pause(s, r, HAWK_EUNSUPPORTED);
    else if (r->reason != OUTCOME_NONE || procs_memory_available() < s->config.pause_free_mem)
        answer_pause(s, r, HAWK_EBUSY);
    else if (freeze(s, r) == 0)
        (void)pauses_look(s);
    else if (r->pause == PAUSE_FREEZING)
        pause_end(s, r);
    else
        answer_pause(s, r, HAWK_EBUSY);
}

void pauses_take_resume(struct spawner *s, struct record *rec)
{
    uint32_t run = get_u32(rec);
    struct run *r;

    HASH_FIND(by_run, s->by_run, &run, sizeof run, r);
    if (r)
        pause_end(s, r);
}

static bool agent_freezes(const struct spawner *s) { return s->config.as_users && *s->freezer.base; }

void pauses_begin(struct spawner *s)
{
    if (agent_freezes(s) && watcher_start(&s->watcher))
        log_warn("spawner: nobody can watch over paused tasks of users");
}

/* The watcher has died. A new one learns the stopped groups from the memory that it inherits. */
void pauses_unwatched(struct spawner *s)
{
    bool frozen = agent_freezes(s);

    watcher_ended(&s->watcher);
    for (const struct run *r = s->by_run; r && !frozen; r = r->by_run.next)
        frozen = r->pause != PAUSE_RUNS;
    if (frozen && watcher_start(&s->watcher)) {
        log_warn("spawner: nobody can watch over paused tasks: they go on");
        pauses_end_all(s);
    }
}
