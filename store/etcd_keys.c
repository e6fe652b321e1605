/* The store in etcd.
 *
 * Every transaction has two conditions. First, the leader's key is that of our reign: so a leader that was
 * replaced writes nothing, however late its request arrives. Second, `commit` is as the last transaction
 * left it: so a request that is made again because its answer was lost runs once, or twice in a row, but
 * never after a later request.
 *
 * Keys, below PREFIX/ (ids in hexadecimal, so that etcd's order is theirs):
 *   leader, epoch                  who leads: leader.h
 *   commit                         "EPOCH NUMBER HISTORY": the last transaction's number, and the next history key
 *   meta/NAME                      a number, in decimal
 *   standby/LEASE                  the address of a central that stands by: leader.c
 *   TABLE/..., job/JOB/EPOCH, job/JOB/EPOCH/PART  records, with the texts of msg/records.h
 *   desc/JOB/EPOCH/GENERATION/NUMBER  a piece of a value that is too large for job/JOB/EPOCH, whose value says
 *                                  how many pieces there are, and of which generation */
#include "store/etcd_keys.h"

#include "base/entropy.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "net/fields.h"
#include "store/etcd_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ETCD_SCHEMA 1
/* A larger value is kept in pieces: a page of records must fit a message, and a piece a transaction. */
#define INLINE_BYTES (16u << 10)
/* The shortest time between two compactions: for each, etcd walks over all its data. */
#define COMPACT_MS 10000
#define COMPACT_US US_PER_S /* to wait for its answer: commits wait meanwhile, and scrub asks again */
#define ATTEMPTS 3          /* of a transaction whose earlier answers were lost */
#define OPS_PER_ENTRY 4
#define OPS_BESIDE 1 /* `commit` */

/* ---- Transactions ---- */

static int op_begin(struct backend *b)
{
    etcd_txn_clear(&b->txn);
    b->n_touched = 0;
    b->txn_history = b->history;
    b->txn_forgets = false;
    return 0;
}

static int lost_leadership(struct backend *b)
{
    snprintf(b->why, sizeof b->why, "another central leads: nothing more is written here");
    return HAWK_ESTALE;
}

/* The conditions did not hold. Returns 1 when an earlier attempt had succeeded without our hearing of it;
 * 0 when this attempt had, and the transaction is done. */
static int look_at_commit(struct backend *b, const char *value)
{
    struct etcd_one commit, leader;

    if (etcd_read_one(b, b->commit_key, &commit) || etcd_read_one(b, b->leader_key, &leader))
        return HAWK_EIO;
    if (strcmp(commit.value, value) != 0) {
        if (leader.created != b->revision || strtoul(commit.value, NULL, 10) != b->epoch)
            return lost_leadership(b);
        b->commit_rev = commit.changed;
        return 1;
    }
    b->commit_rev = commit.changed;
    return 0;
}

/* Runs t, if we lead. Afterwards the history is `history` long. */
static int run_txn(struct backend *b, struct etcd_txn *t, uint64_t history)
{
    const size_t ops = t->ops.len;
    const unsigned n_ops = t->n_ops;
    char value[100];
    int err = 1;

    for (int i = 0; err == 1 && i < ATTEMPTS; i++) {
        int64_t revision = 0;
        bool done = false;

        t->ops.len = ops;
        t->n_ops = n_ops;
        t->compares.len = 0;
        snprintf(value, sizeof value, "%" PRIu32 " %" PRIu64 " %" PRIu64, b->epoch, ++b->attempt, history);
        etcd_txn_if_created(t, b->leader_key, b->revision);
        etcd_txn_if_changed(t, b->commit_key, b->commit_rev);
        etcd_txn_put(t, b->commit_key, span_text(value), 0);
        if (etcd_txn_run(b->etcd, t, ETCD_CALL_US, &done, &revision))
            return etcd_failed(b);
        if (done)
            b->commit_rev = revision;
        err = done ? 0 : look_at_commit(b, value);
    }
    if (err != 1)
        return err;
    snprintf(b->why, sizeof b->why, "earlier transactions arrive late");
    return HAWK_EIO;
}

