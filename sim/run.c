/* The engine: runs submissions, ends of tasks and deliveries in the order of time, and carries out the roles'
 * effects.
 * Events of the same moment run in this order: first all deliveries, with the deliveries that they cause
 * without delay; then one submission; then the end of one task; then deliveries again. So everything that an
 * event causes in that moment is over before the next event. */
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"
#include "sim/internal.h"
#include "sim/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Jobs that never end stop the simulation with an error. That is when no job is left to submit, no task runs,
 * and this has lasted for STALL_US plus STALL_MESSAGES message delays of virtual time. */
#define STALL_US (INT64_C(86400) * US_PER_S)
#define STALL_MESSAGES 8
#define PROGRESS_EVENTS (1u << 16)
/* Approximate memory of a worker at all other nodes, and of its stream with a dist. */
#define WORKER_BYTES 2500u
#define STREAM_BYTES 250u

int sim_error(struct sim *s, int err, const char *fmt, ...)
{
    va_list ap;

    if (s->error)
        return s->error;
    va_start(ap, fmt);
    vsnprintf(s->why, s->why_size, fmt, ap);
    va_end(ap);
    return s->error = err;
}

/* ---- Jobs ---- */

static uint32_t place_for_job(struct sim *s)
{
    if (s->jobs_free_n)
        return s->jobs_free[--s->jobs_free_n];
    vec_grow(s->jobs, s->jobs_n, s->jobs_cap);
    return s->jobs_n++;
}

static void forget_job(struct sim *s, uint32_t place)
{
    free(s->jobs[place].durations_us);
    s->jobs[place].durations_us = NULL;
    vec_grow(s->jobs_free, s->jobs_free_n, s->jobs_free_cap);
    s->jobs_free[s->jobs_free_n++] = place;
}

static int64_t mean_of(const struct running_job *j)
{
    __int128 sum = 0;

    CHECK(j->tasks > 0);
    for (uint32_t i = 0; i < j->tasks; i++)
        sum += j->durations_us[i];
    return (int64_t)(sum / j->tasks);
}

/* A log-uniform factor has the density 1/factor: of uniform ones, that share is kept. */
static int64_t draw_noise(struct sim *s)
{
    uint64_t low = s->config.noise_min_milli, high = s->config.noise_max_milli, factor;

    do
        factor = low + rng_below(&s->rng, high - low + 1);
    while (s->config.noise_log && rng_below(&s->rng, factor) >= low);
    return (int64_t)factor;
}

static int64_t estimate_of(struct sim *s, const struct running_job *j, int64_t mean_us)
{
    switch ((enum sim_estimates)s->config.estimates) {
    case SIM_ESTIMATE_EXACT:
        return mean_of(j);
    case SIM_ESTIMATE_NOISE:
        return (int64_t)((__int128)mean_us * draw_noise(s) / 1000);
    case SIM_ESTIMATE_HISTORY:
        return 0;
    default:
        return mean_us;
    }
}

/* Workloads have no job names. Runs of the same program are alike, so jobs of similar length and size share a
 * name: means within a quarter of a power of two, numbers of tasks within a power of two. */
static struct blob *name_of(int64_t mean_us, uint32_t tasks)
{
    char name[32];
    unsigned quarters = 0, size = 0;

    for (int64_t m = mean_us; m >= 8; m /= 2, quarters += 4)
        if (m < 16)
            quarters += (unsigned)(m - 8) / 2;
    for (; tasks > 1; tasks /= 2)
        size++;
    snprintf(name, sizeof name, "m%u-t%u", quarters, size);
    return blob_str(name);
}

/* No draw of the simulation's generator: so the same jobs come with any number of users. */
static struct blob *user_of(const struct sim *s, const struct running_job *j)
{
    char name[16];

    snprintf(name, sizeof name, "u%u", (unsigned)(hash_pair(s->config.seed, j->number) % s->config.users));
    return blob_str(name);
}

static struct job_desc *describe(struct sim *s, uint32_t place, int64_t mean_us)
{
    struct job_desc *d = job_desc_new();
    const struct running_job *j = &s->jobs[place];

