/* History of finished jobs: estimates by name, and from a window of the last jobs the cutoff and the share
 * of the short partition. All in integers, so that the same jobs give the same policy on any machine. */
#include "classifier/classifier.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

#define PPM 1000000u
/* Cutoff and share are computed again after this part of the window has changed: one in so many jobs. */
#define REFRESH 64u

/* The means of a name's last runs: a ring. */
struct recent {
    unsigned __int128 sum_us;
    uint32_t n, next;
    int64_t mean_us[];
};

void history_config_init(struct history_config *c)
{
    *c = (struct history_config){
        .window = 10000,
        .min_jobs = 100,
        .names_max = 100000,
        .runs_per_name = 20,
        .cutoff_us = 10 * US_PER_S,
        .cutoff_min_us = 1,
        .cutoff_max_us = LIMIT_TIME_US,
        .cutoff_percentile_ppm = 900000,
        .cutoff_hysteresis_ppm = 100000,
        .share_ppm = 100000,
        .share_max_ppm = 800000,
        .share_hysteresis_ppm = 10000,
    };
}

static uint32_t u32_within(uint32_t v, uint32_t min, uint32_t max)
{
    return v < min ? min : v > max ? max : v;
}
static int64_t time_within(int64_t v, int64_t min, int64_t max) { return v < min ? min : v > max ? max : v; }

void history_init(struct history *h, const struct history_config *config)
{
    struct history_config *c = &h->cfg;

    *h = (struct history){.cfg = *config};
    c->window = u32_within(c->window, 1, 10000000);
    c->min_jobs = u32_within(c->min_jobs, 1, c->window);
    c->runs_per_name = u32_within(c->runs_per_name, 1, 1000);
    c->cutoff_us = time_within(c->cutoff_us, 1, LIMIT_TIME_US);
    c->cutoff_max_us = time_within(c->cutoff_max_us, 1, LIMIT_TIME_US);
    c->cutoff_min_us = time_within(c->cutoff_min_us, 1, c->cutoff_max_us);
    c->cutoff_percentile_ppm = u32_within(c->cutoff_percentile_ppm, 1, PPM);
    c->share_ppm = u32_within(c->share_ppm, 0, PPM);
    c->share_max_ppm = u32_within(c->share_max_ppm, 0, PPM);
    c->share_min_ppm = u32_within(c->share_min_ppm, 0, c->share_max_ppm);
    estimates_init(&h->names, c->names_max);
    crowd_init(&h->jobs, c->window);
    h->cutoff_us = c->cutoff_us;
    h->share_ppm = c->share_ppm;
}

/* ---- Jobs of users ---- */

static struct history_job *job_of(struct crowd_entry *e)
{
    return e ? container_of(e, struct history_job, entry) : NULL;
}

static struct history_job *job_next(const struct crowd *c, const struct history_job *prev)
{
    return job_of(crowd_next(c, prev ? &prev->entry : NULL));
}

/* Where the crowd is full, the job that makes room is added anew. */
static void job_add(struct crowd *c, uint32_t user, const struct history_job *with)
{
    struct history_job *j = job_of(crowd_excess(c));

    if (j) {
        j->entry.of->sum -= j->task_us;
        crowd_make_room(c);
    } else {
        j = xcalloc(1, sizeof *j);
    }
    *j = *with;
    crowd_add(c, user, &j->entry);
    j->entry.of->sum += j->task_us;
}

static void jobs_free(struct crowd *c)
{
    struct history_job *j;

    while ((j = job_next(c, NULL))) {
        crowd_remove(c, &j->entry);
        free(j);
    }
    crowd_free(c);
}

void history_free(struct history *h)
{
    estimates_free(&h->names);
    jobs_free(&h->jobs);
}

/* ---- Estimates by name ---- */

static struct estimate *name_add(struct history *h, uint32_t user, struct blob *name, int64_t mean_us)
{
    struct estimate *e = estimates_open(&h->names, user, name);
    uint32_t max = h->cfg.runs_per_name;
    struct recent *r;

