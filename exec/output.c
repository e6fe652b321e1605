/* Makes the names of output files, and opens the files. */
#include "exec/output.h"

#include "exec/exec.h"

#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DISK_FULL (16u << 10) /* in bytes; a disk with less room counts as full */

/* ---- Names ---- */

/* A path under construction. If it does not fit, len becomes larger than size. */
struct path {
    char *buf;
    size_t size, len;
    const struct template_input *in; /* what fills the places of a pattern */
};

static void add_bytes(struct path *p, const char *text, size_t n)
{
    if (p->len + n < p->size)
        memcpy(p->buf + p->len, text, n);
    p->len += n;
}

static void add_text(struct path *p, const char *text) { add_bytes(p, text, strlen(text)); }

static void add_number(struct path *p, uint64_t v)
{
    char text[24];

    add_bytes(p, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, v));
}

/* Adds a name that people chose as one component: it must not lead out of its directory. */
static void add_name(struct path *p, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        name = strlen(name) == 1 ? "_" : "__";
    for (; *name; name++)
        add_bytes(p, *name == '/' ? "_" : name, 1);
}

static int finish_path(struct path *p)
{
    if (p->len >= p->size)
        return HAWK_ETOO_LARGE;
    p->buf[p->len] = '\0';
    return 0;
}

static int add_placeholder(struct path *p, char what, const struct exec_config *c, const struct try_id *id,
                           const struct job_desc *d)
{
    char job[JOB_ID_TEXT];

    switch (what) {
    case 'J':
        add_text(p, job_id_format(job, id->job));
        return 0;
    case 'j':
        add_number(p, job_id_seq(id->job));
        return 0;
    case 't':
        add_number(p, (uint64_t)d->first_index + id->task);
        return 0;
    case 'a':
        add_number(p, id->attempt);
        return 0;
    case 'w':
        add_name(p, c->worker);
        return 0;
    case 'n':
        add_name(p, d->name->data);
        return 0;
    case '%':
        add_bytes(p, "%", 1);
        return 0;
    default:
        return HAWK_EINVALID;
    }
}

/* Adds the text at s, which is one byte or a place. Returns the bytes of s that it took. */
static size_t add_next(struct path *p, const char *s)
{
    struct place place;
    struct text value = {0};
    size_t n = p->in && p->in->arg ? place_read(s, p->in->columns, &place) : 0;

    if (!n) {
        add_bytes(p, s, 1);
        return 1;
    }
    place_fill(&value, &place, p->in);
    add_bytes(p, value.data, value.len);
    text_free(&value);
    return n;
}

const char *output_cwd(const char *path)
{
    const char *at = strstr(path, "/.//");

    return at ? at + strlen("/./") : path;
}

/* An input that is an absolute path, and begins the pattern, is not below the directory. */
static void leave_directory(struct path *p, size_t directory)
{
    if (p->len >= p->size || p->buf[directory] != '/')
        return;
    memmove(p->buf, p->buf + directory, p->len - directory);
    p->len -= directory;
}

/* Adds the directory of a relative pattern: the job's directory, itself relative to this process's. */
static int add_directory(struct path *p, const struct job_desc *d)
{
    char cwd[EXEC_PATH_MAX];
    bool given = d->cwd && d->cwd->len > 0;

    if (!given || d->cwd->data[0] != '/') {
        if (!getcwd(cwd, sizeof cwd))
            return HAWK_EIO;
        add_text(p, cwd);
        add_bytes(p, "/", 1);
    }
    if (given) {
        if (d->flags & JOB_EACH_CWD) {
            for (const char *s = d->cwd->data; *s;)
                s += add_next(p, s);
            if (p->len < p->size) {
                p->buf[p->len] = '\0';
                leave_directory(p, (size_t)(output_cwd(p->buf) - p->buf));
            }
        } else {
            add_text(p, d->cwd->data);
        }
        add_bytes(p, "/", 1);
    }
    return 0;
}

static int expand(struct path *p, const char *pattern, const struct exec_config *c, const struct try_id *id,
                  const struct job_desc *d)
{
    int err = pattern[0] == '/' ? 0 : add_directory(p, d);
    size_t directory = p->len;

    while (!err && *pattern) {
        if (*pattern != '%') {
            pattern += add_next(p, pattern);
            continue;
        }
        err = add_placeholder(p, pattern[1], c, id, d); /* a percent sign at the end is an error */
        pattern += 2;
    }
    if (directory > 0 && p->len > directory)
        leave_directory(p, directory);
    return err ? err : finish_path(p);
}

static const struct blob *pattern_of(const struct job_desc *d, enum output which)
{
    const struct blob *b = !d ? NULL : which == OUTPUT_STDOUT ? d->stdout_pattern : d->stderr_pattern;

    return b && b->len > 0 ? b : NULL;
}

