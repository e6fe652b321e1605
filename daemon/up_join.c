/* See up_join.h. The embedded cluster has no links, which other machines could open. So central, a dist and a worker
 * run as the daemons that they are elsewhere, and this process only watches them. They talk TLS, by certificates of
 * roots that this process makes anew each time: whatever an earlier cluster has given out is worth nothing. */
#include "daemon/up_join.h"

#include "base/clock.h"
#include "base/entropy.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "ca/credential.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "cli/command.h"
#include "cli/document.h"
#include "daemon/self.h"
#include "exec/note.h"
#include "net/addr.h"
#include "net/caller.h"
#include "net/join_dir.h"
#include "net/supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WHY (PATH_MAX + 600)
#define ANSWER_MS 2000                         /* so long a cluster may take to show that it is up */
#define DOWN_US (60 * US_PER_S)                /* time for all nodes to be told to stop, and to do so */
#define TERM_US (10 * US_PER_S)                /* and for one that was not */
#define INVITE_AGAIN_US (24 * 3600 * US_PER_S) /* an invitation is good for 30 days */
#define ORIGIN "hawk up"
#define PRIVATE "hawk-up-" /* the private directory's name: this and something random */
#define HOST "host"        /* a note in it: the machine that it is of */

enum part { CENTRAL, DIST, WORKER, DOWN, PARTS };

struct child {
    pid_t pid;  /* 0: it does not run */
    int out;    /* its stdout; -1: nobody reads it */
    int status; /* as waitpid tells */
    char addr[ADDR_TEXT];
};

struct up_join {
    struct process *p;
    const char *dir;
    char private[PATH_MAX]; /* roots, journal, certificates: of this machine alone */
    struct join_dir at;
    struct ca_root *nodes, *users;
    struct invitation invitation;
    struct child children[PARTS];
    sigset_t mask; /* as it was */
    int signals;   /* the descriptor */
    int lock, private_lock;
    bool told; /* DIR tells of this cluster */
    int64_t invite_at_us;
};

static const char *const names[] = {"central", "dist", "worker", "down"};

static bool set_setting(struct up_join *u, const char *key, const char *value)
{
    char why[512];

    if (config_set(&u->p->config, key, value, ORIGIN, why, sizeof why) == 0)
        return true;
    log_error("%s", why);
    return false;
}

/* ---- The directory ---- */

