/* The cgroups in which tasks are frozen, and those that limit them: directories below the cgroup of this process. The
 * functions find out from the files in a directory whether it is of version 1 or 2. */
#ifndef HAWK_EXEC_CGROUP_H
#define HAWK_EXEC_CGROUP_H

#include "exec/exec.h"
#include "exec/procs.h"

#define CGROUP_PATH_MAX (EXEC_PATH_MAX + 128)

/* Finds the directory of this process's own cgroup: of version 2, or of version 1's controller of that name.
 * HAWK_EUNSUPPORTED: it has none, or cannot see it. */
HAWK_MUST_USE int cgroup_own(int version, const char *controller, char base[EXEC_PATH_MAX]);
/* The path of the cgroup of a spawner's run, and what its last part says. */
void cgroup_path(const char *base, pid_t owner, uint64_t number, char path[CGROUP_PATH_MAX]);
bool cgroup_name_parts(const char *name, pid_t *owner, uint64_t *number);
/* These return 0, or -1 with errno. */
HAWK_MUST_USE int cgroup_make(const char *path);
int cgroup_enter(const char *path, pid_t pid);
int cgroup_write(const char *path, const char *file, const char *text);
int cgroup_freeze(const char *path, bool frozen);
/* Whether the cgroup has such a file. */
bool cgroup_has(const char *path, const char *file);
/* The number behind a word in a file; 0: it is not there. */
uint64_t cgroup_number(const char *path, const char *file, const char *word);
bool cgroup_is_frozen(const char *path);
/* Version 1 only: all threads in the cgroup wait in the kernel, and freeze before they go on. While a parent
 * waits for its vforked child, version 1 does not report it as frozen. */
bool cgroup_waits(const char *path);
void cgroup_processes(const char *path, struct pids *l);
void cgroup_signal(const char *path, int sig);
/* Kills all processes in the cgroup and in those below it, and thaws them if they are of version 2. */
void cgroup_kill(const char *path);
/* Removes the cgroup with those below it. False: it has processes. */
bool cgroup_remove(const char *path);
/* Thaws the processes in the cgroups of a spawner that is gone, moves them out, and removes the cgroups; owner 0: of
 * all such spawners. */
void cgroup_empty_all(const char *base, pid_t owner);
/* The same, but kills the processes. */
void cgroup_kill_all(const char *base, pid_t owner);
/* Thaws the processes in the cgroups of a keeper of a user's runner; owner 0: of all such keepers. */
void cgroup_thaw_all(const char *base, pid_t owner);

#endif
