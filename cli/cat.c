/* hawk cat */
#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/show.h"
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

/* The JSON document holds at most this much of one task's stream. It says if there is more. */
#define JSON_BYTES_MAX (64u << 20)
#define LEFT_GAP 1000u
#define STOP 1 /* ends a stream of output early: our reader has gone */

struct cat_options {
    struct common_options common;
    bool follow;
};

const struct flag cat_flags[] = {
    FLAG(BOOL, struct cat_options, follow, "follow", 'f', NULL, "go on until the task has ended"),
    {0},
};

struct cat {
    struct session *s;
    job_id_t job;
    bool from_stderr, follow, one;
    int exit_code;
    uint32_t silent, silent_task; /* tasks that have written nothing yet, and the first one */
    enum task_state silent_state;
    uint32_t first, n_tasks; /* which tasks are shown */
    uint32_t earlier;        /* of those: done in the job that this one runs again, or in one before it */
    job_id_t again_of;       /* the job that this one runs again, if its dist says so */
    uint32_t unstarted;      /* tasks that have ended so, where all are asked for */
    uint32_t missing; /* tasks without output anywhere: timers, or tasks whose files somebody removed */
    char missing_text[800];
    char file[160];       /* as the job names it; "": it names none */
    uint32_t first_index; /* the HAWK_TASK_INDEX of task 0 */
    json_t *outputs;      /* in JSON; else NULL */
    char *data;           /* in JSON: one task's output so far */
    size_t n, cap;
    bool truncated;                  /* JSON_BYTES_MAX, or cut short */
    bool cut_short;                  /* the disk was full when this task ended */
    uint32_t unreached, unreached_n; /* the last worker that gave nothing, and tasks not asked for there */
    uint32_t cut, cut_task;          /* tasks whose output was cut short, and the first one */
    bool shared;                     /* tasks of a worker write to one file: it is shown once */
    uint32_t *shown, shown_n, shown_cap; /* the workers whose file has been shown */
};

/* ---- Waiting for a task to start ---- */

struct starting {
    struct session *s;
    job_id_t job;
    uint32_t task;
    struct api_task found; /* without its texts */
    bool changed;
    uint32_t after; /* the last try that is known: waits for the next one, or for the task's end; 0: none */
    int err;
};

static bool has_started(const struct api_task *t) { return !task_state_before(t->state) && t->worker; }

/* What is waited for has come. */
static bool has_come(const struct starting *w)
{
    return (has_started(&w->found) && w->found.attempt > w->after) ||
           (w->after && task_state_final(w->found.state));
}

static int look_at_task(struct starting *w)
{
    struct api_get_job_request r = {.job = w->job, .first_task = w->task, .max_tasks = 1};
    struct api_get_job_reply reply;
    w->err = client_get_job(w->s->client, &r, &reply);
    if (!w->err && reply.tasks_n) {
        w->found = reply.tasks[0];
        w->found.worker_name = w->found.message = "";
    }
    api_free(&api_get_job_reply_type, &reply);
    return w->err;
}

static int on_change(void *ctx, const struct api_event *event)
{
    ((struct starting *)ctx)->changed = true;
    return 0;
}

static int on_tick(void *ctx)
{
    struct starting *w = ctx;
    if (!w->changed)
        return 0;
    w->changed = false;
    return look_at_task(w) || has_come(w) ? STOP : 0;
}

/* Waits until the task runs, in a try after that one, or has ended. */
static int wait_started(struct session *s, job_id_t job, uint32_t task, uint32_t after,
                        struct api_task *found)
{
    struct starting w = {.s = s, .job = job, .task = task, .after = after, .changed = true};
    int result = client_watch(s->client, &job, 1, CLIENT_WATCH_JOBS, on_change, on_tick, &w);
    if (result == 0)
        look_at_task(&w); /* the job has ended */
    *found = w.found;
    return result < 0 ? result : w.err;
}

/* ---- Output ---- */

