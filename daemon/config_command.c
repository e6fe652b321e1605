/* `hawk config check FILE` and `hawk config show`. */
#include "base/check.h"
#include "base/near.h"
#include "ca/ca.h"
#include "ca/file.h"
#include "cli/document.h"
#include "cli/print.h"
#include "config/config.h"
#include "daemon/commands.h"
#include "daemon/enroll.h"
#include "daemon/run_as.h"
#include "exec/exec.h"
#include "net/tls.h"
#include "net/token.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char config_details[] =
    "check reads a YAML file (\"-\": standard input) as daemons would and reports every mistake with file "
    "and\n"
    "line: unknown settings, wrong types, values out of range, settings that contradict each other, and "
    "files\n"
    "of tokens or of TLS, directories, roots and invitations that are missing or bad. Exit code 0: they "
    "accept\n"
    "it, 2: they do not. What one role alone reads (central.ca, the files for etcd, join, run_as_helper) may "
    "be\n"
    "missing on this machine: a warning says so.\n"
    "show prints every setting in effect and where its value came from: a default, a line of the file\n"
    "($HAWK_CONFIG, then /etc/hawk/hawk.yaml unless --config names one), or a flag.\n"
    "SECTION is one of cluster, tls, central, dist, worker, up, log.\n";

/* For the help: show reads its flags as daemons do. */
const struct flag config_command_flags[] = {
    {.name = "config", .kind = FLAG_TEXT, .arg = "FILE", .help = "the file to read"},
    {.name = "set",
     .kind = FLAG_LIST,
     .arg = "SECTION.NAME=VALUE",
     .help = "show: with this setting changed"},
    {.name = "output", .letter = 'o', .kind = FLAG_CHOICE, .arg = "table|json", .help = "form of the output"},
    {0},
};

/* The user of the daemons may read files that this user may not. */
static bool is_hidden(const char *file)
{
    if (!*file || access(file, R_OK) == 0 || errno != EACCES)
        return false;
    say_warning("config", "%s is not checked: this user may not read it", file);
    return true;
}

static bool tokens_ok(const struct config *c, FILE *err)
{
    char *token, *node_token;
    bool unknown = is_hidden(c->cluster.token_file);

    if (is_hidden(c->cluster.node_token_file) || unknown)
        return true;
    bool ok = config_tokens(c, NULL, &token, &node_token, err) == 0;
    free(token);
    free(node_token);
    return ok;
}

static bool metrics_ok(const struct config *c, FILE *err)
{
    const char *path = c->cluster.metrics_token_file;
    char why[PATH_MAX + 400], *token = NULL;

    if (!*path || is_hidden(path))
        return true;
    bool ok = token_read(path, true, &token, why, sizeof why) == 0;
    if (!ok)
        fprintf(err, "cluster.metrics_token_file: %s\n", why);
    free(token);
    return ok;
}

/* Daemons make the file, and no directory for it: none of them starts without it. */
static bool audit_ok(const struct config *c, FILE *err)
{
    const char *path = c->log.audit, *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    struct stat st;

    if (!*path || is_hidden(path))
        return true;
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int error = stat(path, &st) == 0 ? (S_ISDIR(st.st_mode) ? EISDIR : 0) : stat(dir, &st) ? errno : 0;
    if (error)
        fprintf(err, "log.audit: %s cannot be opened: %s\n", path, strerror(error));
    return error == 0;
}

/* Daemons make directories that are missing. What is there must be one. */
static bool directories_ok(const struct config *c, FILE *err)
{
    const struct {
        const char *key, *path;
    } dirs[] = {{"central.state_dir", c->central.state_dir},
                {"dist.state_dir", c->dist.state_dir},
                {"worker.state_dir", c->worker.state_dir},
                {"worker.output_dir", c->worker.output_dir},
                {"up.output_dir", c->up.output_dir}};
    bool ok = true;
    struct stat st;

    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (stat(dirs[i].path, &st) == 0 ? !S_ISDIR(st.st_mode) : errno == ENOTDIR) {
            fprintf(err, "%s: %s is no directory\n", dirs[i].key, dirs[i].path);
            ok = false;
        }
    if (*c->worker.output_group && !getgrnam(c->worker.output_group))
        say_warning("config", "worker.output_group: there is no group %s on this machine",
                    c->worker.output_group);
    return ok;
}

