/* The loop's completion queue: opening and closing gRPC, and waiting in it. */
#include "net/loop_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The most completions in one turn, so that timers and descriptors get their turn under load. */
#define TURN_COMPLETIONS 256

/* A message that comes this soon after the request was there before it. */
#define AT_ONCE_US 10
/* The number of late requests in a sample. */
#define LATE_SAMPLE 8
/* The number of requests that go out at once after a sample of which half had arrived. */
#define AT_ONCE_MIN 256
#define AT_ONCE_MAX 4096

static void no_log(gpr_log_func_args *args) {}

static void on_poke(void *arg, bool ok)
{
    struct loop *l = arg;

    pthread_mutex_lock(&l->lock);
    l->woken = false;
    pthread_mutex_unlock(&l->lock);
}

void loop_net_poke(struct loop *l)
{
    if (l->woken)
        return;
    l->woken = true;
    net_batch(l->poke, NULL, 0, &l->poke_tag);
}

/* Debian builds abseil, whose mutexes gRPC uses, with its search for lock cycles switched on. In a process
 * of many connections, that search is most of the cost of a message. The switch is a C++ function; if it
 * has another name, the search stays on. */
static void forget_lock_order(void)
{
    void (*set_mode)(int mode);
    void *symbol =
        dlsym(RTLD_DEFAULT, "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");

    memcpy(&set_mode, &symbol, sizeof symbol);
    if (set_mode)
        set_mode(0); /* kIgnore */
}

/* gRPC stays: its shutdown waits for its threads, up to ten seconds for one that watches a socket whose last write had
 * to wait, and others go on after it. */
static void start_grpc(void)
{
    forget_lock_order();
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_function(no_log);
    grpc_init();
}

void loop_net_open(struct loop *l)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t before;

    /* A signal that one of gRPC's threads took could reach the loop after one that was sent later. */
    thread_block_signals(&before);
    CHECK(pthread_once(&once, start_grpc) == 0);
    l->at_once_next = AT_ONCE_MIN;
    l->cq = grpc_completion_queue_create_for_next(NULL);
    CHECK(l->cq);
    l->lame = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "only for wake-ups");
    CHECK(l->lame);
    l->poke = grpc_channel_create_call(l->lame, NULL, GRPC_PROPAGATE_DEFAULTS, l->cq,
                                       grpc_slice_from_static_string("/wake"), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    CHECK(l->poke);
    thread_restore_signals(&before);
    cq_tag_init(&l->poke_tag, on_poke, l);
}

grpc_completion_queue *loop_cq(struct loop *l)
{
    CHECK(l->cq);
    return l->cq;
}

static void handle_event(struct loop *l, const grpc_event *e)
{
    struct cq_tag *t = e->tag;

    loop_look(l);
    t->done(t->arg, e->success != 0);
}

void loop_net_close(struct loop *l)
{
    grpc_event e;

    grpc_call_unref(l->poke);
    grpc_channel_destroy(l->lame);
    loop_net_receive(l);
    grpc_completion_queue_shutdown(l->cq);
    while ((e = grpc_completion_queue_next(l->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)).type !=
           GRPC_QUEUE_SHUTDOWN) {
        if (e.type == GRPC_OP_COMPLETE)
            handle_event(l, &e);
        loop_net_receive(l);
    }
    grpc_completion_queue_destroy(l->cq);
    l->cq = NULL;
    free(l->receives);
}

static gpr_timespec in_us(int64_t us)
{
    if (us == TIME_NEVER)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}

static void receive_now(const struct loop_receive *r)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

    op.data.recv_message.recv_message = r->message;
    net_batch(r->call, &op, 1, r->tag);
}

/* net_receive() may ask for a message at once or at the beginning of the next turn. Late is cheaper while
 * streams are idle. On busy streams the message is there already, and asking late splits what could share
 * one message. This function samples LATE_SAMPLE late requests. When half of them were answered at once,
 * the next AT_ONCE_MIN requests go out at once; each time that happens again, twice as many do, up to
 * AT_ONCE_MAX. */
static void learn_tag(struct loop *l, const struct cq_tag *tag)
{
    if (tag->started_us == 0)
        return;
    l->late_hits += l->now_us - tag->started_us <= AT_ONCE_US;
    if (++l->late_asked < LATE_SAMPLE)
        return;
    if (l->late_hits >= LATE_SAMPLE / 2) {
        l->at_once = l->at_once_next;
        l->at_once_next = l->at_once_next < AT_ONCE_MAX ? l->at_once_next * 2 : AT_ONCE_MAX;
    } else {
        l->at_once_next = AT_ONCE_MIN;
    }
    l->late_asked = l->late_hits = 0;
}

void net_receive(struct loop *l, grpc_call *call, grpc_byte_buffer **message, struct cq_tag *tag)
{
    struct loop_receive r = {call, message, tag};

    learn_tag(l, tag);
    tag->started_us = 0;
    if (l->at_once > 0) {
        l->at_once--;
        receive_now(&r);
        return;
    }
    vec_grow(l->receives, l->receives_n, l->receives_cap);
    l->receives[l->receives_n++] = r;
}

void loop_net_receive(struct loop *l)
{
    for (uint32_t i = 0; i < l->receives_n; i++) {
        loop_look(l);
        l->receives[i].tag->started_us = l->now_us;
        receive_now(&l->receives[i]);
    }
    l->receives_n = 0;
}

void loop_net_wait(struct loop *l, int64_t wait_us)
{
    int n = 0;
    grpc_event e =
        grpc_completion_queue_next(l->cq, wait_us ? in_us(wait_us) : gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);

    while (e.type == GRPC_OP_COMPLETE) {
        handle_event(l, &e);
        if (++n == TURN_COMPLETIONS)
            break;
        e = grpc_completion_queue_next(l->cq, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
    }
}
