/* See caller.h. */
#include "net/caller.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PASSWD_BYTES 4096u /* large enough for most entries */
#define PASSWD_BYTES_MAX (1u << 20)

/* ---- Names, which the system may look up elsewhere ---- */

#define NAMES 64u
#define NAME_KEPT_US (600 * US_PER_S)
#define NO_NAME_KEPT_US (10 * US_PER_S) /* it may be there soon */

/* uid's place is uid % NAMES. */
static struct kept_name {
    char text[LIMIT_NAME_BYTES + 1]; /* "": the look-up failed */
    uint32_t uid;
    int64_t until_us;
} names[NAMES];
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static bool recall_name(uint32_t uid, char text[LIMIT_NAME_BYTES + 1])
{
    const struct kept_name *n = &names[uid % NAMES];

    pthread_mutex_lock(&names_lock);
    bool known = n->uid == uid && n->until_us > monotonic_us();
    if (known)
        snprintf(text, LIMIT_NAME_BYTES + 1, "%s", n->text);
    pthread_mutex_unlock(&names_lock);
    return known;
}

static void keep_name(uint32_t uid, const char *text, int64_t kept_us)
{
    struct kept_name *n = &names[uid % NAMES];

    pthread_mutex_lock(&names_lock);
    snprintf(n->text, sizeof n->text, "%s", text);
    n->uid = uid;
    n->until_us = monotonic_us() + kept_us;
    pthread_mutex_unlock(&names_lock);
}

bool caller_is_none(int err)
{
    return err == 0 || err == ENOENT || err == ESRCH || err == EBADF || err == EPERM;
}

/* Returns for how long to keep the answer. */
static int64_t look_name_up(uint32_t uid, char text[LIMIT_NAME_BYTES + 1])
{
    struct passwd entry, *found = NULL;
    char *bytes = NULL;
    int err = ERANGE;

    for (size_t size = PASSWD_BYTES; err == ERANGE && size <= PASSWD_BYTES_MAX; size *= 2) {
        bytes = xrealloc(bytes, size);
        err = getpwuid_r(uid, &entry, bytes, size, &found);
    }
    bool is_number =
        !found || snprintf(text, LIMIT_NAME_BYTES + 1, "%s", entry.pw_name) > (int)LIMIT_NAME_BYTES;
    if (is_number)
        snprintf(text, LIMIT_NAME_BYTES + 1, "%u", (unsigned)uid);
    if (!found && !caller_is_none(err))
        text[0] = '\0';
    free(bytes);
    return found ? NAME_KEPT_US : NO_NAME_KEPT_US;
}

bool caller_name(uint32_t uid, char text[LIMIT_NAME_BYTES + 1])
{
    if (!recall_name(uid, text))
        keep_name(uid, text, look_name_up(uid, text));
    return text[0];
}

/* ---- Callers ---- */

struct caller caller_unknown(void)
{
    return (struct caller){.uid = CALLER_NO_UID, .scopes = SCOPES_ALL, .by = CALLER_UNKNOWN};
}

struct caller caller_of_uid(uint32_t uid)
{
    struct caller c = {.uid = uid, .scopes = SCOPES_OF_USERS, .by = CALLER_SOCKET};

    if (uid == CALLER_OVERFLOW_UID) {
        c.scopes = SCOPE_NONE;
        return c;
    }
    if (uid == 0 || uid == geteuid())
        c.scopes = SCOPES_ALL;
    c.nameless = !caller_name(uid, c.name);
    return c;
}

const char *caller_text(const struct caller *c, char buf[CALLER_TEXT])
{
    char scopes[SCOPES_TEXT];

    scopes_format(scopes, c->scopes);
    if (c->by == CALLER_SOCKET && c->scopes == SCOPE_NONE)
        snprintf(buf, CALLER_TEXT, "uid %u, which stands for the uids of other user namespaces; scopes none",
                 (unsigned)c->uid);
    else if (c->nameless)
        snprintf(buf, CALLER_TEXT, "uid %u, whose name could not be looked up", (unsigned)c->uid);
    else if (c->by == CALLER_SOCKET)
        snprintf(buf, CALLER_TEXT, "%s (uid %u, by the unix socket; scopes %s)", c->name, (unsigned)c->uid,
                 scopes);
    else if (c->by == CALLER_CERTIFICATE && c->uid != CALLER_NO_UID)
        snprintf(buf, CALLER_TEXT, "%s (uid %u, by certificate; scopes %s)", c->name, (unsigned)c->uid,
                 scopes);
    else if (c->by == CALLER_CERTIFICATE)
        snprintf(buf, CALLER_TEXT, "%s (by certificate; scopes %s)", c->name, scopes);
    else if (c->uid != CALLER_NO_UID)
        snprintf(buf, CALLER_TEXT, "uid %u (by the loopback connection)", (unsigned)c->uid);
    else
        snprintf(buf, CALLER_TEXT, "an unknown user");
    return buf;
}
