/* In the spawner: a job's spec, and starting a task. */
#ifndef HAWK_EXEC_LAUNCH_H
#define HAWK_EXEC_LAUNCH_H

#include "exec/exec.h"
#include "exec/freezer.h"
#include "exec/limits.h"
#include "exec/record.h"
#include "exec/signed_spec.h"

#include <sys/types.h>
#include <uthash.h>

#define LAUNCH_WHY_MAX 1024
#define EXECUTORS_MAX 256 /* bytes of exec_config.executors that tasks are told; a socket's path is shorter */
#define LAUNCH_STACK_BYTES (128u << 10)
/* HAWK_WORKER_SOCKET, HAWK_JOB_ID, HAWK_TASK_INDEX, HAWK_ATTEMPT, HAWK_RUN, HAWK_WORKER */
#define RUN_ENTRIES 6
#define RUN_VARIABLE "HAWK_RUN" /* in a task's environment, "SPAWNER_PID.NUMBER": names the run of a stray */

/* The codes of shells; NOT_HERE: this machine cannot start it, another may. */
enum launch_code {
    LAUNCH_CANNOT = CODE_CANNOT_START,
    LAUNCH_NO_PROGRAM = 127,
    LAUNCH_NOT_HERE = HAWK_ECANNOT_START
};

/* Data that all tasks of a job share, prepared for many launches. */
struct spec {
    UT_hash_handle hh;
    uint32_t id;
    int input; /* a sealed memfd that every task reads as stdin; -1: none has been made yet */
    struct job_desc *d;
    const struct signed_reader *reader; /* NULL: the agent's word counts */
    struct signed_spec *as_signed;      /* of the reader; NULL: the job is `refused` */
    char *refused;                      /* why none of its tasks may start; NULL: they may */
    char *own;                          /* texts of the variables that are the same for all tasks */
    const char **env;   /* first room for a run's variables, then own, then the job's, then NULL */
    const char *search; /* the job's PATH: finds programs */
    struct template *command, *variables,
        *cwd; /* argv, each_env, and the directory if it has places, else NULL */
};

/* Reads a RECORD_SPEC. reader: the job is what its user signed, or refused (exec/signed_spec.h); NULL: it is what the
 * agent says. NULL: malformed. */
struct spec *spec_new(struct record *r, const struct signed_reader *reader);
void spec_free(struct spec *s);
/* Opens the job's input, which no task can change, anew: each task has a position of its own. The first task makes the
 * file in memory, or the next one if it could not. -1 with errno. */
int spec_open_input(struct spec *s);

struct launcher {
    struct exec_config config;      /* its texts are borrowed */
    char *stack;                    /* LAUNCH_STACK_BYTES; the child uses it until it is another program */
    const struct freezer *freezer;  /* NULL: tasks have no groups */
    struct limits *limits;          /* NULL: none can be enforced */
    struct launch_failure *failure; /* in memory that a child shares */
    int null_fd;
    uint64_t launched;

    /* Of the task that starts (command_fill). */
    struct text text; /* its directory, argv and variables, from these places on: */
    size_t *at;
    uint32_t at_n, at_cap, argv_at, variables_at;
    const char **argv; /* its command, from the second element on */
    size_t argv_size;
    const char **env; /* first room for RUN_ENTRIES */
    const char *cwd;  /* NULL: the spawner's */
    const char *search;
};

struct task {
    struct try_id id;
    const char *arg; /* NULL: none */
    uint32_t arg_len;
    char worker[LIMIT_NAME_BYTES + 1]; /* the worker's name */
    bool grouped;         /* the task should start in a group of its own, if the freezer can do that */
    int files[RUN_FILES]; /* what the agent has opened, for launch_task() to close; -1: not that */
};

/* Whether the task may start, by what its user signed; files: enum run_file. 0, or as signed_reader.has says it. */
HAWK_MUST_USE int spec_check_signed(const struct spec *s, const struct task *t, uint32_t files,
                                    const struct blob *proof, char why[LAUNCH_WHY_MAX]);

struct launched {
    pid_t pid;       /* 0: it did not start */
    uint64_t number; /* the number in its RUN_VARIABLE */
    bool grouped;
    struct limited limited;
    int code; /* code: enum launch_code if it did not start; why: the reason */
    char why[LAUNCH_WHY_MAX];
    char out_path[EXEC_PATH_MAX], err_path[EXEC_PATH_MAX]; /* its output files; "" if they have no name */
    /* LAUNCH_NOT_HERE: the place as in EXEC_EXITED; "": nothing that the job named. */
    char place[EXEC_PATH_MAX];
};

#define COMMAND_INPUT "HAWK_INPUT=" /* begins the variable with the task's argument */
/* Finds the places in the job's command, once; command_release() frees what that takes. */
void command_prepare(struct spec *s);
void command_release(struct spec *s);
/* How many variables a task may have of its own, besides RUN_ENTRIES. */
uint32_t command_variables(const struct job_desc *d);
/* Fills in the task's own argument. HAWK_EINVALID or HAWK_ETOO_LARGE, and why: the task cannot be started, but l->cwd
 * is set. */
HAWK_MUST_USE int command_fill(struct launcher *l, struct spec *s, const struct task *t,
                               char why[TEMPLATE_WHY_MAX]);

/* HAWK_EIO: no descriptor. */
HAWK_MUST_USE int launcher_init(struct launcher *l, const struct exec_config *c);
/* Opens the task's files that the agent has not, and starts it in a process group of its own. If it cannot start,
 * writes the reason also to its stderr file, if that is open. */
void launch_task(struct launcher *l, struct spec *s, const struct task *t, struct launched *out);
/* Tries what tasks need: a process, room on the disk, a file in output_dir, and `place` (as in struct
 * launched). Writes why it failed; "": it works. */
void launcher_check(const struct launcher *l, const char *place, char why[LAUNCH_WHY_MAX]);

#endif
