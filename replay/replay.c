/* `hawk replay`: reads the command line, prepares the cluster, runs the plan and reports. */
#include "replay/replay.h"

#include "base/trace.h"
#include "base/units.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/wait.h"
#include "libhawk/client_impl.h"
#include "replay/plan.h"
#include "replay/report.h"
#include "replay/run.h"

#include <errno.h>
#include <string.h>

#define SHARE_UNSET UINT32_MAX
#define NUMBER_MAX 1e6 /* largest --time-scale and --load: more is a slip of the pen */
#define POLICY_WAIT_US                                                                                       \
    (1 * US_PER_S) /* time for a new policy and partition to reach every node, and for its answer */
#define SETTLE_WAIT_US (5 * US_PER_S) /* time for counters to reach central: heartbeats bring them */
#define POLL_US (100 * US_PER_MS)

struct replay_options {
    struct common_options common; /* first */
    const char *time_scale, *scale_tasks, *load, *tag, *policy, *write_trace;
    uint32_t jobs, max_tasks, slots, seed, short_share_ppm;
    int64_t cap_us, cutoff_us;
    bool timer, dry_run;
};

const struct flag replay_flags[] = {
    FLAG(TEXT, struct replay_options, time_scale, "time-scale", 0, "FACTOR",
         "multiply every time of the trace: 0.001 or 1/1000 makes seconds milliseconds; default: 1"),
    FLAG_NUMBER(struct replay_options, jobs, "jobs", 'n', "N", "only the trace's first N jobs", 1,
                UINT32_MAX),
    FLAG_NUMBER(struct replay_options, max_tasks, "max-tasks", 0, "M",
                "shrink all jobs alike until the largest has M tasks; the fewer tasks take longer, so that "
                "the total task time stays",
                1, LIMIT_TASKS_PER_JOB),
    FLAG(TEXT, struct replay_options, scale_tasks, "scale-tasks", 0, "FACTOR",
         "the same by a factor: 1/150 for a cluster with one slot for every 150 of the trace's"),
    FLAG_ABOVE_0(struct replay_options, cap_us, "duration-cap", 0, "TIME",
                 "longest task, after all scaling; the command says how much this cuts off"),
    FLAG(TEXT, struct replay_options, load, "load", 0, "LOAD",
         "arrivals are a Poisson process that offers this load (0.9, 90%); default: the trace's times"),
    FLAG_NUMBER(struct replay_options, slots, "slots", 0, "N",
                "number of slots for a load of 1; default: the cluster's", 1, UINT32_MAX),
    FLAG_NUMBER(struct replay_options, seed, "seed", 0, "N", "seed of the arrivals; default: 1", 0,
                UINT32_MAX),
    FLAG_ABOVE_0(
        struct replay_options, cutoff_us, "cutoff", 0, "TIME",
        "mean task time, in the trace's own time, from which a job counts as long; default: the cluster's "
        "cutoff"),
    FLAG(CHOICE, struct replay_options, tag, "tag", 0, "estimate|class|none",
         "what to tell the cluster of each job: its mean task time (default), its class as well, or "
         "nothing"),
    FLAG(BOOL, struct replay_options, timer, "timer", 0, NULL,
         "run timers inside the workers instead of `sleep` processes"),
    FLAG(TEXT, struct replay_options, policy, "policy", 0, "NAME",
         "switch the cluster to this policy first (and to --cutoff, if given), and leave it so"),
    FLAG(SHARE, struct replay_options, short_share_ppm, "short-partition", 0, "SHARE",
         "set the share of slots reserved for short tasks first, and leave it so"),
    FLAG(TEXT, struct replay_options, write_trace, "write-trace", 0, "FILE",
         "with --dry-run: the jobs as a trace, for `hawk sim`: cutoffs are scaled by --time-scale there"),
    FLAG(BOOL, struct replay_options, dry_run, "dry-run", 0, NULL,
         "only say what would run; with --slots this needs no cluster"),
    {0},
};

