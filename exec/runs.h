/* In the spawner: its state, and its runs from their start to the report of their end. */
#ifndef HAWK_EXEC_RUNS_H
#define HAWK_EXEC_RUNS_H

#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "exec/freezer.h"
#include "exec/launch.h"
#include "exec/record.h"
#include "exec/strays.h"
#include "exec/watcher.h"

enum run_pause { PAUSE_RUNS, PAUSE_FREEZING, PAUSE_FROZEN };

struct run {
    UT_hash_handle by_run, by_pid;
    struct heap_node timer; /* its time limit, SIGKILL after SIGTERM, or the end of its group's time to die */
    uint32_t run;
    pid_t pid; /* the group's leader; while it is in by_pid it is not reaped, so its number is not reused */
    struct frozen_task frozen;
    struct limited limited;
    enum run_pause pause;
    int64_t pause_us;      /* since when it has the state `pause` */
    int64_t stood_us;      /* total time of earlier pauses */
    int64_t limit_left_us; /* PAUSE_FROZEN: what is left of its time limit; TIME_NEVER: it has none */
    struct list freezing;  /* in spawner.freezing */
    struct list resident;  /* in spawner.residents; then it is in by_pid, and not in by_run */
    int64_t started_us;
    int64_t boot_us;     /* started_us in CLOCK_BOOTTIME, as the kernel tells starts of processes */
    enum outcome reason; /* why it is being killed; OUTCOME_NONE: it is not */
    struct try_id id;
    uint32_t owner, flags; /* enum run_flag */
    char *paths[2];        /* its output files; NULL: none */
    struct blob *user;     /* whose it is */
    /* Its leader has ended with `status` after run_us; others of its group were killed and may still be
     * dying. */
    bool leader_gone;
    int status;
    /* After its end: */
    enum outcome outcome; /* OUTCOME_NONE: it runs */
    int code;
    int64_t run_us;
    int64_t cpu_us, mem_peak_bytes; /* of those processes of it that have been reaped; 0: not known */
    char *why;                      /* NULL: no text */
    char *place;                    /* the place of the job that is to blame; NULL: none */
};

struct spawner {
    int fd;        /* the agent's socket; -1: the agent is gone */
    int listen_fd; /* where the next agent connects; -1: none can */
    int signal_fd;
    int lease_fd; /* a timer that also fires after the machine was suspended */
    struct exec_config config;
    char *output_dir; /* config.output_dir, if an agent that took over gave it */
    char *executors;  /* config.executors, in the same case */
    char *worker;     /* config.worker, of a user's runner */
    /* Of a user's runner: what he signed runs, and nothing else; NULL: the agent's word counts. */
    const struct signed_reader *reader;
    struct launcher launcher;
    struct bytes in, out;
    struct spec *specs;
    struct run *by_run, *by_pid; /* runs that have not ended */
    struct run *ended;           /* by run: ends that an agent may still ask for */
    struct heap timers;
    uint64_t timer_seq;
    uint32_t leaders_gone; /* how many of by_run have no leader any more */
    struct strays strays;
    struct freezer freezer;
    struct limits limits;
    struct watcher watcher;
    struct list freezing;  /* runs in PAUSE_FREEZING */
    struct list residents; /* what is left of runs that became residents */
    /* When to look for strays; TIME_NEVER: no run has ended since the last look, and no strays are known. */
    int64_t sweep_us;
    int64_t orphan_us; /* when to give up on the agent; TIME_NEVER: it is there */
    int64_t lease_us;  /* when leased runs must be dead (CLOCK_BOOTTIME); TIME_NEVER: no lease */
    bool greeted;      /* the agent has said hello, or is our parent */
    bool stopping;
    bool disk_full;       /* output_dir's disk was full at the last look */
    int64_t disk_look_us; /* when to look next */
};

/* Sets the time at which the loop looks at r. */
void run_set_timer(struct spawner *s, struct run *r, int64_t at_us);
/* Sends SIGTERM and, after the grace, SIGKILL; force: SIGKILL at once. The first reason becomes the run's
 * outcome. */
void run_kill(struct spawner *s, struct run *r, enum outcome reason, bool force);
/* Reports the end of a run that is in no table any more, and keeps the end if a later agent may ask for
 * it. */
void run_report_end(struct spawner *s, struct run *r);
/* Ends a run: its leader is reaped, and the rest of its group is gone or hangs in the kernel. */
void run_complete(struct spawner *s, struct run *r);
void run_free(struct run *r);
/* Its run time, without pauses. */
int64_t run_time(const struct run *r);
/* Nobody will ask for the end of that run any more. */
void runs_forget(struct spawner *s, uint32_t run);
/* Reaps the children that have ended. A run's end is reported when its whole group is gone, so that the
 * task's next try elsewhere does not meet processes that a killed leader left. The spawner is their
 * subreaper, so it learns of their ends (DESIGN 3.9). */
void runs_reap(struct spawner *s);
/* Whether pid leads a run's group or is the watcher: sweeps pass over such children. arg: the spawner. */
bool runs_lead(void *arg, pid_t pid);
/* Looks for processes that have left their run's group. */
void runs_sweep(struct spawner *s);
/* The same, in a moment. */
void runs_sweep_soon(struct spawner *s);

#endif
