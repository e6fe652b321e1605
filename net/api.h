/* The messages of the public API (protos/hawk.proto) as plain structs, and their wire form.
 *
 * One table per message (net/api.c) drives encoding, decoding and freeing. Both sides use the same structs:
 *   - to encode, fill one with borrowed pointers; nothing is copied or freed;
 *   - what api_decode filled owns its strings and arrays: api_free releases them.
 * Strings are never NULL after decoding; NULL encodes as empty. Job ids travel as text, JOB_NONE as "". */
#ifndef HAWK_NET_API_H
#define HAWK_NET_API_H

#include "base/err.h"
#include "base/ids.h"
#include "msg/types.h"
#include "msg/view.h"
#include "net/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of pages. Those of the spec are in msg/types.h. */
#define API_PAGE_MAX 10000u    /* tasks, reservations or jobs in one reply */
#define API_JOBS_DEFAULT 1000u /* ListJobsRequest.limit = 0 */
/* In every refusal as UNAVAILABLE, or for want of a journal as INTERNAL, that is certain: the server did nothing, and
 * the client may ask another node. */
#define API_NOT_ACCEPTED_TEXT "was not accepted"
/* The text of dists of earlier versions that an operator had drained. */
#define API_DRAINING_TEXT "is draining: it takes no new jobs"
#define API_PAGE_BYTES                                                                                       \
    (2u                                                                                                      \
     << 20) /* results in one reply or event, but a single result may be larger: gRPC clients take twice that */
#define API_WATCHES_MAX 4000u       /* Watch calls of one connection at a time */
#define API_CHUNK_BYTES (64u << 10) /* of one OutputChunk */
/* The memory that one decoded message may take. It bounds what garbage can do. */
#define API_DECODED_MAX (256u << 20)
/* The elements of one list: empty ones take many times longer to read, and to act on, than to send. No longer list
 * exists: that of a job's tasks is the longest. */
#define API_ELEMENTS_MAX LIMIT_TASKS_PER_JOB

/* X(constant, method, request, reply, streaming): every call. Replies of a streaming call come one by one. */
#define API_METHODS(X)                                                                                       \
    X(API_SUBMIT, "Submit", submit_request, submit_reply, 0)                                                 \
    X(API_WATCH, "Watch", watch_request, event, 1)                                                           \
    X(API_CANCEL, "Cancel", cancel_request, cancel_reply, 0)                                                 \
    X(API_LIST_JOBS, "ListJobs", list_jobs_request, list_jobs_reply, 0)                                      \
    X(API_GET_JOB, "GetJob", get_job_request, get_job_reply, 0)                                              \
    X(API_LIST_NODES, "ListNodes", list_nodes_request, list_nodes_reply, 0)                                  \
    X(API_GET_STATS, "GetStats", get_stats_request, get_stats_reply, 0)                                      \
    X(API_GET_POLICY, "GetPolicy", get_policy_request, policy, 0)                                            \
    X(API_SET_POLICY, "SetPolicy", set_policy_request, policy, 0)                                            \
    X(API_DRAIN, "Drain", drain_request, drain_reply, 0)                                                     \
    X(API_STOP, "Stop", stop_request, stop_reply, 0)                                                         \
    X(API_READ_OUTPUT, "ReadOutput", read_output_request, output_chunk, 1)                                   \
    X(API_SESSION, "Session", session_request, session_event, 1)                                             \
    X(API_HOLD, "Hold", hold_request, hold_reply, 0)                                                         \
    X(API_RERUN, "Rerun", rerun_request, submit_reply, 0)                                                    \
    X(API_CANCEL_TASKS, "CancelTasks", cancel_tasks_request, cancel_reply, 0)

enum api_method {
#define X(constant, name, request, reply, streaming) constant,
    API_METHODS(X)
#undef X
        API_METHOD_COUNT
};

struct api_type; /* how one message is laid out; see api_decode */

struct api_method_info {
    const char *path; /* "/hawk.v1.Hawk/Submit" */
    const struct api_type *request, *reply;
    bool streaming;
};
extern const struct api_method_info api_methods[API_METHOD_COUNT];

/* ---- Messages, in the order of hawk.proto; comments there. An array is a pointer and <name>_n. ---- */

