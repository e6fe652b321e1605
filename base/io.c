/* See io.h. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t written = write(fd, (const char *)data + done, n - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

int sync_parent(const char *path)
{
    char copy[PATH_MAX];
    int fd, err;

    snprintf(copy, sizeof copy, "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    err = fsync(fd);
    close(fd);
    return err;
}

/* 0 or an errno. */
static int make_one(const char *path, mode_t mode)
{
    struct stat st;
    if (mkdir(path, mode) == 0)
        return 0;
    if (errno != EEXIST || stat(path, &st))
        return errno;
    return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

int dir_make(const char *path, mode_t mode, char *why, size_t size)
{
    char part[PATH_MAX] = "";
    if (strlen(path) >= sizeof part) {
        snprintf(why, size, "the directory's name is too long");
        return HAWK_EIO;
    }
    memcpy(part, path, strlen(path) + 1);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char end = *p;
        *p = 0;
        int err = make_one(part, mode);
        if (err) {
            snprintf(why, size, "cannot make the directory %s: %s", part, strerror(err));
            return HAWK_EIO;
        }
        *p = end;
        if (!end)
            return 0;
    }
}
