/* Commands of the `hawk` binary as data: main() finds one by name, runs it, and prints its help. Usage texts,
 * manual pages and shell completion all come from these tables. */
#ifndef HAWK_CLI_COMMAND_H
#define HAWK_CLI_COMMAND_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The exit codes of every command. */
enum hawk_exit {
    HAWK_EXIT_OK = 0,
    HAWK_EXIT_FAILED = 1,      /* a task failed or was cancelled; or output could not be written */
    HAWK_EXIT_USAGE = 2,       /* the command line is wrong */
    HAWK_EXIT_UNREACHABLE = 3, /* no cluster, no such job, or the cluster refused */
    HAWK_EXIT_GAVE_UP = 4,     /* --for: what it waited for goes on */
    HAWK_EXIT_SIGNALLED = 128, /* plus the signal that ended it: exit_code_of_signal() */
    HAWK_EXIT_HELP = 64,       /* internal: --help was asked for, and command_run prints it */
};

/* How a flag's argument is read, and the type of the member that it fills: */
enum flag_kind {
    FLAG_BOOL,   /* bool; takes no argument */
    FLAG_TEXT,   /* const char * */
    FLAG_LIST,   /* struct flag_list; may be given several times */
    FLAG_SOURCE, /* the same, with the flag's name */
    FLAG_WORDS, /* the same, up to the next flag or "--"; a name that begins with '+' goes on with the one before */
    FLAG_COUNT,    /* uint32_t, within [min, max] */
    FLAG_DURATION, /* int64_t microseconds, at least min */
    FLAG_SIZE,     /* int64_t bytes, at least 1 */
    FLAG_MEMORY,   /* the same, for a program: at least 1M */
    FLAG_SHARE,    /* uint32_t parts per million: 17% or 0.17 */
    FLAG_CHOICE,   /* const char *, one of the words in `arg`: "short|long|auto" */
};

struct flag_list {
    const char **v;
    const char **flags; /* the name of the flag of each; NULL for FLAG_LIST */
    uint32_t n, cap, flags_cap;
};

struct flag {
    const char *name; /* without the dashes; NULL ends a table */
    const char *arg;  /* name of its argument in help ("FILE"); NULL for FLAG_BOOL */
    const char *help; /* one sentence, no full stop */
    size_t offset;    /* of the member that it fills, in the command's options struct */
    uint64_t min, max;
    uint8_t kind; /* enum flag_kind */
    char letter;  /* short form; 0: none */
};

/* FLAG(KIND, struct, member, "name", letter, "ARG", "help"). The others: FLAG_COUNT with a range, and a
 * duration that must not be 0. */
#define FLAG(kind_, type, member, name_, letter_, arg_, help_)                                               \
    {                                                                                                        \
        .kind = FLAG_##kind_, .offset = offsetof(type, member), .name = (name_), .letter = (letter_),        \
        .arg = (arg_), .help = (help_)                                                                       \
    }
#define FLAG_NUMBER(type, member, name_, letter_, arg_, help_, min_, max_)                                   \
    {                                                                                                        \
        .kind = FLAG_COUNT, .offset = offsetof(type, member), .name = (name_), .letter = (letter_),          \
        .arg = (arg_), .help = (help_), .min = (min_), .max = (max_)                                         \
    }
#define FLAG_ABOVE_0(type, member, name_, letter_, arg_, help_)                                              \
    {                                                                                                        \
        .kind = FLAG_DURATION, .offset = offsetof(type, member), .name = (name_), .letter = (letter_),       \
        .arg = (arg_), .help = (help_), .min = 1                                                             \
    }

static inline bool flag_repeats(const struct flag *f)
{
    return f->kind == FLAG_LIST || f->kind == FLAG_SOURCE || f->kind == FLAG_WORDS;
}

struct command {
    const char *name;          /* NULL ends a table */
    const char *help;          /* one line for the list of commands */
    const char *synopsis;      /* the text after "hawk NAME": "[OPTIONS] -- CMD [ARG...]" */
    const char *words;         /* what arguments may be, for completion: "set|reset", "ID"; NULL: anything */
    const char *details;       /* paragraphs and examples; NULL: none */
    const struct flag *flags;  /* its own; NULL: none, or reads argv itself */
    const struct flag *common; /* flags that it shares with other commands, shown after its own; NULL: none */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; an enum hawk_exit */
};

