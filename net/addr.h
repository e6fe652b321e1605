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
/* Whether only this machine can reach an address to listen on: a unix socket, a loopback address, or
 * "localhost" where that resolves to loopback addresses only. No other host name is local. */
bool addr_is_local(const char *addr);
bool addr_is_unix(const char *addr);
/* Takes the first address of a comma separated list that is not empty. Returns the rest of the list; "": that was the
 * last address. */
const char *addr_first(const char *list, char addr[ADDR_TEXT]);
/* The port of a valid "host:port"; 0 for a unix socket. */
uint16_t addr_port(const char *addr);
/* Writes addr with another port; addr must be valid and no unix socket. */
void addr_with_port(const char *addr, uint16_t port, char *buf, size_t size);
/* Replaces a host name by its first numeric address, and copies other addresses. It looks the name up and
 * so blocks: for starting up only. HAWK_ENOT_FOUND, with a text in why. */
HAWK_MUST_USE int addr_resolve(const char *addr, char *buf, size_t buf_size, char *why, size_t size);
/* Finds the address of this machine from which it sends packets to addr; its port is 0. For a node that is
 * told only where another one is. It looks host names up and so blocks. HAWK_EUNAVAILABLE: there is no
 * route, or addr is no network address. */
HAWK_MUST_USE int addr_towards(const char *addr, char *buf, size_t size);
/* Whether something accepts connections at a "host:port", within a time. It blocks: for starting up only. */
bool addr_answers(const char *addr, int timeout_ms);
/* Finds an address of this machine that others may reach, "host:0": that of its name, else of any of its interfaces.
 * HAWK_EUNAVAILABLE: it has loopback alone. It looks the name up and so blocks. */
HAWK_MUST_USE int addr_own(char *buf, size_t size);
/* Writes gRPC's name for a valid address: "ipv4:127.0.0.1:80", "dns:///host:80", "unix:/path". */
void addr_target(const char *addr, char *buf, size_t size);

#endif
