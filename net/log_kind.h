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

/* A peer that is refused asks again for ever, as a revoked node does: it has one line, and another in this time. */
#define LOG_PEER_EVERY_US (600 * US_PER_S)
#define LOG_PEERS 256u
#define LOG_PEER_MORE 64

/* All zero: nobody had a line yet. */
struct log_peers {
    struct log_peer {
        uint64_t key; /* 0: free */
        int64_t since_us;
        uint32_t left_out; /* since then */
    } v[LOG_PEERS];
};

/* The same of a line about one peer and one reason; `who` tells them apart. more: to be put behind the line, says how
 * many like it were left out. Of more than LOG_PEERS peers, those that had a line first may have another sooner. */
bool log_kind_may_of(struct log_kind *k, const char *what, struct log_peers *peers, const char *who,
                     int64_t now_us, char more[LOG_PEER_MORE]);

#define log_kind_warn(k, what, now_us, ...)                                                                  \
    do {                                                                                                     \
        if (log_kind_may((k), (what), (now_us)))                                                             \
            log_warn(__VA_ARGS__);                                                                           \
    } while (0)

#endif
