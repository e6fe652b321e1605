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
};

static int on_entry(void *arg, const struct joblog_entry *e)
{
    struct reading *r = arg;
    struct run *run = r->run;
    vec_grow(run->past, run->past_n, run->past_cap);
    run->past[run->past_n++] = (struct run_past){
        .position = e->position, .line = e->line, .input = run->past_inputs.len, .done = e->done};
    text_add(&run->past_inputs, e->input, strlen(e->input) + 1);
    r->other_command |= strcmp(e->command, r->command) != 0;
    return 0;
}

/* By position; of several lines on one the last comes last. */
static int compare_past(const void *a, const void *b)
{
    const struct run_past *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
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
    if (strcmp(o->joblog, "-") == 0)
        return usage_error("run: --joblog takes a file: '-' is none (a file of that name: ./-)");
    char *command = joblog_command(&r->desc->argv);
    struct reading reading = {.run = r, .command = command};
    joblog_entry_fn *entries = resume ? on_entry : NULL;
    int err = o->dry_run ? joblog_look(o->joblog, entries, &reading, why, sizeof why)
                         : joblog_open(&r->log, o->joblog, command, entries, &reading, why, sizeof why);
    if (!err && reading.other_command)
        say_warning("run",
                    "--joblog %s: it has another command: tasks that ended by that one do not run again",
                    o->joblog);
    free(command);
    if (err)
        return usage_error("run: --joblog %s: %s", o->joblog, why);
    if (r->past_n)
        qsort(r->past, r->past_n, sizeof *r->past, compare_past);
    return 0;
}

/* Whether the entry is of this input; else says that it is not. */
static bool same_input(const struct run *r, const struct run_part *p, const struct run_past *e)
{
    struct blob *input = run_input(r, p, (uint32_t)(e->position - 1 - p->base));
    char *text = joblog_text(input ? input->data : "", input ? input->len : 0);
    const char *then = r->past_inputs.data + e->input;
    bool same = strcmp(text, then) == 0;
    if (!same)
        usage_error("run: --joblog %s: line %llu: input %llu was '%.80s', and is '%.80s' now",
                    r->options.joblog, (unsigned long long)e->line, (unsigned long long)e->position,
                    CLEAN(then), CLEAN(text));
    free(text);
    blob_drop(input);
    return same;
}

static void count_before(struct run *r, struct run_part *p)
{
    for (uint32_t i = 0; p->before && i < p->desc->tasks; i++) {
        if (p->before[i] == BEFORE_FAILED && r->options.resume_failed)
            p->before[i] = BEFORE_NOTHING;
        r->done_before += p->before[i] == BEFORE_DONE;
        r->failed_before += p->before[i] == BEFORE_FAILED;
        p->delivered += p->before[i] != BEFORE_NOTHING;
    }
}

int run_log_look(struct run *r, struct run_part *p)
{
    for (; r->past_next < r->past_n; r->past_next++) {
        const struct run_past *e = &r->past[r->past_next];
        if (e->position > (uint64_t)p->base + p->desc->tasks)
            break;
        if (!same_input(r, p, e))
            return HAWK_EXIT_USAGE;
        if (!p->before)
            p->before = xcalloc(p->desc->tasks, sizeof *p->before);
        p->before[e->position - 1 - p->base] = e->done ? BEFORE_DONE : BEFORE_FAILED;
    }
    count_before(r, p);
    return 0;
}

int run_log_look_beyond(const struct run *r)
{
    const struct run_past *e = r->past + r->past_next;
    if (r->past_next == r->past_n)
        return 0;
    return usage_error(
        "run: --joblog %s: line %llu is of input %llu, and there are %u: the inputs are others",
        r->options.joblog, (unsigned long long)e->line, (unsigned long long)e->position, r->total);
}

/* ---- Lines, and what waits for them ---- */

