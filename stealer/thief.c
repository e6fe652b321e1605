/* The thief's rounds, parking and retries. */
#include "stealer/thief.h"

#include "base/check.h"
#include "base/units.h"

/* ---- The order of a round ---- */

static bool is_prime(uint64_t x)
{
    if (x % 2 == 0)
        return x == 2;
    for (uint64_t d = 3; d * d <= x; d += 2)
        if (x % d == 0)
            return false;
    return true;
}

void thief_victims_begin(struct victims *v, struct rng *r, uint32_t n)
{
    if (n != v->n || v->prime == 0)
        for (v->prime = n < 2 ? 2 : n; !is_prime(v->prime);)
            v->prime++;
    v->n = v->left = n;
    v->at = rng_below(r, v->prime);
    v->stride = 1 + (uint32_t)rng_below(r, v->prime - 1);
}

uint32_t thief_victims_next(struct victims *v)
{
    uint64_t x;

    if (v->left == 0)
        return v->n;
    v->left--;
    do {
        x = v->at;
        v->at += v->stride;
        if (v->at >= v->prime)
            v->at -= v->prime;
    } while (x >= v->n);
    return (uint32_t)x;
}

/* ---- The thief ---- */

void thief_init(struct thief *t) { *t = (struct thief){.retry_at = TIME_NEVER, .state = THIEF_OFF}; }

/* Whether an idle worker looks for work at all: some long work exists, or the policy does not care. */
static bool looking(const struct thief_env *env)
{
    return env->hungry && policy_has(env->policy, POLICY_STEAL) && env->members && env->members->n > 0 &&
           (env->long_work || policy_has(env->policy, POLICY_STEAL_ALWAYS));
}

/* DEVIATES: by the design (3.4) every parked thief also tries again by itself. Here it does so only if nobody
 * pairs it: without STEAL_HINTS, without central, or if central has not answered for three heartbeats.
 * While central pairs, retries are expensive and bring nothing measurable. On the Yahoo trace with 3,583
 * workers (seeds 1 to 3) the simulator handles 12.0 million events with retries and 2.6 million without, in 9
 * to 10 seconds of processor time instead of 1.3 to 2.0. Response times with and without retries differ about
 * as much as those of two seeds. With retries, idle thieves send messages as long as any long task runs.
 * Without retries nothing is lost: "stuck" and "parked" travel on streams, which lose messages only with
 * PEER_LOST, and then the worker tells both again. A worker that central does not hear is suspect, and central
 * forgets both. When central hears it, the worker gets PARTITION, and tells both again. */
static bool retries(const struct thief_env *env)
{
    return policy_has(env->policy, POLICY_STEAL_RETRY) &&
           !policy_has(env->policy, POLICY_STEAL_ON_FREE_ONLY) &&
           !(env->paired && policy_has(env->policy, POLICY_STEAL_HINTS));
}

/* Ends looking for work: the thief asks nobody. */
static node_id_t turn_off(struct thief *t)
{
    t->state = THIEF_OFF;
    t->retry_at = TIME_NEVER;
    t->delay_us = 0;
    t->hint = NODE_NONE;
    return NODE_NONE;
}

static void park_for(struct thief *t, const struct thief_env *env, int64_t delay_us)
{
    t->state = THIEF_PARKED;
    t->retry_at = retries(env) ? env->now_us + delay_us : TIME_NEVER;
}

static uint16_t least_cap(uint16_t a, uint16_t b) { return a < b ? a : b; }

/* The number of victims that the next round asks. */
static uint16_t round_cap(const struct thief *t, const struct thief_env *env)
{
    if (t->cap == 0 || !policy_has(env->policy, POLICY_STEAL_ADAPT))
        return env->policy->steal_cap;
    return least_cap(t->cap, env->policy->steal_cap);
}

/* The round brought nothing. Waits twice as long as last time, give or take an eighth, so that thieves that
 * failed together do not return together. */
