/* See log_kind.h. */
#include "net/log_kind.h"

#include "base/hash.h"

#include <stdio.h>

static void tell_left_out(struct log_kind *k)
{
    if (k->left_out > 0)
        log_warn("%u more lines like this were left out: '%s'", k->left_out, k->what);
    k->shown = k->left_out = 0;
}

bool log_kind_may(struct log_kind *k, const char *what, int64_t now_us)
{
    if (now_us - k->since_us >= LOG_KIND_EVERY_US) {
        tell_left_out(k);
        k->since_us = now_us;
    }
    k->what = what;
    if (k->shown == LOG_KIND_AT_ONCE) {
        k->left_out++;
        return false;
    }
    k->shown++;
    return true;
}

bool log_kind_sweep(struct log_kind *k, int64_t now_us)
{
    if (k->left_out > 0 && now_us - k->since_us >= LOG_KIND_EVERY_US)
        tell_left_out(k);
    return k->left_out > 0;
}

static uint64_t key_of(const char *who)
{
    uint64_t key = 0;

    for (; *who; who++)
        key = hash_fnv1a(key, (uint8_t)*who);
    key = hash_mix(key);
    return key ? key : 1;
}

/* The peer's place, or the one that is to be its: a free one, or the oldest. */
static struct log_peer *place_of(struct log_peers *peers, uint64_t key)
{
    struct log_peer *best = &peers->v[0];

    for (struct log_peer *p = peers->v; p < peers->v + LOG_PEERS; p++) {
        if (p->key == key)
            return p;
        if (best->key && (!p->key || p->since_us < best->since_us))
            best = p;
    }
    return best;
}

bool log_kind_may_of(struct log_kind *k, const char *what, struct log_peers *peers, const char *who,
                     int64_t now_us, char more[LOG_PEER_MORE])
{
    uint64_t key = key_of(who);
    struct log_peer *p = place_of(peers, key);
    uint32_t left_out = p->key == key ? p->left_out : 0;

    if (p->key == key && now_us - p->since_us < LOG_PEER_EVERY_US) {
        p->left_out++;
        return false;
    }
    if (!log_kind_may(k, what, now_us))
        return false;
    *more = '\0';
    if (left_out)
        snprintf(more, LOG_PEER_MORE, " (%u more lines like this were left out)", left_out);
    *p = (struct log_peer){.key = key, .since_us = now_us};
    return true;
}
