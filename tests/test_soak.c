/* Some hundred small random clusters, each from one seed (faults/faults.h), with every invariant looked at after every
 * step. `hawk sim --faults` runs any number of them; a failure prints its line. */
#include "faults/faults.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEEDS 250 /* of each kind */
#define SINGLE_SEEDS 60
#define STARTLESS_SEEDS 50

static char scenario[300];

/* A check that aborts says with which seed. */
static void on_abort(int sig)
{
    ssize_t ignored = write(STDERR_FILENO, scenario, strlen(scenario));

    (void)ignored;
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void on_failed(void *arg, enum invariant invariant, const char *text)
{
    fputs(scenario, stderr);
    fail_msg("invariant \"%s\" is violated %s", invariant_names[invariant], text);
}

static struct faults_result soak(uint64_t seed, const char *kinds)
{
    struct faults_options o = {.seed = seed, .failed = on_failed};
    struct faults_result r = {0};
    const char *bad;
    size_t n = (size_t)snprintf(
        scenario, sizeof scenario,
        "hawk sim --faults --seed %llu --kinds %s repeats it: ", (unsigned long long)seed, kinds);

    assert_int_equal(faults_parse_kinds(kinds, &o.kinds, &bad), 0);
    o.draw_kinds = strcmp(kinds, "all") == 0;
    n += faults_describe(&o, scenario + n, sizeof scenario - n - 1);
    scenario[n] = '\n';
    scenario[n + 1] = '\0';
    signal(SIGABRT, on_abort);
    faults_run(&o, &r);
    signal(SIGABRT, SIG_DFL);
    return r;
}

static void nothing_fails(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        soak(seed, "none");
}

static void anything_fails(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        soak(seed, "all");
}

static void each_kind_alone(void **state)
{
    for (uint32_t k = 0; k < FAULT_COUNT; k++) {
        struct faults_result r = soak(1, fault_names[k]);

        assert_true(r.faults[k] > 0);
    }
}

/* Then nothing may be lost, though no task has a retry. */
static void what_cannot_start_is_never_lost(void **state)
{
    for (uint64_t seed = 1; seed <= STARTLESS_SEEDS; seed++)
        soak(seed, "startless");
}

/* A spawner is asked to forget no run of an executor's: one that kept them here had more than any worker may hold. */
static void what_executors_ran_is_no_spawners(void **state) { soak(8534, "all"); }

/* Without a delay a message overtook those that a healed partition let through at the same moment. */
static void what_heals_is_not_overtaken(void **state) { soak(3027269, "all"); }

/* A dist that had yet to hear that a worker's first process was lost sent its second one, with another id, nothing. */
static void a_worker_with_another_id_is_another(void **state) { soak(3068389, "all"); }

/* A copy of the journal from when central was away: it knew of more numbers than central, and not of all. */
static void a_copy_from_without_central_gives_no_number_twice(void **state) { soak(3173153, "all"); }

/* Alone, no fault makes a short task wait for more than 3.5 s. */
static void one_fault_at_a_time(void **state)
{
    for (uint64_t seed = 1; seed <= SINGLE_SEEDS; seed++) {
        struct faults_options o = {.seed = seed, .single = true, .failed = on_failed};
        struct faults_result r = {0};

        snprintf(scenario, sizeof scenario, "hawk sim --faults --single --seed %llu repeats it\n",
                 (unsigned long long)seed);
        signal(SIGABRT, on_abort);
        faults_run(&o, &r);
        signal(SIGABRT, SIG_DFL);
        assert_true(r.jobs > 0);
    }
}

static void same_seed_same_run(void **state)
{
    assert_true(soak(7, "all").hash == soak(7, "all").hash);
    assert_true(soak(7, "all").hash != soak(8, "all").hash);
}

static void kinds_are_parsed(void **state)
{
    uint32_t kinds;
    const char *bad;

    assert_int_equal(faults_parse_kinds("break,dist", &kinds, &bad), 0);
    assert_int_equal(kinds, 1u << FAULT_BREAK | 1u << FAULT_DIST);
    assert_int_equal(faults_parse_kinds("break,brake", &kinds, &bad), HAWK_EINVALID);
    assert_string_equal(bad, "brake");
    assert_int_equal(faults_parse_kinds("", &kinds, &bad), HAWK_EINVALID);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_parsed),
        cmocka_unit_test(nothing_fails),
        cmocka_unit_test(anything_fails),
        cmocka_unit_test(each_kind_alone),
        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(one_fault_at_a_time),
        cmocka_unit_test(what_cannot_start_is_never_lost),
        cmocka_unit_test(what_executors_ran_is_no_spawners),
        cmocka_unit_test(what_heals_is_not_overtaken),
        cmocka_unit_test(a_worker_with_another_id_is_another),
        cmocka_unit_test(a_copy_from_without_central_gives_no_number_twice),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
