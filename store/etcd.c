/* A client of etcd: see etcd.h. */
#include "store/etcd.h"

#include "base/mem.h"
#include "etcd.pb.h"
#include "net/addr.h"
#include "net/fields.h"
#include "net/loop.h"
#include "net/rpc.h"
#include "net/tls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct etcd {
    struct loop *loop;
    char **addrs;
    unsigned n, cap, at; /* at: the endpoint in use */
    struct tls_files files;
    bool with_tls;
    struct channel *channel;
    atomic_bool interrupted;
    char why[400];
    /* The call under way. */
    bool done, replied;
    grpc_status_code status;
    struct codec_buf reply, request;
};

struct etcd *etcd_new(const char *endpoints, const struct tls_files *files)
{
    struct etcd *e = xcalloc(1, sizeof *e);
    char addr[ADDR_TEXT];

    e->loop = loop_new(LOOP_NET);
    if (files && tls_files_all(files)) {
        e->files = (struct tls_files){.certificate = xstrdup(files->certificate),
                                      .key = xstrdup(files->key),
                                      .roots = xstrdup(files->roots)};
        e->with_tls = true;
    }
    while (*endpoints) {
        endpoints = addr_first(endpoints, addr);
        vec_grow(e->addrs, e->n, e->cap);
        e->addrs[e->n++] = xstrdup(addr);
    }
    return e;
}

void etcd_free(struct etcd *e)
{
    if (!e)
        return;
    channel_free(e->channel);
    loop_free(e->loop);
    for (unsigned i = 0; i < e->n; i++)
        free(e->addrs[i]);
    free(e->addrs);
    free((char *)(uintptr_t)e->files.certificate);
    free((char *)(uintptr_t)e->files.key);
    free((char *)(uintptr_t)e->files.roots);
    codec_buf_free(&e->reply);
    codec_buf_free(&e->request);
    free(e);
}

static void woken(void *arg) {}

void etcd_interrupt(struct etcd *e)
{
    atomic_store(&e->interrupted, true);
    loop_post(e->loop, woken, NULL);
}

const char *etcd_why(const struct etcd *e) { return e->why; }

/* ---- Fields ---- */

/* Writes the field even when it is empty. */
static void put_part(struct codec_buf *b, uint32_t tag, struct span v)
{
    wire_put_bytes(b, tag, v.data, v.len);
}

static struct wire fields_of(struct span s) { return wire_of(s.data, s.len); }

/* ---- Calls ---- */

static void on_reply(void *arg, const uint8_t *data, size_t len)
{
    struct etcd *e = arg;

    e->reply.len = 0;
    codec_buf_append(&e->reply, data, len);
    e->replied = true;
}

static void on_done(void *arg, grpc_status_code status, const char *text)
{
    struct etcd *e = arg;

    e->done = true;
    e->status = status;
    if (status != GRPC_STATUS_OK)
        snprintf(e->why, sizeof e->why, "etcd at %s: %s", e->addrs[e->at],
                 *text ? text : hawk_strerror(rpc_status_to_err(status)));
}

/* Asks one endpoint, once. */
static int ask_endpoint(struct etcd *e, const char *method, int64_t timeout_us)
{
    static const struct rpc_fns fns = {.reply = on_reply, .done = on_done};

    if (!e->channel)
        e->channel = channel_new_foreign(e->loop, e->addrs[e->at], e->with_tls ? &e->files : NULL, e->why,
                                         sizeof e->why);
    if (!e->channel)
        return HAWK_EUNAVAILABLE;
    e->done = e->replied = false;
    struct rpc *r =
        rpc_start(e->channel, method, e->request.data, e->request.len, timeout_us, false, &fns, e);
    while (!e->done && !atomic_load(&e->interrupted))
        loop_once(e->loop, TIME_NEVER);
    if (!e->done) {
        rpc_cancel(r);
        snprintf(e->why, sizeof e->why, "given up");
        return HAWK_ECANCELLED;
    }
    if (e->status == GRPC_STATUS_OK && !e->replied) {
        snprintf(e->why, sizeof e->why, "etcd at %s sent no reply", e->addrs[e->at]);
        return HAWK_EMALFORMED;
    }
    return rpc_status_to_err(e->status);
}

/* The reply is in e->reply. */
static int call_etcd(struct etcd *e, const char *method, int64_t timeout_us)
{
    int err = HAWK_EUNAVAILABLE;

    if (atomic_load(&e->interrupted))
        return HAWK_ECANCELLED;
    for (unsigned i = 0; i < e->n; i++) {
        err = ask_endpoint(e, method, timeout_us);
        if (err != HAWK_EUNAVAILABLE && err != HAWK_ETIMEOUT && err != HAWK_ECANCELLED)
            return err;
        /* The connection may be dead without a sign of it. */
        channel_free(e->channel);
        e->channel = NULL;
        if (atomic_load(&e->interrupted))
            return HAWK_ECANCELLED;
        e->at = (e->at + 1) % e->n;
    }
    return HAWK_EUNAVAILABLE;
}

