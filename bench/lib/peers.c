/* Peers' servers and programs. */
#include "bench/lib/peers.h"

#include "base/mem.h"
#include "bench/lib/programs.h"

#include <arpa/inet.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_S 10
#define LOOK_NS 10000000 /* between two looks whether a server is there */
#define SINGLES 2000u    /* tasks, one at a time */

enum server { GEARMAN, REDIS, SERVERS };
static const char *const programs[SERVERS] = {"noop_gearman", "noop_redis"};
static const char *const servers[SERVERS] = {"gearmand", "redis-server"};
/* What the programs are built with, where it is installed. */
static const char *const packages[SERVERS] = {"libgearman-dev", "libhiredis-dev"};

/* What was best on two cores (docs/notebook/benchmarks.md says what was tried), and of Redis also what loses no more
 * than one task with a worker. speed: about how many tasks it does while Hawk does one. */
struct mode {
    enum server server;
    const char *name, *ratio;
    uint32_t workers, window, push, pop;
    double speed, target;
};
static const struct mode modes[] = {
    {GEARMAN, "gearmand: tasks", "hawk / gearmand", 8, 100, 1, 1, 0.2, 7},
    {REDIS, "Redis list, batches of 1000: tasks", "hawk / Redis list in batches", 2, 6400, 1000, 1000, 5, 4},
    {REDIS, "Redis list, a task a pop: tasks", "hawk / Redis list, a task a pop", 8, 6400, 100, 1, 0.3, 0},
    {GEARMAN, "gearmand, one job at a time", NULL, 1, 1, 1, 1, 0, 0},
    {REDIS, "Redis list, one job at a time", NULL, 1, 1, 1, 1, 0, 0},
};
#define MODES (sizeof modes / sizeof *modes)

struct peers {
    pid_t pids[SERVERS]; /* 0: left out */
    char ports[SERVERS][8];
    char dir[PATH_MAX]; /* where the programs are */
    double rates[MODES];
};

/* ---- Servers ---- */

static pid_t start_server(enum server s, const char *port)
{
    if (s == GEARMAN)
        return start_program("gearmand", "--listen=127.0.0.1", "--port", port, "--log-file=none", NULL);
    return start_program("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", NULL);
}

/* Waits until it takes connections; whether it does. */
static bool is_up(pid_t pid, const char *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    double end_s = wall_s() + START_S;
    bool up = false;

    in.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    while (!up && wall_s() < end_s && waitpid(pid, NULL, WNOHANG) == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        up = connect(fd, (struct sockaddr *)&in, sizeof in) == 0;
        close(fd);
        if (!up)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return up;
}

struct peers *peers_start(void)
{
    struct peers *p = xcalloc(1, sizeof *p);
    char path[PATH_MAX + 32], addr[ADDRESS_MAX];

    hawk_path(p->dir);
    *strstr(p->dir, "/../hawk") = '\0';
    for (int s = 0; s < SERVERS; s++) {
        free_address(addr, sizeof addr);
        snprintf(p->ports[s], sizeof p->ports[s], "%s", strrchr(addr, ':') + 1);
        snprintf(path, sizeof path, "%s/%s", p->dir, programs[s]);
        bool built = access(path, X_OK) == 0;
        if (built && (p->pids[s] = start_server(s, p->ports[s])) && is_up(p->pids[s], p->ports[s]))
            continue;
        p->pids[s] = 0;
        if (built)
            printf("%s is not installed or does not start (make bench-deps): left out\n", servers[s]);
        else
            printf("%s was not built, for lack of %s (make bench-deps): %s is left out\n", programs[s],
                   packages[s], servers[s]);
    }
    return p;
}

void peers_stop(struct peers *p)
{
    for (int s = 0; s < SERVERS; s++)
        if (p->pids[s])
            end_program(p->pids[s], SIGTERM);
    free(p);
}

/* ---- Measuring ---- */

static FILE *run(const struct peers *p, const struct mode *m, uint64_t tasks)
{
    char command[PATH_MAX + 128];

    snprintf(command, sizeof command, "'%s/%s' %s %u %u %u %u %llu", p->dir, programs[m->server],
             p->ports[m->server], m->workers, m->window, m->push, m->pop, (unsigned long long)tasks);
    FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c): our own program */

    return f ? f : (bench_die("%s cannot be run", command), NULL);
}

static void end_run(FILE *f, const struct mode *m, bool all)
{
    if (pclose(f) != 0 || !all)
        bench_die("%s: no figures", m->name);
}

static void measure_rate(struct peers *p, const struct mode *m, struct figures *f, uint64_t tasks)
{
    double *rate = &p->rates[m - modes];
    FILE *out = run(p, m, (uint64_t)((double)tasks * m->speed));

    /* NOLINTNEXTLINE(cert-err34-c): our own program's */
    end_run(out, m, fscanf(out, "%lf", rate) == 1);
    figures_add(f, m->name, "/s", *rate);
}

static void measure_singles(struct peers *p, const struct mode *m, struct figures *f)
{
    static double started[SINGLES], ended[SINGLES];
    FILE *out = run(p, m, SINGLES);
    uint32_t n = 0;
    char name[96];

    /* NOLINTNEXTLINE(cert-err34-c): our own program's */
    while (n < SINGLES && fscanf(out, "%lf %lf", &started[n], &ended[n]) == 2)
        n++;
    end_run(out, m, n == SINGLES);
    snprintf(name, sizeof name, "%s: submit to start", m->name);
    figures_add_quantiles(f, name, "us", started, n);
    snprintf(name, sizeof name, "%s: submit to result", m->name);
    figures_add_quantiles(f, name, "us", ended, n);
}

void peers_measure(struct peers *p, struct figures *f, uint64_t tasks)
{
    for (const struct mode *m = modes; m < modes + MODES; m++)
        if (p->pids[m->server] && m->window > 1)
            measure_rate(p, m, f, tasks);
        else if (p->pids[m->server])
            measure_singles(p, m, f);
}

void peers_compare(const struct peers *p, struct figures *f, double hawk_rate)
{
    for (const struct mode *m = modes; m < modes + MODES; m++) {
        if (!p->pids[m->server] || !m->ratio)
            continue;
        figures_add(f, m->ratio, "times", hawk_rate / p->rates[m - modes]);
        if (m->target > 0)
            figures_at_least(f, m->ratio, m->target);
    }
}
