/* The client of client.h: contacts, routing to the node that answers, and the unary calls. */
#include "libhawk/client_impl.h"

#include "base/check.h"
#include "base/entropy.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/caller.h"
#include "net/certificate.h"
#include "net/login.h"
#include "net/tls.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY_MAX (ADDR_TEXT + LIMIT_NAME_BYTES + 120)
#define CUTS_MAX 3u
#define CUT_PAUSE_US (100 * US_PER_MS) /* before the first attempt after a cut; then twice that, and so on */
#define NODES_FRESH_US US_PER_S        /* a list of nodes younger than this is not asked for again */

int client_fail(struct client *client, int err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(client->error, sizeof client->error, fmt, args);
    va_end(args);
    return err;
}

const char *client_error(const struct client *client) { return client->error; }
const char *client_warning(const struct client *client) { return client->warning; }

/* The role that answers at an address: as the list of nodes says, else a scheduler's. */
static enum role role_at(const struct client *client, const char *addr)
{
    struct identity who = {0};
    for (uint32_t i = 0; i < client->nodes.nodes_n; i++)
        if (strcmp(client->nodes.nodes[i].address, addr) == 0 &&
            identity_set_role(&who, client->nodes.nodes[i].role))
            return who.role;
    return ROLE_NONE;
}

static struct channel *channel_to(struct client *client, const char *addr)
{
    for (uint32_t i = 0; i < client->channels_n; i++)
        if (strcmp(channel_addr(client->channels[i]), addr) == 0)
            return client->channels[i];
    vec_grow(client->channels, client->channels_n, client->channels_cap);
    return client->channels[client->channels_n++] =
               channel_new_tls(client->loop, addr, client->token, client->tls, role_at(client, addr));
}

static int add_contacts(struct client *client, const char *list, const char *origin)
{
    char *copy = xstrdup(list), *rest = copy, why[200];
    int err = 0;
    for (char *addr; !err && (addr = strsep(&rest, ", "));) {
        if (!*addr)
            continue;
        if (addr_check(addr, why, sizeof why))
            err = client_fail(client, HAWK_EINVALID, "%s: %s", origin, why);
        else
            channel_to(client, addr);
    }
    free(copy);
    if (!err && client->channels_n == 0)
        err = client_fail(client, HAWK_EINVALID, "%s names no address", origin);
    client->contacts = client->channels_n;
    return err;
}

int client_open(struct client **out, const struct client_options *o)
{
    struct client *client = xcalloc(1, sizeof *client);
    char found[LOGIN_DIST_MAX];
    const char *origin = NULL;
    *out = client;
    client->nodes_at_us = -1;
    client_seed(&client->rng);
    client->timeout_us = o->timeout_us > 0 ? o->timeout_us : CLIENT_TIMEOUT_US;
    if (o->join_dir && o->dist)
        return client_fail(client, HAWK_EINVALID,
                           "--dist and --join-dir both say where the cluster is: say one");
    const char *contacts = o->join_dir ? found : client_find_contacts(o, &origin, found, sizeof found);
    if (!contacts)
        return client_no_contacts(client, origin);
    client->local_up = client_origin_is_up(origin);
    int err = client_find_token(client, o->token_file);
    if (!err && o->join_dir) {
        origin = "--join-dir";
        err = client_find_join_dir(client, o->join_dir, found);
    } else if (!err) {
        err = client_find_tls(client);
    }
    if (err)
        return err;
    client->loop = loop_new(LOOP_NET);
    return add_contacts(client, contacts, origin);
}

void client_close(struct client *client)
{
    if (!client)
        return;
    struct client_job *j, *next;
    HASH_ITER(hh, client->jobs, j, next)
        client_job_forget(client, j);
    for (uint32_t i = 0; i < client->channels_n; i++)
        channel_free(client->channels[i]);
    free(client->channels);
    tls_free(client->tls);
    loop_free(client->loop);
    api_free(&api_list_nodes_reply_type, &client->nodes);
    free(client->token);
    free(client);
}

/* ---- One call ---- */

static bool has_one_of(const char *text, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(text, *parts))
            return true;
    return false;
}

/* Whether gRPC's text says that the connection was lost during a call. It comes with one of several
 * statuses. */
