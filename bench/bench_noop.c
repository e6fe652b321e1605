/* What a task costs that does nothing: one central, one dist and two workers of 32 slots, processes of their own on
 * loopback, and a client of libhawk that keeps JOBS jobs of TASKS no-op tasks in flight. The tasks are timers of no
 * duration: they take every step that a task takes but the process. Then one job of one task at a time, on the idle cluster.
 *
 * Per run: tasks per second, processor time per task of each daemon and of the client, and how many envelopes share a
 * message. Medians of RUNS, lowest and highest behind them.
 * Usage: bench_noop [--hawk BINARY] [--runs N] [--total TASKS] [--only TASKSxJOBS] [FILE.json] */
#include "base/err.h"
#include "base/mem.h"
#include "client/libhawk.h"
#include "net/api.h"
#include "net/rpc.h"

#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS "32"
#define LATENCY_JOBS 3000u
#define READY_S 10
#define RUNS_MAX 99

enum { CENTRAL, DIST, WORKER_1, WORKER_2, DAEMONS };
static const char *const names[DAEMONS] = {"central", "dist", "worker 1", "worker 2"};

struct daemon {
    pid_t pid;
    char addr[128];
    uint64_t envelopes, messages; /* sent so far, as last asked */
};

struct bench {
    const char *hawk;
    char dir[64];
    struct daemon daemons[DAEMONS];
    uint32_t runs;
    uint64_t total;
    uint32_t only_tasks, only_jobs;
};

static struct bench b = {.hawk = "build/hawk", .runs = 5, .total = 300000};

static void stop_all(void)
{
    for (int i = DAEMONS; i-- > 0;)
        if (b.daemons[i].pid > 0)
            kill(b.daemons[i].pid, SIGTERM);
    for (int i = DAEMONS; i-- > 0;)
        if (b.daemons[i].pid > 0)
            waitpid(b.daemons[i].pid, NULL, 0);
    if (b.dir[0]) {
        pid_t pid;
        const char *argv[] = {"rm", "-rf", b.dir, NULL};
        if (posix_spawnp(&pid, "rm", NULL, NULL, (char *const *)argv, environ) == 0)
            waitpid(pid, NULL, 0);
    }
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_noop: %s: %s\n", what, why);
    stop_all();
    exit(1);
}

/* ---- Daemons ---- */

static void wait_ready(int fd, struct daemon *d, const char *name)
{
    char line[256];
    FILE *f = fdopen(fd, "r");
    if (!f || !fgets(line, sizeof line, f) || sscanf(line, "ready %*s %127s", d->addr) != 1)
        die(name, "it does not get ready");
    fclose(f);
}

static void start(int i, const char *const *argv)
{
    int out[2];
    posix_spawn_file_actions_t actions;
    if (pipe(out) != 0)
        die("pipe", "no more descriptors");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    posix_spawn_file_actions_addclose(&actions, out[1]);
    if (posix_spawn(&b.daemons[i].pid, b.hawk, &actions, NULL, (char *const *)argv, environ) != 0)
        die(b.hawk, "it cannot be started; build it first");
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    wait_ready(out[0], &b.daemons[i], names[i]);
}

