/* Every message, event and effect of the cluster, in one list. Structs, codec, dispatch, log names and
 * tests are generated from it. docs/protocol.md tells how they are used, conversation by conversation.
 *
 * A message is a plain struct of at most 56 bytes; an event, which adds the time, has at most 64. Longer
 * content is in a refcounted handle, which only msg_ref and msg_drop count. `peer` is the sender when a
 * message is delivered, and the receiver when a role puts it out. */
#ifndef HAWK_MSG_MSG_H
#define HAWK_MSG_MSG_H

#include "base/ids.h"
#include "msg/scope.h"
#include "msg/types.h"

/* Field kinds F(kind, name), and their C types. Scalars travel as protobuf scalars of the same width. */
#define KIND_none uint8_t /* no field; a struct must have a member in C */
#define KIND_job job_id_t
#define KIND_node node_id_t
#define KIND_try struct try_id
#define KIND_u8 uint8_t
#define KIND_u16 uint16_t
#define KIND_u32 uint32_t
#define KIND_u64 uint64_t
#define KIND_i32 int32_t
#define KIND_i64 int64_t
/* An application's number (app_id), a set of applications (app_set) or of jobs (job_set); 0: none, and not shown. */
#define KIND_app uint64_t
#define KIND_policy struct policy
#define KIND_usage struct usage
#define KIND_blob struct blob *     /* bytes or text; may be NULL */
#define KIND_desc struct job_desc * /* with every task's argument */
#define KIND_spec struct job_desc * /* the same struct, but task arguments do not travel */
#define KIND_tasks struct task_set *
#define KIND_members struct members *
#define KIND_resubmit struct resubmit *    /* never on the wire between nodes */
#define KIND_choice struct policy_choice * /* likewise */

/* --- W: messages that travel between nodes. X(NAME, name, proto tag). Tags are on the wire: append only.
 * --- */
#define WIRE_MESSAGES(X)                                                                                     \
    /* any node <-> central */                                                                               \
    X(JOIN, join, 1)                                                                                         \
    X(JOINED, joined, 2)                                                                                     \
    X(REFUSED, refused, 3)                                                                                   \
    X(HEARTBEAT, heartbeat, 4)                                                                               \
    X(HEARTBEAT_ACK, heartbeat_ack, 5)                                                                       \
    X(COUNTER, counter, 6)                                                                                   \
    X(MEMBERS, members, 7)                                                                                   \
    X(MEMBER, member, 8)                                                                                     \
    X(POLICY, policy, 9)                                                                                     \
    X(LEAVE, leave, 10)                                                                                      \
    /* dist <-> central */                                                                                   \
    X(ESTIMATE, estimate, 11)                                                                                \
    X(JOB_REPORT, job_report, 12)                                                                            \
    X(LONG_SUBMIT, long_submit, 13)                                                                          \
    X(LONG_ACCEPTED, long_accepted, 14)                                                                      \
    X(LONG_REFUSED, long_refused, 15)                                                                        \
    X(LONG_CANCEL, long_cancel, 16)                                                                          \
    X(LONG_WATCH, long_watch, 17)                                                                            \
    X(LONG_TASK, long_task, 18)                                                                              \
    X(LONG_WATCHED, long_watched, 19)                                                                        \
    /* worker <-> central */                                                                                 \
    X(PARTITION, partition, 20)                                                                              \
    X(PARTITION_ACK, partition_ack, 21)                                                                      \
    X(LONG_WORK, long_work, 22)                                                                              \
    X(TASK_ENQUEUE, task_enqueue, 23)                                                                        \
    X(TASK_RETURNED, task_returned, 24)                                                                      \
    X(PARKED, parked, 25)                                                                                    \
    X(STUCK, stuck, 26)                                                                                      \
    X(STEAL_HINT, steal_hint, 27)                                                                            \
    /* worker <-> owner of a task (dist or central) */                                                       \
    X(TASK_STARTED, task_started, 28)                                                                        \
    X(TASK_FINISHED, task_finished, 29)                                                                      \
    X(FINISH_ACK, finish_ack, 30)                                                                            \
    X(TASK_CANCEL, task_cancel, 31)                                                                          \
    X(TASK_OVERRUN, task_overrun, 32)                                                                        \
    X(TASK_HELD, task_held, 33)                                                                              \
    X(HELD_END, held_end, 34)                                                                                \
    /* worker <-> dist */                                                                                    \
    X(PROBE, probe, 35)                                                                                      \
    X(PROBE_REFUSED, probe_refused, 36)                                                                      \
    X(PROBE_CANCEL, probe_cancel, 37)                                                                        \
    X(PROBE_CANCELLED, probe_cancelled, 38)                                                                  \
    X(TASK_REQUEST, task_request, 39)                                                                        \
    X(TASK_LAUNCH, task_launch, 40)                                                                          \
    X(NO_TASK, no_task, 41)                                                                                  \
    X(RES_MOVED, res_moved, 42)                                                                              \
    /* worker <-> worker */                                                                                  \
    X(STEAL_REQUEST, steal_request, 43)                                                                      \
    X(STEAL_LOOT, steal_loot, 44)                                                                            \
    X(STEAL_ACK, steal_ack, 45)                                                                              \
    /* worker -> central */                                                                                  \
    X(DRAINING, draining, 46)                                                                                \
    /* central -> dist */                                                                                    \
    X(LONG_MESSAGE, long_message, 47)                                                                        \
    /* dist, worker <-> central */                                                                           \
    X(DRAIN, drain, 48)                                                                                      \
    X(DRAINED, drained, 49)                                                                                  \
    X(QUIT, quit, 50)                                                                                        \
    /* central -> worker */                                                                                  \
    X(TASK_RECALL, task_recall, 51)                                                                          \
    /* worker -> central -> dist */                                                                          \
    X(APP, app, 52)                                                                                          \
    /* central -> dist */                                                                                    \
    X(LONG_RESULT, long_result, 53)                                                                          \
    /* worker <-> dist */                                                                                    \
    X(BEAT, beat, 54)                                                                                        \
    /* owner of a task -> worker */                                                                          \
    X(START_BLAMED, start_blamed, 55)                                                                        \
    /* worker <-> central */                                                                                 \
    X(OUT_OF_SERVICE, out_of_service, 56)                                                                    \
    /* dist <-> central */                                                                                   \
    X(JOB_NUMBERS, job_numbers, 57)                                                                          \
    /* worker -> central */                                                                                  \
    X(LONG_REQUEST, long_request, 58)                                                                        \
    /* worker -> owner of a task; central -> dist */                                                         \
    X(TASK_PAUSED, task_paused, 59)                                                                          \
    /* worker <-> worker */                                                                                  \
    X(LOOT_USER, loot_user, 60)                                                                              \
    /* central -> dist, worker: for their shells */                                                          \
    X(DENIED, denied, 61)                                                                                    \
    /* worker -> central */                                                                                  \
    X(SERVES, serves, 62)                                                                                    \
    /* dist -> central */                                                                                    \
    X(LONG_HOLD, long_hold, 63)                                                                              \
    /* worker -> central -> dist */                                                                          \
    X(ENDS, ends, 64)                                                                                        \
    /* on every link: for shells */                                                                          \
    X(CERTIFICATE, certificate, 65)                                                                          \
    /* dist -> central */                                                                                    \
    X(LONG_CANCEL_TASKS, long_cancel_tasks, 66)

