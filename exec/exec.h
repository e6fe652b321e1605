/* Running tasks. A small process of its own, the spawner, opens output files, and starts, reaps and kills
 * commands. This file is the side of the agent (a worker's process): it only writes requests and reads
 * reports, and never blocks on a task (DESIGN 3.10). PAYLOAD_TIMER tasks run in this process and need
 * no spawner.
 *
 * A run is one try of one task here, with a number from the caller. Its life is exec_run(), MSG_EXEC_STARTED
 * (left out if it could not start), MSG_EXEC_EXITED exactly once. Events come out of exec_on_ready()
 * (commands) and exec_on_timeout() (timers), never out of exec_run() or exec_kill(). One thread only.
 *
 * The spawner outlives an agent that dies, or that leaves it behind on purpose (exec_leave()): its tasks go
 * on, and it keeps their ends; what was frozen it thaws at once. The next agent with the same state_dir takes it over
 * within the orphan grace. If none does, the spawner kills everything. Timer tasks die with their agent.
 *
 * A task gets a process group of its own in the spawner's session (without a terminal); the job's directory
 * and umask; the job's environment (the agent's own if the job has none, without HAWK_TOKEN*), with
 * HAWK_JOB_ID, HAWK_JOB_NAME, HAWK_TASK_INDEX (first_index + task), HAWK_INPUT (its argument, else its
 * index), HAWK_TASK_COUNT, HAWK_ATTEMPT, HAWK_WORKER, HAWK_WORKER_SOCKET and HAWK_RUN (for the spawner
 * itself); the job's input or /dev/null as stdin; no other descriptor. The task's argument replaces each {}
 * in argv; without {} it is appended. The job's PATH finds the program.
 *
 * When the group's leader ends, the spawner kills the rest of the group, and reports the run's end when all
 * of it is gone. It finds descendants that left the group by HAWK_RUN in their environment, and kills them
 * within STRAY_SWEEP_US of the run's end. One that wiped its environment and lost its parent may descend from
 * any run that had started before it did: when none of those is left, it gets SIGTERM, and SIGKILL after the
 * grace, with its descendants. (One that forks faster than the spawner looks gets away until the spawner
 * stops. A cgroup would close that gap.)
 *
 * A task that could not start for a reason of this machine (its directory or output file; a full disk; no
 * memory, process or descriptor) ends as OUTCOME_LOST with the code HAWK_ECANNOT_START: it never ran, and
 * another machine may start it. For a reason of the task (no such program, not executable, arguments too
 * long) it ends as OUTCOME_NOT_STARTED, 127 or 126. An output file that was opened is the task's: if a write
 * fails, the task sees ENOSPC and decides what it means. */
#ifndef HAWK_EXEC_EXEC_H
#define HAWK_EXEC_EXEC_H

#include "base/err.h"
#include "msg/msg.h"
#include "template/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define EXEC_SEND_MAX (256u << 20)      /* most bytes buffered for the spawner; more: HAWK_ELIMIT */
#define EXEC_PATH_MAX 4096              /* bytes of the longest output path */
#define EXEC_CONFIRM_US INT64_C(500000) /* a pause that takes longer to begin is undone */

struct exec;

/* A task whose output somebody reads. RUN_UNKNOWN: this process has not started it, or has forgotten it. */
enum run_state { RUN_UNKNOWN, RUN_ON, RUN_ENDED };

/* How tasks are paused. AUTO chooses the last of these that works here. */
enum exec_freezer {
    EXEC_FREEZER_OFF, /* not at all */
    EXEC_FREEZER_SIGNAL,
    EXEC_FREEZER_CGROUP1,
    EXEC_FREEZER_CGROUP2,
    EXEC_FREEZER_AUTO,
};
const char *exec_freezer_name(enum exec_freezer m); /* its name in the setting worker.freezer */
enum exec_freezer exec_freezer_of(const char *name);
/* A sentence for people: how it works, and what it misses. */
const char *exec_freezer_text(enum exec_freezer m);

