/* exec/: real processes. Every wait is for an event, with a bound. */
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
    bool started, exited;
    int started_order, exited_order;
    int32_t pid, code;
    uint8_t outcome;
    int64_t run_us;
    char why[1200];
};

struct fixture {
    char dir[200];
    struct exec_config config;
    struct exec *e;
    struct result *v; /* by run number */
    int events, exits;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* ---- The agent ---- */

static void on_event(void *arg, const struct msg *m)
{
    struct fixture *f = arg;
    uint32_t run = m->type == MSG_EXEC_STARTED ? m->exec_started.run : m->exec_exited.run;
    struct result *r = &f->v[run];

    assert_true(run < RUNS_MAX);
    assert_false(r->exited); /* nothing after the end, and one end only */
    if (m->type == MSG_EXEC_STARTED) {
        assert_false(r->started);
        r->started = true;
        r->started_order = ++f->events;
        r->pid = m->exec_started.pid;
        return;
    }
    assert_int_equal(m->type, MSG_EXEC_EXITED);
    r->exited = true;
    r->exited_order = ++f->events;
    r->code = m->exec_exited.code;
    r->outcome = m->exec_exited.outcome;
    r->run_us = m->exec_exited.run_us;
    if (m->exec_exited.result)
        snprintf(r->why, sizeof r->why, "%s", m->exec_exited.result->data);
    f->exits++;
}

static void start(struct fixture *f) { assert_int_equal(exec_start(&f->e, &f->config), 0); }

/* Serves the spawner's socket until *what holds; fails after the bound. */
static void pump_until(struct fixture *f, const bool *what)
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

static void pump_exits(struct fixture *f, int exits)
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

static struct try_id try_of(uint32_t task)
{
    return (struct try_id){job_id_make((node_id_t){3}, JOB_SEQ), task, 1, 1};
}

static struct job_desc *command(const char *const *argv)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    for (; *argv; argv++)
        strings_add(&d->argv, *argv);
    return d;
}
#define COMMAND(...) command((const char *const[]){__VA_ARGS__, NULL})
#define SHELL(script) COMMAND("sh", "-c", script)

static void set_blob(struct blob **to, const char *text)
{
    blob_drop(*to);
    *to = blob_str(text);
}

static void ask_as(struct fixture *f, uint32_t run, struct job_desc *d, const struct try_id *id,
                   const void *arg, size_t len)
{
    struct blob *b = arg ? blob_new(arg, len) : NULL;

    f->v[run].outcome = UINT8_MAX; /* asked for */
    assert_int_equal(exec_run(f->e, 0, run, id, d, b), 0);
    blob_drop(b);
}

static void ask(struct fixture *f, uint32_t run, struct job_desc *d, const char *arg)
{
    struct try_id id = try_of(run);

    ask_as(f, run, d, &id, arg, arg ? strlen(arg) : 0);
}

/* Runs it to its end; drops d. */
static struct result *run_one(struct fixture *f, uint32_t run, struct job_desc *d, const char *arg)
{
    ask(f, run, d, arg);
    job_desc_drop(d);
    pump_until(f, &f->v[run].exited);
    return &f->v[run];
}

static void assert_exited(const struct result *r, int code)
{
    if (r->outcome != OUTCOME_EXITED)
        print_message("outcome %s: %s\n", outcome_text(r->outcome), r->why);
    assert_int_equal(r->outcome, OUTCOME_EXITED);
    assert_int_equal(r->code, code);
    assert_true(r->started);
    assert_true(r->run_us >= 0);
}

/* ---- Files ---- */

static char *read_path(const char *path)
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

