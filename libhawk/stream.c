/* See stream.h. */
#include "libhawk/stream.h"

#include "base/log.h"
#include "base/mem.h"
#include "libhawk/beat_streams.h"
#include "libhawk/dist_search.h"
#include "net/submission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_JOBS 1000u         /* in one message, */
#define MESSAGE_BYTES (256u << 10) /* the size at which it leaves; a single large job may be larger */
#define LAST_WORDS_US US_PER_S     /* how long cancellations may take to leave, when the streams are freed */
#define AGAIN_US (500 * US_PER_MS) /* after a dist has refused a job that another one had accepted */
#define AGAIN_JOBS 1000u           /* most of these that are asked for at a time */

/* A session with one dist. */
struct stream {
    struct list in_all;
    struct streams *all;
    struct channel *ch;
    struct rpc *rpc;          /* NULL: it has ended */
    struct list unsent, sent; /* stream_job */
    struct codec_buf cancels; /* the first part of the next message */
    bool asked_beats;
    bool took;      /* it has accepted a job */
    bool unwelcome; /* it takes no new jobs, */
    bool full;      /* since a limit is reached there */
    struct dist_beats beats;
    grpc_status_code status;
    char text[300];
};

struct streams {
    struct client *client;
    struct stream_fns fns;
    void *arg;
    struct list all;
    struct list homeless; /* jobs to be moved, or submitted for the first time */
    struct list refused;  /* accepted jobs that another dist would not take over; they are asked for again: */
    int64_t again_us;     /* not before that, */
    uint32_t again_jobs;  /* so many at a time: twice as many each time, until one is refused, */
    uint32_t asked_n;     /* and not before these have an answer */
    struct stream *current;  /* the stream for new jobs; NULL: not found yet */
    struct stream_job *jobs; /* by tag */
    uint64_t last_tag;
    int64_t turn_us;
    struct dist_search search; /* for one that takes jobs */
    struct loop_hook flush;
};

/* ---- Jobs ---- */

static struct stream_job *find_job(const struct streams *ss, uint64_t tag)
{
    struct stream_job *j;
    HASH_FIND(hh, ss->jobs, &tag, sizeof tag, j);
    return j;
}

/* A dist has answered a job, or nobody waits for that any more. */
static void job_answered(struct streams *ss, struct stream_job *j)
{
    ss->asked_n -= j->asked;
    j->asked = false;
}

static void forget_job(struct streams *ss, struct stream_job *j)
{
    job_answered(ss, j);
    list_remove(&j->in_list);
    HASH_DEL(ss->jobs, j); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    movable_job_free(j->movable);
    j->movable = NULL;
    j->at = NULL;
}

static void end_job(struct streams *ss, struct stream_job *j, enum job_state state, bool abandoned, int err,
                    const char *text)
{
    ss->fns.over(ss->arg, j, state, abandoned, err, text);
    forget_job(ss, j);
}

static void put_at(struct stream_job *j, struct stream *s)
{
    list_remove(&j->in_list);
    list_push_tail(&s->unsent, &j->in_list);
    j->at = s;
    j->sent = j->is_signed = false;
}

void streams_submit(struct streams *ss, struct stream_job *j, struct job_desc *desc)
{
    if (!ss->jobs) /* the last one may have been freed while it looked for a dist */
        ss->search.give_up_us = 0;
    j->tag = ++ss->last_tag;
    j->movable = movable_job_new(desc, loop_now(ss->client->loop));
    list_init(&j->in_list);
    HASH_ADD(hh, ss->jobs, tag, sizeof j->tag, j);
    if (ss->current)
        put_at(j, ss->current);
    else
        list_push_tail(&ss->homeless, &j->in_list);
}

static void put_cancel(const struct stream_job *j)
{
    struct api_session_cancel one = {.tag = j->tag};
    api_append(&j->at->cancels, &api_session_request_type,
               &(struct api_session_request){.cancel = &one, .cancel_n = 1});
}

void streams_cancel(struct streams *ss, struct stream_job *j)
{
    if (!j->movable || j->cancel)
        return;
    j->cancel = true;
    if (j->at && j->sent)
        put_cancel(j);
}

void streams_forget(struct streams *ss, struct stream_job *j)
{
    if (!j->movable)
        return;
    streams_cancel(ss, j);
    forget_job(ss, j);
}

/* ---- Writing ---- */

