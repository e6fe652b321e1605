/* Nodes: central's list of them, their streams, which workers can be drawn, and what is lost with a worker
 * (docs/protocol.md 1.6, 1.7, 6). */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* For how long a dist that a new central does not list counts as one that has not come back yet. */
#define UNLISTED_US (3 * US_PER_S)

struct dist_node *dist_node_find(const struct dist *d, uint32_t id)
{
    struct dist_node *chunk = id < d->nodes_n ? d->nodes[id / NODE_CHUNK] : NULL;

    return chunk && chunk[id % NODE_CHUNK].known ? &chunk[id % NODE_CHUNK] : NULL;
}

bool dist_has_stream(const struct dist *d, node_id_t node)
{
    const struct dist_node *n = dist_node_find(d, node.v);

    return n && n->stream;
}

static struct dist_node *node_get(struct dist *d, uint32_t id)
{
    struct dist_node *n = dist_node_find(d, id), **chunk;

    if (n)
        return n;
    if (id >= d->nodes_n) {
        uint32_t chunks = d->nodes_n / NODE_CHUNK, more = id / NODE_CHUNK + 1 + chunks;

        d->nodes = xrealloc(d->nodes, more * sizeof(*d->nodes));
        memset(d->nodes + chunks, 0, (more - chunks) * sizeof(*d->nodes));
        d->nodes_n = more * NODE_CHUNK;
    }
    chunk = &d->nodes[id / NODE_CHUNK];
    if (!*chunk)
        *chunk = xcalloc(NODE_CHUNK, sizeof **chunk);
    n = &(*chunk)[id % NODE_CHUNK];
    *n = (struct dist_node){.m = {.node = {id}, .state = MEMBER_GONE}, .ends_us = TIME_NEVER, .known = true};
    list_init(&n->places);
    list_init(&n->ending);
    list_init(&n->awaited);
    return n;
}

static void node_forget(struct dist_node *n)
{
    CHECK(list_empty(&n->places));
    CHECK(n->n_apps == 0);
    CHECK(!n->served);
    list_remove(&n->awaited);
    list_remove(&n->ending);
    free(n->apps);
    blob_drop(n->m.addr);
    blob_drop(n->m.name);
    blob_drop(n->m.out_why);
    blob_drop(n->m.serves);
    n->known = false;
}

void dist_nodes_free(struct dist *d)
{
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        struct dist_node *n = dist_node_find(d, i);

        if (!n)
            continue;
        n->n_apps = 0; /* dist_apps_free() follows */
        n->served = NULL;
        node_forget(n);
    }
    for (uint32_t i = 0; i < d->nodes_n / NODE_CHUNK; i++)
        free(d->nodes[i]);
    free(d->nodes);
}

/* ---- Workers that can be drawn ---- */

/* The slots that n must have in pool p. */
static uint32_t weight_in(const struct dist_node *n, enum pool p)
{
    bool up = n->m.state == MEMBER_UP || (n->m.state == MEMBER_SUSPECT && n->vouched);

    if (n->m.role != ROLE_WORKER || !up || !n->stream)
        return 0;
    if (p == POOL_GENERAL && !n->m.general)
        return 0;
    if (p == POOL_RESERVED && n->m.general)
        return 0;
    return n->m.slots < LIMIT_SLOTS ? n->m.slots : LIMIT_SLOTS;
}

void dist_node_update(struct dist *d, struct dist_node *n, struct dist_pool pools[POOL_COUNT], bool in)
{
    uint32_t id = n->m.node.v;

    for (int p = 0; p < POOL_COUNT; p++) {
        struct draw *draw = &pools[p].draw;
        uint32_t weight = in ? weight_in(n, p) : 0;
        uint32_t before = draw_weight(draw, id);

        if (weight == before)
            continue;
        if (before > 0)
            draw_remove(draw, id);
        if (weight == 0)
            continue;
        draw_add(draw, id, weight);
        if (before == 0)
            dist_probe_pool_grew(d, pools, (enum pool)p, n);
    }
}

