/* `hawk central`: membership, long jobs, history and policy, durably. */
#include "central/central.h"

#include "base/log.h"
#include "daemon/api.h"
#include "daemon/commands.h"
#include "daemon/journal.h"
#include "daemon/node.h"
#include "daemon/process.h"

/* Who is silent is suspect long before, by heartbeats. To drop the streams of a whole cluster because pings were late would
 * bring them all back at once. */
#define KEEPALIVE_TIMEOUT_MS 10000
/* A client notices a dead dist within half a second; one that was itself stopped for a while, later. */
#define ENDED_KEPT_US (60 * US_PER_S)

struct central_daemon {
    struct process process;
    struct central *role;
    struct node *node;
    struct journal *journal;
    struct api *api;
    struct loop_hook after;
    /* What the log said last. */
    uint32_t reserved;
    int64_t cutoff_us;
};

static void step(void *role, const struct event *e, struct out *out) { central_step(role, e, out); }
static int64_t next_timeout(const void *role) { return central_next_timeout(role); }
static void check(const void *role) { central_check(role); }

/* What an operator wants to find in the log afterwards. */
static void log_node(const struct msg_node_changed *m)
{
    char tasks[120] = "", silent[32];
    bool bad = m->change == CHANGE_CUT || m->change == CHANGE_SILENT || m->change == CHANGE_GONE;
    const char *fate = m->change == CHANGE_GONE || m->change == CHANGE_LEFT ? "to be placed again"
                       : m->change == CHANGE_BACK                           ? "still there"
                                                  : "left alone until its lease is over";
    if (m->change == CHANGE_DRAINING || m->change == CHANGE_UNDRAINED || m->change == CHANGE_STOPPING)
        ; /* its tasks end there, or it hands them back */
    else if (m->tasks && m->change != CHANGE_JOINED)
        snprintf(tasks, sizeof tasks, "; its %u long task%s %s", m->tasks, m->tasks == 1 ? "" : "s", fate);
    else if (m->change == CHANGE_JOINED && m->role == ROLE_WORKER)
        snprintf(tasks, sizeof tasks, " with %u slot%s", m->slots, m->slots == 1 ? "" : "s");
    log_at(bad ? LOG_WARN : LOG_INFO, "%s %.*s (node %u) %s%s%s%s", role_text(m->role), (int)m->name->len,
           m->name->data, m->node.v, node_change_text(m->change),
           m->change == CHANGE_SILENT ? ": nothing heard for " : "",
           m->change == CHANGE_SILENT ? duration_format(silent, sizeof silent, m->silent_us) : "", tasks);
}

/* After each turn: cutoff and partition, when they moved. */
static void after_turn(void *arg)
{
    struct central_daemon *d = arg;
    struct central_summary s;
    char cutoff[32];
    central_view_summary(d->role, &s);
    if (s.cutoff_us != d->cutoff_us)
        log_info("cutoff %s: jobs whose tasks take less are short",
                 duration_format(cutoff, sizeof cutoff, s.cutoff_us));
    if (s.workers_reserved != d->reserved)
        log_info("%u of %u workers are reserved for short tasks", s.workers_reserved, s.workers);
    d->cutoff_us = s.cutoff_us;
    d->reserved = s.workers_reserved;
}

static void effect(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    switch (m->type) {
    case MSG_NODE_CHANGED:
        log_node(&m->node_changed);
        break;
    case MSG_JOURNAL_NODE:
    case MSG_JOURNAL_JOB:
    case MSG_JOURNAL_TASK:
    case MSG_JOURNAL_CANCEL:
    case MSG_JOURNAL_JOB_END:
    case MSG_HISTORY:
        journal_write(d->journal, m);
        break;
    case MSG_STOPPED:
        process_exit(&d->process, 0);
        break;
    default:
        api_effect(d->api, m);
    }
}

static void feed(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    node_feed(d->node, m);
}

/* What could not be written is kept and will be reported as done later. */
static void journal_feed(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    if (m->journal_done.err != HAWK_EIO)
        feed(arg, m);
    else if (d->process.signals)
        process_exit(&d->process, 0);
}

static void api_feed(void *arg, enum role to, const struct msg *m) { feed(arg, m); }

