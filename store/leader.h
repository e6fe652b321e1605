/* Which central is the active one, decided in etcd: the key PREFIX/leader belongs to one process for as long as that renews
 * its lease. Each reign has an epoch, one more than the last one's (PREFIX/epoch).
 *
 * A leader counts its lease from when it sent the request that renewed it, by its own clock (CLOCK_BOOTTIME), less a
 * margin: so it stops before etcd lets anybody else begin, whatever it slept through.
 *
 * Who stands by registers under PREFIX/standby/, with a lease of its own, for the active one to show; one that died goes
 * with its lease.
 *
 * A thread of its own does the asking, because the lease must be renewed however long the loop's thread is busy. */
#ifndef HAWK_STORE_LEADER_H
#define HAWK_STORE_LEADER_H

#include "base/units.h"
#include "net/addr.h"

#include <stdbool.h>
#include <stdint.h>

#define LEADER_POLL_PER_LEASE 8  /* how often a standby looks whether there is a leader, per lease */
#define LEADER_RENEW_PER_LEASE 4 /* how often a leader renews its lease */
#define LEADER_MARGIN 10         /* a tenth of the lease: clocks do not run equally fast */

struct leader;

struct leader_config {
    const char *endpoints, *prefix; /* copied */
    const char *address;            /* where this central is reached; copied */
    int64_t lease_us;               /* etcd counts whole seconds: rounded up */
};

/* The centrals that stand by, in no order. */
#define LEADER_STANDBYS_MAX 16 /* of more, so many are shown */
struct leader_standbys {
    uint32_t n;
    char address[LEADER_STANDBYS_MAX][ADDR_TEXT];
};

struct leader_view {
    bool leads;             /* this process does, */
    uint32_t epoch;         /* in this epoch; otherwise the active one's, 0: none is known */
    int64_t revision;       /* of the key that says so: see store_open_etcd */
    char active[ADDR_TEXT]; /* the active one's address; "" */
    bool down;              /* the active one was taken down, and whoever stood by it is to end as well */
    char trouble[400];      /* etcd cannot be asked: why; "" */
};

/* Starts to campaign. changed is called on the leader's thread when what leader_view tells has changed: post it to your
 * loop, call nothing here. */
struct leader *leader_new(const struct leader_config *c, void (*changed)(void *arg), void *arg);
/* Resigns, so that another can begin at once, and frees. NULL is fine. */
void leader_free(struct leader *l);
/* The same, but no other is to begin: those that stand by now see `down` instead, if they can ask etcd within the lease that
 * is left. NULL is fine. */
void leader_take_down(struct leader *l);

/* From any thread: */

void leader_view(struct leader *l, struct leader_view *v);
/* As of the last time the lease was renewed; none unless this process leads. */
void leader_standbys(struct leader *l, struct leader_standbys *s);
/* Whether the reign of that epoch goes on. Once false, always false. */
bool leader_holds(struct leader *l, uint32_t epoch);
/* Ends that reign, if it goes on: its holder cannot rule. Campaigns again after a lease. */
void leader_yield(struct leader *l, uint32_t epoch);

#endif
