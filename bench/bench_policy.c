/* What the schedulers' own code costs, without any wire: central's role placing long tasks on 100,000
 * workers, and the dist's role probing and binding short ones on 1,000. CPU time; a cycle of central's is one
 * task placed, its start and its end reported. Usage: bench_policy [FILE.json [ROUNDS [WORKERS]]] */
#include "base/mem.h"
#include "base/rng.h"
#include "base/units.h"
#include "bench/lib/figures.h"
#include "central/central.h"
#include "dist/dist.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* ---- Central: 1.5 long tasks per worker; each job's estimate is random, and each task's run time about it ---- */

#define CENTRAL_JOB_TASKS 10u
#define CENTRAL_CYCLES 500000u /* of a round, at least */
#define WINDOW_US US_PER_S /* of virtual time; what its reports say is looked up before they are measured */
#define JOURNAL_GROUP 100u /* records that the journal commits at a time */
#define ESTIMATE_S_MAX 1000u
#define SETTLE_S 10  /* until central knows that every worker knows its partition */
#define DIST_LINK 1u /* the others are workers' */
#define OUT_MAX 512u /* messages that gather before they are dropped */
#define QUEUE_MAX 32u

struct placed {
    struct try_id id;
    int64_t estimate_us;
};

struct queue { /* what one worker has: the first of them runs, until then */
    struct heap_node ends;
    struct placed v[QUEUE_MAX];
    uint32_t head, n;
};

/* Of one worker: the task that ends there, if any, and the one that starts. */
struct report {
    uint32_t link;
    bool ends, starts;
    struct placed ended, started;
};

struct launch {
    uint32_t link;
    struct placed task;
};

struct central_load {
    struct central *c;
    struct out out;
    struct rng rng;
    int64_t now_us;
    struct queue *at; /* by link */
    struct heap ends;
    struct report *due;      /* of this window */
    struct launch *launches; /* since they were last taken to their workers */
    uint32_t workers, due_n, launches_n, launches_cap;
    uint64_t ended;
    uint32_t seen; /* of out: what was carried already */
    uint64_t token, told, job;
    struct job_desc *desc;
};

static void central_hear(struct central_load *l, const struct msg *m)
{
    struct event e = {.now_us = l->now_us, .m = *m};

    central_step(l->c, &e, &l->out);
}

/* Carries what central put out: tasks gather for their workers, which also agree to their partition; records go to a
 * journal that commits in groups. */
static void central_carry(struct central_load *l, uint32_t group)
{
    for (; l->seen < l->out.n; l->seen++) {
        const struct msg m = l->out.v[l->seen]; /* what is heard below moves the array */

        l->token = msg_journal_token(&m) ? msg_journal_token(&m) : l->token;
        if (m.type == MSG_TASK_ENQUEUE) {
            vec_grow(l->launches, l->launches_n, l->launches_cap);
            l->launches[l->launches_n++] =
                (struct launch){m.peer, {m.task_enqueue.id, m.task_enqueue.estimate_us}};
        } else if (m.type == MSG_PARTITION) {
            central_hear(l, &(struct msg){.type = MSG_PARTITION_ACK,
                                          .peer = m.peer,
                                          .partition_ack.epoch = m.partition.epoch});
        } else if (m.type == MSG_LONG_REFUSED) {
            bench_die("a job was refused: %s", hawk_strerror(m.long_refused.err));
        }
        if (l->seen + 1 == l->out.n && l->token >= l->told + group) {
            l->told = l->token;
            central_hear(l, &(struct msg){.type = MSG_JOURNAL_DONE, .journal_done.token = l->token});
        }
    }
    if (l->out.n > OUT_MAX) {
        out_clear(&l->out);
        l->seen = 0;
    }
}

static void central_submit(struct central_load *l, uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks / CENTRAL_JOB_TASKS; i++) {
        struct msg m = {.type = MSG_LONG_SUBMIT, .peer = DIST_LINK};

        m.long_submit = (struct msg_long_submit){
            .job = job_id_make((node_id_t){1}, ++l->job),
            .desc = l->desc,
            .estimate_us = (int64_t)rng_below(&l->rng, ESTIMATE_S_MAX * US_PER_S) + 1,
            .epoch = 1,
            .why = WHY_ESTIMATE};
        central_hear(l, &m);
        central_carry(l, 1);
    }
}

