/* The store in etcd: opening and writing.
 *
 * Every transaction is conditional twice. On the leader's key being the one of our reign: so a leader that was replaced
 * writes nothing, however late its request arrives. And on `commit` being as the last transaction left it: so a request
 * whose answer was lost, and that is therefore made again, is done once or twice in a row, but never after a later one. */
#include "base/check.h"
#include "base/entropy.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "store.pb.h"
#include "store/etcd_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_ALL UINT32_MAX
#define ATTEMPTS 3 /* of a transaction, while answers were lost before */
#define OPS_PER_ENTRY 3
#define OPS_BESIDE 2 /* `commit`, and trimming the history */

void etcd_key(const struct backend *b, char key[ETCD_KEY_MAX], const char *fmt, ...)
{
    int n = snprintf(key, ETCD_KEY_MAX, "%s/", b->prefix);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(key + n, ETCD_KEY_MAX - (size_t)n, fmt, ap);
    va_end(ap);
}

int etcd_failed(struct backend *b)
{
    snprintf(b->why, sizeof b->why, "%s", etcd_why(b->etcd));
    return HAWK_EIO;
}

/* Of JOURNAL_CLUSTER, under meta/. */
#define ETCD_META_FORMER "former"
#define ETCD_META_FIRST_NODE "first_node"
#define ETCD_META_YOUNG "young"

/* ---- Reading ---- */

struct page {
    struct etcd_row *v;
    uint32_t n, cap;
};

static int take_row(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    struct etcd_row *row;

    vec_grow(p->v, p->n, p->cap);
    row = &p->v[p->n++];
    row->key = xcalloc(1, kv->key.len + 1);
    memcpy(row->key, kv->key.data, kv->key.len);
    row->value = xmalloc(kv->value.len + 1);
    if (kv->value.len)
        memcpy(row->value, kv->value.data, kv->value.len);
    row->value[kv->value.len] = '\0';
    row->len = kv->value.len;
    return 0;
}

static void page_clear(struct page *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        free(p->v[i].key);
        free(p->v[i].value);
    }
    p->n = 0;
}

int etcd_scan(struct backend *b, const char *from, const char *to, int64_t page, bool keys_only,
              int (*fn)(void *arg, const struct etcd_row *row), void *arg)
{
    char next[ETCD_KEY_MAX + 2];
    struct page p = {0};
    struct etcd_range r = {.to = to, .limit = page, .keys_only = keys_only, .fn = take_row, .arg = &p};
    int err = 0;

    snprintf(next, sizeof next, "%s", from);
    do {
        page_clear(&p);
        r.from = next;
        if (etcd_range(b->etcd, &r, ETCD_CALL_US)) {
            err = etcd_failed(b);
            break;
        }
        r.revision = r.seen_revision; /* what follows is of the same moment */
        for (uint32_t i = 0; !err && i < p.n; i++)
            err = fn(arg, &p.v[i]);
        if (p.n) /* '!' comes before everything that our keys are made of */
            snprintf(next, sizeof next, "%s!", p.v[p.n - 1].key);
    } while (!err && r.more && p.n);
    page_clear(&p);
    free(p.v);
    return err;
}

struct one {
    bool there;
    int64_t created, changed;
    char value[100];
};

static int take_one(void *arg, const struct etcd_kv *kv)
{
    struct one *o = arg;

    o->there = true;
    o->created = kv->create_revision;
    o->changed = kv->mod_revision;
    snprintf(o->value, sizeof o->value, "%.*s", (int)kv->value.len, (const char *)kv->value.data);
    return 0;
}

static int read_one(struct backend *b, const char *key, struct one *o)
{
    struct etcd_range r = {.from = key, .fn = take_one, .arg = o};

    *o = (struct one){0};
    return etcd_range(b->etcd, &r, ETCD_CALL_US) ? etcd_failed(b) : 0;
}

/* ---- Transactions ---- */

static void begin(struct backend *b)
{
    etcd_txn_clear(&b->txn);
    b->n_touched = 0;
    b->txn_history = b->history;
    b->txn_forgets = false;
}

