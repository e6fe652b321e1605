/* The public API's messages: one table per message, and one encoder, decoder and destructor for all of them.
 *
 * nanopb's generated structs are not used: its lengths and counts are 16 bits wide in the packaged library
 * (an output chunk or a list of nodes may be longer), and every message would be converted twice. What is
 * used are its field numbers, generated from hawk.proto. */
#include "net/api.h"

#include "base/check.h"
#include "base/mem.h"
#include "hawk.pb.h"
#include "net/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

enum field_kind {
    FIELD_BOOL,
    FIELD_U32,
    FIELD_I32,
    FIELD_U64,
    FIELD_I64,
    FIELD_ENUM,   /* uint32_t; a value of `max` or more becomes `max` */
    FIELD_JOB_ID, /* job_id_t, text on the wire */
    FIELD_STRING, /* const char * */
    FIELD_BYTES,  /* const uint8_t * and a count */
    FIELD_DESC,   /* struct job_desc * as a whole JobSpec */
    FIELD_SPEC,   /* the same without task_args */
    FIELD_MESSAGE,
    FIELD_STRINGS, /* const char ** and a count */
    FIELD_MESSAGES,
};

struct api_field {
    const char *name;
    const struct api_type *type; /* of a message */
    uint32_t tag;
    uint32_t max;    /* enums */
    uint16_t offset; /* of the value */
    uint16_t extra;  /* of an array's uint32_t count or of an optional field's bool; 0: neither */
    uint8_t kind;
};

struct api_type {
    const char *name;
    const struct api_field *fields;
    uint32_t n;
    uint32_t size;
};

/* M: message in hawk.proto; s: struct without api_; f: field in both. */
#define FIELD(M, s, f, kind_) FIELD_AS(M, s, f, f, kind_)
#define FIELD_AS(M, s, f, member, kind_)                                                                     \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, member),              \
        .kind = FIELD_##kind_                                                                                \
    }
#define ENUM(M, s, f, count)                                                                                 \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, f),                   \
        .kind = FIELD_ENUM, .max = (count)                                                                   \
    }
#define OPTIONAL(M, s, f, kind_)                                                                             \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, f),                   \
        .extra = offsetof(struct api_##s, has_##f), .kind = FIELD_##kind_                                    \
    }
#define ARRAY(M, s, f, kind_)                                                                                \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, f),                   \
        .extra = offsetof(struct api_##s, f##_n), .kind = FIELD_##kind_                                      \
    }
#define MESSAGE(M, s, f, of)                                                                                 \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, f),                   \
        .kind = FIELD_MESSAGE, .type = &api_##of##_type                                                      \
    }
