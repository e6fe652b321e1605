/* The stealing library: what is loot (Hawk's Figure 3 and its several-slot forms, as a table and against a
 * brute-force model), whom a thief asks, and when it parks and tries again. */
#include "base/rng.h"
#include "base/units.h"
#include "stealer/queue.h"
#include "stealer/thief.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- The queue ---- */

#define MAX_QUEUE 64

/* One letter per entry: s short reservation, L long bound task, l long reservation, b short bound task. */
struct bench {
    struct steal_queue q;
    struct steal_entry e[MAX_QUEUE];
    size_t n;
};

static void fill(struct bench *b, const char *letters)
{
    steal_queue_init(&b->q);
    b->n = strlen(letters);
    for (size_t i = 0; i < b->n; i++) {
        bool is_long = letters[i] == 'L' || letters[i] == 'l', bound = letters[i] == 'L' || letters[i] == 'b';

        steal_entry_init(&b->e[i], is_long, bound, 1);
        steal_queue_push(&b->q, &b->e[i]);
    }
    steal_queue_check(&b->q);
}

/* '*' under every entry that is loot, '.' under the others. */
static void mark_loot(const struct bench *b, uint32_t slots, uint32_t long_running, char *marks)
{
    memset(marks, '.', b->n);
    marks[b->n] = '\0';
    for (struct steal_entry *e = steal_queue_loot(&b->q, slots, long_running); e;
         e = steal_queue_loot_next(&b->q, e))
        marks[e - b->e] = '*';
}

