/* What a cluster of real daemons costs that does nothing: memory of each, processor time per second before and after
 * 100,000 jobs have ended there, and memory of long tasks that wait. Usage: bench_idle [FILE.json [ROUNDS [JOBS]]] */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "bench/lib/programs.h"
#include "net/api.h"
#include "net/rpc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_US (60 * US_PER_S)
#define WAIT_US (300 * US_PER_S)
#define LOOK_US (20 * US_PER_S) /* how long a cluster is watched at a time */
#define REST_US (3 * US_PER_S)  /* after something happened: commits, member lists, … */
#define LONG_TASKS 200000u
#define CALLS_IN_FLIGHT 64u

struct bench {
    struct loop *loop;
    char hawk[PATH_MAX];
    char dir[64], central_addr[ADDRESS_MAX], dist_addr[ADDRESS_MAX], worker_addr[ADDRESS_MAX];
    pid_t central, dist, worker; /* 0: not started */
    struct channel *channel;
    uint32_t calls;
    uint64_t ended; /* by GetStats */
};

static void turn(struct bench *b, int64_t us)
{
    int64_t end_us = loop_now(b->loop) + us;

    while (loop_now(b->loop) < end_us)
        loop_once(b->loop, end_us);
}

/* ---- Daemons ---- */

static void start_central(struct bench *b)
{
    char state[100];

    make_dir(b->dir, sizeof b->dir, "hawk-bench-idle");
    snprintf(state, sizeof state, "%s/central", b->dir);
    b->central = start_daemon(b->hawk, b->central_addr, "central", "--listen", "127.0.0.1:0", "--state-dir",
                              state, "--log-level", "error", NULL);
}

static void start_dist(struct bench *b)
{
    char state[100];

    snprintf(state, sizeof state, "%s/dist", b->dir);
    b->dist = start_daemon(b->hawk, b->dist_addr, "dist", "--listen", "127.0.0.1:0", "--central",
                           b->central_addr, "--state-dir", state, "--log-level", "error", NULL);
    b->channel = channel_new(b->loop, b->dist_addr, NULL);
}

static void start_worker(struct bench *b)
{
    char state[100], output[100];

    snprintf(state, sizeof state, "%s/worker", b->dir);
    snprintf(output, sizeof output, "%s/output", b->dir);
    b->worker = start_daemon(b->hawk, b->worker_addr, "worker", "--listen", "127.0.0.1:0", "--central",
                             b->central_addr, "--slots", "16", "--state-dir", state, "--output-dir", output,
                             "--log-level", "error", NULL);
}

static void stop_all(struct bench *b)
{
    channel_free(b->channel);
    if (b->worker)
        end_program(b->worker, SIGTERM); /* so that its spawner goes as well */
    if (b->dist)
        end_program(b->dist, SIGKILL);
    end_program(b->central, SIGKILL);
    remove_dir(b->dir);
    b->channel = NULL;
    b->worker = b->dist = b->central = 0;
}

/* ---- Calls ---- */

static void on_done(void *arg, grpc_status_code status, const char *text)
{
    if (status != GRPC_STATUS_OK)
        bench_die("the dist refused a call: %s", text);
    ((struct bench *)arg)->calls--;
}

static void call(struct bench *b, enum api_method method, const void *request,
                 void (*reply)(void *arg, const uint8_t *data, size_t len))
{
    const struct rpc_fns fns = {.reply = reply, .done = on_done};
    uint8_t *data;
    size_t len;
    int64_t end_us = loop_now(b->loop) + WAIT_US;

    api_encode(api_methods[method].request, request, &data, &len);
    b->calls++;
    rpc_start(b->channel, api_methods[method].path, data, len, CALL_US, true, &fns, b);
    free(data);
    while (b->calls >= CALLS_IN_FLIGHT)
        loop_once(b->loop, end_us);
}

static void finish_calls(struct bench *b)
{
    int64_t end_us = loop_now(b->loop) + WAIT_US;

    while (b->calls)
        loop_once(b->loop, end_us);
}

static void on_stats(void *arg, const uint8_t *data, size_t len)
{
    struct bench *b = arg;
    struct api_get_stats_reply r;
    char why[100];

    if (api_decode(&api_get_stats_reply_type, data, len, &r, why, sizeof why) != 0)
        bench_die("%s", why);
    for (uint32_t n = 0; n < r.nodes_n; n++)
        for (uint32_t i = 0; strcmp(r.nodes[n].role, "dist") == 0 && i < r.nodes[n].counters_n; i++)
            if (strcmp(r.nodes[n].counters[i].name, "jobs_finished") == 0)
                b->ended = r.nodes[n].counters[i].value;
    api_free(&api_get_stats_reply_type, &r);
}

static void submit(struct bench *b, uint32_t tasks, enum class_tag tag, const char *time)
{
    struct job_desc *d = job_desc_new();
    struct api_submit_request r = {.job = d};

    d->tasks = tasks;
    d->kind = PAYLOAD_TIMER;
    d->tag = (uint8_t)tag;
    d->flags = JOB_DETACHED;
    strings_add(&d->argv, time);
    call(b, API_SUBMIT, &r, NULL);
    job_desc_drop(d);
}