/* Keeps output for the document. */
static void keep_output(struct cat *c, const struct api_output_chunk *chunk)
{
    size_t n = chunk->data_n < JSON_BYTES_MAX - c->n ? chunk->data_n : JSON_BYTES_MAX - c->n;
    c->truncated |= n < chunk->data_n || chunk->cut_short;
    if (c->n + n > c->cap) {
        c->cap = (c->n + n) * 2;
        c->data = xrealloc(c->data, c->cap);
    }
    if (n)
        memcpy(c->data + c->n, chunk->data, n);
    c->n += n;
}

static int on_output(void *ctx, const struct api_output_chunk *chunk)
{
    struct cat *c = ctx;
    c->cut_short |= chunk->cut_short;
    if (c->outputs)
        keep_output(c, chunk);
    /* A user who follows through a pipe sees each chunk when it comes. */
    else if (chunk->data_n &&
             (fwrite(chunk->data, 1, chunk->data_n, stdout) != chunk->data_n || fflush(stdout)))
        return STOP; /* command_run reports it if it is an error */
    return 0;
}

static json_t *number_json(int64_t n) { return n < 0 ? json_null() : json_integer(n); }

/* task or index below 0, attempt 0: not known any more. */
static void add_output(struct cat *c, int64_t task, int64_t index, uint32_t attempt)
{
    json_array_append_new(
        c->outputs,
        json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:b}", "job", JOB_TEXT(c->job), "task", number_json(task),
                  "index", number_json(index), "attempt", attempt ? json_integer(attempt) : json_null(),
                  "stream", c->from_stderr ? "stderr" : "stdout", "data",
                  json_data(c->data ? c->data : "", c->truncated ? utf8_whole(c->data, c->n) : c->n),
                  "truncated", (int)c->truncated));
}

struct done_tasks {
    uint32_t own, earlier; /* in this job, and in those that it runs again */
    job_id_t again_of;
};

static bool done_earlier(const struct api_task *t) { return !t->worker && t->state == TASK_DONE; }

static int count_done(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct done_tasks *d = ctx;
    (void)first_index;
    if (page->spec)
        d->again_of = page->spec->again_of;
    for (uint32_t i = 0; i < page->tasks_n; i++) {
        d->earlier += done_earlier(&page->tasks[i]);
        d->own += page->tasks[i].state == TASK_DONE && !done_earlier(&page->tasks[i]);
    }
    return 0;
}

/* Names the jobs that have the output of tasks that were done before: each may have run another one again. */
static void say_earlier(const struct cat *c)
{
    job_id_t job = c->again_of;
    uint32_t left = c->earlier;
    while (left && !job_eq(job, JOB_NONE)) {
        struct done_tasks d = {.again_of = JOB_NONE};
        const char *or_before = "";
        if (job_pages(c->s->client, job, c->first, c->n_tasks, count_done, &d) < 0 || d.own > left) {
            d.own = left; /* it is forgotten */
            or_before = ", or in one before it";
        }
        if (d.own)
            say_warning(c->s->command,
                        "%u task%s of job %s had been done in job %s%s, which it runs again: `hawk cat %s`",
                        d.own, PLURAL(d.own), JOB_TEXT(c->job), JOB_TEXT(job), or_before, JOB_TEXT(job));
        left -= d.own;
        job = d.again_of;
    }
    if (left) /* submitted at a dist of an older version */
        say_warning(c->s->command, "%u task%s of job %s had been done in the job that it runs again", left,
                    PLURAL(left), JOB_TEXT(c->job));
}

