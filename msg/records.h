/* The records of the journal and of the history. Each is declared here, and nowhere else: the stores
 * (store/records.c), the simulator's store (faults/store.c) and msg_journal_token are generated from the
 * lists.
 *
 * A record is a message that a role puts out (msg/msg.h), under a key. The key consists of the message's
 * own ids and of the part of a job that the record describes. The value is a protobuf message, whose field
 * numbers are the positions in the record's list.
 *
 * A new record needs its message in msg/msg.h, its row in RECORDS with its list of fields, and its handler
 * in the role that reads it back. Append rows and fields at the end of their lists only: records that
 * earlier versions wrote are read by the same numbers. */
#ifndef HAWK_MSG_RECORDS_H
#define HAWK_MSG_RECORDS_H

#include "msg/msg.h"

/* The tables of records, in the order in which they are read back. T(TABLE, text, digits): text and digits
 * make the key in etcd (store/etcd_read.c). 0 digits: the table has one record at most. */
#define RECORD_TABLES(T)                                                                                     \
    T(HISTORY, "history/", 16)                                                                               \
    T(POLICY, "policy/choice", 0)                                                                            \
    T(CLUSTER, "cluster/former", 0)                                                                          \
    T(NUMBERS, "numbers/next", 0)                                                                            \
    T(NODE, "node/", 8)                                                                                      \
    T(JOB, "job/", 16)                                                                                       \
    T(ADMITTED, "admitted/", 16)

enum record_table {
#define T(TABLE, text, digits) TABLE_##TABLE,
    RECORD_TABLES(T)
#undef T
        TABLE_COUNT
};

/* The parts of a job, in the order in which they are read back: the job itself, its tasks by number, and
 * records of the job as a whole. P(PART, text): text is the part's key in etcd, which orders parts by
 * their texts. */
#define RECORD_PARTS(P)                                                                                      \
    P(CANCEL, "cancel")                                                                                      \
    P(ENDED, "ended")                                                                                        \
    P(OWNER, "owner")                                                                                        \
    P(RELEASED, "released")                                                                                  \
    P(WAITS, "waits")

enum record_part {
    PART_JOB,
    PART_TASK, /* of task 0; the other tasks follow */
    PART_TASK_END = PART_TASK + LIMIT_TASKS_PER_JOB,
    PART_FIRST = 0x01000000, /* leaves room for larger jobs */
#define P(PART, text) PART_##PART,
    RECORD_PARTS(P)
#undef P
        PART_END,
    /* The first and the last part that is of the job as a whole. */
    PART_SAID = PART_FIRST + 1,
    PART_SAID_LAST = PART_END - 1,
};
_Static_assert((int)PART_TASK_END <= (int)PART_FIRST,
               "a job's tasks come before what is said of it as a whole");

/* R(NAME, name, TABLE, ids, PART): which ids of the message are in its key:
 *   none          no id
 *   next          a number that grows with every such record; it is the store's
 *   node          the node
 *   job           the job and its epoch
 *   task          the try without its attempt
 *   use           the use of an invitation */
#define JOURNAL_RECORDS(R)                                                                                   \
    R(JOURNAL_POLICY, journal_policy, POLICY, none, JOB)                                                     \
    R(JOURNAL_CLUSTER, journal_cluster, CLUSTER, none, JOB)                                                  \
    R(JOURNAL_NUMBERS, journal_numbers, NUMBERS, none, JOB)                                                  \
    R(JOURNAL_NODE, journal_node, NODE, node, JOB)                                                           \
    R(JOURNAL_JOB, journal_job, JOB, job, JOB)                                                               \
    R(JOURNAL_TASK, journal_task, JOB, task, TASK)                                                           \
    R(JOURNAL_CANCEL, journal_cancel, JOB, job, CANCEL)                                                      \
    R(JOURNAL_ENDED, journal_ended, JOB, job, ENDED)                                                         \
    R(JOURNAL_OWNER, journal_owner, JOB, job, OWNER)                                                         \
    R(JOURNAL_RELEASED, journal_released, JOB, job, RELEASED)                                                \
    R(JOURNAL_ADMITTED, journal_admitted, ADMITTED, use, JOB)                                                \
    R(JOURNAL_WAITS, journal_waits, JOB, job, WAITS)
#define RECORDS(R) R(HISTORY, history, HISTORY, next, JOB) JOURNAL_RECORDS(R)

/* V(kind, name, value, max): kinds are those of net/fields.h and of store/records.c. A number is within
 * [0, max]; a name has at most max bytes; where max is -, every value is good. p is the message. */
#define VALUES_history(V)                                                                                    \
    V(blob, name, p->name, LIMIT_NAME_BYTES)                                                                 \
    V(i64, mean_us, p->mean_us, LIMIT_TIME_US)                                                               \
    V(varint, task_us, p->task_us, INT64_MAX)                                                                \
    V(u32, tasks, p->tasks, UINT32_MAX)                                                                      \
    V(u8, class, p->class, CLASS_COUNT - 1)                                                                  \
    V(u32, user, p->user, UINT32_MAX)