static void figure_3(void **state)
{
    static const struct {
        const char *name;
        uint32_t slots, long_running;
        const char *queue, *loot;
    } cases[] = {
        /* The paper's: one slot. */
        {"a1: running short, the group after the first long one", 1, 0, "ssLssLs", "...**.."},
        {"a2: running short, the long one at the head", 1, 0, "LsssLss", ".***..."},
        {"b1: running long, short ones at the head", 1, 1, "ssLss", "**..."},
        {"b2: running long, another long one at the head", 1, 1, "LssLss", ".**..."},
        {"nothing long anywhere", 1, 0, "ssss", "...."},
        {"long only at the tail", 1, 0, "sssL", "...."},
        {"nothing queued", 1, 1, "", ""},
        {"long only", 1, 1, "LLL", "..."},
        {"several long ones in a row before the group", 1, 0, "sLLLssLs", "....**.."},
        {"running long, and several long ones ahead", 1, 1, "LLsL", "..*."},
        /* Class and binding are independent (DESIGN 3.1). */
        {"a long reservation blocks like a long task", 1, 0, "slss", "..**"},
        {"a long reservation ends the group", 1, 1, "slss", "*..."},
        {"long reservations are never stolen", 1, 1, "lll", "..."},
        {"a short bound task stays, the group goes on behind it", 1, 1, "sbsLs", "*.*.."},
        {"short bound tasks alone are nothing to steal", 1, 1, "bb", ".."},
        /* Several slots on one queue: long running and long ahead must fill them all. */
        {"4 slots, 4 long running", 4, 4, "ssLs", "**.."},
        {"4 slots, 3 long running: the next long one fills the last slot", 4, 3, "ssLssLs", "...**.."},
        {"4 slots, 2 long running", 4, 2, "sLsLsLs", "....*.."},
        {"4 slots, 2 long running, long ones in a row", 4, 2, "sLLLss", "....**"},
        {"4 slots, none running long", 4, 0, "LsLsLsLsLs", ".......*.."},
        {"4 slots, too little long work: a slot is left for the short ones", 4, 1, "sLsLs", "....."},
        {"4 slots, exactly enough, nothing short behind it", 4, 2, "sLsL", "...."},
        {"2 slots, 1 long running, the last slot's long one at the head", 2, 1, "Lss", ".**"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        char marks[MAX_QUEUE + 1];

        fill(&b, cases[i].queue);
        mark_loot(&b, cases[i].slots, cases[i].long_running, marks);
        if (strcmp(marks, cases[i].loot) != 0)
            fail_msg("%s: queue %s: loot %s, expected %s", cases[i].name, cases[i].queue, marks,
                     cases[i].loot);
        assert_int_equal(steal_queue_stuck(&b.q, cases[i].slots, cases[i].long_running),
                         strchr(cases[i].loot, '*') != NULL);
    }
}

/* With short_first, which is the paper's rule no more. */
static void short_first(void **state)
{
    static const struct {
        const char *name;
        uint32_t slots, long_running;
        uint16_t short_first, overtaken;
        const char *queue, *loot;
        int next; /* gets the next slot; -1: nobody */
    } cases[] = {
        {"off: the head", 1, 0, 0, 0, "LsLs", ".*..", 0},
        {"the first short one overtakes, and none is stuck", 1, 0, 2, 0, "LsLs", "....", 1},
        {"the last that may", 1, 0, 2, 1, "LsLs", "....", 1},
        {"the bound is used up: the long one's turn", 1, 0, 2, 2, "LsLs", ".*..", 0},
        {"more than the bound: it was larger before", 1, 0, 2, 5, "LsLs", ".*..", 0},
        {"running long fills the slots: all are stuck, a group at a time", 1, 1, 2, 0, "LssLs", ".**..", 1},
        {"what came before the long one goes before it", 1, 0, 2, 2, "ssLs", "....", 0},
        {"long reservations are long", 1, 0, 1, 1, "ls", ".*", 0},
        {"bound short ones overtake nobody", 1, 0, 2, 0, "Lbs", "...", 2},
        {"and are not overtaken when they are at the head", 1, 0, 2, 0, "bLs", "...", 0},
        {"long ones only", 1, 0, 2, 0, "LL", "..", 0},
        {"nothing long", 1, 0, 2, 0, "ss", "..", 0},
        {"nothing", 1, 0, 2, 0, "", "", -1},
        {"2 slots: the one that is due leaves one", 2, 0, 1, 1, "Ls", "..", 0},
        {"2 slots: the one that is due takes the last", 2, 1, 1, 1, "Ls", ".*", 0},
        {"2 slots: many long ones queued take one at a time", 2, 1, 1, 0, "LLLLs", ".....", 4},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        char marks[MAX_QUEUE + 1];
        struct steal_entry *next;

        fill(&b, cases[i].queue);
        b.q.short_first = cases[i].short_first;
        b.q.overtaken = cases[i].overtaken;
        mark_loot(&b, cases[i].slots, cases[i].long_running, marks);
        if (strcmp(marks, cases[i].loot) != 0)
            fail_msg("%s: queue %s: loot %s, expected %s", cases[i].name, cases[i].queue, marks,
                     cases[i].loot);
        assert_int_equal(steal_queue_stuck(&b.q, cases[i].slots, cases[i].long_running),
                         strchr(cases[i].loot, '*') != NULL);
        next = steal_queue_next(&b.q);
        if ((next ? (int)(next - b.e) : -1) != cases[i].next)
            fail_msg("%s: queue %s: %d is next, expected %d", cases[i].name, cases[i].queue,
                     next ? (int)(next - b.e) : -1, cases[i].next);
    }
}

/* The rule as the header words it, by one scan from the head. */
static void model_loot(const char *queue, uint32_t slots, uint32_t long_running, char *marks)
{
    uint32_t blocking = long_running;
    bool taken = false;

    for (; *queue; queue++, marks++) {
        bool is_long = *queue == 'L' || *queue == 'l';

        *marks = *queue == 's' && blocking >= slots ? '*' : '.';
        taken = taken || *marks == '*';
        blocking += is_long;
        if (taken && is_long)
            blocking = 0, slots = UINT32_MAX; /* the group is over */
    }
    *marks = '\0';
}

static void loot_agrees_with_the_model(void **state)
{
    struct rng r;

    rng_seed(&r, 1);
    for (int round = 0; round < 20000; round++) {
        uint32_t slots = 1 + (uint32_t)rng_below(&r, 5), running = (uint32_t)rng_below(&r, slots + 1);
        uint64_t n = rng_below(&r, 20);
        char queue[MAX_QUEUE + 1] = {0}, marks[MAX_QUEUE + 1], expected[MAX_QUEUE + 1];
        struct bench b;

        for (uint64_t i = 0; i < n; i++)
            queue[i] = "sssLlb"[rng_below(&r, 6)];
        fill(&b, queue);
        mark_loot(&b, slots, running, marks);
        model_loot(queue, slots, running, expected);
        if (strcmp(marks, expected) != 0)
            fail_msg("%u slots, %u long running, %s: %s, expected %s", slots, running, queue, marks,
                     expected);
        assert_int_equal(steal_queue_stuck(&b.q, slots, running), strchr(expected, '*') != NULL);
    }
}

static void what_comes_back_stands_at_the_head_in_order(void **state)
{
    struct bench b;
    int64_t place, later;
    static const int order[] = {4, 5, 2, 3, 0, 1}; /* expected from head to tail */
    struct list *l;

    fill(&b, "Lsssss");
    /* First 2 and 3 leave, then 4 and 5: the later loot's places are ahead of the earlier's. */
    place = steal_queue_reserve_head(&b.q, 2);
    steal_queue_remove(&b.q, &b.e[2]);
    steal_queue_remove(&b.q, &b.e[3]);
    later = steal_queue_reserve_head(&b.q, 2);
    steal_queue_remove(&b.q, &b.e[4]);
    steal_queue_remove(&b.q, &b.e[5]);
    b.e[2].order = place;
    b.e[3].order = place + 1;
    b.e[4].order = later;
    b.e[5].order = later + 1;
    /* Whatever the order of acknowledgements. */
    steal_queue_put_back(&b.q, &b.e[3]);
    steal_queue_put_back(&b.q, &b.e[5]);
    steal_queue_put_back(&b.q, &b.e[4]);
    steal_queue_put_back(&b.q, &b.e[2]);
    steal_queue_check(&b.q);
    l = b.q.fifo.next;
    for (size_t i = 0; i < 6; i++, l = l->next)
        assert_ptr_equal(l, &b.e[order[i]].fifo);
    assert_ptr_equal(steal_queue_head(&b.q), &b.e[4]);
}

/* ---- Whom to ask ---- */

static void every_victim_once(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 100, 1000, 65536, 70000};
    static bool seen[70000];
    struct victims v = {0};
    struct rng r;

    rng_seed(&r, 3);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(seen, 0, sizeof seen);
        thief_victims_begin(&v, &r, sizes[i]);
        for (uint32_t k = 0; k < sizes[i]; k++) {
            uint32_t x = thief_victims_next(&v);

            assert_true(x < sizes[i]);
            assert_false(seen[x]);
            seen[x] = true;
        }
        assert_int_equal(thief_victims_next(&v), sizes[i]);
    }
}

