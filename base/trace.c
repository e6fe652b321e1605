/* The trace reader. It scans single characters, so that a line may have any length, and reads decimal
 * numbers with integer arithmetic. */
#include "base/trace.h"

#include "base/mem.h"
#include "base/units.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX UINT64_C(100000000000000000) /* digits beyond the 18th are read and ignored */
#define EXPONENT_MAX 1000                       /* beyond it a number is out of range or zero anyway */
#define US_EXPONENT 6                           /* 1 s = 10^6 us */

#define NOT_READ (EOF - 1)

struct trace {
    FILE *f;
    int next; /* the next character when it was looked at; else EOF or NOT_READ */
    char *path;
    uint64_t line, column; /* of the next character, from 1 */
    int64_t previous_us;   /* submit time of the job before */
    int64_t *durations_us;
    uint32_t capacity;        /* of durations_us */
    uint32_t duration, tasks; /* while durations are read: which one, from 1, and how many there are */
    char name[64];            /* its name in an error message */
    int err;
    char error[512];
};

/* A decimal number as read: digits * 10^exponent. */
struct number {
    uint64_t digits;
    int32_t exponent;
};

/* --- characters ------------------------------------------------------------------------------------ */

static int peek_char(struct trace *t)
{
    if (t->next == NOT_READ)
        t->next = getc_unlocked(t->f);
    return t->next;
}

static int take_char(struct trace *t)
{
    int c = peek_char(t);

    t->next = NOT_READ;
    if (c == '\n') {
        t->line++;
        t->column = 1;
    } else if (c != EOF) {
        t->column++;
    }
    return c;
}

static void skip_blanks(struct trace *t)
{
    while (peek_char(t) == ' ' || peek_char(t) == '\t')
        take_char(t);
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }
/* Whether c may follow a field. A carriage return may do so at the end of the line only; published traces
 * have them. */
static bool is_separator(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == EOF; }

/* --- errors ---------------------------------------------------------------------------------------- */

/* The message of an error at a column of the present line. */
static int HAWK_PRINTF(3, 4) fail_at(struct trace *t, uint64_t column, const char *fmt, ...)
{
    va_list args;
    int n = snprintf(t->error, sizeof t->error, "%s:%llu:%llu: ", t->path, (unsigned long long)t->line,
                     (unsigned long long)column);

    if (n > 0 && (size_t)n < sizeof t->error) {
        va_start(args, fmt);
        vsnprintf(t->error + n, sizeof t->error - (size_t)n, fmt, args);
        va_end(args);
    }
    return t->err = HAWK_EINVALID;
}

static int fail_read(struct trace *t)
{
    snprintf(t->error, sizeof t->error, "%s:%llu: cannot be read: %s", t->path, (unsigned long long)t->line,
             strerror(errno));
    return t->err = HAWK_EIO;
}

#define START_MAX 5 /* bytes that tell a compressed file */

bool trace_compressed(const char *name, const void *start, size_t n, char *why, size_t size)
{
    static const struct {
        const char *bytes, *method, *command;
    } starts[] = {
        {"\x1f\x8b", "gzip", "zcat"},
        {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
        {"\xfd\x37\x7a\x58\x5a", "xz", "xzcat"},
        {"BZh", "bzip2", "bzcat"},
    };

    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t len = strlen(starts[i].bytes);

        if (n >= len && memcmp(start, starts[i].bytes, len) == 0) {
            snprintf(why, size,
                     "%s: is compressed (%s): unpack it with %s into a file, or a pipe that - reads", name,
                     starts[i].method, starts[i].command);
            return true;
        }
    }
    return false;
}

/* Whether the file is a compressed one: its first character, which was looked at, and the rest of that line tell. */
static bool is_compressed(struct trace *t)
{
    char start[START_MAX];
    size_t n = 0;

    if (t->line != 1 || t->column != 1)
        return false;
    for (int c = t->next; n < sizeof start && c != EOF && c != '\n'; c = getc_unlocked(t->f))
        start[n++] = (char)c;
    return trace_compressed(t->path, start, n, t->error, sizeof t->error);
}

