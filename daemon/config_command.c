/* `hawk config check FILE` and `hawk config show`. */
#include "daemon/commands.h"
#include "daemon/config.h"

#include <string.h>

static const char usage[] =
    "usage: hawk config check FILE\n"
    "       hawk config show [SECTION] [--config FILE] [--set SECTION.NAME=VALUE]...\n\n"
    "check reads a YAML file as a daemon would and reports every mistake with file and line; exit code 0 "
    "means\n"
    "that daemons accept it. show prints every setting in effect and where its value came from: a default, "
    "a\n"
    "line of the file ($HAWK_CONFIG, then /etc/hawk/hawk.yaml unless --config names one), or a flag.\n"
    "SECTION is one of cluster, central, dist, worker, up, log.\n";

static int check(const char *path)
{
    struct config c;
    config_init(&c);
    int err = config_load(&c, path, stderr);
    config_free(&c);
    if (!err)
        printf("%s: ok\n", path);
    return err ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

static int show(int argc, char **argv)
{
    static const char *const sections[] = {
#define X(section, SETTINGS) #section,
        SECTIONS(X)
#undef X
            NULL};
    const char *section = NULL;
    if (argc > 1 && argv[1][0] != '-') {
        for (size_t i = 0; sections[i] && !section; i++)
            if (strcmp(sections[i], argv[1]) == 0)
                section = sections[i];
        if (!section)
            return usage_error("config show: no section \"%s\"", argv[1]);
        argc--;
        argv++;
    }
    struct config c;
    config_init(&c);
    int code = config_from_args(&c, "config", argc, argv, NULL, NULL);
    if (code == 0)
        config_show(&c, section, stdout);
    config_free(&c);
    return code == 1 ? HAWK_EXIT_OK : code;
}

int config_main(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return HAWK_EXIT_OK;
    }
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return check(argv[2]);
    if (argc >= 2 && strcmp(argv[1], "show") == 0)
        return show(argc - 1, argv + 1);
    fputs(usage, stderr);
    return HAWK_EXIT_USAGE;
}
