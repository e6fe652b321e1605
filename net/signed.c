/* See signed.h. */
#include "net/signed.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "hawk signed 1\n"
#define BATCH "hawk batch 1\n"
#define BATCH_BYTES (sizeof BATCH - 1 + 4 + SIGNED_HASH)
#define LEAF 0
#define INNER 1

/* ---- Hash trees ---- */

static struct signed_hash hash_of(uint8_t kind, const uint8_t *a, size_t a_size, const uint8_t *b,
                                  size_t b_size)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct signed_hash hash;

    CHECK(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    CHECK(EVP_DigestUpdate(ctx, &kind, 1) == 1);
    CHECK(EVP_DigestUpdate(ctx, a, a_size) == 1);
    CHECK(EVP_DigestUpdate(ctx, b, b_size) == 1);
    CHECK(EVP_DigestFinal_ex(ctx, hash.bytes, NULL) == 1);
    EVP_MD_CTX_free(ctx);
    return hash;
}

struct signed_hash signed_leaf(const uint8_t *bytes, size_t size)
{
    return hash_of(LEAF, bytes, size, NULL, 0);
}

static struct signed_hash node_above(const struct signed_hash *left, const struct signed_hash *right)
{
    return hash_of(INNER, left->bytes, SIGNED_HASH, right->bytes, SIGNED_HASH);
}

/* Replaces a level of n nodes by the one above it; returns that one's number of nodes. */
static uint32_t climb(struct signed_hash *level, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++)
        level[i] = node_above(&level[(size_t)2 * i], &level[(size_t)2 * i + 1]);
    if (n % 2)
        level[n / 2] = level[n - 1];
    return n / 2 + n % 2;
}

static struct signed_hash *level_of(const struct signed_hash *leaves, uint32_t n)
{
    struct signed_hash *level = xcalloc(n, sizeof *level);

    memcpy(level, leaves, n * sizeof *level);
    return level;
}

struct signed_hash signed_root(const struct signed_hash *leaves, uint32_t n)
{
    struct signed_hash *level, root;

    CHECK(n > 0);
    level = level_of(leaves, n);
    while (n > 1)
        n = climb(level, n);
    root = level[0];
    free(level);
    return root;
}

struct signed_proof signed_prove(const struct signed_hash *leaves, uint32_t n, uint32_t index)
{
    struct signed_proof proof = {.index = index, .leaves = n};
    struct signed_hash *level;

    CHECK(index < n);
    level = level_of(leaves, n);
    for (; n > 1; n = climb(level, n), index /= 2)
        if ((index ^ 1) < n)
            proof.hashes[proof.n++] = level[index ^ 1];
    free(level);
    return proof;
}

bool signed_root_of(const struct signed_hash *leaf, const struct signed_proof *proof,
                    struct signed_hash *root)
{
    uint32_t used = 0, index = proof->index;

    if (index >= proof->leaves || proof->n > SIGNED_PROOF_MAX)
        return false;
    *root = *leaf;
    for (uint32_t n = proof->leaves; n > 1; n = n / 2 + n % 2, index /= 2) {
        if ((index ^ 1) >= n)
            continue;
        if (used == proof->n)
            return false;
        *root = index % 2 ? node_above(&proof->hashes[used], root) : node_above(root, &proof->hashes[used]);
        used++;
    }
    return used == proof->n;
}

/* ---- Bytes ---- */

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
    if (size)
        memcpy(at, bytes, size);
    return at + size;
}

static uint8_t *put_number(uint8_t *at, uint64_t number, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(number >> 8 * i);
    return at;
}

static uint8_t *put_name(uint8_t *at, const char *name)
{
    return put(put_number(at, strlen(name), 1), name, strlen(name));
}