/* The lock's file goes with its holder: whoever waited for it may have got one that is gone. */
static int take_lock(struct up_join *u, char *why, size_t size)
{
    char path[PATH_MAX];
    struct stat here, there;

    if (!ca_path(path, u->dir, JOIN_DIR_LOCK, why, size))
        return HAWK_EIO;
    for (;;) {
        u->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (u->lock < 0)
            return ca_complain(why, size, HAWK_EIO, path, strerror(errno));
        if (flock(u->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return HAWK_EEXISTS;
        if (fstat(u->lock, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino)
            return 0;
        close(u->lock);
    }
}

/* A file system may have no locks. So a cluster that answers has the directory, too. */
static int take_dir(struct up_join *u, char *why, size_t size)
{
    struct join_dir other;
    char where[JOIN_DIR_WHERE + ADDR_TEXT], text[WHY], path[PATH_MAX];
    int err = dir_make(u->dir, 0700, why, size) ? HAWK_EIO : join_dir_check(u->dir, why, size);

    if (err)
        return err;
    bool locked = (err = take_lock(u, why, size)) == HAWK_EEXISTS;
    if (err && !locked)
        return err;
    err = join_dir_read(u->dir, &other, text, sizeof text);
    if (err == HAWK_ENOT_FOUND && locked) {
        snprintf(why, size, "%s: another `hawk up` is just starting there", u->dir);
        return HAWK_EEXISTS;
    }
    if (err == HAWK_ENOT_FOUND)
        return 0;
    if (err) {
        snprintf(why, size, "%s", text);
        return err;
    }
    join_dir_where(&other, where);
    if (locked || addr_answers(other.central, ANSWER_MS)) {
        snprintf(
            why, size,
            "%s: a cluster is up there already (%s): stop it with `hawk down --yes --join-dir %s`, or use "
            "another directory",
            u->dir, where, u->dir);
        return HAWK_EEXISTS;
    }
    log_info("%s: replacing a cluster that does not answer any more (%s)", u->dir, where);
    if (ca_path(path, u->dir, JOIN_DIR_CLUSTER, why, size))
        unlink(path);
    return 0;
}

static int put_file(const struct up_join *u, const char *name, const char *text, char *why, size_t size)
{
    char path[PATH_MAX];

    return ca_path(path, u->dir, name, why, size) ? ca_write(path, 0600, text, strlen(text), why, size)
                                                  : HAWK_EIO;
}

/* Removes the files, unless they are another cluster's by now. Once: then another `hawk up` may take the directory. */
static void leave_dir(struct up_join *u)
{
    static const char *const files[] = {JOIN_DIR_CLUSTER, JOIN_DIR_INVITATION, LOGIN_CERTIFICATE, LOGIN_KEY,
                                        LOGIN_ROOTS,      LOGIN_DIST,          JOIN_DIR_LOCK};
    char path[PATH_MAX], why[WHY];
    struct join_dir now;
    int err = join_dir_read(u->dir, &now, why, sizeof why);

    if (err == HAWK_ENOT_FOUND || (!err && now.id == u->at.id))
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            if (ca_path(path, u->dir, files[i], why, sizeof why))
                unlink(path);
}

static int write_invitation(struct up_join *u, char *why, size_t size)
{
    char *text;
    int err;

    u->invitation.until_s = time(NULL) + INVITATION_LIFE_MAX_US / US_PER_S;
    text = invitation_write(&u->invitation, u->nodes);
    err = put_file(u, JOIN_DIR_INVITATION, text, why, size);
    free(text);
    u->invite_at_us = monotonic_us() + INVITE_AGAIN_US;
    return err;
}

static int write_credential(struct up_join *u, char *why, size_t size)
{
    struct caller own = caller_of_uid(geteuid());
    struct identity who = {.scopes = own.scopes, .has_uid = identity_uid_fits(own.uid), .uid = own.uid};
    struct credential c;
    int err;

    if (own.nameless) {
        snprintf(why, size, "your name could not be looked up: try again");
        return HAWK_EUNAVAILABLE;
    }
    snprintf(who.name, sizeof who.name, "%s", own.name);
    err = credential_make(&c, u->users, &who, CA_ROOT_LIFE_US, u->invitation.roots, u->at.dist);
    if (err)
        snprintf(why, size,
                 "your name, '%s', cannot be in a certificate: it has others than letters, digits, "
                 "'-', '_' and '.'",
                 who.name);
    else
        err = credential_install(&c, u->dir, why, size);
    credential_free(&c);
    return err;
}

/* The file `cluster` comes last: whoever finds it finds the others. */
static int tell_dir(struct up_join *u, char *why, size_t size)
{
    char text[JOIN_DIR_TEXT];
    int err = write_credential(u, why, size);

    if (err)
        return err;
    u->told = true;
    join_dir_write(&u->at, text);
    return put_file(u, JOIN_DIR_CLUSTER, text, why, size);
}

/* ---- What is of this machine alone ---- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)!remove(path);
    return 0;
}

static void remove_tree(const char *path) { (void)!nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

static int open_dir(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

/* Removes what this user's killed ones left: whoever gets the lock has no living owner before him. A file system that
 * machines share may have locks of each machine alone, hence the note HOST. It is written under the lock: a directory
 * without it may be just begun. */
static void remove_left(const struct up_join *u, const char *tmp)
{
    char path[PATH_MAX], host[NOTE_MAX];
    struct dirent *e;
    struct stat st;
    DIR *d = opendir(tmp);

    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, PRIVATE, strlen(PRIVATE)) != 0 ||
            snprintf(path, sizeof path, "%s/%s", tmp, e->d_name) >= (int)sizeof path)
            continue;
        int fd = open_dir(path);
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            note_read(path, HOST, host) && strcmp(host, u->at.host) == 0) {
            log_info("%s: removing what a `hawk up` left that was killed", path);
            remove_tree(path);
        }
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

static int make_private(struct up_join *u, char *why, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    if (!tmp || *tmp != '/')
        tmp = "/tmp";
    if (snprintf(u->private, PATH_MAX - 64, "%s/" PRIVATE "XXXXXX", tmp) >= PATH_MAX - 64)
        return ca_complain(why, size, HAWK_EIO, tmp, strerror(ENAMETOOLONG));
    remove_left(u, tmp);
    if (mkdtemp(u->private)) {
        /* systemd-tmpfiles cleans no directory that is locked. Without locks the cluster runs all the same. */
        u->private_lock = open_dir(u->private);
        if (flock(u->private_lock, LOCK_EX) == 0 && note_write(u->private, HOST, u->at.host))
            return ca_complain(why, size, HAWK_EIO, u->private, strerror(errno));
        return 0;
    }
    ca_complain(why, size, HAWK_EIO, u->private, strerror(errno));
    *u->private = '\0';
    return HAWK_EIO;
}

static void private_path(const struct up_join *u, char path[PATH_MAX], const char *leaf)
{
    snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 64, u->private, leaf);
}

