/* Invitations, requests, and the files that a node keeps. */
#include "base/mem.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "ca/kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], other[64];
static struct ca_root *root, *foreign;
static char why[PATH_MAX + 512];

static int begin(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/hawk-invite-XXXXXX");
    snprintf(other, sizeof other, "/tmp/hawk-invite-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_non_null(mkdtemp(other));
    assert_int_equal(ca_init(dir, why, sizeof why), 0);
    assert_int_equal(ca_init(other, why, sizeof why), 0);
    assert_int_equal(ca_root_open(&root, dir, ROLE_CENTRAL, why, sizeof why), 0);
    assert_int_equal(ca_root_open(&foreign, other, ROLE_CENTRAL, why, sizeof why), 0);
    return 0;
}

static int end(void **state)
{
    char command[200];

    ca_root_free(root);
    ca_root_free(foreign);
    snprintf(command, sizeof command, "rm -rf %s %s", dir, other);
    return system(command); /* NOLINT(cert-env33-c): our own directories */
}

static char *write_one(const char *name)
{
    char path[PATH_MAX];
    struct invitation v = {
        .role = ROLE_WORKER, .uses = 3, .slots = 64, .until_s = 1764057600, .id = 0xfedcba9876543210};
    char *text;

    snprintf(v.name, sizeof v.name, "%s", name);
    snprintf(v.central, sizeof v.central, "10.0.0.1:7070,[::1]:7");
    assert_true(ca_path(path, dir, "roots.crt", why, sizeof why));
    assert_int_equal(ca_read(path, &v.roots, why, sizeof why), 0);
    text = invitation_write(&v, root);
    invitation_free(&v);
    return text;
}

static int read_with(const char *text, const struct ca_root *r, struct invitation *v)
{
    int err = invitation_read(v, text, r ? ca_root_certificate(r) : NULL, why, sizeof why);

    if (err)
        invitation_free(v);
    return err;
}

static void what_was_written_is_read(void **state)
{
    char *text = write_one("hpc-*");
    struct invitation v;

    assert_int_equal(read_with(text, root, &v), 0);
    assert_int_equal(v.role, ROLE_WORKER);
    assert_string_equal(v.name, "hpc-*");
    assert_string_equal(v.central, "10.0.0.1:7070,[::1]:7");
    assert_int_equal(v.uses, 3);
    assert_int_equal(v.slots, 64);
    assert_int_equal(v.until_s, 1764057600);
    assert_true(v.id == 0xfedcba9876543210);
    assert_true(invitation_has_pattern(&v));
    assert_true(invitation_fits(&v, "hpc-7"));
    assert_false(invitation_fits(&v, "hpc-"));
    assert_false(invitation_fits(&v, "hpd-7"));
    assert_true(invitation_use(&v, "hpc-7", 5) == invitation_use(&v, "hpc-7", 5));
    assert_true(invitation_use(&v, "hpc-7", 5) != invitation_use(&v, "hpc-8", 5));
    assert_true(invitation_use(&v, "hpc-7", 5) != invitation_use(&v, "hpc-7", 6));
    invitation_free(&v);
    assert_int_equal(read_with(text, NULL, &v), 0);
    invitation_free(&v);
    free(text);
}

/* Every byte counts, and so does every line. */
static void what_was_changed_is_refused(void **state)
{
    char *text = write_one("node7");
    size_t len = strlen(text);
    struct invitation v;

    assert_int_equal(read_with(text, foreign, &v), HAWK_EINVALID);
    assert_non_null(strstr(why, "not signed by this cluster's node root"));
    for (size_t i = 0; i < len; i++) {
        char old = text[i];

        text[i] = old == 'a' ? 'b' : 'a';
        assert_int_equal(read_with(text, root, &v), HAWK_EINVALID);
        text[i] = '\0'; /* cut */
        assert_int_equal(read_with(text, root, &v), HAWK_EINVALID);
        text[i] = old;
    }
    assert_int_equal(read_with(text, root, &v), 0);
    invitation_free(&v);
    free(text);
}

static void names_and_patterns(void **state)
{
    const struct invitation any = {.name = "hpc-*"};
    char name[LIMIT_NAME_BYTES + 2];

    memset(name, 'a', sizeof name);
    name[LIMIT_NAME_BYTES + 1] = '\0';
    memcpy(name, "hpc-", 4);
    assert_false(invitation_fits(&any, name));
    name[LIMIT_NAME_BYTES] = '\0';
    assert_true(invitation_fits(&any, name));
    assert_false(invitation_fits(&any, "hpc-7\n"));
    assert_false(invitation_fits(&any, "hpc-7."));
    assert_true(invitation_pattern_good("node7"));
    assert_true(invitation_pattern_good("*"));
    assert_true(invitation_pattern_good("a*b"));
    assert_false(invitation_pattern_good("a*b*"));
    assert_false(invitation_pattern_good(""));
    assert_false(invitation_pattern_good("a b"));
    assert_false(invitation_pattern_good("a\nb"));
}

static void a_request_shows_that_its_sender_has_the_key(void **state)
{
    char kept[80];
    struct identity who = {.role = ROLE_WORKER, .name = "node7", .slots = 8};
    struct identity c;
    uint8_t *der;
    size_t len;
    uint64_t key, again;
    char *pem;

    snprintf(kept, sizeof kept, "%s/kept", dir);
    assert_false(kept_look(kept, &c));
    assert_int_equal(kept_request(kept, &der, &len, why, sizeof why), 0);
    assert_int_equal(ca_sign_request(root, &who, der, len, 3600 * US_PER_S, &pem, &key), 0);
    assert_int_equal(kept_take(kept, &who, pem, why, sizeof why), 0);
    assert_true(kept_look(kept, &c));
    assert_string_equal(c.name, "node7");
    assert_int_equal(c.slots, 8);
    assert_int_equal(c.until_s - c.made_s, 3600);
    assert_int_equal(kept_renew_s(&c) - c.made_s, 1200);
    who.name[0] = 'N'; /* it is not for that one */
    assert_int_equal(kept_take(kept, &who, pem, why, sizeof why), HAWK_EINVALID);
    who.name[0] = 'n';
    free(pem);
    for (size_t i = 0; i < len; i++) {
        der[i] ^= 1;
        assert_int_equal(ca_sign_request(root, &who, der, len, US_PER_S, &pem, &again), HAWK_EINVALID);
        der[i] ^= 1;
        assert_int_equal(ca_sign_request(root, &who, der, i, US_PER_S, &pem, &again), HAWK_EINVALID);
    }
    free(der);
    assert_int_equal(kept_request(kept, &der, &len, why, sizeof why), 0); /* the same key */
    assert_int_equal(ca_sign_request(root, &who, der, len, US_PER_S, &pem, &again), 0);
    assert_true(key == again);
    assert_true(ca_request_is_of(der, len, &c));
    assert_false(ca_request_is_of(der, len - 1, &c));
    free(pem);
    free(der);
    /* Another node's certificate is of another key. */
    snprintf(kept, sizeof kept, "%s/kept2", dir);
    assert_int_equal(kept_request(kept, &der, &len, why, sizeof why), 0);
    assert_int_equal(ca_sign_request(root, &who, der, len, US_PER_S, &pem, &again), 0);
    assert_true(key != again);
    assert_false(ca_request_is_of(der, len, &c));
    snprintf(kept, sizeof kept, "%s/kept", dir);
    assert_int_equal(kept_take(kept, &who, pem, why, sizeof why), HAWK_EINVALID);
    free(pem);
    free(der);
}

static char *list_of(const char *where)
{
    char path[PATH_MAX], *text;

    assert_true(ca_path(path, where, "denied", why, sizeof why));
    assert_int_equal(ca_read(path, &text, why, sizeof why), 0);
    return text;
}

static bool is_denied(const struct denied *d, enum role role, const char *name, int64_t made_s)
{
    struct identity who = {.role = role, .made_s = made_s};

    snprintf(who.name, sizeof who.name, "%s", name);
    return denied_has(d, &who);
}

static void a_list_names_who_is_denied(void **state)
{
    struct identity a = {.role = ROLE_WORKER, .name = "node7"}, b = {.role = ROLE_NONE, .name = "node7"};
    int64_t before_s = time(NULL);
    uint64_t version;
    struct denied *d;
    char *roots, *text, path[PATH_MAX];

    assert_int_equal(ca_revoke(dir, &a, &version, why, sizeof why), 0);
    assert_int_equal(version, 1);
    assert_int_equal(ca_revoke(dir, &b, &version, why, sizeof why), 0);
    assert_int_equal(ca_revoke(dir, &a, &version, why, sizeof why), 0);
    assert_int_equal(version, 3);
    assert_true(ca_path(path, dir, "roots.crt", why, sizeof why));
    assert_int_equal(ca_read(path, &roots, why, sizeof why), 0);
    text = list_of(dir);
    d = denied_read(text, roots, why, sizeof why);
    assert_non_null(d);
    assert_true(denied_version(d) == 3);
    assert_true(is_denied(d, ROLE_WORKER, "node7", before_s));
    assert_false(is_denied(d, ROLE_WORKER, "node7", time(NULL) + 1)); /* a later certificate */
    assert_true(is_denied(d, ROLE_NONE, "node7", before_s));
    assert_false(is_denied(d, ROLE_DIST, "node7", before_s));
    assert_false(is_denied(d, ROLE_WORKER, "node70", before_s));
    denied_free(d);
    /* The name stands there once. */
    assert_null(strstr(strstr(text, "node7.worker.hawk") + 1, "node7.worker.hawk"));
    for (size_t i = 0; text[i]; i++) {
        char old = text[i];

        text[i] = old == 'a' ? 'b' : 'a';
        assert_null(denied_read(text, roots, why, sizeof why));
        text[i] = old;
    }
    free(text);
    /* Of another cluster. */
    assert_int_equal(ca_revoke(other, &a, &version, why, sizeof why), 0);
    text = list_of(other);
    assert_null(denied_read(text, roots, why, sizeof why));
    free(text);
    free(roots);
}

/* A list of the node root's, of `size` bytes at most, with as many names as there is room for. */
static void put_large_list(const char *where, size_t size)
{
    char path[PATH_MAX], base64[SIGNATURE_TEXT], *text = xcalloc(1, size + 1);
    size_t len = (size_t)snprintf(text, size, DENIED_HEAD "version: 9\n");

    for (unsigned i = 0; len + 300 < size; i++)
        len += (size_t)snprintf(text + len, size - len, "n%0170u.worker.hawk 1764057600\n", i);
    ca_sign_text(root, text, base64);
    snprintf(text + len, size - len, SIGNATURE_KEY "%s\n", base64);
    assert_true(ca_path(path, where, CA_DENIED, why, sizeof why));
    assert_int_equal(ca_write(path, 0644, text, strlen(text), why, sizeof why), 0);
    free(text);
}

static void a_full_list_stays_as_it_is(void **state)
{
    struct identity who = {.role = ROLE_WORKER}, listed = {.role = ROLE_WORKER};
    char *before, *after;
    uint64_t version;

    snprintf(who.name, sizeof who.name, "%0240u", 1U);
    snprintf(listed.name, sizeof listed.name, "n%0170u", 7U);
    put_large_list(dir, DENIED_MAX - 1);
    before = list_of(dir);
    assert_int_equal(ca_revoke(dir, &who, &version, why, sizeof why), HAWK_ETOO_LARGE);
    assert_non_null(strstr(why, "/denied: it is full (1 MiB)"));
    after = list_of(dir);
    assert_string_equal(before, after);
    assert_int_equal(ca_revoke(dir, &listed, &version, why, sizeof why), 0);
    assert_int_equal(version, 10);
    assert_int_equal(ca_revoke(dir, &listed, &version, why, sizeof why), 0);
    assert_int_equal(version, 11);
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(what_was_changed_is_refused),
        cmocka_unit_test(names_and_patterns),
        cmocka_unit_test(a_list_names_who_is_denied),
        cmocka_unit_test(a_full_list_stays_as_it_is),
        cmocka_unit_test(a_request_shows_that_its_sender_has_the_key),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
