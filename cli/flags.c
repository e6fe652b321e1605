/* Reads the flags of commands with getopt_long, from the tables that describe them. */
#include "cli/command.h"

#include "base/mem.h"
#include "base/near.h"
#include "base/units.h"
#include "cli/document.h"

#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_MAX 64
#define MEMORY_MIN (1 << 20) /* of a program */
#define FIRST_VALUE 1000     /* getopt_long's value for flag 0: beyond any letter */

/* Flags that the user wrote by their letters, so that messages name them as he did. */
static const struct flag *lettered[FLAGS_MAX];
static int lettered_n;

static void note_letter(const struct flag *f, bool letter)
{
    int at = 0;
    while (at < lettered_n && lettered[at] != f)
        at++;
    if (at < lettered_n && !letter)
        lettered[at] = lettered[--lettered_n];
    else if (at == lettered_n && letter && at < FLAGS_MAX)
        lettered[lettered_n++] = f;
}

/* The flag whose whole name text begins with, if the user wrote its letter; else NULL. */
static const struct flag *lettered_at(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    for (int i = 0; i < lettered_n; i++)
        if (strlen(lettered[i]->name) == len && strncmp(lettered[i]->name, text, len) == 0)
            return lettered[i];
    return NULL;
}

/* Writes "-j" for "--slots" where the user wrote that; in place, as it only becomes shorter. */
static void name_as_typed(char *text)
{
    char *to = text;
    while (*text) {
        const struct flag *f = strncmp(text, "--", 2) == 0 ? lettered_at(text + 2) : NULL;
        if (f) {
            *to++ = '-';
            *to++ = f->letter;
            text += 2 + strlen(f->name);
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

int usage_error(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    name_as_typed(text);
    say_error(NULL, "%s", text);
    return HAWK_EXIT_USAGE;
}

int milli_parse(const char *text, uint32_t min, uint32_t *milli)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || text[strspn(text, "0123456789.")] || !(v >= min / 1000.0 && v <= 1000))
        return HAWK_EINVALID;
    *milli = (uint32_t)(v * 1000 + 0.5);
    return 0;
}

static int store_choice(const char *command, const struct flag *f, const char *text, void *place)
{
    size_t len = strlen(text);
    for (const char *word = f->arg; word; word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL)
        if (len && strncmp(word, text, len) == 0 && (word[len] == '|' || word[len] == '\0')) {
            *(const char **)place = text;
            return 0;
        }
    return usage_error("%s: --%s is one of %s, not '%s'", command, f->name, f->arg, text);
}

static int store_count(const char *command, const struct flag *f, const char *text, void *place)
{
    uint64_t v = 0;
    if (u64_parse(text, f->min, f->max, &v))
        return usage_error("%s: --%s takes a whole number within %llu and %llu, not '%s'", command, f->name,
                           (unsigned long long)f->min, (unsigned long long)f->max, text);
    *(uint32_t *)place = (uint32_t)v;
    return 0;
}

static int store_duration(const char *command, const struct flag *f, const char *text, void *place)
{
    int err = duration_parse(text, place);
    if (err == HAWK_ETOO_LARGE)
        return usage_error("%s: --%s: '%s' is more than 10,000 days", command, f->name, text);
    if (err)
        return usage_error("%s: --%s takes a duration like 250ms, 30s, 5m or 2h, not '%s'", command, f->name,
                           text);
    if (*(int64_t *)place < (int64_t)f->min)
        return usage_error("%s: --%s takes a duration above 0, not '%s'", command, f->name, text);
    return 0;
}

static int store_size(const char *command, const struct flag *f, const char *text, void *place)
{
    char binary[32]; /* "2G" is 2GiB, and so is "2g", as for other programs that take --mem */
    uint64_t bytes;
    size_t len = strlen(text);
    snprintf(binary, sizeof binary, "%.20s", text);
    if (len > 0 && len < 20 && strchr("KMGTkmgt", text[len - 1]))
        snprintf(binary, sizeof binary, "%.*s%ciB", (int)len - 1, text,
                 toupper((unsigned char)text[len - 1]));
    if (size_parse(binary, &bytes) || bytes == 0 || bytes > INT64_MAX)
        return usage_error("%s: --%s takes a size above 0, like 500M, 2G or 1T, not '%s'", command, f->name,
                           text);
    *(int64_t *)place = (int64_t)bytes;
    return 0;
}

static int store_memory(const char *command, const struct flag *f, const char *text, int64_t *bytes)
{
    int exit_code = store_size(command, f, text, bytes);
    if (!exit_code && *bytes < MEMORY_MIN)
        return usage_error("%s: --%s %s is %lld bytes, and no program starts in less than 1M: write %sM",
                           command, f->name, text, (long long)*bytes,
                           text[strspn(text, "0123456789")] ? "at least 1" : text);
    return exit_code;
}

static void flag_list_add(struct flag_list *l, const char *text)
{
    vec_grow(l->v, l->n, l->cap);
    l->v[l->n++] = text;
}

static void source_add_text(struct flag_list *l, const char *flag, const char *text)
{
    vec_grow(l->flags, l->n, l->flags_cap);
    l->flags[l->n] = flag;
    flag_list_add(l, text);
}

void flag_list_free(struct flag_list *l)
{
    free(l->v);
    free(l->flags);
    *l = (struct flag_list){0};
}

/* Stores a flag's argument. 0, or HAWK_EXIT_USAGE after a message. */
static int store_value(const char *command, const struct flag *f, const char *text, void *opts)
{
    void *place = (char *)opts + f->offset;
    switch ((enum flag_kind)f->kind) {
    case FLAG_BOOL:
        *(bool *)place = true;
        return 0;
    case FLAG_TEXT:
        *(const char **)place = text;
        return 0;
    case FLAG_LIST:
        flag_list_add(place, text);
        return 0;
    case FLAG_SOURCE:
    case FLAG_WORDS:
        source_add_text(place, f->name, text);
        return 0;
    case FLAG_COUNT:
        return store_count(command, f, text, place);
    case FLAG_DURATION:
        return store_duration(command, f, text, place);
    case FLAG_SIZE:
        return store_size(command, f, text, place);
    case FLAG_MEMORY:
        return store_memory(command, f, text, place);
    case FLAG_CHOICE:
        return store_choice(command, f, text, place);
    case FLAG_SHARE:
        if (share_parse(text, place))
            return usage_error("%s: --%s takes a share within 0%% and 100%%, like 17%% or 0.17, not '%s'",
                               command, f->name, text);
        return 0;
    }
    return 0;
}

#define OF_RUN "it is a flag of `hawk run`"
#define NO_CHOICE "no workers or nodes are chosen here, and --class short|long is all that partitions are for"

/* What people are used to from GNU parallel, xargs, make and Slurm, for commands that have the flag `ours`: it is the
 * same or, where there is a text, all that the command has beside it. The first row counts. */
static const struct {
    const char *theirs, *ours, *text;
} flags_elsewhere[] = {
    {"--jobs", "slots", NULL},
    {"--max-procs", "slots", NULL},
    {"-P", "slots", NULL},
    {"--timeout", "time-limit", NULL},
    {"--time", "time-limit", NULL},
    {"--bar", "progress", NULL},
    {"--eta", "progress", NULL},
    {"--job-name", "name", NULL},
    {"-J", "name", NULL},
    {"--dependency", "after", NULL},
    {"--chdir", "cwd", NULL},
    {"-D", "cwd", NULL},
    {"--workdir", "cwd", NULL},
    {"--wd", "cwd", NULL},
    {"--results", "stdout", NULL},
    {"--colsep", "csv", NULL},
    {"--arg-file", "each-line", NULL},
    {"--requeue", "lost-retries", NULL},
    {"--wrap", "array", "write the command as -- sh -c 'a | b'"},
    {"--partition", "hold", NO_CHOICE},
    {"-p", "hold", NO_CHOICE},
    {"--nodelist", "hold", NO_CHOICE},
    {"--nodes", "hold", NO_CHOICE},
    {"-N", "hold", NO_CHOICE},
    {"--ntasks", "array", "--array 1-8 makes eight tasks"},
    {"-k", "array", OF_RUN},
    {"-j", "array", OF_RUN "; --max-running N limits a job here"},
    {"--jobs", "array", OF_RUN " (-j); --max-running N limits a job here"},
    {"--slots", "array", OF_RUN "; --max-running N limits a job here"},
    {"--keep-order", "array", OF_RUN},
    {"--tag", "array", OF_RUN},
    {"--joblog", "array", OF_RUN},
    {"--resume", "array", OF_RUN},
    {"--halt", "array", OF_RUN},
    {"--delay", "array", OF_RUN},
    {"--shuf", "array", OF_RUN},
    {"--dry-run", "array", OF_RUN},
};

static bool has_flag(const struct flag *const *flags, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(flags[i]->name, name) == 0)
            return true;
    return false;
}

