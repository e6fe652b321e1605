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
    bool nameless; /* the look-up of its name failed: nobody knows whose its jobs are */
};

/* The system's name of a uid, or the number where it has none. False: the look-up failed, and text is "". The system
 * may ask far away, while its caller waits: a name is kept for ten minutes, any other answer for ten seconds. */
bool caller_name(uint32_t uid, char text[LIMIT_NAME_BYTES + 1]);
/* Of a unix socket, by caller_name(). uid 0 and this process's own have all scopes, CALLER_OVERFLOW_UID has none and no
 * name, and others have SCOPES_OF_USERS. */
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
