/* Configuration of daemons: one table of settings. The struct, the YAML keys, the command flags, `hawk
 * config show` and docs/reference/configuration.md follow from it. */
#ifndef HAWK_CONFIG_CONFIG_H
#define HAWK_CONFIG_CONFIG_H

#include "base/err.h"
#include "net/addr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* S(section, KIND, name, default text, help). Kinds and the C type of each: */
typedef const char *setting_TEXT;      /* any text; "" is unset */
typedef const char *setting_LIST;      /* comma separated in one string; a YAML sequence as well */
typedef const char *setting_CHOICE;    /* the help begins with the choices, "a|b|c" */
typedef int64_t setting_DURATION;      /* microseconds */
typedef int64_t setting_AUTO_DURATION; /* microseconds; SETTING_AUTO: computed */
typedef uint32_t setting_SHARE;        /* parts per million */
typedef int64_t setting_AUTO_SHARE;    /* parts per million; SETTING_AUTO: computed */
typedef bool setting_BOOL;
typedef uint32_t setting_COUNT;
typedef uint32_t setting_NUMBER;     /* 0 as well */
typedef uint64_t setting_SIZE;       /* bytes */
typedef uint32_t setting_AUTO_COUNT; /* 0: auto */
typedef uint32_t setting_MILLI;      /* a decimal number, times 1,000 */

#define SETTING_AUTO INT64_C(-1)

#define CLUSTER_SETTINGS(S)                                                                                  \
    S(cluster, TEXT, token_file, "", "file with the clients' token: every call must have it")                \
    S(cluster, TEXT, node_token_file, "",                                                                    \
      "file with the nodes' token: every link must have it; unset: the clients' token, so that a "           \
      "client can act as a node")                                                                            \
    S(cluster, TEXT, metrics_token_file, "",                                                                 \
      "file with the token that readers of /metrics show; required where clients need a token or TLS, "      \
      "with local_users, and beyond loopback unless insecure")                                               \
    S(cluster, BOOL, insecure, "no", "listen and dial beyond loopback without TLS, for tests")               \
    S(cluster, BOOL, local_users, "no",                                                                      \
      "let every user of this machine connect to unix sockets, as himself and with scopes read and "         \
      "submit; worker.run_as says as whom tasks run")                                                        \
    S(cluster, BOOL, show_names, "no",                                                                       \
      "lists show everybody the names of others' jobs, which by default have their commands")                \
    S(cluster, BOOL, require_signatures, "no",                                                               \
      "dists take, and workers run, only jobs that their users have signed with their credentials; "         \
      "needs TLS")                                                                                           \
    S(cluster, LIST, shared_apps, "",                                                                        \
      "applications that operators' executors serve to everybody on this worker, and that nobody has of "    \
      "his own, by name; where users are known (cluster.local_users, TLS) all others are their users'")      \
    S(cluster, AUTO_COUNT, connections_max, "auto",                                                          \
      "most connections to a daemon; auto, and never more: half of its descriptors")                         \
    S(cluster, COUNT, unproven_per_address, "100",                                                           \
      "most connections of another address without an accepted call")                                        \
    S(cluster, COUNT, connect_rate, "500",                                                                   \
      "new connections of another address, or user of this machine, per second, on average over ten "        \
      "seconds; further ones wait")

#define TLS_SETTINGS(S)                                                                                      \
    S(tls, TEXT, certificate, "",                                                                            \
      "file with this daemon's certificate, PEM; with it, all TCP connections use TLS")                      \
    S(tls, TEXT, key, "", "file with its private key, which nobody else may read")                           \
    S(tls, TEXT, roots, "",                                                                                  \
      "file with the certificates of the roots that sign nodes' and users' certificates")                    \
    S(tls, BOOL, optional, "no",                                                                             \
      "for the way from tokens to TLS: let in who shows a token without TLS, and dial nodes without TLS "    \
      "that have none; needs the tokens")

