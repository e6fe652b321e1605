/* store/: a real file in a directory of its own; a second process where one is needed. */
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"

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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BOUND_S 60

/* What `done` said, from the store's thread. */
struct done {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t token; /* durable up to here */
    int calls, failures;
    int pipe;    /* tokens are written to it as well, unless -1 */
    bool *block; /* the thread waits here while set */
};

struct fixture {
    char dir[200], path[256];
    char why[600];
    struct done done;
    struct store *s;
};

static void on_done(void *arg, uint64_t token, int err)
{
    struct done *d = arg;

    pthread_mutex_lock(&d->lock);
    d->calls++;
    if (err) {
        d->failures++;
    } else {
        assert_true(token >= d->token); /* never falls */
        d->token = token;
    }
    pthread_cond_broadcast(&d->changed);
    while (d->block && *d->block)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    if (!err && d->pipe >= 0 && write(d->pipe, &token, sizeof token) != sizeof token)
        abort();
}

static void wait_on(struct done *d)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += BOUND_S;
    assert_int_equal(pthread_cond_timedwait(&d->changed, &d->lock, &at), 0);
}

static void wait_token(struct fixture *f, uint64_t token)
{
    pthread_mutex_lock(&f->done.lock);
    while (f->done.token < token)
        wait_on(&f->done);
    pthread_mutex_unlock(&f->done.lock);
}

static void wait_failures(struct fixture *f, int n)
{
    pthread_mutex_lock(&f->done.lock);
    while (f->done.failures < n)
        wait_on(&f->done);
    pthread_mutex_unlock(&f->done.lock);
}

static int open_store(struct fixture *f)
{
    f->why[0] = '\0';
    return store_open(&f->s, f->path, on_done, &f->done, f->why, sizeof f->why);
}

static void close_it(struct fixture *f)
{
    assert_int_equal(store_close(f->s), 0);
    f->s = NULL;
}

static void reopen(struct fixture *f)
{
    close_it(f);
    assert_int_equal(open_store(f), 0);
}

static void exec_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
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

/* ---- Messages ---- */

static job_id_t job(uint64_t seq) { return job_id_make((node_id_t){0xfffff0}, seq); } /* uses the top bit */

static void write_node(struct fixture *f, uint64_t token, uint32_t node, const char *name)
{
    struct msg m = {.type = MSG_JOURNAL_NODE};

    m.journal_node.token = token;
    m.journal_node.node.v = node;
    m.journal_node.role = ROLE_WORKER;
    m.journal_node.name = blob_str(name);
    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.journal_node.name);
}

static struct job_desc *make_desc(uint32_t tasks, const char *name)
{
    struct job_desc *d = job_desc_new();

    d->tasks = tasks;
    d->tag = TAG_LONG;
    d->flags = JOB_EACH_ARG;
    blob_drop(d->name);
    d->name = blob_str(name);
    strings_add(&d->argv, "echo");
    strings_add(&d->env, "A=b");
    for (uint32_t i = 0; i < tasks; i++)
        task_args_add(&d->args, &i, sizeof i);
    return d;
}

static void write_job(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint32_t tasks,
                      struct task_set *set)
{
    struct msg m = {.type = MSG_JOURNAL_JOB};

    m.journal_job.token = token;
    m.journal_job.job = job(seq);
    m.journal_job.epoch = epoch;
    m.journal_job.estimate_us = 5000;
    m.journal_job.why = WHY_TAG;
    m.journal_job.desc = make_desc(tasks, "night build");
    m.journal_job.tasks = set;
    assert_int_equal(store_write(f->s, &m), 0);
    job_desc_drop(m.journal_job.desc);
}

static void write_task(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint32_t task)
{
    struct msg m = {.type = MSG_JOURNAL_TASK};

    m.journal_task.token = token;
    m.journal_task.id = (struct try_id){job(seq), task, epoch, 3};
    m.journal_task.run_us = 700 + task;
    m.journal_task.code = -1;
    m.journal_task.state = TASK_FAILED;
    m.journal_task.outcome = OUTCOME_SIGNALED;
    assert_int_equal(store_write(f->s, &m), 0);
}

static void write_end(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch)
{
    struct msg m = {.type = MSG_JOURNAL_JOB_END};

    m.journal_job_end.token = token;
    m.journal_job_end.job = job(seq);
    m.journal_job_end.epoch = epoch;
    m.journal_job_end.state = JOB_DONE;
    assert_int_equal(store_write(f->s, &m), 0);
}

