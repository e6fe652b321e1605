/* Who calls over a unix socket (net/caller): the system is asked once for a uid's name. */
#include "base/account.h"
#include "net/caller.h"
#include "net/login.h"

#include <errno.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned asked;
static int fails;    /* how it answers */
static size_t wants; /* bytes */
static int digits;   /* of the number in a name, at least */
static time_t now_s = 1000;

/* In place of the system's, which may ask a server: counts. */
int getpwuid_r(uid_t uid, struct passwd *resultbuf, char *buffer, size_t buflen, struct passwd **result)
{
    static char home[] = "/home/u";

    asked++;
    *result = NULL;
    if (buflen < wants)
        return ERANGE;
    if (fails || uid % 2)
        return fails;
    snprintf(buffer, buflen, "user%0*u", digits, (unsigned)uid);
    *resultbuf = (struct passwd){.pw_name = buffer, .pw_uid = uid, .pw_gid = 7, .pw_dir = home};
    *result = resultbuf;
    return 0;
}

int getpwnam_r(const char *name, struct passwd *resultbuf, char *buffer, size_t buflen,
               struct passwd **result)
{
    return getpwuid_r((uid_t)strtoul(name, NULL, 10), resultbuf, buffer, buflen, result);
}

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    (void)clock_id;
    *tp = (struct timespec){.tv_sec = now_s};
    return 0;
}

static void a_name_is_asked_for_once(void **state)
{
    for (int i = 0; i < 100; i++) {
        struct caller c = caller_of_uid(1002), none = caller_of_uid(1001);
        assert_string_equal(c.name, "user1002");
        assert_string_equal(none.name, "1001");
        assert_int_equal(c.scopes, SCOPES_OF_USERS);
    }
    assert_int_equal(asked, 2);
}

static void names_are_not_mixed_up(void **state)
{
    char name[40];

    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t uid = 2000; uid < 2400; uid++) {
            struct caller c = caller_of_uid(uid);
            snprintf(name, sizeof name, "%s%u", uid % 2 ? "" : "user", uid);
            assert_string_equal(c.name, name);
            assert_int_equal(c.uid, uid);
        }
}

static void nobody_is_not_looked_up(void **state)
{
    unsigned before = asked;

    assert_int_equal(caller_of_uid(CALLER_OVERFLOW_UID).scopes, SCOPE_NONE);
    assert_int_equal(asked, before);
}

/* What a directory says of a user may be long. */
static void an_entry_may_be_large(void **state)
{
    wants = 100000;
    assert_string_equal(caller_of_uid(3000).name, "user3000");
    wants = SIZE_MAX;
    assert_true(caller_of_uid(3002).nameless);
    wants = 0;
}

static void a_name_that_is_too_long_is_none(void **state)
{
    digits = (int)LIMIT_NAME_BYTES - (int)strlen("user");
    assert_int_equal(strlen(caller_of_uid(3004).name), LIMIT_NAME_BYTES);
    digits++;
    assert_string_equal(caller_of_uid(3006).name, "3006");
    digits = 0;
}

static void a_failed_look_up_gives_no_name(void **state)
{
    static const struct {
        int err;
        const char *name;
    } answers[] = {{EAGAIN, ""}, {EIO, ""}, {EMFILE, ""}, {ENOENT, "4000"}, {ESRCH, "4000"}, {0, "user4000"}};
    char text[CALLER_TEXT];

    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        now_s += 10;
        fails = answers[i].err;
        struct caller c = caller_of_uid(4000);
        assert_string_equal(c.name, answers[i].name);
        assert_int_equal(c.nameless, !*c.name);
        if (c.nameless)
            assert_string_equal(caller_text(&c, text), "uid 4000, whose name could not be looked up");
        fails = 0; /* kept for a moment: the next look-up may take long, too */
        assert_string_equal(caller_of_uid(4000).name, answers[i].name);
    }
    now_s += 599;
    fails = EIO;
    assert_string_equal(caller_of_uid(4000).name, "user4000");
    now_s += 1;
    assert_true(caller_of_uid(4000).nameless);
    fails = 0;
}

static void an_account_is_not_none_because_its_look_up_failed(void **state)
{
    static const struct {
        int answer, err;
    } cases[] = {{EIO, HAWK_EUNAVAILABLE},  {EMFILE, HAWK_EUNAVAILABLE}, {EAGAIN, HAWK_EUNAVAILABLE},
                 {ENOENT, HAWK_ENOT_FOUND}, {ESRCH, HAWK_ENOT_FOUND},    {0, 0}};
    struct account a;

    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        fails = cases[i / 2].answer;
        assert_int_equal(i % 2 ? account_of_name(&a, "5000") : account_of_uid(&a, 5000), cases[i / 2].err);
        account_free(&a);
    }
    assert_int_equal(account_of_uid(&a, 5001), HAWK_ENOT_FOUND);
    account_free(&a);
    wants = 100000;
    assert_int_equal(account_of_name(&a, "5000"), 0);
    assert_string_equal(a.name, "user5000");
    assert_string_equal(a.home, "/home/u");
    assert_int_equal(a.uid, 5000);
    assert_int_equal(a.gid, 7);
    account_free(&a);
    wants = 0;
}

static void a_home_may_stand_in_a_large_entry(void **state)
{
    char path[PATH_MAX];

    unsetenv("HOME");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HAWK_LOGIN");
    wants = 100000;
    assert_true(geteuid() % 2 || login_dir(path));
    wants = 0;
    assert_true(geteuid() % 2 || strcmp(path, "/home/u/.config/hawk") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_asked_for_once),
        cmocka_unit_test(names_are_not_mixed_up),
        cmocka_unit_test(nobody_is_not_looked_up),
        cmocka_unit_test(an_entry_may_be_large),
        cmocka_unit_test(a_name_that_is_too_long_is_none),
        cmocka_unit_test(a_failed_look_up_gives_no_name),
        cmocka_unit_test(an_account_is_not_none_because_its_look_up_failed),
        cmocka_unit_test(a_home_may_stand_in_a_large_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
