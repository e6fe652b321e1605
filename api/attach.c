/* One stream per executor: see attach.h. Messages to an executor gather while one is on its way. */
#include "api/attach.h"

#include "api/internal.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/attach.h"
#include "net/log_kind.h"
#include "net/rpc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER_KINDS 64u

/* One attached executor, or a client that has not said hello yet. */
struct stream {
    struct list link;  /* attach.all */
    struct list dirty; /* in attach.dirty, with something to send */
    struct attach *attach;
    struct rpc_call *call;
    struct executor *executor;
    bool drained;
    bool held; /* not read from */
    struct attach_batches out;
    struct blob *app;  /* its application, once it has said hello: its name, */
    struct blob *user; /* and whose tasks it takes; NULL: everybody's */
    /* The resident that it is of (0: none), and the task which that was. The last executor of it ends it. */
    uint64_t resident;
    job_id_t task_of;
    uint32_t task;
    job_id_t job; /* the last job that was sent, and its id as text */
    char job_text[JOB_ID_TEXT];
    size_t job_len;
    char why[3 * LIMIT_NAME_BYTES]; /* what is wrong with its messages */
};

struct attach {
    struct loop *loop;
    struct attach_config config;
    struct apps *apps;
    struct list all, dirty;
    struct loop_hook flush;
    struct loop_timer timer;
    bool held; /* some streams may be */
    struct log_kind sent_away;
    /* Lines about who attached or was refused, by the user's hash: none fills the disk, and few share a place. How many
     * were left out is said with a later one. */
    struct log_kind users[USER_KINDS];
};

/* ---- Sending ---- */

static struct codec_buf *batch_for(struct stream *s, size_t len)
{
    if (list_empty(&s->dirty))
        list_push_tail(&s->attach->dirty, &s->dirty);
    return attach_batch(&s->out, len);
}

static void send_next(struct stream *s)
{
    struct span b;

    /* If there are more, rpc_idle asks for `writable` once the first one is on its way. */
    while ((b = attach_first(&s->out)).len > 0 && rpc_idle(s->call)) {
        if (rpc_send(s->call, b.data, b.len) == HAWK_ELIMIT)
            return; /* `writable` comes */
        attach_drop_first(&s->out);
    }
}

static uint64_t send_task(void *user, const struct app_task *t)
{
    struct stream *s = user;
    const struct job_desc *d = t->desc;
    struct attach_task out = {
        .id = t->id,
        .index = d->first_index + t->try.task,
        .count = d->tasks,
        .attempt = t->try.attempt,
        .time_limit_us = d->time_limit_us,
        .name = {d->name->data, d->name->len},
    };

    if (!job_eq(s->job, t->try.job)) {
        s->job = t->try.job;
        job_id_format(s->job_text, s->job);
        s->job_len = strlen(s->job_text);
    }
    out.job = (struct span){s->job_text, s->job_len};
    if (t->payload)
        out.payload = (struct span){t->payload->data, t->payload->len};
    attach_put_task(batch_for(s, out.payload.len), &out);
    return s->out.dropped + s->out.n - 1;
}

static bool has_left(void *user, uint64_t message) { return message < ((struct stream *)user)->out.dropped; }

static void send_cancel(void *user, uint64_t id)
{
    struct stream *s = user;

    attach_put_cancel(batch_for(s, 0), id);
}

static void send_pause(void *user, uint64_t id, bool on)
{
    struct stream *s = user;

    attach_put_pause(batch_for(s, 0), &(struct attach_pause){.id = id, .on = on});
}

static void on_drained(void *user)
{
    struct stream *s = user;

    s->drained = true;
    if (list_empty(&s->dirty))
        list_push_tail(&s->attach->dirty, &s->dirty); /* the end of the turn ends it: it is in use now */
}

/* ---- Whom an executor serves ---- */