#define MESSAGES(M, s, f, of)                                                                                \
    {                                                                                                        \
        .name = #f, .tag = hawk_v1_##M##_##f##_tag, .offset = offsetof(struct api_##s, f),                   \
        .extra = offsetof(struct api_##s, f##_n), .kind = FIELD_MESSAGES, .type = &api_##of##_type           \
    }

#define TYPE(s, M)                                                                                           \
    const struct api_type api_##s##_type = {.name = #M,                                                      \
                                            .fields = s##_fields,                                            \
                                            .n = sizeof s##_fields / sizeof s##_fields[0],                   \
                                            .size = sizeof(struct api_##s)}
/* The place where fields would be: C forbids to add even 0 to NULL. */
static const struct api_field no_fields[1];
#define EMPTY_TYPE(s, M)                                                                                     \
    const struct api_type api_##s##_type = {.name = #M, .fields = no_fields, .size = sizeof(struct api_##s)}

/* clang-format off */
static const struct api_field task_fields[] = {
    FIELD(Task, task, task, U32),
    ENUM(Task, task, state, TASK_STATE_COUNT),
    ENUM(Task, task, outcome, OUTCOME_COUNT),
    FIELD(Task, task, code, I32),
    FIELD(Task, task, attempt, U32),
    FIELD(Task, task, worker, U32),
    FIELD(Task, task, worker_name, STRING),
    FIELD(Task, task, wait_us, I64),
    FIELD(Task, task, run_us, I64),
    FIELD(Task, task, stolen, BOOL),
    FIELD(Task, task, message, STRING),
    ARRAY(Task, task, result, BYTES),
    FIELD(Task, task, result_lost, BOOL),
};
TYPE(task, Task);

static const struct api_field resubmit_fields[] = {
    FIELD(Resubmit, resubmit, job, JOB_ID),
    FIELD(Resubmit, resubmit, epoch, U32),
    FIELD(Resubmit, resubmit, long_epoch, U32),
    ENUM(Resubmit, resubmit, class, CLASS_COUNT),
    ENUM(Resubmit, resubmit, why, WHY_COUNT),
    FIELD(Resubmit, resubmit, age_us, I64),
    MESSAGES(Resubmit, resubmit, ended, task),
};
TYPE(resubmit, Resubmit);

static const struct api_field submit_request_fields[] = {
    FIELD(SubmitRequest, submit_request, job, DESC),
    FIELD(SubmitRequest, submit_request, key, U64),
    MESSAGE(SubmitRequest, submit_request, resubmit, resubmit),
};
TYPE(submit_request, SubmitRequest);

static const struct api_field submit_reply_fields[] = {
    FIELD(SubmitReply, submit_reply, job, JOB_ID),
    ENUM(SubmitReply, submit_reply, class, CLASS_COUNT),
    ENUM(SubmitReply, submit_reply, why, WHY_COUNT),
    ENUM(SubmitReply, submit_reply, state, JOB_STATE_COUNT),
};
TYPE(submit_reply, SubmitReply);

static const struct api_field watch_request_fields[] = {
    FIELD(WatchRequest, watch_request, job, JOB_ID),
    FIELD(WatchRequest, watch_request, tasks, BOOL),
    FIELD(WatchRequest, watch_request, ended, BOOL),
    FIELD(WatchRequest, watch_request, beats, BOOL),
    FIELD(WatchRequest, watch_request, results, BOOL),
};
TYPE(watch_request, WatchRequest);

static const struct api_field job_fields[] = {
    FIELD(Job, job, job, JOB_ID),
    FIELD(Job, job, name, STRING),
    ENUM(Job, job, state, JOB_STATE_COUNT),
    ENUM(Job, job, class, CLASS_COUNT),
    ENUM(Job, job, why, WHY_COUNT),
    ENUM(Job, job, tag, TAG_COUNT),
    FIELD(Job, job, estimate_us, I64),
    FIELD(Job, job, cutoff_us, I64),
    FIELD(Job, job, at_central, BOOL),
    FIELD(Job, job, epoch, U32),
    FIELD(Job, job, tasks, U32),
    FIELD(Job, job, waiting, U32),
    FIELD(Job, job, running, U32),
    FIELD(Job, job, done, U32),
    FIELD(Job, job, failed, U32),
    FIELD(Job, job, cancelled, U32),
    FIELD(Job, job, lost, U32),
    FIELD(Job, job, age_us, I64),
    FIELD(Job, job, response_us, I64),
    FIELD(Job, job, first_start_us, I64),
    FIELD(Job, job, probes_sent, U32),
    FIELD(Job, job, probes_live, U32),
    FIELD(Job, job, probes_cancelled, U32),
    FIELD(Job, job, probes_unused, U32),
    FIELD(Job, job, probes_lost, U32),
    FIELD(Job, job, reservations_stolen, U32),
    FIELD(Job, job, user, STRING),
    FIELD(Job, job, abandoned, BOOL),
    FIELD(Job, job, no_executor, BOOL),
    FIELD(Job, job, attended, BOOL),
};
TYPE(job, Job);

static const struct api_field reservation_fields[] = {
    FIELD(Reservation, reservation, worker, U32),
    FIELD(Reservation, reservation, worker_name, STRING),
    FIELD(Reservation, reservation, count, U32),
};
TYPE(reservation, Reservation);

static const struct api_field event_fields[] = {
    MESSAGE(Event, event, job, job),
    MESSAGES(Event, event, tasks, task),
    FIELD(Event, event, beat_us, I64),
};
TYPE(event, Event);

static const struct api_field session_submit_fields[] = {
    FIELD(SessionSubmit, session_submit, tag, U64),
    ARRAY(SessionSubmit, session_submit, job, BYTES),
    FIELD(SessionSubmit, session_submit, key, U64),
    MESSAGE(SessionSubmit, session_submit, resubmit, resubmit),
};
TYPE(session_submit, SessionSubmit);

static const struct api_field session_cancel_fields[] = {
    FIELD(SessionCancel, session_cancel, tag, U64),
};
TYPE(session_cancel, SessionCancel);

static const struct api_field session_request_fields[] = {
    MESSAGES(SessionRequest, session_request, submit, session_submit),
    MESSAGES(SessionRequest, session_request, cancel, session_cancel),
    FIELD(SessionRequest, session_request, beats, BOOL),
};
TYPE(session_request, SessionRequest);

static const struct api_field session_job_fields[] = {
    FIELD(SessionJob, session_job, tag, U64),
    FIELD(SessionJob, session_job, job, JOB_ID),
    ENUM(SessionJob, session_job, class, CLASS_COUNT),
    ENUM(SessionJob, session_job, why, WHY_COUNT),
    FIELD(SessionJob, session_job, at_central, BOOL),
    FIELD(SessionJob, session_job, epoch, U32),
};
TYPE(session_job, SessionJob);

static const struct api_field session_refused_fields[] = {
    FIELD(SessionRefused, session_refused, tag, U64),
    FIELD(SessionRefused, session_refused, status, U32),
    FIELD(SessionRefused, session_refused, error, STRING),
};
TYPE(session_refused, SessionRefused);

static const struct api_field session_task_fields[] = {
    FIELD(SessionTask, session_task, tag, U64),
    FIELD(SessionTask, session_task, task, U32),
    ENUM(SessionTask, session_task, state, TASK_STATE_COUNT),
    ENUM(SessionTask, session_task, outcome, OUTCOME_COUNT),
    FIELD(SessionTask, session_task, code, I32),
    FIELD(SessionTask, session_task, attempt, U32),
    FIELD(SessionTask, session_task, worker, U32),
    FIELD(SessionTask, session_task, wait_us, I64),
    FIELD(SessionTask, session_task, run_us, I64),
    FIELD(SessionTask, session_task, message, STRING),
    ARRAY(SessionTask, session_task, result, BYTES),
    FIELD(SessionTask, session_task, result_lost, BOOL),
};
TYPE(session_task, SessionTask);

static const struct api_field session_end_fields[] = {
    FIELD(SessionEnd, session_end, tag, U64),
    ENUM(SessionEnd, session_end, state, JOB_STATE_COUNT),
    FIELD(SessionEnd, session_end, abandoned, BOOL),
};
TYPE(session_end, SessionEnd);

static const struct api_field session_event_fields[] = {
    MESSAGES(SessionEvent, session_event, jobs, session_job),
    MESSAGES(SessionEvent, session_event, refused, session_refused),
    MESSAGES(SessionEvent, session_event, tasks, session_task),
    MESSAGES(SessionEvent, session_event, ends, session_end),
    FIELD(SessionEvent, session_event, beat_us, I64),
};
TYPE(session_event, SessionEvent);

static const struct api_field cancel_request_fields[] = {
    FIELD(CancelRequest, cancel_request, job, JOB_ID),
};
TYPE(cancel_request, CancelRequest);

static const struct api_field cancel_reply_fields[] = {
    FIELD(CancelReply, cancel_reply, already_ended, BOOL),
};
TYPE(cancel_reply, CancelReply);

static const struct api_field list_jobs_request_fields[] = {
    FIELD(ListJobsRequest, list_jobs_request, limit, U32),
    FIELD(ListJobsRequest, list_jobs_request, unfinished_only, BOOL),
    FIELD(ListJobsRequest, list_jobs_request, before, JOB_ID),
};
TYPE(list_jobs_request, ListJobsRequest);

static const struct api_field list_jobs_reply_fields[] = {
    MESSAGES(ListJobsReply, list_jobs_reply, jobs, job),
    FIELD(ListJobsReply, list_jobs_reply, more, BOOL),
};
TYPE(list_jobs_reply, ListJobsReply);

static const struct api_field get_job_request_fields[] = {
    FIELD(GetJobRequest, get_job_request, job, JOB_ID),
    FIELD(GetJobRequest, get_job_request, first_task, U32),
    FIELD(GetJobRequest, get_job_request, max_tasks, U32),
    FIELD(GetJobRequest, get_job_request, spec, BOOL),
    FIELD(GetJobRequest, get_job_request, results, BOOL),
};
TYPE(get_job_request, GetJobRequest);

static const struct api_field get_job_reply_fields[] = {
    MESSAGE(GetJobReply, get_job_reply, job, job),
    MESSAGES(GetJobReply, get_job_reply, tasks, task),
    MESSAGES(GetJobReply, get_job_reply, reservations, reservation),
    FIELD(GetJobReply, get_job_reply, spec, SPEC),
    FIELD(GetJobReply, get_job_reply, blocked, STRING),
};
TYPE(get_job_reply, GetJobReply);

EMPTY_TYPE(list_nodes_request, ListNodesRequest);

static const struct api_field node_fields[] = {
    FIELD(Node, node, node, U32),
    FIELD(Node, node, name, STRING),
    FIELD(Node, node, role, STRING),
    FIELD(Node, node, address, STRING),
    FIELD(Node, node, state, STRING),
    FIELD(Node, node, slots, U32),
    FIELD(Node, node, general, BOOL),
    FIELD(Node, node, unsettled, BOOL),
    FIELD(Node, node, queued, U32),
    FIELD(Node, node, running_short, U32),
    FIELD(Node, node, running_long, U32),
    FIELD(Node, node, jobs_unfinished, U32),
    FIELD(Node, node, heartbeat_age_us, I64),
    FIELD(Node, node, long_wait_us, I64),
    FIELD(Node, node, drained, BOOL),
    FIELD(Node, node, until_restart, BOOL),
    FIELD(Node, node, protocol, U32),
    FIELD(Node, node, out_why, STRING),
    ARRAY(Node, node, apps, STRINGS),
};
TYPE(node, Node);

static const struct api_field list_nodes_reply_fields[] = {
    MESSAGES(ListNodesReply, list_nodes_reply, nodes, node),
    FIELD(ListNodesReply, list_nodes_reply, self, U32),
    FIELD(ListNodesReply, list_nodes_reply, embedded, BOOL),
};
TYPE(list_nodes_reply, ListNodesReply);

static const struct api_field drain_request_fields[] = {
    ARRAY(DrainRequest, drain_request, nodes, STRINGS),
    FIELD(DrainRequest, drain_request, undrain, BOOL),
    FIELD(DrainRequest, drain_request, until_restart, BOOL),
};
TYPE(drain_request, DrainRequest);

static const struct api_field drain_reply_fields[] = {
    MESSAGES(DrainReply, drain_reply, nodes, node),
};
TYPE(drain_reply, DrainReply);

static const struct api_field stop_request_fields[] = {
    ARRAY(StopRequest, stop_request, nodes, STRINGS),
    FIELD(StopRequest, stop_request, now, BOOL),
};
TYPE(stop_request, StopRequest);

static const struct api_field stop_reply_fields[] = {
    MESSAGES(StopReply, stop_reply, nodes, node),
    ARRAY(StopReply, stop_reply, failed, STRINGS),
};
TYPE(stop_reply, StopReply);

EMPTY_TYPE(get_stats_request, GetStatsRequest);

static const struct api_field counter_fields[] = {
    FIELD(Counter, counter, name, STRING),
    FIELD(Counter, counter, value, U64),
};
TYPE(counter, Counter);

static const struct api_field node_stats_fields[] = {
    FIELD(NodeStats, node_stats, node, U32),
    FIELD(NodeStats, node_stats, name, STRING),
    FIELD(NodeStats, node_stats, role, STRING),
    MESSAGES(NodeStats, node_stats, counters, counter),
};
TYPE(node_stats, NodeStats);

static const struct api_field get_stats_reply_fields[] = {
    MESSAGES(GetStatsReply, get_stats_reply, nodes, node_stats),
    MESSAGES(GetStatsReply, get_stats_reply, total, counter),
    FIELD(GetStatsReply, get_stats_reply, long_jobs_unfinished, U32),
    FIELD(GetStatsReply, get_stats_reply, long_tasks_unfinished, U32),
    FIELD(GetStatsReply, get_stats_reply, cutoff_us, I64),
    FIELD(GetStatsReply, get_stats_reply, cutoff_computed, BOOL),
    FIELD(GetStatsReply, get_stats_reply, short_share_ppm, U32),
    FIELD(GetStatsReply, get_stats_reply, share_computed, BOOL),
    FIELD(GetStatsReply, get_stats_reply, history_jobs, U32),
    FIELD(GetStatsReply, get_stats_reply, short_partition_note, STRING),
    FIELD(GetStatsReply, get_stats_reply, cutoff_from, STRING),
    FIELD(GetStatsReply, get_stats_reply, share_from, STRING),
};
TYPE(get_stats_reply, GetStatsReply);

EMPTY_TYPE(get_policy_request, GetPolicyRequest);

static const struct api_field policy_origin_fields[] = {
    FIELD(PolicyOrigin, policy_origin, key, STRING),
    FIELD(PolicyOrigin, policy_origin, from, STRING),
};
TYPE(policy_origin, PolicyOrigin);

static const struct api_field policy_fields[] = {
    FIELD(Policy, policy, version, U32),
    FIELD(Policy, policy, name, STRING),
    FIELD(Policy, policy, cutoff_us, I64),
    FIELD(Policy, policy, short_share_ppm, U32),
    FIELD(Policy, policy, probe_ratio_milli, U32),
    FIELD(Policy, policy, min_probes, U32),
    FIELD(Policy, policy, steal_cap, U32),
    FIELD(Policy, policy, steal_max, U32),
    ARRAY(Policy, policy, flags, STRINGS),
    FIELD(Policy, policy, short_first, U32),
    FIELD(Policy, policy, base, STRING),
    MESSAGES(Policy, policy, origins, policy_origin),
    OPTIONAL(Policy, policy, set_ago_us, I64),
    FIELD(Policy, policy, configured_anew, BOOL),
};
TYPE(policy, Policy);

static const struct api_field set_policy_request_fields[] = {
    FIELD(SetPolicyRequest, set_policy_request, preset, STRING),
    OPTIONAL(SetPolicyRequest, set_policy_request, cutoff_us, I64),
    OPTIONAL(SetPolicyRequest, set_policy_request, short_share_ppm, U32),
    OPTIONAL(SetPolicyRequest, set_policy_request, probe_ratio_milli, U32),
    OPTIONAL(SetPolicyRequest, set_policy_request, steal_cap, U32),
    ARRAY(SetPolicyRequest, set_policy_request, on, STRINGS),
    ARRAY(SetPolicyRequest, set_policy_request, off, STRINGS),
    OPTIONAL(SetPolicyRequest, set_policy_request, min_probes, U32),
    OPTIONAL(SetPolicyRequest, set_policy_request, steal_max, U32),
    OPTIONAL(SetPolicyRequest, set_policy_request, short_first, U32),
    FIELD(SetPolicyRequest, set_policy_request, reset, BOOL),
};
TYPE(set_policy_request, SetPolicyRequest);

static const struct api_field read_output_request_fields[] = {
    FIELD(ReadOutputRequest, read_output_request, job, JOB_ID),
    FIELD(ReadOutputRequest, read_output_request, task, U32),
    FIELD(ReadOutputRequest, read_output_request, attempt, U32),
    FIELD_AS(ReadOutputRequest, read_output_request, stderr, from_stderr, BOOL),
    FIELD(ReadOutputRequest, read_output_request, follow, BOOL),
    FIELD(ReadOutputRequest, read_output_request, offset, U64),
};
TYPE(read_output_request, ReadOutputRequest);

static const struct api_field output_chunk_fields[] = {
    ARRAY(OutputChunk, output_chunk, data, BYTES),
    FIELD(OutputChunk, output_chunk, path, STRING),
    FIELD(OutputChunk, output_chunk, cut_short, BOOL),
};
TYPE(output_chunk, OutputChunk);
/* clang-format on */

const struct api_method_info api_methods[API_METHOD_COUNT] = {
#define X(constant, name, request_, reply_, streaming_)                                                      \
    [constant] = {.path = "/hawk.v1.Hawk/" name,                                                             \
                  .request = &api_##request_##_type,                                                         \
                  .reply = &api_##reply_##_type,                                                             \
                  .streaming = (streaming_)},
    API_METHODS(X)
#undef X
};

/* Typed access to a field's place in a struct. */
#define AT(T, msg, where) (*(T *)((char *)(msg) + (where)))
#define AT_CONST(T, msg, where) (*(T const *)((const char *)(msg) + (where)))

/* ---- Encoding ---- */

static void encode_fields(struct codec_buf *b, const struct api_type *type, const void *msg);

static void put_message(struct codec_buf *b, uint32_t tag, const struct api_type *type, const void *msg)
{
    size_t start = wire_begin(b, tag);
    encode_fields(b, type, msg);
    wire_end(b, start);
}

static void put_desc(struct codec_buf *b, const struct api_field *f, const struct job_desc *desc)
{
    if (!desc)
        return;
    size_t start = wire_begin(b, f->tag);
    codec_desc_encode(b, desc, f->kind == FIELD_DESC);
    wire_end(b, start);
}

static void encode_array(struct codec_buf *b, const struct api_field *f, const void *msg)
{
    uint32_t n = AT_CONST(uint32_t, msg, f->extra);
    if (f->kind == FIELD_BYTES && n)
        wire_put_bytes(b, f->tag, AT_CONST(const uint8_t *, msg, f->offset), n);
    if (f->kind == FIELD_STRINGS) {
        const char *const *v = AT_CONST(const char **, msg, f->offset);
        for (uint32_t i = 0; i < n; i++)
            wire_put_text(b, f->tag, v[i], strlen(v[i]));
    }
    if (f->kind == FIELD_MESSAGES) {
        const char *v = AT_CONST(const char *, msg, f->offset);
        for (uint32_t i = 0; i < n; i++)
            put_message(b, f->tag, f->type, v + (size_t)i * f->type->size);
    }
}

static void put_number(struct codec_buf *b, uint32_t tag, uint64_t v)
{
    wire_put_tag(b, PB_WT_VARINT, tag);
    wire_put_varint(b, v);
}

static void put_scalar(struct codec_buf *b, const struct api_field *f, const void *msg)
{
    uint64_t v = 0;
    if (f->kind == FIELD_BOOL)
        v = AT_CONST(bool, msg, f->offset);
    else if (f->kind == FIELD_U32 || f->kind == FIELD_ENUM)
        v = AT_CONST(uint32_t, msg, f->offset);
    else if (f->kind == FIELD_I32)
        v = (uint64_t)(int64_t)AT_CONST(int32_t, msg, f->offset);
    else
        v = AT_CONST(uint64_t, msg, f->offset);
    bool present = f->extra ? AT_CONST(bool, msg, f->extra) : v != 0;
    if (present)
        put_number(b, f->tag, v);
}

static void encode_fields(struct codec_buf *b, const struct api_type *type, const void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++) {
        switch ((enum field_kind)f->kind) {
        case FIELD_BOOL:
        case FIELD_U32:
        case FIELD_I32:
        case FIELD_U64:
        case FIELD_I64:
        case FIELD_ENUM:
            put_scalar(b, f, msg);
            break;
        case FIELD_JOB_ID: {
            char text[JOB_ID_TEXT];
            job_id_t id = AT_CONST(job_id_t, msg, f->offset);
            if (!job_eq(id, JOB_NONE)) {
                job_id_format(text, id);
                wire_put_bytes(b, f->tag, text, strlen(text));
            }
            break;
        }
        case FIELD_STRING: {
            const char *text = AT_CONST(const char *, msg, f->offset);
            if (text && *text)
                wire_put_text(b, f->tag, text, strlen(text));
            break;
        }
        case FIELD_DESC:
        case FIELD_SPEC:
            put_desc(b, f, AT_CONST(struct job_desc *, msg, f->offset));
            break;
        case FIELD_MESSAGE:
            put_message(b, f->tag, f->type, (const char *)msg + f->offset);
            break;
        case FIELD_BYTES:
        case FIELD_STRINGS:
        case FIELD_MESSAGES:
            encode_array(b, f, msg);
            break;
        }
    }
}

void api_append(struct codec_buf *o, const struct api_type *type, const void *msg)
{
    encode_fields(o, type, msg);
}

void api_encode(const struct api_type *type, const void *msg, uint8_t **data, size_t *len)
{
    struct codec_buf o = {.data = xmalloc(128), .cap = 128};
    api_append(&o, type, msg);
    *data = o.data;
    *len = o.len;
}

/* ---- Decoding ---- */

struct decoder {
    size_t budget; /* bytes that may still be allocated */
    char *why;
    size_t why_size;
};

/* Stands for every absent string, so that readers need not test for NULL. */
static const char no_text[] = "";

static int fail(struct decoder *d, const struct api_type *type, const struct api_field *f, int err,
                const char *what)
{
    if (d->why_size && !d->why[0])
        snprintf(d->why, d->why_size, "%s%s%s: %s", type->name, f ? "." : "", f ? f->name : "", what);
    return err;
}

static bool take(struct decoder *d, size_t bytes)
{
    if (bytes > d->budget)
        return false;
    d->budget -= bytes;
    return true;
}

/* The n-th of an array that grows by doubling; NULL when the budget does not allow it. */
static void *append(struct decoder *d, void **array, uint32_t *n, size_t size)
{
    if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4, 8, ...: full */
        size_t cap = *n ? (size_t)*n * 2 : 1;
        if (!take(d, (cap - *n) * size))
            return NULL;
        *array = xrealloc(*array, cap * size);
    }
    void *slot = (char *)*array + (size_t)(*n)++ * size;
    memset(slot, 0, size);
    return slot;
}

