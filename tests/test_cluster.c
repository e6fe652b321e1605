/* The roles together on the bus, in virtual time: whole jobs, stealing, promotion, faults. */
#include "tests/test_cluster.h"

static int64_t response_us(const struct cluster_job *j) { return j->end_us - j->submit_us; }

/* ---- One job ---- */

static void test_one_short_job(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 8, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 4, 100 * MS, TAG_SHORT);
    struct job_view v;

    cluster_submit(c, j, 0);
    cluster_run_jobs(c, 10 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(j->class, CLASS_SHORT);
    assert_int_equal(j->why, WHY_TAG);
    assert_int_equal(starts_of(j, 4), 4);
    /* Probe, request, launch; then the completion: four messages of half a millisecond. */
    assert_int_equal(response_us(j), 100 * MS + 4 * 500);
    cluster_view(c, j, &v);
    assert_int_equal(v.probes_sent, 8); /* 2t (Sparrow 3.4) */
    assert_int_equal(v.probes_live, 0);
    assert_int_equal(v.probes_cancelled + v.probes_unused, 4);
    assert_int_equal(v.done, 4);
    finish(c, 0);
}

/* How many messages dist and workers have taken when the first task of a job of so many starts. */
static uint64_t messages_until_the_first_start(uint32_t tasks)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, tasks, 1 * MS, TAG_SHORT);
    uint64_t before = cluster_counter(c, COUNTER_messages_in), messages;

    cluster_submit(c, j, 0);
    for (int i = 0; i < 100 && starts_of(j, tasks) == 0; i++)
        cluster_run(c, 100);
    assert_true(starts_of(j, tasks) > 0);
    messages = cluster_counter(c, COUNTER_messages_in) - before;
    finish(c, 600 * S);
    return messages;
}

/* A file of 10,000 lines is one job. Its first task waits for one probe, one request and one answer, however
 * many others there are. With what the other worker says, and heartbeats, these are a dozen. */
static void test_the_first_task_waits_for_no_other(void **state)
{
    assert_in_range(messages_until_the_first_start(1), 3, 12);
    assert_in_range(messages_until_the_first_start(10000), 3, 12);
}

/* Sparrow 3.6: when the last task is launched, what else was reserved for the job is cancelled at once. */
static void test_left_over_reservations_are_cancelled(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .delay_us = 500});
    struct cluster_job *busy = cluster_job(c, 2, 5 * S, TAG_SHORT),
                       *j = cluster_job(c, 1, 100 * MS, TAG_SHORT);
    struct job_view v;

    busy->tasks[1].duration_us = 20 * S;
    cluster_submit(c, busy, 0);
    cluster_run(c, 1 * S);
    cluster_submit(c, j, 0);
    cluster_run(c, 1 * S);
    cluster_view(c, j, &v);
    assert_int_equal(v.probes_live, 2);
    cluster_run(c, 4 * S); /* one worker is free, and has run it; the other still runs its own */
    assert_int_equal(j->state, JOB_DONE);
    cluster_view(c, j, &v);
    assert_int_equal(v.probes_cancelled, 1);
    for (uint32_t i = 0; i < 2; i++) {
        struct worker_counts counts;

        worker_counts(&c->workers[i]->w, &counts);
        assert_int_equal(counts.reservations, 0);
    }
    finish(c, 60 * S);
}

static void test_one_long_job(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 8, .share_ppm = 250000, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 12, 30 * S, TAG_LONG);
    struct job_view v;
    uint32_t busy = 0;

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    for (uint32_t i = 0; i < 8; i++) {
        struct worker_counts counts;

        worker_counts(&c->workers[i]->w, &counts);
        if (!counts.general)
            assert_int_equal(cluster_running(c, i), 0);
        busy += cluster_running(c, i);
    }
    assert_int_equal(busy, 6); /* the general partition */
    cluster_view(c, j, &v);
    assert_true(node_eq(v.owner, NODE_CENTRAL));
    assert_int_equal(v.probes_sent, 0);
    cluster_run_jobs(c, 100 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(starts_of(j, 12), 12);
    assert_true(response_us(j) < 61 * S); /* two rounds of six */
    finish(c, 0);
}

