/* `hawk sim`: flags to a simulation's settings, and its report to the terminal, to scripts, to files. */
#include "base/trace.h"
#include "base/units.h"
#include "cli/document.h"
#include "daemon/commands.h"
#include "daemon/cores.h"
#include "daemon/sim_convert.h"
#include "daemon/sim_faults.h"
#include "faults/faults.h"
#include "sim/compare.h"
#include "sim/report.h"
#include "sim/sweep.h"
#include "workload/workload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *trace, *workload, *load, *policy, *estimates, *noise, *ratio, *pause_share, *share, *deal,
        *queues, *delay, *output;
    const char *jobs_csv, *against, *sweep, *write_trace;
    const char *cutoff_from; /* "flag", "workload", "default" */
    uint32_t workers, slots, dists, table_share_ppm, seed, jobs, steal_cap, short_first, long_stretch, users,
        only_job;
    int64_t cutoff_us, scheduler_cost_us, worker_cost_us, sample_us, pause_after_us, pause_longest_us;
    struct flag_list set;
    bool compat, check, tag_class, faults;
    struct sim_faults_flags f;
};

#define OMNISCIENT "omniscient"
#define CUTOFF_DEFAULT_US (90 * US_PER_S)

const struct flag sim_flags[] = {
    FLAG(TEXT, struct options, trace, "trace", 0, "FILE",
         "workload, a line per job: " TRACE_LINE "; - is standard input"),
    FLAG(TEXT, struct options, workload, "workload", 0, "NAME",
         "jobs drawn from a table instead: its name or file"),
    FLAG_NUMBER(struct options, jobs, "jobs", 0, "N", "number of these jobs (as its table says)", 1,
                JOB_TABLE_JOBS_MAX),
    FLAG(TEXT, struct options, load, "load", 0, "L",
         "load: the share of slots that these jobs keep busy, 0.9 (as its table says)"),
    FLAG_NUMBER(struct options, workers, "workers", 'n', "N", "workers of the simulated cluster", 1,
                SIM_WORKERS_MAX),
    FLAG_NUMBER(struct options, slots, "slots", 's', "N", "slots of each worker (1)", 1, LIMIT_SLOTS),
    FLAG_NUMBER(struct options, dists, "dists", 0, "N", "distributed schedulers (10)", 1, SIM_DISTS_MAX),
    FLAG(
        CHOICE, struct options, policy, "policy", 'p',
        "hawk|harrier|sparrow|eagle|hawk-no-steal|hawk-no-partition|hawk-no-central|split|central|omniscient",
        "the policy (hawk); omniscient is not a scheduler, but computes bounds that none can beat"),
    FLAG_ABOVE_0(struct options, cutoff_us, "cutoff", 0, "TIME",
                 "jobs with this mean task duration or more are long (90s, or the table's own)"),
    FLAG(
        TEXT, struct options, share, "short-partition", 0, "SHARE|auto",
        "share of slots for short tasks only (none, or a table's own; auto where long tasks are bound late); "
        "auto: as central.short_partition, it follows the load"),
    FLAG_NUMBER(struct options, seed, "seed", 0, "K", "seed of all random draws (1)", 0, UINT32_MAX),
    FLAG(DURATION, struct options, scheduler_cost_us, "sched-cost", 0, "TIME",
         "time that a scheduler needs per message received or sent (10us)"),
    FLAG(DURATION, struct options, worker_cost_us, "worker-cost", 0, "TIME",
         "time that a worker needs per message (10us)"),
    FLAG(TEXT, struct options, ratio, "probe-ratio", 0, "R", "probes per task (2)"),
    FLAG_NUMBER(struct options, steal_cap, "steal-cap", 0, "N", "workers a thief asks per round (10)", 1,
                1000),
    FLAG_NUMBER(struct options, short_first, "short-first", 0, "N",
                "short tasks that may overtake the long one at the head of a worker's queue (0)", 0,
                LIMIT_SHORT_FIRST),
    FLAG_NUMBER(struct options, users, "users", 0, "N",
                "each job is one of N users', at random; users take turns (1)", 1, 1000000),
    FLAG_NUMBER(struct options, long_stretch, "long-stretch", 0, "N",
                "a long job waits for smaller ones submitted up to N times its size later (10)", 1,
                LIMIT_LONG_STRETCH),
    FLAG(DURATION, struct options, pause_after_us, "pause-after", 0, "TIME",
         "how long a short task waits before it pauses a long one (--set pause=on)"),
    FLAG(TEXT, struct options, pause_share, "pause-share", 0, "R",
         "the part of its run time that a long task may be paused (0.5)"),
    FLAG_ABOVE_0(struct options, pause_longest_us, "pause-longest", 0, "TIME", "longest pause of a task"),
    FLAG(CHOICE, struct options, estimates, "estimates", 0, "mean|exact|history",
         "estimates of jobs: the workload's mean, the mean of the actual durations, or none: their "
         "names' history decides"),
    FLAG(BOOL, struct options, tag_class, "tag-class", 0, NULL, "tag every job with its true class"),
    FLAG(TEXT, struct options, noise, "noise", 0, "[log:]LOW-HIGH",
         "estimates are wrong by a random factor from this range: 0.1-1.9; log:0.05-20 draws the factor's "
         "logarithm evenly"),
    FLAG(LIST, struct options, set, "set", 0, "FLAG=on|off",
         "change one flag of the policy: promotion=off; may be given several times"),
    FLAG(CHOICE, struct options, queues, "queues", 0, "per-worker|per-slot",
         "one queue per worker, or per slot (per-worker)"),
    FLAG(CHOICE, struct options, deal, "deal", 0, "in-turn|random", "how dists get jobs (in-turn)"),
    FLAG(TEXT, struct options, delay, "delay", 0, "TIME[-TIME]",
         "delay of a message, one way; with a range each pair of nodes has its own delay (500us)"),
    FLAG(BOOL, struct options, compat, "compat", 0, NULL, "the published simulator's assumptions"),
    FLAG(BOOL, struct options, check, "check", 0, NULL, "look at every invariant after every step (slow)"),
    FLAG_ABOVE_0(struct options, sample_us, "sample", 0, "TIME",
                 "time between samples of utilization (10ms, further apart in longer runs)"),
    FLAG_NUMBER(struct options, only_job, "only-job", 0, "N",
                "print every message about the Nth job to standard error, in the daemons' trace format", 1,
                UINT32_MAX),
    FLAG(TEXT, struct options, against, "against", 0, "FILE", "compare job by job with a run's --jobs-csv"),
    FLAG(TEXT, struct options, jobs_csv, "jobs-csv", 0, "FILE", "write one line per job, for plots"),
    FLAG(TEXT, struct options, write_trace, "write-trace", 0, "FILE",
         "write the jobs of --workload as a trace and simulate nothing; - is standard output"),
    FLAG(TEXT, struct options, sweep, "sweep", 0, "cutoff=5s,30s,...",
         "a run for every combination of cutoff=TIME,TIME,...,partition=SHARE,...,workers=N,... on all "
         "cores, and which is best"),
    FLAG(BOOL, struct options, faults, "faults", 0, NULL,
         "random small clusters, jobs and faults instead of a workload: --seed's, or those of --seeds or "
         "--for"),
    FLAG(TEXT, struct options, f.seeds, "seeds", 0, "A-B", "with --faults: these seeds, on all cores"),
    FLAG_ABOVE_0(struct options, f.for_us, "for", 0, "TIME",
                 "with --faults: seeds from --seed on, on all cores, for this time"),
    FLAG(TEXT, struct options, f.kinds, "kinds", 0, "KIND,...",
         "with --faults: all (each seed draws some of them), none, or just these; see below"),
    FLAG_ABOVE_0(struct options, f.heal_us, "heal", 0, "TIME",
                 "with --faults: after the last fault every job must end within this virtual time (3000s)"),
    FLAG_NUMBER(struct options, f.processes, "processes", 0, "N", "with --faults: cores to use (all)", 1,
                256),
    FLAG(BOOL, struct options, f.single, "single", 0, NULL,
         "with --faults: one fault at a time, for which no short job may wait more than 3.5 s"),
    FLAG(BOOL, struct options, f.log, "log", 0, NULL, "with --faults: every message to standard error"),
    FLAG(CHOICE, struct options, output, "output", 'o', "table|json|csv",
         "table for people, json for scripts, csv per class"),
    {0},
};

