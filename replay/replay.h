/* `hawk replay`: a trace's jobs on a running cluster. */
#ifndef HAWK_REPLAY_REPLAY_H
#define HAWK_REPLAY_REPLAY_H

#include "cli/command.h"

extern const struct flag replay_flags[];
extern const char replay_details[]; /* paragraphs of its help */
int replay_main(int argc, char **argv);

#endif