static void assert_file(const char *expected, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void assert_file(const char *expected, const char *fmt, ...)
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

static void assert_output(struct fixture *f, uint32_t task, const char *expected)
{
    assert_file(expected, "%s/out/3.%d/%u.out", f->dir, JOB_SEQ, task);
}

/* ---- Set-up ---- */

static int set_up(void **state)
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

static int tear_down(void **state)
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
static int make_fifo(struct fixture *f, char *path, size_t size)
{
    int fd;

    snprintf(path, size, "%s/fifo", f->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Reads a line that some task writes to the FIFO. */
static void wait_for_line(int fd, const char *expected)
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

/* Until every process that had the FIFO open for writing is gone. Fails after the bound. */
static void wait_for_hang_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[256];

    for (;;) {
        assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
        if (read(fd, text, sizeof text) == 0)
            return;
    }
}

/* ---- Exits, output, environment ---- */

static void test_exit_codes_and_signals(void **state)
{
    struct fixture *f = *state;
    struct result *r;

    start(f);
    assert_exited(run_one(f, 0, COMMAND("true"), NULL), 0);
    assert_exited(run_one(f, 1, COMMAND("/bin/false"), NULL), 1);
    assert_exited(run_one(f, 2, SHELL("exit 42"), NULL), 42);
    r = run_one(f, 3, SHELL("kill -9 $$"), NULL);
    assert_int_equal(r->outcome, OUTCOME_SIGNALED);
    assert_int_equal(r->code, SIGKILL);
    assert_true(r->started_order < r->exited_order);
    assert_true(r->pid > 0);
    assert_int_equal(exec_running(f->e), 0);
    assert_int_equal(exec_next_timeout(f->e), TIME_NEVER);
}

static void test_output_goes_to_the_default_files(void **state)
{
    struct fixture *f = *state;
    struct try_id again = try_of(0);
    struct job_desc *d = SHELL("echo to out; echo to err >&2");

    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_output(f, 0, "to out\n");
    assert_file("to err\n", "%s/out/3.%d/0.err", f->dir, JOB_SEQ);

    again.attempt = 2; /* a second attempt leaves the first one's output alone */
    ask_as(f, 1, d, &again, NULL, 0);
    pump_until(f, &f->v[1].exited);
    assert_file("to out\n", "%s/out/3.%d/0.2.out", f->dir, JOB_SEQ);
    job_desc_drop(d);
}

static void test_placeholders(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo hello; echo oops >&2");
    struct try_id id = {job_id_make((node_id_t){3}, JOB_SEQ), 4, 1, 2};
    char path[EXEC_PATH_MAX];

    d->tasks = 5;
    d->first_index = 100;
    set_blob(&d->cwd, f->dir);
    set_blob(&d->name, "../na/me");
    set_blob(&d->stdout_pattern, "new/%J/%j-%t-%a-%w-%n-100%%");
    set_blob(&d->stderr_pattern, "none");
    start(f);
    ask_as(f, 0, d, &id, NULL, 0);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    /* The job's name is one component, whatever slashes it has. */
    assert_file("hello\n", "%s/new/3.17/17-104-2-w1-.._na_me-100%%", f->dir);

    assert_int_equal(exec_output_path(&f->config, &id, d, 2, path, sizeof path), 0);
    assert_string_equal(path, "/dev/null");
    assert_int_equal(exec_output_path(&f->config, &id, d, 1, path, 20), HAWK_ETOO_LARGE);
    set_blob(&d->stdout_pattern, "/x/%q");
    assert_int_equal(exec_output_path(&f->config, &id, d, 1, path, sizeof path), HAWK_EINVALID);
    set_blob(&d->stdout_pattern, "/x/100%");
    assert_int_equal(exec_output_path(&f->config, &id, d, 1, path, sizeof path), HAWK_EINVALID);
    set_blob(&d->stdout_pattern, "/x/%n/y");
    set_blob(&d->name, "..");
    assert_int_equal(exec_output_path(&f->config, &id, d, 1, path, sizeof path), 0);
    assert_string_equal(path, "/x/__/y");
    job_desc_drop(d);
}

static void test_one_file_for_stdout_and_stderr_and_for_many_tasks(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo a; echo b >&2; echo c");

    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "both");
    set_blob(&d->stderr_pattern, "both");
    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_file("a\nb\nc\n", "%s/both", f->dir);
    assert_exited(run_one(f, 1, d, NULL), 0); /* the same task again: afresh */
    assert_file("a\nb\nc\n", "%s/both", f->dir);

    d = SHELL("echo x");
    d->tasks = 2;
    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "all");
    assert_exited(run_one(f, 2, job_desc_ref(d), NULL), 0);
    assert_exited(run_one(f, 3, d, NULL), 0);
    assert_file("x\nx\n", "%s/all", f->dir); /* no task starts it afresh for the others */
}

static void test_arguments_replace_braces(void **state)
{
    struct fixture *f = *state;

    start(f);
    assert_exited(run_one(f, 0, COMMAND("printf", "[%s]", "{}", "a{}b{}", "{"), "X Y"), 0);
    assert_output(f, 0, "[X Y][aX YbX Y][{]");
    assert_exited(run_one(f, 1, COMMAND("printf", "[%s]", "one"), "two\nlines\x01\xff*"), 0);
    assert_output(f, 1, "[one][two\nlines\x01\xff*]");
    assert_exited(run_one(f, 2, COMMAND("printf", "[%s]", "{}"), ""), 0);
    assert_output(f, 2, "[]");
    assert_exited(run_one(f, 3, COMMAND("printf", "[%s]", "{}"), NULL),
                  0); /* no argument: nothing to replace */
    assert_output(f, 3, "[{}]");
    assert_exited(run_one(f, 4, COMMAND("{}", "-c", "echo program"), "sh"), 0);
    assert_output(f, 4, "program\n");
}

