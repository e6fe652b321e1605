/* Inputs of tasks: see inputs.h. */
#include "cli/inputs.h"

#include "base/mem.h"
#include "base/units.h"
#include "cli/document.h"
#include "cli/lines.h"
#include "cli/print.h"
#include "template/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- --array ---- */

#define ARRAY_NUMBER_MAX (UINT32_MAX - 1)

static int array_number(const char *text, size_t len, uint64_t *v)
{
    char digits[24];

    if (len == 0 || len >= sizeof digits)
        return HAWK_EINVALID;
    memcpy(digits, text, len);
    digits[len] = '\0';
    return u64_parse(digits, 0, ARRAY_NUMBER_MAX, v);
}

/* Reads A, A-B or A-B:STEP, of len bytes. */
static int range_read(const char *text, size_t len, struct array_range *r)
{
    const char *colon = memchr(text, ':', len), *dash = memchr(text, '-', len);
    size_t end = colon ? (size_t)(colon - text) : len, from = dash ? (size_t)(dash - text) : end;
    uint64_t a = 0, b = 0, step = 1;

    if (from > end)
        return HAWK_EINVALID;
    int err = array_number(text, from, &a), err_b = 0, err_step = 0;
    if (dash)
        err_b = array_number(dash + 1, end - from - 1, &b);
    if (colon)
        err_step = dash ? array_number(colon + 1, len - end - 1, &step) : HAWK_EINVALID;
    err = err == HAWK_EINVALID || !err_b ? err : err_b;
    err = err == HAWK_EINVALID || !err_step ? err : err_step;
    if (!err && step == 0)
        err = HAWK_EINVALID;
    *r = (struct array_range){.first = (uint32_t)a, .last = (uint32_t)(dash ? b : a), .step = (uint32_t)step};
    return err;
}

int array_parse(const char *flag, const char *text, struct array_range *ranges, uint32_t *n, char *why,
                size_t size)
{
    uint64_t tasks = 0;

    *n = 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        struct array_range r;
        int err = *n == ARRAY_RANGES_MAX ? HAWK_EINVALID : range_read(at, len, &r);
        if (err == HAWK_ETOO_LARGE)
            snprintf(why, size, "%s %s: the numbers end at %u, and a job has at most %u tasks", flag, text,
                     ARRAY_NUMBER_MAX, LIMIT_TASKS_PER_JOB);
        else if (err)
            snprintf(why, size, "%s takes numbers and ranges A-B or A-B:STEP, like 1-10:2,15, not '%s'", flag,
                     text);
        if (err)
            return err;
        if (r.first > r.last) {
            snprintf(why, size, "%s %s has no tasks: it ends before it begins", flag, text);
            return HAWK_EINVALID;
        }
        tasks += (r.last - r.first) / r.step + 1;
        ranges[(*n)++] = r;
        at += len;
        if (!*at)
            break;
    }
    if (tasks <= LIMIT_TASKS_PER_JOB)
        return 0;
    snprintf(why, size, "%s %s has %llu tasks, the limit is %u", flag, text, (unsigned long long)tasks,
             LIMIT_TASKS_PER_JOB);
    return HAWK_ETOO_LARGE;
}

static struct input_source *source_add(struct inputs *in)
{
    vec_grow(in->v, in->n, in->cap);
    in->v[in->n] = (struct input_source){.columns = 1};
    return &in->v[in->n++];
}

/* --array A-B%N: the N. */
static int array_limit(const char *command, const char *text, struct inputs *in)
{
    uint64_t n;

    if (u64_parse(text, 1, UINT32_MAX, &n))
        return usage_error(
            "%s: in --array a number of tasks that may run at a time, at least 1, follows the %%, "
            "not '%s'",
            command, text);
    if (in->max_running == 0 || n < in->max_running)
        in->max_running = (uint32_t)n;
    return 0;
}

