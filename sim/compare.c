/* Compares two runs of the same workload, job by job. */
#include "sim/compare.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 100000000u /* largest number of a job in a workload */
#define EQUAL_US 1000

struct sim_other_job {
    int64_t response_us;
    uint32_t tasks; /* 0: no such job */
};

static void put_job(struct sim_others *o, uint64_t number, int64_t response_us, uint32_t tasks)
{
    if (number >= o->n) {
        uint64_t n = number + 1 + o->n;

        o->v = xrealloc(o->v, n * sizeof *o->v);
        memset(o->v + o->n, 0, (n - o->n) * sizeof *o->v);
        o->n = n;
    }
    o->v[number] = (struct sim_other_job){response_us, tasks};
}

/* The field after the comma that ends `field`; NULL: it is the last one. */
static const char *next_field(const char *field)
{
    const char *comma = field ? strchr(field, ',') : NULL;

    return comma ? comma + 1 : NULL;
}

/* Parses "number,class,believed,submit_s,response_s,longest_s,tasks". */
static bool parse_line(struct sim_others *o, const char *line)
{
    const char *class = next_field(line), *submit = next_field(next_field(class)),
               *response = next_field(submit);
    const char *tasks_text = next_field(next_field(response));
    char *number_end, *response_end, *tasks_end;
    unsigned long long number, tasks;
    double response_s;

    if (!tasks_text)
        return false;
    number = strtoull(line, &number_end, 10);
    response_s = strtod(response, &response_end);
    tasks = strtoull(tasks_text, &tasks_end, 10);
    if (*number_end != ',' || *response_end != ',' || (*tasks_end != '\n' && *tasks_end != '\0'))
        return false;
    if (number == 0 || number > NUMBER_MAX || tasks == 0 || tasks > UINT32_MAX ||
        !(response_s >= 0 && response_s < 1e12))
        return false;
    put_job(o, number, (int64_t)(response_s * 1e6 + 0.5), (uint32_t)tasks);
    return true;
}

int sim_others_read(struct sim_others *o, const char *path, char *why, size_t size)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    uint64_t n = 0;
    int err = 0;

    *o = (struct sim_others){0};
    if (!f) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return HAWK_EIO;
    }
    while (!err && getline(&line, &cap, f) >= 0)
        if (n++ > 0 && !parse_line(o, line)) {
            snprintf(why, size, "%s:%llu: expected a job as --jobs-csv writes it", path,
                     (unsigned long long)n);
            err = HAWK_EINVALID;
        }
    if (!err && ferror(f)) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        err = HAWK_EIO;
    }
    free(line);
    fclose(f);
    return err;
}

static void compare_class(const struct sim_result *r, const struct sim_others *o, enum job_class class,
                          struct sim_comparison *c, int64_t *job_ratios)
{
    struct sim_pairs *p = &c->classes[class];
    struct spread ratios;

    for (uint32_t i = 0; i < r->jobs_n; i++) {
        const struct sim_job_result *j = &r->jobs[i];
        const struct sim_other_job *other = j->number < o->n ? &o->v[j->number] : NULL;
        int64_t diff_us;

        if (j->class != class)
            continue;
        if (!other || other->tasks != j->tasks) {
            c->only_here++;
            continue;
        }
        diff_us = j->response_us - other->response_us;
        p->better += diff_us < -EQUAL_US;
        p->worse += diff_us > EQUAL_US;
        p->equal += diff_us >= -EQUAL_US && diff_us <= EQUAL_US;
        job_ratios[p->jobs++] =
            (int64_t)((__int128)j->response_us * 1000 / (other->response_us > 0 ? other->response_us : 1));
    }
    ratios = spread_of(job_ratios, p->jobs);
    p->mean_ratio = ratios.mean / 1000;
    p->ratio_p50 = ratios.p50;
    p->ratio_p90 = ratios.p90;
    p->ratio_p99 = ratios.p99;
}

void sim_others_free(struct sim_others *o)
{
    free(o->v);
    *o = (struct sim_others){0};
}

void sim_compare(const struct sim_result *r, const struct sim_others *o, struct sim_comparison *c)
{
    int64_t *job_ratios = xmalloc((r->jobs_n + 1) * sizeof *job_ratios);
    uint32_t there = 0, both = 0;

    *c = (struct sim_comparison){0};
    for (int k = 0; k < CLASS_COUNT; k++) {
        compare_class(r, o, (enum job_class)k, c, job_ratios);
        both += c->classes[k].jobs;
    }
    free(job_ratios);
    for (uint64_t i = 0; i < o->n; i++)
        there += o->v[i].tasks > 0;
    c->only_there = there - both;
}

json_t *sim_comparison_json(const struct sim_comparison *c)
{
    json_t *o = json_object();

    for (int k = 0; k < CLASS_COUNT; k++) {
        const struct sim_pairs *p = &c->classes[k];
        json_t *class = json_pack("{s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:f}", "n", (int)p->jobs, "better",
                                  (int)p->better, "equal", (int)p->equal, "worse", (int)p->worse, "ratio_p50",
                                  (double)p->ratio_p50 / 1e3, "ratio_p90", (double)p->ratio_p90 / 1e3,
                                  "ratio_p99", (double)p->ratio_p99 / 1e3, "ratio_mean", p->mean_ratio);

        json_object_set_new(o, class_text((enum job_class)k), class);
    }
    return o;
}

static double percent(uint32_t part, uint32_t all) { return all ? 100.0 * part / all : 0; }

void sim_comparison_print(FILE *f, const struct sim_comparison *c)
{
    fprintf(f, "\njob by job, against the other run (ratio: this run's response over the other's)\n");
    fprintf(f, "%-6s %8s %8s %8s %8s %10s %10s %10s %10s\n", "class", "jobs", "better", "equal", "worse",
            "ratio p50", "p90", "p99", "mean");
    for (int k = 0; k < CLASS_COUNT; k++) {
        const struct sim_pairs *p = &c->classes[k];

        if (p->jobs == 0)
            continue;
        fprintf(f, "%-6s %8u %6.1f %% %6.1f %% %6.1f %% %10.3f %10.3f %10.3f %10.3f\n",
                class_text((enum job_class)k), p->jobs, percent(p->better, p->jobs),
                percent(p->equal, p->jobs), percent(p->worse, p->jobs), (double)p->ratio_p50 / 1e3,
                (double)p->ratio_p90 / 1e3, (double)p->ratio_p99 / 1e3, p->mean_ratio);
    }
    if (c->only_here + c->only_there > 0)
        fprintf(f, "left out: %u jobs of this run and %u of the other have no counterpart of the same size\n",
                c->only_here, c->only_there);
}
