/* In the agent: the keeper of a user's runner (runas/hawk_run_as.c), and starting both. */
#ifndef HAWK_EXEC_KEEPER_H
#define HAWK_EXEC_KEEPER_H

#include "exec/exec.h"

struct keeper {
    pid_t pid;
    int fd; /* its pidfd, readable once it has ended: after all that the runner started, or killed; -1: there is none */
    bool child; /* of this process */
};

/* Starts hawk-run-as for that user. *fd: this end of the runner's socket; *why_fd: what the helper says until the
 * runner runs; the caller closes both. The runner listens in dir, where the keeper is noted. HAWK_EIO, and why: it
 * cannot be used; if k->fd is set, it runs: keeper_end(), and keeper_forget() once it has ended. */
HAWK_MUST_USE int keeper_start(struct keeper *k, const char *helper, const char *user, const char *dir,
                               int *fd, int *why_fd, char why[EXEC_WHY_MAX]);
/* Finds the one that is noted in dir. HAWK_ENOT_FOUND: there is none, or it has ended. */
HAWK_MUST_USE int keeper_find(struct keeper *k, const char *dir);
/* Tells it to end all that the runner started, and itself. */
void keeper_end(const struct keeper *k);
/* Of one that has ended: it may have been killed before it ended what the runner had started. */
bool keeper_was_killed(const struct keeper *k);
/* Reaps it if it has ended. */
void keeper_forget(struct keeper *k);

/* Runs `helper check`: whether it would start anything for this process. False: why says the reason. */
bool keeper_check(const char *helper, char why[EXEC_WHY_MAX]);

#endif
