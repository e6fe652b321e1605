/* The agent's file of the runs that a user's runner has (exec/held_runs.h). */
#include "exec/held_runs.h"

#include "tests/test_base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/hawk-held-XXXXXX";
static int dir_fd;

static int make_dir(void **state)
{
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    return dir_fd < 0;
}

static int remove_dir(void **state)
{
    close(dir_fd);
    return rmdir(dir);
}

static void add(struct held_runs *h, uint32_t run)
{
    struct held_run r = {.run = run, .job = 7, .attempt = 1};

    assert_int_equal(held_runs_add(h, &r), 0);
}

static uint64_t size_of(const struct held_runs *h)
{
    struct stat st;

    assert_int_equal(fstat(h->fd, &st), 0);
    assert_int_equal((uint64_t)st.st_size, h->size);
    return h->size;
}

/* What an agent that comes now would read: so many runs, the first of them this one. */
static void expect_read(uint32_t n, uint32_t run)
{
    struct held_runs h;

    assert_int_equal(held_runs_open(&h, dir_fd), 0);
    assert_int_equal(held_runs_count(&h), n);
    assert_true(n == 0 || held_runs_find(&h, run) != NULL);
    held_runs_close(&h);
}

static void the_file_says_nothing_when_nothing_is_held(void **state)
{
    struct held_runs h;

    assert_int_equal(held_runs_open(&h, dir_fd), 0);
    add(&h, 1);
    add(&h, 2);
    assert_int_equal(size_of(&h), 2 * sizeof(struct held_run));
    held_runs_forget(&h, 1);
    assert_int_equal(size_of(&h), 3 * sizeof(struct held_run)); /* cheaper than to write it anew */
    expect_read(1, 2);
    held_runs_forget(&h, 2);
    assert_int_equal(size_of(&h), 0);
    expect_read(0, 0);
    held_runs_close(&h);
}

static void a_long_file_is_written_anew(void **state)
{
    struct held_runs h;
    uint64_t largest = 0;

    assert_int_equal(held_runs_open(&h, dir_fd), 0);
    add(&h, 1);
    for (uint32_t run = 2; run < 100000; run++) {
        add(&h, run);
        held_runs_forget(&h, run);
        if (h.size > largest)
            largest = h.size;
    }
    assert_in_range(largest, 1u << 20, (1u << 20) + 2 * sizeof(struct held_run));
    assert_in_range(size_of(&h), 1, largest);
    expect_read(1, 1);
    held_runs_clear(&h);
    assert_int_equal(size_of(&h), 0);
    held_runs_close(&h);
    assert_int_equal(unlinkat(dir_fd, "runs", 0), 0);
}

static void a_run_is_claimed_once(void **state)
{
    struct held_runs h;

    assert_int_equal(held_runs_open(&h, dir_fd), 0);
    add(&h, 1);
    assert_non_null(held_runs_claim(&h, 1));
    assert_null(held_runs_claim(&h, 1));
    assert_null(held_runs_claim(&h, 2));
    held_runs_close(&h);
    assert_int_equal(unlinkat(dir_fd, "runs", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_nothing_when_nothing_is_held),
        cmocka_unit_test(a_long_file_is_written_anew),
        cmocka_unit_test(a_run_is_claimed_once),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