static void write_history(struct fixture *f, const char *name, int64_t mean_us)
{
    struct msg m = {.type = MSG_HISTORY};

    m.history.name = blob_str(name);
    m.history.mean_us = mean_us;
    m.history.task_us = UINT64_C(1) << 62;
    m.history.tasks = 7;
    m.history.class = CLASS_LONG;
    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.history.name);
}

#define TOLD_TEXT_MAX 10000

/* What a recovery tells: counts, and the first messages as a line each. */
struct told {
    char *text;
    size_t len;
    uint32_t count[MSG_TYPE_COUNT];
    int64_t first_history_us, last_history_us;
};

static void on_recovered(void *arg, const struct msg *m)
{
    struct told *t = arg;
    char line[1000];
    size_t n = msg_format(m, line, sizeof line - 1);

    line[n++] = '\n';
    if (t->len > TOLD_TEXT_MAX)
        n = 0; /* only counted */
    t->text = xrealloc(t->text, t->len + n + 1);
    memcpy(t->text + t->len, line, n);
    t->len += n;
    t->text[t->len] = '\0';
    t->count[m->type]++;
    if (m->type == MSG_HISTORY) {
        if (t->count[MSG_HISTORY] == 1)
            t->first_history_us = m->history.mean_us;
        t->last_history_us = m->history.mean_us;
    }
    if (m->type == MSG_JOURNAL_JOB) {
        const struct job_desc *d = m->journal_job.desc;

        assert_string_equal(d->name->data, "night build");
        assert_int_equal(d->tag, TAG_LONG);
        assert_string_equal(d->argv.data, "echo");
        assert_string_equal(d->env.data, "A=b");
        assert_int_equal(d->args.n, d->tasks);
        for (uint32_t i = 0; i < d->tasks; i++)
            assert_memory_equal(d->args.data + d->args.off[i], &i, sizeof i);
    }
}

static struct told recover(struct fixture *f)
{
    struct told t = {0};

    assert_int_equal(store_recover(f->s, on_recovered, &t), 0);
    return t;
}

/* ---- Round trip ---- */

static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct task_set *set = task_set_new(2);
    struct told t;

    set->v[0] = 1;
    set->v[1] = 3;
    assert_int_equal(open_store(f), 0);
    t = recover(f);
    assert_int_equal(t.len, 0);
    write_node(f, 1, 4, "w4");
    write_node(f, 2, 1, "");
    write_job(f, 3, 17, 1, 2, NULL);
    write_job(f, 4, 9, 2, 4, set);
    write_task(f, 5, 9, 2, 3);
    write_task(f, 6, 9, 2, 1);
    write_history(f, "h1", 111);
    write_history(f, "h2", 222);
    write_job(f, 7, 20, 1, 1, NULL);
    write_task(f, 8, 20, 1, 0);
    write_end(f, 9, 20, 1);
    wait_token(f, 9);
    task_set_drop(set);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], 2);
    assert_int_equal(t.first_history_us, 111);
    assert_int_equal(t.last_history_us, 222);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 2);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 2);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 2);
    assert_non_null(strstr(t.text, "HISTORY"));
    /* History, nodes, then each job with its tasks. */
    assert_true(strstr(t.text, "HISTORY") < strstr(t.text, "JOURNAL_NODE"));
    assert_true(strstr(t.text, "JOURNAL_NODE") < strstr(t.text, "JOURNAL_JOB"));
    assert_true(strstr(t.text, "job=16777200.9 ") < strstr(t.text, "JOURNAL_TASK"));
    assert_true(strstr(t.text, "JOURNAL_TASK") < strstr(t.text, "job=16777200.17 "));
    assert_non_null(strstr(t.text, "run_us=701 code=-1 state=5 outcome=2"));
    free(t.text);
}

static void write_cancel(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch)
{
    struct msg m = {.type = MSG_JOURNAL_CANCEL,
                    .journal_cancel = {.token = token, .job = job(seq), .epoch = epoch}};

    assert_int_equal(store_write(f->s, &m), 0);
}

static void test_a_job_is_replaced_and_ends(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 2, 1, NULL);
    write_job(f, 2, 5, 2, 3, NULL);
    wait_token(f, 2);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    free(t.text);
    write_task(f, 3, 5, 2, 0);
    write_end(f, 4, 5, 2);
    wait_token(f, 4);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.len, 0);
}

