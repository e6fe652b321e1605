/* What a user signs (net/signed): it is taken as it was signed, and refused, by name, when anybody has changed a byte
 * of it, or it is another's, elsewhere or too late. */
#include "tests/test_tls.h"

#include "ca/credential.h"
#include "ca/file.h"
#include "ca/pem.h"
#include "net/signed.h"

#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <time.h>

#define TASKS 5
#define BATCH 7

static X509_STORE *roots;
static char blue[SIGNED_CLUSTER_TEXT];
static X509 *ann, *eve;
static EVP_PKEY *ann_key, *eve_key;

/* A submission, whole: changed by a test, checked as a worker does. */
struct sent {
    struct signed_checker checker;
    X509 *credential;
    uint8_t *bytes;
    size_t size;
    struct signed_hash leaves[TASKS];
    struct signed_proof batch;
    struct signed_signature signature;
};

static const char *const arguments[TASKS] = {"one", "two", "three", "", "five"};

static struct signed_head head_of(struct signed_hash leaves[TASKS])
{
    struct signed_head head = {.user = "ann",
                               .uid = 1001,
                               .nonce = "0123456789abcde",
                               .not_after_s = time(NULL) + 3600,
                               .tasks = TASKS,
                               .spec = (const uint8_t *)"sleep 1",
                               .spec_size = 7};

    snprintf(head.cluster, sizeof head.cluster, "%s", blue);
    for (int i = 0; i < TASKS; i++)
        leaves[i] = signed_leaf((const uint8_t *)arguments[i], strlen(arguments[i]));
    head.root = signed_root(leaves, TASKS);
    return head;
}

static struct signed_proof prove(const struct signed_hash *leaves, uint32_t n, uint32_t index)
{
    struct signed_hash *nodes = signed_tree(leaves, n);
    struct signed_proof proof = signed_prove(nodes, n, index);

    free(nodes);
    return proof;
}

static void sign(struct sent *s, EVP_PKEY *key)
{
    struct signed_hash leaf = signed_leaf(s->bytes, s->size);

    s->batch = prove(&leaf, 1, 0);
    assert_int_equal(signed_sign(key, &leaf, 1, &s->signature), 0);
}

static struct sent send_head(const struct signed_head *head)
{
    struct sent s = {.checker = {.roots = roots, .now_s = time(NULL)}, .credential = ann};

    assert_int_equal(signed_write(head, &s.bytes, &s.size), 0);
    sign(&s, ann_key);
    return s;
}

static struct sent send_good(void)
{
    struct signed_hash leaves[TASKS];
    struct signed_head head = head_of(leaves);
    struct sent s = send_head(&head);

    memcpy(s.leaves, leaves, sizeof leaves);
    return s;
}

static enum signed_verdict check(const struct sent *s, struct signed_head *head)
{
    unsigned char *der = NULL;
    int n = i2d_X509(s->credential, &der);
    struct signed_seal seal = {
        .credential = der, .credential_size = (size_t)n, .signature = s->signature, .batch = s->batch};
    enum signed_verdict verdict;
    int64_t until_s;

    assert_true(n > 0);
    verdict = signed_check(&s->checker, s->bytes, s->size, &seal, head, &until_s);
    assert_true(verdict == SIGNED_GOOD ? until_s == head->not_after_s : until_s == 0);
    OPENSSL_free(der);
    return verdict;
}

static void verdict_is(const struct sent *s, enum signed_verdict verdict)
{
    struct signed_head head;
    enum signed_verdict got = check(s, &head);

    if (got != verdict)
        fail_msg("%s, and not: %s", signed_verdict_text(got), signed_verdict_text(verdict));
    assert_true(head.tasks == 0 || got == SIGNED_GOOD);
}

static void what_was_signed_is_read(void **state)
{
    struct sent s = send_good();
    struct signed_head head;

    assert_int_equal(check(&s, &head), SIGNED_GOOD);
    assert_string_equal(head.cluster, blue);
    assert_string_equal(head.user, "ann");
    assert_int_equal(head.uid, 1001);
    assert_memory_equal(head.nonce, "0123456789abcde", SIGNED_NONCE);
    assert_in_range(head.not_after_s, s.checker.now_s + 3590, s.checker.now_s + 3610);
    assert_int_equal(head.tasks, TASKS);
    assert_int_equal(head.spec_size, 7);
    assert_memory_equal(head.spec, "sleep 1", 7);
    free(s.bytes);
}

