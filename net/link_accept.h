/* The server hands the calls that open links over with these. Private to net/. */
#ifndef HAWK_NET_LINK_ACCEPT_H
#define HAWK_NET_LINK_ACCEPT_H

#include "net/link.h"

#include <grpc/grpc.h>

#define LINK_METHOD "/hawk.v1.Peer/Link"

struct identity;
/* Why a call cannot become a link (a text until the next call, and *status), or NULL. who: whom the certificate of its
 * connection is for; NULL: it needs none. */
const char *links_why_not(struct links *ls, const grpc_metadata_array *md, const struct identity *who,
                          grpc_status_code *status);
/* Makes a link of a call that links_why_not did not refuse, with this `who`, and takes the call over. addr: the peer's,
 * for logs. */
void links_accept(struct links *ls, grpc_call *call, const grpc_metadata_array *metadata,
                  const struct identity *who, const char *addr);

/* Calls fn for each accepted link whose peer has shown a renewed certificate since the last time. peer: as gRPC names
 * its connection. */
void links_each_renewed(struct links *ls, void (*fn)(void *arg, const char *peer, const struct identity *who),
                        void *arg);

#endif