static bool is_broken(grpc_status_code status, const char *text)
{
    static const char *const words[] = {"Socket closed",  "Connection reset", "Broken pipe",
                                        "GOAWAY",         "keepalive",        "Endpoint read",
                                        "Stream removed", "RST_STREAM",       NULL};
    return (status == GRPC_STATUS_UNAVAILABLE || status == GRPC_STATUS_UNKNOWN ||
            status == GRPC_STATUS_INTERNAL) &&
           has_one_of(text, words);
}

/* For a socket that this user may not connect to: whose it is, or the lowest directory above it that he can see, and
 * what to do. Returns buf. */
static const char *remedy_of_closed(const char *path, char *buf, size_t size)
{
    char seen[ADDR_TEXT];
    struct stat st;
    char owner[LIMIT_NAME_BYTES + 1];
    snprintf(seen, sizeof seen, "%s", path);
    while (stat(seen, &st) < 0) {
        char *slash = strrchr(seen, '/');
        if (!slash || slash == seen)
            return "is `hawk up` running?";
        *slash = '\0';
    }
    if (st.st_uid == geteuid())
        snprintf(buf, size, "%s is yours, but its mode is %04o: `chmod` changes it", seen,
                 st.st_mode & 07777);
    else
        snprintf(buf, size,
                 "%s is %s's: name your dist (HAWK_DIST), start `hawk up`, or ask for its --local-users",
                 seen, caller_name(st.st_uid, owner) ? owner : "another user");
    return buf;
}

/* What to look at when no connection could be made. */
static const char *remedy(const struct client *client, const char *addr, const char *reason, char *buf,
                          size_t size)
{
    if (addr_is_unix(addr) && strstr(reason, strerror(EACCES)))
        return remedy_of_closed(addr + strlen("unix:"), buf, size);
    if (addr_is_unix(addr))
        return "is `hawk up` running?";
    if (strstr(reason, strerror(ECONNREFUSED)))
        return "is it running?";
    if (client->tls && tls_why_not(client->tls, tls_identity(client->tls)))
        return "your certificate has expired: whoever keeps the user root renews it (`hawk user add`)";
    if (client->tls && tls_identity(client->tls)->made_s - CERTIFICATE_BACKDATED_S > (int64_t)time(NULL))
        return "your certificate is not good yet: the clock of this machine is behind";
    if (client->tls && strstr(reason, "certificate verify failed"))
        return "the node's certificate has expired, or none of your roots has signed it: "
               "its operator gives it another (`hawk ca invite`)";
    if (client->tls)
        return "is it running with TLS, has it room for connections (cluster.connections_max), and does it "
               "take your certificate (HAWK_TLS_CERTIFICATE, else that of `hawk login`)? Its log says. "
               "HAWK_LOGIN=none: use none";
    if (rpc_hung_up(reason))
        return "is it running, does it want TLS (`hawk login`, or HAWK_TLS_CERTIFICATE, HAWK_TLS_KEY and "
               "HAWK_TLS_ROOTS), or has it no room for connections (cluster.connections_max)?";
    return "is it running?";
}

int client_call_failed(struct client *client, const struct channel *ch, grpc_status_code status,
                       const char *text)
{
    static const char *const refusals[] = {API_NOT_ACCEPTED_TEXT, API_DRAINING_TEXT, NULL};
    char duration[32], buf[REMEDY_MAX];
    int err = rpc_status_to_err(status);
    const char *addr = channel_addr(ch);
    const char *reason = status == GRPC_STATUS_UNAVAILABLE ? rpc_connect_reason(text) : NULL;
    client->cut = reason ? rpc_hung_up(reason) : is_broken(status, text);
    client->untouched = reason || status == GRPC_STATUS_CANCELLED ||
                        ((err == HAWK_EUNAVAILABLE || err == HAWK_EIO) && has_one_of(text, refusals));
    client->doubt |= !client->untouched && (client->cut || client_is_away(err));
    if (reason)
        return client_fail(client, err, "cannot reach %s: %s; %s", addr, reason,
                           remedy(client, addr, reason, buf, sizeof buf));
    if (status == GRPC_STATUS_UNAUTHENTICATED)
        return client_fail(client, err, "%s: %s: --token-file or HAWK_TOKEN_FILE names the file with it",
                           addr, text);
    if (status == GRPC_STATUS_CANCELLED) /* net/server.h */
        return client_fail(client, HAWK_EUNAVAILABLE,
                           "%s is shutting down: ask another node, or this one later", addr);
    if (is_broken(status, text))
        return client_fail(client, HAWK_EUNAVAILABLE,
                           "the connection to %s broke (%s): is it running? ask again, or another node", addr,
                           text);
    if (status == GRPC_STATUS_DEADLINE_EXCEEDED)
        return client_fail(client, err, "%s did not answer within %s", addr,
                           duration_format(duration, sizeof duration, client->timeout_us));
    return client_fail(client, err, "%s: %s", addr, *text ? text : hawk_strerror(err));
}

