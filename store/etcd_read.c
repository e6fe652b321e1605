/* The store in etcd: keys, and reading. */
#include "base/log.h"
#include "base/mem.h"
#include "net/fields.h"
#include "store/etcd_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_CHUNKS 8
#define CHUNKS_MAX (CODEC_ENVELOPE_MAX / ETCD_CHUNK_BYTES * 2)

static const struct {
    const char *text;
    int digits;
} tables[TABLE_COUNT] = {
#define T(TABLE, text, digits) {text, digits},
    RECORD_TABLES(T)
#undef T
};

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

/* ---- Keys of records ---- */

static const char *part_text(uint32_t part)
{
#define P(PART, text)                                                                                        \
    if (part == PART_##PART)                                                                                 \
        return text;
    RECORD_PARTS(P)
#undef P
    return NULL;
}

void etcd_record_key(const struct backend *b, char key[ETCD_KEY_MAX], const struct record_key *k)
{
    if (tables[k->table].digits == 0)
        etcd_key(b, key, "%s", tables[k->table].text);
    else if (k->table != TABLE_JOB)
        etcd_key(b, key, "%s%0*" PRIx64, tables[k->table].text, tables[k->table].digits, k->id);
    else if (k->part == PART_JOB)
        etcd_key(b, key, "job/" JOB_KEY, k->id, k->epoch);
    else if (k->part < PART_FIRST)
        etcd_key(b, key, "job/" JOB_KEY "/%08" PRIx32, k->id, k->epoch, k->part - PART_TASK);
    else
        etcd_key(b, key, "job/" JOB_KEY "/%s", k->id, k->epoch, part_text(k->part));
}

bool etcd_parse_job(const char *at, struct record_key *k, char **rest)
{
    k->id = strtoull(at, rest, 16);
    uint64_t epoch = **rest == '/' ? strtoull(*rest + 1, rest, 16) : UINT64_MAX;
    k->epoch = (uint16_t)epoch;
    return epoch == k->epoch;
}

static bool parse_part(const char *at, struct record_key *k)
{
    char *end;

#define P(PART, text)                                                                                        \
    if (strcmp(at, text) == 0) {                                                                             \
        k->part = PART_##PART;                                                                               \
        return true;                                                                                         \
    }
    RECORD_PARTS(P)
#undef P
    uint64_t task = strtoull(at, &end, 16);
    k->part = PART_TASK + (uint32_t)task;
    return end > at && *end == '\0' && task < LIMIT_TASKS_PER_JOB;
}

/* Parses a key of that table. */
static bool parse_key(const struct backend *b, enum record_table table, const char *key, struct record_key *k)
{
    const char *at = key + strlen(b->prefix) + 1 + strlen(tables[table].text);
    char *end;

    *k = (struct record_key){.table = table};
    if (tables[table].digits == 0)
        return true; /* it was read by its whole name */
    if (table == TABLE_JOB)
        return etcd_parse_job(at, k, &end) && (*end == '\0' || (*end == '/' && parse_part(end + 1, k)));
    k->id = strtoull(at, &end, 16);
    return *end == '\0';
}

/* ---- Keys that are read ---- */

struct page {
    struct etcd_row *v;
    uint32_t n, cap;
};

static int take_row(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;

    vec_grow(p->v, p->n, p->cap);
    struct etcd_row *row = &p->v[p->n++];
    row->key = xmemdup0(kv->key.data, kv->key.len);
    row->value = xmemdup0(kv->value.data, kv->value.len);
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

int etcd_scan_keys(struct backend *b, const char *from, const char *to, int64_t page, bool keys_only,
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
        r.revision = r.seen_revision; /* later pages show the same revision */
        for (uint32_t i = 0; !err && i < p.n; i++)
            err = fn(arg, &p.v[i]);
        if (p.n) /* '!' comes before everything that our keys are made of */
            snprintf(next, sizeof next, "%s!", p.v[p.n - 1].key);
    } while (!err && r.more && p.n);
    page_clear(&p);
    free(p.v);
    return err;
}

static int take_one(void *arg, const struct etcd_kv *kv)
{
    struct etcd_one *o = arg;

    o->there = true;
    o->created = kv->create_revision;
    o->changed = kv->mod_revision;
    snprintf(o->value, sizeof o->value, "%.*s", (int)kv->value.len, (const char *)kv->value.data);
    return 0;
}

int etcd_read_one(struct backend *b, const char *key, struct etcd_one *o)
{
    struct etcd_range r = {.from = key, .fn = take_one, .arg = o};

    *o = (struct etcd_one){0};
    return etcd_range(b->etcd, &r, ETCD_CALL_US) ? etcd_failed(b) : 0;
}

/* ---- Records that are read ---- */

static int damaged_value(const struct etcd_row *row)
{
    log_error("the value of the key %s in etcd cannot be read: restore etcd from a snapshot", row->key);
    return HAWK_ECORRUPT;
}

struct pieces {
    struct codec_buf *to;
    uint32_t n;
};

static int take_piece(void *arg, const struct etcd_row *row)
{
    struct pieces *p = arg;

    codec_buf_append(p->to, row->value, row->len);
    p->n++;
    return 0;
}

/* Appends to *value the content of its pieces: together they are one message. Most values have no pieces. */
static int add_pieces(struct backend *b, const struct record_key *k, struct codec_buf *value,
                      struct etcd_big *big)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    struct wire s = wire_of(value->data, value->len);
    struct pieces p = {.to = value};
    struct wire_field f;
    uint64_t chunks = 0;

    *big = (struct etcd_big){.job = k->id, .epoch = k->epoch};
    while (wire_next(&s, &f) > 0)
        if (f.tag == JOB_FIELD_chunks)
            chunks = f.number;
        else if (f.tag == JOB_FIELD_generation && f.bytes.len < ETCD_GENERATION)
            snprintf(big->generation, sizeof big->generation, "%.*s", (int)f.bytes.len,
                     (const char *)f.bytes.data);
    if (chunks == 0)
        return 0;
    etcd_key(b, from, "desc/" JOB_KEY "/%s/", k->id, k->epoch, big->generation);
    etcd_key(b, to, "desc/" JOB_KEY "/%s0", k->id, k->epoch, big->generation);
    int err = chunks <= CHUNKS_MAX && big->generation[0]
                  ? etcd_scan_keys(b, from, to, PAGE_CHUNKS, false, take_piece, &p)
                  : HAWK_ECORRUPT;
    return err ? err : p.n == chunks ? 0 : HAWK_ECORRUPT;
}

