/* hawk-runner: a user's runner, as hawk-run-as starts it. `hawk spawner` does the same, but all its libraries have to
 * be loaded first, while a user's first task on the worker waits. This one cannot verify signatures, and does not run
 * where it should. */
#include "exec/spawner.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc == 2)
        spawner_of_user(NULL);
    fprintf(stderr,
            "hawk-runner verifies no signatures: with user_root, `hawk PATH` must name hawk itself\n");
    return 1;
}
