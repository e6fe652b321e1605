/* The roles together on the bus, in virtual time: whole jobs, stealing, promotion, faults. */
#include "faults/cluster.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS US_PER_MS
#define S US_PER_S

static uint32_t sum(const uint32_t *v, uint32_t n)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += v[i];
    return total;
}

static int64_t response_us(const struct cluster_job *j) { return j->end_us - j->submit_us; }

static void on_failed(void *arg, enum invariant invariant, const char *text)
{
    fail_msg("invariant \"%s\" is violated %s", invariant_names[invariant], text);
}

static struct cluster *up(const struct cluster_config *config)
{
    struct cluster_config with = *config;
    struct cluster *c;

    with.failed = on_failed;
    c = cluster_new(&with);

    cluster_come_up(c);
    return c;
}

static void finish(struct cluster *c, int64_t limit_us)
{
    cluster_run_jobs(c, limit_us);
    cluster_expect_all_quiet(c);
    cluster_free(c);
}

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
    assert_int_equal(sum(j->starts, 4), 4);
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
    for (int i = 0; i < 100 && sum(j->starts, tasks) == 0; i++)
        cluster_run(c, 100);
    assert_true(sum(j->starts, tasks) > 0);
    messages = cluster_counter(c, COUNTER_messages_in) - before;
    finish(c, 600 * S);
    return messages;
}

/* A file of 10,000 lines is one job. Its first task waits for one probe, one request and one answer, however many others
 * there are. With what the other worker says, and heartbeats, these are a dozen. */
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

    busy->duration_us[1] = 20 * S;
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
    assert_int_equal(sum(j->starts, 12), 12);
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

    j->code[2] = k->code[1] = 3;
    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(j->state, JOB_FAILED);
    assert_int_equal(k->state, JOB_FAILED);
    assert_int_equal(j->task_state[2], TASK_FAILED);
    assert_int_equal(k->task_state[1], TASK_FAILED);
    assert_int_equal(sum(j->starts, 4), 4); /* a task that failed is not tried again */
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
        struct central_totals totals;
        struct policy policy;

        for (uint32_t i = 0; i < 12; i++) {
            cluster_submit(c, cluster_job(c, 1 + i % 4, 15 * S, TAG_LONG), i % 2);
            cluster_submit(c, cluster_job(c, 1 + i % 5, 100 * MS, TAG_SHORT), (i + 1) % 2);
            cluster_run(c, 1 * S);
        }
        cluster_run_jobs(c, 600 * S);
        for (uint32_t i = 0; i < c->jobs_n; i++)
            assert_int_equal(c->jobs[i]->state, JOB_DONE);
        central_view_totals(c->central, &totals);
        assert_int_equal(policy_preset(policy_names[p], &policy), 0);
        assert_int_equal(totals.jobs_accepted, policy_has(&policy, POLICY_ALL_LONG)       ? 24
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
    assert_int_equal(sum(j->starts, 9), 9);
    assert_true(response_us(j) < 76 * S);
    assert_int_equal(cluster_counter(c, COUNTER_jobs_promoted), 1);
    finish(c, 0);
}

/* ---- Members come and go ---- */

static void test_no_workers_yet(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 0, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 3, 100 * MS, TAG_SHORT), *k = cluster_job(c, 3, 20 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 10 * S);
    assert_true(j->submitted && !cluster_ended(j) && k->submitted && !cluster_ended(k));
    cluster_add_worker(c, 2);
    cluster_run_jobs(c, 60 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    finish(c, 0);
}

static void test_a_worker_joins_late(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 1, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 20, 5 * S, TAG_SHORT);
    uint32_t late;

    cluster_submit(c, j, 0);
    cluster_run(c, 7 * S);
    late = cluster_add_worker(c, 4);
    cluster_come_up(c);
    /* What comes now uses it. */
    cluster_submit(c, cluster_job(c, 10, 1 * S, TAG_SHORT), 0);
    cluster_run(c, 1 * S);
    assert_true(cluster_running(c, late) > 0);
    finish(c, 200 * S);
}

static void test_a_worker_dies_with_short_tasks(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 8, 5 * S, TAG_SHORT);

    cluster_submit(c, j, 0);
    cluster_run(c, 2 * S);
    assert_int_equal(cluster_running(c, 1), 1);
    cluster_kill_worker(c, 1);
    cluster_run_jobs(c, 30 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 8), 9); /* the one that was lost ran again */
    assert_int_equal(sum(j->ends, 8), 8);
    finish(c, 0);
}

static void test_a_worker_dies_with_long_tasks(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .lease_us = 20 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 8, 30 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    assert_int_equal(cluster_running(c, 2), 1);
    cluster_kill_worker(c, 2);
    cluster_run(c, 15 * S);
    assert_int_equal(sum(j->starts, 8), 4); /* not again before the lease has run out */
    cluster_run_jobs(c, 120 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 8), 9);
    assert_int_equal(sum(j->ends, 8), 8);
    finish(c, 0);
}

