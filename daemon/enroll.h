/* The certificate that a daemon keeps in its state directory and renews by itself (ca/kept.h): a node's, which
 * it got by an invitation, or that of a central with the node root, which makes its own. Configured files come
 * first. */
#ifndef HAWK_DAEMON_ENROLL_H
#define HAWK_DAEMON_ENROLL_H

#include "daemon/process.h"

/* Sets tls.* to the kept files, and where nobody set them, the node's name and central's address; before that
 * it joins the cluster if the configuration names a new invitation. Sets p->kept and p->root. It waits for a
 * central that cannot be reached. Forks, so no thread may run yet. 0, or a process' exit code after saying
 * why. */
HAWK_MUST_USE int enroll(struct process *p);

/* Whether the invitation of a dist's or worker's section is good, or was used. HAWK_ENOT_FOUND: it is not on this
 * machine. */
HAWK_MUST_USE int enroll_look(const struct config *c, enum role role, char *why, size_t size);

/* Whether a dist or worker keeps a certificate on this machine, or this user may not see that. */
bool enroll_may_be_kept(const struct config *c, enum role role);

/* Renews what p keeps, after a third of its life. central returns its address; NULL: p is central. NULL if p keeps
 * nothing. */
struct renewal;
struct renewal *renewal_new(struct process *p, const char *(*central)(void *arg), void *arg);
void renewal_free(struct renewal *r); /* NULL is fine */

/* Makes central's own certificate, with p->root, in p->kept. HAWK_EINVALID, HAWK_EIO or HAWK_ECORRUPT, and why (`size`
 * bytes). */
HAWK_MUST_USE int enroll_central(struct process *p, char *why, size_t size);

#endif
