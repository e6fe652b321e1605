/* `hawk run`: runs tasks on an embedded cluster that lives as long as they do, as people do with xargs -P. */
#include "daemon/run.h"
#include "base/entropy.h"
#include "base/log.h"
#include "cli/document.h"
#include "daemon/commands.h"
#include "daemon/output_dir.h"
#include "daemon/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_GOES_ON (-1) /* no exit code yet */
#define PROGRESS_US (100 * US_PER_MS)

const struct flag run_flags[] = {
    FLAG(TEXT, struct run_options, slots, "slots", 'j', "N|N%",
         "tasks at a time, or their share of the cores; default: one per core that it may use"),
    FLAG(BOOL, struct run_options, quiet, "quiet", 'q', NULL, "show no progress line and no summary"),
    FLAG(BOOL, struct run_options, progress, "progress", 'p', NULL,
         "show a progress line even if stderr is no terminal"),
    FLAG(CHOICE, struct run_options, output, "output", 'o', "table|json",
         "json: one document on stdout, one line per task, with its output; default: table"),
    FLAG(BOOL, struct run_options, keep_order, "keep-order", 'k', NULL,
         "print tasks in the order of their inputs; what waits is on the disk"),
    FLAG(BOOL, struct run_options, line_buffer, "line-buffer", 0, NULL,
         "print the lines of all running tasks as they come"),
    FLAG(BOOL, struct run_options, tag, "tag", 0, NULL,
         "begin each line of output with the task's input and a tab"),
    FLAG(BOOL, struct run_options, dry_run, "dry-run", 0, NULL,
         "only print the commands that would run; exit code 1 if an input cannot be filled in"),
    FLAG(TEXT, struct run_options, halt, "halt", 0, "WHEN",
         "stop when tasks fail: now,fail=N ends those that run, soon,fail=N lets them end; N may be a share "
         "(10%) of "
         "those that have ended, and fail may be success or done"),
    FLAG_ABOVE_0(struct run_options, delay_us, "delay", 0, "TIME", "wait so long between two starts"),
    FLAG(BOOL, struct run_options, shuf, "shuf", 0, NULL, "start the tasks in random order"),
    FLAG_NUMBER(struct run_options, seed, "seed", 0, "N", "with --shuf: the order of that number", 0,
                INT32_MAX),
    FLAG(TEXT, struct run_options, joblog, "joblog", 0, "FILE",
         "write a line to FILE for each task that has ended, before its output is printed"),
    FLAG(BOOL, struct run_options, resume, "resume", 0, NULL,
         "with --joblog: run only tasks that have no line there, and go on with FILE"),
    FLAG(BOOL, struct run_options, resume_failed, "resume-failed", 0, NULL,
         "the same, and run those that failed again"),
    SPEC_FLAGS(struct run_options, spec),
    {0},
};

const char run_details[] =
    "Runs COMMAND once, or once per line or number, SLOTS at a time, on a cluster inside this "
    "process: it needs\n"
    "no daemon. It prints a task's output as a whole when the task ends; --stdout and --stderr "
    "put it into files\n"
    "instead. If there is only one task, its output is printed as it comes. It names failed tasks on stderr, "
    "and puts those with the same error into one "
    "line. Ctrl-C ends\n"
    "running tasks.\n"
    "\n" SPEC_HELP "--class, --estimate and --lost-retries, known from `hawk submit`, make no difference "
    "here: no worker\n"
    "is lost unless this process ends.\n"
    "\n"
    "Exit codes: 0 every task succeeded, 1 a task failed or output could not be written, 2 the "
    "command line\n"
    "is wrong, 128 and the signal's number if a signal ended it: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.\n"
    "\n"
    "examples:\n"
    "  ls *.log | hawk run -j 8 --each-line - -- gzip -9 {}\n"
    "  hawk run --array 1-100 -- ./simulate --seed {}\n";

/* ---- The job ---- */

void run_cancel(struct run *r)
{
    run_parts_stop_reading(r);
    for (uint32_t i = 0; i < r->parts_n; i++)
        if (r->parts[i] && !r->parts[i]->over)
            embedded_feed(r->cluster, ROLE_DIST,
                          &(struct msg){.type = MSG_CANCEL, .cancel = {.job = r->parts[i]->job}});
}

