/* What every daemon process does the same way: see process.h. */
#include "daemon/process.h"

#include "base/check.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "ca/ca.h"
#include "cli/command.h"
#include "cli/document.h"
#include "daemon/commands.h"
#include "daemon/enroll.h"
#include "daemon/metrics.h"
#include "net/addr.h"
#include "net/supervisor.h"
#include "net/tls.h"
#include "net/token.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NO_GROUP ((gid_t)-1)

/* For trying out a cluster of mixed versions with one binary. */
static int version_read(uint32_t *version)
{
    const char *text = getenv("HAWK_PROTOCOL_VERSION");
    uint64_t v = PROTOCOL_VERSION;
    if (text && *text && u64_parse(text, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION, &v)) {
        say_error(NULL, "HAWK_PROTOCOL_VERSION is %d to %d, not '%s'", PROTOCOL_VERSION_MIN, PROTOCOL_VERSION,
                  text);
        return 2;
    }
    *version = (uint32_t)v;
    return 0;
}

/* Everything that can be wrong before the daemon starts; tokens and certificates are read on the way. */
static int validate_config(struct process *p)
{
    char *mistakes = NULL;
    size_t size = 0;
    FILE *err = open_memstream(&mistakes, &size);
    int failed = !err || config_validate(&p->config, p->section, err) ||
                 config_tokens(&p->config, p->section, &p->token, &p->node_token, err) ||
                 config_tls(&p->config, p->section, &p->tls, err);
    if (err)
        fclose(err);
    say_lines(mistakes ? mistakes : "hawk: out of memory\n");
    free(mistakes);
    return failed ? 2 : 0;
}

/* Again at SIGHUP, where the file that was there has been moved away. 0, or an errno. */
static int open_audit(const struct process *p)
{
    const char *path = p->config.log.audit;
    if (!*path)
        return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return errno;
    int former = log_audit_to(fd);
    if (former >= 0)
        close(former);
    return 0;
}

bool process_init(struct process *p, const char *section, int argc, char **argv)
{
    memset(p, 0, sizeof *p);
    p->section = section;
    config_init(&p->config);
    int result = flags_take_output(section, &argc, argv);
    if (!result)
        result = config_from_args(&p->config, section, argc, argv);
    if (!result)
        result = version_read(&p->version);
    p->exit_code = result == 1 ? HAWK_EXIT_OK : result; /* 1: the help was printed */
    if (result)
        return false;
    p->exit_code = enroll(p);
    if (!p->exit_code)
        p->exit_code = validate_config(p);
    if (p->exit_code)
        return false;
    enum log_level level = LOG_INFO;
    CHECK(log_level_parse(p->config.log.level, &level) == 0); /* a CHOICE */
    log_init(section, level);
    log_form(strcmp(p->config.log.format, "json") == 0, p->config.log.rate);
    int err = open_audit(p);
    if (err) {
        log_error("log.audit: %s cannot be opened: %s", p->config.log.audit, strerror(err));
        p->exit_code = PROCESS_FAILED;
        return false;
    }
    char warning[CONFIG_WARNING];
    if (config_warning(&p->config, section, warning, sizeof warning))
        log_warn("%s", warning);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error of the write, as a full disk is */
    return true;
}

/* What cannot be reached cannot be trusted to stop in order either: the supervisor starts it again, and the
 * journal has all that was promised. */
static void on_dead(void *arg)
{
    log_error("ending, to be started again");
    _exit(PROCESS_FAILED);
}

static enum role role_of(const char *section)
{
    for (int r = ROLE_NONE + 1; r < ROLE_COUNT; r++)
        if (strcmp(section, role_text((enum role)r)) == 0)
            return (enum role)r;
    return ROLE_NONE; /* `hawk up` has all of them */
}

int process_open(struct process *p, const char *listen, uint32_t keepalive_ms)
{
    char why[512], addr[ADDR_TEXT];
    p->loop = loop_new(LOOP_NET);
    p->server = server_new(
        p->loop, &(struct server_config){.token = p->token,
                                         .node_token = p->node_token,
                                         .tls = p->tls,
                                         .role = role_of(p->section),
                                         .insecure = p->config.cluster.insecure,
                                         .local_users = p->config.cluster.local_users,
                                         .keepalive_ms = keepalive_ms,
                                         .connections_max = p->config.cluster.connections_max,
                                         .unproven_per_address = p->config.cluster.unproven_per_address,
                                         .connect_rate = p->config.cluster.connect_rate,
                                         .dead = on_dead});
    while (*listen) {
        listen = addr_first(listen, addr);
        int err = server_listen(p->server, addr, why, sizeof why);
        if (err) {
            log_error("%s", why);
            return err;
        }
    }
    if (!server_addr(p->server, 0)) {
        log_error("nothing to listen on: set `listen`");
        return HAWK_EINVALID;
    }
    return 0;
}

