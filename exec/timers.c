/* Timer tasks: a heap by the time of each one's next event, which is its start, its end, or the answer to a
 * pause. A paused task has none, and is not in the heap. */
#include "exec/timers.h"

#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct timer_run {
    UT_hash_handle hh;
    struct heap_node node;
    uint32_t run;
    bool started; /* its start has been reported */
    bool killed;
    bool asked;        /* a pause was requested and not answered yet */
    int64_t paused_us; /* paused since then; TIME_NEVER: it runs */
    int64_t stood_us;  /* total time of earlier pauses */
    enum outcome outcome;
    int64_t started_us;
    int64_t run_us; /* its duration, at most its time limit */
};

void timers_init(struct timers *t)
{
    heap_init(&t->heap);
    t->by_run = NULL;
    t->seq = 0;
}

void timers_free(struct timers *t)
{
    struct timer_run *r = t->by_run, *next;

    HASH_CLEAR(hh, t->by_run); /* frees the table, and leaves the chain */
    for (; r; r = next) {
        next = r->hh.next;
        free(r);
    }
    heap_free(&t->heap);
}

uint32_t timers_running(const struct timers *t) { return HASH_COUNT(t->by_run); }

static struct timer_run *find_timer(const struct timers *t, uint32_t run)
{
    struct timer_run *r;

    HASH_FIND(hh, t->by_run, &run, sizeof run, r);
    return r;
}

bool timers_has(const struct timers *t, uint32_t run) { return find_timer(t, run) != NULL; }

int timers_run(struct timers *t, int64_t now_us, uint32_t run, const struct job_desc *d,
               const struct blob *arg)
{
    const char *text = arg ? arg->data : d->argv.n ? d->argv.data : "";
    struct timer_run *r;
    int64_t run_us;

    if ((arg && strlen(text) != arg->len) || duration_parse(text, &run_us) < 0)
        return HAWK_EINVALID;
    r = xcalloc(1, sizeof *r);
    r->run = run;
    r->run_us = run_us;
    r->outcome = OUTCOME_EXITED;
    r->paused_us = TIME_NEVER;
    if (d->time_limit_us > 0 && d->time_limit_us < run_us) {
        r->run_us = d->time_limit_us;
        r->outcome = OUTCOME_TIME_LIMIT;
    }
    r->started_us = now_us;
    r->node.key = now_us;
    r->node.seq = ++t->seq;
    if (heap_push(&t->heap, &r->node) < 0) {
        free(r);
        return HAWK_ENOMEM;
    }
    HASH_ADD(hh, t->by_run, run, sizeof r->run, r);
    return 0;
}

/* Sets the time of r's next event. */
static void schedule(struct timers *t, struct timer_run *r, int64_t at_us)
{
    heap_set(&t->heap, &r->node, at_us, ++t->seq);
}

bool timers_kill(struct timers *t, uint32_t run, enum outcome outcome)
{
    struct timer_run *r = find_timer(t, run);

    if (!r)
        return false;
    r->outcome = outcome;
    r->killed = true;
    if (r->started) /* otherwise it is due already, to be reported as started first */
        schedule(t, r, r->started_us);
    return true;
}

static int64_t end_of(const struct timer_run *r) { return r->started_us + r->run_us + r->stood_us; }

bool timers_pause(struct timers *t, int64_t now_us, uint32_t run)
{
    struct timer_run *r = find_timer(t, run);

    if (!r)
        return false;
    if (r->killed || (r->paused_us == TIME_NEVER && end_of(r) <= now_us))
        return true; /* its end is due, and is the answer */
    r->asked = true;
    if (r->paused_us == TIME_NEVER)
        r->paused_us = now_us;
    if (r->started)
        schedule(t, r, r->started_us);
    return true;
}

bool timers_resume(struct timers *t, int64_t now_us, uint32_t run)
{
    struct timer_run *r = find_timer(t, run);

    if (!r || r->paused_us == TIME_NEVER)
        return r != NULL;
    r->stood_us += now_us - r->paused_us;
    r->paused_us = TIME_NEVER;
    if (r->started && !r->asked && !r->killed)
        schedule(t, r, end_of(r));
    return true;
}

int64_t timers_next(const struct timers *t)
{
    const struct heap_node *n = heap_min(&t->heap);

    return n ? n->key : TIME_NEVER;
}

/* Each of these takes the node out of the heap first: fn may start runs and kill them. */
static void report_start(struct timers *t, struct timer_run *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_STARTED};

    m.exec_started.run = r->run;
    r->started = true;
    heap_update(&t->heap, &r->node, r->killed || r->asked ? r->started_us : end_of(r), r->node.seq);
    fn(arg, &m);
}

static void report_pause(struct timers *t, struct timer_run *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_PAUSED};

    m.exec_paused.run = r->run;
    r->asked = false;
    if (r->paused_us != TIME_NEVER) {
        heap_remove(&t->heap, &r->node);
    } else { /* it was resumed meanwhile */
        m.exec_paused.err = HAWK_EBUSY;
        schedule(t, r, end_of(r));
    }
    fn(arg, &m);
}

static void report_end(struct timers *t, struct timer_run *r, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_EXITED};

    m.exec_exited.run = r->run;
    m.exec_exited.run_us =
        now_us - r->started_us - r->stood_us - (r->paused_us == TIME_NEVER ? 0 : now_us - r->paused_us);
    m.exec_exited.outcome = (uint8_t)r->outcome;
    heap_remove(&t->heap, &r->node);
    HASH_DEL(t->by_run, r);
    free(r);
    fn(arg, &m);
}

void timers_on_timeout(struct timers *t, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct heap_node *n;

    while ((n = heap_min(&t->heap)) && n->key <= now_us) {
        struct timer_run *r = (struct timer_run *)((char *)n - offsetof(struct timer_run, node));

        if (!r->started)
            report_start(t, r, fn, arg);
        else if (r->asked && !r->killed)
            report_pause(t, r, fn, arg);
        else
            report_end(t, r, now_us, fn, arg);
    }
}
