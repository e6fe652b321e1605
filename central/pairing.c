/* Parked thieves, stuck workers, and whether there is long work at all (protocol 5.5, 5.6; DESIGN 3.4). */
#include "central/state.h"

/* Twice in the 50 ms a reservation may stay stuck while a thief is parked. */
#define HINT_US (20 * US_PER_MS)
/* Long work that ends and begins again is no reason to tell every worker twice. */
#define LONG_WORK_OFF_US US_PER_S

static void put(struct list *all, struct list *entry, uint32_t *count, bool in)
{
    if (!list_empty(entry) == in)
        return;
    if (in) {
        list_push_tail(all, entry);
        ++*count;
    } else {
        list_remove(entry);
        --*count;
    }
}

void central_pairing_parked(struct central *c, struct node *n, bool parked)
{
    put(&c->parked, &n->parked, &c->n_parked, parked);
}

void central_pairing_stuck(struct central *c, struct node *n, bool stuck)
{
    /* With more victims than thieves, a thief has to serve several within the 50 ms: when one is relieved, the next one
     * need not wait for the next round. */
    if (!stuck && !list_empty(&n->stuck) && c->n_stuck > c->n_parked)
        c->relieved = true;
    put(&c->stuck, &n->stuck, &c->n_stuck, stuck);
}

void central_pairing_forget(struct central *c, struct node *n)
{
    central_pairing_parked(c, n, false);
    central_pairing_stuck(c, n, false);
}

static bool hints_wanted(const struct central *c)
{
    return c->n_parked > 0 && c->n_stuck > 0 && policy_has(&c->policy, POLICY_STEAL) &&
           policy_has(&c->policy, POLICY_STEAL_HINTS);
}

/* The next ones of each kind in turn. */
static void send_hints(struct central *c, uint32_t pairs)
{
    while (pairs-- > 0) {
        struct node *thief = container_of(c->parked.next, struct node, parked);
        struct node *victim = container_of(c->stuck.next, struct node, stuck);
        struct msg *m;

        list_remove(&thief->parked);
        list_push_tail(&c->parked, &thief->parked);
        if (thief == victim)
            continue; /* with one queue per slot: the next thief's, then */
        list_remove(&victim->stuck);
        list_push_tail(&c->stuck, &victim->stuck);
        m = central_send(c, thief, MSG_STEAL_HINT);
        if (!m)
            continue;
        m->steal_hint.victim = victim->id;
        c->counters[COUNTER_steal_hints]++;
    }
}

/* ---- Long work ---- */

static bool any_long_work(const struct central *c)
{
    return c->tasks_in[TASK_WAITING] + c->tasks_in[TASK_PLACED] + c->tasks_in[TASK_RUNNING] > 0 ||
           c->n_stuck > 0 || !policy_has(&c->policy, POLICY_CENTRAL_LONG);
}

void central_pairing_send_long_work(struct central *c, const struct node *worker)
{
    struct msg *m = central_send(c, worker, MSG_LONG_WORK);

    if (m)
        m->long_work.any = c->long_work;
}

static void tell_everybody(struct central *c, bool any)
{
    c->long_work = any;
    for (uint32_t id = 1; id < c->nodes_end; id++)
        if (c->nodes[id] && c->nodes[id]->role == ROLE_WORKER && c->nodes[id]->state != NODE_JOINING)
            central_pairing_send_long_work(c, c->nodes[id]);
}

static void follow_long_work(struct central *c)
{
    if (any_long_work(c)) {
        c->long_work_off_us = TIME_NEVER;
        if (!c->long_work)
            tell_everybody(c, true);
    } else if (c->long_work && c->long_work_off_us == TIME_NEVER) {
        c->long_work_off_us = c->now_us + LONG_WORK_OFF_US;
    } else if (c->long_work && c->long_work_off_us <= c->now_us) {
        c->long_work_off_us = TIME_NEVER;
        tell_everybody(c, false);
    }
}

int64_t central_pairing_due_us(const struct central *c)
{
    int64_t due_us = hints_wanted(c) ? c->hint_next_us : TIME_NEVER;

    return due_us < c->long_work_off_us ? due_us : c->long_work_off_us;
}

void central_pairing_run(struct central *c)
{
    follow_long_work(c);
    if (!hints_wanted(c)) {
        c->relieved = false;
    } else if (c->hint_next_us <= c->now_us) { /* a round: as many pairs as there are of the fewer kind */
        send_hints(c, c->n_parked < c->n_stuck ? c->n_parked : c->n_stuck);
        c->hint_next_us = c->now_us + HINT_US;
    } else if (c->relieved) {
        send_hints(c, 1);
    }
    c->relieved = false;
}
