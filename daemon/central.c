/* `hawk central`: membership, long jobs, history and policy, durably.
 *
 * With the store in etcd there may be several centrals, and one of them is active. Every process listens all the time.
 * Its reign (role, node, journal) begins when it is elected, and ends when its lease ends. Before and after its reign
 * it stands by. */
#include "central/central.h"

#include "api/api.h"
#include "base/entropy.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/denial.h"
#include "daemon/enroll.h"
#include "daemon/joining.h"
#include "daemon/journal.h"
#include "daemon/metrics_roles.h"
#include "daemon/node.h"
#include "daemon/process.h"
#include "net/tls.h"
#include "store/leader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Missing heartbeats show a silent node long before its pings do. Pings at the usual rate would cost as much as the
 * heartbeats. If late pings broke the streams of a whole cluster, all nodes would come back at once. */
#define KEEPALIVE_MS 10000
/* central_config.ended_kept_us: a client whose dist died asks another dist how its job ended. A client notices the
 * death within half a second, but later if it was itself stopped for a while. */
#define ENDED_KEPT_US (60 * US_PER_S)

struct central_daemon {
    struct process process;
    struct leader *leader; /* NULL: this is the only central */
    struct api *api;
    struct joining *joining;
    struct renewal *renewal;
    struct denial *denial;
    /* While it is the active one; NULL otherwise. */
    struct central *role;
    struct node *node;
    struct journal *journal;
    uint32_t epoch; /* of the reign */
    bool over;      /* the reign has ended, and end_reign() follows */
    bool stopping;  /* this process stops */
    bool take_down; /* the centrals that stand by are to stop, too */
    /* What the log said last. */
    uint32_t reserved, policy, note;  /* note: of api_partition_note() */
    int64_t cutoff_us, policy_set_us; /* TIME_NEVER: nothing is set */
    bool young;                       /* that this central goes on for one that lost its state */
    struct leader_view seen;
};

/* Logs a change of a node, for operators who look for it afterwards. */
static void log_node(const struct msg_node_changed *m)
{
    char tasks[120] = "", silent[32];
    bool bad = m->change == CHANGE_CUT || m->change == CHANGE_SILENT || m->change == CHANGE_GONE;
    const char *fate = m->change == CHANGE_GONE || m->change == CHANGE_LEFT ? "to be placed again"
                       : m->change == CHANGE_BACK                           ? "still there"
                                                  : "left alone until its lease is over";
    bool out = m->change == CHANGE_OUT || m->change == CHANGE_KEPT;
    if (m->change == CHANGE_DRAINING || m->change == CHANGE_UNDRAINED || m->change == CHANGE_STOPPING ||
        m->change == CHANGE_IN || out)
        ; /* its tasks end there, or it hands them back */
    else if (m->tasks && m->change != CHANGE_JOINED)
        snprintf(tasks, sizeof tasks, "; its %u long task%s %s", m->tasks, m->tasks == 1 ? "" : "s", fate);
    else if (m->change == CHANGE_JOINED && m->role == ROLE_WORKER)
        snprintf(tasks, sizeof tasks, " with %u slot%s", m->slots, m->slots == 1 ? "" : "s");
    log_at(bad || out ? LOG_WARN : LOG_INFO, "%s %.*s (node %u) %s%s%s%s%s%s", role_text(m->role),
           (int)m->name->len, m->name->data, m->node.v, node_change_text(m->change),
           m->change == CHANGE_SILENT ? ": nothing heard for " : "",
           m->change == CHANGE_SILENT ? duration_format(silent, sizeof silent, m->silent_us) : "", tasks,
           m->why ? ": " : "", m->why ? m->why->data : "");
}

static void log_abandoned(const struct msg_job_abandoned *m)
{
    char id[JOB_ID_TEXT];
    log_warn(
        "job %s (%.*s) is cancelled with %u task%s that had not ended: nobody waits for it any more, and "
        "no dist has claimed it for central.long_lease",
        job_id_format(id, m->job), (int)m->name->len, m->name->data, m->tasks, m->tasks == 1 ? "" : "s");
}

