/* The settings table: defaults, texts to values, and printing. Reading YAML and flags: read.c. */
#include "config/config.h"

#include "base/mem.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/print.h"
#include "config/table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct setting settings[] = {
#define S(section, kind, name, def, help)                                                                    \
    {#section, #name, KIND_##kind, offsetof(struct config, section.name), def, help},
#define X(section, SETTINGS) SETTINGS(S)
    SECTIONS(X)
#undef X
#undef S
};
const size_t settings_count = sizeof settings / sizeof settings[0];

const struct setting *setting_find(const char *section, size_t section_len, const char *name)
{
    for (size_t i = 0; i < settings_count; i++)
        if (strncmp(settings[i].section, section, section_len) == 0 && !settings[i].section[section_len] &&
            strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

static bool choice_has(const char *help, const char *text)
{
    size_t len = strlen(text);
    for (const char *p = help; *p && *p != ':' && *p != ' ';) {
        size_t word = strcspn(p, "|: ");
        if (word == len && strncmp(p, text, len) == 0)
            return true;
        p += word + (p[word] == '|');
    }
    return false;
}

static int bool_parse(const char *text, bool *v)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0)
            return *v = true, 0;
        if (strcmp(text, no[i]) == 0)
            return *v = false, 0;
    }
    return HAWK_EINVALID;
}

/* Parses text into the field of s. `kept` is the copy of text that lives as long as the config. */
static int setting_parse(const struct setting *s, struct config *c, const char *text, const char *kept,
                         const char **expected)
{
    void *field = (char *)c + s->offset;
    uint64_t n;
    uint32_t ppm;
    int err = 0;
    bool is_auto = strcmp(text, "auto") == 0;
    switch (s->kind) {
    case KIND_TEXT:
    case KIND_LIST:
        *(const char **)field = kept;
        return 0;
    case KIND_CHOICE:
        *expected = s->help;
        if (!choice_has(s->help, text))
            return HAWK_EINVALID;
        *(const char **)field = kept;
        return 0;
    case KIND_DURATION:
        *expected = "a duration such as 250ms, 30s or 2h";
        return duration_parse(text, field);
    case KIND_AUTO_DURATION:
        *expected = "a duration such as 250ms, 30s or 2h, or auto";
        if (is_auto)
            return *(int64_t *)field = SETTING_AUTO, 0;
        return duration_parse(text, field);
    case KIND_SHARE:
        *expected = "a share such as 17% or 0.17";
        return share_parse(text, field);
    case KIND_AUTO_SHARE:
        *expected = "a share such as 17% or 0.17, or auto";
        if (is_auto)
            return *(int64_t *)field = SETTING_AUTO, 0;
        err = share_parse(text, &ppm);
        if (!err)
            *(int64_t *)field = ppm;
        return err;
    case KIND_BOOL:
        *expected = "yes or no";
        return bool_parse(text, field);
    case KIND_AUTO_COUNT:
        *expected = "a whole number of at least 1, or auto";
        if (is_auto)
            return *(uint32_t *)field = 0, 0;
        err = u64_parse(text, 1, UINT32_MAX, &n);
        if (!err)
            *(uint32_t *)field = (uint32_t)n;
        return err;
    case KIND_COUNT:
    case KIND_NUMBER:
        *expected = s->kind == KIND_COUNT ? "a whole number of at least 1" : "a whole number";
        err = u64_parse(text, s->kind == KIND_COUNT, UINT32_MAX, &n);
        if (!err)
            *(uint32_t *)field = (uint32_t)n;
        return err;
    case KIND_SIZE:
        *expected = "a size such as 512MiB or 1GB";
        return size_parse(text, field);
    case KIND_MILLI:
        *expected = "a number from 0.001 to 1000";
        return milli_parse(text, 1, field);
    }
    return HAWK_EINVALID;
}

int setting_set(struct config *c, const struct setting *s, const char *text, const char *origin, char *why,
                size_t size)
{
    const char *expected = "";
    char *kept = xstrdup(text);
    if (setting_parse(s, c, text, kept, &expected)) {
        snprintf(why, size, "%s.%s: \"%s\" is not %s%s", s->section, s->name, text,
                 s->kind == KIND_CHOICE ? "one of " : "", expected);
        free(kept);
        return HAWK_EINVALID;
    }
    struct config_origin *o = &c->origins[s - settings];
    free(o->text);
    free(o->origin);
    o->text = kept;
    o->origin = xstrdup(origin);
    return 0;
}

