/* `hawk user`: who may use the cluster. `hawk login`, `hawk logout`: the own credential. */
#ifndef HAWK_CA_USER_COMMAND_H
#define HAWK_CA_USER_COMMAND_H

#include "cli/command.h"

extern const struct flag user_flags[], login_flags[], logout_flags[];
extern const char user_details[], login_details[];
int user_main(int argc, char **argv);
int login_main(int argc, char **argv);
int logout_main(int argc, char **argv);

#endif
