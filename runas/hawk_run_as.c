/* hawk-run-as: starts a user's runner. It is installed setuid root, for a worker's agent that has no privilege.
 *
 *   hawk-run-as check         Does its caller and its configuration permit anything? Exit code 0: yes.
 *   hawk-run-as start USER    Becomes two processes. The runner is the user's: `hawk-runner`, by the path in the
 *                             configuration. It gets descriptors 3 (its socket to the agent), 4 (the socket where later
 *                             agents connect), and 2 for errors until it runs. The keeper is its parent. Where the
 *                             configuration names the user root, the runner has the file as descriptor 6: it runs
 *                             what its user has signed, whatever the caller says.
 *
 * The keeper ends what the user started, from outside: the user can kill, stop or imitate his own runner, but cannot
 * signal or trace the keeper. It runs as the caller, and keeps CAP_KILL alone. It is the subreaper: all that the runner
 * started is its descendant, whatever that does. When the runner has ended, or the caller sends it SIGTERM, it kills
 * its children until it has none. It holds descriptor 3, so that its end shows there when everything is gone.
 *
 * Nothing is taken from the caller but USER, the two sockets, and what `limits` does not limit: no environment, no
 * path, no other descriptor. */
#include "runas/run_as.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_USAGE 64
#define EXIT_FAILED 70
#define EXIT_REFUSED 77

#define SOCKET_FD 3
#define LISTEN_FD 4
#define HAWK_FD 5
#define ROOT_FD 6          /* user_root */
#define LOOK_NS 5000000    /* between two looks at children that are being killed */
#define CHILDREN_MAX 65536 /* bytes of their list that one look reads */

static pid_t runner; /* in the keeper: its first child */

static noreturn void __attribute__((format(printf, 2, 3))) fail(int code, const char *fmt, ...)
{
    char text[RUN_AS_WHY_MAX + 200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (runner > 0)
        kill(runner, SIGKILL);
    dprintf(STDERR_FILENO, "%s%s\n", code == EXIT_REFUSED ? RUN_AS_REFUSES : RUN_AS_SAYS, text);
    _exit(code);
}

/* ---- Before anything else ---- */

static void hold_standard_files(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_FAILED);
}

static void reset_process(void)
{
    sigset_t none;

    hold_standard_files();
    if (clearenv() != 0)
        _exit(EXIT_FAILED);
    for (int sig = 1; sig < _NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (chdir("/") < 0)
        fail(EXIT_FAILED, "cannot enter /: %s", strerror(errno));
}

/* ---- What root has configured ---- */

/* Who may write to a directory can put another of root's files in the place of one in it, or none. A sticky directory
 * keeps root's. One that is not there has no files. */
static void insist_on_roots_directories(const char *path, const char *shown)
{
    char dir[PATH_MAX];
    struct stat st;

    snprintf(dir, sizeof dir, "%s", path);
    for (char *slash = strrchr(dir, '/'); slash; slash = strrchr(dir, '/')) {
        slash[slash == dir] = '\0';
        if (stat(dir, &st) < 0) {
            if (errno != ENOENT)
                fail(EXIT_FAILED, "%s: %s: %s", shown, dir, strerror(errno));
        } else if (st.st_uid != 0 || ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)))
            fail(EXIT_FAILED, "%s: others than root may write to the directory %s", shown, dir);
        if (slash == dir)
            break;
    }
}

/* Whether only root can have written it, or can put another file in its place. path is absolute. */
static void insist_on_root(const char *path, int fd)
{
    char target[PATH_MAX];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        fail(EXIT_FAILED, "%s: is no regular file", path);
    if (st.st_uid != 0)
        fail(EXIT_FAILED, "%s: does not belong to root", path);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        fail(EXIT_FAILED, "%s: others than root may write to it", path);
    if (!realpath(path, target))
        fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    insist_on_roots_directories(path, path);
    insist_on_roots_directories(target, path);
}

