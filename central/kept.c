/* Users take turns; of each a heap of jobs whose tasks wait, by their keys. */
#include "central/tasks.h"

#include "base/check.h"
#include "base/mem.h"
#include "owner/jobs.h"

#include <stdlib.h>

#define SIZE_MAX_US (INT64_MAX / 4)

/* ---- Users ---- */

static struct kept *kept_of(struct central *c, const struct long_job *j)
{
    return j->app ? &j->app->kept : &c->kept;
}

static struct kept_user *user_of(struct list *turn)
{
    return container_of(turn, struct kept_user, turn.link);
}

void kept_init(struct kept *k)
{
    list_init(&k->users);
    turns_init(&k->turns);
}

static void user_free(struct kept_user *u)
{
    list_remove(&u->link);
    heap_free(&u->heap);
    free(u);
}

void kept_free(struct kept *k)
{
    list_foreach(&k->users, l, next)
        user_free(container_of(l, struct kept_user, link));
}

static struct kept_user *user_get(struct kept *k, uint32_t number)
{
    struct kept_user *u;

    list_foreach(&k->users, l, next)
        if (container_of(l, struct kept_user, link)->number == number)
            return container_of(l, struct kept_user, link);
    u = xcalloc(1, sizeof *u);
    u->number = number;
    list_init(&u->turn.link);
    heap_init(&u->heap);
    list_push_tail(&k->users, &u->link);
    return u;
}

void kept_enter(struct central *c, struct long_job *j)
{
    j->user = user_get(kept_of(c, j), job_desc_user(j->desc));
    j->user->jobs++;
    j->user->unfinished++;
    j->user->tasks += j->n;
}

void kept_finish(struct long_job *j)
{
    CHECK(j->user->unfinished > 0 && j->user->tasks >= j->n);
    j->user->unfinished--;
    j->user->tasks -= j->n;
}

void kept_leave(struct long_job *j)
{
    if (j->state == LONG_JOURNALLING || j->state == LONG_ACTIVE)
        kept_finish(j);
    if (--j->user->jobs == 0)
        user_free(j->user);
}

/* ---- What a user may have ---- */

struct load {
    uint64_t jobs, tasks;
};

static void add_load(const struct kept *k, uint32_t user, struct load *all, struct load *his)
{
    list_foreach(&k->users, l, next) {
        const struct kept_user *u = container_of(l, struct kept_user, link);

        all->jobs += u->unfinished;
        all->tasks += u->tasks;
        if (u->number != user)
            continue;
        his->jobs += u->unfinished;
        his->tasks += u->tasks;
    }
}

static void count_load(const struct central *c, uint32_t user, struct load *all, struct load *his)
{
    const struct central_app *a, *next;

    *all = *his = (struct load){0};
    add_load(&c->kept, user, all, his);
    HASH_ITER(hh, c->apps, a, next)
        add_load(&a->kept, user, all, his);
}

static uint64_t left_of(uint64_t max, uint64_t used) { return max > used ? max - used : 0; }

bool kept_may_enter(const struct central *c, uint32_t user, uint32_t tasks)
{
    struct load all, his;

    if (!user)
        return true;
    count_load(c, user, &all, &his);
    return his.jobs == 0 || (his.jobs + 1 <= left_of(c->cfg.long_jobs_max, all.jobs) &&
                             his.tasks + tasks <= left_of(c->cfg.long_tasks_max, all.tasks));
}

void kept_check_unfinished(const struct central *c)
{
    struct load all, his;
    uint64_t tasks = 0;

    count_load(c, 0, &all, &his);
    for (enum long_state s = LONG_JOURNALLING; s <= LONG_ACTIVE; s++)
        list_foreach(&c->jobs[s], l, next)
            tasks += container_of(l, struct long_job, by_state)->n;
    CHECK(all.jobs == c->n_jobs[LONG_JOURNALLING] + c->n_jobs[LONG_ACTIVE]);
    CHECK(all.tasks == tasks);
}

/* ---- Keys ---- */

