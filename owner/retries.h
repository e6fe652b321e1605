/* Tasks that failed and run again (docs/protocol.md 3.14): the job says how often, after which failures, and how long
 * to wait. Tries that were lost with their workers count apart. */
#ifndef HAWK_OWNER_RETRIES_H
#define HAWK_OWNER_RETRIES_H

#include "base/units.h"
#include "msg/msg.h"

#include <string.h>

#define OWNER_RETRY_DELAY_MAX (INT64_C(3600) * US_PER_S)

/* Whether an end so is one after which the job's tasks run again, if they have not failed too often. */
static inline bool owner_retry_on(const struct job_desc *desc, enum outcome outcome, int32_t code)
{
    uint32_t on = desc->retry_on ? desc->retry_on : RETRY_ON_ALL;

    if (desc->failure_retries == 0)
        return false; /* the usual case */
    switch (outcome) {
    case OUTCOME_EXITED:
        if (code == 0 || !(on & RETRY_ON_EXIT))
            return false;
        return !desc->retry_codes || memchr(desc->retry_codes->data, code & 255, desc->retry_codes->len);
    case OUTCOME_SIGNALED:
    case OUTCOME_OUT_OF_MEMORY: /* which is a SIGKILL */
        return on & RETRY_ON_SIGNAL;
    case OUTCOME_TIME_LIMIT:
        return on & RETRY_ON_TIME_LIMIT;
    default:
        return false; /* what could not start is tried elsewhere, and what was cancelled is to end */
    }
}

/* Whether such a task, which failed `failures` times before, may run again. */
static inline bool owner_has_retries(const struct job_desc *desc, uint32_t failures)
{
    return failures < desc->failure_retries && !(desc->flags & JOB_AT_MOST_ONCE);
}

/* How long it waits for that, after so many failures (at least 1): each time twice as long, up to an hour. */
static inline int64_t owner_retry_delay_us(const struct job_desc *desc, uint32_t failures)
{
    int64_t us = desc->retry_delay_us;

    while (--failures > 0 && us < OWNER_RETRY_DELAY_MAX)
        us *= 2;
    return us < OWNER_RETRY_DELAY_MAX ? us : OWNER_RETRY_DELAY_MAX;
}

#endif
