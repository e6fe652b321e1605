/* The public API's messages: what goes in comes out, and nothing else does harm. */
#include "net/api.h"

#include "base/mem.h"
#include "base/rng.h"
#include "msg/msg.h"
#include "net/attach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[300];

/* Encodes and decodes; the copy must encode to the same bytes. */
static void round_trip(const struct api_type *type, const void *msg, void *copy)
{
    uint8_t *first, *second;
    size_t first_len, second_len;
    api_encode(type, msg, &first, &first_len);
    assert_int_equal(api_decode(type, first, first_len, copy, why, sizeof why), 0);
    api_encode(type, copy, &second, &second_len);
    assert_int_equal(first_len, second_len);
    assert_memory_equal(first, second, first_len);
    free(first);
    free(second);
}

static struct api_job some_job(void)
{
    return (struct api_job){.job = job_id_make((node_id_t){3}, 17),
                            .name = "train",
                            .user = "ann",
                            .state = JOB_RUNNING,
                            .class = CLASS_LONG,
                            .why = WHY_PROMOTED,
                            .tag = TAG_AUTO,
                            .at_central = true,
                            .epoch = 2,
                            .estimate_us = 1500000,
                            .cutoff_us = INT64_MAX,
                            .tasks = 1000000,
                            .waiting = 1,
                            .running = 2,
                            .done = 3,
                            .failed = 4,
                            .cancelled = 5,
                            .lost = 6,
                            .age_us = 7,
                            .response_us = -1,
                            .first_start_us = -1,
                            .probes_sent = UINT32_MAX,
                            .probes_live = 9,
                            .probes_cancelled = 10,
                            .probes_unused = 11,
                            .probes_lost = 12,
                            .reservations_stolen = 13};
}

static void assert_job_equal(const struct api_job *a, const struct api_job *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->user, b->user);
    assert_true(job_eq(a->job, b->job));
#define SAME(field) assert_true(a->field == b->field)
    SAME(state), SAME(class), SAME(why), SAME(tag), SAME(at_central), SAME(epoch), SAME(estimate_us);
    SAME(cutoff_us), SAME(tasks), SAME(waiting), SAME(running), SAME(done), SAME(failed), SAME(cancelled);
    SAME(lost), SAME(age_us), SAME(response_us), SAME(first_start_us), SAME(probes_sent), SAME(probes_live);
    SAME(probes_cancelled), SAME(probes_unused), SAME(probes_lost), SAME(reservations_stolen);
#undef SAME
}

/* Every field of a job, negative and large numbers among them. */
static void test_job(void **state)
{
    struct api_job job = some_job(), copy;
    round_trip(&api_job_type, &job, &copy);
    assert_job_equal(&job, &copy);
    api_free(&api_job_type, &copy);
    assert_null(copy.name);
}

static void test_nested_arrays(void **state)
{
    struct api_task tasks[300] = {{0}};
    struct api_reservation reservations[] = {{.worker = 5, .worker_name = "w5", .count = 2}, {.worker = 6}};
    struct api_get_job_reply reply = {.job = some_job(),
                                      .tasks = tasks,
                                      .tasks_n = 300,
                                      .reservations = reservations,
                                      .reservations_n = 2,
                                      .blocked = "no workers"};
    struct api_get_job_reply copy;
    for (uint32_t i = 0; i < 300; i++)
        tasks[i] = (struct api_task){.task = i,
                                     .state = TASK_FAILED,
                                     .outcome = OUTCOME_EXITED,
                                     .code = -(int)i,
                                     .attempt = 1,
                                     .worker = 5,
                                     .worker_name = "w5",
                                     .wait_us = -1,
                                     .run_us = i};
    round_trip(&api_get_job_reply_type, &reply, &copy);
    assert_job_equal(&reply.job, &copy.job);
    assert_int_equal(copy.tasks_n, 300);
    assert_int_equal(copy.tasks[299].task, 299);
    assert_int_equal(copy.tasks[299].code, -299);
    assert_int_equal(copy.tasks[299].wait_us, -1);
    assert_string_equal(copy.tasks[299].worker_name, "w5");
    assert_int_equal(copy.reservations_n, 2);
    assert_string_equal(copy.reservations[1].worker_name, "");
    assert_string_equal(copy.blocked, "no workers");
    assert_null(copy.spec);
    api_free(&api_get_job_reply_type, &copy);
}