/* ---- Idle daemons, and a cluster that has had work ---- */

static void look(struct figures *f, struct bench *b, const char *const names[3])
{
    const pid_t pids[3] = {b->central, b->dist, b->worker};
    double before[3];

    turn(b, REST_US);
    for (int i = 0; i < 3; i++)
        before[i] = program_cpu_s(pids[i]);
    turn(b, LOOK_US);
    for (int i = 0; i < 3; i++)
        figures_add(f, names[i], "us/s",
                    (program_cpu_s(pids[i]) - before[i]) * 1e6 / ((double)LOOK_US / US_PER_S));
}

/* All three, until they rest, and what memory they take then. */
static void start_fresh(struct figures *f, struct bench *b)
{
    start_central(b);
    start_dist(b);
    start_worker(b);
    turn(b, REST_US);
    figures_add(f, "idle central, memory", "MB", program_memory(b->central, "VmRSS") / 1e6);
    figures_add(f, "idle dist, memory", "MB", program_memory(b->dist, "VmRSS") / 1e6);
    figures_add(f, "idle worker, memory", "MB", program_memory(b->worker, "VmRSS") / 1e6);
}

static void measure_idle(struct figures *f, struct bench *b, uint32_t rounds, uint32_t jobs)
{
    static const char *const fresh[] = {"idle central, CPU, no finished jobs",
                                        "idle dist, CPU, no finished jobs",
                                        "idle worker, CPU, no finished jobs"};
    static const char *const used[] = {"idle central, CPU, after the jobs", "idle dist, CPU, after the jobs",
                                       "idle worker, CPU, after the jobs"};
    int64_t end_us;

    start_fresh(f, b);
    /* The connection that the jobs take is there before as well: it is pinged, which costs the dist something. */
    call(b, API_GET_STATS, &(struct api_get_stats_request){0}, on_stats);
    finish_calls(b);
    for (uint32_t i = 0; i < rounds; i++)
        look(f, b, fresh);
    for (uint32_t i = 0; i < jobs; i++)
        submit(b, 1, TAG_SHORT, "1us");
    finish_calls(b);
    end_us = loop_now(b->loop) + WAIT_US;
    while (b->ended < jobs && loop_now(b->loop) < end_us) {
        call(b, API_GET_STATS, &(struct api_get_stats_request){0}, on_stats);
        turn(b, US_PER_S);
    }
    if (b->ended < jobs)
        bench_die("only %llu of %u jobs ended", (unsigned long long)b->ended, jobs);
    for (uint32_t i = 0; i < rounds; i++)
        look(f, b, used);
    stop_all(b);
}

static void measure_fresh_memory(struct figures *f, struct bench *b, uint32_t rounds)
{
    for (uint32_t i = 1; i < rounds; i++) {
        start_fresh(f, b);
        stop_all(b);
    }
    figures_at_most(f, "idle central, memory", 14);
    figures_at_most(f, "idle dist, memory", 14);
    figures_at_most(f, "idle worker, memory", 14);
}

/* ---- Long tasks that wait at a worker ---- */

static void measure_queued(struct figures *f, struct bench *b, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        double central, dist, worker;

        start_central(b);
        start_dist(b);
        start_worker(b);
        turn(b, REST_US);
        central = program_memory(b->central, "VmRSS");
        dist = program_memory(b->dist, "VmRSS");
        worker = program_memory(b->worker, "VmRSS");
        submit(b, LONG_TASKS, TAG_LONG, "1h");
        finish_calls(b);
        turn(b, 2 * REST_US);
        figures_add(f, "central, memory per queued long task", "B",
                    (program_memory(b->central, "VmRSS") - central) / LONG_TASKS);
        figures_add(f, "dist, memory per queued long task", "B",
                    (program_memory(b->dist, "VmRSS") - dist) / LONG_TASKS);
        figures_add(f, "worker, memory per queued long task", "B",
                    (program_memory(b->worker, "VmRSS") - worker) / LONG_TASKS);
        end_program(b->worker, SIGKILL); /* nothing runs there but timers */
        b->worker = 0;
        stop_all(b);
    }
    figures_at_most(f, "central, memory per queued long task", 300);
    figures_at_most(f, "dist, memory per queued long task", 300);
    figures_at_most(f, "worker, memory per queued long task", 300);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;
    uint32_t jobs = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 100000;
    struct figures *f = figures_new("idle");
    struct bench b = {0};

    bench_name("bench_idle");
    log_init("bench_idle", LOG_ERROR);
    if (rounds < 1 || rounds > 100 || jobs < 1)
        bench_die("usage: bench_idle [FILE.json [ROUNDS [JOBS]]]");
    hawk_path(b.hawk);
    b.loop = loop_new(LOOP_NET);
    printf("central, a dist and a worker, idle; %u jobs; idle again\n", jobs);
    measure_idle(f, &b, rounds, jobs);
    measure_fresh_memory(f, &b, rounds);
    measure_queued(f, &b, rounds);
    figures_end(f, argc > 1 ? argv[1] : NULL);
    return 0;
}
