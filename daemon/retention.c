/* See retention.h. */
#include "daemon/retention.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/units.h"
#include "daemon/job_dir.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVERY_MAX_US (600 * US_PER_S)

/* ---- Looking ---- */

struct found {
    struct retention_job job;
    uint32_t user; /* index into users; NO_USER: nobody knows whose it is */
    bool in_use;
};

#define NO_USER UINT32_MAX

/* Whose output there is, where a user's is limited. */
struct user_total {
    char name[LIMIT_NAME_BYTES + 1];
    uint64_t bytes;
};
struct user_totals {
    struct user_total *v;
    uint32_t n, cap;
};

static uint32_t user_of(const struct retention *r, job_id_t job, struct user_totals *users)
{
    struct exec_config c = {.output_dir = r->dir};
    char name[LIMIT_NAME_BYTES + 1];
    uint32_t i = 0;

    exec_output_user(&c, job, name);
    if (!name[0])
        return NO_USER;
    while (i < users->n && strcmp(users->v[i].name, name) != 0)
        i++;
    if (i == users->n) {
        vec_grow(users->v, users->n, users->cap);
        users->v[users->n] = (struct user_total){0};
        memcpy(users->v[users->n++].name, name, sizeof name);
    }
    return i;
}

/* Whether some task has the file open for its output. */
static bool is_locked(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd); /* and with it the lock */
    return locked;
}

/* Looks at a job's directory. */
static void look_at_job(int at, const char *name, int64_t now_us, struct found *f)
{
    DIR *dir = job_dir_open(at, name);
    struct stat st;
    int64_t newest_us = 0;
    if (dir && fstat(dirfd(dir), &st) == 0)
        newest_us = st.st_mtim.tv_sec * US_PER_S;
    for (struct dirent *e; dir && (e = job_dir_next(dir));) {
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        f->job.bytes += (uint64_t)st.st_blocks * 512;
        if (st.st_mtim.tv_sec * US_PER_S > newest_us)
            newest_us = st.st_mtim.tv_sec * US_PER_S;
        f->in_use = f->in_use || is_locked(dirfd(dir), e->d_name);
    }
    f->job.age_us = now_us > newest_us ? now_us - newest_us : 0;
    f->in_use = f->in_use || !dir || f->job.age_us < RETENTION_YOUNG_US;
    if (dir)
        closedir(dir);
}

static int by_age(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->job.age_us < y->job.age_us ? 1 : x->job.age_us > y->job.age_us ? -1 : 0;
}

/* Removing takes as long as the disk does: another task of the job may have started since the look. */
static bool is_in_use_now(int at, const char *name)
{
    struct found f = {0};

    look_at_job(at, name, clock_us(CLOCK_REALTIME), &f);
    return f.in_use;
}

/* False: it is in use by now. */
static bool take(const struct retention *r, int at, const struct retention_job *job,
                 struct retention_result *result)
{
    char name[JOB_ID_TEXT];

    job_id_format(name, job->job);
    if (!r->dry_run && is_in_use_now(at, name))
        return false;
    if (!r->dry_run)
        job_dir_remove(at, name);
    vec_grow(result->gone, result->gone_n, result->cap);
    result->gone[result->gone_n++] = *job;
    result->bytes += job->bytes;
    return true;
}

int retention_apply(const struct retention *r, struct retention_result *result)
{
    int at = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at >= 0 ? fdopendir(at) : NULL;
    struct found *v = NULL;
    struct user_totals users = {0};
    uint32_t n = 0, cap = 0;
    int64_t now_us = clock_us(CLOCK_REALTIME);
    uint64_t bytes = 0;
    job_id_t job;

    *result = (struct retention_result){0};
    if (!dir) {
        if (at >= 0)
            close(at);
        return HAWK_EIO;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (job_id_parse(e->d_name, &job))
            continue;
        vec_grow(v, n, cap);
        v[n] = (struct found){.job.job = job, .user = r->user_max_bytes ? user_of(r, job, &users) : NO_USER};
        look_at_job(at, e->d_name, now_us, &v[n]);
        if (v[n].user < users.n)
            users.v[v[n].user].bytes += v[n].job.bytes;
        bytes += v[n++].job.bytes;
    }
    if (n)
        qsort(v, n, sizeof *v, by_age);
    for (uint32_t i = 0; i < n; i++) {
        bool old = r->keep_us && v[i].job.age_us > r->keep_us;
        bool many = r->max_bytes && bytes - result->bytes > r->max_bytes;
        struct user_total *user = v[i].user < users.n ? &users.v[v[i].user] : NULL;

        if (v[i].in_use || !(old || many || (user && user->bytes > r->user_max_bytes)))
            continue;
        if (take(r, at, &v[i].job, result) && user)
            user->bytes -= v[i].job.bytes;
    }
    result->left_bytes = bytes - result->bytes;
    free(v);
    free(users.v);
    closedir(dir);
    return 0;
}

/* ---- The thread ---- */

struct retention_thread {
    struct retention rules;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopping;
};

static void apply_and_log(const struct retention *r)
{
    struct retention_result result;
    char bytes[32], left[32];
    if (retention_apply(r, &result)) {
        log_warn("old output cannot be removed: %s: %s", r->dir, strerror(errno));
        return;
    }
    if (result.gone_n)
        log_info("the output of %u old job%s was removed from %s, %s; %s are left", result.gone_n,
                 result.gone_n == 1 ? "" : "s", r->dir, size_format(bytes, sizeof bytes, result.bytes),
                 size_format(left, sizeof left, result.left_bytes));
    free(result.gone);
}

static void *work(void *arg)
{
    struct retention_thread *t = arg;
    int64_t every_us = t->rules.keep_us / 10;
    struct timespec at;

    if (!every_us || every_us > EVERY_MAX_US)
        every_us = EVERY_MAX_US;
    if (every_us < US_PER_S)
        every_us = US_PER_S;
    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        pthread_mutex_unlock(&t->lock);
        apply_and_log(&t->rules);
        at = clock_after(CLOCK_MONOTONIC, every_us);
        pthread_mutex_lock(&t->lock);
        while (!t->stopping && pthread_cond_timedwait(&t->stop, &t->lock, &at) == 0)
            ;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

struct retention_thread *retention_start(const struct retention *r)
{
    struct retention_thread *t;

    if (!r->keep_us && !r->max_bytes && !r->user_max_bytes)
        return NULL;
    t = xcalloc(1, sizeof *t);
    t->rules = *r;
    pthread_mutex_init(&t->lock, NULL);
    thread_cond_init(&t->stop);
    if (thread_start(&t->thread, work, t)) {
        log_warn("no thread for removing old output can be started: it stays");
        free(t);
        t = NULL;
    }
    return t;
}

void retention_stop(struct retention_thread *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->stop);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->stop);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
