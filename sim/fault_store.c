/* The journals of a virtual cluster, as store/store.c writes them: in groups, one commit at a time; a crash loses what was
 * not committed. What could not be written is kept and tried again, by itself and with whatever is written next. */
#include "sim/fault_internal.h"

#include "base/check.h"
#include "base/mem.h"

#define RETRY_US US_PER_S /* STORE_RETRY_MS of store/store.h */

static void begin_commit(struct cluster *c, struct cluster_store *s, int64_t after_us)
{
    int64_t now_us = bus_now(c->bus);

    s->committing = s->n;
    s->commit_us = now_us + after_us + c->config.journal_us;
    if (s->slow_until_us > now_us)
        s->commit_us += s->slow_us;
}

void cluster_store_write(struct cluster *c, struct cluster_store *s, const struct msg *m)
{
    msg_ref(m);
    vec_grow(s->v, s->n, s->cap);
    s->v[s->n++] = *m;
    s->asked = true;
    if (s->commit_us == TIME_NEVER || s->retrying) {
        s->retrying = false;
        begin_commit(c, s, 0);
    }
}

/* The token of the last of the entries from..to that has one; 0: none has. */
static uint64_t last_token(const struct cluster_store *s, uint32_t from, uint32_t to)
{
    uint64_t token = 0;

    for (uint32_t i = from; i < to; i++)
        if (msg_journal_token(&s->v[i]))
            token = msg_journal_token(&s->v[i]);
    return token;
}

static void answer(struct cluster *c, const struct cluster_store *s, uint64_t token, int err)
{
    struct msg done = {.type = MSG_JOURNAL_DONE, .journal_done = {.token = token, .err = err}};

    if (token)
        bus_post(c->bus, s->ep, bus_now(c->bus), &done);
}

void cluster_store_due(struct cluster *c, struct cluster_store *s)
{
    uint64_t token = last_token(s, s->durable, s->committing);
    bool fails = s->full_until_us > bus_now(c->bus), asked = s->asked;

    s->commit_us = TIME_NEVER;
    s->asked = s->n > s->committing;
    if (fails) {
        if (asked)
            answer(c, s, token, HAWK_EIO);
        s->retrying = !s->asked;
        begin_commit(c, s, s->retrying ? RETRY_US : 0);
        return;
    }
    s->retrying = false;
    s->durable = s->committing;
    answer(c, s, token, 0);
    if (s->n > s->durable)
        begin_commit(c, s, 0);
}

void cluster_store_crash(struct cluster *c, struct cluster_store *s)
{
    uint32_t kept = s->durable;

    /* The disk may have had it, though nobody was told. */
    if (s->commit_us != TIME_NEVER && s->full_until_us <= bus_now(c->bus) && rng_below(&c->net.rng, 2))
        kept = s->committing;
    while (s->n > kept)
        msg_drop(&s->v[--s->n]);
    s->durable = kept;
    s->commit_us = TIME_NEVER;
    s->asked = s->retrying = false;
}

static uint16_t epoch_of(const struct msg *m)
{
    return m->type == MSG_JOURNAL_JOB      ? m->journal_job.epoch
           : m->type == MSG_JOURNAL_TASK   ? m->journal_task.id.epoch
           : m->type == MSG_JOURNAL_CANCEL ? m->journal_cancel.epoch
                                           : m->journal_job_end.epoch;
}

/* A job that was forgotten after its end may be accepted anew: what counts is the last word. */
bool cluster_store_ended(const struct cluster_store *s, job_id_t job, uint16_t epoch)
{
    for (uint32_t i = s->durable; i-- > 0;) {
        const struct msg *m = &s->v[i];

        if ((m->type == MSG_JOURNAL_JOB || m->type == MSG_JOURNAL_JOB_END) && job_eq(msg_job(m), job) &&
            epoch_of(m) == epoch)
            return m->type == MSG_JOURNAL_JOB_END;
    }
    return false;
}

/* Is an entry about a job that ended later, under the same epoch? Of those nothing is replayed. */
static bool is_over(const struct cluster_store *s, uint32_t entry)
{
    const struct msg *about = &s->v[entry];

    for (uint32_t i = entry; i < s->n; i++)
        if (s->v[i].type == MSG_JOURNAL_JOB_END && job_eq(msg_job(&s->v[i]), msg_job(about)) &&
            epoch_of(&s->v[i]) == epoch_of(about))
            return true;
    return false;
}

void cluster_store_replay(struct cluster *c, struct cluster_store *s)
{
    struct msg recovered = {.type = MSG_RECOVERED};

    CHECK(s->n == s->durable);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct msg *m = &s->v[i];

        if (msg_job(m).v && is_over(s, i))
            continue;
        msg_ref(m);
        bus_post(c->bus, s->ep, bus_now(c->bus), m);
    }
    bus_post(c->bus, s->ep, bus_now(c->bus), &recovered);
}

void cluster_store_free(struct cluster_store *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        msg_drop(&s->v[i]);
    free(s->v);
}
