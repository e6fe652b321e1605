/* Jobs and tasks as JSON and as words. */
#include "cli/show.h"

#include "base/units.h"
#include "cli/quote.h"
#include "cli/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The decoder turns an unknown value into the enum's COUNT. */
#define SHOW(name, text_of, count)                                                                           \
    const char *name(uint32_t v) { return v < (count) ? text_of(v) : "unknown"; }
SHOW(show_job_state, job_state_text, JOB_STATE_COUNT)
SHOW(show_task_state, task_state_text, TASK_STATE_COUNT)
SHOW(show_class, class_text, CLASS_COUNT)
SHOW(show_tag, tag_text, TAG_COUNT)
SHOW(show_why, why_text, WHY_COUNT)
static const char *show_outcome(uint32_t v) { return v < OUTCOME_COUNT ? outcome_text(v) : "unknown"; }

/* A duration that does not exist yet is null in JSON. */
static json_t *duration_json(int64_t us) { return us < 0 ? json_null() : json_integer(us); }

json_t *known_json(int64_t n) { return n > 0 ? json_integer(n) : json_null(); }

/* A time of day, `us` after the job was submitted; null if that is not yet. */
static json_t *at_json(const struct api_job *j, int64_t us)
{
    return us < 0 ? json_null() : json_text(clock_text((char[CLOCK_TEXT]){0}, us - j->age_us, true));
}

static void times_json(json_t *o, const struct api_job *j)
{
    json_object_set_new(o, "submitted_at", at_json(j, 0));
    json_object_set_new(o, "started_at", at_json(j, j->first_start_us));
    json_object_set_new(o, "ended_at", at_json(j, j->response_us));
}

json_t *job_json(const struct api_job *j)
{
    json_t *o = json_object();
    json_object_set_new(o, "job", json_text(JOB_TEXT(j->job)));
    json_object_set_new(o, "name", json_text(j->name));
    json_object_set_new(o, "user", json_text(j->user));
    json_object_set_new(o, "state", json_text(show_job_state(j->state)));
    json_object_set_new(o, "class", json_text(show_class(j->class)));
    json_object_set_new(o, "why", json_text(show_why(j->why)));
    json_object_set_new(o, "tag", json_text(show_tag(j->tag)));
    json_object_set_new(o, "estimate_us", json_integer(j->estimate_us));
    json_object_set_new(o, "cutoff_us", json_integer(j->cutoff_us));
    json_object_set_new(o, "at_central", json_boolean(j->at_central));
    json_object_set_new(o, "epoch", json_integer(j->epoch));
    json_object_set_new(o, "held", json_boolean(j->held));
    json_object_set_new(o, "waits", j->waits && *j->waits ? json_text(j->waits) : json_null());
    json_object_set_new(o, "cause", job_eq(j->cause, JOB_NONE) ? json_null() : json_text(JOB_TEXT(j->cause)));
    json_object_set_new(o, "abandoned", json_boolean(j->abandoned));
    json_object_set_new(o, "by_client", json_boolean(j->by_client));
    json_object_set_new(o, "no_executor", json_boolean(j->no_executor));
    json_object_set_new(o, "attended", json_boolean(j->attended));
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"tasks", j->tasks},
                  {"waiting", j->waiting},
                  {"running", j->running},
                  {"done", j->done},
                  {"failed", j->failed},
                  {"cancelled", j->cancelled},
                  {"lost", j->lost},
                  {"probes_sent", j->probes_sent},
                  {"probes_live", j->probes_live},
                  {"probes_cancelled", j->probes_cancelled},
                  {"probes_unused", j->probes_unused},
                  {"probes_lost", j->probes_lost},
                  {"reservations_stolen", j->reservations_stolen},
                  {"paused", j->paused},
                  {"pauses", j->pauses}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        json_object_set_new(o, counts[i].name, json_integer(counts[i].value));
    json_object_set_new(o, "cpu_us", known_json(j->cpu_us));
    json_object_set_new(o, "mem_peak_bytes", known_json(j->mem_peak_bytes));
    json_object_set_new(o, "age_us", duration_json(j->age_us));
    json_object_set_new(o, "response_us", duration_json(j->response_us));
    json_object_set_new(o, "first_start_us", duration_json(j->first_start_us));
    json_object_set_new(o, "paused_us", json_integer(j->paused_us));
    times_json(o, j);
    return o;
}

