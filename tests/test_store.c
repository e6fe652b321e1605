/* store/: a real file in a directory of its own; a second process where one is needed. */
#include "tests/test_store.h"

#include "store/nonces.h"
#include "tests/lib/store_conformance.h"

static void exec_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int records_in(const char *path)
{
    sqlite3_stmt *st;
    sqlite3 *db;
    int n;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT (SELECT count(*) FROM record) + (SELECT count(*) FROM job_record)", -1,
                           &st, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return n;
}

/* ---- The file ---- */

#define SCHEMA_6 "tests/data/journal-schema-6" /* a dist's, which a version of that schema has written */

/* Its tables as those of earlier versions were. */
#define BACK_TO_5_SQL "ALTER TABLE node DROP COLUMN next_seq; PRAGMA user_version=5"

#define BACK_TO_4_SQL BACK_TO_5_SQL "; DROP TABLE policy; PRAGMA user_version=4"
#define BACK_TO_3_SQL                                                                                        \
    BACK_TO_4_SQL                                                                                            \
    "; DROP TABLE ended; ALTER TABLE job DROP COLUMN owner; ALTER TABLE job DROP COLUMN at_us;"              \
    "PRAGMA user_version=3"
#define BACK_TO_2_SQL                                                                                        \
    BACK_TO_3_SQL                                                                                            \
    "; ALTER TABLE job DROP COLUMN life; ALTER TABLE job DROP COLUMN handed; ALTER TABLE job DROP COLUMN "   \
    "class; ALTER TABLE task DROP COLUMN worker; PRAGMA user_version=2"
#define BACK_TO_1_SQL                                                                                        \
    BACK_TO_2_SQL                                                                                            \
    "; DELETE FROM job WHERE epoch = 65535;"                                                                 \
    "CREATE TABLE job1(job INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, estimate_us INTEGER NOT NULL,"       \
    " why INTEGER NOT NULL, tasks BLOB, desc BLOB NOT NULL);"                                                \
    "INSERT INTO job1 SELECT job, epoch, estimate_us, why, tasks, desc FROM job; DROP TABLE job;"            \
    "ALTER TABLE job1 RENAME TO job;"                                                                        \
    "CREATE TABLE task1(job INTEGER NOT NULL, task INTEGER NOT NULL, epoch INTEGER NOT NULL,"                \
    " attempt INTEGER NOT NULL, run_us INTEGER NOT NULL, code INTEGER NOT NULL, state INTEGER NOT NULL,"     \
    " outcome INTEGER NOT NULL, PRIMARY KEY(job, task)) WITHOUT ROWID;"                                      \
    "INSERT INTO task1 SELECT job, task, epoch, attempt, run_us, code, state, outcome FROM task; DROP "      \
    "TABLE task; ALTER TABLE task1 RENAME TO task;"                                                          \
    "ALTER TABLE node DROP COLUMN drained;"                                                                  \
    "PRAGMA user_version=1"

static void count_recovered(void *arg, const struct msg *m)
{
    struct told *t = arg;

    t->count[m->type]++;
    t->with_env += m->type == MSG_JOURNAL_JOB && m->journal_job.desc->env.n > 0;
}

/* When records were written: jobs, or what is said of them. Of a field that is there twice the last one counts. */
#define OF_JOBS "job_record", "true"

#define OF_WHAT_IS_SAID "record", "part > 0x01000000"

