/* Journals that are not what they should be: refused with a text that says what to do, and left as they are to the last
 * byte; or read as far as they are whole. Never a crash, and nothing of another's. */
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"

#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE 4096u
#define BOUND_S 60

struct bytes {
    uint8_t *data;
    size_t n;
};

struct fixture {
    char dir[200], path[256], wal[264];
    char why[600];
    struct store *s;
    uint64_t token;           /* given out */
    _Atomic uint64_t durable; /* tokens up to here */
    sem_t told;
};

/* From the store's thread. */
static void done(void *arg, uint64_t token, int err)
{
    struct fixture *f = arg;

    f->durable = err ? f->durable : token;
    sem_post(&f->told);
}

static void wait_durable(struct fixture *f, uint64_t token)
{
    while (f->durable < token) {
        struct timespec at;

        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_sec += BOUND_S;
        assert_int_equal(sem_timedwait(&f->told, &at), 0);
    }
}

static int open_store(struct fixture *f)
{
    f->why[0] = '\0';
    f->durable = 0;
    return store_open(&f->s, f->path, NULL, done, f, f->why, sizeof f->why);
}

static void close_store(struct fixture *f)
{
    assert_int_equal(store_close(f->s), 0);
    f->s = NULL;
}

static struct bytes slurp(const char *path)
{
    struct bytes b = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    b = (struct bytes){xmalloc((size_t)st.st_size + 1), (size_t)st.st_size};
    assert_int_equal(read(fd, b.data, b.n), b.n);
    close(fd);
    return b;
}

static void spill(const char *path, const uint8_t *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

static void remove_log(struct fixture *f)
{
    char shm[280];

    snprintf(shm, sizeof shm, "%s-shm", f->path);
    unlink(f->wal);
    unlink(shm);
}

static void set_path(struct fixture *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    snprintf(f->wal, sizeof f->wal, "%s-wal", f->path);
}

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct fixture *f = xcalloc(1, sizeof *f);

    log_level = LOG_ERROR;
    sem_init(&f->told, 0, 0);
    snprintf(f->dir, sizeof f->dir, "%s/damage.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    set_path(f, "journal.db");
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
    sem_destroy(&f->told);
    free(f);
    return 0;
}

/* ---- What is in a store ---- */

static void write_job(struct fixture *f, uint64_t seq)
{
    struct msg m = {.type = MSG_JOURNAL_JOB};
    struct job_desc *d = job_desc_new();

    d->tasks = 20;
    strings_add(&d->argv, "echo");
    for (int i = 0; i < 40; i++)
        strings_add(&d->env, "SOME=environment that takes some room");
    m.journal_job.token = ++f->token;
    m.journal_job.job = job_id_make((node_id_t){1}, seq);
    m.journal_job.epoch = 1;
    m.journal_job.desc = d;
    assert_int_equal(store_write(f->s, &m), 0);
    job_desc_drop(d);
    for (uint32_t i = 0; i < 20; i++) {
        struct msg t = {.type = MSG_JOURNAL_TASK};

        t.journal_task.id = (struct try_id){m.journal_job.job, i, 1, 1};
        t.journal_task.token = ++f->token;
        t.journal_task.state = TASK_DONE;
        t.journal_task.outcome = OUTCOME_EXITED;
        assert_int_equal(store_write(f->s, &t), 0);
    }
}

static void fill(struct fixture *f, uint64_t jobs)
{
    assert_int_equal(open_store(f), 0);
    for (uint64_t i = 1; i <= jobs; i++)
        write_job(f, i);
    close_store(f);
}

static void count(void *arg, const struct msg *m) { ++((uint32_t *)arg)[m->type]; }

/* Refused: the text names the file and the remedy, and file and log are as they were. */
static void assert_refused(struct fixture *f, int expected, const char *text)
{
    struct bytes before = slurp(f->path), after, log_before = {0}, log_after = {0};
    bool has_log = access(f->wal, F_OK) == 0;

    if (has_log)
        log_before = slurp(f->wal);
    assert_int_equal(open_store(f), expected);
    assert_non_null(strstr(f->why, f->path));
    assert_true(strstr(f->why, "move it") || strstr(f->why, "restore both") ||
                strstr(f->why, "another path") || strstr(f->why, "use that version"));
    if (!strstr(f->why, text))
        fail_msg("\"%s\" does not say \"%s\"", f->why, text);
    after = slurp(f->path);
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.data, before.data, before.n);
    if (has_log) {
        log_after = slurp(f->wal);
        assert_int_equal(log_after.n, log_before.n);
        assert_memory_equal(log_after.data, log_before.data, log_before.n);
    }
    free(before.data);
    free(after.data);
    free(log_before.data);
    free(log_after.data);
}