#define CENTRAL_SETTINGS(S)                                                                                  \
    S(central, LIST, listen, "127.0.0.1:7070", "addresses to listen on: HOST:PORT or unix:PATH")             \
    S(central, TEXT, advertise, "", "address for other nodes; default: the first one of listen")             \
    S(central, TEXT, metrics_listen, "", "where /metrics is served: HOST:PORT or unix:PATH; unset: nowhere") \
    S(central, CHOICE, store, "sqlite",                                                                      \
      "sqlite|etcd: a file in state_dir, or etcd: then several centrals may run, one of them active")        \
    S(central, TEXT, state_dir, "",                                                                          \
      "where the journal and the history are kept; default: see `hawk config show`")                         \
    S(central, TEXT, ca, "",                                                                                 \
      "directory of `hawk ca init`, without its users/: central issues and renews nodes' certificates")      \
    S(central, DURATION, certificate_life, "14d", "how long these certificates are good")                    \
    S(central, LIST, etcd, "127.0.0.1:2379", "addresses of etcd's members")                                  \
    S(central, TEXT, etcd_certificate, "",                                                                   \
      "file with central's certificate for etcd, PEM; with it, connections to etcd use TLS")                 \
    S(central, TEXT, etcd_key, "", "file with its private key, which nobody else may read")                  \
    S(central, TEXT, etcd_roots, "", "file with the certificates of the roots that sign etcd's own")         \
    S(central, TEXT, etcd_prefix, "hawk", "prefix of this cluster's keys in etcd")                           \
    S(central, DURATION, leader_lease, "2s",                                                                 \
      "silence of the active central after which another takes over; whole seconds")                         \
    S(central, CHOICE, policy, "harrier",                                                                    \
      "harrier|hawk|sparrow|eagle|hawk-no-steal|hawk-no-partition|hawk-no-central|split|central")            \
    S(central, LIST, policy_on, "",                                                                          \
      "policy flags to switch on besides the policy's own (see `hawk policy`)")                              \
    S(central, LIST, policy_off, "", "policy flags to switch off")                                           \
    S(central, AUTO_DURATION, cutoff, "auto",                                                                \
      "a job whose tasks take less on average is short; auto: from history")                                 \
    S(central, DURATION, cutoff_default, "10s", "the cutoff until there is enough history")                  \
    S(central, SHARE, cutoff_percentile, "90%", "auto cutoff: this percentile of jobs' mean task run times") \
    S(central, DURATION, cutoff_min, "1s", "lower bound of an auto cutoff")                                  \
    S(central, DURATION, cutoff_max, "1h", "upper bound of an auto cutoff")                                  \
    S(central, AUTO_SHARE, short_partition, "auto",                                                          \
      "share of slots reserved for short tasks; auto: from history; where long tasks are paused, what "      \
      "short jobs need beyond that")                                                                         \
    S(central, SHARE, short_partition_default, "10%", "the share until there is enough history")             \
    S(central, SHARE, short_partition_min, "2%", "lower bound of an auto short partition")                   \
    S(central, SHARE, short_partition_max, "80%", "upper bound of an auto short partition")                  \
    S(central, COUNT, history_jobs, "10000", "finished jobs in the history")                                 \
    S(central, COUNT, history_min_jobs, "100", "finished jobs before cutoff and partition are computed")     \
    S(central, MILLI, probe_ratio, "2", "probes per task of a short job (Sparrow: 2)")                       \
    S(central, COUNT, steal_cap, "10", "workers a thief asks in one round (Hawk: 10)")                       \
    S(central, COUNT, steal_max, "10000", "most reservations of one steal")                                  \
    S(central, NUMBER, short_first, "0",                                                                     \
      "short tasks that may overtake the long one at the head of a queue; 0: first come, first served")      \
    S(central, COUNT, long_stretch, "10",                                                                    \
      "a long job waits for smaller ones submitted up to this many times its size later (long_by_work)")     \
    S(central, DURATION, heartbeat, "500ms", "how often nodes report")                                       \
    S(central, DURATION, suspect, "3s", "silence after which a node is suspect")                             \
    S(central, DURATION, long_lease, "60s",                                                                  \
      "time from a worker's silence until its long tasks run elsewhere; also how long a long job "           \
      "runs on when nobody waits for it any more")                                                           \
    S(central, DURATION, ids_wait, "3s",                                                                     \
      "how long a central without any state waits for nodes that have ids before it gives out "              \
      "new ones")                                                                                            \
    S(central, DURATION, members_push, "200ms", "shortest time between two member lists to workers")         \
    S(central, COUNT, nodes_max, "200000", "most nodes of the cluster")                                      \
    S(central, COUNT, long_jobs_max, "1000000", "most unfinished long jobs")                                 \
    S(central, COUNT, long_tasks_max, "10000000", "most unfinished long tasks")

