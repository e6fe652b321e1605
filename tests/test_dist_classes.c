/* How a dist classifies a job (protocol 3.2). */
#include "tests/test_dist.h"

static void test_classes(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct blob *name = blob_str("big");
    struct job_desc *desc = desc_new(1, "big");

    HEAR(t, CENTRAL, ESTIMATE, estimate, .name = name, .mean_us = 30 * US_PER_S, .runs = 2);
    submit(t, desc); /* from history */
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x1 tasks=all estimate_us=30000000 epoch=1 why=3");
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=3");
    desc = desc_new(1, "big");
    desc->tag = TAG_SHORT;
    submit(t, desc);
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=0 why=1");
    says(t, "101 PROBE job=3.2 estimate_us=30000000");
    desc = desc_new(1, "");
    desc->tag = TAG_LONG; /* how long, nobody knows: the cutoff at least */
    submit(t, desc);
    says(t, "central LONG_SUBMIT job=3.3 desc=\"\"x1 tasks=all estimate_us=10000000 epoch=1 why=1");
    ignore(t);
    blob_drop(name);
    talk_end(t);
}

static struct job_desc *desc_by(const char *user, const char *name)
{
    struct job_desc *d = desc_new(1, name);

    blob_drop(d->user);
    d->user = blob_str(user);
    return d;
}

/* Ann's runs of "big" say nothing of Bob's. */
static void test_history_is_its_users(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct blob *name = blob_str("big"), *ann = blob_str("ann");

    HEAR(t, CENTRAL, ESTIMATE, estimate, .name = name, .mean_us = 30 * US_PER_S, .runs = 2,
         .user = user_number(ann));
    submit(t, desc_by("ann", "big"));
    says(t, "central LONG_SUBMIT job=3.1 desc=\"big\"x1 tasks=all estimate_us=30000000 epoch=1 why=3");
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=1 why=3");
    submit(t, desc_by("bob", "big"));
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=0 why=0");
    ignore(t);
    blob_drop(name);
    blob_drop(ann);
    talk_end(t);
}

static void launched_by(struct talk *t, uint32_t worker, uint32_t request_no, const char *launch)
{
    request(t, worker, 1, request_no);
    says(t, launch);
    HEAR(t, worker, TASK_STARTED, task_started, .id = try_of(1, 0, 1, 1), .wait_us = 0);
}

/* 3.2, 7: a job that is tagged short stays its dist's. When its tasks show the cutoff, it loses the reserve, and no
 * worker pauses a task for it. 101 is general, 102 reserved. */
static void test_a_tagged_job_that_outlives_the_cutoff(void **state)
{
    struct talk *t = talk_joined("harrier", 1);
    struct job_desc *desc = desc_new(3, "n");

    worker_up(t, 102, 1, false);
    desc->tag = TAG_SHORT;
    submit(t, desc);
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=0 why=1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=3");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=3");
    launched_by(t, 102, 1, "102 TASK_LAUNCH id=3.1/0@1.1 desc=\"n\"x3 arg=- request=1 promotable=1");
    t->now += 10 * US_PER_S;
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 10 * US_PER_S);
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "102 PROBE_CANCEL job=3.1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=4 class=1");
    request(t, 102, 1, 2); /* it crossed the cancellation */
    says(t, "102 NO_TASK job=3.1 request=2");
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1 desc=\"n\"x3 arg=- request=1 promotable=0");
    assert_int_equal(job_view_of(t, 1).class, CLASS_SHORT);
    assert_int_equal(dist_counters(&t->d)[COUNTER_jobs_promoted], 0);
    ignore(t);
    talk_end(t);
}

/* A job tagged short, of which a reserved worker, the only one, has had a task for longer than the cutoff. */
static void overstays_in_the_reserve(struct talk *t)
{
    struct job_desc *desc = desc_new(2, "n");

    worker_up(t, 102, 1, false);
    desc->tag = TAG_SHORT;
    submit(t, desc);
    ignore(t);
    launched_by(t, 102, 1, "102 TASK_LAUNCH id=3.1/0@1.1");
    t->now += 10 * US_PER_S;
    HEAR(t, 102, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 10 * US_PER_S);
}

/* Where nobody but the reserve may run it, it stays there. */
static void test_a_tagged_job_that_has_only_the_reserve(void **state)
{
    struct talk *t = talk_joined("harrier", 0);

    overstays_in_the_reserve(t);
    says(t, "102 PROBE_CANCEL job=3.1");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2 class=1");
    request(t, 102, 1, 2);
    says(t, "102 TASK_LAUNCH id=3.1/1@1.1");
    ignore(t);
    talk_end(t);
}

/* Without a reserved worker it waits, and a general one that comes then is probed. */
static void test_a_tagged_job_whose_reserve_has_gone(void **state)
{
    struct talk *t = talk_joined("harrier", 0);
    struct policy p;

    assert_int_equal(policy_preset("harrier", &p), 0);
    p.flags |= POLICY_SHORT_RESERVED;
    p.short_share_ppm = 170000;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    overstays_in_the_reserve(t);
    ignore(t);
    assert_true(job_view_of(t, 1).overstays);
    HEAR(t, 102, PEER_LOST, peer_lost, 0);
    ignore(t);
    worker_up(t, 101, 1, true);
    says(t, "101 PROBE job=3.1");
    ignore(t);
    talk_end(t);
}

/* 14: nothing of it starts while it is held. What its tasks show counts from the release on. */
static void test_a_tagged_job_that_overstays_while_it_is_held(void **state)
{
    struct talk *t = talk_joined("harrier", 1);
    struct job_desc *desc = desc_new(3, "n");

    desc->tag = TAG_SHORT;
    submit(t, desc);
    ignore(t);
    launched_by(t, 101, 1, "101 TASK_LAUNCH id=3.1/0@1.1");
    HEAR(t, 0, HOLD, hold, .job = J(1), .client = 4, .on = true);
    says(t, "101 PROBE_CANCEL job=3.1");
    ignore(t);
    t->now += 10 * US_PER_S;
    request(t, 101, 1, 2); /* it crossed the cancellation */
    says(t, "101 NO_TASK job=3.1 request=2");
    HEAR(t, 101, TASK_OVERRUN, task_overrun, .id = try_of(1, 0, 1, 1), .run_us = 10 * US_PER_S);
    HEAR(t, 0, HOLD, hold, .job = J(1), .client = 4, .on = false);
    says(t, "- HOLD_SET job=3.1 client=4 err=0");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=4 class=1");
    ignore(t);
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_history_is_its_users),
        cmocka_unit_test(test_a_tagged_job_that_outlives_the_cutoff),
        cmocka_unit_test(test_a_tagged_job_that_has_only_the_reserve),
        cmocka_unit_test(test_a_tagged_job_whose_reserve_has_gone),
        cmocka_unit_test(test_a_tagged_job_that_overstays_while_it_is_held),
    };

    return cmocka_run_group_tests_name("dist_classes", tests, NULL, NULL);
}