    if (!e)
        return NULL;
    if (!e->recent)
        e->recent = xcalloc(1, sizeof *r + max * sizeof r->mean_us[0]);
    r = e->recent;
    if (r->n == max)
        r->sum_us -= (uint64_t)r->mean_us[r->next];
    else
        r->n++;
    r->mean_us[r->next] = mean_us;
    r->sum_us += (uint64_t)mean_us;
    r->next = (r->next + 1) % max;
    e->mean_us = (int64_t)(r->sum_us / r->n);
    e->runs += e->runs < UINT32_MAX;
    return e;
}

/* ---- The window ---- */

/* What a job of one user weighs in the cutoff: his task-seconds by the number of his jobs, and WEIGHT_UNIT times that
 * against rounding. At most 2^71; so that the sum over a window, in parts of a million, has less than 2^115. */
#define WEIGHT_UNIT 256u
typedef unsigned __int128 weight_t;

static weight_t weight_of(const struct crowd_user *u)
{
    weight_t weight = u->sum * WEIGHT_UNIT / u->n;

    return weight ? weight : 1;
}

struct weighed {
    int64_t mean_us;
    weight_t weight;
};

/* The jobs whose means lie between two bounds, and what they weigh. */
struct weighed_jobs {
    struct weighed *v; /* the caller frees them */
    uint32_t n, cap;
    weight_t below, in, all; /* of those below the bounds, between them, and of all jobs of the window */
};

static struct weighed_jobs weigh(const struct history *h, int64_t min_us, int64_t max_us)
{
    struct weighed_jobs w = {0};

    for (const struct crowd_user *u = h->jobs.users; u; u = u->hh.next) {
        weight_t weight = weight_of(u);
        uint32_t below = 0, before = w.n;

        list_foreach(&u->entries, link, next) {
            int64_t mean_us = job_of(container_of(link, struct crowd_entry, link))->mean_us;

            below += mean_us < min_us;
            if (mean_us < min_us || mean_us >= max_us)
                continue;
            vec_grow(w.v, w.n, w.cap);
            w.v[w.n++] = (struct weighed){mean_us, weight};
        }
        w.below += weight * below;
        w.in += weight * (w.n - before);
        w.all += weight * u->n;
    }
    return w;
}

/* The mean of rank k, from 0, among n jobs, each as often as it weighs. It is found by counting, digit by digit from
 * the top, among the jobs that have the digits found so far. So the cost does not depend on the jobs' order, which
 * peers decide. Leaves nothing in `jobs`. */
static int64_t mean_of_rank(struct weighed *jobs, uint32_t n, weight_t k)
{
    uint64_t any = 1;
    int shift;

    CHECK(jobs && n > 0);
    for (uint32_t i = 0; i < n; i++)
        any |= (uint64_t)jobs[i].mean_us;
    for (shift = 56 - __builtin_clzll(any); shift > -8 && n > 1; shift -= 8) {
        weight_t count[256] = {0};
        uint32_t digit = 0, kept = 0;
        int at = shift > 0 ? shift : 0;

        for (uint32_t i = 0; i < n; i++)
            count[(uint64_t)jobs[i].mean_us >> at & 255] += jobs[i].weight;
        for (; k >= count[digit]; digit++)
            k -= count[digit];
        for (uint32_t i = 0; i < n; i++)
            if (((uint64_t)jobs[i].mean_us >> at & 255) == digit)
                jobs[kept++] = jobs[i];
        n = kept;
    }
    return jobs[0].mean_us;
}

/* The nearest rank: the least value that at least this part of the weight does not exceed. From 0. */
static weight_t cutoff_rank(const struct history *h, weight_t all)
{
    return (all * h->cfg.cutoff_percentile_ppm + PPM - 1) / PPM - 1;
}

/* Looks near the last cutoff first: it seldom moves far. */
static int64_t compute_cutoff(const struct history *h)
{
    struct weighed_jobs w = weigh(h, h->cutoff_us - h->cutoff_us / 8, h->cutoff_us + h->cutoff_us / 8);
    weight_t rank = cutoff_rank(h, w.all);
    int64_t cutoff_us;

    if (rank < w.below || rank - w.below >= w.in) {
        free(w.v);
        w = weigh(h, 0, INT64_MAX);
    }
    cutoff_us = mean_of_rank(w.v, w.n, rank - w.below) + 1; /* jobs of equal length are all short */
    free(w.v);
    return time_within(cutoff_us, h->cfg.cutoff_min_us, h->cfg.cutoff_max_us);
}

