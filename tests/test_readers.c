/* Threads that read outputs: every read ends, and however many are asked for, few of them have bytes in memory. */
#include "api/readers.h"
#include "base/mem.h"

#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
