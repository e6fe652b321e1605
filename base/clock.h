/* The system's clocks. Not for policy code, which is told the time. */
#ifndef HAWK_BASE_CLOCK_H
#define HAWK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A clock's time in us. */
int64_t clock_us(clockid_t clock);
/* CLOCK_MONOTONIC. */
int64_t monotonic_us(void);
/* The clock's time us from now, which is how pthread_cond_timedwait and others want their deadlines. */
struct timespec clock_after(clockid_t clock, int64_t us);

#endif
