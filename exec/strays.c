/* Finding and killing what left its process group. */
#include "exec/strays.h"

#include "base/mem.h"
#include "exec/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (256u << 10)
#define POLL_MS 5

/* The whole of a file of /proc, at most max bytes, with a NUL behind it; NULL when it cannot be read. */
static char *read_file(const char *path, size_t max, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t cap = 4096, n = 0;
    char *data;
    ssize_t got;

    if (fd < 0)
        return NULL;
    data = xmalloc(cap);
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

/* Our children's pids as text, with spaces between; NULL: the kernel does not tell. */
static char *list_children(void)
{
    char path[64];
    size_t len;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return read_file(path, SIZE_MAX, &len);
}

/* The number of the run that pid descends from, or 0 when its environment does not tell. *ours: the run
 * is one of this spawner's, not of a spawner that a task of ours had. */
static uint64_t run_number_of(pid_t pid, bool *ours)
{
    const size_t name_len = strlen(RUN_VARIABLE "=");
    uint64_t number = 0;
    char path[64];
    size_t len;
    char *env;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    env = read_file(path, ENVIRONMENT_MAX, &len);
    if (!env)
        return 0;
    for (const char *p = env; p < env + len; p += strlen(p) + 1) {
        char *end;

        if (strncmp(p, RUN_VARIABLE "=", name_len) != 0)
            continue;
        *ours = strtol(p + name_len, &end, 10) == getpid();
        number = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
        break;
    }
    free(env);
    return number;
}

void strays_sweep(bool (*is_leader)(void *arg, pid_t pid), bool (*is_running)(void *arg, uint64_t number),
                  void *arg)
{
    char *list = list_children(), *end;

    for (char *p = list; p && *p; p = end) {
        pid_t pid = (pid_t)strtol(p, &end, 10);
        bool ours = false;
        uint64_t number;

        if (end == p)
            break;
        if (pid <= 0 || is_leader(arg, pid))
            continue;
        number = run_number_of(pid, &ours);
        /* One that is of another spawner's run has lost that spawner, or it would not have come to us. */
        if (number && !(ours && is_running(arg, number)))
            kill(pid, SIGKILL);
    }
    free(list);
}

static int64_t monotonic_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void strays_end_all(int64_t deadline_us)
{
    for (;;) {
        char *list = list_children(), *end;
        pid_t pid;

        for (char *p = list; p && *p; p = end) {
            pid = (pid_t)strtol(p, &end, 10);
            if (end == p)
                break;
            if (pid > 0)
                kill(pid, SIGKILL);
        }
        free(list);
        do {
            pid = waitpid(-1, NULL, WNOHANG);
        } while (pid > 0);
        if ((pid < 0 && errno == ECHILD) || monotonic_us() >= deadline_us)
            return;
        poll(NULL, 0, POLL_MS);
    }
}
