/* See columns.h. */
#include "bench/lib/columns.h"

#include "ca/ca.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The machine's own, mounted where every system has a directory. bench/hawk-run-as was built for the configuration. */
#define MACHINE "/mnt"
#define DAEMONS_UID 61100
#define USERS_UID 61001
#define FLAGS_MAX 40

static const char *const titles[COLUMNS] = {"plain", "TLS and signatures", "run-as"};

/* ---- The machine ---- */

static bool left_out(const char *why)
{
    printf("run-as is left out: %s\n", why);
    return false;
}

static void must_run(const char *program, const char *a, const char *b, const char *c)
{
    int status = -1;

    if (waitpid(start_program(program, a, b, c, NULL), &status, 0) < 0 || status != 0)
        bench_die("%s %s %s %s failed", program, a, b, c);
}

static void account(FILE *passwd, FILE *group, const char *name, unsigned uid)
{
    fprintf(passwd, "%s:x:%u:%u::" MACHINE "/home:/bin/sh\n", name, uid, uid);
    fprintf(group, "%s:x:%u:\n", name, uid);
}

static void add_accounts(void)
{
    FILE *passwd = fopen(MACHINE "/passwd", "ae"), *group = fopen(MACHINE "/group", "ae");
    char name[16];

    if (!passwd || !group)
        bench_die(MACHINE "/passwd cannot be written");
    account(passwd, group, "hawk-bench", DAEMONS_UID);
    for (unsigned i = 0; i < COLUMN_USERS; i++) {
        snprintf(name, sizeof name, "bench%u", i);
        account(passwd, group, name, USERS_UID + i);
    }
    if (fclose(passwd) || fclose(group))
        bench_die(MACHINE "/passwd cannot be written");
}

static void write_configuration(const char *more)
{
    FILE *f = fopen(MACHINE "/run-as.conf", "we");

    if (!f || fprintf(f, "hawk " MACHINE "/hawk-runner\ncaller hawk-bench\n%s", more) < 0 || fclose(f))
        bench_die(MACHINE "/run-as.conf cannot be written");
}

void columns_let_runners_verify(const struct site *p)
{
    char root[PATH_MAX];

    snprintf(root, sizeof root, "%s/users/root.crt", p->dir);
    must_run("install", "-m0644", root, MACHINE "/root.crt");
    write_configuration("user_root " MACHINE "/root.crt\n");
}

static void install_programs(char *hawk)
{
    char path[PATH_MAX + 32];
    char *name = strrchr(hawk, '/') + 1;

    must_run("install", "-m0755", hawk, MACHINE "/hawk");
    *name = '\0';
    snprintf(path, sizeof path, "%shawk-runner", hawk);
    must_run("install", "-m0755", path, MACHINE "/hawk-runner");
    snprintf(path, sizeof path, "%sbench/hawk-run-as", hawk);
    must_run("install", "-m0750", path, MACHINE "/hawk-run-as");
    if (chown(MACHINE "/hawk-run-as", 0, DAEMONS_UID) || chmod(MACHINE "/hawk-run-as", 04750))
        bench_die(MACHINE "/hawk-run-as: %s", strerror(errno));
}

bool columns_enter_machine(void)
{
    char hawk[PATH_MAX], real[PATH_MAX];

    if (geteuid() != 0)
        return left_out("only root can install hawk-run-as");
    if (!realpath(hawk_path(hawk), real))
        bench_die("%s: %s", hawk, strerror(errno));
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("hawk-bench", MACHINE, "tmpfs", 0, "mode=0755"))
        return left_out("no machine of its own can be made here (mount namespaces)");
    if (mkdir(MACHINE "/home", 0755))
        bench_die(MACHINE "/home: %s", strerror(errno));
    must_run("cp", "/etc/passwd", "/etc/group", MACHINE);
    add_accounts();
    if (mount(MACHINE "/passwd", "/etc/passwd", NULL, MS_BIND, NULL) ||
        mount(MACHINE "/group", "/etc/group", NULL, MS_BIND, NULL))
        bench_die("/etc/passwd: %s", strerror(errno));
    write_configuration("");
    install_programs(real);
    return true;
}

/* ---- Certificates ---- */

static void certify(const struct site *p, const struct identity *who)
{
    char why[PATH_MAX + 200], key[PATH_MAX];

    if (ca_issue(p->dir, who, CA_NODE_LIFE_US, p->dir, why, sizeof why))
        bench_die("%s", why);
    snprintf(key, sizeof key, "%s/%s.key", p->dir, who->name);
    if (p->column == COLUMN_RUN_AS && who->role != ROLE_NONE && chown(key, DAEMONS_UID, DAEMONS_UID))
        bench_die("%s: %s", key, strerror(errno));
}

struct tls *site_client(const struct site *p, unsigned user)
{
    static const char *const variables[] = {"HAWK_TLS_CERTIFICATE", "HAWK_TLS_KEY", "HAWK_TLS_ROOTS"};
    struct identity who = {.role = ROLE_NONE, .has_uid = true, .uid = USERS_UID + user};
    char path[3][PATH_MAX], why[TLS_WHY];
    struct tls *tls;

    for (int i = 0; i < 3; i++)
        unsetenv(variables[i]);
    if (p->column == COLUMN_PLAIN)
        return NULL;
    snprintf(who.name, sizeof who.name, "bench%u", user);
    certify(p, &who);
    snprintf(path[0], PATH_MAX, "%s/%s.crt", p->dir, who.name);
    snprintf(path[1], PATH_MAX, "%s/%s.key", p->dir, who.name);
    snprintf(path[2], PATH_MAX, "%s/" CA_ROOTS, p->dir);
    for (int i = 0; i < 3; i++)
        setenv(variables[i], path[i], 1);
    tls = tls_new(&(struct tls_files){.certificate = path[0], .key = path[1], .roots = path[2]}, why);
    return tls ? tls : (bench_die("%s", why), NULL);
}

