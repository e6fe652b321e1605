/* The descriptors that a user's runner gets: see run_files.h. */
#include "exec/run_files.h"

#include "exec/own_output.h"

#include <unistd.h>

_Static_assert(RUN_FILES == RUN_FIRST_ENTRY + LIMIT_KINDS && RUN_MEMORY == 1u << RUN_FIRST_ENTRY,
               "enum run_file");

static void close_all(const int fds[RUN_FILES])
{
    for (int i = 0; i < RUN_FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void end_limits(struct limits *l, const struct held_run *r)
{
    if (r->files & (RUN_MEMORY | RUN_PIDS))
        limits_end_run(l, r->run);
}

void run_files_close(struct limits *l, const int fds[RUN_FILES], const struct held_run *r)
{
    close_all(fds);
    end_limits(l, r);
}

int run_files_open(const struct exec_config *c, struct limits *l, const struct msg_exec_start *m,
                   int fds[RUN_FILES], uint32_t *files, char why[EXEC_WHY_MAX])
{
    int *entries = fds + RUN_FIRST_ENTRY;
    struct limited t;
    int err;

    entries[LIMIT_MEMORY] = entries[LIMIT_PIDS] = -1;
    err = own_output_open(c, m, fds, files, why);
    if (err || !limits_wanted(m->desc))
        return err;
    (void)limits_sweep(l);
    err = limits_make(l, m->run, m->desc, &t, entries, why, EXEC_WHY_MAX);
    for (int kind = 0; kind < LIMIT_KINDS; kind++)
        if (entries[kind] >= 0)
            *files |= RUN_MEMORY << kind;
    if (err)
        close_all(fds);
    return err;
}

void run_files_ended(const struct exec_config *c, struct limits *l, const struct held_run *r)
{
    own_output_ended(c, r);
    end_limits(l, r);
}
