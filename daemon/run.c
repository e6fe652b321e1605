/* `hawk run`: runs tasks on an embedded cluster that lives as long as they do, as people do with xargs -P. */
#include "base/entropy.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/document.h"
#include "cli/failures.h"
#include "cli/print.h"
#include "cli/spec.h"
#include "daemon/commands.h"
#include "daemon/embedded.h"
#include "daemon/output_dir.h"
#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_INTERRUPTED 130
#define RUN_GOES_ON (-1) /* no exit code yet */
#define PROGRESS_US (100 * US_PER_MS)
#define OUTPUT_KEPT (16u << 20) /* bytes of a task's stdout and stderr each in the JSON document */
#define WHY_SHOWN 200u          /* bytes of the text why a task was not started */
#define ARG_SHOWN 80u           /* bytes of a failed task's argument */

struct run_options {
    uint32_t slots;
    bool quiet, progress;
    const char *output;
    struct spec_options spec;
};

const struct flag run_flags[] = {
    FLAG_NUMBER(struct run_options, slots, "slots", 'j', "SLOTS", "tasks at a time; default: one per core", 1,
                LIMIT_SLOTS),
    FLAG(BOOL, struct run_options, quiet, "quiet", 'q', NULL, "show no progress line and no summary"),
    FLAG(BOOL, struct run_options, progress, "progress", 'p', NULL,
         "show a progress line even if stderr is no terminal"),
    FLAG(CHOICE, struct run_options, output, "output", 'o', "table|json",
         "json: one document on stdout, one line per task, with its output; default: table"),
    SPEC_FLAGS(struct run_options, spec),
    {0},
};

const char run_details[] =
    "Runs COMMAND once, or once per line or number, SLOTS at a time, on a cluster inside this "
    "process: it needs\n"
    "no daemon. It prints a task's output as a whole when the task ends; --stdout and --stderr "
    "put it into files\n"
    "instead. It names failed tasks on stderr, and puts those with the same error into one "
    "line. Ctrl-C ends\n"
    "running tasks.\n"
    "\n" SPEC_HELP "--class, --estimate and --retries, known from `hawk submit`, make no difference here: no "
    "worker is lost\n"
    "unless this process ends, and a task that fails is not run again.\n"
    "\n"
    "Exit codes: 0 every task succeeded, 1 a task failed or output could not be written, 2 the "
    "command line\n"
    "is wrong, 130 Ctrl-C.\n"
    "\n"
    "examples:\n"
    "  ls *.log | hawk run -j 8 --each-line - -- gzip -9 {}\n"
    "  hawk run --array 1-100 -- ./simulate --seed {}\n";

struct run {
    struct run_options options;
    struct loop *loop;
    struct embedded *cluster;
    struct exec_config exec_config;
    struct job_desc *desc;
    char dir[PATH_MAX]; /* of output until it is printed */
    job_id_t job;
    uint32_t ended, failed, cancelled;
    bool submitted, interrupted, show_progress, broken, json;
    bool full;   /* the output's disk was full at the end of a task that had written something */
    bool unread; /* stdout is closed or full: the rest need not run */
    struct failures failures;
    int64_t started_us, shown_us;
    int exit_code;
    struct loop_timer progress;
};

/* ---- Output ---- */

static void clear_progress(const struct run *r)
{
    if (r->show_progress && r->shown_us)
        fputs("\r\033[K", stderr);
}

/* Prints lines on stderr. The JSON document has them as well. */
static void HAWK_PRINTF(2, 3) say_line(const struct run *r, const char *fmt, ...)
{
    char text[TASK_ENDING_MAX + ARG_SHOWN + 100];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    clear_progress(r);
    say_lines(text);
}

/* Opens a task's captured file; -1 when its output goes elsewhere or there is none. */
static int open_captured(const struct run *r, const struct try_id *id, int which, char path[EXEC_PATH_MAX])
{
    bool captured = which == 1 ? !r->desc->stdout_pattern : !r->desc->stderr_pattern;
    if (!captured || exec_output_path(&r->exec_config, id, NULL, which, path, EXEC_PATH_MAX))
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The reader of a pipe sees output at once, not when the job ends. If nobody reads any more, the rest need not run. */
static void flush_output(struct run *r, FILE *f)
{
    fflush(f);
    if (!r->unread && ferror(stdout)) {
        r->unread = true;
        embedded_feed(r->cluster, ROLE_DIST, &(struct msg){.type = MSG_CANCEL, .cancel = {.job = r->job}});
    }
}

/* A task whose write fails should say so. But not all tasks look, and stderr may be on the same full disk. */
static void look_for_full_disk(struct run *r, int fd)
{
    struct stat st;
    if (r->full || fstat(fd, &st) || st.st_size == 0 || !exec_disk_full(r->dir))
        return;
    r->full = true;
    clear_progress(r);
    say_error(
        "run",
        "the disk of %s is full: what tasks write may be cut short; set TMPDIR to a directory with room, "
        "or use --stdout and --stderr",
        r->dir);
}

/* Prints a task's captured file, and removes it. False: there was nothing in it. */
static bool print_file(struct run *r, const struct try_id *id, int which)
{
    char path[EXEC_PATH_MAX], buf[1 << 16];
    int fd = open_captured(r, id, which, path);
    if (fd < 0)
        return false;
    look_for_full_disk(r, fd);
    bool any = false;
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0) {
        any = true;
        clear_progress(r);
        fwrite(buf, 1, (size_t)n, which == 1 ? stdout : stderr);
    }
    close(fd);
    unlink(path);
    flush_output(r, which == 1 ? stdout : stderr);
    return any;
}

