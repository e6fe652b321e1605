/* The `hawk` binary: finds the command and runs it. */
#include "base/near.h"
#include "ca/command.h"
#include "ca/user_command.h"
#include "cli/document.h"
#include "daemon/commands.h"
#include "daemon/self.h"
#include "daemon/signed_spec.h"
#include "exec/spawner.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- version ---- */

struct version_options {
    const char *output;
};

static const struct flag version_flags[] = {
    FLAG(CHOICE, struct version_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

static int version_main(int argc, char **argv)
{
    struct version_options o = {0};
    int first = flags_parse("version", version_flags, NULL, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("version takes no argument '%s'", argv[first]);
    if (document_wanted())
        document_print(json_pack("{s:s}", "version", HAWK_VERSION));
    else
        printf("hawk %s\n", HAWK_VERSION);
    return HAWK_EXIT_OK;
}

/* ---- All commands ---- */

const struct command daemon_commands[] = {
    {.name = "run",
     .help = "run commands on an embedded cluster, then exit (xargs -P)",
     .synopsis = "[FLAGS] -- COMMAND [ARGUMENT...]",
     .details = run_details,
     .flags = run_flags,
     .run = run_main},
    {.name = "up", .help = "run a whole cluster in one process, for this machine", .run = up_main},
    {.name = "central", .help = "daemon: membership, long jobs, history, policy", .run = central_main},
    {.name = "dist", .help = "daemon: a distributed scheduler, where clients submit", .run = dist_main},
    {.name = "worker", .help = "daemon: runs tasks, and steals short ones when idle", .run = worker_main},
    {.name = "config",
     .help = "check a configuration file, or show the one in effect",
     .synopsis = "check FILE | show [SECTION] [FLAGS]",
     .words = "check|show",
     .details = config_details,
     .flags = config_command_flags,
     .run = config_main},
    {.name = "ca",
     .help = "make a cluster's roots, and certificates for TLS",
     .words = "init|issue|invite|revoke",
     .synopsis = "init [DIR] | issue|invite|revoke [DIR] --role ROLE --name NAME [FLAGS]",
     .details = ca_details,
     .flags = ca_flags,
     .run = ca_main},
    {.name = "user",
     .help = "give people credentials, list and revoke them; where the user root is kept",
     .words = "add|list|revoke|serve",
     .synopsis = "add NAME [FLAGS] | list | revoke NAME | serve [FLAGS]",
     .details = user_details,
     .flags = user_flags,
     .run = user_main},
    {.name = "login",
     .help = "take your credential, or see as whom you are logged in",
     .synopsis = "[FILE|-]",
     .details = login_details,
     .flags = login_flags,
     .run = login_main},
    {.name = "logout",
     .help = "remove your credential from this machine",
     .synopsis = "[FLAGS]",
     .flags = logout_flags,
     .run = logout_main},
    {.name = "sim",
     .help = "simulate a cluster: the same schedulers in virtual time",
     .synopsis = "--trace FILE --workers N [OPTIONS]",
     .details = sim_details,
     .flags = sim_flags,
     .run = sim_main},
    {.name = "prune",
     .help = "remove old output of tasks from this machine; without --yes it only lists what it would remove",
     .synopsis = "[FLAGS] [DIR...]",
     .details = prune_details,
     .flags = prune_flags,
     .run = prune_main},
    {.name = "completion",
     .help = "print completion for a shell",
     .synopsis = "bash|zsh|fish",
     .words = "bash|zsh|fish",
     .details = "example, for this shell:\n  source <(hawk completion bash)\n",
     .flags = completion_flags,
     .run = completion_main},
    {.name = "version",
     .help = "print the version",
     .synopsis = "[FLAGS]",
     .flags = version_flags,
     .run = version_main},
    {0},
};

static void print_commands(FILE *f)
{
    fprintf(f, "Hawk runs thousands of short jobs beside long ones on one shared cluster.\n\n"
               "usage: hawk COMMAND [ARGUMENTS]      hawk COMMAND --help tells more\n\n"
               "on this machine, and daemons:\n");
    command_list(f, daemon_commands);
    fprintf(f, "\nfor users of a running cluster:\n");
    command_list(f, client_commands);
    fprintf(f, "\nA first try:   hawk run -j 4 --each-line hosts.txt -- ping -c 1 {}\n");
}

/* What people are used to from the shell, Slurm, PBS and container tools. */
static const struct {
    const char *theirs, *ours;
} known_elsewhere[] = {
    {"ps", "jobs"},        {"list", "jobs"},     {"queue", "jobs"},    {"status", "jobs"},
    {"squeue", "jobs"},    {"qstat", "jobs"},    {"show", "job"},      {"kill", "cancel"},
    {"scancel", "cancel"}, {"qdel", "cancel"},   {"logs", "cat"},      {"log", "cat"},
    {"output", "cat"},     {"sbatch", "submit"}, {"qsub", "submit"},   {"srun", "exec"},
    {"start", "up"},       {"stop", "down"},     {"shutdown", "down"}, {"sinfo", "nodes"},
    {"top", "stats"},      {"info", "stats"},    {"sacct", "history"}, {"requeue", "resubmit"},
    {"retry", "resubmit"},
};

static int no_command(const char *word)
{
    const struct command *const tables[] = {daemon_commands, client_commands};
    struct near near = near_begin(word);
    for (size_t i = 0; i < sizeof known_elsewhere / sizeof *known_elsewhere; i++)
        if (strcmp(word, known_elsewhere[i].theirs) == 0)
            near.name = known_elsewhere[i].ours;
    for (size_t i = 0; !near.name && i < sizeof tables / sizeof *tables; i++)
        for (const struct command *c = tables[i]; c->name; c++)
            near_look(&near, c->name);
    if (near.name)
        return usage_error("no command \"%s\": did you mean `hawk %s`?", word, near.name);
    return usage_error("no command \"%s\"; `hawk help` lists them", word);
}

static int run_command(int argc, char **argv)
{
    static const struct command *relatives[4];
    relatives[0] = command_find(daemon_commands, "run");
    relatives[1] = command_find(client_commands, "submit");
    relatives[2] = command_find(client_commands, "exec");
    command_set_relatives(relatives);
    const struct command *c = command_find(daemon_commands, argv[0]);
    if (!c)
        c = command_find(client_commands, argv[0]);
    if (c)
        return command_run(c, argc, argv);
    if (strcmp(argv[0], "generate") == 0)
        return generate_main(argc, argv);
    if (strcmp(argv[0], "spawner") == 0 && argc == 1)
        spawner_of_user(NULL); /* for hawk-run-as */
    if (strcmp(argv[0], "spawner") == 0 && argc == 2 && strcmp(argv[1], "signed") == 0)
        signed_spawner();
    return no_command(argv[0]);
}

/* The next socket or file would get the number of a closed standard descriptor, and messages would go there. So
 * /dev/null takes the number, opened so that what the descriptor is for fails, as before. gRPC's library opens a
 * descriptor as soon as it is loaded, so this must come first. */
static void hold_standard_files(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(HAWK_EXIT_FAILED); /* without /dev/null nothing works */
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) = hold_standard_files;

static int run_named(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_commands(stderr);
        return HAWK_EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0) {
        argv[1] += 2;
    }
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (help && (argc == 2 || argv[2][0] == '-' || strcmp(argv[2], "help") == 0)) {
        print_commands(stdout);
        return command_end(HAWK_EXIT_OK);
    }
    if (help) {
        char *args[] = {argv[2], (char[]){"--help"}, NULL};
        return run_command(2, args);
    }
    return run_command(argc - 1, argv + 1);
}

/* With fewer descriptors its own parts cannot be made: libraries then abort, or wait for what never comes. */
#define FILES_MIN 16

static bool may_open_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 ||
        files.rlim_max >= FILES_MIN) /* net/loop.c raises the other one */
        return true;
    fprintf(stderr, "hawk: this process may have %llu files open, and needs %d or more (ulimit -n)\n",
            (unsigned long long)files.rlim_max, FILES_MIN);
    return false;
}

/* gRPC's threads run on, and exit() would run the libraries' destructors beside them. */
int main(int argc, char **argv)
{
    self_init();
    command_take_streams();
    int code = may_open_files() ? run_named(argc, argv) : HAWK_EXIT_FAILED;
    fflush(NULL);
    command_die_interrupted();
#if defined(__SANITIZE_ADDRESS__) /* its leak checker is such a destructor */
    return code;
#else
    _exit(code);
#endif
}
