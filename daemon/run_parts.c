/* The inputs of `hawk run`: all of them are one job. Of a list that comes by and by, what has come is one; then what
 * has come until some tasks have ended is the next. */
#include "base/mem.h"
#include "cli/document.h"
#include "daemon/run.h"

#include <stdlib.h>
#include <string.h>

/* Inputs that are read before a slot is free for them: up to AHEAD, and again when there are fewer than AHEAD_LEAST. */
#define AHEAD INPUTS_FIRST
#define AHEAD_LEAST 64u

/* ---- The table ---- */

struct run_part *run_part_find(const struct run *r, job_id_t job)
{
    uint64_t at = job_id_seq(job) - r->first_seq;
    return at < r->parts_n ? r->parts[at] : NULL;
}

struct run_part *run_part_first(const struct run *r) { return r->parts_n ? r->parts[0] : NULL; }

static void part_free(struct run_part *p)
{
    for (uint32_t i = 0; p->kept && i < p->desc->tasks; i++)
        free(p->kept[i]);
    free(p->kept);
    free(p->before);
    job_desc_drop(p->desc);
    free(p);
}

void run_part_settle(struct run *r, struct run_part *p)
{
    uint32_t gone = 0;
    if (!p->over || p->delivered < p->desc->tasks)
        return;
    r->parts[job_id_seq(p->job) - r->first_seq] = NULL;
    part_free(p);
    while (gone < r->parts_n && !r->parts[gone])
        gone++;
    r->parts_n -= gone;
    r->first_seq += gone;
    memmove(r->parts, r->parts + gone, r->parts_n * sizeof *r->parts);
}

void run_parts_free(struct run *r)
{
    lines_close(r->lines);
    if (r->first)
        part_free(r->first);
    for (uint32_t i = 0; i < r->parts_n; i++)
        if (r->parts[i])
            part_free(r->parts[i]);
    free(r->parts);
}

/* ---- Jobs ---- */

/* The inputs that need not run, as a job's ends that its client knows, and the order of the others. */
static struct resubmit *known_ends(struct run *r, const struct run_part *p)
{
    struct resubmit *s = resubmit_new(p->delivered);
    s->job = p->job;
    s->epoch = EPOCH_FIRST;
    s->class = CLASS_SHORT;
    s->why = WHY_TAG;
    uint32_t at = 0;
    for (uint32_t i = 0; p->before && i < p->desc->tasks; i++)
        if (p->before[i] != BEFORE_NOTHING)
            /* Those that failed must not count for --max-fails. */
            s->v[at++] = (struct resubmit_task){.task = i,
                                                .wait_us = -1,
                                                .run_us = -1,
                                                .attempt = 1,
                                                .state = TASK_DONE,
                                                .outcome = OUTCOME_EXITED};
    run_shuffle(r, s);
    return s;
}

/* A job of which tasks have ended before, or whose tasks have an order, or that has others before it, is one that moved
 * here. */
static void submit(struct run *r, struct run_part *p)
{
    struct msg m = {.type = MSG_SUBMIT, .submit = {.desc = p->desc, .watch = true}};
    p->job = job_id_make(dist_node(embedded_dist(r->cluster)), r->first_seq + r->parts_n);
    vec_grow(r->parts, r->parts_n, r->parts_cap);
    r->parts[r->parts_n++] = p;
    r->parts_going++;
    if (r->streams || p->before || r->options.shuf) {
        m.submit.resubmit = known_ends(r, p);
        p->desc->tag = TAG_SHORT; /* nobody else has a part of it */
    }
    embedded_feed(r->cluster, ROLE_DIST, &m);
    resubmit_drop(m.submit.resubmit);
}

