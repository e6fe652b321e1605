/* In a user's runner: reads jobs as their user signed them (exec/signed_spec.h), by net/submission.h. */
#ifndef HAWK_DAEMON_SIGNED_SPEC_H
#define HAWK_DAEMON_SIGNED_SPEC_H

#include "exec/signed_spec.h"

#include <stdnoreturn.h>

/* Reads the user root's certificate (PEM), and closes fd. For the life of this process. NULL: why says what is
 * wrong. */
const struct signed_reader *signed_reader_new(int fd, char why[SIGNED_SPEC_WHY]);

/* A user's runner that runs what its user signed alone, as hawk-run-as starts it (exec/spawner.h). */
noreturn void signed_spawner(void);

#endif