/* The user root makes one credential. Then its key is of no use, and central must not have it. */
static int make_roots(struct up_join *u, char *why, size_t size)
{
    char ca[PATH_MAX], path[PATH_MAX];
    int err;

    private_path(u, ca, "ca");
    private_path(u, path, "ca/" CA_ROOTS);
    err = ca_init(ca, why, size);
    if (!err)
        err = ca_root_open(&u->users, ca, ROLE_NONE, why, size);
    if (!err)
        err = ca_root_open(&u->nodes, ca, ROLE_WORKER, why, size);
    if (!err)
        err = ca_read(path, &u->invitation.roots, why, size);
    private_path(u, path, "ca/users");
    remove_tree(path);
    return err;
}

/* What all three daemons read. */
static int write_config(struct up_join *u, char *why, size_t size)
{
    char path[PATH_MAX], *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    int err = HAWK_ENOMEM;

    private_path(u, path, "hawk.yaml");
    if (f) {
        config_show(&u->p->config, NULL, f);
        err = fclose(f) == 0 ? ca_write(path, 0600, text, len, why, size) : HAWK_ENOMEM;
    }
    free(text);
    return err;
}

/* ---- The daemons ---- */

static void exec_part(const struct up_join *u, enum part m, int out, pid_t parent)
{
    char config[PATH_MAX];

    private_path(u, config, "hawk.yaml");
    setpgid(0, 0); /* a terminal's Ctrl-C is for the parent, which stops them in order */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(out, STDOUT_FILENO) < 0)
        _exit(PROCESS_FAILED);
    sigprocmask(SIG_SETMASK, &u->mask, NULL);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("HAWK_DIST");
    if (m == DOWN)
        execl(self_exec(), "hawk", names[m], "--yes", "--grace", "0s", "--quiet", "--join-dir", u->dir, NULL);
    else
        execl(self_exec(), "hawk", names[m], "--config", config, NULL);
    _exit(PROCESS_FAILED);
}

static bool start_child(struct up_join *u, enum part m)
{
    struct child *c = &u->children[m];
    int ends[2];
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_error("no pipe: %s", strerror(errno));
        return false;
    }
    c->pid = fork();
    if (c->pid == 0)
        exec_part(u, m, ends[1], parent);
    close(ends[1]);
    c->out = ends[0];
    if (c->pid > 0)
        return true;
    log_error("%s cannot be started: %s", names[m], strerror(errno));
    c->pid = 0;
    return false;
}

static void reap_children(struct up_join *u)
{
    for (int m = 0; m < PARTS; m++)
        if (u->children[m].pid && waitpid(u->children[m].pid, &u->children[m].status, WNOHANG) > 0)
            u->children[m].pid = 0;
}