/* --- Who may send what to whom. Only this list says so (docs/protocol.md, section 0). Nobody may send a
 * message of WIRE_MESSAGES that is not listed here. --- */
enum route {
    DIST_CENTRAL = 1u << 0,
    WORKER_CENTRAL = 1u << 1,
    CENTRAL_DIST = 1u << 2,
    CENTRAL_WORKER = 1u << 3,
    DIST_WORKER = 1u << 4,
    WORKER_DIST = 1u << 5,
    WORKER_WORKER = 1u << 6,
    ANY_LINK = (1u << 7) - 1,
    /* A user's calls. Users send no messages. */
    USER_CENTRAL = 1u << 7,
    USER_DIST = 1u << 8,
    USER_WORKER = 1u << 9,
    USER_ANY = USER_CENTRAL | USER_DIST | USER_WORKER,
    /* A call of somebody without a certificate. */
    GUEST_CENTRAL = 1u << 10,
};
#define WIRE_ROUTES(X)                                                                                       \
    X(JOIN, DIST_CENTRAL | WORKER_CENTRAL)                                                                   \
    X(JOINED, CENTRAL_DIST | CENTRAL_WORKER)                                                                 \
    X(REFUSED, CENTRAL_DIST | CENTRAL_WORKER)                                                                \
    X(HEARTBEAT, DIST_CENTRAL | WORKER_CENTRAL)                                                              \
    X(HEARTBEAT_ACK, CENTRAL_DIST | CENTRAL_WORKER)                                                          \
    X(COUNTER, DIST_CENTRAL | WORKER_CENTRAL)                                                                \
    X(MEMBERS, CENTRAL_DIST | CENTRAL_WORKER)                                                                \
    X(MEMBER, CENTRAL_DIST)                                                                                  \
    X(POLICY, CENTRAL_DIST | CENTRAL_WORKER)                                                                 \
    X(LEAVE, DIST_CENTRAL | WORKER_CENTRAL)                                                                  \
    X(ESTIMATE, CENTRAL_DIST)                                                                                \
    X(JOB_REPORT, DIST_CENTRAL)                                                                              \
    X(LONG_SUBMIT, DIST_CENTRAL)                                                                             \
    X(LONG_ACCEPTED, CENTRAL_DIST)                                                                           \
    X(LONG_REFUSED, CENTRAL_DIST)                                                                            \
    X(LONG_CANCEL, DIST_CENTRAL)                                                                             \
    X(LONG_WATCH, DIST_CENTRAL)                                                                              \
    X(LONG_TASK, CENTRAL_DIST)                                                                               \
    X(LONG_WATCHED, CENTRAL_DIST)                                                                            \
    X(PARTITION, CENTRAL_WORKER)                                                                             \
    X(PARTITION_ACK, WORKER_CENTRAL)                                                                         \
    X(LONG_WORK, CENTRAL_WORKER)                                                                             \
    X(TASK_ENQUEUE, CENTRAL_WORKER)                                                                          \
    X(TASK_RETURNED, WORKER_CENTRAL)                                                                         \
    X(PARKED, WORKER_CENTRAL)                                                                                \
    X(STUCK, WORKER_CENTRAL)                                                                                 \
    X(STEAL_HINT, CENTRAL_WORKER)                                                                            \
    X(TASK_STARTED, WORKER_DIST | WORKER_CENTRAL)                                                            \
    X(TASK_FINISHED, WORKER_DIST | WORKER_CENTRAL)                                                           \
    X(FINISH_ACK, DIST_WORKER | CENTRAL_WORKER)                                                              \
    X(TASK_CANCEL, DIST_WORKER | CENTRAL_WORKER)                                                             \
    X(TASK_OVERRUN, WORKER_DIST)                                                                             \
    X(TASK_HELD, WORKER_DIST | WORKER_CENTRAL)                                                               \
    X(HELD_END, WORKER_DIST | WORKER_CENTRAL)                                                                \
    X(PROBE, DIST_WORKER)                                                                                    \
    X(PROBE_REFUSED, WORKER_DIST)                                                                            \
    X(PROBE_CANCEL, DIST_WORKER)                                                                             \
    X(PROBE_CANCELLED, WORKER_DIST)                                                                          \
    X(TASK_REQUEST, WORKER_DIST)                                                                             \
    X(TASK_LAUNCH, DIST_WORKER)                                                                              \
    X(NO_TASK, DIST_WORKER)                                                                                  \
    X(RES_MOVED, WORKER_DIST)                                                                                \
    X(STEAL_REQUEST, WORKER_WORKER)                                                                          \
    X(STEAL_LOOT, WORKER_WORKER)                                                                             \
    X(STEAL_ACK, WORKER_WORKER)                                                                              \
    X(DRAINING, WORKER_CENTRAL)                                                                              \
    X(LONG_MESSAGE, CENTRAL_DIST)                                                                            \
    X(DRAIN, CENTRAL_DIST | CENTRAL_WORKER)                                                                  \
    X(DRAINED, DIST_CENTRAL | WORKER_CENTRAL)                                                                \
    X(QUIT, CENTRAL_DIST | CENTRAL_WORKER)                                                                   \
    X(TASK_RECALL, CENTRAL_WORKER)                                                                           \
    X(APP, WORKER_CENTRAL | CENTRAL_DIST)                                                                    \
    X(LONG_RESULT, CENTRAL_DIST)                                                                             \
    X(BEAT, DIST_WORKER | WORKER_DIST)                                                                       \
    X(START_BLAMED, DIST_WORKER | CENTRAL_WORKER)                                                            \
    X(OUT_OF_SERVICE, WORKER_CENTRAL | CENTRAL_WORKER)                                                       \
    X(JOB_NUMBERS, DIST_CENTRAL | CENTRAL_DIST)                                                              \
    X(LONG_REQUEST, WORKER_CENTRAL)                                                                          \
    X(TASK_PAUSED, WORKER_DIST | WORKER_CENTRAL | CENTRAL_DIST)                                              \
    X(LOOT_USER, WORKER_WORKER)                                                                              \
    X(DENIED, CENTRAL_DIST | CENTRAL_WORKER)                                                                 \
    X(SERVES, WORKER_CENTRAL)                                                                                \
    X(LONG_HOLD, DIST_CENTRAL | CENTRAL_DIST)                                                                \
    X(ENDS, WORKER_CENTRAL | CENTRAL_DIST)                                                                   \
    X(CERTIFICATE, ANY_LINK)                                                                                 \
    X(LONG_CANCEL_TASKS, DIST_CENTRAL)

