/* See signed.h. */
#include "net/signed.h"

#include "base/check.h"
#include "base/mem.h"
#include "net/certificate.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAGIC "hawk signed 1\n"
#define BATCH "hawk batch 1\n"
#define BATCH_BYTES (sizeof BATCH - 1 + 4 + SIGNED_HASH)
#define LEAF 0
#define INNER 1

/* ---- Hash trees ---- */

static EVP_MD *sha256; /* to look for it costs more than a hash */
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    CHECK(sha256);
}

/* For many hashes: the caller's to free. */
static EVP_MD_CTX *hasher_new(void)
{
    EVP_MD_CTX *h = EVP_MD_CTX_new();

    CHECK(h && pthread_once(&sha256_once, fetch_sha256) == 0);
    return h;
}

static struct signed_hash hash_of(EVP_MD_CTX *h, uint8_t kind, const uint8_t *a, size_t a_size,
                                  const uint8_t *b, size_t b_size)
{
    struct signed_hash hash;

    CHECK(EVP_DigestInit_ex2(h, sha256, NULL) == 1);
    CHECK(EVP_DigestUpdate(h, &kind, 1) == 1);
    CHECK(EVP_DigestUpdate(h, a, a_size) == 1);
    CHECK(EVP_DigestUpdate(h, b, b_size) == 1);
    CHECK(EVP_DigestFinal_ex(h, hash.bytes, NULL) == 1);
    return hash;
}

struct signed_hash signed_leaf(const uint8_t *bytes, size_t size)
{
    EVP_MD_CTX *h = hasher_new();
    struct signed_hash leaf = hash_of(h, LEAF, bytes, size, NULL, 0);

    EVP_MD_CTX_free(h);
    return leaf;
}

struct signed_hash *signed_leaves(const uint8_t *bytes, const uint32_t *off, uint32_t n)
{
    struct signed_hash *leaves = xcalloc(n, sizeof *leaves);
    EVP_MD_CTX *h = hasher_new();

    for (uint32_t i = 0; i < n; i++)
        leaves[i] = hash_of(h, LEAF, bytes + off[i], off[i + 1] - off[i], NULL, 0);
    EVP_MD_CTX_free(h);
    return leaves;
}

static struct signed_hash node_above(EVP_MD_CTX *h, const struct signed_hash *left,
                                     const struct signed_hash *right)
{
    return hash_of(h, INNER, left->bytes, SIGNED_HASH, right->bytes, SIGNED_HASH);
}

struct signed_hash *signed_tree(const struct signed_hash *leaves, uint32_t n)
{
    EVP_MD_CTX *h = hasher_new();
    struct signed_hash *nodes, *level;

    CHECK(n > 0);
    level = nodes = xcalloc(tree_nodes(n), sizeof *nodes);
    memcpy(nodes, leaves, n * sizeof *nodes);
    for (; n > 1; n = tree_above(n)) {
        struct signed_hash *above = level + n;
        for (uint32_t i = 0; i < n / 2; i++)
            above[i] = node_above(h, &level[(size_t)2 * i], &level[(size_t)2 * i + 1]);
        if (n % 2)
            above[n / 2] = level[n - 1];
        level = above;
    }
    EVP_MD_CTX_free(h);
    return nodes;
}

struct signed_hash signed_root(const struct signed_hash *leaves, uint32_t n)
{
    struct signed_hash *nodes = signed_tree(leaves, n), root = nodes[tree_nodes(n) - 1];

    free(nodes);
    return root;
}

struct signed_proof signed_prove(const struct signed_hash *nodes, uint32_t n, uint32_t index)
{
    struct signed_proof proof = {.index = index, .leaves = n};
    size_t places[TREE_PROOF_MAX];

    CHECK(index < n);
    proof.n = tree_proof(n, index, places);
    for (uint32_t i = 0; i < proof.n; i++)
        proof.hashes[i] = nodes[places[i]];
    return proof;
}

bool signed_root_of(const struct signed_hash *leaf, const struct signed_proof *proof,
                    struct signed_hash *root)
{
    uint32_t used = 0, index = proof->index;
    bool good = index < proof->leaves && proof->n <= SIGNED_PROOF_MAX;
    EVP_MD_CTX *h;

