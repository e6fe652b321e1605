/* A list of inputs that is read bit by bit: --each-line. */
#ifndef HAWK_CLI_LINES_H
#define HAWK_CLI_LINES_H

#include "cli/inputs.h"

struct lines;

/* Opens a list. NULL after a message. */
struct lines *lines_open(const char *command, const struct input_options *o, const char *path);
void lines_close(struct lines *l);
/* Whether its lines come by and by, as from a pipe or a terminal, and are not there already, as in a file. */
bool lines_come(const struct lines *l);
/* To be polled, where lines_come(). */
int lines_fd(const struct lines *l);
/* Reads some of it, and waits for that if nothing has come; or all of it. 0, or HAWK_EXIT_USAGE after a message. */
int lines_read(struct lines *l);
int lines_read_all(struct lines *l);
/* Adds the inputs that have come whole, at most `max`, to `to`. 0, or HAWK_EXIT_USAGE after a message, and from then
 * on: a line is refused, and what stands before it was added. */
int lines_take(struct lines *l, struct task_args *to, uint32_t max);
/* Whether lines_take() has nothing to give until more is read. */
bool lines_hungry(const struct lines *l);
/* Whether all of it was taken, and no line was refused. */
bool lines_over(const struct lines *l);
/* The values of an input; 0: no line has come. */
uint32_t lines_columns(const struct lines *l);
/* The names of the columns (--header); the caller owns them. */
struct strings lines_take_names(struct lines *l);

#endif