int64_t task_end_us(const struct api_task *t)
{
    return t->wait_us < 0 || t->run_us < 0 ? -1 : t->wait_us + t->run_us + t->paused_us;
}

void task_times_json(json_t *o, const struct api_job *j, const struct api_task *t)
{
    json_object_set_new(o, "started_at", at_json(j, t->wait_us));
    json_object_set_new(o, "ended_at", at_json(j, task_end_us(t)));
}

const char *task_clock(char buf[CLOCK_TEXT], const struct api_job *j, int64_t us)
{
    char text[CLOCK_TEXT], submitted[CLOCK_TEXT];
    if (us < 0)
        return "-";
    clock_text(text, us - j->age_us, false);
    clock_text(submitted, -j->age_us, false);
    bool same_day = strncmp(text, submitted, strlen("2026-11-25")) == 0;
    snprintf(buf, CLOCK_TEXT, "%s", text + (same_day ? strlen("2026-11-25 ") : strlen("2026-")));
    return buf;
}

void show_times(const struct api_job *j)
{
    char at[CLOCK_TEXT];
    printf("  submitted %s", clock_text(at, -j->age_us, false));
    if (j->first_start_us >= 0)
        printf(", started %s", clock_text(at, j->first_start_us - j->age_us, false) + 11);
    if (j->response_us >= 0)
        printf(", ended %s", clock_text(at, j->response_us - j->age_us, false));
    putchar('\n');
}

const char *show_cause(char buf[CAUSE_TEXT], const struct api_job *j, const struct job_desc *spec)
{
    if (!job_eq(j->cause, JOB_NONE))
        snprintf(buf, CAUSE_TEXT, "job %s did not end as --after asks", JOB_TEXT(j->cause));
    else if (j->abandoned)
        snprintf(buf, CAUSE_TEXT, "its client was gone, and nobody else waited for it (client_grace)");
    else if (j->by_client)
        snprintf(buf, CAUSE_TEXT, "`hawk cancel`, or its client");
    else if (j->cancelled > 0 && spec && spec->max_fails > 0 && j->failed + j->lost >= spec->max_fails)
        snprintf(buf, CAUSE_TEXT, "--max-fails %u: so many of its tasks failed", spec->max_fails);
    else
        return NULL;
    return buf;
}

const char *show_state_of(const struct api_job *j)
{
    return j->held && j->state == JOB_RUNNING ? "running, held" : show_job_state(j->state);
}

void show_waits(const struct api_job *j, const struct job_desc *spec)
{
    char text[AFTER_TEXT];
    if (spec && spec->after.n > 0)
        printf("  after    ");
    for (uint32_t i = 0; spec && i < spec->after.n; i++)
        printf(" %s", after_format(text, &spec->after.v[i]));
    if (spec && spec->after.n > 0)
        putchar('\n');
    if (spec && spec->max_running > 0)
        printf("  limit     at most %u of its tasks run at a time\n", spec->max_running);
    if (spec && !job_eq(spec->again_of, JOB_NONE))
        printf("  again     it runs job %s again\n", JOB_TEXT(spec->again_of));
    if (j->held)
        printf("  held      its tasks that have not started do not start: `hawk release %s`\n",
               JOB_TEXT(j->job));
    const char *cause = show_cause((char[CAUSE_TEXT]){0}, j, spec);
    if (cause)
        printf("  cause     %s\n", cause);
}

#define COMMAND_SHOWN 4096 /* bytes; JSON has all of it */

static void show_limits(const struct job_desc *spec)
{
    const char *between = "  per task  at most ";
    if (spec->time_limit_us > 0) {
        printf("%s%s", between, DURATION(spec->time_limit_us));
        between = ", ";
    }
    if (spec->mem_bytes > 0) {
        printf("%s%s of memory", between, KNOWN_SIZE(spec->mem_bytes));
        between = ", ";
    }
    if (spec->pids > 0)
        printf("%s%u process%s", between, spec->pids, spec->pids == 1 ? "" : "es");
    if (spec->time_limit_us > 0 || spec->mem_bytes > 0 || spec->pids > 0)
        putchar('\n');
    bool lost_said = spec->lost_retries != SPEC_RETRIES_DEFAULT && !(spec->flags & JOB_AT_MOST_ONCE);
    if (spec->failure_retries > 0 || lost_said)
        printf("  retries   up to %u when a task fails, %u when its worker is lost\n", spec->failure_retries,
               spec->lost_retries);
}

