/* hawk nodes, stats, policy */
#include "base/units.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

static void add_apps(struct text_table *t, const struct api_node *n)
{
    char *all = NULL;
    size_t len;
    FILE *f = open_memstream(&all, &len);
    for (uint32_t i = 0; f && i < n->apps_n; i++)
        fprintf(f, "%s%s%s%s", i ? "," : "", CLEAN(n->apps[i]), *show_app_user(n, i) ? "@" : "",
                CLEAN(show_app_user(n, i)));
    if (f)
        fclose(f);
    table_cell(t, "%s", all && n->apps_n ? all : "-");
    free(all);
}

static void add_end(struct text_table *t, const struct api_node *n)
{
    char at[CLOCK_TEXT];
    table_cell(t, "%s", n->ends_in_us > 0 ? clock_text(at, n->ends_in_us, false) : "-");
}

/* Columns that stand in the table only where some node has something for them. */
struct rare_columns {
    bool apps, ends;
};

static struct rare_columns rare_columns_of(const struct api_list_nodes_reply *r)
{
    struct rare_columns any = {0};
    for (uint32_t i = 0; i < r->nodes_n; i++) {
        any.apps |= r->nodes[i].apps_n > 0;
        any.ends |= r->nodes[i].ends_in_us > 0;
    }
    return any;
}

static void add_load(struct text_table *t, const struct api_node *n, uint32_t number)
{
    if (show_has_load(n))
        table_cell(t, "%u", number);
    else
        table_cell(t, "-");
}

static void add_node(struct text_table *t, const struct api_node *n, struct rare_columns any)
{
    bool worker = strcmp(n->role, role_text(ROLE_WORKER)) == 0,
         dist = strcmp(n->role, role_text(ROLE_DIST)) == 0;
    if (show_has_id(n))
        table_cell(t, "%u", n->node);
    else
        table_cell(t, "-");
    table_cell(t, "%s", CLEAN(n->name));
    table_cell(t, "%s", CLEAN(n->role));
    table_cell(t, "%s", CLEAN(show_node_state(n)));
    if (worker) {
        table_cell(t, "%s", n->unsettled ? "-" : n->general ? "general" : "short");
        table_cell(t, "%u", n->slots);
        add_load(t, n, n->running_short);
        add_load(t, n, n->running_long);
        add_load(t, n, n->paused);
        add_load(t, n, n->queued);
        table_cell(t, "%s", n->general ? DURATION(n->long_wait_us) : "-");
    } else
        for (int i = 0; i < 7; i++)
            table_cell(t, "-");
    if (dist)
        add_load(t, n, n->jobs_unfinished);
    else
        table_cell(t, "-");
    table_cell(t, "%s", DURATION(n->heartbeat_age_us));
    table_cell(t, "%s", n->freezer && *n->freezer ? CLEAN(n->freezer) : "-");
    table_cell(t, "%s", CLEAN(n->address));
    if (any.ends)
        add_end(t, n);
    if (any.apps)
        add_apps(t, n);
}

/* Prints the nodes that have taken themselves out of service, and why. */
static void print_out_of_service(const struct api_list_nodes_reply *r)
{
    for (uint32_t i = 0; i < r->nodes_n; i++)
        if (r->nodes[i].out_why && *r->nodes[i].out_why)
            printf("%s is out of service: %s\n", CLEAN(r->nodes[i].name), CLEAN(r->nodes[i].out_why));
}

/* Names the workers that run one user's commands alone. */
static void print_served(const struct api_list_nodes_reply *r)
{
    for (uint32_t i = 0; i < r->nodes_n; i++)
        if (r->nodes[i].serves && *r->nodes[i].serves)
            printf("%s runs commands of %s alone\n", CLEAN(r->nodes[i].name), CLEAN(r->nodes[i].serves));
}

