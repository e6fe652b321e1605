/* Central's settings. */
#ifndef HAWK_CENTRAL_CONFIG_H
#define HAWK_CENTRAL_CONFIG_H

#include "classifier/classifier.h"
#include "msg/types.h"

struct central_config {
    uint64_t cluster;
    uint32_t epoch;          /* of this central; grows with every start */
    int64_t heartbeat_us;    /* for nodes; 500 ms */
    int64_t suspect_us;      /* a node that is silent for longer is suspect; 3 s */
    int64_t long_lease_us;   /* a node that is suspect for longer is gone; 60 s */
    int64_t members_push_us; /* shortest time between two rounds of member lists to workers; 200 ms */
    int64_t members_bytes_s; /* bytes per second for all those lists; 0: no limit; 20,000,000 */
    uint32_t long_tasks_max; /* unfinished tasks, and finished ones that are kept; 10,000,000 */
    uint32_t long_jobs_max;  /* the same for jobs; 1,000,000 */
    uint32_t nodes_max;      /* names ever registered; 200,000 */
    uint32_t finished_kept;  /* ended long jobs kept for a dist that was away at their end; 10,000 */
    int64_t unclaimed_us;    /* and for how long; 7 days */
    /* A job waits for smaller ones that come up to this many times its size later; 10. */
    uint32_t long_stretch;
    uint32_t pause_share_milli; /* the workers', for the reserve: worker/worker.h; 500 */
    /* How long central keeps a long job after all watchers know its end, at least suspect_us: a client may
     * ask for it at another dist; 0. */
    int64_t ended_kept_us;
    uint64_t results_bytes_max; /* of results of long tasks, until their dists have them; 256 MiB */
    /* How long a central without any state gives out no new ids: nodes that have one come first; 0. */
    int64_t ids_wait_us;
    /* Dists have these from central: a job is moved with a receipt alone from that time on; none, 0. */
    struct receipt_secret receipts;
    int64_t receipts_due_us;
    bool heartbeats; /* off: no node becomes suspect by silence (the simulator) */
    /* How cutoff and share are found: fixed, or computed. */
    struct history_config history;
    struct policy policy; /* all other settings; version, cutoff and share are ignored */
    uint8_t preset;       /* in policy_names: the preset from which the policy started */
};
/* Sets the defaults above, heartbeats on, policy "hawk". */
void central_config_init(struct central_config *c);

#endif
