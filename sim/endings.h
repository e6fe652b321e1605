/* The ends of running tasks, ordered by time. Ends at the same moment keep the order in which their tasks
 * started. A 4-ary heap of plain entries, so that no task allocates memory. */
#ifndef HAWK_SIM_ENDINGS_H
#define HAWK_SIM_ENDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct ending {
    int64_t at_us;
    uint64_t seq;
    int64_t run_us;
    uint32_t worker; /* index */
    uint32_t run;    /* the worker's number of the run */
};

struct endings {
    struct ending *v;
    uint32_t n, cap;
    uint64_t seq;
};

/* Frees the heap. A heap of zeros is empty and ready for use. */
void endings_free(struct endings *h);
void endings_add(struct endings *h, int64_t at_us, int64_t run_us, uint32_t worker, uint32_t run);
/* The first end, or NULL. */
static inline const struct ending *endings_first(const struct endings *h) { return h->n ? h->v : 0; }
void endings_drop_first(struct endings *h);
/* Removes the end of that worker's run. False: there is none. O(n). */
bool endings_take(struct endings *h, uint32_t worker, uint32_t run, struct ending *e);

#endif
