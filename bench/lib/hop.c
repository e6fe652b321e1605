/* Both ends of a link between two processes that do nothing else. */
#include "bench/lib/hop.h"

#include "base/mem.h"
#include "bench/lib/figures.h"
#include "net/link.h"
#include "net/server.h"

#include <stdlib.h>

#define FIRST_US (10 * US_PER_S) /* until the other is there */

struct hop {
    struct loop *loop;
    struct links *links;
    struct link *link;
    uint32_t answers;
};

static void on_up(void *arg, struct link *k)
{
    (void)arg;
    (void)k;
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    (void)arg;
    (void)k;
    (void)err;
    bench_die("a link between two processes was lost: %s", text);
}

static void send_one(struct link *k, uint32_t seq)
{
    struct msg m = {.type = MSG_HEARTBEAT, .heartbeat.seq = seq};

    if (link_send(k, &m))
        bench_die("a message cannot be sent on a link that is up");
}

/* ---- Who answers ---- */

static void answer(void *arg, struct link *k, const struct msg *m)
{
    (void)arg;
    send_one(k, m->heartbeat.seq);
}

static void gone(void *arg, struct link *k, int err, const char *text)
{
    (void)arg;
    (void)k;
    (void)err;
    (void)text;
}

void hop_answer(const char *addr)
{
    static const struct link_fns fns = {.up = on_up, .msg = answer, .lost = gone};
    struct loop *l = loop_new(LOOP_NET);
    struct server *s = server_new(l, &(struct server_config){0});
    char why[200];

    if (server_listen(s, addr, why, sizeof why))
        bench_die("%s", why);
    server_set_links(s, links_new(l, &(struct link_config){.role = ROLE_CENTRAL, .name = "hop"}, &fns, NULL));
    server_start(s);
    loop_run(l);
    exit(1);
}

/* ---- Who asks ---- */

static void answered(void *arg, struct link *k, const struct msg *m)
{
    struct hop *h = arg;

    (void)k;
    (void)m;
    h->answers++;
}

struct hop *hop_new(struct loop *l, const char *addr)
{
    static const struct link_fns fns = {.up = on_up, .msg = answered, .lost = on_lost};
    struct hop *h = xcalloc(1, sizeof *h);
    int64_t end_us = loop_now(l) + FIRST_US;

    h->loop = l;
    h->links = links_new(l, &(struct link_config){.role = ROLE_WORKER, .name = "hop"}, &fns, h);
    h->link = link_dial(h->links, addr, "who answers");
    while (!link_is_up(h->link) && loop_now(l) < end_us)
        loop_once(l, end_us);
    if (!link_is_up(h->link))
        bench_die("no link to a process of our own at %s within 10 s", addr);
    return h;
}

void hop_free(struct hop *h)
{
    link_close(h->link);
    links_free(h->links, US_PER_S);
    free(h);
}

void hop_measure(struct hop *h, double *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = h->answers;
        double start = wall_s();

        send_one(h->link, i);
        while (h->answers == before)
            loop_once(h->loop, TIME_NEVER);
        v[i] = (wall_s() - start) * 1e6 / 2;
    }
}