#define DIST_SETTINGS(S)                                                                                     \
    S(dist, TEXT, name, "", "unique in the cluster; default: dist-HOSTNAME")                                 \
    S(dist, LIST, listen, "127.0.0.1:7071",                                                                  \
      "addresses to listen on; by default the one that central sees, port 7071")                             \
    S(dist, TEXT, advertise, "", "address for other nodes; default: the first one of listen")                \
    S(dist, TEXT, metrics_listen, "", "where /metrics is served: HOST:PORT or unix:PATH; unset: nowhere")    \
    S(dist, LIST, central, "127.0.0.1:7070", "central's address; several centrals: all of theirs")           \
    S(dist, TEXT, join, "",                                                                                  \
      "file with an invitation, by which the dist gets a certificate once; -: standard input")               \
    S(dist, TEXT, socket, "",                                                                                \
      "unix socket for clients of this machine; default: dist.sock in state_dir; none: no socket")           \
    S(dist, TEXT, state_dir, "", "where detached jobs are journalled; default: see `hawk config show`")      \
    S(dist, COUNT, jobs_max, "100000", "most unfinished jobs of this dist")                                  \
    S(dist, COUNT, tasks_max, "10000000", "most unfinished tasks of this dist")                              \
    S(dist, COUNT, user_jobs_max, "50000", "most unfinished jobs of one user at this dist")                  \
    S(dist, COUNT, user_tasks_max, "5000000", "most tasks of one user's unfinished jobs at this dist")       \
    S(dist, SIZE, user_journal_max, "256MiB",                                                                \
      "most bytes of one user's unfinished jobs in the memory and journal of this dist")                     \
    S(dist, COUNT, user_submit_rate, "10000",                                                                \
      "most submissions of one user per second, on average over ten seconds")                                \
    S(dist, COUNT, user_watches_max, "4000", "most watches of one user at this dist")                        \
    S(dist, SIZE, memory_max, "1GiB",                                                                        \
      "most memory for unfinished jobs; the results of one user: half of it")                                \
    S(dist, COUNT, finished_kept, "10000", "ended jobs that the dist keeps")                                 \
    S(dist, DURATION, finished_keep, "0s", "how long the dist keeps an ended job; 0s: as the counts say")    \
    S(dist, COUNT, finished_tasks, "4000000", "most tasks of these jobs, of some 50 bytes each")             \
    S(dist, SIZE, finished_memory, "256MiB",                                                                 \
      "most memory for their descriptions; the oldest job is forgotten first")                               \
    S(dist, DURATION, client_grace, "10s",                                                                   \
      "how long a client may be gone before its job, which it waits for, is cancelled; 0s: for ever")

