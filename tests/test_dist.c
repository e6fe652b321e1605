/* Conversations of a dist about joining, short jobs, stealing, lost workers and stopping, in the order of
 * docs/protocol.md. The long ones are in test_dist_long.c. */
#include "tests/test_dist.h"

/* ---- 1. Joining, heartbeats, members ---- */

static void test_joins_and_takes_nothing_before(void **state)
{
    struct talk *t = talk_new("hawk");

    talk_begin(t);
    HEAR(t, 0, START, start, 0);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-8");
    central_joins(t);
    assert_int_equal(dist_node(&t->d).v, ME);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=0 why=0");
    /* It tells the id it had, and keeps what it has. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL);
    says(t, "central JOIN name=\"d\" addr=\"a\" incarnation=77 node=3 slots=0 version=3 role=2");
    talk_end(t);
}

static void test_refused_stops(void **state)
{
    struct talk *t = talk_new("hawk");
    struct blob *why = blob_str("no");

    talk_begin(t);
    HEAR(t, CENTRAL, PEER_UP, peer_up, .role = ROLE_CENTRAL);
    ignore(t);
    HEAR(t, CENTRAL, REFUSED, refused, .why = why, .err = HAWK_ENAME_TAKEN);
    says(t, "- STOPPED");
    submit(t, desc_new(1, ""));
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    blob_drop(why);
    talk_end(t);
}

static void test_heartbeats_and_counters(void **state)
{
    struct talk *t = talk_new("hawk");

    t->cfg.heartbeats = true;
    talk_begin(t);
    central_joins(t);
    worker_member(t, 101, 2, MEMBER_UP, true);
    HEAR(t, 101, PEER_UP, peer_up, .role = ROLE_WORKER,
         .version = 2); /* one that is never asked whether it is there */
    submit(t, desc_new(3, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    wait_timer(t, 500000);
    says(t, "central HEARTBEAT seq=1 queued=2 running_short=1 running_long=0 jobs_unfinished=1");
    says(t, "central COUNTER value=1 counter=0");  /* jobs_accepted */
    says(t, "central COUNTER value=1 counter=1");  /* jobs_short */
    says(t, "central COUNTER value=6 counter=5");  /* probes_sent */
    says(t, "central COUNTER value=1 counter=9");  /* tasks_launched */
    says(t, "central COUNTER value=3 counter=21"); /* messages_in: JOINED, MEMBER, TASK_REQUEST */
    says(t, "central COUNTER value=3 counter=22");
    /* Nothing changed: nothing but the heart beats. */
    wait_timer(t, 500000);
    says(t, "central HEARTBEAT seq=2");
    /* Another central knows none of it. */
    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER);
    central_joins(t);
    wait_timer(t, 500000);
    says(t, "central HEARTBEAT seq=3");
    says(t, "central COUNTER value=1 counter=0");
    ignore(t);
    talk_end(t);
}

static void test_members_are_kept(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct members *list = members_new(2);
    const struct member *m;

    list->v[0] = (struct member){
        .node = {7}, .role = ROLE_DIST, .state = MEMBER_UP, .addr = blob_str("x"), .name = blob_str("d2")};
    list->v[1] = (struct member){.node = {102},
                                 .slots = 4,
                                 .role = ROLE_WORKER,
                                 .state = MEMBER_SUSPECT,
                                 .general = 1,
                                 .addr = blob_str("y"),
                                 .name = blob_str("w2")};
    HEAR(t, CENTRAL, MEMBERS, members, .list = list);
    members_drop(list);
    m = dist_next_member(&t->d, NODE_NONE);
    assert_true(m->node.v == 7 && strcmp(m->name->data, "d2") == 0);
    m = dist_next_member(&t->d, m->node); /* unlisted, but its stream stands: central may not know it yet */
    assert_true(m->node.v == 101 && m->state == MEMBER_GONE);
    m = dist_next_member(&t->d, m->node);
    assert_true(m->node.v == 102 && m->state == MEMBER_SUSPECT);
    assert_null(dist_next_member(&t->d, m->node));
    assert_true(dist_has_stream(&t->d, (node_id_t){101}));
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    assert_false(dist_has_stream(&t->d, (node_id_t){101}));
    talk_end(t);
}

/* ---- 3. A short job ---- */

static void test_one_task_from_submission_to_end(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_view v;

    submit(t, desc_new(1, "job"));
    says(t, "- SUBMITTED job=3.1 client=9 err=0 class=0 why=0");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=1 class=0");
    says(t, "102 PROBE job=3.1 estimate_us=0 count=1 class=0");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_PROBES);
    t->now += 5000;
    request(t, 102, 1, 1);
    says(t, "102 TASK_LAUNCH id=3.1/0@1.1 desc=\"job\"x1 arg=- request=1 promotable=1");
    says(t, "101 PROBE_CANCEL job=3.1"); /* 3.8 */
    assert_int_equal(block_of(t, 1), DIST_BLOCK_LAUNCHED);
    started(t, 102, try_of(1, 0, 1, 1));
    assert_int_equal(job_view_of(t, 1).state, JOB_RUNNING);
    HEAR(t, 101, PROBE_CANCELLED, probe_cancelled, .job = J(1), .count = 1);
    t->now += 20000;
    finished(t, 102, try_of(1, 0, 1, 1), 0, 19000);
    says(t, "102 FINISH_ACK id=3.1/0@1.1");
    says(t, "central JOB_REPORT name=\"job\" mean_us=19000 task_us=19000 tasks=1 class=0");
    says(t, "- JOB_EVENT job=3.1 done=1 failed=0 state=3");
    v = job_view_of(t, 1);
    assert_int_equal(v.state, JOB_DONE);
    assert_int_equal(v.done, 1);
    assert_int_equal(v.response_us, 25000);
    assert_int_equal(v.first_start_us, 5000);
    assert_int_equal(v.probes_sent, 2);
    assert_int_equal(v.probes_cancelled, 1);
    assert_int_equal(v.probes_live, 0);
    assert_int_equal(task_view_of(t, 1, 0).wait_us, 5000);
    assert_int_equal(task_view_of(t, 1, 0).run_us, 19000);
    assert_int_equal(task_view_of(t, 1, 0).worker.v, 102);
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

static void test_limits_and_bad_jobs_are_refused(void **state)
{
    struct talk *t = talk_new("hawk");
    struct job_desc *bad = desc_new(1, "");

    t->cfg.jobs_unfinished_max = 2;
    t->cfg.tasks_unfinished_max = 10;
    talk_begin(t);
    central_joins(t);
    bad->tasks = 0;
    submit(t, bad);
    says(t, "- SUBMITTED job=- client=9 err=-2");
    submit(t, desc_new(11, ""));
    says(t, "- SUBMITTED job=- client=9 err=-4");
    submit(t, desc_new(8, ""));
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    submit(t, desc_new(3, ""));
    says(t, "- SUBMITTED job=- client=9 err=-4");
    submit(t, desc_new(2, ""));
    says(t, "- SUBMITTED job=3.2 client=9 err=0");
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED job=- client=9 err=-4");
    talk_end(t);
}

static void test_detached_jobs_are_journalled_first(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct job_desc *desc = desc_new(1, "");

    desc->flags = JOB_DETACHED;
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .client = 9);
    says(t, "- JOURNAL_JOB job=3.1 token=1 desc=\"\"x1 tasks=all estimate_us=0 epoch=1 "
            "life=1 handed=0 why=0 class=0");
    assert_null(dist_find(&t->d, J(1))); /* nobody knows of it yet */
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "- CANCELLED job=3.1 client=4 err=-5");
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .client = 10);
    says(t, "- JOURNAL_JOB job=3.2 token=2");
    /* One answer covers all tokens up to its own. */
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 2);
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    says(t, "101 PROBE job=3.1");
    says(t, "102 PROBE job=3.1");
    says(t, "- SUBMITTED job=3.2 client=10 err=0");
    says(t, "101 PROBE job=3.2");
    says(t, "102 PROBE job=3.2");
    HEAR(t, 0, SUBMIT, submit, .desc = desc, .client = 11);
    says(t, "- JOURNAL_JOB job=3.3 token=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 3, .err = HAWK_EIO);
    says(t, "- SUBMITTED job=- client=11 err=-19");
    says(t, "- JOURNAL_JOB_END job=3.3 token=4"); /* whatever of it did get written */
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 1);
    says(t, "central JOB_REPORT name=\"\"");
    says(t, "- JOURNAL_TASK id=3.1/0@1.1 token=5");
    says(t, "- JOB_EVENT job=3.1");
    says(t, "- JOURNAL_ENDED job=3.1 token=6 cutoff_us=10000000 response_us=0 ago_us=0 left_out=0 epoch=1 "
            "state=3");
    HEAR(t, 0, JOURNAL_DONE, journal_done, .token = 6);
    says(t, "101 FINISH_ACK"); /* now that it will not be forgotten */
    job_desc_drop(desc);
    talk_end(t);
}

