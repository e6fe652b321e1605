/* libhawk: contacts, routing to the node that answers, and the unary calls. */
#include "libhawk/client_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/token.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NODES_FRESH_US US_PER_S /* a list of nodes this old is not asked for again */

int hawk_fail(struct hawk *h, int err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(h->error, sizeof h->error, fmt, args);
    va_end(args);
    return err;
}

const char *hawk_error(const struct hawk *h) { return h->error; }
const char *hawk_warning(const struct hawk *h) { return h->warning; }

const char *hawk_default_socket(char *buf, size_t size)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    int n = dir && *dir ? snprintf(buf, size, "unix:%s/hawk/up.sock", dir)
                        : snprintf(buf, size, "unix:/tmp/hawk-%u/up.sock", (unsigned)getuid());
    return n > 0 && (size_t)n < size ? buf : NULL;
}

/* ---- Opening ---- */

int hawk_find_token(struct hawk *h, const char *path)
{
    const char *text = getenv("HAWK_TOKEN");
    if (path && !*path)
        return hawk_fail(h, HAWK_EINVALID, "--token-file names no file");
    if (!path)
        path = getenv("HAWK_TOKEN_FILE");
    char why[PATH_MAX + 400];
    if (path && *path) {
        int err = token_read(path, false, &h->token, why, sizeof why);
        return err ? hawk_fail(h, HAWK_EINVALID, "%s", why) : 0; /* missing or wrong: another must be named */
    }
    if (!text || !*text)
        return 0;
    if (token_check(text, strlen(text), why, sizeof why))
        return hawk_fail(h, HAWK_EINVALID, "HAWK_TOKEN: %s", why);
    h->token = xstrdup(text);
    return 0;
}

static struct channel *channel_to(struct hawk *h, const char *addr)
{
    for (uint32_t i = 0; i < h->channels_n; i++)
        if (strcmp(channel_addr(h->channels[i]), addr) == 0)
            return h->channels[i];
    vec_grow(h->channels, h->channels_n, h->channels_cap);
    return h->channels[h->channels_n++] = channel_new(h->loop, addr, h->token);
}

/* Whether somebody listens on "unix:PATH". */
static bool socket_answers(const char *addr)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(addr + 5) >= sizeof un.sun_path)
        return false;
    memcpy(un.sun_path, addr + 5, strlen(addr + 5));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answers = fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0;
    if (fd >= 0)
        close(fd);
    return answers;
}

static int add_contacts(struct hawk *h, const char *list, const char *origin)
{
    char *copy = xstrdup(list), *rest = copy, why[200];
    int err = 0;
    for (char *addr; !err && (addr = strsep(&rest, ", "));) {
        if (!*addr)
            continue;
        if (addr_check(addr, why, sizeof why))
            err = hawk_fail(h, HAWK_EINVALID, "%s: %s", origin, why);
        else
            channel_to(h, addr);
    }
    free(copy);
    if (!err && h->channels_n == 0)
        err = hawk_fail(h, HAWK_EINVALID, "%s names no address", origin);
    h->contacts = h->channels_n;
    return err;
}

/* The addresses to contact, in buf where they must be put together; NULL when there is no cluster. */
static const char *find_contacts(const struct hawk_options *o, const char **origin, char *buf, size_t size)
{
    const char *env = getenv("HAWK_DIST");
    *origin = o->dist ? "--dist" : "HAWK_DIST";
    if (o->dist)
        return o->dist;
    if (env && *env)
        return env;
    *origin = "the local socket";
    return hawk_default_socket(buf, size) && socket_answers(buf) ? buf : NULL;
}

int hawk_open(struct hawk **out, const struct hawk_options *o)
{
    struct hawk *h = xcalloc(1, sizeof *h);
    char socket_path[256];
    const char *origin = NULL;
    *out = h;
    h->nodes_at_us = -1;
    h->timeout_us = o->timeout_us > 0 ? o->timeout_us : HAWK_TIMEOUT_US;
    const char *contacts = find_contacts(o, &origin, socket_path, sizeof socket_path);
    if (!contacts)
        return hawk_fail(
            h, HAWK_EUNAVAILABLE,
            "no cluster found: start one with `hawk up`, or name a dist with --dist or HAWK_DIST");
    int err = hawk_find_token(h, o->token_file);
    if (err)
        return err;
    h->loop = loop_new(LOOP_NET);
    return add_contacts(h, contacts, origin);
}

