/* The waiting-time queue: rule by rule, and against a brute-force model on random operations. */
#include "base/rng.h"
#include "base/units.h"
#include "central/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S US_PER_S

/* ---- The rules, with two workers of one slot: a is the first by sequence ---- */

struct pair {
    struct waiting q;
    struct waiting_worker a, b;
    struct waiting_task t[8];
};

static void pair_init(struct pair *p, uint32_t slots)
{
    memset(p, 0, sizeof *p);
    waiting_init(&p->q);
    waiting_worker_add(&p->q, &p->a, slots, 1);
    waiting_worker_add(&p->q, &p->b, slots, 2);
    waiting_set_eligible(&p->q, &p->a, true, 0);
    waiting_set_eligible(&p->q, &p->b, true, 0);
}

static void pair_free(struct pair *p, int64_t now_us)
{
    for (size_t i = 0; i < 8; i++)
        if (p->t[i].worker)
            waiting_end(&p->q, &p->t[i], now_us);
    waiting_worker_remove(&p->q, &p->a);
    waiting_worker_remove(&p->q, &p->b);
    waiting_free(&p->q);
}

static void queued_work_is_an_amount_that_does_not_shrink(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_place(&p.q, &p.a, &p.t[0], 5 * S, 0);
    waiting_place(&p.q, &p.a, &p.t[1], 7 * S, 0);
    assert_int_equal(waiting_at(&p.a, 0), 12 * S);
    assert_int_equal(waiting_at(&p.a, 100 * S), 12 * S);
    pair_free(&p, 100 * S);
}

static void a_running_task_counts_what_is_left_of_it(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_place(&p.q, &p.a, &p.t[0], 5 * S, 0);
    waiting_place(&p.q, &p.a, &p.t[1], 7 * S, 0);
    waiting_start(&p.q, &p.t[0], 10 * S, 10 * S);
    assert_int_equal(waiting_at(&p.a, 10 * S), 12 * S);
    assert_int_equal(waiting_at(&p.a, 13 * S), 9 * S);
    /* Overrunning: nothing is left of it, and what is queued counts in full. */
    assert_int_equal(waiting_at(&p.a, 15 * S), 7 * S);
    assert_int_equal(waiting_at(&p.a, 99 * S), 7 * S);
    waiting_end(&p.q, &p.t[0], 99 * S);
    assert_int_equal(waiting_at(&p.a, 99 * S), 7 * S);
    pair_free(&p, 99 * S);
}

/* What is left of it is an amount, until it goes on. */
static void a_task_that_stands_still_is_not_nearer_its_end(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_place(&p.q, &p.a, &p.t[0], 10 * S, 0);
    waiting_start(&p.q, &p.t[0], 0, 0);
    waiting_place(&p.q, &p.b, &p.t[1], 8 * S, 0);
    waiting_ran(&p.q, &p.t[0], 3 * S, true, 4 * S);
    assert_int_equal(waiting_at(&p.a, 4 * S), 7 * S);
    assert_int_equal(waiting_at(&p.a, 90 * S), 7 * S);
    assert_ptr_equal(waiting_best(&p.q, 90 * S), &p.a);
    waiting_ran(&p.q, &p.t[0], 3 * S, false, 90 * S);
    assert_int_equal(waiting_at(&p.a, 92 * S), 5 * S);
    /* And one that ran for longer than its estimate: nothing is left of it. */
    waiting_ran(&p.q, &p.t[0], 12 * S, true, 99 * S);
    assert_int_equal(waiting_at(&p.a, 200 * S), 0);
    pair_free(&p, 200 * S);
}

static void a_task_that_ends_early_frees_its_slot_early(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_place(&p.q, &p.a, &p.t[0], 50 * S, 0);
    waiting_start(&p.q, &p.t[0], 0, 0);
    waiting_end(&p.q, &p.t[0], 1 * S);
    assert_int_equal(waiting_at(&p.a, 1 * S), 0);
    pair_free(&p, 1 * S);
}

