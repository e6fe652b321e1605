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
static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};
#define LEVELS (sizeof level_names / sizeof level_names[0])

void log_init(const char *who, enum log_level level)
{
    log_who = who;
    log_level = level;
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

/* "2024-05-01T12:00:00.123Z warn  dist d1: " */
static size_t write_prefix(char *line, size_t size, enum log_level level)
{
    struct timespec now;
    struct tm utc;
    int m;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    m = snprintf(line + n, size - n, ".%03ldZ %-5s %.100s: ", now.tv_nsec / 1000000, level_names[level],
                 log_who);
    return n + (m > 0 ? (size_t)m : 0);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    int saved_errno = errno;
    size_t start = write_prefix(line, sizeof line, level);
    size_t room = sizeof line - start - 1; /* one byte is the newline's */
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(line + start, room, fmt, args);
    va_end(args);
    if (n < 0)
        n = 0;
    if ((size_t)n >= room) { /* cut, and says so */
        n = (int)room - 1;
        memcpy(line + start + n - 3, "...", 3);
    }
    while (n > 0 && line[start + (size_t)n - 1] == '\n')
        n--;
    /* A name that a peer or user chose may be in the line. It must not be able to forge another line. */
    n = (int)utf8_tame(line + start, (size_t)n);
    line[start + (size_t)n] = '\n';
    /* When the log cannot be written there is nowhere to report that. */
    ssize_t ignored = write(STDERR_FILENO, line, start + (size_t)n + 1);
    (void)ignored;
    errno = saved_errno;
}
