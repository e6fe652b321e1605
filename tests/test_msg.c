/* msg/: names and texts, references, the log line, checks of network input, job descriptions, named policies. */
#include "base/err.h"
#include "msg/msg.h"
#include "tests/lib/random_msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static job_id_t job_of(uint32_t node, uint64_t seq) { return job_id_make((node_id_t){node}, seq); }

/* ---- Names and texts ---- */

static void test_names(void **state)
{
    assert_string_equal(msg_name(MSG_TASK_LAUNCH), "TASK_LAUNCH");
    assert_string_equal(msg_name(MSG_RECOVERED), "RECOVERED");
    assert_string_equal(msg_name(MSG_NONE), "?");
    assert_string_equal(msg_name(MSG_WIRE_END), "?");
    assert_string_equal(msg_name(MSG_TYPE_COUNT), "?");
    assert_string_equal(role_text(ROLE_DIST), "dist");
    assert_string_equal(outcome_text(OUTCOME_TIME_LIMIT), "time-limit");
    assert_string_equal(task_state_text(TASK_LOST), "lost");
    assert_string_equal(job_state_text(JOB_STATE_COUNT), "?");
    assert_string_equal(counter_names[COUNTER_probes_sent], "probes_sent");
}

/* Exact where it is small, and to 1 in 2,000 where it is not; in order, so that the greater figure is the greater
 * number. */
static void test_figures(void **state)
{
    struct rng r;
    struct figure before = {0};

    assert_int_equal(figure_of(0).v, 0);
    assert_int_equal(figure_of(-1).v, 0);
    assert_int_equal(figure_of(INT64_MIN).v, 0);
    for (int64_t n = 0; n < 2048; n++)
        assert_int_equal(figure_value(figure_of(n)), n);
    assert_int_equal(figure_value(figure_of(4095)), 4096); /* rounded up beyond 11 bits */
    assert_true(figure_value(figure_of(INT64_MAX)) == FIGURE_MAX);
    for (uint32_t v = 0; v <= figure_of(INT64_MAX).v; v++) {
        struct figure f = {(uint16_t)v};

        assert_int_equal(figure_of(figure_value(f)).v, v);
        assert_true(v == 0 || figure_value(f) > figure_value(before));
        before = f;
    }
    rng_seed(&r, 1);
    for (int i = 0; i < 100000; i++) {
        int64_t n = (int64_t)(rng_next(&r) >> (2 + rng_below(&r, 61))), got = figure_value(figure_of(n));
        int64_t wrong = got > n ? got - n : n - got;

        assert_true(wrong <= n / 2000);
    }
}

static void test_log_line(void **state)
{
    char line[200];
    struct msg m = {.type = MSG_PROBE, .probe = {.job = job_of(3, 1), .estimate_us = 1500, .count = 2}};
    size_t n = msg_format(&m, line, sizeof line);

    assert_string_equal(line, "PROBE job=3.1 estimate_us=1500 count=2 class=0 user=0");
    assert_int_equal(n, strlen(line));
    m = (struct msg){.type = MSG_TASK_OVERRUN, .task_overrun = {.id = {job_of(3, 1), 4, 1, 2}, .run_us = 7}};
    msg_format(&m, line, sizeof line);
    assert_string_equal(line, "TASK_OVERRUN id=3.1/4@1.2 run_us=7");
    m = (struct msg){.type = MSG_LEAVE};
    msg_format(&m, line, sizeof line);
    assert_string_equal(line, "LEAVE");
}

/* What a peer sends cannot break a log's lines. */
static void test_log_line_is_one_line(void **state)
{
    char line[200];
    struct msg m = {.type = MSG_ESTIMATE, .estimate = {.name = blob_str("a\nb\"\033")}};

    msg_format(&m, line, sizeof line);
    assert_string_equal(line, "ESTIMATE name=\"a\\x0ab\\x22\\x1b\" mean_us=0 runs=0 user=0");
    msg_drop(&m);
}

static void test_log_line_fits(void **state)
{
    struct rng r;

    rng_seed(&r, 8);
    for (enum msg_type type = MSG_NONE + 1; type < MSG_WIRE_END; type++) {
        struct msg m;

        random_msg(&r, type, &m);
        for (size_t size = 0; size < 120; size++) {
            char *line = malloc(size ? size : 1); /* exact, for the address sanitizer */
            size_t n = msg_format(&m, line, size);

            assert_true(n < (size ? size : 1));
            if (size)
                assert_int_equal(strlen(line), n);
            free(line);
        }
        msg_drop(&m);
    }
}

