/* Scripts that say in comments how they are to be submitted: `hawk submit job.sh` with lines like
 *
 *     #HAWK --array 1-100 --name "my job" */
#ifndef HAWK_CLI_SCRIPT_H
#define HAWK_CLI_SCRIPT_H

#include <stdbool.h>

/* A command line that replaces the user's; zeroed to start with. */
struct script {
    char **argv; /* NULL-terminated */
    int argc, cap;
};

/* argv[first] is the first word that is no flag. If it is a file with #HAWK lines above its first command, and no "--"
 * stands before it, makes the command line: the script's flags, then the user's, which go before them, then the
 * script's interpreter, the script and its arguments. Otherwise leaves s empty. An exit code, after a message unless it
 * is 0. */
int script_read(const char *command, int argc, char **argv, int first, struct script *s);
void script_free(struct script *s);

#endif