void show_command(const struct job_desc *spec)
{
    char shown[COMMAND_SHOWN];
    char *text = quote_command(&spec->argv);
    printf("  command   %s\n", clean_text(shown, sizeof shown, text));
    free(text);
    if (spec->cwd)
        printf("  directory %s\n", clean_text(shown, sizeof shown, spec->cwd->data));
    if (spec->stdout_pattern)
        printf("  stdout    %s\n", clean_text(shown, sizeof shown, spec->stdout_pattern->data));
    if (spec->stderr_pattern)
        printf("  stderr    %s\n", clean_text(shown, sizeof shown, spec->stderr_pattern->data));
    show_limits(spec);
}

json_t *words_json(const struct strings *argv)
{
    json_t *list = json_array();
    const char *word = argv->data;
    for (uint32_t i = 0; i < argv->n; i++, word += strlen(word) + 1)
        json_array_append_new(list, json_data(word, strlen(word)));
    return list;
}

static json_t *path_json(const struct blob *path)
{
    return path ? json_data(path->data, strlen(path->data)) : json_null();
}

/* 0: there is none. */
static json_t *limit_json(int64_t limit) { return limit > 0 ? json_integer(limit) : json_null(); }

void command_json(json_t *o, const struct job_desc *spec)
{
    json_t *list = json_array();
    json_object_set_new(o, "command", words_json(&spec->argv));
    for (uint32_t i = 0; i < spec->after.n; i++)
        json_array_append_new(list, json_text(after_format((char[AFTER_TEXT]){0}, &spec->after.v[i])));
    json_object_set_new(o, "after", list);
    json_object_set_new(o, "max_running", limit_json(spec->max_running));
    json_object_set_new(o, "again_of",
                        job_eq(spec->again_of, JOB_NONE) ? json_null()
                                                         : json_string(JOB_TEXT(spec->again_of)));
    json_object_set_new(o, "directory", path_json(spec->cwd));
    json_object_set_new(o, "stdout", path_json(spec->stdout_pattern));
    json_object_set_new(o, "stderr", path_json(spec->stderr_pattern));
    json_object_set_new(o, "time_limit_us", limit_json(spec->time_limit_us));
    json_object_set_new(o, "mem_limit_bytes", limit_json(spec->mem_bytes));
    json_object_set_new(o, "pids_limit", limit_json(spec->pids));
    json_object_set_new(o, "retries", json_integer(spec->failure_retries));
    json_object_set_new(o, "lost_retries", json_integer(spec->lost_retries));
}

static uint32_t ancestors_shown(const struct ancestors *a)
{
    return a->n < LIMIT_ANCESTORS ? a->n : LIMIT_ANCESTORS;
}

void ancestors_json(json_t *o, const struct ancestors *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < ancestors_shown(a); i++)
        json_array_append_new(list, json_text(JOB_TEXT(a->v[i])));
    json_object_set_new(o, "ancestors", list);
}

void show_ancestors(const struct ancestors *a)
{
    for (uint32_t i = 0; i < ancestors_shown(a); i++)
        printf(i ? ", which a task of job %s submitted" : "  nested    submitted by a task of job %s",
               JOB_TEXT(a->v[i]));
    if (a->n > 0)
        putchar('\n');
}

void pauses_json(json_t *o, const struct api_task *t)
{
    json_object_set_new(o, "paused", json_boolean(t->paused));
    json_object_set_new(o, "stood_us", t->paused ? json_integer(t->stood_us) : json_null());
    json_object_set_new(o, "pauses", json_integer(t->pauses));
    json_object_set_new(o, "paused_us", json_integer(t->paused_us));
    json_object_set_new(o, "paused_for", t->pauses ? json_text(JOB_TEXT(t->paused_for)) : json_null());
    json_object_set_new(o, "paused_for_task", t->pauses ? json_integer(t->paused_for_task) : json_null());
}

/* A list of the values of several columns, which have a NUL between two; one value stands alone. */
static json_t *input_json(const struct api_task *t)
{
    const char *at = (const char *)t->input, *end = at + t->input_n;
    json_t *list = json_array();
    for (; at <= end; at += strlen(at) + 1) {
        size_t len = strnlen(at, (size_t)(end - at));
        json_array_append_new(list, json_data(at, len));
        if (at + len == end)
            break;
    }
    if (json_array_size(list) != 1)
        return list;
    json_t *one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return one;
}