static bool is_shared(const struct attach_config *c, const char *app)
{
    size_t len = strlen(app);

    for (const char *p = c->shared ? c->shared : ""; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        if (strcspn(p, ",") == len && memcmp(p, app, len) == 0)
            return true;
    return false;
}

/* Finds out whose tasks it is to get, in *user; "": everybody's. own: who attaches it, or whose task it was. */
static int find_user(struct stream *s, const char *app, const char *own, const char **user)
{
    const struct attach_config *c = &s->attach->config;
    const struct caller *who = rpc_caller(s->call);
    bool shared = is_shared(c, app);

    *user = c->users && who->by != CALLER_UNKNOWN && !shared ? own : "";
    if (!c->users || !shared || caller_may(who, SCOPE_OPERATE))
        return 0;
    snprintf(s->why, sizeof s->why,
             "application %s is everybody's on this worker (cluster.shared_apps): attaching an executor of "
             "it needs "
             "scope operate; choose another name",
             app);
    return HAWK_EDENIED;
}

/* ---- Residents ---- */

/* Another stream of its application and user; NULL: none. */
static struct stream *sibling(const struct stream *s)
{
    list_foreach(&s->attach->all, l, next) {
        struct stream *other = container_of(l, struct stream, link);

        if (other != s && other->executor && app_eq(other->app, other->user, s->app, s->user))
            return other;
    }
    return NULL;
}

/* A resident stays as long as any executor of its application does. */
static void leave_resident(struct stream *s)
{
    struct attach *a = s->attach;
    struct stream *other = s->resident ? sibling(s) : NULL;

    if (other) {
        other->resident = s->resident;
        other->task_of = s->task_of;
        other->task = s->task;
    } else if (s->resident && a->config.evict) {
        a->config.evict(a->config.arg, s->resident);
    }
}

static int not_here(struct stream *s, const struct attach_hello *h, const char *job)
{
    snprintf(s->why, sizeof s->why, "hello: task %" PRIu32 " of job %s does not run at this worker", h->task,
             job);
    return HAWK_EINVALID;
}

/* The task that said hello becomes a resident, and has ended well with that. So nothing may refuse it afterwards. */
static int become_resident(struct stream *s, const struct attach_hello *h, const struct executor_offer *offer)
{
    const struct attach_config *c = &s->attach->config;
    int err;

    if (sibling(s)) {
        snprintf(s->why, sizeof s->why, "this worker serves application %s already: one resident is enough",
                 h->app);
        return HAWK_EEXISTS;
    }
    if ((err = apps_may_attach(s->attach->apps, offer, s->why, sizeof s->why)))
        return err;
    s->resident = c->reside ? c->reside(c->arg, s->task_of, s->task) : 0;
    return s->resident ? 0 : not_here(s, h, h->task_of);
}

/* A stream of the resident that s says it is of; NULL: there is none. */
static const struct stream *find_resident(const struct stream *s)
{
    list_foreach(&s->attach->all, l, next) {
        const struct stream *other = container_of(l, struct stream, link);

        if (other != s && other->resident && job_eq(other->task_of, s->task_of) && other->task == s->task &&
            blob_eq(other->app, s->app))
            return other;
    }
    return NULL;
}

/* Whose the task is which says hello, or whose resident does, in own (LIMIT_NAME_BYTES + 1). */
static int find_owner(struct stream *s, const struct attach_hello *h, char *own)
{
    const struct attach_config *c = &s->attach->config;
    const struct caller *who = rpc_caller(s->call);
    const char *job = *h->task_of ? h->task_of : h->resident_of;
    const struct stream *resident;

    *own = '\0';
    if (job_id_parse(job, &s->task_of) != 0)
        return not_here(s, h, job);
    s->task = h->task;
    if (*h->task_of) {
        if (!c->task_user || !c->task_user(c->arg, s->task_of, s->task, own))
            return not_here(s, h, job);
    } else if ((resident = find_resident(s))) {
        s->resident = resident->resident;
        snprintf(own, LIMIT_NAME_BYTES + 1, "%s", resident->user ? resident->user->data : "");
    } else {
        return not_here(s, h, job);
    }
    if (caller_may(who, SCOPE_OPERATE) || api_is_own(who, own))
        return 0;
    s->resident = 0;
    snprintf(s->why, sizeof s->why, "task %" PRIu32 " of job %s is not yours", h->task, job);
    return HAWK_EDENIED;
}

static int find_served(struct stream *s, const struct attach_hello *h)
{
    char own[LIMIT_NAME_BYTES + 1];
    const char *user = "";
    int err = 0;

    s->app = blob_str(h->app);
    snprintf(own, sizeof own, "%s", rpc_caller(s->call)->name);
    if (*h->task_of || *h->resident_of)
        err = find_owner(s, h, own);
    if (!err)
        err = find_user(s, h->app, own, &user);
    s->user = *user ? blob_str(user) : NULL;
    return err;
}

/* ---- The end of a stream ---- */

static void stream_free(struct stream *s)
{
    struct attach *a = s->attach;
    struct executor *x = s->executor;

    s->executor = NULL;
    leave_resident(s);
    if (x)
        apps_detach(a->apps, loop_now(a->loop), x);
    blob_drop(s->app);
    blob_drop(s->user);
    list_remove(&s->link);
    list_remove(&s->dirty);
    attach_batches_free(&s->out);
    free(s);
}

static void end_if_drained(struct stream *s)
{
    if (!s->drained || attach_first(&s->out).len > 0)
        return;
    rpc_finish(s->call);
    stream_free(s);
}

static void send_away(struct stream *s, int err)
{
    if (err != HAWK_EEXISTS) /* there may be several residents on their way */
        log_kind_warn(&s->attach->sent_away, "an executor that is sent away", loop_now(s->attach->loop),
                      "an executor at %s is sent away: %s", rpc_peer(s->call), s->why);
    rpc_fail(s->call, rpc_err_to_status(err), "%s", s->why);
    stream_free(s);
}

static void on_stuck(void *user, const char *why)
{
    struct stream *s = user;

    snprintf(s->why, sizeof s->why, "%s", why);
    send_away(s, HAWK_EUNAVAILABLE);
}

static void on_cancelled(void *arg, struct rpc_call *c)
{
    rpc_finish(c);
    stream_free(arg);
}

static void on_writable(void *arg, struct rpc_call *c)
{
    struct stream *s = arg;

    if (list_empty(&s->dirty))
        list_push_tail(&s->attach->dirty, &s->dirty);
}

/* ---- Receiving ---- */

static int wrong_message(struct stream *s, int err, const char *what)
{
    snprintf(s->why, sizeof s->why, "%s", what);
    return err;
}

/* Whether lines may be written about s, which has attached or is refused. */
static bool may_tell(struct stream *s)
{
    struct attach *a = s->attach;
    uint64_t user = HASH_FNV1A;

    for (const char *p = rpc_caller(s->call)->name; *p; p++)
        user = hash_fnv1a(user, (uint8_t)*p);
    return log_kind_may(&a->users[hash_mix(user) % USER_KINDS], "audit: executors of a user",
                        loop_now(a->loop));
}

static int on_hello(void *arg, const struct attach_hello *h)
{
    struct stream *s = arg;
    struct attach *a = s->attach;
    char what[LIMIT_NAME_BYTES + 64];

    if (s->app)
        return wrong_message(s, HAWK_EINVALID, "a second hello: one stream is one executor, open another");
    int err = find_served(s, h);
    const struct executor_offer offer = {.app = h->app,
                                         .name = h->name,
                                         .serves = s->user ? s->user->data : NULL,
                                         .slots = h->slots,
                                         .pauses = h->pauses,
                                         .unbounded = caller_may(rpc_caller(s->call), SCOPE_OPERATE)};
    if (!err && *h->task_of)
        err = become_resident(s, h, &offer);
    attach_put_attached(batch_for(s, 0), a->config.worker, a->config.slots);
    if (!err)
        err = apps_attach(a->apps, loop_now(a->loop), &offer, s, &s->executor, s->why, sizeof s->why);
    bool told = may_tell(s);
    if (!err && told)
        log_info("executor %s attached for application %s%s%s, %" PRIu32 " task%s at once%s",
                 *h->name ? h->name : rpc_peer(s->call), h->app, s->user ? " of user " : "",
                 s->user ? s->user->data : "", h->slots, h->slots == 1 ? "" : "s",
                 h->pauses ? ", which may be paused" : "");
    snprintf(what, sizeof what, "attach executor of application %s", h->app);
    if (told)
        rpc_audit_now(s->call, what, err ? s->why : "done");
    return err;
}

static int on_result(void *arg, const struct attach_result *r)
{
    struct stream *s = arg;
    struct attach *a = s->attach;
    int32_t code = r->code ? r->code : r->error.len ? 1 : 0;
    struct span data = code ? r->error : r->result;

    if (!s->executor)
        return wrong_message(s, HAWK_EINVALID, "a result before hello: the first message says hello");
    if (code < 0 || code > 255) {
        snprintf(s->why, sizeof s->why, "the result of task %" PRIu64 " has code %" PRId32 ": give 0 to 255",
                 r->id, code);
        return HAWK_EINVALID;
    }
    if (apps_result(a->apps, loop_now(a->loop), s->executor, r->id, code, data.data, data.len) == 0)
        return 0;
    snprintf(s->why, sizeof s->why, "a result of task %" PRIu64 ", which this executor does not have", r->id);
    return HAWK_EINVALID;
}

static int on_paused(void *arg, const struct attach_paused *p)
{
    struct stream *s = arg;

    if (!s->executor)
        return wrong_message(s, HAWK_EINVALID, "paused before hello: the first message says hello");
    if (apps_paused(s->attach->apps, loop_now(s->attach->loop), s->executor, p->id, p->refused) == 0)
        return 0;
    return wrong_message(s, HAWK_EINVALID,
                         "paused, of an executor that did not offer to pause tasks: set hello.pauses");
}

static int on_drain(void *arg)
{
    struct stream *s = arg;

    if (!s->executor)
        return wrong_message(s, HAWK_EINVALID, "drain before hello: the first message says hello");
    apps_drain(s->attach->apps, loop_now(s->attach->loop), s->executor);
    return 0;
}

/* The executor sends nothing more. Tasks that it has not answered by now it never will. */
static int on_end(struct stream *s)
{
    int err = on_drain(s);

    return err || s->drained
               ? err
               : wrong_message(s, HAWK_EINVALID,
                               "the stream ended before the results of the tasks it was given: send drain "
                               "first, and answer them");
}

static void on_message(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    static const struct attach_fns fns = {
        .hello = on_hello, .result = on_result, .drain = on_drain, .paused = on_paused};
    struct stream *s = arg;
    int err = 0;

    if (data)
        err = attach_from_executor(data, len, &fns, s, s->why, sizeof s->why);
    else if (s->executor)
        err = on_end(s);
    else
        err = wrong_message(s, HAWK_EINVALID, "the stream ended before hello");
    if (!err && data && !s->executor)
        err = wrong_message(s, HAWK_EINVALID, "the first message has no hello");
    if (err)
        send_away(s, err);
}

static void on_open(void *arg, struct rpc_call *c)
{
    struct attach *a = arg;
    struct stream *s = xcalloc(1, sizeof *s);

    s->attach = a;
    s->call = c;
    list_init(&s->dirty);
    list_push_tail(&a->all, &s->link);
    rpc_watch(c, on_cancelled, on_writable, s);
    rpc_receive(c, on_message, s);
}

/* ---- At the end of a turn ---- */

static bool owner_full(void *arg, uint32_t run)
{
    const struct attach *a = arg;

    return a->config.owner_unacked(a->config.arg, run) > ATTACH_UNACKED_BYTES;
}

/* Stops reading from executors whose results wait for acknowledgement: those take memory, and are lost
 * with this process. Executors without tasks of the owner that is away or slow go on. */
static void hold_streams(struct attach *a)
{
    bool any = a->config.unacked && a->config.unacked(a->config.arg) > ATTACH_UNACKED_BYTES;

    if (!any && !a->held)
        return;
    a->held = any;
    list_foreach(&a->all, l, next) {
        struct stream *s = container_of(l, struct stream, link);
        bool full = any && s->executor && executor_has(s->executor, owner_full, a);

        if (full != s->held)
            rpc_hold(s->call, full);
        s->held = full;
    }
}

static void flush_dirty(void *arg)
{
    struct attach *a = arg;

    hold_streams(a);
    while (!list_empty(&a->dirty)) {
        struct stream *s = container_of(a->dirty.next, struct stream, dirty);

        list_remove(&s->dirty);
        send_next(s);
        end_if_drained(s);
    }
    (void)log_kind_sweep(&a->sent_away, loop_now(a->loop));
    loop_timer_set(a->loop, &a->timer, apps_next_timeout(a->apps));
}

static void on_timer(void *arg)
{
    struct attach *a = arg;

    apps_on_timeout(a->apps, loop_now(a->loop));
}

/* ---- From nothing and back ---- */

struct attach *attach_new(struct loop *l, struct server *s, const struct attach_config *c)
{
    struct attach *a = xcalloc(1, sizeof *a);
    const struct apps_fns fns = {.task = send_task,
                                 .has_left = has_left,
                                 .cancel = send_cancel,
                                 .pause = send_pause,
                                 .drained = on_drained,
                                 .stuck = on_stuck,
                                 .event = c->event};

    a->loop = l;
    a->config = *c;
    a->config.worker = xstrdup(c->worker);
    a->apps = apps_new(c->kill_grace_us, &fns, c->arg);
    list_init(&a->all);
    list_init(&a->dirty);
    loop_timer_init(&a->timer, on_timer, a);
    loop_hook_add(l, &a->flush, LOOP_FLUSH, flush_dirty, a);
    server_handle_stream(s, ATTACH_METHOD, on_open, a);
    return a;
}

struct apps *attach_apps(struct attach *a) { return a->apps; }

static void ignore_event(void *arg, const struct msg *m) {}

void attach_free(struct attach *a)
{
    if (!a)
        return;
    apps_set_event(a->apps, ignore_event);
    a->config.evict = NULL; /* the spawner ends residents */
    list_foreach(&a->all, l, next) {
        struct stream *s = container_of(l, struct stream, link);

        rpc_fail(s->call, GRPC_STATUS_UNAVAILABLE,
                 "worker %s is shutting down: attach to another one, or to this one when it is back",
                 a->config.worker);
        stream_free(s);
    }
    apps_free(a->apps);
    loop_hook_remove(&a->flush);
    loop_timer_clear(a->loop, &a->timer);
    free((char *)a->config.worker);
    free(a);
}
