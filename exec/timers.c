/* Timer tasks: a heap by the time of each one's next event, its start or its end. */
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
    bool started; /* has been reported as started */
    enum outcome outcome;
    int64_t started_us;
    int64_t run_us; /* how long it takes, its time limit applied */
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

    HASH_CLEAR(hh, t->by_run); /* takes the table away and leaves the chain */
    for (; r; r = next) {
        next = r->hh.next;
        free(r);
    }
    heap_free(&t->heap);
}

uint32_t timers_running(const struct timers *t) { return HASH_COUNT(t->by_run); }

static struct timer_run *find(const struct timers *t, uint32_t run)
{
    struct timer_run *r;

    HASH_FIND(hh, t->by_run, &run, sizeof run, r);
    return r;
}

bool timers_has(const struct timers *t, uint32_t run) { return find(t, run) != NULL; }

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

bool timers_kill(struct timers *t, uint32_t run, enum outcome outcome)
{
    struct timer_run *r = find(t, run);

    if (!r)
        return false;
    r->outcome = outcome;
    if (r->started) /* else it is due already, to be reported as started first */
        heap_update(&t->heap, &r->node, r->started_us, ++t->seq);
    else
        r->run_us = 0;
    return true;
}

int64_t timers_next(const struct timers *t)
{
    const struct heap_node *n = heap_min(&t->heap);

    return n ? n->key : TIME_NEVER;
}

/* Both take the node out of the heap's way first: fn may ask for runs and kill them. */
static void report_start(struct timers *t, struct timer_run *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_STARTED};

    m.exec_started.run = r->run;
    r->started = true;
    heap_update(&t->heap, &r->node, r->started_us + r->run_us, r->node.seq);
    fn(arg, &m);
}

static void report_end(struct timers *t, struct timer_run *r, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_EXITED};

    m.exec_exited.run = r->run;
    m.exec_exited.run_us = now_us - r->started_us;
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

        if (r->started)
            report_end(t, r, now_us, fn, arg);
        else
            report_start(t, r, fn, arg);
    }
}
