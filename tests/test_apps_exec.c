/* exec/apps: which executor gets what, what waits, ends and grace, by a clock of the test; and the wire form. */
#include "exec/apps.h"

#include "base/mem.h"
#include "base/units.h"
#include "net/attach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS US_PER_MS
#define GRACE (100 * MS)

/* What was said, a line each. */
static char said[4096];
static struct apps *a;
static struct job_desc *desc;
static uint64_t ids[64]; /* by task */

static void HAWK_PRINTF(1, 2) say(const char *fmt, ...)
{
    size_t n = strlen(said);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said + n, sizeof said - n, fmt, ap);
    va_end(ap);
}

static void on_task(void *user, const struct app_task *t)
{
    ids[t->try.task] = t->id;
    say("%s gets %u; ", (const char *)user, t->try.task);
}
static void on_cancel(void *user, uint64_t id)
{
    uint32_t i = 0;

    while (ids[i] != id)
        i++;
    say("%s ends %u; ", (const char *)user, i);
}
static void on_drained(void *user) { say("%s drained; ", (const char *)user); }
static void on_stuck(void *user, const char *why) { say("%s stuck: %.29s; ", (const char *)user, why); }

static void on_event(void *arg, const struct msg *m)
{
    if (m->type == MSG_EXEC_STARTED)
        say("started %u; ", m->exec_started.run);
    else if (m->type == MSG_EXEC_APP)
        say("%s %s; ", m->exec_app.name->data, m->exec_app.on ? "on" : "off");
    else
        say("%u %s %d %.*s; ", m->exec_exited.run, outcome_text(m->exec_exited.outcome), m->exec_exited.code,
            m->exec_exited.result ? (int)m->exec_exited.result->len : 0,
            m->exec_exited.result ? m->exec_exited.result->data : "");
}

#define SAID(text) (assert_string_equal(said, text), (void)(said[0] = '\0'))

static int setup(void **state)
{
    static const struct apps_fns fns = {on_task, on_cancel, on_drained, on_stuck, on_event};

    memset(ids, 0, sizeof ids);
    a = apps_new(GRACE, &fns, NULL);
    said[0] = '\0';
    desc = job_desc_new();
    desc->tasks = 64;
    desc->kind = PAYLOAD_APP;
    desc->app = blob_str("sum");
    return 0;
}

static int teardown(void **state)
{
    apps_free(a);
    assert_int_equal(desc->refs, 1);
    job_desc_drop(desc);
    return 0;
}

static struct executor *attach(const char *app, const char *name, uint32_t slots)
{
    struct executor *x = NULL;
    char why[200];

    assert_int_equal(apps_attach(a, 0, app, name, slots, (char *)(uintptr_t)name, &x, why, sizeof why), 0);
    return x;
}

/* Task i is run number 100 + i. */
static void run(int64_t now_us, uint32_t i)
{
    struct msg_exec_start m = {.run = 100 + i, .desc = desc};

    m.id.task = i;
    apps_run(a, now_us, &m);
}

static void answer(int64_t now_us, struct executor *x, uint32_t i, int32_t code, const char *text)
{
    assert_int_equal(apps_result(a, now_us, x, ids[i], code, text, strlen(text)), 0);
}

static void runs_go_to_who_has_room_and_wait_in_order(void **state)
{
    struct executor *x, *y;

    run(0, 0);
    SAID("100 lost -25 ; "); /* nobody serves it: it never ran */
    x = attach("sum", "x", 2);
    y = attach("sum", "y", 1);
    SAID("sum on; ");
    for (uint32_t i = 1; i <= 5; i++)
        run(0, i);
    SAID("x gets 1; started 101; y gets 2; started 102; x gets 3; started 103; ");
    assert_int_equal(apps_running(a), 5);
    answer(10, y, 2, 0, "two");
    SAID("102 exited 0 two; y gets 4; started 104; ");
    answer(10, x, 3, 7, "no");
    SAID("103 exited 7 no; x gets 5; started 105; ");
    assert_int_equal(apps_result(a, 10, x, ids[4], 0, "", 0), HAWK_ENOT_FOUND); /* y has it */
    assert_int_equal(apps_result(a, 10, x, ids[3], 0, "", 0), HAWK_ENOT_FOUND); /* answered */
    assert_int_equal(apps_result(a, 10, x, 999999, 0, "", 0), HAWK_ENOT_FOUND);
    apps_detach(a, 20, x);
    SAID("101 lost 0 its executor x, of application sum, is gone; "
         "105 lost 0 its executor x, of application sum, is gone; ");
    answer(20, y, 4, 0, "");
    SAID("104 exited 0 ; ");
    apps_detach(a, 20, y);
    SAID("sum off; ");
    assert_int_equal(apps_running(a), 0);
}

