/* hawk result: what tasks of a job for attached executors returned. */
#include "client/result.h"

#include "base/mem.h"
#include "client/commands.h"
#include "client/show.h"

#include <stdlib.h>
#include <string.h>

struct result_options {
    struct common_options common;
    bool raw;
};

const struct flag result_flags[] = {
    FLAG(BOOL, struct result_options, raw, "raw", 'r', NULL,
         "exactly the bytes that tasks returned, with no newline between them"),
    {0},
};

struct results {
    struct session *s;
    json_t *tasks; /* NULL: to stdout */
    bool raw, wrong_kind;
    uint32_t missing; /* tasks that returned nothing, since they are not done */
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
        const struct api_task *t = &page->tasks[i];
        if (t->state != TASK_DONE || t->result_lost)
            say_missing(r, t, first_index);
        else if (!r->tasks)
            print_result(r, t);
        if (r->tasks)
            json_array_append_new(r->tasks, task_json(t, first_index));
    }
    return ferror(stdout) ? 1 : 0;
}

static int print_results(struct results *r, job_id_t job, uint32_t first, uint32_t n)
{
    int result = job_result_pages(r->s->h, job, first, n, result_page, r);
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
        say_error(r->s->command, "%u tasks have no result; `hawk job --failed %s` shows them all", r->missing,
                  JOB_TEXT(job));
    return r->missing ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

int results_print(struct session *s, job_id_t job, json_t **json)
{
    struct results r = {.s = s, .tasks = json ? json_array() : NULL};
    int exit_code = print_results(&r, job, 0, UINT32_MAX);
    if (json)
        *json = r.tasks;
    return exit_code;
}

static int one_job(struct results *r, job_id_t job, const char *task_text)
{
    uint32_t task = 0;
    int exit_code = task_text ? task_find(r->s, job, task_text, &task) : HAWK_EXIT_OK;
    if (exit_code)
        return exit_code;
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
        struct results r = {.s = &s, .raw = o.raw, .tasks = list ? json_array() : NULL};
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
