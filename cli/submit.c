/* hawk submit */
#include "cli/after_flags.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/script.h"
#include "cli/session.h"
#include "cli/show.h"
#include "cli/spec.h"
#include "cli/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct submit_options {
    struct common_options common;
    struct spec_options spec;
    bool wait, progress, results, after_whole, hold;
    struct flag_list after;
    int64_t for_us;
};

const struct flag submit_flags[] = {
    SPEC_FLAGS(struct submit_options, spec),
    SPEC_APP_FLAGS(struct submit_options, spec),
    FLAG(BOOL, struct submit_options, spec.no_pause, "no-pause", 0, NULL,
         "never pause a task of a long job for a short one"),
    FLAG(LIST, struct submit_options, after, "after", 0, AFTER_FLAG_VALUE, AFTER_FLAG_HELP),
    FLAG(BOOL, struct submit_options, after_whole, "after-whole", 0, NULL,
         "with --after: wait for whole jobs; else task by task where both have as many tasks"),
    FLAG(BOOL, struct submit_options, hold, "hold", 'H', NULL,
         "hold it: nothing of it starts before `hawk release`"),
    FLAG(BOOL, struct submit_options, wait, "wait", 'w', NULL,
         "wait until the job has ended; see the exit codes below"),
    FLAG_ABOVE_0(struct submit_options, for_us, "for", 0, "TIME",
                 "with --wait: give up after this time, with exit code 4; the job is cancelled if nobody "
                 "else waits for it"),
    FLAG(BOOL, struct submit_options, progress, "progress", 0, NULL,
         "with --wait: show progress even if stderr is no terminal, as lines"),
    FLAG(BOOL, struct submit_options, results, "results", 0, NULL,
         "with --app and --wait: print the results instead of the job's id"),
    {0},
};

static const struct submit_options no_flags = {
    .spec = {.lost_retries = SPEC_RETRIES_NOT_GIVEN, .takes_script = true}};

static void print_submitted(struct session *s, const struct api_submit_reply *reply)
{
    const char *id = JOB_TEXT(reply->job);
    if (s->mode == OUTPUT_JSON)
        document_print(json_pack("{s:s, s:s, s:s, s:s}", "job", id, "class", show_class(reply->class), "why",
                                 show_why(reply->why), "state", show_job_state(reply->state)));
    else
        printf("%s\n", id);
    fflush(stdout); /* the reader may want to cancel while we wait */
}

/* Workers inside the process that we ask (hawk up) are not lost without it; executors are. */
static void warn_of_retries(const struct session *s, const struct submit_options *o)
{
    if (spec_retries_given(&o->spec) && !o->spec.app && client_is_embedded(s->client))
        say_warning(s->command, "--lost-retries has no effect on `hawk up`: it is for tasks whose worker is "
                                "lost, and the workers "
                                "are `hawk up` itself");
}

/* In JSON there is one document: the job's end if the command waits for it, else what was submitted. */
static int submit_job(struct session *s, const struct submit_options *o, struct job_desc *d)
{
    struct api_submit_reply reply;
    int err = client_submit(s->client, d, &reply);
    if (err == HAWK_EINVALID || err == HAWK_ETOO_LARGE) {
        session_failed(s);
        return HAWK_EXIT_USAGE;
    }
    if (err)
        return session_failed(s);
    warn_of_retries(s, o);
    if ((s->mode != OUTPUT_JSON || !o->wait) && !o->results)
        print_submitted(s, &reply);
    struct selection one = {.jobs = &reply.job, .n = 1};
    struct waiting how = {
        .progress = o->progress, .attended = true, .results = o->results, .for_us = o->for_us};
    return o->wait ? wait_jobs(s, &one, &how) : HAWK_EXIT_OK;
}

static void submit_options_free(struct submit_options *o)
{
    spec_options_free(&o->spec);
    flag_list_free(&o->after);
}

static int parse_flags(const char *where, int argc, char **argv, void *o)
{
    return flags_parse(where, submit_flags, common_flags, true, argc, argv, o);
}

/* Whether a command is missing, and may stand on standard input. */
static bool lacks_command(const struct submit_options *o, int argc, char **argv, int first)
{
    return first == argc && strcmp(argv[first - 1], "--") != 0 && !o->spec.app && !o->spec.timer &&
           !spec_reads_stdin(&o->spec) && !isatty(STDIN_FILENO);
}