static void test_job_of_a_message(void **state)
{
    struct msg m = {.type = MSG_NO_TASK, .no_task = {.job = job_of(2, 9)}};

    assert_true(job_eq(msg_job(&m), job_of(2, 9)));
    m = (struct msg){.type = MSG_FINISH_ACK, .finish_ack = {.id = {.job = job_of(2, 8)}}};
    assert_true(job_eq(msg_job(&m), job_of(2, 8)));
    m = (struct msg){.type = MSG_HEARTBEAT, .heartbeat = {.seq = 5}};
    assert_true(job_eq(msg_job(&m), JOB_NONE));
}

/* ---- References ---- */

static void test_references_balance(void **state)
{
    struct rng r;

    rng_seed(&r, 9);
    for (enum msg_type type = MSG_NONE + 1; type < MSG_WIRE_END; type++) {
        struct msg m, copy;

        random_msg(&r, type, &m);
        msg_ref(&m);
        copy = m;
        msg_drop(&m);
        assert_true(msg_equal(&copy, &copy)); /* still there */
        msg_drop(&copy);                      /* the leak checker sees the rest */
    }
}

static void test_out(void **state)
{
    struct out o = {0};
    struct msg *m;

    for (int i = 0; i < 100; i++) {
        m = out_add(&o, MSG_ESTIMATE, 7);
        assert_int_equal(m->peer, 7);
        assert_null(m->estimate.name);
        m->estimate.name = blob_str("x");
    }
    assert_int_equal(o.n, 100);
    out_clear(&o);
    assert_int_equal(o.n, 0);
    m = out_add(&o, MSG_LEAVE, 0);
    assert_int_equal(m->type, MSG_LEAVE);
    out_free(&o);
}

/* ---- Checks ---- */

static void test_good_messages_pass(void **state)
{
    struct rng r;

    rng_seed(&r, 10);
    for (int round = 0; round < 50; round++)
        for (enum msg_type type = MSG_NONE + 1; type < MSG_WIRE_END; type++) {
            struct msg m;

            random_msg(&r, type, &m);
            assert_int_equal(msg_check(&m), 0);
            msg_drop(&m);
        }
}