/* Why a task was not started; its stderr says so as well. */
static void not_started_text(const struct run *r, char *buf, size_t size, const struct msg_task_event *m)
{
    const struct dist *d = embedded_dist(r->cluster);
    const struct dist_job *j = dist_find(d, r->job);
    struct task_view v = {0};
    if (j)
        dist_task_view(d, j, m->id.task, loop_now(r->loop), &v);
    if (v.message)
        clean_text(buf, size, v.message->data);
}

/* Whether to print this failure by itself. Failures in the same words get one line at the end. */
static bool failed_alone(struct run *r, const struct msg_task_event *m)
{
    char what[TASK_ENDING_MAX], why[WHY_SHOWN] = "";
    const struct api_task t = {.state = m->state, .outcome = m->outcome, .code = m->code, .message = why};
    if (m->outcome == OUTCOME_NOT_STARTED)
        not_started_text(r, why, sizeof why, m);
    return failures_add(&r->failures, &t, r->desc->first_index + m->id.task,
                        task_ending(what, sizeof what, &t, r->desc->time_limit_us), failures_apart(&t));
}

static void say_failure(struct run *r, const struct msg_task_event *m, bool stderr_shown)
{
    char why[WHY_SHOWN] = "", what[TASK_ENDING_MAX], text[ARG_SHOWN];
    const struct api_task t = {.state = m->state, .outcome = m->outcome, .code = m->code, .message = why};
    if (r->options.quiet)
        return;
    if (m->outcome == OUTCOME_NOT_STARTED && !stderr_shown)
        not_started_text(r, why, sizeof why, m);
    task_ending(what, sizeof what, &t, r->desc->time_limit_us);
    struct blob *arg = job_desc_arg(r->desc, m->id.task);
    say_line(r, "hawk run: task %u%s%s%s: %s\n", r->desc->first_index + m->id.task, arg ? " (" : "",
             arg ? clean_text(text, sizeof text, arg->data) : "", arg ? ")" : "", what);
    blob_drop(arg);
}

/* ---- JSON: one document, written as tasks end ---- */

