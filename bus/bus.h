/* In-process delivery between roles, for `hawk up`, `hawk run`, tests and the simulator: what gRPC streams are to
 * daemons. Deliveries happen in the order of time; at the same moment those without delay come first, and else what
 * was sent first. What a step puts out is queued, never delivered from within. Nothing is allocated per event once the queues have grown.
 *
 * Who dials whom and when, and what a role hears of its streams, is decided in peers/, as in a daemon: the bus carries
 * the streams. Node ids are learned from the JOINED that passes. Local messages a role puts out (EXEC_START, JOURNAL_JOB,
 * JOB_EVENT, …) are effects: they go to the endpoint's callback.
 *
 * Single-threaded. Callbacks may post and read, and may stop endpoints, but not run the bus. */
#ifndef HAWK_BUS_BUS_H
#define HAWK_BUS_BUS_H

#include "msg/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct bus;

struct bus_role {
    const struct role_functions *fns;
    node_id_t id;     /* a dist's, from its journal; NODE_NONE: none yet */
    uint64_t cluster; /* likewise; 0 */
};

struct bus_config {
    void *arg; /* given to every callback */
    /* How long a message takes from one endpoint to another; NULL: no time. Messages between one pair must not
     * overtake each other, so it is constant for a pair, or the shell sees to it. */
    int64_t (*delay_us)(void *arg, uint32_t from, uint32_t to, const struct msg *m);
    /* Real time. NULL: virtual time, which is the time of the event that is being handled. */
    int64_t (*clock_us)(void *arg);
    /* A local message that endpoint ep put out: handles in it are dropped after the call. */
    void (*effect)(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
    /* Optional: every delivery before its step; from = 0: from the shell or the bus itself, timers included. */
    void (*trace)(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
    /* Optional: after ep was stepped and its output was queued. */
    void (*stepped)(void *arg, uint32_t ep, int64_t now_us);
    /* Optional: a message from another endpoint has reached ep. When ep takes it up, which is now or later; asked
     * once per message, in the order they arrive, and never earlier than for the one before. */
    int64_t (*serve_us)(void *arg, uint32_t ep, int64_t now_us);
    uint64_t seed;          /* of the delays before a stream is dialled again */
    uint32_t steal_streams; /* streams a worker keeps open to its victims; 0: PEERS_VICTIMS */
    /* Workers reach each other without streams that open and close, so that nobody is told of them: for a
     * simulation without faults, where a stream's life is no news to anybody. */
    bool workers_meshed;
};

struct bus *bus_new(const struct bus_config *c);
void bus_free(struct bus *b); /* drops what is queued; role objects are the shell's. NULL is fine */

/* A new endpoint that does not run yet. Numbered from 1, in order; never fails and never goes away. */
uint32_t bus_add(struct bus *b, enum role role);
/* Where it listens from now on: who looks for it elsewhere finds nobody. NULL, as at first: wherever it is looked for. */
void bus_listen(struct bus *b, uint32_t ep, const char *addr);
/* Starts it (again) with a fresh role object: START, then streams to and from central where that runs. The object
 * must live until bus_kill or bus_close. At most one central may run. */
void bus_start(struct bus *b, uint32_t ep, const struct bus_role *r, void *role);
/* Dies: its streams break, what is under way from and to it is lost, the role object is not touched again. */
void bus_kill(struct bus *b, uint32_t ep);
/* Goes in good order: the same, but what it had sent arrives first. For STOPPED. */
void bus_close(struct bus *b, uint32_t ep);
/* Breaks the streams between two endpoints, if there are any, with what is under way on them. */
void bus_break(struct bus *b, uint32_t x, uint32_t y);
/* The same, and there is no stream between them before until_us: a network that is cut, and says so to who dials. */
void bus_cut(struct bus *b, uint32_t x, uint32_t y, int64_t until_us);
/* From now on nothing x and y send each other arrives, and each hears of the stream's end at a time of its own (not
 * before bus_now): what was under way to it and arrives by then is the last it gets, what it sends until then is lost
 * without a word. A side that hears of a new stream first (to a role that is not central) learns of the end right before. */
void bus_break_unseen(struct bus *b, uint32_t x, uint32_t y, int64_t x_hears_us, int64_t y_hears_us);
/* No new stream between them before until_us, and who dials is not answered; what is open stays. */
void bus_bar(struct bus *b, uint32_t x, uint32_t y, int64_t until_us);
/* ep does nothing before until_us, and then everything at once: a process that was stopped, or swapped out. No effect
 * while it is frozen already. */
void bus_freeze(struct bus *b, uint32_t ep, int64_t until_us);

/* Queues an event from the shell for ep at at_us (not before bus_now): a completion, a client's request. Takes
 * over m's handles. Lost when ep does not run, or dies before. */
void bus_post(struct bus *b, uint32_t ep, int64_t at_us, const struct msg *m);

/* Handles everything due up to t_us, and what follows from it by then. Returns the number of steps. With
 * virtual time, bus_now is t_us afterwards. */
uint64_t bus_run_until(struct bus *b, int64_t t_us);
/* Handles the next step whenever it is due, at most until t_us. False: there was none. */
bool bus_run_one(struct bus *b, int64_t t_us);
/* When the next step is due; TIME_NEVER: nothing will ever happen without the shell. */
int64_t bus_next_time(struct bus *b);
int64_t bus_now(const struct bus *b);
/* Deliveries queued, timers not counted. */
uint64_t bus_pending(const struct bus *b);

bool bus_runs(const struct bus *b, uint32_t ep);
enum role bus_role_of(const struct bus *b, uint32_t ep);
/* The node id central gave it; NODE_NONE before it joined. It keeps it when it dies. */
node_id_t bus_node(const struct bus *b, uint32_t ep);
/* The endpoint of a node; 0: none. */
uint32_t bus_endpoint(const struct bus *b, node_id_t node);
/* Is there a stream between them? */
bool bus_connected(const struct bus *b, uint32_t x, uint32_t y);

#endif
