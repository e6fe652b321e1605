/* A daemon's journal on its loop: what the loop hears when the store has told more than one thing since its last turn.
 * The store is the test's own. */
#include "daemon/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The store ---- */

static struct {
    store_done_fn done;
    void *arg;
} store;

int store_open(struct store **out, const char *path, const char *owner, store_done_fn done, void *arg,
               char *why, size_t why_size)
{
    *out = NULL;
    store.done = done;
    store.arg = arg;
    return 0;
}

int store_open_etcd(struct store **out, const struct store_etcd *c, store_done_fn done, void *arg, char *why,
                    size_t why_size)
{
    return HAWK_EIO;
}

int store_write(struct store *s, const struct msg *m) { return 0; }
int store_close(struct store *s) { return 0; }
void store_abandon(struct store *s) {}

/* ---- The loop ---- */

static struct loop *l;
static struct journal *j;
static char heard[256];

static void hear(void *arg, const struct msg *m)
{
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s%d%s%s", n ? ", " : "", (int)m->journal_done.token,
             m->journal_done.err ? " " : "", m->journal_done.err ? hawk_strerror(m->journal_done.err) : "");
}

/* One turn of the loop: posted calls are ready at once. */
static const char *turn(void)
{
    heard[0] = '\0';
    loop_once(l, loop_now(l) + 10 * US_PER_S);
    return heard;
}

static int open_journal(void **state)
{
    char dir[] = "/tmp/hawk-journal.XXXXXX", why[256];
    if (!mkdtemp(dir))
        return -1;
    l = loop_new(0);
    int err = journal_open(&j, l, dir, NULL, hear, NULL, why, sizeof why);
    rmdir(dir);
    return err;
}

static int close_journal(void **state)
{
    int err = journal_close(j);
    loop_free(l);
    return err;
}

/* ---- The tests ---- */

static void what_is_durable_is_told_though_the_next_commit_fails(void **state)
{
    store.done(store.arg, 10, 0);
    store.done(store.arg, 12, HAWK_EIO);
    assert_string_equal(turn(), "10, 12 input or output error");
    assert_true(journal_failing(j));
    store.done(store.arg, 12, 0);
    assert_string_equal(turn(), "12");
    assert_false(journal_failing(j));
}

static void a_failure_that_is_over_is_not_told(void **state)
{
    store.done(store.arg, 12, HAWK_EIO);
    store.done(store.arg, 12, 0);
    assert_string_equal(turn(), "12");
    assert_false(journal_failing(j));
}

static void a_failure_of_later_records_outlives_a_success(void **state)
{
    store.done(store.arg, 12, HAWK_EIO);
    store.done(store.arg, 10, 0);
    assert_string_equal(turn(), "10, 12 input or output error");
    assert_true(journal_failing(j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_durable_is_told_though_the_next_commit_fails, open_journal,
                                        close_journal),
        cmocka_unit_test_setup_teardown(a_failure_that_is_over_is_not_told, open_journal, close_journal),
        cmocka_unit_test_setup_teardown(a_failure_of_later_records_outlives_a_success, open_journal,
                                        close_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
