/* See script.h. */
#include "cli/script.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/document.h"
#include "msg/types.h"
#include "template/template.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "#HAWK"
#define SLURMS_MARK "#SBATCH"
#define BELOW_MAX (1u << 20) /* bytes: data may stand behind a script */

static void add_word(struct script *s, const char *word)
{
    if (!s->argv || s->argc + 1 >= s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->argv = xrealloc(s->argv, (size_t)s->cap * sizeof *s->argv);
    }
    s->argv[s->argc++] = xstrdup(word);
    s->argv[s->argc] = NULL;
}

void script_free(struct script *s)
{
    for (int i = 0; i < s->argc; i++)
        free(s->argv[i]);
    free(s->argv);
    free(s->text);
    *s = (struct script){0};
}

/* Reads a word as a shell does, but expands nothing, and writes it over the text. Returns what follows; NULL: a quote
 * is not closed. */
static char *split_word(char *text, char **word)
{
    char *to = text, quote = '\0';
    *word = text;
    for (; *text && (quote || !strchr(" \t\r\n", *text)); text++) {
        if (quote ? *text == quote : *text == '\'' || *text == '"')
            quote = quote ? '\0' : *text;
        else if (*text == '\\' && quote != '\'' && text[1])
            *to++ = *++text;
        else
            *to++ = *text;
    }
    bool more = *text != '\0';
    *to = '\0';
    return quote ? NULL : text + more;
}

/* Adds the words of a text. False: a quote is not closed. */
static bool add_words(struct script *s, char *text)
{
    char *word;
    for (text += strspn(text, " \t\r\n"); *text; text += strspn(text, " \t\r\n")) {
        if (*text == '#') /* the rest is a remark */
            return true;
        text = split_word(text, &word);
        if (!text)
            return false;
        add_word(s, word);
    }
    return true;
}

/* Parses the flags of a line: the words from argv[from] on, with the command's name first. Returns an exit code. */
static int parse_line(const char *where, struct script *s, int from, script_flags *parse, void *arg)
{
    int n = s->argc - from, end = parse(where, n, s->argv + from, arg);
    if (end >= 0 && end < n)
        return usage_error("%s: '%s' is no flag: put an argument that has spaces in quotes", where,
                           s->argv[from + end]);
    return end < 0 ? -end : 0;
}

static bool is_marked(const char *line)
{
    size_t len = strlen(MARK);
    return strncmp(line, MARK, len) == 0 && strchr(" \t", line[len]);
}

/* Warns of the first such line in what follows line `number`. */
static void warn_below(const char *command, const char *path, FILE *f, int number)
{
    char *line = NULL;
    size_t cap = 0, bytes = 0;
    for (ssize_t n; bytes < BELOW_MAX && (n = getline(&line, &cap, f)) >= 0; bytes += (size_t)n) {
        number++;
        if (is_marked(line)) {
            say_warning(command,
                        "%s, line %d: this " MARK " line stands below the first command, and is not read",
                        path, number);
            break;
        }
    }
    free(line);
}

/* Whether a shell runs it: without an interpreter one does. Others, as Python, take CR LF for an end of line. */
static bool is_for_shell(const char *interpreter)
{
    static const char blanks[] = " \t\r\n";
    bool is = !interpreter;
    for (const char *word = interpreter; !is && *(word += strspn(word, blanks));
         word += strcspn(word, blanks)) {
        size_t len = strcspn(word, blanks);
        is = len > 1 && strncmp(word + len - 2, "sh", 2) == 0;
    }
    return is;
}

/* A shell takes the CR for a part of what stands before it: a file's name, a word. Returns an exit code. */
static int refuse_dos(const char *where, const char *path, bool named)
{
    return usage_error("%s: the line ends in CR LF, as on DOS, and a shell takes the CR for a part of the "
                       "line: remove it, as with `sed -i 's/\\r$//' %s`",
                       where, named ? path : "FILE");
}

/* Reads the lines above the first command. Returns an exit code. */
static int read_lines(char **argv, const char *path, FILE *f, script_flags *parse, void *arg,
                      struct script *s, char **interpreter)
{
    char *line = NULL, where[PATH_MAX + 64];
    size_t cap = 0;
    int exit_code = 0, number = 1;
    bool has_slurms = false;
    for (ssize_t n; !exit_code && (n = getline(&line, &cap, f)) >= 0; number++) {
        snprintf(where, sizeof where, "%s: %s, line %d", argv[0], path, number);
        bool marked = is_marked(line), dos = n > 1 && line[n - 2] == '\r';
        if (number == 1 && strncmp(line, "#!", 2) == 0)
            *interpreter = xstrdup(line + 2);
        if (dos && (*interpreter || marked || s->argv || s->text) && is_for_shell(*interpreter)) {
            exit_code = refuse_dos(where, path, !s->text);
        } else if (marked) {
            int from = s->argc;
            add_word(s, argv[0]);
            exit_code = add_words(s, line + strlen(MARK)) ? parse_line(where, s, from, parse, arg)
                                                          : usage_error("%s: a quote is not closed", where);
        } else if (strncmp(line, SLURMS_MARK, strlen(SLURMS_MARK)) == 0) {
            has_slurms = true;
        } else if (*line != '#' && line[strspn(line, " \t\r\n")] != '\0')
            break;
    }
    free(line);
    if (!exit_code && (*interpreter || s->argv || s->text))
        warn_below(argv[0], path, f, number);
    if (!exit_code && has_slurms && !s->argv)
        say_warning(argv[0],
                    "%s has " SLURMS_MARK " lines, which mean nothing here: say the same in " MARK " lines",
                    path);
    return exit_code;
}

