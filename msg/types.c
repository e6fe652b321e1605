/* Texts of the enumerations, the named policies, and the handles: job descriptions, task sets, member
 * lists. */
#include "msg/types.h"

#include "base/check.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"
#include "msg/tree.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts ---- */

#define X(name, text) text,
static const char *const role_texts[] = {ROLES(X)};
static const char *const class_texts[] = {JOB_CLASSES(X)};
static const char *const tag_texts[] = {CLASS_TAGS(X)};
static const char *const why_texts[] = {CLASS_WHYS(X)};
static const char *const outcome_texts[] = {OUTCOMES(X)};
static const char *const member_state_texts[] = {MEMBER_STATES(X)};
static const char *const node_change_texts[] = {NODE_CHANGES(X)};
static const char *const policy_scope_texts[] = {POLICY_SCOPES(X)};
static const char *const policy_origin_texts[] = {POLICY_ORIGINS(X)};
#undef X
#define X(name, text, phase) text,
static const char *const task_state_texts[] = {TASK_STATES(X)};
static const char *const job_state_texts[] = {JOB_STATES(X)};
#undef X

#define TEXT_OF(table, v) ((unsigned)(v) < sizeof(table) / sizeof *(table) ? (table)[v] : "?")

const char *role_text(enum role v) { return TEXT_OF(role_texts, v); }
const char *class_text(enum job_class v) { return TEXT_OF(class_texts, v); }
const char *tag_text(enum class_tag v) { return TEXT_OF(tag_texts, v); }
const char *why_text(enum class_why v) { return TEXT_OF(why_texts, v); }
const char *outcome_text(enum outcome v) { return TEXT_OF(outcome_texts, v); }
const char *task_state_text(enum task_state v) { return TEXT_OF(task_state_texts, v); }
const char *job_state_text(enum job_state v) { return TEXT_OF(job_state_texts, v); }
const char *member_state_text(enum member_state v) { return TEXT_OF(member_state_texts, v); }
const char *node_change_text(enum node_change v) { return TEXT_OF(node_change_texts, v); }
const char *policy_scope_text(enum policy_scope v) { return TEXT_OF(policy_scope_texts, v); }
const char *policy_origin_text(enum policy_origin v) { return TEXT_OF(policy_origin_texts, v); }

const char *const counter_names[COUNTER_COUNT] = {
#define X(name, help) #name,
    COUNTERS(X)
#undef X
};

bool node_name_reserved(const char *name) { return strcmp(name, role_text(ROLE_CENTRAL)) == 0; }

int64_t run_us_credible(int64_t run_us, int64_t known_us)
{
    int64_t most_us = known_us + known_us / 100 + US_PER_S;

    return run_us < most_us ? run_us : most_us;
}

/* ---- Policies ---- */

#define STEALING (POLICY_STEAL | POLICY_STEAL_RETRY | POLICY_STEAL_HINTS | POLICY_STEAL_ADAPT)
#define PROBING (POLICY_CANCEL_PROBES | POLICY_REPROBE)
#define HAWK (POLICY_CENTRAL_LONG | POLICY_PARTITION | STEALING | POLICY_PROMOTE | PROBING)
/* Hawk 4.1: 17 % of the cluster for the Google trace. The history replaces it, unless the operator forbids
 * that. */
#define HAWK_SHARE_PPM 170000u

static const struct preset {
    const char *name;
    uint32_t flags;
} presets[] = {
    {"hawk", HAWK},
    {"sparrow", PROBING},
    /* Hawk 4.4: one component taken away at a time. */
    {"hawk-no-steal", HAWK & ~(uint32_t)STEALING},
    {"hawk-no-partition", HAWK & ~(uint32_t)POLICY_PARTITION},
    /* Dists probe the general partition for long jobs. Promotion is off: central takes no tasks. */
    {"hawk-no-central", POLICY_PARTITION | STEALING | PROBING | POLICY_LONG_GENERAL},
    /* Hawk 4.6: two separate clusters, one per class. */
    {"split", POLICY_CENTRAL_LONG | POLICY_PARTITION | POLICY_SHORT_RESERVED | PROBING},
    /* Hawk 4.5: one queue by waiting time for everything. */
    {"central", POLICY_CENTRAL_LONG | POLICY_ALL_LONG},
    /* Ours: Hawk, and long tasks stay with central, small jobs first, until a worker asks for one, and are
     * paused for short ones. Where workers are few, short jobs miss no idle one, and no large one goes first as a
     * whole. */
    {"harrier", HAWK | POLICY_LATE_LONG | POLICY_LONG_BY_WORK | POLICY_PAUSE | POLICY_PROBE_EVERYWHERE |
                    POLICY_JOB_TURNS},
    /* Eagle (SoCC 2016) as far as its parts exist here: no stealing, since no short task waits behind long ones. */
    {"eagle", POLICY_CENTRAL_LONG | POLICY_PARTITION | PROBING | POLICY_AVOID_LONG},
};
#define PRESETS (sizeof presets / sizeof *presets)