/* Reads a length-delimited field's bytes into a new NUL-terminated buffer; NULL after an error, in *err. */
static char *read_bytes(struct decoder *d, const struct api_type *type, const struct api_field *f,
                        struct wire *s, size_t *len, int *err)
{
    struct wire sub;
    if (!wire_read_part(s, &sub)) {
        *err = fail(d, type, f, HAWK_EMALFORMED, "truncated");
        return NULL;
    }
    *len = wire_left(&sub);
    if (!take(d, *len + 32)) {
        *err = fail(d, type, f, HAWK_ETOO_LARGE, "the message is too large");
        return NULL;
    }
    char *data = xmalloc(*len + 1);
    if (*len)
        memcpy(data, sub.p, *len);
    data[*len] = '\0';
    *err = 0;
    return data;
}

/* The same for a text, which has no NUL byte inside. */
static char *read_text(struct decoder *d, const struct api_type *type, const struct api_field *f,
                       struct wire *s, int *err)
{
    size_t len = 0;
    char *text = read_bytes(d, type, f, s, &len, err);
    if (!text || strlen(text) == len)
        return text;
    free(text);
    *err = fail(d, type, f, HAWK_EMALFORMED, "a NUL byte in a text");
    return NULL;
}

static void replace_text(const char **place, char *text)
{
    if (*place != no_text)
        free((char *)*place);
    *place = text;
}

