/* Starts one task: its files, its argv and environment, the program, the process.
 *
 * The child is made as by vfork(), but on a stack of its own: it borrows the spawner's memory for the few
 * calls until it becomes another program. That copies no page tables, and the child can report precisely
 * which call failed. */
#include "exec/launch.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "exec/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum stage { STAGE_NONE, STAGE_LIMIT, STAGE_CHDIR, STAGE_EXEC };

/* A child that fails writes the call and its errno here. */
struct launch_failure {
    volatile enum stage stage;
    volatile int error;
};

/* All that the child needs, so that it allocates no memory. */
struct plan {
    const char *program; /* the path for execve */
    const char *cwd;     /* NULL: the spawner's */
    const char **argv;   /* argv[-1] exists: see child_run() */
    const char **env;
    mode_t umask;
    int in, out, err;
    int group;                /* the cgroup in which it starts; -1: the spawner's */
    int entries[LIMIT_KINDS]; /* of the cgroups that limit it; -1: not that */
    int gate;                 /* to them, and to the one that freezes it; -1: the entries are open */
    bool limited;             /* it must not start outside of them */
    struct launch_failure *failure;
};

int launcher_init(struct launcher *l, const struct exec_config *c)
{
    *l = (struct launcher){.config = *c};
    l->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (l->null_fd < 0)
        return HAWK_EIO;
    l->failure = mmap(NULL, sizeof *l->failure, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l->failure == MAP_FAILED) {
        close(l->null_fd);
        return HAWK_EIO;
    }
    l->stack = xmalloc(LAUNCH_STACK_BYTES);
    return 0;
}

/* Records why a task could not start. */
static int HAWK_PRINTF(3, 4) cannot(struct launched *out, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out->why, sizeof out->why, fmt, ap);
    va_end(ap);
    out->why[utf8_tame(out->why, strlen(out->why))] =
        '\0'; /* the text contains names from the job, and people read it */
    out->code = code;
    return HAWK_EINVALID;
}

/* Whether an error concerns this machine: its directories, disks, memory, processes or descriptors. Another
 * worker may be able to start the task. An error in the job itself is the same on every machine. */
static bool is_of_here(int err)
{
    switch (err) {
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case ENXIO: /* a FIFO without a reader */
    case EINVAL:
        return false;
    default:
        return true;
    }
}

/* Whether an error is a lack of descriptors or memory, whatever was to be opened. */
static bool lacks_means(int err) { return err == EMFILE || err == ENFILE || err == ENOMEM; }

/* Whether an error of execve concerns this machine. A missing program does not: the task names it. */
static bool is_of_here_at_exec(int err)
{
    return err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE || err == EIO || err == ESTALE;
}

/* Records the place that the job named, and that another job need not name. A slash at its end: no file can
 * be made in it. */
static void blame(struct launched *out, const char *dir, size_t len, bool files)
{
    while (len > 1 && dir[len - 1] == '/')
        len--;
    snprintf(out->place, sizeof out->place, "%.*s%s", (int)len, dir, files ? "/" : "");
}

/* ---- The program ---- */

static bool is_program(const char *path, int *err)
{
    struct stat st;

    if (access(path, X_OK) < 0) {
        if (errno == EACCES)
            *err = EACCES;
        return false;
    }
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Looks the name up in the job's PATH, and writes the path for execve after the child's chdir. */
static int find_program(const struct launcher *l, const char *name, char *path, size_t size,
                        struct launched *out)
{
    const char *cwd = l->cwd ? l->cwd : ".";
    char from_here[2 * EXEC_PATH_MAX]; /* the same place as seen before the chdir */
    int err = ENOENT;

    CHECK(name); /* spec_new() refuses an empty argv */
    if (!*name)  /* a place, and an empty input */
        return cannot(out, LAUNCH_NO_PROGRAM, "the program's name is empty");
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        return strlen(name) < size ? 0 : cannot(out, LAUNCH_NO_PROGRAM, "the program's name is too long");
    }
    for (const char *dir = l->search, *end; dir; dir = *end ? end + 1 : NULL) {
        int len, n;

        end = strchrnul(dir, ':');
        len = (int)(end - dir);
        n = snprintf(path, size, "%.*s%s%s", len, dir, len ? "/" : "./", name);
        if (n < 0 || (size_t)n >= size)
            continue;
        snprintf(from_here, sizeof from_here, "%s%s%s", *path == '/' ? "" : cwd, *path == '/' ? "" : "/",
                 path);
        if (is_program(from_here, &err))
            return 0;
    }
    if (err == EACCES)
        return cannot(out, LAUNCH_CANNOT, "%s: found in PATH, but not executable", name);
    if (strchr(name, ' '))
        return cannot(
            out, LAUNCH_NO_PROGRAM,
            "%s: no such program: it is one word with blanks in it; for a shell's text write sh -c '%s'",
            name, name);
    return cannot(out, LAUNCH_NO_PROGRAM, "%s: no such program in the job's PATH (in its directory: ./%s)",
                  name, name);
}

