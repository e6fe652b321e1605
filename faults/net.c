/* The network of a virtual cluster: delays, stalls and partitions. */
#include "faults/internal.h"

#include "base/mem.h"

#include <string.h>

/* How long a dead stream stays unnoticed. The connection finds its other end silent (net/core.h: a ping every
 * 2 s, 3 s for its answer). Roles that wait for an answer notice it sooner (msg/beats.h). */
#define SILENT_MIN_US (3000 * US_PER_MS)
#define SILENT_MAX_US (5000 * US_PER_MS)

/* When the last message from one to the other arrives. A later message must not overtake it. */
static int64_t *last_arrival(struct cluster_net *n, uint32_t from, uint32_t to)
{
    uint32_t most = from > to ? from : to;

    if (most >= n->side) {
        uint32_t side = most + 64;
        int64_t *v = xcalloc((size_t)side * side, sizeof *v);

        for (uint32_t i = 0; i < n->side; i++)
            memcpy(v + (size_t)i * side, n->arrives + (size_t)i * n->side, n->side * sizeof *v);
        free(n->arrives);
        n->arrives = v;
        n->side = side;
    }
    return &n->arrives[(size_t)from * n->side + to];
}

int64_t cluster_delay_us(void *arg, uint32_t from, uint32_t to, const struct msg *m)
{
    struct cluster *c = arg;
    struct cluster_net *n = &c->net;
    int64_t now_us, at_us, *last;

    cluster_on_sent(c, from, m);
    if (!n->used && !c->config.jitter_us)
        return c->config.delay_us;
    now_us = bus_now(c->bus);
    at_us = now_us + c->config.delay_us;
    if (c->config.jitter_us)
        at_us += (int64_t)rng_below(&n->rng, (uint64_t)c->config.jitter_us);
    for (uint32_t i = 0; i < n->rules_n; i++) {
        const struct cluster_rule *r = &n->rules[i];

        if (r->until_us <= now_us || (r->from && r->from != from) || (r->to && r->to != to))
            continue;
        if (r->extra_us)
            at_us += r->extra_us;
        else if (at_us < r->until_us)
            at_us = r->until_us;
    }
    last = last_arrival(n, from, to);
    if (at_us < *last)
        at_us = *last;
    else if (at_us == now_us && at_us == *last)
        at_us++; /* without a delay it would overtake the delayed message that arrives at this moment */
    if (at_us > now_us)
        *last = at_us;
    return at_us - now_us;
}

static void add_rule(struct cluster *c, struct cluster_rule rule)
{
    struct cluster_net *n = &c->net;
    uint32_t i = 0;

    n->used = true;
    while (i < n->rules_n && n->rules[i].until_us > bus_now(c->bus))
        i++;
    if (i == n->rules_n) {
        vec_grow(n->rules, n->rules_n, n->rules_cap);
        n->rules_n++;
    }
    n->rules[i] = rule;
}

void cluster_stall(struct cluster *c, uint32_t from, uint32_t to, int64_t until_us)
{
    add_rule(c, (struct cluster_rule){from, to, until_us, 0});
}

void cluster_slow(struct cluster *c, uint32_t ep, int64_t extra_us, int64_t until_us)
{
    add_rule(c, (struct cluster_rule){ep, 0, until_us, extra_us});
    add_rule(c, (struct cluster_rule){0, ep, until_us, extra_us});
}

/* Draws how long a side takes to notice silence. */
static int64_t silence_us(struct cluster *c)
{
    return SILENT_MIN_US + (int64_t)rng_below(&c->net.rng, SILENT_MAX_US - SILENT_MIN_US);
}

void cluster_break_unseen(struct cluster *c, uint32_t x, uint32_t y)
{
    int64_t now_us = bus_now(c->bus);

    bus_break_unseen(c->bus, x, y, now_us + silence_us(c), now_us + silence_us(c));
}

void cluster_partition(struct cluster *c, uint32_t x, uint32_t y, bool one_way, int64_t until_us)
{
    int64_t now_us = bus_now(c->bus), y_hears_us = now_us + silence_us(c);

    cluster_stall(c, x, y, until_us);
    if (!one_way)
        cluster_stall(c, y, x, until_us);
    bus_bar(c->bus, x, y, until_us);
    if (until_us <= now_us + SILENT_MAX_US)
        return;    /* over before either side gives up: messages arrive late */
    if (one_way) { /* y hears nothing and breaks the stream, and x hears of that */
        vec_grow(c->net.breaks, c->net.breaks_n, c->net.breaks_cap);
        c->net.breaks[c->net.breaks_n++] = (struct cluster_break){x, y, y_hears_us};
    } else {
        cluster_break_unseen(c, x, y);
    }
}

int64_t cluster_net_next(const struct cluster *c)
{
    int64_t at_us = TIME_NEVER;

    for (uint32_t i = 0; i < c->net.breaks_n; i++)
        if (c->net.breaks[i].at_us < at_us)
            at_us = c->net.breaks[i].at_us;
    return at_us;
}

void cluster_net_due(struct cluster *c)
{
    struct cluster_net *n = &c->net;
    int64_t now_us = bus_now(c->bus);

    for (uint32_t i = n->breaks_n; i-- > 0;) {
        struct cluster_break k = n->breaks[i];

        if (k.at_us > now_us)
            continue;
        n->breaks[i] = n->breaks[--n->breaks_n];
        bus_break_unseen(c->bus, k.x, k.y, now_us + cluster_delay_us(c, k.y, k.x, NULL), now_us);
    }
}

void cluster_net_free(struct cluster_net *n)
{
    free(n->arrives);
    free(n->rules);
    free(n->breaks);
}
