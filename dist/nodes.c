/* Who is there: what central says of the nodes, which of them have a stream, which can be drawn, and what is
 * lost with a worker (docs/protocol.md 1.6, 1.7, 6). */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct dist_node *node_find(const struct dist *d, uint32_t id)
{
    return id < d->nodes_n ? d->nodes[id] : NULL;
}

static struct dist_node *node_get(struct dist *d, uint32_t id)
{
    struct dist_node *n;

    if (id >= d->nodes_n) {
        uint32_t size = d->nodes_n ? d->nodes_n : 64;

        while (size <= id)
            size *= 2;
        d->nodes = xrealloc(d->nodes, size * sizeof(*d->nodes));
        memset(d->nodes + d->nodes_n, 0, (size - d->nodes_n) * sizeof(*d->nodes));
        d->nodes_n = size;
    }
    n = d->nodes[id];
    if (!n) {
        n = d->nodes[id] = xcalloc(1, sizeof *n);
        n->m = (struct member){.node = {id}, .state = MEMBER_GONE};
        list_init(&n->places);
    }
    return n;
}

static void node_free(struct dist *d, struct dist_node *n)
{
    CHECK(list_empty(&n->places));
    CHECK(n->n_apps == 0);
    d->nodes[n->m.node.v] = NULL;
    free(n->apps);
    blob_drop(n->m.addr);
    blob_drop(n->m.name);
    free(n);
}

void nodes_free(struct dist *d)
{
    for (uint32_t i = 0; i < d->nodes_n; i++)
        if (d->nodes[i]) {
            d->nodes[i]->n_apps = 0; /* dist_apps_free follows */
            node_free(d, d->nodes[i]);
        }
    free(d->nodes);
}

/* ---- Who can be drawn ---- */

/* The slots that n is to have in pool p. */
static uint32_t weight_in(const struct dist_node *n, enum pool p)
{
    if (n->m.role != ROLE_WORKER || n->m.state != MEMBER_UP || !n->stream)
        return 0;
    if (p == POOL_GENERAL && !n->m.general)
        return 0;
    if (p == POOL_RESERVED && n->m.general)
        return 0;
    return n->m.slots < LIMIT_SLOTS ? n->m.slots : LIMIT_SLOTS;
}

static void update(struct step *s, struct dist_node *n, struct dist_pool pools[POOL_COUNT])
{
    uint32_t id = n->m.node.v;

    for (int p = 0; p < POOL_COUNT; p++) {
        struct draw *draw = &pools[p].draw;
        uint32_t weight = weight_in(n, p);
        uint32_t before = draw_weight(draw, id);

        if (weight == before)
            continue;
        if (before > 0)
            draw_remove(draw, id);
        if (weight == 0)
            continue;
        draw_add(draw, id, weight);
        if (before == 0)
            probe_pool_grew(s, &pools[p], n);
    }
}

void node_update_pools(struct step *s, struct dist_node *n)
{
    update(s, n, s->d->pool);
    for (uint32_t i = 0; i < n->n_apps; i++)
        update(s, n, n->apps[i]->pool);
}

/* ---- What is lost with a worker ---- */

enum loss {
    LOSS_RESERVATIONS, /* are not counted on any more */
    LOSS_RETRIABLE,    /* and its tasks, those that have a retry left, run again elsewhere */
    LOSS_ALL,          /* all its tasks do, or end as lost */
};

static void lose_place(struct step *s, struct dist_place *p, enum loss loss)
{
    struct dist_job *job = p->job;
    uint32_t i = p->launched;
    uint32_t live = p->live;

    job->probes_lost += live;
    count(s, COUNTER_probes_lost, live);
    place_take_live(s->d, p, live); /* p may be gone from here on */
    while (i != TASK_NIL && loss != LOSS_RESERVATIONS) {
        uint32_t next = job->tasks[i].next;

        if (loss == LOSS_ALL || task_may_retry(job, &job->tasks[i]))
            task_return(s, job, i);
        i = next;
    }
    job_settle(s, job);
}

