/* hawk history: how the jobs fared that dists still know, by user and name; and as a trace for `sim`, `replay`. */
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/show.h"

#include "base/mem.h"
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct history_options {
    struct common_options common;
    const char *name, *user, *out;
    bool trace, usage;
};

const struct flag history_flags[] = {
    FLAG(BOOL, struct history_options, trace, "trace", 0, NULL,
         "write the jobs as a trace, for `hawk sim --trace FILE --sweep ...` and `hawk replay`"),
    FLAG(BOOL, struct history_options, usage, "usage", 0, NULL,
         "also show the CPU time of all their tasks, and the most memory that one of them used; asks for "
         "every task"),
    FLAG(TEXT, struct history_options, out, "out", 0, "FILE",
         "where the trace goes; default: standard output"),
    FLAG(TEXT, struct history_options, name, "name", 'n', "NAME",
         "only jobs with this name; ... in it: any text"),
    FLAG(TEXT, struct history_options, user, "user", 'u', "USER", "only jobs of this user"),
    {0},
};

/* ---- The trace ---- */

struct durations {
    int64_t *us; /* of the tasks that are done */
    uint32_t n, cap;
    double sum;
};

static int gather_durations(void *ctx, const struct api_get_job_reply *page, uint32_t first_index)
{
    struct durations *d = ctx;
    for (uint32_t i = 0; i < page->tasks_n; i++) {
        const struct api_task *t = &page->tasks[i];
        if (t->state != TASK_DONE || t->run_us < 0)
            continue;
        vec_grow(d->us, d->n, d->cap);
        d->us[d->n++] = t->run_us;
        d->sum += (double)t->run_us;
    }
    return 0;
}

static void put_seconds(FILE *f, const char *before, int64_t us)
{
    fprintf(f, "%s%" PRId64 ".%06" PRId64, before, us / US_PER_S, us % US_PER_S);
}

/* One line: its submission after the first job's, its tasks that are done, their mean and each one's time. */
static int put_job(FILE *f, struct session *s, const struct api_job *j, int64_t first_age_us,
                   uint32_t *left_out)
{
    struct durations d = {0};
    int err = job_pages(s->client, j->job, 0, UINT32_MAX, gather_durations, &d);
    if (!err && d.n && d.n <= TRACE_TASKS_MAX) {
        put_seconds(f, "", first_age_us - j->age_us);
        fprintf(f, " %u", d.n);
        put_seconds(f, " ", (int64_t)(d.sum / d.n));
        for (uint32_t i = 0; i < d.n; i++)
            put_seconds(f, " ", d.us[i]);
        fputc('\n', f);
    } else if (!err) {
        ++*left_out;
    }
    free(d.us);
    return err;
}

static int by_age(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    return x->age_us < y->age_us ? 1 : x->age_us > y->age_us ? -1 : 0;
}

/* Who may not see one job of a user may see none: nobody asks for the others. */
static void forbid(struct api_list_jobs_reply *reply, const char *user)
{
    for (uint32_t i = 0; i < reply->jobs_n; i++)
        if (strcmp(reply->jobs[i].user, user) == 0)
            reply->jobs[i].job = JOB_NONE;
}

/* Ends at the first error of a write, *write_err. */
static int put_trace(FILE *f, struct session *s, struct api_list_jobs_reply *reply, int *write_err)
{
    uint32_t left_out = 0, others = 0, n = 0;
    char hidden[80] = "";
    if (reply->jobs_n)
        qsort(reply->jobs, reply->jobs_n, sizeof *reply->jobs, by_age);
    for (uint32_t i = 0; i < reply->jobs_n; i++) {
        const struct api_job *j = &reply->jobs[i];
        if (!job_state_final(j->state))
            continue;
        int err = j->job.v ? put_job(f, s, j, reply->jobs[0].age_us, &left_out) : HAWK_EDENIED;
        if (fflush(f) || ferror(f)) {
            *write_err = errno;
            return HAWK_EXIT_OK;
        }
        if (err == HAWK_ENOT_FOUND) /* forgotten meanwhile */
            left_out++;
        else if (err && err != HAWK_EDENIED)
            return session_failed(s);
        if (err == HAWK_EDENIED && ++others)
            forbid(reply, j->user);
        n++;
    }
    if (others)
        snprintf(hidden, sizeof hidden, ", %u of other users (scope operate shows them)", others);
    n -= others;
    fprintf(stderr, "%u job%s; left out: %u of which no task is done%s, and %u that have not ended\n",
            n - left_out, PLURAL(n - left_out), left_out, hidden, reply->jobs_n - n - others);
    return HAWK_EXIT_OK;
}

