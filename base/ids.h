/* Identifiers. Distinct struct types, so that the compiler keeps them apart (DESIGN 5.7). */
#ifndef HAWK_BASE_IDS_H
#define HAWK_BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A registered worker or dist. Given out by central, bound to the node's name for the cluster's life. */
typedef struct {
    uint32_t v;
} node_id_t;

#define NODE_NONE ((node_id_t){0})
/* The address that workers and dists use for the active central, whichever process that is. */
#define NODE_CENTRAL ((node_id_t){0xffffff})
/* Central gives ids out in order. So a cluster may have this many nodes in its life, and tables by id grow
 * no further. */
#define NODE_ID_MAX 1000000u

static inline bool node_eq(node_id_t a, node_id_t b) { return a.v == b.v; }

/* A job: the dist that accepted it first (24 bits) and its sequence number there (40 bits). Written
 * "3.17". */
typedef struct {
    uint64_t v;
} job_id_t;

#define JOB_NONE ((job_id_t){0})
#define JOB_SEQ_MAX ((1ull << 40) - 1)

static inline job_id_t job_id_make(node_id_t dist, uint64_t seq)
{
    return (job_id_t){(uint64_t)dist.v << 40 | (seq & JOB_SEQ_MAX)};
}
static inline node_id_t job_id_node(job_id_t j) { return (node_id_t){(uint32_t)(j.v >> 40)}; }
static inline uint64_t job_id_seq(job_id_t j) { return j.v & JOB_SEQ_MAX; }
/* It names a dist. */
static inline bool job_id_ok(job_id_t j) { return job_id_node(j).v > 0 && job_id_node(j).v <= NODE_ID_MAX; }
static inline bool job_eq(job_id_t a, job_id_t b) { return a.v == b.v; }

#define JOB_ID_TEXT 32 /* bytes that hold any job id's text */
/* Writes "node.seq" to buf (JOB_ID_TEXT bytes) and returns buf. */
const char *job_id_format(char *buf, job_id_t j);
/* Parses "node.seq"; HAWK_EINVALID when text is not one. */
int job_id_parse(const char *text, job_id_t *j);

/* A job's epochs say who owns it. The dist that accepted the job has EPOCH_FIRST. Central owns what a dist
 * promoted under the next epoch, an even number. A dist that a client moved the job to has the odd epoch
 * after that. So when a client moves a job without having heard of its promotion, the two owners have
 * different epochs. */
#define EPOCH_FIRST 1
#define OWNER_NONE 0      /* LONG_WATCH.owner: this dist has the job, and does not claim it */
#define EPOCH_LAST 0xfffd /* a dist's last one: the epoch after it is left for a promotion */
static inline bool epoch_is_dists(uint32_t epoch) { return (epoch & 1) != 0; }

/* One try of one task, under one owner of its job. It identifies duplicates, late replies and the tasks of
 * a dead owner (DESIGN 3.8). Epoch and attempt count from 1. */
struct try_id {
    job_id_t job;
    uint32_t task;
    uint16_t epoch;   /* of the job's owner; grows when the ownership moves */
    uint16_t attempt; /* of the task: grows with every launch */
};

static inline bool try_eq(const struct try_id *a, const struct try_id *b)
{
    return a->job.v == b->job.v && a->task == b->task && a->epoch == b->epoch && a->attempt == b->attempt;
}

#endif