struct exec_config {
    const char *worker;     /* this node's name: %w, HAWK_WORKER; "" before it is known */
    const char *output_dir; /* absolute; made if missing. Output goes there if the job names no file */
    bool group_reads;       /* files there have mode 0640 in 2750, not 0600 in 0700 */
    bool drops_empty;       /* a task's end removes those there that are empty, and notes that */
    /* bytes; with less room on output_dir's disk no task that writes there starts; 0: no such check. */
    uint64_t output_free_min;
    int64_t kill_grace_us;   /* from SIGTERM to SIGKILL */
    int64_t orphan_grace_us; /* how long tasks may outlive this process; below the lease */
    uint32_t max_running;    /* runs at a time; more: HAWK_ELIMIT */
    enum exec_freezer freezer;
    uint64_t pause_free_mem; /* bytes; with less available memory no task is paused */
    const char *executors;   /* where executors attach: tasks' HAWK_WORKER_SOCKET; NULL: they have none */
    /* A directory of this agent alone, absolute and existing, in which the next agent finds the spawner that
     * this one leaves behind. NULL: nobody takes the spawner over. */
    const char *state_dir;
    const char *serves;   /* commands of that user alone may run; NULL: everybody's */
    bool as_users;        /* commands run as their users, in runners (exec/runners.h) */
    uint64_t soft_files;  /* a user's runner's soft limit on open files; 0: as it is */
    uint64_t incarnation; /* names the spawner: see exec_incarnation() */
};

/* The defaults: no executors, no least room, 2 s, 10 s, 2 * LIMIT_SLOTS runs (paused runs hold no slot), no freezer, no
 * state_dir. Keeps worker, output_dir and executors by reference until exec_start(). */
void exec_config_init(struct exec_config *c, const char *worker, const char *output_dir);

/* Called with MSG_EXEC_STARTED (pid 0: a timer), MSG_EXEC_EXITED, MSG_EXEC_PAUSED and MSG_EXEC_CHECKED; m is
 * borrowed. It may call exec_run() and exec_kill(). EXEC_EXITED.result is a text for people if the run did
 * not start or was lost, else NULL. EXEC_EXITED.used: of a command, with all descendants that were waited for, or
 * that the spawner reaped for them, by the kernel's rusage; of one with limits, what its cgroups say, where they say
 * it. The peak of memory is never below that of the spawner, whose memory the command has before it is a program. */
typedef void (*exec_event_fn)(void *arg, const struct msg *m);

/* Forks the spawner. Call it before any thread exists, and before raising limits that tasks must not inherit.
 * With a state_dir it first looks for the spawner that an earlier agent left there, and takes it over with
 * its runs. It replaces one that has nothing to hand over, or is of another version; for the latter it waits
 * until its grace is over. Copies c. HAWK_EINVALID: output_dir is not absolute. HAWK_EEXISTS: another agent
 * uses the state_dir. HAWK_EIO: no process, descriptor or socket; with a state_dir the log says what is in
 * the way. */
HAWK_MUST_USE int exec_start(struct exec **out, const struct exec_config *c);

/* The identity that successive agents share: the configured incarnation, or that of the agent whose spawner
 * was taken over. An agent with it knows of every task that earlier agents with it started here. */
uint64_t exec_incarnation(const struct exec *e);

/* Gets the runs that were taken over: MSG_EXEC_LEASE if the spawner knows a lease, then MSG_EXEC_HELD for
 * every run, in the order of their starts, and MSG_EXEC_USED behind that of a run that has ended, if it is
 * known. paths: files of its stdout and stderr, NULL without one. user: whose it is; NULL: an older spawner does
 * not say it. Borrowed. */
typedef void (*exec_held_fn)(void *arg, const struct msg *m, const char *const paths[2], const char *user);

/* exec_held() reports them. exec_take_over() reports the same, once, before any other call on e, and then
 * exec_on_ready() runs. Only after that do ends of these runs come. */
