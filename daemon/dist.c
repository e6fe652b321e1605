/* `hawk dist`: one distributed scheduler. Clients submit here. */
#include "dist/dist.h"

#include "api/api.h"
#include "base/entropy.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/denial.h"
#include "daemon/enroll.h"
#include "daemon/journal.h"
#include "daemon/metrics_roles.h"
#include "daemon/node.h"
#include "daemon/process.h"

/* The dist reserves so many job numbers at a time, and the next block when half of one is left. That half lasts for
 * longer than a disk, or central, takes to note the next block. */
#define SEQ_BLOCK 1000000u

struct dist_daemon {
    struct process process;
    struct dist role;
    struct node *node;
    struct journal *journal;
    struct api *api;
    struct renewal *renewal;
    struct denial *denial;
    const struct tls *signatures;     /* by which jobs' signatures are checked; NULL: they are not required */
    char owner[LIMIT_NAME_BYTES + 8]; /* whom the journal names as its owner */
    bool role_made, ready;
    bool foreign; /* the journal holds what only central writes */
};

static void dist_daemon_effect(void *arg, const struct msg *m)
{
    struct dist_daemon *d = arg;
    if (m->type == MSG_STOPPED)
        process_exit(&d->process, m->stopped.asked ? 0 : PROCESS_FAILED);
    else if (msg_is_record(m))
        journal_write(d->journal, m);
    else
        api_effect(d->api, m);
}

static void dist_daemon_feed(void *arg, const struct msg *m)
{
    struct dist_daemon *d = arg;
    node_feed(d->node, m);
}

static void fill_metrics(void *arg, FILE *page)
{
    const struct dist_daemon *d = arg;
    metrics_of_dist(page, &d->role, loop_now(d->process.loop));
    metrics_of_journal(page, d->journal);
    metrics_of_counters(page, dist_counters(&d->role));
}

static void api_feed(void *arg, enum role to, const struct msg *m) { dist_daemon_feed(arg, m); }

static void dist_daemon_stop(void *arg, bool now)
{
    /* A dist told to stop does not wait for its jobs: that may take hours. Clients go to another one. */
    dist_daemon_feed(arg, &(struct msg){.type = MSG_STOP, .stop.now = true});
}

static const char *central_addr(void *arg)
{
    const struct dist_daemon *d = arg;
    return node_central_addr(d->node);
}

/* An operator says whether to wait. */
static void stop_asked(void *arg, bool now)
{
    dist_daemon_feed(arg, &(struct msg){.type = MSG_STOP, .stop.now = now});
}

/* Writes the node id that central gave us to the journal, so that job ids stay ours after a restart. */
static void remember_node(struct dist_daemon *d)
{
    struct store *s = journal_store(d->journal);
    uint64_t known = 0, cluster = 0;
    node_id_t node = dist_node(&d->role);
    if (((store_meta_get(s, STORE_META_NODE, &known) || known != node.v) &&
         store_meta_set(s, STORE_META_NODE, node.v)) ||
        ((store_meta_get(s, STORE_META_CLUSTER, &cluster) || cluster != d->role.cluster) &&
         store_meta_set(s, STORE_META_CLUSTER, d->role.cluster)))
        log_warn("the node id cannot be written to the journal");
}

/* After each turn: says that the dist is ready, once it has joined. */
static void watch_ready(void *arg)
{
    struct dist_daemon *d = arg;
    if (d->ready || !dist_central_up(&d->role) || !dist_ready(&d->role))
        return;
    d->ready = true;
    remember_node(d);
    process_ready(&d->process);
    log_info("dist %s is ready at %s as node %u", d->process.name, server_addr(d->process.server, 0),
             dist_node(&d->role).v);
}

static void recover_one(void *arg, const struct msg *m)
{
    struct dist_daemon *d = arg;
    d->foreign = d->foreign || m->type == MSG_JOURNAL_NODE || m->type == MSG_HISTORY;
    if (!d->foreign)
        dist_daemon_feed(arg, m);
}

/* Reads the detached jobs of an earlier process. */
static int recover_jobs(struct dist_daemon *d)
{
    const char *dir = d->process.config.dist.state_dir;
    int err = store_recover(journal_store(d->journal), recover_one, d);
    if (err) {
        log_error("%s/journal.db cannot be read: %s: move it away to start without the jobs in it", dir,
                  hawk_strerror(err));
        return err;
    }
    if (d->foreign) {
        log_error("%s/journal.db is central's journal: give the dist a state_dir of its own", dir);
        return HAWK_ECORRUPT;
    }
    err = store_own(journal_store(d->journal), d->owner);
    if (err)
        return err;
    dist_daemon_feed(d, &(struct msg){.type = MSG_RECOVERED});
    if (dist_jobs_unfinished(&d->role) > 0)
        log_info("%u unfinished job%s read back from the journal", dist_jobs_unfinished(&d->role),
                 dist_jobs_unfinished(&d->role) == 1 ? "" : "s");
    return 0;
}

static void take_denied(void *arg, const char *list)
{
    struct dist_daemon *d = arg;
    denial_take(d->denial, list);
}

