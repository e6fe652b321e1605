/* Job descriptions from command lines. */
#include "cli/spec.h"

#include "base/mem.h"
#include "base/units.h"
#include "cli/document.h"
#include "cli/lines.h"
#include "cli/retries.h"
#include "cli/session.h"
#include "libhawk/client.h"
#include "template/template.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_WAIT_MS 10 /* what is piped here comes as soon as we do */

/* ---- Places ---- */

static bool has_places(int argc, char **argv, uint32_t columns)
{
    for (int i = 0; i < argc; i++)
        if (place_stands_in(argv[i], columns))
            return true;
    return false;
}

/* Whether a task's input takes a place anywhere. */
static bool needs_input(const struct job_desc *d, int argc, char **argv)
{
    const struct blob *const texts[] = {d->stdout_pattern, d->stderr_pattern};
    bool needs = has_places(argc, argv, d->columns) || d->each_env.n > 0 || (d->flags & JOB_EACH_CWD);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        needs = needs || (texts[i] && place_stands_in(texts[i]->data, d->columns));
    return needs;
}

/* A flag's text, with names of columns replaced; NULL: it is not given. */
static struct blob *numbered_blob(const struct inputs *in, const char *text)
{
    if (!text)
        return NULL;
    char *numbered = inputs_numbered(in, text);
    struct blob *b = blob_str(numbered);
    free(numbered);
    return b;
}

/* ---- Files ---- */

/* Gives the whole file that `flag` names to every task. */
static int use_input(const char *command, const char *flag, const char *path, struct job_desc *d)
{
    size_t len;
    char *data = inputs_file(command, flag, path, LIMIT_SPEC_BYTES, &len);
    int exit_code = 0;
    if (!data)
        return HAWK_EXIT_USAGE;
    if (len > LIMIT_SPEC_BYTES)
        exit_code = usage_error("%s: --%s: %s has more than %u bytes, the limit; let the tasks read a file",
                                command, flag, path, LIMIT_SPEC_BYTES);
    else
        d->input = blob_new(data, len);
    free(data);
    return exit_code;
}

/* ---- Environment, directory, name ---- */

static bool names(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && (entry[len] == '=' || entry[len] == '\0');
}

/* Whether a later --env sets the same variable. */
static bool overridden(const char *entry, const struct flag_list *env, uint32_t from)
{
    size_t len = strcspn(entry, "=");
    for (uint32_t i = from; i < env->n; i++)
        if (names(env->v[i], entry, len))
            return true;
    return false;
}

/* Whether a comma separated list has the variable; "LC_*" is all that begin so. */
static bool lists(const char *list, const char *entry)
{
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (len > 0 && list[len - 1] == '*' ? strncmp(entry, list, len - 1) == 0 : names(entry, list, len))
            return true;
    }
    return false;
}

/* Whether tasks get this variable of ours, unless --env says otherwise. */
static bool is_exported(const struct spec_options *o, const char *entry)
{
    const char *which = o->exported    ? o->exported
                        : o->clean_env ? "NONE"
                        : o->all_env   ? "ALL"
                                       : SPEC_EXPORTED;
    /* The cluster's token is for clients and not for tasks. Malformed entries exist: `env` keeps them. */
    if (!strchr(entry, '=') || *entry == '=' || strncmp(entry, "HAWK_TOKEN", 10) == 0)
        return false;
    return strcasecmp(which, "ALL") == 0 || (strcasecmp(which, "NONE") != 0 && lists(which, entry));
}

/* The entry of our environment for a name; NULL: it is not set here. */
static const char *entry_of(const char *name)
{
    for (char **e = environ; *name && !strchr(name, '=') && *e; e++)
        if (names(*e, name, strlen(name)) && strchr(*e, '='))
            return *e;
    return NULL;
}

