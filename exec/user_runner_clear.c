/* What a user's runner left that was killed together with its keeper: see user_runner.h. The agent cannot end it. A
 * runner can: the first thing that each does is to end its user's tasks whose spawner lives no more. */
#include "exec/user_runner_impl.h"

#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEARING_US (30 * US_PER_S) /* until it must have answered the hello */

int user_runner_begin_clearing(struct user_runner *u, const char *helper, int64_t now_us)
{
    char dir[PATH_MAX], why[EXEC_WHY_MAX] = "";
    int err;

    u->cleared = true;
    /* Not in u->dir: there a newer runner of this user may be noted, and listen. */
    snprintf(dir, sizeof dir, "%.4000s/clearing", u->dir);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        log_warn("%s: %s", dir, strerror(errno));
        return HAWK_EIO;
    }
    err = keeper_start(&u->keeper, helper, u->user, dir, &u->fd, &u->why_fd, why);
    if (err)
        log_warn("what the runner of user %s left cannot be ended: %s", u->user, why);
    if (err && u->keeper.fd < 0)
        return HAWK_EIO;
    u->state = CLEARING;
    u->answer_us = now_us + CLEARING_US;
    if (err) {
        user_runner_end(u, now_us);
        return 0;
    }
    takeover_hello(&u->out, u->config, true);
    user_runner_flush(u, now_us);
    return 0;
}

void user_runner_end_clearing(struct user_runner *u, int64_t now_us)
{
    if (u->why_fd >= 0)
        close(u->why_fd);
    u->why_fd = -1;
    user_runner_end(u, now_us);
}

bool user_runner_clear(struct user_runner *u, const char *helper, int64_t now_us)
{
    if (u->cleared || !u->commands || u->why_fd >= 0 || !keeper_was_killed(&u->keeper))
        return false;
    log_warn("the runner of user %s and its keeper were killed: ending what they left", u->user);
    limits_leftovers(u->keeper.pid);
    keeper_forget(&u->keeper);
    return user_runner_begin_clearing(u, helper, now_us) == 0;
}
