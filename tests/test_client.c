/* User commands and libhawk against a made-up cluster: two dists, central and a worker that answer from tables, in
 * a process of their own. What is tested is who is asked, what is printed, and the exit code. */
#include "base/mem.h"
#include "cli/command.h"
#include "libhawk/client.h"
#include "net/loop.h"
#include "net/server.h"

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The cluster: A is node 1, B node 2, the worker node 3 ---- */

enum { CENTRAL, DIST_A, DIST_B, WORKER, NODES };

struct node {
    struct server *server;
    uint32_t id;
    char addr[128], alias[128]; /* it listens on both; addr is the one that is listed */
};

static struct node nodes[NODES];
static struct loop *server_loop;

static void answer(struct rpc_call *c, enum api_method m, const void *reply)
{
    uint8_t *data;
    size_t len;
    api_encode(api_methods[m].reply, reply, &data, &len);
    if (api_methods[m].streaming)
        assert_int_equal(rpc_send(c, data, len), 0);
    else
        rpc_reply(c, data, len);
    free(data);
}

static void list_nodes(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_node all[] = {
        {.node = 0xffffff,
         .name = "central",
         .role = "central",
         .address = nodes[CENTRAL].addr,
         .state = "up"},
        {.node = 1, .name = "a", .role = "dist", .address = nodes[DIST_A].addr, .state = "up"},
        {.node = 2, .name = "b", .role = "dist", .address = nodes[DIST_B].addr, .state = "up"},
        {.node = 3,
         .name = "w",
         .role = "worker",
         .address = nodes[WORKER].addr,
         .state = "up",
         .slots = 4,
         .general = true,
         .long_wait_us = 1500000},
        {.node = 4, .name = "gone", .role = "dist", .address = "127.0.0.1:1", .state = "gone"}};
    /* Dist A leaves itself out; dist B does not, and does not say that it is B. */
    struct api_node listed[5];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 5; i++)
        if (n->id != 1 || all[i].node != 1)
            listed[count++] = all[i];
    answer(c, API_LIST_NODES,
           &(struct api_list_nodes_reply){.nodes = listed, .nodes_n = count, .self = n->id == 2 ? 0 : n->id});
}

static struct api_job job_of(const struct node *n, uint64_t seq)
{
    bool failed = n->id == 2;
    return (struct api_job){.job = job_id_make((node_id_t){n->id}, seq),
                            .name = failed ? "bad\033[1m" : "good",
                            .user = "ann o'nymous", /* nobody has such a name */
                            .state = failed ? JOB_FAILED : JOB_DONE,
                            .class = CLASS_SHORT,
                            .why = WHY_ESTIMATE,
                            .estimate_us = 2000000,
                            .cutoff_us = 10000000,
                            .tasks = 3,
                            .done = failed ? 2 : 3,
                            .failed = failed,
                            .age_us = (int64_t)(100 * n->id - seq),
                            .response_us = 50,
                            .first_start_us = 5,
                            .probes_sent = 6,
                            .probes_cancelled = 2,
                            .probes_unused = 1};
}

/* Each dist knows the jobs 5 and 6 of its own. */
static bool knows(const struct node *n, struct rpc_call *c, job_id_t job)
{
    if (job_id_node(job).v == n->id && (job_id_seq(job) == 5 || job_id_seq(job) == 6))
        return true;
    if (n->id == 1 && job_id_seq(job) == 8) /* that of test_wait_through_many_breaks */
        return true;
    if (n->id == 2 && job_id_node(job).v == 1 && job_id_seq(job) == 9) /* that of test_move */
        return true;
    rpc_fail(c, GRPC_STATUS_NOT_FOUND, "no such job here");
    return false;
}

static void list_jobs(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_list_jobs_request *r = request;
    struct api_job jobs[] = {job_of(n, 6), job_of(n, 5)};
    uint32_t skip = r->before.v ? 7 - (uint32_t)job_id_seq(r->before) : 0; /* one job in a page */
    answer(c, API_LIST_JOBS,
           &(struct api_list_jobs_reply){.jobs = jobs + skip, .jobs_n = skip < 2, .more = skip < 1});
}

