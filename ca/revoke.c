/* The list of certificates that are good no more: see ca.h. */
#include "base/mem.h"
#include "ca/ca.h"
#include "ca/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Checks that the lists are the roots', and sets the latest version of them. */
static int read_version(const char *roots, const char *path, const char *text, uint64_t *version, char *why,
                        size_t size)
{
    char what[200];

    for (; text; text = denied_next(text)) {
        struct denied *d = denied_read(text, roots, what, sizeof what);

        if (!d)
            return ca_complain(why, size, HAWK_ECORRUPT, path, what);
        if (denied_version(d) > *version)
            *version = denied_version(d);
        denied_free(d);
    }
    return 0;
}

/* Copies the lines of the names but one. Returns the end of what was written. */
static char *copy_names(char *to, const char *list, const char *but)
{
    const char *end = strstr(list, "\n" SIGNATURE_KEY), *at = list;
    size_t len = strlen(but), n;

    for (int line = 0; end && at < end; at += n, line++) {
        n = strcspn(at, "\n") + 1;
        if (line < 2 || (strncmp(at, but, len) == 0 && at[len] == ' ')) /* behind head and version */
            continue;
        memcpy(to, at, n);
        to += n;
    }
    return to;
}

static char *make_list(const struct ca_root *r, const char *old, const struct identity *who, uint64_t version)
{
    size_t room = strlen(old) + IDENTITY_TEXT + SIGNATURE_TEXT + 200;
    char *text = xcalloc(1, room), *at, name[IDENTITY_TEXT], base64[SIGNATURE_TEXT];

    identity_text(who, name);
    at = text + snprintf(text, room, DENIED_HEAD "version: %llu\n", (unsigned long long)version);
    for (; old; old = denied_next(old)) /* a copy of what a daemon keeps has a list of each root */
        at = copy_names(at, old, name);
    snprintf(at, room - (size_t)(at - text), "%s %lld\n", name, (long long)time(NULL));
    ca_sign_text(r, text, base64);
    at = text + strlen(text);
    snprintf(at, room - (size_t)(at - text), SIGNATURE_KEY "%s\n", base64);
    return text;
}

/* Opens the root that signs the list: the node root. Where that is not, the user root may sign for users. */
static int open_signer(struct ca_root **r, const char *dir, const struct identity *who, char *why,
                       size_t size)
{
    char other[PATH_MAX + 200];
    int err = ca_root_open(r, dir, ROLE_CENTRAL, why, size);

    if (err == HAWK_EIO && who->role == ROLE_NONE &&
        ca_root_open(r, dir, ROLE_NONE, other, sizeof other) == 0)
        return 0;
    return err;
}

int ca_revoke(const char *dir, const struct identity *who, uint64_t *version, char *why, size_t size)
{
    char path[PATH_MAX], roots_path[PATH_MAX], *old = NULL, *roots = NULL, *text;
    struct ca_root *r;
    int err, lock;

    *version = 0;
    if (!identity_name_fits(who->name))
        return ca_complain(why, size, HAWK_EINVALID, who->name, "no certificate can carry this name");
    if (!ca_path(path, dir, CA_DENIED, why, size) || !ca_path(roots_path, dir, CA_ROOTS, why, size))
        return HAWK_EIO;
    if ((err = open_signer(&r, dir, who, why, size)) != 0)
        return err;
    err = ca_open_dir(&lock, dir, true, why, size); /* for the list: each revocation adds to the last one */
    if (!err)
        err = ca_read(roots_path, &roots, why, size);
    if (!err)
        err = ca_read(path, &old, why, size);
    if (err == HAWK_ENOT_FOUND && roots)
        err = 0;
    else if (!err)
        err = read_version(roots, path, old, version, why, size);
    if (!err) {
        text = make_list(r, old ? old : "", who, ++*version);
        err = strlen(text) < DENIED_MAX
                  ? ca_write(path, 0644, text, strlen(text), why, size)
                  : ca_complain(
                        why, size, HAWK_ETOO_LARGE, path,
                        "it is full (1 MiB): only names that it has can be revoked again; `hawk ca init` "
                        "makes new roots, whose list is empty");
        free(text);
    }
    if (lock >= 0)
        close(lock);
    free(old);
    free(roots);
    ca_root_free(r);
    return err;
}
