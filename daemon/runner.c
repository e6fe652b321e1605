/* A worker's executor on its loop: see runner.h. */
#include "daemon/runner.h"

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/limits.h"
#include "exec/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

struct output {
    struct {
        uint64_t job;
        uint32_t task, pad;
    } key;
    uint16_t attempt; /* the latest */
    uint32_t run;
    int32_t pid; /* while it runs; 0: not known */
    bool running;
    char *paths[2];            /* stdout, stderr */
    char *user;                /* counts where no file beside them says it; NULL: not known */
    struct list ended;         /* in runner.ended, once it does not run */
    UT_hash_handle hh, hh_run; /* by key; while it runs, by run */
};

struct runner {
    struct loop *loop;
    struct exec *exec;
    struct runners *users; /* NULL: all commands are exec's */
    struct exec_config config;
    struct apps *apps;             /* NULL: nobody can attach */
    struct signatures *signatures; /* NULL: they are not required */
    uint32_t proof_run;            /* which start, the next one, ... */
    struct blob *proof;            /* ... it is the argument's proof of; NULL: there was none yet */
    void (*feed)(void *arg, const struct msg *m);
    void *arg;
    struct loop_fd *fd, *users_fd;
    int timer_fd; /* when exec wants to be called: the loop's own timers are a millisecond or two late */
    struct loop_fd *timer;
    int64_t timer_us; /* what it is set to; TIME_NEVER: not set */
    struct loop_hook flush;
    struct output *outputs, *by_run;
    struct list ended; /* outputs of ended tasks, the first end first: at most RUNNER_OUTPUTS */
    uint32_t ended_n;
    bool broken;
};

/* ---- Where output went ---- */

static struct output *output_find(const struct runner *r, job_id_t job, uint32_t task)
{
    struct output *o, probe;
    memset(&probe.key, 0, sizeof probe.key);
    probe.key.job = job.v;
    probe.key.task = task;
    HASH_FIND(hh, r->outputs, &probe.key, sizeof probe.key, o);
    return o;
}

static void output_drop(struct runner *r, struct output *o)
{
    HASH_DEL(r->outputs, o); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    if (o->running) {
        HASH_DELETE(hh_run, r->by_run, o); /* NOLINT(clang-analyzer-core.NullDereference) */
    } else {
        list_remove(&o->ended);
        r->ended_n--;
    }
    free(o->paths[0]);
    free(o->paths[1]);
    free(o->user);
    free(o);
}

static struct output *output_new(struct runner *r, const struct try_id *id, uint32_t run)
{
    struct output *o = output_find(r, id->job, id->task);
    if (o)
        output_drop(r, o);
    o = xcalloc(1, sizeof *o);
    o->key.job = id->job.v;
    o->key.task = id->task;
    o->attempt = id->attempt;
    o->run = run;
    o->running = true;
    HASH_ADD(hh, r->outputs, key, sizeof o->key, o);
    HASH_ADD(hh_run, r->by_run, run, sizeof o->run, o);
    return o;
}

static void output_ended(struct runner *r, uint32_t run)
{
    struct output *o;
    HASH_FIND(hh_run, r->by_run, &run, sizeof run, o);
    if (!o)
        return;
    HASH_DELETE(hh_run, r->by_run, o);
    o->running = false;
    list_push_tail(&r->ended, &o->ended);
    if (r->ended_n++ == RUNNER_OUTPUTS)
        output_drop(r, container_of(r->ended.next, struct output, ended));
}

static void output_started(struct runner *r, uint32_t run, int32_t pid)
{
    struct output *o;
    HASH_FIND(hh_run, r->by_run, &run, sizeof run, o);
    if (o)
        o->pid = pid;
}

/* Files that a user names are opened as that user. This process would open them as another, who may read what he may
 * not. */
static bool may_show(const struct runner *r, const struct job_desc *d, int which)
{
    const struct blob *pattern = which == 1 ? d->stdout_pattern : d->stderr_pattern;
    return !r->users || !pattern || pattern->len == 0;
}

