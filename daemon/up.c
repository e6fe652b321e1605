/* `hawk up`: an embedded cluster that any client on this machine reaches over a unix socket. */
#include "api/api.h"
#include "api/attach.h"
#include "base/entropy.h"
#include "base/io.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/commands.h"
#include "daemon/cores.h"
#include "daemon/embedded.h"
#include "daemon/metrics_roles.h"
#include "daemon/output_dir.h"
#include "daemon/process.h"
#include "daemon/retention.h"
#include "daemon/run_as.h"
#include "daemon/up_join.h"
#include "libhawk/client.h"
#include "net/listen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* One worker per slot is the paper's model: partition and stealing work on one machine as well. Beyond so
 * many slots, workers get several each. */
#define UP_WORKERS_MAX 256u
/* Job numbers that a process which is killed may have given out since it noted them, and after how many it notes them
 * anew. */
#define NUMBERS_AHEAD 1000000u
#define NUMBERS_STEP 1000u
/* PROCESS_NUMBERS has two lines: the next number in so many bytes, and name_cluster() of the cluster that has the
 * default directory. Earlier versions wrote the first alone. */
#define NUMBER_LINE 21
#define CLUSTER_TEXT (HOST_NAME_MAX + 256)

struct up {
    struct process process;
    struct embedded *cluster;
    struct attach *attach;
    struct api *api;
    struct retention_thread *retention;
    int numbers_fd; /* PROCESS_NUMBERS in up.output_dir, locked until the process ends; -1: there is none */
    uint64_t first_seq;
    uint64_t noted_seq; /* the next job's number when they were noted last */
    char cluster_name[CLUSTER_TEXT];
    bool ready;
};

static void up_effect(void *arg, const struct msg *m)
{
    struct up *u = arg;
    if (u->api)
        api_effect(u->api, m);
}

static void api_feed(void *arg, enum role to, const struct msg *m)
{
    struct up *u = arg;
    embedded_feed(u->cluster, to, m);
}

static void fill_metrics(void *arg, FILE *page)
{
    const struct up *u = arg;
    const struct worker *workers = embedded_worker(u->cluster);
    const struct dist *d = embedded_dist(u->cluster);
    const struct central *c = embedded_central(u->cluster);
    int64_t now_us = loop_now(u->process.loop);
    struct central_totals t;
    central_view_totals(c, &t);
    for (int i = 0; i < COUNTER_COUNT; i++) {
        t.counters[i] += dist_counters(d)[i];
        for (uint32_t k = 0; k < embedded_workers(u->cluster); k++)
            t.counters[i] += worker_counter(&workers[k], (enum counter)i);
    }
    metrics_of_workers(page, workers, embedded_workers(u->cluster), now_us);
    metrics_of_dist(page, d, now_us);
    metrics_of_central(page, c, now_us);
    metrics_of_counters(page, t.counters);
}

static int task_output(void *arg, job_id_t job, uint32_t task, uint32_t attempt, bool err_stream, char *path,
                       char *user, enum run_state *run)
{
    const struct up *u = arg;
    return runner_output(embedded_runner(u->cluster), job, task, attempt, err_stream, path, user, run);
}

static uint32_t first_index(void *arg, job_id_t job)
{
    const struct up *u = arg;
    return runner_first_index(embedded_runner(u->cluster), job);
}

static void up_stop(void *arg, bool now)
{
    struct up *u = arg;
    uint32_t jobs = dist_jobs_unfinished(embedded_dist(u->cluster));
    if (jobs)
        log_warn("%u unfinished job%s end%s with this process", jobs, jobs == 1 ? "" : "s",
                 jobs == 1 ? "s" : "");
    process_exit(&u->process, 0);
}

/* Makes the default socket's directory, and writes "unix:PATH" of the socket to addr, or "none". PATH is absolute:
 * clients in other directories are told it. */
static int socket_address(const struct config *c, char *addr, size_t size)
{
    char path[256], dir[PATH_MAX] = "", why[400];
    const char *told = c->up.socket + (strncmp(c->up.socket, "unix:", 5) == 0 ? 5 : 0);
    if (strcmp(told, "none") == 0) {
        snprintf(addr, size, "none");
        return 0;
    }
    if (*told) {
        bool relative = *told != '/' && getcwd(dir, sizeof dir);
        snprintf(addr, size, "unix:%s%s%s", dir, relative ? "/" : "", told);
        return 0;
    }
    client_default_socket(addr, size);
    snprintf(path, sizeof path, "%s", addr + strlen("unix:"));
    if (dir_make(dirname(path), 0700, why, sizeof why)) {
        log_error("%s", why);
        return HAWK_EIO;
    }
    return 0;
}