const char *const policy_names[] = {"hawk",
                                    "sparrow",
                                    "hawk-no-steal",
                                    "hawk-no-partition",
                                    "hawk-no-central",
                                    "split",
                                    "central",
                                    "harrier",
                                    "eagle",
                                    NULL};
_Static_assert(sizeof policy_names / sizeof *policy_names == PRESETS + 1, "every preset has its name listed");

int policy_preset(const char *name, struct policy *p)
{
    for (size_t i = 0; i < PRESETS; i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        *p = (struct policy){
            .cutoff_us = INT64_C(10000000),
            .flags = presets[i].flags,
            .short_share_ppm = HAWK_SHARE_PPM,
            .probe_ratio_milli = 2000, /* Hawk 4.1, Sparrow 3.4: two probes per task */
            .steal_cap = 10,           /* Hawk 3.6 */
            .steal_max = 10000,
        };
        return 0;
    }
    return HAWK_ENOT_FOUND;
}

const char *const policy_flag_keys[32] = {
#define X(name, bit, scope, key, help) [bit] = key,
    POLICY_FLAGS(X)
#undef X
};

uint32_t policy_flag(const char *key, size_t len)
{
    for (int bit = 0; bit < 32; bit++)
        if (policy_flag_keys[bit] && strlen(policy_flag_keys[bit]) == len &&
            strncmp(policy_flag_keys[bit], key, len) == 0)
            return 1u << bit;
    return 0;
}

void policy_number_range(enum policy_number n, int64_t *least, int64_t *greatest)
{
    switch (n) {
#define X(name, bit, scope, field, min, max)                                                                 \
    case POLICY_NUMBER_##name:                                                                               \
        *least = (min);                                                                                      \
        *greatest = (max);                                                                                   \
        break;
        POLICY_NUMBERS(X)
#undef X
    }
}

int policy_check(const struct policy *p, const char **field)
{
#define X(name, bit, scope, f, min, max)                                                                     \
    *field = #f;                                                                                             \
    if ((int64_t)p->f < (int64_t)(min) || (int64_t)p->f > (int64_t)(max))                                    \
        return HAWK_EINVALID;
    POLICY_NUMBERS(X)
#undef X
    return 0;
}

uint8_t policy_preset_number(const char *name, size_t len)
{
    for (size_t i = 0; i < PRESETS; i++)
        if (strlen(presets[i].name) == len && strncmp(presets[i].name, name, len) == 0)
            return (uint8_t)(i + 1);
    return 0;
}

/* ---- What an operator chose ---- */

struct policy_choice *policy_choice_new(void)
{
    struct policy_choice *c = xcalloc(1, sizeof *c);

    c->refs = 1;
    return c;
}

struct policy_choice *policy_choice_ref(struct policy_choice *c)
{
    if (c)
        c->refs++;
    return c;
}

void policy_choice_drop(struct policy_choice *c)
{
    if (!c)
        return;
    CHECK(c->refs > 0);
    if (--c->refs == 0)
        free(c);
}

