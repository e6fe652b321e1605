/* What travels with a job that its user has signed (message Signed of hawk.proto, in JobSpec.signature): made where he
 * submits, checked where a dist takes it, and opened where it runs. net/signed.h has the bytes and the rules. */
#ifndef HAWK_NET_SUBMISSION_H
#define HAWK_NET_SUBMISSION_H

#include "base/err.h"
#include "msg/types.h"
#include "net/signed.h"

#define SUBMISSION_WHY 256         /* room for any text about what is wrong */
#define SUBMISSION_BATCH_MAX 1024u /* jobs that a session signs together: its proofs have 10 hashes */

struct submission {
    struct signed_head head; /* without its spec */
    int64_t until_s;         /* until then it holds, and its credential: seconds since 1970 */
    struct job_desc *desc;   /* the job as its user signed it, and his: without arguments */
};

/* Signs n jobs anew, all with one signature, by the signer's credential, for SIGNED_LIFE_S_MAX from now on, unless the
 * credential is no user's who may submit. HAWK_EINVALID: its key cannot sign, no root of the signer's has signed it, or
 * one of the jobs is too large; the others are signed then. */
HAWK_MUST_USE int submission_sign(struct job_desc *const *v, uint32_t n, struct credential_key signer,
                                  int64_t now_s);
/* Signs once more what was signed, for a job that runs again: *renewed is a new reference, or NULL where there is
 * nothing to sign, or nothing to sign with. HAWK_EINVALID: as above, or this is no signature. */
HAWK_MUST_USE int submission_renew(const uint8_t *signature, size_t len, struct credential_key signer,
                                   int64_t now_s, struct blob **renewed);
/* Makes the hash tree of a signed job with arguments, d->tree: from it come the proofs that workers which require
 * signatures want. */
void submission_tree(struct job_desc *d);

/* Opens what the job's user signed; the caller closes it. HAWK_EDENIED: why (SUBMISSION_WHY bytes) says what is wrong
 * with it, or that the job is not signed. */
HAWK_MUST_USE int submission_open(struct submission *s, const struct blob *signature,
                                  const struct signed_checker *checker, char *why);
void submission_close(struct submission *s);
/* Whether the user asked for this task with this argument. */
bool submission_has(const struct submission *s, uint32_t task, const struct blob *arg,
                    const struct blob *proof);
/* Whether the whole job, with its arguments and its user, is what he signed: 0, or as submission_open(). Makes its tree
 * where all else is good. */
HAWK_MUST_USE int submission_check(struct job_desc *d, const struct signed_checker *checker, char *why);

#endif
