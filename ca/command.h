/* `hawk ca`: the cluster's roots, and certificates. */
#ifndef HAWK_CA_COMMAND_H
#define HAWK_CA_COMMAND_H

#include "cli/command.h"

extern const struct flag ca_flags[];
extern const char ca_details[]; /* paragraphs of its help */
int ca_main(int argc, char **argv);

#endif
