/* Threads that open and read files: see readers.h. */
#include "api/readers.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define READ_MAX 16u     /* reads whose bytes the loop has not taken up: beyond it the others wait */
#define STOP_US US_PER_S /* the time for reads to end when we stop; then their threads are left behind */

struct readers {
    struct loop *loop;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t more;
    struct list waiting, finished;
    uint32_t finished_n;
    bool posted, stopping;
    pthread_t threads[THREADS];
    uint32_t n; /* threads started */
};

void file_read_free(struct file_read *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->path);
    free(r->data);
    free(r);
}

/* Opens only files that a task wrote. It never blocks on a pipe, touches a device, or follows /dev/stdout to a file of
 * ours. */
static int open_output(const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    struct stat st;
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd < 0 && errno == ENOSYS) /* Linux before 5.6 */
        fd = open(path, (int)how.flags);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static void read_part(struct file_read *r)
{
    struct stat st;
    r->n = -1;
    if (r->fd < 0)
        r->fd = open_output(r->path);
    if (r->fd >= 0) {
        r->data = xmalloc(READ_BYTES);
        r->n = r->offset > INT64_MAX - READ_BYTES ? 0 : pread(r->fd, r->data, READ_BYTES, (off_t)r->offset);
    }
    r->err = r->n < 0 ? errno : 0;
    if (r->fd < 0 && r->err == ENOENT && exec_output_was_empty(r->path))
        r->n = r->err = 0;
    r->cut_short = r->n == 0 && fstat(r->fd, &st) == 0 && (st.st_mode & EXEC_OUTPUT_CUT);
}

static void on_loop(void *arg)
{
    struct readers *rs = arg;
    struct list finished;
    list_init(&finished);
    pthread_mutex_lock(&rs->lock);
    rs->posted = false;
    while (!list_empty(&rs->finished)) {
        struct list *l = rs->finished.next;
        list_remove(l);
        list_push_tail(&finished, l);
    }
    if (rs->finished_n >= READ_MAX)
        pthread_cond_broadcast(&rs->more);
    rs->finished_n = 0;
    pthread_mutex_unlock(&rs->lock);
    while (!list_empty(&finished)) {
        struct file_read *r = container_of(finished.next, struct file_read, link);
        list_remove(&r->link);
        if (r->arg)
            r->done(r->arg, r);
        else
            file_read_free(r);
    }
}

static void *thread_main(void *arg)
{
    struct readers *rs = arg;
    pthread_mutex_lock(&rs->lock);
    while (!rs->stopping) {
        if (list_empty(&rs->waiting) || rs->finished_n >= READ_MAX) {
            pthread_cond_wait(&rs->more, &rs->lock);
            continue;
        }
        struct file_read *r = container_of(rs->waiting.next, struct file_read, link);
        list_remove(&r->link);
        pthread_mutex_unlock(&rs->lock);
        read_part(r);
        pthread_mutex_lock(&rs->lock);
        list_push_tail(&rs->finished, &r->link);
        rs->finished_n++;
        if (!rs->posted && !rs->stopping) {
            rs->posted = true;
            loop_post(rs->loop, on_loop, rs);
        }
    }
    pthread_mutex_unlock(&rs->lock);
    return NULL;
}

struct readers *readers_new(struct loop *l)
{
    struct readers *rs = xcalloc(1, sizeof *rs);
    rs->loop = l;
    list_init(&rs->waiting);
    list_init(&rs->finished);
    CHECK(pthread_mutex_init(&rs->lock, NULL) == 0);
    CHECK(pthread_cond_init(&rs->more, NULL) == 0);
    while (rs->n < THREADS && thread_start(&rs->threads[rs->n], thread_main, rs) == 0)
        rs->n++;
    return rs;
}

void readers_submit(struct readers *rs, struct file_read *r)
{
    list_init(&r->link);
    pthread_mutex_lock(&rs->lock);
    if (rs->n > 0) {
        list_push_tail(&rs->waiting, &r->link);
        pthread_cond_signal(&rs->more);
    } else { /* no thread could be started */
        r->n = -1;
        r->err = EAGAIN;
        list_push_tail(&rs->finished, &r->link);
        if (!rs->posted)
            loop_post(rs->loop, on_loop, rs);
        rs->posted = true;
    }
    pthread_mutex_unlock(&rs->lock);
}

static void free_all(struct list *reads)
{
    while (!list_empty(reads)) {
        struct file_read *r = container_of(reads->next, struct file_read, link);
        list_remove(&r->link);
        file_read_free(r);
    }
}

void readers_free(struct readers *rs)
{
    bool left = false;
    if (!rs)
        return;
    pthread_mutex_lock(&rs->lock);
    rs->stopping = true;
    pthread_cond_broadcast(&rs->more);
    pthread_mutex_unlock(&rs->lock);
    struct timespec until = clock_after(CLOCK_REALTIME, STOP_US);
    for (uint32_t i = 0; i < rs->n; i++)
        if (pthread_timedjoin_np(rs->threads[i], NULL, &until))
            left |= pthread_detach(rs->threads[i]) == 0;
    if (left)
        return; /* it hangs in a read, and looks at rs when that ends */
    free_all(&rs->waiting);
    free_all(&rs->finished);
    pthread_cond_destroy(&rs->more);
    pthread_mutex_destroy(&rs->lock);
    free(rs);
}
