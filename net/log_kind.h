/* Limits log lines that strangers can cause: a few of each kind at once, then they are only counted for a
 * while. No clock. */
#ifndef HAWK_NET_LOG_KIND_H
#define HAWK_NET_LOG_KIND_H

#include "base/log.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_KIND_AT_ONCE 5u
#define LOG_KIND_EVERY_US (10 * US_PER_S)

/* All zero: no line was written yet. */
struct log_kind {
    const char *what; /* names the lines that were left out; keeps the pointer */
    int64_t since_us;
    uint32_t shown, left_out; /* since then */
};

/* Whether one more line of this kind may be written now; counts it. */
bool log_kind_may(struct log_kind *k, const char *what, int64_t now_us);
/* Counts a line that is left out in any case. */
static inline void log_kind_leave_out(struct log_kind *k) { k->left_out++; }
/* Logs how many lines were left out, once their time is over. True: that is still to come. */
bool log_kind_sweep(struct log_kind *k, int64_t now_us);

#define log_kind_warn(k, what, now_us, ...)                                                                  \
    do {                                                                                                     \
        if (log_kind_may((k), (what), (now_us)))                                                             \
            log_warn(__VA_ARGS__);                                                                           \
    } while (0)

#endif
