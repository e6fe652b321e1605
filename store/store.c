/* The store's queue and thread.
 *
 * There are two locks, and no thread holds both. `lock` guards the queue `arriving` and the flags; every
 * holder releases it within microseconds. `db_lock` guards the backend; the store's thread holds it for a
 * whole commit, which includes the disk's sync. `pending` belongs to the store's thread alone.
 *
 * One commit writes as many pending entries as the backend accepts. While a sync is slow, more entries
 * arrive, and the next commit writes more of them. */
#include "store/store.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/backend.h"
#include "store/etcd_keys.h"
#include "store/sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct queue { /* of entries, oldest first */
    struct entry *head, **tail;
};

struct store {
    const struct backend_ops *ops;
    struct backend *backend; /* under db_lock, as the next */
    struct records_history history;
    store_done_fn done;
    void *arg;
    uint64_t cluster;
    uint32_t epoch;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct queue arriving; /* under lock, as the next three */
    size_t bytes;          /* of all entries that are not committed */
    bool closing;
    bool abandoned; /* nothing more is to be written */
    bool asked;     /* an entry arrived, or the store closes: try at once, even if the last commit failed */
    struct queue pending; /* the thread's own: taken from arriving, not committed */

    pthread_mutex_t db_lock;
    uint64_t committed; /* the highest token; the thread's own */
    bool failing;       /* the last commit failed; the thread's own, read after it has ended */
    bool fenced;        /* another central leads, so no commit is possible any more; the thread's own */
    bool scrub_failing; /* the last scrub failed; the thread's own, as the next */
    int64_t scrub_ms; /* when the next scrub is due, by now_ms; 0: nothing was committed since the last one */
};

/* ---- The thread ---- */

static int64_t now_ms(void) { return monotonic_us() / 1000; }

static void queue_init(struct queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

/* Commits from the head of pending. Sets *last to the last entry of the commit. *token: the highest token in it, or,
 * when it failed, of all that is pending: what follows waits for as long. */
static int commit_pending(struct store *s, const struct entry **last, uint64_t *token)
{
    pthread_mutex_lock(&s->db_lock);
    int err = records_commit(s->ops, s->backend, &s->history, s->pending.head, last);
    if (err == HAWK_ESTALE)
        log_warn("%s: %s", s->ops->name(s->backend), s->ops->why(s->backend));
    else if (err && !s->failing)
        log_error("%s: cannot be written: %s; trying again", s->ops->name(s->backend),
                  s->ops->why(s->backend));
    pthread_mutex_unlock(&s->db_lock);
    *token = 0;
    for (const struct entry *e = s->pending.head; e; e = !err && e == *last ? NULL : e->next)
        if (e->token > *token)
            *token = e->token;
    return err;
}

/* Frees the committed entries: from the head of pending to last. */
static void drop_committed(struct store *s, const struct entry *last)
{
    size_t bytes = 0;
    bool end = false;

    while (!end) {
        struct entry *e = s->pending.head;

        CHECK(e);
        end = e == last;
        s->pending.head = e->next;
        bytes += entry_bytes(e);
        record_entry_free(e);
    }
    if (!s->pending.head)
        queue_init(&s->pending);
    pthread_mutex_lock(&s->lock);
    s->bytes -= bytes;
    pthread_mutex_unlock(&s->lock);
}

/* Makes one commit of pending entries. asked: not a mere retry. */
static void commit_some(struct store *s, bool asked)
{
    const struct entry *last = NULL;
    uint64_t token;
    int err = commit_pending(s, &last, &token);

    if (err) {
        s->failing = true;
        s->fenced = err == HAWK_ESTALE;
        if ((asked || s->fenced) && token)
            s->done(s->arg, token > s->committed ? token : s->committed, err);
        return;
    }
    if (s->failing)
        log_info("%s: can be written again", s->ops->name(s->backend));
    s->failing = false;
    drop_committed(s, last);
    if (s->scrub_ms == 0 && s->ops->scrub)
        s->scrub_ms = now_ms() + s->ops->scrub_ms;
    if (!token)
        return;
    if (token > s->committed)
        s->committed = token;
    s->done(s->arg, s->committed, 0);
}

static void wait_for_work(struct store *s)
{
    int64_t until = s->failing ? now_ms() + STORE_RETRY_MS : s->scrub_ms;
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};

    if (until == 0)
        pthread_cond_wait(&s->work, &s->lock);
    else
        pthread_cond_timedwait(&s->work, &s->lock, &at);
}

static void scrub_journal(struct store *s)
{
    pthread_mutex_lock(&s->db_lock);
    int err = s->ops->scrub(s->backend);
    if (err && !s->scrub_failing)
        log_warn("%s: environments of jobs that ended can be read still: %s; trying again",
                 s->ops->name(s->backend), s->ops->why(s->backend));
    pthread_mutex_unlock(&s->db_lock);
    s->scrub_failing = err != 0;
    s->scrub_ms = err ? now_ms() + s->ops->scrub_ms : 0;
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
        if (s->scrub_ms && !s->failing && !s->closing && now_ms() >= s->scrub_ms) {
            pthread_mutex_unlock(&s->lock);
            scrub_journal(s);
            pthread_mutex_lock(&s->lock);
        }
        asked = s->asked;
        s->asked = false;
        take_arrived(s); /* in one go with the look at `closing`: what has arrived by then is written */
        if (s->closing && (!s->pending.head || s->abandoned || s->fenced || (s->failing && !asked)))
            break;
        if (!s->pending.head || s->fenced)
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
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->db_lock, NULL);
    thread_cond_init(&s->work);
    return thread_start(&s->thread, thread_main, s) ? HAWK_EIO : 0;
}