static void start_all(void)
{
    char state[DAEMONS][128];
    const char *central;
    snprintf(b.dir, sizeof b.dir, "%s/hawk-bench-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(b.dir))
        die(b.dir, "cannot be made");
    for (int i = 0; i < DAEMONS; i++)
        snprintf(state[i], sizeof state[i], "%s/%d", b.dir, i);
    start(CENTRAL, (const char *[]){b.hawk, "central", "--listen", "127.0.0.1:0", "--state-dir",
                                    state[CENTRAL], "--log-level", "warn", NULL});
    central = b.daemons[CENTRAL].addr;
    for (int i = WORKER_1; i <= WORKER_2; i++)
        start(i, (const char *[]){b.hawk, "worker", "--name", i == WORKER_1 ? "w1" : "w2", "--central",
                                  central, "--slots", SLOTS, "--output-dir", state[i], "--state-dir",
                                  state[i], "--log-level", "warn", NULL});
    start(DIST, (const char *[]){b.hawk, "dist", "--name", "d1", "--listen", "127.0.0.1:0", "--central",
                                 central, "--state-dir", state[DIST], "--log-level", "warn", NULL});
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(pid_t pid)
{
    clockid_t id;
    if (pid == 0)
        return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return clock_getcpuclockid(pid, &id) == 0 ? clock_ns(id) : 0;
}

/* What a daemon's links have sent. Central tells of its nodes instead. */
static void ask_links(struct loop *l, struct daemon *d)
{
    struct channel *ch = channel_new(l, d->addr, NULL);
    struct api_get_stats_reply r;
    uint8_t *data = NULL;
    size_t len = 0;
    char why[200];
    d->envelopes = d->messages = 0;
    if (rpc_call_sync(l, ch, api_methods[API_GET_STATS].path, "", 0, READY_S * US_PER_S, true, &data, &len,
                      NULL, NULL) == 0 &&
        api_decode(&api_get_stats_reply_type, data, len, &r, why, sizeof why) == 0) {
        for (uint32_t i = 0; r.nodes_n && i < r.nodes[0].counters_n; i++) {
            const struct api_counter *c = &r.nodes[0].counters[i];
            if (strcmp(c->name, "link_envelopes_out") == 0)
                d->envelopes = c->value;
            else if (strcmp(c->name, "link_messages_out") == 0)
                d->messages = c->value;
        }
        api_free(&api_get_stats_reply_type, &r);
    }
    free(data);
    channel_free(ch);
}

/* ---- Load ---- */

struct figures {
    double tasks_s, us[DAEMONS + 1], batch[DAEMONS];
};

static struct hawk_client *open_client(void)
{
    struct hawk_client *c;
    if (hawk_client_open(&c, &(struct hawk_client_options){.dist = b.daemons[DIST].addr}))
        die("client", hawk_client_error(c));
    return c;
}

static void submit(struct hawk_client *c, uint32_t tasks)
{
    if (!hawk_client_submit(c, &(struct hawk_spec){.tasks = tasks, .sleep = "0s", .tag = HAWK_TAG_SHORT}))
        die("submit", hawk_client_error(c));
}

static void take_one(struct hawk_client *c)
{
    struct hawk_job *j;
    if (hawk_client_wait_any(c, &j, READY_S * US_PER_S * 6) != 1)
        die("wait", "no job ended in a minute");
    if (hawk_job_state(j) != HAWK_JOB_DONE)
        die("a job was not done", hawk_job_error(j));
    hawk_job_free(j);
}

static void load(struct hawk_client *c, uint32_t tasks, uint32_t in_flight, uint64_t jobs)
{
    uint64_t submitted = 0, ended = 0;
    while (ended < jobs) {
        while (submitted < jobs && submitted - ended < in_flight) {
            submit(c, tasks);
            submitted++;
        }
        take_one(c);
        ended++;
    }
}

static void measure(struct loop *l, uint32_t tasks, uint32_t in_flight, struct figures *f)
{
    uint64_t before[DAEMONS + 1], start, jobs = b.total / tasks;
    uint64_t sent[DAEMONS][2];
    struct hawk_client *c = open_client();
    load(c, tasks, in_flight, jobs / 10 + 1);
    for (int i = 0; i < DAEMONS; i++) {
        ask_links(l, &b.daemons[i]);
        sent[i][0] = b.daemons[i].envelopes;
        sent[i][1] = b.daemons[i].messages;
        before[i] = cpu_ns(b.daemons[i].pid);
    }
    before[DAEMONS] = cpu_ns(0);
    start = clock_ns(CLOCK_MONOTONIC);
    load(c, tasks, in_flight, jobs);
    double n = (double)(jobs * tasks), s = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9;
    f->tasks_s = n / s;
    for (int i = 0; i <= DAEMONS; i++)
        f->us[i] = (double)(cpu_ns(i < DAEMONS ? b.daemons[i].pid : 0) - before[i]) / 1e3 / n;
    for (int i = 0; i < DAEMONS; i++) {
        ask_links(l, &b.daemons[i]);
        double messages = (double)(b.daemons[i].messages - sent[i][1]);
        f->batch[i] = messages > 0 ? (double)(b.daemons[i].envelopes - sent[i][0]) / messages : 0;
    }
    hawk_client_close(c);
}

/* ---- Figures ---- */

static int by_value(const void *a, const void *c)
{
    double x = *(const double *)a, y = *(const double *)c;
    return (x > y) - (x < y);
}

/* "median (lowest-highest)", and the same as JSON. */
static json_t *put(const char *what, const char *unit, const char *format, double *v, uint32_t n)
{
    char text[3][32];
    qsort(v, n, sizeof *v, by_value);
    double shown[3] = {v[n / 2], v[0], v[n - 1]};
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i], strcmp(format, "0") == 0 ? "%.0f" : "%.2f", shown[i]);
    printf("  %-28s %8s (%s-%s) %s\n", what, text[0], text[1], text[2], unit);
    return json_pack("{s:f,s:f,s:f,s:s}", "median", shown[0], "low", shown[1], "high", shown[2], "unit",
                     unit);
}

