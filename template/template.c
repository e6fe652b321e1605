/* Templates: commands with their places found, and filled for one task. */
#include "template/template.h"

#include "base/mem.h"
#include "template/shell.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a template is made of. */
enum piece_kind { PIECE_TEXT, PIECE_PLACE, PIECE_END /* of a word */ };
struct piece {
    uint8_t kind, where; /* enum piece_kind, enum place_where */
    bool always;
    struct place place;
    const char *text; /* TEXT: len bytes; PLACE: why no value may be quoted there */
    size_t len;
};

struct template
{
    struct piece *v;
    uint32_t n, cap, places, words;
    const char *reader;
};

/* ---- Texts ---- */

void text_add(struct text *t, const void *data, size_t n)
{
    if (t->cap - t->len < n) {
        t->cap = 2 * (t->len + n) + 64;
        t->data = xrealloc(t->data, t->cap);
    }
    if (n)
        memcpy(t->data + t->len, data, n);
    t->len += n;
}

void text_free(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}

static void text_put(struct text *t, const char *s) { text_add(t, s, strlen(s)); }

/* ---- Places ---- */

static const struct {
    const char *text;
    enum place_form form;
} forms[] = {
    {"}", PLACE_WHOLE}, {".}", PLACE_STEM}, {"/}", PLACE_BASE}, {"//}", PLACE_DIR}, {"/.}", PLACE_BASE_STEM}};

size_t place_read(const char *s, uint32_t columns, struct place *p)
{
    const char *c = s + 1;
    uint32_t column = 0;

    if (*s != '{')
        return 0;
    if (strncmp(c, "#}", 2) == 0) {
        *p = (struct place){.form = PLACE_NUMBER};
        return 3;
    }
    if (*c >= '1' && *c <= '9') {
        for (; *c >= '0' && *c <= '9' && column < 1000; c++)
            column = column * 10 + (uint32_t)(*c - '0');
        if (column > (columns ? columns : 1))
            return 0;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strncmp(c, forms[i].text, strlen(forms[i].text)) == 0) {
            *p = (struct place){.form = (uint8_t)forms[i].form, .column = (uint16_t)column};
            return (size_t)(c - s) + strlen(forms[i].text);
        }
    return 0;
}

static bool has_all_columns(const char *name, uint32_t columns)
{
    char place[16];

    for (uint32_t column = 1; column <= (columns ? columns : 1); column++) {
        snprintf(place, sizeof place, "{%u}", column);
        if (!strstr(name, place))
            return false;
    }
    return true;
}

bool place_tells_tasks_apart(const char *name, bool inputs, uint32_t columns)
{
    for (const char *c = name; *c; c++) {
        if (strncmp(c, "%t", 2) == 0 || (inputs && (strncmp(c, "{}", 2) == 0 || strncmp(c, "{#}", 3) == 0)))
            return true;
        if (*c == '%' && c[1])
            c++;
    }
    return inputs && has_all_columns(name, columns);
}

bool place_stands_in(const char *text, uint32_t columns)
{
    struct place p;

    for (const char *c = text; (c = strchr(c, '{')); c++)
        if (place_read(c, columns, &p))
            return true;
    return false;
}

const char *input_column(const struct template_input *in, uint32_t column, size_t *len)
{
    const char *value = in->arg, *end = in->arg + in->len;
    uint32_t columns = in->columns ? in->columns : 1;

    for (uint32_t i = 1; value && i < column; i++) {
        const char *nul = memchr(value, '\0', (size_t)(end - value));
        value = nul ? nul + 1 : end;
    }
    const char *nul = value && column < columns ? memchr(value, '\0', (size_t)(end - value)) : NULL;
    *len = (size_t)((nul ? nul : end) - value);
    return value;
}

static const char *after_slash(const char *v, size_t len)
{
    const char *slash = v && len ? memrchr(v, '/', len) : NULL;

    return slash ? slash + 1 : v;
}

/* The length of v without its extension, which has no slash and at least one byte behind its dot. */
static size_t stem_length(const char *v, size_t len)
{
    const char *base = after_slash(v, len);
    size_t left = (size_t)(v + len - base);
    const char *dot = left ? memrchr(base, '.', left) : NULL;

    return dot && dot + 1 < v + len ? (size_t)(dot - v) : len;
}