bool output_is_default(const struct job_desc *d, enum output which) { return !pattern_of(d, which); }

int exec_output_path(const struct exec_config *c, const struct try_id *id, const struct job_desc *d,
                     const struct template_input *in, int which, char *buf, size_t size)
{
    const struct blob *pattern = pattern_of(d, (enum output)which);
    struct path p = {.buf = buf, .size = size, .in = in};
    char job[JOB_ID_TEXT];

    if (pattern && strcmp(pattern->data, "none") == 0) {
        add_text(&p, OUTPUT_NONE);
        return finish_path(&p);
    }
    if (pattern)
        return expand(&p, pattern->data, c, id, d);
    add_text(&p, c->output_dir);
    add_bytes(&p, "/", 1);
    add_text(&p, job_id_format(job, id->job));
    add_bytes(&p, "/", 1);
    add_number(&p, id->task);
    if (id->attempt > 1) {
        add_bytes(&p, ".", 1);
        add_number(&p, id->attempt);
    }
    add_text(&p, which == OUTPUT_STDOUT ? ".out" : ".err");
    return finish_path(&p);
}

bool output_is_own(const struct job_desc *d, enum output which)
{
    const struct blob *pattern = pattern_of(d, which);

    bool alone = d->tasks == 1 && !(d->flags & JOB_PART); /* other parts' tasks may have the same file */

    return !pattern || alone || place_tells_tasks_apart(pattern->data, d->flags & JOB_EACH_ARG, d->columns);
}

/* ---- Files ---- */

struct output_mode output_mode(const struct job_desc *d, enum output which, bool group_reads)
{
    mode_t mask = pattern_of(d, which) ? job_desc_umask(d) : group_reads ? 027 : 077;

    return (struct output_mode){.file = 0666 & ~mask, .dir = 0777 & ~mask};
}