/* Longer than the 16 bits that nanopb's own structs could hold. */
static void test_long_bytes(void **state)
{
    uint8_t *data = xcalloc(1, 200000);
    struct api_output_chunk chunk = {.data = data, .data_n = 200000, .path = "/tmp/x"}, copy;
    data[199999] = 7;
    round_trip(&api_output_chunk_type, &chunk, &copy);
    assert_int_equal(copy.data_n, 200000);
    assert_memory_equal(copy.data, data, 200000);
    api_free(&api_output_chunk_type, &copy);
    free(data);
}

static void test_optional_zero_is_sent(void **state)
{
    const char *on[] = {"stealing", "promotion"}, *off[] = {"reprobe"};
    struct api_set_policy_request r = {
        .has_cutoff_us = true, .cutoff_us = 0, .on = on, .on_n = 2, .off = off, .off_n = 1};
    struct api_set_policy_request copy;
    round_trip(&api_set_policy_request_type, &r, &copy);
    assert_true(copy.has_cutoff_us);
    assert_false(copy.has_steal_cap);
    assert_int_equal(copy.on_n, 2);
    assert_string_equal(copy.on[1], "promotion");
    assert_string_equal(copy.off[0], "reprobe");
    assert_string_equal(copy.preset, "");
    api_free(&api_set_policy_request_type, &copy);
}

static struct job_desc *some_desc(void)
{
    struct job_desc *d = job_desc_new();
    d->tasks = 3;
    d->lost_retries = 2;
    d->flags = JOB_EACH_ARG;
    strings_add(&d->argv, "echo");
    strings_add(&d->argv, "{}");
    strings_add(&d->env, "A=1");
    for (int i = 0; i < 3; i++)
        task_args_add(&d->args, "abc", (size_t)i);
    return d;
}

static void test_submit_carries_arguments_and_spec_does_not(void **state)
{
    struct job_desc *d = some_desc();
    struct api_submit_request request = {.job = d}, got;
    round_trip(&api_submit_request_type, &request, &got);
    assert_int_equal(got.job->tasks, 3);
    assert_int_equal(got.job->args.n, 3);
    assert_int_equal(got.job->args.off[3], 3);
    assert_int_equal(got.job->argv.n, 2);
    api_free(&api_submit_request_type, &got);

    struct api_get_job_reply reply = {.job = some_job(), .spec = d}, shown;
    round_trip(&api_get_job_reply_type, &reply, &shown);
    assert_int_equal(shown.spec->args.n, 0);
    assert_int_equal(shown.spec->argv.n, 2);
    api_free(&api_get_job_reply_type, &shown);
    job_desc_drop(d);
}

static void test_a_bad_job_is_refused_by_name(void **state)
{
    struct job_desc *d = some_desc();
    struct api_submit_request request = {.job = d}, got;
    uint8_t *data;
    size_t len;
    d->tasks = 4; /* but three arguments */
    api_encode(&api_submit_request_type, &request, &data, &len);
    assert_int_equal(api_decode(&api_submit_request_type, data, len, &got, why, sizeof why), HAWK_EINVALID);
    assert_non_null(strstr(why, "SubmitRequest.job"));
    assert_non_null(strstr(why, "3"));
    assert_null(got.job);
    free(data);
    job_desc_drop(d);
}

static int decode(const struct api_type *type, const char *bytes, size_t len, void *msg)
{
    return api_decode(type, bytes, len, msg, why, sizeof why);
}

static void test_malformed(void **state)
{
    struct api_watch_request watch;
    struct api_get_job_request get;
    struct api_job job;
    assert_int_equal(decode(&api_watch_request_type,
                            "\x0a\x05"
                            "3.17x",
                            7, &watch),
                     HAWK_EINVALID);
    assert_string_equal(why, "WatchRequest.job: '3.17x' is no job id (NODE.NUMBER)");
    assert_int_equal(decode(&api_watch_request_type,
                            "\x0a\x7f"
                            "3.17",
                            6, &watch),
                     HAWK_EMALFORMED);
    assert_int_equal(decode(&api_watch_request_type, "\x08\x01", 2, &watch), HAWK_EMALFORMED); /* a number */
    assert_int_equal(decode(&api_watch_request_type,
                            "\x0a\x04"
                            "3.1\0",
                            6, &watch),
                     HAWK_EMALFORMED);
    /* More than 32 bits in a uint32. */
    assert_int_equal(decode(&api_get_job_request_type, "\x10\x80\x80\x80\x80\x10", 6, &get), HAWK_EMALFORMED);
    assert_int_equal(decode(&api_job_type,
                            "\x12\x03"
                            "a\0b",
                            5, &job),
                     HAWK_EMALFORMED);
    assert_non_null(strstr(why, "Job.name"));
}