/* One value out of range each, in a message that is good otherwise. */
static void test_bad_messages_do_not_pass(void **state)
{
    struct rng r;

    rng_seed(&r, 11);
#define BAD(TYPE, change)                                                                                    \
    do {                                                                                                     \
        struct msg m;                                                                                        \
                                                                                                             \
        random_msg(&r, MSG_##TYPE, &m);                                                                      \
        assert_int_equal(msg_check(&m), 0);                                                                  \
        change;                                                                                              \
        if (msg_check(&m) != HAWK_EMALFORMED)                                                                \
            fail_msg("%s passes with %s", #TYPE, #change);                                                   \
        msg_drop(&m);                                                                                        \
    } while (0)
    BAD(JOIN, blob_drop(m.join.name); m.join.name = NULL);
    BAD(JOIN, m.join.role = ROLE_CENTRAL);
    BAD(JOIN, m.join.slots = LIMIT_SLOTS + 1);
    BAD(JOIN, m.join.name->data[0] = '\0');
    BAD(JOINED, m.joined.node = NODE_NONE);
    BAD(JOINED, m.joined.node = NODE_CENTRAL);
    BAD(JOINED, m.joined.heartbeat_us = 0);
    BAD(REFUSED, m.refused.err = 0);
    BAD(MEMBER, m.member.state = MEMBER_STATE_COUNT);
    BAD(MEMBER, m.member.general = 2);
    BAD(MEMBER, m.member.unsettled = 2);
    BAD(POLICY, m.policy.policy.short_share_ppm = 1000001);
    BAD(POLICY, m.policy.policy.cutoff_us = -1);
    BAD(ESTIMATE, m.estimate.mean_us = LIMIT_TIME_US + 1);
    BAD(ESTIMATE, m.estimate.mean_us = -1);
    BAD(JOB_REPORT, m.job_report.class = CLASS_COUNT);
    BAD(JOB_REPORT, m.job_report.tasks = 0);
    BAD(JOB_REPORT, m.job_report.task_us += m.job_report.tasks);
    BAD(JOB_REPORT, m.job_report.mean_us++);
    BAD(JOB_REPORT, m.job_report.mean_us = LIMIT_TIME_US);
    BAD(LONG_SUBMIT, m.long_submit.epoch = 0);
    BAD(LONG_SUBMIT, m.long_submit.why = WHY_COUNT);
    BAD(LONG_SUBMIT, job_desc_drop(m.long_submit.desc); m.long_submit.desc = NULL);
    BAD(LONG_HOLD, m.long_hold.epoch = 0);
    BAD(LONG_HOLD, m.long_hold.on = HOLD_FROM_BEFORE + 1);
    BAD(LONG_HOLD, blob_drop(m.long_hold.user); m.long_hold.user = blob_new("a\0b", 3));
    BAD(LONG_ACCEPTED, m.long_accepted.job = JOB_NONE);
    BAD(LONG_REFUSED, m.long_refused.err = 1);
    BAD(LONG_TASK, m.long_task.state = TASK_STATE_COUNT);
    BAD(LONG_TASK, m.long_task.worker.v = NODE_CENTRAL.v + 1);
    BAD(LONG_WORK, m.long_work.any = 2);
    BAD(TASK_ENQUEUE, job_desc_drop(m.task_enqueue.desc); m.task_enqueue.desc = NULL);
    BAD(TASK_ENQUEUE, m.task_enqueue.id.task = LIMIT_TASKS_PER_JOB);
    BAD(STEAL_HINT, m.steal_hint.victim = NODE_NONE);
    BAD(STEAL_HINT, blob_drop(m.steal_hint.addr); m.steal_hint.addr = blob_new(NULL, 256));
    BAD(JOB_NUMBERS, m.job_numbers.next = 0);
    BAD(JOB_NUMBERS, m.job_numbers.next = JOB_SEQ_MAX + 2);
    BAD(JOB_NUMBERS, blob_drop(m.job_numbers.receipts); m.job_numbers.receipts = blob_new(NULL, 15));
    BAD(TASK_FINISHED, m.task_finished.outcome = OUTCOME_NONE);
    BAD(TASK_FINISHED, m.task_finished.run_us = -1);
    BAD(TASK_STARTED, m.task_started.id.attempt = 0);
    BAD(TASK_HELD, m.task_held.state = TASK_STATE_COUNT);
    BAD(PROBE, m.probe.count = 0);
    BAD(PROBE_REFUSED, m.probe_refused.err = 1);
    BAD(TASK_REQUEST, m.task_request.has_spec = 7);
    BAD(RES_MOVED, m.res_moved.from = NODE_CENTRAL);
    BAD(STEAL_LOOT, m.steal_loot.index = m.steal_loot.items);
    BAD(STEAL_LOOT, m.steal_loot.job = JOB_NONE);
    BAD(HEARTBEAT, m.type = MSG_START); /* local: nobody may send it */
#undef BAD
}

static void test_members_are_in_order(void **state)
{
    struct msg m = {.type = MSG_MEMBERS, .members = {.list = members_new(2)}};

    for (int i = 0; i < 2; i++)
        m.members.list->v[i] =
            (struct member){.node = {5}, .role = ROLE_WORKER, .addr = blob_str("a"), .name = blob_str("n")};
    assert_int_equal(msg_check(&m), HAWK_EMALFORMED); /* the same id twice */
    m.members.list->v[1].node.v = 6;
    assert_int_equal(msg_check(&m), 0);
    msg_drop(&m);
}

static void test_nothing_to_steal_names_no_job(void **state)
{
    struct msg m = {.type = MSG_STEAL_LOOT, .steal_loot = {.request = 3}};

    assert_int_equal(msg_check(&m), 0);
}

static void test_newer_counter(void **state)
{
    struct msg m = {.type = MSG_COUNTER, .counter = {.value = 1, .counter = COUNTER_COUNT}};

    assert_int_equal(msg_check(&m), HAWK_EUNSUPPORTED);
}

/* ---- Job descriptions ---- */

static struct job_desc *command(uint32_t tasks)
{
    struct job_desc *d = job_desc_new();

    d->tasks = tasks;
    strings_add(&d->argv, "true");
    return d;
}

static void test_desc_limits(void **state)
{
    char why[200];

#define DESC(err, part, change)                                                                              \
    do {                                                                                                     \
        struct job_desc *d = command(3);                                                                     \
                                                                                                             \
        change;                                                                                              \
        assert_int_equal(job_desc_check(d, why, sizeof why), err);                                           \
        if ((err) && !strstr(why, part))                                                                     \
            fail_msg("\"%s\" does not say \"%s\"", why, part);                                               \
        job_desc_drop(d);                                                                                    \
    } while (0)
    DESC(0, "", (void)0);
    DESC(0, "", d->tasks = LIMIT_TASKS_PER_JOB);
    DESC(HAWK_EINVALID, "no tasks", d->tasks = 0);
    DESC(HAWK_ETOO_LARGE, "1000001 tasks, the limit is 1000000", d->tasks = LIMIT_TASKS_PER_JOB + 1);
    DESC(HAWK_EINVALID, "estimate", d->estimate_us = -1);
    DESC(HAWK_EINVALID, "time limit", d->time_limit_us = LIMIT_TIME_US + 1);
    DESC(HAWK_EINVALID, "tag", d->tag = TAG_COUNT);
    DESC(HAWK_EINVALID, "kind", d->kind = PAYLOAD_COUNT);
    DESC(HAWK_EINVALID, "index", d->first_index = UINT32_MAX);
    DESC(HAWK_EINVALID, "application", d->kind = PAYLOAD_APP);
    DESC(0, "", ancestors_add_text(&d->ancestors, "1.1 1.2 1.3 1.4 1.5 1.6 1.7 16777214.9 1.9"));
    DESC(HAWK_EINVALID, "more than 8 ancestors",
         for (int i = 0; i < 20; i++) ancestors_add(&d->ancestors, "1.1", 3));
    DESC(HAWK_EINVALID, "no job id", ancestors_add(&d->ancestors, "1.1 ", 4));
    DESC(0, "", d->kind = PAYLOAD_APP; d->app = blob_str("numpy"));
    DESC(0, "", strings_add(&d->env, "A="));
    DESC(HAWK_EINVALID, "entry 2", strings_add(&d->env, "A=1"); strings_add(&d->env, "B"));
    DESC(HAWK_EINVALID, "entry 1", strings_add(&d->env, "=1"));
    DESC(HAWK_ETOO_LARGE, "standard input", d->input = blob_new(NULL, LIMIT_SPEC_BYTES));
    DESC(HAWK_ETOO_LARGE, "name has 256 bytes", blob_drop(d->name); d->name = blob_new(NULL, 256));
    DESC(HAWK_EINVALID, "NUL", d->cwd = blob_new("/a\0b", 4));
    DESC(HAWK_EINVALID, "0 task arguments for 3 tasks", d->flags |= JOB_EACH_ARG);
    DESC(HAWK_EINVALID, "1 task arguments for 3 tasks", task_args_add(&d->args, "x", 1));
    DESC(HAWK_ETOO_LARGE, "arguments have", d->tasks = 1; d->flags |= JOB_EACH_ARG;
         task_args_add_space(&d->args, LIMIT_JOB_BYTES + 1));
#undef DESC
}

/* Journals and peers of earlier versions have such jobs, but nobody may submit one. */
static void test_submission_limits(void **state)
{
    char why[200];

    (void)state;
#define SUBMISSION(err, part, change)                                                                        \
    do {                                                                                                     \
        struct job_desc *d = command(2);                                                                     \
                                                                                                             \
        change;                                                                                              \
        assert_int_equal(job_desc_check(d, why, sizeof why), 0);                                             \
        assert_int_equal(job_submission_check(d, why, sizeof why), err);                                     \
        if ((err) && !strstr(why, part))                                                                     \
            fail_msg("\"%s\" does not say \"%s\"", why, part);                                               \
        job_desc_drop(d);                                                                                    \
    } while (0)
#define TIMER(text)                                                                                          \
    d->kind = PAYLOAD_TIMER;                                                                                 \
    d->argv.n = d->argv.bytes = 0;                                                                           \
    strings_add(&d->argv, text)
#define EACH(text)                                                                                           \
    d->flags |= JOB_EACH_ARG;                                                                                \
    task_args_add(&d->args, "1ms", 3);                                                                       \
    task_args_add(&d->args, text, sizeof(text) - 1)
    SUBMISSION(0, "", d->pids = LIMIT_TASK_PIDS);
    SUBMISSION(HAWK_EINVALID, "1 to 4194304 processes, not to 4194305", d->pids = LIMIT_TASK_PIDS + 1);
    SUBMISSION(0, "", TIMER("250ms"));
    SUBMISSION(HAWK_EINVALID, "argv: a timer job needs a duration like 250ms or 30s, not 'soon'",
               TIMER("soon"));
    SUBMISSION(0, "", TIMER("of no account"); EACH("2s"));
    SUBMISSION(HAWK_EINVALID, "task_args: ", TIMER("1s"); EACH("2"));
    SUBMISSION(HAWK_EINVALID, "not '99", TIMER("1s");
               EACH("99999999999999999999999999999999999999999999999999999999999999999s"));
    SUBMISSION(HAWK_EINVALID, "not '2s'", TIMER("1s"); EACH("2s\0"));
#undef EACH
#undef TIMER
#undef SUBMISSION
}

/* What a task's environment says, and what a job that is submitted there says to its own tasks. */
static void test_ancestors(void **state)
{
    struct ancestors a = {0};
    char text[ANCESTORS_TEXT];

    ancestors_add_text(&a, NULL);
    ancestors_add_text(&a, "");
    assert_string_equal(ancestors_format(text, &a), "");
    ancestors_add_text(&a, "3.17");
    ancestors_add_text(&a, "2.1  forged 16777214.1099511627775 0.1");
    assert_string_equal(ancestors_format(text, &a), "3.17 2.1 16777214.1099511627775");
    assert_true(ancestors_have(&a, (job_id_make((node_id_t){2}, 1))));
    assert_false(ancestors_have(&a, (job_id_make((node_id_t){2}, 2))));
    assert_true(ancestors_set(&a) & job_set((job_id_make((node_id_t){2}, 1))));
    assert_false(ancestors_set(&a) & job_set((job_id_make((node_id_t){2}, 5))));
    for (int i = 0; i < 9; i++)
        ancestors_add_text(&a, "16777214.1099511627775");
    assert_int_equal(a.n, LIMIT_ANCESTORS);
    assert_true(strlen(ancestors_format(text, &a)) < ANCESTORS_TEXT);
    assert_int_equal(ancestors_check(&a, NULL, 0), 0);
}

static void test_desc_without_a_command(void **state)
{
    struct job_desc *d = job_desc_new();
    char why[100];

    d->tasks = 1;
    assert_int_equal(job_desc_check(d, why, sizeof why), HAWK_EINVALID);
    assert_string_equal(why, "the job has no command");
    strings_add(&d->argv, "");
    assert_int_equal(job_desc_check(d, NULL, 0), HAWK_EINVALID);
    job_desc_drop(d);
}

/* A worker gets the description without the arguments it speaks of. */
static void test_spec_travels_without_arguments(void **state)
{
    struct job_desc *d = command(3);

    d->flags |= JOB_EACH_ARG;
    assert_int_equal(job_spec_check(d, NULL, 0), 0);
    assert_int_equal(job_desc_check(d, NULL, 0), HAWK_EINVALID);
    job_desc_drop(d);
}

static void test_strings_and_arguments(void **state)
{
    struct job_desc *d = job_desc_new();
    const char *text;
    char line[32];

    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "string %d", i);
        strings_add(&d->argv, line);
        task_args_add(&d->args, line, i % 2 ? strlen(line) : 0);
    }
    assert_int_equal(d->argv.n, 1000);
    text = d->argv.data;
    for (int i = 0; i < 1000; i++, text += strlen(text) + 1) {
        struct blob *arg = job_desc_arg(d, (uint32_t)i);

        snprintf(line, sizeof line, "string %d", i);
        assert_string_equal(text, line);
        assert_string_equal(arg->data, i % 2 ? line : "");
        blob_drop(arg);
    }
    assert_int_equal(text - d->argv.data, d->argv.bytes);
    assert_null(job_desc_arg(d, 1000));
    job_desc_drop(d);
}