static int stale(struct backend *b)
{
    snprintf(b->why, sizeof b->why, "another central leads: nothing more is written here");
    return HAWK_ESTALE;
}

/* The conditions did not hold: 1, because an earlier attempt went through, of which we had not heard; 0: this one had, and
 * it is done. */
static int look(struct backend *b, const char *value)
{
    struct one commit, leader;

    if (read_one(b, b->commit_key, &commit) || read_one(b, b->leader_key, &leader))
        return HAWK_EIO;
    if (strcmp(commit.value, value) != 0) {
        if (leader.created != b->revision || strtoul(commit.value, NULL, 10) != b->epoch)
            return stale(b);
        b->commit_rev = commit.changed;
        return 1;
    }
    b->commit_rev = commit.changed;
    return 0;
}

int etcd_commit(struct backend *b)
{
    const size_t ops = b->txn.ops.len;
    const unsigned n_ops = b->txn.n_ops;
    char value[100];
    int err = 1;

    for (int i = 0; err == 1 && i < ATTEMPTS; i++) {
        int64_t revision = 0;
        bool done = false;

        b->txn.ops.len = ops;
        b->txn.n_ops = n_ops;
        b->txn.compares.len = 0;
        snprintf(value, sizeof value, "%" PRIu32 " %" PRIu64 " %" PRIu64, b->epoch, ++b->attempt,
                 b->txn_history);
        etcd_txn_if_created(&b->txn, b->leader_key, b->revision);
        etcd_txn_if_changed(&b->txn, b->commit_key, b->commit_rev);
        etcd_txn_put(&b->txn, b->commit_key, span_text(value), 0);
        if (etcd_txn_run(b->etcd, &b->txn, ETCD_CALL_US, &done, &revision))
            return etcd_failed(b);
        if (done)
            b->commit_rev = revision;
        err = done ? 0 : look(b, value);
    }
    if (err == 1) {
        snprintf(b->why, sizeof b->why, "earlier transactions arrive late");
        err = HAWK_EIO;
    }
    if (!err) {
        b->history = b->txn_history;
        if (b->txn_forgets)
            b->forgot_rev = b->commit_rev;
    }
    return err;
}

/* ---- Entries ---- */

static bool is_big(const struct entry *e) { return e->text_len + e->tasks_len > ETCD_INLINE_BYTES; }

static struct touched touched_by(const struct entry *e)
{
    switch (e->m.type) {
    case MSG_JOURNAL_NODE:
        return (struct touched){.node = e->m.journal_node.node.v};
    case MSG_JOURNAL_CLUSTER:
    case MSG_JOURNAL_POLICY:
        return (struct touched){.node = TOUCHED_SINGLE};
    case MSG_JOURNAL_JOB:
        return (struct touched){
            .job = e->m.journal_job.job.v, .epoch = e->m.journal_job.epoch, .task = TASK_ALL};
    case MSG_JOURNAL_TASK:
        return (struct touched){.job = e->m.journal_task.id.job.v,
                                .epoch = e->m.journal_task.id.epoch,
                                .task = e->m.journal_task.id.task};
    case MSG_JOURNAL_CANCEL:
        return (struct touched){
            .job = e->m.journal_cancel.job.v, .epoch = e->m.journal_cancel.epoch, .task = TASK_ALL};
    case MSG_JOURNAL_OWNER:
        return (struct touched){
            .job = e->m.journal_owner.job.v, .epoch = e->m.journal_owner.epoch, .task = TASK_ALL};
    case MSG_JOURNAL_JOB_END:
        return (struct touched){
            .job = e->m.journal_job_end.job.v, .epoch = e->m.journal_job_end.epoch, .task = TASK_ALL};
    default:
        return (struct touched){0}; /* a key of its own each time */
    }
}

static bool collides(const struct touched *a, const struct touched *b)
{
    if (a->node || b->node)
        return a->node == b->node;
    return a->job && a->job == b->job && a->epoch == b->epoch &&
           (a->task == b->task || a->task == TASK_ALL || b->task == TASK_ALL);
}

