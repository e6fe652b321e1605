/* What a task costs that does nothing: one central, one dist and two workers of 32 slots, processes of their own on
 * loopback, an attached executor at each worker, and a client of libhawk that keeps some jobs of so many tasks in flight;
 * a task's payload and its result are the same 8 bytes. Then one job of one task at a time, on the idle cluster.
 *
 * Per round: tasks per second, processor time per task of each process (a worker with its spawner), and how many envelopes share a message. With
 * --timers the tasks are timers of no duration: they take every step that a task takes but the executor's.
 * Usage: bench_noop [--timers] [--hawk BINARY] [--total TASKS] [--only TASKSxJOBS] [FILE.json [ROUNDS]] */
#include "base/mem.h"
#include "bench/lib/figures.h"
#include "bench/lib/programs.h"
#include "client/libhawk.h"
#include "net/api.h"
#include "net/rpc.h"

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 32u
#define APP "noop"
#define PAYLOAD "8 bytes."
#define TASKS_MAX 100u /* of a job */
#define SINGLES 2000u  /* jobs of one task, one at a time */
#define CALL_US (10 * US_PER_S)
#define JOB_US (60 * US_PER_S)

enum { CENTRAL, DIST, WORKER_1, WORKER_2, DAEMONS, EXECUTOR_1 = DAEMONS, EXECUTOR_2, CLIENT, PROCESSES };
static const char *const names[PROCESSES] = {"central",    "dist",       "worker 1", "worker 2",
                                             "executor 1", "executor 2", "client"};

struct daemon {
    pid_t pid;
    char addr[ADDRESS_MAX];
    double envelopes, messages; /* sent so far */
};

struct bench {
    char dir[64], hawk[PATH_MAX];
    struct daemon daemons[DAEMONS];
    pid_t executors[2];
    bool timers;
    struct loop *loop;
    struct hawk_client *client;
    struct figures *figures;
    uint64_t total;
    unsigned long only_tasks, only_jobs; /* 0: all */
};

/* ---- The cluster ---- */

static void start_all(struct bench *b)
{
    struct daemon *d = b->daemons;
    char state[DAEMONS][80], slots[8];

    snprintf(slots, sizeof slots, "%u", SLOTS);
    make_dir(b->dir, sizeof b->dir, "hawk-bench-noop");
    for (int i = 0; i < DAEMONS; i++)
        snprintf(state[i], sizeof state[i], "%s/%d", b->dir, i);
    d[CENTRAL].pid = start_daemon(b->hawk, d[CENTRAL].addr, "central", "--listen", "127.0.0.1:0",
                                  "--state-dir", state[CENTRAL], "--log-level", "error", NULL);
    for (int i = WORKER_1; i <= WORKER_2; i++)
        d[i].pid = start_daemon(b->hawk, d[i].addr, "worker", "--name", i == WORKER_1 ? "w1" : "w2",
                                "--central", d[CENTRAL].addr, "--slots", slots, "--output-dir", state[i],
                                "--state-dir", state[i], "--log-level", "error", NULL);
    d[DIST].pid =
        start_daemon(b->hawk, d[DIST].addr, "dist", "--name", "d1", "--listen", "127.0.0.1:0", "--central",
                     d[CENTRAL].addr, "--state-dir", state[DIST], "--log-level", "error", NULL);
    for (int i = 0; i < 2 && !b->timers; i++)
        b->executors[i] = start_program("/proc/self/exe", "--serve", d[WORKER_1 + i].addr, NULL);
    if (hawk_client_open(&b->client, &(struct hawk_client_options){.dist = d[DIST].addr}))
        bench_die("%s", hawk_client_error(b->client));
}

/* What an executor does, in a process of its own. */
static void __attribute__((noreturn)) serve(const char *worker)
{
    struct hawk_executor *x;
    const struct hawk_work *w;

    if (hawk_executor_open(&x, APP, &(struct hawk_executor_options){.worker = worker, .slots = SLOTS}) == 0)
        while (hawk_executor_next(x, &w, -1) > 0)
            hawk_executor_done(x, w, w->payload.data, w->payload.len);
    bench_die("executor: %s", hawk_executor_error(x));
}

static void stop_all(struct bench *b)
{
    hawk_client_close(b->client);
    for (int i = 0; i < 2 && !b->timers; i++)
        end_program(b->executors[i], SIGKILL);
    for (int i = DAEMONS; i-- > 0;)
        end_program(b->daemons[i].pid, SIGTERM);
    remove_dir(b->dir);
}