/* ---- Policies ---- */

static void test_policies(void **state)
{
    struct policy p;
    size_t n = 0;

    for (; policy_names[n]; n++) {
        memset(&p, 0xff, sizeof p);
        assert_int_equal(policy_preset(policy_names[n], &p), 0);
        assert_int_equal(p.version, 0);
        assert_int_equal(p.probe_ratio_milli, 2000);
        assert_int_equal(p.steal_cap, 10);
        assert_true(p.cutoff_us > 0 && p.min_probes == 0 && p.short_first == 0);
    }
    assert_int_equal(n, 9);
    assert_int_equal(policy_preset("slurm", &p), HAWK_ENOT_FOUND);
}

static void test_what_the_policies_switch(void **state)
{
    struct policy p;

    assert_int_equal(policy_preset("hawk", &p), 0);
    assert_true(policy_has(&p, POLICY_CENTRAL_LONG) && policy_has(&p, POLICY_STEAL));
    assert_true(policy_has(&p, POLICY_PROMOTE) && policy_has(&p, POLICY_PARTITION));
    assert_false(policy_has(&p, POLICY_LATE_LONG)); /* ours */
    assert_int_equal(policy_preset("harrier", &p), 0);
    assert_true(policy_has(&p, POLICY_LATE_LONG) && policy_has(&p, POLICY_STEAL));
    assert_true(policy_has(&p, POLICY_LONG_BY_WORK));
    assert_int_equal(policy_preset("eagle", &p), 0);
    assert_true(policy_has(&p, POLICY_AVOID_LONG) && policy_has(&p, POLICY_PARTITION));
    assert_false(policy_has(&p, POLICY_STEAL));
    assert_int_equal(policy_preset("sparrow", &p), 0);
    assert_false(policy_has(&p, POLICY_CENTRAL_LONG) || policy_has(&p, POLICY_STEAL) ||
                 policy_has(&p, POLICY_PARTITION));
    assert_int_equal(policy_preset("hawk-no-steal", &p), 0);
    assert_false(policy_has(&p, POLICY_STEAL) || policy_has(&p, POLICY_STEAL_HINTS));
    assert_int_equal(policy_preset("hawk-no-partition", &p), 0);
    assert_true(policy_has(&p, POLICY_STEAL) && !policy_has(&p, POLICY_PARTITION));
    assert_int_equal(policy_preset("hawk-no-central", &p), 0);
    assert_true(policy_has(&p, POLICY_LONG_GENERAL) && !policy_has(&p, POLICY_CENTRAL_LONG));
    assert_false(policy_has(&p, POLICY_PROMOTE)); /* nobody to promote to */
    assert_int_equal(policy_preset("split", &p), 0);
    assert_true(policy_has(&p, POLICY_SHORT_RESERVED) && !policy_has(&p, POLICY_STEAL));
    assert_int_equal(policy_preset("central", &p), 0);
    assert_true(policy_has(&p, POLICY_ALL_LONG) && !policy_has(&p, POLICY_PARTITION));
}

