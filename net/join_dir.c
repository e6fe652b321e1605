/* See join_dir.h. */
#include "net/join_dir.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "hawk cluster 1\n"
#define FILE_BYTES (1u << 20)

static int HAWK_PRINTF(5, 6) complain(char *why, size_t size, int err, const char *path, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(why, size, "%s: %s", path, text);
    return err;
}

/* Whether it is this user's, and nobody else may do anything with it. */
static int check_private(const struct stat *st, const char *path, char *why, size_t size)
{
    if (st->st_uid != geteuid())
        return complain(
            why, size, HAWK_EDENIED, path,
            "it belongs to uid %u, who could make this a cluster of his own: use a directory of yours",
            (unsigned)st->st_uid);
    if ((st->st_mode & 077) != 0)
        return complain(
            why, size, HAWK_EDENIED, path,
            "other users have access to it (mode %04o), and whoever reads it may do everything in the "
            "cluster: `chmod go= %s`",
            (unsigned)st->st_mode & 07777, path);
    return 0;
}

int join_dir_check(const char *dir, char *why, size_t size)
{
    struct stat st;

    if (stat(dir, &st) != 0 && errno == ENOENT)
        return complain(why, size, HAWK_ENOT_FOUND, dir,
                        "there is no such directory: `hawk up --join-dir %s` on one machine makes it", dir);
    if (stat(dir, &st) != 0)
        return complain(why, size, HAWK_EIO, dir, "%s", strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return complain(why, size, HAWK_EIO, dir, "this is no directory");
    return check_private(&st, dir, why, size);
}

/* Takes the line "KEY: VALUE" from *at. */
static bool take_line(const char **at, const char *key, char *value, size_t size)
{
    size_t prefix = strlen(key), len;

    if (strncmp(*at, key, prefix) != 0 || strncmp(*at + prefix, ": ", 2) != 0)
        return false;
    *at += prefix + 2;
    len = strcspn(*at, "\n");
    if (len == 0 || len >= size || (*at)[len] != '\n')
        return false;
    memcpy(value, *at, len);
    value[len] = '\0';
    *at += len + 1;
    return true;
}

static bool read_lines(const char *text, struct join_dir *j)
{
    char id[24], pid[16], why[512], *end;
    const char *at = text + strlen(HEAD);
    uint64_t n;

    if (strncmp(text, HEAD, strlen(HEAD)) != 0 || !take_line(&at, "id", id, sizeof id) ||
        !take_line(&at, "host", j->host, sizeof j->host) || !take_line(&at, "pid", pid, sizeof pid) ||
        !take_line(&at, "central", j->central, sizeof j->central) ||
        !take_line(&at, "dist", j->dist, sizeof j->dist))
        return false;
    j->id = strtoull(id, &end, 16);
    if (strlen(id) != 16 || *end || u64_parse(pid, 1, INT32_MAX, &n) != 0)
        return false;
    j->pid = (uint32_t)n;
    return addr_check(j->central, why, sizeof why) == 0 && addr_check(j->dist, why, sizeof why) == 0;
}

/* Reads at most size - 1 bytes of a file, and ends them with NUL. */
static int read_private(const char *path, char *text, size_t text_size, char *why, size_t size)
{
    struct stat st;
    size_t len = 0;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return complain(why, size, errno == ENOENT ? HAWK_ENOT_FOUND : HAWK_EIO, path, "%s", strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        while ((n = read(fd, text + len, text_size - 1 - len)) > 0)
            len += (size_t)n;
    close(fd);
    text[len] = '\0';
    return n < 0 ? complain(why, size, HAWK_EIO, path, "it cannot be read")
                 : check_private(&st, path, why, size);
}

int join_dir_file(const char *path, char **text, char *why, size_t size)
{
    int err;

    *text = xcalloc(1, FILE_BYTES);
    err = read_private(path, *text, FILE_BYTES, why, size);
    if (err) {
        free(*text);
        *text = NULL;
    }
    return err;
}

int join_dir_read(const char *dir, struct join_dir *j, char *why, size_t size)
{
    char path[PATH_MAX], text[JOIN_DIR_TEXT];
    int err = join_dir_check(dir, why, size);

    *j = (struct join_dir){0};
    if (err)
        return err;
    if (snprintf(path, sizeof path, "%s/" JOIN_DIR_CLUSTER, dir) >= (int)sizeof path)
        return complain(why, size, HAWK_EIO, dir, "this path is too long");
    err = read_private(path, text, sizeof text, why, size);
    if (err == HAWK_ENOT_FOUND)
        return complain(why, size, err, dir, "no cluster is up there: start one with `hawk up --join-dir %s`",
                        dir);
    if (!err && !read_lines(text, j))
        err = complain(
            why, size, HAWK_ECORRUPT, path,
            "it is none of `hawk up`'s, or of another version: remove it, and start the cluster again");
    return err;
}

size_t join_dir_write(const struct join_dir *j, char text[JOIN_DIR_TEXT])
{
    int n =
        snprintf(text, JOIN_DIR_TEXT, HEAD "id: %016" PRIx64 "\nhost: %s\npid: %u\ncentral: %s\ndist: %s\n",
                 j->id, j->host, (unsigned)j->pid, j->central, j->dist);

    CHECK(n > 0 && n < JOIN_DIR_TEXT);
    return (size_t)n;
}

const char *join_dir_where(const struct join_dir *j, char buf[JOIN_DIR_WHERE + ADDR_TEXT])
{
    snprintf(buf, JOIN_DIR_WHERE + ADDR_TEXT, "process %u on %s, central at %s", (unsigned)j->pid, j->host,
             j->central);
    return buf;
}

bool join_dir_output(uint64_t id, const char *dir, char *path, size_t size)
{
    return (size_t)snprintf(path, size, "%s-%016" PRIx64, dir, id) < size;
}

bool join_dir_is_output(const char *name, const char *beside)
{
    size_t n = strlen(beside);

    return strncmp(name, beside, n) == 0 && name[n] == '-' && strlen(name + n) == 17 &&
           strspn(name + n + 1, "0123456789abcdef") == 16;
}
