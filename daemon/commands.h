/* The commands that need more than a client: daemons, the embedded cluster, configuration. */
#ifndef HAWK_DAEMON_COMMANDS_H
#define HAWK_DAEMON_COMMANDS_H

#include "cli/command.h"

#ifndef HAWK_VERSION
#define HAWK_VERSION "0.1.0"
#endif

/* central, dist, worker, up, run, config, sim. Each reads its own flags and prints its own --help. */
extern const struct command daemon_commands[];

int central_main(int argc, char **argv);
int dist_main(int argc, char **argv);
int worker_main(int argc, char **argv);
int up_main(int argc, char **argv);
extern const struct flag run_flags[];
extern const char run_details[];
int run_main(int argc, char **argv);
extern const struct flag config_command_flags[];
extern const char config_details[];
extern const struct flag prune_flags[];
extern const char prune_details[];
int prune_main(int argc, char **argv);
extern const struct flag completion_flags[];
int completion_main(int argc, char **argv);
int generate_main(int argc, char **argv);
int config_main(int argc, char **argv);
extern const struct flag sim_flags[];
extern const char sim_details[];
int sim_main(int argc, char **argv);

#endif
