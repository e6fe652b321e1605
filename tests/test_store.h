/* A journal in a file of its own for every test: for test_store.c and test_store_trouble.c. */
#ifndef HAWK_TESTS_TEST_STORE_H
#define HAWK_TESTS_TEST_STORE_H

#include "base/log.h"
#include "base/units.h"
#include "store/records.h"
#include "tests/lib/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int open_file(struct fixture *f)
{
    return store_open(&f->s, f->path, NULL, on_done, &f->done, f->why, sizeof f->why);
}

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct fixture *f = xcalloc(1, sizeof *f);

    snprintf(f->dir, sizeof f->dir, "%s/store.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/journal.db", f->dir);
    pthread_mutex_init(&f->done.lock, NULL);
    pthread_cond_init(&f->done.changed, NULL);
    f->done.pipe = -1;
    f->open = open_file;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char cmd[300];

    (void)store_close(f->s);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", f->dir);
    assert_int_equal(system(cmd), 0); /* NOLINT(cert-env33-c) */
    free(f);
    return 0;
}

/* ---- The file ---- */

static void spill(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

#endif
