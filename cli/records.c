/* Records of a list, and their fields. */
#include "cli/inputs.h"
#include "template/template.h"

#include <string.h>

/* The record that is read. */
struct record {
    const char *at, *end;
    size_t line;
    struct text fields;
    uint32_t n;
};

/* A field in quotes, from the first one on. False: they do not end, or text follows. */
static bool quoted_field(struct record *r, char last, char separator)
{
    for (r->at++; r->at < r->end; r->at++) {
        if (*r->at == last)
            r->line++;
        if (*r->at != '"') {
            text_add(&r->fields, r->at, 1);
            continue;
        }
        if (r->at + 1 < r->end && r->at[1] == '"') {
            text_add(&r->fields, r->at++, 1);
            continue;
        }
        r->at++;
        if (r->at + 1 < r->end && r->at[0] == '\r' && r->at[1] == last)
            r->at++;
        return r->at == r->end || *r->at == last || *r->at == separator;
    }
    return false;
}

static void plain_field(struct record *r, char last, char separator)
{
    const char *begin = r->at;
    size_t len;

    while (r->at < r->end && *r->at != last && (!separator || *r->at != separator))
        r->at++;
    len = (size_t)(r->at - begin);
    if (separator && len && begin[len - 1] == '\r' && (r->at == r->end || *r->at == last))
        len--;
    text_add(&r->fields, begin, len);
}

/* Reads one record, up to its end and over it. */
static bool read_record(struct record *r, char last, char separator)
{
    r->fields.len = 0;
    for (r->n = 1;; r->n++) {
        if (separator && r->at < r->end && *r->at == '"') {
            if (!quoted_field(r, last, separator))
                return false;
        } else {
            plain_field(r, last, separator);
        }
        if (r->at == r->end || *r->at == last)
            break;
        text_add(&r->fields, "", 1);
        r->at++;
    }
    r->line += r->at < r->end;
    r->at += r->at < r->end;
    return true;
}

/* Whether what may follow the text's end could change what was read: a record without its end, or half a pair of
 * characters. */
static bool may_go_on(const struct records *r, const struct record *now, bool ok, char last)
{
    if (!r->more)
        return false;
    return ok ? now->at == r->end && now->at[-1] != last : r->end - now->at <= 1;
}

int records_read(struct records *r, char end, char separator, record_fn *fn, void *arg, size_t *line)
{
    struct record now = {.end = r->end};
    bool ok = true, goes_on = true;

    while (ok && goes_on && r->at < r->end) {
        now.at = r->at;
        *line = now.line = r->line;
        ok = read_record(&now, end, separator);
        if (may_go_on(r, &now, ok, end)) {
            ok = true;
            break;
        }
        r->at = now.at;
        r->line = now.line;
        goes_on = !ok || (now.fields.len == 0 && now.n == 1) ||
                  fn(arg, *line, now.fields.data, now.fields.len, now.n);
    }
    text_free(&now.fields);
    return ok ? 0 : HAWK_EINVALID;
}
