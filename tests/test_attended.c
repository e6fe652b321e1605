/* What a client knows of a job that it may have to move. */
#include "libhawk/attended.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct attended *submitted(void)
{
    struct job_desc *desc = job_desc_new();
    struct attended *a;

    desc->tasks = 2;
    a = attended_new(desc, 0);
    job_desc_drop(desc);
    attended_submitted(a, &(struct api_submit_reply){.job = job_id_make((node_id_t){3}, 17)});
    return a;
}

static uint32_t move(struct attended *a)
{
    struct api_submit_request r;

    assert_int_equal(attended_move(a, 10, &r), 0);
    free(r.resubmit.ended);
    return r.resubmit.epoch;
}

static bool answer(struct attended *a, job_id_t job)
{
    struct api_submit_reply reply = {.job = job};
    uint8_t *data;
    size_t len;
    bool taken;

    api_encode(&api_submit_reply_type, &reply, &data, &len);
    taken = attended_taken(a, data, len);
    free(data);
    return taken;
}

static uint32_t watch(struct attended *a)
{
    struct api_watch_request r = {0};

    attended_stay(a, &r);
    assert_int_equal(r.key, a->key);
    return r.epoch;
}

/* A dist that was asked, and did not answer in time, may have taken the job: who has it gets a later epoch than that. */
static void test_stays(void **state)
{
    struct attended *a = submitted();

    assert_int_equal(watch(a), EPOCH_FIRST);
    assert_int_equal(move(a), 3);
    assert_int_equal(move(a), 5);
    assert_int_equal(watch(a), 7);
    assert_int_equal(watch(a), 7);
    assert_int_equal(move(a), 9);
    attended_free(a);
}

static void test_is_taken(void **state)
{
    struct attended *a = submitted();

    assert_int_equal(move(a), 3);
    assert_false(answer(a, job_id_make((node_id_t){4}, 1))); /* another job, of a dist that knows no moves */
    assert_int_equal(move(a), 5);
    assert_true(answer(a, a->job));
    assert_int_equal(watch(a), 5);
    attended_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_is_taken),
    };

    return cmocka_run_group_tests_name("attended", tests, NULL, NULL);
}
