/* See joining.h. */
#include "daemon/joining.h"

#include "base/log.h"
#include "base/mem.h"
#include "ca/invitation.h"
#include "net/api.h"
#include "net/rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS_OF_CONNECTION 2u

/* A certificate that leaves once the use of its invitation is on record. */
struct applicant {
    struct applicant *next;
    struct rpc_call *call;
    struct identity who;
    char *pem;
    uint64_t invitation;
    uint32_t client;
};

struct joining {
    struct joining_config config;
    struct applicant *waiting; /* newest first */
    uint32_t clients;
    bool active;
};

/* ---- Answers ---- */

static void fail_call(struct rpc_call *c, int err, const char *why)
{
    rpc_fail(c, rpc_err_to_status(err), "%s", why);
}

static void reply_certificate(struct rpc_call *c, const char *pem)
{
    uint8_t *data;
    size_t len;

    api_encode(&api_join_reply_type, &(struct api_join_reply){.certificate = pem}, &data, &len);
    rpc_reply(c, data, len);
    free(data);
}

/* Whether the call can be served; otherwise it has failed. */
static bool is_served(const struct joining *j, struct rpc_call *c)
{
    if (!j->config.root)
        fail_call(c, HAWK_EBUSY,
                  "this central issues no certificates: start it with --ca, the directory of `hawk ca init` "
                  "(central.ca), or "
                  "make them with `hawk ca issue`");
    else if (!j->active)
        fail_call(c, HAWK_EUNAVAILABLE, "this central is not the active one");
    else
        return true;
    return false;
}

/* ---- Join ---- */

static void applicant_free(struct applicant *a)
{
    free(a->pem);
    free(a);
}

/* The invitation, and whether it may be used for that name. */
static int read_invitation(const struct joining *j, const struct api_join_request *r, struct invitation *v,
                           char *why, size_t size)
{
    int err = invitation_read(v, r->invitation, ca_root_certificate(j->config.root), why, size);

    if (err)
        return HAWK_EDENIED;
    if (v->until_s <= time(NULL))
        snprintf(why, size, "the invitation has expired: make another with `hawk ca invite`");
    else if (!identity_name_fits(r->name))
        snprintf(why, size, "a node's name has letters, digits, '-', '_' and '.', at most %u of them",
                 LIMIT_NAME_BYTES);
    else if (!invitation_fits(v, r->name))
        snprintf(why, size, "the invitation is for %s, and not for %.255s", v->name, r->name);
    else
        return 0;
    return HAWK_EDENIED;
}

static void admit_applicant(struct joining *j, struct rpc_call *c, const struct api_join_request *r,
                            const struct invitation *v)
{
    struct applicant *a = xcalloc(1, sizeof *a);
    struct msg m = {.type = MSG_ADMIT};
    uint64_t key;

    a->who = (struct identity){.role = v->role, .slots = v->slots};
    snprintf(a->who.name, sizeof a->who.name, "%s", r->name);
    if (ca_sign_request(j->config.root, &a->who, r->request, r->request_n, j->config.life_us, &a->pem,
                        &key)) {
        fail_call(c, HAWK_EINVALID, "the request is no good one (PKCS #10, of a P-256 key)");
        rpc_distrust(c, "its certificate request is not good");
        applicant_free(a);
        return;
    }
    a->call = c;
    a->client = ++j->clients;
    a->invitation = v->id;
    a->next = j->waiting;
    j->waiting = a;
    m.admit.name = blob_str(r->name);
    m.admit.invitation = v->id;
    m.admit.use = invitation_use(v, r->name, key);
    m.admit.client = a->client;
    m.admit.uses = v->uses;
    m.admit.role = (uint8_t)v->role;
    m.admit.several = invitation_has_pattern(v);
    j->config.feed(j->config.arg, &m);
    msg_drop(&m);
}

static void on_join(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct joining *j = arg;
    struct api_join_request r;
    struct invitation v = {0};
    char why[800];

    if (!is_served(j, c))
        return;
    if (len > INVITATION_MAX + CA_REQUEST_MAX + LIMIT_NAME_BYTES + 64 ||
        api_decode(&api_join_request_type, data, len, &r, why, sizeof why)) {
        rpc_distrust(c, "its request to join cannot be read");
        fail_call(c, HAWK_EINVALID, "the request cannot be read");
        return;
    }
    if (read_invitation(j, &r, &v, why, sizeof why)) {
        char text[1000];
        snprintf(text, sizeof text, "it wants to join as %.64s: %s", r.name, why);
        rpc_distrust(c, text);
        fail_call(c, HAWK_EDENIED, why);
    } else {
        admit_applicant(j, c, &r, &v);
    }
    invitation_free(&v);
    api_free(&api_join_request_type, &r);
}

