/* In the agent: one user's runner. It is a spawner (exec/spawner.h) that is the user's process, started by hawk-run-
 * as, with a keeper as its parent (runas/hawk_run_as.c).
 *
 * The user can kill, stop and imitate his runner, so this file believes it nothing but what concerns the runs that
 * it was given. A runner that does not do in time what it is told (a time limit, a kill, a pause, the end of the
 * lease), or says what makes no sense, is ended with all that it started, through its keeper. Its runs end then as
 * lost, or as whoever wanted their end asked for. A pid that it names in
 * RECORD_PAUSED is used only to freeze a process of its own user (gates_take_into_freezer()). */
#ifndef HAWK_EXEC_USER_RUNNER_H
#define HAWK_EXEC_USER_RUNNER_H

#include "base/units.h"
#include "exec/exec.h"

#define RUNNER_LATE_US (5 * US_PER_S) /* a runner may be so late, on a loaded machine */

struct user_runner;

/* Starts one. c: what its runs have in common; state_dir is the directory of all users'. NULL: why says the reason.
 * It may also be ending already, until its keeper can be reaped: then why says the reason to user_runner_run(). */
struct user_runner *user_runner_start(const struct exec_config *c, const char *helper, const char *user,
                                      int64_t now_us, char why[EXEC_WHY_MAX]);
/* Finds the one that an earlier agent left, and says hello to it. If it is gone without its keeper's doing, another is
 * started that ends what it left, and then ends. NULL: there is neither. user_runner_greet() waits for
 * its answer, until deadline_us (monotonic). One that does not answer, or is not to be `kept`, is ending afterwards. */
struct user_runner *user_runner_find(const struct exec_config *c, const char *helper, const char *user,
                                     int64_t now_us);
void user_runner_greet(struct user_runner *u, int64_t now_us, int64_t deadline_us, bool kept);
/* As exec_held(); with `forget`, as exec_take_over(). */
void user_runner_held(struct user_runner *u, exec_held_fn fn, void *arg, bool forget);
/* Frees it, and leaves what runs to the next agent. */
void user_runner_free(struct user_runner *u);

const char *user_runner_name(const struct user_runner *u);
/* To be watched for reading: the socket (also for writing while it wants that; -1: closed), the keeper's pidfd, the
 * gates. */
int user_runner_fd(const struct user_runner *u);
int user_runner_keeper_fd(const struct user_runner *u);
int user_runner_gates_fd(const struct user_runner *u);
bool user_runner_wants_write(const struct user_runner *u);
void user_runner_flush(struct user_runner *u, int64_t now_us);
/* The socket is ready. */
void user_runner_on_ready(struct user_runner *u, int64_t now_us, exec_event_fn fn, void *arg);
/* A task asks to be limited. */
void user_runner_on_gate(struct user_runner *u);
/* The keeper has ended. user_runner_on_ready() comes before it. */
void user_runner_unkept(struct user_runner *u, int64_t now_us);
/* So have the runner and all that it started. */
bool user_runner_is_gone(const struct user_runner *u);
/* Of one that is gone: if its keeper was killed, starts another that ends what it left, once: its socket and its
 * keeper's pidfd are new, and it is gone again later. False: nothing is to be done, or it cannot. */
bool user_runner_clear(struct user_runner *u, const char *helper, int64_t now_us);
/* Reports what a runner that is gone still had. Free it then. */
void user_runner_gone(struct user_runner *u, exec_event_fn fn, void *arg);

/* HAWK_EINVALID, HAWK_ELIMIT: as exec_run(). HAWK_ECANNOT_START: why says more, and another worker can run it.
 * HAWK_EUNAVAILABLE: it is about to end. */
HAWK_MUST_USE int user_runner_run(struct user_runner *u, int64_t now_us, const struct msg_exec_start *m,
                                  const struct blob *proof, const char *worker, char why[EXEC_WHY_MAX]);
bool user_runner_has(const struct user_runner *u, uint32_t run);
void user_runner_kill(struct user_runner *u, int64_t now_us, uint32_t run, enum outcome outcome, bool force);
HAWK_MUST_USE int user_runner_pause(struct user_runner *u, int64_t now_us, uint32_t run);
void user_runner_resume(struct user_runner *u, int64_t now_us, uint32_t run);
/* RECORD_RESIDE, of a run of its. Its cgroups stay as long as the runner. */
void user_runner_reside(struct user_runner *u, uint32_t run);
/* RECORD_EVICT, of a pid that it has named, which means something to it alone. */
void user_runner_tell(struct user_runner *u, uint32_t type, uint32_t number);
/* False: it is no run of this runner's. */
bool user_runner_forget(struct user_runner *u, uint32_t run);
void user_runner_lease(struct user_runner *u, int64_t until_us);

/* Nothing runs, and no end is kept for another agent. */
bool user_runner_idle(const struct user_runner *u);
/* Tells it to end its tasks and itself. */
void user_runner_stop(struct user_runner *u, int64_t now_us);
/* Ends it from outside, with all that it started. */
void user_runner_end(struct user_runner *u, int64_t now_us);
bool user_runner_ending(const struct user_runner *u);
uint32_t user_runner_running(const struct user_runner *u);
/* When user_runner_on_timeout() is to be called, after user_runner_on_ready(): what came in time counts. late: the call
 * is, and what is due gets some more time. True: it did not end in time, and was given up, or it is gone. */
int64_t user_runner_next_timeout(const struct user_runner *u);
bool user_runner_on_timeout(struct user_runner *u, int64_t now_us, bool late);
/* So long neither it nor this process ran, since the machine slept. */
void user_runner_slept(struct user_runner *u, int64_t slept_us);

#endif
