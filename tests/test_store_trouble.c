/* Journals in trouble while they work: full disks, kills, overrun queues; each in a process of its own. */
#include "tests/test_store.h"

#include <sys/file.h>

/* SQLite syncs by these, which count here as well: what was written without a sync survives a kill, and no
 * power loss. */
static struct {
    pthread_mutex_t lock;
    unsigned n;
} syncs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int count_sync(int fd, long call)
{
    int err = (int)syscall(call, fd);

    pthread_mutex_lock(&syncs.lock);
    syncs.n += err == 0;
    pthread_mutex_unlock(&syncs.lock);
    return err;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the system's headers call it otherwise */
int fsync(int fd) { return count_sync(fd, SYS_fsync); }

int fdatasync(int fd) { return count_sync(fd, SYS_fdatasync); }
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

static unsigned syncs_so_far(void)
{
    unsigned n;

    pthread_mutex_lock(&syncs.lock);
    n = syncs.n;
    pthread_mutex_unlock(&syncs.lock);
    return n;
}

/* What the lock on a lock file meets: NULL, or a path that somebody removes between the file's opening and its lock. */
static const char *removed_before_lock;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's headers call it otherwise */
int flock(int fd, int operation)
{
    if (removed_before_lock)
        assert_int_equal(unlink(removed_before_lock), 0);
    removed_before_lock = NULL;
    return (int)syscall(SYS_flock, fd, operation);
}

/* ---- Trouble while it works; each in a process of its own ---- */

static void run_child(struct fixture *f, void (*body)(struct fixture *f))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        body(f);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The limit on file sizes makes writes fail as a full disk does. */
static void fill_the_disk(struct fixture *f)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "before");
    wait_token(f, 1);
    limit_file_size(16384);
    for (uint64_t i = 2; i < 40; i++)
        write_job(f, i, i, 1, 1000, NULL);
    wait_failures(f, 1);
    assert_true(f->done.token < 39);
    write_node(f, 40, 2, "while it is full"); /* asked again: told again */
    wait_failures(f, 2);
    limit_file_size(RLIM_INFINITY);
    wait_token(f, 40); /* by itself: nothing new is written */
    write_node(f, 41, 3, "after");
    wait_token(f, 41);
    assert_int_equal(store_close(f->s), 0);
}

static void test_a_full_disk_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct told t;

    run_child(f, fill_the_disk);
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 3);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 38);
    free(t.text);
}

/* Nothing but the retry wakes the store's thread: it has scrubbed already. */
static void fill_the_disk_of_an_idle_store(struct fixture *f)
{
    char log[300];
    struct stat st;
    int looks = 0;

    signal(SIGXFSZ, SIG_IGN);
    snprintf(log, sizeof log, "%s-wal", f->path);
    assert_int_equal(open_store(f), 0);
    close_it(f);
    spill(log, "", 0); /* a log that was left is scrubbed */
    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "before");
    wait_token(f, 1);
    for (; stat(log, &st) == 0 && st.st_size > 0; looks++) {
        assert_true(looks < BOUND_S * 100);
        poll(NULL, 0, 10);
    }
    limit_file_size(16384);
    for (uint64_t i = 2; i < 40; i++)
        write_job(f, i, i, 1, 1000, NULL);
    wait_failures(f, 1);
    limit_file_size(RLIM_INFINITY);
    wait_token(f, 39);
    assert_int_equal(store_close(f->s), 0);
}

static void test_an_idle_store_tries_again(void **state)
{
    run_child(*state, fill_the_disk_of_an_idle_store);
}

