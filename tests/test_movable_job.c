/* What a client knows of a job that it may have to move. */
#include "libhawk/movable_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct movable_job *submitted(void)
{
    struct job_desc *desc = job_desc_new();
    struct movable_job *a;

    desc->tasks = 2;
    a = movable_job_new(desc, 0);
    job_desc_drop(desc);
    movable_job_submitted(a, &(struct api_submit_reply){.job = job_id_make((node_id_t){3}, 17)});
    return a;
}

static uint32_t move(struct movable_job *a)
{
    struct api_submit_request r;

    assert_int_equal(movable_job_move(a, 10, &r), 0);
    free(r.resubmit.ended);
    return r.resubmit.epoch;
}

static bool answer(struct movable_job *a, job_id_t job)
{
    struct api_submit_reply reply = {.job = job};
    uint8_t *data;
    size_t len;
    bool taken;

    api_encode(&api_submit_reply_type, &reply, &data, &len);
    taken = movable_job_taken(a, data, len);
    free(data);
    return taken;
}

/* Before its dist has said anything of it. */
static void test_held_from_the_start(void **state)
{
    for (uint32_t held = 0; held < 2; held++) {
        struct job_desc *desc = job_desc_new();
        struct api_submit_request r;
        struct movable_job *a;

        desc->tasks = 1;
        desc->flags |= held ? JOB_SUBMIT_HELD : 0;
        a = movable_job_new(desc, 0);
        job_desc_drop(desc);
        movable_job_submitted(a, &(struct api_submit_reply){.job = job_id_make((node_id_t){3}, 17)});
        assert_int_equal(movable_job_move(a, 10, &r), 0);
        assert_int_equal(r.resubmit.held, held);
        free(r.resubmit.ended);
        movable_job_free(a);
    }
}

static uint32_t watch(struct movable_job *a)
{
    struct api_watch_request r = {0};

    movable_job_stay(a, &r);
    assert_int_equal(r.key, a->key);
    return r.epoch;
}

/* A dist that was asked, and did not answer in time, may have taken the job: who has it gets a later epoch
 * than that. */
static void test_stays(void **state)
{
    struct movable_job *a = submitted();

    assert_int_equal(watch(a), EPOCH_FIRST);
    assert_int_equal(move(a), 3);
    assert_int_equal(move(a), 5);
    assert_int_equal(watch(a), 7);
    assert_int_equal(watch(a), 7);
    assert_int_equal(move(a), 9);
    movable_job_free(a);
}

static void test_is_taken(void **state)
{
    struct movable_job *a = submitted();

    assert_int_equal(move(a), 3);
    assert_false(answer(a, job_id_make((node_id_t){4}, 1))); /* another job, of a dist that knows no moves */
    assert_int_equal(move(a), 5);
    assert_true(answer(a, a->job));
    assert_int_equal(watch(a), 5);
    movable_job_free(a);
}

/* Central has a part of a job under an epoch between two of its dist's. One behind those that were given is damage. */
static void test_an_epoch_of_centrals_is_no_later_than_the_dists(void **state)
{
    struct api_event event = {.job = {.at_central = true, .epoch = 2}},
                     late = {.job = {.at_central = true, .epoch = 8}};
    struct movable_job *a = submitted();
    struct api_submit_request r;

    movable_job_event(a, &event);
    movable_job_event(a, &late);
    assert_int_equal(movable_job_move(a, 10, &r), 0);
    assert_int_equal(r.resubmit.long_epoch, 2);
    free(r.resubmit.ended);
    movable_job_free(a);
}

static void test_a_hold_moves_with_it(void **state)
{
    struct api_event event = {.job = {.held = true}};
    struct movable_job *a = submitted();
    struct api_submit_request r;

    movable_job_event(a, &event);
    assert_int_equal(movable_job_move(a, 10, &r), 0);
    assert_true(r.resubmit.held);
    free(r.resubmit.ended);
    event.job.held = false;
    movable_job_event(a, &event);
    assert_int_equal(movable_job_move(a, 10, &r), 0);
    assert_false(r.resubmit.held);
    free(r.resubmit.ended);
    movable_job_free(a);
}

/* It may wait for a long time: what was refused for want of room costs no epoch. */
static void test_waits_for_room(void **state)
{
    struct movable_job *a = submitted();

    for (int i = 0; i < 100000; i++) {
        assert_int_equal(move(a), 3);
        assert_false(movable_job_note_refusal(a, GRPC_STATUS_RESOURCE_EXHAUSTED));
    }
    assert_int_equal(move(a), 3);
    assert_false(
        movable_job_note_refusal(a, GRPC_STATUS_UNAVAILABLE)); /* it may have taken the job all the same */
    assert_int_equal(move(a), 5);
    assert_true(movable_job_note_refusal(a, GRPC_STATUS_INVALID_ARGUMENT));
    assert_true(movable_job_note_refusal(a, GRPC_STATUS_PERMISSION_DENIED));
    movable_job_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_from_the_start),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_is_taken),
        cmocka_unit_test(test_an_epoch_of_centrals_is_no_later_than_the_dists),
        cmocka_unit_test(test_a_hold_moves_with_it),
        cmocka_unit_test(test_waits_for_room),
    };

    return cmocka_run_group_tests_name("movable_job", tests, NULL, NULL);
}