/* A newer peer's fields are skipped, its enum values show as unknown. */
static void test_newer_peer(void **state)
{
    struct api_job job;
    assert_int_equal(decode(&api_job_type, "\xfa\x07\x02hi\x18\x63\xf8\x07\x01\x58\x05", 12, &job), 0);
    assert_int_equal(job.state, JOB_STATE_COUNT);
    assert_int_equal(job.tasks, 5);
    assert_string_equal(job.name, "");
    api_free(&api_job_type, &job);
}

/* A field that comes twice: the last one counts, and nothing leaks. */
static void test_repeated_field(void **state)
{
    struct api_job job;
    assert_int_equal(decode(&api_job_type,
                            "\x12\x01"
                            "a\x12\x01"
                            "b",
                            6, &job),
                     0);
    assert_string_equal(job.name, "b");
    api_free(&api_job_type, &job);
}

/* A few megabytes of empty submessages must not become gigabytes. */
static void test_budget(void **state)
{
    size_t n = 4u << 20;
    uint8_t *data = xmalloc(2 * n);
    struct api_list_jobs_reply reply;
    for (size_t i = 0; i < n; i++) {
        data[2 * i] = 0x0a;
        data[2 * i + 1] = 0;
    }
    assert_int_equal(api_decode(&api_list_jobs_reply_type, data, 2 * n, &reply, why, sizeof why),
                     HAWK_ETOO_LARGE);
    assert_int_equal(reply.jobs_n, 0);
    free(data);
}

/* Nor must they keep the loop busy for seconds, where they are small enough for the budget. */
static void test_long_list(void **state)
{
    size_t n = API_ELEMENTS_MAX;
    uint8_t *data = xmalloc(2 * n + 2);
    struct api_session_request r;
    for (size_t i = 0; i <= n; i++) {
        data[2 * i] = 0x12;
        data[2 * i + 1] = 0;
    }
    assert_int_equal(api_decode(&api_session_request_type, data, 2 * n, &r, why, sizeof why), 0);
    assert_int_equal(r.cancel_n, n);
    api_free(&api_session_request_type, &r);
    assert_int_equal(api_decode(&api_session_request_type, data, 2 * n + 2, &r, why, sizeof why),
                     HAWK_ETOO_LARGE);
    assert_string_equal(why, "SessionRequest.cancel: more than 1000000 elements");
    free(data);
}

static const struct {
    const struct api_type *type;
    size_t size;
} types[] = {
#define X(name, Message) {&api_##name##_type, sizeof(struct api_##name)},
    API_MESSAGES(X)
#undef X
};

static void decode_and_free(size_t type, const uint8_t *data, size_t len)
{
    void *msg = xmalloc(types[type].size);
    memset(msg, 0xa5, types[type].size);
    if (api_decode(types[type].type, data, len, msg, why, sizeof why) == 0) {
        uint8_t *again;
        size_t again_len;
        api_encode(types[type].type, msg, &again, &again_len);
        free(again);
    } else
        assert_string_not_equal(why, "");
    api_free(types[type].type, msg);
    free(msg);
}

static void test_garbage(void **state)
{
    struct rng rng;
    uint8_t data[200];
    rng_seed(&rng, 4711);
    for (int round = 0; round < 20000; round++) {
        size_t len = rng_below(&rng, sizeof data + 1);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)rng_below(&rng, round % 2 ? 256 : 32); /* small bytes look like fields */
        decode_and_free((size_t)round % (sizeof types / sizeof types[0]), data, len);
    }
}

/* A valid message cut anywhere, and with any one byte changed. */
static void test_mutations(void **state)
{
    struct job_desc *d = some_desc();
    struct api_task task = {.task = 1, .worker_name = "w", .wait_us = -1};
    struct api_get_job_reply reply = {
        .job = some_job(), .tasks = &task, .tasks_n = 1, .spec = d, .blocked = "x"};
    uint8_t *data;
    size_t len, type = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    while (types[type].type != &api_get_job_reply_type)
        type++;
    api_encode(&api_get_job_reply_type, &reply, &data, &len);
    for (size_t cut = 0; cut < len; cut++)
        decode_and_free(type, data, cut);
    for (size_t i = 0; i < len; i++) {
        uint8_t was = data[i];
        for (int k = 0; k < 16; k++) {
            data[i] = (uint8_t)rng_below(&rng, 256);
            decode_and_free(type, data, len);
        }
        data[i] = was;
    }
    free(data);
    job_desc_drop(d);
}