static void deliver(struct run *r, struct run_ended *e)
{
    run_deliver(r, run_part_find(r, e->event.id.job), &e->event);
    free(e);
}

static uint64_t add_line(struct run *r, const struct run_ended *e)
{
    const struct msg_task_event *m = &e->event;
    char ending[TASK_ENDING_MAX];
    const struct run_part *p = run_part_find(r, m->id.job);
    struct blob *input = run_input(r, p, m->id.task);
    const struct joblog_line line = {
        .position = (uint64_t)p->base + m->id.task + 1,
        .host = ":",
        .start_us = e->ended_us - m->run_us,
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

/* Its turn has come: it is delivered when its line, and those before it, are on the disk. Without -k its end is its
 * turn. With -k what still waits to be printed has no line, so that the run that goes on prints it. */
static void log_end(struct run *r, struct run_ended *e)
{
    /* The next run runs what was cancelled, and what would not be printed. */
    bool logged = r->log && e->event.state != TASK_CANCELLED && run_output_is_there(r, &e->event);
    if (!logged && !r->unlogged) {
        deliver(r, e);
        return;
    }
    if (logged && r->log_broken) {
        free(e);
        return;
    }
    if (logged)
        r->last_line = add_line(r, e);
    e->line = r->last_line;
    *r->unlogged_end = e;
    r->unlogged_end = &e->next;
}

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

/* Delivers what has its line. An errno: no more lines can be written. */
static int deliver_written(struct run *r)
{
    int err = 0;
    uint64_t n = joblog_written(r->log, &err);
    while (r->unlogged && r->unlogged->line <= n) {
        struct run_ended *e = take_first(r);
        struct run_part *p = run_part_find(r, e->event.id.job);
        deliver(r, e);
        run_part_settle(r, p);
    }
    return err;
}

static void on_written(void *arg)
{
    struct run *r = arg;
    int err = deliver_written(r);
    if (err)
        broken(r, err);
    run_log_go_on(r);
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

/* ---- Ends that wait for those of earlier inputs ---- */

static void skip_before(struct run_part *p)
{
    while (p->before && p->next_kept < p->desc->tasks && p->before[p->next_kept] != BEFORE_NOTHING)
        p->next_kept++;
}

/* Logs what may be of the first part. Whether it was the last of it. */
static bool log_kept(struct run *r, struct run_part *p)
{
    for (skip_before(p); p->next_kept < p->desc->tasks && p->kept && p->kept[p->next_kept]; skip_before(p)) {
        struct run_ended *e = p->kept[p->next_kept];
        p->kept[p->next_kept++] = NULL;
        log_end(r, e);
    }
    run_part_settle(r, p);
    return run_part_first(r) != p;
}

void run_log_go_on(struct run *r)
{
    if (!r->options.keep_order)
        return;
    for (struct run_part *p = run_part_first(r); p && log_kept(r, p);)
        p = run_part_first(r);
}

/* With -k its output stays on the disk until its turn. */
void run_log_ended(struct run *r, const struct msg_task_event *m)
{
    struct run_part *p = run_part_find(r, m->id.job);
    struct run_ended *e = xmalloc(sizeof *e);
    *e = (struct run_ended){.event = *m, .ended_us = clock_us(CLOCK_REALTIME)};
    if (!r->options.keep_order) {
        log_end(r, e);
        run_part_settle(r, p);
        return;
    }
    if (!p->kept)
        p->kept = xcalloc(p->desc->tasks, sizeof *p->kept);
    p->kept[m->id.task] = e;
    run_log_go_on(r);
}

void run_log_close(struct run *r)
{
    if (r->log) { /* no later run prints what has a line */
        joblog_finish(r->log);
        (void)deliver_written(r);
    }
    joblog_close(r->log);
    r->log = NULL;
    if (r->unlogged)
        drop_unlogged(r);
    free(r->past);
    text_free(&r->past_inputs);
    r->past = NULL;
    r->past_n = r->past_next = 0;
}