static void output_remember(struct runner *r, const struct msg_exec_start *m, const char *worker)
{
    char path[EXEC_PATH_MAX];
    struct exec_config config = r->config;
    struct output *o = output_new(r, &m->id, m->run);
    struct template_input in =
        exec_input(m->desc, m->id.task, m->arg ? m->arg->data : NULL, m->arg ? m->arg->len : 0);
    if (worker)
        config.worker = worker;
    o->user = xstrdup(m->desc->user->data);
    for (int i = 0; i < 2; i++)
        if (may_show(r, m->desc, i + 1) &&
            exec_output_path(&config, &m->id, m->desc, &in, i + 1, path, sizeof path) == 0)
            o->paths[i] = xstrdup(path);
}

uint32_t runner_first_index(const struct runner *r, job_id_t job)
{
    return exec_output_first(&r->config, job);
}

int runner_output(const struct runner *r, job_id_t job, uint32_t task, uint32_t attempt, bool err_stream,
                  char *path, char *user, enum run_state *run)
{
    const struct output *o = output_find(r, job, task);
    /* A run that was refused, because the output is another user's, is remembered as well. */
    if (user)
        exec_output_user(&r->config, job, user);
    if (user && !*user && o && o->user)
        snprintf(user, LIMIT_NAME_BYTES + 1, "%s", o->user);
    if (o && (attempt == 0 || attempt == o->attempt)) {
        if (!o->paths[err_stream])
            return r->users ? HAWK_EDENIED : HAWK_ENOT_FOUND;
        snprintf(path, EXEC_PATH_MAX, "%s", o->paths[err_stream]);
        *run = o->running ? RUN_ON : RUN_ENDED;
        return 0;
    }
    *run = RUN_UNKNOWN;
    struct try_id id = {.job = job, .task = task, .attempt = attempt ? (uint16_t)attempt : 1};
    int err = exec_output_path(&r->config, &id, NULL, NULL, 1 + err_stream, path, EXEC_PATH_MAX);
    /* Of a task that an earlier process ran: its last try. */
    for (char next[EXEC_PATH_MAX]; !err && attempt == 0 && id.attempt < UINT16_MAX;) {
        id.attempt++;
        if (exec_output_path(&r->config, &id, NULL, NULL, 1 + err_stream, next, sizeof next) ||
            access(next, F_OK) < 0)
            break;
        snprintf(path, EXEC_PATH_MAX, "%s", next);
    }
    return err;
}

/* ---- Events and effects ---- */

static void on_event(void *arg, const struct msg *m)
{
    struct runner *r = arg;
    if (m->type == MSG_EXEC_EXITED)
        output_ended(r, m->exec_exited.run);
    else if (m->type == MSG_EXEC_STARTED)
        output_started(r, m->exec_started.run, m->exec_started.pid);
    r->feed(r->arg, m);
}

static void on_fd(void *arg, unsigned events)
{
    struct runner *r = arg;
    if (!(events & LOOP_READ) || exec_on_ready(r->exec, on_event, r) == 0)
        return;
    log_error("the spawner process is gone: no command can be started any more");
    r->broken = true;
    loop_fd_remove(r->fd);
    r->fd = NULL;
}

static void on_users_fd(void *arg, unsigned events)
{
    struct runner *r = arg;
    runners_on_ready(r->users, loop_now(r->loop), on_event, r);
}

static void on_held(void *arg, const struct msg *m, const char *const paths[2], const char *user)
{
    struct runner *r = arg;
    if (m->type == MSG_EXEC_HELD) {
        const struct msg_exec_held *h = &m->exec_held;
        struct output *o = output_new(r, &h->id, h->run);
        o->user = user ? xstrdup(user) : NULL;
        for (int i = 0; i < 2; i++)
            o->paths[i] = paths[i] ? xstrdup(paths[i]) : NULL;
        if (h->outcome != OUTCOME_NONE)
            output_ended(r, h->run);
    }
    r->feed(r->arg, m);
}

