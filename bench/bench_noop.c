/* What a task costs that does nothing: one central, one dist and two workers of 32 slots, processes of their
 * own on loopback, an attached executor at each worker (on its unix socket), and a client of libhawk that
 * keeps some jobs of so many tasks in flight; a task's payload is 8 bytes, and its result is 8: when it
 * began. Then one job of one task at a time, on the idle cluster. In each round gearmand and a Redis list do
 * the same, each in its own best way (bench/lib/peers.c).
 *
 * Per round: tasks per second, processor time per task of each process (a worker with its spawner), and how
 * many envelopes share a message. With --timers the tasks are timers of no duration: they take every step
 * that a task takes but the executor's; no peer has such. With --unix all daemons listen on unix sockets, as
 * they may where all is one machine.
 *
 * Two more clusters do some of it in the same rounds (not with --unix, nor with --plain): one with TLS on all
 * connections but the executors', where signatures are required, and one that runs commands as their users
 * besides (root only). Usage: bench_noop [--timers] [--unix|--plain] [--hawk BINARY] [--total TASKS]
 * [--only TASKSxJOBS] [FILE.json [ROUNDS]] */
#include "base/mem.h"
#include "bench/lib/columns.h"
#include "bench/lib/figures.h"
#include "bench/lib/hop.h"
#include "bench/lib/peers.h"
#include "bench/lib/programs.h"
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

/* One column's. */
struct bench {
    struct site site;
    char hawk[PATH_MAX];
    struct daemon daemons[DAEMONS];
    pid_t executors[2];
    struct answerer {
        pid_t pid;
        char addr[ADDRESS_MAX];
    } on_tcp, on_unix;
    bool timers, unix_sockets, plain;
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

static void start_answerers(struct bench *b)
{
    free_address(b->on_tcp.addr, sizeof b->on_tcp.addr);
    snprintf(b->on_unix.addr, sizeof b->on_unix.addr, "unix:%.60s/answerer.sock", b->site.dir);
    b->on_tcp.pid = start_program("/proc/self/exe", "--answer", b->on_tcp.addr, NULL);
    b->on_unix.pid = start_program("/proc/self/exe", "--answer", b->on_unix.addr, NULL);
    for (int i = 0; i < START_MS && access(b->on_unix.addr + strlen("unix:"), F_OK) != 0; i++)
        usleep(1000);
}

static void start_all(struct bench *b, enum column column)
{
    struct daemon *d = b->daemons;
    struct site *site = &b->site;
    char listen[DAEMONS][ADDRESS_MAX], output[80], attach_to[ADDRESS_MAX], slots[8];
    static const char *const daemon_names[DAEMONS] = {"c1", "d1", "w1", "w2"};

    snprintf(slots, sizeof slots, "%u", SLOTS);
    site_make(site, column, b->hawk);
    for (int i = 0; i < DAEMONS; i++)
        snprintf(listen[i], sizeof listen[i], b->unix_sockets ? "unix:%s/%d.sock" : "127.0.0.1:0", site->dir,
                 i);
    d[CENTRAL].pid = site_start(site, d[CENTRAL].addr, ROLE_CENTRAL, daemon_names[CENTRAL], "--listen",
                                listen[CENTRAL], NULL);
    for (int i = WORKER_1; i <= WORKER_2; i++) {
        snprintf(output, sizeof output, "%s/output-%d", site->dir, i);
        d[i].pid = site_start(site, d[i].addr, ROLE_WORKER, daemon_names[i], "--listen", listen[i],
                              "--central", d[CENTRAL].addr, "--slots", slots, "--output-dir", output, NULL);
    }
    d[DIST].pid = site_start(site, d[DIST].addr, ROLE_DIST, daemon_names[DIST], "--listen", listen[DIST],
                             "--central", d[CENTRAL].addr, NULL);
    for (int i = 0; i < 2 && !b->timers; i++) {
        const char *worker = daemon_names[WORKER_1 + i];
        snprintf(attach_to, sizeof attach_to, "unix:%s/%s/%s/executors.sock", site->dir, worker, worker);
        b->executors[i] = start_program("/proc/self/exe", "--serve", attach_to, NULL);
    }
    if (column == COLUMN_PLAIN)
        start_answerers(b);
    b->tls = site_client(site, 0); /* and libhawk's */
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
    tls_free(b->tls);
    if (b->site.column == COLUMN_PLAIN) {
        end_program(b->on_tcp.pid, SIGKILL);
        end_program(b->on_unix.pid, SIGKILL);
    }
    for (int i = 0; i < 2 && !b->timers; i++)
        end_program(b->executors[i], SIGKILL);
    for (int i = DAEMONS; i-- > 0;)
        end_program(b->daemons[i].pid, SIGTERM);
    site_remove(&b->site);
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

static const char *figure_name(char name[128], const struct mix *m, const char *what, const char *whose)
{
    snprintf(name, 128, "jobs of %u, %u in flight: %s%s", m->tasks, m->in_flight, what, whose);
    return name;
}

/* A figure of this column. */
static void add(struct bench *b, const struct mix *m, const char *what, const char *whose, const char *unit,
                double value)
{
    char of_all[128], name[128];

    figures_add(b->figures, column_figure(name, figure_name(of_all, m, what, whose), b->site.column), unit,
                value);
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

/* Sets tasks per second, and the processor time of all daemons per task. */
static void measure(struct bench *b, const struct mix *m, double *rate, double *all_us)
{
    double cpu[PROCESSES], sent[DAEMONS][2];
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
    *rate = n / (wall_s() - start);
    *all_us = 0;

    for (int i = 0; i < PROCESSES; i++) {
        double us = is_there(b, i) ? (cpu_of(b, i) - cpu[i]) * 1e6 / n : 0;

        *all_us += i < DAEMONS ? us : 0;
        if (is_there(b, i))
            add(b, m, "CPU of ", names[i], "us/task", us);
    }
    for (int i = DIST; i < DAEMONS; i++) {
        struct daemon *d = &b->daemons[i];

        ask_links(b, d);
        add(b, m, "envelopes per message of ", names[i], "",
            (d->envelopes - sent[i][0]) / (d->messages - sent[i][1]));
    }
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
    char name[128];

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
        {"answer", 1, NULL, 'a'}, {"plain", 0, NULL, 'p'}, {0}};

    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'h')
            snprintf(b->hawk, sizeof b->hawk, "%s", optarg);
        else if (o == 't')
            b->total = strtoull(optarg, NULL, 10);
        else if (o == 'T')
            b->timers = true;
        else if (o == 'u')
            b->unix_sockets = true;
        else if (o == 'p')
            b->plain = true;
        else if (o == 's')
            serve(optarg);
        else if (o == 'a')
            hop_answer(optarg);
        else if (o != 'o' || !parse_mix(optarg, b))
            bench_die("usage: bench_noop [--timers] [--unix|--plain] [--hawk BINARY] [--total TASKS] "
                      "[--only TASKSxJOBS] [FILE.json [ROUNDS]]");
    }
}

