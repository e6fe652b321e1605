/* See sync.h. */
#include "base/sync.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

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
