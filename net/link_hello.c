/* The metadata with which both sides of a link begin: who this node is, and who the peer is. */
#include "net/link_impl.h"

#include "base/log.h"
#include "net/addr.h"
#include "net/certificate.h"
#include "net/tls.h"
#include "net/token.h"

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t link_hello_metadata(const struct links *ls, grpc_metadata md[LINK_HELLO_MAX], bool token)
{
    char number[16];
    size_t n = 0;

    snprintf(number, sizeof number, "%u", ls->version);
    md[n++] = net_metadata_new("hawk-version", number);
    md[n++] = net_metadata_new("hawk-role", role_text(ls->role));
    snprintf(number, sizeof number, "%u", ls->node.v);
    md[n++] = net_metadata_new("hawk-node", number);
    md[n++] = net_metadata_new("hawk-name", ls->name);
    if (token && ls->token)
        md[n++] = net_token_new(ls->token);
    return n;
}

static enum role parse_role(const char *text)
{
    for (int r = ROLE_NONE + 1; r < ROLE_COUNT; r++)
        if (strcmp(text, role_text((enum role)r)) == 0)
            return (enum role)r;
    return ROLE_NONE;
}

bool link_meant_for(const struct links *ls, const grpc_metadata_array *md)
{
    char text[16];
    uint64_t node;

    return !net_metadata_text(md, "hawk-to", text, sizeof text) || ls->node.v == 0 ||
           (u64_parse(text, 0, NODE_CENTRAL.v, &node) == 0 && node == ls->node.v);
}

bool link_parse_hello(const struct links *ls, const grpc_metadata_array *md, struct link *k)
{
    char text[64];
    uint64_t version, node;

    if (!net_metadata_text(md, "hawk-version", text, sizeof text) ||
        u64_parse(text, 1, UINT32_MAX, &version) != 0)
        return false;
    net_metadata_text(md, "hawk-role", text, sizeof text);
    k->role = parse_role(text);
    if (k->role == ROLE_NONE)
        return false;
    if (!net_metadata_text(md, "hawk-node", text, sizeof text) ||
        u64_parse(text, 0, NODE_CENTRAL.v, &node) != 0)
        return false;
    k->version = (uint32_t)version < ls->version ? (uint32_t)version : ls->version;
    k->node_id = (node_id_t){(uint32_t)node};
    net_metadata_text(md, "hawk-name", k->name, sizeof k->name);
    return true;
}

/* Central is called "central" on links; its certificate has its machine's name, say. */
static bool is_certified_as(const struct link *k, const struct identity *who)
{
    return who->role == k->role && (k->role == ROLE_CENTRAL || strcmp(who->name, k->name) == 0);
}

/* Names both, so that whoever reads it need not look at the certificate. */
static const char *say_other_name(struct links *ls, const struct link *k, const struct identity *who)
{
    char text[IDENTITY_TEXT];

    snprintf(ls->why, sizeof ls->why,
             "its certificate is for another role or name than it says: for %s, and not for %s %s",
             identity_is_set(who) ? identity_text(who, text) : "no node", role_text(k->role), k->name);
    return ls->why;
}

const char *link_why_not(struct links *ls, const grpc_metadata_array *md, const struct identity *who,
                         struct link *k, int *err)
{
    *err = HAWK_EMALFORMED;
    if (!link_parse_hello(ls, md, k))
        return link_is_dialled(k)
                   ? "what listens there is no Hawk daemon"
                   : "a link's metadata must have hawk-version, hawk-role, hawk-node and hawk-name";
    *err = HAWK_EVERSION;
    if (k->version < PROTOCOL_VERSION_MIN)
        return "it speaks a version of the protocol that is too old for this hawk: upgrade it first";
    *err = HAWK_EDENIED;
    if (who && ls->tls && tls_refusal(ls->tls, who, ls->why, sizeof ls->why))
        return ls->why;
    if (who && !is_certified_as(k, who))
        return say_other_name(ls, k, who);
    *err = 0;
    return NULL;
}

