/* Reads settings: a YAML file through libyaml's events, and the flags of a daemon's command line.
 *
 * DEVIATES (DESIGN 6): this uses libyaml without libcyaml. libcyaml checks types while it loads, and then
 * forgets where a value stood. We need file and line for every wrong value ("cutoff: banana") and for
 * `hawk config show`; libyaml's marks have them. */
#include "base/mem.h"
#include "base/near.h"
#include "base/units.h"
#include "cli/document.h"
#include "config/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define CONFIG_BYTES_MAX (1L << 20)

struct reader {
    struct config *c;
    const char *path;
    FILE *err;
    yaml_parser_t parser;
    yaml_event_t event;
    int errors;
    bool seen[256]; /* settings that this file has given already */
};

static void HAWK_PRINTF(3, 4) complain_at_line(struct reader *r, size_t line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(r->err, "%s:%zu: ", r->path, line + 1);
    vfprintf(r->err, fmt, ap);
    fputc('\n', r->err);
    va_end(ap);
    r->errors++;
}

/* Reads the next event into r->event. False after a syntax error, which ends the file, and at its end. */
static bool next_event(struct reader *r)
{
    yaml_event_delete(&r->event);
    memset(&r->event, 0, sizeof r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return r->event.type != YAML_NO_EVENT;
    complain_at_line(r, r->parser.problem_mark.line, "%s%s%s",
                     r->parser.problem ? r->parser.problem : "not YAML", r->parser.context ? " " : "",
                     r->parser.context ? r->parser.context : "");
    return false;
}

static size_t line_of(const struct reader *r) { return r->event.start_mark.line; }
static const char *scalar_text(const struct reader *r) { return (const char *)r->event.data.scalar.value; }

/* Skips the node that begins with the present event. */
static bool skip_value(struct reader *r)
{
    int depth = 0;
    do {
        if (r->event.type == YAML_MAPPING_START_EVENT || r->event.type == YAML_SEQUENCE_START_EVENT)
            depth++;
        else if (r->event.type == YAML_MAPPING_END_EVENT || r->event.type == YAML_SEQUENCE_END_EVENT)
            depth--;
    } while (depth && next_event(r));
    return depth == 0;
}

/* Returns the present value as text: a scalar, or for lists a sequence of scalars joined by commas. NULL:
 * it is neither; then the function has skipped it and reported it. The caller frees it. */
static char *value_text(struct reader *r, const struct setting *s, bool *go_on)
{
    if (r->event.type == YAML_SCALAR_EVENT)
        return xstrdup(scalar_text(r));
    size_t line = line_of(r), len = 0;
    if (s->kind != KIND_LIST || r->event.type != YAML_SEQUENCE_START_EVENT) {
        complain_at_line(r, line, "%s.%s takes a single value", s->section, s->name);
        *go_on = skip_value(r);
        return NULL;
    }
    char *text = xstrdup("");
    while ((*go_on = next_event(r)) && r->event.type != YAML_SEQUENCE_END_EVENT) {
        if (r->event.type != YAML_SCALAR_EVENT) {
            complain_at_line(r, line_of(r), "%s.%s takes a list of single values", s->section, s->name);
            *go_on = skip_value(r);
            if (!*go_on)
                break;
            continue;
        }
        size_t more = strlen(scalar_text(r));
        text = xrealloc(text, len + more + 2);
        if (len)
            text[len++] = ',';
        memcpy(text + len, scalar_text(r), more + 1);
        len += more;
    }
    return text;
}

static bool read_setting(struct reader *r, const char *section)
{
    char *name = xstrdup(scalar_text(r)), origin[512], why[512];
    size_t line = line_of(r);
    const struct setting *s = setting_find(section, strlen(section), name);
    bool go_on = next_event(r);
    if (go_on && !s) {
        complain_at_line(r, line, "%s.%s: no such setting (`hawk config show` lists them)", section, name);
        go_on = skip_value(r);
    } else if (go_on) {
        size_t value_line = line_of(r);
        char *text = value_text(r, s, &go_on);
        if (r->seen[s - settings])
            complain_at_line(r, line, "%s.%s is given twice", section, name);
        r->seen[s - settings] = true;
        snprintf(origin, sizeof origin, "%s:%zu", r->path, value_line + 1);
        if (text && go_on && setting_set(r->c, s, text, origin, why, sizeof why))
            complain_at_line(r, value_line, "%s", why);
        free(text);
    }
    free(name);
    return go_on;
}

static bool section_known(const char *name)
{
    for (size_t i = 0; i < settings_count; i++)
        if (strcmp(settings[i].section, name) == 0)
            return true;
    return false;
}

static bool read_section(struct reader *r)
{
    if (r->event.type != YAML_SCALAR_EVENT) {
        complain_at_line(r, line_of(r),
                         "expected the name of a section: cluster, tls, central, dist, worker, up or log");
        return skip_value(r) && next_event(r) && skip_value(r);
    }
    char *section = xstrdup(scalar_text(r));
    size_t line = line_of(r);
    bool go_on = next_event(r);
    if (go_on && !section_known(section)) {
        complain_at_line(r, line,
                         "%s: no such section; there are cluster, tls, central, dist, worker, up and log",
                         section);
        go_on = skip_value(r);
    } else if (go_on && r->event.type == YAML_MAPPING_START_EVENT) {
        while ((go_on = next_event(r)) && r->event.type != YAML_MAPPING_END_EVENT) {
            if (r->event.type == YAML_SCALAR_EVENT)
                go_on = read_setting(r, section);
            else
                complain_at_line(r, line_of(r), "expected the name of a setting of %s", section),
                    go_on = skip_value(r) && next_event(r) && skip_value(r);
            if (!go_on)
                break;
        }
    } else if (go_on && !(r->event.type == YAML_SCALAR_EVENT && !*scalar_text(r))) {
        complain_at_line(r, line_of(r), "%s: expected settings, indented, one per line", section);
        go_on = skip_value(r);
    }
    free(section);
    return go_on;
}

static void read_document(struct reader *r)
{
    bool go_on = next_event(r); /* stream start */
    go_on = go_on && next_event(r);
    if (!go_on || r->event.type == YAML_STREAM_END_EVENT)
        return; /* an empty file changes nothing */
    go_on = next_event(r);
    bool empty = go_on && r->event.type == YAML_SCALAR_EVENT && !*scalar_text(r);
    if (go_on && !empty && r->event.type != YAML_MAPPING_START_EVENT) {
        complain_at_line(r, line_of(r), "expected sections: cluster, tls, central, dist, worker, up or log");
        return;
    }
    while (go_on && !empty && next_event(r) && r->event.type != YAML_MAPPING_END_EVENT)
        go_on = read_section(r);
    while (go_on && r->event.type != YAML_NO_EVENT && r->event.type != YAML_DOCUMENT_START_EVENT)
        go_on = next_event(r);
    if (go_on && r->event.type == YAML_DOCUMENT_START_EVENT)
        complain_at_line(r, line_of(r),
                         "a second document, which would not be read: put all sections into one");
}

static void complain_file(FILE *err, const char *path, int error)
{
    fprintf(err, "%s: %s%s\n", path, strerror(error),
            error == EACCES
                ? ": let this user read it (chmod 644 it, and 755 its directory), or name another "
                  "with --config or $HAWK_CONFIG"
                : "");
}

/* Opens a regular file, or stdin for "-"; NULL after a message. A FIFO would hold a daemon up, and a
 * device must not be read. */
static FILE *open_regular(const char *path, FILE *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return stdin;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *f = NULL;
    if (fd < 0 || fstat(fd, &st))
        complain_file(err, path, errno);
    else if (!S_ISREG(st.st_mode))
        fprintf(err, "%s: %s, not a regular file; \"-\" reads standard input\n", path,
                S_ISDIR(st.st_mode)    ? "a directory"
                : S_ISFIFO(st.st_mode) ? "a pipe"
                                       : "a device or socket");
    else if (!(f = fdopen(fd, "r")))
        complain_file(err, path, errno);
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

int config_load(struct config *c, const char *path, FILE *err)
{
    struct reader *r = xcalloc(1, sizeof *r);
    *r = (struct reader){.c = c, .path = path, .err = err};
    int result = HAWK_EIO;
    FILE *f = open_regular(path, err);
    if (!f)
        goto out;
    char *text = xmalloc(CONFIG_BYTES_MAX + 1);
    size_t len = fread(text, 1, CONFIG_BYTES_MAX + 1, f);
    if (ferror(f) || len > CONFIG_BYTES_MAX) {
        fprintf(err, "%s: %s\n", path,
                ferror(f) ? strerror(errno) : "larger than 1 MiB, the limit of a configuration");
    } else if (!yaml_parser_initialize(&r->parser)) {
        result = HAWK_ENOMEM;
    } else {
        yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, len);
        read_document(r);
        yaml_event_delete(&r->event);
        yaml_parser_delete(&r->parser);
        result = r->errors ? HAWK_EINVALID : 0;
    }
    free(text);
    if (f != stdin)
        fclose(f);
out:
    free(r);
    return result;
}

/* ---- Flags ---- */

/* Finds the setting of a flag: "--long-lease" in section central. Every section's flags include the
 * settings of cluster, and those of log and tls with the section's name before theirs. */
static const struct setting *flag_setting(const char *section, const char *flag, size_t len)
{
    char name[64];
    if (len >= sizeof name)
        return NULL;
    for (size_t i = 0; i < len; i++)
        name[i] = flag[i] == '-' ? '_' : flag[i];
    name[len] = 0;
    const struct setting *s = setting_find(section, strlen(section), name);
    if (!s)
        s = setting_find("cluster", strlen("cluster"), name);
    if (!s && strncmp(name, "log_", 4) == 0)
        s = setting_find("log", strlen("log"), name + 4);
    if (!s && strncmp(name, "tls_", 4) == 0)
        s = setting_find("tls", strlen("tls"), name + 4);
    return s;
}

static int HAWK_PRINTF(2, 3) usage_error(const char *section, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_error(section, "%s (see `hawk help %s`)", text, section);
    return 2;
}

struct args {
    const char *section;
    int argc, at;
    char **argv;
};

/* The value of the flag at a->at: after "=", or the next argument. NULL: there is none. */
static const char *flag_value(struct args *a, const char *equals)
{
    if (equals)
        return equals + 1;
    return a->at + 1 < a->argc ? a->argv[++a->at] : NULL;
}

static bool is_flag_of(const struct setting *s, const char *section)
{
    return strcmp(s->section, section) == 0 || strcmp(s->section, "cluster") == 0;
}

static int unknown_flag(const char *section, const char *arg, size_t len)
{
    static const char *const others[] = {"config",    "set",     "output",    "help",
                                         "log-level", "tls-key", "tls-roots", "tls-certificate"};
    char word[64], name[64];
    snprintf(word, sizeof word, "%.*s", (int)len, arg);
    struct near near = near_begin(word);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        near_look(&near, others[i]);
    for (size_t i = 0; i < settings_count; i++) {
        const char *before = near.name;
        if (!is_flag_of(&settings[i], section))
            continue;
        char dashed[64];
        snprintf(dashed, sizeof dashed, "%s", settings[i].name);
        for (char *p = dashed; (p = strchr(p, '_'));)
            *p = '-';
        near_look(&near, dashed);
        if (near.name == before)
            continue;
        memcpy(name, dashed, sizeof name);
        near.name = name;
    }
    if (near.name)
        return usage_error(section, "no flag --%s: did you mean --%s?", word, near.name);
    return usage_error(section, "no flag --%s", word);
}

static int take_flag(struct config *c, struct args *a)
{
    const char *arg = a->argv[a->at] + 2, *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    char why[512], origin[80];
    bool any_key = len == 3 && strncmp(arg, "set", 3) == 0;
    const struct setting *s = any_key ? NULL : flag_setting(a->section, arg, len);
    if (!s && !any_key && !(len == 6 && strncmp(arg, "config", 6) == 0))
        return unknown_flag(a->section, arg, len);
    snprintf(origin, sizeof origin, "flag --%.*s", (int)len, arg);
    if (s && s->kind == KIND_BOOL && !equals)
        return setting_set(c, s, "yes", origin, why, sizeof why) ? 2 : 0;
    const char *value = flag_value(a, equals);
    if (!value)
        return usage_error(a->section, "--%.*s needs a value", (int)len, arg);
    if (!s && !any_key)
        return 0; /* --config was read before all others */
    if (any_key) {
        char key[128];
        const char *eq = strchr(value, '=');
        if (!eq || (size_t)(eq - value) >= sizeof key)
            return usage_error(a->section, "--set takes SECTION.NAME=VALUE, not \"%s\"", value);
        snprintf(key, sizeof key, "%.*s", (int)(eq - value), value);
        /* `hawk up` has workers, and settings of its own for some of what concerns them. */
        if (strcmp(a->section, "up") == 0 && strncmp(key, "worker.", 7) == 0 &&
            setting_find("up", 2, key + 7))
            return usage_error(a->section, "%s is not of `hawk up`, which has up.%s: --set up.%s=%s", key,
                               key + 7, key + 7, eq + 1);
        if (config_set(c, key, eq + 1, origin, why, sizeof why))
            return usage_error(a->section, "%s", why);
        return 0;
    }
    if (setting_set(c, s, value, origin, why, sizeof why))
        return usage_error(a->section, "--%.*s: %s", (int)len, arg, why);
    return 0;
}

static int load_file(struct config *c, int argc, char **argv)
{
    const char *path = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[i + 1];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
    }
    if (!path)
        path = getenv("HAWK_CONFIG");
    if (!path || !*path) {
        path = "/etc/hawk/hawk.yaml";
        if (access(path, F_OK) != 0 && errno == ENOENT)
            return 0;
    }
    char *mistakes = NULL;
    size_t size = 0;
    FILE *err = open_memstream(&mistakes, &size);
    int failed = !err || config_load(c, path, err);
    if (err)
        fclose(err);
    say_lines(mistakes ? mistakes : "hawk: out of memory\n");
    free(mistakes);
    return failed ? 2 : 0;
}

