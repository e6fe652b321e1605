/* Ending a spawner and what it ran, from outside: see spawner_end.h. */
#include "exec/spawner_end.h"

#include "base/log.h"
#include "exec/freezer.h"
#include "exec/limits.h"
#include "exec/note.h"
#include "exec/procs.h"
#include "exec/spawner_socket.h"
#include "exec/strays.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE "spawner"

struct noted {
    pid_t pid;        /* 0: nobody is noted */
    int64_t start_us; /* as procs_look() tells; 0: by a version that did not note it */
};

/* Its children, too: one that it was about to start does not name its run yet, and could not be found later. */
void spawner_kill(pid_t spawner)
{
    struct pids children = {0};

    log_error("the spawner (process %d) stands still, and ends no task: killing it", (int)spawner);
    pids_add_children(&children, spawner);
    kill(spawner, SIGKILL);
    for (uint32_t i = 0; i < children.n; i++)
        kill(children.v[i], SIGKILL);
    pids_free(&children);
}

/* A task that version 1 has frozen does not die before it is thawed. */
void spawner_end_runs(pid_t spawner)
{
    freezer_leftovers(spawner);
    limits_leftovers(spawner);
    strays_end_of(spawner);
}

static struct noted read_note(const char *state_dir)
{
    struct noted n = {0};
    char text[NOTE_MAX], *rest;

    if (note_read(state_dir, NOTE, text)) {
        n.pid = (pid_t)strtol(text, &rest, 10);
        n.start_us = strtoll(rest, NULL, 10);
    }
    return n;
}

void spawner_note(const char *state_dir, pid_t spawner)
{
    struct proc p = {0};
    char text[NOTE_MAX];

    (void)procs_look(spawner, &p);
    snprintf(text, sizeof text, "%d %" PRId64, (int)spawner, p.start_us);
    if (note_write(state_dir, NOTE, text))
        log_warn("%s/" NOTE
                 ": %s: if this process and its spawner are killed, the next one does not end their tasks",
                 state_dir, strerror(errno));
}

/* If a process has its number by now, the tasks with that number may be its own. */
void spawner_end_noted_runs(const char *state_dir)
{
    struct noted n = read_note(state_dir);
    struct proc p;

    if (n.pid > 1 && (!procs_look(n.pid, &p) || p.dead))
        spawner_end_runs(n.pid);
}

int spawner_kill_noted(const char *state_dir)
{
    struct noted n = read_note(state_dir);
    struct proc p;

    if (n.pid > 1 && procs_look(n.pid, &p) && p.start_us == n.start_us) {
        spawner_kill(n.pid);
        return 0;
    }
    log_error("%s/" SPAWNER_SOCKET
              ": the spawner that listens there neither lets itself be taken over nor ends: stop it by hand",
              state_dir);
    return HAWK_EIO;
}
