/* Log lines that strangers can cause: of each kind a few at once, then they are counted for a while. No clock. */
#ifndef HAWK_NET_LOG_KIND_H
#define HAWK_NET_LOG_KIND_H

#include "base/log.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

#define LOG_KIND_AT_ONCE 5u
#define LOG_KIND_EVERY_US (10 * US_PER_S)

/* All zero: nothing was said yet. */
struct log_kind {
    const char *what; /* of the lines that were left out; kept by reference */
    int64_t since_us;
    uint32_t shown, left_out; /* since then */
};

/* Whether one more line of this kind may be written; counts it. */
bool log_kind_may(struct log_kind *k, const char *what, int64_t now_us);
/* Counts a line that is not even to be considered. */
static inline void log_kind_leave_out(struct log_kind *k) { k->left_out++; }
/* Tells how many were left out, once their time is over. True: that is to come. */
bool log_kind_sweep(struct log_kind *k, int64_t now_us);

#define log_kind_warn(k, what, now_us, ...)                                                                  \
    do {                                                                                                     \
        if (log_kind_may((k), (what), (now_us)))                                                             \
            log_warn(__VA_ARGS__);                                                                           \
    } while (0)

#endif