/* Logs what an operator set of the policy, or that nothing is set any more. */
static void log_policy(struct central_daemon *d, uint32_t version)
{
    struct api_policy_text t;
    char line[1024], ago[32];
    int64_t now_us = loop_now(d->process.loop), set_us;
    api_policy_view(d->role, now_us, &t);
    d->policy = version;
    set_us = t.policy.has_set_ago_us ? now_us - t.policy.set_ago_us : TIME_NEVER;
    if (set_us == d->policy_set_us)
        return; /* history has moved something */
    d->policy_set_us = set_us;
    api_policy_line(&t.policy, line, sizeof line);
    if (t.policy.has_set_ago_us)
        log_info("%s; set by an operator %s ago", line,
                 duration_format(ago, sizeof ago, t.policy.set_ago_us));
    else
        log_info("%s; as configured", line);
    if (t.policy.configured_anew)
        log_warn("the configuration of the policy has changed since: what was set stays in force; `hawk "
                 "policy reset` puts the configuration in force");
}

/* Logs why an idle cluster may start no long task for a minute: central waits for workers. */
static void log_unreported(const struct central_daemon *d, const char *which)
{
    char lease[32];
    log_info(
        "%s, and that no worker reports, wait until every worker that central knows is back, or until "
        "central.long_lease (%s) is over: a worker that is not heard may run them; `hawk explain` shows what "
        "is left of it",
        which, duration_format(lease, sizeof lease, d->process.config.central.long_lease));
}

/* After each turn: logs the cutoff, the partition and what is set of the policy, if they changed. */
static void after_turn(void *arg)
{
    struct central_daemon *d = arg;
    struct central_summary s;
    char cutoff[32], note[API_NOTE_BYTES];
    if (!d->role)
        return;
    central_view_summary(d->role, &s);
    if (s.cutoff_us != d->cutoff_us)
        log_info("cutoff %s: jobs whose tasks take less are short",
                 duration_format(cutoff, sizeof cutoff, s.cutoff_us));
    if (s.workers_reserved != d->reserved)
        log_info("%u of %u workers are reserved for short tasks", s.workers_reserved, s.workers);
    uint32_t noted = api_partition_note(d->role, note, sizeof note);
    if (noted && noted != d->note && s.workers > 1)
        log_info("%s", note);
    if (s.policy_version != d->policy)
        log_policy(d, s.policy_version);
    if (s.young && !d->young)
        log_unreported(d, "this central goes on for one that lost its state: long tasks that dists bring");
    d->young = s.young;
    d->note = noted;
    d->cutoff_us = s.cutoff_us;
    d->reserved = s.workers_reserved;
}

static void central_daemon_effect(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    switch (m->type) {
    case MSG_NODE_CHANGED:
        log_node(&m->node_changed);
        break;
    case MSG_JOB_ABANDONED:
        log_abandoned(&m->job_abandoned);
        break;
    case MSG_ADMITTED:
        joining_admitted(d->joining, &m->admitted);
        break;
    case MSG_STOPPED:
        process_exit(&d->process, 0);
        break;
    default:
        if (msg_is_record(m))
            journal_write(d->journal, m);
        else
            api_effect(d->api, m);
    }
}

static void central_daemon_feed(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    node_feed(d->node, m);
}

static void look_at_election(void *arg);

/* Whether the reign goes on. After its end the role does nothing more, and does not even finish what was under way. The
 * lease may have ended since the last call, because the loop may have stood still. */
static bool may_act(void *arg)
{
    struct central_daemon *d = arg;
    if (!d->over && d->leader && !leader_holds(d->leader, d->epoch)) {
        d->over = true;
        loop_post(d->process.loop, look_at_election, d);
    }
    return !d->over;
}

