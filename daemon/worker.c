/* `hawk worker`: runs tasks on this machine, steals when idle. */
#include "worker/worker.h"

#include "api/api.h"
#include "api/attach.h"
#include "base/clock.h"
#include "base/entropy.h"
#include "base/io.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/cores.h"
#include "daemon/denial.h"
#include "daemon/enroll.h"
#include "daemon/metrics_roles.h"
#include "daemon/node.h"
#include "daemon/process.h"
#include "daemon/retention.h"
#include "daemon/run_as.h"
#include "daemon/runner.h"
#include "net/addr.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define COMPLAIN_EVERY_US (60 * US_PER_S)

struct worker_daemon {
    struct process process;
    struct worker role;
    struct node *node;
    struct exec *exec;     /* the runner owns them, once there is one */
    struct runners *users; /* NULL: commands do not run as their users */
    struct runner *runner;
    struct attach *attach;
    struct api *api;
    struct retention_thread *retention;
    struct renewal *renewal;
    struct loop_timer life;  /* worker.idle_exit and end_time */
    int64_t busy_us;         /* when it was last seen with work */
    int64_t central_us;      /* when central was last seen */
    int64_t last_us, end_us; /* when to take no more work, and when to end tasks; TIME_NEVER */
    struct denial *denial;
    struct run_as_mode run_as;
    struct signatures *signatures;        /* NULL: they are not required */
    char users_executors[PROCESS_SOCKET]; /* where tasks that run as their users attach; "": nowhere */
    char executors
        [PROCESS_SOCKET]; /* where they attach, "unix:PATH"; "": only where others reach this worker */
    bool role_made, ready;
    bool out;               /* of service, as was logged last */
    uint64_t starts_failed; /* as was logged last, at complained_us */
    int64_t complained_us;  /* 0: never */
    bool leave;             /* the next agent is to take over what runs */
};

static void worker_daemon_effect(void *arg, const struct msg *m)
{
    struct worker_daemon *d = arg;
    if (m->type == MSG_EXEC_START || m->type == MSG_EXEC_PROOF || m->type == MSG_EXEC_KILL ||
        m->type == MSG_EXEC_FORGET || m->type == MSG_EXEC_LEASE || m->type == MSG_EXEC_CHECK ||
        m->type == MSG_EXEC_PAUSE || m->type == MSG_EXEC_RESUME)
        runner_effect(d->runner, m, NULL);
    else if (m->type == MSG_STOPPED)
        process_exit(&d->process, m->stopped.asked ? d->process.exit_code : PROCESS_FAILED);
    else
        api_effect(d->api, m);
}

static void worker_daemon_feed(void *arg, const struct msg *m)
{
    struct worker_daemon *d = arg;
    node_feed(d->node, m);
    if (d->api)
        api_effect(d->api, m);
}

static uint64_t worker_daemon_unacked(void *arg)
{
    const struct worker_daemon *d = arg;
    return worker_unacked_bytes(&d->role);
}

static uint64_t owner_unacked(void *arg, uint32_t run)
{
    const struct worker_daemon *d = arg;
    return worker_owner_unacked_bytes(&d->role, run);
}

static void fill_metrics(void *arg, FILE *page)
{
    const struct worker_daemon *d = arg;
    uint64_t counters[COUNTER_COUNT];
    for (int i = 0; i < COUNTER_COUNT; i++)
        counters[i] = worker_counter(&d->role, (enum counter)i);
    metrics_of_workers(page, &d->role, 1, loop_now(d->process.loop));
    metrics_of_counters(page, counters);
}

static void api_feed(void *arg, enum role to, const struct msg *m) { worker_daemon_feed(arg, m); }

static void worker_daemon_stop(void *arg, bool now)
{
    const struct worker_daemon *d = arg;
    if (d->leave) /* `systemctl restart` soon after SIGUSR2: they are the next agent's */
        return;
    /* Running tasks are ended and run again elsewhere: a long one may go on for hours. */
    worker_daemon_feed(arg, &(struct msg){.type = MSG_STOP, .stop.now = true});
}