/* As sim reads it again: to the microsecond, in one word. */
static const char *exact_duration(char *buf, size_t size, int64_t us)
{
    if (us % US_PER_S == 0)
        snprintf(buf, size, "%" PRId64 "s", us / US_PER_S);
    else if (us % US_PER_MS == 0)
        snprintf(buf, size, "%" PRId64 "ms", us / US_PER_MS);
    else
        snprintf(buf, size, "%" PRId64 "us", us);
    return buf;
}

/* Says how to simulate the trace on such a cluster as this one, under its policy: sim's defaults are the paper's. */
static void say_sim(const struct history_options *o, struct session *s)
{
    struct api_policy policy = {0};
    struct api_list_nodes_reply nodes = {0};
    uint32_t workers = 0, slots = 0, each = 0;
    char cutoff[32];
    if (client_policy(s->client, &policy) || client_list_nodes(s->client, &nodes))
        goto out; /* a hint: the trace is written */
    for (uint32_t i = 0; i < nodes.nodes_n; i++) {
        const struct api_node *n = &nodes.nodes[i];
        if (strcmp(n->role, role_text(ROLE_WORKER)) != 0 ||
            strcmp(n->state, member_state_text(MEMBER_UP)) != 0)
            continue;
        each = workers == 0 || each == n->slots ? n->slots : 1; /* sim's workers are all alike */
        workers++;
        slots += n->slots;
    }
    if (workers)
        fprintf(stderr, "simulate it: hawk sim --trace %s --workers %u --slots %u --policy %s --cutoff %s\n",
                o->out ? o->out : "FILE", each == 1 ? slots : workers, each, policy.base,
                exact_duration(cutoff, sizeof cutoff, policy.cutoff_us));
out:
    api_free(&api_list_nodes_reply_type, &nodes);
    api_free(&api_policy_type, &policy);
}

static int write_trace(const struct history_options *o, struct session *s, struct api_list_jobs_reply *reply)
{
    FILE *f = o->out ? fopen(o->out, "we") : stdout;
    int write_err = f ? 0 : errno, code = f ? put_trace(f, s, reply, &write_err) : HAWK_EXIT_OK;
    if (f && o->out && fclose(f) != 0 && !write_err)
        write_err = errno;
    if (write_err && o->out) { /* of standard output command_end() tells */
        say_error("history", "%s: %s", o->out, strerror(write_err));
        return HAWK_EXIT_FAILED;
    }
    if (!write_err && !code)
        say_sim(o, s);
    return code;
}

/* ---- The table ---- */

/* Jobs of one user, name and class. */
struct group {
    const char *user, *name;
    uint32_t class, jobs, failed, cancelled;
    uint64_t tasks;
    double response_us;             /* of those that were not cancelled */
    int64_t cpu_us, mem_peak_bytes; /* of all tasks together; of the one that used most; 0: not known */
};

static int by_name(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (!order)
        order = strcmp(x->user, y->user);
    return order ? order : (int)x->class - (int)y->class;
}

static void put_group(struct text_table *t, json_t *list, const struct group *g, bool usage)
{
    uint32_t ran = g->jobs - g->cancelled;
    int64_t mean_us = ran ? (int64_t)(g->response_us / ran) : 0;
    json_t *one =
        json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:o}", "name", json_text(g->name), "user",
                  json_text(g->user), "class", show_class(g->class), "jobs", (json_int_t)g->jobs, "failed",
                  (json_int_t)g->failed, "cancelled", (json_int_t)g->cancelled, "tasks", (json_int_t)g->tasks,
                  "mean_response_us", ran ? json_integer(mean_us) : json_null());
    json_array_append_new(list, one);
    table_cell(t, "%s", CLEAN(g->name));
    table_cell(t, "%s", CLEAN(g->user));
    table_cell(t, "%s", show_class(g->class));
    table_cell(t, "%u", g->jobs);
    table_cell(t, "%u", g->failed);
    table_cell(t, "%u", g->cancelled);
    table_cell(t, "%" PRIu64, g->tasks);
    table_cell(t, "%s", ran ? DURATION(mean_us) : "-");
    if (!usage)
        return;
    json_object_set_new(one, "cpu_us", known_json(g->cpu_us));
    json_object_set_new(one, "mem_peak_bytes", known_json(g->mem_peak_bytes));
    table_cell(t, "%s", KNOWN_DURATION(g->cpu_us));
    table_cell(t, "%s", KNOWN_SIZE(g->mem_peak_bytes));
}