/* Puts n into its pools and takes it out of the others. */
static void update_pools(struct dist *d, struct dist_node *n)
{
    dist_node_update(d, n, d->pool, !n->served);
    for (uint32_t i = 0; i < n->n_apps; i++)
        dist_node_update_app(d, n, n->apps[i]);
    for (struct dist_served *s = d->served; s; s = s->hh.next)
        dist_node_update(d, n, s->pool, !n->served || n->served == s);
}

/* ---- What is lost with a worker ---- */

enum loss {
    LOSS_RESERVATIONS, /* its reservations do not count any more */
    LOSS_RETRIABLE,    /* and its tasks that have a retry left run again elsewhere */
    LOSS_STREAM,       /* and the others are in doubt: their worker may come back with them */
    LOSS_UNCLAIMED,    /* tasks in doubt that the worker did not claim when it came back; reservations stay */
    LOSS_ALL,          /* all its tasks run again elsewhere, or end as lost */
};

/* Whether task i, which is at a worker, is given up. If not, LOSS_STREAM puts it in doubt. */
static bool lose_or_doubt(struct dist_job *job, uint32_t i, enum loss loss)
{
    struct dist_task *t = &job->tasks[i];

    switch (loss) {
    case LOSS_RESERVATIONS:
        return false;
    case LOSS_RETRIABLE:
        return dist_task_may_retry(job, t);
    case LOSS_STREAM:
        t->doubtful = !dist_task_may_retry(job, t) && !t->unsent && !dist_task_unwanted(job, i);
        return !t->doubtful;
    case LOSS_UNCLAIMED:
        return t->doubtful;
    case LOSS_ALL:
        break;
    }
    return true;
}

static void lose_place(struct dist *d, struct dist_place *p, enum loss loss)
{
    struct dist_job *job = p->job;
    uint32_t i = p->launched;
    uint32_t live = loss == LOSS_UNCLAIMED ? 0 : p->live;

    job->probes_lost += live;
    dist_count(d, COUNTER_probes_lost, live);
    dist_place_take_live(d, p, live); /* p may be gone from here on */
    while (i != TASK_NIL) {
        uint32_t next = job->tasks[i].next;

        if (lose_or_doubt(job, i, loss))
            dist_task_return(d, job, i);
        i = next;
    }
}

/* Loses this for every job that has something at n. */
static void lose_all(struct dist *d, struct dist_node *n, enum loss loss)
{
    /* The role in central's list may be new; the worker's reports were believed. */
    if (n->m.role != ROLE_WORKER && list_empty(&n->places))
        return;
    if (loss != LOSS_UNCLAIMED)
        dist_probe_doubt(d);
    /* Each job has one place here, and jobs are settled later: only this place goes. */
    list_foreach(&n->places, node, nxt)
        lose_place(d, container_of(node, struct dist_place, in_node), loss);
}

static void forget_if_gone(struct dist_node *n)
{
    if (n->m.state == MEMBER_GONE && !n->stream && !(n->unlisted && n->m.role == ROLE_DIST))
        node_forget(n);
}

void dist_nodes_settle(struct dist *d)
{
    if (!d->dists_unlisted || d->now_us - d->joined_us < UNLISTED_US)
        return;
    d->dists_unlisted = false;
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        struct dist_node *n = dist_node_find(d, i);

        if (!n || n->m.state != MEMBER_GONE || n->m.role != ROLE_DIST)
            continue;
        n->unlisted = false;
        forget_if_gone(n);
    }
}

/* ---- Beats: asking workers whether they are there ---- */

/* Whether something is awaited from n: reservations, tasks, or its answer that it is alive although central
 * suspects it. Without a stream: tasks in doubt. */
static bool is_awaited(const struct dist_node *n)
{
    if (!n->stream)
        return !list_empty(&n->places);
    return n->knows_beats && (!list_empty(&n->places) || (n->m.state == MEMBER_SUSPECT && !n->vouched));
}

/* All that its process left behind ends within the lease (docs/protocol.md 6). */
static void end_doubt(struct dist *d, struct dist_node *n, int64_t late_us)
{
    n->lost_us += late_us;
    if (d->now_us - n->lost_us >= d->lease_us)
        lose_all(d, n, LOSS_ALL);
}

