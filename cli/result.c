/* hawk result: the results of tasks of a job for attached executors. */
#include "cli/result.h"

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct result_options {
    struct common_options common;
    bool raw;
};

const struct flag result_flags[] = {
    FLAG(BOOL, struct result_options, raw, "raw", 'r', NULL,
         "write exactly the bytes of the results, without a newline between them"),
    {0},
};

/* ---- Results that came in ---- */

struct kept {
    int64_t at; /* in the file */
    uint32_t len;
    bool here;
};

struct kept_job {
    job_id_t job;
    struct kept *tasks;
    uint32_t n, here; /* places; results that have come */
    struct kept_job *next;
};

struct kept_results {
    FILE *f;
    int64_t end;
    struct kept_job *jobs; /* the jobs that a user names in one command: few */
};

struct kept_results *results_keep_new(void)
{
    struct kept_results *k = xcalloc(1, sizeof *k);
    k->f = tmpfile();
    if (k->f) /* what finds no room must be known at once */
        setvbuf(k->f, NULL, _IONBF, 0);
    return k;
}

void results_keep_free(struct kept_results *k)
{
    if (!k)
        return;
    for (struct kept_job *j = k->jobs, *next; j; j = next) {
        next = j->next;
        free(j->tasks);
        free(j);
    }
    if (k->f)
        fclose(k->f);
    free(k);
}

static struct kept_job *kept_job(const struct kept_results *k, job_id_t job)
{
    struct kept_job *j = k->jobs;
    while (j && j->job.v != job.v)
        j = j->next;
    return j;
}

void results_keep(struct kept_results *k, job_id_t job, const struct api_task *t)
{
    struct kept_job *j = kept_job(k, job);
    if (!k->f || t->state != TASK_DONE || t->result_lost)
        return;
    if (!j) {
        j = xcalloc(1, sizeof *j);
        j->job = job;
        j->next = k->jobs;
        k->jobs = j;
    }
    if (t->task >= j->n) {
        uint32_t n = j->n * 2 > t->task ? j->n * 2 : t->task + 1;
        j->tasks = xrealloc(j->tasks, n * sizeof *j->tasks);
        memset(j->tasks + j->n, 0, (n - j->n) * sizeof *j->tasks);
        j->n = n;
    }
    if (j->tasks[t->task].here)
        return;
    if (t->result_n &&
        (fseeko(k->f, k->end, SEEK_SET) || fwrite(t->result, 1, t->result_n, k->f) != t->result_n))
        return;
    j->tasks[t->task] = (struct kept){.at = k->end, .len = (uint32_t)t->result_n, .here = true};
    k->end += (int64_t)t->result_n;
    j->here++;
}

/* Reads the bytes of a kept result, which the caller frees. NULL: it was not kept. */
static uint8_t *kept_read(const struct kept_results *k, job_id_t job, uint32_t task, uint32_t *len)
{
    const struct kept_job *j = k ? kept_job(k, job) : NULL;
    const struct kept *t = j && task < j->n && j->tasks[task].here ? &j->tasks[task] : NULL;
    if (!t)
        return NULL;
    uint8_t *bytes = xcalloc(1, (size_t)t->len + 1);
    if (fseeko(k->f, t->at, SEEK_SET) || fread(bytes, 1, t->len, k->f) != t->len) {
        free(bytes);
        return NULL;
    }
    *len = t->len;
    return bytes;
}

/* ---- Printing ---- */

struct results {
    struct session *s;
    job_id_t job;
    const struct kept_results *kept;
    bool asked;    /* all results are asked for, not only those that were not kept */
    json_t *tasks; /* NULL: to stdout */
    bool raw, wrong_kind;
    uint32_t missing; /* tasks without a result, since they are not done */
    int64_t limit_us;
};

static void print_result(const struct results *r, const struct api_task *t)
{
    bool ends_line = t->result_n > 0 && t->result[t->result_n - 1] == '\n';
    if (t->result_n)
        fwrite(t->result, 1, t->result_n, stdout);
    if (!r->raw && !ends_line)
        putchar('\n');
}

static void say_missing(struct results *r, const struct api_task *t, uint32_t first_index)
{
    char ending[TASK_ENDING_MAX];
    r->missing++;
    if (r->missing <= RESULTS_MISSING_SHOWN && !r->tasks && r->s->mode != OUTPUT_QUIET)
        say_error(r->s->command, "task %u has no result: %s", first_index + t->task,
                  t->result_lost
                      ? "it is not known any more, after a restart of its dist or of central, or a move"
                      : task_ending(ending, sizeof ending, t, r->limit_us));
}