/* Says what freezers mean that miss something: one line for each, however many workers have it. */
static void print_freezers(const struct api_list_nodes_reply *r)
{
    for (uint32_t i = 0; i < r->nodes_n; i++) {
        const char *name = r->nodes[i].freezer;
        bool first = name && (strcmp(name, "signal") == 0 || strcmp(name, "off") == 0);
        for (uint32_t j = 0; first && j < i; j++)
            first = !r->nodes[j].freezer || strcmp(r->nodes[j].freezer, name) != 0;
        if (first)
            printf("freezer %s: %s\n", name, CLEAN(r->nodes[i].freezer_text));
    }
}

/* A dist that cannot ask central lists what central told it last. */
static void print_central_away(const struct api_list_nodes_reply *r)
{
    for (uint32_t i = 0; i < r->nodes_n; i++)
        if (strcmp(r->nodes[i].role, role_text(ROLE_CENTRAL)) == 0 &&
            strcmp(r->nodes[i].state, member_state_text(MEMBER_SUSPECT)) == 0) {
            table_note("central does not answer: these are the nodes that it listed last, and their states "
                       "then; what they do is not known");
            return;
        }
}

static void print_nodes(struct session *s, const struct api_list_nodes_reply *reply)
{
    struct text_table t = {0};
    json_t *list = json_array();
    struct rare_columns any = rare_columns_of(reply);
    table_columns(&t, ">NODE", "NAME", "ROLE", "STATE", "?PARTITION", ">SLOTS", ">SHORT", ">LONG", "?>PAUSED",
                  "?>QUEUED", "?>LONG-WAIT", "?>JOBS", "?>SEEN", "?FREEZER", "?ADDRESS",
                  any.ends   ? "?ENDS"
                  : any.apps ? "?APPLICATIONS"
                             : NULL,
                  any.ends && any.apps ? "?APPLICATIONS" : NULL, NULL);
    for (uint32_t i = 0; i < reply->nodes_n; i++) {
        if (s->mode == OUTPUT_TABLE)
            add_node(&t, &reply->nodes[i], any);
        else if (s->mode == OUTPUT_JSON)
            json_array_append_new(list, node_json(&reply->nodes[i]));
        else
            printf("%s\n", CLEAN(reply->nodes[i].name));
    }
    if (s->mode == OUTPUT_JSON)
        document_print(json_pack("{s:O}", "nodes", list));
    json_decref(list);
    if (s->mode == OUTPUT_TABLE) {
        table_print(&t, "no nodes have joined");
        print_out_of_service(reply);
        print_served(reply);
        print_freezers(reply);
        print_central_away(reply);
    } else {
        table_free(&t);
    }
}

int nodes_main(int argc, char **argv)
{
    struct common_options o = {0};
    struct session s;
    struct api_list_nodes_reply reply;
    int first = flags_parse(argv[0], NULL, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("nodes takes no argument '%s'", argv[first]);
    int exit_code = session_open(&s, argv[0], &o);
    if (!exit_code && client_list_nodes(s.client, &reply))
        exit_code = session_failed(&s);
    else if (!exit_code) {
        print_nodes(&s, &reply);
        api_free(&api_list_nodes_reply_type, &reply);
    }
    session_close(&s);
    return exit_code;
}

/* ---- stats ---- */

struct stats_options {
    struct common_options common;
    bool nodes;
};

const struct flag stats_flags[] = {
    FLAG(BOOL, struct stats_options, nodes, "nodes", 0, NULL,
         "show the counters of every node; JSON always has them"),
    {0},
};

static json_t *counters_json(const struct api_counter *c, uint32_t n)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < n; i++)
        json_object_set_new(o, CLEAN(c[i].name), json_integer((json_int_t)c[i].value));
    return o;
}

/* A central of an older version only says whether it computed the number. */
static const char *stats_from(const char *from, bool computed)
{
    return *from ? from : computed ? "computed" : "as configured";
}

static const char *counter_help(const char *name)
{
    static const char *const help[COUNTER_COUNT] = {
#define X(counter, text) [COUNTER_##counter] = (text),
        COUNTERS(X)
#undef X
    };
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (strcmp(counter_names[i], name) == 0)
            return help[i];
    return "";
}

static json_t *meanings_json(const struct api_get_stats_reply *r)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < r->total_n; i++)
        json_object_set_new(o, CLEAN(r->total[i].name), json_text(counter_help(r->total[i].name)));
    return o;
}

