/* Workers without machines. */
#include "bench/lib/hosted.h"

#include "base/mem.h"
#include "base/units.h"
#include "bench/lib/figures.h"

#include <stdio.h>
#include <stdlib.h>

#define JOINS_IN_FLIGHT 200u /* more only wait for each other; 500 (FRONT_UNPROVEN_MAX) cut each other off */
#define JOIN_S 300           /* for all of them */

struct one {
    struct hosted *all;
    struct worker role;
    struct loop_timer timer;
    struct links *links; /* its own where dists dial it; else everybody's */
    struct link *central;
    struct server *server; /* NULL: nobody dials it */
    struct link *dist[HOSTED_DISTS_MAX];
};

struct hosted {
    struct hosted_config config;
    struct hosted_counts counts;
    struct links *links;
    struct one *v;
    struct members *list; /* central's newest for workers, and its version */
    uint64_t list_version;
    struct out queue; /* events of the one that is being stepped, which its own output brought about */
};

/* ---- Stepping ---- */

static struct link *route(const struct one *w, uint32_t peer)
{
    if (peer == NODE_CENTRAL.v)
        return w->central;
    for (uint32_t i = 0; i < HOSTED_DISTS_MAX; i++)
        if (w->dist[i] && link_peer_node(w->dist[i]).v == peer)
            return w->dist[i];
    return NULL;
}

static void task_starts(struct hosted *h, const struct msg_exec_start *m)
{
    h->counts.started++;
    out_add(&h->queue, MSG_EXEC_STARTED, 0)->exec_started =
        (struct msg_exec_started){.run = m->run, .pid = 1};
    if (!h->config.tasks_end)
        return;
    h->counts.ended++;
    out_add(&h->queue, MSG_EXEC_EXITED, 0)->exec_exited =
        (struct msg_exec_exited){.run = m->run, .outcome = OUTCOME_EXITED};
}

static void carry(struct one *w, const struct msg *m)
{
    struct hosted *h = w->all;
    struct link *k;

    if (m->type == MSG_EXEC_START)
        task_starts(h, &m->exec_start);
    else if (m->type == MSG_EXEC_KILL)
        bench_die("a task was killed: its owner was away for too long");
    if (!msg_is_wire(m))
        return;
    k = route(w, m->peer);
    if (!k || link_send(k, m) != 0)
        return; /* its loss is reported to the role */
    h->counts.out += m->peer != NODE_CENTRAL.v;
    h->counts.requests += m->type == MSG_TASK_REQUEST;
    if (m->type == MSG_PROBE_CANCELLED)
        h->counts.cancelled += m->probe_cancelled.count;
}

static void step_one(struct one *w, const struct msg *m)
{
    struct event e = {.now_us = loop_now(w->all->config.loop), .m = *m};
    struct out out = {0};

    worker_step(&w->role, &e, &out);
    for (uint32_t i = 0; i < out.n; i++)
        carry(w, &out.v[i]);
    out_clear(&out);
    out_free(&out);
}

static void step(struct one *w, const struct msg *m)
{
    struct out *queue = &w->all->queue;

    step_one(w, m);
    for (uint32_t i = 0; i < queue->n; i++) {
        struct msg next = queue->v[i]; /* the array may move */

        step_one(w, &next);
    }
    out_clear(queue);
    loop_timer_set(w->all->config.loop, &w->timer, worker_next_timeout(&w->role));
}

static void on_timer(void *arg) { step(arg, &(struct msg){.type = MSG_TIMER}); }

/* ---- Links: one to central each, and what dists dial ---- */

static void set_dist(struct one *w, struct link *from, struct link *to)
{
    for (uint32_t i = 0; i < HOSTED_DISTS_MAX; i++)
        if (w->dist[i] == from) {
            w->dist[i] = to;
            return;
        }
    bench_die("more than %u dists", HOSTED_DISTS_MAX);
}

static void on_up(void *arg, struct link *k)
{
    struct hosted *h = arg;
    struct one *w = link_user(k);
    struct msg up = {.type = MSG_PEER_UP, .peer = NODE_CENTRAL.v, .peer_up.role = ROLE_CENTRAL};

    if (!h->counts.first_up_us)
        h->counts.first_up_us = loop_now(h->config.loop);
    if (!link_is_dialled(k)) {
        h->counts.dists++;
        set_dist(w, NULL, k);
        up.peer = link_peer_node(k).v;
        up.peer_up.role = ROLE_DIST;
    }
    step(w, &up);
}

/* Links that were accepted have no user of their own yet: their set has one worker. */
static void on_up_own(void *arg, struct link *k)
{
    struct one *w = arg;

    link_set_user(k, w);
    on_up(w->all, k);
}

/* All workers keep the same list: with a copy for each, 10,000 workers would fill a machine. */
static void share_list(struct hosted *h, struct msg *m)
{
    if (!m->members.list)
        return;
    if (!h->list || h->list_version != m->members.version) {
        members_drop(h->list);
        h->list = members_ref(m->members.list);
        h->list_version = m->members.version;
    }
    m->members.list = h->list;
}