static struct applicant *take_applicant(struct joining *j, uint32_t client)
{
    for (struct applicant **at = &j->waiting; *at; at = &(*at)->next)
        if ((*at)->client == client) {
            struct applicant *a = *at;
            *at = a->next;
            return a;
        }
    return NULL;
}

static const char *refusal_text(int err)
{
    switch (err) {
    case HAWK_ELIMIT:
        return "the invitation has been used as often as it may be: make another with `hawk ca invite`";
    case HAWK_ENAME_TAKEN:
        return "a node has this name already, and the invitation is for several names: invite it by its own "
               "name";
    case HAWK_EBUSY:
        return "central keeps as many uses of invitations as it can: try again in a month, or use `hawk ca "
               "issue`";
    default:
        return "central's journal cannot be written: look at its disk, and try again";
    }
}

void joining_admitted(struct joining *j, const struct msg_admitted *m)
{
    struct applicant *a = take_applicant(j, m->client);
    char name[IDENTITY_TEXT];

    if (!a)
        return;
    identity_text(&a->who, name);
    if (m->err) {
        log_warn("%s wanted to join as %s by invitation %016llx: %s", rpc_peer(a->call), name,
                 (unsigned long long)a->invitation, refusal_text(m->err));
        if (m->err == HAWK_ELIMIT || m->err == HAWK_ENAME_TAKEN)
            rpc_distrust(a->call, "its invitation cannot be used again");
        fail_call(a->call, m->err, refusal_text(m->err));
    } else {
        log_info("%s has a certificate, by invitation %016llx, asked for from %s", name,
                 (unsigned long long)a->invitation, rpc_peer(a->call));
        reply_certificate(a->call, a->pem);
    }
    applicant_free(a);
}

/* ---- Renew ---- */

static void on_renew(void *arg, struct rpc_call *c, const uint8_t *data, size_t len)
{
    struct joining *j = arg;
    const struct identity *who = rpc_identity(c);
    struct api_renew_request r;
    char why[256], name[IDENTITY_TEXT], *pem = NULL;

    if (!is_served(j, c))
        return;
    if (!who || !identity_is_set(who) || (who->role != ROLE_WORKER && who->role != ROLE_DIST)) {
        fail_call(c, HAWK_EDENIED, "only a node renews its certificate, and shows the one it has");
        return;
    }
    if (len > CA_REQUEST_MAX + 64 || api_decode(&api_renew_request_type, data, len, &r, why, sizeof why)) {
        fail_call(c, HAWK_EINVALID, "the request cannot be read");
        return;
    }
    if (!ca_request_is_of(r.request, r.request_n, who)) {
        rpc_distrust(c, "it wants its certificate renewed for another key");
        fail_call(
            c, HAWK_EDENIED,
            "a certificate is renewed for the key that it has; for another key the node needs an invitation");
    } else if (ca_sign_request(j->config.root, who, r.request, r.request_n, j->config.life_us, &pem,
                               &(uint64_t){0})) {
        fail_call(c, HAWK_EINVALID, "the request is no good one (PKCS #10, of a P-256 key)");
    } else {
        log_info("%s has renewed its certificate, from %s", identity_text(who, name), rpc_peer(c));
        reply_certificate(c, pem);
    }
    free(pem);
    api_free(&api_renew_request_type, &r);
}

/* ---- Life ---- */

struct joining *joining_new(struct server *s, const struct joining_config *c)
{
    struct joining *j = xcalloc(1, sizeof *j);

    j->config = *c;
    server_handle(s, API_JOIN_METHOD, on_join, j);
    server_handle(s, API_RENEW_METHOD, on_renew, j);
    server_limit(s, API_JOIN_METHOD, CALLS_OF_CONNECTION);
    server_limit(s, API_RENEW_METHOD, CALLS_OF_CONNECTION);
    return j;
}

static void fail_all(struct joining *j, const char *why)
{
    struct applicant *a;

    while ((a = j->waiting)) {
        j->waiting = a->next;
        fail_call(a->call, HAWK_EUNAVAILABLE, why);
        applicant_free(a);
    }
}

void joining_set_active(struct joining *j, bool active)
{
    j->active = active;
    if (!active)
        fail_all(j, "this central is not the active one any more: ask again");
}

void joining_free(struct joining *j)
{
    if (!j)
        return;
    fail_all(j, "central is shutting down: ask again");
    free(j);
}