static void print_stats_json(const struct api_get_stats_reply *r)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < r->nodes_n; i++) {
        const struct api_node_stats *n = &r->nodes[i];
        json_array_append_new(nodes, json_pack("{s:I, s:o, s:o, s:o}", "node", (json_int_t)n->node, "name",
                                               json_text(n->name), "role", json_text(n->role), "counters",
                                               counters_json(n->counters, n->counters_n)));
    }
    document_print(json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:b, s:I, s:b, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "cutoff_note",
        json_text(r->cutoff_note), "share_note", json_text(r->share_note), "cutoff_from",
        json_text(stats_from(r->cutoff_from, r->cutoff_computed)), "share_from",
        json_text(stats_from(r->share_from, r->share_computed)), "cutoff_us", (json_int_t)r->cutoff_us,
        "cutoff_computed", (int)r->cutoff_computed, "short_share_ppm", (json_int_t)r->short_share_ppm,
        "share_computed", (int)r->share_computed, "short_partition_note", json_text(r->short_partition_note),
        "history_jobs", (json_int_t)r->history_jobs, "long_jobs_unfinished",
        (json_int_t)r->long_jobs_unfinished, "long_tasks_unfinished", (json_int_t)r->long_tasks_unfinished,
        "total", counters_json(r->total, r->total_n), "meanings", meanings_json(r), "nodes", nodes));
}

static void print_stats(const struct api_get_stats_reply *r, bool nodes)
{
    struct text_table t = {0};
    char share[16];

    printf("cutoff           %s (%s; the history has %u job%s)\n", DURATION(r->cutoff_us),
           CLEAN(stats_from(r->cutoff_from, r->cutoff_computed)), r->history_jobs, PLURAL(r->history_jobs));
    if (*r->cutoff_note)
        printf("                 %s\n", CLEAN(r->cutoff_note));
    printf("short partition  %s of the slots (%s)\n", share_format(share, sizeof share, r->short_share_ppm),
           CLEAN(stats_from(r->share_from, r->share_computed)));
    if (*r->share_note)
        printf("                 %s\n", CLEAN(r->share_note));
    if (*r->short_partition_note)
        printf("                 %s\n", CLEAN(r->short_partition_note));
    printf("long work        %u job%s, %u task%s not ended\n\n", r->long_jobs_unfinished,
           PLURAL(r->long_jobs_unfinished), r->long_tasks_unfinished, PLURAL(r->long_tasks_unfinished));
    if (!nodes) {
        table_columns(&t, "!COUNTER", ">VALUE", ".MEANING", NULL);
        for (uint32_t i = 0; i < r->total_n; i++) {
            table_cell(&t, "%s", CLEAN(r->total[i].name));
            table_cell(&t, "%llu", (unsigned long long)r->total[i].value);
            table_cell(&t, "%s", counter_help(r->total[i].name));
        }
        table_print(&t, "no counters");
        return;
    }
    table_columns(&t, "NODE", "ROLE", "COUNTER", ">VALUE", NULL);
    for (uint32_t i = 0; i < r->nodes_n; i++)
        for (uint32_t k = 0; k < r->nodes[i].counters_n; k++) {
            const struct api_node_stats *n = &r->nodes[i];
            if (!n->counters[k].value)
                continue;
            table_cell(&t, "%s", CLEAN(n->name));
            table_cell(&t, "%s", CLEAN(n->role));
            table_cell(&t, "%s", CLEAN(n->counters[k].name));
            table_cell(&t, "%llu", (unsigned long long)n->counters[k].value);
        }
    table_print(&t, "no counters");
}

