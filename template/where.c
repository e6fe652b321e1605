/* The words of the commands in a shell's text, and what a value may be in them: see lexer.h. */
#include "template/lexer.h"

#include <string.h>

struct frame *command_frame(struct lexer *l)
{
    struct frame *f = top(l);

    while (!is_command(f))
        f--;
    return f;
}

bool frame_inside(const struct lexer *l, enum frame_kind kind)
{
    for (unsigned i = 0; i < l->n; i++)
        if (l->frames[i].kind == kind)
            return true;
    return false;
}

void lose_track(struct lexer *l, const char *why)
{
    if (!l->lost)
        l->lost = why;
}

void lose_number(struct lexer *l, const char *why)
{
    lose_track(l, why);
    l->lost_number = true;
}

/* ---- Words ---- */

void frame_word_add(struct lexer *l, char c)
{
    struct frame *f = command_frame(l);

    f->in_word = true;
    f->assigns = f->assigns || c == '=';
    f->quoted = f->quoted || c == '/';
    if (c == '/')
        f->word_len = 0;
    else if (f->word_len < WORD_MAX - 1)
        f->word[f->word_len++] = c;
}

/* An operator of a test whose operands a shell computes; of -t, zsh does. */
static bool is_computing(const char *word)
{
    static const char *const operators[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "-t"};

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(word, operators[i]) == 0)
            return true;
    return false;
}

/* A word of a test, which may have parentheses. */
static void test_word(struct lexer *l, struct frame *f)
{
    const struct frame *of = f;

    while (!of->test && of->kind == FRAME_PAREN)
        of--;
    if (of->test && is_computing(f->word))
        l->numbers[of->test - 1] = true;
    if (f->test && !f->quoted && strcmp(f->word, "]]") == 0)
        f->test = 0;
}

/* The word that was added to the command names the program. */
static void test_begin(struct lexer *l, struct frame *f)
{
    if (l->tests == TESTS_MAX) {
        lose_number(l, "what follows so many tests");
        return;
    }
    f->test = ++l->tests;
    f->brackets = strcmp(f->word, "[[") == 0;
}

/* A word of declare: with these options a value is computed now, or whenever the variable is read or set. */
static void declare_word(struct lexer *l, const struct frame *f)
{
    if (f->words.builtin == BUILTIN_INTEGER || (*f->word == '-' && strpbrk(f->word, "inEF")))
        lose_number(l, "what follows `declare -i` or `-n`");
}

void frame_word_end(struct lexer *l)
{
    struct frame *f = top(l);
    bool named = f->words.named;

    if (!f->in_word)
        return;
    f->word[f->word_len] = '\0';
    /* In a case, or in [[ ]], a parenthesis may close that none has opened. */
    if ((strcmp(f->word, "case") == 0 || strcmp(f->word, "[[") == 0) && frame_inside(l, FRAME_COMMAND))
        lose_track(l, "$(...) with a `case` or `[[` in it");
    test_word(l, f);
    if (!f->redirect)
        command_words_add(&f->words, f->word);
    if (!named && !f->test && f->words.builtin == BUILTIN_TEST)
        test_begin(l, f);
    if (f->words.builtin == BUILTIN_DECLARE || f->words.builtin == BUILTIN_INTEGER)
        declare_word(l, f);
    f->word_len = 0;
    f->in_word = f->redirect = f->quoted = f->assigns = false;
}

void frame_command_end(struct lexer *l)
{
    struct frame *f = top(l);

    frame_word_end(l);
    if (!f->brackets) /* [[ ]] goes on behind && and || */
        f->test = 0;
    f->words = (struct command_words){0};
    f->redirect = false;
}

/* ---- Places ---- */

/* Why no value can be quoted in a word of this command; NULL: it can. */
static const char *why_not_in_command(const struct lexer *l, const struct frame *f, bool *number)
{
    const struct command_words *w = &f->words;

    if (f->test && l->numbers[f->test - 1]) {
        *number = true;
        return "a test of numbers";
    }
    if (f->redirect)
        return NULL;
    if (w->builtin == BUILTIN_LET) {
        *number = true;
        return "`let`";
    }
    if (w->builtin == BUILTIN_NAMES || (w->builtin == BUILTIN_DECLARE && !f->assigns) || w->names_next ||
        (w->builtin == BUILTIN_PRINTF && f->word_len >= 2 && f->word[0] == '-' && f->word[1] == 'v'))
        return "the name of a variable";
    return NULL;
}

const char *where_never(struct lexer *l, bool *number)
{
    const char *why = l->pending_n ? "the line of a here-document" : NULL;
    bool own = true,
         words = true; /* no $(...), and no other command, stands between the place and the frame */

    *number = l->lost && l->lost_number;
    for (unsigned i = l->n; i-- > 0;) {
        const struct frame *f = &l->frames[i];
        const char *here = NULL;
        bool computes = f->kind == FRAME_ARITHMETIC || f->subscript || f->computes;

        if (f->kind == FRAME_ARITHMETIC)
            here = "$((...))";
        else if (f->kind == FRAME_PARAMETER)
            here = "${...}";
        else if (f->kind == FRAME_BACKQUOTE)
            here = "backquotes";
        else if (f->subscript)
            here = "a subscript";
        else if (is_command(f) && f->words.shell && command_words_reader(&f->words, '\0'))
            here = WHERE_SECOND;
        else if (is_command(f) && words)
            here = why_not_in_command(l, f, &computes);
        *number = *number || (computes && own);
        why = here ? here : why;
        words = words && (!is_command(f) || (f->kind == FRAME_PAREN && !f->depth));
        own = own && f->kind != FRAME_COMMAND;
    }
    return l->lost ? l->lost : why;
}

const char *where_reader(const struct lexer *l)
{
    const char *reader = NULL;

    for (unsigned i = 0; !reader && i < l->n; i++) {
        const struct frame *f = &l->frames[i];

        if (is_command(f))
            reader = command_words_reader(&f->words, f->word_len ? f->word[0] : '\0');
    }
    return reader;
}
