/* Ancestors of a job: see ancestors.h. */
#include "msg/ancestors.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

const char *ancestors_format(char *buf, const struct ancestors *a)
{
    char id[JOB_ID_TEXT];
    size_t at = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < a->n; i++)
        at +=
            (size_t)snprintf(buf + at, ANCESTORS_TEXT - at, "%s%s", i ? " " : "", job_id_format(id, a->v[i]));
    return buf;
}

static job_id_t parse(const char *text, size_t len)
{
    char id[JOB_ID_TEXT];
    job_id_t job;

    if (len >= sizeof id)
        return JOB_NONE;
    memcpy(id, text, len);
    id[len] = '\0';
    return job_id_parse(id, &job) ? JOB_NONE : job;
}

void ancestors_add(struct ancestors *a, const char *text, size_t len)
{
    if (a->n < LIMIT_ANCESTORS)
        a->v[a->n] = parse(text, len);
    a->n += a->n <= LIMIT_ANCESTORS;
}

void ancestors_add_text(struct ancestors *a, const char *text)
{
    while (text && *text && a->n < LIMIT_ANCESTORS) {
        size_t len = strcspn(text, " ");
        job_id_t job = parse(text, len);

        if (!job_eq(job, JOB_NONE))
            a->v[a->n++] = job;
        text += len + (text[len] == ' ');
    }
}

int ancestors_check(const struct ancestors *a, char *why, size_t size)
{
    if (a->n > LIMIT_ANCESTORS) {
        snprintf(why, size, "the job has more than %u ancestors, the limit", LIMIT_ANCESTORS);
        return HAWK_EINVALID;
    }
    if (ancestors_have(a, JOB_NONE)) {
        snprintf(why, size, "an ancestor of the job is no job id");
        return HAWK_EINVALID;
    }
    return 0;
}

bool ancestors_have(const struct ancestors *a, job_id_t job)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (job_eq(a->v[i], job))
            return true;
    return false;
}

uint64_t ancestors_set(const struct ancestors *a)
{
    uint64_t set = 0;

    for (uint32_t i = 0; i < a->n; i++)
        set |= job_set(a->v[i]);
    return set;
}