static void json_file(struct run *r, json_t *o, const struct try_id *id, int which)
{
    char path[EXEC_PATH_MAX];
    int fd = open_captured(r, id, which, path);
    if (fd < 0)
        return;
    look_for_full_disk(r, fd);
    size_t n = 0;
    ssize_t got = 1;
    char *data = xmalloc(OUTPUT_KEPT + 1);
    while (n <= OUTPUT_KEPT && (got = read(fd, data + n, OUTPUT_KEPT + 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    unlink(path);
    json_object_set_new(o, which == 1 ? "stdout" : "stderr",
                        json_bytes(data, n < OUTPUT_KEPT ? n : OUTPUT_KEPT));
    if (n > OUTPUT_KEPT)
        json_object_set_new(o, which == 1 ? "stdout_truncated" : "stderr_truncated", json_true());
    free(data);
}

static json_t *span_json(int64_t us) { return us < 0 ? json_null() : json_integer(us); }

static void json_task(struct run *r, const struct msg_task_event *m)
{
    const struct dist *d = embedded_dist(r->cluster);
    const struct dist_job *j = dist_find(d, r->job);
    struct task_view v = {.wait_us = -1, .run_us = -1};
    struct blob *arg = job_desc_arg(r->desc, m->id.task);
    if (j)
        dist_task_view(d, j, m->id.task, loop_now(r->loop), &v);
    json_t *o = json_pack("{s:I, s:I, s:o, s:s, s:s, s:I, s:o, s:o, s:o}", "task", (json_int_t)m->id.task,
                          "index", (json_int_t)r->desc->first_index + m->id.task, "argument",
                          arg ? json_bytes(arg->data, arg->len) : json_null(), "state",
                          task_state_text(m->state), "outcome", outcome_text(m->outcome), "code",
                          (json_int_t)m->code, "wait_us", span_json(v.wait_us), "run_us", span_json(v.run_us),
                          "message", v.message ? json_bytes(v.message->data, v.message->len) : json_null());
    json_file(r, o, &m->id, 1);
    json_file(r, o, &m->id, 2);
    fputs(r->ended ? ",\n    " : "\n    ", stdout);
    json_write(o, stdout, JSON_COMPACT);
    json_decref(o);
    blob_drop(arg);
    flush_output(r, stdout);
}

static void json_begin(void)
{
    document_begin();
    fputs("\"tasks\": [", stdout);
}

static void json_end(const struct run *r)
{
    printf("\n  ],\n  \"submitted\": %u,\n  \"ended\": %u,\n  \"failed\": %u,\n  \"cancelled\": %u,\n  "
           "\"exit_code\": %d",
           r->desc->tasks, r->ended, r->failed, r->cancelled, r->exit_code);
    document_finish();
}

static void show_progress(struct run *r)
{
    struct job_view v;
    const struct dist_job *j = r->submitted ? dist_find(embedded_dist(r->cluster), r->job) : NULL;
    int64_t now = loop_now(r->loop);
    if (!r->show_progress || !j)
        return;
    dist_job_view(embedded_dist(r->cluster), j, now, &v);
    char took[32];
    r->shown_us = now;
    fprintf(stderr, PROGRESS_BEGIN "%u of %u done, %u running, %u failed, %s" PROGRESS_END, v.done,
            r->desc->tasks, v.running, v.failed, duration_format(took, sizeof took, now - r->started_us));
    fflush(stderr);
}

static void on_progress(void *arg)
{
    struct run *r = arg;
    show_progress(r);
    loop_timer_set(r->loop, &r->progress, loop_now(r->loop) + PROGRESS_US);
}

/* ---- The job ---- */

/* Prints the failures, one line for all that have the same words, and how many tasks ended in which way. */
static void print_summary(const struct run *r, uint32_t done)
{
    uint32_t tasks = r->desc->tasks;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    failures_print(&r->failures, f, "hawk run: ", FAILURE_KINDS_MAX);
    if (r->interrupted)
        fprintf(f, "hawk run: %u of %u task%s done, %u failed, %u cancelled\n", done, tasks, PLURAL(tasks),
                r->failed, r->cancelled);
    else if (r->failed)
        fprintf(f, "hawk run: %u of %u task%s failed\n", r->failed, tasks, PLURAL(tasks));
    fclose(f);
    say_lines(text);
    free(text);
}

static void finish_run(struct run *r, uint32_t done)
{
    clear_progress(r);
    if (!r->options.quiet)
        print_summary(r, done);
    r->exit_code = done == r->desc->tasks && !r->full ? HAWK_EXIT_OK : HAWK_EXIT_FAILED;
    if (r->interrupted)
        r->exit_code = RUN_INTERRUPTED;
    loop_stop(r->loop);
}

static void on_task(struct run *r, const struct msg_task_event *m)
{
    if (!task_state_final(m->state))
        return;
    bool failed = m->state == TASK_FAILED || m->state == TASK_LOST, alone = failed && failed_alone(r, m);
    bool shown = false;
    if (r->json)
        json_task(r, m);
    else
        print_file(r, &m->id, 1);
    /* A task that was not started wrote nothing: only the reason is there, in the same words. */
    if (!r->json && (alone || m->outcome != OUTCOME_NOT_STARTED))
        shown = print_file(r, &m->id, 2);
    r->ended++;
    r->failed += failed;
    r->cancelled += m->state == TASK_CANCELLED;
    if (alone)
        say_failure(r, m, shown);
}

static void run_effect(void *arg, const struct msg *m)
{
    struct run *r = arg;
    if (m->type == MSG_SUBMITTED && m->submitted.err) {
        say_error("run", "%s", hawk_strerror(m->submitted.err));
        r->exit_code = HAWK_EXIT_USAGE;
        loop_stop(r->loop);
    } else if (m->type == MSG_SUBMITTED) {
        r->submitted = true;
        r->job = m->submitted.job;
        embedded_feed(r->cluster, ROLE_DIST,
                      &(struct msg){.type = MSG_WATCH, .watch = {.job = r->job, .on = true}});
    } else if (m->type == MSG_TASK_EVENT) {
        on_task(r, &m->task_event);
    } else if (m->type == MSG_JOB_EVENT && job_state_final(m->job_event.state)) {
        finish_run(r, m->job_event.done);
    }
}

static void on_signal(void *arg, int signo)
{
    struct run *r = arg;
    if (r->interrupted || !r->submitted) {
        embedded_kill(r->cluster);
        r->exit_code = RUN_INTERRUPTED;
        loop_stop(r->loop);
        return;
    }
    r->interrupted = true;
    clear_progress(r);
    fprintf(stderr, "hawk run: ending the tasks that run; once more ends them at once\n");
    embedded_feed(r->cluster, ROLE_DIST, &(struct msg){.type = MSG_CANCEL, .cancel = {.job = r->job}});
}

static void after_turn(void *arg)
{
    struct run *r = arg;
    if (!r->broken && embedded_broken(r->cluster)) {
        r->broken = true;
        say_error("run", "the process that starts commands has died");
        r->exit_code = HAWK_EXIT_FAILED;
        loop_stop(r->loop);
    }
}

/* ---- Life ---- */

/* One worker with all slots: late binding from a single queue keeps every slot busy to the end. Nothing here
 * is long, so neither partition nor promotion. */
static struct embedded *make_cluster(struct run *r, struct exec *exec)
{
    struct central_config cc;
    central_config_init(&cc);
    if (policy_preset("sparrow", &cc.policy))
        abort();
    cc.preset = (uint8_t)(policy_preset_number("sparrow", strlen("sparrow")) - 1);
    struct embedded_config c = {.slots = r->options.slots,
                                .workers = 1,
                                .addr = "here",
                                .worker = r->exec_config.worker,
                                .seed = entropy(),
                                .central = &cc,
                                .effect = run_effect,
                                .arg = r};
    return embedded_new(r->loop, exec, &r->exec_config, &c);
}

/* Signals that are ignored stay ignored: SIGHUP under nohup, SIGINT and SIGQUIT in the background of a script. */
static void handle_signals(struct run *r)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        bool ignored = sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;
        if (!ignored && loop_signal(r->loop, signals[i], on_signal, r))
            log_warn("%s cannot be handled", strsignal(signals[i]));
    }
}

static void run_loop(struct run *r, struct exec *exec)
{
    struct loop_hook after;
    r->exit_code = RUN_GOES_ON;
    r->loop = loop_new(0);
    r->started_us = loop_now(r->loop);
    r->cluster = make_cluster(r, exec);
    loop_timer_init(&r->progress, on_progress, r);
    if (r->show_progress)
        loop_timer_set(r->loop, &r->progress, loop_now(r->loop) + PROGRESS_US);
    handle_signals(r);
    loop_hook_add(r->loop, &after, LOOP_AFTER, after_turn, r);
    while (!embedded_is_up(r->cluster) && r->exit_code == RUN_GOES_ON)
        loop_once(r->loop, loop_now(r->loop) + US_PER_MS);
    if (r->exit_code == RUN_GOES_ON) {
        embedded_feed(r->cluster, ROLE_DIST, &(struct msg){.type = MSG_SUBMIT, .submit.desc = r->desc});
        loop_run(r->loop);
    }
    loop_hook_remove(&after);
    loop_timer_clear(r->loop, &r->progress);
    embedded_free(r->cluster);
    loop_free(r->loop);
}

int run_main(int argc, char **argv)
{
    struct run r = {.options.spec.retries = SPEC_RETRIES_NOT_GIVEN};
    struct exec *exec;
    int at = flags_parse("run", run_flags, NULL, true, argc, argv, &r.options);
    if (at < 0)
        return -at;
    int code = spec_build("run", &r.options.spec, argc - at, argv + at, &r.desc);
    if (code)
        return code;
    if (spec_retries_given(&r.options.spec))
        say_warning(
            "run",
            "--retries has no effect here: it is for tasks whose worker is lost, and the worker is this "
            "process; a task that fails is not run again");
    log_init("run", LOG_WARN);
    signal(SIGPIPE, SIG_IGN); /* `| head` ends the job in order; tasks get the signal's default back */
    if (!r.options.slots)
        r.options.slots = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    r.json = r.options.output && strcmp(r.options.output, "json") == 0;
    r.show_progress = !r.options.quiet && (r.options.progress || isatty(2));
    int dir_fd;
    if (output_dir_make(r.dir, sizeof r.dir, &dir_fd)) {
        say_error("run", "no directory for output can be made: %s: %s", r.dir, strerror(errno));
        code = HAWK_EXIT_FAILED;
    } else {
        exec_config_init(&r.exec_config, "run", r.dir);
        r.exec_config.max_running = r.options.slots;
        r.exec_config.orphan_grace_us = 0; /* without us nobody wants the results */
        if (exec_start(&exec, &r.exec_config)) {
            say_error("run", "no process can be started");
            r.exit_code = HAWK_EXIT_FAILED;
        } else {
            if (r.json)
                json_begin();
            run_loop(&r, exec);
            if (r.json)
                json_end(&r);
        }
        output_dir_remove(r.dir, dir_fd);
        code = r.exit_code;
    }
    failures_free(&r.failures);
    job_desc_drop(r.desc);
    flag_list_free(&r.options.spec.env);
    return code;
}
