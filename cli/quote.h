/* Commands as a shell reads them. */
#ifndef HAWK_CLI_QUOTE_H
#define HAWK_CLI_QUOTE_H

#include "msg/types.h"

/* The arguments, each quoted where it must be, with blanks between them. The caller frees it. */
char *quote_command(const struct strings *argv);

#endif
