/* The words of a command: which of them a shell, or another program, reads as code. */
#include "template/shell.h"

#include <string.h>

#define AFTER_HOST NULL

static const char first_word[] = "first word"; /* no options: the address says it */

/* A program that runs a text it is given. */
struct reader {
    const char *name;  /* a '*' at its end: a version may follow, as in python3.11 */
    const char *shown; /* in a warning */
    /* The text follows one of these options; "": every word; AFTER_HOST: every word after a host; first_word: it is the
     * first word that is no option, unless -f names a file with it. */
    const char *flags;
    const char *takes; /* other options with a word of their own */
};

static const struct reader readers[] = {
    {"eval", "eval", "", ""},
    {"trap", "trap", "", ""},
    {"ssh", "ssh", AFTER_HOST, "BbcDEeFIiJLlmOopQRSWw"},
    {"python*", "python -c", "c", "WXm"},
    {"perl", "perl -e", "eE", "I"},
    {"ruby", "ruby -e", "e", "I"},
    {"node", "node -e", "e", "r"},
    {"php", "php -r", "r", "cdz"},
    {"lua*", "lua -e", "e", "l"},
    {"Rscript", "Rscript -e", "e", ""},
    {"fish", "fish -c", "cC", "dop"},
    {"script", "script -c", "c", "BEIOTm"},
    {"awk", "awk", first_word, "FvilW"},
    {"gawk", "awk", first_word, "FvilW"},
    {"mawk", "awk", first_word, "FvilW"},
    {"su", "su -c", "c", "gGsw"},
    {"env", "env -S", "S", "uC"},
};

static const char *base_name(const char *word) { return strrchr(word, '/') ? strrchr(word, '/') + 1 : word; }

/* Whether a word names a shell whose `-c` is read: sh, /bin/bash, ... */
static bool shell_is_name(const char *word)
{
    static const char *const shells[] = {"sh", "bash", "rbash", "dash", "ash", "ksh", "mksh", "zsh"};

    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(base_name(word), shells[i]) == 0)
            return true;
    return false;
}

static const struct reader *reader_find(const char *word)
{
    const char *name = base_name(word);

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        size_t len = strlen(readers[i].name);
        bool open = readers[i].name[len - 1] == '*';

        len -= open;
        if (strncmp(name, readers[i].name, len) == 0 &&
            (open ? name[len + strspn(name + len, "0123456789.")] : name[len]) == '\0')
            return &readers[i];
    }
    return NULL;
}

/* A shell takes a bare `+` for an option as well. */
static bool is_option(const char *word) { return *word == '-' || *word == '+'; }
static bool ends_options(const char *word) { return strcmp(word, "--") == 0 || strcmp(word, "-") == 0; }

/* An option of a shell. Letters stand together: -eo pipefail, -ec. */
static void shell_option(struct command_words *c, const char *word)
{
    if (ends_options(word)) { /* the text follows, or the name of a script */
        c->stage = c->stage == WORDS_CODE_NEXT ? WORDS_CODE_HERE : WORDS_NONE;
        return;
    }
    if (strncmp(word, "--", 2) == 0) {
        c->takes = strcmp(word, "--rcfile") == 0 || strcmp(word, "--init-file") == 0;
        return;
    }
    if (*word == '-' && strchr(word, 'c'))
        c->stage = WORDS_CODE_NEXT;
    c->takes = strpbrk(word, "oO") != NULL;
}

static void reader_option(struct command_words *c, const char *word)
{
    size_t len = strlen(word);

    if (c->reader->flags == first_word && (word[1] == 'f' || strncmp(word, "--file", 6) == 0)) {
        c->takes = !strchr(word, '=') && (len == 2 || word[1] == '-'); /* else the file's name is in it */
        c->stage = WORDS_NONE;
    } else if (word[1] != '-' && strchr(c->reader->takes, word[len - 1])) {
        c->takes = true;
    } else if (word[1] != '-' && c->reader->flags && c->reader->flags != first_word &&
               strchr(c->reader->flags, word[len - 1])) {
        c->stage = WORDS_CODE_NEXT;
    }
}

/* Takes a word as one of the program that was named before. False: it is none of its. */
static bool take_word(struct command_words *c, const char *word)
{
    if (c->takes) {
        c->takes = false;
        return true;
    }
    if (c->stage == WORDS_CODE_ALL)
        return true;
    if (c->stage == WORDS_CODE_HERE || (c->stage == WORDS_CODE_NEXT && (!c->shell || !is_option(word)))) {
        c->stage = c->shell ? WORDS_NONE : WORDS_NAMED;
        return true;
    }
    if (c->stage == WORDS_NONE)
        return false;
    if (is_option(word)) {
        if (c->shell)
            shell_option(c, word);
        else
            reader_option(c, word);
        return true;
    }
    c->stage = !c->shell && !c->reader->flags ? WORDS_CODE_ALL : WORDS_NONE;
    return c->stage == WORDS_CODE_ALL;
}

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list) != 0)
        list++;
    return *list;
}

