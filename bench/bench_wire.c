/* What the dist's daemon does per second of processor time (its own, all threads): probes and task requests
 * over gRPC streams to 2 workers and to 1,000, with jobs of 100 tasks submitted through its API, while tasks
 * start, end and are acknowledged as in life. The workers are hosted in this process; their tasks end at
 * once. Also what a connected worker and a queued task take of a dist's memory. Usage: bench_wire [FILE.json
 * [ROUNDS [STREAMS]]] */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "bench/lib/hosted.h"
#include "bench/lib/programs.h"
#include "bench/lib/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB_TASKS 100u
#define ROUND_US (3 * US_PER_S)
#define WAIT_US (120 * US_PER_S) /* for whatever is waited for */
#define QUEUED_TASKS 1000000u
#define QUEUED_US US_PER_S /* for a dist to take them in */

struct setting {
    const char *name;
    uint32_t workers, slots;
    uint32_t jobs; /* at a time */
};

struct cluster {
    struct loop *loop;
    const struct setting *setting;
    char dir[64], central_addr[ADDRESS_MAX], dist_addr[ADDRESS_MAX];
    pid_t central, dist;
    double dist_alone_bytes, dist_bytes; /* before there are workers, and with them connected */
    struct hosted *hosted;
    struct session *session;
};

static struct job_desc *job_of(uint32_t tasks)
{
    struct job_desc *d = job_desc_new();

    d->tasks = tasks;
    d->kind = PAYLOAD_TIMER;
    d->tag = TAG_SHORT;
    strings_add(&d->argv, "1ms");
    return d;
}

/* Turns the loop until this holds. */
#define UNTIL(c, what, ...)                                                                                  \
    do {                                                                                                     \
        int64_t end_us_ = loop_now((c)->loop) + WAIT_US;                                                     \
        while (!(what)) {                                                                                    \
            if (loop_now((c)->loop) > end_us_)                                                               \
                bench_die(__VA_ARGS__);                                                                      \
            loop_once((c)->loop, end_us_);                                                                   \
        }                                                                                                    \
    } while (0)

static void start(struct cluster *c, struct loop *loop, const struct setting *s, const char *hawk)
{
    struct hosted_config hc = {
        .loop = loop, .workers = s->workers, .slots = s->slots, .dialled = true, .tasks_end = true};
    char state[100];

    *c = (struct cluster){.loop = loop, .setting = s};
    make_dir(c->dir, sizeof c->dir, "hawk-bench-wire");
    snprintf(state, sizeof state, "%s/central", c->dir);
    c->central = start_daemon(hawk, c->central_addr, "central", "--listen", "127.0.0.1:0", "--state-dir",
                              state, "--policy-off", "stealing", "--log-level", "error", NULL);
    snprintf(state, sizeof state, "%s/dist", c->dir);
    c->dist = start_daemon(hawk, c->dist_addr, "dist", "--listen", "127.0.0.1:0", "--central",
                           c->central_addr, "--state-dir", state, "--log-level", "error", NULL);
    c->dist_alone_bytes = program_memory(c->dist, "VmRSS");
    hc.central = c->central_addr;
    c->hosted = hosted_new(&hc);
    UNTIL(c, hosted_counts(c->hosted)->dists == s->workers, "only %u of %u workers were dialled",
          hosted_counts(c->hosted)->dists, s->workers);
    c->dist_bytes = program_memory(c->dist, "VmRSS");
    c->session = session_new(loop, c->dist_addr, NULL, NULL, NULL);
}

static void stop(struct cluster *c)
{
    session_free(c->session);
    end_program(c->dist, SIGKILL);
    end_program(c->central, SIGKILL);
    remove_dir(c->dir);
    /* the workers go with this process */
}

/* Keeps the setting's number of jobs going for so long, and waits until they have ended. */
static void load(struct cluster *c, int64_t us)
{
    int64_t end_us = loop_now(c->loop) + us;
    struct job_desc *d = job_of(JOB_TASKS);

    while (loop_now(c->loop) < end_us) {
        while (session_submitted(c->session) - session_ended(c->session) < c->setting->jobs)
            session_submit(c->session, session_submitted(c->session), d);
        loop_once(c->loop, end_us);
    }
    session_wait(c->session, 0, WAIT_US);
    job_desc_drop(d);
}

