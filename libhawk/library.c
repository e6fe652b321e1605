/* The clients and jobs of hawk.h: makes descriptions of specs, and gives streams' news to jobs. */
#include "libhawk/hawk.h"

#include "base/mem.h"
#include "libhawk/stream.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hawk_client {
    struct client *client;
    struct streams *streams;
    struct blob *user;
    struct list jobs;  /* all */
    struct list ended; /* ended jobs that hawk_client_wait_any has not returned */
    uint32_t unfinished;
    char error[600];
};

/* A task's message and result. */
struct words {
    struct blob *result, *message; /* NULL: none */
    bool result_lost;
};

struct hawk_job {
    struct list in_client, in_ended;
    struct hawk_client *client;
    struct stream_job stream;
    struct resubmit_task *ended; /* once the job is over: by task */
    struct words *words;         /* by task; NULL: of none */
    uint32_t tasks, counts[HAWK_TASK_LOST + 1];
    enum hawk_job_state state;
    char id[JOB_ID_TEXT];
    char *error; /* NULL: none */
    void *user;
};

static int HAWK_PRINTF(3, 4) keep_error(struct hawk_client *c, int err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->error, sizeof c->error, fmt, ap);
    va_end(ap);
    return err;
}

/* ---- What streams tell ---- */

static enum hawk_task_state state_of(uint32_t state)
{
    switch (state) {
    case TASK_DONE:
        return HAWK_TASK_DONE;
    case TASK_FAILED:
        return HAWK_TASK_FAILED;
    case TASK_CANCELLED:
        return HAWK_TASK_CANCELLED;
    case TASK_LOST:
        return HAWK_TASK_LOST;
    default:
        return HAWK_TASK_UNFINISHED;
    }
}

static void on_task(void *arg, struct stream_job *s, const struct api_session_task *t)
{
    struct hawk_job *j = container_of(s, struct hawk_job, stream);
    j->counts[HAWK_TASK_UNFINISHED]--;
    j->counts[state_of(t->state)]++;
    if (!t->result_n && !t->message[0] && !t->result_lost)
        return;
    if (!j->words)
        j->words = xcalloc(j->tasks, sizeof *j->words);
    struct words *w = &j->words[t->task];
    w->result_lost = t->result_lost;
    if (t->result_n)
        w->result = blob_new(t->result, t->result_n);
    if (t->message[0])
        w->message = blob_str(t->message);
}

static void on_over(void *arg, struct stream_job *s, enum job_state state, bool abandoned, int err,
                    const char *text)
{
    struct hawk_job *j = container_of(s, struct hawk_job, stream);
    struct hawk_client *c = arg;
    if (err)
        j->state = HAWK_JOB_REFUSED;
    else
        j->state = state == JOB_DONE     ? HAWK_JOB_DONE
                   : state == JOB_FAILED ? HAWK_JOB_FAILED
                                         : HAWK_JOB_CANCELLED;
    if (abandoned)
        text = "the cluster cancelled it: this program was not heard of for too long (dist.client_grace)";
    if (text[0])
        j->error = xstrdup(text);
    if (s->movable->job.v)
        job_id_format(j->id, s->movable->job);
    j->ended = s->movable->ended; /* the list outlives the stream's part */
    s->movable->ended = NULL;
    list_push_tail(&c->ended, &j->in_ended);
    c->unfinished--;
}

/* ---- Clients ---- */

static struct blob *user_name(void)
{
    char buf[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(getuid(), &entry, buf, sizeof buf, &found) == 0 && found)
        return blob_str(found->pw_name);
    snprintf(buf, sizeof buf, "%u", (unsigned)getuid());
    return blob_str(buf);
}

int hawk_client_open(struct hawk_client **out, const struct hawk_client_options *options)
{
    static const struct hawk_client_options none;
    static const struct stream_fns fns = {.task = on_task, .over = on_over};
    const struct hawk_client_options *o = options ? options : &none;
    struct hawk_client *c = xcalloc(1, sizeof *c);
    *out = c;
    list_init(&c->jobs);
    list_init(&c->ended);
    int err = client_open(
        &c->client,
        &(struct client_options){.dist = o->dist, .token_file = o->token_file, .timeout_us = o->timeout_us});
    if (!err) /* also needed later: when its dist goes away, it is too late to ask it for others */
        err = client_refresh_nodes(c->client, c->client->timeout_us);
    if (err)
        return keep_error(c, err, "%s", client_error(c->client));
    c->user = user_name();
    c->streams = streams_new(c->client, &fns, c);
    return 0;
}