/* Either refused as above, or good to read and to write. */
static bool refused_or_read(struct fixture *f)
{
    struct bytes before = slurp(f->path), after;
    uint32_t counts[MSG_TYPE_COUNT] = {0};
    int err = open_store(f);

    if (!err) {
        assert_int_equal(store_recover(f->s, count, counts), 0);
        write_job(f, 1000);
        close_store(f);
        free(before.data);
        return false;
    }
    assert_true(err == HAWK_ECORRUPT || err == HAWK_EVERSION);
    assert_non_null(strstr(f->why, f->path));
    after = slurp(f->path);
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.data, before.data, before.n);
    free(before.data);
    free(after.data);
    return true;
}

/* ---- Tests ---- */

static void test_cut_short_anywhere(void **state)
{
    struct fixture *f = *state;
    struct bytes whole;

    fill(f, 30);
    whole = slurp(f->path);
    assert_int_equal(whole.n % PAGE, 0);
    assert_true(whole.n / PAGE > 20);
    for (size_t n = 0; n < whole.n; n += PAGE) {
        spill(f->path, whole.data, n);
        assert_refused(f, HAWK_ECORRUPT, n ? "damaged" : "empty, which a store never is");
        remove_log(f);
        spill(f->path, whole.data, n + 1000);
        assert_refused(f, HAWK_ECORRUPT, "");
        remove_log(f);
    }
    free(whole.data);
}

/* A flipped bit in what a row says may go unnoticed: SQLite keeps no sums of its pages. Everything else is found, and
 * nothing crashes. */
static void test_flipped_bytes(void **state)
{
    struct fixture *f = *state;
    uint32_t refused = 0, looks = 0;
    struct bytes whole;

    fill(f, 8);
    whole = slurp(f->path);
    for (size_t at = 0; at < whole.n; at += at % PAGE < 112 ? 7 : 331) {
        uint8_t before = whole.data[at];

        whole.data[at] ^= 0xff;
        spill(f->path, whole.data, whole.n);
        refused += refused_or_read(f);
        looks++;
        remove_log(f);
        whole.data[at] = before;
    }
    assert_true(looks > 100);
    assert_true(refused > looks / 10);
    free(whole.data);
}

static void test_files_of_others(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db;

    spill(f->path, (const uint8_t *)"", 0);
    assert_refused(f, HAWK_ECORRUPT, "empty");
    spill(f->path, (const uint8_t *)"some notes\n", 11);
    assert_refused(f, HAWK_ECORRUPT, "not a store of Hawk");
    unlink(f->path);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(a)", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_refused(f, HAWK_ECORRUPT, "an SQLite file of another program");
}

