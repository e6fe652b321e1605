/* Central, which recovers whatever a journal may hold and then hears whatever nodes may say, on known streams and
 * others, in whatever order: it never aborts, its invariants hold after every step, and its memory stays within
 * what its limits allow. */
#include "base/check.h"
#include "base/units.h"
#include "central/central.h"
#include "tests/fuzz/lib/events.h"

#include <string.h>

#define STEPS 2000
#define LINKS 12u
#define TASKS_MAX 2000u
#define HEAP_MAX (64u << 20)

struct fuzz {
    struct input in;
    struct central *c;
    struct recent recent;
    struct out out;
    int64_t now_us;
    uint32_t links; /* given out so far, from 1 on */
    uint64_t token, answered;
    uint64_t tasks_max; /* unfinished */
    bool recovered, stopped;
};

static void say(struct fuzz *f, const struct msg *m)
{
    struct event e = {.now_us = f->now_us, .m = *m};
    struct central_totals totals;

    central_step(f->c, &e, &f->out);
    central_check(f->c);
    central_view_totals(f->c, &totals);
    if (!f->recovered && totals.long_tasks > f->tasks_max)
        f->tasks_max = totals.long_tasks; /* what was accepted is taken up, whatever the limit is now */
    CHECK(totals.long_tasks <= f->tasks_max);
    for (uint32_t i = 0; i < f->out.n; i++) {
        const struct msg *o = &f->out.v[i];

        CHECK(!msg_is_wire(o) || msg_check(o) == 0);
        if (msg_journal_token(o))
            f->token = msg_journal_token(o);
        f->stopped = f->stopped || o->type == MSG_STOPPED;
    }
    recent_add(&f->recent, &f->out);
    out_clear(&f->out);
}