static int use_env(const char *command, const struct spec_options *o, const struct inputs *in,
                   struct job_desc *d)
{
    if (o->exported && strchr(o->exported, '='))
        return usage_error("%s: --export takes names: a value is set by --env, as in --env %.*s", command,
                           (int)strcspn(o->exported, ","), o->exported);
    for (char **e = environ; *e; e++)
        if (is_exported(o, *e) && !overridden(*e, &o->env, 0))
            strings_add(&d->env, *e);
    for (uint32_t i = 0; i < o->env.n; i++) {
        const char *entry = o->env.v[i], *ours = entry_of(entry);
        if (ours && !overridden(entry, &o->env, i + 1))
            strings_add(&d->env, ours);
        if (ours)
            continue;
        if (!strchr(entry, '=') || *entry == '=')
            return usage_error("%s: --env takes NAME=VALUE, or NAME of a variable that is set here, not '%s'",
                               command, entry);
        if (overridden(entry, &o->env, i + 1))
            continue;
        char *numbered = inputs_numbered(in, entry);
        bool each = in->n && place_stands_in(numbered, in->columns);
        strings_add(each ? &d->each_env : &d->env, each ? numbered : entry);
        free(numbered);
    }
    /* No environment at all would mean the worker's own. */
    if (d->env.n == 0)
        strings_add(&d->env, "HAWK=1");
    return 0;
}

static int use_cwd(const char *command, const char *dir, const struct inputs *in, struct job_desc *d)
{
    char here[PATH_MAX] = "", path[2 * PATH_MAX];
    if ((!dir || *dir != '/') && !getcwd(here, sizeof here))
        return usage_error("%s: cannot tell the current directory: %s; name one with --cwd", command,
                           strerror(errno));
    char *numbered = inputs_numbered(in, dir ? dir : "");
    bool each = in->n && place_stands_in(numbered, in->columns), whole = *numbered == '/';
    if (dir && !whole)
        snprintf(path, sizeof path, "%s/%s%s", strcmp(here, "/") == 0 ? "" : here,
                 each && *numbered == '{' ? "./" : "", numbered); /* exec/output.h output_cwd() */
    d->cwd = blob_str(!dir ? here : whole ? numbered : path);
    free(numbered);
    d->flags |= each ? JOB_EACH_CWD : 0;
    if (each && !whole && place_stands_in(here, in->columns))
        return usage_error(
            "%s: --cwd: the name of the current directory, %s, would be filled in, too: write the "
            "whole path",
            command, here);
    return 0;
}

/* A job without a name is named after its command line, so that the same command line has a history. */
static struct blob *name_of(const struct spec_options *o, int argc, char **argv)
{
    char name[LIMIT_NAME_BYTES + 1];
    size_t n = 0;
    if (o->name || o->app)
        return blob_str(o->name ? o->name : o->app);
    for (int i = o->timer ? -1 : 0; i < argc; i++) {
        const char *word = i < 0 ? "timer" : argv[i];
        if (i == 0 && !o->timer && strrchr(word, '/'))
            word = strrchr(word, '/') + 1;
        for (const char *c = i > 0 || (i == 0 && o->timer) ? " " : ""; *c && n < LIMIT_NAME_BYTES; c++)
            name[n++] = *c;
        for (; *word && n < LIMIT_NAME_BYTES; word++)
            name[n++] = *word < ' ' || *word > '~' ? '?' : *word;
    }
    name[n] = '\0';
    return blob_str(name);
}

static enum class_tag tag_of(const char *class)
{
    for (int tag = 0; class && tag < TAG_COUNT; tag++)
        if (strcmp(class, tag_text(tag)) == 0)
            return tag;
    return TAG_AUTO;
}

/* ---- Inputs that a program reads as code, and that nobody reads ---- */