/* Clients of this machine find the dist at its socket, and need no address. */
static int open_socket(struct process *p)
{
    const struct config *c = &p->config;
    char addr[PROCESS_SOCKET], why[512];
    int err = process_socket("dist.socket", c->dist.socket, c->dist.state_dir, "dist.sock",
                             "clients of this machine need the dist's address", addr);
    if (!err && *addr && (err = server_listen(p->server, addr, why, sizeof why)) != 0)
        log_error("dist.socket: %s", why);
    return err;
}

/* Makes the role; its ids are those that the journal has. */
static void make_role(struct dist_daemon *d, const char *addr, node_id_t node, uint64_t cluster)
{
    const struct config *c = &d->process.config;
    struct dist_config dc;

    dist_config_init(&dc);
    dc.name = blob_str(c->dist.name);
    dc.addr = blob_str(addr);
    dc.incarnation = entropy();
    dc.node = node;
    dc.cluster = cluster;
    dc.seq_block = SEQ_BLOCK;
    dc.jobs_unfinished_max = c->dist.jobs_max;
    dc.tasks_unfinished_max = c->dist.tasks_max;
    dc.finished_kept = c->dist.finished_kept;
    dc.finished_keep_us = c->dist.finished_keep;
    dc.unfinished_bytes_max = c->dist.memory_max;
    dc.finished_tasks_kept = c->dist.finished_tasks;
    dc.finished_bytes_kept = c->dist.finished_memory;
    dc.client_grace_us = c->dist.client_grace;
    dc.nested_grace_us = c->worker.pause_longest + c->dist.client_grace;
    dc.journal = true;
    dc.life = (uint16_t)store_epoch(journal_store(d->journal));
    dist_init(&d->role, &dc, entropy());
    d->role_made = true;
    blob_drop(dc.name);
    blob_drop(dc.addr);
}

static int dist_daemon_start(struct dist_daemon *d)
{
    struct process *p = &d->process;
    const struct config *c = &p->config;
    char why[512], own[ADDR_TEXT];
    uint64_t node = 0, cluster = 0;
    int err = process_open(
        p, process_listen(c->dist.listen, "127.0.0.1:7071", c->dist.advertise, c->dist.central, own), 0);
    if (err)
        return err;
    const char *addr = process_advertised(p, c->dist.advertise, c->dist.central);
    if (!addr)
        return HAWK_EINVALID;
    snprintf(d->owner, sizeof d->owner, "dist %s", p->name);
    err =
        journal_open(&d->journal, p->loop, c->dist.state_dir, d->owner, dist_daemon_feed, d, why, sizeof why);
    if (!err && store_meta_get(journal_store(d->journal), STORE_META_NODE, &node))
        node = 0;
    if (!err && store_meta_get(journal_store(d->journal), STORE_META_CLUSTER, &cluster))
        cluster = 0;
    if (err) {
        log_error("%s", why);
        return err;
    }
    err = open_socket(p);
    if (err)
        return err;
    make_role(d, addr, (node_id_t){(uint32_t)node}, cluster);
    struct node_config nc = {.role = ROLE_DIST,
                             .name = p->name,
                             .token = p->node_token,
                             .tls = p->tls,
                             .central = c->dist.central,
                             .id = {(uint32_t)node},
                             .cluster = cluster,
                             .seed = entropy(),
                             .version = p->version};
    struct node_fns fns = {.role = &dist_functions, .effect = dist_daemon_effect, .denied = take_denied};
    d->node = node_new(p->loop, &nc, &fns, &d->role, d);
    struct api_roles roles = {.dist = &d->role,
                              .links = node_links(d->node),
                              .central_addr = central_addr,
                              .limits = process_limits(&p->config),
                              .show_names = p->config.cluster.show_names,
                              .signatures = d->signatures,
                              .name = p->name,
                              .addr = addr,
                              .stop = stop_asked};
    d->api = api_new(p->loop, p->server, &roles, api_feed, d);
    err = recover_jobs(d);
    if (err)
        return err;
    server_set_links(p->server, node_links(d->node));
    server_start(p->server);
    d->renewal = renewal_new(p, central_addr, d);
    d->denial = denial_new(p, c->dist.state_dir, NULL, NULL, NULL);
    denial_set_links(d->denial, node_links(d->node));
    node_start(d->node);
    return process_metrics(p, c->dist.metrics_listen, fill_metrics, d);
}

int dist_main(int argc, char **argv)
{
    struct dist_daemon d = {0};
    if (!process_init(&d.process, "dist", argc, argv))
        return process_free(&d.process);
    d.process.name = d.process.config.dist.name;
    if (process_signatures(&d.process, &d.signatures) || dist_daemon_start(&d)) {
        d.process.exit_code = PROCESS_FAILED;
    } else {
        process_signals(&d.process, dist_daemon_stop, &d);
        process_run(&d.process, watch_ready, &d);
    }
    process_metrics_stop(&d.process);
    server_stop(d.process.server);
    denial_free(d.denial);
    renewal_free(d.renewal);
    api_free_all(d.api);
    node_free(d.node);
    if (d.role_made)
        dist_free(&d.role);
    if (journal_close(d.journal)) {
        log_error("the journal could not be written to its end: look at the disk");
        d.process.exit_code = PROCESS_FAILED;
    }
    return process_free(&d.process);
}
