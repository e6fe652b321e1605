/* Tasks that only take time, kept in the agent's process: many thousands at a time, on the caller's clock. */
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
/* Starts a run at now_us; the number must not be in use. HAWK_EINVALID: no duration in arg, or in argv if arg
 * is NULL. */
HAWK_MUST_USE int timers_run(struct timers *t, int64_t now_us, uint32_t run, const struct job_desc *d,
                             const struct blob *arg);
/* False: no such run. */
bool timers_kill(struct timers *t, uint32_t run, enum outcome outcome);
/* False: no such run. timers_on_timeout() reports that it is paused; its time stands still. */
bool timers_pause(struct timers *t, int64_t now_us, uint32_t run);
bool timers_resume(struct timers *t, int64_t now_us, uint32_t run);
int64_t timers_next(const struct timers *t);
void timers_on_timeout(struct timers *t, int64_t now_us, exec_event_fn fn, void *arg);

#endif
