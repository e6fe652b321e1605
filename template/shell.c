/* Where places stand in a shell's text: bare, inside quotes, or where no quoting helps.
 *
 * This reads as much of the shell's language as that takes, and not more. Where it cannot be sure, it says WHERE_NEVER,
 * for all that follows: then a value that is not safe fails its task, and nothing is run by mistake. */
#include "template/shell.h"

#include <string.h>

#define FRAMES_MAX 32
#define HEREDOCS_MAX 4
#define DELIMITER_MAX 64
#define WORD_MAX 32
#define UNKNOWN (*WORD_UNKNOWN)

/* What the lexer is inside of. */
enum frame_kind {
    FRAME_TOP,
    FRAME_PAREN,   /* ( ) */
    FRAME_COMMAND, /* $( ) */
    FRAME_DOUBLE,
    FRAME_ARITHMETIC, /* $(( )) or (( )) */
    FRAME_PARAMETER,  /* ${ } */
    FRAME_BACKQUOTE,
};

struct frame {
    enum frame_kind kind;
    /* TOP, PAREN, COMMAND: the simple command that is being read, and its last word, after its last slash. */
    struct command_words words;
    char word[WORD_MAX];
    unsigned word_len;
    bool in_word, redirect;    /* redirect: the word is the name of a file */
    bool subscript;            /* after NAME[ */
    unsigned depth;            /* ARITHMETIC: open parentheses */
    unsigned singles, doubles; /* BACKQUOTE: quotes inside it */
};

struct heredoc {
    char delimiter[DELIMITER_MAX];
    unsigned len, frames;
    bool strip, quoted;
};

struct lexer {
    const char *s;
    size_t at, glued; /* glued: a value here would become part of the name of a variable */
    uint32_t columns;
    struct frame frames[FRAMES_MAX];
    unsigned n;
    struct heredoc pending[HEREDOCS_MAX];
    unsigned pending_n;
    const char *lost; /* why no later place can be trusted; NULL: they can */
    void (*fn)(void *arg, const struct found *f);
    void *arg;
};

static struct frame *top(struct lexer *l) { return &l->frames[l->n - 1]; }

static bool is_command(const struct frame *f) { return f->kind <= FRAME_COMMAND; }

/* The frame whose word is being read: DOUBLE and the like are parts of a word. */
static struct frame *command_frame(struct lexer *l)
{
    struct frame *f = top(l);

    while (!is_command(f))
        f--;
    return f;
}

static void lose_track(struct lexer *l, const char *why)
{
    if (!l->lost)
        l->lost = why;
}

static void push(struct lexer *l, enum frame_kind kind, unsigned depth)
{
    if (l->n == FRAMES_MAX) {
        lose_track(l, "quotes that are nested too deeply");
        return;
    }
    l->frames[l->n++] = (struct frame){.kind = kind, .depth = depth};
}

static void pop(struct lexer *l)
{
    if (l->n > 1)
        l->n--;
    for (unsigned i = 0; i < l->pending_n; i++)
        if (l->pending[i].frames > l->n)
            lose_track(l, "what follows a here-document");
}

static bool inside(const struct lexer *l, enum frame_kind kind)
{
    for (unsigned i = 0; i < l->n; i++)
        if (l->frames[i].kind == kind)
            return true;
    return false;
}

/* ---- Words ---- */

static void word_add(struct lexer *l, char c)
{
    struct frame *f = command_frame(l);

    f->in_word = true;
    if (c == '/')
        f->word_len = 0;
    else if (f->word_len < WORD_MAX - 1)
        f->word[f->word_len++] = c;
}

static void word_end(struct lexer *l)
{
    struct frame *f = top(l);

    if (!f->in_word)
        return;
    f->word[f->word_len] = '\0';
    /* In a case, or in [[ ]], a parenthesis may close that none has opened. */
    if ((strcmp(f->word, "case") == 0 || strcmp(f->word, "[[") == 0) && inside(l, FRAME_COMMAND))
        lose_track(l, "$(...) with a `case` or `[[` in it");
    if (!f->redirect)
        command_words_add(&f->words, f->word);
    f->word_len = 0;
    f->in_word = f->redirect = false;
}

static void command_end(struct lexer *l)
{
    word_end(l);
    top(l)->words = (struct command_words){0};
    top(l)->redirect = false;
}

/* ---- Places ---- */

