/* A whole cluster whose members come and go: workers, agents, dists, central, and the streams between them. */
#include "tests/test_cluster.h"

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
    assert_int_equal(starts_of(j, 8), 9); /* the one that was lost ran again */
    assert_int_equal(ends_of(j, 8), 8);
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
    assert_int_equal(starts_of(j, 8), 4); /* not again before the lease has run out */
    cluster_run_jobs(c, 120 * S);
    assert_int_equal(j->state, JOB_DONE);
    assert_int_equal(starts_of(j, 8), 9);
    assert_int_equal(ends_of(j, 8), 8);
    finish(c, 0);
}

static void test_a_worker_restarts(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 3, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 6, 12 * S, TAG_LONG), *k = cluster_job(c, 6, 3 * S, TAG_SHORT);
    node_id_t before = worker_node(&c->workers[0]->w);

    cluster_submit(c, j, 0);
    cluster_submit(c, k, 0);
    cluster_run(c, 2 * S);
    cluster_restart_worker(c, 0);
    cluster_run_jobs(c, 200 * S);
    assert_true(node_eq(worker_node(&c->workers[0]->w), before)); /* the name decides */
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    finish(c, 0);
}

/* DESIGN 3.10: nothing is started again but what was only queued. */
static void test_an_agent_comes_back_to_its_tasks(void **state)
{
    struct cluster *c = up(&(struct cluster_config){.workers = 2, .slots = 2, .delay_us = 500});
    struct cluster_job *j = cluster_job(c, 5, 20 * S, TAG_LONG);

    j->desc->lost_retries = 0;
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
    assert_int_equal(starts_of(j, 5), 5);
    assert_int_equal(ends_of(j, 5), 5);
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
    assert_int_equal(ends_of(j, 1) + ends_of(k, 1), 2);
    cluster_return_agent(c, 0);
    cluster_run_jobs(c, 5 * S);
    assert_true(j->state == JOB_DONE && k->state == JOB_DONE);
    assert_int_equal(starts_of(j, 1) + starts_of(k, 1), 2);
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
    assert_int_equal(starts_of(j, 2), 3);
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
    assert_int_equal(starts_of(j, 12), 12); /* nothing was lost: it waited for what ran */
    assert_int_equal(starts_of(k, 12), 12);
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
    struct central_summary s;
    uint32_t reserved = 0;

    cluster_submit(c, j, 0);
    cluster_run(c, 5 * S);
    for (uint32_t i = 0; i < 8; i++)
        cluster_add_worker(c, 1);
    cluster_run(c, 10 * S);
    central_view_summary(c->central, &s);
    assert_int_equal(s.workers_reserved, 3);
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
    assert_int_equal(starts_of(j, 12), 12);
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
    assert_int_equal(starts_of(k, 8), 8);
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
    assert_int_equal(starts_of(j, 4), 5);
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
    assert_int_equal(starts_of(j, 4), 4); /* suspect for a while, and nothing was lost */
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
    assert_int_equal(starts_of(j, 4), 4);
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
    assert_int_equal(starts_of(j, 4), 5);
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
    assert_int_equal(starts_of(j, 12), 12); /* the workers kept what they had */
    finish(c, 0);
}

/* An argument selects tests by name: test_cluster 'test_soak*'. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
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
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
