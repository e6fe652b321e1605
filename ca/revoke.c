/* The list of certificates that are good no more: see ca.h. */
#include "base/mem.h"
#include "ca/ca.h"
#include "ca/file.h"
#include "ca/pem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Checks that the list is the root's, and sets its version. */
static int read_version(const struct ca_root *r, const char *path, const char *text, uint64_t *version,
                        char *why, size_t size)
{
    char what[200], *root = pem_of((X509 *const[]){ca_root_certificate(r)}, 1);
    struct denied *d = denied_read(text, root, what, sizeof what);

    free(root);
    if (!d)
        return ca_complain(why, size, HAWK_ECORRUPT, path, what);
    *version = denied_version(d);
    denied_free(d);
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
    at = copy_names(at, old, name);
    snprintf(at, room - (size_t)(at - text), "%s %lld\n", name, (long long)time(NULL));
    ca_sign_text(r, text, base64);
    at = text + strlen(text);
    snprintf(at, room - (size_t)(at - text), SIGNATURE_KEY "%s\n", base64);
    return text;
}

int ca_revoke(const char *dir, const struct identity *who, uint64_t *version, char *why, size_t size)
{
    char path[PATH_MAX], *old = NULL, *text;
    struct ca_root *r;
    int err;

    *version = 0;
    if (!identity_name_fits(who->name))
        return ca_complain(why, size, HAWK_EINVALID, who->name, "no certificate can carry this name");
    if (!ca_path(path, dir, "denied", why, size))
        return HAWK_EIO;
    if ((err = ca_root_open(&r, dir, why, size)) != 0)
        return err;
    err = ca_read(path, &old, why, size);
    if (err == HAWK_ENOT_FOUND)
        err = 0;
    else if (!err)
        err = read_version(r, path, old, version, why, size);
    if (!err) {
        text = make_list(r, old ? old : "", who, ++*version);
        err = ca_write(path, 0644, text, strlen(text), why, size);
        free(text);
    }
    free(old);
    ca_root_free(r);
    return err;
}
