/* What a server remembers of the addresses that connect to it: no I/O, no clock. Private to net/. */
#ifndef HAWK_NET_ADDRESSES_H
#define HAWK_NET_ADDRESSES_H

#include "base/list.h"
#include "base/units.h"
#include "net/frames.h"
#include "net/listen.h"

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#define ADDRESSES_SWEEP_US                                                                                   \
    (100 * US_PER_MS)        /* between two looks through all of them: there may be tens of thousands */
#define ADDRESSES_MAX 65536u /* whose failures are remembered; beyond, only connections that exist count */
#define ADDRESS_STRICT_US                                                                                    \
    (10 * US_PER_S) /* after a connection broke a rule, its address' new ones get less */
/* Calls of one address with a wrong token: at once, and per second later on. Beyond it no new connection of it is taken,
 * unless a call of it was accepted within ADDRESS_TRUST_US. */
#define ADDRESS_FAILED_BURST 100u
#define ADDRESS_FAILED_RATE 1u
#define ADDRESS_TRUST_US (600 * US_PER_S)

#define ADDRESS_NET_BYTES 16u

/* Calls with a handler that one address has under way: this machine's connections have one for loopback, and one for unix
 * sockets. */
struct address_load {
    uint32_t calls;
    uint32_t lasting; /* of them those that last as long as their client likes */
};

struct address {
    uint8_t net[ADDRESS_NET_BYTES];
    struct list unproven;          /* oldest first, without those that were cut */
    uint32_t unproven_n, proven_n; /* connections */
    struct address_load load;
    struct frames_bucket failed;
    int64_t trusted_until_us; /* a call was accepted: nobody refuses the address for its wrong tokens */
    int64_t strict_until_us;  /* one of its connections broke a rule; of local addresses as well */
    UT_hash_handle hh;
};

/* All zero: empty. */
struct addresses {
    struct address *all;
    int64_t swept_us; /* when addresses_sweep last looked through them */
};

/* What counts as the address of a peer: an IPv6 host has a whole /64 to itself, an IPv4 address in IPv6's clothes is that
 * of IPv4, and loopback's addresses are one. local: the peer is on this machine. */
void address_net(const union sockaddr_any *peer, uint8_t net[ADDRESS_NET_BYTES], bool *local);
/* Made when there is none. */
struct address *addresses_get(struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES]);
/* NULL: nothing is remembered of it. */
struct address *addresses_find(const struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES]);
/* Forgets the addresses that have neither connection nor call, once nothing is to be remembered of them; looks for them
 * every ADDRESSES_SWEEP_US at most, whenever it is called. Returns when to call it again; TIME_NEVER: when another
 * connection or call of one has ended. */
int64_t addresses_sweep(struct addresses *as, int64_t now_us);
void addresses_free(struct addresses *as);

/* A call of it was accepted: somebody there has the right token. */
void address_trust(struct address *a, int64_t now_us);
/* A call of it had a wrong token. */
void address_failed(struct address *a, int64_t now_us);
/* Its calls had wrong tokens too often. */
bool address_is_distrusted(const struct address *a, int64_t now_us);
bool address_is_idle(const struct address *a);

#endif
