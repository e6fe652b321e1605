/* The list of certificates that are good no more (net/denied.h), as a daemon keeps it on its disk, and the end of
 * connections whose peers are on it, or have expired. */
#ifndef HAWK_DAEMON_DENIAL_H
#define HAWK_DAEMON_DENIAL_H

#include "daemon/process.h"
#include "net/link.h"

struct denial;

/* Reads `denied` in dir, and where ca is not NULL that in ca, if it is newer; looks at both again when they change.
 * NULL if p has no TLS. changed: a newer list is in force. */
struct denial *denial_new(struct process *p, const char *dir, const char *ca, void (*changed)(void *arg),
                          void *arg);
/* Sets the links that are looked at, and on which our certificate is shown when it was renewed. NULL: none. */
void denial_set_links(struct denial *d, struct links *ls);
/* Lists that central has pushed: each is taken if it is newer and a root has signed it. */
void denial_take(struct denial *d, const char *text);
/* The lists in force as one text; NULL: none is. */
const char *denial_text(const struct denial *d);
void denial_free(struct denial *d); /* NULL is fine */

#endif