/* Signs what waits to be sent and is no job of a dist yet, together. */
static void sign_unsent(struct stream *s)
{
    struct job_desc *v[SUBMISSION_BATCH_MAX];
    uint32_t n = 0;
    list_foreach(&s->unsent, l, next) {
        struct stream_job *j = container_of(l, struct stream_job, in_list);
        if (n == SUBMISSION_BATCH_MAX)
            break;
        if (!j->is_signed && !j->movable->job.v)
            v[n++] = j->movable->desc;
        j->is_signed = true;
    }
    if (client_sign(s->all->client, v, n))
        log_warn("%s", client_error(s->all->client)); /* whoever requires a signature refuses it */
}

/* False: it was moved too often. */
static bool append_job(struct codec_buf *b, const struct stream *s, struct stream_job *j)
{
    struct movable_job *movable = j->movable;
    struct api_session_submit one = {.tag = j->tag, .key = movable->key};
    struct api_submit_request moved = {0};
    struct codec_buf spec = {0};
    if (movable->job.v && movable_job_move(movable, loop_now(s->all->client->loop), &moved))
        return false;
    codec_desc_encode(&spec, movable->desc, true);
    one.job = spec.data;
    one.job_n = (uint32_t)spec.len;
    one.resubmit = moved.resubmit;
    api_append(b, &api_session_request_type, &(struct api_session_request){.submit = &one, .submit_n = 1});
    free(moved.resubmit.ended);
    codec_buf_free(&spec);
    return true;
}

/* Sends all that has gathered since the last message left. */
static void write_stream(struct stream *s)
{
    struct codec_buf b = s->cancels;
    if (!s->rpc || !rpc_writable(s->rpc))
        return;
    s->cancels = (struct codec_buf){0};
    if (!s->asked_beats)
        api_append(&b, &api_session_request_type, &(struct api_session_request){.beats = true});
    s->asked_beats = true;
    for (uint32_t n = 0; n < MESSAGE_JOBS && b.len < MESSAGE_BYTES && !list_empty(&s->unsent); n++) {
        struct stream_job *j = container_of(s->unsent.next, struct stream_job, in_list);
        if (!j->is_signed)
            sign_unsent(s);
        if (!append_job(&b, s, j)) {
            end_job(s->all, j, JOB_CANCELLED, false, HAWK_ELIMIT, "it was moved from dist to dist too often");
            continue;
        }
        list_remove(&j->in_list);
        list_push_tail(&s->sent, &j->in_list);
        j->sent = true;
        if (j->cancel)
            put_cancel(j);
    }
    if (b.len)
        rpc_write(s->rpc, b.data, b.len);
    codec_buf_free(&b);
}

/* Whether no cancellation waits to be sent, or is on its way. */
static bool has_said_all(const struct stream *s) { return !s->cancels.len && rpc_writable(s->rpc); }

static void on_flush(void *arg)
{
    struct streams *ss = arg;
    list_foreach(&ss->all, l, next)
        write_stream(container_of(l, struct stream, in_all));
}

/* ---- Reading ---- */

static void on_job(struct stream *s, const struct api_session_job *e)
{
    struct stream_job *j = find_job(s->all, e->tag);
    s->took = true;
    if (!j)
        return;
    job_answered(s->all, j);
    bool first = !j->movable->job.v;
    struct api_event event = {.job = {.class = e->class,
                                      .why = e->why,
                                      .at_central = e->at_central,
                                      .epoch = e->epoch,
                                      .held = e->held}};
    movable_job_submitted(
        j->movable,
        &(struct api_submit_reply){.job = e->job, .class = e->class, .why = e->why, .receipt = e->receipt});
    movable_job_event(j->movable, &event);
    if (first)
        s->all->fns.accepted(s->all->arg, j);
}

static void on_task(struct streams *ss, const struct api_session_task *e)
{
    struct stream_job *j = find_job(ss, e->tag);
    const struct api_task t = {.task = e->task,
                               .state = e->state,
                               .outcome = e->outcome,
                               .code = e->code,
                               .attempt = e->attempt,
                               .worker = e->worker,
                               .wait_us = e->wait_us,
                               .run_us = e->run_us,
                               .cpu_us = e->cpu_us,
                               .mem_peak_bytes = e->mem_peak_bytes};
    if (j && movable_job_task(j->movable, &t))
        ss->fns.task(ss->arg, j, e);
}

/* A dist that is draining or stopping refuses a job that another dist will take. Of a job that was accepted,
 * a dist that is full or has any other reason of its own is not the last word either. */