/* What a daemon's links have sent. Central tells of its nodes instead. */
static void ask_links(struct bench *b, struct daemon *d)
{
    struct channel *ch = channel_new(b->loop, d->addr, NULL);
    struct api_get_stats_reply r;
    uint8_t *data = NULL;
    size_t len = 0;
    char why[200];

    if (rpc_call_sync(b->loop, ch, api_methods[API_GET_STATS].path, "", 0, CALL_US, true, &data, &len, NULL,
                      NULL) ||
        api_decode(&api_get_stats_reply_type, data, len, &r, why, sizeof why))
        bench_die("%s does not tell what its links have sent", d->addr);
    d->envelopes = d->messages = 0;
    for (uint32_t i = 0; r.nodes_n && i < r.nodes[0].counters_n; i++) {
        const struct api_counter *c = &r.nodes[0].counters[i];

        if (strcmp(c->name, "link_envelopes_out") == 0)
            d->envelopes = (double)c->value;
        else if (strcmp(c->name, "link_messages_out") == 0)
            d->messages = (double)c->value;
    }
    api_free(&api_get_stats_reply_type, &r);
    free(data);
    channel_free(ch);
}

/* ---- The load ---- */

static void submit(struct bench *b, uint32_t tasks)
{
    static struct hawk_bytes payloads[TASKS_MAX];
    struct hawk_spec spec = {.tasks = tasks, .tag = HAWK_TAG_SHORT};

    if (b->timers) {
        spec.sleep = "0s";
    } else {
        for (uint32_t i = 0; i < tasks; i++)
            payloads[i] = (struct hawk_bytes){PAYLOAD, sizeof PAYLOAD - 1};
        spec.app = APP;
        spec.args = payloads;
    }
    if (!hawk_client_submit(b->client, &spec))
        bench_die("%s", hawk_client_error(b->client));
}

static void take_one(struct bench *b)
{
    struct hawk_job *j;

    if (hawk_client_wait_any(b->client, &j, JOB_US) != 1)
        bench_die("no job ended within a minute");
    struct hawk_task last;
    if (hawk_job_state(j) != HAWK_JOB_DONE || !hawk_job_task(j, hawk_job_tasks(j) - 1, &last) ||
        (!b->timers && last.result.len != sizeof PAYLOAD - 1))
        bench_die("a job was not done: %s", hawk_job_error(j));
    hawk_job_free(j);
}

static void load(struct bench *b, uint32_t tasks, uint32_t in_flight, uint64_t jobs)
{
    uint64_t submitted = 0;

    for (uint64_t ended = 0; ended < jobs; ended++) {
        for (; submitted < jobs && submitted - ended < in_flight; submitted++)
            submit(b, tasks);
        take_one(b);
    }
}

/* ---- Figures: their names live as long as the program ---- */

static const char *named(const char *mix, const char *what)
{
    char *name = NULL;

    if (asprintf(&name, "%s: %s", mix, what) < 0)
        bench_die("out of memory");
    return name;
}

struct mix {
    uint32_t tasks, in_flight;
    const char *rate, *cpu[PROCESSES], *cpu_all, *batch[DAEMONS];
};

static void name_figures(struct mix *m)
{
    char mix[64], what[64];

    snprintf(mix, sizeof mix, "jobs of %u, %u in flight", m->tasks, m->in_flight);
    m->rate = named(mix, "tasks");
    m->cpu_all = named(mix, "CPU of all daemons");
    for (int i = 0; i < PROCESSES; i++) {
        snprintf(what, sizeof what, "CPU of %s", names[i]);
        m->cpu[i] = named(mix, what);
    }
    for (int i = DIST; i < DAEMONS; i++) {
        snprintf(what, sizeof what, "envelopes per message of %s", names[i]);
        m->batch[i] = named(mix, what);
    }
}

/* A daemon's, and its spawner's. */
static double daemon_cpu_s(pid_t pid)
{
    char path[64], line[256] = "", *rest = line;
    double s = program_cpu_s(pid);

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0'; /* it has none */
    for (long child; (child = strtol(rest, &rest, 10)) > 0;)
        s += program_cpu_s((pid_t)child);
    if (f)
        fclose(f);
    return s;
}

static double cpu_of(const struct bench *b, int i)
{
    if (i == CLIENT)
        return cpu_s();
    return i < DAEMONS ? daemon_cpu_s(b->daemons[i].pid) : program_cpu_s(b->executors[i - EXECUTOR_1]);
}

static bool is_there(const struct bench *b, int i) { return i < DAEMONS || i == CLIENT || !b->timers; }

