/* Job numbers are never given out twice: not by a later process, not even by one whose journal is an older
 * copy (docs/protocol.md 11.8). So a dist reserves them in blocks, in its journal and at central, half a
 * block ahead:
 *
 *     given out < next_seq <= seq_durable <= seq_end;  next_seq <= seq_told, or those above seq_told were
 * skipped */
#include "dist/internal.h"

/* How many numbers to skip (up to twice as many) when central does not know which were given out, or cannot
 * be told. Random, because the same copy of the journal may be put back more than once. */
#define SKIP UINT64_C(1000000000)

/* Skips at most half of the numbers that are left, so that they are never used up. */
static uint64_t skipped(struct dist *d, uint64_t from)
{
    uint64_t half = from <= JOB_SEQ_MAX ? (JOB_SEQ_MAX - from) / 2 : 0, n = SKIP + rng_below(&d->rng, SKIP);

    return from + (n < half ? n : half);
}

static void tell_numbers(struct dist *d)
{
    if (!d->joined)
        return;
    out_add(d->out, MSG_JOB_NUMBERS, NODE_CENTRAL.v)->job_numbers.next = d->seq_end;
    d->seq_told = d->seq_end;
}

/* Reserves a block that begins at `from`. */
static void reserve_block(struct dist *d, uint64_t from)
{
    uint64_t end = from + d->cfg.seq_block;

    d->seq_end = end <= JOB_SEQ_MAX ? end : JOB_SEQ_MAX + 1;
    dist_journal_numbers(d);
    tell_numbers(d);
}

void dist_on_journal_numbers(struct dist *d, const struct msg *in)
{
    const struct msg_journal_numbers *m = &in->journal_numbers;
    if (!d->ever_joined && m->next > d->next_seq)
        d->next_seq = m->next;
}

/* If central knows of more numbers than this dist's block, another process of this name was there
 * meanwhile. */
void dist_numbers_joined(struct dist *d)
{
    if (d->cfg.seq_block == 0)
        return;
    if (d->seq_end > 0 && d->seq_heard <= d->seq_end) {
        tell_numbers(d);
        return;
    }
    /* If the journal knows of more numbers than central, central was away then. The journal may be a copy
     * from that time, and nobody knows what was given out later. */
    d->next_seq = d->seq_heard < d->next_seq ? skipped(d, d->next_seq) : d->seq_heard;
    reserve_block(d, d->next_seq);
}

int dist_numbers_error(const struct dist *d)
{
    if (d->next_seq > JOB_SEQ_MAX)
        return HAWK_ELIMIT;
    if (d->cfg.seq_block == 0 || d->next_seq < d->seq_durable)
        return 0;
    return d->seq_durable ? HAWK_EIO : HAWK_ENOT_REGISTERED;
}

/* Reserves the next block when half of this one is used. While central is away it knows only the numbers
 * below seq_told, and would give the following ones to a later process; so they are skipped. told: the last
 * number was below seq_told. */
static void look_ahead(struct dist *d, bool told)
{
    if (told && d->next_seq >= d->seq_told && d->seq_told < d->seq_end) {
        d->next_seq = d->seq_end - d->cfg.seq_block;
        told = false;
    }
    if (d->next_seq + d->cfg.seq_block / 2 >= d->seq_end && d->seq_end <= JOB_SEQ_MAX)
        reserve_block(d, told && !d->joined ? skipped(d, d->seq_end) : d->seq_end);
}

/* Skips numbers that are in use: a client may have brought a job with a number that this dist never gave
 * out. */
job_id_t dist_numbers_next(struct dist *d)
{
    bool told = d->next_seq < d->seq_told;
    job_id_t id;

    do
        id = job_id_make(d->node, d->next_seq++);
    while (dist_job_find(d, id));
    if (d->cfg.seq_block > 0)
        look_ahead(d, told);
    return id;
}

/* Gives the rest of the block to the next life. */
void dist_numbers_leave(struct dist *d)
{
    if (d->seq_end == 0)
        return;
    d->seq_end = d->next_seq;
    dist_journal_numbers(d);
    tell_numbers(d);
}
