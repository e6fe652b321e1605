/* Tokens: see token.h. */
#include "net/token.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int token_check(const char *token, size_t len, char *why, size_t size)
{
    if (len < TOKEN_BYTES_MIN || len > TOKEN_BYTES_MAX) {
        snprintf(why, size, "a token has %d to %d characters, this one has %zu: " TOKEN_REMEDY,
                 TOKEN_BYTES_MIN, TOKEN_BYTES_MAX, len);
        return HAWK_EINVALID;
    }
    for (size_t i = 0; i < len; i++) {
        if (token[i] > ' ' && token[i] <= '~')
            continue;
        snprintf(why, size, "a token is one word of visible ASCII characters, byte %zu of this one is %s: %s",
                 i + 1,
                 token[i] == '\n'   ? "an end of line"
                 : token[i] == '\0' ? "NUL"
                                    : "none",
                 TOKEN_REMEDY);
        return HAWK_EINVALID;
    }
    return 0;
}

/* The length of the text without one end of line, which belongs to the file. */
static size_t without_line_end(const char *text, size_t len)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    return len;
}

int token_read(const char *path, bool secret, char **token, char *why, size_t size)
{
    char text[TOKEN_BYTES_MAX +
              3]; /* with room for an end of line, and for one byte that shows that it is too long */
    char wrong[256];
    struct stat st;
    FILE *f = fopen(path, "re");
    size_t len;
    int err = HAWK_EIO;

    if (!f || fstat(fileno(f), &st)) {
        snprintf(why, size, "cannot read the token file %s: %s", path, strerror(errno));
        goto out;
    }
    len = fread(text, 1, sizeof text, f);
    if (ferror(f)) {
        snprintf(why, size, "cannot read the token file %s: %s", path, strerror(errno));
        goto out;
    }
    err = HAWK_EINVALID;
    if (secret && (st.st_mode & 077)) {
        snprintf(why, size, "token file %s can be read by others: chmod 600 it", path);
        goto out;
    }
    len = without_line_end(text, len);
    if (token_check(text, len, wrong, sizeof wrong)) {
        snprintf(why, size, "token file %s: %s", path, wrong);
        goto out;
    }
    *token = xmemdup0(text, len);
    err = 0;
out:
    if (f)
        fclose(f);
    return err;
}

bool token_matches(const void *value, size_t len, const char *token)
{
    const size_t prefix = sizeof TOKEN_PREFIX - 1, want = strlen(token);
    volatile unsigned char differs = 0;

    if (len < prefix || memcmp(value, TOKEN_PREFIX, prefix) != 0)
        return false;
    const unsigned char *p = (const unsigned char *)value + prefix;
    size_t n = len - prefix;
    /* Compares every received byte with some byte of ours, whatever came before. So the time tells only
     * the length of the sent token, which its sender knows. */
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(p[i] ^ (unsigned char)token[want ? i % want : 0]);
    return differs == 0 && n == want;
}