const char sim_details[] =
    "The schedulers are the daemons' own, in virtual time: nothing sleeps, and the same seed "
    "gives the same figures.\n"
    "Results are grouped by the true classes of jobs: by the workload's own means and the "
    "cutoff, whatever class\n"
    "the policy gave them.\n"
    "\n"
    "  hawk sim --trace google.tr --workers 15000 --cutoff 1129.532s --short-partition 17%\n"
    "  hawk sim --trace yahoo.tr --workers 3583 --cutoff 90.6s --short-partition 2% --policy "
    "sparrow --jobs-csv s.csv\n"
    "  hawk sim --trace yahoo.tr --workers 3583 --cutoff 90.6s --short-partition 2% --against "
    "s.csv\n"
    "\n"
    "What if: --sweep runs a grid, compares with the run without it, and recommends.\n"
    "\n"
    "  hawk sim --trace yahoo.tr --workers 3583 --cutoff 90s --short-partition 2% --sweep "
    "cutoff=60s,90s,2m,partition=2%,4%\n"
    "\n"
    "--workload draws jobs from a table of clusters: cloudera, facebook, yahoo (Hawk, 4.1), "
    "hawk-figure1, sparrow,\n"
    "sparrow-figure3, sparrow-mixed, or a file like those in workload/tables. The same seed "
    "gives the same\n"
    "jobs on every machine; --write-trace keeps them. hawk sim convert-google makes a trace of "
    "Google's.\n"
    "\n" SIM_FAULTS_DETAILS "\n"
    "--compat reproduces, for policies hawk and sparrow, the published simulator of the Hawk and Eagle "
    "papers: "
    "whole\n"
    "seconds, and its policies' assumptions, each of which is a flag of the policy "
    "(docs/notebook/calibration.md).\n";