void exec_held(const struct exec *e, exec_held_fn fn, void *arg);
void exec_take_over(struct exec *e, exec_held_fn fn, void *arg);

/* Watch it for reading, and for writing while exec_want_write(); level-triggered. */
int exec_fd(const struct exec *e);

/* Reads and reports all that has arrived. HAWK_EUNAVAILABLE: the spawner is gone; every running command has
 * been reported as OUTCOME_LOST and its group killed, and exec_run() refuses commands from now on. Stop
 * watching the fd. */
HAWK_MUST_USE int exec_on_ready(struct exec *e, exec_event_fn fn, void *arg);

/* Starts the run that EXEC_START describes; takes references of its own. now_us is the caller's clock, as in
 * exec_on_timeout(). worker: the worker of the run, for HAWK_WORKER and %w, if several share this process;
 * NULL: config.worker. Commands are only buffered: call exec_flush() once at the end of the step. On an error
 * no event follows: HAWK_EEXISTS (run number in use), HAWK_ELIMIT (max_running, EXEC_SEND_MAX),
 * HAWK_EUNAVAILABLE (no spawner), HAWK_EUNSUPPORTED (PAYLOAD_APP), HAWK_EINVALID (a timer's duration, no
 * argv). */
HAWK_MUST_USE int exec_run(struct exec *e, int64_t now_us, const struct msg_exec_start *m,
                           const char *worker);

/* Whether a command of that job may run here, and if not, why (EXEC_WHY_MAX bytes). Every start of a command asks. */
#define EXEC_WHY_MAX 512
bool exec_may_run(const struct exec_config *c, const struct job_desc *d, char *why);

/* Sends SIGTERM to the run's group, SIGKILL after the grace; force: SIGKILL at once. The run ends with that
 * outcome unless it has ended already. Ignores unknown runs: their end is under way. If the spawner, seconds after the
 * run should have ended, has not even read this, it stands still: exec_on_timeout() kills it, and exec_on_ready() says
 * that it is gone. */
void exec_kill(struct exec *e, int64_t now_us, uint32_t run, enum outcome outcome, bool force);

/* Freezes the run with all processes that it started. The first MSG_EXEC_PAUSED or MSG_EXEC_EXITED of the run
 * is the answer. HAWK_EBUSY: too little memory, the freeze was not confirmed in time, or the run is being
 * killed or was resumed. Paused time counts neither as run_us nor towards the time limit. The run is thawed
 * when this process or the spawner is gone. Returns HAWK_EUNSUPPORTED, and no event follows: no such run, no
 * freezer, or an older spawner. */
HAWK_MUST_USE int exec_pause(struct exec *e, int64_t now_us, uint32_t run);
/* Thaws the run, as exec_kill() does. Does nothing to a run that is not paused. */
void exec_resume(struct exec *e, int64_t now_us, uint32_t run);
/* The freezer that pauses commands here. */
enum exec_freezer exec_freezer_in_force(const struct exec *e);
/* Whether the spawner reads limits of memory and processes. One of an older version, taken over, does not, and would
 * start the task without. */
bool exec_reads_limits(const struct exec *e);
/* Notes the freezer in force in a file in state_dir. */
void exec_freezer_note(const char *state_dir, enum exec_freezer m);
/* The freezer that was noted last in state_dir; EXEC_FREEZER_AUTO: none was, or it cannot be read. */
enum exec_freezer exec_freezer_noted(const char *state_dir);

/* Nobody will ask for the end of this run again. Only with a state_dir, where ends are kept until then. */
void exec_forget(struct exec *e, uint32_t run);

/* From until_us (CLOCK_BOOTTIME) on no run of central's may run, whatever has become of this process by then:
 * the spawner kills them, as OUTCOME_LOST. */
void exec_lease(struct exec *e, int64_t until_us);

