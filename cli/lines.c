/* A list of inputs that is read bit by bit: see lines.h. */
#include "cli/lines.h"

#include "base/mem.h"
#include "cli/document.h"
#include "cli/print.h"
#include "template/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
#define LINE_MAX_BYTES (1u << 20) /* of an input that comes by and by; what no program can be given */

struct lines {
    const char *command, *path;
    int fd;
    char end, separator;
    struct text waiting; /* what was read and not taken; from `at` on */
    size_t at, line;     /* the line that begins there */
    uint32_t columns;
    struct strings names;
    bool header; /* it is still to come */
    bool hungry, ended;
    int refused; /* a line was, with this exit code */
};

/* Where the fields of a record go. */
struct taking {
    struct lines *l;
    struct task_args *to;
    uint32_t left;
    int exit_code;
};

struct lines *lines_open(const char *command, const struct input_options *o, const char *path)
{
    struct stat st;
    bool here = strcmp(path, "-") == 0;
    int fd = here ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        fd = -1;
    }
    if (fd < 0) {
        usage_error("%s: --each-line: cannot open %s: %s", command, path, strerror(errno));
        return NULL;
    }
    struct lines *l = xcalloc(1, sizeof *l);
    *l = (struct lines){.command = command,
                        .path = path,
                        .fd = fd,
                        .end = o->null ? '\0' : '\n',
                        .line = 1,
                        .header = o->header,
                        .hungry = true};
    if (o->separator)
        l->separator = strcmp(o->separator, "\\t") == 0 ? '\t' : *o->separator;
    else if (o->csv)
        l->separator = ',';
    return l;
}

void lines_close(struct lines *l)
{
    if (!l)
        return;
    if (l->fd != STDIN_FILENO)
        close(l->fd);
    text_free(&l->waiting);
    free(l->names.data);
    free(l);
}

bool lines_come(const struct lines *l)
{
    struct stat st;
    return fstat(l->fd, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode);
}

int lines_fd(const struct lines *l) { return l->fd; }
bool lines_hungry(const struct lines *l) { return l->hungry && !l->ended; }
bool lines_over(const struct lines *l) { return l->ended && l->at == l->waiting.len && !l->refused; }
uint32_t lines_columns(const struct lines *l) { return l->columns; }

struct strings lines_take_names(struct lines *l)
{
    struct strings names = l->names;
    l->names = (struct strings){0};
    return names;
}

/* ---- Reading ---- */

/* Makes room at the front. What is moved is less than what was taken. */
static void drop_taken(struct lines *l)
{
    if (l->at < l->waiting.len - l->at)
        return;
    memmove(l->waiting.data, l->waiting.data + l->at, l->waiting.len - l->at);
    l->waiting.len -= l->at;
    l->at = 0;
}

static int read_some(struct lines *l)
{
    char buf[READ_BYTES];
    ssize_t n;
    do
        n = read(l->fd, buf, sizeof buf);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return usage_error("%s: --each-line: cannot read %s: %s", l->command, l->path, strerror(errno));
    if (l->waiting.len > 0)
        drop_taken(l);
    text_add(&l->waiting, buf, (size_t)n);
    l->ended = n == 0;
    if (l->ended || memchr(buf, l->end, (size_t)n)) /* else it is no end of a line */
        l->hungry = false;
    return 0;
}

int lines_read(struct lines *l)
{
    int exit_code = read_some(l);
    if (!exit_code && l->waiting.len - l->at > LINE_MAX_BYTES + READ_BYTES)
        return usage_error("%s: --each-line: %s, line %zu: an input of more than %u bytes", l->command,
                           l->path, l->line, LINE_MAX_BYTES);
    return exit_code;
}

int lines_read_all(struct lines *l)
{
    int exit_code = 0;
    while (!exit_code && !l->ended && l->waiting.len <= LIMIT_JOB_BYTES)
        exit_code = read_some(l);
    if (!exit_code && l->waiting.len > LIMIT_JOB_BYTES)
        return usage_error("%s: --each-line: %s has more than %u bytes, the limit of a job", l->command,
                           l->path, LIMIT_JOB_BYTES);
    return exit_code;
}

