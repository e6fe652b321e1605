/* Workers that run one user's commands alone, at a dist: only his jobs are probed for there. */
#include "tests/test_dist.h"

static void member_in(struct talk *t, enum member_state state, uint32_t node, const char *user)
{
    struct blob *addr = blob_str("127.0.0.1:1"), *name = blob_str("w"),
                *serves = user ? blob_str(user) : NULL;

    HEAR(t, CENTRAL, MEMBER, member, .addr = addr, .name = name, .node = {node}, .slots = 1,
         .role = ROLE_WORKER, .state = state, .general = 1, .serves = serves);
    blob_drop(addr);
    blob_drop(name);
    blob_drop(serves);
}

static void member_of(struct talk *t, uint32_t node, const char *user)
{
    member_in(t, MEMBER_UP, node, user);
}

static struct job_desc *desc_of(uint32_t tasks, const char *user)
{
    struct job_desc *d = desc_new(tasks, "");

    blob_drop(d->user);
    d->user = blob_str(user);
    return d;
}

static void each_user_has_the_workers_that_serve_him(void **state)
{
    struct talk *t = talk_joined("sparrow", 3);

    member_of(t, 102, "ann");
    member_of(t, 103, "bob");
    submit(t, desc_of(1, "bob"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=1");
    says(t, "103 PROBE job=3.1 estimate_us=0 count=1");
    submit(t, desc_of(1, "cas"));
    says(t, "- SUBMITTED job=3.2");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2");
    submit(t, desc_of(1, ""));
    says(t, "- SUBMITTED job=3.3");
    says(t, "101 PROBE job=3.3 estimate_us=0 count=2");
    /* It serves another user now: its process is another one. */
    member_of(t, 103, "cas");
    submit(t, desc_of(1, "cas"));
    says(t, "- SUBMITTED job=3.4");
    says(t, "101 PROBE job=3.4 estimate_us=0 count=1");
    says(t, "103 PROBE job=3.4 estimate_us=0 count=1");
    member_of(t, 103, NULL);
    says(t, "103 PROBE job=3.3 estimate_us=0 count=1"); /* which had two of one worker */
    submit(t, desc_of(1, ""));
    says(t, "- SUBMITTED job=3.5");
    says(t, "101 PROBE job=3.5 estimate_us=0 count=1");
    says(t, "103 PROBE job=3.5 estimate_us=0 count=1");
    talk_end(t);
}

static void a_job_that_waits_goes_to_the_first_worker_of_its_user(void **state)
{
    struct talk *t = talk_joined("sparrow", 0);

    submit(t, desc_of(1, "ann"));
    says(t, "- SUBMITTED job=3.1");
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER);
    member_of(t, 101, "bob");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_USER);
    HEAR(t, 102, PEER_UP, peer_up, .role = ROLE_WORKER);
    member_of(t, 102, "ann");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    worker_member(t, 102, 1, MEMBER_GONE, true);
    assert_int_equal(block_of(t, 1), DIST_BLOCK_USER);
    talk_end(t);
}

static void a_job_that_no_worker_may_run_is_refused(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    member_of(t, 101, "ann");
    submit(t, desc_of(1, "bob"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "102 PROBE job=3.1");
    member_of(t, 102, "ann");
    submit(t, desc_of(1, "bob"));
    says(t, "- SUBMITTED job=- client=9 err=-27");
    submit(t, desc_of(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-27");
    submit(t, desc_of(1, "ann"));
    says(t, "- SUBMITTED job=3.2");
    says(t, "101 PROBE job=3.2");
    says(t, "102 PROBE job=3.2");
    talk_end(t);
}

/* Neither everybody's worker nor her own need be there when the job comes. */
static void a_worker_that_may_be_back_is_one(void **state)
{
    struct talk *t = talk_joined("sparrow", 2);

    member_of(t, 101, "ann");
    member_in(t, MEMBER_SUSPECT, 101, "ann");
    submit(t, desc_of(1, "ann"));
    says(t, "- SUBMITTED job=3.1");
    says(t, "102 PROBE job=3.1");
    member_in(t, MEMBER_SUSPECT, 102, NULL);
    submit(t, desc_of(1, "bob"));
    says(t, "- SUBMITTED job=3.2");
    talk_end(t);
}

/* Her only worker is general, and her short job waits for a reserved one until the policy reserves none. */
static void her_jobs_follow_the_policy(void **state)
{
    struct talk *t = talk_joined("harrier", 1);
    struct policy p = t->cfg.policy;
    struct job_desc *d = desc_of(1, "ann");

    member_of(t, 101, "ann");
    p.flags |= POLICY_SHORT_RESERVED;
    p.short_share_ppm = 170000;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    ignore(t);
    d->tag = TAG_SHORT;
    submit(t, d);
    says(t, "- SUBMITTED job=3.1");
    silent(t);
    p.flags &= ~(uint32_t)POLICY_SHORT_RESERVED;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    says(t, "101 PROBE job=3.1");
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_user_has_the_workers_that_serve_him),
        cmocka_unit_test(a_job_that_waits_goes_to_the_first_worker_of_its_user),
        cmocka_unit_test(a_job_that_no_worker_may_run_is_refused),
        cmocka_unit_test(a_worker_that_may_be_back_is_one),
        cmocka_unit_test(her_jobs_follow_the_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
