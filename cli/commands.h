/* The user commands' flags, details and functions. daemon/user_commands.c makes the table of them. */
#ifndef HAWK_CLI_COMMANDS_H
#define HAWK_CLI_COMMANDS_H

#include "cli/command.h"

int submit_main(int argc, char **argv);
int exec_main(int argc, char **argv);
int wait_main(int argc, char **argv);
int jobs_main(int argc, char **argv);
int job_main(int argc, char **argv);
int cancel_main(int argc, char **argv);
int hold_main(int argc, char **argv);
int release_main(int argc, char **argv);
int resubmit_main(int argc, char **argv);
int cat_main(int argc, char **argv);
int result_main(int argc, char **argv);
int nodes_main(int argc, char **argv);
int stats_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int policy_main(int argc, char **argv);
int drain_main(int argc, char **argv);
int undrain_main(int argc, char **argv);
int down_main(int argc, char **argv);
int history_main(int argc, char **argv);

extern const struct flag submit_flags[], exec_flags[], wait_flags[], jobs_flags[], job_flags[], cat_flags[],
    cancel_flags[], resubmit_flags[], result_flags[], stats_flags[], policy_flags[], drain_flags[],
    down_flags[], history_flags[];

#endif