static void an_idle_worker_beats_one_that_overruns(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    /* a comes first by sequence, and waits for nothing that is known; but b is truly idle. */
    waiting_place(&p.q, &p.a, &p.t[0], 5 * S, 0);
    waiting_start(&p.q, &p.t[0], 0, 0);
    assert_int_equal(waiting_at(&p.a, 6 * S), 0);
    assert_ptr_equal(waiting_best(&p.q, 6 * S), &p.b);
    /* With both idle, the first by sequence. */
    waiting_end(&p.q, &p.t[0], 6 * S);
    assert_ptr_equal(waiting_best(&p.q, 6 * S), &p.a);
    /* With both overrunning, too. */
    waiting_place(&p.q, &p.a, &p.t[0], 1 * S, 6 * S);
    waiting_start(&p.q, &p.t[0], 6 * S, 6 * S);
    waiting_place(&p.q, &p.b, &p.t[1], 1 * S, 6 * S);
    waiting_start(&p.q, &p.t[1], 6 * S, 6 * S);
    assert_ptr_equal(waiting_best(&p.q, 60 * S), &p.a);
    pair_free(&p, 60 * S);
}

static void both_kinds_are_compared_at_the_present(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_place(&p.q, &p.a, &p.t[0], 10 * S, 0); /* an amount: 10 s */
    waiting_place(&p.q, &p.b, &p.t[1], 15 * S, 0);
    waiting_start(&p.q, &p.t[1], 0, 0); /* until 15 s */
    assert_ptr_equal(waiting_best(&p.q, 4 * S), &p.a);
    assert_ptr_equal(waiting_best(&p.q, 5 * S), &p.a); /* equal: by sequence */
    assert_ptr_equal(waiting_best(&p.q, 6 * S), &p.b);
    pair_free(&p, 6 * S);
}

static void several_slots_are_list_scheduled(void **state)
{
    struct pair p;

    pair_init(&p, 2);
    waiting_place(&p.q, &p.a, &p.t[0], 10 * S, 0);
    assert_int_equal(waiting_at(&p.a, 0), 0); /* the other slot is free */
    waiting_place(&p.q, &p.a, &p.t[1], 4 * S, 0);
    assert_int_equal(waiting_at(&p.a, 0), 4 * S);
    waiting_place(&p.q, &p.a, &p.t[2], 3 * S, 0);
    assert_int_equal(waiting_at(&p.a, 0), 7 * S);
    /* The first two start: 10 s and 4 s as moments, and the third behind the shorter one. */
    waiting_start(&p.q, &p.t[0], 20 * S, 20 * S);
    waiting_start(&p.q, &p.t[1], 20 * S, 20 * S);
    assert_int_equal(waiting_at(&p.a, 21 * S), 6 * S);
    /* The 10 s one ends early: the third could start at once, a fourth when that is over. */
    waiting_end(&p.q, &p.t[0], 21 * S);
    assert_int_equal(waiting_at(&p.a, 21 * S), 3 * S);
    waiting_start(&p.q, &p.t[2], 21 * S, 21 * S);
    assert_int_equal(waiting_at(&p.a, 22 * S), 2 * S);
    pair_free(&p, 22 * S);
}

static void who_may_not_be_chosen_is_not(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    waiting_set_eligible(&p.q, &p.a, false, 0);
    assert_ptr_equal(waiting_best(&p.q, 0), &p.b);
    waiting_set_eligible(&p.q, &p.b, false, 0);
    assert_null(waiting_best(&p.q, 0));
    waiting_place(&p.q, &p.a, &p.t[0], 5 * S, 0); /* what it holds counts all the same */
    waiting_set_eligible(&p.q, &p.a, true, 1);
    assert_int_equal(waiting_at(&p.a, 1), 5 * S);
    pair_free(&p, 1);
}