static int call_once(struct client *client, struct channel *ch, enum api_method method, const void *request,
                     void *reply, int64_t timeout_us, grpc_status_code *status)
{
    const struct api_method_info *m = &api_methods[method];
    uint8_t *sent = NULL, *got = NULL;
    size_t sent_len = 0, got_len = 0;
    char *text = NULL, why[200];
    api_encode(m->request, request, &sent, &sent_len);
    *status = GRPC_STATUS_UNKNOWN;
    client->cut = client->untouched = false;
    int err = rpc_call_sync(client->loop, ch, m->path, sent, sent_len, timeout_us, false, &got, &got_len,
                            status, &text);
    if (err) {
        err = client_call_failed(client, ch, *status, text ? text : "");
        CHECK(err != 0);
    } else if ((err = api_decode(m->reply, got, got_len, reply, why, sizeof why)))
        client_fail(client, err, "%s answered what this version does not understand: %s", channel_addr(ch),
                    why);
    free(sent);
    free(got);
    free(text);
    return err;
}

/* A daemon in a crowd cuts connections that it does not know yet. So who only asks, asks again, soon; the first call of
 * each command does. */
static int call_for(struct client *client, struct channel *ch, enum api_method method, const void *request,
                    void *reply, int64_t timeout_us, grpc_status_code *status)
{
    int64_t pause_us = CUT_PAUSE_US;

    for (uint32_t cuts = 0;; cuts++) {
        int err = call_once(client, ch, method, request, reply, timeout_us, status);

        if (!client->cut || cuts == CUTS_MAX || call_scope(api_methods[method].path) != SCOPE_READ)
            return err;
        client_pause(client, pause_us);
        pause_us *= 2;
    }
}

int client_call(struct client *client, struct channel *ch, enum api_method method, const void *request,
                void *reply, grpc_status_code *status)
{
    return call_for(client, ch, method, request, reply, client->timeout_us, status);
}

struct channel *client_contact(struct client *client) { return client->channels[client->current]; }

bool client_next_contact(struct client *client)
{
    client->current = (client->current + 1) % client->contacts;
    return client->contacts > 1;
}

/* Asks the first contact that can be reached. */
static int call_contact_for(struct client *client, enum api_method method, const void *request, void *reply,
                            int64_t timeout_us, grpc_status_code *status)
{
    int err = 0;
    for (uint32_t tried = 0; tried < client->contacts; tried++) {
        err = call_for(client, client_contact(client), method, request, reply, timeout_us, status);
        if (!client_is_away(err))
            return err;
        client_next_contact(client);
    }
    return err;
}

static int call_contact(struct client *client, enum api_method method, const void *request, void *reply,
                        grpc_status_code *status)
{
    return call_contact_for(client, method, request, reply, client->timeout_us, status);
}

/* ---- Who answers for what ---- */

bool client_asked_wrong_dist(grpc_status_code status)
{
    return status == GRPC_STATUS_NOT_FOUND || status == rpc_err_to_status(HAWK_ENOT_OWNER);
}

int client_refresh_nodes(struct client *client, int64_t timeout_us)
{
    const struct api_list_nodes_request none = {0};
    struct api_list_nodes_reply nodes;
    grpc_status_code status;
    int64_t now = loop_now(client->loop);
    if (client->nodes_at_us >= 0 && now - client->nodes_at_us < NODES_FRESH_US)
        return 0;
    int err = call_contact_for(client, API_LIST_NODES, &none, &nodes, timeout_us, &status);
    if (err)
        return err; /* the old list is better than none */
    api_free(&api_list_nodes_reply_type, &client->nodes);
    client->nodes = nodes;
    client->nodes_at_us = now;
    client->nodes_from = client_contact(client);
    return 0;
}

/* umask() would change it, for a moment, in all of this process's threads. */
uint32_t client_umask(void)
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

struct ancestors client_ancestors(void)
{
    struct ancestors a = {0};

    ancestors_add_text(&a, getenv("HAWK_JOB_ID"));
    ancestors_add_text(&a, getenv("HAWK_JOB_ANCESTORS"));
    return a;
}

