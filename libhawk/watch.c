/* The streams of client.h: watching jobs, and reading a task's output. */
#include "base/mem.h"
#include "libhawk/beat_streams.h"
#include "libhawk/dist_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_US (100 * US_PER_MS)
#define STREAMS_MAX 256 /* streams for jobs of others at a time; further jobs wait their turn */

#define STANDBY_AFTER_US (200 * US_PER_MS) /* shorter jobs do without */
#define STANDBY_TRY_US (5 * US_PER_S)

/* ---- Watching jobs ---- */

struct watch {
    struct client *client;
    client_watch_fn *on;
    void *ctx;
    struct watched *v;
    uint32_t n;
    uint32_t open, unfinished;
    enum client_watch_what what;
    int result; /* the error that ended it; 0: none yet */
    int failed; /* the error of the first job that cannot be watched; the others go on */
    char failure[600];
    struct beat_streams beat_streams;
    int64_t standby_us; /* when to connect to the dists that jobs would move to */
    struct standby **standbys;
    uint32_t standbys_n, standbys_cap;
};

/* A dist that a job would move to, and a call that only opens the connection. */
struct standby {
    struct channel *ch;
    struct rpc *rpc;
};

struct watched {
    struct watch *w;
    job_id_t job;
    struct client_job *ours; /* submitted here: it moves when its dist does not answer. NULL: it was not */
    struct channel *ch;      /* where it is asked for; NULL: the contact */
    struct rpc *rpc;         /* NULL: no stream is open */
    struct rpc *move;        /* a Submit that moves it to `to` */
    struct channel *to;
    struct channel *said;      /* the dist whose status and text stand below */
    struct dist_search search; /* for one that takes it over or, for a foreign job, has it */
    bool ended, finished;      /* its last state was reported; and everything else */
    bool broken;               /* a stream ended, and the next step is undecided */
    bool moving;               /* its dist was given up, and no other has it yet */
    bool moved;                /* `to` has it */
    bool refused;              /* nobody takes it over */
    grpc_status_code status;
    char text[300];
    char away[400]; /* not ours: the text about the last dist that did not answer; "": all did */
};

static void finish_job(struct watched *j)
{
    if (j->finished)
        return;
    j->finished = true;
    j->w->unfinished--;
}

static void on_event(void *arg, const uint8_t *data, size_t len)
{
    struct watched *j = arg;
    struct watch *w = j->w;
    struct api_event event;
    char why[200];
    if (w->result)
        return;
    int err = api_decode(&api_event_type, data, len, &event, why, sizeof why);
    if (err) {
        w->result = client_fail(w->client, err, "%s sent what this version does not understand: %s",
                                channel_addr(j->ch ? j->ch : client_contact(w->client)), why);
        return;
    }
    j->away[0] = '\0';
    dist_search_found(&j->search);
    j->ended |= job_state_final(event.job.state);
    if (j->ours)
        movable_job_event(j->ours->movable, &event);
    /* News of a large job's last tasks comes after its final state. */
    if (j->ended && (j->ours ? movable_job_complete(j->ours->movable) : w->what == CLIENT_WATCH_JOBS))
        finish_job(j);
    struct api_event shown = event;
    if (w->what == CLIENT_WATCH_JOBS)
        shown.tasks_n = 0;
    if (shown.tasks_n || event.job.job.v)
        w->result = w->on(w->ctx, &shown);
    api_free(&api_event_type, &event);
}

static void on_end(void *arg, grpc_status_code status, const char *text)
{
    struct watched *j = arg;
    j->rpc = NULL;
    j->w->open--;
    if (j->ended && (!j->ours || status == GRPC_STATUS_OK))
        finish_job(j);
    j->broken = !j->finished;
    j->said = j->ch ? j->ch : client_contact(j->w->client);
    j->status = status;
    snprintf(j->text, sizeof j->text, "%s", text);
}