static void absurd_estimates_do_not_overflow(void **state)
{
    struct pair p;

    pair_init(&p, 1);
    for (size_t i = 0; i < 8; i++)
        waiting_place(&p.q, &p.a, &p.t[i], INT64_MAX / 4, 0);
    assert_int_equal(waiting_at(&p.a, 0), INT64_MAX / 4);
    waiting_start(&p.q, &p.t[0], 0, 0);
    assert_true(waiting_at(&p.a, 1) > 0);
    waiting_worker_check(&p.q, &p.a);
    assert_ptr_equal(waiting_best(&p.q, 1), &p.b);
    pair_free(&p, 1);
}

/* A worker that says it runs more than it has slots for. */
static void contradictions_count_as_queued(void **state)
{
    struct pair p;

    for (uint32_t slots = 1; slots <= 2; slots++) {
        pair_init(&p, slots);
        for (size_t i = 0; i < (size_t)3 * slots; i++) {
            waiting_place(&p.q, &p.a, &p.t[i], 10 * S, 0);
            waiting_start(&p.q, &p.t[i], 0, 0);
            waiting_worker_check(&p.q, &p.a);
        }
        assert_int_equal(waiting_at(&p.a, 0), 30 * S);
        assert_ptr_equal(waiting_best(&p.q, 20 * S), &p.b);
        pair_free(&p, 20 * S);
    }
}

/* ---- A model: arrays and loops, one rule after the other ---- */

#define WORKERS 12
#define TASKS 160
#define SLOTS 5

struct model_slot {
    enum { AMOUNT, MOMENT } kind;
    bool overrun;
    int64_t level_us;
};

struct model_worker {
    uint32_t slots;
    bool eligible;
    int queue[TASKS], running[TASKS]; /* task numbers, in order of arrival */
    int n_queue, n_running;
    struct model_slot slot[SLOTS];
};

struct model {
    struct model_worker w[WORKERS];
    int64_t estimate_us[TASKS], finish_us[TASKS];
};

static int64_t slot_wait(const struct model_slot *s, int64_t now_us)
{
    if (s->kind == AMOUNT)
        return s->level_us;
    return s->level_us > now_us ? s->level_us - now_us : 0;
}

/* Wait first, then who does not overrun. */
static bool slot_better(const struct model_slot *a, const struct model_slot *b, int64_t now_us)
{
    int64_t wa = slot_wait(a, now_us), wb = slot_wait(b, now_us);

    if (wa != wb)
        return wa < wb;
    if (a->overrun != b->overrun)
        return !a->overrun;
    return a->kind == AMOUNT && b->kind == MOMENT;
}

static struct model_slot *best_slot(struct model_worker *w, int64_t now_us)
{
    struct model_slot *best = &w->slot[0];

    for (uint32_t i = 1; i < w->slots; i++)
        if (slot_better(&w->slot[i], best, now_us))
            best = &w->slot[i];
    return best;
}

/* Whether a running task that had time left has none now. */
static bool has_expired(const struct model *m, const struct model_worker *w, int64_t now_us)
{
    for (int k = 0; k < w->n_running; k++)
        if (w->slot[k].kind == MOMENT && m->finish_us[w->running[k]] <= now_us)
            return true;
    return false;
}

/* slot[k] belongs to running[k]; the rest are free. */
static void model_rebuild(struct model *m, struct model_worker *w, int64_t now_us)
{
    int64_t rest_us = 0;
    int pieces = (int)w->slots * 4;

    for (int k = 0; k < (int)w->slots; k++) {
        int64_t finish_us = k < w->n_running ? m->finish_us[w->running[k]] : 0;

        w->slot[k] = (struct model_slot){.kind = AMOUNT};
        if (k < w->n_running && finish_us > now_us)
            w->slot[k] = (struct model_slot){.kind = MOMENT, .level_us = finish_us};
        else if (k < w->n_running)
            w->slot[k].overrun = true;
    }
    for (int i = 0; i < w->n_queue; i++) {
        if (i < pieces && w->slots > 1)
            best_slot(w, now_us)->level_us += m->estimate_us[w->queue[i]];
        else
            rest_us += m->estimate_us[w->queue[i]];
    }
    if (w->slots == 1) {
        w->slot[0].level_us += rest_us;
        return;
    }
    for (int i = 0; i < pieces && rest_us > 0; i++)
        best_slot(w, now_us)->level_us += rest_us / pieces + (i < rest_us % pieces);
}

