/* Running tasks. A small process of its own, the spawner, opens output files, starts, reaps and kills
 * commands; this is the side of the agent (a worker's process), which only writes requests and reads
 * results and never blocks on a task (DESIGN 3, rule 10). PAYLOAD_TIMER tasks are kept in this process
 * and need no spawner.
 *
 * A run is one try of one task here, numbered by the caller; its life is exec_run, MSG_EXEC_STARTED (left
 * out when it could not start), MSG_EXEC_EXITED exactly once. The events come out of exec_on_ready
 * (commands) and exec_on_timeout (timers), never out of exec_run or exec_kill. One thread only.
 *
 * The spawner outlives an agent that dies, or that leaves it behind on purpose (exec_leave): what runs goes on, and
 * how it ends is kept. The next agent with the same state_dir takes it over within the orphan grace; otherwise
 * everything is thawed and killed then. Timer tasks die with their agent.
 *
 * What a task gets: a process group of its own in the spawner's session (no terminal), the job's
 * directory and umask, the job's environment (the agent's own when the job gives none, without HAWK_TOKEN*), plus
 * HAWK_JOB_ID, HAWK_JOB_NAME, HAWK_TASK_INDEX (first_index + task), HAWK_INPUT (its argument, else its index),
 * HAWK_TASK_COUNT, HAWK_ATTEMPT, HAWK_WORKER and HAWK_RUN (of the spawner's own use); the job's input or /dev/null as stdin; no other
 * descriptor. {} in argv is replaced by the task's argument wherever it stands, which is appended when it
 * stands nowhere. The program is looked up in the job's PATH. When the group's leader ends, what is left
 * in the group is killed, and the run's end is told when all of it is gone. Descendants that left the group are found
 * by HAWK_RUN in their environment and killed within STRAY_SWEEP_US of the run's end. One that wiped its environment
 * and has lost its parent may be of any run that had started before it: when none of those is left it gets SIGTERM, and
 * SIGKILL after the grace, with its descendants. (One that forks faster than it is looked for gets away until the spawner
 * stops; a cgroup would close that gap.)
 *
 * What could not be started for a reason of this machine's (its directory or output file, a full disk, no memory, process
 * or descriptor) is OUTCOME_LOST with the code HAWK_ECANNOT_START: nothing ran, and another machine may start it. For a
 * reason of its own (no such program, not executable, arguments too long) it is OUTCOME_NOT_STARTED, 127 or 126. An
 * output file that was opened is the task's: a write that fails is an error of the task, which sees ENOSPC and decides what
 * it means. */
#ifndef HAWK_EXEC_EXEC_H
#define HAWK_EXEC_EXEC_H

#include "base/err.h"
#include "msg/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define EXEC_SEND_MAX (256u << 20) /* bytes buffered for the spawner; beyond: HAWK_ELIMIT */
#define EXEC_PATH_MAX 4096         /* bytes that hold any output path */

struct exec;

/* How tasks are paused. Of those that work, AUTO takes the last one above. */
enum exec_freezer {
    EXEC_FREEZER_OFF, /* they are not */
    EXEC_FREEZER_SIGNAL,
    EXEC_FREEZER_CGROUP1,
    EXEC_FREEZER_CGROUP2,
    EXEC_FREEZER_AUTO,
};
const char *exec_freezer_name(enum exec_freezer m); /* as worker.freezer has it */
enum exec_freezer exec_freezer_of(const char *name);
const char *exec_freezer_text(enum exec_freezer m); /* a sentence for people: how, and what it misses */

