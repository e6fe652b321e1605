/* Checks that need more than one value: ranges that depend on a value's use, and settings that contradict
 * each other. `hawk config check` and the daemons make the same checks. */
#include "base/mem.h"
#include "base/units.h"
#include "config/table.h"
#include "msg/types.h"
#include "net/addr.h"
#include "net/tls.h"
#include "net/token.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ETCD_PREFIX_MAX 128

struct checker {
    const struct config *c;
    const char *section; /* NULL: all */
    FILE *err;
    int errors;
};

static bool is_about(const struct checker *k, const char *section)
{
    return !k->section || strcmp(k->section, section) == 0;
}

static const struct config_origin *origin_of(const struct config *c, const char *key)
{
    const char *dot = strchr(key, '.');
    const struct setting *s = setting_find(key, (size_t)(dot - key), dot + 1);

    return s ? &c->origins[s - settings] : NULL;
}

const char *config_origin(const struct config *c, const char *key)
{
    const struct config_origin *o = origin_of(c, key);

    return o ? o->origin : "hawk";
}

static void complain_va(struct checker *k, const char *key, const char *fmt, va_list ap)
{
    const struct config_origin *o = origin_of(k->c, key);

    fprintf(k->err, "%s: %s: \"%.200s\": ", o ? o->origin : "hawk", key, o ? o->text : "");
    vfprintf(k->err, fmt, ap);
    fputc('\n', k->err);
    k->errors++;
}

/* "hawk.yaml:12: central.suspect: "1s": it must be …" */
static void HAWK_PRINTF(3, 4) complain_of_value(struct checker *k, const char *key, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    complain_va(k, key, fmt, ap);
    va_end(ap);
}

/* The same of two settings, where `other` alone may be set. Then its place goes first:
 * "hawk.yaml:12: central.heartbeat: "9s": default: central.suspect: "10s": it must be …" */
static void HAWK_PRINTF(4, 5)
    complain_of_two(struct checker *k, const char *key, const char *other, const char *fmt, ...)
{
    const struct config_origin *o = origin_of(k->c, other);
    va_list ap;

    if (o && config_is_default(k->c, key) && !config_is_default(k->c, other))
        fprintf(k->err, "%s: %s: \"%.200s\": ", o->origin, other, o->text);
    va_start(ap, fmt);
    complain_va(k, key, fmt, ap);
    va_end(ap);
}

static void at_most(struct checker *k, const char *key, uint64_t value, uint64_t most)
{
    if (value > most)
        complain_of_value(k, key, "it may be %llu at most", (unsigned long long)most);
}

static void check_positive(struct checker *k, const char *key, int64_t us)
{
    if (us <= 0)
        complain_of_value(k, key, "it must be more than 0");
}

/* A name is shown in lists, and used in file names (%w) and in the metadata of links. */
static void check_name(struct checker *k, const char *key, const char *text)
{
    size_t len = strlen(text);
    bool ok = len > 0 && len <= LIMIT_NAME_BYTES && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;

    for (size_t i = 0; i < len; i++)
        ok = ok && text[i] > ' ' && text[i] <= '~' && text[i] != '/';
    if (!ok)
        complain_of_value(k, key,
                          "it must be 1 to %u visible ASCII characters, no blank and no slash, not . or ..",
                          LIMIT_NAME_BYTES);
    if (node_name_reserved(text))
        complain_of_value(k, key, NODE_NAME_RESERVED);
}

static void check_address(struct checker *k, const char *key, const char *text)
{
    char why[512];

    if (addr_check(text, why, sizeof why))
        complain_of_value(k, key, "%s", why);
}

/* Addresses, comma separated, at least one. */
static void check_addresses(struct checker *k, const char *key, const char *list)
{
    char addr[ADDR_TEXT];

    if (!*list)
        complain_of_value(k, key, "it must name an address, HOST:PORT or unix:PATH");
    while (*list) {
        list = addr_first(list, addr);
        check_address(k, key, addr);
    }
}

/* How a role gets its certificate, for people who have none. */
static const char *certificate_remedy(const char *key)
{
    if (strncmp(key, "central.", strlen("central.")) == 0)
        return "make roots with `hawk ca init`, and set central.ca (--ca DIR)";
    return "invite it with `hawk ca invite`, and set join (--join FILE)";
}