int config_set(struct config *c, const char *key, const char *text, const char *origin, char *why,
               size_t size)
{
    const char *dot = strchr(key, '.');
    const struct setting *s = dot ? setting_find(key, (size_t)(dot - key), dot + 1) : NULL;
    if (!s) {
        snprintf(why, size, "%s: no such setting (`hawk config show` lists them)", key);
        return HAWK_ENOT_FOUND;
    }
    return setting_set(c, s, text, origin, why, size);
}

/* The default directory for state: the system's for root, the user's own otherwise. */
static void state_dir_default(char *buf, size_t size, const char *leaf)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (geteuid() == 0)
        snprintf(buf, size, "/var/lib/hawk/%s", leaf);
    else if (xdg && *xdg == '/')
        snprintf(buf, size, "%s/hawk/%s", xdg, leaf);
    else
        snprintf(buf, size, "%s/.local/state/hawk/%s", home && *home ? home : "/tmp", leaf);
}

static void set_default(struct config *c, const char *key, const char *text, const char *origin)
{
    char why[256];
    if (config_set(c, key, text, origin, why, sizeof why)) {
        fprintf(stderr, "hawk: default of %s\n", why);
        abort();
    }
}

void config_init(struct config *c)
{
    memset(c, 0, sizeof *c);
    c->origins = xcalloc(settings_count, sizeof *c->origins);
    char key[128], path[PATH_MAX], host[256] = "", name[300];
    for (size_t i = 0; i < settings_count; i++) {
        snprintf(key, sizeof key, "%s.%s", settings[i].section, settings[i].name);
        set_default(c, key, settings[i].def, "default");
    }
    if (gethostname(host, sizeof host - 1) || !*host)
        snprintf(host, sizeof host, "localhost");
    snprintf(name, sizeof name, "dist-%s", host);
    set_default(c, "dist.name", name, "default, from the host's name");
    set_default(c, "worker.name", host, "default, the host's name");
    state_dir_default(path, sizeof path, "central");
    set_default(c, "central.state_dir", path, "default, for this user");
    state_dir_default(path, sizeof path, "dist");
    set_default(c, "dist.state_dir", path, "default, for this user");
    state_dir_default(path, sizeof path, "worker");
    set_default(c, "worker.state_dir", path, "default, for this user");
    state_dir_default(path, sizeof path, "out");
    set_default(c, "worker.output_dir", path, "default, for this user");
    state_dir_default(path, sizeof path,
                      "up"); /* not the worker's: their clusters give out the same jobs' ids */
    set_default(c, "up.output_dir", path, "default, for this user");
}

void config_free(struct config *c)
{
    for (size_t i = 0; c->origins && i < settings_count; i++) {
        free(c->origins[i].text);
        free(c->origins[i].origin);
    }
    free(c->origins);
    c->origins = NULL;
}

/* Quotes a text that YAML would read as something else. */
static void print_scalar(FILE *f, const char *text)
{
    bool plain = *text && !strpbrk(text, "#:{}[],&*?|<>=!%@\\\"'`\n\t ") && *text != '-';
    if (plain) {
        fprintf(f, "%s", text);
        return;
    }
    fputc('"', f);
    for (; *text; text++)
        fprintf(f, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', f);
}

/* The first item of a list that is not empty, of *len bytes; NULL: there is none. */
static const char *first_item(const char *list, size_t *len)
{
    list += strspn(list, ",");
    *len = strcspn(list, ",");
    return *len ? list : NULL;
}

static void print_list(FILE *f, const char *text)
{
    const char *between = "";
    size_t len;

    fputc('[', f);
    for (; (text = first_item(text, &len)); text += len) {
        char item[1024];
        snprintf(item, sizeof item, "%.*s", (int)len, text);
        fputs(between, f);
        print_scalar(f, item);
        between = ", ";
    }
    fputc(']', f);
}

bool config_is_default(const struct config *c, const char *key)
{
    const char *dot = strchr(key, '.');
    const struct setting *s = dot ? setting_find(key, (size_t)(dot - key), dot + 1) : NULL;
    return s && strncmp(c->origins[s - settings].origin, "default", strlen("default")) == 0;
}

void config_show(const struct config *c, const char *section, FILE *f)
{
    const char *last = "";
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        if (section && strcmp(section, s->section) != 0)
            continue;
        if (strcmp(last, s->section) != 0)
            fprintf(f, "%s%s:\n", *last ? "\n" : "", s->section);
        last = s->section;
        fprintf(f, "  %s: ", s->name);
        if (s->kind == KIND_LIST)
            print_list(f, c->origins[i].text);
        else
            print_scalar(f, c->origins[i].text);
        fprintf(f, "  # %s\n", c->origins[i].origin);
    }
}