static int array_source(const char *command, const char *text, struct inputs *in)
{
    struct array_range ranges[ARRAY_RANGES_MAX];
    char why[200], number[16];
    uint32_t n;
    char *numbers = xstrdup(text), *limit = strchr(numbers, '%');

    if (limit)
        *limit++ = '\0';
    int err = array_parse("--array", numbers, ranges, &n, why, sizeof why);
    int exit_code = !err && limit ? array_limit(command, limit, in) : 0;
    free(numbers);
    if (err)
        return usage_error("%s: %s", command, why);
    if (exit_code)
        return exit_code;
    struct input_source *s = source_add(in);
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t v = ranges[i].first; v <= ranges[i].last; v += ranges[i].step)
            task_args_add(&s->values, number,
                          (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)v));
    in->range = n == 1 && ranges[0].step == 1;
    in->first = ranges[0].first;
    in->last = ranges[0].last;
    return 0;
}

/* ---- Files ---- */

char *inputs_file(const char *command, const char *flag, const char *path, size_t limit, size_t *len)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    struct text t = {0};
    char buf[1 << 16];

    if (!f) {
        usage_error("%s: --%s: cannot open %s: %s", command, flag, path, strerror(errno));
        return NULL;
    }
    for (size_t n; t.len <= limit && (n = fread(buf, 1, sizeof buf, f)) > 0;)
        text_add(&t, buf, n);
    bool bad = ferror(f);
    if (bad)
        usage_error("%s: --%s: cannot read %s: %s", command, flag, path, strerror(errno));
    if (f != stdin)
        fclose(f);
    *len = t.len;
    text_add(&t, "", 1);
    if (bad)
        text_free(&t);
    return t.data;
}

/* Takes what is there of a list that comes by and by, once that is anything. If it stands before a line that is
 * refused, the next lines_take() says so again. */
static int take_first(struct lines *l, struct task_args *values)
{
    int exit_code = 0;

    while (!exit_code && values->n == 0 && !lines_over(l)) {
        if (lines_hungry(l))
            exit_code = lines_read(l);
        if (!exit_code)
            exit_code = lines_take(l, values, INPUTS_FIRST);
    }
    return values->n ? 0 : exit_code;
}

static int take_all(const char *command, const char *path, struct lines *l, struct task_args *values)
{
    int exit_code = lines_read_all(l);

    if (!exit_code)
        exit_code = lines_take(l, values, LIMIT_TASKS_PER_JOB + 1);
    if (!exit_code && values->n > LIMIT_TASKS_PER_JOB)
        return usage_error(
            "%s: --each-line: %s has more than %u lines, the limit of tasks in a job: give them to "
            "several jobs, or to `hawk run -l -` through a pipe, which has no limit",
            command, path, LIMIT_TASKS_PER_JOB);
    return exit_code;
}

static int lines_source(const char *command, const struct input_options *o, const char *path,
                        struct inputs *in, struct lines **rest)
{
    struct lines *l = lines_open(command, o, path);

    if (!l)
        return HAWK_EXIT_USAGE;
    struct input_source *s = source_add(in);
    bool first = rest && lines_come(l);
    int exit_code = first ? take_first(l, &s->values) : take_all(command, path, l, &s->values);
    s->columns = lines_columns(l) ? lines_columns(l) : 1;
    s->names = lines_take_names(l);
    in->lines = true;
    if (first && !exit_code)
        *rest = l;
    else
        lines_close(l);
    return exit_code;
}

/* ---- All sources ---- */