static const struct options defaults = {.policy = "hawk",
                                        .slots = 1,
                                        .dists = 10,
                                        .seed = 1,
                                        .output = "table",
                                        .scheduler_cost_us = -1,
                                        .worker_cost_us = -1,
                                        .sample_us = -1,
                                        .pause_after_us = -1};

/* What a flag says of the others: without it they would change nothing, nor beside it. What a flag changes under one
 * policy alone goes with any: policies are compared by the same command line. */
static const struct rule {
    const char *flag;
    enum { TAKES_ONLY, TAKES_NOT, NEEDED_BY } is;
    const char *others[12];
    const char *why; /* of TAKES: "which ..." */
} rules[] = {
    {"faults",
     TAKES_ONLY,
     {"seed", "jobs", "output", "seeds", "for", "kinds", "heal", "processes", "single", "log"},
     "makes clusters and jobs of its own"},
    {"write-trace",
     TAKES_ONLY,
     {"workload", "jobs", "load", "workers", "slots", "seed"},
     "writes the jobs of --workload, and simulates nothing"},
    {"faults",
     NEEDED_BY,
     {"seeds", "for", "kinds", "heal", "processes", "single", "log"},
     "other runs have no such faults"},
    {"workload", NEEDED_BY, {"load", "jobs", "write-trace"}, "a trace has its own jobs and times"},
    {"seeds", TAKES_NOT, {"seed", "for"}, "says which seeds"},
    {"sweep", TAKES_NOT, {"only-job", "jobs-csv", "against"}, "makes many runs"},
    {"compat", TAKES_NOT, {"delay", "sched-cost", "worker-cost"}, "has the published simulator's delays"},
    {"noise", TAKES_NOT, {"estimates"}, "makes them of the workload's means"},
};

static size_t member_size(const struct flag *f)
{
    switch (f->kind) {
    case FLAG_BOOL:
        return sizeof(bool);
    case FLAG_COUNT:
        return sizeof(uint32_t);
    case FLAG_DURATION:
        return sizeof(int64_t);
    default: /* a text, or a list, which begins with a pointer */
        return sizeof(char *);
    }
}

static bool is_given(const struct options *o, const char *name)
{
    const struct flag *f = sim_flags;

    while (strcmp(f->name, name) != 0)
        f++;
    return memcmp((const char *)o + f->offset, (const char *)&defaults + f->offset, member_size(f)) != 0;
}

static bool is_other(const struct rule *r, const char *name)
{
    for (size_t i = 0; r->others[i]; i++)
        if (strcmp(r->others[i], name) == 0)
            return true;
    return false;
}

static int check_rule(const struct options *o, const struct rule *r)
{
    bool needed = r->is == NEEDED_BY;

    if (needed ? is_given(o, r->flag) || o->faults : !is_given(o, r->flag))
        return 0;
    for (const struct flag *f = sim_flags; f->name; f++)
        if (is_given(o, f->name) && strcmp(f->name, r->flag) != 0 &&
            is_other(r, f->name) != (r->is == TAKES_ONLY))
            return usage_error(needed ? "sim: --%s needs --%s: %s" : "sim: --%s: not with --%s, which %s",
                               f->name, r->flag, r->why);
    return 0;
}