static void set_at(struct fixture *f, const char *table, const char *where, unsigned number, int64_t at_us)
{
    char bytes[40], sql[200];
    int n = snprintf(bytes, sizeof bytes, "%02x", number << 3);

    for (uint64_t v = (uint64_t)at_us;; v >>= 7) {
        n += snprintf(bytes + n, sizeof bytes - (size_t)n, "%02x",
                      (unsigned)(v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        if (v <= 0x7f)
            break;
    }
    snprintf(sql, sizeof sql, "UPDATE %s SET value = CAST(value || x'%s' AS BLOB) WHERE %s", table, bytes,
             where);
    exec_sql(f->path, sql);
}

#define HOUR_US (3600 * US_PER_S)

static int64_t unix_us(void) { return time(NULL) * US_PER_S; }

/* What the only JOURNAL_AGE says. */
static int64_t age_us(const struct told *t)
{
    const char *at = strstr(t->text, "ago_us=");

    assert_int_equal(t->count[MSG_JOURNAL_AGE], 1);
    assert_non_null(at);
    return strtoll(at + strlen("ago_us="), NULL, 10);
}

static char *slurp(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    char *data;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    data = xmalloc((size_t)st.st_size + 1);
    assert_int_equal(read(fd, data, (size_t)st.st_size + 1), st.st_size);
    *len = (size_t)st.st_size;
    close(fd);
    return data;
}

static void copy_file(const char *from, const char *to)
{
    size_t len;
    char *data = slurp(from, &len);

    spill(to, data, len);
    free(data);
}

/* How often the environment of a job is in the file. */
static int environments_in(const char *path)
{
    size_t len;
    char *data = slurp(path, &len);
    int n = 0;

    for (size_t i = 0; i + 3 <= len; i++)
        n += memcmp(data + i, "A=b", 3) == 0;
    free(data);
    return n;
}

static void test_a_file_of_schema_6_is_read_and_brought_up_to_date(void **state)
{
    struct fixture *f = *state;
    uint64_t v = 0;

    copy_file(SCHEMA_6 ".db", f->path);
    assert_int_equal(store_open(&f->s, f->path, "dist d2", on_done, &f->done, f->why, sizeof f->why),
                     HAWK_ECORRUPT);
    assert_non_null(strstr(f->why, "it belongs to dist d1"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(store_open(&f->s, f->path, "dist d1", on_done, &f->done, f->why, sizeof f->why), 0);
        assert_told(f, SCHEMA_6 ".txt");
        assert_true(store_cluster_id(f->s) == 7);
        assert_int_equal(store_epoch(f->s), 2 + round);
        assert_int_equal(store_meta_get(f->s, STORE_META_NODE, &v), 0);
        assert_int_equal(v, 7);
        assert_int_equal(store_meta_get(f->s, STORE_META_CLUSTER, &v), 0);
        assert_true(v == UINT64_MAX - 2);
        close_it(f);
    }
    assert_int_equal(environments_in(f->path), 3); /* nothing of the tables that were */
}

/* What it was opened for: everything after it goes on as in a new one. */
static void test_a_file_of_schema_6_goes_on(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_ENDED};
    struct told t = {0};
    const job_id_t changed = job_id_make((node_id_t){7}, 2);

    copy_file(SCHEMA_6 ".db", f->path);
    assert_int_equal(open_store(f), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(store_write(f->s, &(struct msg){.type = MSG_JOURNAL_TASK,
                                                         .journal_task = {.id = {changed, i, 1, 1},
                                                                          .token = 1,
                                                                          .state = TASK_DONE,
                                                                          .outcome = OUTCOME_EXITED}}),
                         0);
    m.journal_ended = (struct msg_journal_ended){.job = changed, .token = 2, .epoch = 1, .state = JOB_DONE};
    assert_int_equal(store_write(f->s, &m), 0);
    write_end(f, 3, 9, 2);
    write_history(f, "night build", 400);
    wait_token(f, 3);
    reopen(f);
    assert_int_equal(store_recover(f->s, count_recovered, &t), 0);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 3);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 1 + 3);
    assert_int_equal(t.count[MSG_JOURNAL_CANCEL], 0);
    assert_int_equal(t.count[MSG_JOURNAL_ENDED], 2);
    assert_int_equal(t.count[MSG_HISTORY], 4);
    assert_int_equal(t.with_env, 1); /* of the later epoch */
}

/* A central's, of a version that did not tell users apart: four jobs, which are nobody's from now on. */
static void test_a_history_without_users_is_read(void **state)
{
    struct fixture *f = *state;
    struct told t;

    copy_file("tests/data/journal-schema-7.db", f->path);
    assert_int_equal(store_open(&f->s, f->path, "central", on_done, &f->done, f->why, sizeof f->why), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], 4);
    assert_int_equal(t.first_history_us, 3771);
    assert_int_equal(t.last_history_us, 104340);
    assert_int_equal(t.history_of_user_1, 0);
    write_history_of(f, 1, "nightly", 400);
    close_it(f);
    assert_int_equal(store_open(&f->s, f->path, "central", on_done, &f->done, f->why, sizeof f->why), 0);
    free(t.text);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], 5);
    assert_int_equal(t.first_history_us, 3771);
    assert_int_equal(t.last_history_us, 400);
    assert_int_equal(t.history_of_user_1, 1);
    free(t.text);
}

