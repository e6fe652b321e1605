/* Processes as /proc shows them: their state, group and children. */
#ifndef HAWK_EXEC_PROCS_H
#define HAWK_EXEC_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PIDS_MAX 65536u /* in a struct pids; the next look finds the rest */

struct process {
    pid_t pid, parent, group;
    int64_t start_us; /* it began at this time or earlier (CLOCK_BOOTTIME) */
    bool dead;        /* a zombie */
    bool stopped;     /* by a signal */
    bool waits;       /* in the kernel, where no signal reaches it */
};

struct pids {
    pid_t *v;
    uint32_t n, cap;
};

/* The content of a file of /proc, at most max bytes, with a NUL behind it. NULL: it cannot be read. */
char *read_file(const char *path, size_t max, size_t *len);
/* False: there is no such process. */
bool look_at(pid_t pid, struct process *p);
/* Adds the pids in a text, which are separated by spaces. */
void add_pids(struct pids *l, const char *list);
/* Adds the children of all threads of pid. */
void add_children(struct pids *l, pid_t pid);
bool has_pid(const struct pids *l, pid_t pid);
void pids_free(struct pids *l);

#endif