/* As dirname(1) has it: no slashes at the end count, and "." is where there is no other. */
static void directory(const char **v, size_t *len)
{
    size_t n = *len;

    while (n > 1 && (*v)[n - 1] == '/')
        n--;
    while (n > 0 && (*v)[n - 1] != '/')
        n--;
    while (n > 1 && (*v)[n - 1] == '/')
        n--;
    if (n == 0)
        *v = ".";
    *len = n ? n : 1;
}

/* What a place takes of one value. */
static void reduce(enum place_form form, const char **v, size_t *len)
{
    const char *end = *v + *len;

    if (form == PLACE_BASE || form == PLACE_BASE_STEM) {
        *v = after_slash(*v, *len);
        *len = (size_t)(end - *v);
    }
    if (form == PLACE_STEM || form == PLACE_BASE_STEM)
        *len = stem_length(*v, *len);
    else if (form == PLACE_DIR)
        directory(v, len);
}

/* ---- Values in a shell's text ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_safe(const char *v, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_letter(v[i]) && !(v[i] >= '0' && v[i] <= '9') && (v[i] == '\0' || !strchr("_./+-", v[i])))
            return false;
    return len > 0;
}

/* What a shell that computes takes for a number, or refuses: 12, -1.5, 0x1f. It names no variable. */
static bool is_number(const char *v, size_t len)
{
    size_t sign = len > 0 && (*v == '-' || *v == '+');

    for (size_t i = sign; i < len; i++)
        if (!(v[i] >= '0' && v[i] <= '9') && (i == sign || (v[i] != '.' && !is_letter(v[i]))))
            return false;
    return len > sign;
}

/* Everything is in '...', also inside "...", which is closed before it and opened again behind it: so no shell, in no
 * character set, takes a byte of the value for part of an escape. */
static bool add_value(struct text *to, const struct piece *p, const char *v, size_t len)
{
    bool safe = p->where == WHERE_NUMBER ? is_number(v, len) : is_safe(v, len);

    if (p->where == WHERE_BYTES || p->where >= WHERE_NEVER || (safe && !p->always)) {
        text_add(to, v, len);
        return p->where == WHERE_BYTES || safe;
    }
    static const char *const quotes[][2] = {
        [WHERE_BARE] = {"'", "'"}, [WHERE_DOUBLE] = {"\"'", "'\""}, [WHERE_SINGLE] = {"", ""}};
    text_put(to, quotes[p->where][0]);
    for (const char *end = v + len; v < end;) {
        const char *quote = memchr(v, '\'', (size_t)(end - v));
        text_add(to, v, (size_t)((quote ? quote : end) - v));
        if (quote)
            text_put(to, "'\\''");
        v = quote ? quote + 1 : end;
    }
    text_put(to, quotes[p->where][1]);
    return true;
}

/* False: the value may not stand there. */
static bool add_place(struct text *to, const struct piece *p, const struct template_input *in)
{
    char number[24];
    uint32_t first = p->place.column ? p->place.column : 1, last = p->place.column ? p->place.column
                                                                   : in->columns   ? in->columns
                                                                                   : 1;

    if (p->place.form == PLACE_NUMBER)
        return add_value(to, p, number,
                         (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)in->number));
    for (uint32_t column = first; column <= last; column++) {
        size_t len;
        const char *v = input_column(in, column, &len);
        reduce((enum place_form)p->place.form, &v, &len);
        if (column > first)
            text_put(to, " ");
        if (!add_value(to, p, v, len))
            return false;
    }
    return true;
}

void place_fill(struct text *to, const struct place *p, const struct template_input *in)
{
    struct piece piece = {.where = WHERE_BYTES, .place = *p};

    (void)add_place(to, &piece, in);
}

void input_joined(struct text *to, const struct template_input *in)
{
    struct place whole = {.form = PLACE_WHOLE};

    place_fill(to, &whole, in);
}

/* ---- Making one ---- */

static struct piece *add_piece(struct template *t, enum piece_kind kind)
{
    vec_grow(t->v, t->n, t->cap);
    t->v[t->n] = (struct piece){.kind = (uint8_t)kind};
    return &t->v[t->n++];
}

static void add_literal(struct template *t, const char *text, size_t len)
{
    if (!len)
        return;
    struct piece *p = add_piece(t, PIECE_TEXT);
    p->text = text;
    p->len = len;
}

