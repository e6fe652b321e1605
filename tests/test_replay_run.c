/* The replay's engine against a dist of this test's own, on a thread of its own: what it submits, and what
 * it makes of jobs that are refused, of streams that break, of jobs that get lost, and of Ctrl-C. */
#include "base/units.h"
#include "libhawk/client_impl.h"
#include "net/server.h"
#include "replay/run.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define JOBS_MAX 16
#define NODE 3u

/* --- a dist that follows a script ------------------------------------------------------------------ */

struct script {
    uint32_t refuse;     /* refuse the n-th submission, from 1; 0: none */
    uint32_t break_once; /* break the first stream of job n, from 1 */
    uint32_t forget;     /* know nothing of job n once it was accepted */
    bool take_back;      /* … until its client brings it back */
    uint32_t hide_task;  /* leave the last task of job n out */
    uint32_t page;       /* tasks per reply; 0: as asked for */
    bool twice;          /* tasks were cancelled before they started, and each is told twice */
    bool hold;           /* jobs end only when they are cancelled */
    bool interrupt;      /* Ctrl-C once the first job is watched */
};

struct fake_job {
    struct job_desc *desc;
    struct rpc_call *watcher;
    uint32_t watches;
    bool cancelled;
};

struct fake {
    struct script script;
    struct loop *loop;
    struct server *server;
    pthread_t thread;
    struct fake_job jobs[JOBS_MAX]; /* those accepted */
    uint32_t submissions, jobs_n, fetches, moves;
};

static void answer(struct rpc_call *c, enum api_method method, const void *reply)
{
    uint8_t *data;
    size_t len;

    api_encode(api_methods[method].reply, reply, &data, &len);
    rpc_reply(c, data, len);
    free(data);
}

static void on_list_nodes(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    struct fake *f = arg;
    struct api_node nodes[] = {
        {.node = NODE, .name = "d", .role = "dist", .state = "up", .address = server_addr(f->server, 0)},
        {.node = NODE + 1, .name = "gone", .role = "dist", .state = "gone", .address = "127.0.0.1:1"},
        {.node = NODE + 2,
         .name = "w",
         .role = "worker",
         .state = "up",
         .address = "127.0.0.1:1",
         .slots = 4},
    };
    const struct api_list_nodes_reply reply = {.nodes = nodes, .nodes_n = 3};

    answer(c, API_LIST_NODES, &reply);
}

static void on_submit(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct fake *f = arg;
    struct api_submit_request request;
    struct api_submit_reply reply = {.job = JOB_NONE};
    char why[200];

    if (api_decode(&api_submit_request_type, data, len, &request, why, sizeof why) ||
        job_desc_check(request.job, why, sizeof why)) {
        rpc_fail(c, GRPC_STATUS_INVALID_ARGUMENT, "%s", why);
    } else if (request.resubmit.job.v && f->script.take_back) {
        assert_int_equal(job_id_seq(request.resubmit.job), f->script.forget);
        assert_int_equal(request.resubmit.epoch, EPOCH_FIRST + 2);
        f->script.forget = 0;
        f->moves++;
        reply.job = request.resubmit.job;
        answer(c, API_SUBMIT, &reply);
    } else if (++f->submissions == f->script.refuse || f->jobs_n == JOBS_MAX) {
        rpc_fail(c, GRPC_STATUS_RESOURCE_EXHAUSTED, "full");
    } else {
        f->jobs[f->jobs_n++].desc = job_desc_ref(request.job);
        reply.job = job_id_make((node_id_t){NODE}, f->jobs_n);
        answer(c, API_SUBMIT, &reply);
    }
    api_free(&api_submit_request_type, &request);
}

/* The job a request is about; NULL after NOT_FOUND was answered. */
static struct fake_job *find(struct fake *f, struct rpc_call *c, job_id_t id, uint32_t *number)
{
    *number = (uint32_t)job_id_seq(id);
    if (job_id_node(id).v == NODE && *number >= 1 && *number <= f->jobs_n && *number != f->script.forget)
        return &f->jobs[*number - 1];
    rpc_fail(c, GRPC_STATUS_NOT_FOUND, "no such job");
    return NULL;
}

