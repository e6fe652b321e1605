/* The client under the `hawk` commands: a small synchronous client of the public API. It is not installed;
 * programs use hawk.h, whose hawk_client is built on it.
 *
 * A client has contacts: one or several dists (or `hawk up`). Its calls go to the first contact that
 * answers. A call that another node must answer (about a job that another dist accepted, statistics, a
 * task's output) goes to that node, at the address that ListNodes gives. One client is for one thread.
 * Every call returns 0 or a HAWK_E... code; client_error() then says what happened and what to do. */
#ifndef HAWK_LIBHAWK_CLIENT_H
#define HAWK_LIBHAWK_CLIENT_H

#include "base/units.h"
#include "net/api.h"

#define CLIENT_TIMEOUT_US (30 * US_PER_S)

struct client;

struct client_options {
    const char *dist;       /* addresses, comma separated; NULL: as docs/reference/commands.md says */
    const char *join_dir;   /* of `hawk up --join-dir` (net/join_dir.h), instead of dist; NULL: none */
    const char *token_file; /* NULL: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN, else none */
    int64_t timeout_us;     /* for one call to answer; 0: CLIENT_TIMEOUT_US */
};

/* The address where `hawk up` listens and clients look for it: "unix:$XDG_RUNTIME_DIR/hawk/up.sock", or
 * "unix:/tmp/hawk-UID/up.sock" without that variable. Writes it to buf and returns buf; NULL when size is
 * too small. */
const char *client_default_socket(char *buf, size_t size);

/* Whether a client with these options asks this user's `hawk up`, because nothing names another cluster. */
bool client_finds_up(const struct client_options *o);

/* This process's umask, with JOB_UMASK_TOLD, for a description; 0 when the system does not tell it. */
uint32_t client_umask(void);
/* The jobs in whose tasks this process runs, as its environment tells, for a description. */
struct ancestors client_ancestors(void);

/* Makes a client in *client, also on an error: for client_error, and to be closed by client_close. It
 * connects on the first call. */
HAWK_MUST_USE int client_open(struct client **client, const struct client_options *o);
void client_close(struct client *client);
/* The error of the last failed call; "" before one. Valid until the next call. */
const char *client_error(const struct client *client);
/* What the last successful call had to leave out; "": nothing. */
const char *client_warning(const struct client *client);

/* The caller owns replies: api_free(&api_..._type, reply). On an error they are empty. */
HAWK_MUST_USE int client_submit(struct client *client, struct job_desc *job, struct api_submit_reply *reply);
HAWK_MUST_USE int client_cancel(struct client *client, job_id_t job, bool *already_ended);
/* Cancels tasks of a job: ranges, ascending, each task once. *already_ended: all of them had. */
HAWK_MUST_USE int client_cancel_tasks(struct client *client, job_id_t job, struct api_task_range *tasks,
                                      uint32_t n, bool *already_ended);
/* Holds a job, or releases it. */
HAWK_MUST_USE int client_hold(struct client *client, job_id_t job, bool release, bool *already_ended);
/* Submits a job like one that has ended, to run after jobs of the same dist; failed: with the tasks that are done as
 * they are. */
HAWK_MUST_USE int client_rerun(struct client *client, job_id_t job, bool failed,
                               const struct after_list *after, struct api_submit_reply *reply);
HAWK_MUST_USE int client_get_job(struct client *client, const struct api_get_job_request *r,
                                 struct api_get_job_reply *reply);
HAWK_MUST_USE int client_list_nodes(struct client *client, struct api_list_nodes_reply *reply);
/* The same from central alone, and with lost ones (ListNodesRequest.lost). */
HAWK_MUST_USE int client_list_all_nodes(struct client *client, struct api_list_nodes_reply *reply);
HAWK_MUST_USE int client_stats(struct client *client, struct api_get_stats_reply *reply);
HAWK_MUST_USE int client_policy(struct client *client, struct api_policy *reply);
HAWK_MUST_USE int client_set_policy(struct client *client, const struct api_set_policy_request *r,
                                    struct api_policy *reply);

/* Whether a job was submitted to `hawk up`, the whole cluster in one process: by the list of nodes that
 * client_submit read. */
bool client_is_embedded(const struct client *client);
/* Whether the client's cluster was a `hawk up` that has stopped in good order, which removes its socket: its jobs have
 * ended with it. Then sets the client's error. */
bool client_up_has_stopped(struct client *client);

/* From now on the client asks central alone, whatever becomes of the dists. For commands that take nodes
 * out of service. */
HAWK_MUST_USE int client_use_central(struct client *client);
HAWK_MUST_USE int client_drain(struct client *client, const struct api_drain_request *r,
                               struct api_drain_reply *reply);
/* Through central. */
HAWK_MUST_USE int client_stop(struct client *client, const struct api_stop_request *r,
                              struct api_stop_reply *reply);
/* Stops a node by its address, from client_list_nodes: for a cluster whose central is not there to do it. */
HAWK_MUST_USE int client_stop_node(struct client *client, const char *addr, bool now);

/* Which jobs to list. */
struct client_job_query {
    uint32_t limit;          /* at most so many; 0: all */
    bool limits_ended;       /* limit counts ended jobs alone: all that have not ended are listed */
    uint32_t states;         /* 1 << enum job_state, several; 0: any */
    const char *name, *user; /* NULL: any */
    bool mine;               /* of this client: `user` counts only where nobody knows who calls */
};
/* Lists the jobs of every dist, newest first. A dist that does not answer is left out: client_warning()
 * names it. */
HAWK_MUST_USE int client_list_jobs(struct client *client, const struct client_job_query *q,
                                   struct api_list_jobs_reply *reply);

/* Gets every event of a watched job; `event` is borrowed. A return value other than 0 ends the watching,
 * and client_watch returns it. */
typedef int client_watch_fn(void *ctx, const struct api_event *event);
enum client_watch_what {
    CLIENT_WATCH_JOBS,
    CLIENT_WATCH_TASKS,   /* tasks too, as they change */
    CLIENT_WATCH_RESULTS, /* tasks as they end, with their results */
};
/* Follows n jobs at once until each has a final state (0), and with CLIENT_WATCH_RESULTS until all results
 * have come. It opens a broken stream again, for as long as the timeout. It leaves out a job that no dist
 * knows (HAWK_ENOT_FOUND), or that cannot be watched for another reason, and returns the first such error
 * at the end. It calls tick, when not NULL, at least every 100 ms; tick may end the watching in the same
 * way. */
HAWK_MUST_USE int client_watch(struct client *client, const job_id_t *jobs, uint32_t n,
                               enum client_watch_what what, client_watch_fn *on, int (*tick)(void *ctx),
                               void *ctx);

/* Gets every piece of output, in order. A return value other than 0 ends the reading. */
typedef int client_output_fn(void *ctx, const struct api_output_chunk *chunk);
/* Reads a task's output from `worker` (from client_get_job). With request->follow it goes on where it was when the
 * worker is back within ten seconds. */
HAWK_MUST_USE int client_read_output(struct client *client, node_id_t worker,
                                     const struct api_read_output_request *r, client_output_fn *on,
                                     void *ctx);

#endif
