/* The descriptors that a user's runner gets: see run_files.h. */
#include "exec/run_files.h"

#include "exec/own_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(RUN_GATE_PLACE == RUN_FIRST_ENTRY + LIMIT_KINDS && RUN_FILES == RUN_GATE_PLACE + 1 &&
                   RUN_MEMORY == 1u << RUN_FIRST_ENTRY && RUN_GATE == 1u << RUN_GATE_PLACE,
               "enum run_file");

static void close_all(const int fds[RUN_FILES])
{
    for (int i = 0; i < RUN_FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void end_limits(struct gates *g, const struct held_run *r)
{
    if (!(r->files &
          (RUN_MEMORY | RUN_PIDS | RUN_GATE | RUN_HAS_FREEZER))) /* an older agent opened no gate */
        return;
    gates_close(g, r->run);
    limits_end_run(&g->limits, r->run);
}

void run_files_close(struct gates *g, const int fds[RUN_FILES], const struct held_run *r)
{
    close_all(fds);
    end_limits(g, r);
}

static bool may_be_paused(const struct msg_exec_start *m)
{
    return m->class == CLASS_LONG && !(m->desc->flags & JOB_NO_PAUSE);
}

/* The task's cgroups, and the gate to them. */
static int open_limits(struct gates *g, const struct msg_exec_start *m, int fds[RUN_FILES], uint32_t *files,
                       char why[EXEC_WHY_MAX])
{
    int *entries = fds + RUN_FIRST_ENTRY;
    bool limited = limits_wanted(m->desc);
    struct limited t = {0};
    int err;

    (void)limits_sweep(&g->limits);
    if (limited && (err = limits_make(&g->limits, m->run, m->desc, &t, O_PATH, entries, why, EXEC_WHY_MAX)))
        return err;
    if (!(may_be_paused(m) && limits_make_freezer(&g->limits, m->run)) && !limited)
        return 0;
    fds[RUN_GATE_PLACE] = gates_open(g, m->run);
    if (fds[RUN_GATE_PLACE] < 0) {
        snprintf(why, EXEC_WHY_MAX, "the task cannot be limited: %s", strerror(errno));
        limits_end_run(&g->limits, m->run);
        return limited ? HAWK_EUNSUPPORTED : 0;
    }
    *files |= RUN_GATE;
    for (int kind = 0; kind < LIMIT_KINDS; kind++)
        if (entries[kind] >= 0)
            *files |= RUN_MEMORY << kind;
    return 0;
}

int run_files_open(const struct exec_config *c, struct gates *g, const struct msg_exec_start *m,
                   int fds[RUN_FILES], uint32_t *files, char why[EXEC_WHY_MAX])
{
    int err;

    for (int i = RUN_FIRST_ENTRY; i < RUN_FILES; i++)
        fds[i] = -1;
    err = own_output_open(c, m, fds, files, why);
    if (err)
        return err;
    err = open_limits(g, m, fds, files, why);
    if (err)
        close_all(fds);
    return err;
}

void run_files_ended(const struct exec_config *c, struct gates *g, const struct held_run *r)
{
    own_output_ended(c, r);
    end_limits(g, r);
}