int process_metrics(struct process *p, const char *listen, void (*fill)(void *arg, FILE *page), void *arg)
{
    const char *path = p->config.cluster.metrics_token_file;
    char why[PATH_MAX + 400], *token = NULL;
    if (!*listen)
        return 0;
    if (*path && token_read(path, true, &token, why, sizeof why)) {
        log_error("cluster.metrics_token_file: %s", why);
        return HAWK_EINVALID;
    }
    struct metrics_config c = {.listen = listen,
                               .token = token,
                               .role = p->section,
                               .version = HAWK_VERSION,
                               .server = p->server,
                               .fill = fill,
                               .arg = arg};
    p->metrics = metrics_start(p->loop, &c, why, sizeof why);
    free(token);
    if (!p->metrics) {
        log_error("%s.metrics_listen: %s", p->section, why);
        return HAWK_EIO;
    }
    log_info("metrics are served at %s", metrics_addr(p->metrics));
    return 0;
}

void process_metrics_stop(struct process *p)
{
    metrics_stop(p->metrics);
    p->metrics = NULL;
}

/* ---- Tasks' output ---- */

/* The mode of directories there: what is made in one has its group (the set-group-ID bit). */
static mode_t output_dir_mode(gid_t group) { return group == NO_GROUP ? 0700 : 02750; }

/* 0, or an errno. */
static int close_dir(int at, const char *name, int flags, gid_t group)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags), err = 0;
    struct stat st;
    if (fd < 0)
        return errno;
    /* The group first: changing it takes the bit away. */
    if (fstat(fd, &st) || (group != NO_GROUP && st.st_gid != group && fchown(fd, (uid_t)-1, group)) ||
        ((st.st_mode & 07777) != output_dir_mode(group) && fchmod(fd, output_dir_mode(group))))
        err = errno;
    close(fd);
    return err;
}

/* Whether nothing is in the directory but tasks' output; if not, what. */
static bool holds_output_alone(const char *dir, char other[NAME_MAX + 1])
{
    DIR *d = opendir(dir);
    job_id_t job;
    bool alone = d != NULL;
    for (struct dirent *e; alone && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, PROCESS_NUMBERS) != 0 && job_id_parse(e->d_name, &job)) {
            snprintf(other, NAME_MAX + 1, "%s", e->d_name);
            alone = false;
        }
    if (d)
        closedir(d);
    return alone;
}

static void close_jobs(const char *dir, gid_t group)
{
    DIR *d = opendir(dir);
    job_id_t job;
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (job_id_parse(e->d_name, &job) == 0 &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == geteuid())
            (void)close_dir(dirfd(d), e->d_name, O_NOFOLLOW, group);
    if (d)
        closedir(d);
}

/* Somebody else's directory, /tmp say, and one that holds other things, is not ours to close. */
static int close_output(const struct process *p, const char *dir, gid_t group)
{
    char other[NAME_MAX + 1] = "";
    struct stat st;
    int err = stat(dir, &st) ? errno : 0;
    if (!err && st.st_uid == geteuid() && holds_output_alone(dir, other)) {
        err = close_dir(AT_FDCWD, dir, 0, group);
    } else if (!err && (st.st_mode & 077) != 0) {
        log_warn(
            "%s.output_dir: %s is open to other users and %s%s: only tasks' output in it is closed to them",
            p->section, dir, *other ? "holds other things, as " : "not this user's", other);
        close_jobs(dir, group);
    }
    if (err == EPERM && group != NO_GROUP)
        log_error("%s.output_group: the group cannot be given %s: this user must be a member of it",
                  p->section, dir);
    else if (err)
        log_error("%s.output_dir: %s cannot be closed to others: %s", p->section, dir, strerror(err));
    return err ? HAWK_EIO : 0;
}

int process_signatures(const struct process *p, const struct tls **roots)
{
    *roots = p->config.cluster.require_signatures ? p->tls : NULL;
    if (!p->config.cluster.require_signatures || p->tls)
        return 0;
    log_error("%s", SIGNATURES_NEED_TLS);
    return HAWK_EINVALID;
}

