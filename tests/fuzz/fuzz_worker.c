/* A worker that hears whatever peers may say, known ones and others, in whatever order: it never aborts, its
 * invariants hold after every step, and its memory stays within what its limits allow. */
#include "base/check.h"
#include "base/units.h"
#include "tests/fuzz/lib/events.h"
#include "worker/worker.h"

#include <string.h>

#define RUNS 64
#define QUEUE_LIMIT 64u
#define STEPS 2000
#define HEAP_MAX (16u << 20)

struct fuzz {
    struct input in;
    struct worker w;
    struct recent recent;
    struct out out;
    int64_t now_us;
    uint32_t runs[RUNS]; /* told to the executor and not ended */
    uint32_t n_runs;
    bool stopped;
};

static const uint32_t peers[] = {1, 2, 3, 4, 5, 6, 99, 0xffffff /* central */};

static uint32_t some_peer(struct fuzz *f) { return peers[take_below(&f->in, sizeof peers / sizeof *peers)]; }

static void say(struct fuzz *f, const struct msg *m)
{
    struct event e = {.now_us = f->now_us, .m = *m};
    struct worker_counts counts;

    worker_step(&f->w, &e, &f->out);
    worker_check(&f->w);
    worker_counts(&f->w, &counts);
    CHECK(counts.queued_tasks <= QUEUE_LIMIT);
    for (uint32_t i = 0; i < f->out.n; i++) {
        const struct msg *o = &f->out.v[i];

        CHECK(!msg_is_wire(o) || msg_check(o) == 0);
        if (o->type == MSG_EXEC_START) {
            CHECK(f->n_runs < RUNS);
            f->runs[f->n_runs++] = o->exec_start.run;
        }
        f->stopped = f->stopped || o->type == MSG_STOPPED;
    }
    recent_add(&f->recent, &f->out);
    out_clear(&f->out);
}

#define SAY(f, NAME, name, from, ...)                                                                        \
    say((f), &(struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

static bool deliver(void *arg, const struct msg *m)
{
    struct fuzz *f = arg;
    struct msg from = *m;

    from.peer = some_peer(f);
    say(f, &from);
    return !f->stopped;
}

static void run_ends(struct fuzz *f)
{
    uint32_t i = take_below(&f->in, f->n_runs);
    uint32_t run = f->runs[i];
    uint8_t b = take_u8(&f->in);

    if (b & 1) {
        SAY(f, EXEC_STARTED, exec_started, 0, .run = run, .pid = b & 2 ? 1 : -1);
        return;
    }
    f->runs[i] = f->runs[--f->n_runs];
    SAY(f, EXEC_EXITED, exec_exited, 0, .run = run, .outcome = (uint8_t)(1 + b / 2 % (OUTCOME_COUNT - 1)),
        .code = b, .run_us = b);
}

static void time_passes(struct fuzz *f)
{
    f->now_us = take_later(&f->in, f->now_us);
    for (int i = 0; i < 8 && worker_next_timeout(&f->w) <= f->now_us; i++)
        SAY(f, TIMER, timer, 0, 0);
    CHECK(worker_next_timeout(&f->w) > f->now_us); /* a timer never comes back at once for ever */
}

static void one_thing(struct fuzz *f)
{
    struct msg m;
    uint8_t b = take_u8(&f->in);

    switch (b % 16) {
    case 0:
        SAY(f, PEER_UP, peer_up, some_peer(f), take_below(&f->in, ROLE_COUNT));
        return;
    case 1:
        SAY(f, PEER_LOST, peer_lost, some_peer(f), ROLE_NONE);
        return;
    case 2:
    case 3:
        time_passes(f);
        return;
    case 4:
    case 5:
    case 6:
        if (f->n_runs)
            run_ends(f);
        return;
    case 7:
        take_batch(&f->in, deliver, f);
        return;
    case 8:
        if (b > 250)
            SAY(f, STOP, stop, 0, .now = take_bool(&f->in));
        return;
    default:
        if (take_msg(&f->in, &f->recent, (enum msg_type)(1 + take_below(&f->in, MSG_WIRE_END - 1)), &m)) {
            m.peer = some_peer(f);
            say(f, &m);
        }
        msg_drop(&m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    struct worker_config c;
    size_t heap = heap_bytes();
    uint8_t b;

    memset(&f, 0, sizeof f);
    f.in = (struct input){data, data + size};
    f.now_us = US_PER_S;
    f.recent.node = 1;
    worker_config_init(&c);
    b = take_u8(&f.in);
    c.slots = 1 + b % 4;
    c.queue_per_slot = b & 4;
    c.heartbeats = b & 8;
    c.queue_limit = QUEUE_LIMIT;
    c.name = blob_str("w");
    c.addr = blob_str("127.0.0.1:2");
    c.incarnation = 7;
    c.policy = take_policy(&f.in);
    worker_init(&f.w, &c, b);
    SAY(&f, START, start, 0, 0);
    if (b & 16) {
        SAY(&f, PEER_UP, peer_up, NODE_CENTRAL.v, ROLE_CENTRAL);
        SAY(&f, JOINED, joined, NODE_CENTRAL.v, .node = {3}, .heartbeat_us = 500000, .lease_us = 60000000);
        SAY(&f, PEER_UP, peer_up, 1, ROLE_DIST);
    }
    for (int i = 0; i < STEPS && input_left(&f.in) && !f.stopped; i++)
        one_thing(&f);
    CHECK(heap_bytes() - heap < HEAP_MAX);
    worker_free(&f.w);
    out_free(&f.out);
    blob_drop(c.name);
    blob_drop(c.addr);
    return 0;
}
