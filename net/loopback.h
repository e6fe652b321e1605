/* Whose the other end of a TCP connection inside this machine is. Private to net/, but for loopback_tells(). */
#ifndef HAWK_NET_LOOPBACK_H
#define HAWK_NET_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the kernel says it here: in some sandboxes it does not. Asks once. */
bool loopback_tells(void);
/* The uid of the process that connected to fd, which was accepted. False: that is not known, as when it has closed its
 * end, or is not of this network namespace. */
bool loopback_uid(int fd, uint32_t *uid);

#endif
