/* What one task is given: its argv, the variables of its own, and its directory, from the templates of its job. */
#include "base/mem.h"
#include "exec/launch.h"
#include "exec/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_BYTES_MAX (64u << 20) /* Linux takes at most 6 MiB */
#define TEXT_KEPT (1u << 20)          /* what was larger is not kept for the next task */

struct template_input exec_input(const struct job_desc *d, uint32_t task, const char *arg, size_t len)
{
    uint64_t before = d->flags & JOB_PART ? d->first_index : 0;
    return (struct template_input){
        .arg = arg, .len = len, .columns = d->columns, .number = before + task + 1};
}

struct blob *exec_shown_input(const struct job_desc *d, uint32_t task)
{
    struct blob *arg = job_desc_arg(d, task);
    struct text joined = {0};

    if (!arg || d->columns <= 1)
        return arg;
    struct template_input in = exec_input(d, task, arg->data, arg->len);
    input_joined(&joined, &in);
    blob_drop(arg);
    arg = blob_new(joined.data, joined.len);
    text_free(&joined);
    return arg;
}

/* ---- Once per job ---- */

static const char **words_of(const struct strings *s)
{
    const char **words = xcalloc((size_t)s->n + 1, sizeof *words), *text = s->data;

    for (uint32_t i = 0; i < s->n; i++, text += strlen(text) + 1)
        words[i] = text;
    return words;
}

struct template *exec_template(const struct job_desc *d)
{
    const char **words = words_of(&d->argv);
    struct template *t = template_command(d->argv.n, words, d->columns, !(d->flags & JOB_ARG_ASIDE));

    free(words);
    return t;
}

size_t exec_input_max(void)
{
    return 32 * (size_t)sysconf(_SC_PAGESIZE) - sizeof COMMAND_INPUT; /* Linux's MAX_ARG_STRLEN */
}

void command_prepare(struct spec *s)
{
    const struct job_desc *d = s->d;
    const char *cwd = d->cwd ? d->cwd->data : "";
    bool fills = d->flags & JOB_EACH_CWD && *cwd; /* a client may ask for places in no directory */
    const char **variables = words_of(&d->each_env);

    s->command = exec_template(d);
    s->variables = template_words(d->each_env.n, variables, d->columns);
    free(variables);
    s->cwd = fills ? template_words(1, &cwd, d->columns) : NULL;
}

void command_release(struct spec *s)
{
    template_free(s->command);
    template_free(s->variables);
    template_free(s->cwd);
}

uint32_t command_variables(const struct job_desc *d)
{
    return 1 + d->each_env.n + (d->columns > 1 ? d->columns : 0);
}

/* ---- Once per task ---- */

/* Begins a word of the text that the task is given. */
static void begin_word(struct launcher *l)
{
    vec_grow(l->at, l->at_n, l->at_cap);
    l->at[l->at_n++] = l->text.len;
}

static void add_word(struct launcher *l, const char *word, size_t len)
{
    begin_word(l);
    text_add(&l->text, word, len);
    text_add(&l->text, "", 1);
}

static void add_strings(struct launcher *l, const struct strings *s)
{
    const char *text = s->data;

    for (uint32_t i = 0; i < s->n; i++, text += strlen(text) + 1)
        add_word(l, text, strlen(text));
}

static int add_filled(struct launcher *l, const struct template *t, const struct template_input *in,
                      char why[TEMPLATE_WHY_MAX])
{
    uint32_t n = template_count(t);

    for (uint32_t i = 0; i < n; i++)
        begin_word(l);
    int err = template_fill(t, in, COMMAND_BYTES_MAX, &l->text, l->at + l->at_n - n, why);

    if (err)
        text_add(&l->text, "", 1); /* what there is of the word is read as a string */
    if (err == HAWK_ETOO_LARGE)
        snprintf(why, TEMPLATE_WHY_MAX, "%.100s: cannot be executed: %s", l->text.data, strerror(E2BIG));
    return err;
}

