/* Who a certificate is for. Its subject alternative names (DNS) say so:
 *
 *   NAME.ROLE.hawk   exactly one: node7.worker.hawk, c1.central.hawk, d2.dist.hawk, ann.user.hawk
 *   ROLE.hawk        of nodes: whoever dials a role, and does not know the name, asks for this one
 *   scheduler.hawk   of centrals and dists: clients ask for this one at the addresses that they are told
 *
 * A user's certificate may have scopes besides, as URIs: hawk:scope:read, hawk:scope:operate. Without any, the user has
 * SCOPES_OF_USERS. It may have the URI hawk:uid:1001 besides: his uid on the machines of the cluster.
 * A worker's may have the URI hawk:slots:64 besides: it may have no more slots.
 *
 * So any TLS library checks a role by what it knows as the host's name. No I/O. Private to net/ and ca/. */
#ifndef HAWK_NET_IDENTITY_H
#define HAWK_NET_IDENTITY_H

#include "msg/msg.h"
#include "msg/scope.h"

#include <stdbool.h>
#include <stddef.h>

#define IDENTITY_USER "user" /* the role of users, who are no nodes */
#define IDENTITY_DOMAIN "hawk"
#define IDENTITY_SCHEDULER "scheduler.hawk"
#define IDENTITY_SCOPE "hawk:scope:"
#define IDENTITY_SLOTS                                                                                       \
    "hawk:slots:" /* a worker's certificate may have this URI: the most slots it may have */
#define IDENTITY_UID "hawk:uid:"
#define IDENTITY_KEY 32
#define IDENTITY_NO_UID UINT32_MAX
/* The uid that stands for all those which a user namespace does not have: it is nobody's. */
#define IDENTITY_OVERFLOW_UID 65534u
/* Room for any of an identity's names. */
#define IDENTITY_TEXT (LIMIT_NAME_BYTES + 20)
#define IDENTITY_NAMES_MAX 3

/* All zero: nobody. */
struct identity {
    enum role role; /* ROLE_NONE: a user */
    char name[LIMIT_NAME_BYTES + 1];
    int64_t made_s, until_s; /* the certificate's, seconds since 1970; 0: not known */
    unsigned scopes;         /* users: enum scope; nodes have none */
    bool has_uid;            /* users: the certificate says which */
    uint32_t uid;
    uint8_t key[IDENTITY_KEY]; /* SHA-256 of the certificate's public key */
    uint32_t slots;            /* a worker's: it may have no more; 0: any number */
};

/* Somebody who has shown no certificate. */
static inline struct identity identity_guest(void)
{
    return (struct identity){.role = ROLE_GUEST, .name = "somebody without a certificate"};
}
static inline bool identity_is_set(const struct identity *who) { return who->name[0] != '\0'; }
static inline uint32_t identity_uid(const struct identity *who)
{
    return who->has_uid ? who->uid : IDENTITY_NO_UID;
}
/* Whether a user may have this uid. */
static inline bool identity_uid_fits(uint32_t uid)
{
    return uid != IDENTITY_NO_UID && uid != IDENTITY_OVERFLOW_UID;
}
/* "worker", "user" */
const char *identity_role(const struct identity *who);
/* Sets the role by its text, and the scopes that it has unless others are said. False: there is no such role. */
bool identity_set_role(struct identity *who, const char *role);
/* Whether a certificate may carry this name: letters, digits, "-", "_" and ".", as host names have them. */
bool identity_name_fits(const char *name);
/* Reads "node7.worker.hawk". False: these bytes name nobody. */
bool identity_parse(const char *dns, size_t len, struct identity *who);
/* Writes "node7.worker.hawk" to buf and returns it. */
const char *identity_text(const struct identity *who, char buf[IDENTITY_TEXT]);
/* All names of its certificate; returns their number. */
unsigned identity_names(const struct identity *who, char names[IDENTITY_NAMES_MAX][IDENTITY_TEXT]);
/* The name that a dialer of a role asks for; ROLE_NONE: of a scheduler. Static. */
const char *identity_of_role(enum role role);

#endif