/* etcd does not take two operations on one key in a transaction. */
static bool fits(const struct backend *b, const struct entry *e)
{
    const struct touched t = touched_by(e);

    if (is_big(e) || b->n_touched == ETCD_TXN_OPS ||
        b->txn.n_ops + OPS_PER_ENTRY + OPS_BESIDE > ETCD_TXN_OPS ||
        b->txn.ops.len + e->bytes > ETCD_TXN_BYTES)
        return false;
    for (unsigned i = 0; i < b->n_touched; i++)
        if (collides(&b->touched[i], &t))
            return false;
    return true;
}

static void put(struct backend *b, const char *key) { etcd_txn_put(&b->txn, key, span_of(&b->value), 0); }

static void add_node(struct backend *b, const struct entry *e)
{
    char key[ETCD_KEY_MAX];

    wire_put_bytes(&b->value, hawk_store_Node_name_tag, (struct span){e->text, e->text_len});
    wire_put_number(&b->value, hawk_store_Node_role_tag, e->m.journal_node.role);
    wire_put_number(&b->value, hawk_store_Node_drained_tag, e->m.journal_node.drained);
    wire_put_number(&b->value, hawk_store_Node_next_seq_tag, e->m.journal_node.next_seq);
    etcd_key(b, key, "node/%08" PRIx32, e->m.journal_node.node.v);
    put(b, key);
}

static void encode_texts(struct codec_buf *to, const struct entry *e)
{
    if (e->tasks)
        wire_put_bytes(to, hawk_store_Job_tasks_tag, (struct span){e->tasks, e->tasks_len});
    wire_put_bytes(to, hawk_store_Job_desc_tag, (struct span){e->text, e->text_len});
}

/* chunks 0: everything is in the row. What an earlier row of the job had in pieces goes. */
static void add_job(struct backend *b, const struct entry *e, uint32_t chunks, const char *generation)
{
    const struct msg_journal_job *j = &e->m.journal_job;
    char key[ETCD_KEY_MAX], to[ETCD_KEY_MAX];

    if (!e->text) /* a dist's */
        return;
    wire_put_number(&b->value, hawk_store_Job_estimate_us_tag, (uint64_t)j->estimate_us);
    wire_put_number(&b->value, hawk_store_Job_why_tag, j->why);
    if (chunks) {
        wire_put_number(&b->value, hawk_store_Job_chunks_tag, chunks);
        wire_put_bytes(&b->value, hawk_store_Job_generation_tag, span_text(generation));
    } else {
        encode_texts(&b->value, e);
    }
    etcd_key(b, key, "job/" JOB_KEY, j->job.v, j->epoch);
    put(b, key);
    etcd_key(b, key, "job/" JOB_KEY "/cancel", j->job.v, j->epoch);
    etcd_txn_delete(&b->txn, key, NULL);
    etcd_key(b, key, "job/" JOB_KEY "/owner", j->job.v, j->epoch);
    etcd_txn_delete(&b->txn, key, NULL);
    etcd_key(b, key, "desc/" JOB_KEY "/", j->job.v, j->epoch);
    if (chunks)
        etcd_key(b, to, "desc/" JOB_KEY "/%s", j->job.v, j->epoch, generation);
    else
        etcd_key(b, to, "desc/" JOB_KEY "0", j->job.v, j->epoch);
    etcd_txn_delete(&b->txn, key, to);
}

static void add_task(struct backend *b, const struct entry *e)
{
    const struct msg_journal_task *t = &e->m.journal_task;
    char key[ETCD_KEY_MAX];

    wire_put_number(&b->value, hawk_store_Task_attempt_tag, t->id.attempt);
    wire_put_number(&b->value, hawk_store_Task_run_us_tag, (uint64_t)t->run_us);
    wire_put_number(&b->value, hawk_store_Task_code_tag, (uint64_t)(int64_t)t->code);
    wire_put_number(&b->value, hawk_store_Task_state_tag, t->state);
    wire_put_number(&b->value, hawk_store_Task_outcome_tag, t->outcome);
    etcd_key(b, key, "job/" JOB_KEY "/%08" PRIx32, t->id.job.v, t->id.epoch, t->id.task);
    put(b, key);
}

