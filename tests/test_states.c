/* States are append-only, so a state's number says nothing about its phase. Here the lists have more states:
 * one of each phase, behind the final ones. Everything that asks for a phase must see them as they are
 * declared. */
#define TASK_STATES_NEXT(X)                                                                                  \
    X(TASK_HELD_BACK, "held", PHASE_BEFORE)                                                                  \
    X(TASK_PAUSED, "paused", PHASE_RUNS)                                                                     \
    X(TASK_EXPIRED, "expired", PHASE_FINAL)
#define JOB_STATES_NEXT(X)                                                                                   \
    X(JOB_TAKEN, "taken", PHASE_BEFORE)                                                                      \
    X(JOB_PAUSED, "paused", PHASE_RUNS)                                                                      \
    X(JOB_EXPIRED, "expired", PHASE_FINAL)
#include "dist/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define X(name, text, phase) {name, phase},
static const struct {
    unsigned state;
    enum state_phase phase;
} tasks[] = {TASK_STATES(X)}, jobs[] = {JOB_STATES(X)};
#undef X

static void a_phase_is_what_the_list_declares(void **state)
{
    assert_int_equal(sizeof tasks / sizeof *tasks, TASK_STATE_COUNT);
    for (unsigned i = 0; i < TASK_STATE_COUNT; i++) {
        assert_int_equal(tasks[i].state, i);
        assert_int_equal(task_state_final(i), tasks[i].phase == PHASE_FINAL);
        assert_int_equal(task_state_before(i), tasks[i].phase == PHASE_BEFORE);
    }
    assert_int_equal(sizeof jobs / sizeof *jobs, JOB_STATE_COUNT);
    for (unsigned i = 0; i < JOB_STATE_COUNT; i++) {
        assert_int_equal(jobs[i].state, i);
        assert_int_equal(job_state_final(i), jobs[i].phase == PHASE_FINAL);
        assert_int_equal(state_in(JOB_STATES_UNFINISHED, i), jobs[i].phase != PHASE_FINAL);
    }
}

static void a_state_that_is_appended_is_final_only_if_it_says_so(void **state)
{
    assert_true(TASK_HELD_BACK > TASK_DONE && !task_state_final(TASK_HELD_BACK));
    assert_true(task_state_before(TASK_HELD_BACK));
    assert_true(TASK_PAUSED > TASK_DONE && !task_state_final(TASK_PAUSED));
    assert_false(task_state_before(TASK_PAUSED));
    assert_true(task_state_final(TASK_EXPIRED));
    assert_true(JOB_TAKEN > JOB_DONE && !job_state_final(JOB_TAKEN));
    assert_false(job_state_final(JOB_PAUSED));
    assert_true(job_state_final(JOB_EXPIRED));
}

/* A journal or a peer may name a state that this version does not have; what reads it looks that it is one,
 * or below 32. */
static void a_number_that_is_no_state_is_in_no_phase(void **state)
{
    for (unsigned i = TASK_STATE_COUNT; i < 32; i++) {
        assert_false(task_state_final(i));
        assert_false(task_state_before(i));
    }
    for (unsigned i = JOB_STATE_COUNT; i < 32; i++)
        assert_false(job_state_final(i));
}

/* A job does not end while a task is in a state that was appended and is not final. */
static void tasks_in_appended_states_count_as_unfinished(void **state)
{
    struct dist_job *job = calloc(1, sizeof *job);

    job->in[TASK_DONE] = 5;
    job->in[TASK_LOST] = 1;
    job->in[TASK_EXPIRED] = 7;
    assert_int_equal(dist_job_unfinished_tasks(job), 0);
    job->in[TASK_HELD_BACK] = 2;
    job->in[TASK_PAUSED] = 3;
    assert_int_equal(dist_job_unfinished_tasks(job), 5);
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_phase_is_what_the_list_declares),
        cmocka_unit_test(a_state_that_is_appended_is_final_only_if_it_says_so),
        cmocka_unit_test(a_number_that_is_no_state_is_in_no_phase),
        cmocka_unit_test(tasks_in_appended_states_count_as_unfinished),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