static int check_rules(const struct options *o)
{
    int err = 0;

    for (size_t i = 0; i < sizeof rules / sizeof *rules && !err; i++)
        err = check_rule(o, &rules[i]);
    return err;
}

/* "1.25" as 1250. */
static int parse_milli(const char *text, const char *what, uint32_t *milli)
{
    if (milli_parse(text, 1, milli))
        return usage_error("sim: --%s: expected a number from 0.001 to 1000, not \"%s\"", what, text);
    return 0;
}

static int parse_noise(const char *text, struct sim_config *c)
{
    char low[16];

    c->noise_log = strncmp(text, "log:", 4) == 0;
    text += c->noise_log ? 4 : 0;
    const char *dash = strchr(text, '-');
    if (!dash || dash == text || (size_t)(dash - text) >= sizeof low)
        return usage_error("sim: --noise: expected a range (0.1-1.9, log:0.05-20), not \"%s\"", text);
    snprintf(low, sizeof low, "%.*s", (int)(dash - text), text);
    int err = parse_milli(low, "noise", &c->noise_min_milli);
    if (!err)
        err = parse_milli(dash + 1, "noise", &c->noise_max_milli);
    c->estimates = SIM_ESTIMATE_NOISE;
    return err;
}

/* The table of --workload, with what other flags change about it; it says what no flag does. */
static int load_table(struct options *o, struct job_table *t)
{
    char why[512];
    uint32_t load_milli = 0;
    int err;

    if (generate_table_load(t, o->workload, why, sizeof why) != 0)
        return usage_error("sim: --workload: %s", why);
    if (o->jobs)
        t->jobs = o->jobs;
    if (o->load) {
        err = parse_milli(o->load, "load", &load_milli);
        if (err)
            return err;
        t->gap_us = generate_table_gap_us(t, (uint64_t)o->workers * o->slots, load_milli);
    }
    if (o->cutoff_us == 0 && t->cutoff_us) {
        o->cutoff_us = t->cutoff_us;
        o->cutoff_from = "workload";
    }
    o->table_share_ppm = t->share_ppm;
    return 0;
}

/* "500us", or "300us-700us". */
static int parse_delay(const char *text, struct sim_config *c)
{
    char low[32];
    const char *dash = strchr(text, '-');
    size_t len = dash ? (size_t)(dash - text) : strlen(text);

    snprintf(low, sizeof low, "%.*s", (int)(len < sizeof low ? len : sizeof low), text);
    if (len >= sizeof low || duration_parse(low, &c->delay_min_us) != 0 ||
        duration_parse(dash ? dash + 1 : low, &c->delay_max_us) != 0)
        return usage_error("sim: --delay: expected a time (500us) or a range (300us-700us), not \"%s\"",
                           text);
    return 0;
}

/* "promotion=off" */
static int parse_set(const char *text, struct policy *p)
{
    const char *equals = strchr(text, '=');
    uint32_t flag = equals ? policy_flag(text, (size_t)(equals - text)) : 0;

    if (flag && strcmp(equals + 1, "on") == 0)
        p->flags |= flag;
    else if (flag && strcmp(equals + 1, "off") == 0)
        p->flags &= ~flag;
    else
        return usage_error("sim: --set: expected a policy's flag and on or off (promotion=off), not \"%s\"",
                           text);
    return 0;
}

static int load_engine(const struct options *o, struct sim_config *c)
{
    int err = 0;

    if (o->scheduler_cost_us >= 0)
        c->scheduler_cost_us = o->scheduler_cost_us;
    if (o->worker_cost_us >= 0)
        c->worker_cost_us = o->worker_cost_us;
    if (o->sample_us >= 0)
        c->sample_us = o->sample_us;
    if (o->estimates && strcmp(o->estimates, "exact") == 0)
        c->estimates = SIM_ESTIMATE_EXACT;
    if (o->estimates && strcmp(o->estimates, "history") == 0)
        c->estimates = SIM_ESTIMATE_HISTORY;
    c->queue_per_slot = o->queues && strcmp(o->queues, "per-slot") == 0;
    c->tag_class = o->tag_class;
    c->deal_random = o->deal && strcmp(o->deal, "random") == 0;
    c->trace_job = o->only_job;
    c->trace_to = stderr;
    if (o->delay)
        err = parse_delay(o->delay, c);
    for (uint32_t i = 0; i < o->set.n && !err; i++)
        err = parse_set(o->set.v[i], &c->policy);
    return err;
}