void run_finish(struct run *r)
{
    if (!r->started || r->lines || r->parts_going || r->unlogged || r->exit_code != RUN_GOES_ON)
        return;
    run_clear_progress(r);
    if (!r->options.quiet)
        run_say_summary(r);
    bool all = !r->cut && r->ended_well + r->done_before == r->total;
    if (r->halting)
        all = r->halt.on == HALT_SUCCESS || (r->halt.on == HALT_DONE && r->failed == 0);
    r->exit_code = all && !r->full && !r->output_lost && !r->log_broken ? HAWK_EXIT_OK : HAWK_EXIT_FAILED;
    if (r->inputs_code)
        r->exit_code = r->inputs_code;
    if (r->interrupted)
        r->exit_code = exit_code_of_signal(r->interrupted);
    loop_stop(r->loop);
}

bool run_prints(const struct run *r, const struct msg_task_event *m)
{
    return m->state != TASK_CANCELLED || (r->interrupted && !r->log);
}

void run_deliver(struct run *r, struct run_part *p, const struct msg_task_event *m)
{
    bool failed = m->state == TASK_FAILED || m->state == TASK_LOST;
    bool alone = failed && run_failed_alone(r, p, m);
    bool prints = !r->json && run_prints(r, m), shown = false;
    if (r->json)
        run_json_task(r, p, m);
    if (prints)
        run_print_file(r, p, m, 1);
    /* A task that was not started wrote nothing: only the reason is there, in the same words. */
    if (prints && (alone || m->outcome != OUTCOME_NOT_STARTED))
        shown = run_print_file(r, p, m, 2);
    r->ended++;
    struct blob *input = failed ? run_input(r, p, m->id.task) : NULL;
    if (input)
        failures_add_input(&r->failures, input->data, input->len);
    blob_drop(input);
    r->failed += failed;
    r->cancelled += m->state == TASK_CANCELLED;
    if (alone)
        run_say_failure(r, p, m, shown);
    p->delivered++;
    r->undelivered--;
}

static void on_progress(void *arg)
{
    struct run *r = arg;
    run_show_progress(r);
    loop_timer_set(r->loop, &r->progress, loop_now(r->loop) + PROGRESS_US);
}

static void on_task(struct run *r, const struct msg_task_event *m)
{
    if (m->state == TASK_RUNNING) {
        r->last_started = m->id;
        run_live_begin(r, &m->id);
    }
    if (task_state_final(m->state)) {
        r->unended--;
        run_halt_look(r, m);
        run_log_ended(r, m);
    }
}

static void on_job_end(struct run *r, job_id_t job)
{
    struct run_part *p = run_part_find(r, job);
    p->over = true;
    r->parts_going--;
    run_part_settle(r, p);
    run_log_go_on(r);
    run_finish(r);
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
    } else if (m->type == MSG_TASK_EVENT) {
        on_task(r, &m->task_event);
    } else if (m->type == MSG_JOB_EVENT && job_state_final(m->job_event.state)) {
        on_job_end(r, m->job_event.job);
    }
}

static void on_signal(void *arg, int signo)
{
    struct run *r = arg;
    if (r->interrupted || !r->submitted) {
        embedded_kill(r->cluster);
        r->exit_code = exit_code_of_signal(signo);
        loop_stop(r->loop);
        return;
    }
    r->interrupted = signo;
    run_clear_progress(r);
    if (r->unended > 0)
        fprintf(stderr, "hawk run: ending the tasks that run; once more ends them at once\n");
    run_cancel(r);
    run_finish(r);
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
    /* The rest need not run. Not while it prints: what is cancelled is delivered at once. */
    if (r->started && (r->lines || r->parts_going) && run_unread())
        run_cancel(r);
    run_parts_turn(r);
    run_control_turn(r);
    run_finish(r);
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
    struct embedded_config c = {.slots = r->slots,
                                .workers = 1,
                                .addr = "here",
                                .worker = r->exec_config.worker,
                                .seed = entropy(),
                                .central = &cc,
                                .effect = run_effect,
                                .arg = r};
    return embedded_new(r->loop, exec, &r->exec_config, &c);
}