static void measure(struct bench *b, const struct mix *m)
{
    double cpu[PROCESSES], sent[DAEMONS][2], all = 0;
    uint64_t jobs = b->total / m->tasks + 1;

    load(b, m->tasks, m->in_flight, jobs / 10 + 1);
    for (int i = 0; i < PROCESSES; i++)
        cpu[i] = is_there(b, i) ? cpu_of(b, i) : 0;
    for (int i = DIST; i < DAEMONS; i++) {
        ask_links(b, &b->daemons[i]);
        sent[i][0] = b->daemons[i].envelopes;
        sent[i][1] = b->daemons[i].messages;
    }
    double start = wall_s(), n = (double)(jobs * m->tasks);
    load(b, m->tasks, m->in_flight, jobs);
    figures_add(b->figures, m->rate, "/s", n / (wall_s() - start));
    for (int i = 0; i < PROCESSES; i++) {
        double us = is_there(b, i) ? (cpu_of(b, i) - cpu[i]) * 1e6 / n : 0;

        all += i < DAEMONS ? us : 0;
        if (is_there(b, i))
            figures_add(b->figures, m->cpu[i], "us/task", us);
    }
    figures_add(b->figures, m->cpu_all, "us/task", all);
    for (int i = DIST; i < DAEMONS; i++) {
        struct daemon *d = &b->daemons[i];

        ask_links(b, d);
        figures_add(b->figures, m->batch[i], "", (d->envelopes - sent[i][0]) / (d->messages - sent[i][1]));
    }
}

static int by_value(const void *a, const void *c)
{
    double x = *(const double *)a, y = *(const double *)c;

    return (x > y) - (x < y);
}

static void measure_singles(struct bench *b)
{
    static double us[SINGLES];

    load(b, 1, 1, SINGLES / 10);
    for (uint32_t i = 0; i < SINGLES; i++) {
        double start = wall_s();

        load(b, 1, 1, 1);
        us[i] = (wall_s() - start) * 1e6;
    }
    qsort(us, SINGLES, sizeof *us, by_value);
    figures_add(b->figures, "one job at a time: submit to result, p50", "us", us[SINGLES / 2]);
    figures_add(b->figures, "one job at a time: submit to result, p90", "us", us[SINGLES * 9 / 10]);
    figures_add(b->figures, "one job at a time: submit to result, p99", "us", us[SINGLES * 99 / 100]);
    figures_at_most(b->figures, "one job at a time: submit to result, p50", 260);
    figures_at_most(b->figures, "one job at a time: submit to result, p99", 1000);
}

static void set_targets(struct bench *b, const struct mix *m)
{
    if (m->in_flight != 64)
        return;
    figures_at_least(b->figures, m->rate, m->tasks == 1 ? 30000 : 100000);
    if (m->tasks == 100)
        figures_at_most(b->figures, m->cpu_all, 15);
}

/* "100x64": whether it is one. */
static bool parse_mix(const char *text, struct bench *b)
{
    char *end;

    b->only_tasks = strtoul(text, &end, 10);
    if (*end != 'x')
        return false;
    b->only_jobs = strtoul(end + 1, &end, 10);
    return !*end && b->only_tasks > 0 && b->only_jobs > 0;
}

static void parse(int argc, char **argv, struct bench *b)
{
    static const struct option options[] = {{"hawk", 1, NULL, 'h'},  {"total", 1, NULL, 't'},
                                            {"only", 1, NULL, 'o'},  {"timers", 0, NULL, 'T'},
                                            {"serve", 1, NULL, 's'}, {0}};

    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'h')
            snprintf(b->hawk, sizeof b->hawk, "%s", optarg);
        else if (o == 't')
            b->total = strtoull(optarg, NULL, 10);
        else if (o == 'T')
            b->timers = true;
        else if (o == 's')
            serve(optarg);
        else if (o != 'o' || !parse_mix(optarg, b))
            bench_die("usage: bench_noop [--timers] [--hawk BINARY] [--total TASKS] [--only TASKSxJOBS] "
                      "[FILE.json [ROUNDS]]");
    }
}

static void round_of(struct bench *b, struct mix *mixes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct mix *m = &mixes[i];

        if (b->only_tasks && (b->only_tasks != m->tasks || b->only_jobs != m->in_flight))
            continue;
        if (!m->rate) {
            name_figures(m);
            set_targets(b, m);
        }
        measure(b, m);
    }
    if (!b->only_tasks || (b->only_tasks == 1 && b->only_jobs == 1))
        measure_singles(b);
}

int main(int argc, char **argv)
{
    struct mix mixes[] = {{.tasks = 100, .in_flight = 64},
                          {.tasks = 100, .in_flight = 8},
                          {.tasks = 1, .in_flight = 64},
                          {.tasks = 1, .in_flight = 512}};
    struct bench b = {.total = 300000};
    unsigned long rounds;

    bench_name("bench_noop");
    hawk_path(b.hawk);
    parse(argc, argv, &b);
    rounds = optind + 1 < argc ? strtoul(argv[optind + 1], NULL, 10) : 5;
    b.figures = figures_new("noop");
    start_all(&b);
    b.loop = loop_new(LOOP_NET);
    for (unsigned long r = 0; r < rounds; r++)
        round_of(&b, mixes, sizeof mixes / sizeof mixes[0]);
    loop_free(b.loop);
    stop_all(&b);
    figures_end(b.figures, optind < argc ? argv[optind] : NULL);
    return 0;
}
