/* The tasks that run, by when they end; ends at the same moment come in the order the tasks were started. A 4-ary heap
 * of plain entries: nothing is allocated per task. */
#ifndef HAWK_SIM_ENDINGS_H
#define HAWK_SIM_ENDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct ending {
    int64_t at_us;
    uint64_t seq;
    int64_t run_us;
    uint32_t worker; /* index */
    uint32_t run;    /* the worker's handle */
};

struct endings {
    struct ending *v;
    uint32_t n, cap;
    uint64_t seq;
};

/* Starts zeroed. */
void endings_free(struct endings *h);
void endings_add(struct endings *h, int64_t at_us, int64_t run_us, uint32_t worker, uint32_t run);
/* The first one, or NULL. */
static inline const struct ending *endings_first(const struct endings *h) { return h->n ? h->v : 0; }
void endings_drop_first(struct endings *h);
/* Takes out the one of that worker and run; false: there is none. O(n). */
bool endings_take(struct endings *h, uint32_t worker, uint32_t run, struct ending *e);

#endif