/* HAWK_INPUT, for shell commands: a shell parses a variable's content where it computes, and under eval. HAWK_INPUT_1
 * and so on, where there are several values. */
static void add_inputs(struct launcher *l, const struct spec *s, const struct task *t,
                       const struct template_input *in)
{
    char name[64];

    if (!in->arg) {
        add_word(l, name,
                 (size_t)snprintf(name, sizeof name, COMMAND_INPUT "%" PRIu64,
                                  (uint64_t)s->d->first_index + t->id.task));
        return;
    }
    begin_word(l);
    text_add(&l->text, COMMAND_INPUT, strlen(COMMAND_INPUT));
    input_joined(&l->text, in);
    text_add(&l->text, "", 1);
    for (uint32_t i = 1; in->columns > 1 && i <= in->columns; i++) {
        size_t len;
        const char *value = input_column(in, i, &len);
        begin_word(l);
        text_add(&l->text, name, (size_t)snprintf(name, sizeof name, "HAWK_INPUT_%" PRIu32 "=", i));
        text_add(&l->text, value, len);
        text_add(&l->text, "", 1);
    }
}

/* The directory, argv, then the variables. */
static int fill_all(struct launcher *l, const struct spec *s, const struct task *t,
                    const struct template_input *in, char why[TEMPLATE_WHY_MAX])
{
    int err = 0;
    size_t len = 0;
    const char *last = in->arg ? input_column(in, in->columns > 1 ? in->columns : 1, &len) : NULL;

    if (s->cwd && in->arg)
        err = add_filled(l, s->cwd, in, why);
    else if (s->cwd)
        add_word(l, s->d->cwd->data, s->d->cwd->len);
    l->argv_at = l->at_n;
    if (!err && last && memchr(last, '\0', len)) {
        snprintf(why, TEMPLATE_WHY_MAX,
                 "the task's argument contains a NUL byte, which no command can be given");
        err = HAWK_EINVALID;
    }
    if (err)
        return err;
    if (in->arg)
        err = add_filled(l, s->command, in, why);
    else
        add_strings(l, &s->d->argv);
    l->variables_at = l->at_n;
    if (in->arg && !err)
        err = add_filled(l, s->variables, in, why);
    else if (!err)
        add_strings(l, &s->d->each_env);
    add_inputs(l, s, t, in);
    return err;
}

/* The first element of argv is spare. The variables end where those of the job begin. */
static void point(struct launcher *l, struct spec *s)
{
    uint32_t argc = l->variables_at - l->argv_at, variables = l->at_n - l->variables_at;

    if (l->argv_size < (size_t)argc + 2) {
        l->argv_size = 2 * ((size_t)argc + 2);
        l->argv = xrealloc(l->argv, l->argv_size * sizeof *l->argv);
    }
    for (uint32_t i = 0; i < argc; i++)
        l->argv[i + 1] = l->text.data + l->at[l->argv_at + i];
    l->argv[argc + 1] = NULL;
    l->env = s->env + command_variables(s->d) - variables;
    for (uint32_t i = 0; i < variables; i++) {
        const char *entry = l->text.data + l->at[l->variables_at + i];
        if (strncmp(entry, "PATH=", 5) == 0)
            l->search = entry + 5;
        l->env[RUN_ENTRIES + i] = entry;
    }
}

int command_fill(struct launcher *l, struct spec *s, const struct task *t, char why[TEMPLATE_WHY_MAX])
{
    struct template_input in = exec_input(s->d, t->id.task, t->arg, t->arg_len);

    if (l->text.cap > TEXT_KEPT)
        text_free(&l->text);
    l->text.len = 0;
    l->at_n = 0;
    l->search = s->search;
    int err = fill_all(l, s, t, &in, why);

    l->cwd = l->argv_at                    ? output_cwd(l->text.data + l->at[0])
             : s->d->cwd && s->d->cwd->len ? s->d->cwd->data
                                           : NULL;
    if (!err)
        point(l, s);
    return err;
}