/* --- The calls that each role serves, who may make them where certificates say who calls (net/identity.h), and which
 * scope a user needs. Nobody may make a call that is not listed. --- */
#define CALL_ROUTES(X)                                                                                       \
    X("/hawk.v1.Peer/Link", DIST_CENTRAL | WORKER_CENTRAL | DIST_WORKER | WORKER_WORKER, SCOPE_NONE)         \
    X("/hawk.v1.Hawk/Submit", USER_DIST, SCOPE_SUBMIT)                                                       \
    X("/hawk.v1.Hawk/Watch", USER_DIST, SCOPE_READ)                                                          \
    X("/hawk.v1.Hawk/Session", USER_DIST, SCOPE_SUBMIT)                                                      \
    X("/hawk.v1.Hawk/Cancel", USER_DIST | USER_CENTRAL, SCOPE_SUBMIT)                                        \
    X("/hawk.v1.Hawk/CancelTasks", USER_DIST, SCOPE_SUBMIT)                                                  \
    X("/hawk.v1.Hawk/Hold", USER_DIST | USER_CENTRAL, SCOPE_SUBMIT)                                          \
    X("/hawk.v1.Hawk/Rerun", USER_DIST, SCOPE_SUBMIT)                                                        \
    X("/hawk.v1.Hawk/ListJobs", USER_DIST | USER_CENTRAL, SCOPE_READ)                                        \
    X("/hawk.v1.Hawk/GetJob", USER_DIST | USER_CENTRAL, SCOPE_READ)                                          \
    X("/hawk.v1.Hawk/ListNodes", USER_DIST | USER_CENTRAL, SCOPE_READ)                                       \
    X("/hawk.v1.Hawk/GetStats", USER_ANY, SCOPE_READ)                                                        \
    X("/hawk.v1.Hawk/GetPolicy", USER_CENTRAL, SCOPE_READ)                                                   \
    X("/hawk.v1.Hawk/SetPolicy", USER_CENTRAL, SCOPE_OPERATE)                                                \
    X("/hawk.v1.Hawk/Drain", USER_CENTRAL, SCOPE_OPERATE)                                                    \
    X("/hawk.v1.Hawk/Stop", USER_ANY, SCOPE_OPERATE)                                                         \
    X("/hawk.v1.Hawk/ReadOutput", USER_WORKER, SCOPE_READ)                                                   \
    X("/hawk.v1.Executors/Attach", USER_WORKER, SCOPE_SUBMIT)                                                \
    X("/grpc.health.v1.Health/Check", USER_ANY, SCOPE_READ)                                                  \
    X("/grpc.health.v1.Health/Watch", USER_ANY, SCOPE_READ)                                                  \
    X("/hawk.v1.Nodes/Join", GUEST_CENTRAL, SCOPE_NONE)                                                      \
    X("/hawk.v1.Nodes/Renew", DIST_CENTRAL | WORKER_CENTRAL, SCOPE_NONE)

/* The protocol's versions; a node understands the two before its own (docs/protocol.md, section 0). New
 * messages are appended, so each version begins with a message. A node sends no message from there on to a
 * peer of an older version. */
#define MSG_FIRST_OF_VERSION_2 MSG_DRAINING
#define MSG_FIRST_OF_VERSION_3 MSG_BEAT

/* --- E: events that a role gets from its shell, and effects that it asks of its shell. Never on the wire.
 * --- */
