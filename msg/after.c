/* Predecessors of a job: see after.h. */
#include "msg/after.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *after_when_text(enum after_when v)
{
#define X(name, text) text,
    static const char *const texts[] = {AFTER_WHENS(X)};
#undef X

    return (unsigned)v < AFTER_WHEN_COUNT ? texts[v] : "?";
}

const char *after_format(char *buf, const struct after *a)
{
    char id[JOB_ID_TEXT];

    snprintf(buf, AFTER_TEXT, "%s%s%s", job_id_format(id, a->job), a->when == AFTER_OK ? "" : ":",
             a->when == AFTER_OK ? "" : after_when_text(a->when));
    return buf;
}

bool after_parse(const char *text, size_t len, struct after *a)
{
    const char *colon = memchr(text, ':', len);
    size_t id_len = colon ? (size_t)(colon - text) : len;
    char id[JOB_ID_TEXT];

    *a = (struct after){.when = colon ? AFTER_WHEN_COUNT : AFTER_OK};
    if (id_len >= sizeof id)
        return false;
    memcpy(id, text, id_len);
    id[id_len] = '\0';
    for (uint8_t w = 0; colon && w < AFTER_WHEN_COUNT; w++)
        if (strlen(after_when_text(w)) == len - id_len - 1 &&
            memcmp(after_when_text(w), colon + 1, len - id_len - 1) == 0)
            a->when = w;
    return a->when < AFTER_WHEN_COUNT && strlen(id) == id_len && job_id_parse(id, &a->job) == 0;
}

void after_add(struct after_list *l, const char *text, size_t len)
{
    if (l->n > LIMIT_AFTER)
        return;
    if (!l->v)
        l->v = xcalloc(LIMIT_AFTER + 1, sizeof *l->v);
    if (!after_parse(text, len, &l->v[l->n]))
        l->v[l->n] = (struct after){.job = JOB_NONE};
    l->n++;
}

void after_copy(struct after_list *to, const struct after_list *from)
{
    *to = (struct after_list){.n = from->n};
    if (from->n == 0)
        return;
    to->v = xcalloc(LIMIT_AFTER + 1, sizeof *to->v);
    memcpy(to->v, from->v, from->n * sizeof *to->v);
}

void after_free(struct after_list *l)
{
    free(l->v);
    *l = (struct after_list){0};
}

int after_check(const struct after_list *l, char *why, size_t size)
{
    if (l->n > LIMIT_AFTER) {
        snprintf(why, size, "the job has more than %u predecessors, the limit", LIMIT_AFTER);
        return HAWK_EINVALID;
    }
    for (uint32_t i = 0; i < l->n; i++)
        if (job_eq(l->v[i].job, JOB_NONE)) {
            snprintf(why, size, "a predecessor of the job is not written as ID, ID:ok, ID:any or ID:failed");
            return HAWK_EINVALID;
        }
    return 0;
}
