/* See io.h. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
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
