/* A peer that shows a renewed certificate on an open connection (net/tls): for the same node and key alone; and
 * lists of those that are revoked. */
#include "tests/test_tls.h"

#include "ca/file.h"
#include "ca/kept.h"

#include <openssl/pem.h>

static struct tls *ours; /* central's */

static int open_ours(void **state)
{
    struct tls_files f;

    assert_int_equal(make_roots(state), 0);
    f = files_of(dir, "c1");
    ours = tls_new(&f, why);
    assert_non_null(ours);
    return 0;
}

static int close_ours(void **state)
{
    tls_free(ours);
    return remove_roots(state);
}

/* A certificate of the roots in `from`, for the key that is kept in DIR/at. The caller frees it. */
static char *signed_for(const char *from, const char *at, const char *role, const char *name, int64_t life_us)
{
    struct identity who = somebody(role, name);
    struct ca_root *root;
    char path[PATH_MAX], *pem;
    uint64_t number;
    uint8_t *der;
    size_t len;

    assert_true(ca_path(path, dir, at, why, sizeof why));
    assert_int_equal(kept_request(path, &der, &len, why, sizeof why), 0);
    assert_int_equal(ca_root_open(&root, from, who.role, why, sizeof why), 0);
    assert_int_equal(ca_sign_request(root, &who, der, len, life_us, &pem, &number), 0);
    ca_root_free(root);
    free(der);
    return pem;
}

/* Whom a certificate is for, as the connection's handshake has shown. */
static struct identity known_by(const char *pem)
{
    BIO *in = BIO_new_mem_buf(pem, -1);
    X509 *certificate = PEM_read_bio_X509(in, NULL, NULL, NULL);
    struct identity who;

    assert_non_null(certificate);
    assert_true(certificate_names(certificate, &who));
    X509_free(certificate);
    BIO_free(in);
    return who;
}

static void show(char *pem, struct identity *who, int err, const char *reason)
{
    struct identity before = *who;

    why[0] = '\0';
    assert_int_equal(tls_take_renewed(ours, pem, who, why), err);
    if (err) {
        if (!strstr(why, reason))
            fail_msg("%s", why);
        assert_memory_equal(&before, who, sizeof before);
    }
    free(pem);
}

static void a_renewed_one_is_taken_for_the_same_node_and_key(void **state)
{
    char *first = signed_for(dir, "k1", "worker", "w9", DAYS);
    struct identity who = known_by(first);
    const int64_t until_s = who.until_s;

    show(signed_for(dir, "k1", "worker", "w9", 2 * DAYS), &who, 0, "");
    assert_in_range(who.until_s - until_s, DAYS / US_PER_S,
                    DAYS / US_PER_S + 60); /* each begins when it is signed */
    assert_string_equal(who.name, "w9");
    /* The older one again, or one for another key, changes nothing. */
    show(first, &who, HAWK_ESTALE, "no newer");
    show(signed_for(dir, "k2", "worker", "w9", 3 * DAYS), &who, HAWK_ESTALE, "another key");
}

static void anything_else_is_refused(void **state)
{
    char *first = signed_for(dir, "k1", "worker", "w9", DAYS), *pem;
    struct identity who = known_by(first);

    show(signed_for(dir, "k1", "worker", "w8", 2 * DAYS), &who, HAWK_EDENIED,
         "somebody else, w8.worker.hawk");
    show(signed_for(dir, "k1", "dist", "w9", 2 * DAYS), &who, HAWK_EDENIED, "somebody else, w9.dist.hawk");
    show(signed_for(dir, "k1", "user", "w9", 2 * DAYS), &who, HAWK_EDENIED, "somebody else, w9.user.hawk");
    show(signed_for(strange, "k1", "worker", "w9", 2 * DAYS), &who, HAWK_EDENIED, "is not good");
    show(strdup("hello"), &who, HAWK_EDENIED, "no node's certificate");
    show(strdup(""), &who, HAWK_EDENIED, "no node's certificate");
    pem = calloc(1, TLS_SHOWN_MAX + 2);
    assert_non_null(pem);
    memset(pem, ' ', TLS_SHOWN_MAX + 1);
    show(pem, &who, HAWK_EDENIED, "more than 16384 bytes");
    free(first);
}