/* ---- The process ---- */

/* No instrumentation in the child: sanitizers do not know its stack. */
#define IN_CHILD __attribute__((noinline, no_sanitize("address", "thread", "undefined")))

static IN_CHILD int child_fail(struct plan *p, enum stage stage)
{
    p->failure->error = errno;
    p->failure->stage = stage;
    return LAUNCH_NO_PROGRAM; /* its exit code, which nothing reads */
}

/* Goes into the cgroups that limit it. False, with errno: it is not in all of them. */
static IN_CHILD bool child_enter(const struct plan *p)
{
    char in;

    errno = ECONNABORTED;
    if (p->gate >= 0)
        return (write(p->gate, "0", 1) == 1 && read(p->gate, &in, 1) == 1) || !p->limited;
    for (int i = 0; i < LIMIT_KINDS; i++)
        if (p->entries[i] >= 0 && write(p->entries[i], "0", 1) < 0)
            return false;
    return true;
}

/* Runs in the spawner's memory. It makes only system calls, and writes only to the plan and its argv. The
 * spawner blocks every signal and handles none, so only the mask must be reset. */
static IN_CHILD int child_run(void *arg)
{
    struct plan *p = arg;
    sigset_t none;

    setpgid(0, 0);
    if (!child_enter(p))
        return child_fail(p, STAGE_LIMIT);
    umask(p->umask);
    if (p->cwd && chdir(p->cwd) < 0)
        return child_fail(p, STAGE_CHDIR);
    if (dup2(p->in, STDIN_FILENO) < 0 || dup2(p->out, STDOUT_FILENO) < 0 || dup2(p->err, STDERR_FILENO) < 0)
        return child_fail(p, STAGE_EXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(p->program, (char *const *)p->argv, (char *const *)p->env);
    if (errno == ENOEXEC) { /* a script without #!: execvp and every shell run it like this */
        p->argv[-1] = "sh";
        p->argv[0] = p->program;
        execve("/bin/sh", (char *const *)(p->argv - 1), (char *const *)p->env);
    }
    return child_fail(p, STAGE_EXEC);
}

/* Reports the program's absence, or its interpreter's, as the child would have found it, after its chdir. */
static int no_program(const struct plan *p, struct launched *out)
{
    char path[2 * EXEC_PATH_MAX];
    int len = (int)(strrchr(p->program, '/') - p->program);
    bool relative = *p->program != '/' && p->cwd;

    snprintf(path, sizeof path, "%s%s%s", relative ? p->cwd : "", relative ? "/" : "", p->program);
    if (access(path, F_OK) == 0)
        return cannot(out, LAUNCH_NO_PROGRAM, "%s: the interpreter it names is missing", p->program);
    strrchr(path, '/')[1] = '\0';
    if (len > 0 && access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return cannot(out, LAUNCH_NO_PROGRAM, "%s: no such program: there is no directory %.*s", p->program,
                      len, p->program);
    return cannot(out, LAUNCH_NO_PROGRAM, "%s: no such program", p->program);
}

/* Adds the bytes that the strings take to *all. Returns the longest one; NULL: there is none. */
static const char *longest(const char *const *strings, size_t *all)
{
    const char *found = NULL;
    size_t most = 0;

    for (; *strings; strings++) {
        size_t len = strlen(*strings);

        *all += len + 1;
        if (!found || len > most) {
            found = *strings;
            most = len;
        }
    }
    return found;
}

/* Reports which string was too long for execve, or that all of them are. */
static int too_long(const struct plan *p, struct launched *out)
{
    static const char remedy[] = "put it into a file, and give the task the file's name";
    size_t all = 0, most = exec_input_max() + strlen(COMMAND_INPUT);
    const char *argument = longest(p->argv, &all), *variable = longest(p->env, &all);
    bool input = variable && strncmp(variable, COMMAND_INPUT, strlen(COMMAND_INPUT)) == 0;

    if (variable && strlen(variable) > most) {
        size_t name = strcspn(variable, "=");

        return cannot(out, LAUNCH_CANNOT,
                      "%s: cannot be executed: %s%.*s has %zu bytes, and Linux takes at most %zu: %s",
                      p->program, input ? "the task's input" : "the variable ", input ? 0 : (int)name,
                      variable, strlen(variable) - name - 1, most - name - 1, remedy);
    }
    if (argument && strlen(argument) > most)
        return cannot(out, LAUNCH_CANNOT,
                      "%s: cannot be executed: an argument has %zu bytes, and Linux takes at most %zu: %s",
                      p->program, strlen(argument), most, remedy);
    return cannot(
        out, LAUNCH_CANNOT,
        "%s: cannot be executed: arguments and variables have %zu bytes together, and Linux takes at most a "
        "quarter of `ulimit -s`, and 6 MiB",
        p->program, all);
}

static int explain_child(const struct plan *p, struct launched *out)
{
    int err = p->failure->error;

    if (p->failure->stage == STAGE_LIMIT) {
        blame(out, LIMITS_PLACE, strlen(LIMITS_PLACE), false);
        return cannot(out, LAUNCH_NOT_HERE, "cannot enter the cgroup that limits the task: %s",
                      strerror(err));
    }
    if (p->failure->stage == STAGE_CHDIR) {
        blame(out, p->cwd, strlen(p->cwd), false);
        return cannot(out, is_of_here(err) ? LAUNCH_NOT_HERE : LAUNCH_CANNOT,
                      "cannot enter the directory %s: %s", p->cwd, strerror(err));
    }
    if (err == ENOENT || err == ENOTDIR)
        return no_program(p, out);
    if (err == E2BIG)
        return too_long(p, out);
    return cannot(out, is_of_here_at_exec(err) ? LAUNCH_NOT_HERE : LAUNCH_CANNOT,
                  "%s: cannot be executed: %s", p->program, strerror(err));
}

/* Starts the child inside a cgroup: moving it there later would take the kernel many milliseconds. The child
 * gets a copy of the memory, because the call gives no stack to a child in C. Only long tasks start like
 * this: they can afford it. */
static pid_t clone_into_group(struct plan *p)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP | CLONE_VFORK, .exit_signal = SIGCHLD, .cgroup = (uint64_t)p->group};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

    if (pid == 0)
        _exit(child_run(p));
    return pid;
}