static void beat(struct dist *d, struct dist_node *n, int64_t late_us)
{
    uint32_t id = n->m.node.v;

    if (!n->stream) {
        end_doubt(d, n, late_us);
        return;
    }
    switch (beats_look(&n->beats, d->now_us, late_us)) {
    case BEATS_ASK:
        out_add(d->out, MSG_BEAT, id)->beat.ask = true;
        n->fresh = 0;
        break;
    /* As if its stream were lost; the shell reports that again when it has ended the stream. */
    case BEATS_LOST:
        out_add(d->out, MSG_GIVE_UP, 0)->give_up.node = n->m.node;
        dist_node_lost(d, id);
        break;
    case BEATS_REST:
        break;
    }
}

/* O(nodes from which something is awaited). */
void dist_nodes_beat(struct dist *d)
{
    int64_t late_us = d->now_us - d->beat_at;

    d->beat_at = TIME_NEVER;
    list_foreach(&d->awaited, node, nxt) {
        struct dist_node *n = container_of(node, struct dist_node, awaited);

        if (is_awaited(n)) {
            beat(d, n, late_us);
        } else {
            list_remove(&n->awaited);
            n->fewer = false;
            beats_end(&n->beats);
        }
    }
}

/* The worker's answer counts the reservations that it had when it was asked, without those that were on their
 * way. If that is twice in a row less than the dist counts, a thief has the rest and cannot tell. */
static void compare_live(struct dist *d, struct dist_node *n, uint32_t held)
{
    bool fewer = n->live > held + n->fresh;

    if (fewer && n->fewer)
        lose_all(d, n, LOSS_RESERVATIONS);
    n->fewer = fewer && !n->fewer;
}

void dist_on_beat(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;
    if (m->beat.ask) {
        out_add(d->out, MSG_BEAT, n->m.node.v);
        return;
    }
    beats_answered(&n->beats);
    compare_live(d, n, m->beat.held);
    if (n->m.state == MEMBER_SUSPECT && !n->vouched) {
        n->vouched = true;
        update_pools(d, n);
    }
}

/* ---- Central's messages ---- */

/* Takes over a member's entry. Returns whether it has just become suspect. */
static bool take_member(struct dist *d, const struct member *m, struct dist_node **node)
{
    struct dist_node *n = *node = node_get(d, m->node.v);
    bool suspect = m->state == MEMBER_SUSPECT && n->m.state != MEMBER_SUSPECT && n->m.state != MEMBER_GONE;
    struct member old = n->m;

    n->m = *m;
    n->m.addr = blob_ref(m->addr);
    n->m.name = blob_ref(m->name);
    n->m.out_why = blob_ref(m->out_why);
    n->m.serves = blob_ref(m->serves);
    n->vouched = n->vouched && m->state == MEMBER_SUSPECT;
    n->unlisted = false;
    blob_drop(old.addr);
    blob_drop(old.name);
    blob_drop(old.out_why);
    blob_drop(old.serves);
    dist_node_set_user(d, n);
    update_pools(d, n);
    return suspect;
}

/* A suspect may be alive although central does not hear it: one that answers is drawn again. */
static void ask_suspect(struct dist *d, struct dist_node *n)
{
    if (n->m.state != MEMBER_SUSPECT || n->vouched || !n->knows_beats || n->beats.open)
        return;
    if (list_empty(&n->awaited))
        list_push_tail(&d->awaited, &n->awaited);
    beats_end(&n->beats);
    beat(d, n, 0);
}

static void unlist(struct dist *d, struct dist_node *n, bool lost)
{
    n->m.state = MEMBER_GONE;
    n->unlisted = !lost;
    d->dists_unlisted = d->dists_unlisted || (!lost && n->m.role == ROLE_DIST);
    n->vouched = false;
    update_pools(d, n);
    dist_node_forget_apps(d, n);
    if (lost)
        dist_end_times_forget(d, n);
    dist_node_set_user(d, n);
    if (lost || !n->stream)
        lose_all(d, n, LOSS_ALL);
    forget_if_gone(n);
}

/* A whole list comes with JOINED. It may come from a central that has just restarted and does not know all
 * workers yet. So a worker that is missing or suspect in it is not drawn any more, but keeps its tasks while
 * its own stream is up. */