/* Whether the daemon of a setting has TLS, or will have it by its root or invitation. */
static bool will_have_tls(const struct config *c, const char *key)
{
    const char *own = strncmp(key, "central.", strlen("central.")) == 0 ? c->central.ca
                      : strncmp(key, "dist.", strlen("dist.")) == 0     ? c->dist.join
                      : strncmp(key, "worker.", strlen("worker.")) == 0 ? c->worker.join
                                                                        : "";

    return *c->tls.certificate || *own;
}

/* Whether it may be reached from other machines, and may reach them: by that, or since the operator says so. */
static bool goes_beyond(const struct checker *k, const char *key)
{
    return k->c->cluster.insecure || will_have_tls(k->c, key);
}

/* DESIGN 3.12. A token alone would travel in the clear. */
static void check_beyond(struct checker *k, const char *key, const char *addr, const char *what)
{
    if (!goes_beyond(k, key) && !addr_is_local(addr))
        complain_of_value(
            k, key,
            "%s %s, and this daemon has no TLS: %s, or set section tls; cluster.insecure (--insecure) "
            "goes without, for tests, and everybody on the network can read and change all",
            addr, what, certificate_remedy(key));
}

/* A daemon's own file may not say how it joined: that its certificate is kept is known when it starts. */
static void check_centrals(struct checker *k, const char *key, const char *list)
{
    char addr[ADDR_TEXT], why[512];

    check_addresses(k, key, list);
    while (k->section && *list) {
        list = addr_first(list, addr);
        if (addr_check(addr, why, sizeof why) == 0)
            check_beyond(k, key, addr, "is on another machine");
    }
}

/* On TCP without TLS nobody is known. Where users of this machine are told apart, that would let any of them act as
 * any other. */
static void check_users(struct checker *k, const char *key, const char *addr)
{
    const struct config *c = k->c;

    if (c->cluster.local_users && !*c->cluster.token_file && !goes_beyond(k, key) && !addr_is_unix(addr))
        complain_of_two(
            k, key, "cluster.local_users",
            "cluster.local_users lets every user of this machine in, and who calls %s is not known: "
            "listen on unix:PATH alone, or use TLS (%s, or set section tls)",
            addr, certificate_remedy(key));
}

static void check_listens(struct checker *k, const char *key, const char *list)
{
    char addr[ADDR_TEXT], why[512];

    if (!*list)
        complain_of_value(k, key, "nothing to listen on: name an address, HOST:PORT or unix:PATH");
    while (*list) {
        list = addr_first(list, addr);
        if (addr_check(addr, why, sizeof why))
            complain_of_value(k, key, "%s", why);
        else if (!addr_is_local(addr))
            check_beyond(k, key, addr, "can be reached from other machines");
        else
            check_users(k, key, addr);
    }
}

/* Where others need a credential for a call, they need one for metrics. */
static void check_metrics(struct checker *k, const char *key, const char *addr)
{
    const struct config *c = k->c;
    bool guarded = *c->cluster.token_file || will_have_tls(c, key) || c->cluster.local_users;

    if (!*addr)
        return;
    check_address(k, key, addr);
    if (!*c->cluster.metrics_token_file && (guarded || (!c->cluster.insecure && !addr_is_local(addr))))
        complain_of_value(
            k, key,
            "whoever reaches %s could read the metrics: set cluster.metrics_token_file, " TOKEN_REMEDY, addr);
}

static void check_directory(struct checker *k, const char *key, const char *path)
{
    if (*path != '/')
        complain_of_value(k, key, "it must be an absolute path");
}

/* ---- Sections ---- */

/* " stealing promotion …" */
#define FLAG_LISTED(name, bit, scope, key, help) " " key

static void policy_flags_known(struct checker *k, const char *key, const char *list)
{
    while (*list) {
        size_t len = strcspn(list, ",");

        if (!policy_flag(list, len))
            complain_of_value(k, key, "there is no policy flag \"%.*s\"; there are" POLICY_FLAGS(FLAG_LISTED),
                              (int)len, list);
        list += len + (list[len] == ',');
    }
}

/* Checks a number of the policy against the range that `hawk policy set` requires: otherwise each change
 * of the policy would be refused for this number. `one` is the value that means 1. */
static void policy_number(struct checker *k, const char *key, enum policy_number n, int64_t value,
                          int64_t one)
{
    int64_t least, greatest;

    policy_number_range(n, &least, &greatest);
    if (value < least || value > greatest)
        complain_of_value(k, key, "it must be %lld to %lld", (long long)(least / one),
                          (long long)(greatest / one));
}

