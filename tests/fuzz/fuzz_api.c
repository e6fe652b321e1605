/* Every message of the public API, requests and replies: the first byte says which. What is read is written and
 * read again as the same. */
#include "base/check.h"
#include "net/api.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

static const struct api_type *const types[] = {
#define X(name, Message) &api_##name##_type,
    API_MESSAGES(X)
#undef X
};

/* Room for any message's struct. */
union any {
#define X(name, Message) struct api_##name name;
    API_MESSAGES(X)
#undef X
};

static void policy_request(const struct api_set_policy_request *r)
{
    struct policy_choice *c = NULL;
    struct policy p;
    const char *field;
    char why[200];

    CHECK(policy_preset("hawk", &p) == 0);
    if (api_policy_choice(&c, r, why, sizeof why)) {
        CHECK(why[0]);
        return;
    }
    policy_choose(&p, c);
    CHECK(policy_check(&p, &field) == 0);
    policy_choice_drop(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct api_type *type;
    uint8_t *once, *twice;
    size_t once_len, twice_len;
    union any m;
    char why[200] = "";

    if (size == 0)
        return 0;
    type = types[data[0] % (sizeof types / sizeof *types)];
    if (api_decode(type, data + 1, size - 1, &m, why, sizeof why)) {
        CHECK(why[0]);
        api_free(type, &m);
        return 0;
    }
    if (type == &api_set_policy_request_type)
        policy_request(&m.set_policy_request);
    api_encode(type, &m, &once, &once_len);
    api_free(type, &m);
    CHECK(api_decode(type, once, once_len, &m, why, sizeof why) == 0);
    api_encode(type, &m, &twice, &twice_len);
    CHECK(once_len == twice_len && memcmp(once, twice, once_len) == 0);
    api_free(type, &m);
    free(once);
    free(twice);
    return 0;
}
