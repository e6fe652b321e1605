/* See audit.h. */
#include "ca/audit.h"

#include "base/check.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "cli/document.h"
#include "cli/print.h"
#include "net/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* 0, or what was wrong. */
static int append_line(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = fd < 0 || ca_put(fd, line, strlen(line)) != 0 ? errno : 0;

    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    return error;
}

void ca_audit(const char *dir, const char *fmt, ...)
{
    const char *sudo = getenv("SUDO_USER");
    const struct caller who = caller_of_uid(getuid());
    char path[PATH_MAX], at[CLOCK_TEXT], why[PATH_MAX + 200], *what, *line;
    va_list ap;
    int error;

    va_start(ap, fmt);
    CHECK(vasprintf(&what, fmt, ap) >= 0);
    va_end(ap);
    utc_text(at, time(NULL));
    CHECK(asprintf(&line, "%s %s (uid %u%s%.*s): %s\n", at, who.nameless ? "?" : who.name, (unsigned)who.uid,
                   sudo ? ", by sudo of " : "", (int)LIMIT_NAME_BYTES, sudo ? sudo : "", what) >= 0);
    if (!ca_path(path, dir, CA_AUDIT, why, sizeof why))
        say_warning("ca", "%s", why);
    else if ((error = append_line(path, line)) != 0)
        say_warning("ca", "%s: this is not on record: %s", path, strerror(error));
    free(line);
    free(what);
}

/* Whether a line is of ca/command.c's "issued a certificate for NAME to" or "invited ROLE NAME,". */
static bool line_names(const char *line, const struct identity *who)
{
    char name[IDENTITY_TEXT], text[IDENTITY_TEXT + 40];
    struct invitation v = {0};
    const char *what = strstr(line, "): ");
    size_t len;

    if (!what)
        return false;
    what += 3;
    snprintf(text, sizeof text, "issued a certificate for %s to ", identity_text(who, name));
    if (strncmp(what, text, strlen(text)) == 0)
        return true;
    snprintf(text, sizeof text, "invited %s ", identity_role(who));
    if (strncmp(what, text, strlen(text)) != 0)
        return false;
    what += strlen(text);
    len = strcspn(what, ",");
    if (len >= sizeof v.name)
        return false;
    memcpy(v.name, what, len);
    return invitation_fits(&v, who->name);
}

int ca_audit_names(const char *dir, const struct identity *who, bool *named)
{
    char path[PATH_MAX], why[PATH_MAX + 200], *line = NULL;
    size_t cap = 0;
    FILE *f = ca_path(path, dir, CA_AUDIT, why, sizeof why) ? fopen(path, "re") : NULL;
    bool whole;

    *named = false;
    if (!f)
        return HAWK_EIO;
    while (!*named && getline(&line, &cap, f) >= 0)
        *named = line_names(line, who);
    whole = !ferror(f);
    free(line);
    fclose(f);
    return whole ? 0 : HAWK_EIO;
}
