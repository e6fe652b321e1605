/* Commands per second: /bin/true, its output captured to two files of its own, SLOTS at a time, on whatever
 * cores this machine has. The bound is a bare posix_spawn loop that does the same; beside it the spawner
 * alone, one array and jobs of one task on a cluster of daemons, one array with `hawk run`, and, where they
 * are installed, xargs -P (which captures nothing) and GNU parallel. Rounds alternate. By the wall clock, and
 * by the processor time that everything involved took, tasks included: a busy machine spoils that less. In
 * every round all of them make new files, and none is removed before the end: to write over one is cheaper,
 * and ext4 is slow to make files where some were removed within the last half minute (TMPDIR=/dev/shm spares
 * one that).
 *
 * The cluster of daemons runs three times: as it is, with TLS and signatures, and with tasks that run as their
 * user besides (root only). There, users of whom no task has run yet then submit a few, one after the other: the
 * first waits for the user's runner; then others, whose runners verify what they signed.
 * Usage: bench_commands [FILE.json [ROUNDS [COMMANDS [SLOTS]]]] */
#include "base/log.h"
#include "base/units.h"
#include "bench/lib/columns.h"
#include "bench/lib/figures.h"
#include "bench/lib/programs.h"
#include "bench/lib/session.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/bin/true"
#define PARALLEL_SHARE                                                                                       \
    10u /* GNU parallel is given a tenth of the tasks: it takes as long as the others for all */
#define JOBS_IN_FLIGHT 64u
#define WAIT_US (600 * US_PER_S)
#define FIRST_TASKS_OF 24u /* users */
#define LATER_TASKS 5u     /* of each */
#define FIRST_TASK_MS_MAX 20

static char dir[64];

/* ---- The bound ---- */

static void spawn_bare(uint32_t round, uint32_t task)
{
    char *argv[] = {(char *)PROGRAM, NULL};
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char out[300], err[300];
    pid_t pid;

    snprintf(out, sizeof out, "%s/bare-%u/%u.out", dir, round, task);
    snprintf(err, sizeof err, "%s/bare-%u/%u.err", dir, round, task);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out, flags, 0666);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err, flags, 0666);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    errno = posix_spawn(&pid, PROGRAM, &actions, &attr, argv, environ);
    if (errno)
        bench_die("posix_spawn: %s", strerror(errno));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
}

static void run_bare(uint32_t round, uint32_t n, uint32_t slots)
{
    uint32_t running = 0;

    for (uint32_t task = 0; task < n || running > 0;) {
        while (task < n && running < slots) {
            spawn_bare(round, task++);
            running++;
        }
        if (waitpid(-1, NULL, 0) < 0)
            bench_die("waitpid: %s", strerror(errno));
        running--;
    }
}

/* ---- The spawner alone ---- */

struct load {
    struct exec *e;
    struct job_desc *d;
    uint32_t round, n, asked, ended;
};

static void ask(struct load *l)
{
    struct try_id id = {job_id_make((node_id_t){1}, l->round + 1), l->asked, 1, 1};

    if (exec_run(l->e, 0, &(struct msg_exec_start){.run = l->asked, .id = id, .desc = l->d}, NULL) < 0)
        bench_die("the spawner takes no more");
    l->asked++;
}

static void on_event(void *arg, const struct msg *m)
{
    struct load *l = arg;

    if (m->type != MSG_EXEC_EXITED)
        return;
    if (m->exec_exited.outcome != OUTCOME_EXITED)
        bench_die("%s", m->exec_exited.result ? m->exec_exited.result->data : "a task failed");
    l->ended++;
    if (l->asked < l->n)
        ask(l);
}