static void who_leaves_finishes_what_it_has(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_drain(a, 0, x);
    SAID("sum off; 101 lost -25 ; "); /* what waited runs elsewhere */
    apps_drain(a, 0, x);
    SAID("");
    answer(5, x, 0, 0, "done");
    SAID("100 exited 0 done; x drained; ");
    apps_detach(a, 5, x);
    x = attach("sum", "x", 1);
    SAID("sum on; ");
    apps_drain(a, 5, x);
    SAID("sum off; x drained; ");
    apps_detach(a, 5, x);
    SAID("");
}

static void what_is_to_end_has_its_grace(void **state)
{
    struct executor *x = attach("sum", "x", 4);

    for (uint32_t i = 0; i < 4; i++)
        run(0, i);
    run(0, 4); /* waits */
    said[0] = '\0';
    assert_false(apps_kill(a, 0, 99, OUTCOME_CANCELLED, false));
    assert_true(apps_kill(a, 0, 104, OUTCOME_CANCELLED, false));
    SAID("104 cancelled 0 ; ");
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 101, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 102, OUTCOME_CANCELLED, false);
    apps_kill(a, 0, 102, OUTCOME_LOST, true);
    SAID("x ends 0; x ends 1; x ends 2; 102 cancelled 0 ; ");
    answer(MS, x, 0, 1, "stopped");
    answer(MS, x, 1, 0, "was done already");
    SAID("100 cancelled 0 stopped; 101 exited 0 was done already; ");
    answer(MS, x, 2, 0, "late"); /* dropped, and its place is free */
    SAID("");
    apps_kill(a, MS, 103, OUTCOME_LOST, false);
    assert_int_equal(apps_next_timeout(a), MS + GRACE);
    said[0] = '\0';
    apps_on_timeout(a, MS + GRACE);
    SAID("103 lost 0 ; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    /* It still has one of the four places. */
    for (uint32_t i = 10; i < 14; i++)
        run(0, i);
    SAID("x gets 10; started 110; x gets 11; started 111; x gets 12; started 112; ");
    apps_detach(a, MS, x);
    said[0] = '\0';
}

static void who_answers_nothing_is_stuck(void **state)
{
    const int64_t second = US_PER_S; /* more than GRACE */
    struct executor *x = attach("sum", "x", 2);

    for (uint32_t i = 0; i < 4; i++)
        run(0, i);
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, true);
    assert_int_equal(apps_next_timeout(a), TIME_NEVER); /* it may answer the other one */
    apps_kill(a, 0, 101, OUTCOME_CANCELLED, false);
    apps_on_timeout(a, GRACE);
    assert_int_equal(apps_next_timeout(a), GRACE + second);
    said[0] = '\0';
    answer(GRACE, x, 0, 0, "late"); /* whichever it answers, it is not stuck */
    SAID("x gets 2; started 102; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    apps_kill(a, GRACE, 102, OUTCOME_TIME_LIMIT, true);
    said[0] = '\0';
    apps_on_timeout(a, GRACE + second - 1);
    SAID("");
    apps_on_timeout(a, GRACE + second);
    SAID("x stuck: executor x of application sum; ");
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
    apps_detach(a, GRACE + second, x);
    SAID("sum off; 103 lost -25 ; "); /* what waited never ran */
    x = attach("sum", "x", 1);
    run(0, 0);
    apps_kill(a, 0, 100, OUTCOME_CANCELLED, true);
    apps_detach(a, 0, x); /* gone by itself, with its grace going on */
    assert_int_equal(apps_next_timeout(a), TIME_NEVER);
}

static void what_waits_and_is_lost_never_ran(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_kill(a, 0, 101, OUTCOME_LOST, false);
    SAID("101 lost -25 ; ");
    apps_detach(a, 0, x);
}

