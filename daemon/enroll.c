/* See enroll.h. */
#include "daemon/enroll.h"

#include "base/io.h"
#include "base/mem.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "ca/kept.h"
#include "cli/command.h"
#include "cli/document.h"
#include "net/addr.h"
#include "net/api.h"
#include "net/join_dir.h"
#include "net/rpc.h"
#include "net/tls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL_US (10 * US_PER_S)
#define AGAIN_US US_PER_S
#define FIND_TRIES 5 /* for a cluster that does not answer */
#define FIND_MS 2000
#define DIR_NAME "tls"
#define JOINED "joined" /* a worker's name, in state_dir, where the invitation said it */
#define USAGE 2

/* What the sections of nodes have in common. */
struct joiner {
    enum role role;
    const char *join, *state_dir;
    bool from_dir;                            /* join is a file of worker.join_dir */
    const char *const *name, *const *central; /* of the configuration */
    char dir[PATH_MAX];
};

static int set_setting(struct process *p, const char *name, const char *value, const char *origin)
{
    char key[64], why[512];

    snprintf(key, sizeof key, "%s.%s", p->section, name);
    if (config_set(&p->config, strchr(name, '.') ? name : key, value, origin, why, sizeof why) == 0)
        return 0;
    say_error(p->section, "%s: %s", origin, why);
    return PROCESS_FAILED;
}

static bool is_unset(const struct process *p, const char *name)
{
    char key[64];

    snprintf(key, sizeof key, "%s.%s", p->section, name);
    return config_is_default(&p->config, key);
}

static int use_kept(struct process *p, const char *dir)
{
    static const char *const files[][2] = {
        {"tls.certificate", KEPT_CERTIFICATE}, {"tls.key", KEPT_KEY}, {"tls.roots", KEPT_ROOTS}};
    char path[PATH_MAX], why[PATH_MAX + 100];

    for (int i = 0; i < 3; i++)
        if (!ca_path(path, dir, files[i][1], why, sizeof why) ||
            set_setting(p, files[i][0], path, "kept in state_dir"))
            return PROCESS_FAILED;
    free(p->kept);
    p->kept = xstrdup(dir);
    return 0;
}

/* ---- Joining, in a process of its own: gRPC starts threads ---- */

struct joining_node {
    const char *section, *dir, *name, *central, *text;
    const struct invitation *v;
};

static int take_answer(const struct joining_node *n, const uint8_t *reply, size_t len, char *why, size_t size)
{
    struct identity who = {.role = n->v->role};
    struct api_join_reply r;
    char id[24];
    int err = api_decode(&api_join_reply_type, reply, len, &r, why, size);

    if (err)
        return err;
    snprintf(who.name, sizeof who.name, "%s", n->name);
    snprintf(id, sizeof id, "%016llx", (unsigned long long)n->v->id);
    err = kept_put(n->dir, KEPT_ROOTS, n->v->roots, why, size);
    if (!err)
        err = kept_put(n->dir, KEPT_CENTRAL, n->central, why, size);
    if (!err)
        err = kept_take(n->dir, &who, r.certificate, why, size);
    if (!err)
        err = kept_put(n->dir, KEPT_INVITATION, id, why, size);
    api_free(&api_join_reply_type, &r);
    return err;
}

/* One call of one central. HAWK_EUNAVAILABLE: it may help to try again. */
static int ask_once(const struct joining_node *n, struct loop *l, struct tls *tls, const char *addr,
                    const uint8_t *request, size_t len, char *why, size_t size)
{
    struct channel *ch = channel_new_tls(l, addr, NULL, tls, ROLE_CENTRAL);
    uint8_t *reply = NULL;
    size_t reply_len;
    char *text = NULL;
    int err =
        rpc_call_sync(l, ch, API_JOIN_METHOD, request, len, CALL_US, false, &reply, &reply_len, NULL, &text);

    if (err)
        snprintf(why, size, "%s", text);
    else
        err = take_answer(n, reply, reply_len, why, size);
    free(reply);
    free(text);
    channel_free(ch);
    return err == HAWK_ETIMEOUT ? HAWK_EUNAVAILABLE : err;
}

/* Asks all centrals, until one has answered. */
static int ask_centrals(const struct joining_node *n, struct loop *l, struct tls *tls, const uint8_t *request,
                        size_t len)
{
    char addr[ADDR_TEXT], why[PATH_MAX + 512];
    bool told = false;

    for (const char *next = n->central;;) {
        next = addr_first(next, addr);
        int err = ask_once(n, l, tls, addr, request, len, why, sizeof why);
        if (err != HAWK_EUNAVAILABLE) {
            if (err)
                say_error(n->section, "central at %s did not let %s join: %s", addr, n->name, why);
            return err ? PROCESS_FAILED : 0;
        }
        if (!told)
            say_error(n->section,
                      "cannot join yet: central at %s: %s; trying again (only a central with --ca, the "
                      "directory of `hawk "
                      "ca init`, lets nodes join)",
                      addr, why);
        told = true;
        if (!*next) {
            next = n->central;
            usleep(AGAIN_US);
        }
    }
}

