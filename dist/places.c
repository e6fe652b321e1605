/* Places: the reservations and tasks of a job at a worker. One table for all jobs, found by (job, worker),
 * and a list of the places of each job and of each worker. */
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "dist/internal.h"

#include <stdlib.h>

#define PLACE_CHUNK 256u /* places in one allocation: 16 kB */
#define BUCKETS_MIN 64u

void dist_places_init(struct place_table *t)
{
    *t = (struct place_table){0};
    t->buckets = t->cap = BUCKETS_MIN;
    t->mask = BUCKETS_MIN - 1;
    t->bucket = xcalloc(BUCKETS_MIN, sizeof *t->bucket);
}

void dist_places_free(struct place_table *t)
{
    for (uint32_t i = 0; i < t->chunks; i++)
        free(t->chunk[i]);
    free(t->chunk);
    free(t->bucket);
    *t = (struct place_table){0};
}

/* Hashes values, not addresses, so that the same run has the same chains. */
static uint32_t place_hash(job_id_t job, node_id_t node) { return (uint32_t)hash_pair(node.v, job.v); }

/* Linear hashing (Litwin 1980): only the first `buckets` of the next power of two exist yet. A key of a
 * bucket that does not exist is in the bucket that will be split into it. */
static uint32_t bucket_of(const struct place_table *t, uint32_t h)
{
    uint32_t b = h & t->mask;

    return b < t->buckets ? b : b & t->mask >> 1;
}

static uint32_t place_bucket(const struct place_table *t, const struct dist_place *p)
{
    return bucket_of(t, place_hash(p->job->id, p->node->m.node));
}

static void split_bucket(struct place_table *t)
{
    uint32_t from;
    struct dist_place *p;

    vec_grow(t->bucket, t->buckets, t->cap);
    if (t->buckets > t->mask)
        t->mask = t->mask * 2 + 1;
    from = t->buckets & t->mask >> 1;
    t->bucket[t->buckets++] = NULL;
    p = t->bucket[from];
    t->bucket[from] = NULL;
    while (p) {
        struct dist_place *next = p->chain;
        uint32_t b = place_bucket(t, p);

        p->chain = t->bucket[b];
        t->bucket[b] = p;
        p = next;
    }
}

static struct dist_place *take_free(struct place_table *t)
{
    struct dist_place *p;

    if (!t->free) {
        struct dist_place *chunk = xmalloc(PLACE_CHUNK * sizeof *chunk);

        vec_grow(t->chunk, t->chunks, t->chunks_cap);
        t->chunk[t->chunks++] = chunk;
        for (uint32_t i = PLACE_CHUNK; i-- > 0;) {
            chunk[i].chain = t->free;
            t->free = &chunk[i];
        }
    }
    p = t->free;
    t->free = p->chain;
    return p;
}

static void place_free(struct dist *d, struct dist_place *p)
{
    struct place_table *t = &d->places;
    struct dist_place **at = &t->bucket[place_bucket(t, p)];

    while (*at != p)
        at = &(*at)->chain;
    *at = p->chain;
    list_remove(&p->in_job);
    list_remove(&p->in_node);
    p->chain = t->free;
    t->free = p;
    t->n--;
}

struct dist_place *dist_place_find(const struct dist *d, const struct dist_job *job,
                                   const struct dist_node *n)
{
    const struct place_table *t = &d->places;
    struct dist_place *p = t->bucket[bucket_of(t, place_hash(job->id, n->m.node))];

    while (p && (p->job != job || p->node != n))
        p = p->chain;
    return p;
}

struct dist_place *dist_place_get(struct dist *d, struct dist_job *job, struct dist_node *n)
{
    struct place_table *t = &d->places;
    struct dist_place *p = dist_place_find(d, job, n);
    uint32_t b;

    if (p)
        return p;
    if (t->n >= t->buckets)
        split_bucket(t);
    p = take_free(t);
    *p = (struct dist_place){.job = job, .node = n, .launched = TASK_NIL};
    b = place_bucket(t, p);
    p->chain = t->bucket[b];
    t->bucket[b] = p;
    list_push_tail(&job->places, &p->in_job);
    list_push_tail(&n->places, &p->in_node);
    if (n->knows_beats && list_empty(&n->awaited))
        list_push_tail(&d->awaited, &n->awaited);
    t->n++;
    return p;
}

void dist_place_settle(struct dist *d, struct dist_place *p)
{
    if (p->live == 0 && p->launched == TASK_NIL)
        place_free(d, p);
}

void dist_place_add_live(struct dist_place *p, uint32_t n)
{
    if (n > LIVE_MAX - p->job->live)
        n = LIVE_MAX - p->job->live;
    p->live += n;
    p->job->live += n;
    p->node->live += n;
    p->node->fresh += n;
}

uint32_t dist_place_take_live(struct dist *d, struct dist_place *p, uint32_t n)
{
    if (n > p->live)
        n = p->live;
    p->live -= n;
    p->job->live -= n;
    p->node->live -= n;
    p->job->sure -= n < p->job->sure ? n : p->job->sure;
    dist_job_touch(d, p->job);
    dist_place_settle(d, p);
    return n;
}

void dist_places_drop(struct dist *d, struct dist_job *job)
{
    list_foreach(&job->places, node, nxt) {
        struct dist_place *p = container_of(node, struct dist_place, in_job);

        CHECK(p->launched == TASK_NIL);
        p->job->live -= p->live;
        p->node->live -= p->live;
        place_free(d, p);
    }
    CHECK(job->live == 0);
}
