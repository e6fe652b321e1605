/* A daemon's store on its loop: see journal.h. */
#include "daemon/journal.h"

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct journal {
    struct loop *loop;
    struct store *store;
    void (*feed)(void *arg, const struct msg *m);
    void *arg;
    /* What the store's thread tells the loop's. The last success and the last failure are both told: what is durable
     * stays so when the next commit fails. */
    pthread_mutex_t lock;
    struct msg_journal_done written;
    struct msg_journal_done failed; /* err 0: none, or `written` covers it */
    bool has_written;
    bool posted, failing, closed;
};

static void tell_done(struct journal *j, const struct msg_journal_done *done)
{
    struct msg m = {.type = MSG_JOURNAL_DONE, .journal_done = *done};
    if (j->closed)
        return;
    if (done->err == HAWK_EIO && !j->failing)
        log_error("the journal cannot be written; trying again, nothing that was accepted is lost so far");
    else if (!done->err && j->failing)
        log_info("the journal can be written again");
    j->failing = done->err != 0;
    j->feed(j->arg, &m);
}

static void on_loop(void *arg)
{
    struct journal *j = arg;
    if (j->closed)
        return;
    pthread_mutex_lock(&j->lock);
    struct msg_journal_done written = j->written, failed = j->failed;
    bool has_written = j->has_written;
    j->failed.err = 0;
    j->has_written = j->posted = false;
    pthread_mutex_unlock(&j->lock);
    if (has_written)
        tell_done(j, &written);
    if (failed.err)
        tell_done(j, &failed);
}

static void on_done(void *arg, uint64_t token, int err)
{
    struct journal *j = arg;
    pthread_mutex_lock(&j->lock);
    if (err) {
        j->failed = (struct msg_journal_done){.token = token, .err = err};
    } else {
        j->written = (struct msg_journal_done){.token = token};
        j->has_written = true;
        if (token >= j->failed.token)
            j->failed.err = 0;
    }
    bool post = !j->posted;
    j->posted = true;
    pthread_mutex_unlock(&j->lock);
    if (post)
        loop_post(j->loop, on_loop, j);
}

static struct journal *journal_new(struct loop *l, void (*feed)(void *arg, const struct msg *m), void *arg)
{
    struct journal *j = xcalloc(1, sizeof *j);
    *j = (struct journal){.loop = l, .feed = feed, .arg = arg};
    pthread_mutex_init(&j->lock, NULL);
    return j;
}

static void journal_free(void *arg)
{
    struct journal *j = arg;
    pthread_mutex_destroy(&j->lock);
    free(j);
}

int journal_open(struct journal **out, struct loop *l, const char *dir, const char *owner,
                 void (*feed)(void *arg, const struct msg *m), void *arg, char *why, size_t size)
{
    char path[PATH_MAX];
    int err = dir_make(dir, 0700, why, size);
    if (err)
        return err;
    if (snprintf(path, sizeof path, "%s/journal.db", dir) >= (int)sizeof path) {
        snprintf(why, size, "the directory's name is too long");
        return HAWK_ETOO_LARGE;
    }
    struct journal *j = journal_new(l, feed, arg);
    err = store_open(&j->store, path, owner, on_done, j, why, size);
    if (err)
        journal_free(j);
    else
        *out = j;
    return err;
}

int journal_open_etcd(struct journal **out, struct loop *l, const struct store_etcd *etcd,
                      void (*feed)(void *arg, const struct msg *m), void *arg, char *why, size_t size)
{
    struct journal *j = journal_new(l, feed, arg);
    int err = store_open_etcd(&j->store, etcd, on_done, j, why, size);
    if (err)
        journal_free(j);
    else
        *out = j;
    return err;
}

void journal_write(struct journal *j, const struct msg *m)
{
    int err = store_write(j->store, m);
    if (!err)
        return;
    log_error("%s cannot be journalled: %s", msg_name(m->type), hawk_strerror(err));
    struct msg done = {.type = MSG_JOURNAL_DONE, .journal_done = {.token = msg_journal_token(m), .err = err}};
    if (done.journal_done.token) /* HISTORY has none: one job less in the history */
        j->feed(j->arg, &done);
}

bool journal_failing(const struct journal *j) { return j->failing; }

struct store *journal_store(struct journal *j) { return j->store; }

int journal_close(struct journal *j)
{
    if (!j)
        return 0;
    int err = store_close(j->store);
    journal_free(j);
    return err;
}

void journal_abandon(struct journal *j)
{
    if (!j)
        return;
    store_abandon(j->store);
    j->closed = true;
    loop_post(j->loop, journal_free, j); /* behind what its thread has posted */
}