int stats_main(int argc, char **argv)
{
    struct stats_options o = {0};
    struct session s;
    struct api_get_stats_reply reply;
    int first = flags_parse(argv[0], stats_flags, common_flags, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("stats takes no argument '%s'", argv[first]);
    int exit_code = session_open(&s, argv[0], &o.common);
    if (!exit_code && client_stats(s.client, &reply))
        exit_code = session_failed(&s);
    else if (!exit_code) {
        if (s.mode == OUTPUT_JSON)
            print_stats_json(&reply);
        else if (s.mode == OUTPUT_TABLE)
            print_stats(&reply, o.nodes);
        api_free(&api_get_stats_reply_type, &reply);
    }
    session_close(&s);
    return exit_code;
}

/* ---- policy ---- */

#define UNSET_US INT64_C(-1)

struct policy_options {
    struct common_options common;
    int64_t cutoff_us;
    uint32_t share_ppm, min_probes, steal_cap, steal_max, short_first; /* UINT32_MAX: not given */
    const char *probe_ratio;
    struct flag_list on, off;
};

const struct flag policy_flags[] = {
    FLAG_ABOVE_0(struct policy_options, cutoff_us, "cutoff", 0, "TIME",
                 "a job whose tasks take less on average is short"),
    FLAG(SHARE, struct policy_options, share_ppm, "short-partition", 0, "SHARE",
         "share of the slots reserved for short tasks, like 17%"),
    FLAG(TEXT, struct policy_options, probe_ratio, "probe-ratio", 0, "RATIO",
         "probes per task, 1 to 1000, like 2"),
    FLAG_NUMBER(struct policy_options, min_probes, "min-probes", 0, "N", "least number of probes of a job", 0,
                LIMIT_TASKS_PER_JOB),
    FLAG_NUMBER(struct policy_options, steal_cap, "steal-cap", 0, "N",
                "workers that an idle worker asks in one round", 1, UINT16_MAX),
    FLAG_NUMBER(struct policy_options, steal_max, "steal-max", 0, "N", "most reservations of one steal", 1,
                UINT16_MAX),
    FLAG_NUMBER(struct policy_options, short_first, "short-first", 0, "N",
                "short tasks that may overtake the long one at the head of a worker's queue; 0: none", 0,
                LIMIT_SHORT_FIRST),
    FLAG(LIST, struct policy_options, on, "on", 0, "FLAG", "switch a flag on; may be repeated"),
    FLAG(LIST, struct policy_options, off, "off", 0, "FLAG", "switch a flag off; may be repeated"),
    {0},
};

static const struct {
    const char *name, *help;
    enum policy_scope scope;
} flag_rows[] = {
#define X(constant, bit, scope, key, text) {key, text, POLICY_SCOPE_##scope},
    POLICY_FLAGS(X)
#undef X
};

/* The table's rows. */
static json_t *flag_table_json(const struct api_policy *p)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sizeof flag_rows / sizeof flag_rows[0]; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:b, s:o, s:s, s:s}", "flag", flag_rows[i].name, "on",
                                        (int)api_policy_is_on(p, flag_rows[i].name), "from",
                                        json_text(api_policy_origin(p, flag_rows[i].name)), "applies_to",
                                        policy_scope_text(flag_rows[i].scope), "meaning", flag_rows[i].help));
    return rows;
}

static void print_policy_json(const struct api_policy *p)
{
    json_t *flags = json_array(), *origins = json_object();
    for (uint32_t i = 0; i < p->flags_n; i++)
        json_array_append_new(flags, json_text(p->flags[i]));
    for (uint32_t i = 0; i < p->origins_n; i++)
        json_object_set_new(origins, p->origins[i].key, json_text(p->origins[i].from));
    document_print(json_pack(
        "{s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "version",
        (json_int_t)p->version, "name", json_text(p->name), "base", json_text(p->base), "cutoff_us",
        (json_int_t)p->cutoff_us, "short_share_ppm", (json_int_t)p->short_share_ppm, "probe_ratio_milli",
        (json_int_t)p->probe_ratio_milli, "min_probes", (json_int_t)p->min_probes, "steal_cap",
        (json_int_t)p->steal_cap, "steal_max", (json_int_t)p->steal_max, "short_first",
        (json_int_t)p->short_first, "flags", flags, "flag_table", flag_table_json(p), "origins", origins,
        "set_ago_us", p->has_set_ago_us ? json_integer(p->set_ago_us) : json_null(), "configured_anew",
        p->configured_anew));
}