/* Checks central's policy, in whichever section it is. */
static void check_policy(struct checker *k)
{
    const struct config *c = k->c;
    char other[32];

    policy_flags_known(k, "central.policy_on", c->central.policy_on);
    policy_flags_known(k, "central.policy_off", c->central.policy_off);
    policy_number(k, "central.probe_ratio", POLICY_NUMBER_RATIO, c->central.probe_ratio, 1000);
    policy_number(k, "central.steal_cap", POLICY_NUMBER_STEAL_CAP, c->central.steal_cap, 1);
    policy_number(k, "central.steal_max", POLICY_NUMBER_STEAL_MAX, c->central.steal_max, 1);
    policy_number(k, "central.short_first", POLICY_NUMBER_SHORT_FIRST, c->central.short_first, 1);
    at_most(k, "central.long_stretch", c->central.long_stretch, LIMIT_LONG_STRETCH);
    at_most(k, "central.nodes_max", c->central.nodes_max, NODE_ID_MAX);
    at_most(k, "central.history_jobs", c->central.history_jobs, 10000000);
    if (c->central.cutoff != SETTING_AUTO)
        check_positive(k, "central.cutoff", c->central.cutoff);
    check_positive(k, "central.cutoff_default", c->central.cutoff_default);
    check_positive(k, "central.cutoff_max", c->central.cutoff_max);
    if (c->central.cutoff_min > c->central.cutoff_max)
        complain_of_two(k, "central.cutoff_min", "central.cutoff_max",
                        "it is more than central.cutoff_max (%s)",
                        duration_format(other, sizeof other, c->central.cutoff_max));
    if (c->central.cutoff_percentile == 0)
        complain_of_value(k, "central.cutoff_percentile", "it must be more than 0%%");
    if (c->central.short_partition_min > c->central.short_partition_max)
        complain_of_two(k, "central.short_partition_min", "central.short_partition_max",
                        "it is more than central.short_partition_max");
    if (c->central.heartbeat < LIMIT_HEARTBEAT_MIN_US)
        complain_of_value(k, "central.heartbeat", "it must be at least %s: every node sends one so often",
                          duration_format(other, sizeof other, LIMIT_HEARTBEAT_MIN_US));
    if (c->central.suspect < 2 * c->central.heartbeat)
        complain_of_two(k, "central.suspect", "central.heartbeat",
                        "it must be at least twice central.heartbeat (%s)",
                        duration_format(other, sizeof other, c->central.heartbeat));
    if (c->central.long_lease < c->central.suspect)
        complain_of_two(k, "central.long_lease", "central.suspect",
                        "it must be at least central.suspect (%s)",
                        duration_format(other, sizeof other, c->central.suspect));
}

static void check_etcd_tls(struct checker *k)
{
    const struct config *c = k->c;
    const struct tls_files f = {.certificate = c->central.etcd_certificate,
                                .key = c->central.etcd_key,
                                .roots = c->central.etcd_roots};
    char addr[ADDR_TEXT], why[512];

    if (tls_files_any(&f) && !tls_files_all(&f))
        complain_of_value(k, "central.etcd_certificate",
                          "TLS to etcd needs central.etcd_certificate, etcd_key and etcd_roots");
    for (const char *list = c->central.etcd; *list;) {
        list = addr_first(list, addr);
        if (!tls_files_any(&f) && !c->cluster.insecure && addr_check(addr, why, sizeof why) == 0 &&
            !addr_is_local(addr))
            complain_of_value(
                k, "central.etcd",
                "%s is on another machine, and the connection would not be encrypted: set "
                "central.etcd_certificate, etcd_key and etcd_roots, or for tests cluster.insecure",
                addr);
    }
}

