/* The runs of a user's runner, on disk: see held_runs.h. The file only grows, until it says nothing any more or says
 * much more than is true; then it is written anew. It outlives this process, and need not outlive the machine. */
#include "exec/held_runs.h"

#include "base/mem.h"
#include "exec/sent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "runs"
#define GROWN (1u << 20) /* bytes; a smaller file is not written anew */

struct held_entry {
    UT_hash_handle hh;
    struct held_run r;
    bool claimed;
};

static struct held_entry *find_entry(const struct held_runs *h, uint32_t run)
{
    struct held_entry *e;

    HASH_FIND(hh, h->by_run, &run, sizeof run, e);
    return e;
}

static void drop_entry_of(struct held_runs *h, uint32_t run)
{
    struct held_entry *e = find_entry(h, run);

    if (!e)
        return;
    HASH_DEL(h->by_run, e); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    free(e);
}

static void keep_entry(struct held_runs *h, const struct held_run *r)
{
    struct held_entry *e;

    drop_entry_of(h, r->run);
    e = xcalloc(1, sizeof *e);
    e->r = *r;
    HASH_ADD(hh, h->by_run, r.run, sizeof e->r.run, e);
}

struct try_id held_run_try(const struct held_run *r)
{
    return (struct try_id){{r->job}, r->task, r->epoch, r->attempt};
}

struct held_run held_run_of(const struct msg_exec_start *m, uint32_t files)
{
    return (struct held_run){.run = m->run,
                             .flags = sent_flags(m),
                             .job = m->id.job.v,
                             .time_limit_us = m->desc->time_limit_us,
                             .task = m->id.task,
                             .owner = m->owner.v,
                             .epoch = m->id.epoch,
                             .attempt = m->id.attempt,
                             .files = (uint16_t)files};
}

int held_runs_open(struct held_runs *h, int dir_fd)
{
    struct held_run r;

    *h = (struct held_runs){.fd = openat(dir_fd, FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (h->fd < 0)
        return HAWK_EIO;
    for (; pread(h->fd, &r, sizeof r, (off_t)h->size) == sizeof r; h->size += sizeof r)
        if (r.forgotten)
            drop_entry_of(h, r.run);
        else
            keep_entry(h, &r);
    return 0;
}

static void drop_all(struct held_runs *h)
{
    struct held_entry *e, *next;

    HASH_ITER(hh, h->by_run, e, next) {
        HASH_DEL(h->by_run, e); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
        free(e);
    }
}

void held_runs_close(struct held_runs *h)
{
    drop_all(h);
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

static int append(struct held_runs *h, const struct held_run *r)
{
    ssize_t n = pwrite(h->fd, r, sizeof *r, (off_t)h->size);

    if (n != sizeof *r) {
        if (n >= 0)
            errno = ENOSPC;
        return HAWK_EIO;
    }
    h->size += sizeof *r;
    return 0;
}

/* In place: a process that dies meanwhile leaves a part of it. Those runs are then not taken over, but ended. */
static void write_anew(struct held_runs *h)
{
    h->size = 0;
    if (ftruncate(h->fd, 0) < 0)
        return;
    for (struct held_entry *e = h->by_run; e; e = e->hh.next)
        if (append(h, &e->r))
            return;
}

int held_runs_add(struct held_runs *h, const struct held_run *r)
{
    int err = append(h, r);

    if (!err)
        keep_entry(h, r);
    return err;
}

void held_runs_forget(struct held_runs *h, uint32_t run)
{
    struct held_run r = {.run = run, .forgotten = 1};

    if (!find_entry(h, run))
        return;
    drop_entry_of(h, run);
    /* Should it not be written: another agent asks the runner for a run that it does not have. */
    if (!h->by_run || (h->size > GROWN && h->size > 4 * sizeof r * HASH_COUNT(h->by_run)))
        write_anew(h);
    else
        (void)append(h, &r);
}

void held_runs_clear(struct held_runs *h)
{
    drop_all(h);
    write_anew(h);
}

const struct held_run *held_runs_find(const struct held_runs *h, uint32_t run)
{
    const struct held_entry *e = find_entry(h, run);

    return e ? &e->r : NULL;
}

const struct held_run *held_runs_claim(struct held_runs *h, uint32_t run)
{
    struct held_entry *e = find_entry(h, run);

    if (!e || e->claimed)
        return NULL;
    e->claimed = true;
    return &e->r;
}

uint32_t held_runs_count(const struct held_runs *h) { return HASH_COUNT(h->by_run); }