/* The row for the word, "--jobs=4", in a command with these flags; -1: we know of none. */
static int row_of(const struct flag *const *flags, int n, const char *word)
{
    size_t len = strcspn(word, "=");
    for (size_t i = 0; i < sizeof flags_elsewhere / sizeof *flags_elsewhere; i++)
        if (strlen(flags_elsewhere[i].theirs) == len && strncmp(flags_elsewhere[i].theirs, word, len) == 0 &&
            has_flag(flags, n, flags_elsewhere[i].ours))
            return (int)i;
    return -1;
}

static int unknown_flag(const char *command, const struct flag *const *flags, int n, const char *text)
{
    char word[64] = "";
    if (strncmp(text, "--", 2) == 0)
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    struct near near = near_begin(word);
    for (int i = 0; i <= n; i++)
        near_look(&near, i < n ? flags[i]->name : "help");
    int row = row_of(flags, n, text);
    const char *say = row < 0 ? NULL : flags_elsewhere[row].text;
    if (row >= 0)
        near.name = flags_elsewhere[row].ours;
    lettered_n = 0; /* what is suggested stands whole */
    if (say)
        usage_error("%s: no flag '%s': %s", command, text, say);
    else if (near.name)
        usage_error("%s: no flag '%s': did you mean --%s?", command, text, near.name);
    else
        usage_error("%s: no flag '%s': `hawk help %.*s` lists them", command, text,
                    (int)strcspn(command, ":"), command);
    return -HAWK_EXIT_USAGE;
}

