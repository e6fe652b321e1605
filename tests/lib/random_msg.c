/* Random messages, and their comparison. */
#include "tests/lib/random_msg.h"

#include "base/mem.h"

#include <string.h>

/* Small numbers mostly, sometimes any up to max, sometimes max. */
static uint64_t number(struct rng *r, uint64_t max)
{
    switch (rng_below(r, 4)) {
    case 0:
        return rng_below(r, max < 4 ? max + 1 : 4);
    case 1:
        return max;
    default:
        return max == UINT64_MAX ? rng_next(r) : rng_below(r, max + 1);
    }
}

static bool chance(struct rng *r, unsigned one_in) { return rng_below(r, one_in) == 0; }

static struct blob *bytes(struct rng *r, size_t max)
{
    struct blob *b = blob_new(NULL, rng_below(r, max + 1));

    for (uint32_t i = 0; i < b->len; i++)
        b->data[i] = (char)rng_below(r, 256);
    return b;
}

static struct blob *text(struct rng *r, size_t max)
{
    struct blob *b = blob_new(NULL, 1 + rng_below(r, max));

    for (uint32_t i = 0; i < b->len; i++)
        b->data[i] = (char)('a' + rng_below(r, 26));
    return b;
}

static void add_string(struct rng *r, struct strings *s, const char *prefix)
{
    struct blob *t = text(r, 40);
    char line[80];

    memcpy(line, prefix, strlen(prefix));
    memcpy(line + strlen(prefix), t->data, t->len + 1);
    strings_add(s, line);
    blob_drop(t);
}

struct job_desc *random_desc(struct rng *r)
{
    struct job_desc *d = job_desc_new();

    d->tasks = 1 + (uint32_t)rng_below(r, 40);
    d->estimate_us = (int64_t)number(r, LIMIT_TIME_US);
    d->time_limit_us = (int64_t)number(r, LIMIT_TIME_US);
    d->lost_retries = (uint16_t)number(r, UINT16_MAX);
    d->failure_retries = (uint16_t)rng_below(r, LIMIT_FAILURE_RETRIES + 1);
    d->retry_on = (uint32_t)rng_below(r, RETRY_ON_ALL + 1);
    d->retry_delay_us = (int64_t)number(r, LIMIT_TIME_US);
    d->retry_codes = chance(r, 2) ? text(r, 20) : NULL;
    d->tag = (uint8_t)rng_below(r, TAG_COUNT);
    d->kind = PAYLOAD_COMMAND;
    d->max_fails = (uint32_t)number(r, UINT32_MAX);
    d->max_running = (uint32_t)number(r, UINT32_MAX);
    d->first_index = (uint32_t)number(r, UINT32_MAX - 40);
    d->mem_bytes = (int64_t)number(r, INT64_MAX);
    d->pids = (uint32_t)number(r, UINT32_MAX);
    d->signature = chance(r, 4) ? text(r, 60) : NULL;
    d->umask = chance(r, 2) ? JOB_UMASK_TOLD | (uint32_t)rng_below(r, 01000) : 0;
    d->ancestors.n = (uint32_t)rng_below(r, LIMIT_ANCESTORS + 1);
    for (uint32_t i = 0; i < d->ancestors.n; i++)
        d->ancestors.v[i] = job_id_make((node_id_t){1 + (uint32_t)rng_below(r, 99)}, rng_next(r));
    d->flags = (chance(r, 2) ? JOB_DETACHED : 0) | (chance(r, 2) ? JOB_AT_MOST_ONCE : 0);
    blob_drop(d->name);
    d->name = text(r, 200);
    if (chance(r, 2)) {
        d->cwd = text(r, 60);
        d->stdout_pattern = text(r, 60);
        d->stderr_pattern = text(r, 60);
        d->input = bytes(r, 300);
        if (d->input->len == 0) {
            blob_drop(d->input);
            d->input = NULL; /* empty and absent are the same */
        }
    }
    for (uint64_t i = rng_below(r, 5) + 1; i; i--)
        add_string(r, &d->argv, "");
    strings_add(&d->argv, "");
    for (uint64_t i = rng_below(r, 3); i; i--)
        add_string(r, &d->env, "NAME=");
    for (uint64_t i = rng_below(r, 3); i; i--)
        add_string(r, &d->each_env, "EACH={}");
    d->columns = (uint32_t)number(r, LIMIT_COLUMNS);
    d->flags |= chance(r, 2) ? JOB_EACH_CWD : 0;
    d->flags |= chance(r, 2) ? JOB_ARG_ASIDE : 0;
    if (chance(r, 2)) {
        d->flags |= JOB_EACH_ARG;
        for (uint32_t i = 0; i < d->tasks; i++) {
            struct blob *b = bytes(r, 30);

            task_args_add(&d->args, b->data, b->len);
            blob_drop(b);
        }
    }
    return d;
}