void hawk_close(struct hawk *h)
{
    if (!h)
        return;
    struct hawk_ours *j, *next;
    HASH_ITER(hh, h->jobs, j, next)
        hawk_job_forget(h, j);
    for (uint32_t i = 0; i < h->channels_n; i++)
        channel_free(h->channels[i]);
    free(h->channels);
    loop_free(h->loop);
    api_free(&api_list_nodes_reply_type, &h->nodes);
    free(h->token);
    free(h);
}

/* ---- One call ---- */

static bool has_one_of(const char *text, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(text, *parts))
            return true;
    return false;
}

/* gRPC's words for a connection that was lost under a call, which come with one of several statuses. */
static bool is_broken(grpc_status_code status, const char *text)
{
    static const char *const words[] = {"Socket closed",  "Connection reset", "Broken pipe",
                                        "GOAWAY",         "keepalive",        "Endpoint read",
                                        "Stream removed", "RST_STREAM",       NULL};
    return (status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_UNKNOWN ||
            status == GRPC_STATUS_INTERNAL) &&
           has_one_of(text, words);
}

int hawk_call_failed(struct hawk *h, const struct channel *ch, grpc_status_code status, const char *text)
{
    static const char *const refusals[] = {API_NOT_ACCEPTED_TEXT, API_DRAINING_TEXT, NULL};
    char duration[32];
    int err = rpc_status_to_err(status);
    const char *addr = channel_addr(ch);
    const char *reason = status == GRPC_STATUS_UNAVAILABLE ? rpc_connect_reason(text) : NULL;
    h->untouched = reason || status == GRPC_STATUS_CANCELLED ||
                   (status == GRPC_STATUS_UNAVAILABLE && has_one_of(text, refusals));
    if (reason)
        return hawk_fail(h, err, "cannot reach %s: %s; is %s running?", addr, reason,
                         addr_is_unix(addr) ? "`hawk up`" : "it");
    if (status == GRPC_STATUS_UNAUTHENTICATED)
        return hawk_fail(h, err, "%s: %s: --token-file or HAWK_TOKEN_FILE names the file with it", addr,
                         text);
    if (status == GRPC_STATUS_CANCELLED) /* net/server.h */
        return hawk_fail(h, HAWK_EUNAVAILABLE, "%s is shutting down: ask another node, or this one later",
                         addr);
    if (is_broken(status, text))
        return hawk_fail(h, HAWK_EUNAVAILABLE,
                         "the connection to %s broke (%s): is it running? ask again, or another node", addr,
                         text);
    if (status == GRPC_STATUS_DEADLINE_EXCEEDED)
        return hawk_fail(h, err, "%s did not answer within %s", addr,
                         duration_format(duration, sizeof duration, h->timeout_us));
    return hawk_fail(h, err, "%s: %s", addr, *text ? text : hawk_strerror(err));
}

static int call_for(struct hawk *h, struct channel *ch, enum api_method method, const void *request,
                    void *reply, int64_t timeout_us, grpc_status_code *status)
{
    const struct api_method_info *m = &api_methods[method];
    uint8_t *sent = NULL, *got = NULL;
    size_t sent_len = 0, got_len = 0;
    char *text = NULL, why[200];
    api_encode(m->request, request, &sent, &sent_len);
    *status = GRPC_STATUS_UNKNOWN;
    h->untouched = false;
    int err =
        rpc_call_sync(h->loop, ch, m->path, sent, sent_len, timeout_us, false, &got, &got_len, status, &text);
    if (err) {
        err = hawk_call_failed(h, ch, *status, text ? text : "");
        CHECK(err != 0);
    } else if ((err = api_decode(m->reply, got, got_len, reply, why, sizeof why)))
        hawk_fail(h, err, "%s answered what this version does not understand: %s", channel_addr(ch), why);
    free(sent);
    free(got);
    free(text);
    return err;
}