static void test_probes_and_rounds(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct policy p = t->cfg.policy;

    /* Seven probes on two slots: three rounds, and one more. */
    p.probe_ratio_milli = 1300;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    submit(t, desc_new(5, "")); /* ceil(6.5) */
    says(t, "- SUBMITTED");
    assert_int_equal(job_view_of(t, 1).probes_sent, 7);
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_PROBE)
            assert_in_range(t->out.v[i].probe.count, 3, 4);
    ignore(t);
    /* Never fewer than tasks, nor than min_probes. */
    p.probe_ratio_milli = 100;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    submit(t, desc_new(5, ""));
    ignore(t);
    assert_int_equal(job_view_of(t, 2).probes_sent, 5);
    p.min_probes = 10;
    p.flags |= POLICY_SPLIT_COUNTS;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    submit(t, desc_new(5, ""));
    says(t, "- SUBMITTED job=3.3");
    for (int i = 0; i < 5; i++) {
        says(t, "101 PROBE job=3.3 estimate_us=0 count=1");
        says(t, "102 PROBE job=3.3 estimate_us=0 count=1");
    }
    talk_end(t);
}

static void test_only_live_workers_with_a_stream_are_drawn(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    worker_member(t, 102, 1, MEMBER_UP, true); /* no stream yet */
    worker_up(t, 103, 1, true);
    worker_member(t, 103, 1, MEMBER_DRAINING, true);
    worker_up(t, 104, 1, true);
    worker_member(t, 104, 1, MEMBER_SUSPECT, true);
    HEAR(t, 105, PEER_UP, peer_up, .role = ROLE_WORKER); /* central has not listed it yet */
    submit(t, desc_new(4, ""));
    says(t, "- SUBMITTED");
    says(t, "101 PROBE job=3.1 estimate_us=0 count=8");
    worker_member(t, 105, 3, MEMBER_UP, true);
    /* Its share of the eight, as three of four slots. */
    says(t, "105 PROBE job=3.1 estimate_us=0 count=6");
    talk_end(t);
}