static void run_spawner(struct exec *e, uint32_t round, uint32_t n, uint32_t slots)
{
    struct load l = {.e = e, .round = round, .n = n, .d = job_desc_new()};

    l.d->tasks = n;
    strings_add(&l.d->argv, PROGRAM);
    while (l.asked < n && l.asked < slots)
        ask(&l);
    while (l.ended < n) {
        struct pollfd p = {.fd = exec_fd(e), .events = POLLIN};

        if (exec_flush(e) < 0)
            bench_die("the spawner is gone");
        if (poll(&p, 1, -1) < 0 || exec_on_ready(e, on_event, &l) < 0)
            bench_die("the spawner is gone");
    }
    job_desc_drop(l.d);
}

/* ---- Programs that run them all ---- */

/* Runs it to its end; returns the processor time of it and of all that it waited for. */
static double run_program(const char *const *argv, const char *input)
{
    struct rusage before, after;
    int status;
    pid_t pid;

    getrusage(RUSAGE_CHILDREN, &before);
    pid = fork();
    if (pid == 0) {
        int in = open(input, O_RDONLY), null = open("/dev/null", O_WRONLY);

        dup2(in, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        execvp(argv[0], (char **)argv);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("%s failed", argv[0]);
    getrusage(RUSAGE_CHILDREN, &after);
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                    before.ru_stime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                    before.ru_stime.tv_usec) /
               1e6;
}

static bool is_installed(const char *program)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "/usr/bin/%s", program);
    if (access(path, X_OK) == 0)
        return true;
    printf("%s is not installed (make bench-deps): left out\n", program);
    return false;
}

/* A line per task, for xargs and parallel. */
static void write_lines(const char *path, uint32_t n)
{
    FILE *f = fopen(path, "w");

    for (uint32_t i = 0; f && i < n; i++)
        fprintf(f, "%u\n", i);
    if (!f || fclose(f) != 0)
        bench_die("%s cannot be written", path);
}

/* ---- A cluster of daemons: central, a dist, a worker ---- */

struct cluster {
    struct loop *loop;
    struct site site;
    struct tls *tls; /* of the user who submits */
    char central_addr[ADDRESS_MAX], dist_addr[ADDRESS_MAX], worker_addr[ADDRESS_MAX];
    pid_t central, dist, worker, spawner;
    struct session *session;
};

/* Its youngest child. */
static pid_t child_of(pid_t pid)
{
    char path[64];
    int child = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    f = fopen(path, "r");
    while (f && fscanf(f, "%d", &child) == 1) /* NOLINT(cert-err34-c): the kernel's own */
        ;
    if (!f || !child)
        bench_die("process %d has no spawner", (int)pid);
    fclose(f);
    return child;
}

static void start_cluster(struct cluster *c, enum column column, const char *hawk, uint32_t slots)
{
    struct site *p = &c->site;
    char output[100], number[16];

    site_make(p, column, hawk);
    c->tls = site_client(p, 0);
    snprintf(number, sizeof number, "%u", slots);
    snprintf(output, sizeof output, "%s/output", p->dir);
    c->central = site_start(p, c->central_addr, ROLE_CENTRAL, "c1", "--listen", "127.0.0.1:0", NULL);
    c->worker = site_start(p, c->worker_addr, ROLE_WORKER, "w1", "--listen", "127.0.0.1:0", "--central",
                           c->central_addr, "--slots", number, "--output-dir", output, NULL);
    c->spawner = child_of(c->worker);
    c->dist = site_start(p, c->dist_addr, ROLE_DIST, "d1", "--listen", "127.0.0.1:0", "--central",
                         c->central_addr, NULL);
}

static void stop_cluster(struct cluster *c)
{
    end_program(c->worker, SIGTERM);
    end_program(c->dist, SIGKILL);
    end_program(c->central, SIGKILL);
    tls_free(c->tls);
    site_remove(&c->site);
}

/* Central's, the dist's, the worker's, the spawner's with the tasks, and all together. */
struct shares {
    double v[4], all;
};

static struct shares cluster_cpu(const struct cluster *c)
{
    struct shares s = {{program_cpu_s(c->central), program_cpu_s(c->dist), program_cpu_s(c->worker),
                        program_tree_cpu_s(c->spawner)},
                       0};

