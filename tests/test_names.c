/* The names of nodes, as central tells them. */
#include "daemon/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void note(void *arg, uint32_t node)
{
    char *text = arg;

    snprintf(text + strlen(text), 100 - strlen(text), "%u ", node);
}

static void tell(struct names *n, uint32_t node, enum role role, const char *name, char changed[100])
{
    struct msg m = {.type = MSG_MEMBER,
                    .member = {.node = {node}, .role = (uint8_t)role, .name = blob_str(name)}};

    *changed = '\0';
    names_learn(n, &m, note, changed);
    msg_drop(&m);
}

static void a_node_has_the_name_that_central_told(void **state)
{
    struct names n = {0};
    char changed[100];
    const char *known;

    assert_true(names_fit(&n, 3, ROLE_WORKER, "w3", &known)); /* nothing is known of it */
    assert_null(known);
    tell(&n, 3, ROLE_WORKER, "w3", changed);
    assert_string_equal(changed, "3 ");
    assert_true(names_fit(&n, 3, ROLE_WORKER, "w3", &known));
    assert_string_equal(known, "w3");
    assert_false(names_fit(&n, 3, ROLE_WORKER, "w9", &known));
    assert_string_equal(known, "w3");
    assert_false(names_fit(&n, 3, ROLE_WORKER, "w33", &known));
    assert_false(names_fit(&n, 3, ROLE_DIST, "w3", &known));
    tell(&n, 3, ROLE_WORKER, "w3", changed);
    assert_string_equal(changed, ""); /* no news */
    tell(&n, 3, ROLE_WORKER, "w4", changed);
    assert_string_equal(changed, "3 ");
    assert_false(names_fit(&n, 3, ROLE_WORKER, "w3", &known));
    names_free(&n);
}

static void lists_are_learned_and_nothing_is_forgotten(void **state)
{
    struct names n = {0};
    char changed[100] = "";
    const char *known;
    struct msg m = {.type = MSG_MEMBERS, .members = {.list = members_new(2)}};

    tell(&n, 7, ROLE_DIST, "d7", changed);
    *changed = '\0';
    m.members.list->v[0] =
        (struct member){.node = {1}, .role = ROLE_DIST, .name = blob_str("d1"), .addr = blob_str("a")};
    m.members.list->v[1] =
        (struct member){.node = {2}, .role = ROLE_WORKER, .name = blob_str("w2"), .addr = blob_str("b")};
    names_learn(&n, &m, note, changed);
    assert_string_equal(changed, "1 2 ");
    *changed = '\0';
    names_learn(&n, &m, note, changed);
    assert_string_equal(changed, "");
    msg_drop(&m);
    assert_false(names_fit(&n, 2, ROLE_WORKER, "d1", &known));
    assert_false(names_fit(&n, 7, ROLE_DIST, "d1", &known)); /* it is in no list any more */
    m = (struct msg){.type = MSG_BEAT};
    names_learn(&n, &m, note, changed);
    assert_string_equal(changed, "");
    names_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_the_name_that_central_told),
        cmocka_unit_test(lists_are_learned_and_nothing_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
