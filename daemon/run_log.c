/* The log of `hawk run`: what it leaves out because it ran before, and ends that wait for their lines. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/document.h"
#include "daemon/run.h"

#include <stdlib.h>
#include <string.h>

/* ---- What ran before ---- */

struct reading {
    struct run *run;
    const char *command;
    bool other_command;
    char *why;
    size_t size;
};

static int on_entry(void *arg, const struct joblog_entry *e)
{
    struct reading *r = arg;
    struct run *run = r->run;
    if (e->position > run->desc->tasks) {
        snprintf(r->why, r->size, "line %llu is of input %llu, and there are %u: the inputs are others",
                 (unsigned long long)e->line, (unsigned long long)e->position, run->desc->tasks);
        return HAWK_EINVALID;
    }
    uint32_t task = (uint32_t)(e->position - 1);
    struct blob *input = run_input(run, task);
    char *text = joblog_text(input ? input->data : "", input ? input->len : 0);
    bool same = strcmp(text, e->input) == 0;
    if (!same)
        snprintf(r->why, r->size, "line %llu: input %llu was '%.80s', and is '%.80s' now",
                 (unsigned long long)e->line, (unsigned long long)e->position, CLEAN(e->input), CLEAN(text));
    free(text);
    blob_drop(input);
    r->other_command |= strcmp(e->command, r->command) != 0;
    run->before[task] = e->done ? BEFORE_DONE : BEFORE_FAILED;
    return same ? 0 : HAWK_EINVALID;
}

static void count_before(struct run *r)
{
    for (uint32_t i = 0; i < r->desc->tasks; i++) {
        if (r->before[i] == BEFORE_FAILED && r->options.resume_failed)
            r->before[i] = BEFORE_NOTHING;
        r->done_before += r->before[i] == BEFORE_DONE;
        r->failed_before += r->before[i] == BEFORE_FAILED;
    }
}

int run_log_open(struct run *r)
{
    const struct run_options *o = &r->options;
    bool resume = o->resume || o->resume_failed;
    char why[512] = "";
    if (!o->joblog)
        return resume ? usage_error("run: --%s goes with --joblog, which names the log",
                                    o->resume ? "resume" : "resume-failed")
                      : 0;
    char *command = joblog_command(&r->desc->argv);
    struct reading reading = {.run = r, .command = command, .why = why, .size = sizeof why};
    if (resume)
        r->before = xcalloc(r->desc->tasks, sizeof *r->before);
    int err = joblog_open(&r->log, o->joblog, command, resume ? on_entry : NULL, &reading, why, sizeof why);
    if (!err && reading.other_command)
        say_warning("run",
                    "--joblog %s: it has another command: tasks that ended by that one do not run again",
                    o->joblog);
    free(command);
    if (err)
        return usage_error("run: --joblog %s: %s", o->joblog, why);
    if (resume)
        count_before(r);
    return 0;
}

struct resubmit *run_log_skip(const struct run *r)
{
    uint32_t n = r->done_before + r->failed_before;
    struct resubmit *s = resubmit_new(n);
    s->job = job_id_make(dist_node(embedded_dist(r->cluster)), 1);
    s->epoch = EPOCH_FIRST;
    s->class = CLASS_SHORT;
    s->why = WHY_TAG;
    uint32_t at = 0;
    for (uint32_t i = 0; n > 0 && i < r->desc->tasks; i++)
        if (r->before[i] != BEFORE_NOTHING)
            /* Those that failed must not count for --max-fails. */
            s->v[at++] = (struct resubmit_task){.task = i,
                                                .wait_us = -1,
                                                .run_us = -1,
                                                .attempt = 1,
                                                .state = TASK_DONE,
                                                .outcome = OUTCOME_EXITED};
    return s;
}

/* ---- Ends that wait for those of earlier inputs ---- */

static void skip_before(struct run *r)
{
    while (r->before && r->next_kept < r->desc->tasks && r->before[r->next_kept] != BEFORE_NOTHING)
        r->next_kept++;
}

/* Its output stays on the disk until then. */
static void deliver_in_order(struct run *r, const struct msg_task_event *m)
{
    if (!r->options.keep_order) {
        run_deliver(r, m);
        return;
    }
    if (!r->kept)
        r->kept = xcalloc(r->desc->tasks, sizeof *r->kept);
    r->kept[m->id.task] = xmemdup0(m, sizeof *m);
    for (skip_before(r); r->next_kept < r->desc->tasks && r->kept[r->next_kept]; skip_before(r)) {
        run_deliver(r, r->kept[r->next_kept]);
        free(r->kept[r->next_kept]);
        r->kept[r->next_kept++] = NULL;
    }
}

static void free_kept(struct run *r)
{
    for (uint32_t i = 0; r->kept && i < r->desc->tasks; i++)
        free(r->kept[i]);
    free(r->kept);
    r->kept = NULL;
}

/* ---- Lines, and what waits for them ---- */

static struct run_ended *take_first(struct run *r)
{
    struct run_ended *e = r->unlogged;
    r->unlogged = e->next;
    if (!r->unlogged)
        r->unlogged_end = &r->unlogged;
    return e;
}

/* What has no line must not be printed: it would be printed again by the run that goes on. */
static void drop_unlogged(struct run *r)
{
    while (r->unlogged)
        free(take_first(r));
}

static void broken(struct run *r, int err)
{
    if (!r->log_broken) {
        run_clear_progress(r);
        say_error("run", "--joblog %s cannot be written: %s; what has no line there is not printed",
                  r->options.joblog, strerror(err));
        r->log_broken = true;
        run_cancel(r);
    }
    drop_unlogged(r);
}

static void on_written(void *arg)
{
    struct run *r = arg;
    int err = 0;
    uint64_t n = r->log ? joblog_written(r->log, &err) : 0;
    while (r->unlogged && r->unlogged->line <= n) {
        struct run_ended *e = take_first(r);
        deliver_in_order(r, &e->event);
        free(e);
    }
    if (err)
        broken(r, err);
    run_finish(r);
}

/* On the log's thread. */
static void post_written(void *arg) { loop_post(((struct run *)arg)->loop, on_written, arg); }

void run_log_start(struct run *r)
{
    r->unlogged_end = &r->unlogged;
    if (r->log)
        joblog_start(r->log, post_written, r);
}

static uint64_t add_line(struct run *r, const struct msg_task_event *m)
{
    char ending[TASK_ENDING_MAX];
    struct blob *input = run_input(r, m->id.task);
    const struct joblog_line line = {
        .position = (uint64_t)m->id.task + 1,
        .host = ":",
        .start_us = clock_us(CLOCK_REALTIME) - m->run_us,
        .run_us = m->run_us,
        .output = run_output_bytes(r, &m->id),
        .outcome = m->outcome,
        .code = m->code,
        .input = input,
        .ending = run_ending(r, m, ending, sizeof ending),
    };
    uint64_t number = joblog_add(r->log, &line);
    blob_drop(input);
    return number;
}

void run_log_ended(struct run *r, const struct msg_task_event *m)
{
    if (!r->log || m->state == TASK_CANCELLED) { /* which the next run runs */
        deliver_in_order(r, m);
        return;
    }
    if (r->log_broken)
        return;
    struct run_ended *e = xmalloc(sizeof *e);
    *e = (struct run_ended){.event = *m, .line = add_line(r, m)};
    *r->unlogged_end = e;
    r->unlogged_end = &e->next;
}

void run_log_close(struct run *r)
{
    joblog_close(r->log);
    r->log = NULL;
    if (r->unlogged)
        drop_unlogged(r);
    free_kept(r);
    free(r->before);
    r->before = NULL;
}
