/* Central's side of how nodes get certificates: the calls Join and Renew (protos/hawk.proto). */
#ifndef HAWK_DAEMON_JOINING_H
#define HAWK_DAEMON_JOINING_H

#include "ca/ca.h"
#include "msg/msg.h"
#include "net/loop.h"
#include "net/server.h"

struct joining;

struct joining_config {
    const struct ca_root
        *root;       /* NULL: both calls are refused, and the answer says why. Outlives the joining */
    int64_t life_us; /* of certificates */
    /* Gives central ADMIT; the answer is joining_admitted. */
    void (*feed)(void *arg, const struct msg *m);
    void *arg;
};

/* Before server_start. Outlives the server. */
struct joining *joining_new(struct server *s, const struct joining_config *c);
/* Whether central is the active one. Calls that wait fail when it ends being that. */
void joining_set_active(struct joining *j, bool active);
void joining_admitted(struct joining *j, const struct msg_admitted *m);
/* Ends the calls that wait. NULL is fine. */
void joining_free(struct joining *j);

#endif