int process_output_dir(const struct process *p, const char *dir, const char *group)
{
    char why[PATH_MAX + 200];
    const struct group *gr = *group ? getgrnam(group) : NULL;
    if (*group && !gr) {
        log_error("%s.output_group: there is no group %s here", p->section, group);
        return HAWK_EINVALID;
    }
    if (dir_make(dir, 0755, why, sizeof why)) {
        log_error("%s.output_dir: %s", p->section, why);
        return HAWK_EIO;
    }
    if (access(dir, W_OK | X_OK)) {
        log_error("%s.output_dir: %s cannot be written to: %s", p->section, dir, strerror(errno));
        return HAWK_EIO;
    }
    return close_output(p, dir, gr ? gr->gr_gid : NO_GROUP);
}

bool process_knows_users(const struct process *p) { return p->config.cluster.local_users || p->tls; }

int process_socket(const char *key, const char *told, const char *dir, const char *leaf, const char *without,
                   char addr[PROCESS_SOCKET])
{
    char path[PATH_MAX];
    int n = strncmp(told, "unix:", 5) == 0 ? snprintf(path, sizeof path, "%s", told + 5)
            : *told                        ? snprintf(path, sizeof path, "%s", told)
                                           : snprintf(path, sizeof path, "%s/%s", dir, leaf);
    *addr = '\0';
    if (strcmp(told, "none") == 0)
        return 0;
    if (n < (int)sizeof((struct sockaddr_un *)0)->sun_path) {
        snprintf(addr, PROCESS_SOCKET, "unix:%.*s", PROCESS_SOCKET - 8, path);
        return 0;
    }
    if (!*told) {
        log_warn("%s is too long for a socket: %s, unless %s names a shorter path", path, without, key);
        return 0;
    }
    log_error("%s: %s is too long for a socket", key, path);
    return HAWK_ETOO_LARGE;
}

/* Of a comma separated list of centrals: one that other machines reach, if there is any. */
static void find_central(const char *list, char addr[ADDR_TEXT])
{
    do
        list = addr_first(list, addr);
    while (*list && addr_is_local(addr));
}

const char *process_listen(const char *listen, const char *unset, const char *advertise, const char *centrals,
                           char own[ADDR_TEXT])
{
    char central[ADDR_TEXT], *port;
    find_central(centrals, central);
    if (strcmp(listen, unset) != 0 || *advertise || addr_is_local(central) ||
        addr_towards(central, own, ADDR_TEXT))
        return listen;
    port = strrchr(own, ':') + 1; /* addr_towards puts one */
    snprintf(port, ADDR_TEXT - (size_t)(port - own), "%s", strrchr(unset, ':') + 1);
    return own;
}

const char *process_advertised(const struct process *p, const char *advertise, const char *centrals)
{
    char central[ADDR_TEXT];
    const char *addr = server_addr(p->server, 0);
    if (*advertise)
        return advertise;
    find_central(centrals, central);
    if (addr_is_local(addr) && !addr_is_local(central)) {
        log_error(
            "%s listens on %s, where only this machine reaches it, but %s is on another: set %s.listen to an "
            "address of this machine on that network",
            p->section, addr, central, p->section);
        return NULL;
    }
    if (strncmp(addr, "0.0.0.0:", 8) != 0 && strncmp(addr, "[::]:", 5) != 0)
        return addr;
    log_error("%s.listen is %s, which nobody can dial: set %s.advertise to the address others reach this "
              "machine at",
              p->section, addr, p->section);
    return NULL;
}

static void on_signal(void *arg, int signo)
{
    struct process *p = arg;
    log_info("%s: stopping%s", strsignal(signo), p->signals ? " now" : "");
    supervisor_say("STOPPING=1");
    if (++p->signals > 2)
        process_exit(p, PROCESS_FAILED);
    else
        p->stop(p->arg, p->signals > 1);
}

static void on_hangup(void *arg, int signo)
{
    const struct process *p = arg;
    const char *audit = p->config.log.audit;
    int err = open_audit(p);
    if (err)
        log_error("%s: log.audit: %s cannot be opened: %s; audit lines go on into the file that was open",
                  strsignal(signo), audit, strerror(err));
    else if (*audit)
        log_info("%s: audit lines go to %s, opened anew; the configuration is read at the start only",
                 strsignal(signo), audit);
    else
        log_info("%s: ignored; the configuration is read at the start only, and the log goes to stderr",
                 strsignal(signo));
}

