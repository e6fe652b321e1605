/* What a user signs: bytes that are read as a submission are written again as the same bytes, so that no two texts
 * mean one submission; a proof that leads to a root has a place in its tree; of a signed batch nothing is taken but
 * what is in it, in its place, whether its signature is verified anew or known. */
#include "base/check.h"
#include "base/mem.h"
#include "ca/ca.h"
#include "ca/pem.h"
#include "net/submission.h"
#include "tests/fuzz/lib/input.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void check_bytes(const uint8_t *data, size_t size)
{
    struct signed_head head;
    uint8_t *bytes;
    size_t n;

    if (!signed_read(data, size, &head))
        return;
    CHECK(head.tasks > 0 && *head.cluster && *head.user && head.not_after_s >= 0);
    CHECK(head.spec + head.spec_size == data + size);
    CHECK(signed_write(&head, &bytes, &n) == 0);
    CHECK(n == size && memcmp(bytes, data, size) == 0);
    free(bytes);
}

static void check_proof(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct signed_proof proof = {
        .index = (uint32_t)take_number(&in, 4), .leaves = (uint32_t)take_number(&in, 4), .n = take_u8(&in)};
    struct signed_hash leaf = signed_leaf(data, size), root;

    for (unsigned i = 0; i < SIGNED_PROOF_MAX; i++)
        proof.hashes[i].bytes[0] = take_u8(&in);
    if (signed_root_of(&leaf, &proof, &root)) {
        CHECK(proof.index < proof.leaves && proof.n <= SIGNED_PROOF_MAX);
        CHECK(proof.leaves > 1 || memcmp(&root, &leaf, sizeof root) == 0);
        proof.n++;
        CHECK(!signed_root_of(&leaf, &proof, &root));
    }
}

/* ---- Batches ---- */

#define BATCHES 2u
#define BATCH 5u

struct sent {
    uint8_t *bytes;
    size_t size;
    struct signed_seal seal;
};

static struct {
    struct signed_checker checker; /* it knows the credential and the batches */
    struct sent sent[BATCHES][BATCH];
} made;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

/* Ann's credential, and its key. */
static EVP_PKEY *make_credential(uint8_t **der, size_t *size, char cluster[SIGNED_CLUSTER_TEXT])
{
    struct identity who = {
        .role = ROLE_NONE, .name = "ann", .has_uid = true, .uid = 1001, .scopes = SCOPE_SUBMIT};
    char dir[] = "/tmp/hawk-fuzz-XXXXXX", why[400], *certificate, *text;
    struct ca_root *root;
    EVP_PKEY *key;
    X509 *x;
    int n;

    CHECK(mkdtemp(dir) && ca_init(dir, why, sizeof why) == 0);
    CHECK(ca_root_open(&root, dir, ROLE_NONE, why, sizeof why) == 0);
    CHECK(nftw(dir, remove_one, 4, FTW_DEPTH | FTW_PHYS) == 0);
    CHECK(ca_make_pair(root, &who, INT64_C(86400000000), &certificate, &text) == 0);
    made.checker = (struct signed_checker){
        .roots = X509_STORE_new(), .verified = verified_new(), .now_s = (int64_t)time(NULL)};
    CHECK(X509_STORE_add_cert(made.checker.roots, ca_root_certificate(root)) == 1);
    x = pem_first(certificate);
    key = pem_first_key(text);
    CHECK(x && key && signed_cluster(made.checker.roots, x, made.checker.now_s, cluster));
    *der = NULL;
    n = i2d_X509(x, der);
    CHECK(n > 0);
    *size = (size_t)n;
    X509_free(x);
    free(certificate);
    free(text);
    ca_root_free(root);
    return key;
}

static enum signed_verdict check_sent(const struct signed_checker *checker, const struct sent *s)
{
    struct signed_head head;
    int64_t until_s;

    return signed_check(checker, s->bytes, s->size, &s->seal, &head, &until_s);
}

static void make_batch(struct sent *v, unsigned batch, EVP_PKEY *key, struct signed_head head)
{
    struct signed_hash leaves[BATCH], *nodes;
    struct signed_signature signature;

    for (unsigned i = 0; i < BATCH; i++) {
        head.nonce[0] = (uint8_t)batch;
        head.nonce[1] = (uint8_t)i;
        CHECK(signed_write(&head, &v[i].bytes, &v[i].size) == 0);
        leaves[i] = signed_leaf(v[i].bytes, v[i].size);
    }
    CHECK(signed_sign(key, leaves, BATCH, &signature) == 0);
    nodes = signed_tree(leaves, BATCH);
    for (unsigned i = 0; i < BATCH; i++) {
        v[i].seal.signature = signature;
        v[i].seal.batch = signed_prove(nodes, BATCH, i);
        CHECK(check_sent(&made.checker, &v[i]) == SIGNED_GOOD);
    }
    free(nodes);
}

