/* Parses tables of clusters, and holds the tables that come with Hawk. */
#include "workload/generate_table.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/trace.h"
#include "base/units.h"
#include "msg/types.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (1u << 20)
#define SHARE_MILLI_MAX UINT64_C(1000000000000)
/* The mean of a Gaussian with standard deviation 2 x mean grows by this factor, x10000, when negative values are drawn
 * again: 1 + 2 phi(1/2) / Phi(1/2). */
#define GAUSSIAN_MEAN 20183

/* ---- The tables that come with Hawk: workload/tables/NAME.tbl, compiled in ---- */

#define TABLES(X)                                                                                            \
    X(cloudera, "cloudera")                                                                                  \
    X(facebook, "facebook")                                                                                  \
    X(yahoo, "yahoo")                                                                                        \
    X(hawk_figure1, "hawk-figure1")                                                                          \
    X(sparrow, "sparrow")                                                                                    \
    X(sparrow_figure3, "sparrow-figure3")                                                                    \
    X(sparrow_mixed, "sparrow-mixed")

/* Each file as a string. The Makefile compiles this source again when one of them has changed. */
#define X(symbol, name)                                                                                      \
    __asm__(".section .rodata\n"                                                                             \
            "table_text_" #symbol ":\n"                                                                      \
            ".incbin \"workload/tables/" name ".tbl\"\n"                                                     \
            ".byte 0\n"                                                                                      \
            ".previous\n");                                                                                  \
    extern const char table_text_##symbol[] __attribute__((visibility("hidden")));
TABLES(X)
#undef X

#define X(symbol, name) name,
const char *const generate_table_names[] = {TABLES(X) NULL};
#undef X
#define X(symbol, name) table_text_##symbol,
static const char *const job_table_texts[] = {TABLES(X)};
#undef X

/* ---- Reading ---- */

struct reader {
    const char *name, *line_start, *at;
    unsigned line;
    char *why;
    size_t size;
};

struct word {
    const char *start;
    char text[64]; /* cut off if the word is longer; then it is neither a number nor a known word */
};

static int HAWK_PRINTF(3, 4) fail_at(const struct reader *r, const char *at, const char *fmt, ...)
{
    int n = snprintf(r->why, r->size, "%s:%u:%u: ", r->name, r->line, (unsigned)(at - r->line_start) + 1);
    va_list ap;

    if (n > 0 && (size_t)n < r->size) {
        va_start(ap, fmt);
        vsnprintf(r->why + n, r->size - (size_t)n, fmt, ap);
        va_end(ap);
    }
    return HAWK_EINVALID;
}

static int expected_word(const struct reader *r, const struct word *w, const char *what)
{
    return fail_at(r, w->start, "expected %s, found %s%s%s", what, w->text[0] ? "\"" : "",
                   w->text[0] ? w->text : "the end of the line", w->text[0] ? "\"" : "");
}

/* The line's next word; empty at its end. */
static void take_word(struct reader *r, struct word *w)
{
    size_t n = 0;

    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
        r->at++;
    w->start = r->at;
    for (; *r->at && !strchr(" \t\r\n#", *r->at); r->at++)
        if (n + 1 < sizeof w->text)
            w->text[n++] = *r->at;
    w->text[n] = '\0';
}

/* A decimal number with up to three places, x1000. */
static int take_milli(struct reader *r, const char *what, uint64_t max_milli, uint64_t *milli)
{
    struct word w;
    const char *p;
    uint64_t v = 0;
    int places = -1;

    take_word(r, &w);
    for (p = w.text; *p && v <= max_milli; p++) {
        if (*p == '.' && places < 0 && p != w.text && p[1])
            places = 0;
        else if (isdigit((unsigned char)*p) && places < 3)
            v = v * 10 + (uint64_t)(*p - '0'), places += places >= 0;
        else
            return expected_word(r, &w, what);
    }
    for (int i = places < 0 ? 0 : places; i < 3; i++)
        v *= 10;
    if (v == 0 || v > max_milli)
        return expected_word(r, &w, what);
    *milli = v;
    return 0;
}

static int take_duration(struct reader *r, const char *what, int64_t *us)
{
    struct word w;

    take_word(r, &w);
    if (duration_parse(w.text, us) != 0 || *us <= 0 || *us > TRACE_TIME_US_MAX)
        return expected_word(r, &w, what);
    return 0;
}

static int take_draw(struct reader *r, bool gaussian, uint8_t *draw)
{
    static const char *const names[] = {"fixed", "exponential", "gaussian"};
    struct word w;

    take_word(r, &w);
    for (int i = 0; i < (gaussian ? 3 : 2); i++)
        if (strcmp(w.text, names[i]) == 0) {
            *draw = (uint8_t)i;
            return 0;
        }
    return expected_word(r, &w, gaussian ? "fixed, exponential or gaussian" : "fixed or exponential");
}

static int take_cluster(struct reader *r, struct job_table *t, const struct word *first, uint8_t tag)
{
    struct job_cluster *c = &t->clusters[t->n];
    int err;

    if (t->n == TABLE_CLUSTERS_MAX)
        return fail_at(r, first->start, "expected at most %u clusters", TABLE_CLUSTERS_MAX);
    c->tag = tag;
    err =
        take_milli(r, "the cluster's share of the jobs, a number above 0", SHARE_MILLI_MAX, &c->share_milli);
    if (!err)
        err = take_milli(r, "a number of tasks, above 0 and at most 1000000",
                         TRACE_TASKS_MAX * UINT64_C(1000), &c->tasks_milli);
    if (!err)
        err = take_duration(r, "a mean task duration (\"90s\")", &c->mean_us);
    if (!err && c->tasks_milli < 1000 && t->tasks == TABLE_FIXED)
        return fail_at(r, first->start, "expected at least 1 task where their number is fixed");
    t->n += !err;
    return err;
}

