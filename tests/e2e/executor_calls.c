/* Every call of libhawk's executor, for test_executor_c.py:
 *
 *     executor_calls threads      four threads work on tasks: "sleep MS" takes so long unless it is cancelled,
 *                                 "deaf FIFO" until somebody writes there, "exit" kills the process, "leave"
 *                                 makes the executor leave, "big" returns too much, others echo
 *     executor_calls pauses       the same, one task at a time, and "sleep MS" can stand still
 *     executor_calls wrong        what must be errors
 *     executor_calls wake         hawk_executor_next is woken by another thread, whichever comes first */
#include <fcntl.h>
#include <hawk.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(what)                                                                                         \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #what);                                           \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static struct hawk_executor *x;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static const struct hawk_work *queue[64];
static unsigned queued, over;

#define PIECE_MS 10
#define DEAF_MS_MAX 120000

/* What a task does between two looks at whether it is still wanted; the executor's end cuts it short. */
static void work_a_piece(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PIECE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    while (!over && pthread_cond_timedwait(&ended, &lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lock);
}

static _Atomic(const struct hawk_work *) paused; /* it is to stand still */

static int pause_one(void *arg, const struct hawk_work *w)
{
    EXPECT(arg == &paused && !atomic_load(&paused));
    atomic_store(&paused, w);
    return 0;
}

static void resume_one(void *arg, const struct hawk_work *w)
{
    EXPECT(arg == &paused && atomic_load(&paused) == w);
    atomic_store(&paused, NULL);
}

static void sleep_unless_cancelled(const struct hawk_work *w, long ms)
{
    int stood = 0;

    for (; ms > 0 && !hawk_executor_cancelled(x, w); ms -= PIECE_MS) {
        work_a_piece();
        for (; atomic_load(&paused) == w; stood++) {
            hawk_executor_paused(x, w); /* more than once: only the first says something */
            work_a_piece();
        }
    }
    if (ms > 0)
        hawk_executor_failed(x, w, 9, "cancelled");
    else
        hawk_executor_done(x, w, stood ? "stood, slept" : "slept", stood ? 12 : 5);
}

/* Hears nothing of its executor's until somebody has written to the FIFO. */
static void wait_for_fifo(const char *path)
{
    struct pollfd p = {.fd = open(path, O_RDONLY | O_NONBLOCK), .events = POLLIN};

    EXPECT(p.fd >= 0);
    EXPECT(poll(&p, 1, DEAF_MS_MAX) == 1);
    close(p.fd);
}

static void work_on(const struct hawk_work *w)
{
    const char *text = w->payload.data;
    char echo[200];

    if (strncmp(text, "sleep ", 6) == 0) {
        sleep_unless_cancelled(w, atol(text + 6));
    } else if (strncmp(text, "deaf ", 5) == 0) {
        wait_for_fifo(text + 5);
        hawk_executor_done(x, w, "at last", 7);
    } else if (strcmp(text, "exit") == 0) {
        _exit(9);
    } else if (strcmp(text, "leave") == 0) {
        hawk_executor_leave(x);
        hawk_executor_done(x, w, "leaving", 7);
    } else if (strcmp(text, "big") == 0) {
        char *big = calloc(1, (1 << 20) + 1);
        hawk_executor_done(x, w, big, (1 << 20) + 1);
        free(big);
    } else if (strcmp(text, "fail") == 0) {
        hawk_executor_failed(x, w, 300, NULL);
    } else {
        int n = snprintf(echo, sizeof echo, "%s of %s, %u of %u, try %u", text, w->job, w->index, w->count,
                         w->attempt);
        hawk_executor_done(x, w, echo, (size_t)n);
    }
}

static void *worker(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!over || queued > 0) {
        const struct hawk_work *w;

        if (queued == 0) {
            pthread_cond_wait(&more, &lock);
            continue;
        }
        w = queue[--queued];
        pthread_mutex_unlock(&lock);
        work_on(w);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void threads(const struct hawk_executor_options *o)
{
    const struct hawk_work *w;
    pthread_t t[4];
    int got;

    EXPECT(hawk_executor_open(&x, "calls", o) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&t[i], NULL, worker, NULL) == 0);
    while ((got = hawk_executor_next(x, &w, -1)) > 0) {
        hawk_work_set_user(w, x);
        EXPECT(w->user == x);
        pthread_mutex_lock(&lock);
        queue[queued++] = w;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
    }
    EXPECT(got < 0);
    printf("%s\n", hawk_executor_error(x));
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&more);
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    hawk_executor_close(x);
}

static void refused(const char *app, uint32_t slots, const char *words)
{
    struct hawk_executor_options o = {.slots = slots};
    const struct hawk_work *w;

    EXPECT(hawk_executor_open(&x, app, &o) == 0);
    EXPECT(hawk_executor_next(x, &w, -1) < 0);
    EXPECT(w == NULL);
    EXPECT(hawk_executor_next(x, &w, 0) < 0); /* and stays so */
    if (!strstr(hawk_executor_error(x), words)) {
        fprintf(stderr, "no '%s' in: %s\n", words, hawk_executor_error(x));
        exit(1);
    }
    hawk_executor_close(x);
}

static void wrong(void)
{
    struct hawk_executor_options nowhere = {.worker = "no address"},
                                 nobody = {.worker = "unix:/nonexistent/socket"},
                                 no_token = {.token_file = "/nonexistent/token"}, half = {.pause = pause_one};
    const struct hawk_work *w;

    refused("", 1, "1 to 255 bytes");
    refused("calls", 5000, "5000");
    EXPECT(hawk_executor_open(&x, "calls", &nowhere) < 0);
    EXPECT(*hawk_executor_error(x));
    EXPECT(hawk_executor_next(x, &w, -1) < 0);
    hawk_executor_close(x);
    EXPECT(hawk_executor_open(&x, "calls", &no_token) < 0);
    EXPECT(strstr(hawk_executor_error(x), "/nonexistent/token"));
    hawk_executor_close(x);
    EXPECT(hawk_executor_open(&x, "calls", &half) < 0);
    EXPECT(strstr(hawk_executor_error(x), "both"));
    hawk_executor_close(x);
    /* One that is not there is waited for. */
    EXPECT(hawk_executor_open(&x, "calls", &nobody) == 0);
    EXPECT(hawk_executor_next(x, &w, 300000) == 0);
    EXPECT(strstr(hawk_executor_error(x), "/nonexistent/socket"));
    hawk_executor_leave(x);
    EXPECT(hawk_executor_next(x, &w, -1) < 0);
    hawk_executor_close(x);
    hawk_executor_close(NULL);
}

static void *waker(void *arg)
{
    (void)arg;
    hawk_executor_wake(x);
    return NULL;
}

static void wake(void)
{
    const struct hawk_work *w;
    pthread_t t;

    EXPECT(hawk_executor_open(&x, "calls", NULL) == 0);
    EXPECT(pthread_create(&t, NULL, waker, NULL) == 0);
    EXPECT(hawk_executor_next(x, &w, -1) == 0);
    pthread_join(t, NULL);
    EXPECT(hawk_executor_next(x, &w, 20000) == 0);
    hawk_executor_close(x); /* with nothing answered, and nothing said */
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "threads") == 0)
        threads(&(struct hawk_executor_options){.name = "calls", .slots = 4});
    else if (strcmp(what, "pauses") == 0)
        threads(&(struct hawk_executor_options){
            .name = "calls", .slots = 1, .pause = pause_one, .resume = resume_one, .arg = &paused});
    else if (strcmp(what, "wrong") == 0)
        wrong();
    else
        wake();
    return 0;
}