static void older_file(struct fixture *f, const char *back, const char *job, int jobs)
{
    char *told;
    size_t size;
    FILE *to;

    copy_file(SCHEMA_6 ".db", f->path);
    exec_sql(f->path, back);
    for (int round = 0; round < 2; round++) {
        struct told t = {0};

        assert_int_equal(open_store(f), 0);
        to = open_memstream(&told, &size);
        assert_int_equal(store_recover(f->s, tell_line, to), 0);
        assert_int_equal(fclose(to), 0);
        assert_int_equal(store_recover(f->s, count_recovered, &t), 0);
        assert_int_equal(t.count[MSG_JOURNAL_NODE], 2);
        assert_int_equal(t.count[MSG_JOURNAL_JOB], jobs);
        assert_int_equal(t.count[MSG_JOURNAL_AGE], jobs);
        assert_int_equal(t.count[MSG_JOURNAL_TASK], 3);
        assert_int_equal(t.count[MSG_HISTORY], 3);
        if (!strstr(told, job))
            fail_msg("no \"%s\" in %s", job, told);
        assert_non_null(strstr(told, "/3@2.3 token=0 run_us=703 worker="));
        free(told);
        write_cancel(f, 4, 9, 2); /* what the oldest one could not keep */
        wait_token(f, 4);
        close_it(f);
    }
}

static void test_files_of_schema_1_are_brought_up_to_date(void **state)
{
    older_file(*state, BACK_TO_1_SQL, "epoch=2 life=0 handed=0 why=1 class=0", 3);
}

static void test_files_of_schema_2_are_brought_up_to_date(void **state)
{
    older_file(*state, BACK_TO_2_SQL, "epoch=2 life=0 handed=0 why=1 class=0", 4);
}

static void test_files_of_schema_3_are_brought_up_to_date(void **state)
{
    older_file(*state, BACK_TO_3_SQL, "epoch=2 life=0 handed=2 why=1 class=1", 4);
}

static void test_files_of_schema_4_are_brought_up_to_date(void **state)
{
    older_file(*state, BACK_TO_4_SQL, "epoch=2 life=3 handed=2 why=1 class=1", 4);
}

static void test_files_of_schema_5_are_brought_up_to_date(void **state)
{
    older_file(*state, BACK_TO_5_SQL, "drained=0 next_seq=0", 4);
}

static void test_a_job_is_read_back_with_its_age(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_JOB,
                    .journal_job = {.job = job(5), .token = 2, .epoch = 1, .handed = 1, .why = WHY_TAG}};
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 2, NULL);
    wait_token(f, 1);
    close_it(f);
    set_at(f, OF_JOBS, JOB_FIELD_at_us, unix_us() - HOUR_US);
    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), 0); /* a change is no new submission */
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_in_range(age_us(&t), HOUR_US, HOUR_US + 600 * US_PER_S);
    assert_true(strstr(t.text, "JOURNAL_JOB") < strstr(t.text, "JOURNAL_AGE"));
    free(t.text);
    close_it(f);
    set_at(f, OF_JOBS, JOB_FIELD_at_us, unix_us() + HOUR_US); /* the clock is put back */
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(age_us(&t), 0);
    free(t.text);
    close_it(f);
    set_at(f, OF_JOBS, JOB_FIELD_at_us, 1); /* it was not set yet */
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(age_us(&t), LIMIT_TIME_US);
    free(t.text);
}

