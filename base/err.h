/* Error codes: one table of a negative code and a text each. 0 is success everywhere. */
#ifndef HAWK_BASE_ERR_H
#define HAWK_BASE_ERR_H

#define HAWK_ERRORS(X)                                                                                       \
    X(NOMEM, -1, "out of memory")                                                                            \
    X(INVALID, -2, "invalid argument")                                                                       \
    X(TOO_LARGE, -3, "larger than the named limit")                                                          \
    X(LIMIT, -4, "a table or queue is at its named limit")                                                   \
    X(NOT_FOUND, -5, "no such thing")                                                                        \
    X(EXISTS, -6, "already exists")                                                                          \
    X(NAME_TAKEN, -7, "another live node already uses this name")                                            \
    X(NOT_REGISTERED, -8, "not yet registered with central")                                                 \
    X(NO_WORKERS, -9, "the cluster has no workers")                                                          \
    X(NO_GENERAL, -10, "no general worker for a long job")                                                   \
    X(BUSY, -11, "busy: it cannot do that yet")                                                              \
    X(UNAVAILABLE, -12, "the peer cannot be reached")                                                        \
    X(DENIED, -13, "not allowed: a token or key is missing or wrong")                                        \
    X(VERSION, -14, "the peer speaks another protocol version")                                              \
    X(MALFORMED, -15, "malformed message")                                                                   \
    X(STALE, -16, "from an older epoch or attempt")                                                          \
    X(CANCELLED, -17, "cancelled")                                                                           \
    X(TIMEOUT, -18, "timed out")                                                                             \
    X(IO, -19, "input or output error")                                                                      \
    X(CORRUPT, -20, "the file is damaged or not ours")                                                       \
    X(NOT_OWNER, -21, "another node owns this job")                                                          \
    X(SHUTDOWN, -22, "shutting down")                                                                        \
    X(UNSUPPORTED, -23, "not supported")                                                                     \
    X(DRAINING, -24, "draining: it takes no new work")                                                       \
    X(NO_EXECUTOR, -25, "no executor of this application is attached here")                                  \
    X(CANNOT_START, -26, "its worker could not start it")                                                    \
    X(WRONG_USER, -27, "it does not run this user's commands")                                               \
    X(NO_TIME, -28, "it ends before the task would")

enum hawk_err {
#define X(name, code, text) HAWK_E##name = (code),
    HAWK_ERRORS(X)
#undef X
};

/* A static English text for a code; "success" for 0, "unknown error" for anything else. */
const char *hawk_strerror(int err);

#define HAWK_MUST_USE __attribute__((warn_unused_result))
/* Few calls need this function. It stays out of the one that all go through, which then needs few registers. */
#define HAWK_RARE __attribute__((noinline))
#define HAWK_PRINTF(f, a) __attribute__((format(printf, f, a)))

#endif