static void test_argument_that_no_command_can_be_given(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("echo");
    struct try_id id = try_of(0);
    size_t len = 4u << 20;
    char *big = xmalloc(len);

    start(f);
    ask_as(f, 0, d, &id, "a\0b", 3);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(f->v[0].code, 126);
    assert_non_null(strstr(f->v[0].why, "NUL"));

    memset(big, 'x', len);
    ask_as(f, 1, d, &id, big, len);
    pump_until(f, &f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(f->v[1].code, 126);
    assert_non_null(strstr(f->v[1].why, "Argument list too long"));
    free(big);
    job_desc_drop(d);
}

static void test_many_arguments(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo $# ${10000}");
    char text[32];

    strings_add(&d->argv, "sh");
    for (int i = 1; i <= 10000; i++) {
        snprintf(text, sizeof text, "arg%d-{}", i);
        strings_add(&d->argv, text);
    }
    start(f);
    assert_exited(run_one(f, 0, d, "7"), 0);
    assert_output(f, 0, "10000 arg10000-7\n");
}

static void test_environment_and_directory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d =
        SHELL("env | grep -v -e ^_= -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^HAWK_RUN= | sort; pwd");
    struct try_id id = {job_id_make((node_id_t){3}, JOB_SEQ), 2, 1, 3};
    char expected[1000], real[EXEC_PATH_MAX];

    d->tasks = 9;
    d->first_index = 50;
    set_blob(&d->name, "my job");
    strings_add(&d->env, "PATH=/usr/bin:/bin");
    strings_add(&d->env, "COLOUR=green");
    strings_add(&d->env, "HAWK_JOB_ID=forged");
    set_blob(&d->cwd, f->dir);
    set_blob(&d->stdout_pattern, "o%t");
    start(f);
    ask_as(f, 0, d, &id, NULL, 0);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    assert_non_null(realpath(f->dir, real));
    snprintf(expected, sizeof expected,
             "COLOUR=green\nHAWK_ATTEMPT=3\nHAWK_JOB_ID=3.17\nHAWK_JOB_NAME=my job\nHAWK_TASK_COUNT=9\n"
             "HAWK_TASK_INDEX=52\nHAWK_WORKER=w1\nPATH=/usr/bin:/bin\n%.500s\n",
             real);
    assert_file(expected, "%s/o52", f->dir);
    job_desc_drop(d);
}

static void test_inherited_environment_hides_the_token(void **state)
{
    struct fixture *f = *state;

    setenv("HAWK_TOKEN", "secret", 1);
    setenv("HAWK_OTHER", "seen", 1);
    start(f);
    unsetenv("HAWK_TOKEN");
    assert_exited(run_one(f, 0, SHELL("echo ${HAWK_TOKEN-none} $HAWK_OTHER"), NULL), 0);
    assert_output(f, 0, "none seen\n");
}

static void test_standard_input(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("cksum; (echo more >&0) 2>/dev/null || echo read-only");
    size_t len = 900000;

    start(f);
    d->input = blob_new(NULL, len);
    for (size_t i = 0; i < len; i++)
        d->input->data[i] = (char)(i * 7 + i / 1000);
    assert_exited(run_one(f, 0, job_desc_ref(d), NULL), 0);
    assert_exited(run_one(f, 1, job_desc_ref(d), NULL), 0); /* reads from the beginning again */
    {
        char path[300], *first;

        snprintf(path, sizeof path, "%s/out/3.%d/0.out", f->dir, JOB_SEQ);
        first = read_path(path);
        assert_non_null(strstr(first, " 900000\nread-only\n"));
        assert_output(f, 1, first);
        free(first);
    }
    assert_exited(run_one(f, 2, COMMAND("cat"), NULL), 0); /* none: the end at once */
    assert_output(f, 2, "");
    job_desc_drop(d);
}

static void test_nothing_leaks_into_tasks(void **state)
{
    struct fixture *f = *state;
    char line[300];
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, as one from a careless parent */

    assert_true(leak >= 0);
    signal(SIGUSR1, SIG_IGN);
    start(f);
    signal(SIGUSR1, SIG_DFL);
    close(leak);
    assert_exited(run_one(f, 0,
                          SHELL("ls /proc/$$/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status |"
                                " tr -d '\\n'; ps -o tty= -p $$ 2>/dev/null | tr -d ' \\n'; "
                                "test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo leader"),
                          NULL),
                  0);
    snprintf(line, sizeof line, "%s/out/3.%d/0.out", f->dir, JOB_SEQ);
    {
        char *text = read_path(line);

        assert_int_equal(strncmp(text, "0 1 2 ", 6), 0);
        assert_non_null(strstr(text, "SigBlk:\t0000000000000000"));
        assert_non_null(strstr(text, "SigIgn:\t"));
        /* But for 32 and 33, which are the C library's own. */
        assert_int_equal(strtoull(strstr(text, "SigIgn:\t") + 8, NULL, 16) & ~(3ull << 31), 0);
        assert_non_null(strstr(text, "leader"));
        free(text);
    }
}