static void central_report(struct central_load *l, const struct report *r)
{
    if (r->ends) {
        struct msg m = {.type = MSG_TASK_FINISHED, .peer = r->link};

        m.task_finished = (struct msg_task_finished){
            .id = r->ended.id, .run_us = r->ended.estimate_us, .outcome = OUTCOME_EXITED};
        central_hear(l, &m);
        central_carry(l, JOURNAL_GROUP);
    }
    if (r->starts) {
        central_hear(
            l, &(struct msg){.type = MSG_TASK_STARTED, .peer = r->link, .task_started.id = r->started.id});
        central_carry(l, JOURNAL_GROUP);
    }
}

/* A worker's first task starts. It runs for half its estimate to one and a half of it. */
static void first_starts(struct central_load *l, struct report *r)
{
    struct queue *q = &l->at[r->link];
    int64_t estimate_us;

    if (q->n == 0)
        return;
    r->starts = true;
    r->started = q->v[q->head];
    estimate_us = r->started.estimate_us;
    q->ends.key = l->now_us + estimate_us / 2 + (int64_t)rng_below(&l->rng, (uint64_t)estimate_us);
    q->ends.seq = r->link;
    if (heap_push(&l->ends, &q->ends) < 0)
        bench_die("out of memory");
}

/* The tasks that end by now, and what starts in their place. */
static void look_up_reports(struct central_load *l)
{
    struct heap_node *n;

    for (l->due_n = 0; (n = heap_min(&l->ends)) && n->key <= l->now_us;) {
        struct queue *q = container_of(n, struct queue, ends);

        heap_remove(&l->ends, n);
        l->due[l->due_n++] = (struct report){.link = (uint32_t)n->seq, .ends = true, .ended = q->v[q->head]};
        q->head = (q->head + 1) % QUEUE_MAX;
        q->n--;
    }
    for (uint32_t i = 0; i < l->due_n; i++)
        first_starts(l, &l->due[i]);
}

/* Tasks get to their workers; what starts there at once is to be reported. */
static void take_launches_to_workers(struct central_load *l)
{
    l->due_n = 0;
    for (uint32_t i = 0; i < l->launches_n; i++) {
        struct queue *q = &l->at[l->launches[i].link];

        if (q->n == QUEUE_MAX)
            bench_die("a worker has %u long tasks: placement is not even", QUEUE_MAX);
        q->v[(q->head + q->n++) % QUEUE_MAX] = l->launches[i].task;
        if (q->n > 1)
            continue;
        l->due[l->due_n] = (struct report){.link = l->launches[i].link};
        first_starts(l, &l->due[l->due_n++]);
    }
    l->launches_n = 0;
}

static void central_join(struct central_load *l, uint32_t link, enum role role, uint32_t slots)
{
    char name[32];
    struct msg m = {.type = MSG_JOIN, .peer = link};

    snprintf(name, sizeof name, "node%u", link);
    central_hear(l, &(struct msg){.type = MSG_PEER_UP, .peer = link, .peer_up.role = role});
    m.join = (struct msg_join){.name = blob_str(name),
                               .addr = blob_str("10.1.2.3:7101"),
                               .incarnation = link,
                               .slots = slots,
                               .version = PROTOCOL_VERSION,
                               .role = (uint8_t)role};
    central_hear(l, &m);
    msg_drop(&m);
    central_carry(l, 1);
}

static void central_begin(struct central_load *l, uint32_t workers, uint32_t slots)
{
    struct central_config c;

    *l = (struct central_load){.workers = workers, .now_us = 1000 * US_PER_S, .desc = job_desc_new()};
    rng_seed(&l->rng, 4711);
    central_config_init(&c);
    c.cluster = 1;
    c.heartbeats = false;
    c.history.share_fixed = true;
    c.history.share_ppm = 0;
    c.policy.flags &= ~(uint32_t)POLICY_STEAL;
    l->c = central_new(&c);
    central_hear(l, &(struct msg){.type = MSG_START});
    central_hear(l, &(struct msg){.type = MSG_RECOVERED});
    central_join(l, DIST_LINK, ROLE_DIST, 0);
    for (uint32_t i = 2; i < workers + 2; i++)
        central_join(l, i, ROLE_WORKER, slots);
    for (int64_t end_us = l->now_us + SETTLE_S * US_PER_S; central_next_timeout(l->c) <= end_us;) {
        l->now_us = central_next_timeout(l->c) > l->now_us ? central_next_timeout(l->c) : l->now_us;
        central_hear(l, &(struct msg){.type = MSG_TIMER});
        central_carry(l, 1);
    }
    out_clear(&l->out);
    l->seen = 0;
    l->desc->tasks = CENTRAL_JOB_TASKS;
    strings_add(&l->desc->argv, "true");
}

