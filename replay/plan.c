/* Scales a trace down (Hawk 4.1), and times its arrivals. */
#include "replay/plan.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_US_MAX (INT64_C(1) << 62)

_Static_assert(TRACE_TASKS_MAX <= LIMIT_TASKS_PER_JOB, "a job of a trace can be submitted");
// NOLINTNEXTLINE(misc-redundant-expression): they are equal today
_Static_assert(TRACE_TIME_US_MAX <= LIMIT_TIME_US, "a task of a trace can be submitted");

/* Returns us * factor, to the nearest microsecond. */
static int64_t scaled(int64_t us, double factor)
{
    double v = (double)us * factor;

    return v >= (double)TASK_US_MAX ? TASK_US_MAX : (int64_t)(v + 0.5);
}

static int plan_add(struct replay_plan *p, const struct trace_job *t)
{
    vec_grow(p->jobs, p->n, p->jobs_cap);
    struct replay_plan_job *j = &p->jobs[p->n++];
    *j = (struct replay_plan_job){
        .line = t->line,
        .at_us = t->submit_us,
        .trace_mean_us = t->mean_us,
        .first = p->tasks,
        .tasks = t->tasks,
    };
    for (uint32_t i = 0; i < t->tasks; i++) {
        vec_grow(p->durations_us, p->tasks, p->durations_cap);
        p->durations_us[p->tasks++] = t->durations_us[i];
        p->task_us += t->durations_us[i];
        if (p->task_us > TASK_US_MAX)
            return HAWK_ETOO_LARGE;
    }
    if (t->tasks > p->largest)
        p->largest = t->tasks;
    return 0;
}

/* Keeps `keep` of a job's tasks, evenly spread over its list, and lengthens them by the time of the
 * others: "when we scale down the number of tasks in a job, we compensate by proportionally increasing the
 * duration of the remaining tasks in order to keep the same task-seconds" (Hawk 4.1). `to` may overlap
 * `from` if it does not begin behind it. */
static void shrink_job(const int64_t *from, uint32_t tasks, int64_t *to, uint32_t keep)
{
    double all = 0, kept = 0;

    for (uint32_t i = 0; i < tasks; i++)
        all += (double)from[i];
    for (uint32_t i = 0; i < keep; i++) {
        to[i] = from[(uint64_t)i * tasks / keep];
        kept += (double)to[i];
    }
    for (uint32_t i = 0; i < keep; i++)
        to[i] = kept > 0 ? scaled(to[i], all / kept) : (int64_t)(all / keep);
}

/* Divides the tasks of each job by `factor`; a job keeps one at least. Jobs move up in the common list as
 * they shrink. */
static void shrink_plan(struct replay_plan *p, double factor)
{
    size_t end = 0;

    p->largest = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct replay_plan_job *j = &p->jobs[i];
        uint32_t keep = (uint32_t)(j->tasks * factor + 0.5);

        if (keep < 1)
            keep = 1;
        CHECK(keep <= j->tasks);
        shrink_job(p->durations_us + j->first, j->tasks, p->durations_us + end, keep);
        j->first = end;
        j->tasks = keep;
        end += keep;
        if (keep > p->largest)
            p->largest = keep;
    }
    p->tasks = end;
}

static void scale_durations(struct replay_plan *p, double factor, int64_t cap_us)
{
    p->task_us = p->uncapped_us = 0;
    p->tasks_capped = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct replay_plan_job *j = &p->jobs[i];
        int64_t sum = 0;

        CHECK(j->tasks > 0);
        j->max_us = 0;
        for (uint32_t k = 0; k < j->tasks; k++) {
            int64_t *d = &p->durations_us[j->first + k];

            *d = scaled(*d, factor);
            p->uncapped_us += *d;
            if (*d > cap_us) {
                *d = cap_us;
                p->tasks_capped++;
            }
            sum += *d;
            if (*d > j->max_us)
                j->max_us = *d;
        }
        j->mean_us = sum / j->tasks;
        p->task_us += sum;
    }
}

static void set_arrivals(struct replay_plan *p)
{
    p->last_arrival_us = p->n ? p->jobs[p->n - 1].at_us : 0;
    p->mean_gap_us = p->n > 1 ? p->last_arrival_us / (p->n - 1) : 0;
}

static int read_jobs(struct replay_plan *p, const char *path, uint32_t jobs, char *why, size_t size)
{
    struct trace *t;
    struct trace_job job = {.line = 0};
    int err = trace_open(&t, path);

    while (!err && (jobs == 0 || p->n < jobs)) {
        int got = trace_next(t, &job);

        if (got == 0)
            break;
        err = got < 0 ? got : plan_add(p, &job);
    }
    if (err == HAWK_ETOO_LARGE)
        snprintf(why, size, "%s:%llu: the tasks up to here take more than 146,000 years in all", path,
                 (unsigned long long)job.line);
    else if (err)
        snprintf(why, size, "%s", trace_error(t));
    else if (p->n == 0) {
        snprintf(why, size, "%s: holds no job", path);
        err = HAWK_EINVALID;
    }
    trace_close(t);
    return err;
}