static void test_partitions(void **state)
{
    struct talk *t = talk_joined("split", 2);
    struct job_desc *desc = desc_new(1, "");

    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_RESERVED);
    worker_up(t, 103, 1, false);
    says(t, "103 PROBE job=3.1 estimate_us=0 count=2");
    HEAR(t, CENTRAL, POLICY, policy,
         .policy = {.flags =
                        POLICY_LONG_GENERAL | POLICY_CANCEL_PROBES | POLICY_SHORT_RESERVED | POLICY_PARTITION,
                    .short_share_ppm = 170000,
                    .cutoff_us = 10,
                    .probe_ratio_milli = 2000});
    desc->tag = TAG_LONG;
    submit(t, desc); /* central does not place long jobs: they are probed for, among general workers */
    says(t, "- SUBMITTED job=3.2 client=9 err=0 class=1 why=1");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=1 class=1");
    says(t, "102 PROBE job=3.2 estimate_us=0 count=1 class=1");
    request(t, 101, 2, 1);
    says(t, "101 TASK_LAUNCH id=3.2/0@1.1 desc=\"\"x1 arg=- request=1 promotable=0");
    says(t, "102 PROBE_CANCEL job=3.2");
    /* A worker that changes sides gets its share of what waits for too few there. */
    worker_member(t, 101, 1, MEMBER_UP, false);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=1");
    talk_end(t);
}