static void sql(const char *path, const char *text)
{
    char *why = NULL;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

/* Each statement damages what `whole` is: it is refused, and as it was. */
static void refused_after(struct fixture *f, struct bytes whole, const char *const *damages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        spill(f->path, whole.data, whole.n);
        sql(f->path, damages[i]);
        assert_refused(f, HAWK_ECORRUPT, "damaged");
        remove_log(f);
    }
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Keys: TABLE_HISTORY is 0, TABLE_POLICY 1, TABLE_NODE 4, TABLE_JOB 5; task 0 of a job is its part 1. */
static void test_records_that_cannot_be_read(void **state)
{
    static const char *const damages[] = {
        /* Values: a description that is none, tasks that do not ascend, a part of a task's number, a run of tasks
         * beyond the last one, a state that there is not, numbers out of their ranges, bytes for a number, a name with
         * a NUL, one that is too long, what is cut short. */
        "UPDATE job_record SET value = x'2202ffff'",
        "UPDATE job_record SET value = CAST(value || x'1a080200000001000000' AS BLOB)",
        "UPDATE job_record SET value = CAST(value || x'1a06000000002800' AS BLOB)",
        "INSERT INTO record SELECT 5, id, epoch, 16777221, x'2a060000bf843d00' FROM job_record",
        "UPDATE record SET value = x'2063' WHERE tab = 5 AND part = 4",
        "UPDATE record SET value = x'08808004' WHERE tab = 5 AND part = 4",
        "UPDATE record SET value = x'22026162' WHERE tab = 5 AND part = 4",
        "INSERT INTO record VALUES(0, 1, 0, 0, x'0a016110fbffffffffffffffff01')",
        "INSERT INTO record VALUES(0, 1, 0, 0, x'0a026100')",
        "INSERT INTO record VALUES(4, 5, 0, 0, CAST(x'0aac02' || zeroblob(300) AS BLOB))",
        "INSERT INTO record VALUES(0, 1, 0, 0, x'0a0561')",
        "INSERT INTO record VALUES(1, 0, 0, 0, x'0a0466616972')",
        "INSERT INTO record VALUES(1, 0, 0, 0, x'207f')", /* all numbers are chosen, and 0 */
        "UPDATE job_record SET value = x''",
        /* Keys. */
        "UPDATE record SET epoch = -1 WHERE tab = 5",
        "UPDATE job_record SET epoch = -1 WHERE id = (SELECT max(id) FROM job_record)",
        "UPDATE job_record SET epoch = 65536 WHERE id = (SELECT max(id) FROM job_record)",
        "UPDATE record SET epoch = 65536 WHERE tab = 5",
        "UPDATE record SET part = 1000001 WHERE tab = 5 AND part = 4",
        "UPDATE record SET part = -1 WHERE tab = 5 AND part = 4",
        "UPDATE record SET part = 16777300 WHERE tab = 5 AND part = 4",
        "UPDATE record SET tab = 99 WHERE tab = 5 AND part = 4",
        "INSERT INTO record VALUES(4, 0x7fffffff, 0, 0, x'0a0177')",
        "INSERT INTO record VALUES(3, 1, 0, 0, x'0801')",
        "INSERT INTO record VALUES(4, 5, 1, 0, x'0a0177')",
    };
    struct fixture *f = *state;
    struct bytes whole;

    fill(f, 3);
    whole = slurp(f->path);
    refused_after(f, whole, damages, COUNT(damages));
    spill(f->path, whole.data, whole.n);
    sql(f->path, "PRAGMA user_version=77");
    assert_refused(f, HAWK_EVERSION, "newer Hawk");
    free(whole.data);
}

/* What an earlier version has written is looked at no less. */
static void test_rows_of_schema_6_that_cannot_be_read(void **state)
{
    static const char *const damages[] = {
        "UPDATE job SET desc = x'ffff' WHERE job = (SELECT max(job) FROM job)",
        "UPDATE job SET epoch = -1 WHERE job = (SELECT max(job) FROM job)",
        "UPDATE job SET tasks = x'0200000001000000' WHERE job = (SELECT max(job) FROM job)",
        "UPDATE task SET state = 99 WHERE task = 3",
        "UPDATE task SET task = 'three' WHERE task = 3",
        "UPDATE task SET attempt = 1.5 WHERE task = 3",
        "INSERT INTO history(name, mean_us, task_us, tasks, class) VALUES('', -5, 0, 1, 0)",
        "INSERT INTO history(name, mean_us, task_us, tasks, class) VALUES(x'6100', 5, 5, 1, 0)",
        "INSERT INTO node(node, name, role) VALUES(0x7fffffff, 'w', 3)",
        "INSERT INTO node(node, name, role) VALUES(5, zeroblob(300), 3)",
        "UPDATE policy SET choice = 'split'",
        "INSERT INTO policy VALUES(2, x'')",
        "UPDATE meta SET value = -1 WHERE key = 'next_seq'",
    };
    struct fixture *f = *state;
    struct bytes whole = slurp("tests/data/journal-schema-6.db");

    refused_after(f, whole, damages, COUNT(damages));
    free(whole.data);
}

/* Copies file and log as a kill would leave them: while the store is open. */
static void copy_open(struct fixture *f, const char *name, uint64_t jobs, struct bytes *file,
                      struct bytes *log)
{
    uint32_t counts[MSG_TYPE_COUNT] = {0};

    set_path(f, name);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_recover(f->s, count, counts), 0);
    for (uint64_t i = 1; i <= jobs; i++)
        write_job(f, 100 + i);
    wait_durable(f, f->token);
    *file = slurp(f->path);
    *log = slurp(f->wal);
    close_store(f);
}