/* Whether a program of that name would start. */
static bool is_program(const char *name)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    if (strchr(name, '/'))
        return access(name, X_OK) == 0;
    for (size_t len; path && *path; path += len + (path[len] == ':')) {
        len = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)len, path, name);
        if (len > 0 && access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* Whether that is the name of a script, and of no program: it would be looked for in vain. */
static bool is_no_program(const char *name)
{
    size_t len = strlen(name);
    return len > 3 && strcmp(name + len - 3, ".sh") == 0 && !is_program(name);
}

int script_read(int argc, char **argv, int first, script_flags *parse, void *arg, struct script *s)
{
    struct stat st;
    char path[PATH_MAX], *interpreter = NULL;
    if (first >= argc || strcmp(argv[first - 1], "--") == 0)
        return 0;
    if (strcmp(argv[first], "-") == 0 || strcmp(argv[first], "/dev/stdin") == 0)
        return script_read_stdin(argc, argv, first, parse, arg, s);
    if (stat(argv[first], &st))
        return is_no_program(argv[first])
                   ? usage_error(
                         "%s: there is no script %s here; for a command that only workers have, write -- "
                         "before it",
                         argv[0], argv[first])
                   : 0;
    if (S_ISDIR(st.st_mode) && strchr(argv[first], '/'))
        return usage_error("%s: %s is a directory: name a command or a script", argv[0], argv[first]);
    if (S_ISFIFO(st.st_mode)) /* <(...) of a shell */
        return usage_error(
            "%s: %s is a pipe, which no task can read: give the script on standard input, as in "
            "`... | hawk %s -`",
            argv[0], argv[first], argv[0]);
    if (!S_ISREG(st.st_mode))
        return is_no_program(argv[first]) ? usage_error("%s: %s is no file", argv[0], argv[first]) : 0;
    FILE *f = fopen(argv[first], "re");
    if (!f)
        return 0;
    int exit_code = read_lines(argv, argv[first], f, parse, arg, s, &interpreter);
    fclose(f);
    bool script = s->argv || (interpreter && !is_program(argv[first]));
    if (!exit_code && script && (!interpreter || !realpath(argv[first], path))) {
        exit_code = usage_error("%s: %s has " MARK " lines, and does not begin with a line like #!/bin/sh",
                                argv[0], argv[first]);
    } else if (!exit_code && !script && is_no_program(argv[first])) {
        exit_code = usage_error("%s: %s is no script: it does not begin with a line like #!/bin/sh", argv[0],
                                argv[first]);
    } else if (!exit_code && script) {
        s->first = s->argc;
        (void)add_words(s, interpreter);
        add_word(s, path);
        for (int i = first + 1; i < argc; i++)
            add_word(s, argv[i]);
    }
    free(interpreter);
    return exit_code;
}

/* ---- On standard input ---- */

/* Reads it to its end. Returns an exit code. */
static int read_stdin(const char *command, struct script *s)
{
    struct text t = {0};
    char buf[1 << 16];
    for (size_t n; t.len <= LIMIT_SPEC_BYTES && (n = fread(buf, 1, sizeof buf, stdin)) > 0;)
        text_add(&t, buf, n);
    s->text = t.data;
    s->len = t.len;
    if (ferror(stdin) && errno != EBADF) /* what is closed is empty */
        return usage_error("%s: cannot read the script on standard input: %s", command, strerror(errno));
    if (t.len > LIMIT_SPEC_BYTES)
        return usage_error(
            "%s: the script on standard input has more than %u bytes, the limit: submit it as a file",
            command, LIMIT_SPEC_BYTES);
    return 0;
}

/* Adds the interpreter, and its one argument, as the kernel reads them behind #!. Without: a shell. */
static void add_interpreter(struct script *s, char *text)
{
    static const char blanks[] = " \t\r\n";
    char *program = text + strspn(text, blanks), *end = program + strlen(program);
    while (end > program && strchr(blanks, end[-1]))
        *--end = '\0';
    char *argument = program + strcspn(program, blanks);
    if (*argument)
        *argument++ = '\0';
    argument += strspn(argument, blanks);
    add_word(s, *program ? program : "/bin/sh");
    if (*argument)
        add_word(s, argument);
}

/* Adds the command. The script's own standard input is /dev/null, as under sbatch. */
static void add_runner(struct script *s, char *interpreter)
{
    static const char *const shell[] = {"/bin/sh", "-c", "exec \"$@\" 3<&0 </dev/null", "sh"};
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++)
        add_word(s, shell[i]);
    add_interpreter(s, interpreter ? interpreter : (char[]){""});
    add_word(s, "/dev/fd/3");
}

int script_read_stdin(int argc, char **argv, int first, script_flags *parse, void *arg, struct script *s)
{
    char *interpreter = NULL;
    int exit_code = read_stdin(argv[0], s);
    if (!exit_code && s->len == 0 && first < argc)
        return usage_error("%s: standard input is empty: there is no script in it", argv[0]);
    if (exit_code || s->len == 0)
        return exit_code;
    const char *end = memchr(s->text, '\n', s->len);
    if (memchr(s->text, '\0', end ? (size_t)(end - s->text) : s->len))
        return usage_error("%s: what standard input has is no script: there is a NUL in its first line",
                           argv[0]);
    FILE *f = fmemopen(s->text, s->len, "r");
    CHECK(f);
    exit_code = read_lines(argv, "standard input", f, parse, arg, s, &interpreter);
    fclose(f);
    s->first = s->argc;
    add_runner(s, interpreter);
    for (int i = first + 1; i < argc; i++)
        add_word(s, argv[i]);
    free(interpreter);
    return exit_code;
}