static pid_t make_child(const struct launcher *l, struct plan *p, struct launched *out)
{
    pid_t pid = -1;

    if (p->group >= 0)
        pid = clone_into_group(p);
    out->grouped = pid >= 0;
    return pid >= 0 ? pid
                    : clone(child_run, l->stack + LAUNCH_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, p);
}

/* Returns when the child is another program, or has failed. */
static int run_plan(const struct launcher *l, struct plan *p, struct launched *out)
{
    p->failure->stage = STAGE_NONE;
    pid_t pid = make_child(l, p, out);
    if (pid < 0)
        return cannot(out, LAUNCH_NOT_HERE, "cannot make a process: %s", strerror(errno));
    if (p->failure->stage != STAGE_NONE) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return explain_child(p, out);
    }
    out->pid = pid;
    return 0;
}

/* Starts the child in a group that the freezer makes, if the task is to have one. */
static void run_in_group(const struct launcher *l, const struct task *t, struct plan *p, struct launched *out)
{
    if (t->grouped && l->freezer)
        p->group = freezer_make(l->freezer, out->number);
    (void)run_plan(l, p, out);
    if (p->group < 0)
        return;
    close(p->group);
    out->grouped = out->grouped && out->pid;
    if (!out->grouped)
        freezer_unmake(l->freezer, out->number);
}

/* Starts the child in the cgroups that limit it. Failing to make them is this machine's fault; but jobs with limits
 * count as one job that this machine cannot start, however many there are: it can start the others. */
static void run_limited(const struct launcher *l, const struct spec *s, const struct task *t, struct plan *p,
                        struct launched *out)
{
    char why[LAUNCH_WHY_MAX];

