/* Finding, explaining and running commands. */
#include "cli/command.h"

#include "cli/document.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELP_COLUMNS 100
#define LEFT_MAX 32 /* a flag that takes more columns has its help on the next line */

const struct command *command_find(const struct command *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* Writes "-n, --name NAME", the left part of a flag's help. */
static int flag_left(char *buf, size_t size, const struct flag *f)
{
    char letter[5] = "    ";
    if (f->letter)
        snprintf(letter, sizeof letter, "-%c, ", f->letter);
    return snprintf(buf, size, "%s--%s%s%s", letter, f->name, f->arg ? " " : "", f->arg ? f->arg : "");
}

static int widest_flag(const struct flag *flags)
{
    char left[128];
    int width = 0;
    for (const struct flag *f = flags; f && f->name; f++) {
        int n = flag_left(left, sizeof left, f);
        if (n > width && n <= LEFT_MAX)
            width = n;
    }
    return width;
}

void help_wrapped(FILE *out, const char *text, int indent)
{
    int room = HELP_COLUMNS - indent > 20 ? HELP_COLUMNS - indent : 20;
    while ((int)strlen(text) > room) {
        int cut = room;
        while (cut > 0 && text[cut] != ' ')
            cut--;
        if (cut == 0)
            cut = (int)strcspn(text, " ");
        fprintf(out, "%.*s\n%*s", cut, text, indent, "");
        text += cut + (text[cut] == ' ');
    }
    fprintf(out, "%s\n", text);
}

static void flags_help(FILE *out, const struct flag *flags, int width)
{
    char left[128];
    for (const struct flag *f = flags; f && f->name; f++) {
        int n = flag_left(left, sizeof left, f);
        if (n > width)
            fprintf(out, "  %s\n  %*s  ", left, width, "");
        else
            fprintf(out, "  %-*s  ", width, left);
        help_wrapped(out, f->help, width + 4);
    }
}

void command_help(FILE *out, const struct command *c)
{
    fprintf(out, "usage: hawk %s %s\n\n%s\n", c->name, c->synopsis ? c->synopsis : "", c->help);
    int own = widest_flag(c->flags), common = widest_flag(c->common);
    int width = own > common ? own : common;
    if (c->flags && c->flags->name) {
        fputs("\nflags:\n", out);
        flags_help(out, c->flags, width);
    }
    if (c->common && c->common->name) {
        fputs("\ncommon flags:\n", out);
        flags_help(out, c->common, width);
    }
    if (c->details)
        fprintf(out, "\n%s", c->details);
}

void command_list(FILE *out, const struct command *table)
{
    int width = 0;
    for (const struct command *c = table; c->name; c++)
        if ((int)strlen(c->name) > width)
            width = (int)strlen(c->name);
    for (const struct command *c = table; c->name; c++)
        fprintf(out, "  %-*s  %s\n", width, c->name, c->help);
}

int command_end(int exit_code)
{
    struct stat st;
    document_end(exit_code != HAWK_EXIT_OK);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    /* An error before the last flush has lost its errno. A reader of a pipe that reads no further (`hawk
     * jobs | head`) has seen enough. */
    bool pipe = fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    if (errno == EPIPE || (errno == 0 && pipe))
        return exit_code;
    fprintf(stderr, "hawk: cannot write to standard output: %s\n",
            errno ? strerror(errno) : "the disk is full");
    return exit_code ? exit_code : HAWK_EXIT_FAILED;
}

int command_run(const struct command *c, int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a write then fails with EPIPE, and the command ends in good order */
    int exit_code = c->run(argc, argv);
    if (exit_code == HAWK_EXIT_HELP) {
        command_help(stdout, c);
        exit_code = HAWK_EXIT_OK;
    }
    return command_end(exit_code);
}