/* ---- Who says what to whom ---- */

static void test_roles_keep_to_what_they_say(void **state)
{
    static const enum role roles[] = {ROLE_NONE, ROLE_CENTRAL, ROLE_DIST, ROLE_WORKER, ROLE_COUNT};

    assert_true(msg_may_pass(MSG_JOB_REPORT, ROLE_DIST, ROLE_CENTRAL));
    assert_false(msg_may_pass(MSG_JOB_REPORT, ROLE_WORKER, ROLE_CENTRAL));
    assert_false(msg_may_pass(MSG_JOB_REPORT, ROLE_CENTRAL, ROLE_DIST));
    assert_true(msg_may_pass(MSG_TASK_LAUNCH, ROLE_DIST, ROLE_WORKER));
    assert_false(msg_may_pass(MSG_TASK_LAUNCH, ROLE_WORKER, ROLE_WORKER));
    assert_true(msg_may_pass(MSG_APP, ROLE_WORKER, ROLE_CENTRAL) &&
                msg_may_pass(MSG_APP, ROLE_CENTRAL, ROLE_DIST));
    assert_false(msg_may_pass(MSG_APP, ROLE_WORKER, ROLE_DIST));
    for (unsigned type = MSG_NONE; type <= MSG_TYPE_COUNT; type++) {
        bool by_somebody = false;

        for (size_t i = 0; i < COUNT(roles); i++) {
            for (size_t k = 0; k < COUNT(roles); k++)
                by_somebody |= msg_may_pass(type, roles[i], roles[k]);
            assert_false(msg_may_pass(type, ROLE_NONE, roles[i]) || msg_may_pass(type, roles[i], ROLE_NONE));
            assert_false(msg_may_pass(type, ROLE_COUNT, roles[i]) ||
                         msg_may_pass(type, roles[i], ROLE_COUNT));
            assert_false(msg_may_pass(type, ROLE_DIST, ROLE_DIST) ||
                         msg_may_pass(type, ROLE_CENTRAL, ROLE_CENTRAL));
        }
        assert_int_equal(by_somebody, type > MSG_NONE && type < MSG_WIRE_END);
    }
}

