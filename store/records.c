/* Records to bytes and back: see records.h. */
#include "store/records.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "net/fields.h"
#include "net/submission.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLACK (64u << 10) /* memory that an entry may hold beyond its bytes */

/* ---- Kinds of fields that only records have ---- */

/* Little-endian u32s. Absent means all tasks of the job. */
static void put_tasks(struct codec_buf *b, uint32_t tag, const struct task_set *v)
{
    if (!v)
        return;
    size_t start = wire_begin(b, tag);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t task = htole32(v->v[i]);

        wire_put_raw(b, &task, sizeof task);
    }
    wire_end(b, start);
}

static bool get_tasks(struct wire *s, pb_wire_type_t wire, struct task_set **v)
{
    uint32_t len, task;

    if (!get_length(s, wire, &len) || len / sizeof task > LIMIT_TASKS_PER_JOB)
        return false;
    task_set_drop(*v);
    *v = task_set_new(len / sizeof task);
    for (uint32_t i = 0; i < (*v)->n && wire_read_bytes(s, &task, sizeof task); i++) {
        (*v)->v[i] = le32toh(task);
        if (i > 0 && (*v)->v[i] <= (*v)->v[i - 1])
            return false;
    }
    return len % sizeof task == 0;
}

/* Runs of tasks: how many are left out before each, and how many more than one it has. */
static void put_runs(struct codec_buf *b, uint32_t tag, const struct task_set *v)
{
    uint32_t next = 0;

    if (!v)
        return;
    size_t start = wire_begin(b, tag);
    for (uint32_t i = 0, k; i < v->n; i = k) {
        for (k = i + 1; k < v->n && v->v[k] == v->v[k - 1] + 1; k++)
            ;
        wire_put_varint(b, v->v[i] - next);
        wire_put_varint(b, k - i - 1);
        next = v->v[k - 1] + 1;
    }
    wire_end(b, start);
}

static bool get_run(struct wire *s, struct task_set *v, uint64_t *next)
{
    uint64_t gap, more;

    if (!wire_read_varint(s, &gap) || !wire_read_varint(s, &more) || gap >= LIMIT_TASKS_PER_JOB ||
        more >= LIMIT_TASKS_PER_JOB || *next + gap + more >= LIMIT_TASKS_PER_JOB)
        return false;
    *next += gap;
    for (uint64_t end = *next + more + 1; *next < end; (*next)++)
        v->v[v->n++] = (uint32_t)*next;
    return true;
}

static bool get_runs(struct wire *s, pb_wire_type_t wire, struct task_set **v)
{
    uint64_t next = 0;
    struct wire part;

    if (wire != PB_WT_STRING || !wire_read_part(s, &part))
        return false;
    task_set_drop(*v);
    *v = task_set_new(LIMIT_TASKS_PER_JOB);
    (*v)->n = 0;
    while (wire_left(&part))
        if (!get_run(&part, *v, &next))
            return false;
    return true;
}

static void put_desc(struct codec_buf *b, uint32_t tag, const struct job_desc *v)
{
    if (!v)
        return;
    size_t start = wire_begin(b, tag);
    codec_desc_encode(b, v, true);
    wire_end(b, start);
}

static bool get_desc(struct wire *s, pb_wire_type_t wire, struct job_desc **v)
{
    char why[200] = "not a description";
    struct job_desc *d = NULL;
    struct span text;

    if (get_span(s, wire, &text) && codec_desc_decode(text.data, text.len, true, &d, why, sizeof why) == 0) {
        submission_tree(d);
        job_desc_drop(*v);
        *v = d;
        return true;
    }
    log_error("a job's description: %s", why);
    return false;
}

/* Writes the present time, in Unix time. Reads how long ago that was, which is never negative: the clock
 * may have been put back. */
static void put_at(struct codec_buf *b, uint32_t tag, int64_t ago_us)
{
    put_i64(b, tag, clock_us(CLOCK_REALTIME));
}

static bool get_at(struct wire *s, pb_wire_type_t wire, int64_t *ago_us)
{
    const int64_t now_us = clock_us(CLOCK_REALTIME);
    int64_t at_us;

    if (!get_i64(s, wire, &at_us))
        return false;
    *ago_us = at_us >= now_us ? 0 : now_us - at_us < LIMIT_TIME_US ? now_us - at_us : LIMIT_TIME_US;
    return true;
}

