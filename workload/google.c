/* Parses Google's task_events, lines of 13 fields, and follows each task through its events. */
#include "workload/google.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#define TIME_BEFORE 0        /* "before the beginning of the trace window" */
#define TIME_AFTER INT64_MAX /* "after its end" */
/* The largest time that struct task has room for: every trace ends before it. */
#define TIME_MAX ((INT64_C(1) << 60) - 1)

enum event_type {
    SUBMIT,
    SCHEDULE,
    EVICT,
    FAIL,
    FINISH,
    KILL,
    LOST,
    UPDATE_PENDING,
    UPDATE_RUNNING,
    EVENT_TYPES
};
enum task_is { TASK_UNSEEN, TASK_PENDING, TASK_STARTED, TASK_ENDED, TASK_BROKEN, TASK_VAGUE };

struct task {
    uint64_t us : 60;   /* TASK_STARTED: when it started; TASK_ENDED: how long it ran */
    uint64_t state : 4; /* enum task_is */
};

struct job {
    uint64_t id;
    int64_t submit_us; /* of its first task; TIME_AFTER: none yet */
    struct task *tasks;
    uint32_t n;
    UT_hash_handle hh;
};

struct google {
    struct job *jobs; /* by id */
    struct google_counts counts;
    int64_t last_us; /* the time in the previous line */
    char error[512];

    struct job **sorted; /* the kept jobs by submission; NULL before google_source() */
    uint64_t next;
    int64_t first_us;
    int64_t *durations_us; /* of the job that the source returned last */
};

/* ---- Lines ---- */

enum field_kind { F_TIME, F_MISSING, F_JOB, F_INDEX, F_NUMBER, F_EVENT, F_TEXT, F_DECIMAL };

/* The table's columns, in the order of its schema. An optional field is empty when its value is unknown. */
static const struct field {
    const char *what; /* what a line must have here, for errors */
    uint64_t max;
    enum field_kind kind;
    bool optional;
} fields[] = {
    {"a time in microseconds", TIME_AFTER, F_TIME, false},
    {"a missing-information type (0 to 2) or nothing", 2, F_MISSING, true},
    {"a job ID", UINT64_MAX, F_JOB, false},
    {"a task index below 1000000", TRACE_TASKS_MAX - 1, F_INDEX, false},
    {"a machine ID or nothing", UINT64_MAX, F_NUMBER, true},
    {"an event type (0 to 8)", EVENT_TYPES - 1, F_EVENT, false},
    {"a user name", 0, F_TEXT, true},
    {"a scheduling class (0 to 3) or nothing", 3, F_NUMBER, true},
    {"a priority (0 to 11) or nothing", 11, F_NUMBER, true},
    {"a CPU request or nothing", 0, F_DECIMAL, true},
    {"a memory request or nothing", 0, F_DECIMAL, true},
    {"a disk request or nothing", 0, F_DECIMAL, true},
    {"a different-machine constraint (0 or 1) or nothing", 1, F_NUMBER, true},
};
#define FIELDS (sizeof fields / sizeof *fields)

struct event {
    uint64_t job;
    int64_t time_us;
    uint32_t index;
    enum event_type type;
    bool missing;
};

struct position {
    const char *path;
    uint64_t line;
};

static int HAWK_PRINTF(4, 5)
    fail(struct google *g, const struct position *at, size_t column, const char *fmt, ...)
{
    int n = snprintf(g->error, sizeof g->error, "%s:%" PRIu64 ":%zu: ", at->path, at->line, column + 1);
    va_list ap;

    if (n > 0 && (size_t)n < sizeof g->error) {
        va_start(ap, fmt);
        vsnprintf(g->error + n, sizeof g->error - (size_t)n, fmt, ap);
        va_end(ap);
    }
    return HAWK_EINVALID;
}