#define LOCAL_MESSAGES(X)                                                                                    \
    X(TIMER, timer, 0)                                                                                       \
    X(PEER_UP, peer_up, 0)                                                                                   \
    X(PEER_LOST, peer_lost, 0)                                                                               \
    X(START, start, 0)                                                                                       \
    X(STOP, stop, 0)                                                                                         \
    X(STOPPED, stopped, 0)                                                                                   \
    X(GIVE_UP, give_up, 0)                                                                                   \
    /* clients, through the shell of dist or central */                                                      \
    X(SUBMIT, submit, 0)                                                                                     \
    X(SUBMITTED, submitted, 0)                                                                               \
    X(CANCEL, cancel, 0)                                                                                     \
    X(CANCELLED, cancelled, 0)                                                                               \
    X(WATCH, watch, 0)                                                                                       \
    X(TASK_EVENT, task_event, 0)                                                                             \
    X(JOB_EVENT, job_event, 0)                                                                               \
    X(SET_POLICY, set_policy, 0)                                                                             \
    X(POLICY_SET, policy_set, 0)                                                                             \
    /* operators, through central's API and log */                                                           \
    X(SET_DRAIN, set_drain, 0)                                                                               \
    X(DRAIN_SET, drain_set, 0)                                                                               \
    X(STOP_NODE, stop_node, 0)                                                                               \
    X(NODE_CHANGED, node_changed, 0)                                                                         \
    X(JOB_ABANDONED, job_abandoned, 0)                                                                       \
    X(ADMIT, admit, 0)                                                                                       \
    X(ADMITTED, admitted, 0)                                                                                 \
    /* executors */                                                                                          \
    X(EXEC_START, exec_start, 0)                                                                             \
    X(EXEC_KILL, exec_kill, 0)                                                                               \
    X(EXEC_STARTED, exec_started, 0)                                                                         \
    X(EXEC_EXITED, exec_exited, 0)                                                                           \
    X(EXEC_HELD, exec_held, 0)                                                                               \
    X(EXEC_PROOF, exec_proof, 0)                                                                             \
    X(EXEC_FORGET, exec_forget, 0)                                                                           \
    X(EXEC_LEASE, exec_lease, 0)                                                                             \
    X(EXEC_APP, exec_app, 0)                                                                                 \
    X(EXEC_CHECK, exec_check, 0)                                                                             \
    X(EXEC_CHECKED, exec_checked, 0)                                                                         \
    X(EXEC_PAUSE, exec_pause, 0)                                                                             \
    X(EXEC_PAUSED, exec_paused, 0)                                                                           \
    X(EXEC_RESUME, exec_resume, 0)                                                                           \
    /* stores */                                                                                             \
    X(JOURNAL_NODE, journal_node, 0)                                                                         \
    X(JOURNAL_JOB, journal_job, 0)                                                                           \
    X(JOURNAL_TASK, journal_task, 0)                                                                         \
    X(JOURNAL_CANCEL, journal_cancel, 0)                                                                     \
    X(JOURNAL_OWNER, journal_owner, 0)                                                                       \
    X(JOURNAL_RELEASED, journal_released, 0)                                                                 \
    X(JOURNAL_ENDED, journal_ended, 0)                                                                       \
    X(JOURNAL_AGE, journal_age, 0)                                                                           \
    X(JOURNAL_CLUSTER, journal_cluster, 0)                                                                   \
    X(JOURNAL_JOB_END, journal_job_end, 0)                                                                   \
    X(JOURNAL_DONE, journal_done, 0)                                                                         \
    X(HISTORY, history, 0)                                                                                   \
    X(RECOVERED, recovered, 0)                                                                               \
    X(JOURNAL_POLICY, journal_policy, 0)                                                                     \
    X(JOURNAL_NUMBERS, journal_numbers, 0)                                                                   \
    X(JOURNAL_ADMITTED, journal_admitted, 0)                                                                 \
    X(JOURNAL_WAITS, journal_waits, 0)                                                                       \
    /* clients: a job that is to be held, or released */                                                     \
    X(HOLD, hold, 0)                                                                                         \
    X(HOLD_SET, hold_set, 0)                                                                                 \
    /* executors */                                                                                          \
    X(EXEC_USED, exec_used, 0)

/* ---- Fields, message by message ---- */
#define FIELDS_join(F)                                                                                       \
    F(blob, name)                                                                                            \
    F(blob, addr)                                                                                            \
    F(u64, incarnation) F(node, node) F(u32, slots) F(u16, version) F(u8, role) F(u64, cluster)
#define FIELDS_joined(F)                                                                                     \
    F(u64, cluster)                                                                                          \
    F(i64, heartbeat_us)                                                                                     \
    F(i64, lease_us) F(node, node) F(u32, central_epoch) F(u8, draining) F(u64, former)
#define FIELDS_refused(F) F(blob, why) F(i32, err)
#define FIELDS_heartbeat(F)                                                                                  \
    F(u32, seq)                                                                                              \
    F(u32, queued)                                                                                           \
    F(u32, running_short)                                                                                    \
    F(u32, running_long) F(u32, jobs_unfinished) F(u8, quiet) F(u32, paused) F(u8, freezer)
#define FIELDS_heartbeat_ack(F) F(u32, seq)
#define FIELDS_counter(F) F(u64, value) F(u32, counter)
#define FIELDS_members(F) F(members, list) F(u32, version) F(u8, workers_away)
#define FIELDS_member(F)                                                                                     \
    F(blob, addr)                                                                                            \
    F(blob, name)                                                                                            \
    F(node, node)                                                                                            \
    F(u32, slots)                                                                                            \
    F(u32, version) F(u8, role) F(u8, state) F(u8, general) F(u8, unsettled) F(blob, out_why) F(blob, serves)
