/* `hawk worker`: runs tasks on this machine, steals when idle. */
#include "worker/worker.h"

#include "base/log.h"
#include "daemon/api.h"
#include "daemon/commands.h"
#include "daemon/node.h"
#include "daemon/process.h"
#include "daemon/runner.h"
#include "net/addr.h"

#include <string.h>
#include <unistd.h>

struct worker_daemon {
    struct process process;
    struct worker role;
    struct node *node;
    struct runner *runner;
    struct api *api;
    bool role_made, ready;
};

static void step(void *role, const struct event *e, struct out *out) { worker_step(role, e, out); }
static int64_t next_timeout(const void *role) { return worker_next_timeout(role); }
static void check(const void *role) { worker_check(role); }

static void effect(void *arg, const struct msg *m)
{
    struct worker_daemon *d = arg;
    if (m->type == MSG_EXEC_START || m->type == MSG_EXEC_KILL)
        runner_effect(d->runner, m, NULL);
    else if (m->type == MSG_STOPPED)
        process_exit(&d->process, d->process.signals ? d->process.exit_code : PROCESS_FAILED);
    else
        api_effect(d->api, m);
}

static void feed(void *arg, const struct msg *m)
{
    struct worker_daemon *d = arg;
    node_feed(d->node, m);
}

static void api_feed(void *arg, enum role to, const struct msg *m) { feed(arg, m); }

static void stop(void *arg, bool now)
{
    /* Running tasks are ended and run again elsewhere: a long one may go on for hours. */
    feed(arg, &(struct msg){.type = MSG_STOP, .stop.now = true});
}

/* Rule 9 of the design: what this agent leaves behind must be dead before it is run again elsewhere. */
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

static void after_turn(void *arg)
{
    struct worker_daemon *d = arg;
    struct worker_counts counts;
    if (runner_broken(d->runner) && !d->process.signals) {
        d->process.signals = 1;
        d->process.exit_code = PROCESS_FAILED;
        stop(d, true);
    }
    if (d->ready)
        return;
    worker_counts(&d->role, &counts);
    if (!counts.joined)
        return;
    d->ready = true;
    process_ready(&d->process);
    check_lease(d);
    log_info("worker %s is ready at %s as node %u with %u slots", d->process.name,
             server_addr(d->process.server, 0), worker_node(&d->role).v, counts.slots);
}

static void make_role(struct worker_daemon *d, const char *addr)
{
    const struct config *c = &d->process.config;
    struct worker_config wc;
    worker_config_init(&wc);
    wc.name = blob_str(c->worker.name);
    wc.addr = blob_str(addr);
    wc.slots = c->worker.slots ? c->worker.slots : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    wc.queue_limit = c->worker.queue_limit;
    wc.queue_per_slot = strcmp(c->worker.queues, "per-slot") == 0;
    wc.incarnation = process_random();
    wc.park_min_us = c->worker.park_min;
    wc.park_max_us = c->worker.park_max;
    wc.orphan_us = c->worker.orphan;
    worker_init(&d->role, &wc, process_random());
    d->role_made = true;
    blob_drop(wc.name);
    blob_drop(wc.addr);
}

/* A worker needs only central's address: told nothing else, it listens where central reaches it. */
static const char *listen_address(const struct config *c, char *own, size_t size)
{
    bool told = strcmp(c->worker.listen, "127.0.0.1:0") != 0 || *c->worker.advertise;
    if (told || addr_is_local(c->worker.central) || addr_towards(c->worker.central, own, size))
        return c->worker.listen;
    return own;
}

/* The spawner is forked before gRPC starts its threads. */
static int start(struct worker_daemon *d)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    struct exec *exec;
    struct exec_config ec;
    char own[ADDR_TEXT];
    int err = process_output_dir(p, c->worker.output_dir);
    if (err)
        return err;
    exec_config_init(&ec, c->worker.name, c->worker.output_dir);
    ec.kill_grace_us = c->worker.kill_grace;
    ec.orphan_grace_us = c->worker.agent_grace;
    err = exec_start(&exec, &ec);
    if (err) {
        log_error("the spawner cannot be started: %s (worker.output_dir is %s)", hawk_strerror(err),
                  c->worker.output_dir);
        return err;
    }
    err = process_open(p, listen_address(c, own, sizeof own));
    const char *addr = err ? NULL : process_advertised(p, c->worker.advertise, c->worker.central);
    if (!addr) {
        exec_stop(exec);
        return HAWK_EINVALID;
    }
    d->runner = runner_new(p->loop, exec, &ec, feed, d);
    make_role(d, addr);
    struct node_config nc = {.role = ROLE_WORKER,
                             .name = p->name,
                             .token = p->token,
                             .central = c->worker.central,
                             .seed = process_random()};
    struct node_fns fns = {.step = step, .next_timeout = next_timeout, .check = check, .effect = effect};
    d->node = node_new(p->loop, &nc, &fns, &d->role, d);
    struct api_roles roles = {.worker = &d->role, .runner = d->runner, .name = p->name, .addr = addr};
    d->api = api_new(p->loop, p->server, &roles, api_feed, d);
    server_set_links(p->server, node_links(d->node));
    server_start(p->server);
    node_start(d->node);
    return 0;
}

int worker_main(int argc, char **argv)
{
    struct worker_daemon d = {0};
    struct loop_hook after;
    int result = process_init(&d.process, "worker", argc, argv);
    if (result) {
        process_free(&d.process);
        return result == 1 ? HAWK_EXIT_OK : result;
    }
    d.process.name = d.process.config.worker.name;
    if (start(&d)) {
        d.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&d.process, stop, &d);
        loop_hook_add(d.process.loop, &after, LOOP_AFTER, after_turn, &d);
        loop_run(d.process.loop);
        loop_hook_remove(&after);
    }
    server_stop(d.process.server);
    api_free_all(d.api);
    runner_free(d.runner);
    node_free(d.node);
    if (d.role_made)
        worker_free(&d.role);
    return process_free(&d.process);
}
