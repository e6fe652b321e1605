/* Views of a dist's jobs, tasks, reservations and nodes. */
#include "dist/internal.h"

const struct dist_job *dist_find(const struct dist *d, job_id_t job)
{
    const struct dist_job *found = dist_job_find(d, job);

    return found && found->submitted ? found : NULL;
}

const struct dist_job *dist_find_key(const struct dist *d, uint64_t key)
{
    struct dist_job *found;

    HASH_FIND(hh_key, d->by_key, &key, sizeof key, found);
    return found;
}

static const struct dist_job *accepted_at(const struct dist *d, const struct list *at)
{
    return at == &d->accepted ? NULL : container_of(at, struct dist_job, in_all);
}

const struct dist_job *dist_newest(const struct dist *d) { return accepted_at(d, d->accepted.prev); }

const struct dist_job *dist_older(const struct dist *d, const struct dist_job *job)
{
    return accepted_at(d, job->in_all.prev);
}

int64_t dist_oldest_us(const struct dist *d, enum job_state s)
{
    const struct list *jobs = &d->jobs[s];

    return list_empty(jobs) ? TIME_NEVER : container_of(jobs->next, struct dist_job, in_state)->submit_us;
}

void dist_job_view(const struct dist *d, const struct dist_job *job, int64_t now_us, struct job_view *v)
{
    bool final = job_state_final(job->state);

    *v = (struct job_view){
        .job = job->id,
        .desc = job->desc,
        .owner = job->hand == HAND_ACCEPTED ? NODE_CENTRAL : d->node,
        .state = job->state,
        .class = job->class,
        .why = job->why,
        .epoch = job->hand == HAND_NONE ? job->own_epoch : job->epoch,
        .estimate_us = job->estimate_us,
        .cutoff_us = job->cutoff_us,
        .held = job->held && !final,
        .overstays = job->overstays,
        .cause = job->cause,
        .abandoned = job->abandoned,
        .by_client = job->by_client,
        .no_executor = job->app && !final && job->in[TASK_WAITING] > 0 &&
                       draw_total(&job->app->pool[POOL_ALL].draw) == 0,
        .waiting = job->in[TASK_WAITING],
        .placed = job->in[TASK_PLACED] + job->in[TASK_LAUNCHED],
        .running = job->in[TASK_RUNNING],
        .done = job->in[TASK_DONE],
        .failed = job->in[TASK_FAILED],
        .cancelled = job->in[TASK_CANCELLED],
        .lost = job->in[TASK_LOST],
        .age_us = now_us - job->submit_us,
        .response_us = final ? job->end_us - job->submit_us : -1,
        .first_start_us = job->first_wait_us,
        .probes_sent = job->probes_sent,
        .probes_live = job->live,
        .probes_cancelled = job->probes_cancelled,
        .probes_unused = job->probes_unused,
        .probes_lost = job->probes_lost,
        .reservations_stolen = job->reservations_stolen,
        .total = job->total,
    };
    owner_pauses_view(&job->pauses, now_us, v);
}

/* How long an ended task ran; -1: it never ran, or the time is not known. */
static int64_t ran_us(const struct dist_task *t)
{
    bool told = t->outcome == OUTCOME_EXITED || t->outcome == OUTCOME_SIGNALED ||
                t->outcome == OUTCOME_TIME_LIMIT || t->outcome == OUTCOME_OUT_OF_MEMORY;

    return told || t->run_us > 0 ? t->run_us : -1;
}

void dist_task_view(const struct dist *d, const struct dist_job *job, uint32_t task, int64_t now_us,
                    struct task_view *v)
{
    const struct dist_task *t = &job->tasks[task];

    *v = (struct task_view){
        .task = task,
        .state = t->state,
        .outcome = task_state_final(t->state) ? t->outcome : OUTCOME_NONE,
        .stolen = t->stolen,
        .attempt = t->attempt,
        .failures = (uint16_t)dist_task_failures(job, task),
        .code = task_state_final(t->state) ? t->code : 0,
        .worker = {t->state == TASK_WAITING ? 0 : t->worker},
        .wait_us = t->started ? t->wait_us : -1,
        .run_us = task_state_final(t->state) ? ran_us(t) : -1,
        .used = dist_task_used(t),
        .message =
            t->outcome == OUTCOME_NOT_STARTED || job->app ? owner_message_find(&job->messages, task) : NULL,
        .result = job->results ? job->results[task] : NULL,
        .result_lost = job->app && t->state == TASK_DONE && !t->has_result,
    };
    owner_pause_view(&job->pauses, task, now_us, v);
}