static int refresh_nodes(struct client *client) { return client_refresh_nodes(client, client->timeout_us); }

const struct api_node *client_find_node(const struct client *client, enum role role, node_id_t node)
{
    for (uint32_t i = 0; i < client->nodes.nodes_n; i++) {
        const struct api_node *n = &client->nodes.nodes[i];
        if (strcmp(n->role, role_text(role)) == 0 && (role == ROLE_CENTRAL || n->node == node.v))
            return n;
    }
    return NULL;
}

/* A node is reached through the contact if it is the contact itself, or if it lives inside `hawk up` and
 * has no address. */
struct channel *client_channel_of(struct client *client, const struct api_node *n)
{
    char why[200];
    if ((client->nodes.self && n->node == client->nodes.self) || addr_check(n->address, why, sizeof why))
        return client->nodes_from;
    return channel_to(client, n->address);
}

/* The channels of the dists that the list shows as up, each once. */
static uint32_t listed_dists(struct client *client, const struct channel *but, struct channel **v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < client->nodes.nodes_n; i++) {
        const struct api_node *node = &client->nodes.nodes[i];
        if (strcmp(node->role, role_text(ROLE_DIST)) != 0 ||
            strcmp(node->state, member_state_text(MEMBER_UP)) != 0)
            continue;
        struct channel *ch = client_channel_of(client, node);
        if (ch != but)
            v[n++] = ch;
    }
    return n;
}

struct channel *client_other_dist(struct client *client, const struct channel *but, uint64_t seed, uint32_t i)
{
    struct channel **v = xcalloc(client->nodes.nodes_n + client->contacts + 1, sizeof(struct channel *));
    uint32_t listed = listed_dists(client, but, v), n = listed;
    for (uint32_t c = 0; c < client->contacts; c++) {
        bool known = client->channels[c] == but;
        for (uint32_t k = 0; k < listed; k++)
            known |= v[k] == client->channels[c];
        if (!known)
            v[n++] = client->channels[c];
    }
    struct channel *ch = i >= n ? NULL : i < listed ? v[(i + seed % listed) % listed] : v[i];
    free(v);
    return ch;
}

int client_node_channel(struct client *client, enum role role, node_id_t node, struct channel **ch)
{
    const struct api_node *n = client_find_node(client, role, node);
    if (!n || strcmp(n->state, member_state_text(MEMBER_UP)) != 0) {
        int err = refresh_nodes(client);
        if (err)
            return err;
        n = client_find_node(client, role, node);
    }
    if (!n)
        return client_fail(client, HAWK_ENOT_FOUND,
                           "no %s %u is in the cluster now: it is down, or never was (`hawk nodes`)",
                           role_text(role), node.v);
    *ch = client_channel_of(client, n);
    return 0;
}

struct ask {
    enum api_method method;
    const void *request;
    void *reply;
    grpc_status_code status;
};

static int ask_channel(struct client *client, struct channel *ch, struct ask *a)
{
    return client_call(client, ch, a->method, a->request, a->reply, &a->status);
}

/* A job that its client moved is at neither of the dists that should have it. Any other may have it. A
 * dist that does not answer within SUBMIT_TRY_US is passed over. */
static int ask_others(struct client *client, const struct channel *owner, job_id_t job, struct ask *a)
{
    struct channel *ch;
    for (uint32_t i = 0; (ch = client_other_dist(client, owner, job.v, i)); i++)
        if (ch != client_contact(client) &&
            call_for(client, ch, a->method, a->request, a->reply, SUBMIT_TRY_US, &a->status) == 0)
            return 0;
    return HAWK_ENOT_FOUND;
}

/* Asks central, which has long jobs whose dist is gone, or has forgotten them. A central of an older
 * version serves no such calls. */
static int ask_central(struct client *client, struct ask *a)
{
    struct channel *central = NULL;
    if (client_node_channel(client, ROLE_CENTRAL, NODE_NONE, &central) || central == client_contact(client))
        return HAWK_ENOT_FOUND; /* no central is known, or it was asked already */
    return call_for(client, central, a->method, a->request, a->reply, SUBMIT_TRY_US, &a->status);
}

/* Asks the dist that has the job, if we submitted it. Otherwise it asks the contact, the dist that the id
 * names, all others that are known, and central. */
