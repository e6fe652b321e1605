/* Huge pages for what a simulation allocates. */
#ifndef HAWK_SIM_MEMORY_H
#define HAWK_SIM_MEMORY_H

#include <stdint.h>

/* About so many bytes will be allocated soon, and stay: where the kernel has huge pages for those who ask (madvise), the heap
 * grows into some. Costs no memory but the rest of the last one; where there is no room or no such page, nothing happens. */
void sim_memory_expect(uint64_t bytes);

#endif