    d->tasks = j->tasks;
    d->estimate_us = estimate_of(s, j, mean_us);
    if (d->estimate_us == 0 && s->config.estimates != SIM_ESTIMATE_HISTORY && !s->config.compat)
        d->estimate_us = 1; /* 0 would mean: none given; the published simulator's world has many such jobs */
    if (s->config.estimates == SIM_ESTIMATE_MEAN || s->config.estimates == SIM_ESTIMATE_EXACT)
        d->tag = s->next_job.tag; /* with NOISE and HISTORY the estimate alone must decide the class */
    if (s->config.tag_class)
        d->tag = j->class == CLASS_LONG ? TAG_LONG : TAG_SHORT;
    d->kind = PAYLOAD_TIMER;
    strings_add(&d->argv, "0s"); /* the engine times the tasks itself */
    d->shell = place + 1;
    if (s->config.users > 1) {
        blob_drop(d->user);
        d->user = user_of(s, j);
    }
    if (s->config.estimates == SIM_ESTIMATE_HISTORY) {
        blob_drop(d->name);
        d->name = name_of(mean_us, j->tasks);
    }
    return d;
}

static uint32_t deal(struct sim *s)
{
    uint32_t dist = s->next_dist;

    if (s->config.deal_random)
        return (uint32_t)rng_below(&s->rng, s->config.dists);
    s->next_dist = (dist + 1) % s->config.dists;
    return dist;
}

/* Submits s->next_job now. */
static void submit_next(struct sim *s)
{
    const struct trace_job *t = &s->next_job;
    int64_t mean_us = sim_truncated(&s->config, t->mean_us), now_us = bus_now(s->bus);
    uint32_t place = place_for_job(s);
    struct running_job *j = &s->jobs[place];
    struct dist_seqs *seqs;
    struct msg m = {.type = MSG_SUBMIT, .submit = {.client = place}};

    *j = (struct running_job){
        .number = ++s->submitted, .submit_us = now_us, .tasks = t->tasks, .dist = deal(s)};
    j->durations_us = xmalloc(t->tasks * sizeof *j->durations_us);
    for (uint32_t i = 0; i < t->tasks; i++) {
        j->durations_us[i] = sim_truncated(&s->config, t->durations_us[i]);
        if (j->durations_us[i] > j->longest_us)
            j->longest_us = j->durations_us[i];
    }
    j->class = sim_true_class(&s->config, t);
    s->r->classes[j->class].jobs++;
    s->r->classes[j->class].tasks += t->tasks;
    s->r->tasks += t->tasks;
    s->r->last_submit_us = now_us - s->start_us;
    seqs = &s->seqs[j->dist];
    vec_grow(seqs->v, seqs->n, seqs->cap);
    seqs->v[seqs->n++] = place;
    m.submit.desc = describe(s, place, mean_us);
    bus_post(s->bus, s->first_dist_ep + j->dist, now_us, &m);
}

/* Reads the next job and its time. */
static int read_job(struct sim *s)
{
    int64_t second_us;
    int got = s->source->next(s->source->arg, &s->next_job);

    s->more = got > 0;
    if (got < 0)
        return sim_error(s, got, "the workload cannot be read");
    if (got == 0)
        return 0;
    if (s->submitted == 0)
        s->offset_us = s->start_us - s->next_job.submit_us;
    second_us = s->next_job.submit_us;
    if (s->config.compat) {
        s->shift_us = s->submitted && second_us == s->last_second_us ? s->shift_us + 10 * US_PER_MS : 0;
        s->last_second_us = second_us;
        s->next_job.submit_us += s->shift_us;
    }
    return 0;
}

static int64_t next_submit_us(const struct sim *s)
{
    int64_t at_us = s->next_job.submit_us + s->offset_us;

    return !s->more ? TIME_NEVER : at_us > bus_now(s->bus) ? at_us : bus_now(s->bus);
}

/* ---- Effects of roles ---- */

static void on_submitted(struct sim *s, const struct msg_submitted *m)
{
    struct running_job *j = &s->jobs[m->client];
    char id[JOB_ID_TEXT];

    if (m->err) {
        sim_error(s, HAWK_EINVALID, "job %llu was refused: %s", (unsigned long long)j->number,
                  hawk_strerror(m->err));
        return;
    }
    j->id = m->job;
    j->believed = m->class;
    CHECK(s->seqs[j->dist].v[job_id_seq(m->job) - 1] == m->client);
    if (j->number != s->config.trace_job)
        return;
    s->traced = m->job;
    fprintf(s->config.trace_to, "# job %llu of the workload is %s: %u tasks, %s\n",
            (unsigned long long)j->number, job_id_format(id, m->job), j->tasks, class_text(m->class));
}