/* ---- What does not start ---- */

static void assert_not_started(struct fixture *f, const struct result *r, int code, const char *says,
                               int task)
{
    char path[300], *text;

    assert_int_equal(r->outcome, OUTCOME_NOT_STARTED);
    assert_int_equal(r->code, code);
    assert_false(r->started);
    if (!strstr(r->why, says))
        fail_msg("\"%s\" does not say \"%s\"", r->why, says);
    if (task < 0)
        return;
    snprintf(path, sizeof path, "%s/out/3.%d/%d.err", f->dir, JOB_SEQ, task);
    text = read_path(path);
    assert_int_equal(strncmp(text, "hawk: ", 6), 0);
    assert_non_null(strstr(text, says));
    free(text);
}

static void write_file(const struct fixture *f, const char *name, const char *text, mode_t mode)
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

static void test_programs_that_do_not_exist_or_run(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;
    char path[300];

    write_file(f, "data", "echo hi\n", 0644);
    write_file(f, "lost", "#!/no/such/interpreter\n", 0755);
    start(f);
    assert_not_started(f, run_one(f, 0, COMMAND("no-such-program-here"), NULL), 127,
                       "no-such-program-here: no such program", 0);
    assert_not_started(f, run_one(f, 1, COMMAND("/no/such/program"), NULL), 127,
                       "/no/such/program: no such program", 1);
    snprintf(path, sizeof path, "%s/data", f->dir);
    assert_not_started(f, run_one(f, 2, COMMAND(path), NULL), 126, "Permission denied", 2);
    snprintf(path, sizeof path, "PATH=%s", f->dir);
    d = COMMAND("data");
    strings_add(&d->env, path);
    assert_not_started(f, run_one(f, 3, d, NULL), 126, "not executable", 3);
    snprintf(path, sizeof path, "%s/lost", f->dir);
    assert_not_started(f, run_one(f, 4, COMMAND(path), NULL), 127, "interpreter", 4);
    assert_not_started(f, run_one(f, 5, COMMAND(f->dir), NULL), 126, "cannot be executed", 5);
    assert_exited(run_one(f, 6, COMMAND("true"), NULL), 0); /* and the spawner is as before */
}

static void test_programs_are_looked_up_from_the_jobs_directory(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d;

    write_file(f, "mine", "echo mine $1\n", 0755); /* no #!: the shell's */
    start(f);
    d = COMMAND("./mine");
    set_blob(&d->cwd, f->dir);
    assert_exited(run_one(f, 0, d, "one"), 0);
    assert_output(f, 0, "mine one\n");
    d = COMMAND("mine");
    set_blob(&d->cwd, f->dir);
    strings_add(&d->env, "PATH=/usr/bin:/bin:.");
    assert_exited(run_one(f, 1, d, "two"), 0);
    assert_output(f, 1, "mine two\n");
}

static void test_directory_that_is_missing(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    struct stat st;
    char path[300];

    snprintf(path, sizeof path, "%s/missing", f->dir);
    set_blob(&d->cwd, path);
    set_blob(&d->stdout_pattern, "o");
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), 126, "missing: No such file or directory", -1);
    assert_int_equal(stat(path, &st), -1); /* not made on the way to the output file */
}

static void test_output_files_that_cannot_be_opened(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    char path[400];

    write_file(f, "file", "", 0644);
    snprintf(path, sizeof path, "%s/file/sub/o", f->dir);
    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), 126, "cannot open the stdout file", -1);
    assert_non_null(strstr(f->v[0].why, "/file/sub/o: Not a directory"));

    d = COMMAND("true");
    set_blob(&d->stderr_pattern, "/proc/hawk/x");
    assert_not_started(f, run_one(f, 1, d, NULL), 126, "cannot open the stderr file /proc/hawk/x", -1);
    d = COMMAND("true");
    set_blob(&d->stdout_pattern, "%z");
    assert_not_started(f, run_one(f, 2, d, NULL), 126, "placeholder", -1);

    if (geteuid() == 0) /* nothing is unwritable for root */
        return;
    snprintf(path, sizeof path, "%s/locked", f->dir);
    assert_int_equal(mkdir(path, 0500), 0);
    d = COMMAND("true");
    strncat(path, "/%t", sizeof path - strlen(path) - 1);
    set_blob(&d->stdout_pattern, path);
    assert_not_started(f, run_one(f, 3, d, NULL), 126, "Permission denied", -1);
}