/* Over many keys every index comes first, and second after a given first, about equally often. */
static void victims_are_drawn_uniformly(void **state)
{
    enum { N = 13, KEYS = 156000 }; /* a prime: pairs are exact */
    static uint32_t first[N], pair[N][N];
    struct victims v = {0};
    struct rng r;

    rng_seed(&r, 2);
    for (int i = 0; i < KEYS; i++) {
        uint32_t a, b;

        thief_victims_begin(&v, &r, N);
        a = thief_victims_next(&v);
        b = thief_victims_next(&v);
        first[a]++;
        pair[a][b]++;
    }
    for (int a = 0; a < N; a++) {
        assert_in_range(first[a], KEYS / N * 95 / 100, KEYS / N * 105 / 100);
        for (int b = 0; b < N; b++)
            if (a != b)
                assert_in_range(pair[a][b], KEYS / N / (N - 1) * 80 / 100, KEYS / N / (N - 1) * 120 / 100);
    }
}

/* ---- The thief ---- */

struct den {
    struct thief t;
    struct thief_env env;
    struct policy policy;
    struct rng rng;
};

#define SELF 1u
#define RESERVED 2u
#define DIST 90u

/* Workers 1 .. n and a dist; worker 1 is the thief, 2 is reserved and 3 suspect: 4 .. n can be asked. */
static struct members *cluster(uint32_t n)
{
    struct members *m = members_new(n + 1);

