/* Addresses: parsing, checking, looking up. */
#include "net/addr.h"

#include "base/check.h"
#include "base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HOST_TEXT 256

bool addr_is_unix(const char *addr) { return strncmp(addr, "unix:", 5) == 0; }

/* Splits "host:port" or "[v6]:port"; host has no brackets. */
static bool split_addr(const char *addr, char host[HOST_TEXT], uint16_t *port)
{
    const char *colon = strrchr(addr, ':');
    const char *end = colon;
    uint64_t value;

    if (!colon || u64_parse(colon + 1, 0, UINT16_MAX, &value) != 0)
        return false;
    if (*addr == '[') {
        addr++;
        if (--end < addr || *end != ']')
            return false;
    } else if (memchr(addr, ':', (size_t)(end - addr))) {
        return false; /* a bare IPv6 address, or a scheme */
    }
    if (end == addr || end - addr >= HOST_TEXT)
        return false;
    memcpy(host, addr, (size_t)(end - addr));
    host[end - addr] = '\0';
    *port = (uint16_t)value;
    return true;
}

static int family_of(const char *host)
{
    struct in6_addr any;

    if (inet_pton(AF_INET, host, &any) == 1)
        return AF_INET;
    return inet_pton(AF_INET6, host, &any) == 1 ? AF_INET6 : AF_UNSPEC;
}

static bool host_name_valid(const char *host)
{
    return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == strlen(host);
}

int addr_check(const char *addr, char *why, size_t size)
{
    char host[HOST_TEXT];
    uint16_t port;
    size_t longest = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;

    if (addr_is_unix(addr)) {
        if (addr[5] == '\0') {
            snprintf(why, size, "\"%s\": a path must follow unix:", addr);
            return HAWK_EINVALID;
        }
        if (strlen(addr + 5) > longest) {
            snprintf(why, size, "\"%s\": a socket's path has at most %zu bytes", addr, longest);
            return HAWK_EINVALID;
        }
        return 0;
    }
    if (!split_addr(addr, host, &port) ||
        (*addr == '[' ? family_of(host) != AF_INET6 : !host_name_valid(host))) {
        snprintf(why, size, "\"%.300s\" is not an address: HOST:PORT, [IPV6]:PORT or unix:/PATH", addr);
        return HAWK_EINVALID;
    }
    return 0;
}

static bool sockaddr_is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

static struct addrinfo *lookup_host(const char *host, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list;

    return getaddrinfo(host, NULL, &hints, &list) == 0 ? list : NULL;
}

bool addr_is_local(const char *addr)
{
    char host[HOST_TEXT];
    uint16_t port;
    bool local = true;

    if (addr_is_unix(addr))
        return true;
    if (!split_addr(addr, host, &port))
        return false;
    if (family_of(host) == AF_UNSPEC && strcasecmp(host, "localhost") != 0)
        return false;
    struct addrinfo *list = lookup_host(host, family_of(host) == AF_UNSPEC ? 0 : AI_NUMERICHOST);
    if (!list)
        return false;
    for (struct addrinfo *a = list; a; a = a->ai_next)
        local = local && sockaddr_is_loopback(a->ai_addr);
    freeaddrinfo(list);
    return local;
}

uint16_t addr_port(const char *addr)
{
    char host[HOST_TEXT];
    uint16_t port = 0;

    if (!addr_is_unix(addr))
        CHECK(split_addr(addr, host, &port));
    return port;
}

