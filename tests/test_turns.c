/* Users take turns: in the queue of a worker, against a model of what is fair; and in whole clusters. */
#include "tests/test_cluster.h"

#include "stealer/queue.h"

/* ---- The queue of a worker ---- */

enum { ENTRIES = 400, USERS = 5 };

struct bench {
    struct steal_queue q;
    struct steal_entry e[ENTRIES];
    uint32_t n;
    struct rng r;
    /* Of each user: short reservations that wait; turns of each other one since its own last, or since it waits. */
    uint32_t waits[USERS], passed[USERS][USERS];
};

static void begin(struct bench *b, uint64_t seed, uint16_t short_first)
{
    memset(b, 0, sizeof *b);
    steal_queue_init(&b->q);
    b->q.short_first = short_first;
    rng_seed(&b->r, seed);
}

static struct steal_entry *push(struct bench *b, uint32_t user, bool is_long, uint32_t count)
{
    struct steal_entry *e = &b->e[b->n++];

    assert_true(b->n <= ENTRIES);
    steal_entry_init(e, is_long, false, count);
    e->user = user;
    steal_queue_push(&b->q, e);
    if (!is_long && b->waits[user]++ == 0)
        memset(b->passed[user], 0, sizeof b->passed[user]);
    return e;
}

static void leave(struct bench *b, struct steal_entry *e)
{
    steal_queue_remove(&b->q, e);
    b->waits[e->user] -= !e->is_long;
}

/* Empties the queue. */
static void end(struct bench *b)
{
    while (b->q.n > 0)
        leave(b, steal_queue_head(&b->q));
    steal_queue_check(&b->q);
}

/* The next entry gets a slot. */
static struct steal_entry *serve(struct bench *b)
{
    struct steal_entry *e = steal_queue_next(&b->q);

    assert_non_null(e);
    steal_queue_served(&b->q, e);
    if (--e->count == 0)
        leave(b, e);
    steal_queue_check(&b->q);
    return e;
}

static void one_of_many_waits_for_one_turn(void **state)
{
    struct bench b;
    struct steal_entry *one;

    begin(&b, 1, 0);
    push(&b, 1, false, 3000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(serve(&b)->user, 1);
    one = push(&b, 2, false, 1);
    assert_int_equal(serve(&b)->user, 1);
    assert_ptr_equal(serve(&b), one);
    assert_int_equal(serve(&b)->user, 1);
    end(&b);
}

/* Nobody lets another user go first twice, whatever comes and goes. */
static void each_lets_every_other_go_first_once(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct bench b;
        struct steal_entry *e;

        begin(&b, seed, 0);
        while (b.n < ENTRIES) {
            if (b.q.n == 0 || rng_below(&b.r, 2)) {
                push(&b, (uint32_t)rng_below(&b.r, USERS), false, 1 + (uint32_t)rng_below(&b.r, 3));
                continue;
            }
            e = &b.e[rng_below(&b.r, b.n)];
            if (rng_below(&b.r, 4) == 0 && steal_entry_queued(e)) { /* cancelled, or stolen */
                leave(&b, e);
                steal_queue_check(&b.q);
                continue;
            }
            e = serve(&b);
            for (uint32_t u = 0; u < USERS; u++)
                if (u != e->user && b.waits[u] > 0)
                    assert_true(++b.passed[u][e->user] <= 1);
            memset(b.passed[e->user], 0, sizeof b.passed[e->user]);
        }
        end(&b);
    }
}

/* One user's reservations keep their order, among others' and alone. */
static void of_one_user_the_first_goes_first(void **state)
{
    struct bench b;
    int64_t last[USERS] = {-1, -1, -1, -1, -1};

    begin(&b, 7, 0);
    while (b.n < ENTRIES)
        push(&b, (uint32_t)rng_below(&b.r, USERS), false, 1);
    while (b.q.n > 0) {
        const struct steal_entry *e = serve(&b);

        assert_true(e->order > last[e->user]);
        last[e->user] = e->order;
    }
}

/* A turn takes nobody past a long entry that the order of the queue does not. */
static void no_turn_overtakes_long_work(void **state)
{
    for (uint16_t short_first = 0; short_first <= 3; short_first++) {
        struct bench b;
        const struct steal_entry *first, *second, *beyond, *task;

        begin(&b, 1, short_first);
        first = push(&b, 1, false, 1);
        second = push(&b, 1, false, 1);
        task = push(&b, 1, true, 1);
        beyond = push(&b, 2, false, 1);
        assert_ptr_equal(serve(&b), first);
        assert_ptr_equal(serve(&b), second);
        assert_ptr_equal(serve(&b), short_first ? beyond : task);
        assert_ptr_equal(serve(&b), short_first ? task : beyond);
    }
}

static void what_comes_back_is_its_users_first(void **state)
{
    struct bench b;
    struct steal_entry *back;
    const struct steal_entry *mine, *other;

    begin(&b, 1, 0);
    back = push(&b, 1, false, 1);
    mine = push(&b, 1, false, 1);
    other = push(&b, 2, false, 1);
    steal_queue_remove(&b.q, back);
    back->order = steal_queue_reserve_head(&b.q, 1);
    steal_queue_put_back(&b.q, back);
    steal_queue_check(&b.q);
    assert_ptr_equal(serve(&b), back);
    assert_ptr_equal(serve(&b), other);
    assert_ptr_equal(serve(&b), mine);
}