/* Once it is open, the file is the task's: it sees ENOSPC, and the run ends as the task says. */
static void test_a_full_disk_is_an_error_of_the_task(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("echo something || exit 3");

    set_blob(&d->stdout_pattern, "/dev/full");
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 3);
}

static void test_fifo_that_nobody_reads_does_not_stop_the_spawner(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    char path[300];

    close(make_fifo(f, path, sizeof path));
    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_not_started(f, run_one(f, 0, d, NULL), 126, "cannot open the stdout file", -1);
    assert_exited(run_one(f, 1, COMMAND("true"), NULL), 0);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("sleep", "1000"), *app = job_desc_new();
    struct try_id id = try_of(0);
    struct exec_config bad = f->config;
    struct exec *e;

    bad.output_dir = "relative";
    assert_int_equal(exec_start(&e, &bad), HAWK_EINVALID);
    f->config.max_running = 2;
    start(f);
    ask(f, 0, d, NULL);
    assert_int_equal(exec_run(f->e, 0, 0, &id, d, NULL), HAWK_EEXISTS);
    app->kind = PAYLOAD_APP;
    assert_int_equal(exec_run(f->e, 0, 1, &id, app, NULL), HAWK_EUNSUPPORTED);
    app->kind = PAYLOAD_COMMAND;
    assert_int_equal(exec_run(f->e, 0, 1, &id, app, NULL), HAWK_EINVALID);
    ask(f, 1, d, NULL);
    assert_int_equal(exec_run(f->e, 0, 2, &id, d, NULL), HAWK_ELIMIT);
    exec_kill(f->e, 99, true); /* unknown: ignored */
    exec_kill(f->e, 0, true);
    exec_kill(f->e, 1, true);
    pump_exits(f, 2);
    job_desc_drop(app);
    job_desc_drop(d);
}

/* ---- Killing ---- */

/* A shell that says "up", with a child and a grandchild that hold the FIFO open as well. */
#define FAMILY "sh -c 'sleep 1000 & sleep 1000' & echo up; wait"

static void test_kill_ends_the_whole_group(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(FAMILY);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    exec_kill(f->e, 0, false);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, SIGTERM);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_kill_goes_on_to_sigkill_after_the_grace(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("trap '' TERM; echo up; while :; do sleep 1000; done");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    f->config.kill_grace_us = 50 * US_PER_MS;
    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    exec_kill(f->e, 0, false);
    exec_kill(f->e, 0, false); /* again changes nothing */
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].code, SIGKILL);
    assert_true(f->v[0].run_us >= 50 * US_PER_MS);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_what_the_leader_leaves_behind_is_killed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("sleep 1000 & echo up");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

static void test_descendants_that_left_the_group_are_killed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL("setsid sleep 1000 & exit 0");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    assert_exited(run_one(f, 0, d, NULL), 0);
    wait_for_hang_up(fifo);
    close(fifo);
}