/* Writes one line for each kind, however many tasks it is about. */
static void say_silent(const struct cat *c)
{
    if (c->missing > 1)
        say_error(c->s->command, "%s; and so of %u other task%s", c->missing_text, c->missing - 1,
                  PLURAL(c->missing - 1));
    else if (c->missing)
        say_error(c->s->command, "%s", c->missing_text);
    if (c->unreached_n)
        say_error(c->s->command, "and so of %u other task%s of workers that did not answer", c->unreached_n,
                  PLURAL(c->unreached_n));
    if (c->cut) {
        char others[40] = "";
        if (c->cut > 1)
            snprintf(others, sizeof others, " (and that of %u other task%s)", c->cut - 1,
                     c->cut == 2 ? "" : "s");
        say_error(
            c->s->command,
            "task %u: its output%s may be cut short: the disk it was written to was full when the task ended",
            c->first_index + c->cut_task, others);
    }
    say_earlier(c);
    if (c->unstarted)
        say_warning(c->s->command, "%u task%s of job %s ended without a start: `hawk job %s` says why",
                    c->unstarted, PLURAL(c->unstarted), JOB_TEXT(c->job), JOB_TEXT(c->job));
    if (c->silent == 1)
        say_error(c->s->command, "task %u has written nothing: it is %s", c->first_index + c->silent_task,
                  show_task_state(c->silent_state));
    else if (c->silent)
        say_error(c->s->command, "%u tasks have written nothing yet: task %u, the first of them, is %s",
                  c->silent, c->first_index + c->silent_task, show_task_state(c->silent_state));
}

/* Whether the file that the task has written to has been shown. The workers of `hawk up` are one process. */
static bool shown_before(struct cat *c, uint32_t worker)
{
    bool up = client_is_embedded(c->s->client);
    if (!c->shared || c->one)
        return false;
    for (uint32_t i = 0; i < c->shown_n; i++)
        if (up || c->shown[i] == worker)
            return true;
    vec_grow(c->shown, c->shown_n, c->shown_cap);
    c->shown[c->shown_n++] = worker;
    return false;
}

/* The text is that of the first one. */
static void note_missing(struct cat *c, const struct api_task *t, uint32_t number)
{
    if (c->missing++)
        return;
    if (t->outcome == OUTCOME_NOT_STARTED)
        snprintf(c->missing_text, sizeof c->missing_text,
                 "task %u has written nothing: it was not started (`hawk job %s` says why)", number,
                 JOB_TEXT(c->job));
    else
        snprintf(c->missing_text, sizeof c->missing_text, "task %u: %s%s%s", number,
                 client_error(c->s->client), *c->file ? "; its job names a file for it: " : "", c->file);
}

/* Prints one task's output. Other than 0: nothing more can be written. */
static int cat_task(struct cat *c, const struct api_task *task, uint32_t first_index)
{
    struct api_task t = *task;
    if (!has_started(&t) && c->follow && !task_state_final(t.state) &&
        wait_started(c->s, c->job, t.task, 0, &t)) {
        c->exit_code = session_failed(c->s);
        return STOP;
    }
    if (done_earlier(&t)) {
        c->earlier++;
        return 0;
    }
    if (!t.worker || (!has_started(&t) && !task_state_final(t.state))) {
        if (!c->one && task_state_final(t.state)) {
            c->unstarted++;
        } else if (c->silent++ == 0) {
            c->silent_task = t.task;
            c->silent_state = t.state;
        }
        return 0;
    }
    if (shown_before(c, t.worker))
        return 0;
    if (t.worker == c->unreached) {
        c->unreached_n++;
        return 0;
    }
    struct api_read_output_request r = {
        .job = c->job, .task = t.task, .attempt = t.attempt, .stderr = c->from_stderr, .follow = c->follow};
    int err;
    do { /* a try that has failed may be followed by another */
        r.attempt = t.attempt;
        c->n = 0;
        c->truncated = c->cut_short = false;
        err = client_read_output(c->s->client, (node_id_t){t.worker}, &r, on_output, c);
    } while (c->follow && err == 0 && !task_state_final(t.state) &&
             wait_started(c->s, c->job, t.task, r.attempt, &t) == 0 && t.attempt > r.attempt);
    if (fflush(stdout))
        return STOP;
    if (c->cut_short && c->cut++ == 0)
        c->cut_task = t.task;
    if (err < 0) {
        if (err == HAWK_EUNAVAILABLE || err == HAWK_ETIMEOUT)
            c->unreached = t.worker; /* its other tasks would wait as long, for the same */
        if (err != HAWK_ENOT_FOUND)
            say_error(c->s->command, "task %u%s%s: %s", first_index + t.task,
                      *task->worker_name ? ", on " : "", CLEAN(task->worker_name),
                      client_error(c->s->client));
        else
            note_missing(c, &t, first_index + t.task);
        c->exit_code = HAWK_EXIT_UNREACHABLE; /* the output of the other tasks may be there */
    } else if (c->outputs) {
        add_output(c, t.task, (int64_t)first_index + t.task, t.attempt);
    }
    return err > 0 ? STOP : 0;
}

