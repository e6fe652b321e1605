/* Where a user's credential lies, so that his clients find it by themselves: $HAWK_LOGIN, else $XDG_CONFIG_HOME/hawk,
 * else ~/.config/hawk. `hawk login` puts these files there, which only he can read:
 *   user.crt    his certificate: name, uid, scopes, time
 *   user.key    its private key, which also signs what he submits
 *   roots.crt   the roots of his cluster
 *   dist        addresses of dists, comma separated; may be missing */
#ifndef HAWK_NET_LOGIN_H
#define HAWK_NET_LOGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define LOGIN_CERTIFICATE "user.crt"
#define LOGIN_KEY "user.key"
#define LOGIN_ROOTS "roots.crt"
#define LOGIN_DIST "dist"
#define LOGIN_NONE "none" /* as $HAWK_LOGIN: no credential is used */
#define LOGIN_DIST_MAX 2048u

struct login {
    char certificate[PATH_MAX], key[PATH_MAX], roots[PATH_MAX], dist[PATH_MAX];
};

/* Whether the user has named a directory in $HAWK_LOGIN. */
bool login_is_named(void);
/* The directory. False: the user has no home, or wants none. */
bool login_dir(char dir[PATH_MAX]);
/* The files in it. False: no credential is there. */
bool login_find(struct login *l);
/* Those in another directory. */
bool login_find_in(const char *dir, struct login *l);
/* Reads the addresses. False: there are none. */
bool login_dists(const struct login *l, char *buf, size_t size);

#endif
