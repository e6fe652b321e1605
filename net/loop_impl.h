/* The inside of the loop, shared by loop.c (turns, timers, hooks, posts), loop_fd.c (descriptors and
 * signals: libev) and loop_net.c (the completion queue). core.h has what other files of net/ may use. */
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

/* Which thread owns libev, if a helper runs it. */
enum loop_round {
    ROUND_POLL,        /* the helper, until something is ready */
    ROUND_HANDED_OVER, /* the loop's thread, which has been told */
    ROUND_TAKEN,       /* the loop's thread, which handles what is ready */
};

struct loop {
    bool stopping;           /* loop_stop was called */
    int64_t now_us;          /* loop_event_now */
    int64_t turn_us;         /* when the present turn took up its first thing; 0: it has not */
    struct histogram *turns; /* see loop_measure() */
    struct list fds;         /* struct loop_fd */

    struct heap timers;
    uint64_t timer_seq;
    struct list hooks[LOOP_PHASES];

    /* The members that other threads may touch, under `lock`. */
    pthread_mutex_t lock;
    struct loop_posted *posted;
    uint32_t posted_n, posted_cap;

    struct ev_loop *ev; /* descriptors and signals; under `lock` if a helper runs it */
    ev_async wake;      /* ends its waiting */
    ev_timer bound;     /* bounds its waiting, without a completion queue */

    /* LOOP_NET */
    grpc_completion_queue *cq;
    grpc_channel *lame; /* for a call that never goes anywhere: */
    grpc_call *poke;    /* empty batches on it wake the queue (libgrpc has no grpc_alarm in C) */
    struct cq_tag poke_tag;
    bool woken; /* an empty batch is under way; under `lock` */
    struct loop_receive {
        grpc_call *call;
        grpc_byte_buffer **message;
        struct cq_tag *tag;
    } * receives; /* started when the next turn begins */
    uint32_t receives_n, receives_cap;
    uint32_t at_once;               /* so many more messages are asked for at once */
    uint32_t at_once_next;          /* as many the next time */
    uint32_t late_asked, late_hits; /* of messages that were asked for late, since the last look */

    /* The thread that waits in libev while the loop's own waits in the queue: see loop_fd.c. */
    pthread_t helper;
    bool helper_runs; /* only for the loop's thread; the members below are under `lock` */
    bool helper_stop; /* it is to end */
    enum loop_round round;
    pthread_cond_t go_on; /* for the helper: round is ROUND_POLL again, or helper_stop */
};

/* The loop takes up something new. */
static inline void loop_look(struct loop *l)
{
    l->now_us = loop_now(l);
    if (!l->turn_us)
        l->turn_us = l->now_us;
}

/* ---- loop_fd.c ---- */
void loop_ev_open(struct loop *l);
/* Forgets descriptors and signals. They poke the completion queue no more. */
void loop_ev_close(struct loop *l);
/* Makes loop_ev_wait return; from any thread. */
void loop_ev_wake(struct loop *l);
/* Without a completion queue: handles descriptors and signals that are ready, waiting at most wait_us (0: not
 * at all; TIME_NEVER: no bound). */
void loop_ev_wait(struct loop *l, int64_t wait_us);
/* With a completion queue: handles those that the helper found ready. */
void loop_ev_take(struct loop *l);

/* ---- loop_net.c ---- */
void loop_net_open(struct loop *l);
void loop_net_close(struct loop *l);
/* Handles completions; waits at most wait_us for the first. */
void loop_net_wait(struct loop *l, int64_t wait_us);
/* Starts the receives that net_receive was asked for. */
void loop_net_receive(struct loop *l);
/* Makes a thread in loop_net_wait return. Call it under l->lock. */
void loop_net_poke(struct loop *l);

#endif
