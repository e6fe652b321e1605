/* What a spawner and its agent say to each other: records off a socket, and a job's description in one of them, read
 * as the agent says it, and as its user signed it. The bytes arrive in pieces, as they may. */
#include "base/check.h"
#include "daemon/signed_spec.h"
#include "exec/launch.h"
#include "exec/record.h"
#include "tests/fuzz/lib/input.h"

#include <string.h>
#include <unistd.h>

/* A user root; its key is lost. A user of it has signed a job in the corpus, and his time is over. */
static const char certificate[] = "-----BEGIN CERTIFICATE-----\n"
                                  "MIIBkjCCATigAwIBAgIQV7hIf9oBqicfuTYgIMzVRzAKBggqhkjOPQQDAjAZMRcw\n"
                                  "FQYDVQQDDA5IYXdrIHVzZXIgcm9vdDAeFw0yNjExMjYxNzU4MjFaFw0zNjExMjMx\n"
                                  "ODAzMjFaMBkxFzAVBgNVBAMMDkhhd2sgdXNlciByb290MFkwEwYHKoZIzj0CAQYI\n"
                                  "KoZIzj0DAQcDQgAEm4n96bA3M8brF4vb3qaA3llB4eOblOyJPFt4rXwbv2TQbpDn\n"
                                  "0eJuaBrZxTaXBjTzBQBFmK+uvkr3rZ5Erf3GRKNiMGAwEgYDVR0TAQH/BAgwBgEB\n"
                                  "/wIBADAOBgNVHQ8BAf8EBAMCAQYwGwYDVR0eAQH/BBEwD6ANMAuCCXVzZXIuaGF3\n"
                                  "azAdBgNVHQ4EFgQUvsYx5nW7EHxZkt7cbExg3cFM72YwCgYIKoZIzj0EAwIDSAAw\n"
                                  "RQIgJF81R6ayGfIGBLS95GTg2/P6fSnou6buLWQisQVMiIQCIQDq5VlSLoj9n+XS\n"
                                  "yghDDWhWJNELcH4h1k4xDPODOY/Vig==\n"
                                  "-----END CERTIFICATE-----\n";

static const struct signed_reader *some_reader(void)
{
    static const struct signed_reader *reader;
    char why[SIGNED_SPEC_WHY];
    int fds[2];

    if (reader)
        return reader;
    CHECK(pipe(fds) == 0);
    CHECK(write(fds[1], certificate, strlen(certificate)) == (ssize_t)strlen(certificate));
    close(fds[1]);
    reader = signed_reader_new(fds[0], why);
    CHECK(reader);
    return reader;
}

/* What no user has signed starts no task, and nothing is kept of what the agent says of it. */
static void check_signed(const struct spec *s, const struct signed_reader *reader)
{
    struct task t = {.arg = "x", .arg_len = 1};
    char why[LAUNCH_WHY_MAX] = "";

    if (!reader) {
        CHECK(spec_check_signed(s, &t, 0, NULL, why) == 0 && !s->as_signed && s->d->argv.n > 0);
        return;
    }
    CHECK(spec_check_signed(s, &t, RUN_STDOUT | RUN_STDERR, NULL, why) && *why);
    CHECK(s->as_signed || (s->refused && s->d->argv.n == 0));
}

/* In the order of enum record_type's comments. */
static void read_fields(struct record *r, const struct signed_reader *reader)
{
    uint32_t n;

    if (r->type == RECORD_SPEC) {
        struct spec *s = spec_new(r, reader);

        if (s) {
            check_signed(s, reader);
            spec_free(s);
        }
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

static void read_records(const uint8_t *data, size_t size, const struct signed_reader *reader)
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
            read_fields(&r, reader);
        good = got == 0;
    }
    bytes_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_records(data, size, NULL);
    read_records(data, size, some_reader());
    return 0;
}
