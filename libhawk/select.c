/* Selectors of jobs. */
#include "libhawk/select.h"

#include "base/mem.h"
#include "libhawk/client_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_job(struct selection *s, job_id_t job)
{
    if (s->n >= SELECT_JOBS_MAX)
        return HAWK_ETOO_LARGE;
    vec_grow(s->jobs, s->n, s->cap);
    s->jobs[s->n++] = job;
    return 0;
}

/* The end of a range: a whole id, or just a number on the node of the first one. */
static int range_end_parse(const char *text, job_id_t first, job_id_t *last)
{
    uint64_t seq = 0;
    if (strchr(text, '.'))
        return job_id_parse(text, last);
    if (u64_parse(text, 0, JOB_SEQ_MAX, &seq))
        return HAWK_EINVALID;
    *last = job_id_make(job_id_node(first), seq);
    return 0;
}

static int part_parse(struct selection *s, char *part, char *why, size_t size)
{
    char *dash = strchr(part, '-');
    job_id_t first, last;
    if (strcmp(part, SELECT_LAST) == 0 || strcmp(part, "all") == 0) {
        *(*part == 'l' ? &s->last : &s->all) = true;
        return 0;
    }
    if (strcmp(part, SELECT_NONE) == 0)
        return 0;
    if (dash)
        *dash = '\0';
    if (job_id_parse(part, &first) || (dash && range_end_parse(dash + 1, first, &last))) {
        snprintf(why, size,
                 "'%s%s%s' is no job: write an id like 3.17, a range like 3.17-20, `last` or `all`", part,
                 dash ? "-" : "", dash ? dash + 1 : "");
        return HAWK_EINVALID;
    }
    if (!dash)
        last = first;
    if (!node_eq(job_id_node(first), job_id_node(last)) || first.v > last.v) {
        snprintf(why, size,
                 "'%s-%s' is no range: both ends have one node, and the first is not above the last", part,
                 dash + 1);
        return HAWK_EINVALID;
    }
    for (uint64_t v = first.v; v <= last.v; v++)
        if (add_job(s, (job_id_t){v})) {
            snprintf(why, size, "more than %u jobs at once", SELECT_JOBS_MAX);
            return HAWK_ETOO_LARGE;
        }
    return 0;
}

/* A job and its place in the order given, so that sorting does not lose that order. */
struct place {
    job_id_t job;
    uint32_t at;
};

static int by_job(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->job.v != y->job.v)
        return x->job.v < y->job.v ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Keeps the first mention of each job. */
static void remove_repeated(struct selection *s)
{
    struct place *v = xmalloc((s->n + 1) * sizeof *v);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n; i++)
        v[i] = (struct place){s->jobs[i], i};
    qsort(v, s->n, sizeof *v, by_job);
    for (uint32_t i = 1; i < s->n; i++)
        if (job_eq(v[i].job, v[i - 1].job))
            s->jobs[v[i].at] = JOB_NONE;
    for (uint32_t i = 0; i < s->n; i++)
        if (!job_eq(s->jobs[i], JOB_NONE))
            s->jobs[kept++] = s->jobs[i];
    s->n = kept;
    free(v);
}

int selection_parse(struct selection *s, int argc, char *const *argv, char *why, size_t size)
{
    int err = 0;
    if (argc == 0) {
        snprintf(why, size, "name a job: an id like 3.17, a range like 3.17-20, `last` or `all`");
        return HAWK_EINVALID;
    }
    for (int i = 0; !err && i < argc; i++) {
        char *copy = xstrdup(argv[i]), *rest = copy;
        for (char *part; !err && (part = strsep(&rest, ","));)
            err = part_parse(s, part, why, size);
        free(copy);
    }
    if (!err)
        remove_repeated(s);
    return err;
}

int selection_resolve(struct selection *s, struct client *client, const char *user)
{
    int err = 0;
    for (int what = 0; !err && what < 2; what++) {
        bool last = what == 0;
        struct client_job_query q = {
            .limit = last, .states = last ? 0 : JOB_STATES_UNFINISHED, .user = user, .mine = true};
        struct api_list_jobs_reply reply;
        if (last ? !s->last : !s->all)
            continue;
        err = client_list_jobs(client, &q, &reply);
        if (!err && last && reply.jobs_n == 0)
            err = client_fail(client, HAWK_ENOT_FOUND, "no job of user %s is known here", user);
        for (uint32_t i = 0; !err && i < reply.jobs_n; i++)
            err = add_job(s, reply.jobs[i].job)
                      ? client_fail(client, HAWK_ETOO_LARGE, "more than %u jobs at once", SELECT_JOBS_MAX)
                      : 0;
        api_free(&api_list_jobs_reply_type, &reply);
    }
    if (!err)
        remove_repeated(s);
    return err;
}

void selection_free(struct selection *s)
{
    free(s->jobs);
    *s = (struct selection){0};
}