static void test_methods(void **state)
{
    assert_string_equal(api_methods[API_SUBMIT].path, "/hawk.v1.Hawk/Submit");
    assert_string_equal(api_methods[API_READ_OUTPUT].path, "/hawk.v1.Hawk/ReadOutput");
    assert_true(api_methods[API_WATCH].streaming && api_methods[API_READ_OUTPUT].streaming);
    assert_false(api_methods[API_SUBMIT].streaming);
    assert_ptr_equal(api_methods[API_SET_POLICY].reply, &api_policy_type);
}

static void test_views(void **state)
{
    struct job_desc *d = some_desc();
    struct job_view v = {.job = job_id_make((node_id_t){2}, 5),
                         .desc = d,
                         .owner = NODE_CENTRAL,
                         .state = JOB_DONE,
                         .class = CLASS_LONG,
                         .response_us = 9,
                         .done = 3};
    struct task_view tv = {
        .task = 2, .state = TASK_DONE, .worker = {7}, .run_us = 4, .used = usage_of(3, 1 << 20), .stolen = 1};
    struct blob *text = blob_str("cannot enter /x");
    struct api_job job;
    struct api_task task;
    api_job_from_view(&job, &v);
    assert_true(job.at_central);
    assert_int_equal(job.tasks, 3);
    assert_int_equal(job.done, 3);
    assert_string_equal(job.name, "");
    api_task_from_view(&task, &tv, "w7");
    assert_int_equal(task.worker, 7);
    assert_int_equal(task.cpu_us, 3);
    assert_int_equal(task.mem_peak_bytes, 1 << 20);
    assert_true(task.stolen);
    assert_string_equal(task.worker_name, "w7");
    assert_string_equal(task.message, "");
    tv.message = text;
    api_task_from_view(&task, &tv, "w7");
    assert_string_equal(task.message, "cannot enter /x");
    blob_drop(text);
    job_desc_drop(d);
}

/* *p as a request makes it; unchanged where it is refused. */
static int apply(struct policy *p, const struct api_set_policy_request *r)
{
    struct policy_choice *c;
    int err = api_policy_choice(&c, r, why, sizeof why);
    if (err)
        return err;
    policy_choose(p, c);
    policy_choice_drop(c);
    return 0;
}

static void test_policy_apply(void **state)
{
    struct policy p, before;
    const char *on[] = {"steal_always"}, *off[] = {"promotion"}, *bad[] = {"stealth"};
    assert_int_equal(policy_preset("hawk", &p), 0);
    p.cutoff_us = 5;
    p.version = 3;
    struct api_set_policy_request r = {.preset = "sparrow",
                                       .on = on,
                                       .on_n = 1,
                                       .off = off,
                                       .off_n = 1,
                                       .has_steal_cap = true,
                                       .steal_cap = 4,
                                       .has_short_first = true,
                                       .short_first = 100};
    assert_int_equal(apply(&p, &r), 0);
    assert_int_equal(p.cutoff_us, 5); /* kept: a preset has none of its own */
    assert_int_equal(p.version, 3);
    assert_int_equal(p.steal_cap, 4);
    assert_int_equal(p.short_first, 100);
    assert_true(policy_has(&p, POLICY_STEAL_ALWAYS));
    assert_false(policy_has(&p, POLICY_PROMOTE));
    assert_false(policy_has(&p, POLICY_CENTRAL_LONG));

    before = p;
    r = (struct api_set_policy_request){.has_cutoff_us = true, .cutoff_us = 7, .on = bad, .on_n = 1};
    assert_int_equal(apply(&p, &r), HAWK_EINVALID);
    assert_non_null(strstr(why, "stealth"));
    assert_non_null(strstr(why, "stealing"));
    r = (struct api_set_policy_request){.preset = "falcon"};
    assert_int_equal(apply(&p, &r), HAWK_EINVALID);
    assert_non_null(strstr(why, "sparrow"));
    r = (struct api_set_policy_request){.has_probe_ratio_milli = true, .probe_ratio_milli = 999};
    assert_int_equal(apply(&p, &r), HAWK_EINVALID);
    r = (struct api_set_policy_request){.has_short_first = true, .short_first = LIMIT_SHORT_FIRST + 1};
    assert_int_equal(apply(&p, &r), HAWK_EINVALID);
    assert_string_equal(why, "short_first: 65536 is not within 0 and 65535");
    assert_memory_equal(&p, &before, sizeof p);
}