#define SAY(f, NAME, name, from, ...)                                                                        \
    say((f), &(struct msg){.type = MSG_##NAME, .peer = (from), .name = {__VA_ARGS__}})

static uint32_t some_link(struct fuzz *f) { return 1 + take_below(&f->in, LINKS); }

static bool deliver(void *arg, const struct msg *m)
{
    struct fuzz *f = arg;
    struct msg from = *m;

    from.peer = some_link(f);
    say(f, &from);
    return !f->stopped;
}

/* A new stream, and a node that joins on it. */
static void node_joins(struct fuzz *f)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    uint8_t b = take_u8(&f->in);
    struct blob *name = blob_str(names[b % 4]);
    enum role role = b & 4 ? ROLE_DIST : ROLE_WORKER;

    if (f->links < 200) {
        SAY(f, PEER_UP, peer_up, ++f->links, role);
        SAY(f, JOIN, join, f->links, .name = name, .addr = name, .incarnation = 1 + (b >> 6),
            .slots = role == ROLE_WORKER ? 1 + (b >> 3) % 3 : 0, .version = PROTOCOL_VERSION, .role = role);
    }
    blob_drop(name);
}

#define NODES_MAX 5000u /* ids beyond only cost time: invariants are looked for at each */

static bool good_name(const struct blob *b)
{
    return b && b->len <= LIMIT_NAME_BYTES && !memchr(b->data, '\0', b->len);
}

/* As a store gives it back: names that can be ones, numbers within their ranges, descriptions checked, and
 * nothing else promised. */
static bool recoverable(const struct msg *m)
{
    switch (m->type) {
    case MSG_JOURNAL_NODE:
        return good_name(m->journal_node.name) && m->journal_node.node.v <= NODES_MAX &&
               m->journal_node.next_seq <= JOB_SEQ_MAX + 1;
    case MSG_JOURNAL_JOB:
        return job_id_ok(m->journal_job.job) && m->journal_job.desc &&
               job_desc_check(m->journal_job.desc, NULL, 0) == 0;
    case MSG_JOURNAL_TASK:
        return job_id_ok(m->journal_task.id.job) && m->journal_task.id.task < LIMIT_TASKS_PER_JOB &&
               m->journal_task.worker.v <= NODE_ID_MAX;
    default:
        return good_name(m->history.name);
    }
}

static void recover(struct fuzz *f)
{
    static const enum msg_type kinds[] = {MSG_HISTORY, MSG_JOURNAL_NODE, MSG_JOURNAL_JOB, MSG_JOURNAL_TASK};
    uint32_t n = take_below(&f->in, 32);

    for (uint32_t i = 0; i < n && input_left(&f->in); i++) {
        struct msg m;

        if (take_msg(&f->in, &f->recent, kinds[take_below(&f->in, 4)], &m) && recoverable(&m))
            say(f, &m);
        if (m.type == MSG_JOURNAL_JOB) {
            struct out said = {.v = &m, .n = 1}; /* so that its tasks follow */

            recent_add(&f->recent, &said);
        }
        msg_drop(&m);
    }
    f->recovered = true;
    SAY(f, RECOVERED, recovered, 0, 0);
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
    for (int i = 0; i < 100 && central_next_timeout(f->c) <= f->now_us; i++)
        SAY(f, TIMER, timer, 0, 0);
    CHECK(central_next_timeout(f->c) > f->now_us);
}

static void views(struct fuzz *f)
{
    for (node_id_t n = central_next_node(f->c, NODE_NONE); n.v; n = central_next_node(f->c, n)) {
        struct central_node v;

        CHECK(central_view_node(f->c, n, f->now_us, &v));
        CHECK(v.wait_us >= 0);
    }
}

static void set_policy(struct fuzz *f)
{
    struct policy_choice *c = take_choice(&f->in);

    SAY(f, SET_POLICY, set_policy, 0, .client = 3, .choice = c);
    policy_choice_drop(c);
}

static void one_thing(struct fuzz *f)
{
    struct msg m;
    uint8_t b = take_u8(&f->in);

    switch (b % 16) {
    case 0:
        node_joins(f);
        return;
    case 1:
        SAY(f, PEER_LOST, peer_lost, some_link(f), ROLE_NONE);
        return;
    case 2:
    case 3:
        time_passes(f);
        return;
    case 4:
    case 5:
        journal_answers(f);
        return;
    case 6:
        views(f);
        return;
    case 7:
        take_batch(&f->in, deliver, f);
        return;
    case 8:
        if (b > 250)
            SAY(f, STOP, stop, 0, .now = take_bool(&f->in));
        else
            set_policy(f);
        return;
    default:
        if (take_msg(&f->in, &f->recent, (enum msg_type)(1 + take_below(&f->in, MSG_WIRE_END - 1)), &m)) {
            m.peer = some_link(f);
            say(f, &m);
        }
        msg_drop(&m);
    }
}

static void configure(struct fuzz *f, struct central_config *c, uint8_t b)
{
    central_config_init(c);
    c->cluster = 7;
    c->epoch = 1;
    c->long_tasks_max = TASKS_MAX;
    c->long_jobs_max = 16;
    c->nodes_max = 8;
    c->finished_kept = 4;
    c->heartbeats = b & 1;
    c->history.share_fixed = b & 2;
    c->history.share_ppm = b & 4 ? 500000 : 0;
    c->policy = take_policy(&f->in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    struct central_config c;
    size_t heap = heap_bytes();
    uint8_t b;

    memset(&f, 0, sizeof f);
    f.in = (struct input){data, data + size};
    f.now_us = US_PER_S;
    f.recent.node = 1;
    f.tasks_max = TASKS_MAX;
    b = take_u8(&f.in);
    configure(&f, &c, b);
    f.c = central_new(&c);
    SAY(&f, START, start, 0, 0);
    recover(&f);
    for (int i = 0; i < STEPS && input_left(&f.in) && !f.stopped; i++)
        one_thing(&f);
    CHECK(heap_bytes() - heap < HEAP_MAX);
    central_free(f.c);
    out_free(&f.out);
    return 0;
}
