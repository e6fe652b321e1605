/* Where places stand in a shell's text: bare, inside quotes, or where no quoting helps.
 *
 * This reads as much of the shell's language as that takes, and not more. Where it cannot be sure, it says WHERE_NEVER,
 * for all that follows: then a value that is not safe fails its task, and nothing is run by mistake. */
#include "template/lexer.h"

#include <string.h>

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

/* ---- Places ---- */

/* Reports the place at l->at, and skips it. False: there is none. */
static bool take_place(struct lexer *l, enum place_where where, const char *never)
{
    struct found f = {.at = l->at, .where = where};
    bool number;

    f.len = place_read(l->s + l->at, l->columns, &f.place);
    if (!f.len)
        return false;
    f.why = where_never(l, &number);
    f.why = never ? never : f.why;
    f.reader = where_reader(l);
    char next = l->s[l->at + f.len];
    /* {}>file: a number would be the descriptor. */
    f.always = l->glued == l->at || (where == WHERE_BARE && (next == '>' || next == '<'));
    if (f.why)
        f.where = number ? WHERE_NUMBER : WHERE_NEVER;
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
    frame_word_add(l, UNKNOWN);
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
        top(l)->subscript++;
}

static void dollar(struct lexer *l)
{
    const char *next = l->s + l->at + 1;

    frame_word_add(l, UNKNOWN);
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
        lose_number(l, "what follows $[...]");
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

    frame_word_end(l);
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
        l->lost_number = l->lost_number || (!h->quoted && strncmp(l->s + l->at, "$((", 3) == 0);
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
    command_frame(l)->in_word = command_frame(l)->quoted = true;
    for (l->at++; l->s[l->at] && l->s[l->at] != '\'';) {
        if (take_place(l, WHERE_SINGLE, NULL))
            frame_word_add(l, UNKNOWN);
        else
            frame_word_add(l, l->s[l->at++]);
    }
    l->at += l->s[l->at] == '\'';
}

static void comment(struct lexer *l)
{
    if (frame_inside(l, FRAME_COMMAND) || (l->at && !strchr(" \t\n;&|(", l->s[l->at - 1])))
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
    frame_word_end(l);
    l->at += strspn(l->s + l->at, "<>");
    if (l->s[l->at] && strchr("&|", l->s[l->at]))
        l->at++;
    f->redirect = true;
}

static void parenthesis(struct lexer *l)
{
    struct frame *f = top(l);

    if (l->s[l->at + 1] == '(') { /* also behind a reserved word: for((...)) */
        push(l, FRAME_ARITHMETIC, 2);
        l->at += 2;
        return;
    }
    bool word = f->redirect || f->assigns;

    if (f->redirect) { /* <(...) is a word, not a file's name */
        f->redirect = false;
        f->in_word = true;
    }
    push(l, FRAME_PAREN, word);
    l->at++;
}

static void closing(struct lexer *l)
{
    bool substitution = top(l)->kind == FRAME_COMMAND;
    bool group = top(l)->kind == FRAME_PAREN && !top(l)->depth;

    frame_command_end(l);
    if (top(l)->kind != FRAME_TOP)
        pop(l);
    if (group) /* f() { ... */
        frame_command_end(l);
    if (substitution)
        command_frame(l)->in_word = true;
    l->at++;
}

static void newline(struct lexer *l)
{
    frame_command_end(l);
    l->at++;
    if (l->pending_n)
        heredocs_read(l);
}

/* Whether the backslash and newline here stand inside what begins arithmetic, a here-document or a subscript: the shell
 * takes them away first. */
static bool joins(const struct lexer *l)
{
    size_t before = l->at, after = l->at;

    while (before >= 2 && strncmp(l->s + before - 2, "\\\n", 2) == 0)
        before -= 2;
    while (strncmp(l->s + after, "\\\n", 2) == 0)
        after += 2;
    char prev = before ? l->s[before - 1] : ' ', next = l->s[after];
    if (next == '(')
        return strchr("$(<>", prev);
    if (next == '[' || prev == '[')
        return !strchr(" \t\n;&|", prev) && !strchr(" \t\n", next);
    return prev == '$' || (prev == '<' && next == '<');
}