int signed_write(const struct signed_head *head, uint8_t **bytes, size_t *size)
{
    size_t cluster = strlen(head->cluster), user = strlen(head->user);
    uint8_t *at;

    *size = sizeof MAGIC - 1 + 1 + cluster + 1 + user + 4 + SIGNED_NONCE + 8 + 4 + SIGNED_HASH + 4 +
            head->spec_size;
    if (!cluster || !user || !head->tasks || head->not_after_s < 0 || *size > SIGNED_BYTES_MAX)
        return HAWK_EINVALID;
    at = *bytes = xmalloc(*size);
    at = put(at, MAGIC, sizeof MAGIC - 1);
    at = put_name(at, head->cluster);
    at = put_name(at, head->user);
    at = put_number(at, head->uid, 4);
    at = put(at, head->nonce, SIGNED_NONCE);
    at = put_number(at, (uint64_t)head->not_after_s, 8);
    at = put_number(at, head->tasks, 4);
    at = put(at, head->root.bytes, SIGNED_HASH);
    at = put_number(at, head->spec_size, 4);
    at = put(at, head->spec, head->spec_size);
    CHECK(at == *bytes + *size);
    return 0;
}

struct reader {
    const uint8_t *at, *end;
    bool good;
};

static const uint8_t *take_some(struct reader *r, size_t size)
{
    const uint8_t *at = r->at;

    if (!r->good || (size_t)(r->end - r->at) < size) {
        r->good = false;
        return NULL;
    }
    r->at += size;
    return at;
}

static void take_bytes(struct reader *r, void *to, size_t size)
{
    const uint8_t *at = take_some(r, size);

    if (at)
        memcpy(to, at, size);
}

static uint64_t take_number(struct reader *r, int bytes)
{
    const uint8_t *at = take_some(r, (size_t)bytes);
    uint64_t number = 0;

    for (int i = 0; at && i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

/* A name has at least one byte, and no NUL: two texts never read as one name. */
static void take_name(struct reader *r, char name[LIMIT_NAME_BYTES + 1])
{
    size_t size = take_number(r, 1);

    r->good = r->good && size > 0 && size <= LIMIT_NAME_BYTES;
    take_bytes(r, name, size);
    r->good = r->good && !memchr(name, '\0', size);
}

bool signed_read(const uint8_t *bytes, size_t size, struct signed_head *head)
{
    struct reader r = {.at = bytes, .end = bytes + size, .good = size <= SIGNED_BYTES_MAX};
    const uint8_t *magic = take_some(&r, sizeof MAGIC - 1);
    uint64_t not_after_s;

    *head = (struct signed_head){0};
    if (!magic || memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0)
        return false;
    take_name(&r, head->cluster);
    take_name(&r, head->user);
    head->uid = (uint32_t)take_number(&r, 4);
    take_bytes(&r, head->nonce, SIGNED_NONCE);
    not_after_s = take_number(&r, 8);
    head->not_after_s = (int64_t)not_after_s;
    head->tasks = (uint32_t)take_number(&r, 4);
    take_bytes(&r, head->root.bytes, SIGNED_HASH);
    head->spec_size = (uint32_t)take_number(&r, 4);
    head->spec = take_some(&r, head->spec_size);
    return r.good && r.at == r.end && head->tasks > 0 && not_after_s <= INT64_MAX;
}

/* ---- Signatures ---- */

static void batch_bytes(uint8_t bytes[BATCH_BYTES], uint32_t n, const struct signed_hash *root)
{
    uint8_t *at = put(bytes, BATCH, sizeof BATCH - 1);

    put(put_number(at, n, 4), root->bytes, SIGNED_HASH);
}

/* Ed25519 hashes by itself. */
static const EVP_MD *digest_of(EVP_PKEY *key) { return EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256(); }

int signed_sign(EVP_PKEY *key, const struct signed_hash *leaves, uint32_t n,
                struct signed_signature *signature)
{
    struct signed_hash root = signed_root(leaves, n);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t size = sizeof signature->bytes;
    uint8_t bytes[BATCH_BYTES];
    bool good;

    batch_bytes(bytes, n, &root);
    good = ctx && EVP_DigestSignInit(ctx, NULL, digest_of(key), NULL, key) == 1 &&
           EVP_DigestSign(ctx, signature->bytes, &size, bytes, sizeof bytes) == 1;
    signature->size = good ? (uint32_t)size : 0;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good ? 0 : HAWK_EINVALID;
}

static bool signature_fits(X509 *credential, const struct signed_hash *leaf, const struct signed_proof *batch,
                           const struct signed_signature *signature)
{
    EVP_PKEY *key = X509_get0_pubkey(credential);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t bytes[BATCH_BYTES];
    struct signed_hash root;
    bool good = ctx && key && signature->size <= SIGNED_SIGNATURE_MAX && signed_root_of(leaf, batch, &root);

    if (good) {
        batch_bytes(bytes, batch->leaves, &root);
        good = EVP_DigestVerifyInit(ctx, NULL, digest_of(key), NULL, key) == 1 &&
               EVP_DigestVerify(ctx, signature->bytes, signature->size, bytes, sizeof bytes) == 1;
    }
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

/* The chain, with the names that the root may sign, at the checker's time. */
static bool root_signed(const struct signed_checker *checker, X509 *credential)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool good;

    CHECK(store && ctx);
    good = X509_STORE_add_cert(store, checker->user_root) == 1 &&
           X509_STORE_CTX_init(ctx, store, credential, NULL) == 1;
    if (good) {
        X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), (time_t)checker->now_s);
        good = X509_verify_cert(ctx) == 1;
    }
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return good;
}