/* Whether the job named one file for all its tasks. */
static bool names_one_file(const struct job_desc *d, bool from_stderr)
{
    const struct blob *name = from_stderr ? d->stderr_pattern : d->stdout_pattern;

    if (!name || name->len == 0 || (name->data[0] != '/' && d->flags & JOB_EACH_CWD))
        return false;
    return !place_tells_tasks_apart(name->data, d->flags & JOB_EACH_ARG, d->columns) &&
           !strchr(name->data, '{') && !strstr(name->data, "%a");
}

static int cat_page(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct cat *c = ctx;
    int stop = 0;
    if (page->spec && page->spec->kind == PAYLOAD_APP) {
        say_error(c->s->command,
                  "the tasks of job %s are run by executors of application %s: `hawk result %s` shows "
                  "what they returned",
                  JOB_TEXT(c->job), CLEAN(page->spec->app->data), JOB_TEXT(c->job));
        c->exit_code = HAWK_EXIT_UNREACHABLE;
        return STOP;
    }
    if (page->spec && page->spec->kind == PAYLOAD_TIMER) {
        say_error(c->s->command, "the tasks of job %s are timers (--timer): they write nothing",
                  JOB_TEXT(c->job));
        c->exit_code = HAWK_EXIT_UNREACHABLE;
        return STOP;
    }
    if (page->spec) {
        const struct blob *name = c->from_stderr ? page->spec->stderr_pattern : page->spec->stdout_pattern;
        clean_text(c->file, sizeof c->file, name ? name->data : "");
        c->again_of = page->spec->again_of;
        c->shared = names_one_file(page->spec, c->from_stderr);
    }
    for (uint32_t i = 0; !stop && i < page->tasks_n; i++)
        stop = cat_task(c, &page->tasks[i], first_index);
    c->first_index = first_index;
    return stop ? STOP : 0;
}

/* ---- What is left of jobs that an earlier `hawk up` ran ---- */

/* Any worker of `hawk up`: they share one directory for output. */
static node_id_t some_worker(struct client *client)
{
    struct api_list_nodes_reply reply;
    node_id_t worker = NODE_NONE;

    if (!client_is_embedded(client) || client_list_nodes(client, &reply))
        return NODE_NONE;
    for (uint32_t i = 0; i < reply.nodes_n && node_eq(worker, NODE_NONE); i++)
        if (strcmp(reply.nodes[i].role, role_text(ROLE_WORKER)) == 0)
            worker = (node_id_t){reply.nodes[i].node};
    api_free(&api_list_nodes_reply_type, &reply);
    return worker;
}

/* Nobody knows how many tasks there were: LEFT_GAP in a row without output are the end. Whether there was anything. */
static bool cat_left(struct cat *c)
{
    node_id_t worker = some_worker(c->s->client);
    bool any = false;
    int err = 0;

    if (node_eq(worker, NODE_NONE))
        return false;
    for (uint32_t task = 0, gap = 0; gap < LEFT_GAP && (!err || err == HAWK_ENOT_FOUND); task++) {
        struct api_read_output_request r = {.job = c->job, .task = task, .stderr = c->from_stderr};
        c->n = 0;
        c->truncated = false;
        err = client_read_output(c->s->client, worker, &r, on_output, c);
        gap = err ? gap + 1 : 0;
        any |= !err;
        if (!err && c->outputs)
            add_output(c, task, -1, 0);
    }
    if (any)
        say_warning(c->s->command, "job %s ran under an earlier `hawk up`: this is what its tasks left",
                    JOB_TEXT(c->job));
    return any;
}

