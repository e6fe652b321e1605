/* Descriptions of jobs that a spawner has: see sent.h. */
#include "exec/sent.h"

#include "base/mem.h"
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_SPECS 16 /* descriptions that the spawner keeps without a run that uses them */
#define RECORD_SLACK 65536

void put_number(struct bytes *out, enum record_type type, uint32_t number)
{
    size_t begun = record_begin(out, type);

    put_u32(out, number);
    record_end(out, begun);
}

void put_kill(struct bytes *out, uint32_t run, enum outcome outcome, bool force)
{
    size_t begun = record_begin(out, RECORD_KILL);

    put_u32(out, run);
    put_u32(out, (uint32_t)outcome);
    put_u32(out, force);
    record_end(out, begun);
}

void sent_init(struct sent *s)
{
    *s = (struct sent){0};
    list_init(&s->idle);
}

static struct sent_spec *send_spec(struct sent *t, struct bytes *out, struct job_desc *d)
{
    struct sent_spec *s = xcalloc(1, sizeof *s);
    char ancestors[ANCESTORS_TEXT];

    s->d = job_desc_ref(d);
    s->id = ++t->next_spec;
    list_init(&s->idle);
    HASH_ADD(hh, t->specs, d, sizeof s->d, s);
    size_t begun = record_begin(out, RECORD_SPEC);
    put_u32(out, s->id);
    put_u32(out, d->tasks);
    put_u32(out, d->first_index);
    put_u64(out, (uint64_t)d->time_limit_us);
    put_blob(out, d->name);
    put_data(out, d->argv.data, d->argv.bytes);
    put_data(out, d->env.data, d->env.bytes);
    put_blob(out, d->cwd);
    put_blob(out, d->stdout_pattern);
    put_blob(out, d->stderr_pattern);
    put_blob(out, d->input);
    put_u32(out, d->umask);
    ancestors_format(ancestors, &d->ancestors);
    put_data(out, ancestors, strlen(ancestors) + 1);
    put_u32(out, d->columns);
    put_data(out, d->each_env.data, d->each_env.bytes);
    put_u32(out, d->flags);
    put_blob(out, d->user);
    put_u64(out, (uint64_t)d->mem_bytes);
    put_u32(out, d->pids);
    if (t->to_user)
        put_blob(out, d->signature);
    record_end(out, begun);
    return s;
}

static struct sent_spec *use_spec(struct sent *t, struct bytes *out, struct job_desc *d)
{
    struct sent_spec *s;

    HASH_FIND(hh, t->specs, &d, sizeof d, s);
    if (!s)
        s = send_spec(t, out, d);
    if (!list_empty(&s->idle)) {
        list_remove(&s->idle);
        t->idle_n--;
    }
    s->runs++;
    return s;
}

static void forget_spec(struct sent *t, struct sent_spec *s)
{
    HASH_DEL(t->specs, s);
    list_remove(&s->idle);
    job_desc_drop(s->d);
    free(s);
}

void sent_release(struct sent *t, struct bytes *out, struct sent_spec *s)
{
    if (--s->runs > 0)
        return;
    list_push_tail(&t->idle, &s->idle);
    if (++t->idle_n <= IDLE_SPECS)
        return;
    s = container_of(t->idle.next, struct sent_spec, idle);
    t->idle_n--;
    if (out)
        put_number(out, RECORD_SPEC_DROP, s->id);
    forget_spec(t, s);
}

void sent_free(struct sent *t)
{
    struct sent_spec *s = t->specs, *next;

    HASH_CLEAR(hh, t->specs); /* frees the table, and leaves the chain */
    for (; s; s = next) {
        next = s->hh.next;
        job_desc_drop(s->d);
        free(s);
    }
    list_init(&t->idle);
    t->idle_n = 0;
}

static size_t spec_bytes(const struct job_desc *d)
{
    return (size_t)d->argv.bytes + d->env.bytes + (d->input ? d->input->len : 0) +
           (d->cwd ? d->cwd->len : 0) + (d->signature ? d->signature->len : 0);
}

uint32_t sent_flags(const struct msg_exec_start *m)
{
    return (m->class == CLASS_LONG ? RUN_LONG : 0) | (m->promotable ? RUN_PROMOTABLE : 0) |
           (m->stolen ? RUN_STOLEN : 0) | (node_eq(m->owner, NODE_CENTRAL) ? RUN_LEASED : 0);
}

int sent_run(struct sent *t, struct bytes *out, const struct msg_exec_start *m, const char *worker,
             uint32_t files, const struct blob *proof, struct sent_spec **used)
{
    const struct job_desc *d = m->desc;
    size_t begun, bytes = spec_bytes(d) + (m->arg ? m->arg->len : 0) + RECORD_SLACK;

    if (d->argv.n == 0)
        return HAWK_EINVALID;
    if (bytes > RECORD_MAX || bytes_pending(out) + bytes > EXEC_SEND_MAX)
        return HAWK_ELIMIT;
    *used = use_spec(t, out, m->desc);
    begun = record_begin(out, RECORD_RUN);
    put_u32(out, m->run);
    put_u32(out, (*used)->id);
    put_u64(out, m->id.job.v);
    put_u32(out, m->id.task);
    put_u32(out, m->id.epoch);
    put_u32(out, m->id.attempt);
    put_u32(out, m->owner.v);
    put_u32(out, sent_flags(m));
    put_blob(out, m->arg);
    put_data(out, worker, worker ? strlen(worker) : 0);
    if (t->to_user) {
        put_u32(out, files);
        put_blob(out, proof);
    }
    record_end(out, begun);
    return 0;
}