/* A central of an older version does not say where values come from. */
static void print_number(const struct api_policy *p, const char *label, const char *key, const char *value)
{
    const char *from = api_policy_origin(p, key);
    printf("%-18s %s%s%s%s\n", label, value, *from ? " (" : "", CLEAN(from), *from ? ")" : "");
}

static void print_numbers(const struct api_policy *p)
{
    char text[64], share[16];

    print_number(p, "cutoff", "cutoff_us", DURATION(p->cutoff_us));
    snprintf(text, sizeof text, "%s of the slots", share_format(share, sizeof share, p->short_share_ppm));
    print_number(p, "short partition", "short_share_ppm", text);
    print_number(p, "probe ratio", "probe_ratio_milli",
                 milli_format(text, sizeof text, p->probe_ratio_milli));
    snprintf(text, sizeof text, "at least %u for a job", p->min_probes);
    print_number(p, "probes", "min_probes", text);
    snprintf(text, sizeof text, "asks %u workers", p->steal_cap);
    print_number(p, "a thief", "steal_cap", text);
    snprintf(text, sizeof text, "takes at most %u", p->steal_max);
    print_number(p, "a steal", "steal_max", text);
    if (p->short_first)
        snprintf(text, sizeof text, "up to %u short tasks overtake the long one at the head", p->short_first);
    else
        snprintf(text, sizeof text, "first come, first served");
    print_number(p, "queues", "short_first", text);
}

static void print_set(const struct api_policy *p)
{
    if (!p->has_set_ago_us) {
        printf("set                nothing: all is as configured\n");
        return;
    }
    printf("set                %s ago (`hawk policy reset` puts the configuration in force)\n",
           DURATION(p->set_ago_us));
    if (p->configured_anew)
        printf("configuration      has changed since: what was set stays in force\n");
}

/* Prints the whole policy in force. */
static void print_policy(const struct api_policy *p)
{
    struct text_table t = {0};
    printf("policy             %s (version %u)%s%s\n", CLEAN(p->name), p->version,
           strcmp(p->name, p->base) != 0 && *p->base ? ", changed from " : "",
           strcmp(p->name, p->base) != 0 ? CLEAN(p->base) : "");
    print_set(p);
    print_numbers(p);
    printf("\n");
    table_columns(&t, "!FLAG", "IS", "?FROM", "?APPLIES TO", ".MEANING", NULL);
    for (size_t i = 0; i < sizeof flag_rows / sizeof flag_rows[0]; i++) {
        table_cell(&t, "%s", flag_rows[i].name);
        table_cell(&t, "%s", api_policy_is_on(p, flag_rows[i].name) ? "on" : "off");
        table_cell(&t, "%s", CLEAN(api_policy_origin(p, flag_rows[i].name)));
        table_cell(&t, "%s", policy_scope_text(flag_rows[i].scope));
        table_cell(&t, "%s", flag_rows[i].help);
    }
    table_print(&t, NULL);
}

static void show_policy(const struct session *s, const struct api_policy *p, bool changed)
{
    char line[1024];
    if (s->mode == OUTPUT_JSON) {
        print_policy_json(p);
    } else if (s->mode == OUTPUT_QUIET) {
        printf("%s\n", CLEAN(p->name));
    } else if (changed) {
        api_policy_line(p, line, sizeof line);
        printf("%s\n", CLEAN(line));
    } else {
        print_policy(p);
    }
}

/* Fills r from flags; its lists are borrowed. *any says whether a flag sets something. 0, or
 * HAWK_EXIT_USAGE. */
