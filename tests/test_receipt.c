/* Receipts of job ids (net/receipt). */
#include "net/receipt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct receipt_secret secrets[] = {
    {.low = 5, .high = 6}, {.low = 6, .high = 5}, {.high = 7}, {0}};
enum { SECRETS = sizeof secrets / sizeof secrets[0] - 1 };

static void one_is_of_a_secret_a_job_and_a_user(void **state)
{
    static const char *const users[] = {"ann", "an", "annn", ""};
    const job_id_t jobs[] = {job_id_make((node_id_t){1}, 2), job_id_make((node_id_t){2}, 1)};
    uint64_t seen[SECRETS * 2 * 4];
    int n = 0;

    for (int s = 0; s < SECRETS; s++)
        for (int j = 0; j < 2; j++)
            for (int u = 0; u < 4; u++) {
                uint64_t r = receipt_of(&secrets[s], jobs[j], users[u]);

                assert_int_not_equal(r, 0);
                for (int i = 0; i < n; i++)
                    assert_int_not_equal(r, seen[i]);
                seen[n++] = r;
                assert_int_equal(receipt_of(&secrets[s], jobs[j], users[u]), r);
                assert_true(receipt_good(secrets, SECRETS, r, jobs[j], users[u]));
                assert_false(receipt_good(secrets, SECRETS, r, jobs[!j], users[u]));
                assert_false(receipt_good(secrets, SECRETS, r, jobs[j], "bob"));
                assert_int_equal(receipt_good(secrets, 1, r, jobs[j], users[u]), s == 0);
            }
}

/* Dists that have heard of one secret have a second that is empty. */
static void none_is_good_without_a_secret(void **state)
{
    const struct receipt_secret none[2] = {{0}};
    job_id_t job = job_id_make((node_id_t){1}, 2);

    assert_int_equal(receipt_of(none, job, "ann"), 0);
    assert_false(receipt_good(none, 2, 0, job, "ann"));
    assert_false(receipt_good(secrets, SECRETS + 1, 0, job, "ann"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_of_a_secret_a_job_and_a_user),
        cmocka_unit_test(none_is_good_without_a_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