    if (!limits_wanted(s->d)) {
        run_in_group(l, t, p, out);
        return;
    }
    bool given = p->entries[LIMIT_MEMORY] >= 0 || p->entries[LIMIT_PIDS] >= 0;
    if (given ? limits_take(l->limits, s->d, &out->limited, p->entries, why, sizeof why)
              : limits_make(l->limits, out->number, s->d, &out->limited, O_WRONLY, p->entries, why,
                            sizeof why)) {
        blame(out, LIMITS_PLACE, strlen(LIMITS_PLACE), false);
        (void)cannot(out, LAUNCH_NOT_HERE, "%s", why);
        return;
    }
    (void)run_plan(l, p, out);
    if (!out->pid)
        limits_end(l->limits, &out->limited);
}

/* ---- The whole launch ---- */

static int check_directory(const char *cwd, struct launched *out)
{
    struct stat st;
    int err = 0;

    /* Comes before the output files: making directories of a relative one would make this one. */
    if (!cwd)
        return 0;
    if (stat(cwd, &st) < 0)
        err = errno;
    else if (!S_ISDIR(st.st_mode))
        err = ENOTDIR;
    if (err)
        blame(out, cwd, strlen(cwd), false);
    return err ? cannot(out, is_of_here(err) ? LAUNCH_NOT_HERE : LAUNCH_CANNOT,
                        "cannot enter the directory %s: %s", cwd, strerror(err))
               : 0;
}

/* Fails if the disk is full. Often a file can still be made then, and the task would start only to have its
 * writes fail. */
static int check_room(const struct launcher *l, const struct job_desc *d, struct launched *out)
{
    const struct exec_config *c = &l->config;
    char why[LAUNCH_WHY_MAX];

    if ((!output_is_default(d, OUTPUT_STDOUT) && !output_is_default(d, OUTPUT_STDERR)) ||
        output_has_room(c->output_dir, c->output_free_min, why, sizeof why))
        return 0;
    return cannot(out, LAUNCH_NOT_HERE, "%s", why);
}

static int output_path(const struct launcher *l, const struct spec *s, const struct task *t,
                       enum output which, char path[EXEC_PATH_MAX])
{
    struct exec_config c = l->config;
    struct template_input in = exec_input(s->d, t->id.task, t->arg, t->arg_len);

    c.worker = t->worker;
    return exec_output_path(&c, &t->id, s->d, &in, (int)which, path, EXEC_PATH_MAX);
}

/* Notes whose the output is, unless that stands there: retention may have removed the note since the last task. */
static int claim_output(const struct launcher *l, const struct spec *s, enum output which, const char *path)
{
    if (s->d->user->len == 0 || !output_is_default(s->d, which))
        return 0;
    return output_claim(path, s->d, output_mode(s->d, which, l->config.group_reads));
}

static int open_one(struct launcher *l, struct spec *s, const struct task *t, enum output which, char *path,
                    int *fd, struct launched *out)
{
    const char *name = which == OUTPUT_STDOUT ? "stdout" : "stderr";
    int err = output_path(l, s, t, which, path);

    if (err)
        return cannot(out, LAUNCH_CANNOT, "bad name of the %s file: %s", name,
                      err == HAWK_EINVALID ? "no such placeholder (there are %J %j %t %a %w %n %%)"
                                           : hawk_strerror(err));
    if (*fd >= 0) /* the agent's */
        return 0;
    *fd = claim_output(l, s, which, path);
    if (*fd == -EPERM)
        return cannot(out, LAUNCH_CANNOT, "%s is below the output of another user's job", path);
    if (*fd == 0)
        *fd = output_open(path, output_is_own(s->d, which), output_mode(s->d, which, l->config.group_reads));
    if (*fd >= 0 && output_is_default(s->d, which))
        (void)flock(*fd, LOCK_SH | LOCK_NB); /* held as long as the task has it: retention sees that */
    if (*fd < 0 && !output_is_default(s->d, which) && !lacks_means(-*fd))
        blame(out, path, (size_t)(strrchr(path, '/') - path), true);
    if (*fd < 0)
        return cannot(out, is_of_here(-*fd) ? LAUNCH_NOT_HERE : LAUNCH_CANNOT,
                      "cannot open the %s file %s: %s", name, path, strerror(-*fd));
    return 0;
}

