/* The table of long jobs, and their states. */
#include "central/state.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>

/* The table has the oldest part of each job. */

static unsigned hash_of(uint64_t job) { return (unsigned)hash_mix(job); }

static void put_in_table(struct central *c, struct long_job *j)
{
    HASH_ADD_BYHASHVALUE(hh, c->long_jobs, key.job, sizeof j->key.job, hash_of(j->key.job), j);
}

static struct long_job *oldest_part(const struct central *c, uint64_t job)
{
    struct long_job *j;

    HASH_FIND_BYHASHVALUE(hh, c->long_jobs, &job, sizeof job, hash_of(job), j);
    return j;
}

struct long_job *central_jobs_find(const struct central *c, job_id_t job, uint32_t epoch)
{
    struct long_job *j = oldest_part(c, job.v);

    if (!j || j->key.epoch == epoch)
        return j;
    list_foreach(&j->parts, entry, next)
        if (container_of(entry, struct long_job, parts)->key.epoch == epoch)
            return container_of(entry, struct long_job, parts);
    return NULL;
}

struct long_job *central_jobs_next_part(const struct central *c, job_id_t job, const struct long_job *prev)
{
    struct long_job *oldest = oldest_part(c, job.v);
    struct long_job *next = prev ? container_of(prev->parts.next, struct long_job, parts) : NULL;

    return !prev ? oldest : next == oldest ? NULL : next;
}

/* The index in j->tasks of one of the job's tasks; j->n: it is not among them. */
static uint32_t index_of(const struct long_job *j, uint32_t task)
{
    uint32_t low = 0, high = j->n;

    if (!j->set)
        return task < j->n ? task : j->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (j->set->v[mid] < task)
            low = mid + 1;
        else
            high = mid;
    }
    return low < j->n && j->set->v[low] == task ? low : j->n;
}

struct long_task *central_jobs_find_task(const struct central *c, const struct try_id *id)
{
    struct long_job *j = central_jobs_find(c, id->job, id->epoch);
    uint32_t i = j ? index_of(j, id->task) : 0;

    return j && i < j->n ? &j->tasks[i] : NULL;
}

static const uint8_t legal_moves[LONG_STATE_COUNT] = {
    [LONG_JOURNALLING] = 1 << LONG_ACTIVE,
    [LONG_ACTIVE] = 1 << LONG_ENDED,
    [LONG_ENDED] = 1 << LONG_ENDED | 1 << LONG_ENDING | 1 << LONG_UNCLAIMED,
    [LONG_ENDING] = 1 << LONG_FINISHED,
    [LONG_FINISHED] = 1 << LONG_ENDED | 1 << LONG_UNCLAIMED,
    [LONG_UNCLAIMED] = 1 << LONG_ENDED,
};

void central_job_set_state(struct central *c, struct long_job *j, enum long_state state)
{
    CHECK(legal_moves[j->state] & 1 << state);
    if (j->state == LONG_ACTIVE) {
        kept_finish(j);
        c->n_unheard -= j->unheard;
        j->unheard = false;
    }
    c->n_jobs[j->state]--;
    c->n_jobs[state]++;
    j->state = state;
    list_remove(&j->by_state);
    list_push_tail(&c->jobs[state], &j->by_state);
    if (state == LONG_ENDED || state == LONG_FINISHED)
        j->kept_since_us = c->now_us;
    central_orphans_look(c, j);
}

struct long_job *central_job_new(struct central *c, job_id_t job, uint32_t epoch, struct job_desc *desc,
                                 struct task_set *set)
{
    uint32_t n = set ? set->n : desc->tasks;
    struct long_job *j = xcalloc(1, sizeof *j + n * sizeof *j->tasks), *oldest = oldest_part(c, job.v);

    j->key = (struct long_key){.job = job.v, .epoch = epoch};
    j->desc = job_desc_ref(desc);
    j->set = set ? task_set_ref(set) : NULL;
    j->n = n;
    j->since_us = j->first_us = c->now_us;
    list_init(&j->touched);
    list_init(&j->kept);
    list_init(&j->apart);
    j->turn.seq = c->jobs_seen++;
    list_init(&j->orphan);
    if (desc->kind == PAYLOAD_APP) {
        j->app = central_app_get(c, desc->app, desc->user->len > 0 ? desc->user : NULL);
        j->app->jobs++;
    }
    kept_enter(c, j);
    for (uint32_t i = 0; i < j->n; i++) {
        struct long_task *t = &j->tasks[i];

        t->job = j;
        t->wait_us = t->run_us = 0;
        list_init(&t->w.link);
    }
    list_push_tail(&c->jobs[LONG_JOURNALLING], &j->by_state);
    c->n_jobs[LONG_JOURNALLING]++;
    c->tasks_held += j->n;
    list_init(&j->parts);
    if (oldest)
        list_push_tail(&oldest->parts, &j->parts);
    else
        put_in_table(c, j);
    return j;
}

/* It follows the record of its job, which is the last in its list. */
void central_on_journal_age(struct central *c, const struct msg *in)
{
    const struct msg_journal_age *m = &in->journal_age;
    struct long_job *j = container_of(c->jobs[LONG_ACTIVE].prev, struct long_job, by_state);

    if (!list_empty(&c->jobs[LONG_ACTIVE]) && j->key.job == m->job.v && m->ago_us >= 0 &&
        m->ago_us <= LIMIT_TIME_US)
        j->first_us = c->now_us - m->ago_us;
}

void central_job_free(struct central *c, struct long_job *j)
{
    for (uint32_t i = 0; i < j->n; i++)
        CHECK(j->tasks[i].place == PLACE_NONE);
    if (oldest_part(c, j->key.job) == j) {
        HASH_DEL(c->long_jobs, j);
        if (!list_empty(&j->parts))
            put_in_table(c, container_of(j->parts.next, struct long_job, parts));
    }
    list_remove(&j->parts);
    list_remove(&j->by_state);
    list_remove(&j->touched);
    list_remove(&j->orphan);
    c->n_jobs[j->state]--;
    c->tasks_held -= j->n;
    owner_messages_free(&j->messages);
    owner_pauses_free(&j->pauses);
    central_job_free_results(c, j);
    free(j->starts.v);
    kept_leave(j);
    if (j->app) {
        j->app->jobs--;
        central_app_settle(c, j->app);
    }
    job_desc_drop(j->desc);
    if (j->set)
        task_set_drop(j->set);
    free(j);
}

struct watcher *central_job_watcher(struct long_job *j, node_id_t dist)
{
    for (uint32_t i = 0; i < j->n_watchers; i++)
        if (node_eq(j->watchers[i].dist, dist))
            return &j->watchers[i];
    return NULL;
}

struct watcher *central_job_watch(struct long_job *j, node_id_t dist, uint16_t owner)
{
    struct watcher *w = central_job_watcher(j, dist);

    if (!w && j->n_watchers < WATCHERS_MAX) {
        w = &j->watchers[j->n_watchers++];
    } else if (!w) {
        /* A job that has moved often: the first ones have lost it long ago. */
        w = &j->watchers[0];
        for (uint32_t i = 1; i < WATCHERS_MAX; i++)
            w = j->watchers[i].owner < w->owner ? &j->watchers[i] : w;
        if (owner < w->owner)
            return NULL;
    }
    if (!node_eq(w->dist, dist))
        *w = (struct watcher){.dist = dist};
    w->owner = owner;
    return w;
}