/* What overtook no long work has turn 0. */
static void a_turn_has_a_number(void **state)
{
    struct bench b;

    begin(&b, 1, 0);
    push(&b, 0, true, 1);
    for (uint32_t i = 0; i <= UINT16_MAX; i++)
        assert_int_not_equal(steal_queue_served(&b.q, &b.e[0]), 0);
    end(&b);
}

/* ---- Whole clusters ---- */

/* Jobs of one user: what is left of the first goes behind the second, but not behind long work. */
static void jobs_take_turns(void **state)
{
    struct bench b;
    struct steal_entry *many, *one, *other;

    begin(&b, 1, 0);
    many = push(&b, 1, false, 3);
    one = push(&b, 1, false, 2);
    assert_ptr_equal(serve(&b), many);
    steal_queue_go_behind(&b.q, many);
    steal_queue_check(&b.q);
    assert_ptr_equal(steal_queue_next(&b.q), one);
    other = push(&b, 2, false, 1); /* the first user had a turn */
    assert_ptr_equal(serve(&b), one);
    steal_queue_go_behind(&b.q, one);
    steal_queue_check(&b.q);
    assert_ptr_equal(serve(&b), other);
    assert_ptr_equal(serve(&b), many);
    push(&b, 1, true, 1);
    steal_queue_go_behind(&b.q, many); /* it would be stuck */
    assert_ptr_equal(steal_queue_next(&b.q), many);
    end(&b);
}

static void name_user(struct cluster_job *j, const char *user)
{
    blob_drop(j->desc->user);
    j->desc->user = blob_str(user);
}

/* How long the one task of another user takes beside a user's 3,000 tasks on 12 slots, all of 100 ms. */
static int64_t beside_3000(const char *policy, const char *other, enum class_tag tag)
{
    struct cluster *c = up(&(struct cluster_config){.policy = policy, .workers = 12, .delay_us = 500});
    struct cluster_job *many = cluster_job(c, 3000, 100 * MS, tag), *one = cluster_job(c, 1, 100 * MS, tag);
    int64_t took_us;

    name_user(many, "ann");
    name_user(one, other);
    cluster_submit(c, many, 0);
    cluster_run(c, 1 * S);
    cluster_submit(c, one, 0);
    cluster_run_jobs(c, 60 * S);
    took_us = one->end_us - one->submit_us;
    finish(c, 0);
    return took_us;
}

static void one_task_does_not_wait_for_another_users_3000(void **state)
{
    static const char *const policies[] = {"hawk", "harrier", "sparrow"};

    for (int i = 0; i < 3; i++) {
        /* Under harrier one user's jobs take turns as well. */
        if (i == 1)
            assert_in_range(beside_3000(policies[i], "ann", TAG_SHORT), 100 * MS, 310 * MS);
        else
            assert_true(beside_3000(policies[i], "ann", TAG_SHORT) > 10 * S);
        /* What runs ends, one turn of ann's, and its own. */
        assert_in_range(beside_3000(policies[i], "bob", TAG_SHORT), 100 * MS, 310 * MS);
    }
    assert_in_range(beside_3000("harrier", "bob", TAG_LONG), 100 * MS, 310 * MS);
}

/* Many jobs of a task each, all stuck behind long work until an idle worker joins: it knows whose its loot is. */
static void the_thief_knows_whose_loot_is(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .delay_us = 500});
    struct cluster_job *one, *busy = cluster_job(c, 2, 30 * S, TAG_LONG);
    int64_t joined_us;

    cluster_submit(c, busy, 0);
    cluster_run(c, 100 * MS);
    for (int i = 0; i < 200; i++) {
        struct cluster_job *j = cluster_job(c, 1, 50 * MS, TAG_SHORT);

        name_user(j, "ann");
        cluster_submit(c, j, 0);
        cluster_run(c, 5 * MS); /* a dist gets its job numbers in small blocks here */
    }
    one = cluster_job(c, 1, 50 * MS, TAG_SHORT);
    name_user(one, "bob");
    cluster_submit(c, one, 0);
    cluster_run(c, 100 * MS);
    joined_us = bus_now(c->bus);
    cluster_add_worker(c, 1);
    cluster_run_jobs(c, 60 * S);
    assert_in_range(one->end_us - joined_us, 0, 500 * MS); /* the 200 take 10 s */
    assert_true(cluster_counter(c, COUNTER_reservations_stolen) > 0);
    finish(c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_many_waits_for_one_turn),
        cmocka_unit_test(each_lets_every_other_go_first_once),
        cmocka_unit_test(of_one_user_the_first_goes_first),
        cmocka_unit_test(no_turn_overtakes_long_work),
        cmocka_unit_test(what_comes_back_is_its_users_first),
        cmocka_unit_test(a_turn_has_a_number),
        cmocka_unit_test(jobs_take_turns),
        cmocka_unit_test(one_task_does_not_wait_for_another_users_3000),
        cmocka_unit_test(the_thief_knows_whose_loot_is),
    };

    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
