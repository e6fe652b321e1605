/* What `hawk run` says of its tasks on stderr. */
#include "cli/document.h"
#include "cli/print.h"
#include "daemon/run.h"

#include <stdlib.h>
#include <string.h>

#define WHY_SHOWN 200u /* bytes of the text why a task was not started */

void run_clear_progress(const struct run *r)
{
    if (r->show_progress && r->shown_us)
        fputs("\r\033[K", stderr);
}

/* Prints lines on stderr. The JSON document has them as well. */
static void HAWK_PRINTF(2, 3) say_line(const struct run *r, const char *fmt, ...)
{
    char text[TASK_ENDING_MAX + TASK_ARG_SHOWN + 100];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    run_clear_progress(r);
    say_lines(text);
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

const char *run_ending(const struct run *r, const struct msg_task_event *m, char *buf, size_t size)
{
    char why[WHY_SHOWN] = "";
    const struct api_task t = {.state = m->state, .outcome = m->outcome, .code = m->code, .message = why};
    if (m->outcome == OUTCOME_NOT_STARTED)
        not_started_text(r, why, sizeof why, m);
    return task_ending(buf, size, &t, r->desc->time_limit_us);
}

struct blob *run_input(const struct run *r, uint32_t task)
{
    char number[16];
    struct blob *arg = job_desc_arg(r->desc, task);
    if (arg || !r->options.spec.array)
        return arg;
    snprintf(number, sizeof number, "%u", r->desc->first_index + task);
    return blob_str(number);
}

bool run_failed_alone(struct run *r, const struct msg_task_event *m)
{
    char what[TASK_ENDING_MAX], why[WHY_SHOWN] = "";
    const struct api_task t = {.state = m->state, .outcome = m->outcome, .code = m->code, .message = why};
    if (m->outcome == OUTCOME_NOT_STARTED)
        not_started_text(r, why, sizeof why, m);
    return failures_add(&r->failures, &t, r->desc->first_index + m->id.task,
                        task_ending(what, sizeof what, &t, r->desc->time_limit_us), failures_apart(&t));
}

void run_say_failure(struct run *r, const struct msg_task_event *m, bool stderr_shown)
{
    char why[WHY_SHOWN] = "", what[TASK_ENDING_MAX], text[TASK_ARG_SHOWN];
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

void run_show_progress(struct run *r)
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

void run_say_summary(const struct run *r)
{
    uint32_t tasks = r->desc->tasks, done = r->done - r->failed_before;
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
    if (r->failed_before)
        fprintf(f, "hawk run: %u task%s failed in an earlier run: --resume-failed runs %s again\n",
                r->failed_before, PLURAL(r->failed_before), r->failed_before == 1 ? "it" : "them");
    fclose(f);
    say_lines(text);
    free(text);
}
