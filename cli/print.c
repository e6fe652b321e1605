/* Tables, JSON and quantities, as commands print them. */
#include "cli/print.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"

#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define CELL_MAX 512

static void cell_add(struct text_table *t, const char *text)
{
    vec_grow(t->cells, t->n, t->cap);
    t->cells[t->n++] = xstrdup(text);
}

void table_columns(struct text_table *t, ...)
{
    va_list names;
    va_start(names, t);
    for (const char *name; (name = va_arg(names, const char *));) {
        CHECK(t->columns < TABLE_COLUMNS_MAX);
        struct text_column *c = &t->column[t->columns++];
        for (; *name && strchr(">?!.:-", *name); name++) {
            c->right = c->right || *name == '>';
            c->spare = c->spare || *name == '?';
            c->whole = c->whole || *name == '!' || *name == '>';
            c->prose = c->prose || *name == '.' || *name == ':';
            c->tailed = c->tailed || *name == ':';
            c->first_out = c->first_out || *name == '-';
        }
        cell_add(t, name);
    }
    va_end(names);
}

void table_cell(struct text_table *t, const char *fmt, ...)
{
    char text[CELL_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text[utf8_tame(text, strlen(text))] = '\0';
    cell_add(t, text);
}

/* How many columns of a terminal a character takes, in whatever locale the command runs: 0, 1 or 2. */
static int code_width(unsigned code)
{
    static locale_t utf8;
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    locale_t before = utf8 ? uselocale(utf8) : NULL;
    int width = utf8 ? wcwidth((wchar_t)code) : 1;
    if (before)
        uselocale(before);
    return width < 0 ? 1 : width;
}

/* The bytes of the first characters of a tamed text that fit into so many columns; *took: how many they take. */
static size_t fitting(const char *text, int columns, int *took)
{
    size_t bytes = 0, left = strlen(text), one;
    *took = 0;
    for (; left > 0; bytes += one, left -= one) {
        const unsigned char *s = (const unsigned char *)text + bytes;
        size_t len = utf8_length(s, left);
        int width = len > 1 ? code_width(utf8_code(s, len)) : 1;
        if (width > columns - *took)
            break;
        *took += width;
        one = len ? len : 1;
    }
    return bytes;
}

static int text_width(const char *text)
{
    int width;
    fitting(text, INT_MAX, &width);
    return width;
}

#define GAP 2          /* blanks between columns */
#define TEXT_LEAST 12  /* columns that a text keeps */
#define WIDTH_LEAST 20 /* of a terminal that is believed */

bool stderr_redraws(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

/* The columns that a line may take; INT_MAX: any number. */
static int line_width(void)
{
    const char *told = getenv("COLUMNS");
    struct winsize size;
    uint64_t n;

    if (told && u64_parse(told, WIDTH_LEAST, 10000, &n) == 0)
        return (int)n;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_LEAST)
        return size.ws_col;
    return INT_MAX;
}

const char *text_cut(char *buf, size_t size, const char *text, int width, bool prose)
{
    int all = text_width(text), tail = prose ? 0 : (width - 3) / 2, took;

    if (all <= width) {
        snprintf(buf, size, "%s", text);
        return buf;
    }
    int head = (int)fitting(text, width - 3 - tail, &took);
    const char *end = text;
    while (all > tail) {
        end += fitting(end, 1, &took);
        if (took == 0)
            end += fitting(end, 2, &took);
        all -= took;
    }
    snprintf(buf, size, "%.*s...%s", head, text, end);
    return buf;
}

const char *input_text(char buf[INPUT_TEXT], const void *input, size_t len)
{
    char *text = xmalloc(len + 1);
    for (size_t i = 0; i < len; i++)
        text[i] = ((const char *)input)[i] ? ((const char *)input)[i] : ' ';
    text[utf8_tame(text, len)] = '\0';
    text_cut(buf, INPUT_TEXT, text, INPUT_SHOWN, false);
    free(text);
    return buf;
}

/* owed: blanks that stand before the cell, and then behind it. No line ends in blanks. */
static void print_cell(const char *text, int width, struct text_column column, int *owed)
{
    char cut[CELL_MAX];
    text_cut(cut, sizeof cut, text, width, column.prose && !column.tailed);
    int pad = width > text_width(cut) ? width - text_width(cut) : 0;
    if (*cut) {
        printf("%*s%s", *owed + (column.right ? pad : 0), "", cut);
        *owed = column.right ? 0 : pad;
    } else {
        *owed += pad;
    }
    *owed += GAP;
}

/* By how much the lines are too wide; columns of width 0 are left out. */
static int excess(const struct text_table *t, const int *width, int room)
{
    int sum = -GAP;
    for (uint32_t c = 0; c < t->columns; c++)
        if (width[c])
            sum += width[c] + GAP;
    return room == INT_MAX ? 0 : sum - room;
}

/* Leaves out columns that are empty in every row. */
static void leave_out_empty(const struct text_table *t, int *width, int room)
{
    for (uint32_t c = t->columns; t->n > t->columns && c-- > 1 && excess(t, width, room) > 0;) {
        bool empty = true;
        for (uint32_t i = t->columns + c; empty && i < t->n; i += t->columns)
            empty = !*t->cells[i];
        width[c] = empty ? 0 : width[c];
    }
}

/* Leaves out columns that are to go before texts are cut, from the right. Cuts prose for those that stay. */
static void leave_out(const struct text_table *t, int *width, int room)
{
    int cut[TABLE_COLUMNS_MAX];
    bool kept = false;
    for (uint32_t c = 0; c < t->columns; c++)
        cut[c] = t->column[c].prose && width[c] > TEXT_LEAST ? TEXT_LEAST : width[c];
    for (uint32_t c = t->columns; c-- > 0;)
        if (t->column[c].first_out && excess(t, cut, room) > 0)
            cut[c] = width[c] = 0;
        else
            kept = kept || t->column[c].first_out;
    for (uint32_t c = 0; kept && c < t->columns; c++)
        while (width[c] > cut[c] && excess(t, width, room) > 0)
            width[c]--;
}

/* Leaves out the last spare column, or where none is left the last of all. false: only the first is there. */
static bool leave_out_last(const struct text_table *t, int *width)
{
    uint32_t last = 0;
    for (uint32_t c = 1; c < t->columns; c++)
        if (width[c] && (t->column[c].spare || !t->column[last].spare))
            last = c;
    width[last] = last ? 0 : width[0];
    return last > 0;
}

/* Narrows the widest text, column by column, then leaves columns out from the right, spare ones first. */
static void fit(const struct text_table *t, int *width)
{
    int room = line_width();
    leave_out_empty(t, width, room);
    leave_out(t, width, room);
    for (bool texts = true; excess(t, width, room) > 0;) {
        uint32_t widest = t->columns;
        for (uint32_t c = 0; texts && c < t->columns; c++)
            if (!t->column[c].whole && width[c] > TEXT_LEAST && width[c] > text_width(t->cells[c]) &&
                (widest == t->columns || width[c] > width[widest]))
                widest = c;
        texts = widest < t->columns;
        if (texts)
            width[widest]--;
        else if (!(texts = leave_out_last(t, width)))
            return;
    }
}

void table_print(struct text_table *t, const char *empty)
{
    int width[TABLE_COLUMNS_MAX] = {0};
    int owed = 0;
    CHECK(t->columns > 0 && t->n % t->columns == 0);
    for (uint32_t i = 0; i < t->n; i++)
        if (text_width(t->cells[i]) > width[i % t->columns])
            width[i % t->columns] = text_width(t->cells[i]);
    fit(t, width);
    if (t->n == t->columns && empty)
        puts(empty);
    else
        for (uint32_t i = 0; i < t->n; i++) {
            uint32_t c = i % t->columns;
            if (width[c])
                print_cell(t->cells[i], width[c], t->column[c], &owed);
            if (c == t->columns - 1) {
                putchar('\n');
                owed = 0;
            }
        }
    table_free(t);
}

void table_note(const char *fmt, ...)
{
    va_list args;
    fflush(stdout); /* a terminal shows it below the table */
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    putc('\n', stderr);
}

void table_free(struct text_table *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct text_table){0};
}

