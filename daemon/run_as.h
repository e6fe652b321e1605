/* Whose commands a worker runs, and as whom (worker.run_as). */
#ifndef HAWK_DAEMON_RUN_AS_H
#define HAWK_DAEMON_RUN_AS_H

#include "daemon/process.h"

#include <limits.h>

enum run_as {
    RUN_AS_UNKNOWN,
    RUN_AS_OWN,  /* those of this process's user alone */
    RUN_AS_ANY,  /* everybody's, as this process's user */
    RUN_AS_USER, /* everybody's, each as its user, through hawk-run-as */
};

struct run_as_mode {
    enum run_as mode;
    struct caller own;     /* this process's user */
    char helper[PATH_MAX]; /* RUN_AS_USER: hawk-run-as */
};

/* Decides; runners: this daemon can have runners of users. Call it before any thread exists. HAWK_EINVALID: what is
 * configured cannot be; the log says why. */
HAWK_MUST_USE int run_as_choose(const struct process *p, bool runners, struct run_as_mode *m);
/* The user whose commands alone run here; NULL: everybody's. */
const char *run_as_serves(const struct run_as_mode *m);
/* A sentence for people. */
const char *run_as_text(enum run_as mode);
/* The mode's name in the setting worker.run_as. */
const char *run_as_name(enum run_as mode);
/* Notes the mode in force in a file in state_dir, and reads what was noted last. */
void run_as_note(const char *state_dir, enum run_as mode);
enum run_as run_as_noted(const char *state_dir);

#endif