static int join_cluster(const struct joining_node *n)
{
    char why[PATH_MAX + 512];
    struct api_join_request r = {.invitation = n->text, .name = n->name};
    uint8_t *der = NULL, *data;
    size_t der_len = 0, len;
    int code = kept_request(n->dir, &der, &der_len, why, sizeof why);
    struct tls *tls = code ? NULL : tls_new_guest(n->v->roots);

    if (!tls) {
        say_error(n->section, "%s", code ? why : "the invitation holds no certificate of a root");
        free(der);
        return PROCESS_FAILED;
    }
    r.request = der;
    r.request_n = (uint32_t)der_len;
    api_encode(&api_join_request_type, &r, &data, &len);
    struct loop *l = loop_new(LOOP_NET);
    code = ask_centrals(n, l, tls, data, len);
    tls_free(tls);
    loop_free(l);
    free(data);
    free(der);
    return code;
}

static int join_in_child(const struct joining_node *n)
{
    pid_t parent = getpid(), pid = fork();
    int status;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(PROCESS_FAILED);
        exit(join_cluster(n));
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return PROCESS_FAILED;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : PROCESS_FAILED;
}

/* ---- Nodes ---- */

/* Reads the configured invitation. *text NULL: there is none, or its file is gone after it was used. */
static int take_invitation(const struct joiner *at, bool kept, char **text, struct invitation *v, char *why,
                           size_t size)
{
    const char *file = strcmp(at->join, "-") == 0 ? "standard input" : at->join;
    char what[200] = "";
    int err;

    *text = NULL;
    if (!*at->join)
        return 0;
    err = at->from_dir ? join_dir_file(at->join, text, why, size) : ca_read(at->join, text, why, size);
    if (err == HAWK_ENOT_FOUND && kept)
        return 0;
    if (!err)
        err = invitation_read(v, *text, NULL, what, sizeof what);
    if (!err && v->role != at->role) {
        snprintf(what, sizeof what, "the invitation is for a %s", role_text(v->role));
        err = HAWK_EINVALID;
    }
    return *what ? ca_complain(why, size, err, file, what) : err;
}

static int read_invitation(const struct process *p, const struct joiner *at, bool kept, char **text,
                           struct invitation *v)
{
    char why[PATH_MAX + 200];
    int err = take_invitation(at, kept, text, v, why, sizeof why);

    if (err)
        say_error(p->section, "%s.join: %s", p->section, why);
    return err ? USAGE : 0;
}

static void set_place(struct joiner *at, const struct config *c, enum role role)
{
    *at = role == ROLE_WORKER ? (struct joiner){.role = ROLE_WORKER,
                                                .join = c->worker.join,
                                                .from_dir = *c->worker.join_dir,
                                                .state_dir = c->worker.state_dir,
                                                .name = &c->worker.name,
                                                .central = &c->worker.central}
                              : (struct joiner){.role = ROLE_DIST,
                                                .join = c->dist.join,
                                                .state_dir = c->dist.state_dir,
                                                .name = &c->dist.name,
                                                .central = &c->dist.central};
}

/* The directory of the kept files: several workers share one state_dir. */
static bool set_dir(struct joiner *at)
{
    int n = at->role == ROLE_WORKER
                ? snprintf(at->dir, sizeof at->dir, "%s/%s/" DIR_NAME, at->state_dir, *at->name)
                : snprintf(at->dir, sizeof at->dir, "%s/" DIR_NAME, at->state_dir);

    return n > 0 && n < (int)sizeof at->dir;
}

/* The name that an earlier invitation said, where nobody says one. */
static int recall_name(struct process *p, struct joiner *at)
{
    struct identity kept;
    char *name = NULL;
    int code = 0;

    if (at->role == ROLE_WORKER)
        name = kept_get(at->state_dir, JOINED);
    else if (set_dir(at) && kept_look(at->dir, &kept))
        name = xstrdup(kept.name);
    if (name && *name)
        code = set_setting(p, "name", name, "joined under it");
    free(name);
    return code;
}