static void get_job(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_get_job_request *r = request;
    if (!knows(n, c, r->job))
        return;
    struct job_desc *spec = job_desc_new();
    struct api_task tasks[3];
    struct api_reservation live = {.worker = 3, .worker_name = "w", .count = 2};
    strings_add(&spec->argv, "echo");
    spec->tasks = 3;
    spec->first_index = 10;
    for (uint32_t i = 0; i < 3; i++)
        tasks[i] = (struct api_task){.task = i,
                                     .state = TASK_DONE,
                                     .outcome = OUTCOME_EXITED,
                                     .attempt = 1,
                                     .worker = 3,
                                     .worker_name = "w",
                                     .wait_us = 10 * (int64_t)i,
                                     .run_us = 7,
                                     .stolen = i == 1};
    if (n->id == 2) {
        tasks[1].state = TASK_FAILED;
        tasks[1].code = 3;
    }
    uint32_t first = r->first_task < 3 ? r->first_task : 3, max = r->max_tasks < 2 ? r->max_tasks : 2;
    struct api_get_job_reply reply = {.job = job_of(n, job_id_seq(r->job)),
                                      .tasks = tasks + first,
                                      .tasks_n = 3 - first < max ? 3 - first : max,
                                      .reservations = &live,
                                      .reservations_n = 1,
                                      .spec = r->spec ? spec : NULL,
                                      .blocked = "all slots are busy"};
    answer(c, API_GET_JOB, &reply);
    job_desc_drop(spec);
}

/* Job 6 of A breaks its stream the first time, job 8 many times. */
#define BREAKS 32

static void watch(struct node *n, struct rpc_call *c, const void *request)
{
    static int broken, often;
    const struct api_watch_request *r = request;
    if (!knows(n, c, r->job))
        return;
    struct api_event event = {.job = job_of(n, job_id_seq(r->job))};
    enum job_state final = event.job.state;
    event.job.state = JOB_RUNNING;
    answer(c, API_WATCH, &event);
    if (n->id == 1 &&
        ((job_id_seq(r->job) == 6 && broken++ == 0) || (job_id_seq(r->job) == 8 && often++ < BREAKS))) {
        rpc_fail(c, GRPC_STATUS_UNAVAILABLE, "restarting");
        return;
    }
    event.job.state = final;
    answer(c, API_WATCH, &event);
    rpc_finish(c);
}

/* The job of A is to be moved: A has forgotten it and takes none over, nor does B take job 10. */
#define REFUSALS_MAX 20 /* then this is not what the tests expect */

static void resubmit(struct node *n, struct rpc_call *c, job_id_t job)
{
    static int refusals;
    if (n->id == 2 && job_id_seq(job) == 9)
        answer(c, API_SUBMIT, &(struct api_submit_reply){.job = job});
    else if (refusals++ < REFUSALS_MAX)
        rpc_fail(c, GRPC_STATUS_UNAVAILABLE, "it starts");
    else
        rpc_fail(c, GRPC_STATUS_PERMISSION_DENIED, "asked too often");
}

static void submit(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_submit_request *r = request;
    bool odd = r->job->tasks != 3 || r->job->argv.n != 2;
    const char *word = odd ? "" : strchr(r->job->argv.data, '\0') + 1; /* hello, moves or stays */
    uint32_t seq = r->job->flags & JOB_DETACHED ? 6 : 5;
    if (*word == 'm')
        seq = 9;
    if (*word == 's')
        seq = 10;
    if (odd)
        rpc_fail(c, GRPC_STATUS_INVALID_ARGUMENT, "not the job of the test");
    else if (r->resubmit.job.v)
        resubmit(n, c, r->resubmit.job);
    else
        answer(c, API_SUBMIT, &(struct api_submit_reply){.job = job_id_make((node_id_t){n->id}, seq)});
}

static void cancel(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_cancel_request *r = request;
    if (knows(n, c, r->job))
        answer(c, API_CANCEL, &(struct api_cancel_reply){.already_ended = job_id_seq(r->job) == 5});
}

/* Job 5 is made, and the answer is lost. Job 6's is always lost. */
static void rerun(struct node *n, struct rpc_call *c, const void *request)
{
    static uint64_t made;
    const struct api_rerun_request *r = request;
    if (!knows(n, c, r->job))
        return;
    if (job_id_seq(r->job) == 5 && r->key && r->key == made) {
        answer(c, API_RERUN, &(struct api_submit_reply){.job = job_id_make((node_id_t){n->id}, 7)});
        return;
    }
    made = r->key;
    rpc_fail(c, GRPC_STATUS_UNAVAILABLE, "Socket closed");
}

