/* Processes as /proc shows them: their state, group and children. */
#ifndef HAWK_EXEC_PROCS_H
#define HAWK_EXEC_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PIDS_MAX 65536u /* in a struct pids; the next look finds the rest */

struct proc {
    pid_t pid, parent, group;
    int64_t start_us; /* it began at this time or earlier (CLOCK_BOOTTIME) */
    bool dead;        /* a zombie */
    bool ending; /* it runs nothing any more: a zombie, or soon one; others may have seen its sockets close */
    bool stopped; /* by a signal */
    bool waits;   /* in the kernel, where no signal reaches it */
    bool bare;    /* without environment: it was started so, has ended, or is the kernel's */
};

struct pids {
    pid_t *v;
    uint32_t n, cap;
};

/* The content of a file of /proc, at most max bytes, with a NUL behind it. NULL: it cannot be read. */
char *procs_read(const char *path, size_t max, size_t *len);
/* False: there is no such process. */
bool procs_look(pid_t pid, struct proc *p);
/* Whether that user has started it: its real uid. */
bool procs_is_of(pid_t pid, uid_t uid);
/* Adds the pids in a text, which are separated by spaces. */
void pids_add_list(struct pids *l, const char *list);
/* Adds the children of all threads of pid. */
void pids_add_children(struct pids *l, pid_t pid);
bool pids_have(const struct pids *l, pid_t pid);
void pids_free(struct pids *l);
/* Bytes that programs can get without swapping; UINT64_MAX: the kernel does not say. */
uint64_t procs_memory_available(void);

#endif