static void test_who_dials_whom(void **state)
{
    for (int from = 0; from <= ROLE_COUNT; from++)
        for (int to = 0; to <= ROLE_COUNT; to++)
            assert_int_equal(role_may_dial((enum role)from, (enum role)to),
                             (from == ROLE_DIST || from == ROLE_WORKER) &&
                                 (to == ROLE_CENTRAL || to == ROLE_WORKER));
}

static char page[1 << 20];

static void read_page(void)
{
    const char *const pages[] = {"docs/protocol.md", "docs/protocol-lives.md", "docs/protocol-access.md"};
    size_t n = 0;

    for (unsigned i = 0; i < sizeof pages / sizeof *pages; i++) {
        FILE *f = fopen(pages[i], "re");

        assert_non_null(f);
        n += fread(page + n, 1, sizeof page - 1 - n, f);
        assert_true(feof(f));
        fclose(f);
    }
    page[n] = '\0';
}

/* The end of an item of a list, whose further lines are indented; NULL: it does not end. */
static char *item_end(char *item)
{
    char *end = strchr(item + 1, '\n');

    while (end && strncmp(end, "\n    ", 5) == 0)
        end = strchr(end + 1, '\n');
    return end;
}

#define CALL_PATH(path, routes, scope) path,
static const char *const calls[] = {CALL_ROUTES(CALL_PATH)};

