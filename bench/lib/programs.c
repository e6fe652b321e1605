/* Daemons of a benchmark. */
#include "bench/lib/programs.h"

#include "bench/lib/figures.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32

const char *hawk_path(char buf[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", buf, PATH_MAX - 16);
    char *slash;

    buf[n > 0 ? n : 0] = '\0';
    slash = strrchr(buf, '/');
    if (!slash)
        bench_die("cannot tell where this program is");
    memcpy(slash, "/../hawk", sizeof "/../hawk");
    return buf;
}

/* Directories that are still there, for a benchmark that dies. */
static char dirs[8][64];

static void remove_dirs(void)
{
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (dirs[i][0])
            remove_dir(dirs[i]);
}

void make_dir(char *buf, size_t size, const char *what)
{
    static bool registered;
    const char *tmp = getenv("TMPDIR");

    snprintf(buf, size, "%s/%s.XXXXXX", tmp && *tmp ? tmp : "/tmp", what);
    if (!mkdtemp(buf))
        bench_die("cannot make the directory %s", buf);
    if (!registered && atexit(remove_dirs) == 0)
        registered = true;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (!dirs[i][0]) {
            snprintf(dirs[i], sizeof dirs[i], "%s", buf);
            break;
        }
}

void remove_dir(const char *dir)
{
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (dirs[i] != dir && strcmp(dirs[i], dir) == 0)
            dirs[i][0] = '\0';
    waitpid(start_program("rm", "-rf", dir, NULL), NULL, 0);
}

void free_address(char *addr, size_t size)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof in) ||
        getsockname(fd, (struct sockaddr *)&in, &len))
        bench_die("no free port");
    close(fd);
    snprintf(addr, size, "127.0.0.1:%u", ntohs(in.sin_port));
}

static pid_t start(const char *const *argv, int out)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out, STDOUT_FILENO);
        execvp(argv[0], (char **)argv);
        _exit(127);
    }
    return pid > 0 ? pid : (bench_die("no process can be started"), 0);
}

static void collect(const char **argv, int n, va_list ap)
{
    while ((argv[n] = va_arg(ap, const char *)))
        if (++n == ARGUMENTS_MAX)
            bench_die("too many arguments");
}

pid_t start_program(const char *program, ...)
{
    const char *argv[ARGUMENTS_MAX] = {program};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    va_list ap;
    pid_t pid;

    va_start(ap, program);
    collect(argv, 1, ap);
    va_end(ap);
    pid = start(argv, null);
    close(null);
    return pid;
}

pid_t start_daemon_argv(const char *const *argv, char addr[ADDRESS_MAX])
{
    char line[ADDRESS_MAX + 64] = "";
    int fds[2];
    pid_t pid;
    FILE *f;

    if (pipe2(fds, O_CLOEXEC) < 0)
        bench_die("no pipe");
    pid = start(argv, fds[1]);
    close(fds[1]);
    f = fdopen(fds[0], "r");
    if (!f || !fgets(line, sizeof line, f) || sscanf(line, "ready %*s %127s", addr) != 1)
        bench_die("%s %s did not start", argv[0], argv[1]);
    fclose(f);
    return pid;
}

pid_t start_daemon(const char *hawk, char addr[ADDRESS_MAX], ...)
{
    const char *argv[ARGUMENTS_MAX] = {hawk};
    va_list ap;

    va_start(ap, addr);
    collect(argv, 1, ap);
    va_end(ap);
    return start_daemon_argv(argv, addr);
}

void end_program(pid_t pid, int signo)
{
    kill(pid, signo);
    waitpid(pid, NULL, 0);
}

double program_cpu_s(pid_t pid)
{
    clockid_t clock;
    struct timespec t;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        bench_die("process %d is gone", (int)pid);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double program_tree_cpu_s(pid_t pid)
{
    unsigned long user, system;
    long children_user, children_system;
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f || /* NOLINTNEXTLINE(cert-err34-c): the kernel's own */
        fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user, &system,
               &children_user, &children_system) != 4)
        bench_die("process %d is gone", (int)pid);
    fclose(f);
    return (double)(user + system + (unsigned long)(children_user + children_system)) /
           (double)sysconf(_SC_CLK_TCK);
}

double program_memory(pid_t pid, const char *field)
{
    char path[64], line[256];
    double kib = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    if (!f)
        bench_die("process %d is gone", (int)pid);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
            kib = strtod(line + strlen(field) + 1, NULL);
    fclose(f);
    return kib * 1024;
}