/* For an upgrade: an agent that is started within the grace takes the tasks over. */
static void on_upgrade(void *arg, int signo)
{
    struct worker_daemon *d = arg;
    char grace[32];
    log_info("%s: leaving %u tasks to the agent that is started next, within %s", strsignal(signo),
             runner_running(d->runner),
             duration_format(grace, sizeof grace, d->process.config.worker.agent_grace));
    d->leave = true;
    process_exit(&d->process, HAWK_EXIT_OK);
}

/* ---- worker.idle_exit, end_time and join_dir ---- */

#define LIFE_LOOK_US (500 * US_PER_MS)
/* A worker that joined by a directory is left by its cluster after central's lease; after this time, if it never heard
 * of one. Otherwise it would hold its machine until somebody stops it. */
#define CENTRAL_AWAY_US (60 * US_PER_S)
#define LAST_WORK_US (60 * US_PER_S) /* so long before its end a worker takes no work */

static void look_at_life(void *arg)
{
    struct worker_daemon *d = arg;
    int64_t now_us = loop_now(d->process.loop), idle_us = d->process.config.worker.idle_exit;
    int64_t away_us = d->role.lease_us > 0 ? d->role.lease_us : CENTRAL_AWAY_US;
    const char *join_dir = d->process.config.worker.join_dir;
    char text[32];
    if (!worker_quiet(&d->role))
        d->busy_us = now_us;
    if (d->role.central_stream)
        d->central_us = now_us;
    if (now_us >= d->end_us && d->process.signals < 2) {
        log_info("worker.end_time has come: ending the tasks that still run");
        d->process.signals = 2;
        worker_daemon_stop(d, true);
    } else if (!d->process.signals && now_us >= d->last_us) {
        log_info("worker.end_time comes: no more work is taken");
        d->process.signals = 1;
        worker_daemon_feed(d, &(struct msg){.type = MSG_STOP});
    } else if (!d->process.signals && idle_us && now_us - d->busy_us >= idle_us) {
        log_info("nothing to do for %s (worker.idle_exit): stopping",
                 duration_format(text, sizeof text, idle_us));
        d->process.signals = 1;
        worker_daemon_feed(d, &(struct msg){.type = MSG_STOP});
    } else if (!d->process.signals && *join_dir && now_us - d->central_us >= away_us) {
        log_error("central has been away for %s: the cluster of %s is gone, stopping",
                  duration_format(text, sizeof text, away_us), join_dir);
        d->process.signals = 1;
        d->process.exit_code = PROCESS_FAILED;
        worker_daemon_stop(d, true);
    }
    loop_timer_set(d->process.loop, &d->life, now_us + LIFE_LOOK_US);
}

static void find_end(struct worker_daemon *d)
{
    const struct config *c = &d->process.config;
    int64_t left_us, before_us, now_us = loop_now(d->process.loop);
    d->last_us = d->end_us = TIME_NEVER;
    if (config_end_time(c, clock_us(CLOCK_REALTIME), &left_us) || left_us == TIME_NEVER)
        return;
    before_us = left_us / 10 < LAST_WORK_US ? left_us / 10 : LAST_WORK_US;
    d->end_us = now_us + left_us - c->worker.kill_grace - US_PER_S;
    d->last_us = now_us + left_us - before_us;
    if (d->last_us > d->end_us)
        d->last_us = d->end_us;
}

static void begin_life(struct worker_daemon *d)
{
    const struct config *c = &d->process.config;
    d->busy_us = d->central_us = loop_now(d->process.loop);
    d->retention = retention_start(&(struct retention){.dir = c->worker.output_dir,
                                                       .keep_us = c->worker.output_keep,
                                                       .max_bytes = c->worker.output_max,
                                                       .user_max_bytes = c->worker.user_output_max});
    loop_timer_init(&d->life, look_at_life, d);
    /* In a turn of the loop, not here: an end that has come already must find a loop to stop. */
    if (c->worker.idle_exit || d->end_us != TIME_NEVER || *c->worker.join_dir)
        loop_timer_set(d->process.loop, &d->life, d->busy_us);
}