static void get_stats(struct node *n, struct rpc_call *c, const void *request)
{
    struct api_counter total = {.name = "probes_sent", .value = 1ull << 40};
    answer(c, API_GET_STATS,
           &(struct api_get_stats_reply){.total = &total,
                                         .total_n = 1,
                                         .cutoff_us = 10000000,
                                         .short_share_ppm = 170000,
                                         .history_jobs = 4});
}

static void policy(struct node *n, struct rpc_call *c, const void *request)
{
    const char *flags[] = {"stealing"};
    answer(c, API_GET_POLICY,
           &(struct api_policy){.version = 3,
                                .name = "hawk",
                                .probe_ratio_milli = 1500,
                                .steal_cap = 10,
                                .short_first = 100,
                                .flags = flags,
                                .flags_n = 1});
}

static void set_policy(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_set_policy_request *r = request;
    if (r->has_cutoff_us)
        rpc_fail(c, GRPC_STATUS_FAILED_PRECONDITION, "the policy was not changed: it shuts down");
    else
        answer(c, API_SET_POLICY,
               &(struct api_policy){.version = 4, .name = r->reset ? "as configured" : r->preset});
}

static void read_output(struct node *n, struct rpc_call *c, const void *request)
{
    const struct api_read_output_request *r = request;
    char text[64];
    int len = snprintf(text, sizeof text, "task %u %s\n", r->task, r->stderr ? "err" : "out");
    answer(c, API_READ_OUTPUT,
           &(struct api_output_chunk){.data = (uint8_t *)text, .data_n = (uint32_t)len, .path = "/x"});
    answer(c, API_READ_OUTPUT, &(struct api_output_chunk){.data = (const uint8_t *)"end\n", .data_n = 4});
    rpc_finish(c);
}

/* Who serves what. */
static const struct service {
    void (*fn)(struct node *n, struct rpc_call *c, const void *request);
    unsigned where;
} services[API_METHOD_COUNT] = {
    [API_SUBMIT] = {submit, 1 << DIST_A | 1 << DIST_B},
    [API_WATCH] = {watch, 1 << DIST_A | 1 << DIST_B},
    [API_CANCEL] = {cancel, 1 << DIST_A | 1 << DIST_B},
    [API_LIST_JOBS] = {list_jobs, 1 << DIST_A | 1 << DIST_B},
    [API_GET_JOB] = {get_job, 1 << DIST_A | 1 << DIST_B},
    [API_LIST_NODES] = {list_nodes, 1 << DIST_A | 1 << DIST_B | 1 << CENTRAL},
    [API_RERUN] = {rerun, 1 << DIST_A | 1 << DIST_B},
    [API_GET_STATS] = {get_stats, 1 << CENTRAL},
    [API_GET_POLICY] = {policy, 1 << CENTRAL},
    [API_SET_POLICY] = {set_policy, 1 << CENTRAL},
    [API_READ_OUTPUT] = {read_output, 1 << WORKER},
};

struct handler {
    struct node *node;
    enum api_method method;
};

static void on_call(void *arg, struct rpc_call *c, const uint8_t *request, size_t len)
{
    struct handler *h = arg;
    const struct api_type *type = api_methods[h->method].request;
    char msg[1024], why[200];
    if (api_decode(type, request, len, msg, why, sizeof why)) {
        rpc_fail(c, GRPC_STATUS_INVALID_ARGUMENT, "%s", why);
        return;
    }
    services[h->method].fn(h->node, c, msg);
    api_free(type, msg);
}

static void on_parent_gone(void *arg, unsigned events) { loop_stop(server_loop); }

/* Serves until the parent closes its end of `life`; tells the addresses through `ready`. */
#define TOKEN "secret-of-clients"

static void serve(int life, int ready)
{
    static struct handler handlers[NODES][API_METHOD_COUNT];
    static const uint32_t ids[NODES] = {0, 1, 2, 3};
    char why[200];
    server_loop = loop_new(LOOP_NET);
    for (int i = 0; i < NODES; i++) {
        struct node *n = &nodes[i];
        n->id = ids[i];
        n->server = server_new(server_loop, &(struct server_config){.token = TOKEN});
        if (server_listen(n->server, "127.0.0.1:0", why, sizeof why) ||
            server_listen(n->server, n->alias, why, sizeof why))
            _exit(1);
        snprintf(n->addr, sizeof n->addr, "%s", server_addr(n->server, 0));
        for (int m = 0; m < API_METHOD_COUNT; m++) {
            handlers[i][m] = (struct handler){n, (enum api_method)m};
            if (services[m].where & 1u << i)
                server_handle(n->server, api_methods[m].path, on_call, &handlers[i][m]);
        }
        server_start(n->server);
    }
    for (int i = 0; i < NODES; i++)
        if (write(ready, nodes[i].addr, sizeof nodes[i].addr) < 0)
            _exit(1);
    struct loop_fd *fd = loop_fd_add(server_loop, life, LOOP_READ, on_parent_gone, NULL);
    loop_run(server_loop);
    loop_fd_remove(fd);
    for (int i = 0; i < NODES; i++)
        server_free(nodes[i].server);
    loop_free(server_loop);
    _exit(0);
}

