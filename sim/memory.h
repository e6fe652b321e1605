/* Huge pages for the memory of a simulation. */
#ifndef HAWK_SIM_MEMORY_H
#define HAWK_SIM_MEMORY_H

#include <stdint.h>

/* Announces that about this many bytes will be allocated soon, and kept. If the kernel gives huge pages on
 * request (madvise), the heap grows into huge pages. The call costs at most the unused part of the last page.
 * Without room or huge pages it does nothing. */
void sim_memory_expect(uint64_t bytes);

#endif