static void test_policy_line(void **state)
{
    struct api_policy_origin origins[] = {
        {"cutoff_us", "set"}, {"short_share_ppm", "history"}, {"steal_cap", "set"}, {"promotion", "set"}};
    const char *flags[] = {"stealing"};
    struct api_policy p = {.version = 7,
                           .base = "hawk",
                           .cutoff_us = 77000000,
                           .short_share_ppm = 170000,
                           .steal_cap = 4,
                           .flags = flags,
                           .flags_n = 1,
                           .origins = origins,
                           .origins_n = 4};
    char line[200], cut[20];
    api_policy_line(&p, line, sizeof line);
    assert_string_equal(line, "policy hawk (version 7): cutoff 1m 17s (set), short partition 17% (history), "
                              "steal_cap 4 (set), promotion off (set)");
    api_policy_line(&p, cut, sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
}

static void test_policy_shown(void **state)
{
    struct policy p = {
        .flags = POLICY_STEAL | POLICY_REPROBE, .cutoff_us = 9, .steal_cap = 10, .short_first = 7};
    const char *flags[32];
    struct api_policy shown, copy;
    api_policy_from(&shown, &p, "custom", flags);
    round_trip(&api_policy_type, &shown, &copy);
    assert_int_equal(copy.flags_n, 2);
    assert_string_equal(copy.flags[0], "stealing");
    assert_string_equal(copy.flags[1], "reprobe");
    assert_int_equal(copy.cutoff_us, 9);
    assert_int_equal(copy.short_first, 7);
    api_free(&api_policy_type, &copy);
}

/* A message made piece by piece reads as one. */
static void test_append(void **state)
{
    struct codec_buf o = {0};
    struct api_session_event e;
    for (uint32_t i = 0; i < 5; i++) {
        struct api_session_job job = {.tag = i, .job = job_id_make((node_id_t){3}, i + 1), .epoch = 1};
        struct api_session_task task = {
            .tag = i, .task = UINT32_MAX, .code = -1, .wait_us = -1, .run_us = INT64_MAX, .message = "why"};
        struct api_session_end end = {.tag = UINT64_MAX, .state = JOB_FAILED};
        api_append(&o, &api_session_event_type, &(struct api_session_event){.jobs = &job, .jobs_n = 1});
        api_append(&o, &api_session_event_type,
                   &(struct api_session_event){.tasks = &task, .tasks_n = 1, .ends = &end, .ends_n = 1});
    }
    assert_int_equal(api_decode(&api_session_event_type, o.data, o.len, &e, why, sizeof why), 0);
    assert_int_equal(e.jobs_n, 5);
    assert_int_equal(e.tasks_n, 5);
    assert_int_equal(e.ends_n, 5);
    assert_int_equal(job_id_seq(e.jobs[4].job), 5);
    assert_int_equal(e.tasks[3].tag, 3);
    assert_int_equal(e.tasks[3].wait_us, -1);
    assert_int_equal(e.tasks[3].run_us, INT64_MAX);
    assert_string_equal(e.tasks[3].message, "why");
    assert_true(e.ends[0].tag == UINT64_MAX);
    assert_int_equal(e.ends[0].state, JOB_FAILED);
    api_free(&api_session_event_type, &e);
    codec_buf_free(&o);
}

/* Otherwise nobody with a certificate could make the call. */
static void every_call_has_its_callers(void **state)
{
    for (int i = 0; i < API_METHOD_COUNT; i++)
        if (!call_may_pass(api_methods[i].path, ROLE_NONE, ROLE_CENTRAL) &&
            !call_may_pass(api_methods[i].path, ROLE_NONE, ROLE_DIST) &&
            !call_may_pass(api_methods[i].path, ROLE_NONE, ROLE_WORKER))
            fail_msg("%s", api_methods[i].path);
    assert_true(call_may_pass(ATTACH_METHOD, ROLE_NONE, ROLE_WORKER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_has_its_callers),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_nested_arrays),
        cmocka_unit_test(test_long_bytes),
        cmocka_unit_test(test_optional_zero_is_sent),
        cmocka_unit_test(test_submit_carries_arguments_and_spec_does_not),
        cmocka_unit_test(test_a_bad_job_is_refused_by_name),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_newer_peer),
        cmocka_unit_test(test_repeated_field),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_policy_apply),
        cmocka_unit_test(test_policy_line),
        cmocka_unit_test(test_policy_shown),
        cmocka_unit_test(test_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
