/* Users' credentials (ca/credential) and the list of users (ca/users): what is written is read back, and what somebody
 * has changed is refused. */
#include "tests/test_tls.h"

#include "ca/credential.h"
#include "ca/file.h"
#include "ca/users.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *roots;

static struct credential make(const char *name, uint32_t uid, const char *from)
{
    struct identity who = somebody("user", name);
    struct credential c;
    struct ca_root *root;

    who.has_uid = true;
    who.uid = uid;
    who.scopes = SCOPE_READ;
    assert_int_equal(ca_root_open(&root, from, ROLE_NONE, why, sizeof why), 0);
    assert_int_equal(credential_make(&c, root, &who, DAYS, roots, "10.0.0.1:7071"), 0);
    ca_root_free(root);
    return c;
}

static void a_credential_is_read_as_it_was_written(void **state)
{
    struct credential made = make("ann", 1001, dir), read;
    char *text = credential_write(&made);

    assert_int_equal(credential_read(&read, text, why, sizeof why), 0);
    assert_string_equal(read.who.name, "ann");
    assert_true(read.who.has_uid && read.who.uid == 1001 && read.who.scopes == SCOPE_READ);
    assert_in_range(read.who.until_s, time(NULL) + 86400 - 60, time(NULL) + 86400);
    assert_string_equal(read.certificate, made.certificate);
    assert_string_equal(read.key, made.key);
    assert_string_equal(read.roots, made.roots);
    assert_string_equal(read.dist, "10.0.0.1:7071");
    credential_free(&read);
    /* A part of it is none. */
    for (size_t n = 0; n + 200 < strlen(text); n += 7) {
        char *part = strndup(text, n);
        if (credential_read(&read, part, why, sizeof why) == 0)
            fail_msg("%zu bytes are taken", n);
        credential_free(&read);
        free(part);
    }
    free(text);
    credential_free(&made);
}

static void refused(struct credential c, const char *what)
{
    struct credential read;
    char *text = credential_write(&c);

    assert_int_equal(credential_read(&read, text, why, sizeof why), HAWK_EINVALID);
    if (!strstr(why, what))
        fail_msg("%s, and not: %s", why, what);
    credential_free(&read);
    free(text);
}

static void parts_must_fit(void **state)
{
    struct credential ann = make("ann", 1001, dir), bob = make("bob", 1002, dir),
                      eve = make("eve", 1003, strange), c;
    const struct tls_files none = files_of(dir, "none");
    char *node = NULL, *key = NULL;
    struct identity worker = somebody("worker", "w1");
    struct ca_root *root;

    assert_true(tls_files_all(&none));
    c = ann;
    c.key = bob.key;
    refused(c, "a key that is not its certificate's");
    refused(eve, "a certificate that its roots have not signed");
    assert_int_equal(ca_root_open(&root, dir, ROLE_CENTRAL, why, sizeof why), 0);
    assert_int_equal(ca_make_pair(root, &worker, DAYS, &node, &key), 0);
    c = ann;
    c.certificate = node;
    c.key = key;
    refused(c, "is no user's");
    ca_root_free(root);
    free(node);
    free(key);
    credential_free(&ann);
    credential_free(&bob);
    credential_free(&eve);
}

/* The node root can sign no user, whatever is asked of it: the names that it may sign are in it. */
static void the_node_root_makes_no_user(void **state)
{
    struct identity who = somebody("user", "ann");
    struct credential c;
    struct ca_root *root;

    assert_int_equal(ca_root_open(&root, dir, ROLE_CENTRAL, why, sizeof why), 0);
    assert_int_equal(credential_make(&c, root, &who, DAYS, roots, ""), 0);
    ca_root_free(root);
    refused(c, "its roots have not signed");
    credential_free(&c);
}

static void users_are_kept(void **state)
{
    struct identity who = somebody("user", "ann");
    struct users u;
    char path[128];

    who.has_uid = true;
    who.uid = 1001;
    who.made_s = 5;
    who.until_s = 9;
    assert_int_equal(users_open(&u, dir, true, why, sizeof why), 0);
    assert_int_equal(u.n, 0);
    assert_int_equal(users_put(&u, &who, why, sizeof why), 0);
    snprintf(who.name, sizeof who.name, "bob");
    who.uid = 1002;
    who.scopes = SCOPES_ALL;
    assert_int_equal(users_put(&u, &who, why, sizeof why), 0);
    who.until_s = 10;
    assert_int_equal(users_put(&u, &who, why, sizeof why), 0);
    users_free(&u);
    assert_int_equal(users_open(&u, dir, false, why, sizeof why), 0);
    assert_int_equal(u.n, 2);
    assert_int_equal(users_find(&u, "ann")->uid, 1001);
    assert_int_equal(users_find_uid(&u, 1002)->until_s, 10);
    assert_int_equal(users_find_uid(&u, 1002)->scopes, SCOPES_ALL);
    assert_null(users_find(&u, "an"));
    assert_null(users_find_uid(&u, 0));
    users_free(&u);
    snprintf(path, sizeof path, "%s/users/list", dir);
    static const char *const bad[] = {"",
                                      "hawk users 2\n",
                                      "hawk users 1\nann\n",
                                      "hawk users 1\nann 1001 read 5 9",
                                      "hawk users 1\nann x read 5 9\n",
                                      "hawk users 1\nann 1001 fly 5 9\n",
                                      "hawk users 1\nann 1001 read 5 9 9\n",
                                      "hawk users 1\na/b 1001 read 5 9\n",
                                      "hawk users 1\nann 4294967295 read 5 9\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ca_write(path, 0600, bad[i], strlen(bad[i]), why, sizeof why), 0);
        if (users_open(&u, dir, false, why, sizeof why) != HAWK_ECORRUPT)
            fail_msg("%s", bad[i]);
        users_free(&u);
    }
}

static int set_up(void **state)
{
    char path[128];

    make_roots(state);
    snprintf(path, sizeof path, "%s/roots.crt", dir);
    return ca_read(path, &roots, why, sizeof why);
}

static int tear_down(void **state)
{
    free(roots);
    return remove_roots(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_credential_is_read_as_it_was_written),
        cmocka_unit_test(parts_must_fit),
        cmocka_unit_test(the_node_root_makes_no_user),
        cmocka_unit_test(users_are_kept),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