static int decode_fields(struct decoder *d, const struct api_type *type, struct wire *s, void *msg);

static int decode_message(struct decoder *d, const struct api_type *type, const struct api_field *f,
                          struct wire *s, void *msg)
{
    struct wire sub;
    if (!wire_read_part(s, &sub))
        return fail(d, type, f, HAWK_EMALFORMED, "truncated");
    return decode_fields(d, f->type, &sub, msg);
}

static int decode_desc(struct decoder *d, const struct api_type *type, const struct api_field *f,
                       struct wire *s, struct job_desc **place)
{
    size_t len = 0;
    struct job_desc *desc = NULL;
    char what[256] = "";
    int err = 0;
    char *data = read_bytes(d, type, f, s, &len, &err);
    if (!data)
        return err;
    err = codec_desc_decode(data, len, f->kind == FIELD_DESC, &desc, what, sizeof what);
    free(data);
    if (err)
        return fail(d, type, f, err, what);
    job_desc_drop(*place); /* the field came twice: the last one counts */
    *place = desc;
    return 0;
}

static int decode_job_id(struct decoder *d, const struct api_type *type, const struct api_field *f,
                         struct wire *s, job_id_t *id)
{
    char what[96];
    int err = 0;
    char *text = read_text(d, type, f, s, &err);
    if (!text)
        return err;
    *id = JOB_NONE;
    if (*text && job_id_parse(text, id)) {
        snprintf(what, sizeof what, "'%.40s' is no job id (NODE.NUMBER)", text);
        err = fail(d, type, f, HAWK_EINVALID, what);
    }
    free(text);
    return err;
}