/* Parses a field that consists of digits alone. */
static bool whole_number(const char *text, size_t len, uint64_t max, uint64_t *value)
{
    uint64_t v = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (digit > 9 || digit > max || v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *value = v;
    return len > 0 && v <= max;
}

/* 0.0625, 5e-05 */
static bool parse_decimal(const char *text, size_t len)
{
    static const char digits[] = "0123456789";
    char copy[64];
    size_t n;

    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    text = copy;
    n = strspn(text, digits);
    text += n;
    if (*text == '.') {
        size_t places = strspn(text + 1, digits);

        n += places;
        text += 1 + places;
    }
    if (n > 0 && (*text == 'e' || *text == 'E')) {
        text += text[1] == '-' || text[1] == '+' ? 2 : 1;
        if (!*text)
            return false;
        text += strspn(text, digits);
    }
    return n > 0 && !*text;
}

static void set_field(struct event *e, enum field_kind kind, uint64_t v, bool empty)
{
    switch (kind) {
    case F_TIME:
        e->time_us = (int64_t)v;
        break;
    case F_MISSING:
        e->missing = !empty;
        break;
    case F_JOB:
        e->job = v;
        break;
    case F_INDEX:
        e->index = (uint32_t)v;
        break;
    case F_EVENT:
        e->type = (enum event_type)v;
        break;
    default: /* no simulation needs the others */
        break;
    }
}

static int parse_line(struct google *g, const struct position *at, const char *line, size_t len,
                      struct event *e)
{
    size_t from = 0;

    *e = (struct event){0};
    if (memchr(line, '\0', len))
        return fail(g, at, strlen(line), "expected a text, found the byte 0x00");
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        const char *comma = memchr(line + from, ',', len - from);
        size_t n = (comma ? (size_t)(comma - line) : len) - from;
        uint64_t v = 0;
        bool ok = n == 0                 ? f->optional
                  : f->kind == F_TEXT    ? true
                  : f->kind == F_DECIMAL ? parse_decimal(line + from, n)
                                         : whole_number(line + from, n, f->max, &v);

        if (!ok)
            return fail(g, at, from, "expected %s, found \"%.*s\"", f->what, n > 40 ? 40 : (int)n,
                        line + from);
        set_field(e, f->kind, v, n == 0);
        if (!comma && i + 1 < FIELDS)
            return fail(g, at, len, "expected 13 fields, found the end of the line after %zu", i + 1);
        if (comma && i + 1 == FIELDS)
            return fail(g, at, from + n, "expected the end of the line after 13 fields, found \",\"");
        from += n + 1;
    }
    return 0;
}

/* ---- Events of tasks ---- */

static struct job *job_of(struct google *g, uint64_t id)
{
    struct job *j;

    HASH_FIND(hh, g->jobs, &id, sizeof id, j);
    if (j)
        return j;
    j = xcalloc(1, sizeof *j);
    j->id = id;
    j->submit_us = TIME_AFTER;
    HASH_ADD(hh, g->jobs, id, sizeof j->id, j);
    g->counts.jobs++;
    return j;
}

static struct task *task_of(struct google *g, struct job *j, uint32_t index)
{
    if (index >= j->n) {
        uint32_t n = index < j->n + j->n / 2 ? j->n + j->n / 2 : index + 1;

        if (n > TRACE_TASKS_MAX)
            n = TRACE_TASKS_MAX;
        j->tasks = xrealloc(j->tasks, n * sizeof *j->tasks);
        memset(j->tasks + j->n, 0, (n - j->n) * sizeof *j->tasks);
        j->n = n;
    }
    g->counts.tasks += j->tasks[index].state == TASK_UNSEEN;
    return &j->tasks[index];
}

static void finish_task(struct task *t, int64_t now_us)
{
    uint64_t ran_us = (uint64_t)now_us - t->us;

    if (t->state != TASK_STARTED || ran_us > TRACE_TIME_US_MAX) {
        t->state = TASK_VAGUE;
        return;
    }
    t->us = ran_us;
    t->state = TASK_ENDED;
}

static void apply_event(struct google *g, const struct event *e)
{
    struct job *j = job_of(g, e->job);
    struct task *t = task_of(g, j, e->index);
    bool known = !e->missing && e->time_us != TIME_BEFORE && e->time_us <= TIME_MAX;

    switch (e->type) {
    case SUBMIT:
        /* A missing record, or one from before the trace, makes the job an early one. */
        if (!known)
            j->submit_us = TIME_BEFORE;
        else if (j->submit_us == TIME_AFTER)
            j->submit_us = e->time_us;
        t->state = TASK_PENDING;
        break;
    case SCHEDULE:
        t->us = known ? (uint64_t)e->time_us : 0;
        t->state = known ? TASK_STARTED : TASK_VAGUE;
        break;
    case FINISH:
        if (known)
            finish_task(t, e->time_us);
        else
            t->state = TASK_VAGUE;
        break;
    case EVICT:
    case FAIL:
    case KILL:
    case LOST:
        t->state = TASK_BROKEN;
        break;
    default: /* an update changes the task's request, not its times */
        if (t->state == TASK_UNSEEN)
            t->state = TASK_VAGUE;
        break;
    }
}

/* ---- Files ---- */

