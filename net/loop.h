/* One thread's event loop: a gRPC completion queue (only where the network is opened) and libev, together
 * with timers and wake-ups from other threads. Everything but loop_post belongs to that thread.
 *
 * Each turn of the loop handles what is ready (completions, descriptors, due timers, posted calls), then runs
 * the LOOP_AFTER hooks, where shells step their roles and drain their output, and then the LOOP_FLUSH hooks,
 * where the network sends what has gathered (they also run before the loop waits). The next turn begins with asking streams
 * for their next messages. */
#ifndef HAWK_NET_LOOP_H
#define HAWK_NET_LOOP_H

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

enum loop_flag {
    /* Starts gRPC, which costs 12 MB, some threads and 15 ms: needed by server.h, link.h and rpc.h. */
    LOOP_NET = 1u << 0,
};

/* A new loop; aborts when the system gives no descriptors. Raises the soft limit on open files to the hard
 * one. gRPC's own log lines are silenced unless GRPC_VERBOSITY is set. Start LOOP_NET after every fork. */
struct loop *loop_new(unsigned flags);
/* Ends the loop. Links, servers and channels on it must have been freed before; descriptors, timers and
 * signals are forgotten, what was posted and not run is dropped. NULL is fine. */
void loop_free(struct loop *l);

/* For a process that goes on to exit(), which destroys what gRPC's threads still use for a while: when the last LOOP_NET loop
 * is gone, waits until they have ended. Not where somebody else in the process uses gRPC: then at most two seconds. */
void loop_net_settle(void);

/* Microseconds of CLOCK_BOOTTIME: monotonic, and counts a suspended machine's time, as leases need. */
int64_t loop_now(const struct loop *l);
/* The same, as of when what is being handled was taken up (a completion, a descriptor, a timer, a posted call): free, and
 * as late as that has taken so far. Never goes backwards, nor beyond loop_now. */
int64_t loop_event_now(const struct loop *l);
/* Turns until loop_stop is called (from this thread). */
void loop_run(struct loop *l);
/* Makes loop_run return after the present turn. */
void loop_stop(struct loop *l);
/* One turn: waits for something to happen, at most until `until_us` (TIME_NEVER: no bound), and handles it.
 * For synchronous clients and tests: while (!done && loop_now(l) < deadline) loop_once(l, deadline); */
void loop_once(struct loop *l, int64_t until_us);

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
/* Fires at at_us (soon, when that is past), once; replaces an earlier setting. TIME_NEVER clears it. */
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
/* h stays the caller's and must live until it is removed. Not from within a hook, except to remove itself. */
void loop_hook_add(struct loop *l, struct loop_hook *h, enum loop_phase phase, void (*fn)(void *arg),
                   void *arg);
void loop_hook_remove(struct loop_hook *h);

/* ---- Descriptors that can be polled: pipes, sockets, pidfds (not regular files). ---- */
enum loop_event { LOOP_READ = 1, LOOP_WRITE = 2 };
struct loop_fd;
/* Calls fn with the events that are ready (level-triggered). */
struct loop_fd *loop_fd_add(struct loop *l, int fd, unsigned events, void (*fn)(void *arg, unsigned events),
                            void *arg);
/* Changes what is waited for; 0: nothing for now. */
void loop_fd_events(struct loop_fd *f, unsigned events);
/* Must be called before the descriptor is closed; which is the caller's to do. NULL is fine. */
void loop_fd_remove(struct loop_fd *f);

/* ---- Signals and other threads ---- */
/* Calls fn on the loop's thread for `signo`, once for any number of deliveries. One loop per process may own
 * a signal; HAWK_EEXISTS otherwise. The signal's disposition goes back to what it was in loop_free. */
HAWK_MUST_USE int loop_signal(struct loop *l, int signo, void (*fn)(void *arg, int signo), void *arg);
/* Calls fn(arg) on the loop's thread; in order. From any thread, also from the loop's own. */
void loop_post(struct loop *l, void (*fn)(void *arg), void *arg);

#endif