/* Writes a policy by its name. */
static void put_preset(struct codec_buf *b, uint32_t tag, uint8_t v)
{
    if (v)
        put_span(b, tag, span_text(policy_names[v - 1]));
}

static bool get_preset(struct wire *s, pb_wire_type_t wire, uint8_t *v)
{
    struct span name;

    if (!get_span(s, wire, &name))
        return false;
    *v = policy_preset_number(name.data, name.len);
    return *v != 0;
}

/* ---- Whether a value is one, kind by kind ---- */

static bool name_ok(const struct blob *v, uint32_t max)
{
    return !v || (v->len <= max && !memchr(v->data, '\0', v->len));
}

#define OK_number(v, max) ((uint64_t)(v) <= (uint64_t)(max))
#define OK_u8 OK_number
#define OK_u16 OK_number
#define OK_u32 OK_number
#define OK_i64 OK_number
#define OK_varint OK_number
#define OK_node(id, max) OK_number((id).v, max)
#define OK_blob(v, max) name_ok(v, max)
#define OK_desc(v, max) true
#define OK_none(v, max) true
#define OK_int32(v, max) true
#define OK_int64(v, max) true
#define OK_tasks(v, max) true
#define OK_runs(v, max) true
#define OK_preset(v, max) true
#define OK_at(v, max) true
#define OK_figure(v, max) true

/* A chosen number that is 0 has no field. So the choice as a whole is checked. */
static bool choice_ok(const struct policy_choice *c)
{
    const char *field;
    struct policy p;

    if (policy_preset(policy_names[0], &p))
        return false;
    policy_choose(&p, c);
    return policy_check(&p, &field) == 0;
}

/* A name that is not in the record was empty. */
static void fill_name(struct blob **v)
{
    if (!*v)
        *v = blob_new(NULL, 0);
}
static void fill_none(const void *v) {}

/* ---- Values ---- */

#define V_PUT(kind, name, value, max) put_##kind(b, number_##name, value);
#define V_GET(kind, name, value, max)                                                                        \
    case number_##name:                                                                                      \
        ok = get_##kind(s, wire, &(value));                                                                  \
        break;
#define V_FILL(kind, name, value, max)                                                                       \
    _Generic((value), struct blob * : fill_name, default : fill_none)((void *)&(value));
#define V_OK(kind, name, value, max) &&OK_##kind(value, max)

