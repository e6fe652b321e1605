/* See users.h. */
#include "ca/users.h"

#include "base/mem.h"
#include "base/units.h"
#include "ca/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "hawk users 1\n"
#define LIST "users/list"
#define WORDS 5
#define LINE_MAX_BYTES (LIMIT_NAME_BYTES + SCOPES_TEXT + 80)

/* Splits a line at its blanks. False: it has another number of words. */
static bool split_line(char *line, char *word[WORDS])
{
    char *rest = line;
    int n = 0;

    for (char *at; n < WORDS && (at = strsep(&rest, " "));)
        word[n++] = at;
    return n == WORDS && !rest;
}

static bool read_line(const char *text, size_t len, struct identity *who)
{
    char line[LINE_MAX_BYTES], *word[WORDS];
    uint64_t uid, made, until;

    *who = (struct identity){.has_uid = true};
    if (len >= sizeof line)
        return false;
    snprintf(line, sizeof line, "%.*s", (int)len, text);
    if (!split_line(line, word) || strlen(word[0]) > LIMIT_NAME_BYTES || !identity_name_fits(word[0]) ||
        u64_parse(word[1], 0, UINT32_MAX - 1, &uid) != 0 || !scopes_parse(word[2], &who->scopes) ||
        u64_parse(word[3], 0, INT64_MAX, &made) != 0 || u64_parse(word[4], 0, INT64_MAX, &until) != 0)
        return false;
    snprintf(who->name, sizeof who->name, "%s", word[0]);
    who->uid = (uint32_t)uid;
    who->made_s = (int64_t)made;
    who->until_s = (int64_t)until;
    return true;
}

static struct identity *add_user(struct users *u)
{
    vec_grow(u->v, u->n, u->cap);
    return &u->v[u->n++];
}

static bool read_list(struct users *u, const char *text)
{
    struct identity who = {0};
    const char *at = text + strlen(HEAD);
    size_t len;

    if (strncmp(text, HEAD, strlen(HEAD)) != 0)
        return false;
    for (; *at; at += len + 1) {
        len = strcspn(at, "\n");
        if (at[len] != '\n' || !read_line(at, len, &who))
            return false;
        *add_user(u) = who;
    }
    return true;
}

int users_open(struct users *u, const char *dir, bool change, char *why, size_t size)
{
    char path[PATH_MAX], *text = NULL;
    int err;

    *u = (struct users){.dir = xstrdup(dir), .lock = -1};
    if (!ca_path(path, dir, "users", why, size))
        return HAWK_EIO;
    if ((err = ca_open_dir(&u->lock, path, change, why, size)) != 0)
        return err;
    if (!ca_path(path, dir, LIST, why, size))
        return HAWK_EIO;
    err = ca_read(path, &text, why, size);
    if (err == HAWK_ENOT_FOUND)
        err = 0;
    else if (!err && !read_list(u, text))
        err = ca_complain(why, size, HAWK_ECORRUPT, path, "it is no list of users");
    free(text);
    return err;
}

struct identity *users_find(const struct users *u, const char *name)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (strcmp(u->v[i].name, name) == 0)
            return &u->v[i];
    return NULL;
}

struct identity *users_find_uid(const struct users *u, uint32_t uid)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (u->v[i].uid == uid)
            return &u->v[i];
    return NULL;
}

static int write_list(const struct users *u, char *why, size_t size)
{
    char path[PATH_MAX], scopes[SCOPES_TEXT], *text;
    size_t room = strlen(HEAD) + (size_t)u->n * LINE_MAX_BYTES + 1, len;
    int err = HAWK_EIO;

    text = xcalloc(1, room);
    len = (size_t)snprintf(text, room, HEAD);
    for (uint32_t i = 0; i < u->n; i++)
        len += (size_t)snprintf(text + len, room - len, "%s %" PRIu32 " %s %" PRId64 " %" PRId64 "\n",
                                u->v[i].name, u->v[i].uid, scopes_format(scopes, u->v[i].scopes),
                                u->v[i].made_s, u->v[i].until_s);
    if (ca_path(path, u->dir, LIST, why, size))
        err = ca_write(path, 0600, text, len, why, size);
    free(text);
    return err;
}

int users_put(struct users *u, const struct identity *who, char *why, size_t size)
{
    struct identity *at = users_find(u, who->name);

    *(at ? at : add_user(u)) = *who;
    return write_list(u, why, size);
}

void users_free(struct users *u)
{
    if (u->lock >= 0)
        close(u->lock);
    free(u->v);
    free(u->dir);
    *u = (struct users){.lock = -1};
}
