/* A job's description in the spawner: read from the socket, with the environment and the input of its
 * tasks. */
#include "exec/launch.h"

#include "base/io.h"
#include "base/mem.h"
#include "exec/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_SEARCH "/usr/local/bin:/usr/bin:/bin"
#define OWN_ENTRIES 3 /* HAWK_JOB_NAME, HAWK_TASK_COUNT, HAWK_JOB_ANCESTORS */

/* ---- Reading ---- */

static void get_strings(struct record *r, struct strings *s)
{
    uint32_t n;
    const char *data = get_data(r, &n);

    if (n == 0)
        return;
    if (data[n - 1] != '\0')
        r->bad = true;
    for (const char *p = data; !r->bad && p < data + n; p += strlen(p) + 1)
        strings_add(s, p);
}

static void get_ancestors(struct record *r, struct ancestors *a)
{
    uint32_t n;
    const char *text = get_data(r, &n);

    if (n > 0 && text[n - 1] == '\0')
        ancestors_add_text(a, text);
}

/* *signature: what the job's user signed, the caller's to drop; NULL: none. */
static struct job_desc *get_desc(struct record *r, struct blob **signature)
{
    struct job_desc *d = job_desc_new();

    d->tasks = get_u32(r);
    d->first_index = get_u32(r);
    d->time_limit_us = (int64_t)get_u64(r);
    struct blob *name = get_blob(r);
    if (name) {
        blob_drop(d->name);
        d->name = name;
    }
    get_strings(r, &d->argv);
    get_strings(r, &d->env);
    d->cwd = get_blob(r);
    d->stdout_pattern = get_blob(r);
    d->stderr_pattern = get_blob(r);
    d->input = get_blob(r);
    if (r->p < r->end) /* older agents do not send it */
        d->umask = get_u32(r);
    if (r->p < r->end)
        get_ancestors(r, &d->ancestors);
    if (r->p < r->end) {
        d->columns = get_u32(r);
        get_strings(r, &d->each_env);
        d->flags = get_u32(r);
    }
    struct blob *user = r->p < r->end ? get_blob(r) : NULL;
    if (user) {
        blob_drop(d->user);
        d->user = user;
    }
    if (r->p < r->end) {
        d->mem_bytes = (int64_t)get_u64(r);
        d->pids = get_u32(r);
    }
    *signature = r->p < r->end ? get_blob(r) : NULL;
    if (r->bad || d->argv.n == 0 || d->mem_bytes < 0 || d->columns > LIMIT_COLUMNS) {
        job_desc_drop(d);
        return NULL;
    }
    return d;
}

/* ---- Environment ---- */

/* Whether the entry is a variable that Hawk sets, whatever the job or the agent's environment say. */
static bool is_ours(const char *entry)
{
    static const char *const names[] = {
        "HAWK_JOB_ID=",   "HAWK_TASK_INDEX=", "HAWK_ATTEMPT=", "HAWK_RUN=",           "HAWK_TASK_COUNT=",
        "HAWK_JOB_NAME=", "HAWK_WORKER=",     "HAWK_INPUT=",   "HAWK_JOB_ANCESTORS=", "HAWK_WORKER_SOCKET="};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return strncmp(entry, "HAWK_INPUT_", 11) == 0;
}

/* Whether the entry concerns the agent or the runner and not its tasks: the cluster's token, what hawk-run-as says of
 * limits, and variables that systemd gives to services. */