/* An operator switches the partition off, and forgets that short jobs go to reserved workers alone. */
static void test_without_a_partition_short_jobs_go_anywhere(void **state)
{
    struct talk *t = talk_joined("split", 1);
    struct policy p;

    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_RESERVED);
    assert_int_equal(policy_preset("split", &p), 0);
    p.flags &= ~(uint32_t)POLICY_PARTITION;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=2");
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED");
    says(t, "101 PROBE job=3.2 estimate_us=0 count=2");
    p.flags |= POLICY_PARTITION;
    p.short_share_ppm = 0;
    HEAR(t, CENTRAL, POLICY, policy, .policy = p);
    submit(t, desc_new(1, ""));
    says(t, "- SUBMITTED");
    says(t, "101 PROBE job=3.3 estimate_us=0 count=2");
    talk_end(t);
}

static void test_waits_for_the_first_worker(void **state)
{
    struct talk *t = talk_joined("hawk", 0);

    submit(t, desc_new(2, ""));
    says(t, "- SUBMITTED job=3.1 client=9 err=0");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_NO_WORKERS);
    assert_true(dist_next_timeout(&t->d) == TIME_NEVER); /* waiting costs nothing */
    worker_up(t, 101, 1, true);
    says(t, "101 PROBE job=3.1 estimate_us=0 count=4");
    worker_up(t, 102, 1, true); /* one that comes later gets its share */
    says(t, "102 PROBE job=3.1 estimate_us=0 count=2");
    talk_end(t);
}

/* Central restarts, and lists the workers one after the other, as they join: their streams and queues are as before. */
static void test_who_is_listed_again_has_its_share(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    struct members *none = members_new(0);

    submit(t, desc_new(2, ""));
    ignore(t);
    for (int restart = 0; restart < 3; restart++) {
        HEAR(t, CENTRAL, MEMBERS, members, .list = none);
        worker_member(t, 101, 1, MEMBER_UP, true);
        worker_member(t, 102, 1, MEMBER_UP, true);
    }
    members_drop(none);
    assert_int_equal(job_view_of(t, 1).probes_live, 4);
    worker_up(t, 103, 1, true); /* who was not there before has none yet */
    says(t, "103 PROBE job=3.1 estimate_us=0 count=2");
    talk_end(t);
}

/* Adds the probes of job 1 that workers 101 to 103 were sent in the last step. */
static void note_probes(struct talk *t, uint32_t at[3])
{
    for (uint32_t i = 0; i < t->out.n; i++)
        if (t->out.v[i].type == MSG_PROBE)
            at[t->out.v[i].peer - 101] += t->out.v[i].probe.count;
    ignore(t);
}

/* Probes that general workers refuse because of long tasks go elsewhere at once. When more than twice as many
 * as the job's were refused, they go to the short partition, here worker 103, which refuses them for another
 * reason. */
static void test_probes_avoid_long_tasks(void **state)
{
    struct talk *t = talk_joined("eagle", 2);
    uint32_t at[3] = {0}, turned_away = 0;

    worker_up(t, 103, 1, false);
    submit(t, desc_new(1, ""));
    note_probes(t, at);
    for (int i = 0; i < 40; i++) {
        uint32_t w = at[0] ? 0 : at[1] ? 1 : 2, n = at[w], general = at[0] + at[1];

        at[w] = 0;
        HEAR(t, 101 + w, PROBE_REFUSED, probe_refused, .job = J(1), .count = n,
             .err = w == 2 ? HAWK_ELIMIT : HAWK_EBUSY);
        turned_away += w == 2 ? 0 : n;
        assert_int_equal(block_of(t, 1) == DIST_BLOCK_REFUSED, w == 2 && at[0] + at[1] + at[2] == 0);
        note_probes(t, at);
        if (at[0] + at[1] + at[2] == 0) {
            wait_timer(t, 2 * US_PER_S);
            note_probes(t, at);
        }
        assert_true(turned_away <= 4 || at[0] + at[1] <= general);
    }
    assert_true(turned_away > 4);
    assert_int_equal(at[0] + at[1], 0);
    assert_int_equal(at[2], 2);
    talk_end(t);
}

