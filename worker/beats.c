/* Peers that owe this worker an answer, and how long it waits (protocol 0, "Beats"): dists that owe the
 * answer to a request or the acknowledgement of an end, and thieves that owe the acknowledgement of their
 * loot. */
#include "worker/internal.h"

/* A thief answers at once. If it took a reservation that comes back here, that is one too many, and costs a
 * request. */
#define LOOT_ACK_US (2500 * US_PER_MS)

static void give_up(node_id_t node, struct out *out) { out_add(out, MSG_GIVE_UP, 0)->give_up.node = node; }

static bool answers_beats(const struct owner *o)
{
    return !owner_is_central(o) && msg_in_version(MSG_BEAT, o->version);
}

static bool is_awaited(const struct owner *o)
{
    return answers_beats(o) && (!list_empty(&o->requests) || o->n_unacked > 0);
}

/* Output: at most 1 message. A dist that does not answer counts as if its stream were lost; the shell reports
 * that again when it has ended the stream. */
static void look(struct worker *w, struct owner *o, int64_t late_us)
{
    switch (beats_look(&o->beats, w->now_us, late_us)) {
    case BEATS_ASK:
        out_add(w->out, MSG_BEAT, o->node.v)->beat.ask = true;
        break;
    case BEATS_LOST:
        give_up(o->node, w->out);
        worker_dist_lost(w, o);
        break;
    case BEATS_REST:
        break;
    }
}

/* Output: at most 1 message per dist. O(dists). */
static void look_at_dists(struct worker *w)
{
    int64_t late_us = w->now_us - w->beats_at;

    w->beats_at = TIME_NEVER;
    list_foreach(&w->up_owners, l, next) {
        struct owner *o = container_of(l, struct owner, link);

        if (!is_awaited(o)) {
            beats_end(&o->beats);
            continue;
        }
        look(w, o, late_us);
        w->beats_at = w->now_us + BEATS_LOOK_US;
    }
}

static int64_t loot_due(const struct worker *w)
{
    if (list_empty(&w->loot))
        return TIME_NEVER;
    return container_of(w->loot.next, struct loot, link)->given_us + LOOT_ACK_US;
}

void worker_beats_due(struct worker *w)
{
    if (w->beats_at <= w->now_us)
        look_at_dists(w);
    while (loot_due(w) <= w->now_us) {
        node_id_t thief = container_of(w->loot.next, struct loot, link)->thief;

        give_up(thief, w->out);
        worker_loot_return(w, thief);
    }
}

void worker_beats_await(struct worker *w, const struct owner *o)
{
    if (w->beats_at == TIME_NEVER && answers_beats(o) && w->config.heartbeats)
        w->beats_at = w->now_us + BEATS_LOOK_US;
}

int64_t worker_beats_next(const struct worker *w)
{
    int64_t at_us = loot_due(w);

    return at_us < w->beats_at ? at_us : w->beats_at;
}

/* Output: 1 message. */
void worker_on_beat(struct worker *w, const struct msg *in)
{
    struct owner *o = worker_owner_find(w, (node_id_t){in->peer});

    if (!o || o->state != OWNER_UP || owner_is_central(o))
        return;
    if (in->beat.ask)
        out_add(w->out, MSG_BEAT, o->node.v)->beat.held = (uint32_t)o->n_reservations;
    else
        beats_answered(&o->beats);
}