/* A word that may stand before the program. */
static bool is_prefix(const char *word)
{
    static const char *const prefixes[] = {"if",     "then",    "elif",      "else",   "while",   "until",
                                           "do",     "time",    "!",         "{",      "command", "exec",
                                           "noglob", "builtin", "nocorrect", "coproc", NULL};

    return is_one_of(word, prefixes) || *word == '-' || strchr(word, '=');
}

static enum words_builtin builtin_find(const char *word)
{
    static const char *const tests[] = {"[[", "[", "test", NULL}, *const lets[] = {"let", NULL},
                             *const names[] = {"read",    "mapfile", "readarray", "unset",
                                               "getopts", "wait",    "vared",     NULL},
                             *const declares[] = {"declare", "typeset", "local", "export", "readonly", NULL},
                             *const integers[] = {"integer", "float", "nameref", NULL},
                             *const printfs[] = {"printf", "print", NULL};
    static const char *const *const lists[] = {
        [BUILTIN_TEST] = tests,       [BUILTIN_LET] = lets,         [BUILTIN_NAMES] = names,
        [BUILTIN_DECLARE] = declares, [BUILTIN_INTEGER] = integers, [BUILTIN_PRINTF] = printfs};

    for (unsigned i = BUILTIN_TEST; i <= BUILTIN_PRINTF; i++)
        if (is_one_of(word, lists[i]))
            return (enum words_builtin)i;
    return BUILTIN_OTHER;
}

void command_words_add(struct command_words *c, const char *word)
{
    c->names_next = c->builtin == BUILTIN_PRINTF && strcmp(word, "-v") == 0;
    if (!c->named && !is_prefix(word)) {
        c->named = true;
        c->builtin = (uint8_t)builtin_find(word);
    }
    if (take_word(c, word))
        return;
    c->shell =
        shell_is_name(word) || (!c->begun && strcmp(base_name(word), WORD_UNKNOWN) == 0); /* "$SHELL" -c */
    c->begun = true;
    c->reader = c->shell ? NULL : reader_find(word);
    c->stage = c->shell || c->reader ? WORDS_NAMED : WORDS_NONE;
    if (c->reader && c->reader->flags && !*c->reader->flags)
        c->stage = WORDS_CODE_ALL;
}

const char *command_words_reader(const struct command_words *c, char begin)
{
    if (!c->takes && c->stage == WORDS_NAMED && c->reader && c->reader->flags == first_word && begin != '-')
        return c->reader->shown;
    if (c->takes || c->stage < WORDS_CODE_NEXT)
        return NULL;
    return c->shell ? "sh -c" : c->reader->shown;
}

/* ---- The shell of a command ---- */

/* Skips options from word i on. `takes`: letters of options with a word of their own, `longs`: long ones. */
static uint32_t skip_options(uint32_t i, uint32_t argc, const char *const *argv, const char *takes,
                             const char *const *longs)
{
    for (; i < argc && *argv[i] == '-'; i++) {
        const char *word = argv[i];

        if (strcmp(word, "--") == 0)
            return i + 1;
        if (word[1] == '-') {
            for (const char *const *l = longs; *l; l++)
                if (strcmp(word, *l) == 0)
                    i++;
        } else if (word[1] && strchr(takes, word[strlen(word) - 1])) {
            i++;
        }
    }
    return i;
}

/* The index of the program that env, nice or timeout in argv[i] starts; argc: none, or it cannot be told. */
static uint32_t behind(uint32_t i, uint32_t argc, const char *const *argv, const char *name)
{
    static const char *const of_env[] = {"--unset", "--chdir", NULL},
                             *const of_nice[] = {"--adjustment", NULL},
                             *const of_timeout[] = {"--kill-after", "--signal", NULL};

    if (strcmp(name, "nice") == 0)
        return skip_options(i + 1, argc, argv, "n", of_nice);
    if (strcmp(name, "timeout") == 0) {
        i = skip_options(i + 1, argc, argv, "ks", of_timeout);
        return i < argc ? i + 1 : argc;
    }
    for (uint32_t k = i + 1; k < argc && *argv[k] == '-'; k++)
        if (strncmp(argv[k], "--split-string", 14) == 0 || (argv[k][1] != '-' && strchr(argv[k], 'S')))
            return argc;
    i = skip_options(i + 1, argc, argv, "uC", of_env);
    while (i < argc && strchr(argv[i], '='))
        i++;
    return i;
}

int shell_text_of(uint32_t argc, const char *const *argv)
{
    struct command_words words = {0};
    uint32_t i = 0;

    while (i < argc && !shell_is_name(argv[i])) {
        const char *name = base_name(argv[i]);

        if (strcmp(name, "env") != 0 && strcmp(name, "nice") != 0 && strcmp(name, "timeout") != 0)
            return -1;
        i = behind(i, argc, argv, name);
    }
    for (; i < argc; i++) {
        bool next = words.stage == WORDS_CODE_NEXT && !words.takes && !is_option(argv[i]);

        if (next || words.stage == WORDS_CODE_HERE)
            return (int)i;
        command_words_add(&words, argv[i]);
        if (words.stage == WORDS_NONE)
            return -1;
    }
    return -1;
}