static void handle_signals(struct run *r)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (!signal_ignored(signals[i]) && loop_signal(r->loop, signals[i], on_signal, r))
            log_warn("%s cannot be handled", strsignal(signals[i]));
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
        run_live_start(r);
        run_control_start(r);
        run_log_start(r);
        run_parts_start(r);
        loop_run(r->loop);
    }
    run_parts_stop_reading(r);
    run_log_close(r);
    run_live_stop(r);
    run_control_stop(r);
    loop_hook_remove(&after);
    loop_timer_clear(r->loop, &r->progress);
    embedded_free(r->cluster);
    loop_free(r->loop);
}

/* Builds the job of what is known of the inputs. Which inputs come by and by only matters if one after the other may
 * run. An exit code. */
static int build(struct run *r, int argc, char **argv)
{
    const struct run_options *o = &r->options;
    int code = spec_build("run", &o->spec, argc, argv, &r->desc, o->shuf || o->dry_run ? NULL : &r->lines);
    if (code)
        return code;
    r->streams = r->desc->flags & JOB_PART;
    if (r->streams) { /* each part would count for itself */
        r->max_fails = r->desc->max_fails;
        r->desc->max_fails = 0;
    }
    return 0;
}

/* Checks what has to do with all inputs, and makes the first part. An exit code. */
static int prepare(struct run *r)
{
    int code = run_control_read(r);
    if (!code)
        code = run_log_open(r);
    if (!code)
        code = run_part_add(r, job_desc_ref(r->desc));
    if (!code && !r->lines)
        code = run_log_look_beyond(r);
    return code;
}

static void choose_output(struct run *r)
{
    if (r->options.line_buffer)
        r->live = LIVE_LINES;
    r->terminal = stderr_redraws();
    r->show_progress = !r->options.quiet && (r->options.progress || r->terminal);
    if (!r->lines)
        run_live_alone(r);
}

/* Runs them, with a directory for what they write. An exit code. */
static int run_all(struct run *r)
{
    struct exec *exec;
    int dir_fd;
    if (output_dir_make(r->dir, sizeof r->dir, &dir_fd)) {
        say_error("run",
                  "no directory for output can be made: %s: %s; set TMPDIR to another directory, by its "
                  "absolute path",
                  r->dir, strerror(errno));
        return HAWK_EXIT_FAILED;
    }
    exec_config_init(&r->exec_config, "run", r->dir);
    r->exec_config.max_running = r->slots;
    r->exec_config.orphan_grace_us = 0; /* without us nobody wants the results */
    if (exec_start(&exec, &r->exec_config)) {
        say_error("run", "no process can be started");
        r->exit_code = HAWK_EXIT_FAILED;
    } else {
        if (r->json)
            run_json_begin();
        run_loop(r, exec);
        if (r->json)
            run_json_end(r);
    }
    output_dir_remove(r->dir, dir_fd);
    return r->exit_code;
}

int run_main(int argc, char **argv)
{
    struct run r = {
        .options = {.spec = {.lost_retries = SPEC_RETRIES_NOT_GIVEN, .all_env = true}, .seed = UINT32_MAX}};
    int at = flags_parse("run", run_flags, NULL, true, argc, argv, &r.options);
    int code = at < 0 ? -at : build(&r, argc - at, argv + at);
    if (code)
        goto done;
    r.json = r.options.output && strcmp(r.options.output, "json") == 0;
    if (spec_retries_given(&r.options.spec))
        say_warning(
            "run",
            "--lost-retries has no effect here: it is for tasks whose worker is lost, and the worker is this "
            "process");
    code = prepare(&r);
    if (!code && r.options.dry_run)
        code = run_dry(&r);
    if (code || r.options.dry_run)
        goto done;
    if (r.desc->tasks == 0) { /* an empty list has succeeded before it begins */
        if (r.json) {
            run_json_begin();
            run_json_end(&r);
        }
        goto done;
    }
    log_init("run", LOG_WARN);
    signal(SIGPIPE, SIG_IGN); /* `| head` ends the job in order; tasks get the signal's default back */
    choose_output(&r);
    code = run_all(&r);
done:
    run_log_close(&r);
    run_parts_free(&r);
    failures_free(&r.failures);
    job_desc_drop(r.desc);
    spec_options_free(&r.options.spec);
    return code;
}
