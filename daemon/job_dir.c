/* See job_dir.h. */
#include "daemon/job_dir.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

DIR *job_dir_open(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

struct dirent *job_dir_next(DIR *dir)
{
    struct dirent *e;

    do
        e = readdir(dir);
    while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
    return e;
}

void job_dir_remove(int at, const char *name)
{
    DIR *dir = job_dir_open(at, name);

    for (struct dirent *e; dir && (e = job_dir_next(dir));)
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    unlinkat(at, name, AT_REMOVEDIR);
}