json_t *task_json(const struct api_task *t, uint32_t first_index)
{
    json_t *o = json_object();
    json_object_set_new(o, "task", json_integer(t->task));
    json_object_set_new(o, "index", json_integer((json_int_t)first_index + t->task));
    json_object_set_new(o, "state", json_text(show_task_state(t->state)));
    json_object_set_new(o, "outcome", json_text(show_outcome(t->outcome)));
    json_object_set_new(o, "code", json_integer(t->code));
    json_object_set_new(o, "attempt", json_integer(t->attempt));
    json_object_set_new(o, "failures", json_integer(t->failures));
    json_object_set_new(o, "worker", t->worker ? json_integer(t->worker) : json_null());
    json_object_set_new(o, "worker_name", json_text(t->worker_name));
    json_object_set_new(o, "wait_us", duration_json(t->wait_us));
    json_object_set_new(o, "run_us", duration_json(t->run_us));
    json_object_set_new(o, "cpu_us", known_json(t->cpu_us));
    json_object_set_new(o, "mem_peak_bytes", known_json(t->mem_peak_bytes));
    json_object_set_new(o, "stolen", json_boolean(t->stolen));
    pauses_json(o, t);
    json_object_set_new(o, "message", json_text(t->message));
    if (t->input_n)
        json_object_set_new(o, "input", input_json(t));
    if (t->result)
        json_object_set_new(o, "result", json_base64(t->result, t->result_n));
    if (t->result_lost)
        json_object_set_new(o, "result_lost", json_true());
    return o;
}

void show_pauses(const struct api_job *j)
{
    if (j->pauses)
        printf("  paused    %u task%s now; %u pause%s for short tasks, %s in all\n", j->paused,
               PLURAL(j->paused), j->pauses, PLURAL(j->pauses), DURATION(j->paused_us));
}

const char *task_ending(char *buf, size_t size, const struct api_task *t, int64_t limit_us)
{
    const char *signal_name = t->outcome == OUTCOME_SIGNALED ? strsignal(t->code) : NULL;
    switch (t->outcome) {
    case OUTCOME_EXITED:
        snprintf(buf, size, "%s %d%s%s", *t->message ? "failed" : "exited", (int)t->code,
                 *t->message ? ": " : "", CLEAN(t->message));
        break;
    case OUTCOME_SIGNALED:
        snprintf(buf, size, "killed by signal %d (%s)", (int)t->code, signal_name ? signal_name : "?");
        break;
    case OUTCOME_TIME_LIMIT:
        if (limit_us > 0)
            snprintf(buf, size, "killed, time limit of %s over", DURATION(limit_us));
        else
            snprintf(buf, size, "killed, time limit over");
        break;
    case OUTCOME_OUT_OF_MEMORY:
        snprintf(buf, size, "killed, it used more memory than its limit (--mem)");
        break;
    case OUTCOME_NOT_STARTED:
        snprintf(buf, size, "not started (%d)%s%s", (int)t->code, *t->message ? ": " : "", CLEAN(t->message));
        break;
    case OUTCOME_LOST:
        /* Without a worker, the task was given up because no node knows of it any more. */
        snprintf(buf, size, "%s",
                 t->worker ? "lost with its worker"
                           : "in doubt, since its dist or central was away: it may have run");
        break;
    default:
        snprintf(buf, size, "%s", show_task_state(t->state));
        break;
    }
    return buf;
}

static int fetch_pages(struct client *client, job_id_t job, uint32_t first_task, uint32_t limit, bool results,
                       page_fn *fn, void *ctx)
{
    uint32_t first_index = 0, next = first_task, left = limit;
    for (bool first = true;; first = false) {
        struct api_get_job_request r = {.job = job,
                                        .first_task = next,
                                        .max_tasks = left < API_PAGE_MAX ? left : API_PAGE_MAX,
                                        .spec = first,
                                        .results = results};
        struct api_get_job_reply page;
        int err = client_get_job(client, &r, &page);
        if (err)
            return err;
        if (page.spec)
            first_index = page.spec->first_index;
        uint32_t got = page.tasks_n, tasks = page.job.tasks;
        int result = fn(ctx, &page, first_index);
        api_free(&api_get_job_reply_type, &page);
        next += got;
        left -= got < left ? got : left;
        if (result || got == 0 || left == 0 || next >= tasks)
            return result;
    }
}

int job_pages(struct client *client, job_id_t job, uint32_t first_task, uint32_t limit, page_fn *fn,
              void *ctx)
{
    return fetch_pages(client, job, first_task, limit, false, fn, ctx);
}

