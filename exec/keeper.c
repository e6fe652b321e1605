/* Keepers: see keeper.h. They are started by posix_spawn(): this process has threads by then. */
#include "exec/keeper.h"

#include "base/utf8.h"
#include "exec/note.h"
#include "exec/procs.h"
#include "exec/spawner.h"
#include "exec/spawner_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOTE "keeper"
#define FIRST_FD 10 /* above those that the runner gets */
#define CHECK_MS 10000

/* When the process started: with its number that names it for good. 0: there is none, or it has
 * ended and nobody has reaped it. */
static int64_t start_of(pid_t pid)
{
    struct proc p;

    return procs_look(pid, &p) && !p.dead ? p.start_us : 0;
}

/* ---- Where later agents find it ---- */

static int write_note(const struct keeper *k, const char *dir)
{
    char text[NOTE_MAX];

    snprintf(text, sizeof text, "%d %" PRId64, (int)k->pid, start_of(k->pid));
    return note_write(dir, NOTE, text);
}

int keeper_find(struct keeper *k, const char *dir)
{
    char text[NOTE_MAX];
    int64_t start = 0;
    int pid = 0;

    *k = (struct keeper){.fd = -1};
    if (!note_read(dir, NOTE, text) ||
        sscanf(text, "%d %" SCNd64, &pid, &start) != 2 || /* NOLINT(cert-err34-c): start_of() decides */
        pid <= 1 || start == 0)
        return HAWK_ENOT_FOUND;
    k->pid = (pid_t)pid;
    k->fd = pidfd_open(k->pid, 0);
    if (k->fd >= 0 && start_of(k->pid) == start)
        return 0;
    keeper_forget(k);
    return HAWK_ENOT_FOUND;
}

/* ---- Starting ---- */

struct ends {
    int ours, theirs, listens, why_read, why_write, null;
};

static int above(int fd)
{
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);

    if (fd >= 0)
        close(fd);
    return moved;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int make_ends(struct ends *e, const char *dir)
{
    int pair[2] = {-1, -1}, why[2] = {-1, -1};
    bool made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && pipe2(why, O_CLOEXEC) == 0;

    e->ours = above(pair[0]);
    e->theirs = above(pair[1]);
    e->why_read = above(why[0]);
    e->why_write = above(why[1]);
    e->null = above(open("/dev/null", O_RDWR | O_CLOEXEC));
    e->listens = made && dir ? above(spawner_socket_listen(dir)) : -1;
    if (e->why_read >= 0)
        fcntl(e->why_read, F_SETFL, O_NONBLOCK);
    return made && e->ours >= 0 && e->theirs >= 0 && e->why_read >= 0 && e->why_write >= 0 && e->null >= 0 &&
                   (e->listens >= 0 || !dir)
               ? 0
               : HAWK_EIO;
}

static void close_theirs(struct ends *e)
{
    close_fd(&e->theirs);
    close_fd(&e->listens);
    close_fd(&e->why_write);
    close_fd(&e->null);
}

/* Returns an errno. The program gets no environment. */
static int spawn(pid_t *pid, const char *helper, const char *const *argv, const struct ends *e)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    int err;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_adddup2(&files, e->null, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, e->null, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, e->why_write, STDERR_FILENO);
    if (e->listens >= 0) {
        posix_spawn_file_actions_adddup2(&files, e->theirs, RUNNER_SOCKET_FD);
        posix_spawn_file_actions_adddup2(&files, e->listens, RUNNER_LISTEN_FD);
    }
    err = posix_spawn(pid, helper, &files, &attr, (char *const *)argv, (char *const[]){NULL});
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return err;
}

/* Without a pidfd nobody would hear of its end. */
static void end_unwatched(struct keeper *k)
{
    kill(k->pid, SIGTERM);
    while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    k->child = false;
}

int keeper_start(struct keeper *k, const char *helper, const char *user, const char *dir, int *fd,
                 int *why_fd, char why[EXEC_WHY_MAX])
{
    const char *const argv[] = {"hawk-run-as", "start", user, NULL};
    struct ends e;
    int err = make_ends(&e, dir) ? errno : spawn(&k->pid, helper, argv, &e);

    close_theirs(&e);
    k->child = !err;
    k->fd = err ? -1 : pidfd_open(k->pid, 0);
    if (k->fd >= 0 && write_note(k, dir) == 0) {
        *fd = e.ours;
        *why_fd = e.why_read;
        return 0;
    }
    if (err)
        snprintf(why, EXEC_WHY_MAX, "%.300s cannot be started: %s", helper, strerror(err));
    else
        snprintf(why, EXEC_WHY_MAX, "%.300s: %s", dir, strerror(errno));
    close_fd(&e.ours);
    close_fd(&e.why_read);
    if (k->child && k->fd < 0)
        end_unwatched(k);
    return HAWK_EIO;
}

void keeper_end(const struct keeper *k)
{
    if (k->fd >= 0)
        pidfd_send_signal(k->fd, SIGTERM, NULL, 0);
}

bool keeper_was_killed(const struct keeper *k)
{
    siginfo_t info = {0};

    return !k->child || waitid(P_PIDFD, (id_t)k->fd, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
           info.si_code != CLD_EXITED;
}

void keeper_forget(struct keeper *k)
{
    if (k->child)
        waitpid(k->pid, NULL, WNOHANG);
    close_fd(&k->fd);
}

/* ---- Whether it works at all ---- */

bool keeper_check(const char *helper, char why[EXEC_WHY_MAX])
{
    const char *const argv[] = {"hawk-run-as", "check", NULL};
    struct ends e;
    pid_t pid = -1;
    int status = -1, err = make_ends(&e, NULL) ? errno : spawn(&pid, helper, argv, &e);

    close_theirs(&e);
    *why = '\0';
    if (err) {
        snprintf(why, EXEC_WHY_MAX, "%.300s: %s", helper, strerror(err));
    } else {
        struct pollfd p = {.fd = e.why_read, .events = POLLIN};
        /* Until it has said something, or ended. It asks the system's database of users. */
        ssize_t n = poll(&p, 1, CHECK_MS) > 0 ? read(e.why_read, why, EXEC_WHY_MAX - 1) : 0;

        if (n == 0 && !(p.revents & POLLHUP))
            kill(pid, SIGKILL);
        why[n > 0 ? n : 0] = '\0';
        why[strcspn(why, "\n")] = '\0';
        why[utf8_tame(why, strlen(why))] = '\0';
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (status != 0 && !*why)
            snprintf(why, EXEC_WHY_MAX, "%.300s does not work", helper);
    }
    close_fd(&e.ours);
    close_fd(&e.why_read);
    return !err && status == 0;
}