/* Why no value can be quoted where the lexer is; NULL: it can. */
static const char *why_never(struct lexer *l)
{
    if (l->lost)
        return l->lost;
    for (unsigned i = 0; i < l->n; i++) {
        const struct frame *f = &l->frames[i];

        if (f->kind == FRAME_ARITHMETIC)
            return "$((...))";
        if (f->kind == FRAME_PARAMETER)
            return "${...}";
        if (f->kind == FRAME_BACKQUOTE)
            return "backquotes";
        if (f->subscript)
            return "a subscript";
        if (is_command(f) && f->words.shell && command_words_reader(&f->words, '\0'))
            return "the text of another `sh -c`";
    }
    return l->pending_n ? "the line of a here-document" : NULL;
}

static const char *who_reads(const struct lexer *l)
{
    const char *reader = NULL;

    for (unsigned i = 0; !reader && i < l->n; i++) {
        const struct frame *f = &l->frames[i];

        if (is_command(f))
            reader = command_words_reader(&f->words, f->word_len ? f->word[0] : '\0');
    }
    return reader;
}

/* Reports the place at l->at, and skips it. False: there is none. */
static bool take_place(struct lexer *l, enum place_where where, const char *never)
{
    struct found f = {.at = l->at, .where = where};

    f.len = place_read(l->s + l->at, l->columns, &f.place);
    if (!f.len)
        return false;
    f.why = never ? never : why_never(l);
    f.reader = who_reads(l);
    char next = l->s[l->at + f.len];
    /* {}>file: a number would be the descriptor. */
    f.always = l->glued == l->at || (where == WHERE_BARE && (next == '>' || next == '<'));
    if (f.why)
        f.where = WHERE_NEVER;
    l->fn(l->arg, &f);
    l->at += f.len;
    return true;
}

/* ---- What begins with $ ---- */

static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool goes_on_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

/* $'...', in which shells differ about backslashes. */
static void ansi_quoted(struct lexer *l)
{
    word_add(l, UNKNOWN);
    for (l->at += 2; l->s[l->at] && l->s[l->at] != '\'';) {
        if (take_place(l, WHERE_NEVER, "$'...'"))
            continue;
        if (l->s[l->at] == '\\')
            lose_track(l, "what follows $'...' with a backslash");
        l->at++;
    }
    l->at += l->s[l->at] == '\'';
}

static void variable(struct lexer *l)
{
    l->at++;
    l->at += strspn(l->s + l->at, "=~^+"); /* zsh: $=name */
    if (begins_name(l->s[l->at]))
        while (goes_on_name(l->s[l->at]))
            l->at++;
    else if (l->s[l->at] && strchr("0123456789*@#?$!-", l->s[l->at]))
        l->at++;
    l->glued = l->at;
    if (l->s[l->at] == '[')
        top(l)->subscript = true;
}

static void dollar(struct lexer *l)
{
    const char *next = l->s + l->at + 1;

    word_add(l, UNKNOWN);
    if (strncmp(next, "((", 2) == 0) {
        push(l, FRAME_ARITHMETIC, 2);
        l->at += 3;
    } else if (*next == '(') {
        push(l, FRAME_COMMAND, 0);
        l->at += 2;
    } else if (*next == '{') {
        push(l, FRAME_PARAMETER, 0);
        l->at += 2;
    } else if (*next == '\'' && is_command(top(l))) {
        ansi_quoted(l);
    } else if (*next == '[' || (next[0] == '\\' && next[1] == '\n')) {
        lose_track(l, "what follows $[...]");
        l->at++;
    } else {
        variable(l);
    }
}

/* ---- Here-documents ---- */

static void heredoc_char(struct lexer *l, struct heredoc *h, char c)
{
    if (h->len < DELIMITER_MAX)
        h->delimiter[h->len++] = c;
    else
        lose_track(l, "what follows a here-document");
}

/* The word after <<, which ends the document. */
static void heredoc_begin(struct lexer *l)
{
    struct heredoc h = {.frames = l->n};
    char quote = '\0';

    word_end(l);
    l->at += 2;
    h.strip = l->s[l->at] == '-';
    l->at += h.strip;
    l->at += strspn(l->s + l->at, " \t");
    for (; l->s[l->at] && (quote || !strchr(" \t\n;&|<>()", l->s[l->at])); l->at++) {
        char c = l->s[l->at];
        struct place p;

        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? '\0' : c;
            h.quoted = true;
        } else if (strchr("$`\\\n", c) || place_read(l->s + l->at, l->columns, &p)) {
            lose_track(l, "what follows a here-document");
        } else {
            heredoc_char(l, &h, c);
        }
    }
    if (l->pending_n == HEREDOCS_MAX || (!h.len && !h.quoted))
        lose_track(l, "what follows a here-document");
    else
        l->pending[l->pending_n++] = h;
}