static void no_byte_can_be_changed(void **state)
{
    struct sent s = send_good();
    struct signed_head head;

    for (size_t i = 0; i < s.size; i++) {
        s.bytes[i] ^= 1;
        if (check(&s, &head) == SIGNED_GOOD)
            fail_msg("byte %zu is another, and nobody sees it", i);
        s.bytes[i] ^= 1;
    }
    s.bytes[s.size - 1] ^= 1; /* of the command */
    verdict_is(&s, SIGNED_SIGNATURE);
    s.bytes[s.size - 1] ^= 1;
    for (uint32_t i = 0; i < s.signature.size; i++) {
        s.signature.bytes[i] ^= 1;
        verdict_is(&s, SIGNED_SIGNATURE);
        s.signature.bytes[i] ^= 1;
    }
    s.signature.size = SIGNED_SIGNATURE_MAX + 1;
    verdict_is(&s, SIGNED_SIGNATURE);
    s.signature.size = 0;
    verdict_is(&s, SIGNED_SIGNATURE);
    free(s.bytes);
}

static void part_of_it_or_more_is_none(void **state)
{
    struct sent s = send_good();
    uint8_t *more = calloc(1, s.size + 1);
    struct signed_head head;

    memcpy(more, s.bytes, s.size);
    assert_true(signed_read(more, s.size, &head));
    assert_false(signed_read(more, s.size + 1, &head));
    for (size_t n = 0; n < s.size; n++)
        assert_false(signed_read(more, n, &head));
    free(more);
    s.size--;
    verdict_is(&s, SIGNED_FORM);
    free(s.bytes);
}

/* No signer writes it, and it reads as none. */
static void a_cut_name_or_a_time_before_all_others_is_none(void **state)
{
    struct sent s = send_good();
    struct signed_head head;
    uint8_t *name = memmem(s.bytes, s.size, "ann", 3),
            *nonce = memmem(s.bytes, s.size, "0123456789abcde", SIGNED_NONCE);

    assert_true(name && nonce);
    name[2] = '\0'; /* "an", which another credential may say */
    assert_false(signed_read(s.bytes, s.size, &head));
    name[2] = 'n';
    assert_true(signed_read(s.bytes, s.size, &head));
    nonce[SIGNED_NONCE] = 0x80; /* of not_after_s: it would be negative */
    assert_false(signed_read(s.bytes, s.size, &head));
    free(s.bytes);
}

static void one_task_is_shown_by_itself(void **state)
{
    struct sent s = send_good();
    struct signed_head head;

    assert_int_equal(check(&s, &head), SIGNED_GOOD);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct signed_proof proof = prove(s.leaves, TASKS, i);
        for (uint32_t j = 0; j < TASKS; j++)
            assert_int_equal(
                signed_task_fits(&head, (const uint8_t *)arguments[j], strlen(arguments[j]), &proof), i == j);
        /* Its arguments under another task's number. */
        proof.index = (i + 1) % TASKS;
        assert_false(signed_task_fits(&head, (const uint8_t *)arguments[i], strlen(arguments[i]), &proof));
    }
    /* The last one as the second of two: the same hashes lead to the same root. */
    struct signed_proof proof = prove(s.leaves, TASKS, TASKS - 1);
    proof.leaves = 2;
    proof.index = 1;
    assert_false(
        signed_task_fits(&head, (const uint8_t *)arguments[TASKS - 1], strlen(arguments[TASKS - 1]), &proof));
    free(s.bytes);
}

/* n submissions that one signature signs, each with its place in the batch. */
static void sign_batch(struct sent *s, uint32_t n, EVP_PKEY *key, struct verified *verified)
{
    struct signed_hash inside[TASKS], leaves[BATCH];
    struct signed_signature signature;
    static uint8_t batch;

    batch++;
    for (uint32_t i = 0; i < n; i++) {
        struct signed_head head = head_of(inside);
        head.nonce[0] = (uint8_t)i;
        head.nonce[1] = batch;
        s[i] = send_head(&head);
        s[i].checker.verified = verified;
        leaves[i] = signed_leaf(s[i].bytes, s[i].size);
    }
    assert_int_equal(signed_sign(key, leaves, n, &signature), 0);
    for (uint32_t i = 0; i < n; i++) {
        s[i].signature = signature;
        s[i].batch = prove(leaves, n, i);
    }
}