    for (uint32_t i = 0; i < n; i++) {
        m->v[i].node.v = i + 1;
        m->v[i].role = ROLE_WORKER;
        m->v[i].general = i + 1 != RESERVED;
        m->v[i].state = i + 1 == 3 ? MEMBER_SUSPECT : MEMBER_UP;
    }
    m->v[n].node.v = DIST;
    m->v[n].role = ROLE_DIST;
    m->v[n].general = 1;
    return m;
}

static void den_init(struct den *d, uint32_t workers)
{
    memset(d, 0, sizeof *d);
    thief_init(&d->t);
    rng_seed(&d->rng, 7);
    assert_int_equal(policy_preset("hawk", &d->policy), 0);
    d->env = (struct thief_env){.now_us = 1000,
                                .park_min_us = 100 * US_PER_MS,
                                .park_max_us = 5 * US_PER_S,
                                .policy = &d->policy,
                                .members = cluster(workers),
                                .rng = &d->rng,
                                .self = {SELF},
                                .long_work = true};
}

static void den_free(struct den *d) { members_drop((struct members *)d->env.members); }

static uint32_t step(struct den *d)
{
    node_id_t v = thief_step(&d->t, &d->env);

    thief_check(&d->t);
    d->env.freed = false;
    return v.v;
}

/* A slot was freed, and the queue is empty. */
static uint32_t runs_dry(struct den *d)
{
    d->env.hungry = d->env.freed = true;
    return step(d);
}

static uint32_t nothing_there(struct den *d, uint32_t victim)
{
    assert_int_equal(thief_answer(&d->t, (node_id_t){victim}, d->t.request, 0, 0), ANSWER_EMPTY);
    return step(d);
}

/* Goes on until the round is over; returns how many were asked. */
static uint32_t fail_round(struct den *d, uint32_t first)
{
    uint32_t asked = 0;

    for (uint32_t v = first; v; v = nothing_there(d, v))
        asked++;
    return asked;
}

static void a_round_asks_distinct_general_workers(void **state)
{
    struct den d;
    bool seen[100] = {false};
    uint32_t asked = 0;

    den_init(&d, 40);
    for (uint32_t v = runs_dry(&d); v; v = nothing_there(&d, v)) {
        assert_true(v >= 4 && v <= 40); /* not itself, not a reserved or suspect worker, not a dist */
        assert_false(seen[v]);
        seen[v] = true;
        asked++;
    }
    assert_int_equal(asked, d.policy.steal_cap);
    assert_int_equal(d.t.state, THIEF_PARKED);
    den_free(&d);
}

static void a_small_cluster_is_asked_once_through(void **state)
{
    struct den d;

    den_init(&d, 6);
    assert_int_equal(fail_round(&d, runs_dry(&d)), 3);
    den_free(&d);
    den_init(&d, 3); /* nobody to ask */
    assert_int_equal(runs_dry(&d), 0);
    assert_int_equal(d.t.state, THIEF_PARKED);
    den_free(&d);
}

static void parked_delays_grow_and_stop_growing(void **state)
{
    struct den d;
    int64_t expected = 100 * US_PER_MS;

    den_init(&d, 10);
    d.policy.flags &= ~(uint32_t)POLICY_STEAL_ADAPT;
    fail_round(&d, runs_dry(&d));
    for (int i = 0; i < 10; i++) {
        int64_t delay = thief_next_timeout(&d.t) - d.env.now_us;

        assert_in_range(delay, expected - expected / 8, expected + expected / 8);
        d.env.now_us = thief_next_timeout(&d.t) - 1;
        assert_int_equal(step(&d), 0); /* not a moment before */
        d.env.now_us++;
        assert_int_equal(fail_round(&d, step(&d)), 7);
        expected = expected * 2 > 5 * US_PER_S ? 5 * US_PER_S : expected * 2;
    }
    /* Work resets it. */
    d.env.hungry = false;
    assert_int_equal(step(&d), 0);
    assert_int_equal(d.t.state, THIEF_OFF);
    assert_true(thief_next_timeout(&d.t) == TIME_NEVER);
    fail_round(&d, runs_dry(&d));
    assert_in_range(thief_next_timeout(&d.t) - d.env.now_us, 80 * US_PER_MS, 120 * US_PER_MS);
    den_free(&d);
}