/* Takes JOURNAL_DONE. */
static void journal_feed(void *arg, const struct msg *m)
{
    struct central_daemon *d = arg;
    if (m->journal_done.err == HAWK_ESTALE) {
        d->over = true;
        loop_post(d->process.loop, look_at_election, d);
        return;
    }
    central_daemon_feed(arg, m);
    if (m->journal_done.err == HAWK_EIO && d->stopping)
        process_exit(&d->process, 0);
}

static void fill_metrics(void *arg, FILE *page)
{
    const struct central_daemon *d = arg;
    struct central_totals t = {0};
    if (d->role)
        central_view_totals(d->role, &t);
    metrics_of_central(page, d->role, loop_now(d->process.loop));
    if (d->journal)
        metrics_of_journal(page, d->journal);
    metrics_of_counters(page, t.counters);
}

static void api_feed(void *arg, enum role to, const struct msg *m) { central_daemon_feed(arg, m); }

/* Central stops once its journal is written. A journal that cannot be written, say on a full disk, may never be. Then
 * central stops at once. */
static void central_daemon_stop(void *arg, bool now)
{
    struct central_daemon *d = arg;
    d->stopping = true;
    if (now || !d->role || journal_failing(d->journal))
        process_exit(&d->process, 0);
    else
        central_daemon_feed(arg, &(struct msg){.type = MSG_STOP});
}

static void list_standbys(void *arg, struct leader_standbys *s)
{
    leader_standbys(((struct central_daemon *)arg)->leader, s);
}

static void stop_standbys(void *arg) { ((struct central_daemon *)arg)->take_down = true; }

/* Fills in what the configuration says. It fixes cutoff and share, or leaves them to history. */
void central_configure(const struct config *c, struct central_config *out)
{
    central_config_init(out);
    process_policy(c, &out->policy);
    out->preset = (uint8_t)(policy_preset_number(c->central.policy, strlen(c->central.policy)) - 1);
    out->heartbeat_us = c->central.heartbeat;
    out->suspect_us = c->central.suspect;
    out->long_lease_us = c->central.long_lease;
    out->members_push_us = c->central.members_push;
    out->ids_wait_us = c->central.ids_wait;
    out->ended_kept_us = ENDED_KEPT_US;
    out->nodes_max = c->central.nodes_max;
    out->long_stretch = c->central.long_stretch;
    out->pause_share_milli = c->worker.pause_share;
    out->long_jobs_max = c->central.long_jobs_max;
    out->long_tasks_max = c->central.long_tasks_max;
    struct history_config *h = &out->history;
    h->window = c->central.history_jobs;
    h->min_jobs = c->central.history_min_jobs;
    h->cutoff_fixed = c->central.cutoff != SETTING_AUTO;
    h->cutoff_us = h->cutoff_fixed ? c->central.cutoff : c->central.cutoff_default;
    h->cutoff_min_us = c->central.cutoff_min;
    h->cutoff_max_us = c->central.cutoff_max;
    h->cutoff_percentile_ppm = c->central.cutoff_percentile;
    h->share_fixed = c->central.short_partition != SETTING_AUTO;
    h->share_ppm = h->share_fixed ? (uint32_t)c->central.short_partition : c->central.short_partition_default;
    h->share_min_ppm = c->central.short_partition_min;
    h->share_max_ppm = c->central.short_partition_max;
}

/* ---- A reign ---- */

static void recover_one(void *arg, const struct msg *m) { central_daemon_feed(arg, m); }

static struct tls_files etcd_files(const struct config *c)
{
    return (struct tls_files){.certificate = c->central.etcd_certificate,
                              .key = c->central.etcd_key,
                              .roots = c->central.etcd_roots};
}