int job_result_pages(struct client *client, job_id_t job, uint32_t first_task, uint32_t limit, page_fn *fn,
                     void *ctx)
{
    return fetch_pages(client, job, first_task, limit, true, fn, ctx);
}

int task_numbers(const struct session *s, job_id_t job, uint32_t *first, uint32_t *last)
{
    struct api_get_job_request r = {.job = job, .spec = true};
    struct api_get_job_reply reply;
    int err = client_get_job(s->client, &r, &reply);
    if (err)
        return err;
    *first = reply.spec ? reply.spec->first_index : 0;
    *last = *first + reply.job.tasks - 1;
    api_free(&api_get_job_reply_type, &reply);
    return 0;
}

int task_find(const struct session *s, job_id_t job, const char *text, uint32_t *task)
{
    uint32_t first, last;
    uint64_t index = 0;
    int err = task_numbers(s, job, &first, &last);
    if (err)
        return err;
    if (u64_parse(text, first, last, &index))
        return usage_error("%s: job %s has no task '%s': its tasks are %u to %u", s->command, JOB_TEXT(job),
                           text, first, last);
    *task = (uint32_t)index - first;
    return HAWK_EXIT_OK;
}

/* ---- Nodes ---- */

bool show_has_id(const struct api_node *n) { return n->node && n->node <= NODE_ID_MAX; }

bool show_has_load(const struct api_node *n)
{
    return n->heartbeat_age_us >= 0 || strcmp(n->role, role_text(ROLE_CENTRAL)) == 0;
}

static json_t *load_json(const struct api_node *n, uint32_t number)
{
    return show_has_load(n) ? json_integer(number) : json_null();
}

json_t *node_json(const struct api_node *n)
{
    json_t *o = json_object();
    json_object_set_new(o, "node", show_has_id(n) ? json_integer(n->node) : json_null());
    json_object_set_new(o, "name", json_text(n->name));
    json_object_set_new(o, "role", json_text(n->role));
    json_object_set_new(o, "address", json_text(n->address));
    json_object_set_new(o, "state", json_text(n->state));
    json_object_set_new(o, "drained", json_boolean(n->drained));
    json_object_set_new(o, "out_why", n->out_why && *n->out_why ? json_text(n->out_why) : json_null());
    json_object_set_new(o, "until_restart", json_boolean(n->until_restart));
    json_object_set_new(o, "protocol", json_integer(n->protocol));
    json_object_set_new(o, "freezer", n->freezer && *n->freezer ? json_text(n->freezer) : json_null());
    json_object_set_new(o, "freezer_text",
                        n->freezer_text && *n->freezer_text ? json_text(n->freezer_text) : json_null());
    json_object_set_new(o, "serves", n->serves && *n->serves ? json_text(n->serves) : json_null());
    json_object_set_new(o, "ends_at",
                        n->ends_in_us > 0 ? json_text(clock_text((char[CLOCK_TEXT]){0}, n->ends_in_us, true))
                                          : json_null());
    json_object_set_new(o, "slots", json_integer(n->slots));
    json_object_set_new(o, "general", n->unsettled ? json_null() : json_boolean(n->general));
    json_object_set_new(o, "queued", load_json(n, n->queued));
    json_object_set_new(o, "running_short", load_json(n, n->running_short));
    json_object_set_new(o, "running_long", load_json(n, n->running_long));
    json_object_set_new(o, "paused", load_json(n, n->paused));
    json_object_set_new(o, "jobs_unfinished", load_json(n, n->jobs_unfinished));
    json_object_set_new(o, "heartbeat_age_us", duration_json(n->heartbeat_age_us));
    json_object_set_new(o, "long_wait_us", duration_json(n->long_wait_us));
    json_t *apps = json_array();
    for (uint32_t i = 0; i < n->apps_n; i++)
        json_array_append_new(apps, json_text(n->apps[i]));
    json_object_set_new(o, "apps", apps);
    json_t *users = json_array();
    for (uint32_t i = 0; i < n->apps_n; i++)
        json_array_append_new(users, *show_app_user(n, i) ? json_text(show_app_user(n, i)) : json_null());
    json_object_set_new(o, "app_users", users);
    return o;
}

/* A daemon of an older version tells no users. */
const char *show_app_user(const struct api_node *n, uint32_t i)
{
    return i < n->app_users_n ? n->app_users[i] : "";
}

const char *show_node_state(const struct api_node *n) { return n->drained ? "drained" : n->state; }