/* Of two tasks with strays, only those of the one that has ended are killed. */
static void test_strays_of_a_running_task_are_left_alone(void **state)
{
    struct fixture *f = *state;
    struct job_desc *keeper =
        SHELL("(setsid sh -c 'while test ! -e go; do sleep 0.01; done; echo alive' &); echo up;"
              " while test ! -e go2; do sleep 0.01; done");
    struct job_desc *ender = SHELL("(setsid sleep 1000 &) ; exit 0");
    char path[300];
    int fifo = make_fifo(f, path, sizeof path), other;
    char second[320];

    set_blob(&keeper->stdout_pattern, path);
    set_blob(&keeper->cwd, f->dir);
    snprintf(second, sizeof second, "%s2", path);
    assert_int_equal(mkfifo(second, 0600), 0);
    other = open(second, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    set_blob(&ender->stdout_pattern, second);
    start(f);
    ask(f, 0, keeper, NULL);
    job_desc_drop(keeper);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    assert_exited(run_one(f, 1, ender, NULL), 0);
    wait_for_hang_up(other); /* the sweep has been */
    write_file(f, "go", "", 0644);
    wait_for_line(fifo, "alive\n");
    write_file(f, "go2", "", 0644);
    pump_until(f, &f->v[0].exited);
    assert_exited(&f->v[0], 0);
    close(fifo);
    close(other);
}

static void test_time_limit(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(FAMILY);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    d->time_limit_us = 100 * US_PER_MS;
    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    pump_until(f, &f->v[0].exited);
    assert_int_equal(f->v[0].outcome, OUTCOME_TIME_LIMIT);
    assert_true(f->v[0].run_us >= 100 * US_PER_MS);
    wait_for_hang_up(fifo);
    close(fifo);
    job_desc_drop(d);
    d = COMMAND("true");
    d->time_limit_us = BOUND_US;
    assert_exited(run_one(f, 1, d, NULL), 0);
}

static void test_stop_kills_what_runs(void **state)
{
    struct fixture *f = *state;
    /* A group, and one that left it and cannot be traced back: its environment is empty. */
    struct job_desc *d = SHELL("env -i setsid sleep 1000 & " FAMILY);
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    job_desc_drop(d);
    pump_until(f, &f->v[0].started);
    wait_for_line(fifo, "up\n");
    exec_stop(f->e);
    f->e = NULL;
    wait_for_hang_up(fifo);
    close(fifo);
}

/* ---- Many ---- */

static void test_a_thousand(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = COMMAND("true");
    int64_t began;

    d->tasks = 1000;
    start(f);
    began = now_us();
    for (uint32_t i = 0; i < 1000; i++)
        ask(f, i, d, NULL);
    job_desc_drop(d);
    pump_exits(f, 1000);
    print_message("1000 x true: %" PRId64 " ms\n", (now_us() - began) / US_PER_MS);
    for (uint32_t i = 0; i < 1000; i++)
        assert_exited(&f->v[i], 0);
    assert_true(f->v[0].exited_order < f->v[999].started_order); /* ends are told while others start */
    assert_int_equal(exec_running(f->e), 0);
}

static void test_many_descriptions(void **state)
{
    struct fixture *f = *state;
    struct job_desc *first = COMMAND("echo", "first");
    char text[32];

    start(f);
    assert_exited(run_one(f, 0, job_desc_ref(first), NULL), 0);
    for (uint32_t i = 1; i < 60; i++) {
        struct job_desc *d;

        snprintf(text, sizeof text, "n%u", i);
        d = COMMAND("echo", text);
        assert_exited(run_one(f, i, d, NULL), 0);
        snprintf(text, sizeof text, "n%u\n", i);
        assert_output(f, i, text);
    }
    assert_exited(run_one(f, 60, first, NULL), 0); /* the spawner was told to forget it in between */
    assert_output(f, 60, "first\n");
}

/* ---- Deaths ---- */

static pid_t parent_of(pid_t pid)
{
    char path[64], *text, *p;
    pid_t parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    text = read_path(path);
    p = strrchr(text, ')');
    parent = (pid_t)strtol(p + 3, NULL, 10);
    free(text);
    return parent;
}

static void test_death_of_the_spawner_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = SHELL(FAMILY);
    struct try_id id = try_of(1);
    struct pollfd p;
    char path[300];
    int fifo = make_fifo(f, path, sizeof path);

    set_blob(&d->stdout_pattern, path);
    start(f);
    ask(f, 0, d, NULL);
    ask(f, 1, d, NULL);
    pump_until(f, &f->v[1].started);
    wait_for_line(fifo, "up\n");
    kill(parent_of(f->v[0].pid), SIGKILL);
    p = (struct pollfd){.fd = exec_fd(f->e), .events = POLLIN};
    assert_true(poll(&p, 1, (int)(BOUND_US / US_PER_MS)) > 0);
    assert_int_equal(exec_on_ready(f->e, on_event, f), HAWK_EUNAVAILABLE);
    assert_int_equal(f->exits, 2);
    assert_int_equal(f->v[0].outcome, OUTCOME_LOST);
    assert_int_equal(f->v[1].outcome, OUTCOME_LOST);
    assert_int_equal(exec_running(f->e), 0);
    assert_int_equal(exec_run(f->e, 0, 2, &id, d, NULL), HAWK_EUNAVAILABLE);
    assert_int_equal(exec_flush(f->e), HAWK_EUNAVAILABLE);
    assert_int_equal(exec_on_ready(f->e, on_event, f), HAWK_EUNAVAILABLE);
    wait_for_hang_up(fifo); /* their groups were killed all the same */
    close(fifo);
    job_desc_drop(d);
}