#define FIELDS_policy(F) F(policy, policy)
#define FIELDS_leave(F) F(none, reserved)

/* Certificates that are good no more, as net/denied.h reads them. No role sees it. */
#define FIELDS_denied(F) F(blob, list)
/* The sender's certificate, renewed, with those that it needs besides to reach a root. No role sees it. */
#define FIELDS_certificate(F) F(blob, pem)
/* The worker runs commands of that user alone. A worker that does not say so runs everybody's. */
#define FIELDS_serves(F) F(blob, user)
/* All tasks of the worker must have ended that long from now. LIMIT_TIME_US, or without this message: it has no end.
 * node: as in APP. */
#define FIELDS_ends(F) F(node, node) F(i64, left_us)
/* user: user_number(); 0: nobody. */
#define FIELDS_estimate(F) F(blob, name) F(i64, mean_us) F(u32, runs) F(u32, user)
#define FIELDS_job_report(F)                                                                                 \
    F(blob, name) F(i64, mean_us) F(u64, task_us) F(u32, tasks) F(u8, class) F(u32, user)
#define FIELDS_long_submit(F)                                                                                \
    F(job, job) F(desc, desc) F(tasks, tasks) F(i64, estimate_us) F(u16, epoch) F(u8, why) F(u16, owner)
#define FIELDS_long_accepted(F) F(job, job) F(u16, epoch) F(i64, unreported_us)
#define FIELDS_long_refused(F) F(job, job) F(i32, err) F(u16, epoch)
#define FIELDS_long_cancel(F) F(job, job) F(u16, epoch) F(u16, owner) F(u8, abandoned) F(blob, user)
/* These tasks alone are to end. */
#define FIELDS_long_cancel_tasks(F) F(job, job) F(u16, epoch) F(u16, owner) F(tasks, tasks) F(blob, user)
/* on: an enum hold_told: no task of the job that has not started starts. 0: they may again. */
enum hold_told {
    HOLD_ASKED = 1,   /* a client asked this process of the dist */
    HOLD_FROM_BEFORE, /* it was read back, or came with a job that moved: a client may have released it since */
};
#define FIELDS_long_hold(F) F(job, job) F(u16, epoch) F(u16, owner) F(u8, on) F(blob, user)
#define FIELDS_long_watch(F) F(job, job) F(u16, epoch) F(u16, owner) F(blob, user)
#define FIELDS_long_task(F)                                                                                  \
    F(try, id)                                                                                               \
    F(i64, wait_us)                                                                                          \
    F(i64, run_us) F(node, worker) F(i32, code) F(u8, state) F(u8, outcome) F(usage, used)
#define FIELDS_long_watched(F) F(job, job) F(i32, err) F(u16, epoch) F(i64, unreported_us)

#define FIELDS_partition(F) F(u32, epoch) F(u8, general)
#define FIELDS_partition_ack(F) F(u32, epoch)
#define FIELDS_long_work(F) F(u8, any)
/* proof: job_desc_proof() of the task. */
#define FIELDS_task_enqueue(F) F(try, id) F(spec, desc) F(blob, arg) F(i64, estimate_us) F(blob, proof)
#define FIELDS_task_returned(F) F(try, id)
#define FIELDS_long_request(F) F(u32, slots) F(u32, got)
#define FIELDS_parked(F) F(u8, parked)
#define FIELDS_stuck(F) F(u8, stuck) F(app, apps)
#define FIELDS_steal_hint(F) F(node, victim) F(blob, addr)

#define FIELDS_task_started(F) F(try, id) F(i64, wait_us)
#define FIELDS_task_finished(F)                                                                              \
    F(try, id)                                                                                               \
    F(blob, result)                                                                                          \
    F(i64, run_us) F(none, reserved) F(i32, code) F(u8, outcome) F(u8, stolen) F(usage, used)
#define FIELDS_finish_ack(F) F(try, id)
#define FIELDS_task_cancel(F) F(try, id)
#define FIELDS_task_overrun(F) F(try, id) F(i64, run_us)
#define FIELDS_task_held(F) F(try, id) F(i64, run_us) F(u8, state)
#define FIELDS_held_end(F) F(none, reserved)

#define FIELDS_probe(F)                                                                                      \
    F(job, job) F(i64, estimate_us) F(u32, count) F(u8, class) F(app, app) F(app, ancestors) F(u32, user)
#define FIELDS_probe_refused(F) F(job, job) F(u32, count) F(i32, err)
#define FIELDS_probe_cancel(F) F(job, job)
#define FIELDS_probe_cancelled(F) F(job, job) F(u32, count)
#define FIELDS_task_request(F) F(job, job) F(u32, request) F(u8, has_spec)
#define FIELDS_task_launch(F)                                                                                \
    F(try, id) F(spec, desc) F(blob, arg) F(u32, request) F(u8, promotable) F(blob, proof)
#define FIELDS_no_task(F) F(job, job) F(u32, request)
#define FIELDS_res_moved(F) F(job, job) F(node, from) F(u32, count)

/* user: the thief runs that user's commands alone; 0: everybody's. */
#define FIELDS_steal_request(F) F(u32, request) F(u32, max) F(app, apps) F(u32, user)
#define FIELDS_steal_loot(F)                                                                                 \
    F(job, job)                                                                                              \
    F(i64, estimate_us)                                                                                      \
    F(i64, waited_us)                                                                                        \
    F(node, dist) F(u32, request) F(u32, count) F(u16, index) F(u16, items) F(app, app)
#define FIELDS_steal_ack(F) F(job, job) F(u32, request) F(u32, accepted) F(u16, index)