void runner_take_over(struct runner *r)
{
    exec_take_over(r->exec, on_held, r);
    if (r->users)
        runners_take_over(r->users, on_held, r);
    on_fd(r, LOOP_READ); /* what came with it is not announced by the descriptor any more */
}

static void set_timer(struct runner *r, int64_t at_us)
{
    struct itimerspec at = {0};
    if (at_us == r->timer_us)
        return;
    r->timer_us = at_us;
    if (at_us != TIME_NEVER) {
        at.it_value.tv_sec = (time_t)(at_us / US_PER_S);
        at.it_value.tv_nsec = (long)(at_us % US_PER_S) * 1000 + 1; /* 0 would mean never */
    }
    CHECK(timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

static void on_timer(void *arg, unsigned events)
{
    struct runner *r = arg;
    uint64_t times;
    if (read(r->timer_fd, &times, sizeof times) < 0)
        return;
    r->timer_us = TIME_NEVER;
    exec_on_timeout(r->exec, loop_now(r->loop), on_event, r);
    if (r->users)
        runners_on_timeout(r->users, loop_now(r->loop), on_event, r);
}

static void on_flush(void *arg)
{
    struct runner *r = arg;
    if (exec_flush(r->exec) == 0 && r->fd)
        loop_fd_events(r->fd, LOOP_READ | (exec_want_write(r->exec) ? LOOP_WRITE : 0u));
    int64_t at_us = exec_next_timeout(r->exec);
    if (r->users) {
        runners_flush(r->users, loop_now(r->loop));
        int64_t users_us = runners_next_timeout(r->users);
        at_us = users_us < at_us ? users_us : at_us;
    }
    set_timer(r, at_us);
}

/* place: as EXEC_EXITED has it; NULL: nothing that the job named. */
static void refuse_run(struct runner *r, uint32_t run, enum outcome outcome, int32_t code, const char *place,
                       const char *why)
{
    struct msg exited = {.type = MSG_EXEC_EXITED,
                         .exec_exited = {.run = run, .outcome = (uint8_t)outcome, .code = code}};
    exited.exec_exited.result = blob_str(why);
    exited.exec_exited.place = place ? blob_str(place) : NULL;
    on_event(r, &exited);
    msg_drop(&exited);
}

/* This worker cannot enforce the job's limits. Another one may. */
static void refuse_limits(struct runner *r, uint32_t run, const char *why)
{
    refuse_run(r, run, OUTCOME_LOST, HAWK_ECANNOT_START, LIMITS_PLACE, why);
}

/* Without a spawner, or room on a disk, another worker can still run it. */
static void refuse_start(struct runner *r, uint32_t run, int err, const char *why)
{
    bool lost = err == HAWK_EUNAVAILABLE || err == HAWK_ECANNOT_START;

    if (err == HAWK_EUNSUPPORTED)
        refuse_limits(r, run, why);
    else
        refuse_run(r, run, lost ? OUTCOME_LOST : OUTCOME_NOT_STARTED,
                   err == HAWK_ECANNOT_START ? err : CODE_CANNOT_START, NULL, why);
}

/* Whether the spawner knows the job's limits; users' runners answer for themselves. */
static bool may_limit(struct runner *r, const struct msg_exec_start *m)
{
    if (r->users || m->desc->kind != PAYLOAD_COMMAND || !limits_wanted(m->desc) || exec_reads_limits(r->exec))
        return true;
    refuse_limits(
        r, m->run,
        "this worker cannot limit tasks (--mem, --pids): the process that starts them is of an older "
        "version");
    return false;
}

static void start_run(struct runner *r, const struct msg_exec_start *m, const char *worker)
{
    char why[EXEC_WHY_MAX];
    const struct blob *proof = r->proof_run == m->run ? r->proof : NULL;
    struct msg_exec_start as_signed = *m;
    int err;
    if (r->signatures) {
        err = signatures_admit(r->signatures, m, proof, &as_signed.desc, why);
        if (err) {
            refuse_start(r, m->run, err, why);
            return;
        }
        m = &as_signed;
    }
    if (m->desc->kind == PAYLOAD_APP && r->apps) {
        apps_run(r->apps, loop_now(r->loop), m);
        return;
    }
    if (m->desc->kind == PAYLOAD_COMMAND && !exec_may_run(&r->config, m->desc, why)) {
        refuse_run(r, m->run, OUTCOME_NOT_STARTED, CODE_CANNOT_START, NULL, why);
        return;
    }
    if (!may_limit(r, m))
        return;
    if (m->desc->kind == PAYLOAD_COMMAND)
        output_remember(r, m, worker);
    *why = '\0';
    err = r->users && m->desc->kind == PAYLOAD_COMMAND
              ? runners_run(r->users, loop_now(r->loop), m, proof, worker, why)
              : exec_run(r->exec, loop_now(r->loop), m, worker);
    if (err)
        refuse_start(r, m->run, err, *why ? why : hawk_strerror(err));
}

static void keep_proof(struct runner *r, const struct msg_exec_proof *m)
{
    blob_drop(r->proof);
    r->proof = blob_ref(m->proof);
    r->proof_run = m->run;
}

static void end_run(struct runner *r, const struct msg_exec_kill *m)
{
    if (r->apps && apps_kill(r->apps, loop_now(r->loop), m->run, m->outcome, m->force))
        return;
    if (!r->users || !runners_kill(r->users, loop_now(r->loop), m->run, m->outcome, m->force))
        exec_kill(r->exec, loop_now(r->loop), m->run, m->outcome, m->force);
}

static int begin_pause(struct runner *r, uint32_t run)
{
    int err;
    if (r->users && runners_pause(r->users, loop_now(r->loop), run, &err))
        return err;
    if (!r->apps || !apps_has(r->apps, run))
        return exec_pause(r->exec, loop_now(r->loop), run);
    if (procs_memory_available() < r->config.pause_free_mem) /* the spawner looks for runs that it has */
        return HAWK_EBUSY;
    return apps_pause(r->apps, loop_now(r->loop), run);
}

static void pause_run(struct runner *r, uint32_t run)
{
    int err = begin_pause(r, run);
    struct msg paused = {.type = MSG_EXEC_PAUSED, .exec_paused = {.run = run, .err = err}};
    if (err)
        on_event(r, &paused);
}

static void resume_run(struct runner *r, uint32_t run)
{
    if (r->apps && apps_resume(r->apps, loop_now(r->loop), run))
        return;
    if (!r->users || !runners_resume(r->users, loop_now(r->loop), run))
        exec_resume(r->exec, loop_now(r->loop), run);
}

static void forget_run(struct runner *r, uint32_t run)
{
    if (!r->users || !runners_forget(r->users, run))
        exec_forget(r->exec, run);
}

static void set_lease(struct runner *r, int64_t until_us)
{
    exec_lease(r->exec, until_us);
    if (r->users)
        runners_lease(r->users, until_us);
}

/* Whether tasks could start here again. */
static void check_start(struct runner *r, const struct blob *place)
{
    struct msg checked = {.type = MSG_EXEC_CHECKED};
    char why[EXEC_WHY_MAX];

    if (!r->signatures || signatures_work(r->signatures, why)) {
        exec_check(r->exec, place);
        return;
    }
    checked.exec_checked.why = blob_str(why);
    on_event(r, &checked);
    msg_drop(&checked);
}

void runner_set_apps(struct runner *r, struct apps *a) { r->apps = a; }

void runner_set_signatures(struct runner *r, struct signatures *s) { r->signatures = s; }

void runner_effect(struct runner *r, const struct msg *m, const char *worker)
{
    if (m->type == MSG_EXEC_START)
        start_run(r, &m->exec_start, worker);
    else if (m->type == MSG_EXEC_PROOF)
        keep_proof(r, &m->exec_proof);
    else if (m->type == MSG_EXEC_KILL)
        end_run(r, &m->exec_kill);
    else if (m->type == MSG_EXEC_PAUSE)
        pause_run(r, m->exec_pause.run);
    else if (m->type == MSG_EXEC_RESUME)
        resume_run(r, m->exec_resume.run);
    else if (m->type == MSG_EXEC_FORGET)
        forget_run(r, m->exec_forget.run);
    else if (m->type == MSG_EXEC_LEASE)
        set_lease(r, m->exec_lease.until_us);
    else if (m->type == MSG_EXEC_CHECK)
        check_start(r, m->exec_check.place);
}

bool runner_task_user(const struct runner *r, job_id_t job, uint32_t task, char *user)
{
    const struct output *o = output_find(r, job, task);

    *user = '\0';
    if (!o || !o->running)
        return false;
    if (o->user)
        snprintf(user, LIMIT_NAME_BYTES + 1, "%s", o->user);
    else
        exec_output_user(&r->config, job, user);
    return true;
}

uint64_t runner_reside(const struct runner *r, job_id_t job, uint32_t task)
{
    const struct output *o = output_find(r, job, task);

    if (!o || !o->running)
        return 0;
    if (r->users)
        return o->pid ? runners_reside(r->users, o->run, o->pid) : 0;
    return (uint64_t)exec_reside(r->exec, o->run);
}

void runner_evict(const struct runner *r, uint64_t resident)
{
    if (r->users)
        runners_evict(r->users, resident);
    else
        exec_evict(r->exec, (pid_t)resident);
}

uint32_t runner_running(const struct runner *r)
{
    return exec_running(r->exec) + (r->users ? runners_running(r->users) : 0);
}

bool runner_broken(const struct runner *r) { return r->broken; }

struct runner *runner_new(struct loop *l, struct exec *e, struct runners *users, const struct exec_config *c,
                          void (*feed)(void *arg, const struct msg *m), void *arg)
{
    struct runner *r = xcalloc(1, sizeof *r);
    *r = (struct runner){.loop = l, .exec = e, .users = users, .config = *c, .feed = feed, .arg = arg};
    r->config.worker = xstrdup(c->worker);
    r->config.output_dir = xstrdup(c->output_dir);
    r->config.serves = c->serves ? xstrdup(c->serves) : NULL;
    list_init(&r->ended);
    r->fd = loop_fd_add(l, exec_fd(e), LOOP_READ, on_fd, r);
    if (users)
        r->users_fd = loop_fd_add(l, runners_fd(users), LOOP_READ, on_users_fd, r);
    r->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC); /* loop_now's clock */
    CHECK(r->timer_fd >= 0);
    r->timer_us = TIME_NEVER;
    r->timer = loop_fd_add(l, r->timer_fd, LOOP_READ, on_timer, r);
    loop_hook_add(l, &r->flush, LOOP_FLUSH, on_flush, r);
    return r;
}

void runner_free(struct runner *r, bool leave)
{
    if (!r)
        return;
    loop_fd_remove(r->fd);
    loop_fd_remove(r->users_fd);
    loop_hook_remove(&r->flush);
    loop_fd_remove(r->timer);
    close(r->timer_fd);
    blob_drop(r->proof);
    if (leave) {
        runners_leave(r->users);
        exec_leave(r->exec);
    } else {
        runners_stop(r->users);
        exec_stop(r->exec);
    }
    struct output *o, *tmp;
    HASH_ITER(hh, r->outputs, o, tmp)
        output_drop(r, o);
    free((char *)r->config.worker);
    free((char *)r->config.output_dir);
    free((char *)r->config.serves);
    free(r);
}
