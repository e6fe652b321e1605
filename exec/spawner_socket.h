/* How an agent finds the spawner that an earlier agent left behind: a lock and a socket in a directory of the
 * worker. The process that holds the lock is the worker's agent. */
#ifndef HAWK_EXEC_SPAWNER_SOCKET_H
#define HAWK_EXEC_SPAWNER_SOCKET_H

#include "base/err.h"

#define SPAWNER_SOCKET "spawner.sock"

/* Becomes the agent of dir. Returns the lock's descriptor: closing it ends that. HAWK_EEXISTS: another
 * process is the agent; HAWK_EIO; the log says why. */
HAWK_MUST_USE int spawner_socket_lock(const char *dir);
/* Connects to the spawner that listens there. -1 with errno: ENOENT or ECONNREFUSED if there is none. */
int spawner_socket_connect(const char *dir);
/* A socket that listens there, for this user alone; replaces one that is left over. -1 with errno. */
int spawner_socket_listen(const char *dir);
/* Removes the socket's name: no agent can connect any more. Call it before closing the listening socket:
 * afterwards the name may be another spawner's. */
void spawner_socket_unlist(const char *dir);

#endif