static void open_stream(struct watched *j)
{
    static const struct rpc_fns fns = {.reply = on_event, .done = on_end};
    enum client_watch_what what = j->w->what;
    struct api_watch_request request = {.job = j->job,
                                        .tasks = what == CLIENT_WATCH_TASKS,
                                        .ended = what == CLIENT_WATCH_RESULTS ||
                                                 (j->ours && what == CLIENT_WATCH_JOBS),
                                        .results = what == CLIENT_WATCH_RESULTS};
    struct client *client = j->w->client;
    uint8_t *data;
    size_t len;
    if (j->ours) {
        beat_streams_add(&j->w->beat_streams, j->ch);
        movable_job_stay(j->ours->movable, &request);
    }
    api_encode(&api_watch_request_type, &request, &data, &len);
    j->w->open++;
    j->rpc = rpc_start(j->ch ? j->ch : client_contact(client), api_methods[API_WATCH].path, data, len,
                       TIME_NEVER, false, &fns, j);
    free(data);
}

/* Whether the same call may succeed later: the dist went away, or its stream broke. */
static bool is_passing(grpc_status_code status)
{
    return status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_CANCELLED || status == GRPC_STATUS_OK ||
           status == GRPC_STATUS_INTERNAL || status == GRPC_STATUS_UNKNOWN || status == GRPC_STATUS_ABORTED;
}

/* ---- Moving our jobs (docs/protocol.md 9) ---- */

static void on_moved(void *arg, const uint8_t *data, size_t len)
{
    struct watched *j = arg;
    j->moved = movable_job_taken(j->ours->movable, data, len);
}

static void on_move_end(void *arg, grpc_status_code status, const char *text)
{
    struct watched *j = arg;
    j->move = NULL;
    j->moved = j->moved && status == GRPC_STATUS_OK;
    if (j->moved) {
        j->ours->at = j->ch = j->to;
        j->moving = false;
        dist_search_found(&j->search);
        j->w->standby_us = loop_now(j->w->client->loop) + STANDBY_AFTER_US;
        return;
    }
    j->said = j->to;
    if (status == GRPC_STATUS_OK)
        text = "it took another job for it: is it of an older version?";
    snprintf(j->text, sizeof j->text, "%s", text);
    j->status = status == GRPC_STATUS_OK ? GRPC_STATUS_UNIMPLEMENTED : status;
    j->refused = movable_job_note_refusal(j->ours->movable, j->status);
    dist_search_failed(&j->search, j->w->client, j->to, movable_job_has_no_room(j->status));
}

static int move_to(struct watched *j, struct channel *to)
{
    static const struct rpc_fns fns = {.reply = on_moved, .done = on_move_end};
    struct client *client = j->w->client;
    struct api_submit_request request;
    char id[JOB_ID_TEXT];
    uint8_t *data;
    size_t len;
    if (movable_job_move(j->ours->movable, loop_now(client->loop), &request))
        return client_fail(client, HAWK_ELIMIT, "job %s was moved from dist to dist too often",
                           job_id_format(id, j->job));
    j->to = to;
    j->moved = false;
    api_encode(&api_submit_request_type, &request, &data, &len);
    j->move = rpc_start(to, api_methods[API_SUBMIT].path, data, len, DIST_SEARCH_TRY_US, false, &fns, j);
    free(data);
    free(request.resubmit.ended);
    return 0;
}

static void give_up_dist(struct watched *j)
{
    if (j->rpc) {
        rpc_cancel(j->rpc);
        j->rpc = NULL;
        j->w->open--;
    }
    j->broken = false;
    j->moving = true;
    dist_search_failed(&j->search, j->w->client, j->ch, false);
}

static void on_dist_lost(void *arg, struct channel *ch, grpc_status_code status, const char *text)
{
    struct watch *w = arg;
    for (uint32_t i = 0; i < w->n; i++) {
        struct watched *j = &w->v[i];
        if (!j->ours || j->ch != ch || j->finished || j->moving)
            continue;
        give_up_dist(j);
        j->said = ch;
        j->status = status;
        snprintf(j->text, sizeof j->text, "%s", text);
    }
}

/* Tells the user who waits. */
static void warn_away(struct client *client, const char *reason)
{
    char duration[32];
    size_t len = strlen(reason);
    const char *mark = len > 0 && len <= 400 && strchr("?.!", reason[len - 1]) ? " -" : ";";
    snprintf(client->warning, sizeof client->warning, "%.400s%s trying for up to %s", reason, mark,
             duration_format(duration, sizeof duration, client->timeout_us));
}