/* An input may come from anybody: it may be a file's name, say. A number is harmless. */
static void warn_of_readers(const char *command, const struct inputs *in, int argc, char **argv)
{
    struct template *t = template_command((uint32_t)argc, (const char *const *)argv, in->columns, true);
    const char *reader = in->lines ? template_reader(t) : NULL;
    if (reader)
        say_warning(
            command,
            "an input is put into what `%s` reads as code, and would run there, as in $(...); read the "
            "variable HAWK_INPUT there (a shell: \"$HAWK_INPUT\"), which is the input as it is",
            reader);
    template_free(t);
}

static void warn_of_columns(const char *command, const struct spec_options *o, const struct inputs *in,
                            int argc, char **argv)
{
    const char *const others[] = {o->cwd, o->stdout_pattern, o->stderr_pattern};
    for (int i = 0; i < argc; i++)
        inputs_warn_unknown(command, in, argv[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i])
            inputs_warn_unknown(command, in, others[i]);
    for (uint32_t i = 0; i < o->env.n; i++)
        inputs_warn_unknown(command, in, o->env.v[i]);
}

/* GNU parallel's separators mean nothing here: what stands behind them would be arguments of one task. */
static void warn_of_separators(const char *command, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        bool files = strcmp(argv[i], "::::") == 0;
        if (strcmp(slash ? slash + 1 : argv[i], "parallel") == 0)
            return;
        if (!files && strcmp(argv[i], ":::") != 0)
            continue;
        say_warning(command,
                    "'%s' and what stands behind it go to the command as they are: %s before the command",
                    argv[i], files ? "name a file of inputs by -l FILE" : "give inputs by --input WORD...");
        return;
    }
}

/* Slurm's %a is an array's number, and ours the attempt: then all tasks share a file. */
static void warn_of_attempts(const char *command, const struct spec_options *o, const struct job_desc *d)
{
    const struct blob *const patterns[] = {d->stdout_pattern, d->stderr_pattern};
    bool array = false;
    for (uint32_t i = 0; i < o->inputs.sources.n; i++)
        array = array || strcmp(o->inputs.sources.flags[i], "array") == 0;
    for (int i = 0; i < 2 && array && d->tasks > 1; i++) {
        const char *text = patterns[i] ? patterns[i]->data : "", *p = text;
        while ((p = strchr(p, '%')) && p[1] != 'a')
            p += 2;
        if (p && !place_tells_tasks_apart(text, d->flags & JOB_EACH_ARG, d->columns))
            say_warning(command,
                        "%s is one file of all %u tasks: %%a is the attempt; {} is the array's number", text,
                        d->tasks);
    }
}

bool spec_reads_stdin(const struct spec_options *o)
{
    const struct flag_list *l = &o->inputs.sources;
    for (uint32_t i = 0; i < l->n; i++)
        if (strcmp(l->flags[i], "each-line") == 0 && strcmp(l->v[i], "-") == 0)
            return true;
    return (o->input && strcmp(o->input, "-") == 0) || (o->payload_file && strcmp(o->payload_file, "-") == 0);
}

/* Whether our parent has the same standard input, as a shell's loop has: `seq 3 | while read x; do hawk run ...`. */
static bool is_inherited(const struct stat *st)
{
    struct stat theirs;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)getppid());
    return stat(path, &theirs) == 0 && theirs.st_dev == st->st_dev && theirs.st_ino == st->st_ino;
}

/* What is piped to us alone and not asked for is most likely meant as a list. */
static void warn_of_pipe(const char *command, const struct spec_options *o)
{
    struct stat st;
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int bytes = 0;
    if (spec_reads_stdin(o) || fstat(STDIN_FILENO, &st) || !S_ISFIFO(st.st_mode) || is_inherited(&st) ||
        poll(&p, 1, PIPE_WAIT_MS) <= 0 || ioctl(STDIN_FILENO, FIONREAD, &bytes) || bytes == 0)
        return;
    say_warning(
        command,
        "nobody reads the standard input that is piped here: --each-line - makes a task of each line, "
        "--stdin - gives it to every task, and </dev/null says that it is not meant");
}

