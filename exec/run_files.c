/* The descriptors that a user's runner gets: see run_files.h. */
#include "exec/run_files.h"

#include "exec/own_output.h"

#include <unistd.h>

static void end_limits(struct run_owner *o, const struct held_run *r)
{
    if (r->files & (RUN_MEMORY | RUN_PIDS))
        limits_end_run(&o->limits, r->run);
}

void run_files_close(struct run_owner *o, int fds[RUN_FILES], const struct held_run *r)
{
    for (int i = 0; i < RUN_FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    end_limits(o, r);
}

int run_files_open(struct run_owner *o, const struct msg_exec_start *m, int fds[RUN_FILES], uint32_t *files,
                   char why[EXEC_WHY_MAX])
{
    int *entries = fds + 2;
    struct limited t;
    int err;

    entries[LIMIT_MEMORY] = entries[LIMIT_PIDS] = -1;
    err = own_output_open(o->config, m, fds, files, why);
    if (err || !limits_wanted(m->desc))
        return err;
    (void)limits_sweep(&o->limits);
    err = limits_make(&o->limits, m->run, m->desc, &t, entries, why, EXEC_WHY_MAX);
    for (int kind = 0; kind < LIMIT_KINDS && !err; kind++)
        if (entries[kind] >= 0)
            *files |= RUN_MEMORY << kind;
    if (err)
        run_files_close(o, fds, &(struct held_run){0});
    return err;
}

void run_files_ended(struct run_owner *o, const struct held_run *r)
{
    own_output_ended(o->config, r);
    end_limits(o, r);
}
