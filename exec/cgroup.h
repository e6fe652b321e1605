/* The cgroups in which tasks are frozen: directories below the one that this process is in. One version's file names and
 * words are told from the other's by what is there. */
#ifndef HAWK_EXEC_CGROUP_H
#define HAWK_EXEC_CGROUP_H

#include "exec/exec.h"
#include "exec/procs.h"

#define CGROUP_PATH_MAX (EXEC_PATH_MAX + 128)

/* The directory of this process's own cgroup, of version 2 or of version 1's freezer. HAWK_EUNSUPPORTED: it has none that
 * can be seen. */
HAWK_MUST_USE int cgroup_own(int version, char base[EXEC_PATH_MAX]);
/* That of a spawner's run. */
void cgroup_path(const char *base, pid_t owner, uint64_t number, char path[CGROUP_PATH_MAX]);
/* Those return 0, or -1 with errno. */
HAWK_MUST_USE int cgroup_make(const char *path);
int cgroup_enter(const char *path, pid_t pid);
int cgroup_freeze(const char *path, bool frozen);
bool cgroup_is_frozen(const char *path);
/* Version 1: all threads in there wait in the kernel, and freeze before they go on. It does not call a parent frozen whose
 * vforked child is. */
bool cgroup_waits(const char *path);
void cgroup_processes(const char *path, struct pids *l);
void cgroup_signal(const char *path, int sig);
/* With those in it. False: processes are in there. */
bool cgroup_remove(const char *path);
/* Thaws, empties and removes those of a spawner that is gone; owner 0: of any. */
void cgroup_clear(const char *base, pid_t owner);

#endif
