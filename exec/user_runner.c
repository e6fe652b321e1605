/* One user's runner, as its agent sees it: see user_runner.h. */
#include "exec/user_runner_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "exec/output.h"
#include "exec/run_files.h"
#include "exec/spawner_socket.h"
#include "runas/run_as.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_BYTES_MAX 65536u   /* of a record that a runner sends */
#define READS_PER_TURN 16         /* a runner that sends without end holds up nobody else */
#define START_US (30 * US_PER_S)  /* until it must have answered the hello */
#define ENDING_US (10 * US_PER_S) /* until its keeper must have ended it, or, ALONE, it must have ended */
#define FORGOTTEN_MAX 65536u      /* ends that it may still have, though an agent has forgotten them */
#define TEXT_MAX 4096u            /* bytes of a text for people */

struct user_command *user_runner_command(const struct user_runner *u, uint32_t run)
{
    struct user_command *c;

    HASH_FIND(hh, u->commands, &run, sizeof run, c);
    return c;
}

static struct user_command *add_command(struct user_runner *u, const struct held_run *r)
{
    struct user_command *c = xcalloc(1, sizeof *c);

    c->run = r->run;
    c->held = *r;
    c->due_us = c->pause_due_us = TIME_NEVER;
    list_init(&c->freezing);
    HASH_ADD(hh, u->commands, run, sizeof c->run, c);
    return c;
}

static void forget_command(struct user_runner *u, struct user_command *c)
{
    if (c->spec)
        sent_release(&u->sent, u->fd >= 0 ? &u->out : NULL, c->spec);
    list_remove(&c->freezing);
    HASH_DEL(u->commands, c); /* NOLINT(clang-analyzer-core.NullDereference): inside uthash */
    free(c);
}

/* ---- Ending ---- */

static void close_socket(struct user_runner *u)
{
    if (u->fd >= 0)
        close(u->fd);
    u->fd = -1;
    bytes_free(&u->in);
    bytes_free(&u->out);
}

void user_runner_end(struct user_runner *u, int64_t now_us)
{
    if (u->state == ENDING)
        return;
    if (u->state != ALONE) {
        u->state = ENDING;
        user_runner_thaw_all(u);
        keeper_end(&u->keeper);
        u->answer_us = now_us + ENDING_US;
    }
    close_socket(u);
    held_runs_close(&u->held); /* from here on the file is another runner's of this user */
}

void user_runner_distrust(struct user_runner *u, int64_t now_us, const char *what)
{
    log_warn("the runner of user %s %s: ending all that it started", u->user, what);
    user_runner_end(u, now_us);
}

void user_runner_stop(struct user_runner *u, int64_t now_us)
{
    if (u->state >= LEAVING)
        return;
    u->state = LEAVING;
    user_runner_thaw_all(u);
    held_runs_close(&u->held);
    record_end(&u->out, record_begin(&u->out, RECORD_STOP));
    u->answer_us = now_us + u->config->kill_grace_us + RUNNER_LATE_US;
    user_runner_flush(u, now_us);
}

/* A keeper ends after all that its runner started, unless it is killed: then the runner alone can end its tasks. */
void user_runner_unkept(struct user_runner *u, int64_t now_us)
{
    u->state = ALONE;
    if (u->fd < 0)
        return;
    log_warn("the keeper of user %s has ended, and the runner has not: telling it to end all that it started",
             u->user);
    for (const struct user_command *c = u->commands; c; c = c->hh.next)
        user_runner_kill(u, now_us, c->run, OUTCOME_LOST, true);
    record_end(&u->out, record_begin(&u->out, RECORD_STOP));
    held_runs_close(&u->held);
    u->answer_us = now_us + ENDING_US;
    user_runner_flush(u, now_us);
}

bool user_runner_is_gone(const struct user_runner *u) { return u->state == ALONE && u->fd < 0; }