static int decode_varint(struct decoder *d, const struct api_type *type, const struct api_field *f,
                         struct wire *s, void *msg)
{
    uint64_t v = 0;
    if (!wire_read_varint(s, &v))
        return fail(d, type, f, HAWK_EMALFORMED, "truncated or too long a number");
    if (f->kind == FIELD_BOOL)
        AT(bool, msg, f->offset) = v != 0;
    else if (f->kind == FIELD_ENUM)
        AT(uint32_t, msg, f->offset) = v < f->max ? (uint32_t)v : f->max;
    else if (f->kind == FIELD_U32 && v > UINT32_MAX)
        return fail(d, type, f, HAWK_EMALFORMED, "more than 32 bits");
    else if (f->kind == FIELD_I32 && (int64_t)v != (int32_t)v)
        return fail(d, type, f, HAWK_EMALFORMED, "more than 32 bits");
    else if (f->kind == FIELD_U32 || f->kind == FIELD_I32)
        AT(uint32_t, msg, f->offset) = (uint32_t)v;
    else
        AT(uint64_t, msg, f->offset) = v;
    if (f->extra)
        AT(bool, msg, f->extra) = true;
    return 0;
}

static int decode_array(struct decoder *d, const struct api_type *type, const struct api_field *f,
                        struct wire *s, void *msg)
{
    void **array = &AT(void *, msg, f->offset);
    uint32_t *n = &AT(uint32_t, msg, f->extra);
    if (f->kind == FIELD_MESSAGES) {
        void *slot = append(d, array, n, f->type->size);
        return slot ? decode_message(d, type, f, s, slot)
                    : fail(d, type, f, HAWK_ETOO_LARGE, "the message is too large");
    }
    int err = 0;
    char *text = read_text(d, type, f, s, &err);
    if (!text)
        return err;
    const char **slot = append(d, array, n, sizeof *slot);
    if (!slot) {
        free(text);
        return fail(d, type, f, HAWK_ETOO_LARGE, "the message is too large");
    }
    *slot = text;
    return 0;
}