/* A word that is being taken apart. */
struct apart {
    struct template *t;
    const char *word;
    size_t done; /* bytes of it */
};

static void on_found(void *arg, const struct found *f)
{
    struct apart *a = arg;

    add_literal(a->t, a->word + a->done, f->at - a->done);
    struct piece *p = add_piece(a->t, PIECE_PLACE);
    p->where = (uint8_t)f->where;
    p->always = f->always;
    p->place = f->place;
    p->text = f->why;
    a->done = f->at + f->len;
    a->t->places++;
    if (f->reader)
        a->t->reader = f->reader;
}

static void bytes_places(const char *word, uint32_t columns, const char *reader, struct apart *a)
{
    for (const char *c = word; (c = strchr(c, '{'));) {
        struct found f = {.at = (size_t)(c - word), .reader = reader};
        f.len = place_read(c, columns, &f.place);
        if (f.len)
            on_found(a, &f);
        c += f.len ? f.len : 1;
    }
}

static void add_word(struct template *t, const char *word, uint32_t columns, bool shell, const char *reader)
{
    struct apart a = {.t = t, .word = word};

    if (shell)
        shell_places(word, columns, on_found, &a);
    else
        bytes_places(word, columns, reader, &a);
    add_literal(t, word + a.done, strlen(word + a.done));
    add_piece(t, PIECE_END);
    t->words++;
}

struct template *template_command(uint32_t argc, const char *const *argv, uint32_t columns, bool append)
{
    struct template *t = xcalloc(1, sizeof *t);
    struct command_words words = {0};
    int text = shell_text_of(argc, argv);

    for (uint32_t i = 0; i < argc; i++) {
        add_word(t, argv[i], columns, (int)i == text, command_words_reader(&words, *argv[i]));
        command_words_add(&words, argv[i]);
    }
    for (uint32_t i = 1; append && !t->places && i <= (columns ? columns : 1); i++) {
        add_piece(t, PIECE_PLACE)->place.column = (uint16_t)i;
        add_piece(t, PIECE_END);
        t->words++;
    }
    return t;
}

struct template *template_words(uint32_t n, const char *const *words, uint32_t columns)
{
    struct template *t = xcalloc(1, sizeof *t);

    for (uint32_t i = 0; i < n; i++)
        add_word(t, words[i], columns, false, NULL);
    return t;
}

void template_free(struct template *t)
{
    if (!t)
        return;
    free(t->v);
    free(t);
}

uint32_t template_count(const struct template *t) { return t->words; }
const char *template_reader(const struct template *t) { return t->reader; }

/* ---- Filling it ---- */

static void say_why(const struct piece *p, char why[TEMPLATE_WHY_MAX])
{
    if (p->where == WHERE_NUMBER)
        snprintf(why, TEMPLATE_WHY_MAX,
                 "the task's input stands where the shell computes, in %s: only a number is safe there, and "
                 "\"$HAWK_INPUT\" is no safer than the input",
                 p->text);
    else if (strcmp(p->text, WHERE_SECOND) == 0)
        snprintf(why, TEMPLATE_WHY_MAX,
                 "the task's input stands in %s, where no quoting makes it safe: give it as an argument, "
                 "sh -c '... \"$1\"' sh {}",
                 p->text);
    else
        snprintf(why, TEMPLATE_WHY_MAX,
                 "the task's input stands in %s of the shell's text, where no quoting makes it safe: write "
                 "\"$HAWK_INPUT\" there",
                 p->text);
}

int template_fill(const struct template *t, const struct template_input *in, size_t limit, struct text *to,
                  size_t *at, char why[TEMPLATE_WHY_MAX])
{
    size_t begin = to->len, word = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct piece *p = &t->v[i];
        if (i == 0 || t->v[i - 1].kind == PIECE_END)
            at[word++] = to->len;
        if (p->kind == PIECE_TEXT) {
            text_add(to, p->text, p->len);
        } else if (p->kind == PIECE_END) {
            text_add(to, "", 1);
        } else if (!add_place(to, p, in)) {
            say_why(p, why);
            return HAWK_EINVALID;
        }
        if (to->len - begin > limit)
            return HAWK_ETOO_LARGE;
    }
    return 0;
}
