/* The watcher: see watcher.h. */
#include "exec/watcher.h"

#include "base/mem.h"
#include "exec/freezer.h"
#include "exec/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <sys/prctl.h>
#include <unistd.h>

static void add_group(struct watcher *w, pid_t group)
{
    vec_grow(w->groups, w->n, w->cap);
    w->groups[w->n++] = group;
}

static void remove_group(struct watcher *w, pid_t group)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->groups[i] == group)
            w->groups[i--] = w->groups[--w->n];
}

/* Reads process groups from the pipe; a negative one is no longer stopped. A write of a number is never torn.
 * When the pipe ends, the spawner is dead: thaws everything, and ends limited tasks. */
static noreturn void watch_spawner(struct watcher *w, pid_t spawner, int fd)
{
    pid_t group;
    ssize_t got;

    while ((got = read(fd, &group, sizeof group)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof group)
            break;
        if (group > 0)
            add_group(w, group);
        else
            remove_group(w, -group);
    }
    for (uint32_t i = 0; i < w->n; i++)
        kill(-w->groups[i], SIGCONT);
    freezer_leftovers(spawner);
    limits_leftovers(spawner);
    limits_thaw(0);
    _exit(0);
}

int watcher_start(struct watcher *w)
{
    pid_t spawner = getpid(), pid;
    int fds[2];

    if (w->pid)
        return 0;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return HAWK_EIO;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "hawk-watcher", 0, 0, 0);
        (void)dup2(fds[0], STDIN_FILENO); /* it holds no other descriptor: no socket, no task's file */
        close_range(STDIN_FILENO + 1, ~0u, 0);
        if (chdir("/") == 0)
            watch_spawner(w, spawner, STDIN_FILENO);
        _exit(1);
    }
    close(fds[0]);
    if (pid < 0 || fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0) {
        close(fds[1]);
        return HAWK_EIO;
    }
    w->pid = pid;
    w->fd = fds[1];
    return 0;
}

int watcher_note(struct watcher *w, pid_t group, bool stopped)
{
    pid_t word = stopped ? group : -group;

    remove_group(w, group);
    if (stopped)
        add_group(w, group);
    if (!w->pid)
        return HAWK_EIO;
    return write(w->fd, &word, sizeof word) == sizeof word ? 0 : HAWK_EIO;
}

void watcher_ended(struct watcher *w)
{
    close(w->fd);
    w->pid = 0;
}

void watcher_free(struct watcher *w)
{
    if (w->pid)
        watcher_ended(w);
    free(w->groups);
    w->groups = NULL;
    w->n = w->cap = 0;
}