/* A cluster with a directory needs no socket: if another `hawk up` has the default one, addr becomes "none". */
static int check_socket(const struct config *c, char *addr, size_t size)
{
    char why[512];
    int err = strcmp(addr, "none") == 0 ? 0 : listen_check(addr, why, sizeof why);
    if (err == HAWK_EEXISTS && *c->up.join_dir && !*c->up.socket) {
        log_info("another `hawk up` of yours has %s: this one is found by --join-dir alone, or by HAWK_LOGIN",
                 addr);
        snprintf(addr, size, "none");
        return 0;
    }
    if (err)
        log_error("up.socket: %s (--socket PATH)", why);
    return err;
}

/* ---- The directory of output, and job numbers ---- */

static const char output_dir_key[] = "up.output_dir";

/* The number behind those that have a directory there. */
static uint64_t after_all_dirs(const char *output_dir)
{
    uint64_t next = 1;
    DIR *dir = opendir(output_dir);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        job_id_t job;
        if (job_id_parse(e->d_name, &job) == 0 && job_id_seq(job) >= next)
            next = job_id_seq(job) + 1;
    }
    if (dir)
        closedir(dir);
    return next;
}

/* Notes the number with which the next process goes on. */
static void note_numbers(const struct up *u, uint64_t next)
{
    char text[NUMBER_LINE + 1];
    int n = snprintf(text, sizeof text, "%020" PRIu64 "\n", next);
    if (pwrite(u->numbers_fd, text, (size_t)n, 0) != n)
        log_warn("%s/" PROCESS_NUMBERS " cannot be written: %s: after a crash job numbers may come again",
                 u->process.config.up.output_dir, strerror(errno));
}

/* A process that is killed cannot say how many it gave out, so it notes many ahead. */
static void note_ahead(struct up *u, uint64_t next)
{
    u->noted_seq = next;
    note_numbers(u, next + NUMBERS_AHEAD);
}

/* Job numbers go on after those of earlier processes: nobody who still asks for one of their jobs is to get another,
 * and no output is written over. */
static void read_numbers(struct up *u)
{
    char text[32] = "";
    uint64_t noted = 0;
    ssize_t n = pread(u->numbers_fd, text, sizeof text - 1, 0);
    text[strcspn(text, "\n")] = '\0';
    if (n > 0 && u64_parse(text, 1, JOB_SEQ_MAX, &noted))
        log_warn("%s/" PROCESS_NUMBERS " has no number: job numbers go on after those that left output",
                 u->process.config.up.output_dir);
    u->first_seq = after_all_dirs(u->process.config.up.output_dir);
    if (noted > u->first_seq)
        u->first_seq = noted;
    note_ahead(u, u->first_seq);
}

/* Names the cluster by its machine, since others may share the directory, and by its socket. */
static void name_cluster(const char *addr, char name[CLUSTER_TEXT])
{
    char host[HOST_NAME_MAX + 1] = "";
    if (gethostname(host, sizeof host - 1))
        *host = '\0';
    snprintf(name, CLUSTER_TEXT, "%s %s", host, addr);
}

