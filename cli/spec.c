/* Job descriptions from command lines. */
#include "cli/spec.h"

#include "base/mem.h"
#include "base/units.h"
#include "cli/document.h"
#include "cli/retries.h"
#include "cli/session.h"
#include "libhawk/client.h"
#include "template/template.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Arrays ---- */

#define ARRAY_NUMBER_MAX (UINT32_MAX - 1)

int array_parse(const char *text, uint32_t *first, uint32_t *tasks, char *why, size_t size)
{
    char from[24];
    uint64_t a = 0, b = 0;
    size_t len = strcspn(text, "-");
    if (len >= sizeof from || text[len] != '-')
        goto malformed;
    memcpy(from, text, len);
    from[len] = '\0';
    if (strchr(text + len, ':')) {
        snprintf(why, size,
                 "--array %s: steps are not supported; use `seq A STEP B | hawk submit --each-line -`", text);
        return HAWK_EINVALID;
    }
    int err = u64_parse(from, 0, ARRAY_NUMBER_MAX, &a),
        err_b = u64_parse(text + len + 1, 0, ARRAY_NUMBER_MAX, &b);
    err = err == HAWK_EINVALID || !err_b ? err : err_b;
    if (err == HAWK_ETOO_LARGE) {
        snprintf(why, size, "--array %s: the numbers end at %u, and a job has at most %u tasks", text,
                 ARRAY_NUMBER_MAX, LIMIT_TASKS_PER_JOB);
        return err;
    }
    if (err)
        goto malformed;
    if (a > b) {
        snprintf(why, size, "--array %s has no tasks: it ends before it begins", text);
        return HAWK_EINVALID;
    }
    if (b - a >= LIMIT_TASKS_PER_JOB) {
        snprintf(why, size, "--array %s has %llu tasks, the limit is %u", text, (unsigned long long)b - a + 1,
                 LIMIT_TASKS_PER_JOB);
        return HAWK_ETOO_LARGE;
    }
    *first = (uint32_t)a;
    *tasks = (uint32_t)(b - a + 1);
    return 0;
malformed:
    snprintf(why, size, "--array takes two whole numbers A-B, like 1-1000, not '%s'", text);
    return HAWK_EINVALID;
}

static bool has_places(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (place_stands_in(argv[i], 1))
            return true;
    return false;
}

/* Whether a task's input takes a place anywhere. */
static bool needs_input(const struct spec_options *o, int argc, char **argv)
{
    const char *const texts[] = {o->cwd, o->stdout_pattern, o->stderr_pattern};
    bool needs = has_places(argc, argv);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        needs = needs || (texts[i] && place_stands_in(texts[i], 1));
    for (uint32_t i = 0; i < o->env.n; i++)
        needs = needs || place_stands_in(o->env.v[i], 1);
    return needs;
}

static int use_array(const char *command, const char *text, bool places, struct job_desc *d)
{
    char why[200], number[16];
    if (array_parse(text, &d->first_index, &d->tasks, why, sizeof why))
        return usage_error("%s: %s", command, why);
    for (uint32_t i = 0; places && i < d->tasks; i++) {
        int n = snprintf(number, sizeof number, "%u", d->first_index + i);
        task_args_add(&d->args, number, (size_t)n);
    }
    return 0;
}

/* ---- Files ---- */

/* Opens FILE, or stdin for "-"; NULL after a message. */
static FILE *open_input(const char *command, const char *flag, const char *path)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!f)
        usage_error("%s: --%s: cannot open %s: %s", command, flag, path, strerror(errno));
    return f;
}

static void close_input(FILE *f)
{
    if (f != stdin)
        fclose(f);
}

