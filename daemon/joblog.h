/* The log of a `hawk run`: a line per task that has ended, in a file that a later run reads to go on (--joblog,
 * --resume). docs/reference/commands.md has the format. A thread of its own writes the lines and waits for the disk;
 * lines that come meanwhile share the next wait. */
#ifndef HAWK_DAEMON_JOBLOG_H
#define HAWK_DAEMON_JOBLOG_H

#include "msg/types.h"

#include <stdbool.h>

struct joblog;

/* A line, as it is written. */
struct joblog_line {
    uint64_t position; /* of the input, from 1 */
    const char *host;
    int64_t start_us, run_us; /* start: since 1970 */
    uint64_t output;          /* bytes that Hawk caught */
    enum outcome outcome;
    int32_t code;
    const struct blob *input; /* NULL: it has none */
    const char *ending;       /* in words */
};

/* What an earlier run says of an input. Of several lines on one input the last counts. */
struct joblog_entry {
    uint64_t position;
    bool done;
    const char *input, *command; /* as joblog_text() writes them; valid during the call */
    uint64_t line;               /* of the file, for messages */
};
/* Anything but 0 ends the reading. */
typedef int joblog_entry_fn(void *arg, const struct joblog_entry *e);

/* Opens the log of a command, in the words of joblog_command(), or makes it, and locks it. With `entries` it reads what
 * is there, and cuts off a last line that was not written whole. Without, a log that is there must be empty. On failure
 * returns HAWK_EIO, HAWK_EEXISTS, HAWK_EBUSY or HAWK_EINVALID and a text in why, or what `entries` returned. */
HAWK_MUST_USE int joblog_open(struct joblog **out, const char *path, const char *command,
                              joblog_entry_fn *entries, void *arg, char *why, size_t size);
/* Reads what is there of a log, and changes nothing. No file is as good as an empty one. */
HAWK_MUST_USE int joblog_look(const char *path, joblog_entry_fn *entries, void *arg, char *why, size_t size);
/* Starts the thread. It calls written(arg) whenever joblog_written() has news. */
void joblog_start(struct joblog *l, void (*written)(void *arg), void *arg);
/* The number of the last line that is on the disk, with all before it. *err: 0, or the errno why no more lines can be
 * written. */
uint64_t joblog_written(struct joblog *l, int *err);
/* Adds a line, and returns its number, from 1. */
uint64_t joblog_add(struct joblog *l, const struct joblog_line *line);
/* Writes what is left, and ends the thread: joblog_written() then says how much is on the disk for good. */
void joblog_finish(struct joblog *l);
/* The same, and frees it. NULL is fine. */
void joblog_close(struct joblog *l);

/* The text of a field: as it is, but \t, \n, \r, \\ and \xNN stand for what would end the field, act on a terminal, or
 * is not UTF-8. The caller frees it. */
char *joblog_text(const void *data, size_t len);
/* The same of a command's arguments, each quoted as a shell reads it. */
char *joblog_command(const struct strings *argv);

#endif