struct api_task {
    uint32_t task, state, outcome, attempt;
    int32_t code;
    uint32_t worker; /* node id */
    const char *worker_name;
    int64_t wait_us, run_us; /* -1: not yet */
    bool stolen;
    const char *message; /* why it was not started, or failed; "": not known */
    const uint8_t *result;
    uint32_t result_n;
    bool result_lost;
    uint32_t pauses, paused_for_task;
    int64_t paused_us, stood_us;
    bool paused;
    job_id_t paused_for; /* JOB_NONE: it never stood still */
    uint32_t failures;
    const uint8_t *input;
    uint32_t input_n;
    int64_t cpu_us, mem_peak_bytes; /* 0: not known */
};
struct api_resubmit {
    job_id_t job;
    uint32_t epoch, long_epoch, class, why;
    int64_t age_us;
    struct api_task *ended;
    uint32_t ended_n;
    uint64_t receipt;
    bool held;
};
struct api_submit_request {
    struct job_desc *job; /* one reference, checked (job_desc_check) when decoded; NULL: left out */
    uint64_t key;
    struct api_resubmit resubmit; /* its job is JOB_NONE: left out */
};
struct api_submit_reply {
    job_id_t job;
    uint32_t class, why, state;
    uint64_t receipt;
};

struct api_watch_request {
    job_id_t job;
    bool tasks, ended, beats, results;
    uint32_t epoch;
    uint64_t key;
};

struct api_job {
    job_id_t job;
    const char *name, *user;
    uint32_t state, class, why, tag; /* enums of msg/types.h; a newer peer's value shows as *_COUNT */
    bool at_central;
    uint32_t epoch;
    int64_t estimate_us, cutoff_us;
    uint32_t tasks, waiting, running, done, failed, cancelled, lost;
    int64_t age_us, response_us, first_start_us; /* -1: not yet */
    uint32_t probes_sent, probes_live, probes_cancelled, probes_unused, probes_lost, reservations_stolen;
    bool abandoned, by_client, no_executor, attended;
    uint32_t paused, pauses;
    int64_t paused_us;
    job_id_t cause;
    bool held;
    const char *waits;
    int64_t cpu_us, mem_peak_bytes; /* of all ended tasks together; of the one that used most; 0: not known */
};
struct api_reservation {
    uint32_t worker;
    const char *worker_name;
    uint32_t count;
};

struct api_event {
    struct api_job job;
    struct api_task *tasks;
    uint32_t tasks_n;
    int64_t beat_us;
};

#define API_SESSION_SUBMITS_MAX 10000u /* in one message */
struct api_session_submit {
    uint64_t tag;
    const uint8_t *job; /* a JobSpec, for codec_desc_decode: a wrong one concerns its job alone */
    uint32_t job_n;
    uint64_t key;
    struct api_resubmit resubmit;
};
struct api_session_cancel {
    uint64_t tag;
};
struct api_session_request {
    struct api_session_submit *submit;
    uint32_t submit_n;
    struct api_session_cancel *cancel;
    uint32_t cancel_n;
    bool beats;
};
struct api_session_job {
    uint64_t tag;
    job_id_t job;
    uint32_t class, why;
    bool at_central;
    uint32_t epoch;
    uint64_t receipt;
    bool held;
};
struct api_session_refused {
    uint64_t tag;
    uint32_t status;
    const char *error;
};
struct api_session_task {
    uint64_t tag;
    uint32_t task, state, outcome;
    int32_t code;
    uint32_t attempt, worker;
    int64_t wait_us, run_us;
    const char *message;
    const uint8_t *result;
    uint32_t result_n;
    bool result_lost;
    int64_t cpu_us, mem_peak_bytes; /* 0: not known */
};
struct api_session_end {
    uint64_t tag;
    uint32_t state;
    bool abandoned;
};
struct api_session_event {
    struct api_session_job *jobs;
    uint32_t jobs_n;
    struct api_session_refused *refused;
    uint32_t refused_n;
    struct api_session_task *tasks;
    uint32_t tasks_n;
    struct api_session_end *ends;
    uint32_t ends_n;
    int64_t beat_us;
};

struct api_cancel_request {
    job_id_t job;
};
struct api_cancel_reply {
    bool already_ended;
};

struct api_task_range {
    uint32_t first, last;
};
struct api_cancel_tasks_request {
    job_id_t job;
    struct api_task_range *tasks;
    uint32_t tasks_n;
};

struct api_hold_request {
    job_id_t job;
    bool release;
};
struct api_hold_reply {
    bool already_ended;
};
struct api_rerun_request {
    job_id_t job;
    bool failed;
    const uint8_t *signature;
    uint32_t signature_n;
    const char **after;
    uint32_t after_n;
    uint64_t key;
};

struct api_list_jobs_request {
    uint32_t limit;
    bool unfinished_only;
    job_id_t before;
};
struct api_list_jobs_reply {
    struct api_job *jobs;
    uint32_t jobs_n;
    bool more;
    const char *you;
};

