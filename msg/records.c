/* Keys of records: see records.h. */
#include "msg/records.h"

/* For each kind of ids: IDS_ puts them into the key, BACK_ takes them from it. */
#define IDS_none(p)
#define IDS_next(p)
#define IDS_node(p) k->id = (p)->node.v;
#define IDS_job(p) k->id = (p)->job.v, k->epoch = (p)->epoch;
#define IDS_task(p) k->id = (p)->id.job.v, k->epoch = (p)->id.epoch, k->part += (p)->id.task;
#define IDS_use(p) k->id = (p)->use;

#define BACK_none(p)
#define BACK_next(p)
#define BACK_node(p) (p)->node.v = (uint32_t)k->id;
#define BACK_job(p) (p)->job.v = k->id, (p)->epoch = k->epoch;
#define BACK_task(p) (p)->id = (struct try_id){{k->id}, k->part - PART_TASK, k->epoch, 0};
#define BACK_use(p) (p)->use = k->id;

/* Whether the rest of a key is good, given its table and part. */
#define GOOD_none(first) (k->part == (first) && k->id == 0 && k->epoch == 0)
#define GOOD_next(first) (k->part == (first) && k->epoch == 0)
#define GOOD_node(first) (k->part == (first) && k->id <= NODE_ID_MAX && k->epoch == 0)
#define GOOD_job(first) (k->part == (first))
#define GOOD_task(first) (k->part >= (first) && k->part < PART_TASK_END)
#define GOOD_use(first) (k->part == (first) && k->epoch == 0)

bool record_key_of(const struct msg *m, struct record_key *k)
{
    switch (m->type) {
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    case MSG_##NAME:                                                                                         \
        *k = (struct record_key){.table = TABLE_##TABLE, .part = PART_##PART};                               \
        IDS_##ids(&m->name) return true;
        RECORDS(R)
        R(JOURNAL_JOB_END, journal_job_end, JOB, job, JOB)
#undef R
    default:
        return false;
    }
}

bool record_of_key(const struct record_key *k, struct msg *m)
{
    *m = (struct msg){.type = MSG_NONE};
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    if (k->table == TABLE_##TABLE && GOOD_##ids(PART_##PART)) {                                              \
        m->type = MSG_##NAME;                                                                                \
        BACK_##ids(&m->name)                                                                                 \
    }
    RECORDS(R)
#undef R
    return m->type != MSG_NONE;
}

uint64_t msg_journal_token(const struct msg *m)
{
    switch (m->type) {
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    case MSG_##NAME:                                                                                         \
        return m->name.token;
        JOURNAL_RECORDS(R)
        R(JOURNAL_JOB_END, journal_job_end, JOB, job, JOB)
#undef R
    default:
        return 0;
    }
}
