/* Where an agent finds the spawner that an earlier one left behind: a lock and a socket in a directory of the
 * worker's own. Whoever holds the lock is the worker's agent, until its process ends. */
#ifndef HAWK_EXEC_SPAWNER_SOCKET_H
#define HAWK_EXEC_SPAWNER_SOCKET_H

#include "base/err.h"

#define SPAWNER_SOCKET "spawner.sock"

/* Becomes the agent of dir: the descriptor to close when it no longer is. HAWK_EEXISTS: another process is;
 * HAWK_EIO; the log says why. */
HAWK_MUST_USE int spawner_socket_lock(const char *dir);
/* A connection to the spawner that listens there, or -1 with errno: ENOENT or ECONNREFUSED when there is none. */
int spawner_socket_connect(const char *dir);
/* A socket to listen on there, in place of any that is left over, for this user alone; -1 with errno. */
int spawner_socket_listen(const char *dir);
/* Nobody can connect any more. Before the listening socket is closed: after that the name may be another's. */
void spawner_socket_unlist(const char *dir);

#endif
