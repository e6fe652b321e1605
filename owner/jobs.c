/* Which jobs and sets of tasks are valid: see jobs.h. */
#include "owner/jobs.h"

bool owner_job_valid(const struct job_desc *desc, uint16_t epoch, const struct task_set *set, uint32_t least)
{
    if (!desc || desc->tasks == 0 || desc->tasks > LIMIT_TASKS_PER_JOB || epoch == 0 ||
        (set && set->n < least))
        return false;
    for (uint32_t i = 0; set && i < set->n; i++)
        if (set->v[i] >= desc->tasks || (i > 0 && set->v[i] <= set->v[i - 1]))
            return false;
    return true;
}