void hawk_client_close(struct hawk_client *c)
{
    if (!c)
        return;
    list_foreach(&c->jobs, l, next)
        hawk_job_free(container_of(l, struct hawk_job, in_client));
    streams_free(c->streams);
    client_close(c->client);
    loop_net_settle();
    blob_drop(c->user);
    free(c);
}

const char *hawk_client_error(const struct hawk_client *c) { return c->error; }

/* ---- Submitting ---- */

static void add_strings(struct strings *to, const char *const *v)
{
    for (; v && *v; v++)
        strings_add(to, *v);
}

static int set_kind(struct hawk_client *c, struct job_desc *d, const struct hawk_spec *s)
{
    if ((s->argv != NULL) + (s->app != NULL) + (s->sleep != NULL) != 1)
        return keep_error(c, HAWK_EINVALID, "a job needs one of argv, app and sleep");
    if (s->app) {
        d->kind = PAYLOAD_APP;
        d->app = blob_str(s->app);
    } else if (s->sleep) {
        d->kind = PAYLOAD_TIMER;
        strings_add(&d->argv, s->sleep);
    } else {
        d->kind = PAYLOAD_COMMAND;
        add_strings(&d->argv, s->argv);
        add_strings(&d->env, s->env ? s->env : (const char *const *)environ);
    }
    return 0;
}

static int describe_job(struct hawk_client *c, struct job_desc *d, const struct hawk_spec *s)
{
    int err = set_kind(c, d, s);
    if (err)
        return err;
    if (s->retries > UINT16_MAX || (unsigned)s->tag >= TAG_COUNT)
        return keep_error(c, HAWK_EINVALID, "retries or tag of the job is out of range");
    d->tasks = s->tasks ? s->tasks : 1;
    d->estimate_us = s->estimate_us;
    d->time_limit_us = s->time_limit_us;
    d->mem_bytes = s->mem_bytes;
    d->pids = s->pids;
    d->retries = (uint16_t)s->retries;
    d->tag = (uint8_t)s->tag;
    d->max_fails = s->max_fails;
    blob_drop(d->user);
    d->user = blob_ref(c->user);
    if (s->name) {
        blob_drop(d->name);
        d->name = blob_str(s->name);
    }
    if (s->cwd)
        d->cwd = blob_str(s->cwd);
    size_t room = LIMIT_JOB_BYTES;
    for (uint32_t i = 0; s->args && i < d->tasks; i++) {
        if (s->args[i].len > room)
            return keep_error(c, HAWK_ETOO_LARGE,
                              "the job's arguments are larger than %u MiB together, the limit",
                              (unsigned)(LIMIT_JOB_BYTES >> 20));
        room -= s->args[i].len;
        task_args_add(&d->args, s->args[i].data, s->args[i].len);
    }
    if (s->args)
        d->flags |= JOB_EACH_ARG;
    d->umask = client_umask();
    d->ancestors = client_ancestors();
    char why[256];
    err = job_desc_check(d, why, sizeof why);
    return err ? keep_error(c, err, "%s", why) : 0;
}

struct hawk_job *hawk_client_submit(struct hawk_client *c, const struct hawk_spec *spec)
{
    struct job_desc *d = job_desc_new();
    struct hawk_job *j = NULL;
    if (describe_job(c, d, spec))
        goto out;
    j = xcalloc(1, sizeof *j);
    *j = (struct hawk_job){.client = c, .tasks = d->tasks, .user = spec->user};
    j->counts[HAWK_TASK_UNFINISHED] = d->tasks;
    list_init(&j->in_ended);
    list_push_tail(&c->jobs, &j->in_client);
    c->unfinished++;
    streams_submit(c->streams, &j->stream, d);
out:
    job_desc_drop(d);
    return j;
}

/* ---- Waiting ---- */

static int64_t deadline_after(const struct hawk_client *c, int64_t timeout_us)
{
    return timeout_us < 0 ? TIME_NEVER : loop_now(c->client->loop) + timeout_us;
}

