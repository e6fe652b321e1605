/* Residents: see residents.h. A resident has a struct run of its own, under its leader's pid alone: the run that it was
 * has ended, and its number may be used again. */
#include "exec/residents.h"

#include "base/check.h"
#include "base/mem.h"
#include "exec/pauses.h"

static struct run *resident_of(struct run *r)
{
    struct run *x = xcalloc(1, sizeof *x);

    x->pid = r->pid;
    x->frozen = r->frozen;
    x->limited = r->limited;
    r->limited = (struct limited){0};
    x->id = r->id;
    list_init(&x->freezing);
    list_init(&x->resident);
    return x;
}

void residents_take(struct spawner *s, struct record *rec)
{
    uint32_t run = get_u32(rec);
    struct run *r, *x;

    HASH_FIND(by_run, s->by_run, &run, sizeof run, r);
    if (s->fd < 0)
        return; /* its agent is gone, with which residents end */
    if (rec->bad || !r || r->leader_gone || r->reason != OUTCOME_NONE)
        return; /* its own end is under way, and is reported as any other */
    pause_end(s, r);
    x = resident_of(r);
    HASH_DELETE(by_pid, s->by_pid, r);
    HASH_ADD(by_pid, s->by_pid, pid, sizeof x->pid, x);
    list_push_tail(&s->residents, &x->resident);
    HASH_DELETE(by_run, s->by_run, r);
    if (heap_in(&r->timer))
        heap_remove(&s->timers, &r->timer);
    r->outcome = OUTCOME_EXITED;
    r->code = 0;
    r->run_us = run_time(r);
    run_report_end(s, r);
}

void residents_take_evict(struct spawner *s, struct record *rec)
{
    pid_t pid = (pid_t)get_u32(rec);
    struct run *x;

    HASH_FIND(by_pid, s->by_pid, &pid, sizeof pid, x);
    if (!rec->bad && x && !list_empty(&x->resident))
        run_kill(s, x, OUTCOME_CANCELLED, false);
}

void residents_end_all(struct spawner *s)
{
    list_foreach(&s->residents, l, next)
        run_kill(s, container_of(l, struct run, resident), OUTCOME_CANCELLED, false);
}

void resident_ended(struct spawner *s, struct run *x)
{
    HASH_DELETE(by_pid, s->by_pid, x);
    list_remove(&x->resident);
    if (heap_in(&x->timer))
        heap_remove(&s->timers, &x->timer);
    freezer_end(&s->freezer, &x->frozen, monotonic_us() + s->config.kill_grace_us);
    limits_end(&s->limits, &x->limited);
    run_free(x);
    runs_sweep_soon(s);
}

bool resident_has(const struct spawner *s, uint64_t number)
{
    list_foreach(&s->residents, l, next)
        if (container_of(l, struct run, resident)->frozen.number == number)
            return true;
    return false;
}
