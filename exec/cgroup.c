/* Files of cgroups: see cgroup.h. */
#include "exec/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNT "/sys/fs/cgroup"
#define NAME "hawk-task-"         /* followed by SPAWNER-RUN */
#define KEEPER_NAME "hawk-keeper" /* as hawk-run-as names itself */
#define PROCESSES_MAX (1u << 20)
#define ROUNDS 100 /* passes over a cgroup in which new processes may still appear */
#define DEPTH_MAX 16

int cgroup_write(const char *path, const char *file, const char *text)
{
    char name[CGROUP_PATH_MAX + 32];
    int fd, err = 0;

    snprintf(name, sizeof name, "%s/%s", path, file);
    fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (write(fd, text, strlen(text)) < 0)
        err = errno;
    close(fd);
    errno = err;
    return err ? -1 : 0;
}

/* Whether a file of the directory contains that word. */
static bool says(const char *dir, const char *file, const char *word)
{
    char path[CGROUP_PATH_MAX + 32], *text;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    text = procs_read(path, PROCESSES_MAX, &len);
    bool found = text && strstr(text, word);
    free(text);
    return found;
}

bool cgroup_has(const char *path, const char *file)
{
    char name[CGROUP_PATH_MAX + 32];

    snprintf(name, sizeof name, "%s/%s", path, file);
    return access(name, F_OK) == 0;
}

uint64_t cgroup_number(const char *path, const char *file, const char *word)
{
    char name[CGROUP_PATH_MAX + 32], *text;
    size_t len;

    snprintf(name, sizeof name, "%s/%s", path, file);
    text = procs_read(name, PROCESSES_MAX, &len);
    const char *at = text ? strstr(text, word) : NULL;
    uint64_t n = at ? strtoull(at + strlen(word), NULL, 10) : 0;
    free(text);
    return n;
}

/* ---- This process's cgroup ---- */

static bool is_ours(const char *dir)
{
    struct pids l = {0};

    cgroup_processes(dir, &l);
    bool ours = pids_have(&l, getpid());
    pids_free(&l);
    return ours;
}

/* The path in a line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH"; NULL: the line is of another
 * hierarchy. */
static const char *path_in(const char *line, int version, const char *controller)
{
    const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    const char *word = path && version == 1 ? strstr(controllers, controller) : NULL;

    if (!path)
        return NULL;
    if (version == 2)
        return strncmp(line, "0::", 3) == 0 ? path + 1 : NULL;
    return word && word < path ? path + 1 : NULL;
}

int cgroup_own(int version, const char *controller, char base[EXEC_PATH_MAX])
{
    struct statfs fs;
    bool only2 = statfs(MOUNT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    char mount[sizeof MOUNT + 32];
    size_t len;
    char *text = procs_read("/proc/self/cgroup", PROCESSES_MAX, &len), *save = NULL;
    int err = HAWK_EUNSUPPORTED;

    snprintf(mount, sizeof mount, MOUNT "%s%s", version == 2 && only2 ? "" : "/",
             version == 1 ? controller
             : only2      ? ""
                          : "unified");
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && err;
         line = strtok_r(NULL, "\n", &save)) {
        const char *path = path_in(line, version, controller);

        if (!path || snprintf(base, EXEC_PATH_MAX, "%s%s", mount, path) >= EXEC_PATH_MAX)
            continue;
        if (!is_ours(base)) /* in a container the mount point itself may be our cgroup */
            snprintf(base, EXEC_PATH_MAX, "%s", mount);
        if (is_ours(base))
            err = 0;
    }
    free(text);
    if (err)
        base[0] = '\0';
    else if (base[strlen(base) - 1] == '/')
        base[strlen(base) - 1] = '\0';
    return err;
}

/* ---- A task's cgroup ---- */

void cgroup_path(const char *base, pid_t owner, uint64_t number, char path[CGROUP_PATH_MAX])
{
    snprintf(path, CGROUP_PATH_MAX, "%s/" NAME "%d-%" PRIu64, base, (int)owner, number);
}

/* The spawner in a cgroup's name; 0: the name is not one of ours. */
static pid_t owner_of(const char *name)
{
    return strncmp(name, NAME, strlen(NAME)) == 0 ? (pid_t)strtol(name + strlen(NAME), NULL, 10) : 0;
}

bool cgroup_name_parts(const char *name, pid_t *owner, uint64_t *number)
{
    char *end;

    *owner = owner_of(name);
    if (*owner <= 0)
        return false;
    name = strchr(name + strlen(NAME), '-');
    *number = name ? strtoull(name + 1, &end, 10) : 0;
    return name && *end == '\0' && end > name + 1;
}

int cgroup_make(const char *path) { return mkdir(path, 0755); }

int cgroup_enter(const char *path, pid_t pid)
{
    char text[16];

    snprintf(text, sizeof text, "%d", (int)pid);
    return cgroup_write(path, "cgroup.procs", text);
}

/* Writes the file of version 2, or, if there is none, that of version 1. */
int cgroup_freeze(const char *path, bool frozen)
{
    if (cgroup_write(path, "cgroup.freeze", frozen ? "1" : "0") == 0)
        return 0;
    return errno == ENOENT ? cgroup_write(path, "freezer.state", frozen ? "FROZEN" : "THAWED") : -1;
}