/* The first place from `at` on with live reservations, or NULL. */
static const struct dist_place *live_from(const struct dist_job *job, const struct list *at)
{
    for (; at != &job->places; at = at->next) {
        const struct dist_place *p = container_of(at, struct dist_place, in_job);

        if (p->live > 0)
            return p;
    }
    return NULL;
}

bool dist_next_reservation(const struct dist *d, const struct dist_job *job, const void **cursor,
                           struct reservation_view *v)
{
    const struct dist_place *p = *cursor;

    p = live_from(job, p ? p->in_job.next : job->places.next);
    *cursor = p;
    if (p)
        *v = (struct reservation_view){.worker = p->node->m.node, .count = p->live};
    return p != NULL;
}

const struct member *dist_next_member(const struct dist *d, node_id_t after)
{
    for (uint32_t i = after.v + 1; i < d->nodes_n; i++) {
        const struct dist_node *n = dist_node_find(d, i);

        if (n && (n->m.state != MEMBER_GONE || n->unlisted))
            return &n->m;
    }
    return NULL;
}

/* ---- Why a job makes no progress ---- */

const char *dist_block_text(enum dist_block b)
{
#define X(name, word, text) text,
    static const char *const texts[] = {DIST_BLOCKS(X)};
#undef X

    return (unsigned)b < DIST_BLOCK_COUNT ? texts[b] : "?";
}

const char *dist_block_word(enum dist_block b)
{
#define X(name, word, text) word,
    static const char *const words[] = {DIST_BLOCKS(X)};
#undef X

    return (unsigned)b < DIST_BLOCK_COUNT ? words[b] : "?";
}

const struct after *dist_next_predecessor(const struct dist_job *job, uint32_t *at)
{
    for (uint32_t i = *at; job->after && i < job->desc->after.n; i++)
        if (!list_empty(&job->after[i].in_pred)) {
            *at = i + 1;
            return &job->desc->after.v[i];
        }
    return NULL;
}

static bool is_draining(const struct dist_node *n) { return n->m.state == MEMBER_DRAINING; }
/* Whether central does not know the worker yet, or is about to have it in the general partition. */
static bool is_unsettled(const struct dist_node *n)
{
    return n->stream && (n->m.state == MEMBER_GONE ? n->unlisted : n->m.state == MEMBER_UP && n->m.unsettled);
}

static bool any_worker(const struct dist *d, bool (*is)(const struct dist_node *n))
{
    for (uint32_t i = 0; i < d->nodes_n; i++) {
        const struct dist_node *n = dist_node_find(d, i);

        if (n && n->m.role == ROLE_WORKER && is(n))
            return true;
    }
    return false;
}

/* A worker that would do, were it its user's job. */
static bool runs_for_one(const struct dist_node *n)
{
    return n->served && n->m.state == MEMBER_UP && n->stream;
}

/* Whether there are workers for the job in pool p, and all of them end before its tasks would. */
static bool lacks_time(const struct dist *d, const struct dist_job *job, enum pool p)
{
    const struct draw *pool = &dist_pools_of((struct dist *)d, job)[p].draw;

    return draw_total(pool) > 0 && dist_end_times_short(d, job, pool) == draw_total(pool);
}