static void make_all(void)
{
    struct signed_head head = {.user = "ann", .uid = 1001, .tasks = 1};
    uint8_t *der;
    size_t size;
    EVP_PKEY *key = make_credential(&der, &size, head.cluster);

    head.spec = (const uint8_t *)"sleep 1";
    head.spec_size = 7;
    head.not_after_s = made.checker.now_s + 3600;
    for (unsigned b = 0; b < BATCHES; b++) {
        for (unsigned i = 0; i < BATCH; i++)
            made.sent[b][i].seal = (struct signed_seal){.credential = der, .credential_size = size};
        make_batch(made.sent[b], b, key, head);
    }
    EVP_PKEY_free(key);
}

static const struct sent *take_sent(struct input *in)
{
    unsigned which = take_u8(in);

    return &made.sent[which / BATCH % BATCHES][which % BATCH];
}

/* Puts a part of another submission in the place of this one's, or another byte. */
static void change_sent(struct sent *s, uint8_t *bytes, uint8_t *credential, struct input *in)
{
    const struct sent *other = take_sent(in);
    struct signed_seal *seal = &s->seal;
    uint8_t what = take_u8(in), value = take_u8(in);
    size_t at = (size_t)take_number(in, 2);

    switch (what % 9) {
    case 0:
        memcpy(bytes, other->bytes, other->size); /* all have one size */
        break;
    case 1:
        bytes[at % s->size] ^= value;
        break;
    case 2:
        credential[at % seal->credential_size] ^= value;
        break;
    case 3:
        seal->signature = other->seal.signature;
        break;
    case 4:
        seal->signature.bytes[at % SIGNED_SIGNATURE_MAX] ^= value;
        break;
    case 5:
        seal->signature.size = value;
        break;
    case 6:
        seal->batch = other->seal.batch;
        break;
    case 7:
        seal->batch.hashes[at % SIGNED_PROOF_MAX].bytes[at / SIGNED_PROOF_MAX % SIGNED_HASH] ^= value;
        break;
    default:
        *(at % 3 == 0 ? &seal->batch.index : at % 3 == 1 ? &seal->batch.leaves : &seal->batch.n) = value;
        break;
    }
}

static bool is_made(const struct sent *s)
{
    for (unsigned i = 0; i < BATCHES * BATCH; i++) {
        const struct sent *m = &made.sent[i / BATCH][i % BATCH];
        const struct signed_proof *p = &m->seal.batch, *q = &s->seal.batch;
        if (memcmp(m->bytes, s->bytes, s->size) == 0)
            return p->index == q->index && p->leaves == q->leaves && p->n == q->n &&
                   memcmp(p->hashes, q->hashes, (size_t)p->n * SIGNED_HASH) == 0 &&
                   m->seal.signature.size == s->seal.signature.size &&
                   memcmp(m->seal.signature.bytes, s->seal.signature.bytes, s->seal.signature.size) == 0;
    }
    return false;
}

static void check_batch(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct signed_checker anew;
    enum signed_verdict verdict;
    uint8_t *bytes, *credential;
    struct sent s;

    if (!made.checker.roots)
        make_all();
    s = *take_sent(&in);
    s.bytes = bytes = (uint8_t *)xmemdup0((const char *)s.bytes, s.size);
    s.seal.credential = credential =
        (uint8_t *)xmemdup0((const char *)s.seal.credential, s.seal.credential_size);
    for (unsigned i = 0; i < 4 && input_left(&in) > 0; i++)
        change_sent(&s, bytes, credential, &in);
    anew = made.checker;
    anew.verified = NULL;
    verdict = check_sent(&anew, &s);
    CHECK(check_sent(&made.checker, &s) == verdict);
    CHECK(verdict != SIGNED_GOOD || is_made(&s));
    free(bytes);
    free(credential);
}

/* ---- The message ---- */

static void check_message(const uint8_t *data, size_t size)
{
    struct blob *signature = blob_new(data, size);
    char why[SUBMISSION_WHY] = "";
    struct submission s;

    if (submission_open(&s, signature, &made.checker, why) == 0)
        submission_close(&s);
    else
        CHECK(*why);
    blob_drop(signature);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_bytes(data, size);
    check_proof(data, size);
    check_batch(data, size);
    check_message(data, size);
    return 0;
}
