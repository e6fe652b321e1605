/* What a spawner and its agent say to each other: records off a socket, and a job's description in one of them.
 * The bytes arrive in pieces, as they may. */
#include "base/check.h"
#include "exec/launch.h"
#include "exec/record.h"
#include "tests/fuzz/lib/input.h"

#include <string.h>

/* In the order of enum record_type's comments. */
static void read_fields(struct record *r)
{
    uint32_t n;

    if (r->type == RECORD_SPEC) {
        struct spec *s = spec_new(r);

        if (s)
            spec_free(s);
        return;
    }
    for (int i = 0; i < 6 && !r->bad; i++) {
        if (i == 5 || r->type == RECORD_KILL) {
            const char *data = get_data(r, &n);

            CHECK(!data || (data + n <= r->end && n <= RECORD_MAX));
        } else if (i == 2) {
            get_u64(r);
        } else {
            get_u32(r);
        }
    }
    CHECK(r->p <= r->end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct bytes b = {0};
    bool good = true;

    while (good && input_left(&in)) {
        struct input part = take_part(&in, 1 + (size_t)take_u8(&in) * 8);
        struct record r;
        int got;

        bytes_add(&b, part.p, input_left(&part));
        while ((got = record_next(&b, &r)) > 0)
            read_fields(&r);
        good = got == 0;
    }
    bytes_free(&b);
    return 0;
}