static json_t *throughput(struct loop *l, uint32_t tasks, uint32_t in_flight)
{
    struct figures f[RUNS_MAX];
    double v[RUNS_MAX], all[RUNS_MAX] = {0};
    char key[64];
    json_t *j = json_object();
    printf("jobs of %u tasks, %u in flight\n", tasks, in_flight);
    for (uint32_t r = 0; r < b.runs; r++)
        measure(l, tasks, in_flight, &f[r]);
    for (uint32_t r = 0; r < b.runs; r++)
        v[r] = f[r].tasks_s;
    json_object_set_new(j, "tasks_per_s", put("tasks/s", "", "0", v, b.runs));
    for (int i = 0; i <= DAEMONS; i++) {
        const char *name = i < DAEMONS ? names[i] : "client";
        for (uint32_t r = 0; r < b.runs; r++) {
            v[r] = f[r].us[i];
            all[r] += i < DAEMONS ? v[r] : 0;
        }
        snprintf(key, sizeof key, "CPU of %s", name);
        json_object_set_new(j, key, put(key, "us/task", "2", v, b.runs));
    }
    json_object_set_new(j, "CPU of all daemons", put("CPU of all daemons", "us/task", "2", all, b.runs));
    for (int i = DIST; i < DAEMONS; i++) {
        for (uint32_t r = 0; r < b.runs; r++)
            v[r] = f[r].batch[i];
        snprintf(key, sizeof key, "envelopes/message of %s", names[i]);
        json_object_set_new(j, key, put(key, "", "2", v, b.runs));
    }
    json_object_set_new(j, "tasks", json_integer(tasks));
    json_object_set_new(j, "in_flight", json_integer(in_flight));
    return j;
}

static json_t *latency(void)
{
    static double us[LATENCY_JOBS];
    static const double parts[] = {0.5, 0.9, 0.99, 0.999};
    double v[4][RUNS_MAX];
    json_t *j = json_object();
    struct hawk_client *c = open_client();
    load(c, 1, 1, LATENCY_JOBS / 10);
    for (uint32_t r = 0; r < b.runs; r++) {
        for (uint32_t i = 0; i < LATENCY_JOBS; i++) {
            uint64_t start = clock_ns(CLOCK_MONOTONIC);
            load(c, 1, 1, 1);
            us[i] = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e3;
        }
        qsort(us, LATENCY_JOBS, sizeof *us, by_value);
        for (int p = 0; p < 4; p++)
            v[p][r] = us[(size_t)(parts[p] * (LATENCY_JOBS - 1))];
    }
    hawk_client_close(c);
    printf("one job of one task at a time, submit to result\n");
    json_object_set_new(j, "p50", put("p50", "us", "0", v[0], b.runs));
    json_object_set_new(j, "p90", put("p90", "us", "0", v[1], b.runs));
    json_object_set_new(j, "p99", put("p99", "us", "0", v[2], b.runs));
    json_object_set_new(j, "p99.9", put("p99.9", "us", "0", v[3], b.runs));
    return j;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"hawk", 1, NULL, 'h'}, {"runs", 1, NULL, 'r'}, {"total", 1, NULL, 't'}, {"only", 1, NULL, 'o'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'h')
            b.hawk = optarg;
        else if (o == 'r')
            b.runs = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 't')
            b.total = strtoull(optarg, NULL, 10);
        else if (o != 'o' || sscanf(optarg, "%ux%u", &b.only_tasks, &b.only_jobs) != 2)
            exit(2);
    }
    if (b.runs < 1 || b.runs > RUNS_MAX || b.total < 1000) {
        fprintf(stderr, "bench_noop: --runs 1..%d, --total at least 1000\n", RUNS_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t mixes[][2] = {{100, 64}, {100, 8}, {1, 64}, {1, 512}};
    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    start_all();
    struct loop *l = loop_new(LOOP_NET);
    json_t *all = json_object(), *loads = json_array();
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++)
        if (!b.only_tasks || (b.only_tasks == mixes[i][0] && b.only_jobs == mixes[i][1]))
            json_array_append_new(loads, throughput(l, mixes[i][0], mixes[i][1]));
    json_object_set_new(all, "throughput", loads);
    if (!b.only_tasks)
        json_object_set_new(all, "latency", latency());
    loop_free(l);
    if (optind < argc && json_dump_file(all, argv[optind], JSON_INDENT(2)) != 0)
        die(argv[optind], "cannot be written");
    json_decref(all);
    stop_all();
    return 0;
}
