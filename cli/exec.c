/* hawk exec: one command on the cluster, as if it ran here. */
#include "base/io.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/show.h"
#include "cli/spec.h"
#include "libhawk/client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXEC_OURS 125       /* the exit code where no task's can be given */
#define EXEC_TIME_LIMIT 124 /* as that of timeout(1) */

struct exec_options {
    struct common_options common;
    struct spec_options spec;
    const char *text;
    bool no_stdin;
};

const struct flag exec_flags[] = {
    FLAG(TEXT, struct exec_options, text, "command", 'c', "TEXT",
         "run a shell with TEXT, as `sh -c` does, without standard input; for make's SHELL"),
    FLAG(BOOL, struct exec_options, no_stdin, "no-stdin", 'n', NULL, "read no standard input"),
    FLAG(TEXT, struct exec_options, spec.name, "name", 0, "NAME",
         "the job's name, under which history is kept; default: the command line"),
    FLAG(CHOICE, struct exec_options, spec.class, "class", 0, "short|long|auto",
         "the class, as for `hawk submit`"),
    FLAG_ABOVE_0(struct exec_options, spec.estimate_us, "estimate", 'e', "TIME", "how long it will take"),
    FLAG_ABOVE_0(struct exec_options, spec.time_limit_us, "time-limit", 't', "TIME",
                 "kill it if it runs longer"),
    SPEC_LIMIT_FLAGS(struct exec_options, spec),
    FLAG(TEXT, struct exec_options, spec.cwd, "cwd", 'C', "DIR", "its directory; default: the current one"),
    FLAG(LIST, struct exec_options, spec.env, "env", 'E', "K[=V]",
         "set a variable of its environment, or pass one of here; may be repeated"),
    FLAG(TEXT, struct exec_options, spec.exported, "export", 0, "ALL|NONE|NAMES",
         "the variables of here that it gets besides those of --env; default: all under the local `hawk up`, "
         "else "
         "those that `hawk submit` passes"),
    FLAG(BOOL, struct exec_options, spec.clean_env, "clean-env", 0, NULL, "the same as --export NONE"),
    FLAG(BOOL, struct exec_options, spec.no_pause, "no-pause", 0, NULL, "never pause it for a short task"),
    {0},
};

/* A thread that prints one of the task's streams, with a client of its own. */
struct stream {
    const struct common_options *options;
    job_id_t job;
    node_id_t worker;
    uint32_t attempt;
    bool is_stderr, started;
    pthread_t thread;
    char why[256]; /* why not all was printed; "": it was */
};

struct running {
    struct session s;
    job_id_t job;
    struct api_task task; /* as of the last event; without its texts */
    char message[256];
    struct stream streams[2];
    bool begun; /* the streams have */
    bool cancelled;
};

static volatile sig_atomic_t signalled;
static atomic_int unwritable; /* why our own stdout or stderr takes no more: an errno; 0: they do */

static void on_exec_signal(int signo) { signalled = signo; }

/* ---- Standard input ---- */

/* A terminal, or what is neither a pipe nor a file, is not read: nobody could tell where it ends. */
static bool has_input(const struct exec_options *o)
{
    struct stat st;
    if (o->no_stdin || o->text || fstat(STDIN_FILENO, &st))
        return false;
    return S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode);
}

/* ---- Output ---- */

static int print_chunk(void *ctx, const struct api_output_chunk *chunk)
{
    struct stream *m = ctx;
    if (chunk->cut_short)
        snprintf(m->why, sizeof m->why,
                 "it may be cut short: the worker's disk was full when the task ended");
    int err = write_all(m->is_stderr ? STDERR_FILENO : STDOUT_FILENO, chunk->data, chunk->data_n);
    if (!err)
        return 0;
    if (err != EPIPE)
        snprintf(m->why, sizeof m->why, "%s", strerror(err));
    unwritable = err;
    return 1;
}

static void *print_stream(void *arg)
{
    struct stream *m = arg;
    struct client *client;
    const struct client_options options = session_client(m->options);
    const struct api_read_output_request r = {
        .job = m->job, .task = 0, .attempt = m->attempt, .stderr = m->is_stderr, .follow = true};
    int err = client_open(&client, &options);
    if (!err)
        err = client_read_output(client, m->worker, &r, print_chunk, m);
    if (err < 0)
        snprintf(m->why, sizeof m->why, "%s", client_error(client));
    client_close(client);
    return NULL;
}

static void begin_streams(struct running *r, const struct exec_options *o)
{
    r->begun = true;
    for (int i = 0; i < 2; i++) {
        struct stream *m = &r->streams[i];
        *m = (struct stream){.options = &o->common,
                             .job = r->job,
                             .worker = {r->task.worker},
                             .attempt = r->task.attempt,
                             .is_stderr = i == 1};
        int err = thread_start(&m->thread, print_stream, m);
        m->started = err == 0;
        if (err)
            snprintf(m->why, sizeof m->why, "no thread can be started: %s", strerror(err));
    }
}

/* Waits for them. Whether all was printed; says what was not. */
static bool end_streams(struct running *r)
{
    bool all = true;
    for (int i = 0; i < 2; i++) {
        if (r->streams[i].started)
            pthread_join(r->streams[i].thread, NULL);
        if (*r->streams[i].why)
            say_error("exec", "%s: %s", i ? "stderr" : "stdout", CLEAN(r->streams[i].why));
        all &= !*r->streams[i].why;
    }
    return all;
}

/* ---- The task ---- */

struct watching {
    struct running *r;
    const struct exec_options *o;
};