/* One line of a document. True: it was the last. */
static bool heredoc_line(struct lexer *l, const struct heredoc *h)
{
    size_t begin = l->at + (h->strip ? strspn(l->s + l->at, "\t") : 0);
    size_t len = strcspn(l->s + begin, "\n"), end = begin + len;
    bool last = len == h->len && memcmp(l->s + begin, h->delimiter, len) == 0;

    while (l->at < end) {
        if (!last && take_place(l, WHERE_NEVER, "a here-document"))
            continue;
        /* A line that goes on, or a command in the document, may hide its end. */
        if (!h->quoted && (l->s[l->at] == '`' || (l->s[l->at] == '$' && strchr("({", l->s[l->at + 1])) ||
                           (l->s[l->at] == '\\' && l->s[l->at + 1] == '\n')))
            lose_track(l, "what follows a here-document with a command in it");
        l->at++;
    }
    l->at += l->s[l->at] == '\n';
    return last;
}

/* After a bare newline: the documents that the line announced. */
static void heredocs_read(struct lexer *l)
{
    for (unsigned i = 0; i < l->pending_n; i++) {
        if (l->pending[i].frames != l->n)
            lose_track(l, "what follows a here-document");
        while (l->s[l->at] && !heredoc_line(l, &l->pending[i]))
            ;
    }
    l->pending_n = 0;
}

/* ---- Outside quotes ---- */

static void single_quoted(struct lexer *l)
{
    command_frame(l)->in_word = true;
    for (l->at++; l->s[l->at] && l->s[l->at] != '\'';) {
        if (take_place(l, WHERE_SINGLE, NULL))
            word_add(l, UNKNOWN);
        else
            word_add(l, l->s[l->at++]);
    }
    l->at += l->s[l->at] == '\'';
}

static void comment(struct lexer *l)
{
    if (inside(l, FRAME_COMMAND) || (l->at && !strchr(" \t\n;&|(", l->s[l->at - 1])))
        lose_track(l, "what follows a comment");
    while (l->s[l->at] && l->s[l->at] != '\n')
        if (!take_place(l, WHERE_NEVER, "a comment"))
            l->at++;
}

static void redirection(struct lexer *l)
{
    struct frame *f = top(l);
    bool all_digits = f->in_word && f->word_len > 0;

    for (unsigned i = 0; i < f->word_len; i++)
        all_digits = all_digits && f->word[i] >= '0' && f->word[i] <= '9';
    if (all_digits || (f->in_word && f->word_len && f->word[0] == '{'))
        f->in_word = false, f->word_len = 0; /* 2>, {fd}> */
    if (strncmp(l->s + l->at, "<<", 2) == 0 && l->s[l->at + 2] != '<') {
        heredoc_begin(l);
        return;
    }
    word_end(l);
    l->at += strspn(l->s + l->at, "<>");
    if (l->s[l->at] && strchr("&|", l->s[l->at]))
        l->at++;
    f->redirect = true;
}

static void parenthesis(struct lexer *l)
{
    struct frame *f = top(l);

    if (!f->in_word && l->s[l->at + 1] == '(') {
        push(l, FRAME_ARITHMETIC, 2);
        l->at += 2;
        return;
    }
    if (f->redirect) { /* <(...) is a word, not a file's name */
        f->redirect = false;
        f->in_word = true;
    }
    push(l, FRAME_PAREN, 0);
    l->at++;
}

static void closing(struct lexer *l)
{
    bool substitution = top(l)->kind == FRAME_COMMAND;

    command_end(l);
    if (top(l)->kind != FRAME_TOP)
        pop(l);
    if (substitution)
        command_frame(l)->in_word = true;
    l->at++;
}

static void newline(struct lexer *l)
{
    command_end(l);
    l->at++;
    if (l->pending_n)
        heredocs_read(l);
}

static void escaped(struct lexer *l)
{
    if (l->s[l->at + 1] == '\n') {
        if (l->glued == l->at)
            lose_track(l, "what follows the name of a variable that goes on in the next line");
        l->at += 2;
        return;
    }
    if (l->s[l->at + 1])
        word_add(l, l->s[l->at + 1]);
    l->at += l->s[l->at + 1] ? 2 : 1;
}