static void test_a_job_that_ended_is_kept_until_it_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_ENDED};
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 2, NULL);
    write_task(f, 2, 5, 1, 1);
    write_cancel(f, 3, 5, 1);
    m.journal_ended = (struct msg_journal_ended){.job = job(5),
                                                 .token = 4,
                                                 .cutoff_us = 8,
                                                 .response_us = 9,
                                                 .left_out = 1,
                                                 .epoch = 1,
                                                 .state = JOB_CANCELLED,
                                                 .promoted = 1};
    assert_int_equal(store_write(f->s, &m), 0);
    write_job(f, 5, 6, 1, 2, NULL);
    write_job(f, 6, 7, 1, 1, NULL); /* cancelled by other than its client: it may run again */
    write_task(f, 7, 7, 1, 0);
    m.journal_ended.job = job(7);
    m.journal_ended.token = 8;
    m.journal_ended.left_out = 0;
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 8);
    close_it(f);
    set_at(f, OF_WHAT_IS_SAID, 3, unix_us() - HOUR_US);
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_ENDED], 2);
    assert_non_null(strstr(t.text, "token=0 cutoff_us=8 response_us=9 ago_us=36"));
    assert_non_null(strstr(t.text, "left_out=1 epoch=1 state=5 promoted=1"));
    assert_true(strstr(t.text, "JOURNAL_TASK") < strstr(t.text, "JOURNAL_ENDED"));
    assert_int_equal(t.with_env, 2); /* the others' */
    free(t.text);
    write_end(f, 9, 5, 1);
    write_end(f, 10, 7, 1);
    wait_token(f, 10);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.count[MSG_JOURNAL_TASK] + t.count[MSG_JOURNAL_ENDED], 0);
    free(t.text);
    assert_int_equal(records_in(f->path), 1); /* nothing is left that would grow for ever */
}

static void keep_unwanted(void *arg, const struct msg *m)
{
    struct task_set **kept = arg;

    if (m->type == MSG_JOURNAL_WAITS)
        *kept = task_set_ref(m->journal_waits.unwanted);
}

static void test_tasks_that_are_to_end_are_read_back(void **state)
{
    static const uint32_t tasks[] = {0, 1, 2, 7, 9, 10, 498, LIMIT_TASKS_PER_JOB - 1};
    struct fixture *f = *state;
    struct msg m = {.type = MSG_JOURNAL_WAITS};
    struct task_set *s = task_set_new(sizeof tasks / sizeof *tasks), *kept = NULL;

    memcpy(s->v, tasks, sizeof tasks);
    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 500, NULL);
    m.journal_waits = (struct msg_journal_waits){.job = job(5), .token = 2, .epoch = 1, .unwanted = s};
    assert_int_equal(store_write(f->s, &m), 0);
    wait_token(f, 2);
    reopen(f);
    assert_int_equal(store_recover(f->s, keep_unwanted, &kept), 0);
    assert_non_null(kept);
    assert_int_equal(kept->n, s->n);
    assert_memory_equal(kept->v, tasks, sizeof tasks);
    task_set_drop(kept);
    task_set_drop(s);
}

static void test_ended_jobs_leave_room_for_others(void **state)
{
    struct fixture *f = *state;
    struct stat early, late;
    uint64_t token = 0;

    assert_int_equal(open_store(f), 0);
    for (uint64_t round = 1; round <= 60; round++) {
        write_job(f, ++token, round, 1, 500, NULL);
        for (uint32_t i = 0; i < 500; i++)
            write_task(f, ++token, round, 1, i);
        write_end(f, ++token, round, 1);
        if (round == 10)
            reopen(f);
        if (round == 10)
            assert_int_equal(stat(f->path, &early), 0);
    }
    reopen(f);
    assert_int_equal(stat(f->path, &late), 0);
    assert_true(late.st_size <= early.st_size * 2);
}

static void test_the_file_is_private(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* jobs' environments are in there */
}

/* ---- Files that are refused ---- */

static void assert_refused(struct fixture *f, int err, const char *says)
{
    char *before, *after;
    size_t len, len_after;

    before = slurp(f->path, &len);
    assert_int_equal(open_store(f), err);
    if (!strstr(f->why, says) || !strstr(f->why, f->path))
        fail_msg("\"%s\" does not say \"%s\" and name the file", f->why, says);
    print_message("%s\n", f->why);
    after = slurp(f->path, &len_after);
    assert_int_equal(len_after, len);
    assert_memory_equal(after, before, len);
    free(before);
    free(after);
}

