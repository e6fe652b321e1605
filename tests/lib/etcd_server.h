/* A real etcd of a test's own: one member, ephemeral ports, data in a directory of the test's. */
#ifndef HAWK_TESTS_ETCD_SERVER_H
#define HAWK_TESTS_ETCD_SERVER_H

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct etcd_server {
    char dir[200];
    char addr[64]; /* HOST:PORT of its clients; kept by a restart */
    pid_t pid;
};

/* What needs etcd fails without it, and says what is missing. */
static inline int etcd_missing(void)
{
    if (access("/usr/bin/etcd", X_OK) == 0)
        return 0;
    printf("no /usr/bin/etcd: apt-get install etcd-server (tools/packages.txt)\n");
    return 1;
}

static inline void etcd_exec(const struct etcd_server *e, int out)
{
    char data[260], clients[100];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDERR_FILENO);
    snprintf(data, sizeof data, "%s/etcd", e->dir);
    snprintf(clients, sizeof clients, "http://%s", e->addr);
    execl("/usr/bin/etcd", "etcd", "--data-dir", data, "--listen-client-urls", clients,
          "--advertise-client-urls", "http://127.0.0.1:1", "--listen-peer-urls", "http://127.0.0.1:0",
          "--unsafe-no-fsync", (char *)NULL);
    _exit(127);
}

#define ETCD_START_MS 30000 /* between two lines of its log */

/* Whether its log names the address it listens on, which is then e->addr. */
static inline bool etcd_is_ready(struct etcd_server *e, int fd, char *log, size_t size)
{
    static const char ready[] = "serving insecure client requests on ";
    ssize_t n = pread(fd, log, size - 1, 0);
    const char *at;

    log[n > 0 ? n : 0] = '\0';
    at = strstr(log, ready);
    return at && sscanf(at + strlen(ready), "%63[^, \n]", e->addr) == 1 && strchr(at, '\n');
}

/* Waits for its line that names the address, and keeps reading nothing after it: etcd says little, into a file. */
static inline void etcd_server_start(struct etcd_server *e)
{
    char path[260], log[65536];
    struct inotify_event change[16];
    struct pollfd watch[2];
    int fd;

    if (!e->addr[0])
        snprintf(e->addr, sizeof e->addr, "127.0.0.1:0");
    snprintf(path, sizeof path, "%s/etcd.log", e->dir);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    e->pid = fork();
    assert_true(e->pid >= 0);
    if (e->pid == 0)
        etcd_exec(e, fd);
    watch[0] = (struct pollfd){.fd = inotify_init1(IN_CLOEXEC), .events = POLLIN};
    watch[1] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, e->pid, 0), .events = POLLIN};
    assert_true(watch[0].fd >= 0 && watch[1].fd >= 0);
    assert_true(inotify_add_watch(watch[0].fd, path, IN_MODIFY) >= 0);
    while (!etcd_is_ready(e, fd, log, sizeof log)) {
        if (poll(watch, 2, ETCD_START_MS) <= 0 || watch[1].revents)
            fail_msg("etcd does not start:\n%s", log);
        assert_true(read(watch[0].fd, change, sizeof change) > 0);
    }
    close(watch[0].fd);
    close(watch[1].fd);
    close(fd);
}

/* Until it is continued it does nothing: all its threads stand still when this returns. */
static inline void etcd_server_pause(struct etcd_server *e)
{
    int status;

    kill(e->pid, SIGSTOP);
    assert_int_equal(waitpid(e->pid, &status, WUNTRACED), e->pid);
    assert_true(WIFSTOPPED(status));
}

static inline void etcd_server_kill(struct etcd_server *e)
{
    if (e->pid <= 0)
        return;
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
    e->pid = 0;
}

#endif
