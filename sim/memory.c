/* Huge pages: a simulated cluster is read at random, and with pages of 4 kB most steps wait for the processor's address
 * translation as well. glibc asks for them only when GLIBC_TUNABLES says so, which is read before main. */
#include "sim/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (UINT64_C(2) << 20)
#define BLOCK_MAX                                                                                            \
    (UINT64_C(1) << 30) /* a larger block is mapped by itself, as malloc does from 128 kB on otherwise */

/* The heap is made as large as it will be, in address space only, and given back: what is allocated next lies there. */
void sim_memory_expect(uint64_t bytes)
{
    char *p, *from, *to;

    if (bytes < 2 * HUGE_PAGE || bytes >= BLOCK_MAX || !mallopt(M_MMAP_THRESHOLD, BLOCK_MAX) ||
        !mallopt(M_TRIM_THRESHOLD, BLOCK_MAX))
        return;
    p = malloc(bytes);
    if (!p)
        return;
    from = p + (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    to = p + bytes - (uintptr_t)(p + bytes) % HUGE_PAGE;
    if (to <= (char *)sbrk(0)) /* it is of the heap, and not elsewhere since that could not grow */
        (void)madvise(from, (size_t)(to - from), MADV_HUGEPAGE);
    free(p);
}