static void test_untagged_by_estimate(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4});
    struct cluster_job *quick = cluster_job(c, 2, 100 * MS, TAG_AUTO);
    struct cluster_job *slow = cluster_job(c, 2, 20 * S, TAG_AUTO);

    quick->desc->estimate_us = 9 * S;
    slow->desc->estimate_us = 11 * S;
    cluster_submit(c, quick, 0);
    cluster_submit(c, slow, 0);
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(quick->class, CLASS_SHORT);
    assert_int_equal(slow->class, CLASS_LONG);
    assert_int_equal(slow->why, WHY_ESTIMATE);
    finish(c, 0);
}

static void test_history_classifies_the_next_run(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .dists = 2});
    struct cluster_job *first = cluster_job(c, 2, 20 * S, TAG_LONG), *again;

    cluster_name_job(first, "nightly");
    cluster_submit(c, first, 0);
    cluster_run_jobs(c, 60 * S);
    cluster_run(c, 1 * S);
    again = cluster_job(c, 2, 20 * S, TAG_AUTO);
    cluster_name_job(again, "nightly");
    cluster_submit(c, again, 1); /* what one dist ran, the other knows */
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(again->class, CLASS_LONG);
    assert_int_equal(again->why, WHY_HISTORY);
    finish(c, 0);
}

static void test_failed_tasks_fail_the_job(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4});
    struct cluster_job *j = cluster_job(c, 4, 100 * MS, TAG_SHORT), *k = cluster_job(c, 4, 20 * S, TAG_LONG);

    j->tasks[2].code = k->tasks[1].code = 3;
    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(j->state, JOB_FAILED);
    assert_int_equal(k->state, JOB_FAILED);
    assert_int_equal(j->tasks[2].state, TASK_FAILED);
    assert_int_equal(k->tasks[1].state, TASK_FAILED);
    assert_int_equal(starts_of(j, 4), 4); /* a task that failed is not tried again */
    finish(c, 0);
}

static void test_cancel(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4});
    struct cluster_job *j = cluster_job(c, 20, 5 * S, TAG_SHORT), *k = cluster_job(c, 20, 20 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 8 * S);
    cluster_cancel(c, j);
    cluster_cancel(c, k);
    cluster_run_jobs(c, 2 * S);
    assert_int_equal(j->state, JOB_CANCELLED);
    assert_int_equal(k->state, JOB_CANCELLED);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(cluster_running(c, i), 0);
    finish(c, 0);
}

/* ---- Many jobs ---- */

/* A stream of short jobs over a long one. Returns the short jobs' mean response time. */
static int64_t short_jobs_behind_a_long_one(const char *policy, uint64_t *stolen, int64_t *long_us)
{
    struct cluster_config config = {
        .policy = policy, .workers = 10, .share_ppm = 200000, .dists = 2, .delay_us = 500, .seed = 7};
    struct cluster *c = up(&config);
    struct cluster_job *long_job = cluster_job(c, 8, 60 * S, TAG_LONG), *shorts[40];
    int64_t total_us = 0;

    cluster_submit(c, long_job, 0);
    cluster_run(c, 1 * S);
    for (uint32_t i = 0; i < 40; i++) {
        shorts[i] = cluster_job(c, 3, 200 * MS, TAG_SHORT);
        cluster_submit(c, shorts[i], i % 2);
        cluster_run(c, 500 * MS);
    }
    cluster_run_jobs(c, 200 * S);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(shorts[i]->state, JOB_DONE);
        total_us += response_us(shorts[i]);
    }
    *stolen = cluster_counter(c, COUNTER_tasks_stolen);
    *long_us = response_us(long_job);
    cluster_expect_all_quiet(c);
    cluster_free(c);
    return total_us / 40;
}

static void test_stealing_helps(void **state)
{
    uint64_t stolen, stolen_without, stolen_neither;
    int64_t long_us, long_without_us, long_neither_us;
    int64_t with_us = short_jobs_behind_a_long_one("hawk", &stolen, &long_us);
    int64_t without_us = short_jobs_behind_a_long_one("hawk-no-steal", &stolen_without, &long_without_us);
    int64_t neither_us = short_jobs_behind_a_long_one("sparrow", &stolen_neither, &long_neither_us);

    assert_true(stolen > 0);
    assert_int_equal(stolen_without, 0);
    assert_int_equal(stolen_neither, 0);
    /* Without it some wait for the end of the long tasks. */
    assert_true(with_us * 3 < without_us);
    assert_true(with_us * 3 < neither_us);
    assert_true(with_us < 1 * S);
    assert_true(long_us < long_without_us * 11 / 10);
}

