/* The addresses that connect to a server, and what the server remembers of each. No I/O, no clock. Private
 * to net/. */
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
    (100 * US_PER_MS) /* between two walks through all addresses: there may be tens of thousands */
#define ADDRESSES_MAX                                                                                        \
    65536u /* addresses whose failures are remembered; of others only those with connections count */
#define ADDRESS_STRICT_US                                                                                    \
    (10 * US_PER_S) /* after one of its connections broke a rule, the address' new ones are allowed less */
/* Calls of one address with a wrong token: at once, and per second after that. Beyond it the server takes
 * no new connection of the address, unless it accepted a call of it within ADDRESS_TRUST_US. */
#define ADDRESS_FAILED_BURST 100u
#define ADDRESS_FAILED_RATE 1u
#define ADDRESS_TRUST_US (600 * US_PER_S)

/* Connections that an address may open at once, as seconds of its rate: nodes that all come back at the same time do
 * not wait. */
#define ADDRESS_CONNECT_S 10u

#define ADDRESS_NET_BYTES 16u

/* Calls with a handler that one address has under way. This machine's connections are counted for loopback, and for
 * unix sockets: there for each user, root's and this process's own together. */
struct address_load {
    uint32_t calls;
    uint32_t lasting; /* of them those that last until the client ends them */
    size_t unread;    /* bytes of replies to them that have not left */
};

struct address {
    uint8_t net[ADDRESS_NET_BYTES];
    struct list unproven;          /* oldest first, without those that the server has cut */
    uint32_t unproven_n, proven_n; /* connections */
    uint32_t waiting_n;            /* those that came too fast, and have not been taken in */
    struct address_load load;
    struct frames_bucket failed;
    struct frames_bucket connects;
    int64_t trusted_until_us; /* a call was accepted: until then wrong tokens do not matter */
    int64_t strict_until_us;  /* one of its connections broke a rule; counts for local addresses as well */
    UT_hash_handle hh;
};

/* All zero: empty. */
struct addresses {
    struct address *all;
    int64_t swept_us; /* when addresses_sweep last walked through them */
};

/* Which bytes count as the address of a peer. An IPv6 host has a whole /64 to itself. An IPv4 address that
 * is written as IPv6 counts as IPv4. All loopback addresses count as one. local: the peer is on this
 * machine. */
void address_net(const union sockaddr_any *peer, uint8_t net[ADDRESS_NET_BYTES], bool *local);
/* The same for a user of this machine behind a unix socket. */
void address_of_uid(uint32_t uid, uint8_t net[ADDRESS_NET_BYTES]);
/* Finds the address, or makes it. */
struct address *addresses_get(struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES]);
/* NULL: nothing is remembered of it. */
struct address *addresses_find(const struct addresses *as, const uint8_t net[ADDRESS_NET_BYTES]);
/* Forgets addresses without connections and calls, once nothing of them matters any more. Call it at any
 * time: it walks through them every ADDRESSES_SWEEP_US at most. Returns when to call it again; TIME_NEVER:
 * when the next connection or call of an address has ended. */
int64_t addresses_sweep(struct addresses *as, int64_t now_us);
void addresses_free(struct addresses *as);

/* A call of the address was accepted: a client there has the right token. */
void address_trust(struct address *a, int64_t now_us);
/* A call of the address had a wrong token. */
void address_failed(struct address *a, int64_t now_us);
/* Whether its calls had wrong tokens too often. */
bool address_is_distrusted(const struct address *a, int64_t now_us);
/* Whether it may open a connection now, of `rate` a second; counts it. */
bool address_may_connect(struct address *a, uint32_t rate, int64_t now_us);
bool address_is_idle(const struct address *a);

#endif
