/* A dist that hears whatever clients and peers may say, known ones and others, in whatever order: it never aborts,
 * its invariants hold after every step, and its memory stays within what its limits allow. */
#include "base/check.h"
#include "base/units.h"
#include "dist/dist.h"
#include "tests/fuzz/lib/events.h"

#include <string.h>

#define STEPS 2000
#define JOBS_MAX 8u
#define HEAP_MAX (64u << 20)
#define SELF 1u

struct fuzz {
    struct input in;
    struct dist d;
    struct recent recent;
    struct out out;
    int64_t now_us;
    uint64_t token, answered; /* of the journal */
    bool stopped;
};

static const uint32_t peers[] = {1, 2, 3, 4, 5, 6, 7, 99, 0xffffff /* central */};

static uint32_t some_peer(struct fuzz *f) { return peers[take_below(&f->in, sizeof peers / sizeof *peers)]; }

static void say(struct fuzz *f, const struct msg *m)
{
    struct event e = {.now_us = f->now_us, .m = *m};

    dist_step(&f->d, &e, &f->out);
    dist_check(&f->d);
    CHECK(dist_jobs_unfinished(&f->d) <= JOBS_MAX);
    for (uint32_t i = 0; i < f->out.n; i++) {
        const struct msg *o = &f->out.v[i];

        CHECK(!msg_is_wire(o) || msg_check(o) == 0);
        if (o->type == MSG_JOURNAL_JOB)
            f->token = o->journal_job.token;
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

static void client_submits(struct fuzz *f)
{
    struct job_desc *d = take_desc(&f->in);

    if (job_desc_check(d, NULL, 0) == 0)
        SAY(f, SUBMIT, submit, 0, .desc = d, .client = 5);
    job_desc_drop(d);
}

static struct resubmit *take_resubmit(struct input *in)
{
    struct resubmit *r = resubmit_new(take_below(in, 4));

    r->job = job_id_make((node_id_t){1 + take_below(in, 4)}, 1 + take_below(in, 6));
    r->epoch = (uint16_t)take_below(in, 12);
    r->long_epoch = (uint16_t)take_below(in, 8);
    r->class = (uint8_t)take_below(in, CLASS_COUNT);
    r->why = (uint8_t)take_below(in, WHY_COUNT);
    r->age_us = (int64_t)take_number(in, 4);
    for (uint32_t i = 0; i < r->n; i++)
        r->v[i] = (struct resubmit_task){.task = take_below(in, 8),
                                         .state = (uint8_t)take_below(in, TASK_STATE_COUNT),
                                         .outcome = (uint8_t)take_below(in, OUTCOME_COUNT),
                                         .wait_us = (int64_t)take_number(in, 3) - 1,
                                         .run_us = (int64_t)take_number(in, 3) - 1};
    return r;
}

/* A client moves a job here. */
static void client_moves(struct fuzz *f)
{
    struct job_desc *d = take_desc(&f->in);
    struct resubmit *r = take_resubmit(&f->in);
    char why[200];

    if (job_desc_check(d, NULL, 0) == 0 && resubmit_check(r, d, why, sizeof why) == 0)
        SAY(f, SUBMIT, submit, 0, .desc = d, .resubmit = r, .key = take_u8(&f->in), .client = 5);
    job_desc_drop(d);
    resubmit_drop(r);
}

/* What clients ask of the API, besides. */
static void client_asks(struct fuzz *f)
{
    static const enum msg_type asks[] = {MSG_CANCEL, MSG_CANCEL, MSG_WATCH};
    struct msg m;

    if (take_msg(&f->in, &f->recent, asks[take_below(&f->in, 3)], &m))
        say(f, &m);
    msg_drop(&m);
}

static void views(struct fuzz *f)
{
    for (const struct dist_job *j = dist_newest(&f->d); j; j = dist_older(&f->d, j)) {
        struct job_view v;
        struct task_view t;
        struct reservation_view r;
        const void *cursor = NULL;
        uint32_t n;

        dist_job_view(&f->d, j, f->now_us, &v);
        dist_task_view(&f->d, j, v.desc->tasks - 1, f->now_us, &t);
        CHECK(dist_blocked(&f->d, j, &n) < DIST_BLOCK_COUNT);
        while (dist_next_reservation(&f->d, j, &cursor, &r))
            CHECK(r.count > 0);
    }
}

static void journal_answers(struct fuzz *f)
{
    if (f->answered == f->token)
        return;
    f->answered = take_bool(&f->in) ? f->token : f->answered + 1;
    SAY(f, JOURNAL_DONE, journal_done, 0, .token = f->answered, .err = take_u8(&f->in) < 32 ? -5 : 0);
}

static void time_passes(struct fuzz *f)
{
    f->now_us = take_later(&f->in, f->now_us);
    for (int i = 0; i < 100 && dist_next_timeout(&f->d) <= f->now_us; i++)
        SAY(f, TIMER, timer, 0, 0);
    CHECK(dist_next_timeout(&f->d) > f->now_us);
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
        client_submits(f);
        return;
    case 5:
        client_moves(f);
        return;
    case 6:
        client_asks(f);
        return;
    case 7:
        take_batch(&f->in, deliver, f);
        return;
    case 8:
        journal_answers(f);
        return;
    case 9:
        views(f);
        return;
    case 10:
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

static void configure(struct fuzz *f, struct dist_config *c, uint8_t b)
{
    dist_config_init(c);
    c->name = blob_str("d");
    c->addr = blob_str("127.0.0.1:1");
    c->incarnation = 7;
    c->jobs_unfinished_max = JOBS_MAX;
    c->tasks_unfinished_max = 6000;
    c->finished_kept = 4;
    c->estimates_max = 4;
    c->journal = b & 1;
    c->heartbeats = b & 2;
    c->client_grace_us = b & 4 ? 1000000 : 0;
    c->policy = take_policy(&f->in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    struct dist_config c;
    size_t heap = heap_bytes();
    uint8_t b;

    memset(&f, 0, sizeof f);
    f.in = (struct input){data, data + size};
    f.now_us = US_PER_S;
    f.recent.node = SELF;
    b = take_u8(&f.in);
    configure(&f, &c, b);
    dist_init(&f.d, &c, b);
    SAY(&f, START, start, 0, 0);
    if (b & 4) {
        SAY(&f, PEER_UP, peer_up, NODE_CENTRAL.v, ROLE_CENTRAL);
        SAY(&f, JOINED, joined, NODE_CENTRAL.v, .node = {SELF}, .heartbeat_us = 500000, .lease_us = 60000000);
    }
    for (uint32_t n = 2; b & 8 && n < 5; n++) {
        struct blob *name = blob_str("w");

        SAY(&f, MEMBER, member, NODE_CENTRAL.v, .name = name, .addr = name, .node = {n}, .slots = 2,
            .role = ROLE_WORKER, .general = n != 4);
        SAY(&f, PEER_UP, peer_up, n, ROLE_WORKER);
        blob_drop(name);
    }
    for (int i = 0; i < STEPS && input_left(&f.in) && !f.stopped; i++)
        one_thing(&f);
    CHECK(heap_bytes() - heap < HEAP_MAX);
    dist_free(&f.d);
    out_free(&f.out);
    blob_drop(c.name);
    blob_drop(c.addr);
    return 0;
}