static void on_job_event(struct sim *s, uint32_t ep, int64_t now_us, const struct msg_job_event *m)
{
    uint32_t place = s->seqs[ep - s->first_dist_ep].v[job_id_seq(m->job) - 1];
    struct running_job *j = &s->jobs[place];
    struct sim_result *r = s->r;

    if (!job_state_final(m->state))
        return;
    CHECK(job_eq(j->id, m->job));
    if (m->done != j->tasks)
        sim_error(s, HAWK_EINVALID, "job %llu ended with %u of %u tasks done", (unsigned long long)j->number,
                  m->done, j->tasks);
    vec_grow(r->jobs, r->jobs_n, r->jobs_cap);
    r->jobs[r->jobs_n++] = (struct sim_job_result){.number = j->number,
                                                   .submit_us = j->submit_us - s->start_us,
                                                   .response_us = now_us - j->submit_us,
                                                   .longest_us = j->longest_us,
                                                   .tasks = j->tasks,
                                                   .class = j->class,
                                                   .believed = j->believed};
    r->classes[j->class].mistaken += j->believed != j->class;
    r->end_us = now_us - s->start_us;
    s->ended++;
    forget_job(s, place);
}

static void exec_start(struct sim *s, uint32_t ep, int64_t now_us, const struct msg_exec_start *m)
{
    const struct running_job *j = &s->jobs[m->desc->shell - 1];

    sim_values_add(&s->waits[j->class], now_us - j->submit_us);
    sim_run_start(s, ep, m->run, now_us, j->durations_us[m->id.task]);
    bus_post(s->bus, ep, now_us,
             &(struct msg){.type = MSG_EXEC_STARTED, .exec_started = {.run = m->run, .pid = 1}});
}

/* Every record is durable at once. */
static void journal_done(struct sim *s, uint32_t ep, int64_t now_us, uint64_t token)
{
    bus_post(s->bus, ep, now_us, &(struct msg){.type = MSG_JOURNAL_DONE, .journal_done.token = token});
}

void sim_effect(void *arg, uint32_t ep, int64_t now_us, const struct msg *m)
{
    struct sim *s = arg;

    switch (m->type) {
    case MSG_EXEC_START:
        exec_start(s, ep, now_us, &m->exec_start);
        break;
    case MSG_EXEC_KILL:
        sim_run_kill(s, ep, m->exec_kill.run, now_us);
        break;
    case MSG_EXEC_PAUSE:
        sim_run_pause(s, ep, m->exec_pause.run, now_us);
        break;
    case MSG_EXEC_RESUME:
        sim_run_resume(s, ep, m->exec_resume.run, now_us);
        break;
    case MSG_SUBMITTED:
        on_submitted(s, &m->submitted);
        break;
    case MSG_JOB_EVENT:
        on_job_event(s, ep, now_us, &m->job_event);
        break;
    default: /* HISTORY, and events for clients: there are none */
        if (msg_journal_token(m))
            journal_done(s, ep, now_us, msg_journal_token(m));
    }
}

static void name_endpoint(const struct sim *s, uint32_t ep, char *buf, size_t size)
{
    if (ep == 0)
        snprintf(buf, size, "-");
    else if (ep == s->central_ep)
        snprintf(buf, size, "central");
    else if (sim_is_worker(s, ep))
        snprintf(buf, size, "w%u", sim_worker_of(s, ep) + 1);
    else
        snprintf(buf, size, "d%u", ep - s->first_dist_ep + 1);
}

static void trace_hop(const struct sim *s, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m)
{
    char line[512], sender[16], receiver[16];

    msg_format(m, line, sizeof line);
    name_endpoint(s, from, sender, sizeof sender);
    name_endpoint(s, to, receiver, sizeof receiver);
    fprintf(s->config.trace_to, "%lld.%06lld %s -> %s %s\n", (long long)((now_us - s->start_us) / US_PER_S),
            (long long)((now_us - s->start_us) % US_PER_S), sender, receiver, line);
}

HAWK_RARE static void trace_delivery(struct sim *s, int64_t now_us, uint32_t from, uint32_t to,
                                     const struct msg *m)
{
    if (job_eq(msg_job(m), s->traced))
        trace_hop(s, now_us, from, to, m);
}

void sim_delivery(void *arg, int64_t now_us, uint32_t from, uint32_t to, const struct msg *m)
{
    struct sim *s = arg;
    struct sim_result *r = s->r;

    if (!s->up) {
        r->start_events++;
        return;
    }
    r->by_type[m->type]++;
    if (from != 0) {
        r->central_received += to == s->central_ep;
        r->central_sent += from == s->central_ep;
    }
    if (s->traced.v)
        trace_delivery(s, now_us, from, to, m);
}

