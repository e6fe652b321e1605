/* What the files of `hawk run` share: run.c has its flags and its life, run_parts.c its inputs and their jobs,
 * run_control.c which tasks run when, run_output.c what tasks wrote, run_report.c what it says of them, run_log.c its
 * log. */
#ifndef HAWK_DAEMON_RUN_H
#define HAWK_DAEMON_RUN_H

#include "cli/failures.h"
#include "cli/lines.h"
#include "cli/spec.h"
#include "daemon/embedded.h"
#include "daemon/joblog.h"
#include "template/template.h"

#include <limits.h>
#include <stdarg.h>

struct run_options {
    const char *slots, *halt;
    int64_t delay_us;
    uint32_t seed;
    bool keep_order, tag, line_buffer, dry_run, shuf;
    bool quiet, progress;
    const char *output;
    const char *joblog;
    bool resume, resume_failed;
    struct spec_options spec;
};

/* --halt: which ends, and how many of them, end the run. */
struct run_halt {
    enum { HALT_NEVER, HALT_FAIL, HALT_SUCCESS, HALT_DONE } on;
    bool now;
    uint32_t n, ppm; /* of the tasks that have ended, if n is 0 */
};
#define HALT_LEAST 3u /* ends before a share of them counts */

/* Inputs that are one job. */
struct run_part {
    struct job_desc *desc;
    job_id_t job;
    uint32_t base;           /* inputs before its first one */
    uint32_t delivered;      /* tasks, with those that need not run */
    uint8_t *before;         /* by task: enum run_before; NULL: nothing is known of earlier runs */
    struct run_ended **kept; /* by task: with --keep-order, ends that wait for those before them */
    uint32_t next_kept;
    bool over; /* the job has ended */
};

/* An input's end in an earlier run. */
struct run_past {
    uint64_t position, line;
    size_t input; /* in the texts of all */
    bool done;
};

/* A task that runs, and what of its output was printed. */
struct run_live {
    struct run_live *next;
    job_id_t job;
    uint32_t task;
    uint16_t attempt;
    int fd[2];
    off_t at[2];
};

/* An end that waits for its turn, or for its line in the log. */
struct run_ended {
    struct run_ended *next;
    struct msg_task_event event;
    int64_t ended_us; /* since 1970 */
    uint64_t line;    /* of the log: its own, or the last one before it; 0: none */
};

struct run {
    struct run_options options;
    struct loop *loop;
    struct embedded *cluster;
    struct exec_config exec_config;
    struct job_desc *desc;             /* of the first part, and all but the inputs of the others */
    char dir[PATH_MAX];                /* of output until it is printed */
    uint32_t ended, failed, cancelled; /* delivered */
    bool started, submitted, show_progress, terminal, broken, json;
    int interrupted; /* by this signal */

    struct run_part *first; /* until it is submitted */
    struct run_part *
        *parts; /* by the number of their jobs, from first_seq on; NULL: all of it was delivered */
    uint32_t parts_n, parts_cap;
    uint64_t first_seq;
    uint32_t parts_going;          /* whose jobs have not ended */
    uint32_t total;                /* inputs that are known */
    uint32_t unended, undelivered; /* tasks that were submitted */
    bool streams;                  /* the list comes by and by */
    struct lines *lines;           /* the rest of it; NULL: there is none */
    struct loop_fd *lines_fd;
    bool cut;        /* its end was not read */
    int inputs_code; /* not 0: a line was refused, and this is the exit code */

    bool full;        /* the output's disk was full at the end of a task that had written something */
    bool output_lost; /* a task's captured file could not be read */
    bool said_truncated;
    struct failures failures;
    int64_t started_us, shown_us;
    int exit_code;
    struct loop_timer progress;
    uint32_t slots;
    struct run_halt halt;
    uint32_t ended_well, ended_badly; /* whether or not they were delivered */
    uint32_t max_fails;               /* of a list that comes by and by; 0: its job has it */
    bool halting;
    struct loop_timer delay;
    int64_t next_start_us;
    enum { LIVE_NOT, LIVE_BYTES, LIVE_LINES } live; /* what is printed of tasks that run */
    struct run_live *living;
    struct loop_timer look;
    bool mid_line[2]; /* stdout, stderr: the last line printed there goes on */
    struct try_id last_started;

    struct joblog *log; /* NULL: none is kept */
    struct run_ended *unlogged, **unlogged_end;
    uint64_t last_line;
    struct run_past *past; /* what the log has of earlier runs, by position */
    uint32_t past_n, past_cap, past_next;
    struct text past_inputs;
    uint32_t done_before, failed_before; /* tasks */
    bool log_broken;
};