static void free_store(struct store *s)
{
    s->ops->close(s->backend);
    records_history_free(&s->history);
    free(s);
}

/* Takes over the backend, which is open unless err says otherwise. */
static int open_on(struct store **out, struct store *s, int err, store_done_fn done, void *arg, char *why,
                   size_t why_size)
{
    if (err) {
        free(s);
        return err;
    }
    s->done = done;
    s->arg = arg;
    records_history_init(&s->history, STORE_HISTORY_JOBS);
    s->scrub_ms = s->ops->scrub ? now_ms() + s->ops->scrub_ms : 0; /* scrubs what an earlier process left */
    queue_init(&s->arriving);
    queue_init(&s->pending);
    err = start_thread(s);
    if (err) {
        if (why_size)
            snprintf(why, why_size, "no thread can be started for the store: %s", strerror(errno));
        free_store(s);
        return err;
    }
    *out = s;
    return 0;
}

int store_open(struct store **out, const char *path, const char *owner, store_done_fn done, void *arg,
               char *why, size_t why_size)
{
    struct store *s = xcalloc(1, sizeof *s);
    int err = sqlite_open(path, owner, &s->backend, &s->cluster, &s->epoch, why, why_size);

    s->ops = &sqlite_ops;
    return open_on(out, s, err, done, arg, why, why_size);
}

int store_open_etcd(struct store **out, const struct store_etcd *c, store_done_fn done, void *arg, char *why,
                    size_t why_size)
{
    struct store *s = xcalloc(1, sizeof *s);
    int err = etcd_keys_open(c, &s->backend, &s->cluster, why, why_size);

    s->ops = &etcd_ops;
    s->epoch = c->epoch;
    return open_on(out, s, err, done, arg, why, why_size);
}

static int end_store(struct store *s, bool abandon)
{
    struct entry *e;
    int err = 0;

    pthread_mutex_lock(&s->lock);
    s->closing = true;
    s->abandoned = abandon;
    s->asked = !abandon; /* one more attempt */
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (abandon && s->ops->interrupt)
        s->ops->interrupt(s->backend);
    pthread_join(s->thread, NULL);
    while ((e = s->pending.head)) {
        err = HAWK_EIO;
        s->pending.head = e->next;
        record_entry_free(e);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->db_lock);
    pthread_cond_destroy(&s->work);
    free_store(s);
    return err;
}

int store_close(struct store *s) { return s ? end_store(s, false) : 0; }

void store_abandon(struct store *s)
{
    if (s)
        (void)end_store(s, true);
}

uint64_t store_cluster_id(const struct store *s) { return s->cluster; }
uint32_t store_epoch(const struct store *s) { return s->epoch; }

/* ---- Writing and reading ---- */

int store_write(struct store *s, const struct msg *m)
{
    struct entry *e = record_entry_new(m);
    int err = 0;

    if (!e)
        return HAWK_EINVALID;
    pthread_mutex_lock(&s->lock);
    if (s->bytes + entry_bytes(e) > STORE_QUEUE_BYTES) {
        err = HAWK_ELIMIT;
    } else {
        *s->arriving.tail = e;
        s->arriving.tail = &e->next;
        s->bytes += entry_bytes(e);
        s->asked = true;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    if (err)
        record_entry_free(e);
    return err;
}

int store_recover(struct store *s, void (*fn)(void *arg, const struct msg *m), void *arg)
{
    pthread_mutex_lock(&s->db_lock);
    int err = records_recover(s->ops, s->backend, true, fn, arg);
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

/* ---- Numbers ---- */

int store_meta_get(struct store *s, const char *key, uint64_t *value)
{
    pthread_mutex_lock(&s->db_lock);
    int err = s->ops->meta_get(s->backend, key, value);
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

int store_meta_set(struct store *s, const char *key, uint64_t value)
{
    pthread_mutex_lock(&s->db_lock);
    int err = s->ops->meta_set(s->backend, key, value);
    if (err)
        log_error("%s: cannot be written: %s", s->ops->name(s->backend), s->ops->why(s->backend));
    pthread_mutex_unlock(&s->db_lock);
    return err;
}

int store_own(struct store *s, const char *owner)
{
    if (!s->ops->own)
        return 0;
    pthread_mutex_lock(&s->db_lock);
    int err = s->ops->own(s->backend, owner);
    if (err)
        log_error("%s: cannot be written: %s", s->ops->name(s->backend), s->ops->why(s->backend));
    pthread_mutex_unlock(&s->db_lock);
    return err;
}