static int call(struct hawk *h, struct channel *ch, enum api_method method, const void *request, void *reply,
                grpc_status_code *status)
{
    return call_for(h, ch, method, request, reply, h->timeout_us, status);
}

struct channel *hawk_contact(struct hawk *h) { return h->channels[h->current]; }

bool hawk_next_contact(struct hawk *h)
{
    h->current = (h->current + 1) % h->contacts;
    return h->contacts > 1;
}

/* Asks the first contact that can be reached. */
static int call_contact_for(struct hawk *h, enum api_method method, const void *request, void *reply,
                            int64_t timeout_us, grpc_status_code *status)
{
    int err = 0;
    for (uint32_t tried = 0; tried < h->contacts; tried++) {
        err = call_for(h, hawk_contact(h), method, request, reply, timeout_us, status);
        if (err != HAWK_EUNAVAILABLE && err != HAWK_ETIMEOUT)
            return err;
        hawk_next_contact(h);
    }
    return err;
}

static int call_contact(struct hawk *h, enum api_method method, const void *request, void *reply,
                        grpc_status_code *status)
{
    return call_contact_for(h, method, request, reply, h->timeout_us, status);
}

/* ---- Who answers for what ---- */

bool hawk_asked_wrong_dist(grpc_status_code status)
{
    return status == GRPC_STATUS_NOT_FOUND || status == rpc_err_to_status(HAWK_ENOT_OWNER);
}

int hawk_refresh_nodes(struct hawk *h, int64_t timeout_us)
{
    const struct api_list_nodes_request none = {0};
    struct api_list_nodes_reply nodes;
    grpc_status_code status;
    int64_t now = loop_now(h->loop);
    if (h->nodes_at_us >= 0 && now - h->nodes_at_us < NODES_FRESH_US)
        return 0;
    int err = call_contact_for(h, API_LIST_NODES, &none, &nodes, timeout_us, &status);
    if (err)
        return err; /* the old list is better than none */
    api_free(&api_list_nodes_reply_type, &h->nodes);
    h->nodes = nodes;
    h->nodes_at_us = now;
    h->nodes_from = hawk_contact(h);
    return 0;
}

/* umask() would change it, for a moment, for all of this process's threads. */
uint32_t hawk_umask(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned mask = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "Umask:", 6) == 0)
            mask = JOB_UMASK_TOLD | ((unsigned)strtoul(line + 6, NULL, 8) & 0777);
    if (f)
        fclose(f);
    return mask;
}

static int refresh_nodes(struct hawk *h) { return hawk_refresh_nodes(h, h->timeout_us); }

static const struct api_node *find_node(const struct hawk *h, enum role role, node_id_t node)
{
    for (uint32_t i = 0; i < h->nodes.nodes_n; i++) {
        const struct api_node *n = &h->nodes.nodes[i];
        if (strcmp(n->role, role_text(role)) == 0 && (role == ROLE_CENTRAL || n->node == node.v))
            return n;
    }
    return NULL;
}

/* A node that is the one who listed it, or that lives inside `hawk up` and has no address, is reached there. */
static struct channel *channel_of(struct hawk *h, const struct api_node *n)
{
    char why[200];
    if ((h->nodes.self && n->node == h->nodes.self) || addr_check(n->address, why, sizeof why))
        return h->nodes_from;
    return channel_to(h, n->address);
}

/* The channels of dists that were up, as listed; each once. */
static uint32_t listed_dists(struct hawk *h, const struct channel *but, struct channel **v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->nodes.nodes_n; i++) {
        const struct api_node *node = &h->nodes.nodes[i];
        if (strcmp(node->role, role_text(ROLE_DIST)) != 0 ||
            strcmp(node->state, member_state_text(MEMBER_UP)) != 0)
            continue;
        struct channel *ch = channel_of(h, node);
        if (ch != but)
            v[n++] = ch;
    }
    return n;
}