static void check_etcd(struct checker *k)
{
    const struct config *c = k->c;
    const char *prefix = c->central.etcd_prefix;
    char lease[32];
    size_t len = strlen(prefix);
    bool ok = len > 0 && len <= ETCD_PREFIX_MAX && prefix[len - 1] != '/';

    for (size_t i = 0; i < len; i++)
        ok = ok && prefix[i] > ' ' && prefix[i] <= '~';
    if (!ok)
        complain_of_value(k, "central.etcd_prefix",
                          "it must be 1 to %d visible ASCII characters, the last one no slash",
                          ETCD_PREFIX_MAX);
    check_addresses(k, "central.etcd", c->central.etcd);
    check_etcd_tls(k);
    /* etcd grants no lease shorter than its own election takes, one to two seconds. */
    if (c->central.leader_lease < 2 * US_PER_S || c->central.leader_lease % US_PER_S)
        complain_of_value(k, "central.leader_lease", "it must be 2 s or more, in whole seconds");
    if (c->central.leader_lease * 2 > c->central.long_lease)
        complain_of_two(k, "central.leader_lease", "central.long_lease",
                        "it must be at most half of central.long_lease (%s)",
                        duration_format(lease, sizeof lease, c->central.long_lease));
}

static void check_central(struct checker *k)
{
    check_listens(k, "central.listen", k->c->central.listen);
    check_metrics(k, "central.metrics_listen", k->c->central.metrics_listen);
    check_directory(k, "central.state_dir", k->c->central.state_dir);
    if (*k->c->central.advertise)
        check_address(k, "central.advertise", k->c->central.advertise);
    if (strcmp(k->c->central.store, "etcd") == 0)
        check_etcd(k);
}

/* A path on this machine, with or without "unix:". */
static void check_socket(struct checker *k, const char *key, const char *path)
{
    if (strncmp(path, "unix:", 5) == 0)
        path += 5;
    if (*path && *path != '/' && strcmp(path, "none") != 0)
        complain_of_value(k, key, "'%s' is no absolute path, nor none", path);
}

/* The client that waited for the job still has to hear of its end. */
#define FINISHED_KEEP_MIN_US (10 * US_PER_S)

static void check_dist(struct checker *k)
{
    const struct config *c = k->c;

    check_name(k, "dist.name", c->dist.name);
    check_listens(k, "dist.listen", c->dist.listen);
    check_metrics(k, "dist.metrics_listen", c->dist.metrics_listen);
    check_socket(k, "dist.socket", c->dist.socket);
    check_centrals(k, "dist.central", c->dist.central);
    check_directory(k, "dist.state_dir", c->dist.state_dir);
    if (c->dist.finished_keep && c->dist.finished_keep < FINISHED_KEEP_MIN_US)
        complain_of_value(k, "dist.finished_keep", "it must be 10 s or more, or 0s");
    if (*c->dist.advertise)
        check_address(k, "dist.advertise", c->dist.advertise);
}

int config_end_time(const struct config *c, int64_t now_us, int64_t *left_us)
{
    const char *text = c->worker.end_time;
    uint64_t s;

    *left_us = TIME_NEVER;
    if (!*text)
        return 0;
    if (u64_parse(text, 0, LIMIT_TIME_US / US_PER_S * 10, &s))
        return duration_parse(text, left_us);
    *left_us = (int64_t)s * US_PER_S - now_us;
    return 0;
}

static void check_worker(struct checker *k)
{
    const struct config *c = k->c;
    int64_t left_us;

    check_name(k, "worker.name", c->worker.name);
    check_listens(k, "worker.listen", c->worker.listen);
    check_metrics(k, "worker.metrics_listen", c->worker.metrics_listen);
    check_centrals(k, "worker.central", c->worker.central);
    check_directory(k, "worker.state_dir", c->worker.state_dir);
    check_directory(k, "worker.output_dir", c->worker.output_dir);
    check_socket(k, "worker.executor_socket", c->worker.executor_socket);
    if (*c->worker.advertise)
        check_address(k, "worker.advertise", c->worker.advertise);
    at_most(k, "worker.slots", c->worker.slots, LIMIT_SLOTS);
    at_most(k, "worker.queue_limit", c->worker.queue_limit, INT32_MAX);
    check_positive(k, "worker.park_min", c->worker.park_min);
    if (c->worker.park_max < c->worker.park_min)
        complain_of_two(k, "worker.park_max", "worker.park_min", "it is less than worker.park_min");
    check_positive(k, "worker.pause_longest", c->worker.pause_longest);
    if (config_end_time(c, 0, &left_us))
        complain_of_value(k, "worker.end_time",
                          "it must be a time from the start, like 2h, or seconds since 1970");
}

/* DESIGN 3.9: the tasks of a dead agent must be gone before they run again elsewhere. A worker's own file
 * may not contain central's lease. The worker hears it when it joins, and checks again then. */
