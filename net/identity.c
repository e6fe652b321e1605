/* See identity.h. */
#include "net/identity.h"

#include <stdio.h>
#include <string.h>

const char *identity_role(const struct identity *who)
{
    return who->role == ROLE_NONE ? IDENTITY_USER : who->role == ROLE_GUEST ? "guest" : role_text(who->role);
}

bool identity_set_role(struct identity *who, const char *role)
{
    who->role = ROLE_NONE;
    who->scopes = strcmp(role, IDENTITY_USER) == 0 ? SCOPES_OF_USERS : SCOPE_NONE;
    if (who->scopes)
        return true;
    for (int r = ROLE_NONE + 1; r < ROLE_COUNT; r++)
        if (strcmp(role, role_text((enum role)r)) == 0)
            who->role = (enum role)r;
    return who->role != ROLE_NONE;
}

bool identity_name_fits(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(name);

    return len > 0 && len <= LIMIT_NAME_BYTES && strspn(name, letters) == len && name[0] != '.' &&
           name[len - 1] != '.';
}

/* Takes the last label off the first *len bytes of the text. NULL: no label is left before it. */
static const char *last_label(const char *text, size_t *len, size_t *label)
{
    for (size_t i = *len; i > 0; i--) {
        if (text[i - 1] != '.')
            continue;
        *label = *len - i;
        *len = i - 1;
        return text + i;
    }
    return NULL;
}

bool identity_parse(const char *dns, size_t len, struct identity *who)
{
    char role[16];
    size_t label;
    const char *at = last_label(dns, &len, &label);

    *who = (struct identity){0};
    if (!at || label != strlen(IDENTITY_DOMAIN) || memcmp(at, IDENTITY_DOMAIN, label) != 0)
        return false;
    at = last_label(dns, &len, &label);
    if (!at || label >= sizeof role || len == 0 || len > LIMIT_NAME_BYTES ||
        memchr(dns, '\0', len + 1 + label))
        return false;
    snprintf(role, sizeof role, "%.*s", (int)label, at);
    if (!identity_set_role(who, role))
        return false;
    memcpy(who->name, dns, len);
    if (identity_name_fits(who->name))
        return true;
    *who = (struct identity){0};
    return false;
}

const char *identity_text(const struct identity *who, char buf[IDENTITY_TEXT])
{
    snprintf(buf, IDENTITY_TEXT, "%s.%s." IDENTITY_DOMAIN, who->name, identity_role(who));
    return buf;
}

unsigned identity_names(const struct identity *who, char names[IDENTITY_NAMES_MAX][IDENTITY_TEXT])
{
    unsigned n = 0;

    identity_text(who, names[n++]);
    if (who->role == ROLE_NONE)
        return n;
    snprintf(names[n++], IDENTITY_TEXT, "%s", identity_of_role(who->role));
    if (who->role != ROLE_WORKER)
        snprintf(names[n++], IDENTITY_TEXT, IDENTITY_SCHEDULER);
    return n;
}

const char *identity_of_role(enum role role)
{
    switch (role) {
    case ROLE_CENTRAL:
        return "central." IDENTITY_DOMAIN;
    case ROLE_DIST:
        return "dist." IDENTITY_DOMAIN;
    case ROLE_WORKER:
        return "worker." IDENTITY_DOMAIN;
    default:
        return IDENTITY_SCHEDULER;
    }
}
