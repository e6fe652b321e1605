/* What a user signs of a submission, and how whoever runs it checks that. These bytes travel unchanged: who checks them
 * reads from them, and from nothing else, what to run.
 *
 *   "hawk signed 1\n"
 *   cluster, user      each: length (1 byte), text; the cluster is the SHA-256, in hex, of the public key (DER) of the
 *                      root that signed the user's credential
 *   uid                4 bytes; numbers are big-endian
 *   nonce              16 bytes: names the submission, for ever
 *   not_after_s        8 bytes, seconds since 1970
 *   tasks              4 bytes
 *   root               32 bytes: of the hash tree over what each task has of its own
 *   spec               4 bytes of length, bytes: what all tasks have in common
 *
 * A signature covers a batch: "hawk batch 1\n", the number of submissions (4 bytes), the root of the hash tree over
 * their bytes. Each submission carries the signature and its place in the batch; one alone is a batch of one. Who has
 * verified a batch, or a credential, need not do so for its next submission (net/verified.h).
 *
 * The hash tree is that of RFC 6962 with SHA-256: leaves and inner nodes are hashed with different first bytes, and an
 * odd node moves up unchanged. A proof has at most 32 hashes. No I/O, no clock. */
#ifndef HAWK_NET_SIGNED_H
#define HAWK_NET_SIGNED_H

#include "base/err.h"
#include "msg/tree.h"
#include "net/denied.h"
#include "net/identity.h"
#include "net/verified.h"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNED_HASH TREE_HASH
#define SIGNED_NONCE 16u
#define SIGNED_PROOF_MAX TREE_PROOF_MAX /* hashes */
#define SIGNED_CLUSTER_TEXT (2 * SIGNED_HASH + 1)
#define SIGNED_SIGNATURE_MAX 128u    /* bytes */
#define SIGNED_BYTES_MAX (16u << 20) /* of one submission, without what its tasks have of their own */
#define SIGNED_LIFE_S_MAX (INT64_C(7) * 24 * 3600) /* not_after_s is at most so far ahead */
#define SIGNED_CLOCKS_S 300                        /* clocks may differ by so much */

struct signed_hash {
    uint8_t bytes[SIGNED_HASH];
};

/* Where a leaf stands in a tree: its neighbours on the way up. */
struct signed_proof {
    uint32_t index, leaves;
    uint32_t n;
    struct signed_hash hashes[SIGNED_PROOF_MAX];
};

struct signed_head {
    char cluster[LIMIT_NAME_BYTES + 1], user[LIMIT_NAME_BYTES + 1];
    uint32_t uid; /* IDENTITY_NO_UID: the credential names none */
    uint8_t nonce[SIGNED_NONCE];
    int64_t not_after_s;
    uint32_t tasks;
    struct signed_hash root;
    const uint8_t *spec; /* borrowed */
    uint32_t spec_size;
};

struct signed_signature {
    uint32_t size;
    uint8_t bytes[SIGNED_SIGNATURE_MAX];
};

/* What shows that a submission is its user's. */
struct signed_seal {
    const uint8_t *credential; /* DER; borrowed */
    size_t credential_size;
    struct signed_signature signature; /* of the batch, */
    struct signed_proof batch;         /* in which the submission has this place */
};

#define SIGNED_VERDICTS(X)                                                                                   \
    X(GOOD, "it is good")                                                                                    \
    X(FORM, "these bytes are no signed submission")                                                          \
    X(CREDENTIAL, "the user root has not signed its credential, or the credential has expired")              \
    X(DENIED, "its credential is revoked")                                                                   \
    X(SCOPE, "its credential does not allow to submit")                                                      \
    X(USER, "its credential is another user's")                                                              \
    X(UID, "its credential has another uid")                                                                 \
    X(CLUSTER, "it was signed for another cluster")                                                          \
    X(EXPIRED, "its signature has expired: submit it anew")                                                  \
    X(LIFE, "its signature would hold for more than 7 days: the clock where it was made is ahead")           \
    X(SIGNATURE, "the user did not sign this")
enum signed_verdict {
#define X(name, text) SIGNED_##name,
    SIGNED_VERDICTS(X)
#undef X
};

/* A credential with its key: what a user signs with. */
struct credential_key {
    const struct identity *who; /* for whom the credential is */
    X509 *certificate;
    EVP_PKEY *key; /* NULL: it is no user's who may submit */
    X509_STORE *roots;
};

/* What whoever checks knows by himself, and not from who sent the submission. */
struct signed_checker {
    X509_STORE *roots;           /* the cluster's: of these the user root alone may sign users */
    const struct denied *denied; /* NULL: nobody is revoked */
    struct verified *verified;   /* by these roots; NULL: each submission is verified by itself */
    int64_t now_s;               /* since 1970 */
};

/* ---- Hash trees ---- */

/* The hash of a leaf. */
struct signed_hash signed_leaf(const uint8_t *bytes, size_t size);
/* Those of n texts, of which text i begins at off[i]: the caller's to free. */
struct signed_hash *signed_leaves(const uint8_t *bytes, const uint32_t *off, uint32_t n);
/* All nodes of the tree of n leaves, at least one, as msg/tree.h has them: the caller's to free. */
struct signed_hash *signed_tree(const struct signed_hash *leaves, uint32_t n);
/* The root of that tree. */
struct signed_hash signed_root(const struct signed_hash *leaves, uint32_t n);
/* Shows that leaf `index` (below n) is in the tree with these nodes. */
struct signed_proof signed_prove(const struct signed_hash *nodes, uint32_t n, uint32_t index);
/* The root that a leaf and its proof lead to. False: no tree has such a proof. */
bool signed_root_of(const struct signed_hash *leaf, const struct signed_proof *proof,
                    struct signed_hash *root);

/* ---- Submissions ---- */

/* The cluster's name in submissions that this credential signs. False: none of the roots has signed it, or it has
 * expired. */
bool signed_cluster(X509_STORE *roots, X509 *credential, int64_t now_s, char cluster[SIGNED_CLUSTER_TEXT]);

/* The bytes of a submission, the caller's to free. HAWK_EINVALID: names or spec are too long, or there are no tasks. */
HAWK_MUST_USE int signed_write(const struct signed_head *head, uint8_t **bytes, size_t *size);
/* Reads them; head->spec points into them. False: they are none, or there is more behind them. */
bool signed_read(const uint8_t *bytes, size_t size, struct signed_head *head);
/* Signs a batch of n submissions, whose leaves these are, with the key of the user's credential. HAWK_EINVALID: the key
 * cannot sign. */
HAWK_MUST_USE int signed_sign(EVP_PKEY *key, const struct signed_hash *leaves, uint32_t n,
                              struct signed_signature *signature);
/* Whether the user asked for this submission. When the verdict is SIGNED_GOOD, *head is set, and *until_s is the last
 * second at which the submission and its credential hold. What checker->verified knows is not verified again;
 * the credential, and a batch of several submissions, are added to it. */
enum signed_verdict signed_check(const struct signed_checker *checker, const uint8_t *bytes, size_t size,
                                 const struct signed_seal *seal, struct signed_head *head, int64_t *until_s);
/* Whether what a task has of its own (size bytes) is what the user signed for that task, proof->index. */
bool signed_task_fits(const struct signed_head *head, const uint8_t *bytes, size_t size,
                      const struct signed_proof *proof);
/* "it was signed for another cluster" */
const char *signed_verdict_text(enum signed_verdict verdict);

#endif
