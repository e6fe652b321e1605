/* A central with 10,000 workers (hosted in this process) that do nothing: its processor time per heartbeat,
 * beside that of a central with a tenth of them, and its memory per connected worker. Usage: bench_heartbeats
 * [FILE.json [ROUNDS [WORKERS]]] */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "bench/lib/hosted.h"
#include "bench/lib/programs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_US (5 * US_PER_S)
#define REST_US                                                                                              \
    (3 * US_PER_S) /* as long as member lists come, which a big cluster's central spreads over minutes */
/* Of every node. At central's default of two, one thread that speaks for 11,000 nodes falls behind. */
#define HEARTBEATS_PER_S 1u

struct cluster {
    struct loop *loop;
    char dir[64], addr[ADDRESS_MAX];
    pid_t central;
    uint32_t workers;
    struct hosted *hosted;
    double alone_bytes;
};

static void turn(struct loop *l, int64_t us)
{
    int64_t end_us = loop_now(l) + us;

    while (loop_now(l) < end_us)
        loop_once(l, end_us);
}

static void start(struct cluster *c, struct loop *l, uint32_t workers)
{
    struct hosted_config hc = {.loop = l, .central = c->addr, .workers = workers, .slots = 16};
    char hawk[PATH_MAX], state[100];
    uint64_t lists;

    c->loop = l;
    c->workers = workers;
    make_dir(c->dir, sizeof c->dir, "hawk-bench-heartbeats");
    snprintf(state, sizeof state, "%s/central", c->dir);
    c->central = start_daemon(hawk_path(hawk), c->addr, "central", "--listen", "127.0.0.1:0", "--state-dir",
                              state, "--heartbeat", "1s", "--log-level", "error", NULL);
    c->alone_bytes = program_memory(c->central, "VmRSS");
    c->hosted = hosted_new(&hc); /* they go with this process */
    do {
        lists = hosted_counts(c->hosted)->lists;
        turn(l, REST_US);
    } while (hosted_counts(c->hosted)->lists != lists);
}

static void look(struct figures *f, const struct cluster *c, const char *name)
{
    double cpu = program_cpu_s(c->central), at = wall_s();

    turn(c->loop, LOOK_US);
    at = wall_s() - at;
    figures_add(f, name, "us",
                (program_cpu_s(c->central) - cpu) * 1e6 / (at * c->workers * HEARTBEATS_PER_S));
}

int main(int argc, char **argv)
{
    static const char many[] = "central, CPU per heartbeat",
                      few[] = "central, the same with a tenth of the workers";
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
    uint32_t workers = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 10000;
    struct figures *f = figures_new("heartbeats");
    struct cluster a = {0}, b = {0};
    struct loop *l;

    bench_name("bench_heartbeats");
    log_init("bench_heartbeats", LOG_ERROR);
    if (rounds < 1 || rounds > 100 || workers < 10)
        bench_die("usage: bench_heartbeats [FILE.json [ROUNDS [WORKERS]]]");
    l = loop_new(LOOP_NET);
    /* First the few: beside the others' heartbeats a slow machine has no time for joins. */
    start(&b, l, workers / 10);
    start(&a, l, workers);
    printf("a central with %u workers and one with %u\n", workers, workers / 10);
    figures_add(f, "central, memory per connected worker", "kB",
                (program_memory(a.central, "VmRSS") - a.alone_bytes) / workers / 1000);
    figures_at_most(f, "central, memory per connected worker", 80);
    for (uint32_t i = 0; i < rounds; i++) {
        look(f, &a, many);
        look(f, &b, few);
    }
    figures_at_most(f, many, 10);
    /* Each leaves a connection that lingers, and its memory: what was measured is that of a machine that was
     * too busy. */
    figures_add(f, "workers that lost central and joined again", "",
                hosted_counts(a.hosted)->joined - workers);
    figures_at_most(f, "workers that lost central and joined again", 0);
    end_program(a.central, SIGKILL);
    end_program(b.central, SIGKILL);
    remove_dir(a.dir);
    remove_dir(b.dir);
    figures_end(f, argc > 1 ? argv[1] : NULL);
    return 0;
}
