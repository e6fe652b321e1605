/* See file.h. */
#include "ca/file.h"

#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int ca_complain(char *why, size_t size, int err, const char *path, const char *what)
{
    snprintf(why, size, "%s: %s", path, what);
    return err;
}

bool ca_path(char path[PATH_MAX], const char *dir, const char *name, char *why, size_t size)
{
    int n = snprintf(path, PATH_MAX - sizeof ".new", "%s/%s", dir, name);

    if (n >= 0 && n < PATH_MAX - (int)sizeof ".new")
        return true;
    ca_complain(why, size, HAWK_EIO, dir, strerror(ENAMETOOLONG));
    return false;
}

int ca_check_roots(const char *path, const char *roots, size_t max, const char *what, char *why, size_t size)
{
    if (strlen(roots) <= max)
        return 0;
    snprintf(why, size,
             "%s: it is too large for %s (%zu KiB): keep only the roots there that certificates are still of",
             path, what, max / 1024);
    return HAWK_ETOO_LARGE;
}

int ca_open_dir(int *fd, const char *dir, bool lock, char *why, size_t size)
{
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return ca_complain(why, size, HAWK_EIO, dir, strerror(errno));
    while (lock && flock(*fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        ca_complain(why, size, HAWK_EIO, dir, strerror(errno));
        close(*fd);
        *fd = -1;
        return HAWK_EIO;
    }
    return 0;
}

int ca_put(int fd, const void *data, size_t len)
{
    int error = write_all(fd, data, len);

    if (error)
        errno = error;
    return error || fsync(fd) != 0 ? -1 : 0;
}

int ca_write(const char *path, mode_t mode, const void *data, size_t len, char *why, size_t size)
{
    char beside[PATH_MAX];
    int fd, error = 0;

    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
        return ca_complain(why, size, HAWK_EIO, path, strerror(ENAMETOOLONG));
    unlink(beside);
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 || ca_put(fd, data, len) != 0)
        error = errno;
    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    if (!error && (rename(beside, path) != 0 || sync_parent(path) != 0))
        error = errno;
    if (!error)
        return 0;
    unlink(beside);
    return ca_complain(why, size, HAWK_EIO, path,
                       error == EISDIR ? "it is a directory: name a file in it" : strerror(error));
}

int ca_read(const char *path, char **text, char *why, size_t size)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t len = 0;
    ssize_t n = 0;
    int err = 0;

    *text = NULL;
    if (fd < 0)
        return ca_complain(why, size, errno == ENOENT ? HAWK_ENOT_FOUND : HAWK_EIO, path, strerror(errno));
    *text = xcalloc(1, CA_FILE_MAX + 1);
    while (len < CA_FILE_MAX && (n = read(fd, *text + len, CA_FILE_MAX - len)) > 0)
        len += (size_t)n;
    if (n < 0)
        err = ca_complain(why, size, HAWK_EIO, standard ? "standard input" : path, strerror(errno));
    else if (len == CA_FILE_MAX || memchr(*text, '\0', len))
        err = ca_complain(why, size, HAWK_EINVALID, standard ? "standard input" : path,
                          "it is no text of less than 1 MiB");
    if (!standard)
        close(fd);
    if (err) {
        free(*text);
        *text = NULL;
    }
    return err;
}