static int decode_delimited(struct decoder *d, const struct api_type *type, const struct api_field *f,
                            struct wire *s, void *msg)
{
    char *data;
    size_t len = 0;
    int err = 0;
    switch ((enum field_kind)f->kind) {
    case FIELD_JOB_ID:
        return decode_job_id(d, type, f, s, &AT(job_id_t, msg, f->offset));
    case FIELD_DESC:
    case FIELD_SPEC:
        return decode_desc(d, type, f, s, &AT(struct job_desc *, msg, f->offset));
    case FIELD_MESSAGE:
        return decode_message(d, type, f, s, (char *)msg + f->offset);
    case FIELD_STRING:
        if ((data = read_text(d, type, f, s, &err)))
            replace_text(&AT(const char *, msg, f->offset), data);
        return err;
    case FIELD_BYTES:
        if ((data = read_bytes(d, type, f, s, &len, &err))) {
            free(AT(uint8_t *, msg, f->offset));
            AT(char *, msg, f->offset) = data;
            AT(uint32_t, msg, f->extra) = (uint32_t)len; /* shorter than the budget */
        }
        return err;
    default:
        return decode_array(d, type, f, s, msg);
    }
}

static const struct api_field *field_of(const struct api_type *type, uint32_t tag)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++)
        if (f->tag == tag)
            return f;
    return NULL;
}