static bool tls_ok(const struct config *c, FILE *err)
{
    struct tls *tls;

    if (is_hidden(c->tls.key))
        return true;
    bool ok = config_tls(c, NULL, &tls, err) == 0;
    tls_free(tls);
    return ok;
}

/* One file may be for all machines of a cluster. What a role alone reads is not on those where it does not run. */
static bool role_file_ok(const char *key, int result, const char *why, FILE *err)
{
    if (result == HAWK_ENOT_FOUND)
        say_warning("config", "%s: %s: the daemon that reads it cannot start on this machine", key, why);
    else if (result)
        fprintf(err, "%s: %s\n", key, why);
    return result == 0 || result == HAWK_ENOT_FOUND;
}

static bool root_ok(const struct config *c, FILE *err)
{
    char why[PATH_MAX + 512];
    struct ca_root *root = NULL;

    if (!*c->central.ca || is_hidden(c->central.ca))
        return true;
    if (access(c->central.ca, F_OK) < 0 && errno == ENOENT) {
        snprintf(why, sizeof why, "%s: %s", c->central.ca, strerror(errno));
        return role_file_ok("central.ca", HAWK_ENOT_FOUND, why, err);
    }
    int result = ca_root_open(&root, c->central.ca, ROLE_CENTRAL, why, sizeof why);
    ca_root_free(root);
    return role_file_ok("central.ca", result, why, err);
}

static bool role_files_ok(const struct config *c, FILE *err)
{
    const struct {
        const char *key, *path;
    } files[] = {{"central.etcd_certificate", c->central.etcd_certificate},
                 {"central.etcd_key", c->central.etcd_key},
                 {"central.etcd_roots", c->central.etcd_roots}};
    char why[PATH_MAX + 512];
    bool ok = root_ok(c, err);

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = NULL;
        if (*files[i].path && !is_hidden(files[i].path))
            ok &= role_file_ok(files[i].key, ca_read(files[i].path, &text, why, sizeof why), why, err);
        free(text);
    }
    if (!is_hidden(c->dist.join))
        ok &= role_file_ok("dist.join", enroll_look(c, ROLE_DIST, why, sizeof why), why, err);
    if (!is_hidden(c->worker.join))
        ok &= role_file_ok("worker.join", enroll_look(c, ROLE_WORKER, why, sizeof why), why, err);
    snprintf(why, sizeof why, "%s: No such program", c->worker.run_as_helper);
    if (*c->worker.run_as_helper && access(c->worker.run_as_helper, F_OK) < 0 && errno == ENOENT)
        ok &= role_file_ok("worker.run_as_helper", HAWK_ENOT_FOUND, why, err);
    return ok;
}

/* As dists and workers say when they start. The file need not say how a node joined: its certificate may be kept. */
static bool signatures_ok(const struct config *c, FILE *err)
{
    if (!c->cluster.require_signatures || *c->tls.certificate || *c->central.ca || *c->dist.join ||
        *c->worker.join || *c->worker.join_dir || *c->up.join_dir || enroll_may_be_kept(c, ROLE_DIST) ||
        enroll_may_be_kept(c, ROLE_WORKER))
        return true;
    fprintf(err, "%s: %s\n", config_origin(c, "cluster.require_signatures"), SIGNATURES_NEED_TLS);
    return false;
}

static int check_config(const char *path)
{
    char *mistakes = NULL;
    size_t size = 0;
    FILE *err = open_memstream(&mistakes, &size);
    struct config c;

    config_init(&c);
    int read = err ? config_load(&c, path, err) : HAWK_ENOMEM;
    /* Other mistakes do not keep us from checking the values that were read. */
    bool ok = (read == 0 || read == HAWK_EINVALID) && config_validate(&c, NULL, err) == 0 && read == 0 &&
              tokens_ok(&c, err) & tls_ok(&c, err) & signatures_ok(&c, err) & metrics_ok(&c, err) &
                  audit_ok(&c, err) & directories_ok(&c, err) & role_files_ok(&c, err);
    char warning[CONFIG_WARNING] = "";
    if (ok && config_warning(&c, NULL, warning, sizeof warning))
        say_warning("config", "%s", warning);
    config_free(&c);
    if (err)
        fclose(err);
    say_lines(mistakes ? mistakes : "hawk: out of memory\n");
    if (document_wanted())
        document_print(json_pack("{s:o, s:b}", "file", json_text(path), "ok", (int)ok));
    else if (ok)
        printf("%s: ok\n", path);
    free(mistakes);
    return ok ? HAWK_EXIT_OK : HAWK_EXIT_USAGE;
}