int run_part_add(struct run *r, struct job_desc *desc)
{
    struct run_part *p = xcalloc(1, sizeof *p);
    *p = (struct run_part){.desc = desc, .base = r->total};
    int exit_code = run_log_look(r, p);
    if (exit_code) {
        part_free(p);
        return exit_code;
    }
    r->total += desc->tasks;
    if (p->delivered == desc->tasks) {
        part_free(p);
        return 0;
    }
    r->unended += desc->tasks - p->delivered;
    r->undelivered += desc->tasks - p->delivered;
    if (r->cluster)
        submit(r, p);
    else
        r->first = p;
    return 0;
}

/* ---- A list that comes by and by ---- */

void run_parts_stop_reading(struct run *r)
{
    if (!r->lines)
        return;
    r->cut = !lines_over(r->lines);
    loop_fd_remove(r->lines_fd);
    r->lines_fd = NULL;
    lines_close(r->lines);
    r->lines = NULL;
}

static void refuse_inputs(struct run *r, int exit_code)
{
    r->inputs_code = exit_code;
    run_parts_stop_reading(r);
}

static void list_ended(struct run *r)
{
    run_parts_stop_reading(r);
    r->inputs_code = run_log_look_beyond(r);
    run_live_alone(r);
}

/* What has come becomes a job. */
static void take_more(struct run *r)
{
    struct task_args args = {0};
    int exit_code = lines_take(r->lines, &args, r->slots + AHEAD - r->unended), first_code = 0;
    if (args.n) { /* what stands before a line that is refused runs */
        char why[256];
        struct job_desc *desc = job_desc_part(r->desc, &args, r->total);
        if (job_submission_check(desc, why, sizeof why)) {
            first_code = usage_error("run: %s", why);
            job_desc_drop(desc);
        } else {
            first_code = run_part_add(r, desc);
        }
    }
    if (first_code || exit_code)
        refuse_inputs(r, first_code ? first_code : exit_code);
    else if (lines_over(r->lines))
        list_ended(r);
    free(args.off);
    free(args.data);
}

static void on_lines(void *arg, unsigned events)
{
    struct run *r = arg;
    int exit_code = lines_read(r->lines);
    if (exit_code)
        refuse_inputs(r, exit_code);
}

void run_parts_turn(struct run *r)
{
    bool wants = r->unended < r->slots + AHEAD_LEAST && r->undelivered < LIMIT_TASKS_PER_JOB;
    if (!r->lines_fd)
        return;
    if (wants && !lines_hungry(r->lines))
        take_more(r);
    if (r->lines_fd)
        loop_fd_events(r->lines_fd, wants && lines_hungry(r->lines) ? LOOP_READ : 0);
}

/* ---- Start ---- */

/* The tasks of all parts share one id in the names of their files. */
static void name_first_job(struct blob **pattern, job_id_t job)
{
    char id[JOB_ID_TEXT];
    struct text t = {0};
    if (!*pattern)
        return;
    for (const char *at = (*pattern)->data; *at; at++) {
        if (at[0] != '%' || !at[1]) {
            text_add(&t, at, 1);
        } else if (at[1] == 'J' || at[1] == 'j') {
            const char *text = job_id_format(id, job);
            text = at[1] == 'J' ? text : strchr(text, '.') + 1;
            text_add(&t, text, strlen(text));
            at++;
        } else {
            text_add(&t, at++, 2);
        }
    }
    blob_drop(*pattern);
    *pattern = blob_new(t.data, t.len);
    text_free(&t);
}

void run_parts_start(struct run *r)
{
    r->first_seq = 1;
    r->started = true;
    if (r->streams) {
        job_id_t first = job_id_make(dist_node(embedded_dist(r->cluster)), 1);
        name_first_job(&r->desc->stdout_pattern, first);
        name_first_job(&r->desc->stderr_pattern, first);
    }
    if (r->lines)
        r->lines_fd = loop_fd_add(r->loop, lines_fd(r->lines), 0, on_lines, r);
    if (r->first)
        submit(r, r->first);
    else
        r->submitted = true;
    r->first = NULL;
}
