/* Records of a list, and their fields. */
#include "cli/inputs.h"
#include "template/template.h"

#include <string.h>

struct records {
    const char *at, *end;
    size_t line;
    struct text fields; /* of the present record */
    uint32_t n;
};

/* A field in quotes, from the first one on. False: they do not end, or text follows. */
static bool quoted_field(struct records *r, char last, char separator)
{
    for (r->at++; r->at < r->end; r->at++) {
        if (*r->at == '\n')
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

static void plain_field(struct records *r, char last, char separator)
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
static bool read_record(struct records *r, char last, char separator)
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
    r->line += r->at < r->end && last == '\n';
    r->at += r->at < r->end;
    return true;
}

int records_read(const char *data, size_t len, char end, char separator, record_fn *fn, void *arg,
                 size_t *line)
{
    struct records r = {.at = data, .end = data + len, .line = 1};
    bool ok = true;

    while (r.at < r.end) {
        *line = r.line;
        ok = read_record(&r, end, separator);
        if (!ok || ((r.fields.len || r.n > 1) && !fn(arg, *line, r.fields.data, r.fields.len, r.n)))
            break;
    }
    text_free(&r.fields);
    return ok ? 0 : HAWK_EINVALID;
}