static void central_end(struct central_load *l)
{
    central_free(l->c);
    out_clear(&l->out);
    out_free(&l->out);
    job_desc_drop(l->desc);
    free(l->at);
    free(l->due);
    free(l->launches);
    heap_free(&l->ends);
}

static double central_bytes_per_slot(uint32_t workers, uint32_t slots)
{
    struct central_load l;
    uint64_t before = heap_bytes();
    double bytes;

    central_begin(&l, workers, slots);
    out_free(&l.out);
    bytes = (double)(heap_bytes() - before) / workers / slots;
    central_end(&l);
    return bytes;
}

/* Returns the processor time that central took for them; as many tasks come as end. */
static double central_reports(struct central_load *l)
{
    double at = cpu_s();

    for (uint32_t i = 0; i < l->due_n; i++) {
        central_report(l, &l->due[i]);
        if (l->due[i].ends && ++l->ended % CENTRAL_JOB_TASKS == 0)
            central_submit(l, CENTRAL_JOB_TASKS);
    }
    return cpu_s() - at;
}

static double central_window(struct central_load *l)
{
    double cpu;

    l->now_us += WINDOW_US;
    look_up_reports(l);
    cpu = central_reports(l);
    take_launches_to_workers(l);
    return cpu + central_reports(l);
}

static double central_cycles_per_s(struct central_load *l)
{
    uint64_t from = l->ended;
    double cpu = 0;

    while (l->ended < from + CENTRAL_CYCLES)
        cpu += central_window(l);
    return (double)(l->ended - from) / cpu;
}

static void central_load_begin(struct central_load *l, uint32_t workers)
{
    central_begin(l, workers, 1);
    l->at = xcalloc(workers + 2, sizeof *l->at);
    l->due = xcalloc(workers, sizeof *l->due);
    heap_init(&l->ends);
    central_submit(l, workers + workers / 2);
    take_launches_to_workers(l);
    central_reports(l);
    central_cycles_per_s(l); /* until the estimates are mixed */
}

/* ---- What memory alone takes ---- */

#define CHASE_LINES 1048576u /* 64 MB: central's nodes of some 100,000 workers */
#define CHASE_READS 2000000u

struct line {
    _Alignas(64) uint32_t next;
};

/* All lines in one ring, in random order. */
static struct line *chase_new(void)
{
    struct line *v = xaligned(_Alignof(struct line), CHASE_LINES * sizeof *v);
    struct rng rng;

    rng_seed(&rng, 4711);
    for (uint32_t i = 0; i < CHASE_LINES; i++)
        v[i].next = i;
    for (uint32_t i = CHASE_LINES; --i > 0;) {
        uint32_t j = (uint32_t)rng_below(&rng, i), next = v[i].next;

        v[i].next = v[j].next;
        v[j].next = next;
    }
    return v;
}

/* Of one read when its address is what the read before has found. */
static double chase_ns(const struct line *v)
{
    double at = cpu_s();
    uint32_t i = 0;

    for (uint32_t n = 0; n < CHASE_READS; n++)
        i = v[i].next;
    at = cpu_s() - at;
    return i < CHASE_LINES ? at * 1e9 / CHASE_READS : 0;
}

/* ---- Central, measured ---- */

#define MANY "central, place + start + end"
#define FEW "central, the same with 1,000 workers"

/* Beside many workers, whose state lies all over the memory, a few whose state fits the processor's cache:
 * the bound. */