static void escaped(struct lexer *l)
{
    if (l->s[l->at + 1] == '\n') {
        if (l->glued == l->at)
            lose_track(l, "what follows the name of a variable that goes on in the next line");
        if (joins(l))
            lose_number(l, "what follows an operator that goes on in the next line");
        l->at += 2;
        return;
    }
    command_frame(l)->quoted = true;
    if (l->s[l->at + 1])
        frame_word_add(l, l->s[l->at + 1]);
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
        frame_word_add(l, UNKNOWN);
        push(l, FRAME_BACKQUOTE, 0);
        l->at++;
        return true;
    case '$':
        dollar(l);
        return true;
    case ']':
        top(l)->subscript -= top(l)->subscript > 0;
        return false;
    case '{':
        if (!take_place(l, where, NULL))
            return false;
        frame_word_add(l, UNKNOWN);
        return true;
    default:
        return false;
    }
}

/* NAME[, [ within one, and [ at the beginning of a word, as in NAME=([2]=x). */
static bool begins_subscript(const struct lexer *l, const struct frame *f)
{
    char next = l->s[l->at + 1];

    return f->subscript || (l->at && goes_on_name(l->s[l->at - 1])) ||
           (!f->in_word && next && !strchr(" \t\n[", next));
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
        f->in_word = f->quoted = true;
        push(l, FRAME_DOUBLE, 0);
        l->at++;
    } else if (c == ' ' || c == '\t') {
        frame_word_end(l);
        l->at++;
    } else if (c == '\n') {
        newline(l);
    } else if (c == '#' && !f->in_word) {
        comment(l);
    } else if (c == '<' || c == '>') {
        redirection(l);
    } else if (c == '&' && l->s[l->at + 1] == '>') {
        frame_word_end(l);
        l->at++;
    } else if (c == ';' || c == '&' || c == '|') {
        frame_command_end(l);
        l->at++;
    } else if (c == '(') {
        parenthesis(l);
    } else if (c == ')') {
        closing(l);
    } else {
        if (c == '[' && begins_subscript(l, f))
            f->subscript++;
        frame_word_add(l, c);
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
        frame_word_add(l, l->s[l->at]);
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
        lose_number(l, "what follows $((...)) with quotes in it");
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
    /* ${x[1]}, ${!x}, ${(e)x}, ${x:1:2}, and not ${x:-y} */
    top(l)->computes = top(l)->computes || strchr("[!(", c) || (c == ':' && !strchr("-=?+", l->s[l->at + 1]));
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
    f->computes = f->computes || (c == '(' && l->s[l->at + 1] == '(');
    l->at += c == '\\' && l->s[l->at + 1] ? 2 : 1;
    f->singles += c == '\'';
    f->doubles += c == '"';
    if (c != '`')
        return;
    if (f->singles % 2 || f->doubles % 2)
        lose_track(l, "what follows backquotes with quotes in them");
    pop(l);
}

static void read_all(struct lexer *l)
{
    while (l->s[l->at])
        switch (top(l)->kind) {
        case FRAME_TOP:
        case FRAME_PAREN:
        case FRAME_COMMAND:
            bare_char(l);
            break;
        case FRAME_DOUBLE:
            double_char(l);
            break;
        case FRAME_ARITHMETIC:
            arithmetic_char(l);
            break;
        case FRAME_PARAMETER:
            parameter_char(l);
            break;
        case FRAME_BACKQUOTE:
            backquote_char(l);
            break;
        }
}

static void found_nothing(void *arg, const struct found *f)
{
    (void)arg;
    (void)f;
}

void shell_places(const char *text, uint32_t columns, void (*fn)(void *arg, const struct found *f), void *arg)
{
    bool numbers[TESTS_MAX] = {false};
    struct lexer first = {.s = text,
                          .glued = SIZE_MAX,
                          .columns = columns,
                          .fn = found_nothing,
                          .n = 1,
                          .numbers = numbers},
                 l = first;

    l.fn = fn;
    l.arg = arg;
    read_all(&first);
    read_all(&l);
}