static int stream_failed(const struct watched *j, const struct channel *asked)
{
    bool over = j->status == GRPC_STATUS_OK;
    return client_call_failed(j->w->client, asked, over ? GRPC_STATUS_UNAVAILABLE : j->status,
                              over ? "the stream of events ended before the job" : j->text);
}

/* Goes on to the next dist. When all have been asked, it goes back to the one that had the job, which may
 * be there again. */
static int go_on_moving(struct watched *j)
{
    struct client *client = j->w->client;
    if (j->refused)
        return stream_failed(j, j->said);
    struct channel *to = dist_search_next(&j->search, client);
    if (to && to != j->ch)
        return move_to(j, to);
    int err = stream_failed(j, j->said);
    if (!to) {
        (void)client_up_has_stopped(client); /* then that is the reason */
        return err;
    }
    warn_away(client, client->error);
    j->moving = false;
    return 0;
}

static void on_standby_end(void *arg, grpc_status_code status, const char *text)
{
    ((struct standby *)arg)->rpc = NULL;
}

/* Connecting takes most of the time of a move, so it is done beforehand. */
static void stand_by(struct watch *w, struct channel *ch)
{
    static const struct rpc_fns fns = {.done = on_standby_end};
    const struct api_list_jobs_request request = {.limit = 1};
    uint8_t *data;
    size_t len;
    for (uint32_t i = 0; i < w->standbys_n; i++)
        if (w->standbys[i]->ch == ch)
            return;
    struct standby *s = xcalloc(1, sizeof *s);
    s->ch = ch;
    vec_grow(w->standbys, w->standbys_n, w->standbys_cap);
    w->standbys[w->standbys_n++] = s;
    api_encode(&api_list_jobs_request_type, &request, &data, &len);
    s->rpc = rpc_start(ch, api_methods[API_LIST_JOBS].path, data, len, STANDBY_TRY_US, false, &fns, s);
    free(data);
}

static void stand_by_all(struct watch *w)
{
    struct channel *ch;
    w->standby_us = TIME_NEVER;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->v[i].ours && !w->v[i].finished &&
            (ch = client_other_dist(w->client, w->v[i].ch, w->v[i].job.v, 0)))
            stand_by(w, ch);
}

/* ---- Streams that broke ---- */

/* For a foreign job, the next dist to ask after `asked`: the one that its id names, then any other, since
 * its client may have moved it. False: there is none left. */
static bool ask_next(struct watched *j, const struct channel *asked)
{
    struct client *client = j->w->client;
    struct channel *owner = NULL;
    if (!j->ch && client_node_channel(client, ROLE_DIST, job_id_node(j->job), &owner) == 0 && owner != asked)
        j->ch = owner;
    else
        j->ch = client_other_dist(client, client_contact(client), j->search.seed, j->search.tried++);
    return j->ch != NULL;
}

/* No dist has it. Central may: a long job whose dist died together with its client. Else the text is that of the dist
 * that the id names, not of the one that was asked last. */
static int nobody_has(const struct watched *j)
{
    const struct api_get_job_request r = {.job = j->job};
    struct client *client = j->w->client;
    struct api_get_job_reply reply;
    char text[JOB_ID_TEXT];
    const char *id = job_id_format(text, j->job);
    int err = client_get_job(client, &r, &reply);
    if (err)
        return err;
    api_free(&api_get_job_reply_type, &reply);
    return client_fail(
        client, HAWK_ENOT_FOUND,
        "job %s cannot be waited for: no dist has it any more, only central, which cancels it unless "
        "one claims it (`hawk explain %s`)",
        id, id);
}

static int mend_others(struct watched *j, struct channel *asked)
{
    struct client *client = j->w->client;
    bool wrong = client_asked_wrong_dist(j->status);
    int err = stream_failed(j, asked);
    if (!wrong && !is_passing(j->status))
        return err;
    if (!wrong)
        snprintf(j->away, sizeof j->away, "%.399s", client->error);
    if ((wrong || j->ch) && ask_next(j, asked))
        return 0;
    if (client_up_has_stopped(client))
        return HAWK_EUNAVAILABLE;
    if (!*j->away)
        return nobody_has(j);
    if (!dist_search_again(&j->search, client))
        return client_fail(client, HAWK_EUNAVAILABLE, "%s", j->away);
    warn_away(client, j->away);
    j->away[0] = '\0';
    j->ch = NULL;
    client_next_contact(client);
    return 0;
}