/* Of a job that is not there it is removed by the next recovery. */
static void add_cancel(struct backend *b, const struct msg_journal_cancel *c)
{
    char key[ETCD_KEY_MAX];

    etcd_key(b, key, "job/" JOB_KEY "/cancel", c->job.v, c->epoch);
    put(b, key);
}

static void add_owner(struct backend *b, const struct msg_journal_owner *o)
{
    char key[ETCD_KEY_MAX];

    wire_put_number(&b->value, hawk_store_Owner_owner_tag, o->owner);
    etcd_key(b, key, "job/" JOB_KEY "/owner", o->job.v, o->epoch);
    put(b, key);
}

static void add_number(struct backend *b, const char *name, uint64_t value)
{
    char key[ETCD_KEY_MAX], text[24];

    etcd_key(b, key, "meta/%s", name);
    snprintf(text, sizeof text, "%" PRIu64, value);
    etcd_txn_put(&b->txn, key, span_text(text), 0);
}

static void add_cluster(struct backend *b, const struct msg_journal_cluster *m)
{
    add_number(b, ETCD_META_FORMER, m->former);
    add_number(b, ETCD_META_FIRST_NODE, m->node.v);
    add_number(b, ETCD_META_YOUNG, m->young);
}

static void add_end(struct backend *b, const struct msg_journal_job_end *j)
{
    static const char *const tables[] = {"job", "desc"};
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];

    for (int i = 0; i < 2; i++) { /* '0' comes after '/' */
        etcd_key(b, from, "%s/" JOB_KEY, tables[i], j->job.v, j->epoch);
        etcd_key(b, to, "%s/" JOB_KEY "0", tables[i], j->job.v, j->epoch);
        etcd_txn_delete(&b->txn, from, to);
    }
    b->txn_forgets = true;
}

static void add_history(struct backend *b, const struct entry *e)
{
    const struct msg_history *h = &e->m.history;
    char key[ETCD_KEY_MAX];

    wire_put_bytes(&b->value, hawk_store_History_name_tag, (struct span){e->text, e->text_len});
    wire_put_number(&b->value, hawk_store_History_mean_us_tag, (uint64_t)h->mean_us);
    wire_put_number(&b->value, hawk_store_History_task_us_tag, h->task_us);
    wire_put_number(&b->value, hawk_store_History_tasks_tag, h->tasks);
    wire_put_number(&b->value, hawk_store_History_class_tag, h->class);
    etcd_key(b, key, "history/%016" PRIx64, b->txn_history++);
    put(b, key);
}

static void add_policy(struct backend *b, const struct entry *e)
{
    char key[ETCD_KEY_MAX];

    etcd_key(b, key, "policy/choice");
    if (e->text)
        etcd_txn_put(&b->txn, key, (struct span){e->text, e->text_len}, 0);
    else
        etcd_txn_delete(&b->txn, key, NULL);
}

static void add(struct backend *b, const struct entry *e)
{
    b->touched[b->n_touched++] = touched_by(e);
    b->value.len = 0;
    switch (e->m.type) {
    case MSG_JOURNAL_NODE:
        add_node(b, e);
        break;
    case MSG_JOURNAL_CLUSTER:
        add_cluster(b, &e->m.journal_cluster);
        break;
    case MSG_JOURNAL_JOB:
        add_job(b, e, 0, NULL);
        break;
    case MSG_JOURNAL_TASK:
        add_task(b, e);
        break;
    case MSG_JOURNAL_CANCEL:
        add_cancel(b, &e->m.journal_cancel);
        break;
    case MSG_JOURNAL_OWNER:
        add_owner(b, &e->m.journal_owner);
        break;
    case MSG_JOURNAL_ENDED: /* a dist's */
    case MSG_JOURNAL_NUMBERS:
        break;
    case MSG_JOURNAL_JOB_END:
        add_end(b, &e->m.journal_job_end);
        break;
    case MSG_JOURNAL_POLICY:
        add_policy(b, e);
        break;
    default:
        CHECK(e->m.type == MSG_HISTORY); /* entry_new made no other */
        add_history(b, e);
    }
}