static bool has_ended(const struct hawk_client *c, const struct hawk_job *j)
{
    return j->state != HAWK_JOB_UNFINISHED;
}
static bool have_ended(const struct hawk_client *c, const struct hawk_job *j) { return c->unfinished == 0; }
static bool any_ended(const struct hawk_client *c, const struct hawk_job *j)
{
    return !list_empty(&c->ended);
}

static int wait_for(struct hawk_client *c,
                    bool (*cond)(const struct hawk_client *c, const struct hawk_job *j),
                    const struct hawk_job *j, int64_t timeout_us)
{
    int64_t until = deadline_after(c, timeout_us);
    while (!cond(c, j)) {
        streams_turn(c->streams, until);
        if (until != TIME_NEVER && !cond(c, j) && loop_now(c->client->loop) >= until)
            return 0;
    }
    return 1;
}

int hawk_client_wait(struct hawk_client *c, struct hawk_job *job, int64_t timeout_us)
{
    return wait_for(c, has_ended, job, timeout_us);
}

int hawk_client_wait_all(struct hawk_client *c, int64_t timeout_us)
{
    return wait_for(c, have_ended, NULL, timeout_us);
}

int hawk_client_wait_any(struct hawk_client *c, struct hawk_job **job, int64_t timeout_us)
{
    *job = NULL;
    if (c->unfinished == 0 && list_empty(&c->ended))
        return 0; /* there is nothing to wait for */
    int got = wait_for(c, any_ended, NULL, timeout_us);
    if (got <= 0)
        return got;
    *job = container_of(c->ended.next, struct hawk_job, in_ended);
    list_remove(&(*job)->in_ended);
    return 1;
}

int hawk_client_poll(struct hawk_client *c, int64_t timeout_us)
{
    streams_turn(c->streams, deadline_after(c, timeout_us));
    return 0;
}

/* ---- Jobs ---- */

enum hawk_job_state hawk_job_state(const struct hawk_job *job) { return job->state; }
const char *hawk_job_error(const struct hawk_job *job) { return job->error ? job->error : ""; }
void *hawk_job_user(const struct hawk_job *job) { return job->user; }
uint32_t hawk_job_tasks(const struct hawk_job *job) { return job->tasks; }

const char *hawk_job_id(const struct hawk_job *job)
{
    struct hawk_job *j = (struct hawk_job *)job; /* the text is made on demand */
    if (!j->id[0] && j->stream.movable && j->stream.movable->job.v)
        job_id_format(j->id, j->stream.movable->job);
    return j->id;
}

uint32_t hawk_job_count(const struct hawk_job *job, enum hawk_task_state state)
{
    return (unsigned)state <= HAWK_TASK_LOST ? job->counts[state] : 0;
}

int hawk_job_task(const struct hawk_job *job, uint32_t i, struct hawk_task *task)
{
    const struct resubmit_task *v = job->stream.movable ? job->stream.movable->ended : job->ended;
    *task = (struct hawk_task){.outcome = "", .wait_us = -1, .run_us = -1, .message = ""};
    if (i >= job->tasks || !v || !task_state_final(v[i].state))
        return 0;
    task->state = state_of(v[i].state);
    task->code = v[i].code;
    task->outcome = outcome_text((enum outcome)v[i].outcome);
    task->wait_us = v[i].wait_us;
    task->run_us = v[i].run_us;
    task->result_lost = job->words && job->words[i].result_lost;
    if (job->words && job->words[i].result)
        task->result = (struct hawk_bytes){job->words[i].result->data, job->words[i].result->len};
    if (job->words && job->words[i].message)
        task->message = job->words[i].message->data;
    return 1;
}

void hawk_job_cancel(struct hawk_job *job) { streams_cancel(job->client->streams, &job->stream); }

void hawk_job_free(struct hawk_job *job)
{
    if (!job)
        return;
    struct hawk_client *c = job->client;
    if (job->state == HAWK_JOB_UNFINISHED) {
        c->unfinished--;
        streams_forget(c->streams, &job->stream);
    }
    list_remove(&job->in_client);
    list_remove(&job->in_ended);
    for (uint32_t i = 0; job->words && i < job->tasks; i++) {
        blob_drop(job->words[i].result);
        blob_drop(job->words[i].message);
    }
    free(job->words);
    free(job->ended);
    free(job->error);
    free(job);
}