static void test_refused_probes_are_sent_again_later(void **state)
{
    struct talk *t = talk_joined("hawk", 2);
    int64_t before = 0;

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1, .err = HAWK_ELIMIT);
    for (int i = 0; i < 8; i++) { /* the other is enough, until it refuses too; then later and later */
        int64_t at;

        HEAR(t, 102, PROBE_REFUSED, probe_refused, .job = J(1), .count = 1, .err = HAWK_ELIMIT);
        HEAR(t, 101, PROBE_REFUSED, probe_refused, .job = J(1), .count = 9, .err = HAWK_ELIMIT);
        assert_int_equal(block_of(t, 1), DIST_BLOCK_REFUSED);
        at = t->now;
        wait_timer(t, 2 * US_PER_S);
        assert_true(i == 0 || t->now - at > before / 3);
        before = t->now - at;
        says(t, "101 PROBE job=3.1");
        says(t, "102 PROBE job=3.1");
    }
    assert_true(before > 500 * US_PER_MS);
    request(t, 101, 1, 1);
    ignore(t);
    talk_end(t);
}

static void test_requests_and_no_task(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    t->d.policy.flags &= ~(uint32_t)POLICY_CANCEL_PROBES;
    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x2 arg=- request=1");
    HEAR(t, 101, TASK_REQUEST, task_request, .job = J(1), .request = 2, .has_spec = 1);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1 desc=- arg=- request=2");
    /* The same request again gets the same answer: a task … */
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x2 arg=- request=1");
    request(t, 102, 1, 1);
    says(t, "102 NO_TASK job=3.1 request=1");
    assert_int_equal(job_view_of(t, 1).probes_live, 0); /* 3.7: the other one it had is dropped */
    assert_int_equal(job_view_of(t, 1).probes_unused, 2);
    /* … or none. */
    HEAR(t, 101, PEER_LOST, peer_lost, 0);
    ignore(t);
    request(t, 102, 1, 1);
    says(t, "102 NO_TASK job=3.1 request=1");
    request(t, 102, 99, 2); /* a job nobody knows */
    says(t, "102 NO_TASK job=3.99 request=2");
    talk_end(t);
}

static void test_each_task_gets_its_argument(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(2, "");

    desc->flags = JOB_EACH_ARG;
    task_args_add(&desc->args, "one", 3);
    task_args_add(&desc->args, "two", 3);
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    says(t, "101 TASK_LAUNCH id=3.1/0@1.1 desc=\"\"x2 arg=\"one\"");
    request(t, 101, 1, 2);
    says(t, "101 TASK_LAUNCH id=3.1/1@1.1 desc=\"\"x2 arg=\"two\"");
    ignore(t);
    talk_end(t);
}

static void test_watchers_hear_every_change(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(1, ""));
    ignore(t);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 1);
    HEAR(t, 0, WATCH, watch, .job = J(1), .on = 0); /* one is left */
    request(t, 101, 1, 1);
    says(t, "- TASK_EVENT id=3.1/0@1.1 run_us=0 wait_us=0 worker=101 code=0 state=2 outcome=0");
    ignore(t);
    t->now += 30;
    started(t, 101, try_of(1, 0, 1, 1));
    says(t, "- TASK_EVENT id=3.1/0@1.1 run_us=0 wait_us=30 worker=101 code=0 state=3 outcome=0");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=2");
    finished(t, 101, try_of(1, 0, 1, 1), 7, 5);
    says(t, "101 FINISH_ACK");
    /* The news of its start was late: it had begun 5 us before its end. */
    says(t, "- TASK_EVENT id=3.1/0@1.1 run_us=5 wait_us=25 worker=101 code=7 state=5 outcome=1");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=1 state=4"); /* and no JOB_REPORT: nothing exited 0 */
    HEAR(t, 0, WATCH, watch, .job = J(9), .on = 1);
    talk_end(t);
}