/* Stands for "a duration" as what is expected. The words are made for an error only, since a trace
 * consists mostly of durations. */
#define A_DURATION NULL

static const char *name_of(struct trace *t, const char *what)
{
    if (what)
        return what;
    snprintf(t->name, sizeof t->name, "duration %u of %u in seconds", t->duration, t->tasks);
    return t->name;
}

/* "expected WHAT, found ..." for the character that comes next. */
static int fail_expected(struct trace *t, const char *what)
{
    char found[32];
    int c = peek_char(t);

    if (c == EOF && ferror(t->f))
        return fail_read(t);
    if (is_compressed(t))
        return t->err = HAWK_EINVALID;
    if (c == EOF)
        snprintf(found, sizeof found, "the end of the file");
    else if (c == '\n')
        snprintf(found, sizeof found, "the end of the line");
    else if (c == ' ' || c == '\t')
        snprintf(found, sizeof found, "a blank");
    else if (c > ' ' && c < 0x7f)
        snprintf(found, sizeof found, "'%c'", c);
    else
        snprintf(found, sizeof found, "the byte 0x%02x", (unsigned)c);
    return fail_at(t, t->column, "expected %s, found %s", name_of(t, what), found);
}

/* --- numbers --------------------------------------------------------------------------------------- */

/* Reads a run of digits into n; those behind the point have place -1. Returns whether there was a digit. */
static bool take_digits(struct trace *t, struct number *n, int place)
{
    bool any = false;

    for (; is_digit(peek_char(t)); any = true) {
        uint64_t digit = (uint64_t)(take_char(t) - '0');

        if (n->digits < DIGITS_MAX) {
            n->digits = n->digits * 10 + digit;
            n->exponent += place;
        } else if (place == 0 && n->exponent < EXPONENT_MAX) {
            n->exponent++; /* a digit that is dropped before the point still counts for the size */
        }
    }
    return any;
}

/* Reads digits[.digits][e[+-]digits] up to a separator. */
static int take_number(struct trace *t, const char *what, struct number *n)
{
    *n = (struct number){0};
    if (!take_digits(t, n, 0))
        return fail_expected(t, what);
    if (peek_char(t) == '.') {
        take_char(t);
        if (!take_digits(t, n, -1))
            return fail_expected(t, "a digit after the point");
    }
    if (peek_char(t) == 'e' || peek_char(t) == 'E') {
        int32_t exponent = 0;

        take_char(t);
        bool negative = peek_char(t) == '-';
        if (negative || peek_char(t) == '+')
            take_char(t);
        if (!is_digit(peek_char(t)))
            return fail_expected(t, "a digit of the exponent");
        while (is_digit(peek_char(t))) {
            int digit = take_char(t) - '0';

            if (exponent < EXPONENT_MAX)
                exponent = exponent * 10 + digit;
        }
        n->exponent += negative ? -exponent : exponent;
    }
    return is_separator(peek_char(t)) ? 0 : fail_expected(t, "a blank after the number");
}

/* Returns n * 10^shift, rounded to the nearest integer, or max + 1 when that is above max. */
static int64_t number_value(const struct number *n, int shift, int64_t max)
{
    unsigned __int128 v = n->digits;
    int32_t e = n->exponent + shift;

    for (; e > 0 && v != 0 && v <= (uint64_t)max; e--)
        v *= 10;
    for (; e < -1 && v != 0; e++)
        v /= 10;
    if (e == -1)
        v = (v + 5) / 10;
    return v > (uint64_t)max ? max + 1 : (int64_t)v;
}