    for (int i = 0; i < 4; i++)
        s.all += s.v[i];
    return s;
}

static void run_jobs(struct cluster *c, uint32_t jobs, uint32_t tasks)
{
    struct job_desc *d = job_desc_new();
    uint64_t first = session_submitted(c->session);

    d->tasks = tasks;
    d->tag = TAG_SHORT;
    strings_add(&d->argv, PROGRAM);
    for (uint32_t i = 0; i < jobs; i++) {
        session_wait(c->session, JOBS_IN_FLIGHT - 1, WAIT_US);
        session_submit(c->session, first + i, d);
    }
    session_wait(c->session, 0, WAIT_US);
    job_desc_drop(d);
}

/* ---- Rounds ---- */

struct bench {
    struct figures *f;
    struct exec *e;
    pid_t spawner; /* e's */
    struct cluster clusters[COLUMNS];
    uint32_t round, n, slots;
    bool xargs, parallel, run_as;
    double at_s, cpu_s;        /* of what is being measured */
    double bare_s, bare_cpu_s; /* of the round's bare loop */
};

static void begin(struct bench *b, double cpu)
{
    b->at_s = wall_s();
    b->cpu_s = cpu;
}

/* Tasks/s, and both ratios to the bare loop. Returns the first. */
static double end(struct bench *b, const char *what, uint32_t n, double cpu)
{
    double s = (wall_s() - b->at_s) / n;
    char name[160];

    cpu = (cpu - b->cpu_s) / n;
    if (!b->bare_s) {
        b->bare_s = s;
        b->bare_cpu_s = cpu;
    }
    snprintf(name, sizeof name, "%s, tasks/s", what);
    figures_add(b->f, name, "/s", 1 / s);
    snprintf(name, sizeof name, "%s, of the bare loop's", what);
    figures_add(b->f, name, "%", 100 * b->bare_s / s);
    snprintf(name, sizeof name, "%s, of the bare loop's by CPU", what);
    figures_add(b->f, name, "%", 100 * b->bare_cpu_s / cpu);
    return 1 / s;
}