static bool is_agents(const char *entry)
{
    static const char *const names[] = {"HAWK_TOKEN",     "HAWK_PROTOCOL_VERSION=", "HAWK_RUNNER_FILES=",
                                        "NOTIFY_SOCKET=", "WATCHDOG_PID=",          "WATCHDOG_USEC="};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void add_entry(struct spec *s, size_t *n, const char *entry)
{
    if (is_ours(entry))
        return;
    if (strncmp(entry, "PATH=", 5) == 0)
        s->search = entry + 5;
    s->env[(*n)++] = entry;
}

static void make_environment(struct spec *s)
{
    const struct job_desc *d = s->d;
    const char *entry = d->env.data;
    size_t n = RUN_ENTRIES + command_variables(d), room = n + OWN_ENTRIES + 1, size;
    char ancestors[ANCESTORS_TEXT];

    for (char **e = environ; d->env.n == 0 && *e; e++)
        room++;
    s->env = xcalloc(room + d->env.n, sizeof *s->env);
    size = d->name->len + 128 + ANCESTORS_TEXT;
    char *p = s->own = xmalloc(size);
    s->env[n++] = p;
    p += snprintf(p, size, "HAWK_JOB_NAME=%s", d->name->data) + 1;
    if (!(d->flags & JOB_PART)) {
        s->env[n++] = p;
        p += snprintf(p, size - (size_t)(p - s->own), "HAWK_TASK_COUNT=%" PRIu32, d->tasks) + 1;
    }
    if (d->ancestors.n > 0) {
        s->env[n++] = p;
        snprintf(p, size - (size_t)(p - s->own), "HAWK_JOB_ANCESTORS=%s",
                 ancestors_format(ancestors, &d->ancestors));
    }
    s->search = DEFAULT_SEARCH;
    if (d->env.n == 0) {
        for (char **e = environ; *e; e++)
            if (!is_agents(*e))
                add_entry(s, &n, *e);
    } else {
        for (uint32_t i = 0; i < d->env.n; i++, entry += strlen(entry) + 1)
            add_entry(s, &n, entry);
    }
}

/* ---- Input ---- */

static int make_input(const struct blob *input)
{
    int fd = memfd_create("hawk-stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int err = fd < 0 ? errno : write_all(fd, input->data, input->len);

    if (!err) {
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

int spec_open_input(struct spec *s)
{
    char path[32];

    if (s->input < 0)
        s->input = make_input(s->d->input);
    if (s->input < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->input);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Replaces what the agent says by what the user signed. */
static void read_signed(struct spec *s, const struct signed_reader *reader, const struct blob *signature)
{
    char why[SIGNED_SPEC_WHY];

    job_desc_drop(s->d);
    s->reader = reader;
    s->as_signed = reader->open(reader, signature, why);
    s->d = s->as_signed ? job_desc_ref(s->as_signed->d) : job_desc_new();
    s->refused = s->as_signed ? NULL : xstrdup(why);
}

struct spec *spec_new(struct record *r, const struct signed_reader *reader)
{
    uint32_t id = get_u32(r);
    struct blob *signature = NULL;
    struct job_desc *d = get_desc(r, &signature);
    struct spec *s;

    if (!d) {
        blob_drop(signature);
        return NULL;
    }
    s = xcalloc(1, sizeof *s);
    s->id = id;
    s->d = d;
    s->input = -1;
    if (reader)
        read_signed(s, reader, signature);
    blob_drop(signature);
    if (s->refused)
        return s;
    make_environment(s);
    command_prepare(s);
    return s;
}

/* The agent opens the worker's own output files. Without their descriptors the runner would make them wherever the
 * agent says that they are. */
static bool has_files(const struct job_desc *d, uint32_t files)
{
    for (int i = 0; i < 2; i++)
        if (output_is_default(d, (enum output)(OUTPUT_STDOUT + i)) && !(files & RUN_STDOUT << i))
            return false;
    return true;
}

int spec_check_signed(const struct spec *s, const struct task *t, uint32_t files, const struct blob *proof,
                      char why[LAUNCH_WHY_MAX])
{
    char text[SIGNED_SPEC_WHY] = "its output files did not come with it";
    int err = s->as_signed ? 0 : HAWK_EDENIED;

    if (!s->reader)
        return 0;
    struct blob *arg = t->arg ? blob_new(t->arg, t->arg_len) : NULL;
    if (!err)
        err = s->reader->has(s->as_signed, t->id.task, arg, proof, text);
    if (!err && !has_files(s->d, files))
        err = HAWK_EDENIED;
    blob_drop(arg);
    if (err)
        snprintf(why, LAUNCH_WHY_MAX, "its user's runner runs signed jobs alone: %s",
                 s->refused ? s->refused : text);
    return err;
}

void spec_free(struct spec *s)
{
    if (s->input >= 0)
        close(s->input);
    if (s->as_signed)
        s->reader->close(s->as_signed);
    free(s->refused);
    command_release(s);
    job_desc_drop(s->d);
    free(s->own);
    free(s->env);
    free(s);
}
