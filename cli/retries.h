/* --retries and what goes with it. */
#ifndef HAWK_CLI_RETRIES_H
#define HAWK_CLI_RETRIES_H

#include "cli/spec.h"

/* Puts --retries, --retry-on, --retry-delay and --lost-retries into d. 0, or HAWK_EXIT_USAGE after a message. */
int retries_read(const char *command, const struct spec_options *o, struct job_desc *d);

#endif