static int open_files(struct launcher *l, struct spec *s, const struct task *t, struct plan *p,
                      struct launched *out)
{
    int err = open_one(l, s, t, OUTPUT_STDOUT, out->out_path, &p->out, out);

    if (err)
        return err;
    err = output_path(l, s, t, OUTPUT_STDERR, out->err_path);
    if (!err && p->err < 0 && strcmp(out->out_path, out->err_path) == 0)
        p->err = p->out; /* one open file: the writes to both stay in order */
    else
        err = open_one(l, s, t, OUTPUT_STDERR, out->err_path, &p->err, out);
    if (err)
        return err;
    p->in = l->null_fd;
    if (!s->d->input)
        return 0;
    p->in = spec_open_input(s);
    return p->in >= 0 ? 0
                      : cannot(out, LAUNCH_NOT_HERE, "cannot open the standard input: %s", strerror(errno));
}

static void close_files(const struct launcher *l, const struct plan *p)
{
    if (p->out >= 0)
        close(p->out);
    if (p->err >= 0 && p->err != p->out)
        close(p->err);
    if (p->in >= 0 && p->in != l->null_fd)
        close(p->in);
    for (int i = 0; i < LIMIT_KINDS; i++)
        if (p->entries[i] >= 0)
            close(p->entries[i]);
    if (p->gate >= 0)
        close(p->gate);
}

/* Writes why the task could not start into its stderr, where people look first. The spawner does not wait for room in a
 * FIFO. */
static void tell_stderr(int fd, const struct launched *out)
{
    if (fd >= 0 && fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) == 0)
        dprintf(fd, "hawk: %s\n", out->why);
}

void launch_task(struct launcher *l, struct spec *s, const struct task *t, struct launched *out)
{
    struct plan p = {.umask = job_desc_umask(s->d), .limited = limits_wanted(s->d)};
    char program[EXEC_PATH_MAX], job[JOB_ID_TEXT];
    char job_id[64], index[48], attempt[32], run[64], worker[sizeof "HAWK_WORKER=" + LIMIT_NAME_BYTES];
    char why[TEMPLATE_WHY_MAX], socket[sizeof "HAWK_WORKER_SOCKET=" + EXECUTORS_MAX];

    p.in = p.group = -1;
    memcpy(p.entries, t->files + RUN_FIRST_ENTRY, sizeof p.entries);
    p.gate = t->files[RUN_GATE_PLACE];
    out->limited = (struct limited){0};
    p.out = t->files[0];
    p.err = t->files[1];
    p.failure = l->failure;
    out->pid = 0;
    out->grouped = false;
    out->code = 0;
    out->number = ++l->launched;
    out->why[0] = out->place[0] = out->out_path[0] = out->err_path[0] = '\0';
    snprintf(job_id, sizeof job_id, "HAWK_JOB_ID=%s", job_id_format(job, t->id.job));
    snprintf(index, sizeof index, "HAWK_TASK_INDEX=%" PRIu64, (uint64_t)s->d->first_index + t->id.task);
    snprintf(attempt, sizeof attempt, "HAWK_ATTEMPT=%u", t->id.attempt);
    snprintf(worker, sizeof worker, "HAWK_WORKER=%s", t->worker);
    snprintf(socket, sizeof socket, "HAWK_WORKER_SOCKET=%s", l->config.executors ? l->config.executors : "");
    snprintf(run, sizeof run, RUN_VARIABLE "=%d.%" PRIu64, (int)getpid(), out->number);
    int err = command_fill(l, s, t, why);

    p.cwd = l->cwd;
    if (check_directory(p.cwd, out) || check_room(l, s->d, out) || open_files(l, s, t, &p, out))
        goto out;
    if (err) {
        cannot(out, LAUNCH_CANNOT, "%s", why);
        goto out;
    }
    if (find_program(l, l->argv[1], program, sizeof program, out))
        goto out;
    l->env[0] = socket;
    l->env[1] = job_id;
    l->env[2] = index;
    l->env[3] = attempt;
    l->env[4] = run;
    l->env[5] = worker;
    p.env = l->env + (l->config.executors ? 0 : 1);
    p.argv = l->argv + 1;
    p.program = program;
    run_limited(l, s, t, &p, out);
out:
    if (!out->pid)
        tell_stderr(p.err, out);
    close_files(l, &p);
}
