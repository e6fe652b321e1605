/* Threads beside the loop's. Not for policy code. */
#ifndef HAWK_BASE_THREAD_H
#define HAWK_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread that gets no signals: they are the loop's. 0, or an error number. */
int thread_start(pthread_t *t, void *(*run)(void *arg), void *arg);
/* For libraries that start threads: threads that the caller starts get no signals until it restores `before`. */
void thread_block_signals(sigset_t *before);
void thread_restore_signals(const sigset_t *before);
/* A condition whose deadlines are times of CLOCK_MONOTONIC. */
void thread_cond_init(pthread_cond_t *c);

#endif