static void test_foreign_files_are_refused(void **state)
{
    struct fixture *f = *state;
    char lock[300];

    spill(f->path, "dear diary\n", 11);
    assert_refused(f, HAWK_ECORRUPT, "not a store of Hawk");
    spill(f->path, "", 0);
    assert_refused(f, HAWK_ECORRUPT, "empty");
    unlink(f->path);
    exec_sql(f->path, "CREATE TABLE t(x); INSERT INTO t VALUES(1)");
    assert_refused(f, HAWK_ECORRUPT, "of another program");
    snprintf(lock, sizeof lock, "%s.lock", f->path);
    assert_int_equal(access(lock, F_OK), -1); /* nothing of ours is left beside it */
}

/* Nobody writes to it: it must not be waited for. */
static void test_pipes_are_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_int_equal(open_store(f), HAWK_EIO);
    assert_non_null(strstr(f->why, "not a regular file"));
}

/* Whoever opens the file without its log knows it as well. */
static void test_the_file_says_whose_it_is(void **state)
{
    struct fixture *f = *state;
    struct store *other;
    char copy[300];
    size_t len;
    char *data;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_own(f->s, "dist d1"), 0);
    data = slurp(f->path, &len);
    snprintf(copy, sizeof copy, "%s.copy", f->path);
    spill(copy, data, len);
    free(data);
    assert_int_equal(store_open(&other, copy, "dist d2", on_done, &f->done, f->why, sizeof f->why),
                     HAWK_ECORRUPT);
    assert_non_null(strstr(f->why, "it belongs to dist d1, and this is dist d2"));
    unlink(copy);
}

/* A store with enough in it that every part of the file matters. */
static void make_full_store(struct fixture *f)
{
    assert_int_equal(open_store(f), 0);
    for (uint64_t i = 1; i <= 50; i++)
        write_job(f, i, i, 1, 200, NULL);
    for (int i = 0; i < 1000; i++)
        write_history(f, "some name that takes some room", i);
    assert_int_equal(store_close(f->s), 0);
    f->s = NULL;
}

static void test_damaged_files_are_refused(void **state)
{
    struct fixture *f = *state;
    size_t len;
    char *data;

    make_full_store(f);
    data = slurp(f->path, &len);
    assert_true(len > 40000);
    spill(f->path, data, len / 2);
    assert_refused(f, HAWK_ECORRUPT, "damaged");
    spill(f->path, data, len - 4096);
    assert_refused(f, HAWK_ECORRUPT, "damaged");
    spill(f->path, data, 50);
    assert_refused(f, HAWK_ECORRUPT, "not a store");
    memset(data + 4096, 0x5a, 8192);
    spill(f->path, data, len);
    assert_refused(f, HAWK_ECORRUPT, "damaged");
    free(data);
}

static void test_newer_files_are_refused(void **state)
{
    struct fixture *f = *state;

    make_full_store(f);
    exec_sql(f->path, "PRAGMA user_version=8");
    assert_refused(f, HAWK_EVERSION, "newer Hawk (schema 8, this one knows 7)");
    exec_sql(f->path, "PRAGMA user_version=0");
    assert_refused(f, HAWK_ECORRUPT, "no schema version");
}

static void test_a_log_without_its_file_is_refused(void **state)
{
    struct fixture *f = *state;
    char wal[300];

    snprintf(wal, sizeof wal, "%s-wal", f->path);
    spill(wal, "x", 1);
    assert_int_equal(open_store(f), HAWK_ECORRUPT);
    assert_non_null(strstr(f->why, wal));
    assert_int_equal(access(f->path, F_OK), -1);
}

static void test_places_where_no_file_can_be(void **state)
{
    struct fixture *f = *state;

    snprintf(f->path, sizeof f->path, "%s/missing/journal.db", f->dir);
    assert_int_equal(open_store(f), HAWK_EIO);
    assert_non_null(strstr(f->why, "the directory must exist"));
    snprintf(f->path, sizeof f->path, "%s/sub", f->dir);
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_int_equal(open_store(f), HAWK_EIO);
    assert_non_null(strstr(f->why, f->path));
}