static const char *label(const struct cluster *c, const char *what)
{
    static char names[40][80]; /* a figure keeps its name */
    static unsigned n;
    char text[80];

    snprintf(text, sizeof text, "%s: %s", c->setting->name, what);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0)
            return names[i];
    if (n == sizeof names / sizeof names[0])
        bench_die("too many figures");
    memcpy(names[n], text, sizeof text);
    return names[n++];
}

static void measure(struct figures *f, struct cluster *c)
{
    struct hosted_counts before = *hosted_counts(c->hosted), n;
    double cpu = program_cpu_s(c->dist), at = wall_s(), tasks;

    load(c, ROUND_US);
    n = *hosted_counts(c->hosted);
    cpu = program_cpu_s(c->dist) - cpu;
    at = wall_s() - at;
    tasks = (double)(n.ended - before.ended);
    figures_add(f, label(c, "probes + requests per CPU s"), "/s",
                (double)(n.probes - before.probes + n.requests - before.requests) / cpu);
    figures_add(f, label(c, "dist's CPU per task"), "us", cpu * 1e6 / tasks);
    figures_add(f, label(c, "messages per task"), "",
                (double)(n.in - before.in + n.out - before.out) / tasks);
    figures_add(f, label(c, "dist's CPU per message"), "us",
                cpu * 1e6 / (double)(n.in - before.in + n.out - before.out));
    figures_add(f, label(c, "tasks, with all daemons and workers here"), "/s", tasks / at);
}

/* A million tasks of one job, and nobody to run them: what a dist keeps of each. */
static void measure_queued(struct figures *f, struct loop *loop, const char *hawk, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        static const struct setting nobody = {.name = "queued"};
        struct job_desc *d = job_of(QUEUED_TASKS);
        struct cluster c;
        double before;

        start(&c, loop, &nobody, hawk);
        before = program_memory(c.dist, "VmRSS");
        session_submit(c.session, 0, d);
        for (int64_t end_us = loop_now(loop) + QUEUED_US; loop_now(loop) < end_us;)
            loop_once(loop, end_us);
        job_desc_drop(d);
        figures_add(f, "dist, memory per queued task", "B",
                    (program_memory(c.dist, "VmRSS") - before) / QUEUED_TASKS);
        stop(&c);
    }
    figures_at_most(f, "dist, memory per queued task", 300);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
    uint32_t streams = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1000;
    const struct setting settings[] = {{"2 streams", 2, 64, 16}, {"1,000 streams", streams, 4, 64}};
    struct figures *f = figures_new("wire");
    struct cluster c[2];
    struct loop *loop;
    char hawk[PATH_MAX];

    bench_name("bench_wire");
    log_init("bench_wire", LOG_ERROR);
    if (rounds < 1 || rounds > 100 || streams < 2)
        bench_die("usage: bench_wire [FILE.json [ROUNDS [STREAMS]]]");
    loop = loop_new(LOOP_NET);
    for (int i = 0; i < 2; i++) {
        start(&c[i], loop, &settings[i], hawk_path(hawk));
        load(&c[i], US_PER_S); /* warms up */
    }
    printf("a dist with 2 workers, and one with %u; jobs of %u tasks that end at once\n", streams, JOB_TASKS);
    for (uint32_t r = 0; r < rounds; r++)
        for (int i = 0; i < 2; i++)
            measure(f, &c[i]);
    figures_at_least(f, label(&c[0], "probes + requests per CPU s"), 400000);
    figures_at_least(f, label(&c[1], "probes + requests per CPU s"), 100000);
    figures_add(f, "dist, memory per connected worker", "kB",
                (c[1].dist_bytes - c[1].dist_alone_bytes) / streams / 1000);
    figures_add(f, "dist, the same after the load", "kB",
                (program_memory(c[1].dist, "VmRSS") - c[1].dist_alone_bytes) / streams / 1000);
    figures_at_most(f, "dist, memory per connected worker", 80);
    for (int i = 0; i < 2; i++)
        stop(&c[i]);
    measure_queued(f, loop, hawk, rounds);
    figures_end(f, argc > 1 ? argv[1] : NULL);
    return 0;
}
