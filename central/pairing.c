/* Parked thieves, stuck workers, and whether there is long work at all (protocol 5.5, 5.6; DESIGN 3.4). */
#include "central/pairing.h"
#include "base/check.h"
#include "central/state.h"

/* Two rounds of hints in the 50 ms for which a reservation may be stuck beside a parked thief. */
#define HINT_US (20 * US_PER_MS)
/* The most thieves that one round looks at: thieves that serve none of the stuck applications are passed
 * over. The next round continues where this one ended. */
#define HINT_LOOKS_MAX 100000u
/* Long work that ends and soon begins again should not cost two messages to every worker. */
#define LONG_WORK_OFF_US US_PER_S

static void set_member(struct list *all, struct list *entry, uint32_t *count, bool in)
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

static void count(struct app_counts *k, uint64_t apps, bool in)
{
    for (; apps; apps &= apps - 1) {
        uint32_t bit = (uint32_t)__builtin_ctzll(apps);

        k->n[bit] += in ? 1u : -1u;
        if (k->n[bit] > 0)
            k->any |= UINT64_C(1) << bit;
        else
            k->any &= ~(UINT64_C(1) << bit);
    }
}

static void count_stuck(struct central *c, const struct node *n, bool in)
{
    if (n->stuck_apps == 0)
        c->n_stuck_any += in ? 1u : -1u;
    count(&c->stuck_apps, n->stuck_apps, in);
}

void central_pairing_serves(struct central *c, struct node *n, uint64_t apps)
{
    if (!list_empty(&n->parked)) {
        count(&c->parked_apps, n->app_set, false);
        count(&c->parked_apps, apps, true);
    }
    n->app_set = apps;
}

static void set_parked(struct central *c, struct node *n, bool parked)
{
    if (list_empty(&n->parked) == parked)
        count(&c->parked_apps, n->app_set, parked);
    set_member(&c->parked, &n->parked, &c->n_parked, parked);
}

static void set_stuck(struct central *c, struct node *n, const struct msg_stuck *m)
{
    /* With more victims than thieves, a thief must serve several within the 50 ms. When a victim is relieved,
     * the next hint does not wait for the next round. */
    if (!m->stuck && !list_empty(&n->stuck) && c->n_stuck > c->n_parked)
        c->relieved = true;
    if (!list_empty(&n->stuck))
        count_stuck(c, n, false);
    set_member(&c->stuck, &n->stuck, &c->n_stuck, m->stuck);
    n->stuck_apps = m->apps;
    if (m->stuck)
        count_stuck(c, n, true);
}

/* Tasks that were sent and have not arrived yet will take some of the slots for which the worker asks. */
void central_on_long_request(struct central *c, const struct msg *in)
{
    struct node *n = c->from;
    uint32_t under_way = n->sent - in->long_request.got, slots = in->long_request.slots;

    if (slots > n->slots)
        slots = n->slots;
    n->room = slots > under_way ? slots - under_way : 0;
    central_node_update_eligible(c, n);
}

/* A worker that serves one user gets no hints: central does not know whose reservations are stuck. It tries by itself,
 * from time to time. */
void central_on_parked(struct central *c, const struct msg *in)
{
    set_parked(c, c->from, in->parked.parked && !c->from->serves);
}

void central_on_stuck(struct central *c, const struct msg *in) { set_stuck(c, c->from, &in->stuck); }

void central_pairing_forget(struct central *c, struct node *n)
{
    set_parked(c, n, false);
    set_stuck(c, n, &(struct msg_stuck){.stuck = false});
}

static bool hints_wanted(const struct central *c)
{
    return c->n_parked > 0 && (c->n_stuck_any > 0 || (c->stuck_apps.any & c->parked_apps.any)) &&
           policy_has(&c->policy, POLICY_STEAL) && policy_has(&c->policy, POLICY_STEAL_HINTS);
}

static bool can_help(const struct node *thief, const struct node *victim)
{
    return thief != victim && (victim->stuck_apps == 0 || (thief->app_set & victim->stuck_apps));
}

/* The next thief in turn that can help the victim and has no hint in this round. */
static struct node *thief_for(struct central *c, const struct node *victim, uint32_t *looks)
{
    for (uint32_t left = c->n_parked; left > 0 && *looks > 0; left--, --*looks) {
        struct node *thief = container_of(c->parked.next, struct node, parked);

        list_remove(&thief->parked);
        list_push_tail(&c->parked, &thief->parked);
        if (thief->hinted != c->hint_round && can_help(thief, victim))
            return thief;
    }
    return NULL;
}

static void hint(struct central *c, struct node *thief, const struct node *victim)
{
    struct msg *m = central_send(c, thief, MSG_STEAL_HINT);

    thief->hinted = c->hint_round;
    if (!m)
        return;
    m->steal_hint.victim = victim->id;
    /* The victim may be reserved: then the thief does not know its address. */
    m->steal_hint.addr = blob_ref(victim->addr);
    c->counters[COUNTER_steal_hints]++;
}

/* Runs a round of at most `pairs` hints: takes victims in turn, and for each the next thief in turn.
 * `unhinted` counts what the thieves without a hint serve, so that no search is in vain. */
static void send_hints(struct central *c, uint32_t pairs)
{
    struct app_counts unhinted = c->parked_apps;
    uint32_t looks = HINT_LOOKS_MAX;

    c->hint_round++;
    for (uint32_t left = c->n_stuck; left > 0 && pairs > 0 && looks > 0; left--) {
        struct node *victim = container_of(c->stuck.next, struct node, stuck), *thief;

        list_remove(&victim->stuck);
        list_push_tail(&c->stuck, &victim->stuck);
        if (victim->stuck_apps && !(victim->stuck_apps & unhinted.any))
            continue;
        thief = thief_for(c, victim, &looks);
        if (!thief)
            continue; /* with one queue per slot, a worker may be thief and only victim at once */
        hint(c, thief, victim);
        count(&unhinted, thief->app_set, false);
        pairs--;
    }
}

void central_pairing_check(const struct central *c)
{
    struct app_counts parked = {0}, stuck = {0};
    uint32_t n_parked = 0, n_stuck = 0, n_any = 0;

    list_foreach(&c->parked, entry, next) {
        count(&parked, container_of(entry, struct node, parked)->app_set, true);
        n_parked++;
    }
    list_foreach(&c->stuck, entry, next) {
        const struct node *n = container_of(entry, struct node, stuck);

        count(&stuck, n->stuck_apps, true);
        n_any += n->stuck_apps == 0;
        n_stuck++;
    }
    CHECK(n_parked == c->n_parked);
    CHECK(n_stuck == c->n_stuck);
    CHECK(n_any == c->n_stuck_any);
    for (uint32_t i = 0; i < 64; i++) {
        CHECK(parked.n[i] == c->parked_apps.n[i]);
        CHECK(stuck.n[i] == c->stuck_apps.n[i]);
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
    } else if (c->hint_next_us <= c->now_us) { /* a round has as many pairs as the smaller group */
        send_hints(c, c->n_parked < c->n_stuck ? c->n_parked : c->n_stuck);
        c->hint_next_us = c->now_us + HINT_US;
    } else if (c->relieved) {
        send_hints(c, 1);
    }
    c->relieved = false;
}