static enum signed_verdict check_credential(const struct signed_checker *checker, X509 *credential,
                                            const struct signed_head *head)
{
    struct identity who;

    if (!root_signed(checker, credential) || !tls_certificate_names(credential, &who) ||
        who.role != ROLE_NONE)
        return SIGNED_CREDENTIAL;
    if (checker->denied && denied_has(checker->denied, &who))
        return SIGNED_DENIED;
    if (!(who.scopes & SCOPE_SUBMIT))
        return SIGNED_SCOPE;
    if (strcmp(who.name, head->user) != 0)
        return SIGNED_USER;
    return identity_uid(&who) == head->uid ? SIGNED_GOOD : SIGNED_UID;
}

enum signed_verdict signed_check(const struct signed_checker *checker, X509 *credential, const uint8_t *bytes,
                                 size_t size, const struct signed_proof *batch,
                                 const struct signed_signature *signature, struct signed_head *head)
{
    struct signed_head read;
    struct signed_hash leaf;
    enum signed_verdict verdict;

    *head = (struct signed_head){0};
    if (!signed_read(bytes, size, &read))
        return SIGNED_FORM;
    verdict = check_credential(checker, credential, &read);
    if (verdict != SIGNED_GOOD)
        return verdict;
    leaf = signed_leaf(bytes, size);
    if (!signature_fits(credential, &leaf, batch, signature))
        return SIGNED_SIGNATURE;
    if (strcmp(read.cluster, checker->cluster) != 0)
        return SIGNED_CLUSTER;
    if (read.not_after_s < checker->now_s)
        return SIGNED_EXPIRED;
    if (read.not_after_s - checker->now_s > SIGNED_LIFE_S_MAX + SIGNED_CLOCKS_S)
        return SIGNED_LIFE;
    *head = read;
    return SIGNED_GOOD;
}

bool signed_task_fits(const struct signed_head *head, const uint8_t *bytes, size_t size,
                      const struct signed_proof *proof)
{
    struct signed_hash leaf = signed_leaf(bytes, size), root;

    return proof->leaves == head->tasks && signed_root_of(&leaf, proof, &root) &&
           memcmp(root.bytes, head->root.bytes, SIGNED_HASH) == 0;
}

const char *signed_verdict_text(enum signed_verdict verdict)
{
    static const char *const texts[] = {
#define X(name, text) [SIGNED_##name] = (text),
        SIGNED_VERDICTS(X)
#undef X
    };

    return texts[verdict];
}