static void free_batch(struct sent *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(s[i].bytes);
}

/* Whatever of it is another's, or not whole, is refused: also where its batch, and every other, is known. */
static void spoil_batch(struct sent *v, struct sent *other)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        struct sent s = v[i];
        s.batch = v[(i + 1) % BATCH].batch;
        verdict_is(&s, SIGNED_SIGNATURE);
        s.batch = other[i].batch;
        verdict_is(&s, SIGNED_SIGNATURE);
        s.signature = other[i].signature;
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.signature = other[i].signature; /* ann's as well */
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.batch = (struct signed_proof){.leaves = 1};
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.batch.n--;
        verdict_is(&s, SIGNED_SIGNATURE);
        s.batch.n += 2;
        verdict_is(&s, SIGNED_SIGNATURE);
        s.batch.n = SIGNED_PROOF_MAX + 1;
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.batch.leaves++;
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.batch.hashes[s.batch.n - 1].bytes[SIGNED_HASH - 1] ^= 1;
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.bytes[s.size - 1] ^= 1; /* of the command */
        verdict_is(&s, SIGNED_SIGNATURE);
        s.bytes[s.size - 1] ^= 1;
        s.signature.bytes[s.signature.size - 1] ^= 1;
        verdict_is(&s, SIGNED_SIGNATURE);
        s = v[i];
        s.credential = eve;
        verdict_is(&s, SIGNED_CREDENTIAL);
    }
}

static void a_batch_is_verified_once(void **state)
{
    struct sent v[BATCH], other[BATCH];
    struct verified *verified = verified_new();
    uint64_t counted;

    sign_batch(v, BATCH, ann_key, verified);
    sign_batch(other, BATCH, ann_key, verified);
    spoil_batch(v, other); /* nothing of that is kept */
    for (uint32_t i = 0; i < BATCH; i++) {
        counted = verified_counted(verified, VERIFIED_BATCH);
        verdict_is(&v[i], SIGNED_GOOD);
        assert_int_equal(verified_counted(verified, VERIFIED_BATCH), counted + (i == 0));
    }
    verdict_is(&other[0], SIGNED_GOOD);
    spoil_batch(v, other);
    counted = verified_counted(verified, VERIFIED_BATCH);
    verdict_is(&v[1], SIGNED_GOOD); /* the failures have not driven it out */
    verified_forget(verified);      /* other roots */
    verdict_is(&v[1], SIGNED_GOOD);
    assert_int_equal(verified_counted(verified, VERIFIED_BATCH), counted + 1);
    verified_free(verified);
    free_batch(v, BATCH);
    free_batch(other, BATCH);
}

/* A submission that is known by its batch is looked at as strictly as one that is alone. */
static void a_known_batch_excuses_nothing(void **state)
{
    struct sent v[3], s;
    struct verified *verified = verified_new();
    struct identity who;

    sign_batch(v, 3, ann_key, verified);
    verdict_is(&v[0], SIGNED_GOOD);
    s = v[1];
    s.checker.now_s += 2 * 3600;
    verdict_is(&s, SIGNED_EXPIRED);
    assert_true(certificate_names(ann, &who));
    s.checker.now_s = who.until_s - 1;
    verdict_is(&s, SIGNED_EXPIRED); /* the credential still holds */
    s.checker.now_s = who.until_s;
    verdict_is(&s, SIGNED_CREDENTIAL);
    s.checker.now_s = who.made_s - CERTIFICATE_BACKDATED_S - 1;
    verdict_is(&s, SIGNED_CREDENTIAL);
    s.checker.now_s = v[1].checker.now_s;
    verdict_is(&s, SIGNED_GOOD);
    verified_free(verified);
    free_batch(v, 3);
}