static void check_lease(struct checker *k)
{
    const struct config *c = k->c;
    char grace[32], lease[32];

    if (!k->section && c->worker.agent_grace + c->worker.kill_grace >= c->central.long_lease)
        complain_of_two(
            k, "worker.agent_grace",
            config_is_default(c, "central.long_lease") ? "worker.kill_grace" : "central.long_lease",
            "together with worker.kill_grace (%s) it must be below central.long_lease (%s): a long task "
            "might run twice",
            duration_format(grace, sizeof grace, c->worker.kill_grace),
            duration_format(lease, sizeof lease, c->central.long_lease));
}

/* Where `hawk up` listens for other machines: HOST or HOST:PORT. */
static void check_up_listen(struct checker *k)
{
    char addr[ADDR_TEXT], why[512];

    if (!*k->c->up.listen)
        return;
    if (!*k->c->up.join_dir)
        complain_of_value(k, "up.listen", "without up.join_dir only this machine reaches `hawk up`");
    if (config_up_listen(k->c, addr, why, sizeof why))
        complain_of_value(k, "up.listen", "%s", why);
}

int config_up_listen(const struct config *c, char addr[ADDR_TEXT], char *why, size_t size)
{
    const char *told = c->up.listen, *colon = strrchr(told, ':'), *bracket = strrchr(told, ']');
    bool has_port = colon && (!bracket || colon > bracket);

    if (addr_is_unix(told)) {
        snprintf(why, size, "it must be HOST or HOST:PORT");
        return HAWK_EINVALID;
    }
    snprintf(addr, ADDR_TEXT, has_port ? "%s" : "%s:0", told);
    return addr_check(addr, why, size);
}

/* What the cluster of `hawk up --join-dir` has of its own. */
static void check_up_join(struct checker *k)
{
    static const char *const own[] = {
        "tls.certificate", "central.ca",  "central.listen", "central.store",  "dist.join",
        "dist.central",    "dist.listen", "dist.socket",    "worker.central", "up.metrics_listen"};

    for (size_t i = 0; *k->c->up.join_dir && i < sizeof own / sizeof *own; i++)
        if (!config_is_default(k->c, own[i]))
            complain_of_value(k, own[i], "with up.join_dir `hawk up` chooses this itself: leave it out");
}

static void check_up(struct checker *k)
{
    check_up_listen(k);
    if (strcmp(k->c->up.socket, "none") == 0 && !*k->c->up.join_dir)
        complain_of_value(k, "up.socket", "without up.join_dir clients find `hawk up` by its socket");
    if (k->section)
        check_up_join(k);
    at_most(k, "up.slots", k->c->up.slots, LIMIT_SLOTS);
    check_metrics(k, "up.metrics_listen", k->c->up.metrics_listen);
    check_directory(k, "up.output_dir", k->c->up.output_dir);
}

static void check_tokens(struct checker *k)
{
    const char *clients = k->c->cluster.token_file, *nodes = k->c->cluster.node_token_file;

    if (*nodes && !*clients)
        complain_of_value(k, "cluster.node_token_file",
                          "it is set without cluster.token_file: clients need a token of their own");
    else if (*nodes && strcmp(nodes, clients) == 0)
        complain_of_value(k, "cluster.node_token_file",
                          "it is the same file as cluster.token_file: nodes need a token of their own");
}

static void read_token(struct checker *k, const char *key, const char *path, char **token)
{
    char why[PATH_MAX + 400];

    if (*path && token_read(path, true, token, why, sizeof why))
        complain_of_value(k, key, "%s", why);
}

/* Clients and nodes have a token each. `hawk up` has only its own nodes, which need no links. */
int config_tokens(const struct config *c, const char *section, char **token, char **node_token, FILE *err)
{
    struct checker k = {.c = c, .section = section, .err = err};

    *token = *node_token = NULL;
    read_token(&k, "cluster.token_file", c->cluster.token_file, token);
    if (section && strcmp(section, "up") == 0)
        return k.errors ? HAWK_EINVALID : 0;
    read_token(&k, "cluster.node_token_file", c->cluster.node_token_file, node_token);
    if (*token && *node_token && strcmp(*token, *node_token) == 0)
        complain_of_value(&k, "cluster.node_token_file",
                          "it and %s hold the same token: whoever has the clients' could act as a node; "
                          "write another into one of them: " TOKEN_REMEDY,
                          c->cluster.token_file);
    if (*token && !*c->cluster.node_token_file)
        *node_token = xstrdup(*token);
    return k.errors ? HAWK_EINVALID : 0;
}