static void read_config(struct run_as_config *c)
{
    static char text[RUN_AS_CONF_MAX + 1];
    char why[RUN_AS_WHY_MAX];
    int fd = open(RUN_AS_CONF, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t len = 0;
    ssize_t got;

    insist_on_root(RUN_AS_CONF, fd);
    while (len < sizeof text && (got = read(fd, text + len, sizeof text - len)) > 0)
        len += (size_t)got;
    close(fd);
    if (len > RUN_AS_CONF_MAX)
        fail(EXIT_FAILED, "%s: is larger than %d bytes", RUN_AS_CONF, RUN_AS_CONF_MAX);
    text[len] = '\0';
    if (!run_as_parse(text, len, c, why))
        fail(EXIT_FAILED, "%s: %s", RUN_AS_CONF, why);
}

/* Root can become anybody without this program. */
static void check_caller(const struct run_as_config *c)
{
    uid_t caller = getuid();

    if (caller == 0)
        return;
    for (unsigned i = 0; i < c->callers_n; i++) {
        const struct passwd *pw = getpwnam(c->callers[i]);

        if (pw && pw->pw_uid == caller && pw->pw_uid != RUN_AS_OVERFLOW_UID)
            return;
    }
    fail(EXIT_REFUSED, "uid %u is no caller that %s names", (unsigned)caller, RUN_AS_CONF);
}

static void open_at(const char *path, int how, int at, int flags)
{
    int fd = open(path, how | O_CLOEXEC);

    insist_on_root(path, fd);
    if (dup2(fd, at) < 0 || fcntl(at, F_SETFD, flags) < 0)
        fail(EXIT_FAILED, "no descriptor: %s", strerror(errno));
}

/* The program, and the user root: what is used is what was looked at. */
static void open_files(const struct run_as_config *c)
{
    open_at(c->hawk, O_PATH, HAWK_FD, FD_CLOEXEC);
    if (c->user_root)
        open_at(c->user_root, O_RDONLY | O_NONBLOCK | O_NOCTTY, ROOT_FD, 0);
    close_range((c->user_root ? ROOT_FD : HAWK_FD) + 1u, ~0u, 0);
}

/* The errors by which, says getpwnam(3), systems mean that there is no such user. */
static bool means_none(int err)
{
    return err == 0 || err == ENOENT || err == ESRCH || err == EBADF || err == EPERM;
}

static void find_user(const struct run_as_config *c, const char *name, struct passwd *user)
{
    if (!run_as_is_name(name))
        fail(EXIT_REFUSED, "this is no user's name");
    errno = 0;
    const struct passwd *pw = getpwnam(name);
    if (!pw && !means_none(errno))
        fail(EXIT_FAILED, "user %s cannot be looked up: %s", name, strerror(errno));
    if (!pw || strcmp(pw->pw_name, name) != 0)
        fail(EXIT_REFUSED, "this machine knows no user %s", name);
    const char *why = run_as_refusal(c, pw->pw_uid, pw->pw_gid, getuid());
    if (why)
        fail(EXIT_REFUSED, "user %s: %s", name, why);
    user->pw_name = strdup(pw->pw_name);
    user->pw_dir = strdup(*pw->pw_dir == '/' ? pw->pw_dir : "/");
    user->pw_shell = strdup(*pw->pw_shell ? pw->pw_shell : "/bin/sh");
    user->pw_uid = pw->pw_uid;
    user->pw_gid = pw->pw_gid;
    if (!user->pw_name || !user->pw_dir || !user->pw_shell)
        fail(EXIT_FAILED, "out of memory");
}

/* Whether it says that the user has none. A file that is not there limits nobody. */
static bool read_limits_file(const char *path, const struct run_as_user *user, struct run_as_limits *l)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *line = NULL;
    size_t size = 0;
    bool has_limits = true;

    if (fd < 0 && errno == ENOENT)
        return false;
    insist_on_root(path, fd);
    FILE *f = fdopen(fd, "r");
    if (!f)
        fail(EXIT_FAILED, "out of memory");
    while (has_limits && getline(&line, &size, f) >= 0)
        has_limits = run_as_limits_line(line, user, l);
    if (ferror(f))
        fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    free(line);
    fclose(f);
    return !has_limits;
}