/* Central stops when its journal is quiet; on a full disk that may be never, and nothing more can be saved. */
static void stop(void *arg, bool now)
{
    struct central_daemon *d = arg;
    if (now || journal_failing(d->journal))
        process_exit(&d->process, 0);
    else
        feed(arg, &(struct msg){.type = MSG_STOP});
}

/* What history and the policy are configured to be: fixed, or computed. */
void central_configure(const struct config *c, struct central_config *out)
{
    central_config_init(out);
    process_policy(c, &out->policy);
    out->heartbeat_us = c->central.heartbeat;
    out->suspect_us = c->central.suspect;
    out->long_lease_us = c->central.long_lease;
    out->members_push_us = c->central.members_push;
    out->ended_kept_us = ENDED_KEPT_US;
    out->nodes_max = c->central.nodes_max;
    out->long_jobs_max = c->central.long_jobs_max;
    out->long_tasks_max = c->central.long_tasks_max;
    struct history_config *h = &out->history;
    h->window = c->central.history_jobs;
    h->min_jobs = c->central.history_min_jobs;
    h->cutoff_fixed = c->central.cutoff != SETTING_AUTO;
    h->cutoff_us = h->cutoff_fixed ? c->central.cutoff : c->central.cutoff_default;
    h->cutoff_min_us = c->central.cutoff_min;
    h->cutoff_percentile_ppm = c->central.cutoff_percentile;
    h->share_fixed = c->central.short_partition != SETTING_AUTO;
    h->share_ppm = h->share_fixed ? (uint32_t)c->central.short_partition : c->central.short_partition_default;
    h->share_min_ppm = c->central.short_partition_min;
    h->share_max_ppm = c->central.short_partition_max;
}

static void recover_one(void *arg, const struct msg *m) { feed(arg, m); }

static int start(struct central_daemon *d)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    struct central_config cc;
    char why[512];
    central_configure(c, &cc);
    int err = process_open(p, c->central.listen, KEEPALIVE_TIMEOUT_MS);
    if (err)
        return err;
    err = journal_open(&d->journal, p->loop, c->central.state_dir, journal_feed, d, why, sizeof why);
    if (err) {
        log_error("%s", why);
        return err;
    }
    struct store *s = journal_store(d->journal);
    cc.cluster = store_cluster_id(s);
    cc.epoch = store_epoch(s);
    d->role = central_new(&cc, process_random());
    struct node_config nc = {.role = ROLE_CENTRAL,
                             .name = p->name,
                             .token = p->token,
                             .seed = process_random(),
                             .version = p->version};
    struct node_fns fns = {.step = step, .next_timeout = next_timeout, .check = check, .effect = effect};
    d->node = node_new(p->loop, &nc, &fns, d->role, d);
    struct api_roles roles = {
        .central = d->role, .name = p->name, .addr = server_addr(p->server, 0), .stop = stop};
    d->api = api_new(p->loop, p->server, &roles, api_feed, d);
    node_start(d->node);
    err = store_recover(s, recover_one, d);
    if (err) {
        log_error("%s/journal.db cannot be read: %s", c->central.state_dir, hawk_strerror(err));
        return err;
    }
    feed(d, &(struct msg){.type = MSG_RECOVERED});
    server_set_links(p->server, node_links(d->node));
    server_start(p->server);
    return 0;
}

int central_main(int argc, char **argv)
{
    struct central_daemon d = {0};
    int result = process_init(&d.process, "central", argc, argv);
    if (result) {
        process_free(&d.process);
        return result == 1 ? HAWK_EXIT_OK : result;
    }
    d.process.name = "central";
    if (start(&d)) {
        d.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&d.process, stop, &d);
        process_ready(&d.process);
        log_info("central is ready at %s", server_addr(d.process.server, 0));
        loop_hook_add(d.process.loop, &d.after, LOOP_AFTER, after_turn, &d);
        loop_run(d.process.loop);
        loop_hook_remove(&d.after);
    }
    server_stop(d.process.server);
    api_free_all(d.api);
    node_free(d.node);
    central_free(d.role);
    if (journal_close(d.journal)) {
        log_error("the journal could not be written to its end: look at the disk");
        d.process.exit_code = PROCESS_FAILED;
    }
    return process_free(&d.process);
}