int client_call_job(struct client *client, job_id_t job, enum api_method method, const void *request,
                    void *reply)
{
    struct ask a = {.method = method, .request = request, .reply = reply};
    struct client_job *ours = client_job_find(client, job);
    char first[sizeof client->error];
    struct channel *owner = NULL;
    int err =
        ours ? ask_channel(client, ours->at, &a) : call_contact(client, method, request, reply, &a.status);
    bool lost = client_is_away(err) && !ours; /* no contact is there; other dists may be known from before */
    if (!err || (!client_asked_wrong_dist(a.status) && !lost))
        return err;
    memcpy(first, client->error, sizeof first);
    if (!lost && client_node_channel(client, ROLE_DIST, job_id_node(job), &owner) == 0 &&
        owner != client_contact(client)) {
        err = ask_channel(client, owner, &a);
        if (!err || (!client_asked_wrong_dist(a.status) && !client_is_away(err)))
            return err;
        memcpy(first, client->error, sizeof first);
    }
    if (ask_others(client, owner, job, &a) == 0 || (!lost && ask_central(client, &a) == 0))
        return 0;
    return client_fail(client, err, "%s", first); /* no other node knows better */
}

/* If the node that answers is not central, another one may have taken over. Dists know which. */
static int call_central(struct client *client, enum api_method method, const void *request, void *reply)
{
    grpc_status_code status;
    struct channel *ch = NULL, *before;
    if (client->at_central)
        return client_call(client, client_contact(client), method, request, reply, &status);
    int err = 0;
    do {
        if (ch)
            client->nodes_at_us = -1;
        before = ch;
        int no_list = refresh_nodes(client); /* the dists may be gone, but not central */
        const struct api_node *central = client_find_node(client, ROLE_CENTRAL, NODE_NONE);
        if (no_list && !central)
            return no_list;
        /* Central may be the contact, and not be in its own list. */
        ch = central ? client_channel_of(client, central) : client_contact(client);
        if (ch != before)
            err = client_call(client, ch, method, request, reply, &status);
    } while (err == HAWK_EUNAVAILABLE && ch != before);
    return err;
}

/* ---- The calls ---- */

/* Submits to the contact, or to another dist if the contact certainly did not accept the job. If that is
 * not certain, a job that its client waits for goes to another dist, too: the first dist cancels a job for
 * which nobody asks, after its grace time. A detached job would exist twice: its dist is asked again. An
 * at-most-once job may have run. */
static int submit_somewhere(struct client *client, const struct api_submit_request *request,
                            struct api_submit_reply *reply, struct channel **at)
{
    grpc_status_code status;
    bool again = !(request->job->flags & (JOB_DETACHED | JOB_AT_MOST_ONCE));
    int64_t until_us = loop_now(client->loop) + client->timeout_us;
    /* Also needed later: when this dist goes away, it is too late to ask it for others. */
    int err = client_refresh_nodes(client, client->contacts > 1 ? SUBMIT_TRY_US : client->timeout_us);
    if (err)
        return err;
    *at = client_contact(client);
    for (uint32_t i = 0;; i++) {
        struct channel *other = client_other_dist(client, client_contact(client), request->key, i);
        bool hurry = again && other && SUBMIT_TRY_US < client->timeout_us;
        if (client_sign(client, &request->job, 1))
            return HAWK_EINVALID;
        err = call_for(client, *at, API_SUBMIT, request, reply, hurry ? SUBMIT_TRY_US : client->timeout_us,
                       &status);
        bool elsewhere =
            client_is_away(err) ? again || client->untouched : err == HAWK_EIO && client->untouched;
        if (!elsewhere || !other)
            break;
        *at = other;
    }
    if (!client_is_away(err) || again || client->untouched)
        return err;
    return client_submit_again(client, err, *at, request, reply, until_us);
}

struct client_job *client_job_find(const struct client *client, job_id_t id)
{
    struct client_job *j;
    HASH_FIND(hh, client->jobs, &id, sizeof id, j);
    return j;
}

void client_job_forget(struct client *client, struct client_job *j)
{
    HASH_DEL(client->jobs, j);
    movable_job_free(j->movable);
    free(j);
}

int client_submit(struct client *client, struct job_desc *job, struct api_submit_reply *reply)
{
    struct channel *at = NULL;
    struct api_submit_request request = {.job = job, .key = entropy_nonzero()};
    memset(reply, 0, sizeof *reply);
    if (job->after.n > 0) /* it cannot be moved */
        return client_submit_after(client, &request, reply, &at);
    if (job->flags & JOB_DETACHED)
        return submit_somewhere(client, &request, reply, &at);
    struct movable_job *movable = movable_job_new(job, loop_now(client->loop));
    request.key = movable->key;
    int err = submit_somewhere(client, &request, reply, &at);
    if (err || client_job_find(client, reply->job)) {
        movable_job_free(movable);
        return err;
    }
    movable_job_submitted(movable, reply);
    struct client_job *j = xcalloc(1, sizeof *j);
    *j = (struct client_job){.movable = movable, .id = reply->job, .at = at};
    HASH_ADD(hh, client->jobs, id, sizeof j->id, j);
    return 0;
}