static void test_epochs_of_a_job_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 5, 1, 2, NULL);
    write_task(f, 2, 5, 1, 0);
    write_job(f, 3, 5, 2, 3, NULL);
    write_task(f, 4, 5, 2, 0);
    write_cancel(f, 5, 5, 2);
    write_cancel(f, 6, 6, 1); /* of no job: nothing */
    wait_token(f, 6);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 2);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 2);
    assert_int_equal(t.count[MSG_JOURNAL_CANCEL], 1);
    assert_non_null(strstr(t.text, "JOURNAL_CANCEL job=16777200.5 token=0 epoch=2"));
    free(t.text);
    write_end(f, 7, 5, 1);
    wait_token(f, 7);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 1);
    assert_int_equal(t.count[MSG_JOURNAL_CANCEL], 1);
    free(t.text);
}

/* The tables as schema 1 had them, made from those of today. */
#define BACK_TO_1_SQL                                                                                        \
    "CREATE TABLE job1(job INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, estimate_us INTEGER NOT NULL,"       \
    " why INTEGER NOT NULL, tasks BLOB, desc BLOB NOT NULL);"                                                \
    "INSERT INTO job1 SELECT job, epoch, estimate_us, why, tasks, desc FROM job; DROP TABLE job;"            \
    "ALTER TABLE job1 RENAME TO job;"                                                                        \
    "CREATE TABLE task1(job INTEGER NOT NULL, task INTEGER NOT NULL, epoch INTEGER NOT NULL,"                \
    " attempt INTEGER NOT NULL, run_us INTEGER NOT NULL, code INTEGER NOT NULL, state INTEGER NOT NULL,"     \
    " outcome INTEGER NOT NULL, PRIMARY KEY(job, task)) WITHOUT ROWID;"                                      \
    "INSERT INTO task1 SELECT * FROM task; DROP TABLE task; ALTER TABLE task1 RENAME TO task;"               \
    "ALTER TABLE node DROP COLUMN drained;"                                                                  \
    "PRAGMA user_version=1"

static void test_an_older_file_is_brought_up_to_date(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_node(f, 1, 4, "w4");
    write_job(f, 2, 9, 2, 4, NULL);
    write_task(f, 3, 9, 2, 3);
    wait_token(f, 3);
    close_it(f);
    exec_sql(f->path, BACK_TO_1_SQL);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(open_store(f), 0);
        t = recover(f);
        assert_int_equal(t.count[MSG_JOURNAL_NODE], 1);
        assert_int_equal(t.count[MSG_JOURNAL_JOB], 1);
        assert_non_null(strstr(t.text, "run_us=703 code=-1 state=5 outcome=2"));
        free(t.text);
        write_cancel(f, 4, 9, 2); /* what the older one could not keep */
        wait_token(f, 4);
        close_it(f);
    }
}

static void test_commits_are_told_in_order_and_in_groups(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 1, NULL);
    for (uint32_t i = 0; i < 20000; i++)
        write_task(f, 2 + i, 1, 1, i);
    wait_token(f, 20001);
    print_message("20,001 writes in %d commits\n", f->done.calls);
    assert_true(f->done.calls < 5000);
    assert_int_equal(f->done.failures, 0);
    t = recover(f); /* and it may be asked at any time */
    assert_int_equal(t.count[MSG_JOURNAL_TASK], 20000);
    free(t.text);
}

static void test_other_messages_are_refused(void **state)
{
    struct fixture *f = *state;
    struct msg m = {.type = MSG_TASK_STARTED};

    assert_int_equal(open_store(f), 0);
    assert_int_equal(store_write(f->s, &m), HAWK_EINVALID);
    assert_int_equal(store_close(NULL), 0);
}

static void test_closing_commits_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    for (uint32_t i = 1; i <= 100; i++)
        write_node(f, i, i, "n");
    reopen(f); /* without a wait */
    assert_int_equal(f->done.token, 100);
    t = recover(f);
    assert_int_equal(t.count[MSG_JOURNAL_NODE], 100);
    free(t.text);
}