/* ---- All of it ---- */

static int check_pattern(const char *command, const char *flag, const char *pattern)
{
    if (pattern && !*pattern)
        return usage_error("%s: --%s takes a file name (\"none\": discard it), not an empty one", command,
                           flag);
    for (const char *p = pattern; p && (p = strchr(p, '%')); p += 2)
        if (!p[1] || !strchr("Jjtawn%", p[1]))
            return usage_error(
                "%s: --%s: there is no placeholder '%%%.1s' in '%s': there are %%J %%j %%t %%a %%w "
                "%%n, and %%%% for a percent sign",
                command, flag, p + 1, pattern);
    return 0;
}

/* Whether there are inputs besides numbers. */
static bool lists_inputs(const struct spec_options *o)
{
    for (uint32_t i = 0; i < o->inputs.sources.n; i++)
        if (strcmp(o->inputs.sources.flags[i], "array") != 0)
            return true;
    return false;
}

/* Refuses flags that say how commands run: executors do not use them. */
static int check_app(const char *command, const struct spec_options *o, int argc)
{
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"timer", o->timer},
                  {"stdin", o->input != NULL},
                  {"stdout", o->stdout_pattern != NULL},
                  {"stderr", o->stderr_pattern != NULL},
                  {"cwd", o->cwd != NULL},
                  {"env", o->env.n > 0},
                  {"clean-env", o->clean_env},
                  {"export", o->exported != NULL}};
    if (!o->app && (o->payload || o->payload_file))
        return usage_error("%s: --%s goes with --app, which names the application", command,
                           o->payload ? "payload" : "payload-file");
    if (!o->app)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].given)
            return usage_error("%s: --%s is about commands, and --app runs none", command, others[i].flag);
    if (argc > 0)
        return usage_error("%s: --app runs no command: leave it out (--payload is what tasks are given)",
                           command);
    if (!*o->app || strlen(o->app) > LIMIT_NAME_BYTES)
        return usage_error("%s: --app takes a name of 1 to %u bytes", command, LIMIT_NAME_BYTES);
    if ((o->payload != NULL) + (o->payload_file != NULL) + lists_inputs(o) > 1)
        return usage_error("%s: --payload, --payload-file and --each-line all say what tasks are given: give "
                           "one",
                           command);
    return 0;
}

/* Whether the only word of a list is a sign like %, and an argument of the command: a placeholder for xargs -I. */
static bool is_placeholder(const struct flag_list *l, uint32_t i, int argc, char **argv)
{
    const char *word = l->v[i] ? l->v[i] : "";
    bool alone = *l->flags[i] != '+' && (i + 1 == l->n || *l->flags[i + 1] != '+'), stands = false;
    for (int k = 0; k < argc; k++)
        stands = stands || strcmp(argv[k], word) == 0;
    for (const char *c = word; *c && stands; c++)
        stands = ispunct((unsigned char)*c) && !strchr("-./", *c);
    return strcmp(word, "{}") == 0 || (*word && alone && stands);
}

static int check_words(const char *command, const struct flag_list *l, int argc, char **argv)
{
    for (uint32_t i = 0; i < l->n; i++) {
        bool word = *l->flags[i] == '+' || strcmp(l->flags[i], "input") == 0;
        if (word && is_placeholder(l, i, argc, argv))
            return usage_error(
                "%s: --input is a list of inputs, and names no placeholder, as -I of xargs and GNU parallel: "
                "leave '%s' out, and write {} in the command where the input goes",
                command, l->v[i]);
    }
    return 0;
}