static void describe(const struct fake *f, struct api_job *to, uint32_t number)
{
    const struct fake_job *j = &f->jobs[number - 1];
    bool ended = !f->script.hold || j->cancelled;

    *to = (struct api_job){.job = job_id_make((node_id_t){NODE}, number),
                           .tasks = j->desc->tasks,
                           .class = CLASS_LONG,
                           .state = !ended         ? JOB_RUNNING
                                    : j->cancelled ? JOB_CANCELLED
                                                   : JOB_DONE,
                           .done = ended && !j->cancelled ? j->desc->tasks : 0,
                           .cancelled = j->cancelled ? j->desc->tasks : 0,
                           .response_us = ended ? number * US_PER_S : -1,
                           .first_start_us = -1,
                           .probes_sent = 2 * j->desc->tasks};
}

static void send_state(struct fake *f, uint32_t number, struct rpc_call *c)
{
    struct api_event event = {0};
    uint8_t *data;
    size_t len;

    describe(f, &event.job, number);
    api_encode(&api_event_type, &event, &data, &len);
    (void)!rpc_send(c, data, len);
    free(data);
    if (job_state_final((enum job_state)event.job.state))
        rpc_finish(c);
    else
        f->jobs[number - 1].watcher = c;
}

static void on_gone(void *arg, struct rpc_call *c)
{
    struct fake *f = arg;

    for (uint32_t i = 0; i < f->jobs_n; i++)
        if (f->jobs[i].watcher == c)
            f->jobs[i].watcher = NULL;
    rpc_fail(c, GRPC_STATUS_CANCELLED, "gone");
}

static void on_watch(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct fake *f = arg;
    struct api_watch_request request;
    struct fake_job *j;
    uint32_t number;
    char why[200];

    assert_int_equal(api_decode(&api_watch_request_type, data, len, &request, why, sizeof why), 0);
    j = find(f, c, request.job, &number);
    if (!j)
        return;
    if (++j->watches == 1 && number == f->script.break_once) {
        rpc_fail(c, GRPC_STATUS_UNAVAILABLE, "broken");
        return;
    }
    rpc_watch(c, on_gone, NULL, f);
    send_state(f, number, c);
    if (f->script.interrupt) {
        f->script.interrupt = false;
        kill(getpid(), SIGINT);
    }
}

static void on_cancel(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct fake *f = arg;
    const struct api_cancel_reply reply = {.already_ended = false};
    struct api_cancel_request request;
    struct rpc_call *watcher;
    struct fake_job *j;
    uint32_t number;
    char why[200];

    assert_int_equal(api_decode(&api_cancel_request_type, data, len, &request, why, sizeof why), 0);
    j = find(f, c, request.job, &number);
    if (!j)
        return;
    j->cancelled = true;
    answer(c, API_CANCEL, &reply);
    watcher = j->watcher;
    j->watcher = NULL;
    if (watcher)
        send_state(f, number, watcher);
}

static void on_get_job(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct fake *f = arg;
    struct api_get_job_request request;
    struct api_get_job_reply reply = {0};
    struct api_task tasks[32];
    struct fake_job *j;
    uint32_t number, end;
    char why[200];

    f->fetches++;
    assert_int_equal(api_decode(&api_get_job_request_type, data, len, &request, why, sizeof why), 0);
    j = find(f, c, request.job, &number);
    if (!j)
        return;
    describe(f, &reply.job, number);
    end = j->desc->tasks - (number == f->script.hide_task);
    for (uint32_t t = request.first_task; t < end && (!f->script.page || reply.tasks_n < f->script.page);
         t++) {
        bool cancelled = j->cancelled || f->script.twice;

        tasks[reply.tasks_n++] = (struct api_task){.task = t,
                                                   .state = cancelled ? TASK_CANCELLED : TASK_DONE,
                                                   .attempt = t == 2 ? 2 : 1,
                                                   .wait_us = f->script.twice ? -1 : INT64_C(1000) * t,
                                                   .run_us = f->script.twice ? -1
                                                             : cancelled     ? 0
                                                                             : 7,
                                                   .stolen = t == 1};
        if (f->script.twice) {
            tasks[reply.tasks_n] = tasks[reply.tasks_n - 1];
            reply.tasks_n++;
        }
    }
    reply.tasks = tasks;
    answer(c, API_GET_JOB, &reply);
}

