/* Central's table of long jobs, and what one user may have of it (protocol 4). */
#include "tests/test_central.h"

static uint64_t offers; /* the number of the last job that was offered */

/* Offers a job of that user. Returns central's answer: 0, or the error. */
static int offered(struct talk *t, uint32_t dist, const char *user, uint32_t tasks)
{
    struct job_desc *d = desc_of("", tasks);
    const struct msg *m;
    int err;

    blob_drop(d->user);
    d->user = blob_str(user);
    talk_clear(t);
    tell(t, LONG_SUBMIT, long_submit, dist, .job = JOB(dist, ++offers), .desc = d, .estimate_us = 5 * S,
         .epoch = 1);
    job_desc_drop(d);
    m = find_out(t, MSG_LONG_REFUSED, dist);
    err = m ? m->long_refused.err : 0;
    assert_int_equal(find_out(t, MSG_LONG_ACCEPTED, dist) != NULL, !err);
    return err;
}

static void a_user_leaves_room_for_others(void **state)
{
    struct cluster c;
    uint32_t d2;

    talk_config(&c.t);
    c.t.config.long_tasks_max = 100;
    c.t.config.long_jobs_max = 10;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    d2 = add_dist(&c.t, "d2");
    /* At two dists he has what he has: half of the tasks at most. */
    assert_int_equal(offered(&c.t, c.d, "ann", 30), 0);
    assert_int_equal(offered(&c.t, d2, "ann", 20), 0);
    assert_int_equal(offered(&c.t, d2, "ann", 1), HAWK_ELIMIT);
    assert_int_equal(offered(&c.t, d2, "bob", 20), 0);
    assert_int_equal(offered(&c.t, d2, "bob", 10), 0);
    assert_int_equal(offered(&c.t, d2, "bob", 1), HAWK_ELIMIT);
    /* Who has none has all that is left, and who is not known knows no such limit. */
    assert_int_equal(offered(&c.t, d2, "carl", 15), 0);
    assert_int_equal(offered(&c.t, d2, "carl", 1), HAWK_ELIMIT);
    assert_int_equal(offered(&c.t, d2, "", 4), 0);
    assert_int_equal(offered(&c.t, d2, "", 2), HAWK_ELIMIT);
    end(&c);
}

static void a_user_leaves_room_for_others_jobs(void **state)
{
    struct cluster c;

    talk_config(&c.t);
    c.t.config.long_jobs_max = 5;
    talk_start(&c.t);
    tell(&c.t, RECOVERED, recovered, 0, 0);
    c.d = add_dist(&c.t, "d1");
    assert_int_equal(offered(&c.t, c.d, "ann", 1), 0);
    job_id_t first = JOB(c.d, offers);
    assert_int_equal(offered(&c.t, c.d, "ann", 1), 0);
    assert_int_equal(offered(&c.t, c.d, "ann", 1), 0);
    assert_int_equal(offered(&c.t, c.d, "ann", 1), HAWK_ELIMIT);
    assert_int_equal(offered(&c.t, c.d, "bob", 1), 0);
    assert_int_equal(offered(&c.t, c.d, "ann", 1), HAWK_ELIMIT);
    /* What has ended counts no more. */
    tell(&c.t, LONG_CANCEL, long_cancel, c.d, .job = first, .epoch = 1);
    assert_int_equal(offered(&c.t, c.d, "bob", 1), 0);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_leaves_room_for_others),
        cmocka_unit_test(a_user_leaves_room_for_others_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