/* What means the same outside and inside "...". */
static bool common_char(struct lexer *l, enum place_where where)
{
    switch (l->s[l->at]) {
    case '\\':
        escaped(l);
        return true;
    case '`':
        word_add(l, UNKNOWN);
        push(l, FRAME_BACKQUOTE, 0);
        l->at++;
        return true;
    case '$':
        dollar(l);
        return true;
    case ']':
        top(l)->subscript = false;
        return false;
    case '{':
        if (!take_place(l, where, NULL))
            return false;
        word_add(l, UNKNOWN);
        return true;
    default:
        return false;
    }
}

static void bare_char(struct lexer *l)
{
    struct frame *f = top(l);
    char c = l->s[l->at];

    if (common_char(l, WHERE_BARE))
        return;
    if (c == '\'') {
        single_quoted(l);
    } else if (c == '"') {
        f->in_word = true;
        push(l, FRAME_DOUBLE, 0);
        l->at++;
    } else if (c == ' ' || c == '\t') {
        word_end(l);
        l->at++;
    } else if (c == '\n') {
        newline(l);
    } else if (c == '#' && !f->in_word) {
        comment(l);
    } else if (c == '<' || c == '>') {
        redirection(l);
    } else if (c == '&' && l->s[l->at + 1] == '>') {
        word_end(l);
        l->at++;
    } else if (c == ';' || c == '&' || c == '|') {
        command_end(l);
        l->at++;
    } else if (c == '(') {
        parenthesis(l);
    } else if (c == ')') {
        closing(l);
    } else {
        if (c == '[' && l->at && goes_on_name(l->s[l->at - 1]))
            f->subscript = true;
        word_add(l, c);
        l->at++;
    }
}

/* ---- Inside other things ---- */

static void double_char(struct lexer *l)
{
    if (common_char(l, WHERE_DOUBLE))
        return;
    if (l->s[l->at] == '"')
        pop(l);
    else
        word_add(l, l->s[l->at]);
    l->at++;
}

/* Inside $((...)) and ${...}: a place, or what begins with $. */
static bool nested_char(struct lexer *l)
{
    if (take_place(l, WHERE_NEVER, NULL))
        return true;
    if (l->s[l->at] != '$')
        return false;
    dollar(l);
    return true;
}

static void arithmetic_char(struct lexer *l)
{
    char c = l->s[l->at];

    if (nested_char(l))
        return;
    /* It may be a subshell of a subshell instead, with quotes and patterns of its own. */
    if (strchr("'\"\\`", c) || (c == ';' && l->n > 2))
        lose_track(l, "what follows $((...)) with quotes in it");
    l->at++;
    top(l)->depth += c == '(';
    if (c == ')' && --top(l)->depth == 0)
        pop(l);
}

static void parameter_char(struct lexer *l)
{
    char c = l->s[l->at];

    if (nested_char(l))
        return;
    if (strchr("'\"\\`{", c)) /* shells differ about these */
        lose_track(l, "what follows ${...} with quotes in it");
    l->at++;
    if (c == '}')
        pop(l);
}

static void backquote_char(struct lexer *l)
{
    struct frame *f = top(l);
    char c = l->s[l->at];

    if (take_place(l, WHERE_NEVER, NULL))
        return;
    l->at += c == '\\' && l->s[l->at + 1] ? 2 : 1;
    f->singles += c == '\'';
    f->doubles += c == '"';
    if (c != '`')
        return;
    if (f->singles % 2 || f->doubles % 2)
        lose_track(l, "what follows backquotes with quotes in them");
    pop(l);
}

void shell_places(const char *text, uint32_t columns, void (*fn)(void *arg, const struct found *f), void *arg)
{
    struct lexer l = {.s = text, .glued = SIZE_MAX, .columns = columns, .fn = fn, .arg = arg, .n = 1};

    while (l.s[l.at])
        switch (top(&l)->kind) {
        case FRAME_TOP:
        case FRAME_PAREN:
        case FRAME_COMMAND:
            bare_char(&l);
            break;
        case FRAME_DOUBLE:
            double_char(&l);
            break;
        case FRAME_ARITHMETIC:
            arithmetic_char(&l);
            break;
        case FRAME_PARAMETER:
            parameter_char(&l);
            break;
        case FRAME_BACKQUOTE:
            backquote_char(&l);
            break;
        }
}