struct channel *hawk_other_dist(struct hawk *h, const struct channel *but, uint64_t seed, uint32_t i)
{
    struct channel **v = xcalloc(h->nodes.nodes_n + h->contacts + 1, sizeof(struct channel *));
    uint32_t listed = listed_dists(h, but, v), n = listed;
    for (uint32_t c = 0; c < h->contacts; c++) {
        bool known = h->channels[c] == but;
        for (uint32_t k = 0; k < listed; k++)
            known |= v[k] == h->channels[c];
        if (!known)
            v[n++] = h->channels[c];
    }
    struct channel *ch = i >= n ? NULL : i < listed ? v[(i + seed % listed) % listed] : v[i];
    free(v);
    return ch;
}

int hawk_node_channel(struct hawk *h, enum role role, node_id_t node, struct channel **ch)
{
    const struct api_node *n = find_node(h, role, node);
    if (!n || strcmp(n->state, member_state_text(MEMBER_UP)) != 0) {
        int err = refresh_nodes(h);
        if (err)
            return err;
        n = find_node(h, role, node);
    }
    if (!n)
        return hawk_fail(h, HAWK_ENOT_FOUND, "the cluster has no %s %u (`hawk nodes` lists them)",
                         role_text(role), node.v);
    *ch = channel_of(h, n);
    return 0;
}

struct ask {
    enum api_method method;
    const void *request;
    void *reply;
    grpc_status_code status;
};

static int ask(struct hawk *h, struct channel *ch, struct ask *a)
{
    return call(h, ch, a->method, a->request, a->reply, &a->status);
}

/* A job that its client moved is at neither of those that should have it: any dist may. Whoever does not answer within
 * SUBMIT_TRY_US is passed over. */
static int ask_others(struct hawk *h, const struct channel *owner, job_id_t job, struct ask *a)
{
    struct channel *ch;
    for (uint32_t i = 0; (ch = hawk_other_dist(h, owner, job.v, i)); i++)
        if (ch != hawk_contact(h) &&
            call_for(h, ch, a->method, a->request, a->reply, SUBMIT_TRY_US, &a->status) == 0)
            return 0;
    return HAWK_ENOT_FOUND;
}

/* Central has long jobs whose dist is not there, or has forgotten them. One of an older version serves no such calls. */
static int ask_central(struct hawk *h, struct ask *a)
{
    struct channel *central = NULL;
    if (hawk_node_channel(h, ROLE_CENTRAL, NODE_NONE, &central) || central == hawk_contact(h))
        return HAWK_ENOT_FOUND; /* none is known, or it was asked */
    return call_for(h, central, a->method, a->request, a->reply, SUBMIT_TRY_US, &a->status);
}

/* Asks the dist that has it, if we submitted it; else the contact, the dist that its id names, all others, and central. */
static int call_job(struct hawk *h, job_id_t job, enum api_method method, const void *request, void *reply)
{
    struct ask a = {.method = method, .request = request, .reply = reply};
    struct hawk_ours *ours = hawk_job_find(h, job);
    char first[sizeof h->error];
    struct channel *owner = NULL;
    int err = ours ? ask(h, ours->at, &a) : call_contact(h, method, request, reply, &a.status);
    if (!err || !hawk_asked_wrong_dist(a.status))
        return err;
    memcpy(first, h->error, sizeof first);
    if (hawk_node_channel(h, ROLE_DIST, job_id_node(job), &owner) == 0 && owner != hawk_contact(h)) {
        err = ask(h, owner, &a);
        if (!err || (!hawk_asked_wrong_dist(a.status) && err != HAWK_EUNAVAILABLE && err != HAWK_ETIMEOUT))
            return err;
        memcpy(first, h->error, sizeof first);
    }
    if (ask_others(h, owner, job, &a) == 0 || ask_central(h, &a) == 0)
        return 0;
    return hawk_fail(h, err, "%s", first); /* nobody else knows better */
}

/* Where it is not central that answers, another one may have taken over: dists know. */
static int call_central(struct hawk *h, enum api_method method, const void *request, void *reply)
{
    grpc_status_code status;
    struct channel *ch = NULL, *before;
    if (h->at_central)
        return call(h, hawk_contact(h), method, request, reply, &status);
    int err = 0;
    do {
        if (ch)
            h->nodes_at_us = -1;
        before = ch;
        int no_list = refresh_nodes(h); /* the dists may be gone, and central not */
        const struct api_node *central = find_node(h, ROLE_CENTRAL, NODE_NONE);
        if (no_list && !central)
            return no_list;
        /* Central may be the contact itself, and not be in its own list. */
        ch = central ? channel_of(h, central) : hawk_contact(h);
        if (ch != before)
            err = call(h, ch, method, request, reply, &status);
    } while (err == HAWK_EUNAVAILABLE && ch != before);
    return err;
}