/* Makes one task of each line. 0, or HAWK_EXIT_USAGE. */
static int use_lines(const char *command, const char *path, struct job_desc *d)
{
    FILE *f = open_input(command, "each-line", path);
    char *line = NULL;
    size_t cap = 0, bytes = 0, number = 0;
    int exit_code = 0;
    if (!f)
        return HAWK_EXIT_USAGE;
    for (ssize_t n; !exit_code && (n = getline(&line, &cap, f)) >= 0;) {
        size_t len = (size_t)n;
        number++;
        if (len && line[len - 1] == '\n')
            len--;
        if (len == 0)
            continue;
        bytes += len;
        if (memchr(line, '\0', len))
            exit_code = usage_error("%s: --each-line: %s, line %zu: a NUL byte, which no argument can have",
                                    command, path, number);
        else if (d->tasks == LIMIT_TASKS_PER_JOB)
            exit_code = usage_error("%s: --each-line: %s has more than %u lines, the limit of tasks in a job",
                                    command, path, LIMIT_TASKS_PER_JOB);
        else if (bytes > LIMIT_JOB_BYTES)
            exit_code = usage_error("%s: --each-line: %s has more than %u bytes, the limit of a job", command,
                                    path, LIMIT_JOB_BYTES);
        else {
            task_args_add(&d->args, line, len);
            d->tasks++;
        }
    }
    if (!exit_code && ferror(f))
        exit_code = usage_error("%s: --each-line: cannot read %s: %s", command, path, strerror(errno));
    else if (!exit_code && d->tasks == 0)
        exit_code =
            usage_error("%s: --each-line: %s has no lines, so the job would have no tasks", command, path);
    free(line);
    close_input(f);
    return exit_code;
}

/* Gives the whole file that `flag` names to every task. */
static int use_input(const char *command, const char *flag, const char *path, struct job_desc *d)
{
    FILE *f = open_input(command, flag, path);
    if (!f)
        return HAWK_EXIT_USAGE;
    char *data = xmalloc(LIMIT_SPEC_BYTES + 1);
    size_t len = fread(data, 1, LIMIT_SPEC_BYTES + 1, f);
    int exit_code = 0;
    if (ferror(f))
        exit_code = usage_error("%s: --%s: cannot read %s: %s", command, flag, path, strerror(errno));
    else if (len > LIMIT_SPEC_BYTES)
        exit_code = usage_error("%s: --%s: %s has more than %u bytes, the limit; let the tasks read a file",
                                command, flag, path, LIMIT_SPEC_BYTES);
    else
        d->input = blob_new(data, len);
    free(data);
    close_input(f);
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
    return strcmp(which, "ALL") == 0 || (strcmp(which, "NONE") != 0 && lists(which, entry));
}

/* The entry of our environment for a name; NULL: it is not set here. */
static const char *entry_of(const char *name)
{
    for (char **e = environ; *name && !strchr(name, '=') && *e; e++)
        if (names(*e, name, strlen(name)) && strchr(*e, '='))
            return *e;
    return NULL;
}

static int use_env(const char *command, const struct spec_options *o, struct job_desc *d)
{
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
        bool each = (o->array || o->each_line) && place_stands_in(entry, 1);
        if (!overridden(entry, &o->env, i + 1))
            strings_add(each ? &d->each_env : &d->env, entry);
    }
    /* No environment at all would mean the worker's own. */
    if (d->env.n == 0)
        strings_add(&d->env, "HAWK=1");
    return 0;
}

