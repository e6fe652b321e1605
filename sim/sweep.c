/* The grid of a what-if: its axes, and its runs in child processes. */
#include "sim/sweep.h"

#include "base/mem.h"
#include "base/units.h"
#include "workload/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE_MAX 256u
#define BAR_MS 200
#define BAR_WIDTH 40

/* ---- Axes ---- */

enum axis { AXIS_CUTOFF, AXIS_PARTITION, AXIS_WORKERS, AXIS_NONE };
static const char *const axis_names[] = {"cutoff", "partition", "workers"};

static uint32_t *axis_count(struct sim_sweep *s, enum axis axis)
{
    return axis == AXIS_CUTOFF ? &s->cutoffs_n : axis == AXIS_PARTITION ? &s->shares_n : &s->workers_n;
}

static int add_value(struct sim_sweep *s, enum axis axis, const char *word, char *why, size_t size)
{
    uint32_t *n = axis_count(s, axis);
    uint64_t workers = 0;
    const char *what;
    bool ok;

    if (*n == SWEEP_VALUES_MAX) {
        snprintf(why, size, "%s: expected at most %u values", axis_names[axis], SWEEP_VALUES_MAX);
        return HAWK_EINVALID;
    }
    if (axis == AXIS_CUTOFF) {
        what = "a time above 0 (90s)";
        ok = duration_parse(word, &s->cutoffs_us[*n]) == 0 && s->cutoffs_us[*n] > 0;
    } else if (axis == AXIS_PARTITION) {
        what = "a share below 100% (2%)";
        ok = share_parse(word, &s->shares_ppm[*n]) == 0 && s->shares_ppm[*n] < 1000000;
    } else {
        what = "a number of workers";
        ok = u64_parse(word, 1, SIM_WORKERS_MAX, &workers) == 0;
        s->workers[*n] = (uint32_t)workers;
    }
    if (!ok) {
        snprintf(why, size, "%s: expected %s, found \"%s\"", axis_names[axis], what, word);
        return HAWK_EINVALID;
    }
    ++*n;
    return 0;
}

static int start_axis(struct sim_sweep *s, const char *name, size_t len, enum axis *axis, char *why,
                      size_t size)
{
    for (*axis = 0; *axis < AXIS_NONE; ++*axis)
        if (strlen(axis_names[*axis]) == len && strncmp(name, axis_names[*axis], len) == 0)
            break;
    if (*axis == AXIS_NONE)
        snprintf(why, size, "expected cutoff=, partition= or workers=, found \"%.*s\"", (int)len, name);
    else if (*axis_count(s, *axis) > 0)
        snprintf(why, size, "%s: expected each axis once", axis_names[*axis]);
    else
        return 0;
    return HAWK_EINVALID;
}

int sim_sweep_parse(struct sim_sweep *s, const char *text, char *why, size_t size)
{
    char *copy = xstrdup(text), *rest = copy, *word;
    enum axis axis = AXIS_NONE;
    int err = 0;

    *s = (struct sim_sweep){0};
    while (!err && (word = strsep(&rest, ","))) {
        char *equals = strchr(word, '=');

        if (equals) {
            err = start_axis(s, word, (size_t)(equals - word), &axis, why, size);
            word = equals + 1;
        } else if (axis == AXIS_NONE) {
            snprintf(why, size, "expected cutoff=, partition= or workers=, found \"%s\"", word);
            err = HAWK_EINVALID;
        }
        if (!err)
            err = add_value(s, axis, word, why, size);
    }
    free(copy);
    return err;
}

/* ---- The grid ---- */

static bool same(const struct sim_sweep_point *p, const struct sim_sweep_point *q)
{
    return p->cutoff_us == q->cutoff_us && p->share_ppm == q->share_ppm && p->share_auto == q->share_auto &&
           p->workers == q->workers;
}

static void add_point(struct sim_sweep_result *r, struct sim_sweep_point p)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (same(&r->points[i], &p))
            return; /* the base, or a value that the axis has twice */
    p.err = HAWK_ETIMEOUT;
    r->points[r->n++] = p;
}