const char *duration_text(char buf[DURATION_TEXT], int64_t us)
{
    return us < 0 ? "-" : duration_format(buf, DURATION_TEXT, us);
}

const char *known_size_text(char buf[SIZE_TEXT], int64_t bytes)
{
    return bytes > 0 ? size_format(buf, SIZE_TEXT, (uint64_t)bytes) : "-";
}

const char *speed_text(char buf[SPEED_TEXT], uint64_t ended, int64_t took_us, uint64_t left, int64_t least_us)
{
    char time[DURATION_TEXT];
    double rate = took_us > 0 ? (double)ended / ((double)took_us / 1e6) : 0;
    *buf = '\0';
    if (ended == 0 || rate <= 0)
        return buf;
    int n = snprintf(buf, SPEED_TEXT, ", %.*f/s", rate < 10, rate);
    int64_t left_us = (int64_t)((double)left / rate) * US_PER_S;
    if (left > 0 && n > 0 && n < SPEED_TEXT)
        snprintf(buf + n, SPEED_TEXT - (size_t)n, ", %s left",
                 duration_format(time, sizeof time, left_us > least_us ? left_us : least_us));
    return buf;
}

const char *clean_text(char *buf, size_t size, const char *text)
{
    size_t n = 0, cut = 0, left = strlen(text); /* cut: where "..." goes if the text does not fit */
    while (left > 0) {
        const unsigned char *s = (const unsigned char *)text;
        size_t one = utf8_length(s, left), shown = one ? one : 1;
        if (n + shown >= size)
            break;
        memcpy(buf + n, text, shown);
        n += utf8_tame(buf + n, shown);
        if (n + sizeof "..." <= size)
            cut = n;
        text += one ? one : 1;
        left -= one ? one : 1;
    }
    buf[n] = '\0';
    if (left > 0 && size >= sizeof "...")
        memcpy(buf + cut, "...", sizeof "...");
    return buf;
}