static void *serve(void *arg)
{
    struct fake *f = arg;

    loop_run(f->loop);
    return NULL;
}

static void fake_start(struct fake *f)
{
    static const struct server_config config = {.token = NULL};
    char why[300] = "";

    f->loop = loop_new(LOOP_NET);
    f->server = server_new(f->loop, &config);
    if (server_listen(f->server, "127.0.0.1:0", why, sizeof why))
        fail_msg("%s", why);
    server_handle(f->server, api_methods[API_LIST_NODES].path, on_list_nodes, f);
    server_handle(f->server, api_methods[API_SUBMIT].path, on_submit, f);
    server_handle(f->server, api_methods[API_WATCH].path, on_watch, f);
    server_handle(f->server, api_methods[API_CANCEL].path, on_cancel, f);
    server_handle(f->server, api_methods[API_GET_JOB].path, on_get_job, f);
    server_start(f->server);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void stop(void *arg) { loop_stop(arg); }

/* From here on the fake's records belong to the test. */
static void fake_join(struct fake *f)
{
    loop_post(f->loop, stop, f->loop);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
}

static void fake_free(struct fake *f)
{
    server_free(f->server);
    loop_free(f->loop);
    for (uint32_t i = 0; i < f->jobs_n; i++)
        job_desc_drop(f->jobs[i].desc);
}

/* --- replays --------------------------------------------------------------------------------------- */

static const char trace[] = "0 1 1 1\n"
                            "0 4 2.5 1 2 3 4\n"
                            "0.001 2 1500 1000 2000\n";

struct replay {
    struct fake fake;
    struct replay_plan plan;
    struct replay_result result;
    struct client *client;
};

/* Runs the trace against a dist with this script, to its end; what is in r is the test's then. */
static void replay(struct replay *r, const struct script *script, const struct replay_run_options *options)
{
    const struct replay_scale scale = {.time = 1};
    struct client_options contact = {.timeout_us = 2 * US_PER_S};
    const char *dir = getenv("TMPDIR");
    char path[256], why[300] = "";
    FILE *file;

    memset(r, 0, sizeof *r);
    snprintf(path, sizeof path, "%s/trace.%d", dir ? dir : "/tmp", (int)getpid());
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(trace, file);
    fclose(file);
    if (replay_plan_read(&r->plan, path, &scale, why, sizeof why))
        fail_msg("%s", why);
    unlink(path);
    replay_plan_classify(&r->plan, 1000 * US_PER_S);

    r->fake.script = *script;
    fake_start(&r->fake);
    contact.dist = server_addr(r->fake.server, 0);
    assert_int_equal(client_open(&r->client, &contact), 0);
    if (replay_run(r->client, &r->plan, options, &r->result))
        fail_msg("%s", client_error(r->client));
    fake_join(&r->fake);
}

static void end(struct replay *r)
{
    client_close(r->client);
    fake_free(&r->fake);
    replay_result_free(&r->result);
    replay_plan_free(&r->plan);
}

static const struct replay_run_options plain = {.timer = true, .quiet = true, .timeout_us = 2 * US_PER_S};

static void every_job_is_followed_to_its_end(void **state)
{
    const struct script script = {.page = 3};
    struct replay r;
    const struct replay_job_result *second;

    replay(&r, &script, &plain);
    assert_int_equal(r.fake.jobs_n, 3);
    assert_int_equal(r.fake.fetches, 1 + 2 + 1); /* four tasks are two pages */
    assert_int_equal(r.result.dists, 1);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 3);
    assert_string_equal(r.result.error, "");
    second = &r.result.jobs[1];
    assert_int_equal(second->response_us, 2 * US_PER_S);
    assert_int_equal(second->believed, CLASS_LONG);
    assert_int_equal(second->done, 4);
    assert_int_equal(second->reported, 4);
    assert_int_equal(second->stolen, 1);
    assert_int_equal(second->retried, 1);
    assert_int_equal(second->probes_sent, 8);
    assert_int_equal(r.result.wait_us[r.plan.jobs[1].first + 3], 3000);
    assert_int_equal(r.result.run_us[r.plan.jobs[1].first + 3], 7);
    end(&r);
}