bool cgroup_is_frozen(const char *path)
{
    return says(path, "cgroup.events", "frozen 1") || says(path, "freezer.state", "FROZEN");
}

static void list(const char *dir, const char *file, struct pids *l)
{
    char path[CGROUP_PATH_MAX + 32], *text;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    text = procs_read(path, PROCESSES_MAX, &len);
    pids_add_list(l, text);
    free(text);
}

void cgroup_processes(const char *path, struct pids *l) { list(path, "cgroup.procs", l); }

bool cgroup_waits(const char *path)
{
    struct pids l = {0};
    bool all = true;

    list(path, "tasks", &l);
    for (uint32_t i = 0; all && i < l.n; i++) {
        struct proc p;

        all = !procs_look(l.v[i], &p) || p.dead || p.stopped || p.waits;
    }
    pids_free(&l);
    return all;
}

void cgroup_signal(const char *path, int sig)
{
    struct pids l = {0};

    cgroup_processes(path, &l);
    for (uint32_t i = 0; i < l.n; i++)
        if (l.v[i] > 0) /* 0: a process of another pid namespace */
            kill(l.v[i], sig);
    pids_free(&l);
}

void cgroup_kill(const char *path)
{
    char below[CGROUP_PATH_MAX];
    struct dirent *e;
    DIR *d;

    if (cgroup_write(path, "cgroup.kill", "1") == 0)
        return;
    cgroup_signal(path, SIGKILL);
    d = opendir(path);
    while (d && (e = readdir(d)))
        if (e->d_type == DT_DIR && e->d_name[0] != '.' &&
            snprintf(below, sizeof below, "%s/%s", path, e->d_name) < (int)sizeof below)
            cgroup_kill(below);
    if (d)
        closedir(d);
}

/* ---- Removing ---- */

/* Removes the cgroups that a task made below its own, the deepest first. out: the cgroup that their processes
 * move to; NULL: they stay. */
static bool take_away(const char *path, const char *out, int depth)
{
    char below[CGROUP_PATH_MAX];
    struct dirent *e;
    DIR *d;

    if (rmdir(path) == 0 || errno == ENOENT)
        return true;
    d = depth < DEPTH_MAX ? opendir(path) : NULL;
    while (d && (e = readdir(d)))
        if (e->d_type == DT_DIR && e->d_name[0] != '.' &&
            snprintf(below, sizeof below, "%s/%s", path, e->d_name) < (int)sizeof below)
            (void)take_away(below, out, depth + 1);
    if (d)
        closedir(d);
    for (int round = 0; out && round < ROUNDS; round++) {
        struct pids l = {0};

        cgroup_processes(path, &l);
        bool empty = l.n == 0;
        for (uint32_t i = 0; i < l.n; i++)
            (void)cgroup_enter(out, l.v[i]);
        pids_free(&l);
        if (empty)
            break;
    }
    return rmdir(path) == 0 || errno == ENOENT;
}

bool cgroup_remove(const char *path) { return take_away(path, NULL, 0); }

/* Kills what is in the cgroup until it can be removed, or until it is clear that it cannot. */
static void kill_and_remove(const char *path)
{
    for (int round = 0; round < ROUNDS; round++) {
        cgroup_kill(path);
        if (cgroup_remove(path))
            return;
        poll(NULL, 0, 1 + round / 10);
    }
}

/* Whether processes of another pid namespace are in it: then its spawner lives there, perhaps. */
static bool is_foreign(const char *path)
{
    struct pids l = {0};

    cgroup_processes(path, &l);
    bool foreign = pids_have(&l, 0);
    pids_free(&l);
    return foreign;
}

static bool is_gone(pid_t pid) { return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH; }

static bool is_keeper(pid_t pid)
{
    char path[64], *name;
    size_t len;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    name = pid > 0 ? procs_read(path, sizeof path, &len) : NULL;
    bool is = name && strcmp(name, KEEPER_NAME "\n") == 0;
    free(name);
    return is;
}

static void for_all(const char *base, pid_t owner, bool (*is_meant)(pid_t),
                    void (*fn)(const char *path, pid_t owner))
{
    char path[CGROUP_PATH_MAX];
    struct dirent *e;
    DIR *d = opendir(base);

    while (d && (e = readdir(d))) {
        pid_t whose = owner_of(e->d_name);

        if ((owner ? whose == owner : is_meant(whose)) &&
            snprintf(path, sizeof path, "%s/%s", base, e->d_name) < (int)sizeof path)
            fn(path, owner);
    }
    if (d)
        closedir(d);
}

static void thaw(const char *path, pid_t owner)
{
    (void)owner;
    (void)cgroup_freeze(path, false);
}

static void empty(const char *path, pid_t owner)
{
    char base[CGROUP_PATH_MAX];

    snprintf(base, sizeof base, "%.*s", (int)(strrchr(path, '/') - path), path);
    thaw(path, owner);
    (void)take_away(path, base, 0);
}

static void end(const char *path, pid_t owner)
{
    if (!owner && is_foreign(path))
        return;
    thaw(path, owner);
    kill_and_remove(path);
}

void cgroup_empty_all(const char *base, pid_t owner) { for_all(base, owner, is_gone, empty); }
void cgroup_kill_all(const char *base, pid_t owner) { for_all(base, owner, is_gone, end); }
void cgroup_thaw_all(const char *base, pid_t owner) { for_all(base, owner, is_keeper, thaw); }