static void a_time_limit_counts_from_the_start(void **state)
{
    struct executor *x = attach("sum", "x", 1);

    desc->time_limit_us = 50 * MS;
    run(0, 0);
    run(0, 1);
    said[0] = '\0';
    apps_on_timeout(a, 50 * MS);
    SAID("x ends 0; ");
    answer(60 * MS, x, 0, 0, "nearly");
    SAID("100 time-limit 0 nearly; x gets 1; started 101; ");
    assert_int_equal(apps_next_timeout(a), 110 * MS);
    apps_on_timeout(a, 110 * MS);
    apps_on_timeout(a, 110 * MS + GRACE);
    SAID("x ends 1; 101 time-limit 0 ; ");
    apps_detach(a, 0, x);
    SAID("sum off; ");
}

static void limits_are_errors(void **state)
{
    struct executor *x[LIMIT_WORKER_APPS], *more;
    char why[300], name[16], *big = xcalloc(1, LIMIT_RESULT_BYTES + 1);

    for (uint32_t i = 0; i < LIMIT_WORKER_APPS; i++) {
        snprintf(name, sizeof name, "app%u", i);
        x[i] = attach(name, "x", 1);
    }
    assert_int_equal(apps_attach(a, 0, "more", "y", 1, NULL, &more, why, sizeof why), HAWK_ELIMIT);
    assert_non_null(strstr(why, "64 applications"));
    assert_int_equal(apps_attach(a, 0, "", "y", 1, NULL, &more, why, sizeof why), HAWK_EINVALID);
    assert_int_equal(apps_attach(a, 0, "app1", "y", 0, NULL, &more, why, sizeof why), HAWK_EINVALID);
    assert_int_equal(apps_attach(a, 0, "app1", "y", LIMIT_SLOTS + 1, NULL, &more, why, sizeof why),
                     HAWK_EINVALID);
    apps_detach(a, 0, x[0]);
    x[0] = attach("sum", "x", 1);
    run(0, 0);
    said[0] = '\0';
    assert_int_equal(apps_result(a, 0, x[0], ids[0], 0, big, LIMIT_RESULT_BYTES + 1), 0);
    SAID("100 exited 1 it returned 1048577 bytes, the limit is 1048576; ");
    free(big);
    for (uint32_t i = 0; i < LIMIT_WORKER_APPS; i++)
        apps_detach(a, 0, x[i]);
}

/* Ids are used again only after very many runs: what is late never meets another's. */
static void a_late_answer_meets_nobody(void **state)
{
    struct executor *x = attach("sum", "x", 1);
    uint64_t first;

    run(0, 0);
    first = ids[0];
    answer(0, x, 0, 0, "");
    for (int i = 0; i < 1000; i++) {
        run(0, 0);
        assert_true(ids[0] != first);
        assert_int_equal(apps_result(a, 0, x, first, 0, "", 0), HAWK_ENOT_FOUND);
        answer(0, x, 0, 0, "");
        said[0] = '\0';
    }
    apps_detach(a, 0, x);
}

/* ---- The wire form ---- */

struct heard {
    struct attach_hello hello;
    struct attach_task task;
    struct attach_result result;
    uint64_t cancels[4];
    uint32_t hellos, tasks, results, drains, cancelled;
    char worker[32];
};

static int on_hello(void *arg, const struct attach_hello *h)
{
    struct heard *got = arg;

    got->hello = *h;
    got->hellos++;
    return 0;
}
static int on_result(void *arg, const struct attach_result *r)
{
    struct heard *got = arg;

    got->result = *r;
    return got->results++ == 2 ? HAWK_EINVALID : 0;
}
static int on_drain(void *arg)
{
    ((struct heard *)arg)->drains++;
    return 0;
}
static int on_attached(void *arg, struct span worker)
{
    struct heard *got = arg;

    snprintf(got->worker, sizeof got->worker, "%.*s", (int)worker.len, (const char *)worker.data);
    return 0;
}
static int on_wire_task(void *arg, const struct attach_task *t)
{
    struct heard *got = arg;

    got->task = *t;
    got->tasks++;
    return 0;
}
static int on_wire_cancel(void *arg, uint64_t id)
{
    struct heard *got = arg;

    got->cancels[got->cancelled++ % 4] = id;
    return 0;
}
static const struct attach_fns wire = {on_hello,    on_result,    on_drain,
                                       on_attached, on_wire_task, on_wire_cancel};