/* DESIGN 3.4: no reservation stays stuck for more than 50 ms while a thief is parked, by hints alone. */
static void test_hints_free_what_is_stuck(void **state)
{
    struct cluster *c = up(&(struct cluster_config){
        .workers = 4, .share_ppm = 250000, .flags_off = POLICY_STEAL_RETRY, .delay_us = 500});
    struct cluster_job *long_job = cluster_job(c, 3, 60 * S, TAG_LONG), *j[10];

    cluster_submit(c, long_job, 0);
    cluster_run(c, 5 * S); /* the one reserved worker has nothing to do */
    for (uint32_t i = 0; i < 10; i++) {
        j[i] = cluster_job(c, 1, 10 * MS, TAG_SHORT);
        cluster_submit(c, j[i], 0);
        cluster_run(c, 2 * S);
        assert_true(cluster_ended(j[i]));
        assert_true(response_us(j[i]) < 10 * MS + 60 * MS);
    }
    assert_true(cluster_counter(c, COUNTER_tasks_stolen) > 0);
    finish(c, 100 * S);
}

static void test_own_retries_free_what_is_stuck(void **state)
{
    struct cluster *c = up(&(struct cluster_config){
        .workers = 4, .share_ppm = 250000, .flags_off = POLICY_STEAL_HINTS, .delay_us = 500});
    struct cluster_job *long_job = cluster_job(c, 3, 60 * S, TAG_LONG), *j[8];

    cluster_submit(c, long_job, 0);
    cluster_run(c, 2 * S);
    for (uint32_t i = 0; i < 8; i++) {
        j[i] = cluster_job(c, 1, 10 * MS, TAG_SHORT);
        cluster_submit(c, j[i], 0);
        cluster_run(c, 6 * S);
        assert_true(cluster_ended(j[i]));
    }
    assert_true(cluster_counter(c, COUNTER_tasks_stolen) > 0);
    finish(c, 100 * S);
}

static void test_an_idle_cluster_is_silent(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 6, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 6, 15 * S, TAG_LONG);
    uint64_t requests;

    cluster_submit(c, j, 0);
    cluster_run_jobs(c, 60 * S);
    cluster_run(c, 5 * S); /* central tells that no long work is left after a second */
    requests = cluster_counter(c, COUNTER_steal_requests);
    cluster_run(c, 600 * S);
    assert_int_equal(cluster_counter(c, COUNTER_steal_requests), requests);
    finish(c, 0);
}

static void test_several_slots(void **state)
{
    for (int per_slot = 0; per_slot < 2; per_slot++) {
        struct cluster *c = up(&(struct cluster_config){
            .workers = 4, .slots = 4, .share_ppm = 250000, .queue_per_slot = per_slot, .delay_us = 100});
        struct cluster_job *l = cluster_job(c, 14, 20 * S, TAG_LONG), *j;

        cluster_submit(c, l, 0);
        for (uint32_t i = 0; i < 20; i++) {
            j = cluster_job(c, 5, 300 * MS, TAG_SHORT);
            cluster_submit(c, j, 0);
            cluster_run(c, 400 * MS);
        }
        cluster_run_jobs(c, 100 * S);
        for (uint32_t i = 0; i < c->jobs_n; i++)
            assert_int_equal(c->jobs[i]->state, JOB_DONE);
        finish(c, 0);
    }
}

