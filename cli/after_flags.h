/* --after of commands that make a job. */
#ifndef HAWK_CLI_AFTER_FLAGS_H
#define HAWK_CLI_AFTER_FLAGS_H

#include "cli/command.h"
#include "cli/session.h"

#define AFTER_FLAG_VALUE "ID,...[:ok|any|failed]"
#define AFTER_FLAG_HELP                                                                                      \
    "start when these jobs (3.17-20, last: your newest) have ended so: ok (the default), all their tasks "   \
    "are done; any, they have ended; failed, a task failed. For different ends give it again"

/* Whether the flag's values can be read. An exit code after a message. */
HAWK_MUST_USE int after_flags_check(const char *command, const struct flag_list *values);
/* Appends the jobs that the values name to `after`, after_flags_check() having found them good: `last` needs a session.
 * The caller frees `after`. An exit code after a message. */
HAWK_MUST_USE int after_flags_use(struct session *s, const struct flag_list *values,
                                  struct after_list *after);

#endif