static int policy_request(const struct policy_options *o, const char *preset,
                          struct api_set_policy_request *r, bool *any)
{
    *r = (struct api_set_policy_request){
        .preset = preset,
        .has_cutoff_us = o->cutoff_us != UNSET_US,
        .cutoff_us = o->cutoff_us,
        .has_short_share_ppm = o->share_ppm != UINT32_MAX,
        .short_share_ppm = o->share_ppm,
        .has_min_probes = o->min_probes != UINT32_MAX,
        .min_probes = o->min_probes,
        .has_steal_cap = o->steal_cap != UINT32_MAX,
        .steal_cap = o->steal_cap,
        .has_steal_max = o->steal_max != UINT32_MAX,
        .steal_max = o->steal_max,
        .has_short_first = o->short_first != UINT32_MAX,
        .short_first = o->short_first,
        .has_probe_ratio_milli = o->probe_ratio != NULL,
        .on = o->on.v,
        .on_n = o->on.n,
        .off = o->off.v,
        .off_n = o->off.n,
    };
    if (o->probe_ratio && milli_parse(o->probe_ratio, 1000, &r->probe_ratio_milli))
        return usage_error("policy: --probe-ratio takes a number within 1 and 1000, not '%s'",
                           o->probe_ratio);
    *any = preset || r->has_cutoff_us || r->has_short_share_ppm || r->has_min_probes || r->has_steal_cap ||
           r->has_steal_max || r->has_short_first || r->has_probe_ratio_milli || r->on_n || r->off_n;
    return HAWK_EXIT_OK;
}

/* What the words after `hawk policy` ask for. */
enum policy_verb { POLICY_SHOW, POLICY_CHANGE, POLICY_RESET };

/* 0, or HAWK_EXIT_USAGE. */
static int policy_verb(int argc, char **argv, bool any, enum policy_verb *verb)
{
    int words = 1;
    *verb = argc == 0                       ? POLICY_SHOW
            : strcmp(argv[0], "reset") == 0 ? POLICY_RESET
            : strcmp(argv[0], "set") == 0   ? POLICY_CHANGE
                                            : POLICY_SHOW;
    if (*verb == POLICY_CHANGE)
        words = 2;
    else if (*verb == POLICY_SHOW)
        words = 0;
    if (argc > words)
        return usage_error(
            "policy: '%s' is not understood: write `hawk policy`, `hawk policy set [NAME]`, or "
            "`hawk policy reset`",
            argv[words]);
    if (*verb == POLICY_CHANGE && !any)
        return usage_error("policy: set what? name a policy, or give --cutoff, --on ...");
    if (*verb == POLICY_RESET && any)
        return usage_error("policy: reset puts all of the configuration in force: set the rest afterwards");
    if (*verb == POLICY_SHOW && any)
        return usage_error("policy: to change something write `hawk policy set` and the flags");
    return HAWK_EXIT_OK;
}

static int policy_run(const struct policy_options *o, int argc, char **argv)
{
    const char *preset = argc == 2 && strcmp(argv[0], "set") == 0 ? argv[1] : NULL;
    struct api_set_policy_request r;
    enum policy_verb verb;
    struct api_policy reply;
    struct session s;
    bool any = false;
    int exit_code = policy_request(o, preset, &r, &any);
    if (!exit_code)
        exit_code = policy_verb(argc, argv, any, &verb);
    if (exit_code)
        return exit_code;
    r.reset = verb == POLICY_RESET;
    exit_code = session_open(&s, "policy", &o->common);
    int err = exit_code             ? 0
              : verb == POLICY_SHOW ? client_policy(s.client, &reply)
                                    : client_set_policy(s.client, &r, &reply);
    if (err) {
        session_failed(&s);
        exit_code = err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_UNREACHABLE;
    } else if (!exit_code) {
        show_policy(&s, &reply, verb != POLICY_SHOW);
        api_free(&api_policy_type, &reply);
    }
    session_close(&s);
    return exit_code;
}

int policy_main(int argc, char **argv)
{
    struct policy_options o = {.cutoff_us = UNSET_US,
                               .share_ppm = UINT32_MAX,
                               .min_probes = UINT32_MAX,
                               .steal_cap = UINT32_MAX,
                               .steal_max = UINT32_MAX,
                               .short_first = UINT32_MAX};
    int first = flags_parse(argv[0], policy_flags, common_flags, false, argc, argv, &o);
    int exit_code = first < 0 ? -first : policy_run(&o, argc - first, argv + first);
    flag_list_free(&o.on);
    flag_list_free(&o.off);
    return exit_code;
}