/* Reads which cluster has the directory of this file of job numbers; "": none. */
static void read_cluster(int numbers_fd, char name[CLUSTER_TEXT])
{
    ssize_t n = pread(numbers_fd, name, CLUSTER_TEXT - 1, NUMBER_LINE);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

/* Opens the file of job numbers, and locks it: two processes with one directory would give their jobs the same numbers.
 * False: another process has it, or, where `shared` clusters choose among directories, another cluster. */
static bool lock_numbers(struct up *u, bool shared)
{
    char path[PATH_MAX], name[CLUSTER_TEXT];
    snprintf(path, sizeof path, "%s/" PROCESS_NUMBERS, u->process.config.up.output_dir);
    u->numbers_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (u->numbers_fd < 0) {
        log_warn("%s cannot be opened: %s: job numbers go on after those that left output", path,
                 strerror(errno));
        u->first_seq = after_all_dirs(u->process.config.up.output_dir);
        return true;
    }
    bool ours = flock(u->numbers_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* some have no locks */
    read_cluster(u->numbers_fd, name);
    if (!ours || (shared && *name && strcmp(name, u->cluster_name) != 0)) {
        close(u->numbers_fd);
        return false;
    }
    read_numbers(u);
    return true;
}

/* Whether this cluster has `first` or a directory beside it, even if its process runs: which. */
static bool find_own_dir(const struct up *u, const char *first, char own[PATH_MAX])
{
    char parent[PATH_MAX], path[PATH_MAX + 16], name[CLUSTER_TEXT];
    const char *leaf = strrchr(first, '/') + 1;
    bool found = false;
    snprintf(parent, sizeof parent, "%.*s", (int)(leaf - first), first);
    DIR *dir = opendir(parent);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (strcmp(e->d_name, leaf) != 0 && !output_dir_is_beside(e->d_name, leaf))
            continue;
        size_t n = (size_t)snprintf(own, PATH_MAX, "%s%s", parent, e->d_name);
        snprintf(path, sizeof path, "%s/" PROCESS_NUMBERS, own);
        int fd = n < PATH_MAX ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        read_cluster(fd, name);
        found = strcmp(name, u->cluster_name) == 0;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* From now on the directory is this cluster's, whoever starts first. */
static void note_cluster(const struct up *u)
{
    char line[CLUSTER_TEXT + 1];
    int n = snprintf(line, sizeof line, "%s\n", u->cluster_name);
    if (u->numbers_fd >= 0 && pwrite(u->numbers_fd, line, (size_t)n, NUMBER_LINE) != n)
        log_warn("%s/" PROCESS_NUMBERS " cannot be written: %s: another `hawk up` may take the directory",
                 u->process.config.up.output_dir, strerror(errno));
}

static int set_output_dir(struct up *u, const char *path)
{
    char why[400];
    if (!config_set(&u->process.config, output_dir_key, path, "default, beside that of another `hawk up`",
                    why, sizeof why))
        return 0;
    log_error("%s", why);
    return HAWK_EINVALID;
}

/* The default directory stays with the cluster that took it first. Another cluster gets the next free one beside it. */
static int open_output_dir(struct up *u, const char *addr)
{
    struct process *p = &u->process;
    bool shared = config_is_default(&p->config, output_dir_key);
    char first[PATH_MAX], next[PATH_MAX + 16], own[PATH_MAX];

    name_cluster(addr, u->cluster_name);
    snprintf(first, sizeof first, "%s", p->config.up.output_dir);
    bool has_own = shared && find_own_dir(u, first, own);
    for (unsigned i = has_own ? 0 : 1;; i++) {
        snprintf(next, sizeof next, i > 1 ? "%s-%u" : "%s", i ? first : own, i);
        if (strcmp(next, p->config.up.output_dir) != 0 && set_output_dir(u, next))
            return HAWK_EINVALID;
        if (process_output_dir(p, p->config.up.output_dir, ""))
            return HAWK_EIO;
        if (lock_numbers(u, shared))
            break;
        if (!shared) {
            log_error(
                "%s: another `hawk up` keeps its tasks' output in %s: end that one (hawk down), or give "
                "this one another directory (--output-dir DIR)",
                output_dir_key, p->config.up.output_dir);
            return HAWK_EEXISTS;
        }
    }
    if (shared && !has_own)
        note_cluster(u);
    if (strcmp(p->config.up.output_dir, first) != 0)
        log_info("another `hawk up` keeps its tasks' output in %s: that of this one is in %s", first,
                 p->config.up.output_dir);
    return 0;
}

/* ---- Life ---- */

static int up_start(struct up *u, const char *addr)
{
    struct process *p = &u->process;
    const struct config *c = &p->config;
    struct exec *exec;
    struct exec_config ec;
    struct run_as_mode run_as;
    struct central_config cc;
    struct embedded_config e = {.seed = entropy(), .effect = up_effect, .arg = u};
    e.slots = c->up.slots ? c->up.slots : cores_usable();
    e.workers = e.slots < UP_WORKERS_MAX ? e.slots : UP_WORKERS_MAX;
    central_configure(c, &cc);
    cc.ids_wait_us = 0; /* nobody had an id */
    if (run_as_choose(p, false, &run_as))
        return HAWK_EINVALID;
    if (!process_knows_users(p) && !*c->cluster.token_file && !c->cluster.insecure)
        log_audit_level(LOG_DEBUG); /* whoever started it is the only one who uses it */
    int err = open_output_dir(u, addr);
    if (err)
        return err;
    exec_config_init(&ec, u->process.name, c->up.output_dir);
    e.serves = ec.serves = run_as_serves(&run_as);
    ec.drops_empty = true;
    ec.freezer = exec_freezer_of(c->worker.freezer);
    ec.pause_free_mem = c->worker.pause_free_mem;
    ec.executors = strncmp(addr, "unix:/", 6) == 0 ? addr : NULL; /* tasks run elsewhere */
    ec.orphan_grace_us = 0; /* nobody takes over what runs: the jobs end with us */
    err = exec_start(&exec, &ec);
    if (err) {
        log_error("the spawner cannot be started: %s (up.output_dir is %s)", hawk_strerror(err),
                  c->up.output_dir);
        return err;
    }
    err = process_open(p, addr, 0);
    if (err) {
        exec_stop(exec);
        return err;
    }
    e.addr = server_addr(p->server, 0);
    e.first_seq = u->first_seq;
    e.central = &cc;
    e.client_grace_us = c->up.client_grace;
    e.pause = pausing_configured(c);
    e.pauses = true;
    u->cluster = embedded_new(p->loop, exec, &ec, &e);
    struct attach_config ac = {.worker = p->name,
                               .slots = e.slots,
                               .kill_grace_us = ec.kill_grace_us,
                               .event = embedded_on_exec,
                               .task_user = embedded_task_user,
                               .reside = embedded_reside,
                               .evict = embedded_evict,
                               .users = process_knows_users(p),
                               .shared = c->cluster.shared_apps,
                               .arg = u->cluster};
    u->attach = attach_new(p->loop, p->server, &ac);
    embedded_set_apps(u->cluster, attach_apps(u->attach));
    struct api_roles roles = {.dist = embedded_dist(u->cluster),
                              .central = embedded_central(u->cluster),
                              .worker = embedded_worker(u->cluster),
                              .output = task_output,
                              .first_index = first_index,
                              .limits = process_limits(&p->config),
                              .show_names = p->config.cluster.show_names,
                              .name = p->name,
                              .addr = e.addr,
                              .stop = up_stop};
    u->api = api_new(p->loop, p->server, &roles, api_feed, u);
    server_start(p->server);
    u->retention = retention_start(&(struct retention){
        .dir = c->up.output_dir, .keep_us = c->up.output_keep, .max_bytes = c->up.output_max});
    return process_metrics(p, c->up.metrics_listen, fill_metrics, u);
}

static void after_turn(void *arg)
{
    struct up *u = arg;
    if (u->numbers_fd >= 0 && embedded_next_seq(u->cluster) - u->noted_seq >= NUMBERS_STEP)
        note_ahead(u, embedded_next_seq(u->cluster));
    if (!u->ready && embedded_is_up(u->cluster)) {
        char note[API_NOTE_BYTES];
        u->ready = true;
        process_ready(&u->process);
        if (api_partition_note(embedded_central(u->cluster), note, sizeof note))
            log_info("%s", note);
    }
    if (embedded_broken(u->cluster))
        process_exit(&u->process, PROCESS_FAILED);
}

int up_main(int argc, char **argv)
{
    struct up u = {0};
    if (!process_init(&u.process, "up", argc, argv))
        return process_free(&u.process);
    u.process.name = "up";
    char addr[256];
    if (socket_address(&u.process.config, addr, sizeof addr) ||
        check_socket(&u.process.config, addr, sizeof addr)) { /* before this cluster takes a directory */
        u.process.exit_code = PROCESS_FAILED;
        return process_free(&u.process);
    }
    if (*u.process.config.up.join_dir) {
        u.process.exit_code = up_join_run(&u.process, addr);
        return process_free(&u.process);
    }
    if (up_start(&u, addr)) {
        u.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&u.process, up_stop, &u);
        process_run(&u.process, after_turn, &u);
    }
    process_metrics_stop(&u.process);
    retention_stop(u.retention);
    server_stop(u.process.server);
    api_free_all(u.api);
    u.api = NULL;
    if (u.cluster)
        embedded_set_apps(u.cluster, NULL);
    attach_free(u.attach);
    if (u.cluster && u.numbers_fd >= 0)
        note_numbers(&u, embedded_next_seq(u.cluster));
    embedded_free(u.cluster);
    return process_free(&u.process);
}