static int load_share(const struct options *o, struct sim_config *c)
{
    c->share_auto = o->share ? strcmp(o->share, "auto") == 0 : policy_has(&c->policy, POLICY_LATE_LONG);
    if (!o->share)
        c->policy.short_share_ppm = c->share_auto ? 0 : o->table_share_ppm;
    else if (!c->share_auto && share_parse(o->share, &c->policy.short_share_ppm))
        return usage_error("sim: --short-partition takes a share within 0%% and 100%%, like 17%% or 0.17, or "
                           "auto, not '%s'",
                           o->share);
    return HAWK_EXIT_OK;
}

static int load_config(const struct options *o, struct sim_config *c)
{
    int err = 0;

    sim_config_init(c);
    c->workers = o->workers;
    c->slots = o->slots;
    c->dists = o->dists;
    c->seed = o->seed;
    c->compat = o->compat;
    c->check = o->check;
    if (strcmp(o->policy, OMNISCIENT) != 0 && policy_preset(o->policy, &c->policy) != 0)
        return usage_error("sim: no policy \"%s\"", o->policy);
    c->policy.cutoff_us = o->cutoff_us ? o->cutoff_us : CUTOFF_DEFAULT_US;
    if (o->compat)
        sim_compat_policy(&c->policy);
    if (o->ratio)
        err = parse_milli(o->ratio, "probe-ratio", &c->policy.probe_ratio_milli);
    if (!err && o->pause_share)
        err = parse_milli(o->pause_share, "pause-share", &c->pause_share_milli);
    if (!err && o->noise)
        err = parse_noise(o->noise, c);
    if (o->pause_after_us >= 0)
        c->pause_after_us = o->pause_after_us;
    if (o->pause_longest_us)
        c->pause_longest_us = o->pause_longest_us;
    if (o->steal_cap)
        c->policy.steal_cap = (uint16_t)o->steal_cap;
    c->policy.short_first = (uint16_t)o->short_first;
    c->users = o->users;
    if (o->long_stretch)
        c->long_stretch = o->long_stretch;
    if (!err)
        err = load_engine(o, c);
    return err ? err : load_share(o, c);
}

/* What the classes in the table below depend on. */
static void print_premises(const struct options *o, const struct sim_config *c)
{
    printf("policy %s, cutoff %.6g s (%s)\n", o->policy, (double)c->policy.cutoff_us / US_PER_S,
           strcmp(o->cutoff_from, "default") == 0    ? "default: set --cutoff"
           : strcmp(o->cutoff_from, "workload") == 0 ? "the workload's"
                                                     : "--cutoff");
}

static int write_jobs(const char *path, const struct sim_result *r)
{
    FILE *f = fopen(path, "we");

    if (f)
        sim_report_jobs(f, r);
    if (f && fflush(f) == 0 && !ferror(f)) {
        fclose(f);
        return HAWK_EXIT_OK;
    }
    say_error("sim", "%s: cannot be written: %s", path, strerror(errno));
    if (f)
        fclose(f);
    return HAWK_EXIT_FAILED;
}

static int report_result(const struct options *o, const struct sim_config *c, const struct sim_result *r,
                         const struct sim_others *others)
{
    struct sim_comparison pairs;
    int err = 0;

    if (o->against)
        sim_compare(r, others, &pairs);
    if (strcmp(o->output, "json") == 0) {
        json_t *json = sim_report_json(c, r);

        json_object_set_new(json, "policy", json_string(o->policy));
        json_object_set_new(json, "cutoff_us", json_integer(c->policy.cutoff_us));
        json_object_set_new(json, "cutoff_from", json_string(o->cutoff_from));
        if (o->against)
            json_object_set_new(json, "against", sim_comparison_json(&pairs));
        document_print(json);
    } else if (strcmp(o->output, "csv") == 0) {
        sim_report_csv(stdout, r);
    } else {
        print_premises(o, c);
        sim_report_table(stdout, c, r);
        if (o->against)
            sim_comparison_print(stdout, &pairs);
    }
    if (o->jobs_csv)
        err = write_jobs(o->jobs_csv, r);
    return err;
}

static int write_trace(const struct job_table *table, uint64_t seed, const char *path)
{
    struct sim_workload w;
    struct sim_source source;

    workload_draw(&w, table, seed, &source);
    int err = sim_write_trace(&source, path);
    workload_close(&w);
    return err;
}