/* Both tables in one, for getopt_long. */
struct flag_set {
    const struct flag *flags[FLAGS_MAX];
    struct option options[FLAGS_MAX + 2];
    char letters[3 * FLAGS_MAX];
    int n;
};

static void flag_set_add(struct flag_set *s, const struct flag *table)
{
    for (const struct flag *f = table; f && f->name && s->n < FLAGS_MAX; f++) {
        int has_arg = f->kind == FLAG_BOOL ? no_argument : required_argument;
        if (f->letter) {
            size_t len = strlen(s->letters);
            snprintf(s->letters + len, sizeof s->letters - len, "%c%s", f->letter, has_arg ? ":" : "");
        }
        s->options[s->n] = (struct option){f->name, has_arg, NULL, FIRST_VALUE + s->n};
        s->flags[s->n++] = f;
    }
}

static const struct flag *flag_of(const struct flag_set *s, int value)
{
    if (value >= FIRST_VALUE && value < FIRST_VALUE + s->n)
        return s->flags[value - FIRST_VALUE];
    for (int i = 0; i < s->n; i++)
        if (s->flags[i]->letter && s->flags[i]->letter == value)
            return s->flags[i];
    return NULL;
}

/* The flag that getopt_long read last, as the user wrote it. Its argument may be a word of its own. */
static const char *word_read(char **argv)
{
    return argv[optarg == argv[optind - 1] ? optind - 2 : optind - 1];
}

/* Whether the user wrote the whole name. getopt_long accepts a part of it as well, and `--at now` must not
 * become --at-most-once and the command `now`. */
static bool is_whole(const char *name, char **argv)
{
    return strcspn(word_read(argv), "=") == strlen("--") + strlen(name);
}

/* Reports what getopt_long found wrong. Only these variables say which kind of error it is. */
static int bad_flag(const char *command, const struct flag_set *s, int result, char **argv)
{
    const struct flag *f = flag_of(s, optopt);
    if (optopt >= FIRST_VALUE && f && !is_whole(f->name, argv))
        return unknown_flag(command, s->flags, s->n, word_read(argv));
    if (f)
        note_letter(f, optopt < FIRST_VALUE);
    if (result == ':' && f) {
        usage_error("%s: --%s needs its argument, %s", command, f->name, f->arg);
        return -HAWK_EXIT_USAGE;
    }
    if (optopt >= FIRST_VALUE && f) {
        usage_error("%s: --%s takes no argument", command, f->name);
        return -HAWK_EXIT_USAGE;
    }
    char letter[3] = {'-', (char)optopt, '\0'};
    return unknown_flag(command, s->flags, s->n,
                        optopt > 0 && optopt < FIRST_VALUE ? letter : argv[optind - 1]);
}

