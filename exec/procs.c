/* Reads /proc: see procs.h. */
#include "exec/procs.h"

#include "base/mem.h"
#include "base/units.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *procs_read(const char *path, size_t max, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t cap = 4096, n = 0;
    ssize_t got;

    if (fd < 0)
        return NULL;
    char *data = xmalloc(cap);
    while ((got = read(fd, data + n, cap - n - 1)) > 0) {
        n += (size_t)got;
        if (n >= max)
            break;
        if (n + 1 == cap) {
            cap *= 2;
            data = xrealloc(data, cap);
        }
    }
    close(fd);
    data[n] = '\0';
    *len = n;
    return data;
}

/* Fields of /proc/PID/stat, numbered as in proc(5). The second field, a name, may contain anything. */
enum {
    STAT_STATE = 3,
    STAT_PARENT,
    STAT_GROUP,
    STAT_FLAGS = 9,
    STAT_START = 22,
    STAT_MEMORY,
    STAT_ENV_START = 50,
    STAT_ENV_END
};

#define FLAG_EXITING 0x4u /* PF_EXITING of the kernel's sched.h */

bool procs_look(pid_t pid, struct proc *p)
{
    unsigned long long field[STAT_ENV_END + 1] = {0};
    char path[64], state = 'X';
    char *text, *at;
    size_t len;
    int n = STAT_STATE;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    text = procs_read(path, SIZE_MAX, &len);
    at = text ? strrchr(text, ')') : NULL;
    if (at && at[1] == ' ' && at[2]) {
        state = at[2];
        for (at += 3; n < STAT_ENV_END && *at == ' ';)
            field[++n] = strtoull(at, &at, 10);
    }
    free(text);
    if (n < STAT_ENV_END)
        return false;
    *p = (struct proc){.pid = pid,
                       .parent = (pid_t)field[STAT_PARENT],
                       .group = (pid_t)field[STAT_GROUP],
                       .dead = state == 'Z' || state == 'X',
                       .ending = (field[STAT_FLAGS] & FLAG_EXITING) != 0,
                       .stopped = state == 'T' || state == 't',
                       .waits = state == 'D',
                       .bare = field[STAT_MEMORY] == 0 ||
                               (field[STAT_ENV_END] > 0 && field[STAT_ENV_START] == field[STAT_ENV_END])};
    p->start_us =
        (int64_t)((double)(field[STAT_START] + 1) * (double)US_PER_S / (double)sysconf(_SC_CLK_TCK));
    return true;
}

bool procs_is_of(pid_t pid, uid_t uid)
{
    char path[64];
    size_t len;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    char *text = procs_read(path, SIZE_MAX, &len);
    const char *at = text ? strstr(text, "\nUid:\t") : NULL;
    bool is = at && strtoull(at + strlen("\nUid:\t"), NULL, 10) == uid;
    free(text);
    return is;
}

void pids_add_list(struct pids *l, const char *list)
{
    char *end;

    for (const char *p = list; p && *p && l->n < PIDS_MAX; p = end) {
        pid_t pid = (pid_t)strtol(p, &end, 10);

        if (end == p)
            break;
        vec_grow(l->v, l->n, l->cap);
        l->v[l->n++] = pid;
    }
}

void pids_add_children(struct pids *l, pid_t pid)
{
    char path[96];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        size_t len;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, e->d_name);
        char *list = procs_read(path, SIZE_MAX, &len);
        pids_add_list(l, list);
        free(list);
    }
    if (d)
        closedir(d);
}

bool pids_have(const struct pids *l, pid_t pid)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->v[i] == pid)
            return true;
    return false;
}

void pids_free(struct pids *l)
{
    free(l->v);
    *l = (struct pids){0};
}

uint64_t procs_memory_available(void)
{
    size_t len;
    char *text = procs_read("/proc/meminfo", 4096, &len);
    const char *at = text ? strstr(text, "MemAvailable:") : NULL;
    uint64_t kib = at ? strtoull(at + strlen("MemAvailable:"), NULL, 10) : UINT64_MAX;

    free(text);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}