/* The commands of users: submit, wait, jobs, ... */
extern const struct command client_commands[];

/* Finds a command; NULL: the table has none of that name. */
const struct command *command_find(const struct command *table, const char *name);
/* Prints the full help of one command. */
void command_help(FILE *out, const struct command *c);
/* Says of which commands each flag's help is to tell whether they have it. The last one is NULL. */
void command_set_relatives(const struct command *const *commands);
/* The flag's help; where the command is one of those, behind the names of those that have a flag of this name. */
#define FLAG_HELP_MAX 512
const char *command_flag_help(const struct command *c, const struct flag *f, char buf[FLAG_HELP_MAX]);
/* Parses "1.25" as 1250, rounded. HAWK_EINVALID, unless it is from min thousandths to 1000. */
HAWK_MUST_USE int milli_parse(const char *text, uint32_t min, uint32_t *milli);
/* Prints text, broken at spaces so that it stays between column `indent`, where the first line begins, and
 * column 100. */
void help_wrapped(FILE *out, const char *text, int indent);
/* Prints the names and one-line helps of a table, aligned. */
void command_list(FILE *out, const struct command *table);
/* Runs a command, prints its help when it returns HAWK_EXIT_HELP, and ends it with command_end. */
int command_run(const struct command *c, int argc, char **argv);
/* From now on stdout and stderr write as write_all() (base/io.h) does. A program that node or an event loop starts may
 * get pipes that do not block, and the C library drops what such a pipe has no room for. Call it before anything is
 * printed. */
void command_take_streams(void);
/* The last error of writing to stdout or stderr, by their descriptor: errno, which the streams lose; 0: none. */
int command_write_error(int fd);
/* Every command ends with this. It prints the JSON document of a command that failed before it printed
 * any. It checks whether all output got to stdout: a full disk is reported and makes a success
 * HAWK_EXIT_FAILED; a reader that went away has seen enough. */
int command_end(int exit_code);
/* 0; or, after a message, HAWK_EXIT_FAILED: standard output is closed. For commands whose id would be lost. */
int command_may_print(const char *command);

/* Whether the signal is ignored. Commands keep that and install no handler: nohup ignores SIGHUP, and a shell
 * without job control ignores SIGINT and SIGQUIT of what it starts in the background. */
bool signal_ignored(int signo);
/* The exit code of a command that this signal ended: 128 and its number, as shells tell it. After SIGINT,
 * command_die_interrupted() ends the process. */
int exit_code_of_signal(int signo);
/* Ends the process by SIGINT if exit_code_of_signal() was asked for that: a shell then leaves the loop or script in
 * which the command ran. It goes on after a command that only exits with 130. */
void command_die_interrupted(void);

/* Reads flags of both tables (each NULL, or ended by a NULL name) from argv[1..] into opts. It stops at
 * "--" (skipped) or, with stop_early, at the first argument that is no flag. Otherwise flags and arguments
 * may mix, and it moves the arguments behind the flags. Returns the index of the first argument that is no
 * flag, or the negative of the command's exit code: -HAWK_EXIT_USAGE after a message that names the flag
 * and what to do, -HAWK_EXIT_HELP for --help or -h. Messages begin with `command`: the command's name, and
 * behind ": " the place of the flags if they do not stand on the command line. */
int flags_parse(const char *command, const struct flag *own, const struct flag *common, bool stop_early,
                int argc, char **argv, void *opts);
/* For commands that read their flags themselves: takes --output table|json out of the arguments. 0, or
 * HAWK_EXIT_USAGE after a message. */
int flags_take_output(const char *command, int *argc, char **argv);
void flag_list_free(struct flag_list *l);

/* say_error() (cli/document.h) for a wrong command line, with the command in the text. Flags in it that the user wrote
 * by their letters stand in the message as he wrote them. Returns HAWK_EXIT_USAGE. */
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
