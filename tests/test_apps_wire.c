/* The messages of executors and workers (net/attach.h): what is written is read, and garbage is named. */
#include "net/attach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct heard {
    struct attach_hello hello;
    struct attach_task task;
    struct attach_result result;
    struct attach_paused paused;
    struct attach_pause pause;
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
static int on_wire_paused(void *arg, const struct attach_paused *p)
{
    ((struct heard *)arg)->paused = *p;
    return 0;
}
static int on_wire_pause(void *arg, const struct attach_pause *p)
{
    ((struct heard *)arg)->pause = *p;
    return 0;
}
static const struct attach_fns wire = {on_hello,    on_result,    on_drain,       on_wire_paused,
                                       on_attached, on_wire_task, on_wire_cancel, on_wire_pause};

static void executors_are_understood(void **state)
{
    struct codec_buf b = {0};
    struct heard got = {0};
    char why[200];

    attach_put_hello(&b, &(struct attach_hello){.app = "sum",
                                                .name = "x",
                                                .slots = 300,
                                                .pauses = true,
                                                .task_of = "3.17",
                                                .task = 5,
                                                .resident_of = "3.18"});
    for (int i = 0; i < 2; i++)
        attach_put_result(&b,
                          &(struct attach_result){.id = UINT64_MAX - 1, .code = -5, .result = {"abc", 3}});
    attach_put_paused(&b, &(struct attach_paused){.id = 1u << 30, .refused = 1});
    attach_put_drain(&b);
    assert_int_equal(attach_from_executor(b.data, b.len, &wire, &got, why, sizeof why), 0);
    assert_true(got.hellos == 1 && got.results == 2 && got.drains == 1);
    assert_string_equal(got.hello.app, "sum");
    assert_int_equal(got.hello.slots, 300);
    assert_string_equal(got.hello.task_of, "3.17");
    assert_string_equal(got.hello.resident_of, "3.18");
    assert_int_equal(got.hello.task, 5);
    assert_true(got.hello.pauses && got.paused.id == 1u << 30 && got.paused.refused);
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

    attach_put_attached(&b, "w1", 2);
    attach_put_task(&b, &t);
    attach_put_cancel(&b, 12345);
    attach_put_pause(&b, &(struct attach_pause){.id = 77, .on = 1});
    assert_int_equal(attach_from_worker(b.data, b.len, &wire, &got, why, sizeof why), 0);
    assert_string_equal(got.worker, "w1");
    assert_true(got.task.id == t.id && got.task.index == 9 && got.task.count == 10 && got.task.attempt == 2 &&
                got.task.time_limit_us == 77);
    assert_memory_equal(got.task.payload.data, "load", 4);
    assert_memory_equal(got.task.job.data, "3.17", 4);
    assert_true(got.cancelled == 1 && got.cancels[0] == 12345);
    assert_true(got.pause.id == 77 && got.pause.on);
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
        {"\x22\x02\x0a\x00", 4, "paused"},
        {"\x0a\x03\x0a\x01\x00", 5, "NUL byte in a name"},
        {"\x0a\x06\x0a\x01" /* a name that an audit line would end at */
         "a\x1a\x01\x00",
         8, "NUL byte in a name"},
    };
    struct heard got = {0};
    char why[200];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            attach_from_executor(bad[i].bytes, bad[i].len, &wire, &(struct heard){0}, why, sizeof why),
            HAWK_EMALFORMED);
        assert_non_null(strstr(why, bad[i].why));
    }
    assert_int_equal(attach_from_executor("\x18\x00", 2, &wire, &got, why, sizeof why), 0);
    assert_int_equal(got.drains, 0); /* false, which other encoders may write */
    /* What a newer one adds is passed over. */
    assert_int_equal(attach_from_executor("\x7a\x01x\x71"
                                          "12345678\x6d"
                                          "1234",
                                          17, &wire, &(struct heard){0}, why, sizeof why),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executors_are_understood),
        cmocka_unit_test(workers_are_understood),
        cmocka_unit_test(garbage_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
