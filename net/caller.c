/* See caller.h. */
#include "net/caller.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

/* Large enough for any entry that one would write by hand. */
#define PASSWD_BYTES 4096

struct caller caller_unknown(void)
{
    return (struct caller){.uid = CALLER_NO_UID, .scopes = SCOPES_ALL, .by = CALLER_UNKNOWN};
}

struct caller caller_of_uid(uint32_t uid)
{
    struct caller c = {.uid = uid, .scopes = SCOPES_OF_USERS, .by = CALLER_SOCKET};
    struct passwd entry, *found = NULL;
    char text[PASSWD_BYTES];

    if (uid == CALLER_OVERFLOW_UID) {
        c.scopes = SCOPE_NONE;
        return c;
    }
    if (uid == 0 || uid == geteuid())
        c.scopes = SCOPES_ALL;
    if (getpwuid_r(uid, &entry, text, sizeof text, &found) != 0 || !found ||
        snprintf(c.name, sizeof c.name, "%s", entry.pw_name) >= (int)sizeof c.name)
        snprintf(c.name, sizeof c.name, "%u", (unsigned)uid);
    return c;
}

const char *caller_text(const struct caller *c, char buf[CALLER_TEXT])
{
    char scopes[SCOPES_TEXT];

    scopes_format(scopes, c->scopes);
    if (c->by == CALLER_SOCKET && c->scopes == SCOPE_NONE)
        snprintf(buf, CALLER_TEXT, "uid %u, which stands for the uids of other user namespaces; scopes none",
                 (unsigned)c->uid);
    else if (c->by == CALLER_SOCKET)
        snprintf(buf, CALLER_TEXT, "%s (uid %u, by the unix socket; scopes %s)", c->name, (unsigned)c->uid,
                 scopes);
    else if (c->by == CALLER_CERTIFICATE && c->uid != CALLER_NO_UID)
        snprintf(buf, CALLER_TEXT, "%s (uid %u, by certificate; scopes %s)", c->name, (unsigned)c->uid,
                 scopes);
    else if (c->by == CALLER_CERTIFICATE)
        snprintf(buf, CALLER_TEXT, "%s (by certificate; scopes %s)", c->name, scopes);
    else
        snprintf(buf, CALLER_TEXT, "an unknown user");
    return buf;
}
