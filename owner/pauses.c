/* Pauses of a job's tasks: see pauses.h. */
#include "owner/pauses.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

/* The index of the task in v, or the index where it belongs. */
static uint32_t place_of(const struct owner_pauses *pauses, uint32_t task)
{
    uint32_t from = 0, to = pauses->n;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (pauses->v[mid].task < task)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static struct owner_pause *find_pause(const struct owner_pauses *pauses, uint32_t task)
{
    uint32_t i = place_of(pauses, task);

    return i < pauses->n && pauses->v[i].task == task ? &pauses->v[i] : NULL;
}

const struct owner_pause *owner_pause_find(const struct owner_pauses *pauses, uint32_t task)
{
    return find_pause(pauses, task);
}

static struct owner_pause *found_or_new(struct owner_pauses *pauses, uint32_t task)
{
    uint32_t i = place_of(pauses, task);
    struct owner_pause *p = find_pause(pauses, task);

    if (p || pauses->n == OWNER_PAUSES_MAX)
        return p;
    vec_grow(pauses->v, pauses->n, pauses->cap);
    p = &pauses->v[i];
    memmove(p + 1, p, (pauses->n++ - i) * sizeof *p);
    *p = (struct owner_pause){.task = task, .since_us = TIME_NEVER};
    return p;
}

void owner_pause_note(struct owner_pauses *pauses, uint32_t task, const struct msg_task_paused *m,
                      int64_t now_us)
{
    struct owner_pause *p = found_or_new(pauses, task);

    if (!p)
        return;
    if (p->attempt != m->id.attempt) {
        p->earlier_us += owner_pause_us(p, p->attempt, now_us);
        p->earlier_times += p->times_before + p->times;
        p->us_before = p->times_before = 0;
    } else if (p->times > m->times) {
        p->us_before = owner_pause_us(p, p->attempt, now_us);
        p->times_before += p->times;
    }
    p->attempt = m->id.attempt;
    p->times = m->times;
    p->us = m->paused_ms > m->stood_ms ? (m->paused_ms - m->stood_ms) * US_PER_MS : 0;
    p->since_us = m->stood_ms > 0 ? now_us - m->stood_ms * US_PER_MS : TIME_NEVER;
    p->for_job = m->for_job;
    p->for_task = m->for_task;
}

void owner_pause_end_any(struct owner_pauses *pauses, uint32_t task, int64_t now_us)
{
    struct owner_pause *p = find_pause(pauses, task);

    if (!p || p->since_us == TIME_NEVER)
        return;
    p->us += now_us - p->since_us;
    p->since_us = TIME_NEVER;
}

int64_t owner_pause_us(const struct owner_pause *pause, uint16_t attempt, int64_t now_us)
{
    if (pause->attempt != attempt)
        return 0;
    return pause->us_before + pause->us + (pause->since_us == TIME_NEVER ? 0 : now_us - pause->since_us);
}

void owner_pauses_view(const struct owner_pauses *pauses, int64_t now_us, struct job_view *v)
{
    for (uint32_t i = 0; i < pauses->n; i++) {
        const struct owner_pause *p = &pauses->v[i];

        v->paused += p->since_us != TIME_NEVER;
        v->pauses += p->earlier_times + p->times_before + p->times;
        v->paused_us += p->earlier_us + owner_pause_us(p, p->attempt, now_us);
    }
}

void owner_pause_view(const struct owner_pauses *pauses, uint32_t task, int64_t now_us, struct task_view *v)
{
    const struct owner_pause *p = find_pause(pauses, task);

    v->stood_us = -1;
    if (!p || p->attempt != v->attempt)
        return;
    v->pauses = p->times_before + p->times;
    v->paused_us = owner_pause_us(p, p->attempt, now_us);
    v->paused_for = p->for_job;
    v->paused_for_task = p->for_task;
    if (p->since_us != TIME_NEVER)
        v->stood_us = now_us - p->since_us;
}

void owner_pause_say(const struct owner_pause *pause, int64_t now_us, struct msg_task_paused *m)
{
    m->stood_ms = pause->since_us == TIME_NEVER ? 0 : stood_ms_of(now_us - pause->since_us);
    m->paused_ms = paused_ms_of(owner_pause_us(pause, pause->attempt, now_us));
    m->times = pause->times_before + pause->times;
    m->for_job = pause->for_job;
    m->for_task = pause->for_task;
}

void owner_pauses_free(struct owner_pauses *pauses) { free(pauses->v); }

void owner_pauses_check(const struct owner_pauses *pauses, uint32_t tasks)
{
    CHECK(pauses->n <= OWNER_PAUSES_MAX);
    for (uint32_t i = 0; i < pauses->n; i++) {
        CHECK(pauses->v[i].task < tasks);
        CHECK(i == 0 || pauses->v[i].task > pauses->v[i - 1].task);
    }
}