static int open_journal(struct central_daemon *d, const struct leader_view *v, char *why, size_t size)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    struct store_etcd etcd = {.endpoints = c->central.etcd,
                              .prefix = c->central.etcd_prefix,
                              .tls = etcd_files(c),
                              .revision = v->revision,
                              .epoch = v->epoch};
    if (d->leader)
        return journal_open_etcd(&d->journal, p->loop, &etcd, journal_feed, d, why, size);
    return journal_open(&d->journal, p->loop, c->central.state_dir, p->name, journal_feed, d, why, size);
}

/* Whether the kernel chooses the port. No node can know that address from before, so none comes back. */
static bool is_new_address(const char *listen)
{
    size_t len = listen ? strlen(listen) : 0;
    return len > 2 && strcmp(listen + len - 2, ":0") == 0 && !strchr(listen, ',');
}

static const char *denying(void *arg) { return denial_text(((struct central_daemon *)arg)->denial); }

static void push_denied(void *arg)
{
    struct central_daemon *d = arg;
    if (d->node)
        node_deny(d->node);
}

/* After an upgrade, jobs of dists and clients without receipts go on for a while. */
#define RECEIPTS_OPTIONAL_S (7 * 24 * 3600)

/* The secret of receipts, made for the journal's first central that knows of them. */
static int find_receipts(struct store *s, struct central_config *cc, int64_t now_us)
{
    uint64_t now_s = (uint64_t)time(NULL), since_s = store_epoch(s) > 1 ? now_s : 0;
    struct receipt_secret *v = &cc->receipts;
    int err = store_meta_get(s, STORE_META_RECEIPT_HIGH, &v->high);
    if (err == HAWK_ENOT_FOUND) { /* the last of the three to be written */
        v->low = entropy_nonzero();
        v->high = entropy_nonzero();
        err = store_meta_set(s, STORE_META_RECEIPT_LOW, v->low);
        if (!err)
            err = store_meta_set(s, STORE_META_RECEIPTS_SINCE, since_s);
        if (!err)
            err = store_meta_set(s, STORE_META_RECEIPT_HIGH, v->high);
    } else if (!err) {
        err = store_meta_get(s, STORE_META_RECEIPT_LOW, &v->low);
        if (!err)
            err = store_meta_get(s, STORE_META_RECEIPTS_SINCE, &since_s);
    }
    if (since_s && now_s < since_s + RECEIPTS_OPTIONAL_S)
        cc->receipts_due_us = now_us + (int64_t)(since_s + RECEIPTS_OPTIONAL_S - now_s) * US_PER_S;
    return err;
}

/* Makes the role from the journal and lets nodes in. v: of the election, if there is one. It blocks the loop
 * while it reads, since nobody is served before. */
static int begin_reign(struct central_daemon *d, const struct leader_view *v)
{
    struct process *p = &d->process;
    struct central_config cc;
    char why[800];
    central_configure(&p->config, &cc);
    if (is_new_address(p->config.central.listen))
        cc.ids_wait_us = 0;
    int err = open_journal(d, v, why, sizeof why);
    if (err) {
        log_error("%s", why);
        return err;
    }
    struct store *s = journal_store(d->journal);
    if (!d->leader && !store_meta_get(s, STORE_META_NODE, &(uint64_t){0})) {
        log_error("%s/journal.db is a dist's journal, whose jobs would run twice: give central a state_dir "
                  "of its own",
                  p->config.central.state_dir);
        return HAWK_ECORRUPT;
    }
    cc.cluster = store_cluster_id(s);
    cc.epoch = d->epoch = store_epoch(s);
    err = find_receipts(s, &cc, loop_now(p->loop));
    if (err) {
        log_error("the journal cannot be written: %s", hawk_strerror(err));
        return err;
    }
    d->over = false;
    d->role = central_new(&cc);
    struct node_config nc = {.role = ROLE_CENTRAL,
                             .name = p->name,
                             .token = p->node_token,
                             .tls = p->tls,
                             .seed = entropy(),
                             .version = p->version};
    struct node_fns fns = {
        .role = &central_functions, .may = may_act, .effect = central_daemon_effect, .denying = denying};
    d->node = node_new(p->loop, &nc, &fns, d->role, d);
    api_set_central(d->api, d->role, NULL);
    node_start(d->node);
    err = store_recover(s, recover_one, d);
    if (err) {
        log_error("the journal cannot be read: %s", hawk_strerror(err));
        return err;
    }
    err = store_own(s, p->name);
    if (err)
        return err;
    central_daemon_feed(d, &(struct msg){.type = MSG_RECOVERED});
    struct central_totals t;
    central_view_totals(d->role, &t);
    if (t.long_tasks > 0)
        log_unreported(d, "long tasks of the journal that have not ended");
    server_set_links(p->server, node_links(d->node));
    denial_set_links(d->denial, node_links(d->node));
    joining_set_active(d->joining, true);
    return 0;
}