static void on_msg(void *arg, struct link *k, const struct msg *m)
{
    struct hosted *h = arg;
    struct one *w = link_user(k);
    struct msg from = *m;

    h->counts.in += !link_is_dialled(k);
    from.peer = link_is_dialled(k) ? NODE_CENTRAL.v : link_peer_node(k).v;
    if (m->type == MSG_MEMBERS) {
        h->counts.lists++;
        share_list(h, &from);
    } else if (m->type == MSG_JOINED) {
        h->counts.joined++;
        if (w->server)
            links_set_node(w->links, m->joined.node);
    } else if (m->type == MSG_PROBE) {
        h->counts.probes += m->probe.count;
    }
    step(w, &from);
}

static void on_msg_own(void *arg, struct link *k, const struct msg *m)
{
    on_msg(((struct one *)arg)->all, k, m);
}

static void on_lost(void *arg, struct link *k, int err, const char *text)
{
    struct hosted *h = arg;
    struct one *w = link_user(k);
    struct msg lost = {.type = MSG_PEER_LOST, .peer = NODE_CENTRAL.v, .peer_lost.role = ROLE_CENTRAL};

    (void)err, (void)text;
    if (!link_is_dialled(k)) {
        h->counts.dists--;
        set_dist(w, k, NULL);
        lost.peer = link_peer_node(k).v;
        lost.peer_lost.role = ROLE_DIST;
    }
    step(w, &lost);
}

static void on_lost_own(void *arg, struct link *k, int err, const char *text)
{
    on_lost(((struct one *)arg)->all, k, err, text);
}

static const struct link_fns fns = {.up = on_up, .msg = on_msg, .lost = on_lost};
static const struct link_fns own_fns = {.up = on_up_own, .msg = on_msg_own, .lost = on_lost_own};

/* ---- Life ---- */

/* Where dists find it. */
static const char *listen_on(struct one *w, uint64_t seed)
{
    struct link_config lc = {.role = ROLE_WORKER, .name = "hosted", .seed = seed};
    struct server_config sc = {0};
    char why[300];

    w->links = links_new(w->all->config.loop, &lc, &own_fns, w);
    w->server = server_new(w->all->config.loop, &sc);
    if (server_listen(w->server, "127.0.0.1:0", why, sizeof why) != 0)
        bench_die("%s", why);
    server_set_links(w->server, w->links);
    server_start(w->server);
    return server_addr(w->server, 0);
}

static void make_one(struct one *w, uint32_t i)
{
    struct hosted *h = w->all;
    struct worker_config c;
    char name[32];

    snprintf(name, sizeof name, "w%u", i);
    worker_config_init(&c);
    c.name = blob_str(name);
    w->links = h->links;
    c.addr = blob_str(h->config.dialled ? listen_on(w, i + 1) : "127.0.0.1:1");
    c.slots = h->config.slots;
    c.incarnation = i + 1;
    worker_init(&w->role, &c, i);
    blob_drop(c.name);
    blob_drop(c.addr);
    loop_timer_init(&w->timer, on_timer, w);
    step(w, &(struct msg){.type = MSG_START});
    w->central = link_dial(w->links, h->config.central, "central");
    link_set_user(w->central, w);
}

struct hosted *hosted_new(const struct hosted_config *c)
{
    struct hosted *h = xcalloc(1, sizeof *h);
    struct link_config lc = {.role = ROLE_WORKER, .name = "hosted"};
    int64_t end_us = loop_now(c->loop) + JOIN_S * US_PER_S;

    h->config = *c;
    h->links = links_new(c->loop, &lc, &fns, h);
    h->v = xcalloc(c->workers, sizeof *h->v);
    for (uint32_t i = 0; i < c->workers; i++) {
        h->v[i].all = h;
        make_one(&h->v[i], i);
        while (h->counts.joined + JOINS_IN_FLIGHT < i && loop_now(c->loop) < end_us)
            loop_once(c->loop, end_us);
    }
    while (h->counts.joined < c->workers && loop_now(c->loop) < end_us)
        loop_once(c->loop, end_us);
    if (h->counts.joined < c->workers)
        bench_die("only %u of %u workers have joined after %d s", h->counts.joined, c->workers, JOIN_S);
    return h;
}

void hosted_free(struct hosted *h)
{
    for (uint32_t i = 0; i < h->config.workers; i++) {
        struct one *w = &h->v[i];

        loop_timer_clear(h->config.loop, &w->timer);
        if (!w->server)
            continue;
        server_stop(w->server);
        links_free(w->links, 0);
        server_free(w->server);
    }
    links_free(h->links, 0);
    for (uint32_t i = 0; i < h->config.workers; i++)
        worker_free(&h->v[i].role);
    out_free(&h->queue);
    free(h->v);
    free(h);
}

const struct hosted_counts *hosted_counts(const struct hosted *h) { return &h->counts; }

void hosted_forget_joins(struct hosted *h)
{
    h->counts.joined = 0;
    h->counts.first_up_us = 0;
}

uint32_t hosted_central_tasks(const struct hosted *h)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < h->config.workers; i++)
        n += h->v[i].role.n_central_tasks;
    return n;
}
