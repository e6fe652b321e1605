/* Jobs that their users hold (docs/protocol.md 14): none of their tasks is placed, and those that wait at workers
 * are called back. What runs goes on. */
#include "central/hold.h"
#include "central/journal.h"

#include "central/state.h"

static void hold_job(struct central *c, struct long_job *j, bool on)
{
    j->held = on;
    j->held_here = j->released_here = false;
    kept_update_turn(c, j);
    for (uint32_t i = 0; on && i < j->n; i++)
        central_recall_task(c, &j->tasks[i]);
}

static void tell_released(struct central *c, const struct long_job *j)
{
    struct msg_long_hold *m = &central_send(c, c->from, MSG_LONG_HOLD)->long_hold;

    m->job = (job_id_t){j->key.job};
    m->epoch = (uint16_t)j->key.epoch;
}

void central_on_long_hold(struct central *c, const struct msg *in)
{
    const struct msg_long_hold *m = &in->long_hold;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (!j || m->owner < j->owner || central_job_is_others(j, m->user))
        return;
    j->hold_owner = m->owner;
    if (m->on == HOLD_FROM_BEFORE && j->released_here) {
        tell_released(c, j);
        return;
    }
    if ((j->state != LONG_JOURNALLING && j->state != LONG_ACTIVE) ||
        (j->held == (m->on != 0) && !j->released_here))
        return;
    hold_job(c, j, m->on);
    central_journal_waits(c, j, 0);
}

void central_hold_answer(struct central *c, job_id_t job, uint32_t client, int err)
{
    struct msg_hold_set *m;

    if (!client)
        return;
    m = &out_add(c->out, MSG_HOLD_SET, 0)->hold_set;
    m->job = job;
    m->client = client;
    m->err = err;
}

static void hold_for_client(struct central *c, struct long_job *j, bool on, uint32_t client)
{
    if (j->held != on)
        hold_job(c, j, on);
    j->held_here = on;
    j->released_here = !on;
    central_journal_waits(c, j, client);
}

/* A client holds or releases what central has of a job whose dist is not there, or does not know it any more. It gets
 * the answer for the last part, when that is on record. */
void central_on_hold(struct central *c, const struct msg *in)
{
    const struct msg_hold *m = &in->hold;
    struct long_job *last = NULL, *j = NULL;

    while ((j = central_jobs_next_part(c, m->job, j))) {
        if (j->state > LONG_ACTIVE)
            continue;
        if (last)
            hold_for_client(c, last, m->on, 0);
        last = j;
    }
    if (last)
        hold_for_client(c, last, m->on, m->client);
    else
        central_hold_answer(c, m->job, m->client, HAWK_ENOT_FOUND);
}

void central_hold_moved(struct central *c, struct long_job *j, uint16_t owner)
{
    if (!j->held || j->held_here || owner <= j->owner || owner <= j->hold_owner)
        return;
    hold_job(c, j, false);
    central_journal_waits(c, j, 0);
}

void central_hold_watched(struct central *c, struct long_job *j, uint16_t owner)
{
    if (!j->released_here || owner < j->owner || owner <= j->hold_owner || j->state > LONG_ACTIVE)
        return;
    j->released_here = false;
    central_journal_waits(c, j, 0);
}

void central_on_journal_waits(struct central *c, const struct msg *in)
{
    const struct msg_journal_waits *m = &in->journal_waits;
    struct long_job *j = central_jobs_find(c, m->job, m->epoch);

    if (!j)
        return;
    j->held = m->held;
    j->held_here = m->held && m->by_client;
    j->released_here = !m->held && m->by_client;
}