static int join_once(struct process *p, struct joiner *at, const struct invitation *v, const char *text,
                     bool invited)
{
    char why[PATH_MAX + 512];
    struct joining_node n = {.section = p->section,
                             .dir = at->dir,
                             .name = *at->name,
                             .central = *v->central && is_unset(p, "central") ? v->central : *at->central,
                             .text = text,
                             .v = v};
    int code;

    if (!invitation_fits(v, n.name)) {
        say_error(p->section, "%s.join: the invitation is for %s, and this %s is %s: start it with --name",
                  p->section, v->name, p->section, n.name);
        return USAGE;
    }
    if (dir_make(at->dir, 0700, why, sizeof why)) {
        say_error(p->section, "%s.state_dir: %s", p->section, why);
        return PROCESS_FAILED;
    }
    code = join_in_child(&n);
    if (!code && invited && at->role == ROLE_WORKER &&
        kept_put(at->state_dir, JOINED, n.name, why, sizeof why)) {
        say_error(p->section, "%s", why);
        return PROCESS_FAILED;
    }
    return code;
}

/* Whether the invitation is to be used: another one was, or none, or the certificate is good no more. */
static bool is_new(const struct joiner *at, const struct invitation *v)
{
    struct identity kept;
    char *id, own[24];
    bool new;

    if (!kept_look(at->dir, &kept) || kept.until_s <= time(NULL))
        return true;
    snprintf(own, sizeof own, "%016llx", (unsigned long long)v->id);
    id = kept_get(at->dir, KEPT_INVITATION);
    new = strcmp(id, own) != 0;
    free(id);
    return new;
}

static int enroll_node(struct process *p)
{
    struct joiner at;
    struct invitation v = {0};
    struct identity kept;
    bool unset = is_unset(p, "name"), invited;
    char *text = NULL, *central;
    int code;

    set_place(&at, &p->config, strcmp(p->section, "worker") == 0 ? ROLE_WORKER : ROLE_DIST);
    code = unset ? recall_name(p, &at) : 0;
    if (!code)
        code = read_invitation(p, &at, set_dir(&at) && kept_look(at.dir, &kept), &text, &v);
    invited = unset && text && !invitation_has_pattern(&v);
    if (!code && invited)
        code = set_setting(p, "name", v.name, "the invitation's");
    if (!code && text && set_dir(&at) && is_new(&at, &v))
        code = join_once(p, &at, &v, text, invited);
    if (!code && set_dir(&at) && kept_look(at.dir, &kept)) {
        code = use_kept(p, at.dir);
        central = kept_get(at.dir, KEPT_CENTRAL);
        if (!code && *central && is_unset(p, "central"))
            code = set_setting(p, "central", central, "the invitation's");
        free(central);
    }
    free(text);
    invitation_free(&v);
    return code;
}

/* As set_place and set_dir, with the name that an earlier invitation said, which is freed by the caller. False: the
 * path is too long. */
static bool find_place(struct joiner *at, const struct config *c, enum role role, const char **name,
                       char **joined)
{
    set_place(at, c, role);
    *joined =
        role == ROLE_WORKER && config_is_default(c, "worker.name") ? kept_get(at->state_dir, JOINED) : NULL;
    *name = *joined;
    if (*joined && **joined)
        at->name = name;
    return set_dir(at);
}

int enroll_look(const struct config *c, enum role role, char *why, size_t size)
{
    struct joiner at;
    struct invitation v = {0};
    struct identity kept;
    char *text, *joined;
    const char *name;
    bool found = find_place(&at, c, role, &name, &joined);
    int err = take_invitation(&at, found && kept_look(at.dir, &kept), &text, &v, why, size);

    free(joined);
    free(text);
    invitation_free(&v);
    return err;
}

bool enroll_may_be_kept(const struct config *c, enum role role)
{
    struct joiner at;
    struct identity kept;
    char *joined;
    const char *name;
    bool may = find_place(&at, c, role, &name, &joined) &&
               (kept_look(at.dir, &kept) || (access(at.dir, F_OK) < 0 && errno == EACCES));

    free(joined);
    return may;
}

/* ---- By a directory of `hawk up --join-dir` ---- */

/* Workers of the same user may have joined other clusters under the same name. */
static int set_own_state_dir(struct process *p)
{
    char dir[PATH_MAX];

    if (!is_unset(p, "state_dir"))
        return 0;
    if (snprintf(dir, sizeof dir, "%s/join", p->config.worker.state_dir) >= (int)sizeof dir) {
        say_error(p->section, "worker.state_dir: the default is too long");
        return PROCESS_FAILED;
    }
    return set_setting(p, "state_dir", dir, "beside those of other clusters");
}

static int set_own_output_dir(struct process *p, const struct join_dir *j)
{
    char dir[PATH_MAX];

    if (!is_unset(p, "output_dir"))
        return 0;
    if (!join_dir_output(j->id, p->config.worker.output_dir, dir, sizeof dir)) {
        say_error(p->section, "worker.output_dir: the default is too long");
        return PROCESS_FAILED;
    }
    return set_setting(p, "output_dir", dir, "beside those of other clusters");
}