/* ---- TLS ---- */

static struct tls_files tls_files_of(const struct config *c)
{
    return (struct tls_files){.certificate = c->tls.certificate, .key = c->tls.key, .roots = c->tls.roots};
}

static void check_tls(struct checker *k)
{
    const struct tls_files f = tls_files_of(k->c);
    const char *key = *f.certificate ? "tls.certificate" : *f.key ? "tls.key" : "tls.roots";
    char missing[64];

    if (k->c->tls.optional && !*k->c->cluster.token_file)
        complain_of_value(
            k, "tls.optional",
            "it is set without cluster.token_file: whoever shows no certificate would need nothing");
    if (!tls_files_any(&f) || tls_files_all(&f))
        return;
    snprintf(missing, sizeof missing, "%s%s%s", *f.certificate ? "" : " tls.certificate",
             *f.key ? "" : " tls.key", *f.roots ? "" : " tls.roots");
    complain_of_value(k, key, "TLS needs all three files, and these are not set:%s", missing);
}

/* The daemon's own role and name, as the certificate must have them. */
static void check_identity(struct checker *k, const struct identity *who)
{
    const char *name = strcmp(k->section, "dist") == 0     ? k->c->dist.name
                       : strcmp(k->section, "worker") == 0 ? k->c->worker.name
                                                           : who->name;
    bool named = strcmp(k->section, "central") != 0; /* central has no name of its own */
    char text[IDENTITY_TEXT];

    if (strcmp(identity_role(who), k->section) != 0 || strcmp(who->name, name) != 0)
        complain_of_value(k, "tls.certificate", "it is for %s, and not for %s%s%s", identity_text(who, text),
                          k->section, named ? " " : "", named ? name : "");
}

/* All files that cannot be read, else what tls_new says of one. */
static void complain_of_tls(struct checker *k, const struct tls_files *f, const char *why)
{
    const char *const files[][2] = {
        {"tls.certificate", f->certificate}, {"tls.key", f->key}, {"tls.roots", f->roots}};
    const char *said = "hawk";

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *key = files[i][0];
        if (access(files[i][1], R_OK) < 0) {
            fprintf(k->err, "%s: %s: %s: %s\n", config_origin(k->c, key), key, files[i][1], strerror(errno));
            k->errors++;
        }
        if (strncmp(why, key, strlen(key)) == 0)
            said = config_origin(k->c, key);
    }
    if (!k->errors)
        fprintf(k->err, "%s: %s\n", said, why);
}

int config_tls(const struct config *c, const char *section, struct tls **tls, FILE *err)
{
    struct checker k = {.c = c, .section = section, .err = err};
    const struct tls_files f = tls_files_of(c);
    char why[TLS_WHY];

    *tls = NULL;
    if (!tls_files_all(&f) || (section && strcmp(section, "up") == 0))
        return 0;
    *tls = tls_new(&f, why);
    if (!*tls) {
        complain_of_tls(&k, &f, why);
        return HAWK_EINVALID;
    }
    if (section)
        check_identity(&k, tls_identity(*tls));
    if (c->tls.optional)
        tls_make_optional(*tls);
    return k.errors ? HAWK_EINVALID : 0;
}

bool config_warning(const struct config *c, const char *section, char *text, size_t size)
{
    if (!*c->cluster.token_file || *c->cluster.node_token_file || (section && strcmp(section, "up") == 0))
        return false;
    snprintf(text, size,
             "cluster.node_token_file is not set: the token in %s, which clients have, opens links as well, "
             "and whoever has it can act as a worker or a dist; set cluster.node_token_file on every "
             "daemon's machine to a file that clients cannot read",
             c->cluster.token_file);
    return true;
}

int config_validate(const struct config *c, const char *section, FILE *err)
{
    struct checker k = {.c = c, .section = section, .err = err};

    if (!section || strcmp(section, "up") != 0)
        check_tokens(&k);
    check_tls(&k);
    if (is_about(&k, "central") || is_about(&k, "up"))
        check_policy(&k);
    if (is_about(&k, "central"))
        check_central(&k);
    if (is_about(&k, "dist"))
        check_dist(&k);
    if (is_about(&k, "worker"))
        check_worker(&k);
    if (is_about(&k, "up"))
        check_up(&k);
    check_lease(&k);
    return k.errors ? HAWK_EINVALID : 0;
}