void user_runner_free(struct user_runner *u)
{
    struct user_command *c, *next;

    HASH_ITER(hh, u->commands, c, next) {
        c->spec = NULL;
        forget_command(u, c);
    }
    close_socket(u);
    sent_free(&u->sent);
    takeover_forget(&u->taken);
    held_runs_close(&u->held);
    gates_free(&u->gates);
    keeper_forget(&u->keeper);
    if (u->why_fd >= 0)
        close(u->why_fd);
    free(u->user);
    free(u->dir);
    free(u);
}

/* What kept it from starting, as hawk-run-as or the system says it. */
static void read_why(const struct user_runner *u, char *why, size_t size)
{
    ssize_t n = read(u->why_fd, why, size - 1);

    why[n > 0 ? n : 0] = '\0';
    why[strcspn(why, "\n")] = '\0';
    why[utf8_tame(why, strlen(why))] = '\0';
    if (!*why)
        snprintf(why, size, "it ended before it could be used");
}

/* Whatever a user's runner says of this machine, all his jobs count as one against it: he cannot put it out of
 * service for others. */
static void blame_user(const struct user_runner *u, struct msg_exec_exited *x)
{
    if (x->outcome != OUTCOME_LOST || x->code != HAWK_ECANNOT_START)
        return;
    blob_drop(x->place);
    x->place = blob_str(u->dir);
}

static void report_end(const struct user_runner *u, const struct user_command *c, const char *why,
                       exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_EXITED};
    struct msg_exec_exited *x = &m.exec_exited;
    bool refused = strncmp(why, RUN_AS_REFUSES, strlen(RUN_AS_REFUSES)) == 0;
    char text[EXEC_WHY_MAX];

    snprintf(text, sizeof text, "the runner of user %s %s%.300s", u->user,
             *why ? "cannot be started: " : "has ended", why);
    x->run = c->run;
    x->outcome = OUTCOME_LOST;
    if (c->reason != OUTCOME_NONE)
        x->outcome = (uint8_t)c->reason;
    else if (refused)
        x->outcome = OUTCOME_NOT_STARTED;
    x->code = x->outcome == OUTCOME_NOT_STARTED    ? CODE_CANNOT_START
              : x->outcome == OUTCOME_LOST && *why ? HAWK_ECANNOT_START
                                                   : 0;
    x->result = blob_str(text);
    blame_user(u, x);
    fn(arg, &m);
    msg_drop(&m);
}

void user_runner_gone(struct user_runner *u, exec_event_fn fn, void *arg)
{
    char why[EXEC_WHY_MAX] = "";
    struct user_command *c, *next;

    if (u->why_fd >= 0)
        read_why(u, why, sizeof why);
    if (u->cleared && *why) { /* of the runner that was to clear */
        log_warn("what the runner of user %s left could not be ended: %s", u->user, why);
        *why = '\0';
    }
    if (*why)
        log_warn("the runner of user %s cannot be started: %s", u->user, why);
    else if (u->commands)
        log_warn("the runner of user %s has ended: what it ran is lost", u->user);
    close_socket(u);
    u->state = ENDING;
    limits_leftovers(u->keeper.pid);
    c = u->commands;
    HASH_CLEAR(hh, u->commands);
    for (; c; c = next) {
        next = c->hh.next;
        report_end(u, c, why, fn, arg);
        list_remove(&c->freezing);
        free(c);
    }
}

/* ---- Starting ---- */

static struct user_runner *make(const struct exec_config *c, const char *user)
{
    struct user_runner *u = xcalloc(1, sizeof *u);
    char dir[PATH_MAX];

    snprintf(dir, sizeof dir, "%s/%s", c->state_dir, user);
    u->user = xstrdup(user);
    u->dir = xstrdup(dir);
    u->config = c;
    u->fd = u->why_fd = u->held.fd = u->keeper.fd = u->taken.fd = -1;
    u->taken.lease_us = TIME_NEVER;
    u->taken.of_user = true;
    u->lease_due_us = u->due_us = u->answer_us = TIME_NEVER;
    u->knows = SPAWNER_KNOWS;
    gates_init(&u->gates);
    u->in.record_max = u->taken.in.record_max = RECORD_BYTES_MAX;
    sent_init(&u->sent);
    list_init(&u->freezing);
    u->sent.to_user = true;
    return u;
}

