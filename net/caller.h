/* Who makes a call, and what he may do. */
#ifndef HAWK_NET_CALLER_H
#define HAWK_NET_CALLER_H

#include "msg/scope.h"
#include "msg/types.h"
#include "net/identity.h"

#include <stdbool.h>
#include <stdint.h>

/* How a caller is known. */
enum caller_by {
    CALLER_UNKNOWN, /* not at all: whoever reaches the address, with the token if there is one, may do everything */
    CALLER_SOCKET,      /* the kernel says which uid the other end of a unix socket has */
    CALLER_CERTIFICATE, /* TLS */
};

#define CALLER_NO_UID IDENTITY_NO_UID
#define CALLER_OVERFLOW_UID IDENTITY_OVERFLOW_UID

struct caller {
    char name[LIMIT_NAME_BYTES + 1]; /* "": not known */
    uint32_t uid;                    /* CALLER_NO_UID: not known, as by a certificate that says none. With
                                        CALLER_UNKNOWN, the loopback connection's: for the audit log alone */
    unsigned scopes;                 /* enum scope */
    enum caller_by by;
};

/* Of a unix socket. The name is the system's, or the number where it has none. uid 0 and this process's own have all
 * scopes, CALLER_OVERFLOW_UID has none, and others have SCOPES_OF_USERS. A name that was looked up is kept for ten
 * minutes: the system may ask for it far away, while its caller waits. */
struct caller caller_of_uid(uint32_t uid);
struct caller caller_unknown(void);

/* Every scope of `scopes`. */
static inline bool caller_may(const struct caller *c, unsigned scopes)
{
    return (c->scopes & scopes) == scopes;
}

/* Room for caller_text. */
#define CALLER_TEXT (LIMIT_NAME_BYTES + SCOPES_TEXT + 100)
/* Writes for people who it is: "ann (uid 1001, by the unix socket; scopes read,submit)". Returns buf. */
const char *caller_text(const struct caller *c, char buf[CALLER_TEXT]);

#endif
