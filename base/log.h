/* The log: one line per event on stderr, with time, level, role and text. Policy code, which does no I/O,
 * does not use it. */
#ifndef HAWK_BASE_LOG_H
#define HAWK_BASE_LOG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

extern enum log_level log_level;
/* Every line begins with `who` ("dist d1"), of which the log keeps the pointer. */
void log_init(const char *who, enum log_level level);
/* json: every line is an object with time, level, role, message and, where the message names one ("job 3.17"), job.
 * rate: most lines of one format a second below LOG_DEBUG; how many were left out is said later. 0: no limit. */
void log_form(bool json, uint32_t rate);
int log_level_parse(const char *text, enum log_level *level);
void log_write(enum log_level level, const char *fmt, ...) HAWK_PRINTF(2, 3);

/* Audit lines go to this file from now on, and not to the log. Returns the file before, for the caller to close; -1: it
 * was the log. */
HAWK_MUST_USE int log_audit_to(int fd);
/* The level of audit lines in the log: LOG_INFO, until this says another one. */
void log_audit_level(enum log_level level);
/* Who changed what. */
void log_audit(const char *fmt, ...) HAWK_PRINTF(1, 2);

#define log_at(lv, ...)                                                                                      \
    do {                                                                                                     \
        if ((lv) <= log_level)                                                                               \
            log_write((lv), __VA_ARGS__);                                                                    \
    } while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
