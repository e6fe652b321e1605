/* The store's queue and thread.
 *
 * Two locks: `lock` guards the queue and is held for moments; `db_lock` guards the database, is the
 * store's thread's while it commits, and is taken before `lock` by nobody. A commit takes everything
 * queued, up to GROUP_MAX: the longer a sync takes, the more shares the next. */
#include "store/store.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/file.h"
#include "store/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define GROUP_MAX 16384 /* entries per commit: bounds how long the first of them waits */

struct queue { /* of entries, oldest first */
    struct entry *head, **tail;
};

struct store {
    char *path;
    int lock_fd;
    store_done_fn done;
    void *arg;
    uint64_t cluster;
    uint32_t epoch;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct queue arriving; /* under lock, as the next three */
    size_t bytes;          /* of everything not committed */
    bool closing;
    bool asked; /* something arrived, or the store closes: try at once, even if the last commit failed */
    struct queue pending; /* the thread's own: taken from arriving, not committed */

    pthread_mutex_t db_lock;
    struct rows rows;   /* under db_lock */
    uint64_t committed; /* the highest token; the thread's own */
    bool failing;       /* the last commit failed; the thread's own, read after it has ended */
};

/* ---- The thread ---- */

static void queue_init(struct queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

/* Sets *last to the last entry that it covers and *token to the highest token among these. */
static int commit(struct store *s, const struct entry **last, uint64_t *token)
{
    int err, n = 0;

    *token = 0;
    pthread_mutex_lock(&s->db_lock);
    err = rows_begin(&s->rows);
    for (const struct entry *e = s->pending.head; e && n < GROUP_MAX; e = e->next, n++) {
        uint64_t t = msg_journal_token(&e->m);

        if (!err)
            err = rows_write(&s->rows, e);
        if (t > *token)
            *token = t;
        *last = e;
    }
    if (!err)
        err = rows_commit(&s->rows);
    if (err && !s->failing)
        log_error("%s: cannot be written: %s; trying again", s->path, sqlite3_errmsg(s->rows.db));
    if (err)
        rows_rollback(&s->rows);
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

/* Frees what was committed: from the head of pending to last. */
static void drop_committed(struct store *s, const struct entry *last)
{
    size_t bytes = 0;
    bool end = false;

    while (!end) {
        struct entry *e = s->pending.head;

        CHECK(e);
        end = e == last;
        s->pending.head = e->next;
        bytes += e->bytes;
        entry_free(e);
    }
    if (!s->pending.head)
        queue_init(&s->pending);
    pthread_mutex_lock(&s->lock);
    s->bytes -= bytes;
    pthread_mutex_unlock(&s->lock);
}

/* One commit of what is pending. asked: not a mere retry. */
static void commit_some(struct store *s, bool asked)
{
    const struct entry *last = NULL;
    uint64_t token;
    int err = commit(s, &last, &token);

    if (err) {
        s->failing = true;
        if (asked && token)
            s->done(s->arg, token > s->committed ? token : s->committed, err);
        return;
    }
    if (s->failing)
        log_info("%s: can be written again", s->path);
    s->failing = false;
    drop_committed(s, last);
    if (!token)
        return;
    if (token > s->committed)
        s->committed = token;
    s->done(s->arg, s->committed, 0);
}

static void wait_for_work(struct store *s)
{
    struct timespec at;

    if (!s->failing) {
        pthread_cond_wait(&s->work, &s->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += STORE_RETRY_MS / 1000;
    at.tv_nsec += (long)(STORE_RETRY_MS % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&s->work, &s->lock, &at);
}

static void take_arrived(struct store *s)
{
    if (!s->arriving.head)
        return;
    *s->pending.tail = s->arriving.head;
    s->pending.tail = s->arriving.tail;
    queue_init(&s->arriving);
}

static void *thread_main(void *arg)
{
    struct store *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        bool asked;

        if (!s->asked && !s->closing && (!s->pending.head || s->failing))
            wait_for_work(s);
        asked = s->asked;
        s->asked = false;
        take_arrived(s);
        if (s->closing && (!s->pending.head || (s->failing && !asked)))
            break;
        if (!s->pending.head)
            continue;
        pthread_mutex_unlock(&s->lock);
        commit_some(s, asked);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- Opening and closing ---- */

static int start_thread(struct store *s)
{
    pthread_condattr_t attr;
    sigset_t all, before;
    int err;

    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->db_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&s->thread, NULL, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? HAWK_EIO : 0;
}

/* The cluster's id, made at the first opening, and the count of openings. */
static int count_opening(struct store *s)
{
    uint64_t epoch = 0;
    int err = rows_begin(&s->rows);

    if (!err) {
        err = rows_meta_get(&s->rows, "cluster", &s->cluster);
        if (err == HAWK_ENOT_FOUND) {
            do {
                if (getrandom(&s->cluster, sizeof s->cluster, 0) != sizeof s->cluster)
                    s->cluster = 0;
            } while (s->cluster == 0);
            err = rows_meta_set(&s->rows, "cluster", s->cluster);
        }
    }
    if (!err)
        err = rows_meta_get(&s->rows, "epoch", &epoch);
    if (err == HAWK_ENOT_FOUND)
        err = 0;
    s->epoch = (uint32_t)epoch + 1;
    if (!err)
        err = rows_meta_set(&s->rows, "epoch", s->epoch);
    if (!err)
        err = rows_commit(&s->rows);
    if (err)
        rows_rollback(&s->rows);
    return err;
}

static void free_store(struct store *s)
{
    sqlite3 *db = s->rows.db;

    rows_free(&s->rows);
    sqlite3_close(db);
    close(s->lock_fd);
    free(s->path);
    free(s);
}

int store_open(struct store **out, const char *path, store_done_fn done, void *arg, char *why,
               size_t why_size)
{
    struct store *s;
    sqlite3 *db;
    int lock_fd, err = file_open(path, &db, &lock_fd, why, why_size);

    if (err)
        return err;
    s = xcalloc(1, sizeof *s);
    s->path = xstrdup(path);
    s->lock_fd = lock_fd;
    s->done = done;
    s->arg = arg;
    queue_init(&s->arriving);
    queue_init(&s->pending);
    err = rows_init(&s->rows, db);
    if (!err)
        err = count_opening(s);
    if (err && why_size)
        snprintf(why, why_size, "%s: cannot be written: %s", path, sqlite3_errmsg(db));
    if (!err) {
        err = start_thread(s);
        if (err && why_size)
            snprintf(why, why_size, "no thread can be started for the store: %s", strerror(errno));
    }
    if (err) {
        free_store(s);
        return err;
    }
    *out = s;
    return 0;
}

int store_close(struct store *s)
{
    struct entry *e;
    int err = 0;

    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    s->asked = true; /* one more attempt */
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    while ((e = s->pending.head)) {
        err = HAWK_EIO;
        s->pending.head = e->next;
        entry_free(e);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->db_lock);
    pthread_cond_destroy(&s->work);
    free_store(s);
    return err;
}

uint64_t store_cluster_id(const struct store *s) { return s->cluster; }
uint32_t store_epoch(const struct store *s) { return s->epoch; }

/* ---- Writing and reading ---- */

int store_write(struct store *s, const struct msg *m)
{
    struct entry *e = entry_new(m);
    int err = 0;

    if (!e)
        return HAWK_EINVALID;
    pthread_mutex_lock(&s->lock);
    if (s->bytes + e->bytes > STORE_QUEUE_BYTES) {
        err = HAWK_ELIMIT;
    } else {
        *s->arriving.tail = e;
        s->arriving.tail = &e->next;
        s->bytes += e->bytes;
        s->asked = true;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    if (err)
        entry_free(e);
    return err;
}

int store_recover(struct store *s, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    int err;

    pthread_mutex_lock(&s->db_lock);
    err = rows_recover(&s->rows, fn, arg);
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

/* ---- Numbers ---- */

int store_meta_get(struct store *s, const char *key, uint64_t *value)
{
    int err;

    pthread_mutex_lock(&s->db_lock);
    err = rows_meta_get(&s->rows, key, value);
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

int store_meta_set(struct store *s, const char *key, uint64_t value)
{
    int err;

    pthread_mutex_lock(&s->db_lock);
    err = rows_meta_set(&s->rows, key, value); /* a transaction of its own */
    if (err)
        log_error("%s: cannot be written: %s", s->path, sqlite3_errmsg(s->rows.db));
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

int store_reserve_seq(struct store *s, uint64_t count, uint64_t *first)
{
    uint64_t next = 1;
    int err = store_meta_get(s, "next_seq", &next);

    if (err && err != HAWK_ENOT_FOUND)
        return err;
    if (count > JOB_SEQ_MAX || next > JOB_SEQ_MAX - count + 1)
        return HAWK_ELIMIT;
    err = store_meta_set(s, "next_seq", next + count);
    if (!err)
        *first = next;
    return err;
}
