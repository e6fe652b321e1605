/* Roots and certificates (ca/), the names in them (net/identity), and the files that a process reads them from
 * (net/tls): what is wrong with one is said, and what changes is read anew. */
#include "tests/test_tls.h"

#include "ca/file.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Names ---- */

static void names_are_read(void **state)
{
    static const struct {
        const char *dns, *name;
        enum role role;
    } cases[] = {
        {"node7.worker.hawk", "node7", ROLE_WORKER},
        {"c1.central.hawk", "c1", ROLE_CENTRAL},
        {"d2.dist.hawk", "d2", ROLE_DIST},
        {"ann.user.hawk", "ann", ROLE_NONE},
        {"node7.example.org.worker.hawk", "node7.example.org", ROLE_WORKER},
        {"ann.user.hawk.worker.hawk", "ann.user.hawk", ROLE_WORKER},
        {"A-b_c.dist.hawk", "A-b_c", ROLE_DIST},
        {"worker.hawk", NULL, 0},
        {"scheduler.hawk", NULL, 0},
        {"node7.scheduler.hawk", NULL, 0},
        {"node7.none.hawk", NULL, 0},
        {"node7.worker.eagle", NULL, 0},
        {"node7.worker.hawks", NULL, 0},
        {"node7.worker", NULL, 0},
        {"node7.Worker.hawk", NULL, 0},
        {"hawk", NULL, 0},
        {"", NULL, 0},
        {".hawk", NULL, 0},
        {".worker.hawk", NULL, 0},
        {"..worker.hawk", NULL, 0},
        {"*.worker.hawk", NULL, 0},
        {"a b.worker.hawk", NULL, 0},
        {"a/b.worker.hawk", NULL, 0},
        {"node7..worker.hawk", NULL, 0},
        {"node7.averyveryverylongrole.hawk", NULL, 0},
    };
    char long_name[400], text[IDENTITY_TEXT];
    struct identity who = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool good = identity_parse(cases[i].dns, strlen(cases[i].dns), &who);
        if (good != (cases[i].name != NULL))
            fail_msg("%s", cases[i].dns);
        assert_string_equal(who.name, good ? cases[i].name : "");
        assert_int_equal(who.role, cases[i].role);
        if (good)
            assert_string_equal(identity_text(&who, text), cases[i].dns);
    }
    assert_false(identity_parse("ann\0b.user.hawk", 15, &who));
    assert_false(identity_parse("ann.user\0.hawk", 14, &who));
    for (int n = 250; n < 260; n++) {
        snprintf(long_name, sizeof long_name, "%0*d.worker.hawk", n, 0);
        assert_int_equal(identity_parse(long_name, strlen(long_name), &who), n <= (int)LIMIT_NAME_BYTES);
    }
}

static X509 *certificate_of(const char *name)
{
    char path[128];
    X509 *c;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "re");
    assert_non_null(f);
    c = PEM_read_X509(f, NULL, NULL, NULL);
    assert_non_null(c);
    fclose(f);
    return c;
}

static bool is_for_host(const char *file, const char *host)
{
    X509 *c = certificate_of(file);
    int good = X509_check_host(c, host, 0, 0, NULL);

    X509_free(c);
    return good == 1;
}

static void a_certificate_is_for_its_role(void **state)
{
    static const char *const hosts[] = {"central.hawk", "dist.hawk", "worker.hawk", "scheduler.hawk"};
    static const struct {
        const char *file;
        bool good[4];
    } cases[] = {{"c1.crt", {true, false, false, true}},
                 {"d1.crt", {false, true, false, true}},
                 {"w1.crt", {false, false, true, false}},
                 {"ann.crt", {false, false, false, false}}};

    issue("dist", "d1");
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++)
            if (is_for_host(cases[i].file, hosts[k]) != cases[i].good[k])
                fail_msg("%s for %s", cases[i].file, hosts[k]);
}

/* ---- Issuing ---- */

static void a_certificate_lasts_as_long_as_asked(void **state)
{
    X509 *c, *root;
    int days, seconds;

    issue_of(dir, "worker", "w2", 3 * DAYS);
    c = certificate_of("w2.crt");
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(c), X509_get0_notAfter(c)), 1);
    assert_int_equal(days, 3);
    assert_in_range(seconds, 300, 302); /* five minutes for clocks that differ */
    assert_int_equal(X509_cmp_current_time(X509_get0_notBefore(c)), -1);
    X509_free(c);
    issue_of(dir, "worker", "w3", 9000 * DAYS);
    c = certificate_of("w3.crt");
    root = certificate_of("nodes/root.crt");
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(c), X509_get0_notAfter(root)), 0);
    X509_free(c);
    X509_free(root);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void keys_are_secret(void **state)
{
    assert_int_equal(mode_of("w1.key"), 0600);
    assert_int_equal(mode_of("nodes/root.key"), 0600);
    assert_int_equal(mode_of("users/root.key"), 0600);
    assert_int_equal(mode_of("users"), 0700);
}