#define FIELDS_draining(F) F(none, reserved)
#define FIELDS_long_message(F) F(try, id) F(blob, text)
#define FIELDS_drain(F) F(u8, on)
#define FIELDS_drained(F) F(u8, on) F(u8, empty)
#define FIELDS_quit(F) F(u8, now)
#define FIELDS_task_recall(F) F(try, id)
/* user: whose tasks alone it takes there; NULL: everybody's. */
#define FIELDS_app(F) F(blob, name) F(node, node) F(u8, on) F(blob, user)
#define FIELDS_long_result(F) F(try, id) F(blob, result)
#define FIELDS_beat(F) F(u8, ask) F(u32, held)
#define FIELDS_start_blamed(F) F(job, job)
/* stood_ms: how long the task has stood still by now, at least 1; 0: it runs. paused_ms: in all its pauses, this one
 * included. times: how many they are. for_job, for_task: whose short task the last of them was for. A message has 48
 * bytes, hence milliseconds. */
#define FIELDS_task_paused(F)                                                                                \
    F(try, id)                                                                                               \
    F(i64, run_us) F(job, for_job) F(u32, for_task) F(u32, times) F(u32, stood_ms) F(u32, paused_ms)
/* Whose the items of this loot are that follow, up to the next such message; without one they are nobody's.
 * STEAL_LOOT has no room for it. */
#define FIELDS_loot_user(F) F(u32, request) F(u32, user)
#define FIELDS_out_of_service(F) F(blob, why) F(u8, on)
#define FIELDS_job_numbers(F) F(u64, next) F(blob, receipts) F(u32, receipts_due_s)

#define FIELDS_timer(F) F(none, reserved)
#define FIELDS_peer_up(F) F(u8, role) F(u8, version)
#define FIELDS_peer_lost(F) F(u8, role)
#define FIELDS_start(F) F(none, reserved)
#define FIELDS_stop(F) F(u8, now)
#define FIELDS_stopped(F) F(u8, asked)
/* The role waits for that node no longer. The shell breaks its stream with it. */
#define FIELDS_give_up(F) F(node, node)
/* watch: if the job is accepted, treat this message as a WATCH{on}, too. */
#define FIELDS_submit(F) F(desc, desc) F(resubmit, resubmit) F(u64, key) F(u32, client) F(u8, watch)
#define FIELDS_submitted(F) F(job, job) F(u32, client) F(i32, err) F(u8, class) F(u8, why)
/* tasks: those that are to end; NULL: all of the job. */
#define FIELDS_cancel(F) F(job, job) F(u32, client) F(tasks, tasks)
#define FIELDS_cancelled(F) F(job, job) F(u32, client) F(i32, err)
/* on: the job's tasks that have not started do not start until it is released (on = 0). */
#define FIELDS_hold(F) F(job, job) F(u32, client) F(u8, on)
/* It is durable; or it is refused: HAWK_ENOT_FOUND, HAWK_EVERSION (central is of a version without LONG_HOLD),
 * HAWK_EIO. */
#define FIELDS_hold_set(F) F(job, job) F(u32, client) F(i32, err)
#define FIELDS_watch(F) F(job, job) F(u64, key) F(u16, epoch) F(u8, on)
#define FIELDS_task_event(F)                                                                                 \
    F(try, id) F(i64, run_us) F(i64, wait_us) F(node, worker) F(i32, code) F(u8, state) F(u8, outcome)
#define FIELDS_job_event(F) F(job, job) F(u32, done) F(u32, failed) F(u8, state)
/* choice NULL: use the configured policy again. */
#define FIELDS_set_policy(F) F(choice, choice) F(u32, client)
#define FIELDS_policy_set(F) F(u32, client) F(i32, err)
#define FIELDS_set_drain(F) F(node, node) F(u32, client) F(u8, drain)
#define FIELDS_drain_set(F) F(node, node) F(u32, client) F(i32, err)
/* Somebody wants a certificate by an invitation, which may be used `uses` times. use: a number of the invitation, the
 * name and the key: whoever asks again, since the answer was lost, uses it once. several: the invitation is for more
 * than one name. */
#define FIELDS_admit(F)                                                                                      \
    F(blob, name) F(u64, invitation) F(u64, use) F(u32, client) F(u32, uses) F(u8, role) F(u8, several)
/* The use is durable; or it is refused: HAWK_ELIMIT (used often enough), HAWK_ENAME_TAKEN, HAWK_EBUSY (too many uses of
 * all invitations), HAWK_EIO. */
#define FIELDS_admitted(F) F(u32, client) F(i32, err)
#define FIELDS_stop_node(F) F(node, node) F(u8, now)
#define FIELDS_node_changed(F)                                                                               \
    F(blob, name)                                                                                            \
    F(blob, why) F(i64, silent_us) F(node, node) F(u32, slots) F(u32, tasks) F(u8, role) F(u8, change)
/* Central cancels a job for which no client waits any more. tasks: those that had not ended. */
#define FIELDS_job_abandoned(F) F(blob, name) F(job, job) F(u32, tasks) F(u16, epoch)
#define FIELDS_exec_start(F)                                                                                 \
    F(try, id)                                                                                               \
    F(spec, desc) F(blob, arg) F(u32, run) F(node, owner) F(u8, class) F(u8, promotable) F(u8, stolen)
/* Before the EXEC_START of that run: TASK_LAUNCH's or TASK_ENQUEUE's proof. */
#define FIELDS_exec_proof(F) F(u32, run) F(blob, proof)
#define FIELDS_exec_kill(F) F(u32, run) F(u8, force) F(u8, outcome)
#define FIELDS_exec_started(F) F(u32, run) F(i32, pid)
/* place: with code HAWK_ECANNOT_START, the job's directory that is to blame; it ends with a slash when
 * files could not be made in it. NULL: nothing that the job named is to blame. */