struct scan {
    struct backend *b;
    enum record_table table;
    bool whole;
    scan_fn *fn;
    void *arg;
};

static int take_record(void *arg, const struct etcd_row *row)
{
    struct scan *s = arg;
    struct codec_buf value = {0};
    struct record_key k;
    struct etcd_big big;
    int err = 0;

    if (!parse_key(s->b, s->table, row->key, &k))
        return damaged_value(row);
    if (k.table != TABLE_JOB || k.part != PART_JOB)
        return s->fn(s->arg, &k, (struct span){row->value, row->len});
    codec_buf_append(&value, row->value, row->len);
    err = add_pieces(s->b, &k, &value, &big);
    if (err == HAWK_ECORRUPT)
        damaged_value(row);
    if (!err && value.len > row->len && s->whole) {
        vec_grow(s->b->bigs, s->b->n_bigs, s->b->bigs_cap);
        s->b->bigs[s->b->n_bigs++] = big;
    }
    if (!err)
        err = s->fn(s->arg, &k, span_of(&value));
    codec_buf_free(&value);
    return err;
}

/* Reads a table's records in order. */
static int scan_table(struct scan *s, enum record_table table)
{
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];

    s->table = table;
    etcd_key(s->b, from, "%s", tables[table].text);
    etcd_key(s->b, to, "%s", tables[table].text);
    to[strlen(to) - 1]++; /* '0' comes after '/' */
    return etcd_scan_keys(s->b, from, tables[table].digits ? to : NULL, ETCD_PAGE_RECORDS, false, take_record,
                          s);
}

int etcd_scan_history(struct backend *b, scan_fn *fn, void *arg)
{
    struct scan s = {.b = b, .fn = fn, .arg = arg};

    return scan_table(&s, TABLE_HISTORY);
}

int etcd_scan(struct backend *b, const struct record_key *job, scan_fn *fn, void *arg)
{
    struct scan s = {.b = b, .table = TABLE_JOB, .whole = !job, .fn = fn, .arg = arg};
    char from[ETCD_KEY_MAX], to[ETCD_KEY_MAX];
    int err = 0;

    if (job) {
        etcd_key(b, from, "job/" JOB_KEY "/", job->id, job->epoch);
        etcd_key(b, to, "job/" JOB_KEY "0", job->id, job->epoch);
        return etcd_scan_keys(b, from, to, ETCD_PAGE_RECORDS, false, take_record, &s);
    }
    b->n_bigs = 0;
    for (int i = 0; !err && i < TABLE_COUNT; i++)
        err = scan_table(&s, (enum record_table)i);
    return err;
}

struct got {
    struct codec_buf *value;
    bool there;
};

static int take_got(void *arg, const struct etcd_row *row)
{
    struct got *g = arg;

    g->there = true;
    codec_buf_append(g->value, row->value, row->len);
    return 0;
}

int etcd_get(struct backend *b, const struct record_key *k, struct codec_buf *value)
{
    struct got g = {.value = value};
    char key[ETCD_KEY_MAX];
    struct etcd_big big;

    etcd_record_key(b, key, k);
    int err = etcd_scan_keys(b, key, NULL, 1, false, take_got, &g);
    if (err || !g.there)
        return err ? err : HAWK_ENOT_FOUND;
    return k->table == TABLE_JOB && k->part == PART_JOB ? add_pieces(b, k, value, &big) : 0;
}
