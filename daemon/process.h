/* What every daemon process does the same way: configuration, tokens, listening, signals, the ready line. */
#ifndef HAWK_DAEMON_PROCESS_H
#define HAWK_DAEMON_PROCESS_H

#include "api/api.h"
#include "central/central.h"
#include "config/config.h"
#include "msg/msg.h"
#include "net/caller.h"
#include "net/loop.h"
#include "net/server.h"

/* The exit code of a daemon that could not start or go on. */
#define PROCESS_FAILED 1
#define PROCESS_NUMBERS ".numbers" /* in up.output_dir: the number of the next job's id */

struct metrics;

struct process {
    struct config config;
    const char *section;   /* of the configuration: "central", "dist", "worker" or "up" */
    const char *name;      /* of this node, for messages */
    const char *executors; /* where executors of this machine attach; NULL: nowhere in particular */
    char *token;           /* the clients'; NULL: none */
    char *node_token;      /* what this node opens links with; NULL: none */
    struct tls *tls;       /* key, certificate and roots; NULL: none */
    char *kept; /* the directory of a certificate that this daemon renews (daemon/enroll.h); NULL: none */
    struct ca_root *root; /* central's node root; NULL: it has none */
    struct loop *loop;
    struct server *server;
    void (*stop)(void *arg, bool now); /* a signal asked for it; now: the second time */
    void *arg;
    unsigned signals;
    struct loop_timer watchdog; /* systemd's, where it watches */
    int64_t watchdog_us;
    struct metrics *metrics; /* NULL: none are served */
    uint32_t version;        /* of the protocol: PROTOCOL_VERSION, or what $HAWK_PROTOCOL_VERSION says */
    int exit_code;
};

/* Reads flags and file for `section`, sets up the log, reads the tokens. False: the help, or what is wrong, was
 * printed, and the process ends with process_free(). */
HAWK_MUST_USE bool process_init(struct process *p, const char *section, int argc, char **argv);
/* Opens the loop and the server on a comma separated list of addresses; keepalive_ms as in net/server.h. 0, or a
 * message and HAWK_E…. */
HAWK_MUST_USE int process_open(struct process *p, const char *listen, uint32_t keepalive_ms);
/* Whether who calls is known: then a job, and an executor, is its user's. */
bool process_knows_users(const struct process *p);
/* Writes the address of a daemon's own unix socket, "unix:PATH", to addr: as the setting `key` has told, else DIR/LEAF.
 * "": there is none, since "none" was told, or since the default path is too long; the log then says what goes
 * `without` it. HAWK_ETOO_LARGE: the path that was told is too long. */
#define PROCESS_SOCKET 128
HAWK_MUST_USE int process_socket(const char *key, const char *told, const char *dir, const char *leaf,
                                 const char *without, char addr[PROCESS_SOCKET]);
/* Where to listen. Workers and dists need only central's address: told nothing else (listen is as where it is
 * unset), they listen where central reaches them, at the port of `unset`. */
const char *process_listen(const char *listen, const char *unset, const char *advertise, const char *centrals,
                           char own[ADDR_TEXT]);
/* Whether jobs must be signed: *roots is then what their credentials are checked by, else NULL. HAWK_EINVALID, after a
 * message: this daemon has no TLS. */
#define SIGNATURES_NEED_TLS                                                                                  \
    "cluster.require_signatures: users sign with the credentials of a cluster with TLS: set section tls, "   \
    "or join it (--join FILE)"
HAWK_MUST_USE int process_signatures(const struct process *p, const struct tls **roots);
/* Makes the directory for tasks' output where it is missing, and closes it to others than this user and the
 * group ("": none). One that holds other things as well is not closed, only tasks' output in it. A worker
 * that cannot write there would fail every task it gets, and faster than others run them. 0, or a message and
 * HAWK_E…. */
HAWK_MUST_USE int process_output_dir(const struct process *p, const char *dir, const char *group);
/* The address other nodes are told: `advertise`, else the first one we listen on, when others can dial that:
 * not one of this machine alone while central (one or several, or any other peer) is on another. NULL after a
 * message. After process_open. */
const char *process_advertised(const struct process *p, const char *advertise, const char *centrals);
/* Serves /metrics at `listen` ("": nowhere); fill as in daemon/metrics.h. After process_open. 0, or a message and
 * HAWK_E…. */
HAWK_MUST_USE int process_metrics(struct process *p, const char *listen, void (*fill)(void *arg, FILE *page),
                                  void *arg);
/* No fill any more: call it before what fill looks at is freed. */
void process_metrics_stop(struct process *p);
/* SIGTERM and SIGINT call stop; SIGHUP too for `hawk up`, which ends with its terminal, and daemons open log.audit anew
 * then. From here on systemd's watchdog, if it watches, is told by the loop that it turns. */
void process_signals(struct process *p, void (*stop)(void *arg, bool now), void *arg);
/* Says on stdout, and to systemd, that the daemon can be used: "ready NAME ADDRESS", or with --output json a
 * document on one line. Once. */
void process_ready(struct process *p);
/* The same, of a name and an address; executors NULL: nowhere in particular. */
void process_say_ready(const char *name, const char *addr, const char *executors);
/* Turns the loop until process_exit(); after_turn is called after each turn. */
void process_run(struct process *p, void (*after_turn)(void *arg), void *arg);
/* Ends the loop with an exit code. */
void process_exit(struct process *p, int code);
/* Closes what process_init and process_open opened; returns the exit code. */
int process_free(struct process *p);

/* The policy a configuration asks for. */
void process_policy(const struct config *c, struct policy *p);
/* The same for all of central's configuration (daemon/central.c). */
void central_configure(const struct config *c, struct central_config *out);
/* worker.pause_*; paused_max 0: as many as slots. */
struct worker_pausing pausing_configured(const struct config *c);

/* What one user may have at the dist in this process. */
struct api_limits process_limits(const struct config *c);

#endif
