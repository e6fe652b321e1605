/* `hawk sim`: flags to a simulation's settings, and its report to the terminal, to scripts, to files. */
#include "base/units.h"
#include "client/print.h"
#include "daemon/commands.h"
#include "sim/report.h"
#include "sim/workload.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *trace, *policy, *estimates, *noise, *deal, *queues, *delay, *output;
    uint32_t workers, slots, dists, share_ppm, seed, ratio_milli, steal_cap, steal_max;
    int64_t cutoff_us, scheduler_cost_us, worker_cost_us, sample_us;
    struct flag_list set;
    bool compat, check;
};

const struct flag sim_flags[] = {
    FLAG(TEXT, struct options, trace, "trace", 0, "FILE", "workload, one job per line; - is standard input"),
    FLAG_NUMBER(struct options, workers, "workers", 'n', "N", "workers of the simulated cluster", 1,
                SIM_WORKERS_MAX),
    FLAG_NUMBER(struct options, slots, "slots", 's', "N", "slots of each worker (1)", 1, LIMIT_SLOTS),
    FLAG_NUMBER(struct options, dists, "dists", 0, "N", "distributed schedulers (10)", 1, SIM_DISTS_MAX),
    FLAG(CHOICE, struct options, policy, "policy", 'p',
         "hawk|sparrow|hawk-no-steal|hawk-no-partition|hawk-no-central|split|central",
         "how jobs are scheduled (hawk)"),
    FLAG(DURATION, struct options, cutoff_us, "cutoff", 0, "TIME",
         "jobs of this mean task duration and up are long"),
    FLAG(SHARE, struct options, share_ppm, "short-partition", 0, "SHARE",
         "of the slots, for short tasks only"),
    FLAG_NUMBER(struct options, seed, "seed", 0, "K", "of every random draw (1)", 0, UINT32_MAX),
    FLAG(BOOL, struct options, compat, "compat", 0, NULL, "the published simulator's assumptions"),
    FLAG(BOOL, struct options, check, "check", 0, NULL, "look at every invariant after every step (slow)"),
    FLAG(CHOICE, struct options, output, "output", 'o', "table|json", "table for people, json for scripts"),
    {0},
};

const char sim_details[] = "";

static int load(const struct options *o, struct sim_config *c)
{
    sim_config_init(c);
    c->workers = o->workers;
    c->slots = o->slots;
    c->dists = o->dists;
    c->seed = o->seed;
    c->compat = o->compat;
    c->check = o->check;
    if (policy_preset(o->policy, &c->policy) != 0)
        return usage_error("sim: no policy \"%s\"", o->policy);
    c->policy.cutoff_us = o->cutoff_us;
    c->policy.short_share_ppm = o->share_ppm;
    if (o->compat)
        sim_compat_policy(&c->policy);
    return 0;
}

int sim_main(int argc, char **argv)
{
    struct options o = {.policy = "hawk",
                        .slots = 1,
                        .dists = 10,
                        .seed = 1,
                        .output = "table",
                        .cutoff_us = 90 * US_PER_S,
                        .share_ppm = 0};
    int at = flags_parse("sim", sim_flags, NULL, false, argc, argv, &o);
    struct sim_config c;
    struct sim_result r;
    struct sim_source source;
    struct trace *t;
    char why[256] = "";
    int err;

    if (at < 0)
        return -at;
    if (!o.trace || !o.workers)
        return usage_error("sim: --trace and --workers are needed");
    err = load(&o, &c);
    if (err)
        return err;
    err = sim_workload_open(&t, o.trace, &source);
    if (!err)
        err = sim_run(&c, &source, &r, why, sizeof why);
    if (err)
        fprintf(stderr, "hawk: %s %s\n", trace_error(t), why);
    else
        json_print(sim_report_json(&c, &r));
    trace_close(t);
    sim_result_free(&r);
    return err ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}