static void test_a_worker_restarts(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 3, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 6, 12 * S, TAG_LONG), *k = cluster_job(c, 6, 3 * S, TAG_SHORT);
    node_id_t before = bus_node(c->bus, c->workers[0]->ep);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 2 * S);
    cluster_restart_worker(c, 0);
    cluster_run_jobs(c, 200 * S);
    assert_true(node_eq(bus_node(c->bus, c->workers[0]->ep), before)); /* the name decides */
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    finish(c, 0);
}

/* DESIGN 3.10: nothing is started again but what was only queued. */
static void test_an_agent_comes_back_to_its_tasks(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .slots = 2, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 5, 20 * S, TAG_LONG);

    j->desc->retries = 0;
    cluster_submit(c, j, 0);
    cluster_run(c, 2 * S);
    assert_int_equal(cluster_running(c, 0), 2);
    cluster_crash_agent(c, 0);
    cluster_run(c, 2 * S);
    cluster_return_agent(c, 0);
    assert_int_equal(cluster_running(c, 0), 2);
    cluster_run(c, 1 * S); /* and again, before anything has ended */
    cluster_crash_agent(c, 0);
    cluster_return_agent(c, 0);
    cluster_run_jobs(c, 60 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 5), 5);
    assert_int_equal(sum(j->ends, 5), 5);
    finish(c, 0);
}

static void test_what_ended_while_the_agent_was_away_counts(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 1, .slots = 2, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 1, 4 * S, TAG_LONG), *k = cluster_job(c, 1, 4 * S, TAG_SHORT);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 2 * S);
    cluster_crash_agent(c, 0);
    cluster_run(c, 3 * S);
    assert_int_equal(sum(j->ends, 1) + sum(k->ends, 1), 2);
    cluster_return_agent(c, 0);
    cluster_run_jobs(c, 5 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    assert_int_equal(sum(j->starts, 1) + sum(k->starts, 1), 2);
    finish(c, 0);
}

static void test_an_agent_that_comes_too_late_has_nothing(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .lease_us = 20 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 2, 30 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 2 * S);
    cluster_crash_agent(c, 0);
    cluster_run(c, CLUSTER_GRACE_US + 1);
    assert_int_equal(cluster_running(c, 0), 0);
    cluster_return_agent(c, 0);
    cluster_run_jobs(c, 120 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 2), 3);
    finish(c, 0);
}

/* DESIGN 3.9: an agent that finds no central has no more time than the one before it. */
static void test_a_lease_goes_on_over_a_takeover(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .lease_us = 10 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 2, 30 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 2 * S);
    bus_cut(c->bus, c->workers[0]->ep, c->central_ep, bus_now(c->bus) + 60 * S);
    cluster_run(c, 6 * S);
    cluster_crash_agent(c, 0);
    cluster_return_agent(c, 0);
    assert_int_equal(cluster_running(c, 0), 1);
    cluster_run(c, 3 * S + S / 2);
    assert_int_equal(cluster_running(c, 0), 0);
    cluster_run_jobs(c, 200 * S);
    assert_int_equal(j->state, JOB_DONE);
    finish(c, 0);
}

static void test_a_worker_stops_in_order(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 12, 12 * S, TAG_LONG), *k = cluster_job(c, 12, 2 * S, TAG_SHORT);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 3 * S);
    cluster_stop_worker(c, 0, false);
    cluster_run(c, 30 * S);
    assert_false(c->workers[0]->alive);
    cluster_run_jobs(c, 200 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    assert_int_equal(sum(j->starts, 12), 12); /* nothing was lost: it waited for what ran */
    assert_int_equal(sum(k->starts, 12), 12);
    finish(c, 0);
}

static void test_a_worker_stops_at_once(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 8, 12 * S, TAG_LONG), *k = cluster_job(c, 8, 2 * S, TAG_SHORT);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 1 * S);
    cluster_stop_worker(c, 0, true);
    cluster_run(c, 1 * S);
    assert_false(c->workers[0]->alive);
    cluster_run_jobs(c, 200 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE); /* elsewhere */
    finish(c, 0);
}

/* More workers need more reserved ones: one that held long tasks hands back what it has not started. */
static void test_the_partition_moves_under_way(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .share_ppm = 250000, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 12, 12 * S, TAG_LONG);
    struct central_totals totals;
    uint32_t reserved = 0;

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    for (uint32_t i = 0; i < 8; i++)
        cluster_add_worker(c, 1);
    cluster_run(c, 10 * S);
    central_view_totals(c->central, &totals);
    assert_int_equal(totals.slots_reserved, 3);
    for (uint32_t i = 0; i < c->workers_n; i++) {
        struct worker_counts counts;

        worker_counts(&c->workers[i]->w, &counts);
        reserved += !counts.general;
        if (!counts.general)
            assert_int_equal(counts.queued_tasks, 0);
    }
    assert_int_equal(reserved, 3);
    cluster_run_jobs(c, 100 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 12), 12);
    finish(c, 0);
}

/* ---- Streams break, central goes away ---- */