/* Frees what begin_reign() made, and drops what waits to be sent or written. */
static void end_reign(struct central_daemon *d)
{
    server_set_links(d->process.server, NULL);
    denial_set_links(d->denial, NULL);
    joining_set_active(d->joining, false);
    api_set_central(d->api, NULL, "this central is not the active one any more");
    if (d->node)
        node_break(d->node, "this central is not the active one any more");
    node_free(d->node);
    central_free(d->role);
    journal_abandon(d->journal);
    d->node = NULL;
    d->role = NULL;
    d->journal = NULL;
    d->reserved = d->policy = d->note = 0;
    d->cutoff_us = 0;
    d->young = false;
    d->policy_set_us = TIME_NEVER;
}

/* ---- The election ---- */

/* Tells callers and the log that this central stands by, and why. */
static void stand_by(struct central_daemon *d, const struct leader_view *v)
{
    char why[900];
    if (*v->active)
        snprintf(why, sizeof why, "this central stands by; the active one is at %s", v->active);
    else if (*v->trouble)
        snprintf(why, sizeof why, "this central stands by: %s", v->trouble);
    else
        snprintf(why, sizeof why, "this central stands by; none is active at the moment");
    api_set_central(d->api, NULL, why);
    server_refuse_links(d->process.server, why);
    if (*v->active && (v->epoch != d->seen.epoch || strcmp(v->active, d->seen.active) != 0))
        log_info("stands by: central at %s is active, in epoch %" PRIu32, v->active, v->epoch);
    else if (*v->trouble && !*d->seen.trouble)
        log_warn("stands by: %s; trying again", v->trouble);
}

static void become_active(struct central_daemon *d, const struct leader_view *v)
{
    int64_t from = loop_now(d->process.loop);
    char took[32];
    int err = begin_reign(d, v);
    if (!err && may_act(d)) {
        struct central_totals t;
        central_view_totals(d->role, &t);
        log_info("is active from now on, in epoch %" PRIu32 ": %u long jobs with %" PRIu64
                 " tasks were read in %s",
                 v->epoch, t.long_jobs, t.long_tasks,
                 duration_format(took, sizeof took, loop_now(d->process.loop) - from));
        return;
    }
    end_reign(d);
    leader_yield(d->leader, v->epoch);
    stand_by(d, &(struct leader_view){.epoch = v->epoch});
    if (err == HAWK_ECORRUPT || err == HAWK_EVERSION) /* waiting does not help */
        process_exit(&d->process, PROCESS_FAILED);
}

/* Something about the election may have changed. */
static void look_at_election(void *arg)
{
    struct central_daemon *d = arg;
    struct leader_view v;
    if (d->stopping && !d->role)
        return;
    leader_view(d->leader, &v);
    if (d->role && (d->over || !v.leads || v.epoch != d->epoch)) {
        log_warn("is not active any more, after epoch %" PRIu32 ": %s", d->epoch,
                 *v.active    ? "another central is"
                 : *v.trouble ? v.trouble
                              : "its lease in etcd could not be renewed in time");
        end_reign(d);
        leader_yield(d->leader, d->epoch);
        if (d->stopping)
            process_exit(&d->process, 0);
        leader_view(d->leader, &v);
    }
    if (v.down && !d->role) {
        log_info("the cluster was stopped: so does this central, which stood by");
        d->stopping = true;
        process_exit(&d->process, 0);
    } else if (v.leads && !d->role)
        become_active(d, &v);
    else if (!v.leads)
        stand_by(d, &v);
    d->seen = v;
}