static void measure_central(struct figures *f, uint32_t rounds, uint32_t workers)
{
    struct central_load many, few;
    struct line *lines;

    for (uint32_t i = 0; i < 2; i++) {
        figures_add(f, "central, memory per slot, 1 slot each", "B", central_bytes_per_slot(workers, 1));
        figures_add(f, "central, memory per slot, 16 slots each", "B", central_bytes_per_slot(workers, 16));
    }
    figures_at_most(f, "central, memory per slot, 16 slots each", 200);
    central_load_begin(&many, workers);
    central_load_begin(&few, 1000);
    lines = chase_new();
    for (uint32_t i = 0; i < rounds; i++) {
        figures_add(f, MANY, "/s", central_cycles_per_s(&many));
        figures_add(f, FEW, "/s", central_cycles_per_s(&few));
        figures_add(f, "a read of 64 MB, one after the other", "ns", chase_ns(lines));
    }
    free(lines);
    figures_at_least(f, MANY, 600000);
    central_end(&many);
    central_end(&few);
}

/* ---- A dist: jobs of 100 tasks, 1,000 workers ---- */

#define DIST_WORKERS 1000u
#define DIST_JOB_TASKS 100u
#define DIST_JOBS 100u /* at a time */
#define DIST_BATCHES 20u
#define DIST_NODE 2000u /* its own id; the workers' are 1 to DIST_WORKERS */

struct dist_load {
    struct dist d;
    struct out out;
    struct rng rng;
    int64_t now_us;
    struct msg *probes, *launches; /* what the workers hear */
    uint32_t n_probes, n_launches;
    uint32_t request[DIST_WORKERS + 1];
    uint64_t probed, requested, cancels;
    double probing_s, rest_s;
    struct job_desc *desc;
};

static void dist_hear(struct dist_load *l, const struct msg *m)
{
    struct event e = {.now_us = l->now_us, .m = *m};

    dist_step(&l->d, &e, &l->out);
}

static void dist_begin(struct dist_load *l)
{
    struct dist_config c;

    rng_seed(&l->rng, 4711);
    l->now_us = 1000 * US_PER_S;
    dist_config_init(&c);
    c.name = c.addr = blob_str("d");
    c.heartbeats = false;
    dist_init(&l->d, &c, 1);
    dist_hear(l, &(struct msg){.type = MSG_START});
    dist_hear(l, &(struct msg){.type = MSG_PEER_UP, .peer = NODE_CENTRAL.v, .peer_up.role = ROLE_CENTRAL});
    dist_hear(l, &(struct msg){.type = MSG_JOINED, .peer = NODE_CENTRAL.v, .joined.node = {DIST_NODE}});
    for (uint32_t i = 1; i <= DIST_WORKERS; i++) {
        struct msg m = {.type = MSG_MEMBER, .peer = NODE_CENTRAL.v};

        m.member = (struct msg_member){
            .addr = c.addr, .name = c.name, .node = {i}, .slots = 16, .role = ROLE_WORKER, .general = 1};
        dist_hear(l, &m);
        dist_hear(l, &(struct msg){.type = MSG_PEER_UP, .peer = i, .peer_up.role = ROLE_WORKER});
    }
    out_clear(&l->out);
    blob_drop(c.name);
    l->probes = xcalloc((size_t)DIST_JOBS * DIST_JOB_TASKS * 4, sizeof *l->probes);
    l->launches = xcalloc((size_t)DIST_JOBS * DIST_JOB_TASKS, sizeof *l->launches);
    l->desc = job_desc_new();
    l->desc->tasks = DIST_JOB_TASKS;
    l->desc->tag = TAG_SHORT;
    strings_add(&l->desc->argv, "true");
}

static void shuffle(struct rng *r, struct msg *v, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        struct msg m = v[i - 1];

        v[i - 1] = v[j];
        v[j] = m;
    }
}

/* What a batch of submissions put out: the probes, one at a time. */
static void take_probes(struct dist_load *l)
{
    l->n_probes = 0;
    for (uint32_t i = 0; i < l->out.n; i++)
        for (uint32_t j = 0; l->out.v[i].type == MSG_PROBE && j < l->out.v[i].probe.count; j++)
            l->probes[l->n_probes++] = l->out.v[i];
    out_clear(&l->out);
    l->probed += l->n_probes;
    shuffle(&l->rng, l->probes, l->n_probes);
}

