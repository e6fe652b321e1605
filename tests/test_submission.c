/* A signed job with arguments (net/submission.h): its hash tree is made where signatures are required, once all else
 * of the job is good, and nowhere else on a dist. */
#include "tests/test_tls.h"

#include "daemon/signatures.h"
#include "exec/exec.h"
#include "net/codec.h"
#include "net/fields.h"
#include "net/submission.h"
#include "net/tls.h"

#include <errno.h>
#include <pwd.h>
#include <time.h>

#define TASKS 5u
#define UID 61001u

static struct tls *ann;

static int make_ann(void **state)
{
    struct tls_files files;
    struct identity who;

    make_roots(state);
    who = somebody("user", "ann");
    who.has_uid = true;
    who.uid = UID;
    assert_int_equal(ca_issue(dir, &who, DAYS, dir, why, sizeof why), 0);
    files = files_of(dir, "ann");
    ann = tls_new(&files, why);
    assert_non_null(ann);
    return 0;
}

static int free_ann(void **state)
{
    tls_free(ann);
    return remove_roots(state);
}

/* As a dist gets it. */
static struct job_desc *sent(const struct job_desc *d)
{
    struct codec_buf b = {0};
    struct job_desc *got = NULL;

    codec_desc_encode(&b, d, true);
    assert_int_equal(codec_desc_decode(b.data, b.len, true, &got, why, sizeof why), 0);
    codec_buf_free(&b);
    blob_drop(got->user);
    got->user = blob_str("ann");
    return got;
}

static struct job_desc *signed_job(void)
{
    struct job_desc *d = job_desc_new(), *got;
    char text[16];

    d->tasks = TASKS;
    d->flags |= JOB_EACH_ARG;
    strings_add(&d->argv, "/bin/true");
    for (unsigned i = 0; i < TASKS; i++) {
        snprintf(text, sizeof text, "input %u", i);
        task_args_add(&d->args, text, strlen(text));
    }
    assert_int_equal(submission_sign(&d, 1, tls_signer(ann), (int64_t)time(NULL)), 0);
    got = sent(d);
    job_desc_drop(d);
    return got;
}

static int check(struct job_desc *d)
{
    struct signed_checker checker;

    tls_checker(ann, &checker);
    return submission_check(d, &checker, why);
}

static void where_no_signature_is_required_nothing_is_hashed(void **state)
{
    struct job_desc *d = signed_job();

    assert_non_null(d->signature);
    assert_null(d->tree);
    assert_null(job_desc_proof(d, 0));
    job_desc_drop(d);
}

static void a_good_job_gets_its_tree_and_proofs(void **state)
{
    struct job_desc *d = signed_job();
    struct signed_checker checker;
    struct submission s;

    assert_int_equal(check(d), 0);
    assert_non_null(d->tree);
    tls_checker(ann, &checker);
    assert_int_equal(submission_open(&s, d->signature, &checker, why), 0);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct blob *arg = job_desc_arg(d, i), *proof = job_desc_proof(d, i);

        assert_true(submission_has(&s, i, arg, proof));
        assert_false(submission_has(&s, (i + 1) % TASKS, arg, proof));
        blob_drop(arg);
        blob_drop(proof);
    }
    submission_close(&s);
    job_desc_drop(d);
}

static void what_is_not_his_is_not_hashed(void **state)
{
    struct job_desc *d = signed_job();
    struct blob *forged = blob_new(d->signature->data, d->signature->len - 1);

    blob_drop(d->user);
    d->user = blob_str("bob");
    assert_int_equal(check(d), HAWK_EDENIED);
    assert_null(d->tree);
    blob_drop(d->signature);
    d->signature = forged;
    assert_int_equal(check(d), HAWK_EDENIED);
    assert_null(d->tree);
    job_desc_drop(d);
}

static void another_input_is_another_job(void **state)
{
    struct job_desc *d = signed_job();

    d->args.data[0] = 'I';
    assert_int_equal(check(d), HAWK_EDENIED);
    assert_string_equal(why, "what its user signed is another job than the one that is submitted");
    job_desc_drop(d);
}