const char *config_purpose(const char *section)
{
    static const struct {
        const char *section, *text;
    } purposes[] = {
        {"central",
         "The central of a cluster (with etcd, one of several): members, policy, history, and the "
         "placement of\n"
         "long jobs. It goes on with what is in its state directory, or in etcd. Prints \"ready NAME "
         "ADDRESS\"\n"
         "once it can be used, and logs to stderr. SIGTERM stops it in good order.\n\n"},
        {"dist", "A distributed scheduler, to which clients submit; a cluster may have many. It tries until "
                 "it finds\n"
                 "central. Prints \"ready NAME ADDRESS\" once it can be used, and logs to stderr. SIGTERM "
                 "stops it.\n\n"},
        {"worker", "Runs tasks on this machine, and steals short ones from busy workers when it is idle. It "
                   "tries until\n"
                   "it finds central. Prints \"ready NAME ADDRESS\" once it can be used, and logs to stderr. "
                   "SIGTERM ends\n"
                   "its tasks, which run again elsewhere.\n\n"},
        {"up",
         "A cluster in this process, until it is stopped: for this user's clients, which find its socket by\n"
         "themselves. It has a worker for every slot, called w1, w2, ..., but at most 256, which share the\n"
         "slots then. It keeps nothing but the tasks' output: its jobs end with it. Where an earlier one's\n"
         "output lies, job numbers go on after it, so that nothing is written over. A --socket of one's\n"
         "own must be in a directory that exists.\n"
         "With --join-dir DIR, on a home that machines share, it starts a central, a dist and a worker as\n"
         "daemons instead, and others join: `hawk worker --join-dir DIR`. Clients say --join-dir, or\n"
         "HAWK_LOGIN=DIR. All of them stop with it.\n\n"},
    };
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++)
        if (strcmp(purposes[i].section, section) == 0)
            return purposes[i].text;
    return "";
}

static int print_help(const char *section)
{
    printf("usage: hawk %s [--config FILE] [--FLAG VALUE]...\n\n%s", section, config_purpose(section));
    config_help(section, stdout);
    return 1;
}

int config_from_args(struct config *c, const char *section, int argc, char **argv)
{
    struct args a = {.section = section, .argc = argc, .argv = argv};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help(section);
    if (load_file(c, argc, argv))
        return 2;
    for (a.at = 1; a.at < argc; a.at++) {
        if (strcmp(argv[a.at], "--") == 0) {
            a.at++;
            break;
        }
        if (strncmp(argv[a.at], "--", 2) != 0)
            break;
        int result = take_flag(c, &a);
        if (result)
            return result;
    }
    if (a.at < argc)
        return usage_error(section, "unexpected argument \"%s\"", argv[a.at]);
    return 0;
}
