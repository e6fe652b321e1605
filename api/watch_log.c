/* A job's changed tasks, for all its watches. */
#include "api/watch_log.h"

#include "base/mem.h"

#include <stdlib.h>

void watch_log_init(struct watch_log *l, uint32_t tasks_n)
{
    *l = (struct watch_log){.tasks_n = tasks_n};
    list_init(&l->readers);
}

void watch_log_join(struct watch_log *l, struct watch_reader *r)
{
    r->place = (struct watch_place){.read = l->n};
    list_push_tail(&l->readers, &r->in_log);
}

void watch_log_leave(struct watch_log *l, struct watch_reader *r)
{
    if (!r->in_log.next)
        return;
    list_remove(&r->in_log);
    if (!list_empty(&l->readers))
        return;
    free(l->at);
    free(l->entry);
    watch_log_init(l, l->tasks_n);
}

/* Drops the entries before the last one of each task. O(entries + readers), once in tasks_n + SPARE changes at most. */
static void drop_replaced(struct watch_log *l)
{
    uint32_t *moved = xcalloc((size_t)l->n + 1, sizeof *moved), n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t task = l->entry[i];
        moved[i] = n;
        if (l->at[task] != i + 1)
            continue;
        l->entry[n++] = task;
        l->at[task] = n;
    }
    moved[l->n] = n;
    list_foreach(&l->readers, node, next) {
        struct watch_reader *r = container_of(node, struct watch_reader, in_log);
        r->place.read = moved[r->place.read];
    }
    l->n = n;
    free(moved);
}

void watch_log_add(struct watch_log *l, uint32_t task)
{
    uint32_t max = 2 * l->tasks_n + WATCH_LOG_SPARE;
    if (list_empty(&l->readers) || task >= l->tasks_n)
        return;
    if (!l->at)
        l->at = xcalloc(l->tasks_n, sizeof *l->at);
    if (l->n == max)
        drop_replaced(l);
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->cap = l->cap < max ? l->cap : max;
        l->entry = xrealloc(l->entry, l->cap * sizeof *l->entry);
    }
    l->entry[l->n++] = task;
    l->at[task] = l->n;
}

bool watch_log_next(const struct watch_log *l, struct watch_place *p, uint32_t *task)
{
    uint32_t t;
    if (p->scanned < l->tasks_n) {
        t = p->scanned++;
        *task = l->at && l->at[t] > p->read ? WATCH_LOG_NONE : t;
        return true;
    }
    if (p->read == l->n)
        return false;
    t = l->entry[p->read++];
    *task = l->at[t] == p->read ? t : WATCH_LOG_NONE;
    return true;
}
