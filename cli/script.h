/* Scripts that say in comments how they are to be submitted: `hawk submit job.sh`, or `hawk submit - < job.sh`, with
 * lines like
 *
 *     #HAWK --array 1-100 --name "my job" */
#ifndef HAWK_CLI_SCRIPT_H
#define HAWK_CLI_SCRIPT_H

#include <stddef.h>

/* The words of a script's lines, and then, from argv[first] on, the command that runs it: its interpreter, the script
 * and its arguments. argv[0] is the name of Hawk's command. Zeroed to start with. */
struct script {
    char **argv; /* NULL-terminated; NULL: there is no such script */
    int argc, cap, first;
    char *
        text; /* the script itself, of len bytes, if standard input has it: the command reads it there; else NULL */
    size_t len;
};

/* Parses flags as flags_parse() does; `where` begins its messages. It may keep the words until script_free(). */
typedef int script_flags(const char *where, int argc, char **argv, void *arg);

/* argv[first] is the first word that is no flag. If no "--" stands before it, and it is a file with #HAWK lines above
 * its first command, or one that begins with #! and whose name starts no program, parses the flags of each such line
 * and fills s; otherwise leaves both alone. `-` and /dev/stdin are script_read_stdin(). It warns of a
 * #HAWK line below. A *.sh that is neither a file nor a program is an error. An exit code, after a message that names
 * file and line unless it is 0. A word that is no flag, nor an argument of one, is an error. */
int script_read(int argc, char **argv, int first, script_flags *parse, void *arg, struct script *s);
/* The same for a script on standard input, with or without such lines: argv[first] is `-`, or there is none. An empty
 * one leaves s alone if there is none, and else is an error. */
int script_read_stdin(int argc, char **argv, int first, script_flags *parse, void *arg, struct script *s);
void script_free(struct script *s);

#endif
