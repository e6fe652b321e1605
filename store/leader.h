/* Elects the active central, in etcd. The key PREFIX/leader belongs to one process for as long as that
 * process renews its lease. Each reign has an epoch, one more than the last reign's (PREFIX/epoch).
 *
 * A leader counts its lease from the time at which it sent the request that renewed it, by its own clock
 * (CLOCK_BOOTTIME), less a margin. So it stops before etcd lets another one begin, even after the machine
 * was suspended.
 *
 * A standby registers under PREFIX/standby/ with a lease of its own, so that the active central can show
 * it. When the standby dies, its key goes with its lease.
 *
 * The election has a thread of its own, since the lease must be renewed however long the loop's thread is
 * busy. */
#ifndef HAWK_STORE_LEADER_H
#define HAWK_STORE_LEADER_H

#include "base/units.h"
#include "net/addr.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stdint.h>

#define LEADER_POLL_PER_LEASE 8  /* how often a standby looks whether there is a leader, per lease */
#define LEADER_RENEW_PER_LEASE 4 /* how often a leader renews its lease */
#define LEADER_MARGIN 10 /* the divisor of the lease that makes the margin: clocks do not run equally fast */

struct leader;

struct leader_config {
    const char *endpoints, *prefix; /* copied */
    struct tls_files tls;           /* as for etcd_new */
    const char *address;            /* where this central is reached; copied */
    int64_t lease_us;               /* etcd counts whole seconds: rounded up */
};

/* The centrals that stand by, in no order. */
#define LEADER_STANDBYS_MAX 16 /* if there are more, this many are shown */
struct leader_standbys {
    uint32_t n;
    char address[LEADER_STANDBYS_MAX][ADDR_TEXT];
};

struct leader_view {
    bool leads;             /* this process does, */
    uint32_t epoch;         /* the epoch of this reign; else of the active central's, 0: none is known */
    int64_t revision;       /* of the leader's key: see store_open_etcd */
    char active[ADDR_TEXT]; /* the active one's address; "" */
    bool down;         /* the active one was taken down, and centrals that stood by it must end as well */
    char trouble[400]; /* why etcd cannot be asked; "": it can */
};

/* Starts to campaign. `changed` runs on the leader's thread when leader_view has changed. It must only
 * post to your loop, and call nothing here. */
struct leader *leader_new(const struct leader_config *c, void (*changed)(void *arg), void *arg);
/* Resigns, so that another central can begin at once, and frees. NULL is fine. */
void leader_free(struct leader *l);
/* As leader_free, but no other central may begin: those that stand by see `down`, if they can ask etcd
 * within the rest of the lease. NULL is fine. */
void leader_take_down(struct leader *l);

/* From any thread: */

void leader_view(struct leader *l, struct leader_view *v);
/* The standbys as of the last renewal of the lease; none unless this process leads. */
void leader_standbys(struct leader *l, struct leader_standbys *s);
/* Whether the reign of that epoch goes on. Once false, always false. */
bool leader_holds(struct leader *l, uint32_t epoch);
/* Ends that reign, if it goes on, because its holder cannot rule. Campaigns again after a lease. */
void leader_yield(struct leader *l, uint32_t epoch);

#endif