static int use_cwd(const char *command, const struct spec_options *o, struct job_desc *d)
{
    const char *dir = o->cwd;
    char here[PATH_MAX] = "", path[2 * PATH_MAX];
    if ((!dir || *dir != '/') && !getcwd(here, sizeof here))
        return usage_error("%s: cannot tell the current directory: %s; name one with --cwd", command,
                           strerror(errno));
    if (dir && *dir != '/')
        snprintf(path, sizeof path, "%s/%s", strcmp(here, "/") == 0 ? "" : here, dir);
    d->cwd = blob_str(!dir ? here : *dir == '/' ? dir : path);
    if (!dir || !(o->array || o->each_line) || !place_stands_in(dir, 1))
        return 0;
    if (*dir != '/' && place_stands_in(here, 1))
        return usage_error(
            "%s: --cwd: the name of the current directory, %s, would be filled in, too: write the whole "
            "path",
            command, here);
    d->flags |= JOB_EACH_CWD;
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

/* ---- Lines that a program reads as code ---- */

/* A line may come from anybody: it may be a file's name, say. A number is harmless. */
static void warn_of_readers(const char *command, const struct spec_options *o, int argc, char **argv)
{
    struct template *t = template_command((uint32_t)argc, (const char *const *)argv, 1);
    const char *reader = o->each_line ? template_reader(t) : NULL;
    if (reader)
        say_warning(command,
                    "a line is put into what `%s` reads as code, and would run there, as in $(...); write "
                    "\"$HAWK_INPUT\", which is the line as it is",
                    reader);
    template_free(t);
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
    if ((o->payload != NULL) + (o->payload_file != NULL) + (o->each_line != NULL) > 1)
        return usage_error("%s: --payload, --payload-file and --each-line all say what tasks are given: give "
                           "one",
                           command);
    return 0;
}

static int check_options(const char *command, const struct spec_options *o, int argc)
{
    int exit_code = check_app(command, o, argc);
    if (exit_code)
        return exit_code;
    if (o->array && o->each_line)
        return usage_error("%s: --array and --each-line both say which tasks there are: give one", command);
    if (o->each_line && o->input && strcmp(o->each_line, "-") == 0 && strcmp(o->input, "-") == 0)
        return usage_error("%s: --each-line and --stdin cannot both read standard input", command);
    if ((exit_code = check_pattern(command, "stdout", o->stdout_pattern)) ||
        (exit_code = check_pattern(command, "stderr", o->stderr_pattern)))
        return exit_code;
    if (o->cwd && !*o->cwd)
        return usage_error("%s: --cwd takes a directory, not an empty name", command);
    if (o->timer && argc > 1)
        return usage_error("%s: --timer takes one duration in place of the command", command);
    if (argc == 0 && !o->app && !(o->timer && o->each_line))
        return usage_error(
            "%s: the job has no command: write it after the flags, as in `hawk %s -- echo hello`", command,
            command);
    if (o->name && (!*o->name || strlen(o->name) > LIMIT_NAME_BYTES))
        return usage_error("%s: --name takes a name of 1 to %u bytes", command, LIMIT_NAME_BYTES);
    return 0;
}

static int check_timer(const char *command, const struct spec_options *o, int argc, char **argv)
{
    int64_t us = 0;
    if (o->timer && argc && o->each_line && !has_places(argc, argv))
        return usage_error(
            "%s: --timer takes its times from the lines of --each-line: leave out '%s', or write {} "
            "where the line goes",
            command, argv[0]);
    if (o->timer && argc && !has_places(argc, argv) && duration_parse(argv[0], &us))
        return usage_error("%s: --timer takes a duration like 250ms or 30s in place of the command, not '%s'",
                           command, argv[0]);
    return 0;
}

static int fill_description(const char *command, const struct spec_options *o, int argc, char **argv,
                            struct job_desc *d)
{
    int exit_code = 0;
    bool numbers = o->app && !o->payload && !o->payload_file; /* only its number tells a task from another */
    d->kind = o->app ? PAYLOAD_APP : o->timer ? PAYLOAD_TIMER : PAYLOAD_COMMAND;
    d->app = o->app ? blob_str(o->app) : NULL;
    d->tag = (uint8_t)tag_of(o->class);
    d->estimate_us = o->estimate_us;
    d->time_limit_us = o->time_limit_us;
    d->max_fails = o->max_fails;
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
    if (o->array)
        exit_code = use_array(command, o->array, numbers || needs_input(o, argc, argv), d);
    else if (o->each_line)
        exit_code = use_lines(command, o->each_line, d);
    else
        d->tasks = 1;
    if (d->args.n)
        d->flags |= JOB_EACH_ARG;
    blob_drop(d->name);
    blob_drop(d->user);
    d->name = name_of(o, argc, argv);
    warn_of_readers(command, o, argc, argv);
    d->user = blob_str(user_name());
    if (o->stdout_pattern)
        d->stdout_pattern = blob_str(o->stdout_pattern);
    if (o->stderr_pattern)
        d->stderr_pattern = blob_str(o->stderr_pattern);
    if (!exit_code && o->input)
        exit_code = use_input(command, "stdin", o->input, d);
    if (!exit_code && o->payload_file)
        exit_code = use_input(command, "payload-file", o->payload_file, d);
    else if (o->payload)
        d->input = blob_str(o->payload);
    if (exit_code || o->app)
        return exit_code;
    if (!o->timer)
        exit_code = use_env(command, o, d);
    return exit_code ? exit_code : use_cwd(command, o, d);
}

int spec_build(const char *command, const struct spec_options *o, int argc, char **argv, struct job_desc **d)
{
    char why[256];
    int exit_code = check_options(command, o, argc);
    if (!exit_code)
        exit_code = check_timer(command, o, argc, argv);
    if (exit_code)
        return exit_code;
    struct job_desc *made = job_desc_new();
    exit_code = fill_description(command, o, argc, argv, made);
    if (!exit_code && job_desc_check(made, why, sizeof why))
        exit_code = usage_error("%s: %s", command, why);
    if (exit_code)
        job_desc_drop(made);
    else
        *d = made;
    return exit_code;
}
