/* Makes the API's messages of what roles show, and policy choices of an operator's request. */
#include "base/units.h"
#include "net/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct job_desc api_public_spec(const struct job_desc *d)
{
    struct job_desc spec = *d;

    spec.args = (struct task_args){0};
    spec.env = spec.each_env = (struct strings){0};
    spec.input = spec.signature = NULL; /* it has both */
    spec.again_key = 0;                 /* its client's secret */
    return spec;
}

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
        .by_client = v->by_client,
        .no_executor = v->no_executor,
        .attended = !(v->desc->flags & JOB_DETACHED),
        .paused = v->paused,
        .paused_us = v->paused_us,
        .pauses = v->pauses,
        .cause = v->cause,
        .held = v->held,
        .waits = "",
        .cpu_us = v->total.cpu_us,
        .mem_peak_bytes = v->total.mem_peak_bytes,
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
        .pauses = v->pauses,
        .paused_us = v->paused_us,
        .paused = v->stood_us >= 0,
        .stood_us = v->stood_us >= 0 ? v->stood_us : 0,
        .paused_for = v->paused_for,
        .paused_for_task = v->paused_for_task,
        .failures = v->failures,
        .cpu_us = figure_value(v->used.cpu_us),
        .mem_peak_bytes = figure_value(v->used.mem_peak_bytes),
    };
}

struct resubmit_task api_task_ended(const struct api_task *t)
{
    return (struct resubmit_task){
        .task = t->task,
        .state = (uint8_t)t->state,
        .outcome = (uint8_t)t->outcome,
        .code = t->code,
        .attempt = (uint16_t)(t->attempt < UINT16_MAX ? t->attempt : UINT16_MAX),
        .worker = t->worker < NODE_ID_MAX ? t->worker : NODE_ID_MAX,
        .wait_us = t->wait_us,
        .run_us = t->run_us,
        .used = usage_of(t->cpu_us, t->mem_peak_bytes),
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

static int preset_find(struct policy_choice *c, const char *name, char *why, size_t size)
{
    c->preset = policy_preset_number(name, strlen(name));
    if (c->preset)
        return 0;
    int n = snprintf(why, size, "no policy is called '%.40s'; there are:", name);
    for (const char *const *known = policy_names; *known && n > 0 && (size_t)n < size; known++)
        n += snprintf(why + n, size - (size_t)n, " %s", *known);
    return HAWK_EINVALID;
}

static int numbers_take(struct policy_choice *c, const struct api_set_policy_request *r, char *why,
                        size_t size)
{
#define X(name, bit, scope, field, min, max)                                                                 \
    if (r->has_##field) {                                                                                    \
        if ((int64_t)r->field < (int64_t)(min) || (int64_t)r->field > (int64_t)(max)) {                      \
            snprintf(why, size, "%s: %lld is not within %lld and %lld", #field, (long long)r->field,         \
                     (long long)(min), (long long)(max));                                                    \
            return HAWK_EINVALID;                                                                            \
        }                                                                                                    \
        c->v.field = (__typeof__(c->v.field))r->field;                                                       \
        c->numbers |= POLICY_NUMBER_##name;                                                                  \
    }
    POLICY_NUMBERS(X)
#undef X
    return 0;
}

static int flags_take(struct policy_choice *c, const struct api_set_policy_request *r, char *why, size_t size)
{
    uint32_t bit = 0;
    int err;
    for (uint32_t i = 0; i < r->on_n; i++) {
        if ((err = flag_find(r->on[i], &bit, why, size)))
            return err;
        c->flags |= bit;
        c->v.flags |= bit;
    }
    for (uint32_t i = 0; i < r->off_n; i++) {
        if ((err = flag_find(r->off[i], &bit, why, size)))
            return err;
        c->flags |= bit;
        c->v.flags &= ~bit;
    }
    return 0;
}

int api_policy_choice(struct policy_choice **out, const struct api_set_policy_request *r, char *why,
                      size_t size)
{
    struct policy_choice *c = policy_choice_new();
    int err = r->preset && *r->preset ? preset_find(c, r->preset, why, size) : 0;
    if (!err)
        err = numbers_take(c, r, why, size);
    if (!err)
        err = flags_take(c, r, why, size);
    if (err)
        policy_choice_drop(c);
    else
        *out = c;
    return err;
}

const char *api_policy_origin(const struct api_policy *p, const char *key)
{
    for (uint32_t i = 0; i < p->origins_n; i++)
        if (strcmp(p->origins[i].key, key) == 0)
            return p->origins[i].from;
    return "";
}

static bool is_set(const struct api_policy *p, const char *key)
{
    return strcmp(api_policy_origin(p, key), policy_origin_text(POLICY_FROM_SET)) == 0;
}

bool api_policy_is_on(const struct api_policy *p, const char *flag)
{
    for (uint32_t i = 0; i < p->flags_n; i++)
        if (strcmp(p->flags[i], flag) == 0)
            return true;
    return false;
}

/* Appends to the text in buf, and cuts what does not fit. */
static void HAWK_PRINTF(3, 4) line_add(char *buf, size_t size, const char *fmt, ...)
{
    size_t n = strlen(buf);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + n, size - n, fmt, ap);
    va_end(ap);
}

/* A central of an older version does not say where values come from. */
static void add_origin(const struct api_policy *p, const char *key, char *buf, size_t size)
{
    const char *from = api_policy_origin(p, key);
    if (*from)
        line_add(buf, size, " (%s)", from);
}

void api_policy_line(const struct api_policy *p, char *buf, size_t size)
{
    char cutoff[32], share[16];
    buf[0] = '\0';
    line_add(buf, size, "policy %s (version %u): cutoff %s", p->base && *p->base ? p->base : p->name,
             p->version, duration_format(cutoff, sizeof cutoff, p->cutoff_us));
    add_origin(p, "cutoff_us", buf, size);
    line_add(buf, size, ", short partition %s", share_format(share, sizeof share, p->short_share_ppm));
    add_origin(p, "short_share_ppm", buf, size);
#define X(name, bit, scope, field, min, max)                                                                 \
    if (POLICY_NUMBER_##name != POLICY_NUMBER_CUTOFF && POLICY_NUMBER_##name != POLICY_NUMBER_SHARE &&       \
        is_set(p, #field))                                                                                   \
        line_add(buf, size, ", %s %llu (set)", #field, (unsigned long long)p->field);
    POLICY_NUMBERS(X)
#undef X
    for (int bit = 0; bit < 32; bit++)
        if (policy_flag_keys[bit] && is_set(p, policy_flag_keys[bit]))
            line_add(buf, size, ", %s %s (set)", policy_flag_keys[bit],
                     api_policy_is_on(p, policy_flag_keys[bit]) ? "on" : "off");
}