static void test_who_calls_what(void **state)
{
    for (size_t i = 0; i < COUNT(calls); i++) {
        bool link = strstr(calls[i], "Peer/Link"), node = strstr(calls[i], "/hawk.v1.Nodes/");
        for (int from = 0; from < ROLE_COUNT; from++)
            for (int to = 0; to < ROLE_COUNT; to++) {
                if (!node && (link || from != ROLE_NONE)) /* nodes open links, and make no calls of users */
                    assert_int_equal(call_may_pass(calls[i], (enum role)from, (enum role)to),
                                     link && role_may_dial((enum role)from, (enum role)to));
            }
        for (int to = 0; to < ROLE_COUNT;
             to++) /* somebody without a certificate may join, and nothing else */
            assert_int_equal(call_may_pass(calls[i], ROLE_GUEST, (enum role)to),
                             to == ROLE_CENTRAL && strstr(calls[i], "/Join"));
        assert_true(link || node || call_may_pass(calls[i], ROLE_NONE, ROLE_CENTRAL) ||
                    call_may_pass(calls[i], ROLE_NONE, ROLE_DIST) ||
                    call_may_pass(calls[i], ROLE_NONE, ROLE_WORKER));
        assert_false(call_may_pass(calls[i], ROLE_NONE, ROLE_NONE));
    }
    assert_true(call_may_pass("/hawk.v1.Nodes/Renew", ROLE_WORKER, ROLE_CENTRAL));
    assert_true(call_may_pass("/hawk.v1.Nodes/Renew", ROLE_DIST, ROLE_CENTRAL));
    assert_false(call_may_pass("/hawk.v1.Nodes/Renew", ROLE_NONE, ROLE_CENTRAL));
    assert_false(call_may_pass("/hawk.v1.Nodes/Renew", ROLE_DIST, ROLE_WORKER));
    assert_false(call_may_pass("/hawk.v1.Nodes/Join", ROLE_WORKER, ROLE_CENTRAL));
    assert_false(call_may_pass("/hawk.v1.Hawk/Fly", ROLE_NONE, ROLE_DIST));
    assert_true(call_may_pass("/hawk.v1.Hawk/Submit", ROLE_NONE, ROLE_DIST));
    assert_false(call_may_pass("/hawk.v1.Hawk/Submit", ROLE_NONE, ROLE_CENTRAL));
    assert_false(call_may_pass("/hawk.v1.Hawk/ReadOutput", ROLE_NONE, ROLE_DIST));
}