static void on_refused(struct stream *s, const struct api_session_refused *e)
{
    struct streams *ss = s->all;
    struct stream_job *j = find_job(ss, e->tag);
    grpc_status_code status = (grpc_status_code)e->status;
    if (!j)
        return;
    job_answered(ss, j);
    bool away = status == GRPC_STATUS_UNAVAILABLE;
    if (j->movable->job.v ? movable_job_note_refusal(j->movable, status) : !away) {
        end_job(ss, j, JOB_CANCELLED, false, rpc_status_to_err(status), e->error);
        return;
    }
    snprintf(s->text, sizeof s->text, "%s", e->error);
    s->status = status;
    s->unwelcome = true;
    s->full |= movable_job_has_no_room(status);
    list_remove(&j->in_list);
    list_push_tail(away ? &ss->homeless : &ss->refused, &j->in_list);
    j->at = NULL;
    if (away)
        return;
    ss->again_us = loop_now(ss->client->loop) + AGAIN_US;
    ss->again_jobs = 1;
}

static void on_event(void *arg, const uint8_t *data, size_t len)
{
    struct stream *s = arg;
    struct streams *ss = s->all;
    struct api_session_event e;
    char why[200];
    if (api_decode(&api_session_event_type, data, len, &e, why, sizeof why)) {
        s->status = GRPC_STATUS_INTERNAL;
        snprintf(s->text, sizeof s->text, "it sent what this version does not understand: %s", why);
        rpc_cancel(s->rpc);
        s->rpc = NULL;
        return;
    }
    dist_beats_heard(&s->beats, e.beat_us);
    for (uint32_t i = 0; i < e.jobs_n; i++)
        on_job(s, &e.jobs[i]);
    for (uint32_t i = 0; i < e.refused_n; i++)
        on_refused(s, &e.refused[i]);
    for (uint32_t i = 0; i < e.tasks_n; i++)
        on_task(ss, &e.tasks[i]);
    for (uint32_t i = 0; i < e.ends_n; i++) {
        struct stream_job *j = find_job(ss, e.ends[i].tag);
        if (j)
            end_job(ss, j, (enum job_state)e.ends[i].state, e.ends[i].abandoned, 0, "");
    }
    api_free(&api_session_event_type, &e);
}

static void on_end(void *arg, grpc_status_code status, const char *text)
{
    struct stream *s = arg;
    s->rpc = NULL;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", text);
}

/* ---- Streams come and go ---- */

/* One to that dist: that on which it has others of our jobs, or a new one. */
static struct stream *open_stream(struct streams *ss, struct channel *ch)
{
    static const struct rpc_fns fns = {.reply = on_event, .done = on_end};
    list_foreach(&ss->all, l, next) {
        struct stream *has = container_of(l, struct stream, in_all);
        if (has->ch == ch && has->rpc) {
            has->took = has->unwelcome = has->full = false;
            return has;
        }
    }
    struct stream *s = xcalloc(1, sizeof *s);
    *s = (struct stream){.all = ss, .ch = ch};
    list_init(&s->unsent);
    list_init(&s->sent);
    list_push_tail(&ss->all, &s->in_all);
    s->rpc = rpc_open(ch, api_methods[API_SESSION].path, &fns, s);
    return s;
}

static void stream_free(struct stream *s)
{
    if (s->rpc)
        rpc_cancel(s->rpc);
    codec_buf_free(&s->cancels);
    if (s->all->current == s)
        s->all->current = NULL;
    list_remove(&s->in_all);
    free(s);
}

static void make_homeless(struct streams *ss, struct list *jobs)
{
    list_foreach(jobs, l, next) {
        struct stream_job *j = container_of(l, struct stream_job, in_list);
        list_remove(l);
        list_push_tail(&ss->homeless, l);
        j->at = NULL;
    }
}

/* Looks for another dist. */
static void leave_dist(struct streams *ss, struct stream *s)
{
    if (s->took)
        dist_search_found(&ss->search);
    dist_search_failed(&ss->search, ss->client, s->ch, s->full);
    client_call_failed(ss->client, s->ch, s->status, s->text);
    ss->current = NULL;
}

static void lose_stream(struct streams *ss, struct stream *s)
{
    make_homeless(ss, &s->sent);
    make_homeless(ss, &s->unsent);
    if (ss->current == s)
        leave_dist(ss, s);
    stream_free(s);
}

/* Whether asking another dist cannot help. */
static bool is_hopeless(grpc_status_code status)
{
    return status == GRPC_STATUS_UNAUTHENTICATED || status == GRPC_STATUS_INVALID_ARGUMENT;
}