static json_t *value_json(const struct config *c, const struct setting *s, const char *text)
{
    const void *field = (const char *)c + s->offset;
    json_t *list;

    switch (s->kind) {
    case KIND_BOOL:
        return json_boolean(*(const bool *)field);
    case KIND_COUNT:
    case KIND_NUMBER:
        return json_integer(*(const uint32_t *)field);
    case KIND_LIST:
        list = json_array();
        for (size_t len; (text = first_item(text, &len)); text += len)
            json_array_append_new(list, json_bytes(text, len));
        return list;
    default: /* printed as written: "30s", "17%", "auto" */
        return json_text(text);
    }
}

json_t *config_json(const struct config *c, const char *section)
{
    json_t *list = json_array();
    for (size_t i = 0; i < settings_count; i++)
        if (!section || strcmp(section, settings[i].section) == 0)
            json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "section", settings[i].section,
                                                  "name", settings[i].name, "value",
                                                  value_json(c, &settings[i], c->origins[i].text), "origin",
                                                  json_text(c->origins[i].origin)));
    return list;
}

/* ---- Flags, as helps and manual pages list them ---- */

static const struct flag more_flags[] = {
    {.name = "set",
     .kind = FLAG_LIST,
     .arg = "SECTION.NAME=VALUE",
     .help = "any other setting of the configuration"},
    {.name = "config",
     .kind = FLAG_TEXT,
     .arg = "FILE",
     .help = "YAML; default $HAWK_CONFIG, then /etc/hawk/hawk.yaml"},
    {.name = "output",
     .kind = FLAG_CHOICE,
     .arg = "table|json",
     .help = "form of the line that says it is ready [table]"},
};

static char *flag_name(const struct setting *s)
{
    char name[64];
    bool prefixed = strcmp(s->section, "tls") == 0 || strcmp(s->section, "log") == 0;
    snprintf(name, sizeof name, "%s%s%s", prefixed ? s->section : "", prefixed ? "-" : "", s->name);
    for (char *p = name; (p = strchr(p, '_'));)
        *p = '-';
    return xstrdup(name);
}

static const char *flag_arg(const struct setting *s)
{
    switch (s->kind) {
    case KIND_DURATION:
    case KIND_AUTO_DURATION:
        return "TIME";
    case KIND_SHARE:
    case KIND_AUTO_SHARE:
        return "SHARE";
    case KIND_SIZE:
        return "SIZE";
    case KIND_COUNT:
    case KIND_NUMBER:
    case KIND_AUTO_COUNT:
    case KIND_MILLI:
        return "N";
    case KIND_LIST:
        return "LIST";
    case KIND_BOOL:
        return NULL;
    case KIND_TEXT:
    case KIND_CHOICE:
        break;
    }
    return "TEXT";
}

/* A choice's help begins with its words. */
static struct flag flag_of(const struct setting *s)
{
    struct flag f = {
        .name = flag_name(s), .arg = flag_arg(s), .kind = s->kind == KIND_BOOL ? FLAG_BOOL : FLAG_TEXT};
    size_t words = s->kind == KIND_CHOICE ? strcspn(s->help, ": ") : 0;
    char help[512];
    if (words) {
        f.kind = FLAG_CHOICE;
        f.arg = xmemdup0(s->help, words);
    }
    const char *text = s->help + words + strspn(s->help + words, ": ");
    snprintf(help, sizeof help, "%s%s%s%s", *text ? text : "one of these", *s->def ? " [" : "", s->def,
             *s->def ? "]" : "");
    f.help = xstrdup(help);
    return f;
}

const struct flag *config_flags(const char *section)
{
    static const char *const daemons[] = {"central", "dist", "worker", "up"};
    static struct flag *made[4];
    const char *const from[] = {section, "cluster", "tls", "log"};
    uint32_t n = 0, i = 0;
    while (i < 4 && strcmp(daemons[i], section) != 0)
        i++;
    if (i == 4 || made[i])
        return i == 4 ? NULL : made[i];
    made[i] = xcalloc(settings_count + 5, sizeof **made);
    for (int part = 0; part < 4; part++)
        for (const struct setting *s = settings; s < settings + settings_count; s++)
            if (strcmp(s->section, from[part]) == 0)
                made[i][n++] = flag_of(s);
    memcpy(made[i] + n, more_flags, sizeof more_flags);
    return made[i];
}

void config_help(const char *section, FILE *f)
{
    for (const struct flag *flag = config_flags(section); flag && flag->name; flag++) {
        char left[160];
        snprintf(left, sizeof left, "--%s%s%s", flag->name, flag->arg ? " " : "", flag->arg ? flag->arg : "");
        if (strlen(left) > 34)
            fprintf(f, "  %s\n%38s", left, "");
        else
            fprintf(f, "  %-35s ", left);
        help_wrapped(f, flag->help, 38);
    }
}