/* PATH, which ends in .conf, and then those of its directory (.d), in the order of their names. */
static void read_limits(const char *path, const struct passwd *pw, struct run_as_limits *l)
{
    static gid_t groups[NGROUPS_MAX];
    struct run_as_user user = {pw->pw_name, pw->pw_uid, pw->pw_gid, groups, NGROUPS_MAX};
    size_t stem = path ? strlen(path) : 0;
    glob_t more;
    char *pattern;

    if (!path)
        return;
    if (getgrouplist(pw->pw_name, pw->pw_gid, groups, &user.groups_n) < 0)
        fail(EXIT_FAILED, "user %s is in more than %d groups", pw->pw_name, NGROUPS_MAX);
    if (read_limits_file(path, &user, l))
        return;
    if (stem > 5 && strcmp(path + stem - 5, ".conf") == 0)
        stem -= 5;
    if (asprintf(&pattern, "%.*s.d/*.conf", (int)stem, path) < 0)
        fail(EXIT_FAILED, "out of memory");
    insist_on_roots_directories(pattern, path);
    if (glob(pattern, 0, NULL, &more) == 0) {
        for (size_t i = 0; i < more.gl_pathc && !read_limits_file(more.gl_pathv[i], &user, l); i++)
            ;
        globfree(&more);
    }
    free(pattern);
}

static void check_socket(int fd, bool listens)
{
    int domain = -1, type = -1, accepts = -1;
    socklen_t n = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 || domain != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &n) < 0 || accepts != listens)
        fail(EXIT_USAGE, "descriptor %d is not the socket that belongs there", fd);
}

/* ---- The runner ---- */

static void set_capabilities(uint32_t mask)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = mask, .permitted = mask}};

    if (syscall(SYS_capset, &head, data) < 0)
        fail(EXIT_FAILED, "capabilities cannot be given up: %s", strerror(errno));
}

/* Nobody has more than nr_open descriptors: PAM takes that for "unlimited". */
static rlim_t most_files(void)
{
    FILE *f = fopen("/proc/sys/fs/nr_open", "re");
    char text[32] = "";

    if (!f || !fgets(text, sizeof text, f))
        fail(EXIT_FAILED, "/proc/sys/fs/nr_open: %s", strerror(errno));
    fclose(f);
    return strtoul(text, NULL, 10);
}

static void limit(const struct run_as_limits *l, const char *user)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit r;

        if ((!l->soft[i].scope && !l->hard[i].scope) || getrlimit((__rlimit_resource_t)i, &r) < 0)
            continue;
        if (l->soft[i].scope)
            r.rlim_cur = l->soft[i].value;
        if (l->hard[i].scope)
            r.rlim_max = l->hard[i].value;
        if (i == RLIMIT_NOFILE && r.rlim_max == RLIM_INFINITY)
            r.rlim_max = most_files();
        if (r.rlim_cur > r.rlim_max)
            r.rlim_cur = r.rlim_max;
        /* In a container that may raise no limit it stays, as for a login. */
        if (setrlimit((__rlimit_resource_t)i, &r) < 0 && errno != EPERM)
            fail(EXIT_FAILED, "limit %d of user %s cannot be set: %s", i, user, strerror(errno));
    }
}

/* For good: no call leads back. */
static void become(const struct passwd *user)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;

    if (initgroups(user->pw_name, user->pw_gid) < 0 ||
        setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
        fail(EXIT_FAILED, "cannot become user %s: %s", user->pw_name, strerror(errno));
    if (user->pw_uid == 0)
        return;
    set_capabilities(0);
    if (getresuid(&r, &e, &s) < 0 || r != user->pw_uid || e != r || s != r || getresgid(&rg, &eg, &sg) < 0 ||
        rg != user->pw_gid || eg != rg || sg != rg || setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0)
        fail(EXIT_FAILED, "user %s could still become root", user->pw_name);
}

static char *new_variable(const char *name, const char *value)
{
    char *text;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        fail(EXIT_FAILED, "out of memory");
    return text;
}