/* ---- The clock ---- */

#define COMPAT_SAMPLE_US (100 * US_PER_S)

/* Short runs have samples enough, and long ones not too many. */
static void thin_samples(struct sim *s)
{
    struct sim_result *r = s->r;

    for (uint32_t i = 0; i < r->utilization_n; i += 2)
        r->utilization[i / 2] = r->utilization[i];
    r->utilization_n = (r->utilization_n + 1) / 2;
    s->running_samples_submitted = (s->running_samples_submitted + 1) / 2;
    r->sample_us *= 2;
}

static int sample(struct sim *s)
{
    struct sim_result *r = s->r;

    if (r->utilization_n == SIM_SAMPLES_MAX)
        return sim_error(s, HAWK_ELIMIT, "more than %u samples of utilization: take them further apart",
                         SIM_SAMPLES_MAX);
    vec_grow(r->utilization, r->utilization_n, r->utilization_cap);
    r->utilization[r->utilization_n++] =
        (float)((double)s->ends.n / ((double)s->config.workers * s->config.slots));
    if (s->more)
        s->running_samples_submitted = r->utilization_n;
    if (r->utilization_n == SIM_SAMPLES_THINNED && !s->config.sample_us && !s->config.compat)
        thin_samples(s);
    s->next_sample_us = s->start_us + r->utilization_n * r->sample_us;
    return 0;
}

/* The next moment at which the engine itself acts, at or after now. */
static int64_t next_own_us(const struct sim *s)
{
    const struct heap_node *end = heap_min(&s->ends);
    int64_t at_us = earlier(next_submit_us(s), end ? end->key : TIME_NEVER);

    if (at_us != TIME_NEVER && s->next_sample_us < at_us)
        at_us = s->next_sample_us;
    return at_us;
}

static int act(struct sim *s, int64_t now_us)
{
    bus_run_until(s->bus, now_us); /* runs nothing: only the time passes */
    s->acted_us = now_us;
    if (s->next_sample_us <= now_us)
        return sample(s);
    if (s->more && next_submit_us(s) <= now_us) {
        submit_next(s);
        return read_job(s);
    }
    sim_run_end_first(s);
    return 0;
}

static int run(struct sim *s)
{
    int64_t stall_us = STALL_US + STALL_MESSAGES * s->config.delay_max_us;
    uint64_t steps = 0;

    while (!s->error && (s->more || s->ended < s->submitted)) {
        int64_t own_us = next_own_us(s);

        if (++steps % PROGRESS_EVENTS == 0 && s->config.progress)
            s->config.progress(s->config.progress_arg, bus_now(s->bus) - s->start_us, s->ended);
        if (own_us == TIME_NEVER) {
            if (!bus_run_one(s->bus, s->acted_us + stall_us))
                return sim_error(s, HAWK_ETIMEOUT, "%llu jobs never end",
                                 (unsigned long long)(s->submitted - s->ended));
        } else if (!bus_run_one(s->bus, own_us) && act(s, own_us) < 0) {
            break;
        }
    }
    return s->error;
}

static double thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sim_free(struct sim *s)
{
    if (s->bus)
        sim_cluster_free(s);
    for (uint32_t i = 0; i < s->jobs_n; i++)
        free(s->jobs[i].durations_us);
    for (int k = 0; k < CLASS_COUNT; k++)
        free(s->waits[k].v);
    free(s->jobs);
    free(s->jobs_free);
    heap_free(&s->ends);
    free(s->runs);
}

int sim_run(const struct sim_config *c, const struct sim_source *source, struct sim_result *r, char *why,
            size_t size)
{
    struct sim s = {.config = *c, .source = source, .r = r, .why = why, .why_size = size};
    double from_s = thread_seconds();
    int err;

    *r = (struct sim_result){0};
    err = sim_config_check(c, why, size);
    if (err)
        return err;
    sim_memory_expect((uint64_t)c->workers * (WORKER_BYTES + STREAM_BYTES * (uint64_t)c->dists));
    rng_seed(&s.rng, c->seed);
    r->sample_us = c->sample_us ? c->sample_us : c->compat ? COMPAT_SAMPLE_US : SIM_SAMPLE_LEAST_US;
    s.next_sample_us = TIME_NEVER;
    sim_cluster_start(&s);
    s.next_sample_us = s.start_us;
    err = read_job(&s);
    if (!err)
        err = run(&s);
    if (!err)
        sim_result_fill(&s);
    sim_free(&s);
    r->cpu_s = thread_seconds() - from_s;
    return err;
}