static struct members *random_members(struct rng *r)
{
    struct members *m = members_new((uint32_t)rng_below(r, 6));

    for (uint32_t i = 0; i < m->n; i++)
        m->v[i] = (struct member){.node = {i * 1000 + 1 + (uint32_t)rng_below(r, 1000)},
                                  .slots = (uint32_t)number(r, LIMIT_SLOTS),
                                  .role = (uint8_t)rng_below(r, ROLE_COUNT),
                                  .state = (uint8_t)rng_below(r, MEMBER_STATE_COUNT),
                                  .general = (uint8_t)rng_below(r, 2),
                                  .unsettled = (uint8_t)rng_below(r, 2),
                                  .addr = text(r, 30),
                                  .name = text(r, 200),
                                  .out_why = chance(r, 2) ? text(r, 100) : NULL};
    return m;
}

static struct task_set *random_tasks(struct rng *r)
{
    struct task_set *s;

    if (chance(r, 3))
        return NULL;
    s = task_set_new(1 + (uint32_t)rng_below(r, 300));
    for (uint32_t i = 0; i < s->n; i++)
        s->v[i] = i * 1000 + (uint32_t)rng_below(r, 1000);
    return s;
}

static job_id_t random_job(struct rng *r)
{
    return job_id_make((node_id_t){1 + (uint32_t)number(r, NODE_ID_MAX - 1)}, number(r, JOB_SEQ_MAX));
}

static struct policy random_policy(struct rng *r)
{
    return (struct policy){.cutoff_us = (int64_t)number(r, LIMIT_TIME_US),
                           .version = (uint32_t)number(r, UINT32_MAX),
                           .flags = (uint32_t)number(r, UINT32_MAX),
                           .short_share_ppm = (uint32_t)number(r, 1000000),
                           .probe_ratio_milli = (uint32_t)number(r, 1000000),
                           .min_probes = (uint32_t)number(r, LIMIT_TASKS_PER_JOB),
                           .steal_cap = (uint16_t)number(r, UINT16_MAX),
                           .steal_max = (uint16_t)number(r, UINT16_MAX),
                           .short_first = (uint16_t)number(r, LIMIT_SHORT_FIRST)};
}

/* What a field of this name holds at most. */
static uint8_t u8_max(const char *field)
{
    static const struct {
        const char *field;
        uint8_t max;
    } limits[] = {{"role", ROLE_COUNT - 1},
                  {"state", MEMBER_STATE_COUNT - 1},
                  {"class", CLASS_COUNT - 1},
                  {"why", WHY_COUNT - 1},
                  {"outcome", OUTCOME_COUNT - 1}};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strcmp(limits[i].field, field) == 0)
            return limits[i].max;
    return 1;
}

#define RANDOM_none(name) 0
#define RANDOM_job(name) random_job(r)
#define RANDOM_node(name) ((node_id_t){1 + (uint32_t)number(r, NODE_ID_MAX - 1)})
#define RANDOM_try(name)                                                                                     \
    ((struct try_id){random_job(r), (uint32_t)number(r, LIMIT_TASKS_PER_JOB - 1),                            \
                     1 + (uint16_t)number(r, UINT16_MAX - 1), 1 + (uint16_t)number(r, UINT16_MAX - 1)})
#define RANDOM_u8(name) (uint8_t) rng_below(r, u8_max(name) + 1u)
#define RANDOM_u16(name) 1 + (uint16_t)number(r, UINT16_MAX - 1)
#define RANDOM_u32(name) (uint32_t) number(r, UINT32_MAX)
#define RANDOM_u64(name) number(r, UINT64_MAX)
#define RANDOM_app(name) number(r, UINT64_MAX)
#define RANDOM_i32(name)                                                                                     \
    (int32_t)(strcmp(name, "err") == 0 ? -1 - (int64_t)number(r, 100)                                        \
                                       : (int64_t)number(r, UINT32_MAX) + INT32_MIN)
#define RANDOM_i64(name) (int64_t) number(r, LIMIT_TIME_US)
#define RANDOM_usage(name) usage_of((int64_t)number(r, INT64_MAX), (int64_t)number(r, INT64_MAX))
#define RANDOM_policy(name) random_policy(r)
#define RANDOM_blob(name) text(r, 200)
#define RANDOM_desc(name) random_desc(r)
#define RANDOM_spec(name) random_desc(r)
#define RANDOM_tasks(name) random_tasks(r)
#define RANDOM_members(name) random_members(r)