/* On the loop's thread: a loop that is stuck falls silent, and systemd ends and restarts the process. */
static void on_watchdog(void *arg)
{
    struct process *p = arg;
    supervisor_say("WATCHDOG=1");
    loop_timer_set(p->loop, &p->watchdog, loop_now(p->loop) + p->watchdog_us / 2);
}

static void watchdog_start(struct process *p)
{
    loop_timer_init(&p->watchdog, on_watchdog, p);
    p->watchdog_us = supervisor_watchdog_us();
    if (p->watchdog_us)
        on_watchdog(p);
}

/* Whoever upgrades workers in place may name the wrong daemon. */
static void on_ignored(void *arg, int signo)
{
    log_info("%s: ignored; it upgrades workers in place, and this is none", strsignal(signo));
}

void process_signals(struct process *p, void (*stop)(void *arg, bool now), void *arg)
{
    p->stop = stop;
    p->arg = arg;
    if (strcmp(p->section, "worker") != 0 && loop_signal(p->loop, SIGUSR2, on_ignored, p))
        log_warn("SIGUSR2 cannot be handled");
    if (loop_signal(p->loop, SIGTERM, on_signal, p) || loop_signal(p->loop, SIGINT, on_signal, p))
        log_warn("signals cannot be handled");
    bool ends_with_terminal = strcmp(p->section, "up") == 0;
    bool heeded = !ends_with_terminal || !signal_ignored(SIGHUP);
    if (heeded && loop_signal(p->loop, SIGHUP, ends_with_terminal ? on_signal : on_hangup, p))
        log_warn("SIGHUP cannot be handled");
    watchdog_start(p);
}

void process_say_ready(const char *name, const char *addr, const char *executors)
{
    char ready[ADDR_TEXT + 100];

    if (document_wanted())
        document_print_line(
            json_pack("{s:s, s:s, s:s*}", "ready", name, "address", addr, "executors", executors));
    else
        printf("ready %s %s\n", name, addr);
    if (fflush(stdout)) { /* nobody wants to know: no fault of the daemon's */
        __fpurge(stdout);
        clearerr(stdout);
    }
    snprintf(ready, sizeof ready, "READY=1\nSTATUS=%s at %s", name, addr);
    supervisor_say(ready);
}

void process_ready(struct process *p) { process_say_ready(p->name, server_addr(p->server, 0), p->executors); }

void process_run(struct process *p, void (*after_turn)(void *arg), void *arg)
{
    struct loop_hook after;
    loop_hook_add(p->loop, &after, LOOP_AFTER, after_turn, arg);
    loop_run(p->loop);
    loop_hook_remove(&after);
}

void process_exit(struct process *p, int code)
{
    p->exit_code = code;
    loop_stop(p->loop);
}

int process_free(struct process *p)
{
    process_metrics_stop(p);
    server_free(p->server);
    tls_free(p->tls);
    ca_root_free(p->root);
    free(p->kept);
    loop_free(p->loop);
    config_free(&p->config);
    free(p->token);
    free(p->node_token);
    return p->exit_code;
}

/* Switches every flag that a comma separated list names. */
static void switch_flags(const char *list, bool on, struct policy *p)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        uint32_t flag = policy_flag(list, len);
        p->flags = on ? p->flags | flag : p->flags & ~flag;
        list += len + (list[len] == ',');
    }
}

void process_policy(const struct config *c, struct policy *p)
{
    int err = policy_preset(c->central.policy, p);
    CHECK(err == 0);
    p->probe_ratio_milli = c->central.probe_ratio;
    p->steal_cap = (uint16_t)c->central.steal_cap;
    p->steal_max = (uint16_t)c->central.steal_max;
    p->short_first = (uint16_t)c->central.short_first;
    switch_flags(c->central.policy_on, true, p);
    switch_flags(c->central.policy_off, false, p);
}

struct api_limits process_limits(const struct config *c)
{
    return (struct api_limits){.jobs_max = c->dist.user_jobs_max,
                               .tasks_max = c->dist.user_tasks_max,
                               .bytes_max = c->dist.user_journal_max,
                               .submit_rate = c->dist.user_submit_rate,
                               .watches_max = c->dist.user_watches_max,
                               .reads_max = c->worker.user_reads_max};
}
