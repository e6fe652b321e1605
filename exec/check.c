/* Checks whether tasks could start here again, without starting one. */
#include "exec/launch.h"
#include "exec/output.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_BYTES 4096 /* written to a file, so that a full disk shows */

static int __attribute__((noinline, no_sanitize("address", "thread", "undefined"))) child_end(void *arg)
{
    return 0;
}

static int check_process(const struct launcher *l)
{
    pid_t pid = clone(child_end, l->stack + LAUNCH_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

    if (pid < 0)
        return errno;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

static int check_file(const char *path, struct output_mode mode)
{
    static const char data[CHECK_BYTES];
    int fd = output_open(path, true, mode), err = fd < 0 ? -fd : 0;

    if (fd < 0)
        return err;
    if (write(fd, data, sizeof data) < (ssize_t)sizeof data)
        err = ENOSPC;
    close(fd);
    unlink(path);
    return err;
}

/* Cuts off the last component. False: there is none left. */
static bool go_up(char *dir)
{
    char *slash = strrchr(dir, '/');

    if (!slash || slash == dir)
        return false;
    *slash = '\0';
    return true;
}

static int check_place(const char *place)
{
    char dir[EXEC_PATH_MAX];
    size_t len = strlen(place);
    /* A directory for files: launch makes the directories that lead to them. */
    bool files = len > 1 && place[len - 1] == '/';
    struct stat st;

    snprintf(dir, sizeof dir, "%.*s", (int)(files ? len - 1 : len), place);
    while (files && access(dir, F_OK) < 0 && errno == ENOENT && go_up(dir))
        ;
    if (stat(dir, &st) < 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    if (access(dir, files ? W_OK | X_OK : X_OK) < 0)
        return errno;
    return files && exec_disk_full(dir) ? ENOSPC : 0;
}

void launcher_check(const struct launcher *l, const char *place, char why[LAUNCH_WHY_MAX])
{
    const struct exec_config *c = &l->config;
    char path[EXEC_PATH_MAX];
    int err;

    why[0] = '\0';
    if ((err = check_process(l)))
        snprintf(why, LAUNCH_WHY_MAX, "cannot make a process: %s", strerror(err));
    else if (output_room(c->output_dir) < c->output_free_min)
        snprintf(why, LAUNCH_WHY_MAX, "too little room on the disk of %s", c->output_dir);
    else if (snprintf(path, sizeof path, "%s/.check-%d", c->output_dir, (int)getpid()) < (int)sizeof path &&
             (err = check_file(path, output_mode(NULL, OUTPUT_STDOUT, c->group_reads))))
        snprintf(why, LAUNCH_WHY_MAX, "cannot write a file in %s: %s", c->output_dir, strerror(err));
    else if (*place && (err = check_place(place)))
        snprintf(why, LAUNCH_WHY_MAX, "%s: %s", place, strerror(err));
}

bool exec_may_run(const struct exec_config *c, const struct job_desc *d, char *why)
{
    if (c->as_users && d->user->len == 0) {
        snprintf(why, EXEC_WHY_MAX,
                 "this worker runs commands as their users, and nobody knows whose the job is");
        return false;
    }
    if (!c->serves || strcmp(c->serves, d->user->data) == 0)
        return true;
    snprintf(why, EXEC_WHY_MAX, "this worker runs commands of user %s alone, and the job is %s%s", c->serves,
             d->user->len ? "of user " : "nobody's", d->user->data);
    return false;
}
