/* Log lines that strangers can cause: net/log_kind.h. */
#include "net/log_kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define KIND "a call that its caller may not make"

static bool may(struct log_kind *k, struct log_peers *p, const char *who, int64_t s, char more[LOG_PEER_MORE])
{
    return log_kind_may_of(k, KIND, p, who, s * US_PER_S, more);
}

static void a_peer_that_asks_again_and_again_has_a_line_in_ten_minutes(void **state)
{
    static struct log_peers p;
    struct log_kind k = {0};
    char more[LOG_PEER_MORE];
    uint32_t lines = 0;

    for (int64_t s = 1000; s < 1000 + 3600; s += 2) {
        if (!may(&k, &p, "w1", s, more))
            continue;
        lines++;
        assert_string_equal(more, s == 1000 ? "" : " (299 more lines like this were left out)");
    }
    assert_int_equal(lines, 6);
    assert_true(may(&k, &p, "w2", 4601, more));
    assert_string_equal(more, "");
    assert_int_equal(k.left_out, 0);
}

static void of_many_peers_each_has_its_line(void **state)
{
    static struct log_peers p;
    struct log_kind k = {0};
    char who[20], more[LOG_PEER_MORE];
    uint32_t lines = 0, in_first_turn = 0;

    for (int64_t s = 1000; s < 1000 + 590; s += 2)
        for (int i = 0; i < 100; i++) {
            snprintf(who, sizeof who, "w%d", i);
            lines += may(&k, &p, who, s, more);
            in_first_turn = s == 1000 ? lines : in_first_turn;
        }
    assert_int_equal(in_first_turn, LOG_KIND_AT_ONCE);
    assert_int_equal(lines, 100);
}

static void more_peers_than_can_be_remembered_keep_the_limit_of_their_kind(void **state)
{
    static struct log_peers p;
    struct log_kind k = {0};
    char who[20], more[LOG_PEER_MORE];
    uint32_t lines = 0;

    for (int i = 0; i < 10000; i++) {
        snprintf(who, sizeof who, "w%d", i);
        lines += may(&k, &p, who, 1000 + i / 100, more);
    }
    assert_int_equal(lines, 10 * LOG_KIND_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_asks_again_and_again_has_a_line_in_ten_minutes),
        cmocka_unit_test(of_many_peers_each_has_its_line),
        cmocka_unit_test(more_peers_than_can_be_remembered_keep_the_limit_of_their_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