json_t *json_bytes(const char *data, size_t len)
{
    json_t *value = json_stringn(data, len);
    if (value)
        return value;
    size_t n = 0;
    char *clean = xmalloc(len * 3 + 1);
    for (size_t i = 0; i < len;) {
        size_t one = utf8_length((const unsigned char *)data + i, len - i);
        memcpy(clean + n, one ? data + i : "\xef\xbf\xbd", one ? one : 3);
        n += one ? one : 3;
        i += one ? one : 1;
    }
    value = json_stringn(clean, n);
    free(clean);
    CHECK(value != NULL);
    return value;
}

json_t *json_text(const char *text) { return json_bytes(text, strlen(text)); }

/* Whether jansson did not escape a character on which a terminal acts. Line ends stand between tokens and
 * in no string. */
static bool must_escape(const unsigned char *s, size_t len)
{
    return len > 0 && *s >= 0x7f && utf8_acts(s, len);
}

/* Writes a character as one or, beyond U+FFFF, two of JSON's \u. */
static void write_escape(FILE *f, unsigned code)
{
    if (code > 0xffff)
        fprintf(f, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    else
        fprintf(f, "\\u%04x", code);
}

/* Every piece from jansson has whole characters. */
static int write_piece(const char *data, size_t size, void *f)
{
    const unsigned char *at = (const unsigned char *)data, *end = at + size, *plain = at;
    for (size_t one; at < end; at += one) {
        size_t len = utf8_length(at, (size_t)(end - at));
        one = len ? len : 1;
        if (!must_escape(at, len))
            continue;
        fwrite(plain, 1, (size_t)(at - plain), f);
        write_escape(f, utf8_code(at, len));
        plain = at + one;
    }
    fwrite(plain, 1, (size_t)(end - plain), f);
    return 0; /* command_end checks the stream */
}

void json_write(const json_t *json, FILE *f, size_t form) { json_dump_callback(json, write_piece, f, form); }

json_t *json_base64(const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    char *text = xmalloc((len + 2) / 3 * 4 + 1), *to = text;
    for (; len > 0; p += 3) {
        unsigned n = len < 3 ? (unsigned)len : 3;
        unsigned bits = p[0] << 16 | (n > 1 ? p[1] : 0u) << 8 | (n > 2 ? p[2] : 0u);
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = n > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = n > 2 ? digits[bits & 63] : '=';
        len -= n;
    }
    json_t *json = json_stringn(text, (size_t)(to - text));
    free(text);
    return json;
}

json_t *json_data(const void *data, size_t len)
{
    json_t *text = json_stringn(data, len);
    return text ? text : json_pack("{s:o}", "base64", json_base64(data, len));
}

const char *utc_text(char buf[CLOCK_TEXT], int64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm tm = {0};
    if (!gmtime_r(&at, &tm) || strftime(buf, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(buf, CLOCK_TEXT, "?");
    return buf;
}

const char *clock_text(char buf[CLOCK_TEXT], int64_t us, bool utc)
{
    time_t at = (time_t)((clock_us(CLOCK_REALTIME) + us) / US_PER_S);
    struct tm tm = {0};
    if (utc)
        return utc_text(buf, at);
    localtime_r(&at, &tm);
    strftime(buf, CLOCK_TEXT, "%Y-%m-%d %H:%M:%S", &tm);
    return buf;
}
