/* Carries messages between roles in one process, for `hawk up`, `hawk run`, tests and the simulator, as
 * gRPC streams do between daemons. It delivers in the order of time. At the same moment, messages without
 * delay come first, then the others in the order in which they were sent. The bus queues what a step puts
 * out, and never delivers it from within that step. It allocates nothing per event once its queues have
 * grown.
 *
 * The rules in peers/ decide who dials whom and when, and what a role hears of its streams, as in a
 * daemon. The bus only carries the streams. It learns node ids from the JOINED messages that it carries.
 * Local messages that a role puts out (EXEC_START, JOURNAL_JOB, JOB_EVENT, …) are effects: the bus gives
 * them to the endpoint's callback.
 *
 * The bus is single-threaded. Callbacks may post, read and stop endpoints, but not run the bus. */
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
    /* Returns how long a message takes from one endpoint to another; NULL: no time. Messages between one
     * pair must not overtake each other: the delay is constant for a pair, or the shell makes sure of
     * that. */
    int64_t (*delay_us)(void *arg, uint32_t from, uint32_t to, const struct msg *m);
    /* Returns the real time. NULL: virtual time, which is the time of the event that is being handled. */
    int64_t (*clock_us)(void *arg);
    /* Gets a local message that endpoint ep put out. The bus drops its handles after the call. */
    void (*effect)(void *arg, uint32_t ep, int64_t now_us, const struct msg *m);
    /* Optional: sees every delivery before its step. from = 0: from the shell or the bus itself, timers
     * included. */
    void (*trace)(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m);
    /* Optional: called after ep was stepped and its output was queued. */
    void (*stepped)(void *arg, uint32_t ep, int64_t now_us);
    /* Optional: a message from another endpoint has reached ep. Returns when ep takes it up, now or later.
     * The bus asks once per message, in the order of arrival. The answer is never earlier than the one
     * before. */
    int64_t (*serve_us)(void *arg, uint32_t ep, int64_t now_us);
    uint64_t seed;          /* of the delays before a stream is dialled again */
    uint32_t steal_streams; /* streams a worker keeps open to its victims; 0: PEERS_VICTIMS */
    /* Workers reach each other without streams, so that no role hears of streams between workers. For
     * simulations without faults, where those never matter. */
    bool workers_meshed;
};

struct bus *bus_new(const struct bus_config *c);
void bus_free(struct bus *b); /* drops what is queued; role objects are the shell's. NULL is fine */

/* Adds an endpoint that does not run yet, and returns its number: from 1, in order. Never fails. An
 * endpoint never goes away. */
uint32_t bus_add(struct bus *b, enum role role);
/* Sets the address at which ep listens; a peer that dials another address finds nobody. NULL, as at first:
 * every address finds ep. */
void bus_listen(struct bus *b, uint32_t ep, const char *addr);
/* Starts ep (again) with a fresh role object: START, then streams to and from central if that runs. The
 * object must live until bus_kill or bus_close. At most one central may run. */
void bus_start(struct bus *b, uint32_t ep, const struct bus_role *r, void *role);
/* ep dies. Its streams break, messages under way from and to it are lost, and the bus does not touch the
 * role object again. */
void bus_kill(struct bus *b, uint32_t ep);
/* ep ends in good order, as bus_kill, but the messages that it had sent arrive first. For STOPPED. */
void bus_close(struct bus *b, uint32_t ep);
/* Breaks the streams between two endpoints, if there are any. Messages under way on them are lost. */
void bus_break(struct bus *b, uint32_t x, uint32_t y);
/* As bus_break, and there is no stream between the two before until_us: the network is cut, and a node
 * that dials is told so at once. */
void bus_cut(struct bus *b, uint32_t x, uint32_t y, int64_t until_us);
/* From now on no message between x and y arrives, and each side hears of the stream's end at a time of its
 * own (not before bus_now). A side still gets the messages under way to it that arrive by then. Whatever
 * it sends until then is lost without notice. If a role other than central hears of a new stream first, it
 * hears of the old one's end right before. */
void bus_break_unseen(struct bus *b, uint32_t x, uint32_t y, int64_t x_hears_us, int64_t y_hears_us);
/* No new stream opens between x and y before until_us, and a node that dials gets no answer. Open streams
 * stay. */
void bus_bar(struct bus *b, uint32_t x, uint32_t y, int64_t until_us);
/* ep does nothing before until_us, and then everything at once, like a process that was stopped or swapped
 * out. No effect while ep is frozen already. */
void bus_freeze(struct bus *b, uint32_t ep, int64_t until_us);

/* Queues an event from the shell for ep at at_us (not before bus_now): a completion, or a client's
 * request. Takes over m's handles. The event is lost when ep does not run, or dies before. */
void bus_post(struct bus *b, uint32_t ep, int64_t at_us, const struct msg *m);

/* Handles everything due up to t_us, and everything due by then that follows from it. Returns the number
 * of steps. With virtual time, bus_now is t_us afterwards. */
uint64_t bus_run_until(struct bus *b, int64_t t_us);
/* Handles the next step, if it is due by t_us. False: there was none. */
bool bus_run_one(struct bus *b, int64_t t_us);
/* Returns when the next step is due. TIME_NEVER: nothing will happen unless the shell posts something. */
int64_t bus_next_time(struct bus *b);
int64_t bus_now(const struct bus *b);
/* Aborts if the rules of ep's connections break an invariant (peers_check). O(its connections). */
void bus_check(const struct bus *b, uint32_t ep);

bool bus_runs(const struct bus *b, uint32_t ep);
enum role bus_role_of(const struct bus *b, uint32_t ep);
/* The endpoint of a node; 0: none has that id. */
uint32_t bus_endpoint(const struct bus *b, node_id_t node);

#endif
