/* `hawk prune`: old output of tasks on this machine, listed or removed. */
#include "base/mem.h"
#include "base/units.h"
#include "cli/document.h"
#include "cli/print.h"
#include "config/config.h"
#include "daemon/commands.h"
#include "daemon/output_dir.h"
#include "daemon/retention.h"
#include "net/join_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char prune_details[] =
    "DIR is a directory of tasks' output. Without one these are worker.output_dir and up.output_dir of the\n"
    "configuration, as far as they are here, and beside them those of more than one `hawk up` and of\n"
    "`hawk up --join-dir`. Without --older and --max-size its output_keep and output_max hold.\n"
    "Output that a running task writes to stays, and what was written to within the last 10 s.\n"
    "\n"
    "examples:\n"
    "  hawk prune --older 30d\n"
    "  sudo -u hawk hawk prune --max-size 50GiB --yes\n";

struct options {
    const char *config, *output;
    int64_t older_us, max_bytes;
    bool yes;
};

const struct flag prune_flags[] = {
    FLAG_ABOVE_0(struct options, older_us, "older", 0, "TIME",
                 "what was last written to longer ago, like 30d"),
    FLAG(SIZE, struct options, max_bytes, "max-size", 0, "SIZE",
         "the oldest, until what is left takes no more room, like 50G"),
    FLAG(BOOL, struct options, yes, "yes", 'y', NULL, "remove it"),
    FLAG(TEXT, struct options, config, "config", 0, "FILE", "the configuration that names the directories"),
    FLAG(CHOICE, struct options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

struct report {
    struct text_table table;
    json_t *list;
    uint32_t jobs;
    uint64_t bytes, left_bytes;
    const char *dirs[2]; /* the first ones that were looked at */
    uint32_t dirs_n;
};

/* The directories, each with its rules. */
struct plan {
    struct retention *v;
    uint32_t n, cap;
};

static int prune_one(const struct options *o, const struct retention *rules, struct report *report)
{
    struct retention r = *rules;
    struct retention_result result;
    char id[JOB_ID_TEXT], bytes[32];
    r.dry_run = !o->yes;
    if (retention_apply(&r, &result)) {
        say_error("prune", "%s: %s", r.dir, strerror(errno));
        return HAWK_EXIT_FAILED;
    }
    for (uint32_t i = 0; i < result.gone_n; i++) {
        const struct retention_job *job = &result.gone[i];
        json_array_append_new(report->list,
                              json_pack("{s:s, s:o, s:I, s:I}", "job", job_id_format(id, job->job), "dir",
                                        json_text(r.dir), "age_us", (json_int_t)job->age_us, "bytes",
                                        (json_int_t)job->bytes));
        table_cell(&report->table, "%s", id);
        table_cell(&report->table, "%s", DURATION(job->age_us));
        table_cell(&report->table, "%s", size_format(bytes, sizeof bytes, job->bytes));
        table_cell(&report->table, "%s", r.dir);
    }
    if (report->dirs_n < sizeof report->dirs / sizeof *report->dirs)
        report->dirs[report->dirs_n] = r.dir;
    report->dirs_n++;
    report->jobs += result.gone_n;
    report->bytes += result.bytes;
    report->left_bytes += result.left_bytes;
    free(result.gone);
    return HAWK_EXIT_OK;
}

/* Where there was nothing to remove. */
static void print_dirs(const struct report *report)
{
    if (report->dirs_n == 1)
        printf("looked in %s\n", report->dirs[0]);
    else if (report->dirs_n == 2)
        printf("looked in %s and %s\n", report->dirs[0], report->dirs[1]);
    else if (report->dirs_n == 0)
        printf("neither worker.output_dir nor up.output_dir is on this machine, "
               "or the configuration keeps all in them\n");
}

static void print_report(const struct options *o, struct report *report)
{
    char bytes[32], left[32];
    if (document_wanted()) {
        document_print(json_pack("{s:O, s:I, s:I, s:b}", "jobs", report->list, "bytes",
                                 (json_int_t)report->bytes, "left_bytes", (json_int_t)report->left_bytes,
                                 "removed", (int)o->yes));
        table_free(&report->table);
        return;
    }
    if (report->jobs)
        table_print(&report->table, NULL);
    else
        table_free(&report->table);
    printf("%u job%s, %s %s; %s are left%s\n", report->jobs, PLURAL(report->jobs),
           size_format(bytes, sizeof bytes, report->bytes), o->yes ? "removed" : "would be removed",
           size_format(left, sizeof left, report->left_bytes),
           o->yes || !report->jobs ? "" : ". Nothing was: add --yes");
    if (!report->jobs)
        print_dirs(report);
}

/* The rules for one directory: the flags, else the configuration's. */
static struct retention rules_for(const struct options *o, const char *dir, int64_t keep_us,
                                  uint64_t keep_bytes)
{
    bool told = o->older_us || o->max_bytes;
    return (struct retention){.dir = dir,
                              .keep_us = told ? o->older_us : keep_us,
                              .max_bytes = told ? (uint64_t)o->max_bytes : keep_bytes};
}

static void add_rules(struct plan *plan, struct retention r)
{
    vec_grow(plan->v, plan->n, plan->cap);
    r.dir = xstrdup(r.dir);
    plan->v[plan->n++] = r;
}

/* The directories beside it that is_beside() knows, by the same rules. */
static void add_beside(struct plan *plan, const struct retention *rules,
                       bool (*is_beside)(const char *name, const char *first))
{
    const char *leaf = strrchr(rules->dir, '/');
    char parent[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    DIR *d;

    if (!leaf)
        return;
    snprintf(parent, sizeof parent, "%.*s", (int)(leaf - rules->dir), rules->dir);
    d = opendir(*parent ? parent : "/");
    for (struct dirent *e; d && (e = readdir(d));) {
        struct retention r = *rules;
        r.dir = path;
        snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        if (is_beside(e->d_name, leaf + 1))
            add_rules(plan, r);
    }
    if (d)
        closedir(d);
}

static void make_plan(struct plan *plan, const struct options *o, const struct config *c, int argc,
                      char **argv)
{
    struct retention worker = rules_for(o, c->worker.output_dir, c->worker.output_keep, c->worker.output_max);
    struct retention up = rules_for(o, c->up.output_dir, c->up.output_keep, c->up.output_max);
    struct retention joined = up;

    for (int i = 0; i < argc; i++)
        add_rules(plan, rules_for(o, argv[i], worker.keep_us, worker.max_bytes));
    if (argc)
        return;
    add_rules(plan, worker);
    if (strcmp(worker.dir, up.dir) != 0)
        add_rules(plan, up);
    if (config_is_default(c, "up.output_dir")) /* else `hawk up` uses none beside it */
        add_beside(plan, &up, output_dir_is_beside);
    joined.dir = worker.dir;
    add_beside(plan, &joined, join_dir_is_output);
}

static int prune_all(const struct options *o, const struct config *c, int argc, char **argv)
{
    struct report report = {.list = json_array()};
    struct plan plan = {0};
    int code = HAWK_EXIT_OK;
    bool any = false;

    table_columns(&report.table, "!JOB", ">AGE", ">SIZE", "?DIRECTORY", NULL);
    make_plan(&plan, o, c, argc, argv);
    for (uint32_t i = 0; i < plan.n; i++) {
        const struct retention *r = &plan.v[i];
        any = any || r->keep_us || r->max_bytes;
        if (!code && (r->keep_us || r->max_bytes) && (argc || access(r->dir, F_OK) == 0))
            code = prune_one(o, r, &report);
    }
    if (!any)
        code = usage_error(
            "prune: say what is old: --older TIME or --max-size SIZE (the configuration keeps all)");
    if (code == HAWK_EXIT_OK)
        print_report(o, &report);
    else
        table_free(&report.table);
    json_decref(report.list);
    for (uint32_t i = 0; i < plan.n; i++)
        free((char *)(uintptr_t)plan.v[i].dir);
    free(plan.v);
    return code;
}

int prune_main(int argc, char **argv)
{
    struct options o = {0};
    struct config c;
    char *config_argv[] = {argv[0], (char[]){"--config"}, NULL, NULL};
    int first = flags_parse("prune", prune_flags, NULL, false, argc, argv, &o);
    if (first < 0)
        return -first;
    if (o.config)
        config_argv[2] = (char *)(uintptr_t)o.config;
    config_init(&c);
    int code = config_from_args(&c, "config", o.config ? 3 : 1, config_argv);
    if (!code)
        code = prune_all(&o, &c, argc - first, argv + first);
    config_free(&c);
    return code;
}
