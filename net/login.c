/* See login.h. */
#include "net/login.h"

#include "base/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool join_path(char path[PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);

    return n > 0 && n < PATH_MAX;
}

static const char *named_dir(void)
{
    const char *own = getenv("HAWK_LOGIN");

    return own && *own ? own : NULL;
}

bool login_is_named(void) { return named_dir() && strcmp(named_dir(), LOGIN_NONE) != 0; }

bool login_dir(char dir[PATH_MAX])
{
    const char *own = named_dir(), *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    struct account a = {0};
    bool found;

    if (own)
        return strcmp(own, LOGIN_NONE) != 0 && snprintf(dir, PATH_MAX, "%s", own) < PATH_MAX;
    if (config && *config == '/')
        return join_path(dir, config, "hawk");
    if ((!home || *home != '/') && account_of_uid(&a, geteuid()) == 0)
        home = a.home;
    found = home && *home == '/' && join_path(dir, home, ".config/hawk");
    account_free(&a);
    return found;
}

bool login_find_in(const char *dir, struct login *l)
{
    return join_path(l->certificate, dir, LOGIN_CERTIFICATE) && join_path(l->key, dir, LOGIN_KEY) &&
           join_path(l->roots, dir, LOGIN_ROOTS) && join_path(l->dist, dir, LOGIN_DIST) &&
           access(l->certificate, F_OK) == 0;
}

bool login_find(struct login *l)
{
    char dir[PATH_MAX];

    return login_dir(dir) && login_find_in(dir, l);
}

bool login_dists(const struct login *l, char *buf, size_t size)
{
    FILE *f = fopen(l->dist, "re");
    size_t n = f ? fread(buf, 1, size - 1, f) : 0;

    if (f)
        fclose(f);
    buf[n] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    return *buf != '\0';
}
