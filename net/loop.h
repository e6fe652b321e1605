/* One thread's event loop: a gRPC completion queue (only if the network is opened) and libev, with timers,
 * and with wake-ups from other threads. Only loop_post may be called from another thread.
 *
 * Each turn of the loop handles what is ready (completions, descriptors, due timers, posted calls). Then
 * it runs the LOOP_AFTER hooks, where shells step their roles and drain their output. Then it runs the
 * LOOP_FLUSH hooks, where the network sends what has gathered; they also run before the loop waits. The
 * next turn begins with asking streams for their next messages. */
#ifndef HAWK_NET_LOOP_H
#define HAWK_NET_LOOP_H

#include "base/err.h"
#include "base/heap.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

enum loop_flag {
    /* Starts gRPC, which costs 12 MB, some threads and 15 ms, and stays until the process ends. server.h,
     * link.h and rpc.h need it. */
    LOOP_NET = 1u << 0,
};

/* Makes a loop. It aborts when the system gives no descriptors. It raises the soft limit on open files to
 * the hard one, and silences gRPC's log unless GRPC_VERBOSITY is set. Fork before you start LOOP_NET,
 * never after. */
struct loop *loop_new(unsigned flags);
/* Frees the loop. Free its links, servers and channels before. Descriptors, timers and signals are
 * forgotten, and posted calls that have not run are dropped. NULL is fine. */
void loop_free(struct loop *l);

/* Microseconds of CLOCK_BOOTTIME: monotonic, and counts a suspended machine's time, as leases need. */
int64_t loop_now(const struct loop *l);
/* The time at which the loop took up what it handles now (a completion, a descriptor, a timer, a posted
 * call). It costs nothing, and is late by the time spent since. It never goes backwards, nor beyond
 * loop_now. */
int64_t loop_event_now(const struct loop *l);
/* Turns until loop_stop is called (from this thread). */
void loop_run(struct loop *l);
/* Makes loop_run return after the present turn. */
void loop_stop(struct loop *l);
/* One turn: waits for something to happen, at most until `until_us` (TIME_NEVER: no bound), and handles
 * it. For synchronous clients and tests: while (!done && loop_now(l) < deadline) loop_once(l, deadline); */
void loop_once(struct loop *l, int64_t until_us);

/* From now on counts in h (HISTOGRAM_TIME) how long each turn takes, from what it takes up first to its end: so long
 * something that comes meanwhile may wait. h outlives the loop. */
void loop_measure(struct loop *l, struct histogram *h);

/* ---- Timers. The caller embeds and initializes one; it fires once per loop_timer_set. ---- */
struct loop_timer {
    struct heap_node node;
    void (*fn)(void *arg);
    void *arg;
};
static inline void loop_timer_init(struct loop_timer *t, void (*fn)(void *arg), void *arg)
{
    *t = (struct loop_timer){.fn = fn, .arg = arg};
}
/* Fires once at at_us (soon, if that is past), and replaces an earlier setting. TIME_NEVER clears it. */
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at_us);
void loop_timer_clear(struct loop *l, struct loop_timer *t);
static inline bool loop_timer_is_set(const struct loop_timer *t) { return heap_in(&t->node); }

/* ---- Hooks, in the order they were added, once per turn. ---- */
enum loop_phase { LOOP_AFTER, LOOP_FLUSH, LOOP_PHASES };
struct loop_hook {
    struct list node;
    void (*fn)(void *arg);
    void *arg;
};
/* h stays the caller's and must live until it is removed. A hook may remove itself, but not add or remove
 * others. */
void loop_hook_add(struct loop *l, struct loop_hook *h, enum loop_phase phase, void (*fn)(void *arg),
                   void *arg);
void loop_hook_remove(struct loop_hook *h);

/* ---- Descriptors that can be polled: pipes, sockets, pidfds (not regular files). ---- */
enum loop_event { LOOP_READ = 1, LOOP_WRITE = 2 };
struct loop_fd;
/* Calls fn with the events that are ready (level-triggered). */
struct loop_fd *loop_fd_add(struct loop *l, int fd, unsigned events, void (*fn)(void *arg, unsigned events),
                            void *arg);
/* Changes the events that it waits for; 0: none for now. */
void loop_fd_events(struct loop_fd *f, unsigned events);
/* Call it before closing the descriptor, which is up to the caller. NULL is fine. */
void loop_fd_remove(struct loop_fd *f);

/* ---- Signals and other threads ---- */
/* Calls fn on the loop's thread for `signo`, once for any number of deliveries. One loop per process may
 * own a signal; HAWK_EEXISTS otherwise. loop_free restores the signal's disposition. */
HAWK_MUST_USE int loop_signal(struct loop *l, int signo, void (*fn)(void *arg, int signo), void *arg);
/* Calls fn(arg) on the loop's thread, in order. From any thread, the loop's own included. */
void loop_post(struct loop *l, void (*fn)(void *arg), void *arg);

#endif