/* What holds between fields, or of one message's field only. */
static void mend(struct rng *r, struct msg *m)
{
    switch (m->type) {
    case MSG_JOIN:
        m->join.role = chance(r, 2) ? ROLE_DIST : ROLE_WORKER;
        m->join.slots %= LIMIT_SLOTS + 1;
        break;
    case MSG_MEMBER:
        m->member.slots %= LIMIT_SLOTS + 1;
        break;
    case MSG_JOINED:
        m->joined.heartbeat_us += m->joined.heartbeat_us == 0;
        m->joined.lease_us += m->joined.lease_us == 0;
        break;
    case MSG_COUNTER:
        m->counter.counter %= COUNTER_COUNT;
        break;
    case MSG_JOB_NUMBERS:
        m->job_numbers.next = 1 + number(r, JOB_SEQ_MAX);
        blob_drop(m->job_numbers.receipts);
        m->job_numbers.receipts =
            chance(r, 2) ? blob_new("0123456789abcdef", sizeof(struct receipt_secret)) : NULL;
        break;
    case MSG_JOB_REPORT:
        m->job_report.mean_us %= INT64_C(1000000000);
        m->job_report.tasks = m->job_report.tasks % LIMIT_TASKS_PER_JOB + 1;
        m->job_report.task_us = (uint64_t)m->job_report.mean_us * m->job_report.tasks +
                                m->job_report.task_us % m->job_report.tasks;
        break;
    case MSG_LONG_SUBMIT:
        /* The set goes up to 300,000; arguments would have to be that many. */
        if (m->long_submit.tasks && !(m->long_submit.desc->flags & JOB_EACH_ARG))
            m->long_submit.desc->tasks = LIMIT_TASKS_PER_JOB, m->long_submit.desc->first_index = 0;
        else
            task_set_drop(m->long_submit.tasks), m->long_submit.tasks = NULL;
        break;
    case MSG_LONG_CANCEL_TASKS:
        if (!m->long_cancel_tasks.tasks)
            m->long_cancel_tasks.tasks = task_set_new(1);
        break;
    case MSG_LONG_TASK:
        m->long_task.state = (uint8_t)rng_below(r, TASK_STATE_COUNT);
        m->long_task.id.attempt = (uint16_t)rng_below(r, 3);
        break;
    case MSG_LONG_MESSAGE:
        if (!m->long_message.text || m->long_message.text->len > 4096) {
            blob_drop(m->long_message.text);
            m->long_message.text = blob_str("no such program");
        }
        break;
    case MSG_TASK_FINISHED:
        m->task_finished.outcome += m->task_finished.outcome == OUTCOME_NONE;
        break;
    case MSG_TASK_LAUNCH:
        if (chance(r, 2)) {
            job_desc_drop(m->task_launch.desc);
            blob_drop(m->task_launch.arg);
            m->task_launch.desc = NULL;
            m->task_launch.arg = chance(r, 2) ? blob_str("") : NULL;
        }
        break;
    case MSG_PROBE:
        m->probe.count += m->probe.count == 0;
        break;
    case MSG_STEAL_LOOT:
        m->steal_loot.count += m->steal_loot.count == 0;
        m->steal_loot.index = (uint16_t)rng_below(r, m->steal_loot.items);
        break;
    default:
        break;
    }
}

void random_msg(struct rng *r, enum msg_type type, struct msg *m)
{
    memset(m, 0, sizeof *m);
    m->type = (uint16_t)type;
    switch (type) {
#define FIELD(kind, field) p->field = RANDOM_##kind(#field);
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        struct msg_##name *p = &m->name;                                                                     \
        FIELDS_##name(FIELD) break;                                                                          \
    }
        WIRE_MESSAGES(X)
#undef X
#undef FIELD
    default:
        break;
    }
    mend(r, m);
}

/* ---- Comparison ---- */

