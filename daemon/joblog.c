/* See joblog.h. */
#include "daemon/joblog.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/quote.h"
#include "template/template.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char head[] =
    "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\tInput\tEnding\n";

/* How long the log may be locked by what a killed `hawk run` had just forked. */
#define LOCK_WAIT_MS 2000

static const char no_log[] = "it is no job log of `hawk run`";

enum column {
    COLUMN_SEQ,
    COLUMN_EXITVAL = 6,
    COLUMN_SIGNAL,
    COLUMN_COMMAND,
    COLUMN_INPUT,
    COLUMN_ENDING,
    COLUMNS,
};

struct joblog {
    int fd;
    char *command;
    void (*tell)(void *arg);
    void *arg;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t more;
    struct text waiting;
    uint64_t added, written;
    int err;
    bool closing;
};

/* ---- Texts ---- */

static const char *escape_of(char c)
{
    switch (c) {
    case '\t':
        return "\\t";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\\':
        return "\\\\";
    default:
        return NULL;
    }
}

static void add_escaped(struct text *t, const char *data, size_t len)
{
    char hex[8];
    for (size_t i = 0; i < len;) {
        const char *escape = escape_of(data[i]);
        size_t n = utf8_length((const unsigned char *)data + i, len - i);
        if (!escape && n > 0 && !utf8_acts((const unsigned char *)data + i, n)) {
            text_add(t, data + i, n);
            i += n;
            continue;
        }
        for (size_t end = i + (n > 0 ? n : 1); i < end; i++) {
            snprintf(hex, sizeof hex, "\\x%02x", (unsigned char)data[i]);
            text_add(t, escape ? escape : hex, strlen(escape ? escape : hex));
        }
    }
}

char *joblog_text(const void *data, size_t len)
{
    struct text t = {0};
    add_escaped(&t, data, len);
    text_add(&t, "", 1);
    return t.data;
}

char *joblog_command(const struct strings *argv)
{
    char *quoted = quote_command(argv);
    char *text = joblog_text(quoted, strlen(quoted));
    free(quoted);
    return text;
}

/* ---- Reading ---- */

/* Splits a line at its tabs. Whether it has all columns. */
static bool split_columns(char *line, char *columns[COLUMNS])
{
    int n = 0;
    for (char *at = line; at && n < COLUMNS; n++) {
        columns[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n == COLUMNS;
}

static int read_line(char *line, uint64_t number, joblog_entry_fn *entries, void *arg, char *why, size_t size)
{
    char *columns[COLUMNS];
    struct joblog_entry e = {.line = number};
    if (!split_columns(line, columns) || u64_parse(columns[COLUMN_SEQ], 1, UINT64_MAX, &e.position)) {
        snprintf(why, size, "line %" PRIu64 " is no line of a job log", number);
        return HAWK_EINVALID;
    }
    e.done = strcmp(columns[COLUMN_EXITVAL], "0") == 0 && strcmp(columns[COLUMN_SIGNAL], "0") == 0;
    e.input = columns[COLUMN_INPUT];
    e.command = columns[COLUMN_COMMAND];
    return entries(arg, &e);
}

/* Reads all whole lines. *whole: their bytes; what follows is what a process that was killed left of another. */
static int read_lines(FILE *f, off_t *whole, joblog_entry_fn *entries, void *arg, char *why, size_t size)
{
    char *line = NULL;
    size_t cap = 0;
    uint64_t number = 0;
    ssize_t n = 0;
    int err = 0;
    *whole = 0;
    for (; !err && (n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n'; *whole += n) {
        if (number++ == 0 && strcmp(line, head) != 0) {
            snprintf(why, size, "%s", no_log);
            err = HAWK_EINVALID;
        } else if (number > 1) {
            line[n - 1] = '\0';
            err = read_line(line, number, entries, arg, why, size);
        }
    }
    /* A head that was not written whole is ours, too; anything else is somebody's file. */
    if (!err && number == 0 && n > 0 && strncmp(head, line, strlen(line)) != 0) {
        snprintf(why, size, "%s", no_log);
        err = HAWK_EINVALID;
    }
    free(line);
    if (!err && ferror(f)) {
        snprintf(why, size, "%s", strerror(errno));
        err = HAWK_EIO;
    }
    return err;
}

/* ---- Opening and closing ---- */

/* Without `entries` it must be empty. A pipe is. */
static int read_log(const char *path, joblog_entry_fn *entries, void *arg, off_t *whole, char *why,
                    size_t size)
{
    struct stat st;
    if (!entries && stat(path, &st) == 0 && st.st_size > 0) {
        snprintf(why, size, "it is not empty: --resume goes on with it");
        return HAWK_EEXISTS;
    }
    FILE *f = entries ? fopen(path, "re") : NULL;
    if (entries && !f) {
        snprintf(why, size, "%s", strerror(errno));
        return HAWK_EIO;
    }
    int err = f ? read_lines(f, whole, entries, arg, why, size) : 0;
    if (f)
        fclose(f);
    return err;
}

int joblog_look(const char *path, joblog_entry_fn *entries, void *arg, char *why, size_t size)
{
    off_t whole;
    return access(path, F_OK) && errno == ENOENT ? 0 : read_log(path, entries, arg, &whole, why, size);
}

/* False: another process has it. One that was just forked by a `hawk run` that was killed since has it for a moment. */
static bool take_lock(int fd)
{
    for (int ms = 0; ms < LOCK_WAIT_MS; ms += 10) {
        /* A file system that knows no locks has none to offer: then nobody is kept away. */
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000000}, NULL);
    }
    return false;
}

static int open_file(struct joblog *l, const char *path, joblog_entry_fn *entries, void *arg, char *why,
                     size_t size)
{
    l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (l->fd < 0) {
        snprintf(why, size, "%s", strerror(errno));
        return HAWK_EIO;
    }
    if (!take_lock(l->fd)) {
        snprintf(why, size, "another `hawk run` writes to it");
        return HAWK_EBUSY;
    }
    off_t end, whole = 0;
    int err = read_log(path, entries, arg, &whole, why, size);
    if (err)
        return err;
    if (entries && ftruncate(l->fd, whole)) {
        snprintf(why, size, "%s", strerror(errno));
        return HAWK_EIO;
    }
    end = lseek(l->fd, 0, SEEK_END);
    if (end <= 0) /* a pipe has no end */
        text_add(&l->waiting, head, sizeof head - 1);
    (void)sync_parent(path); /* the name as durable as the lines */
    return 0;
}

int joblog_open(struct joblog **out, const char *path, const char *command, joblog_entry_fn *entries,
                void *arg, char *why, size_t size)
{
    struct joblog *l = xcalloc(1, sizeof *l);
    CHECK(pthread_mutex_init(&l->lock, NULL) == 0);
    CHECK(pthread_cond_init(&l->more, NULL) == 0);
    l->command = xstrdup(command);
    int err = open_file(l, path, entries, arg, why, size);
    if (err) {
        joblog_close(l);
        return err;
    }
    *out = l;
    return 0;
}

void joblog_finish(struct joblog *l)
{
    if (!l->started)
        return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->started = false;
}

void joblog_close(struct joblog *l)
{
    if (!l)
        return;
    joblog_finish(l);
    if (l->fd >= 0)
        close(l->fd);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->more);
    text_free(&l->waiting);
    free(l->command);
    free(l);
}

