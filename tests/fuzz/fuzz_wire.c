/* What a peer sends on a link: a Batch of envelopes. Whatever is delivered passes msg_check, is written and read
 * again as the same, and nothing that was not delivered is left in memory. And a job's description by itself. */
#include "base/check.h"
#include "net/codec.h"
#include "tests/fuzz/lib/input.h"
#include "tests/lib/random_msg.h"

static bool once_more(void *arg, const struct msg *m)
{
    const struct msg **expected = arg;

    CHECK(msg_equal(m, *expected));
    *expected = NULL;
    return true;
}

static bool deliver(void *arg, const struct msg *m)
{
    struct codec_buf b = {0};
    struct codec_report r = {0};
    const struct msg *expected = m;
    char text[200];

    (void)arg;
    CHECK(msg_check(m) == 0);
    msg_format(m, text, sizeof text);
    CHECK(codec_encode(&b, m) == 0);
    CHECK(codec_decode(b.data, b.len, once_more, &expected, &r) == 0);
    CHECK(!expected && r.delivered == 1);
    codec_buf_free(&b);
    return true;
}

static void description(const uint8_t *data, size_t size, bool args)
{
    struct job_desc *d, *again;
    struct codec_buf b = {0};
    char why[200];

    if (codec_desc_decode(data, size, args, &d, why, sizeof why))
        return;
    codec_desc_encode(&b, d, args);
    CHECK(codec_desc_decode(b.data, b.len, args, &again, why, sizeof why) == 0);
    CHECK(desc_equal(d, again, args));
    codec_buf_free(&b);
    job_desc_drop(again);
    job_desc_drop(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct codec_report r = {0};

    if (size == 0)
        return 0;
    if (data[0] < 2)
        description(data + 1, size - 1, data[0]);
    else if (codec_decode(data + 1, size - 1, deliver, NULL, &r))
        CHECK(r.why[0]);
    return 0;
}