static void election_changed(void *arg)
{
    struct central_daemon *d = arg;
    loop_post(d->process.loop, look_at_election, d);
}

/* ---- The process ---- */

/* Central needs the node root alone. */
static void warn_of_user_root(const char *ca)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/users/root.key", ca);
    if (*ca && access(path, R_OK) == 0)
        log_warn(
            "central.ca: whoever breaks into this process can make users, since it may read %s: keep users/ "
            "where users are administered",
            path);
}

static int central_daemon_start(struct central_daemon *d)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    bool alone = strcmp(c->central.store, "etcd") != 0;
    int err = process_open(p, c->central.listen, KEEPALIVE_MS);
    if (err)
        return err;
    const char *addr = server_addr(p->server, 0);
    if (!alone && !(addr = process_advertised(p, c->central.advertise, c->central.etcd)))
        return HAWK_EINVALID;
    struct api_roles roles = {.name = p->name,
                              .addr = addr,
                              .show_names = c->cluster.show_names,
                              .stop = central_daemon_stop,
                              .stop_standbys = alone ? NULL : stop_standbys,
                              .standbys = alone ? NULL : list_standbys};
    d->api = api_new(p->loop, p->server, &roles, api_feed, d);
    d->joining = joining_new(p->server, &(struct joining_config){.root = p->root,
                                                                 .life_us = c->central.certificate_life,
                                                                 .feed = central_daemon_feed,
                                                                 .arg = d});
    d->renewal = renewal_new(p, NULL, NULL);
    d->denial = denial_new(p, c->central.state_dir, c->central.ca, push_denied, d);
    if (p->root && p->tls)
        tls_take_guests(p->tls);
    warn_of_user_root(c->central.ca);
    if (alone) {
        err = begin_reign(d, &d->seen);
    } else {
        stand_by(d, &d->seen);
        d->leader = leader_new(&(struct leader_config){.endpoints = c->central.etcd,
                                                       .prefix = c->central.etcd_prefix,
                                                       .tls = etcd_files(c),
                                                       .address = addr,
                                                       .lease_us = c->central.leader_lease},
                               election_changed, d);
    }
    if (err)
        return err;
    server_start(p->server);
    return process_metrics(p, c->central.metrics_listen, fill_metrics, d);
}

int central_main(int argc, char **argv)
{
    struct central_daemon d = {.policy_set_us = TIME_NEVER};
    if (!process_init(&d.process, "central", argc, argv))
        return process_free(&d.process);
    d.process.name = "central";
    if (central_daemon_start(&d)) {
        d.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&d.process, central_daemon_stop, &d);
        process_ready(&d.process);
        log_info("central is ready at %s", server_addr(d.process.server, 0));
        process_run(&d.process, after_turn, &d);
    }
    process_metrics_stop(&d.process);
    server_stop(d.process.server);
    denial_free(d.denial);
    renewal_free(d.renewal);
    joining_free(d.joining);
    api_free_all(d.api);
    node_free(d.node);
    central_free(d.role);
    if (journal_close(d.journal)) {
        log_error("the journal could not be written to its end: look at the disk%s",
                  d.leader ? " of etcd" : "");
        d.process.exit_code = PROCESS_FAILED;
    }
    if (d.take_down)
        leader_take_down(d.leader);
    else
        leader_free(d.leader); /* after journal_close(): the next central finds everything written */
    return process_free(&d.process);
}