/* A job's later reservations are cancelled before they ask. */
static uint32_t request_all(struct dist_load *l, uint64_t first_seq)
{
    uint32_t asked[DIST_JOBS] = {0}, n = 0;

    for (uint32_t i = 0; i < l->n_probes; i++) {
        struct msg *p = &l->probes[i], m = {.type = MSG_TASK_REQUEST, .peer = p->peer};

        if (asked[job_id_seq(p->probe.job) - first_seq]++ >= DIST_JOB_TASKS)
            continue;
        m.task_request.job = p->probe.job;
        m.task_request.request = ++l->request[p->peer];
        m.task_request.has_spec = 1;
        dist_hear(l, &m);
        n++;
    }
    return n;
}

static void take_launches(struct dist_load *l)
{
    l->n_launches = 0;
    for (uint32_t i = 0; i < l->out.n; i++) {
        l->cancels += l->out.v[i].type == MSG_PROBE_CANCEL;
        if (l->out.v[i].type == MSG_TASK_LAUNCH)
            l->launches[l->n_launches++] = l->out.v[i]; /* the description was not asked for */
    }
    out_clear(&l->out);
}

static void end_all(struct dist_load *l)
{
    for (uint32_t i = 0; i < l->n_launches; i++) {
        struct msg *p = &l->launches[i], m = {.type = MSG_TASK_STARTED, .peer = p->peer};

        m.task_started = (struct msg_task_started){.id = p->task_launch.id, .wait_us = 100};
        dist_hear(l, &m);
    }
    for (uint32_t i = 0; i < l->n_launches; i++) {
        struct msg *p = &l->launches[i], m = {.type = MSG_TASK_FINISHED, .peer = p->peer};

        m.task_finished =
            (struct msg_task_finished){.id = p->task_launch.id, .run_us = 100, .outcome = OUTCOME_EXITED};
        dist_hear(l, &m);
    }
}

static void dist_batch(struct dist_load *l, uint64_t first_seq)
{
    double at = cpu_s();

    for (uint32_t i = 0; i < DIST_JOBS; i++)
        dist_hear(l, &(struct msg){.type = MSG_SUBMIT, .submit.desc = l->desc});
    l->probing_s += cpu_s() - at;
    take_probes(l);
    l->now_us += 100;
    at = cpu_s();
    l->requested += request_all(l, first_seq);
    l->probing_s += cpu_s() - at;
    take_launches(l);
    if (l->n_launches != DIST_JOBS * DIST_JOB_TASKS)
        bench_die("%u of %u tasks were launched", l->n_launches, DIST_JOBS * DIST_JOB_TASKS);
    l->now_us += 100;
    at = cpu_s();
    end_all(l);
    l->rest_s += cpu_s() - at;
    out_clear(&l->out);
    if (!dist_quiet(&l->d))
        bench_die("not every job has ended");
}

static void measure_dist(struct figures *f, uint32_t rounds)
{
    struct dist_load *l = xcalloc(1, sizeof *l);
    uint64_t seq = 1;

    dist_begin(l);
    for (uint32_t i = 0; i <= rounds; i++) {
        double n;

        l->probed = l->requested = l->cancels = 0;
        l->probing_s = l->rest_s = 0;
        for (uint32_t b = 0; b < DIST_BATCHES; b++, seq += DIST_JOBS)
            dist_batch(l, seq);
        n = (double)(l->probed + l->requested);
        if (i == 0)
            continue; /* until as many finished jobs are kept as ever will be */
        figures_add(f, "dist, probes + requests", "/s", n / l->probing_s);
        figures_add(f, "dist, the same, tasks' starts and ends counted in", "/s",
                    n / (l->probing_s + l->rest_s));
        figures_add(f, "dist, whole lives of tasks", "/s", (double)l->requested / (l->probing_s + l->rest_s));
    }
    figures_at_least(f, "dist, probes + requests", 5e6);
    dist_free(&l->d);
    out_free(&l->out);
    free(l->probes);
    free(l->launches);
    job_desc_drop(l->desc);
    free(l);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
    uint32_t workers = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 100000;
    struct figures *f = figures_new("policy");

    bench_name("bench_policy");
    if (rounds < 1 || rounds > 100 || workers < 100)
        bench_die("usage: bench_policy [FILE.json [ROUNDS [WORKERS]]]");
    printf("policy objects alone, CPU time: central with %u workers, a dist with %u\n", workers,
           DIST_WORKERS);
    measure_central(f, rounds, workers);
    measure_dist(f, rounds);
    figures_end(f, argc > 1 ? argv[1] : NULL);
    return 0;
}
