/* See cores.h. */
#include "daemon/cores.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#define SET_MAX (1 << 20) /* cores; the kernel refuses a set that is smaller than its own */

uint32_t cores_usable(void)
{
    for (int size = CPU_SETSIZE; size <= SET_MAX; size *= 2) {
        cpu_set_t *set = CPU_ALLOC(size);
        size_t bytes = CPU_ALLOC_SIZE(size);
        int err = set && sched_getaffinity(0, bytes, set) == 0 ? 0 : errno;
        int n = set && !err ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (n > 0)
            return (uint32_t)n;
        if (err != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}