static bool is_wanted(const struct bench *b, uint32_t tasks, uint32_t in_flight)
{
    return !b->only_tasks || (b->only_tasks == tasks && b->only_jobs == in_flight);
}

static const struct mix mixes[] = {{100, 64}, {100, 8}, {1, 64}, {1, 512}};
#define MIXES (sizeof mixes / sizeof *mixes)
#define MIX_IN_COLUMNS(i) (mixes[i].in_flight == 64)

struct columns {
    struct bench v[COLUMNS];
    bool is_there[COLUMNS];
};

/* Each column in turn goes first. Returns the plain one's tasks per second. */
static double round_of_mix(struct columns *all, size_t i, unsigned long round)
{
    double rates[COLUMNS] = {0}, cpus[COLUMNS] = {0};
    char name[128];

    for (unsigned long c = 0; c < COLUMNS; c++) {
        enum column column = (enum column)((round + c) % COLUMNS);

        if (all->is_there[column] && (column == COLUMN_PLAIN || MIX_IN_COLUMNS(i)))
            measure(&all->v[column], &mixes[i], &rates[column], &cpus[column]);
    }
    columns_add(all->v[COLUMN_PLAIN].figures, figure_name(name, &mixes[i], "tasks", ""), "/s", rates);
    columns_add(all->v[COLUMN_PLAIN].figures, figure_name(name, &mixes[i], "CPU of ", "all daemons"),
                "us/task", cpus);
    return rates[COLUMN_PLAIN];
}

/* The first of mixes beside the peers, which go first in every second round. */
static void round_of(struct columns *all, unsigned long round)
{
    struct bench *b = &all->v[COLUMN_PLAIN];
    bool peers_first = round % 2 == 1;

    if (b->peers && peers_first)
        peers_measure(b->peers, b->figures, b->total);
    for (size_t i = 0; i < MIXES; i++) {
        double rate = is_wanted(b, mixes[i].tasks, mixes[i].in_flight) ? round_of_mix(all, i, round) : 0;

        if (i > 0 || !b->peers)
            continue;
        if (!peers_first)
            peers_measure(b->peers, b->figures, b->total);
        peers_compare(b->peers, b->figures, rate);
    }
    if (is_wanted(b, 1, 1))
        measure_singles(b);
}

static void print_columns(struct figures *f)
{
    static char text[2 * MIXES][128];
    const char *what[2 * MIXES];
    uint32_t n = 0;

    for (size_t i = 0; i < MIXES; i++) {
        if (!MIX_IN_COLUMNS(i))
            continue;
        what[n] = figure_name(text[n], &mixes[i], "tasks", "");
        n++;
        what[n] = figure_name(text[n], &mixes[i], "CPU of ", "all daemons");
        n++;
    }
    columns_print(f, what, n);
}

int main(int argc, char **argv)
{
    struct bench options = {.total = 300000};
    static struct columns all;
    struct bench *plain = &all.v[COLUMN_PLAIN];
    unsigned long rounds;

    bench_name("bench_noop");
    hawk_path(options.hawk);
    parse(argc, argv, &options);
    rounds = optind + 1 < argc ? strtoul(argv[optind + 1], NULL, 10) : 5;
    all.is_there[COLUMN_PLAIN] = true;
    all.is_there[COLUMN_SIGNED] = !options.plain && !options.unix_sockets;
    all.is_there[COLUMN_RUN_AS] = all.is_there[COLUMN_SIGNED] && columns_enter_machine();
    options.figures = figures_new("noop");
    for (enum column c = 0; c < COLUMNS; c++) {
        all.v[c] = options;
        if (all.is_there[c])
            start_all(&all.v[c], c);
    }
    struct loop *loop = loop_new(LOOP_NET);
    for (enum column c = 0; c < COLUMNS; c++)
        all.v[c].loop = loop;
    if (!plain->timers && is_wanted(plain, mixes[0].tasks, mixes[0].in_flight))
        plain->peers = peers_start();
    for (unsigned long r = 0; r < rounds; r++)
        round_of(&all, r);
    if (plain->peers)
        peers_stop(plain->peers);
    for (enum column c = 0; c < COLUMNS; c++)
        if (all.is_there[c])
            stop_all(&all.v[c]);
    loop_free(loop);
    for (size_t i = 0; i < MIXES; i++)
        set_targets(plain, &mixes[i]);
    print_columns(plain->figures);
    figures_end(plain->figures, optind < argc ? argv[optind] : NULL);
    return 0;
}