/* In a process of its own: an agent that starts a family and then lives until it is killed. */
static void be_an_agent(struct fixture *f, const char *fifo_path)
{
    struct job_desc *d = SHELL(FAMILY);
    struct try_id id = try_of(0);

    set_blob(&d->stdout_pattern, fifo_path);
    if (exec_start(&f->e, &f->config) < 0 || exec_run(f->e, 0, 0, &id, d, NULL) < 0 || exec_flush(f->e) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void test_tasks_do_not_outlive_a_dead_agent_for_long(void **state)
{
    struct fixture *f = *state;
    char path[300];
    int fifo = make_fifo(f, path, sizeof path), status;
    int64_t killed;
    pid_t agent;

    f->config.orphan_grace_us = 300 * US_PER_MS;
    agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        close(fifo);
        be_an_agent(f, path);
    }
    wait_for_line(fifo, "up\n");
    kill(agent, SIGKILL);
    killed = now_us();
    assert_int_equal(waitpid(agent, &status, 0), agent);
    assert_true(WIFSIGNALED(status));
    wait_for_hang_up(fifo);
    assert_true(now_us() - killed >= 300 * US_PER_MS); /* a restarted agent could have taken them over */
    close(fifo);
}

/* ---- Timers ---- */

static struct job_desc *timer_job(const char *duration)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1;
    d->kind = PAYLOAD_TIMER;
    if (duration)
        strings_add(&d->argv, duration);
    return d;
}

static void ask_timer(struct fixture *f, int64_t now, uint32_t run, struct job_desc *d, const char *arg)
{
    struct blob *b = arg ? blob_str(arg) : NULL;
    struct try_id id = try_of(run);

    assert_int_equal(exec_run(f->e, now, run, &id, d, b), 0);
    blob_drop(b);
}

static void test_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *each = timer_job(NULL), *same = timer_job("250ms"), *limited = timer_job("1h");
    struct try_id id = try_of(0);
    struct blob *bad = blob_str("soon");

    limited->time_limit_us = US_PER_S;
    start(f);
    ask_timer(f, 1000, 0, each, "1s");
    ask_timer(f, 1000, 1, same, NULL);
    ask_timer(f, 1000, 2, limited, NULL);
    ask_timer(f, 1000, 3, each, "0");
    assert_int_equal(exec_run(f->e, 1000, 1, &id, same, NULL), HAWK_EEXISTS);
    assert_int_equal(exec_run(f->e, 1000, 4, &id, each, bad), HAWK_EINVALID);
    assert_int_equal(exec_run(f->e, 1000, 4, &id, each, NULL), HAWK_EINVALID);
    assert_int_equal(f->events, 0); /* never out of exec_run itself */
    assert_int_equal(exec_next_timeout(f->e), 1000);
    exec_on_timeout(f->e, 1000, on_event, f);
    for (int run = 0; run < 4; run++)
        assert_true(f->v[run].started && f->v[run].pid == 0);
    assert_exited(&f->v[3], 0);
    assert_int_equal(f->v[3].run_us, 0);
    assert_int_equal(exec_next_timeout(f->e), 251000);
    exec_on_timeout(f->e, 250999, on_event, f);
    assert_false(f->v[1].exited);
    exec_on_timeout(f->e, 251000, on_event, f);
    assert_exited(&f->v[1], 0);
    assert_int_equal(f->v[1].run_us, 250000);
    exec_on_timeout(f->e, 1002000, on_event, f);
    assert_exited(&f->v[0], 0);
    assert_int_equal(f->v[2].outcome, OUTCOME_TIME_LIMIT);
    assert_int_equal(exec_next_timeout(f->e), TIME_NEVER);
    assert_int_equal(exec_running(f->e), 0);
    job_desc_drop(each);
    job_desc_drop(same);
    job_desc_drop(limited);
    blob_drop(bad);
}

static void test_cancelled_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = timer_job("1h");

    start(f);
    ask_timer(f, 0, 0, d, NULL);
    ask_timer(f, 0, 1, d, NULL);
    exec_kill(f->e, 1, false); /* before it was reported as started */
    exec_on_timeout(f->e, 10, on_event, f);
    assert_true(f->v[1].started && f->v[1].exited);
    assert_int_equal(f->v[1].outcome, OUTCOME_CANCELLED);
    assert_false(f->v[0].exited);
    exec_kill(f->e, 0, false);
    assert_int_equal(f->exits, 1);
    assert_true(exec_next_timeout(f->e) <= 10);
    exec_on_timeout(f->e, 500, on_event, f);
    assert_int_equal(f->v[0].outcome, OUTCOME_CANCELLED);
    assert_int_equal(f->v[0].run_us, 500);
    job_desc_drop(d);
}

static void count_order(void *arg, const struct msg *m)
{
    uint32_t *last = arg;

    if (m->type != MSG_EXEC_EXITED)
        return;
    assert_int_equal(m->exec_exited.run, *last - 1); /* the later asked for, the sooner it ends */
    *last = m->exec_exited.run;
}