/* Makes the directories that lead to path. Returns 0 or -errno. */
static int make_parents(const char *path, mode_t mode)
{
    char dir[EXEC_PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof dir)
        return -ENAMETOOLONG;
    memcpy(dir, path, len + 1);
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(dir, mode) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

/* open(), which makes the directories that are missing. Returns the descriptor or -errno. */
static int open_below(const char *path, int flags, struct output_mode mode)
{
    int fd = open(path, flags, mode.file);

    if (fd < 0 && errno == ENOENT) {
        int err = make_parents(path, mode.dir);
        if (err)
            return err;
        fd = open(path, flags, mode.file);
    }
    return fd < 0 ? -errno : fd;
}

int output_open(const char *path, bool truncate, struct output_mode mode)
{
    /* O_NONBLOCK only for open(): the spawner must not hang on a FIFO without a reader. */
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (truncate ? O_TRUNC : 0);
    int fd = open_below(path, flags, mode);
    int err;

    if (fd < 0)
        return fd;
    if (fcntl(fd, F_SETFL, O_APPEND) < 0) {
        err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

/* Files in a job's directory: its user's name; the number of its first task, if that is not 0. */
#define USER_FILE "/.user"
#define FIRST_FILE "/.first"
#define NOTED_PATH_MAX (EXEC_PATH_MAX + sizeof FIRST_FILE)

/* Reads such a file; "": there is none. */
static void read_noted(const char *path, char text[LIMIT_NAME_BYTES + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, text, LIMIT_NAME_BYTES) : 0;

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* Writes such a file beside the output. */
static int write_noted(const char *output, const char *name, const char *text, size_t len,
                       struct output_mode mode)
{
    char file[NOTED_PATH_MAX];

    snprintf(file, sizeof file, "%.*s%s", (int)(strrchr(output, '/') - output), output, name);
    int fd = open_below(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return fd;
    ssize_t n = write(fd, text, len);
    int err = n == (ssize_t)len ? 0 : n < 0 ? -errno : -ENOSPC;
    close(fd);
    return err;
}

int output_claim(const char *path, const struct job_desc *d, struct output_mode mode)
{
    char file[NOTED_PATH_MAX], name[LIMIT_NAME_BYTES + 1], first[16];
    int err = 0;

    snprintf(file, sizeof file, "%.*s" USER_FILE, (int)(strrchr(path, '/') - path), path);
    read_noted(file, name);
    if (name[0])
        return strcmp(name, d->user->data) == 0 ? 0 : -EPERM;
    if (d->first_index > 0)
        err = write_noted(path, FIRST_FILE, first,
                          (size_t)snprintf(first, sizeof first, "%" PRIu32, d->first_index), mode);
    return err ? err : write_noted(path, USER_FILE, d->user->data, d->user->len, mode);
}

void exec_output_user(const struct exec_config *c, job_id_t job, char *buf)
{
    char file[NOTED_PATH_MAX], id[JOB_ID_TEXT];

    snprintf(file, sizeof file, "%s/%s" USER_FILE, c->output_dir, job_id_format(id, job));
    read_noted(file, buf);
}

uint32_t exec_output_first(const struct exec_config *c, job_id_t job)
{
    char file[NOTED_PATH_MAX], id[JOB_ID_TEXT], text[LIMIT_NAME_BYTES + 1];
    uint64_t first = 0;

    snprintf(file, sizeof file, "%s/%s" FIRST_FILE, c->output_dir, job_id_format(id, job));
    read_noted(file, text);
    return u64_parse(text, 0, UINT32_MAX, &first) ? 0 : (uint32_t)first;
}

/* ---- Files that stay empty ---- */

/* In a job's directory: a byte for each task, whose bits (enum output) say which of its files were removed empty. */
#define SILENT_FILE "/.silent"

/* Opens the file if it is empty and nobody can write to it: the kernel grants no lease on a file that some process has
 * open for writing, and while the lease stands no process gets it so. Else -1. */
static int open_empty(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return -1;
    /* The kernel signals a lease's holder at the next open, by default with SIGIO, which would end this process. */
    if (fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && fstat(fd, &st) == 0 &&
        S_ISREG(st.st_mode) && st.st_size == 0 && !(st.st_mode & EXEC_OUTPUT_CUT))
        return fd;
    close(fd);
    return -1;
}

static bool note_silent(const char *output, uint32_t task, uint8_t which, struct output_mode mode)
{
    char file[NOTED_PATH_MAX];

    snprintf(file, sizeof file, "%.*s" SILENT_FILE, (int)(strrchr(output, '/') - output), output);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode.file);
    bool noted = fd >= 0 && pwrite(fd, &which, 1, (off_t)task) == 1;
    if (fd >= 0)
        close(fd);
    return noted;
}

static void drop_empty(const struct exec_config *c, const struct try_id *id)
{
    char paths[2][EXEC_PATH_MAX];
    int fds[2] = {-1, -1};
    uint8_t empty = 0;

    if (id->attempt != 1)
        return;
    for (int i = 0; i < 2; i++) {
        if (exec_output_path(c, id, NULL, NULL, OUTPUT_STDOUT + i, paths[i], sizeof paths[i]) == 0)
            fds[i] = open_empty(paths[i]);
        if (fds[i] >= 0)
            empty |= (uint8_t)(OUTPUT_STDOUT + i);
    }
    bool noted =
        empty && note_silent(paths[0], id->task, empty, output_mode(NULL, OUTPUT_STDOUT, c->group_reads));
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0 && noted)
            unlink(paths[i]);
        if (fds[i] >= 0)
            close(fds[i]); /* and with it the lease */
    }
}

static void mark_cut(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        (void)!fchmod(fd, (st.st_mode & 07777) | EXEC_OUTPUT_CUT); /* without the mark, only the log tells */
    close(fd);
}

void output_ended(const struct exec_config *c, const struct try_id *id)
{
    char path[EXEC_PATH_MAX];

    if (!exec_disk_full(c->output_dir)) {
        if (c->drops_empty)
            drop_empty(c, id);
        return;
    }
    for (int which = OUTPUT_STDOUT; which <= OUTPUT_STDERR; which++)
        if (exec_output_path(c, id, NULL, NULL, which, path, sizeof path) == 0)
            mark_cut(path);
}

bool exec_output_was_empty(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t digits = name ? strspn(name + 1, "0123456789") : 0;
    char file[NOTED_PATH_MAX], number[16];
    uint64_t task;
    uint8_t which = 0;

    if (!digits || digits >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)digits, name + 1);
    bool out = strcmp(name + 1 + digits, ".out") == 0;
    if ((!out && strcmp(name + 1 + digits, ".err") != 0) || u64_parse(number, 0, UINT32_MAX, &task))
        return false;
    snprintf(file, sizeof file, "%.*s" SILENT_FILE, (int)(name - path), path);
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    bool noted = fd >= 0 && pread(fd, &which, 1, (off_t)task) == 1;
    if (fd >= 0)
        close(fd);
    return noted && which & (out ? OUTPUT_STDOUT : OUTPUT_STDERR);
}

/* ---- Room ---- */

uint64_t output_room(const char *dir)
{
    struct statvfs fs;

    if (statvfs(dir, &fs) < 0 || fs.f_blocks == 0)
        return UINT64_MAX;
    return (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
}

bool output_has_room(const char *dir, uint64_t least, char *why, size_t size)
{
    uint64_t room = least ? output_room(dir) : UINT64_MAX;

    if (room < least)
        snprintf(why, size, "%" PRIu64 " bytes are free on the disk of %s, less than worker.output_free_min",
                 room, dir);
    return room >= least;
}

bool exec_disk_full(const char *dir) { return output_room(dir) <= DISK_FULL; }
