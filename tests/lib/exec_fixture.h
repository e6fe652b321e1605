/* What tests of exec/ share: an agent that serves its spawner, jobs to run, files to look at. Every wait
 * is for an event, with a bound. */
#ifndef HAWK_TESTS_LIB_EXEC_FIXTURE_H
#define HAWK_TESTS_LIB_EXEC_FIXTURE_H

#include "base/mem.h"
#include "base/units.h"
#include "exec/exec.h"
#include "exec/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BOUND_US (60 * US_PER_S) /* no wait lasts longer; far above what a loaded machine needs */
#define RUNS_MAX 2048
#define JOB_SEQ 17

struct result {
    bool started, exited, paused; /* paused: asked to, and answered, with pause_err */
    int32_t pause_err;
    int started_order, exited_order;
    int32_t pid, code;
    uint8_t outcome;
    int64_t run_us;
    struct usage used;
    char why[1200], place[400];
};

struct fixture {
    char dir[200];
    struct exec_config config;
    struct exec *e;
    struct result *v; /* by run number */
    int events, exits;
    bool checked;
    char check_why[1200]; /* "": nothing was the matter */
};

static inline int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* ---- The agent ---- */

static inline void on_event(void *arg, const struct msg *m)
{
    struct fixture *f = arg;
    uint32_t run = m->type == MSG_EXEC_STARTED  ? m->exec_started.run
                   : m->type == MSG_EXEC_PAUSED ? m->exec_paused.run
                                                : m->exec_exited.run;
    struct result *r = &f->v[run];

    if (m->type == MSG_EXEC_CHECKED) {
        const struct blob *why = m->exec_checked.why;

        snprintf(f->check_why, sizeof f->check_why, "%s", why ? why->data : "");
        f->checked = true;
        return;
    }
    assert_true(run < RUNS_MAX);
    assert_false(r->exited); /* nothing after the end, and one end only */
    if (m->type == MSG_EXEC_STARTED) {
        assert_false(r->started);
        r->started = true;
        r->started_order = ++f->events;
        r->pid = m->exec_started.pid;
        return;
    }
    if (m->type == MSG_EXEC_PAUSED) {
        assert_false(r->paused); /* one answer to each */
        r->paused = true;
        r->pause_err = m->exec_paused.err;
        return;
    }
    assert_int_equal(m->type, MSG_EXEC_EXITED);
    r->exited = true;
    r->exited_order = ++f->events;
    r->code = m->exec_exited.code;
    r->outcome = m->exec_exited.outcome;
    r->run_us = m->exec_exited.run_us;
    r->used = m->exec_exited.used;
    if (m->exec_exited.result)
        snprintf(r->why, sizeof r->why, "%s", m->exec_exited.result->data);
    if (m->exec_exited.place)
        snprintf(r->place, sizeof r->place, "%s", m->exec_exited.place->data);
    f->exits++;
}

static inline void start(struct fixture *f) { assert_int_equal(exec_start(&f->e, &f->config), 0); }

/* Serves the spawner's socket until *what holds; fails after the bound. */
static inline void pump_until(struct fixture *f, const bool *what)
{
    int64_t deadline = now_us() + BOUND_US;

    while (!*what) {
        struct pollfd p = {.fd = exec_fd(f->e)};

        assert_int_equal(exec_flush(f->e), 0);
        p.events = (short)(POLLIN | (exec_want_write(f->e) ? POLLOUT : 0));
        assert_true(poll(&p, 1, (int)((deadline - now_us()) / US_PER_MS)) > 0);
        if (p.revents & (POLLIN | POLLHUP))
            assert_int_equal(exec_on_ready(f->e, on_event, f), 0);
    }
}

static inline void pump_exits(struct fixture *f, int exits)
{
    while (f->exits < exits) {
        bool next = false;
        int before = f->exits;

        for (uint32_t run = 0; run < RUNS_MAX && f->exits == before; run++) {
            if (f->v[run].exited || f->v[run].outcome != UINT8_MAX)
                continue;
            pump_until(f, &f->v[run].exited);
            next = true;
        }
        assert_true(next); /* fewer runs than exits waited for */
    }
}

/* ---- Jobs ---- */

static inline struct try_id try_of(uint32_t task)
{
    return (struct try_id){job_id_make((node_id_t){3}, JOB_SEQ), task, 1, 1};
}

static inline struct job_desc *command(const char *const *argv)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    for (; *argv; argv++)
        strings_add(&d->argv, *argv);
    return d;
}
#define COMMAND(...) command((const char *const[]){__VA_ARGS__, NULL})
#define SHELL(script) COMMAND("sh", "-c", script)

