/* Tasks that only take time, kept in the agent's process: many thousands at once, by the caller's clock. */
#ifndef HAWK_EXEC_TIMERS_H
#define HAWK_EXEC_TIMERS_H

#include "base/heap.h"
#include "exec/exec.h"

struct timer_run;

struct timers {
    struct heap heap;
    struct timer_run *by_run;
    uint64_t seq;
};

void timers_init(struct timers *t);
void timers_free(struct timers *t);
uint32_t timers_running(const struct timers *t);
bool timers_has(const struct timers *t, uint32_t run);
/* Starts one at now_us; run must not be in use. HAWK_EINVALID: no duration in arg, nor in argv when arg
 * is NULL. */
HAWK_MUST_USE int timers_run(struct timers *t, int64_t now_us, uint32_t run, const struct job_desc *d,
                             const struct blob *arg);
/* False: no such run. */
bool timers_kill(struct timers *t, uint32_t run, enum outcome outcome);
/* False: no such run. A paused one says so in timers_on_timeout, and its time stands still. */
bool timers_pause(struct timers *t, int64_t now_us, uint32_t run);
bool timers_resume(struct timers *t, int64_t now_us, uint32_t run);
int64_t timers_next(const struct timers *t);
void timers_on_timeout(struct timers *t, int64_t now_us, exec_event_fn fn, void *arg);

#endif
