/* The flags and the report of `hawk sim --faults`. */
#include "daemon/sim_faults.h"

#include "base/units.h"
#include "cli/command.h"
#include "cli/document.h"
#include "daemon/cores.h"
#include "faults/faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 1024

struct report {
    const struct faults_options *o;
    const char *kinds; /* as given; NULL: all */
    json_t *failures;  /* NULL: for people, at once */
};

/* The one command that shows it again. */
static void command_of(const struct report *r, uint64_t seed, char *buf, size_t size)
{
    int n = snprintf(buf, size, "hawk sim --faults --seed %" PRIu64, seed);

    if (r->kinds)
        n += snprintf(buf + n, size - (size_t)n, " --kinds %s", r->kinds);
    if (r->o->single)
        n += snprintf(buf + n, size - (size_t)n, " --single");
    if (r->o->jobs)
        n += snprintf(buf + n, size - (size_t)n, " --jobs %u", r->o->jobs);
    if (r->o->heal_us)
        snprintf(buf + n, size - (size_t)n, " --heal %" PRId64 "us", r->o->heal_us);
}

static void on_failure(void *arg, const struct faults_failure *f)
{
    struct report *r = arg;
    struct faults_options o = *r->o;
    char command[TEXT], what[TEXT];

    o.seed = f->seed;
    faults_describe(&o, what, sizeof what);
    command_of(r, f->seed, command, sizeof command);
    if (r->failures)
        json_array_append_new(r->failures,
                              json_pack("{s:I, s:s, s:s, s:s, s:s}", "seed", (json_int_t)f->seed, "invariant",
                                        f->invariant, "text", f->text, "run", what, "command", command));
    else
        printf("%sseed %" PRIu64 " (%s) violates \"%s\" %s\n  %s\n", isatty(STDERR_FILENO) ? "\n" : "",
               f->seed, what, f->invariant, f->text, command);
    fflush(stdout);
}

/* "100-199", or one number. */
static int parse_seeds(const char *text, uint64_t *first, uint64_t *n)
{
    char low[24];
    const char *dash = strchr(text, '-');
    size_t len = dash ? (size_t)(dash - text) : strlen(text);
    uint64_t last;

    snprintf(low, sizeof low, "%.*s", (int)(len < sizeof low ? len : sizeof low - 1), text);
    if (len >= sizeof low || u64_parse(low, 0, UINT32_MAX, first) != 0 ||
        u64_parse(dash ? dash + 1 : low, *first, UINT32_MAX, &last) != 0)
        return usage_error(
            "sim: --seeds: expected two numbers below 2^32, the first and the last (1-1000), not \"%s\"",
            text);
    *n = last - *first + 1;
    return 0;
}

static json_t *to_json(const struct faults_total *t, json_t *failures)
{
    json_t *faults = json_object();

    for (uint32_t k = 0; k < FAULT_COUNT; k++)
        json_object_set_new(faults, fault_names[k], json_integer((json_int_t)t->sum.faults[k]));
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:f, s:o, s:o}", "seeds", (json_int_t)t->seeds,
                     "failed", (json_int_t)t->failed, "real_s", t->real_s, "seeds_per_minute",
                     t->real_s > 0 ? (double)t->seeds * 60 / t->real_s : 0, "jobs", (json_int_t)t->sum.jobs,
                     "tasks", (json_int_t)t->sum.tasks, "steps", (json_int_t)t->sum.steps, "virtual_s",
                     (double)t->sum.virtual_us / US_PER_S, "faults", faults, "failures", failures);
}

static void print_total(const struct faults_total *t, bool single)
{
    printf("%" PRIu64 " seeds in %.1f minutes, %.0f a minute: %" PRIu64 " jobs, %" PRIu64 " tasks, %" PRIu64
           " steps, %.1f days of virtual time\nfaults:",
           t->seeds, t->real_s / 60, t->real_s > 0 ? (double)t->seeds * 60 / t->real_s : 0, t->sum.jobs,
           t->sum.tasks, t->sum.steps, (double)t->sum.virtual_us / US_PER_S / 86400);
    for (uint32_t k = 0; k < FAULT_COUNT; k++)
        printf(" %" PRIu64 " %s%s", t->sum.faults[k], fault_names[k], k + 1 < FAULT_COUNT ? "," : "\n");
    if (single)
        printf("a short job took %.3f s at most\n", (double)t->sum.wait_us_max / US_PER_S);
    printf("%" PRIu64 " failed\n", t->failed);
}

int sim_faults(const struct sim_faults_flags *f, uint32_t seed, uint32_t jobs, const char *output)
{
    struct faults_options o = {.kinds = FAULTS_ALL,
                               .draw_kinds = true,
                               .jobs = jobs,
                               .heal_us = f->heal_us,
                               .single = f->single,
                               .log = f->log};
    struct report r = {.o = &o, .kinds = f->kinds};
    struct faults_seeds s = {.first = seed, .n = 1, .report = on_failure, .report_arg = &r};
    const char *bad = "";
    struct faults_total t;
    char why[TEXT];

    if (strcmp(output, "csv") == 0)
        return usage_error("sim: --faults prints a table or json");
    if (f->single && (f->kinds || f->heal_us || jobs))
        return usage_error(
            "sim: --single draws its faults and jobs itself: leave out --kinds, --heal and --jobs");
    if (f->seeds && parse_seeds(f->seeds, &s.first, &s.n) != 0)
        return HAWK_EXIT_USAGE;
    if (f->kinds && faults_parse_kinds(f->kinds, &o.kinds, &bad) != 0)
        return usage_error("sim: --kinds: no kind of fault \"%.*s\" (hawk sim --help lists them)",
                           (int)strcspn(bad, ","), bad);
    o.draw_kinds = !f->kinds || strcmp(f->kinds, "all") == 0;
    if (f->for_us) {
        s.n = 0;
        s.real_us = f->for_us;
    }
    s.processes = f->processes ? f->processes : cores_usable();
    s.bar = isatty(STDERR_FILENO) && !f->log ? stderr : NULL;
    if (strcmp(output, "json") == 0)
        r.failures = json_array();
    if (faults_run_seeds(&o, &s, &t, why, sizeof why) != 0) {
        say_error("sim", "--faults: %s", why);
        json_decref(r.failures);
        return HAWK_EXIT_FAILED;
    }
    if (r.failures)
        document_print(to_json(&t, r.failures));
    else
        print_total(&t, f->single);
    return t.failed ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}
