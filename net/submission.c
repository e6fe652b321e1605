/* See submission.h. */
#include "net/submission.h"

#include "base/check.h"
#include "base/mem.h"
#include "hawk.pb.h"
#include "net/codec.h"
#include "net/fields.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The message ---- */

struct envelope {
    struct span submission, credential, signature;
    uint32_t index, leaves;
    struct span hashes;
};
#define FIELDS_envelope(F)                                                                                   \
    F(span, submission) F(span, credential) F(span, signature) F(u32, index) F(u32, leaves) F(span, hashes)
DEFINE_PUT(envelope, struct envelope, hawk_v1_Signed)
DEFINE_GET(envelope, struct envelope)

/* ---- Arguments ---- */

static struct signed_hash *argument_leaves(const struct job_desc *d)
{
    return signed_leaves((const uint8_t *)d->args.data, d->args.off, d->args.n);
}

void submission_tree(struct job_desc *d)
{
    struct signed_hash *leaves, *tree;

    if (!d->signature || !d->args.n || d->tree)
        return;
    leaves = argument_leaves(d);
    tree = signed_tree(leaves, d->args.n);
    d->tree = blob_new(tree, tree_nodes(d->args.n) * sizeof *tree);
    free(tree);
    free(leaves);
}

/* ---- Signing ---- */

static int make_submission(const struct job_desc *d, struct signed_head *head, uint8_t **bytes, size_t *size)
{
    struct job_desc signs = *d;
    struct signed_hash *leaves;
    struct codec_buf spec = {0};
    int err;

    signs.user = NULL; /* the credential says who he is */
    codec_desc_encode(&spec, &signs, false);
    head->spec = spec.data;
    head->spec_size = (uint32_t)spec.len;
    head->tasks = d->tasks;
    head->root = (struct signed_hash){0};
    if (d->args.n) {
        leaves = argument_leaves(d);
        head->root = signed_root(leaves, d->args.n);
        free(leaves);
    }
    err = signed_write(head, bytes, size);
    codec_buf_free(&spec);
    return err;
}

static struct span credential_bytes(X509 *certificate)
{
    unsigned char *der = NULL;
    int n = i2d_X509(certificate, &der);

    CHECK(n > 0);
    return (struct span){der, (size_t)n};
}

/* What a submission of the credential's user says of him. */
static int begin_head(struct signed_head *head, const struct credential_key *signer, int64_t now_s)
{
    if (!signed_cluster(signer->roots, signer->certificate, now_s, head->cluster))
        return HAWK_EINVALID;
    snprintf(head->user, sizeof head->user, "%s", signer->who->name);
    head->uid = identity_uid(signer->who);
    head->not_after_s = now_s + SIGNED_LIFE_S_MAX;
    return 0;
}

static void name_anew(struct signed_head *head) { CHECK(RAND_bytes(head->nonce, sizeof head->nonce) == 1); }

struct draft {
    uint8_t *bytes; /* of a submission */
    size_t size;
    struct blob **sealed; /* where the message goes */
};

/* Signs these together. */
static int seal_drafts(const struct credential_key *signer, const struct draft *v, uint32_t n)
{
    struct signed_hash *leaves = xcalloc(n, sizeof *leaves), *nodes;
    struct span credential = credential_bytes(signer->certificate);
    struct signed_signature signature;
    int err;

    for (uint32_t i = 0; i < n; i++)
        leaves[i] = signed_leaf(v[i].bytes, v[i].size);
    nodes = signed_tree(leaves, n);
    err = signed_sign(signer->key, leaves, n, &signature);
    for (uint32_t i = 0; i < n && !err; i++) {
        struct signed_proof proof = signed_prove(nodes, n, i);
        struct envelope e = {.submission = {v[i].bytes, v[i].size},
                             .credential = credential,
                             .signature = {signature.bytes, signature.size},
                             .index = i,
                             .leaves = n,
                             .hashes = {(const uint8_t *)proof.hashes, (size_t)proof.n * SIGNED_HASH}};
        struct codec_buf b = {0};
        put_fields_envelope(&b, &e);
        *v[i].sealed = blob_new(b.data, b.len);
        codec_buf_free(&b);
    }
    OPENSSL_free((void *)credential.data);
    free(nodes);
    free(leaves);
    return err;
}

