/* A journal's file: whatever bytes it has, it is recovered, or refused with a text and left as it is.
 *
 * The first byte says what the rest is: the file; a journal's file with bytes changed, and perhaps cut short; the log
 * beside one; or the values of its rows, of this version or of an earlier one. */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"
#include "tests/fuzz/lib/events.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96], wal[104];
static uint8_t *whole; /* a good journal's file */
static size_t whole_n;

struct file {
    uint8_t *data;
    size_t n;
    bool there;
};

static struct file older; /* a good one of schema 6 */

static struct file slurp(const char *name)
{
    struct file f = {0};
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return f;
    CHECK(fstat(fd, &st) == 0);
    f = (struct file){xmalloc((size_t)st.st_size + 1), (size_t)st.st_size, true};
    CHECK(read(fd, f.data, f.n) == (ssize_t)f.n);
    close(fd);
    return f;
}

static void spill(const char *name, const uint8_t *data, size_t n)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK(write(fd, data, n) == (ssize_t)n);
    close(fd);
}

static void clear(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", ".lock", ".new"};

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[120];

        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void clean_up(void)
{
    clear();
    rmdir(dir);
}

static void done(void *arg, uint64_t token, int err) { (void)arg, (void)token, (void)err; }

/* ---- A good one ---- */

static void put(struct store *s, const struct msg *m) { CHECK(store_write(s, m) == 0); }

static void make_whole(void)
{
    struct blob *name = blob_str("w1");
    struct job_desc *d = job_desc_new();
    job_id_t job = job_id_make((node_id_t){1}, 1);
    struct task_set *set = task_set_new(2);
    struct store *s;
    struct file f;
    char why[400];
    sqlite3 *db;

    d->tasks = 3;
    strings_add(&d->argv, "true");
    set->v[1] = 2;
    CHECK(store_open(&s, path, NULL, done, NULL, why, sizeof why) == 0);
    put(s, &(struct msg){.type = MSG_JOURNAL_NODE,
                         .journal_node = {.name = name, .token = 1, .node = {2}, .role = ROLE_WORKER}});
    put(s, &(struct msg){.type = MSG_JOURNAL_JOB,
                         .journal_job = {.job = job, .token = 2, .desc = d, .tasks = set, .epoch = 1}});
    put(s, &(struct msg){.type = MSG_JOURNAL_TASK,
                         .journal_task = {.id = {job, 2, 1, 1}, .token = 3, .state = TASK_DONE}});
    put(s, &(struct msg){.type = MSG_HISTORY, .history = {.name = name, .mean_us = 5, .tasks = 1}});
    CHECK(store_close(s) == 0);
    blob_drop(name);
    job_desc_drop(d);
    task_set_drop(set);
    CHECK(sqlite3_open(path, &db) == SQLITE_OK); /* the same in every run */
    CHECK(sqlite3_exec(db, "UPDATE meta SET value = 7 WHERE key = 'cluster'", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    f = slurp(path);
    whole = f.data;
    whole_n = f.n;
}

static void set_up(void)
{
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(dir, sizeof dir, "%s/hawk-fuzz.XXXXXX", tmp);
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/journal.db", dir);
    snprintf(wal, sizeof wal, "%s-wal", path);
    atexit(clean_up);
    log_init("fuzz", LOG_ERROR);
    older = slurp("tests/data/journal-schema-6.db");
    CHECK(older.there);
    make_whole();
}

/* ---- Damage ---- */

static void patch(struct input *in)
{
    uint8_t *copy = memcpy(xmalloc(whole_n), whole, whole_n);
    size_t n = whole_n;
    uint8_t b = take_u8(in);

    if (b & 1)
        n = take_number(in, 3) % (whole_n + 1);
    while (input_left(in)) {
        uint64_t at = take_number(in, 2);

        copy[at % whole_n] = take_u8(in);
    }
    spill(path, copy, n);
    free(copy);
}

static void bind_any(sqlite3_stmt *st, int column, struct input *in)
{
    uint8_t b = take_u8(in);
    struct input part;

    if (b == 255) {
        sqlite3_bind_null(st, column);
    } else if (b >= 128) {
        part = take_part(in, b - 128u);
        sqlite3_bind_blob(st, column, part.p, (int)input_left(&part), SQLITE_TRANSIENT);
    } else if (b >= 64) {
        sqlite3_bind_int64(st, column, (int64_t)take_number(in, 8));
    } else {
        sqlite3_bind_int64(st, column, b);
    }
}

/* Rows as no store writes them: of the tables of today, and of those of schema 6, which are brought up to
 * date first. */
static void rows(struct input *in, bool today)
{
    static const char *const of_6[] = {
        "REPLACE INTO node(node, name, role) VALUES(?, ?, ?)",
        "REPLACE INTO job(job, epoch, estimate_us, why, tasks, desc) VALUES(?, ?, ?, ?, ?, ?)",
        "UPDATE job SET tasks = ?, desc = ?",
        "UPDATE job SET desc = ?",
        "REPLACE INTO task(job, task, epoch, attempt, run_us, code, state, outcome) VALUES(?,?,?,?,?,?,?,?)",
        "UPDATE task SET job = (SELECT max(job) FROM job)",
        "REPLACE INTO history(id, name, mean_us, task_us, tasks, class) VALUES(?, ?, ?, ?, ?, ?)",
        "REPLACE INTO meta VALUES('epoch', ?)",
        "REPLACE INTO meta VALUES('next_seq', ?)",
    };
    static const char *const of_today[] = {
        "REPLACE INTO record VALUES(?, ?, ?, ?, ?)",
        "UPDATE job_record SET value = ?",
        "UPDATE job_record SET value = CAST(value || ? AS BLOB)",
        "REPLACE INTO job_record VALUES(?, ?, ?)",
        "UPDATE record SET value = ?",
        "UPDATE record SET value = CAST(value || ? AS BLOB) WHERE tab = ?",
        "UPDATE record SET part = ? WHERE tab = 5 AND part > 0",
        "REPLACE INTO record SELECT tab, id, ?, part, value FROM record",
        "REPLACE INTO meta VALUES('epoch', ?)",
    };
    const char *const *statements = today ? of_today : of_6;
    uint32_t n = sizeof of_6 / sizeof *of_6;
    sqlite3 *db;

    if (today)
        n = sizeof of_today / sizeof *of_today;
    spill(path, today ? whole : older.data, today ? whole_n : older.n);
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
    for (int i = 0; i < 20 && input_left(in); i++) {
        const char *text = statements[take_below(in, n)];
        sqlite3_stmt *st;

        CHECK(sqlite3_prepare_v2(db, text, -1, &st, NULL) == SQLITE_OK);
        for (int c = 1; c <= sqlite3_bind_parameter_count(st); c++)
            bind_any(st, c, in);
        sqlite3_step(st); /* a NULL where none may be is not taken */
        sqlite3_finalize(st);
    }
    CHECK(sqlite3_close(db) == SQLITE_OK);
}

/* ---- The look ---- */

static void recovered(void *arg, const struct msg *m)
{
    char text[200];

    (void)arg;
    msg_format(m, text, sizeof text);
    if (m->type == MSG_JOURNAL_JOB)
        CHECK(job_desc_check(m->journal_job.desc, NULL, 0) == 0);
    if (m->type == MSG_JOURNAL_TASK)
        CHECK(m->journal_task.id.task < LIMIT_TASKS_PER_JOB);
}

static void same(const char *name, const struct file *before)
{
    struct file now = slurp(name);

    CHECK(now.there == before->there && now.n == before->n &&
          (now.n == 0 || memcmp(now.data, before->data, now.n) == 0));
    free(now.data);
}

static void look(void)
{
    struct file before = slurp(path), log_before = slurp(wal);
    char why[400] = "";
    struct store *s;

    if (store_open(&s, path, NULL, done, NULL, why, sizeof why)) {
        CHECK(strstr(why, path)); /* which file, */
        CHECK(strchr(why, ':'));  /* and what of it */
        same(path, &before);
        if (log_before.n > 0)
            same(wal, &log_before);
    } else {
        if (store_recover(s, recovered, NULL) == 0)
            put(s, &(struct msg){.type = MSG_JOURNAL_JOB_END, .journal_job_end = {.token = 9}});
        (void)store_close(s);
    }
    free(before.data);
    free(log_before.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    uint8_t kind = take_u8(&in);

    if (!whole)
        set_up();
    clear();
    switch (kind % 4) {
    case 0:
        spill(path, in.p, input_left(&in));
        break;
    case 1:
        patch(&in);
        break;
    case 2:
        spill(path, whole, whole_n);
        spill(wal, in.p, input_left(&in));
        break;
    default:
        rows(&in, kind & 0x80);
    }
    look();
    return 0;
}