struct api_get_job_request {
    job_id_t job;
    uint32_t first_task, max_tasks;
    bool spec, results, signature;
};
struct api_get_job_reply {
    struct api_job job;
    struct api_task *tasks;
    uint32_t tasks_n;
    struct api_reservation *reservations;
    uint32_t reservations_n;
    const struct job_desc *spec; /* without its tasks' arguments; NULL: not asked for */
    const char *blocked;
    const uint8_t *signature;
    uint32_t signature_n;
};

struct api_list_nodes_request {
    bool lost;
};
struct api_node {
    uint32_t node;
    const char *name, *role, *address, *state;
    uint32_t slots;
    bool general, unsettled;
    uint32_t queued, running_short, running_long, paused, jobs_unfinished;
    int64_t heartbeat_age_us, long_wait_us;
    bool drained, until_restart;
    const char *out_why;
    const char *freezer, *freezer_text;
    uint32_t protocol;
    const char **apps;
    uint32_t apps_n;
    const char **app_users; /* as many as there are apps */
    uint32_t app_users_n;
    const char *serves;
    int64_t ends_in_us;
};
struct api_list_nodes_reply {
    struct api_node *nodes;
    uint32_t nodes_n;
    bool embedded; /* `hawk up` */
    uint32_t self; /* id of the node that answers; 0: central, or not joined yet */
    int64_t settles_in_us;
};

struct api_drain_request {
    const char **nodes;
    uint32_t nodes_n;
    bool undrain, until_restart;
};
struct api_drain_reply {
    struct api_node *nodes;
    uint32_t nodes_n;
};
struct api_stop_request {
    const char **nodes;
    uint32_t nodes_n;
    bool now;
};
struct api_stop_reply {
    struct api_node *nodes;
    uint32_t nodes_n;
    const char **failed;
    uint32_t failed_n;
};

struct api_get_stats_request {
    char unused;
};
struct api_counter {
    const char *name;
    uint64_t value;
};
struct api_node_stats {
    uint32_t node;
    const char *name, *role;
    struct api_counter *counters;
    uint32_t counters_n;
};
struct api_get_stats_reply {
    struct api_node_stats *nodes;
    uint32_t nodes_n;
    struct api_counter *total;
    uint32_t total_n;
    uint32_t long_jobs_unfinished, long_tasks_unfinished;
    int64_t cutoff_us;
    bool cutoff_computed;
    uint32_t short_share_ppm;
    bool share_computed;
    uint32_t history_jobs;
    const char *short_partition_note, *cutoff_from, *share_from, *cutoff_note, *share_note;
};

struct api_get_policy_request {
    char unused;
};
struct api_policy_origin {
    const char *key, *from;
};
struct api_policy {
    uint32_t version;
    const char *name, *base;
    int64_t cutoff_us;
    uint32_t short_share_ppm, probe_ratio_milli, min_probes, steal_cap, steal_max, short_first;
    const char **flags;
    uint32_t flags_n;
    struct api_policy_origin *origins;
    uint32_t origins_n;
    bool has_set_ago_us, configured_anew;
    int64_t set_ago_us;
};
struct api_set_policy_request {
    const char *preset;
    bool reset, has_cutoff_us, has_short_share_ppm, has_probe_ratio_milli, has_steal_cap, has_min_probes,
        has_steal_max, has_short_first;
    int64_t cutoff_us;
    uint32_t short_share_ppm, probe_ratio_milli, steal_cap, min_probes, steal_max, short_first;
    const char **on, **off;
    uint32_t on_n, off_n;
};

struct api_read_output_request {
    job_id_t job;
    uint32_t task, attempt;
    bool stderr; /* not stdout */
    bool follow;
    uint64_t offset;
    bool by_index;
};
struct api_output_chunk {
    const uint8_t *data;
    uint32_t data_n;
    const char *path;
    bool cut_short;
};

struct api_join_request {
    const char *invitation, *name;
    const uint8_t *request;
    uint32_t request_n;
};
struct api_renew_request {
    const uint8_t *request;
    uint32_t request_n;
};
struct api_join_reply {
    const char *certificate;
};
#define API_JOIN_METHOD "/hawk.v1.Nodes/Join"
#define API_RENEW_METHOD "/hawk.v1.Nodes/Renew"

/* ---- Wire form ---- */

/* X(name, Message): api_name_type describes struct api_name. The struct's members have the names and types
 * of Message's fields in hawk.proto (net/api.c checks that). */