static struct owner_shown shown(const struct central *c, const struct long_job *j)
{
    return owner_shown(j->run_us, j->ended[TASK_DONE], (__int128)j->ageing * c->now_us + j->ages_us,
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
    if (!heap_in(&j->turn))
        return;
    j->size_us = size_of(c, j);
    heap_update(&j->user->heap, &j->turn, key_of(j, c->cfg.long_stretch), j->turn.seq);
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

/* ---- Coming and going ---- */

void kept_readmit(struct central *c, struct long_job *j)
{
    struct kept_user *u = j->user;

    j->size_us = size_of(c, j);
    j->turn.key = key_of(j, c->cfg.long_stretch);
    CHECK(heap_push(&u->heap, &j->turn) == 0);
    if (list_empty(&u->turn.link))
        turns_join(&kept_of(c, j)->turns, &u->turn);
    if (j->app && list_empty(&j->app->waiting))
        list_push_tail(&c->apps_waiting, &j->app->waiting);
}

static void leave(struct central *c, struct long_job *j)
{
    heap_remove(&j->user->heap, &j->turn);
    if (!heap_min(&j->user->heap))
        turns_leave(&kept_of(c, j)->turns, &j->user->turn);
}

/* It has no turn, though tasks of it wait. */
static bool is_out(const struct long_job *j) { return j->held || j->unheard || !list_empty(&j->apart); }

void kept_update_turn(struct central *c, struct long_job *j)
{
    if (is_out(j) && heap_in(&j->turn))
        leave(c, j);
    else if (!is_out(j) && !list_empty(&j->kept) && !heap_in(&j->turn))
        kept_readmit(c, j);
}

void kept_set_apart(struct central *c, struct long_job *j)
{
    list_push_tail(&c->end_times.apart, &j->apart);
    kept_update_turn(c, j);
}

void kept_add(struct central *c, struct long_task *t)
{
    struct long_job *j = t->job;

    if (list_empty(&j->kept) && !is_out(j))
        kept_readmit(c, j);
    list_push_tail(&j->kept, &t->w.link);
}

void kept_remove(struct central *c, struct long_task *t)
{
    struct long_job *j = t->job;

    list_remove(&t->w.link);
    if (!list_empty(&j->kept))
        return;
    list_remove(&j->apart);
    if (heap_in(&j->turn))
        leave(c, j);
}

struct long_task *kept_first_of(const struct kept_user *u)
{
    const struct heap_node *turn = heap_min(&u->heap);

    return turn ? container_of(container_of(turn, struct long_job, turn)->kept.next, struct long_task, w.link)
                : NULL;
}

struct long_task *kept_first(const struct kept *k)
{
    list_foreach(&k->turns.ring, l, next) {
        struct long_task *t = kept_first_of(user_of(l));

        if (t) /* else all of its jobs are passed over */
            return t;
    }
    return NULL;
}

void kept_pass_over(struct long_job *j) { heap_remove(&j->user->heap, &j->turn); }

/* ---- The bound, as an invariant ---- */

void kept_serve(struct central *c, const struct long_job *j)
{
    struct kept_user *u = j->user;

    turns_take(&kept_of(c, j)->turns, &u->turn);
    if (u->served_step == c->kept_step && u->served_key > j->turn.key)
        return;
    u->served_step = c->kept_step;
    u->served_key = j->turn.key;
    u->served_since_us = j->since_us;
    u->served_size_us = j->size_us;
}

void kept_serve_none(struct central *c) { c->kept_step++; }

/* j could have been served, and was not. */
static void check_bound(const struct central *c, const struct long_job *j)
{
    const struct kept_user *u = j->user;
    __int128 later_us = (__int128)u->served_since_us - j->since_us;

    if (u->served_step == c->kept_step)
        CHECK(later_us <= (__int128)c->cfg.long_stretch * (j->size_us - u->served_size_us));
}

static void check_user(const struct central *c, const struct kept *k, const struct kept_user *u)
{
    CHECK(u->jobs > 0);
    CHECK(heap_check(&u->heap));
    CHECK((u->heap.n == 0) == list_empty(&u->turn.link));
    for (uint32_t i = 0; i < u->heap.n; i++) {
        const struct long_job *j = container_of(u->heap.v[i].node, struct long_job, turn);
        const struct long_task *t = container_of(j->kept.next, struct long_task, w.link);

        CHECK(k == (j->app ? &j->app->kept : &c->kept));
        CHECK(u == j->user);
        CHECK(!list_empty(&j->kept) && !is_out(j));
        if (!j->app && j->starts.n == 0 && central_task_index(t) < j->released)
            check_bound(c, j);
    }
}

uint32_t kept_check(const struct central *c, const struct kept *k)
{
    uint32_t jobs = 0, n = 0;

    list_foreach(&k->users, l, next) {
        const struct kept_user *u = container_of(l, struct kept_user, link);

        check_user(c, k, u);
        jobs += u->heap.n;
        n += u->heap.n > 0;
        if (u->heap.n > 0)
            turns_check(&k->turns, &u->turn);
    }
    CHECK(n == k->turns.n);
    return jobs;
}
