/* The API's messages from what roles show of themselves, and policy changes from an operator. */
#include "net/api.h"

#include <stdio.h>
#include <string.h>

void api_job_from_view(struct api_job *to, const struct job_view *v)
{
    *to = (struct api_job){
        .job = v->job,
        .name = v->desc->name->data,
        .user = v->desc->user->data,
        .state = v->state,
        .class = v->class,
        .why = v->why,
        .tag = v->desc->tag,
        .at_central = node_eq(v->owner, NODE_CENTRAL),
        .epoch = v->epoch,
        .estimate_us = v->estimate_us,
        .cutoff_us = v->cutoff_us,
        .tasks = v->desc->tasks,
        .waiting = v->waiting + v->placed,
        .running = v->running,
        .done = v->done,
        .failed = v->failed,
        .cancelled = v->cancelled,
        .lost = v->lost,
        .age_us = v->age_us,
        .response_us = v->response_us,
        .first_start_us = v->first_start_us,
        .probes_sent = v->probes_sent,
        .probes_live = v->probes_live,
        .probes_cancelled = v->probes_cancelled,
        .probes_unused = v->probes_unused,
        .probes_lost = v->probes_lost,
        .reservations_stolen = v->reservations_stolen,
        .abandoned = v->abandoned,
        .no_executor = v->no_executor,
    };
}

void api_task_from_view(struct api_task *to, const struct task_view *v, const char *worker_name)
{
    *to = (struct api_task){
        .task = v->task,
        .state = v->state,
        .outcome = v->outcome,
        .attempt = v->attempt,
        .code = v->code,
        .worker = v->worker.v,
        .worker_name = worker_name,
        .wait_us = v->wait_us,
        .run_us = v->run_us,
        .stolen = v->stolen != 0,
        .message = v->message ? v->message->data : "",
        .result_lost = v->result_lost,
    };
}

void api_counters_fill(struct api_counter *to, const uint64_t values[COUNTER_COUNT])
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        to[i] = (struct api_counter){.name = counter_names[i], .value = values[i]};
}

void api_policy_from(struct api_policy *to, const struct policy *p, const char *name, const char **flags)
{
    *to = (struct api_policy){
        .version = p->version,
        .name = name,
        .cutoff_us = p->cutoff_us,
        .short_share_ppm = p->short_share_ppm,
        .probe_ratio_milli = p->probe_ratio_milli,
        .min_probes = p->min_probes,
        .steal_cap = p->steal_cap,
        .steal_max = p->steal_max,
        .short_first = p->short_first,
        .flags = flags,
    };
    for (int bit = 0; bit < 32; bit++)
        if ((p->flags & 1u << bit) && policy_flag_keys[bit])
            flags[to->flags_n++] = policy_flag_keys[bit];
}

/* Sets *bit to the flag of that name. */
static int flag_find(const char *name, uint32_t *bit, char *why, size_t size)
{
    *bit = policy_flag(name, strlen(name));
    if (*bit)
        return 0;
    int n = snprintf(why, size, "no policy flag is called '%.40s'; there are:", name);
    for (int i = 0; i < 32 && n > 0 && (size_t)n < size; i++)
        if (policy_flag_keys[i])
            n += snprintf(why + n, size - (size_t)n, " %s", policy_flag_keys[i]);
    return HAWK_EINVALID;
}

static int preset_apply(struct policy *p, const char *name, char *why, size_t size)
{
    struct policy preset;
    if (policy_preset(name, &preset)) {
        int n = snprintf(why, size, "no policy is called '%.40s'; there are:", name);
        for (const char *const *known = policy_names; *known && n > 0 && (size_t)n < size; known++)
            n += snprintf(why + n, size - (size_t)n, " %s", *known);
        return HAWK_EINVALID;
    }
    preset.version = p->version;
    preset.cutoff_us = p->cutoff_us;
    preset.short_share_ppm = p->short_share_ppm;
    *p = preset;
    return 0;
}

/* What of the request's numbers lies outside its range. */
static int numbers_check(const struct api_set_policy_request *r, char *why, size_t size)
{
    const struct {
        const char *name;
        int64_t v, min, max;
        bool given;
    } numbers[] = {
        {"cutoff_us", r->cutoff_us, 0, LIMIT_TIME_US, r->has_cutoff_us},
        {"short_share_ppm", r->short_share_ppm, 0, 1000000, r->has_short_share_ppm},
        /* A task needs a probe of its own, or nobody asks for it (Sparrow 3.3). */
        {"probe_ratio_milli", r->probe_ratio_milli, 1000, 1000000, r->has_probe_ratio_milli},
        {"min_probes", r->min_probes, 0, LIMIT_TASKS_PER_JOB, r->has_min_probes},
        {"steal_cap", r->steal_cap, 1, UINT16_MAX, r->has_steal_cap},
        {"steal_max", r->steal_max, 1, UINT16_MAX, r->has_steal_max},
        {"short_first", r->short_first, 0, LIMIT_SHORT_FIRST, r->has_short_first},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].given && (numbers[i].v < numbers[i].min || numbers[i].v > numbers[i].max)) {
            snprintf(why, size, "%s: %lld is not within %lld and %lld", numbers[i].name,
                     (long long)numbers[i].v, (long long)numbers[i].min, (long long)numbers[i].max);
            return HAWK_EINVALID;
        }
    return 0;
}

static void numbers_apply(struct policy *p, const struct api_set_policy_request *r)
{
    if (r->has_cutoff_us)
        p->cutoff_us = r->cutoff_us;
    if (r->has_short_share_ppm)
        p->short_share_ppm = r->short_share_ppm;
    if (r->has_probe_ratio_milli)
        p->probe_ratio_milli = r->probe_ratio_milli;
    if (r->has_min_probes)
        p->min_probes = r->min_probes;
    if (r->has_steal_cap)
        p->steal_cap = (uint16_t)r->steal_cap;
    if (r->has_steal_max)
        p->steal_max = (uint16_t)r->steal_max;
    if (r->has_short_first)
        p->short_first = (uint16_t)r->short_first;
}

int api_policy_apply(struct policy *p, const struct api_set_policy_request *r, char *why, size_t size)
{
    struct policy changed = *p;
    uint32_t bit = 0;
    int err = r->preset && *r->preset ? preset_apply(&changed, r->preset, why, size) : 0;
    if (!err)
        err = numbers_check(r, why, size);
    if (err)
        return err;
    numbers_apply(&changed, r);
    for (uint32_t i = 0; i < r->on_n; i++) {
        if ((err = flag_find(r->on[i], &bit, why, size)))
            return err;
        changed.flags |= bit;
    }
    for (uint32_t i = 0; i < r->off_n; i++) {
        if ((err = flag_find(r->off[i], &bit, why, size)))
            return err;
        changed.flags &= ~bit;
    }
    *p = changed;
    return 0;
}