static void what_cannot_be_issued(void **state)
{
    static const char *const names[] = {"",   ".",  "..", "a b", "a/b", "*", "a,DNS:c1.central.hawk",
                                        ".a", "a.", "é"};
    struct identity who = somebody("worker", "w1"), other = somebody("dist", "w1");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct identity bad = somebody("worker", names[i]);
        assert_int_equal(ca_issue(dir, &bad, DAYS, dir, why, sizeof why), HAWK_EINVALID);
        assert_non_null(strstr(why, "cannot be in a certificate"));
    }
    assert_int_equal(ca_issue(dir, &who, DAYS, dir, why, sizeof why), 0); /* once more */
    assert_int_equal(ca_issue(dir, &other, DAYS, dir, why, sizeof why), HAWK_EEXISTS);
    assert_non_null(strstr(why, "w1.crt: it is there"));
    assert_int_equal(ca_issue("/nonexistent", &who, DAYS, dir, why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "/nonexistent/nodes/root.crt"));
    assert_int_equal(ca_issue(dir, &who, DAYS, "/nonexistent", why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "/nonexistent/w1.key"));
    assert_int_equal(ca_init(dir, why, sizeof why), HAWK_EEXISTS);
}

static void put_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static char *text_of(const char *name)
{
    char path[128], *text;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ca_read(path, &text, why, sizeof why), 0);
    return text;
}

static void expect_text(const char *name, const char *text)
{
    char *now = text_of(name);

    assert_string_equal(now, text);
    free(now);
}

static void no_key_is_replaced_that_is_anothers(void **state)
{
    static const char *const halves[] = {"nodes/root.key", "nodes/root.crt", "users/root.key",
                                         "users/root.crt"};
    struct identity who = somebody("worker", "server");
    char path[128], file[200];

    put_file("server.key", "precious", 0600);
    assert_int_equal(ca_issue(dir, &who, DAYS, dir, why, sizeof why), HAWK_EEXISTS);
    assert_non_null(strstr(why, "server.key: it is there"));
    expect_text("server.key", "precious");
    snprintf(path, sizeof path, "%s/half", dir);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(file, sizeof file, "%s/%.5s", path, halves[i]);
        assert_int_equal(mkdir(file, 0700), 0);
        snprintf(file, sizeof file, "half/%s", halves[i]);
        put_file(file, "precious", 0600);
        assert_int_equal(ca_init(path, why, sizeof why), HAWK_EEXISTS);
        if (!strstr(why, file))
            fail_msg("%s", why);
        expect_text(file, "precious");
        snprintf(file, sizeof file, "rm -r %s", path);
        assert_int_equal(system(file), 0); /* NOLINT: a name of our own */
    }
}

static unsigned scopes_of(const char *role, unsigned scopes)
{
    struct identity who = somebody(role, "scoped"), read;
    X509 *c;

    who.scopes = scopes;
    assert_int_equal(ca_issue(dir, &who, DAYS, dir, why, sizeof why), 0);
    c = certificate_of("scoped.crt");
    assert_true(certificate_names(c, &read));
    assert_string_equal(read.name, "scoped");
    X509_free(c);
    return read.scopes;
}

static void a_certificate_has_scopes(void **state)
{
    char text[SCOPES_TEXT];
    unsigned read;

    for (unsigned scopes = 1; scopes <= SCOPES_ALL; scopes++) {
        assert_int_equal(scopes_of("user", scopes), scopes);
        assert_true(scopes_parse(scopes_format(text, scopes), &read));
        assert_int_equal(read, scopes);
    }
    assert_int_equal(scopes_of("user", SCOPE_NONE), SCOPES_OF_USERS); /* it says nothing of scopes */
    assert_string_equal(scopes_format(text, SCOPES_ALL), "read,submit,operate,admin");
    assert_string_equal(scopes_format(text, SCOPE_NONE), "none");
    static const char *const wrong[] = {"",     ",",   "read,", ",read",      "read,,submit",
                                        "Read", "rea", "reads", "read submit"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (scopes_parse(wrong[i], &read))
            fail_msg("'%s'", wrong[i]);
}

/* ---- Files ---- */

static void expect_bad(const char *certificate, const char *key, const char *roots, const char *said)
{
    char path[3][128];
    struct tls_files f = {path[0], path[1], path[2]};

    snprintf(path[0], sizeof path[0], "%s/%s", dir, certificate);
    snprintf(path[1], sizeof path[1], "%s/%s", dir, key);
    snprintf(path[2], sizeof path[2], "%s/%s", dir, roots);
    assert_null(tls_new(&f, why));
    if (!strstr(why, said))
        fail_msg("'%s' does not say '%s'", why, said);
}

static void what_is_wrong_with_a_file_is_said(void **state)
{
    put_file("junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0600);
    put_file("empty", "", 0600);
    put_file("open.key", "x", 0640);
    expect_bad("none.crt", "w1.key", "roots.crt", "tls.certificate: ");
    expect_bad("none.crt", "w1.key", "roots.crt", "none.crt: No such file");
    expect_bad("junk", "w1.key", "roots.crt", "tls.certificate: ");
    expect_bad("empty", "w1.key", "roots.crt", "/empty: no start line");
    expect_bad("w1.crt", "none.key", "roots.crt", "tls.key: ");
    expect_bad("w1.crt", "open.key", "roots.crt", "others can read the key: chmod 600 it");
    expect_bad("w1.crt", "c1.key", "roots.crt", "c1.key: it is not the key of tls.certificate");
    expect_bad("w1.crt", "empty", "roots.crt", "tls.key: ");
    expect_bad("w1.crt", "w1.key", "none.crt", "tls.roots: ");
    expect_bad("w1.crt", "w1.key", "empty", "no certificate of a root is in it");
    expect_bad("w1.crt", "w1.key", "nodes", "it is no regular file");
    expect_bad("nodes/root.crt", "nodes/root.key", "roots.crt", "one of the form NAME.ROLE.hawk");
}

static time_t ends_at(const struct tls *t)
{
    SSL_CTX *ctx = tls_accepting(t);
    struct tm end;

    assert_int_equal(ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(ctx)), &end), 1);
    SSL_CTX_free(ctx);
    return timegm(&end);
}