/* While rounds fail each asks half as many as the one before; loot, or long work that is new, restores the cap. */
static void failed_rounds_ask_fewer(void **state)
{
    static const uint32_t asked[] = {10, 5, 2, 1, 1};
    struct den d;
    uint32_t v;

    den_init(&d, 100);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        assert_int_equal(fail_round(&d, runs_dry(&d)), asked[i]);
        d.env.hungry = false; /* work came, and is done */
        assert_int_equal(step(&d), 0);
    }
    v = runs_dry(&d);
    assert_int_equal(thief_answer(&d.t, (node_id_t){v}, d.t.request, 0, 1), ANSWER_ITEM);
    d.t.got_loot = true;
    d.env.hungry = false;
    assert_int_equal(step(&d), 0);
    assert_int_equal(fail_round(&d, runs_dry(&d)), 10);
    d.env.long_work = false;
    assert_int_equal(step(&d), 0);
    d.env.long_work = true;
    assert_int_equal(step(&d), 0);
    d.env.hungry = false;
    assert_int_equal(step(&d), 0);
    assert_int_equal(fail_round(&d, runs_dry(&d)), 10);
    den_free(&d);
}

/* Central's hints reach a parked thief: it does not ask around by itself. Without central, or hints, it does. */
static void who_is_paired_does_not_retry(void **state)
{
    struct den d;

    den_init(&d, 20);
    d.env.paired = true;
    fail_round(&d, runs_dry(&d));
    assert_true(thief_next_timeout(&d.t) == TIME_NEVER);
    d.env.paired = false; /* central is lost */
    d.env.freed = false;
    assert_int_equal(step(&d), 0);
    assert_true(thief_next_timeout(&d.t) < TIME_NEVER);
    d.env.paired = true;
    assert_int_equal(step(&d), 0);
    assert_true(thief_next_timeout(&d.t) == TIME_NEVER);
    d.policy.flags &= ~(uint32_t)POLICY_STEAL_HINTS;
    assert_int_equal(step(&d), 0);
    assert_true(thief_next_timeout(&d.t) < TIME_NEVER);
    den_free(&d);
}

static void loot_ends_the_round(void **state)
{
    struct den d;
    node_id_t v;

    den_init(&d, 20);
    v.v = runs_dry(&d);
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 0, 2), ANSWER_ITEM);
    d.t.got_loot = true;
    assert_int_equal(step(&d), 0); /* the second item is outstanding */
    assert_int_equal(d.t.state, THIEF_ASKED);
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 0, 2), ANSWER_UNKNOWN); /* repeated */
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 1, 2), ANSWER_ITEM);
    d.env.hungry = false;
    assert_int_equal(step(&d), 0);
    assert_int_equal(d.t.state, THIEF_OFF);
    den_free(&d);
}

/* It may be cut off: somebody else is asked, and what it gives after all is declined. */
static void a_silent_victim_is_passed_over(void **state)
{
    struct den d;
    node_id_t v;
    uint32_t request;

    den_init(&d, 20);
    v.v = runs_dry(&d);
    request = d.t.request;
    assert_true(thief_next_timeout(&d.t) == d.env.now_us + THIEF_ANSWER_US);
    d.env.now_us += THIEF_ANSWER_US - 1;
    assert_int_equal(step(&d), 0);
    d.env.now_us++;
    assert_true(step(&d) != 0);
    assert_true(d.t.victim.v != v.v);
    assert_int_equal(thief_answer(&d.t, v, request, 0, 1), ANSWER_UNKNOWN);
    den_free(&d);
}

static void refused_loot_does_not_end_the_round(void **state)
{
    struct den d;
    node_id_t v;
    uint32_t next;

    den_init(&d, 20);
    v.v = runs_dry(&d);
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 0, 1), ANSWER_ITEM);
    next = step(&d);
    assert_true(next != 0 && next != v.v);
    assert_int_equal(fail_round(&d, next), d.policy.steal_cap - 1);
    den_free(&d);
}