static noreturn void run_hawk(const struct passwd *user, const struct run_as_limits *l, bool signed_alone)
{
    char *const argv[] = {(char[]){"hawk-runner"}, (char[]){"spawner"},
                          signed_alone ? (char[]){"signed"} : NULL, NULL};
    char *const env[] = {new_variable("HOME", user->pw_dir),
                         new_variable("USER", user->pw_name),
                         new_variable("LOGNAME", user->pw_name),
                         new_variable("SHELL", user->pw_shell),
                         new_variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                         l->soft[RLIMIT_NOFILE].scope ? (char[]){"HAWK_RUNNER_FILES=limits"} : NULL,
                         NULL};

    setsid();
    limit(l, user->pw_name);
    become(user);
    if (chdir(user->pw_dir) < 0)
        (void)!chdir("/");
    syscall(SYS_execveat, HAWK_FD, "", argv, env, AT_EMPTY_PATH);
    fail(EXIT_FAILED, "the runner cannot be executed: %s", strerror(errno));
}

/* ---- The keeper ---- */

static void drop_to_keeper(void)
{
    uid_t uid = getuid();
    gid_t gid = getgid();

    close_range(SOCKET_FD + 1, ~0u, 0);
    if ((uid && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) || setgroups(0, NULL) < 0 ||
        setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        fail(EXIT_FAILED, "cannot become the caller: %s", strerror(errno));
    set_capabilities(1u << CAP_KILL);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    prctl(PR_SET_NAME, "hawk-keeper", 0, 0, 0);
}

/* They are ours, and not reaped: their numbers name no other processes. */
static void kill_children(void)
{
    static char list[CHILDREN_MAX];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, list, sizeof list - 1) : 0;
    char *end;

    if (fd >= 0)
        close(fd);
    list[n > 0 ? n : 0] = '\0';
    for (char *p = list; *p; p = end) {
        long pid = strtol(p, &end, 10);

        if (end == p || (*end && *end != ' ')) /* a list that was cut off may end in half a number */
            return;
        if (pid > 1 && *end)
            kill((pid_t)pid, SIGKILL);
    }
}

static noreturn void keep_runner(const sigset_t *all)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    bool ending = false;

    for (;;) {
        siginfo_t info;
        pid_t pid;
        int sig = ending ? sigtimedwait(all, &info, &look) : sigwaitinfo(all, &info);

        if (sig == SIGTERM)
            ending = true;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            if (pid == runner) {
                ending = true;
                shutdown(SOCKET_FD,
                         SHUT_RDWR); /* the agent thaws what it has frozen: cgroup v1 kills nothing before */
            }
        if (pid < 0 && errno == ECHILD)
            _exit(0);
        if (ending)
            kill_children();
    }
}

/* ---- */

static noreturn void start_runner(const struct run_as_config *c, const char *name)
{
    static struct run_as_limits limits;
    struct passwd user;
    sigset_t all, none;

    check_socket(SOCKET_FD, false);
    check_socket(LISTEN_FD, true);
    close_range(LISTEN_FD + 1, ~0u, 0);
    find_user(c, name, &user);
    open_files(c);
    read_limits(c->limits, &user, &limits);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        fail(EXIT_FAILED, "cannot be a subreaper: %s", strerror(errno));
    runner = fork();
    if (runner < 0)
        fail(EXIT_FAILED, "no process: %s", strerror(errno));
    if (runner == 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        run_hawk(&user, &limits, c->user_root != NULL);
    }
    drop_to_keeper();
    keep_runner(&all);
}

int main(int argc, char **argv)
{
    struct run_as_config c;

    reset_process();
    if (geteuid() != 0)
        fail(EXIT_FAILED, "is not installed setuid root");
    read_config(&c);
    check_caller(&c);
    if (argc == 2 && strcmp(argv[1], "check") == 0) {
        open_files(&c);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "start") == 0)
        start_runner(&c, argv[2]);
    fail(EXIT_USAGE, "usage: hawk-run-as check | start USER");
}