static void give_up_jobs(struct streams *ss, const struct list *jobs, int err)
{
    while (!list_empty(jobs))
        end_job(ss, container_of(jobs->next, struct stream_job, in_list), JOB_CANCELLED, false, err,
                ss->client->error);
}

static void give_up(struct streams *ss, int err)
{
    give_up_jobs(ss, &ss->homeless, err);
    give_up_jobs(ss, &ss->refused, err);
    dist_search_found(&ss->search);
}

static void look_at(struct streams *ss, struct stream *s, int64_t step)
{
    if (s->rpc && dist_beats_missing(&s->beats, DIST_BEATS_MISSED, step)) {
        s->status = GRPC_STATUS_UNAVAILABLE;
        snprintf(s->text, sizeof s->text, "it does not answer any more");
        rpc_cancel(s->rpc);
        s->rpc = NULL;
    }
    if (!s->rpc) {
        grpc_status_code status = s->status;
        lose_stream(ss, s);
        if (is_hopeless(status))
            give_up(ss, rpc_status_to_err(status));
    } else if (s->unwelcome && s == ss->current) {
        leave_dist(ss, s); /* those it has taken stay */
    } else if (s != ss->current && list_empty(&s->sent) && list_empty(&s->unsent) && has_said_all(s)) {
        stream_free(s);
    }
}

/* Asks for some of the refused jobs again: at a dist without room many would come back each time. */
static void ask_again(struct streams *ss, int64_t now)
{
    if (ss->asked_n || now < ss->again_us)
        return;
    while (ss->asked_n < ss->again_jobs && !list_empty(&ss->refused)) {
        struct stream_job *j = container_of(ss->refused.next, struct stream_job, in_list);
        list_remove(&j->in_list);
        list_push_tail(&ss->homeless, &j->in_list);
        j->asked = true;
        ss->asked_n++;
    }
    if (ss->again_jobs < AGAIN_JOBS)
        ss->again_jobs *= 2;
}

static void find_home(struct streams *ss)
{
    int64_t now = loop_now(ss->client->loop);
    ask_again(ss, now);
    if (list_empty(&ss->homeless) || (!ss->current && now < ss->search.retry_us))
        return;
    if (!ss->current) {
        struct channel *ch = dist_search_next(&ss->search, ss->client);
        if (!ch) {
            give_up(ss, HAWK_EUNAVAILABLE);
            return;
        }
        ss->current = open_stream(ss, ch);
    }
    while (!list_empty(&ss->homeless))
        put_at(container_of(ss->homeless.next, struct stream_job, in_list), ss->current);
}

void streams_turn(struct streams *ss, int64_t until_us)
{
    struct loop *l = ss->client->loop;
    int64_t now = loop_now(l), step = dist_beats_step(&ss->turn_us, now);
    bool soon = ss->jobs; /* also if all end here, before the loop waits */
    list_foreach(&ss->all, n, next)
        look_at(ss, container_of(n, struct stream, in_all), step);
    find_home(ss);
    if (until_us > now + BEAT_STREAMS_TURN_US && soon)
        until_us = now + BEAT_STREAMS_TURN_US;
    loop_once(l, until_us);
}

struct streams *streams_new(struct client *client, const struct stream_fns *fns, void *arg)
{
    struct streams *ss = xcalloc(1, sizeof *ss);
    *ss = (struct streams){.client = client, .fns = *fns, .arg = arg};
    list_init(&ss->all);
    list_init(&ss->homeless);
    list_init(&ss->refused);
    ss->search.seed = (uint64_t)loop_now(client->loop);
    loop_hook_add(client->loop, &ss->flush, LOOP_FLUSH, on_flush, ss);
    return ss;
}

static bool have_said_all(const struct streams *ss)
{
    list_foreach(&ss->all, n, next) {
        const struct stream *s = container_of(n, struct stream, in_all);
        if (s->rpc && s->asked_beats && !has_said_all(s))
            return false;
    }
    return true;
}

void streams_free(struct streams *ss)
{
    struct stream_job *j, *tmp;
    if (!ss)
        return;
    HASH_ITER(hh, ss->jobs, j, tmp)
        forget_job(ss, j);
    for (int64_t until = loop_now(ss->client->loop) + LAST_WORDS_US;
         !have_said_all(ss) && loop_now(ss->client->loop) < until;)
        loop_once(ss->client->loop, until);
    list_foreach(&ss->all, n, next)
        stream_free(container_of(n, struct stream, in_all));
    loop_hook_remove(&ss->flush);
    free(ss);
}
