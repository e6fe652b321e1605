/* What a task used: CPU time and memory. An owner may have ten million ended tasks, and a message has 56 bytes: so a
 * figure has 16 bits, and is right to 1 in 2,000. On the wire and in journals it is a plain number. */
#ifndef HAWK_MSG_USAGE_H
#define HAWK_MSG_USAGE_H

#include <stdint.h>

/* A whole number above 0, rounded; 0: not known. Below 2048 it is the number itself. Above, its lower 10 bits and a
 * leading 1 are the number's first 11 bits, and its upper 6 bits, less 1, tell how many bits follow. */
struct figure {
    uint16_t v;
};

#define FIGURE_MAX (INT64_C(1) << 62)

/* The figure of n; not known, if n is below 1. Larger numbers than FIGURE_MAX become that. */
static inline struct figure figure_of(int64_t n)
{
    int bits;

    if (n < 2048)
        return (struct figure){n > 0 ? (uint16_t)n : 0};
    n = n < FIGURE_MAX ? n : FIGURE_MAX;
    bits = 64 - __builtin_clzll((unsigned long long)n) - 11;
    /* What is rounded up to 2048 is carried into the upper bits. */
    return (struct figure){(uint16_t)((bits << 10) + (int)((n + (INT64_C(1) << (bits - 1))) >> bits))};
}

static inline int64_t figure_value(struct figure f)
{
    int bits = f.v >> 10;

    return bits < 2 ? f.v : (int64_t)(1024 + (f.v & 1023)) << (bits - 1);
}

/* Of a task's last try, and all processes that it waited for, or that were in its cgroup. */
struct usage {
    struct figure cpu_us;         /* user and system */
    struct figure mem_peak_bytes; /* resident at a time */
};

/* Of several tasks: the sum, and the largest; 0: not known. */
struct usage_total {
    int64_t cpu_us, mem_peak_bytes;
};

static inline void usage_add(struct usage_total *to, struct usage u)
{
    int64_t bytes = figure_value(u.mem_peak_bytes), us = figure_value(u.cpu_us);

    to->cpu_us = us < INT64_MAX - to->cpu_us ? to->cpu_us + us : INT64_MAX;
    if (bytes > to->mem_peak_bytes)
        to->mem_peak_bytes = bytes;
}

static inline struct usage usage_of(int64_t cpu_us, int64_t mem_peak_bytes)
{
    return (struct usage){figure_of(cpu_us), figure_of(mem_peak_bytes)};
}

#endif
