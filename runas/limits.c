/* A user's limits, by the rules of PAM's pam_limits (limits.conf(5)): see run_as.h. */
#include "runas/run_as.h"

#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\n"
#define FIELDS 4 /* domain, type, item, value */

/* Whom a line is for. The smaller one counts where several lines set the same limit. */
enum scope { SCOPE_NONE, SCOPE_USER, SCOPE_GROUP, SCOPE_ALL };

static const struct item {
    const char *name;
    int resource;
    unsigned unit;
} items[] = {
    {"as", RLIMIT_AS, 1024},           {"core", RLIMIT_CORE, 1024},          {"cpu", RLIMIT_CPU, 60},
    {"data", RLIMIT_DATA, 1024},       {"fsize", RLIMIT_FSIZE, 1024},        {"locks", RLIMIT_LOCKS, 1},
    {"memlock", RLIMIT_MEMLOCK, 1024}, {"msgqueue", RLIMIT_MSGQUEUE, 1},     {"nice", RLIMIT_NICE, 1},
    {"nofile", RLIMIT_NOFILE, 1},      {"nproc", RLIMIT_NPROC, 1},           {"rss", RLIMIT_RSS, 1024},
    {"rtprio", RLIMIT_RTPRIO, 1},      {"sigpending", RLIMIT_SIGPENDING, 1}, {"stack", RLIMIT_STACK, 1024},
};

static bool is_in(gid_t gid, const struct run_as_user *user)
{
    for (int i = 0; i < user->groups_n; i++)
        if (user->groups[i] == gid)
            return true;
    return false;
}

/* LOWEST:HIGHEST, LOWEST: or :EXACTLY. */
struct range {
    unsigned long low, high;
    bool exact;
};

static bool parse_range(const char *text, struct range *r)
{
    const char *colon = strchr(text, ':');
    char *end;

    if (!colon || strspn(text, "0123456789:") != strlen(text) || strlen(text) == 1)
        return false;
    *r = (struct range){.high = ULONG_MAX, .exact = colon == text};
    r->low = strtoul(text, &end, 10);
    if (end != colon && !r->exact)
        return false;
    if (colon[1])
        r->high = strtoul(colon + 1, &end, 10);
    if (r->exact)
        r->low = r->high;
    return !colon[1] || !*end;
}

static bool is_of_group(const char *domain, const struct run_as_user *user)
{
    struct range r;

    if (!parse_range(domain, &r)) {
        const struct group *g = getgrnam(domain);

        return g && is_in(g->gr_gid, user);
    }
    if (r.exact)
        return is_in((gid_t)r.low, user);
    return user->gid >= r.low && user->gid <= r.high;
}

static enum scope scope_of(const char *domain, const struct run_as_user *user)
{
    struct range r;

    if (strcmp(domain, user->name) == 0)
        return SCOPE_USER;
    if (user->uid == 0)
        return SCOPE_NONE;
    if (*domain == '@')
        return is_of_group(domain + 1, user) ? SCOPE_GROUP : SCOPE_NONE;
    if (parse_range(domain, &r))
        return user->uid >= r.low && user->uid <= r.high ? SCOPE_USER : SCOPE_NONE;
    return strcmp(domain, "*") == 0 ? SCOPE_ALL : SCOPE_NONE;
}

static bool parse_value(const struct item *item, const char *text, rlim_t *value)
{
    bool is_nice = item->resource == RLIMIT_NICE;
    char *end;

    if (!is_nice && (strcmp(text, "-1") == 0 || strcmp(text, "-") == 0 || strcmp(text, "unlimited") == 0 ||
                     strcmp(text, "infinity") == 0)) {
        *value = RLIM_INFINITY;
        return true;
    }
    if (is_nice) {
        long nice = strtol(text, &end, 10);

        *value = (rlim_t)(20 - (nice > 19 ? 19 : nice < -20 ? -20 : nice));
        return end != text;
    }
    *value = strtoull(text, &end, 10);
    *value = *value < RLIM_INFINITY / item->unit ? *value * item->unit : RLIM_INFINITY;
    return end != text && *text != '-';
}

static void set_limit(struct run_as_limit *limit, enum scope scope, rlim_t value)
{
    if (limit->scope == SCOPE_NONE || (int)scope <= limit->scope)
        *limit = (struct run_as_limit){.value = value, .scope = (int)scope};
}

static void take_limit(char *const field[FIELDS], enum scope scope, struct run_as_limits *l)
{
    bool soft = strcasecmp(field[1], "soft") == 0 || strcmp(field[1], "-") == 0;
    bool hard = strcasecmp(field[1], "hard") == 0 || strcmp(field[1], "-") == 0;
    rlim_t value;

    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        if (strcasecmp(field[2], items[i].name) != 0 || !parse_value(&items[i], field[3], &value))
            continue;
        if (soft)
            set_limit(&l->soft[items[i].resource], scope, value);
        if (hard)
            set_limit(&l->hard[items[i].resource], scope, value);
    }
}

bool run_as_limits_line(char *line, const struct run_as_user *user, struct run_as_limits *l)
{
    char *field[FIELDS], *rest;
    int n = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, BLANKS, &rest); word && n < FIELDS; word = strtok_r(NULL, BLANKS, &rest))
        field[n++] = word;
    if (n != FIELDS && !(n == 2 && strcmp(field[1], "-") == 0))
        return true;
    enum scope scope = scope_of(field[0], user);
    if (scope == SCOPE_NONE)
        return true;
    if (n == FIELDS) {
        take_limit(field, scope, l);
        return true;
    }
    if (scope == SCOPE_ALL)
        return true;
    *l = (struct run_as_limits){0};
    return false;
}