static int life_end;
static char dir[] = "/tmp/hawk-test-XXXXXX";
static pid_t server_pid;

static int start_cluster(void **state)
{
    int life[2], ready[2];
    if (pipe(life) || pipe(ready) || !mkdtemp(dir))
        return 1;
    for (int i = 0; i < NODES; i++)
        snprintf(nodes[i].alias, sizeof nodes[i].alias, "unix:%s/%d", dir, i);
    server_pid = fork();
    if (server_pid == 0) {
        close(life[1]);
        close(ready[0]);
        serve(life[0], ready[1]);
    }
    close(life[0]);
    close(ready[1]);
    life_end = life[1];
    for (int i = 0; i < NODES; i++)
        if (read(ready[0], nodes[i].addr, sizeof nodes[i].addr) != sizeof nodes[i].addr)
            return 1;
    close(ready[0]);
    setenv("HAWK_TOKEN", TOKEN, 1);
    setenv("HAWK_DIST", nodes[DIST_A].addr, 1);
    return 0;
}

static int stop_cluster(void **state)
{
    int status = 0;
    close(life_end);
    waitpid(server_pid, &status, 0);
    for (int i = 0; i < NODES; i++)
        unlink(nodes[i].alias + strlen("unix:"));
    return rmdir(dir) ? 1 : status;
}

/* ---- Running commands ---- */

static char out[1 << 15], err[1 << 13];

static void slurp(FILE *f, char *to, size_t size)
{
    rewind(f);
    to[fread(to, 1, size - 1, f)] = '\0';
    fclose(f);
}

/* Runs "jobs --all" and the like; returns the exit code, what it printed is in out and err. */
static int hawk(const char *line)
{
    char copy[512], *rest = copy, *argv[24];
    int argc = 0, saved_out = dup(1), saved_err = dup(2);
    FILE *to_out = tmpfile(), *to_err = tmpfile();
    snprintf(copy, sizeof copy, "%s", line);
    while ((argv[argc] = strsep(&rest, " ")))
        argc++;
    fflush(stdout);
    dup2(fileno(to_out), 1);
    dup2(fileno(to_err), 2);
    int result = command_run(command_find(client_commands, argv[0]), argc, argv);
    fflush(stdout);
    dup2(saved_out, 1);
    dup2(saved_err, 2);
    close(saved_out);
    close(saved_err);
    slurp(to_out, out, sizeof out);
    slurp(to_err, err, sizeof err);
    return result;
}

static json_t *hawk_json(const char *line, int expected)
{
    json_error_t e;
    assert_int_equal(hawk(line), expected);
    json_t *doc = json_loads(out, 0, &e);
    assert_non_null(doc);
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), "hawk.v1");
    return doc;
}

#define assert_contains(text, part) assert_non_null(strstr((text), (part)))

/* ---- Tests ---- */