const char replay_details[] =
    "A trace has a line per job: " TRACE_LINE
    ": when it is submitted, its number of tasks, their mean duration, "
    "and the duration of each, in seconds. \"-\" reads standard input.\n"
    "\n"
    "The command submits jobs at their times, round robin over all dists, whether or not "
    "earlier jobs have ended.\n"
    "Each task sleeps for its duration. Figures are per true class: the trace's mean against "
    "--cutoff, whatever\n"
    "class the cluster gave the job. Jobs have no name, so that they do not count for the "
    "history of later jobs.\n"
    "Ctrl-C cancels the submitted jobs.\n"
    "\n"
    "Exit codes: 0 every task of every job was done once, 1 something was refused, failed or "
    "lost, 130\n"
    "Ctrl-C, 143 SIGTERM.\n"
    "\n"
    "examples:\n"
    "  hawk replay google.tr --time-scale 1/1000 --max-tasks 33 --cutoff 1129.5s --tag class --timer\n"
    "  hawk replay google.tr --time-scale 1/4000 --load 0.9 --policy sparrow --cutoff 1129.5s "
    "--output json\n"
    "  hawk replay google.tr --time-scale 1/1000 --load 0.9 --slots 100 --dry-run\n";

struct replay {
    struct replay_options o;
    struct replay_scale scale;
    struct session s;
    struct replay_plan plan;
    struct replay_result result;
    struct replay_report report;
    struct api_policy policy;
    struct api_get_stats_reply before;
    double load;         /* 0: the trace's times */
    uint32_t slots;      /* of the cluster; 0: none was asked */
    uint32_t load_slots; /* for a load of 1: those given, else the cluster's */
};

static const char command_name[] = "replay";

/* --- the command line ------------------------------------------------------------------------------ */

static int read_number(const char *flag, const char *text, double max, double *value)
{
    if (!text || !replay_number_parse(text, max, value))
        return HAWK_EXIT_OK;
    return usage_error("replay: --%s takes a number above 0 and up to %g, like 0.25, 1/4 or 25%%, not '%s'",
                       flag, max, text);
}

