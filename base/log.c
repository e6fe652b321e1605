/* The log. Each line is put together in a buffer and written by one write(2), so that lines of several
 * processes on the same stderr do not mix. */
#include "base/log.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

enum log_level log_level = LOG_INFO;

static const char *log_who = "hawk";
static bool log_json;
static uint32_t log_rate;
static int audit_fd = -1;
static enum log_level audit_level = LOG_INFO; /* in the log */
static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
#define LEVELS (sizeof level_names / sizeof level_names[0])

void log_init(const char *who, enum log_level level)
{
    log_who = who;
    log_level = level;
}

void log_form(bool json, uint32_t rate)
{
    log_json = json;
    log_rate = rate;
}

int log_level_parse(const char *text, enum log_level *level)
{
    for (size_t i = 0; i < LEVELS; i++) {
        if (strcasecmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return 0;
        }
    }
    return HAWK_EINVALID;
}

/* ---- How many ---- */

/* Formats that were used lately. Threads that meet here let their lines pass uncounted. */
#define KINDS 64u
static struct kind {
    const char *fmt;
    int64_t second;
    uint32_t n, left_out; /* lines in that second; lines left out since the last report */
} kinds[KINDS];
static bool kinds_busy;

static void write_line(int fd, enum log_level level, const char *text, size_t n);

/* Says what was left out of kinds whose second is over. */
static void report_left_out(int64_t second)
{
    char line[300];

    for (uint32_t i = 0; i < KINDS; i++) {
        struct kind *k = &kinds[i];
        if (!k->left_out || k->second == second)
            continue;
        int n = snprintf(line, sizeof line, "%u more lines were left out (log.rate) like: %.200s",
                         k->left_out, k->fmt);
        k->left_out = 0;
        write_line(STDERR_FILENO, LOG_WARN, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
    }
}

/* Where lines of that format are counted. More kinds than KINDS in a second share one, and may be too many together. */
static struct kind *kind_of(const char *fmt, int64_t second)
{
    struct kind *old = &kinds[KINDS - 1];

    for (uint32_t i = 0; i < KINDS; i++) {
        if (kinds[i].fmt == fmt)
            return &kinds[i];
        if (kinds[i].second != second)
            old = &kinds[i];
    }
    if (old->second != second)
        *old = (struct kind){.fmt = fmt};
    return old;
}

/* Whether one more line of that format is too many. */
static bool too_many(enum log_level level, const char *fmt)
{
    struct timespec now;
    bool over = false;

    if (!log_rate || level >= LOG_DEBUG || __atomic_test_and_set(&kinds_busy, __ATOMIC_ACQUIRE))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    report_left_out(now.tv_sec);
    struct kind *k = kind_of(fmt, now.tv_sec);
    if (k->second != now.tv_sec)
        *k = (struct kind){.fmt = fmt, .second = now.tv_sec};
    if (++k->n > log_rate) {
        k->left_out++;
        over = true;
    }
    __atomic_clear(&kinds_busy, __ATOMIC_RELEASE);
    return over;
}

/* ---- Lines ---- */

static size_t write_time(char *line, size_t size)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    int m = snprintf(line + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
    return n + (m > 0 ? (size_t)m : 0);
}

/* The id in "job 3.17"; its length is 0 if the text names none. */
static const char *job_in(const char *text, size_t *len)
{
    static const char digits[] = "0123456789";

    *len = 0;
    for (const char *at = text; (at = strstr(at, "job ")) != NULL;) {
        at += 4;
        size_t node = strspn(at, digits), seq = at[node] == '.' ? strspn(at + node + 1, digits) : 0;
        if (node && seq) {
            *len = node + 1 + seq;
            return at;
        }
    }
    return NULL;
}

/* Text has no control characters any more: utf8_tame(). */
static size_t write_json_text(char *to, size_t room, const char *text)
{
    size_t n = 0;

    for (; *text && n + 2 < room; text++) {
        if (*text == '"' || *text == '\\')
            to[n++] = '\\';
        to[n++] = *text;
    }
    return n;
}

/* One line with the text, which is tame, as text or as JSON, by one write(2). */
static void write_line(int fd, enum log_level level, const char *text, size_t len)
{
    char line[2 * LINE_MAX_BYTES + 400];
    size_t n, room = sizeof line - 80, id_len;

    if (log_json) {
        n = (size_t)snprintf(line, sizeof line, "{\"time\": \"");
        n += write_time(line + n, room - n);
        n += (size_t)snprintf(line + n, room - n,
                              "\", \"level\": \"%s\", \"role\": \"%.100s\", \"message\": \"",
                              level_names[level], log_who);
        n += write_json_text(line + n, room - n, text);
        const char *id = job_in(text, &id_len);
        n += (size_t)snprintf(line + n, sizeof line - n,
                              id && id_len < 40 ? "\", \"job\": \"%.*s\"}\n" : "\"}\n", (int)id_len, id);
    } else {
        n = write_time(line, sizeof line);
        n += (size_t)snprintf(line + n, room - n, " %-5s %.100s: %.*s\n", level_names[level], log_who,
                              (int)len, text);
    }
    /* When the log cannot be written there is nowhere to report that. */
    ssize_t ignored = write(fd, line, n);
    (void)ignored;
}

/* Makes the text tame, and writes it. */
static void write_text(int fd, enum log_level level, const char *fmt, va_list args)
{
    char text[LINE_MAX_BYTES];
    int n = vsnprintf(text, sizeof text, fmt, args);

    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof text) { /* cut, and says so */
        n = (int)sizeof text - 1;
        memcpy(text + n - 3, "...", 3);
    }
    while (n > 0 && text[n - 1] == '\n')
        n--;
    /* A name that a peer or user chose may be in the line. It must not be able to forge another line. */
    n = (int)utf8_tame(text, (size_t)n);
    text[n] = '\0';
    write_line(fd, level, text, (size_t)n);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    int saved_errno = errno;
    va_list args;

    if (too_many(level, fmt)) {
        errno = saved_errno;
        return;
    }
    va_start(args, fmt);
    errno = saved_errno; /* for %m */
    write_text(STDERR_FILENO, level, fmt, args);
    va_end(args);
    errno = saved_errno;
}

int log_audit_to(int fd)
{
    int former = audit_fd;

    audit_fd = fd;
    return former;
}

void log_audit_level(enum log_level level) { audit_level = level; }

void log_audit(const char *fmt, ...)
{
    va_list args;

    if (audit_fd < 0 && log_level < audit_level)
        return;
    va_start(args, fmt);
    write_text(audit_fd < 0 ? STDERR_FILENO : audit_fd, audit_fd < 0 ? audit_level : LOG_INFO, fmt, args);
    va_end(args);
}