static void take_news(struct watching *w, const struct api_task *task)
{
    struct running *r = w->r;
    r->task = *task;
    snprintf(r->message, sizeof r->message, "%s", task->message);
    r->task.message = r->message;
    r->task.worker_name = "";
    bool ran = task->worker && !task_state_before(task->state) && task->outcome != OUTCOME_NOT_STARTED;
    if (ran && !r->begun)
        begin_streams(r, w->o);
}

static int on_exec_event(void *ctx, const struct api_event *event)
{
    for (uint32_t i = 0; i < event->tasks_n; i++)
        take_news(ctx, &event->tasks[i]);
    return 0;
}

/* The task may have ended before it was watched. */
static int look_at_end(struct watching *w)
{
    const struct api_get_job_request q = {.job = w->r->job, .max_tasks = 1};
    struct api_get_job_reply reply;
    int err = client_get_job(w->r->s.client, &q, &reply);
    if (!err && reply.tasks_n)
        take_news(w, &reply.tasks[0]);
    api_free(&api_get_job_reply_type, &reply);
    return err;
}

static int on_exec_tick(void *ctx)
{
    struct running *r = ((struct watching *)ctx)->r;
    if (signalled)
        signal(signalled, SIG_DFL); /* once more ends this process, and the job with it */
    if ((!signalled && !unwritable) || r->cancelled)
        return 0;
    bool ended;
    r->cancelled = client_cancel(r->s.client, r->job, &ended) == 0; /* else the next tick asks again */
    return 0;
}

static bool has_run(const struct api_task *t)
{
    return t->outcome == OUTCOME_EXITED || t->outcome == OUTCOME_SIGNALED ||
           t->outcome == OUTCOME_TIME_LIMIT || t->outcome == OUTCOME_OUT_OF_MEMORY;
}

static int exit_code_of(const struct running *r, bool printed)
{
    char ending[TASK_ENDING_MAX];
    const struct api_task *t = &r->task;
    int code = EXEC_OURS;
    if (signalled)
        return exit_code_of_signal((int)signalled);
    if (unwritable == EPIPE)
        return HAWK_EXIT_SIGNALLED + SIGPIPE;
    if (t->outcome == OUTCOME_EXITED)
        code = t->code & 255;
    else if (t->outcome == OUTCOME_SIGNALED || t->outcome == OUTCOME_OUT_OF_MEMORY)
        code = HAWK_EXIT_SIGNALLED + t->code;
    else if (t->outcome == OUTCOME_TIME_LIMIT)
        code = EXEC_TIME_LIMIT;
    else if (t->outcome == OUTCOME_NOT_STARTED)
        code = t->code;
    if (t->outcome != OUTCOME_EXITED && t->outcome != OUTCOME_SIGNALED)
        say_error("exec", "%s", task_ending(ending, sizeof ending, t, 0));
    return printed || code != 0 ? code : EXEC_OURS;
}

static int exec_job(struct running *r, const struct exec_options *o, struct job_desc *d)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct api_submit_reply reply;
    struct watching w = {.r = r, .o = o};
    if (client_submit(r->s.client, d, &reply)) {
        session_failed(&r->s);
        return EXEC_OURS;
    }
    r->job = reply.job;
    r->task.message = r->task.worker_name = "";
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (!signal_ignored(signals[i]))
            signal(signals[i], on_exec_signal);
    signal(SIGPIPE, SIG_IGN);
    int err = client_watch(r->s.client, &r->job, 1, CLIENT_WATCH_TASKS, on_exec_event, on_exec_tick, &w);
    if (err >= 0 && (!task_state_final(r->task.state) || r->task.outcome == OUTCOME_NOT_STARTED))
        err = look_at_end(&w);
    bool printed = end_streams(r);
    if (err < 0) {
        session_failed(&r->s);
        return EXEC_OURS;
    }
    if (has_run(&r->task))
        document_drop(); /* standard output has what it printed */
    return exit_code_of(r, printed);
}

/* The command: what stands after the flags, or a shell with --command. */
static char **command_of(const struct exec_options *o, int argc, char **argv, int *n)
{
    static const char *const shell[] = {"/bin/sh", "-c"};
    char **words = xcalloc((size_t)argc + 4, sizeof *words);
    *n = 0;
    for (int i = 0; o->text && i < 2; i++)
        words[(*n)++] = (char *)shell[i];
    if (o->text)
        words[(*n)++] = (char *)o->text;
    for (int i = 0; i < argc; i++)
        words[(*n)++] = argv[i];
    return words;
}

int exec_main(int argc, char **argv)
{
    struct exec_options o = {
        .spec = {.lost_retries = SPEC_RETRIES_NOT_GIVEN, .at_most_once = true, .takes_stdin = true}};
    struct running r = {.s = {.command = argv[0]}};
    struct job_desc *d = NULL;
    int first = flags_parse(argv[0], exec_flags, common_flags, true, argc, argv, &o);
    if (first < 0) {
        spec_options_free(&o.spec);
        return first == -HAWK_EXIT_HELP ? HAWK_EXIT_HELP : EXEC_OURS;
    }
    if (has_input(&o))
        o.spec.input = "-";
    const struct client_options options = session_client(&o.common);
    o.spec.all_env = client_finds_up(&options);
    int n;
    char **words = command_of(&o, argc - first, argv + first, &n);
    int exit_code = spec_build(argv[0], &o.spec, n, words, &d, NULL) ? EXEC_OURS : 0;
    if (!exit_code && session_open(&r.s, argv[0], &o.common))
        exit_code = EXEC_OURS;
    if (!exit_code)
        exit_code = exec_job(&r, &o, d);
    session_close(&r.s);
    job_desc_drop(d);
    free(words);
    spec_options_free(&o.spec);
    return exit_code;
}