static void test_a_second_opener_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fixture other = *f;
    int status;
    pid_t pid;

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_open(&other.s, f->path, NULL, on_done, &other.done, other.why, sizeof other.why),
                     HAWK_EBUSY);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char expected[64];
        int err = store_open(&other.s, f->path, NULL, on_done, &other.done, other.why, sizeof other.why);

        snprintf(expected, sizeof expected, "process %d has this store open", (int)getppid());
        _exit(err == HAWK_EBUSY && strstr(other.why, expected) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    write_node(f, 1, 1, "still works");
    wait_token(f, 1);
}

static uint32_t count_nonces(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    uint32_t n;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT COUNT(*) FROM nonces", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = (uint32_t)sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static void use_nonce(struct nonces *n, uint32_t number, int64_t until_s, int64_t now_s)
{
    uint8_t nonce[NONCE_BYTES] = {0};
    job_id_t other;

    memcpy(nonce, &number, sizeof number);
    assert_int_equal(store_nonces_use(n, nonce, (job_id_t){number}, until_s, now_s, &other), 0);
}

static void test_a_nonce_is_of_one_job(void **state)
{
    const struct fixture *f = *state;
    const uint8_t nonce[NONCE_BYTES] = {7};
    struct nonces *n;
    job_id_t other;
    char path[300], why[200];

    snprintf(path, sizeof path, "%s/nonces.db", f->dir);
    assert_int_equal(store_nonces_open(&n, path, why, sizeof why), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_nonces_use(n, nonce, (job_id_t){1}, 100, 50, &other), 0);
    assert_int_equal(store_nonces_use(n, nonce, (job_id_t){2}, 100, 50, &other), HAWK_EEXISTS);
    assert_int_equal(other.v, 1);
    store_nonces_free(n);
}

/* A worker waits for what each use forgets. A week of a busy one's nonces kept it from answering for minutes. */
static void test_nonces_are_forgotten_a_few_at_a_time(void **state)
{
    const struct fixture *f = *state;
    struct nonces *n;
    char path[300], why[200];
    uint32_t left, i = 0;

    snprintf(path, sizeof path, "%s/nonces.db", f->dir);
    assert_int_equal(store_nonces_open(&n, path, why, sizeof why), 0);
    while (i < 2000)
        use_nonce(n, ++i, 100, 50);
    assert_int_equal(count_nonces(path), 2000);
    use_nonce(n, ++i, 1000, 200); /* the time of all others is over */
    left = count_nonces(path);
    assert_in_range(left, 1990, 2000);
    while (i < 3000)
        use_nonce(n, ++i, 1000, 200);
    assert_int_equal(count_nonces(path), 1000); /* those whose time is to come */
    store_nonces_free(n);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_CONFORMANCE(TEST),
        TEST(test_a_file_of_schema_6_is_read_and_brought_up_to_date),
        TEST(test_a_file_of_schema_6_goes_on),
        TEST(test_a_history_without_users_is_read),
        TEST(test_files_of_schema_1_are_brought_up_to_date),
        TEST(test_files_of_schema_2_are_brought_up_to_date),
        TEST(test_files_of_schema_3_are_brought_up_to_date),
        TEST(test_files_of_schema_4_are_brought_up_to_date),
        TEST(test_files_of_schema_5_are_brought_up_to_date),
        TEST(test_a_job_is_read_back_with_its_age),
        TEST(test_a_job_that_ended_is_kept_until_it_is_forgotten),
        TEST(test_tasks_that_are_to_end_are_read_back),
        TEST(test_ended_jobs_leave_room_for_others),
        TEST(test_the_file_is_private),
        TEST(test_foreign_files_are_refused),
        TEST(test_the_file_says_whose_it_is),
        TEST(test_pipes_are_refused),
        TEST(test_damaged_files_are_refused),
        TEST(test_newer_files_are_refused),
        TEST(test_a_log_without_its_file_is_refused),
        TEST(test_places_where_no_file_can_be),
        TEST(test_a_second_opener_is_refused),
        TEST(test_a_nonce_is_of_one_job),
        TEST(test_nonces_are_forgotten_a_few_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