#define R(NAME, name, TABLE, ids, PART)                                                                      \
    static void put_##name(struct codec_buf *b, const struct msg_##name *p)                                  \
    {                                                                                                        \
        enum { number_0, VALUES_##name(NUMBER) };                                                            \
        const int64_t none = 0, *ago_us = &none;                                                             \
        const uint8_t unused = 0;                                                                            \
                                                                                                             \
        (void)p, (void)ago_us, (void)unused;                                                                 \
        VALUES_##name(V_PUT)                                                                                 \
    }                                                                                                        \
    static bool read_##name(struct wire *s, struct msg_##name *p, int64_t *ago_us)                           \
    {                                                                                                        \
        enum { number_0, VALUES_##name(NUMBER) };                                                            \
        uint8_t unused;                                                                                      \
                                                                                                             \
        (void)unused;                                                                                        \
        READ_FIELDS(s, VALUES_##name(V_GET))                                                                 \
    }                                                                                                        \
    static bool ok_##name(const struct msg_##name *p) { return true VALUES_##name(V_OK); }                   \
    static bool get_##name(struct wire *s, struct msg_##name *p, int64_t *ago_us)                            \
    {                                                                                                        \
        const uint8_t unused = 0;                                                                            \
                                                                                                             \
        (void)unused;                                                                                        \
        if (!read_##name(s, p, ago_us))                                                                      \
            return false;                                                                                    \
        VALUES_##name(V_FILL) return ok_##name(p);                                                           \
    }
RECORDS(R)
#undef R

static void put_value(struct codec_buf *b, const struct msg *m)
{
    switch (m->type) {
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    case MSG_##NAME:                                                                                         \
        put_##name(b, &m->name);                                                                             \
        break;
        RECORDS(R)
#undef R
    }
}

static bool get_value(struct wire *s, struct msg *m, int64_t *ago_us)
{
    switch (m->type) {
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    case MSG_##NAME:                                                                                         \
        return get_##name(s, &m->name, ago_us);
        RECORDS(R)
#undef R
    }
    return false;
}

/* Whether the value that the message is written as will be read back as one. */
static bool value_ok(const struct msg *m)
{
    if (m->type == MSG_JOURNAL_POLICY && !choice_ok(m->journal_policy.choice))
        return false;
    switch (m->type) {
#define R(NAME, name, TABLE, ids, PART)                                                                      \
    case MSG_##NAME:                                                                                         \
        return ok_##name(&m->name);
        RECORDS(R)
#undef R
    }
    return false;
}

int record_decode(const struct record_key *k, struct span value, struct msg *m, int64_t *ago_us)
{
    struct wire s = wire_of(value.data, value.len);

    *ago_us = -1;
    if (!record_of_key(k, m))
        return HAWK_ECORRUPT;
    if (m->type == MSG_JOURNAL_POLICY)
        m->journal_policy.choice = policy_choice_new();
    if (!get_value(&s, m, ago_us) ||
        (m->type == MSG_JOURNAL_POLICY && !choice_ok(m->journal_policy.choice)) ||
        (m->type == MSG_JOURNAL_JOB && !m->journal_job.desc)) {
        msg_drop(m);
        return HAWK_ECORRUPT;
    }
    if (m->type == MSG_JOURNAL_POLICY)
        m->journal_policy.ago_us = *ago_us;
    else if (m->type == MSG_JOURNAL_ENDED)
        m->journal_ended.ago_us = *ago_us;
    else if (m->type == MSG_JOURNAL_ADMITTED)
        m->journal_admitted.ago_us = *ago_us;
    return 0;
}

/* ---- Entries ---- */

static enum entry_change change_of(const struct msg *m)
{
    switch (m->type) {
    case MSG_HISTORY:
        return ENTRY_APPEND;
    case MSG_JOURNAL_JOB:
        return m->journal_job.desc ? ENTRY_JOB : ENTRY_JOB_CHANGE;
    case MSG_JOURNAL_ENDED:
        return ENTRY_JOB_ENDED;
    case MSG_JOURNAL_JOB_END:
        return ENTRY_REMOVE_JOB;
    case MSG_JOURNAL_POLICY:
        return m->journal_policy.choice ? ENTRY_PUT : ENTRY_REMOVE;
    default:
        return ENTRY_PUT;
    }
}

struct entry *record_entry_new(const struct msg *m)
{
    struct record_key key;
    struct entry *e;

    if (!record_key_of(m, &key) || (change_of(m) < ENTRY_REMOVE && !value_ok(m)))
        return NULL;
    e = xcalloc(1, sizeof *e);
    e->key = key;
    e->change = change_of(m);
    e->token = msg_journal_token(m);
    e->user = m->type == MSG_HISTORY ? m->history.user : 0;
    if (e->change < ENTRY_REMOVE)
        put_value(&e->value, m);
    if (e->value.cap - e->value.len > SLACK)
        e->value.data = xrealloc(e->value.data, e->value.cap = e->value.len);
    return e;
}

void record_entry_free(struct entry *e)
{
    codec_buf_free(&e->value);
    free(e);
}

/* ---- Parts of a job's value ---- */

void record_copy_job(struct codec_buf *to, struct span from, uint32_t fields)
{
    struct wire s = wire_of(from.data, from.len);
    struct wire_field f;

    while (wire_next(&s, &f) > 0) {
        if (f.tag >= 32 || !(fields & 1u << f.tag))
            continue;
        if (f.is_bytes)
            wire_put_bytes(to, f.tag, f.bytes.data, f.bytes.len);
        else
            put_varint(to, f.tag, f.number);
    }
}

void record_put_desc(struct codec_buf *to, const struct job_desc *d) { put_desc(to, JOB_FIELD_desc, d); }

/* ---- For people ---- */

const char *record_text(char text[RECORD_TEXT], const struct record_key *k)
{
    char id[JOB_ID_TEXT] = "";
    struct msg m;
    bool known = record_of_key(k, &m);

    if (k->table == TABLE_JOB)
        job_id_format(id, (job_id_t){k->id});
    else
        snprintf(id, sizeof id, "%" PRIu64, k->id);
    snprintf(text, RECORD_TEXT, "%s of %s%s", known ? msg_name(m.type) : "a record",
             k->table == TABLE_JOB ? "job " : "number ", id);
    return text;
}