static int decode_fields(struct decoder *d, const struct api_type *type, struct wire *s, void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++)
        if (f->kind == FIELD_STRING && !AT(const char *, msg, f->offset))
            AT(const char *, msg, f->offset) = no_text;
        else if (f->kind == FIELD_MESSAGE &&
                 decode_fields(d, f->type, &(struct wire){0}, (char *)msg + f->offset))
            CHECK(!"decoding nothing"); /* only to fill in its empty strings */
    pb_wire_type_t wire;
    uint32_t tag;
    bool eof;
    while (wire_read_tag(s, &wire, &tag, &eof)) {
        const struct api_field *f = field_of(type, tag);
        if (!f) {
            if (!wire_skip(s, wire))
                return fail(d, type, NULL, HAWK_EMALFORMED, "truncated or not a message");
            continue;
        }
        bool number = f->kind <= FIELD_ENUM;
        if (wire != (number ? PB_WT_VARINT : PB_WT_STRING))
            return fail(d, type, f, HAWK_EMALFORMED, "another type of field");
        int err = number ? decode_varint(d, type, f, s, msg) : decode_delimited(d, type, f, s, msg);
        if (err)
            return err;
    }
    return eof ? 0 : fail(d, type, NULL, HAWK_EMALFORMED, "truncated or not a message");
}