static int task_output(void *arg, job_id_t job, uint32_t task, uint32_t attempt, bool err_stream, char *path,
                       char *user, enum run_state *run)
{
    const struct worker_daemon *d = arg;
    return runner_output(d->runner, job, task, attempt, err_stream, path, user, run);
}

/* An operator says whether to wait. */
static void stop_asked(void *arg, bool now)
{
    worker_daemon_feed(arg, &(struct msg){.type = MSG_STOP, .stop.now = now});
}

/* Rule 9 of the design: tasks that this agent leaves behind must be dead before another worker runs them. */
static void check_lease(const struct worker_daemon *d)
{
    char lease[32], grace[32];
    const struct config *c = &d->process.config;
    if (c->worker.agent_grace + c->worker.kill_grace < d->role.lease_us)
        return;
    log_warn(
        "should this process die, its long tasks may run twice: worker.agent_grace (%s) and kill_grace must "
        "together be below central.long_lease (%s)",
        duration_format(grace, sizeof grace, c->worker.agent_grace),
        duration_format(lease, sizeof lease, d->role.lease_us));
}

/* It goes on failing all the time, so once in a while is enough. */
static void log_starts(struct worker_daemon *d)
{
    const struct blob *why;
    uint64_t n = worker_starts_failed(&d->role, &why);
    int64_t now_us = loop_now(d->process.loop);
    if (n == d->starts_failed || (d->complained_us && now_us - d->complained_us < COMPLAIN_EVERY_US))
        return;
    log_warn("starts that failed here: %llu; the last one: %s. Tasks go to other workers, and fail when "
             "three of them, or all, cannot start them",
             (unsigned long long)(n - d->starts_failed), why ? why->data : "for no reason that is known");
    d->starts_failed = n;
    d->complained_us = now_us;
}

static void log_service(struct worker_daemon *d)
{
    const struct blob *why;
    bool out = worker_out_of_service(&d->role, &why);
    if (out == d->out)
        return;
    d->out = out;
    if (out)
        log_warn("out of service: tasks of %u jobs could not be started here, and were elsewhere; the last "
                 "one: %s",
                 WORKER_BLAMED_JOBS, why ? why->data : "for no reason that is known");
    else
        log_info("in service again");
}

static void after_turn(void *arg)
{
    struct worker_daemon *d = arg;
    struct worker_counts counts;
    if (runner_broken(d->runner) && !d->process.signals) {
        d->process.signals = 1;
        d->process.exit_code = PROCESS_FAILED;
        worker_daemon_stop(d, true);
    }
    log_starts(d);
    log_service(d);
    if (d->ready)
        return;
    worker_counts(&d->role, &counts);
    if (!counts.joined)
        return;
    d->ready = true;
    process_ready(&d->process);
    check_lease(d);
    log_info("worker %s is ready at %s as node %u with %u slot%s", d->process.name,
             server_addr(d->process.server, 0), worker_node(&d->role).v, counts.slots,
             counts.slots == 1 ? "" : "s");
    log_info("worker.freezer is %s: %s", exec_freezer_name(exec_freezer_in_force(d->exec)),
             exec_freezer_text(exec_freezer_in_force(d->exec)));
    log_info("worker.run_as is %s: %s", run_as_name(d->run_as.mode), run_as_text(d->run_as.mode));
    log_info("executors attach at %s", *d->executors ? d->executors : server_addr(d->process.server, 0));
    if (d->run_as.mode == RUN_AS_USER && !*d->users_executors)
        log_info("tasks find no socket where they could attach as executors, since users reach none: with "
                 "cluster.local_users, worker.listen or worker.executor_socket names a unix socket where "
                 "they may enter");
}

/* Raises *places so far that a task which was taken over finds the place it had. */
static void need_place(void *arg, const struct msg *m, const char *const paths[2], const char *user)
{
    uint32_t *places = arg;
    if (m->type != MSG_EXEC_HELD || m->exec_held.outcome != OUTCOME_NONE)
        return;
    uint32_t needed = worker_slot_of(m->exec_held.run) + 1;
    if (*places < needed)
        *places = needed;
}

static uint32_t paused_max_for(const struct config *c, uint32_t slots)
{
    uint32_t max = worker_paused_max(slots);
    return c->worker.paused_max && c->worker.paused_max < max ? c->worker.paused_max : max;
}