static void test_fifty_thousand_timers(void **state)
{
    struct fixture *f = *state;
    struct job_desc *d = timer_job(NULL);
    struct try_id id = try_of(0);
    uint32_t n = 50000, last = n;

    f->config.max_running = n;
    start(f);
    for (uint32_t i = 0; i < n; i++) {
        char text[32];
        struct blob *b;

        snprintf(text, sizeof text, "%uus", 2 * n - i);
        b = blob_str(text);
        assert_int_equal(exec_run(f->e, 0, i, &id, d, b), 0);
        blob_drop(b);
    }
    while (exec_next_timeout(f->e) != TIME_NEVER)
        exec_on_timeout(f->e, exec_next_timeout(f->e), count_order, &last);
    assert_int_equal(last, 0);
    job_desc_drop(d);
}

/* ---- Records ---- */

static void test_records(void **state)
{
    struct bytes b = {0};
    struct record r;
    uint32_t n;
    size_t begun;

    for (uint32_t i = 0; i < 3000; i++) { /* enough for the buffer to move while it is read */
        begun = record_begin(&b, RECORD_KILL);
        put_u32(&b, i);
        put_u64(&b, UINT64_MAX - i);
        put_data(&b, NULL, 0);
        put_data(&b, "", 0);
        put_data(&b, "text", 4);
        record_end(&b, begun);
        if (i % 3 == 0)
            continue;
        assert_int_equal(record_next(&b, &r), 1);
        assert_int_equal(r.type, RECORD_KILL);
    }
    while (record_next(&b, &r) == 1) {
        uint32_t i = get_u32(&r);

        assert_true(get_u64(&r) == UINT64_MAX - i);
        assert_null(get_data(&r, &n));
        assert_non_null(get_data(&r, &n));
        assert_int_equal(n, 0);
        assert_memory_equal(get_data(&r, &n), "text", 4);
        assert_int_equal(n, 4);
        assert_false(r.bad);
        assert_int_equal(get_u32(&r), 0); /* beyond its end */
        assert_true(r.bad);
        assert_null(get_data(&r, &n));
    }
    assert_int_equal(bytes_pending(&b), 0);
    bytes_free(&b);
}

static void test_damaged_records(void **state)
{
    struct bytes b = {0};
    struct record r;
    size_t len, begun = record_begin(&b, RECORD_SPEC);
    uint32_t n, lie = 1000;

    put_u32(&b, lie); /* as the length of data that is not there */
    record_end(&b, begun);
    len = b.len;
    for (b.len = 0; b.len < len; b.len++) /* cut short anywhere: not there yet */
        assert_int_equal(record_next(&b, &r), 0);
    assert_int_equal(record_next(&b, &r), 1);
    assert_null(get_data(&r, &n));
    assert_true(r.bad);
    b.off = 0;
    b.data[6] = (char)(RECORD_VERSION + 1);
    assert_int_equal(record_next(&b, &r), HAWK_EMALFORMED);
    b.data[6] = RECORD_VERSION;
    b.data[3] = 0x7f; /* larger than any */
    assert_int_equal(record_next(&b, &r), HAWK_EMALFORMED);
    bytes_free(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_exit_codes_and_signals),
        TEST(test_output_goes_to_the_default_files),
        TEST(test_placeholders),
        TEST(test_one_file_for_stdout_and_stderr_and_for_many_tasks),
        TEST(test_arguments_replace_braces),
        TEST(test_argument_that_no_command_can_be_given),
        TEST(test_many_arguments),
        TEST(test_environment_and_directory),
        TEST(test_inherited_environment_hides_the_token),
        TEST(test_standard_input),
        TEST(test_nothing_leaks_into_tasks),
        TEST(test_programs_that_do_not_exist_or_run),
        TEST(test_programs_are_looked_up_from_the_jobs_directory),
        TEST(test_directory_that_is_missing),
        TEST(test_output_files_that_cannot_be_opened),
        TEST(test_a_full_disk_is_an_error_of_the_task),
        TEST(test_fifo_that_nobody_reads_does_not_stop_the_spawner),
        TEST(test_refusals),
        TEST(test_kill_ends_the_whole_group),
        TEST(test_kill_goes_on_to_sigkill_after_the_grace),
        TEST(test_what_the_leader_leaves_behind_is_killed),
        TEST(test_descendants_that_left_the_group_are_killed),
        TEST(test_strays_of_a_running_task_are_left_alone),
        TEST(test_time_limit),
        TEST(test_stop_kills_what_runs),
        TEST(test_a_thousand),
        TEST(test_many_descriptions),
        TEST(test_death_of_the_spawner_is_noticed),
        TEST(test_tasks_do_not_outlive_a_dead_agent_for_long),
        TEST(test_timers),
        TEST(test_cancelled_timers),
        TEST(test_fifty_thousand_timers),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_damaged_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