static void test_max_fails_cancels_the_rest(void **state)
{
    struct talk *t = talk_joined("hawk", 1);
    struct job_desc *desc = desc_new(5, "");

    desc->max_fails = 1;
    submit(t, desc);
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    request(t, 101, 1, 2);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 1, 5);
    says(t, "101 FINISH_ACK");
    says(t, "101 TASK_CANCEL id=3.1/1@1.1");
    says(t, "101 PROBE_CANCEL job=3.1");
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 1, 1, 1), .outcome = OUTCOME_CANCELLED);
    says(t, "101 FINISH_ACK");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=1 state=4");
    assert_int_equal(job_view_of(t, 1).cancelled, 4);
    talk_end(t);
}

static void not_started(struct talk *t, uint32_t task, size_t text_bytes)
{
    struct blob *why = blob_new(NULL, text_bytes);

    memset(why->data, 'y', text_bytes);
    ignore(t);
    request(t, 101, 1, task + 1);
    ignore(t);
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, task, 1, 1), .outcome = OUTCOME_NOT_STARTED,
         .code = 126, .result = why);
    blob_drop(why);
}

/* Why tasks were not started is kept of the first of a job's, and so much of it. */
static void test_says_why_not_started(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    submit(t, desc_new(20, ""));
    not_started(t, 0, 3);
    not_started(t, 1, 0);
    not_started(t, 2, 4000);
    for (uint32_t i = 3; i < 20; i++)
        not_started(t, i, 5);
    ignore(t);
    assert_string_equal(task_view_of(t, 1, 0).message->data, "yyy");
    assert_null(task_view_of(t, 1, 1).message);
    assert_int_equal(task_view_of(t, 1, 2).message->len, 512);
    assert_int_equal(task_view_of(t, 1, 16).message->len, 5);
    assert_null(task_view_of(t, 1, 17).message); /* sixteen are kept */
    talk_end(t);
}

static void test_cancel(void **state)
{
    struct talk *t = talk_joined("hawk", 2);

    submit(t, desc_new(2, ""));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 4);
    says(t, "- CANCELLED job=3.1 client=4 err=0");
    says(t, "101 TASK_CANCEL id=3.1/0@1.1");
    says(t, "101 PROBE_CANCEL job=3.1");
    says(t, "102 PROBE_CANCEL job=3.1");
    assert_int_equal(block_of(t, 1), DIST_BLOCK_CANCELLING);
    HEAR(t, 0, CANCEL, cancel, .job = J(1), .client = 5);
    says(t, "- CANCELLED job=3.1 client=5 err=0");
    request(t, 102, 1, 1); /* sent before the cancellation arrived */
    says(t, "102 NO_TASK job=3.1 request=1");
    HEAR(t, 101, TASK_FINISHED, task_finished, .id = try_of(1, 0, 1, 1), .outcome = OUTCOME_CANCELLED);
    says(t, "101 FINISH_ACK");
    says(t, "- JOB_EVENT job=3.1 done=0 failed=0 state=5");
    HEAR(t, 0, CANCEL, cancel, .job = J(8), .client = 6);
    says(t, "- CANCELLED job=3.8 client=6 err=-5");
    talk_end(t);
}

static void test_finished_jobs_are_kept_up_to_limits(void **state)
{
    struct talk *t = talk_new("hawk");

    t->cfg.finished_kept = 3;
    t->cfg.finished_tasks_kept = 5;
    talk_begin(t);
    central_joins(t);
    for (uint64_t seq = 1; seq <= 6; seq++) {
        submit(t, desc_new(seq == 6 ? 4 : 1, ""));
        ignore(t);
        HEAR(t, 0, CANCEL, cancel, .job = J(seq));
        ignore(t);
    }
    /* 6 has four tasks: with it, only one more of one fits. */
    assert_non_null(dist_find(&t->d, J(6)));
    assert_non_null(dist_find(&t->d, J(5)));
    assert_null(dist_find(&t->d, J(4)));
    assert_int_equal(dist_newest(&t->d)->id.v, J(6).v);
    assert_int_equal(dist_older(&t->d, dist_newest(&t->d))->id.v, J(5).v);
    assert_null(dist_older(&t->d, dist_find(&t->d, J(5))));
    /* The last one stays although it is too large by itself. */
    submit(t, desc_new(9, ""));
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(7));
    ignore(t);
    assert_non_null(dist_find(&t->d, J(7)));
    assert_null(dist_find(&t->d, J(6)));
    talk_end(t);
}

