/* The spawner's process: the loop that starts, watches and kills tasks on the agent's word. */
#ifndef HAWK_EXEC_SPAWNER_H
#define HAWK_EXEC_SPAWNER_H

#include "exec/freezer.h"

#include <stdnoreturn.h>

/* Runs the spawner in the calling process, which was forked for it, on its end of the agent's socket. listen_fd: where
 * later agents connect (exec/spawner_socket.h), or -1: none can. f: as freezer_choose left it. */
noreturn void spawner_main(int fd, int listen_fd, const struct exec_config *c, const struct freezer *f);

#endif
