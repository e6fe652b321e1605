/* See thread.h. */
#include "base/thread.h"

#include <time.h>

void thread_block_signals(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void thread_restore_signals(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

int thread_start(pthread_t *t, void *(*run)(void *arg), void *arg)
{
    sigset_t before;
    int err;

    thread_block_signals(&before);
    err = pthread_create(t, NULL, run, arg);
    thread_restore_signals(&before);
    return err;
}

void thread_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}
