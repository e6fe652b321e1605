/* How many cores there are for this process. */
#ifndef HAWK_DAEMON_CORES_H
#define HAWK_DAEMON_CORES_H

#include <stdint.h>

/* The cores on which this process may run: its CPU affinity, as of taskset and of cpusets. At least 1. */
uint32_t cores_usable(void);

#endif
