/* What the tasks of `hawk run` wrote: caught in files, and printed or put into the JSON document. */
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/document.h"
#include "cli/print.h"
#include "daemon/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_US (20 * US_PER_MS) /* between two looks at the output of tasks that run */
#define FDS_KEPT 16u
#define OUTPUT_KEPT (16u << 20) /* bytes of a task's stdout and stderr each in the JSON document */

/* The path of a task's captured file. False: its output goes elsewhere, or it is a timer and has none. */
static bool captured_path(const struct run *r, const struct try_id *id, int which, char path[EXEC_PATH_MAX])
{
    bool captured = which == 1 ? !r->desc->stdout_pattern : !r->desc->stderr_pattern;
    return captured && r->desc->kind != PAYLOAD_TIMER &&
           exec_output_path(&r->exec_config, id, NULL, NULL, which, path, EXEC_PATH_MAX) == 0;
}

/* -1: its output goes elsewhere, or errno. */
static int open_captured(const struct run *r, const struct try_id *id, int which, char path[EXEC_PATH_MAX])
{
    return captured_path(r, id, which, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* Whether it ran, and so has files. */
static bool has_run(const struct msg_task_event *m)
{
    return (m->state == TASK_DONE || m->state == TASK_FAILED) && m->outcome != OUTCOME_NOT_STARTED;
}

static void say_lost(struct run *r, const struct msg_task_event *m, const char *path, int err)
{
    if (!has_run(m) || r->output_lost)
        return;
    r->output_lost = true;
    run_clear_progress(r);
    say_error(
        "run",
        "%s: what a task wrote cannot be read: %s; what others wrote may be lost, too. Such a task has no "
        "line in the --joblog",
        path, strerror(err));
}

/* Who closed stderr (2>&-), or left its terminal, wants the results nonetheless. */
bool run_unread(void) { return ferror(stdout) || command_write_error(STDERR_FILENO) == EPIPE; }

/* A task whose write fails should say so. But not all tasks look, and stderr may be on the same full disk. */
static void look_for_full_disk(struct run *r, int fd)
{
    struct stat st;
    if (r->full || fstat(fd, &st) || st.st_size == 0 || !exec_disk_full(r->dir))
        return;
    r->full = true;
    run_clear_progress(r);
    say_error(
        "run",
        "the disk of %s is full: what tasks write may be cut short; set TMPDIR to a directory with room, "
        "or use --stdout and --stderr",
        r->dir);
}

uint64_t run_output_bytes(const struct run *r, const struct try_id *id)
{
    uint64_t bytes = 0;
    for (int which = 1; which <= 2; which++) {
        char path[EXEC_PATH_MAX];
        struct stat st;
        int fd = open_captured(r, id, which, path);
        if (fd >= 0 && fstat(fd, &st) == 0)
            bytes += (uint64_t)st.st_size;
        if (fd >= 0)
            close(fd);
    }
    return bytes;
}

/* ---- Printing ---- */

static void print_tag(const struct run *r, const struct run_part *p, uint32_t task, FILE *f)
{
    struct blob *input = run_input(r, p, task);
    char *text = joblog_text(input ? input->data : "", input ? input->len : 0);
    fprintf(f, "%s\t", text);
    free(text);
    blob_drop(input);
}

/* Prints a piece of a task's output; with --tag, each line behind the task's input. */
static void print_piece(struct run *r, const struct run_part *p, uint32_t task, int which, const char *data,
                        size_t n)
{
    FILE *f = which == 1 ? stdout : stderr;
    bool *mid_line = &r->mid_line[which - 1];
    run_clear_progress(r);
    while (n > 0) {
        const char *end = r->options.tag ? memchr(data, '\n', n) : NULL;
        size_t len = end ? (size_t)(end - data) + 1 : n;
        if (r->options.tag && !*mid_line)
            print_tag(r, p, task, f);
        fwrite(data, 1, len, f);
        *mid_line = data[len - 1] != '\n';
        data += len;
        n -= len;
    }
}

/* Prints what is there from *at on; whole: only whole lines, unless one fills the buffer. Whether that was anything. */
static bool print_from(struct run *r, const struct run_part *p, uint32_t task, int which, int fd, off_t *at,
                       bool whole)
{
    char buf[1 << 16];
    bool any = false;
    for (ssize_t n; (n = pread(fd, buf, sizeof buf, *at)) > 0;) {
        const char *end = whole ? memrchr(buf, '\n', (size_t)n) : NULL;
        size_t len = end ? (size_t)(end - buf) + 1 : whole && (size_t)n < sizeof buf ? 0 : (size_t)n;
        if (len == 0)
            break;
        print_piece(r, p, task, which, buf, len);
        *at += (off_t)len;
        any = true;
    }
    if (any)
        fflush(which == 1 ? stdout : stderr); /* the reader of a pipe sees it at once */
    return any;
}

/* ---- Output of tasks that run ---- */

/* Keeps some descriptors for what else must be opened. Without one of its own a task is printed when it has ended. */
static int open_live(const struct run *r, const struct try_id *id, int which)
{
    char path[EXEC_PATH_MAX];
    struct rlimit limit;
    int fd = open_captured(r, id, which, path);
    if (fd < 0 || (getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd + FDS_KEPT < limit.rlim_cur))
        return fd;
    close(fd);
    return -1;
}

static struct run_live **live_find(struct run *r, const struct try_id *id)
{
    struct run_live **at = &r->living;
    while (*at && ((*at)->task != id->task || (*at)->job.v != id->job.v))
        at = &(*at)->next;
    return at;
}

static void live_look(void *arg)
{
    struct run *r = arg;
    for (struct run_live *l = r->living; l; l = l->next)
        for (int i = 0; i < 2; i++)
            if (l->fd[i] >= 0)
                (void)print_from(r, run_part_find(r, l->job), l->task, i + 1, l->fd[i], &l->at[i],
                                 r->live == LIVE_LINES);
    if (r->living)
        loop_timer_set(r->loop, &r->look, loop_now(r->loop) + LOOK_US);
}

void run_live_start(struct run *r) { loop_timer_init(&r->look, live_look, r); }

static void live_end(struct run_live **at)
{
    struct run_live *l = *at;
    *at = l->next;
    for (int i = 0; i < 2; i++)
        if (l->fd[i] >= 0)
            close(l->fd[i]);
    free(l);
}

static void end_line(struct run *r, int which)
{
    if (r->mid_line[which - 1] && (r->options.tag || r->live == LIVE_LINES)) {
        fputc('\n', which == 1 ? stdout : stderr);
        r->mid_line[which - 1] = false;
    }
}

/* Leaves an earlier try, which has failed: prints it to its end, since this try has files of its own. Returns what is
 * printed of this one so far; NULL: nothing. */
static struct run_live **live_switch_to(struct run *r, const struct try_id *id)
{
    struct run_live **at = live_find(r, id);
    struct run_live *l = *at;
    if (!l || l->attempt == id->attempt)
        return l ? at : NULL;
    for (int i = 0; i < 2; i++) {
        if (l->fd[i] >= 0)
            (void)print_from(r, run_part_find(r, l->job), l->task, i + 1, l->fd[i], &l->at[i], false);
        end_line(r, i + 1);
    }
    live_end(at);
    return NULL;
}

void run_live_begin(struct run *r, const struct try_id *id)
{
    if (r->live == LIVE_NOT || live_switch_to(r, id))
        return;
    struct run_live *l = xcalloc(1, sizeof *l);
    *l = (struct run_live){.next = r->living, .job = id->job, .task = id->task, .attempt = id->attempt};
    r->living = l;
    for (int i = 0; i < 2; i++)
        l->fd[i] = open_live(r, id, i + 1);
    if (!loop_timer_is_set(&r->look))
        loop_timer_set(r->loop, &r->look, loop_now(r->loop) + LOOK_US);
}

void run_live_stop(struct run *r)
{
    loop_timer_clear(r->loop, &r->look);
    while (r->living)
        live_end(&r->living);
}

void run_live_alone(struct run *r)
{
    if (r->total != 1 || r->live != LIVE_NOT || r->json || r->log)
        return;
    r->live = r->options.tag ? LIVE_LINES : LIVE_BYTES;
    r->show_progress = r->show_progress && r->options.progress;
    if (r->unended == 1 && r->last_started.attempt)
        run_live_begin(r, &r->last_started);
}

bool run_output_is_there(struct run *r, const struct msg_task_event *m)
{
    struct run_live **live = live_find(r, &m->id);
    for (int which = 1; which <= 2 && has_run(m); which++) {
        char path[EXEC_PATH_MAX];
        bool open = *live && (*live)->attempt == m->id.attempt && (*live)->fd[which - 1] >= 0;
        if (!open && captured_path(r, &m->id, which, path) && access(path, R_OK) < 0)
            return false;
    }
    return true;
}

bool run_print_file(struct run *r, const struct run_part *p, const struct msg_task_event *m, int which)
{
    char path[EXEC_PATH_MAX];
    struct run_live **live = live_switch_to(r, &m->id);
    off_t at = live ? (*live)->at[which - 1] : 0;
    bool any = at > 0, captured = captured_path(r, &m->id, which, path);
    int fd = live ? (*live)->fd[which - 1] : -1;
    bool followed = fd >= 0; /* it is there, also when its file was removed */
    if (captured && !followed && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        say_lost(r, m, path, errno);
    if (fd >= 0) {
        look_for_full_disk(r, fd);
        any |= print_from(r, p, m->id.task, which, fd, &at, false);
        if (!followed)
            close(fd);
        unlink(path);
    }
    if (any)
        end_line(r, which);
    fflush(which == 1 ? stdout : stderr);
    if (live && which == 2)
        live_end(live);
    return any;
}

/* ---- JSON: one document, written as tasks end ---- */

static void json_file(struct run *r, json_t *o, const struct msg_task_event *m, int which)
{
    char path[EXEC_PATH_MAX];
    if (!captured_path(r, &m->id, which, path))
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        say_lost(r, m, path, errno);
        return;
    }
    look_for_full_disk(r, fd);
    size_t n = 0;
    ssize_t got = 1;
    char *data = xmalloc(OUTPUT_KEPT + 1);
    while (n <= OUTPUT_KEPT && (got = read(fd, data + n, OUTPUT_KEPT + 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    unlink(path);
    json_object_set_new(o, which == 1 ? "stdout" : "stderr",
                        json_data(data, n > OUTPUT_KEPT ? utf8_whole(data, OUTPUT_KEPT) : n));
    free(data);
    if (n <= OUTPUT_KEPT)
        return;
    json_object_set_new(o, which == 1 ? "stdout_truncated" : "stderr_truncated", json_true());
    if (!r->said_truncated)
        say_warning("run", "what a task wrote beyond 16 MiB is left out of the document (stdout_truncated, "
                           "stderr_truncated)");
    r->said_truncated = true;
}

static json_t *span_json(int64_t us) { return us < 0 ? json_null() : json_integer(us); }

void run_json_task(struct run *r, const struct run_part *p, const struct msg_task_event *m)
{
    const struct dist *d = embedded_dist(r->cluster);
    const struct dist_job *j = dist_find(d, m->id.job);
    struct task_view v = {.wait_us = -1, .run_us = -1};
    struct blob *arg = exec_shown_input(p->desc, m->id.task);
    if (j)
        dist_task_view(d, j, m->id.task, loop_now(r->loop), &v);
    json_t *o =
        json_pack("{s:I, s:I, s:o, s:s, s:s, s:I, s:o, s:o, s:o}", "task", (json_int_t)p->base + m->id.task,
                  "index", (json_int_t)p->desc->first_index + m->id.task, "argument",
                  arg ? json_data(arg->data, arg->len) : json_null(), "state", task_state_text(m->state),
                  "outcome", outcome_text(m->outcome), "code", (json_int_t)m->code, "wait_us",
                  span_json(v.wait_us), "run_us", span_json(v.run_us), "message",
                  v.message ? json_bytes(v.message->data, v.message->len) : json_null());
    if (run_prints(r, m)) {
        json_file(r, o, m, 1);
        json_file(r, o, m, 2);
    }
    fputs(r->ended ? ",\n    " : "\n    ", stdout);
    json_write(o, stdout, JSON_COMPACT);
    json_decref(o);
    blob_drop(arg);
    fflush(stdout);
}

void run_json_begin(void)
{
    document_begin();
    fputs("\"tasks\": [", stdout);
}

void run_json_end(const struct run *r)
{
    printf("\n  ],\n  \"submitted\": %u,\n  \"ended_before\": %u,\n  \"ended\": %u,\n  \"failed\": %u,\n  "
           "\"cancelled\": %u,\n  "
           "\"exit_code\": %d",
           r->total, r->done_before + r->failed_before, r->ended, r->failed, r->cancelled, r->exit_code);
    document_finish();
}