static int model_best(struct model *m, int64_t now_us)
{
    for (int i = 0; i < WORKERS; i++)
        for (uint32_t k = 0; k < m->w[i].slots; k++)
            if (m->w[i].eligible && m->w[i].slot[k].kind == MOMENT && m->w[i].slot[k].level_us <= now_us)
                model_rebuild(m, &m->w[i], now_us);
    for (;;) {
        int best = -1;

        for (int i = 0; i < WORKERS; i++) {
            if (!m->w[i].eligible)
                continue;
            if (best < 0) {
                best = i;
                continue;
            }
            const struct model_slot *a = best_slot(&m->w[i], now_us), *b = best_slot(&m->w[best], now_us);
            int64_t wa = slot_wait(a, now_us), wb = slot_wait(b, now_us);

            if (wa < wb || (wa == wb && !a->overrun && b->overrun))
                best = i;
        }
        if (best < 0 || !has_expired(m, &m->w[best], now_us))
            return best;
        model_rebuild(m, &m->w[best], now_us);
    }
}

/* The paper's waiting time of one slot, from the tasks alone. */
static int64_t paper_wait(const struct model *m, const struct model_worker *w, int64_t now_us)
{
    int64_t wait_us = 0;

    for (int i = 0; i < w->n_queue; i++)
        wait_us += m->estimate_us[w->queue[i]];
    if (w->n_running == 1 && m->finish_us[w->running[0]] > now_us)
        wait_us += m->finish_us[w->running[0]] - now_us;
    return wait_us;
}

static void take_out(int *v, int *n, int task)
{
    int i = 0;

    while (v[i] != task)
        i++;
    for (--*n; i < *n; i++)
        v[i] = v[i + 1];
}

/* ---- Both, side by side ---- */

struct both {
    struct rng rng;
    struct waiting q;
    struct waiting_worker w[WORKERS];
    struct waiting_task t[TASKS];
    struct model m;
    int at[TASKS]; /* worker, or -1 */
    int64_t now_us;
};

static uint64_t below(struct both *b, uint64_t n) { return rng_below(&b->rng, n); }

static void place(struct both *b, int task, int worker)
{
    struct model_worker *w = &b->m.w[worker];
    /* Few different ones, so that there are ties. */
    int64_t estimate_us = below(b, 4) ? (int64_t)below(b, 5) * 10 : (int64_t)below(b, 1000);

    b->m.estimate_us[task] = estimate_us;
    w->queue[w->n_queue++] = task;
    if (has_expired(&b->m, w, b->now_us))
        model_rebuild(&b->m, w, b->now_us);
    else
        best_slot(w, b->now_us)->level_us += estimate_us;
    b->at[task] = worker;
    waiting_place(&b->q, &b->w[worker], &b->t[task], estimate_us, b->now_us);
}

static void begin(struct both *b, int task)
{
    struct model_worker *w = &b->m.w[b->at[task]];
    int64_t started_us = below(b, 8) ? b->now_us : b->now_us - (int64_t)below(b, (uint64_t)b->now_us);

    if (b->t[task].running || w->n_running == (int)w->slots)
        return;
    take_out(w->queue, &w->n_queue, task);
    w->running[w->n_running++] = task;
    b->m.finish_us[task] = started_us + b->m.estimate_us[task];
    model_rebuild(&b->m, w, b->now_us);
    waiting_start(&b->q, &b->t[task], started_us, b->now_us);
}

static void finish(struct both *b, int task)
{
    struct model_worker *w = &b->m.w[b->at[task]];

    if (b->t[task].running)
        take_out(w->running, &w->n_running, task);
    else
        take_out(w->queue, &w->n_queue, task);
    model_rebuild(&b->m, w, b->now_us);
    b->at[task] = -1;
    waiting_end(&b->q, &b->t[task], b->now_us);
}