#define FIELDS_exec_exited(F)                                                                                \
    F(blob, result) F(blob, place) F(i64, run_us) F(u32, run) F(i32, code) F(u8, outcome) F(usage, used)
#define FIELDS_exec_held(F)                                                                                  \
    F(try, id)                                                                                               \
    F(blob, result)                                                                                          \
    F(i64, run_us)                                                                                           \
    F(u32, run) F(node, owner) F(i32, code) F(u8, outcome) F(u8, class) F(u8, promotable) F(u8, stolen)
/* What a held run that has ended used; it comes after its EXEC_HELD, which has no room for it. */
#define FIELDS_exec_used(F) F(try, id) F(node, owner) F(usage, used)
#define FIELDS_exec_forget(F) F(u32, run)
#define FIELDS_exec_lease(F) F(i64, until_us)
#define FIELDS_exec_app(F) F(blob, name) F(blob, user) F(u8, on)
/* EXEC_CHECK asks whether tasks could be started, also in that place (NULL: none). EXEC_CHECKED answers
 * why not; NULL: they could. */
#define FIELDS_exec_check(F) F(blob, place)
#define FIELDS_exec_checked(F) F(blob, why)
/* EXEC_PAUSE freezes a run and everything that it started. EXEC_PAUSED answers: 0, the run stands still;
 * HAWK_EUNSUPPORTED, this run cannot be frozen; another error, it cannot be frozen now. After an error the
 * run goes on. */
#define FIELDS_exec_pause(F) F(u32, run)
#define FIELDS_exec_paused(F) F(u32, run) F(i32, err)
/* EXEC_RESUME thaws the run, and has no answer. EXEC_KILL thaws it as well. run_us never includes the time
 * that a run stood still. */
#define FIELDS_exec_resume(F) F(u32, run)
/* next_seq: a dist may have given out the job numbers below it; 0: not known. */
#define FIELDS_journal_node(F)                                                                               \
    F(blob, name) F(u64, token) F(node, node) F(u8, role) F(u8, drained) F(u64, next_seq)
#define FIELDS_journal_job(F)                                                                                \
    F(job, job)                                                                                              \
    F(u64, token)                                                                                            \
    F(desc, desc)                                                                                            \
    F(tasks, tasks) F(i64, estimate_us) F(u16, epoch) F(u16, life) F(u16, handed) F(u8, why) F(u8, class)
#define FIELDS_journal_cancel(F) F(job, job) F(u64, token) F(u16, epoch)
/* Central's: the greatest epoch among the dists that have had the job. */
#define FIELDS_journal_owner(F) F(job, job) F(u64, token) F(u16, epoch) F(u16, owner)
/* Central's: of its tasks of the job, the first `upto` may have been sent to workers. The others were not. */
#define FIELDS_journal_released(F) F(job, job) F(u64, token) F(u16, epoch) F(u32, upto)
/* failures, losses: tries that failed and another followed; central's that were lost after their start, 255 at most. */
#define FIELDS_journal_task(F)                                                                               \
    F(try, id)                                                                                               \
    F(u64, token)                                                                                            \
    F(i64, run_us)                                                                                           \
    F(node, worker) F(i32, code) F(u8, state) F(u8, outcome) F(u8, failures) F(u8, losses) F(usage, used)
/* The job has ended, and stays visible until JOURNAL_JOB_END. left_out: tasks that were cancelled before
 * they were launched and have no JOURNAL_TASK each. ago_us: when the record is read back, how long ago the
 * job ended. */
#define FIELDS_journal_ended(F)                                                                              \
    F(job, job)                                                                                              \
    F(u64, token)                                                                                            \
    F(i64, cutoff_us)                                                                                        \
    F(i64, response_us) F(i64, ago_us) F(u32, left_out) F(u16, epoch) F(u8, state) F(u8, promoted)
/* How long ago the job's first JOURNAL_JOB was written. It follows that record when the journal is read
 * back. */
#define FIELDS_journal_age(F) F(job, job) F(i64, ago_us)
/* Central's: it replaces a central that lost its state. former: that one's cluster, 0 when not known.
 * node: the first of the new node ids. young: tasks that the former central placed may still run. */
#define FIELDS_journal_cluster(F) F(u64, token) F(u64, former) F(node, node) F(u8, young)
#define FIELDS_journal_job_end(F) F(job, job) F(u64, token) F(u16, epoch) F(u8, state)
/* Central's: what an operator chose of the policy (NULL: nothing any more), and a hash of the
 * configuration at that time. ago_us: when the record is read back, how long ago that was. */
#define FIELDS_journal_policy(F) F(choice, choice) F(u64, token) F(u64, configured) F(i64, ago_us)
/* A dist's: it may have given out the job numbers below `next`. */
#define FIELDS_journal_numbers(F) F(u64, token) F(u64, next)
#define FIELDS_journal_admitted(F)                                                                           \
    F(blob, name) F(u64, token) F(u64, invitation) F(u64, use) F(i64, ago_us) F(u8, role)
/* A dist's: whether the job is held; which of its predecessors have ended as it asks, a bit each in the order of its
 * description; the predecessor because of which it was cancelled, or tasks of it; the tasks that its client cancelled
 * and that have not ended. Central's: whether it is held; whether a client held it there. */
#define FIELDS_journal_waits(F)                                                                              \
    F(job, job)                                                                                              \
    F(u64, token) F(job, cause) F(u32, met) F(u16, epoch) F(u8, held) F(u8, by_client) F(tasks, unwanted)
#define FIELDS_journal_done(F) F(u64, token) F(i32, err)
#define FIELDS_history(F)                                                                                    \
    F(blob, name) F(i64, mean_us) F(u64, task_us) F(u32, tasks) F(u8, class) F(u32, user)
#define FIELDS_recovered(F) F(none, reserved)