static int read_lines(struct google *g, const char *path, FILE *f)
{
    struct position at = {.path = path};
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int err = 0;

    while (!err && (len = getline(&line, &room, f)) >= 0) {
        struct event e;

        at.line++;
        if (at.line == 1 && trace_compressed(path, line, (size_t)len, g->error, sizeof g->error)) {
            err = HAWK_EINVALID;
            break;
        }
        if (len > 0 && line[len - 1] == '\n')
            line[--len] = '\0';
        if (len > 0 && line[len - 1] == '\r')
            line[--len] = '\0';
        err = parse_line(g, &at, line, (size_t)len, &e);
        if (!err && e.time_us < g->last_us)
            err =
                fail(g, &at, 0, "expected a time not before the previous line's, found %" PRId64, e.time_us);
        if (err)
            break;
        g->last_us = e.time_us;
        g->counts.lines++;
        apply_event(g, &e);
    }
    if (!err && ferror(f)) {
        snprintf(g->error, sizeof g->error, "%s:%" PRIu64 ": cannot be read: %s", path, at.line + 1,
                 strerror(errno));
        err = HAWK_EIO;
    }
    free(line);
    return err;
}

int google_read(struct google *g, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "re");
    int err;

    CHECK(!g->sorted);
    if (!f) {
        snprintf(g->error, sizeof g->error, "%s: cannot be opened: %s", path, strerror(errno));
        return HAWK_EIO;
    }
    err = read_lines(g, standard ? "standard input" : path, f);
    if (!standard)
        fclose(f);
    return err;
}

struct google *google_new(void) { return xcalloc(1, sizeof(struct google)); }

void google_free(struct google *g)
{
    struct job *j, *next;

    if (!g)
        return;
    j = g->jobs;
    HASH_CLEAR(hh, g->jobs); /* the jobs stay, as a list */
    for (; j; j = next) {
        next = j->hh.next;
        free(j->tasks);
        free(j);
    }
    free(g->sorted);
    free(g->durations_us);
    free(g);
}

const char *google_error(const struct google *g) { return g->error; }
struct google_counts google_counts(const struct google *g) { return g->counts; }

/* ---- Jobs ---- */

/* Counts a job's tasks by their last state, and moves the kept ones to the front of j->tasks. */
static void settle_job(struct google *g, struct job *j)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < j->n; i++) {
        const struct task *t = &j->tasks[i];

        g->counts.tasks_failed += t->state == TASK_BROKEN;
        g->counts.tasks_open += t->state == TASK_PENDING || t->state == TASK_STARTED;
        g->counts.tasks_vague += t->state == TASK_VAGUE;
        if (t->state == TASK_ENDED)
            j->tasks[kept++] = *t;
    }
    j->n = kept;
}

static int by_submission(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;

    if (x->submit_us != y->submit_us)
        return x->submit_us < y->submit_us ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int next_kept_job(void *arg, struct trace_job *job)
{
    struct google *g = arg;
    const struct job *j;
    __int128 sum = 0;

    if (g->next == g->counts.jobs_kept)
        return 0;
    j = g->sorted[g->next++];
    CHECK(j->n > 0);
    g->durations_us = xrealloc(g->durations_us, j->n * sizeof *g->durations_us);
    for (uint32_t i = 0; i < j->n; i++)
        sum += g->durations_us[i] = (int64_t)j->tasks[i].us;
    *job = (struct trace_job){.line = g->next,
                              .submit_us = j->submit_us - g->first_us,
                              .tasks = j->n,
                              .mean_us = (int64_t)((sum + j->n / 2) / j->n),
                              .durations_us = g->durations_us};
    return 1;
}

struct sim_source google_source(struct google *g)
{
    struct google_counts *c = &g->counts;
    struct job *j, *after;

    CHECK(!g->sorted);
    g->sorted = xmalloc((c->jobs + 1) * sizeof(struct job *));
    HASH_ITER(hh, g->jobs, j, after) {
        settle_job(g, j);
        if (j->submit_us == TIME_BEFORE || j->submit_us == TIME_AFTER) {
            c->jobs_early++;
        } else if (j->n == 0) {
            c->jobs_empty++;
        } else {
            g->sorted[c->jobs_kept++] = j;
            c->tasks_kept += j->n;
        }
    }
    qsort(g->sorted, c->jobs_kept, sizeof(struct job *), by_submission);
    g->first_us = c->jobs_kept ? g->sorted[0]->submit_us : 0;
    return (struct sim_source){.next = next_kept_job, .arg = g};
}
