/* Commands per second through the spawner, beside a bare posix_spawn loop that does the same: /bin/true
 * with stdout and stderr to files of its own, SLOTS at a time. Rounds alternate, since machines are
 * noisy; the last line is the median of the pairs' ratios. Usage: bench_spawn [COMMANDS [SLOTS
 * [ROUNDS]]] */
#include "base/units.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "/bin/true"

static char dir[200];

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- The bound ---- */

static void spawn_bare(uint32_t task)
{
    char *argv[] = {(char *)PROGRAM, NULL};
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char out[300], err[300];
    pid_t pid;

    snprintf(out, sizeof out, "%s/bare/%u.out", dir, task);
    snprintf(err, sizeof err, "%s/bare/%u.err", dir, task);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out, flags, 0666);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err, flags, 0666);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    errno = posix_spawn(&pid, PROGRAM, &actions, &attr, argv, environ);
    if (errno)
        fail("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
}

static double run_bare(uint32_t n, uint32_t slots)
{
    double start = now_s();
    uint32_t running = 0;
    char sub[300];

    snprintf(sub, sizeof sub, "%s/bare", dir);
    if (mkdir(sub, 0777) < 0 && errno != EEXIST)
        fail(sub);
    for (uint32_t task = 0; task < n || running > 0;) {
        while (task < n && running < slots) {
            spawn_bare(task++);
            running++;
        }
        if (waitpid(-1, NULL, 0) < 0)
            fail("waitpid");
        running--;
    }
    return n / (now_s() - start);
}

/* ---- Ours ---- */

struct load {
    struct exec *e;
    struct job_desc *d;
    uint32_t n, asked, ended;
};

static void ask(struct load *l)
{
    struct try_id id = {job_id_make((node_id_t){1}, 1), l->asked, 1, 1};

    if (exec_run(l->e, 0, &(struct msg_exec_start){.run = l->asked, .id = id, .desc = l->d}, NULL) < 0)
        fail("exec_run");
    l->asked++;
}

static void on_event(void *arg, const struct msg *m)
{
    struct load *l = arg;

    if (m->type != MSG_EXEC_EXITED)
        return;
    if (m->exec_exited.outcome != OUTCOME_EXITED)
        fail(m->exec_exited.result ? m->exec_exited.result->data : "a task failed");
    l->ended++;
    if (l->asked < l->n)
        ask(l);
}

static double run_ours(struct exec *e, uint32_t n, uint32_t slots)
{
    struct load l = {.e = e, .n = n, .d = job_desc_new()};
    double start;

    l.d->tasks = n;
    strings_add(&l.d->argv, PROGRAM);
    start = now_s();
    while (l.asked < n && l.asked < slots)
        ask(&l);
    while (l.ended < n) {
        struct pollfd p = {.fd = exec_fd(e), .events = POLLIN};

        if (exec_flush(e) < 0)
            fail("exec_flush");
        if (poll(&p, 1, -1) < 0 || exec_on_ready(e, on_event, &l) < 0)
            fail("the spawner");
    }
    job_desc_drop(l.d);
    return n / (now_s() - start);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 3000;
    uint32_t slots = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    double ratios[100];
    char remove[300];
    struct exec_config config;
    struct exec *e;

    if (n == 0 || slots == 0 || rounds == 0 || rounds > 100)
        return 2;
    snprintf(dir, sizeof dir, "/tmp/bench_spawn.XXXXXX");
    if (!mkdtemp(dir))
        fail(dir);
    exec_config_init(&config, "bench", dir);
    if (exec_start(&e, &config) < 0)
        fail("exec_start");
    for (uint32_t i = 0; i < rounds; i++) {
        double bare = run_bare(n, slots), ours = run_ours(e, n, slots);

        ratios[i] = ours / bare;
        printf("bare posix_spawn %6.0f/s  spawner %6.0f/s  %5.1f %%\n", bare, ours, 100 * ratios[i]);
    }
    exec_stop(e);
    snprintf(remove, sizeof remove, "rm -rf '%s'", dir);
    if (system(remove) != 0) /* NOLINT(cert-env33-c): our own mkdtemp's name */
        fprintf(stderr, "%s: not removed\n", dir);
    qsort(ratios, rounds, sizeof *ratios, compare);
    printf("median ratio %.1f %% (%u x " PROGRAM ", %u slots)\n", 100 * ratios[rounds / 2], n, slots);
    return 0;
}
