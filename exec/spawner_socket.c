/* The lock and the socket: see spawner_socket.h. */
#include "exec/spawner_socket.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCK_NAME "agent.lock"
#define BACKLOG 4

int spawner_socket_lock(const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, err = HAWK_EIO;

    if (dir_fd >= 0)
        fd = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        log_error("%s/" LOCK_NAME ": %s", dir, strerror(errno));
    } else if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        err = 0;
    } else if (errno == EWOULDBLOCK) {
        log_error("another process holds %s/" LOCK_NAME, dir);
        err = HAWK_EEXISTS;
    } else {
        log_error("%s/" LOCK_NAME ": cannot be locked: %s", dir, strerror(errno));
    }
    if (dir_fd >= 0)
        close(dir_fd);
    if (err && fd >= 0)
        close(fd);
    return err ? err : fd;
}

/* The socket's address goes through the directory's descriptor, because a path may be longer than an
 * address. */
static int address(const char *dir, struct sockaddr_un *a)
{
    int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (dir_fd >= 0)
        snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/" SPAWNER_SOCKET, dir_fd);
    return dir_fd;
}

static int done(int dir_fd, int fd, bool ok)
{
    int err = errno;

    if (dir_fd >= 0)
        close(dir_fd);
    if (!ok && fd >= 0)
        close(fd);
    errno = err;
    return ok ? fd : -1;
}

int spawner_socket_connect(const char *dir)
{
    struct sockaddr_un a;
    int dir_fd = address(dir, &a), fd = -1;

    if (dir_fd >= 0)
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return done(dir_fd, fd, fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
}

int spawner_socket_listen(const char *dir)
{
    struct sockaddr_un a;
    int dir_fd = address(dir, &a), fd = -1;
    bool ok = false;
    mode_t mask;

    if (dir_fd >= 0)
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (unlinkat(dir_fd, SPAWNER_SOCKET, 0) == 0 || errno == ENOENT)) {
        mask = umask(0177);
        ok = bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
        umask(mask);
        ok = ok && listen(fd, BACKLOG) == 0;
    }
    return done(dir_fd, fd, ok);
}

void spawner_socket_unlist(const char *dir)
{
    int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd < 0)
        return;
    unlinkat(dir_fd, SPAWNER_SOCKET, 0);
    close(dir_fd);
}
