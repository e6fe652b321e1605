/* What it costs to pause a command and to thaw it, by each freezer that works here; and what a group costs a start.
 * Usage: bench_pause [ROUNDS] */
#include "base/mem.h"
#include "base/units.h"
#include "exec/freezer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GAP_MS 20 /* between two pauses, as they come: the kernel moves processes faster in a row */

enum step { STEP_FIRST, STEP_AGAIN, STEP_THAW, STEPS };

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print_figures(const char *what, int64_t *ns, uint32_t n)
{
    uint32_t median = n / 2, p99 = n - 1 - n / 100;

    qsort(ns, n, sizeof *ns, compare);
    printf("  %-24s median %8.1f us, p99 %8.1f us\n", what, (double)ns[median] / 1000,
           (double)ns[p99] / 1000);
}

static int64_t freeze(const struct freezer *f, struct frozen_task *t)
{
    int64_t began = now_ns();

    if (freezer_freeze(f, t) < 0) {
        fprintf(stderr, "bench_pause: cannot freeze\n");
        exit(1);
    }
    while (!freezer_holds(f, t))
        poll(NULL, 0, 0);
    return now_ns() - began;
}

/* One command that computes: paused, thawed, paused again, killed. */
static void one_round(struct freezer *f, uint32_t round, int64_t *ns[STEPS])
{
    struct frozen_task t = {.number = round, .leader = fork()};
    int64_t began;

    if (t.leader == 0) {
        setpgid(0, 0);
        for (volatile uint64_t i = 0;; i++)
            ;
    }
    setpgid(t.leader, t.leader);
    poll(NULL, 0, GAP_MS);
    ns[STEP_FIRST][round] = freeze(f, &t);
    began = now_ns();
    freezer_thaw(f, &t);
    ns[STEP_THAW][round] = now_ns() - began;
    poll(NULL, 0, GAP_MS);
    ns[STEP_AGAIN][round] = freeze(f, &t);
    kill(t.leader, SIGKILL);
    freezer_thaw(f, &t);
    while (waitpid(t.leader, NULL, 0) < 0 && errno == EINTR)
        ;
    freezer_end(f, &t, 0);
    (void)freezer_sweep(f, 0);
}

/* What a task that starts in a group of its own has besides: its making and its end. */
static void measure_groups(const struct freezer *f, uint32_t rounds, int64_t *ns)
{
    for (uint32_t i = 0; i < rounds; i++) {
        int64_t began = now_ns();
        int fd = freezer_make(f, i);

        if (fd < 0)
            return;
        close(fd);
        freezer_unmake(f, i);
        ns[i] = now_ns() - began;
    }
    print_figures("group made and removed", ns, rounds);
}

static void on_event(void *arg, const struct msg *m)
{
    if (m->type == MSG_EXEC_EXITED)
        *(bool *)arg = true;
}

/* One command from the request to its end, which a long one spends in a group of its own. */
static int64_t run_one(struct exec *e, struct job_desc *d, uint32_t run, enum job_class class)
{
    struct msg_exec_start m = {.run = run, .desc = d, .class = (uint8_t) class, .owner = NODE_CENTRAL};
    struct pollfd p = {.fd = exec_fd(e), .events = POLLIN};
    int64_t began = now_ns();
    bool ended = false;

    m.id = (struct try_id){job_id_make((node_id_t){1}, 1), run, 1, 1};
    if (exec_run(e, 0, &m, NULL) < 0 || exec_flush(e) < 0)
        exit(1);
    while (!ended && poll(&p, 1, -1) >= 0)
        if (exec_on_ready(e, on_event, &ended) < 0)
            exit(1);
    return now_ns() - began;
}

static void measure_starts(uint32_t rounds, int64_t *of_short, int64_t *of_long)
{
    struct job_desc *d = job_desc_new();
    struct exec_config c;
    struct exec *e;

    exec_config_init(&c, "bench", "/tmp");
    c.freezer = EXEC_FREEZER_AUTO;
    if (exec_start(&e, &c) < 0)
        exit(1);
    d->tasks = 2 * rounds;
    strings_add(&d->argv, "/bin/true");
    d->stdout_pattern = blob_str("none");
    d->stderr_pattern = blob_str("none");
    for (uint32_t i = 0; i < rounds; i++) {
        of_short[i] = run_one(e, d, 2 * i, CLASS_SHORT);
        of_long[i] = run_one(e, d, 2 * i + 1, CLASS_LONG);
    }
    printf("/bin/true, request to end, one at a time, %s\n", exec_freezer_name(exec_freezer_in_force(e)));
    print_figures("short", of_short, rounds);
    print_figures("long", of_long, rounds);
    job_desc_drop(d);
    exec_stop(e);
}

int main(int argc, char **argv)
{
    static const char *const names[STEPS] = {"first pause", "later pauses", "thaw"};
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200;
    int64_t *ns[STEPS];

    if (rounds < 1)
        return 2;
    for (int i = 0; i < STEPS; i++)
        ns[i] = xcalloc(rounds, sizeof **ns);
    for (enum exec_freezer m = EXEC_FREEZER_SIGNAL; m < EXEC_FREEZER_AUTO; m++) {
        struct freezer f;

        freezer_choose(&f, m, false);
        if (f.method != m)
            continue;
        printf("%s\n", exec_freezer_name(m));
        for (uint32_t i = 0; i < rounds; i++)
            one_round(&f, i, ns);
        for (int i = 0; i < STEPS; i++)
            print_figures(names[i], ns[i], rounds);
        if (m == EXEC_FREEZER_CGROUP2)
            measure_groups(&f, rounds, ns[0]);
        freezer_free(&f);
    }
    measure_starts(rounds, ns[0], ns[1]);
    for (int i = 0; i < STEPS; i++)
        free(ns[i]);
    return 0;
}
