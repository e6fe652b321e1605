/* Makes a job's description of a command line: the flags that `hawk submit` and `hawk run` share. */
#ifndef HAWK_CLI_SPEC_H
#define HAWK_CLI_SPEC_H

#include "base/err.h"
#include "cli/inputs.h"
#include "msg/types.h"

struct spec_options {
    struct input_options inputs;
    const char *name, *class;
    int64_t estimate_us, time_limit_us, mem_bytes;
    uint32_t pids;
    uint32_t lost_retries, failure_retries, max_fails, max_running;
    const char *retry_on;
    int64_t retry_delay_us;
    const char *cwd, *stdout_pattern, *stderr_pattern, *input;
    struct flag_list env;
    const char *exported; /* ALL, NONE or names; NULL: the default */
    bool all_env;         /* no flag: by default tasks get all of the environment */
    bool clean_env, timer, at_most_once, no_pause;
    bool takes_stdin;   /* the command reads its standard input itself */
    bool takes_script;  /* its command may be a script on standard input: */
    const char *script; /* it is this one, of script_len bytes; NULL: it is none */
    size_t script_len;
    const char *app, *payload, *payload_file; /* for commands that have these flags */
};

/* Lost tasks run again this often, unless --lost-retries says otherwise. */
#define SPEC_RETRIES_DEFAULT 2
#define SPEC_RETRIES_NOT_GIVEN UINT32_MAX /* the first value of spec_options.lost_retries */

/* The limits of a task's resources. */
#define SPEC_LIMIT_FLAGS(type, at)                                                                           \
    FLAG(MEMORY, type, at.mem_bytes, "mem", 0, "SIZE",                                                       \
         "the memory that a task may use, at least 1M, like 500M, 2G or 1T; a task that uses more ends as "  \
         "out-of-memory"),                                                                                   \
        FLAG_NUMBER(type, at.pids, "pids", 0, "N", "the processes and threads that a task may have", 1,      \
                    LIMIT_TASK_PIDS)

/* The flags, for the table of a command whose options struct `type` has a struct spec_options as member
 * `at`. */
#define SPEC_FLAGS(type, at)                                                                                 \
    INPUT_FLAGS(type, at.inputs),                                                                            \
        FLAG(TEXT, type, at.name, "name", 'n', "NAME",                                                       \
             "the job's name, under which history is kept; default: the command line"),                      \
        FLAG(CHOICE, type, at.class, "class", 'c', "short|long|auto",                                        \
             "the class; auto, the default: by the estimate, else by earlier runs of this name"),            \
        FLAG_ABOVE_0(type, at.estimate_us, "estimate", 'e', "TIME", "how long one task takes on average"),   \
        FLAG_ABOVE_0(type, at.time_limit_us, "time-limit", 't', "TIME", "kill a task that runs longer"),     \
        SPEC_LIMIT_FLAGS(type, at),                                                                          \
        FLAG_NUMBER(type, at.failure_retries, "retries", 0, "N",                                             \
                    "run a task that fails again, up to N times (default: 0)", 0, LIMIT_FAILURE_RETRIES),    \
        FLAG(TEXT, type, at.retry_on, "retry-on", 0, "LIST",                                                 \
             "with --retries: after these failures only: exit codes, signal, time-limit; \"75,signal\""),    \
        FLAG_ABOVE_0(type, at.retry_delay_us, "retry-delay", 0, "TIME",                                      \
                     "with --retries: wait so long before the first, and then twice as long each time"),     \
        FLAG_NUMBER(type, at.lost_retries, "lost-retries", 0, "N",                                           \
                    "run a task again, up to N times, if its worker is lost (default: 2)", 0, UINT16_MAX),   \
        FLAG(BOOL, type, at.at_most_once, "at-most-once", 0, NULL,                                           \
             "never run a task a second time: if its worker is lost, the task ends as lost"),                \
        FLAG_NUMBER(type, at.max_fails, "max-fails", 0, "N", "cancel the rest after this many failed tasks", \
                    1, UINT32_MAX),                                                                          \
        FLAG_NUMBER(type, at.max_running, "max-running", 0, "N", "run at most N of its tasks at a time", 1,  \
                    UINT32_MAX),                                                                             \
        FLAG(TEXT, type, at.cwd, "cwd", 'C', "DIR", "the tasks' directory; default: the current one"),       \
        FLAG(LIST, type, at.env, "env", 'E', "K[=V]",                                                        \
             "set a variable of the tasks' environment, or pass one of here; may be repeated"),              \
        FLAG(TEXT, type, at.exported, "export", 0, "ALL|NONE|NAMES",                                         \
             "the variables of here that tasks get besides those of --env, see below"),                      \
        FLAG(BOOL, type, at.clean_env, "clean-env", 0, NULL, "the same as --export NONE"),                   \
        FLAG(TEXT, type, at.stdout_pattern, "stdout", 0, "PATTERN",                                          \
             "file for standard output, see below; \"none\": discard it"),                                   \
        FLAG(TEXT, type, at.stderr_pattern, "stderr", 0, "PATTERN", "the same for standard error"),          \
        FLAG(TEXT, type, at.input, "stdin", 'i', "FILE|-", "the standard input of every task"),              \
        FLAG(BOOL, type, at.timer, "timer", 0, NULL,                                                         \
             "run no command: tasks only take the time that stands in its place (250ms, or {})")