/* What ann signs of a job that her own program has made up: so many tasks, whatever its description says. */
static struct blob *seal_made_up(const struct job_desc *d, uint32_t tasks)
{
    struct credential_key signer = tls_signer(ann);
    struct signed_head head = {.tasks = tasks, .uid = identity_uid(signer.who)};
    struct codec_buf spec = {0}, envelope = {0};
    struct signed_signature signature;
    struct signed_hash leaf;
    struct blob *sealed;
    unsigned char *credential = NULL;
    uint8_t *bytes;
    size_t size;
    int credential_size = i2d_X509(signer.certificate, &credential);

    assert_true(credential_size > 0);
    assert_true(signed_cluster(signer.roots, signer.certificate, (int64_t)time(NULL), head.cluster));
    snprintf(head.user, sizeof head.user, "ann");
    head.not_after_s = (int64_t)time(NULL) + 3600;
    codec_desc_encode(&spec, d, false);
    head.spec = spec.data;
    head.spec_size = (uint32_t)spec.len;
    assert_int_equal(signed_write(&head, &bytes, &size), 0);
    leaf = signed_leaf(bytes, size);
    assert_int_equal(signed_sign(signer.key, &leaf, 1, &signature), 0);
    put_span(&envelope, 1, (struct span){bytes, size});
    put_span(&envelope, 2, (struct span){credential, (size_t)credential_size});
    put_span(&envelope, 3, (struct span){signature.bytes, signature.size});
    put_u32(&envelope, 5, 1);
    sealed = blob_new(envelope.data, envelope.len);
    OPENSSL_free(credential);
    codec_buf_free(&envelope);
    codec_buf_free(&spec);
    free(bytes);
    return sealed;
}

static int open_made_up(const struct job_desc *d, uint32_t tasks)
{
    struct blob *sealed = seal_made_up(d, tasks);
    struct signed_checker checker;
    struct submission s;
    int err;

    tls_checker(ann, &checker);
    err = submission_open(&s, sealed, &checker, why);
    blob_drop(sealed);
    if (!err)
        submission_close(&s);
    return err;
}

static void what_contradicts_itself_is_not_opened(void **state)
{
    struct job_desc *d = job_desc_new();

    d->tasks = TASKS;
    strings_add(&d->argv, "/bin/true");
    assert_int_equal(open_made_up(d, TASKS), 0);
    assert_int_equal(open_made_up(d, TASKS + 1), HAWK_EDENIED);
    assert_int_equal(open_made_up(d, TASKS - 1), HAWK_EDENIED);
    d->signature = blob_str("another submission"); /* within the signed description */
    assert_int_equal(open_made_up(d, TASKS), HAWK_EDENIED);
    job_desc_drop(d);
}

static int look_up_errno;

/* In place of the system's. */
struct passwd *getpwnam(const char *name)
{
    (void)name;
    errno = look_up_errno;
    return NULL;
}

static int admit(void)
{
    struct job_desc *d = signed_job(), *as_signed;
    struct msg_exec_start m = {.id.job = job_id_make((node_id_t){1}, 1), .desc = d};
    struct signatures *s;
    char says[EXEC_WHY_MAX];

    assert_int_equal(signatures_open(&s, ann, dir, false), 0);
    int err = signatures_admit(s, &m, NULL, &as_signed, says);
    snprintf(why, sizeof why, "%s", says);
    signatures_free(s);
    job_desc_drop(d);
    return err;
}

static void a_failed_look_up_of_its_user_denies_nothing(void **state)
{
    look_up_errno = EIO;
    assert_int_equal(admit(), HAWK_ECANNOT_START);
    assert_non_null(strstr(why, "user ann cannot be looked up"));
    look_up_errno = 0;
    assert_int_equal(admit(), HAWK_EDENIED);
    assert_non_null(strstr(why, "is unknown on this machine"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_no_signature_is_required_nothing_is_hashed),
        cmocka_unit_test(a_good_job_gets_its_tree_and_proofs),
        cmocka_unit_test(what_is_not_his_is_not_hashed),
        cmocka_unit_test(another_input_is_another_job),
        cmocka_unit_test(what_contradicts_itself_is_not_opened),
        cmocka_unit_test(a_failed_look_up_of_its_user_denies_nothing),
    };

    return cmocka_run_group_tests(tests, make_ann, free_ann);
}