/* The stream of one of our jobs ended before the job did. */
static int mend_ours(struct watched *j)
{
    struct client *client = j->w->client;
    if (j->ended && movable_job_complete(j->ours->movable)) {
        finish_job(j);
        return 0;
    }
    if (client_asked_wrong_dist(j->status)) {
        j->moving = true;
        return move_to(j, j->ch); /* another process is there now */
    }
    if (!is_passing(j->status))
        return client_call_failed(client, j->ch, j->status, j->text);
    give_up_dist(j);
    return 0;
}

static int mend_watch(struct watched *j)
{
    j->broken = false;
    return j->ours ? mend_ours(j) : mend_others(j, j->ch ? j->ch : client_contact(j->w->client));
}

/* Opens streams that are due, and mends broken ones. */
static int keep_open(struct watch *w)
{
    beat_streams_turn(&w->beat_streams);
    int64_t now = loop_now(w->client->loop);
    if (now >= w->standby_us)
        stand_by_all(w);
    for (uint32_t i = 0; i < w->n; i++) {
        struct watched *j = &w->v[i];
        if (j->finished || j->rpc || j->move)
            continue;
        int err = j->broken ? mend_watch(j) : 0;
        if (!err && j->moving && !j->move)
            err = go_on_moving(j);
        if (err) {
            if (!w->failed)
                snprintf(w->failure, sizeof w->failure, "%s", w->client->error);
            w->failed = w->failed ? w->failed : err;
            finish_job(j);
            continue;
        }
        /* Our own jobs come first: one that nobody watches would be cancelled. */
        if (!j->moving && (j->ours || w->open < STREAMS_MAX) && j->search.retry_us <= now)
            open_stream(j);
    }
    return w->result;
}

static void watch_end(struct watch *w)
{
    beat_streams_free(&w->beat_streams);
    for (uint32_t i = 0; i < w->standbys_n; i++) {
        if (w->standbys[i]->rpc)
            rpc_cancel(w->standbys[i]->rpc);
        free(w->standbys[i]);
    }
    free(w->standbys);
    for (uint32_t i = 0; i < w->n; i++) {
        struct watched *j = &w->v[i];
        if (j->rpc)
            rpc_cancel(j->rpc);
        if (j->move)
            rpc_cancel(j->move);
        if (j->finished && client_job_find(w->client, j->job))
            client_job_forget(w->client, client_job_find(w->client, j->job));
    }
    free(w->v);
}

int client_watch(struct client *client, const job_id_t *jobs, uint32_t n, enum client_watch_what what,
                 client_watch_fn *on, int (*tick)(void *ctx), void *ctx)
{
    struct watch w = {.client = client, .on = on, .ctx = ctx, .n = n, .what = what, .unfinished = n};
    int64_t tick_us = 0;
    client->warning[0] = '\0';
    w.v = xcalloc(n ? n : 1, sizeof *w.v);
    w.standby_us = loop_now(client->loop) + STANDBY_AFTER_US;
    w.beat_streams = (struct beat_streams){.loop = client->loop, .lost = on_dist_lost, .arg = &w};
    for (uint32_t i = 0; i < n; i++) {
        struct client_job *ours = client_job_find(client, jobs[i]);
        w.v[i] = (struct watched){
            .w = &w, .job = jobs[i], .ours = ours, .ch = ours ? ours->at : NULL, .search.seed = jobs[i].v};
    }
    while (w.unfinished && !w.result) {
        int err = keep_open(&w);
        if (err)
            w.result = err;
        if (w.result)
            break;
        loop_once(client->loop, loop_now(client->loop) + (w.beat_streams.n ? BEAT_STREAMS_TURN_US : TICK_US));
        if (tick && !w.result && loop_now(client->loop) >= tick_us) {
            w.result = tick(ctx);
            tick_us = loop_now(client->loop) + TICK_US;
        }
    }
    watch_end(&w);
    return w.result || !w.failed ? w.result : client_fail(client, w.failed, "%s", w.failure);
}

/* ---- Output ---- */

/* A worker that restarts in place has the output of the tasks that it goes on with: who follows one asks again for so
 * long, from where it was. */