/* The flags and numbers that were chosen one by one. */
static void choose_single(struct policy *p, const struct policy_choice *c)
{
    p->flags = (p->flags & ~c->flags) | (c->v.flags & c->flags);
#define X(name, bit, scope, field, min, max)                                                                 \
    if (c->numbers & POLICY_NUMBER_##name)                                                                   \
        p->field = c->v.field;
    POLICY_NUMBERS(X)
#undef X
}

void policy_choose(struct policy *p, const struct policy_choice *c)
{
    if (c->preset) {
        struct policy own;

        CHECK(c->preset <= PRESETS);
        CHECK(policy_preset(policy_names[c->preset - 1], &own) == 0);
        own.version = p->version;
        own.cutoff_us = p->cutoff_us;
        own.short_share_ppm = p->short_share_ppm;
        *p = own;
    }
    choose_single(p, c);
}

struct policy_choice *policy_choice_then(const struct policy_choice *before, const struct policy_choice *then)
{
    struct policy_choice *c = policy_choice_new();

    if (before) {
        *c = *before;
        c->refs = 1;
    }
    if (then->preset) {
        c->preset = then->preset;
        c->flags = 0;
        c->numbers &= POLICY_NUMBER_CUTOFF | POLICY_NUMBER_SHARE;
    }
    choose_single(&c->v, then);
    c->flags |= then->flags;
    c->numbers |= then->numbers;
    return c;
}

/* ---- Strings and task arguments ---- */

/* Both grow by doubling and store no capacity: it is the next power of two of what they hold. */
static size_t capacity_of(size_t used)
{
    size_t cap = 64;

    while (cap < used)
        cap *= 2;
    return cap;
}

static void *grown_array(void *p, size_t used, size_t needed, size_t element)
{
    if (p && capacity_of(used) >= needed)
        return p;
    return xrealloc(p, capacity_of(needed) * element);
}

char *strings_add_space(struct strings *s, size_t len)
{
    CHECK(len < UINT32_MAX - s->bytes);
    s->data = grown_array(s->data, s->bytes, s->bytes + len + 1, 1);
    char *text = s->data + s->bytes;
    text[len] = '\0';
    s->bytes += (uint32_t)len + 1;
    s->n++;
    return text;
}

void strings_add(struct strings *s, const char *text)
{
    size_t len = strlen(text);

    memcpy(strings_add_space(s, len), text, len);
}

void *task_args_add_space(struct task_args *a, size_t len)
{
    uint32_t end = a->n ? a->off[a->n] : 0;

    CHECK(len <= UINT32_MAX - end);
    a->off = grown_array(a->off, a->n + 1, a->n + 2, sizeof *a->off);
    a->data = grown_array(a->data, end, end + len, 1);
    a->off[a->n] = end;
    a->off[++a->n] = end + (uint32_t)len;
    return a->data + end;
}

void task_args_add(struct task_args *a, const void *data, size_t len)
{
    void *space = task_args_add_space(a, len);

    if (len)
        memcpy(space, data, len);
}

/* ---- Job descriptions ---- */

struct job_desc *job_desc_new(void)
{
    struct job_desc *d = xcalloc(1, sizeof *d);

    d->refs = 1;
    d->name = blob_str("");
    d->user = blob_str("");
    return d;
}

struct job_desc *job_desc_ref(struct job_desc *d)
{
    if (d)
        d->refs++;
    return d;
}

void job_desc_drop(struct job_desc *d)
{
    if (!d)
        return;
    CHECK(d->refs > 0);
    if (--d->refs)
        return;
    blob_drop(d->name);
    blob_drop(d->user);
    blob_drop(d->cwd);
    blob_drop(d->stdout_pattern);
    blob_drop(d->stderr_pattern);
    blob_drop(d->input);
    blob_drop(d->app);
    blob_drop(d->retry_codes);
    blob_drop(d->signature);
    blob_drop(d->tree);
    after_free(&d->after);
    free(d->argv.data);
    free(d->env.data);
    free(d->each_env.data);
    free(d->args.off);
    free(d->args.data);
    free(d);
}

static size_t blob_bytes(const struct blob *b) { return b ? sizeof *b + b->len : 0; }

size_t job_desc_bytes(const struct job_desc *d)
{
    size_t args = d->args.n ? d->args.off[d->args.n] + (size_t)(d->args.n + 1) * sizeof *d->args.off : 0;

    return sizeof *d + d->argv.bytes + d->env.bytes + d->each_env.bytes + args + blob_bytes(d->name) +
           blob_bytes(d->user) + blob_bytes(d->cwd) + blob_bytes(d->stdout_pattern) +
           blob_bytes(d->stderr_pattern) + blob_bytes(d->input) + blob_bytes(d->app) +
           blob_bytes(d->retry_codes) + blob_bytes(d->signature) + blob_bytes(d->tree);
}

struct blob *job_desc_arg(const struct job_desc *d, uint32_t task)
{
    if (task >= d->args.n)
        return NULL;
    return blob_new(d->args.data + d->args.off[task], d->args.off[task + 1] - d->args.off[task]);
}

struct blob *job_desc_proof(const struct job_desc *d, uint32_t task)
{
    uint8_t proof[TREE_PROOF_MAX * TREE_HASH];
    size_t places[TREE_PROOF_MAX];

    if (!d->tree || task >= d->args.n)
        return NULL;
    uint32_t n = tree_proof(d->args.n, task, places);
    for (uint32_t i = 0; i < n; i++)
        memcpy(proof + (size_t)i * TREE_HASH, d->tree->data + places[i] * TREE_HASH, TREE_HASH);
    return blob_new((const char *)proof, n * TREE_HASH);
}

/* ---- Checks ---- */

/* Every check leaves this way, with the text and the code. */
static int HAWK_PRINTF(4, 5) refuse_value(char *why, size_t size, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (size)
        vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return err;
}
#define REFUSE(err, ...) return refuse_value(why, size, (err), __VA_ARGS__)

#define LIMIT_PATH_BYTES 4095u /* what the kernel takes */
/* Checks a text that becomes a C string: it has at most max bytes and no NUL, which would cut it. */
static int check_text(const struct blob *b, const char *field, uint32_t max, char *why, size_t size)
{
    if (!b)
        return 0;
    if (b->len > max)
        REFUSE(HAWK_ETOO_LARGE, "%s has %" PRIu32 " bytes, the limit is %" PRIu32, field, b->len, max);
    if (memchr(b->data, '\0', b->len))
        REFUSE(HAWK_EINVALID, "%s contains a NUL byte", field);
    return 0;
}

static int check_texts(const struct job_desc *d, char *why, size_t size)
{
    const struct {
        const struct blob *text;
        const char *field;
        uint32_t max;
    } texts[] = {
        {d->name, "the job's name", LIMIT_NAME_BYTES},
        {d->user, "the user's name", LIMIT_NAME_BYTES},
        {d->app, "the application's name", LIMIT_NAME_BYTES},
        {d->retry_codes, "the list of exit codes", 255},
        {d->cwd, "the working directory", LIMIT_PATH_BYTES},
        {d->stdout_pattern, "the name of the stdout file", LIMIT_PATH_BYTES},
        {d->stderr_pattern, "the name of the stderr file", LIMIT_PATH_BYTES},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int err = check_text(texts[i].text, texts[i].field, texts[i].max, why, size);

        if (err)
            return err;
    }
    return 0;
}

static int check_numbers(const struct job_desc *d, char *why, size_t size)
{
    if (d->tasks == 0)
        REFUSE(HAWK_EINVALID, "the job has no tasks");
    if (d->tasks > LIMIT_TASKS_PER_JOB)
        REFUSE(HAWK_ETOO_LARGE, "the job has %" PRIu32 " tasks, the limit is %u", d->tasks,
               LIMIT_TASKS_PER_JOB);
    if (d->first_index > UINT32_MAX - d->tasks)
        REFUSE(HAWK_EINVALID, "the first task index %" PRIu32 " is too high", d->first_index);
    if (d->estimate_us < 0 || d->estimate_us > LIMIT_TIME_US)
        REFUSE(HAWK_EINVALID, "the estimate must lie within 0 and 10,000 days");
    if (d->time_limit_us < 0 || d->time_limit_us > LIMIT_TIME_US)
        REFUSE(HAWK_EINVALID, "the time limit must lie within 0 and 10,000 days");
    if (d->mem_bytes < 0)
        REFUSE(HAWK_EINVALID, "the memory limit is below 0");
    if ((d->mem_bytes > 0 || d->pids > 0) && d->kind != PAYLOAD_COMMAND)
        REFUSE(HAWK_EINVALID, "limits of memory and processes are for commands");
    if (d->umask && (d->umask & ~0777u) != JOB_UMASK_TOLD)
        REFUSE(HAWK_EINVALID, "the umask %" PRIo32 " is none", d->umask);
    if (d->failure_retries > LIMIT_FAILURE_RETRIES)
        REFUSE(HAWK_ETOO_LARGE, "%u retries of failures, the limit is %u", d->failure_retries,
               LIMIT_FAILURE_RETRIES);
    if (d->retry_delay_us < 0 || d->retry_delay_us > LIMIT_TIME_US)
        REFUSE(HAWK_EINVALID, "the delay before retries must lie within 0 and 10,000 days");
    if (d->retry_on & ~(uint32_t)RETRY_ON_ALL)
        REFUSE(HAWK_EINVALID, "retry_on names failures that there are not");
    if (d->tag >= TAG_COUNT)
        REFUSE(HAWK_EINVALID, "unknown class tag %u", d->tag);
    if (d->kind >= PAYLOAD_COUNT)
        REFUSE(HAWK_EINVALID, "unknown payload kind %u", d->kind);
    int err = ancestors_check(&d->ancestors, why, size);
    return err ? err : after_check(&d->after, why, size);
}

static int check_env(const struct strings *s, char *why, size_t size)
{
    const char *env = s->data;

    for (uint32_t i = 0; i < s->n; i++, env += strlen(env) + 1)
        if (env[0] == '=' || !strchr(env, '='))
            REFUSE(HAWK_EINVALID, "environment entry %" PRIu32 " is not NAME=value", i + 1);
    return 0;
}

static int check_payload(const struct job_desc *d, char *why, size_t size)
{
    if (d->kind == PAYLOAD_COMMAND && (d->argv.n == 0 || d->argv.data[0] == '\0'))
        REFUSE(HAWK_EINVALID, "the job has no command");
    if (d->kind == PAYLOAD_TIMER && d->argv.n == 0 && !(d->flags & JOB_EACH_ARG))
        REFUSE(HAWK_EINVALID, "a timer job needs a duration, for all tasks or for each");
    if (d->kind == PAYLOAD_APP && (!d->app || d->app->len == 0))
        REFUSE(HAWK_EINVALID, "the job names no application");
    if (d->columns > LIMIT_COLUMNS)
        REFUSE(HAWK_ETOO_LARGE, "the tasks have %" PRIu32 " values each, the limit is %u", d->columns,
               LIMIT_COLUMNS);
    int err = check_env(&d->env, why, size);
    return err ? err : check_env(&d->each_env, why, size);
}

static size_t blob_len(const struct blob *b) { return b ? b->len : 0; }

uint64_t app_id(const struct blob *name)
{
    uint64_t h = HASH_FNV1A;

    for (uint32_t i = 0; i < name->len; i++)
        h = hash_fnv1a(h, (uint8_t)name->data[i]);
    return h ? h : 1;
}

bool app_eq(const struct blob *name, const struct blob *user, const struct blob *other_name,
            const struct blob *other_user)
{
    return blob_eq(name, other_name) && !user == !other_user && (!user || blob_eq(user, other_user));
}

struct blob *app_key(const struct blob *name, const struct blob *user)
{
    uint32_t user_len = user ? user->len : 0;
    struct blob *key = blob_new(NULL, sizeof name->len + name->len + user_len);

    memcpy(key->data, &name->len, sizeof name->len);
    memcpy(key->data + sizeof name->len, name->data, name->len);
    if (user)
        memcpy(key->data + sizeof name->len + name->len, user->data, user_len);
    return key;
}

uint32_t job_desc_user(const struct job_desc *d) { return user_number(d->user); }
uint64_t job_desc_app(const struct job_desc *d) { return d->kind == PAYLOAD_APP ? app_id(d->app) : 0; }

struct blob *job_desc_payload(const struct job_desc *d, struct blob *arg)
{
    return blob_ref(arg ? arg : d->input);
}

int job_spec_check(const struct job_desc *d, char *why, size_t size)
{
    size_t bytes =
        (size_t)d->argv.bytes + d->env.bytes + d->each_env.bytes + blob_len(d->input) + blob_len(d->cwd);
    int err = check_numbers(d, why, size);

    if (!err)
        err = check_texts(d, why, size);
    if (!err && bytes > LIMIT_SPEC_BYTES)
        REFUSE(HAWK_ETOO_LARGE,
               "command, environment, directory and standard input have %zu bytes together, the limit is %u",
               bytes, LIMIT_SPEC_BYTES);
    if (!err && blob_len(d->signature) > LIMIT_SIGNATURE_BYTES)
        REFUSE(HAWK_ETOO_LARGE, "the signature has %zu bytes, the limit is %u",
               (size_t)blob_len(d->signature), LIMIT_SIGNATURE_BYTES);
    return err ? err : check_payload(d, why, size);
}

int job_desc_check(const struct job_desc *d, char *why, size_t size)
{
    bool each = d->flags & JOB_EACH_ARG;
    int err = job_spec_check(d, why, size);

    if (err)
        return err;
    if (each ? d->args.n != d->tasks : d->args.n != 0)
        REFUSE(HAWK_EINVALID, "%" PRIu32 " task arguments for %" PRIu32 " tasks", d->args.n, d->tasks);
    if (each && d->args.off[d->args.n] > LIMIT_JOB_BYTES)
        REFUSE(HAWK_ETOO_LARGE, "the task arguments have %" PRIu32 " bytes together, the limit is %u",
               d->args.off[d->args.n], LIMIT_JOB_BYTES);
    for (uint32_t i = 0; d->kind == PAYLOAD_APP && i < d->args.n; i++)
        if (d->args.off[i + 1] - d->args.off[i] > LIMIT_PAYLOAD_BYTES)
            REFUSE(HAWK_ETOO_LARGE, "the payload of task %" PRIu32 " has %" PRIu32 " bytes, the limit is %u",
                   i, d->args.off[i + 1] - d->args.off[i], LIMIT_PAYLOAD_BYTES);
    return 0;
}

/* ---- Task sets and member lists ---- */

struct task_set *task_set_new(uint32_t n)
{
    struct task_set *s = xcalloc(1, sizeof *s + (size_t)n * sizeof *s->v);

    s->refs = 1;
    s->n = n;
    return s;
}

struct task_set *task_set_ref(struct task_set *s)
{
    if (s)
        s->refs++;
    return s;
}

void task_set_drop(struct task_set *s)
{
    if (!s)
        return;
    CHECK(s->refs > 0);
    if (--s->refs == 0)
        free(s);
}

struct resubmit *resubmit_new(uint32_t n)
{
    struct resubmit *r = xcalloc(1, sizeof *r + (size_t)n * sizeof *r->v);

    r->refs = 1;
    r->n = n;
    return r;
}

struct resubmit *resubmit_ref(struct resubmit *r)
{
    if (r)
        r->refs++;
    return r;
}

void resubmit_drop(struct resubmit *r)
{
    if (!r || --r->refs > 0)
        return;
    free(r->order);
    free(r);
}

static int bad_resubmit(char *why, size_t size, const char *what)
{
    snprintf(why, size, "resubmit: %s", what);
    return HAWK_EINVALID;
}

int resubmit_check(const struct resubmit *r, const struct job_desc *d, char *why, size_t size)
{
    if (d->after.n > 0)
        return bad_resubmit(why, size, "a job with predecessors stays with their dist");
    if (d->flags & JOB_DETACHED)
        return bad_resubmit(why, size, "a detached job stays with its dist, which has it in its journal");
    if (!job_id_ok(r->job))
        return bad_resubmit(why, size, "the job id names no dist");
    if (r->epoch <= EPOCH_FIRST || r->epoch > EPOCH_LAST || !epoch_is_dists(r->epoch))
        return bad_resubmit(why, size, "the epoch must be odd, and 3 to 65533");
    if (r->long_epoch >= r->epoch)
        return bad_resubmit(why, size, "long_epoch is not before the new epoch");
    if (r->class >= CLASS_COUNT || r->why >= WHY_COUNT)
        return bad_resubmit(why, size, "unknown class or why");
    if (r->age_us < 0 || r->age_us > LIMIT_TIME_US)
        return bad_resubmit(why, size, "age_us is out of range");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct resubmit_task *t = &r->v[i];

        if (t->task >= d->tasks || t->state >= TASK_STATE_COUNT || !task_state_final(t->state))
            return bad_resubmit(why, size, "a task that is none of the job's, or did not end");
        if (t->outcome >= OUTCOME_COUNT || t->run_us < -1 || t->run_us > LIMIT_TIME_US || t->wait_us < -1 ||
            t->wait_us > LIMIT_TIME_US)
            return bad_resubmit(why, size, "an outcome or time of a task is out of range");
    }
    return 0;
}

struct members *members_new(uint32_t n)
{
    struct members *m = xcalloc(1, sizeof *m + (size_t)n * sizeof *m->v);

    m->refs = 1;
    m->n = n;
    return m;
}

struct members *members_ref(struct members *m)
{
    if (m)
        m->refs++;
    return m;
}

void members_drop(struct members *m)
{
    if (!m)
        return;
    CHECK(m->refs > 0);
    if (--m->refs)
        return;
    for (uint32_t i = 0; i < m->n; i++) {
        blob_drop(m->v[i].addr);
        blob_drop(m->v[i].name);
        blob_drop(m->v[i].out_why);
        blob_drop(m->v[i].serves);
    }
    free(m);
}