static void one_result(struct results *r, const struct api_task *t, uint32_t first_index)
{
    if (t->state != TASK_DONE || t->result_lost)
        say_missing(r, t, first_index);
    else if (!r->tasks)
        print_result(r, t);
    if (r->tasks)
        json_array_append_new(r->tasks, task_json(t, first_index));
}

static int result_page(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct results *r = ctx;
    if (page->spec && page->spec->kind != PAYLOAD_APP) {
        r->wrong_kind = true;
        return 1;
    }
    if (page->spec)
        r->limit_us = page->spec->time_limit_us;
    for (uint32_t i = 0; i < page->tasks_n; i++) {
        struct api_task t = page->tasks[i];
        uint32_t len = 0;
        bool wanted = t.state == TASK_DONE && (t.result_lost || !r->asked);
        uint8_t *kept = wanted ? kept_read(r->kept, r->job, t.task, &len) : NULL;
        if (wanted) {
            t.result = len > 0 ? kept : NULL;
            t.result_n = len;
            t.result_lost = !kept;
        }
        one_result(r, &t, first_index);
        free(kept);
    }
    return ferror(stdout) ? 1 : 0;
}

static int print_results(struct results *r, job_id_t job, uint32_t first, uint32_t n)
{
    r->job = job;
    int result = (r->asked ? job_result_pages : job_pages)(r->s->client, job, first, n, result_page, r);
    if (result < 0)
        return session_failed(r->s);
    if (r->wrong_kind) {
        say_error(r->s->command,
                  "the tasks of job %s are not for an application (--app), which could return "
                  "something: `hawk cat %s` shows what commands wrote",
                  JOB_TEXT(job), JOB_TEXT(job));
        return HAWK_EXIT_UNREACHABLE;
    }
    if (r->missing > RESULTS_MISSING_SHOWN && !r->tasks && r->s->mode != OUTPUT_QUIET)
        say_error(r->s->command, "%u tasks have no result; `hawk job %s` shows what became of each",
                  r->missing, JOB_TEXT(job));
    return r->missing ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

int results_print(struct session *s, const struct api_job *job, const struct kept_results *kept,
                  json_t **json)
{
    const struct kept_job *j = kept_job(kept, job->job);
    struct results r = {
        .s = s, .kept = kept, .asked = !j || j->here < job->done, .tasks = json ? json_array() : NULL};
    int exit_code = print_results(&r, job->job, 0, UINT32_MAX);
    if (json)
        *json = r.tasks;
    return exit_code;
}

static int one_job(struct results *r, job_id_t job, const char *task_text)
{
    uint32_t task = 0;
    int exit_code = task_text ? task_find(r->s, job, task_text, &task) : HAWK_EXIT_OK;
    if (exit_code)
        return exit_code < 0 ? session_failed(r->s) : exit_code;
    return print_results(r, job, task, task_text ? 1 : UINT32_MAX);
}

int result_main(int argc, char **argv)
{
    struct result_options o = {0};
    struct session s;
    struct selection jobs;
    int first = flags_parse(argv[0], result_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (argc - first < 1 || argc - first > 2)
        return usage_error("result: write `hawk result ID [TASK]`");
    int exit_code = session_select(&s, argv[0], &o.common, 1, argv + first, &jobs);
    json_t *list = exit_code == HAWK_EXIT_OK && s.mode == OUTPUT_JSON ? json_array() : NULL;
    for (uint32_t i = 0; exit_code == HAWK_EXIT_OK && i < jobs.n; i++) {
        struct results r = {.s = &s, .asked = true, .raw = o.raw, .tasks = list ? json_array() : NULL};
        exit_code = one_job(&r, jobs.jobs[i], argc - first == 2 ? argv[first + 1] : NULL);
        if (list)
            json_array_append_new(list,
                                  json_pack("{s:s, s:o}", "job", JOB_TEXT(jobs.jobs[i]), "tasks", r.tasks));
    }
    if (list)
        document_print(json_pack("{s:o}", "jobs", list));
    session_close(&s);
    selection_free(&jobs);
    return exit_code;
}