/* Waits until a signal comes, `fd` can be read (-1: none), or the time is over. */
static void turn_once(struct up_join *u, int fd, int64_t us)
{
    struct pollfd p[] = {{.fd = u->signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    struct signalfd_siginfo s;

    if (us > 0 && poll(p, 2, us / US_PER_MS < INT_MAX ? (int)(us / US_PER_MS) + 1 : INT_MAX) <= 0)
        return;
    while (read(u->signals, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            continue;
        u->p->signals++;
        log_info("%s: stopping%s", strsignal((int)s.ssi_signo), u->p->signals > 1 ? " now" : "");
        supervisor_say("STOPPING=1");
    }
    reap_children(u);
}

/* Reads "ready NAME ADDRESS". False: it ended before, or this process was told to stop. */
static bool wait_ready(struct up_join *u, enum part m)
{
    struct child *c = &u->children[m];
    char line[ADDR_TEXT + 200], *addr;
    size_t n = 0;
    ssize_t got = 0;

    fcntl(c->out, F_SETFL, O_NONBLOCK);
    while (!u->p->signals && n < sizeof line - 1) {
        got = read(c->out, line + n, 1);
        if (got == 1 && line[n++] == '\n')
            break;
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        if (got < 0)
            turn_once(u, c->out, TIME_NEVER);
    }
    line[n > 0 ? n - 1 : 0] = '\0';
    addr = strrchr(line, ' ');
    if (strncmp(line, "ready ", 6) == 0 && strlen(addr + 1) < sizeof c->addr) {
        snprintf(c->addr, sizeof c->addr, "%s", addr + 1);
        return true;
    }
    if (!u->p->signals)
        log_error("%s did not start; its log is above", names[m]);
    return false;
}

static bool start_member(struct up_join *u, enum part m, char *why, size_t size)
{
    if (write_config(u, why, size)) {
        log_error("%s", why);
        return false;
    }
    return start_child(u, m) && wait_ready(u, m);
}

static bool configure_central(struct up_join *u)
{
    const struct config *c = &u->p->config;
    char addr[ADDR_TEXT], numeric[ADDR_TEXT], path[PATH_MAX], why[512];
    bool own = !*c->up.listen;

    if (own && addr_own(addr, sizeof addr)) {
        log_warn("this machine has no address but loopback: no other one can join (up.listen names one)");
        snprintf(addr, sizeof addr, "127.0.0.1:0");
    } else if (!own && config_up_listen(c, addr, why, sizeof why)) {
        log_error("up.listen: %s", why);
        return false;
    }
    if (addr_resolve(addr, numeric, sizeof numeric, why, sizeof why)) {
        log_error("up.listen: %s", why);
        return false;
    }
    private_path(u, path, "central");
    bool good = set_setting(u, "central.listen", numeric) && set_setting(u, "central.state_dir", path);
    private_path(u, path, "ca");
    return good && set_setting(u, "central.ca", path);
}

/* The address where a node of this machine listens: central's, with any port. */
static bool set_node(struct up_join *u, const char *section)
{
    char listen[ADDR_TEXT], key[64], path[PATH_MAX];
    const char *central = u->children[CENTRAL].addr;

    addr_with_port(central, 0, listen, sizeof listen);
    private_path(u, path, section);
    snprintf(key, sizeof key, "%s.listen", section);
    bool good = set_setting(u, key, listen);
    snprintf(key, sizeof key, "%s.central", section);
    good = good && set_setting(u, key, central);
    snprintf(key, sizeof key, "%s.state_dir", section);
    return good && set_setting(u, key, path);
}

/* An invitation for this cluster's dist alone. */
static bool invite_dist(struct up_join *u, char *path, char *why, size_t size)
{
    struct invitation v = u->invitation;
    char *text;
    int err;

    v.role = ROLE_DIST;
    v.id = entropy();
    v.uses = 1;
    v.until_s = time(NULL) + 3600;
    snprintf(v.name, sizeof v.name, "%s", u->p->config.dist.name);
    private_path(u, path, "dist.invitation");
    text = invitation_write(&v, u->nodes);
    err = ca_write(path, 0600, text, strlen(text), why, size);
    free(text);
    if (err)
        log_error("%s", why);
    return !err;
}

static bool configure_dist(struct up_join *u, const char *socket, char *why, size_t size)
{
    const struct config *c = &u->p->config;
    char path[PATH_MAX], grace[32];

    duration_format(grace, sizeof grace, c->up.client_grace);
    return set_node(u, "dist") && invite_dist(u, path, why, size) && set_setting(u, "dist.join", path) &&
           set_setting(u, "dist.socket", socket) && set_setting(u, "dist.client_grace", grace);
}

static bool set_output_dir(struct up_join *u)
{
    const struct config *c = &u->p->config;
    char dir[PATH_MAX];

    if (!config_is_default(c, "up.output_dir"))
        return set_setting(u, "worker.output_dir", c->up.output_dir);
    if (!config_is_default(c, "worker.output_dir"))
        return true;
    return join_dir_output(u->at.id, c->worker.output_dir, dir, sizeof dir) &&
           set_setting(u, "worker.output_dir", dir);
}

static bool configure_worker(struct up_join *u)
{
    const struct config *c = &u->p->config;
    char text[64], keep[32], name[LIMIT_NAME_BYTES + 1], path[PATH_MAX], why[WHY];

    snprintf(text, sizeof text, c->up.slots ? "%u" : "auto", (unsigned)c->up.slots);
    duration_format(keep, sizeof keep, c->up.output_keep);
    snprintf(name, sizeof name, "up-%.*s", (int)LIMIT_NAME_BYTES - 3, u->at.host);
    bool good = set_node(u, "worker") && ca_path(path, u->dir, JOIN_DIR_INVITATION, why, sizeof why) &&
                set_setting(u, "worker.join", path) && set_setting(u, "worker.name", name) &&
                set_setting(u, "worker.slots", text) && set_output_dir(u) &&
                set_setting(u, "worker.output_keep", keep);
    snprintf(text, sizeof text, "%llu", (unsigned long long)c->up.output_max);
    return good && set_setting(u, "worker.output_max", text) &&
           (!config_is_default(c, "worker.run_as") || set_setting(u, "worker.run_as", "own"));
}

/* ---- The cluster ---- */

static bool prepare_cluster(struct up_join *u, char *why, size_t size)
{
    u->at.id = entropy_nonzero();
    u->at.pid = (uint32_t)getpid();
    if (gethostname(u->at.host, sizeof u->at.host - 1) != 0 || !*u->at.host)
        snprintf(u->at.host, sizeof u->at.host, "localhost");
    u->invitation =
        (struct invitation){.role = ROLE_WORKER, .name = "*", .uses = INVITATION_USES_MAX, .id = entropy()};
    if (take_dir(u, why, size))
        log_error("up.join_dir: %s", why);
    else if (make_private(u, why, size) || make_roots(u, why, size))
        log_error("%s: set TMPDIR to a directory with room where you may write", why);
    else
        return true;
    return false;
}

static bool start_all(struct up_join *u, const char *socket, char *why, size_t size)
{
    if (!configure_central(u) || !start_member(u, CENTRAL, why, size))
        return false;
    snprintf(u->at.central, ADDR_TEXT, "%s", u->children[CENTRAL].addr);
    snprintf(u->invitation.central, sizeof u->invitation.central, "%s", u->at.central);
    if (!configure_dist(u, socket, why, size) || !start_member(u, DIST, why, size))
        return false;
    snprintf(u->at.dist, ADDR_TEXT, "%s", u->children[DIST].addr);
    if (write_invitation(u, why, size)) {
        log_error("%s", why);
        return false;
    }
    if (u->p->config.up.worker && (!configure_worker(u) || !start_member(u, WORKER, why, size)))
        return false;
    if (tell_dir(u, why, size)) {
        log_error("up.join_dir: %s", why);
        return false;
    }
    return true;
}

static void say_ready(const struct up_join *u, const char *socket)
{
    process_say_ready("up", strcmp(socket, "none") == 0 ? u->at.dist : socket, NULL);
    log_info("other machines join with `hawk worker --join-dir %s`; their clients say --join-dir, or "
             "HAWK_LOGIN=%s (%s)",
             u->dir, u->dir, u->at.central);
}

/* Without its own worker a cluster goes on: others run its tasks. */
static void look_at_worker(struct up_join *u)
{
    struct child *c = &u->children[WORKER];

    if (c->pid || c->out < 0)
        return;
    close(c->out);
    c->out = -1;
    if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0)
        log_info("this machine's worker has stopped: others run on");
    else
        log_error("this machine's worker has ended, and is not started again: others run on");
}

static void watch_all(struct up_join *u)
{
    char why[WHY];

    while (!u->p->signals && u->children[CENTRAL].pid && u->children[DIST].pid) {
        turn_once(u, -1, u->invite_at_us - monotonic_us());
        look_at_worker(u);
        if (monotonic_us() >= u->invite_at_us && write_invitation(u, why, sizeof why))
            log_error("the invitation is not renewed: %s", why);
    }
}

static void wait_end(struct up_join *u, enum part m, int64_t us, unsigned signals)
{
    int64_t end_us = monotonic_us() + us, now_us;

    while (u->children[m].pid && u->p->signals <= signals && (now_us = monotonic_us()) < end_us)
        turn_once(u, -1, end_us - now_us);
}

static void end_child(struct up_join *u, enum part m, int signo)
{
    if (!u->children[m].pid)
        return;
    kill(u->children[m].pid, signo);
    wait_end(u, m, TERM_US, signo == SIGKILL ? UINT32_MAX : 1);
    if (u->children[m].pid && signo != SIGKILL)
        end_child(u, m, SIGKILL);
}

/* Workers on other machines are told to stop, too: nobody would come back for them. */
static void stop_all(struct up_join *u)
{
    if (u->told && u->children[CENTRAL].pid && u->p->signals <= 1) {
        /* Without its dist, which most likely somebody's `hawk down` has stopped, ours would find nothing. */
        if (u->children[DIST].pid && start_child(u, DOWN)) {
            wait_end(u, DOWN, DOWN_US, 1);
            end_child(u, DOWN, SIGKILL);
        }
        for (int m = WORKER; m >= CENTRAL; m--) /* they are just ending */
            wait_end(u, (enum part)m, TERM_US, 1);
    }
    leave_dir(u);
    for (int m = WORKER; m >= CENTRAL; m--)
        end_child(u, (enum part)m, SIGTERM);
}

/* `hawk down` stops the dist and central, which then end well. */
static int exit_code(const struct up_join *u)
{
    for (int m = CENTRAL; m <= DIST; m++)
        if (!u->children[m].pid &&
            (!WIFEXITED(u->children[m].status) || WEXITSTATUS(u->children[m].status) != 0)) {
            log_error("%s has ended: the cluster ends with it", names[m]);
            return PROCESS_FAILED;
        }
    return HAWK_EXIT_OK;
}

static void take_signals(struct up_join *u)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP); /* `hawk up` ends with its terminal */
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &u->mask);
    u->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int up_join_run(struct process *p, const char *socket)
{
    struct up_join *u = xcalloc(1, sizeof *u);
    char why[WHY] = "";
    int code = PROCESS_FAILED;

    u->p = p;
    u->dir = p->config.up.join_dir;
    u->lock = -1;
    for (int m = 0; m < PARTS; m++)
        u->children[m].out = -1;
    take_signals(u);
    if (prepare_cluster(u, why, sizeof why)) {
        if (start_all(u, socket, why, sizeof why)) {
            say_ready(u, socket);
            watch_all(u);
            code = exit_code(u);
        }
        stop_all(u);
    }
    if (*u->private)
        remove_tree(u->private);
    ca_root_free(u->nodes);
    ca_root_free(u->users);
    free(u->invitation.roots);
    free(u);
    return code;
}
