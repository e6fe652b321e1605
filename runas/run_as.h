/* The parts of hawk-run-as that need no privilege: its configuration, its decision, and users' limits. */
#ifndef HAWK_RUNAS_RUN_AS_H
#define HAWK_RUNAS_RUN_AS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The build names another path for tests; neither the environment nor an argument can. */
#ifndef RUN_AS_CONF
#define RUN_AS_CONF "/etc/hawk/run-as.conf"
#endif

#define RUN_AS_LIMITS "/etc/security/limits.conf"
#define RUN_AS_CONF_MAX 16384 /* bytes of the configuration */
#define RUN_AS_CALLERS 16     /* names of callers in it */
#define RUN_AS_NAME_MAX 256   /* bytes of a user's name, with its NUL */
#define RUN_AS_WHY_MAX 512
#define RUN_AS_SAYS "hawk-run-as: "            /* begins what it writes to stderr, */
#define RUN_AS_REFUSES RUN_AS_SAYS "refused: " /* and its refusals */
#define RUN_AS_OVERFLOW_UID 65534u             /* stands for users of other user namespaces */

struct run_as_config {
    const char *hawk;      /* the program that users' runners are; absolute */
    const char *user_root; /* the user root's certificate, absolute; NULL: runners need no signature */
    const char *limits;    /* the file of users' limits, absolute; NULL: users' tasks have the worker's */
    const char *callers[RUN_AS_CALLERS];
    unsigned callers_n;
    uid_t lowest_uid;
    bool allow_root;
};

/* Reads the configuration's text, which must have a NUL behind its len bytes, and is changed: c points into it. False:
 * why says what is wrong, with the line. */
bool run_as_parse(char *text, size_t len, struct run_as_config *c, char why[RUN_AS_WHY_MAX]);

/* Whether this can be a user's name at all. */
bool run_as_is_name(const char *name);

/* Why tasks must not run as that user; NULL: they may. caller: the uid of who asks. */
const char *run_as_refusal(const struct run_as_config *c, uid_t uid, gid_t gid, uid_t caller);

struct run_as_user {
    const char *name;
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* all of them */
    int groups_n;
};

struct run_as_limit {
    rlim_t value;
    int scope; /* 0: not set; else whom the line that set it is for: enum scope of limits.c */
};

struct run_as_limits {
    struct run_as_limit soft[RLIM_NLIMITS], hard[RLIM_NLIMITS]; /* by resource, as setrlimit() has it */
};

/* Takes a line of limits.conf(5), which it changes, as PAM does: one for the user himself counts more than one for a
 * group of his, that more than one for everybody, and the later more than the one before; root has those with his name
 * alone. What says nothing about a process's limits is skipped. False: the user has no limits, whatever follows. */
bool run_as_limits_line(char *line, const struct run_as_user *user, struct run_as_limits *l);

#endif