/* Reads a time in seconds, as microseconds. */
static int take_time(struct trace *t, const char *what, int64_t *us)
{
    uint64_t column = t->column;
    struct number n;
    int err = take_number(t, what, &n);

    if (err)
        return err;
    *us = number_value(&n, US_EXPONENT, TRACE_TIME_US_MAX);
    if (*us > TRACE_TIME_US_MAX)
        return fail_at(t, column, "expected %s of at most 864000000 (10,000 days), found a larger one",
                       name_of(t, what));
    return 0;
}

static int take_tasks(struct trace *t, uint32_t *tasks)
{
    const char *what = "the number of tasks, a whole number";
    uint64_t column = t->column;
    struct number n = {0};

    if (!take_digits(t, &n, 0) || !is_separator(peek_char(t)))
        return fail_expected(t, what);
    int64_t v = number_value(&n, 0, TRACE_TASKS_MAX);
    if (v < 1 || v > TRACE_TASKS_MAX)
        return fail_at(t, column, "expected the number of tasks, from 1 to %u, found %s", TRACE_TASKS_MAX,
                       v < 1 ? "0" : "a larger one");
    *tasks = (uint32_t)v;
    return 0;
}

/* --- lines ----------------------------------------------------------------------------------------- */

static int take_durations(struct trace *t, uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks; i++) {
        skip_blanks(t);
        t->duration = i + 1;
        t->tasks = tasks;
        /* The array grows as durations arrive, so that the number of tasks alone allocates nothing. */
        vec_grow(t->durations_us, i, t->capacity);
        int err = take_time(t, A_DURATION, &t->durations_us[i]);
        if (err)
            return err;
    }
    return 0;
}

static int take_job(struct trace *t, struct trace_job *job)
{
    char what[80];
    uint64_t column;

    *job = (struct trace_job){.line = t->line};
    skip_blanks(t);
    column = t->column;
    int err = take_time(t, "a submit time in seconds", &job->submit_us);
    if (err)
        return err;
    if (job->submit_us < t->previous_us)
        return fail_at(t, column,
                       "expected a submit time not before the previous line's, found an earlier one");
    skip_blanks(t);
    err = take_tasks(t, &job->tasks);
    if (err)
        return err;
    skip_blanks(t);
    err = take_time(t, "the mean task duration in seconds", &job->mean_us);
    if (err)
        return err;
    err = take_durations(t, job->tasks);
    if (err)
        return err;
    skip_blanks(t);
    if (peek_char(t) == '\r')
        take_char(t);
    if (peek_char(t) != '\n' && peek_char(t) != EOF) {
        snprintf(what, sizeof what, "the end of the line after %u durations", job->tasks);
        return fail_expected(t, what);
    }
    take_char(t);
    t->previous_us = job->submit_us;
    job->durations_us = t->durations_us;
    return 1;
}

int trace_next(struct trace *t, struct trace_job *job)
{
    if (t->err)
        return t->err;
    if (peek_char(t) == EOF)
        return ferror(t->f) ? fail_read(t) : 0;
    int got = take_job(t, job);
    /* A read error that looked like the end of a number or line. */
    return got == 1 && ferror(t->f) ? fail_read(t) : got;
}

int trace_open(struct trace **t, const char *path)
{
    struct trace *new = xcalloc(1, sizeof *new);

    *t = new;
    new->next = NOT_READ;
    new->line = new->column = 1;
    if (strcmp(path, "-") == 0) {
        new->path = xstrdup("standard input");
        new->f = stdin;
        return 0;
    }
    new->path = xstrdup(path);
    new->f = fopen(path, "re");
    if (!new->f) {
        snprintf(new->error, sizeof new->error, "%s: cannot be opened: %s", path, strerror(errno));
        new->err = HAWK_EIO;
    }
    return new->err;
}

const char *trace_error(const struct trace *t) { return t->error; }

void trace_close(struct trace *t)
{
    if (!t)
        return;
    if (t->f && t->f != stdin)
        fclose(t->f);
    free(t->path);
    free(t->durations_us);
    free(t);
}