/* ---- The calls ---- */

static bool is_away(int err) { return err == HAWK_EUNAVAILABLE || err == HAWK_ETIMEOUT; }

/* Submits to the contact, and where that did certainly not accept it, to another dist. A job that somebody waits for is
 * also submitted to another one when nobody knows: a dist that has accepted it and that nobody asks cancels it after its
 * grace time. A detached one would be there twice, and one at most once may have run. */
static int submit_somewhere(struct hawk *h, const struct api_submit_request *request,
                            struct api_submit_reply *reply, struct channel **at)
{
    grpc_status_code status;
    char met[sizeof h->error];
    bool again = !(request->job->flags & (JOB_DETACHED | JOB_AT_MOST_ONCE));
    uint64_t seed = request->key ? request->key : (uint64_t)loop_now(h->loop);
    /* For later as well: when this dist goes away, it is too late to ask it for others. */
    int err = hawk_refresh_nodes(h, h->contacts > 1 ? SUBMIT_TRY_US : h->timeout_us);
    if (err)
        return err;
    *at = hawk_contact(h);
    for (uint32_t i = 0;; i++) {
        struct channel *other = hawk_other_dist(h, hawk_contact(h), seed, i);
        bool hurry = again && other && SUBMIT_TRY_US < h->timeout_us;
        err = call_for(h, *at, API_SUBMIT, request, reply, hurry ? SUBMIT_TRY_US : h->timeout_us, &status);
        if (!is_away(err) || !other || !(again || h->untouched))
            break;
        *at = other;
    }
    if (!is_away(err) || again || h->untouched)
        return err;
    memcpy(met, h->error, sizeof met);
    return hawk_fail(h, err,
                     "%.400s; whether it accepted the job is not known: look for it (`hawk jobs`) before you "
                     "submit it again",
                     met);
}

struct hawk_ours *hawk_job_find(const struct hawk *h, job_id_t id)
{
    struct hawk_ours *j;
    HASH_FIND(hh, h->jobs, &id, sizeof id, j);
    return j;
}

void hawk_job_forget(struct hawk *h, struct hawk_ours *j)
{
    HASH_DEL(h->jobs, j);
    movable_job_free(j->movable);
    free(j);
}

int hawk_submit(struct hawk *h, struct job_desc *job, struct api_submit_reply *reply)
{
    struct channel *at = NULL;
    memset(reply, 0, sizeof *reply);
    if (job->flags & JOB_DETACHED)
        return submit_somewhere(h, &(struct api_submit_request){.job = job}, reply, &at);
    struct movable_job *movable = movable_job_new(job, loop_now(h->loop));
    int err = submit_somewhere(h, &(struct api_submit_request){.job = job, .key = movable->key}, reply, &at);
    if (err || hawk_job_find(h, reply->job)) {
        movable_job_free(movable);
        return err;
    }
    movable_job_submitted(movable, reply);
    struct hawk_ours *j = xcalloc(1, sizeof *j);
    *j = (struct hawk_ours){.movable = movable, .id = reply->job, .at = at};
    HASH_ADD(hh, h->jobs, id, sizeof j->id, j);
    return 0;
}

int hawk_cancel(struct hawk *h, job_id_t job, bool *already_ended)
{
    const struct api_cancel_request request = {.job = job};
    struct api_cancel_reply reply = {0};
    int err = call_job(h, job, API_CANCEL, &request, &reply);
    *already_ended = reply.already_ended;
    return err;
}

int hawk_get_job(struct hawk *h, const struct api_get_job_request *r, struct api_get_job_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_job(h, r->job, API_GET_JOB, r, reply);
}