/* Revokes it, and returns the list that says so. The caller frees it. */
static char *list_without(const char *name)
{
    struct identity who = somebody("worker", name);
    char path[PATH_MAX], *text;
    uint64_t version;

    assert_int_equal(ca_revoke(dir, &who, &version, why, sizeof why), 0);
    assert_true(ca_path(path, dir, CA_DENIED, why, sizeof why));
    assert_int_equal(ca_read(path, &text, why, sizeof why), 0);
    return text;
}

/* Whoever sends an earlier list, which is as well signed, brings nobody back. */
static void an_earlier_list_of_the_revoked_is_not_taken(void **state)
{
    char *earlier = list_without("w1"), *later = list_without("w2");
    struct identity w2 = somebody("worker", "w2");
    uint64_t version;

    assert_int_equal(tls_deny(ours, later, &version, why, sizeof why), 1);
    assert_int_equal(version, 2);
    assert_int_equal(tls_deny(ours, earlier, &version, why, sizeof why), HAWK_ESTALE);
    assert_int_equal(version, 1);
    assert_int_equal(tls_deny(ours, later, &version, why, sizeof why), 0);
    assert_int_equal(tls_denials(ours), 1);
    assert_non_null(tls_why_not(ours, &w2));
    free(earlier);
    free(later);
}

/* Users are administered elsewhere: their root signs a list with versions of its own. */
static void each_root_has_its_list(void **state)
{
    struct identity ann = somebody("user", "ann"), w3 = somebody("worker", "w3");
    char users[128], command[600], path[PATH_MAX], *nodes, *first, *second, *both;
    uint64_t version;

    snprintf(users, sizeof users, "%s/apart", dir);
    snprintf(command, sizeof command, "mkdir %s && cp -r %s/users %s/roots.crt %s", users, dir, dir, users);
    assert_int_equal(system(command), 0); /* NOLINT: names of our own */
    nodes = list_without("w3");
    assert_true(ca_path(path, users, CA_DENIED, why, sizeof why));
    for (uint64_t i = 1; i <= 9; i++) {
        assert_int_equal(ca_revoke(users, &ann, &version, why, sizeof why), 0);
        assert_int_equal(version, i);
        if (i == 8)
            assert_int_equal(ca_read(path, &first, why, sizeof why), 0);
    }
    assert_int_equal(ca_read(path, &second, why, sizeof why), 0);
    assert_int_equal(tls_deny(ours, second, &version, why, sizeof why), 1);
    assert_int_equal(tls_deny(ours, nodes, &version, why, sizeof why), 1);
    assert_int_equal(tls_deny(ours, first, &version, why, sizeof why), HAWK_ESTALE);
    assert_non_null(tls_why_not(ours, &ann));
    assert_non_null(tls_why_not(ours, &w3));
    /* The node root's comes first: versions of Hawk that know of one list take that. */
    both = denied_text(tls_denied(ours));
    assert_ptr_equal(strstr(both, nodes), both);
    assert_string_equal(denied_next(both), second);
    assert_null(denied_next(denied_next(both)));
    /* What a daemon keeps may be copied to where users are administered. */
    assert_int_equal(ca_write(path, 0644, both, strlen(both), why, sizeof why), 0);
    assert_int_equal(ca_revoke(users, &ann, &version, why, sizeof why), 0);
    assert_int_equal(version, 10);
    free(both);
    assert_int_equal(ca_read(path, &both, why, sizeof why), 0);
    assert_null(denied_next(both));
    assert_non_null(strstr(both, "w3.worker.hawk"));
    free(both);
    free(nodes);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewed_one_is_taken_for_the_same_node_and_key),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(an_earlier_list_of_the_revoked_is_not_taken),
        cmocka_unit_test(each_root_has_its_list),
    };

    return cmocka_run_group_tests(tests, open_ours, close_ours);
}
