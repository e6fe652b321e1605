/* In the spawner: its state, and the runs it has, from their start to the end that is told. */
#ifndef HAWK_EXEC_RUNS_H
#define HAWK_EXEC_RUNS_H

#include "base/heap.h"
#include "base/list.h"
#include "exec/freezer.h"
#include "exec/launch.h"
#include "exec/record.h"
#include "exec/strays.h"
#include "exec/watcher.h"

#include <time.h>

enum run_pause { PAUSE_RUNS, PAUSE_FREEZING, PAUSE_FROZEN };

struct run {
    UT_hash_handle by_run, by_pid;
    struct heap_node
        timer; /* the time limit, SIGKILL after SIGTERM, or the last of its group's time to die */
    uint32_t run;
    pid_t pid; /* its group's leader, not reaped while it is in by_pid: till then the number is taken */
    struct frozen_task frozen;
    enum run_pause pause;
    int64_t pause_us;      /* since when */
    int64_t stood_us;      /* how long it stood still before that */
    int64_t limit_left_us; /* PAUSE_FROZEN: what its time limit leaves it; TIME_NEVER: it has none */
    struct list freezing;  /* in the spawner's */
    int64_t started_us;
    int64_t boot_us;     /* the same (CLOCK_BOOTTIME), as the kernel tells when processes began */
    enum outcome reason; /* why it is being killed; OUTCOME_NONE: it is not */
    struct try_id id;
    uint32_t owner, flags; /* enum run_flag */
    char *paths[2];        /* of its output files; NULL: none */
    bool
        leader_gone; /* with this status after run_us; others of its group have been killed, and may still die */
    int status;
    /* Once it has ended: */
    enum outcome outcome; /* OUTCOME_NONE: it runs */
    int code;
    int64_t run_us;
    char *why;   /* NULL: nothing to say */
    char *place; /* of the job's that is to blame; NULL: none */
};

struct spawner {
    int fd;        /* the agent, or -1 when it is gone */
    int listen_fd; /* where the next one connects; -1: none can */
    int signal_fd;
    int lease_fd; /* a timer: a suspended machine's lease runs out as well */
    struct exec_config config;
    char *output_dir; /* config.output_dir, once an agent has taken over */
    struct launcher launcher;
    struct bytes in, out;
    struct spec *specs;
    struct run *by_run, *by_pid; /* what runs */
    struct run *ended;           /* by run: what an agent may still ask about */
    struct heap timers;
    uint64_t timer_seq;
    uint32_t leaders_gone; /* of by_run */
    struct strays strays;
    struct freezer freezer;
    struct watcher watcher;
    struct list freezing; /* runs of PAUSE_FREEZING */
    int64_t sweep_us;  /* when to look for strays; TIME_NEVER: nothing has ended since, and none are known */
    int64_t orphan_us; /* when to give up on the agent; TIME_NEVER: it is there */
    int64_t lease_us;  /* when leased runs must be dead (CLOCK_BOOTTIME); TIME_NEVER: nobody said */
    bool greeted;      /* the agent has said who it is, or is our parent */
    bool stopping;
    bool disk_full;       /* the one of output_dir, when it was looked at last */
    int64_t disk_look_us; /* not again before */
};

int64_t clock_us(clockid_t clock);
int64_t monotonic_us(void);
/* When the loop is to look at it. */
void run_set_timer(struct spawner *s, struct run *r, int64_t at_us);
/* SIGTERM and, after the grace, SIGKILL; force: that at once. The first reason is what its end is called. */
void run_kill(struct spawner *s, struct run *r, enum outcome reason, bool force);
/* It is in no table any more. Its end is reported, and kept where a later agent may ask for it. */
void run_ended(struct spawner *s, struct run *r);
/* Its leader is reaped, and the rest of its group is gone or hangs in the kernel. */
void run_end(struct spawner *s, struct run *r);
void run_free(struct run *r);
/* How long it has run: without what it stood still. */
int64_t run_time(const struct run *r);
/* Nobody asks for the end of that one any more. */
void runs_forget(struct spawner *s, uint32_t run);
/* Takes the children that have ended. A run's end is told when its whole group is gone, so that whoever is then told to
 * run the task again does not meet what a killed leader has left: they come to us, and we hear of their ends
 * (DESIGN 3, rule 9). */
void runs_reap(struct spawner *s);
/* Whether pid leads a run's group, or is the watcher: a child of ours that no sweep is to look at. arg: the spawner. */
bool runs_lead(void *arg, pid_t pid);
/* Looks for what has left its run's group. */
void runs_sweep(struct spawner *s);

#endif