static void own_cgroups(struct user_runner *u)
{
    u->gates.limits.owner = u->keeper.pid;
    u->gates.limits.freezer = u->config->freezer;
}

static int open_held(struct user_runner *u)
{
    int dir_fd = open(u->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = dir_fd < 0 ? HAWK_EIO : held_runs_open(&u->held, dir_fd);

    if (dir_fd >= 0)
        close(dir_fd);
    return err;
}

struct user_runner *user_runner_start(const struct exec_config *c, const char *helper, const char *user,
                                      int64_t now_us, char why[EXEC_WHY_MAX])
{
    struct user_runner *u = make(c, user);

    if ((mkdir(u->dir, 0700) < 0 && errno != EEXIST) || open_held(u)) {
        snprintf(why, EXEC_WHY_MAX, "%.300s: %s", u->dir, strerror(errno));
        user_runner_free(u);
        return NULL;
    }
    held_runs_clear(&u->held);
    if (keeper_start(&u->keeper, helper, user, u->dir, &u->fd, &u->why_fd, why)) {
        user_runner_end(u, now_us);
        if (u->keeper.fd >= 0)
            return u;
        user_runner_free(u);
        return NULL;
    }
    own_cgroups(u);
    takeover_hello(&u->out, c, true);
    u->state = GREETED;
    u->answer_us = now_us + START_US;
    return u;
}

/* ---- What an earlier agent left ---- */

struct user_runner *user_runner_find(const struct exec_config *c, const char *helper, const char *user,
                                     int64_t now_us)
{
    struct user_runner *u = make(c, user);

    if (keeper_find(&u->keeper, u->dir)) {
        if (open_held(u) == 0 && held_runs_count(&u->held) > 0 &&
            user_runner_begin_clearing(u, helper, now_us) == 0)
            return u;
        user_runner_free(u);
        return NULL;
    }
    own_cgroups(u);
    limits_thaw(u->keeper.pid);
    u->fd = open_held(u) ? -1 : spawner_socket_connect(u->dir);
    u->state = GREETED;
    if (u->fd < 0) {
        user_runner_distrust(u, now_us, "cannot be reached");
        return u;
    }
    takeover_hello(&u->out, c, true);
    user_runner_flush(u, now_us);
    return u;
}

static bool is_outcome(uint8_t outcome) { return outcome > OUTCOME_NONE && outcome < OUTCOME_COUNT; }

/* The files that the agent opens, below output_dir. The others are their user's. */
static void set_paths(const struct user_runner *u, struct held *h, const struct held_run *r)
{
    char path[EXEC_PATH_MAX];

    for (int i = 0; i < 2; i++)
        if (r->files & (RUN_STDOUT << i) && exec_output_path(u->config, &h->m.exec_held.id, NULL, NULL,
                                                             OUTPUT_STDOUT + i, path, sizeof path) == 0)
            h->paths[i] = xstrdup(path);
}

/* What the runner says that it has, if this agent's predecessors gave it that. */
static bool take_held(struct user_runner *u, struct held *h, int64_t now_us)
{
    struct msg_exec_held *m = &h->m.exec_held;
    const struct held_run *r = held_runs_claim(&u->held, m->run);
    struct try_id id = r ? held_run_try(r) : (struct try_id){0};
    struct user_command *c;

    if (!r || !try_eq(&id, &m->id) || (m->outcome != OUTCOME_NONE && !is_outcome(m->outcome)))
        return false;
    h->user = xstrdup(u->user);
    set_paths(u, h, r);
    m->owner.v = r->owner;
    m->class = r->flags & RUN_LONG ? CLASS_LONG : CLASS_SHORT;
    m->promotable = (r->flags & RUN_PROMOTABLE) != 0;
    m->stolen = (r->flags & RUN_STOLEN) != 0;
    m->run_us = m->run_us < 0 ? 0 : m->run_us;
    if (m->outcome != OUTCOME_NONE)
        return true;
    c = add_command(u, r);
    c->started = true;
    if (r->time_limit_us > 0 && m->run_us < r->time_limit_us)
        c->due_us = now_us + r->time_limit_us - m->run_us + u->config->kill_grace_us + RUNNER_LATE_US;
    put_due(u, c->due_us);
    return true;
}

/* Reads its answer. 1: complete. 0: it ended, or the time is over. */
static int read_welcome(struct user_runner *u, int64_t deadline_us)
{
    struct pollfd p = {.fd = u->fd, .events = POLLIN};
    int got = 0;

    while (got == 0) {
        int64_t left_us = deadline_us - monotonic_us();

        if (bytes_receive(&u->taken.in, u->fd) < 0)
            return 0;
        got = takeover_records(&u->taken);
        if (got < 0 || u->taken.n > held_runs_count(&u->held) + FORGOTTEN_MAX)
            return 0;
        if (got == 0 && left_us <= 0)
            return 0;
        if (got == 0)
            poll(&p, 1, (int)(left_us / US_PER_MS) + 1);
    }
    return got > 0;
}

void user_runner_greet(struct user_runner *u, int64_t now_us, int64_t deadline_us, bool kept)
{
    uint32_t kept_n = 0;
    bool unknown = false;

    if (u->state == CLEARING) {
        bool done = read_welcome(u, deadline_us);

        u->in = u->taken.in;
        if (done) {
            held_runs_clear(&u->held);
            user_runner_end_clearing(u, now_us);
        }
        return;
    }
    if (u->state != GREETED)
        return;
    if (!kept || !read_welcome(u, deadline_us)) {
        takeover_forget(&u->taken);
        bytes_free(&u->taken.in);
        user_runner_distrust(u, now_us,
                             kept ? "does not answer" : "is of an agent that this one does not follow");
        return;
    }
    bytes_free(&u->in);
    u->in = u->taken.in;
    u->knows = u->taken.knows;
    if (u->knows < KNOWS_GATES)
        u->gates.limits.freezer = EXEC_FREEZER_OFF;
    u->state = UP;
    for (uint32_t i = 0; i < u->taken.n; i++) {
        struct msg_exec_held *m = &u->taken.v[i].m.exec_held;

        if (take_held(u, &u->taken.v[i], now_us)) {
            u->taken.v[kept_n++] = u->taken.v[i];
            continue;
        }
        unknown = unknown || m->outcome == OUTCOME_NONE;
        put_number(&u->out, RECORD_FORGET, m->run);
        msg_drop(&u->taken.v[i].m);
    }
    u->taken.n = kept_n;
    if (unknown)
        user_runner_distrust(u, now_us, "runs what it was not given");
}

void user_runner_held(struct user_runner *u, exec_held_fn fn, void *arg, bool forget)
{
    for (uint32_t i = 0; i < u->taken.n; i++)
        takeover_tell(&u->taken.v[i], fn, arg);
    if (forget)
        takeover_forget(&u->taken);
}

/* ---- Requests ---- */

int user_runner_run(struct user_runner *u, int64_t now_us, const struct msg_exec_start *m,
                    const struct blob *proof, const char *worker, char why[EXEC_WHY_MAX])
{
    struct sent_spec *spec = NULL;
    struct held_run r;
    struct user_command *c;
    uint32_t files;
    int fds[RUN_FILES], err;

    if (u->state >= LEAVING)
        return *why ? HAWK_ECANNOT_START : HAWK_EUNAVAILABLE;
    if (limits_wanted(m->desc) && u->knows < KNOWS_GATES) {
        snprintf(why, EXEC_WHY_MAX,
                 "the runner of user %s here, of an older version, limits no task until it ends", u->user);
        return HAWK_EUNSUPPORTED;
    }
    err = run_files_open(u->config, &u->gates, m, fds, &files, why);
    if (err)
        return err;
    r = held_run_of(m, files);
    if (held_runs_add(&u->held, &r)) {
        snprintf(why, EXEC_WHY_MAX, "%.300s: %s", u->dir, strerror(errno));
        err = HAWK_ECANNOT_START;
    }
    if (!err && (err = sent_run(&u->sent, &u->out, m, worker, files, proof, &spec)))
        held_runs_forget(&u->held, m->run);
    for (int i = 0; i < RUN_FILES; i++)
        if (fds[i] >= 0 && !err)
            bytes_add_fd(&u->out, fds[i]);
    if (err) {
        run_files_close(&u->gates, fds, &r);
        return err;
    }
    c = add_command(u, &r);
    c->spec = spec;
    c->sent_at = u->out.sent + bytes_pending(&u->out);
    if (r.time_limit_us > 0)
        c->due_us = now_us + r.time_limit_us + u->config->kill_grace_us + RUNNER_LATE_US;
    put_due(u, c->due_us);
    return 0;
}

bool user_runner_has(const struct user_runner *u, uint32_t run)
{
    return user_runner_command(u, run) != NULL;
}

void user_runner_kill(struct user_runner *u, int64_t now_us, uint32_t run, enum outcome outcome, bool force)
{
    struct user_command *c = user_runner_command(u, run);
    int64_t due_us = now_us + (force ? 0 : u->config->kill_grace_us) + RUNNER_LATE_US;

    if (!c)
        return;
    user_runner_freeze(u, c, false);
    if (c->reason == OUTCOME_NONE)
        c->reason = outcome;
    if (due_us < c->due_us)
        c->due_us = due_us;
    put_due(u, c->due_us);
    if (u->fd >= 0 && !u->cleared)
        put_kill(&u->out, run, outcome, force);
}

void user_runner_tell(struct user_runner *u, uint32_t type, uint32_t number)
{
    if (u->fd >= 0)
        put_number(&u->out, type, number);
}

void user_runner_reside(struct user_runner *u, uint32_t run)
{
    struct user_command *c = user_runner_command(u, run);

    if (c) {
        user_runner_freeze(u, c, false);
        c->held.files &= (uint16_t) ~(RUN_GATE | RUN_HAS_FREEZER);
    }
    user_runner_tell(u, RECORD_RESIDE, run);
}

bool user_runner_forget(struct user_runner *u, uint32_t run)
{
    if (!held_runs_find(&u->held, run) || user_runner_command(u, run))
        return false;
    held_runs_forget(&u->held, run);
    user_runner_tell(u, RECORD_FORGET, run);
    return true;
}

void user_runner_lease(struct user_runner *u, int64_t until_us)
{
    u->lease_due_us = until_us < TIME_NEVER - LEASE_LATE_US ? until_us + LEASE_LATE_US : TIME_NEVER;
    put_due(u, u->lease_due_us);
    if (u->fd >= 0)
        put_lease(&u->out, until_us);
}

/* What it sent before its end is still to be read: user_runner_on_ready() does that, and then finds the end. */
static void cannot_be_told(struct user_runner *u, int64_t now_us)
{
    bytes_free(&u->out);
    if (u->state >= LEAVING)
        return;
    u->state = LEAVING;
    held_runs_close(&u->held);
    u->answer_us = now_us + RUNNER_LATE_US;
}

void user_runner_flush(struct user_runner *u, int64_t now_us)
{
    if (u->fd >= 0 && bytes_send(&u->out, u->fd) < 0)
        cannot_be_told(u, now_us);
}

/* ---- Reports ---- */

/* The run of a report. NULL: the runner has no such run, or not yet. Whoever guesses numbers and reads nothing would
 * have the agent keep one run after the other, with two descriptors each. */
static struct user_command *command_reported(const struct user_runner *u, uint32_t run)
{
    struct user_command *c = user_runner_command(u, run);

    return c && (u->state >= LEAVING || c->sent_at <= u->out.sent) ? c : NULL;
}

static int on_started(struct user_runner *u, struct record *r, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_STARTED};
    struct user_command *c = command_reported(u, get_u32(r));
    int32_t pid = (int32_t)get_u32(r);

    if (r->bad || !c || c->started || pid <= 0)
        return HAWK_EMALFORMED;
    c->started = true;
    m.exec_started.run = c->run;
    m.exec_started.pid = pid; /* for people */
    fn(arg, &m);
    return 0;
}

