/* Threads that read outputs: every read ends, and however many are asked for, few of them have bytes in memory. */
#include "api/readers.h"
#include "base/mem.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define READS 500u
#define BYTES_AT_ONCE (64u * READ_BYTES)

static struct loop *l;
static char path[64];
static size_t most, before;
static uint32_t ended;

static size_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void note_most(void)
{
    size_t now = allocated();
    if (now > before && now - before > most)
        most = now - before;
}

static void on_read(void *arg, struct file_read *r)
{
    assert_int_equal(r->n, READ_BYTES);
    assert_int_equal(r->data[0], 'x');
    assert_int_equal(r->data[READ_BYTES - 1], 'x');
    note_most();
    file_read_free(r);
    ended++;
}

static void many_reads_at_once_take_little_memory(void **state)
{
    struct readers *rs = readers_new(l);
    int64_t deadline = loop_now(l) + 60 * US_PER_S;

    before = allocated();
    for (uint32_t i = 0; i < READS; i++) {
        struct file_read *r = xcalloc(1, sizeof *r);
        r->path = xstrdup(path);
        r->fd = -1;
        r->done = on_read;
        r->arg = &ended;
        readers_submit(rs, r);
    }
    note_most();
    while (ended < READS && loop_now(l) < deadline)
        loop_once(l, deadline);
    assert_int_equal(ended, READS);
    readers_free(rs);
    if (most > BYTES_AT_ONCE)
        fail_msg("%zu KiB at once", most >> 10);
}

/* ---- One file ---- */

static void on_one(void *arg, struct file_read *r) { *(struct file_read **)arg = r; }

/* What one read of that file brings. */
static struct file_read *read_one(const char *name, uint64_t offset)
{
    struct readers *rs = readers_new(l);
    int64_t deadline = loop_now(l) + 60 * US_PER_S;
    struct file_read *r = xcalloc(1, sizeof *r), *got = NULL;

    r->path = xstrdup(name);
    r->fd = -1;
    r->offset = offset;
    r->done = on_one;
    r->arg = &got;
    readers_submit(rs, r);
    while (!got && loop_now(l) < deadline)
        loop_once(l, deadline);
    assert_non_null(got);
    readers_free(rs);
    return got;
}

static void only_regular_files_are_read(void **state)
{
    struct file_read *r;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    r = read_one(path, 0);
    assert_int_equal(r->n, -1);
    assert_int_equal(r->err, EINVAL);
    file_read_free(r);
}

/* As /dev/stdout is one. */
static void a_link_to_what_a_process_has_open_is_not_followed(void **state)
{
    int fd = open(path, O_RDONLY);
    struct file_read *r;
    char name[64];

    assert_true(fd >= 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    r = read_one(name, 0);
    assert_int_equal(r->n, -1);
    assert_int_equal(r->err, ELOOP);
    file_read_free(r);
    close(fd);
}

static void a_file_that_was_cut_says_so_at_its_end(void **state)
{
    struct file_read *r;

    assert_int_equal(chmod(path, 0600 | EXEC_OUTPUT_CUT), 0);
    r = read_one(path, 0);
    assert_int_equal(r->n, READ_BYTES);
    assert_false(r->cut_short);
    file_read_free(r);
    r = read_one(path, READ_BYTES);
    assert_int_equal(r->n, 0);
    assert_true(r->cut_short);
    file_read_free(r);
}

static int make_file(void **state)
{
    static char text[READ_BYTES];
    snprintf(path, sizeof path, "/tmp/hawk-readers.XXXXXX");
    int fd = mkstemp(path);
    memset(text, 'x', sizeof text);
    bool made = fd >= 0 && write(fd, text, sizeof text) == (ssize_t)sizeof text && close(fd) == 0;
    l = loop_new(0);
    return made ? 0 : -1;
}

static int remove_file(void **state)
{
    loop_free(l);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_reads_at_once_take_little_memory, make_file, remove_file),
        cmocka_unit_test_setup_teardown(only_regular_files_are_read, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_link_to_what_a_process_has_open_is_not_followed, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(a_file_that_was_cut_says_so_at_its_end, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