static inline void set_blob(struct blob **to, const char *text)
{
    blob_drop(*to);
    *to = blob_str(text);
}

static inline void ask_as(struct fixture *f, uint32_t run, struct job_desc *d, const struct try_id *id,
                          const void *arg, size_t len)
{
    struct blob *b = arg ? blob_new(arg, len) : NULL;

    f->v[run].outcome = UINT8_MAX; /* asked for */
    assert_int_equal(
        exec_run(f->e, 0, &(struct msg_exec_start){.run = run, .id = *id, .desc = d, .arg = b}, NULL), 0);
    blob_drop(b);
}

static inline void ask(struct fixture *f, uint32_t run, struct job_desc *d, const char *arg)
{
    struct try_id id = try_of(run);

    ask_as(f, run, d, &id, arg, arg ? strlen(arg) : 0);
}

/* Runs it to its end; drops d. */
static inline struct result *run_one(struct fixture *f, uint32_t run, struct job_desc *d, const char *arg)
{
    ask(f, run, d, arg);
    job_desc_drop(d);
    pump_until(f, &f->v[run].exited);
    return &f->v[run];
}

static inline void assert_exited(const struct result *r, int code)
{
    if (r->outcome != OUTCOME_EXITED)
        print_message("outcome %s: %s\n", outcome_text(r->outcome), r->why);
    assert_int_equal(r->outcome, OUTCOME_EXITED);
    assert_int_equal(r->code, code);
    assert_true(r->started);
    assert_true(r->run_us >= 0);
}

/* ---- Files ---- */

static inline char *read_path(const char *path)
{
    int fd = open(path, O_RDONLY);
    size_t n = 0, cap = 4096;
    char *text = xmalloc(cap);
    ssize_t got;

    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    while ((got = read(fd, text + n, cap - n - 1)) > 0) {
        n += (size_t)got;
        if (cap - n < 2)
            text = xrealloc(text, cap *= 2);
    }
    text[n] = '\0';
    close(fd);
    return text;
}

static inline void assert_file(const char *expected, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline void assert_file(const char *expected, const char *fmt, ...)
{
    char path[EXEC_PATH_MAX], *text;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    text = read_path(path);
    assert_string_equal(text, expected);
    free(text);
}

static inline void assert_output(struct fixture *f, uint32_t task, const char *expected)
{
    assert_file(expected, "%s/out/3.%d/%u.out", f->dir, JOB_SEQ, task);
}

static inline void write_file(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
    char path[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

/* ---- Set-up ---- */

static inline int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct fixture *f = xcalloc(1, sizeof *f);
    static char out[256];

    f->v = xcalloc(RUNS_MAX, sizeof *f->v);
    snprintf(f->dir, sizeof f->dir, "%s/exec.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    snprintf(out, sizeof out, "%s/out", f->dir);
    exec_config_init(&f->config, "w1", out);
    f->config.kill_grace_us = 30 * US_PER_S;
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    char cmd[300];

    exec_stop(f->e);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", f->dir);
    assert_int_equal(system(cmd), 0); /* NOLINT(cert-env33-c) */
    free(f->v);
    free(f);
    return 0;
}

/* A FIFO in the fixture's directory: what its writers hold open shows when they are gone. */
static inline int make_fifo(struct fixture *f, char *path, size_t size)
{
    int fd;

    snprintf(path, size, "%s/fifo", f->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A shell that says "up", with a child and a grandchild that hold the FIFO open as well. */
#define SH_FAMILY "sh -c 'sleep 1000 & sleep 1000' & echo up; wait"

/* Reads a line that some task writes to the FIFO. */
static inline void wait_for_line(int fd, const char *expected)
{
    size_t n = 0, len = strlen(expected);
    int64_t deadline = now_us() + BOUND_US;
    char text[256];

    assert_true(len < sizeof text);
    while (n < len) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        assert_true(now_us() < deadline);
        assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
        got = read(fd, text + n, len - n);
        if (got > 0)
            n += (size_t)got;
        else /* no writer yet: poll says HUP, and would at once again */
            poll(NULL, 0, 5);
    }
    assert_memory_equal(text, expected, len);
}

/* Begins with task 0, which says "up". Drops d. Returns the FIFO that is its stdout: the caller closes it. */
static inline int run_until_up(struct fixture *f, struct job_desc *d)
{
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    return fifo;
}

/* Until every process that had the FIFO open for writing is gone. Fails after the bound. */
static inline void wait_for_hang_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[256];

    for (;;) {
        assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
        if (read(fd, text, sizeof text) == 0)
            return;
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