#define WORKER_SETTINGS(S)                                                                                   \
    S(worker, TEXT, name, "", "unique in the cluster; default: HOSTNAME")                                    \
    S(worker, LIST, listen, "127.0.0.1:0", "addresses to listen on; by default the one that central sees")   \
    S(worker, TEXT, advertise, "", "address for other nodes; default: the first one of listen")              \
    S(worker, TEXT, metrics_listen, "", "where /metrics is served: HOST:PORT or unix:PATH; unset: nowhere")  \
    S(worker, LIST, central, "127.0.0.1:7070", "central's address; several centrals: all of theirs")         \
    S(worker, TEXT, join, "",                                                                                \
      "file with an invitation, by which the worker gets a certificate once; -: standard input")             \
    S(worker, TEXT, join_dir, "",                                                                            \
      "directory of `hawk up --join-dir`, by which the worker finds that cluster and joins it")              \
    S(worker, AUTO_COUNT, slots, "auto", "tasks at a time; auto: one per core that it may use")              \
    S(worker, CHOICE, queues, "per-worker",                                                                  \
      "per-worker|per-slot: one queue for all slots, or one per slot (the paper)")                           \
    S(worker, TEXT, state_dir, "",                                                                           \
      "where a restarted worker finds its tasks; default: see `hawk config show`")                           \
    S(worker, TEXT, output_dir, "", "where tasks' output goes by default; default: see `hawk config show`")  \
    S(worker, TEXT, output_group, "",                                                                        \
      "group that may read output_dir, besides the worker's user, who must be in it")                        \
    S(worker, SIZE, output_free_min, "1MiB",                                                                 \
      "with less room in output_dir, tasks go to other workers; 0: no limit")                                \
    S(worker, DURATION, output_keep, "0s",                                                                   \
      "how long the output of a job stays in output_dir after its last write; 0s: for ever")                 \
    S(worker, SIZE, output_max, "0B",                                                                        \
      "most room of tasks' output in output_dir: beyond it the oldest job's goes; 0B: no limit")             \
    S(worker, SIZE, user_output_max, "50GiB",                                                                \
      "the same for the output of one user, where users are known: the oldest of his jobs; 0B: no limit")    \
    S(worker, COUNT, user_reads_max, "1000", "most outputs that one user reads at this worker at once")      \
    S(worker, TEXT, executor_socket, "",                                                                     \
      "unix socket for executors; default: in state_dir/NAME; none: no socket")                              \
    S(worker, COUNT, queue_limit, "1000000", "most reservations and short tasks in the queue")               \
    S(worker, DURATION, park_min, "100ms", "first wait of an idle thief after a round in vain")              \
    S(worker, DURATION, park_max, "5s", "its longest wait")                                                  \
    S(worker, DURATION, pause_after, "100ms",                                                                \
      "a short task waits this long, or a sixteenth of its estimate if that is less, before it "             \
      "pauses a long one")                                                                                   \
    S(worker, MILLI, pause_share, "0.5",                                                                     \
      "how long a long task may be paused, as a multiple of its run time or estimate")                       \
    S(worker, DURATION, pause_longest, "10m", "longest pause of a task")                                     \
    S(worker, AUTO_COUNT, paused_max, "auto", "most paused tasks at a time; auto: as many as slots")         \
    S(worker, DURATION, orphan, "10s", "how long tasks of a lost dist go on")                                \
    S(worker, DURATION, kill_grace, "2s", "time from SIGTERM to SIGKILL of a task")                          \
    S(worker, CHOICE, freezer, "auto",                                                                       \
      "auto|cgroup2|cgroup1|signal|off: how a long task is paused; auto: the first of these that "           \
      "works")                                                                                               \
    S(worker, CHOICE, run_as, "auto",                                                                        \
      "auto|own|any|user: whose commands run here: own: those of the worker's own user alone; any: "         \
      "everybody's, as that user; user: everybody's, each as its user, through hawk-run-as; auto: where "    \
      "users are known (cluster.local_users, TLS) user if hawk-run-as is installed, or own; else any")       \
    S(worker, TEXT, run_as_helper, "", "path of hawk-run-as; default: ../libexec/hawk-run-as beside hawk")   \
    S(worker, DURATION, run_as_idle, "5m", "a user's runner leaves after so long without tasks")             \
    S(worker, SIZE, pause_free_mem, "256MiB", "with less available memory, no task is paused")               \
    S(worker, DURATION, idle_exit, "0s", "stop after so long without any work; 0s: never")                   \
    S(worker, TEXT, end_time, "",                                                                            \
      "when this machine is gone: a time from the start, like 2h, or seconds since 1970; the worker takes "  \
      "no task whose estimate does not fit, none at all in the last minute, or tenth, and its tasks end in " \
      "time")                                                                                                \
    S(worker, DURATION, agent_grace, "20s",                                                                  \
      "how long tasks run on without their worker, while it is upgraded or after it died")

#define UP_SETTINGS(S)                                                                                       \
    S(up, AUTO_COUNT, slots, "auto", "tasks at a time; auto: one per core that it may use")                  \
    S(up, TEXT, socket, "",                                                                                  \
      "unix socket for clients; default: see `hawk config show`; none, with join_dir: no socket")            \
    S(up, TEXT, join_dir, "",                                                                                \
      "directory by which workers on other machines join, as with a home that these share; then the "        \
      "cluster consists of daemons that use TLS")                                                            \
    S(up, TEXT, listen, "",                                                                                  \
      "with join_dir: HOST or HOST:PORT where other machines reach this one; default: the address of "       \
      "its name")                                                                                            \
    S(up, BOOL, worker, "yes", "with join_dir: this machine runs tasks, too")                                \
    S(up, TEXT, metrics_listen, "", "where /metrics is served: HOST:PORT or unix:PATH; unset: nowhere")      \
    S(up, TEXT, output_dir, "", "where tasks' output goes by default; default: see `hawk config show`")      \
    S(up, DURATION, output_keep, "0s", "as worker.output_keep")                                              \
    S(up, SIZE, output_max, "0B", "as worker.output_max")                                                    \
    S(up, DURATION, client_grace, "10s",                                                                     \
      "how long a client may be gone before its job, which it waits for, is cancelled; 0s: for ever")

#define LOG_SETTINGS(S)                                                                                      \
    S(log, CHOICE, level, "info", "error|warn|info|debug|trace")                                             \
    S(log, CHOICE, format, "text", "text|json: one object per line")                                         \
    S(log, NUMBER, rate, "100", "most lines of one kind a second; 0: no limit")                              \
    S(log, TEXT, audit, "", "file for the lines that say who changed what; default: the log")