void dist_on_members(struct dist *d, const struct msg *in)
{
    const struct members *list = in->members.list;
    struct dist_node *n;
    uint32_t known = 0;

    d->workers_away = in->members.workers_away;
    /* Central's next messages say when they end, and what they serve. */
    dist_end_times_doubt(d);
    for (uint32_t i = 0; i < d->nodes_n; i++)
        if ((n = dist_node_find(d, i)))
            dist_node_forget_apps(d, n);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t id = list->v[i].node.v;

        if (list->v[i].state == MEMBER_GONE) /* the same as not listed */
            continue;
        for (; known < id && known < d->nodes_n; known++)
            if ((n = dist_node_find(d, known)))
                unlist(d, n, false);
        known = id + 1;
        if (take_member(d, &list->v[i], &n))
            lose_all(d, n, LOSS_RESERVATIONS);
        ask_suspect(d, n);
    }
    for (; known < d->nodes_n; known++)
        if ((n = dist_node_find(d, known)))
            unlist(d, n, false);
}

/* One change at once: a suspect's short tasks run again elsewhere (DESIGN 3.9). Tasks without a retry
 * left stay there: the worker may come back.
 * DEVIATES: tasks also stay if the dist's own stream shows soon whether the worker is alive. Central itself
 * may be deaf: then every worker is suspect, and none would be left to run anything. A central that was deaf
 * for 8 s made short jobs wait up to 5.8 s; now it costs nothing (docs/reliability.md, "Waits";
 * tests/e2e/test_waits.py). */
void dist_on_member(struct dist *d, const struct msg *in)
{
    const struct msg_member *m = &in->member;
    const struct member entry = {.node = m->node,
                                 .slots = m->slots,
                                 .role = m->role,
                                 .state = m->state,
                                 .general = m->general,
                                 .unsettled = m->unsettled,
                                 .addr = m->addr,
                                 .name = m->name,
                                 .out_why = m->out_why,
                                 .serves = m->serves};
    struct dist_node *n = dist_node_find(d, m->node.v);

    if (m->state == MEMBER_GONE) {
        if (n)
            unlist(d, n, true);
        return;
    }
    if (!take_member(d, &entry, &n))
        return;
    lose_all(d, n, n->knows_beats ? LOSS_RESERVATIONS : LOSS_RETRIABLE);
    ask_suspect(d, n);
}

/* ---- Streams ---- */

static void drop_stream(struct dist *d, struct dist_node *n)
{
    n->stream = n->requested = n->reported = n->knows_beats = n->vouched = n->fewer = false;
    n->lost_us = d->now_us;
    beats_end(&n->beats);
    update_pools(d, n);
    /* Nobody tells the dist when a worker is gone that central does not list. */
    lose_all(d, n, n->m.state == MEMBER_GONE ? LOSS_ALL : LOSS_STREAM);
    if (!list_empty(&n->places) && list_empty(&n->awaited))
        list_push_tail(&d->awaited, &n->awaited);
}

void dist_node_up(struct dist *d, uint32_t id, const struct msg_peer_up *m)
{
    struct dist_node *n;

    if (id == 0 || id > NODE_ID_MAX)
        return;
    n = node_get(d, id);
    if (n->stream)
        drop_stream(d, n);
    n->stream = true;
    n->knows_beats = d->cfg.heartbeats && msg_in_version(MSG_BEAT, protocol_version_of(m->version));
    if (n->m.state == MEMBER_GONE)
        n->m.role = m->role;
    update_pools(d, n);
    ask_suspect(d, n);
    /* The worker may have told an earlier life of this dist what it stole. */
    if (d->cfg.life > 1)
        dist_probe_doubt(d);
}

/* The worker has named all that it has. */
void dist_on_held_end(struct dist *d, const struct msg *m)
{
    struct dist_node *n = d->from;

    n->reported = true;
    lose_all(d, n, LOSS_UNCLAIMED);
}

void dist_node_lost(struct dist *d, uint32_t id)
{
    struct dist_node *n = dist_node_find(d, id);

    if (!n)
        return;
    if (n->stream)
        drop_stream(d, n);
    forget_if_gone(n);
}
