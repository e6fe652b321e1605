/* The inside of the loop, shared by loop.c (turns, timers, hooks, posts), loop_fd.c (descriptors and
 * signals: libev) and loop_net.c (the completion queue). What other files of net/ may use is in core.h. */
#ifndef HAWK_NET_LOOP_IMPL_H
#define HAWK_NET_LOOP_IMPL_H

#include "net/core.h"
#include "net/loop.h"

#include <ev.h>
#include <grpc/grpc.h>
#include <pthread.h>

struct loop_posted {
    void (*fn)(void *arg);
    void *arg;
};

/* Whose turn libev is, where a helper runs it. */
enum loop_round {
    ROUND_POLL,        /* the helper's, until something is ready */
    ROUND_HANDED_OVER, /* the loop's thread's; it has been told */
    ROUND_TAKEN,       /* which now invokes what is ready */
};

struct loop {
    bool stopping;   /* loop_stop was called */
    int64_t now_us;  /* loop_event_now */
    struct list fds; /* struct loop_fd */

    struct heap timers;
    uint64_t timer_seq;
    struct list hooks[LOOP_PHASES];

    /* What other threads may touch, under `lock`. */
    pthread_mutex_t lock;
    struct loop_posted *posted;
    uint32_t posted_n, posted_cap;

    struct ev_loop *ev; /* descriptors and signals; under `lock` where a helper runs it */
    ev_async wake;      /* ends its waiting */
    ev_timer bound;     /* of its waiting, without a completion queue */

    /* LOOP_NET */
    grpc_completion_queue *cq;
    grpc_channel *lame; /* a call that never goes anywhere: */
    grpc_call *poke;    /* empty batches on it wake the queue (libgrpc has no grpc_alarm in C) */
    struct cq_tag poke_tag;
    bool woken; /* one is under way; under `lock` */
    struct loop_receive {
        grpc_call *call;
        grpc_byte_buffer **message;
        struct cq_tag *tag;
    } * receives; /* to be started as the next turn begins */
    uint32_t receives_n, receives_cap;
    uint32_t at_once;               /* so many messages more are asked for at once */
    uint32_t at_once_next;          /* as many the next time */
    uint32_t late_asked, late_hits; /* of those that were left for later, since it was last looked */

    /* The thread that waits in libev while the loop's own waits in the queue: see loop_fd.c. */
    pthread_t helper;
    bool helper_runs; /* for the loop's thread only; the rest under `lock`: */
    bool helper_stop; /* it is to end */
    enum loop_round round;
    pthread_cond_t go_on; /* for the helper: round is ROUND_POLL again, or helper_stop */
};

/* loop.c: something new is taken up. */
static inline void loop_look(struct loop *l) { l->now_us = loop_now(l); }

/* loop_fd.c */
void loop_ev_open(struct loop *l);
/* Forgets descriptors and signals; nothing pokes the completion queue for them any more. */
void loop_ev_close(struct loop *l);
/* Makes loop_ev_wait return; from any thread. */
void loop_ev_wake(struct loop *l);
/* Without a completion queue: handles descriptors and signals that are ready, waiting at most wait_us (0: not
 * at all; TIME_NEVER: no bound). */
void loop_ev_wait(struct loop *l, int64_t wait_us);
/* With one: handles those that the helper found ready. */
void loop_ev_take(struct loop *l);

/* loop_net.c */
void loop_net_open(struct loop *l);
void loop_net_close(struct loop *l);
/* Handles completions, waiting at most wait_us for the first. */
void loop_net_wait(struct loop *l, int64_t wait_us);
/* Starts what net_receive was asked for. */
void loop_net_receive(struct loop *l);
/* Makes a thread in loop_net_wait return; under l->lock. */
void loop_net_poke(struct loop *l);

#endif