static void executors_are_understood(void **state)
{
    struct codec_buf b = {0};
    struct heard got = {0};
    char why[200];

    attach_put_hello(&b, &(struct attach_hello){.app = "sum", .name = "x", .slots = 300});
    for (int i = 0; i < 2; i++)
        attach_put_result(&b,
                          &(struct attach_result){.id = UINT64_MAX - 1, .code = -5, .result = {"abc", 3}});
    attach_put_drain(&b);
    assert_int_equal(attach_from_executor(b.data, b.len, &wire, &got, why, sizeof why), 0);
    assert_true(got.hellos == 1 && got.results == 2 && got.drains == 1);
    assert_string_equal(got.hello.app, "sum");
    assert_int_equal(got.hello.slots, 300);
    assert_true(got.result.id == UINT64_MAX - 1 && got.result.code == -5 && got.result.result.len == 3);
    assert_int_equal(attach_from_executor(b.data, b.len, &wire, &got, why, sizeof why), HAWK_EINVALID);
    assert_int_equal(got.results, 3);          /* the callback's error ended it */
    for (size_t cut = 1; cut < b.len; cut++) { /* at whatever byte it breaks off: no field is made up */
        struct heard part = {0};
        int err = attach_from_executor(b.data, cut, &wire, &part, why, sizeof why);

        assert_true(err == 0 || err == HAWK_EMALFORMED);
        assert_true(part.hellos <= 1 && part.results <= 2 && part.drains == 0);
    }
    codec_buf_free(&b);
}

static void workers_are_understood(void **state)
{
    static const uint8_t packed[] = {0x1a, 3, 5, 0x81, 1};
    struct codec_buf b = {0};
    struct heard got = {0};
    struct attach_task t = {.id = 1u << 25,
                            .job = {"3.17", 4},
                            .name = {"n", 1},
                            .payload = {"load", 4},
                            .index = 9,
                            .count = 10,
                            .attempt = 2,
                            .time_limit_us = 77};
    char why[200];

    attach_put_attached(&b, "w1");
    attach_put_task(&b, &t);
    attach_put_cancel(&b, 12345);
    assert_int_equal(attach_from_worker(b.data, b.len, &wire, &got, why, sizeof why), 0);
    assert_string_equal(got.worker, "w1");
    assert_true(got.task.id == t.id && got.task.index == 9 && got.task.count == 10 && got.task.attempt == 2 &&
                got.task.time_limit_us == 77);
    assert_memory_equal(got.task.payload.data, "load", 4);
    assert_memory_equal(got.task.job.data, "3.17", 4);
    assert_true(got.cancelled == 1 && got.cancels[0] == 12345);
    assert_int_equal(attach_from_worker(packed, sizeof packed, &wire, &got, why, sizeof why), 0);
    assert_true(got.cancelled == 3 && got.cancels[1] == 5 && got.cancels[2] == 129);
    codec_buf_free(&b);
}

static void garbage_is_named(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } bad[] = {
        {"\xff", 1, "message"},
        {"\x0a\x05"
         "ab",
         4, "message"},
        {"\x0a\x02\x08\x01", 4, "hello"},
        {"\x12\x02\x0a\x00", 4, "result"},
        {"\x08\x01", 2, "hello"},
        {"\x1a\x00", 2, "drain"},
    };
    char why[200];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            attach_from_executor(bad[i].bytes, bad[i].len, &wire, &(struct heard){0}, why, sizeof why),
            HAWK_EMALFORMED);
        assert_non_null(strstr(why, bad[i].why));
    }
    /* What a newer one adds is passed over. */
    assert_int_equal(attach_from_executor("\x7a\x01x\x71"
                                          "12345678\x6d"
                                          "1234",
                                          17, &wire, &(struct heard){0}, why, sizeof why),
                     0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(runs_go_to_who_has_room_and_wait_in_order),
        TEST(who_leaves_finishes_what_it_has),
        TEST(what_is_to_end_has_its_grace),
        TEST(who_answers_nothing_is_stuck),
        TEST(what_waits_and_is_lost_never_ran),
        TEST(a_time_limit_counts_from_the_start),
        TEST(limits_are_errors),
        TEST(a_late_answer_meets_nobody),
        cmocka_unit_test(executors_are_understood),
        cmocka_unit_test(workers_are_understood),
        cmocka_unit_test(garbage_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