/* Asks the spawner whether tasks could start, also in that place (EXEC_CHECK; NULL: none). MSG_EXEC_CHECKED
 * follows; not from an older spawner that was taken over. */
void exec_check(struct exec *e, const struct blob *place);

/* The run becomes a resident: it ends well at once, with code 0, and its process group stays. What is left of
 * the group is killed when its leader ends. exec_evict() ends it (SIGTERM, SIGKILL after the grace), and so
 * does the end of this process. Returns its leader; 0: there is no such run, or an older spawner. */
HAWK_MUST_USE pid_t exec_reside(struct exec *e, uint32_t run);
void exec_evict(struct exec *e, pid_t pid);

/* Sends what is buffered, as far as the socket takes it. HAWK_EUNAVAILABLE: the spawner is gone;
 * exec_on_ready() reports that. */
HAWK_MUST_USE int exec_flush(struct exec *e);
bool exec_want_write(const struct exec *e);

/* When exec_on_timeout() must run (on the caller's clock), or TIME_NEVER. Ask after every exec_ call. */
int64_t exec_next_timeout(const struct exec *e);
/* Reports timer tasks that started or ended by now_us. Kills a spawner that stands still. */
void exec_on_timeout(struct exec *e, int64_t now_us, exec_event_fn fn, void *arg);

/* Number of runs whose end has not been reported. */
uint32_t exec_running(const struct exec *e);

/* Stops in good order: every task's group gets SIGTERM, SIGKILL after the grace, then the spawner ends.
 * Blocks until it has ended, for at most the grace and a few seconds; then it kills the spawner and all
 * groups. Reports nothing. NULL is fine. */
void exec_stop(struct exec *e);

/* Leaves everything to the next agent, as this process's death would: tasks go on for the orphan grace. Frees
 * e. */
void exec_leave(struct exec *e);

/* What fills the places of a task: its argument, as a worker has it (NULL: none). */
struct template_input exec_input(const struct job_desc *d, uint32_t task, const char *arg, size_t len);

/* The task's argument as people see it, with blanks between its values; a new reference. NULL: it has none. */
struct blob *exec_shown_input(const struct job_desc *d, uint32_t task);
/* How many bytes a task's argument may have, beyond which Linux starts no command with it in HAWK_INPUT. */
size_t exec_input_max(void);
/* The command of a job, with its places found. */
struct template *exec_template(const struct job_desc *d);

/* The file of a try's stdout (which = 1) or stderr (2): an absolute path, "/dev/null" for the pattern "none".
 * in: what fills the places in the pattern; NULL if d is.
 * d NULL: the default, <output_dir>/<job>/<task>.out and .err; <task>.<attempt>.out if attempt > 1.
 * HAWK_EINVALID: an unknown placeholder; HAWK_ETOO_LARGE. */
HAWK_MUST_USE int exec_output_path(const struct exec_config *c, const struct try_id *id,
                                   const struct job_desc *d, const struct template_input *in, int which,
                                   char *buf, size_t size);

/* Whose output of the job lies below output_dir, as a user's name; "": nobody's. buf has LIMIT_NAME_BYTES + 1 bytes. */
void exec_output_user(const struct exec_config *c, job_id_t job, char *buf);
/* The number of that job's first task, as its output tells (job_desc.first_index). */
uint32_t exec_output_first(const struct exec_config *c, job_id_t job);

/* Whether an output file that is not there, of a default path of exec_output_path(), was removed because the task had
 * written nothing to it (drops_empty). False: it was never there, or was removed for another reason. */
bool exec_output_was_empty(const char *path);

/* Whether dir's disk has hardly any room, so that output of tasks below dir may be cut short. */
bool exec_disk_full(const char *dir);

/* The spawner sets this mode bit on an output file below output_dir if the disk was full when its task ended:
 * the output may be cut short. The sticky bit means nothing else on a file, and setting it needs no room. */
#define EXEC_OUTPUT_CUT S_ISVTX

#endif