int hawk_list_nodes(struct hawk *h, struct api_list_nodes_reply *reply)
{
    const struct api_list_nodes_request none = {0};
    grpc_status_code status;
    struct channel *central = NULL;
    memset(reply, 0, sizeof *reply);
    if (h->at_central)
        return call(h, hawk_contact(h), API_LIST_NODES, &none, reply, &status);
    /* Only central knows what the heartbeats said; a dist's list is the second best. */
    if (hawk_node_channel(h, ROLE_CENTRAL, NODE_NONE, &central) == 0 && central != hawk_contact(h) &&
        call(h, central, API_LIST_NODES, &none, reply, &status) == 0)
        return 0;
    return call_contact(h, API_LIST_NODES, &none, reply, &status);
}

bool hawk_is_embedded(const struct hawk *h) { return h->nodes.embedded; }

int hawk_stats(struct hawk *h, struct api_get_stats_reply *reply)
{
    const struct api_get_stats_request none = {0};
    memset(reply, 0, sizeof *reply);
    return call_central(h, API_GET_STATS, &none, reply);
}

int hawk_policy(struct hawk *h, struct api_policy *reply)
{
    const struct api_get_policy_request none = {0};
    memset(reply, 0, sizeof *reply);
    return call_central(h, API_GET_POLICY, &none, reply);
}

int hawk_set_policy(struct hawk *h, const struct api_set_policy_request *r, struct api_policy *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(h, API_SET_POLICY, r, reply);
}

int hawk_use_central(struct hawk *h)
{
    const struct api_list_nodes_request none = {0};
    struct api_list_nodes_reply ignored;
    struct channel *ch = NULL;
    grpc_status_code status;
    int err = hawk_node_channel(h, ROLE_CENTRAL, NODE_NONE, &ch);
    if (!err)
        err = call(h, ch, API_LIST_NODES, &none, &ignored, &status);
    if (err)
        return err;
    api_free(&api_list_nodes_reply_type, &ignored);
    for (uint32_t i = 0; i < h->channels_n; i++)
        if (h->channels[i] == ch) {
            h->channels[i] = h->channels[0];
            h->channels[0] = ch;
        }
    h->contacts = 1;
    h->current = 0;
    h->at_central = true;
    return 0;
}

int hawk_drain(struct hawk *h, const struct api_drain_request *r, struct api_drain_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(h, API_DRAIN, r, reply);
}

int hawk_stop(struct hawk *h, const struct api_stop_request *r, struct api_stop_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(h, API_STOP, r, reply);
}

int hawk_stop_node(struct hawk *h, const char *addr, bool now)
{
    const struct api_stop_request r = {.now = now};
    struct api_stop_reply reply;
    grpc_status_code status;
    char why[200];
    if (addr_check(addr, why, sizeof why))
        return hawk_fail(h, HAWK_EUNAVAILABLE, "%s", why);
    int err = call(h, channel_to(h, addr), API_STOP, &r, &reply, &status);
    if (!err)
        api_free(&api_stop_reply_type, &reply);
    return err;
}

/* ---- Jobs of all dists ---- */

static bool query_keeps(const struct hawk_job_query *q, const struct api_job *j)
{
    uint32_t states = q->states ? q->states : UINT32_MAX;
    return (states & 1u << j->state) != 0 && (!q->name || strcmp(q->name, j->name) == 0) &&
           (!q->user || strcmp(q->user, j->user) == 0);
}

struct job_list {
    struct api_job *v;
    uint32_t n, cap;
};

/* Adds what one dist has, page by page, as far as the query wants, and one more, which says that there are more. */
static int list_one(struct hawk *h, struct channel *ch, const struct hawk_job_query *q, struct job_list *to)
{
    bool filtered = q->states || q->name || q->user;
    struct api_list_jobs_request r = {
        .limit = !filtered && q->limit && q->limit < API_JOBS_DEFAULT ? q->limit + 1 : 0,
        .unfinished_only = q->states && (q->states & JOB_STATES_FINAL) == 0};
    uint32_t kept = 0;
    for (bool more = true; more && (!q->limit || kept <= q->limit);) {
        struct api_list_jobs_reply page;
        grpc_status_code status;
        int err = call(h, ch, API_LIST_JOBS, &r, &page, &status);
        if (err == HAWK_ENOT_FOUND && r.before.v)
            return 0; /* forgotten since the last page, as everything older is */
        if (err)
            return err;
        for (uint32_t i = 0; i < page.jobs_n; i++) {
            r.before = page.jobs[i].job;
            if (!query_keeps(q, &page.jobs[i]))
                continue;
            vec_grow(to->v, to->n, to->cap);
            to->v[to->n++] = page.jobs[i];
            memset(&page.jobs[i], 0, sizeof page.jobs[i]); /* its texts have moved */
            kept++;
        }
        more = page.more && page.jobs_n > 0;
        api_free(&api_list_jobs_reply_type, &page);
    }
    return 0;
}