static enum dist_block blocked_pool(const struct dist *d, const struct dist_job *job, enum pool p)
{
    if (lacks_time(d, job, p))
        return DIST_BLOCK_TIME;
    if (job->app && draw_total(&job->app->pool[p].draw) == 0 && draw_total(&d->pool[p].draw) > 0)
        return DIST_BLOCK_APP;
    if (!job->app && any_worker(d, runs_for_one))
        return DIST_BLOCK_USER;
    if (any_worker(d, is_unsettled))
        return DIST_BLOCK_UNSETTLED;
    if (draw_total(&d->pool[POOL_ALL].draw) == 0 || p == POOL_ALL)
        return any_worker(d, is_draining) ? DIST_BLOCK_ALL_DRAINING : DIST_BLOCK_NO_WORKERS;
    return p == POOL_GENERAL ? DIST_BLOCK_NO_GENERAL : DIST_BLOCK_NO_RESERVED;
}

/* For tasks that this dist launches. */
static enum dist_block blocked_probes(const struct dist *d, const struct dist_job *job, uint32_t *n)
{
    *n = job->unlaunched;
    if (dist_job_settling(job))
        return DIST_BLOCK_SETTLING;
    if (dist_job_starved(job) && job->live == 0)
        return blocked_pool(d, job, dist_probe_pool(d, job));
    if (d->unwritable && dist_task_launches_kept(job))
        return DIST_BLOCK_JOURNAL;
    if (job->live == 0 && dist_job_awaits(job, TIMER_PROBE))
        return DIST_BLOCK_REFUSED;
    *n = 0;
    for (const struct dist_place *p = live_from(job, job->places.next); p; p = live_from(job, p->in_job.next))
        ++*n;
    return DIST_BLOCK_PROBES;
}

/* For central's tasks. */
static enum dist_block blocked_central(const struct dist *d, const struct dist_job *job, uint32_t *n)
{
    *n = job->in[TASK_WAITING] - dist_job_waiting(job);
    if (*n > 0 && job->hand != HAND_ACCEPTED) {
        if (!d->joined)
            return DIST_BLOCK_CENTRAL_AWAY;
        return dist_job_awaits(job, TIMER_OFFER) ? DIST_BLOCK_CENTRAL_FULL : DIST_BLOCK_CENTRAL_ACK;
    }
    *n -= job->central_delayed;
    if (*n > 0)
        return draw_total(&dist_pools_of((struct dist *)d, job)[POOL_GENERAL].draw) == 0 ||
                       lacks_time(d, job, POOL_GENERAL)
                   ? blocked_pool(d, job, POOL_GENERAL)
                   : DIST_BLOCK_PLACEMENT;
    *n = job->in[TASK_PLACED];
    if (*n > 0)
        return DIST_BLOCK_PLACED;
    *n = job->central_delayed + job->delayed_n;
    return DIST_BLOCK_DELAYED;
}

enum dist_block dist_blocked(const struct dist *d, const struct dist_job *job, uint32_t *n)
{
    *n = 0;
    if (job_state_final(job->state))
        return DIST_BLOCK_NOTHING;
    *n = dist_job_unfinished_tasks(job);
    if (job->cancelling)
        return DIST_BLOCK_CANCELLING;
    *n = job->in[TASK_WAITING] + job->in[TASK_PLACED];
    if (job->held && *n > 0)
        return DIST_BLOCK_HELD;
    if (job->gates > 0 || (job->blocked_n > 0 && job->unlaunched == 0))
        return DIST_BLOCK_AFTER;
    if (dist_job_launchable(job) > 0)
        return blocked_probes(d, job, n);
    *n = job->unlaunched;
    if (*n > 0)
        return DIST_BLOCK_LIMIT;
    if (job->in[TASK_WAITING] + job->in[TASK_PLACED] > job->delayed_n)
        return blocked_central(d, job, n);
    *n = job->delayed_n;
    if (*n > 0)
        return DIST_BLOCK_DELAYED;
    *n = job->in[TASK_LAUNCHED];
    return *n > 0 ? DIST_BLOCK_LAUNCHED : DIST_BLOCK_NOTHING;
}

bool dist_ready(const struct dist *d)
{
    return d->ever_joined && dist_numbers_error(d) != HAWK_ENOT_REGISTERED;
}

int64_t dist_unreported_us(const struct dist_job *job, int64_t now_us)
{
    bool waits = job->hand == HAND_ACCEPTED && job->in[TASK_WAITING] > dist_job_waiting(job);

    return waits && job->unreported_us > now_us ? job->unreported_us - now_us : 0;
}