#define SECTIONS(X)                                                                                          \
    X(cluster, CLUSTER_SETTINGS)                                                                             \
    X(tls, TLS_SETTINGS)                                                                                     \
    X(central, CENTRAL_SETTINGS)                                                                             \
    X(dist, DIST_SETTINGS)                                                                                   \
    X(worker, WORKER_SETTINGS)                                                                               \
    X(up, UP_SETTINGS)                                                                                       \
    X(log, LOG_SETTINGS)

struct config {
#define S(section, kind, name, def, help) setting_##kind name;
#define X(section, SETTINGS)                                                                                 \
    struct {                                                                                                 \
        SETTINGS(S)                                                                                          \
    } section;
    SECTIONS(X)
#undef X
#undef S
    struct config_origin *origins; /* one per setting, in table order */
};

/* Sets every setting to its default, including those that depend on this machine (names, directories). */
void config_init(struct config *c);
void config_free(struct config *c);
/* Reads a YAML file (a regular one, of 1 MiB at most; "-": stdin) over *c. Errors name file, line and key;
 * all of them are written to err before it returns HAWK_EINVALID (HAWK_EIO when the file cannot be read). */
HAWK_MUST_USE int config_load(struct config *c, const char *path, FILE *err);
/* Checks what config_load and config_set cannot see in one value: ranges and contradictions, of one
 * section's daemon or (NULL) of all. Writes a line for each mistake to err, with the value's origin, and
 * returns HAWK_EINVALID. */
HAWK_MUST_USE int config_validate(const struct config *c, const char *section, FILE *err);
/* Reads the tokens of one section's daemon or (NULL) of any. NULL: there is none. The caller frees *token
 * and *node_token, also after an error. Writes a line for each mistake to err, and returns HAWK_EINVALID. */
HAWK_MUST_USE int config_tokens(const struct config *c, const char *section, char **token, char **node_token,
                                FILE *err);
/* Reads the files of section tls, for one section's daemon or (NULL) for any. *tls NULL: they are not set, or not
 * for `up`, which listens on a unix socket. The caller frees *tls. Otherwise as config_tokens. */
struct tls;
HAWK_MUST_USE int config_tls(const struct config *c, const char *section, struct tls **tls, FILE *err);
/* Writes one line about what the configuration allows without its writer perhaps knowing, and the remedy;
 * of one section's daemon or (NULL) of all. False: there is nothing to say. */
#define CONFIG_WARNING 400
bool config_warning(const struct config *c, const char *section, char *text, size_t size);
/* Where the value of "section.name" comes from: "hawk.yaml:3", "flag --slots", "default". */
const char *config_origin(const struct config *c, const char *key);
/* worker.end_time in microseconds from now_us, seconds since 1970 in microseconds too; TIME_NEVER: none. HAWK_EINVALID:
 * it is neither form. */
HAWK_MUST_USE int config_end_time(const struct config *c, int64_t now_us, int64_t *left_us);
/* up.listen as "HOST:PORT". HAWK_EINVALID: why says what is wrong. */
HAWK_MUST_USE int config_up_listen(const struct config *c, char addr[ADDR_TEXT], char *why, size_t size);
/* Sets one value from text: key is "section.name". It copies `origin` ("flag --slots"). On an error
 * nothing changes, and why says what was expected. */
HAWK_MUST_USE int config_set(struct config *c, const char *key, const char *text, const char *origin,
                             char *why, size_t size);
/* Whether nobody has set the value of "section.name". */
bool config_is_default(const struct config *c, const char *key);
/* Prints YAML that config_load reads back, each value followed by where it came from. section NULL: all. */
void config_show(const struct config *c, const char *section, FILE *f);
/* The configuration as a list of objects: section, name, value, origin. */
json_t *config_json(const struct config *c, const char *section);
struct flag;
/* The flags of a daemon, for manual pages and completion: its section's settings, those of cluster, tls and log, and
 * --set, --config, --output. Made once, and constant. NULL: there is no such daemon. */
const struct flag *config_flags(const char *section);
/* What the daemon of a section is for: paragraphs of its help; "": there is no such daemon. */
const char *config_purpose(const char *section);
/* Prints these flags, for the help. */
void config_help(const char *section, FILE *f);

/* Reads the daemon flags of `section`: --config FILE, --NAME VALUE for every setting of the section and of
 * cluster, tls and log (dashes for underscores), --set SECTION.NAME=VALUE, --help. The file is the flag's, else
 * $HAWK_CONFIG, else /etc/hawk/hawk.yaml unless it does not exist. Returns 0, 1 after printing help, or 2
 * after printing what is wrong on stderr, as an argument that is no flag. */
HAWK_MUST_USE int config_from_args(struct config *c, const char *section, int argc, char **argv);

#endif