static void test_submit(void **state)
{
    assert_int_equal(hawk("submit --array 1-3 -- echo hello"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.6\n"); /* detached: nobody waits */
    assert_string_equal(err, "");
    assert_int_equal(hawk("submit --array 1-3 --wait -- echo hello"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.5\n");
    json_t *doc = hawk_json("submit -o json --array 1-3 echo hello", HAWK_EXIT_OK);
    assert_string_equal(json_string_value(json_object_get(doc, "job")), "1.6");
    json_decref(doc);
    doc = hawk_json("submit -o json -w --array 1-3 echo hello", HAWK_EXIT_OK);
    assert_int_equal(json_array_size(json_object_get(doc, "jobs")), 1);
    json_decref(doc);
    assert_int_equal(hawk("submit --array 1-4 -- echo hello"), HAWK_EXIT_USAGE);
    assert_contains(err, "not the job of the test");
}

static void test_wait(void **state)
{
    assert_int_equal(hawk("wait 1.5"), HAWK_EXIT_OK);
    assert_string_equal(out, "");
    assert_int_equal(hawk("wait 1.5-6,2.5"), HAWK_EXIT_FAILED); /* 2.5 is B's, the contact is A */
    assert_contains(err, "job 2.5: 1 of 3 tasks failed\n  task 11: exited 3, on w\n");
    assert_contains(err, "`hawk job 2.5`");
    assert_int_equal(hawk("wait 1.7"), HAWK_EXIT_UNREACHABLE);
    assert_contains(err, "no such job here");
    assert_int_equal(hawk("wait 9.1"), HAWK_EXIT_UNREACHABLE);
    assert_int_equal(hawk("wait"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("wait --progress 1.5"), HAWK_EXIT_OK);
    assert_contains(err, "3 of 3 tasks done");
    json_t *doc = hawk_json("wait -o json 2.5", HAWK_EXIT_FAILED);
    json_t *job = json_array_get(json_object_get(doc, "jobs"), 0);
    assert_string_equal(json_string_value(json_object_get(job, "name")), "bad\033[1m");
    json_decref(doc);
}

/* A stream that told something was good: after each it asks again at once, and does not wait longer and longer, which
 * would be a minute. Nor do the breaks together count as one outage: they take longer than the timeout. */
static void test_wait_through_many_breaks(void **state)
{
    assert_int_equal(hawk("wait --for 20s --timeout 600ms 1.8"), HAWK_EXIT_OK);
}

/* A dist that has forgotten a job, and does not take it over, leaves it to the others; when they refuse it too, that
 * ends. */
static void test_move(void **state)
{
    assert_int_equal(hawk("submit --wait --array 1-3 -- echo moves"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.9\n");
    assert_int_equal(hawk("submit --wait --timeout 300ms --array 1-3 -- echo stays"), HAWK_EXIT_UNREACHABLE);
    assert_contains(err, "it starts");
}

/* Those of both dists, newest first. */
static void test_jobs(void **state)
{
    assert_int_equal(hawk("jobs -q"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.6\n1.5\n2.6\n2.5\n");
    assert_int_equal(hawk("jobs -q --limit 1"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.6\n");
    assert_int_equal(hawk("jobs -q --state failed,pending"), HAWK_EXIT_OK);
    assert_string_equal(out, "2.6\n2.5\n");
    assert_int_equal(hawk("jobs -q --name good --limit 2"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.6\n1.5\n");
    assert_int_equal(hawk("jobs --user nobody"), HAWK_EXIT_OK);
    assert_string_equal(out, "no jobs\n");
    assert_int_equal(hawk("jobs"), HAWK_EXIT_OK);
    assert_contains(out, "2.5  bad?[1m");
    assert_int_equal(hawk("jobs --state lost"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("jobs 3.17"), HAWK_EXIT_USAGE);
}

static void test_job(void **state)
{
    assert_int_equal(hawk("job 2.5"), HAWK_EXIT_OK);
    assert_contains(out, "job 2.5  failed, short: bad?[1m");
    assert_contains(out, "  11  failed  exited 3        1  w (stolen)");
    assert_int_equal(hawk("job 2.5 --failed"), HAWK_EXIT_OK);
    assert_null(strstr(out, "\n    10  "));
    json_t *doc = hawk_json("job -o json 2.5,1.5", HAWK_EXIT_OK);
    json_t *tasks = json_object_get(json_array_get(json_object_get(doc, "jobs"), 0), "task_list");
    assert_int_equal(json_array_size(tasks), 3); /* over two pages */
    assert_int_equal(json_integer_value(json_object_get(json_array_get(tasks, 2), "index")), 12);
    json_decref(doc);
    assert_int_equal(hawk("job 1.99"), HAWK_EXIT_UNREACHABLE);
}

static void test_cancel(void **state)
{
    assert_int_equal(hawk("cancel 2.5-6"), HAWK_EXIT_OK);
    assert_string_equal(out, "2.5 had already ended\n2.6 cancelled\n");
    assert_int_equal(hawk("cancel 1.1,1.6"), HAWK_EXIT_UNREACHABLE);
    assert_string_equal(out, "1.6 cancelled\n");        /* the others all the same */
    assert_int_equal(hawk("cancel all"), HAWK_EXIT_OK); /* none is unfinished */
    assert_string_equal(out, "nothing to cancel\n");
    assert_int_equal(hawk("cancel last"), HAWK_EXIT_UNREACHABLE); /* none is ours */
    assert_contains(err, "no job of user");
}

static void test_resubmit(void **state)
{
    struct client *client;
    struct api_submit_reply reply;
    assert_int_equal(hawk("resubmit 1.5"), HAWK_EXIT_OK);
    assert_string_equal(out, "1.7\n");
    assert_int_equal(hawk("resubmit 2.5"), HAWK_EXIT_OK); /* the contact is the other dist */
    assert_string_equal(out, "2.7\n");
    assert_int_equal(hawk("resubmit 1.99"), HAWK_EXIT_UNREACHABLE);
    assert_null(strstr(err, "not known"));
    assert_int_equal(
        client_open(&client, &(struct client_options){.dist = nodes[DIST_A].addr, .timeout_us = 500000}), 0);
    assert_int_equal(
        client_rerun(client, job_id_make((node_id_t){1}, 6), false, &(struct after_list){0}, &reply),
        HAWK_EUNAVAILABLE);
    assert_contains(client_error(client), "broke (Socket closed): is it running? ask again, or another node; "
                                          "whether it accepted the job is not known: look for it");
    client_close(client);
}

static void test_cat(void **state)
{
    assert_int_equal(hawk("cat 2.5"), HAWK_EXIT_OK);
    assert_string_equal(out, "task 0 out\nend\ntask 1 out\nend\ntask 2 out\nend\n");
    assert_int_equal(hawk("cat 1.5 11 stderr"), HAWK_EXIT_OK); /* by HAWK_TASK_INDEX */
    assert_string_equal(out, "task 1 err\nend\n");
    assert_int_equal(hawk("cat --follow 1.5 stderr"), HAWK_EXIT_OK);
    assert_contains(out, "task 2 err\n");
    assert_int_equal(hawk("cat 1.5 13"), HAWK_EXIT_USAGE);
    assert_contains(err, "has no task '13': its tasks are 10 to 12");
    assert_int_equal(hawk("cat 1.5 stdin"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("cat"), HAWK_EXIT_USAGE);
}

static void test_explain(void **state)
{
    assert_int_equal(hawk("explain 1.5"), HAWK_EXIT_OK);
    assert_contains(out, "the user's estimate of 2s for a task is below the cutoff of 10s");
    assert_contains(out, "blocked   all slots are busy");
    assert_contains(out, "6 sent: 3 used, 0 live, 2 cancelled, 1 answered \"none left\"");
    assert_contains(out, "waited    task 12, 20us");
    assert_contains(out, "w (3)        0        0     3       0          0             2       1");
    json_t *doc = hawk_json("explain -o json 1.5", HAWK_EXIT_OK);
    json_t *job = json_array_get(json_object_get(doc, "jobs"), 0);
    json_t *worker = json_array_get(json_object_get(job, "workers"), 0);
    assert_int_equal(json_integer_value(json_object_get(worker, "reservations")), 2);
    assert_int_equal(json_integer_value(json_object_get(job, "tasks_stolen")), 1);
    json_decref(doc);
}

static void test_cluster(void **state)
{
    assert_int_equal(hawk("nodes"), HAWK_EXIT_OK);
    assert_contains(out, "general");
    assert_contains(out, "1.5s");
    assert_int_equal(hawk("nodes -q"), HAWK_EXIT_OK);
    assert_string_equal(out, "central\na\nb\nw\ngone\n");
    assert_int_equal(hawk("stats"), HAWK_EXIT_OK);
    assert_contains(out, "1099511627776");
    assert_contains(out, "17% of the slots (as configured)");
    json_t *doc = hawk_json("stats -o json", HAWK_EXIT_OK);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "total"), "probes_sent")),
                     1ll << 40);
    json_decref(doc);
    assert_int_equal(hawk("policy"), HAWK_EXIT_OK);
    assert_contains(out, "probe ratio        1.5");
    assert_contains(out, "up to 100 short tasks overtake");
    doc = hawk_json("policy -o json", HAWK_EXIT_OK);
    assert_int_equal(json_integer_value(json_object_get(doc, "short_first")), 100);
    json_decref(doc);
    assert_int_equal(hawk("policy set sparrow"), HAWK_EXIT_OK);
    assert_contains(out, "policy sparrow (version 4): cutoff ");
    assert_int_equal(hawk("policy set --cutoff 10s"), HAWK_EXIT_UNREACHABLE);
    assert_contains(err, "it shuts down");
    assert_int_equal(hawk("policy reset"), HAWK_EXIT_OK);
    assert_contains(out, "policy as configured (version 4)");
    assert_int_equal(hawk("policy set"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("policy reset sparrow"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("policy --cutoff 10s"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("policy set --probe-ratio 0.5"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("policy set --short-first 65536"), HAWK_EXIT_USAGE);
    assert_int_equal(hawk("policy set --short-first 0"), HAWK_EXIT_OK); /* 0 is a value */
    assert_contains(out, "(version 4)");
}

/* The first contact does not answer: the second does. */
static void test_contacts(void **state)
{
    char line[300];
    snprintf(line, sizeof line, "submit --dist 127.0.0.1:1,%s --array 1-3 -- echo x", nodes[DIST_B].addr);
    assert_int_equal(hawk(line), HAWK_EXIT_OK);
    assert_string_equal(out, "2.6\n");
    snprintf(line, sizeof line, "wait --dist 127.0.0.1:1,%s 1.5", nodes[DIST_B].addr);
    assert_int_equal(hawk(line), HAWK_EXIT_OK);
    assert_int_equal(hawk("nodes --dist 127.0.0.1:1"), HAWK_EXIT_UNREACHABLE);
    assert_contains(err, "cannot reach 127.0.0.1:1: Connection refused; is it running?");
    assert_int_equal(hawk("nodes --dist nonsense"), HAWK_EXIT_USAGE);
    /* B under another address than the listed one: still each job once. */
    snprintf(line, sizeof line, "jobs -q --dist %s", nodes[DIST_B].alias);
    assert_int_equal(hawk(line), HAWK_EXIT_OK);
    assert_string_equal(out, "1.6\n1.5\n2.6\n2.5\n");
}

static void test_token(void **state)
{
    setenv("HAWK_TOKEN", "a-wrong-guess-of-it", 1);
    assert_int_equal(hawk("nodes"), HAWK_EXIT_UNREACHABLE);
    assert_contains(err, "token");
    setenv("HAWK_TOKEN", "guess", 1);
    assert_int_equal(hawk("nodes"), HAWK_EXIT_USAGE);
    assert_contains(err, "HAWK_TOKEN: a token has 16 to 1024 characters, this one has 5: make one");
    assert_int_equal(hawk("nodes --token-file /dev/null"), HAWK_EXIT_USAGE);
    assert_contains(err, "token file /dev/null: a token has 16 to 1024 characters, this one has 0");
    assert_int_equal(hawk("nodes --token-file /nonexistent"), HAWK_EXIT_USAGE);
    assert_contains(err, "/nonexistent: No such file");
    setenv("HAWK_TOKEN", TOKEN, 1);
}

static void test_no_cluster(void **state)
{
    unsetenv("HAWK_DIST");
    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    assert_int_equal(hawk("jobs"), HAWK_EXIT_UNREACHABLE);
    assert_string_equal(
        err, "hawk: jobs: no cluster found: start one with `hawk up`, or name a dist with --dist or "
             "HAWK_DIST\n");
    unsetenv("XDG_RUNTIME_DIR");
    char socket[128], said[128];
    if (access(client_default_socket(socket, sizeof socket) + strlen("unix:"), F_OK) !=
        0) { /* nobody's here */
        assert_int_equal(hawk("jobs"), HAWK_EXIT_UNREACHABLE);
        snprintf(said, sizeof said,
                 "(XDG_RUNTIME_DIR is not set here: the `hawk up` of your login session would be at "
                 "unix:/run/user/%u/hawk/up.sock)\n",
                 (unsigned)getuid());
        assert_contains(err, said);
    }
    setenv("HAWK_DIST", nodes[DIST_A].addr, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit),     cmocka_unit_test(test_wait),
        cmocka_unit_test(test_jobs),       cmocka_unit_test(test_job),
        cmocka_unit_test(test_cancel),     cmocka_unit_test(test_cat),
        cmocka_unit_test(test_explain),    cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_contacts),   cmocka_unit_test(test_token),
        cmocka_unit_test(test_no_cluster), cmocka_unit_test(test_wait_through_many_breaks),
        cmocka_unit_test(test_move),       cmocka_unit_test(test_resubmit),
    };
    return cmocka_run_group_tests(tests, start_cluster, stop_cluster);
}
