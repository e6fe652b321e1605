/* See self.h. */
#include "daemon/self.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXE "/proc/self/exe"

static char launcher[PATH_MAX];

void self_init(void)
{
    const char *told = getenv("HAWK_LAUNCHER");

    if (told)
        snprintf(launcher, sizeof launcher, "%s", told);
    unsetenv("HAWK_LAUNCHER");
}

/* Where the launcher took its own C library, what runs is that one's dynamic linker. */
const char *self_exec(void) { return *launcher ? launcher : EXE; }

const char *self_path(void)
{
    static char path[PATH_MAX];
    ssize_t n = *launcher ? 0 : readlink(EXE, path, sizeof path - 1);

    path[n > 0 ? n : 0] = '\0';
    return *launcher ? launcher : path;
}
