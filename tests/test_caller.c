/* Who calls over a unix socket (net/caller): the system is asked once for a uid's name. */
#include "net/caller.h"

#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static unsigned asked;

/* In place of the system's, which may ask a server: counts. */
int getpwuid_r(uid_t uid, struct passwd *resultbuf, char *buffer, size_t buflen, struct passwd **result)
{
    asked++;
    *result = NULL;
    if (uid % 2)
        return 0;
    snprintf(buffer, buflen, "user%u", (unsigned)uid);
    *resultbuf = (struct passwd){.pw_name = buffer, .pw_uid = uid};
    *result = resultbuf;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_asked_for_once),
        cmocka_unit_test(names_are_not_mixed_up),
        cmocka_unit_test(nobody_is_not_looked_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
