/* The share that follows what short jobs kept busy lately. */
#include "base/units.h"
#include "classifier/classifier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define S US_PER_S
#define PERCENT 10000u /* in ppm */

static void follow_demand(struct history *h)
{
    struct history_config c;

    history_config_init(&c);
    c.cutoff_fixed = true;
    c.cutoff_us = 10 * S;
    history_init(h, &c);
    history_follow_demand(h, 400, 0);
}

/* n short jobs of 20 task-seconds, one a second, and one after each that is long, since it reaches the cutoff. */
static void demand_of_20(struct history *h, int n, int64_t *now_us)
{
    for (int i = 0; i < n; i++) {
        *now_us += S;
        history_add(h, 0, NULL, 2 * S, 20 * S, *now_us);
        history_add(h, 0, NULL, h->cutoff_us, 90 * S, *now_us);
    }
}

static void the_share_follows_the_demand(void **state)
{
    struct history h;
    int64_t now_us = S;

    follow_demand(&h);
    demand_of_20(&h, 99, &now_us);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 18 * PERCENT, 19 * PERCENT); /* too few: by task-seconds */
    demand_of_20(&h, 901, &now_us);
    history_compute(&h);
    /* 20 of 400 slots are busy, 5 %. Jobs have ten tasks: the standard deviation is 14.2 slots, 3.55 %. */
    assert_in_range(history_share_ppm(&h), 85000, 86500);
    history_follow_demand(&h, 200, 0);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 170000, 173000);
    /* A tenth of the other slots is given: 8 % and a tenth of the rest are 17.2 %. */
    history_follow_demand(&h, 200, 10 * PERCENT);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 78000, 81000);
    history_follow_demand(&h, 200, 12 * PERCENT);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 55000, 62000);
    /* That is enough: none is reserved, although the least is 2 %. */
    h.cfg.share_min_ppm = 2 * PERCENT;
    history_follow_demand(&h, 200, 18 * PERCENT);
    history_compute(&h);
    assert_int_equal(history_share_ppm(&h), 0);
    /* Where short jobs use most slots, they need a quarter of what is left in addition; */
    h.cfg.share_min_ppm = 0;
    history_follow_demand(&h, 30, 0);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 745000, 752000); /* 20 of 30 slots, and a quarter of ten */
    /* where they are given a part of the others, what they use. */
    history_follow_demand(&h, 30, 20 * PERCENT);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 660000, 670000);
    history_follow_demand(&h, 10, 0);
    history_compute(&h);
    assert_int_equal(history_share_ppm(&h), 80 * PERCENT);
    h.cfg.share_min_ppm = 2 * PERCENT;
    history_follow_demand(&h, 200, 0);
    /* Nothing uses the reserve, and it shrinks. */
    assert_in_range(history_look(&h, now_us), now_us + 36 * S, now_us + 38 * S);
    now_us += 3000 * S;
    assert_in_range(history_look(&h, now_us), now_us + 410 * S, now_us + 415 * S);
    assert_in_range(history_share_ppm(&h), 29000, 32000);
    /* Ten times as fast: all that was is forgotten. */
    for (int i = 0; i < 4000; i++) {
        now_us += S / 10;
        history_add(&h, 0, NULL, 2 * S, 3 * S, now_us);
    }
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 177000, 189000);
    /* The paper's rule again. */
    history_follow_demand(&h, 0, 0);
    assert_int_equal(history_look(&h, now_us), TIME_NEVER);
    history_compute(&h);
    assert_in_range(history_share_ppm(&h), 26 * PERCENT, 27 * PERCENT);
    history_free(&h);
}

/* 20 slots busy by user 1; then user 2's tiny jobs, many more than count otherwise, within two seconds. */
static void the_demand_of_others_stays_known(void **state)
{
    struct history h;
    int64_t now_us = S;

    follow_demand(&h);
    for (int i = 0; i < 2000; i++)
        history_add(&h, 1, NULL, 2 * S, 20 * S, now_us += S);
    for (int i = 0; i < 2000; i++)
        history_add(&h, 2, NULL, S / 1000, S / 1000, now_us += S / 1000);
    history_compute(&h);
    /* 20 of 400 slots, and one of user 2's; and a standard deviation, as above. */
    assert_in_range(history_share_ppm(&h), 85000, 89000);
    history_free(&h);
}

/* A crowd of jobs within a second is what half a minute brings, not what a second does; and what comes after a long
 * pause shows as soon as as much has come as counted before. */
static void neither_a_crowd_nor_a_pause_hides_the_demand(void **state)
{
    struct history h;
    int64_t now_us = S;

    follow_demand(&h);
    for (int i = 0; i < 600; i++)
        history_add(&h, 0, NULL, 2 * S, 2 * S, now_us += S / 10);
    for (int i = 0; i < 1000; i++)
        history_add(&h, 0, NULL, 2 * S, 2 * S, now_us += S / 1000);
    history_compute(&h);
    /* 2,500 task-seconds in 27 s keep 92 slots busy; and a quarter more. */
    assert_in_range(history_share_ppm(&h), 28 * PERCENT, 30 * PERCENT);
    now_us += 36000 * S;
    for (int i = 0; i < 1200; i++)
        history_add(&h, 0, NULL, 2 * S, 2 * S, now_us += S / 10);
    history_compute(&h);
    /* 20 slots, and a quarter more. */
    assert_in_range(history_share_ppm(&h), 55000, 75000);
    history_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_share_follows_the_demand),
        cmocka_unit_test(the_demand_of_others_stays_known),
        cmocka_unit_test(neither_a_crowd_nor_a_pause_hides_the_demand),
    };

    return cmocka_run_group_tests_name("demand", tests, NULL, NULL);
}
