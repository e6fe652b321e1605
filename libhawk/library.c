/* The clients and jobs of hawk.h: makes descriptions of specs, and gives news to jobs and to the program. */
#include "libhawk/hawk.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "libhawk/carrier.h"
#include "net/caller.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hawk_client {
    struct client *client;
    struct carrier *carrier; /* NULL: it could not be opened */
    struct hawk_client_options options;
    struct list jobs;      /* those that the program has */
    struct list forgotten; /* those that only the carrier has */
    struct list ended;     /* ended jobs that hawk_client_wait_any has not returned */
    uint32_t unfinished;
    struct news *news; /* that the jobs have not heard, from news_first on */
    uint32_t news_first, news_n;
    char user[LIMIT_NAME_BYTES + 1];
    uint32_t umask; /* this process's, of umask_at_us; 0 then: not asked yet */
    int64_t umask_at_us;
    char error[600];
};

/* A task's message and result. */
struct words {
    struct blob *result, *message; /* NULL: none */
    bool result_lost;
};

struct hawk_job {
    struct list in_client; /* client->jobs or client->forgotten */
    struct list in_ended;
    struct hawk_client *client;
    struct carried_job carried;
    struct resubmit_task *ended; /* by task; NULL: none has ended */
    struct words *words;         /* by task; NULL: of none */
    uint32_t tasks, counts[HAWK_TASK_LOST + 1];
    enum hawk_job_state state;
    bool forgotten; /* by the program */
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

/* ---- News ---- */

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

static void set_id(struct hawk_job *j, job_id_t id)
{
    if (id.v)
        job_id_format(j->id, id);
}

static void hear_task(struct hawk_job *j, struct news *n)
{
    if (!j->ended)
        j->ended = xcalloc(j->tasks, sizeof *j->ended);
    j->ended[n->end.task] = n->end;
    j->counts[HAWK_TASK_UNFINISHED]--;
    j->counts[state_of(n->end.state)]++;
    if (!n->result && !n->text && !n->result_lost)
        return;
    if (!j->words)
        j->words = xcalloc(j->tasks, sizeof *j->words);
    j->words[n->end.task] =
        (struct words){.result = n->result, .message = n->text, .result_lost = n->result_lost};
    n->result = n->text = NULL;
}

static void hear_over(struct hawk_job *j, const struct news *n)
{
    struct hawk_client *c = j->client;
    if (n->err)
        j->state = HAWK_JOB_REFUSED;
    else
        j->state = n->state == JOB_DONE     ? HAWK_JOB_DONE
                   : n->state == JOB_FAILED ? HAWK_JOB_FAILED
                                            : HAWK_JOB_CANCELLED;
    if (n->abandoned)
        j->error = xstrdup(
            "the cluster cancelled it: this program was not heard of for too long (dist.client_grace)");
    else if (n->text)
        j->error = xstrdup(n->text->data);
    set_id(j, n->id);
    list_push_tail(&c->ended, &j->in_ended);
    c->unfinished--;
}

/* The job and the program hear it. The program may free the job. */
static void hear_news(struct hawk_job *j, struct news *n)
{
    const struct hawk_client_options *o = &j->client->options;
    switch (n->what) {
    case NEWS_ACCEPTED:
        set_id(j, n->id);
        if (o->accepted)
            o->accepted(o->arg, j);
        break;
    case NEWS_TASK:
        hear_task(j, n);
        if (o->task)
            o->task(o->arg, j, n->end.task);
        break;
    case NEWS_OVER:
        hear_over(j, n);
        if (o->ended)
            o->ended(o->arg, j);
        break;
    case NEWS_FORGOTTEN:
        break;
    }
}

/* Functions that the program calls meanwhile may come here, too. They go on with the same news. */
static void hear_all(struct hawk_client *c)
{
    if (c->news_first == c->news_n) {
        free(c->news);
        c->news_n = carrier_take(c->carrier, &c->news);
        c->news_first = 0;
    }
    while (c->news_first < c->news_n) {
        struct news n = c->news[c->news_first++];
        struct hawk_job *j = container_of(n.job, struct hawk_job, carried);
        if (n.what == NEWS_FORGOTTEN) {
            list_remove(&j->in_client);
            free(j);
        } else if (!j->forgotten) {
            hear_news(j, &n);
        }
        news_drop(&n);
    }
}

/* ---- Clients ---- */

int hawk_client_open(struct hawk_client **out, const struct hawk_client_options *options)
{
    static const struct hawk_client_options none;
    struct hawk_client *c = xcalloc(1, sizeof *c);
    *out = c;
    list_init(&c->jobs);
    list_init(&c->forgotten);
    list_init(&c->ended);
    c->options = options ? *options : none;
    const struct hawk_client_options *o = &c->options;
    int err = client_open(
        &c->client,
        &(struct client_options){.dist = o->dist, .token_file = o->token_file, .timeout_us = o->timeout_us});
    c->options.dist = c->options.token_file = NULL; /* the program's */
    if (!err) /* also needed later: when its dist goes away, it is too late to ask it for others */
        err = client_refresh_nodes(c->client, c->client->timeout_us);
    if (err)
        return keep_error(c, err, "%s", client_error(c->client));
    if (!caller_name(getuid(), c->user))
        return keep_error(c, HAWK_EUNAVAILABLE, "the name of uid %u could not be looked up: try again",
                          (unsigned)getuid());
    c->carrier = carrier_new(c->client);
    return 0;
}

static void free_words(struct hawk_job *j)
{
    for (uint32_t i = 0; j->words && i < j->tasks; i++) {
        blob_drop(j->words[i].result);
        blob_drop(j->words[i].message);
    }
    free(j->words);
    free(j->ended);
    free(j->error);
}

void hawk_client_close(struct hawk_client *c)
{
    if (!c)
        return;
    list_foreach(&c->jobs, l, next)
        hawk_job_free(container_of(l, struct hawk_job, in_client));
    carrier_free(c->carrier);
    list_foreach(&c->forgotten, l, next)
        free(container_of(l, struct hawk_job, in_client));
    while (c->news_first < c->news_n)
        news_drop(&c->news[c->news_first++]);
    free(c->news);
    client_close(c->client);
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

/* The system tells it by a file, which costs more than the rest of a submission: it is asked once a second. */
static uint32_t current_umask(struct hawk_client *c)
{
    int64_t now_us = clock_us(CLOCK_MONOTONIC);

    if (c->umask_at_us == 0 || now_us - c->umask_at_us > US_PER_S) {
        c->umask = client_umask();
        c->umask_at_us = now_us;
    }
    return c->umask;
}

static int describe_job(struct hawk_client *c, struct job_desc *d, const struct hawk_spec *s)
{
    int err = set_kind(c, d, s);
    if (err)
        return err;
    if (s->lost_retries > UINT16_MAX || (unsigned)s->tag >= TAG_COUNT)
        return keep_error(c, HAWK_EINVALID, "lost_retries or tag of the job is out of range");
    d->tasks = s->tasks ? s->tasks : 1;
    d->estimate_us = s->estimate_us;
    d->time_limit_us = s->time_limit_us;
    d->mem_bytes = s->mem_bytes;
    d->pids = s->pids;
    d->lost_retries = (uint16_t)s->lost_retries;
    d->tag = (uint8_t)s->tag;
    d->max_fails = s->max_fails;
    d->max_running = s->max_running;
    blob_drop(d->user);
    d->user = blob_str(c->user); /* a thread of the carrier's may drop it */
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
    d->umask = current_umask(c);
    d->ancestors = client_ancestors();
    char why[256];
    err = job_submission_check(d, why, sizeof why);
    return err ? keep_error(c, err, "%s", why) : 0;
}

struct hawk_job *hawk_client_submit(struct hawk_client *c, const struct hawk_spec *spec)
{
    struct job_desc *d = job_desc_new();
    if (describe_job(c, d, spec)) {
        job_desc_drop(d);
        return NULL;
    }
    struct hawk_job *j = xcalloc(1, sizeof *j);
    *j = (struct hawk_job){.client = c, .tasks = d->tasks, .user = spec->user};
    j->counts[HAWK_TASK_UNFINISHED] = d->tasks;
    list_init(&j->in_ended);
    list_push_tail(&c->jobs, &j->in_client);
    c->unfinished++;
    carrier_submit(c->carrier, &j->carried, d);
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
/* Or none will: a callback may free the last one. */
static bool any_ended(const struct hawk_client *c, const struct hawk_job *j)
{
    return !list_empty(&c->ended) || c->unfinished == 0;
}

static void turn_client(struct hawk_client *c, int64_t until_us)
{
    if (c->news_first == c->news_n) /* else a callback waits: what it waits for may be in its own batch */
        carrier_turn(c->carrier, until_us);
    hear_all(c);
}

static int wait_for(struct hawk_client *c,
                    bool (*cond)(const struct hawk_client *c, const struct hawk_job *j),
                    const struct hawk_job *j, int64_t timeout_us)
{
    int64_t until = deadline_after(c, timeout_us);
    while (!cond(c, j)) {
        turn_client(c, until);
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
    if (!wait_for(c, any_ended, NULL, timeout_us) || list_empty(&c->ended))
        return 0;
    *job = container_of(c->ended.next, struct hawk_job, in_ended);
    list_remove(&(*job)->in_ended);
    return 1;
}

int hawk_client_poll(struct hawk_client *c, int64_t timeout_us)
{
    turn_client(c, deadline_after(c, timeout_us));
    return 0;
}

int hawk_client_fd(struct hawk_client *c)
{
    if (!c->carrier)
        return HAWK_EUNAVAILABLE; /* hawk_client_open has kept the error */
    int fd = carrier_fd(c->carrier);
    if (fd < 0)
        return keep_error(c, HAWK_ELIMIT, "no descriptor or thread for hawk_client_fd: %s", strerror(-fd));
    return fd;
}

/* ---- Jobs ---- */

enum hawk_job_state hawk_job_state(const struct hawk_job *job) { return job->state; }
const char *hawk_job_error(const struct hawk_job *job) { return job->error ? job->error : ""; }
void *hawk_job_user(const struct hawk_job *job) { return job->user; }
uint32_t hawk_job_tasks(const struct hawk_job *job) { return job->tasks; }

const char *hawk_job_id(const struct hawk_job *job) { return job->id; }

uint32_t hawk_job_count(const struct hawk_job *job, enum hawk_task_state state)
{
    return (unsigned)state <= HAWK_TASK_LOST ? job->counts[state] : 0;
}

int hawk_job_task(const struct hawk_job *job, uint32_t i, struct hawk_task *task)
{
    const struct resubmit_task *v = job->ended;
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

void hawk_job_cancel(struct hawk_job *job) { carrier_cancel(&job->carried); }

/* The carrier may still use the job, or have news of it. */
void hawk_job_free(struct hawk_job *job)
{
    if (!job)
        return;
    struct hawk_client *c = job->client;
    if (job->state == HAWK_JOB_UNFINISHED)
        c->unfinished--;
    list_remove(&job->in_client);
    list_remove(&job->in_ended);
    free_words(job);
    job->forgotten = true;
    list_push_tail(&c->forgotten, &job->in_client);
    carrier_forget(&job->carried);
}