static int newer_first(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    if (x->age_us != y->age_us)
        return x->age_us < y->age_us ? -1 : 1;
    return x->job.v > y->job.v ? -1 : x->job.v < y->job.v;
}

static int by_id(const void *a, const void *b)
{
    const struct api_job *x = a, *y = b;
    return x->job.v < y->job.v ? -1 : x->job.v > y->job.v;
}

/* A dist that is a contact under one address and listed under another was asked twice. */
static void drop_repeated(struct job_list *l)
{
    uint32_t kept = 0;
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_id);
    for (uint32_t i = 0; i < l->n; i++)
        if (kept && job_eq(l->v[kept - 1].job, l->v[i].job))
            api_free(&api_job_type, &l->v[i]);
        else
            l->v[kept++] = l->v[i];
    l->n = kept;
}

/* Behind what dists have: the long jobs that none of them shows. */
static void list_central(struct hawk *h, const struct hawk_job_query *q, struct job_list *to)
{
    const struct api_node *n = find_node(h, ROLE_CENTRAL, NODE_NONE);
    struct job_list own = {0};
    if (!n || strcmp(n->state, member_state_text(MEMBER_UP)) != 0 || channel_of(h, n) == h->nodes_from)
        return;
    int err = list_one(h, channel_of(h, n), q, &own);
    if (err && err != HAWK_EUNSUPPORTED) /* one of an older version */
        snprintf(h->warning, sizeof h->warning, "long jobs that only central has are missing: %.400s",
                 h->error);
    drop_repeated(to);
    uint32_t dists_n = to->n;
    for (uint32_t i = 0; i < own.n; i++) {
        if (dists_n && bsearch(&own.v[i], to->v, dists_n, sizeof *to->v, by_id)) {
            api_free(&api_job_type, &own.v[i]);
            continue;
        }
        vec_grow(to->v, to->n, to->cap);
        to->v[to->n++] = own.v[i];
    }
    free(own.v);
}

static void list_finish(struct job_list *l, uint32_t limit, struct api_list_jobs_reply *reply)
{
    drop_repeated(l);
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, newer_first);
    reply->jobs = l->v;
    reply->jobs_n = l->n;
    while (limit && reply->jobs_n > limit) {
        api_free(&api_job_type, &reply->jobs[--reply->jobs_n]);
        reply->more = true;
    }
}

int hawk_list_jobs(struct hawk *h, const struct hawk_job_query *q, struct api_list_jobs_reply *reply)
{
    struct job_list all = {0};
    bool contact_asked = false;
    uint32_t asked = 0;
    memset(reply, 0, sizeof *reply);
    h->warning[0] = '\0';
    int err = refresh_nodes(h);
    for (uint32_t i = 0; !err && i < h->nodes.nodes_n; i++) {
        const struct api_node *n = &h->nodes.nodes[i];
        if (strcmp(n->role, role_text(ROLE_DIST)) != 0 ||
            strcmp(n->state, member_state_text(MEMBER_GONE)) == 0)
            continue;
        struct channel *ch = channel_of(h, n);
        contact_asked |= ch == h->nodes_from;
        asked++;
        if (list_one(h, ch, q, &all))
            snprintf(h->warning, sizeof h->warning, "the jobs of dist %s are missing: %.400s", n->name,
                     h->error);
    }
    /* The contact may leave itself out of its list; or it may be central. */
    if (!err && !contact_asked) {
        int contact_err = list_one(h, h->nodes_from, q, &all);
        err = asked ? 0 : contact_err;
    }
    if (!err)
        list_central(h, q, &all);
    list_finish(&all, q->limit, reply);
    return err;
}
