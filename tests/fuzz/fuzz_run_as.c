/* The configuration of hawk-run-as: a text is taken for what it says, or refused with a reason; what it says stands in
 * the text; whom it lets run tasks is never root by mistake. */
#include "base/check.h"
#include "base/mem.h"
#include "runas/run_as.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

static bool is_inside(const char *at, const char *text, size_t size)
{
    return at >= text && at < text + size;
}

static void check_users(const struct run_as_config *c)
{
    const uid_t uids[] = {0, 1, 999, 1000, 65533, 65534, 65535, (uid_t)-2, (uid_t)-1};

    for (size_t i = 0; i < sizeof uids / sizeof *uids; i++) {
        bool may = !run_as_refusal(c, uids[i], 1, 4711);

        CHECK(!may || uids[i] != RUN_AS_OVERFLOW_UID);
        CHECK(!may || uids[i] >= c->lowest_uid || (uids[i] == 0 && c->allow_root));
        CHECK(uids[i] == 0 || run_as_refusal(c, uids[i], 0, 4711));
        CHECK(uids[i] == 0 || run_as_refusal(c, uids[i], 1, uids[i]));
    }
}

/* Whoever has no limits has none of any kind, and root none of a line that does not name him. */
static void check_limits(const uint8_t *data, size_t size)
{
    const gid_t groups[] = {1001, 2000};
    const struct run_as_user users[] = {{"ann", 1001, 1001, groups, 2}, {"root", 0, 0, groups, 0}};
    bool has_root = memmem(data, size, "root", 4) != NULL;

    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        struct run_as_limits l = {0};
        char *text = xmemdup0(data, size), *line, *rest;
        bool has_limits = true;

        for (line = strtok_r(text, "\n", &rest); line && has_limits; line = strtok_r(NULL, "\n", &rest))
            has_limits = run_as_limits_line(line, &users[i], &l);
        for (int r = 0; r < RLIM_NLIMITS; r++) {
            CHECK(has_limits || (!l.soft[r].scope && !l.hard[r].scope));
            CHECK(users[i].uid || has_root || (!l.soft[r].scope && !l.hard[r].scope));
        }
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmemdup0(data, size), *name = xmemdup0(data, size), why[RUN_AS_WHY_MAX] = "";
    bool has_yes = memmem(data, size, "yes", 3) != NULL;
    struct run_as_config c;

    if (run_as_parse(text, size, &c, why)) {
        CHECK(c.hawk[0] == '/' && is_inside(c.hawk, text, size));
        CHECK(!c.user_root || (c.user_root[0] == '/' && is_inside(c.user_root, text, size)));
        CHECK(c.callers_n >= 1 && c.callers_n <= RUN_AS_CALLERS);
        for (unsigned i = 0; i < c.callers_n; i++)
            CHECK(run_as_is_name(c.callers[i]));
        CHECK(!c.limits || *c.limits == '/');
        CHECK(c.lowest_uid > 0 && (!c.allow_root || has_yes));
        check_users(&c);
    } else {
        CHECK(*why);
    }
    check_limits(data, size);
    if (run_as_is_name(name))
        CHECK(!strpbrk(name, "/: \n\t") && *name && *name != '-' && strlen(name) < RUN_AS_NAME_MAX);
    free(text);
    free(name);
    return 0;
}
