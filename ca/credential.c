/* See credential.h. */
#include "ca/credential.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "ca/file.h"
#include "ca/pem.h"
#include "net/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD "hawk credential 1\n"
#define DIST "dist: "
#define CERTIFICATE "-----BEGIN CERTIFICATE-----"
#define KEY "-----BEGIN PRIVATE KEY-----"
#define INSTALL_MS 10000 /* for a user's home, which may be on a slow server or in the user's hands */

/* ---- Texts ---- */

static void key_free(char *key)
{
    if (key)
        OPENSSL_cleanse(key, strlen(key));
    free(key);
}

void credential_free(struct credential *c)
{
    key_free(c->key);
    free(c->certificate);
    free(c->roots);
    free(c->dist);
    *c = (struct credential){0};
}

int credential_make(struct credential *c, const struct ca_root *users, const struct identity *who,
                    int64_t life_us, const char *roots, const char *dist)
{
    X509 *certificate;
    int err;

    *c = (struct credential){0};
    if ((err = ca_make_pair(users, who, life_us, &c->certificate, &c->key)) != 0)
        return err;
    c->roots = xstrdup(roots);
    c->dist = xstrdup(dist);
    certificate = pem_first(c->certificate);
    CHECK(certificate && certificate_names(certificate, &c->who));
    X509_free(certificate);
    return 0;
}

char *credential_write(const struct credential *c)
{
    char *text = xcalloc(1, CREDENTIAL_MAX);
    int n = snprintf(text, CREDENTIAL_MAX, HEAD DIST "%s\n%s%s%s", c->dist, c->certificate, c->key, c->roots);

    CHECK(n > 0 && n < (int)CREDENTIAL_MAX);
    return text;
}

static int refuse_credential(char *why, size_t size, const char *what)
{
    snprintf(why, size, "the credential %s", what);
    return HAWK_EINVALID;
}

/* Whether one of the roots has signed the certificate, expired or not. */
static bool signed_by_roots(X509 *certificate, const char *roots)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool good;

    CHECK(store && ctx);
    (void)certificate_add_roots(store, roots);
    X509_STORE_set_flags(store, X509_V_FLAG_NO_CHECK_TIME);
    good = X509_STORE_CTX_init(ctx, store, certificate, NULL) == 1 && X509_verify_cert(ctx) == 1;
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return good;
}

static int check_parts(struct credential *c, char *why, size_t size)
{
    X509 *certificate = pem_first(c->certificate);
    EVP_PKEY *key = pem_first_key(c->key);
    int err = 0;

    if (!certificate || !key)
        err = refuse_credential(why, size, "is none, or not whole");
    else if (!certificate_names(certificate, &c->who) || c->who.role != ROLE_NONE)
        err = refuse_credential(why, size, "is no user's");
    else if (X509_check_private_key(certificate, key) != 1)
        err = refuse_credential(why, size, "has a key that is not its certificate's");
    else if (!signed_by_roots(certificate, c->roots))
        err = refuse_credential(why, size, "has a certificate that its roots have not signed");
    ERR_clear_error();
    X509_free(certificate);
    EVP_PKEY_free(key);
    return err;
}

int credential_read(struct credential *c, const char *text, char *why, size_t size)
{
    const char *line, *certificate, *key, *roots;

    *c = (struct credential){0};
    if (strlen(text) >= CREDENTIAL_MAX || strncmp(text, HEAD DIST, strlen(HEAD DIST)) != 0)
        return refuse_credential(why, size, "is none, or not whole");
    line = text + strlen(HEAD DIST);
    certificate = line + strcspn(line, "\n");
    key = strstr(certificate, "\n" KEY);
    roots = key ? strstr(key, "\n" CERTIFICATE) : NULL;
    if (!roots || strncmp(certificate, "\n" CERTIFICATE, strlen("\n" CERTIFICATE)) != 0 ||
        (size_t)(certificate - line) >= LOGIN_DIST_MAX)
        return refuse_credential(why, size, "is none, or not whole");
    c->dist = xmemdup0(line, (size_t)(certificate - line));
    c->certificate = xmemdup0(certificate + 1, (size_t)(key - certificate));
    c->key = xmemdup0(key + 1, (size_t)(roots - key));
    c->roots = xstrdup(roots + 1);
    return check_parts(c, why, size);
}

/* ---- Files ---- */

static int put_file(const char *dir, const char *name, const char *text, char *why, size_t size)
{
    char path[PATH_MAX];

    return ca_path(path, dir, name, why, size) ? ca_write(path, 0600, text, strlen(text), why, size)
                                               : HAWK_EIO;
}

/* The certificate last: who has one, has the rest. */
int credential_install(const struct credential *c, const char *dir, char *why, size_t size)
{
    int err = dir_make(dir, 0700, why, size);

    if (!err)
        err = put_file(dir, LOGIN_ROOTS, c->roots, why, size);
    if (!err)
        err = put_file(dir, LOGIN_DIST, c->dist, why, size);
    if (!err)
        err = put_file(dir, LOGIN_KEY, c->key, why, size);
    if (!err)
        err = put_file(dir, LOGIN_CERTIFICATE, c->certificate, why, size);
    return err;
}

/* In a process of its own, which becomes that user. Never returns. */
static void install_and_exit(const struct credential *c, const struct account *user, const char *dir, int to)
{
    char why[PATH_MAX + 200] = "it cannot become that user";
    int err = HAWK_EIO;

    if (setgroups(0, NULL) == 0 && setgid(user->gid) == 0 && setuid(user->uid) == 0)
        err = credential_install(c, dir, why, sizeof why);
    if (err && write(to, why, strlen(why)) < 0)
        _exit(2);
    _exit(err ? 1 : 0);
}

int credential_install_as(const struct credential *c, const struct account *user, char dir[PATH_MAX],
                          char *why, size_t size)
{
    int ends[2], status = 1;
    struct pollfd told;
    ssize_t n;
    pid_t pid;

    if (user->home[0] != '/' || snprintf(dir, PATH_MAX, "%s/.config/hawk", user->home) >= PATH_MAX - 32)
        return ca_complain(why, size, HAWK_EIO, c->who.name, "that user has no home here");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ca_complain(why, size, HAWK_EIO, dir, strerror(errno));
    pid = fork();
    if (pid == 0)
        install_and_exit(c, user, dir, ends[1]);
    close(ends[1]);
    told = (struct pollfd){.fd = ends[0], .events = POLLIN};
    n = pid > 0 && poll(&told, 1, INSTALL_MS) > 0 ? read(ends[0], why, size - 1) : -1;
    if (n >= 0)
        why[n] = '\0';
    else
        snprintf(why, size, "%s: the credential could not be put there within %d s", dir, INSTALL_MS / 1000);
    close(ends[0]);
    if (pid > 0 && n != 0) /* it may be stopped: it is that user's */
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            break;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : HAWK_EIO;
}
