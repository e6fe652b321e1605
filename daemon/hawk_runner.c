/* hawk-runner: a user's runner, as hawk-run-as starts it. `hawk spawner` does the same, but all its libraries have to
 * be loaded first, while a user's first task on the worker waits. */
#include "daemon/signed_spec.h"
#include "exec/spawner.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "signed") == 0)
        signed_spawner();
    spawner_of_user(NULL);
}
