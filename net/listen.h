/* Opens a listening socket. */
#ifndef HAWK_NET_LISTEN_H
#define HAWK_NET_LISTEN_H

#include "base/err.h"
#include "net/addr.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

union sockaddr_any {
    struct sockaddr sa;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

/* Listens on a numeric address or a unix socket, without blocking. It replaces a unix socket whose server
 * is dead. *fd is the caller's; bound (ADDR_TEXT bytes) is the address with its real port. HAWK_EEXISTS
 * (in use) or HAWK_EIO, and a text in why. */
HAWK_MUST_USE int listen_open(const char *addr, int *fd, char *bound, char *why, size_t size);
/* Whether listen_open can listen on the unix socket, as far as can be told without it: so that what it would refuse is
 * told before anything is made. It removes a socket whose server is dead. Errors as above, or HAWK_EINVALID: the path
 * is too long. */
HAWK_MUST_USE int listen_check(const char *addr, char *why, size_t size);
/* Lets every user of this machine connect to the unix socket that listens there. HAWK_EIO, and a text in why. */
HAWK_MUST_USE int listen_for_all(const char *addr, char *why, size_t size);
/* Closes the socket, and removes a unix socket's file. */
void listen_close(const char *addr, int fd);
/* A numeric address or unix socket as the kernel takes it. */
HAWK_MUST_USE int listen_sockaddr(const char *addr, union sockaddr_any *sa, socklen_t *len);
/* The uid of whoever is connected to fd, a unix socket; UINT32_MAX: the kernel does not say. */
uint32_t listen_peer_uid(int fd);
/* Writes for people who is connected to fd from sa: "10.0.0.7:4711", or the process behind a unix socket. */
void listen_peer_text(int fd, const union sockaddr_any *sa, char *buf, size_t size);

#endif