/* The masks say which flags and numbers were chosen. */
#define VALUES_journal_policy(V)                                                                             \
    V(preset, preset, p->choice->preset, -)                                                                  \
    V(u32, flags, p->choice->flags, UINT32_MAX)                                                              \
    V(u32, on, p->choice->v.flags, UINT32_MAX)                                                               \
    V(u8, numbers, p->choice->numbers, POLICY_NUMBERS_ALL)                                                   \
    V(i64, cutoff_us, p->choice->v.cutoff_us, LIMIT_TIME_US)                                                 \
    V(u32, short_share_ppm, p->choice->v.short_share_ppm, 1000000)                                           \
    V(u32, probe_ratio_milli, p->choice->v.probe_ratio_milli, 1000000)                                       \
    V(u32, min_probes, p->choice->v.min_probes, LIMIT_TASKS_PER_JOB)                                         \
    V(u16, steal_cap, p->choice->v.steal_cap, UINT16_MAX)                                                    \
    V(u16, steal_max, p->choice->v.steal_max, UINT16_MAX)                                                    \
    V(u16, short_first, p->choice->v.short_first, LIMIT_SHORT_FIRST)                                         \
    V(varint, configured, p->configured, UINT64_MAX)                                                         \
    V(at, at_us, *ago_us, -)
#define VALUES_journal_cluster(V)                                                                            \
    V(varint, former, p->former, UINT64_MAX)                                                                 \
    V(node, node, p->node, NODE_ID_MAX)                                                                      \
    V(u8, young, p->young, 1)
#define VALUES_journal_numbers(V) V(varint, next, p->next, JOB_SEQ_MAX + 1)
#define VALUES_journal_node(V)                                                                               \
    V(blob, name, p->name, LIMIT_NAME_BYTES)                                                                 \
    V(u8, role, p->role, ROLE_COUNT - 1)                                                                     \
    V(u8, drained, p->drained, 1)                                                                            \
    V(varint, next_seq, p->next_seq, JOB_SEQ_MAX + 1)
/* chunks, generation: etcd keeps a record that is too large for one key in pieces (store/etcd_read.c). */
#define VALUES_journal_job(V)                                                                                \
    V(i64, estimate_us, p->estimate_us, LIMIT_TIME_US)                                                       \
    V(u8, why, p->why, WHY_COUNT - 1)                                                                        \
    V(tasks, tasks, p->tasks, -)                                                                             \
    V(desc, desc, p->desc, -)                                                                                \
    V(none, chunks, unused, -)                                                                               \
    V(none, generation, unused, -)                                                                           \
    V(u16, life, p->life, UINT16_MAX)                                                                        \
    V(u16, handed, p->handed, UINT16_MAX)                                                                    \
    V(u8, class, p->class, CLASS_COUNT - 1)                                                                  \
    V(at, at_us, *ago_us, -)
#define VALUES_journal_task(V)                                                                               \
    V(u16, attempt, p->id.attempt, UINT16_MAX)                                                               \
    V(int64, run_us, p->run_us, -)                                                                           \
    V(int32, code, p->code, -)                                                                               \
    V(u8, state, p->state, TASK_STATE_COUNT - 1)                                                             \
    V(u8, outcome, p->outcome, OUTCOME_COUNT - 1)                                                            \
    V(node, worker, p->worker, NODE_ID_MAX)                                                                  \
    V(u8, failures, p->failures, LIMIT_FAILURE_RETRIES)                                                      \
    V(figure, cpu_us, p->used.cpu_us, -)                                                                     \
    V(figure, mem_peak_bytes, p->used.mem_peak_bytes, -)                                                     \
    V(u8, losses, p->losses, UINT8_MAX)
#define VALUES_journal_cancel(V)
#define VALUES_journal_ended(V)                                                                              \
    V(i64, cutoff_us, p->cutoff_us, LIMIT_TIME_US)                                                           \
    V(i64, response_us, p->response_us, LIMIT_TIME_US)                                                       \
    V(at, at_us, *ago_us, -)                                                                                 \
    V(u32, left_out, p->left_out, LIMIT_TASKS_PER_JOB)                                                       \
    V(u8, state, p->state, JOB_STATE_COUNT - 1)                                                              \
    V(u8, promoted, p->promoted, 1)
#define VALUES_journal_admitted(V)                                                                           \
    V(blob, name, p->name, LIMIT_NAME_BYTES)                                                                 \
    V(varint, invitation, p->invitation, UINT64_MAX)                                                         \
    V(u8, role, p->role, ROLE_COUNT - 1)                                                                     \
    V(at, at_us, *ago_us, -)
#define VALUES_journal_owner(V) V(u16, owner, p->owner, UINT16_MAX)
#define VALUES_journal_waits(V)                                                                              \
    V(u32, met, p->met, UINT32_MAX)                                                                          \
    V(u8, held, p->held, 1)                                                                                  \
    V(varint, cause, p->cause.v, UINT64_MAX)                                                                 \
    V(u8, by_client, p->by_client, 1)                                                                        \
    V(runs, unwanted, p->unwanted, -)
#define VALUES_journal_released(V) V(u32, upto, p->upto, LIMIT_TASKS_PER_JOB)

/* Records are read back in the order of these members. */
struct record_key {
    enum record_table table;
    uint16_t epoch;
    uint32_t part; /* enum record_part, and so a task's number */
    uint64_t id;   /* of the job or of the node; history: the record's number */
};

/* Sets *k to the key of a message's record. False: this message is no record. JOURNAL_JOB_END has the key
 * of the job that it removes. */
bool record_key_of(const struct msg *m, struct record_key *k);
/* Sets m to the message with this key: its type and its ids; the rest is zeroed. False: no message has
 * this key. */
bool record_of_key(const struct record_key *k, struct msg *m);
/* Whether both are of one job, in one epoch. */
static inline bool record_same_job(const struct record_key *a, const struct record_key *b)
{
    return a->table == TABLE_JOB && b->table == TABLE_JOB && a->id == b->id && a->epoch == b->epoch;
}

#endif
