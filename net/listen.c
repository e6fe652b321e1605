/* See listen.h. */
#include "net/listen.h"

#include "base/check.h"

#include <errno.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int listen_sockaddr(const char *addr, union sockaddr_any *sa, socklen_t *len)
{
    char host[ADDR_TEXT], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *a;

    memset(sa, 0, sizeof *sa);
    if (addr_is_unix(addr)) {
        sa->un.sun_family = AF_UNIX;
        snprintf(sa->un.sun_path, sizeof sa->un.sun_path, "%s", addr + strlen("unix:"));
        *len = sizeof sa->un;
        return 0;
    }
    snprintf(port, sizeof port, "%u", addr_port(addr));
    snprintf(host, sizeof host, "%.*s", (int)(strrchr(addr, ':') - addr), addr);
    if (host[0] == '[')
        snprintf(host, sizeof host, "%.*s", (int)(strrchr(addr, ']') - addr - 1), addr + 1);
    if (getaddrinfo(host, port, &hints, &a) != 0)
        return HAWK_EINVALID;
    memcpy(&sa->storage, a->ai_addr, a->ai_addrlen);
    *len = a->ai_addrlen;
    freeaddrinfo(a);
    return 0;
}

/* The plain form of an IPv4 address as an IPv6 socket shows it. */
static const char *plain_host(const char *host)
{
    const char *v4 = strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host;

    return strchr(v4, ':') ? host : v4;
}

void listen_peer_text(int fd, const union sockaddr_any *sa, char *buf, size_t size)
{
    char host[128], port[8];
    struct ucred who;
    socklen_t len = sizeof who;

    if (sa->sa.sa_family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
        snprintf(buf, size, "process %d of user %u on this machine", (int)who.pid, (unsigned)who.uid);
    else if (sa->sa.sa_family != AF_UNIX && getnameinfo(&sa->sa, sizeof sa->storage, host, sizeof host, port,
                                                        sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(buf, size, strchr(plain_host(host), ':') ? "[%s]:%s" : "%s:%s", plain_host(host), port);
    else
        snprintf(buf, size, "an unknown address");
}

uint32_t listen_peer_uid(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 ? who.uid : UINT32_MAX;
}

/* Whether the path is free, or its server is dead; then it removes the socket. */
static int free_path(const char *addr, const union sockaddr_any *sa, char *why, size_t size)
{
    const char *path = addr + strlen("unix:");
    struct stat st;
    int fd, rc, err;

    if (lstat(path, &st) != 0)
        return 0; /* nothing is there, or a directory is missing, which bind will report as well */
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(why, size, "%s exists and is no socket; choose another path or remove it", path);
        return HAWK_EEXISTS;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    rc = connect(fd, &sa->sa, sizeof sa->un);
    err = errno;
    close(fd);
    if (rc == 0 || err == EAGAIN) {
        snprintf(why, size, "%s is in use by another process; stop that or choose another path", addr);
        return HAWK_EEXISTS;
    }
    if (err != ECONNREFUSED || unlink(path) != 0) {
        snprintf(why, size, "%s: %s", addr, strerror(err != ECONNREFUSED ? err : errno));
        return HAWK_EIO;
    }
    return 0;
}

static int explain_error(const char *addr, int err, char *why, size_t size)
{
    if (err == EADDRINUSE) {
        snprintf(why, size, "cannot listen on %s: the port is in use; stop who has it or choose another",
                 addr);
        return HAWK_EEXISTS;
    }
    if (addr_is_unix(addr))
        snprintf(why, size, "cannot listen on %s: %s: is its directory there, and writable?", addr,
                 strerror(err));
    else
        snprintf(why, size, "cannot listen on %s: %s", addr, strerror(err));
    return HAWK_EIO;
}

int listen_check(const char *addr, char *why, size_t size)
{
    union sockaddr_any sa;
    socklen_t len;
    char dir[sizeof sa.un.sun_path];
    int err = addr_check(addr, why, size);

    if (err)
        return err;
    if (listen_sockaddr(addr, &sa, &len) != 0)
        return explain_error(addr, EINVAL, why, size);
    if ((err = free_path(addr, &sa, why, size)) != 0)
        return err;
    snprintf(dir, sizeof dir, "%s", sa.un.sun_path);
    return access(dirname(dir), W_OK | X_OK) == 0 ? 0 : explain_error(addr, errno, why, size);
}

int listen_open(const char *addr, int *fd, char *bound, char *why, size_t size)
{
    union sockaddr_any sa;
    socklen_t len;
    int err, one = 1;

    if (listen_sockaddr(addr, &sa, &len) != 0)
        return explain_error(addr, EINVAL, why, size);
    if (addr_is_unix(addr) && (err = free_path(addr, &sa, why, size)) != 0)
        return err;
    *fd = socket(sa.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return explain_error(addr, errno, why, size);
    if (setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 || bind(*fd, &sa.sa, len) != 0 ||
        listen(*fd, SOMAXCONN) != 0) {
        err = errno;
        close(*fd);
        return explain_error(addr, err, why, size);
    }
    snprintf(bound, ADDR_TEXT, "%s", addr);
    if (!addr_is_unix(addr)) {
        CHECK(getsockname(*fd, &sa.sa, &len) == 0);
        addr_with_port(addr, ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port), bound, ADDR_TEXT);
    }
    return 0;
}

int listen_for_all(const char *addr, char *why, size_t size)
{
    if (chmod(addr + strlen("unix:"), 0666) == 0)
        return 0;
    snprintf(why, size, "%s cannot be opened to all users: %s", addr, strerror(errno));
    return HAWK_EIO;
}

void listen_close(const char *addr, int fd)
{
    close(fd);
    if (addr_is_unix(addr))
        unlink(addr + strlen("unix:"));
}
