/* See invitation.h. */
#include "ca/invitation.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "ca/pem.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD "hawk invitation 1\n"
#define TIME_FORMAT "%Y-%m-%dT%H:%M:%SZ"

_Static_assert(INVITATION_ROOTS_MAX + sizeof(struct invitation) + SIGNATURE_TEXT + 256 <= INVITATION_MAX,
               "all lines have room beside the roots");

/* ---- Writing ---- */

char *invitation_write(const struct invitation *v, const struct ca_root *r)
{
    char *text = xcalloc(1, INVITATION_MAX), until[40], base64[SIGNATURE_TEXT];
    struct tm tm;
    time_t at = (time_t)v->until_s;
    int n;

    CHECK(gmtime_r(&at, &tm) && strftime(until, sizeof until, TIME_FORMAT, &tm) > 0);
    n = snprintf(text, INVITATION_MAX,
                 HEAD "role: %s\nname: %s\ncentral: %s\nuses: %" PRIu32 "\nslots: %" PRIu32
                      "\nuntil: %s\nid: %016" PRIx64 "\n%s",
                 role_text(v->role), v->name, v->central, v->uses, v->slots, until, v->id, v->roots);
    CHECK(n > 0 && n < (int)INVITATION_MAX - SIGNATURE_TEXT);
    ca_sign_text(r, text, base64);
    snprintf(text + n, INVITATION_MAX - (size_t)n, SIGNATURE_KEY "%s\n", base64);
    return text;
}

/* ---- Reading ---- */

/* Takes the line "KEY: VALUE" from *at. False: another line is there, or a longer one. */
static bool take_line(const char **at, const char *key, char *value, size_t size)
{
    size_t prefix = strlen(key), len;

    if (strncmp(*at, key, prefix) != 0 || strncmp(*at + prefix, ": ", 2) != 0)
        return false;
    *at += prefix + 2;
    len = strcspn(*at, "\n");
    if (len >= size || (*at)[len] != '\n')
        return false;
    memcpy(value, *at, len);
    value[len] = '\0';
    *at += len + 1;
    return true;
}

static bool take_number(const char **at, const char *key, uint64_t min, uint64_t max, uint32_t *value)
{
    char text[24];
    uint64_t n;

    if (!take_line(at, key, text, sizeof text) || u64_parse(text, min, max, &n) != 0)
        return false;
    *value = (uint32_t)n;
    return true;
}

static bool read_time(const char *text, int64_t *s)
{
    struct tm tm = {0};
    const char *end = strptime(text, TIME_FORMAT, &tm);

    *s = end && !*end ? (int64_t)timegm(&tm) : -1;
    return *s >= 0;
}

/* The lines before the certificates. */
static bool read_lines(struct invitation *v, const char **at)
{
    char role[16], until[40], id[24];
    struct identity who = {0};
    char *end;

    if (strncmp(*at, HEAD, strlen(HEAD)) != 0)
        return false;
    *at += strlen(HEAD);
    if (!take_line(at, "role", role, sizeof role) || !identity_set_role(&who, role) ||
        (who.role != ROLE_WORKER && who.role != ROLE_DIST))
        return false;
    v->role = who.role;
    if (!take_line(at, "name", v->name, sizeof v->name) || !invitation_pattern_good(v->name) ||
        !take_line(at, "central", v->central, sizeof v->central) ||
        !take_number(at, "uses", 1, INVITATION_USES_MAX, &v->uses) ||
        !take_number(at, "slots", 0, UINT32_MAX, &v->slots) || !take_line(at, "until", until, sizeof until) ||
        !read_time(until, &v->until_s) || !take_line(at, "id", id, sizeof id) || strlen(id) != 16)
        return false;
    v->id = strtoull(id, &end, 16);
    return !*end;
}

static int refuse(char *why, size_t size, const char *what)
{
    snprintf(why, size, "the invitation %s", what);
    return HAWK_EINVALID;
}

int invitation_read(struct invitation *v, const char *text, X509 *root, char *why, size_t size)
{
    const char *at = text, *end = strstr(text, "\n" SIGNATURE_KEY);
    char base64[SIGNATURE_TEXT];
    X509 *own;
    bool good;

    *v = (struct invitation){0};
    if (strlen(text) >= INVITATION_MAX || !end || !read_lines(v, &at) || at > end)
        return refuse(why, size, "is none, or not whole");
    v->roots = xmemdup0(at, (size_t)(++end - at));
    at = end;
    if (!take_line(&at, "signature", base64, sizeof base64) || *at)
        return refuse(why, size, "is none, or not whole");
    own = root ? NULL : pem_first(v->roots);
    if (!root && !own)
        return refuse(why, size, "holds no certificate of a root");
    good = signature_good(root ? root : own, text, (size_t)(end - text), base64);
    X509_free(own);
    return good ? 0
                : refuse(why, size,
                         root ? "is not signed by this cluster's node root"
                              : "was changed, or is not whole: its signature does not fit");
}

void invitation_free(struct invitation *v)
{
    free(v->roots);
    *v = (struct invitation){0};
}

/* ---- Names ---- */

uint64_t invitation_use(const struct invitation *v, const char *name, uint64_t key)
{
    char text[LIMIT_NAME_BYTES + 80];
    uint8_t hash[EVP_MAX_MD_SIZE];
    uint64_t use;
    int n = snprintf(text, sizeof text, "%016" PRIx64 " %016" PRIx64 " %s", v->id, key, name);

    CHECK(n > 0 && n < (int)sizeof text && EVP_Digest(text, (size_t)n, hash, NULL, EVP_sha256(), NULL) == 1);
    memcpy(&use, hash, sizeof use);
    return use;
}

bool invitation_pattern_good(const char *name)
{
    char one[LIMIT_NAME_BYTES + 1];
    char *star;

    if (strlen(name) > LIMIT_NAME_BYTES)
        return false;
    snprintf(one, sizeof one, "%s", name);
    if ((star = strchr(one, '*')))
        *star = 'x';
    return identity_name_fits(one);
}

bool invitation_fits(const struct invitation *v, const char *name)
{
    const char *star = strchr(v->name, '*');
    size_t before = star ? (size_t)(star - v->name) : 0, after = star ? strlen(star + 1) : 0,
           len = strlen(name);

    if (!star)
        return strcmp(v->name, name) == 0;
    return identity_name_fits(name) && len > before + after && strncmp(v->name, name, before) == 0 &&
           strcmp(name + len - after, star + 1) == 0;
}
