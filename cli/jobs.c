/* hawk wait, jobs, job, cancel */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/failures.h"
#include "cli/inputs.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/wait.h"

#include <stdlib.h>
#include <string.h>

#define ENDED_SHOWN 20 /* unless told */
#define UNFINISHED_SHOWN 100
#define TASKS_SHOWN 100
#define TASKS_NOT_GIVEN UINT32_MAX

/* ---- wait ---- */

struct wait_options {
    struct common_options common;
    bool progress, results;
    int64_t for_us;
};

const struct flag wait_flags[] = {
    FLAG_ABOVE_0(struct wait_options, for_us, "for", 0, "TIME",
                 "give up after this time, with exit code 4; the jobs go on, but one submitted with --wait "
                 "only while somebody waits for it"),
    FLAG(BOOL, struct wait_options, progress, "progress", 0, NULL,
         "show progress even if stderr is no terminal, as lines"),
    FLAG(BOOL, struct wait_options, results, "results", 0, NULL,
         "print the results of jobs for attached executors (--app)"),
    {0},
};

int wait_main(int argc, char **argv)
{
    struct wait_options o = {0};
    struct session s;
    struct selection jobs;
    int first = flags_parse(argv[0], wait_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (o.for_us && o.for_us < CLIENT_TIMEOUT_US && !o.common.timeout_us)
        o.common.timeout_us =
            o.for_us; /* a wait that ends after this time does not wait longer for an answer */
    int exit_code = session_select(&s, argv[0], &o.common, argc - first, argv + first, &jobs);
    struct waiting how = {.progress = o.progress, .results = o.results, .for_us = o.for_us};
    if (!exit_code)
        exit_code = wait_jobs(&s, &jobs, &how);
    session_close(&s);
    selection_free(&jobs);
    return exit_code;
}

/* ---- jobs ---- */

struct jobs_options {
    struct common_options common;
    const char *name, *user, *states;
    uint32_t limit;
    bool all, mine;
};

#define STATES "pending, blocked, held, waiting, running, done, failed, cancelled"

const struct flag jobs_flags[] = {
    FLAG_NUMBER(
        struct jobs_options, limit, "limit", 0, "N",
        "show the newest N jobs; default: those that have not ended (a table: 100 of them) and 20 that "
        "have, with --quiet all",
        1, UINT32_MAX),
    FLAG(BOOL, struct jobs_options, all, "all", 'a', NULL, "show all jobs that the cluster knows"),
    FLAG(BOOL, struct jobs_options, mine, "mine", 'm', NULL, "only your own jobs"),
    FLAG(TEXT, struct jobs_options, user, "user", 'u', "USER", "only jobs of this user"),
    FLAG(TEXT, struct jobs_options, name, "name", 'n', "NAME",
         "only jobs with this name; ... in it: any text"),
    FLAG(TEXT, struct jobs_options, states, "state", 's', "STATE,...", "only jobs in these states: " STATES),
    {0},
};

/* Parses "running,failed" to bits; 0 after a message. */
static uint32_t states_parse(const char *command, const char *text)
{
    uint32_t states = 0;
    for (const char *word = text; *word; word += strcspn(word, ","), word += *word == ',') {
        size_t len = strcspn(word, ",");
        int state = 0;
        while (state < JOB_STATE_COUNT &&
               (strlen(job_state_text(state)) != len || strncmp(job_state_text(state), word, len) != 0))
            state++;
        if (state == JOB_STATE_COUNT) {
            usage_error("%s: --state: '%.*s' is none of " STATES, command, (int)len, word);
            return 0;
        }
        states |= 1u << state;
    }
    if (!states)
        usage_error("%s: --state names no state", command);
    return states;
}

/* Leaves the newest UNFINISHED_SHOWN of the jobs that have not ended, for a table. How many it drops. */
static uint32_t drop_unfinished(struct api_list_jobs_reply *reply)
{
    uint32_t kept = 0, unfinished = 0;
    for (uint32_t i = 0; i < reply->jobs_n; i++) {
        if (!job_state_final(reply->jobs[i].state) && ++unfinished > UNFINISHED_SHOWN)
            api_free(&api_job_type, &reply->jobs[i]);
        else
            reply->jobs[kept++] = reply->jobs[i];
    }
    uint32_t dropped = reply->jobs_n - kept;
    reply->jobs_n = kept;
    return dropped;
}

/* unfinished: so many that have not ended are left out. */
static void print_jobs(struct session *s, const struct api_list_jobs_reply *reply, uint32_t unfinished)
{
    struct text_table t = {0};
    json_t *list = json_array();
    table_columns(&t, "!JOB", "NAME", "?USER", "?CLASS", "STATE", ">TASKS", ">DONE", ">FAILED", "?>RUNNING",
                  "?>WAITING", "?FOR", ">AGE", "?>TOOK", NULL);
    for (uint32_t i = 0; i < reply->jobs_n; i++) {
        const struct api_job *j = &reply->jobs[i];
        if (s->mode == OUTPUT_JSON)
            json_array_append_new(list, job_json(j));
        if (s->mode == OUTPUT_QUIET)
            printf("%s\n", JOB_TEXT(j->job));
        table_cell(&t, "%s", JOB_TEXT(j->job));
        table_cell(&t, "%s", text_cut((char[160]){0}, 160, CLEAN(j->name), 32, false));
        table_cell(&t, "%s", CLEAN(j->user));
        table_cell(&t, "%s", show_class(j->class));
        table_cell(&t, "%s%s", show_state_of(j), j->no_executor ? ", no executor" : "");
        table_cell(&t, "%u", j->tasks);
        table_cell(&t, "%u", j->done);
        table_cell(&t, "%u", j->failed + j->lost);
        table_cell(&t, "%u", j->running);
        table_cell(&t, "%u", j->waiting);
        table_cell(&t, "%s", CLEAN(j->waits));
        table_cell(&t, "%s", DURATION(j->age_us));
        table_cell(&t, "%s", DURATION(j->response_us));
    }
    if (s->mode == OUTPUT_JSON)
        document_print(json_pack("{s:O, s:b}", "jobs", list, "more", (int)reply->more));
    json_decref(list);
    if (s->mode == OUTPUT_TABLE)
        table_print(&t, "no jobs");
    else
        table_free(&t);
    bool no_executor = false;
    for (uint32_t i = 0; i < reply->jobs_n; i++)
        no_executor |= reply->jobs[i].no_executor;
    if (s->mode == OUTPUT_TABLE && no_executor)
        table_note("no executor: no worker serves the job's application; `hawk explain` names it");
    if (s->mode == OUTPUT_TABLE && unfinished)
        table_note("%u more ha%s not ended: see --limit, --all and the filters in `hawk jobs --help`",
                   unfinished, unfinished == 1 ? "s" : "ve");
    else if (s->mode == OUTPUT_TABLE && reply->more)
        table_note("there are more: see --limit, --all and the filters in `hawk jobs --help`");
}

int jobs_main(int argc, char **argv)
{
    struct jobs_options o = {0};
    struct session s;
    struct api_list_jobs_reply reply;
    int first = flags_parse(argv[0], jobs_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("jobs takes no argument '%s': `hawk job %s` shows one job", argv[first],
                           argv[first]);
    if (o.mine && o.user)
        return usage_error("jobs: --mine and --user both say whose: give one");
    struct client_job_query q = {.limit = o.limit, /* 0: all */
                                 .name = o.name,
                                 .user = o.mine ? user_name(argv[0]) : o.user,
                                 .mine = o.mine};
    if (o.states && !(q.states = states_parse(argv[0], o.states)))
        return HAWK_EXIT_USAGE;
    int exit_code = session_open(&s, argv[0], &o.common);
    if (!exit_code) {
        uint32_t unfinished = 0;
        q.limits_ended =
            !o.limit && !o.all && s.mode != OUTPUT_QUIET; /* scripts do not see that there are more */
        if (q.limits_ended)
            q.limit = ENDED_SHOWN;
        if (client_list_jobs(s.client, &q, &reply))
            exit_code = session_failed(&s);
        session_warn(&s);
        if (!exit_code && q.limits_ended && s.mode == OUTPUT_TABLE)
            unfinished = drop_unfinished(&reply);
        if (!exit_code)
            print_jobs(&s, &reply, unfinished);
        api_free(&api_list_jobs_reply_type, &reply);
    }
    session_close(&s);
    return exit_code;
}

/* ---- job ---- */

struct job_options {
    struct common_options common;
    uint32_t limit, first;
    bool failed;
};

const struct flag job_flags[] = {
    FLAG_NUMBER(
        struct job_options, limit, "tasks", 0, "N",
        "show so many tasks, each in a line; default: 100, and failures in the same words in one line; "
        "JSON: all",
        0, UINT32_MAX - 1),
    FLAG_NUMBER(struct job_options, first, "skip", 0, "N", "leave out the first N tasks", 0, UINT32_MAX),
    FLAG(BOOL, struct job_options, failed, "failed", 'f', NULL, "only tasks that failed or were lost"),
    {0},
};

struct job_view_state {
    const struct job_options *o;
    struct text_table table;
    json_t *json, *tasks; /* borrowed from json */
    struct failures failures;
    uint32_t shown, limit;
    uint32_t seen;    /* tasks, shown or not */
    uint32_t left;    /* tasks behind the last one shown, of those that were asked for */
    int64_t limit_us; /* the job's time limit */
    enum output_mode mode;
    bool begun;
    bool pauses;   /* tasks of it stood still: there is a column for that */
    bool *printed; /* whether something of another job was printed */
};

static void print_job_head(const struct api_job *j, const struct job_desc *spec)
{
    printf("job %s  %s, %s: %s\n", JOB_TEXT(j->job), show_state_of(j), show_class(j->class), CLEAN(j->name));
    printf("  user      %s\n", CLEAN(j->user));
    printf("  tasks     %u: %u done, %u running, %u waiting, %u failed, %u cancelled, %u lost\n", j->tasks,
           j->done, j->running, j->waiting, j->failed, j->cancelled, j->lost);
    printf("  age       %s; first task started after %s", DURATION(j->age_us), DURATION(j->first_start_us));
    printf(j->response_us < 0 ? "\n" : "; ended after %s\n", DURATION(j->response_us));
    show_times(j);
    if (j->cpu_us > 0 || j->mem_peak_bytes > 0)
        printf("  used      CPU %s in all, memory %s at most in one task\n", KNOWN_DURATION(j->cpu_us),
               KNOWN_SIZE(j->mem_peak_bytes));
    show_waits(j, spec);
    show_pauses(j);
    if (!spec)
        return;
    show_ancestors(&spec->ancestors);
    show_command(spec);
}

#define ENDING_SHOWN 84 /* bytes; `hawk cat` and JSON show all of it */

/* Whether the task is one of those that were asked for, and there is room for it. */
static bool job_shows(struct job_view_state *v, const struct api_task *t)
{
    bool bad = t->state == TASK_FAILED || t->state == TASK_LOST;
    if (v->o->failed && !bad)
        return false;
    v->left += v->shown >= v->limit;
    return v->shown < v->limit;
}

/* In a table without a number of tasks asked for, failures in the same words become one line. */
static bool job_merges(struct job_view_state *v, const struct api_task *t, uint32_t index, const char *ending)
{
    return v->o->limit == TASKS_NOT_GIVEN && (t->state == TASK_FAILED || t->state == TASK_LOST) &&
           !failures_add(&v->failures, t, index, ending, failures_apart(t));
}

static void begin_view(struct job_view_state *v, const struct api_get_job_reply *page)
{
    if (v->mode == OUTPUT_TABLE) {
        if (*v->printed)
            putchar('\n');
        print_job_head(&page->job, page->spec);
        v->pauses = page->job.pauses > 0;
        table_columns(&v->table, ">TASK", "STATE", "ENDED", "?>ATTEMPT", "WORKER", "?>WAITED", ">RAN",
                      "->CPU", "->MEM", "->STARTED", "->STOPPED", v->pauses ? "?>PAUSED" : ":INPUT",
                      v->pauses ? ":INPUT" : NULL, NULL);
    } else {
        v->json = job_json(&page->job);
        ancestors_json(v->json, page->spec ? &page->spec->ancestors : &(struct ancestors){0});
        if (page->spec)
            command_json(v->json, page->spec);
        v->tasks = json_array();
        json_object_set_new(v->json, "task_list", v->tasks);
    }
    v->begun = *v->printed = true;
}

static void add_task_row(struct job_view_state *v, const struct api_job *job, const struct api_task *t,
                         uint32_t index, const char *ending)
{
    table_cell(&v->table, "%u", index);
    table_cell(&v->table, "%s", t->paused ? "paused" : show_task_state(t->state));
    table_cell(&v->table, "%s", clean_text((char[ENDING_SHOWN]){0}, ENDING_SHOWN, ending));
    if (t->failures)
        table_cell(&v->table, "%u (%u failed)", t->attempt, t->failures);
    else
        table_cell(&v->table, "%u", t->attempt);
    table_cell(&v->table, "%s%s", CLEAN(t->worker_name), t->stolen ? " (stolen)" : "");
    table_cell(&v->table, "%s", DURATION(t->wait_us));
    table_cell(&v->table, "%s", DURATION(t->run_us));
    table_cell(&v->table, "%s", KNOWN_DURATION(t->cpu_us));
    table_cell(&v->table, "%s", KNOWN_SIZE(t->mem_peak_bytes));
    table_cell(&v->table, "%s", task_clock((char[CLOCK_TEXT]){0}, job, t->wait_us));
    table_cell(&v->table, "%s", task_clock((char[CLOCK_TEXT]){0}, job, task_end_us(t)));
    if (v->pauses)
        table_cell(&v->table, "%s", DURATION(t->paused_us));
    table_cell(&v->table, "%s", input_text((char[INPUT_TEXT]){0}, t->input, t->input_n));
}

static int show_page(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct job_view_state *v = ctx;
    if (v->mode == OUTPUT_QUIET) {
        printf("%s\n", JOB_TEXT(page->job.job));
        return 1;
    }
    if (!v->begun)
        begin_view(v, page);
    if (page->spec)
        v->limit_us = page->spec->time_limit_us;
    v->seen += page->tasks_n;
    for (uint32_t i = 0; i < page->tasks_n; i++) {
        const struct api_task *t = &page->tasks[i];
        char ending[TASK_ENDING_MAX] = "";
        if (!job_shows(v, t))
            continue;
        if (v->mode == OUTPUT_JSON) {
            json_t *one = task_json(t, first_index);
            task_times_json(one, &page->job, t);
            json_array_append_new(v->tasks, one);
            v->shown++;
            continue;
        }
        if (task_state_final(t->state))
            task_ending(ending, sizeof ending, t, v->limit_us);
        if (job_merges(v, t, first_index + t->task, ending))
            continue;
        v->shown++;
        add_task_row(v, &page->job, t, first_index + t->task, ending);
    }
    if (v->shown < v->limit || (v->o->failed && v->mode == OUTPUT_TABLE)) /* the rest is counted */
        return 0;
    uint32_t seen = v->o->first + v->seen;
    v->left += seen < page->job.tasks ? page->job.tasks - seen : 0;
    return 1;
}

struct shown_jobs {
    struct job_options o;
    bool printed; /* something */
};

static int show_job(void *arg, struct session *s, job_id_t job, json_t *list)
{
    struct shown_jobs *shown = arg;
    const struct job_options *o = &shown->o;
    bool all = o->limit == TASKS_NOT_GIVEN; /* any number of tasks may be merged or filtered */
    struct job_view_state v = {.o = o, .mode = s->mode, .printed = &shown->printed, .limit = o->limit};
    if (all)
        v.limit = s->mode == OUTPUT_JSON ? UINT32_MAX : TASKS_SHOWN;
    uint32_t limit = all || (o->failed && o->limit) ? UINT32_MAX : o->limit;
    int err = job_pages(s->client, job, o->first, limit, show_page, &v);
    if (s->mode == OUTPUT_TABLE && err >= 0 && v.shown)
        table_print(&v.table, NULL);
    else
        table_free(&v.table);
    if (s->mode == OUTPUT_TABLE && err >= 0)
        failures_print(&v.failures, stdout, "", FAILURE_KINDS_MAX);
    if (s->mode == OUTPUT_TABLE && err >= 0 && o->failed && o->first == 0 && !v.failures.n && !v.shown)
        puts("none of its tasks has failed");
    failures_free(&v.failures);
    if (s->mode == OUTPUT_TABLE && err >= 0 && v.shown && v.left)
        table_note("%u more %stask%s: see --tasks%s", v.left, o->failed ? "failed " : "", PLURAL(v.left),
                   o->failed ? " and --skip" : ", --skip and --failed");
    if (v.json)
        json_array_append_new(list, v.json);
    return err < 0 ? session_failed(s) : HAWK_EXIT_OK;
}

int job_main(int argc, char **argv)
{
    struct shown_jobs shown = {.o = {.limit = TASKS_NOT_GIVEN}};
    int first = flags_parse(argv[0], job_flags, common_flags, false, argc, argv, &shown.o);
    if (first < 0)
        return -first;
    return session_each(argv[0], &shown.o.common, argc - first, argv + first,
                        &(struct each_job){.list = "jobs", .job = show_job, .arg = &shown});
}

/* ---- cancel ---- */

struct cancel_options {
    struct common_options common;
    const char *tasks;
};

const struct flag cancel_flags[] = {
    FLAG(TEXT, struct cancel_options, tasks, "task", 't', "LIST",
         "only these tasks, by their numbers as `hawk job` shows them: 3,7-9; the others go on"),
    {0},
};

/* The tasks of --task, ascending, each once; n = 0: the whole job. */
struct cancel {
    struct api_task_range *tasks;
    uint32_t n;
};

static int by_first(const void *a, const void *b)
{
    const struct api_task_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int cancel_read_tasks(const char *command, const char *text, struct cancel *c)
{
    struct array_range ranges[ARRAY_RANGES_MAX];
    uint32_t n, cap = 0, kept = 0;
    char why[256];
    if (array_parse("--task", text, ranges, &n, why, sizeof why))
        return usage_error("%s: %s", command, why);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = ranges[i].step == 1 ? ranges[i].last - ranges[i].first : 0;
        for (uint64_t v = ranges[i].first; v <= ranges[i].last; v += (uint64_t)length + ranges[i].step) {
            vec_grow(c->tasks, c->n, cap);
            c->tasks[c->n++] = (struct api_task_range){(uint32_t)v, (uint32_t)v + length};
        }
    }
    if (c->n)
        qsort(c->tasks, c->n, sizeof *c->tasks, by_first);
    for (uint32_t i = 0; i < c->n; i++) {
        struct api_task_range *last = kept > 0 ? &c->tasks[kept - 1] : NULL;
        if (!last || c->tasks[i].first > last->last)
            c->tasks[kept++] = c->tasks[i];
        else if (c->tasks[i].last > last->last)
            last->last = c->tasks[i].last;
    }
    c->n = kept;
    return HAWK_EXIT_OK;
}

/* Cancels the tasks of these numbers. An exit code. */
static int cancel_some(const struct cancel *c, struct session *s, job_id_t job, bool *ended)
{
    uint32_t first, last;
    if (task_numbers(s, job, &first, &last))
        return session_failed(s);
    if (c->tasks[0].first < first || c->tasks[c->n - 1].last > last)
        return usage_error("%s: job %s has no task %u: its tasks are %u to %u", s->command, JOB_TEXT(job),
                           c->tasks[0].first < first ? c->tasks[0].first : c->tasks[c->n - 1].last, first,
                           last);
    struct api_task_range *tasks = xmalloc(c->n * sizeof *tasks);
    for (uint32_t i = 0; i < c->n; i++)
        tasks[i] = (struct api_task_range){c->tasks[i].first - first, c->tasks[i].last - first};
    int err = client_cancel_tasks(s->client, job, tasks, c->n, ended);
    free(tasks);
    return err ? session_failed(s) : HAWK_EXIT_OK;
}

static int cancel_job(void *arg, struct session *s, job_id_t job, json_t *list)
{
    const struct cancel *c = arg;
    const char *id = JOB_TEXT(job);
    bool ended = false;
    int exit_code = c->n > 0                                ? cancel_some(c, s, job, &ended)
                    : client_cancel(s->client, job, &ended) ? session_failed(s)
                                                            : HAWK_EXIT_OK;
    if (exit_code)
        return exit_code;
    json_array_append_new(list, json_pack("{s:s, s:b}", "job", id, "already_ended", (int)ended));
    if (s->mode == OUTPUT_TABLE)
        printf("%s%s %s\n", c->n > 0 ? "tasks of " : "", id, ended ? "had already ended" : "cancelled");
    return HAWK_EXIT_OK;
}

int cancel_main(int argc, char **argv)
{
    struct cancel_options o = {0};
    struct cancel c = {0};
    int first = flags_parse(argv[0], cancel_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    int exit_code = o.tasks ? cancel_read_tasks(argv[0], o.tasks, &c) : HAWK_EXIT_OK;
    if (!exit_code)
        exit_code = session_each(
            argv[0], &o.common, argc - first, argv + first,
            &(struct each_job){.list = "jobs", .none = "nothing to cancel", .job = cancel_job, .arg = &c});
    free(c.tasks);
    return exit_code;
}