static double own_cpu_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return cpu_s() + (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void round_of_programs(struct bench *b, const char *hawk, const char *lines, const char *few)
{
    char slots[16], array[32], out[100], err[100], results[100];

    snprintf(slots, sizeof slots, "%u", b->slots);
    snprintf(array, sizeof array, "1-%u", b->n);
    snprintf(out, sizeof out, "%s/run-%u/%%t.out", dir, b->round);
    snprintf(err, sizeof err, "%s/run-%u/%%t.err", dir, b->round);
    snprintf(results, sizeof results, "%s/parallel-%u", dir, b->round);
    const char *const run[] = {hawk,       "run", "-q",       "-j", slots, "--array", array,
                               "--stdout", out,   "--stderr", err,  "--",  PROGRAM,   NULL};
    const char *const xargs[] = {"xargs", "-n", "1", "-P", slots, PROGRAM, NULL};
    const char *const parallel[] = {"parallel",  "--will-cite", "-j",    slots,
                                    "--results", results,       PROGRAM, NULL};

    begin(b, 0);
    end(b, "hawk run, one array", b->n, run_program(run, "/dev/null"));
    if (b->xargs) {
        begin(b, 0);
        end(b, "xargs -P", b->n, run_program(xargs, lines));
    }
    if (b->parallel) {
        begin(b, 0);
        end(b, "GNU parallel", b->n / PARALLEL_SHARE, run_program(parallel, few));
    }
}

static const char *const array = "daemons, one array", *const singles = "daemons, jobs of one task";
#define ROWS 4
static const char *const rows[ROWS] = {"one array, tasks/s", "one array, CPU us/task",
                                       "jobs of one task, tasks/s", "jobs of one task, CPU us/task"};

struct result {
    double rates[COLUMNS], cpus_us[COLUMNS]; /* per task, of all processes but the client's */
};

static void measure_cluster(struct bench *b, enum column column, const char *what, uint32_t jobs,
                            uint32_t tasks, struct result *r)
{
    static const char *const whose[4] = {"central's CPU per task", "the dist's CPU per task",
                                         "the worker's CPU per task", "the spawner's and the task's own"};
    struct cluster *c = &b->clusters[column];
    struct shares before = cluster_cpu(c), after;
    char name[128], share[200];

    begin(b, before.all);
    run_jobs(c, jobs, tasks);
    after = cluster_cpu(c);
    r->rates[column] = end(b, column_figure(name, what, column), jobs * tasks, after.all);
    for (int i = 0; i < 4; i++) {
        snprintf(share, sizeof share, "%s: %s", name, whose[i]);
        figures_add(b->f, share, "us", (after.v[i] - before.v[i]) * 1e6 / jobs / tasks);
    }
    r->cpus_us[column] = (after.all - before.all) * 1e6 / jobs / tasks;
}

/* Each column in turn goes first. */
static void round_of_columns(struct bench *b)
{
    struct result arrays = {0}, ones = {0};

    for (uint32_t i = 0; i < COLUMNS; i++) {
        enum column column = (enum column)((b->round + i) % COLUMNS);
        struct cluster *c = &b->clusters[column];

        if (column == COLUMN_RUN_AS && !b->run_as)
            continue;
        /* A session of the round's own: while this process waits for others nobody would answer the dist's pings. */
        c->session = session_new(c->loop, c->dist_addr, c->tls, NULL, NULL);
        run_jobs(c, 1, 1);
        if (column == COLUMN_RUN_AS) /* of the keeper, which is the worker's child */
            c->spawner = child_of(child_of(c->worker));
        measure_cluster(b, column, array, 1, b->n, &arrays);
        measure_cluster(b, column, singles, b->n, 1, &ones);
        session_free(c->session);
    }
    columns_add(b->f, rows[0], "/s", arrays.rates);
    columns_add(b->f, rows[1], "us", arrays.cpus_us);
    columns_add(b->f, rows[2], "/s", ones.rates);
    columns_add(b->f, rows[3], "us", ones.cpus_us);
}

static void one_round(struct bench *b, const char *hawk, const char *lines, const char *few)
{
    char bare[100];

    snprintf(bare, sizeof bare, "%s/bare-%u", dir, b->round);
    if (mkdir(bare, 0777) < 0)
        bench_die("%s: %s", bare, strerror(errno));
    b->bare_s = 0;
    begin(b, own_cpu_s());
    run_bare(b->round, b->n, b->slots);
    end(b, "bare posix_spawn", b->n, own_cpu_s());
    begin(b, cpu_s() + program_tree_cpu_s(b->spawner));
    run_spawner(b->e, b->round, b->n, b->slots);
    end(b, "spawner alone", b->n, cpu_s() + program_tree_cpu_s(b->spawner));
    round_of_columns(b);
    round_of_programs(b, hawk, lines, few);
}

/* ---- A user's first task on a worker ---- */

static double one_job_ms(struct cluster *c)
{
    double at_s = wall_s();

    run_jobs(c, 1, 1);
    return (wall_s() - at_s) * 1e3;
}

/* A job without a command: it opens the connection, and needs no runner. */
static void run_timer(struct cluster *c)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    d->kind = PAYLOAD_TIMER;
    d->tag = TAG_SHORT;
    strings_add(&d->argv, "1ms");
    session_submit(c->session, session_submitted(c->session), d);
    session_wait(c->session, 0, WAIT_US);
    job_desc_drop(d);
}