/* The pieces first, then the row that names them: what is cut off in between is nobody's, and removed by the next recovery
 * or with the job. */
static int commit_big(struct backend *b, const struct entry *e)
{
    char generation[ETCD_GENERATION], key[ETCD_KEY_MAX];
    struct codec_buf texts = {0};
    uint32_t n = 0;
    int err = 0;

    snprintf(generation, sizeof generation, "%08" PRIx32 "%016" PRIx64, b->epoch, b->attempt);
    encode_texts(&texts, e);
    for (size_t at = 0; !err && at < texts.len; at += ETCD_CHUNK_BYTES, n++) {
        size_t len = texts.len - at < ETCD_CHUNK_BYTES ? texts.len - at : ETCD_CHUNK_BYTES;

        begin(b);
        etcd_key(b, key, "desc/" JOB_KEY "/%s/%06" PRIx32, e->m.journal_job.job.v, e->m.journal_job.epoch,
                 generation, n);
        etcd_txn_put(&b->txn, key, (struct span){texts.data + at, len}, 0);
        err = etcd_commit(b);
    }
    codec_buf_free(&texts);
    if (err)
        return err;
    begin(b);
    b->value.len = 0;
    add_job(b, e, n, generation);
    return etcd_commit(b);
}

static int op_commit(struct backend *b, const struct entry *first, const struct entry **last)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];

    *last = first;
    if (is_big(first))
        return commit_big(b, first);
    begin(b);
    for (const struct entry *e = first; e && fits(b, e); e = e->next) {
        add(b, e);
        *last = e;
    }
    if (b->txn_history > b->history && b->txn_history > STORE_HISTORY_JOBS) {
        etcd_key(b, from, "history/");
        etcd_key(b, to, "history/%016" PRIx64, b->txn_history - STORE_HISTORY_JOBS);
        etcd_txn_delete(&b->txn, from, to);
    }
    return etcd_commit(b);
}

/* etcd keeps what keys were before until it is compacted. Only who leads asks. One that was replaced a moment ago takes nothing
 * from its successor: all that it ever wrote is older than that one's reign, and so than what that one reads. */
static int op_scrub(struct backend *b)
{
    if (!b->forgot_rev)
        return 0;
    if (etcd_compact(b->etcd, b->forgot_rev, ETCD_COMPACT_US))
        return etcd_failed(b);
    b->forgot_rev = 0;
    return 0;
}

/* ---- Numbers ---- */

static int op_meta_get(struct backend *b, const char *name, uint64_t *value)
{
    char key[ETCD_KEY_MAX];
    struct one o;
    int err;

    etcd_key(b, key, "meta/%s", name);
    err = read_one(b, key, &o);
    if (!err && !o.there)
        return HAWK_ENOT_FOUND;
    *value = strtoull(o.value, NULL, 10);
    return err;
}

static int op_meta_set(struct backend *b, const char *name, uint64_t value)
{
    char key[ETCD_KEY_MAX], text[24];

    begin(b);
    etcd_key(b, key, "meta/%s", name);
    snprintf(text, sizeof text, "%" PRIu64, value);
    etcd_txn_put(&b->txn, key, span_text(text), 0);
    return etcd_commit(b);
}

static int op_recover(struct backend *b, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    struct msg m = {.type = MSG_JOURNAL_CLUSTER};
    uint64_t node = 0, young = 0;
    int err = op_meta_get(b, ETCD_META_FORMER, &m.journal_cluster.former);

    if (!err)
        err = op_meta_get(b, ETCD_META_FIRST_NODE, &node);
    if (!err)
        err = op_meta_get(b, ETCD_META_YOUNG, &young);
    if (err && err != HAWK_ENOT_FOUND)
        return err;
    m.journal_cluster.node = (node_id_t){node < NODE_ID_MAX ? (uint32_t)node : NODE_ID_MAX};
    m.journal_cluster.young = young != 0;
    if (!err)
        fn(arg, &m);
    return etcd_rows_recover(b, fn, arg);
}