static int run_sweep(const struct options *o, const struct sim_config *c, const struct sim_sweep *grid,
                     const struct job_table *table)
{
    struct sim_sweep_input input = {.trace = o->trace, .table = o->workload ? table : NULL, .seed = o->seed};
    struct sim_sweep_result r;
    char why[512] = "";

    if (o->trace && strcmp(o->trace, "-") == 0)
        return usage_error("sim: --sweep reads the trace once per run: a file, not standard input");
    if (strcmp(o->policy, OMNISCIENT) == 0)
        return usage_error("sim: --sweep needs a scheduler: omniscient is a bound");
    if (strcmp(o->output, "csv") == 0)
        return usage_error("sim: --sweep prints a table or json");
    fflush(stdout);
    int err = sim_sweep_run(c, grid, &input, cores_usable(), isatty(STDERR_FILENO) ? stderr : NULL, &r, why,
                            sizeof why);
    if (err)
        say_error("sim", "%s", why);
    else if (strcmp(o->output, "json") == 0)
        document_print(sim_sweep_json(&r));
    else {
        print_premises(o, c);
        sim_sweep_print(stdout, &r);
    }
    for (uint32_t i = 0; i < r.n && !err; i++)
        err = r.points[i].err;
    sim_sweep_free(&r);
    return err ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

static int run_workload(const struct options *o, const struct sim_config *c, const struct job_table *table)
{
    struct sim_result r = {0};
    struct sim_source source;
    struct sim_workload w;
    struct sim_others others = {0};
    char why[512] = "";
    int err = 0, exit_code = HAWK_EXIT_FAILED;

    if (o->against &&
        sim_others_read(&others, o->against, why, sizeof why)) { /* before the run, which may be long */
        say_error("sim", "--against: %s", why);
        sim_others_free(&others);
        return HAWK_EXIT_FAILED;
    }
    if (o->workload)
        workload_draw(&w, table, o->seed, &source);
    else
        err = workload_open(&w, o->trace, &source);
    if (!err)
        err = (strcmp(o->policy, OMNISCIENT) == 0 ? sim_bound : sim_run)(c, &source, &r, why, sizeof why);
    if (err)
        say_error("sim", "%s", *workload_error(&w) ? workload_error(&w) : why);
    else if (r.jobs_n == 0)
        say_error("sim", "%s: holds no job", o->trace);
    else
        exit_code = report_result(o, c, &r, &others);
    sim_others_free(&others);
    workload_close(&w);
    sim_result_free(&r);
    return exit_code;
}

int sim_main(int argc, char **argv)
{
    struct options o = defaults;
    struct sim_config c;
    struct sim_sweep grid;
    struct job_table table;
    char why[256];
    int err = 0;

    if (argc > 1 && strcmp(argv[1], "convert-google") == 0)
        return sim_convert_google(argc - 1, argv + 1);
    int at = flags_parse("sim", sim_flags, NULL, false, argc, argv, &o);
    if (at < 0)
        return -at;
    if (argc > at)
        return usage_error("sim: \"%s\": expected flags only, or convert-google and its files", argv[at]);
    err = check_rules(&o);
    if (err) {
        flag_list_free(&o.set);
        return err;
    }
    if (o.faults)
        return sim_faults(&o.f, o.seed, o.jobs, o.output);
    if (o.sweep && sim_sweep_parse(&grid, o.sweep, why, sizeof why) != 0)
        return usage_error("sim: --sweep: %s", why);
    if (o.sweep && grid.workers_n && !o.workers)
        o.workers = grid.workers[0];
    if (o.write_trace && o.load && !o.workers)
        return usage_error("sim: --write-trace needs --workers with --load");
    if (o.trace && o.workload)
        return usage_error("sim: --trace and --workload: one of them, not both");
    if ((!o.trace && !o.workload) || (!o.workers && !o.write_trace))
        return usage_error("sim: --workers, and either --trace or --workload, are needed");
    o.cutoff_from = o.cutoff_us ? "flag" : "default";
    if (o.workload)
        err = load_table(&o, &table);
    if (!err && o.write_trace)
        return write_trace(&table, o.seed, o.write_trace);
    if (!err)
        err = load_config(&o, &c);
    if (!err)
        err = o.sweep ? run_sweep(&o, &c, &grid, &table) : run_workload(&o, &c, &table);
    flag_list_free(&o.set);
    return err;
}