static void strange_answers_are_unknown(void **state)
{
    struct den d;
    node_id_t v, other = {39};

    den_init(&d, 20);
    assert_int_equal(thief_answer(&d.t, other, 0, 0, 1), ANSWER_UNKNOWN); /* nothing was asked */
    v.v = runs_dry(&d);
    assert_int_equal(thief_answer(&d.t, other, d.t.request, 0, 1), ANSWER_UNKNOWN);
    assert_int_equal(thief_answer(&d.t, v, d.t.request + 1, 0, 0), ANSWER_UNKNOWN);
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 1, 2), ANSWER_UNKNOWN);
    assert_int_equal(thief_answer(&d.t, v, d.t.request, 3, 2), ANSWER_UNKNOWN);
    assert_int_equal(d.t.state, THIEF_ASKED);
    thief_peer_lost(&d.t, other);
    assert_int_equal(step(&d), 0);
    thief_peer_lost(&d.t, v); /* a lost victim is the only other end of a question */
    assert_true(step(&d) != 0);
    den_free(&d);
}

static void nobody_asks_without_long_work(void **state)
{
    struct den d;

    den_init(&d, 20);
    d.env.long_work = false;
    assert_int_equal(runs_dry(&d), 0);
    assert_int_equal(d.t.state, THIEF_OFF);
    /* It appears: those that idle already spread over the first delay. */
    d.env.long_work = true;
    assert_int_equal(step(&d), 0);
    assert_int_equal(d.t.state, THIEF_PARKED);
    assert_in_range(thief_next_timeout(&d.t) - d.env.now_us, 1, 100 * US_PER_MS);
    d.env.now_us = thief_next_timeout(&d.t);
    assert_true(step(&d) != 0);
    /* It is gone: the round ends with the answer. */
    d.env.long_work = false;
    assert_int_equal(nothing_there(&d, d.t.victim.v), 0);
    assert_int_equal(d.t.state, THIEF_OFF);
    /* steal_always does not care. */
    d.policy.flags |= POLICY_STEAL_ALWAYS;
    assert_true(runs_dry(&d) != 0);
    den_free(&d);
}

static void stealing_off(void **state)
{
    struct den d;

    den_init(&d, 20);
    d.policy.flags &= ~(uint32_t)POLICY_STEAL;
    assert_int_equal(runs_dry(&d), 0);
    thief_hint(&d.t, &d.env, (node_id_t){9});
    assert_int_equal(step(&d), 0);
    assert_int_equal(d.t.state, THIEF_OFF);
    den_free(&d);
}

static void a_hint_wakes_a_parked_thief(void **state)
{
    struct den d;
    int64_t retry_at;

    den_init(&d, 20);
    fail_round(&d, runs_dry(&d));
    retry_at = thief_next_timeout(&d.t);
    d.env.now_us += 1000;
    thief_hint(&d.t, &d.env, (node_id_t){SELF}); /* never itself */
    assert_int_equal(step(&d), 0);
    thief_hint(&d.t, &d.env, (node_id_t){9});
    assert_int_equal(step(&d), 9);
    /* In vain: that is one question, and the backoff stands where it was. */
    assert_int_equal(nothing_there(&d, 9), 0);
    assert_int_equal(d.t.state, THIEF_PARKED);
    assert_true(thief_next_timeout(&d.t) == retry_at);
    thief_hint(&d.t, &d.env, (node_id_t){9});
    assert_int_equal(step(&d), 9);
    assert_int_equal(thief_answer(&d.t, d.t.victim, d.t.request, 0, 1), ANSWER_ITEM);
    d.t.got_loot = true;
    assert_int_equal(fail_round(&d, step(&d)), 5); /* nor does its loot say anything about others */
    assert_in_range(thief_next_timeout(&d.t) - d.env.now_us, 80 * US_PER_MS, 120 * US_PER_MS);
    den_free(&d);
}