const struct identity *link_certified_peer(struct link *k)
{
    grpc_auth_context *context;
    grpc_auth_property_iterator at;
    const grpc_auth_property *pem;
    X509 *certificate = NULL;

    if (!k->certified)
        return NULL;
    context = grpc_call_auth_context(k->call);
    at = grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    pem = grpc_auth_property_iterator_next(&at);
    if (pem) {
        BIO *in = BIO_new_mem_buf(pem->value, (int)pem->value_length);
        certificate = PEM_read_bio_X509(in, NULL, NULL, NULL);
        BIO_free(in);
    }
    if (!certificate || !certificate_names(certificate, &k->who))
        k->who = (struct identity){0};
    ERR_clear_error();
    X509_free(certificate);
    grpc_auth_context_release(context);
    return &k->who;
}

void links_show_certificate(struct links *ls)
{
    struct msg m = {.type = MSG_CERTIFICATE};

    if (!ls->tls)
        return;
    tls_refresh(ls->tls, loop_now(ls->loop));
    list_foreach(&ls->all, n, next) {
        struct link *k = container_of(n, struct link, node);

        if (k->state != LINK_UP || !k->certified || k->shown == tls_material(ls->tls))
            continue;
        k->shown = tls_material(ls->tls);
        if (!m.certificate.pem)
            m.certificate.pem = blob_str(tls_certificate(ls->tls));
        if (m.certificate.pem->len <= TLS_SHOWN_MAX && link_send(k, &m) != 0)
            log_debug("our certificate could not be shown to %s at %s", k->name, k->addr);
    }
    msg_drop(&m);
}

void link_take_certificate(struct link *k, const struct blob *pem)
{
    char why[TLS_WHY];
    int err;

    if (!k->certified || !pem)
        return;
    err = tls_take_renewed(k->ls->tls, pem->data, &k->who, why);
    if (!err) {
        k->renewed = true;
    } else if (err == HAWK_ESTALE) {
        log_debug("%s at %s: %s; the link ends with the one that it was opened with", k->name, k->addr, why);
    } else {
        link_blame(k, HAWK_EDENIED, why, "has shown another certificate: %s", why);
    }
}

void link_blame(struct link *k, int err, const char *text, const char *fmt, ...)
{
    const char *port = strrchr(k->addr, ':'); /* the next connection has another one */
    char what[LINK_WHY], who[LIMIT_NAME_BYTES + ADDR_TEXT + LINK_WHY], more[LOG_PEER_MORE];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(who, sizeof who, "%s %s %.*s %s", role_text(k->role), k->name,
             port ? (int)(port - k->addr) : (int)strlen(k->addr), k->addr, what);
    if (log_kind_may_of(&k->ls->blamed, "a node whose link is closed", &k->ls->blamed_peers, who,
                        loop_now(k->ls->loop), more))
        log_warn("%s %s (%s) %s; its link is closed%s", role_text(k->role),
                 k->name[0] ? k->name : "without a name", k->addr, what, more);
    link_break(k, err, text);
}

static void tell_renewed(struct link *k, void (*fn)(void *arg, const char *peer, const struct identity *who),
                         void *arg)
{
    char *peer = grpc_call_get_peer(k->call);

    fn(arg, peer, &k->who);
    gpr_free(peer);
}

void links_each_renewed(struct links *ls, void (*fn)(void *arg, const char *peer, const struct identity *who),
                        void *arg)
{
    list_foreach(&ls->all, n, next) {
        struct link *k = container_of(n, struct link, node);

        if (k->renewed && !link_is_dialled(k) && k->state == LINK_UP)
            tell_renewed(k, fn, arg);
        k->renewed = false;
    }
}

void links_check_peers(struct links *ls)
{
    list_foreach(&ls->all, n, next) {
        struct link *k = container_of(n, struct link, node);
        const char *why;

        if (k->state != LINK_UP || !link_is_dialled(k) || !k->certified ||
            !(why = tls_why_not(ls->tls, &k->who)))
            continue;
        log_warn("%s at %s: %s; the link is closed", k->what, k->addr, why);
        link_break(k, HAWK_EDENIED, why);
    }
}
