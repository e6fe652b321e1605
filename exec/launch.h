/* In the spawner: what is needed to start tasks of a job (a spec), and starting one. */
#ifndef HAWK_EXEC_LAUNCH_H
#define HAWK_EXEC_LAUNCH_H

#include "exec/exec.h"
#include "exec/freezer.h"
#include "exec/record.h"

#include <sys/types.h>
#include <uthash.h>

#define LAUNCH_WHY_MAX 1024
#define LAUNCH_STACK_BYTES (128u << 10)
#define RUN_VARIABLE                                                                                         \
    "HAWK_RUN" /* "SPAWNER_PID.NUMBER" in a task's environment: whose descendant a stray is */

/* What shells say; or it is this machine that cannot start it, and another may. */
enum launch_code { LAUNCH_CANNOT = 126, LAUNCH_NO_PROGRAM = 127, LAUNCH_NOT_HERE = HAWK_ECANNOT_START };

/* What a job's tasks have in common, made ready for many launches. */
struct spec {
    UT_hash_handle hh;
    uint32_t id;
    int input; /* a sealed memfd with what every task reads as stdin, or -1 */
    struct job_desc *d;
    char *own;          /* texts of the variables that are the same for all tasks */
    const char **env;   /* room for those of a run first, then own, then the job's, then NULL */
    const char *search; /* where programs are looked up: the job's PATH */
};

/* Reads a RECORD_SPEC. NULL: malformed. */
struct spec *spec_new(struct record *r);
void spec_free(struct spec *s);

struct launcher {
    struct exec_config config;      /* its texts are borrowed */
    char *stack;                    /* LAUNCH_STACK_BYTES, the child's until it is another program */
    const struct freezer *freezer;  /* NULL: tasks have no groups */
    struct launch_failure *failure; /* in memory that a child shares */
    int null_fd;
    uint64_t launched;
    char *text; /* room for the argv being built */
    size_t text_size;
    const char **argv;
    size_t argv_size;
    char *input; /* HAWK_INPUT of the task being started */
    size_t input_size;
};

struct task {
    struct try_id id;
    const char *arg; /* NULL: none */
    uint32_t arg_len;
    char worker[LIMIT_NAME_BYTES + 1]; /* whose it is */
    bool grouped;                      /* it starts in a group of its own, if the freezer can have it so */
};

struct launched {
    pid_t pid;       /* 0: it did not start */
    uint64_t number; /* in its RUN_VARIABLE */
    bool grouped;
    int code; /* enum launch_code when it did not start, and why */
    char why[LAUNCH_WHY_MAX];
    char out_path[EXEC_PATH_MAX],
        err_path[EXEC_PATH_MAX]; /* of its output files; "" when they have no name */
    char place[EXEC_PATH_MAX];   /* LAUNCH_NOT_HERE: as EXEC_EXITED has it; "": nothing that the job named */
};

/* HAWK_EIO when a descriptor cannot be had. */
HAWK_MUST_USE int launcher_init(struct launcher *l, const struct exec_config *c);
void launcher_free(struct launcher *l);
/* Opens the task's files and starts it in a process group of its own. Why it could not is written into its
 * stderr file as well, if that could be opened. */
void launch(struct launcher *l, struct spec *s, const struct task *t, struct launched *out);
/* Does what tasks need: a process, room on the disk, a file in output_dir, and what could not be done in `place` (as in
 * struct launched). Writes why it cannot be done; "": it can. */
void launcher_check(const struct launcher *l, const char *place, char why[LAUNCH_WHY_MAX]);

#endif