struct exec_config {
    const char *worker;     /* this node's name: %w, HAWK_WORKER; "" before it is known */
    const char *output_dir; /* absolute; made when missing. Where output goes for which a job names no file */
    bool group_reads;       /* what lies there is 0640 in 2750, not 0600 in 0700 */
    uint64_t
        output_free_min; /* bytes; a task that writes there does not start with less room on its disk; 0: it does */
    int64_t kill_grace_us;   /* from SIGTERM to SIGKILL */
    int64_t orphan_grace_us; /* how long tasks may outlive this process; below the lease */
    uint32_t max_running;    /* runs at once; beyond: HAWK_ELIMIT */
    enum exec_freezer freezer;
    uint64_t pause_free_mem; /* bytes; with less memory available no task is paused */
    /* A directory of this agent's own, absolute and there already, where the next agent finds the spawner that this
     * one leaves behind. NULL: nobody takes anything over. */
    const char *state_dir;
    uint64_t incarnation; /* names the spawner; see exec_incarnation */
};

/* The defaults: no least room, 2 s, 10 s, 2 * LIMIT_SLOTS (paused ones hold none), no freezer, no state_dir; worker and output_dir as given (kept by reference until
 * exec_start). */
void exec_config_init(struct exec_config *c, const char *worker, const char *output_dir);

/* Called with MSG_EXEC_STARTED (pid 0: a timer), MSG_EXEC_EXITED, MSG_EXEC_PAUSED and MSG_EXEC_CHECKED; m is borrowed. It may call exec_run
 * and exec_kill. EXEC_EXITED.result is a text for people when the run did not start or was lost, else
 * NULL. */
typedef void (*exec_event_fn)(void *arg, const struct msg *m);

/* Forks the spawner; call it before any thread exists, and before raising limits that tasks must not
 * inherit. With a state_dir it first looks for the spawner that an agent before this one left there, and takes
 * that over with what it runs; one with nothing to hand over, or of another version, is replaced (of another
 * version: when its grace is over, for which this waits). Copies c. HAWK_EINVALID (no absolute output_dir),
 * HAWK_EEXISTS (another agent uses the state_dir), HAWK_EIO (no process, descriptors or socket to be had); with a
 * state_dir the log says what is in the way. */
HAWK_MUST_USE int exec_start(struct exec **out, const struct exec_config *c);

/* Who the tasks' agents are, one after the other: the config's incarnation, or that of the agent whose spawner was
 * taken over. What carries it knows of every task that earlier ones started here. */
uint64_t exec_incarnation(const struct exec *e);

/* What was taken over: MSG_EXEC_LEASE if a lease was told, then MSG_EXEC_HELD for every run, in the order they were
 * started; paths are its stdout's and stderr's files, NULL where there is none. Borrowed. */
typedef void (*exec_held_fn)(void *arg, const struct msg *m, const char *const paths[2]);

/* Reports that. Those that run end like others do, but only after exec_take_over: the same, once, before anything else
 * is asked of e, and followed by an exec_on_ready. */
void exec_held(const struct exec *e, exec_held_fn fn, void *arg);
void exec_take_over(struct exec *e, exec_held_fn fn, void *arg);

/* Watch it for reading, and for writing while exec_want_write; level-triggered. */
int exec_fd(const struct exec *e);

/* Reads what is there and reports it. HAWK_EUNAVAILABLE: the spawner is gone; every command that ran has
 * been reported as OUTCOME_LOST and its group killed, and commands are refused from now on. Stop watching
 * the fd. */
HAWK_MUST_USE int exec_on_ready(struct exec *e, exec_event_fn fn, void *arg);

/* Asks for the run that EXEC_START describes; takes references of its own. now_us is the caller's clock, as given to
 * exec_on_timeout. worker: whose run it is, for HAWK_WORKER and %w, where several share this process, else NULL:
 * config.worker. Commands are only buffered: call exec_flush once when the step
 * is over. On an error no event follows: HAWK_EEXISTS (run number in use), HAWK_ELIMIT (max_running,
 * EXEC_SEND_MAX), HAWK_EUNAVAILABLE (no spawner), HAWK_EUNSUPPORTED (PAYLOAD_APP), HAWK_EINVALID (a
 * timer's duration, no argv). */
