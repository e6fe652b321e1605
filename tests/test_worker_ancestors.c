/* No task is paused for a job that was submitted in a task of its job (docs/protocol.md 4.5). */
#include "tests/test_worker_pause.h"

/* It may wait for the job that it submitted. */
static void no_task_pauses_its_ancestors(void **state)
{
    struct talk t;

    begin_pausing(&t, 2);
    for (uint64_t job = 10; job <= 11; job++)
        long_task(&t, job);
    tell(&t, PROBE, probe, DIST, .job = JOB(2), .count = 1, .class = CLASS_SHORT, .estimate_us = S,
         .ancestors = job_set(JOB(10)) | job_set(JOB(11)));
    pass(&t, 100 * S);
    nothing(&t);
    talk_end(&t);
}

/* The one that started last is an ancestor, so that an older one stands still. The description says so where the
 * probe does not (it was stolen by an older worker, say). */
static void another_task_is_paused_than_an_ancestor(void **state)
{
    for (int told = 0; told < 2; told++) {
        struct talk t;
        uint32_t run;

        begin_pausing(&t, 2);
        run = long_task(&t, 10);
        pass(&t, S);
        long_task(&t, 11);
        t.desc->ancestors = (struct ancestors){2, {JOB(12), JOB(11)}};
        tell(&t, PROBE, probe, DIST, .job = JOB(2), .count = 1, .class = CLASS_SHORT, .estimate_us = S,
             .ancestors = told ? ancestors_set(&t.desc->ancestors) : 0);
        paused_for(&t, run, 2, 1);
        talk_end(&t);
    }
}

/* Whatever the probe said: once the description is there, it decides, and the task goes back. */
static void a_task_goes_back_that_only_its_ancestors_could_make_room_for(void **state)
{
    struct talk t;

    begin_pausing(&t, 1);
    long_task(&t, 10);
    t.desc->ancestors = (struct ancestors){1, {JOB(10)}};
    short_comes(&t, 2);
    expect_request(&t, 2, 1);
    launch(&t, 2, 0, 1);
    expect(&t, TASK_FINISHED, task_finished, DIST, m->outcome == OUTCOME_LOST && m->code == HAWK_EBUSY);
    nothing(&t);
    talk_end(&t);
}

/* Both slots run a long task, and each is being frozen for a short one: the older one for job 2, which a task of the
 * younger one's job submitted, the younger one for job 3. */
static void begin_with_two_freezes(struct talk *t, uint32_t *older, uint32_t *younger)
{
    struct job_desc *child = job_desc_new();

    begin_pausing(t, 2);
    *older = long_task(t, 10);
    pass(t, S);
    *younger = long_task(t, 11);
    child->tasks = 1;
    strings_add(&child->argv, "true");
    child->ancestors = (struct ancestors){1, {JOB(11)}};
    for (uint64_t job = 2; job <= 3; job++)
        short_comes(t, job);
    pass(t, S / 16);
    expect(t, TASK_REQUEST, task_request, DIST, m->request == 1);
    expect(t, TASK_REQUEST, task_request, DIST, m->request == 2);
    tell(t, TASK_LAUNCH, task_launch, DIST, .id = TRY(2, 0), .request = 1, .desc = child);
    job_desc_drop(child);
    expect(t, EXEC_PAUSE, exec_pause, 0, m->run == *older);
    launch(t, 3, 0, 2);
    expect(t, EXEC_PAUSE, exec_pause, 0, m->run == *younger);
}

static void starts_child(struct talk *t)
{
    expect(t, EXEC_START, exec_start, 0, m->id.job.v == JOB(2).v && m->desc != t->desc);
    nothing(t);
}

/* Two were frozen, one for each of two jobs. The one that stands still first takes the job that it did not submit. */
static void freezes_are_confirmed_in_any_order(void **state)
{
    uint32_t older, younger;
    struct talk t;

    begin_with_two_freezes(&t, &older, &younger);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = younger);
    starts(&t, 3, 0, DIST);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = older);
    starts_child(&t);
    assert_int_equal(counts_of(&t).paused, 2);
    talk_end(&t);
}

/* A frozen task that may stand still for none of those that were given goes on. */
static void a_freeze_for_a_job_that_went_elsewhere_is_undone(void **state)
{
    uint32_t older, younger;
    struct talk t;

    begin_with_two_freezes(&t, &older, &younger);
    tell(&t, TASK_CANCEL, task_cancel, DIST, .id = TRY(3, 0));
    expect(&t, TASK_FINISHED, task_finished, DIST, m->id.job.v == JOB(3).v);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = younger);
    expect(&t, EXEC_RESUME, exec_resume, 0, m->run == younger);
    nothing(&t);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = older);
    starts_child(&t);
    talk_end(&t);
}

/* What was given may go back after its dist is lost, and be the last task of that dist. */
static void what_was_given_goes_back_though_its_dist_is_lost(void **state)
{
    struct talk t;
    uint32_t run;

    begin_pausing(&t, 1);
    run = long_task(&t, 10);
    short_comes(&t, 2);
    expect_request(&t, 2, 1);
    given(&t, run, 2, 1);
    tell(&t, PEER_LOST, peer_lost, DIST, .role = ROLE_DIST);
    tell(&t, EXEC_PAUSED, exec_paused, 0, .run = run, .err = HAWK_EUNSUPPORTED);
    nothing(&t);
    pass(&t, 100 * S);
    assert_int_equal(counts_of(&t).running, 1);
    talk_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_task_pauses_its_ancestors),
        cmocka_unit_test(another_task_is_paused_than_an_ancestor),
        cmocka_unit_test(a_task_goes_back_that_only_its_ancestors_could_make_room_for),
        cmocka_unit_test(freezes_are_confirmed_in_any_order),
        cmocka_unit_test(a_freeze_for_a_job_that_went_elsewhere_is_undone),
        cmocka_unit_test(what_was_given_goes_back_though_its_dist_is_lost),
    };

    return cmocka_run_group_tests_name("worker_ancestors", tests, NULL, NULL);
}