/* More records wait than one commit takes: whoever waits for any of them is told. */
static void fill_the_disk_with_a_crowd(struct fixture *f)
{
    enum { CROWD = 20000 };
    bool block = true;

    f->done.block = &block;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "before");
    wait_token(f, 1); /* from here on the store's thread is held up */
    limit_file_size(16384);
    for (uint32_t i = 2; i <= CROWD; i++)
        write_node(f, i, i, "while it is full");
    pthread_mutex_lock(&f->done.lock);
    block = false;
    pthread_cond_broadcast(&f->done.changed);
    pthread_mutex_unlock(&f->done.lock);
    wait_failures(f, 1);
    assert_true(f->done.failed == CROWD);
    limit_file_size(RLIM_INFINITY);
    wait_token(f, CROWD);
    assert_int_equal(store_close(f->s), 0);
}

static void test_a_full_disk_is_told_to_all(void **state) { run_child(*state, fill_the_disk_with_a_crowd); }

static void close_on_a_full_disk(struct fixture *f)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_store(f), 0);
    limit_file_size(8192);
    write_job(f, 1, 1, 1, 10000, NULL);
    assert_int_equal(store_close(f->s), HAWK_EIO);
}

/* There is room again when it is closed: the last attempt writes what waited. */
static void close_when_there_is_room_again(struct fixture *f)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_store(f), 0);
    limit_file_size(8192);
    write_job(f, 1, 1, 1, 10000, NULL);
    wait_failures(f, 1);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(store_close(f->s), 0);
}

static void test_closing_tries_once_more(void **state)
{
    struct fixture *f = *state;
    struct told t;

    run_child(f, close_when_there_is_room_again);
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    free(t.text);
}

/* What is told to be on record survives a power loss, not only a kill. */
static void test_what_is_told_is_on_disk(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_store(f), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        unsigned before = syncs_so_far();

        write_node(f, i, (uint32_t)i, "a");
        wait_token(f, i);
        assert_true(syncs_so_far() > before);
    }
}

/* Another process made the lock file, was refused, and removes the file that this one has just opened. */
static void test_a_lock_file_that_was_removed_locks_nothing(void **state)
{
    struct fixture *f = *state;
    char lock[300];
    struct store *other;

    snprintf(lock, sizeof lock, "%s.lock", f->path);
    removed_before_lock = lock;
    spill(lock, "", 0);
    assert_int_equal(open_store(f), 0);
    assert_null(removed_before_lock);
    assert_int_equal(store_open(&other, f->path, NULL, on_done, &f->done, f->why, sizeof f->why), HAWK_EBUSY);
}

static void test_closing_on_a_full_disk_says_so(void **state)
{
    struct fixture *f = *state;

    run_child(f, close_on_a_full_disk);
    assert_int_equal(open_store(f), 0); /* whole, without what did not fit */
}

static void overrun_the_queue(struct fixture *f)
{
    struct msg m = {.type = MSG_JOURNAL_JOB};
    bool block = true;
    char *big = xcalloc(1, 60u << 20);
    int err = 0, n = 0;

    f->done.block = &block;
    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "n");
    wait_token(f, 1); /* from here on the store's thread is held up */
    m.journal_job.desc = make_desc(1, "big");
    task_args_add(&m.journal_job.desc->args, big, 60u << 20);
    for (; !err && n < 100; n++) {
        m.journal_job.token = (uint64_t)n + 2;
        err = store_write(f->s, &m);
    }
    assert_int_equal(err, HAWK_ELIMIT);
    assert_true(n == 5);
    pthread_mutex_lock(&f->done.lock);
    block = false;
    pthread_cond_broadcast(&f->done.changed);
    pthread_mutex_unlock(&f->done.lock);
    wait_token(f, 5);
    assert_int_equal(store_write(f->s, &m), 0); /* there is room again */
}

static void test_the_queue_is_bounded(void **state) { run_child(*state, overrun_the_queue); }

/* Whoever recovers keeps the journal to himself: so the store's thread waits for it when it is to scrub. */
static void hold_journal(void *arg, const struct msg *m)
{
    struct done *d = arg;

    pthread_mutex_lock(&d->lock);
    while (*d->block)
        wait_on(d);
    pthread_mutex_unlock(&d->lock);
}