/* Reads the flags, with those of a script. Returns the index of the command, or the negative of an exit code. */
static int read_flags(int *argc, char ***argv, struct script *script, struct submit_options *o)
{
    struct submit_options of_script = no_flags;
    int first = parse_flags((*argv)[0], *argc, *argv, o);
    int exit_code = first < 0 ? -first
                    : lacks_command(o, *argc, *argv, first)
                        ? script_read_stdin(*argc, *argv, first, parse_flags, &of_script, script)
                        : script_read(*argc, *argv, first, parse_flags, &of_script, script);
    if (exit_code || !script->argv) {
        submit_options_free(&of_script);
        return exit_code ? -exit_code : first;
    }
    /* Several sources are combined, so the user's would not go before the script's. */
    if (o->spec.inputs.sources.n) {
        flag_list_free(&of_script.spec.inputs.sources);
        of_script.spec.inputs = (struct input_options){0};
    }
    submit_options_free(o);
    *o = of_script;
    (void)parse_flags((*argv)[0], first, *argv, o);
    o->spec.script = script->text;
    o->spec.script_len = script->len;
    if (!o->spec.name && script->text) {
        o->spec.name = "stdin";
    } else if (!o->spec.name) {
        const char *slash = strrchr((*argv)[first], '/');
        o->spec.name = slash ? slash + 1 : (*argv)[first];
    }
    *argc = script->argc;
    *argv = script->argv;
    return script->first;
}

/* A job of no tasks has succeeded before it begins. It has no id, but a word that all commands take for one. */
static int submit_nothing(const struct submit_options *o)
{
    bool json = o->common.output && strcmp(o->common.output, "json") == 0;
    fprintf(stderr, "hawk submit: the list of inputs is empty: there is nothing to do\n");
    if (json && o->wait)
        document_print(json_pack("{s:[]}", "jobs"));
    else if (json)
        document_print(json_pack("{s:s, s:n, s:n, s:s}", "job", SELECT_NONE, "class", "why", "state",
                                 show_job_state(JOB_DONE)));
    else if (!o->results)
        puts(SELECT_NONE);
    return HAWK_EXIT_OK;
}

int submit_main(int argc, char **argv)
{
    struct submit_options o = no_flags;
    struct script script = {0};
    struct session s = {.command = argv[0]};
    struct job_desc *d = NULL;
    int exit_code = 0;
    int first = read_flags(&argc, &argv, &script, &o);
    if (first < 0)
        exit_code = -first;
    if (!exit_code)
        exit_code = command_may_print(argv[0]);
    /* The local `hawk up` runs tasks here, and for us. */
    const struct client_options options = session_client(&o.common);
    o.spec.all_env = client_finds_up(&options);
    if (!exit_code)
        exit_code = spec_build(argv[0], &o.spec, argc - first, argv + first, &d, NULL);
    if (!exit_code)
        exit_code = after_flags_check(argv[0], &o.after);
    if (!exit_code && o.after_whole && o.after.n == 0)
        exit_code = usage_error("%s: --after-whole goes with --after", argv[0]);
    if (!exit_code && o.results && (!o.wait || !o.spec.app))
        exit_code = usage_error("%s: --results goes with --app and --wait", argv[0]);
    if (!exit_code && o.for_us && !o.wait)
        exit_code = usage_error("%s: --for goes with --wait", argv[0]);
    if (!exit_code && d->tasks == 0) {
        exit_code = submit_nothing(&o);
        goto done;
    }
    /* Nobody waits for the job, so the dist must keep it (DESIGN 3.8). */
    if (!exit_code && !o.wait)
        d->flags |= JOB_DETACHED;
    if (!exit_code && o.hold)
        d->flags |= JOB_SUBMIT_HELD;
    if (!exit_code && o.after_whole)
        d->flags |= JOB_AFTER_WHOLE;
    if (!exit_code)
        exit_code = session_open(&s, argv[0], &o.common);
    if (!exit_code)
        exit_code = after_flags_use(&s, &o.after, &d->after);
    if (!exit_code)
        exit_code = submit_job(&s, &o, d);
done:
    session_close(&s);
    job_desc_drop(d);
    submit_options_free(&o);
    script_free(&script);
    return exit_code;
}
