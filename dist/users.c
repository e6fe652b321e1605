/* What each user has at this dist, for limits, and whose ended job is forgotten first. */
#include "dist/internal.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>

#define ENDED 3

/* A user with jobs here. Nobody has an empty name, and is counted as a user of ended jobs alone. */
struct dist_user {
    struct blob *name;
    uint32_t jobs;          /* unfinished */
    uint64_t tasks;         /* of these jobs */
    uint64_t bytes;         /* of their descriptions */
    uint64_t results;       /* bytes of their results */
    struct list ended_jobs; /* dist_job.in_ended, by time of end */
    uint64_t ended[ENDED];  /* these jobs, their tasks, and the bytes of their descriptions and results */
    UT_hash_handle hh;
};

static struct dist_user *user_find(const struct dist *d, const struct blob *name)
{
    struct dist_user *u;

    HASH_FIND(hh, d->users, name->data, name->len, u);
    return u;
}

static struct dist_user *user_get(struct dist *d, struct blob *name)
{
    struct dist_user *u = user_find(d, name);

    if (u)
        return u;
    u = xcalloc(1, sizeof *u);
    u->name = blob_ref(name);
    list_init(&u->ended_jobs);
    HASH_ADD_KEYPTR(hh, d->users, u->name->data, u->name->len, u);
    return u;
}

void dist_user_add(struct dist *d, const struct job_desc *desc)
{
    struct dist_user *u;

    if (desc->user->len == 0)
        return;
    u = user_get(d, desc->user);
    u->jobs++;
    u->tasks += desc->tasks;
    u->bytes += job_desc_bytes(desc);
}

static void user_free(struct dist *d, struct dist_user *u)
{
    HASH_DEL(d->users, u);
    blob_drop(u->name);
    free(u);
}

static void user_settle(struct dist *d, struct dist_user *u)
{
    if (u->jobs == 0 && u->ended[0] == 0)
        user_free(d, u);
}

void dist_user_remove(struct dist *d, const struct dist_job *job)
{
    struct dist_user *u = job->desc->user->len > 0 ? user_find(d, job->desc->user) : NULL;

    if (!u)
        return;
    u->jobs--;
    u->tasks -= job->desc->tasks;
    u->bytes -= job_desc_bytes(job->desc);
    u->results -= job->results_bytes;
    user_settle(d, u);
}

bool dist_user_keeps(struct dist *d, const struct job_desc *desc, uint64_t bytes)
{
    struct dist_user *u = desc->user->len > 0 ? user_find(d, desc->user) : NULL;

    if (u && u->bytes + u->results + bytes > d->cfg.unfinished_bytes_max / 2)
        return false;
    if (u)
        u->results += bytes;
    return true;
}

/* ---- Ended jobs ---- */

static const struct dist_job *ended_job(const struct list *at)
{
    return container_of(at, struct dist_job, in_ended);
}

void dist_user_ended(struct dist *d, struct dist_job *job)
{
    struct dist_user *u = user_get(d, job->desc->user);
    const struct list *at = u->ended_jobs.prev;

    while (at != &u->ended_jobs && ended_job(at)->end_us > job->end_us) /* jobs are read in order of id */
        at = at->prev;
    list_insert_before(at->next, &job->in_ended);
    u->ended[0]++;
    u->ended[1] += job->desc->tasks;
    u->ended[2] += dist_job_bytes(job);
}

void dist_user_forgets(struct dist *d, struct dist_job *job)
{
    struct dist_user *u = user_find(d, job->desc->user);

    CHECK(u && u->ended[0] > 0);
    list_remove(&job->in_ended);
    u->ended[0]--;
    u->ended[1] -= job->desc->tasks;
    u->ended[2] -= dist_job_bytes(job);
    user_settle(d, u);
}

struct dist_job *dist_users_excess(const struct dist *d)
{
    const uint64_t there[] = {d->jobs_finished, d->tasks_finished, d->bytes_finished};
    const uint64_t max[] = {d->cfg.finished_kept, d->cfg.finished_tasks_kept, d->cfg.finished_bytes_kept};
    const struct dist_user *most = NULL, *lone = NULL; /* lone: the job that ended last is all that it has */
    const struct list *last;
    int of = 0;

    while (of < ENDED && there[of] <= max[of])
        of++;
    if (of == ENDED)
        return NULL;
    last = &container_of(d->finished.prev, struct dist_job, in_state)->in_ended;
    for (const struct dist_user *u = d->users; u; u = u->hh.next) {
        if (u->ended_jobs.next == last)
            lone = u;
        else if (u->ended[0] > 0 && (!most || u->ended[of] > most->ended[of]))
            most = u;
    }
    /* The job that ended last stays, however large: its client is about to ask for it. If it alone is too much, the
     * next one's end makes room, and not those who have less. */
    if (!most || (lone && lone->ended[of] > most->ended[of] && there[of] - lone->ended[of] <= max[of]))
        return NULL;
    return container_of(most->ended_jobs.next, struct dist_job, in_ended);
}

void dist_user_load(const struct dist *d, const struct blob *name, uint32_t *jobs, uint64_t *tasks,
                    uint64_t *bytes)
{
    const struct dist_user *u = user_find(d, name);

    *jobs = u ? u->jobs : 0;
    *tasks = u ? u->tasks : 0;
    *bytes = u ? u->bytes : 0;
}

void dist_users_check(const struct dist *d)
{
    uint64_t jobs = 0, tasks = 0, bytes = 0, ended[ENDED] = {0};

    for (const struct dist_user *u = d->users; u; u = u->hh.next) {
        CHECK(u->jobs > 0 || u->ended[0] > 0);
        for (int i = 0; i < ENDED; i++)
            ended[i] += u->ended[i];
        jobs += u->jobs;
        tasks += u->tasks;
        bytes += u->bytes + u->results;
    }
    CHECK(jobs <= d->jobs_unfinished);
    CHECK(tasks <= d->tasks_unfinished);
    CHECK(bytes <= d->bytes_unfinished);
    CHECK(ended[0] == d->jobs_finished && ended[1] == d->tasks_finished && ended[2] == d->bytes_finished);
}

void dist_users_free(struct dist *d)
{
    while (d->users)
        user_free(d, d->users);
}
