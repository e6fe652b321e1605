/* The heap of jobs whose tasks wait, by their turns. */
#include "central/state.h"

#include "base/check.h"
#include "owner/jobs.h"

#define SIZE_MAX_US (INT64_MAX / 4)

static struct heap *heap_of(struct central *c, const struct long_job *j)
{
    return j->app ? &j->app->kept : &c->kept;
}

/* A task that stands still ages as well. */
static struct owner_shown shown(const struct central *c, const struct long_job *j)
{
    return owner_shown(j->run_us, j->ended[TASK_DONE], (__int128)j->running * c->now_us - j->started_us,
                       j->running);
}

static int64_t size_of(const struct central *c, const struct long_job *j)
{
    __int128 task_us = owner_shown_mean(shown(c, j));

    if (!policy_has(&c->policy, POLICY_LONG_BY_WORK))
        return 0;
    if (task_us < j->estimate_us)
        task_us = j->estimate_us;
    task_us = task_us * j->n / (int64_t)(c->kept_slots ? c->kept_slots : 1);
    return task_us < SIZE_MAX_US ? (int64_t)task_us : SIZE_MAX_US;
}

static int64_t key_of(const struct long_job *j, int64_t stretch)
{
    __int128 key = j->since_us + (__int128)j->size_us * stretch;

    return key < INT64_MAX ? (int64_t)key : INT64_MAX;
}

void kept_resize(struct central *c, struct long_job *j)
{
    if (list_empty(&j->kept))
        return;
    j->size_us = size_of(c, j);
    heap_update(heap_of(c, j), &j->turn, key_of(j, c->cfg.long_stretch), j->turn.seq);
}

void kept_resize_all(struct central *c)
{
    c->kept_slots = c->slots;
    list_foreach(&c->jobs[LONG_ACTIVE], entry, next)
        kept_resize(c, container_of(entry, struct long_job, by_state));
}

/* Sizes count with as many slots as there are, give or take half of them. */
void kept_follow(struct central *c)
{
    if (c->slots > 0 && (c->slots > 2 * c->kept_slots || 2 * c->slots < c->kept_slots))
        kept_resize_all(c);
}

void kept_readmit(struct central *c, struct long_job *j)
{
    j->size_us = size_of(c, j);
    j->turn.key = key_of(j, c->cfg.long_stretch);
    CHECK(heap_push(heap_of(c, j), &j->turn) == 0);
}

void kept_add(struct central *c, struct long_task *t)
{
    struct long_job *j = t->job;

    if (list_empty(&j->kept))
        kept_readmit(c, j);
    list_push_tail(&j->kept, &t->w.link);
    if (j->app && list_empty(&j->app->waiting))
        list_push_tail(&c->apps_waiting, &j->app->waiting);
}

void kept_remove(struct central *c, struct long_task *t)
{
    struct long_job *j = t->job;

    list_remove(&t->w.link);
    if (list_empty(&j->kept))
        heap_remove(heap_of(c, j), &j->turn);
}

struct long_task *kept_first(const struct heap *kept)
{
    const struct heap_node *turn = heap_min(kept);

    return turn ? container_of(container_of(turn, struct long_job, turn)->kept.next, struct long_task, w.link)
                : NULL;
}

void kept_pass_over(struct central *c, struct long_job *j) { heap_remove(heap_of(c, j), &j->turn); }

/* ---- The bound, as an invariant ---- */

void kept_serve(struct central *c, const struct long_job *j)
{
    if (c->served.key_us > j->turn.key)
        return;
    c->served.key_us = j->turn.key;
    c->served.since_us = j->since_us;
    c->served.size_us = j->size_us;
}

void kept_serve_none(struct central *c)
{
    c->served.key_us = c->served.since_us = c->served.size_us = INT64_MIN;
}

/* j could have been served, and was not. */
static void check_bound(const struct central *c, const struct long_job *j)
{
    __int128 later_us = (__int128)c->served.since_us - j->since_us;

    if (c->served.since_us == INT64_MIN)
        return;
    CHECK(later_us <= (__int128)c->cfg.long_stretch * (j->size_us - c->served.size_us));
}

void kept_check(const struct central *c, const struct heap *kept)
{
    CHECK(heap_check(kept));
    for (uint32_t i = 0; i < kept->n; i++) {
        const struct long_job *j = container_of(kept->v[i].node, struct long_job, turn);
        const struct long_task *t = container_of(j->kept.next, struct long_task, w.link);

        CHECK(kept == (j->app ? &j->app->kept : &c->kept));
        CHECK(!list_empty(&j->kept));
        if (!j->app && j->starts.n == 0 && central_task_index(t) < j->released)
            check_bound(c, j);
    }
}
