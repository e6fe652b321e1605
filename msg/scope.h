/* What a caller of the API may do. Which call needs what: CALL_ROUTES (msg/msg.h). */
#ifndef HAWK_MSG_SCOPE_H
#define HAWK_MSG_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

/* X(constant, text). Append only: certificates have the texts. */
#define SCOPES(X)                                                                                            \
    X(READ, "read")       /* see the cluster, and the own jobs */                                            \
    X(SUBMIT, "submit")   /* submit jobs, and cancel the own ones */                                         \
    X(OPERATE, "operate") /* others' jobs; drain, stop, policy; attach executors */                          \
    X(ADMIN, "admin")     /* users */

enum scope_number {
#define X(name, text) SCOPE_NUMBER_##name,
    SCOPES(X)
#undef X
        SCOPE_COUNT,
};

enum scope {
    SCOPE_NONE = 0,
#define X(name, text) SCOPE_##name = 1u << SCOPE_NUMBER_##name,
    SCOPES(X)
#undef X
        SCOPES_OF_USERS = SCOPE_READ | SCOPE_SUBMIT, /* unless more or less is said of a user */
    SCOPES_ALL = (1u << SCOPE_COUNT) - 1,
};

/* Room for all scopes in words. */
#define SCOPES_TEXT 40
/* Writes "read,submit" to buf, or "none", and returns it. */
const char *scopes_format(char buf[SCOPES_TEXT], unsigned scopes);
/* The scope with that name, which has len bytes; SCOPE_NONE: there is no such scope. */
enum scope scope_parse(const char *text, size_t len);
/* Reads "read,submit". False: a part of the text is no scope. */
bool scopes_parse(const char *text, unsigned *scopes);

#endif