static void park(struct thief *t, const struct thief_env *env)
{
    int64_t least = env->park_min_us > 0 ? env->park_min_us : 1;
    int64_t most = env->park_max_us > least ? env->park_max_us : least;

    if (!t->hinted)
        t->cap = round_cap(t, env) > 1 ? round_cap(t, env) / 2 : 1;
    else if (t->retry_at != TIME_NEVER) { /* one failed hint says nothing about other victims */
        t->state = THIEF_PARKED;
        return;
    }
    t->delay_us = t->delay_us == 0 ? least : t->delay_us > most / 2 ? most : t->delay_us * 2;
    park_for(t, env,
             t->delay_us - t->delay_us / 8 + (int64_t)rng_below(env->rng, (uint64_t)t->delay_us / 4 + 1));
}

/* left: how many victims the thief may ask besides a hinted one. */
static void enter_round(struct thief *t, bool hinted, uint16_t left)
{
    t->state = THIEF_ROUND;
    t->hinted = hinted;
    t->got_loot = false;
    t->asked = 0;
    t->left = left;
}

static void begin_round(struct thief *t, const struct thief_env *env)
{
    enter_round(t, false, round_cap(t, env));
    thief_victims_begin(&t->order, env->rng, env->members->n);
}

/* The published simulator's victims: independent draws, in which the thief may draw itself. That costs a
 * question. */
static uint32_t draw_index(struct thief *t, const struct thief_env *env)
{
    if (!policy_has(env->policy, POLICY_STEAL_REPLACE))
        return thief_victims_next(&t->order);
    if (t->order.left == 0)
        return t->order.n;
    t->order.left--;
    return (uint32_t)rng_below(env->rng, t->order.n);
}

/* Draws the next general worker of this round, or NODE_NONE. Thieves steal only from the general partition
 * (Hawk 3.6). If the member list changed during the round, a worker may be asked twice, which does no
 * harm. */
static node_id_t draw_victim(struct thief *t, const struct thief_env *env)
{
    uint32_t i;

    while (t->left > 0 && (i = draw_index(t, env)) < t->order.n) {
        const struct member *m;

        if (i >= env->members->n)
            continue;
        m = &env->members->v[i];
        if (m->role != ROLE_WORKER || !m->general || m->state != MEMBER_UP)
            continue;
        t->left -= !node_eq(m->node, env->self) || policy_has(env->policy, POLICY_STEAL_REPLACE);
        if (node_eq(m->node, env->self))
            continue;
        return m->node;
    }
    return NODE_NONE;
}

static node_id_t next_victim(struct thief *t, const struct thief_env *env)
{
    node_id_t victim = t->hint;

    t->hint = NODE_NONE;
    if (victim.v == NODE_NONE.v && !t->hinted && env->members)
        victim = draw_victim(t, env);
    return victim;
}

static node_id_t ask_victim(struct thief *t, const struct thief_env *env, node_id_t victim)
{
    t->answer_by = env->now_us + THIEF_ANSWER_US;
    t->state = THIEF_ASKED;
    t->victim = victim;
    t->request++;
    t->index = 0;
    t->asked++;
    return victim;
}

/* Continues a round in which no answer is outstanding, or ends it. */
static node_id_t round_step(struct thief *t, const struct thief_env *env)
{
    node_id_t victim;

    if (t->got_loot) {
        t->delay_us = 0;
        t->cap = t->hinted ? t->cap : 0;
    }
    if (!(t->hinted ? env->hungry && policy_has(env->policy, POLICY_STEAL) : looking(env)))
        return turn_off(t);
    if (t->got_loot) {
        /* With several slots, the loot may not have filled them: its victim may have more. */
        if (!looking(env) || policy_has(env->policy, POLICY_STEAL_ON_FREE_ONLY))
            return turn_off(t);
        begin_round(t, env);
    }
    victim = next_victim(t, env);
    if (victim.v != NODE_NONE.v)
        return ask_victim(t, env, victim);
    park(t, env);
    return NODE_NONE;
}

