/* Where a job's tasks get their inputs: --each-line, --array and --input, alone or several of them. */
#ifndef HAWK_CLI_INPUTS_H
#define HAWK_CLI_INPUTS_H

#include "cli/command.h"
#include "msg/types.h"

struct input_options {
    struct flag_list sources; /* of the flags below, in their order */
    bool link, csv, header, null;
    const char *separator;
};

#define INPUT_FLAGS(type, at)                                                                                \
    FLAG(SOURCE, type, at.sources, "array", 'a', "A-B[:STEP],...[%N]",                                       \
         "one task per number; %N as --max-running N"),                                                      \
        FLAG(SOURCE, type, at.sources, "each-line", 'l', "FILE|-",                                           \
             "one task per line of FILE; empty lines are skipped"),                                          \
        FLAG(WORDS, type, at.sources, "input", 'I', "WORD...",                                               \
             "one task per word, up to the next flag or --; a first word that begins with -: --input=WORD"), \
        FLAG(BOOL, type, at.link, "link", 0, NULL,                                                           \
             "with several of these, take one value of each instead of all combinations"),                   \
        FLAG(BOOL, type, at.csv, "csv", 0, NULL, "lines have columns with commas between them: {1}, {2}"),   \
        FLAG(TEXT, type, at.separator, "separator", 0, "C",                                                  \
             "the same with this character between them; \\t: a tab"),                                       \
        FLAG(BOOL, type, at.header, "header", 0, NULL,                                                       \
             "the first line of a file names the columns: {name}"),                                          \
        FLAG(BOOL, type, at.null, "null", '0', NULL,                                                         \
             "in files a NUL ends an input instead of a newline, as `find -print0` writes them")

/* The numbers A, A-B or A-B:STEP. */
#define ARRAY_RANGES_MAX 100u
struct array_range {
    uint32_t first, last, step;
};
/* Reads "1-10:2,15" into at most ARRAY_RANGES_MAX ranges. HAWK_EINVALID or HAWK_ETOO_LARGE and a text in why that names
 * the flag. */
HAWK_MUST_USE int array_parse(const char *flag, const char *text, struct array_range *ranges, uint32_t *n,
                              char *why, size_t size);

/* One source. Each value has its columns, with a NUL between two. */
struct input_source {
    struct task_args values;
    uint32_t columns;
    struct strings names; /* of the columns; n = 0: they have none */
};

/* What was read. Zeros: no source, so that there is one task. */
struct inputs {
    struct input_source *v;
    uint32_t n, cap, columns;
    bool range; /* the only source is A-B: */
    uint32_t first, last;
    bool lines;           /* a source may have anything in it, not only numbers */
    uint32_t max_running; /* the least N of --array A-B%N; 0: none is given */
};

/* Reads all sources. With `rest` a single list whose lines come by and by is read to its first ones, at most
 * INPUTS_FIRST, and *rest is the rest of it. 0, or HAWK_EXIT_USAGE after a message. */
struct lines;
#define INPUTS_FIRST 256u
int inputs_read(const char *command, const struct input_options *o, struct inputs *in, struct lines **rest);
void inputs_free(struct inputs *in);
/* A copy of the text in which {NAME}, {NAME.} and so on name columns by number. free() it. */
char *inputs_numbered(const struct inputs *in, const char *text);
/* Warns of what looks like a place in the text and is none: {3} of two columns, {name} of a header without it, and
 * {2} of one column if it is the whole text. */
void inputs_warn_unknown(const char *command, const struct inputs *in, const char *text);
/* Gives the job its tasks and their arguments: all combinations, the last source changing first, or with `link` the
 * values that stand at one place. 0, or HAWK_EXIT_USAGE after a message. */
int inputs_use(const char *command, const struct inputs *in, bool link, struct job_desc *d);

/* Reads the file that a flag names, or standard input ("-"), to its end or to some byte beyond `limit`, with a NUL
 * behind. The caller frees it; NULL after a message. */
char *inputs_file(const char *command, const char *flag, const char *path, size_t limit, size_t *len);

/* A text with records, and how far it was read. */
struct records {
    const char *at, *end;
    size_t line; /* the number of the line that begins at `at`, or of what NULs end */
    bool more;   /* the text goes on behind its end: a record that ends there may not be whole, and is left */
};

/* The records of a text: lines, or what stands between NULs, taken apart into fields by `separator` (0: they are one
 * field). A field in double quotes may have anything in it, as RFC 4180 says. Calls fn with the number of the line in
 * which a record begins and its fields with a NUL between two; false from it ends. HAWK_EINVALID, and *line: quotes
 * that do not end, or text behind them. */
typedef bool record_fn(void *arg, size_t line, const char *fields, size_t len, uint32_t n);
HAWK_MUST_USE int records_read(struct records *r, char end, char separator, record_fn *fn, void *arg,
                               size_t *line);

#endif