static void *recover_slowly(void *arg)
{
    struct fixture *f = arg;

    assert_int_equal(store_recover(f->s, hold_journal, &f->done), 0);
    return NULL;
}

static void *close_thread(void *arg)
{
    close_it(arg);
    return NULL;
}

/* A record that arrives while the thread scrubs, just before the store is closed. */
static void test_closing_writes_what_arrives_during_a_scrub(void **state)
{
    struct fixture *f = *state;
    bool block = false;
    pthread_t holder, closer;
    struct told t;

    f->done.block = &block;
    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "a");
    wait_token(f, 1);
    block = true;
    assert_int_equal(pthread_create(&holder, NULL, recover_slowly, f), 0);
    poll(NULL, 0, STORE_SCRUB_MS + 500);
    write_node(f, 2, 2, "b");
    assert_int_equal(pthread_create(&closer, NULL, close_thread, f), 0);
    poll(NULL, 0, 200);
    pthread_mutex_lock(&f->done.lock);
    block = false;
    pthread_cond_broadcast(&f->done.changed);
    pthread_mutex_unlock(&f->done.lock);
    pthread_join(holder, NULL);
    pthread_join(closer, NULL);
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 2);
    free(t.text);
}

static void test_what_was_acknowledged_survives_a_kill(void **state)
{
    struct fixture *f = *state;
    uint64_t token = 0, acknowledged = 0;
    int fds[2], status;
    struct told t;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        f->done.pipe = fds[1];
        write_until_killed(f);
        _exit(1);
    }
    close(fds[1]);
    while (acknowledged < 3000) {
        assert_int_equal(read(fds[0], &token, sizeof token), sizeof token);
        acknowledged = token;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (read(fds[0], &token, sizeof token) == sizeof token)
        acknowledged = token;
    close(fds[0]);
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_true(t.count[MSG_JOURNAL_TASK] >= acknowledged - 1);
    print_message("acknowledged %" PRIu64 ", found %u\n", acknowledged - 1, t.count[MSG_JOURNAL_TASK]);
    free(t.text);
}

static void test_an_interrupted_first_opening_leaves_no_trap(void **state)
{
    struct fixture *f = *state;
    char half[300];

    snprintf(half, sizeof half, "%s.new", f->path);
    spill(half, "half", 4);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(access(half, F_OK), -1);
}

/* What is written into a file without a name is gone with the process: nobody is told that it is durable. */
static void test_nothing_is_durable_in_a_file_that_was_moved(void **state)
{
    static const char *const ends[] = {"", "-wal"};
    struct fixture *f = *state;
    char file[300], away[300];
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 1, "before");
    wait_token(f, 1);
    for (int i = 0; i < 2; i++) {
        uint32_t n = (uint32_t)i + 2;

        snprintf(file, sizeof file, "%s%s", f->path, ends[i]);
        snprintf(away, sizeof away, "%s.away", f->path);
        assert_int_equal(rename(file, away), 0);
        write_node(f, n, n, "while it is away");
        wait_failures(f, i + 1);
        assert_int_equal(f->done.token, n - 1);
        assert_int_equal(rename(away, file), 0);
        write_node(f, n, n, "while it is away");
        wait_token(f, n);
    }
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 3);
    free(t.text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_full_disk_loses_nothing),
        TEST(test_an_idle_store_tries_again),
        TEST(test_a_full_disk_is_told_to_all),
        TEST(test_closing_on_a_full_disk_says_so),
        TEST(test_closing_tries_once_more),
        TEST(test_what_is_told_is_on_disk),
        TEST(test_a_lock_file_that_was_removed_locks_nothing),
        TEST(test_nothing_is_durable_in_a_file_that_was_moved),
        TEST(test_the_queue_is_bounded),
        TEST(test_closing_writes_what_arrives_during_a_scrub),
        TEST(test_what_was_acknowledged_survives_a_kill),
        TEST(test_an_interrupted_first_opening_leaves_no_trap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