static void free_drafts(struct draft *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(v[i].bytes);
    free(v);
}

int submission_sign(struct job_desc *const *v, uint32_t n, struct credential_key signer, int64_t now_s)
{
    struct signed_head head = {0};
    struct draft *drafts;
    uint32_t drafts_n = 0;
    int err = 0, bad = 0;

    if (!n || !signer.key)
        return 0;
    drafts = xcalloc(n, sizeof *drafts);
    for (uint32_t i = 0; i < n && !err; i++) {
        struct draft *draft = &drafts[drafts_n];
        job_desc_unsign(v[i]);
        if (!drafts_n && (err = begin_head(&head, &signer, now_s)) != 0)
            break;
        name_anew(&head);
        draft->sealed = &v[i]->signature;
        if (make_submission(v[i], &head, &draft->bytes, &draft->size))
            bad = HAWK_EINVALID; /* the others are signed nevertheless */
        else
            drafts_n++;
    }
    if (!err && drafts_n)
        err = seal_drafts(&signer, drafts, drafts_n);
    free_drafts(drafts, drafts_n);
    return err ? err : bad;
}

int submission_renew(const uint8_t *signature, size_t len, struct credential_key signer, int64_t now_s,
                     struct blob **renewed)
{
    struct wire wire = wire_of(signature, len);
    struct envelope e = {0};
    struct signed_head head;
    struct draft draft = {.sealed = renewed};
    int err;

    *renewed = NULL;
    if (!len || !signer.key)
        return 0;
    if (!get_fields_envelope(&wire, &e) || !signed_read(e.submission.data, e.submission.len, &head))
        return HAWK_EINVALID;
    err = begin_head(&head, &signer, now_s);
    name_anew(&head);
    if (!err)
        err = signed_write(&head, &draft.bytes, &draft.size);
    if (!err)
        err = seal_drafts(&signer, &draft, 1);
    free(draft.bytes);
    return err;
}

/* ---- Checking ---- */

static bool read_proof(const struct span *hashes, struct signed_proof *proof)
{
    proof->n = (uint32_t)(hashes->len / SIGNED_HASH);
    if (hashes->len % SIGNED_HASH || hashes->len > (size_t)SIGNED_PROOF_MAX * SIGNED_HASH)
        return false;
    if (hashes->len)
        memcpy(proof->hashes, hashes->data, hashes->len);
    return true;
}

static enum signed_verdict check_envelope(const struct envelope *e, const struct signed_checker *checker,
                                          struct submission *s)
{
    struct signed_seal seal = {.credential = e->credential.data,
                               .credential_size = e->credential.len,
                               .signature.size = (uint32_t)e->signature.len,
                               .batch = {.index = e->index, .leaves = e->leaves}};

    if (e->signature.len > SIGNED_SIGNATURE_MAX || !read_proof(&e->hashes, &seal.batch) || !e->credential.len)
        return SIGNED_FORM;
    memcpy(seal.signature.bytes, e->signature.data, e->signature.len);
    return signed_check(checker, e->submission.data, e->submission.len, &seal, &s->head, &s->until_s);
}

