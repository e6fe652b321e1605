/* Runs many seeds in child processes: a role that aborts, or a run that never ends, fails one seed only. */
#include "faults/faults.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 256
#define CHUNK 100u        /* seeds of one process */
#define SEED_TIMEOUT_S 60 /* of processor time: a run that takes more does not end */
#define BAR_MS 200

/* The memory that a child process shares with its parent. */
struct shared {
    uint64_t seed; /* the seed under way */
    uint64_t done;
    struct faults_result sum;
    struct faults_failure failure; /* invariant empty: no failure */
};

struct process {
    pid_t pid;
    int fd;                          /* its standard error */
    uint64_t end;                    /* the end of its seeds, exclusive */
    char said[CLUSTER_FAILURE_TEXT]; /* the last part of its standard error */
    size_t said_n;
};

struct seeds {
    const struct faults_options *o;
    const struct faults_seeds *s;
    struct faults_total *t;
    struct shared *shared; /* one per process */
    struct process running[PROCESSES_MAX];
    uint32_t processes;
    uint64_t next;
    double began_s;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- In the child process ---- */

static void on_failed(void *arg, enum invariant invariant, const char *text)
{
    struct shared *sh = arg;

    snprintf(sh->failure.text, sizeof sh->failure.text, "%s", text);
    snprintf(sh->failure.invariant, sizeof sh->failure.invariant, "%s", invariant_names[invariant]);
    _exit(1);
}

static void run_chunk(const struct faults_options *options, struct shared *sh, uint64_t first, uint64_t end)
{
    struct faults_options o = *options;

    o.failed = on_failed;
    o.failed_arg = sh;
    for (uint64_t seed = first; seed < end; seed++) {
        alarm(SEED_TIMEOUT_S);
        o.seed = sh->seed = seed;
        faults_run(&o, &sh->sum);
        sh->done++;
    }
    _exit(0); /* exit() would write the parent's buffered output, too */
}

/* ---- In the parent ---- */

static int start_process(struct seeds *run, uint32_t i, uint64_t first, uint64_t end)
{
    struct process *p = &run->running[i];
    struct shared *sh = &run->shared[i];
    int ends[2];

    *sh = (struct shared){.seed = first};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    p->pid = fork();
    if (p->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!run->o->log)
            dup2(ends[1], STDERR_FILENO);
        run_chunk(run->o, sh, first, end);
    }
    close(ends[1]);
    if (p->pid < 0) {
        close(ends[0]);
        return -1;
    }
    p->fd = ends[0];
    p->end = end;
    p->said_n = 0;
    return 0;
}

/* Takes seeds for a process that has none. False: no seeds are left. */
static bool take_chunk(struct seeds *run, uint64_t *first, uint64_t *end)
{
    const struct faults_seeds *s = run->s;
    uint64_t n = CHUNK;

    if (s->real_us && (now_s() - run->began_s) * US_PER_S >= (double)s->real_us)
        return false;
    if (s->n) {
        uint64_t left = s->first + s->n - run->next;
        uint64_t fair = (left + run->processes - 1) / run->processes;

        if (left == 0)
            return false;
        n = fair < n ? fair : n;
    }
    *first = run->next;
    *end = run->next += n;
    return true;
}

/* Reads the process's standard error. False: the process has ended. */
static bool hear(struct process *p)
{
    char buf[4096];
    ssize_t n = read(p->fd, buf, sizeof buf);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    for (ssize_t i = 0; i < n; i++) {
        if (p->said_n == sizeof p->said - 1)
            memmove(p->said, p->said + 1, --p->said_n);
        p->said[p->said_n++] = buf[i];
    }
    return n > 0;
}

static const char *last_line(struct process *p)
{
    char *line;

    while (p->said_n > 0 && p->said[p->said_n - 1] == '\n')
        p->said_n--;
    p->said[p->said_n] = '\0';
    line = strrchr(p->said, '\n');
    return line ? line + 1 : p->said;
}

