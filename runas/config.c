/* The configuration of hawk-run-as, and its decision: see run_as.h. */
#include "runas/run_as.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"

static bool __attribute__((format(printf, 3, 4))) wrong(char *why, unsigned line, const char *fmt, ...)
{
    va_list ap;
    int n = line ? snprintf(why, RUN_AS_WHY_MAX, "line %u: ", line) : 0;

    va_start(ap, fmt);
    vsnprintf(why + n, RUN_AS_WHY_MAX - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

static bool parse_uid(const char *text, uid_t *uid)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    *uid = (uid_t)v;
    return !*end && !errno && v < (uid_t)-1;
}

static bool parse_setting(struct run_as_config *c, const char *key, const char *value, char *why,
                          unsigned line)
{
    if (strcmp(key, "hawk") == 0) {
        if (*value != '/')
            return wrong(why, line, "hawk: must be an absolute path");
        c->hawk = value;
    } else if (strcmp(key, "user_root") == 0) {
        if (*value != '/')
            return wrong(why, line, "user_root: must be an absolute path");
        c->user_root = value;
    } else if (strcmp(key, "limits") == 0) {
        if (*value != '/' && strcmp(value, "none") != 0)
            return wrong(why, line, "limits: must be an absolute path, or none");
        c->limits = *value == '/' ? value : NULL;
    } else if (strcmp(key, "caller") == 0) {
        if (!run_as_is_name(value) || c->callers_n == RUN_AS_CALLERS)
            return wrong(why, line, "caller: must be a user's name, and at most %d", RUN_AS_CALLERS);
        c->callers[c->callers_n++] = value;
    } else if (strcmp(key, "lowest_uid") == 0) {
        if (!parse_uid(value, &c->lowest_uid) || c->lowest_uid == 0)
            return wrong(why, line, "lowest_uid: must be a number above 0");
    } else if (strcmp(key, "allow_root") == 0) {
        c->allow_root = strcmp(value, "yes") == 0;
        if (!c->allow_root && strcmp(value, "no") != 0)
            return wrong(why, line, "allow_root: must be yes or no");
    } else {
        return wrong(why, line, "there is no setting of this name");
    }
    return true;
}

static bool parse_line(struct run_as_config *c, char *text, char *why, unsigned line)
{
    char *key, *value, *end;

    key = text + strspn(text, BLANKS);
    if (!*key || *key == '#')
        return true;
    end = key + strcspn(key, BLANKS);
    value = end + strspn(end, BLANKS);
    *end = '\0';
    end = value + strlen(value);
    while (end > value && strchr(BLANKS, end[-1]))
        *--end = '\0';
    if (!*value)
        return wrong(why, line, "a setting needs a value");
    return parse_setting(c, key, value, why, line);
}

bool run_as_parse(char *text, size_t len, struct run_as_config *c, char why[RUN_AS_WHY_MAX])
{
    unsigned line = 0;

    *c = (struct run_as_config){.lowest_uid = 1000, .limits = RUN_AS_LIMITS};
    if (strlen(text) != len)
        return wrong(why, 0, "contains a NUL byte");
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        if (!parse_line(c, text, why, ++line))
            return false;
    }
    if (!c->hawk)
        return wrong(why, 0, "does not name the program (hawk PATH)");
    if (c->callers_n == 0)
        c->callers[c->callers_n++] = "hawk";
    return true;
}

bool run_as_is_name(const char *name)
{
    size_t len = strnlen(name, RUN_AS_NAME_MAX);

    if (len == 0 || len == RUN_AS_NAME_MAX || *name == '-' || *name == '.')
        return false;
    for (; *name; name++)
        if ((unsigned char)*name <= ' ' || *name == '/' || *name == ':' || *name == 127)
            return false;
    return true;
}

const char *run_as_refusal(const struct run_as_config *c, uid_t uid, gid_t gid, uid_t caller)
{
    if (uid == 0)
        return c->allow_root ? NULL : "tasks of root are not allowed (allow_root)";
    if (gid == 0)
        return "its group is root's";
    if (uid == RUN_AS_OVERFLOW_UID)
        return "this uid stands for users of other user namespaces";
    if (uid == (uid_t)-1 || gid == (gid_t)-1)
        return "this is no uid";
    if (uid == caller)
        return "this is the user that the worker runs as";
    if (uid < c->lowest_uid)
        return "its uid is below lowest_uid";
    return NULL;
}
