/* What a client finds by itself: a cluster, and what to show it. */
#include "base/check.h"
#include "base/mem.h"
#include "libhawk/client_impl.h"
#include "net/join_dir.h"
#include "net/login.h"
#include "net/submission.h"
#include "net/tls.h"
#include "net/token.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

const char *client_default_socket(char *buf, size_t size)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    int n = dir && *dir ? snprintf(buf, size, "unix:%s/hawk/up.sock", dir)
                        : snprintf(buf, size, "unix:/tmp/hawk-%u/up.sock", (unsigned)getuid());
    return n > 0 && (size_t)n < size ? buf : NULL;
}

int client_find_token(struct client *client, const char *path)
{
    const char *text = getenv("HAWK_TOKEN");
    if (path && !*path)
        return client_fail(client, HAWK_EINVALID, "--token-file names no file");
    if (!path)
        path = getenv("HAWK_TOKEN_FILE");
    char why[PATH_MAX + 400];
    if (path && *path) {
        int err = token_read(path, false, &client->token, why, sizeof why);
        return err ? client_fail(client, HAWK_EINVALID, "%s", why)
                   : 0; /* a dist is missing, or the wrong one: name another */
    }
    if (!text || !*text)
        return 0;
    if (token_check(text, strlen(text), why, sizeof why))
        return client_fail(client, HAWK_EINVALID, "HAWK_TOKEN: %s", why);
    client->token = xstrdup(text);
    return 0;
}

int client_find_tls(struct client *client)
{
    const struct tls_files f = {.certificate = getenv("HAWK_TLS_CERTIFICATE"),
                                .key = getenv("HAWK_TLS_KEY"),
                                .roots = getenv("HAWK_TLS_ROOTS")};
    char why[TLS_WHY];
    struct login l;
    if (!tls_files_any(&f)) { /* a cluster with tokens has no certificates */
        if (client->token || !login_find(&l))
            return 0;
        client->tls =
            tls_new(&(struct tls_files){.certificate = l.certificate, .key = l.key, .roots = l.roots}, why);
        return client->tls
                   ? 0
                   : client_fail(client, HAWK_EINVALID, "%s: `hawk login` takes a credential anew", why);
    }
    if (!tls_files_all(&f))
        return client_fail(
            client, HAWK_EINVALID,
            "TLS needs HAWK_TLS_CERTIFICATE, HAWK_TLS_KEY and HAWK_TLS_ROOTS, and not all are set");
    client->tls = tls_new(&f, why);
    return client->tls ? 0 : client_fail(client, HAWK_EINVALID, "%s", why);
}

int client_find_join_dir(struct client *client, const char *dir, char *dist)
{
    char why[PATH_MAX + 600];
    struct join_dir j;
    struct login l;
    int err = join_dir_read(dir, &j, why, sizeof why);
    if (err == HAWK_ENOT_FOUND)
        return client_fail(client, HAWK_EUNAVAILABLE, "--join-dir: %s", why);
    if (err)
        return client_fail(client, HAWK_EINVALID, "--join-dir: %s", why);
    snprintf(dist, ADDR_TEXT, "%s", j.dist);
    if (login_find_in(dir, &l))
        client->tls =
            tls_new(&(struct tls_files){.certificate = l.certificate, .key = l.key, .roots = l.roots}, why);
    else
        snprintf(why, sizeof why, "%s is missing", l.certificate);
    return client->tls ? 0
                       : client_fail(client, HAWK_EINVALID, "--join-dir: %s: start the cluster again", why);
}

int client_sign(struct client *client, struct job_desc *const *jobs, uint32_t n)
{
    if (client->tls && submission_sign(jobs, n, tls_signer(client->tls), (int64_t)time(NULL)))
        return client_fail(client, HAWK_EINVALID,
                           "your credential cannot sign the job: `hawk login` takes another");
    return 0;
}