static int on_exited(struct user_runner *u, struct record *r, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct msg m = {.type = MSG_EXEC_EXITED};
    struct msg_exec_exited *x = &m.exec_exited;
    struct user_command *c;

    x->run = get_u32(r);
    uint32_t outcome = get_u32(r);
    x->code = (int32_t)get_u32(r);
    x->run_us = (int64_t)get_u64(r);
    x->result = get_blob(r);
    x->place = r->p < r->end ? get_blob(r) : NULL;
    x->used = get_usage(r);
    c = command_reported(u, x->run);
    if (r->bad || !c || outcome > UINT8_MAX || !is_outcome((uint8_t)outcome) || x->run_us < 0) {
        msg_drop(&m);
        return HAWK_EMALFORMED;
    }
    x->outcome = (uint8_t)outcome;
    x->result = utf8_tame_blob(x->result, TEXT_MAX);
    blame_user(u, x);
    run_files_ended(u->config, &u->gates, &c->held);
    user_runner_sweep(u, now_us);
    forget_command(u, c);
    fn(arg, &m);
    msg_drop(&m);
    return 0;
}

/* The first record of a new runner; what it says of itself is of no use. */
static int on_welcome(struct user_runner *u, int64_t now_us)
{
    if (u->why_fd < 0)
        return HAWK_EMALFORMED;
    if (u->state == CLEARING) {
        user_runner_end_clearing(u, now_us);
        return 0;
    }
    if (u->state == GREETED) {
        u->state = UP;
        u->answer_us = TIME_NEVER;
    }
    close(u->why_fd);
    u->why_fd = -1;
    return 0;
}