static void changed_files_are_read_anew(void **state)
{
    struct tls_files f = files_of(dir, "w1");
    struct tls *t = tls_new(&f, why);
    int64_t now = 10 * US_PER_S;
    time_t first;
    SSL_CTX *before, *after;

    assert_non_null(t);
    first = ends_at(t);
    tls_refresh(t, now);
    before = tls_accepting(t);
    issue_of(dir, "worker", "w1", 20 * DAYS);
    tls_refresh(t, now + TLS_LOOK_US - 1); /* not so soon */
    assert_int_equal(ends_at(t), first);
    tls_refresh(t, now += TLS_LOOK_US);
    assert_in_range(ends_at(t) - first, 19 * 86400, 19 * 86400 + 60);
    assert_non_null(SSL_CTX_get0_certificate(before)); /* a connection goes on with what it has */
    SSL_CTX_free(before);

    /* What is broken changes nothing, nor does another's certificate; then it goes on. */
    before = tls_accepting(t);
    put_file("w1.key", "junk", 0600);
    for (int i = 0; i < 3; i++)
        tls_refresh(t, now += TLS_LOOK_US);
    after = tls_accepting(t);
    assert_ptr_equal(after, before);
    SSL_CTX_free(after);
    put_file("w1.crt", "", 0644);
    assert_int_equal(unlink(f.certificate), 0);
    assert_int_equal(unlink(f.key), 0);
    tls_refresh(t, now += TLS_LOOK_US);
    after = tls_accepting(t);
    assert_ptr_equal(after, before);
    SSL_CTX_free(after);
    SSL_CTX_free(before);
    issue_of(dir, "worker", "w1", 40 * DAYS);
    tls_refresh(t, now + TLS_LOOK_US);
    assert_in_range(ends_at(t) - first, 39 * 86400, 39 * 86400 + 60);
    tls_free(t);
}

static void anothers_certificate_is_not_taken(void **state)
{
    struct tls_files f = files_of(dir, "w1");
    struct tls *t = tls_new(&f, why);
    char command[400];

    assert_non_null(t);
    tls_refresh(t, US_PER_S);
    issue("worker", "w5");
    snprintf(command, sizeof command, "cd %s && cp w5.crt w1.crt && cp w5.key w1.key", dir);
    assert_int_equal(system(command), 0); /* NOLINT: names of our own */
    tls_refresh(t, 10 * US_PER_S);
    assert_string_equal(tls_identity(t)->name, "w1");
    tls_free(t);
}

/* It may be a private key. */
static void what_cannot_be_written_leaves_nothing(void **state)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/taken", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(ca_write(path, 0600, "secret", 6, why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "taken: it is a directory: name a file in it"));
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/taken.new", dir);
    assert_int_equal(stat(path, &st), -1);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(ca_write(path, 0600, "secret", 6, why, sizeof why), HAWK_EIO);
    assert_non_null(strstr(why, "x: File name too long"));
}

/* Of a disk that is full, the first write takes a part. */
static void a_short_write_says_why(void **state)
{
    const struct rlimit small = {.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    char path[128];
    int err;

    snprintf(path, sizeof path, "%s/short", dir);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err = ca_write(path, 0600, "secret", 6, why, sizeof why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err, HAWK_EIO);
    assert_non_null(strstr(why, "short: File too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(a_certificate_is_for_its_role),
        cmocka_unit_test(a_certificate_lasts_as_long_as_asked),
        cmocka_unit_test(keys_are_secret),
        cmocka_unit_test(what_cannot_be_issued),
        cmocka_unit_test(no_key_is_replaced_that_is_anothers),
        cmocka_unit_test(a_certificate_has_scopes),
        cmocka_unit_test(what_is_wrong_with_a_file_is_said),
        cmocka_unit_test(changed_files_are_read_anew),
        cmocka_unit_test(anothers_certificate_is_not_taken),
        cmocka_unit_test(what_cannot_be_written_leaves_nothing),
        cmocka_unit_test(a_short_write_says_why),
    };

    return cmocka_run_group_tests(tests, make_roots, remove_roots);
}
