/* What a task costs that does nothing: one central, one dist and two workers of 32 slots, processes of their
 * own on loopback, an attached executor at each worker (on its unix socket), and a client of libhawk that
 * keeps some jobs of so many tasks in flight; a task's payload is 8 bytes, and its result is 8: when it
 * began. Then one job of one task at a time, on the idle cluster. In each round gearmand and a Redis list do
 * the same, each in its own best way (bench/lib/peers.c).
 *
 * Per round: tasks per second, processor time per task of each process (a worker with its spawner), and how
 * many envelopes share a message. With --timers the tasks are timers of no duration: they take every step
 * that a task takes but the executor's; no peer has such. With --unix all daemons listen on unix sockets, as
 * they may where all is one machine; with --tls all connections but the executors' use TLS. Usage: bench_noop
 * [--timers] [--unix|--tls] [--hawk BINARY] [--total TASKS] [--only TASKSxJOBS] [FILE.json [ROUNDS]] */
#include "base/mem.h"
#include "bench/lib/figures.h"
#include "bench/lib/hop.h"
#include "bench/lib/peers.h"
#include "bench/lib/programs.h"
#include "ca/ca.h"
#include "libhawk/hawk.h"
#include "net/api.h"
#include "net/rpc.h"
#include "net/tls.h"

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 32u
#define APP "noop"
#define PAYLOAD "8 bytes."
#define TASKS_MAX 100u /* of a job */
#define SINGLES 2000u  /* jobs of one task, one at a time */
#define CALL_US (10 * US_PER_S)
#define JOB_US (60 * US_PER_S)
#define START_MS 5000 /* for a process's socket to be there */

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
    struct answerer {
        pid_t pid;
        char addr[ADDRESS_MAX];
    } on_tcp, on_unix;
    bool timers, unix_sockets, with_tls;
    struct tls *tls; /* the client's */
    struct loop *loop;
    struct hawk_client *client;
    struct figures *figures;
    struct peers *peers; /* NULL: not wanted */
    int64_t began_ns;    /* CLOCK_MONOTONIC, of the last task of the last job */
    uint64_t total;
    unsigned long only_tasks, only_jobs; /* 0: all */
};

/* ---- The cluster ---- */

static void certify(struct bench *b, enum role role, const char *name)
{
    struct identity who = {.role = role};
    char why[PATH_MAX + 200];

    snprintf(who.name, sizeof who.name, "%s", name);
    if (ca_issue(b->dir, &who, CA_NODE_LIFE_US, b->dir, why, sizeof why))
        bench_die("%s", why);
}

/* The client's files, for libhawk as well. */
static void use_tls(struct bench *b)
{
    static const char *const variables[] = {"HAWK_TLS_CERTIFICATE", "HAWK_TLS_KEY", "HAWK_TLS_ROOTS"};
    static const char *const names_of[] = {"ann.crt", "ann.key", "roots.crt"};
    char path[3][PATH_MAX], why[PATH_MAX + 200];

    if (ca_init(b->dir, why, sizeof why))
        bench_die("%s", why);
    certify(b, ROLE_CENTRAL, "c1");
    certify(b, ROLE_DIST, "d1");
    certify(b, ROLE_WORKER, "w1");
    certify(b, ROLE_WORKER, "w2");
    certify(b, ROLE_NONE, "ann");
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", b->dir, names_of[i]);
        setenv(variables[i], path[i], 1);
    }
    b->tls = tls_new(&(struct tls_files){.certificate = path[0], .key = path[1], .roots = path[2]}, why);
    if (!b->tls)
        bench_die("%s", why);
}

/* A daemon's configuration: its certificate, if it needs one. */
static void configure(const struct bench *b, char path[96], const char *name)
{
    FILE *f;

    snprintf(path, 96, "%s/%s.yaml", b->dir, name);
    f = fopen(path, "we");
    if (f && b->tls)
        fprintf(f, "tls:\n  certificate: %s/%s.crt\n  key: %s/%s.key\n  roots: %s/roots.crt\n", b->dir, name,
                b->dir, name, b->dir);
    if (!f || fclose(f))
        bench_die("%s cannot be written", path);
}

