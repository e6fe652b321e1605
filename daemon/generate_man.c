/* Manual pages in roff. */
#include "config/config.h"
#include "daemon/commands.h"
#include "daemon/generate.h"

#include <ctype.h>
#include <string.h>

#define LINE_WHOLE 75 /* a line of help that ends a sentence and is shorter ends a paragraph */

/* Text in which roff sees nothing of its own. */
static void put_text(FILE *out, const char *text, size_t len)
{
    if (len && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\'')
            fputs("\\(aq", out);
        else if (text[i] == '`')
            fputs("\\(ga", out);
        else if (text[i] == '^')
            fputs("\\(ha", out);
        else if (text[i] == '~')
            fputs("\\(ti", out);
        else
            fputc(text[i], out);
}

static void put_line(FILE *out, const char *text)
{
    put_text(out, text, strlen(text));
    fputc('\n', out);
}

static void put_title(FILE *out, const char *name)
{
    fputs(".TH HAWK", out);
    for (const char *p = name; *p; p++)
        fputc(toupper((unsigned char)*p), out);
    fputs(" 1 \"\" \"hawk " HAWK_VERSION "\" \"Hawk\"\n", out);
}

/* Columns and examples keep their lines. */
static bool is_set(const char *line, size_t len)
{
    return len && (line[0] == ' ' || memmem(line, len, "  ", 2));
}

/* Paragraphs, columns and examples of a help text. */
static void put_details(FILE *out, const char *text)
{
    bool set = false, fresh = true, ended = false; /* ended: the last line was its paragraph's */
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (!len) {
            fputs(set ? ".fi\n.PP\n" : ".PP\n", out);
            set = false;
            fresh = true;
            continue;
        }
        if (is_set(text, len) != set) {
            set = !set;
            fputs(set ? ".PP\n.nf\n" : ".fi\n.PP\n", out);
        } else if (!set && !fresh && ended) {
            fputs(".PP\n", out);
        } else if (!set && !fresh &&
                   (strncmp(text, "Exit codes", 10) == 0 || strncmp(text, "Other exit codes", 16) == 0)) {
            fputs(".PP\n", out);
        }
        put_text(out, text, len);
        fputc('\n', out);
        fresh = false;
        ended = len < LINE_WHOLE && text[len - 1] == '.';
    }
    if (set)
        fputs(".fi\n", out);
}

static void put_flags(FILE *out, const struct command *c, const struct flag *flags)
{
    char help[FLAG_HELP_MAX];
    for (const struct flag *f = flags; f && f->name; f++) {
        fputs(".TP\n", out);
        if (f->letter)
            fprintf(out, "\\fB\\-%c\\fR, ", f->letter);
        fputs("\\fB\\-\\-", out);
        put_text(out, f->name, strlen(f->name));
        fputs("\\fR", out);
        if (f->arg) {
            fputs(" \\fI", out);
            put_text(out, f->arg, strlen(f->arg));
            fputs("\\fR", out);
        }
        fputc('\n', out);
        put_line(out, command_flag_help(c, f, help));
    }
}

static void put_page(FILE *out, const struct command *c)
{
    const struct flag *own = generate_flags(c);
    const char *details = c->details ? c->details : config_purpose(c->name);
    char suffix[64];
    snprintf(suffix, sizeof suffix, "-%s", c->name);
    put_title(out, suffix);
    fputs(".SH NAME\nhawk\\-", out);
    put_text(out, c->name, strlen(c->name));
    fputs(" \\- ", out);
    put_line(out, c->help);
    fputs(".SH SYNOPSIS\n.B hawk ", out);
    put_line(out, c->name);
    put_line(out, c->synopsis ? c->synopsis : "[--config FILE] [--FLAG VALUE]...");
    if (*details) {
        fputs(".SH DESCRIPTION\n", out);
        put_details(out, details);
    }
    if (own && own->name) {
        fputs(".SH FLAGS\n", out);
        put_flags(out, c, own);
    }
    if (c->common && c->common->name) {
        fputs(".SH COMMON FLAGS\n", out);
        put_flags(out, c, c->common);
    }
    fputs(".SH SEE ALSO\n.BR hawk (1)\n", out);
}

static void put_names(FILE *out, const struct command *table)
{
    for (const struct command *c = table; c->name; c++) {
        fputs(".TP\n.BR hawk\\-", out);
        put_text(out, c->name, strlen(c->name));
        fputs(" (1)\n", out);
        put_line(out, c->help);
    }
}

static void put_variable(FILE *out, const char *name, const char *text)
{
    fputs(".TP\n.B ", out);
    put_line(out, name);
    put_line(out, text);
}

static void put_overview(FILE *out)
{
    put_title(out, "");
    fputs(
        ".SH NAME\nhawk \\- run many short commands beside a few long ones, on one machine or a cluster\n"
        ".SH SYNOPSIS\n.B hawk\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.PP\n.B hawk help\n[\\fICOMMAND\\fR]\n"
        ".SH DESCRIPTION\nHawk schedules the tasks of jobs over the slots of workers. Short tasks do not "
        "wait behind "
        "long ones. \\fBhawk run\\fR needs no cluster; \\fBhawk up\\fR keeps one on this machine; central, "
        "dists and "
        "workers make one of many machines.\n.SH COMMANDS\n.SS On this machine, and daemons\n",
        out);
    put_names(out, command_tables[0]);
    fputs(".SS For users of a running cluster\n", out);
    put_names(out, command_tables[1]);
    fputs(".SH ENVIRONMENT\n", out);
    put_variable(out, "HAWK_DIST",
                 "Where clients find the cluster: addresses of dists, separated by commas. "
                 "Default: those of HAWK_LOGIN where it is set, else this user's `hawk up`.");
    put_variable(out, "HAWK_TOKEN_FILE", "File with the clients' token.");
    put_variable(out, "HAWK_TOKEN", "The token itself.");
    put_variable(out, "HAWK_TLS_CERTIFICATE, HAWK_TLS_KEY, HAWK_TLS_ROOTS", "Files of a user's certificate.");
    put_variable(
        out, "HAWK_LOGIN",
        "Directory with the user's credential, of `hawk login`. Where it is set, clients ask that cluster "
        "before this user's `hawk up`. Default: $XDG_CONFIG_HOME/hawk, else "
        "~/.config/hawk. none: no credential is used.");
    put_variable(out, "HAWK_CONFIG", "The daemons' configuration file.");
    fputs(".SH FILES\n", out);
    put_variable(out, "/etc/hawk/hawk.yaml",
                 "The daemons' configuration, unless HAWK_CONFIG or --config names another.");
    fputs(".SH SEE ALSO\n.BR libhawk (3)\n", out);
}

void generate_man(FILE *out, const struct command *c)
{
    if (c)
        put_page(out, c);
    else
        put_overview(out);
}