static void join_addr(const char *host, uint16_t port, char *buf, size_t size)
{
    snprintf(buf, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
}

void addr_with_port(const char *addr, uint16_t port, char *buf, size_t size)
{
    char host[HOST_TEXT];
    uint16_t old;

    CHECK(split_addr(addr, host, &old));
    join_addr(host, port, buf, size);
}

int addr_resolve(const char *addr, char *buf, size_t buf_size, char *why, size_t size)
{
    char host[HOST_TEXT], numeric[INET6_ADDRSTRLEN + 32];
    uint16_t port;

    if (addr_is_unix(addr) || (split_addr(addr, host, &port) && family_of(host) != AF_UNSPEC)) {
        snprintf(buf, buf_size, "%s", addr);
        return 0;
    }
    CHECK(split_addr(addr, host, &port));
    struct addrinfo *list = lookup_host(host, 0);
    int rc =
        list ? getnameinfo(list->ai_addr, list->ai_addrlen, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST)
             : -1;
    if (list)
        freeaddrinfo(list);
    if (rc != 0) {
        snprintf(why, size, "%s: there is no host of the name %s", addr, host);
        return HAWK_ENOT_FOUND;
    }
    join_addr(numeric, port, buf, buf_size);
    return 0;
}

int addr_towards(const char *addr, char *buf, size_t size)
{
    char host[HOST_TEXT], numeric[INET6_ADDRSTRLEN + 32];
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    uint16_t port;

    if (addr_is_unix(addr) || !split_addr(addr, host, &port))
        return HAWK_EUNAVAILABLE;
    struct addrinfo *list = lookup_host(host, 0);
    int fd = list ? socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    /* Connecting a datagram socket sends nothing and only picks the route. Port 0 would pick none. */
    bool ok = fd >= 0 && list->ai_addrlen <= sizeof own;
    if (ok) {
        memcpy(&own, list->ai_addr, list->ai_addrlen);
        if (own.ss_family == AF_INET)
            ((struct sockaddr_in *)&own)->sin_port = htons(port ? port : 1);
        else
            ((struct sockaddr_in6 *)&own)->sin6_port = htons(port ? port : 1);
        ok = connect(fd, (struct sockaddr *)&own, list->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
             getnameinfo((struct sockaddr *)&own, len, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST) == 0;
    }
    if (fd >= 0)
        close(fd);
    if (list)
        freeaddrinfo(list);
    if (!ok)
        return HAWK_EUNAVAILABLE;
    join_addr(numeric, 0, buf, size);
    return 0;
}

static bool connects(const struct addrinfo *a, uint16_t port, int timeout_ms)
{
    struct sockaddr_storage to;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof err;
    bool ok = fd >= 0 && a->ai_addrlen <= sizeof to;

    if (ok) {
        memcpy(&to, a->ai_addr, a->ai_addrlen);
        if (to.ss_family == AF_INET)
            ((struct sockaddr_in *)&to)->sin_port = htons(port);
        else
            ((struct sockaddr_in6 *)&to)->sin6_port = htons(port);
        ok = connect(fd, (struct sockaddr *)&to, a->ai_addrlen) == 0 ||
             (errno == EINPROGRESS && poll(&p, 1, timeout_ms) == 1 &&
              getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == 0);
    }
    if (fd >= 0)
        close(fd);
    return ok;
}

bool addr_answers(const char *addr, int timeout_ms)
{
    char host[HOST_TEXT];
    uint16_t port;
    struct addrinfo *list;
    bool ok;

    if (addr_is_unix(addr) || !split_addr(addr, host, &port) || !(list = lookup_host(host, 0)))
        return false;
    ok = connects(list, port, timeout_ms);
    freeaddrinfo(list);
    return ok;
}

/* Writes an address, unless it is loopback's. */
static bool take_own(const struct sockaddr *a, socklen_t len, char *buf, size_t size)
{
    char numeric[INET6_ADDRSTRLEN + 32];

    if (sockaddr_is_loopback(a) || getnameinfo(a, len, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    join_addr(numeric, 0, buf, size);
    return true;
}

int addr_own(char *buf, size_t size)
{
    char host[HOST_TEXT] = "";
    struct addrinfo *list = gethostname(host, sizeof host - 1) == 0 ? lookup_host(host, 0) : NULL;
    struct ifaddrs *interfaces = NULL;
    bool found = false;

    for (struct addrinfo *a = list; a && !found; a = a->ai_next)
        found = take_own(a->ai_addr, a->ai_addrlen, buf, size);
    if (list)
        freeaddrinfo(list);
    if (!found && getifaddrs(&interfaces) == 0) { /* IPv6's may be link-local, which others cannot dial */
        for (struct ifaddrs *i = interfaces; i && !found; i = i->ifa_next)
            found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
                    take_own(i->ifa_addr, sizeof(struct sockaddr_in), buf, size);
        freeifaddrs(interfaces);
    }
    return found ? 0 : HAWK_EUNAVAILABLE;
}

const char *addr_first(const char *list, char addr[ADDR_TEXT])
{
    size_t len = strcspn(list, ",");

    snprintf(addr, ADDR_TEXT, "%.*s", (int)len, list);
    return list + len + (list[len] == ',');
}

void addr_target(const char *addr, char *buf, size_t size)
{
    char host[HOST_TEXT];
    uint16_t port;

    if (addr_is_unix(addr) || !split_addr(addr, host, &port)) {
        snprintf(buf, size, "%s", addr);
        return;
    }
    int f = family_of(host);
    snprintf(buf, size, "%s%s", f == AF_INET ? "ipv4:" : f == AF_INET6 ? "ipv6:" : "dns:///", addr);
}