int submission_open(struct submission *s, const struct blob *signature, const struct signed_checker *checker,
                    char *why)
{
    struct envelope e = {0};
    enum signed_verdict verdict;
    struct wire wire;

    *s = (struct submission){0};
    if (!signature) {
        snprintf(why, SUBMISSION_WHY,
                 "it is not signed: its user submits it with his credential (hawk login)");
        return HAWK_EDENIED;
    }
    wire = wire_of(signature->data, signature->len);
    verdict = get_fields_envelope(&wire, &e) && e.submission.len && e.signature.len
                  ? check_envelope(&e, checker, s)
                  : SIGNED_FORM;
    if (verdict != SIGNED_GOOD) {
        snprintf(why, SUBMISSION_WHY, "%s", signed_verdict_text(verdict));
        return HAWK_EDENIED;
    }
    if (codec_desc_decode(s->head.spec, s->head.spec_size, false, &s->desc, why, SUBMISSION_WHY))
        return HAWK_EDENIED;
    s->head.spec = NULL;
    if (s->desc->tasks != s->head.tasks || s->desc->signature) {
        submission_close(s);
        snprintf(why, SUBMISSION_WHY, "%s", signed_verdict_text(SIGNED_FORM));
        return HAWK_EDENIED;
    }
    blob_drop(s->desc->user);
    s->desc->user = blob_str(s->head.user);
    return 0;
}

void submission_close(struct submission *s)
{
    job_desc_drop(s->desc);
    s->desc = NULL;
}

bool submission_has(const struct submission *s, uint32_t task, const struct blob *arg,
                    const struct blob *proof)
{
    struct signed_proof p = {.index = task, .leaves = s->head.tasks};
    struct span hashes = proof ? (struct span){proof->data, proof->len} : (struct span){0};

    if (task >= s->head.tasks)
        return false;
    if (!(s->desc->flags & JOB_EACH_ARG))
        return !arg;
    return arg && read_proof(&hashes, &p) &&
           signed_task_fits(&s->head, (const uint8_t *)arg->data, arg->len, &p);
}

/* Whether both run the same, but for arguments and user. When it begins, and who waits for it, is its dist's to
 * know. */
static bool same_spec(const struct job_desc *a, const struct job_desc *b)
{
    struct codec_buf one = {0}, other = {0};
    struct job_desc x = *a, y = *b;
    bool same;

    x.user = y.user = x.signature = y.signature = NULL;
    x.after = y.after = (struct after_list){0};
    x.again_of = y.again_of = JOB_NONE;
    x.again_key = y.again_key = 0;
    x.flags &= ~(uint32_t)(JOB_DETACHED | JOB_AFTER_WHOLE | JOB_SUBMIT_HELD);
    y.flags &= ~(uint32_t)(JOB_DETACHED | JOB_AFTER_WHOLE | JOB_SUBMIT_HELD);
    codec_desc_encode(&one, &x, false);
    codec_desc_encode(&other, &y, false);
    same = one.len == other.len && memcmp(one.data, other.data, one.len) == 0;
    codec_buf_free(&one);
    codec_buf_free(&other);
    return same;
}

static bool same_arguments(struct job_desc *d, const struct signed_head *head)
{
    const struct signed_hash *nodes;

    if (!d->args.n)
        return true;
    submission_tree(d);
    nodes = (const struct signed_hash *)d->tree->data;
    return memcmp(&nodes[tree_nodes(d->args.n) - 1], &head->root, sizeof head->root) == 0;
}

int submission_check(struct job_desc *d, const struct signed_checker *checker, char *why)
{
    struct submission s;
    int err = submission_open(&s, d->signature, checker, why);

    if (err)
        return err;
    if (!blob_eq(d->user, s.desc->user)) {
        snprintf(why, SUBMISSION_WHY, "user %.100s signed it, and %.100s submits it", s.desc->user->data,
                 d->user->len ? d->user->data : "nobody that is known");
        err = HAWK_EDENIED;
    } else if (!same_spec(d, s.desc) || !same_arguments(d, &s.head)) {
        snprintf(why, SUBMISSION_WHY, "what its user signed is another job than the one that is submitted");
        err = HAWK_EDENIED;
    }
    submission_close(&s);
    return err;
}
