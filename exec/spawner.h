/* The spawner's process: a loop that starts, watches and kills tasks at the agent's request. */
#ifndef HAWK_EXEC_SPAWNER_H
#define HAWK_EXEC_SPAWNER_H

#include "exec/freezer.h"
#include "exec/signed_spec.h"

#include <stdnoreturn.h>

/* Runs the spawner in the calling process, which was forked for it, on its end of the agent's socket.
 * listen_fd: later agents connect there (exec/spawner_socket.h); -1: none can. f: the result of
 * freezer_choose(). */
noreturn void spawner_main(int fd, int listen_fd, const struct exec_config *c, const struct freezer *f);

/* The descriptors of a user's runner; the last one where it runs signed jobs alone. */
enum { RUNNER_SOCKET_FD = 3, RUNNER_LISTEN_FD = 4, RUNNER_ROOT_FD = 6 };
/* Runs the spawner in the calling process, which is a user's runner (exec/user_runner.h). reader: it runs what its user
 * has signed, and nothing else; NULL: what its agent says. */
noreturn void spawner_of_user(const struct signed_reader *reader);

#endif