static void start_all(struct bench *b)
{
    struct daemon *d = b->daemons;
    char state[DAEMONS][80], listen[DAEMONS][ADDRESS_MAX], attach_to[ADDRESS_MAX], slots[8];
    static const char *const certified[DAEMONS] = {"c1", "d1", "w1", "w2"};
    char config[DAEMONS][96];

    snprintf(slots, sizeof slots, "%u", SLOTS);
    make_dir(b->dir, sizeof b->dir, "hawk-bench-noop");
    if (b->with_tls)
        use_tls(b);
    for (int i = 0; i < DAEMONS; i++) {
        configure(b, config[i], certified[i]);
        snprintf(state[i], sizeof state[i], "%s/%d", b->dir, i);
        snprintf(listen[i], sizeof listen[i], b->unix_sockets ? "unix:%s/%d.sock" : "127.0.0.1:0", b->dir, i);
    }
    d[CENTRAL].pid =
        start_daemon(b->hawk, d[CENTRAL].addr, "central", "--listen", listen[CENTRAL], "--state-dir",
                     state[CENTRAL], "--log-level", "error", "--config", config[CENTRAL], NULL);
    for (int i = WORKER_1; i <= WORKER_2; i++)
        d[i].pid =
            start_daemon(b->hawk, d[i].addr, "worker", "--name", i == WORKER_1 ? "w1" : "w2", "--listen",
                         listen[i], "--central", d[CENTRAL].addr, "--slots", slots, "--output-dir", state[i],
                         "--state-dir", state[i], "--log-level", "error", "--config", config[i], NULL);
    d[DIST].pid = start_daemon(b->hawk, d[DIST].addr, "dist", "--name", "d1", "--listen", listen[DIST],
                               "--central", d[CENTRAL].addr, "--state-dir", state[DIST], "--log-level",
                               "error", "--config", config[DIST], NULL);
    for (int i = 0; i < 2 && !b->timers; i++) {
        snprintf(attach_to, sizeof attach_to, "unix:%s/w%d/executors.sock", state[WORKER_1 + i], i + 1);
        b->executors[i] = start_program("/proc/self/exe", "--serve", attach_to, NULL);
    }
    free_address(b->on_tcp.addr, sizeof b->on_tcp.addr);
    snprintf(b->on_unix.addr, sizeof b->on_unix.addr, "unix:%s/answerer.sock", b->dir);
    b->on_tcp.pid = start_program("/proc/self/exe", "--answer", b->on_tcp.addr, NULL);
    b->on_unix.pid = start_program("/proc/self/exe", "--answer", b->on_unix.addr, NULL);
    for (int i = 0; i < START_MS && access(b->on_unix.addr + strlen("unix:"), F_OK) != 0; i++)
        usleep(1000);
    if (hawk_client_open(&b->client, &(struct hawk_client_options){.dist = d[DIST].addr}))
        bench_die("%s", hawk_client_error(b->client));
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What an executor does, in a process of its own: a task's result is when it began. */
static void __attribute__((noreturn)) serve(const char *worker)
{
    struct hawk_executor *x;
    const struct hawk_work *w;

    if (hawk_executor_open(&x, APP, &(struct hawk_executor_options){.worker = worker, .slots = SLOTS}) == 0)
        while (hawk_executor_next(x, &w, -1) > 0) {
            int64_t now = now_ns();

            hawk_executor_done(x, w, &now, sizeof now);
        }
    bench_die("executor: %s", hawk_executor_error(x));
}

static void stop_all(struct bench *b)
{
    hawk_client_close(b->client);
    end_program(b->on_tcp.pid, SIGKILL);
    end_program(b->on_unix.pid, SIGKILL);
    for (int i = 0; i < 2 && !b->timers; i++)
        end_program(b->executors[i], SIGKILL);
    for (int i = DAEMONS; i-- > 0;)
        end_program(b->daemons[i].pid, SIGTERM);
    remove_dir(b->dir);
}

/* What a daemon's links have sent. Central tells of its nodes instead. */
static void ask_links(struct bench *b, struct daemon *d)
{
    enum role role = d == &b->daemons[DIST] ? ROLE_DIST : ROLE_WORKER;
    struct channel *ch = channel_new_tls(b->loop, d->addr, NULL, b->tls, role);
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
        (!b->timers && last.result.len != sizeof b->began_ns))
        bench_die("a job was not done: %s", hawk_job_error(j));
    if (!b->timers)
        memcpy(&b->began_ns, last.result.data, sizeof b->began_ns);
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

/* ---- Figures ---- */

struct mix {
    uint32_t tasks, in_flight;
};

static const char *figure_name(char name[96], const struct mix *m, const char *what, const char *whose)
{
    snprintf(name, 96, "jobs of %u, %u in flight: %s%s", m->tasks, m->in_flight, what, whose);
    return name;
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

/* Tasks per second. */
static double measure(struct bench *b, const struct mix *m)
{
    double cpu[PROCESSES], sent[DAEMONS][2], all = 0;
    uint64_t jobs = b->total / m->tasks + 1;
    char name[96];

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
    double rate = n / (wall_s() - start);

    figures_add(b->figures, figure_name(name, m, "tasks", ""), "/s", rate);
    for (int i = 0; i < PROCESSES; i++) {
        double us = is_there(b, i) ? (cpu_of(b, i) - cpu[i]) * 1e6 / n : 0;

        all += i < DAEMONS ? us : 0;
        if (is_there(b, i))
            figures_add(b->figures, figure_name(name, m, "CPU of ", names[i]), "us/task", us);
    }
    figures_add(b->figures, figure_name(name, m, "CPU of ", "all daemons"), "us/task", all);
    for (int i = DIST; i < DAEMONS; i++) {
        struct daemon *d = &b->daemons[i];

        ask_links(b, d);
        figures_add(b->figures, figure_name(name, m, "envelopes per message of ", names[i]), "",
                    (d->envelopes - sent[i][0]) / (d->messages - sent[i][1]));
    }
    return rate;
}

/* Client, dist, worker, dist, worker; and from the executor's worker back to the dist and the client. */
#define LINKS_TO_START 4
#define LINKS_TO_RESULT 6
/* From the worker to the executor; and back. */
#define ATTACHED_TO_START 1
#define ATTACHED_TO_RESULT 2
#define BOUND "bound, messages one after the other: submit to "
#define TO_START "one job at a time: submit to start"
#define TO_RESULT "one job at a time: submit to result"

/* The median of a message from process to process. */
static double hop_us(struct bench *b, const struct answerer *a, const char *name)
{
    static double took[SINGLES];
    struct hop *h = hop_new(b->loop, a->addr);

    hop_measure(h, took, SINGLES / 10);
    hop_measure(h, took, SINGLES);
    hop_free(h);
    figures_add_quantiles(b->figures, name, "us", took, SINGLES);
    return took[SINGLES / 2];
}

/* The bound of the figures that follow. */
static void measure_hops(struct bench *b)
{
    double attached = hop_us(b, &b->on_unix, "a message from process to process, unix socket");
    double link = hop_us(b, &b->on_tcp, "a message from process to process, TCP");

    if (b->unix_sockets)
        link = attached;
    figures_add(b->figures, BOUND "start, p50", "us", LINKS_TO_START * link + ATTACHED_TO_START * attached);
    figures_add(b->figures, BOUND "result, p50", "us",
                LINKS_TO_RESULT * link + ATTACHED_TO_RESULT * attached);
}

static void measure_singles(struct bench *b)
{
    static double started[SINGLES], ended[SINGLES];

    measure_hops(b);
    load(b, 1, 1, SINGLES / 10);
    for (uint32_t i = 0; i < SINGLES; i++) {
        int64_t submitted_ns = now_ns();

        load(b, 1, 1, 1);
        ended[i] = (double)(now_ns() - submitted_ns) / 1e3;
        started[i] = (double)(b->began_ns - submitted_ns) / 1e3;
    }
    if (!b->timers)
        figures_add_quantiles(b->figures, TO_START, "us", started, SINGLES);
    figures_add_quantiles(b->figures, TO_RESULT, "us", ended, SINGLES);
}

static void set_targets(struct bench *b, const struct mix *m)
{
    char name[96];

    if (m->in_flight == 64)
        figures_at_least(b->figures, figure_name(name, m, "tasks", ""), m->tasks == 1 ? 30000 : 100000);
    if (m->in_flight == 64 && m->tasks == 100)
        figures_at_most(b->figures, figure_name(name, m, "CPU of ", "all daemons"), 15);
    figures_at_most(b->figures, TO_START ", p50", 160);
    figures_at_most(b->figures, TO_START ", p99", 1000);
    figures_at_most(b->figures, TO_RESULT ", p50", 260);
    figures_at_most(b->figures, TO_RESULT ", p99", 1000);
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
    static const struct option options[] = {
        {"hawk", 1, NULL, 'h'},   {"total", 1, NULL, 't'}, {"only", 1, NULL, 'o'},
        {"timers", 0, NULL, 'T'}, {"unix", 0, NULL, 'u'},  {"serve", 1, NULL, 's'},
        {"answer", 1, NULL, 'a'}, {"tls", 0, NULL, 'l'},   {0}};

    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'h')
            snprintf(b->hawk, sizeof b->hawk, "%s", optarg);
        else if (o == 't')
            b->total = strtoull(optarg, NULL, 10);
        else if (o == 'T')
            b->timers = true;
        else if (o == 'u')
            b->unix_sockets = true;
        else if (o == 'l')
            b->with_tls = true;
        else if (o == 's')
            serve(optarg);
        else if (o == 'a')
            hop_answer(optarg);
        else if (o != 'o' || !parse_mix(optarg, b))
            bench_die("usage: bench_noop [--timers] [--unix|--tls] [--hawk BINARY] [--total TASKS] "
                      "[--only TASKSxJOBS] [FILE.json [ROUNDS]]");
    }
}

