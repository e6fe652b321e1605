/* Central finds jobs by their ids: all parts of one, and one among many. */
#include "tests/test_central.h"

#include <time.h>

static void submit_part(struct cluster *c, uint64_t seq, uint32_t epoch)
{
    struct job_desc *d = desc_of("", 1);

    tell(&c->t, LONG_SUBMIT, long_submit, c->d, .job = JOB(c->d, seq), .desc = d, .estimate_us = 5 * S,
         .epoch = (uint16_t)epoch);
    job_desc_drop(d);
}

static void the_parts_of_a_job_are_found_together(void **state)
{
    struct cluster c;
    struct try_id id;

    begin(&c, 1);
    for (uint32_t epoch = 1; epoch <= 3; epoch++)
        submit_part(&c, 1, epoch);
    submit_part(&c, 2, 1);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 5, .on = 1);
    assert_int_equal(count_out(&c.t, MSG_JOURNAL_WAITS), 3);
    assert_int_equal(expect(&c.t, HOLD_SET, hold_set, 0)->err, 0);
    tell(&c.t, HOLD, hold, 0, .job = JOB(c.d, 1), .client = 5);
    /* The first part ends, and is forgotten. */
    id = try_of(c.d, 1, 0, 1);
    finished(&c.t, c.w[0], id, OUTCOME_EXITED, 0, S);
    pass(&c.t, 100 * S);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 1);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, HAWK_ENOT_FOUND);
    assert_int_equal(view_of(&c, 1).epoch, 3);
    tell(&c.t, CANCEL, cancel, 0, .job = JOB(c.d, 1), .client = 5);
    assert_int_equal(count_out(&c.t, MSG_JOURNAL_CANCEL), 2);
    tell(&c.t, LONG_WATCH, long_watch, c.d, .job = JOB(c.d, 1), .epoch = 2);
    assert_int_equal(expect(&c.t, LONG_WATCHED, long_watched, c.d)->err, 0);
    end(&c);
}

/* What a worker says of a task that the part does not have is said of none. */
static void a_part_has_its_own_tasks_alone(void **state)
{
    static const uint32_t strange[] = {0, 2, 4};
    struct task_set *set = task_set_new(2);
    struct job_desc *d = desc_of("", 5);
    struct cluster c;

    set->v[0] = 1;
    set->v[1] = 3;
    begin(&c, 1);
    tell(&c.t, LONG_SUBMIT, long_submit, c.d, .job = JOB(c.d, 1), .desc = d, .tasks = set,
         .estimate_us = 5 * S, .epoch = 1);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        finished(&c.t, c.w[0], try_of(c.d, 1, strange[i], 1), OUTCOME_EXITED, 0, S);
    assert_int_equal(view_of(&c, 1).done, 0);
    for (uint32_t i = 0; i < set->n; i++)
        finished(&c.t, c.w[0], try_of(c.d, 1, set->v[i], 1), OUTCOME_EXITED, 0, S);
    assert_int_equal(view_of(&c, 1).done, 2);
    task_set_drop(set);
    job_desc_drop(d);
    end(&c);
}

static void a_job_is_found_among_many(void **state)
{
    const uint32_t many = 20000;
    struct job_desc *d = desc_of("", 1);
    struct cluster c;
    clock_t began = clock(), all;

    begin(&c, 1);
    for (uint32_t i = 1; i <= many; i++) {
        struct event e = {.now_us = c.t.now_us, .m = {.type = MSG_LONG_SUBMIT, .peer = c.d}};

        e.m.long_submit.job = JOB(c.d, i);
        e.m.long_submit.desc = d;
        e.m.long_submit.epoch = 1;
        talk_clear(&c.t);
        central_step(c.t.c, &e, &c.t.out);
    }
    all = clock() - began;
    began = clock();
    for (uint32_t i = 1; i <= many; i++)
        assert_non_null(central_find_job(c.t.c, JOB(c.d, i)));
    assert_true(clock() - began < all);
    job_desc_drop(d);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_job_are_found_together),
        cmocka_unit_test(a_part_has_its_own_tasks_alone),
        cmocka_unit_test(a_job_is_found_among_many),
    };

    return cmocka_run_group_tests_name("central_parts", tests, NULL, NULL);
}