/* A task that is not at a worker (placed: false) or is; -1 when none was found. */
static int any_task(struct both *b, bool placed)
{
    int start = (int)below(b, TASKS);

    for (int i = 0; i < TASKS; i++) {
        int task = (start + i) % TASKS;

        if ((b->at[task] >= 0) == placed)
            return task;
    }
    return -1;
}

static void operate(struct both *b)
{
    uint64_t what = below(b, 100);
    int worker = (int)below(b, WORKERS), task = any_task(b, what >= 40);

    if (what < 35 && task >= 0) {
        int best = model_best(&b->m, b->now_us);
        struct waiting_worker *got = waiting_best(&b->q, b->now_us);

        assert_int_equal(best, got ? got - b->w : -1);
        if (best >= 0)
            place(b, task, best);
    } else if (what < 40 && task >= 0) {
        place(b, task, worker);
    } else if (what < 65 && task >= 0) {
        begin(b, task);
    } else if (what < 85 && task >= 0) {
        finish(b, task);
    } else if (what < 98) {
        b->now_us += (int64_t)below(b, 100);
    } else if (what < 99) {
        struct model_worker *w = &b->m.w[worker];

        w->eligible = !w->eligible;
        model_rebuild(&b->m, w, b->now_us);
        waiting_set_eligible(&b->q, &b->w[worker], w->eligible, b->now_us);
    }
}

static void compare(struct both *b)
{
    for (int i = 0; i < WORKERS; i++) {
        struct model_worker *w = &b->m.w[i];

        waiting_worker_check(&b->q, &b->w[i]);
        if (w->slots == 1)
            assert_int_equal(waiting_at(&b->w[i], b->now_us), paper_wait(&b->m, w, b->now_us));
        else
            assert_int_equal(waiting_at(&b->w[i], b->now_us), slot_wait(best_slot(w, b->now_us), b->now_us));
    }
    waiting_check(&b->q);
}

static void run_model(uint64_t seed, uint32_t max_slots, int operations)
{
    static struct both b;

    memset(&b, 0, sizeof b);
    rng_seed(&b.rng, seed);
    b.now_us = 1000;
    waiting_init(&b.q);
    for (int i = 0; i < TASKS; i++)
        b.at[i] = -1;
    for (int i = 0; i < WORKERS; i++) {
        struct model_worker *w = &b.m.w[i];

        w->slots = 1 + (uint32_t)below(&b, max_slots);
        w->eligible = true;
        waiting_worker_add(&b.q, &b.w[i], w->slots, (uint32_t)i);
        waiting_set_eligible(&b.q, &b.w[i], true, b.now_us);
        model_rebuild(&b.m, w, b.now_us);
    }
    for (int i = 0; i < operations; i++) {
        operate(&b);
        compare(&b);
    }
    for (int i = 0; i < TASKS; i++)
        if (b.at[i] >= 0)
            finish(&b, i);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(waiting_at(&b.w[i], b.now_us), 0);
        waiting_worker_remove(&b.q, &b.w[i]);
    }
    waiting_free(&b.q);
}

static void one_slot_follows_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        run_model(seed, 1, 4000);
}

static void several_slots_follow_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        run_model(seed + 1000, SLOTS, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_work_is_an_amount_that_does_not_shrink),
        cmocka_unit_test(a_running_task_counts_what_is_left_of_it),
        cmocka_unit_test(a_task_that_stands_still_is_not_nearer_its_end),
        cmocka_unit_test(a_task_that_ends_early_frees_its_slot_early),
        cmocka_unit_test(an_idle_worker_beats_one_that_overruns),
        cmocka_unit_test(both_kinds_are_compared_at_the_present),
        cmocka_unit_test(several_slots_are_list_scheduled),
        cmocka_unit_test(who_may_not_be_chosen_is_not),
        cmocka_unit_test(absurd_estimates_do_not_overflow),
        cmocka_unit_test(contradictions_count_as_queued),
        cmocka_unit_test(one_slot_follows_the_model),
        cmocka_unit_test(several_slots_follow_the_model),
    };

    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