static int take_jobs(struct reader *r, uint32_t *jobs)
{
    struct word w;
    uint64_t v;

    take_word(r, &w);
    if (u64_parse(w.text, 1, JOB_TABLE_JOBS_MAX, &v) != 0)
        return expected_word(r, &w, "a number of jobs, from 1 to 100000000");
    *jobs = (uint32_t)v;
    return 0;
}

static int take_share(struct reader *r, uint32_t *ppm)
{
    struct word w;

    take_word(r, &w);
    if (share_parse(w.text, ppm) != 0 || *ppm >= 1000000)
        return expected_word(r, &w, "a share below 100% (\"2%\")");
    return 0;
}

static int take_line(struct reader *r, struct job_table *t)
{
    struct word w, rest;
    int err;

    take_word(r, &w);
    if (!w.text[0])
        return 0;
    if (strcmp(w.text, "jobs") == 0)
        err = take_jobs(r, &t->jobs);
    else if (strcmp(w.text, "gap") == 0)
        err = take_duration(r, "the mean time between submissions (\"2.5s\")", &t->gap_us);
    else if (strcmp(w.text, "cutoff") == 0)
        err = take_duration(r, "a cutoff (\"90s\")", &t->cutoff_us);
    else if (strcmp(w.text, "partition") == 0)
        err = take_share(r, &t->share_ppm);
    else if (strcmp(w.text, "tasks") == 0)
        err = take_draw(r, false, &t->tasks);
    else if (strcmp(w.text, "mean") == 0)
        err = take_draw(r, false, &t->mean);
    else if (strcmp(w.text, "durations") == 0)
        err = take_draw(r, true, &t->durations);
    else if (strcmp(w.text, "short") == 0)
        err = take_cluster(r, t, &w, TAG_SHORT);
    else if (strcmp(w.text, "long") == 0)
        err = take_cluster(r, t, &w, TAG_LONG);
    else
        return expected_word(r, &w, "jobs, gap, cutoff, partition, tasks, mean, durations, short or long");
    if (err)
        return err;
    take_word(r, &rest);
    return rest.text[0] ? expected_word(r, &rest, "the end of the line") : 0;
}

int generate_table_parse(struct job_table *t, const char *name, const char *text, char *why, size_t size)
{
    struct reader r = {.name = name, .line_start = text, .at = text, .line = 1, .why = why, .size = size};

    *t = (struct job_table){.jobs = 1000, .cutoff_us = 90 * US_PER_S};
    while (*r.at) {
        const char *end = strchrnul(r.at, '\n');
        int err;

        r.line_start = r.at;
        err = take_line(&r, t);
        if (err)
            return err;
        r.at = *end ? end + 1 : end;
        r.line += *end == '\n';
    }
    r.line_start = r.at;
    if (t->gap_us == 0)
        return fail_at(&r, r.at, "expected a line \"gap TIME\" somewhere, found none");
    if (t->n == 0)
        return fail_at(&r, r.at, "expected at least one line of a cluster (\"short ...\"), found none");
    return 0;
}

static char *read_file(const char *path, char *why, size_t size)
{
    FILE *f = fopen(path, "re");
    char *text;
    size_t n;

    if (!f) {
        snprintf(why, size, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    text = xmalloc(FILE_BYTES_MAX + 1);
    n = fread(text, 1, FILE_BYTES_MAX + 1, f);
    if (ferror(f) || n > FILE_BYTES_MAX || memchr(text, '\0', n)) {
        snprintf(why, size, "%s: %s", path,
                 ferror(f) ? strerror(errno) : "expected a table, a text of at most 1 MiB");
        free(text);
        text = NULL;
    } else {
        text[n] = '\0';
    }
    fclose(f);
    return text;
}

static bool is_path(const char *name)
{
    size_t n = strlen(name);

    return strchr(name, '/') || (n > 4 && strcmp(name + n - 4, ".tbl") == 0);
}

int generate_table_load(struct job_table *t, const char *name, char *why, size_t size)
{
    char *text;
    int err;

    if (is_path(name)) {
        text = read_file(name, why, size);
        err = text ? generate_table_parse(t, name, text, why, size) : HAWK_EIO;
        free(text);
        return err;
    }
    for (int i = 0; generate_table_names[i]; i++)
        if (strcmp(name, generate_table_names[i]) == 0)
            return generate_table_parse(t, name, job_table_texts[i], why, size);
    snprintf(why, size,
             "no workload \"%s\": a file's name has a / or ends in .tbl; those that come with Hawk are",
             name);
    for (int i = 0; generate_table_names[i]; i++) {
        size_t n = strlen(why);

        snprintf(why + n, size - n, "%s %s", i ? "," : "", generate_table_names[i]);
    }
    return HAWK_EINVALID;
}

int64_t generate_table_gap_us(const struct job_table *t, uint64_t slots, uint32_t load_milli)
{
    unsigned __int128 work = 0, shares = 0; /* at most 64 x 10^12 x 10^9 x 10^15, below 2^127 */

    for (uint32_t i = 0; i < t->n; i++) {
        const struct job_cluster *c = &t->clusters[i];

        work += (unsigned __int128)c->share_milli * c->tasks_milli * (uint64_t)c->mean_us;
        shares += c->share_milli;
    }
    CHECK(shares > 0);
    work /= shares; /* of one job, in thousandths of task-microseconds */
    if (t->durations == TABLE_GAUSSIAN)
        work = work * GAUSSIAN_MEAN / 10000;
    work /= (unsigned __int128)slots * load_milli;
    return work < 1 ? 1 : work > TRACE_TIME_US_MAX ? TRACE_TIME_US_MAX : (int64_t)work;
}