static void put(struct fixture *f, const struct bytes *file, const struct bytes *log)
{
    remove_log(f);
    spill(f->path, file->data, file->n);
    spill(f->wal, log->data, log->n);
}

static void test_logs_of_others(void **state)
{
    struct fixture *f = *state;
    struct bytes file[4], log[4];
    uint32_t counts[MSG_TYPE_COUNT] = {0};
    const char *name = "%62?#.db"; /* each of these has a meaning in SQLite's URIs */

    /* Two stores, and one of them at three times, with everything written back in between. */
    set_path(f, "b.db");
    fill(f, 2);
    copy_open(f, "b.db", 1, &file[0], &log[0]);
    set_path(f, name);
    fill(f, 2);
    for (int i = 1; i < 4; i++)
        copy_open(f, name, 1, &file[i], &log[i]);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            /* Its own, or one that was written back to it: the same once more. */
            bool fits = i == k || (k > 0 && i == k + 1);

            put(f, &file[i], &log[k]);
            if (!fits) {
                assert_refused(f, HAWK_ECORRUPT, "another file's or of another time");
                continue;
            }
            memset(counts, 0, sizeof counts);
            assert_int_equal(open_store(f), 0);
            assert_int_equal(store_recover(f->s, count, counts), 0);
            assert_int_equal(counts[MSG_JOURNAL_JOB], 3);
            close_store(f);
        }
    for (int i = 0; i < 4; i++) {
        free(file[i].data);
        free(log[i].data);
    }
}

/* What a kill or a power loss leaves of a log is never a reason to refuse. */
static void test_a_log_cut_short_is_read_as_far_as_it_is_whole(void **state)
{
    struct fixture *f = *state;
    struct bytes file, log;

    fill(f, 2);
    copy_open(f, "journal.db", 3, &file, &log);
    assert_true(log.n > 10 * 1000);
    for (size_t n = 0; n < log.n; n += 1500) {
        uint32_t counts[MSG_TYPE_COUNT] = {0};
        struct bytes cut = {log.data, n};

        put(f, &file, &cut);
        if (open_store(f))
            fail_msg("of %zu bytes %zu: %s", log.n, n, f->why);
        assert_int_equal(store_recover(f->s, count, counts), 0);
        assert_in_range(counts[MSG_JOURNAL_JOB], 2, 5);
        close_store(f);
    }
    free(file.data);
    free(log.data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cut_short_anywhere),
        TEST(test_flipped_bytes),
        TEST(test_files_of_others),
        TEST(test_records_that_cannot_be_read),
        TEST(test_rows_of_schema_6_that_cannot_be_read),
        TEST(test_logs_of_others),
        TEST(test_a_log_cut_short_is_read_as_far_as_it_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
