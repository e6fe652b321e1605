/* The conversation with a spawner that an earlier agent left: see takeover.h. It is the first thing that this
 * process does, and may block. */
#include "exec/takeover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"
#include "exec/spawner_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_US (10 * US_PER_S) /* a spawner may have many tasks, on a loaded machine */
#define RETRY_MS 50

/* ---- Its records ---- */

static char *get_text(struct record *r)
{
    uint32_t n;
    const char *data = get_data(r, &n);

    return data ? xmemdup0(data, n) : NULL;
}

/* Keeps the texts of a record of a user's runner, as far as anybody will ask for them. */
static void take_user_texts(struct takeover *t, struct held *h, struct record *r)
{
    uint32_t n, ignored;
    const char *result = get_data(r, &n);

    (void)get_data(r, &ignored);
    (void)get_data(r, &ignored);
    if (!result)
        return;
    n = n < TAKEOVER_TEXT_MAX ? n : TAKEOVER_TEXT_MAX;
    t->texts += n;
    h->m.exec_held.result = utf8_tame_blob(blob_new(result, n), n);
}

static void take_held(struct takeover *t, struct record *r)
{
    struct msg_exec_held *m;
    uint32_t flags;

    vec_grow(t->v, t->n, t->cap);
    struct held *h = &t->v[t->n++];
    *h = (struct held){.m.type = MSG_EXEC_HELD};
    m = &h->m.exec_held;
    m->run = get_u32(r);
    h->pid = (pid_t)get_u32(r);
    m->id.job.v = get_u64(r);
    m->id.task = get_u32(r);
    m->id.epoch = (uint16_t)get_u32(r);
    m->id.attempt = (uint16_t)get_u32(r);
    m->owner.v = get_u32(r);
    flags = get_u32(r);
    m->class = flags & RUN_LONG ? CLASS_LONG : CLASS_SHORT;
    m->promotable = (flags & RUN_PROMOTABLE) != 0;
    m->stolen = (flags & RUN_STOLEN) != 0;
    m->outcome = (uint8_t)get_u32(r);
    m->code = (int32_t)get_u32(r);
    m->run_us = (int64_t)get_u64(r);
    if (t->of_user) {
        take_user_texts(t, h, r);
    } else {
        m->result = get_blob(r);
        h->paths[0] = get_text(r);
        h->paths[1] = get_text(r);
    }
    h->used = get_usage(r);
    if (!t->of_user && r->p < r->end)
        h->user = get_text(r);
}

int takeover_records(struct takeover *t)
{
    struct record r;
    uint32_t freezer;
    int got;

    while ((got = record_next(&t->in, &r)) > 0) {
        if (r.type == RECORD_HELD) {
            take_held(t, &r);
        } else if (r.type == RECORD_WELCOME) {
            t->spawner = (pid_t)get_u32(&r);
            t->incarnation = get_u64(&r);
            t->lease_us = (int64_t)get_u64(&r);
            t->knows = r.p < r.end ? get_u32(&r) : 0;
            freezer = r.p < r.end ? get_u32(&r) : EXEC_FREEZER_OFF;
            t->freezer = freezer < EXEC_FREEZER_AUTO ? (enum exec_freezer)freezer : EXEC_FREEZER_OFF;
        } else {
            return HAWK_EMALFORMED;
        }
        if (r.bad)
            return HAWK_EMALFORMED;
        if (r.type == RECORD_WELCOME)
            return 1;
        if (t->texts > TAKEOVER_TEXTS_MAX)
            return HAWK_ETOO_LARGE;
    }
    return got;
}

/* Waits for bytes to read. Returns 1; 0 at the end of the stream; HAWK_ETIMEOUT. */
static int receive(struct takeover *t, int64_t deadline_us)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};

    for (;;) {
        int64_t left_us = deadline_us - monotonic_us();
        int got = bytes_receive(&t->in, t->fd);

        if (got)
            return got > 0 ? 1 : 0;
        if (left_us <= 0)
            return HAWK_ETIMEOUT;
        poll(&p, 1, (int)(left_us / US_PER_MS) + 1);
    }
}

/* ---- Our records ---- */