    if (!good)
        return false;
    h = hasher_new();
    *root = *leaf;
    for (uint32_t n = proof->leaves; good && n > 1; n = tree_above(n), index /= 2) {
        if ((index ^ 1) >= n)
            continue;
        good = used < proof->n;
        if (good) {
            const struct signed_hash *other = &proof->hashes[used++];
            *root = index % 2 ? node_above(h, other, root) : node_above(h, root, other);
        }
    }
    EVP_MD_CTX_free(h);
    return good && used == proof->n;
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

static bool signature_fits(EVP_PKEY *key, const uint8_t bytes[BATCH_BYTES],
                           const struct signed_signature *signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, digest_of(key), NULL, key) == 1 &&
                EVP_DigestVerify(ctx, signature->bytes, signature->size, bytes, BATCH_BYTES) == 1;

    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

/* The name of the cluster whose root this is. */
static void cluster_of(X509 *root, char cluster[SIGNED_CLUSTER_TEXT])
{
    unsigned char *key = NULL;
    int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(root), &key);
    uint8_t hash[SIGNED_HASH];

    CHECK(n > 0 && SHA256(key, (size_t)n, hash));
    OPENSSL_free(key);
    for (unsigned i = 0; i < SIGNED_HASH; i++)
        snprintf(cluster + (size_t)2 * i, 3, "%02x", hash[i]);
}

static int64_t seconds_of(const ASN1_TIME *t)
{
    struct tm tm;

    return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* Sets the signer's cluster and when his chain holds. */
static void read_chain(STACK_OF(X509) * chain, struct signer *s)
{
    int n = sk_X509_num(chain);

    s->from_s = INT64_MIN;
    s->until_s = INT64_MAX;
    for (int i = 0; i < n; i++) {
        int64_t from_s = seconds_of(X509_get0_notBefore(sk_X509_value(chain, i)));
        int64_t until_s = seconds_of(X509_get0_notAfter(sk_X509_value(chain, i)));
        s->from_s = from_s > s->from_s ? from_s : s->from_s;
        s->until_s = until_s < s->until_s ? until_s : s->until_s;
    }
    cluster_of(sk_X509_value(chain, n - 1), s->cluster);
}

/* Sets all but whom the credential is for. */
static bool follow_chain(X509_STORE *roots, X509 *credential, int64_t now_s, struct signer *s)
{
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool good;

    CHECK(ctx);
    good = X509_STORE_CTX_init(ctx, roots, credential, NULL) == 1;
    if (good) {
        X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), (time_t)now_s);
        good = X509_verify_cert(ctx) == 1;
    }
    if (good)
        read_chain(X509_STORE_CTX_get0_chain(ctx), s);
    X509_STORE_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

bool signed_cluster(X509_STORE *roots, X509 *credential, int64_t now_s, char cluster[SIGNED_CLUSTER_TEXT])
{
    struct signer s;

    if (!follow_chain(roots, credential, now_s, &s))
        return false;
    memcpy(cluster, s.cluster, SIGNED_CLUSTER_TEXT);
    return true;
}

/* Whose the credential is. The caller frees s->key when the verdict is SIGNED_GOOD. */
static enum signed_verdict verify_credential(const struct signed_checker *checker,
                                             const struct signed_seal *seal, struct signer *s)
{
    const uint8_t *der = seal->credential;
    X509 *credential = d2i_X509(NULL, &der, (long)seal->credential_size);
    enum signed_verdict verdict = SIGNED_GOOD;

    if (!credential)
        verdict = SIGNED_FORM;
    else if (!follow_chain(checker->roots, credential, checker->now_s, s) ||
             !certificate_names(credential, &s->who) || s->who.role != ROLE_NONE ||
             !(s->key = X509_get_pubkey(credential)))
        verdict = SIGNED_CREDENTIAL;
    if (checker->verified)
        verified_count(checker->verified, VERIFIED_CREDENTIAL);
    X509_free(credential);
    ERR_clear_error();
    return verdict;
}

/* The same, of one that is known as well. */
static enum signed_verdict find_credential(const struct signed_checker *checker,
                                           const struct signed_seal *seal, struct signer *s)
{
    const struct signer *known;
    enum signed_verdict verdict;
    struct signed_hash key;

    if (!checker->verified)
        return verify_credential(checker, seal, s);
    key = signed_leaf(seal->credential, seal->credential_size);
    known = verified_find(checker->verified, VERIFIED_CREDENTIAL, key.bytes, checker->now_s);
    if (known) {
        *s = *known;
        CHECK(EVP_PKEY_up_ref(s->key) == 1);
        return SIGNED_GOOD;
    }
    verdict = verify_credential(checker, seal, s);
    if (verdict == SIGNED_GOOD)
        verified_add(checker->verified, VERIFIED_CREDENTIAL, key.bytes, s);
    return verdict;
}

