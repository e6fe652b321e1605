/* Users' queues take turns, and a turn of the loop spends what it may. */
#include "api/fair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MANY 4000u

static struct fair fair;
static struct fair_queue eve, ann, bob;
static struct list eves[MANY], anns, bobs[2];

static int setup(void **state)
{
    fair_init(&fair);
    fair_queue_init(&eve);
    fair_queue_init(&ann);
    fair_queue_init(&bob);
    for (uint32_t i = 0; i < MANY; i++)
        fair_push(&fair, &eve, &eves[i]);
    fair_push(&fair, &ann, &anns);
    for (int i = 0; i < 2; i++)
        fair_push(&fair, &bob, &bobs[i]);
    return 0;
}

static void test_who_has_many_delays_others_by_one_each(void **state)
{
    struct list *order[] = {&eves[0], &anns, &bobs[0], &eves[1], &bobs[1], &eves[2], &eves[3]};
    fair_begin(&fair, 1);
    for (uint32_t i = 0; i < sizeof order / sizeof *order; i++)
        assert_ptr_equal(fair_next(&fair), order[i]);
}

static void test_an_item_that_comes_back_waits_its_turn(void **state)
{
    fair_begin(&fair, 1);
    for (int i = 0; i < 9; i++) { /* three rounds */
        struct fair_queue *of[] = {&eve, &ann, &bob};
        struct list *l = fair_next(&fair);
        if (i % 3 == 1)
            assert_ptr_equal(l, &anns);
        fair_push(&fair, of[i % 3], l);
    }
}

static void test_a_turn_spends_what_it_may(void **state)
{
    uint32_t n = 0;
    for (int i = 0; i < 3; i++) {
        fair_begin(&fair, 100);
        for (n = 0; fair_next(&fair); n++)
            fair_spend(&fair, 33);
        assert_int_equal(n, 4);
        assert_true(fair_any(&fair));
        assert_true(fair_spent(&fair));
    }
    fair_begin(&fair, UINT32_MAX);
    for (n = 0; fair_next(&fair); n++)
        fair_spend(&fair, 1);
    assert_int_equal(n, MANY + 3 - 12);
    assert_false(fair_any(&fair));
    assert_false(fair_spent(&fair));
}

/* A client that has gone takes its item out. */
static void test_items_that_were_taken_out_do_not_come(void **state)
{
    fair_begin(&fair, 1);
    list_remove(&anns);
    list_remove(&eves[0]);
    assert_ptr_equal(fair_next(&fair), &eves[1]);
    assert_ptr_equal(fair_next(&fair), &bobs[0]);
    list_remove(&bobs[1]);
    for (uint32_t i = 2; i < MANY; i++)
        list_remove(&eves[i]);
    assert_false(fair_any(&fair));
    assert_null(fair_next(&fair));
    fair_push(&fair, &ann, &anns);
    assert_ptr_equal(fair_next(&fair), &anns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_who_has_many_delays_others_by_one_each, setup),
        cmocka_unit_test_setup(test_an_item_that_comes_back_waits_its_turn, setup),
        cmocka_unit_test_setup(test_a_turn_spends_what_it_may, setup),
        cmocka_unit_test_setup(test_items_that_were_taken_out_do_not_come, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