static void assert_arg(const struct job_desc *d, uint32_t task, const char *text)
{
    struct blob *arg = job_desc_arg(d, task);

    assert_non_null(arg);
    assert_string_equal(arg->data, text);
    blob_drop(arg);
}

static void timers_and_estimates(void **state)
{
    const struct script script = {0};
    struct replay r;
    const struct job_desc *d;

    replay(&r, &script, &plain);
    d = r.fake.jobs[1].desc;
    assert_int_equal(d->kind, PAYLOAD_TIMER);
    assert_int_equal(d->tasks, 4);
    assert_int_equal(d->tag, TAG_AUTO);
    assert_int_equal(d->estimate_us, 2500 * US_PER_MS);
    assert_arg(d, 3, "4000000us");
    end(&r);
}

static void commands_and_classes(void **state)
{
    const struct script script = {0};
    const struct replay_run_options options = {
        .tag = REPLAY_TAG_CLASS, .quiet = true, .timeout_us = 2 * US_PER_S};
    struct replay r;
    const struct job_desc *d;

    replay(&r, &script, &options);
    d = r.fake.jobs[2].desc;
    assert_int_equal(d->kind, PAYLOAD_COMMAND);
    assert_int_equal(d->argv.n, 2);
    assert_memory_equal(d->argv.data, "sleep\0{}", 9);
    assert_string_equal(d->stdout_pattern->data, "none");
    assert_int_equal(d->tag, TAG_LONG);
    assert_int_equal(d->estimate_us, 1500 * US_PER_S);
    assert_arg(d, 1, "2000.000000");
    assert_int_equal(r.fake.jobs[0].desc->tag, TAG_SHORT);
    end(&r);
}

static void nothing_is_told_when_nothing_shall_be(void **state)
{
    const struct script script = {0};
    const struct replay_run_options options = {
        .tag = REPLAY_TAG_NONE, .timer = true, .quiet = true, .timeout_us = 2 * US_PER_S};
    struct replay r;

    replay(&r, &script, &options);
    assert_int_equal(r.fake.jobs[2].desc->tag, TAG_AUTO);
    assert_int_equal(r.fake.jobs[2].desc->estimate_us, 0);
    end(&r);
}

static void a_refused_job_is_told_and_not_repeated(void **state)
{
    const struct script script = {.refuse = 2};
    struct replay r;

    replay(&r, &script, &plain);
    assert_int_equal(r.fake.submissions, 3);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 2);
    assert_int_equal(r.result.ends[REPLAY_REFUSED], 1);
    assert_non_null(strstr(r.result.error, "the job of line "));
    assert_non_null(strstr(r.result.error, " was refused by 127.0.0.1:"));
    assert_non_null(strstr(r.result.error, ": full"));
    end(&r);
}

static void a_broken_stream_is_opened_again(void **state)
{
    const struct script script = {.break_once = 2};
    struct replay r;

    replay(&r, &script, &plain);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 3);
    assert_int_equal(r.result.jobs[1].reported, r.plan.jobs[1].tasks);
    assert_string_equal(r.result.error, "");
    end(&r);
}

