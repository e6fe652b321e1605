/* Tokens, which a cluster's clients and nodes show with every call (docs/guide.md, "Tokens"). */
#ifndef HAWK_NET_TOKEN_H
#define HAWK_NET_TOKEN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_BYTES_MIN 16 /* shorter ones can be guessed over the network */
#define TOKEN_BYTES_MAX 1024
/* How to make a token, for error messages. */
#define TOKEN_REMEDY "make one with `head -c 32 /dev/urandom | base64`"

/* 0, or HAWK_EINVALID; why (size bytes) then says what is wrong and what to do: too short, too long, or
 * with bytes other than visible ASCII, which a header cannot carry. Code that gets a token from a user
 * checks it first, and never sends one that fails. */
HAWK_MUST_USE int token_check(const char *token, size_t len, char *why, size_t size);
/* Reads a file that holds one token, which may end in a newline; free(*token). secret: refuses a file that
 * others than its owner can read. HAWK_EIO, or HAWK_EINVALID; why names the file and what to do. */
HAWK_MUST_USE int token_read(const char *path, bool secret, char **token, char *why, size_t size);
#define TOKEN_PREFIX "Bearer "
/* Whether the value of an "authorization" header, of len bytes, is "Bearer TOKEN". The comparison takes the same time
 * wherever they differ. */
bool token_matches(const void *value, size_t len, const char *token);

#endif