/* A job of that user's ends. */
static void one_ends(struct talk *t, const char *user, uint64_t seq, uint32_t tasks)
{
    struct job_desc *desc = desc_new(tasks, "");

    blob_drop(desc->user);
    desc->user = blob_str(user);
    submit(t, desc);
    ignore(t);
    HEAR(t, 0, CANCEL, cancel, .job = J(seq));
    ignore(t);
}

static void test_who_has_most_finished_jobs_makes_room(void **state)
{
    struct talk *t = talk_new("hawk");

    t->cfg.finished_kept = 4;
    t->cfg.finished_tasks_kept = 20;
    talk_begin(t);
    central_joins(t);
    one_ends(t, "bob", 1, 1);
    one_ends(t, "eve", 2, 1);
    for (uint64_t seq = 3; seq <= 9; seq++)
        one_ends(t, "ann", seq, 1);
    t->d.cfg.finished_tasks_kept = 3; /* one that is too large by itself pushes none of these out */
    one_ends(t, "zoe", 10, 30);
    t->d.cfg.finished_tasks_kept = 20;
    for (uint64_t seq = 1; seq <= 10; seq++)
        assert_true(!!dist_find(&t->d, J(seq)) == (seq <= 2 || seq >= 9));
    one_ends(t, "ann", 11, 1);
    assert_null(dist_find(&t->d, J(10)));
    assert_non_null(dist_find(&t->d, J(1)));
    /* Of users with one each, who ended last stays. */
    for (uint64_t seq = 12; seq <= 20; seq++) {
        one_ends(t, (char[]){(char)('a' + seq), 0}, seq, 1);
        assert_non_null(dist_find(&t->d, J(seq)));
        assert_int_equal(t->d.jobs_finished, 4);
    }
    talk_end(t);
}

static void test_reports_wait_for_central(void **state)
{
    struct talk *t = talk_joined("hawk", 1);

    HEAR(t, CENTRAL, PEER_LOST, peer_lost, 0);
    submit(t, desc_new(1, "n"));
    ignore(t);
    request(t, 101, 1, 1);
    ignore(t);
    finished(t, 101, try_of(1, 0, 1, 1), 0, 5);
    ignore(t);
    assert_false(dist_quiet(&t->d));
    central_joins(t);
    says(t, "central JOB_REPORT name=\"n\" mean_us=5 task_us=5 tasks=1 class=0");
    assert_true(dist_quiet(&t->d));
    talk_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins_and_takes_nothing_before),
        cmocka_unit_test(test_refused_stops),
        cmocka_unit_test(test_heartbeats_and_counters),
        cmocka_unit_test(test_members_are_kept),
        cmocka_unit_test(test_one_task_from_submission_to_end),
        cmocka_unit_test(test_limits_and_bad_jobs_are_refused),
        cmocka_unit_test(test_detached_jobs_are_journalled_first),
        cmocka_unit_test(test_probes_and_rounds),
        cmocka_unit_test(test_only_live_workers_with_a_stream_are_drawn),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_without_a_partition_short_jobs_go_anywhere),
        cmocka_unit_test(test_waits_for_the_first_worker),
        cmocka_unit_test(test_who_is_listed_again_has_its_share),
        cmocka_unit_test(test_probes_avoid_long_tasks),
        cmocka_unit_test(test_refused_probes_are_sent_again_later),
        cmocka_unit_test(test_requests_and_no_task),
        cmocka_unit_test(test_each_task_gets_its_argument),
        cmocka_unit_test(test_watchers_hear_every_change),
        cmocka_unit_test(test_max_fails_cancels_the_rest),
        cmocka_unit_test(test_says_why_not_started),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_finished_jobs_are_kept_up_to_limits),
        cmocka_unit_test(test_who_has_most_finished_jobs_makes_room),
        cmocka_unit_test(test_reports_wait_for_central),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