/* ---- Writing ---- */

/* All of it, or none: what counts as not written must not be found there by the run that goes on. */
static int write_lines(int fd, const struct text *t)
{
    off_t before = lseek(fd, 0, SEEK_END); /* -1: it is a pipe */
    int err = write_all(fd, t->data, t->len);
    if (!err && fdatasync(fd) && errno != EINVAL && errno != EROFS) /* a pipe cannot be synchronised */
        err = errno;
    if (err && before >= 0)
        (void)!ftruncate(fd, before);
    return err;
}

static void *run_thread(void *arg)
{
    struct joblog *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (l->waiting.len == 0 && !l->closing)
            pthread_cond_wait(&l->more, &l->lock);
        if (l->waiting.len == 0)
            break;
        struct text now = l->waiting;
        uint64_t lines = l->added;
        l->waiting = (struct text){0};
        pthread_mutex_unlock(&l->lock);
        int err = l->err ? l->err : write_lines(l->fd, &now);
        text_free(&now);
        pthread_mutex_lock(&l->lock);
        l->err = err;
        l->written = err ? l->written : lines;
        l->tell(l->arg);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

uint64_t joblog_written(struct joblog *l, int *err)
{
    pthread_mutex_lock(&l->lock);
    uint64_t n = l->written;
    *err = l->err;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void joblog_start(struct joblog *l, void (*written)(void *arg), void *arg)
{
    l->tell = written;
    l->arg = arg;
    CHECK(thread_start(&l->thread, run_thread, l) == 0);
    l->started = true;
}

/* As in GNU parallel's log: the exit code, -1 if the time was over or nobody knows; the signal apart. */
static int exit_value(const struct joblog_line *line)
{
    switch (line->outcome) {
    case OUTCOME_EXITED:
    case OUTCOME_NOT_STARTED:
        return line->code;
    case OUTCOME_SIGNALED:
    case OUTCOME_OUT_OF_MEMORY:
        return 0;
    default:
        return -1;
    }
}

static int killed_by(const struct joblog_line *line)
{
    return line->outcome == OUTCOME_SIGNALED || line->outcome == OUTCOME_OUT_OF_MEMORY ? line->code : 0;
}

uint64_t joblog_add(struct joblog *l, const struct joblog_line *line)
{
    char numbers[256];
    struct text t = {0};
    snprintf(numbers, sizeof numbers, "%" PRIu64 "\t%s\t%.3f\t%.3f\t0\t%" PRIu64 "\t%d\t%d\t", line->position,
             line->host, (double)line->start_us / 1e6, (double)line->run_us / 1e6, line->output,
             exit_value(line), killed_by(line));
    text_add(&t, numbers, strlen(numbers));
    text_add(&t, l->command, strlen(l->command));
    text_add(&t, "\t", 1);
    if (line->input)
        add_escaped(&t, line->input->data, line->input->len);
    text_add(&t, "\t", 1);
    add_escaped(&t, line->ending, strlen(line->ending));
    text_add(&t, "\n", 1);
    pthread_mutex_lock(&l->lock);
    text_add(&l->waiting, t.data, t.len);
    uint64_t number = ++l->added;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
    text_free(&t);
    return number;
}
