/* Users who take turns in a worker's queue (stealer/queue.c). */
#include "stealer/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ANN = 1, BOB };

static void push(struct steal_queue *q, struct steal_entry *e, uint32_t user, uint32_t count)
{
    steal_entry_init(e, false, false, count);
    e->user = user;
    steal_queue_push(q, e);
}

static void push_long(struct steal_queue *q, struct steal_entry *e)
{
    steal_entry_init(e, true, true, 1);
    steal_queue_push(q, e);
}

/* The reservation e is next, and has its turn. */
static void serve(struct steal_queue *q, struct steal_entry *e)
{
    steal_queue_check(q);
    assert_ptr_equal(steal_queue_next(q), e);
    steal_queue_served(q, e);
    if (--e->count == 0)
        steal_queue_remove(q, e);
}

static void a_large_reservation_takes_one_turn_at_a_time(void **state)
{
    struct steal_queue q;
    struct steal_entry ann, bob[2];

    steal_queue_init(&q);
    push(&q, &ann, ANN, 3);
    push(&q, &bob[0], BOB, 1);
    push(&q, &bob[1], BOB, 1);
    serve(&q, &ann);
    serve(&q, &bob[0]);
    serve(&q, &ann);
    serve(&q, &bob[1]);
    serve(&q, &ann);
    assert_null(steal_queue_next(&q));
}

static void what_is_put_back_is_its_users_first(void **state)
{
    struct steal_queue q;
    struct steal_entry ann[2], bob;

    steal_queue_init(&q);
    push(&q, &ann[0], ANN, 1);
    push(&q, &ann[1], ANN, 1);
    push(&q, &bob, BOB, 1);
    steal_queue_remove(&q, &ann[0]);
    steal_queue_put_back(&q, &ann[0]);
    serve(&q, &ann[0]);
    serve(&q, &bob);
    serve(&q, &ann[1]);
}

/* Without short_first nothing overtakes the long entry, whoever's turn it is. */
static void a_turn_overtakes_no_long_entry(void **state)
{
    struct steal_queue q;
    struct steal_entry ann, bob, large;

    steal_queue_init(&q);
    push_long(&q, &large);
    push(&q, &bob, BOB, 1);
    steal_entry_init(&ann, false, false, 1);
    ann.user = ANN;
    ann.order = steal_queue_reserve_head(&q, 1); /* a thief had it, and declined */
    steal_queue_put_back(&q, &ann);
    serve(&q, &ann);
    assert_ptr_equal(steal_queue_next(&q), &large);
    steal_queue_remove(&q, &large);
    serve(&q, &bob);
}

static void jobs_take_turns_where_no_long_entry_waits(void **state)
{
    struct steal_queue q;
    struct steal_entry first, second, large;

    steal_queue_init(&q);
    push(&q, &first, ANN, 2);
    push(&q, &second, ANN, 1);
    steal_queue_go_behind(&q, &first);
    assert_ptr_equal(steal_queue_next(&q), &second);
    push_long(&q, &large);
    steal_queue_go_behind(&q, &second); /* it would be behind the long one */
    assert_ptr_equal(steal_queue_next(&q), &second);
    steal_queue_check(&q);
    steal_queue_remove(&q, &first);
    steal_queue_remove(&q, &second);
    steal_queue_remove(&q, &large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_reservation_takes_one_turn_at_a_time),
        cmocka_unit_test(what_is_put_back_is_its_users_first),
        cmocka_unit_test(a_turn_overtakes_no_long_entry),
        cmocka_unit_test(jobs_take_turns_where_no_long_entry_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
