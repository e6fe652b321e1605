/* The inside of the loop, shared by loop.c (turns, timers, hooks, posts), loop_fd.c (descriptors) and
 * loop_net.c (the completion queue). What other files of net/ may use is in core.h. */
#ifndef HAWK_NET_LOOP_IMPL_H
#define HAWK_NET_LOOP_IMPL_H

#include "net/core.h"
#include "net/loop.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#define LOOP_READY_MAX 64 /* descriptors handled at a time */

struct loop_posted {
    void (*fn)(void *arg);
    void *arg;
};

/* Wakes a thread that waits in the completion queue when a descriptor is ready. */
struct loop_helper {
    pthread_t thread;
    int control_fd; /* eventfd: armed again, or stop */
    atomic_bool stop;
    atomic_bool
        armed; /* waits for the descriptors; false once it has posted, until the loop has handled it */
    bool running;
};

struct loop {
    int epoll_fd;
    bool stopping;                            /* loop_stop was called */
    struct list fds;                          /* struct loop_fd */
    struct epoll_event ready[LOOP_READY_MAX]; /* being handled; data.ptr: struct loop_fd, NULL when removed */
    int ready_n;

    struct heap timers;
    uint64_t timer_seq;
    struct list hooks[LOOP_PHASES];

    /* What other threads may touch, under `lock`. */
    pthread_mutex_t lock;
    struct loop_posted *posted;
    uint32_t posted_n, posted_cap;
    bool woken; /* a wake-up is under way */

    int wake_fd; /* eventfd, without a completion queue */
    struct loop_fd *wake_watch;
    int signal_fd; /* eventfd, written by the signal handler */
    struct loop_fd *signal_watch;

    /* LOOP_NET */
    grpc_completion_queue *cq;
    grpc_channel *lame; /* a call that never goes anywhere: */
    grpc_call *poke;    /* empty batches on it wake the queue (libgrpc has no grpc_alarm in C) */
    struct cq_tag poke_tag;
    struct loop_helper helper;
};

/* loop_fd.c */
void loop_fds_free(struct loop *l);
void loop_signals_free(struct loop *l);
/* Handles descriptors that are ready, waiting at most wait_us (0: not at all; TIME_NEVER: no bound). */
void loop_fds_wait(struct loop *l, int64_t wait_us);

/* loop_net.c */
void loop_net_open(struct loop *l);
void loop_net_close(struct loop *l);
/* Handles completions and descriptors that are ready, waiting at most wait_us for the first. */
void loop_net_wait(struct loop *l, int64_t wait_us);
/* The same without the descriptors. */
void loop_net_completions(struct loop *l, int64_t wait_us);
/* Makes a thread in loop_net_wait return; under l->lock. */
void loop_net_poke(struct loop *l);

#endif