int api_decode(const struct api_type *type, const void *data, size_t len, void *msg, char *why, size_t size)
{
    struct decoder d = {.budget = API_DECODED_MAX, .why = why, .why_size = size};
    if (size)
        why[0] = '\0';
    memset(msg, 0, type->size);
    struct wire s = wire_of(data, len);
    int err = decode_fields(&d, type, &s, msg);
    if (err)
        api_free(type, msg);
    return err;
}

void api_free(const struct api_type *type, void *msg)
{
    for (const struct api_field *f = type->fields; f < type->fields + type->n; f++) {
        uint32_t n = f->kind == FIELD_STRINGS || f->kind == FIELD_MESSAGES ? AT(uint32_t, msg, f->extra) : 0;
        void *v = f->kind >= FIELD_STRING && f->kind != FIELD_MESSAGE ? AT(void *, msg, f->offset) : NULL;
        switch ((enum field_kind)f->kind) {
        case FIELD_STRING:
            replace_text(&AT(const char *, msg, f->offset), NULL);
            break;
        case FIELD_DESC:
        case FIELD_SPEC:
            job_desc_drop(v);
            break;
        case FIELD_MESSAGE:
            api_free(f->type, (char *)msg + f->offset);
            break;
        case FIELD_STRINGS:
            for (uint32_t i = 0; i < n; i++)
                free(((char **)v)[i]);
            free(v);
            break;
        case FIELD_MESSAGES:
            for (uint32_t i = 0; i < n; i++)
                api_free(f->type, (char *)v + (size_t)i * f->type->size);
            free(v);
            break;
        case FIELD_BYTES:
            free(v);
            break;
        default:
            break;
        }
    }
    memset(msg, 0, type->size);
}
