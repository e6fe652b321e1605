/* Huge pages. Steps read a simulated cluster's memory at random; with pages of 4 kB most steps also wait for
 * address translation. glibc uses huge pages only if GLIBC_TUNABLES says so, which it reads before main(). */
#include "sim/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (UINT64_C(2) << 20)
#define BLOCK_MAX (UINT64_C(1) << 30) /* malloc maps a larger block by itself; its default is 128 kB */

/* Makes the heap as large as it will become (address space only), and frees it again: later allocations lie
 * there. */
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
    if (to <= (char *)sbrk(0)) /* p lies in the heap; elsewhere if the heap could not grow */
        (void)madvise(from, (size_t)(to - from), MADV_HUGEPAGE);
    free(p);
}