static void a_hint_during_a_round_is_asked_next(void **state)
{
    struct den d;
    uint32_t v;

    den_init(&d, 40);
    v = runs_dry(&d);
    thief_hint(&d.t, &d.env, (node_id_t){2});
    thief_hint(&d.t, &d.env, (node_id_t){v}); /* it has the question */
    assert_int_equal(step(&d), 0);            /* one question at a time */
    assert_int_equal(nothing_there(&d, v), 2);
    assert_true(nothing_there(&d, 2) != 0);
    thief_hint(&d.t, &d.env, (node_id_t){2});
    thief_peer_lost(&d.t, (node_id_t){2});
    assert_int_not_equal(nothing_there(&d, d.t.victim.v), 2);
    den_free(&d);
}

static void without_retry_a_parked_thief_waits(void **state)
{
    struct den d;

    den_init(&d, 20);
    d.policy.flags &= ~(uint32_t)POLICY_STEAL_RETRY;
    fail_round(&d, runs_dry(&d));
    assert_int_equal(d.t.state, THIEF_PARKED);
    assert_true(thief_next_timeout(&d.t) == TIME_NEVER);
    d.policy.flags |= POLICY_STEAL_RETRY; /* switched on meanwhile */
    assert_int_equal(step(&d), 0);
    assert_true(thief_next_timeout(&d.t) < TIME_NEVER);
    den_free(&d);
}

/* The published simulator: asks only when a slot is freed, never on a timer, never while it idles. */
static void on_free_only(void **state)
{
    struct den d;

    den_init(&d, 20);
    d.policy.flags |= POLICY_STEAL_ON_FREE_ONLY | POLICY_STEAL_ALWAYS;
    d.policy.flags &= ~(uint32_t)POLICY_STEAL_ADAPT;
    d.env.hungry = true;
    assert_int_equal(step(&d), 0); /* idle from the start */
    assert_int_equal(d.t.state, THIEF_OFF);
    assert_int_equal(fail_round(&d, runs_dry(&d)), d.policy.steal_cap);
    assert_true(thief_next_timeout(&d.t) == TIME_NEVER);
    d.env.now_us += US_PER_S;
    assert_int_equal(step(&d), 0);
    assert_int_equal(fail_round(&d, runs_dry(&d)), d.policy.steal_cap);
    assert_true(runs_dry(&d) != 0);
    assert_int_equal(thief_answer(&d.t, d.t.victim, d.t.request, 0, 1), ANSWER_ITEM);
    d.t.got_loot = true;
    assert_int_equal(step(&d), 0); /* although a slot is still free */
    den_free(&d);
}

static void a_shrunk_member_list(void **state)
{
    struct den d;
    uint32_t v, asked = 1;

    den_init(&d, 40);
    v = runs_dry(&d);
    members_drop((struct members *)d.env.members);
    d.env.members = cluster(5);
    while ((v = nothing_there(&d, v))) {
        assert_true(v == 4 || v == 5);
        asked++;
    }
    assert_true(asked <= 3);
    den_free(&d);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_3),
        cmocka_unit_test(short_first),
        cmocka_unit_test(loot_agrees_with_the_model),
        cmocka_unit_test(what_comes_back_stands_at_the_head_in_order),
        cmocka_unit_test(every_victim_once),
        cmocka_unit_test(victims_are_drawn_uniformly),
        cmocka_unit_test(a_round_asks_distinct_general_workers),
        cmocka_unit_test(a_small_cluster_is_asked_once_through),
        cmocka_unit_test(parked_delays_grow_and_stop_growing),
        cmocka_unit_test(failed_rounds_ask_fewer),
        cmocka_unit_test(who_is_paired_does_not_retry),
        cmocka_unit_test(loot_ends_the_round),
        cmocka_unit_test(a_silent_victim_is_passed_over),
        cmocka_unit_test(refused_loot_does_not_end_the_round),
        cmocka_unit_test(strange_answers_are_unknown),
        cmocka_unit_test(nobody_asks_without_long_work),
        cmocka_unit_test(stealing_off),
        cmocka_unit_test(a_hint_wakes_a_parked_thief),
        cmocka_unit_test(a_hint_during_a_round_is_asked_next),
        cmocka_unit_test(without_retry_a_parked_thief_waits),
        cmocka_unit_test(on_free_only),
        cmocka_unit_test(a_shrunk_member_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