/* Makes the points, in memory that the child processes share: each run fills in its own point. */
static int make_points(const struct sim_config *base, const struct sim_sweep *s, struct sim_sweep_result *r,
                       char *why, size_t size)
{
    uint32_t workers_n = s->workers_n ? s->workers_n : 1, shares_n = s->shares_n ? s->shares_n : 1;
    uint32_t cutoffs_n = s->cutoffs_n ? s->cutoffs_n : 1;
    uint64_t most = (uint64_t)workers_n * ((uint64_t)shares_n * cutoffs_n + 1);

    if (most > SWEEP_POINTS_MAX) {
        snprintf(why, size, "a grid of %llu points: at most %u", (unsigned long long)most, SWEEP_POINTS_MAX);
        return HAWK_EINVALID;
    }
    r->points = mmap(NULL, SWEEP_POINTS_MAX * sizeof *r->points, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->points == MAP_FAILED) {
        r->points = NULL;
        snprintf(why, size, "shared memory: %s", strerror(errno));
        return HAWK_ENOMEM;
    }
    for (uint32_t w = 0; w < workers_n; w++) {
        struct sim_sweep_point point = {.cutoff_us = base->policy.cutoff_us,
                                        .share_ppm = base->policy.short_share_ppm,
                                        .share_auto = base->share_auto,
                                        .workers = s->workers_n ? s->workers[w] : base->workers,
                                        .base = true};

        add_point(r, point);
        point.base = false;
        point.share_auto = base->share_auto && !s->shares_n; /* each value of the axis is a fixed share */
        for (uint32_t p = 0; p < shares_n; p++)
            for (uint32_t c = 0; c < cutoffs_n; c++) {
                if (s->cutoffs_n)
                    point.cutoff_us = s->cutoffs_us[c];
                if (s->shares_n)
                    point.share_ppm = s->shares_ppm[p];
                add_point(r, point);
            }
    }
    return 0;
}

static int open_input(const struct sim_sweep_input *input, struct sim_workload *w, struct sim_source *source)
{
    if (!input->table)
        return workload_open(w, input->trace, source);
    workload_draw(w, input->table, input->seed, source);
    return 0;
}

/* Reads the workload once, so that an error in it is reported before any run. */
static int count_jobs(const struct sim_sweep_input *input, uint64_t *jobs, char *why, size_t size)
{
    struct sim_workload w;
    struct sim_source source;
    struct trace_job job;
    struct stat st;
    int got;

    /* What a pipe holds would be gone after the first reading, and every run would be one of no jobs. */
    if (input->trace && stat(input->trace, &st) == 0 && !S_ISREG(st.st_mode)) {
        snprintf(why, size,
                 "%s: no regular file: each run of a sweep reads the trace anew, so write it to one",
                 input->trace);
        return HAWK_EINVALID;
    }
    *jobs = input->table ? input->table->jobs : 0;
    got = open_input(input, &w, &source);
    if (!input->table && got == 0)
        while ((got = source.next(source.arg, &job)) > 0)
            ++*jobs;
    if (got < 0)
        snprintf(why, size, "%s", workload_error(&w));
    else if (*jobs == 0) {
        snprintf(why, size, "%s: holds no job", input->trace);
        got = HAWK_EINVALID;
    }
    workload_close(&w);
    return got;
}

/* ---- One run, in its own process ---- */

static void on_progress(void *arg, int64_t now_us, uint64_t jobs_ended)
{
    ((struct sim_sweep_point *)arg)->jobs_ended = jobs_ended;
}

static void run_point(const struct sim_config *base, const struct sim_sweep_input *input,
                      struct sim_sweep_point *p)
{
    struct sim_config c = *base;
    struct sim_result r = {0};
    struct sim_workload w;
    struct sim_source source;

    c.workers = p->workers;
    c.policy.cutoff_us = p->cutoff_us;
    c.policy.short_share_ppm = p->share_ppm;
    c.share_auto = p->share_auto;
    c.class_cutoff_us = base->policy.cutoff_us;
    c.progress = on_progress;
    c.progress_arg = p;
    p->err = open_input(input, &w, &source);
    if (p->err)
        snprintf(p->why, sizeof p->why, "%s", workload_error(&w));
    else
        p->err = sim_run(&c, &source, &r, p->why, sizeof p->why);
    for (int k = 0; k < CLASS_COUNT; k++)
        p->response_us[k] = r.classes[k].response_us;
    p->utilization = r.utilization_median;
    sim_result_free(&r);
    workload_close(&w);
}