HAWK_MUST_USE int exec_run(struct exec *e, int64_t now_us, const struct msg_exec_start *m,
                           const char *worker);

/* SIGTERM to the run's group, SIGKILL after the grace; force: SIGKILL at once. The run ends with that outcome
 * unless it has ended already. Unknown runs are ignored (the exit is under way). */
void exec_kill(struct exec *e, uint32_t run, enum outcome outcome, bool force);

/* Freezes the run with all that it started; the first MSG_EXEC_PAUSED or MSG_EXEC_EXITED of it is the answer. HAWK_EBUSY:
 * there is too little memory, the freeze was not confirmed in time, or the run is being killed or was resumed. The time
 * that it stands still is not in its run_us, and its time limit does not run. When this process or the spawner is gone,
 * it is thawed. HAWK_EUNSUPPORTED, and nothing follows: no such run, no freezer, or the spawner is of an older version. */
HAWK_MUST_USE int exec_pause(struct exec *e, int64_t now_us, uint32_t run);
/* Thaws it. exec_kill does as well. Nothing happens to a run that was not paused. */
void exec_resume(struct exec *e, int64_t now_us, uint32_t run);
/* What pauses commands here. */
enum exec_freezer exec_freezer_in_force(const struct exec *e);

/* The run has ended, and nobody will ask for its end again. Only with a state_dir, where ends are kept until then. */
void exec_forget(struct exec *e, uint32_t run);

/* From until_us (CLOCK_BOOTTIME) on nothing may run that belongs to central, whatever has become of this process by
 * then: the spawner kills it, as OUTCOME_LOST. */
void exec_lease(struct exec *e, int64_t until_us);

/* Asks whether tasks could be started, also in that place (EXEC_CHECK; NULL: none): MSG_EXEC_CHECKED follows, but not from a
 * spawner that was taken over from an older version. */
void exec_check(struct exec *e, const struct blob *place);

/* Sends what is buffered as far as the socket takes it. HAWK_EUNAVAILABLE: the spawner is gone;
 * exec_on_ready tells. */
HAWK_MUST_USE int exec_flush(struct exec *e);
bool exec_want_write(const struct exec *e);

/* When exec_on_timeout wants to be called next (the caller's clock), or TIME_NEVER. Ask after every exec_
 * call. */
int64_t exec_next_timeout(const struct exec *e);
/* Reports timer tasks that started or ended by now_us. */
void exec_on_timeout(struct exec *e, int64_t now_us, exec_event_fn fn, void *arg);

/* Runs that have not been reported as ended. */
uint32_t exec_running(const struct exec *e);

/* Stops in good order: every task's group gets SIGTERM, SIGKILL after the grace, then the spawner ends.
 * Blocks until it has (at most the grace and a few seconds; the spawner and all groups are killed then).
 * Reports nothing. NULL is fine. */
void exec_stop(struct exec *e);

/* Leaves everything to the next agent, as dying does: what runs goes on for the orphan grace. Frees e. */
void exec_leave(struct exec *e);

/* Where a try's stdout (which = 1) or stderr (2) goes: an absolute path, "/dev/null" for the pattern
 * "none". d NULL: the default place, <output_dir>/<job>/<task>.out and .err, <task>.<attempt>.out when
 * attempt > 1. HAWK_EINVALID: a placeholder that does not exist; HAWK_ETOO_LARGE. */
HAWK_MUST_USE int exec_output_path(const struct exec_config *c, const struct try_id *id,
                                   const struct job_desc *d, int which, char *buf, size_t size);

/* Whether what tasks write below dir may be cut short, since there is hardly any room on its disk. */
bool exec_disk_full(const char *dir);

/* The mode bit by which the spawner marks an output file below output_dir whose disk was full when its task ended: what the
 * task wrote there may be cut short. On a file the sticky bit means nothing else, and setting it takes no room. */
#define EXEC_OUTPUT_CUT S_ISVTX

#endif