static void a_job_its_dist_forgot_is_lost(void **state)
{
    const struct script script = {.forget = 2};
    struct replay r;

    replay(&r, &script, &plain);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 2);
    assert_int_equal(r.result.ends[REPLAY_LOST], 1);
    assert_non_null(strstr(r.result.error, "job 3.2 (line "));
    assert_non_null(strstr(r.result.error, "is lost: 127.0.0.1:"));
    assert_non_null(strstr(r.result.error, ": it took another job for it"));
    end(&r);
}

static void a_job_that_its_dist_forgot_is_brought_back(void **state)
{
    const struct script script = {.forget = 2, .take_back = true};
    struct replay r;

    replay(&r, &script, &plain);
    assert_int_equal(r.fake.moves, 1);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 3);
    assert_int_equal(r.result.jobs[1].reported, r.plan.jobs[1].tasks);
    assert_string_equal(r.result.error, "");
    end(&r);
}

static void a_task_nobody_reports_is_noticed(void **state)
{
    const struct script script = {.hide_task = 1};
    struct replay r;
    uint32_t reported = 0;

    replay(&r, &script, &plain);
    for (uint32_t i = 0; i < r.plan.n; i++)
        reported += r.result.jobs[i].reported;
    assert_int_equal(r.result.ends[REPLAY_ENDED], 3);
    assert_int_equal(reported, r.plan.tasks - 1);
    end(&r);
}

static void a_task_that_is_told_twice_counts_once(void **state)
{
    const struct script script = {.twice = true};
    struct replay r;

    replay(&r, &script, &plain);
    assert_int_equal(r.result.ends[REPLAY_ENDED], 3);
    for (uint32_t i = 0; i < r.plan.n; i++)
        assert_int_equal(r.result.jobs[i].reported, r.plan.jobs[i].tasks);
    end(&r);
}

static void an_interruption_cancels_what_was_submitted(void **state)
{
    const struct script script = {.hold = true, .interrupt = true};
    struct replay r;

    replay(&r, &script, &plain);
    assert_true(r.result.interrupted);
    assert_true(r.fake.jobs_n >= 1);
    assert_int_equal(r.result.ends[REPLAY_ENDED], r.fake.jobs_n);
    assert_int_equal(r.result.ends[REPLAY_NOT_SUBMITTED], r.plan.n - r.fake.jobs_n);
    for (uint32_t i = 0; i < r.fake.jobs_n; i++)
        assert_true(r.fake.jobs[i].cancelled);
    end(&r);
}

static void a_cluster_without_a_dist_is_an_error(void **state)
{
    struct client_options contact = {.dist = "127.0.0.1:1", .timeout_us = US_PER_S};
    const struct replay_plan plan = {.n = 0};
    struct replay_result result;
    struct client *client;

    assert_int_equal(client_open(&client, &contact), 0);
    assert_int_equal(replay_run(client, &plan, &plain, &result), HAWK_EUNAVAILABLE);
    assert_non_null(strstr(client_error(client), "127.0.0.1:1"));
    client_close(client);
    replay_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_is_followed_to_its_end),
        cmocka_unit_test(timers_and_estimates),
        cmocka_unit_test(commands_and_classes),
        cmocka_unit_test(nothing_is_told_when_nothing_shall_be),
        cmocka_unit_test(a_refused_job_is_told_and_not_repeated),
        cmocka_unit_test(a_broken_stream_is_opened_again),
        cmocka_unit_test(a_job_its_dist_forgot_is_lost),
        cmocka_unit_test(a_job_that_its_dist_forgot_is_brought_back),
        cmocka_unit_test(a_task_nobody_reports_is_noticed),
        cmocka_unit_test(a_task_that_is_told_twice_counts_once),
        cmocka_unit_test(an_interruption_cancels_what_was_submitted),
        cmocka_unit_test(a_cluster_without_a_dist_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
