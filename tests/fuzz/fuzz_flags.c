/* Command lines, one argument per line of the input; the first byte says whose. What is accepted makes a job
 * description that passes its check, or a configuration; anything else is a message. */
#include "base/check.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/spec.h"
#include "config/config.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 32

struct options {
    struct common_options common; /* first, as in every command */
    struct spec_options spec;
    struct flag_list list;
    uint32_t count, share;
    const char *choice;
    bool on;
};

static const struct flag flags[] = {
    SPEC_FLAGS(struct options, spec),
    SPEC_APP_FLAGS(struct options, spec),
    FLAG(LIST, struct options, list, "list", 'L', "X", "a list"),
    FLAG_NUMBER(struct options, count, "count", 'N', "N", "a number", 3, 4000),
    FLAG(SHARE, struct options, share, "share", 's', "SHARE", "a share"),
    FLAG(CHOICE, struct options, choice, "choice", 'k', "one|other|auto", "a choice"),
    FLAG(BOOL, struct options, on, "on", 'o', NULL, "a switch"),
    {0},
};

static bool names_files(const struct flag_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (strcmp(l->flags[i], "each-line") == 0)
            return true;
    return false;
}

static void of_submit(int argc, char **argv, bool stop_early)
{
    struct options o = {.count = 3};
    struct job_desc *d;
    int first = flags_parse("test", flags, common_flags, stop_early, argc, argv, &o);

    CHECK(first >= -HAWK_EXIT_HELP && first <= argc);
    CHECK(o.count >= 3 && o.count <= 4000 && o.share <= 1000000);
    if (first > 0 && !names_files(&o.spec.inputs.sources) && !o.spec.input && /* these name files */
        spec_build("test", &o.spec, argc - first, argv + first, &d, NULL) == 0) {
        CHECK(d->tasks == 0 || job_desc_check(d, NULL, 0) == 0);
        job_desc_drop(d);
    }
    flag_list_free(&o.list);
    spec_options_free(&o.spec);
}

static void of_daemon(const char *section, int argc, char **argv)
{
    struct config c;
    int result;

    config_init(&c);
    result = config_from_args(&c, section, argc, argv);
    CHECK(result >= 0 && result <= 2);
    config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sections[] = {"central", "dist", "worker", "up"};
    char *text, *argv[ARGS_MAX + 2] = {NULL};
    int argc = 0;
    bool files = false;

    if (size == 0)
        return 0;
    text = strndup((const char *)data + 1, size - 1);
    CHECK(text);
    argv[argc++] = (char *)(uintptr_t) "hawk";
    for (char *at = text, *next; argc < ARGS_MAX && at; at = next) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        files = files || strstr(at, "-c"); /* --config: a file that would be read */
        argv[argc++] = at;
    }
    if (data[0] & 1)
        of_submit(argc, argv, data[0] & 2);
    else if (!files)
        of_daemon(sections[data[0] / 2 % 4], argc, argv);
    free(text);
    return 0;
}