/* ---- Opening ---- */

static int not_ours(void *arg, const struct etcd_row *row)
{
    struct backend *b = arg;
    const char *name = row->key + strlen(b->prefix) + 1;

    if (strcmp(name, "leader") == 0 || strcmp(name, "epoch") == 0 || strncmp(name, "standby/", 8) == 0)
        return 0;
    snprintf(b->why, sizeof b->why,
             "the key %.200s is not Hawk's: set central.etcd_prefix to one that nobody else uses", row->key);
    return HAWK_ECORRUPT;
}

static int check_schema(struct backend *b)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    uint64_t schema;
    int err = op_meta_get(b, "schema", &schema);

    if (!err && schema != ETCD_SCHEMA) {
        snprintf(b->why, sizeof b->why,
                 "the keys are of schema %" PRIu64
                 ", this Hawk knows %d: use the version that wrote them, or set "
                 "central.etcd_prefix to another to start with an empty store",
                 schema, ETCD_SCHEMA);
        return HAWK_EVERSION;
    }
    if (err != HAWK_ENOT_FOUND)
        return err;
    etcd_key(b, from, "%s", "");
    snprintf(to, sizeof to, "%s0", b->prefix);
    err = etcd_scan(b, from, to, ETCD_PAGE_ROWS, true, not_ours, b);
    return err ? err : op_meta_set(b, "schema", ETCD_SCHEMA);
}

static int read_start(struct backend *b, uint64_t *cluster)
{
    struct one commit;
    char *at;
    int err = read_one(b, b->commit_key, &commit);

    if (err)
        return err;
    b->commit_rev = commit.changed;
    (void)strtoul(commit.value, &at, 10);
    (void)strtoull(at, &at, 10);
    b->history = strtoull(at, NULL, 10);
    err = check_schema(b);
    if (err)
        return err;
    err = op_meta_get(b, "cluster", cluster);
    if (err == HAWK_ENOT_FOUND)
        err = op_meta_set(b, "cluster", *cluster = entropy_nonzero());
    return err;
}

static void op_close(struct backend *b)
{
    etcd_free(b->etcd);
    etcd_txn_free(&b->txn);
    codec_buf_free(&b->value);
    free(b->prefix);
    free(b->leader_key);
    free(b->commit_key);
    free(b);
}

static const char *op_name(const struct backend *b) { return b->name; }
static const char *op_why(const struct backend *b) { return b->why; }
static void op_interrupt(struct backend *b) { etcd_interrupt(b->etcd); }

const struct backend_ops etcd_rows_ops = {.commit = op_commit,
                                          .recover = op_recover,
                                          .meta_get = op_meta_get,
                                          .meta_set = op_meta_set,
                                          .scrub = op_scrub,
                                          .scrub_ms = ETCD_COMPACT_MS,
                                          .name = op_name,
                                          .why = op_why,
                                          .interrupt = op_interrupt,
                                          .close = op_close};

int etcd_rows_open(const struct store_etcd *c, struct backend **out, uint64_t *cluster, char *why,
                   size_t why_size)
{
    struct backend *b = xcalloc(1, sizeof *b);
    char key[ETCD_KEY_MAX];
    int err;

    b->etcd = etcd_new(c->endpoints);
    b->prefix = xstrdup(c->prefix);
    b->revision = c->revision;
    b->epoch = c->epoch;
    snprintf(b->name, sizeof b->name, "the store in etcd under %.150s/", c->prefix);
    etcd_key(b, key, "leader");
    b->leader_key = xstrdup(key);
    etcd_key(b, key, "commit");
    b->commit_key = xstrdup(key);
    err = read_start(b, cluster);
    b->forgot_rev = b->commit_rev; /* what an earlier leader had no time to ask for */
    if (err) {
        if (why_size)
            snprintf(why, why_size, "%s: %s", b->name, b->why);
        op_close(b);
        return err;
    }
    *out = b;
    return 0;
}