static int unknown_policy(const char *name)
{
    char list[256] = "";
    for (int i = 0; policy_names[i]; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", policy_names[i]);
    return usage_error("replay: no policy '%s': there are %s", name, list);
}

static int read_flags(struct replay *r, int argc, char **argv, const char **path)
{
    struct replay_options *o = &r->o;
    struct policy ignored;
    int first, exit_code;

    o->seed = 1;
    o->short_share_ppm = SHARE_UNSET;
    first = flags_parse(command_name, replay_flags, common_flags, false, argc, argv, o);
    if (first < 0)
        return -first;
    if (argc - first != 1)
        return usage_error(argc == first ? "replay: which trace? `hawk help replay` tells what one looks like"
                                         : "replay: one trace at a time");
    if (o->max_tasks && o->scale_tasks)
        return usage_error("replay: --max-tasks and --scale-tasks are two ways to say the same: give one");
    if (o->write_trace && !o->dry_run)
        return usage_error("replay: --write-trace goes with --dry-run");
    if (o->policy && policy_preset(o->policy, &ignored))
        return unknown_policy(o->policy);
    *path = argv[first];
    r->scale =
        (struct replay_scale){.jobs = o->jobs, .time = 1, .max_tasks = o->max_tasks, .cap_us = o->cap_us};
    exit_code = read_number("time-scale", o->time_scale, NUMBER_MAX, &r->scale.time);
    if (!exit_code)
        exit_code = read_number("scale-tasks", o->scale_tasks, 1, &r->scale.tasks);
    if (!exit_code)
        exit_code = read_number("load", o->load, NUMBER_MAX, &r->load);
    return exit_code;
}

static int read_plan(struct replay *r, const char *path)
{
    char why[600];
    int err = replay_plan_read(&r->plan, path, &r->scale, why, sizeof why);

    if (err)
        return usage_error("replay: %s", why);
    return HAWK_EXIT_OK;
}

/* --- the cluster ----------------------------------------------------------------------------------- */

static void pause_us(struct client *client, int64_t us)
{
    int64_t until = loop_now(client->loop) + us;

    while (loop_now(client->loop) < until)
        loop_once(client->loop, until);
}

static int find_slots(struct replay *r)
{
    struct api_list_nodes_reply nodes;
    uint64_t slots = 0;

    if (client_list_nodes(r->s.client, &nodes))
        return session_failed(&r->s);
    for (uint32_t i = 0; i < nodes.nodes_n; i++)
        if (strcmp(nodes.nodes[i].role, role_text(ROLE_WORKER)) == 0 &&
            strcmp(nodes.nodes[i].state, member_state_text(MEMBER_UP)) == 0)
            slots += nodes.nodes[i].slots;
    api_free(&api_list_nodes_reply_type, &nodes);
    r->slots = slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
    r->load_slots = r->o.slots ? r->o.slots : r->slots;
    if (slots == 0) {
        say_error(command_name, "the cluster has no worker that is up (`hawk nodes` lists its nodes)");
        return HAWK_EXIT_UNREACHABLE;
    }
    return HAWK_EXIT_OK;
}

static enum replay_tag tag_of(const char *text)
{
    if (text && strcmp(text, "class") == 0)
        return REPLAY_TAG_CLASS;
    return text && strcmp(text, "none") == 0 ? REPLAY_TAG_NONE : REPLAY_TAG_ESTIMATE;
}

/* Turns a cutoff in the trace's time into one of the cluster's, within the policy's range. */
static int64_t cluster_cutoff(const struct replay *r)
{
    double v = (double)r->o.cutoff_us * r->scale.time;

    return v < 1 ? 1 : v > (double)LIMIT_TIME_US ? LIMIT_TIME_US : (int64_t)(v + 0.5);
}

static int switch_policy(struct replay *r)
{
    struct api_set_policy_request request = {
        .preset = r->o.policy ? r->o.policy : "",
        .has_cutoff_us = r->o.cutoff_us > 0,
        .has_short_share_ppm = r->o.short_share_ppm != SHARE_UNSET,
    };

    if (request.has_cutoff_us)
        request.cutoff_us = cluster_cutoff(r);
    if (request.has_short_share_ppm)
        request.short_share_ppm = r->o.short_share_ppm;
    if (client_set_policy(r->s.client, &request, &r->policy))
        return session_failed(&r->s);
    pause_us(r->s.client, POLICY_WAIT_US);
    return HAWK_EXIT_OK;
}

static int find_policy(struct replay *r)
{
    if (r->o.policy || r->o.short_share_ppm != SHARE_UNSET)
        return switch_policy(r);
    return client_policy(r->s.client, &r->policy) ? session_failed(&r->s) : HAWK_EXIT_OK;
}

/* Sets classes and arrivals, once the cluster's slots and cutoff are known. */
static void finish_plan(struct replay *r)
{
    double cutoff_us =
        r->o.cutoff_us > 0 ? (double)r->o.cutoff_us : (double)r->policy.cutoff_us / r->scale.time;

    if (cutoff_us > 0)
        replay_plan_classify(&r->plan, cutoff_us < (double)INT64_MAX ? (int64_t)cutoff_us : INT64_MAX);
    if (cutoff_us > 0 && tag_of(r->o.tag) == REPLAY_TAG_ESTIMATE)
        replay_plan_judge_estimates(&r->plan, r->o.cutoff_us > 0 ? cluster_cutoff(r) : r->policy.cutoff_us);
    if (r->load > 0)
        replay_plan_poisson(&r->plan, r->load, r->load_slots, r->o.seed);
}

static int open_cluster(struct replay *r)
{
    int exit_code = session_open(&r->s, command_name, &r->o.common);

    if (!exit_code)
        exit_code = find_slots(r);
    return exit_code;
}

/* --- counters -------------------------------------------------------------------------------------- */

static uint64_t counter_of(const struct api_get_stats_reply *stats, const char *name)
{
    for (uint32_t i = 0; i < stats->total_n; i++)
        if (strcmp(stats->total[i].name, name) == 0)
            return stats->total[i].value;
    return 0;
}

/* A node's counters start from 0 when it restarts, so a total may fall. */
static uint64_t counted_since(uint64_t before, uint64_t after)
{
    return after >= before ? after - before : after;
}

static int take_counters(struct replay *r)
{
    struct replay_report *report = &r->report;
    uint64_t ours = report->tasks_done + report->tasks_failed;
    int64_t deadline_us = loop_now(r->s.client->loop) + SETTLE_WAIT_US;

    for (;;) {
        struct api_get_stats_reply after;

        if (client_stats(r->s.client, &after))
            return session_failed(&r->s);
        for (int i = 0; i < COUNTER_COUNT; i++)
            report->counters[i] =
                counted_since(counter_of(&r->before, counter_names[i]), counter_of(&after, counter_names[i]));
        api_free(&api_get_stats_reply_type, &after);
        report->settled = report->counters[COUNTER_tasks_finished] >= ours;
        if (report->settled || loop_now(r->s.client->loop) >= deadline_us)
            return HAWK_EXIT_OK;
        pause_us(r->s.client, POLL_US);
    }
}

/* --- all of it ------------------------------------------------------------------------------------- */

static int run_plan(struct replay *r)
{
    const struct replay_run_options options = {
        .tag = tag_of(r->o.tag),
        .timer = r->o.timer,
        .quiet = r->s.mode == OUTPUT_QUIET,
        .timeout_us = r->s.client->timeout_us,
    };

    if (client_stats(r->s.client, &r->before))
        return session_failed(&r->s);
    if (r->s.mode == OUTPUT_TABLE)
        replay_plan_print(stderr, &r->plan, r->load_slots);
    if (replay_run(r->s.client, &r->plan, &options, &r->result))
        return session_failed(&r->s);
    replay_report_fill(&r->report, &r->plan, &r->result, r->load_slots, r->slots);
    r->report.policy = r->policy;
    return take_counters(r);
}

static int report_result(struct replay *r)
{
    int exit_code = r->result.interrupted ? exit_code_of_signal(r->result.interrupted)
                    : replay_report_complete(&r->report, &r->plan, &r->result) ? HAWK_EXIT_OK
                                                                               : HAWK_EXIT_FAILED;

    if (r->s.mode == OUTPUT_TABLE)
        replay_report_print(&r->report, &r->plan, &r->result);
    if (exit_code == HAWK_EXIT_FAILED)
        say_error(command_name, "not everything was done: %s",
                  r->result.error[0] ? r->result.error : "tasks failed, were cancelled or lost");
    if (r->s.mode == OUTPUT_JSON)
        document_print(replay_report_json(&r->report, &r->plan, &r->result));
    return exit_code;
}

static int dry_run(struct replay *r)
{
    int exit_code = HAWK_EXIT_OK;

    r->load_slots = r->o.slots;
    if (!r->o.slots)
        exit_code = open_cluster(r);
    if (!exit_code && !r->o.slots && client_policy(r->s.client, &r->policy))
        exit_code = session_failed(&r->s);
    if (exit_code)
        return exit_code;
    finish_plan(r);
    if (r->o.write_trace && replay_plan_write(&r->plan, r->scale.time, r->o.write_trace)) {
        fprintf(stderr, "hawk: replay: %s cannot be written: %s\n", r->o.write_trace, strerror(errno));
        return HAWK_EXIT_FAILED;
    }
    if (r->o.common.output && strcmp(r->o.common.output, "json") == 0)
        document_print(replay_plan_json(&r->plan, r->load_slots));
    else
        replay_plan_print(stdout, &r->plan, r->load_slots);
    return HAWK_EXIT_OK;
}

int replay_main(int argc, char **argv)
{
    struct replay r = {.load = 0};
    const char *path = NULL;
    int exit_code = read_flags(&r, argc, argv, &path);

    if (!exit_code)
        exit_code = read_plan(&r, path);
    if (exit_code)
        return exit_code;
    if (r.o.dry_run) {
        exit_code = dry_run(&r);
        goto out;
    }
    exit_code = open_cluster(&r);
    if (!exit_code)
        exit_code = find_policy(&r);
    if (exit_code)
        goto out;
    finish_plan(&r);
    exit_code = run_plan(&r);
    if (!exit_code)
        exit_code = report_result(&r);
out:
    session_close(&r.s); /* before freeing the result: signals still point to it */
    api_free(&api_policy_type, &r.policy);
    api_free(&api_get_stats_reply_type, &r.before);
    replay_result_free(&r.result);
    replay_plan_free(&r.plan);
    return exit_code;
}
