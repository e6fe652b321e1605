/* Member lists (protocol 1.7): dists hear of every change at once, workers get whole lists from time to
 * time. */
#include "central/tasks.h"

#define MEMBER_BYTES 24 /* bytes of an entry, without address and name */

static enum member_state state_of(const struct node *n)
{
    switch (n->state) {
    case NODE_UP:
        return node_refuses_work(n) ? MEMBER_DRAINING : MEMBER_UP;
    case NODE_SUSPECT:
        return MEMBER_SUSPECT;
    default:
        return MEMBER_GONE;
    }
}

struct member central_member_of(const struct node *n)
{
    bool is_out = n->state == NODE_UP && node_out(n) && !n->draining && n->drain == DRAIN_NOT;

    return (struct member){.node = n->id,
                           .slots = n->slots,
                           .role = n->role,
                           .state = (uint8_t)state_of(n),
                           .general = n->role == ROLE_WORKER && n->general && n->acked,
                           .unsettled = n->role == ROLE_WORKER && n->general && !n->acked,
                           .addr = n->addr,
                           .name = n->name,
                           .out_why = is_out ? n->out_why : NULL,
                           .serves = n->serves};
}

/* Members in the lists of dists: a dist may have a stream to each. */
static bool for_dists(const struct node *n) { return n->state == NODE_UP || n->state == NODE_SUSPECT; }

/* Members in the lists of workers: possible victims, and dists. */
static bool for_workers(const struct node *n)
{
    return n->state == NODE_UP && (n->role == ROLE_DIST || (n->general && n->acked));
}

static struct members *list_of(const struct central *c, bool (*wanted)(const struct node *))
{
    struct members *m;
    uint32_t n = 0;

    for (uint32_t id = 1; id < c->nodes_end; id++)
        n += c->nodes[id] && wanted(c->nodes[id]);
    m = members_new(n);
    n = 0;
    for (uint32_t id = 1; id < c->nodes_end; id++) {
        if (!c->nodes[id] || !wanted(c->nodes[id]))
            continue;
        m->v[n] = central_member_of(c->nodes[id]);
        blob_ref(m->v[n].addr);
        blob_ref(m->v[n].name);
        blob_ref(m->v[n].out_why);
        blob_ref(m->v[n].serves);
        n++;
    }
    return m;
}

void central_members_changed(struct central *c, struct node *n)
{
    list_remove(&n->changed);
    list_push_tail(&c->changed, &n->changed);
}

static void tell_dists(struct central *c, const struct node *n)
{
    const struct member v = central_member_of(n);

    list_foreach(&c->dists, entry, next) {
        const struct node *dist = container_of(entry, struct node, push);
        struct msg *m;

        if (dist == n)
            continue;
        m = central_send(c, dist, MSG_MEMBER);
        m->member.addr = blob_ref(v.addr);
        m->member.name = blob_ref(v.name);
        m->member.node = v.node;
        m->member.slots = v.slots;
        m->member.version = c->members_version;
        m->member.role = v.role;
        m->member.state = v.state;
        m->member.general = v.general;
        m->member.unsettled = v.unsettled;
        m->member.out_why = blob_ref(v.out_why);
        m->member.serves = blob_ref(v.serves);
        central_apps_send(c, dist, n);
        end_times_tell(c, dist, n);
    }
}

void central_members_flush(struct central *c)
{
    if (list_empty(&c->changed))
        return;
    c->members_version++;
    members_drop(c->dist_list);
    members_drop(c->worker_list);
    c->dist_list = c->worker_list = NULL;
    list_foreach(&c->changed, entry, next) {
        list_remove(entry);
        tell_dists(c, container_of(entry, struct node, changed));
    }
}

void central_members_send_all(struct central *c, const struct node *dist)
{
    struct msg *m;

    if (!c->dist_list)
        c->dist_list = list_of(c, for_dists);
    m = central_send(c, dist, MSG_MEMBERS);
    m->members.list = members_ref(c->dist_list);
    m->members.version = c->members_version;
    m->members.workers_away = central_workers_away(c);
    central_apps_send_all(c, dist);
    end_times_tell_all(c, dist);
}

/* The worker with the oldest list, unless that is the newest version. */
static struct node *outdated(const struct central *c)
{
    struct node *n = list_empty(&c->push) ? NULL : container_of(c->push.next, struct node, push);

    return n && n->listed != c->members_version ? n : NULL;
}

int64_t central_members_due_us(const struct central *c) { return outdated(c) ? c->push_next_us : TIME_NEVER; }

static int64_t list_bytes(const struct members *m)
{
    int64_t bytes = 0;

    for (uint32_t i = 0; i < m->n; i++)
        bytes += MEMBER_BYTES + m->v[i].addr->len + m->v[i].name->len;
    return bytes + MEMBER_BYTES;
}

/* Sends member lists to workers. The lists of a big cluster are too much for one round. Each round starts
 * where the last one stopped, and sends a worker no list that it has. */
void central_members_run(struct central *c)
{
    int64_t rate = c->cfg.members_bytes_s, pause_us = c->cfg.members_push_us;
    int64_t spent = 0;
    __int128 left;
    struct node *n;

    if (central_members_due_us(c) > c->now_us)
        return;
    /* At least one list per round; without a pause between rounds, as many as the rate allows. */
    left = rate > 0 ? (__int128)rate * pause_us / US_PER_S + 1 : INT64_MAX;
    if (!c->worker_list) {
        c->worker_list = list_of(c, for_workers);
        c->worker_list_bytes = list_bytes(c->worker_list);
    }
    while (spent < left && (n = outdated(c))) {
        struct msg *m = central_send(c, n, MSG_MEMBERS);

        n->listed = c->members_version;
        list_remove(&n->push);
        list_push_tail(&c->push, &n->push);
        m->members.list = members_ref(c->worker_list);
        m->members.version = c->members_version;
        spent += c->worker_list_bytes;
    }
    if (rate > 0 && spent > left)
        pause_us = spent * US_PER_S / rate;
    c->push_next_us = c->now_us + pause_us;
}