static int malformed_reply(struct etcd *e)
{
    snprintf(e->why, sizeof e->why, "etcd at %s: its reply cannot be read", e->addrs[e->at]);
    return HAWK_EMALFORMED;
}

static void read_header(struct span header, int64_t *revision)
{
    struct wire rest = fields_of(header);
    struct wire_field f;

    while (wire_next(&rest, &f) > 0)
        if (f.tag == etcdserverpb_ResponseHeader_revision_tag)
            *revision = (int64_t)f.number;
}

/* ---- Range ---- */

static int read_kv(struct span bytes, struct etcd_kv *kv)
{
    struct wire s = fields_of(bytes);
    struct wire_field f;
    int got;

    *kv = (struct etcd_kv){0};
    while ((got = wire_next(&s, &f)) > 0) {
        switch (f.tag) {
        case etcdserverpb_KeyValue_key_tag:
            kv->key = f.bytes;
            break;
        case etcdserverpb_KeyValue_value_tag:
            kv->value = f.bytes;
            break;
        case etcdserverpb_KeyValue_create_revision_tag:
            kv->create_revision = (int64_t)f.number;
            break;
        case etcdserverpb_KeyValue_mod_revision_tag:
            kv->mod_revision = (int64_t)f.number;
            break;
        case etcdserverpb_KeyValue_lease_tag:
            kv->lease = (int64_t)f.number;
            break;
        default:
            break;
        }
    }
    return got;
}

static int read_range(struct etcd *e, struct etcd_range *r)
{
    struct wire rest = fields_of(span_of(&e->reply));
    struct wire_field f;
    struct etcd_kv kv;
    int got, err = 0;

    while (!err && (got = wire_next(&rest, &f)) != 0) {
        if (got < 0)
            return malformed_reply(e);
        if (f.tag == etcdserverpb_RangeResponse_header_tag)
            read_header(f.bytes, &r->seen_revision);
        else if (f.tag == etcdserverpb_RangeResponse_more_tag)
            r->more = f.number != 0;
        else if (f.tag == etcdserverpb_RangeResponse_kvs_tag)
            err = read_kv(f.bytes, &kv) < 0 ? malformed_reply(e) : r->fn(r->arg, &kv);
    }
    return err;
}

int etcd_range(struct etcd *e, struct etcd_range *r, int64_t timeout_us)
{
    struct codec_buf *b = &e->request;

    b->len = 0;
    put_part(b, etcdserverpb_RangeRequest_key_tag, span_text(r->from));
    if (r->to)
        put_part(b, etcdserverpb_RangeRequest_range_end_tag, span_text(r->to));
    put_varint(b, etcdserverpb_RangeRequest_limit_tag, (uint64_t)r->limit);
    put_varint(b, etcdserverpb_RangeRequest_revision_tag, (uint64_t)r->revision);
    put_varint(b, etcdserverpb_RangeRequest_keys_only_tag, r->keys_only);
    r->more = false;
    int err = call_etcd(e, "/etcdserverpb.KV/Range", timeout_us);
    return err ? err : read_range(e, r);
}

/* ---- Transactions ---- */

void etcd_txn_free(struct etcd_txn *t)
{
    codec_buf_free(&t->compares);
    codec_buf_free(&t->ops);
}

void etcd_txn_clear(struct etcd_txn *t)
{
    t->compares.len = t->ops.len = 0;
    t->n_ops = 0;
}

/* Makes `b` a field of `to`, and frees it. */
static void put_nested(struct codec_buf *to, uint32_t tag, struct codec_buf *b)
{
    put_part(to, tag, span_of(b));
    codec_buf_free(b);
}

static void add_compare(struct etcd_txn *t, const char *key, uint32_t target, uint32_t tag, int64_t revision)
{
    struct codec_buf b = {0};

    put_varint(&b, etcdserverpb_Compare_target_tag, target);
    put_part(&b, etcdserverpb_Compare_key_tag, span_text(key));
    put_varint(&b, tag, (uint64_t)revision); /* etcd reads an absent revision as 0 */
    put_nested(&t->compares, etcdserverpb_TxnRequest_compare_tag, &b);
}

void etcd_txn_if_created(struct etcd_txn *t, const char *key, int64_t revision)
{
    add_compare(t, key, etcdserverpb_Compare_CompareTarget_CREATE, etcdserverpb_Compare_create_revision_tag,
                revision);
}

void etcd_txn_if_changed(struct etcd_txn *t, const char *key, int64_t revision)
{
    add_compare(t, key, etcdserverpb_Compare_CompareTarget_MOD, etcdserverpb_Compare_mod_revision_tag,
                revision);
}