/* What the worker noted that was started last under this configuration. */
struct noted {
    enum exec_freezer freezer;
    enum run_as run_as;
};

static struct noted read_notes(const struct config *c)
{
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof dir, "%s/%s", c->worker.state_dir, c->worker.name);
    struct noted noted = {EXEC_FREEZER_AUTO, RUN_AS_UNKNOWN};
    if (n > 0 && n < (int)sizeof dir)
        noted = (struct noted){exec_freezer_noted(dir), run_as_noted(dir)};
    return noted;
}

static void print_notes(struct noted noted)
{
    enum exec_freezer in_force = noted.freezer;
    if (noted.run_as == RUN_AS_UNKNOWN)
        puts("# The mode of run_as in force is not known here: the worker's log names it.");
    else
        printf("# The mode of run_as in force, since the worker was started last, is %s: %s.\n",
               run_as_name(noted.run_as), run_as_text(noted.run_as));
    if (in_force == EXEC_FREEZER_AUTO)
        puts("# The freezer in force is not known here: `hawk nodes` and the worker's log name it.");
    else
        printf("# The freezer in force, since the worker was started last, is %s: %s.\n",
               exec_freezer_name(in_force), exec_freezer_text(in_force));
}

static int no_section(const char *word, const char *const *sections)
{
    struct near near = near_begin(word);
    char all[128] = "";
    size_t len = 0;
    for (; *sections; sections++) {
        near_look(&near, *sections);
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", len ? ", " : "", *sections);
        CHECK(len < sizeof all);
    }
    if (near.name)
        return usage_error("config show: no section \"%s\": did you mean %s?", word, near.name);
    return usage_error("config show: no section \"%s\": there are %s", word, all);
}

static int show_config(int argc, char **argv)
{
    static const char *const sections[] = {
#define X(section, SETTINGS) #section,
        SECTIONS(X)
#undef X
            NULL};
    const char *section = NULL;

    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; sections[i] && !section; i++)
            if (strcmp(sections[i], argv[1]) == 0)
                section = sections[i];
        if (!section)
            return no_section(argv[1], sections);
        argc--;
        argv++;
    }
    struct config c;
    config_init(&c);
    int code = config_from_args(&c, "config", argc, argv);
    bool worker = code == 0 && (!section || strcmp(section, "worker") == 0);
    struct noted noted = worker ? read_notes(&c) : (struct noted){EXEC_FREEZER_AUTO, RUN_AS_UNKNOWN};
    if (code == 0 && document_wanted())
        document_print(
            json_pack("{s:o, s:s?, s:s?}", "settings", config_json(&c, section), "freezer_in_force",
                      noted.freezer == EXEC_FREEZER_AUTO ? NULL : exec_freezer_name(noted.freezer),
                      "run_as_in_force", noted.run_as == RUN_AS_UNKNOWN ? NULL : run_as_name(noted.run_as)));
    else if (code == 0)
        config_show(&c, section, stdout);
    if (worker && !document_wanted())
        print_notes(noted);
    config_free(&c);
    return code == 1 ? HAWK_EXIT_OK : code;
}

/* FILE, --config FILE or --config=FILE. NULL: none of these. */
static const char *file_to_check(int argc, char **argv)
{
    static const char flag[] = "--config";
    size_t len = sizeof flag - 1;

    if (argc == 3 && strcmp(argv[1], flag) == 0)
        return argv[2];
    if (argc == 2 && strncmp(argv[1], flag, len) == 0)
        return argv[1][len] == '=' ? argv[1] + len + 1 : NULL;
    return argc == 2 && strncmp(argv[1], "--", 2) != 0 ? argv[1] : NULL;
}

int config_main(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return HAWK_EXIT_HELP;
    int code = flags_take_output("config", &argc, argv);
    if (code)
        return code;
    const char *checked =
        argc >= 2 && strcmp(argv[1], "check") == 0 ? file_to_check(argc - 1, argv + 1) : NULL;
    if (checked)
        return check_config(checked);
    if (argc >= 2 && strcmp(argv[1], "show") == 0)
        return show_config(argc - 1, argv + 1);
    return usage_error("config: write `hawk config check FILE` or `hawk config show [SECTION]`; "
                       "`hawk help config` tells more");
}