/* ---- Daemons ---- */

void site_make(struct site *p, enum column c, const char *hawk)
{
    char why[PATH_MAX + 200];

    *p = (struct site){.column = c};
    snprintf(p->hawk, sizeof p->hawk, "%s", c == COLUMN_RUN_AS ? MACHINE "/hawk" : hawk);
    make_dir(p->dir, sizeof p->dir, "hawk-bench");
    if (c != COLUMN_PLAIN && ca_init(p->dir, why, sizeof why))
        bench_die("%s", why);
    if (c == COLUMN_RUN_AS && (chmod(p->dir, 0755) || chown(p->dir, DAEMONS_UID, DAEMONS_UID)))
        bench_die("%s: %s", p->dir, strerror(errno));
}

void site_remove(struct site *p) { remove_dir(p->dir); }

/* A daemon's certificate and configuration. */
static void configure(const struct site *p, char path[PATH_MAX], enum role role, const char *name)
{
    struct identity who = {.role = role};
    FILE *f;

    snprintf(path, PATH_MAX, "%s/%s.yaml", p->dir, name);
    f = fopen(path, "we");
    if (f && p->column != COLUMN_PLAIN) {
        snprintf(who.name, sizeof who.name, "%s", name);
        certify(p, &who);
        fprintf(f, "tls:\n  certificate: %s/%s.crt\n  key: %s/%s.key\n  roots: %s/" CA_ROOTS "\n", p->dir,
                name, p->dir, name, p->dir);
        fprintf(f, "cluster:\n  require_signatures: yes\n  shared_apps: noop\n");
        fprintf(f, "dist:\n  user_submit_rate: 1000000\n"); /* one user's limit is not what is measured */
        fprintf(f, "worker:\n  run_as: %s\n", p->column == COLUMN_RUN_AS ? "user" : "any");
        if (p->column == COLUMN_RUN_AS)
            fprintf(f, "  run_as_helper: " MACHINE "/hawk-run-as\n");
    }
    if (!f || fclose(f))
        bench_die("%s cannot be written", path);
}

pid_t site_start(const struct site *p, char addr[ADDRESS_MAX], enum role role, const char *name, ...)
{
    /* setpriv's user and group are DAEMONS_UID. */
    static const char *const as_daemons[] = {"setpriv", "--reuid=61100", "--regid=61100", "--clear-groups",
                                             "--pdeathsig=KILL"};
    const char *argv[FLAGS_MAX];
    char config[PATH_MAX], state[PATH_MAX];
    int n = 0;
    va_list ap;

    _Static_assert(DAEMONS_UID == 61100, "as above");
    configure(p, config, role, name);
    snprintf(state, sizeof state, "%s/%s", p->dir, name);
    for (size_t i = 0; p->column == COLUMN_RUN_AS && i < sizeof as_daemons / sizeof *as_daemons; i++)
        argv[n++] = as_daemons[i];
    const char *const flags[] = {p->hawk,       role_text(role), "--config",    config,
                                 "--state-dir", state,           "--log-level", "error"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        argv[n++] = flags[i];
    if (role != ROLE_CENTRAL) {
        argv[n++] = "--name";
        argv[n++] = name;
    }
    va_start(ap, name);
    while ((argv[n] = va_arg(ap, const char *)))
        if (++n == FLAGS_MAX)
            bench_die("too many flags");
    va_end(ap);
    return start_daemon_argv(argv, addr);
}

/* ---- Figures ---- */

const char *column_figure(char name[128], const char *what, enum column c)
{
    snprintf(name, 128, "%s%s%s", what, c == COLUMN_PLAIN ? "" : ", ", c == COLUMN_PLAIN ? "" : titles[c]);
    return name;
}

static const char *of_plain(char name[128], const char *what, enum column c)
{
    snprintf(name, 128, "%s, %s, of plain", what, titles[c]);
    return name;
}

void columns_add(struct figures *f, const char *what, const char *unit, const double rates[COLUMNS])
{
    char name[128];

    for (int c = 0; c < COLUMNS; c++) {
        if (rates[c] > 0)
            figures_add(f, column_figure(name, what, c), unit, rates[c]);
        if (c != COLUMN_PLAIN && rates[c] > 0)
            figures_add(f, of_plain(name, what, c), "%", 100 * rates[c] / rates[COLUMN_PLAIN]);
    }
}

void columns_print(struct figures *f, const char *const *what, uint32_t n)
{
    char name[128];

    printf("\n%-46s", "medians");
    for (int c = 0; c < COLUMNS; c++)
        printf(" %12s%s", c == COLUMN_SIGNED ? "TLS, signed" : titles[c],
               c == COLUMN_PLAIN ? "" : "  of plain");
    for (uint32_t i = 0; i < n; i++) {
        if (figures_median(f, what[i]) <= 0)
            continue;
        printf("\n%-46s", what[i]);
        for (int c = 0; c < COLUMNS; c++) {
            double v = figures_median(f, column_figure(name, what[i], c));
            int digits = v < 100 ? 1 : 0;

            if (v <= 0)
                printf(" %12s%s", "-", c == COLUMN_PLAIN ? "" : "         -");
            else if (c == COLUMN_PLAIN)
                printf(" %12.*f", digits, v);
            else
                printf(" %12.*f %7.0f %%", digits, v, figures_median(f, of_plain(name, what[i], c)));
        }
    }
    printf("\n\n");
}
