/* Addresses as people write them: "host:port", "[v6]:port", "unix:/path". */
#ifndef HAWK_NET_ADDR_H
#define HAWK_NET_ADDR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDR_TEXT 320 /* bytes that hold any address in its own or in gRPC's form */

/* 0, or HAWK_EINVALID with a text in why (size bytes) that names the address. */
HAWK_MUST_USE int addr_check(const char *addr, char *why, size_t size);
/* Whether an address to listen on can only be reached from this machine: a unix socket, a loopback address, or
 * "localhost" where that resolves to loopback addresses only. Any other host name is not local. */
bool addr_is_local(const char *addr);
bool addr_is_unix(const char *addr);
/* The port of a valid "host:port"; 0 for a unix socket. */
uint16_t addr_port(const char *addr);
/* Writes addr with another port; addr must be valid and no unix socket. */
void addr_with_port(const char *addr, uint16_t port, char *buf, size_t size);
/* A host name replaced by its first numeric address (this looks it up, and so blocks: for starting up only); other
 * addresses as they are. HAWK_ENOT_FOUND with a text in why. */
HAWK_MUST_USE int addr_resolve(const char *addr, char *buf, size_t buf_size, char *why, size_t size);
/* The address of this machine that its packets to addr would come from, with port 0: for who is told only where another
 * is. Looks host names up, and so blocks. HAWK_EUNAVAILABLE: no route to it, or no network address. */
HAWK_MUST_USE int addr_towards(const char *addr, char *buf, size_t size);
/* Writes gRPC's name for a valid address: "ipv4:127.0.0.1:80", "dns:///host:80", "unix:/path". */
void addr_target(const char *addr, char *buf, size_t size);

#endif
