/* Finding, explaining and running commands. */
#include "cli/command.h"

#include "base/io.h"
#include "cli/document.h"
#include "template/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define HELP_COLUMNS 100
#define HELP_SHORT 75 /* a line that is shorter and ends a sentence ends its paragraph */
#define LEFT_MAX 32   /* a flag that takes more columns has its help on the next line */

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

/* ---- Commands that run tasks have many flags in common: each says which of them has it ---- */

static const struct command *const *relatives;

void command_set_relatives(const struct command *const *commands) { relatives = commands; }

static bool has_flag(const struct command *c, const char *name)
{
    for (const struct flag *f = c->flags; f && f->name; f++)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

const char *command_flag_help(const struct command *c, const struct flag *f, char buf[FLAG_HELP_MAX])
{
    bool is_one = false;
    size_t n = 0;
    *buf = '\0';
    for (const struct command *const *r = relatives; r && *r; r++) {
        is_one |= strcmp((*r)->name, c->name) == 0;
        if (has_flag(*r, f->name))
            n += (size_t)snprintf(buf + n, FLAG_HELP_MAX - n, "%s%s", n ? ", " : "", (*r)->name);
    }
    if (!is_one || n == 0)
        return f->help;
    snprintf(buf + n, FLAG_HELP_MAX - n, ": %s", f->help);
    return buf;
}

static void flags_help(FILE *out, const struct command *c, const struct flag *flags, int width)
{
    char left[128], help[FLAG_HELP_MAX];
    for (const struct flag *f = flags; f && f->name; f++) {
        int n = flag_left(left, sizeof left, f);
        if (n > width)
            fprintf(out, "  %s\n  %*s  ", left, width, "");
        else
            fprintf(out, "  %-*s  ", width, left);
        help_wrapped(out, command_flag_help(c, f, help), width + 4);
    }
}

/* Columns and examples keep their lines. */
static bool keeps_lines(const char *line, size_t len)
{
    return len == 0 || *line == ' ' || memmem(line, len, "  ", 2);
}

static void end_paragraph(FILE *out, struct text *t)
{
    if (t->len > 0) {
        text_add(t, "", 1);
        help_wrapped(out, t->data, 0);
    }
    t->len = 0;
}

/* Prints paragraphs, broken at spaces; lines that begin with a space, and those with columns, stay as they are. */
static void print_details(FILE *out, const char *text)
{
    struct text paragraph = {0};
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (keeps_lines(text, len)) {
            end_paragraph(out, &paragraph);
            fprintf(out, "%.*s\n", (int)len, text);
            continue;
        }
        if (paragraph.len > 0)
            text_add(&paragraph, " ", 1);
        while (len > 0 && text[len - 1] == ' ')
            len--;
        text_add(&paragraph, text, len);
        if (len < HELP_SHORT && text[len - 1] == '.')
            end_paragraph(out, &paragraph);
        len = strcspn(text, "\n");
    }
    end_paragraph(out, &paragraph);
    text_free(&paragraph);
}

void command_help(FILE *out, const struct command *c)
{
    fprintf(out, "usage: hawk %s %s\n\n%s\n", c->name, c->synopsis ? c->synopsis : "", c->help);
    int own = widest_flag(c->flags), common = widest_flag(c->common);
    int width = own > common ? own : common;
    if (c->flags && c->flags->name) {
        fputs("\nflags:\n", out);
        flags_help(out, c, c->flags, width);
    }
    if (c->common && c->common->name) {
        fputs("\ncommon flags:\n", out);
        flags_help(out, c, c->common, width);
    }
    if (c->details) {
        fputc('\n', out);
        print_details(out, c->details);
    }
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

/* ---- Standard output and error ---- */

static struct standard {
    int fd, err;
} standard_files[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

static ssize_t write_standard(void *cookie, const char *data, size_t n)
{
    struct standard *f = cookie;
    int err = write_all(f->fd, data, n);
    if (err)
        errno = f->err = err;
    return err ? 0 : (ssize_t)n;
}

void command_take_streams(void)
{
    const cookie_io_functions_t io = {.write = write_standard};
    FILE *out = fopencookie(&standard_files[0], "w", io), *err = fopencookie(&standard_files[1], "w", io);
    if (!out || !err)
        return;
    setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    setvbuf(err, NULL, _IONBF, 0);
    stdout = out;
    stderr = err;
}

int command_write_error(int fd) { return standard_files[fd == STDERR_FILENO].err; }

/* As daemon/main.c leaves it. */
static bool stdout_is_closed(void) { return (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY; }

int command_may_print(const char *command)
{
    if (!stdout_is_closed())
        return 0;
    fprintf(stderr,
            "hawk: %s: standard output is closed, and the job's id would be lost: nothing is submitted\n",
            command);
    return HAWK_EXIT_FAILED;
}

int command_end(int exit_code)
{
    document_end(exit_code != HAWK_EXIT_OK);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    int err = command_write_error(STDOUT_FILENO);
    if (err == EPIPE) /* a reader that reads no further (`hawk jobs | head`) has seen enough */
        return exit_code;
    fprintf(stderr, "hawk: cannot write to standard output: %s\n",
            stdout_is_closed() ? "it is closed" : strerror(err));
    return exit_code ? exit_code : HAWK_EXIT_FAILED;
}

bool signal_ignored(int signo)
{
    struct sigaction action;
    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static bool was_interrupted; /* by SIGINT */

int exit_code_of_signal(int signo)
{
    was_interrupted = was_interrupted || signo == SIGINT;
    return HAWK_EXIT_SIGNALLED + signo;
}

void command_die_interrupted(void)
{
    sigset_t set;
    if (!was_interrupted)
        return;
    signal(SIGINT, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGINT);
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