struct worker_pausing pausing_configured(const struct config *c)
{
    return (struct worker_pausing){.after_us = c->worker.pause_after,
                                   .longest_us = c->worker.pause_longest,
                                   .share_milli = c->worker.pause_share,
                                   .paused_max = c->worker.paused_max};
}

/* A task that runs in a paused task's slot has a place behind the slots. So a few places behind them are normal. */
static uint32_t slots_for(const struct worker_daemon *d)
{
    uint32_t told = d->process.config.worker.slots, slots, places = 0;
    if (!told)
        told = cores_usable();
    exec_held(d->exec, need_place, &places);
    if (d->users)
        runners_held(d->users, need_place, &places);
    slots = places > told + paused_max_for(&d->process.config, told) ? places : told;
    if (slots > told)
        log_warn(
            "a task taken over is in slot %u: going on with %u slots, not %u, until this worker is started "
            "while nothing runs there",
            slots, slots, told);
    return slots;
}

static void make_role(struct worker_daemon *d, const char *addr, const char *serves)
{
    const struct config *c = &d->process.config;
    struct worker_config wc;
    worker_config_init(&wc);
    wc.name = blob_str(c->worker.name);
    wc.addr = blob_str(addr);
    wc.slots = slots_for(d);
    wc.queue_limit = c->worker.queue_limit;
    wc.queue_per_slot = strcmp(c->worker.queues, "per-slot") == 0;
    wc.incarnation =
        exec_incarnation(d->exec); /* so that central knows that we have the last agent's tasks */
    wc.successors = true;
    wc.serves = serves ? blob_str(serves) : NULL;
    wc.park_min_us = c->worker.park_min;
    wc.park_max_us = c->worker.park_max;
    wc.ends_us = d->end_us;
    wc.orphan_us = c->worker.orphan;
    wc.pause = pausing_configured(c);
    wc.pause.paused_max = paused_max_for(c, wc.slots);
    wc.freezer = (uint8_t)(1 + exec_freezer_in_force(d->exec));
    if (exec_freezer_in_force(d->exec) == EXEC_FREEZER_OFF)
        wc.pause.share_milli = 0; /* so that it gives no short task back for want of a freezer */
    worker_init(&d->role, &wc, entropy());
    d->role_made = true;
    blob_drop(wc.name);
    blob_drop(wc.addr);
    blob_drop(wc.serves);
}

/* A directory for each worker, so that several may have the same setting. */
static int make_state_dir(const struct config *c, char dir[PATH_MAX])
{
    char why[PATH_MAX + 200];
    int n = snprintf(dir, PATH_MAX, "%s/%s", c->worker.state_dir, c->worker.name);
    if (n < 0 || n >= PATH_MAX) {
        log_error("worker.state_dir: %s is too long", c->worker.state_dir);
        return HAWK_ETOO_LARGE;
    }
    if (dir_make(dir, 0700, why, sizeof why)) {
        log_error("worker.state_dir: %s", why);
        return HAWK_EIO;
    }
    return 0;
}

static bool task_user(void *arg, job_id_t job, uint32_t task, char *user)
{
    const struct worker_daemon *d = arg;
    return runner_task_user(d->runner, job, task, user);
}

static uint64_t reside(void *arg, job_id_t job, uint32_t task)
{
    const struct worker_daemon *d = arg;
    return runner_reside(d->runner, job, task);
}

static void evict(void *arg, uint64_t resident)
{
    const struct worker_daemon *d = arg;
    runner_evict(d->runner, resident);
}

static void begin_attach(struct worker_daemon *d)
{
    struct attach_config ac = {.worker = d->process.name,
                               .kill_grace_us = d->process.config.worker.kill_grace,
                               .event = worker_daemon_feed,
                               .unacked = worker_daemon_unacked,
                               .owner_unacked = owner_unacked,
                               .slots = d->role.config.slots,
                               .task_user = task_user,
                               .reside = reside,
                               .evict = evict,
                               .users = process_knows_users(&d->process),
                               .shared = d->process.config.cluster.shared_apps,
                               .arg = d};
    d->attach = attach_new(d->process.loop, d->process.server, &ac);
    runner_set_apps(d->runner, attach_apps(d->attach));
}