/* ---- Taking ---- */

/* A place with the name stands for the first of them. */
static void warn_same_names(const struct lines *l)
{
    const char *name = l->names.data;
    for (uint32_t i = 0; i < l->names.n; i++, name += strlen(name) + 1) {
        const char *other = name + strlen(name) + 1;
        for (uint32_t k = i + 1; *name && k < l->names.n; k++, other += strlen(other) + 1)
            if (strcmp(name, other) == 0)
                say_warning(l->command, "%s: columns %u and %u have one name: {%s} stands for the first",
                            l->path, i + 1, k + 1, CLEAN(name));
    }
}

static void take_names(struct lines *l, const char *fields, size_t len, uint32_t n)
{
    static const char bom[] = "\xef\xbb\xbf";
    const char *end = fields + len;

    if (len >= 3 && memcmp(fields, bom, 3) == 0)
        fields += 3;
    for (uint32_t i = 0; i < n; i++) {
        size_t name = strnlen(fields, (size_t)(end - fields));
        memcpy(strings_add_space(&l->names, name), fields, name);
        fields += name + 1;
    }
    warn_same_names(l);
    l->header = false;
}

static int check_record(struct lines *l, size_t line, const char *fields, size_t len, uint32_t n)
{
    uint32_t nuls = 0;

    for (const char *c = fields; (c = memchr(c, '\0', (size_t)(fields + len - c))); c++)
        nuls++;
    if (nuls != n - 1)
        return usage_error("%s: --each-line: %s, line %zu: a NUL byte, which no argument can have; --null: "
                           "NULs end the inputs",
                           l->command, l->path, line);
    if (l->columns && n != l->columns)
        return usage_error("%s: --each-line: %s, line %zu: %u column%s, and the first line has %u",
                           l->command, l->path, line, n, PLURAL(n), l->columns);
    if (n > LIMIT_COLUMNS)
        return usage_error("%s: --each-line: %s has %u columns, the limit is %u", l->command, l->path, n,
                           LIMIT_COLUMNS);
    return 0;
}

/* A list that was written on Windows: no file has the names that it holds. */
static void warn_return(const struct lines *l, const char *fields, size_t len)
{
    if (!l->columns && l->end == '\n' && len > 0 && fields[len - 1] == '\r')
        say_warning(l->command,
                    "%s: its lines end in CR and LF, and the CR is part of each input: `tr -d '\\r'` "
                    "removes it",
                    l->path);
}

static bool take_record(void *arg, size_t line, const char *fields, size_t len, uint32_t n)
{
    struct taking *t = arg;
    struct lines *l = t->l;

    t->exit_code = check_record(l, line, fields, len, n);
    if (t->exit_code)
        return false;
    warn_return(l, fields, len);
    l->columns = n;
    if (l->header) {
        take_names(l, fields, len, n);
        return true;
    }
    task_args_add(t->to, fields, len);
    return --t->left > 0;
}

int lines_take(struct lines *l, struct task_args *to, uint32_t max)
{
    struct taking t = {.l = l, .to = to, .left = max};
    size_t line = 0;

    if (l->refused)
        return l->refused;
    if (l->hungry || max == 0 || l->at == l->waiting.len) {
        l->hungry |= l->at == l->waiting.len;
        return 0;
    }
    struct records r = {.at = l->waiting.data + l->at,
                        .end = l->waiting.data + l->waiting.len,
                        .line = l->line,
                        .more = !l->ended};
    int err = records_read(&r, l->end, l->separator, take_record, &t, &line);
    l->at = (size_t)(r.at - l->waiting.data);
    l->line = r.line;
    if (err)
        t.exit_code =
            usage_error("%s: --each-line: %s, line %zu: a column in quotes that do not end before a comma or "
                        "the line's end",
                        l->command, l->path, line);
    l->refused = t.exit_code;
    l->hungry = t.left > 0 && !l->refused; /* what is left is no whole line */
    return l->refused;
}
