/* See caller.h. */
#include "net/caller.h"

#include "base/account.h"
#include "base/clock.h"
#include "base/units.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Returns for how long to keep the answer. */
static int64_t look_name_up(uint32_t uid, char text[LIMIT_NAME_BYTES + 1])
{
    struct account a;
    int err = account_of_uid(&a, uid);

    if (err == HAWK_EUNAVAILABLE)
        text[0] = '\0';
    else if (err || snprintf(text, LIMIT_NAME_BYTES + 1, "%s", a.name) > (int)LIMIT_NAME_BYTES)
        snprintf(text, LIMIT_NAME_BYTES + 1, "%u", (unsigned)uid);
    account_free(&a);
    return err ? NO_NAME_KEPT_US : NAME_KEPT_US;
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