void takeover_hello(struct bytes *b, const struct exec_config *c, bool of_user)
{
    size_t begun = record_begin(b, RECORD_HELLO);

    put_u64(b, (uint64_t)c->kill_grace_us);
    put_u64(b, (uint64_t)c->orphan_grace_us);
    put_data(b, c->output_dir, strlen(c->output_dir));
    put_u32(b, c->group_reads);
    put_u64(b, c->output_free_min);
    put_u64(b, c->pause_free_mem);
    put_data(b, c->executors, c->executors ? strlen(c->executors) : 0);
    if (of_user) {
        put_data(b, c->worker, strlen(c->worker));
        put_u64(b, c->incarnation);
        /* The cgroups are the agent's, which freezes the task once its runner has stopped it. */
        put_u32(b, c->freezer == EXEC_FREEZER_OFF ? EXEC_FREEZER_OFF : EXEC_FREEZER_SIGNAL);
        put_u64(b, c->soft_files);
    }
    record_end(b, begun);
}

/* Says hello. 0: t is complete. HAWK_EUNAVAILABLE: the spawner refuses us, and has closed the socket. HAWK_ETIMEOUT: it
 * says nothing. */
static int greet(struct takeover *t, const struct exec_config *c)
{
    int64_t deadline_us = monotonic_us() + ANSWER_US;
    struct bytes out = {0};
    int more = 1;

    takeover_hello(&out, c, false);
    int got = bytes_send(&out, t->fd); /* a new socket's buffer takes all of it */
    bytes_free(&out);
    while (got == 0 && (more = receive(t, deadline_us)) > 0)
        got = takeover_records(t);
    if (got == 1)
        return 0;
    takeover_forget(t);
    bytes_free(&t->in);
    close(t->fd);
    t->fd = -1;
    return more == HAWK_ETIMEOUT ? more : HAWK_EUNAVAILABLE;
}

int takeover_begin(struct takeover *t, const struct exec_config *c)
{
    int64_t deadline_us = 0;

    *t = (struct takeover){.fd = -1, .lease_us = TIME_NEVER};
    for (int err = HAWK_EUNAVAILABLE;;) {
        t->fd = spawner_socket_connect(c->state_dir);
        if (t->fd < 0 && (errno == ENOENT || errno == ECONNREFUSED))
            return 0;
        if (t->fd < 0 && errno != EAGAIN) { /* EAGAIN: it has more callers than it has taken */
            log_error("%s/" SPAWNER_SOCKET ": cannot be connected to: %s", c->state_dir, strerror(errno));
            return HAWK_EIO;
        }
        if (t->fd >= 0)
            err = greet(t, c);
        if (err == 0 || err == HAWK_ETIMEOUT)
            return err;
        if (deadline_us == 0) {
            deadline_us = monotonic_us() + c->orphan_grace_us + c->kill_grace_us + ANSWER_US;
            log_warn(
                "the spawner of an earlier agent cannot be taken over, it is of another version or about to "
                "end: waiting until it has ended its tasks");
        }
        if (monotonic_us() > deadline_us)
            return HAWK_ETIMEOUT;
        poll(NULL, 0, RETRY_MS);
    }
}

int takeover_end_idle(struct takeover *t)
{
    int64_t deadline_us = monotonic_us() + ANSWER_US;
    struct bytes out = {0};
    int got = 1;

    record_end(&out, record_begin(&out, RECORD_STOP));
    if (bytes_send(&out, t->fd) == 0)
        while ((got = receive(t, deadline_us)) > 0)
            bytes_free(&t->in);
    bytes_free(&out);
    bytes_free(&t->in);
    close(t->fd);
    t->fd = -1;
    if (got == HAWK_ETIMEOUT)
        log_error("the idle spawner of an earlier agent (process %d) does not end", (int)t->spawner);
    return got == HAWK_ETIMEOUT ? HAWK_EIO : 0;
}

void takeover_tell(const struct held *h, exec_held_fn fn, void *arg)
{
    const struct msg_exec_held *held = &h->m.exec_held;
    struct msg used = {.type = MSG_EXEC_USED,
                       .exec_used = {.id = held->id, .owner = held->owner, .used = h->used}};

    fn(arg, &h->m, (const char *const *)h->paths, h->user);
    if (h->used.cpu_us.v || h->used.mem_peak_bytes.v)
        fn(arg, &used, (const char *const *)h->paths, h->user);
}

void takeover_forget(struct takeover *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        msg_drop(&t->v[i].m);
        free(t->v[i].paths[0]);
        free(t->v[i].paths[1]);
        free(t->v[i].user);
    }
    free(t->v);
    t->v = NULL;
    t->n = t->cap = 0;
}