/* The process died during a seed: records which seed, and why. */
static void fail(struct seeds *run, uint32_t i, int status)
{
    struct faults_failure f = run->shared[i].failure;
    const char *said = last_line(&run->running[i]);

    f.seed = run->shared[i].seed;
    if (!f.invariant[0] && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        snprintf(f.invariant, sizeof f.invariant, "%s", invariant_names[INVARIANT_ENDS]);
        snprintf(f.text, sizeof f.text, "after %d s this seed was still running", SEED_TIMEOUT_S);
    } else if (!f.invariant[0]) {
        snprintf(f.invariant, sizeof f.invariant, "%s", invariant_names[INVARIANT_OWN_CHECKS]);
        snprintf(f.text, sizeof f.text, "%s (%s %d)", said, WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    run->t->failed++;
    run->t->seeds++;
    run->s->report(run->s->report_arg, &f);
}

static void add(struct faults_result *sum, const struct faults_result *r)
{
    sum->steps += r->steps;
    sum->jobs += r->jobs;
    sum->tasks += r->tasks;
    sum->virtual_us += r->virtual_us;
    sum->wait_us_max = r->wait_us_max > sum->wait_us_max ? r->wait_us_max : sum->wait_us_max;
    sum->hash = r->hash;
    for (uint32_t k = 0; k < FAULT_COUNT; k++)
        sum->faults[k] += r->faults[k];
}

/* Process i has ended. A new process gets the rest of its chunk. */
static int end_process(struct seeds *run, uint32_t i)
{
    struct process *p = &run->running[i];
    int status = 0;

    close(p->fd);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    p->pid = 0;
    run->t->seeds += run->shared[i].done;
    add(&run->t->sum, &run->shared[i].sum);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    fail(run, i, status);
    return run->shared[i].seed + 1 < p->end ? start_process(run, i, run->shared[i].seed + 1, p->end) : 0;
}

static void draw_bar(const struct seeds *run)
{
    uint64_t seeds = run->t->seeds;
    double s = now_s() - run->began_s;

    for (uint32_t i = 0; i < run->processes; i++)
        if (run->running[i].pid)
            seeds += run->shared[i].done;
    fprintf(run->s->bar, "\r%llu seeds, %llu failed, %.0f s, %.0f a minute ", (unsigned long long)seeds,
            (unsigned long long)run->t->failed, s, s > 0 ? (double)seeds * 60 / s : 0);
    fflush(run->s->bar);
}

static int turn(struct seeds *run)
{
    struct pollfd fds[PROCESSES_MAX];
    uint32_t which[PROCESSES_MAX], n = 0;

    for (uint32_t i = 0; i < run->processes; i++) {
        uint64_t first, stop;

        if (!run->running[i].pid && take_chunk(run, &first, &stop) && start_process(run, i, first, stop) != 0)
            return -1;
        if (!run->running[i].pid)
            continue;
        which[n] = i;
        fds[n++] = (struct pollfd){.fd = run->running[i].fd, .events = POLLIN};
    }
    if (n == 0)
        return 0;
    if (poll(fds, n, run->s->bar ? BAR_MS : -1) < 0 && errno != EINTR)
        return -1;
    for (uint32_t k = 0; k < n; k++)
        if (fds[k].revents && !hear(&run->running[which[k]]) && end_process(run, which[k]) != 0)
            return -1;
    if (run->s->bar)
        draw_bar(run);
    return 1;
}

static void stop_all(struct seeds *run)
{
    for (uint32_t i = 0; i < run->processes; i++) {
        if (!run->running[i].pid)
            continue;
        kill(run->running[i].pid, SIGKILL);
        while (waitpid(run->running[i].pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        close(run->running[i].fd);
    }
}

int faults_run_seeds(const struct faults_options *o, const struct faults_seeds *s, struct faults_total *t,
                     char *why, size_t size)
{
    struct seeds run = {.o = o, .s = s, .t = t, .next = s->first, .began_s = now_s()};
    size_t bytes;
    int more;

    *t = (struct faults_total){0};
    run.processes = s->processes < 1 ? 1 : s->processes > PROCESSES_MAX ? PROCESSES_MAX : s->processes;
    bytes = run.processes * sizeof *run.shared;
    run.shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED) {
        snprintf(why, size, "no memory to share with %u processes: %s", run.processes, strerror(errno));
        return HAWK_ENOMEM;
    }
    fflush(stdout);
    while ((more = turn(&run)) > 0)
        continue;
    if (more < 0) {
        snprintf(why, size, "a process cannot be started or watched: %s", strerror(errno));
        stop_all(&run);
    }
    if (s->bar)
        fprintf(s->bar, "\n");
    t->real_s = now_s() - run.began_s;
    munmap(run.shared, bytes);
    return more < 0 ? HAWK_EIO : 0;
}
