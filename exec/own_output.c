/* Output files below output_dir, for runners: see own_output.h. */
#include "exec/own_output.h"

#include "exec/output.h"
#include "exec/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A task may open its own output again, as /dev/stdout or /dev/stderr, though the file is not its user's. So others may
 * write to the file: of these only the task comes to it, since its directory is closed to others. */
#define TASK_WRITES S_IWOTH

/* The process's umask may have taken away what the mode says. */
static void set_modes(const struct exec_config *c, const char *path, int fd, struct output_mode mode)
{
    char dir[EXEC_PATH_MAX];

    (void)!fchmod(fd, mode.file | TASK_WRITES);
    if (!c->group_reads)
        return;
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    (void)!chmod(dir, mode.dir | S_ISGID);
}

static int cannot_start(char *why, const char *path, int err)
{
    snprintf(why, EXEC_WHY_MAX, "cannot open the output file %.300s: %s", path, strerror(err));
    return HAWK_ECANNOT_START;
}

static int open_one(const struct exec_config *c, const struct msg_exec_start *m, enum output which, int *fd,
                    char *why)
{
    struct output_mode mode = output_mode(NULL, which, c->group_reads);
    char path[EXEC_PATH_MAX];
    int err = exec_output_path(c, &m->id, NULL, NULL, (int)which, path, sizeof path);

    if (err)
        return cannot_start(why, c->output_dir, ENAMETOOLONG);
    err = output_claim(path, m->desc, mode);
    if (err == -EPERM) {
        snprintf(why, EXEC_WHY_MAX, "%.300s is below the output of another user's job", path);
        return HAWK_EINVALID;
    }
    *fd = err ? err : output_open(path, true, mode);
    if (*fd < 0)
        return cannot_start(why, path, -*fd);
    (void)flock(*fd, LOCK_SH | LOCK_NB); /* held as long as the task has it: retention sees that */
    set_modes(c, path, *fd, mode);
    return 0;
}

int own_output_open(const struct exec_config *c, const struct msg_exec_start *m, int fds[2], uint32_t *files,
                    char why[EXEC_WHY_MAX])
{
    int err = 0;

    fds[0] = fds[1] = -1;
    *files = 0;
    for (int i = 0; i < 2; i++)
        if (output_is_default(m->desc, (enum output)(OUTPUT_STDOUT + i)))
            *files |= RUN_STDOUT << i;
    if (*files && !output_has_room(c->output_dir, c->output_free_min, why, EXEC_WHY_MAX))
        return HAWK_ECANNOT_START;
    for (int i = 0; i < 2 && !err; i++)
        if (*files & (RUN_STDOUT << i))
            err = open_one(c, m, (enum output)(OUTPUT_STDOUT + i), &fds[i], why);
    for (int i = 0; i < 2 && err; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return err;
}

void own_output_ended(const struct exec_config *c, const struct held_run *r)
{
    const struct try_id id = held_run_try(r);

    if (r->files & (RUN_STDOUT | RUN_STDERR))
        output_ended(c, &id);
}