static int compare_ms(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of these users no task has run there yet. */
static void measure_first_tasks(struct bench *b, struct cluster *c, const char *what, unsigned first_user)
{
    char name[3][128];

    snprintf(name[0], sizeof name[0], "%s, a user's first task, submit to end", what);
    snprintf(name[1], sizeof name[1], "%s, later tasks, submit to end", what);
    snprintf(name[2], sizeof name[2], "%s, what the first one takes more", what);
    for (unsigned user = first_user; user < first_user + FIRST_TASKS_OF; user++) {
        struct tls *tls = site_client(&c->site, user);
        double first, later[LATER_TASKS];

        c->session = session_new(c->loop, c->dist_addr, tls, NULL, NULL);
        run_timer(c);
        first = one_job_ms(c);
        for (unsigned i = 0; i < LATER_TASKS; i++)
            later[i] = one_job_ms(c);
        qsort(later, LATER_TASKS, sizeof *later, compare_ms);
        figures_add(b->f, name[0], "ms", first);
        figures_add(b->f, name[1], "ms", later[LATER_TASKS / 2]);
        figures_add(b->f, name[2], "ms", first - later[LATER_TASKS / 2]);
        session_free(c->session);
        tls_free(tls);
    }
    figures_at_most(b->f, name[2], FIRST_TASK_MS_MAX);
}

/* User 0's runner is there already. */
static void measure_all_first_tasks(struct bench *b, struct cluster *c)
{
    measure_first_tasks(b, c, "run-as", 1);
    columns_let_runners_verify(&c->site);
    measure_first_tasks(b, c, "run-as, runners verify", 1 + FIRST_TASKS_OF);
}

static void set_targets(struct figures *f)
{
    figures_at_least(f, "daemons, one array, of the bare loop's", 93);
    figures_at_least(f, "daemons, jobs of one task, of the bare loop's", 80);
    figures_at_least(f, "hawk run, one array, of the bare loop's", 93);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
    struct bench b = {.n = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 3000,
                      .slots = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 4};
    char hawk[PATH_MAX], lines[100], few[100];
    struct exec_config config;

    bench_name("bench_commands");
    log_init("bench_commands", LOG_ERROR);
    if (rounds < 1 || rounds > 100 || b.n < PARALLEL_SHARE || b.slots < 1)
        bench_die("usage: bench_commands [FILE.json [ROUNDS [COMMANDS [SLOTS]]]]");
    hawk_path(hawk);
    b.run_as = columns_enter_machine();
    b.f = figures_new("commands");
    make_dir(dir, sizeof dir, "hawk-bench-commands");
    snprintf(lines, sizeof lines, "%s/lines", dir);
    snprintf(few, sizeof few, "%s/few", dir);
    write_lines(lines, b.n);
    write_lines(few, b.n / PARALLEL_SHARE);
    b.xargs = is_installed("xargs");
    b.parallel = is_installed("parallel");
    exec_config_init(&config, "bench", dir);
    if (exec_start(&b.e, &config) < 0) /* before gRPC: it forks */
        bench_die("no spawner");
    b.spawner = child_of(getpid());
    struct loop *loop = loop_new(LOOP_NET);
    for (enum column c = 0; c < COLUMNS; c++) {
        b.clusters[c].loop = loop;
        if (c != COLUMN_RUN_AS || b.run_as)
            start_cluster(&b.clusters[c], c, hawk, b.slots);
    }
    printf("%u x " PROGRAM ", %u at a time\n", b.n, b.slots);
    for (; b.round < rounds; b.round++)
        one_round(&b, hawk, lines, few);
    if (b.run_as)
        measure_all_first_tasks(&b, &b.clusters[COLUMN_RUN_AS]);
    set_targets(b.f);
    exec_stop(b.e);
    for (enum column c = 0; c < COLUMNS; c++)
        if (c != COLUMN_RUN_AS || b.run_as)
            stop_cluster(&b.clusters[c]);
    remove_dir(dir);
    columns_print(b.f, rows, ROWS);
    figures_end(b.f, argc > 1 ? argv[1] : NULL);
    return 0;
}
