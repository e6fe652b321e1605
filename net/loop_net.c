/* The loop's completion queue: opening and closing gRPC, and waiting in it. */
#include "net/loop_impl.h"

#include "base/check.h"

#include <dlfcn.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_int open_loops; /* of this process, with a network */

/* Completions handled in one turn at most, so that timers and descriptors get theirs under load. */
#define TURN_COMPLETIONS 256

static void no_log(gpr_log_func_args *args) { (void)args; }

static void on_poke(void *arg, bool ok)
{
    struct loop *l = arg;

    (void)ok;
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

/* Debian builds abseil, whose mutexes gRPC uses, with its search for lock cycles on, which is most of what a message
 * costs in a process of many connections. The switch is a C++ function; where it has another name, all is as before. */
static void forget_lock_order(void)
{
    void (*set_mode)(int mode);
    void *symbol =
        dlsym(RTLD_DEFAULT, "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");

    memcpy(&set_mode, &symbol, sizeof symbol);
    if (set_mode)
        set_mode(0); /* kIgnore */
}

void loop_net_open(struct loop *l)
{
    forget_lock_order();
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_function(no_log);
    grpc_init();
    atomic_fetch_add(&open_loops, 1);
    l->cq = grpc_completion_queue_create_for_next(NULL);
    CHECK(l->cq);
    l->lame = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "only for wake-ups");
    CHECK(l->lame);
    l->poke = grpc_channel_create_call(l->lame, NULL, GRPC_PROPAGATE_DEFAULTS, l->cq,
                                       grpc_slice_from_static_string("/wake"), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    CHECK(l->poke);
    cq_tag_init(&l->poke_tag, on_poke, l);
}

#define SETTLE_MS 2000

/* grpc_shutdown_blocking returns while gRPC's threads still wind down. */
void loop_net_settle(void)
{
    for (int i = 0; i < SETTLE_MS && atomic_load(&open_loops) == 0 && grpc_is_initialized(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

grpc_completion_queue *loop_cq(struct loop *l)
{
    CHECK(l->cq);
    return l->cq;
}

static void handle(struct loop *l, const grpc_event *e)
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
    grpc_completion_queue_shutdown(l->cq);
    while ((e = grpc_completion_queue_next(l->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)).type !=
           GRPC_QUEUE_SHUTDOWN) {
        if (e.type == GRPC_OP_COMPLETE)
            handle(l, &e);
    }
    grpc_completion_queue_destroy(l->cq);
    l->cq = NULL;
    grpc_shutdown_blocking();
    atomic_fetch_sub(&open_loops, 1);
#if defined(__SANITIZE_ADDRESS__)
    loop_net_settle(); /* leak checkers would find what those threads hold */
#endif
}

static gpr_timespec in_us(int64_t us)
{
    if (us == TIME_NEVER)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}

void loop_net_wait(struct loop *l, int64_t wait_us)
{
    grpc_event e;
    int n = 0;

    e = grpc_completion_queue_next(l->cq, wait_us ? in_us(wait_us) : gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
    while (e.type == GRPC_OP_COMPLETE) {
        handle(l, &e);
        if (++n == TURN_COMPLETIONS)
            break;
        e = grpc_completion_queue_next(l->cq, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
    }
}