static int take_records(struct user_runner *u, int64_t now_us, exec_event_fn fn, void *arg)
{
    struct record r;
    int got, err;

    while ((got = record_next(&u->in, &r)) > 0) {
        if (r.type == RECORD_WELCOME || u->why_fd >= 0)
            err = r.type == RECORD_WELCOME ? on_welcome(u, now_us) : HAWK_EMALFORMED;
        else
            err = r.type == RECORD_STARTED  ? on_started(u, &r, fn, arg)
                  : r.type == RECORD_EXITED ? on_exited(u, &r, now_us, fn, arg)
                  : r.type == RECORD_PAUSED ? user_runner_on_paused(u, &r, now_us, fn, arg)
                                            : HAWK_EMALFORMED;
        if (err)
            return err;
    }
    return got;
}

void user_runner_on_ready(struct user_runner *u, int64_t now_us, exec_event_fn fn, void *arg)
{
    int got = 1, err = 0;

    for (int i = 0; i < READS_PER_TURN && got > 0 && err == 0 && u->fd >= 0; i++) {
        got = bytes_receive(&u->in, u->fd);
        err = take_records(u, now_us, fn, arg);
    }
    if (err)
        user_runner_distrust(u, now_us, "says what makes no sense");
    else if (got < 0)
        user_runner_end(u, now_us);
    user_runner_look(u, now_us, fn, arg);
}

void user_runner_on_gate(struct user_runner *u) { gates_on_ready(&u->gates, u->user); }

/* ---- Asking ---- */

const char *user_runner_name(const struct user_runner *u) { return u->user; }
int user_runner_fd(const struct user_runner *u) { return u->fd; }
int user_runner_gates_fd(const struct user_runner *u) { return u->gates.epoll; }
int user_runner_keeper_fd(const struct user_runner *u) { return u->keeper.fd; }
bool user_runner_wants_write(const struct user_runner *u) { return u->fd >= 0 && bytes_pending(&u->out) > 0; }
bool user_runner_idle(const struct user_runner *u) { return !u->commands && held_runs_count(&u->held) == 0; }
bool user_runner_ending(const struct user_runner *u) { return u->state >= LEAVING; }
uint32_t user_runner_running(const struct user_runner *u) { return HASH_COUNT(u->commands); }