/* ---- Generated ---- */
#define FIELD_MEMBER(kind, name) KIND_##kind name;
#define X(NAME, name, tag)                                                                                   \
    struct msg_##name {                                                                                      \
        FIELDS_##name(FIELD_MEMBER)                                                                          \
    };
WIRE_MESSAGES(X)
LOCAL_MESSAGES(X)
#undef X
#undef FIELD_MEMBER

enum msg_type {
    MSG_NONE,
#define X(NAME, name, tag) MSG_##NAME,
    WIRE_MESSAGES(X) MSG_WIRE_END,
    LOCAL_MESSAGES(X)
#undef X
        MSG_TYPE_COUNT
};

struct msg {
    uint16_t type; /* enum msg_type */
    /* Only the bus sets it, in a PEER_UP or PEER_LOST of its queue (bus/internal.h); roles see 0. */
    uint16_t stream_flags;
    uint32_t peer; /* a node_id_t's value; to and from central it may be a link's number (docs/protocol.md) */
    union {
#define X(NAME, name, tag) struct msg_##name name;
        WIRE_MESSAGES(X)
        LOCAL_MESSAGES(X)
#undef X
    };
};

/* Whether a peer that speaks this version knows messages of this type. */
static inline bool msg_in_version(unsigned type, uint32_t version)
{
    return type < (version >= 3   ? MSG_WIRE_END
                   : version == 2 ? MSG_FIRST_OF_VERSION_3
                                  : MSG_FIRST_OF_VERSION_2);
}

/* Whether a node of one role may send a message of this type to a node of another (WIRE_ROUTES). */
bool msg_may_pass(unsigned type, enum role from, enum role to);
/* Somebody who has shown no certificate, in place of a role. */
#define ROLE_GUEST ROLE_COUNT
/* Whether somebody of one role may make a call of another (CALL_ROUTES). ROLE_NONE: a user. */
bool call_may_pass(const char *path, enum role from, enum role to);
/* The scope that a user needs for the call; SCOPE_NONE: none, or there is no such call. */
enum scope call_scope(const char *path);
/* Whether a node of one role opens links to nodes of another. Dists and workers open links to central and
 * to workers. */
static inline bool role_may_dial(enum role from, enum role to)
{
    return (from == ROLE_DIST || from == ROLE_WORKER) && (to == ROLE_CENTRAL || to == ROLE_WORKER);
}

/* What a role's step gets: a message, a timer or a completion, with the time. The role only borrows it. */
struct event {
    int64_t now_us;
    struct msg m;
};
_Static_assert(sizeof(struct msg) <= 56, "a message must fit 56 bytes");
_Static_assert(sizeof(struct event) <= 64, "an event must fit a cache line");

static inline bool msg_is_wire(const struct msg *m) { return m->type > MSG_NONE && m->type < MSG_WIRE_END; }
/* Whether the counters messages_in and messages_out count m. They leave out what an idle node sends and
 * receives, which would change the counters that heartbeats report. */
static inline bool msg_is_counted(const struct msg *m)
{
    return msg_is_wire(m) && m->type != MSG_HEARTBEAT && m->type != MSG_HEARTBEAT_ACK &&
           m->type != MSG_COUNTER && m->type != MSG_BEAT;
}
/* "TASK_LAUNCH"; "?" out of range. */
const char *msg_name(unsigned type);
/* msg_ref takes a reference on every handle of m. msg_drop gives them all back and clears them. */
void msg_ref(const struct msg *m);
void msg_drop_handles(struct msg *m);
extern const bool msg_has_handles[MSG_TYPE_COUNT]; /* by type; most messages carry none */
static inline void msg_drop(struct msg *m)
{
    if (m->type < MSG_TYPE_COUNT && msg_has_handles[m->type])
        msg_drop_handles(m);
}
/* Writes one line with the message's name and every field ("PROBE job=3.1 estimate_us=0 count=2 class=0"),
 * the trace format of daemons and simulator. The text is always terminated. Returns its length. */
size_t msg_format(const struct msg *m, char *buf, size_t size);
/* The job a message is about, or JOB_NONE. */
job_id_t msg_job(const struct msg *m);
/* The token of a message that a role wants journalled: every JOURNAL_ message but JOURNAL_DONE and
 * JOURNAL_AGE. 0 for every other message. */
uint64_t msg_journal_token(const struct msg *m);
/* Whether m is a record that the shell has to keep: one of those messages, or HISTORY. */
static inline bool msg_is_record(const struct msg *m)
{
    return m->type == MSG_HISTORY || msg_journal_token(m) != 0;
}
/* Checks enumerations, ranges and required handles of a message that came off the network. 0;
 * HAWK_EMALFORMED; or HAWK_EUNSUPPORTED for a message that a newer peer may send and that this one skips.
 * Roles rely on it. */
int msg_check(const struct msg *m);

/* ---- Output: a growable arena owned by the shell, drained after every step. ---- */
struct out {
    struct msg *v;
    uint32_t n, cap;
};

/* Appends a zeroed message; peer is 0 for effects. The pointer holds until the next out_add. Handles that
 * the caller puts into it must be references of its own (blob_ref, job_desc_ref, …), since the shell drops
 * them. */
struct msg *out_add(struct out *o, enum msg_type type, uint32_t peer);
/* Drops all messages and keeps the memory. */
void out_clear(struct out *o);
void out_free(struct out *o);

/* The functions of a role, for its driver: a daemon or the bus. `role` is the role's own struct. Each role
 * has one of these: central_functions, dist_functions, worker_functions. */
struct role_functions {
    void (*step)(void *role, const struct event *e, struct out *out);
    int64_t (*next_timeout)(const void *role); /* when to step it with TIMER; TIME_NEVER: nothing is due */
    void (*check)(const void *role);           /* aborts when an invariant is broken */
};

#endif
