/* Central's settings. */
#ifndef HAWK_CENTRAL_CONFIG_H
#define HAWK_CENTRAL_CONFIG_H

#include "classifier/classifier.h"
#include "msg/types.h"

struct central_config {
    uint64_t cluster;
    uint32_t epoch;          /* of this central: grows with every start */
    int64_t heartbeat_us;    /* what nodes are told; 500 ms */
    int64_t suspect_us;      /* silence that makes a node suspect; 3 s */
    int64_t long_lease_us;   /* suspicion that makes it gone; 60 s */
    int64_t members_push_us; /* between two rounds of member lists to workers, at least; 200 ms */
    int64_t members_bytes_s; /* what all those lists may take of the network; 0: no limit; 20,000,000 */
    uint32_t long_tasks_max; /* unfinished ones and finished ones still kept; 10,000,000 */
    uint32_t long_jobs_max;  /* likewise; 1,000,000 */
    uint32_t nodes_max;      /* names ever registered; 200,000 */
    uint32_t finished_kept;  /* finished long jobs kept for a dist that was away when they ended; 10,000 */
    int64_t
        ended_kept_us; /* a long job is remembered so long after everybody was told its end, at least suspect_us: a
                                client may have it asked for by another dist; 0 */
    uint64_t results_bytes_max; /* of what long tasks returned, until their dists have it; 256 MiB */
    int64_t
        ids_wait_us; /* a central without any state gives out no new ids for so long: who had one comes first; 0 */
    bool heartbeats; /* off: silence makes nobody suspect (the simulator) */
    /* Where cutoff and share come from: fixed, or computed. */
    struct history_config history;
    struct policy policy; /* everything else of it; version, cutoff and share are ignored */
    uint8_t preset;       /* of policy_names: what it began as */
};
/* The defaults above, heartbeats on, policy "hawk". */
void central_config_init(struct central_config *c);

#endif