/* Stays parked, unless work came, the worker looks for no work any more, or the delay is over. */
static node_id_t parked_step(struct thief *t, const struct thief_env *env)
{
    if (!looking(env))
        return turn_off(t);
    if (!retries(env))
        t->retry_at = TIME_NEVER;
    else if (t->retry_at == TIME_NEVER)
        park_for(t, env, env->park_min_us);
    if (env->now_us < t->retry_at && !(env->freed && policy_has(env->policy, POLICY_STEAL_ON_FREE_ONLY)))
        return NODE_NONE;
    begin_round(t, env);
    return round_step(t, env);
}

node_id_t thief_step(struct thief *t, const struct thief_env *env)
{
    if (!env->long_work)
        t->cap = 0; /* the next round meets another situation */
    switch (t->state) {
    case THIEF_ROUND:
        return round_step(t, env);
    case THIEF_PARKED:
        return parked_step(t, env);
    case THIEF_OFF:
        if (!looking(env))
            return NODE_NONE;
        if (env->freed) { /* Hawk 3.6: "whenever a server is out of tasks to execute" */
            begin_round(t, env);
            return round_step(t, env);
        }
        /* The worker was idle before there was anything to steal. Thousands of workers may notice that at the
         * same moment. So they park first: central can pair them, and their retries are spread out. */
        if (!policy_has(env->policy, POLICY_STEAL_ON_FREE_ONLY))
            park_for(t, env,
                     env->park_min_us > 0 ? (int64_t)rng_below(env->rng, (uint64_t)env->park_min_us) + 1 : 1);
        return NODE_NONE;
    default: /* THIEF_ASKED: an answer, a lost stream or the timeout comes first */
        if (env->now_us < t->answer_by)
            return NODE_NONE;
        t->state = THIEF_ROUND; /* loot that it sends later is declined */
        return round_step(t, env);
    }
}

void thief_hint(struct thief *t, const struct thief_env *env, node_id_t victim)
{
    if (victim.v == NODE_NONE.v || node_eq(victim, env->self) || !env->hungry ||
        !policy_has(env->policy, POLICY_STEAL))
        return;
    if (t->state == THIEF_ASKED && node_eq(t->victim, victim))
        return;
    t->hint = victim;
    if (t->state == THIEF_OFF || t->state == THIEF_PARKED)
        enter_round(t, true, 0);
}

bool thief_asked(const struct thief *t, node_id_t from, uint32_t request)
{
    return t->state == THIEF_ASKED && node_eq(t->victim, from) && t->request == request;
}

enum thief_answer thief_answer(struct thief *t, node_id_t from, uint32_t request, uint16_t index,
                               uint16_t items)
{
    if (!thief_asked(t, from, request))
        return ANSWER_UNKNOWN;
    if (items == 0 && t->index == 0) {
        t->state = THIEF_ROUND;
        return ANSWER_EMPTY;
    }
    if (index != t->index || index >= items)
        return ANSWER_UNKNOWN;
    t->index++;
    if (t->index == items)
        t->state = THIEF_ROUND;
    return ANSWER_ITEM;
}

void thief_peer_lost(struct thief *t, node_id_t node)
{
    if (node_eq(t->hint, node))
        t->hint = NODE_NONE;
    if (t->state == THIEF_ASKED && node_eq(t->victim, node))
        t->state = THIEF_ROUND;
}

int64_t thief_next_timeout(const struct thief *t)
{
    if (t->state == THIEF_ASKED)
        return t->answer_by;
    return t->state == THIEF_PARKED ? t->retry_at : TIME_NEVER;
}

void thief_check(const struct thief *t)
{
    CHECK(t->state <= THIEF_PARKED);
    CHECK(t->state != THIEF_OFF || t->retry_at == TIME_NEVER);
    CHECK(t->state != THIEF_ASKED || t->victim.v != NODE_NONE.v);
    CHECK(t->state == THIEF_ROUND || t->state == THIEF_ASKED || t->hint.v == NODE_NONE.v);
    CHECK(t->order.left <= t->order.n);
    CHECK(t->delay_us >= 0);
}
