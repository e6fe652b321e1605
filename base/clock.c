/* The system's clocks: see clock.h. */
#include "base/clock.h"

#include "base/units.h"

int64_t clock_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t monotonic_us(void) { return clock_us(CLOCK_MONOTONIC); }

struct timespec clock_after(clockid_t clock, int64_t us)
{
    int64_t at_us = clock_us(clock) + us;

    return (struct timespec){.tv_sec = at_us / US_PER_S, .tv_nsec = at_us % US_PER_S * 1000};
}