#define FOLLOW_AGAIN_US (10 * US_PER_S)
#define FOLLOW_PAUSE_US (US_PER_S / 5)

struct reading {
    struct client *client;
    struct channel *ch;
    client_output_fn *on;
    void *ctx;
    int result;
    bool ended;
    int64_t heard_us;
    uint64_t bytes; /* in all */
};

static void on_chunk(void *arg, const uint8_t *data, size_t len)
{
    struct reading *r = arg;
    struct api_output_chunk chunk;
    char why[200];
    if (r->result)
        return;
    r->heard_us = loop_now(r->client->loop);
    r->result = api_decode(&api_output_chunk_type, data, len, &chunk, why, sizeof why);
    if (r->result) {
        client_fail(r->client, r->result, "%s sent what this version does not understand: %s",
                    channel_addr(r->ch), why);
        return;
    }
    r->bytes += chunk.data_n;
    r->result = r->on(r->ctx, &chunk);
    api_free(&api_output_chunk_type, &chunk);
}

static void on_output_end(void *arg, grpc_status_code status, const char *text)
{
    struct reading *r = arg;
    r->ended = true;
    if (!r->result && status != GRPC_STATUS_OK)
        r->result = client_call_failed(r->client, r->ch, status, text);
}

static int read_once(struct reading *r, node_id_t worker, const struct api_read_output_request *request)
{
    static const struct rpc_fns fns = {.reply = on_chunk, .done = on_output_end};
    struct client *client = r->client;
    uint8_t *data;
    size_t len;
    r->ended = false;
    r->result = client_node_channel(client, ROLE_WORKER, worker, &r->ch);
    if (r->result)
        return r->result;
    api_encode(&api_read_output_request_type, request, &data, &len);
    r->heard_us = loop_now(client->loop);
    struct rpc *rpc =
        rpc_start(r->ch, api_methods[API_READ_OUTPUT].path, data, len, TIME_NEVER, false, &fns, r);
    free(data);
    while (!r->ended && !r->result) {
        /* Following a task may take as long as the task. Any other read must end when the worker has
         * stopped. */
        int64_t until = request->follow ? TIME_NEVER : r->heard_us + client->timeout_us;
        loop_once(client->loop, until);
        if (!r->ended && !r->result && loop_now(client->loop) >= until)
            r->result = client_call_failed(client, r->ch, GRPC_STATUS_DEADLINE_EXCEEDED, "");
    }
    if (!r->ended)
        rpc_cancel(rpc);
    return r->result;
}

/* 0: the worker answers. */
static int call_worker(struct client *client, node_id_t worker)
{
    const struct api_get_stats_request none = {0};
    struct api_get_stats_reply reply = {0};
    struct channel *ch;
    grpc_status_code status;
    int err = client_node_channel(client, ROLE_WORKER, worker, &ch);
    if (!err)
        err = client_call(client, ch, API_GET_STATS, &none, &reply, &status);
    api_free(&api_get_stats_reply_type, &reply);
    return err;
}

static void wait_until(struct loop *loop, int64_t until)
{
    while (loop_now(loop) < until)
        loop_once(loop, until);
}

int client_read_output(struct client *client, node_id_t worker, const struct api_read_output_request *request,
                       client_output_fn *on, void *ctx)
{
    struct reading r = {.client = client, .on = on, .ctx = ctx};
    struct api_read_output_request rest = *request;
    int err = read_once(&r, worker, &rest);
    int64_t until = loop_now(client->loop) + FOLLOW_AGAIN_US;
    if (!request->follow || !client_is_away(err))
        return err;
    while ((client_is_away(err) || err == HAWK_ENOT_FOUND) && loop_now(client->loop) < until) {
        rest.offset = request->offset + r.bytes;
        wait_until(client->loop, loop_now(client->loop) + FOLLOW_PAUSE_US);
        err = client_refresh_nodes(client, client->timeout_us); /* it may be back elsewhere */
        if (!err)
            err = call_worker(client, worker);
        if (err)
            continue;
        err = read_once(&r, worker, &rest);
        if (client_is_away(err)) /* until now it was there, though the task may have written nothing */
            until = loop_now(client->loop) + FOLLOW_AGAIN_US;
    }
    return err;
}
