/* What `hawk sim` does beside simulating: other formats to traces, and traces to files. */
#ifndef HAWK_DAEMON_SIM_CONVERT_H
#define HAWK_DAEMON_SIM_CONVERT_H

#include "sim/sim.h"

/* The command; argv[0] is "convert-google". An enum hawk_exit. */
int sim_convert_google(int argc, char **argv);
/* Writes a source's jobs as a trace, to standard output for "-", or says on stderr why it cannot. An enum hawk_exit. */
int sim_write_trace(struct sim_source *source, const char *path);

#endif
