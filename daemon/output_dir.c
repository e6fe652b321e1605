/* Making, holding and removing directories for output: see output_dir.h. */
#include "daemon/output_dir.h"

#include "base/ids.h"
#include "daemon/job_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 16 /* another process may remove a new directory before we lock it: we try so often */

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static DIR *list_dir(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (copy >= 0 && !dir)
        close(copy);
    return dir;
}

static void remove_jobs(int fd)
{
    DIR *dir = list_dir(fd);
    job_id_t job;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (job_id_parse(e->d_name, &job) == 0)
            job_dir_remove(fd, e->d_name);
    if (dir)
        closedir(dir);
}

/* Whether the locked fd is still what `name` in `at` names. Another process may have removed it before we locked it. */
static bool is_still(int at, const char *name, int fd)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstatat(at, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static void remove_stale(int at, const char *name)
{
    struct stat st;
    int fd = open_dir(at, name);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        is_still(at, name, fd)) {
        remove_jobs(fd);
        unlinkat(at, name, AT_REMOVEDIR);
    }
    close(fd);
}

/* The file system knows no locks (as NFS may): then no process takes a directory there, nor ours, for left behind. */
static bool has_no_locks(int err) { return err == ENOLCK || err == EOPNOTSUPP || err == ENOSYS; }

static void remove_all_stale(const char *parent, const char *prefix)
{
    int at = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at >= 0 ? list_dir(at) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            remove_stale(at, e->d_name);
    if (dir)
        closedir(dir);
    if (at >= 0)
        close(at);
}

int output_dir_make(char *path, size_t size, int *fd)
{
    const char *parent = getenv("TMPDIR");
    char host[HOST_NAME_MAX + 1] = "";
    char prefix[HOST_NAME_MAX + 40]; /* names the user, so that we open no directory of other users */
    if (!parent || *parent != '/')
        parent = "/tmp";
    /* The directory may be shared by machines that do not see each other's locks. */
    if (gethostname(host, sizeof host - 1) < 0 || strchr(host, '/'))
        snprintf(host, sizeof host, "host");
    snprintf(prefix, sizeof prefix, "hawk-run-%s@%u-", host, (unsigned)geteuid());
    remove_all_stale(parent, prefix);
    for (int i = 0; i < TRIES; i++) {
        snprintf(path, size, "%s/%sXXXXXX", parent, prefix);
        if (!mkdtemp(path))
            return HAWK_EIO;
        *fd = open_dir(AT_FDCWD, path);
        int err = *fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (*fd >= 0 && (err == 0 || has_no_locks(err)) && is_still(AT_FDCWD, path, *fd))
            return 0;
        if (err == 0)
            err = errno;
        if (*fd >= 0)
            close(*fd);
        rmdir(path);
        errno = err;
    }
    return HAWK_EIO;
}

void output_dir_remove(const char *path, int fd)
{
    remove_jobs(fd);
    rmdir(path);
    close(fd);
}

bool output_dir_is_beside(const char *name, const char *first)
{
    size_t n = strlen(first);
    return strncmp(name, first, n) == 0 && name[n] == '-' && name[n + 1] &&
           strspn(name + n + 1, "0123456789") == strlen(name + n + 1);
}