static int check_options(const char *command, const struct spec_options *o, int argc, char **argv)
{
    int exit_code = check_app(command, o, argc);
    if (!exit_code)
        exit_code = check_words(command, &o->inputs.sources, argc, argv);
    if (exit_code)
        return exit_code;
    if (o->input && strcmp(o->input, "-") == 0 &&
        spec_reads_stdin(&(struct spec_options){.inputs.sources = o->inputs.sources}))
        return usage_error("%s: --each-line and --stdin cannot both read standard input", command);
    if (o->script && (o->input || spec_reads_stdin(o)))
        return usage_error("%s: standard input has the script, and is that of the tasks: leave out --%s, or "
                           "submit the script as a file",
                           command, o->input ? "stdin" : "each-line -");
    if ((exit_code = check_pattern(command, "stdout", o->stdout_pattern)) ||
        (exit_code = check_pattern(command, "stderr", o->stderr_pattern)))
        return exit_code;
    if (o->cwd && !*o->cwd)
        return usage_error("%s: --cwd takes a directory, not an empty name", command);
    if (o->timer && argc > 1)
        return usage_error("%s: --timer takes one duration in place of the command", command);
    if (argc == 0 && !o->app && !(o->timer && lists_inputs(o)))
        return usage_error(
            "%s: the job has no command: write it after the flags, as in `hawk %s -- echo hello`%s", command,
            command, o->takes_script ? "; `hawk submit -` reads a script from standard input" : "");
    if (o->name && (!*o->name || strlen(o->name) > LIMIT_NAME_BYTES))
        return usage_error("%s: --name takes a name of 1 to %u bytes", command, LIMIT_NAME_BYTES);
    return 0;
}

static int check_timer(const char *command, const struct spec_options *o, int argc, char **argv,
                       uint32_t columns)
{
    int64_t us = 0;
    if (o->timer && argc && lists_inputs(o) && !has_places(argc, argv, columns))
        return usage_error(
            "%s: --timer takes its times from the lines of --each-line: leave out '%s', or write {} "
            "where the line goes",
            command, argv[0]);
    if (o->timer && argc && !has_places(argc, argv, columns) && duration_parse(argv[0], &us))
        return usage_error("%s: --timer takes a duration like 250ms or 30s in place of the command, not '%s'",
                           command, argv[0]);
    return 0;
}

/* The job's tasks. A plain range of numbers needs no arguments, unless somebody reads them. */
static int use_inputs(const char *command, const struct spec_options *o, const struct inputs *in, int argc,
                      char **argv, struct job_desc *d)
{
    bool numbers = o->app && !o->payload && !o->payload_file; /* only its number tells a task from another */
    int exit_code = 0;
    d->columns = in->columns;
    if (in->n == 0)
        d->tasks = 1;
    else if (in->range && !numbers && !needs_input(d, argc, argv))
        d->tasks = in->last - in->first + 1;
    else
        exit_code = inputs_use(command, in, o->inputs.link, d);
    d->first_index = in->range ? in->first : 0;
    bool aside = d->args.n && !o->app && !in->lines && !has_places(argc, argv, d->columns);
    if (aside && o->timer) { /* its time is told, and it has no HAWK_INPUT */
        free(d->args.off);
        free(d->args.data);
        d->args = (struct task_args){0};
    } else if (aside) {
        d->flags |= JOB_ARG_ASIDE; /* however the numbers were written */
    }
    if (d->args.n)
        d->flags |= JOB_EACH_ARG;
    if (!exit_code && o->app && in->columns > 1)
        return usage_error("%s: --app takes inputs of one value, not of %u", command, in->columns);
    return exit_code;
}