/* The same for one task, by its index. */
static bool cat_left_one(struct cat *c, uint32_t index)
{
    struct api_read_output_request r = {
        .job = c->job, .task = index, .by_index = true, .stderr = c->from_stderr};
    node_id_t worker = some_worker(c->s->client);

    if (node_eq(worker, NODE_NONE) || client_read_output(c->s->client, worker, &r, on_output, c))
        return false;
    if (c->outputs)
        add_output(c, -1, index, 0);
    return true;
}

static int cat_unknown(struct cat *c, const char *task_text)
{
    uint64_t index = 0;
    char why[1024];

    snprintf(why, sizeof why, "%s", client_error(c->s->client));
    if (!task_text && cat_left(c))
        return HAWK_EXIT_OK;
    if (task_text && !u64_parse(task_text, 0, UINT32_MAX, &index) && cat_left_one(c, (uint32_t)index))
        return HAWK_EXIT_OK;
    say_error(c->s->command, "%s", why);
    return HAWK_EXIT_UNREACHABLE;
}

static int cat_job(struct cat *c, const char *task_text)
{
    uint32_t task = 0;
    c->one = task_text != NULL;
    int exit_code = task_text ? task_find(c->s, c->job, task_text, &task) : 0;
    if (exit_code == HAWK_ENOT_FOUND)
        return cat_unknown(c, task_text);
    if (exit_code)
        return exit_code < 0 ? session_failed(c->s) : exit_code;
    c->first = task;
    c->n_tasks = c->one ? 1 : UINT32_MAX;
    int result = job_pages(c->s->client, c->job, c->first, c->n_tasks, cat_page, c);
    say_silent(c);
    if (result == HAWK_ENOT_FOUND)
        return cat_unknown(c, task_text);
    if (result < 0)
        return session_failed(c->s);
    return c->exit_code ? c->exit_code : c->cut ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

/* How many words, from the first one on, are jobs: ids have a dot, and tasks' numbers have none. */
static int count_ids(int n, char **words)
{
    int ids = n > 0;
    while (ids < n && (strpbrk(words[ids], ".,") || strcmp(words[ids], SELECT_LAST) == 0 ||
                       strcmp(words[ids], SELECT_NONE) == 0 || strcmp(words[ids], "all") == 0))
        ids++;
    return ids;
}

int cat_main(int argc, char **argv)
{
    struct cat_options o = {0};
    struct session s;
    struct selection jobs;
    int first = flags_parse(argv[0], cat_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    const char *stream = argc - first > 1 ? argv[argc - 1] : "stdout";
    bool named = strcmp(stream, "stdout") == 0 || strcmp(stream, "stderr") == 0;
    int words = argc - first - (named && argc - first > 1), ids = count_ids(words, argv + first);
    if (words == ids + 2 && !named)
        return usage_error("cat: '%s' is neither stdout nor stderr", stream);
    if (words < 1 || words > ids + 1)
        return usage_error("cat: write `hawk cat ID... [TASK] [stdout|stderr]`");
    const char *task = words > ids ? argv[first + ids] : NULL;
    if (task && strspn(task, "0123456789") != strlen(task))
        return usage_error("cat: '%s' is neither a task's number nor stdout or stderr", task);
    int exit_code = session_select(&s, argv[0], &o.common, ids, argv + first, &jobs);
    bool opened = exit_code == HAWK_EXIT_OK;
    json_t *outputs = opened && s.mode == OUTPUT_JSON ? json_array() : NULL;
    for (uint32_t i = 0; opened && i < jobs.n; i++) {
        struct cat c = {.s = &s,
                        .outputs = outputs,
                        .job = jobs.jobs[i],
                        .from_stderr = named && strcmp(stream, "stderr") == 0,
                        .follow = o.follow};
        int got = cat_job(&c, task);
        exit_code = exit_code ? exit_code : got;
        free(c.data);
        free(c.shown);
    }
    if (outputs)
        document_print(json_pack("{s:o}", "outputs", outputs));
    session_close(&s);
    selection_free(&jobs);
    return exit_code;
}