/* The list of words is empty: what getopt_long took for its first one is the next flag, or "--". */
static bool no_words(const struct flag *f, char **argv)
{
    return f && f->kind == FLAG_WORDS && optarg == argv[optind - 1] && *optarg == '-' && optarg[1];
}

/* Takes the words after a flag's first one, which getopt_long does not know of. opts NULL: skips them. */
static void take_words(const struct flag *f, int argc, char **argv, void *opts)
{
    if (no_words(f, argv))
        optind--;
    while (f && f->kind == FLAG_WORDS && optind < argc && argv[optind][0] != '-') {
        if (opts)
            source_add_text((struct flag_list *)((char *)opts + f->offset), "+", argv[optind]);
        optind++;
    }
}

/* Whether a word of a list, a file's name for example, was taken for a flag: then the words behind it begin the
 * command, and the "--" that should is in it. */
static bool words_went_astray(const struct flag *list, int argc, char **argv)
{
    if (!list || strcmp(argv[optind - 1], "--") == 0)
        return false;
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return true;
    return false;
}

/* A wrong command line is reported in the output format that it asks for, wherever that stands in it. So
 * this looks for it first, in a copy, since getopt_long moves words. */
static void look_for_json(const struct flag_set *s, int argc, char **argv)
{
    char **words = xmalloc(((size_t)argc + 1) * sizeof *words);
    memcpy(words, argv, ((size_t)argc + 1) * sizeof *words);
    optind = 0;
    for (int result, at = -1; (result = getopt_long(argc, words, s->letters, s->options, &at)) != -1;
         at = -1) {
        const struct flag *f = result == '?' || result == ':' ? NULL : flag_of(s, result);
        if (f && strcmp(f->name, "output") == 0 && strcmp(optarg, "json") == 0 &&
            (at < 0 || is_whole(f->name, words)))
            document_want();
        take_words(f, argc, words, NULL);
    }
    free(words);
}

int flags_take_output(const char *command, int *argc, char **argv)
{
    const char *form = NULL;
    int n = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--output") == 0 || strcmp(argv[i], "-o") == 0)
            form = i + 1 < *argc ? argv[++i] : "";
        else if (strncmp(argv[i], "--output=", 9) == 0)
            form = argv[i] + 9;
        else
            argv[n++] = argv[i];
    }
    argv[n] = NULL;
    *argc = n;
    if (form && strcmp(form, "json") == 0)
        document_want();
    else if (form && strcmp(form, "table") != 0)
        return usage_error("%s: --output is one of table|json, not '%s'", command, form);
    return HAWK_EXIT_OK;
}

int flags_parse(const char *command, const struct flag *own, const struct flag *common, bool stop_early,
                int argc, char **argv, void *opts)
{
    struct flag_set s = {.n = 0};
    /* "+": stop at the first argument that is no flag; ":": tell a missing argument from an unknown flag. */
    snprintf(s.letters, sizeof s.letters, "%s", stop_early ? "+:h" : ":h");
    flag_set_add(&s, own);
    flag_set_add(&s, common);
    s.options[s.n] = (struct option){"help", no_argument, NULL, 'h'};
    s.options[s.n + 1] = (struct option){0};
    opterr = 0;
    lettered_n = 0;
    look_for_json(&s, argc, argv);
    optind = 0; /* GNU: start anew */
    for (const struct flag *list = NULL;;) {
        int at = -1; /* place in s.options; -1: a letter */
        optopt = 0;
        int result = getopt_long(argc, argv, s.letters, s.options, &at);
        if (result == -1 && words_went_astray(list, argc, argv))
            return -usage_error(
                "%s: a word of --%s begins with '-' and was taken for a flag: write ./* for *, or use a "
                "file of words",
                command, list->name);
        if (result == -1)
            return optind;
        if (at >= 0 && result != '?' && result != ':' && !is_whole(s.options[at].name, argv))
            return unknown_flag(command, s.flags, s.n, word_read(argv));
        if (result == 'h')
            return -HAWK_EXIT_HELP;
        if (result == '?' || result == ':')
            return bad_flag(command, &s, result, argv);
        const struct flag *f = flag_of(&s, result);
        int err = 0;
        note_letter(f, at < 0);
        list = f->kind == FLAG_WORDS ? f : list;
        if (no_words(f, argv))
            source_add_text((struct flag_list *)((char *)opts + f->offset), f->name, NULL);
        else
            err = store_value(command, f, optarg, opts);
        if (err)
            return -err;
        take_words(f, argc, argv, opts);
    }
}