void history_shares(const struct history *h, int64_t cutoff_us, struct history_shares *s)
{
    *s = (struct history_shares){.jobs = h->jobs.n};
    for (const struct history_job *j = NULL; (j = job_next(&h->jobs, j));) {
        s->task_us += j->task_us;
        if (j->mean_us >= cutoff_us) {
            s->long_jobs++;
            s->long_task_us += j->task_us;
        }
    }
}

/* ---- Demand ---- */

static void demand_add(struct demand *d, const struct history_job *job, int64_t end_us)
{
    uint64_t tasks = job->task_us / (uint64_t)job->mean_us;
    int64_t most_us = d->time_us > DEMAND_US ? d->time_us : DEMAND_US;
    /* After a pause in short work, the time before it counts as much as the pause, or what comes now would not show. */
    int64_t passed_us = d->jobs ? time_within(end_us - d->last_us, 0, most_us) : 0;
    unsigned __int128 part = DEMAND_US, whole = (unsigned __int128)(DEMAND_US + passed_us);

    if (part * DEMAND_JOBS < whole * (DEMAND_JOBS - 1)) {
        part = DEMAND_JOBS - 1;
        whole = DEMAND_JOBS;
    }
    d->jobs++;
    d->task_us = d->task_us * part / whole + job->task_us;
    d->weighed = d->weighed * part / whole + (unsigned __int128)job->task_us * (tasks ? tasks : 1);
    d->time_us = (int64_t)((unsigned __int128)d->time_us * part / whole) + passed_us;
    d->last_us = end_us;
}

/* It goes on to now, so that a pause in short work counts as well. */
static int64_t demand_time(const struct history *h)
{
    return time_within(h->demand.time_us + h->now_us - h->demand.last_us, 1, INT64_MAX);
}

/* The part of the slots that short jobs kept busy. */
static uint32_t used_ppm(const struct history *h)
{
    unsigned __int128 ppm = h->demand.task_us * PPM / ((unsigned __int128)demand_time(h) * h->demand_slots);

    return ppm < PPM ? (uint32_t)ppm : PPM;
}

static uint32_t square_root(unsigned __int128 v)
{
    uint32_t root = 0;

    for (uint32_t bit = 1u << 31; bit; bit >>= 1)
        if ((unsigned __int128)(root | bit) * (root | bit) <= v)
            root |= bit;
    return root;
}

/* How many tasks come at once: the jobs' numbers of tasks, each by its job's part of the task-seconds. */
static unsigned __int128 batch(const struct demand *d) { return d->task_us ? d->weighed / d->task_us : 1; }

/* Short jobs do not come evenly. Where jobs of b tasks come at random and keep R slots busy, the number of busy slots
 * has a standard deviation of about the square root of R b. They need one more than they used, or a quarter more if
 * that is more; and of what is left for long ones no more than a quarter. */
static uint32_t needed_ppm(const struct history *h, uint32_t used)
{
    uint32_t most = (PPM - used) / 4;
    uint32_t more = square_root((unsigned __int128)used * PPM * batch(&h->demand) / h->demand_slots);

    if (more < used / 4)
        more = used / 4;
    return used + (more < most ? more : most);
}

/* The share with which short jobs have what they need: need = share + (1 - share) * given. Where they are given a part
 * of the other slots, they have a reserve for what they use, and not for more. */
static uint32_t demand_ppm(const struct history *h)
{
    uint32_t used = used_ppm(h), need = needed_ppm(h, used), share;

    if (need <= h->given_ppm)
        return 0;
    share = (uint32_t)((uint64_t)(need - h->given_ppm) * PPM / (PPM - h->given_ppm));
    return h->given_ppm && share > used ? used : share;
}