/* clang-format off */
#define API_MESSAGES(X)                                                                                      \
    X(resubmit, Resubmit) X(submit_request, SubmitRequest) X(submit_reply, SubmitReply) \
    X(watch_request, WatchRequest) X(job, Job) X(task, Task) X(reservation, Reservation) X(event, Event) \
    X(cancel_request, CancelRequest) X(cancel_reply, CancelReply) X(hold_request, HoldRequest) \
    X(hold_reply, HoldReply) X(rerun_request, RerunRequest) X(list_jobs_request, ListJobsRequest) \
    X(list_jobs_reply, ListJobsReply) X(get_job_request, GetJobRequest) X(get_job_reply, GetJobReply) \
    X(list_nodes_request, ListNodesRequest) X(node, Node) X(list_nodes_reply, ListNodesReply) \
    X(drain_request, DrainRequest) X(drain_reply, DrainReply) X(stop_request, StopRequest) \
    X(stop_reply, StopReply) X(get_stats_request, GetStatsRequest) X(counter, Counter) \
    X(node_stats, NodeStats) X(get_stats_reply, GetStatsReply) X(get_policy_request, GetPolicyRequest) \
    X(policy, Policy) X(policy_origin, PolicyOrigin) X(set_policy_request, SetPolicyRequest) \
    X(read_output_request, ReadOutputRequest) X(output_chunk, OutputChunk) \
    X(session_submit, SessionSubmit) X(session_cancel, SessionCancel) X(session_request, SessionRequest) \
    X(session_job, SessionJob) X(session_refused, SessionRefused) X(session_task, SessionTask) \
    X(session_end, SessionEnd) X(session_event, SessionEvent) \
    X(join_request, JoinRequest) X(renew_request, RenewRequest) X(join_reply, JoinReply) \
    X(task_range, TaskRange) X(cancel_tasks_request, CancelTasksRequest)
/* clang-format on */
#define X(name, Message) extern const struct api_type api_##name##_type;
API_MESSAGES(X)
#undef X

/* Encodes a message into a new malloc'ed buffer (*data, *len), which is never NULL, even when empty. */
void api_encode(const struct api_type *type, const void *msg, uint8_t **data, size_t *len);

/* Appends the encoded message to o. Two messages of one type, one after the other, read as one message,
 * whose lists are those of the first followed by those of the second. So a message can be made piece by
 * piece. */
void api_append(struct codec_buf *o, const struct api_type *type, const void *msg);

/* Fills *msg, whatever it held. On an error *msg is empty (api_free is harmless) and why (size bytes)
 * names the field. HAWK_EMALFORMED; HAWK_ETOO_LARGE beyond API_DECODED_MAX and
 * API_ELEMENTS_MAX; HAWK_EINVALID for a text that is no job id. Unknown fields are skipped. */
HAWK_MUST_USE int api_decode(const struct api_type *type, const void *data, size_t len, void *msg, char *why,
                             size_t size);
/* Frees what api_decode allocated and zeroes *msg. */
void api_free(const struct api_type *type, void *msg);

/* ---- From a role's views: strings are borrowed from the view's description and from the caller. ---- */

void api_job_from_view(struct api_job *to, const struct job_view *v);
/* The part of a description that everybody may see, borrowed from it: without what may be large or secret,
 * or is the tasks' alone. */
struct job_desc api_public_spec(const struct job_desc *d);
/* Without its result. */
void api_task_from_view(struct api_task *to, const struct task_view *v, const char *worker_name);
/* The same as a client's word of how a task ended elsewhere. A number too large for its field becomes one that
 * resubmit_check() refuses as well. */
struct resubmit_task api_task_ended(const struct api_task *t);
/* Every counter with its name; `to` has COUNTER_COUNT elements. */
void api_counters_fill(struct api_counter *to, const uint64_t values[COUNTER_COUNT]);
/* Describes p, with its flags as names: `flags` has 32 elements and must live as long as *to. */
void api_policy_from(struct api_policy *to, const struct policy *p, const char *name, const char **flags);
/* Makes the choice of a request: preset first (which has no cutoff and no share of its own), then numbers,
 * then flags. HAWK_EINVALID: why says what is wrong, and *out is not set. */
HAWK_MUST_USE int api_policy_choice(struct policy_choice **out, const struct api_set_policy_request *r,
                                    char *why, size_t size);
bool api_policy_is_on(const struct api_policy *p, const char *flag);
/* Where the number or flag comes from; "" when the policy does not say. */
const char *api_policy_origin(const struct api_policy *p, const char *key);
/* Writes one line: the policy in force, and what of it an operator set. The text is terminated. */
void api_policy_line(const struct api_policy *p, char *buf, size_t size);

#endif