/* The worker must have been taken out of the pools: nothing new goes there meanwhile. */
static void lose(struct step *s, struct dist_node *n, enum loss loss)
{
    /* Whatever central takes it for now, what it said it had was believed. */
    if (n->m.role != ROLE_WORKER && list_empty(&n->places))
        return;
    probe_doubt(s);
    /* Each job has one place here, and settling one job touches no place of another. */
    list_foreach(&n->places, node, nxt)
        lose_place(s, container_of(node, struct dist_place, in_node), loss);
}

static void forget_if_gone(struct dist *d, struct dist_node *n)
{
    if (n->m.state == MEMBER_GONE && !n->stream)
        node_free(d, n);
}

/* ---- What central says ---- */

/* Takes over a member's entry. Returns whether it has just become suspect. */
static bool take_over(struct step *s, const struct member *m, struct dist_node **node)
{
    struct dist_node *n = *node = node_get(s->d, m->node.v);
    bool suspect = m->state == MEMBER_SUSPECT && n->m.state != MEMBER_SUSPECT && n->m.state != MEMBER_GONE;
    struct member old = n->m;

    n->m = *m;
    n->m.addr = blob_ref(m->addr);
    n->m.name = blob_ref(m->name);
    blob_drop(old.addr);
    blob_drop(old.name);
    node_update_pools(s, n);
    return suspect;
}

static void unlist(struct step *s, struct dist_node *n, bool lost)
{
    n->m.state = MEMBER_GONE;
    node_update_pools(s, n);
    node_forget_apps(s, n);
    if (lost)
        lose(s, n, LOSS_ALL);
    forget_if_gone(s->d, n);
}

/* A whole list comes when we join, and maybe from a central that has just restarted and does not know everybody
 * yet: a worker it leaves out or suspects is drawn no more, but keeps its tasks while its own stream is up. */
void on_members(struct step *s, const struct members *list)
{
    struct dist_node *n;
    uint32_t known = 0;

    for (uint32_t i = 0; i < s->d->nodes_n; i++) /* who serves what central says next */
        if (s->d->nodes[i])
            node_forget_apps(s, s->d->nodes[i]);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t id = list->v[i].node.v;

        if (list->v[i].state == MEMBER_GONE) /* listed or not is the same */
            continue;
        for (; known < id && known < s->d->nodes_n; known++)
            if (s->d->nodes[known])
                unlist(s, s->d->nodes[known], false);
        known = id + 1;
        if (take_over(s, &list->v[i], &n))
            lose(s, n, LOSS_RESERVATIONS);
    }
    for (; known < s->d->nodes_n; known++)
        if (s->d->nodes[known])
            unlist(s, s->d->nodes[known], false);
}

/* One change, as it happens: a suspect's short tasks run again elsewhere (DESIGN 3, rule 9). Those that have no
 * retry left stay, since it may well come back. */
void on_member(struct step *s, const struct msg_member *m)
{
    const struct member entry = {.node = m->node,
                                 .slots = m->slots,
                                 .role = m->role,
                                 .state = m->state,
                                 .general = m->general,
                                 .addr = m->addr,
                                 .name = m->name};
    struct dist_node *n = node_find(s->d, m->node.v);

    if (m->state == MEMBER_GONE) {
        if (n)
            unlist(s, n, true);
        return;
    }
    if (take_over(s, &entry, &n))
        lose(s, n, LOSS_RETRIABLE);
}

/* ---- Streams ---- */

static void drop_stream(struct step *s, struct dist_node *n)
{
    n->stream = n->requested = n->reported = false;
    node_update_pools(s, n);
    lose(s, n, LOSS_ALL);
}

void on_node_up(struct step *s, uint32_t id, enum role role)
{
    struct dist_node *n;

    if (id == 0 || id > NODE_ID_MAX)
        return;
    n = node_get(s->d, id);
    if (n->stream)
        drop_stream(s, n);
    n->stream = true;
    if (n->m.state == MEMBER_GONE)
        n->m.role = (uint8_t)role;
    node_update_pools(s, n);
    /* What it stole until now it told an earlier life of ours. */
    if (s->d->cfg.life > 1)
        probe_doubt(s);
}

void on_node_lost(struct step *s, uint32_t id)
{
    struct dist_node *n = node_find(s->d, id);

    if (!n)
        return;
    if (n->stream)
        drop_stream(s, n);
    forget_if_gone(s->d, n);
}
