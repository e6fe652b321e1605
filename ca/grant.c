/* See grant.h. */
#include "ca/grant.h"

#include "ca/file.h"
#include "net/denied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_TRIES 60 /* 3 s */

int grant_denied(const char *dir, struct denied **d, char *why, size_t size)
{
    char path[PATH_MAX], roots_path[PATH_MAX], what[200], *text = NULL, *roots = NULL;
    int err;

    *d = NULL;
    if (!ca_path(path, dir, CA_DENIED, why, size) || !ca_path(roots_path, dir, CA_ROOTS, why, size))
        return HAWK_EIO;
    err = ca_read(path, &text, why, size);
    if (err == HAWK_ENOT_FOUND)
        return 0;
    if (!err)
        err = ca_read(roots_path, &roots, why, size);
    for (const char *at = text; !err && at; at = denied_next(at)) {
        struct denied *list = denied_read(at, roots, what, sizeof what);

        if (list)
            (void)denied_put(d, list);
        else
            err = ca_complain(why, size, HAWK_ECORRUPT, path, what);
    }
    if (err) {
        denied_free(*d);
        *d = NULL;
    }
    free(text);
    free(roots);
    return err == HAWK_ENOT_FOUND ? HAWK_EIO : err == HAWK_EINVALID ? HAWK_ECORRUPT : err;
}

int grant_check(const struct users *u, const struct identity *who, char *why, size_t size)
{
    const struct identity *known = users_find(u, who->name), *other = users_find_uid(u, who->uid);

    if (known && known->uid != who->uid)
        snprintf(why, size, "%s has uid %u: another person needs another name", who->name,
                 (unsigned)known->uid);
    else if (other && strcmp(other->name, who->name) != 0)
        snprintf(why, size, "uid %u is %s's already", (unsigned)who->uid, other->name);
    else
        return 0;
    return HAWK_EINVALID;
}

/* A revocation denies what was made up to the end of its second. This waits until that second is over. */
static int wait_until_good(const char *dir, struct identity *who, char *why, size_t size)
{
    struct denied *d;
    int tries = 0, err = grant_denied(dir, &d, why, size);

    for (who->made_s = time(NULL); d && denied_has(d, who) && !err; who->made_s = time(NULL)) {
        usleep(50 * 1000);
        if (++tries == WAIT_TRIES)
            err = ca_complain(why, size, HAWK_EIO, who->name,
                              "was revoked at a time that is yet to come: this machine's clock was ahead "
                              "then, or is behind now");
    }
    denied_free(d);
    return err;
}

int grant_credential(struct users *u, const struct identity *who, int64_t life_us, const char *dist,
                     struct credential *c, char *why, size_t size)
{
    struct identity now = *who;
    char path[PATH_MAX], *roots = NULL;
    struct ca_root *root;
    int err = ca_root_open(&root, u->dir, ROLE_NONE, why, size);

    *c = (struct credential){0};
    if (!err)
        err = ca_path(path, u->dir, CA_ROOTS, why, size) ? ca_read(path, &roots, why, size) : HAWK_EIO;
    if (!err)
        err = ca_check_roots(path, roots, CREDENTIAL_ROOTS_MAX, "a credential", why, size);
    if (!err)
        err = wait_until_good(u->dir, &now, why, size);
    if (!err) {
        err = credential_make(c, root, &now, life_us, roots, dist);
        if (err == HAWK_EINVALID)
            snprintf(why, size,
                     "'%s' cannot be in a certificate: a name has letters, digits, '-', '_' and '.'",
                     who->name);
    }
    if (!err)
        err = users_put(u, &c->who, why, size);
    free(roots);
    ca_root_free(root);
    return err;
}