static void a_batch_of_another_user_is_his(void **state)
{
    struct sent v[2];
    struct verified *verified = verified_new();

    sign_batch(v, 2, eve_key, verified);
    for (int i = 0; i < 2; i++) {
        verdict_is(&v[i], SIGNED_SIGNATURE); /* under ann's certificate */
        v[i].credential = eve;
        verdict_is(&v[i], SIGNED_CREDENTIAL); /* under her own, of other roots */
    }
    verified_free(verified);
    free_batch(v, 2);
}

/* One alone is the only one of its batch: nothing but its credential is to be kept of it. */
static void of_one_alone_its_credential_is_kept(void **state)
{
    struct verified *verified = verified_new();
    struct sent s = send_good();

    s.checker.verified = verified;
    for (unsigned i = 0; i < 3; i++) {
        verdict_is(&s, SIGNED_GOOD);
        assert_int_equal(verified_counted(verified, VERIFIED_BATCH), i + 1);
        assert_int_equal(verified_counted(verified, VERIFIED_CREDENTIAL), 1);
    }
    verified_forget(verified); /* other roots */
    verdict_is(&s, SIGNED_GOOD);
    assert_int_equal(verified_counted(verified, VERIFIED_CREDENTIAL), 2);
    verified_free(verified);
    free(s.bytes);
}

/* Who is known by his credential is looked at as strictly as anybody: his signature, and when the credential holds. */
static void a_known_credential_excuses_nothing(void **state)
{
    struct verified *verified = verified_new();
    struct sent good = send_good(), s = good;
    X509_STORE *none = X509_STORE_new();
    struct identity who;

    good.checker.verified = s.checker.verified = verified;
    s.credential = eve;
    verdict_is(&s, SIGNED_CREDENTIAL); /* of other roots, which is not kept */
    verdict_is(&s, SIGNED_CREDENTIAL);
    verdict_is(&good, SIGNED_GOOD);
    s = good;
    s.signature.bytes[s.signature.size - 1] ^= 1;
    verdict_is(&s, SIGNED_SIGNATURE);
    s = good;
    s.bytes[s.size - 1] ^= 1;
    verdict_is(&s, SIGNED_SIGNATURE);
    s.bytes[s.size - 1] ^= 1;
    assert_true(certificate_names(ann, &who));
    s = good;
    s.checker.now_s = who.until_s;
    verdict_is(&s, SIGNED_CREDENTIAL);
    s.checker.now_s = who.made_s - CERTIFICATE_BACKDATED_S - 1;
    verdict_is(&s, SIGNED_CREDENTIAL);
    verdict_is(&good, SIGNED_GOOD);
    s = good;
    s.checker.roots = none;
    verified_forget(verified);
    verdict_is(&s, SIGNED_CREDENTIAL);
    X509_STORE_free(none);
    verified_free(verified);
    free(good.bytes);
}

static void nobody_signs_for_another(void **state)
{
    struct sent s = send_good();
    struct signed_hash leaves[TASKS];
    struct signed_head head = head_of(leaves);

    sign(&s, eve_key); /* with ann's certificate */
    verdict_is(&s, SIGNED_SIGNATURE);
    s.credential = eve; /* of other roots */
    verdict_is(&s, SIGNED_CREDENTIAL);
    free(s.bytes);
    snprintf(head.user, sizeof head.user, "bob");
    s = send_head(&head);
    verdict_is(&s, SIGNED_USER);
    free(s.bytes);
    head = head_of(leaves);
    head.uid = 0;
    s = send_head(&head);
    verdict_is(&s, SIGNED_UID);
    free(s.bytes);
}

/* A credential of the user root's with these scopes, or a worker's of the node root's. */
static void sign_as(struct sent *s, const char *role, unsigned scopes)
{
    struct identity who = somebody(role, "ann");
    char *certificate, *key;
    struct ca_root *root;
    EVP_PKEY *pkey;

    who.has_uid = who.role == ROLE_NONE;
    who.uid = who.has_uid ? 1001 : 0;
    who.scopes = scopes;
    assert_int_equal(ca_root_open(&root, dir, who.role, why, sizeof why), 0);
    assert_int_equal(ca_make_pair(root, &who, DAYS, &certificate, &key), 0);
    ca_root_free(root);
    pkey = pem_first_key(key);
    sign(s, pkey);
    s->credential = pem_first(certificate);
    EVP_PKEY_free(pkey);
    free(certificate);
    free(key);
}