static void test_history_keeps_the_last(void **state)
{
    struct fixture *f = *state;
    struct told t;

    assert_int_equal(open_store(f), 0);
    for (int i = 1; i <= STORE_HISTORY_JOBS + 500; i++)
        write_history(f, "recurring", i);
    reopen(f);
    t = recover(f);
    assert_int_equal(t.count[MSG_HISTORY], STORE_HISTORY_JOBS);
    assert_int_equal(t.first_history_us, 501);
    assert_int_equal(t.last_history_us, STORE_HISTORY_JOBS + 500);
    free(t.text);
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

static void test_numbers(void **state)
{
    struct fixture *f = *state;
    uint64_t v = 0, cluster, first;
    struct stat st;

    assert_int_equal(open_store(f), 0);
    cluster = store_cluster_id(f->s);
    assert_int_not_equal(cluster, 0);
    assert_int_equal(store_epoch(f->s), 1);
    assert_int_equal(store_meta_get(f->s, "node", &v), HAWK_ENOT_FOUND);
    assert_int_equal(store_meta_set(f->s, "node", UINT64_MAX - 1), 0);
    assert_int_equal(store_reserve_seq(f->s, 1000, &first), 0);
    assert_int_equal(first, 1);
    reopen(f);
    assert_true(store_cluster_id(f->s) == cluster);
    assert_int_equal(store_epoch(f->s), 2);
    assert_int_equal(store_meta_get(f->s, "node", &v), 0);
    assert_true(v == UINT64_MAX - 1);
    assert_int_equal(store_reserve_seq(f->s, 5, &first), 0);
    assert_int_equal(first, 1001);
    assert_int_equal(store_reserve_seq(f->s, JOB_SEQ_MAX, &first), HAWK_ELIMIT);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* jobs' environments are in there */
}

/* ---- Files that are refused ---- */

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

static void spill(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

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
    exec_sql(f->path, "PRAGMA user_version=3");
    assert_refused(f, HAWK_EVERSION, "newer Hawk (schema 3, this one knows 2)");
    exec_sql(f->path, "PRAGMA user_version=0");
    assert_refused(f, HAWK_ECORRUPT, "no schema version");
}

static void test_a_description_that_cannot_be_read_is_told(void **state)
{
    struct fixture *f = *state;
    struct told t = {0};

    make_full_store(f);
    exec_sql(f->path, "UPDATE job SET desc = x'ffff' WHERE rowid = (SELECT max(rowid) FROM job)");
    assert_int_equal(open_store(f), 0); /* the file as such is whole */
    assert_int_equal(store_recover(f->s, on_recovered, &t), HAWK_ECORRUPT);
    free(t.text);
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
    assert_int_equal(store_open(&other.s, f->path, on_done, &other.done, other.why, sizeof other.why),
                     HAWK_EBUSY);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char expected[64];
        int err = store_open(&other.s, f->path, on_done, &other.done, other.why, sizeof other.why);

        snprintf(expected, sizeof expected, "process %d has this store open", (int)getppid());
        _exit(err == HAWK_EBUSY && strstr(other.why, expected) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    write_node(f, 1, 1, "still works");
    wait_token(f, 1);
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

static void close_on_a_full_disk(struct fixture *f)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(open_store(f), 0);
    limit_file_size(8192);
    write_job(f, 1, 1, 1, 10000, NULL);
    assert_int_equal(store_close(f->s), HAWK_EIO);
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
    for (; !err && n < 100; n++)
        err = store_write(f->s, &m);
    assert_int_equal(err, HAWK_ELIMIT);
    assert_true(n == 5);
}

static void test_the_queue_is_bounded(void **state) { run_child(*state, overrun_the_queue); }

static void write_until_killed(struct fixture *f)
{
    assert_int_equal(open_store(f), 0);
    write_job(f, 1, 1, 1, 1, NULL);
    for (uint32_t i = 0;; i++) {
        struct msg m = {.type = MSG_JOURNAL_TASK};

        m.journal_task.token = i + 2;
        m.journal_task.id = (struct try_id){job(1), i, 1, 1};
        while (store_write(f->s, &m) == HAWK_ELIMIT)
            poll(NULL, 0, 1);
        if (i % 64 == 0)
            poll(NULL, 0, 1); /* so that there are many commits */
    }
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_a_job_is_replaced_and_ends),
        TEST(test_epochs_of_a_job_are_kept_apart),
        TEST(test_an_older_file_is_brought_up_to_date),
        TEST(test_commits_are_told_in_order_and_in_groups),
        TEST(test_other_messages_are_refused),
        TEST(test_closing_commits_what_is_queued),
        TEST(test_history_keeps_the_last),
        TEST(test_ended_jobs_leave_room_for_others),
        TEST(test_numbers),
        TEST(test_foreign_files_are_refused),
        TEST(test_damaged_files_are_refused),
        TEST(test_newer_files_are_refused),
        TEST(test_a_description_that_cannot_be_read_is_told),
        TEST(test_a_log_without_its_file_is_refused),
        TEST(test_places_where_no_file_can_be),
        TEST(test_a_second_opener_is_refused),
        TEST(test_a_full_disk_loses_nothing),
        TEST(test_closing_on_a_full_disk_says_so),
        TEST(test_the_queue_is_bounded),
        TEST(test_what_was_acknowledged_survives_a_kill),
        TEST(test_an_interrupted_first_opening_leaves_no_trap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