static int op_commit(struct backend *b)
{
    int err = run_txn(b, &b->txn, b->txn_history);

    if (err)
        return err;
    b->history = b->txn_history;
    if (b->txn_forgets)
        b->forgot_rev = b->commit_rev;
    return 0;
}

static void op_rollback(struct backend *b) {}
static void op_forgot(struct backend *b) { b->txn_forgets = true; }

static bool is_big(struct span value) { return value.len > INLINE_BYTES; }

static bool keys_collide(const struct record_key *a, const struct record_key *b)
{
    if (a->table != b->table || a->id != b->id || a->epoch != b->epoch)
        return false;
    return a->part == b->part || a->part == PART_JOB || b->part == PART_JOB;
}

/* etcd does not allow two operations on one key in a transaction, and reads show what was there before the
 * transaction. */
static bool op_fits(const struct backend *b, const struct entry *e)
{
    if (e->change == ENTRY_JOB_CHANGE || e->change == ENTRY_JOB_ENDED || is_big(span_of(&e->value)) ||
        b->txn.n_ops + OPS_PER_ENTRY + OPS_BESIDE > ETCD_TXN_OPS ||
        b->txn.ops.len + entry_bytes(e) > ETCD_TXN_BYTES)
        return false;
    for (unsigned i = 0; e->change != ENTRY_APPEND && i < b->n_touched; i++)
        if (keys_collide(&b->touched[i], &e->key))
            return false;
    return true;
}

static void touch_key(struct backend *b, const struct record_key *k)
{
    if (b->n_touched < ETCD_TXN_OPS)
        b->touched[b->n_touched++] = *k;
}

/* Writes the pieces in transactions of their own, before the one with the record that names them. If the
 * process dies in between, no record names the pieces; the next recovery removes them, or the job's
 * removal does. */
static int put_pieces(struct backend *b, const struct record_key *k, struct span value,
                      const char *generation, uint32_t *n)
{
    struct etcd_txn t = {0};
    char key[ETCD_KEY_MAX];
    int err = 0;

    *n = 0;
    for (size_t at = 0; !err && at < value.len; at += ETCD_CHUNK_BYTES, ++*n) {
        size_t len = value.len - at < ETCD_CHUNK_BYTES ? value.len - at : ETCD_CHUNK_BYTES;

        etcd_txn_clear(&t);
        etcd_key(b, key, "desc/" JOB_KEY "/%s/%06" PRIx32, k->id, k->epoch, generation, *n);
        etcd_txn_put(&t, key, (struct span){(const uint8_t *)value.data + at, len}, 0);
        err = run_txn(b, &t, b->history);
    }
    etcd_txn_free(&t);
    return err;
}

/* Also removes the pieces of an earlier value. */
static int put_whole_job(struct backend *b, const struct record_key *k, struct span value)
{
    char key[ETCD_KEY_MAX], to[ETCD_KEY_MAX], generation[ETCD_GENERATION];
    struct codec_buf row = {0};
    uint32_t chunks = 0;
    int err = 0;

    snprintf(generation, sizeof generation, "%08" PRIx32 "%016" PRIx64, b->epoch, b->attempt);
    etcd_key(b, to, "desc/" JOB_KEY "0", k->id, k->epoch);
    if (is_big(value)) {
        err = put_pieces(b, k, value, generation, &chunks);
        put_u32(&row, JOB_FIELD_chunks, chunks);
        put_span(&row, JOB_FIELD_generation, span_text(generation));
        value = span_of(&row);
        etcd_key(b, to, "desc/" JOB_KEY "/%s", k->id, k->epoch, generation);
    }
    etcd_record_key(b, key, k);
    etcd_txn_put(&b->txn, key, value, 0);
    etcd_key(b, key, "desc/" JOB_KEY "/", k->id, k->epoch);
    etcd_txn_delete(&b->txn, key, to);
    codec_buf_free(&row);
    return err;
}

static int op_put(struct backend *b, const struct record_key *k, struct span value)
{
    char key[ETCD_KEY_MAX];

    touch_key(b, k);
    if (k->table == TABLE_JOB && k->part == PART_JOB)
        return put_whole_job(b, k, value);
    etcd_record_key(b, key, k);
    etcd_txn_put(&b->txn, key, value, 0);
    return 0;
}

