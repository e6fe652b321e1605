/* `hawk sim convert-google`, and traces to files: workloads from elsewhere for the simulator. */
#include "daemon/sim_convert.h"
#include "cli/command.h"
#include "cli/document.h"
#include "workload/generate.h"
#include "workload/google.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct options {
    const char *out;
};

static const struct flag flags[] = {
    FLAG(TEXT, struct options, out, "out", 0, "FILE", "the trace to write (standard output)"),
    {0},
};

static const struct command convert = {
    .name = "sim convert-google",
    .help = "jobs from Google's cluster trace of 2011, for hawk sim --trace",
    .synopsis = "[--out TRACE] FILE...",
    .details =
        "FILE...: the table task_events, uncompressed, its parts in their order; - is standard input.\n"
        "A task lasts from its last SCHEDULE to FINISH. What failed, was killed, or began or ended at times "
        "the trace\ndoes not know is left out and counted on standard error.\n"
        "\n"
        "  zcat task_events/part-*.csv.gz | hawk sim convert-google --out google.tr -\n",
    .flags = flags,
};

int sim_write_trace(struct sim_source *source, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdout : fopen(path, "we");
    int err = HAWK_EIO, code = 0;

    if (f) {
        err = generator_write(source, f);
        code = errno;
        if (!standard && fclose(f) != 0 && !err) {
            err = HAWK_EIO;
            code = errno;
        }
    } else {
        code = errno;
    }
    if (err)
        say_error("sim", "%s: cannot be written: %s", standard ? "standard output" : path, strerror(code));
    return err ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

static void print_counts(const struct google_counts *c)
{
    fprintf(stderr,
            "%" PRIu64 " events. Jobs: %" PRIu64 " of %" PRIu64 " kept; left out: %" PRIu64
            " submitted before the trace begins, %" PRIu64 " without a task that is kept.\n"
            "Tasks: %" PRIu64 " of %" PRIu64 " kept; left out: %" PRIu64 " failed, killed or lost, %" PRIu64
            " not ended, %" PRIu64 " at unknown times; the rest with their jobs.\n",
            c->lines, c->jobs_kept, c->jobs, c->jobs_early, c->jobs_empty, c->tasks_kept, c->tasks,
            c->tasks_failed, c->tasks_open, c->tasks_vague);
}

int sim_convert_google(int argc, char **argv)
{
    struct options o = {.out = "-"};
    int at = flags_parse("sim convert-google", flags, NULL, false, argc, argv, &o), err = 0;

    if (at == -HAWK_EXIT_HELP) {
        command_help(stdout, &convert);
        return HAWK_EXIT_OK;
    }
    if (at < 0)
        return -at;
    if (at == argc)
        return usage_error("sim convert-google: which files? (- is standard input)");
    struct google *g = google_new();
    for (int i = at; i < argc && !err; i++)
        err = google_read(g, argv[i]);
    if (err) {
        say_error("sim convert-google", "%s", google_error(g));
        google_free(g);
        return HAWK_EXIT_FAILED;
    }
    struct sim_source source = google_source(g);
    struct google_counts counts = google_counts(g);
    if (counts.jobs_kept == 0) {
        print_counts(&counts);
        google_free(g);
        say_error("sim convert-google",
                  "no job is kept, so no trace is written: are these task_events files?");
        return HAWK_EXIT_FAILED;
    }
    err = sim_write_trace(&source, o.out);
    google_free(g);
    if (!err)
        print_counts(&counts);
    return err;
}