/* docs/protocol-access.md has an item for users and each role as well, with the calls in backquotes, those of services
 * other than our own with their service. */
static void test_the_page_has_the_same_calls(void **state)
{
    static const char own[] = "/hawk.v1.Hawk/";
    unsigned items = 0;

    read_page();
    for (int to = ROLE_NONE + 1; to < ROLE_COUNT; to++) {
        char head[64], name[64], *item, *end;

        snprintf(head, sizeof head, "\n  - user → %s: ", role_text((enum role)to));
        item = strstr(page, head);
        if (!item)
            continue;
        items++;
        end = item_end(item);
        if (!end) {
            fail_msg("the item of %s does not end", role_text((enum role)to));
            continue;
        }
        *end = '\0';
        for (size_t i = 0; i < COUNT(calls); i++) {
            snprintf(name, sizeof name, "`%s`",
                     strncmp(calls[i], own, strlen(own)) == 0 ? calls[i] + strlen(own)
                                                              : strrchr(calls[i], '.') + 1);
            if ((strstr(item, name) != NULL) != call_may_pass(calls[i], ROLE_NONE, (enum role)to))
                fail_msg("%s at a %s", name, role_text((enum role)to));
        }
        *end = '\n';
    }
    assert_int_equal(items, 3);
}

/* docs/protocol.md has the same table: an item for each two roles, with the messages in backquotes. */
static void test_the_page_has_the_same_table(void **state)
{
    static const enum role roles[] = {ROLE_CENTRAL, ROLE_DIST, ROLE_WORKER};
    unsigned items = 0;

    read_page();
    for (size_t i = 0; i < COUNT(roles) * COUNT(roles); i++) {
        enum role from = roles[i / COUNT(roles)], to = roles[i % COUNT(roles)];
        char head[64], name[64], *item, *end;

        snprintf(head, sizeof head, "\n  - %s → %s: ", role_text(from), role_text(to));
        item = strstr(page, head);
        if (!item)
            continue;
        items++;
        end = item_end(item);
        if (!end) {
            fail_msg("the item of %s and %s does not end", role_text(from), role_text(to));
            continue;
        }
        *end = '\0';
        for (unsigned type = MSG_NONE + 1; type < MSG_WIRE_END; type++) {
            snprintf(name, sizeof name, "`%s`", msg_name(type));
            assert_int_equal(strstr(item, name) != NULL, msg_may_pass(type, from, to));
        }
        *end = '\n';
    }
    assert_int_equal(items, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_log_line),
        cmocka_unit_test(test_log_line_is_one_line),
        cmocka_unit_test(test_log_line_fits),
        cmocka_unit_test(test_job_of_a_message),
        cmocka_unit_test(test_references_balance),
        cmocka_unit_test(test_out),
        cmocka_unit_test(test_good_messages_pass),
        cmocka_unit_test(test_bad_messages_do_not_pass),
        cmocka_unit_test(test_members_are_in_order),
        cmocka_unit_test(test_nothing_to_steal_names_no_job),
        cmocka_unit_test(test_newer_counter),
        cmocka_unit_test(test_desc_limits),
        cmocka_unit_test(test_submission_limits),
        cmocka_unit_test(test_ancestors),
        cmocka_unit_test(test_desc_without_a_command),
        cmocka_unit_test(test_spec_travels_without_arguments),
        cmocka_unit_test(test_strings_and_arguments),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_what_the_policies_switch),
        cmocka_unit_test(test_roles_keep_to_what_they_say),
        cmocka_unit_test(test_who_dials_whom),
        cmocka_unit_test(test_the_page_has_the_same_table),
        cmocka_unit_test(test_who_calls_what),
        cmocka_unit_test(test_the_page_has_the_same_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