static int op_append(struct backend *b, struct span value, uint64_t *id)
{
    const struct record_key k = {.table = TABLE_HISTORY, .id = b->txn_history++};

    *id = k.id;
    return op_put(b, &k, value);
}

/* '0' comes after '/', and '!' before everything that our keys are made of. */
static int op_remove(struct backend *b, const struct record_key *k, uint32_t last)
{
    const bool whole_job = k->table == TABLE_JOB && k->part == PART_JOB && last == UINT32_MAX;
    struct record_key end = *k;
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX + 1];

    touch_key(b, k);
    end.part = last;
    etcd_record_key(b, from, k);
    if (whole_job) {
        etcd_key(b, to, "job/" JOB_KEY "0", k->id, k->epoch);
        etcd_txn_delete(&b->txn, from, to);
        etcd_key(b, from, "desc/" JOB_KEY "/", k->id, k->epoch);
        etcd_key(b, to, "desc/" JOB_KEY "0", k->id, k->epoch);
    } else if (last != k->part) {
        etcd_record_key(b, to, &end);
        snprintf(to + strlen(to), sizeof to - strlen(to), "!");
    }
    etcd_txn_delete(&b->txn, from, last == k->part ? NULL : to);
    return 0;
}

/* etcd keeps old values of keys until it is compacted. Only the leader asks for that. A leader that was
 * just replaced takes nothing from its successor: all that it ever wrote is older than the successor's
 * reign, and so older than everything that the successor reads. */
static int op_scrub(struct backend *b)
{
    if (!b->forgot_rev)
        return 0;
    if (etcd_compact(b->etcd, b->forgot_rev, COMPACT_US))
        return etcd_failed(b);
    b->forgot_rev = 0;
    return 0;
}

/* ---- Pieces that are nobody's: of transactions that were cut off ---- */

struct orphans {
    struct backend *b;
    char **v;
    uint32_t n, cap;
};

static int note_orphan(void *arg, const struct etcd_row *row)
{
    struct orphans *o = arg;
    const char *at = row->key + strlen(o->b->prefix) + 1 + strlen("desc/");
    struct record_key k;
    char *end;
    bool good = etcd_parse_job(at, &k, &end) && *end == '/';

    for (uint32_t i = 0; good && i < o->b->n_bigs; i++) {
        const struct etcd_big *big = &o->b->bigs[i];
        size_t len = strlen(big->generation);

        if (big->job == k.id && big->epoch == k.epoch && strncmp(end + 1, big->generation, len) == 0 &&
            end[1 + len] == '/')
            return 0;
    }
    vec_grow(o->v, o->n, o->cap);
    o->v[o->n++] = xstrdup(row->key);
    return 0;
}

static int op_sweep(struct backend *b)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    struct orphans o = {.b = b};

    etcd_key(b, from, "desc/");
    etcd_key(b, to, "desc0");
    int err = etcd_scan_keys(b, from, to, ETCD_PAGE_RECORDS, true, note_orphan, &o);
    for (uint32_t i = 0; !err && i < o.n;) {
        op_begin(b);
        b->txn_forgets = true; /* pieces have environments, too */
        for (; i < o.n && b->txn.n_ops < ETCD_TXN_OPS / 2; i++)
            etcd_txn_delete(&b->txn, o.v[i], NULL);
        err = op_commit(b);
    }
    for (uint32_t i = 0; i < o.n; i++)
        free(o.v[i]);
    free(o.v);
    return err;
}

/* ---- Numbers ---- */

static int op_meta_get(struct backend *b, const char *name, uint64_t *value)
{
    char key[ETCD_KEY_MAX];
    struct etcd_one o;

    etcd_key(b, key, "meta/%s", name);
    int err = etcd_read_one(b, key, &o);
    if (!err && !o.there)
        return HAWK_ENOT_FOUND;
    *value = strtoull(o.value, NULL, 10);
    return err;
}