static bool is_wanted(const struct bench *b, uint32_t tasks, uint32_t in_flight)
{
    return !b->only_tasks || (b->only_tasks == tasks && b->only_jobs == in_flight);
}

/* The first of mixes beside the peers, which go first in every second round. */
static void round_of(struct bench *b, const struct mix *mixes, size_t n, bool peers_first)
{
    if (b->peers && peers_first)
        peers_measure(b->peers, b->figures, b->total);
    for (size_t i = 0; i < n; i++) {
        double rate = is_wanted(b, mixes[i].tasks, mixes[i].in_flight) ? measure(b, &mixes[i]) : 0;

        if (i > 0 || !b->peers)
            continue;
        if (!peers_first)
            peers_measure(b->peers, b->figures, b->total);
        peers_compare(b->peers, b->figures, rate);
    }
    if (is_wanted(b, 1, 1))
        measure_singles(b);
}

int main(int argc, char **argv)
{
    static const struct mix mixes[] = {{100, 64}, {100, 8}, {1, 64}, {1, 512}};
    size_t n = sizeof mixes / sizeof *mixes;
    struct bench b = {.total = 300000};
    unsigned long rounds;

    bench_name("bench_noop");
    hawk_path(b.hawk);
    parse(argc, argv, &b);
    rounds = optind + 1 < argc ? strtoul(argv[optind + 1], NULL, 10) : 5;
    b.figures = figures_new("noop");
    start_all(&b);
    b.loop = loop_new(LOOP_NET);
    if (!b.timers && is_wanted(&b, mixes[0].tasks, mixes[0].in_flight))
        b.peers = peers_start();
    for (unsigned long r = 0; r < rounds; r++)
        round_of(&b, mixes, n, r % 2 == 1);
    if (b.peers)
        peers_stop(b.peers);
    tls_free(b.tls);
    loop_free(b.loop);
    stop_all(&b);
    for (size_t i = 0; i < n; i++)
        set_targets(&b, &mixes[i]);
    figures_end(b.figures, optind < argc ? argv[optind] : NULL);
    return 0;
}