static void test_broken_streams(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 12, 2 * S, TAG_SHORT), *k = cluster_job(c, 8, 12 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    for (uint32_t i = 0; i < 8; i++) {
        cluster_run(c, 700 * MS);
        bus_break(c->bus, c->workers[i % 4]->ep, i % 2 ? c->central_ep : c->dists[0]->ep);
    }
    bus_break(c->bus, c->dists[0]->ep, c->central_ep);
    cluster_run_jobs(c, 300 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    /* A worker that only changed its stream keeps its long tasks. */
    assert_int_equal(sum(k->starts, 8), 8);
    finish(c, 0);
}

/* DESIGN 3.9: a worker that central cannot hear kills its long tasks before central places them again. That no
 * two copies run at a time, the cluster checks at every start. */
static void test_cut_off_from_central(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .lease_us = 20 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 4, 60 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    bus_cut(c->bus, c->workers[1]->ep, c->central_ep, bus_now(c->bus) + 40 * S);
    cluster_run(c, 10 * S);
    assert_int_equal(cluster_running(c, 1), 1); /* it goes on while the lease lasts */
    cluster_run(c, 12 * S);
    assert_int_equal(cluster_running(c, 1), 0);
    cluster_run_jobs(c, 300 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 4), 5);
    finish(c, 0);
}

static void test_back_before_the_lease_ends(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .lease_us = 20 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 4, 60 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    bus_cut(c->bus, c->workers[1]->ep, c->central_ep, bus_now(c->bus) + 15 * S);
    cluster_run_jobs(c, 100 * S);
    assert_int_equal(sum(j->starts, 4), 4); /* suspect for a while, and nothing was lost */
    finish(c, 0);
}

/* A restarted central waits one lease for workers that it has not heard of yet. */
static void test_central_restarts_while_a_worker_is_away(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .lease_us = 20 * S, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 4, 60 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    cluster_kill_central(c);
    bus_cut(c->bus, c->workers[1]->ep, c->central_ep, bus_now(c->bus) + 12 * S);
    cluster_run(c, 2 * S);
    cluster_restart_central(c);
    cluster_run_jobs(c, 100 * S);
    assert_int_equal(sum(j->starts, 4), 4);
    finish(c, 0);
}

static void test_cut_off_from_its_dist(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 4, 60 * S, TAG_SHORT);

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    bus_cut(c->bus, c->workers[1]->ep, c->dists[0]->ep, bus_now(c->bus) + 30 * S);
    cluster_run(c, 15 * S);
    assert_int_equal(cluster_running(c, 1), 0); /* an orphan lives for ten seconds */
    cluster_run_jobs(c, 200 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 4), 5);
    finish(c, 0);
}

static void test_short_jobs_without_central(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 4, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 8, 200 * MS, TAG_SHORT), *k = cluster_job(c, 2, 12 * S, TAG_LONG);

    cluster_kill_central(c);
    cluster_run(c, 1 * S);
    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 5 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_true(k->submitted && k->state == JOB_PENDING);
    cluster_restart_central(c);
    cluster_run_jobs(c, 200 * S);
    assert_int_equal(k->state, JOB_DONE);
    finish(c, 0);
}

static void test_central_restarts_from_its_journal(void **state)
{
    struct cluster *c = up(&(struct cluster_config){
        .workers = 4, .dists = 2, .delay_us = 500, .journal_us = 2000, .lease_us = 20 * S});
    struct cluster_job *j = cluster_job(c, 12, 12 * S, TAG_LONG);

    cluster_submit(c, j, 0);
    cluster_run(c, 14 * S); /* the first four have ended, the next run */
    cluster_kill_central(c);
    cluster_run(c, 3 * S);
    cluster_restart_central(c);
    cluster_run_jobs(c, 200 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(sum(j->starts, 12), 12); /* the workers kept what they had */
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
        cmocka_unit_test(test_no_workers_yet),
        cmocka_unit_test(test_a_worker_joins_late),
        cmocka_unit_test(test_a_worker_dies_with_short_tasks),
        cmocka_unit_test(test_a_worker_dies_with_long_tasks),
        cmocka_unit_test(test_a_worker_restarts),
        cmocka_unit_test(test_an_agent_comes_back_to_its_tasks),
        cmocka_unit_test(test_what_ended_while_the_agent_was_away_counts),
        cmocka_unit_test(test_an_agent_that_comes_too_late_has_nothing),
        cmocka_unit_test(test_a_lease_goes_on_over_a_takeover),
        cmocka_unit_test(test_a_worker_stops_in_order),
        cmocka_unit_test(test_a_worker_stops_at_once),
        cmocka_unit_test(test_the_partition_moves_under_way),
        cmocka_unit_test(test_broken_streams),
        cmocka_unit_test(test_cut_off_from_central),
        cmocka_unit_test(test_back_before_the_lease_ends),
        cmocka_unit_test(test_central_restarts_while_a_worker_is_away),
        cmocka_unit_test(test_cut_off_from_its_dist),
        cmocka_unit_test(test_short_jobs_without_central),
        cmocka_unit_test(test_central_restarts_from_its_journal),
        cmocka_unit_test(test_same_seed_same_run),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