static void add_op(struct etcd_txn *t, uint32_t tag, struct codec_buf *b)
{
    struct codec_buf op = {0};

    put_nested(&op, tag, b);
    put_nested(&t->ops, etcdserverpb_TxnRequest_success_tag, &op);
    t->n_ops++;
}

void etcd_txn_put(struct etcd_txn *t, const char *key, struct span value, int64_t lease)
{
    struct codec_buf b = {0};

    put_part(&b, etcdserverpb_PutRequest_key_tag, span_text(key));
    put_part(&b, etcdserverpb_PutRequest_value_tag, value);
    put_varint(&b, etcdserverpb_PutRequest_lease_tag, (uint64_t)lease);
    add_op(t, etcdserverpb_RequestOp_request_put_tag, &b);
}

void etcd_txn_delete(struct etcd_txn *t, const char *from, const char *to)
{
    struct codec_buf b = {0};

    put_part(&b, etcdserverpb_DeleteRangeRequest_key_tag, span_text(from));
    if (to)
        put_part(&b, etcdserverpb_DeleteRangeRequest_range_end_tag, span_text(to));
    add_op(t, etcdserverpb_RequestOp_request_delete_range_tag, &b);
}

int etcd_txn_run(struct etcd *e, const struct etcd_txn *t, int64_t timeout_us, bool *done, int64_t *revision)
{
    struct wire_field f;
    int got, err;

    e->request.len = 0;
    codec_buf_append(&e->request, t->compares.data, t->compares.len);
    codec_buf_append(&e->request, t->ops.data, t->ops.len);
    err = call_etcd(e, "/etcdserverpb.KV/Txn", timeout_us);
    if (err)
        return err;
    struct wire rest = fields_of(span_of(&e->reply));
    *done = false;
    while ((got = wire_next(&rest, &f)) > 0) {
        if (f.tag == etcdserverpb_TxnResponse_header_tag)
            read_header(f.bytes, revision);
        else if (f.tag == etcdserverpb_TxnResponse_succeeded_tag)
            *done = f.number != 0;
    }
    return got < 0 ? malformed_reply(e) : 0;
}

int etcd_compact(struct etcd *e, int64_t revision, int64_t timeout_us)
{
    e->request.len = 0;
    put_varint(&e->request, etcdserverpb_CompactionRequest_revision_tag, (uint64_t)revision);
    int err = call_etcd(e, "/etcdserverpb.KV/Compact", timeout_us);
    /* etcd answers so when the revision is compacted already. It also answers so for a future revision,
     * but ours never are. */
    return err == HAWK_EIO && e->status == GRPC_STATUS_OUT_OF_RANGE ? 0 : err;
}

/* ---- Leases ---- */

_Static_assert(etcdserverpb_LeaseGrantResponse_ID_tag == etcdserverpb_LeaseKeepAliveResponse_ID_tag &&
                   etcdserverpb_LeaseGrantResponse_TTL_tag == etcdserverpb_LeaseKeepAliveResponse_TTL_tag,
               "read by the same function");

static int lease_call(struct etcd *e, const char *method, uint32_t tag, int64_t v, int64_t timeout_us,
                      int64_t *id, int64_t *ttl_s)
{
    struct wire_field f;
    int got, err;

    e->request.len = 0;
    put_varint(&e->request, tag, (uint64_t)v);
    err = call_etcd(e, method, timeout_us);
    if (err)
        return err;
    struct wire rest = fields_of(span_of(&e->reply));
    *ttl_s = 0;
    while ((got = wire_next(&rest, &f)) > 0) {
        if (f.tag == etcdserverpb_LeaseGrantResponse_ID_tag)
            *id = (int64_t)f.number;
        else if (f.tag == etcdserverpb_LeaseGrantResponse_TTL_tag)
            *ttl_s = (int64_t)f.number;
    }
    return got < 0 ? malformed_reply(e) : 0;
}

int etcd_lease_grant(struct etcd *e, int64_t ttl_s, int64_t timeout_us, int64_t *id, int64_t *granted_s)
{
    return lease_call(e, "/etcdserverpb.Lease/LeaseGrant", etcdserverpb_LeaseGrantRequest_TTL_tag, ttl_s,
                      timeout_us, id, granted_s);
}

int etcd_lease_keep(struct etcd *e, int64_t id, int64_t timeout_us, int64_t *left_s)
{
    return lease_call(e, "/etcdserverpb.Lease/LeaseKeepAlive", etcdserverpb_LeaseKeepAliveRequest_ID_tag, id,
                      timeout_us, &id, left_s);
}

int etcd_lease_revoke(struct etcd *e, int64_t id, int64_t timeout_us)
{
    int64_t none;

    return lease_call(e, "/etcdserverpb.Lease/LeaseRevoke", etcdserverpb_LeaseRevokeRequest_ID_tag, id,
                      timeout_us, &id, &none);
}
