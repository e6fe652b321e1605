/* The name that central knows each node under. Links between dists and workers are checked against it: the certificate
 * at the other end must be of the node that the link is to or from. */
#ifndef HAWK_DAEMON_NAMES_H
#define HAWK_DAEMON_NAMES_H

#include "msg/msg.h"

#include <stdbool.h>
#include <stdint.h>

/* Grows with the nodes that central has ever told of. All zero: none. */
struct names {
    struct name *all;
};

/* MEMBERS and MEMBER, of central; any other message changes nothing. `changed` gets each node that has another name
 * now, or a first one. */
void names_learn(struct names *n, const struct msg *m, void (*changed)(void *arg, uint32_t node), void *arg);
/* Whether that node may have this role and name. A node that central has not told of may have any. *known: its name,
 * or NULL; valid until the next names_learn. */
bool names_fit(const struct names *n, uint32_t node, enum role role, const char *name, const char **known);
void names_free(struct names *n);

#endif