/* Whether the cluster that the directory tells of is up: it may have died, or this machine may not reach it. */
static int find_cluster(struct process *p, struct join_dir *j)
{
    const char *dir = p->config.worker.join_dir;
    char why[PATH_MAX + 600], where[JOIN_DIR_WHERE + ADDR_TEXT];

    if (join_dir_read(dir, j, why, sizeof why)) {
        say_error(p->section, "worker.join_dir: %s", why);
        return PROCESS_FAILED;
    }
    for (int i = 0; i < FIND_TRIES; i++) {
        if (addr_answers(j->central, FIND_MS))
            return 0;
        usleep(AGAIN_US);
    }
    say_error(p->section,
              "worker.join_dir: the cluster of %s does not answer (%s): it is gone, or this machine does not "
              "reach it; "
              "start it with `hawk up --join-dir %s`, there with --listen if it must have another address",
              dir, join_dir_where(j, where), dir);
    return PROCESS_FAILED;
}

static int follow_join_dir(struct process *p)
{
    static const char *const others[] = {"join", "central", "tls.certificate"};
    const char *dir = p->config.worker.join_dir;
    char path[PATH_MAX], why[PATH_MAX + 200];
    struct join_dir j;
    int code;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strchr(others[i], '.') ? !config_is_default(&p->config, others[i]) : !is_unset(p, others[i])) {
            say_error(p->section, "worker.join_dir and %s%s both say how to join: leave one out",
                      strchr(others[i], '.') ? "" : "worker.", others[i]);
            return USAGE;
        }
    if ((code = find_cluster(p, &j)) != 0)
        return code;
    if (!ca_path(path, dir, JOIN_DIR_INVITATION, why, sizeof why)) {
        say_error(p->section, "worker.join_dir: %s", why);
        return PROCESS_FAILED;
    }
    code = set_setting(p, "join", path, "worker.join_dir");
    if (!code)
        code = set_setting(p, "central", j.central, "worker.join_dir");
    if (!code && is_unset(p, "run_as"))
        code = set_setting(p, "run_as", "own", "worker.join_dir");
    if (!code)
        code = set_own_state_dir(p);
    return code ? code : set_own_output_dir(p, &j);
}

/* ---- Central ---- */

int enroll_central(struct process *p, char *why, size_t size)
{
    struct identity who = {.role = ROLE_CENTRAL};
    uint8_t *der = NULL;
    size_t len;
    char *pem = NULL;
    int err;

    if (gethostname(who.name, sizeof who.name - 1) != 0 || !identity_name_fits(who.name))
        snprintf(who.name, sizeof who.name, "central");
    err = kept_request(p->kept, &der, &len, why, size);
    if (!err)
        err = ca_sign_request(p->root, &who, der, len, p->config.central.certificate_life, &pem,
                              &(uint64_t){0});
    if (!err)
        err = kept_take(p->kept, &who, pem, why, size);
    free(der);
    free(pem);
    return err;
}

static int copy_roots(const char *ca, const char *dir, char *why, size_t size)
{
    char path[PATH_MAX], *roots = NULL;
    int err = ca_path(path, ca, "roots.crt", why, size) ? ca_read(path, &roots, why, size) : HAWK_EIO;

    if (!err)
        err = kept_put(dir, KEPT_ROOTS, roots, why, size);
    free(roots);
    return err;
}

static int enroll_own(struct process *p)
{
    const struct config *c = &p->config;
    char dir[PATH_MAX], why[PATH_MAX + 512];
    int err = ca_root_open(&p->root, c->central.ca, ROLE_CENTRAL, why, sizeof why);

    if (err) {
        say_error(p->section, "central.ca: %s", why);
        return USAGE;
    }
    if (*c->tls.certificate)
        return 0;
    if (!ca_path(dir, c->central.state_dir, DIR_NAME, why, sizeof why) ||
        dir_make(dir, 0700, why, sizeof why))
        err = HAWK_EIO;
    p->kept = xstrdup(dir);
    if (!err)
        err = copy_roots(c->central.ca, dir, why, sizeof why);
    if (!err)
        err = enroll_central(p, why, sizeof why);
    if (err) {
        say_error(p->section, "central.ca: %s", why);
        return PROCESS_FAILED;
    }
    return use_kept(p, dir);
}

int enroll(struct process *p)
{
    if (strcmp(p->section, "central") == 0 && *p->config.central.ca)
        return enroll_own(p);
    if (strcmp(p->section, "worker") == 0 && *p->config.worker.join_dir) {
        int code = follow_join_dir(p);
        if (code)
            return code;
    }
    if ((strcmp(p->section, "worker") == 0 || strcmp(p->section, "dist") == 0) && !*p->config.tls.certificate)
        return enroll_node(p);
    return 0;
}