static int check_inputs(const char *command, const struct input_options *o)
{
    uint32_t files = 0, stdins = 0;

    for (uint32_t i = 0; i < o->sources.n; i++) {
        bool file = strcmp(o->sources.flags[i], "each-line") == 0;
        files += file;
        stdins += file && strcmp(o->sources.v[i], "-") == 0;
    }
    if (stdins > 1)
        return usage_error("%s: --each-line - cannot be given twice: there is one standard input", command);
    if (!files && (o->csv || o->header || o->null || o->separator))
        return usage_error("%s: --%s goes with --each-line", command,
                           o->csv      ? "csv"
                           : o->header ? "header"
                           : o->null   ? "null"
                                       : "separator");
    if (o->separator && strcmp(o->separator, "\\t") != 0 &&
        (strlen(o->separator) != 1 || strchr("\"\r\n", *o->separator)))
        return usage_error("%s: --separator takes one character, or \\t for a tab, not '%s'", command,
                           o->separator);
    if (o->link && o->sources.n < 2)
        return usage_error("%s: --link goes with several sources of inputs", command);
    return 0;
}

int inputs_read(const char *command, const struct input_options *o, struct inputs *in, struct lines **rest)
{
    int exit_code = check_inputs(command, o);

    for (uint32_t i = 0; !exit_code && i < o->sources.n; i++) {
        const char *flag = o->sources.flags[i], *text = o->sources.v[i];
        if (strcmp(flag, "array") == 0) {
            exit_code = array_source(command, text, in);
        } else if (strcmp(flag, "each-line") == 0) {
            exit_code = lines_source(command, o, text, in, o->sources.n == 1 ? rest : NULL);
        } else {
            struct input_source *s = *flag == '+' ? &in->v[in->n - 1] : source_add(in);
            if (text)
                task_args_add(&s->values, text, strlen(text));
            in->lines = true;
        }
    }
    in->range = in->range && in->n == 1;
    for (uint32_t i = 0; i < in->n; i++)
        in->columns += in->v[i].columns;
    if (!exit_code && in->columns > LIMIT_COLUMNS)
        return usage_error("%s: the sources have %u columns, the limit is %u", command, in->columns,
                           LIMIT_COLUMNS);
    return exit_code;
}

void inputs_free(struct inputs *in)
{
    for (uint32_t i = 0; i < in->n; i++) {
        free(in->v[i].values.off);
        free(in->v[i].values.data);
        free(in->v[i].names.data);
    }
    free(in->v);
    *in = (struct inputs){0};
}

/* ---- Names of columns ---- */

/* The column that is called so; 0: none. */
static uint32_t column_named(const struct inputs *in, const char *name, size_t len)
{
    uint32_t column = 1;

    for (uint32_t i = 0; i < in->n; column += in->v[i].columns, i++) {
        const char *text = in->v[i].names.data;
        for (uint32_t k = 0; k < in->v[i].names.n; k++, text += strlen(text) + 1)
            if (len && strlen(text) == len && memcmp(text, name, len) == 0)
                return column + k;
    }
    return 0;
}

/* If a place with a name begins at s, adds it with a number, and returns its length. */
static size_t number_place(const struct inputs *in, const char *s, struct text *to)
{
    static const char *const forms[] = {"/.", "//", ".", "/", ""};
    size_t len = strcspn(s + 1, "{}");
    char number[32];
    struct place p;

    if (s[1 + len] != '}' || place_read(s, in->columns, &p))
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t form = strlen(forms[i]);
        uint32_t column = len > form && memcmp(s + 1 + len - form, forms[i], form) == 0
                              ? column_named(in, s + 1, len - form)
                              : 0;
        if (!column)
            continue;
        text_add(to, number, (size_t)snprintf(number, sizeof number, "{%u%s}", column, forms[i]));
        return len + 2;
    }
    return 0;
}

char *inputs_numbered(const struct inputs *in, const char *text)
{
    struct text t = {0};

    while (*text) {
        size_t n = *text == '{' ? number_place(in, text, &t) : 0;
        if (!n)
            text_add(&t, text, 1);
        text += n ? n : 1;
    }
    text_add(&t, "", 1);
    return t.data;
}

/* The columns' names, with commas between them; "": they have none. free() it. */
static char *column_names(const struct inputs *in)
{
    struct text t = {0};

    for (uint32_t i = 0; i < in->n; i++) {
        const char *name = in->v[i].names.data;
        for (uint32_t k = 0; k < in->v[i].names.n; k++, name += strlen(name) + 1) {
            if (t.len)
                text_add(&t, ", ", 2);
            text_add(&t, name, strlen(name));
        }
    }
    text_add(&t, "", 1);
    return t.data;
}