static void test_policies_run_every_job(void **state)
{
    for (size_t p = 0; policy_names[p]; p++) {
        struct cluster *c = up(&(struct cluster_config){.policy = policy_names[p],
                                                        .workers = 10,
                                                        .share_ppm = 200000,
                                                        .dists = 2,
                                                        .delay_us = 500,
                                                        .seed = p});
        struct policy policy;

        for (uint32_t i = 0; i < 12; i++) {
            cluster_submit(c, cluster_job(c, 1 + i % 4, 15 * S, TAG_LONG), i % 2);
            cluster_submit(c, cluster_job(c, 1 + i % 5, 100 * MS, TAG_SHORT), (i + 1) % 2);
            cluster_run(c, 1 * S);
        }
        cluster_run_jobs(c, 600 * S);
        for (uint32_t i = 0; i < c->jobs_n; i++)
            assert_int_equal(c->jobs[i]->state, JOB_DONE);
        assert_int_equal(policy_preset(policy_names[p], &policy), 0);
        assert_int_equal(c->accepted_n, policy_has(&policy, POLICY_ALL_LONG)       ? 24
                                        : policy_has(&policy, POLICY_CENTRAL_LONG) ? 12
                                                                                   : 0);
        finish(c, 0);
    }
}

/* ---- Promotion ---- */

static void test_promotion(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 3, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 9, 25 * S, TAG_AUTO);
    struct job_view v;

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    assert_int_equal(j->class, CLASS_SHORT);
    assert_int_equal(j->why, WHY_UNKNOWN);
    cluster_run(c, 6 * S); /* the first tasks have outlived the cutoff of 10 s */
    cluster_view(c, j, &v);
    assert_int_equal(v.why, WHY_PROMOTED);
    assert_int_equal(v.class, CLASS_LONG);
    assert_true(node_eq(v.owner, NODE_CENTRAL));
    assert_int_equal(v.probes_live, 0);
    cluster_run_jobs(c, 120 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(starts_of(j, 9), 9);
    assert_true(response_us(j) < 76 * S);
    assert_int_equal(cluster_counter(c, COUNTER_jobs_promoted), 1);
    finish(c, 0);
}

/* Two tasks of sixty-two outlive the cutoff: they run on, and the others use every slot, the reserved one
 * too. Alone on four slots the job takes 6 s at least. */
static void test_slow_tasks_do_not_hold_up_the_others(void **state)
{
    struct cluster *c = up(&(struct cluster_config){
        .policy = "hawk", .workers = 4, .share_ppm = 250000, .cutoff_us = S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 62, 200 * MS, TAG_AUTO);

    j->tasks[0].duration_us = j->tasks[1].duration_us = 6 * S;
    cluster_submit(c, j, 0);
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(cluster_counter(c, COUNTER_jobs_promoted), 0);
    assert_true(response_us(j) < 6 * S + 500 * MS);
    finish(c, 0);
}

/* ---- The same again ---- */

static uint64_t hash_of_a_run(uint64_t seed)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 6, .dists = 2, .delay_us = 500, .seed = seed});
    uint64_t hash;

    for (uint32_t i = 0; i < 20; i++) {
        cluster_submit(c, cluster_job(c, 3, i % 4 ? 100 * MS : 12 * S, i % 4 ? TAG_SHORT : TAG_LONG), i % 2);
        cluster_run(c, 200 * MS);
    }
    cluster_run_jobs(c, 300 * S);
    hash = c->hash;
    cluster_free(c);
    return hash;
}

static void test_same_seed_same_run(void **state)
{
    assert_true(hash_of_a_run(1) == hash_of_a_run(1));
    assert_true(hash_of_a_run(1) != hash_of_a_run(2));
}

/* An argument selects tests by name: test_cluster 'test_soak*'. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_short_job),
        cmocka_unit_test(test_the_first_task_waits_for_no_other),
        cmocka_unit_test(test_left_over_reservations_are_cancelled),
        cmocka_unit_test(test_one_long_job),
        cmocka_unit_test(test_untagged_by_estimate),
        cmocka_unit_test(test_history_classifies_the_next_run),
        cmocka_unit_test(test_failed_tasks_fail_the_job),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_stealing_helps),
        cmocka_unit_test(test_hints_free_what_is_stuck),
        cmocka_unit_test(test_own_retries_free_what_is_stuck),
        cmocka_unit_test(test_an_idle_cluster_is_silent),
        cmocka_unit_test(test_several_slots),
        cmocka_unit_test(test_policies_run_every_job),
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_slow_tasks_do_not_hold_up_the_others),
        cmocka_unit_test(test_same_seed_same_run),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