int client_cancel(struct client *client, job_id_t job, bool *already_ended)
{
    const struct api_cancel_request request = {.job = job};
    struct api_cancel_reply reply = {0};
    int err = client_call_job(client, job, API_CANCEL, &request, &reply);
    *already_ended = reply.already_ended;
    return err;
}

int client_get_job(struct client *client, const struct api_get_job_request *r,
                   struct api_get_job_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return client_call_job(client, r->job, API_GET_JOB, r, reply);
}

int client_list_all_nodes(struct client *client, struct api_list_nodes_reply *reply)
{
    const struct api_list_nodes_request all = {.lost = true};
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_LIST_NODES, &all, reply);
}

int client_list_nodes(struct client *client, struct api_list_nodes_reply *reply)
{
    const struct api_list_nodes_request none = {0};
    grpc_status_code status;
    struct channel *central = NULL;
    memset(reply, 0, sizeof *reply);
    if (client->at_central)
        return client_call(client, client_contact(client), API_LIST_NODES, &none, reply, &status);
    /* Only central has the heartbeats. A dist's list is the second best. */
    if (client_node_channel(client, ROLE_CENTRAL, NODE_NONE, &central) == 0 &&
        central != client_contact(client) &&
        client_call(client, central, API_LIST_NODES, &none, reply, &status) == 0)
        return 0;
    return call_contact(client, API_LIST_NODES, &none, reply, &status);
}

bool client_is_embedded(const struct client *client) { return client->nodes.embedded; }

bool client_up_has_stopped(struct client *client)
{
    const char *addr = channel_addr(client_contact(client));

    if (!(client->nodes.embedded || client->local_up) || !addr_is_unix(addr) ||
        access(addr + strlen("unix:"), F_OK) == 0 || errno != ENOENT)
        return false;
    (void)client_fail(client, HAWK_EUNAVAILABLE, "`hawk up` at %s has stopped: its jobs have ended with it",
                      addr);
    return true;
}

int client_stats(struct client *client, struct api_get_stats_reply *reply)
{
    const struct api_get_stats_request none = {0};
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_GET_STATS, &none, reply);
}

int client_policy(struct client *client, struct api_policy *reply)
{
    const struct api_get_policy_request none = {0};
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_GET_POLICY, &none, reply);
}

int client_set_policy(struct client *client, const struct api_set_policy_request *r, struct api_policy *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_SET_POLICY, r, reply);
}

int client_use_central(struct client *client)
{
    const struct api_list_nodes_request none = {0};
    struct api_list_nodes_reply ignored;
    struct channel *ch = NULL;
    grpc_status_code status;
    int err = client_node_channel(client, ROLE_CENTRAL, NODE_NONE, &ch);
    if (!err)
        err = client_call(client, ch, API_LIST_NODES, &none, &ignored, &status);
    if (err)
        return err;
    api_free(&api_list_nodes_reply_type, &ignored);
    for (uint32_t i = 0; i < client->channels_n; i++)
        if (client->channels[i] == ch) {
            client->channels[i] = client->channels[0];
            client->channels[0] = ch;
        }
    client->contacts = 1;
    client->current = 0;
    client->at_central = true;
    return 0;
}

int client_drain(struct client *client, const struct api_drain_request *r, struct api_drain_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_DRAIN, r, reply);
}

int client_stop(struct client *client, const struct api_stop_request *r, struct api_stop_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    return call_central(client, API_STOP, r, reply);
}

int client_stop_node(struct client *client, const char *addr, bool now)
{
    const struct api_stop_request r = {.now = now};
    struct api_stop_reply reply;
    grpc_status_code status;
    char why[200];
    if (addr_check(addr, why, sizeof why))
        return client_fail(client, HAWK_EUNAVAILABLE, "%s", why);
    int err = client_call(client, channel_to(client, addr), API_STOP, &r, &reply, &status);
    if (!err)
        api_free(&api_stop_reply_type, &reply);
    return err;
}
