/* Manual pages and completion for shells, made from the tables of commands. */
#ifndef HAWK_DAEMON_GENERATE_H
#define HAWK_DAEMON_GENERATE_H

#include "cli/command.h"

/* All commands, by table; the last one is NULL. */
extern const struct command *const command_tables[];
/* The flags of a command, as its help lists them: its own, of which those of daemons come from their settings, and
 * then those that it shares. Ends with a NULL name. Constant. */
const struct flag *generate_flags(const struct command *c);

/* A page in roff; c NULL: hawk(1), about all of them. */
void generate_man(FILE *out, const struct command *c);
/* False: there is no such shell; there are bash, zsh and fish. */
bool generate_completion(FILE *out, const char *shell);

#endif
