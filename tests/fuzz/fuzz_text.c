/* What people write in one word: times, sizes, shares, ids, selectors, ranges, addresses, tokens. The first byte
 * says which. What is read is written back and reads the same. */
#include "base/check.h"
#include "base/units.h"
#include "cli/spec.h"
#include "libhawk/select.h"
#include "net/addr.h"
#include "net/token.h"
#include "replay/plan.h"
#include "tests/fuzz/lib/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void duration(const char *text)
{
    char shown[64];
    int64_t us, again;

    if (duration_parse(text, &us))
        return;
    CHECK(us >= 0 && us <= LIMIT_TIME_US);
    CHECK(duration_parse(duration_format(shown, sizeof shown, us), &again) == 0);
    CHECK(llabs(again - us) <= us / 48 + 1); /* a day, and half an hour to the next one */
}

static void numbers(const char *text)
{
    uint64_t v;
    uint32_t ppm;
    double d;

    if (share_parse(text, &ppm) == 0)
        CHECK(ppm <= 1000000);
    if (u64_parse(text, 3, 1000, &v) == 0)
        CHECK(v >= 3 && v <= 1000);
    if (replay_number_parse(text, 1e9, &d) == 0)
        CHECK(d > 0 && d <= 1e9);
    if (size_parse(text, &v) == 0)
        CHECK(text[0]);
}

static void job_id(const char *text)
{
    char shown[JOB_ID_TEXT];
    job_id_t job, again;

    if (job_id_parse(text, &job))
        return;
    CHECK(job_id_parse(job_id_format(shown, job), &again) == 0);
    CHECK(job_eq(job, again));
}

/* Words are separated by a newline. */
static void selectors(char *text)
{
    struct selection s = {0};
    char *argv[16], why[300] = "";
    int argc = 0;

    for (char *w = strtok(text, "\n"); w && argc < 16; w = strtok(NULL, "\n"))
        argv[argc++] = w;
    if (selection_parse(&s, argc, argv, why, sizeof why))
        CHECK(why[0]);
    CHECK(s.n <= SELECT_JOBS_MAX);
    selection_free(&s);
}

static void array(const char *text)
{
    struct array_range ranges[ARRAY_RANGES_MAX];
    uint32_t n;
    char why[300] = "";

    if (array_parse("--array", text, ranges, &n, why, sizeof why)) {
        CHECK(why[0]);
        return;
    }
    CHECK(n > 0 && n <= ARRAY_RANGES_MAX);
    for (uint32_t i = 0; i < n; i++)
        CHECK(ranges[i].first <= ranges[i].last && ranges[i].last < UINT32_MAX && ranges[i].step > 0);
}

static void address(const char *text)
{
    char why[400] = "", target[ADDR_TEXT], other[ADDR_TEXT];

    if (token_check(text, strlen(text), why, sizeof why))
        CHECK(why[0]);
    why[0] = '\0';
    if (addr_check(text, why, sizeof why)) {
        CHECK(why[0]);
        return;
    }
    addr_target(text, target, sizeof target);
    CHECK(target[0]);
    if (addr_is_unix(text))
        return;
    addr_with_port(text, 7, other, sizeof other);
    CHECK(addr_check(other, why, sizeof why) == 0);
    CHECK(addr_port(other) == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    text = strndup((const char *)data + 1, size - 1);
    CHECK(text);
    switch (data[0] % 6) {
    case 0:
        duration(text);
        break;
    case 1:
        numbers(text);
        break;
    case 2:
        job_id(text);
        break;
    case 3:
        selectors(text);
        break;
    case 4:
        array(text);
        break;
    default:
        address(text);
    }
    free(text);
    return 0;
}