static int fill_description(const char *command, const struct spec_options *o, const struct inputs *in,
                            int argc, char **argv, struct job_desc *d)
{
    int exit_code = 0;
    d->kind = o->app ? PAYLOAD_APP : o->timer ? PAYLOAD_TIMER : PAYLOAD_COMMAND;
    d->app = o->app ? blob_str(o->app) : NULL;
    d->tag = (uint8_t)tag_of(o->class);
    d->estimate_us = o->estimate_us;
    d->time_limit_us = o->time_limit_us;
    d->mem_bytes = o->mem_bytes;
    d->pids = o->pids;
    if ((d->mem_bytes || d->pids) && d->kind != PAYLOAD_COMMAND)
        return usage_error("%s: --%s is for commands, not for --%s", command, d->mem_bytes ? "mem" : "pids",
                           o->app ? "app" : "timer");
    d->max_fails = o->max_fails;
    d->max_running = o->max_running;
    if (in->max_running && (d->max_running == 0 || in->max_running < d->max_running))
        d->max_running = in->max_running;
    if ((exit_code = retries_read(command, o, d)))
        return exit_code;
    d->umask = client_umask();
    d->ancestors = client_ancestors();
    if (o->at_most_once)
        d->flags |= JOB_AT_MOST_ONCE;
    if (o->no_pause)
        d->flags |= JOB_NO_PAUSE;
    for (int i = 0; i < argc; i++)
        strings_add(&d->argv, argv[i]);
    blob_drop(d->name);
    blob_drop(d->user);
    d->name = name_of(o, argc, argv);
    warn_of_readers(command, in, argc, argv);
    warn_of_columns(command, o, in, argc, argv);
    if (!o->takes_stdin) /* `hawk exec` has no inputs */
        warn_of_separators(command, argc, argv);
    d->user = blob_str(user_name(command));
    d->stdout_pattern = numbered_blob(in, o->stdout_pattern);
    d->stderr_pattern = numbered_blob(in, o->stderr_pattern);
    if (o->script)
        d->input = blob_new(o->script, o->script_len);
    else if (!exit_code && o->input)
        exit_code = use_input(command, "stdin", o->input, d);
    if (!exit_code && o->payload_file)
        exit_code = use_input(command, "payload-file", o->payload_file, d);
    else if (o->payload)
        d->input = blob_str(o->payload);
    if (!exit_code && !o->app && !o->timer)
        exit_code = use_env(command, o, in, d);
    if (!exit_code && !o->app)
        exit_code = use_cwd(command, o->cwd, in, d);
    return exit_code ? exit_code : use_inputs(command, o, in, argc, argv, d);
}

/* The command, with names of columns replaced. */
static int build_numbered(const char *command, const struct spec_options *o, const struct inputs *in,
                          int argc, char **argv, struct job_desc *d)
{
    char **words = xcalloc((size_t)argc + 1, sizeof *words), why[256];
    for (int i = 0; i < argc; i++)
        words[i] = inputs_numbered(in, argv[i]);
    int exit_code = check_timer(command, o, argc, words, in->columns);
    if (!exit_code)
        exit_code = fill_description(command, o, in, argc, words, d);
    if (!exit_code)
        warn_of_attempts(command, o, d);
    if (!exit_code && d->tasks && job_submission_check(d, why, sizeof why))
        exit_code = usage_error("%s: %s", command, why);
    for (int i = 0; i < argc; i++)
        free(words[i]);
    free(words);
    return exit_code;
}

int spec_build(const char *command, const struct spec_options *o, int argc, char **argv, struct job_desc **d,
               struct lines **rest)
{
    struct inputs in = {0};
    struct lines *more = NULL;
    int exit_code = check_options(command, o, argc, argv);
    if (!exit_code)
        exit_code = inputs_read(command, &o->inputs, &in, rest ? &more : NULL);
    struct job_desc *made = job_desc_new();
    if (more)
        made->flags |= JOB_PART;
    if (!exit_code)
        exit_code = build_numbered(command, o, &in, argc, argv, made);
    inputs_free(&in);
    if (!exit_code && !o->takes_stdin)
        warn_of_pipe(command, o);
    if (exit_code || (more && lines_over(more))) {
        lines_close(more);
        more = NULL;
    }
    if (exit_code)
        job_desc_drop(made);
    else
        *d = made;
    if (rest)
        *rest = more;
    return exit_code;
}
