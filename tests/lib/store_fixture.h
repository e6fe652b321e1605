/* A journal under test: written to, closed, killed, read back. Each program brings how its store is opened
 * (fixture.open). */
#ifndef HAWK_TESTS_STORE_FIXTURE_H
#define HAWK_TESTS_STORE_FIXTURE_H

#include "base/mem.h"
#include "base/units.h"
#include "store/store.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BOUND_S 60

/* What `done` said, from the store's thread. */
struct done {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t token; /* durable up to here */
    int calls, failures;
    int err;         /* of the last failure, */
    uint64_t failed; /* and its token */
    int pipe;        /* tokens are written to it as well, unless -1 */
    bool *block;     /* the thread waits here while set */
};

struct fixture {
    char dir[200], path[256]; /* SQLite's */
    char why[600];
    struct done done;
    struct store *s;
    int (*open)(struct fixture *f); /* which backend; sets s, or why */
    void *arg;
};

static inline void on_done(void *arg, uint64_t token, int err)
{
    struct done *d = arg;

    pthread_mutex_lock(&d->lock);
    d->calls++;
    if (err) {
        d->failures++;
        d->err = err;
        d->failed = token;
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

static inline void wait_on(struct done *d)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += BOUND_S;
    assert_int_equal(pthread_cond_timedwait(&d->changed, &d->lock, &at), 0);
}

static inline void wait_token(struct fixture *f, uint64_t token)
{
    pthread_mutex_lock(&f->done.lock);
    while (f->done.token < token)
        wait_on(&f->done);
    pthread_mutex_unlock(&f->done.lock);
}

static inline void wait_failures(struct fixture *f, int n)
{
    pthread_mutex_lock(&f->done.lock);
    while (f->done.failures < n)
        wait_on(&f->done);
    pthread_mutex_unlock(&f->done.lock);
}

static inline int open_store(struct fixture *f)
{
    f->why[0] = '\0';
    return f->open(f);
}

static inline void close_it(struct fixture *f)
{
    assert_int_equal(store_close(f->s), 0);
    f->s = NULL;
}

static inline void reopen(struct fixture *f)
{
    close_it(f);
    assert_int_equal(open_store(f), 0);
}

/* ---- Messages ---- */

static inline job_id_t job(uint64_t seq)
{
    return job_id_make((node_id_t){0xfffff0}, seq);
} /* uses the top bit */

static inline void write_node(struct fixture *f, uint64_t token, uint32_t node, const char *name)
{
    struct msg m = {.type = MSG_JOURNAL_NODE};

    m.journal_node.token = token;
    m.journal_node.node.v = node;
    m.journal_node.role = ROLE_WORKER;
    m.journal_node.name = blob_str(name);
    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.journal_node.name);
}

static inline struct job_desc *make_desc(uint32_t tasks, const char *name)
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

static inline void write_job(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint32_t tasks,
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

static inline void write_task(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch, uint32_t task)
{
    struct msg m = {.type = MSG_JOURNAL_TASK};

    m.journal_task.token = token;
    m.journal_task.id = (struct try_id){job(seq), task, epoch, 3};
    m.journal_task.run_us = 700 + task;
    m.journal_task.code = -1;
    m.journal_task.state = TASK_FAILED;
    m.journal_task.outcome = OUTCOME_SIGNALED;
    m.journal_task.used = usage_of(100 * task, 200 * task);
    assert_int_equal(store_write(f->s, &m), 0);
}

static inline void write_end(struct fixture *f, uint64_t token, uint64_t seq, uint16_t epoch)
{
    struct msg m = {.type = MSG_JOURNAL_JOB_END};

    m.journal_job_end.token = token;
    m.journal_job_end.job = job(seq);
    m.journal_job_end.epoch = epoch;
    m.journal_job_end.state = JOB_DONE;
    assert_int_equal(store_write(f->s, &m), 0);
}

static inline void write_history_of(struct fixture *f, uint32_t user, const char *name, int64_t mean_us)
{
    struct msg m = {.type = MSG_HISTORY};

    m.history.name = blob_str(name);
    m.history.mean_us = mean_us;
    m.history.task_us = UINT64_C(1) << 62;
    m.history.tasks = 7;
    m.history.class = CLASS_LONG;
    m.history.user = user;
    assert_int_equal(store_write(f->s, &m), 0);
    blob_drop(m.history.name);
}

static inline void write_history(struct fixture *f, const char *name, int64_t mean_us)
{
    write_history_of(f, 0, name, mean_us);
}

#define TOLD_TEXT_MAX 10000

/* What a recovery tells: counts, and the first messages as a line each. */
struct told {
    char *text;
    size_t len;
    uint32_t count[MSG_TYPE_COUNT];
    uint32_t with_env; /* jobs whose environment is there */
    int64_t first_history_us, last_history_us;
    uint32_t history_of_user_1;
};

static inline void on_recovered(void *arg, const struct msg *m)
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
        t->history_of_user_1 += m->history.user == 1;
    }
    if (m->type == MSG_JOURNAL_JOB) {
        const struct job_desc *d = m->journal_job.desc;

        assert_string_equal(d->name->data, "night build");
        assert_int_equal(d->tag, TAG_LONG);
        assert_string_equal(d->argv.data, "echo");
        if (d->env.n > 0)
            assert_string_equal(d->env.data, "A=b");
        t->with_env += d->env.n > 0;
        assert_int_equal(d->args.n, d->tasks);
        for (uint32_t i = 0; i < d->tasks; i++)
            assert_memory_equal(d->args.data + d->args.off[i], &i, sizeof i);
    }
}

static inline struct told recover(struct fixture *f)
{
    struct told t = {0};

    assert_int_equal(store_recover(f->s, on_recovered, &t), 0);
    return t;
}

/* ---- Stores of earlier versions, in tests/data ---- */

/* One line, as the files say it: how long ago something was depends on the day. */
static inline void tell_line(void *arg, const struct msg *m)
{
    const struct job_desc *d = m->type == MSG_JOURNAL_JOB ? m->journal_job.desc : NULL;
    char line[1000], *ago, *end;

    msg_format(m, line, sizeof line);
    ago = strstr(line, " ago_us=");
    if (ago) {
        assert_true(strtoll(ago + strlen(" ago_us="), &end, 10) >= 0);
        memmove(ago, end, strlen(end) + 1);
    }
    fprintf(arg, "%s", line);
    if (d)
        fprintf(arg, " name=%s env=%u args=%u cwd=%s", d->name->data, d->env.n, d->args.n, d->cwd->data);
    fprintf(arg, "\n");
}

/* Everything that is there is what the file says. */
static inline void assert_told(struct fixture *f, const char *path)
{
    char *told = NULL, expected[8192];
    size_t size, n;
    FILE *to = open_memstream(&told, &size), *from = fopen(path, "re");

    assert_non_null(from);
    n = fread(expected, 1, sizeof expected - 1, from);
    expected[n] = '\0';
    assert_int_equal(fclose(from), 0);
    assert_int_equal(store_recover(f->s, tell_line, to), 0);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(told, expected);
    free(told);
}

static inline void write_cluster(struct fixture *f, uint64_t token, uint64_t former, uint32_t node,
                                 bool young)
{
    struct msg m = {.type = MSG_JOURNAL_CLUSTER,
                    .journal_cluster = {.token = token, .former = former, .node = {node}, .young = young}};

    assert_int_equal(store_write(f->s, &m), 0);
}

/* Until it is killed, in a process of its own. */
static inline void write_until_killed(struct fixture *f)
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

#endif
