/* libhawk: a small synchronous client of the public API, which the `hawk` command is built on.
 *
 * A client has contacts: one or several dists (or `hawk up`). Calls go to the first that answers; what
 * another node must answer (a job another dist accepted, statistics, a task's output) is asked there, at the
 * address ListNodes gives. One client is for one thread. Every call returns 0 or a HAWK_E... code, after
 * which hawk_error() says what happened and what to do. */
#ifndef HAWK_LIBHAWK_CLIENT_H
#define HAWK_LIBHAWK_CLIENT_H

#include "base/units.h"
#include "net/api.h"

#define HAWK_TIMEOUT_US (30 * US_PER_S)

struct hawk;

struct hawk_options {
    const char *dist;       /* addresses, comma separated; NULL: $HAWK_DIST, else the local `hawk up` */
    const char *token_file; /* NULL: $HAWK_TOKEN_FILE, else the token in $HAWK_TOKEN, else none */
    int64_t timeout_us;     /* for one call to answer; 0: HAWK_TIMEOUT_US */
};

/* Where `hawk up` listens and clients look for it: "unix:$XDG_RUNTIME_DIR/hawk/up.sock", without that
 * variable "unix:/tmp/hawk-UID/up.sock". Writes to buf and returns it; NULL when size is too small. */
const char *hawk_default_socket(char *buf, size_t size);

/* This process's umask, with JOB_UMASK_TOLD, for a description; 0 where it cannot be told. */
uint32_t hawk_umask(void);

/* A new client in *h (also on an error, for hawk_error; hawk_close it). Connects on the first call. */
HAWK_MUST_USE int hawk_open(struct hawk **h, const struct hawk_options *o);
void hawk_close(struct hawk *h);
/* What the last failed call met; "" before one. Valid until the next call. */
const char *hawk_error(const struct hawk *h);
/* What the last call left out although it succeeded; "" when nothing. */
const char *hawk_warning(const struct hawk *h);

/* Replies are owned by the caller: api_free(&api_..._type, reply). On an error they are empty. */
HAWK_MUST_USE int hawk_submit(struct hawk *h, struct job_desc *job, struct api_submit_reply *reply);
HAWK_MUST_USE int hawk_cancel(struct hawk *h, job_id_t job, bool *already_ended);
HAWK_MUST_USE int hawk_get_job(struct hawk *h, const struct api_get_job_request *r,
                               struct api_get_job_reply *reply);
HAWK_MUST_USE int hawk_list_nodes(struct hawk *h, struct api_list_nodes_reply *reply);
HAWK_MUST_USE int hawk_stats(struct hawk *h, struct api_get_stats_reply *reply);
HAWK_MUST_USE int hawk_policy(struct hawk *h, struct api_policy *reply);
HAWK_MUST_USE int hawk_set_policy(struct hawk *h, const struct api_set_policy_request *r,
                                  struct api_policy *reply);

/* Whether a job was submitted to `hawk up`, the whole cluster in one process: by the list of nodes that hawk_submit reads. */
bool hawk_is_embedded(const struct hawk *h);

/* From now on central alone is asked, whatever becomes of the dists: for who takes them out of service. */
HAWK_MUST_USE int hawk_use_central(struct hawk *h);
HAWK_MUST_USE int hawk_drain(struct hawk *h, const struct api_drain_request *r,
                             struct api_drain_reply *reply);
/* Through central. */
HAWK_MUST_USE int hawk_stop(struct hawk *h, const struct api_stop_request *r, struct api_stop_reply *reply);
/* A node by its address, from hawk_list_nodes: where central is not there to tell it. */
HAWK_MUST_USE int hawk_stop_node(struct hawk *h, const char *addr, bool now);

/* Which jobs to list. */
struct hawk_job_query {
    uint32_t limit;          /* at most so many; 0: all */
    uint32_t states;         /* 1 << enum job_state, several; 0: any */
    const char *name, *user; /* NULL: any */
};
/* The jobs of every dist, newest first. A dist that does not answer is left out: hawk_warning() names it. */
HAWK_MUST_USE int hawk_list_jobs(struct hawk *h, const struct hawk_job_query *q,
                                 struct api_list_jobs_reply *reply);

/* Called for every event of a watched job; `event` is borrowed. A return other than 0 ends the watching, and
 * hawk_watch returns it. */
typedef int hawk_watch_fn(void *ctx, const struct api_event *event);
enum hawk_watch_what {
    HAWK_WATCH_JOBS,
    HAWK_WATCH_TASKS,   /* tasks too, as they change */
    HAWK_WATCH_RESULTS, /* tasks as they end, with what they returned */
};
/* Follows n jobs at once until each has a final state (0), and with HAWK_WATCH_RESULTS until everything was told. A stream that breaks is opened again for as long
 * as the timeout; a job that no dist knows (HAWK_ENOT_FOUND), or that cannot be watched for
 * another reason, is left out, and what the first such met is returned at the end. tick, when not NULL, is called
 * at least every 100 ms and may end it in the same way. */
HAWK_MUST_USE int hawk_watch(struct hawk *h, const job_id_t *jobs, uint32_t n, enum hawk_watch_what what,
                             hawk_watch_fn *on, int (*tick)(void *ctx), void *ctx);

/* Called for every piece of output, in order. Other than 0 ends it. */
typedef int hawk_output_fn(void *ctx, const struct api_output_chunk *chunk);
/* Reads a task's output from `worker` (from hawk_get_job). */
HAWK_MUST_USE int hawk_read_output(struct hawk *h, node_id_t worker, const struct api_read_output_request *r,
                                   hawk_output_fn *on, void *ctx);

#endif