int replay_plan_read(struct replay_plan *p, const char *path, const struct replay_scale *s, char *why,
                     size_t size)
{
    int64_t start_us;
    double worst;
    int err;

    *p = (struct replay_plan){0};
    err = read_jobs(p, path, s->jobs, why, size);
    if (err)
        goto out;
    worst = (double)p->task_us * s->time;
    if (worst > (double)TASK_US_MAX) {
        snprintf(why, size, "%s: scaled by %g, its tasks take more than 146,000 years in all", path, s->time);
        err = HAWK_ETOO_LARGE;
        goto out;
    }
    if (s->max_tasks && s->max_tasks < p->largest)
        shrink_plan(p, (double)s->max_tasks / p->largest);
    else if (s->tasks > 0 && s->tasks < 1)
        shrink_plan(p, s->tasks);
    scale_durations(p, s->time, s->cap_us ? s->cap_us : LIMIT_TIME_US);
    start_us = p->jobs[0].at_us;
    for (uint32_t i = 0; i < p->n; i++)
        p->jobs[i].at_us = scaled(p->jobs[i].at_us - start_us, s->time);
    set_arrivals(p);
out:
    if (err)
        replay_plan_free(p);
    return err;
}

void replay_plan_free(struct replay_plan *p)
{
    free(p->jobs);
    free(p->durations_us);
    *p = (struct replay_plan){0};
}

void replay_plan_classify(struct replay_plan *p, int64_t trace_cutoff_us)
{
    p->classified = true;
    p->long_jobs = 0;
    p->long_task_us = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        struct replay_plan_job *j = &p->jobs[i];

        j->class = j->trace_mean_us < trace_cutoff_us ? CLASS_SHORT : CLASS_LONG;
        if (j->class != CLASS_LONG)
            continue;
        p->long_jobs++;
        for (uint32_t k = 0; k < j->tasks; k++)
            p->long_task_us += p->durations_us[j->first + k];
    }
}

void replay_plan_judge_estimates(struct replay_plan *p, int64_t cutoff_us)
{
    p->misjudged = 0;
    for (uint32_t i = 0; i < p->n; i++)
        p->misjudged += p->jobs[i].class != (p->jobs[i].mean_us < cutoff_us ? CLASS_SHORT : CLASS_LONG);
}

/* Draws a gap of a Poisson process with mean 1. */
static double exponential(struct rng *r)
{
    double u = (double)((rng_next(r) >> 11) + 1) * 0x1p-53; /* uniform in (0, 1] */

    return -log(u);
}

void replay_plan_poisson(struct replay_plan *p, double load, uint32_t slots, uint64_t seed)
{
    double mean_gap_us = (double)p->task_us / p->n / (load * slots), at = 0;
    struct rng r;

    rng_seed(&r, seed);
    for (uint32_t i = 0; i < p->n; i++) {
        p->jobs[i].at_us = scaled(1, at);
        at += exponential(&r) * mean_gap_us;
    }
    set_arrivals(p);
    p->mean_gap_us = (int64_t)(mean_gap_us + 0.5);
}

double replay_plan_load(const struct replay_plan *p, uint32_t slots)
{
    if (p->mean_gap_us <= 0 || slots == 0)
        return 0;
    return (double)p->task_us / ((double)p->mean_gap_us * p->n * slots);
}

int replay_plan_write(const struct replay_plan *p, double time, const char *path)
{
    FILE *f = fopen(path, "we");
    int err = 0;

    if (!f)
        return HAWK_EIO;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct replay_plan_job *j = &p->jobs[i];

        fprintf(f, "%.6f %u %.9g", (double)j->at_us / 1e6, j->tasks, (double)j->trace_mean_us * time / 1e6);
        for (uint32_t k = 0; k < j->tasks; k++)
            fprintf(f, " %.6f", (double)p->durations_us[j->first + k] / 1e6);
        fputc('\n', f);
    }
    err = fflush(f) || ferror(f) ? HAWK_EIO : 0;
    return fclose(f) ? HAWK_EIO : err;
}

int replay_number_parse(const char *text, double max, double *value)
{
    char *end;

    /* strtod also reads signs, blanks, "inf" and hexadecimal numbers, which nobody means here. */
    if (strspn(text, "0123456789.e-/%") != strlen(text) || *text == '-')
        return HAWK_EINVALID;
    double v = strtod(text, &end);
    if (end == text)
        return HAWK_EINVALID;
    if (*end == '/') {
        const char *divisor = end + 1;
        double d = strtod(divisor, &end);

        if (end == divisor || !(d > 0))
            return HAWK_EINVALID;
        v /= d;
    } else if (*end == '%') {
        v /= 100;
        end++;
    }
    if (*end || !(v > 0) || v > max)
        return HAWK_EINVALID;
    *value = v;
    return 0;
}