void history_follow_demand(struct history *h, uint64_t slots, uint32_t given_ppm)
{
    h->demand_slots = slots;
    h->given_ppm = given_ppm;
}

static bool follows_demand(const struct history *h)
{
    return !h->cfg.share_fixed && h->demand_slots && h->demand.jobs >= h->cfg.min_jobs;
}

bool history_share_known(const struct history *h) { return h->cfg.share_fixed || follows_demand(h); }

/* Hawk 3.4: the partitions follow the proportion of task-seconds. */
static uint32_t compute_share(const struct history *h)
{
    unsigned __int128 ppm;
    struct history_shares s;

    if (follows_demand(h)) {
        ppm = demand_ppm(h);
        if (ppm == 0 && h->given_ppm)
            return 0;
    } else {
        history_shares(h, h->cutoff_us, &s);
        if (s.task_us == 0)
            return h->share_ppm;
        ppm = (s.task_us - s.long_task_us) * PPM / s.task_us;
    }
    return u32_within(ppm < PPM ? (uint32_t)ppm : PPM, h->cfg.share_min_ppm, h->cfg.share_max_ppm);
}

static void move_share(struct history *h)
{
    uint32_t share = compute_share(h);
    uint32_t moved = share > h->share_ppm ? share - h->share_ppm : h->share_ppm - share;

    if (!h->share_computed || moved > h->cfg.share_hysteresis_ppm || share == 0)
        h->share_ppm = share;
    h->share_computed = true;
}

void history_compute(struct history *h)
{
    h->since = 0;
    if (h->jobs.n < h->cfg.min_jobs)
        return;
    if (!h->cfg.cutoff_fixed) {
        int64_t cutoff_us = compute_cutoff(h);
        int64_t moved_us = cutoff_us > h->cutoff_us ? cutoff_us - h->cutoff_us : h->cutoff_us - cutoff_us;

        if (!h->cutoff_computed ||
            (__int128)moved_us * PPM > (__int128)h->cutoff_us * h->cfg.cutoff_hysteresis_ppm)
            h->cutoff_us = cutoff_us;
        h->cutoff_computed = true;
    }
    if (!h->cfg.share_fixed)
        move_share(h);
}

#define LOOK_PARTS 8u        /* the demand is looked at again after this part of its time, */
#define LOOK_MIN_US US_PER_S /* and not sooner */

int64_t history_look(struct history *h, int64_t now_us)
{
    if (!follows_demand(h))
        return TIME_NEVER;
    h->now_us = now_us;
    move_share(h);
    return now_us + time_within(demand_time(h) / LOOK_PARTS, LOOK_MIN_US, LIMIT_TIME_US);
}

struct estimate *history_add(struct history *h, uint32_t user, struct blob *name, int64_t mean_us,
                             uint64_t task_us, int64_t end_us)
{
    struct history_job job = {.mean_us = time_within(mean_us, 1, LIMIT_TIME_US), .task_us = task_us};

    job_add(&h->jobs, user, &job);
    h->since++;
    if (end_us) {
        h->now_us = end_us;
        if (job.mean_us < h->cutoff_us)
            demand_add(&h->demand, &job, end_us);
    }
    if (h->since >= h->jobs.n / REFRESH)
        history_compute(h);
    return name_add(h, user, name, job.mean_us);
}

void history_fix_cutoff(struct history *h, int64_t cutoff_us)
{
    h->cutoff_us = h->cfg.cutoff_us = time_within(cutoff_us, 1, LIMIT_TIME_US);
    h->cfg.cutoff_fixed = true;
    h->cutoff_computed = false;
}

void history_fix_share(struct history *h, uint32_t share_ppm)
{
    h->share_ppm = h->cfg.share_ppm = u32_within(share_ppm, 0, PPM);
    h->cfg.share_fixed = true;
    h->share_computed = false;
}

void history_set_back(struct history *h, const struct history_config *c)
{
    history_fix_cutoff(h, c->cutoff_us);
    history_fix_share(h, c->share_ppm);
    h->cfg.cutoff_fixed = c->cutoff_fixed;
    h->cfg.share_fixed = c->share_fixed;
    history_compute(h);
}