static bool blob_equal(const struct blob *a, const struct blob *b)
{
    if (!a || !b)
        return a == b;
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static bool strings_equal(const struct strings *a, const struct strings *b)
{
    return a->n == b->n && a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static bool args_equal(const struct task_args *a, const struct task_args *b)
{
    if (a->n != b->n)
        return false;
    return a->n == 0 || (memcmp(a->off, b->off, (a->n + 1) * sizeof *a->off) == 0 &&
                         (a->off[a->n] == 0 || memcmp(a->data, b->data, a->off[a->n]) == 0));
}

bool desc_equal(const struct job_desc *a, const struct job_desc *b, bool args)
{
    if (!a || !b)
        return a == b;
    return a->tasks == b->tasks && a->estimate_us == b->estimate_us && a->time_limit_us == b->time_limit_us &&
           a->lost_retries == b->lost_retries && a->tag == b->tag && a->kind == b->kind &&
           a->flags == b->flags && a->max_fails == b->max_fails && a->max_running == b->max_running &&
           blob_equal(a->name, b->name) && blob_equal(a->user, b->user) && a->first_index == b->first_index &&
           a->umask == b->umask && a->ancestors.n == b->ancestors.n &&
           memcmp(a->ancestors.v, b->ancestors.v, a->ancestors.n * sizeof *a->ancestors.v) == 0 &&
           strings_equal(&a->argv, &b->argv) && strings_equal(&a->env, &b->env) &&
           strings_equal(&a->each_env, &b->each_env) && a->columns == b->columns &&
           blob_equal(a->cwd, b->cwd) && blob_equal(a->stdout_pattern, b->stdout_pattern) &&
           blob_equal(a->stderr_pattern, b->stderr_pattern) && blob_equal(a->input, b->input) &&
           a->failure_retries == b->failure_retries && a->retry_on == b->retry_on &&
           a->retry_delay_us == b->retry_delay_us && blob_equal(a->retry_codes, b->retry_codes) &&
           blob_equal(a->app, b->app) && a->mem_bytes == b->mem_bytes && a->pids == b->pids &&
           blob_equal(a->signature, b->signature) && (args ? args_equal(&a->args, &b->args) : true);
}

static bool tasks_equal(const struct task_set *a, const struct task_set *b)
{
    if (!a || !b)
        return a == b;
    return a->n == b->n && memcmp(a->v, b->v, a->n * sizeof *a->v) == 0;
}

static bool members_equal(const struct members *a, const struct members *b)
{
    uint32_t n = a ? a->n : 0; /* an empty list may travel as none */

    if (n != (b ? b->n : 0))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!node_eq(a->v[i].node, b->v[i].node) || a->v[i].slots != b->v[i].slots ||
            a->v[i].role != b->v[i].role || a->v[i].state != b->v[i].state ||
            a->v[i].general != b->v[i].general || a->v[i].unsettled != b->v[i].unsettled ||
            !blob_equal(a->v[i].addr, b->v[i].addr) || !blob_equal(a->v[i].name, b->v[i].name) ||
            !blob_equal(a->v[i].out_why, b->v[i].out_why))
            return false;
    return true;
}

static bool policy_equal(const struct policy *a, const struct policy *b)
{
    return a->cutoff_us == b->cutoff_us && a->version == b->version && a->flags == b->flags &&
           a->short_share_ppm == b->short_share_ppm && a->probe_ratio_milli == b->probe_ratio_milli &&
           a->min_probes == b->min_probes && a->steal_cap == b->steal_cap && a->steal_max == b->steal_max &&
           a->short_first == b->short_first;
}

#define EQUAL_none(x, y) true
#define EQUAL_job(x, y) ((x).v == (y).v)
#define EQUAL_node(x, y) ((x).v == (y).v)
#define EQUAL_try(x, y) try_eq(&(x), &(y))
#define EQUAL_u8(x, y) ((x) == (y))
#define EQUAL_u16(x, y) ((x) == (y))
#define EQUAL_u32(x, y) ((x) == (y))
#define EQUAL_u64(x, y) ((x) == (y))
#define EQUAL_app(x, y) ((x) == (y))
#define EQUAL_i32(x, y) ((x) == (y))
#define EQUAL_i64(x, y) ((x) == (y))
#define EQUAL_usage(x, y) ((x).cpu_us.v == (y).cpu_us.v && (x).mem_peak_bytes.v == (y).mem_peak_bytes.v)
#define EQUAL_policy(x, y) policy_equal(&(x), &(y))
#define EQUAL_blob(x, y) blob_equal(x, y)
#define EQUAL_desc(x, y) desc_equal(x, y, true)
#define EQUAL_spec(x, y) desc_equal(x, y, false)
#define EQUAL_tasks(x, y) tasks_equal(x, y)
#define EQUAL_members(x, y) members_equal(x, y)

bool msg_equal(const struct msg *a, const struct msg *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
#define FIELD(kind, field) &&EQUAL_##kind(p->field, q->field)
#define X(NAME, name, tag)                                                                                   \
    case MSG_##NAME: {                                                                                       \
        const struct msg_##name *p = &a->name, *q = &b->name;                                                \
        (void)p, (void)q;                                                                                    \
        return true FIELDS_##name(FIELD);                                                                    \
    }
        WIRE_MESSAGES(X)
#undef X
#undef FIELD
    }
    return false;
}
