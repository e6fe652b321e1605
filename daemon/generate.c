/* `hawk completion`, and what `make` calls for manual pages: see generate.h. */
#include "daemon/generate.h"

#include "cli/document.h"
#include "config/config.h"
#include "daemon/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct command *const command_tables[] = {daemon_commands, client_commands, NULL};

const struct flag *generate_flags(const struct command *c)
{
    return c->flags ? c->flags : config_flags(c->name);
}

/* ---- hawk completion ---- */

struct completion_options {
    const char *output;
};

const struct flag completion_flags[] = {
    FLAG(CHOICE, struct completion_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

int completion_main(int argc, char **argv)
{
    struct completion_options o = {0};
    char *script = NULL;
    size_t size = 0;
    int first = flags_parse("completion", completion_flags, NULL, false, argc, argv, &o);
    if (first < 0)
        return -first;
    FILE *f = open_memstream(&script, &size);
    bool ok = f && argc == first + 1 && generate_completion(f, argv[first]);
    if (f)
        fclose(f);
    if (ok && document_wanted())
        document_print(json_pack("{s:s, s:s}", "shell", argv[first], "script", script));
    else if (ok)
        fputs(script, stdout);
    free(script);
    return ok ? HAWK_EXIT_OK : usage_error("completion takes the name of a shell: bash, zsh or fish");
}

/* ---- hawk generate DIR, which is in no help: everything that `make install` installs of it ---- */

static int write_file(const char *dir, const char *name, const char *shell, const struct command *c)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f && shell)
        generate_completion(f, shell);
    else if (f)
        generate_man(f, c);
    if (f && !ferror(f) && fclose(f) == 0)
        return HAWK_EXIT_OK;
    fprintf(stderr, "hawk generate: %s: %s\n", path, strerror(errno));
    return HAWK_EXIT_FAILED;
}

int generate_main(int argc, char **argv)
{
    char name[80];
    if (argc != 2)
        return usage_error("generate takes a directory");
    int bad = write_file(argv[1], "hawk.1", NULL, NULL) | write_file(argv[1], "hawk.bash", "bash", NULL) |
              write_file(argv[1], "_hawk", "zsh", NULL) | write_file(argv[1], "hawk.fish", "fish", NULL);
    for (const struct command *const *table = command_tables; *table; table++)
        for (const struct command *c = *table; c->name; c++) {
            snprintf(name, sizeof name, "hawk-%s.1", c->name);
            bad |= write_file(argv[1], name, NULL, c);
        }
    return bad;
}
