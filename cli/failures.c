/* See failures.h. */
#include "cli/failures.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define APART 10u /* failures with details of their own, as a time or a worker */

uint32_t failures_apart(const struct api_task *t) { return t->outcome == OUTCOME_NOT_STARTED ? 1 : APART; }

/* Whether text is the same with a reason behind it. */
static bool gives_reason(const char *text, const char *bare)
{
    size_t len = strlen(bare);
    return strncmp(text, bare, len) == 0 && strncmp(text + len, ": ", 2) == 0;
}

/* Finds the kind of a failure. Schedulers keep the reasons of a job's first failures only
 * (JOB_MESSAGES_MAX). So a failure without a reason belongs to the kind with one, if there is only one
 * such kind. NULL: it is a new kind. */
static struct failure_kind *kind_like(const struct failures *f, const char *text)
{
    struct failure_kind *found = NULL;
    for (uint32_t i = 0; i < f->n; i++) {
        struct failure_kind *k = &f->v[i];
        if (strcmp(k->text, text) == 0)
            return k;
        if (gives_reason(text, k->text)) {
            snprintf(k->text, sizeof k->text, "%s", text);
            return k;
        }
    }
    for (uint32_t i = 0; i < f->n; i++)
        if (gives_reason(f->v[i].text, text)) {
            if (found)
                return NULL;
            found = &f->v[i];
        }
    return found;
}

static struct failure_kind *kind_of(struct failures *f, const char *text)
{
    struct failure_kind *k = kind_like(f, text);
    if (k || f->n == FAILURE_KINDS_MAX)
        return k;
    vec_grow(f->v, f->n, f->cap);
    k = &f->v[f->n++];
    *k = (struct failure_kind){0};
    snprintf(k->text, sizeof k->text, "%s", text);
    return k;
}

bool failures_add(struct failures *f, const struct api_task *t, uint32_t index, const char *text,
                  uint32_t apart)
{
    struct failure_kind *k = kind_of(f, text);
    if (!k) {
        f->others++;
        return false;
    }
    if (k->apart < apart) {
        k->apart++;
        return true;
    }
    if (k->n == 0 && t->worker_name && *t->worker_name)
        k->worker = xstrdup(t->worker_name);
    if (k->worker && (!t->worker_name || strcmp(k->worker, t->worker_name) != 0)) {
        free(k->worker);
        k->worker = NULL;
    }
    if (k->n < FAILURE_TASKS_NAMED)
        k->tasks[k->n] = index;
    k->n++;
    return false;
}

/* Prints "task 3", "tasks 1, 2", or "1000 tasks (1, 2, 3, 4, 5, ...)"; behind tasks of the same kind "also task 3" or
 * "999 more tasks". */
static void print_tasks(const struct failure_kind *k, FILE *to)
{
    bool few = k->n <= FAILURE_TASKS_NAMED;
    if (!few)
        fprintf(to, "%u ", k->n);
    fprintf(to, "%stask%s%s",
            !k->apart ? ""
            : few     ? "also "
                      : "more ",
            k->n == 1 ? "" : "s", few ? " " : " (");
    for (uint32_t i = 0; i < k->n && i < FAILURE_TASKS_NAMED; i++)
        fprintf(to, "%s%u", i ? ", " : "", k->tasks[i]);
    fputs(few ? "" : ", ...)", to);
}

void failures_print(const struct failures *f, FILE *to, const char *before, uint32_t lines)
{
    uint32_t others = f->others;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct failure_kind *k = &f->v[i];
        if (k->n == 0)
            continue;
        if (lines == 0) {
            others += k->n;
            continue;
        }
        lines--;
        fputs(before, to);
        print_tasks(k, to);
        fprintf(to, ": %s%s%s\n", k->text, k->worker ? ", on " : "", k->worker ? CLEAN(k->worker) : "");
    }
    if (others)
        fprintf(to, "%sand %u in other ways\n", before, others);
}

void failures_add_input(struct failures *f, const void *input, size_t len)
{
    char text[INPUT_TEXT];
    if (f->inputs_n < FAILURE_INPUTS_NAMED)
        f->inputs[f->inputs_n] = xstrdup(input_text(text, input, len));
    f->inputs_n++;
}

void failures_print_inputs(const struct failures *f, FILE *to, const char *before, const char *where)
{
    for (uint32_t i = 0; i < f->inputs_n && i < FAILURE_INPUTS_NAMED; i++)
        fprintf(to, "%s%s%s", i ? "" : before, i ? ", " : ": ", f->inputs[i]);
    if (f->inputs_n > FAILURE_INPUTS_NAMED)
        fprintf(to, ", and %u others: %s", f->inputs_n - FAILURE_INPUTS_NAMED, where);
}

void failures_free(struct failures *f)
{
    for (uint32_t i = 0; i < f->inputs_n && i < FAILURE_INPUTS_NAMED; i++)
        free(f->inputs[i]);
    for (uint32_t i = 0; i < f->n; i++)
        free(f->v[i].worker);
    free(f->v);
    *f = (struct failures){0};
}