/* Ann's certificate with other names. */
static bool named(const char *names, struct identity *who)
{
    X509_EXTENSION *more = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    X509 *c = X509_dup(ann);
    bool good;

    assert_true(c && more);
    X509_EXTENSION_free(X509_delete_ext(c, X509_get_ext_by_NID(c, NID_subject_alt_name, -1)));
    assert_int_equal(X509_add_ext(c, more, -1), 1);
    good = certificate_names(c, who);
    X509_EXTENSION_free(more);
    X509_free(c);
    return good;
}

static void a_certificate_names_one_and_no_uid_that_is_nobodys(void **state)
{
    struct identity who;

    assert_true(named("DNS:ann.user.hawk,URI:hawk:uid:7", &who));
    assert_true(who.has_uid && who.uid == 7);
    assert_true(named("DNS:ann.user.hawk,URI:hawk:uid:65534", &who)); /* of another user namespace */
    assert_false(who.has_uid && who.uid == 65534);
    assert_false(named("DNS:ann.user.hawk,DNS:bob.user.hawk", &who));
    assert_int_equal(who.name[0], '\0');
}

static void scopes_and_roles_count(void **state)
{
    struct sent s = send_good();

    sign_as(&s, "user", SCOPE_READ);
    verdict_is(&s, SIGNED_SCOPE);
    X509_free(s.credential);
    sign_as(&s, "user", SCOPE_SUBMIT);
    verdict_is(&s, SIGNED_GOOD);
    X509_free(s.credential);
    sign_as(&s, "worker", SCOPE_NONE);
    verdict_is(&s, SIGNED_CREDENTIAL);
    X509_free(s.credential);
    free(s.bytes);
}

static void time_and_place_count(void **state)
{
    struct signed_hash leaves[TASKS];
    struct signed_head head = head_of(leaves);
    struct sent s = send_head(&head);

    s.checker.now_s = head.not_after_s;
    verdict_is(&s, SIGNED_GOOD);
    s.checker.now_s = head.not_after_s + 1;
    verdict_is(&s, SIGNED_EXPIRED);
    s.checker.now_s += 3 * 86400; /* the credential's end, too */
    verdict_is(&s, SIGNED_CREDENTIAL);
    free(s.bytes);
    snprintf(head.cluster, sizeof head.cluster, "green");
    s = send_head(&head);
    verdict_is(&s, SIGNED_CLUSTER);
    free(s.bytes);
    head = head_of(leaves);
    head.not_after_s = time(NULL) + SIGNED_LIFE_S_MAX + 2 * SIGNED_CLOCKS_S;
    s = send_head(&head);
    verdict_is(&s, SIGNED_LIFE);
    free(s.bytes);
}

/* Whoever keeps the job until then would run it under a credential that holds no more. */
static void it_holds_no_longer_than_its_credential(void **state)
{
    struct signed_hash leaves[TASKS];
    struct signed_head head = head_of(leaves);
    struct identity who;
    struct signed_seal seal;
    unsigned char *der = NULL;
    struct sent s;
    int64_t until_s;
    int n = i2d_X509(ann, &der);

    assert_true(n > 0 && certificate_names(ann, &who));
    head.not_after_s = who.until_s + 1;
    s = send_head(&head);
    seal = (struct signed_seal){
        .credential = der, .credential_size = (size_t)n, .signature = s.signature, .batch = s.batch};
    assert_int_equal(signed_check(&s.checker, s.bytes, s.size, &seal, &head, &until_s), SIGNED_GOOD);
    assert_int_equal(until_s, who.until_s - 1); /* the last second in which it is verified */
    OPENSSL_free(der);
    free(s.bytes);
}