/* Where a dist that the system has started listens (systemd/hawk-dist.service). */
#define SYSTEM_SOCKET "unix:/run/hawk/dist.sock"

/* The socket of a dist that this user has started: in the dist's default state_dir. */
static bool own_dist_socket(char *buf, size_t size)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (geteuid() == 0)
        n = snprintf(buf, size, "unix:/var/lib/hawk/dist/dist.sock");
    else if (xdg && *xdg == '/')
        n = snprintf(buf, size, "unix:%s/hawk/dist/dist.sock", xdg);
    else
        n = snprintf(buf, size, "unix:%s/.local/state/hawk/dist/dist.sock", home ? home : "");
    return n > 0 && (size_t)n < size;
}

/* Whether it is root's or this user's: in another's directory he decides, at any moment, who listens. */
static bool directory_is_ours(const char *path)
{
    char dir[PATH_MAX];
    struct stat st;
    snprintf(dir, sizeof dir, "%s", path);
    return lstat(dirname(dir), &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid());
}

/* Whether one of us listens on "unix:PATH": root, this user, or (anybody) whoever could put it there. */
static bool socket_answers(const char *addr, bool anybody)
{
    struct ucred who;
    socklen_t len = sizeof who;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (strlen(addr + 5) >= sizeof un.sun_path)
        return false;
    memcpy(un.sun_path, addr + 5, strlen(addr + 5));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answers = fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0 &&
                   (anybody || (directory_is_ours(addr + 5) &&
                                getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
                                (who.uid == 0 || who.uid == geteuid())));
    if (fd >= 0)
        close(fd);
    return answers;
}

/* Where a client's contacts are from; compared as pointers. */
static const char named_login[] = "HAWK_LOGIN", local_up[] = "the local `hawk up`";

const char *client_find_contacts(const struct client_options *o, const char **origin, char *buf, size_t size)
{
    const char *env = getenv("HAWK_DIST");
    struct login l;
    CHECK(buf);
    *origin = o->dist ? "--dist" : "HAWK_DIST";
    if (o->dist)
        return o->dist;
    if (env && *env)
        return env;
    *origin = named_login;
    if (login_is_named()) {
        if (!login_find(&l))
            return NULL;
        if (login_dists(&l, buf, size))
            return buf;
    }
    *origin = local_up;
    if (client_default_socket(buf, size) && socket_answers(buf, false))
        return buf;
    *origin = "the local socket";
    if (own_dist_socket(buf, size) && socket_answers(buf, false))
        return buf;
    if (socket_answers(SYSTEM_SOCKET, true))
        return SYSTEM_SOCKET;
    *origin = "your login";
    return login_find(&l) && login_dists(&l, buf, size) ? buf : NULL;
}

int client_no_contacts(struct client *client, const char *origin)
{
    char dir[PATH_MAX];
    if (origin == named_login && login_dir(dir))
        return client_fail(client, HAWK_EUNAVAILABLE,
                           "no cluster found: HAWK_LOGIN names %.400s, where no credential is: start its "
                           "cluster, or `hawk login`; HAWK_LOGIN=none: use none",
                           dir);
    const char *run = getenv("XDG_RUNTIME_DIR");
    char session[128] = "";
    if (!run || !*run) /* under cron, say, or after su */
        snprintf(session, sizeof session,
                 " (XDG_RUNTIME_DIR is not set here: the `hawk up` of your login session would be at "
                 "unix:/run/user/%u/hawk/up.sock)",
                 (unsigned)getuid());
    return client_fail(
        client, HAWK_EUNAVAILABLE,
        "no cluster found: start one with `hawk up`, or name a dist with --dist or HAWK_DIST%s", session);
}

bool client_origin_is_up(const char *origin) { return origin == local_up; }

bool client_finds_up(const struct client_options *o)
{
    char found[LOGIN_DIST_MAX];
    const char *origin;
    return !o->join_dir && client_find_contacts(o, &origin, found, sizeof found) && origin == local_up;
}