/* The same for a command whose jobs may be for attached executors. */
#define SPEC_APP_FLAGS(type, at)                                                                             \
    FLAG(TEXT, type, at.app, "app", 'A', "NAME",                                                             \
         "run no command: attached executors of this application run the tasks"),                            \
        FLAG(TEXT, type, at.payload, "payload", 0, "TEXT", "with --app: the input of every task"),           \
        FLAG(TEXT, type, at.payload_file, "payload-file", 0, "FILE|-",                                       \
             "with --app: read the input of every task from a file")

/* The variables that tasks get by default where they may run on other machines, in the form of --export. */
#define SPEC_EXPORTED                                                                                        \
    "PATH,HOME,USER,LOGNAME,SHELL,LANG,LANGUAGE,LC_*,TZ,TMPDIR,HAWK_DIST,HAWK_LOGIN,HAWK_TLS_*"

/* For a command's details: explains the above flags. */
#define SPEC_HELP                                                                                            \
    "A job has one task, or one per number (--array), line (--each-line) or word (--input). With several "   \
    "of\n"                                                                                                   \
    "these it has one for every combination, the last one changing first; --link takes the values that\n"    \
    "stand at one place in each. The input stands for {} wherever that is in the command, in --cwd, "        \
    "--stdout,\n"                                                                                            \
    "--stderr and --env. {.} is the input without its extension, {/} its last component, {//} its "          \
    "directory,\n"                                                                                           \
    "{/.} the last component without the extension, {#} the task's number, from 1 on. With several sources " \
    "or\n"                                                                                                   \
    "columns {2} is the second value, {2.} that without its extension, {NAME} the column of that name\n"     \
    "(--header). Where none of these stands in the command, the values are its last arguments, but not\n"    \
    "numbers alone (--array).\n"                                                                             \
    "\nIn the text after -c of sh, bash, dash, ksh or zsh, also behind env, nice and timeout, a value is "   \
    "quoted\n"                                                                                               \
    "for where it stands: bare, inside \"...\", inside '...'; what is of [A-Za-z0-9_./+-]+ stays as it is. " \
    "In\n"                                                                                                   \
    "backquotes and here-documents any other value fails its task before it starts: write\n"                 \
    "\"$HAWK_INPUT\" there. Where the shell computes, as in $((...)), only numbers pass. No task starts "    \
    "before all inputs are read, since every task learns their "                                             \
    "number\n"                                                                                               \
    "(HAWK_TASK_COUNT). But `hawk run` of a single list from a pipe or terminal starts tasks as lines "      \
    "come,\n"                                                                                                \
    "without HAWK_TASK_COUNT and as several jobs; --shuf and --dry-run read it to the end first. An empty "  \
    "list is a job of no tasks, which succeeds.\n"                                                           \
    "\nA task's environment has HAWK_INPUT (its input, else its number; HAWK_INPUT_1 and so on, where it "   \
    "has "                                                                                                   \
    "several values), HAWK_JOB_ID, "                                                                         \
    "HAWK_JOB_NAME,\n"                                                                                       \
    "HAWK_TASK_INDEX, HAWK_TASK_COUNT, HAWK_ATTEMPT and HAWK_WORKER, besides variables of --env "            \
    "and --export. HAWK_WORKER\n"                                                                            \
    "is the worker's name in `hawk nodes`: w1, w2, ... under `hawk up`, \"run\" under `hawk "                \
    "run`. \n"                                                                                               \
    "Of what is exported here, tasks get all under `hawk run`, and under the local `hawk up` (no --dist, "   \
    "no "                                                                                                    \
    "$HAWK_DIST).\n"                                                                                         \
    "Else they get " SPEC_EXPORTED ".\n"                                                                     \
    "--export says otherwise: ALL, NONE, or names; NAME* is all that begin so.\n"                            \
    "\nTasks, and files that --stdout and --stderr name, have the umask of this command.\n"                  \
    "PATTERN (--stdout, --stderr) is a path, relative to the tasks' directory. In it %J is the "             \
    "job's id, %j its\n"                                                                                     \
    "number, %t the task's index, %a the attempt, %w the worker, %n the job's name, %% a "                   \
    "percent sign. Missing\n"                                                                                \
    "directories are made.\n"                                                                                \
    "Times are written 250ms, 30s, 5m, 2h.\n"

/* Makes the job's description, in *d with one reference. It has no tasks where a list of inputs is empty: such a job
 * succeeds without a cluster. Its flags are those of the options, JOB_EACH_ARG, JOB_EACH_CWD and JOB_ARG_ASIDE. argv is
 * the command and its arguments. It reads the files of inputs and --stdin. With `rest` it reads a single list whose
 * lines come by and by only to its first ones: then the description is a JOB_PART, and *rest the list; NULL: all of it
 * was read. 0, or HAWK_EXIT_USAGE after a message. */
int spec_build(const char *command, const struct spec_options *o, int argc, char **argv, struct job_desc **d,
               struct lines **rest);

/* Whether a flag has standard input read. */
bool spec_reads_stdin(const struct spec_options *o);

/* Frees what the flags made. */
static inline void spec_options_free(struct spec_options *o)
{
    flag_list_free(&o->env);
    flag_list_free(&o->inputs.sources);
}

/* Whether --lost-retries asks for more than --at-most-once allows (spec_build warns of that). */
static inline bool spec_retries_given(const struct spec_options *o)
{
    return o->lost_retries != SPEC_RETRIES_NOT_GIVEN && o->lost_retries > 0 && !o->at_most_once;
}

#endif