static void a_revoked_credential_signs_nothing(void **state)
{
    struct identity who = somebody("user", "ann");
    struct verified *verified = verified_new();
    struct sent s[2];
    struct denied *denied;
    char path[128], *text, *signers;
    uint64_t version;

    sign_batch(s, 2, ann_key, verified);
    verdict_is(&s[0], SIGNED_GOOD); /* the batch is known from now on */
    assert_int_equal(ca_revoke(dir, &who, &version, why, sizeof why), 0);
    snprintf(path, sizeof path, "%s/" CA_DENIED, dir);
    assert_int_equal(ca_read(path, &text, why, sizeof why), 0);
    snprintf(path, sizeof path, "%s/" CA_ROOTS, dir);
    assert_int_equal(ca_read(path, &signers, why, sizeof why), 0);
    denied = denied_read(text, signers, why, sizeof why);
    assert_non_null(denied);
    for (int i = 0; i < 2; i++) {
        s[i].checker.denied = denied;
        verdict_is(&s[i], SIGNED_DENIED);
        s[i].checker.verified = NULL;
        verdict_is(&s[i], SIGNED_DENIED);
    }
    denied_free(denied);
    free(text);
    free(signers);
    verified_free(verified);
    free_batch(s, 2);
}

static void what_cannot_be_signed_is_not_written(void **state)
{
    struct signed_hash leaves[TASKS];
    struct signed_head good = head_of(leaves), head = good;
    uint8_t *bytes;
    size_t size;

    head.tasks = 0;
    assert_int_equal(signed_write(&head, &bytes, &size), HAWK_EINVALID);
    head = good;
    head.user[0] = '\0';
    assert_int_equal(signed_write(&head, &bytes, &size), HAWK_EINVALID);
    head = good;
    head.spec_size = SIGNED_BYTES_MAX;
    assert_int_equal(signed_write(&head, &bytes, &size), HAWK_EINVALID);
}

static int set_up(void **state)
{
    struct identity who;
    struct credential of_ann, of_eve;
    struct ca_root *root;

    make_roots(state);
    who = somebody("user", "ann");
    who.has_uid = true;
    who.uid = 1001;
    assert_int_equal(ca_root_open(&root, dir, ROLE_NONE, why, sizeof why), 0);
    assert_int_equal(credential_make(&of_ann, root, &who, DAYS, "", ""), 0);
    roots = X509_STORE_new();
    assert_int_equal(X509_STORE_add_cert(roots, ca_root_certificate(root)), 1);
    ca_root_free(root);
    assert_int_equal(ca_root_open(&root, strange, ROLE_NONE, why, sizeof why), 0);
    assert_int_equal(credential_make(&of_eve, root, &who, DAYS, "", ""), 0);
    ca_root_free(root);
    ann = pem_first(of_ann.certificate);
    ann_key = pem_first_key(of_ann.key);
    assert_true(signed_cluster(roots, ann, time(NULL), blue));
    eve = pem_first(of_eve.certificate);
    eve_key = pem_first_key(of_eve.key);
    credential_free(&of_ann);
    credential_free(&of_eve);
    return 0;
}

static int tear_down(void **state)
{
    X509_STORE_free(roots);
    X509_free(ann);
    X509_free(eve);
    EVP_PKEY_free(ann_key);
    EVP_PKEY_free(eve_key);
    return remove_roots(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_signed_is_read),
        cmocka_unit_test(no_byte_can_be_changed),
        cmocka_unit_test(part_of_it_or_more_is_none),
        cmocka_unit_test(a_cut_name_or_a_time_before_all_others_is_none),
        cmocka_unit_test(one_task_is_shown_by_itself),
        cmocka_unit_test(a_batch_is_verified_once),
        cmocka_unit_test(a_known_batch_excuses_nothing),
        cmocka_unit_test(a_known_credential_excuses_nothing),
        cmocka_unit_test(a_batch_of_another_user_is_his),
        cmocka_unit_test(of_one_alone_its_credential_is_kept),
        cmocka_unit_test(nobody_signs_for_another),
        cmocka_unit_test(a_certificate_names_one_and_no_uid_that_is_nobodys),
        cmocka_unit_test(scopes_and_roles_count),
        cmocka_unit_test(time_and_place_count),
        cmocka_unit_test(it_holds_no_longer_than_its_credential),
        cmocka_unit_test(a_revoked_credential_signs_nothing),
        cmocka_unit_test(what_cannot_be_signed_is_not_written),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