static void take_over(struct worker_daemon *d)
{
    struct worker_counts n;
    runner_take_over(d->runner);
    worker_counts(&d->role, &n);
    if (n.running || n.unacked)
        log_info("%u running tasks of an earlier agent taken over, and %u whose end nobody acknowledged",
                 n.running, n.unacked);
}

static const char *central_addr(void *arg)
{
    const struct worker_daemon *d = arg;
    return node_central_addr(d->node);
}

static void take_denied(void *arg, const char *list)
{
    struct worker_daemon *d = arg;
    denial_take(d->denial, list);
}

/* From now on certificates are looked after. */
static void begin_links(struct worker_daemon *d, const char *state_dir)
{
    d->renewal = renewal_new(&d->process, central_addr, d);
    d->denial = denial_new(&d->process, state_dir, NULL, NULL, NULL);
    denial_set_links(d->denial, node_links(d->node));
    node_start(d->node);
}

/* Frees what was started, so that the next agent, with a right configuration, still finds the tasks. */
static void give_up(struct worker_daemon *d, uint64_t incarnation)
{
    if (exec_incarnation(d->exec) != incarnation) {
        runners_leave(d->users);
        exec_leave(d->exec);
    } else {
        runners_stop(d->users);
        exec_stop(d->exec);
    }
}

/* The spawner, and the users' runners that an earlier agent left. */
static int start_exec(struct worker_daemon *d, const struct exec_config *ec)
{
    const struct config *c = &d->process.config;
    int err = exec_start(&d->exec, ec);
    if (err == HAWK_EEXISTS)
        log_error("worker %s runs here already: stop it, or set another worker.name or worker.state_dir",
                  c->worker.name);
    else if (err)
        log_error("the spawner cannot be started: %s (worker.output_dir is %s, worker.state_dir %s)",
                  hawk_strerror(err), c->worker.output_dir, c->worker.state_dir);
    if (err || !ec->as_users)
        return err;
    struct exec_config of_users = *ec;
    of_users.incarnation = exec_incarnation(d->exec);
    of_users.freezer = exec_freezer_in_force(d->exec);
    err = runners_start(&d->users, &of_users, d->run_as.helper, c->worker.run_as_idle,
                        clock_us(CLOCK_BOOTTIME), of_users.incarnation != ec->incarnation);
    if (err)
        give_up(d, ec->incarnation);
    return err;
}

/* Tasks that run as their users cannot enter state_dir. */
static void find_users_socket(struct worker_daemon *d)
{
    const struct config *c = &d->process.config;
    const char *told = c->worker.executor_socket, *rest = c->worker.listen;
    char addr[ADDR_TEXT];

    if (!c->cluster.local_users || strcmp(told, "none") == 0)
        return;
    if (*told)
        snprintf(d->users_executors, sizeof d->users_executors, "%s", d->executors);
    while (*rest && !*d->users_executors) {
        rest = addr_first(rest, addr);
        if (addr_is_unix(addr) && strlen(addr) < sizeof d->users_executors)
            snprintf(d->users_executors, sizeof d->users_executors, "%s", addr);
    }
}

/* What the configuration says of the executor. */
static void configure_exec(struct worker_daemon *d, const char *state_dir, struct exec_config *ec)
{
    const struct config *c = &d->process.config;
    const char *executors;

    exec_config_init(ec, c->worker.name, c->worker.output_dir);
    ec->drops_empty = true;
    ec->group_reads = *c->worker.output_group;
    ec->output_free_min = c->worker.output_free_min;
    ec->kill_grace_us = c->worker.kill_grace;
    ec->orphan_grace_us = c->worker.agent_grace;
    ec->freezer = exec_freezer_of(c->worker.freezer);
    ec->pause_free_mem = c->worker.pause_free_mem;
    ec->state_dir = state_dir;
    ec->serves = run_as_serves(&d->run_as);
    ec->as_users = d->run_as.mode == RUN_AS_USER;
    ec->incarnation = entropy();
    find_users_socket(d);
    executors = ec->as_users ? d->users_executors : d->executors;
    ec->executors = *executors ? executors : NULL;
}