/* Forks a run. Its end of the pipe closes when the process ends. */
static int start_run(const struct sim_config *base, const struct sim_sweep_input *input,
                     struct sim_sweep_point *p, pid_t *pid)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    *pid = fork();
    if (*pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        run_point(base, input, p);
        _exit(0); /* exit() would write the parent's buffered output, too */
    }
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

static void reap(pid_t pid, struct sim_sweep_point *p)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    p->err = HAWK_EIO;
    snprintf(p->why, sizeof p->why, "the run ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- All runs ---- */

struct running {
    struct pollfd fds[AT_ONCE_MAX];
    pid_t pids[AT_ONCE_MAX];
    uint32_t points[AT_ONCE_MAX];
    uint32_t n, next, ended;
};

static void draw_bar(FILE *bar, const struct sim_sweep_result *r, const struct running *run)
{
    double done = run->ended;
    int width;

    for (uint32_t i = 0; i < run->n; i++)
        done += r->jobs ? (double)r->points[run->points[i]].jobs_ended / (double)r->jobs : 0;
    width = (int)(done / r->n * BAR_WIDTH);
    fprintf(bar, "\r[%.*s%*s] %3.0f %%  %u of %u runs", width, "########################################",
            BAR_WIDTH - width, "", 100 * done / r->n, run->ended, r->n);
    fflush(bar);
}

static int start_more(const struct sim_config *base, const struct sim_sweep_input *input, uint32_t at_once,
                      struct sim_sweep_result *r, struct running *run)
{
    while (run->next < r->n && run->n < at_once) {
        int fd = start_run(base, input, &r->points[run->next], &run->pids[run->n]);

        if (fd < 0)
            return -1;
        run->fds[run->n] = (struct pollfd){.fd = fd, .events = POLLIN};
        run->points[run->n++] = run->next++;
    }
    return 0;
}

static void take_ended(struct sim_sweep_result *r, struct running *run)
{
    for (uint32_t i = run->n; i-- > 0;) {
        if (!run->fds[i].revents)
            continue;
        close(run->fds[i].fd);
        reap(run->pids[i], &r->points[run->points[i]]);
        run->ended++;
        run->n--;
        run->fds[i] = run->fds[run->n];
        run->pids[i] = run->pids[run->n];
        run->points[i] = run->points[run->n];
    }
}

static void stop_all(struct running *run)
{
    for (uint32_t i = 0; i < run->n; i++) {
        kill(run->pids[i], SIGKILL);
        while (waitpid(run->pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
        close(run->fds[i].fd);
    }
}

int sim_sweep_run(const struct sim_config *base, const struct sim_sweep *s,
                  const struct sim_sweep_input *input, uint32_t at_once, FILE *bar,
                  struct sim_sweep_result *r, char *why, size_t size)
{
    struct running run = {0};
    int err;

    *r = (struct sim_sweep_result){0};
    err = make_points(base, s, r, why, size);
    if (!err)
        err = count_jobs(input, &r->jobs, why, size);
    if (err)
        return err;
    at_once = at_once < 1 ? 1 : at_once > AT_ONCE_MAX ? AT_ONCE_MAX : at_once;
    while (run.ended < r->n) {
        if (start_more(base, input, at_once, r, &run) < 0 && run.n == 0) {
            snprintf(why, size, "a run cannot be started: %s", strerror(errno));
            return HAWK_EIO;
        }
        if (poll(run.fds, run.n, bar ? BAR_MS : -1) < 0 && errno != EINTR) {
            snprintf(why, size, "poll: %s", strerror(errno));
            stop_all(&run);
            return HAWK_EIO;
        }
        take_ended(r, &run);
        if (bar)
            draw_bar(bar, r, &run);
    }
    if (bar)
        fprintf(bar, "\n");
    return 0;
}

void sim_sweep_free(struct sim_sweep_result *r)
{
    if (r->points)
        munmap(r->points, SWEEP_POINTS_MAX * sizeof *r->points);
    *r = (struct sim_sweep_result){0};
}