/* Adds a job to its group. */
static void add_job(struct group *g, const struct api_job *j)
{
    g->user = j->user;
    g->name = j->name;
    g->class = j->class;
    g->jobs++;
    g->failed += j->state == JOB_FAILED;
    g->cancelled += j->state == JOB_CANCELLED;
    g->tasks += j->tasks;
    g->response_us += j->state == JOB_CANCELLED ? 0 : (double)j->response_us;
    g->cpu_us += j->cpu_us;
    g->mem_peak_bytes = j->mem_peak_bytes > g->mem_peak_bytes ? j->mem_peak_bytes : g->mem_peak_bytes;
}

static bool is_of(const struct group *g, const struct api_job *j)
{
    return strcmp(g->name, j->name) == 0 && strcmp(g->user, j->user) == 0 && g->class == j->class;
}

/* Whether the history counts the job. */
static bool is_counted(const struct api_job *j) { return job_state_final(j->state) && j->response_us >= 0; }

static void fill_table(const struct api_list_jobs_reply *reply, bool usage, struct text_table *t,
                       json_t *list)
{
    struct group g = {0};
    for (uint32_t i = 0; i < reply->jobs_n; i++) {
        const struct api_job *j = &reply->jobs[i];
        if (!is_counted(j))
            continue;
        if (g.jobs && !is_of(&g, j)) {
            put_group(t, list, &g, usage);
            g = (struct group){0};
        }
        add_job(&g, j);
    }
    if (g.jobs)
        put_group(t, list, &g, usage);
}

/* The jobs are sorted by name. */
static void print_names(const struct api_list_jobs_reply *reply)
{
    const char *last = ""; /* a job without a name has none to print */
    for (uint32_t i = 0; i < reply->jobs_n; i++) {
        if (!is_counted(&reply->jobs[i]))
            continue;
        if (strcmp(reply->jobs[i].name, last) != 0)
            printf("%s\n", CLEAN(reply->jobs[i].name));
        last = reply->jobs[i].name;
    }
}

static void print_table(struct session *s, struct api_list_jobs_reply *reply, bool usage, bool named)
{
    struct text_table t = {0};
    json_t *list = json_array();
    table_columns(&t, "NAME", "?USER", "?CLASS", ">JOBS", ">FAILED", "?>CANCELLED", "?>TASKS",
                  ">MEAN-RESPONSE", usage ? ">CPU" : NULL, ">PEAK-MEM", NULL);
    if (reply->jobs_n)
        qsort(reply->jobs, reply->jobs_n, sizeof *reply->jobs, by_name);
    fill_table(reply, usage, &t, list);
    if (s->mode == OUTPUT_JSON)
        document_print(json_pack("{s:O}", "names", list));
    json_decref(list);
    if (s->mode == OUTPUT_QUIET)
        print_names(reply);
    if (s->mode == OUTPUT_TABLE)
        table_print(&t, named ? "no ended jobs of that name" : "no ended jobs");
    else
        table_free(&t);
}

int history_main(int argc, char **argv)
{
    struct history_options o = {0};
    struct session s;
    struct api_list_jobs_reply reply;
    int first = flags_parse(argv[0], history_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("history takes no argument '%s'", argv[first]);
    if (o.out && !o.trace)
        return usage_error("history: --out is where a trace goes: add --trace");
    if (o.usage && o.trace)
        return usage_error("history: a trace has no room for --usage");
    struct client_job_query q = {.name = o.name, .user = o.user};
    int exit_code = session_open(&s, argv[0], &o.common);
    if (!exit_code) {
        if (client_list_jobs(s.client, &q, &reply))
            exit_code = session_failed(&s);
        session_warn(&s);
        if (!exit_code && o.trace && !o.out && s.mode == OUTPUT_JSON)
            exit_code =
                usage_error("history: a trace is no JSON: leave out --output json, or add --out FILE");
        else if (!exit_code && o.trace)
            exit_code = write_trace(&o, &s, &reply);
        else if (!exit_code)
            print_table(&s, &reply, o.usage, o.name != NULL);
        api_free(&api_list_jobs_reply_type, &reply);
    }
    session_close(&s);
    return exit_code;
}