static int op_meta_set(struct backend *b, const char *name, uint64_t value)
{
    char key[ETCD_KEY_MAX], text[24];

    op_begin(b);
    etcd_key(b, key, "meta/%s", name);
    snprintf(text, sizeof text, "%" PRIu64, value);
    etcd_txn_put(&b->txn, key, span_text(text), 0);
    return op_commit(b);
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
    err = etcd_scan_keys(b, from, to, ETCD_PAGE_RECORDS, true, not_ours, b);
    return err ? err : op_meta_set(b, "schema", ETCD_SCHEMA);
}

/* Earlier versions kept JOURNAL_CLUSTER as numbers. */
static int take_over_cluster(struct backend *b)
{
    static const char *const names[] = {"former", "first_node", "young"};
    struct msg m = {.type = MSG_JOURNAL_CLUSTER};
    char key[ETCD_KEY_MAX];
    uint64_t v[3];
    int err = 0;

    for (int i = 0; !err && i < 3; i++)
        err = op_meta_get(b, names[i], &v[i]);
    if (err)
        return err == HAWK_ENOT_FOUND ? 0 : err;
    m.journal_cluster.former = v[0];
    m.journal_cluster.node.v = v[1] < NODE_ID_MAX ? (uint32_t)v[1] : NODE_ID_MAX;
    m.journal_cluster.young = v[2] != 0;
    op_begin(b);
    for (int i = 0; i < 3; i++) {
        etcd_key(b, key, "meta/%s", names[i]);
        etcd_txn_delete(&b->txn, key, NULL);
    }
    struct entry *e = record_entry_new(&m);
    err = op_put(b, &e->key, span_of(&e->value));
    record_entry_free(e);
    return err ? err : op_commit(b);
}

static int read_start(struct backend *b, uint64_t *cluster)
{
    struct etcd_one commit;
    char *at;
    int err = etcd_read_one(b, b->commit_key, &commit);

    if (err)
        return err;
    b->commit_rev = commit.changed;
    (void)strtoul(commit.value, &at, 10);
    (void)strtoull(at, &at, 10);
    b->history = strtoull(at, NULL, 10);
    err = check_schema(b);
    if (err)
        return err;
    err = take_over_cluster(b);
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
    free(b->bigs);
    free(b->prefix);
    free(b->leader_key);
    free(b->commit_key);
    free(b);
}

static const char *op_name(const struct backend *b) { return b->name; }
static const char *op_why(const struct backend *b) { return b->why; }
static void op_interrupt(struct backend *b) { etcd_interrupt(b->etcd); }

const struct backend_ops etcd_ops = {.begin = op_begin,
                                     .put = op_put,
                                     .append = op_append,
                                     .scan_history = etcd_scan_history,
                                     .remove = op_remove,
                                     .forgot = op_forgot,
                                     .commit = op_commit,
                                     .rollback = op_rollback,
                                     .fits = op_fits,
                                     .get = etcd_get,
                                     .scan = etcd_scan,
                                     .sweep = op_sweep,
                                     .remedy = "etcd from a snapshot",
                                     .meta_get = op_meta_get,
                                     .meta_set = op_meta_set,
                                     .scrub = op_scrub,
                                     .scrub_ms = COMPACT_MS,
                                     .name = op_name,
                                     .why = op_why,
                                     .interrupt = op_interrupt,
                                     .close = op_close};

int etcd_keys_open(const struct store_etcd *c, struct backend **out, uint64_t *cluster, char *why,
                   size_t why_size)
{
    struct backend *b = xcalloc(1, sizeof *b);
    char key[ETCD_KEY_MAX];

    b->etcd = etcd_new(c->endpoints, &c->tls);
    b->prefix = xstrdup(c->prefix);
    b->revision = c->revision;
    b->epoch = c->epoch;
    snprintf(b->name, sizeof b->name, "the store in etcd under %.150s/", c->prefix);
    etcd_key(b, key, "leader");
    b->leader_key = xstrdup(key);
    etcd_key(b, key, "commit");
    b->commit_key = xstrdup(key);
    int err = read_start(b, cluster);
    b->forgot_rev = b->commit_rev; /* content that an earlier leader had no time to scrub */
    if (err) {
        if (why_size)
            snprintf(why, why_size, "%s: %s", b->name, b->why);
        op_close(b);
        return err;
    }
    *out = b;
    return 0;
}