/* ---- run.c ---- */
/* A task has ended, and its line is on the disk if there is a log: prints what it wrote, and counts it. */
void run_deliver(struct run *r, struct run_part *p, const struct msg_task_event *m);
/* Whether the output of a task that has ended is printed. That of a cancelled one is a part, for who has pressed Ctrl-C
 * to see; of a task without a line in the log the run that goes on prints the whole. */
bool run_prints(const struct run *r, const struct msg_task_event *m);
/* Ends the run if there are no more inputs, all jobs have ended, and everything was printed. */
void run_finish(struct run *r);
/* Cancels what has not ended. */
void run_cancel(struct run *r);

/* ---- run_parts.c ---- */
/* Adds a part, and takes the description. An exit code, after a message unless it is 0. */
int run_part_add(struct run *r, struct job_desc *desc);
/* The part of a job; NULL: all of it was delivered. */
struct run_part *run_part_find(const struct run *r, job_id_t job);
/* The first one of which something was not delivered; NULL: there is none. */
struct run_part *run_part_first(const struct run *r);
/* Frees the part if its job has ended and all was delivered. */
void run_part_settle(struct run *r, struct run_part *p);
/* Submits what is known, and begins to wait for more. */
void run_parts_start(struct run *r);
/* After each turn of the loop: submits what has come, when tasks have ended. */
void run_parts_turn(struct run *r);
/* Leaves the rest of the list unread. */
void run_parts_stop_reading(struct run *r);
void run_parts_free(struct run *r);

/* ---- run_control.c: which tasks run when ---- */
/* Reads --slots and --halt. An exit code, after a message unless it is 0. */
int run_control_read(struct run *r);
/* Prints the commands that would run. An exit code. */
int run_dry(const struct run *r);
/* Puts the order of the tasks into s. */
void run_shuffle(struct run *r, struct resubmit *s);
void run_control_start(struct run *r);
void run_control_stop(struct run *r);
/* After each turn of the loop: starts what may start; when nothing runs after `--halt soon`, cancels the rest. */
void run_control_turn(struct run *r);
/* A task has ended, and perhaps with it the run. */
void run_halt_look(struct run *r, const struct msg_task_event *m);

/* ---- run_output.c ---- */
/* A task runs: its output is printed as it comes, if that is asked for. */
void run_live_begin(struct run *r, const struct try_id *id);
void run_live_start(struct run *r);
void run_live_stop(struct run *r);
/* The list is over: if it has one input, its output is printed as it comes. */
void run_live_alone(struct run *r);
/* Prints a task's captured file, and removes it. False: there was nothing in it. which: 1 stdout, 2 stderr. */
bool run_print_file(struct run *r, const struct run_part *p, const struct msg_task_event *m, int which);
/* Whether what the task wrote can still be read. */
bool run_output_is_there(struct run *r, const struct msg_task_event *m);
/* Whether stdout is closed or full, or the reader of stderr has gone away. */
bool run_unread(void);
/* Bytes that were caught of it. */
uint64_t run_output_bytes(const struct run *r, const struct try_id *id);
/* The JSON document: its beginning, a task that ended, its end. */
void run_json_begin(void);
void run_json_task(struct run *r, const struct run_part *p, const struct msg_task_event *m);
void run_json_end(const struct run *r);

/* ---- run_report.c ---- */
void run_clear_progress(const struct run *r);
void run_show_progress(struct run *r);
/* Counts a failure. Whether to show it by itself: failures in the same words get one line at the end. */
bool run_failed_alone(struct run *r, const struct run_part *p, const struct msg_task_event *m);
void run_say_failure(struct run *r, const struct run_part *p, const struct msg_task_event *m,
                     bool stderr_shown);
/* How the task ended, in words (TASK_ENDING_MAX bytes). */
const char *run_ending(const struct run *r, const struct msg_task_event *m, char *buf, size_t size);
/* Says what failed, one line for all that have the same words, and how many tasks ended in which way. */
void run_say_summary(const struct run *r);
/* The input of a task: its line, else its number; NULL: it is the only one. A new reference. */
struct blob *run_input(const struct run *r, const struct run_part *p, uint32_t task);

/* ---- run_log.c ---- */
enum run_before { BEFORE_NOTHING, BEFORE_DONE, BEFORE_FAILED };
/* Opens --joblog, and reads what it has of earlier runs. An exit code, after a message unless it is 0. */
int run_log_open(struct run *r);
void run_log_start(struct run *r);
/* Looks for a new part's inputs among those of earlier runs. An exit code, after a message unless it is 0. */
int run_log_look(struct run *r, struct run_part *p);
/* The same when there are no more inputs: for inputs beyond the last. */
int run_log_look_beyond(const struct run *r);
/* A task has ended: delivers it, when its line is on the disk and its turn has come. */
void run_log_ended(struct run *r, const struct msg_task_event *m);
/* Delivers what waits for its turn, if that has come. */
void run_log_go_on(struct run *r);
void run_log_close(struct run *r);

#endif