/* Who signed the batch. keep: under this key, if he did. */
static enum signed_verdict verify_batch(const struct signed_checker *checker, const struct signed_seal *seal,
                                        const uint8_t batch[BATCH_BYTES], const struct signed_hash *keep,
                                        struct signer *s)
{
    enum signed_verdict verdict = find_credential(checker, seal, s);

    if (verdict != SIGNED_GOOD)
        return verdict;
    if (!signature_fits(s->key, batch, &seal->signature))
        verdict = SIGNED_SIGNATURE;
    else if (keep)
        verified_add(checker->verified, VERIFIED_BATCH, keep->bytes, s);
    if (checker->verified)
        verified_count(checker->verified, VERIFIED_BATCH);
    EVP_PKEY_free(s->key);
    return verdict;
}

/* Of all that verify_batch() looks at, but roots and clock. */
static struct signed_hash batch_key(const struct signed_seal *seal, const uint8_t batch[BATCH_BYTES])
{
    size_t room = seal->credential_size + 4 + SIGNED_SIGNATURE_MAX + BATCH_BYTES;
    uint8_t *bytes = xmalloc(room), *at = put(bytes, batch, BATCH_BYTES);
    struct signed_hash key;

    at = put_number(at, seal->signature.size, 4);
    at = put(at, seal->signature.bytes, seal->signature.size);
    at = put(at, seal->credential, seal->credential_size);
    key = signed_leaf(bytes, (size_t)(at - bytes));
    free(bytes);
    return key;
}

/* Who signed the batch with this root; not his key. A batch of one is not kept: nothing else is in it. */
static enum signed_verdict find_signer(const struct signed_checker *checker, const struct signed_seal *seal,
                                       const struct signed_hash *root, struct signer *s)
{
    const struct signer *known;
    uint8_t batch[BATCH_BYTES];
    struct signed_hash key;

    batch_bytes(batch, seal->batch.leaves, root);
    if (!checker->verified || seal->batch.leaves <= 1)
        return verify_batch(checker, seal, batch, NULL, s);
    key = batch_key(seal, batch);
    known = verified_find(checker->verified, VERIFIED_BATCH, key.bytes, checker->now_s);
    if (!known)
        return verify_batch(checker, seal, batch, &key, s);
    *s = *known;
    return SIGNED_GOOD;
}

/* Whether the signer may submit this, now. */
static enum signed_verdict check_signer(const struct signed_checker *checker, const struct signer *s,
                                        const struct signed_head *head)
{
    if (checker->denied && denied_has(checker->denied, &s->who))
        return SIGNED_DENIED;
    if (!(s->who.scopes & SCOPE_SUBMIT))
        return SIGNED_SCOPE;
    if (strcmp(s->who.name, head->user) != 0)
        return SIGNED_USER;
    if (identity_uid(&s->who) != head->uid)
        return SIGNED_UID;
    if (strcmp(s->cluster, head->cluster) != 0)
        return SIGNED_CLUSTER;
    if (head->not_after_s < checker->now_s)
        return SIGNED_EXPIRED;
    if (head->not_after_s - checker->now_s > SIGNED_LIFE_S_MAX + SIGNED_CLOCKS_S)
        return SIGNED_LIFE;
    return SIGNED_GOOD;
}

enum signed_verdict signed_check(const struct signed_checker *checker, const uint8_t *bytes, size_t size,
                                 const struct signed_seal *seal, struct signed_head *head, int64_t *until_s)
{
    struct signed_hash leaf, root;
    enum signed_verdict verdict;
    struct signed_head read;
    struct signer signer;

    *head = (struct signed_head){0};
    *until_s = 0;
    if (!signed_read(bytes, size, &read))
        return SIGNED_FORM;
    leaf = signed_leaf(bytes, size);
    if (seal->signature.size > SIGNED_SIGNATURE_MAX || !signed_root_of(&leaf, &seal->batch, &root))
        return SIGNED_SIGNATURE;
    verdict = find_signer(checker, seal, &root, &signer);
    if (verdict == SIGNED_GOOD)
        verdict = check_signer(checker, &signer, &read);
    if (verdict != SIGNED_GOOD)
        return verdict;
    *head = read;
    *until_s = read.not_after_s < signer.until_s ? read.not_after_s : signer.until_s - 1;
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
