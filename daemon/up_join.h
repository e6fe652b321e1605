/* `hawk up --join-dir DIR`: a cluster that workers on other machines join, by the files in DIR (net/join_dir.h). */
#ifndef HAWK_DAEMON_UP_JOIN_H
#define HAWK_DAEMON_UP_JOIN_H

#include "daemon/process.h"

/* Starts the cluster's daemons, waits until it is told to stop or until one ends, and stops them all. socket: where
 * this machine's clients find it besides, "unix:PATH" or "none". Returns the exit code. */
int up_join_run(struct process *p, const char *socket);

#endif
