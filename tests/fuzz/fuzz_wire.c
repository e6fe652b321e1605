/* What a peer sends on a link: a Batch of envelopes. Whatever is delivered passes msg_check, is written and read
 * again as the same, and nothing that was not delivered is left in memory. And a job's description by
 * itself, and the fields of etcd's answers. */
#include "base/check.h"
#include "net/codec.h"
#include "net/wire.h"
#include "tests/fuzz/lib/input.h"

#include <string.h>

/* Empty texts and absent ones are written alike, so what is compared is what is written. */
struct again {
    struct codec_buf b;
    uint32_t n;
};

static bool once_more(void *arg, const struct msg *m)
{
    struct again *a = arg;

    a->n++;
    CHECK(codec_encode(&a->b, m) == 0);
    return true;
}

static bool deliver(void *arg, const struct msg *m)
{
    struct codec_report r = {0};
    struct codec_buf b = {0};
    struct again a = {.n = 0};
    char text[200];

    (void)arg;
    CHECK(msg_check(m) == 0);
    msg_format(m, text, sizeof text);
    CHECK(codec_encode(&b, m) == 0);
    CHECK(codec_decode(b.data, b.len, once_more, &a, &r) == 0);
    CHECK(a.n == 1 && a.b.len == b.len && memcmp(a.b.data, b.data, b.len) == 0);
    codec_buf_free(&b);
    codec_buf_free(&a.b);
    return true;
}

static void description(const uint8_t *data, size_t size, bool args)
{
    struct codec_buf once = {0}, twice = {0};
    struct job_desc *d, *again;
    char why[200];

    if (codec_desc_decode(data, size, args, &d, why, sizeof why))
        return;
    codec_desc_encode(&once, d, args);
    CHECK(codec_desc_decode(once.data, once.len, args, &again, why, sizeof why) == 0);
    codec_desc_encode(&twice, again, args);
    CHECK(once.len == twice.len && (once.len == 0 || memcmp(once.data, twice.data, once.len) == 0));
    codec_buf_free(&once);
    codec_buf_free(&twice);
    job_desc_drop(again);
    job_desc_drop(d);
}

/* etcd's answers are read field by field. */
static void fields(const uint8_t *data, size_t size)
{
    struct wire rest = wire_of(data, size);
    struct wire_field f;
    size_t before = size;

    while (wire_next(&rest, &f) > 0) {
        const uint8_t *bytes = f.bytes.data;

        CHECK(wire_left(&rest) < before && rest.end == data + size);
        CHECK(!f.is_bytes || (bytes >= data && f.bytes.len <= (size_t)(data + size - bytes)));
        before = wire_left(&rest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct codec_report r = {0};

    if (size == 0)
        return 0;
    if (data[0] < 2)
        description(data + 1, size - 1, data[0]);
    else if (data[0] == 3)
        fields(data + 1, size - 1);
    else if (codec_decode(data + 1, size - 1, deliver, NULL, &r))
        CHECK(r.why[0]);
    return 0;
}
