/* The inside of client.h: a client's connections, and finding the node that answers a call. */
#ifndef HAWK_LIBHAWK_CLIENT_IMPL_H
#define HAWK_LIBHAWK_CLIENT_IMPL_H

#include "base/clock.h"
#include "base/rng.h"
#include "libhawk/client.h"
#include "libhawk/movable_job.h"
#include "net/loop.h"
#include "net/rpc.h"

#include <unistd.h>
#include <uthash.h>

/* A dist that has not answered a submission for this long is left for another one, if there is one. */
#define SUBMIT_TRY_US (3 * US_PER_S)

/* A job that this client submitted and waits for, and where it is. */
struct client_job {
    struct movable_job *movable;
    job_id_t id;
    struct channel *at;
    UT_hash_handle hh;
};

struct client {
    struct loop *loop;
    char *token;
    struct tls *tls;           /* NULL: none */
    struct channel **channels; /* the first `contacts` of them are the contacts */
    uint32_t channels_n, channels_cap;
    uint32_t contacts, current; /* current: the contact that answered last */
    struct api_list_nodes_reply nodes;
    struct channel *nodes_from; /* who listed them */
    int64_t nodes_at_us;        /* when; -1: not yet */
    int64_t timeout_us;
    bool local_up;           /* it was found as the local `hawk up` */
    bool at_central;         /* the contact is central: client_use_central */
    struct client_job *jobs; /* by id */
    bool cut;                /* the last failed call lost its connection, or it was closed as it was made */
    bool untouched;          /* the last failed call reached no handler, or was refused: it changed nothing */
    bool doubt;              /* a call since this was cleared got no answer, and may have changed something */
    struct rng rng;          /* of delays */
    char error[600], warning[600];
};

/* So that programs which lost the same peer do not all come back at once. */
static inline void client_seed(struct rng *r)
{
    rng_seed(r, (uint64_t)clock_us(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40);
}

static inline void client_pause(struct client *client, int64_t us)
{
    for (int64_t until_us = loop_now(client->loop) + us; loop_now(client->loop) < until_us;)
        loop_once(client->loop, until_us);
}

/* Whether the node could not be asked. */
static inline bool client_is_away(int err) { return err == HAWK_EUNAVAILABLE || err == HAWK_ETIMEOUT; }

/* Keeps the text for client_error() and returns err. */
int client_fail(struct client *client, int err, const char *fmt, ...) HAWK_PRINTF(3, 4);
/* Sets client->token from that file, else as the environment says. It stays NULL if there is none. */
HAWK_MUST_USE int client_find_token(struct client *client, const char *path);
/* Sets client->tls from the files that the environment names; else, without a token, from those of the login
 * (net/login.h). It stays NULL if there are none. */
HAWK_MUST_USE int client_find_tls(struct client *client);
/* Sets client->tls from a directory of `hawk up --join-dir`, and dist (ADDR_TEXT bytes) to its dist's address. */
HAWK_MUST_USE int client_find_join_dir(struct client *client, const char *dir, char *dist);
/* Finds the addresses to contact, in the order that docs/reference/commands.md states; buf holds them if they must be
 * put together. *origin says where they are from. NULL: there is no cluster; client_no_contacts then says so. */
const char *client_find_contacts(const struct client_options *o, const char **origin, char *buf, size_t size);
bool client_origin_is_up(const char *origin); /* the local `hawk up` */
int client_no_contacts(struct client *client, const char *origin);
/* Keeps the error of a call to ch; sets client->cut, untouched and doubt. The error is HAWK_EUNAVAILABLE when the
 * node is going away in any way. */
int client_call_failed(struct client *client, const struct channel *ch, grpc_status_code status,
                       const char *text);
/* Whether a dist answered that another one accepted this job. */
bool client_asked_wrong_dist(grpc_status_code status);
struct channel *client_contact(struct client *client);
/* The i-th dist, other than `but`, that this client knows: those of ListNodes, in an order that begins
 * somewhere else for every `seed`, then the other contacts. NULL beyond the last. */
struct channel *client_other_dist(struct client *client, const struct channel *but, uint64_t seed,
                                  uint32_t i);
/* Asks for the list of nodes again, from any node that answers within `timeout_us`. A list that is a
 * second old will do. */
HAWK_MUST_USE int client_refresh_nodes(struct client *client, int64_t timeout_us);
/* Signs n jobs together, where the client has a user's credential (net/submission.h), before they are sent to a dist
 * that may make them other jobs: what is signed is for one. */
HAWK_MUST_USE int client_sign(struct client *client, struct job_desc *const *jobs, uint32_t n);
/* A job that this client submitted and waits for, or NULL. */
struct client_job *client_job_find(const struct client *client, job_id_t id);
/* Forgets a job that has ended. */
void client_job_forget(struct client *client, struct client_job *j);
/* Goes on with the next contact; false when there is only one. */
bool client_next_contact(struct client *client);
/* The channel to a node of ListNodes. HAWK_ENOT_FOUND: the cluster has no such node. A node without an
 * address of its own (inside `hawk up`) is reached through the contact. */
HAWK_MUST_USE int client_node_channel(struct client *client, enum role role, node_id_t node,
                                      struct channel **ch);
/* A unary call about a job, to the dist that has it, or to whoever else knows it. */
HAWK_MUST_USE int client_call_job(struct client *client, job_id_t job, enum api_method method,
                                  const void *request, void *reply);
/* No answer came from `at`, which may have taken the job: err. Asks it again until until_us if the job is detached:
 * under its key it takes it once, also where it was killed and is there again. Returns that answer, or err with the
 * doubt. */
HAWK_MUST_USE int client_submit_again(struct client *client, int err, struct channel *at,
                                      const struct api_submit_request *request,
                                      struct api_submit_reply *reply, int64_t until_us);
/* Submits a job with predecessors to their dist, *at. */
HAWK_MUST_USE int client_submit_after(struct client *client, const struct api_submit_request *request,
                                      struct api_submit_reply *reply, struct channel **at);
/* A unary call to ch, within the client's timeout; *status is what gRPC says of it. */
HAWK_MUST_USE int client_call(struct client *client, struct channel *ch, enum api_method method,
                              const void *request, void *reply, grpc_status_code *status);
/* A node of the list, which goes with the next list; NULL: it has none of that role and id. */
const struct api_node *client_find_node(const struct client *client, enum role role, node_id_t node);
/* The channel to a node of the list. */
struct channel *client_channel_of(struct client *client, const struct api_node *n);

#endif