/* The spawner is forked before gRPC starts its threads. */
static int worker_daemon_start(struct worker_daemon *d)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    struct exec_config ec;
    const struct tls *roots;
    char own[ADDR_TEXT], state_dir[PATH_MAX], listen[2 * PATH_MAX];
    int err = process_output_dir(p, c->worker.output_dir, c->worker.output_group);
    if (!err)
        err = make_state_dir(c, state_dir);
    if (!err)
        err = process_socket("worker.executor_socket", c->worker.executor_socket, state_dir, "executors.sock",
                             "executors can only attach to the worker's address", d->executors);
    if (!err)
        err = run_as_choose(p, true, &d->run_as);
    if (!err)
        err = process_signatures(p, &roots);
    if (!err && roots)
        err = signatures_open(&d->signatures, roots, state_dir, d->run_as.mode == RUN_AS_ANY);
    if (err)
        return err;
    configure_exec(d, state_dir, &ec);
    err = start_exec(d, &ec);
    if (err)
        return err;
    snprintf(listen, sizeof listen, "%s,%s",
             process_listen(c->worker.listen, "127.0.0.1:0", c->worker.advertise, c->worker.central, own),
             d->executors);
    err = process_open(p, listen, 0);
    const char *addr = err ? NULL : process_advertised(p, c->worker.advertise, c->worker.central);
    if (!addr) {
        give_up(d, ec.incarnation);
        return HAWK_EINVALID;
    }
    d->runner = runner_new(p->loop, d->exec, d->users, &ec, worker_daemon_feed, d);
    runner_set_signatures(d->runner, d->signatures);
    p->executors = *d->executors ? d->executors : server_addr(p->server, 0);
    find_end(d);
    make_role(d, addr, ec.serves);
    begin_attach(d);
    exec_freezer_note(state_dir, exec_freezer_in_force(d->exec));
    run_as_note(state_dir, d->run_as.mode);
    struct node_config nc = {.role = ROLE_WORKER,
                             .name = p->name,
                             .token = p->node_token,
                             .tls = p->tls,
                             .central = c->worker.central,
                             .seed = entropy(),
                             .version = p->version};
    struct node_fns fns = {.role = &worker_functions, .effect = worker_daemon_effect, .denied = take_denied};
    d->node = node_new(p->loop, &nc, &fns, &d->role, d);
    struct api_roles roles = {.worker = &d->role,
                              .output = task_output,
                              .links = node_links(d->node),
                              .limits = process_limits(&p->config),
                              .signatures = roots,
                              .name = p->name,
                              .addr = addr,
                              .stop = stop_asked};
    d->api = api_new(p->loop, p->server, &roles, api_feed, d);
    server_set_links(p->server, node_links(d->node));
    server_start(p->server);
    take_over(d);
    begin_life(d);
    begin_links(d, state_dir);
    return process_metrics(p, c->worker.metrics_listen, fill_metrics, d);
}

int worker_main(int argc, char **argv)
{
    struct worker_daemon d = {0};
    if (!process_init(&d.process, "worker", argc, argv))
        return process_free(&d.process);
    d.process.name = d.process.config.worker.name;
    if (worker_daemon_start(&d)) {
        d.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&d.process, worker_daemon_stop, &d);
        if (loop_signal(d.process.loop, SIGUSR2, on_upgrade, &d))
            log_warn("SIGUSR2 cannot be handled");
        process_run(&d.process, after_turn, &d);
    }
    process_metrics_stop(&d.process);
    retention_stop(d.retention);
    server_stop(d.process.server);
    denial_free(d.denial);
    renewal_free(d.renewal);
    api_free_all(d.api);
    d.api = NULL;
    if (d.runner)
        runner_set_apps(d.runner, NULL);
    attach_free(d.attach);
    runner_free(d.runner, d.leave);
    signatures_free(d.signatures);
    node_free(d.node);
    if (d.role_made)
        worker_free(&d.role);
    return process_free(&d.process);
}