/* Warns if what stands in braces at s looks like a column and is none. alone: it is the whole text. */
static void warn_unknown(const char *command, const struct inputs *in, const char *s, bool alone,
                         const char *names)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                      digits[] = "0123456789";
    struct place p;
    size_t number = strspn(s + 1, digits), len = number;

    if (!number)
        while (s[1 + len] && (strchr(letters, s[1 + len]) || strchr(digits, s[1 + len])))
            len++;
    size_t end = 1 + len + strspn(s + 1 + len, "./");
    if (len == 0 || s[end] != '}' || place_read(s, in->columns, &p))
        return;
    /* Of one column nobody speaks of columns: a{2} may be a regular expression. */
    if (number && (in->columns > 1 || (in->columns == 1 && alone && !s[end + 1])))
        say_warning(command, "%.*s stays as it is: the inputs have %u column%s", (int)end + 1, s, in->columns,
                    PLURAL(in->columns));
    else if (!number && *names && !column_named(in, s + 1, len))
        say_warning(command, "%.*s stays as it is: there is no column of that name; there are: %s",
                    (int)end + 1, s, names);
}

void inputs_warn_unknown(const char *command, const struct inputs *in, const char *text)
{
    char *names = column_names(in);

    for (const char *s = text; (s = strchr(s, '{')); s++)
        if (s == text || s[-1] != '$') /* a shell's own variable */
            warn_unknown(command, in, s, s == text, names);
    free(names);
}

/* ---- Combinations ---- */

static uint64_t count_tasks(const struct inputs *in, bool link)
{
    uint64_t tasks = in->v[0].values.n;

    for (uint32_t i = 1; !link && i < in->n && tasks <= LIMIT_TASKS_PER_JOB; i++)
        tasks *= in->v[i].values.n;
    return tasks;
}

/* Adds the argument of a task: one value of each source. */
static void add_combined(const struct inputs *in, bool link, uint64_t task, struct text *t,
                         struct job_desc *d)
{
    uint64_t rest = task, at[LIMIT_COLUMNS];

    for (uint32_t i = in->n; i-- > 0; rest /= link ? 1 : in->v[i].values.n)
        at[i] = link ? task : rest % in->v[i].values.n;
    t->len = 0;
    for (uint32_t i = 0; i < in->n; i++) {
        const struct task_args *a = &in->v[i].values;
        if (i)
            text_add(t, "", 1);
        text_add(t, a->data + a->off[at[i]], a->off[at[i] + 1] - a->off[at[i]]);
    }
    task_args_add(&d->args, t->data, t->len);
}

int inputs_use(const char *command, const struct inputs *in, bool link, struct job_desc *d)
{
    struct text t = {0};
    uint64_t tasks = count_tasks(in, link), bytes = 0;

    for (uint32_t i = 1; link && i < in->n; i++)
        if (in->v[i].values.n != in->v[0].values.n)
            return usage_error("%s: --link: the first source has %u inputs, and source %u has %u", command,
                               in->v[0].values.n, i + 1, in->v[i].values.n);
    if (tasks > LIMIT_TASKS_PER_JOB)
        return usage_error("%s: the sources have more than %u combinations, the limit of tasks in a job",
                           command, LIMIT_TASKS_PER_JOB);
    d->columns = in->columns;
    for (uint64_t i = 0; i < tasks && bytes <= LIMIT_JOB_BYTES; i++, d->tasks++) {
        add_combined(in, link, i, &t, d);
        bytes += t.len;
    }
    text_free(&t);
    if (bytes > LIMIT_JOB_BYTES)
        return usage_error("%s: the inputs have more than %u bytes, the limit of a job", command,
                           LIMIT_JOB_BYTES);
    return 0;
}
