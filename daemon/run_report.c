/* What `hawk run` says of its tasks on stderr. */
#include "cli/document.h"
#include "cli/print.h"
#include "daemon/run.h"

#include <stdlib.h>
#include <string.h>

#define WHY_SHOWN 200u /* bytes of the text why a task was not started */

void run_clear_progress(const struct run *r)
{
    if (r->show_progress && r->shown_us && r->terminal)
        fputs("\r\033[K", stderr);
}

/* Prints lines on stderr. The JSON document has them as well. */
static void HAWK_PRINTF(2, 3) say_line(const struct run *r, const char *fmt, ...)
{
    char text[TASK_ENDING_MAX + INPUT_TEXT + 100];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    run_clear_progress(r);
    say_lines(text);
}

/* Why a task was not started; its stderr says so as well. */
static void not_started_text(const struct run *r, char why[WHY_SHOWN], const struct msg_task_event *m)
{
    const struct dist *d = embedded_dist(r->cluster);
    const struct dist_job *j = dist_find(d, m->id.job);
    struct task_view v = {0};
    if (j)
        dist_task_view(d, j, m->id.task, loop_now(r->loop), &v);
    if (v.message)
        clean_text(why, WHY_SHOWN, v.message->data);
}

/* The end as clients see it. why: room for its text, which only a task that was not started has. */
static struct api_task ended_task(const struct run *r, char why[WHY_SHOWN], const struct msg_task_event *m)
{
    *why = '\0';
    if (m->outcome == OUTCOME_NOT_STARTED)
        not_started_text(r, why, m);
    return (struct api_task){.state = m->state, .outcome = m->outcome, .code = m->code, .message = why};
}

const char *run_ending(const struct run *r, const struct msg_task_event *m, char *buf, size_t size)
{
    char why[WHY_SHOWN];
    const struct api_task t = ended_task(r, why, m);
    return task_ending(buf, size, &t, r->desc->time_limit_us);
}

struct blob *run_input(const struct run *r, const struct run_part *p, uint32_t task)
{
    char number[16];
    struct blob *arg = exec_shown_input(p->desc, task);
    if (arg || !r->options.spec.inputs.sources.n)
        return arg;
    snprintf(number, sizeof number, "%u", p->desc->first_index + task);
    return blob_str(number);
}

bool run_failed_alone(struct run *r, const struct run_part *p, const struct msg_task_event *m)
{
    char what[TASK_ENDING_MAX], why[WHY_SHOWN];
    const struct api_task t = ended_task(r, why, m);
    return failures_add(&r->failures, &t, p->desc->first_index + m->id.task,
                        task_ending(what, sizeof what, &t, r->desc->time_limit_us), failures_apart(&t));
}

void run_say_failure(struct run *r, const struct run_part *p, const struct msg_task_event *m,
                     bool stderr_shown)
{
    char why[WHY_SHOWN], what[TASK_ENDING_MAX], text[INPUT_TEXT];
    struct api_task t = ended_task(r, why, m);
    if (r->options.quiet)
        return;
    if (stderr_shown)
        t.message = "";
    task_ending(what, sizeof what, &t, r->desc->time_limit_us);
    struct blob *arg = exec_shown_input(p->desc, m->id.task);
    say_line(r, "hawk run: task %u%s%s%s: %s\n", p->desc->first_index + m->id.task, arg ? " (" : "",
             arg ? input_text(text, arg->data, arg->len) : "", arg ? ")" : "", what);
    blob_drop(arg);
}

/* Whether to use colours on stderr (https://no-color.org). */
static bool colours(const struct run *r)
{
    const char *no = getenv("NO_COLOR");
    return r->terminal && !(no && *no) && getenv("TERM");
}

static const char *speed(const struct run *r, int64_t took_us, char buf[SPEED_TEXT])
{
    uint32_t ended = r->ended_well + r->ended_badly;
    uint32_t left = r->total - r->done_before - r->failed_before - ended - r->cancelled;
    int64_t unstarted = (int64_t)left - embedded_running(r->cluster);
    return speed_text(buf, ended, took_us, r->lines ? 0 : left, unstarted * r->options.delay_us);
}

void run_show_progress(struct run *r)
{
    int64_t now = loop_now(r->loop), took_us = now - r->started_us;
    if (!r->show_progress || !r->submitted || (!r->terminal && now < r->shown_us + PLAIN_PROGRESS_US))
        return;
    char took[32], text[SPEED_TEXT], of[24] = "";
    bool red = r->ended_badly > 0 && colours(r);
    if (!r->lines)
        snprintf(of, sizeof of, " of %u", r->total);
    r->shown_us = now;
    fprintf(stderr, "%s%u%s done, %u running, %s%u failed%s%s, %s%s", r->terminal ? PROGRESS_BEGIN : "",
            r->ended_well + r->done_before, of, embedded_running(r->cluster), red ? "\033[31m" : "",
            r->ended_badly, red ? "\033[39m" : "", speed(r, took_us, text),
            duration_format(took, sizeof took, took_us), r->terminal ? PROGRESS_END : "\n");
    fflush(stderr);
}

/* "BEFORE: alpha, beta": the first inputs that failed, and where the others are. */
static void print_failed(const struct run *r, const char *before, FILE *f)
{
    char where[PATH_MAX + 16] = "--joblog FILE lists them";
    if (r->options.joblog)
        snprintf(where, sizeof where, "%s has them", r->options.joblog);
    else if (r->json)
        snprintf(where, sizeof where, "the document has them");
    failures_print_inputs(&r->failures, f, before, where);
}

/* What ended the run early; NULL: nothing did. */
static const char *ended_by(const struct run *r)
{
    uint32_t max_fails = r->options.spec.max_fails;
    if (r->halting)
        return "--halt: ";
    if (max_fails && r->ended_badly >= max_fails && (r->cancelled || r->cut))
        return "--max-fails: ";
    return r->interrupted ? "" : NULL;
}

void run_say_summary(const struct run *r)
{
    const char *by = ended_by(r);
    uint32_t tasks = r->total, done = r->ended_well + r->done_before;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    failures_print(&r->failures, f, "hawk run: ", FAILURE_KINDS_MAX);
    if (by) {
        fprintf(f, "hawk run: %s%u of %u task%s done, %u failed, %u cancelled%s", by, done, tasks,
                PLURAL(tasks), r->failed, r->cancelled,
                r->cut ? ", and the rest of the list was not read" : "");
        print_failed(r, "; failed", f);
    } else if (r->failed) {
        uint32_t before = r->done_before + r->failed_before, ran = tasks - before;
        fprintf(f, "hawk run: %u of %u task%s%s failed", r->failed, ran, PLURAL(ran),
                before ? " of this run" : "");
        print_failed(r, "", f);
    }
    if (by || r->failed)
        fputc('\n', f);
    if (r->interrupted && r->log)
        fputs("hawk run: the same command with --resume runs what has no line in the --joblog\n", f);
    if (r->failed_before)
        fprintf(f, "hawk run: %u task%s failed in an earlier run: --resume-failed runs %s again\n",
                r->failed_before, PLURAL(r->failed_before), r->failed_before == 1 ? "it" : "them");
    fclose(f);
    say_lines(text);
    free(text);
}
