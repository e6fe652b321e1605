/* In the agent of a worker that runs commands as their users: the runners of all users, one each
 * (exec/user_runner.h). One is started for a user's first command, and leaves when it has had nothing to do for a
 * while. Run numbers are unique over all of them and the agent's own spawner (exec/exec.h), which keeps timer tasks
 * and EXEC_CHECK.
 *
 * Each has a directory, users/NAME in the agent's state_dir, in which the next agent finds it. */
#ifndef HAWK_EXEC_RUNNERS_H
#define HAWK_EXEC_RUNNERS_H

#include "exec/exec.h"

#define RUNNERS_MAX 1024u /* at a time; more: HAWK_ELIMIT */

struct runners;

/* Finds the runners that an earlier agent left, as exec_start() does: call it before the same limits are raised.
 * kept: this agent is that one's successor (exec_incarnation()); otherwise they are ended. idle_us: after so long
 * without work a runner leaves. c is copied, but for its texts. HAWK_EIO: state_dir is of no use; the log says why. */
HAWK_MUST_USE int runners_start(struct runners **out, const struct exec_config *c, const char *helper,
                                int64_t idle_us, int64_t now_us, bool kept);
/* What was taken over, as exec_held() and exec_take_over(). paths: of the files below output_dir alone. */
void runners_held(struct runners *rs, exec_held_fn fn, void *arg);
void runners_take_over(struct runners *rs, exec_held_fn fn, void *arg);

/* Watch it for reading; level-triggered. */
int runners_fd(const struct runners *rs);
void runners_on_ready(struct runners *rs, int64_t now_us, exec_event_fn fn, void *arg);
int64_t runners_next_timeout(const struct runners *rs);
void runners_on_timeout(struct runners *rs, int64_t now_us, exec_event_fn fn, void *arg);
/* Sends what is buffered: once at the end of a step. */
void runners_flush(struct runners *rs, int64_t now_us);

/* As exec_run(), for a command. proof: that of its argument, where the job is signed. HAWK_ECANNOT_START: why says
 * more, and another worker can run it. */
HAWK_MUST_USE int runners_run(struct runners *rs, int64_t now_us, const struct msg_exec_start *m,
                              const struct blob *proof, const char *worker, char why[EXEC_WHY_MAX]);
/* These return false for a run that no runner has. */
bool runners_kill(struct runners *rs, int64_t now_us, uint32_t run, enum outcome outcome, bool force);
bool runners_pause(struct runners *rs, int64_t now_us, uint32_t run, int *err);
bool runners_resume(struct runners *rs, int64_t now_us, uint32_t run);
bool runners_forget(struct runners *rs, uint32_t run);
/* As exec_reside() and exec_evict(). pid: of EXEC_STARTED. A number for the resident, which is no pid; 0: it cannot
 * become one. Its runner does not leave before it has been evicted. */
HAWK_MUST_USE uint64_t runners_reside(struct runners *rs, uint32_t run, int32_t pid);
void runners_evict(struct runners *rs, uint64_t resident);
void runners_lease(struct runners *rs, int64_t until_us);
/* Number of runs whose end has not been reported. */
uint32_t runners_running(const struct runners *rs);

/* As exec_stop() and exec_leave(). NULL is fine. */
void runners_stop(struct runners *rs);
void runners_leave(struct runners *rs);

#endif
