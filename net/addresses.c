/* See addresses.h. */
#include "net/addresses.h"

#include "base/mem.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t loopback[ADDRESS_NET_BYTES] = {127};

static void net_of_v4(const uint8_t host[4], uint8_t net[ADDRESS_NET_BYTES], bool *local)
{
    memcpy(net, host, 4);
    net[15] = 4;
    *local = host[0] == 127;
}

static void net_of_v6(const struct in6_addr *host, uint8_t net[ADDRESS_NET_BYTES], bool *local)
{
    if (IN6_IS_ADDR_V4MAPPED(host)) {
        net_of_v4(host->s6_addr + 12, net, local);
        return;
    }
    memcpy(net, host, 8);
    net[15] = 6;
    *local = IN6_IS_ADDR_LOOPBACK(host);
}

void address_net(const union sockaddr_any *peer, uint8_t net[ADDRESS_NET_BYTES], bool *local)
{
    memset(net, 0, ADDRESS_NET_BYTES);
    *local = peer->sa.sa_family == AF_UNIX;
    if (peer->sa.sa_family == AF_INET)
        net_of_v4((const uint8_t *)&((const struct sockaddr_in *)(const void *)peer)->sin_addr, net, local);
    else if (peer->sa.sa_family == AF_INET6)
        net_of_v6(&((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, net, local);
    if (*local && peer->sa.sa_family != AF_UNIX)
        memcpy(net, loopback, ADDRESS_NET_BYTES);
}

void address_of_uid(uint32_t uid, uint8_t net[ADDRESS_NET_BYTES])
{
    memset(net, 0, ADDRESS_NET_BYTES);
    memcpy(net, &uid, sizeof uid);
    net[15] = 1; /* no IP address has this */
}

struct address *addresses_find(const struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES])
{
    struct address *a;

    HASH_FIND(hh, as->all, net, ADDRESS_NET_BYTES, a);
    return a;
}

struct address *addresses_get(struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES])
{
    struct address *a = addresses_find(as, net);

    if (!a) {
        a = xcalloc(1, sizeof *a);
        memcpy(a->net, net, ADDRESS_NET_BYTES);
        list_init(&a->unproven);
        HASH_ADD(hh, as->all, net, ADDRESS_NET_BYTES, a);
    }
    return a;
}

bool address_is_idle(const struct address *a)
{
    return a->unproven_n + a->proven_n + a->waiting_n + a->load.calls + a->load.unread == 0;
}

static int64_t later_of(int64_t a_us, int64_t b_us) { return a_us > b_us ? a_us : b_us; }

/* The time until which the address has to be remembered. */
static int64_t worth_until(const struct address *a, bool crowded)
{
    int64_t until_us = a->strict_until_us;

    if (a->connects.spent > 0)
        until_us = later_of(until_us, a->connects.at_us + ADDRESS_CONNECT_S * US_PER_S);
    if (crowded)
        return until_us;
    if (a->failed.spent > 0)
        until_us =
            later_of(until_us, a->failed.at_us + ADDRESS_FAILED_BURST * US_PER_S / ADDRESS_FAILED_RATE);
    return later_of(until_us, a->trusted_until_us);
}

int64_t addresses_sweep(struct addresses *as, int64_t now_us)
{
    struct address *a, *next;
    int64_t next_us = TIME_NEVER;

    if (now_us < as->swept_us + ADDRESSES_SWEEP_US)
        return as->swept_us + ADDRESSES_SWEEP_US;
    as->swept_us = now_us;
    HASH_ITER(hh, as->all, a, next) {
        if (!address_is_idle(a))
            continue;
        int64_t until_us = worth_until(a, HASH_COUNT(as->all) > ADDRESSES_MAX);
        if (now_us < until_us) {
            next_us = until_us < next_us ? until_us : next_us;
            continue;
        }
        HASH_DEL(as->all, a);
        free(a);
    }
    return later_of(next_us, now_us + ADDRESSES_SWEEP_US);
}

void addresses_free(struct addresses *as)
{
    struct address *a, *next;

    HASH_ITER(hh, as->all, a, next) {
        HASH_DEL(as->all, a);
        free(a);
    }
}

void address_trust(struct address *a, int64_t now_us)
{
    a->failed.spent = 0;
    a->trusted_until_us = now_us + ADDRESS_TRUST_US;
}

void address_failed(struct address *a, int64_t now_us)
{
    (void)frames_take(&a->failed, ADDRESS_FAILED_BURST, ADDRESS_FAILED_RATE, now_us);
}

bool address_may_connect(struct address *a, uint32_t rate, int64_t now_us)
{
    return frames_take(&a->connects, (uint64_t)rate * ADDRESS_CONNECT_S, rate, now_us);
}

bool address_is_distrusted(const struct address *a, int64_t now_us)
{
    struct frames_bucket look = a->failed;

    return a->proven_n == 0 && now_us >= a->trusted_until_us && look.spent >= ADDRESS_FAILED_BURST &&
           !frames_take(&look, ADDRESS_FAILED_BURST, ADDRESS_FAILED_RATE, now_us);
}
